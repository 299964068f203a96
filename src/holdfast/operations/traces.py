"""Traces: what happened, newest first, and a way to add to it."""

from dataclasses import KW_ONLY
from datetime import datetime
from typing import Annotated, Any, Final

from holdfast.errors import TraceNotFound
from holdfast.model.marks import Named
from holdfast.model.traces import TraceInfo
from holdfast.operations.operation import WORKSPACE, Arguments, Operation, Paged, Who

_ALL: Final = "/v1/traces"
_OF_WORKSPACE: Final = f"{WORKSPACE}/traces"
_PAGED: Final = Paged("starting_after", "id", usual=20, most=1000, unknown=(TraceNotFound,))


class TraceChoice(Arguments):
    """Which traces are asked for: those that match everything given."""

    _: KW_ONLY
    session_id: str | None = None
    action: str | None = None
    actor: str | None = None
    task_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    after: Annotated[datetime | None, Named("created_after")] = None
    before: Annotated[datetime | None, Named("created_before")] = None
    limit: int | None = 20
    starting_after: str | None = None


class ListTraces(TraceChoice, Operation[list[TraceInfo]], get=_ALL, under="data", paged=_PAGED):
    """Returns traces that match everything given, newest first.

    From `after` on, and before `before`. `starting_after` is the id of the last one that was
    seen: what comes after it in the list is older. With `with_content`, they say what of states,
    turns and memories they are about, as far as it is still there.
    """

    _: KW_ONLY
    with_content: bool = False


class GetTrace(Operation[TraceInfo], get=f"{_ALL}/{{trace_id}}"):
    """Returns a trace by its id; raises `TraceNotFound`."""

    trace_id: str
    _: KW_ONLY
    with_content: bool = False


class AddTrace(Operation[TraceInfo], post=_ALL, status=201):
    """Adds a trace of your own to the chain, of something that is not told by itself."""

    action: str
    _: KW_ONLY
    session_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    details: dict[str, Any] | None = None


class ListWorkspaceTraces(
    TraceChoice,
    Operation[list[TraceInfo]],
    get=_OF_WORKSPACE,
    who=Who.OPERATOR,
    under="data",
    paged=_PAGED,
):
    """Returns traces of all namespaces, and of what happened to the workspace itself.

    Those that match everything given, newest first, as in a namespace.
    """


class GetWorkspaceTrace(
    Operation[TraceInfo], get=f"{_OF_WORKSPACE}/{{trace_id}}", who=Who.OPERATOR
):
    """Returns a trace of the workspace by its id; raises `TraceNotFound`."""

    trace_id: str
