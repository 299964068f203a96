"""Writes one pending row where nobody has committed anything since this process did.

A database in a file says whether somebody else has. If not, the head is as it was left, and so are
its quota and its tenant's: nothing is asked, and nothing is checked twice. Two statements are left
for a new key: one adds the row, the other moves the head on. Whatever is not as simple as that is
left to `writing`, which looks.
"""

from holdfast.catalog.pending import mark_of
from holdfast.engine.core.limits import check_free, check_quota
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.missing import note_added
from holdfast.engine.planes.writers import written
from holdfast.entries import decode_entry
from holdfast.errors import Busy, PendingDamaged
from holdfast.model.basics import EMPTY_MAP, Plane, Size
from holdfast.tree import get


def put_alone(
    handle: Handle, plane: Plane, key: bytes, entry: bytes, *, size: int, keep: bool, most: int
) -> bool:
    """Puts an entry of so many bytes that needs no objects; False, and nothing is done, if others
    have written, or if there is more to it.

    With `keep`, only where there is none. No more than `most` keys are pending then.
    """
    context = handle.context
    left = context.lately.find_written(handle.tenant_id, handle.name)
    if left is None or left.is_bounded or not context.is_committed_at_once:
        return False
    # What tasks change is noted with it; a bucket is asked between transactions.
    if context.blobs.is_remote or handle.door.within() or left.pending >= most:
        return False
    head = left.head
    try:
        with context.catalog.write() as transaction:
            if not transaction.follows(left.commit):
                return False
            objects, old, mark = handle.objects_in(transaction), None, mark_of(plane, key)
            root = objects.get_root(head.root).plane(plane)
            if root != EMPTY_MAP:
                old = get(objects, root, key)
            if keep and old is not None:
                return False
            namespace_id, sequence, row = head.namespace_id, head.sequence + 1, (key, entry)
            if not transaction.add_pending(namespace_id, plane, row, sequence=sequence):
                if keep:
                    return False
                old, mark = transaction.find_pending(namespace_id, plane, [key])[key], 0
                transaction.put_pending(namespace_id, plane, [row], sequence=sequence)
            more = Size(1, size) if old is None else Size(0, size - decode_entry(old).size)
            check_quota(head, more)
            if more.bytes > 0 or more.entries > 0:
                check_free(len(key) + len(entry), limits=context.limits, places=(context.catalog,))
            writer = written(handle, head)
            transaction.advance_head(
                namespace_id, sequence, more=more, writer=writer, unfolded=mark
            )
    except (Busy, PendingDamaged):
        return False  # Whoever looks tries it more than once, and puts what is damaged out of the way.
    if mark:
        note_added(context, namespace_id, head.unfolded, mark)
    context.lately.note_written(
        left.after(
            sequence=sequence, more=more, writer=writer, unfolded=mark, commit=transaction.commit
        )
    )
    return True
