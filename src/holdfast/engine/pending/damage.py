"""Lets go of what is pending and damaged, so that nobody is stuck with it.

A pending row that is not what was written is neither shown nor folded into a snapshot. Whoever
writes its key anew, or repairs, puts it out of the way: what the base root has is there again. Of
a memory nothing is lost, since its own row has it. How much the head holds is counted anew, since
nobody can say what the damaged row had added to it.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.memory import plane as memoryplane
from holdfast.engine.objects.content import NamesOnly
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.writers import written
from holdfast.entries import decode_entry
from holdfast.errors import PendingDamaged
from holdfast.model.basics import Head, Plane, Size
from holdfast.tree import iterate


def let_go(
    transaction: Transaction, handle: Handle, head: Head, damaged: Iterable[PendingDamaged]
) -> Head:
    """Puts damaged rows out of the way; returns the head, which has to be locked, as it is then."""
    known = list(damaged)
    for each in known:
        transaction.discard_pending(head.namespace_id, each)
    if any(each.plane == Plane.MEMORIES for each in known):
        memoryplane.note_anew(transaction, handle.objects.bound(transaction), head)
    transaction.mark_anew(head.namespace_id)
    size = count(transaction, handle.objects.bound(transaction), head)
    more = Size(size.entries - head.size.entries, size.bytes - head.size.bytes)
    sequence = transaction.advance_sequence(
        head.namespace_id, more=more, writer=written(handle, head)
    )
    return replace(head, size=size, sequence=sequence)


def count(transaction: Transaction, objects: Objects, head: Head) -> Size:
    """Returns how much a head holds, by looking at all of it; damaged rows are not counted."""
    root, entries, size = objects.get_root(head.root), 0, 0
    pending, _ = transaction.sort_pending(head.namespace_id)
    for plane in Plane:
        changes = {key: entry for of, key, entry in pending if of is plane}
        changes = memoryplane.settled(transaction, NamesOnly(), head.namespace_id, changes)
        kept = (entry for key, entry in iterate(objects, root.plane(plane)) if key not in changes)
        for entry in (*changes.values(), *kept):
            if entry is not None:
                entries, size = entries + 1, size + decode_entry(entry).size
    return Size(entries, size)
