"""Takes back what one task changed, at its failing end or at any later time, and nothing else.

Of each entry that the task changed it is known what was there before and what the task has left
(`planes/ownership.py`). One that is still as the task left it goes back; one that is again as it
was before is back already; on any other somebody worked since. Then nothing at all is taken back,
unless what others changed is to stay: it does, and the rest goes back. All of it is one move of the
head, like every restore: nothing is lost by it, and it can be undone.

Of a task in a directory, and of one whose changes do not name it, the two snapshots at its ends
are what is known: what lies between them counts as its own, and the answer says so. Of the prompt
of an agent, what prompts of other conversations did meanwhile is not (`steps.py`).

Several are taken back one on the other by `takeback_many.py`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Final

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.coverage import LACKS_NOTHING, Lacking, lacking_in
from holdfast.engine.core.growth import size_of
from holdfast.engine.core.paths import legible
from holdfast.engine.files.fitting import NOTHING, find_clashes, is_directory, keep_emptied, settle
from holdfast.engine.pending.fold import Folded, lacking_at
from holdfast.engine.planes.handle import Handle, get_kept
from holdfast.engine.planes.ownership import settle_entry, settled
from holdfast.engine.planes.writers import others_of
from holdfast.engine.sessions.reviving import revive
from holdfast.engine.sessions.terms import keep_terms
from holdfast.engine.timeline.diff import collect_changes, entry_name, iter_changes, timeless
from holdfast.engine.timeline.expecting import ANYTHING, Expected
from holdfast.engine.timeline.head import Mark, Move, advance, replacing
from holdfast.engine.timeline.merge import merge_roots, without_clashes
from holdfast.engine.timeline.restore import folded_head, present, prove
from holdfast.engine.timeline.steps import own_steps
from holdfast.engine.timeline.undo import Leave, leave_nothing
from holdfast.entries import Entry, Memory, decode_entry
from holdfast.errors import (
    InvalidValue,
    MergeConflict,
    NothingToUndo,
    OthersChanged,
    SnapshotNotFound,
    TaskEnded,
    TaskNotFound,
    TaskRunning,
    shorten,
)
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import EMPTY_MAP, Head, Kind, Plane, Root, Size, SnapshotInfo
from holdfast.model.changes import Changes, Restored
from holdfast.model.prompts import prompt_of
from holdfast.model.tasks import UNKNOWN, TaskChange, TaskRun, TaskStatus
from holdfast.operations.choices import SHOWN
from holdfast.operations.snapshots import Note
from holdfast.operations.timeline import Undo
from holdfast.packs import ObjectKind
from holdfast.tree import apply, get_many

_NAMED: Final = 5
"""What an error names of what stays."""

Left = tuple[str, bytes]
"""The plane and the key of what stays as others made it."""


@dataclass(frozen=True, slots=True)
class Aim:
    """Where taking a task back leads."""

    root: Root
    size: Size
    left: Sequence[Left] = ()
    by_snapshots: bool = False
    needs: Sequence[SnapshotId] = ()
    earlier: SnapshotInfo | None = None
    """The snapshot that is gone back to, where that is how its own is known."""


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
        aim = aim_of(handle, transaction, folded, task, keep_mine=keep_mine, is_look=dry_run)
        seen = outcome_of(handle, transaction, folded, aim, then=task.started_at, limit=limit)
        if seen.root == folded.root_id and not at_end:
            raise nothing_to_take_back(f"task {task.id} changed", aim)
        leave(seen.lacking.uncaptured)
        marks = _marks(handle, transaction, folded, task, seen, note=note, at_end=at_end)
        last = marks[-1].id

        def check(writing: Transaction, head: Head) -> None:
            # Under the lock: what was there before is kept from the collector for as long as it
            # is known that the task changed it.
            if aim.earlier is None and not writing.has_task_changes(head.namespace_id, task.id):
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
            # What is done in the task itself, it does to itself.
            within=[*takewhile(lambda each: each != task.id, handle.door.within())],
        )

    if dry_run:
        with folded_head(handle) as (transaction, folded):
            seen, before = plan(transaction, folded).result
        return answer_of(seen, None, None, before=before)
    done, (seen, before) = advance(handle, plan, expected=expected)
    safety_id = done[0].id if len(done) > 1 else None
    is_proven = prove(handle, done[-1])
    return answer_of(seen, done[-1], safety_id, before=before, verified=is_proven)


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


def aim_of(
    handle: Handle,
    transaction: Transaction,
    folded: Folded,
    task: TaskRun,
    *,
    keep_mine: bool,
    is_look: bool = False,
) -> Aim:
    """Returns where taking a task back leads; raises where others changed the same since."""
    changes = transaction.list_task_changes(task.namespace_id, task.id)
    if task.is_named or (task.beside_others and changes):
        if not changes:
            check_kept(handle, transaction, task)
        aim = _without_changes(transaction, folded, task, changes)
    elif task.beside_others:
        by = others_of(folded.head, task)
        raise OthersChanged(task.id, before=task.before, by=by)
    else:
        aim = _between(handle, transaction, folded, task, is_look=is_look)
    if aim.left and not keep_mine:
        raise OthersChanged(task.id, before=task.before, names=names_of(aim.left))
    return aim


def names_of(left: Sequence[Left]) -> list[str]:
    """Returns what stays as others made it, as it is shown."""
    return [f"{plane}:{legible(entry_name(Plane(plane), key))}" for plane, key in left]


def check_kept(handle: Handle, transaction: Transaction, task: TaskRun) -> None:
    """Raises `SnapshotNotFound` if retention has taken what was known of a task's changes."""
    context = handle.context
    is_old = task.started_at <= context.clock() - context.limits.retention
    may_be_gone = task.status is not TaskStatus.RUNNING or is_old
    if may_be_gone and transaction.find_snapshot(task.namespace_id, task.before) is None:
        raise SnapshotNotFound(task.before)


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


