"""The loop of a server: at each of its turns, all who knock are let in.

uvloop lets in one at a turn. A turn answers everybody who has asked, so that whoever keeps some
hundred connections busy, without a key, would have newcomers wait for a turn each: at 25 a second.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

import uvloop

from holdfast.server.tls import HANDSHAKE_S

MOST_AT_ONCE: Final = 256
"""Newcomers of one turn: each costs the loop 50 us."""

CLOSED: Final = -1
"""The descriptor of a socket that is closed."""


class Loop(uvloop.Loop):
    """A loop whose servers let in more than one at a turn."""

    async def create_server(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as uvloop has it
        """Returns a server that listens; one that was given a socket lets in all who wait."""
        if named.get("ssl") is not None:
            named["ssl_handshake_timeout"] = HANDSHAKE_S
        server = await super().create_server(*arguments, **named)
        listening = named.get("sock")
        if listening is None:
            return server
        return _Door(self, server, arguments[0], listening, named.get("ssl"))


class _Door:
    """A server, with one more ear at its socket."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        server: asyncio.AbstractServer,
        make_protocol: Callable[[], asyncio.Protocol],
        listening: socket.socket,
        context: ssl.SSLContext | None,
    ) -> None:
        self._loop, self._server, self._make_protocol = loop, server, make_protocol
        self._context, self._patience_s = context, None if context is None else HANDSHAKE_S
        # Of its own: the loop has the other already.
        self._ear = listening.dup()
        self._ear.settimeout(0)
        self._coming = set[asyncio.Task[object]]()
        loop.add_reader(self._ear.fileno(), self._let_in)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a server has
        return getattr(self._server, name)

    def close(self) -> None:
        """Lets nobody in any more."""
        if self._ear.fileno() != CLOSED:
            self._loop.remove_reader(self._ear.fileno())
            self._ear.close()
        self._server.close()

    def _let_in(self) -> None:
        for _ in range(MOST_AT_ONCE):
            try:
                newcomer, _ = self._ear.accept()
            except OSError:
                # Nobody is left, or there is no room: the loop's own ear tells of that.
                return
            newcomer.settimeout(0)
            task = self._loop.create_task(self._take(newcomer))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    async def _take(self, newcomer: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol,
                newcomer,
                ssl=self._context,
                ssl_handshake_timeout=self._patience_s,
            )
        except OSError:
            newcomer.close()
