"""Says where the journal and what it tells of do not agree.

Each chain is followed to its end: no row of it was changed, and none is missing. Every snapshot on
a timeline was told, with the root that it has, and so was how far every task is. A head stands on
a snapshot that shows what its base root holds, and counts what it holds. All of it is read a page
at a time.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from holdfast.catalog.hashing import REDACTED
from holdfast.catalog.transaction import Transaction
from holdfast.engine.audit.chains import Check, iter_rows, streams_in
from holdfast.engine.audit.notes import fault_of
from holdfast.engine.core.context import Context
from holdfast.engine.journal.actions import is_mark
from holdfast.engine.journal.chain import details_of, is_whole
from holdfast.engine.journal.roots import roots_in
from holdfast.engine.objects.reader import Objects
from holdfast.engine.pending.damage import count
from holdfast.errors import Damaged
from holdfast.ids import ObjectId, TenantId
from holdfast.model.basics import Head, Size
from holdfast.model.tasks import TaskStatus
from holdfast.model.traces import TraceKind, TraceRow

Defect = tuple[str, str]
"""What is not sound, and why."""

_PAGE: Final = 1000
_ENDS: Final = {
    "task.completed": TaskStatus.COMPLETED,
    "task.failed": TaskStatus.FAILED,
}


class _Told(msgspec.Struct):
    """What the journal says of one namespace."""

    snapshots: set[str] = msgspec.field(default_factory=set[str])
    roots: dict[str, ObjectId] = msgspec.field(default_factory=dict[str, ObjectId])
    """Those that snapshots were given; what is older than the telling of them has none."""
    tasks: dict[str, TaskStatus] = msgspec.field(default_factory=dict[str, TaskStatus])
    is_whole: bool = True
    """Whether nothing of that was redacted, or cannot be read."""


def find_journal_faults(
    context: Context, transaction: Transaction, tenant_id: TenantId
) -> Iterator[Defect]:
    """Yields what is wrong; raises `Damaged` where rows cannot be read at all."""
    for reason in transaction.find_miscounted_of(tenant_id):
        yield "rows of the tenant", reason
    if transaction.has_wrong_pack_sums(tenant_id):
        yield "rows of the tenant", "packs: they take something else than is counted"
    if transaction.has_wrong_event_end(tenant_id):
        yield "rows of the tenant", "events: they begin or end elsewhere than is said"
    told = dict[int, _Told]()
    check = Check(tenant_id, None)
    own, others = streams_in(transaction, tenant_id)
    for stream in (own, *others):
        check.begin(stream.id, stream.namespace, stream.sections)
        for row in iter_rows(transaction, tenant_id, stream.id):
            check.see(row)
            if row.namespace_id is not None:
                _note(told.setdefault(row.namespace_id, _Told()), row)
        check.finish(stream.end, newest=stream.newest)
    for problem in check.report().problems:
        fault = fault_of(problem)
        yield fault.what, fault.reason
    for head in transaction.iter_heads(tenant_id):
        yield from _find_in_head(context, transaction, head, told.get(head.namespace_id, _Told()))


def find_size(context: Context, transaction: Transaction, head: Head) -> Size | None:
    """Returns how much a head holds, by looking at all of it; None if that cannot be read."""
    if transaction.sort_pending(head.namespace_id)[1]:
        return None
    try:
        return count(transaction, Objects(context, head.tenant_id, transaction), head)
    except Damaged:
        return None  # What is damaged of it is named.


def _find_in_head(
    context: Context, transaction: Transaction, head: Head, told: _Told
) -> Iterator[Defect]:
    # Not with the one that it stands on: an undo gives sessions of that one a new term.
    newest = transaction.timeline(head.namespace_id, before=None, most=1)
    for snapshot in newest:
        if snapshot.number == head.generation and snapshot.root != head.root:
            yield f"head of {head.name}", f"it does not show what {snapshot.id} does, its newest"
    size = find_size(context, transaction, head)
    if size not in (None, head.size):
        yield f"head of {head.name}", f"it counts {head.size}, and holds {size}"
    for reason in transaction.find_miscounted(head.namespace_id):
        yield f"head of {head.name}", reason
    yield from _find_in_timeline(transaction, head, told)
    for task_id, status in told.tasks.items():
        task = transaction.find_task(head.namespace_id, task_id) if told.is_whole else None
        if task is not None and task.status is not status:
            yield f"task: {task_id}", f"it is {task.status}, and the journal says {status}"


def _find_in_timeline(transaction: Transaction, head: Head, told: _Told) -> Iterator[Defect]:
    before: int | None = None
    while page := transaction.timeline(head.namespace_id, before=before, most=_PAGE):
        for snapshot in page:
            if told.is_whole and snapshot.id not in told.snapshots:
                yield f"snapshot: {snapshot.id}", "the journal does not tell of it"
            if told.roots.get(snapshot.id, snapshot.root) != snapshot.root:
                yield f"snapshot: {snapshot.id}", "the journal says that it has another root"
        before = page[-1].number


def _note(told: _Told, row: TraceRow) -> None:
    # One that is not what was hashed is named already: it accuses no snapshot.
    if row.roots is not None and is_whole(row):
        told.roots |= roots_in(row)
    if row.kind != TraceKind.DONE.value:
        return  # What somebody only added says what they like.
    if (marks := is_mark(row)) and row.details.startswith(REDACTED):
        told.is_whole = False
    elif marks and row.resource_id is not None:
        try:
            details = details_of(row)
            told.snapshots |= {row.resource_id, str(details.get("safety"))}
            told.snapshots |= {*map(str, details.get("snapshots", ()))}
        except Damaged:
            told.is_whole = False  # Named already: it is not what was hashed.
    elif row.action == "task.started" and row.resource_id is not None:
        told.tasks.setdefault(row.resource_id, TaskStatus.RUNNING)
    elif row.action in _ENDS and row.resource_id is not None:
        told.tasks[row.resource_id] = _ENDS[row.action]
