"""A task: a piece of an agent's work, with a snapshot when it is done.

    with agent.task("tidy the notes", rollback_on_failure=True):
        ...

    @agent.task("nightly report")
    async def report() -> None: ...

What was there before is kept if no snapshot holds it yet, and what is there afterwards is kept
whether the task went well or not. On failure the exception goes on; asked to roll back, all that
the task changed is what it was before by then, and the failed attempt is on the timeline.
Ctrl-C, `sys.exit` with anything but 0, a cancelled coroutine and a generator that is closed in
the middle are failures like any other. Nothing that others have done to a namespace meanwhile is
taken back: where they changed the same since, the end of a failed task is `OthersChanged`. Of a
directory nobody can say who changed it: there, what lies between the two snapshots is the task's,
but for what other tasks noted as theirs.
"""

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

import msgspec

from holdfast.display import line, quoted
from holdfast.engine.planes.handle import Handle, check_text
from holdfast.engine.tasks.life import TaskLife
from holdfast.engine.timeline.snapshots import resolve
from holdfast.errors import DirectoryMissing, HoldfastError, InvalidValue, TaskEnded
from holdfast.ids import IdMaker
from holdfast.model.basics import SnapshotInfo
from holdfast.model.changes import Restored
from holdfast.operations.snapshots import MAX_LABEL_CHARS, MAX_TEXT_CHARS
from holdfast.operations.tasks import StartTask
from holdfast.running import Runs, check_function, ending, failure_in, sees, text_of

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class Undoable(Protocol):
    """A directory, as a task works on it."""

    def snapshot(
        self,
        label: str | None = None,
        *,
        reason: str | None = None,
        task_id: str | None = None,
        rules: bytes | None = None,
    ) -> SnapshotInfo:
        """Captures everything as it is now."""
        ...

    def end_badly(self, task: "Task", *, reason: str) -> Restored | None:
        """Takes back what a task changed that failed; None if another has done so."""
        ...

    def read_rules(self) -> bytes:
        """Returns what says what is left out."""
        ...

    def find_current(self) -> SnapshotInfo | None:
        """Returns the snapshot that holds everything as it is, or None."""
        ...


class Task(msgspec.Struct, eq=False):
    """One run of a task."""

    name: str
    id: str
    before: SnapshotInfo
    """What was there when it began."""
    after: SnapshotInfo | None = None
    """What was there when it ended, well or not."""
    rolled_back: Restored | None = None
    """How the way back went, if there was one."""
    rules: bytes | None = None
    """Of a directory: what `.holdfastignore` said when it began, by which it is judged."""

    def __repr__(self) -> str:
        return line("Task", self.id, quoted(self.name))


class Tasks:
    """Makes tasks: as a context, plain or asynchronous, or around a function."""

    def __init__(
        self,
        place: object,
        name: str,
        *,
        ids: IdMaker,
        rollback_on_failure: bool = False,
        handle: Handle | None = None,
        directory: Undoable | None = None,
        runs: TaskLife | None = None,
    ) -> None:
        """Makes one of a namespace, by its handle, or of a directory.

        With the handle of a namespace, nothing that others did is taken back.

        With `runs`, a task whose own is what lies between its snapshots is noted there.
        """
        asked = StartTask(name, rollback_on_failure=rollback_on_failure)
        self._name = asked.name[:MAX_LABEL_CHARS]
        check_text("label", self._name, max_chars=MAX_LABEL_CHARS)
        self._place, self._ids = place, ids
        self._rolls_back, self._handle = rollback_on_failure, handle
        self._directory, self._noted = directory, runs
        self._runs = Runs[Task]()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} of {self._place!r}>"

    def __enter__(self) -> Task:
        return self._enter(self._begin())

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        task = self._leave()
        if sees(error):
            with ending(error):
                self._end(task, failure_in(error))

    async def __aenter__(self) -> Task:
        return self._enter(await _in_thread(self._begin))

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        task = self._leave()
        if sees(error):
            with ending(error):
                await _in_thread(self._end, task, failure_in(error))

    def __call__(self, function: F) -> F:
        """Makes every call of a function a task of its own."""
        check_function(function)
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                async with self:
                    return await function(*args, **kwargs)

            return cast("F", run_async)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return cast("F", run)

    def _enter(self, task: Task) -> Task:
        if self._handle is not None:
            self._handle.door.enter(task.id)
        return self._runs.enter(task)

    def _leave(self) -> Task:
        task = self._runs.leave()
        if self._handle is not None:
            self._handle.door.leave(task.id)
        return task

    def _begin(self) -> Task:
        if self._directory is not None:
            return self._begin_in(self._directory)
        handle = self._get_handle()
        run = TaskLife(handle).begin(self._name, rolls_back=self._rolls_back, is_named=True)
        return Task(self._name, run.id, resolve(handle, run.before))

    def _begin_in(self, directory: Undoable) -> Task:
        task_id = self._ids.task()
        before = directory.find_current() or directory.snapshot(
            f"before {self._name}"[:MAX_LABEL_CHARS],
            reason="before a task",
            task_id=task_id,
        )
        if self._noted is not None:
            self._noted.note_begun(self._name, id=task_id, before=before)
        return Task(self._name, task_id, before, rules=directory.read_rules())

    def _end(self, task: Task, error: BaseException | None) -> None:
        failure = None if error is None else text_of(error, max_chars=MAX_TEXT_CHARS)
        if self._directory is not None:
            self._end_in(self._directory, task, failure)
        else:
            self._end_run(self._get_handle(), task, failure)

    def _get_handle(self) -> Handle:
        if self._handle is None:
            raise InvalidValue("a task is one of a namespace or of a directory")
        return self._handle

    def _end_run(self, handle: Handle, task: Task, failure: str | None) -> None:
        runs = TaskLife(handle)
        run = runs.end_well(task.id) if failure is None else runs.end_badly(task.id, error=failure)
        task.after = None if run.after is None else resolve(handle, run.after)
        if failure is not None and self._rolls_back:
            with suppress(TaskEnded):
                task.rolled_back = runs.go_back(run.id)

    def _end_in(self, directory: Undoable, task: Task, failure: str | None) -> None:
        reason = "the task was completed" if failure is None else f"the task failed: {failure}"
        try:
            task.after = directory.snapshot(
                task.name, reason=reason[:MAX_TEXT_CHARS], task_id=task.id, rules=task.rules
            )
        except HoldfastError as exc:
            # Its own error is what a task that failed has to tell. The way back makes a directory
            # that is missing anew, and keeps what is there without rules that cannot be read.
            is_known = self._rolls_back or isinstance(exc, DirectoryMissing)
            if failure is None or not is_known:
                raise
        if self._noted is not None:
            self._noted.note_ended(task.id, after=task.after, failure=failure)
        if failure is not None and self._rolls_back:
            task.rolled_back = directory.end_badly(task, reason=f"task {task.id} failed")


async def _in_thread(function: Callable[..., T], *arguments: Any) -> T:
    import asyncio  # noqa: PLC0415 - 30 ms that only asynchronous programs pay, which did so before

    return await asyncio.to_thread(function, *arguments)
