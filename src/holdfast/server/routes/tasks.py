"""Tasks: a snapshot when an agent has finished something, without anything else being asked."""

from typing import Final

import msgspec

from holdfast.engine.namespace import Namespace
from holdfast.errors import TaskNotFound
from holdfast.model.tasks import TaskRun
from holdfast.server.paging import page_size, paged
from holdfast.server.routing import Route, get, post
from holdfast.server.times import shown, shown_or_none
from holdfast.wire.tasks import (
    TaskAnswer,
    TaskEndRequest,
    TaskFailureRequest,
    TaskList,
    TaskRequest,
)

LISTED, MOST_LISTED = 20, 100
_TASK: Final = "/v1/tasks/{task_id}"


@post("/v1/tasks", status=201)
def start(agent: Namespace, data: TaskRequest) -> TaskAnswer:
    """Starts a task; what is there now is kept."""
    task = agent.tasks.start(
        data.name, rollback_on_failure=bool(data.rollback_on_failure), metadata=data.metadata
    )
    return to_answer(agent, task)


@get("/v1/tasks")
def list_(
    agent: Namespace,
    status: str | None = None,
    limit: int | None = None,
    starting_after: str | None = None,
) -> TaskList:
    """Lists tasks, newest first."""

    def fetch(most: int) -> list[TaskRun]:
        return agent.tasks.list(status=status, limit=most, starting_after=starting_after or None)

    size = page_size(limit, usual=LISTED, most=MOST_LISTED)
    found, has_more = paged(fetch, size, cursor=starting_after, unknown=TaskNotFound)
    return TaskList(tasks=[to_answer(agent, task) for task in found], has_more=has_more)


@get(_TASK)
def show(agent: Namespace, task_id: str) -> TaskAnswer:
    """Returns a task."""
    return to_answer(agent, agent.tasks.get(task_id))


@post(f"{_TASK}/complete")
def complete(agent: Namespace, task_id: str, data: TaskEndRequest | None = None) -> TaskAnswer:
    """Ends a task well, and takes its snapshot; saying so twice changes nothing."""
    reason = None if data is None else data.reason
    return to_answer(agent, agent.tasks.complete(task_id, reason=reason))


@post(f"{_TASK}/fail")
def fail(agent: Namespace, task_id: str, data: TaskFailureRequest | None = None) -> TaskAnswer:
    """Ends a task that went wrong: keeps the attempt, and goes back if that is wanted."""
    said = data or TaskFailureRequest()
    return to_answer(agent, agent.tasks.fail(task_id, error=said.error, rollback=said.rollback))


def to_answer(agent: Namespace, task: TaskRun) -> TaskAnswer:
    """Returns a task as it stands on the wire."""
    return TaskAnswer(
        task_id=task.id,
        namespace=agent.name,
        name=task.name,
        status=task.status.value,
        rollback_on_failure=task.rolls_back,
        metadata=msgspec.json.decode(task.metadata),
        actor=task.actor,
        reason=task.reason,
        before_snapshot_id=task.before,
        snapshot_id=task.after,
        restored_snapshot_id=task.restored,
        started_at=shown(task.started_at),
        ended_at=shown_or_none(task.ended_at),
    )


ROUTES: Final[list[Route]] = [start, list_, show, complete, fail]
