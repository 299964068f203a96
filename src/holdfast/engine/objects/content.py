"""Turns bytes into entries and entries into bytes.

Small content stays in the entry. Larger content becomes chunks, cut where the content says
so: an insertion moves the cuts near it and no others, so that two versions of a large file or
value share all chunks but a few. A long list of chunks is stored the same way, as content of
its own (`depth`), which keeps entries small however large the file is.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, Final, Protocol

import msgspec
from blake3 import blake3

from holdfast.entries import REF_BYTES, Blob, Inline, pack_ref, unpack_refs
from holdfast.errors import Damaged, InvalidValue, TooLarge
from holdfast.ids import ObjectId, object_id_of
from holdfast.model.basics import Root
from holdfast.packs import ObjectKind
from holdfast.tree import NodeSource

INLINE_BYTES: Final = 256
"""Up to here a reference, its index row and a read of its own cost more than the bytes."""

PENDING_BYTES: Final = 16 << 10
"""Up to here a file or value that is pending lies in its row, and is cut when a snapshot folds it
in: that is a third of the work, and none for what is overwritten before. The rows of one write have
room for `Limits.inline_bytes` of it, as other objects in the catalog have."""

MAX_REFS: Final = 8
"""More references than this are stored as content of their own: the entry stays small."""

READ_AHEAD: Final = 32
"""Chunks fetched together while content is streamed."""


_TAG_BYTES: Final = 16


class Cutting(msgspec.Struct, frozen=True):
    """How content is cut into chunks."""

    whole_bytes: int
    """Content up to this size is one chunk."""
    min_bytes: int
    mean_bytes: int
    max_bytes: int


FILES: Final = Cutting(64 << 10, 16 << 10, 64 << 10, 256 << 10)
"""Files change in few places and are many: large chunks keep the index small."""

VALUES: Final = Cutting(4 << 10, 1 << 10, 4 << 10, 16 << 10)
"""Values are rewritten whole for a small change: small chunks keep what is new small."""


class ChunkSource(Protocol):
    """Where chunks are read from."""

    def get_many(self, object_ids: Sequence[ObjectId]) -> Mapping[ObjectId, bytes]:
        """Returns the bytes of each object; raises for one that is missing or damaged."""
        ...


class Source(NodeSource, ChunkSource, Protocol):
    """Where roots, nodes and chunks are read from."""

    def get_root(self, root_id: ObjectId) -> Root:
        """Returns the roots of all planes that one root names."""
        ...


class Sink(Protocol):
    """Where chunks go to: a `Stage`, or somebody who only wants to know their names."""

    def add(self, data: bytes, kind: ObjectKind) -> ObjectId:
        """Takes an object in, and returns its name."""
        ...

    def spill(self) -> None:
        """Makes room, if need be."""
        ...


class NamesOnly:
    """A sink that keeps nothing."""

    def add(self, data: bytes, kind: ObjectKind) -> ObjectId:  # noqa: ARG002 - a sink's method
        """Returns an object's name."""
        return object_id_of(data)

    def spill(self) -> None:
        """Does nothing: there is nothing to make room for."""

    def add_nodes(self, nodes: dict[ObjectId, bytes]) -> None:
        """Does nothing: the caller knows their names."""


class InMemory:
    """A sink that keeps everything, of content that is bounded."""

    def __init__(self) -> None:
        self.objects: dict[ObjectId, tuple[bytes, ObjectKind]] = {}

    def add(self, data: bytes, kind: ObjectKind) -> ObjectId:
        """Takes an object in, and returns its name."""
        object_id = object_id_of(data)
        self.objects[object_id] = data, kind
        return object_id

    def spill(self) -> None:
        """Does nothing: there is room."""


def store(stage: Sink, data: bytes, cutting: Cutting) -> tuple[bytes, Blob | None]:
    """Stages content; returns it to be kept inline, or the blob that stands for it."""
    if len(data) <= INLINE_BYTES:
        return data, None
    if len(data) <= cutting.whole_bytes:
        ref = pack_ref(stage.add(data, ObjectKind.CHUNK), len(data))
        stage.spill()
        return b"", Blob(size=len(data), depth=0, refs=ref)
    return b"", _blob(stage, _cut(data, cutting), len(data))


def store_stream(
    stage: Sink, stream: BinaryIO, *, max_bytes: int, most_inline: int = INLINE_BYTES
) -> Inline | Blob:
    """Stages a file read from a stream, without ever holding all of it; see `as_file`."""
    head = _read_fully(stream, FILES.whole_bytes + 1)
    if len(head) <= min(FILES.whole_bytes, max_bytes):
        return as_file(stage, head, most_inline=most_inline)
    size = 0

    def chunks() -> Iterator[bytes]:
        nonlocal size
        for chunk in _cut_stream(_Rejoined(head, stream), FILES):
            size += len(chunk)
            if size > max_bytes:
                message = f"a file may have {max_bytes} bytes; this one has more"
                raise TooLarge(message)
            yield chunk

    refs = _refs(stage, chunks())
    return _fold_refs(stage, refs, size)


def as_file(stage: Sink, data: bytes, *, most_inline: int = INLINE_BYTES) -> Inline | Blob:
    """Returns the entry of a file with this content, without mode and time.

    One that is for a pending row, and never for a map, may have more of it inline.
    """
    if len(data) <= most_inline:
        return Inline(data)
    kept, blob = store(stage, data, FILES)
    return blob or Inline(kept)


def as_value(stage: Sink, data: bytes) -> Inline | Blob:
    """Returns the entry of an encoded value."""
    kept, blob = store(stage, data, VALUES)
    return blob or Inline(kept)


