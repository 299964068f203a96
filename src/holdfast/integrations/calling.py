"""Asks a namespace, here or on a server, from frameworks that await everything.

Both doors are synchronous and safe to use from many threads, so one code serves both, in a thread.
What was begun is over before whoever asked for it goes on, cancelled or not: a thread cannot be
stopped, and a request that was sent may have arrived. Nothing is written behind somebody's back who
believes to have stopped it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

from holdfast import AsyncClient, Client, Namespace, Workspace
from holdfast.errors import InvalidValue

Agent = Namespace | Client
"""One agent's world: in this process, or on a server."""

Place = Agent | Workspace
"""The same, or a directory that is attached to one."""

AnyAgent = Agent | AsyncClient
"""An agent's world, or a client whose methods are awaited."""

P = ParamSpec("P")
T = TypeVar("T")


def within(place: Place) -> Agent:
    """Returns the namespace that is meant: of a directory, the one that it is attached to.

    Raises `InvalidValue` for what is neither.
    """
    agent = place.namespace if isinstance(place, Workspace) else place
    if isinstance(agent, Namespace | Client):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped callers
        return agent
    message = f"a holdfast.Namespace or a holdfast.Client is asked for, not {type(agent).__name__}"
    raise InvalidValue(message)


async def aside(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Returns what a call returns that takes its time, made in a thread."""
    return await carry_through(asyncio.to_thread(call, *args, **kwargs))


async def ask(agent: AnyAgent, method: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Calls a method of a namespace; one that waits does so in a thread."""
    if isinstance(agent, AsyncClient):
        return await method(*args, **named)
    return await asyncio.to_thread(method, *args, **named)


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
