"""Tells a route that computes whether anybody still waits for its answer.

A client that has gone, or a server that is about to stop, has no use for it. A route runs in a
thread, which nobody can end: it is handed a question that it asks now and then.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from holdfast.server.asgi import Receive
from holdfast.server.responses import wait_until_gone

IsGone = Callable[[], bool]
"""Says whether nobody waits any more; asked from any thread. For routes that read no body."""


@asynccontextmanager
async def watching(receive: Receive, is_stopping: IsGone) -> AsyncGenerator[IsGone]:
    """Lends the question, and looks for the answer until the block ends."""
    gone = threading.Event()

    async def look() -> None:
        await wait_until_gone(receive)
        gone.set()

    looking = asyncio.create_task(look())
    try:
        yield lambda: gone.is_set() or is_stopping()
    finally:
        looking.cancel()
