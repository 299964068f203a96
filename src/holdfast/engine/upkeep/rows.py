"""Puts right rows of the catalog that are not what was written, and names what is lost by that.

A flipped bit is put back: a checksum says which one it was. What is damaged beyond that is rebuilt
from what else knows it: what was told from the journal, a memory from the plane that a snapshot
holds, the limits of a tenant from the journal of what was done to it. The rest is let go of, so
that nobody is stuck with it, and is named; but for snapshots and namespaces, which stay as they
are, as evidence. Rows are read a page at a time, and written in a transaction for each page in
which something is damaged.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import msgspec

from holdfast.catalog.mending import DamagedRow, first_key, sealed_records
from holdfast.catalog.rows import EVENT, HEAD, MEMORY, SNAPSHOT, TELLING, TENANT
from holdfast.catalog.transaction import Transaction
from holdfast.engine.audit.soundness import find_size
from holdfast.engine.core.context import Context
from holdfast.engine.journal.chain import details_of, is_whole
from holdfast.engine.journal.events import tell
from holdfast.engine.journal.occurrences import events_of, says_the_same
from holdfast.engine.memory import plane as memoryplane
from holdfast.engine.pending.damage import let_go
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions.rebuilding import rebuild
from holdfast.errors import Damaged, PendingDamaged, VaultTooNew
from holdfast.ids import TenantId
from holdfast.model.basics import Head, Plane, Size
from holdfast.model.events import Occurrence
from holdfast.model.traces import Trace, TraceFilter, TraceKind, TraceRow
from holdfast.model.upkeep import Lost

_STAY: Final = (HEAD, SNAPSHOT)
_NEAR_US: Final = 1_000_000
"""What was told within this time of a damaged row may be what it told."""

_MOST: Final = 1000
_TRACE_ID: Final = re.compile(r"trace_[0-9a-f]{28}")


def mend_rows(context: Context, tenant_id: TenantId) -> tuple[int, list[Lost]]:
    """Puts right the rows that have a checksum; returns of how many a bit, and what is lost."""
    count, lost = 0, list[Lost]()
    for record in sealed_records():
        after: object = first_key(record)
        while after is not None:
            with context.catalog.read() as transaction:
                found, after = transaction.page_damaged_rows(record, tenant_id, after=after)
            if found:
                with context.catalog.write() as transaction:
                    left = [each for each in found if not transaction.mend_row(each)]
                    count += len(found) - len(left)
                    for each in left:
                        lost += _give_up(transaction, context, each)
    with context.catalog.write() as transaction:
        count += transaction.mend_event_end(tenant_id) + transaction.mend_stray_changes()
        count += transaction.mend_tenant_counts(tenant_id)
    return count, lost


def mend_head(transaction: Transaction, context: Context, head: Head) -> tuple[int, list[str]]:
    """Puts right what belongs to one namespace, whose head is locked and whose pending rows are.

    Returns in how many rows a flipped bit was put back, and what is lost.
    """
    count, tasks = transaction.mend_task_changes(head.namespace_id)
    lost = [f"what was changed in: {task}" for task in dict.fromkeys(tasks)]
    handle = Handle(context, head.tenant_id, head.name)
    lost += [f"{Plane.MEMORIES}: {name}" for name in _mend_memories(transaction, handle, head)]
    rebuilt, gone = rebuild(transaction, handle, head)
    transaction.mend_counts(head.namespace_id)
    transaction.mend_row_bytes(head.tenant_id, head.namespace_id)
    lost += [f"{Plane.SESSIONS}: {name}" for name in gone]
    return count + rebuilt + _mend_size(transaction, context, head), lost


def _mend_size(transaction: Transaction, context: Context, head: Head) -> int:
    """Counts anew how much a head holds; returns 1 if that was another number."""
    now = transaction.lock_head(head.namespace_id) or head
    size = find_size(context, transaction, now)
    if size is None or size == now.size:
        return 0
    more = Size(size.entries - now.size.entries, size.bytes - now.size.bytes)
    transaction.advance_head(
        now.namespace_id, now.sequence, more=more, writer=now.writer, unfolded=0
    )
    return 1


def _give_up(transaction: Transaction, context: Context, damaged: DamagedRow) -> Iterator[Lost]:
    """Does without a row that is damaged beyond one bit; yields what is lost by that."""
    lost = Lost(damaged.what, None, ("the catalog",))
    if damaged.record in _STAY:
        return
    if damaged.record is TENANT:
        if not _mend_tenant(transaction, damaged):
            yield lost
        return
    if damaged.record is EVENT:
        transaction.blank_event(damaged)
    else:
        transaction.drop_row(damaged)
    if damaged.record is TELLING:
        if not _tell_again(transaction, context, damaged):
            yield lost
    elif damaged.record is MEMORY:
        transaction.index_words_anew()
        # Whether it is lost, the plane of its namespace says.
    else:
        yield lost


# What was told


def _tell_again(transaction: Transaction, context: Context, damaged: DamagedRow) -> bool:
    """Tells anew what a damaged row told, as the journal knows it; says whether it was found."""
    is_leftover = False
    for row in _traces_of(transaction, damaged):
        if row.kind not in (TraceKind.DONE.value, TraceKind.ADDED.value) or not is_whole(row):
            continue
        namespace_id = row.namespace_id
        head = None if namespace_id is None else transaction.find_head_by_id(namespace_id)
        trace = _trace_of(row)
        is_own = row.kind == TraceKind.ADDED.value
        known = _told_since(transaction, row)
        events = events_of(trace, trace_id=row.id, is_own=is_own)
        missing = [each for each in events if not any(says_the_same(each, data) for data in known)]
        tell(transaction, context, head or row.tenant_id, partial(list[Occurrence], missing))
        is_leftover = is_leftover or bool(missing)
    return is_leftover


def _traces_of(transaction: Transaction, damaged: DamagedRow) -> list[TraceRow]:
    """Returns the rows of the journal that may have told what a damaged row says."""
    values = dict(zip(damaged.record.columns, damaged.row, strict=True))
    named = _TRACE_ID.search(str(values["data"]))
    row = None if named is None else transaction.find_trace(damaged.whose, named[0])
    if row is not None:
        return [row]
    at = values["created_us"]
    wanted = TraceFilter(since_us=at - _NEAR_US, until=(at + _NEAR_US, 0, 0))
    return transaction.list_traces(damaged.whose, wanted, most=_MOST)


def _trace_of(row: TraceRow) -> Trace:
    return Trace(
        action=row.action,
        session_id=row.session_id,
        user_id=row.user_id,
        agent_id=row.agent_id,
        resource_type=row.resource_type,
        resource_id=row.resource_id,
        version=row.version,
        task_id=row.task_id,
        actor=row.actor,
        details=details_of(row),
    )


def _told_since(transaction: Transaction, row: TraceRow) -> list[dict[str, Any]]:
    """Returns what was told of a trace already, numbered or not."""
    waiting = transaction.list_unnumbered(row.tenant_id, most=_MOST)
    told = [each for _, found in waiting for each in found.sound]
    events = transaction.events_since(row.tenant_id, since_us=row.created_us - 1, most=_MOST)
    texts = [each.data for each in (*told, *events) if row.id in each.data]
    return [msgspec.json.decode(text, type=dict[str, Any]) for text in texts]


# What a tenant is


def _mend_tenant(transaction: Transaction, damaged: DamagedRow) -> bool:
    """Rebuilds the row of a tenant from what the journal says of it; says whether it does.

    Where it does not, what is there is taken for true: without it, nothing of the tenant is to be
    had at all.
    """
    wanted = TraceFilter(action="tenant.quota_set", resource_type="tenant")
    found = transaction.list_traces(damaged.whose, wanted, most=1)
    rows = [row for row in found if is_whole(row) and row.resource_id]
    public_id = rows[0].resource_id if rows else None
    quota_bytes = details_of(rows[0]).get("quota_bytes") if rows else None
    transaction.set_tenant(damaged, public_id=public_id, quota_bytes=quota_bytes)
    return bool(rows)


# What is remembered


def _mend_memories(transaction: Transaction, handle: Handle, head: Head) -> list[str]:
    """Brings memories back whose rows are gone, as the last snapshot has them.

    Returns the names of those that are lost, or were another since.
    """
    if memoryplane.is_lagging(transaction, head):
        return []
    source = handle.objects.bound(transaction)
    try:
        gone = memoryplane.without_rows(transaction, source, head)
    except (Damaged, VaultTooNew):
        return []  # Of a plane that lacks something, that is named.
    back = {key: entry for key, entry in gone.items() if entry is not None}
    if gone:
        now = handle.context.clock()
        memoryplane.bring_back(transaction, source, head.namespace_id, back, now=now)
        damaged = [PendingDamaged(Plane.MEMORIES, key=key) for key in gone]
        let_go(transaction, handle, head, damaged)
    return [key.decode("utf-8", "replace") for key in gone]
