"""What of a trace operators see: what happened, to what, when and by whom, and no content.

An operator's key opens no agent's data, and a trace repeats some of it: why a state was changed,
what a memory is tagged with, whatever an agent adds in a trace of its own. So details are shown to
operators by name (`actions.without_content`), and no roots: who knows nearly all of what a
snapshot holds could try out the rest. The chain holds all the same: a trace that was withheld from
is told as one of which that was taken out, by its hash.
"""

from typing import Any

import msgspec

from holdfast.catalog.hashing import REDACTED, redacted, without_roots
from holdfast.engine.journal.actions import without_content
from holdfast.model.traces import TraceInfo, TraceKind, TraceRow


def for_operators(trace: TraceInfo) -> TraceInfo:
    """Returns a trace without what repeats an agent's content."""
    told = without_content(trace.action, trace.resource_type, trace.details)
    return trace if told == trace.details else msgspec.structs.replace(trace, details=told)


def row_for_operators(row: TraceRow) -> TraceRow:
    """Returns a row of the chain without roots, and redacted if it repeats an agent's content."""
    row = without_roots(row)
    if row.details.startswith(REDACTED) or row.kind == TraceKind.ANCHOR.value:
        return row  # An anchor says numbers and hashes, and a file without them proves less.
    try:
        details = msgspec.json.decode(row.details, type=dict[str, Any])
    except msgspec.DecodeError:
        details = {"": None}  # Somebody was at it: its hash says so, and it is not for showing.
    if without_content(row.action, row.resource_type, details) == details:
        return row
    return redacted(row)
