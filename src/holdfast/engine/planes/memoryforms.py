"""The two forms of a memory's entry: as maps have it, and as tasks note it.

In a map, what is long is chunks, and the snapshot has brought them there. What a task notes is in
no map yet, maybe never: there all is in the entry itself. So noting a change stores no object, and
nothing that is noted can be lost to the collector. A memory has few bytes, and one form alone is
noted, whoever changes it: two of them can be compared.
"""

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.engine.objects import content
from holdfast.entries import Blob, Inline, Memory, decode_entry, encode_entry
from holdfast.errors import Damaged, ObjectMissing, PackMissing

Part = Callable[[bytes], Inline | Blob]
"""How the bytes of a part become an entry."""


def whole(source: content.ChunkSource, data: bytes | None) -> bytes | None:
    """Returns a memory's entry as tasks note it.

    One that needs what is not there any more stays as it is.
    """
    try:
        return None if data is None else _with_parts(source, data, Inline)
    except (ObjectMissing, PackMissing):
        return data


def settle_memory(sink: content.Sink, source: content.ChunkSource, data: bytes) -> bytes:
    """Returns a memory's entry as maps have it; what it needs goes to the sink."""
    return _with_parts(source, data, lambda part: content.as_value(sink, part))


def memory_of(data: bytes) -> Memory:
    """Returns an entry of the plane; raises `Damaged` if it is no memory."""
    entry = decode_entry(data)
    if not isinstance(entry, Memory):
        raise Damaged("an entry of the memories plane is not a memory")
    return entry


def read_part(source: content.ChunkSource, data: bytes) -> bytes:
    """Returns the bytes of a part of a memory."""
    part = decode_entry(data)
    if isinstance(part, Inline | Blob):
        return content.read(source, part)
    raise Damaged("a part of a memory is neither bytes nor chunks")


def _with_parts(source: content.ChunkSource, data: bytes, make: Part) -> bytes:
    def made(part: bytes) -> bytes:
        return encode_entry(make(read_part(source, part)))

    entry = memory_of(data)
    embedding = None if entry.embedding is None else made(entry.embedding)
    return encode_entry(replace(entry, body=made(entry.body), embedding=embedding))
