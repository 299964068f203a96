"""The same directory for programs with an event loop: each method in a thread, awaited.

Reading a directory is work for a thread in any case. So the requests of an exchange are made there
as well, over connections of their own; nothing of it waits in the loop.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from functools import update_wrapper
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from holdfast.engine.tasks.contexts import Tasks
from holdfast.mirror.tasks import Place, RemoteTasks
from holdfast.mirror.workspace import RemoteWorkspace

P = ParamSpec("P")
T = TypeVar("T")


class awaited(Generic[P, T]):  # noqa: N801 - used like a decorator
    """Makes a coroutine of a method of the waiting form, with its arguments and its answer."""

    def __init__(self, method: Callable[Concatenate[RemoteWorkspace, P], T]) -> None:
        self._method = method
        update_wrapper(self, method)  # pyright: ignore[reportArgumentType] - only names are copied

    def __get__(
        self, workspace: "AsyncRemoteWorkspace", _: object
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        method = self._method

        async def run(*args: P.args, **kwargs: P.kwargs) -> T:
            def work() -> T:
                return method(workspace.opened(), *args, **kwargs)

            return await asyncio.to_thread(work)

        update_wrapper(run, method)
        return run


class AsyncRemoteWorkspace:
    """A directory that is attached to a namespace of a server; its methods are coroutines.

    It is opened with its first use. Use it from as many tasks as you like: they take turns.
    """

    def __init__(
        self,
        open_: Callable[[], RemoteWorkspace],
        directory: str | os.PathLike[str],
        *,
        let_go: Callable[[], None],
    ) -> None:
        """Is made with what opens it, and what lets go of its connections."""
        self.path = Path(os.path.realpath(Path(directory).expanduser()))
        """Where the directory is."""
        self._open, self._let_go = open_, let_go
        self._guard = threading.Lock()
        self._found: RemoteWorkspace | None = None

    def opened(self) -> RemoteWorkspace:
        """Returns the waiting form of it; opens it, if that was not done before."""
        with self._guard:
            if self._found is None:
                self._found = self._open()
            return self._found

    @property
    def moved_from(self) -> Path | None:
        """Where the directory was until it was opened here; None before, or if it was not moved."""
        return None if self._found is None else self._found.moved_from

    @property
    def is_half_way(self) -> bool:
        """Whether a restore was interrupted, or is under way just now; known once it is used."""
        return self._found is not None and self._found.is_half_way

    def __repr__(self) -> str:
        return f"AsyncRemoteWorkspace({str(self.path)!r})"

    snapshot = awaited(RemoteWorkspace.snapshot)
    snapshot_if_changed = awaited(RemoteWorkspace.snapshot_if_changed)
    find_current = awaited(RemoteWorkspace.find_current)
    status = awaited(RemoteWorkspace.status)
    is_dirty = awaited(RemoteWorkspace.is_dirty)
    diff = awaited(RemoteWorkspace.diff)
    text_diff = awaited(RemoteWorkspace.text_diff)
    text_diffs = awaited(RemoteWorkspace.text_diffs)
    history = awaited(RemoteWorkspace.history)
    restore = awaited(RemoteWorkspace.restore)
    take_over = awaited(RemoteWorkspace.take_over)
    read_rules = awaited(RemoteWorkspace.read_rules)
    undo = awaited(RemoteWorkspace.undo)
    redo = awaited(RemoteWorkspace.redo)
    pull = awaited(RemoteWorkspace.pull)
    checkout = awaited(RemoteWorkspace.checkout)
    import_ = awaited(RemoteWorkspace.import_)
    import_files = awaited(RemoteWorkspace.import_files)
    watch = awaited(RemoteWorkspace.watch)
    wait_for_changes = awaited(RemoteWorkspace.wait_for_changes)
    look_ahead = awaited(RemoteWorkspace.look_ahead)
    recover = awaited(RemoteWorkspace.recover)

    def task(self, name: str, *, rollback_on_failure: bool = False) -> Tasks:
        """Returns a task on this directory: an asynchronous context, or a decorator."""

        def opened() -> Place:
            return self.opened()._place()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - its waiting form

        return RemoteTasks(self, name, opened=opened, rollback_on_failure=rollback_on_failure)

    async def close(self) -> None:
        """Keeps what is known for the next time, and lets go of the directory."""
        if self._found is not None:
            await asyncio.to_thread(self._found.close)
        self._let_go()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
