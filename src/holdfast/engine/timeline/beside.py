"""Whose what lies between two snapshots is, as far as other tasks have noted it.

Of a task whose changes do not name it, what lies between its two snapshots counts as its own. But
tasks that ran beside it may have noted what they changed (`planes/ownership.py`): that is theirs.
So is a key that their notes lead from what it was before to what it was after. One of which they
have changed something, but not all, is nobody's alone.

What is done in the tasks that a task was begun in is theirs, and its own as well.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.files.fitting import NOTHING
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.ownership import settled
from holdfast.engine.timeline.diff import is_alike
from holdfast.model.basics import Plane, Root
from holdfast.model.tasks import TaskChange, TaskRun
from holdfast.tree import get_many

Place = tuple[Plane, bytes]


class Beside(msgspec.Struct, frozen=True):
    """What others changed between the two snapshots of a task."""

    others: frozenset[Place] = frozenset()
    """What is theirs alone."""
    shared: frozenset[Place] = frozenset()
    """What both they and the task may have changed."""

    def mark(self, changes: Iterable[TaskChange]) -> list[TaskChange]:
        """Returns the changes of a task without those of others, and says which are shared."""
        return [
            msgspec.structs.replace(each, is_shared=True)
            if (each.plane, each.key) in self.shared
            else each
            for each in changes
            if (each.plane, each.key) not in self.others
        ]


def find_beside(
    transaction: Transaction, source: StagedObjects, task: TaskRun, before: Root, after: Root
) -> Beside:
    """Returns what other tasks noted of what became of one root until another."""
    noted: Mapping[Plane, dict[bytes, list[TaskChange]]] = {plane: {} for plane in Plane}
    for change in transaction.list_changes_beside(task):
        noted[change.plane].setdefault(change.key, []).append(change)
    others, shared = set[Place](), set[Place]()
    for plane, changes in noted.items():
        if not changes or not (before.holds(plane) and after.holds(plane)):
            continue
        was, became = (get_many(source, root.plane(plane), changes) for root in (before, after))
        for key, found in changes.items():
            ends = was.get(key), became.get(key)
            if is_alike(*ends) or not (steps := _steps_between(source, found, *ends)):
                continue
            if _lead(steps, *ends):
                others.add((plane, key))
            elif not (plane is Plane.FILES and {*ends} <= {*NOTHING}):
                # A directory that somebody fills or empties: nobody's work is in that.
                shared.add((plane, key))
    return Beside(frozenset(others), frozenset(shared))


def _steps_between(
    source: StagedObjects,
    changes: Sequence[TaskChange],
    was: bytes | None,
    became: bytes | None,
) -> list[TaskChange]:
    """Returns those of some changes of a key that were made between what it was and what it became.

    Not one that ended where the key was before, or began where it was after.
    """
    steps = list[TaskChange]()
    for change in changes:
        noted = (change.old_entry, change.new_entry)
        old, new = (settled(source, change.plane, entry) for entry in noted)
        if change.is_shared or not (is_alike(new, was) or is_alike(old, became)):
            steps.append(msgspec.structs.replace(change, old_entry=old, new_entry=new))
    return steps


def _lead(steps: Sequence[TaskChange], was: bytes | None, became: bytes | None) -> bool:
    """Says whether some changes, one after the other, lead from what was there to what became."""
    left = [step for step in steps if not step.is_shared]
    at = was
    while not is_alike(at, became):
        step = next((step for step in left if is_alike(step.old_entry, at)), None)
        if step is None:
            return False
        left.remove(step)
        at = step.new_entry
    return True
