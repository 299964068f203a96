"""Reads packs: one object through its placement, or the index of a whole pack.

Reading an object is `cut(read_block(stored))`: the caller fetches the block's stored bytes
by its placement with one ranged read, and may keep the plain block for its neighbours.

An object that comes back has the hash that names it. Everything else raises: `PackDamaged`
when a part of the pack cannot be read, `ObjectDamaged` when the bytes are not the object's,
`VaultTooNew` when a later version wrote the pack. Nothing here trusts a byte it was given.

A reader stops at the first damage. Who checks a whole pack, for `verify`, goes on: it tells which
objects are lost and which are not, because that decides what can be saved.
"""

from collections import defaultdict
from collections.abc import Callable

import msgspec
from blake3 import blake3

from holdfast.errors import ObjectDamaged, PackDamaged
from holdfast.ids import ObjectId, object_id_of
from holdfast.model.basics import Placement
from holdfast.packs.format import (
    FOOTER_BYTES,
    HEADER_BYTES,
    MAX_PLAIN_BYTES,
    check_header,
    decode_footer,
)
from holdfast.packs.frames import decompress
from holdfast.packs.index import BlockRow, PackIndex, decode_index

RangeReader = Callable[[int, int], bytes]
"""Returns that many bytes of a pack from that offset on: `(start, length) -> bytes`."""


def read_block(stored: bytes, *, pack: str) -> bytes:
    """Returns the plain bytes of a stored block; raises `PackDamaged` if it is none."""
    return decompress(stored, pack=pack, what="a block")


def cut(block: bytes, placement: Placement, *, pack: str) -> bytes:
    """Returns the object from its plain block.

    Raises `ObjectDamaged` unless the bytes found there hash to the object's id.
    """
    data = block[placement.offset : placement.offset + placement.size]
    if object_id_of(data) != placement.object_id:
        raise ObjectDamaged(placement.object_id, where=f"pack {pack}")
    return data


def read_index(read: RangeReader, *, size: int, pack: str) -> list[Placement]:
    """Returns where every object of a pack of `size` bytes is, in three ranged reads.

    Raises `PackDamaged` or `VaultTooNew`; what `read` raises passes through.
    """
    return load_index(read, size=size, pack=pack).placements()


def parse_index(data: bytes, *, pack: str) -> list[Placement]:
    """Returns where every object is, given the whole pack; raises as `read_index` does."""
    return load_index(ranges_of(data), size=len(data), pack=pack).placements()


def load_index(
    read: RangeReader, *, size: int, pack: str, most: int = MAX_PLAIN_BYTES
) -> PackIndex:
    """Returns the checked index with its table of blocks; raises as `read_index` does.

    An index of more than `most` bytes is not unpacked.
    """
    if size < HEADER_BYTES + FOOTER_BYTES:
        raise PackDamaged(pack, reason=f"{size} bytes are too few for a pack")
    check_header(read(0, HEADER_BYTES), pack=pack)
    footer = decode_footer(read(size - FOOTER_BYTES, FOOTER_BYTES), size=size, pack=pack)
    # Incompressible content grows by less than a hundredth in a frame. Anything beyond twice
    # the cap is not worth fetching: the footer may ask for 4 GB.
    if footer.index_size > 2 * MAX_PLAIN_BYTES:
        raise PackDamaged(pack, reason=f"its index claims {footer.index_size} bytes")
    stored = read(footer.index_offset, footer.index_size)
    if blake3(stored).digest() != footer.index_hash:
        raise PackDamaged(pack, reason="its index does not hash to what the footer says")
    return decode_index(stored, index_offset=footer.index_offset, pack=pack, most=most)


def ranges_of(data: bytes) -> RangeReader:
    """Returns a ranged reader over bytes at hand."""

    def read(start: int, length: int) -> bytes:
        return data[start : start + length]

    return read


class Damage(msgspec.Struct, frozen=True):
    """One thing that is wrong with a pack.

    `object_id` names the object that is lost. It is None when the damage is to the pack's own
    description of itself; objects may then still be read through placements kept elsewhere.
    """

    pack: str
    object_id: ObjectId | None
    reason: str


def check_pack(data: bytes, *, pack: str) -> list[Damage]:
    """Returns everything that is damaged, in the order of the file; nothing if all is well.

    Every object that is not named here comes back exactly, unless the index itself cannot
    be read: then the one damage says so. Raises `VaultTooNew`, which is no damage.
    """
    try:
        index = load_index(ranges_of(data), size=len(data), pack=pack)
    except PackDamaged as exc:
        return [Damage(pack, None, exc.reason)]
    by_block: defaultdict[int, list[Placement]] = defaultdict(list)
    for row in index.objects:
        by_block[row.block].append(index.placement(row))
    return [
        damage
        for number, block in enumerate(index.blocks)
        for damage in _check_block(data, block, by_block[number], pack=pack)
    ]


def _check_block(
    data: bytes, block: BlockRow, placements: list[Placement], *, pack: str
) -> list[Damage]:
    try:
        plain = read_block(data[block.offset : block.offset + block.stored_size], pack=pack)
    except PackDamaged as exc:
        lost = [Damage(pack, placement.object_id, exc.reason) for placement in placements]
        # A block without objects loses none, but is still not what was written.
        return lost or [Damage(pack, None, exc.reason)]
    damages: list[Damage] = []
    if len(plain) != block.plain_size:
        reason = f"the block at {block.offset} holds {len(plain)} bytes, not {block.plain_size}"
        damages.append(Damage(pack, None, reason))
    for placement in placements:
        try:
            cut(plain, placement, pack=pack)
        except ObjectDamaged:
            reason = "its bytes do not hash to its name"
            damages.append(Damage(pack, placement.object_id, reason))
    return damages
