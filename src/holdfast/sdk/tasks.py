"""`client.task(…)` and `@client.checkpointed`: a piece of work, with a snapshot when it is done.

    with client.task("tidy the notes", rollback_on_failure=True):
        ...

    @client.checkpointed
    def report() -> None: ...

The server keeps the task: what was there before, whether it went well, and what it left. A
program that dies in the middle leaves a task that runs, and nothing is lost.
"""

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, TypeVar, overload

import msgspec

from holdfast.display import line, quoted
from holdfast.errors import HoldfastError
from holdfast.model.basics import SnapshotInfo
from holdfast.model.tasks import TaskRun
from holdfast.operations.snapshots import GetSnapshot
from holdfast.operations.tasks import CompleteTask, FailTask, StartTask
from holdfast.running import Runs, check_function, checkpointed, ending, failure_in, sees, text_of
from holdfast.sdk.agent import Agent
from holdfast.sdk.calls import Async, F, Steps, Sync, asking
from holdfast.sdk.groups.timeline import snapshot_or_none

P = ParamSpec("P")
R = TypeVar("R")

MAX_NAME_CHARS: Final = 128
MAX_REASON_CHARS: Final = 1000


class Task(msgspec.Struct, eq=False):
    """One run of a task."""

    name: str
    id: str
    before: SnapshotInfo
    """What was there when it began."""
    after: SnapshotInfo | None = None
    """What was there when it ended, well or not."""
    rolled_back: SnapshotInfo | None = None
    """The snapshot that shows what came back, if it went back."""

    def __repr__(self) -> str:
        return line("Task", self.id, quoted(self.name))


class _Tasks(Generic[F]):
    """What both forms share: how a task begins and ends, as steps."""

    def __init__(self, agent: Agent[F], name: str, *, rollback_on_failure: bool) -> None:
        asked = StartTask(name, rollback_on_failure=rollback_on_failure)
        self._agent, self._asked = agent, replace(asked, name=asked.name[:MAX_NAME_CHARS])
        self._runs = Runs[Task]()

    def __repr__(self) -> str:
        return f"<{type(self).__name__.strip('_')} {self._asked.name!r} of {self._agent!r}>"

    def _enter(self, task: Task) -> Task:
        self._agent.sender.line.door.enter(task.id)
        return self._runs.enter(task)

    def _leave(self) -> Task:
        task = self._runs.leave()
        self._agent.sender.line.door.leave(task.id)
        return task

    def _begin(self) -> Steps[Task]:
        run: TaskRun = yield msgspec.structs.replace(asking(self._asked), within=("new",))
        return Task(self._asked.name, run.id, (yield asking(GetSnapshot(run.before))))

    def _end(self, task: Task, error: BaseException | None) -> Steps[None]:
        if error is None:
            run: TaskRun = yield asking(CompleteTask(task.id))
        else:
            run = yield asking(FailTask(task.id, error=text_of(error, max_chars=MAX_REASON_CHARS)))
        task.after = yield from snapshot_or_none(run.after)
        task.rolled_back = yield from snapshot_or_none(run.restored)


class SyncTasks(_Tasks[Sync]):
    """A task as a context, or around every call of a function."""

    def __enter__(self) -> Task:
        return self._enter(self._agent.sender.run(self._begin()))

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        task = self._leave()
        if sees(error):
            with ending(error):
                self._agent.sender.run(self._end(task, failure_in(error)))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Makes every call of a function a task of its own."""
        check_function(function)
        if inspect.iscoroutinefunction(function):
            raise TypeError("a coroutine needs the task of an AsyncClient")

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return run


class AsyncTasks(_Tasks[Async]):
    """A task as an asynchronous context, or around every call of a coroutine function."""

    async def __aenter__(self) -> Task:
        import asyncio  # noqa: PLC0415 - see `__aexit__`

        beginning = asyncio.ensure_future(self._agent.sender.run(self._begin()))
        try:
            return self._enter(await asyncio.shield(beginning))
        except asyncio.CancelledError as error:
            # The server may have begun it, and nobody would ever end it.
            await asyncio.shield(self._give_up(beginning, error))
            raise

    async def _give_up(self, beginning: Awaitable[Task], error: BaseException) -> None:
        """Ends a task that nobody waits for any more, as far as it begins at all."""
        try:
            await self._agent.sender.run(self._end(await beginning, error))
        except HoldfastError as exc:
            error.add_note(f"{type(exc).__name__}: {exc}")

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        task = self._leave()
        import asyncio  # noqa: PLC0415 - 30 ms that only asynchronous programs pay, which did so before

        if sees(error):
            with ending(error):
                # Whoever cancels the work does not cancel what has to be said of it.
                await asyncio.shield(self._agent.sender.run(self._end(task, failure_in(error))))

    def __call__(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        """Makes every call of a coroutine function a task of its own."""
        check_function(function)
        if not inspect.iscoroutinefunction(function):
            raise TypeError("a plain function needs the task of a Client")

        @functools.wraps(function)
        async def run(*args: P.args, **kwargs: P.kwargs) -> R:
            async with self:
                return await function(*args, **kwargs)

        return run


class Checkpointed:
    """`@client.checkpointed`, with or without a name for the task."""

    def __init__(self, client: Agent[Sync]) -> None:
        self._client = client

    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def __call__(
        self, name: str | None = None, /, *, rollback_on_failure: bool = False
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    def __call__(
        self, given: Callable[..., Any] | str | None = None, /, *, rollback_on_failure: bool = False
    ) -> Any:
        """Makes every call of a function a task, called like the function if nothing else."""
        return checkpointed(
            given,
            lambda name: SyncTasks(self._client, name, rollback_on_failure=rollback_on_failure),
        )


class AsyncCheckpointed:
    """`@client.checkpointed` of an `AsyncClient`."""

    def __init__(self, client: Agent[Async]) -> None:
        self._client = client

    @overload
    def __call__(
        self, function: Callable[P, Awaitable[R]], /
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, name: str | None = None, /, *, rollback_on_failure: bool = False
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R]]]: ...
    def __call__(
        self, given: Callable[..., Any] | str | None = None, /, *, rollback_on_failure: bool = False
    ) -> Any:
        """Makes every call of a coroutine function a task."""
        return checkpointed(
            given,
            lambda name: AsyncTasks(self._client, name, rollback_on_failure=rollback_on_failure),
        )
