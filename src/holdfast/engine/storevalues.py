"""Values of the store, of the bytes that a map holds for them."""

from typing import Any

from holdfast.engine import content
from holdfast.engine.content import ChunkSource
from holdfast.entries import Blob, Inline, decode_entry
from holdfast.errors import Damaged
from holdfast.store.codec import decode


def decode_value(data: bytes) -> Any:
    """Returns the value of msgpack bytes: plain data, never an object of a named class."""
    try:
        return decode(data)
    except ValueError as exc:
        message = f"a value of {len(data)} bytes cannot be read: {exc}"
        raise Damaged(message) from exc


def value_of(source: ChunkSource, data: bytes) -> Any:
    """Returns the value that the bytes of an entry stand for."""
    entry = decode_entry(data)
    if isinstance(entry, Inline):
        return decode_value(entry.data)
    if not isinstance(entry, Blob):
        message = "an entry of the store is not a value"
        raise Damaged(message)
    return decode_value(content.read(source, entry))
