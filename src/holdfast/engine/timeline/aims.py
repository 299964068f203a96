"""Says where taking back what one task changed leads, whatever is known of that.

Of each entry that the task noted it is known what was there before and what the task has left
(`planes/ownership.py`). One that is still as the task left it goes back; one that is again as it
was before is back already; on any other somebody worked since, and it is named as left.

Of a task whose changes do not name it, what lies between its two snapshots is its own, but for what
other tasks noted there (`beside.py`), and of the prompt of an agent for what prompts of other
conversations did (`steps.py`). Where it has no end yet, or others were there of whom nobody noted
anything, it cannot be told whose any of that is: then all of it is named, and nothing goes back.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Final

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.growth import size_of
from holdfast.engine.core.paths import legible
from holdfast.engine.files.fitting import NOTHING, find_clashes, is_directory, keep_emptied, settle
from holdfast.engine.pending.fold import Folded
from holdfast.engine.planes.handle import Handle, get_kept
from holdfast.engine.planes.ownership import settle_entry, settled
from holdfast.engine.timeline.beside import Beside, find_beside
from holdfast.engine.timeline.diff import entry_name, is_alike
from holdfast.engine.timeline.merge import merge_roots, without_clashes
from holdfast.engine.timeline.steps import own_steps
from holdfast.errors import MergeConflict, OthersChanged, SnapshotNotFound, TaskRunning
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import EMPTY_MAP, Plane, Root, Size, SnapshotInfo
from holdfast.model.prompts import prompt_of
from holdfast.model.tasks import UNKNOWN, TaskChange, TaskRun, TaskStatus
from holdfast.packs import ObjectKind
from holdfast.tree import apply, diff, get_many

Left = tuple[Plane, bytes]
"""The plane and the key of what stays as it is."""

UNTOLD: Final = (
    "Its changes did not name it, so nobody can tell them from those of others. Restore by name "
    "what you know to be its own, or the snapshot from before the task as a whole."
)


@dataclass(frozen=True, slots=True)
class Aim:
    """Where taking a task back leads."""

    root: Root
    size: Size
    left: Sequence[Left] = ()
    by_snapshots: bool = False
    is_noted: bool = False
    """Whether it is what the task noted that says so."""
    is_untold: bool = False
    """Whether all that the task may have changed stays, since nobody can tell whose it is."""
    needs: Sequence[SnapshotId] = ()
    earlier: SnapshotInfo | None = None
    """The snapshot that is gone back to, where that is how its own is known."""


@dataclass(frozen=True, slots=True)
class Asked:
    """How a task is taken back."""

    keeps_others: bool = False
    """Whether what others changed stays, and the rest goes back: else nothing does."""
    is_look: bool = False
    is_end: bool = False
    """Whether the task ends with it: one of which no snapshot shows the end ends here."""
    is_passed: bool = False
    """Whether one that has not ended is passed by, with what it may have changed named."""
    since: SnapshotInfo | None = None
    """Of a task that began before this snapshot and ended after it: only what it did since."""
    fixed: Collection[Left] = ()
    """What stays, and is named if the task changed it."""
    gone: Collection[Left] = ()
    """What has gone back already, and is not looked at again."""


def aim_of(
    handle: Handle, transaction: Transaction, folded: Folded, task: TaskRun, asked: Asked
) -> Aim:
    """Returns where taking a task back leads; raises where others changed the same since."""
    changes = transaction.list_task_changes(task.namespace_id, task.id)
    if task.is_named or (task.beside_others and changes):
        if not changes:
            check_kept(handle, transaction, task)
        if asked.since is not None:
            changes = [*_changed_since(folded, changes, asked.since)]
        aim = _without_changes(transaction, folded, task, _meant(changes, asked))
        aim = replace(aim, is_noted=True)
    elif task.beside_others and not asked.keeps_others:
        raise OthersChanged(task.id, before=task.before).with_hint(UNTOLD)
    else:
        aim = _between(handle, transaction, folded, task, asked)
    if aim.left and not asked.keeps_others:
        raise OthersChanged(task.id, before=task.before, names=names_of(aim.left))
    return aim


def names_of(left: Sequence[Left]) -> list[str]:
    """Returns what stays as others made it, as it is shown."""
    return [f"{plane.value}:{legible(entry_name(plane, key))}" for plane, key in left]


def check_kept(handle: Handle, transaction: Transaction, task: TaskRun) -> None:
    """Raises `SnapshotNotFound` if retention has taken what was known of a task's changes."""
    context = handle.context
    is_old = task.started_at <= context.clock() - context.limits.retention
    may_be_gone = task.status is not TaskStatus.RUNNING or is_old
    if may_be_gone and transaction.find_snapshot(task.namespace_id, task.before) is None:
        raise SnapshotNotFound(task.before)


# What the task noted


def _meant(changes: Sequence[TaskChange], asked: Asked) -> list[TaskChange]:
    """Returns the changes that are to go back; those that are to stay as nobody's alone."""
    return [
        msgspec.structs.replace(each, is_shared=True)
        if (each.plane, each.key) in asked.fixed
        else each
        for each in changes
        if (each.plane, each.key) not in asked.gone
    ]


