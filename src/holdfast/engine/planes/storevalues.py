"""Values of the store, of the bytes that a map holds for them."""

from typing import Any

from holdfast.engine.core.decoding import check_bytes, check_packed
from holdfast.engine.objects import content
from holdfast.engine.objects.reader import Objects
from holdfast.entries import Blob, Inline, decode_entry, encode_entry
from holdfast.errors import Damaged, shorten
from holdfast.store.codec import decode
from holdfast.storekeys import from_store_key


def decode_value(data: bytes) -> Any:
    """Returns the value of msgpack bytes: plain data, never an object of a named class."""
    try:
        return decode(data)
    except ValueError as exc:
        message = f"a value of {len(data)} bytes cannot be read: {exc}"
        raise Damaged(message) from exc


def value_of(objects: Objects, key: bytes, data: bytes) -> Any:
    """Returns the value that an entry under a key stands for; raises `TooLarge`."""
    entry = entry_of(data)
    if isinstance(entry, Inline):
        return decode_value(entry.data)
    packed = _read(objects, key, entry)
    check_packed(objects.limits, packed, what=called(key))
    return decode_value(packed)


def data_of(objects: Objects, key: bytes, data: bytes) -> bytes:
    """Returns the same as the msgpack that it is stored as."""
    entry = entry_of(data)
    return entry.data if isinstance(entry, Inline) else _read(objects, key, entry)


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
