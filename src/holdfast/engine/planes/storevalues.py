"""Values of the store, of the bytes that a map holds for them."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from holdfast.engine.core.decoding import check_bytes, check_packed
from holdfast.engine.objects import content
from holdfast.engine.objects.reader import Objects
from holdfast.entries import REF_BYTES, Blob, Inline, decode_entry, encode_entry
from holdfast.errors import Damaged, shorten
from holdfast.ids import OBJECT_ID_BYTES, ObjectId
from holdfast.store.codec import decode
from holdfast.storekeys import from_store_key

_BATCH: Final = 1000
"""Entries whose chunks are looked up together."""


def decode_value(data: bytes) -> Any:
    """Returns the value of msgpack bytes: plain data, never an object of a named class."""
    try:
        return decode(data)
    except ValueError as exc:
        message = f"a value of {len(data)} bytes cannot be read: {exc}"
        raise Damaged(message) from exc


def value_of(objects: Objects, key: bytes, data: bytes) -> Any:
    """Returns the value that an entry under a key stands for; raises `TooLarge`."""
    return unpacked(objects, key, packed_of(objects, key, data))


def packed_of(objects: Objects, key: bytes, data: bytes) -> bytes:
    """Returns the same as the msgpack that it is stored as."""
    entry = entry_of(data)
    return entry.data if isinstance(entry, Inline) else _read(objects, key, entry)


def unpacked(objects: Objects, key: bytes, packed: bytes) -> Any:
    """Returns the value of the msgpack under a key; raises `TooLarge`."""
    most = objects.limits.decoded_values
    if most is not None and len(packed) > most:
        check_packed(objects.limits, packed, what=called(key))
    return decode_value(packed)


def iter_packed(
    objects: Objects, rows: Iterable[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the msgpack of many entries, each behind its key.

    A value of a few KB is one chunk: those of a whole batch are found with one question.
    """
    remaining = iter(rows)
    while batch := list(islice(remaining, _BATCH)):
        entries = [(key, entry_of(data)) for key, data in batch]
        inline = [(key, entry.data) for key, entry in entries if isinstance(entry, Inline)]
        if len(inline) == len(entries):
            yield from inline
            continue
        single = [
            _first_ref(entry)
            for _, entry in entries
            if isinstance(entry, Blob) and not entry.depth and len(entry.refs) == REF_BYTES
        ]
        chunks = objects.get_short(single)
        for key, entry in entries:
            if isinstance(entry, Inline):
                yield key, entry.data
                continue
            found = chunks.get(_first_ref(entry), b"")
            yield key, found if len(found) == entry.size else _read(objects, key, entry)


def _first_ref(blob: Blob) -> ObjectId:
    return ObjectId(blob.refs[:OBJECT_ID_BYTES])


def entry_of(data: bytes) -> Inline | Blob:
    """Returns the entry of a value; raises `Damaged` for one of something else."""
    entry = decode_entry(data)
    if not isinstance(entry, Inline | Blob):
        message = "an entry of the store is not a value"
        raise Damaged(message)
    return entry


def called(key: bytes) -> str:
    """Returns what a value is called in a message."""
    return "the value of {1} in {0}".format(*map(shorten, from_store_key(key)))


def _read(objects: Objects, key: bytes, entry: Blob) -> bytes:
    check_bytes(objects.limits, entry.size, what=called(key))
    return content.read(objects, entry)


def settle_value(sink: content.Sink, data: bytes) -> bytes:
    """Returns the entry of a value as maps have it; what it needs goes to the sink.

    One that is pending may lie in its row.
    """
    if len(data) <= content.INLINE_BYTES:
        return data
    entry = entry_of(data)
    if isinstance(entry, Blob) or entry.size <= content.INLINE_BYTES:
        return data
    return encode_entry(content.as_value(sink, entry.data))
