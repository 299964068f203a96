"""What a client does when the line is bad: repeats what is safe, says what is not, leaks nothing.

Half of it speaks to a transport that fails as it is told, without a network and without waiting;
the other half to a real server through a proxy that cuts connections in the middle. Every test of
the first half runs with both clients.
"""

import asyncio
import gc
import io
import logging
import os
import re
import socket
import struct
import threading
import time
import traceback
import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import isawaitable
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

import holdfast
from holdfast import errors
from holdfast.sdk.awaiting import AsyncSender
from holdfast.sdk.groups.exchange import Exchange
from holdfast.sdk.patience import AWAY_S, FIRST_PAUSE_S, LONGEST_PAUSE_S, STRANGE_S
from holdfast.sdk.sending import SyncSender
from holdfast.testing.servers import Begin, Server, running_server

pytestmark = pytest.mark.in_memory

URL = "http://127.0.0.1:9"
KEY = "holdfast-sk-this-is-a-secret-that-nobody-sees"
PATIENCE_S = 20.0
_NUMBERS = count(1)

Answer = httpx2.Response | Exception
NEVER_LEFT = (httpx2.ConnectError, httpx2.ConnectTimeout)


# A line that fails as it is told.


@dataclass
class Caller:
    """A client over a transport that answers as a test says, and what it did."""

    kind: str
    left: list[Answer] = field(default_factory=list[Answer])
    requests: list[httpx2.Request] = field(default_factory=list[httpx2.Request])
    bodies: list[bytes] = field(default_factory=list[bytes])
    pauses: list[float] = field(default_factory=list[float])

    def ask(self, do: Callable[[Any], Any], *answers: Answer, **options: Any) -> Any:
        """Makes one call; the answers come one after the other, the last again and again."""
        self.left = list(answers)
        return self._plainly(do, options) if self.kind == "plain" else self._awaited(do, options)

    def next_answer(self, request: httpx2.Request) -> Answer:
        self.requests.append(request)
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]

    def header(self, name: str) -> list[str | None]:
        return [each.headers.get(name) for each in self.requests]

    def _plainly(self, do: Callable[[Any], Any], options: dict[str, Any]) -> Any:
        client = holdfast.Client(KEY, url=URL, namespace="alice", **options)
        http = httpx2.Client(transport=Waiting(self), follow_redirects=False)
        client._begin(SyncSender(client.sender.line, http=http, sleep=self.pauses.append))
        with client:
            found = do(client)
            return list(found) if isinstance(found, Iterator) else found

    def _awaited(self, do: Callable[[Any], Any], options: dict[str, Any]) -> Any:
        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)

        async def ask() -> Any:
            client = holdfast.AsyncClient(KEY, url=URL, namespace="alice", **options)
            http = httpx2.AsyncClient(transport=Awaiting(self), follow_redirects=False)
            client._begin(AsyncSender(client.sender.line, http=http, sleep=sleep))
            async with client:
                found = do(client)
                if isinstance(found, AsyncIterator):
                    return [each async for each in found]
                return await found if isawaitable(found) else found

        return asyncio.run(ask())


class Waiting(httpx2.BaseTransport):
    """Answers without a network."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = self._caller.next_answer(request)
        if not isinstance(answer, NEVER_LEFT):
            self._caller.bodies.append(request.read())
        return given(answer)


class Awaiting(httpx2.AsyncBaseTransport):
    """Answers without a network, awaited."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = self._caller.next_answer(request)
        if not isinstance(answer, NEVER_LEFT):
            self._caller.bodies.append(await request.aread())
        return given(answer)


def given(answer: Answer) -> httpx2.Response:
    if isinstance(answer, Exception):
        raise answer
    # A new one each time: what was read once is closed.
    return httpx2.Response(answer.status_code, headers=answer.headers, content=answer.content)


@pytest.fixture(params=["plain", "awaited"])
def caller(request: pytest.FixtureRequest) -> Caller:
    return Caller(request.param)


