"""Uploads: spooled first, to memory while they are short and to the vault's disk after that.

The engine reads them from there in its own thread, and a client that goes away has written nothing.
Before bytes land on disk they are held against what the tenant may store, and against what the
disk has left.
"""

import tempfile
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, cast

from holdfast.engine.archives.survey import BEGINNING_BYTES, announced, announced_files
from holdfast.engine.namespace import Namespace
from holdfast.errors import NamespaceNotFound, QuotaExceeded
from holdfast.errors.system import translated
from holdfast.server.requests import Request
from holdfast.server.room import given_up, upload_in
from holdfast.server.threads import Work, in_thread
from holdfast.server.transfer import too_large

SPOOLED_BYTES: Final = 1 << 20
"""Up to here an upload stays in memory."""

SHRINKS: Final = 8
"""What a tenant stores is compressed and shared, and its quota counts that; an upload of more than
so many quotas is not taken, although it might shrink to one."""

_KEPT: Final = "an upload could not be kept"

_in_turn = partial(in_thread, work=Work.PIECES)


@dataclass(frozen=True, slots=True)
class _Quota:
    """What an upload is held against before its bytes land."""

    owner: str
    used_bytes: int
    quota_bytes: int
    most: int
    """What is longer than this does not fit, whatever it is made of."""

    def check(self, size: int) -> None:
        """Raises `QuotaExceeded` for an upload of such a size."""
        if size > self.most:
            raise QuotaExceeded(
                self.owner,
                used_bytes=self.used_bytes,
                needed_bytes=size,
                quota_bytes=self.quota_bytes,
            )


@dataclass(slots=True)
class Upload:
    """A body that is to be spooled; raises a `LimitExceeded` where there is no room for it."""

    request: Request
    agent: Namespace
    _: KW_ONLY
    max_bytes: int
    is_file: bool = True
    """A file counts for as much as it is long; an archive is longer than what is in it."""
    is_plain: bool = False
    """Whether it is an archive without a manifest: then all its headers say how much is in it."""
    _quotas: list[_Quota] | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[BinaryIO]:
        """Opens it as a file at its beginning, in memory while it is short."""
        size, folder = 0, str(self.request.taken.room.folder)
        with given_up(tempfile.SpooledTemporaryFile(SPOOLED_BYTES, dir=folder)) as spooled:
            async for piece in self._pieces(SPOOLED_BYTES):
                size += len(piece)
                with translated(_KEPT):
                    # Only beyond that size is there a disk to wait for.
                    if size > SPOOLED_BYTES:
                        await _in_turn(spooled.write, piece)
                    else:
                        spooled.write(piece)
            with translated(_KEPT):
                spooled.seek(0)  # Which writes what was not written yet.
            yield cast("BinaryIO", spooled)

    @asynccontextmanager
    async def written(self) -> AsyncGenerator[Path]:
        """Writes it to a file, which goes with the block."""
        with ExitStack() as stack:
            with translated(_KEPT):
                file = stack.enter_context(upload_in(self.request.taken.room.folder))
            size, due = 0, BEGINNING_BYTES
            async for piece in self._pieces(0):
                size += len(piece)
                with translated(_KEPT):
                    await _in_turn(file.write, piece)
                if 0 < due < size:
                    # Seldom enough that headers are read twice at the most; there may be many.
                    due = 2 * size if self.is_plain else 0
                    work = Work.LONG if self.is_plain else Work.PIECES
                    await in_thread(self._check_beginning, file, work=work)
            with translated(_KEPT):
                await _in_turn(file.flush)
            yield Path(file.name)

    async def _pieces(self, unspooled: int) -> AsyncGenerator[bytes]:
        """Yields the pieces; beyond so many bytes, each once there is room on disk for it."""
        taken = self.request.taken
        expected = int(self.request.headers.get(b"content-length", b"0"))
        await self._check(expected, unspooled)
        if expected > unspooled:
            await taken.take_disk(expected)
        size = 0
        async for piece in self.request.stream():
            before, size = size, size + len(piece)
            await self._check(size, unspooled)
            if size > unspooled:
                taken.write(len(piece) if before > unspooled else size)
            yield piece

    async def _check(self, size: int, unspooled: int) -> None:
        """Raises for what is too large; where it is to be spooled, for what no quota takes."""
        if size > self.max_bytes:
            raise too_large(self.max_bytes)
        if size > unspooled:
            if self._quotas is None:
                self._quotas = await in_thread(self._read_quotas)
            for quota in self._quotas:
                quota.check(size)

    def _check_beginning(self, file: BinaryIO) -> None:
        """Raises for what is no archive, or says that it is too much, before the rest has come."""
        with translated(_KEPT):
            file.flush()
        said = announced_files(file.name) if self.is_plain else announced(file.name).size
        for quota in self._of_namespace():
            quota.check(said.bytes)

    def _read_quotas(self) -> list[_Quota]:
        found, vault = list[_Quota](), self.request.admitted.vault
        if (most := vault.quota()) is not None:
            found.append(_Quota("the tenant", vault.stored_bytes(), most, most * SHRINKS))
        if self.is_file:
            found += self._of_namespace()
        return found

    def _of_namespace(self) -> list[_Quota]:
        with suppress(NamespaceNotFound):
            if (most := self.agent.quota()) is not None:
                name, used = f"namespace {self.agent.name!r}", self.agent.size().bytes
                return [_Quota(name, used, most, most)]
        return []
