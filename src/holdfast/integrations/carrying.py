"""What was begun is over before whoever asked for it goes on, cancelled or not.

A thread cannot be stopped, and a request that was sent may have arrived: nothing is written behind
somebody's back who believes to have stopped it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def _nothing() -> None:
    pass


async def carry_through(work: Awaitable[T], *, stop: Callable[[], None] = _nothing) -> T:
    """Waits for the end of a piece of work, however often whoever waits is cancelled.

    `stop` is called then, which may make it end sooner; when it has, `CancelledError` goes on.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
            stop()
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # Looked at: nobody else will, and the loop would complain.
    raise cancelled
