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
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import Final

from holdfast.catalog.packs import ObjectRow, PackRow, pages
from holdfast.engine.core.caches import ByteCache
from holdfast.engine.core.context import Context
from holdfast.engine.core.fencing import fenced
from holdfast.engine.core.limits import check_room
from holdfast.engine.objects.reachable import mark, pending_entries, root_ids
from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.retired import clear, retire_unnamed, retired, retired_bytes
from holdfast.engine.sessions.purging import purge
from holdfast.errors import (
    Damaged,
    HoldfastError,
    ObjectMissing,
    PackDamaged,
    PackMissing,
    StorageFull,
    VaultTooNew,
)
from holdfast.ids import ObjectId, PackId, TenantId
from holdfast.model.basics import Placement
from holdfast.model.upkeep import Collected
from holdfast.packs import (
    BLOCK_TARGET_BYTES,
    PACK_TARGET_BYTES,
    ObjectKind,
    Pack,
    PackBuilder,
    cut,
    parse_index,
    read_block,
    read_index,
)
from holdfast.progress import Progress, no_progress

WASTE: Final = 0.5
"""A pack is copied once so much of it is dead: each byte is copied twice at the most."""

INLINE_PACKS: Final = 16
"""Packs inside the catalog are moved out when there are this many."""

BATCH: Final = 10_000
"""Objects deleted or moved in one transaction: a writer never waits long for its turn."""

AWAITED: Final = timedelta(days=1)
"""How long what was sent ahead of a snapshot waits for it."""

Live = dict[PackId, dict[ObjectId, int]]
"""The live objects of each pack, with their sizes."""


def collect(
    context: Context,
    tenant_id: TenantId,
    *,
    now: bool = False,
    waste: float | None = None,
    progress: Progress = no_progress,
) -> Collected:
    """Collects one tenant's garbage; raises `Busy` if another collection of it runs.

    With `now`, the bytes of everything that the tenant has retired go at once: no older catalog
    can be brought back after that. `Busy` then also means that a backup is being made. A pack is
    copied once more than `waste` of it is dead: at 0, nothing that nobody needs stays anywhere.
    """
    with fenced(context, lock_name(tenant_id)) as fence:
        packer = _Packer(fence, tenant_id, WASTE if waste is None else waste)
        collected = _collect(fence, tenant_id, packer, progress, now=now)
    context.catalog.reclaim()
    return collected


def _collect(
    context: Context, tenant_id: TenantId, packer: "_Packer", progress: Progress, *, now: bool
) -> Collected:
    with context.catalog.read() as transaction:
        before = transaction.stored_bytes(tenant_id) + retired_bytes(transaction, tenant_id)
    # First: on a full disk, this makes the room that the rest needs.
    freed = clear(context, tenant_id, now=now)
    cleared = _clear_litter(context, tenant_id)
    deleted, hidden = 0, list[str]()
    try:
        # First: the states of their versions are what objects are kept for.
        hidden += purge(context, tenant_id)
        packs, live, deleted = _sweep(context, tenant_id, progress)
    except Damaged as exc:
        # Unless somebody else is at it by now, and has moved it.
        context.catalog.check_current()
        # What cannot be read may need anything: nothing is given up while that is so.
        hidden.append(str(exc))
    else:
        packer.run(packs, live, progress)
        retire_unnamed(context)
        freed += clear(context, tenant_id, now=now)
    _count_rows(context, tenant_id)
    with context.catalog.read() as transaction:
        waiting = retired_bytes(transaction, tenant_id)
        after = transaction.stored_bytes(tenant_id) + waiting
    removed, damaged = cleared + packer.removed, (*hidden, *packer.damaged)
    freed += packer.freed_bytes
    return Collected(deleted, removed, before, after, damaged, waiting, freed)


def _count_rows(context: Context, tenant_id: TenantId) -> None:
    """Counts anew what rows take where some have gone: who adds one counts it, and no more."""
    with context.catalog.read() as transaction:
        moved = transaction.miscounted_row_bytes(tenant_id)
    for namespace_id in moved:
        # A head that is damaged is told of by who marks, and counts as it did.
        with suppress(Damaged), context.catalog.write() as transaction:
            # Before it is counted: whoever adds a row has the head.
            if transaction.lock_head(namespace_id) is not None:
                transaction.mend_row_bytes(tenant_id, namespace_id)


def lock_name(tenant_id: TenantId) -> str:
    """Returns the name of the lock that one collection of a tenant holds."""
    return f"collect-{tenant_id}"


def _clear_litter(context: Context, tenant_id: TenantId) -> int:
    """Withdraws packs whose writer died before it could name them."""
    with context.catalog.read() as transaction:
        packs = transaction.iter_packs(tenant_id)
    cleared = 0
    for pack in packs:
        if pack.is_stored or (pack.writer and context.catalog.is_alive(pack.writer)):
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


