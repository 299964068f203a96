"""The threads that routes run in: of several kinds, each of which the tenants share.

A route that may take seconds keeps no quick one waiting, and the requests of one tenant keep
nobody else's waiting: beyond its share of a kind, a tenant waits for itself. What can only be done
one after the other, commands of one namespace, waits in line before it has a thread. Whose request
it is that runs is known from its admission on, and inherited by all that it starts.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from holdfast.behalf import BEHALF
from holdfast.engine.directory.lending import OTHERS_RUN, PATIENCE_S
from holdfast.errors import Busy
from holdfast.operations.operation import Work
from holdfast.server.pacing import Pace
from holdfast.server.sharing import STRANGERS, Lines, Shares

T = TypeVar("T")


TOTALS: Final = {
    Work.ADMISSION: 4,
    Work.QUICK: 8,
    Work.SLOW: 6,
    Work.LONG: 4,
    Work.HEAVY: 4,
    Work.COSTLY: 2,
    Work.COMMANDS: 8,
    Work.PIECES: 6,
}
"""How many threads of each kind a worker has; one tenant gets half of them.

Few, as more of them wait for each other, not for the disk: at 16 connections, 64 threads answered
40 % fewer reads a second than one connection gets. Connections to a database are shared beside
them: there are fewer than threads.
"""


AT_ONCE: Final = 16
"""Requests of one tenant that are answered in one round of the loop, where they take no more than
0.1 ms each."""

MOST: Final = {Work.LONG: 1}
"""How many of a kind one tenant gets where half would be too many: who goes through all that it has
twice at once takes the interpreter from the others twice, and is done no sooner."""


class Threads:
    """The threads of one application."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._kinds = {
            work: _Kind(f"holdfast-{work}", Shares(total, most=MOST.get(work)))
            for work, total in TOTALS.items()
        }
        self._lines = Lines()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """In the end, waits for what still runs in them."""
        try:
            yield
        finally:
            for kind in self._kinds.values():
                kind.end()

    async def run(
        self, tenant: str, work: Work, function: Callable[[], T], *, line: str | None = None
    ) -> T:
        """Runs a function in a thread, once it is the tenant's turn; returns what it does.

        Of those in one `line`, one after the other; raises `Busy` if that takes too long.
        """
        kind = self._kinds[work]
        give_back = partial(kind.shares.give_back, tenant)
        if line is None:
            await kind.shares.take(tenant)
        else:
            await self._come_first(tenant, work, line)
            give_back = partial(self._let_next, tenant, work, line)
        context = copy_context()
        context.run(BEHALF.set, tenant)
        if work is Work.LONG:
            function = partial(self.pace.run, function)
        loop = asyncio.get_running_loop()
        task = _Task(loop, loop.create_future(), give_back)
        try:
            kind.begin(partial(task.run, context, function))
        except RuntimeError:  # No thread can be made, or the server has ended: nobody else would.
            give_back()
            raise
        try:
            # Should nobody wait for it any more, the thread is taken until it is done all the same.
            return await task.told
        finally:
            del task  # It has the failure, which has this frame.

    async def _come_first(self, tenant: str, work: Work, line: str) -> None:
        """Waits for the turn in a line, and then for a thread."""
        try:
            await self._lines.take((tenant, work, line), patience_s=PATIENCE_S)
        except TimeoutError:
            raise Busy(OTHERS_RUN) from None
        try:
            await self._kinds[work].shares.take(tenant)
        except asyncio.CancelledError:
            self._lines.give_back((tenant, work, line))
            raise

    def _let_next(self, tenant: str, work: Work, line: str) -> None:
        self._kinds[work].shares.give_back(tenant)
        self._lines.give_back((tenant, work, line))


class _Kind:
    """The threads of one kind: as many as were ever needed at once, and who may have them.

    Of `concurrent.futures`, the way to a thread and back takes twice the time: it has locks for
    those who wait in threads, and a second future for each.
    """

    def __init__(self, name: str, shares: Shares) -> None:
        self.shares = shares
        self._name, self._threads = name, list[threading.Thread]()
        self._waiting = SimpleQueue[Callable[[], None] | None]()
        self._is_over = False

    def begin(self, run: Callable[[], None]) -> None:
        """Has something run for which a share was taken: there is a thread for each share."""
        if self._is_over:
            raise RuntimeError("the threads have ended")
        if self.shares.total - self.shares.free > len(self._threads):
            # One that a process left behind keeps it from ending no more than a power cut does.
            thread = threading.Thread(target=self._live, name=self._name, daemon=True)
            thread.start()
            self._threads.append(thread)
        self._waiting.put(run)

    def end(self) -> None:
        """Waits until all that was begun is done."""
        self._is_over = True
        for _ in self._threads:
            self._waiting.put(None)
        while self._threads:
            self._threads.pop().join()

    def _live(self) -> None:
        while (run := self._waiting.get()) is not None:
            run()
            del run  # What it holds is not to stay until the next comes.


@dataclass(frozen=True, slots=True)
class _Task:
    """What is done in a thread, for somebody in the loop."""

    loop: asyncio.AbstractEventLoop
    told: "asyncio.Future[Any]"
    give_back: Callable[[], None]

    def run(self, context: Context, function: Callable[[], object]) -> None:
        """Does it, and has the loop tell of it."""
        made, failure = None, None
        try:
            made = context.run(function)
        except BaseException as exc:  # noqa: BLE001 - a test's power cut too: who waits raises it
            failure = exc
        try:
            with suppress(RuntimeError):  # The loop has ended, and nobody waits there.
                self.loop.call_soon_threadsafe(self._tell, made, failure)
        finally:
            # A failure holds this frame, which is not to hold it in turn, nor what was asked for.
            del self, made, failure, context, function

    def _tell(self, made: object, failure: BaseException | None) -> None:
        self.give_back()
        if self.told.done():  # Cancelled: nobody waits.
            return
        if failure is None:
            self.told.set_result(made)
        else:
            self.told.set_exception(failure)


class Turns:
    """Who is answered in the loop itself, where that takes less time than to wake a thread.

    A few of each tenant in every round of the loop: what more of its requests came together waits
    for threads, as all others do, and keeps nobody from the loop.
    """

    def __init__(self, most: int) -> None:
        self._most, self._taken = most, dict[str, int]()

    def is_ready(self, tenant: str) -> bool:
        """Takes a turn for a tenant, if it has one left."""
        taken = self._taken.get(tenant, 0)
        if taken >= self._most:
            return False
        if not self._taken:
            asyncio.get_running_loop().call_soon(self._taken.clear)
        self._taken[tenant] = taken + 1
        return True


@dataclass(frozen=True, slots=True)
class Seat:
    """Whose work is being done, and the threads for it."""

    tenant: str
    threads: Threads


SEAT: ContextVar[Seat | None] = ContextVar("seat", default=None)
"""Set when a request is admitted."""


def tenant_here() -> str:
    """Returns whose request this is."""
    seat = SEAT.get()
    return STRANGERS if seat is None else seat.tenant


async def in_thread(
    function: Callable[..., T],
    *arguments: object,
    work: Work = Work.QUICK,
    line: str | None = None,
) -> T:
    """Runs a function in one of the threads that the tenant whose request this is has.

    What is done in one `line` is done one after the other, and waits without a thread.
    """
    seat = SEAT.get()
    if seat is None:  # What the process does for itself is nobody's.
        return await asyncio.to_thread(function, *arguments)
    return await seat.threads.run(seat.tenant, work, partial(function, *arguments), line=line)
