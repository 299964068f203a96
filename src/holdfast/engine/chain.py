"""The chains of a tenant's traces: how a trace is hashed, and how the next one is appended.

Each namespace has a chain of its own, and so has the tenant. A trace holds the hash of the one
before it, and its own over that and all that it says. To change, remove, insert or move one is to
break the chain there, or to make all that follows anew. `docs/format.md` has the bytes; whether a
chain is whole is found out in `audit.py`, how they belong together is in `anchors.py`.

Details are hashed first, with random bytes before them, and their hash stands for them: they can
be taken out, where a law asks for it, and the chain still holds.
"""

from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

import msgspec
from blake3 import blake3

from holdfast.catalog.transaction import Transaction
from holdfast.engine.context import Context
from holdfast.engine.events import events_of, tell
from holdfast.errors import InvalidValue
from holdfast.ids import NamespaceId, TenantId, TraceId, instant_of_trace
from holdfast.instants import to_us
from holdfast.model import Head
from holdfast.model_traces import NO_HASH, OWN, Trace, TraceEnd, TraceKind, TraceRow

REDACTED: Final = "redacted:"
"""What stands before the hash of details that were taken out. No JSON object begins so."""

FORMAT: Final = 1
"""How traces are hashed that are appended now. Format 0 is that of the one chain that a tenant had
before: `_IN_FORMAT_0` without salt."""

_HASHED: Final = TraceRow.__struct_fields__.index("details")
"""How many fields of a row are hashed as they are: those before its details."""

_IN_FORMAT_0: Final = attrgetter(
    *("previous", "tenant_id", "number", "id", "namespace_id", "session_id", "user_id", "agent_id"),
    *("action", "resource_type", "resource_id", "actor", "created_us"),
)
_NO_DATA: Final = None
"""Where the hash of further content will stand."""

_NO_DETAILS: Final = "{}"

_encode = msgspec.msgpack.Encoder().encode
_to_json = msgspec.json.Encoder().encode


def new_id(context: Context, now: datetime) -> TraceId:
    """Returns an id for a trace that will be appended, for rows that name it."""
    return context.ids.trace(to_us(now))


def append(
    transaction: Transaction,
    context: Context,
    of: Head | TenantId,
    trace: Trace,
    *,
    trace_id: TraceId | None = None,
    told: Mapping[str, Any] | None = None,
    kind: TraceKind = TraceKind.DONE,
    stream: int | None = None,
) -> TraceId:
    """Tells what is being done, in the transaction that does it; returns the trace's id.

    `of` says to what it is done: a namespace, or the tenant alone; it is told in that one's chain,
    unless `stream` says another. With a `trace_id` of `new_id`, it happened at that one's instant.
    Where somebody listens it becomes an event, too; `told` is what that says beyond the trace.

    What is done to the tenant is told last: others who do something to it wait from here on until
    the transaction ends, and one that waited for them in turn would wait for ever.
    """
    tenant_id = of.tenant_id if isinstance(of, Head) else of
    if stream is None:
        stream = of.namespace_id if isinstance(of, Head) else OWN
    end = transaction.lock_end(tenant_id, stream)
    trace_id = trace_id or new_id(context, context.clock())
    row = row_after(end, context, of, trace, trace_id=trace_id, kind=kind, stream=stream)
    transaction.add_trace(row)
    if kind is not TraceKind.ANCHOR:
        announce(transaction, context, of, trace, trace_id=trace_id, told=told, kind=kind)
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
    kind: TraceKind = TraceKind.DONE,
) -> TraceRow:
    """Returns the row of the trace that follows on the end of a chain."""
    tenant_id: TenantId
    namespace_id: NamespaceId | None
    if isinstance(of, Head):
        tenant_id, namespace_id = of.tenant_id, of.namespace_id
    else:
        tenant_id, namespace_id = of, None
    details = _to_json(trace.details).decode() if trace.details else _NO_DETAILS
    hashed = (
        FORMAT,
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
        trace.task_id,
        trace.actor or context.actor,
        _instant(trace_id),
    )
    salt = context.ids.salt()
    return TraceRow(*hashed, details, salt, _hash((*hashed, _digest(details, salt), _NO_DATA)))


def announce(
    transaction: Transaction,
    context: Context,
    of: Head | TenantId,
    trace: Trace,
    *,
    trace_id: TraceId,
    told: Mapping[str, Any] | None = None,
    kind: TraceKind = TraceKind.DONE,
) -> None:
    """Tells of a trace as an event, where somebody listens."""
    is_own = kind is TraceKind.ADDED
    events = events_of(trace, trace_id=trace_id, is_own=is_own, more=told)
    tell(transaction, context, of, events)


def hash_of(row: TraceRow) -> bytes:
    """Returns the hash that a trace has to have; raises `ValueError` for what no trace says."""
    if row.format == FORMAT:
        hashed = msgspec.structs.astuple(row)[:_HASHED]
        return _hash((*hashed, _digest(row.details, row.salt), _NO_DATA))
    if row.format == 0:
        return _hash((*_IN_FORMAT_0(row), _digest(row.details, None)))
    message = f"a trace of format {row.format}"
    raise ValueError(message)


def is_whole(row: TraceRow) -> bool:
    """Says whether a trace is what was hashed when it was written."""
    try:
        return hash_of(row) == row.hash
    except (ValueError, TypeError, OverflowError, msgspec.MsgspecError):
        # Of details that are said to be redacted and are not, or of a row that says what none does.
        return False


def redacted(row: TraceRow) -> str:
    """Returns what stands for details that are taken out."""
    return f"{REDACTED}{_digest(row.details, row.salt).hex()}"


def _instant(trace_id: TraceId) -> int:
    instant = instant_of_trace(trace_id)
    if instant is None:
        message = f"{trace_id!r} is not the id of a trace"
        raise InvalidValue(message)
    return instant


def _hash(hashed: tuple[Any, ...]) -> bytes:
    return blake3(_encode(hashed)).digest()


def _digest(details: str, salt: bytes | None) -> bytes:
    if details.startswith(REDACTED):
        return bytes.fromhex(details.removeprefix(REDACTED))
    return blake3((salt or b"") + details.encode()).digest()