def said(status: int, body: bytes | str = b"", **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx2.Response(status, headers=named, content=body)


COUNT = said(200, b'{"count": 7, "size_bytes": null}')
PASSING: list[Answer] = [
    httpx2.ConnectError("refused"),
    httpx2.ConnectTimeout("slow"),
    httpx2.ReadError("reset"),
    httpx2.WriteError("reset"),
    httpx2.ReadTimeout("slow"),
    httpx2.RemoteProtocolError("cut"),
    httpx2.PoolTimeout("full"),
    said(429),
    said(502, "<html>"),
    said(503),
    said(504),
]


@pytest.mark.parametrize("failure", PASSING, ids=repr)
def test_what_may_pass_is_tried_again(caller: Caller, failure: Answer) -> None:
    assert caller.ask(lambda c: c.store.count(), failure, failure, COUNT) == 7
    assert len(caller.requests) == 3
    assert len(caller.pauses) == 2


@pytest.mark.parametrize("failure", PASSING, ids=repr)
def test_what_stays_is_told_after_so_many_attempts(caller: Caller, failure: Answer) -> None:
    with pytest.raises(errors.HoldfastError) as raised:
        caller.ask(lambda c: c.store.count(), failure, retries=2)
    assert isinstance(raised.value, errors.Unavailable | errors.RateLimited)
    assert raised.value.hint
    assert len(caller.requests) == 3
    assert len(caller.pauses) == 2


def test_pauses_grow_and_are_never_the_same_for_everybody(caller: Caller) -> None:
    with pytest.raises(errors.Unreachable):
        caller.ask(lambda c: c.store.count(), httpx2.ConnectError("refused"), retries=8)
    assert len(caller.pauses) == 8
    for number, pause in enumerate(caller.pauses):
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**number)
        assert longest / 2 <= pause <= longest
    assert len(set(caller.pauses)) > 1


def test_a_server_that_never_answered_is_given_up_soon(caller: Caller) -> None:
    with pytest.raises(errors.Unreachable):
        caller.ask(lambda c: c.store.count(), httpx2.ConnectError("refused"))
    assert sum(caller.pauses) == pytest.approx(STRANGE_S, abs=0.5)


@pytest.mark.parametrize("failure", PASSING, ids=repr)
def test_a_server_that_has_answered_may_be_away_for_a_minute(
    caller: Caller, failure: Answer
) -> None:
    # A refusal is an answer, too: whoever gives it is there.
    answers = (failure,) if isinstance(failure, httpx2.Response) else (said(503), failure)
    with pytest.raises((errors.Unavailable, errors.RateLimited)):
        caller.ask(lambda c: c.store.count(), *answers)
    assert sum(caller.pauses) == pytest.approx(AWAY_S, abs=2)
    assert max(caller.pauses) <= LONGEST_PAUSE_S
    assert len(caller.requests) == len(caller.pauses) + 1


@pytest.mark.parametrize("first", [(), (said(503),)])
def test_a_client_is_as_patient_as_it_is_told_to_be(caller: Caller, first: tuple[Any, ...]) -> None:
    with pytest.raises(errors.Unreachable):
        caller.ask(lambda c: c.store.count(), *first, httpx2.ConnectError("refused"), patience_s=20)
    assert sum(caller.pauses) == pytest.approx(20, abs=1)


def test_of_a_number_and_a_time_the_first_that_is_reached_counts(caller: Caller) -> None:
    refused = httpx2.ConnectError("refused")
    with pytest.raises(errors.Unreachable):
        caller.ask(lambda c: c.store.count(), refused, retries=2, patience_s=600)
    assert len(caller.pauses) == 2
    with pytest.raises(errors.Unreachable):
        caller.ask(lambda c: c.store.count(), refused, retries=50, patience_s=3)
    assert sum(caller.pauses[2:]) == pytest.approx(3, abs=0.5)


def test_no_patience_means_one_attempt(caller: Caller) -> None:
    with pytest.raises(errors.Unreachable):
        caller.ask(lambda c: c.store.count(), httpx2.ConnectError("refused"), patience_s=0)
    assert (len(caller.requests), caller.pauses) == (1, [])


def test_what_a_directory_sends_may_be_sent_again(caller: Caller) -> None:
    done = said(200, b'{"objects": 1}')
    failures = (said(503), httpx2.ReadError("reset"), said(502, "<html>"))
    caller.ask(lambda c: Exchange(c.sender).send(b"a pack"), *failures, done)
    assert caller.bodies == [b"a pack"] * 4


def test_no_retries_means_one_attempt(caller: Caller) -> None:
    with pytest.raises(errors.Unreachable, match=URL):
        caller.ask(lambda c: c.store.count(), httpx2.ReadError("reset"), COUNT, retries=0)
    assert (len(caller.requests), caller.pauses) == (1, [])


def test_who_is_told_when_to_come_back_comes_back_then(caller: Caller) -> None:
    answer = said(429, Retry_After="7")
    assert caller.ask(lambda c: c.store.count(), answer, COUNT) == 7
    assert caller.pauses == [7.0]


