"""What a map holds for a key, and its bytes.

An entry is one of: bytes kept in place (`Inline`), a list of chunks (`Blob`), a symbolic
link (`Link`), a directory (`Directory`), another map (`Submap`), a session (`Session`), whose
state may be another map, or a memory (`Memory`). A file with several names
(hard links) has an entry under each, and each says which name is the first (`InlineTwin`,
`BlobTwin`): who does not care sees an ordinary file. Encoding is canonical:
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


class InlineTwin(Inline, frozen=True, array_like=True, forbid_unknown_fields=True, tag=5):
    """A small file with several names: `twin` is the first of them, as a key of the same map."""

    twin: bytes = b""


class BlobTwin(Blob, frozen=True, array_like=True, forbid_unknown_fields=True, tag=6):
    """A file stored as chunks that has several names: `twin` is the first of them."""

    twin: bytes = b""


class Session(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=7):
    """A session: its state, how far its conversation has come, and what is known of it.

    `state` is an entry of its own: the JSON text of all of it while that is short, else a map
    from keys to entries with JSON text. `bytes` is the length of that text. The conversation is
    the first `turns` turns of a branch.
    """

    state: bytes
    bytes: int
    branch: str
    turns: int
    agent_id: str
    user_id: str | None
    metadata: str
    created_us: int
    expires_us: int | None

    @property
    def size(self) -> int:
        """The bytes of the state."""
        return self.bytes


class Splice(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A text that begins and ends as another does: how much of that stays, and what is between."""

    begin: int
    end: int
    middle: bytes


class Overlay(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=8):
    """A session's state as the map that it was, and what has changed since.

    In rows alone, never in a map: there one state would have many forms. `changes` has the JSON
    text of keys, in order, or how it differs from the key's text in the map.
    """

    root: bytes
    count: int
    changes: dict[str, bytes | Splice]

    @property
    def below(self) -> Submap:
        """The map that it was."""
        return Submap(self.root, self.count)


class Packed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=9):
    """A session's state as an inline entry, compressed: in rows alone, never in a map."""

    frame: bytes


class Memory(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=10):
    """A memory: what was remembered, whom it is about, and what it is found by.

    `body` is an entry of its own, inline or of chunks: content, tags and metadata. So is
    `embedding`. `bytes` is the length of the content.
    """

    body: bytes
    embedding: bytes | None
    bytes: int
    kind: str
    session_id: str | None
    user_id: str | None
    agent_id: str | None
    is_searchable: bool
    version: int
    created_us: int
    updated_us: int

    @property
    def size(self) -> int:
        """The bytes of the content."""
        return self.bytes


class InRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=11):
    """A memory as its row has it: among what is pending alone, never in a map."""


Entry = Inline | Blob | Link | Directory | Submap | InlineTwin | BlobTwin | Session | Memory
RowState = Inline | Submap | Overlay | Packed
"""What the state of a session is in a row."""

INLINE_TAG: Final = 0
INLINE_TAGS: Final = (0, 5)
DIRECTORY_TAG: Final = 3
TWIN_TAGS: Final = (5, 6)
OVERLAY_TAG: Final = 8
PACKED_TAG: Final = 9
MEMORY_TAG: Final = 10
"""What `tag_of` says of some entries."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Entry)
_state_decoder: Final = msgspec.msgpack.Decoder(RowState)


def encode_entry(entry: Entry | Overlay | Packed | InRow) -> bytes:
    """Returns the canonical bytes of an entry."""
    return _encoder.encode(entry)


IN_ROW: Final = encode_entry(InRow())
"""What is pending of a memory: its row holds it."""


def decode_entry(data: bytes) -> Entry:
    """Returns the entry that these bytes stand for; raises `Damaged` if they are none."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        message = f"an entry of {len(data)} bytes cannot be decoded: {exc}"
        raise Damaged(message) from exc


def decode_row_state(data: bytes) -> RowState:
    """Returns what a row has for a session's state; raises `Damaged` if these bytes are none."""
    try:
        return _state_decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        message = f"a session's state of {len(data)} bytes is of no known form: {exc}"
        raise Damaged(message) from exc


def blobs_of(entry: Entry | RowState | None) -> list[Blob]:
    """Returns what an entry has stored as chunks: itself, or parts of it."""
    if not isinstance(entry, Memory):
        return [entry] if isinstance(entry, Blob) else []
    parts = [decode_entry(data) for data in (entry.body, entry.embedding) if data is not None]
    if not all(isinstance(part, Inline | Blob) for part in parts):
        raise Damaged("a part of a memory is neither bytes nor chunks")
    return [part for part in parts if isinstance(part, Blob)]


def tag_of(data: bytes) -> int:
    """Returns the tag that an entry begins with, without decoding it; -1 if it is too short."""
    return data[1] if len(data) > 1 else -1


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


TIMES: Final = range(-(2**63), 2**64)
"""Nanoseconds that fit into an entry; what of it a disk can hold is the disk's to say."""


def storable(time_ns: int) -> int:
    """Returns the nearest time that an entry can hold: some file systems know years beyond 2554."""
    return min(max(time_ns, TIMES.start), TIMES.stop - 1)


def twin_of(entry: Entry | None) -> bytes:
    """Returns the first name of a file that has several; empty for all other entries."""
    return entry.twin if isinstance(entry, InlineTwin | BlobTwin) else b""


def with_twin(entry: Inline | Blob, twin: bytes) -> Inline | Blob:
    """Returns the entry of the same file as one of several names, or (empty) as the only one."""
    if isinstance(entry, Blob):
        whole = (entry.size, entry.depth, entry.refs, entry.mode, entry.mtime_ns)
        return BlobTwin(*whole, twin) if twin else Blob(*whole)
    small = (entry.data, entry.mode, entry.mtime_ns)
    return InlineTwin(*small, twin) if twin else Inline(*small)
