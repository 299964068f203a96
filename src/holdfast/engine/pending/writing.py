"""Writes pending rows: the only way in which a plane changes between two snapshots.

One transaction locks the head, computes the new rows from what it then sees, checks quota and
free space, and writes them together with the objects they refer to. Two writers of one
namespace take turns, so neither can overwrite what it has not seen.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from holdfast.catalog.pending import mark_of
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.limits import check_free, check_quota
from holdfast.engine.core.recent import Written
from holdfast.engine.journal.events import tell
from holdfast.engine.objects.stage import Stage
from holdfast.engine.pending.damage import let_go
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.missing import note_added
from holdfast.engine.planes.ownership import note_change
from holdfast.engine.planes.unit import carry_out
from holdfast.engine.planes.view import View
from holdfast.engine.planes.writers import written
from holdfast.entries import decode_entry
from holdfast.errors import PendingDamaged
from holdfast.model.basics import Head, Plane, Size
from holdfast.model.events import Occurrence


def no_events() -> Sequence[Occurrence]:
    """Tells nothing."""
    return ()


Rows = Mapping[bytes, bytes | None]
Compute = Callable[[View], Rows]


def change(
    handle: Handle,
    plane: Plane,
    prepare: Callable[[Stage], Compute],
    *,
    held: Size | None = None,
    over: Collection[bytes] = (),
    creates: bool = True,
    told: Callable[[], Sequence[Occurrence]] = no_events,
) -> None:
    """Stages content with `prepare`, then writes the rows that its result computes.

    `held` is the size of what the rows hold, where the caller knows it; `told` returns what is
    told of it, once the rows are computed. `over` are keys that get something else, whatever they
    hold: should that be damaged, it is in nobody's way. Unless it `creates`, nothing is done in a
    namespace that does not exist.
    """

    def write(stage: Stage) -> None:
        compute = prepare(stage)
        if not stage.is_small:
            stage.seal()
        _write(handle, plane, stage, compute, held=held, over=over, creates=creates, told=told)

    carry_out(handle, write)


def change_rows(
    handle: Handle,
    plane: Plane,
    compute: Compute,
    *,
    held: Size | None = None,
    over: Collection[bytes] = (),
    creates: bool = True,
    told: Callable[[], Sequence[Occurrence]] = no_events,
) -> None:
    """Writes rows that need no new objects; see `change`."""
    change(handle, plane, lambda _: compute, held=held, over=over, creates=creates, told=told)


def _write(
    handle: Handle,
    plane: Plane,
    stage: Stage,
    compute: Compute,
    *,
    held: Size | None,
    over: Collection[bytes],
    creates: bool,
    told: Callable[[], Sequence[Occurrence]],
) -> None:
    context, is_known = handle.context, True
    before = context.lately.find_written(handle.tenant_id, handle.name)
    with context.work() as transaction:
        found = _found(handle, transaction, before, stage, creates=creates)
        if found is None:
            return
        head, is_bounded = found
        view = View.of_head(handle.objects, transaction, head, plane)
        try:
            rows, old, more = _changes(view, compute, held)
        except PendingDamaged as exc:
            if exc.plane != plane or exc.key not in over:
                raise
            _, damaged = transaction.sort_pending(head.namespace_id)
            gone = [each for each in damaged if each.plane == plane and each.key in over]
            head, is_known = let_go(transaction, handle, head, gone), False
            rows, old, more = _changes(view, compute, held)
        if not rows:
            return
        stage.seal(transaction)
        new = sum(mark_of(plane, key) for key in rows if key not in view.pending)
        left = put_rows(
            transaction,
            handle,
            head,
            plane,
            rows,
            stage=stage,
            more=more,
            unfolded=new,
            is_bounded=is_bounded,
        )
        note_change(transaction, handle, head.namespace_id, plane, old=old, new=rows)
        tell(transaction, context, head, told)
    if is_known and context.is_committed_at_once:
        # Who meets others looks, until a look finds the head as it was left.
        is_alone = before is not None and before.head == head
        key = [*rows][-1] if is_alone else None
        context.lately.note_written(replace(left, key=key, tags=view.tags))


def _found(
    handle: Handle,
    transaction: Transaction,
    before: Written | None,
    stage: Stage,
    *,
    creates: bool,
) -> tuple[Head, bool] | None:
    """Returns the head, locked, and whether its tenant may have a quota.

    Who made the last commit of all need not look: both are as that has left them. None if there is
    no such namespace, and none is made.
    """
    if (
        before is not None
        and handle.context.is_committed_at_once
        and transaction.follows(before.commit)
    ):
        return transaction.take_head(before.head), before.is_bounded
    handle.lock_ahead(transaction)
    if stage.join_ahead(transaction):
        transaction.ahead(Transaction.get_tenant, handle.tenant_id)  # New content needs room.
    head = (handle.lock_or_create if creates else handle.find_and_lock)(transaction)
    return None if head is None else (head, True)


def put_rows(
    transaction: Transaction,
    handle: Handle,
    head: Head,
    plane: Plane,
    rows: Rows,
    *,
    stage: Stage,
    more: Size,
    unfolded: int | None = None,
    is_bounded: bool = True,
) -> Written:
    """Writes rows by which the plane grows, and names what they refer to; returns the head then.

    `unfolded` is the sum of the marks of those that are not pending yet, if the caller knows, and
    `is_bounded` says whether the tenant may have a quota. Raises `QuotaExceeded` or `StorageFull`.
    """
    context = handle.context
    check_quota(head, more)
    if more.bytes > 0 or more.entries > 0:
        # What only deletes is let through: it is how room is made.
        needed = sum(len(key) + len(entry or b"") for key, entry in rows.items())
        if is_bounded:
            is_bounded = context.check_room(transaction, handle.tenant_id, needed) is not None
        else:
            check_free(needed, limits=context.limits, places=(context.catalog,))
    stage.record(transaction)
    writer = written(handle, head)
    sequence = transaction.advance_sequence(
        head.namespace_id, more=more, writer=writer, unfolded=unfolded
    )
    if unfolded:
        note_added(context, head.namespace_id, head.unfolded, unfolded)
    transaction.put_pending(head.namespace_id, plane, rows.items(), sequence=sequence)
    return Written(head, is_bounded, None, transaction.era).after(
        sequence=sequence, more=more, writer=writer, unfolded=unfolded, commit=transaction.commit
    )


def _changes(
    view: View, compute: Compute, held: Size | None
) -> tuple[Rows, Mapping[bytes, bytes], Size]:
    """Returns what is to be written, what is there of it, and how much there is more then."""
    rows = compute(view)
    old = view.get_many(list(rows)) if rows else {}
    return rows, old, _growth(old, rows, held) if rows else Size()


def _growth(old: Mapping[bytes, bytes], rows: Rows, held: Size | None) -> Size:
    gone = [decode_entry(entry).size for entry in old.values()]
    if held is None:
        new = [decode_entry(entry).size for entry in rows.values() if entry is not None]
        held = Size(len(new), sum(new))
    return Size(held.entries - len(gone), held.bytes - sum(gone))
