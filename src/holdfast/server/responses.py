"""What is answered: bytes that are there, or a stream of them.

A route returns one of these only where it has something to say beside its answer. Who sends it adds
what every answer says.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from holdfast.server.asgi import Header, Receive, Send

JSON: Final = "application/json"
NO_CONTENT: Final = 204
LARGE_BYTES: Final = 256 << 10
"""A larger answer takes room in memory until it has been taken, and is handed over in pieces of
this size: no more than the last of them is left when that room is given back."""

_JSON_TYPE: Final = (b"content-type", b"application/json")


class Response:
    """An answer that is there as a whole."""

    __slots__ = ("body", "headers", "media_type", "status")

    guard: ClassVar[Sequence[Header] | None] = None
    """What a browser is told that it may do with it; None for as usual."""

    def __init__(
        self,
        body: bytes = b"",
        *,
        status: int = 200,
        media_type: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.body, self.status, self.media_type = body, status, media_type
        self.headers = [] if headers is None else _encoded(headers)
        if status != NO_CONTENT:  # Which has neither a type nor a length.
            self.headers.append(_type_of(media_type))
            self.headers.append((b"content-length", b"%d" % len(body)))

    @property
    def weight(self) -> int:
        """What of it is in memory until its client has taken it."""
        return len(self.body)

    def replace(self, body: bytes) -> None:
        """Says the same in other bytes."""
        self.body = body
        self.headers = [each for each in self.headers if each[0] != b"content-length"]
        self.headers.append((b"content-length", b"%d" % len(body)))

    async def send(self, _receive: Receive, send: Send, more: Iterable[Header]) -> None:
        """Sends it, with more headers."""
        headers = [*self.headers, *more]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        body = self.body
        if len(body) > LARGE_BYTES:
            last = (len(body) - 1) // LARGE_BYTES * LARGE_BYTES
            for start in range(0, last, LARGE_BYTES):
                piece = body[start : start + LARGE_BYTES]
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            body = body[last:]
        await send({"type": "http.response.body", "body": body, "more_body": False})


class Stream:
    """An answer that is made while it is sent, and no longer than somebody takes it."""

    __slots__ = ("headers", "media_type", "pieces", "status", "weight")

    guard: ClassVar[None] = None

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        *,
        media_type: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        weight: int = 0,
    ) -> None:
        self.pieces, self.status, self.media_type = pieces, status, media_type
        self.weight = weight
        """What of it is in memory at a time; 0 where something else bounds how many there are."""
        self.headers = [*_encoded(headers or {}), _type_of(media_type)]

    async def send(self, receive: Receive, send: Send, more: Iterable[Header]) -> None:
        """Sends it, with more headers; gives it up when the client goes away."""
        headers = [*self.headers, *more]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await unless_gone(self._send_pieces(send), receive)

    async def _send_pieces(self, send: Send) -> None:
        pieces = self.pieces
        try:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            # A generator that nobody asks again would hold what it has open.
            if (close := getattr(pieces, "aclose", None)) is not None:
                await close()


async def unless_gone(work: Coroutine[Any, Any, object], receive: Receive) -> None:
    """Does something to its end; gives it up when the client goes away."""
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(wait_until_gone(receive))
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        doing.cancel()
    with suppress(asyncio.CancelledError):
        await doing


async def wait_until_gone(receive: Receive) -> None:
    """Waits until the client has gone; what it sends until then nobody wants."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _type_of(media_type: str) -> Header:
    if media_type == JSON:
        return _JSON_TYPE
    is_bare = media_type.startswith("text/") and "charset" not in media_type
    return b"content-type", f"{media_type}{'; charset=utf-8' if is_bare else ''}".encode("latin-1")


def _encoded(headers: Mapping[str, str]) -> list[Header]:
    return [
        (name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()
    ]
