"""Pieces of work that are under way, whichever door they go through.

One object may stand for many runs: it is entered by several threads and coroutines at once, and
within itself. Which of its runs ends is decided here, for the embedded door and for clients alike,
and so is what can be decorated, which exception is a failure, and what is said of it. Imports
nothing of ours.
"""

import inspect
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import takewhile
from typing import Any, Final, Generic, TypeVar, cast

R = TypeVar("R")

Around = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Makes a function of a function."""


class Door:
    """The tasks that are open through one object, or that a request says it is made in.

    What is done through it is done in the tasks of its context. A thread without any of its own is
    taken for one that the work has started, if all tasks that are open agree: it is in what they
    have in common. Where a task was entered, the context decides alone.
    """

    __slots__ = ("_given", "_guard", "_open", "names_tasks")

    def __init__(self, given: Sequence[str] = (), *, names_tasks: bool = False) -> None:
        self._given, self.names_tasks = tuple(given), names_tasks
        self._open: dict[str, tuple[tuple[str, ...], int]] = {}
        self._guard = threading.Lock()

    def enter(self, task_id: str) -> None:
        """Notes a task that begins here, within those of this context."""
        path = (*self._here(), task_id)
        with self._guard:
            self._open[task_id] = path, threading.get_ident()
        _within.set({**_paths(), id(self): path})

    def leave(self, task_id: str) -> None:
        """Notes that a task is over."""
        with self._guard:
            path, _ = self._open.pop(task_id, ((), 0))
        paths = dict(_paths())
        if path and paths.get(id(self)) == path:
            # None stays behind: a thread may see many doors in its life.
            paths[id(self)] = path[:-1]
            _within.set({door: within for door, within in paths.items() if within})

    def within(self) -> tuple[str, ...]:
        """Returns the tasks that something is done in which is done here and now."""
        if self._given or not self._open:
            return self._given
        if here := self._here():
            return here
        with self._guard:
            paths = [path for path, _ in self._open.values()]
            threads = {thread for _, thread in self._open.values()}
        if threading.get_ident() in threads:
            return ()
        return tuple(names[0] for names in takewhile(_is_one, zip(*_longest(paths), strict=False)))

    def _here(self) -> tuple[str, ...]:
        path = _paths().get(id(self), ())
        return tuple(takewhile(self._open.__contains__, path))


def _longest(paths: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Returns the paths that no other one goes on from: a task that waits for another is that."""
    return [p for p in paths if not any(len(q) > len(p) and q[: len(p)] == p for q in paths)]


def _is_one(names: tuple[str, ...]) -> bool:
    return len(set(names)) == 1


def _paths() -> dict[int, tuple[str, ...]]:
    """Returns the tasks that this thread or coroutine is in, by the door they were opened at."""
    return _within.get({})


_within: Final[ContextVar[dict[int, tuple[str, ...]]]] = ContextVar("within")


class Runs(Generic[R]):
    """The runs of one task."""

    def __init__(self) -> None:
        self._open: list[R] = []
        self._guard = threading.Lock()

    def enter(self, run: R) -> R:
        """Notes a run that begins here."""
        with self._guard:
            self._open.append(run)
        _running.set((*_running.get(), (self, run)))
        return run

    def leave(self) -> R:
        """Returns the run that ends: of those of this context the last, else the last of all.

        A generator may be entered in one context and go on in another.
        """
        with self._guard:
            mine = [run for owner, run in _running.get() if owner is self and run in self._open]
            run = (mine or self._open)[-1]
            self._open.remove(run)
        _running.set(tuple(entry for entry in _running.get() if entry[1] is not run))
        return run


_running: Final[ContextVar[tuple[tuple[Runs[Any], Any], ...]]] = ContextVar("running", default=())
"""The runs that this thread or coroutine is in, outermost first."""


def check_function(function: Callable[..., Any]) -> None:
    """Raises `TypeError` for what has not run when it returns."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError("a generator has not run when it is returned: use `with` inside it")


def checkpointed(given: Callable[..., Any] | str | None, task: Callable[[str], Around]) -> Any:  # noqa: ANN401 - a function, or what makes one of it
    """Returns a function as a task, or for a name what makes one of a function.

    Without a name it is called like the function.
    """

    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        name = given if isinstance(given, str) else str(getattr(function, "__name__", "task"))
        return task(name)(function)

    return around(given) if callable(given) else around


def sees(error: BaseException | None) -> bool:
    """Says whether a task that is left like this has an end: well, or by what people know.

    Anything else is as if the process had died: nobody is left who could do something about it.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(map(sees, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return error is None or isinstance(error, Exception) or asks_to_end(error)


def asks_to_end(error: BaseException) -> bool:
    """Says whether somebody wants the work to stop, for a reason that is not the work's own."""
    if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
        return True
    # Without importing it: it takes 30 ms, and where nobody has, nobody can be cancelled.
    cancelled = getattr(sys.modules.get("asyncio"), "CancelledError", None)
    return cancelled is not None and isinstance(error, cancelled)


def failure_in(error: BaseException | None) -> BaseException | None:
    """Returns what made a task fail; None if it went well, which `sys.exit(0)` says, too."""
    if isinstance(error, SystemExit) and (error.code is None or error.code == 0):
        return None
    return error


@contextmanager
def ending(error: BaseException | None) -> Generator[None]:
    """Stands around what is done at the end of a task that is left with this.

    Who wants the program to end gets that, and its exit code, also if there is something to say
    about the task: it is said along with it.
    """
    try:
        yield
    except Exception as exc:
        failure = failure_in(error)
        if not isinstance(failure, KeyboardInterrupt | SystemExit):
            raise
        failure.add_note(f"{type(exc).__name__}: {exc}")


def text_of(error: BaseException, *, max_chars: int) -> str:
    """Returns an exception as text that any row can hold; it may be an attacker's to word."""
    try:
        text = repr(error)
    except Exception:  # noqa: BLE001 - whatever it is, the task goes on to its end
        text = type(error).__name__
    return "".join(c if c.isprintable() else "\ufffd" for c in text[:max_chars])
