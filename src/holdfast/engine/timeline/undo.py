"""Undo and redo: of the last change, step by step, or of any operation on the timeline.

The timeline only grows: going back appends. `position` is the snapshot whose state the head
shows; undo moves it to what came before, redo back again. Undoing an operation further back
takes out what that operation changed and keeps what came after, as a three-way merge; where
the two touch the same thing it says so and changes nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.coverage import Lacking, lacking_in
from holdfast.engine.core.lineage import Stored, before
from holdfast.engine.pending.fold import Folded, lacking_at
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions.lapsing import is_lapse_alone
from holdfast.engine.timeline.diff import collect_changes, iter_changes
from holdfast.engine.timeline.expecting import ANYTHING, Expected
from holdfast.engine.timeline.head import Mark, Move, advance, replacing
from holdfast.engine.timeline.merge import merge_roots
from holdfast.engine.timeline.restore import (
    Goal,
    folded_head,
    goal_of,
    left_alone,
    present,
    prove,
)
from holdfast.errors import NothingToUndo, SnapshotNotFound
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import Kind, Plane, SnapshotInfo
from holdfast.model.changes import Changes, Restored
from holdfast.operations.choices import SHOWN

Towards = Callable[[SnapshotInfo], None]
"""Is told which snapshot the head is about to show."""


Leave = Callable[[Sequence[str]], None]
"""Told which paths a snapshot that is gone back to could not capture: they are left alone."""


def leave_nothing(_paths: Sequence[str], /) -> None:
    """Leaves nothing alone: there is no directory."""


def nowhere(_target: SnapshotInfo, /) -> None:
    """Has no need to know."""


def undo(
    handle: Handle,
    *,
    origin: SnapshotId | None = None,
    dry_run: bool = False,
    limit: int | None = SHOWN,
    towards: Towards = nowhere,
    expected: Expected = ANYTHING,
) -> Restored:
    """Goes back to the state before the last change; what was pending is kept first.

    What was written and taken back by hand is no change, and a session whose time is over is none.
    With `origin`, to the state before that snapshot: what came after it was no change of the
    user's. A `dry_run` says what that would change.
    """

    def plan(transaction: Transaction, folded: Folded) -> Move[_Shown]:
        head, is_changed = folded.head, _is_changed(handle, transaction, folded)
        target = _target(transaction, folded, origin=origin, is_changed=is_changed)
        goal = goal_of(handle, transaction, folded, target)
        changes = _changes(handle, transaction, folded, goal.snapshot.root, most=limit)
        towards(target)
        marks = _marks(handle, transaction, folded, kind=Kind.UNDO, goal=goal, changes=changes)
        # After an undo of what was pending, the way forward leads to its safety snapshot.
        forward = (marks[0].id,) if is_changed else (*head.redo, head.position)
        return Move(
            marks=marks,
            position=target.id,
            redo=[snapshot_id for snapshot_id in forward if snapshot_id],
            result=_shown(folded, changes, target),
            needs=[target.id],
            exact=True,
        )

    if dry_run:
        with folded_head(handle) as (transaction, folded):
            move = plan(transaction, folded)
        mark = move.marks[-1]
        return _answer(move.result, target=mark.target or mark.id, root=mark.root)
    return _done(handle, *advance(handle, plan, expected=expected))


def find_target(handle: Handle) -> SnapshotInfo:
    """Returns where an undo would go now."""
    with folded_head(handle) as (transaction, folded):
        is_changed = _is_changed(handle, transaction, folded)
        return _target(transaction, folded, is_changed=is_changed)


def _is_changed(handle: Handle, transaction: Transaction, folded: Folded) -> bool:
    """Says whether there is something to undo in what is pending.

    Sessions that ended since are nothing of that. Were they, an undo would bring them back, they
    would end again, and the next undo would lead to the same place.
    """
    if not folded.is_changed:
        return False
    source = folded.source
    old, new = source.get_root(folded.head.root), folded.root
    if next(iter_changes(source, old, new), None) is None:
        return False  # A file that was written back has another time, and is what it was.
    return not is_lapse_alone(transaction, handle, source, old=old, new=new)


def _target(
    transaction: Transaction,
    folded: Folded,
    *,
    is_changed: bool,
    origin: SnapshotId | None = None,
) -> SnapshotInfo:
    head = folded.head
    # Where nothing is pending, that it is written in a newer format is no change.
    shows = folded.root_id if is_changed else head.root
    stored = Stored(transaction, head.namespace_id)
    target = next(before(head, shows, stored, origin=origin), None)
    if target is None:
        raise NothingToUndo("no earlier state is on the timeline")
    return target


def redo(
    handle: Handle,
    *,
    limit: int | None = SHOWN,
    towards: Towards = nowhere,
) -> Restored:
    """Takes the last undo back; what was pending is kept first.

    An undo right after it brings back what was there before it, whatever that was: the head stands
    on what was undone only where that follows upon what was there. Else it stands on the snapshot
    that is appended here, which does.
    """

    def plan(transaction: Transaction, folded: Folded) -> Move[_Shown]:
        head = folded.head
        if not head.redo:
            raise NothingToUndo("nothing has been undone since the last change")
        target = transaction.find_snapshot(head.namespace_id, head.redo[-1])
        if target is None:
            raise NothingToUndo("what was undone is no longer on the timeline")
        goal = goal_of(handle, transaction, folded, target)
        changes = _changes(handle, transaction, folded, goal.snapshot.root, most=limit)
        towards(target)
        marks = _marks(handle, transaction, folded, kind=Kind.REDO, goal=goal, changes=changes)
        follows = len(marks) == 1 and target.parent == head.position
        return Move(
            marks=marks,
            position=target.id if follows else marks[-1].id,
            redo=head.redo[:-1],
            result=_shown(folded, changes, target),
            needs=[target.id],
            exact=True,
        )

    return _done(handle, *advance(handle, plan))


def revert(
    handle: Handle,
    operation: SnapshotInfo,
    *,
    limit: int | None = SHOWN,
    leave: Leave = leave_nothing,
    expected: Expected = ANYTHING,
) -> Restored:
    """Takes out what one operation changed, and keeps what came after it."""

    def plan(transaction: Transaction, folded: Folded) -> Move[_Shown]:
        if operation.parent is None:
            raise NothingToUndo(f"nothing came before {operation.id}")
        # Whatever its age: what is still on the timeline can be gone back to.
        earlier = transaction.find_snapshot(folded.head.namespace_id, operation.parent)
        if earlier is None or earlier.deleted_at is not None:
            raise SnapshotNotFound(operation.parent)
        merged = merge_roots(
            folded,
            base=operation.root,
            theirs=earlier.root,
            prefer=None,
            limits=handle.context.limits,
        ).with_later_terms(transaction, handle, folded)
        changes = _changes(handle, transaction, folded, merged.root, most=None)
        back = {change.key for change in changes if change.plane is Plane.FILES}
        lacking = lacking_in(earlier, back.__contains__)
        left = left_alone(folded, earlier)
        shown = _Shown(folded.root_id, changes.first(limit), lacking, left)
        leave(lacking.uncaptured)
        marks = replacing(
            handle,
            transaction,
            folded,
            kind=Kind.UNDO,
            root=merged.root,
            size=merged.size,
            reason=f"before undoing {operation.id}",
            target=operation.id,
            detail=merged.detail,
            lacking=lacking.joined(lacking_at(folded).only(lambda key: key not in back)),
            changes=changes,
        )
        needs = [operation.id, earlier.id]
        return Move(marks=marks, position=marks[-1].id, result=shown, needs=needs, exact=True)

    return _done(handle, *advance(handle, plan, expected=expected))


class _Shown(NamedTuple):
    """What an undo or redo does."""

    old_root: ObjectId
    changes: Changes
    lacking: Lacking
    left_alone: Sequence[Plane]


def _shown(folded: Folded, changes: Changes, target: SnapshotInfo) -> _Shown:
    """Returns what going to a snapshot does."""
    return _Shown(folded.root_id, changes, lacking_in(target), left_alone(folded, target))


def _changes(
    handle: Handle, transaction: Transaction, folded: Folded, root: ObjectId, *, most: int | None
) -> Changes:
    """Returns what going to a root changes; raises if what it needs for that is not there."""
    found = iter_changes(folded.source, folded.root, folded.source.get_root(root))
    brought = present(handle, transaction, folded, found)
    return collect_changes(brought, limit=most, counts=True)


def _marks(
    handle: Handle,
    transaction: Transaction,
    folded: Folded,
    *,
    kind: Kind,
    goal: Goal,
    changes: Changes,
) -> list[Mark]:
    target = goal.snapshot
    return replacing(
        handle,
        transaction,
        folded,
        kind=kind,
        root=target.root,
        size=target.size,
        reason=f"before {kind}",
        target=target.id,
        detail=goal.detail,
        lacking=lacking_in(target),
        changes=changes,
    )


def _done(handle: Handle, done: list[SnapshotInfo], shown: _Shown) -> Restored:
    last = done[-1]
    answer = _answer(shown, target=last.target or last.id, root=last.root)
    return replace(
        answer,
        snapshot=last,
        safety_id=done[0].id if len(done) > 1 else None,
        verified=prove(handle, last),
        dry_run=False,
    )


def _answer(shown: _Shown, *, target: SnapshotId, root: ObjectId) -> Restored:
    """Returns what would be done."""
    return Restored(
        target=target,
        snapshot=None,
        safety_id=None,
        root=root,
        old_root=shown.old_root,
        changes=shown.changes,
        verified=False,
        uncaptured=shown.lacking.uncaptured,
        is_partial=shown.lacking.is_partial,
        in_motion=shown.lacking.in_motion,
        dry_run=True,
        left_alone=shown.left_alone,
    )
