"""A task: a piece of an agent's work, with a snapshot when it is done.

    with agent.task("tidy the notes", rollback_on_failure=True):
        ...

    @agent.task("nightly report")
    async def report() -> None: ...

What was there before is kept if no snapshot holds it yet, and what is there afterwards is kept
whether the task went well or not. On failure the exception goes on; asked to roll back, the
namespace is what it was before the task by then, and the failed attempt is on the timeline.
Ctrl-C, `sys.exit` with anything but 0, a cancelled coroutine and a generator that is closed in
the middle are failures like any other.
"""

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

import msgspec

from holdfast.engine.advance import MAX_LABEL_CHARS, MAX_TEXT_CHARS
from holdfast.engine.handle import check_text
from holdfast.engine.snapshots import SnapshotLike
from holdfast.errors import DirectoryMissing
from holdfast.ids import IdMaker
from holdfast.model import SnapshotInfo
from holdfast.model_changes import Restored
from holdfast.running import Runs, check_function, ending, failure_in, sees, told

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class Undoable(Protocol):
    """What a task works on: a namespace or a directory."""

    def snapshot(
        self,
        label: str | None = None,
        *,
        reason: str | None = None,
        actor: str | None = None,
        task_id: str | None = None,
    ) -> SnapshotInfo:
        """Captures everything as it is now."""
        ...

    def restore(
        self, snapshot: SnapshotLike, *, reason: str | None = None, actor: str | None = None
    ) -> Restored:
        """Brings a snapshot back."""
        ...

    def find_held(self) -> SnapshotInfo | None:
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


class Tasks:
    """Makes tasks: as a context, plain or asynchronous, or around a function."""

    def __init__(
        self,
        place: Undoable,
        name: str,
        *,
        ids: IdMaker,
        rollback_on_failure: bool = False,
        actor: str | None = None,
    ) -> None:
        check_text("label", name[:MAX_LABEL_CHARS], max_chars=MAX_LABEL_CHARS)
        self._place, self._name, self._ids = place, name[:MAX_LABEL_CHARS], ids
        self._rolls_back, self._actor = rollback_on_failure, actor
        self._runs = Runs[Task]()

    def __enter__(self) -> Task:
        return self._runs.enter(self._begin())

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        task = self._runs.leave()
        if sees(error):
            with ending(error):
                self._end(task, failure_in(error))

    async def __aenter__(self) -> Task:
        return self._runs.enter(await _in_thread(self._begin))

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        task = self._runs.leave()
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

    def _begin(self) -> Task:
        task_id = self._ids.task()
        before = self._place.find_held() or self._place.snapshot(
            f"before {self._name}"[:MAX_LABEL_CHARS],
            reason="before a task",
            actor=self._actor,
            task_id=task_id,
        )
        return Task(self._name, task_id, before)

    def _end(self, task: Task, error: BaseException | None) -> None:
        reason = "the task was completed"
        if error is not None:
            reason = f"the task failed: {told(error, max_chars=MAX_TEXT_CHARS)}"
        try:
            task.after = self._place.snapshot(
                task.name, reason=reason[:MAX_TEXT_CHARS], actor=self._actor, task_id=task.id
            )
        except DirectoryMissing:
            # Its own error is what a task that failed has to tell; the way back makes it anew.
            if error is None:
                raise
        if error is not None and self._rolls_back:
            reason = f"task {task.id} failed"
            task.rolled_back = self._place.restore(task.before, reason=reason, actor=self._actor)


async def _in_thread(function: Callable[..., T], *arguments: Any) -> T:
    import asyncio  # noqa: PLC0415 - 30 ms that only asynchronous programs pay, which did so before

    return await asyncio.to_thread(function, *arguments)
