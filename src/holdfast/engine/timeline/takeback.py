"""Takes back what one task changed, at its failing end or at any later time, and nothing else.

What is its own, and where it leads to take that back, is found by `aims.py`. Where others changed
the same since, nothing at all is taken back, unless what others changed is to stay: it does, and
the rest goes back. All of it is one move of the head, like every restore: nothing is lost by it,
and it can be undone.

Of a task in a directory, and of one whose changes do not name it, the two snapshots at its ends
are what is known: what lies between them counts as its own, but for what other tasks noted there,
and the answer says so. Of the prompt of an agent, what prompts of other conversations did meanwhile
is not (`steps.py`).

Several are taken back one on the other by `takeback_many.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.coverage import LACKS_NOTHING, Lacking, lacking_in
from holdfast.engine.pending.fold import Folded, lacking_at
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions.reviving import revive
from holdfast.engine.sessions.terms import keep_terms
from holdfast.engine.timeline.aims import UNTOLD, Aim, Asked, aim_of, check_kept, names_of
from holdfast.engine.timeline.diff import collect_changes, iter_changes
from holdfast.engine.timeline.expecting import ANYTHING, Expected
from holdfast.engine.timeline.head import Mark, Move, advance, replacing
from holdfast.engine.timeline.restore import folded_head, present, prove
from holdfast.engine.timeline.undo import Leave, leave_nothing
from holdfast.errors import InvalidValue, NothingToUndo, TaskEnded, TaskNotFound, shorten
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import Head, Kind, Plane, SnapshotInfo
from holdfast.model.changes import Changes, Restored
from holdfast.model.tasks import TaskRun, TaskStatus
from holdfast.operations.choices import SHOWN
from holdfast.operations.snapshots import Note
from holdfast.operations.timeline import Undo
from holdfast.packs import ObjectKind

_NAMED: Final = 5
"""What an error names of what stays."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an answer says beside the snapshot."""

    aim: Aim
    old_root: ObjectId
    root: ObjectId
    changes: Changes
    lacking: Lacking
    detail: Mapping[str, object]


def check_choice(wanted: Undo, *, dry_run: bool) -> None:
    """Raises `InvalidValue` for a choice of what to undo that cannot be."""
    if wanted.operation is not None and wanted.task is not None:
        raise InvalidValue("an operation or a task is undone, not both")
    if wanted.task is None and (wanted.keep_mine or dry_run):
        message = "keep_mine is for undoing a task, dry_run for that or the last change"
        raise InvalidValue(message)


def take_back(
    handle: Handle,
    task_id: str,
    *,
    keep_mine: bool = False,
    dry_run: bool = False,
    limit: int | None = SHOWN,
    note: Note | None = None,
    at_end: bool = False,
    also: Callable[[SnapshotId, Transaction, Head], None] | None = None,
    leave: Leave = leave_nothing,
    expected: Expected = ANYTHING,
) -> Restored:
    """Takes back what a task changed; raises `OthersChanged` where others changed the same since.

    With `keep_mine`, what others changed stays and the rest goes back. `at_end`, a task that
    changed nothing is no error, and the way back is told as a restore of what was before it.
    Where another was faster, raises `TaskEnded`. `also` is done in the same transaction, with the
    id of the snapshot that shows the result. `leave` is told what could not be captured before.
    """

    def plan(transaction: Transaction, folded: Folded) -> Move[tuple[Outcome, SnapshotId]]:
        task = transaction.find_task(folded.head.namespace_id, task_id)
        if task is None:
            raise TaskNotFound(task_id)
        if at_end and task.restored is not None:
            raise TaskEnded(task_id, status="gone back")
        asked = Asked(keeps_others=keep_mine, is_look=dry_run, is_end=at_end)
        aim = aim_of(handle, transaction, folded, task, asked)
        seen = outcome_of(handle, transaction, folded, aim, then=task.started_at, limit=limit)
        if seen.root == folded.root_id and not at_end:
            raise nothing_to_take_back(f"task {task.id} changed", aim)
        leave(seen.lacking.uncaptured)
        marks = _marks(handle, transaction, folded, task, seen, note=note, at_end=at_end)
        last = marks[-1].id

        def check(writing: Transaction, head: Head) -> None:
            # Under the lock: what was there before is kept from the collector for as long as it
            # is known that the task changed it.
            if aim.is_noted and not writing.has_task_changes(head.namespace_id, task.id):
                check_kept(handle, writing, task)
            if also is not None:
                also(last, writing, head)

        return Move(
            marks=marks,
            position=last,
            result=(seen, task.before),
            needs=aim.needs,
            exact=True,
            also=check,
            within=_within(handle, task),
        )

    if dry_run:
        with folded_head(handle) as (transaction, folded):
            seen, before = plan(transaction, folded).result
        return answer_of(seen, None, None, before=before)
    done, (seen, before) = advance(handle, plan, expected=expected)
    safety_id = done[0].id if len(done) > 1 else None
    is_proven = prove(handle, done[-1])
    return answer_of(seen, done[-1], safety_id, before=before, verified=is_proven)


