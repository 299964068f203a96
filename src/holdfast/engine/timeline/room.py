"""Says whether a tenant's quota has room for the rows by which a timeline grows.

What goes back is let through, as what deletes is: with a full quota, too, somebody can undo, and
what was there before is kept. Its row counts like any other's.
The quota of a namespace, which is one of content, is set here as well.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from holdfast.catalog.counting import ROW_BYTES
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.limits import check_tenant
from holdfast.engine.journal.actions import trace_of_namespace
from holdfast.engine.journal.chain import append
from holdfast.engine.planes.handle import Handle
from holdfast.model.basics import Kind
from holdfast.operations.snapshots import Note

_BACK: Final = frozenset({Kind.SAFETY, Kind.RESTORE, Kind.UNDO, Kind.REDO})

_FEW_CHARS: Final = 256
"""What may be said of a way back, whatever the quota: more than any operation says by itself."""


class Growing(Protocol):
    """A snapshot to append."""

    @property
    def kind(self) -> Kind:
        """Why it stands on the timeline."""
        ...

    @property
    def note(self) -> Note:
        """What is said of it."""
        ...

    @property
    def is_bounded(self) -> bool:
        """False for one that is let through in any case."""
        ...


def are_bounded(marks: Iterable[Growing]) -> bool:
    """Says whether some snapshots are refused where the quota has no room for them."""
    return any(mark.is_bounded and _adds(mark.kind, mark.note) for mark in marks)


def _adds(kind: Kind, note: Note) -> bool:
    """Says whether a snapshot is more than a way back."""
    said = (note.label, note.reason, note.task_id, note.trace_id)
    is_long = sum(len(text) for text in said if text) > _FEW_CHARS
    return kind not in _BACK or bool(note.metadata) or is_long


def check_marks(
    transaction: Transaction,
    handle: Handle,
    marks: Sequence[Growing],
    joined: tuple[int, int | None] | None,
    *,
    text_bytes: int,
) -> None:
    """Raises `QuotaExceeded` if some snapshots do not fit that are to.

    `joined` has the quota behind the epoch, where that was asked for already.
    """
    if are_bounded(marks):
        quota = joined[1] if joined else transaction.get_tenant_quota(handle.tenant_id)
        needed = len(marks) * ROW_BYTES + text_bytes
        check_tenant(transaction, handle.tenant_id, needed_bytes=needed, quota=quota)


def check_rows(
    transaction: Transaction, handle: Handle, *, rows: int = 1, text_bytes: int = 0
) -> None:
    """Raises `QuotaExceeded` or `StorageFull` if so many rows with such texts do not fit."""
    handle.context.check_room(transaction, handle.tenant_id, rows * ROW_BYTES + text_bytes)


def set_quota(handle: Handle, quota_bytes: int | None) -> None:
    """Limits how many content bytes the head of a namespace may hold."""
    handle.context.check_takes_away("set a quota")
    with handle.context.work() as transaction:
        head = handle.lock_or_create(transaction)
        transaction.set_namespace_quota(head.namespace_id, quota_bytes)
        told = trace_of_namespace("namespace.quota_set", head.name, quota_bytes=quota_bytes)
        append(transaction, handle.context, head, told, door=handle.door)
