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
from holdfast.sdk.calls import (
    Call,
    F,
    Group,
    Page,
    Pages,
    Query,
    Sender,
    Steps,
    call,
    flow,
    method,
    page_of,
    pages,
)
from holdfast.sdk.reading import reads, sent, to_task, to_trace
from holdfast.wire.tasks import (
    TaskAnswer,
    TaskEndRequest,
    TaskFailureRequest,
    TaskList,
    TaskRequest,
)
from holdfast.wire.traces import TraceAnswer, TraceList, TraceRequest

PAGE: Final = 100
_TASK: Final = "/v1/tasks/{task_id}"

_trace = reads(TraceAnswer, to_trace)
_task = reads(TaskAnswer, to_task)


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

    @call
    def start(
        self,
        name: str,
        *,
        rollback_on_failure: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> Call[TaskRun]:
        """Begins a task; what is there now is kept."""
        body = TaskRequest(name=name, rollback_on_failure=rollback_on_failure, metadata=metadata)
        return Call(method="POST", path="/v1/tasks", body=body, read=_task)

    @call
    def complete(self, task_id: str, *, reason: str | None = None) -> Call[TaskRun]:
        """Ends a task well: takes a snapshot that bears its name."""
        return _end("complete", task_id, TaskEndRequest(reason=reason))

    @call
    def fail(
        self, task_id: str, *, error: str | None = None, rollback: bool | None = None
    ) -> Call[TaskRun]:
        """Ends a task that went wrong: keeps the attempt, and goes back if that is wanted.

        Said again, it finishes what a crash has left half done.
        """
        return _end("fail", task_id, TaskFailureRequest(error=error, rollback=rollback))

    @call
    def get(self, task_id: str) -> Call[TaskRun]:
        """Returns a task; raises `TaskNotFound`."""
        return Call(method="GET", path=_TASK, place={"task_id": task_id}, read=_task)

    @flow
    def list(
        self, *, status: str | None = None, limit: int = 20, starting_after: str | None = None
    ) -> Steps[list[TaskRun]]:
        """Returns tasks, newest first; `starting_after` is the id of the last one seen."""
        return (yield from _tasks(status, limit, starting_after).collect())

    @pages
    def iter(self, *, status: str | None = None) -> Pages[TaskRun]:
        """Goes through all tasks, newest first."""
        return _tasks(status, None, None)


class Schedules(Group[F]):
    """Snapshots that nobody has to ask for."""

    create = method(CreateSchedule)
    list = method(ListSchedules)
    get = method(GetSchedule)
    update = method(UpdateSchedule)
    delete = method(DeleteSchedule)


def _end(how: str, task_id: str, body: object) -> Call[TaskRun]:
    place = {"task_id": task_id}
    return Call(method="POST", path=f"{_TASK}/{how}", place=place, body=body, read=_task)


def _tasks(status: str | None, limit: int | None, after: str | None) -> Pages[TaskRun]:
    def read(answer: TaskList) -> Page[TaskRun]:
        found = [to_task(each) for each in answer.tasks]
        return page_of(found, has_more=answer.has_more, cursor=lambda last: last.id)

    def ask(cursor: str | None, most: int) -> Call[Page[TaskRun]]:
        query = {
            "status": status,
            "limit": most,
            "starting_after": cursor or after,
        }
        return Call(method="GET", path="/v1/tasks", query=query, read=reads(TaskList, read))

    return Pages(PAGE, ask, limit)
