"""What an export needs is looked up many entries at a time, and a bucket hears of it early."""

import io
import random
import statistics
from collections.abc import Iterable
from datetime import timedelta

import pytest

from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.port import Catalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.objects.ahead import MOST_ENTRIES
from holdfast.engine.vault import Holdfast
from holdfast.errors import PackMissing
from holdfast.testing.clocks import Watch
from holdfast.testing.counting import asked

FILES = 5 * MOST_ENTRIES


Range = tuple[str, int, int]


class Far(MemoryBlobStore):
    """Blobs that are far away, and what they hear before they are asked."""

    is_remote = True

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        """Forgets what it has heard."""
        self.expected, self.asked = set[Range](), set[Range]()
        self.unexpected = 0
        self.ahead = list[int]()
        """Of how much more it had heard, each time that it was asked."""

    def expect(self, ranges: Iterable[Range], /) -> None:
        self.expected |= {*ranges}

    def get(self, name: str, /, *, start: int = 0, length: int | None = None) -> bytes:
        if length is not None:
            self.asked.add((name, start, length))
            self.unexpected += (name, start, length) not in self.expected
            self.ahead.append(len(self.expected - self.asked))
        return super().get(name, start=start, length=length)


class Away:
    """A vault with all its packs far away, and nothing in memory."""

    def __init__(self, blobs: MemoryBlobStore, catalog: Catalog) -> None:
        self.blobs, self.clock = blobs, Watch()
        limits = Limits(inline_bytes=0, free_floor_bytes=0)
        self.context = Context.of(catalog, blobs, clock=self.clock, limits=limits)
        self.vault = Holdfast(self.context)
        self.alice = self.vault.namespace("alice")

    def write(self, files: int, *, size: int) -> None:
        content = random.Random(size)
        self.alice.files.write_many(
            (f"data/{number:04}", content.randbytes(size)) for number in range(files)
        )

    def export(self) -> bytes:
        sink = io.BytesIO()
        self.alice.export(sink)
        return sink.getvalue()


@pytest.fixture
def far() -> Far:
    return Far()


@pytest.fixture
def away(far: Far, catalog: Catalog) -> Away:
    return Away(far, catalog)


@pytest.mark.parametrize("kind", [Far, MemoryBlobStore])
def test_one_question_finds_the_content_of_many_files(
    catalog: Catalog, kind: type[MemoryBlobStore]
) -> None:
    away = Away(kind(), catalog)
    away.write(FILES, size=3000)
    away.alice.snapshot()
    with asked() as names:
        away.export()
    assert names.count("locate_object") + names.count("locate_objects") < 15


def test_a_bucket_hears_of_content_before_what_is_ahead_of_it_is_read(away: Away, far: Far) -> None:
    away.write(FILES, size=60_000)
    away.alice.snapshot()
    away.context.forget_caches()
    far.begin()
    away.export()
    assert far.unexpected < 10, "roots and nodes by themselves"
    # Two files are in a block.
    assert MOST_ENTRIES // 2 < max(far.ahead) <= MOST_ENTRIES
    assert statistics.median(far.ahead) > MOST_ENTRIES // 4


class Sink(io.BytesIO):
    """A file in which something happens once so much has been written."""

    def __init__(self, away: Away, after: int) -> None:
        super().__init__()
        self._away, self._left = away, after

    def write(self, data: bytes, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - of bytes alone
        written = super().write(data)
        self._left -= written
        if -written <= self._left < 0:  # Once.
            self.happen()
        return written

    def happen(self) -> None:
        """Has a collector move what lives in the largest pack to another, and that one go."""
        size, largest = max((size, name) for name, size in self._away.blobs.iter_names())
        for _ in range(2):
            self._away.clock.wait(timedelta(days=40))
            self._away.vault.collect()
        assert self._away.blobs.find_short({largest: size}) == {largest: 0}
        self._away.context.forget_caches()


def test_what_a_collector_moves_meanwhile_is_found_again(away: Away) -> None:
    away.write(200, size=9000)
    away.alice.snapshot()
    for number in range(40, 200):
        away.alice.files.delete(f"data/{number:04}")
    for number in range(3):  # The one before is kept for an undo.
        away.alice.files.write("number", str(number))
        away.alice.snapshot()
    away.alice.set_retention(keep_last=1)
    whole = away.export()
    sink = Sink(away, after=60_000)
    away.alice.export(sink)
    assert sink.getvalue() == whole


def test_a_lost_pack_is_named_by_who_reads_the_file(away: Away) -> None:
    away.write(8, size=200_000)
    away.alice.snapshot()
    before = {name for name, _ in away.blobs.iter_names()}
    away.alice.files.write("data/0005", random.Random(1).randbytes(60_000))
    (lost,) = {name for name, _ in away.blobs.iter_names()} - before
    away.alice.snapshot()
    away.blobs.delete(lost)
    away.context.forget_caches()
    sink = io.BytesIO()
    with pytest.raises(PackMissing, match=lost):
        away.alice.export(sink)
    assert b"data/0004" in sink.getvalue()
    assert b"data/0006" not in sink.getvalue()
