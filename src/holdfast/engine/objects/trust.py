"""Which stored copies of objects can be relied on.

An object that comes by again is not stored twice. Whoever leaves it out for a copy that went bad
would acknowledge a snapshot that nobody can restore, with the right bytes in hand. So the copy is
read from the disk, and compared: what is not there, is too short or is another is stored anew.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from holdfast.catalog.packs import Located
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context, Look
from holdfast.engine.objects.reachable import Source, mark
from holdfast.engine.objects.reader import fetch_block
from holdfast.errors import Damaged, InvalidValue, PackDamaged, PackMissing
from holdfast.ids import ObjectId, TenantId

BATCH: Final = 1000
"""Objects looked up together: each that lies in the catalog brings its block along."""


LATELY: Final = timedelta(seconds=1)
"""How long packs are not looked at again that were all there, by those who only reuse them."""

LATELY_REMOTE: Final = timedelta(minutes=10)
"""The same where a look is a request, and blobs go by being deleted alone."""


def find_unsound(
    context: Context, located: Mapping[ObjectId, Located], held: Mapping[ObjectId, bytes]
) -> set[ObjectId]:
    """Returns which objects are not stored as they should be; caches are not asked.

    `located` says where they are: of those in a bucket, each block is a request.
    """
    unsound = {object_id for object_id in held if object_id not in located}
    by_block: defaultdict[tuple[str, int], list[Located]] = defaultdict(list)
    for object_id in held.keys() - unsound:
        found = located[object_id]
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
    return [*_look(context, tenant_id)]


def find_lost_lately(context: Context, tenant_id: TenantId) -> list[str]:
    """Returns the same; where a look is a request, what was seen a moment ago."""
    return [*_find_lost(context, tenant_id)]


def find_in_lost_packs(
    context: Context, tenant_id: TenantId, object_ids: Sequence[ObjectId]
) -> set[ObjectId]:
    """Returns which of these objects lie in packs that are lost."""
    if not object_ids:
        return set()
    lost = _find_lost(context, tenant_id)
    found: set[ObjectId] = set()
    for at in range(0, len(object_ids) if lost else 0, BATCH):
        with context.catalog.ask() as transaction:
            located = transaction.locate(tenant_id, object_ids[at : at + BATCH])
        found.update(object_id for object_id, place in located.items() if _is_in(lost, place))
    return found


def look_ahead(context: Context, tenant_id: TenantId) -> None:
    """Looks whether all packs are there, where that is a request: before a transaction begins."""
    if context.blobs.is_remote:
        _find_lost(context, tenant_id)


def check_packs(
    context: Context, transaction: Transaction, tenant_id: TenantId, source: Source, root: ObjectId
) -> None:
    """Raises `Damaged` if something that a root needs lies in what is lost of a pack.

    Whether any is lost is looked at once in a while; only then is the root followed. Of a pack
    without a file it is `PackMissing`: outside of the lock, the collector may have been faster.
    """
    looked = context.looked.get(tenant_id)
    if context.blobs.is_remote and looked is not None:
        lost = looked.lost  # By `look_ahead`: a bucket is not asked while a transaction is open.
    elif _is_lately(context, looked) and looked is not None and not looked.lost:
        return
    else:
        now = context.clock()
        wanted = transaction.outside_packs(tenant_id)
        lost = context.blobs.find_short(wanted)
        context.looked[tenant_id] = _to_look(now, wanted, lost)
    needed = [*mark(source, [root], [])] if lost else []
    for at in range(0, len(needed), BATCH):
        for found in transaction.locate(tenant_id, needed[at : at + BATCH]).values():
            if _is_in(lost, found):
                raise _too_short(context, found.pack, lost, "it is too short")


def check_long_enough(context: Context, tenant_id: TenantId, ends: Mapping[str, int]) -> None:
    """Raises `Damaged` if a pack is not there, or ends before what it should hold.

    In a bucket, as far as that was seen lately: a transaction is open.
    """
    looked = context.looked.get(tenant_id)
    if context.blobs.is_remote and looked is not None:
        lost = {pack: size for pack, size in looked.lost.items() if size < ends.get(pack, 0)}
    else:
        lost = context.blobs.find_short(ends)
    for pack in lost:
        raise _too_short(context, pack, lost, "it is shorter than what it should hold")


def _too_short(context: Context, pack: str, lost: Mapping[str, int], reason: str) -> Damaged:
    if context.blobs.is_remote:
        return PackDamaged(pack, reason=reason) if lost[pack] else PackMissing(pack)
    context.blobs.size(pack)  # Raises where there is none.
    return PackDamaged(pack, reason=reason)


def _find_lost(context: Context, tenant_id: TenantId) -> Mapping[str, int]:
    """Returns the packs that are not as long as they should be, with how long they are.

    Where a look is a request, all are looked for every ten minutes, and in between those that were
    lost: they may be back. So one that stays lost costs a request, and not a list of the bucket.
    """
    looked = context.looked.get(tenant_id)
    if not context.blobs.is_remote or looked is None or not _is_lately(context, looked):
        return _look(context, tenant_id)
    if looked.lost:
        lost = context.blobs.find_short(looked.wanted)
        context.looked[tenant_id] = _to_look(looked.at, looked.wanted, lost)
        return lost
    return looked.lost


def _look(context: Context, tenant_id: TenantId) -> dict[str, int]:
    """Looks at all packs that have to be there; remembers, and returns, which are not."""
    now = context.clock()
    with context.catalog.ask() as transaction:
        wanted = transaction.outside_packs(tenant_id)
    # Asked when the transaction has ended: of a bucket it is requests.
    lost = context.blobs.find_short(wanted)
    if lost:
        # One that a collection has let go of meanwhile is not lost.
        with context.catalog.ask() as transaction:
            named = transaction.outside_packs(tenant_id)
        lost = {name: size for name, size in lost.items() if name in named}
    context.looked[tenant_id] = _to_look(now, wanted, lost)
    return lost


def _to_look(now: datetime, wanted: Mapping[str, int], lost: Mapping[str, int]) -> Look:
    return Look(now, {name: wanted[name] for name in lost}, lost)


def _is_lately(context: Context, looked: Look | None) -> bool:
    """Says whether packs were looked at a moment ago."""
    lately = LATELY_REMOTE if context.blobs.is_remote else LATELY
    return looked is not None and timedelta(0) <= context.clock() - looked.at < lately


def _is_in(lost: Mapping[str, int], found: Located) -> bool:
    """Says whether an object lies in what is lost of a pack."""
    end = found.placement.block_offset + found.placement.block_size
    return end > lost.get(found.pack, end)
