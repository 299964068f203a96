"""A task: a piece of an agent's work, with a snapshot when it is done.

    with agent.task("tidy the notes", rollback_on_failure=True):
        ...

    @agent.task("nightly report")
    async def report() -> None: ...

What was there before is kept if no snapshot holds it yet, and what is there afterwards is kept
whether the task went well or not. On failure the exception goes on; asked to roll back, the
namespace is what it was before the task by then, and the failed attempt is on the timeline.
"""

import functools
import inspect
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec

from holdfast.engine.advance import MAX_LABEL_CHARS, MAX_TEXT_CHARS
from holdfast.engine.handle import check_text
from holdfast.engine.snapshots import SnapshotLike
from holdfast.ids import IdMaker
from holdfast.model import SnapshotInfo
from holdfast.model_changes import Restored

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
        self._open: list[Task] = []
        self._guard = threading.Lock()

    def __enter__(self) -> Task:
        return self._entered(self._begin())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        task = self._left()
        # Else the process is asked to end: what there is stays as it is, and nothing is lost.
        if kind is None or issubclass(kind, Exception):
            self._end(task, error)

    async def __aenter__(self) -> Task:
        return self._entered(await _in_thread(self._begin))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        task = self._left()
        if kind is None or issubclass(kind, Exception) or _is_cancelled(kind):
            await _in_thread(self._end, task, error)

    def _entered(self, task: Task) -> Task:
        with self._guard:
            self._open.append(task)
        _running.set((*_running.get(), (self, task)))
        return task

    def _left(self) -> Task:
        """Returns the task that ends: of those of this context the last, else the last of all.

        One object may be entered by several threads and coroutines at once, and within itself. A
        generator may be entered in one context and go on in another.
        """
        with self._guard:
            mine = [task for owner, task in _running.get() if owner is self and task in self._open]
            task = (mine or self._open)[-1]
            self._open.remove(task)
        _running.set(tuple(entry for entry in _running.get() if entry[1] is not task))
        return task

    def __call__(self, function: F) -> F:
        """Makes every call of a function a task of its own."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a generator has not run when it is returned: use `with` inside it")
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
        reason = "the task was completed" if error is None else f"the task failed: {_told(error)}"
        task.after = self._place.snapshot(
            task.name, reason=reason[:MAX_TEXT_CHARS], actor=self._actor, task_id=task.id
        )
        if error is not None and self._rolls_back:
            reason = f"task {task.id} failed"
            task.rolled_back = self._place.restore(task.before, reason=reason, actor=self._actor)


_running: Final[ContextVar[tuple[tuple[Tasks, Task], ...]]] = ContextVar("running", default=())
"""The tasks that this thread or coroutine is in, outermost first."""


def _is_cancelled(kind: type[BaseException]) -> bool:
    import asyncio  # noqa: PLC0415 - see `_in_thread`

    return issubclass(kind, asyncio.CancelledError)


def _told(error: BaseException) -> str:
    """Returns an exception as text that any row can hold; it may be an attacker's to word."""
    try:
        text = repr(error)
    except Exception:  # noqa: BLE001 - whatever it is, the task goes on to its end
        text = type(error).__name__
    return "".join(c if c.isprintable() else "�" for c in text[:MAX_TEXT_CHARS])


async def _in_thread(function: Callable[..., T], *arguments: Any) -> T:
    import asyncio  # noqa: PLC0415 - 30 ms that only asynchronous programs pay, which did so before

    return await asyncio.to_thread(function, *arguments)
