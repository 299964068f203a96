"""Checks a whole pack for `verify`: hashes every object again and names what is damaged.

A reader stops at the first damage. This goes on: it tells which objects are lost and which
are not, because that decides what can be saved.
"""

from collections import defaultdict

import msgspec

from holdfast.errors import ObjectDamaged, PackDamaged
from holdfast.ids import ObjectId
from holdfast.model.basics import Placement
from holdfast.packs.index import BlockRow
from holdfast.packs.reader import cut, load_index, ranges_of, read_block


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
