"""Notes of tasks at work what has been taken back of them: they go on from there.

A task that changes again what was taken back of it finds what was there before it, not what it has
left. That is nobody else's work. But what it had left stays noted: whoever undoes the way back
brings that back, and it is the task's own again.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from operator import attrgetter

from holdfast.catalog.rows import NO_LIMIT
from holdfast.catalog.transaction import Transaction
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes.forms import whole
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.ownership import settled
from holdfast.engine.timeline.diff import is_alike
from holdfast.errors import RowDamaged
from holdfast.ids import ObjectId
from holdfast.model.basics import Head, Plane, Root
from holdfast.model.tasks import TaskChange, TaskStatus
from holdfast.tree import get_many


def note_back(transaction: Transaction, handle: Handle, head: Head, was: Root) -> None:
    """Notes of each task that runs what has just become what it was before it.

    With the head moved already; `was` is where it stood.
    """
    source, namespace_id = handle.objects_in(transaction), head.namespace_id
    now = source.get_root(handle.get_head(transaction).root)
    for task in transaction.list_tasks(
        namespace_id, status=TaskStatus.RUNNING, before=None, most=NO_LIMIT
    ):
        changes = list[TaskChange]()
        with suppress(RowDamaged):  # Of the one that is taken back it has been read before.
            changes = transaction.list_task_changes(namespace_id, task.id)
        for plane, noted in groupby(changes, attrgetter("plane")):
            if was.holds(plane) and now.holds(plane):
                maps = was.plane(plane), now.plane(plane)
                back = [*_gone_back(source, plane, [*noted], *maps)]
                transaction.note_back(namespace_id, task.id, plane, back)


def _gone_back(
    source: Objects, plane: Plane, changes: Sequence[TaskChange], was: ObjectId, now: ObjectId
) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    """Yields the keys that have gone back, with what was there before and what the task had left.

    Both as they are noted of a change that is made now: it is compared with them.
    """
    keys = [change.key for change in changes if not change.is_shared]
    left, back = get_many(source, was, keys), get_many(source, now, keys)
    for change in changes:
        key = change.key
        if change.is_shared or is_alike(left.get(key), back.get(key)):
            continue
        old, new = (settled(source, plane, e) for e in (change.old_entry, change.new_entry))
        if is_alike(new, left.get(key)) and is_alike(old, back.get(key)):
            then, last = back.get(key), left.get(key)
            if plane is Plane.MEMORIES:
                then, last = whole(source, then), whole(source, last)
            yield key, then, last
