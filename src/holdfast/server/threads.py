"""The threads that routes run in: of several kinds, each of which the tenants share.

A route that may take seconds keeps no quick one waiting, and the requests of one tenant keep
nobody else's waiting: beyond its share of a kind, a tenant waits for itself. Whose request it is
that runs is known from its admission on, and inherited by all that it starts.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from holdfast.behalf import BEHALF
from holdfast.operations.operation import Work
from holdfast.server.pacing import Pace
from holdfast.server.sharing import STRANGERS, Shares

T = TypeVar("T")


TOTALS: Final = {
    Work.ADMISSION: 4,
    Work.QUICK: 8,
    Work.SLOW: 6,
    Work.LONG: 4,
    Work.HEAVY: 4,
    Work.COSTLY: 2,
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
        self._shares = {work: Shares(total, most=MOST.get(work)) for work, total in TOTALS.items()}
        self._pools = {
            work: ThreadPoolExecutor(total, thread_name_prefix=f"holdfast-{work}")
            for work, total in TOTALS.items()
        }

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """In the end, waits for what still runs in them."""
        with ExitStack() as stack:
            for pool in self._pools.values():
                stack.enter_context(pool)
            yield

    async def run(self, tenant: str, work: Work, function: Callable[[], T]) -> T:
        """Runs a function in a thread, once it is the tenant's turn; returns what it does."""
        shares = self._shares[work]
        await shares.take(tenant)
        running: Future[T] | None = None
        try:
            context = copy_context()
            context.run(BEHALF.set, tenant)
            if work is Work.LONG:
                function = partial(self.pace.run, function)
            running = self._pools[work].submit(context.run, function)
            return await asyncio.wrap_future(running)
        finally:
            give_back = partial(shares.give_back, tenant)
            if running is None or running.done():
                give_back()
            else:
                # Nobody waits for it any more; the thread is taken until it is done all the same.
                loop = asyncio.get_running_loop()
                running.add_done_callback(lambda _: loop.call_soon_threadsafe(give_back))


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


async def in_thread(function: Callable[..., T], *arguments: object, work: Work = Work.QUICK) -> T:
    """Runs a function in one of the threads that the tenant whose request this is has."""
    seat = SEAT.get()
    if seat is None:  # What the process does for itself is nobody's.
        return await asyncio.to_thread(function, *arguments)
    return await seat.threads.run(seat.tenant, work, partial(function, *arguments))
