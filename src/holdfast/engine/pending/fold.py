"""Folds what is pending into the maps of a head, in memory: what the head shows, as a root."""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.coverage import LACKS_NOTHING, Lacking, lacking_in
from holdfast.engine.memory import plane as memoryplane
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.planes import missing
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.ownership import settle_entry
from holdfast.engine.planes.writers import mark_of
from holdfast.errors import Damaged
from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP, Head, Plane, Root, Size, SnapshotInfo
from holdfast.packs import ObjectKind
from holdfast.tree import Edit, apply

StandIn = Callable[[Transaction, StagedObjects, Head], tuple[Root, Sequence[Plane]]]
"""Returns a root in place of the head's, where that cannot be read, and what it lacks of it."""


Edited = tuple[Plane, tuple[ObjectId, ObjectId], Sequence[Edit]]
"""A plane, its maps before and after, and what leads from one to the other."""

PendingRows = Sequence[tuple[Plane, bytes, bytes | None]]


class Folded(msgspec.Struct, frozen=True):
    """A head with its pending rows folded into the maps, not yet stored."""

    head: Head
    root_id: ObjectId
    root: Root
    size: Size
    is_changed: bool
    """Whether what was folded in changes anything: not, if it was taken back by hand."""
    source: StagedObjects
    stage: Stage
    at: Callable[[], SnapshotInfo | None]
    """Returns the snapshot that the head stands on."""
    pending: Sequence[bytes] = ()
    """The entries of the rows that were folded in."""
    authors: int = 0
    """Who wrote what was pending: as the head's mark says it."""
    lost: Sequence[Plane] = ()
    """Planes of which the root could not be read, and another had to stand in."""
    edits: Sequence[Edited] | None = ()
    """What was folded in; None where what was there before is not known in full."""
    has_rows: bool = False
    """Whether rows were folded in, be it without effect."""


def fold(
    transaction: Transaction,
    handle: Handle,
    head: Head,
    stage: Stage,
    *,
    stand_in: StandIn | None = None,
) -> Folded:
    """Folds what is pending into the maps; new nodes go to the stage."""
    source = stage.source(handle.objects.bound(transaction))
    at = _StandsOn(transaction, head)
    pending = transaction.all_pending(head.namespace_id)
    missing.check_all(transaction, head, pending)
    lost: Sequence[Plane] = ()
    try:
        root, base = source.get_root(head.root), head.root
    except Damaged:
        if stand_in is None:
            raise
        root, lost = stand_in(transaction, source, head)
        base = stage.add(root.encode(), ObjectKind.NODE)
        if not root.holds(Plane.MEMORIES):
            pending = [row for row in pending if row[0] is not Plane.MEMORIES]
            pending += memoryplane.all_pending(transaction, head.namespace_id)
    edits = [*_apply(transaction, head, stage, source, root=root, pending=pending)]
    changed: dict[str, bytes] = {plane.value: after for plane, (_, after), _ in edits}
    is_complete = not lost and root.holds(Plane.MEMORIES)
    if not root.holds(Plane.MEMORIES) and not changed.get(Plane.MEMORIES.value):
        # Of a namespace from before they were a plane all that there are were pending.
        changed[Plane.MEMORIES.value] = EMPTY_MAP
    root = root.replacing(**changed)
    root_id = stage.add(root.encode(), ObjectKind.NODE) if changed else base
    # The head's size counts what is pending, so it is the size of what was just folded.
    entries = [entry for _, _, entry in pending if entry is not None]
    authors = mark_of(head).authors if pending else 0
    return Folded(
        head,
        root_id,
        root,
        head.size,
        bool(pending) and root_id != head.root,
        source,
        stage,
        at,
        entries,
        authors,
        lost,
        edits if is_complete else None,
        bool(pending),
    )


def _apply(
    transaction: Transaction,
    head: Head,
    stage: Stage,
    source: StagedObjects,
    *,
    root: Root,
    pending: PendingRows,
) -> Iterator[Edited]:
    """Folds what is pending into each plane that it changes; new nodes go to the stage."""
    for plane in Plane:
        changes = {key: entry for of, key, entry in pending if of is plane}
        if not changes:
            continue
        if plane is Plane.MEMORIES:
            changes = memoryplane.settled(transaction, stage, head.namespace_id, changes)
        else:
            changes = {
                key: entry if entry is None else settle_entry(stage, source, plane, entry)
                for key, entry in changes.items()
            }
        applied = apply(source, root.plane(plane), changes)
        stage.add_nodes(applied.nodes)
        yield plane, (root.plane(plane), applied.root), applied.edits


class _StandsOn:
    """Asks for the snapshot that a head stands on, and has it once it is needed."""

    def __init__(self, transaction: Transaction, head: Head) -> None:
        self._transaction, self._head = transaction, head
        self._found: SnapshotInfo | None = None
        if head.position is not None:
            transaction.ahead(Transaction.find_snapshot, head.namespace_id, head.position)

    def __call__(self) -> SnapshotInfo | None:
        head = self._head
        if self._found is None and head.position is not None:
            self._found = self._transaction.find_snapshot(head.namespace_id, head.position)
        return self._found


def lacking_at(folded: Folded) -> Lacking:
    """Returns what the head does not vouch for, as the snapshot that it stands on does not."""
    at = folded.at()
    if at is None:
        return LACKS_NOTHING
    lacking = lacking_in(at).beyond(folded.source, folded.root.plane(Plane.FILES))
    # What is pending may have taken the place of what was in motion.
    return msgspec.structs.replace(lacking, in_motion=()) if folded.is_changed else lacking
