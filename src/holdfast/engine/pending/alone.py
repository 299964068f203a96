"""Writes one pending row by itself: most writes are that, and take half the time then.

The head is locked and looked at, unless nobody has committed anything since this process did, as a
database in a file can say: then it is as it was left, and so are its quota and its tenant's. Two
statements are left for a new key: one adds the row, the other moves the head on. Whatever is not as
simple as that is left to `writing`.
"""

from collections.abc import Callable

from holdfast.catalog.pending import mark_of
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.limits import check_free, check_quota
from holdfast.engine.core.recent import Written
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.missing import note_added
from holdfast.engine.planes.view import View
from holdfast.engine.planes.writers import written
from holdfast.entries import decode_entry
from holdfast.errors import Busy, PendingDamaged
from holdfast.model.basics import EMPTY_MAP, Plane, Size
from holdfast.tree import get


def put_alone(
    handle: Handle,
    plane: Plane,
    row: tuple[bytes, bytes],
    *,
    size: int,
    keep: bool,
    most: int,
    check: Callable[[View], None] | None,
) -> bool:
    """Puts an entry of so many bytes that needs no objects, in a namespace that is there.

    With `keep`, only where there is none; `check` raises where something else is not as expected.
    False, and nothing is done, if there is more to it, or if `most` keys are pending.
    """
    context = handle.context
    left = context.lately.find_written(handle.tenant_id, handle.name)
    # What counts is added up first; what tasks change is noted with it; a bucket is asked between
    # transactions.
    is_plain = context.is_committed_at_once and not context.blobs.is_remote
    if not is_plain or handle.door.within() or (left is not None and left.is_bounded):
        return False
    try:
        with context.catalog.write() as transaction:
            if left is None or not transaction.follows(left.commit):
                left = _look(handle, transaction)
            if left is None or left.is_bounded or left.pending >= most:
                return False
            if check is not None:
                check(View.of_head(handle.objects, transaction, left.head, plane))
            left = _put(handle, transaction, left, plane, row, size=size, keep=keep)
    except (Busy, PendingDamaged):
        return False  # Who looks again tries it more than once, and lets go of what is damaged.
    if left is None:
        return False
    context.lately.note_written(left)
    return True


def _put(
    handle: Handle,
    transaction: Transaction,
    left: Written,
    plane: Plane,
    row: tuple[bytes, bytes],
    *,
    size: int,
    keep: bool,
) -> Written | None:
    """Writes a row, and returns the head after it; None, and writes nothing, if another is kept."""
    context, head, (key, entry) = handle.context, left.head, row
    objects, old, mark = handle.objects_in(transaction), None, mark_of(plane, key)
    root = objects.get_root(head.root).plane(plane)
    if root != EMPTY_MAP and (old := get(objects, root, key)) is not None and keep:
        return None
    namespace_id, sequence = head.namespace_id, head.sequence + 1
    if not transaction.add_pending(namespace_id, plane, row, sequence=sequence):
        if keep:
            return None
        old, mark = transaction.find_pending(namespace_id, plane, [key])[key], 0
        transaction.put_pending(namespace_id, plane, [row], sequence=sequence)
    more = Size(1, size) if old is None else Size(0, size - decode_entry(old).size)
    check_quota(head, more)
    if more.bytes > 0 or more.entries > 0:
        check_free(len(key) + len(entry), limits=context.limits, places=(context.catalog,))
    writer = written(handle, head)
    transaction.advance_head(namespace_id, sequence, more=more, writer=writer, unfolded=mark)
    note_added(context, namespace_id, head.unfolded, mark)
    return left.after(
        sequence=sequence, more=more, writer=writer, unfolded=mark, commit=transaction.commit
    )


def _look(handle: Handle, transaction: Transaction) -> Written | None:
    """Returns a head, locked, as others have left it; None if there is none."""
    tenant_id = handle.tenant_id
    handle.lock_ahead(transaction)
    transaction.ahead(Transaction.get_tenant, tenant_id)
    head = handle.find_and_lock(transaction)
    if head is None:
        return None
    return Written(head, transaction.get_tenant_quota(tenant_id) is not None, None)
