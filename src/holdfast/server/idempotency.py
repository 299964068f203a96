"""Idempotency-Key: a change that is repeated under the same name does nothing twice.

The answer of one that went well is kept for a day, and given again with the header
`Idempotent-Replayed: true`. It is kept in the transaction of what was done, so that a server that
dies between the two does neither. One that failed is not kept: it may be tried again. Of an answer
that holds a secret, or is too large, only that there was one is kept: repeating it is a conflict,
and not a second key. What only reads is answered anew if its answer is long. A body that is too
large to be compared is refused if it bears a name.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

from blake3 import blake3

from holdfast.engine.core.replying import Replying
from holdfast.engine.journal.replies import LEASE, NOT_KEPT, Replies, reply_of
from holdfast.errors import (
    HoldfastError,
    ReplyNotKept,
    RequestRunning,
    TooLarge,
    Unavailable,
)
from holdfast.model.replies import Asked, Reply, ReplyPlace
from holdfast.server.asgi import Message, Receive
from holdfast.server.problems import Unfit
from holdfast.server.requests import Request
from holdfast.server.responses import JSON, Response, Stream
from holdfast.server.table import Entry
from holdfast.server.threads import in_thread
from holdfast.wire import MAX_NAMED_BYTES

T = TypeVar("T")
Answer = Response | Stream

HEADER: Final = b"idempotency-key"
METHODS: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
"""All that change something: a second PUT may be a second version, a second DELETE a 404."""

MAX_NAME_CHARS: Final = 255
MAX_ANSWER_BYTES: Final = 1 << 20
MAX_READ_BYTES: Final = 4 << 10
"""What is kept of a request that only read: with a larger answer it is answered anew, which does
nothing twice. Else whoever reads under ever new names would fill a disk beside every quota."""

MAX_PATH_CHARS: Final = 200
"""Longer ones are hashed: an index has no room for what an attacker may call a path."""

PATIENCE_S: Final = 10.0
PAUSE_S: Final = 0.05
RENEWS_S: Final = LEASE.total_seconds() / 3
_SUCCESS: Final = range(200, 300)


def name_of(request: Request) -> str | None:
    """Returns the name that a request bears, if that means anything: names belong to keys."""
    if request.method not in METHODS or request.caller is None:
        return None
    return request.header(HEADER) or None


async def answered(
    entry: Entry, request: Request, name: str, work: Callable[[], Awaitable[Answer]]
) -> Answer:
    """Returns the answer of a request under a name: what `work` does, unless it is known."""
    if len(name) > MAX_NAME_CHARS or not name.isprintable():
        message = f"Idempotency-Key has {MAX_NAME_CHARS} printable characters at the most"
        raise Unfit(message, param="Idempotency-Key")
    body = await _read(request)
    request.receive = _again(body)
    caller, route = request.admitted, entry.route
    place = ReplyPlace(caller.key.id, request.method, _path_of(request), name)
    replies, named = caller.vault.replies, (place, _fingerprint(request, body))
    look = partial(replies.look, *named)
    asked = None
    if not route.claims and request.services.turns.is_ready(caller.vault.tenant_id):
        # Most are new, and to find that takes less time than to wake a thread.
        asked = replies.find_new(*named)
    if asked is None:
        begin = partial(_claimed, replies, look) if route.claims else look
        asked = await _patiently(begin, unless=RequestRunning)
    if asked.answer is None:
        answering = _Answering(asked, replies.begin(asked))
        vault = caller.vault.replying(answering.catalog)
        request.caller = replace(caller, vault=vault)
        _ANSWERING.set(answering)
        async with _renewing(replies, asked) if asked.is_claimed else nullcontext():
            done = await work()
        if not answering.catalog.is_kept:
            await _settle(replies, answering, done, is_secret=route.is_secret)
        if done.status not in _SUCCESS:
            # Somebody else may have done it meanwhile, or we, and the database did not say so.
            asked = await _again_asked(asked, look)
        if asked.answer is None:
            return done
    return _replayed(asked.answer)


@dataclass(frozen=True, slots=True)
class _Answering:
    """What keeps the answer of a request under a name."""

    asked: Asked
    catalog: Replying

    def to_keep(
        self, status: int, media_type: str, body: bytes | None, *, is_secret: bool
    ) -> Reply:
        """Returns what is kept of an answer; of one that was not there as a whole, nothing."""
        if is_secret or body is None or len(body) > MAX_ANSWER_BYTES:
            status, media_type, body = NOT_KEPT, "", b""
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
            kept = answering.to_keep(status, JSON, answer or b"", is_secret=is_secret)
            answering.catalog.keep(kept)
    return answer


async def _settle(
    replies: Replies, answering: _Answering, done: Answer, *, is_secret: bool
) -> None:
    """Keeps an answer that says that something was done; forgets any other."""
    body = done.body if isinstance(done, Response) else None
    is_long = body is None or len(body) > MAX_READ_BYTES
    if done.status not in _SUCCESS or (is_long and not answering.catalog.has_acted):
        await _release(replies, answering.asked)
        return
    kept = answering.to_keep(done.status, done.media_type, body, is_secret=is_secret)
    # It is done by now, and who is told otherwise does it again.
    await _patiently(partial(replies.keep, answering.asked, kept), unless=Unavailable)


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


async def _read(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_NAMED_BYTES:
            text = f"a request with an Idempotency-Key has {MAX_NAMED_BYTES} bytes at the most"
            raise TooLarge(text)
    return bytes(body)


def _again(body: bytes) -> Receive:
    """Returns what gives a body that was read already once more."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if waiting:
            return waiting.pop()
        # Nobody else reads here: a client that goes away is noticed when it is answered.
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    return receive


def _replayed(reply: Reply) -> Response:
    if reply.status == NOT_KEPT:
        raise ReplyNotKept
    return Response(
        reply.body,
        status=reply.status or 200,
        media_type=reply.media_type,
        headers={"Idempotent-Replayed": "true"},
    )


def _path_of(request: Request) -> str:
    """Returns a path that a row can hold."""
    path = request.path
    if len(path) <= MAX_PATH_CHARS and path.isascii() and path.isprintable():
        return path
    return f"blake3:{blake3(path.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _fingerprint(request: Request, body: bytes) -> bytes:
    hasher = blake3()
    for name in (b"x-namespace", b"content-type"):
        # Each with its length before it: two requests never run together to the same bytes.
        _add(hasher, request.headers.get(name, b""))
    _add(hasher, request.scope["query_string"])
    _add(hasher, body)
    return hasher.digest()


def _add(hasher: blake3, part: bytes) -> None:
    hasher.update(len(part).to_bytes(8, "big"))
    hasher.update(part)
