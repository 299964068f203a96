"""Bodies on their way in: what the disk says, and what a client that stops early has sent."""

import asyncio
import resource
import signal
import tarfile
import tempfile
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.engine.archives.survey import BEGINNING_BYTES
from holdfast.errors import QuotaExceeded, StorageFull, TooLarge, UnsafeArchive
from holdfast.server.config import Config
from holdfast.server.problems import Unfit
from holdfast.server.requests import CUT_OFF
from holdfast.server.room import Room, Taken
from holdfast.server.uploads import SHRINKS, SPOOLED_BYTES, Upload

ROOM = Room(Config(data=Path(tempfile.gettempdir())))


@dataclass
class Body:
    """A request of which only the body counts, and the quotas that it meets."""

    pieces: list[bytes]
    headers: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    is_cut: bool = False
    tenant_quota: int | None = None
    quota: int | None = None
    taken: Taken = field(default_factory=lambda: Taken(ROOM, "t", "k"))

    @property
    def admitted(self) -> Any:
        vault = SimpleNamespace(quota=lambda: self.tenant_quota, stored_bytes=lambda: 0)
        return SimpleNamespace(vault=vault)

    def upload(self, *, max_bytes: int, is_file: bool = True, is_plain: bool = False) -> Upload:
        agent = SimpleNamespace(
            name="n", quota=lambda: self.quota, size=lambda: SimpleNamespace(bytes=0)
        )
        return Upload(
            cast("Any", self),
            cast("Any", agent),
            max_bytes=max_bytes,
            is_file=is_file,
            is_plain=is_plain,
        )

    async def stream(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.is_cut:
            raise Unfit(CUT_OFF)


def spool(body: Body, *, max_bytes: int) -> bytes:
    async def read() -> bytes:
        try:
            async with body.upload(max_bytes=max_bytes).opened() as file:
                return file.read()
        finally:
            body.taken.give_back()

    return asyncio.run(read())


def keep(body: Body, *, max_bytes: int = 99, is_plain: bool = False) -> bytes:
    async def read() -> bytes:
        upload = body.upload(max_bytes=max_bytes, is_file=False, is_plain=is_plain)
        async with upload.written() as path:
            return path.read_bytes()

    return asyncio.run(read())


@pytest.mark.parametrize("sizes", [[], [0], [1], [SPOOLED_BYTES], [SPOOLED_BYTES, 1], [7] * 9])
def test_a_body_comes_out_as_it_went_in(sizes: list[int]) -> None:
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    assert spool(Body(pieces), max_bytes=sum(sizes)) == b"".join(pieces)
    assert keep(Body(pieces), max_bytes=sum(sizes)) == b"".join(pieces)


@pytest.mark.parametrize(
    "body", [Body([b"123", b"4"]), Body([], headers={b"content-length": b"4"}), Body([b"1234"])]
)
def test_a_body_that_is_too_large_is_refused(body: Body) -> None:
    with pytest.raises(TooLarge):
        spool(body, max_bytes=3)


def test_a_body_that_is_cut_off_is_no_body() -> None:
    with pytest.raises(Unfit):
        spool(Body([b"123"], is_cut=True), max_bytes=9)


@pytest.mark.parametrize("headers", [{}, {b"content-length": b"%d" % (SPOOLED_BYTES + 1)}])
def test_a_file_is_held_against_both_quotas_before_it_is_on_disk(
    headers: dict[bytes, bytes],
) -> None:
    pieces, most = [b"x" * SPOOLED_BYTES, b"y"], SPOOLED_BYTES + 1
    fitting = Body(pieces, headers, tenant_quota=most // SHRINKS + 1, quota=most)
    assert len(spool(fitting, max_bytes=most)) == most
    for body in (
        Body(pieces, headers, tenant_quota=most // SHRINKS - 1),
        Body(pieces, headers, quota=most - 1),
    ):
        with pytest.raises(QuotaExceeded) as refused:
            spool(body, max_bytes=most)
        assert refused.value.needed_bytes == most


def test_an_archive_is_longer_than_what_a_namespace_takes_of_it() -> None:
    assert keep(Body([b"123"], quota=1)) == b"123"
    with pytest.raises(QuotaExceeded):
        keep(Body([b"x" * (SHRINKS + 1)], tenant_quota=1))


def test_a_tar_file_says_in_its_headers_that_it_is_too_much() -> None:
    short, large = tarfile.TarInfo("a"), tarfile.TarInfo("b")
    short.size, large.size = BEGINNING_BYTES, 1 << 33
    first = short.tobuf() + bytes(BEGINNING_BYTES)
    pieces = [first, large.tobuf(), *[bytes(1 << 20)] * 9]
    fits, most = Body(pieces, quota=1 << 34), 99 << 20
    assert keep(fits, max_bytes=most, is_plain=True) == b"".join(pieces)
    # Among what comes first is another file, which would fit, and then half of a header.
    for begun in (pieces, [first, large.tobuf()[:300], large.tobuf()[300:], *pieces[2:]]):
        with pytest.raises(QuotaExceeded) as refused:
            keep(Body(begun, quota=1 << 32), max_bytes=most, is_plain=True)
        assert refused.value.needed_bytes > large.size
    for wrong in (b"no tar file", b"\x1f\x8b"):
        with pytest.raises(UnsafeArchive):
            keep(Body([wrong.ljust(9 << 20, b"x")]), max_bytes=most, is_plain=True)


@contextmanager
def files_up_to(most: int) -> Generator[None]:
    """Lets no file of this process grow beyond a size: what a disk says that takes no more."""
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.SIG_IGN
    handler = signal.signal(signal.SIGXFSZ, ignored)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("more", [1, 1 << 20])
def test_a_disk_that_takes_no_more_is_called_full_whenever_it_says_so(
    more: int, tmp_path: Path
) -> None:
    """A single byte more is written when the file is read, or closed."""
    for use in (spool, keep):
        body = Body([b"x" * SPOOLED_BYTES, b"y" * more])
        body.taken = Taken(Room(Config(data=tmp_path)), "t", "k")
        with files_up_to(SPOOLED_BYTES), pytest.raises(StorageFull):
            use(body, max_bytes=4 * SPOOLED_BYTES)
        assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_called_that(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def on_a_full_disk(**_: object) -> Any:
        # By another name, since an upload's file is removed in the end.
        tmp_path.joinpath("upload").symlink_to("/dev/full")
        return tmp_path.joinpath("upload").open("wb")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", on_a_full_disk)
    with pytest.raises(StorageFull):
        keep(Body([b"x" * SPOOLED_BYTES]), max_bytes=SPOOLED_BYTES)