def test_who_would_have_to_wait_too_long_is_told_so(caller: Caller) -> None:
    body = b'{"error": {"code": "rate_limit_exceeded", "message": "slow", "retry_after": 3600}}'
    with pytest.raises(errors.RateLimited) as raised:
        caller.ask(lambda c: c.store.count(), said(429, body, Retry_After="3600"), COUNT)
    assert (raised.value.retry_after, len(caller.requests)) == (3600, 1)


REFUSALS = {
    400: errors.Invalid,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.NotBuilt,
    409: errors.Conflict,
    413: errors.TooLarge,
    416: errors.Invalid,
    422: errors.Invalid,
    500: errors.ServerFault,
    501: errors.NotBuilt,
    507: errors.StorageFull,
}


@pytest.mark.parametrize("status", REFUSALS)
@pytest.mark.parametrize("body", ["", "<html>what?</html>", "{", '{"detail": "no"}', "\xff"])
def test_a_refusal_is_told_at_once_whatever_its_body_is(
    caller: Caller, status: int, body: str
) -> None:
    answer = said(status, body.encode("latin-1"), X_Request_Id="req-1")
    with pytest.raises(errors.HoldfastError) as raised:
        caller.ask(lambda c: c.snapshot(), answer)
    assert type(raised.value) is REFUSALS[status]
    assert (raised.value.http_status, raised.value.request_id) == (status, "req-1")
    assert str(status) in str(raised.value)
    assert raised.value.hint
    assert len(caller.requests) == 1


def test_a_code_that_is_not_known_yet_is_its_family(caller: Caller) -> None:
    body = b'{"error": {"code": "from_the_future", "message": "what?", "suggestion": "upgrade"}}'
    with pytest.raises(errors.Conflict, match=r"^what\?") as raised:
        caller.ask(lambda c: c.snapshot(), said(409, body))
    assert (type(raised.value), raised.value.hint) == (errors.Conflict, "upgrade")


def test_an_answer_of_another_shape_is_no_answer(caller: Caller) -> None:
    for body in (b"<html>", b"[]", b'{"count": "many"}', b""):
        with pytest.raises(errors.Incompatible, match="/v1/store/count"):
            caller.ask(lambda c: c.store.count(), said(200, body))


def test_a_repeated_change_bears_the_same_name(caller: Caller) -> None:
    caller.ask(lambda c: c.store.clear(), httpx2.ReadError("cut"), said(503), said(200, b"{}"))
    assert len(set(caller.header("idempotency-key"))) == 1
    assert caller.header("idempotency-key")[0]
    caller.ask(lambda c: c.store.clear(), said(200, b"{}"))
    assert len(set(caller.header("idempotency-key"))) == 2


def test_what_is_still_being_answered_is_waited_for(caller: Caller) -> None:
    running = b'{"error": {"code": "idempotency_in_progress", "message": "still at it"}}'
    caller.ask(lambda c: c.store.clear(), said(409, running), said(200, b"{}"))
    assert len(caller.requests) == 2


WRITTEN = said(
    200,
    b'{"path":"a","kind":"file","size_bytes":1,"mode":420,"modified_at":null,"target":null}',
)


