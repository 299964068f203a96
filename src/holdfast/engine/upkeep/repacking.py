"""Copies what lives out of packs that are not worth keeping, and joins those that are small.

One new pack at a time: it is announced, put and named, then the index is pointed at it, some
objects at a time, then the old packs go. Killed in between, either place holds every object, and
the next run goes on with what is left. How much of a pack is dead follows from rows alone: what its
objects take is written down with it, so that no pack is read that stays as it is.

Small packs are joined beside whoever writes, and without looking at what is needed: each upkeep
round joins one pack's worth of them at the most, so what it copies follows what was written, not
what is there. What came of it is large enough to be left alone, or holds a thousand packs: each
byte is copied a few times at the most.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Final

from holdfast.catalog.packs import PackRow
from holdfast.engine.core.caches import ByteCache
from holdfast.engine.core.context import Context
from holdfast.engine.core.fencing import fenced
from holdfast.engine.core.limits import check_room
from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.retired import retired
from holdfast.errors import (
    Busy,
    Damaged,
    HoldfastError,
    PackDamaged,
    PackMissing,
    StorageFull,
    VaultTooNew,
)
from holdfast.ids import ObjectId, PackId, TenantId
from holdfast.model.basics import Placement
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
from holdfast.progress import Progress

WASTE: Final = 0.5
"""A pack is copied once so much of it is dead: each byte is copied twice at the most."""

INLINE_PACKS: Final = 16
"""Packs inside the catalog are moved out by a collection when there are this many."""

SMALL_BYTES: Final = 8 << 20
"""Packs below this are joined, once together they are not below it any more."""

MOST_JOINED: Final = 1000
"""Packs that are joined at once: of small snapshots a pack has 16 KB."""

BATCH: Final = 10_000
"""Objects moved in one transaction: a writer never waits long for its turn."""

Live = dict[PackId, dict[ObjectId, int]]
"""The live objects of each pack, with their sizes."""


def lock_name(tenant_id: TenantId) -> str:
    """Returns the name of the lock that one collection of a tenant holds."""
    return f"collect-{tenant_id}"


def join_packs(context: Context, tenant_id: TenantId) -> int:
    """Joins small packs of a tenant, one pack's worth at the most; returns how many there were.

    Left for another time while a collection runs.
    """
    if not _find_small(context, tenant_id):
        return 0
    packer = None
    with suppress(Busy), fenced(context, lock_name(tenant_id)) as fence:
        packer = Packer(fence, tenant_id, WASTE)
        packer.join(_find_small(fence, tenant_id))
    return 0 if packer is None else packer.removed


def _find_small(context: Context, tenant_id: TenantId) -> list[PackRow]:
    """Returns packs to be joined, the smallest first; none while what they made would be small."""
    with context.catalog.ask() as transaction:
        found = transaction.small_packs(tenant_id, below=SMALL_BYTES, most=MOST_JOINED)
    small, size_bytes = list[PackRow](), 0
    for pack in found:
        if size_bytes + pack.size_bytes > PACK_TARGET_BYTES:
            break
        small.append(pack)
        size_bytes += pack.size_bytes
    return small if size_bytes >= SMALL_BYTES or len(small) == MOST_JOINED else []


class Packer:
    """Removes dead packs and copies what lives out of packs that are not worth keeping."""

    def __init__(self, context: Context, tenant_id: TenantId, waste: float) -> None:
        self._context = context
        self._tenant_id = tenant_id
        self._waste = waste
        self._live: Live = {}
        self.removed = 0
        self.gone, self.made = set[PackId](), set[PackId]()
        """Packs that it took out of use, and those that took their place."""
        self.freed_bytes = 0
        """What was deleted at once, less what was written."""
        self.damaged: list[str] = []
        self.is_complete = True
        """Whether all was copied that should be: not, where there was no room."""

    @property
    def spares_nothing(self) -> bool:
        """Whether nothing that is dead may stay anywhere."""
        return not self._waste

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

    def join(self, packs: Sequence[PackRow]) -> None:
        """Copies packs together that are small, whatever of them lives: nobody has looked."""
        self._live = {}
        for pack in packs:
            with self._sparing(pack):
                held = self._index(pack)
                with self._context.catalog.ask() as transaction:
                    located = transaction.locate(
                        self._tenant_id, [place.object_id for place in held]
                    )
                # Also what no row names: a row may be lost, and only who follows maps can tell.
                self._live[pack.id] = {
                    place.object_id: place.size
                    for place in held
                    if place.object_id not in located or located[place.object_id].pack_id == pack.id
                }
        # One that holds nothing any more is left by who was killed before it was done.
        for pack in packs:
            if self._live.get(pack.id) == {}:
                self._remove(pack)
        self._copy([pack for pack in packs if self._live.get(pack.id)])

    def _is_wasteful(self, pack: PackRow) -> bool:
        live, held_bytes = self._live[pack.id], pack.plain_bytes
        living = sum(live.values())
        # What was written down is not read again, unless it cannot be so.
        if held_bytes is None or held_bytes < living:
            held_bytes = 0
            with self._sparing(pack):
                held_bytes = self._count(pack)
        return living < held_bytes * (1 - self._waste)

    def _count(self, pack: PackRow) -> int:
        """Returns what the objects of a pack take, as it says itself, and writes that down."""
        held = self._index(pack)
        if not self._live[pack.id].keys() <= {place.object_id for place in held}:
            raise PackDamaged(pack.name, reason="it does not hold what the catalog says")
        plain_bytes = sum(place.size for place in held)
        with self._context.catalog.write() as transaction:
            transaction.set_plain_bytes(pack.id, plain_bytes)
        return plain_bytes

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
            try:
                self._replace(sources, builder.finish())
            except StorageFull:
                if not self._waste:
                    raise
                self.is_complete = False

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
                plain_bytes=new.plain_bytes,
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
        self.made.add(pack_id)
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
            # Unless somebody else is at it by now, and has moved it.
            self._context.catalog.check_current()
            self.damaged.append(pack.name)

    def _drop(self, packs: Sequence[PackRow]) -> None:
        """Takes packs out of use; bytes that lie inside the catalog are gone with that."""
        now = self._context.clock()
        outside = [retired(pack, self._tenant_id, now=now) for pack in packs if not pack.is_inline]
        with self._context.catalog.write() as transaction:
            for pack in packs:
                transaction.delete_pack(pack.id)
            transaction.retire(outside)
        self.gone |= {pack.id for pack in packs}
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
        # Whoever stores one anew meanwhile has it in a pack of its own.
        here = {found.placement for found in located.values() if found.pack_id == pack.id}
        if not here <= {*held}:
            raise PackDamaged(pack.name, reason="it does not hold what the catalog says")

    def _check_copies(self, pack: PackRow, held: Sequence[Placement]) -> None:
        """Raises if a pack holds what the catalog looks for elsewhere, and does not find there.

        Two writers may have stored the same object: then one copy can go, if the other is good.
        """
        live = self._live.get(pack.id, {})
        others = [place.object_id for place in held if place.object_id not in live]
        with self._context.catalog.ask() as transaction:
            needed = transaction.existing(self._tenant_id, others)
        source = Objects(self._afresh(), self._tenant_id)
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
