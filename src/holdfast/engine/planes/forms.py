"""The forms that entries have: in maps, in pending rows, and as tasks note them.

The content of a file that is pending may lie in its row; in a map, what is long is chunks.

So it is with a memory, whose chunks the snapshot has brought into the map. What a task notes is in
no map yet, maybe never: there all is in the entry itself. So noting a change stores no object, and
nothing that is noted can be lost to the collector. A memory has few bytes, and one form alone is
noted, whoever changes it: two of them can be compared.
"""

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from holdfast.engine.objects import content
from holdfast.entries import (
    INLINE_TAGS,
    Blob,
    Inline,
    Memory,
    decode_entry,
    encode_entry,
    tag_of,
    twin_of,
    with_twin,
)
from holdfast.errors import Damaged, ObjectMissing, PackMissing


def settle_file(sink: content.Sink, data: bytes) -> bytes:
    """Returns an entry of the files plane as maps have it; what it needs goes to the sink.

    The content of a file that is pending may lie in its row.
    """
    if len(data) <= content.INLINE_BYTES or tag_of(data) not in INLINE_TAGS:
        return data
    entry = decode_entry(data)
    if not isinstance(entry, Inline) or entry.size <= content.INLINE_BYTES:
        return data
    cut = content.as_file(sink, entry.data)
    dressed = msgspec.structs.replace(cut, mode=entry.mode, mtime_ns=entry.mtime_ns)
    return encode_entry(with_twin(dressed, twin_of(entry)))


def settle_files(
    sink: content.Sink, rows: Mapping[bytes, bytes | None]
) -> dict[bytes, bytes | None]:
    """Returns rows of the files plane as maps have them; what they need goes to the sink."""
    return {key: None if entry is None else settle_file(sink, entry) for key, entry in rows.items()}


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