class Pipe(io.RawIOBase):
    """What can be read once."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1) -> bytes:
        return self._data.read(size)


def test_what_can_be_read_once_is_sent_once(caller: Caller) -> None:
    with pytest.raises(errors.Unreachable):
        caller.ask(lambda c: c.files.write("a", Pipe(b"data")), httpx2.ReadError("cut"), WRITTEN)
    assert caller.bodies == [b"data"]
    with pytest.raises(errors.Unavailable):
        caller.ask(lambda c: c.files.write("a", Pipe(b"data")), said(503), WRITTEN)
    assert len(caller.requests) == 2


def test_what_was_never_read_can_still_be_sent(caller: Caller) -> None:
    caller.ask(lambda c: c.files.write("a", Pipe(b"data")), httpx2.ConnectError("no"), WRITTEN)
    assert caller.bodies == [b"data"]
    assert caller.header("content-length") == [None, None]


def test_an_open_file_is_sent_again_from_where_it_stood(caller: Caller) -> None:
    source = io.BytesIO(b"before|data")
    source.seek(7)
    caller.ask(lambda c: c.files.write("a", source), httpx2.ReadError("cut"), said(503), WRITTEN)
    assert caller.bodies == [b"data"] * 3
    assert caller.header("content-length") == ["4"] * 3


def test_an_upload_bears_no_name_and_an_import_is_not_repeated(
    caller: Caller, tmp_path: Path
) -> None:
    (tmp_path / "a.tar").write_bytes(b"tar")
    with pytest.raises(errors.Unreachable):
        caller.ask(lambda c: c.import_(tmp_path / "a.tar"), httpx2.ReadError("cut"))
    assert (caller.bodies, caller.header("idempotency-key")) == ([b"tar"], [None])


def test_uploads_tell_how_far_they_are(caller: Caller) -> None:
    told = list[tuple[str, int, int]]()
    data = os.urandom(700_000)
    caller.ask(
        lambda c: c.files.write("a", data, progress=lambda *step: told.append(step)), WRITTEN
    )
    assert caller.bodies == [data]
    assert {stage for stage, _, _ in told} == {"sending"}
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1][1:] == (700_000, 700_000)
    assert len(told) > 2


def test_nobody_is_followed_elsewhere_with_the_key(caller: Caller) -> None:
    away = said(307, Location="http://elsewhere.example/")
    with pytest.raises(errors.HoldfastError):
        caller.ask(lambda c: c.snapshot(), away)
    assert [str(each.url.host) for each in caller.requests] == ["127.0.0.1"]


def test_names_in_any_script_reach_the_server(caller: Caller) -> None:
    caller.ask(lambda c: c.namespace("агент ü/1").store.count(), COUNT)
    assert caller.requests[0].headers.raw
    sent = dict(caller.requests[0].headers.raw)
    assert sent[b"X-Namespace"].decode() == "агент ü/1"


@pytest.mark.parametrize(
    "hostile", ["a/../../v1/me", "../me", "a?b=c", "a#b", "%2e%2e", "a b", "ü", "..", ""]
)
def test_an_id_stays_a_part_of_its_path(caller: Caller, hostile: str) -> None:
    answer = said(404, b'{"error": {"code": "session_not_found", "message": "no"}}')
    with pytest.raises(errors.SessionNotFound):
        caller.ask(lambda c: c.sessions.get(hostile), answer)
    for request in caller.requests:
        assert re.fullmatch(rb"/v1/sessions/[^/?#]+", request.url.raw_path)


@dataclass
class Listener:
    """Takes connections, says one thing to each, and keeps what came."""

    answer: bytes
    got: list[bytes] = field(default_factory=list[bytes])

    @contextmanager
    def listening(self) -> Generator[str]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=self._serve, args=(listener,), daemon=True)
            thread.start()
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                self.got.append(received(connection, 65536))
                send(connection, self.answer)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("kind", ["plain", "awaited"])
def test_a_client_as_it_is_made_follows_nobody(kind: str, status: int) -> None:
    elsewhere = Listener(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async def ask(url: str) -> None:
        async with holdfast.AsyncClient(KEY, url=url, namespace="a", retries=0) as client:
            await client.store.count()

    def ask_plainly(url: str) -> None:
        with holdfast.Client(KEY, url=url, namespace="a", retries=0) as client:
            client.store.count()

    with elsewhere.listening() as away:
        told = f"HTTP/1.1 {status} Go\r\nLocation: {away}/\r\nContent-Length: 0\r\n\r\n"
        with (
            Listener(told.encode()).listening() as url,
            pytest.raises(errors.HoldfastError, match=str(status)),
        ):
            asyncio.run(ask(url)) if kind == "awaited" else ask_plainly(url)
    assert elsewhere.got == []


# What is said of the key.


def test_a_key_is_in_no_text(caller: Caller, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen = list[str]()

    def look(client: Any) -> Any:
        seen.extend([repr(client), str(client), repr(client.sender.line), repr(client.files)])
        return client.snapshot()

    for answer in (said(401), said(500, "no"), httpx2.ConnectError("refused")):
        with pytest.raises(errors.HoldfastError) as raised:
            caller.ask(look, answer, retries=0)
        seen.extend([str(raised.value), repr(raised.value), raised.value.hint])
    seen.append(caplog.text)
    assert not [text for text in seen if KEY in text]
    assert caller.header("authorization")[0] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "kind",
    [
        holdfast.Client,
        holdfast.AsyncClient,
        holdfast.AdminClient,
        holdfast.AsyncAdminClient,
    ],
)
def test_what_is_not_given_is_read_from_the_environment(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOLDFAST_URL", "HOLDFAST_API_KEY", "HOLDFAST_ADMIN_KEY", "HOLDFAST_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(errors.Unauthorized) as raised:
        kind.from_env()
    is_admin = "Admin" in kind.__name__
    variable = "HOLDFAST_ADMIN_KEY" if is_admin else "HOLDFAST_API_KEY"
    assert variable in str(raised.value)
    monkeypatch.setenv(variable, "from the environment")
    line = kind.from_env().sender.line
    assert (line.url, line.namespace) == ("http://127.0.0.1:7433", None)
    assert line.headers["Authorization"] == "Bearer from the environment"
    monkeypatch.setenv("HOLDFAST_URL", "https://holdfast.example/base/")
    monkeypatch.setenv("HOLDFAST_NAMESPACE", "alice")
    line = kind.from_env().sender.line
    assert line.url == "https://holdfast.example/base"
    assert line.namespace == (None if is_admin else "alice")
    line = kind("given", url=URL).sender.line
    assert (line.url, line.headers["Authorization"]) == (URL, "Bearer given")


@pytest.mark.parametrize(
    "given",
    [
        {"url": "ftp://x"},
        {"url": "127.0.0.1:7433"},
        {"timeout_s": 0},
        {"retries": -1},
        {"patience_s": -1},
        {"patience_s": float("nan")},
        {"patience_s": float("inf")},
        {"api_key": "two\nlines"},
        {"api_key": "ü"},
        {"namespace": " "},
        {"namespace": "a\r\nX-Evil: 1"},
    ],
)
def test_a_client_that_cannot_work_is_not_made(given: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidValue):
        holdfast.Client(**{"api_key": KEY, "url": URL} | given)


# A real server, behind a line that is cut.


@dataclass
class Proxy:
    """Stands before a server, counts connections, and cuts them as it is told.

    `plan` says of each connection, in turn, after how many bytes of the answer it is cut; None
    never, which is also what follows the end of the plan. `REFUSED` lets nobody in.
    """

    target: int
    port: int = 0
    plan: list[int | None] = field(default_factory=list[int | None])
    connections: int = 0
    on_cut: Callable[[], None] = lambda: None
    _open: list[socket.socket] = field(default_factory=list[socket.socket])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.connections += 1
            cut = self.plan.pop(0) if self.plan else None
            threading.Thread(target=self._carry, args=(client, cut), daemon=True).start()

    def _carry(self, client: socket.socket, cut: int | None) -> None:
        if cut == REFUSED:
            reset(client)
            return
        server = socket.create_connection(("127.0.0.1", self.target))
        self._open += [client, server]
        threading.Thread(target=pump, args=(client, server), daemon=True).start()
        left = cut
        while piece := received(server, 65536 if left is None else max(1, min(left, 65536))):
            if left is not None and len(piece) >= left:
                send(client, piece[: max(0, left)])
                self.on_cut()
                reset(client)
                server.close()
                return
            send(client, piece)
            left = None if left is None else left - len(piece)
        client.close()

    def cut_all(self) -> None:
        """Cuts every connection that is open."""
        for each in self._open:
            reset(each)
        self._open.clear()


REFUSED = -1


def reset(connection: socket.socket) -> None:
    """Ends a connection as a power cut does: nothing more, and no goodbye."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()


