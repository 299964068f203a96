"""Traces as StateBase's clients speak of them: by two names each, and always with content."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final, cast

import msgspec

from holdfast.model.marks import Instant, Shape
from holdfast.model.traces import TraceInfo
from holdfast.operations.operation import Operation
from holdfast.operations.traces import GetTrace, ListTraces, ListWorkspaceTraces
from holdfast.server.dialects import Answered, Dialect, Exchange, Speech, always

LISTED_OF_SESSION: Final = 50


class TraceContext(msgspec.Struct, kw_only=True):
    """Where a trace came from."""

    request_id: str | None
    api_key_id: str | None


def _context(trace: Any) -> TraceContext:  # noqa: ANN401 - as it is sent
    is_key = (trace.actor or "").startswith("key-")
    return TraceContext(request_id=trace.request_id, api_key_id=trace.actor if is_key else None)


def _metadata(trace: Any) -> dict[str, Any]:  # noqa: ANN401 - as it is sent
    about = trace.details.get("metadata")
    return cast("dict[str, Any]", about) if isinstance(about, dict) else {}


VALUES: Final[Mapping[type, Mapping[str, Answered]]] = {
    TraceInfo: {
        "object": always("trace"),
        "actor_id": Answered(str | None, attrgetter("actor")),
        "timestamp": Answered(Instant, attrgetter("created_at")),
        "metadata": Answered(dict[str, Any], _metadata),
        "context": Answered(TraceContext, _context),
        "ip_address": Answered(str | None, lambda _: None),
    }
}
TRACE: Final[Shape] = Dialect(VALUES).shape_of(TraceInfo)
"""How a trace is told where it stands in answers about something else."""


def _hear_times(exchange: Exchange) -> None:
    said = exchange.said
    said["created_after"] = said.get("created_after") or said.get("start_time") or None
    said["created_before"] = said.get("created_before") or said.get("end_time") or None


_TAKES: Final = {"start_time": str, "end_time": str}
_TELLS: Final = {"object": always("list")}
_USUAL: Final = {"with_content": True}

OPERATIONS: Final[Mapping[type[Operation[Any]], list[Speech]]] = {
    ListTraces: [
        Speech(takes=_TAKES, usual=_USUAL, hears=_hear_times, tells=_TELLS),
        Speech(
            paths=["/v1/traces/sessions/{session_id}/traces", "/v1/sessions/{session_id}/traces"],
            name="list_traces_of_session",
            takes=_TAKES,
            usual=_USUAL | {"limit": LISTED_OF_SESSION},
            hears=_hear_times,
            tells=_TELLS,
        ),
    ],
    GetTrace: [Speech(usual=_USUAL)],
    ListWorkspaceTraces: [Speech(takes=_TAKES, hears=_hear_times, tells=_TELLS)],
}