# What the task noted


def _without_changes(
    transaction: Transaction, folded: Folded, task: TaskRun, changes: Sequence[TaskChange]
) -> Aim:
    """Returns where it leads to take back what a task noted."""
    source, root, size, left = folded.source, folded.root, folded.size, list[Left]()
    nested = _found_by_nested(transaction, folded, task)
    for plane, noted in groupby(changes, attrgetter("plane")):
        at = root.plane(plane)
        wanted = dict[bytes, bytes | None]()
        for change, is_free in _sorted_out(folded, at, [*noted], nested):
            if is_free:
                wanted[change.key] = _then(folded, change)
            else:
                left.append((plane.value, change.key))
        if plane is Plane.FILES:
            clashes = find_clashes(source, at, wanted)
            left += [(plane.value, key) for key in clashes]
            wanted = _fitting(transaction, folded, task, without_clashes(wanted, clashes))
        applied = apply(source, at, wanted)
        folded.stage.add_nodes(applied.nodes)
        root, size = root.replacing(**{plane.value: applied.root}), size + size_of(applied.edits)
    return Aim(root, size, left)


def _found_by_nested(
    transaction: Transaction, folded: Folded, task: TaskRun
) -> Mapping[tuple[Plane, bytes], Sequence[bytes | None]]:
    """Returns what tasks within this one found there: it is so again once they are taken back."""
    found = defaultdict[tuple[Plane, bytes], list[bytes | None]](list)
    for change in transaction.list_nested_changes(task.namespace_id, task.id):
        if not change.is_shared:
            old = settled(folded.source, change.plane, change.old_entry)
            found[change.plane, change.key].append(old)
    return found


