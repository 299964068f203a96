"""Asks a namespace from an event loop, whichever door it is behind."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast import AsyncClient, Client, Namespace, Workspace

T = TypeVar("T")

Agent = Namespace | Client | AsyncClient
"""One agent's world: in this process, or on a server."""


def within(place: Agent | Workspace) -> Agent:
    """Returns the namespace that is meant: of a directory, the one that it is attached to."""
    return place.namespace if isinstance(place, Workspace) else place


async def ask(agent: Agent, method: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Calls a method of a namespace; one that waits does so in a thread."""
    if isinstance(agent, AsyncClient):
        return await method(*args, **named)
    return await asyncio.to_thread(method, *args, **named)


async def carry_through(work: Awaitable[T]) -> T:
    """Waits for the end of a change, however often whoever waits is cancelled; then is cancelled.

    A change that was begun may be done already: nobody may take it for undone, or do it again
    while it goes on.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # Looked at: nobody else will, and the loop would complain.
        raise cancelled
    return task.result()
