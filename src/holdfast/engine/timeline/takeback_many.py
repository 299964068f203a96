"""Takes back what several tasks changed, one on the other, the newest first, as one move.

That is what is left of a restore for whoever keeps what others did since.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.pending.fold import Folded
from holdfast.engine.planes.handle import Handle
from holdfast.engine.timeline.expecting import ANYTHING, Expected
from holdfast.engine.timeline.head import Move, advance, replacing
from holdfast.engine.timeline.restore import folded_head, prove
from holdfast.engine.timeline.takeback import (
    Aim,
    Outcome,
    aim_of,
    answer_of,
    check_kept,
    nothing_to_take_back,
    outcome_of,
)
from holdfast.engine.timeline.undo import Leave, leave_nothing
from holdfast.model.basics import Head, Kind, SnapshotInfo
from holdfast.model.changes import Restored
from holdfast.model.tasks import TaskRun
from holdfast.operations.choices import SHOWN
from holdfast.operations.snapshots import Note
from holdfast.packs import ObjectKind

_PAGE: Final = 200
"""Tasks that are looked up at once."""


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
    """Takes back what all tasks changed that began at a snapshot or later; all else stays.

    What others changed after a task did stays as they made it, and is named; what was there at the
    snapshot is on the timeline. Raises `NothingToUndo` if nothing goes back, and `TaskRunning` for
    a task whose own cannot be told yet.
    """

    def plan(transaction: Transaction, folded: Folded) -> Move[Outcome]:
        now = handle.get_snapshot(transaction, folded.head, target.id)
        tasks = _since(transaction, folded.head, now)
        aims, at = list[Aim](), folded
        for task in tasks:
            aim = aim_of(handle, transaction, at, task, keep_mine=True)
            root_id = folded.stage.add(aim.root.encode(), ObjectKind.NODE)
            at = msgspec.structs.replace(at, root=aim.root, root_id=root_id, size=aim.size)
            aims.append(aim)
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
        named = [task for task, each in zip(tasks, aims, strict=True) if not each.by_snapshots]
        return Move(
            marks=marks,
            position=marks[-1].id,
            result=seen,
            needs=[now.id, *aim.needs],
            exact=True,
            also=lambda writing, _: _check_all_known(handle, writing, named),
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


def _since(transaction: Transaction, head: Head, target: SnapshotInfo) -> list[TaskRun]:
    """Returns the tasks that began at a snapshot or after it, newest first.

    After an undo, a task begins where an older snapshot is: then it is the time that tells.
    """
    found, before = list[TaskRun](), None
    while page := transaction.list_tasks(head.namespace_id, status=None, before=before, most=_PAGE):
        for task in page:
            began = transaction.find_snapshot(head.namespace_id, task.before)
            is_behind = began is not None and began.number < target.number
            if (began is None or is_behind) and task.started_at < target.created_at:
                return found
            if is_behind and task.started_at == target.created_at:
                continue
            found.append(task)
        before = page[-1].started_at, page[-1].id
    return found


def _joined(aims: Sequence[Aim], at: Folded) -> Aim:
    """Returns where several aims lead, one on the other."""
    left = dict.fromkeys(each for aim in aims for each in aim.left)
    return Aim(
        at.root,
        at.size,
        [*left],
        by_snapshots=any(aim.by_snapshots for aim in aims),
        needs=[*dict.fromkeys(each for aim in aims for each in aim.needs)],
        earlier=next((aim.earlier for aim in reversed(aims) if aim.earlier), None),
    )
