"""What each task changed, noted with the change itself.

A change that is made in tasks notes in its own transaction, once for each task and key, what was
there before the task's first change of it and what its last one has left: one statement. Changes
that are made in none cost nothing. Snapshots fold what is pending away; what tasks changed stays,
until retention takes the snapshot from before the task. So a task can be taken back at any time
without what others did: see `timeline/takeback.py`.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.objects.content import NamesOnly
from holdfast.engine.planes.forms import settle_file, settle_memory, whole
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.overlays import Sink, StateSource, settle_session
from holdfast.engine.planes.storevalues import settle_value
from holdfast.engine.planes.writers import all_folded, written
from holdfast.errors import ObjectMissing, PackMissing
from holdfast.ids import NamespaceId, ObjectId
from holdfast.model.basics import Head, Plane, Root
from holdfast.tree import Edit, diff


def note_change(
    transaction: Transaction,
    handle: Handle,
    namespace_id: NamespaceId,
    plane: Plane,
    *,
    old: Mapping[bytes, bytes],
    new: Mapping[bytes, bytes | None],
) -> None:
    """Notes that entries become `new`, for the tasks that this is done in."""
    within = handle.door.within()
    if within:
        changes = [(key, old.get(key), entry) for key, entry in new.items()]
        transaction.put_task_changes(namespace_id, within, plane, changes)


def note_move(
    transaction: Transaction,
    handle: Handle,
    head: Head,
    within: Sequence[str] | None,
    *,
    old: Root,
    new: ObjectId,
) -> None:
    """Notes who moves a head from one root to another, and all that differs as changed in tasks.

    In those that this is done in, if none are named.
    """
    moved = replace(head, writer=written(handle, head))
    transaction.set_writer(head.namespace_id, all_folded(moved))
    within = handle.door.within() if within is None else within
    if not within:
        return
    source, namespace_id = handle.objects_in(transaction), head.namespace_id
    goal = source.get_root(new)
    for plane in Plane:
        edits = [*diff(source, old.plane(plane), goal.plane(plane))]
        if plane is Plane.SESSIONS:
            for task_id in within if edits else ():
                known = _as_noted(transaction, source, namespace_id, task_id, edits)
                transaction.put_task_changes(namespace_id, [task_id], plane, known)
        elif edits:
            found = ((edit.key, edit.old, edit.new) for edit in edits)
            if plane is Plane.MEMORIES:
                found = ((key, whole(source, a), whole(source, b)) for key, a, b in found)
            transaction.put_task_changes(namespace_id, within, plane, found)


def _as_noted(
    transaction: Transaction,
    source: StateSource,
    namespace_id: NamespaceId,
    task_id: str,
    edits: Iterable[Edit],
) -> list[tuple[bytes, bytes | None, bytes | None]]:
    """Returns changes of sessions, with what was there in the form in which the task noted it.

    What is pending may have its state in another form than maps have it: that is no change.
    """
    noted = {
        change.key: change.new_entry
        for change in transaction.list_task_changes(namespace_id, task_id)
        if change.plane is Plane.SESSIONS
    }
    return [
        (
            edit.key,
            noted[edit.key]
            if edit.key in noted and settled(source, Plane.SESSIONS, noted[edit.key]) == edit.old
            else edit.old,
            edit.new,
        )
        for edit in edits
    ]


def settled(source: StateSource, plane: Plane, entry: bytes | None) -> bytes | None:
    """Returns an entry that was noted as maps have it, and stores nothing.

    One that needs what the collector has taken is nobody's any more: it stays as it is.
    """
    try:
        return None if entry is None else settle_entry(NamesOnly(), source, plane, entry)
    except (ObjectMissing, PackMissing):
        return entry


def settle_entry(sink: Sink, source: StateSource, plane: Plane, entry: bytes) -> bytes:
    """Returns an entry that was noted as maps have it; what it needs goes to the sink."""
    if plane is Plane.SESSIONS:
        return settle_session(sink, source, entry)
    if plane is Plane.FILES:
        return settle_file(sink, entry)
    if plane is Plane.STORE:
        return settle_value(sink, entry)
    return settle_memory(sink, source, entry) if plane is Plane.MEMORIES else entry
