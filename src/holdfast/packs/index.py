"""The index of a pack: its table of blocks, and where in them every object is.

An index that decodes has kept these rules, so nothing after it checks them again:

1. Blocks stand back to back between the header and the index, without gap or overlap.
2. No block claims more than `MAX_PLAIN_BYTES`.
3. Every object lies inside one block that exists.
4. Every id is a whole hash, and none is there twice.

The rules hold for hostile indexes too. The hash in the footer tells accidents, and only
those: whoever can write a pack can write a matching hash.
"""

from typing import Annotated, Final

import msgspec

from holdfast.errors import PackDamaged
from holdfast.ids import OBJECT_ID_BYTES, ObjectId
from holdfast.model.basics import Placement
from holdfast.packs.format import HEADER_BYTES, MAX_PLAIN_BYTES
from holdfast.packs.frames import FrameWriter, decompress

OBJECT_ROW_BYTES: Final = 50
"""The most that an object adds to the index: the head of an array of four, a 32-byte id
with its 2-byte head, three integers of up to 5 bytes. Ids do not compress."""

BLOCK_ROW_BYTES: Final = 20
"""The most that a block adds to the index: the head of an array of three, an offset of up to
9 bytes, two sizes of up to 5."""

_Count = Annotated[int, msgspec.Meta(ge=0)]
_PlainSize = Annotated[int, msgspec.Meta(ge=0, le=MAX_PLAIN_BYTES)]
_Id = Annotated[bytes, msgspec.Meta(min_length=OBJECT_ID_BYTES, max_length=OBJECT_ID_BYTES)]


# Rows hold no containers, so Python's garbage collector need not know them: it would walk
# thousands. Unknown fields are forbidden because skipping them recurses into them, and a
# hostile index can nest arrays until the interpreter's stack ends.
class BlockRow(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """One block: its place in the file, and the size of its plain bytes."""

    offset: _Count
    stored_size: _Count
    plain_size: _PlainSize


class ObjectRow(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """One object: its block, by number, and its place in the block's plain bytes."""

    object_id: _Id
    block: _Count
    offset: _PlainSize
    size: _PlainSize


class PackIndex(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a pack holds."""

    blocks: list[BlockRow]
    objects: list[ObjectRow]

    def placements(self) -> list[Placement]:
        """Returns where every object is, in the order of the index."""
        return [self.placement(row) for row in self.objects]

    def placement(self, row: ObjectRow) -> Placement:
        """Returns where one object is."""
        block = self.blocks[row.block]
        return Placement(
            object_id=ObjectId(row.object_id),
            block_offset=block.offset,
            block_size=block.stored_size,
            offset=row.offset,
            size=row.size,
        )


_decoder: Final = msgspec.msgpack.Decoder(PackIndex)


def encode_index(index: PackIndex, frames: FrameWriter) -> bytes:
    """Returns the index as it is stored."""
    return frames.compress(msgspec.msgpack.encode(index))


def decode_index(
    stored: bytes, *, index_offset: int, pack: str, most: int = MAX_PLAIN_BYTES
) -> PackIndex:
    """Returns the index; raises `PackDamaged` unless it keeps all the rules above."""
    plain = decompress(stored, pack=pack, what="its index", most=most)
    try:
        index = _decoder.decode(plain)
    except msgspec.DecodeError as exc:
        raise PackDamaged(pack, reason=f"its index cannot be decoded: {exc}") from exc
    _check_blocks(index, index_offset=index_offset, pack=pack)
    _check_objects(index, pack=pack)
    return index


def _check_blocks(index: PackIndex, *, index_offset: int, pack: str) -> None:
    """Upholds rule 1; the types of the row uphold rule 2."""
    expected = HEADER_BYTES
    for number, block in enumerate(index.blocks):
        if block.offset != expected:
            raise PackDamaged(
                pack, reason=f"block {number} is said to be at {block.offset}, not at {expected}"
            )
        expected += block.stored_size
    if expected != index_offset:
        raise PackDamaged(
            pack, reason=f"its blocks end at {expected}, its index begins at {index_offset}"
        )


def _check_objects(index: PackIndex, *, pack: str) -> None:
    """Upholds rules 3 and 4; the type of the row upholds the length of the id."""
    plain_sizes = [block.plain_size for block in index.blocks]
    for row in index.objects:
        if row.block >= len(plain_sizes) or row.offset + row.size > plain_sizes[row.block]:
            raise PackDamaged(
                pack, reason=f"object {row.object_id.hex()[:16]} lies outside of its block"
            )
    if len({row.object_id for row in index.objects}) != len(index.objects):
        raise PackDamaged(pack, reason="its index names an object twice")
