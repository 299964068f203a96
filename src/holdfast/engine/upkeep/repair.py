"""Rebuilds what can be rebuilt of damaged packs, and names what cannot.

0. Indexes of the catalog that do not agree with its rows are made anew. Rows of packs are put
   right by the packs (`packrows.py`), others by what they hold, or let go of (`rows.py`).
1. Every pack is read and hashed again (`inventory.py`).
2. What the index looks for in the wrong place, and another pack holds, is pointed to.
3. What is nowhere in the packs that are named is looked for elsewhere: in packs that no row names
   any more, in the attached directories, in copies of the vault. It is taken if it hashes to its
   name, and from nobody else; it is stored as new objects are: bytes first, name last.
4. What is found may lead to more that is lost: 3 is done again until nothing more is found.
5. What was written since the last snapshot and is damaged is let go of (`pending/damage.py`).
6. A damaged pack that nothing needs any more is retired, once what is sound of it lies elsewhere
   too: its bytes stay for a while. One that still lacks something stays named, so that it can be
   put back from a copy.

Each step is whole by itself: killed at any point, the next run goes on from there.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from holdfast.catalog.packs import PackRow
from holdfast.catalog.transaction import Transaction
from holdfast.engine.audit import notes as damagenotes
from holdfast.engine.capturing.captured import Captured
from holdfast.engine.core.context import Context
from holdfast.engine.core.fencing import fenced
from holdfast.engine.directory.attachments import Attachments
from holdfast.engine.directory.directory import Directory
from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.retired import retired
from holdfast.engine.objects.stage import Stage
from holdfast.engine.pending.damage import let_go
from holdfast.engine.planes import missing
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions.writing import entry_of
from holdfast.engine.upkeep.examining import examine, find_index_faults, read_pack
from holdfast.engine.upkeep.inventory import Inventory
from holdfast.engine.upkeep.journal import mend_journal
from holdfast.engine.upkeep.orphans import bring_orphans_home, drop_orphans
from holdfast.engine.upkeep.packrows import mend_packs
from holdfast.engine.upkeep.repacking import lock_name
from holdfast.engine.upkeep.rows import mend_head, mend_rows
from holdfast.engine.upkeep.unfolded import note_unfolded
from holdfast.entries import encode_entry
from holdfast.errors import Damaged, HoldfastError, PendingDamaged, VaultTooNew
from holdfast.ids import ObjectId, PackId, TenantId, object_id_of
from holdfast.model.basics import EMPTY_MAP, Head, Plane, Root
from holdfast.model.upkeep import Lost, Repaired
from holdfast.packs import BLOCK_TARGET_BYTES, ObjectKind, cut, parse_index, read_block
from holdfast.progress import Progress, no_progress
from holdfast.tree import build

_FOLLOW: Final = (
    *("packs", "pack_data", "pack_sums", "objects"),
    *("anchored", "chores", "counted", "event_ends"),
)
"""Tables that follow from others: of what is lost with a row of theirs, those tell."""

StoredObject = tuple[ObjectId, bytes, ObjectKind]

Take = Callable[[ObjectId, bytes, ObjectKind], None]
"""Takes an object whose bytes were found, and which is wanted."""


class _NotStored(Exception):
    """What was found could not be stored; nobody shall take it for a fault of where it was."""


def repair(
    context: Context,
    tenant_id: TenantId,
    *,
    places: Sequence[Path] = (),
    progress: Progress = no_progress,
) -> Repaired:
    """Repairs what one tenant has; raises `Busy` while a collection moves things about.

    `places` hold copies of the vault, or what is left of them.
    """
    with fenced(context, lock_name(tenant_id)) as fence:
        return _Repair(fence, tenant_id, places, progress).run()


class _Repair:
    """One run."""

    def __init__(
        self, context: Context, tenant_id: TenantId, places: Sequence[Path], progress: Progress
    ) -> None:
        self._context = context
        self._tenant_id = tenant_id
        self._places = places
        self._progress = progress
        with context.catalog.write() as transaction:
            # What is used again from now on bears its stamp.
            self._epoch = transaction.advance_epoch(tenant_id)
        self._reindexed, self._mended, self._given_up = 0, 0, list[Lost]()
        self._mend_catalog()
        self._inventory = Inventory(context, tenant_id, progress)
        self._rebuilt = 0

    def _mend_catalog(self) -> None:
        """Puts right what is damaged of the catalog's own; names what is lost by that."""
        catalog = self._context.catalog
        if faults := catalog.find_index_faults():
            lost = catalog.rebuild_indexes()
            self._reindexed = len(faults) - len(catalog.find_index_faults())
            for table, count in lost.items():
                if table not in _FOLLOW:
                    what = f"{table}: rows that said to be others: {count}"
                    self._given_up.append(Lost(what, None, ("the catalog",)))
        self._mended += bring_orphans_home(self._context)
        self._mended += mend_packs(self._context, self._tenant_id)
        self._mended += mend_journal(self._context, self._tenant_id)
        mended, given_up = mend_rows(self._context, self._tenant_id)
        self._mended += mended
        self._given_up += given_up

    def _drop_orphans(self) -> list[Lost]:
        """Lets go of rows that refer to nothing, once all that can be put right is."""
        if self._context.catalog.find_index_faults():
            return []  # What they refer to may be there.
        return drop_orphans(self._context)

    def run(self) -> Repaired:
        """Does all of it."""
        inventory = self._inventory
        found = self._point([*inventory.unsound])
        lost = inventory.find_lost(self._progress)
        while lost:
            before = len(inventory.sound)
            wanted = inventory.unsound.keys() | {each.object_id for each in lost if each.object_id}
            found += self._point(wanted)
            self._fetch(wanted - inventory.sound.keys())
            lost = inventory.find_lost(self._progress)
            if len(inventory.sound) == before:
                break
        lost += self._given_up
        lost += self._let_go()
        lost += self._drop_orphans()
        replaced = [pack_id for pack_id in sorted(inventory.faulty) if self._replace(pack_id, lost)]
        left = inventory.faulty - {*replaced}
        lost += self._name_rest(lost, {inventory.packs[pack_id].name for pack_id in left})
        return Repaired(
            self._rebuilt,
            found,
            tuple(inventory.packs[pack_id].name for pack_id in replaced),
            lost,
            tuple(inventory.packs[pack_id].name for pack_id in sorted(left)),
            self._mended,
            self._reindexed,
        )

    def _name_rest(self, lost: Sequence[Lost], packs: set[str]) -> list[Lost]:
        """Looks at all of it as `verify` does; notes what stays damaged, and names what is new."""
        context, tenant_id = self._context, self._tenant_id
        faults = examine(context, tenant_id, progress=self._progress).faults
        if any(not each.is_noted for each in faults):
            with context.catalog.write() as transaction:
                damagenotes.note(transaction, context, tenant_id, faults)
        # Never known: no copy of a file that the database itself finds damaged is a good one.
        faults += find_index_faults(context)
        told = packs | {each.what for each in lost}
        objects = {each.object_id for each in lost if each.object_id}
        return [
            Lost(f"{each.what}: {each.reason}", each.object_id, each.snapshots or ("the catalog",))
            for each in faults
            if each.what not in told and each.object_id not in objects
        ]

    def _let_go(self) -> list[Lost]:
        """Puts right what is damaged of each namespace, or lets go of it; returns what is lost."""
        lost = list[Lost]()
        with self._context.catalog.read() as transaction:
            heads = transaction.sort_heads(self._tenant_id).sound
        for each in heads:
            with self._context.catalog.write() as transaction:
                for mend in (self._mend_pending, self._mend_rest):
                    head = transaction.lock_head(each.namespace_id)
                    gone = [] if head is None else mend(transaction, head)
                    lost += [Lost(what, None, (f"head of {each.name}",)) for what in gone]
        return lost

    def _mend_pending(self, transaction: Transaction, head: Head) -> list[str]:
        """Puts right what is pending, or lets go of it; returns what is lost by that."""
        _, damaged = transaction.sort_pending(head.namespace_id)
        for row in damaged:
            self._mended += transaction.mend_pending(head.namespace_id, row)
        if damaged:
            _, damaged = transaction.sort_pending(head.namespace_id)
        gone = [row for row in damaged if not _is_rebuilt(transaction, head, row)]
        if gone:
            let_go(transaction, Handle(self._context, self._tenant_id, head.name), head, gone)
        handle = Handle(self._context, self._tenant_id, head.name)
        self._mended += note_unfolded(transaction, handle, head.namespace_id)
        count, lost = missing.mend(transaction, transaction.lock_head(head.namespace_id) or head)
        self._mended += count
        return [*(f"{row.plane}: {row.name}" for row in gone), *lost]

    def _mend_rest(self, transaction: Transaction, head: Head) -> list[str]:
        """Puts right what else belongs to a namespace; returns what is lost."""
        count, gone = mend_head(transaction, self._context, head)
        self._mended += count
        return gone

    def _point(self, wanted: Iterable[ObjectId]) -> int:
        """Points the index to where packs hold what it looks for elsewhere."""
        inventory = self._inventory
        there = [i for i in wanted if i in inventory.copies and i not in inventory.sound]
        if there:
            with self._context.catalog.write() as transaction:
                epoch = transaction.join_epoch(self._tenant_id)
                for object_id in there:
                    pack_id, place = inventory.copies[object_id]
                    transaction.relocate_objects(self._tenant_id, pack_id, [place], epoch=epoch)
        for object_id in there:
            inventory.learn([object_id], inventory.copies[object_id][0])
        return len(there)

    def _fetch(self, wanted: set[ObjectId]) -> None:
        """Stores anew what is to be had elsewhere."""
        for packs in (self._unnamed, self._foreign):
            if wanted:
                self._rebuilt += self._store(partial(_sift, packs(), wanted), wanted)
        if wanted:
            self._rebuilt += self._store(partial(self._search_directories, wanted), wanted)

    def _store(self, search: Callable[[Take], None], wanted: set[ObjectId]) -> int:
        """Stores what a search finds, which is no longer wanted then; returns how much it is."""
        stored: set[ObjectId] = set()
        with Stage(self._context, self._tenant_id) as stage:

            def take(object_id: ObjectId, data: bytes, kind: ObjectKind) -> None:
                stored.add(object_id)
                try:
                    stage.renew(object_id, data, kind)
                    stage.spill()
                except HoldfastError as exc:
                    raise _NotStored from exc

            try:
                search(take)
            except _NotStored as exc:
                raise exc.__cause__ or exc from None
            stage.seal()
            if stored:
                with self._context.catalog.write() as transaction:
                    stage.record(transaction)
        self._inventory.learn(stored)
        wanted -= stored
        return len(stored)

    def _unnamed(self) -> Iterator[tuple[str, bytes]]:
        """Yields packs that no row names: retired ones, and those whose row is lost."""
        context = self._context
        with context.catalog.read() as transaction:
            named = transaction.pack_names()
        for name, _ in [*context.blobs.iter_names()]:
            if name not in named and context.owns_pack(name):
                with suppress(Damaged):
                    yield name, context.blobs.get(name)

    def _foreign(self) -> Iterator[tuple[str, bytes]]:
        for place in self._places:
            yield from self._context.salvage(place)

    def _search_directories(self, wanted: set[ObjectId], take: Take) -> None:
        """Takes what still lies in attached directories: chunks, nodes and roots."""
        for attachment in Attachments(self._context, self._tenant_id).list():
            directory = Directory(self._context, attachment.path, attachment.state)
            try:
                # One that is gone, or cannot be read, has nothing to give; the others may.
                with suppress(HoldfastError, OSError), attachment.locked():
                    directory.refresh()
                    former = ObjectId(directory.last.root)
                    directory.forget_index()
                    captured = directory.look(_Sieve(wanted, take), progress=self._progress)
                    self._take_maps(captured, former, wanted, take)
            finally:
                directory.let_go()

    def _take_maps(
        self, captured: Captured, former: ObjectId, wanted: set[ObjectId], take: Take
    ) -> None:
        held = {key: entry for key, entry in captured.changes.items() if entry is not None}
        built = build(sorted(held.items()))
        objects = Objects(self._context.without_caches(), self._tenant_id)
        beside = {Root(), Root(memories=None)}
        for root_id in self._inventory.readable_roots():
            with suppress(Damaged, VaultTooNew):
                beside.add(objects.get_root(root_id).replacing(files=EMPTY_MAP))
        roots = [
            root.replacing(files=files).encode()
            for files in (built.root, former, EMPTY_MAP)
            for root in beside
        ]
        for data in (*built.nodes.values(), *roots):
            if object_id_of(data) in wanted:
                take(object_id_of(data), data, ObjectKind.NODE)

    def _replace(self, pack_id: PackId, lost: Sequence[Lost]) -> bool:
        """Takes a damaged pack out of the catalog, if nothing needs it any more; says whether."""
        inventory, context, tenant_id = self._inventory, self._context, self._tenant_id
        unsound = [i for i, held_by in inventory.unsound.items() if held_by == pack_id]
        if unsound and lost:
            # What is lost may need them: nobody can say.
            return False
        held = {i for i, held_by in inventory.sound.items() if held_by == pack_id}
        pack = inventory.packs[pack_id]
        data = self._bytes_of(pack)
        self._store(partial(_sift, [(pack.name, data)], held), held)
        if held:
            return False
        if pack.is_inline and data:
            # With its row would go its bytes, which are evidence.
            context.blobs.put(pack.name, data)
        with context.catalog.write() as transaction:
            transaction.join_epoch(tenant_id)
            # What was used again since we looked is spared, and then so is the pack.
            gone = transaction.delete_objects(tenant_id, unsound, before=self._epoch)
            left = transaction.locate(tenant_id, unsound) if gone < len(unsound) else {}
            is_free = all(found.pack_id != pack_id for found in left.values())
            if is_free:
                transaction.delete_pack(pack_id)
                transaction.retire([retired(pack, tenant_id, now=context.clock())])
        return is_free

    def _bytes_of(self, pack: PackRow) -> bytes:
        with self._context.catalog.read() as transaction:
            return read_pack(self._context, transaction, pack, []) or b""


