"""What a map holds for a key, and its bytes.

An entry is one of: bytes kept in place (`Inline`), a list of chunks (`Blob`), a symbolic
link (`Link`), a directory (`Directory`) or another map (`Submap`). Encoding is canonical:
equal entries have equal bytes, which is what makes equal maps have equal roots. The bytes
are documented in `docs/format.md`; tags and field order are part of the format. A surplus
field is refused: skipping over one, msgspec would follow hostile nesting without end.

An entry is bounded (a few KB), however large what it stands for is: a `Blob` with many
chunks keeps its list of chunks in chunks (`depth`).
"""

from typing import Final

import msgspec

from holdfast.errors import Damaged
from holdfast.ids import OBJECT_ID_BYTES, ObjectId

REF_BYTES: Final = OBJECT_ID_BYTES + 4
"""A reference to a chunk: its id, then its size as a big-endian u32."""


class Inline(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=0):
    """A small file or value, kept in the map node itself."""

    data: bytes
    mode: int = 0
    mtime_ns: int = 0

    @property
    def size(self) -> int:
        """The number of content bytes."""
        return len(self.data)


class Blob(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=1):
    """A file or value stored as chunks.

    `refs` is a run of `REF_BYTES` references. At depth 0 they name the content's chunks; at
    depth n they name the chunks of the reference list of depth n-1.
    """

    size: int
    depth: int
    refs: bytes
    mode: int = 0
    mtime_ns: int = 0


class Link(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=2):
    """A symbolic link: data, never followed by holdfast."""

    target: bytes
    mtime_ns: int = 0

    @property
    def size(self) -> int:
        """The length of the target."""
        return len(self.target)


class Directory(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=3):
    """A directory that needs saying: it is empty, or its mode is not the usual one."""

    mode: int

    @property
    def size(self) -> int:
        """Directories hold no bytes of their own."""
        return 0


class Submap(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=4):
    """Another map, by its root and its number of entries."""

    root: bytes
    count: int

    @property
    def size(self) -> int:
        """A map holds no bytes of its own."""
        return 0


Entry = Inline | Blob | Link | Directory | Submap

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    """Returns the canonical bytes of an entry."""
    return _encoder.encode(entry)


def decode_entry(data: bytes) -> Entry:
    """Returns the entry that these bytes stand for; raises `Damaged` if they are none."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        message = f"an entry of {len(data)} bytes cannot be decoded: {exc}"
        raise Damaged(message) from exc


def pack_ref(object_id: ObjectId, size: int) -> bytes:
    """Returns the bytes of one reference to a chunk."""
    return object_id + size.to_bytes(4, "big")


def unpack_refs(refs: bytes) -> list[tuple[ObjectId, int]]:
    """Returns the references in a run of them, as (id, size)."""
    if len(refs) % REF_BYTES:
        message = f"a reference list of {len(refs)} bytes is not whole"
        raise Damaged(message)
    return [
        (
            ObjectId(refs[at : at + OBJECT_ID_BYTES]),
            int.from_bytes(refs[at + OBJECT_ID_BYTES : at + REF_BYTES], "big"),
        )
        for at in range(0, len(refs), REF_BYTES)
    ]