def _changed_since(
    folded: Folded, changes: Sequence[TaskChange], since: SnapshotInfo
) -> Iterator[TaskChange]:
    """Yields what a task has changed after a snapshot that was taken while it ran.

    What a key was at the snapshot tells, unless that is neither what the task found nor what it
    left: then others may have worked on it in between, and it is nobody's alone.
    """
    source = folded.source
    then = source.get_root(since.root)
    for plane, noted in groupby(changes, attrgetter("plane")):
        if not then.holds(plane):
            continue
        of_plane = [*noted]
        found = get_many(source, then.plane(plane), [change.key for change in of_plane])
        for change in of_plane:
            was = found.get(change.key)
            old, new = (settled(source, plane, e) for e in (change.old_entry, change.new_entry))
            if change.key == UNKNOWN or is_alike(was, old):
                yield change
            elif not is_alike(was, new):
                yield msgspec.structs.replace(change, old_entry=was, is_shared=True)


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
                left.append((plane, change.key))
        if plane is Plane.FILES:
            clashes = find_clashes(source, at, wanted)
            left += [(plane, key) for key in clashes]
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
        is_unmoved, is_as_left = is_alike(old, new), is_alike(now, new)
        if change.plane is Plane.FILES and {old, new, now} <= {*NOTHING}:
            # A directory that somebody fills or empties: nobody's work is in that.
            if is_as_left and not is_unmoved:
                yield change, True
        elif is_as_left and (change.is_shared or not is_unmoved):
            yield change, not change.is_shared
        elif not (is_as_left or is_alike(now, old) or (is_unmoved and not change.is_shared)):
            yield change, False


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
    handle: Handle, transaction: Transaction, folded: Folded, task: TaskRun, asked: Asked
) -> Aim:
    """Returns where it leads to take back what lies between a task's two snapshots."""
    before, after = _ends(transaction, folded, task, asked)
    source = folded.source
    roots = source.get_root(before.root), source.get_root(after.root)
    beside = find_beside(transaction, source, task, *roots)
    if task.beside_others or _is_open(task, asked):
        left = [*_untold(folded, beside, *roots)]
        return Aim(folded.root, folded.size, left, is_untold=True)
    needs = [before.id, after.id]
    own = own_steps(transaction, source, task, before=before, after=after)
    if own is not None:
        own = _meant(beside.mark(own), asked)
        aim = _without_changes(transaction, folded, task, own)
        return replace(aim, needs=needs, earlier=before)
    stays = {*beside.others, *beside.shared, *asked.fixed, *asked.gone}
    theirs = _with(folded, roots[0], after=roots[1], stays=stays)
    left = _changed_still(folded, *roots, {*beside.shared, *asked.fixed} - {*asked.gone})
    limits = handle.context.limits
    try:
        merged = merge_roots(folded, base=after.root, theirs=theirs, prefer=None, limits=limits)
    except MergeConflict as exc:
        left |= {(Plane(plane), key) for plane, key in exc.conflicts}
        merged = merge_roots(folded, base=after.root, theirs=theirs, prefer="ours", limits=limits)
    root, order = source.get_root(merged.root), [*Plane]
    return Aim(
        root,
        merged.size,
        sorted(left, key=lambda each: (order.index(each[0]), each[1])),
        by_snapshots=True,
        needs=needs,
        earlier=before,
    )


def _ends(
    transaction: Transaction, folded: Folded, task: TaskRun, asked: Asked
) -> tuple[SnapshotInfo, SnapshotInfo]:
    """Returns the two snapshots of a task; of one that has no end, what is there stands for it.

    Raises `TaskRunning` for one that has none unless it is a prompt that is looked at, it ends with
    this, or it is passed by.
    """
    if _is_open(task, asked) and not asked.is_passed:
        raise TaskRunning(task.id, before=task.before)
    before = asked.since or get_kept(transaction, task.namespace_id, task.before)
    if task.after is not None:
        return before, get_kept(transaction, task.namespace_id, task.after)
    (newest,) = transaction.timeline(task.namespace_id, before=None, most=1)
    return before, msgspec.structs.replace(newest, root=folded.root_id)


def _is_open(task: TaskRun, asked: Asked) -> bool:
    """Says whether a task has no end yet: who only looks sees a prompt as if it ended now."""
    if task.after is not None or asked.is_end:
        return False
    return not (asked.is_look and prompt_of(task) is not None)


def _with(folded: Folded, before: Root, *, after: Root, stays: Collection[Left]) -> ObjectId:
    """Returns what was there before a task, as it is after it for what is not to go back."""
    source, root = folded.source, before
    for plane in Plane:
        keys = [key for of, key in stays if of is plane]
        if not keys or not (before.holds(plane) and after.holds(plane)):
            continue
        found = get_many(source, after.plane(plane), keys)
        applied = apply(source, before.plane(plane), {key: found.get(key) for key in keys})
        folded.stage.add_nodes(applied.nodes)
        root = root.replacing(**{plane.value: applied.root})
    return folded.stage.add(root.encode(), ObjectKind.NODE)


def _changed_still(folded: Folded, before: Root, after: Root, keys: Collection[Left]) -> set[Left]:
    """Returns those of some keys that a task has changed and that are not as before by now."""
    found = set[Left]()
    for plane in Plane:
        of_plane = [key for of, key in keys if of is plane]
        if not of_plane or not (before.holds(plane) and after.holds(plane)):
            continue
        was, became, now = (
            get_many(folded.source, root.plane(plane), of_plane)
            for root in (before, after, folded.root)
        )
        found |= {
            (plane, key)
            for key in of_plane
            if not is_alike(was.get(key), became.get(key))
            and not is_alike(was.get(key), now.get(key))
        }
    return found


def _untold(folded: Folded, beside: Beside, before: Root, after: Root) -> Iterator[Left]:
    """Yields what a task may have changed, and is not known to be somebody else's."""
    for plane in Plane:
        if not (before.holds(plane) and after.holds(plane)):
            continue
        edits = diff(folded.source, before.plane(plane), after.plane(plane))
        keys = {(plane, edit.key) for edit in edits} - {*beside.others}
        yield from sorted(_changed_still(folded, before, after, keys))
