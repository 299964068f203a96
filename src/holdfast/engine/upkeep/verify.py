"""Re-hashes everything and names what is damaged.

Two questions, answered separately. Are the bytes what their names say? Every object of every
pack is hashed again, from disk, past every cache. And is all there that something needs? Every
root is walked to its last chunk, and every conversation to its first turn. What is found is
reported, never repaired and never hidden: damage names the pack and object, and the snapshots
and paths that need it.
"""

from collections.abc import Callable, Iterator

from holdfast.catalog.packs import PackRow
from holdfast.catalog.transaction import Transaction
from holdfast.engine.audit import notes as damagenotes
from holdfast.engine.audit.soundness import find_journal_faults
from holdfast.engine.core.context import Context
from holdfast.engine.core.fencing import fenced
from holdfast.engine.memory.plane import find_memory_faults
from holdfast.engine.objects.content import list_refs
from holdfast.engine.objects.packing import decode_state
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes import missing
from holdfast.engine.sessions.soundness import find_faults
from holdfast.engine.timeline.diff import entry_name
from holdfast.engine.upkeep.repacking import lock_name
from holdfast.entries import (
    IN_ROW,
    Blob,
    Overlay,
    Session,
    Submap,
    blobs_of,
    decode_entry,
)
from holdfast.errors import Damaged, HoldfastError, PackDamaged, RowDamaged, VaultTooNew
from holdfast.ids import ObjectId, PackId, TenantId
from holdfast.model.basics import EMPTY_MAP, UNSTORED_ROOTS, Placement, Plane
from holdfast.model.upkeep import Fault, Verified
from holdfast.packs import check_pack, parse_index
from holdfast.progress import Progress, no_progress
from holdfast.tree import Node

FindFaults = Callable[[Context, Transaction, TenantId], Iterator[tuple[str, str]]]
"""Finds what of some rows is not as it has to be, and says why."""

Proven = dict[PackId, set[Placement]]
"""Where the objects are that were just re-hashed and found sound, by pack."""


def verify(context: Context, tenant_id: TenantId, *, progress: Progress = no_progress) -> Verified:
    """Checks all that a tenant has; raises `Busy` while a collection moves things about."""
    found: Verified | None = None
    with fenced(context, lock_name(tenant_id)) as fence:
        try:
            with context.catalog.read() as transaction:
                found = examine(context, transaction, tenant_id, progress=progress)
        except Damaged as exc:
            # A transaction in which something failed says so once more at its end.
            found = found or Verified(0, 0, 0, 0, [_unreadable("catalog", exc)])
        if found.faults:
            fence.catalog.check_current()  # A collection may have begun since, and moved things.
    found.faults.extend(find_index_faults(context))
    if loss := context.catalog.find_loss():
        found.faults.append(Fault("catalog", str(loss)))
    return found


def find_index_faults(context: Context) -> list[Fault]:
    """Returns where the catalog's indexes and rows do not agree, whoever's they are."""
    return [Fault("catalog", reason) for reason in context.catalog.find_index_faults()]


def examine(
    context: Context,
    transaction: Transaction,
    tenant_id: TenantId,
    *,
    keep: Callable[[PackRow, bytes], None] = lambda _pack, _data: None,
    progress: Progress = no_progress,
) -> Verified:
    """Checks all that a tenant has at the moment of a transaction; sound packs go to `keep`."""
    faults: list[Fault] = []
    proven: Proven = {}
    packs, total, roots = list[PackRow](), 0, 0
    try:
        damaged = transaction.iter_damaged_rows(tenant_id)
        faults += [Fault(each.what, str(each.error)) for each in damaged]
        packs = [pack for pack in transaction.iter_packs(tenant_id) if pack.is_stored]
        for at, pack in enumerate(packs):
            progress("packs", at, len(packs))
            known = len(faults)
            data = read_pack(context, transaction, pack, faults)
            if data is not None:
                proven[pack.id] = check_bytes(pack, data, faults)
                total += len(data)
                if len(faults) == known:
                    keep(pack, data)
        roots = _Walk(context, transaction, tenant_id, faults, proven).run(progress)
    except Damaged as exc:
        # The catalog's own bytes: what it can no longer tell cannot be checked either.
        faults.append(_unreadable("catalog", exc))
    faults = damagenotes.marked(transaction, tenant_id, faults)
    objects = sum(len(placements) for placements in proven.values())
    return Verified(len(packs), objects, total, roots, faults)


def rebuild_index(context: Context, tenant_id: TenantId) -> int:
    """Writes the object index anew from what the packs say of themselves; returns its rows.

    Raises `Damaged`, after all the others, if packs could not be read.
    """
    faults: list[Fault] = []
    count = 0
    with fenced(context, lock_name(tenant_id)) as fence:
        with fence.catalog.read() as transaction:
            packs = [pack for pack in transaction.iter_packs(tenant_id) if pack.is_stored]
        for pack in packs:
            with fence.catalog.write() as transaction:
                count += _reindex(fence, transaction, tenant_id, pack, faults)
    if faults:
        message = f"{len(faults)} packs could not be read, the first: {faults[0].reason}"
        raise Damaged(message)
    return count


def _reindex(
    context: Context,
    transaction: Transaction,
    tenant_id: TenantId,
    pack: PackRow,
    faults: list[Fault],
) -> int:
    data = read_pack(context, transaction, pack, faults)
    if data is None:
        return 0
    try:
        placements = parse_index(data, pack=pack.name)
    except Damaged as exc:
        faults.append(Fault(pack.name, str(exc)))
        return 0
    epoch = transaction.join_epoch(tenant_id)
    transaction.relocate_objects(tenant_id, pack.id, placements, epoch=epoch)
    return len(placements)


def read_pack(
    context: Context, transaction: Transaction, pack: PackRow, faults: list[Fault]
) -> bytes | None:
    """Returns the bytes of a pack; None, with a fault, if they are not to be had."""
    try:
        if not pack.is_inline:
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
        proven: Proven,
    ) -> None:
        self._proven = proven
        self._transaction = transaction
        self._tenant_id = tenant_id
        self._faults = faults
        # Past the caches: what they hold may be better than what is on disk.
        self._context = context.without_caches()
        self._objects = Objects(self._context, tenant_id, transaction)
        # Apart: a file may hold the very bytes of a node, which is still to be walked.
        self._nodes: set[ObjectId] = set()
        self._chunks_seen: set[ObjectId] = set()

    def run(self, progress: Progress) -> int:
        """Walks all roots and pending rows; returns how many roots there are."""
        roots = dict(self._roots())
        for at, (root_id, where) in enumerate(roots.items()):
            progress("roots", at, len(roots))
            try:
                root = self._objects.get_root(root_id)
            except (Damaged, VaultTooNew) as exc:
                self._faults.append(Fault("root", str(exc), root_id, (where,)))
                continue
            for plane in Plane:
                self._map(plane, root.plane(plane), where)
        for head in self._transaction.sort_heads(self._tenant_id).sound:
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
        for state in self._transaction.iter_version_states(self._tenant_id):
            self._state(state)
        self._tasks()
        self._rows("sessions", find_faults)
        self._rows("memories", find_memory_faults)
        self._rows("journal", find_journal_faults)
        return len(roots)

    def _tasks(self) -> None:
        try:
            for plane, key, entry in self._transaction.iter_task_entries(self._tenant_id):
                self._entry(plane, key, entry, "what tasks changed")
        except RowDamaged as exc:
            self._faults.append(Fault("what tasks changed", str(exc)))

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
        needed = [i for i in list_refs(self._objects, blob) if i not in self._chunks_seen]
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