def _sweep(
    context: Context, tenant_id: TenantId, progress: Progress
) -> tuple[list[PackRow], Live, int]:
    """Deletes dead objects from the index; returns packs, live objects, and how many died."""
    with context.catalog.write() as transaction:
        transaction.expire_received(tenant_id, before=context.clock() - AWAITED)
        epoch = transaction.advance_epoch(tenant_id)
    progress("mark", 0, 1)
    with context.catalog.read() as transaction:
        source = Objects(context, tenant_id, transaction)
        roots = root_ids(transaction, tenant_id)
        needed = mark(source, roots, pending_entries(transaction, tenant_id))
        received = transaction.iter_received(tenant_id)
    live: Live = defaultdict(dict)
    dead: list[ObjectRow] = []
    with context.catalog.read() as transaction:
        # Packs and objects of one moment: a pack that is named later is not ours to judge.
        packs = transaction.iter_packs(tenant_id)
        for page in pages(transaction, tenant_id):
            for row in page:
                if row.id in needed or row.id in received or row.touched >= epoch:
                    live[row.pack_id][row.id] = row.size
                    needed.discard(row.id)
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
    return [pack for pack in packs if pack.is_stored], live, deleted


def _check_index(packs: Sequence[PackRow], live: Live, missing: set[ObjectId]) -> None:
    """Raises if something needed has no row: the pack it is in would look like a dead one."""
    for object_id in missing:
        raise ObjectMissing(object_id)
    for pack_id in live.keys() - {pack.id for pack in packs}:
        raise ObjectMissing(next(iter(live[pack_id])))