def _sorted_out(
    folded: Folded,
    at: ObjectId,
    changes: Sequence[TaskChange],
    nested: Mapping[tuple[Plane, bytes], Sequence[bytes | None]],
) -> Iterator[tuple[TaskChange, bool]]:
    """Yields what a task changed and has to say something of; whether it can be taken back."""
    found = get_many(folded.source, at, [change.key for change in changes])
    for change in changes:
        if change.key == UNKNOWN:
            yield change, False
            continue
        noted, now = (change.old_entry, change.new_entry), found.get(change.key)
        old, new = (settled(folded.source, change.plane, entry) for entry in noted)
        new = next((e for e in nested.get((change.plane, change.key), ()) if e == now), new)
        is_unmoved, is_as_left = _is_alike(old, new), _is_alike(now, new)
        if change.plane is Plane.FILES and {old, new, now} <= {*NOTHING}:
            # A directory that somebody fills or empties: nobody's work is in that.
            if is_as_left and not is_unmoved:
                yield change, True
        elif is_as_left and (change.is_shared or not is_unmoved):
            yield change, not change.is_shared
        elif not (is_as_left or _is_alike(now, old) or (is_unmoved and not change.is_shared)):
            yield change, False


def _is_alike(one: bytes | None, other: bytes | None) -> bool:
    """Says whether two entries differ in no more than when, or how often, they were written."""
    if one is None or other is None or one == other:
        return one == other
    return _content(one) == _content(other)


def _content(data: bytes) -> Entry:
    entry = decode_entry(data)
    if isinstance(entry, Memory):
        return msgspec.structs.replace(entry, version=0, updated_us=0)
    return timeless(entry)


def _then(folded: Folded, change: TaskChange) -> bytes | None:
    """Returns the entry from before the task, as maps have it."""
    if change.old_entry is None:
        return None
    return settle_entry(folded.stage, folded.source, change.plane, change.old_entry)


def _fitting(
    transaction: Transaction, folded: Folded, task: TaskRun, wanted: Mapping[bytes, bytes | None]
) -> dict[bytes, bytes | None]:
    """Returns changes of files as they fit with those that stay.

    A directory that was there before the task stays, also if nothing is left in it.
    """
    source, at = folded.source, folded.root.plane(Plane.FILES)
    before = transaction.find_snapshot(task.namespace_id, task.before)
    then = EMPTY_MAP if before is None else source.get_root(before.root).plane(Plane.FILES)
    kept = keep_emptied(source, at, wanted, stays=lambda path: is_directory(source, then, path))
    return settle(source, at, kept)


# What lies between its two snapshots


def _between(
    handle: Handle, transaction: Transaction, folded: Folded, task: TaskRun, *, is_look: bool
) -> Aim:
    """Returns where it leads to take back all that lies between a task's two snapshots.

    Who only looks sees an open prompt as if it ended now.
    """
    if task.after is None and not (is_look and prompt_of(task) is not None):
        raise TaskRunning(task.id, before=task.before)
    before = get_kept(transaction, task.namespace_id, task.before)
    if task.after is None:
        (newest,) = transaction.timeline(task.namespace_id, before=None, most=1)
        after = msgspec.structs.replace(newest, root=folded.root_id)
    else:
        after = get_kept(transaction, task.namespace_id, task.after)
    own = own_steps(transaction, folded.source, task, before=before, after=after)
    if own is not None:
        aim, needs = _without_changes(transaction, folded, task, own), [before.id, after.id]
        return replace(aim, needs=needs, earlier=before)
    left, limits = list[Left](), handle.context.limits
    try:
        merged = merge_roots(
            folded, base=after.root, theirs=before.root, prefer=None, limits=limits
        )
    except MergeConflict as exc:
        left = exc.conflicts
        merged = merge_roots(
            folded, base=after.root, theirs=before.root, prefer="ours", limits=limits
        )
    root, needs = folded.source.get_root(merged.root), [before.id, after.id]
    return Aim(root, merged.size, left, by_snapshots=True, needs=needs, earlier=before)


def nothing_to_take_back(what: str, aim: Aim) -> NothingToUndo:
    """Returns what to raise where nothing goes back; it names what stays."""
    if not aim.left:
        return NothingToUndo(f"nothing that {what} is there any more")
    names = [shorten(name) for name in names_of(aim.left[:_NAMED])]
    more = len(aim.left) - len(names)
    shown = ", ".join(names) + (f" and {more} more" if more else "")
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
