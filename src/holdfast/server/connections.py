"""What a connection may take before its request is answered: bytes, headers, time, and a place.

Whoever can reach the port needs no key to hold a connection, so none is held for long. The head of
a request is bounded in bytes and has a deadline, which drops of it do not put off. A body has to
come at a rate that a bad line still has. An answer that nobody reads is given up, and so is one
that is read so slowly that it would stay for hours. Where there are as many connections as the
process can have, the one that has been without a request for the longest makes room. What is sent
before the last request was answered is not looked at until it is; what all connections have sent
and nobody has answered is bounded, too; and what comes after a body is no part of a head.

uvicorn parses, and has a deadline for idle connections; the rest is here. What the application
does about the size of a body is not.
"""

import asyncio
import http
import resource
import socket
import sys
from typing import Any, ClassVar, Final, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from holdfast.server.asgi import HAS_LEFT, LIVE
from holdfast.server.failures import Failure, Rephrase, say_plainly
from holdfast.server.observing import GUARD, request_id_of
from holdfast.wire import Problem

MAX_HEAD_BYTES: Final = 64 << 10
MAX_URL_BYTES: Final = 16 << 10
MAX_HEADERS: Final = 200

HEAD_S: Final = 20.0
"""From the first byte to the end of the head, and before the first byte."""

BODY_S: Final = 30.0
BODY_BYTES: Final = 8 << 10
"""What a body has to bring in each such time: 270 bytes a second, a tenth of a bad mobile line."""

HELD_BYTES: Final = 32 << 20
"""What all connections may hold together of heads whose requests are not answered, and of what was
sent after them: who comes to hold more is given up."""

OWN_BYTES: Final = 16 << 10
"""What each of them may hold beside that: more than any browser sends."""

LARGE_S: Final = 0.004
"""Between two heads that are larger than that: to parse one takes 250 us at the least, and hundreds
that came together would keep everybody waiting."""

HEADER_BYTES: Final = 128
REQUEST_BYTES: Final = 4 << 10
"""What a header takes beside its bytes, and a request that waits for the one before it: some come
with the end of a body."""

HEAD_PIECE: Final = 2 << 10
BODY_PIECE: Final = 16 << 10
"""What is parsed at a time where a head or a body is awaited: the smallest request has 18 bytes,
and each costs the loop 25 us before anybody can stop it. A piece ends where a head does."""
_END: Final = b"\r\n\r\n"
_ENDED: Final = (7, 8)
"""States of a connection as Linux counts them: closed, and closed by the other side."""


LINGER_S: Final = 2.0
"""How long a client that was refused has to read why."""

LINGER_BYTES: Final = 1 << 20
"""What is still taken of one that was refused: who sends more does not read, and whoever takes it
all has no time for others."""

WASTE_BYTES: Final = 16 << 20
"""What is taken in a second of all bodies whose requests were answered before they had come: a
client has to get rid of its own before it reads the answer, and nobody needs it. A megabyte costs
the loop 0.7 ms, and four clients that sent as fast as they could took a tenth of it."""

WASTE_S: Final = 60.0
"""How long such a body is taken at all."""

ANSWER_S: Final = 60.0
"""How long nothing of an answer may be taken; and how long all of it may be waited for, beside
what it takes at the rate below."""

ANSWER_RATE: Final = 64 << 10
"""Bytes a second that are taken of an answer at the least, all in all; of a live one, anything."""

RESERVED_FILES: Final = 256
"""What else a server opens: databases, packs, locks, the other side of webhooks."""

MOST_FILES: Final = 1 << 16

_GUARD: Final = "".join(f"{name.decode()}: {value.decode()}\r\n" for name, value in GUARD)

_CODES: Final = {
    http.HTTPStatus.BAD_REQUEST: "bad_request",
    http.HTTPStatus.REQUEST_TIMEOUT: "request_timeout",
    http.HTTPStatus.REQUEST_URI_TOO_LONG: "uri_too_long",
    http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "headers_too_large",
}


