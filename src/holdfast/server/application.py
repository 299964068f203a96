"""The application: what becomes of a request, from its first byte to the line that tells of it.

In this order: whether its key is over its limit, which route it is for, who sends it and whether
that key is for this, whether there is room for its body, whether it was answered before, and only
then the route itself. What any of them raises is answered, too.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from holdfast.server import idempotency
from holdfast.server.asgi import Receive, Scope, Send
from holdfast.server.bodies import let_in
from holdfast.server.calling import call
from holdfast.server.failures import Rephrase, answer_to, say_plainly
from holdfast.server.observing import Observer, request_id_of, tracer
from holdfast.server.refusing import Refusing
from holdfast.server.requests import Request, Services
from holdfast.server.responses import Response, Stream
from holdfast.server.table import Entry, Table

Admit = Callable[[Entry, Request], Awaitable[None]]
Lifespan = Callable[[], AbstractAsyncContextManager[None]]


class Application:
    """All routes, behind whoever admits."""

    def __init__(
        self,
        table: Table,
        services: Services,
        *,
        refusing: Refusing,
        admit: Admit,
        observer: Observer,
        rephrase: Rephrase = say_plainly,
        lifespans: Sequence[Lifespan] = (),
    ) -> None:
        self._table, self._services = table, services
        self._refusing, self._admit = refusing, admit
        self._observer, self._lifespans = observer, lifespans
        self._rephrase = rephrase

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, or lives for as long as the server does."""
        if scope["type"] == "http":
            begun = time.monotonic_ns()
            request = Request(scope, receive, self._services, request_id_of(scope["headers"]))
            if self._observer.has_spans:
                with tracer.start_as_current_span("request"):
                    await self._serve(request, send, begun)
            else:
                await self._serve(request, send, begun)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _serve(self, request: Request, send: Send, begun: int) -> None:
        status = 0
        try:
            response = await self._answer(request)
            status = response.status
            more = self._observer.headers(request, response.media_type, begun)
            await response.send(request.receive, send, more)
        finally:
            request.give_back()
            self._refusing.note(request)
            self._observer.note(request, status, begun)

    async def _answer(self, request: Request) -> Response | Stream:
        try:
            await self._refusing.check(request)
            entry = self._table.find(request)
            await self._admit(entry, request)
            await let_in(request, entry.max_body_bytes)
            name = idempotency.name_of(request)
            if name is None:
                return await call(entry, request)

            async def work() -> Response | Stream:
                try:
                    return await call(entry, request)
                except Exception as exc:  # noqa: BLE001 - as below
                    return answer_to(request, exc, self._rephrase)

            return await idempotency.answered(entry, request, name, work)
        except Exception as exc:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            return answer_to(request, exc, self._rephrase)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        has_begun = False
        try:
            async with AsyncExitStack() as stack:
                for lifespan in self._lifespans:
                    await stack.enter_async_context(lifespan())
                await send({"type": "lifespan.startup.complete"})
                has_begun = True
                await receive()
        except Exception as exc:
            word = "shutdown" if has_begun else "startup"
            await send({"type": f"lifespan.{word}.failed", "message": str(exc)})
            raise
        await send({"type": "lifespan.shutdown.complete"})
