"""`client.traces`, `client.tasks`, `client.schedules`: what happened, what asks for snapshots."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from holdfast.model.tasks import TaskRun
from holdfast.model.traces import TraceInfo
from holdfast.operations.schedules import (
    CreateSchedule,
    DeleteSchedule,
    GetSchedule,
    ListSchedules,
    UpdateSchedule,
)
from holdfast.operations.tasks import CompleteTask, FailTask, GetTask, ListTasks, StartTask
from holdfast.sdk.calls import (
    Call,
    F,
    Group,
    Page,
    Pages,
    Query,
    Sender,
    Steps,
    all_of,
    call,
    flow,
    method,
    page_of,
    pages,
)
from holdfast.sdk.reading import reads, sent, to_trace
from holdfast.wire.traces import TraceAnswer, TraceList, TraceRequest

PAGE: Final = 100

_trace = reads(TraceAnswer, to_trace)


class TracesReader(Group[F]):
    """What happened: in a namespace, or, for operators, in all of them."""

    _path: str = "/v1/traces"
    _place: Mapping[str, str] = {}

    @flow
    def list(
        self,
        *,
        session_id: str | None = None,
        action: str | None = None,
        actor: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        resource_type: str | None = None,
        resource_id: str | None = None,
        after: datetime | None = None,
        before: datetime | None = None,
        limit: int = 20,
        starting_after: str | None = None,
    ) -> Steps[list[TraceInfo]]:
        """Returns traces that match everything given, newest first.

        From `after` on, and before `before`. `starting_after` is the id of the last one that
        was seen: what comes after it in the list is older.
        """
        filters: Query = {
            "session_id": session_id,
            "action": action,
            "actor": actor,
            "user_id": user_id,
            "agent_id": agent_id,
            "resource_type": resource_type,
            "resource_id": resource_id,
            "created_after": sent(after),
            "created_before": sent(before),
        }
        return (yield from self._traces(filters, limit, starting_after).collect())

    @pages
    def iter(
        self, *, session_id: str | None = None, action: str | None = None, actor: str | None = None
    ) -> Pages[TraceInfo]:
        """Goes through all traces, newest first."""
        filters: Query = {"session_id": session_id, "action": action, "actor": actor}
        return self._traces(filters, None, None)

    @call
    def get(self, trace_id: str) -> Call[TraceInfo]:
        """Returns a trace by its id; raises `TraceNotFound`."""
        place = {**self._place, "trace_id": trace_id}
        return Call(method="GET", path=self._path + "/{trace_id}", place=place, read=_trace)

    def _traces(self, filters: Query, limit: int | None, after: str | None) -> Pages[TraceInfo]:
        def read(answer: TraceList) -> Page[TraceInfo]:
            found = [to_trace(each) for each in answer.data]
            return page_of(found, has_more=answer.has_more, cursor=lambda last: last.id)

        def ask(cursor: str | None, most: int) -> Call[Page[TraceInfo]]:
            return Call(
                method="GET",
                path=self._path,
                place=self._place,
                query={
                    **filters,
                    "limit": most,
                    "starting_after": cursor or after,
                },
                read=reads(TraceList, read),
            )

        return Pages(PAGE, ask, limit)


class WorkspaceTraces(TracesReader[F]):
    """What happened in all namespaces of a workspace, and to the workspace itself."""

    _path = "/v1/workspaces/{workspace_id}/traces"

    def __init__(self, sender: Sender, *, workspace_id: str) -> None:
        super().__init__(sender)
        self._place = {"workspace_id": workspace_id}


class Traces(TracesReader[F]):
    """What happened in a namespace."""

    @call
    def add(
        self,
        action: str,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        resource_type: str | None = None,
        resource_id: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> Call[TraceInfo]:
        """Adds a trace of your own to the chain."""
        body = TraceRequest(
            action=action,
            session_id=session_id,
            user_id=user_id,
            agent_id=agent_id,
            resource_type=resource_type,
            resource_id=resource_id,
            details=details,
        )
        return Call(method="POST", path="/v1/traces", body=body, read=_trace)


class TaskRuns(Group[F]):
    """Tasks that outlive a call: started by one process, completed or failed by another."""

    start = method(StartTask)
    complete = method(CompleteTask)
    fail = method(FailTask)
    get = method(GetTask)
    list = method(ListTasks)

    @pages
    def iter(self, *, status: str | None = None) -> Pages[TaskRun]:
        """Goes through all tasks, newest first."""
        return all_of(ListTasks(status=status))


class Schedules(Group[F]):
    """Snapshots that nobody has to ask for."""

    create = method(CreateSchedule)
    list = method(ListSchedules)
    get = method(GetSchedule)
    update = method(UpdateSchedule)
    delete = method(DeleteSchedule)
