"""Takes back what several tasks changed, one on the other, the newest first, as one move.

That is what is left of a restore for whoever keeps what others did since.

Which of two tasks began first does not say which of them changed a key first. So all of them are
looked at again once one has gone back, until nothing more is free; each key goes back once for a
task. What stays in the end has not moved at all: half of the way is a state that nobody has made.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.pending.fold import Folded
from holdfast.engine.planes.handle import Handle
from holdfast.engine.timeline.aims import Aim, Asked, Left, aim_of, check_kept
from holdfast.engine.timeline.expecting import ANYTHING, Expected
from holdfast.engine.timeline.going_on import note_back
from holdfast.engine.timeline.head import Move, advance, replacing
from holdfast.engine.timeline.restore import folded_head, prove
from holdfast.engine.timeline.takeback import (
    Outcome,
    answer_of,
    nothing_to_take_back,
    outcome_of,
)
from holdfast.engine.timeline.undo import Leave, leave_nothing
from holdfast.errors import SnapshotNotFound
from holdfast.model.basics import Head, Kind, Plane, Root, SnapshotInfo
from holdfast.model.changes import Restored
from holdfast.model.tasks import UNKNOWN, TaskRun
from holdfast.operations.choices import SHOWN
from holdfast.operations.snapshots import Note
from holdfast.packs import ObjectKind
from holdfast.tree import diff, get_many


def take_back_since(
    handle: Handle,
    target: SnapshotInfo,
    *,
    dry_run: bool = False,
    limit: int | None = SHOWN,
    note: Note | None = None,
    expected: Expected = ANYTHING,
    leave: Leave = leave_nothing,
) -> Restored:
    """Takes back what all tasks changed since a snapshot; all else stays.

    What others changed after a task did stays as they made it, and is named; what was there at the
    snapshot is on the timeline. So is what a task may have changed of which that cannot be told,
    or not yet. Raises `NothingToUndo` if nothing goes back.
    """

    def plan(transaction: Transaction, folded: Folded) -> Move[Outcome]:
        now = handle.get_snapshot(transaction, folded.head, target.id)
        meant = _since(transaction, folded.head, now)
        aims, at = _Going(handle, transaction, folded, now, meant).lead()
        tasks = [task for task, _ in meant]
        aim = _joined(aims, at)
        seen = outcome_of(handle, transaction, folded, aim, then=now.created_at, limit=limit)
        if seen.root == folded.root_id:
            raise nothing_to_take_back(f"a task changed since {now.id}", aim)
        leave(seen.lacking.uncaptured)
        marks = replacing(
            handle,
            transaction,
            folded,
            kind=Kind.RESTORE,
            root=seen.root,
            size=seen.aim.size,
            reason=f"before restoring {now.id}",
            target=now.id,
            note=note,
            detail={"keep": "mine", "tasks": [task.id for task in tasks][:SHOWN], **seen.detail},
            lacking=seen.lacking,
            changes=seen.changes,
        )
        noted = [task for task, each in zip(tasks, aims, strict=True) if each.is_noted]

        def check(writing: Transaction, head: Head) -> None:
            _check_all_known(handle, writing, noted)
            note_back(writing, handle, head, folded.root)

        return Move(
            marks=marks,
            position=marks[-1].id,
            result=seen,
            needs=[now.id, *aim.needs],
            exact=True,
            also=check,
        )

    if dry_run:
        with folded_head(handle) as (transaction, folded):
            result = plan(transaction, folded).result
        return answer_of(result, None, None, before=target.id)
    done, seen = advance(handle, plan, expected=expected)
    safety_id = done[0].id if len(done) > 1 else None
    is_proven = prove(handle, done[-1])
    return answer_of(seen, done[-1], safety_id, before=target.id, verified=is_proven)


def _check_all_known(handle: Handle, writing: Transaction, tasks: Sequence[TaskRun]) -> None:
    """Raises if what was there before one of these may have gone since it was looked up."""
    for task in tasks:
        if not writing.has_task_changes(task.namespace_id, task.id):
            check_kept(handle, writing, task)


Meant = tuple[TaskRun, bool]
"""A task, and whether it began before the snapshot: then only what it did since is meant."""


def _since(transaction: Transaction, head: Head, target: SnapshotInfo) -> list[Meant]:
    """Returns the tasks that were at work after a snapshot, the one that began last first.

    After an undo, a task begins where an older snapshot is: then it is the time that tells.
    """
    found = list[Meant]()
    for task in transaction.list_tasks_since(head.namespace_id, target):
        began = transaction.find_snapshot(head.namespace_id, task.before)
        is_behind = began is not None and began.number < target.number
        is_earlier = (began is None or is_behind) and task.started_at < target.created_at
        if not (is_earlier or (is_behind and task.started_at == target.created_at)):
            found.append((task, False))
        elif not _is_over(transaction, task, target):
            found.append((task, True))
    return found


def _is_over(transaction: Transaction, task: TaskRun, target: SnapshotInfo) -> bool:
    """Says whether a task that began before a snapshot had ended by then."""
    if task.after is None:
        return task.ended_at is not None and task.ended_at <= target.created_at
    after = transaction.find_snapshot(task.namespace_id, task.after)
    if after is not None:
        return after.number <= target.number
    return task.ended_at is None or task.ended_at <= target.created_at


@dataclass(frozen=True, slots=True)
class _Going:
    """Where it leads to take several tasks back."""

    handle: Handle
    transaction: Transaction
    folded: Folded
    target: SnapshotInfo
    meant: Sequence[Meant]
    fixed: set[Left] = field(default_factory=set[Left])
    """What stays, and has to stay as it is."""

    def lead(self) -> tuple[list[Aim], Folded]:
        """Returns where each leads, in their order, and where all of them do."""
        source = self.folded.source
        then = source.get_root(self.target.root)
        while True:
            aims, at = self._pass()
            left = {e for aim in aims.values() if not aim.is_untold for e in aim.left}
            # Where a task was begun within another, it is the other that takes all of it back.
            away = {*_moved(source, then, at.root, left - self.fixed), *(left & self.fixed)}
            free = {each for each in away - self.fixed if each[1] != UNKNOWN}
            moved = {*_moved(source, self.folded.root, at.root, free)}
            if not moved:
                back = left - away
                return [_without(aims[task.id], back) for task, _ in self.meant], at
            self.fixed.update(moved)

    def _pass(self) -> tuple[dict[str, Aim], Folded]:
        """Takes all of them back, one after the other, until nothing moves any more."""
        at, aims, gone = self.folded, dict[str, Aim](), defaultdict[str, set[Left]](set)
        is_moving = True
        while is_moving:
            start = at.root
            for task, is_spanning in self.meant:
                asked = Asked(
                    keeps_others=True,
                    is_passed=True,
                    since=self.target if is_spanning else None,
                    fixed=self.fixed,
                    gone=gone[task.id],
                )
                try:
                    aim = aim_of(self.handle, self.transaction, at, task, asked)
                except SnapshotNotFound as exc:
                    hint = f"Without it nobody knows what task {task.id} changed. {exc.hint}"
                    raise exc.with_hint(hint) from None
                gone[task.id].update(_differing(at, aim.root))
                root_id = at.stage.add(aim.root.encode(), ObjectKind.NODE)
                at = msgspec.structs.replace(at, root=aim.root, root_id=root_id, size=aim.size)
                aims[task.id] = aim
            is_moving = at.root != start
        return aims, at


def _differing(at: Folded, goal: Root) -> Iterator[Left]:
    """Yields what differs between what there is and where that goes."""
    for plane in Plane:
        if (now := at.root.plane(plane)) != goal.plane(plane):
            for edit in diff(at.source, now, goal.plane(plane)):
                yield plane, edit.key


def _moved(
    source: StagedObjects, was: Root, became: Root, keys: Collection[Left]
) -> Iterator[Left]:
    """Yields those of some keys that are not in one root what they are in another."""
    for plane in Plane:
        of_plane = [key for of, key in keys if of is plane]
        if not (was.holds(plane) and became.holds(plane)):
            yield from ((plane, key) for key in of_plane)
            continue
        old, new = (get_many(source, root.plane(plane), of_plane) for root in (was, became))
        for key in of_plane:
            if key == UNKNOWN or old.get(key) != new.get(key):
                yield plane, key


def _without(aim: Aim, back: Collection[Left]) -> Aim:
    """Returns where a task leads, but for what is back though it could not take it back."""
    return replace(aim, left=[each for each in aim.left if each not in back])


def _joined(aims: Sequence[Aim], at: Folded) -> Aim:
    """Returns where several aims lead, one on the other."""
    left = dict.fromkeys(each for aim in aims for each in aim.left)
    return Aim(
        at.root,
        at.size,
        [*left],
        by_snapshots=any(aim.by_snapshots for aim in aims),
        is_untold=all(aim.is_untold for aim in aims if aim.left),
        needs=[*dict.fromkeys(each for aim in aims for each in aim.needs)],
        earlier=next((aim.earlier for aim in reversed(aims) if aim.earlier), None),
    )
