"""Tasks that outlive a call: started by one request, completed or failed by another.

What was there before is kept if no snapshot holds it yet. Completing a task takes the snapshot
and marks the task in one transaction: a crash leaves it running, or completed with its snapshot,
and never between. A failed one keeps the attempt, and brings back what was there before if that
was asked for. To say the same twice changes nothing: clients repeat themselves.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine import restore, snapshots
from holdfast.engine.advance import MAX_LABEL_CHARS, MAX_TEXT_CHARS, Note
from holdfast.engine.chain import append
from holdfast.engine.handle import Handle, check_text
from holdfast.engine.limits import check_limit
from holdfast.engine.sessions.state import to_json
from holdfast.engine.writers import check_own, mark_of
from holdfast.errors import InvalidValue, TaskEnded, TaskNotFound, TooLarge
from holdfast.ids import SnapshotId
from holdfast.model import Head, SnapshotInfo
from holdfast.model_tasks import TaskRun, TaskStatus
from holdfast.model_traces import Trace

TaskList = list[TaskRun]
"""`list` is the name of a method below."""

MAX_METADATA_BYTES: Final = 1 << 16


class TaskRuns:
    """The tasks of a namespace."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

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
        check_text("name", name, max_chars=MAX_LABEL_CHARS)
        about, context = _encoded(metadata), self._handle.context
        task_id = context.ids.task()

        def add(transaction: Transaction, head: Head, before: SnapshotId) -> None:
            task = TaskRun(
                began=mark_of(head).changes,
                is_named=self._handle.door.names_tasks,
                id=task_id,
                namespace_id=head.namespace_id,
                name=name,
                rolls_back=rollback_on_failure,
                metadata=about,
                actor=context.actor,
                before=before,
                started_at=context.clock(),
            )
            transaction.add_task(task)
            append(transaction, context, head, _told("task.started", task))

        note = Note(
            label=f"before {name}"[:MAX_LABEL_CHARS], reason="before a task", task_id=task_id
        )
        with context.work() as transaction:
            # Under the lock: what is written from here on comes after the task's beginning.
            head = self._handle.find_and_lock(transaction)
            held = None if head is None else snapshots.held_by(transaction, self._handle, head)
            if head is not None and held is not None:
                add(transaction, head, held.id)
        if held is None:
            snapshots.take(self._handle, note, also=add)
        return self.get(task_id)

    def complete(self, task_id: str, *, reason: str | None = None) -> TaskRun:
        """Ends a task well: takes a snapshot that bears its name."""
        task = self.get(task_id)
        if task.status is TaskStatus.RUNNING:
            ended = replace(task, status=TaskStatus.COMPLETED, reason=reason)
            self._end(ended, "task.completed", reason or "the task was completed")
            task = self.get(task_id)
        if task.status is not TaskStatus.COMPLETED:
            raise TaskEnded(task_id, status=task.status.value)
        return task

    def fail(
        self, task_id: str, *, error: str | None = None, rollback: bool | None = None
    ) -> TaskRun:
        """Ends a task that went wrong: keeps the attempt, and goes back if that is wanted.

        Said again, it finishes what a crash has left half done.
        """
        task = self.get(task_id)
        if task.status is TaskStatus.RUNNING:
            # Kept with the failure: whoever goes on after a crash goes on with what was wanted.
            rolls_back = task.rolls_back if rollback is None else rollback
            told = None if error is None else _storable(error)
            ended = replace(task, status=TaskStatus.FAILED, reason=told, rolls_back=rolls_back)
            self._end(ended, "task.failed", f"the task failed: {told or 'nobody said why'}")
            task = self.get(task_id)
        if task.status is not TaskStatus.FAILED:
            raise TaskEnded(task_id, status=task.status.value)
        wants_back = task.rolls_back if rollback is None else rollback
        if wants_back and task.restored is None:
            self._go_back(task)
            task = self.get(task_id)
        return task

    def get(self, task_id: str) -> TaskRun:
        """Returns a task; raises `TaskNotFound`."""
        with self._handle.context.catalog.read() as transaction:
            head = self._handle.find_head(transaction)
            found = None if head is None else transaction.find_task(head.namespace_id, task_id)
        if found is None:
            raise TaskNotFound(task_id)
        return found

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

    def _end(self, ended: TaskRun, action: str, reason: str) -> None:
        """Takes the snapshot of a task's end, unless somebody else has ended it by then."""
        context = self._handle.context
        check_text("reason", ended.reason, max_chars=MAX_TEXT_CHARS)
        note = Note(label=ended.name, reason=reason[:MAX_TEXT_CHARS], task_id=ended.id)

        def mark(transaction: Transaction, head: Head, snapshot_id: SnapshotId) -> None:
            done = replace(ended, after=snapshot_id, ended_at=context.clock())
            if head.namespace_id != ended.namespace_id:
                # Deleted since, and another is called so now: that one's snapshot it is not.
                raise TaskNotFound(ended.id)
            if not transaction.end_task(done, seen=TaskStatus.RUNNING):
                raise _AlreadyEnded(ended.id, status="ended")
            append(transaction, context, head, _told(action, done))

        _unless_ended(lambda: snapshots.take(self._handle, note, creates=False, also=mark))

    def _go_back(self, task: TaskRun) -> None:
        context = self._handle.context
        with context.catalog.read() as transaction:
            head = self._handle.get_head(transaction)
            target = self._handle.get_snapshot(transaction, head, task.before)

        def mark(transaction: Transaction, head: Head, shows: SnapshotId) -> None:
            check_own(
                head,
                task.id,
                began=task.began,
                before=task.before,
                is_named=task.is_named,
                actor=task.actor,
            )
            # Under the head's lock: of two that go back, the second sees that the first has.
            now = transaction.find_task(task.namespace_id, task.id)
            if now is None or now.restored is not None:
                raise _AlreadyEnded(task.id, status="gone back")
            transaction.end_task(replace(now, restored=shows), seen=TaskStatus.FAILED)

        note = Note(reason=f"task {task.id} failed", task_id=task.id)
        _unless_ended(lambda: restore.restore(self._handle, target, note=note, also=mark))


def kept(handle: Handle, note: Note) -> tuple[SnapshotInfo, int]:
    """Returns a snapshot that holds what is there, and how many changes there had been by then."""
    with handle.context.catalog.read() as transaction:
        head = handle.find_head(transaction)
        held = None if head is None else snapshots.held_by(transaction, handle, head)
        if head is not None and held is not None:
            return held, mark_of(head).changes
    seen = list[int]()

    def see(_transaction: Transaction, head: Head, _snapshot_id: SnapshotId) -> None:
        seen[:] = [mark_of(head).changes]

    return snapshots.take(handle, note, also=see), seen[0]


class _AlreadyEnded(TaskEnded):
    """Somebody else was faster: what was about to be done is undone, and was done before."""


def _unless_ended(act: Callable[[], object]) -> None:
    try:
        act()
    except _AlreadyEnded:
        return


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


def _storable(error: str) -> str:
    """Returns what somebody says of a failure as a row can hold it: no failure is refused."""
    text = "".join(
        c if c.isprintable() or c in "\n\t" else "\ufffd" for c in error[:MAX_TEXT_CHARS]
    )
    return text.encode("utf-8", "replace").decode()


def _told(action: str, task: TaskRun) -> Trace:
    details = {"name": task.name, "before": task.before, "after": task.after}
    details = {name: value for name, value in details.items() if value is not None}
    return Trace(action=action, resource_type="task", resource_id=task.id, details=details)
