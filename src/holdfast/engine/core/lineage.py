"""Where a state came from: the snapshots before it, one step at a time.

A snapshot names its parent, which retention may have taken; then the newest one before it on
the timeline stands in, so that what is still there can still be reached.

What two namespaces last had in common: the base of a merge.

It belongs to the state, not to the namespace: a merge that was undone, or that a restore went
back behind, has not happened for what the head shows now. So it is looked for from where each
head stands, back through the states it came from, to the last merge with the other side.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from holdfast.catalog.transaction import Transaction
from holdfast.errors import InvalidValue
from holdfast.ids import NamespaceId, ObjectId, SnapshotId
from holdfast.model.basics import Head, Kind, SnapshotInfo

FOUND: Final = "found after an interrupted restore"
"""The reason of a snapshot that keeps what a recovery came upon."""

FORKED_TO: Final = "forked_to"
"""In the detail of a snapshot that was kept for a fork: nothing was to take its place."""

ABOVE_ALL: Final = 2**62
"""A number that no snapshot has."""


class Snapshots(Protocol):
    """Snapshots of one namespace, to look up."""

    def find(self, snapshot_id: SnapshotId) -> SnapshotInfo | None:
        """Returns a snapshot, or None."""
        ...

    def find_below(self, number: int) -> SnapshotInfo | None:
        """Returns the newest snapshot with a smaller number, or None."""
        ...


class Stored:
    """Snapshots as a transaction sees them."""

    def __init__(self, transaction: Transaction, namespace_id: NamespaceId) -> None:
        self._transaction = transaction
        self._namespace_id = namespace_id

    def find(self, snapshot_id: SnapshotId) -> SnapshotInfo | None:
        """Returns a snapshot, or None."""
        return self._transaction.find_snapshot(self._namespace_id, snapshot_id)

    def find_below(self, number: int) -> SnapshotInfo | None:
        """Returns the newest snapshot with a smaller number, or None."""
        rows = self._transaction.timeline(self._namespace_id, before=number, most=1)
        return rows[0] if rows else None


class Timeline:
    """Snapshots of a whole timeline that was read already, newest first."""

    def __init__(self, timeline: Sequence[SnapshotInfo]) -> None:
        self._timeline = timeline
        self._by_id = {snapshot.id: snapshot for snapshot in timeline}

    def find(self, snapshot_id: SnapshotId) -> SnapshotInfo | None:
        """Returns a snapshot, or None."""
        return self._by_id.get(snapshot_id)

    def find_below(self, number: int) -> SnapshotInfo | None:
        """Returns the newest snapshot with a smaller number, or None."""
        return next((s for s in self._timeline if s.number < number), None)


def previous(snapshots: Snapshots, snapshot: SnapshotInfo) -> SnapshotInfo | None:
    """Returns the snapshot before this one."""
    if snapshot.parent is None:
        return None
    return snapshots.find(snapshot.parent) or snapshots.find_below(snapshot.number)


def before(
    head: Head, root: ObjectId, snapshots: Snapshots, *, origin: SnapshotId | None = None
) -> Iterator[SnapshotInfo]:
    """Yields the snapshots that an undo from this root may go to, nearest first.

    With `origin`, as if the head stood on that one, with nothing pending.

    Age does not matter here: what is still on the timeline can be gone back to. Snapshots that
    were deleted are passed over, but for the one that the head stands on; and so is what an
    interrupted restore had left, which nobody made on purpose, and what was kept before one that
    did not get through: whoever asks again means what it was to take back, too.
    """
    start = origin or head.position
    at = None if start is None else snapshots.find(start)
    while at is not None:
        is_usable = at.deleted_at is None or at.id == head.position
        # What the head shows need not be quite what it stands on: a directory may have had to
        # keep something.
        is_shown = at.id == origin or (at.id == head.position and root == head.root)
        if (
            at.root != root
            and is_usable
            and not (is_shown or is_leftover(at) or _led_nowhere(snapshots, at))
        ):
            yield at
        at = previous(snapshots, at)


def needed(head: Head, snapshots: Snapshots, *, back: SnapshotInfo | None) -> set[SnapshotId]:
    """Returns what a head needs: its newest snapshot, its position, every redo, and one step back.

    That step is for the caller to find, with `one_back`: looking for it may lead far.
    """
    newest = snapshots.find_below(ABOVE_ALL)
    position = [head.position] if head.position else []
    return {*position, *head.redo, *(each.id for each in (newest, back) if each)}


def one_back(head: Head, snapshots: Snapshots) -> SnapshotInfo | None:
    """Returns where one undo leads from what a head shows; None if nowhere."""
    return next(before(head, head.root, snapshots), None)


def is_leftover(snapshot: SnapshotInfo) -> bool:
    """Says whether a snapshot is a mixture that an interrupted restore had left."""
    return snapshot.kind is Kind.SAFETY and snapshot.reason == FOUND


def _led_nowhere(snapshots: Snapshots, snapshot: SnapshotInfo) -> bool:
    """Says whether something was kept before a move of the head that never came.

    One that came is the next on the timeline. Here it is what was kept before the next attempt, or
    what this one had left when it was interrupted.
    """
    if snapshot.kind is not Kind.SAFETY or FORKED_TO in snapshot.detail:
        return False
    after = snapshots.find_below(snapshot.number + 2)
    return after is not None and after.kind is Kind.SAFETY and after.parent == snapshot.id


MERGED_ROOT: Final = "their_root"
"""In a merge's detail: the root of the other side that was merged. It is kept as long."""


def common_root(transaction: Transaction, ours: Head, theirs: Head) -> ObjectId:
    """Returns the root that both have come from; raises if neither is a fork of the other."""
    sides = ((theirs, ours), (ours, theirs))
    fork = next((head for head, other in sides if head.fork_of == other.namespace_id), None)
    if fork is None or fork.fork_root is None:
        message = f"neither {ours.name!r} nor {theirs.name!r} is a fork of the other"
        raise InvalidValue(message)
    merges = [
        merge
        for head, other in sides
        if (merge := _last_merge(transaction, head, other)) is not None
    ]
    if not merges:
        return fork.fork_root
    last = max(merges, key=lambda merge: merge.created_at)
    return merged_root(last) or fork.fork_root


def merged_root(snapshot: SnapshotInfo) -> ObjectId | None:
    """Returns the root of the other side that a merge brought in; None if it is no merge."""
    text = snapshot.detail.get(MERGED_ROOT)
    return ObjectId(bytes.fromhex(text)) if isinstance(text, str) else None


def _last_merge(transaction: Transaction, head: Head, other: Head) -> SnapshotInfo | None:
    """Returns the last merge of the other side that the state of a head contains."""
    snapshots = Stored(transaction, head.namespace_id)
    at = None if head.position is None else snapshots.find(head.position)
    while at is not None:
        if at.kind is Kind.MERGE and at.detail.get("merged_id") == other.namespace_id:
            return at
        # A redo and a whole restore show what their target showed; all else adds to what was there.
        is_whole = at.kind is Kind.REDO or (at.kind is Kind.RESTORE and not at.detail)
        target = snapshots.find(at.target) if is_whole and at.target else None
        at = target or previous(snapshots, at)
    return None
