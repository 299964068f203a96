"""Tasks: a snapshot when an agent has finished something, without anything else being asked."""

from dataclasses import KW_ONLY
from typing import Any, Final

from holdfast.errors import TaskNotFound
from holdfast.model.tasks import TaskRun
from holdfast.operations.operation import Operation, Paged

_ONE: Final = "/v1/tasks/{task_id}"


class StartTask(Operation[TaskRun], post="/v1/tasks", status=201):
    """Begins a task; what is there now is kept."""

    name: str
    _: KW_ONLY
    rollback_on_failure: bool = False
    metadata: dict[str, Any] | None = None


class ListTasks(
    Operation[list[TaskRun]],
    get="/v1/tasks",
    under="tasks",
    paged=Paged("starting_after", "id", usual=20, most=100, unknown=(TaskNotFound,)),
):
    """Returns tasks, newest first; `starting_after` is the id of the last one seen."""

    _: KW_ONLY
    status: str | None = None
    limit: int = 20
    starting_after: str | None = None


class GetTask(Operation[TaskRun], get=_ONE):
    """Returns a task; raises `TaskNotFound`."""

    task_id: str


class CompleteTask(Operation[TaskRun], post=f"{_ONE}/complete", needs_body=False):
    """Ends a task well: takes a snapshot that bears its name. Said again, it changes nothing."""

    task_id: str
    _: KW_ONLY
    reason: str | None = None


class FailTask(Operation[TaskRun], post=f"{_ONE}/fail", needs_body=False):
    """Ends a task that went wrong: keeps the attempt, and goes back if that is wanted.

    Said again, it finishes what a crash has left half done.
    """

    task_id: str
    _: KW_ONLY
    error: str | None = None
    rollback: bool | None = None
