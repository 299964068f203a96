"""Which roots snapshots have, as the journal tells it.

The trace of whatever appends snapshots names their roots, in a part of its own that is hashed
apart: who verifies compares them. A root is a hash of all that it holds, and who knows the rest
could try out what was erased of it. So an erasure takes the roots out of all rows that there are,
and tells those of the snapshots that stay anew.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec

from holdfast.catalog.hashing import split_roots, without_roots
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.journal.chain import details_of, new_id, row_after
from holdfast.errors import Damaged
from holdfast.ids import ObjectId
from holdfast.model.basics import Head, SnapshotInfo
from holdfast.model.traces import Trace, TraceKind, TraceRow

ACTION: Final = "roots.kept"

_MOST: Final = 1000
"""Roots in one row, and rows that are read at once."""


class Named(msgspec.Struct):
    """The snapshots that the details of a trace name."""

    snapshots: list[str] | None = None
    safety: str | None = None


N = TypeVar("N", bound=Named)


def named_in(row: TraceRow, kind: type[N]) -> N:
    """Returns what a trace names; raises `Damaged`."""
    try:
        return msgspec.convert(details_of(row), kind)
    except msgspec.ValidationError as exc:
        message = f"trace {row.number} cannot be read: {exc}"
        raise Damaged(message) from exc


def roots_in(row: TraceRow) -> dict[str, ObjectId]:
    """Returns the roots that a trace names, by their snapshots; raises `Damaged`.

    None that were taken out, or of which nobody knows any more whose they are.
    """
    told = named_in(row, Named)
    ids = [row.resource_id, told.safety] if told.snapshots is None else told.snapshots
    named = zip(ids, split_roots(row.roots), strict=False)
    return {of: ObjectId(root) for of, root in named if of is not None}


def tell_anew(
    transaction: Transaction, context: Context, head: Head, snapshots: Sequence[SnapshotInfo]
) -> None:
    """Takes all roots out of the chain of a namespace, and tells those that its snapshots have.

    Its head is locked.
    """
    _take_out(transaction, head)
    for at in range(0, len(snapshots), _MOST):
        some = snapshots[at : at + _MOST]
        trace = Trace(
            action=ACTION,
            resource_type="namespace",
            details={"snapshots": [each.id for each in some]},
            roots=tuple(each.root for each in some),
        )
        row = row_after(
            transaction.lock_end(head.tenant_id, head.namespace_id),
            context,
            head,
            trace,
            trace_id=new_id(context, context.clock()),
            stream=head.namespace_id,
            kind=TraceKind.KEPT,
        )
        transaction.add_trace(row)


def _take_out(transaction: Transaction, head: Head) -> None:
    after, stream = 0, head.namespace_id
    while rows := transaction.page_traces(head.tenant_id, after=after, most=_MOST, stream=stream):
        for row in rows:
            if (without := without_roots(row)) != row:
                transaction.redact_trace(row, without)
        after = rows[-1].number