class _Packer:
    """Removes dead packs and copies what lives out of packs that are not worth keeping."""

    def __init__(self, context: Context, tenant_id: TenantId, waste: float) -> None:
        self._context = context
        self._tenant_id = tenant_id
        self._waste = waste
        self._live: Live = {}
        self.removed = 0
        self.freed_bytes = 0
        """What was deleted at once, less what was written."""
        self.damaged: list[str] = []

    def run(self, packs: Sequence[PackRow], live: Live, progress: Progress) -> None:
        """Goes through the packs, oldest first."""
        self._live = live
        is_crowded = sum(pack.is_inline for pack in packs) >= INLINE_PACKS
        group, size_bytes = list[PackRow](), 0
        for at, pack in enumerate(packs):
            progress("repack", at, len(packs))
            if not self._live.get(pack.id):
                self._remove(pack)
            elif (pack.is_inline and (is_crowded or not self._waste)) or (
                not pack.is_inline and self._is_wasteful(pack)
            ):
                group.append(pack)
                size_bytes += pack.size_bytes
            if size_bytes >= PACK_TARGET_BYTES:
                self._copy(group)
                group, size_bytes = [], 0
        self._copy(group)

    def _is_wasteful(self, pack: PackRow) -> bool:
        live = self._live[pack.id]
        with self._sparing(pack):
            held = self._index(pack)
            if not live.keys() <= {place.object_id for place in held}:
                raise PackDamaged(pack.name, reason="it does not hold what the catalog says")
            return sum(live.values()) < sum(place.size for place in held) * (1 - self._waste)
        return False

    def _copy(self, packs: Sequence[PackRow]) -> None:
        """Copies what lives in some packs into a new one, which then takes their place."""
        sources = list[tuple[PackRow, set[ObjectId]]]()
        builder = PackBuilder()
        for pack in packs:
            with self._sparing(pack):
                objects = [*self._objects(pack)]
                sources.append((pack, {object_id for object_id, _, _ in objects}))
                for object_id, data, kind in objects:
                    builder.add(object_id, data, kind=kind)
        if len(builder):
            # Copying is thrift, unless nothing dead may stay. Where there is no room for it, what
            # was dead has gone already.
            with suppress(*(StorageFull,) if self._waste else ()):
                self._replace(sources, builder.finish())

    def _replace(self, sources: Sequence[tuple[PackRow, set[ObjectId]]], new: Pack) -> None:
        context = self._context
        name, writer = context.new_pack_name(), context.catalog.writer
        with context.catalog.write() as transaction:
            check_room(
                transaction,
                self._tenant_id,
                needed_bytes=len(new.data),
                limits=context.limits,
                places=(context.catalog, context.blobs),
                counts=False,
            )
            pack_id = transaction.begin_pack(
                self._tenant_id,
                name,
                writer=writer,
                size_bytes=len(new.data),
                now=context.clock(),
            )
        try:
            context.blobs.put(name, new.data)
        except HoldfastError:
            # We live on, so nobody would take this for a dead writer's litter.
            with context.catalog.write() as transaction:
                transaction.withdraw_pack(pack_id)
            raise
        with context.catalog.write() as transaction:
            if not transaction.finish_pack(pack_id):
                return
        self.freed_bytes -= len(new.data)
        self._move(sources, pack_id, new.placements)
        self._drop([pack for pack, _ in sources])

    def _move(
        self,
        sources: Sequence[tuple[PackRow, set[ObjectId]]],
        target: PackId,
        placements: Sequence[Placement],
    ) -> None:
        """Points the index at the copies, some at a time: either place holds every object."""
        places = {place.object_id: place for place in placements}
        moves = [(pack.id, places[object_id]) for pack, held in sources for object_id in held]
        for at in range(0, len(moves), BATCH):
            # Of all packs together: a snapshot of little makes one, and each commit is a sync.
            with self._context.catalog.write() as transaction:
                for source, moved in groupby(moves[at : at + BATCH], key=itemgetter(0)):
                    transaction.move_objects(
                        self._tenant_id, [place for _, place in moved], source=source, target=target
                    )

    def _remove(self, pack: PackRow) -> None:
        """Drops a pack that holds nothing live."""
        with self._sparing(pack):
            held = list[Placement]()
            # One that cannot be read may go: all that is needed is said to be elsewhere.
            with suppress(PackDamaged, PackMissing):
                held = self._index(pack)
            self._check_copies(pack, held)
            self._drop([pack])

    @contextmanager
    def _sparing(self, pack: PackRow) -> Generator[None]:
        """Leaves a pack alone that is damaged: it is evidence, and `verify` names it."""
        try:
            yield
        except (Damaged, VaultTooNew):
            self._context.catalog.check_current()  # As above.
            self.damaged.append(pack.name)

    def _drop(self, packs: Sequence[PackRow]) -> None:
        """Takes packs out of use; bytes that lie inside the catalog are gone with that."""
        now = self._context.clock()
        outside = [retired(pack, self._tenant_id, now=now) for pack in packs if not pack.is_inline]
        with self._context.catalog.write() as transaction:
            for pack in packs:
                transaction.delete_pack(pack.id)
            transaction.retire(outside)
        self.removed += len(packs)
        self.freed_bytes += sum(pack.size_bytes for pack in packs if pack.is_inline)

    def _objects(self, pack: PackRow) -> Iterator[tuple[ObjectId, bytes, ObjectKind]]:
        """Yields the live objects of a pack, each proven by its hash."""
        data, live = self._read(pack), self._live[pack.id]
        held = parse_index(data, pack=pack.name)
        self._check_placements(pack, held)
        self._check_copies(pack, held)
        block_at, block = -1, b""
        for place in held:
            if place.object_id not in live:
                continue
            if place.block_offset != block_at:
                block_at = place.block_offset
                stored = data[block_at : block_at + place.block_size]
                block = read_block(stored, pack=pack.name)
            # Small blocks are those of nodes, and stay small: nodes are read at random.
            is_node = len(block) <= BLOCK_TARGET_BYTES[ObjectKind.NODE]
            kind = ObjectKind.NODE if is_node else ObjectKind.CHUNK
            yield place.object_id, cut(block, place, pack=pack.name), kind

    def _check_placements(self, pack: PackRow, held: Sequence[Placement]) -> None:
        """Raises unless a pack holds what lives in it where the catalog says."""
        with self._context.catalog.read() as transaction:
            located = transaction.locate(self._tenant_id, list(self._live[pack.id]))
        if not {found.placement for found in located.values()} <= {*held}:
            raise PackDamaged(pack.name, reason="it does not hold what the catalog says")

    def _check_copies(self, pack: PackRow, held: Sequence[Placement]) -> None:
        """Raises if a pack holds what the catalog looks for elsewhere, and does not find there.

        Two writers may have stored the same object: then one copy can go, if the other is good.
        """
        live = self._live.get(pack.id, {})
        others = [place.object_id for place in held if place.object_id not in live]
        with self._context.catalog.read() as transaction:
            needed = transaction.existing(self._tenant_id, others)
            source = Objects(self._afresh(), self._tenant_id, transaction)
            for object_id in needed:
                source.get(object_id)

    def _afresh(self) -> Context:
        """Returns a context that reads from disk what it has not just read itself."""
        blocks = ByteCache[tuple[str, int], bytes](self._context.limits.block_cache_bytes)
        return replace(self._context.without_caches(), blocks=blocks)

    def _index(self, pack: PackRow) -> list[Placement]:
        if pack.is_inline:
            return parse_index(self._read(pack), pack=pack.name)
        # Once a day of every pack: what a machine keeps of a bucket is for those who read files.
        blobs = self._context.blobs.uncached()
        return read_index(
            lambda start, length: blobs.get(pack.name, start=start, length=length),
            size=pack.size_bytes,
            pack=pack.name,
        )

    def _read(self, pack: PackRow) -> bytes:
        if not pack.is_inline:
            return self._context.blobs.get(pack.name)
        with self._context.catalog.read() as transaction:
            data = transaction.get_pack_data(pack.id)
        if data is None:
            raise PackMissing(pack.name)
        return data
