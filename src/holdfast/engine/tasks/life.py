"""How a task begins and ends: its row, its snapshots, and the way back.

What was there before is kept if no snapshot holds it yet. Ending a task takes the snapshot and
marks the task in one transaction: a crash leaves it running, or ended with its snapshot, and never
between. Of a task in a directory, whoever captures that takes the snapshots, and notes them here.
"""

from contextlib import suppress

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.journal.chain import append
from holdfast.engine.planes.handle import Handle, check_text
from holdfast.engine.planes.writers import is_own, mark_of
from holdfast.engine.timeline import snapshots
from holdfast.engine.timeline.room import check_rows
from holdfast.engine.timeline.takeback import take_back
from holdfast.engine.timeline.undo import Leave, leave_nothing
from holdfast.errors import InvalidValue, TaskEnded, TaskNotFound
from holdfast.ids import SnapshotId
from holdfast.model.basics import Head, SnapshotInfo, SnapshotLike
from holdfast.model.changes import Restored
from holdfast.model.tasks import TaskRun, TaskStatus
from holdfast.model.traces import Trace
from holdfast.operations.snapshots import MAX_LABEL_CHARS, MAX_TEXT_CHARS, Note


class TaskLife:
    """The beginnings and ends of the tasks of a namespace."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def begin(
        self,
        name: str,
        *,
        rolls_back: bool,
        is_named: bool,
        about: str = "{}",
    ) -> TaskRun:
        """Begins a task; if it `is_named`, whoever works on it says so with every change."""
        check_text("name", name, max_chars=MAX_LABEL_CHARS)
        context, task_id = self._handle.context, self._handle.context.ids.task()

        def add(before: SnapshotId, transaction: Transaction, head: Head) -> None:
            task = TaskRun(
                began=mark_of(head).changes,
                is_named=is_named,
                within=self._handle.door.within(),
                id=task_id,
                namespace_id=head.namespace_id,
                name=name,
                rolls_back=rolls_back,
                metadata=about,
                actor=context.actor,
                before=before,
                started_at=context.clock(),
            )
            add_task(transaction, self._handle, task)
            append(transaction, context, head, trace_of_task("task.started", task))

        label = f"before {name}"[:MAX_LABEL_CHARS]
        note = Note(label=label, reason="before a task", task_id=task_id)
        with context.work() as transaction:
            # Under the lock: what is written from here on comes after the task's beginning.
            head = self._handle.find_and_lock(transaction)
            held = None if head is None else snapshots.current_of(transaction, self._handle, head)
            if head is not None and held is not None:
                add(held.id, transaction, head)
        if held is None:
            snapshots.take(self._handle, note, is_asked=False, also=add)
        return self.get(task_id)

    def end_well(
        self, task_id: str, *, reason: str | None = None, snapshot: SnapshotLike | None = None
    ) -> TaskRun:
        """Ends a task well: with a snapshot that is taken now, or was taken of its end."""
        task = self.get(task_id)
        if task.status is TaskStatus.RUNNING:
            ended = replace(task, status=TaskStatus.COMPLETED, reason=reason)
            self._end(ended, "task.completed", reason or "the task was completed", snapshot)
            task = self.get(task_id)
        if task.status is not TaskStatus.COMPLETED:
            raise TaskEnded(task_id, status=task.status.value)
        return task

    def end_badly(
        self,
        task_id: str,
        *,
        error: str | None = None,
        rollback: bool | None = None,
        snapshot: SnapshotLike | None = None,
    ) -> TaskRun:
        """Ends a task that went wrong: keeps the attempt, unless a snapshot does already."""
        task = self.get(task_id)
        if task.status is TaskStatus.RUNNING:
            # Kept with the failure: whoever goes on after a crash goes on with what was wanted.
            rolls_back = task.rolls_back if rollback is None else rollback
            told = None if error is None else _storable(error)
            ended = replace(task, status=TaskStatus.FAILED, reason=told, rolls_back=rolls_back)
            said = f"the task failed: {told or 'nobody said why'}"
            self._end(ended, "task.failed", said, snapshot)
            task = self.get(task_id)
        if task.status is not TaskStatus.FAILED:
            raise TaskEnded(task_id, status=task.status.value)
        return task

    def go_back(
        self, task_id: str, *, note: Note | None = None, leave: Leave = leave_nothing
    ) -> Restored:
        """Takes back what a failed task changed; raises `TaskEnded` if another was faster.

        `leave` is told what of a directory could not be captured before.
        """

        def mark(shows: SnapshotId, transaction: Transaction, head: Head) -> None:
            # Under the head's lock: of two that go back, the second sees that the first has.
            now = transaction.find_task(head.namespace_id, task_id)
            if now is None or now.restored is not None:
                raise TaskEnded(task_id, status="gone back")
            # Of a directory, nobody may have been able to note yet that it has failed.
            ended_at = now.ended_at or self._handle.context.clock()
            done = replace(now, status=TaskStatus.FAILED, restored=shows, ended_at=ended_at)
            transaction.end_task(done, seen=now.status)

        note = note or Note(reason=f"task {task_id} failed", task_id=task_id)
        return take_back(self._handle, task_id, note=note, at_end=True, also=mark, leave=leave)

    def note_begun(self, name: str, *, id: str, before: SnapshotInfo) -> None:  # noqa: A002 - what it is called everywhere
        """Notes a task whose snapshots somebody else takes: what lies between them is its own."""
        context = self._handle.context
        with context.work() as transaction:
            head = self._handle.lock(transaction)
            task = TaskRun(
                began=mark_of(head).changes,
                within=self._handle.door.within(),
                id=id,
                namespace_id=head.namespace_id,
                name=name,
                actor=context.actor,
                before=before.id,
                started_at=context.clock(),
            )
            add_task(transaction, self._handle, task)
            append(transaction, context, head, trace_of_task("task.started", task))

    def note_ended(
        self,
        task_id: str,
        *,
        after: SnapshotInfo | None,
        failure: str | None = None,
    ) -> None:
        """Notes how such a task has ended."""
        context = self._handle.context
        status = TaskStatus.COMPLETED if failure is None else TaskStatus.FAILED
        reason = None if failure is None else _storable(failure)
        with context.work() as transaction:
            head = self._handle.lock(transaction)
            task = transaction.find_task(head.namespace_id, task_id)
            if task is None:
                return
            done = replace(
                task,
                status=status,
                reason=reason,
                after=None if after is None else after.id,
                ended_at=context.clock(),
            )
            transaction.end_task(done, seen=task.status)
            if task.status is TaskStatus.RUNNING:
                append(transaction, context, head, trace_of_task(f"task.{status}", done))

    def get(self, task_id: str) -> TaskRun:
        """Returns a task; raises `TaskNotFound`."""
        with self._handle.context.catalog.read() as transaction:
            head = self._handle.find_head(transaction)
            found = None if head is None else transaction.find_task(head.namespace_id, task_id)
        if found is None:
            raise TaskNotFound(task_id)
        return replace(found, namespace=self._handle.name)

    def _end(self, ended: TaskRun, action: str, reason: str, taken: SnapshotLike | None) -> None:
        """Takes the snapshot of a task's end, if it is not `taken`.

        Unless somebody else has ended it by then.
        """
        context, note = self._handle.context, reason[:MAX_TEXT_CHARS]
        check_text("reason", ended.reason, max_chars=MAX_TEXT_CHARS)

        def mark(snapshot_id: SnapshotId, transaction: Transaction, head: Head) -> None:
            beside_others = not ended.is_named and not is_own(head, ended)
            done = replace(
                ended, after=snapshot_id, ended_at=context.clock(), beside_others=beside_others
            )
            if head.namespace_id != ended.namespace_id:
                # Deleted since, and another is called so now: that one's snapshot it is not.
                raise TaskNotFound(ended.id)
            if not transaction.end_task(done, seen=TaskStatus.RUNNING):
                raise _AlreadyEnded(ended.id, status="ended")
            append(transaction, context, head, trace_of_task(action, done))

        told = Note(label=ended.name, reason=note, task_id=ended.id)
        if taken is not None:
            known = snapshots.resolve(self._handle, taken)
            with suppress(_AlreadyEnded), context.work() as transaction:
                head = self._handle.lock(transaction)
                found = transaction.find_snapshot(head.namespace_id, known.id)
                if found is None or found.task_id != ended.id:
                    raise InvalidValue("a task ends with a snapshot that names it")
                mark(found.id, transaction, head)
            return
        with suppress(_AlreadyEnded):
            snapshots.take(self._handle, told, creates=False, is_bounded=False, also=mark)


class _AlreadyEnded(TaskEnded):
    """Somebody else was faster: what was about to be done is undone, and was done before."""


def _storable(error: str) -> str:
    """Returns what somebody says of a failure as a row can hold it: no failure is refused."""
    text = "".join(
        c if c.isprintable() or c in "\n\t" else "\ufffd" for c in error[:MAX_TEXT_CHARS]
    )
    return text.encode("utf-8", "replace").decode()


def add_task(transaction: Transaction, handle: Handle, task: TaskRun) -> None:
    """Adds the row of a task; raises `QuotaExceeded` if there is no room for it."""
    text_bytes = len(task.name.encode()) + len(task.metadata.encode())
    check_rows(transaction, handle, text_bytes=text_bytes)
    transaction.add_task(task)


def trace_of_task(action: str, task: TaskRun) -> Trace:
    """Returns the trace that tells of a task."""
    details = {"name": task.name, "before": task.before, "after": task.after}
    details = {name: value for name, value in details.items() if value is not None}
    return Trace(
        action=action,
        resource_type="task",
        resource_id=task.id,
        task_id=task.id,
        details=details,
    )
