"""Gives back the bytes that nothing needs any more.

Runs beside writers and never waits for them long. Its safety rests on the epoch (see the
catalog's promises 3): it moves the epoch on, then looks at what is needed, then deletes only
objects that are neither needed nor stamped with the new epoch. A writer that reuses an object
stamps it in the transaction that names it, so it is either seen as needed or out of reach.

1. The bytes of packs go that have been retired for long enough (`objects/retired.py`).
2. Packs whose writers died before they could name them are withdrawn.
3. Sessions and conversations that nothing needs go (`sessions/purging.py`).
4. Objects that nothing needs go from the index.
5. Packs that are mostly dead, and packs inside the catalog, are copied together into new ones,
   one at a time: the extra room needed is that of one pack.
6. Bytes in the blob store that no row names are retired.

No bytes go in the run that finds them needless: a pack's row becomes one of `retired`, in the
same transaction. So a catalog that is set back finds all that it names, for as long as the
limits say. Killed at any point, a run leaves a vault that is whole; the next one removes what is
left over.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

import msgspec
from blake3 import blake3

from holdfast.catalog.packs import ObjectRow, PackRow, pages
from holdfast.engine.core.context import Context
from holdfast.engine.core.fencing import fenced
from holdfast.engine.objects.reachable import mark, pending_entries, referring, root_ids
from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.retired import clear, retire_unnamed, retired
from holdfast.engine.sessions.purging import purge
from holdfast.engine.upkeep.repacking import BATCH, WASTE, Live, Packer, lock_name
from holdfast.errors import Damaged, ObjectMissing, PackMissing
from holdfast.ids import ObjectId, PackId, TenantId
from holdfast.model.upkeep import Collected
from holdfast.progress import Progress, no_progress

AWAITED: Final = timedelta(days=1)
"""How long what was sent ahead of a snapshot waits for it."""


class _Needed(msgspec.Struct, frozen=True):
    """What a tenant needs at one moment, as its rows say, and the packs that it has."""

    roots: set[ObjectId]
    entries: set[bytes]
    received: set[ObjectId]
    packs: Sequence[PackRow]

    def digest(self, packs: Iterable[PackId]) -> bytes:
        """Returns what stands for all of it, with these packs in place of those that there are."""
        digest = blake3()
        for part in (self.roots, self.entries, self.received, map(_to_bytes, packs)):
            listed = sorted(part)
            digest.update(b"".join([len(listed).to_bytes(8), *map(_framed, listed)]))
        return digest.digest()


def _to_bytes(pack_id: PackId) -> bytes:
    return pack_id.to_bytes(8, signed=True)  # A bit of it may be flipped.


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(8) + data


class _Swept(msgspec.Struct, frozen=True):
    """What a sweep found: packs, what lives in them, and how many objects died."""

    packs: Sequence[PackRow] = ()
    live: Live = {}
    deleted: int = 0
    needed: _Needed | None = None
    """What was needed, if nothing else was kept: where that stays so, nothing more can die."""


def collect(
    context: Context,
    tenant_id: TenantId,
    *,
    now: bool = False,
    waste: float | None = None,
    lists: bool = True,
    progress: Progress = no_progress,
) -> Collected:
    """Collects one tenant's garbage; raises `Busy` if another collection of it runs.

    With `now`, the bytes of everything that the tenant has retired go at once: no older catalog
    can be brought back after that. `Busy` then also means that a backup is being made. A pack is
    copied once more than `waste` of it is dead: at 0, nothing that nobody needs stays anywhere.
    What no row names is retired by who `lists` the blob store: a tenant that is alone, whoever
    erases, and once for all tenants who collects for all.
    """
    with fenced(context, lock_name(tenant_id)) as fence:
        packer = Packer(fence, tenant_id, WASTE if waste is None else waste)
        collected = _collect(fence, tenant_id, packer, progress, now=now, lists=lists)
    context.catalog.reclaim()
    return collected


def _collect(
    context: Context,
    tenant_id: TenantId,
    packer: Packer,
    progress: Progress,
    *,
    now: bool,
    lists: bool,
) -> Collected:
    with context.catalog.read() as transaction:
        before = transaction.stored_bytes(tenant_id) + transaction.retired_bytes(tenant_id)
    # First: on a full disk, this makes the room that the rest needs.
    freed = clear(context, tenant_id, now=now)
    cleared = _clear_litter(context, tenant_id)
    swept, hidden = _Swept(), list[str]()
    try:
        # First: the states of their versions are what objects are kept for.
        hidden += purge(context, tenant_id)
        swept = _sweep(context, tenant_id, progress, all_of_it=now or packer.spares_nothing)
    except Damaged as exc:
        # Unless somebody else is at it by now, and has moved it.
        context.catalog.check_current()
        # What cannot be read may need anything: nothing is given up while that is so.
        hidden.append(str(exc))
    else:
        packer.run(swept.packs, swept.live, progress)
        _note(context, tenant_id, swept, packer, is_sound=not (hidden or packer.damaged))
        if lists:
            retire_unnamed(context)
        freed += clear(context, tenant_id, now=now)
    _count_rows(context, tenant_id)
    with context.catalog.read() as transaction:
        waiting = transaction.retired_bytes(tenant_id)
        after = transaction.stored_bytes(tenant_id) + waiting
    removed, damaged = cleared + packer.removed, (*hidden, *packer.damaged)
    freed += packer.freed_bytes
    return Collected(swept.deleted, removed, before, after, damaged, waiting, freed)


def _note(
    context: Context, tenant_id: TenantId, swept: _Swept, packer: Packer, *, is_sound: bool
) -> None:
    """Notes what was needed and is left, for the next collection; only where all was looked at."""
    is_whole = is_sound and packer.is_complete
    if swept.needed is None or not is_whole or not context.blobs.is_remote:
        return
    left = {pack.id for pack in swept.packs} - packer.gone | packer.made
    with context.catalog.write() as transaction:
        transaction.set_sweep(tenant_id, swept.needed.digest(left))


def _count_rows(context: Context, tenant_id: TenantId) -> None:
    """Counts anew what rows take where some have gone: who adds one counts it, and no more.

    And what packs take: a sum may be damaged, as every row may.
    """
    with context.catalog.write() as transaction:
        transaction.mend_pack_sums(tenant_id)
    with context.catalog.read() as transaction:
        moved = transaction.miscounted_row_bytes(tenant_id)
    for namespace_id in moved:
        # A head that is damaged is told of by who marks, and counts as it did.
        with suppress(Damaged), context.catalog.write() as transaction:
            # Before it is counted: whoever adds a row has the head.
            if transaction.lock_head(namespace_id) is not None:
                transaction.mend_row_bytes(tenant_id, namespace_id)


def _clear_litter(context: Context, tenant_id: TenantId) -> int:
    """Withdraws packs whose writer died before it could name them."""
    with context.catalog.ask() as transaction:
        packs = transaction.unfinished_packs(tenant_id)
    cleared = 0
    for pack in packs:
        if pack.writer and context.catalog.is_alive(pack.writer):
            continue
        # One that is whole may be named by a catalog of a later moment: if this one was set back,
        # the writer only looks as if it had died before it was done. A torn one was never named.
        is_whole = _is_whole(context, pack)
        with context.catalog.write() as transaction:
            is_ours = transaction.withdraw_pack(pack.id)
            if is_ours and is_whole:
                transaction.retire([retired(pack, tenant_id, now=context.clock())])
        if is_ours and not is_whole:
            context.blobs.delete(pack.name)
        cleared += is_ours
    return cleared


def _is_whole(context: Context, pack: PackRow) -> bool:
    try:
        return context.blobs.size(pack.name) == pack.size_bytes
    except PackMissing:
        return False


def _sweep(context: Context, tenant_id: TenantId, progress: Progress, *, all_of_it: bool) -> _Swept:
    """Deletes dead objects from the index.

    With a bucket, maps are not followed if nothing is needed, or there, that was not so when the
    last collection had ended, unless `all_of_it` is looked at in any case.
    """
    with context.catalog.write() as transaction:
        transaction.expire_received(tenant_id, before=context.clock() - AWAITED)
        epoch = transaction.advance_epoch(tenant_id)
    progress("mark", 0, 1)
    with context.catalog.read() as transaction:
        found = _Needed(
            root_ids(transaction, tenant_id),
            referring(pending_entries(transaction, tenant_id)),
            transaction.iter_received(tenant_id),
            [pack for pack in transaction.iter_packs(tenant_id) if pack.is_stored],
        )
        former = transaction.find_sweep(tenant_id) if context.blobs.is_remote else None
    if not all_of_it and former == found.digest(pack.id for pack in found.packs):
        return _Swept()
    # When the transaction has ended: maps take long to follow, and of a bucket it is requests. What
    # was needed then stays where it is found by its name, as nobody deletes but who has the lock.
    needed = mark(Objects(context, tenant_id), found.roots, found.entries)
    live: Live = defaultdict(dict)
    dead: list[ObjectRow] = []
    is_settled = True
    with context.catalog.read() as transaction:
        # Packs and objects of one moment: a pack that is named later is not ours to judge.
        packs = transaction.iter_packs(tenant_id)
        for page in pages(transaction, tenant_id):
            for row in page:
                is_needed = row.id in needed or row.id in found.received
                if is_needed or row.touched >= epoch:
                    live[row.pack_id][row.id] = row.size
                    needed.discard(row.id)
                    is_settled &= is_needed
                else:
                    dead.append(row)
    _check_index(packs, live, needed)
    deleted = 0
    for at in range(0, len(dead), BATCH):
        progress("sweep", at, len(dead))
        batch = {row.id: row for row in dead[at : at + BATCH]}
        with context.catalog.write() as transaction:
            deleted += transaction.delete_objects(tenant_id, list(batch), before=epoch)
            spared = transaction.existing(tenant_id, list(batch))
        # Stamped by a writer since we looked: it lives, and so must the pack it lies in.
        for object_id in spared:
            live[batch[object_id].pack_id][object_id] = batch[object_id].size
            is_settled = False
    stored = [pack for pack in packs if pack.is_stored]
    return _Swept(stored, live, deleted, found if is_settled else None)


def _check_index(packs: Sequence[PackRow], live: Live, missing: set[ObjectId]) -> None:
    """Raises if something needed has no row: the pack it is in would look like a dead one."""
    for object_id in missing:
        raise ObjectMissing(object_id)
    for pack_id in live.keys() - {pack.id for pack in packs}:
        raise ObjectMissing(next(iter(live[pack_id])))