def _within(handle: Handle, task: TaskRun) -> list[str]:
    """Returns the tasks that take a task back as a change of theirs.

    One that has ended is not among them: it changed what it changed, and can be taken back again
    once this is undone. One that is still at work goes on from here, and so do those in it: else
    their next change of the same would seem to come upon somebody else's.
    """
    within = [*handle.door.within()]
    if task.status is not TaskStatus.RUNNING:
        return [*takewhile(lambda each: each != task.id, within)]
    return within if task.id in within else [*within, task.id]


def _marks(
    handle: Handle,
    transaction: Transaction,
    folded: Folded,
    task: TaskRun,
    seen: Outcome,
    *,
    note: Note | None,
    at_end: bool,
) -> list[Mark]:
    return replacing(
        handle,
        transaction,
        folded,
        kind=Kind.RESTORE if at_end else Kind.UNDO,
        root=seen.root,
        size=seen.aim.size,
        reason=f"before taking {task.id} back",
        target=task.before,
        note=note or Note(reason=f"took {task.id} back", task_id=task.id),
        detail={"task": task.id, **seen.detail},
        lacking=seen.lacking,
        changes=seen.changes,
    )


def outcome_of(
    handle: Handle,
    transaction: Transaction,
    folded: Folded,
    aim: Aim,
    *,
    then: datetime,
    limit: int | None,
) -> Outcome:
    """Returns what going there changes; raises if what it needs for that is not there."""
    source, stage = folded.source, folded.stage
    goal = revive(
        transaction,
        handle,
        stage,
        source,
        head=folded.head,
        shown=folded.root,
        goal=aim.root,
        then=then,
    )
    goal, detail = keep_terms(transaction, handle, stage, source, shown=folded.root, goal=goal)
    found = present(handle, transaction, folded, iter_changes(source, folded.root, goal))
    changes = collect_changes(found, limit=None, counts=True)
    back = {change.key for change in changes if change.plane is Plane.FILES}
    lacking = LACKS_NOTHING
    if aim.earlier is not None:
        lacking = lacking_in(aim.earlier, back.__contains__)
    kept = lacking_at(folded).only(lambda key: key not in back)
    root = folded.root_id
    if goal != folded.root:
        root = stage.add(goal.encode(), ObjectKind.NODE)
    return Outcome(aim, folded.root_id, root, changes.first(limit), lacking.joined(kept), detail)


def nothing_to_take_back(what: str, aim: Aim) -> NothingToUndo:
    """Returns what to raise where nothing goes back; it names what stays."""
    if not aim.left:
        return NothingToUndo(f"nothing that {what} is there any more")
    names = [shorten(name) for name in names_of(aim.left[:_NAMED])]
    more = len(aim.left) - len(names)
    shown = ", ".join(names) + (f" and {more} more" if more else "")
    if aim.is_untold:
        message = f"nothing is known to be what {what}: {shown} may be others' work"
        return NothingToUndo(message).with_hint(UNTOLD)
    return NothingToUndo(f"nothing that {what} can be taken back: {shown} changed since")


def answer_of(
    shown: Outcome,
    snapshot: SnapshotInfo | None,
    safety_id: SnapshotId | None,
    *,
    before: SnapshotId,
    verified: bool = False,
) -> Restored:
    """Returns what was done, or would be, as whoever asked for it is told."""
    return Restored(
        target=before,
        snapshot=snapshot,
        safety_id=safety_id,
        root=shown.root if snapshot is None else snapshot.root,
        old_root=shown.old_root,
        changes=shown.changes,
        verified=verified,
        uncaptured=shown.lacking.uncaptured,
        is_partial=shown.lacking.is_partial,
        in_motion=shown.lacking.in_motion,
        dry_run=snapshot is None,
        left=names_of(shown.aim.left)[:SHOWN],
        by_snapshots=shown.aim.by_snapshots,
    )