def read(source: ChunkSource, entry: Inline | Blob) -> bytes:
    """Returns all content of an entry."""
    if isinstance(entry, Inline):
        return entry.data
    return b"".join(stream(source, entry))


def tag_of(entry: Inline | Blob, cutting: Cutting) -> str:
    """Returns a name for the content of an entry: other content has another."""
    # Of content that is cut in pieces, its references stand for it; also while it is in a row.
    if isinstance(entry, Inline) and len(entry.data) > INLINE_BYTES:
        kept, blob = store(NamesOnly(), entry.data, cutting)
        entry = blob or Inline(kept)
    stands_for = entry.data if isinstance(entry, Inline) else entry.refs
    return blake3(stands_for).hexdigest(_TAG_BYTES)


def stream(source: ChunkSource, entry: Inline | Blob) -> Iterator[bytes]:
    """Yields the content of an entry in order, a chunk at a time."""
    if isinstance(entry, Inline):
        yield entry.data
        return
    size = 0
    for chunk in _chunks(source, content_refs(source, entry)):
        size += len(chunk)
        yield chunk
    check_size(entry, size)


def check_size(entry: Inline | Blob, size: int) -> None:
    """Raises `Damaged` if the content of an entry came back with another size."""
    if size != entry.size:
        message = f"content of {entry.size} bytes came back as {size}"
        raise Damaged(message)


def stream_from(source: ChunkSource, entry: Inline | Blob, start: int) -> Iterator[bytes]:
    """Yields the content of an entry from an offset on; chunks before it are not read."""
    if start <= 0 or isinstance(entry, Inline):
        for chunk in stream(source, entry):
            yield chunk[max(start, 0) :]
        return
    refs, before = content_refs(source, entry), 0
    for at, (_, size) in enumerate(refs):
        if before + size > start:
            chunks = _chunks(source, refs[at:])
            yield next(chunks)[start - before :]
            yield from chunks
            return
        before += size


def content_refs(source: ChunkSource, blob: Blob) -> list[tuple[ObjectId, int]]:
    """Returns the references to a blob's content chunks, in order."""
    refs = unpack_refs(blob.refs)
    for _ in range(blob.depth):
        refs = unpack_refs(b"".join(_chunks(source, refs)))
    return refs


def list_refs(source: ChunkSource, blob: Blob) -> Iterator[ObjectId]:
    """Yields every object that a blob needs: its lists of references and its chunks."""
    refs = unpack_refs(blob.refs)
    for _ in range(blob.depth):
        yield from (object_id for object_id, _ in refs)
        refs = unpack_refs(b"".join(_chunks(source, refs)))
    yield from (object_id for object_id, _ in refs)


def _blob(stage: Sink, chunks: Iterable[bytes], size: int) -> Blob:
    return _fold_refs(stage, _refs(stage, chunks), size)


def _fold_refs(stage: Sink, refs: bytes, size: int) -> Blob:
    depth = 0
    while len(refs) > MAX_REFS * REF_BYTES:
        refs = _refs(stage, _cut(refs, VALUES))
        depth += 1
    return Blob(size=size, depth=depth, refs=refs)


def _refs(stage: Sink, chunks: Iterable[bytes]) -> bytes:
    refs = bytearray()
    for chunk in chunks:
        refs += pack_ref(stage.add(chunk, ObjectKind.CHUNK), len(chunk))
        stage.spill()
    return bytes(refs)


def _chunks(source: ChunkSource, refs: Sequence[tuple[ObjectId, int]]) -> Iterator[bytes]:
    for at in range(0, len(refs), READ_AHEAD):
        batch = refs[at : at + READ_AHEAD]
        found = source.get_many([object_id for object_id, _ in batch])
        for object_id, size in batch:
            chunk = found[object_id]
            if len(chunk) != size:
                message = f"a chunk of {size} bytes came back as {len(chunk)}"
                raise Damaged(message)
            yield chunk


def _cut(data: bytes, cutting: Cutting) -> Iterator[bytes]:
    if len(data) <= cutting.whole_bytes:
        yield data
        return
    for chunk in _chunker(cutting).cut_buf(data):
        yield bytes(chunk.data)


def _cut_stream(stream: "_Rejoined", cutting: Cutting) -> Iterator[bytes]:
    for chunk in _chunker(cutting).cut_stream(stream):
        yield bytes(chunk.data)


def _chunker(cutting: Cutting):  # noqa: ANN202 - the class is imported late, with its types
    # Imported when first needed: most agents never store anything that has to be cut.
    from pyfastcdc import FastCDC  # noqa: PLC0415 - 48 ms that a small vault never pays

    return FastCDC(cutting.mean_bytes, min_size=cutting.min_bytes, max_size=cutting.max_bytes)


def _read_fully(stream: BinaryIO, size: int) -> bytes:
    """Returns that many bytes; fewer only at the end.

    A pipe or a socket gives what it has: taken for the end, that would cut the file short.
    """
    parts: list[bytes] = []
    missing = size
    while missing > 0 and (part := _bytes_of(stream.read(missing))):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def _bytes_of(part: object) -> bytes:
    if not isinstance(part, bytes):
        raise InvalidValue("the stream does not give bytes: open it in binary mode")
    return part


class _Rejoined:
    """A stream that begins with bytes already read from it."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def read(self, n: int) -> bytes:
        """Returns up to `n` bytes; none at the end."""
        if self._head:
            data, self._head = self._head[:n], self._head[n:]
            return data
        return _read_fully(self._rest, n)
