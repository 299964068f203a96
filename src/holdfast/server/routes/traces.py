"""What happened: one trace for everything that was done, newest first."""

from collections.abc import Callable
from typing import Annotated, Any, Final, cast

from holdfast.engine.audit.traces import Traces
from holdfast.engine.journal.actions import ACTIONS, normalise
from holdfast.engine.journal.withheld import for_operators
from holdfast.engine.namespace import Namespace
from holdfast.errors import InvalidValue
from holdfast.model.traces import TraceInfo
from holdfast.server.paging import page_size, paged
from holdfast.server.parameters import Made
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller
from holdfast.server.routing import Route, Who, get, post
from holdfast.server.times import parse_instant, shown
from holdfast.wire.traces import TraceAnswer, TraceContext, TraceList, TraceRequest

LISTED, MOST_LISTED = 20, 1000
LISTED_OF_SESSION: Final = 50
_WORKSPACE: Final = "/v1/workspaces/{workspace_id}"


def provide_filters(
    session_id: str | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    resource_type: str | None = None,
    resource_id: str | None = None,
    created_after: str | None = None,
    created_before: str | None = None,
    start_time: str | None = None,
    end_time: str | None = None,
    starting_after: str | None = None,
) -> dict[str, Any]:
    """Returns which traces are asked for."""
    after, before = created_after or start_time, created_before or end_time
    return {
        "session_id": session_id,
        "user_id": user_id,
        "agent_id": agent_id,
        "actor": actor,
        "action": action,
        "resource_type": resource_type,
        "resource_id": resource_id,
        "after": None if after is None else parse_instant("created_after", after),
        "before": None if before is None else parse_instant("created_before", before),
        "starting_after": starting_after,
    }


Filters = Annotated[dict[str, Any], Made(provide_filters)]


@get("/v1/traces")
def list_(agent: Namespace, filters: Filters, limit: int | None = None) -> TraceList:
    """Lists traces that match everything given, newest first."""
    size = page_size(limit, usual=LISTED, most=MOST_LISTED)
    return _listed(agent.traces, size, {**filters, "with_content": True})


@get(f"{_WORKSPACE}/traces", who=Who.OPERATOR)
def of_workspace(
    caller: Caller, workspace_id: str, filters: Filters, limit: int | None = None
) -> TraceList:
    """Lists traces of all namespaces, and of what happened to the workspace itself."""
    size = page_size(limit, usual=LISTED, most=MOST_LISTED)
    return _listed(caller.vault.traces, size, filters, for_operators)


@get(f"{_WORKSPACE}/traces/{{trace_id}}", who=Who.OPERATOR)
def show_to_operator(caller: Caller, workspace_id: str, trace_id: str) -> TraceAnswer:
    """Returns one trace of the workspace."""
    return to_answer(for_operators(caller.vault.traces.get(trace_id)))


@post("/v1/traces", status=201)
def add(agent: Namespace, data: TraceRequest) -> TraceAnswer:
    """Adds a trace of your own to the chain, of something that this server did not do itself."""
    if normalise(data.action) in ACTIONS:
        # Whoever could tell it would make the log say what never happened.
        message = f"{normalise(data.action)} is told by the server itself, when it happens"
        raise Unfit(message, param="action")
    made = agent.traces.add(
        data.action,
        session_id=data.session_id,
        user_id=data.user_id,
        agent_id=data.agent_id,
        resource_type=data.resource_type,
        resource_id=data.resource_id,
        details=data.details,
    )
    return to_answer(made)


@get("/v1/traces/{trace_id}")
def show(agent: Namespace, trace_id: str) -> TraceAnswer:
    """Returns one trace."""
    return to_answer(agent.traces.get(trace_id, with_content=True))


@get(
    [
        "/v1/traces/sessions/{session_id}/traces",
        "/v1/sessions/{session_id}/traces",
    ],
)
def of_session(
    agent: Namespace,
    session_id: str,
    action: str | None = None,
    limit: int | None = None,
    starting_after: str | None = None,
) -> TraceList:
    """Lists the traces of a session, newest first."""
    filters: dict[str, Any] = {
        "session_id": session_id,
        "action": action,
        "starting_after": starting_after,
    }
    size = page_size(limit, usual=LISTED_OF_SESSION, most=MOST_LISTED)
    return _listed(agent.traces, size, {**filters, "with_content": True})


def to_answer(trace: TraceInfo) -> TraceAnswer:
    """Returns a trace as it stands on the wire."""
    key_id = trace.actor if (trace.actor or "").startswith("key-") else None
    about = trace.details.get("metadata")
    return TraceAnswer(
        id=trace.id,
        number=trace.number,
        session_id=trace.session_id,
        user_id=trace.user_id,
        agent_id=trace.agent_id,
        namespace=trace.namespace,
        action=trace.action,
        resource_type=trace.resource_type,
        resource_id=trace.resource_id,
        actor=trace.actor,
        actor_id=trace.actor,
        timestamp=shown(trace.created_at),
        created_at=shown(trace.created_at),
        details=trace.details,
        metadata=cast("dict[str, Any]", about) if isinstance(about, dict) else {},
        context=TraceContext(request_id=trace.request_id, api_key_id=key_id),
        ip_address=None,
        is_redacted=trace.is_redacted,
        hash=trace.hash,
    )


def _listed(
    traces: Traces,
    size: int,
    filters: dict[str, Any],
    told: Callable[[TraceInfo], TraceInfo] = lambda trace: trace,
) -> TraceList:
    cursor = filters["starting_after"] = filters["starting_after"] or None

    def fetch(most: int) -> list[TraceInfo]:
        return traces.list(limit=most, **filters)

    found, has_more = paged(fetch, size, cursor=cursor, unknown=InvalidValue)
    return TraceList(data=[to_answer(told(trace)) for trace in found], has_more=has_more)


ROUTES: Final[list[Route]] = [
    list_,
    add,
    show,
    of_session,
    of_workspace,
    show_to_operator,
]
