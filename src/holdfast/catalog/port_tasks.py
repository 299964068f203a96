"""The part of a transaction that is about tasks and schedules.

Both change together with the snapshot that they ask for, in its transaction, and only if they
are still as they were seen: of several workers that want to do the same, one does.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from holdfast.ids import NamespaceId
from holdfast.model_tasks import DueSchedule, Schedule, TaskRun, TaskStatus


class TaskRows(Protocol):
    """Rows of tasks and schedules, and of what is done now and then."""

    def add_task(self, task: TaskRun) -> None: ...
    def find_task(self, namespace_id: NamespaceId, task_id: str) -> TaskRun | None: ...
    def end_task(self, task: TaskRun, *, seen: TaskStatus) -> bool:
        """Writes how a task ended; False if it has another status than was seen."""
        ...

    def list_tasks(
        self,
        namespace_id: NamespaceId,
        *,
        status: TaskStatus | None,
        before: tuple[datetime, str] | None,
        most: int,
    ) -> Sequence[TaskRun]:
        """Returns tasks, newest first."""
        ...

    def add_schedule(self, schedule: Schedule) -> None: ...
    def find_schedule(self, namespace_id: NamespaceId, schedule_id: str) -> Schedule | None: ...
    def list_schedules(self, namespace_id: NamespaceId) -> list[Schedule]: ...
    def lock_schedule(self, namespace_id: NamespaceId, schedule_id: str) -> Schedule | None:
        """Returns a schedule that nobody else changes until the transaction ends."""
        ...

    def change_schedule(self, schedule: Schedule) -> None:
        """Writes what its owner says of a schedule that is locked."""
        ...

    def advance_schedule(self, schedule: Schedule, *, seen: datetime) -> bool:
        """Writes how far a schedule is, and when it is looked at next.

        False if it is no longer due when it was seen to be, or was stopped or deleted since.
        """
        ...

    def delete_schedule(self, namespace_id: NamespaceId, schedule_id: str) -> bool: ...
    def due_schedules(self, *, now: datetime, most: int) -> list[DueSchedule]:
        """Returns what is to be looked at, of namespaces that are not deleted.

        What waits for writes is among them only if there are some.
        """
        ...

    def find_chore(self, name: str) -> datetime | None:
        """Returns when something was last done, whoever did it."""
        ...

    def set_chore(self, name: str, *, done_at: datetime) -> None: ...
