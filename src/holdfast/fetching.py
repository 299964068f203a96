"""What lies in a bucket is fetched between transactions, and not in one. Imports nothing of ours.

A transaction holds locks and a connection, and a database remembers its moment; a bucket takes
20 ms for whatever it is asked, and now and then ten seconds. So whoever needs a block in the middle
of a transaction ends it with `Away`: the block is fetched, and the work done anew from its start,
where it meets the block in memory.

Only what can be done twice is: work that `anew` began, and in which nothing was written since, or
that was made to be written again and has not been committed. And no more than `ROUNDS` times, nor
for more than `ROOM_BYTES`: what needs a bucket again and again, or more than memory keeps, is
fetched where it is needed, so that it comes to an end.
"""

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial, wraps
from typing import Final, ParamSpec, TypeVar

ROUNDS: Final = 32
"""Times that work is done anew. Each costs what it has done so far, which is all in memory by then:
a few milliseconds, where a request takes twenty."""

ROOM_BYTES: Final = 8 << 20
"""What is fetched ahead: half of what is kept of blocks, so that none pushes another one out."""

T = TypeVar("T")
P = ParamSpec("P")


class Away(Exception):
    """Something has to be fetched first; never leaves the engine."""

    def __init__(self, fetch: Callable[[], int]) -> None:
        super().__init__("what is needed lies in a bucket")
        self.fetch = fetch
        """Fetches it, and returns how many bytes that were; 0 if it is better looked for where it
        is needed."""


class _Work:
    """Work that is done anew when it ends with `Away`, as long as there are rounds left."""

    __slots__ = ("around", "left", "rewrites", "room")

    def __init__(self, around: "_Work | None", *, rewrites: bool, room: int) -> None:
        self.around, self.rewrites = around, rewrites
        self.left, self.room = ROUNDS, room


_WORK: Final[ContextVar[_Work | None]] = ContextVar("work", default=None)


def can_wait() -> bool:
    """Says whether what is done right now is done anew if it ends with `Away`."""
    work = _WORK.get()
    return work is not None and work.left > 0


def write() -> None:
    """Notes that something is about to be written: whoever may not write it again goes on."""
    work = _WORK.get()
    while work is not None and not work.rewrites:
        work.left = 0
        work = work.around


def done() -> None:
    """Notes that what was asked for is done: whoever has begun this, and all around, goes on."""
    work = _WORK.get()
    while work is not None:
        work.left = 0
        work = work.around


def anew(
    run: Callable[[], T],
    *,
    rewrites: bool = False,
    again: Callable[[], None] | None = None,
    room_bytes: int = ROOM_BYTES,
) -> T:
    """Does something, and does it anew whenever something had to be fetched for it.

    What it `rewrites` is undone where it ends with an error, until it is `done`; `again` is called
    before each time but the first. `room_bytes` is how much of what was fetched is kept.
    """
    around = _WORK.get()
    work = _Work(around, rewrites=rewrites, room=room_bytes)
    token = _WORK.set(work)
    try:
        while True:
            try:
                return run()
            except Away as exc:
                away = exc
            size = away.fetch()
            work.room -= size
            work.left = work.left - 1 if size and work.room > 0 else 0
            if again is not None:
                again()
    finally:
        _WORK.reset(token)
        if rewrites:
            done()


def fetched(read: Callable[P, T]) -> Callable[P, T]:
    """Makes a method that only reads one that is done anew where something has to be fetched."""

    @wraps(read)
    def method(*args: P.args, **kwargs: P.kwargs) -> T:
        return anew(partial(read, *args, **kwargs))

    return method
