"""Asks a namespace from an event loop, whichever door it is behind."""

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast import AsyncClient
from holdfast.integrations import calling

Agent = calling.Agent | AsyncClient
"""One agent's world: in this process, or on a server."""


async def ask(agent: Agent, method: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Calls a method of a namespace; one that waits does so in a thread."""
    if isinstance(agent, AsyncClient):
        return await method(*args, **named)
    return await asyncio.to_thread(method, *args, **named)