def received(connection: socket.socket, most: int) -> bytes:
    try:
        return connection.recv(most)
    except OSError:
        return b""


def send(connection: socket.socket, data: bytes) -> None:
    try:
        connection.sendall(data)
    except OSError:
        connection.close()


def pump(source: socket.socket, target: socket.socket) -> None:
    while piece := received(source, 65536):
        send(target, piece)


@contextmanager
def proxy_to(server: Server, *plan: int | None) -> Generator[Proxy]:
    proxy = Proxy(server.port, plan=list(plan))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy.port = listener.getsockname()[1]
        thread = threading.Thread(target=proxy.serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.cut_all()
            listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def client_of(
    server: Server, proxy: Proxy | None = None, **more: Any
) -> tuple[holdfast.Client, list[float]]:
    """Returns a client in a namespace of its own that never waits, and how long it would have."""
    pauses = list[float]()
    url = server.url if proxy is None else proxy.url
    name = f"agent-{next(_NUMBERS)}"
    client = holdfast.Client(server.api_key, url=url, **{"namespace": name} | more)
    client._begin(SyncSender(client.sender.line, sleep=pauses.append))
    return client, pauses


def test_a_change_whose_answer_was_lost_is_done_once(server: Server) -> None:
    with proxy_to(server, 0, 0, None) as proxy:
        client, pauses = client_of(server, proxy)
        taken = client.snapshot("once")
        assert [each.id for each in client.timeline()] == [taken.id]
        assert len(pauses) == 2
        assert proxy.connections >= 3
        client.close()


def test_a_lost_answer_in_its_middle_is_asked_for_again(server: Server) -> None:
    with proxy_to(server, REFUSED, 40, None) as proxy:
        client, pauses = client_of(server, proxy)
        client.store.set("n", "k", "v")
        assert client.store.get("n", "k") == "v"
        assert len(pauses) == 2
        client.close()


def test_a_server_that_is_gone_is_said_to_be(server: Server) -> None:
    with proxy_to(server) as proxy:
        url = proxy.url
    client, pauses = client_of(server, proxy, retries=2)
    with pytest.raises(errors.Unreachable, match=url) as raised:
        client.snapshot()
    assert "holdfast serve" in raised.value.hint
    assert len(pauses) == 2
    client.close()


def test_who_cannot_be_reached_is_named_without_what_the_http_library_went_through(
    server: Server,
) -> None:
    with proxy_to(server) as proxy:
        pass
    client, _ = client_of(server, proxy)
    with pytest.raises(errors.Unreachable) as raised:
        client.snapshot()
    shown = traceback.format_exception(raised.value)
    assert "httpx" not in "".join(shown)
    assert len("".join(shown).splitlines()) < 30
    client.close()


class Counted:
    """Pauses as they are, and when there were more than it takes to think a server gone."""

    def __init__(self, *, enough: int) -> None:
        self._left = enough
        self.is_enough = threading.Event()

    def sleep(self, seconds: float) -> None:
        self._count()
        time.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        self._count()
        await asyncio.sleep(seconds)

    def _count(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.is_enough.set()


def test_clients_as_they_are_made_outlive_a_restart(tmp_path: Path, at_once: Begin) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.txt").write_text("a")
    known, stopped = threading.Event(), threading.Event()
    waiting, awaiting = Counted(enough=16), Counted(enough=4)

    async def go_on(server: Server) -> int:
        client = holdfast.AsyncClient(server.api_key, url=server.url, namespace="awaited")
        client._begin(AsyncSender(client.sender.line, sleep=awaiting.asleep))
        async with client:
            await client.store.set("n", "before", 1)
            known.set()
            await asyncio.to_thread(stopped.wait)
            await client.store.set("n", "after", 2)
            return await client.store.count()

    with running_server(tmp_path / "server", begin=at_once) as server, ThreadPoolExecutor() as pool:
        client = holdfast.Client(server.api_key, url=server.url, namespace="plain")
        client._begin(SyncSender(client.sender.line, sleep=waiting.sleep))
        mirrored = client.namespace("mirrored")
        workspace = mirrored.workspace(tmp_path / "project", cache=tmp_path / "cache")
        client.store.set("n", "before", 1)
        awaited = pool.submit(asyncio.run, go_on(server))
        assert known.wait(PATIENCE_S)
        assert server.stop() == 0
        stopped.set()
        calls = [
            pool.submit(client.store.set, "n", "after", 2),
            pool.submit(client.files.write, "file", b"x" * 100_000),
            pool.submit(client.sessions.create, "agent"),
            pool.submit(workspace.snapshot, "while it was away"),
        ]
        for each in (waiting, awaiting):
            assert each.is_enough.wait(PATIENCE_S)
        server.start()
        for call in calls:
            call.result(AWAY_S)
        assert awaited.result(AWAY_S) == 2
        assert client.store.count() == 2
        assert client.files.read("file") == b"x" * 100_000
        assert len(client.sessions.list()) == 1
        assert mirrored.files.read_text("a.txt") == "a"
        workspace.close()
        client.close()


def test_who_does_not_answer_in_time_is_not_waited_for(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        proxy = Proxy(0, port=silent.getsockname()[1])
        client, pauses = client_of(server, proxy, retries=1, timeout_s=0.2)
        with pytest.raises(errors.Unreachable, match="in time"):
            client.store.count()
        assert len(pauses) == 1
        client.close()


def test_one_connection_is_enough_for_many_calls(server: Server) -> None:
    with proxy_to(server) as proxy:
        client, _ = client_of(server, proxy)
        other = client.namespace(f"agent-{next(_NUMBERS)}")
        for number in range(10):
            client.store.set("n", "k", number)
            other.store.set("n", "k", -number)
        assert (client.store.get("n", "k"), other.store.get("n", "k")) == (9, -9)
        with client.task("t"):
            client.files.write("a", "b")
        assert b"".join(client.files.stream("a")) == b"b"
        assert proxy.connections == 1
        client.close()


def test_one_asynchronous_client_is_enough_for_many_tasks(server: Server) -> None:
    async def work(proxy: Proxy) -> None:
        name = f"agent-{next(_NUMBERS)}"
        async with holdfast.AsyncClient(server.api_key, url=proxy.url, namespace=name) as client:
            await asyncio.gather(*(client.store.set("n", f"k{n}", n) for n in range(40)))
            assert len(await client.store.keys("n")) == 40

    with proxy_to(server) as proxy:
        asyncio.run(work(proxy))
        assert proxy.connections <= 41


def test_sixteen_threads_share_a_client(server: Server) -> None:
    with proxy_to(server) as proxy:
        client, _ = client_of(server, proxy)
        wrong = list[object]()

        def work(number: int) -> None:
            for step in range(5):
                client.store.set(f"thread-{number}", f"k{step}", [number, step])
                found = client.store.get(f"thread-{number}", f"k{step}")
                if found != [number, step]:
                    wrong.append(found)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert len(client.store.items()) == 80
        assert proxy.connections <= 16
        client.close()


def test_a_client_that_is_closed_sends_nothing_more(server: Server) -> None:
    client, _ = client_of(server)
    with client:
        client.store.set("n", "k", 1)
    for use in (client, client.namespace("another")):
        with pytest.raises(errors.Unavailable, match="closed"):
            use.store.count()
    client.close()


# Downloads.


def test_a_download_goes_on_where_it_was_cut(server: Server, tmp_path: Path) -> None:
    data, told = os.urandom(3_000_000), list[tuple[int, int]]()
    direct, _ = client_of(server)
    direct.files.write("big", data)
    with proxy_to(server, 900_000, 1_100_000, None) as proxy:
        client, pauses = client_of(server, proxy, namespace=direct.name)
        target = tmp_path / "big"
        target.write_bytes(b"what was there before")
        size = client.files.download("big", target, progress=lambda _, *step: told.append(step))
        assert size == len(data)
        assert target.read_bytes() == data
        assert (len(pauses), proxy.connections) == (2, 3)
        assert told == sorted(told)
        assert {total for _, total in told} == {len(data)}
        assert told[-1][0] == len(data)
        client.close()
    assert [each.name for each in tmp_path.iterdir()] == ["big"]
    direct.close()


def test_an_asynchronous_download_goes_on_where_it_was_cut(server: Server, tmp_path: Path) -> None:
    data = os.urandom(2_000_000)
    direct, _ = client_of(server)
    direct.files.write("big", data)

    async def work(proxy: Proxy) -> list[float]:
        pauses = list[float]()

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)

        client = holdfast.AsyncClient(server.api_key, url=proxy.url, namespace=direct.name)
        client._begin(AsyncSender(client.sender.line, sleep=sleep))
        async with client:
            assert await client.files.download("big", tmp_path / "big") == len(data)
            pieces = [piece async for piece in client.files.stream("big")]
            assert b"".join(pieces) == data
        return pauses

    with proxy_to(server, 900_000, 200_000, None) as proxy:
        assert len(asyncio.run(work(proxy))) == 2
    assert (tmp_path / "big").read_bytes() == data
    direct.close()


def test_two_halves_of_different_files_make_no_file(server: Server, tmp_path: Path) -> None:
    direct, _ = client_of(server)
    direct.files.write("big", os.urandom(2_000_000))
    with proxy_to(server, 900_000, None) as proxy:
        proxy.on_cut = lambda: direct.files.write("big", os.urandom(2_000_000)) and None
        client, _ = client_of(server, proxy, namespace=direct.name)
        target = tmp_path / "big"
        target.write_bytes(b"what was there before")
        with pytest.raises(errors.Conflict, match="changed"):
            client.files.download("big", target)
        assert target.read_bytes() == b"what was there before"
        client.close()
    assert [each.name for each in tmp_path.iterdir()] == ["big"]
    direct.close()


def test_a_download_that_never_ends_well_leaves_nothing(server: Server, tmp_path: Path) -> None:
    direct, _ = client_of(server)
    direct.files.write("big", os.urandom(500_000))
    with proxy_to(server, 200_000, *[REFUSED] * 20) as proxy:
        client, _ = client_of(server, proxy, namespace=direct.name, retries=2)
        with pytest.raises(errors.Unreachable):
            client.files.download("big", tmp_path / "big")
        with pytest.raises(errors.Unreachable):
            client.export(tmp_path / "all.tar")
        client.close()
    assert list(tmp_path.iterdir()) == []
    direct.close()


def test_a_download_can_go_to_an_open_file(server: Server) -> None:
    client, _ = client_of(server)
    client.files.write("a", "data")
    target = io.BytesIO()
    assert client.files.download("a", target) == 4
    assert target.getvalue() == b"data"
    assert not target.closed
    client.close()


def test_a_download_that_is_cancelled_leaves_nothing(server: Server, tmp_path: Path) -> None:
    direct, _ = client_of(server)
    direct.files.write("big", os.urandom(1_000_000))

    async def work() -> None:
        async with holdfast.AsyncClient(
            server.api_key, url=server.url, namespace=direct.name
        ) as client:
            begun = asyncio.Event()
            going = asyncio.create_task(
                client.files.download("big", tmp_path / "big", progress=lambda *_: begun.set())
            )
            await begun.wait()
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
            assert await client.files.exists("big")

    asyncio.run(work())
    assert list(tmp_path.iterdir()) == []
    direct.close()


def test_a_file_that_is_replaced_stays_for_the_same_eyes(server: Server, tmp_path: Path) -> None:
    client, _ = client_of(server)
    client.files.write("secret", "new")
    target = tmp_path / "secret"
    target.write_text("old")
    target.chmod(0o600)
    client.files.download("secret", target)
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o600)
    client.close()


def test_an_asynchronous_client_lives_through_one_loop_after_the_other(server: Server) -> None:
    name = f"agent-{next(_NUMBERS)}"

    async def work(client: holdfast.AsyncClient, number: int) -> int:
        await client.store.set("n", str(number), number)
        return await client.store.count()

    with warnings.catch_warnings():
        # Sockets of a loop that is over can be dropped, and not closed: Python says so.
        warnings.simplefilter("ignore", ResourceWarning)
        client = holdfast.AsyncClient(server.api_key, url=server.url, namespace=name)
        assert [asyncio.run(work(client, number)) for number in range(3)] == [1, 2, 3]
        asyncio.run(client.close())
        del client
        gc.collect()


# Events.


def test_a_stream_of_events_survives_cuts_and_misses_nothing(server: Server) -> None:
    direct, _ = client_of(server)
    first = direct.snapshot("0")
    last = direct.events.list(limit=1)[0]
    with proxy_to(server) as proxy:
        client, _ = client_of(server, proxy, namespace=direct.name)
        stream = client.events.stream(last_event_id=last.id)
        seen = list[str]()
        for number in range(1, 7):
            direct.snapshot(str(number))
            event = next(stream)
            assert event.type == "snapshot.created"
            seen.append(event.data["label"])
            if number % 2 == 0:
                proxy.cut_all()
        assert seen == [str(number) for number in range(1, 7)]
        assert proxy.connections >= 3
        stream.close()
        client.close()
    assert first.label == "0"
    direct.close()


def test_an_asynchronous_stream_of_events_survives_cuts(server: Server) -> None:
    direct, _ = client_of(server)
    direct.snapshot("0")
    last = direct.events.list(limit=1)[0]

    async def work(proxy: Proxy) -> list[str]:
        seen = list[str]()
        async with holdfast.AsyncClient(
            server.api_key, url=proxy.url, namespace=direct.name
        ) as client:
            stream = client.events.stream(last_event_id=last.id)
            for number in range(1, 4):
                await asyncio.to_thread(direct.snapshot, str(number))
                seen.append((await anext(stream)).data["label"])
                proxy.cut_all()
            await stream.aclose()
        return seen

    with proxy_to(server) as proxy:
        assert asyncio.run(work(proxy)) == ["1", "2", "3"]
    direct.close()


def test_a_stream_ends_when_nobody_is_there_any_more(server: Server) -> None:
    direct, _ = client_of(server)
    direct.snapshot()
    with proxy_to(server, None, *[REFUSED] * 30) as proxy:
        client, pauses = client_of(server, proxy, namespace=direct.name, retries=2)
        last = direct.events.list(limit=1)[0]
        stream = client.events.stream(last_event_id=last.id)
        direct.snapshot("seen")
        assert next(stream).data["label"] == "seen"
        proxy.cut_all()
        with pytest.raises(errors.Unreachable):
            next(stream)
        assert pauses
        client.close()
    direct.close()