def allow_connections() -> int:
    """Lets the process open as many files as it may; returns how many connections that makes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(most - RESERVED_FILES, most // 2)


class Connection(HttpToolsProtocol):
    """One connection of a client."""

    _idle: ClassVar[dict["Connection", None]] = {}
    """Those of this process without a request, beginning with who has been so for the longest."""
    _most: ClassVar[int] = 0
    _wasting_until: ClassVar[float] = 0.0
    """When all that has come and nobody needs will have had its time."""
    _held_in_all: ClassVar[int] = 0
    _large_until: ClassVar[float] = 0.0
    """When all large heads will have had their time."""
    rephrase: ClassVar[Rephrase] = staticmethod(say_plainly)

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*arguments, **named)
        # What is no HTTP at all is answered before uvicorn sets them.
        self.url, self.headers = b"", []
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._patience, self._unread_since, self._unread_bytes = ANSWER_S, 0.0, 0
        """How long the client may still keep an answer waiting, and what it had to take when."""
        self._is_in_head, self._head_bytes, self._body_bytes = True, 0, 0
        self._ended = self._wasted_bytes = self._bare_bytes = 0
        self._body_left = 0
        """What is still to come of a body that says how long it is."""
        self._later = b""
        """What has come and is not looked at yet."""
        self._heads_bytes = self._held = 0
        """What the heads take that are not answered, and what is counted of all that is held."""
        self._answered_at = 0.0
        self._refused: http.HTTPStatus | None = None
        self._why = "the request is refused"

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn has it
        """Takes a connection, and gives another one up where there are too many."""
        super().connection_made(transport)
        self.flow = self._gate = _Flow(transport)
        self._set_timer(HEAD_S)
        Connection._idle[self] = None
        Connection._most = Connection._most or allow_connections()
        if len(self.connections) > Connection._most:
            idlest = next(iter(Connection._idle))
            # At once: of many who come together, each gets the place of another.
            del Connection._idle[idlest]
            idlest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        super().connection_lost(exc)
        self._set_timer(None)
        self.resume_writing()
        self._later = b""
        self._count_held(0)
        Connection._idle.pop(self, None)

    def data_received(self, data: bytes) -> None:
        """Takes what has come, up to the end of the first request that is not answered."""
        self._later += data
        if not self._is_large():
            self._parse()
        elif Connection._held_in_all > HELD_BYTES - MAX_HEAD_BYTES:
            self.transport.abort()  # There is no room: it is not even parsed.
        else:
            self._gate.hold()
            self._weigh()
            now = self.loop.time()
            at = max(now, Connection._large_until)
            if at > now + WASTE_S:
                self.transport.abort()  # Those before it may have left; nobody waits for so long.
                return
            Connection._large_until = at + LARGE_S
            self.loop.call_at(at, self._go_on)

    def _parse(self) -> None:
        """Parses what has come, piece by piece, until a request waits for an answer."""
        data, place = self._later, 0
        while place < len(data) and self._is_ready():
            end = self._end_of_piece(data, place)
            self._take(data[place:end])
            place = end
        if self._is_wasted() and self._refused is None:
            self._waste(min(place, len(data)))
        self._later = data[place:]
        if self._later:
            self._gate.hold()
        self._weigh()

    def _is_large(self) -> bool:
        """Says whether the head that comes is larger than those of browsers."""
        if not self._is_in_head or self._refused is not None or len(self._later) <= OWN_BYTES:
            return False
        return self._later.find(_END, 0, OWN_BYTES) < 0

    def _is_ready(self) -> bool:
        """Says whether what comes next is looked at: no head before the last answer is complete."""
        return not self._is_in_head or self._is_idle() or self._refused is not None

    def _end_of_piece(self, data: bytes, place: int) -> int:
        if not self._is_in_head:
            return place + (min(self._body_left, BODY_PIECE) or BODY_PIECE)
        end = place + HEAD_PIECE
        last = data.find(_END, place, end)
        return end if last < 0 else last + len(_END)

    def _weigh(self) -> None:
        heads = self._heads_bytes + self._head_bytes + REQUEST_BYTES * len(self.pipeline)
        self._count_held(heads + len(self._later))

    def _count_held(self, size: int) -> None:
        """Counts what is held; gives a connection up that brings more than there is room for."""
        held = max(0, size - OWN_BYTES)
        more, self._held = held - self._held, held
        Connection._held_in_all += more
        if more > 0 and Connection._held_in_all > HELD_BYTES:
            self.transport.abort()

    def _take(self, data: bytes) -> None:
        """Parses a piece; refuses a head that is too large, or as much around a body."""
        if self._refused is not None:
            self._wasted_bytes += len(data)
            if self._wasted_bytes > LINGER_BYTES:
                self.flow.pause_reading()
            return
        before = self._ended
        self._body_bytes += len(data)
        self._bare_bytes += len(data)
        super().data_received(data)
        if self._timer is None and not self._is_in_head:  # Most bodies come with their heads.
            self._set_timer(BODY_S)
        # What came with the end of a request is that request, or little more.
        if self._ended != before or self._refused is not None:
            return
        if not self._is_in_head:
            if self._bare_bytes > MAX_HEAD_BYTES:
                self._refuse(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        self._head_bytes += len(data)
        if self._timer is None:
            self._set_timer(HEAD_S)
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header; what is called so behind a body says nothing, and nobody looks at it."""
        if self._is_in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Takes a part of a body."""
        self._bare_bytes = 0
        self._body_left = max(0, self._body_left - len(body))
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Begins a request, unless its head is too large."""
        size = sum(len(name) + len(value) for name, value in self.headers)
        if len(self.url) > MAX_URL_BYTES:
            self._refused = http.HTTPStatus.REQUEST_URI_TOO_LONG
        elif size > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
            self._refused = http.HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        elif self._has_body() and cast("Any", self.parser).should_upgrade():
            # The parser takes its body for the other protocol's: an upload would be empty.
            self._refused = http.HTTPStatus.BAD_REQUEST
            self._why = "a request with a body does not upgrade its connection: leave `Upgrade` out"
        if self._refused is not None:
            raise _Refused
        Connection._idle.pop(self, None)
        self._is_in_head, self._head_bytes, self._body_bytes = False, 0, 0
        self._bare_bytes = 0
        self._body_left = self._body_length()
        self._heads_bytes += len(self.url) + size + HEADER_BYTES * len(self.headers)
        self._set_timer(None)
        cast("dict[str, Any]", self.scope)[HAS_LEFT] = self._has_left
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Ends a body: what is awaited now is our own answer."""
        self._is_in_head = True
        self._ended += 1
        self._set_timer(None)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Ends an answer: uvicorn waits for the next request, for a while."""
        self._answered_at = self.loop.time()
        self._patience = ANSWER_S
        if not self.transport.is_closing():
            Connection._idle[self] = None
        if not self.pipeline:
            self._heads_bytes = 0
            self._count_held(len(self._later))
        super().on_response_complete()
        if self._later:
            # Behind whoever else has sent something meanwhile.
            self.loop.call_soon(self._go_on)

    def pause_writing(self) -> None:
        """Waits for the client to take what it was sent."""
        super().pause_writing()
        self._unread_since = self.loop.time()
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._watch_client()

    def resume_writing(self) -> None:
        """Goes on: the client has taken some of it; unless it has kept us waiting for too long."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
            if not self.transport.is_closing() and not self._is_patient():
                self.transport.abort()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answers a request that cannot be read, and says why."""
        status = self._refused or http.HTTPStatus.BAD_REQUEST
        text = msg if self._refused is None else f"{status.phrase}: {self._why}."
        request_id = request_id_of(self.headers)
        problem = Problem(code=_CODES[status], message=text, request_id=request_id)
        path = self.url.decode("latin-1").partition("?")[0]
        failure = Failure(path, status, problem, text)
        type(self).rephrase(failure)
        body = failure.encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nx-request-id: {request_id}\r\n{_GUARD}"
            "connection: close\r\n\r\n"
        )
        self._refused = status
        self.transport.write(head.encode("ascii") + body)
        # Closed at once, what is still on its way here would take the answer with it.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._set_timer(None)
        self.loop.call_later(LINGER_S, self.transport.abort)

    def _watch_client(self) -> None:
        # Not at once: what is taken comes in lumps.
        wait_s = ANSWER_S if self._is_live() else min(ANSWER_S, max(self._patience, 1.0))
        self._unread = self.loop.call_later(wait_s, self._look_at_client)

    def _look_at_client(self) -> None:
        """Ends a connection whose answer is not taken, or too slowly; else looks again later."""
        if self._is_patient():
            self._watch_client()
        else:
            self.transport.abort()

    def _is_patient(self) -> bool:
        """Counts what was taken since, and the time; says whether the client may take the rest."""
        now, left = self.loop.time(), self.transport.get_write_buffer_size()
        size = self._unread_bytes - left
        self._patience += size / ANSWER_RATE - (now - self._unread_since)
        self._unread_since, self._unread_bytes = now, left
        return size > 0 and (self._patience > 0 or self._is_live())

    def _unsupported_upgrade_warning(self) -> None:
        """Says nothing of it in the log, where anybody could fill it."""

    def _go_on(self) -> None:
        """Looks at what has come before, and then at what comes."""
        if not self.transport.is_closing():
            self._gate.let_go()
            self._parse()

    def _waste(self, size: int) -> None:
        """Reads on when so many bytes that nobody needs have had their time, behind all others."""
        now = self.loop.time()
        until = max(now, Connection._wasting_until) + size / WASTE_BYTES
        if until > now + WASTE_S:
            self.transport.abort()  # It would be given up before its turn came.
            return
        Connection._wasting_until = until
        self.flow.pause_reading()
        self.loop.call_later(Connection._wasting_until - now, self.flow.resume_reading)

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Ends a connection that brought too little, and looks again later at any other."""
        is_ours = self.flow.read_paused  # Nobody reads here: it is not the client who is slow.
        is_slow = self._is_in_head or self._body_bytes < BODY_BYTES
        is_late = self._is_wasted() and self.loop.time() > self._answered_at + WASTE_S
        if is_late or (is_slow and not is_ours):
            self._refuse(http.HTTPStatus.REQUEST_TIMEOUT)
            return
        self._body_bytes = 0
        self._set_timer(BODY_S)

    def _has_body(self) -> bool:
        """Says whether the head says that a body follows."""
        return any(
            name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0 "))
            for name, value in self.headers
        )

    def _body_length(self) -> int:
        """Returns how long the head says that the body is; 0 if it does not say so."""
        return next((int(value) for name, value in self.headers if name == b"content-length"), 0)

    def _has_left(self) -> bool:
        """Says whether the client has closed its end, also while nothing of it is read."""
        if self.transport.is_closing():
            return True
        connected = self.transport.get_extra_info("socket")
        if connected is None or sys.platform != "linux":
            return False
        return connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _ENDED

    def _is_live(self) -> bool:
        """Says whether what is answered comes as it happens."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and LIVE in cycle.scope

    def _is_idle(self) -> bool:
        """Says whether no request is under way whose answer is not complete."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def _is_wasted(self) -> bool:
        """Says whether a body is on its way that nobody needs any more."""
        return not self._is_in_head and self._is_idle()

    def _refuse(self, status: http.HTTPStatus) -> None:
        """Ends the connection, with an answer if that is the one that is waited for."""
        self._refused = status
        if self._is_in_head:
            is_awaited = self._is_idle() and self._head_bytes > 0
        else:
            is_awaited = not self.cycle.response_started
        if is_awaited:
            self.send_400_response(status.phrase)
        else:
            self.transport.abort()


class _Flow(FlowControl):
    """Lets nobody read on while more has come than is looked at."""

    _is_held = False

    def hold(self) -> None:
        """Reads no more until it is let go."""
        self._is_held = True
        self.pause_reading()

    def let_go(self) -> None:
        """Reads on."""
        self._is_held = False
        self.resume_reading()

    def resume_reading(self) -> None:
        """Reads on, unless it is held."""
        if not self._is_held:
            super().resume_reading()


class _Refused(Exception):
    """Ends the parsing of a request; the parser tells whoever called it."""
