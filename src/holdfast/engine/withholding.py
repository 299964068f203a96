"""What of a trace operators see: what happened, to what, when and by whom, and no content.

An operator's key opens no agent's data, and a trace repeats some of it: why a state was changed,
what a memory is tagged with, whatever an agent adds in a trace of its own. So details are shown to
operators by name, those that are names, numbers and ids; what is new is withheld until somebody
puts it here. The chain holds all the same: a trace that was withheld from is told as one whose
details were redacted, by their hash.
"""

from typing import Any, Final

import msgspec

from holdfast.engine.actions import ACTIONS
from holdfast.engine.chain import REDACTED, redacted
from holdfast.model_traces import TraceInfo, TraceKind, TraceRow

_OPERATORS: Final = frozenset({"key", "webhook", "tenant"})
"""What operators make themselves: all that a trace says of it is theirs."""

_SHOWN: Final = frozenset(
    {
        *("version", "from_version", "to_version", "turn_number", "turn_count", "memory_count"),
        *("target", "safety", "planes", "forked_from", "merged", "snapshots", "sessions"),
        *("label", "labels", "name", "before", "after", "cadence", "amount", "expires_at"),
        *("source_session", "fork_version", "agent_id", "user_id", "entity_type", "entity_id"),
        *("ttl_seconds", "expired_at", "last_activity", "type", "embedded", "content_changed"),
        *("count", "recovered", "quota_bytes", "keep_last", "keep_daily", "keep_weekly"),
    }
)

_OURS: Final = frozenset(ACTIONS)


def for_operators(trace: TraceInfo) -> TraceInfo:
    """Returns a trace without what repeats an agent's content."""
    told = _told(trace.action, trace.resource_type, trace.details)
    return trace if told == trace.details else msgspec.structs.replace(trace, details=told)


def row_for_operators(row: TraceRow) -> TraceRow:
    """Returns a row of the chain, its details redacted if they repeat an agent's content."""
    if row.details.startswith(REDACTED) or row.kind == TraceKind.ANCHOR.value:
        return row  # An anchor says numbers and hashes, and a file without them proves less.
    try:
        details = msgspec.json.decode(row.details, type=dict[str, Any])
    except msgspec.DecodeError:
        details = {"": None}  # Somebody was at it: its hash says so, and it is not for showing.
    if _told(row.action, row.resource_type, details) == details:
        return row
    return msgspec.structs.replace(row, details=redacted(row), salt=None)


def _told(action: str, resource_type: str | None, details: dict[str, Any]) -> dict[str, Any]:
    if action not in _OURS:
        return {}
    if resource_type in _OPERATORS:
        return details
    return {name: value for name, value in details.items() if name in _SHOWN}
