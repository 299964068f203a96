"""Tasks that outlive a call: started by one request, completed or failed by another.

A failed one keeps the attempt, and takes back what it changed if that was asked for. To say the
same twice changes nothing: clients repeat themselves. How tasks begin and end is in `life.py`.
"""

from typing import Any, Final

from holdfast.display import Part
from holdfast.engine.core.limits import check_limit
from holdfast.engine.planes.handle import Handle
from holdfast.engine.tasks.life import TaskLife
from holdfast.errors import InvalidValue, TooLarge
from holdfast.jsontext import to_json
from holdfast.model.tasks import TaskRun, TaskStatus

TaskList = list[TaskRun]
"""`list` is the name of a method below."""

MAX_METADATA_BYTES: Final = 1 << 16


class TaskRuns(Part):
    """The tasks of a namespace."""

    def __init__(self, handle: Handle) -> None:
        self._handle, self._life = handle, TaskLife(handle)

    def start(
        self,
        name: str,
        *,
        rollback_on_failure: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> TaskRun:
        """Begins a task; what is there now is kept."""
        if not name:
            raise InvalidValue("a task has a name")
        is_named = self._handle.door.names_tasks
        return self._life.begin(
            name, rolls_back=rollback_on_failure, about=_encoded(metadata), is_named=is_named
        )

    def complete(self, task_id: str, *, reason: str | None = None) -> TaskRun:
        """Ends a task well: takes a snapshot that bears its name."""
        return self._life.end_well(task_id, reason=reason)

    def fail(
        self, task_id: str, *, error: str | None = None, rollback: bool | None = None
    ) -> TaskRun:
        """Ends a task that went wrong: keeps the attempt, and goes back if that is wanted.

        Said again, it finishes what a crash has left half done.
        """
        task = self._life.end_badly(task_id, error=error, rollback=rollback)
        wants_back = task.rolls_back if rollback is None else rollback
        if wants_back and task.restored is None:
            self._life.go_back(task)
            task = self.get(task_id)
        return task

    def get(self, task_id: str) -> TaskRun:
        """Returns a task; raises `TaskNotFound`."""
        return self._life.get(task_id)

    def list(
        self,
        *,
        status: str | None = None,
        limit: int = 20,
        starting_after: str | None = None,
    ) -> TaskList:
        """Returns tasks, newest first; `starting_after` is the id of the last one seen."""
        check_limit(limit)
        wanted = None if status is None else _status(status)
        cursor = None if starting_after is None else self.get(starting_after)
        with self._handle.context.catalog.read() as transaction:
            head = self._handle.find_head(transaction)
            if head is None:
                return []
            found = transaction.list_tasks(
                head.namespace_id,
                status=wanted,
                before=None if cursor is None else (cursor.started_at, cursor.id),
                most=limit,
            )
        return [*found]


def _status(given: str) -> TaskStatus:
    try:
        return TaskStatus(given)
    except ValueError as exc:
        message = f"the status of a task is one of {', '.join(TaskStatus)}"
        raise InvalidValue(message) from exc


def _encoded(metadata: dict[str, Any] | None) -> str:
    encoded = to_json(metadata or {}, place="metadata")
    if len(encoded) > MAX_METADATA_BYTES:
        message = f"metadata may have {MAX_METADATA_BYTES} bytes; this has {len(encoded)}"
        raise TooLarge(message)
    return encoded.decode()
