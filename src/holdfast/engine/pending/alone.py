"""Writes one pending row by itself: most writes are that, and take half the time then.

The head is locked and looked at, unless nobody has committed anything since this process did, as a
database in a file can say: then it is as it was left, and so are its quota and its tenant's. Two
statements are left for a new key: one adds the row, the other moves the head on. Where only a
question could tell, a key that is most likely new is put with the head compared in the same message
(`core/recent.py`). Whatever is not as simple as that is left to `writing`, and nothing was done.
"""

from collections.abc import Callable, Mapping

from holdfast.catalog.pending import mark_of
from holdfast.catalog.rows import HEAD
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.limits import check_free, check_quota
from holdfast.engine.core.recent import Written
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.missing import note_added
from holdfast.engine.planes.view import View
from holdfast.engine.planes.writers import written
from holdfast.entries import decode_entry
from holdfast.errors import Busy, Conflict, Damaged, PendingDamaged, QuotaExceeded
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
    expected: Mapping[bytes, str],
    check: Callable[[View], None],
    tags: Mapping[bytes, str],
) -> bool:
    """Puts an entry of so many bytes that needs no objects, in a namespace that is there.

    With `keep`, only where there is none; `check` raises where something is not as `expected`, and
    is asked where that is not known. `tags` are of what is put. False, and nothing is done, if
    there is more to it, or if `most` keys are pending.
    """
    context = handle.context
    left = context.lately.find_written(handle.tenant_id, handle.name)
    # What counts is added up first; what tasks change is noted with it; a bucket is asked between
    # transactions.
    is_plain = context.is_committed_at_once and not context.blobs.is_remote
    if not is_plain or handle.door.within() or (left is not None and left.is_bounded):
        return False
    if left is not None and left.commit is None:
        # Where each look is a wait, those who look do so together.
        is_likely = left.pending < most and expected.items() <= left.tags.items()
        return is_likely and _put_unseen(
            handle, left, plane, row, size=size, expected=expected, tags=tags
        )
    try:
        with context.catalog.write() as transaction:
            found = _as_it_is(handle, transaction, left)
            if found is None or found.is_bounded or found.pending >= most:
                return False
            if not expected.items() <= found.tags.items():
                check(View.of_head(handle.objects, transaction, found.head, plane))
            tags = found.tags_after(row[0], found=expected, put=tags)
            after = _put(handle, transaction, found, plane, row, size=size, keep=keep, tags=tags)
    except (Busy, PendingDamaged):
        return False  # Who looks again tries it more than once, and lets go of what is damaged.
    if after is not None:
        context.lately.note_written(after)
    return after is not None


def _put(
    handle: Handle,
    transaction: Transaction,
    left: Written,
    plane: Plane,
    row: tuple[bytes, bytes],
    *,
    size: int,
    keep: bool,
    tags: Mapping[bytes, str],
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
        sequence=sequence,
        more=more,
        writer=writer,
        unfolded=mark,
        commit=transaction.commit,
        tags=tags,
    )


def _put_unseen(
    handle: Handle,
    left: Written,
    plane: Plane,
    row: tuple[bytes, bytes],
    *,
    size: int,
    expected: Mapping[bytes, str],
    tags: Mapping[bytes, str],
) -> bool:
    """Puts a row whose key is most likely new in one message, by what is believed; says whether.

    Where that is wrong nothing is done.
    """
    context, head, (key, entry) = handle.context, left.head, row
    if left.key is None or key <= left.key:
        return False
    more, writer = Size(1, size), written(handle, head)
    try:
        with context.catalog.write() as transaction:
            if transaction.era != left.era:
                return False
            objects = handle.objects_in(transaction)
            root = objects.get_root(head.root).plane(plane)
            if root != EMPTY_MAP and get(objects, root, key) is not None:
                return False
            check_quota(head, more)
            check_free(len(key) + len(entry), limits=context.limits, places=(context.catalog,))
            transaction.add_trusted(
                head, HEAD.checksum_of(head), plane, row, more=more, writer=writer
            )
    except (Conflict, Damaged, QuotaExceeded):
        return False  # Nobody is refused anything for what was only believed.
    mark = mark_of(plane, key)
    note_added(context, head.namespace_id, head.unfolded, mark)
    context.lately.note_written(
        left.after(
            sequence=head.sequence + 1,
            more=more,
            writer=writer,
            unfolded=mark,
            commit=None,
            key=key,
            tags=left.tags_after(key, found=expected, put=tags),
        )
    )
    return True


def _as_it_is(handle: Handle, transaction: Transaction, left: Written | None) -> Written | None:
    """Returns a head, locked: as it was left, if that is known; None if there is none."""
    if left is not None and transaction.follows(left.commit):
        return left
    head = handle.find_and_lock(transaction)
    if head is None:
        return None
    is_bounded = transaction.get_tenant_quota(handle.tenant_id) is not None
    return Written(head, is_bounded, None, transaction.era)
