"""Reads the content of many entries in their order, and looks some of them ahead.

Where the content of a group lies is one question to the catalog, and asked before the group before
is read: a bucket hears of it that early, and fetches while the caller is busy. What is ahead is a
number of places, with the blocks that lie in rows: two groups, whatever the entries hold.

Whatever else takes a while to be made, a thread makes while the one before it is in use (`ahead`).
"""

import threading
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import Final, Generic, TypeVar

from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.stage import StagedObjects
from holdfast.entries import Blob, Entry, decode_entry, unpack_refs
from holdfast.ids import ObjectId

MOST_ENTRIES: Final = 64
MOST_BYTES: Final = 4 << 20
"""A group has no more entries, and is full when their content has so many bytes. Blocks of 64
entries that lie in rows are 8 MB, if each is in another block; with more, a question to the catalog
costs no less for each."""

Content = tuple[bytes, Entry, Objects | StagedObjects]
"""A key, its entry, and where the content of that is read from."""


def look_ahead(
    source: Objects | StagedObjects, rows: Iterable[tuple[bytes, bytes]]
) -> Iterator[Content]:
    """Yields each entry of a map, in order, with where to read its content from."""
    before = list[Content]()
    for group in chain(_groups(rows), [[]]):
        ids = [i for _, entry in group for i in _named_by(entry)]
        objects = source.ahead(ids) if ids else source
        yield from before
        before = [(key, entry, objects) for key, entry in group]


def _groups(rows: Iterable[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, Entry]]]:
    group, size = list[tuple[bytes, Entry]](), 0
    for key, data in rows:
        entry = decode_entry(data)
        group.append((key, entry))
        size += entry.size
        if len(group) == MOST_ENTRIES or size >= MOST_BYTES:
            yield group
            group, size = [], 0
    yield group


def _named_by(entry: Entry) -> list[ObjectId]:
    """Returns the objects that an entry itself names; a long list of others is one of them."""
    refs = unpack_refs(entry.refs) if isinstance(entry, Blob) else []
    return [object_id for object_id, _ in refs]


T = TypeVar("T")

_END: Final = object()


def ahead(items: Iterable[T]) -> Generator[T]:
    """Yields the same items; while one is in use, a thread makes the one after it.

    What making one raises is raised here, in its turn. Whoever stops early closes the generator;
    nothing is being made any more when that returns.
    """
    making = iter(items)
    coming = _Coming(making)
    try:
        while (item := coming.take()) is not _END:
            coming = _Coming(making)
            yield item  # pyright: ignore[reportReturnType] - what is not the end is an item
    finally:
        coming.wait()


class _Coming(Generic[T]):
    """One item in the making, in a thread of its own: that costs 0.1 ms, and leaves nothing."""

    def __init__(self, making: Iterator[T]) -> None:
        self._making = making
        self._item: object = _END
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = threading.Thread(
            target=self._make, name="holdfast-ahead"
        )
        try:
            self._thread.start()
        except RuntimeError:
            # There may be no thread to be had, and there is none when the process ends.
            self._thread = None
            self._make()

    def wait(self) -> None:
        """Returns when it is made."""
        if self._thread is not None:
            self._thread.join()

    def take(self) -> object:
        """Returns it, or the end; raises what making it raised."""
        self.wait()
        if self._failure is not None:
            raise self._failure
        return self._item

    def _make(self) -> None:
        try:
            self._item = next(self._making, _END)
        except BaseException as exc:  # noqa: BLE001 - a test's power cut too: the caller raises it
            self._failure = exc
