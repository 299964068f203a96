"""Builds packs.

Objects of one kind that are added one after the other share a block, so that what is
written together compresses together and is read together. Two blocks are open at a time,
one per kind; an object that would fill a block alone gets one, and leaves the open block
as it was.

The pack is handed out only after its index was read back from the finished bytes with all
the reader's checks; its placements are those that a reader will find, not those the writer
believes in. A wrong offset fails here, while the objects are still at hand.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from blake3 import blake3

from holdfast.errors import PackDamaged, TooLarge
from holdfast.ids import ObjectId
from holdfast.model.basics import Placement
from holdfast.packs.format import (
    BLOCK_TARGET_BYTES,
    FOOTER_BYTES,
    HEADER_BYTES,
    MAX_PLAIN_BYTES,
    PACK_TARGET_BYTES,
    Footer,
    ObjectKind,
    encode_footer,
    encode_header,
)
from holdfast.packs.frames import FRAME_OVERHEAD_BYTES, FrameWriter
from holdfast.packs.index import (
    BLOCK_ROW_BYTES,
    OBJECT_ROW_BYTES,
    BlockRow,
    ObjectRow,
    PackIndex,
    encode_index,
)
from holdfast.packs.reader import parse_index

UNNAMED: Final = "being written"
"""Stands for the pack's name in errors: a pack is named by whoever stores it."""


class Pack(msgspec.Struct, frozen=True):
    """A finished pack: the bytes to store, and where in them each object is."""

    data: bytes
    placements: list[Placement]

    @property
    def plain_bytes(self) -> int:
        """What its objects take before they are compressed."""
        return sum(placement.size for placement in self.placements)


class _OpenBlock(msgspec.Struct):
    """Objects that wait for their block to fill."""

    object_ids: list[ObjectId] = msgspec.field(default_factory=list[ObjectId])
    parts: list[bytes] = msgspec.field(default_factory=list[bytes])
    size: int = 0


class PackBuilder:
    """Collects objects and makes packs of them. Belongs to one thread at a time."""

    def __init__(self) -> None:
        self._frames = FrameWriter()
        self._start()

    def add(self, object_id: ObjectId, data: bytes, *, kind: ObjectKind) -> None:
        """Puts an object into the pack; one that is in it already changes nothing.

        The id is taken on trust: the caller has just computed it, and every reader checks it.
        Raises `TooLarge` for an object above `MAX_PLAIN_BYTES`; the pack is as it was.
        """
        if object_id in self._seen:
            return
        if len(data) > MAX_PLAIN_BYTES:
            message = f"an object of {len(data)} bytes does not fit into a block"
            raise TooLarge(message)
        self._seen.add(object_id)
        target = BLOCK_TARGET_BYTES[kind]
        if len(data) >= target:
            self._close(_OpenBlock([object_id], [data], len(data)))
            return
        block = self._open[kind]
        if block.size + len(data) > target:
            self._close(block)
            block = self._open[kind] = _OpenBlock()
        block.object_ids.append(object_id)
        block.parts.append(data)
        block.size += len(data)

    @property
    def stored_bytes(self) -> int:
        """The most that the pack would take if it were finished now.

        What waits for its block to fill counts uncompressed, so the number can also shrink.
        """
        waiting = sum(block.size + FRAME_OVERHEAD_BYTES for block in self._open.values())
        blocks = len(self._blocks) + len(self._open)
        index = OBJECT_ROW_BYTES * len(self) + BLOCK_ROW_BYTES * blocks + FRAME_OVERHEAD_BYTES
        return self._end + waiting + index + FOOTER_BYTES

    def __len__(self) -> int:
        return len(self._seen)

    def finish(self) -> Pack:
        """Returns the pack of all that was added, and starts afresh with an empty one."""
        for block in self._open.values():
            if block.object_ids:
                self._close(block)
        index = encode_index(PackIndex(self._blocks, self._objects), self._frames)
        footer = Footer(self._end, len(index), blake3(index).digest())
        data = b"".join([encode_header(), *self._stored, index, encode_footer(footer)])
        placements = parse_index(data, pack=UNNAMED)
        if {placement.object_id for placement in placements} != self._seen:
            raise PackDamaged(UNNAMED, reason="its index does not name what was added")
        self._start()
        return Pack(data, placements)

    def _start(self) -> None:
        self._seen: set[ObjectId] = set()
        self._open = {kind: _OpenBlock() for kind in ObjectKind}
        self._blocks: list[BlockRow] = []
        self._objects: list[ObjectRow] = []
        self._stored: list[bytes] = []
        self._end = HEADER_BYTES

    def _close(self, block: _OpenBlock) -> None:
        stored = self._frames.compress(b"".join(block.parts))
        offset = 0
        for object_id, part in zip(block.object_ids, block.parts, strict=True):
            self._objects.append(ObjectRow(object_id, len(self._blocks), offset, len(part)))
            offset += len(part)
        self._blocks.append(BlockRow(self._end, len(stored), block.size))
        self._stored.append(stored)
        self._end += len(stored)


def pack_all(objects: Mapping[ObjectId, tuple[bytes, ObjectKind]]) -> Iterator[Pack]:
    """Yields packs of objects, each full but for the last."""
    if not objects:
        return  # a builder takes 13 µs to make
    builder = PackBuilder()
    for object_id, (data, kind) in objects.items():
        builder.add(object_id, data, kind=kind)
        if builder.stored_bytes >= PACK_TARGET_BYTES:
            yield builder.finish()
    if len(builder):
        yield builder.finish()
