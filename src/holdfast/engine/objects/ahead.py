"""Reads the content of many entries in their order, and looks some of them ahead.

Where the content of a group lies is one question to the catalog, and asked before the group before
is read: a bucket hears of it that early, and fetches while the caller is busy. What is ahead is a
number of places, with the blocks that lie in rows: two groups, whatever the entries hold.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

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