class _Sieve:
    """Takes content in, and lets through what is wanted of it."""

    def __init__(self, wanted: set[ObjectId], take: Take) -> None:
        self._wanted, self._take = wanted, take

    def add(self, data: bytes, kind: ObjectKind) -> ObjectId:
        """Takes an object in, and returns its name."""
        object_id = object_id_of(data)
        if object_id in self._wanted:
            self._take(object_id, data, kind)
        return object_id

    def spill(self) -> None:
        """Has nothing to spill."""


def _is_rebuilt(transaction: Transaction, head: Head, damaged: PendingDamaged) -> bool:
    """Puts a session into the plane as its own rows have it, if there are any; says whether."""
    if damaged.plane != Plane.SESSIONS:
        return False
    try:
        found = transaction.find_session(head.tenant_id, head.name, damaged.name)
        if found is None:
            return False
        entry = encode_entry(entry_of(*found)) if found[0].is_present else None
    except Damaged:
        return False  # Its own rows are looked at when all is done that is pending.
    rows = [(damaged.key, entry)]
    transaction.put_pending(head.namespace_id, Plane.SESSIONS, rows, sequence=head.sequence)
    return True


def _sift(packs: Iterable[tuple[str, bytes]], wanted: set[ObjectId], take: Take) -> None:
    """Takes what is wanted out of packs: each object once, and proven by its hash."""
    left = set(wanted)
    for name, data in packs:
        for object_id, found, kind in _objects_in(name, data, left):
            left.discard(object_id)
            take(object_id, found, kind)


def _objects_in(name: str, data: bytes, wanted: set[ObjectId]) -> Iterator[StoredObject]:
    try:
        held = parse_index(data, pack=name)
    except (Damaged, VaultTooNew):
        return
    block_at, block = -1, b""
    for place in held:
        if place.object_id not in wanted:
            continue
        try:
            if place.block_offset != block_at:
                stored = data[place.block_offset : place.block_offset + place.block_size]
                block_at, block = -1, read_block(stored, pack=name)
                block_at = place.block_offset
            found = cut(block, place, pack=name)
        except Damaged:
            continue
        # Small blocks are those of nodes, and stay small: nodes are read at random.
        is_node = len(block) <= BLOCK_TARGET_BYTES[ObjectKind.NODE]
        yield place.object_id, found, ObjectKind.NODE if is_node else ObjectKind.CHUNK
