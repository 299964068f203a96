"""What a prompt changed, where prompts of other conversations were at work in the same directory.

All that lies between a prompt's two snapshots counts as its own, whoever did it. But the snapshots
in between that name the prompt of another conversation are that one's, and so is what an undo of
another prompt did: they are left out, step by step. What a prompt found when it began is not what
it did, though that snapshot names it: it is of whoever was at work then. Of a key that both changed
in turns it is noted that it is shared.
"""

from collections.abc import Sequence
from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.objects.stage import StagedObjects
from holdfast.errors import OthersChanged
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import Plane, SnapshotInfo
from holdfast.model.prompts import prompt_of
from holdfast.model.tasks import TaskChange, TaskRun
from holdfast.tree import diff

MOST_STEPS: Final = 10_000
"""Snapshots between the two of one prompt that are looked at one by one."""


def own_steps(
    transaction: Transaction,
    source: StagedObjects,
    task: TaskRun,
    *,
    before: SnapshotInfo,
    after: SnapshotInfo,
) -> list[TaskChange] | None:
    """Returns what a prompt itself changed; None if all between its snapshots is its own.

    Raises `OthersChanged` if others were there and it is no longer known what they did.
    """
    count = after.number - before.number
    if prompt_of(task) is None or count <= 0:
        return None
    between = transaction.timeline(
        task.namespace_id, before=after.number + 1, most=min(count, MOST_STEPS)
    )
    others = _prompts_among(transaction, task, between)
    if not others:
        return None
    if len(between) < count or any(each.deleted_at is not None for each in between):
        raise OthersChanged(task.id, before=task.before, by=sorted(others))
    own, last = dict[tuple[Plane, bytes], TaskChange](), before.root
    for snapshot in reversed(between):
        if others.get(snapshot.task_id or "", snapshot.id) == snapshot.id:
            _add_step(own, source, last, snapshot.root)
        last = snapshot.root
    if last != after.root:
        # Of a prompt that is not at its end: what is in no snapshot yet.
        _add_step(own, source, last, after.root)
    return [own[key] for key in sorted(own, key=lambda each: (each[0].value, each[1]))]


def _prompts_among(
    transaction: Transaction, task: TaskRun, between: Sequence[SnapshotInfo]
) -> dict[str, SnapshotId]:
    """Returns the tasks of other prompts that snapshots name, with what each of them found."""
    names = {each.task_id for each in between} - {None, task.id}
    tasks = [transaction.find_task(task.namespace_id, name) for name in names if name]
    return {e.id: e.before for e in tasks if e is not None and prompt_of(e) is not None}


def _add_step(
    own: dict[tuple[Plane, bytes], TaskChange], source: StagedObjects, old: ObjectId, new: ObjectId
) -> None:
    was, became = source.get_root(old), source.get_root(new)
    for plane in Plane:
        if not (was.holds(plane) and became.holds(plane)):
            continue
        for edit in diff(source, was.plane(plane), became.plane(plane)):
            first = own.get((plane, edit.key))
            own[plane, edit.key] = TaskChange(
                plane=plane,
                key=edit.key,
                old_entry=edit.old if first is None else first.old_entry,
                new_entry=edit.new,
                is_shared=first is not None and (first.is_shared or first.new_entry != edit.old),
            )
