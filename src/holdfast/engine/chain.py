"""The chain of a tenant's traces: how a trace is hashed, and how the next one is appended.

Each trace holds the hash of the one before it, and its own over that and all that it says. To
change, remove, insert or move one is to break the chain there, or to make all that follows anew.
`docs/format.md` has the bytes; whether a chain is whole is found out in `audit.py`.

Details are hashed first, and their hash stands for them: they can be taken out, where a law asks
for it, and the chain still holds.
"""

from collections.abc import Mapping
from datetime import datetime
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
from holdfast.model_traces import Trace, TraceEnd, TraceRow

REDACTED: Final = "redacted:"
"""What stands before the hash of details that were taken out. No JSON object begins so."""

_HASHED: Final = 13
"""How many fields of a row are hashed as they are: all but its details and the hash itself."""

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
    is_own: bool = False,
) -> TraceId:
    """Tells what is being done, in the transaction that does it; returns the trace's id.

    `of` says to what it is done: a namespace, or the tenant alone. With a `trace_id` of `new_id`,
    it happened at that one's instant. Where somebody listens it becomes an event, too; `told` is
    what that says beyond the trace. `is_own` says that somebody adds it who was only telling.

    To be called last: other writers of the tenant wait from here on until the transaction ends,
    and one that waited for them in turn would wait for ever. On SQLite it takes 24 µs at
    best, most of it for three statements.
    """
    tenant_id = of.tenant_id if isinstance(of, Head) else of
    end = transaction.lock_trace_end(tenant_id)
    trace_id = trace_id or new_id(context, context.clock())
    transaction.add_trace(row_after(end, context, of, trace, trace_id=trace_id))
    announce(transaction, context, of, trace, trace_id=trace_id, told=told, is_own=is_own)
    return trace_id


def row_after(
    end: TraceEnd, context: Context, of: Head | TenantId, trace: Trace, *, trace_id: TraceId
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
        end.hash,
        tenant_id,
        end.number + 1,
        trace_id,
        namespace_id,
        trace.session_id,
        trace.user_id,
        trace.agent_id,
        trace.action,
        trace.resource_type,
        trace.resource_id,
        trace.actor or context.actor,
        _instant(trace_id),
    )
    return TraceRow(*hashed, details, _hash(hashed, details))


def announce(
    transaction: Transaction,
    context: Context,
    of: Head | TenantId,
    trace: Trace,
    *,
    trace_id: TraceId,
    told: Mapping[str, Any] | None = None,
    is_own: bool = False,
) -> None:
    """Tells of a trace as an event, where somebody listens."""
    if context.announces:
        events = events_of(trace, trace_id=trace_id, is_own=is_own, more=told)
        tell(transaction, context, of, events)


def hash_of(row: TraceRow) -> bytes:
    """Returns the hash that a trace has to have; raises `ValueError` for details that are none."""
    return _hash(msgspec.structs.astuple(row)[:_HASHED], row.details)


def redacted(details: str) -> str:
    """Returns what stands for details that are taken out."""
    return f"{REDACTED}{_digest(details).hex()}"


def _instant(trace_id: TraceId) -> int:
    instant = instant_of_trace(trace_id)
    if instant is None:
        message = f"{trace_id!r} is not the id of a trace"
        raise InvalidValue(message)
    return instant


def _hash(hashed: tuple[Any, ...], details: str) -> bytes:
    return blake3(_encode((*hashed, _digest(details)))).digest()


def _digest(details: str) -> bytes:
    if details.startswith(REDACTED):
        return bytes.fromhex(details.removeprefix(REDACTED))
    return blake3(details.encode()).digest()
