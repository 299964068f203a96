"""Sends calls and awaits their answers: `sending.py`, for an event loop."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, aclosing
from typing import Any, TypeVar

import httpx2

from holdfast.errors import InvalidValue
from holdfast.sdk.attempts import Pause, answer_of, conversation, refusal_of
from holdfast.sdk.calls import Call, Download, Feed, Pages, Steps
from holdfast.sdk.content import Content
from holdfast.sdk.lines import Line
from holdfast.sdk.reception import FeedReader, Reception, opened, taking_back, waits_for

T = TypeVar("T")


class Connections:
    """Connections to a server: those of the event loop that runs.

    A socket can be awaited where it was opened, and nowhere else. A program may run one loop after
    the other (`asyncio.run` twice, a loop for each test): the next one gets new connections.
    """

    def __init__(self, line: Line, http: httpx2.AsyncClient | None) -> None:
        self._given, self._is_encrypted = http, line.is_encrypted
        self._http = http or self._made()
        self._loop: asyncio.AbstractEventLoop | None = None

    def here(self) -> httpx2.AsyncClient:
        """Returns what sends requests from the running loop."""
        loop, before = asyncio.get_running_loop(), self._loop
        if before is loop or self._given is not None or self._http.is_closed:
            return self._http
        if before is not None:
            if not before.is_closed():
                raise InvalidValue("an AsyncClient is for one event loop: make one for each")
            self._http = self._made()
        self._loop = loop
        return self._http

    async def close(self) -> None:
        """Lets go of them; those of a loop that is over went with it."""
        if self._loop is not None and self._loop.is_closed() and not self._http.is_closed:
            self._http = self._made()
        await self._http.aclose()

    def _made(self) -> httpx2.AsyncClient:
        # What checks certificates takes as long to make as all the rest: only where there are some.
        return httpx2.AsyncClient(follow_redirects=False, verify=self._is_encrypted)


class AsyncSender:
    """One pool of connections to one server, for the tasks of one event loop."""

    def __init__(
        self,
        line: Line,
        *,
        http: httpx2.AsyncClient | Connections | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.line, self._sleep = line, sleep
        self._connections = http if isinstance(http, Connections) else Connections(line, http)

    def speaking(self, line: Line) -> "AsyncSender":
        """Returns one that speaks otherwise, over the same connections."""
        return AsyncSender(line, http=self._connections, sleep=self._sleep)

    async def close(self) -> None:
        """Lets go of the connections."""
        await self._connections.close()

    async def send(self, call: Call[T]) -> T:
        """Sends one call; returns its answer."""
        content = call.content
        with ExitStack() as stack:
            if content is not None and not content.is_ready:
                await asyncio.to_thread(stack.enter_context, content.made())
            return answer_of(call, await self._exchange(call, streams=False))

    async def run(self, steps: Steps[T]) -> T:
        """Sends one call after the other; returns what comes of them."""
        answer: Any = None
        error: Exception | None = None
        while True:
            try:
                call = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as done:
                return done.value
            answer, error = None, None
            try:
                answer = await self.send(call)
            except Exception as exc:  # noqa: BLE001 - the steps say whether it matters
                error = exc

    async def pages(self, pages: Pages[T]) -> AsyncIterator[T]:
        """Yields what is on one page after the other, each asked for when it is needed."""
        cursor, seen = None, 0
        while pages.limit is None or seen < pages.limit:
            page = await self.send(pages.call(cursor, pages.size(seen)))
            for item in page.items:
                if seen == pages.limit:
                    return
                yield item
                seen += 1
            cursor = pages.next_cursor(page, cursor)
            if cursor is None:
                return

    def stream(self, call: Call[bytes]) -> AsyncIterator[bytes]:
        """Yields an answer piece by piece; goes on where it broke off, if the server lets it."""
        return self._received(Reception(call, self.line))

    async def _received(self, reception: Reception) -> AsyncGenerator[bytes]:
        while True:
            response = await self._opened(reception.rest())
            try:
                reception.go_on(response)
                async for piece in response.aiter_bytes():
                    for part in reception.take(piece):
                        yield part
                reception.check_complete()
                break
            except httpx2.RequestError as exc:
                pause = reception.after(exc)
            finally:
                await response.aclose()
            await self._sleep(pause)

    async def save(self, download: Download[T]) -> T:
        """Writes an answer to a file, which is there whole or not at all."""
        with opened(download.target) as file:
            take_back = taking_back(file) if download.begins_again else None
            reception = Reception(download.call, self.line, take_back=take_back)
            # Closed whatever happens: what is cancelled gives its connection back at once.
            async with aclosing(self._received(reception)) as pieces:
                async for piece in pieces:
                    await asyncio.to_thread(file.write, piece)
                    count = reception.received
                    download.progress("receiving", count, reception.size or count)
        return download.result(reception.received)

    async def listen(self, feed: Feed[T]) -> AsyncIterator[T]:
        """Yields what is told, and connects again where the connection breaks."""
        reader, failures = FeedReader(feed), 0
        while True:
            try:
                response = await self._opened(reader.call())
                try:
                    async for piece in response.aiter_bytes():
                        failures = 0
                        for event in reader.take(piece):
                            yield event
                finally:
                    await response.aclose()
            except httpx2.RequestError as exc:
                failures += 1
                waits_for(failures, self.line, exc)
            await self._sleep(reader.pause(failures))

    async def _opened(self, call: Call[Any]) -> httpx2.Response:
        """Returns an answer whose body is still to come; raises what went wrong."""
        response = await self._exchange(call, streams=True)
        if not response.is_success:
            await response.aclose()
            raise refusal_of(response)
        return response

    async def _exchange(self, call: Call[Any], *, streams: bool) -> httpx2.Response:
        http = self._connections.here()
        steps = conversation(http, self.line, call, body_of=_pieces)
        step = next(steps)
        while True:
            try:
                if isinstance(step, Pause):
                    await self._sleep(step.seconds)
                    step = next(steps)
                    continue
                try:
                    response = await http.send(step, stream=streams)
                    if streams and not response.is_success:
                        await response.aread()
                except httpx2.RequestError as exc:
                    step = steps.throw(exc)
                else:
                    step = steps.send(response)
            except StopIteration as done:
                return done.value


async def _pieces(content: Content) -> AsyncIterator[bytes]:
    """Yields what is sent; read in a thread, since a disk may take its time."""
    pieces = iter(content)
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece
