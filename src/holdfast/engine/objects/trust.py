"""Which stored copies of objects can be relied on.

An object that comes by again is not stored twice. Whoever leaves it out for a copy that went bad
would acknowledge a snapshot that nobody can restore, with the right bytes in hand. So the copy is
read from the disk, and compared: what is not there, is too short or is another is stored anew.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from holdfast.catalog.packs import Located
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.objects.reachable import Source, mark
from holdfast.engine.objects.reader import fetch_block
from holdfast.errors import Damaged, InvalidValue, PackDamaged
from holdfast.ids import ObjectId, TenantId

BATCH: Final = 1000
"""Objects looked up together: each that lies in the catalog brings its block along."""


LATELY: Final = timedelta(seconds=1)
"""How long packs that were all there are not looked at again, by those who only reuse them."""

LATELY_REMOTE: Final = timedelta(minutes=10)
"""The same where a look is a request, and blobs go by being deleted alone."""


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
        block = fetch_block(context, same[0], is_afresh=True)
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
    return [*_find_lost(context, tenant_id)]


def find_lost_lately(context: Context, tenant_id: TenantId) -> list[str]:
    """Returns the same; none where a look is a request, and all were there a moment ago."""
    if context.blobs.is_remote and is_whole_lately(context, tenant_id):
        return []
    lost = find_lost_packs(context, tenant_id)
    if not lost:
        context.looked[tenant_id] = context.clock()
    return lost


def find_in_lost_packs(
    context: Context, tenant_id: TenantId, object_ids: Sequence[ObjectId]
) -> set[ObjectId]:
    """Returns which of these objects lie in packs that are lost."""
    if not object_ids or (context.blobs.is_remote and is_whole_lately(context, tenant_id)):
        return set()
    lost = _find_lost(context, tenant_id)
    found: set[ObjectId] = set()
    for at in range(0, len(object_ids) if lost else 0, BATCH):
        with context.catalog.ask() as transaction:
            located = transaction.locate(tenant_id, object_ids[at : at + BATCH])
        found.update(object_id for object_id, place in located.items() if _is_in(lost, place))
    return found


def is_whole_lately(context: Context, tenant_id: TenantId) -> bool:
    """Says whether all packs of a tenant were seen to be there a moment ago."""
    looked = context.looked.get(tenant_id)
    lately = LATELY_REMOTE if context.blobs.is_remote else LATELY
    return looked is not None and timedelta(0) <= context.clock() - looked < lately


def look_ahead(context: Context, tenant_id: TenantId) -> None:
    """Looks whether all packs are there, where that is a request: before a transaction begins."""
    if context.blobs.is_remote:
        find_lost_lately(context, tenant_id)


def check_packs(
    context: Context, transaction: Transaction, tenant_id: TenantId, source: Source, root: ObjectId
) -> None:
    """Raises `Damaged` if something that a root needs lies in what is lost of a pack.

    Whether any is lost is looked at once in a while; only then is the root followed. Of a pack
    without a file it is `PackMissing`: outside of the lock, the collector may have been faster.
    """
    if is_whole_lately(context, tenant_id):
        return
    now = context.clock()
    lost = context.blobs.find_short(_named(transaction, tenant_id))
    if not lost:
        context.looked[tenant_id] = now
        return
    needed = [*mark(source, [root], [])]
    for at in range(0, len(needed), BATCH):
        for found in transaction.locate(tenant_id, needed[at : at + BATCH]).values():
            if _is_in(lost, found):
                context.blobs.size(found.pack)  # Raises where there is none.
                raise PackDamaged(found.pack, reason="it is too short")


def check_long_enough(context: Context, tenant_id: TenantId, ends: Mapping[str, int]) -> None:
    """Raises `Damaged` if a pack is not there, or ends before what it should hold."""
    if context.blobs.is_remote and is_whole_lately(context, tenant_id):
        return
    for pack in context.blobs.find_short(ends):
        context.blobs.size(pack)  # Raises where there is none.
        raise PackDamaged(pack, reason="it is shorter than what it should hold")


def _find_lost(context: Context, tenant_id: TenantId) -> dict[str, int]:
    """Returns the packs that are not as long as they should be, with how long they are."""
    with context.catalog.ask() as transaction:
        wanted = _named(transaction, tenant_id)
    # Asked when the transaction has ended: of a bucket it is requests.
    lost = context.blobs.find_short(wanted)
    if not lost:
        return lost
    # One that a collection has let go of meanwhile is not lost.
    with context.catalog.ask() as transaction:
        named = _named(transaction, tenant_id)
    return {name: size for name, size in lost.items() if name in named}


def _named(transaction: Transaction, tenant_id: TenantId) -> dict[str, int]:
    """Returns the packs that have to be there, with how long they are."""
    return transaction.outside_packs(tenant_id)


def _is_in(lost: Mapping[str, int], found: Located) -> bool:
    """Says whether an object lies in what is lost of a pack."""
    end = found.placement.block_offset + found.placement.block_size
    return end > lost.get(found.pack, end)
