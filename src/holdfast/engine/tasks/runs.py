"""Tasks that outlive a call: started by one request, completed or failed by another.

A failed one keeps the attempt, and takes back what it changed if that was asked for. To say the
same twice changes nothing: clients repeat themselves. How tasks begin and end is in `life.py`.
"""

from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from holdfast.display import Part
from holdfast.engine.core.limits import check_limit
from holdfast.engine.planes.handle import Handle
from holdfast.engine.tasks.life import TaskLife
from holdfast.errors import InvalidValue, TaskEnded
from holdfast.jsontext import object_text
from holdfast.model.tasks import TaskRun, TaskStatus
from holdfast.operations.operation import does
from holdfast.operations.tasks import CompleteTask, FailTask, GetTask, ListTasks, StartTask

MAX_METADATA_BYTES: Final = 1 << 16


class TaskRuns(Part):
    """The tasks of a namespace."""

    def __init__(self, handle: Handle) -> None:
        self._handle, self._life = handle, TaskLife(handle)

    @does(StartTask)
    def start(self, wanted: StartTask) -> TaskRun:
        return self._life.begin(
            wanted.name,
            rolls_back=wanted.rollback_on_failure,
            about=object_text("metadata", wanted.metadata, max_bytes=MAX_METADATA_BYTES),
            is_named=self._handle.door.names_tasks,
        )

    @does(CompleteTask)
    def complete(self, wanted: CompleteTask) -> TaskRun:
        return self._life.end_well(wanted.task_id, reason=wanted.reason, snapshot=wanted.snapshot)

    @does(FailTask)
    def fail(self, wanted: FailTask) -> TaskRun:
        task_id, rollback = wanted.task_id, wanted.rollback
        task = self._life.end_badly(
            task_id, error=wanted.error, rollback=rollback, snapshot=wanted.snapshot
        )
        wants_back = task.rolls_back if rollback is None else rollback
        if wants_back and task.restored is None:
            with suppress(TaskEnded):
                self._life.go_back(task.id)
            task = self._life.get(task_id)
        return task

    @does(GetTask)
    def get(self, wanted: GetTask) -> TaskRun:
        return self._life.get(wanted.task_id)

    @does(ListTasks)
    def list(self, wanted: ListTasks) -> list[TaskRun]:
        most = check_limit(wanted.limit)
        status = None if wanted.status is None else _status(wanted.status)
        seen = wanted.starting_after
        cursor = None if seen is None else self._life.get(seen)
        with self._handle.context.catalog.read() as transaction:
            head = self._handle.find_head(transaction)
            if head is None:
                return []
            found = transaction.list_tasks(
                head.namespace_id,
                status=status,
                before=None if cursor is None else (cursor.started_at, cursor.id),
                most=most,
            )
        return [replace(each, namespace=self._handle.name) for each in found]


def _status(given: str) -> TaskStatus:
    try:
        return TaskStatus(given)
    except ValueError as exc:
        message = f"the status of a task is one of {', '.join(TaskStatus)}"
        raise InvalidValue(message) from exc
