"""Tells a route that computes whether anybody still waits for its answer.

A client that has gone, or a server that is about to stop, has no use for it. A route runs in a
thread, which nobody can end: it is handed a question that it asks now and then.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from litestar import Request
from litestar.datastructures import State
from litestar.di import Provide

IsGone = Callable[[], bool]
"""Says whether nobody waits any more; asked from any thread."""


async def provide_is_gone(request: Request[Any, Any, State]) -> AsyncGenerator[IsGone]:
    """Provides the question, and looks for the answer until the route is done."""
    gone = threading.Event()
    is_stopping: IsGone = request.app.state["is_stopping"]

    async def look() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    looking = asyncio.create_task(look())
    try:
        yield lambda: gone.is_set() or is_stopping()
    finally:
        looking.cancel()


UNTIL_GONE: Final = {"is_gone": Provide(provide_is_gone)}
"""`dependencies` of a route that reads no body and takes `is_gone`."""
