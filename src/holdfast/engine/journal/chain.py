"""The chains of a tenant's traces: how a trace is hashed, and how the next one is appended.

Each namespace has a chain of its own, and so has the tenant. A trace holds the hash of the one
before it, and its own over that and all that it says. To change, remove, insert or move one is to
break the chain there, or to make all that follows anew. `docs/format.md` has the bytes; whether a
chain is whole is found out in `audit/chains.py`, how they belong together is in `anchors.py`.

Details are hashed first, with random bytes before them, and their hash stands for them: they can
be taken out, where a law asks for it, and the chain still holds. So it is with the ids that say who
did what to what, with the version of a session and the turn that a trace made, and with the roots
of snapshots.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from holdfast.behalf import REQUEST, VIA
from holdfast.catalog.hashing import (
    FORMAT,
    REDACTED,
    WITH_ROOTS,
    hash_in_parts,
    hash_of,
    hash_of_made,
    join_roots,
)
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.journal.events import tell
from holdfast.engine.journal.occurrences import Details, events_of
from holdfast.errors import Damaged, InvalidValue
from holdfast.ids import NamespaceId, TenantId, TraceId, instant_of_trace
from holdfast.instants import to_us
from holdfast.model.basics import Head
from holdfast.model.traces import NO_HASH, OWN, Trace, TraceEnd, TraceKind, TraceRow
from holdfast.running import Door

_NO_DETAILS: Final = "{}"

REQUEST_ID: Final = "request_id"
"""Where the details of a trace say which request it was done by, if it was one of a server's."""

DONE_VIA: Final = "via"
"""Where they say through what a person did it: `console`."""

_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder(dict[str, Any]).decode


def new_id(context: Context, now: datetime) -> TraceId:
    """Returns an id for a trace that will be appended, for rows that name it."""
    return context.ids.trace(to_us(now))


def append(
    transaction: Transaction,
    context: Context,
    of: Head | TenantId,
    trace: Trace,
    *,
    door: Door | None = None,
    trace_id: TraceId | None = None,
    told: Details | None = None,
    each: Mapping[str, Details] | None = None,
    kind: TraceKind = TraceKind.DONE,
    stream: int | None = None,
) -> TraceId:
    """Tells what is being done, in the transaction that does it; returns the trace's id.

    `of` says to what it is done: a namespace, or the tenant alone; it is told in that one's chain,
    unless `stream` says another. With a `trace_id` of `new_id`, it happened at that one's instant.
    Whoever works through a `door` passes it: the trace names the task that this is done in, which
    is hashed with it and can never be added later. Where somebody listens it becomes an event, too;
    `told` is what that says beyond the trace, and `each` what it says of one of several things that
    it is done to, by its id.

    What is done to the tenant is told last: others who do something to it wait from here on until
    the transaction ends, and one that waited for them in turn would wait for ever.
    """
    tenant_id = of.tenant_id if isinstance(of, Head) else of
    if stream is None:
        stream = of.namespace_id if isinstance(of, Head) else OWN
    end = transaction.lock_end(tenant_id, stream)
    trace_id = trace_id or new_id(context, context.clock())
    row = row_after(end, context, of, trace, door=door, trace_id=trace_id, kind=kind, stream=stream)
    transaction.add_trace(row)
    if kind is not TraceKind.ANCHOR:
        is_own = kind is TraceKind.ADDED
        tell(
            transaction,
            context,
            of,
            lambda: events_of(trace, trace_id=trace_id, is_own=is_own, more=told, each=each),
        )
    return trace_id


def end_of(head: Head) -> TraceEnd:
    """Returns where the chain of a namespace ended when its head was read."""
    return TraceEnd(head.journal_number, head.journal_hash or NO_HASH)


def row_after(
    end: TraceEnd,
    context: Context,
    of: Head | TenantId,
    trace: Trace,
    *,
    trace_id: TraceId,
    stream: int,
    door: Door | None = None,
    kind: TraceKind = TraceKind.DONE,
    version: bytes | None = None,
    turn: bytes | None = None,
    gone: NamespaceId | None = None,
) -> TraceRow:
    """Returns the row of the trace that follows on the end of a chain.

    It belongs to the task that the trace names, else to the innermost that is open at the `door`.
    `version` and `turn` are the hashes of what it made, `gone` the namespace that it is about where
    there is no head of it any more.
    """
    tenant_id: TenantId
    namespace_id: NamespaceId | None
    if isinstance(of, Head):
        tenant_id, namespace_id = of.tenant_id, of.namespace_id
    else:
        tenant_id, namespace_id = of, gone
    task_id = trace.task_id
    if task_id is None and door is not None and (within := door.within()):
        task_id = within[-1]
    details, request_id = _NO_DETAILS, REQUEST.get()
    if request_id is not None and kind is TraceKind.DONE:
        told = {**trace.details, REQUEST_ID: request_id}
        if (via := VIA.get()) is not None:
            told[DONE_VIA] = via
        details = _to_json(told).decode()
    elif trace.details:
        details = _to_json(trace.details).decode()
    header = (
        WITH_ROOTS if trace.roots else FORMAT,
        end.hash,
        tenant_id,
        stream,
        end.number + 1,
        kind.value,
        trace_id,
        namespace_id,
        trace.session_id,
        trace.user_id,
        trace.agent_id,
        trace.action,
        trace.resource_type,
        trace.resource_id,
        trace.version,
        task_id,
        trace.actor or context.actor,
        _instant(trace_id),
    )
    salt = context.ids.salt()
    roots = join_roots(trace.roots, context.ids.salt()) if trace.roots else None
    digest = hash_in_parts(header, details, salt, hash_of_made(version, turn, roots))
    return TraceRow(*header, details, salt, digest, version, turn, roots)


def is_whole(row: TraceRow) -> bool:
    """Says whether a trace is what was hashed when it was written."""
    try:
        return hash_of(row) == row.hash
    except (AttributeError, ValueError, TypeError, OverflowError, msgspec.MsgspecError):
        # Of details that are said to be redacted and are not, or of a row that says what none does.
        return False


def details_of(row: TraceRow) -> dict[str, Any]:
    """Returns what a trace says beyond its fields; nothing once that is redacted.

    Raises `Damaged`.
    """
    if row.details.startswith(REDACTED):
        return {}
    try:
        return _from_json(row.details)
    except (msgspec.DecodeError, UnicodeEncodeError) as exc:
        message = f"trace {row.number} cannot be read: {exc}"
        raise Damaged(message) from exc


def _instant(trace_id: TraceId) -> int:
    instant = instant_of_trace(trace_id)
    if instant is None:
        message = f"{trace_id!r} is not the id of a trace"
        raise InvalidValue(message)
    return instant
