"""Finds out which objects are stored as they should be, and who lacks those that are not.

Every pack is read and hashed again, as `verify` does. An object is sound if the index points to
where one of these packs holds it. What a root lacks follows from its nodes: each is looked at
once, however many snapshots share it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from holdfast.catalog.packs import PackRow, pages
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.lineage import merged_root
from holdfast.engine.objects.content import list_refs
from holdfast.engine.objects.packing import decode_state
from holdfast.engine.objects.reader import Objects
from holdfast.engine.timeline.diff import entry_name
from holdfast.engine.upkeep.examining import check_bytes, read_pack
from holdfast.entries import IN_ROW, Blob, Overlay, Session, Submap, blobs_of, decode_entry
from holdfast.errors import Damaged, VaultTooNew
from holdfast.ids import ObjectId, PackId, TenantId
from holdfast.model.basics import EMPTY_MAP, UNSTORED_ROOTS, Placement, Plane
from holdfast.model.upkeep import Fault, Lost
from holdfast.progress import Progress

BATCH: Final = 1000
"""Objects looked up together: each that lies in the catalog brings its block along."""

Lack = tuple[str, ObjectId | None]
"""What is not whole, and the object that is not there."""


class Inventory:
    """What is stored of one tenant, as the packs themselves say."""

    def __init__(self, context: Context, tenant_id: TenantId, progress: Progress) -> None:
        self._context = context.without_caches()
        self._tenant_id = tenant_id
        self.packs: dict[PackId, PackRow] = {}
        self.faulty: set[PackId] = set()
        """Packs that are not what was written, wholly or in part."""
        self.copies: dict[ObjectId, tuple[PackId, Placement]] = {}
        """Where an object is that a pack holds."""
        self.sound: dict[ObjectId, PackId | None] = {}
        """What the index points to and is there, with its pack; None for one that is new."""
        self.unsound: dict[ObjectId, PackId] = {}
        """What the index points to, and is not there, with the pack it should be in."""
        with self._context.catalog.read() as transaction:
            proven = self._read_packs(transaction, progress)
            self._read_rows(transaction, proven)

    def _read_packs(
        self, transaction: Transaction, progress: Progress
    ) -> dict[PackId, set[Placement]]:
        packs = [pack for pack in transaction.iter_packs(self._tenant_id) if pack.is_stored]
        proven: dict[PackId, set[Placement]] = {}
        for at, pack in enumerate(packs):
            progress("packs", at, len(packs))
            faults: list[Fault] = []
            data = read_pack(self._context, transaction, pack, faults)
            proven[pack.id] = set() if data is None else check_bytes(pack, data, faults)
            self.packs[pack.id] = pack
            if faults:
                self.faulty.add(pack.id)
            for place in proven[pack.id]:
                self.copies[place.object_id] = pack.id, place
        return proven

    def _read_rows(self, transaction: Transaction, proven: dict[PackId, set[Placement]]) -> None:
        for page in pages(transaction, self._tenant_id):
            names = [row.id for row in page]
            located = {
                object_id: (found.pack_id, found.placement)
                for at in range(0, len(names), BATCH)
                for object_id, found in transaction.locate(
                    self._tenant_id, names[at : at + BATCH]
                ).items()
            }
            for row in page:
                pack_id, place = located.get(row.id, (row.pack_id, None))
                if place is not None and place in proven.get(pack_id, ()):
                    self.sound[row.id] = pack_id
                else:
                    self.unsound[row.id] = row.pack_id

    def learn(self, object_ids: Iterable[ObjectId], pack_id: PackId | None = None) -> None:
        """Knows that these objects are sound from now on, and in which pack they lie."""
        for object_id in object_ids:
            self.sound[object_id] = pack_id
            self.unsound.pop(object_id, None)

    def find_lost(self, progress: Progress) -> list[Lost]:
        """Returns what is needed and not there, with everything that needs it."""
        needed_by: defaultdict[Lack, dict[str, None]] = defaultdict(dict)
        with self._context.catalog.read() as transaction:
            walk = _Walk(self, Objects(self._context, self._tenant_id, transaction))
            roots = [*_roots(transaction, self._tenant_id)]
            for at, (root_id, where) in enumerate(roots):
                progress("roots", at, len(roots))
                for lack in walk.root(root_id):
                    needed_by[lack][where] = None
            for head in transaction.sort_heads(self._tenant_id).sound:
                pending, _ = transaction.sort_pending(head.namespace_id)
                for plane, key, entry in pending:
                    # What the row of a memory holds is nowhere else yet.
                    for lack in () if entry in (None, IN_ROW) else walk.entry(plane, key, entry):
                        needed_by[lack][f"head of {head.name}"] = None
            for state in transaction.iter_version_states(self._tenant_id):
                for lack in walk.state(state):
                    needed_by[lack]["history of sessions"] = None
            for plane, key, entry in transaction.sort_task_changes(self._tenant_id).sound:
                for lack in walk.entry(plane, key, entry):
                    needed_by[lack]["what tasks changed"] = None
        return [
            Lost(what, object_id, tuple(snapshots))
            for (what, object_id), snapshots in needed_by.items()
        ]

    def readable_roots(self) -> Iterator[ObjectId]:
        """Yields the roots that heads and snapshots name and that are there."""
        with self._context.catalog.read() as transaction:
            roots = dict.fromkeys(root for root, _ in _roots(transaction, self._tenant_id))
        return (root for root in roots if root in self.sound)


class _Walk:
    """Follows maps to their chunks, and remembers of each node what is lacking below it."""

    def __init__(self, inventory: Inventory, objects: Objects) -> None:
        self._sound = inventory.sound
        self._objects = objects
        self._below: dict[tuple[Plane, ObjectId], Sequence[Lack]] = {}

    def root(self, root_id: ObjectId) -> Sequence[Lack]:
        """Returns what a root lacks."""
        if root_id not in self._sound:
            return [("all of it", root_id)]
        try:
            root = self._objects.get_root(root_id)
        except (Damaged, VaultTooNew):
            return [("all of it", root_id)]
        return [lack for plane in Plane for lack in self._map(plane, root.plane(plane))]

    def entry(self, plane: Plane, key: bytes, data: bytes) -> Sequence[Lack]:
        """Returns what an entry lacks."""
        what = f"{plane}: {entry_name(plane, key)}"
        try:
            entry = decode_entry(data)
            if isinstance(entry, Session):
                entry = decode_state(entry.state)
            if isinstance(entry, Submap | Overlay):
                return [(what, lost) for _, lost in self._map(plane, ObjectId(entry.root))]
            return [lack for blob in blobs_of(entry) for lack in self._blob(what, blob)]
        except (Damaged, VaultTooNew):
            return [(what, None)]

    def state(self, data: bytes) -> Sequence[Lack]:
        """Returns what a version of a session lacks."""
        what = f"{Plane.SESSIONS}: a version of a session"
        try:
            state = decode_state(data)
        except (Damaged, VaultTooNew):
            return [(what, None)]
        if isinstance(state, Submap | Overlay):
            below = self._map(Plane.SESSIONS, ObjectId(state.root))
            return [(what, lost) for _, lost in below]
        return []

    def _map(self, plane: Plane, root: ObjectId) -> Sequence[Lack]:
        if root == EMPTY_MAP:
            return []
        known = self._below.get((plane, root))
        if known is None:
            known = self._below[plane, root] = self._node(plane, root)
        return known

    def _node(self, plane: Plane, node_id: ObjectId) -> Sequence[Lack]:
        lost = [(f"{plane}: part of its map", node_id)]
        if node_id not in self._sound:
            return lost
        try:
            node = self._objects.get_nodes([node_id])[0]
        except Damaged:
            return lost
        if node.level:
            return [lack for value in node.values for lack in self._map(plane, ObjectId(value))]
        pairs = zip(node.keys, node.values, strict=True)
        return [lack for key, data in pairs for lack in self.entry(plane, key, data)]

    def _blob(self, what: str, blob: Blob) -> Sequence[Lack]:
        found: list[Lack] = []
        try:
            needed = list_refs(self._objects, blob)
            found.extend((what, object_id) for object_id in needed if object_id not in self._sound)
        except Damaged:
            # A list of chunks that cannot be read was named above, as it came by.
            found = found or [(what, None)]
        return found


def _roots(transaction: Transaction, tenant_id: TenantId) -> Iterator[tuple[ObjectId, str]]:
    for head in transaction.sort_heads(tenant_id).sound:
        for root in (head.root, head.fork_root):
            if root is not None and root not in UNSTORED_ROOTS:
                yield root, f"head of {head.name}"
    for snapshot in transaction.sort_snapshots(tenant_id).sound:
        for root in (snapshot.root, merged_root(snapshot)):
            if root is not None and root not in UNSTORED_ROOTS:
                yield root, snapshot.id
