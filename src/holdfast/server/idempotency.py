"""Idempotency-Key: a change that is repeated under the same name does nothing twice.

The answer of one that went well is kept for a day, and given again with the header
`Idempotent-Replayed: true`. It is kept in the transaction of what was done, so that a server that
dies between the two does neither. One that failed is not kept: it may be tried again. Of an answer
that holds a secret, or is too large, only that there was one is kept: repeating it is a conflict,
and not a second key. A body that is too large to be compared is refused if it bears a name.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from blake3 import blake3
from litestar.connection import ASGIConnection
from litestar.enums import ScopeType
from litestar.middleware import ASGIMiddleware
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send
from litestar.utils.scope.state import ScopeState

from holdfast.engine.replies import LEASE, Replies, reply_of
from holdfast.engine.replying import Replying
from holdfast.errors import (
    HoldfastError,
    ReplyNotKept,
    RequestRunning,
    TooLarge,
    Unavailable,
)
from holdfast.model_replies import Asked, Reply, ReplyPlace
from holdfast.server.callers import Caller
from holdfast.server.problems import Unfit
from holdfast.server.threads import in_thread

T = TypeVar("T")

AT_ONCE: Final = {"claimed": False}
"""`opt` of a route that is not quick, and whose work is undone with its transaction all the same:
of the same request twice at once, one need not wait for the other."""

SECRET: Final = {"secret": True}
"""`opt` of a route whose answer is shown once: it is not kept."""

HEADER: Final = b"idempotency-key"
METHODS: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
"""All that change something: a second PUT may be a second version, a second DELETE a 404."""

MAX_NAME_CHARS: Final = 255
MAX_BODY_BYTES: Final = 8 << 20
MAX_ANSWER_BYTES: Final = 1 << 20
MAX_PATH_CHARS: Final = 200
"""Longer ones are hashed: an index has no room for what an attacker may call a path."""

PATIENCE_S: Final = 10.0
PAUSE_S: Final = 0.05
RENEWS_S: Final = LEASE.total_seconds() / 3
_SUCCESS: Final = range(200, 300)
_NO_CONTENT: Final = 204
_NOT_KEPT: Final = 409
"""What is kept in place of an answer that is not."""

_JSON: Final = "application/json"


class Idempotency(ASGIMiddleware):
    """Stands behind the admission: names belong to keys."""

    scopes = (ScopeType.HTTP,)

    async def handle(self, scope: Scope, receive: Receive, send: Send, next_app: ASGIApp) -> None:
        """Passes a request on, unless its answer is known."""
        caller: Caller | None = scope["state"].get("caller")
        method = cast("HTTPScope", scope)["method"]
        name = _name_of(scope) if method in METHODS else None
        if caller is None or not name:
            await next_app(scope, receive, send)
            return
        if len(name) > MAX_NAME_CHARS or not name.isprintable():
            message = f"Idempotency-Key has {MAX_NAME_CHARS} printable characters at the most"
            raise Unfit(message, param="Idempotency-Key")
        body = await _read(receive)
        place = ReplyPlace(caller.key.id, method, _path_of(scope), name)
        replies = caller.vault.replies
        look = partial(replies.look, place, _fingerprint(scope, body))
        is_claimed = scope["route_handler"].opt.get("claimed", True)
        begin = partial(_claimed, replies, look) if is_claimed else look
        asked = await _patiently(begin, unless=RequestRunning)
        if asked.answer is None:
            held = await _work(caller, asked, scope, _again(body), next_app)
            if _summary(held)[0] not in _SUCCESS:
                # The framework takes what is held back for sent, and would answer nothing else.
                ScopeState.from_scope(scope).response_started = False
                # Somebody else may have done it meanwhile, or we, and the database did not say so.
                asked = await _again_asked(asked, look)
            if asked.answer is None:
                for message in held:
                    await send(message)
                return
        await _replay(asked.answer, send)


@dataclass(frozen=True, slots=True)
class _Answering:
    """What keeps the answer of a request under a name."""

    asked: Asked
    catalog: Replying

    def to_keep(self, status: int, media_type: str, body: bytes, *, is_secret: bool) -> Reply:
        """Returns what is kept of an answer."""
        if is_secret or len(body) > MAX_ANSWER_BYTES:
            status, media_type, body = _NOT_KEPT, "", b""
        return reply_of(self.asked.mine, status=status, media_type=media_type, body=body)


_ANSWERING: ContextVar[_Answering | None] = ContextVar("answering", default=None)
"""Set where a request is begun, and inherited by the threads that work on it."""


def kept_with_work(make: Callable[[], T], *, status: int, is_secret: bool) -> T:
    """Does something and makes its answer, as JSON; both happen, or neither.

    In the thread that does it: from here on others may have to wait for what is not yet committed.
    """
    answering = _ANSWERING.get()
    if answering is None:
        return make()
    with answering.catalog.answering():
        answer = make()
        if answer is None or isinstance(answer, bytes):
            kept = answering.to_keep(status, _JSON, answer or b"", is_secret=is_secret)
            answering.catalog.keep(kept)
    return answer


async def _work(
    caller: Caller, asked: Asked, scope: Scope, receive: Receive, app: ASGIApp
) -> list[Message]:
    """Returns the answer of a request, held back until it is kept."""
    replies, opt = caller.vault.replies, scope["route_handler"].opt
    answering = _Answering(asked, replies.begin(asked))
    scope["state"]["caller"] = replace(caller, vault=caller.vault.replying(answering.catalog))
    _ANSWERING.set(answering)
    held: list[Message] = []

    async def hold(message: Message) -> None:
        held.append(message)

    async with _renewing(replies, asked) if asked.is_claimed else nullcontext():
        try:
            await app(scope, receive, hold)
        except Exception:
            await _release(replies, asked)
            raise
    try:
        if not answering.catalog.is_kept:
            await _settle(replies, answering, held, is_secret=bool(opt.get("secret")))
    except Exception:
        ScopeState.from_scope(scope).response_started = False  # As above.
        raise
    return held


async def _settle(
    replies: Replies, answering: _Answering, held: list[Message], *, is_secret: bool
) -> None:
    """Keeps an answer that says that something was done; forgets any other."""
    status, media_type, body = _summary(held)
    if status not in _SUCCESS:
        await _release(replies, answering.asked)
        return
    done = answering.to_keep(status, media_type, body, is_secret=is_secret)
    # It is done by now, and who is told otherwise does it again.
    await _patiently(partial(replies.keep, answering.asked, done), unless=Unavailable)


@asynccontextmanager
async def _renewing(replies: Replies, asked: Asked) -> AsyncGenerator[None]:
    """Keeps a claim for as long as the work takes."""
    over = asyncio.Event()

    async def renew() -> None:
        while not over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), RENEWS_S)
                return
            with suppress(HoldfastError):  # Asked again in time, before the lease ends.
                await in_thread(replies.renew, asked)

    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        over.set()
        await renewing


async def _release(replies: Replies, asked: Asked) -> None:
    if asked.is_claimed:
        with suppress(Unavailable):  # The lease ends by itself; what went wrong is told anyway.
            await in_thread(replies.release, asked)


def _claimed(replies: Replies, look: Callable[[], Asked]) -> Asked:
    """Returns a request that is ours to answer, or has its answer; raises `RequestRunning`."""
    asked = look()
    return replies.claim(asked) if asked.answer is None else asked


async def _again_asked(asked: Asked, look: Callable[[], Asked]) -> Asked:
    """Returns a request with the answer that it may have by now."""
    with suppress(RequestRunning, Unavailable):
        return await _patiently(look, unless=RequestRunning)
    return asked


def _name_of(scope: Scope) -> str | None:
    found = [value for name, value in scope["headers"] if name == HEADER]
    return found[0].decode("latin-1") if found else None


async def _patiently(act: Callable[[], T], *, unless: type[HoldfastError]) -> T:
    """Does something in a thread; tries again for a little while if this is raised."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await in_thread(act)
        except unless:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(PAUSE_S)


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Unfit("the body ended before it was complete")
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            text = f"a request with an Idempotency-Key has {MAX_BODY_BYTES} bytes at the most"
            raise TooLarge(text)
        if not message.get("more_body"):
            return bytes(body)


