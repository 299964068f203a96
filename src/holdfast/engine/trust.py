"""Which stored copies of objects can be relied on.

An object that comes by again is not stored twice. Whoever leaves it out for a copy that went bad
would acknowledge a snapshot that nobody can restore, with the right bytes in hand. So the copy is
read from the disk, and compared: what is not there, is too short or is another is stored anew.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.catalog.port import Located, PackRow, Transaction
from holdfast.engine.context import Context
from holdfast.engine.objects import fetch_block
from holdfast.errors import Damaged, InvalidValue
from holdfast.ids import ObjectId, TenantId

BATCH: Final = 1000
"""Objects looked up together: each that lies in the catalog brings its block along."""


def find_unsound(
    context: Context,
    transaction: Transaction,
    tenant_id: TenantId,
    held: Mapping[ObjectId, bytes],
) -> set[ObjectId]:
    """Returns which of these objects are not stored as they should be; caches are not asked."""
    unsound: set[ObjectId] = set()
    names = list(held)
    for at in range(0, len(names), BATCH):
        batch = names[at : at + BATCH]
        located = transaction.locate(tenant_id, batch)
        unsound.update(object_id for object_id in batch if object_id not in located)
        by_block: defaultdict[tuple[str, int], list[Located]] = defaultdict(list)
        for found in located.values():
            by_block[found.pack, found.placement.block_offset].append(found)
        for same in by_block.values():
            unsound.update(_differing(context, same, held))
    return unsound


def _differing(
    context: Context, same: Sequence[Located], held: Mapping[ObjectId, bytes]
) -> list[ObjectId]:
    """Returns which objects of one block are not what they should be."""
    try:
        block = fetch_block(context, same[0])
    except (Damaged, InvalidValue):
        return [found.placement.object_id for found in same]
    places = [found.placement for found in same]
    return [
        place.object_id
        for place in places
        if block[place.offset : place.offset + place.size] != held[place.object_id]
    ]


def find_lost_packs(context: Context, tenant_id: TenantId) -> list[str]:
    """Returns the packs that are not in the blob store, or too short: a look at each file."""
    with context.catalog.ask() as transaction:
        return _find_lost(context, transaction, tenant_id)


def find_in_lost_packs(
    context: Context, transaction: Transaction, tenant_id: TenantId, object_ids: Sequence[ObjectId]
) -> set[ObjectId]:
    """Returns which of these objects lie in packs that are lost."""
    lost = {*_find_lost(context, transaction, tenant_id)} if object_ids else ()
    found: set[ObjectId] = set()
    for at in range(0, len(object_ids) if lost else 0, BATCH):
        located = transaction.locate(tenant_id, object_ids[at : at + BATCH])
        found.update(object_id for object_id, place in located.items() if place.pack in lost)
    return found


def _find_lost(context: Context, transaction: Transaction, tenant_id: TenantId) -> list[str]:
    packs = transaction.iter_packs(tenant_id)
    files = (pack for pack in packs if pack.is_stored and not pack.is_inline)
    return [pack.name for pack in files if not _is_there(context, pack)]


def _is_there(context: Context, pack: PackRow) -> bool:
    try:
        return context.blobs.size(pack.name) >= pack.size_bytes
    except Damaged:
        return False
