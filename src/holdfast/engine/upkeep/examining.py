"""Looks at all that a tenant has, and says what of it is not as it has to be.

Two questions, answered separately. Are the bytes what their names say? Every object of every pack
is hashed again, from disk, past every cache. And is all there that something needs? Every root is
walked to its last chunk, and every conversation to its first turn.

All of it is of the moment of one transaction. What lies in a bucket is read between transactions:
a look that meets something unread ends with `Away`, and begins anew when that was read. Packs are
written once, so none is read twice. Of maps, every part that was met is fetched together, so that
there are as many looks as the deepest map has levels; and kept in a file of this machine, up to
`ROOM_BYTES`. What there is no room for is fetched inside of the transaction.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Final, Self

from holdfast.catalog.packs import Located, PackRow
from holdfast.catalog.transaction import Transaction
from holdfast.engine.audit import notes as damagenotes
from holdfast.engine.audit.soundness import find_journal_faults
from holdfast.engine.core.caches import FileCache
from holdfast.engine.core.context import Context
from holdfast.engine.memory.plane import find_memory_faults
from holdfast.engine.objects.content import list_refs
from holdfast.engine.objects.packing import decode_state
from holdfast.engine.objects.reader import BlocksAway, Objects, bring_blocks
from holdfast.engine.planes import missing
from holdfast.engine.sessions.soundness import find_faults
from holdfast.engine.timeline.diff import entry_name
from holdfast.engine.upkeep.orphans import find_orphan_faults
from holdfast.entries import (
    IN_ROW,
    Blob,
    Overlay,
    Session,
    Submap,
    blobs_of,
    decode_entry,
)
from holdfast.errors import Damaged, HoldfastError, PackDamaged, VaultTooNew
from holdfast.fetching import Away, anew, can_wait
from holdfast.ids import ObjectId, PackId, TenantId
from holdfast.model.basics import EMPTY_MAP, UNSTORED_ROOTS, Head, Placement, Plane
from holdfast.model.upkeep import Fault, Verified
from holdfast.packs import check_pack, parse_index
from holdfast.progress import Progress, no_progress
from holdfast.tree import Node

ROOM_BYTES: Final = 256 << 20
"""What is kept of maps on this machine while they are followed: some million entries. A temporary
directory may be in memory."""

FindFaults = Callable[[Context, Transaction, TenantId], Iterator[tuple[str, str]]]
"""Finds what of some rows is not as it has to be, and says why."""

Keep = Callable[[PackRow, bytes, bool], None]
"""Is given a pack with its bytes, and whether it was found sound."""

Proven = dict[PackId, set[Placement]]
"""Where the objects are that were just re-hashed and found sound, by pack."""


class _Read:
    """What a pack was found to be."""

    __slots__ = ("faults", "placements", "size")

    def __init__(self) -> None:
        self.size = 0
        self.faults = list[Fault]()
        self.placements = set[Placement]()


class Examination:
    """Looks at all that a tenant has, as often as it takes to have it at hand."""

    def __init__(
        self,
        context: Context,
        tenant_id: TenantId,
        *,
        keep: Keep = lambda _pack, _data, _is_sound: None,
        keeps_apart: bool = False,
        progress: Progress = no_progress,
    ) -> None:
        """Begins; packs go to `keep`, with no transaction open if it `keeps_apart`."""
        # Past the caches: what they hold may be better than what is on disk.
        self._context = context.without_caches()
        self._tenant_id = tenant_id
        self._keep, self._progress = keep, progress
        self._reads_apart = keeps_apart or context.blobs.is_remote
        self._read = dict[str, _Read]()
        self._opened = ExitStack()
        self.packs: Sequence[PackRow] = ()
        """Those that there were at the last look."""
        if context.blobs.is_remote:
            blocks = FileCache[tuple[str, int]](ROOM_BYTES)
            self._opened.callback(blocks.close)
            self._context = replace(self._context, blocks=blocks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def look(self, transaction: Transaction) -> Verified:
        """Says what there is at the moment of a transaction.

        Raises `Away` where something has to be read first, if whoever asks begins anew then.
        """
        faults: list[Fault] = []
        proven: Proven = {}
        total, roots = 0, 0
        self.packs = ()
        if self._reads_apart and can_wait():
            # Before anything that takes long: it is looked at once, when all is at hand.
            self._check_at_hand(transaction)
        try:
            damaged = transaction.iter_damaged_rows(self._tenant_id)
            faults += [Fault(each.what, str(each.error)) for each in damaged]
            packs = transaction.iter_packs(self._tenant_id)
            self.packs = [pack for pack in packs if pack.is_stored]
            for at, pack in enumerate(self.packs):
                self._progress("packs", at, len(self.packs))
                read = self._read.get(pack.name) or self._read_pack(pack, transaction)
                proven[pack.id] = read.placements
                total += read.size
                faults += read.faults
            walk = _Walk(self._context, transaction, self._tenant_id, faults, proven)
            roots = walk.run(self._progress)
        except Damaged as exc:
            # The catalog's own bytes: what it can no longer tell cannot be checked either.
            faults.append(_unreadable("catalog", exc))
        faults = damagenotes.marked(transaction, self._tenant_id, faults)
        objects = sum(len(placements) for placements in proven.values())
        return Verified(len(self.packs), objects, total, roots, faults)

    def _check_at_hand(self, transaction: Transaction) -> None:
        """Raises `Away` if packs, or parts of maps, have yet to be read between transactions."""
        with suppress(Damaged):  # Which is said of it where it is looked at.
            packs = [p for p in transaction.iter_packs(self._tenant_id) if p.is_stored]
            unread = [p for p in packs if not p.is_inline and p.name not in self._read]
            if unread:
                raise Away(partial(self._read_packs, unread))
            if self._context.blobs.is_remote:
                _Walk(self._context, transaction, self._tenant_id, [], None).follow()

    def _read_packs(self, packs: Sequence[PackRow]) -> int:
        """Reads packs with no transaction open; returns 1: nothing of them is kept here."""
        for at, pack in enumerate(packs):
            self._progress("packs", at, len(packs))
            self._read_pack(pack, None)
        return 1

    def _read_pack(self, pack: PackRow, transaction: Transaction | None) -> _Read:
        read = _Read()
        data = read_pack(self._context, transaction, pack, read.faults)
        if data is not None:
            read.size = len(data)
            read.placements = check_bytes(pack, data, read.faults)
            self._keep(pack, data, not read.faults)
        if not pack.is_inline:
            # What the catalog holds is read at each moment anew.
            self._read[pack.name] = read
        return read


def examine(context: Context, tenant_id: TenantId, *, progress: Progress = no_progress) -> Verified:
    """Checks all that a tenant has, at one moment. Whoever asks keeps collections away."""
    with Examination(context, tenant_id, progress=progress) as examination:

        def look() -> Verified:
            found: Verified | None = None
            try:
                with context.catalog.read() as transaction:
                    found = examination.look(transaction)
            except Damaged as exc:
                # A transaction in which something failed says so once more at its end.
                found = found or Verified(0, 0, 0, 0, [_unreadable("catalog", exc)])
            return found

        return anew(look, room_bytes=ROOM_BYTES)


def find_index_faults(context: Context) -> list[Fault]:
    """Returns where the catalog's indexes and rows do not agree, whoever's they are.

    And rows that do not agree with others, where those can be found.
    """
    faults = [Fault("catalog", reason) for reason in context.catalog.find_index_faults()]
    return faults or find_orphan_faults(context)


def read_pack(
    context: Context, transaction: Transaction | None, pack: PackRow, faults: list[Fault]
) -> bytes | None:
    """Returns the bytes of a pack; None, with a fault, if they are not to be had.

    Those of one that is inline are in the catalog, and need a transaction.
    """
    try:
        if transaction is None or not pack.is_inline:
            return context.blobs.get(pack.name)
        data = transaction.get_pack_data(pack.id)
    except Damaged as exc:
        faults.append(Fault(pack.name, str(exc)))
        return None
    if data is None:
        faults.append(Fault(pack.name, "its bytes are missing from the catalog"))
    return data


def check_bytes(pack: PackRow, data: bytes, faults: list[Fault]) -> set[Placement]:
    """Re-hashes a pack; returns where its sound objects are: none, if it cannot say."""
    if len(data) != pack.size_bytes:
        reason = f"it has {len(data)} bytes, not {pack.size_bytes}"
        faults.append(Fault(pack.name, reason))
    try:
        damages = check_pack(data, pack=pack.name)
        held = parse_index(data, pack=pack.name)
    except PackDamaged as exc:
        faults.append(Fault(pack.name, exc.reason))
        return set()
    except VaultTooNew as exc:
        # A flipped bit, or a newer holdfast's: either way it could not be checked.
        faults.append(Fault(pack.name, str(exc)))
        return set()
    faults += [Fault(pack.name, damage.reason, damage.object_id) for damage in damages]
    lost = {damage.object_id for damage in damages}
    return {placement for placement in held if placement.object_id not in lost}


def _unreadable(what: str, error: HoldfastError, before: str = "") -> Fault:
    """Returns the fault of what the catalog cannot tell, with what to do if it is the catalog."""
    return Fault(what, f"{before}{error}", hint=vars(error).get("hint", ""))


class _Walk:
    """Follows every root to its chunks; each node and list is looked at once."""

    def __init__(
        self,
        context: Context,
        transaction: Transaction,
        tenant_id: TenantId,
        faults: list[Fault],
        proven: Proven | None,
    ) -> None:
        """Begins; with nothing `proven` it is only seen what there is to be read."""
        self._proven = proven
        self._transaction = transaction
        self._tenant_id = tenant_id
        self._faults = faults
        self._context = context
        self._objects = Objects(self._context, tenant_id, transaction)
        # Apart: a file may hold the very bytes of a node, which is still to be walked.
        self._nodes: set[ObjectId] = set()
        self._chunks_seen: set[ObjectId] = set()
        self._away = dict[tuple[str, int], Located]()
        """Blocks of a bucket that have to be fetched before there is more to be seen."""

    def run(self, progress: Progress) -> int:
        """Walks all roots and rows; returns how many roots there are."""
        roots = self.follow(progress)
        # These read what is at hand by now, or end with `Away` themselves.
        self._rows("sessions", find_faults)
        self._rows("memories", find_memory_faults)
        self._rows("journal", find_journal_faults)
        return roots

    def follow(self, progress: Progress = no_progress) -> int:
        """Walks all roots and pending rows; returns how many roots there are.

        Raises `Away` with all that has to be fetched, if the walk can be begun anew.
        """
        roots = dict(self._roots())
        for at, (root_id, where) in enumerate(roots.items()):
            progress("roots", at, len(roots))
            self._root(root_id, where)
        for head in self._transaction.sort_heads(self._tenant_id).sound:
            self._pending(head)
        for state in self._transaction.iter_version_states(self._tenant_id):
            self._state(state)
        self._tasks()
        if self._away:
            # As many as can be had: of the others something is said where they are needed.
            raise Away(lambda: sum(bring_blocks(self._context, [*self._away.values()])))
        return len(roots)

    def _root(self, root_id: ObjectId, where: str) -> None:
        try:
            root = self._objects.get_root(root_id)
        except BlocksAway as exc:
            self._note(exc)
            return
        except (Damaged, VaultTooNew) as exc:
            self._faults.append(Fault("root", str(exc), root_id, (where,)))
            return
        for plane in Plane:
            self._map(plane, root.plane(plane), where)

    def _pending(self, head: Head) -> None:
        where = f"head of {head.name}"
        pending, damaged = self._transaction.sort_pending(head.namespace_id)
        for lost in damaged:
            what = f"{lost.plane}: {lost.name}"
            self._faults.append(Fault(what, str(lost), None, (where,)))
        if not damaged and missing.find_all(head, pending):
            self._faults.append(Fault("pending", str(missing.lost()), None, (where,)))
        for plane, key, entry in pending:
            # What the row of a memory holds is nowhere else yet.
            if entry is not None and entry != IN_ROW:
                self._entry(plane, key, entry, where)

    def _note(self, away: BlocksAway) -> None:
        """Notes what has to be fetched, and goes on with the rest."""
        self._away |= {(p.pack, p.placement.block_offset): p for p in away.places}

    def _tasks(self) -> None:
        noted = self._transaction.sort_task_changes(self._tenant_id)
        for plane, key, entry in noted.sound:
            self._entry(plane, key, entry, "what tasks changed")
        for reason in dict.fromkeys(map(str, noted.damaged)):
            self._faults.append(Fault("what tasks changed", reason))

    def _rows(self, what: str, find: FindFaults) -> None:
        try:
            for name, reason in find(self._context, self._transaction, self._tenant_id):
                self._faults.append(Fault(name, reason))
        except (Damaged, VaultTooNew) as exc:
            # Named above too, where it was met; but what it hides could not be checked.
            self._faults.append(_unreadable(what, exc, "not all could be checked: "))

    def _roots(self) -> Iterator[tuple[ObjectId, str]]:
        for head in self._transaction.sort_heads(self._tenant_id).sound:
            for root in (head.root, head.fork_root):
                if root is not None and root not in UNSTORED_ROOTS:
                    yield root, f"head of {head.name}"
        for snapshot in self._transaction.sort_snapshots(self._tenant_id).sound:
            if snapshot.root not in UNSTORED_ROOTS:
                yield snapshot.root, snapshot.id

    def _map(self, plane: Plane, root: ObjectId, where: str) -> None:
        todo = [] if root == EMPTY_MAP else [root]
        while todo:
            object_id = todo.pop()
            if object_id in self._nodes:
                continue
            self._nodes.add(object_id)
            try:
                node = self._objects.get_nodes([object_id])[0]
            except BlocksAway as exc:
                self._note(exc)
                continue
            except Damaged as exc:
                self._faults.append(
                    Fault(f"{plane}: part of its map", str(exc), object_id, (where,))
                )
                continue
            todo += self._below(plane, node, where)

    def _below(self, plane: Plane, node: Node, where: str) -> list[ObjectId]:
        if node.level:
            return [ObjectId(value) for value in node.values]
        for key, data in zip(node.keys, node.values, strict=True):
            self._entry(plane, key, data, where)
        return []

    def _entry(self, plane: Plane, key: bytes, data: bytes, where: str) -> None:
        name = entry_name(plane, key)
        try:
            entry = decode_entry(data)
            if isinstance(entry, Session):
                entry = decode_state(entry.state)
            if isinstance(entry, Submap | Overlay):
                self._map(plane, ObjectId(entry.root), where)
            for blob in blobs_of(entry):
                self._chunks(f"{plane}: {name}", blob, where)
        except Damaged as exc:
            self._faults.append(Fault(f"{plane}: {name}", str(exc), None, (where,)))

    def _state(self, data: bytes) -> None:
        try:
            state = decode_state(data)
        except Damaged as exc:
            what = f"{Plane.SESSIONS}: a version of a session"
            self._faults.append(Fault(what, str(exc), None, ("its history",)))
            return
        if isinstance(state, Submap | Overlay):
            self._map(Plane.SESSIONS, ObjectId(state.root), "its history")

    def _chunks(self, what: str, blob: Blob, where: str) -> None:
        try:
            needed = [i for i in list_refs(self._objects, blob) if i not in self._chunks_seen]
        except BlocksAway as exc:
            self._note(exc)
            return
        if self._proven is None:
            return
        located = self._transaction.locate(self._tenant_id, needed)
        for object_id in needed:
            found = located.get(object_id)
            if found is None:
                reason = "a part of its content is named but not stored"
            elif found.placement not in self._proven.get(found.pack_id, ()):
                reason = f"a part of its content is not to be had from {found.pack}"
            else:
                self._chunks_seen.add(object_id)
                continue
            self._faults.append(Fault(what, reason, object_id, (where,)))