def _again(body: bytes) -> Receive:
    """Returns what gives a body that was read already once more."""
    waiting: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:  # noqa: ANN401 - one of several kinds of messages
        if waiting:
            return waiting.pop()
        # Nobody else reads here: a client that goes away is noticed when it is answered.
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    return receive


async def _replay(reply: Reply, send: Send) -> None:
    if reply.status == _NOT_KEPT:
        raise ReplyNotKept
    headers = [(b"idempotent-replayed", b"true")]
    if reply.status != _NO_CONTENT:  # Which has neither a type nor a length.
        headers.append((b"content-type", reply.media_type.encode()))
        headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status or 200, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body, "more_body": False})


def _summary(held: list[Message]) -> tuple[int, str, bytes]:
    """Returns status, media type and body of an answer that was held back."""
    status, media_type, body = 0, "application/json", bytearray()
    for message in held:
        if message["type"] == "http.response.start":
            status = message["status"]
            for name, value in message["headers"]:
                if name.lower() == b"content-type":
                    media_type = value.decode("latin-1")
        elif message["type"] == "http.response.body":
            body += message.get("body", b"")
    return status, media_type, bytes(body)


def _path_of(scope: Scope) -> str:
    """Returns a path that a row can hold."""
    path = scope["path"]
    if len(path) <= MAX_PATH_CHARS and path.isascii() and path.isprintable():
        return path
    return f"blake3:{blake3(path.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _fingerprint(scope: Scope, body: bytes) -> bytes:
    headers = ASGIConnection[Any, Any, Any, Any](scope).headers
    hasher = blake3()
    for name in ("x-namespace", "content-type"):
        # Each with its length before it: two requests never run together to the same bytes.
        _add(hasher, headers.get(name, "").encode("latin-1", "replace"))
    _add(hasher, scope["query_string"])
    _add(hasher, body)
    return hasher.digest()


def _add(hasher: blake3, part: bytes) -> None:
    hasher.update(len(part).to_bytes(8, "big"))
    hasher.update(part)
