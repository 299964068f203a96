"""Snapshots that nobody asks for: when an agent has finished a task, and by schedules."""

from dataclasses import KW_ONLY
from typing import Any, Final

from holdfast.errors import InvalidValue, TaskNotFound
from holdfast.model.basics import SnapshotLike
from holdfast.model.tasks import Schedule, TaskRun
from holdfast.operations.choices import Period
from holdfast.operations.operation import Operation, Paged

_ONE: Final = "/v1/tasks/{task_id}"


class StartTask(Operation[TaskRun], post="/v1/tasks", status=201):
    """Begins a task; what is there now is kept."""

    name: str
    _: KW_ONLY
    rollback_on_failure: bool = False
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name:
            raise InvalidValue("a task has a name")


class ListTasks(
    Operation[list[TaskRun]],
    get="/v1/tasks",
    under="tasks",
    paged=Paged("starting_after", "id", usual=20, most=100, unknown=(TaskNotFound,)),
):
    """Returns tasks, newest first; `starting_after` is the id of the last one seen."""

    _: KW_ONLY
    status: str | None = None
    limit: int | None = 20
    starting_after: str | None = None


class GetTask(Operation[TaskRun], get=_ONE):
    """Returns a task; raises `TaskNotFound`."""

    task_id: str


class CompleteTask(Operation[TaskRun], post=f"{_ONE}/complete", needs_body=False):
    """Ends a task well: takes a snapshot that bears its name. Said again, it changes nothing.

    Who has taken it says so: a `snapshot` that names the task.
    """

    task_id: str
    _: KW_ONLY
    reason: str | None = None
    snapshot: SnapshotLike | None = None


class FailTask(Operation[TaskRun], post=f"{_ONE}/fail", needs_body=False):
    """Ends a task that went wrong: keeps the attempt, and goes back if that is wanted.

    Said again, it finishes what a crash has left half done. Who has kept the attempt says so: a
    `snapshot` that names the task.
    """

    task_id: str
    _: KW_ONLY
    error: str | None = None
    rollback: bool | None = None
    snapshot: SnapshotLike | None = None


class CreateSchedule(Operation[Schedule], post="/v1/schedules", status=201):
    """Makes a schedule of one of three kinds; the first snapshot comes in its time."""

    _: KW_ONLY
    every: Period | None = None
    after_changes: int | None = None
    when_quiet: Period | None = None
    label: str | None = None
    only_if_changed: bool = True


class ListSchedules(Operation[list[Schedule]], get="/v1/schedules", under="schedules"):
    """Returns the schedules, oldest first."""


class GetSchedule(Operation[Schedule], get="/v1/schedules/{schedule_id}"):
    """Returns a schedule; raises `ScheduleNotFound`."""

    schedule_id: str


class UpdateSchedule(Operation[Schedule], patch="/v1/schedules/{schedule_id}"):
    """Stops a schedule, lets it go on, or gives its snapshots another label."""

    schedule_id: str
    _: KW_ONLY
    enabled: bool | None = None
    label: str | None = None


class DeleteSchedule(Operation[None], delete="/v1/schedules/{schedule_id}", status=204):
    """Takes a schedule away; the snapshots that it asked for stay."""

    schedule_id: str
