"""Connections that bring too much, too little, or nothing are ended; the others are served."""

import asyncio
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import uvicorn

from holdfast.server import connections
from holdfast.server.asgi import HAS_LEFT, LIVE
from holdfast.server.connections import Connection
from holdfast.server.responses import Response

PATIENCE_S = 20.0
LARGE = 20 << 20
SEVERAL = 4 << 20
"""What is sent in several pieces."""

PIECES = ("/pieces", "/pieces/live")


LEFT = threading.Event()
"""Whether a request for `/left` knows that its client has gone."""


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with how many bytes the body had, or which headers; `/early` before it has come.

    Below `/pieces`, as our answers are sent.
    """
    size, more = 0, scope["path"] != "/early"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message["more_body"]
    if scope["path"] == "/left":
        while not scope[HAS_LEFT]():  # noqa: ASYNC110 - it is asked, and tells nobody
            await asyncio.sleep(0.01)
        LEFT.set()
    if scope["path"] == "/slow":
        await asyncio.sleep(2 * connections.HEAD_S)
    body = b"x" * LARGE if scope["path"] == "/large" else str(size).encode()
    if scope["path"].startswith("/pieces"):
        if scope["path"] == "/pieces/live":
            scope[LIVE] = True
        await Response(b"x" * SEVERAL).send(receive, send, [(b"connection", b"close")])
        return
    if scope["path"] == "/headers":
        body = b" ".join(name for name, _ in scope["headers"])
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if scope["path"] == "/endless":
        await asyncio.sleep(PATIENCE_S)
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD_S", "BODY_S", "LINGER_S"):
        monkeypatch.setattr(connections, name, 0.5)


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    config = uvicorn.Config(echo, http=Connection, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield listening.getsockname()
    server.should_exit = server.force_exit = True
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def talk(address: tuple[str, int], *pieces: bytes) -> bytes:
    """Sends pieces, and returns what comes until the other side ends the connection."""
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass  # It was refused meanwhile: the answer is there to be read, or was lost.
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    answer = bytearray()
    try:
        while piece := connection.recv(1 << 16):
            answer += piece
    except ConnectionResetError:
        pass
    return bytes(answer)


def get(path: str = "/", *, more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode()


def last() -> bytes:
    return get(more="Connection: close\r\n")


def is_served(address: tuple[str, int]) -> bool:
    return b"200 OK" in talk(address, last())


def test_a_request_may_take_longer_to_answer_than_to_come(address: tuple[str, int]) -> None:
    body = b"x" * 300_000
    head = f"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    def ask(request: bytes) -> bytes:
        with socket.create_connection(address, timeout=PATIENCE_S) as connection:
            connection.sendall(request)
            return connection.recv(1 << 16)

    with ThreadPoolExecutor() as pool:
        assert all(b"200 OK" in answer for answer in pool.map(ask, (get("/slow"), head + body)))


def test_an_ordinary_request_is_answered_and_the_connection_kept(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        for _ in range(3):
            connection.sendall(get(more=f"X-Large: {'x' * 20_000}\r\n"))
            assert b"200 OK" in connection.recv(1 << 16)


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        ([b"GET / HTTP/1.1\r\nX-A: ", *[b"a" * 65_536] * 8], b"431"),
        ([get(more="".join(f"X-{n}: 1\r\n" for n in range(300)))], b"431"),
        ([get(more=f"X-A: {'a' * 40_000}\r\nX-B: {'b' * 40_000}\r\n")], b"431"),
        ([get("/" + "a" * 20_000)], b"414"),
        ([b"GET /", *[b"a" * 65_536] * 8], b"431"),
        ([b"no http at all\r\n\r\n"], b"400"),
    ],
    ids=["line", "number", "block", "url", "endless url", "nonsense"],
)
def test_a_head_that_is_too_large_is_refused(
    address: tuple[str, int], pieces: list[bytes], status: bytes
) -> None:
    answer = talk(address, *pieces)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 " + status)
    assert answer == b"" or (b"x-request-id: req_" in answer and b'"request_id"' in answer)
    assert is_served(address)


def test_an_endless_head_behind_a_request_that_is_under_way_is_refused(
    address: tuple[str, int],
) -> None:
    begun = time.monotonic()
    answer = talk(address, get("/slow"), b"GET / HTTP/1.1\r\nX-A: ", *[b"a" * 65_536] * 8)
    assert answer == b"" or b"200 OK" in answer
    assert time.monotonic() - begun < PATIENCE_S


@pytest.mark.parametrize(
    "begun",
    [b"", b"\r\n", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n", get() + b"GET /"],
    ids=["silent", "blank", "line", "header", "second"],
)
def test_a_head_that_does_not_end_is_not_waited_for(address: tuple[str, int], begun: bytes) -> None:
    # Drops do not put the deadline off.
    started = time.monotonic()
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(begun)
        connection.settimeout(0.05)
        while time.monotonic() - started < PATIENCE_S:
            try:
                if begun:
                    connection.sendall(b"\r\n" if begun == b"\r\n" else b"x")
                if connection.recv(1 << 16) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
    assert time.monotonic() - started < PATIENCE_S


@pytest.mark.parametrize("path", ["/", "/early"])
def test_a_body_that_drips_is_not_waited_for(address: tuple[str, int], path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n".encode()
    started = time.monotonic()
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(head)
        connection.settimeout(0.05)
        answer = b""
        while time.monotonic() - started < PATIENCE_S:
            try:
                connection.sendall(b"x")
                piece = connection.recv(1 << 16)
                answer += piece
                if not piece:
                    break
            except TimeoutError:
                continue
            except OSError:
                break
    assert time.monotonic() - started < PATIENCE_S
    assert (b"408" in answer) is (path == "/")


def test_a_body_that_comes_slowly_but_steadily_is_taken(address: tuple[str, int]) -> None:
    size = connections.BODY_BYTES * 8
    head = f"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n"
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(head.encode())
        for _ in range(8):
            threading.Event().wait(0.15)
            connection.sendall(b"x" * connections.BODY_BYTES)
        assert read_all(connection).endswith(str(size).encode())


def test_when_there_are_too_many_connections_the_idlest_makes_room(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", PATIENCE_S)
    monkeypatch.setattr(Connection, "_most", 20)
    held = [socket.create_connection(address, timeout=PATIENCE_S) for _ in range(60)]
    try:
        assert is_served(address)
        assert read_all(held[0]) == b""
    finally:
        for connection in held:
            connection.close()


def test_an_answer_that_nobody_takes_is_given_up(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ANSWER_S", 0.2)
    ended, lost = threading.Event(), Connection.connection_lost

    def tell(self: Connection, exc: Exception | None) -> None:
        lost(self, exc)
        if self.url == b"/large":
            ended.set()

    monkeypatch.setattr(Connection, "connection_lost", tell)
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(get("/large"))
        assert ended.wait(PATIENCE_S)
        assert len(read_all(connection)) < LARGE


def dripping(address: tuple[str, int], path: str, *, pause_s: float) -> int:
    """Takes an answer piece by piece; returns how many bytes there were of it."""
    size = 0
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        connection.sendall(get(path))
        with suppress(ConnectionResetError):
            while piece := connection.recv(64 << 10):
                size += len(piece)
                threading.Event().wait(pause_s)
    return size


def test_an_answer_that_is_taken_drop_by_drop_is_given_up_unless_it_is_live(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ANSWER_S", 1.0)
    monkeypatch.setattr(connections, "ANSWER_RATE", 1 << 40)
    with ThreadPoolExecutor() as pool:
        # Something is taken all the time; not so much that it would come to its end before.
        sizes = pool.map(lambda path: dripping(address, path, pause_s=0.04), PIECES)
        assert [size < SEVERAL for size in sizes] == [True, False]


def test_an_answer_that_is_taken_slowly_but_steadily_comes_whole(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ANSWER_S", 1.5)
    begun = time.monotonic()
    assert dripping(address, "/pieces", pause_s=0.04) > SEVERAL
    assert time.monotonic() - begun > connections.ANSWER_S


def test_a_body_that_nobody_needs_any_more_is_taken_slowly_and_the_connection_kept(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WASTE_BYTES", 16 << 20)
    head = f"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: {LARGE}\r\n\r\n".encode()
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        begun = time.monotonic()
        connection.sendall(head + b"x" * LARGE)
        assert time.monotonic() - begun > 0.5
        assert b"200 OK" in connection.recv(1 << 16)
        connection.sendall(get())
        assert b"200 OK" in connection.recv(1 << 16)


def test_bodies_that_nobody_needs_any_more_share_the_time_that_is_wasted_on_them(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each alone takes its time; three of them at once would take no longer than one."""
    monkeypatch.setattr(connections, "WASTE_BYTES", 40 << 20)
    head = f"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: {LARGE}\r\n\r\n".encode()

    def send() -> bytes:
        with socket.create_connection(address, timeout=PATIENCE_S) as connection:
            connection.sendall(head + b"x" * LARGE)
            return connection.recv(1 << 16)

    with ThreadPoolExecutor(3) as pool:
        begun = time.monotonic()
        sending = [pool.submit(send) for _ in range(3)]
        assert is_served(address)
        assert all(b"200 OK" in each.result() for each in sending)
    assert time.monotonic() - begun > 1.5 * LARGE / connections.WASTE_BYTES


def test_a_body_that_nobody_needs_any_more_is_not_taken_for_ever(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WASTE_BYTES", 1 << 20)
    monkeypatch.setattr(connections, "WASTE_S", 0.5)
    head = b"POST /early HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(head)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sendall((b"10000\r\n" + b"x" * (1 << 16) + b"\r\n") * 1000)


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 5\r\n\r\nhello",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ],
)
def test_a_body_is_never_lost_to_another_protocol(address: tuple[str, int], body: bytes) -> None:
    head = b"PUT /x HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
    answer = talk(address, head + body)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"Upgrade" in answer
    assert b"nosniff" in answer


def test_who_asks_for_another_protocol_and_sends_nothing_is_answered(
    address: tuple[str, int],
) -> None:
    answer = talk(address, b"GET /x HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")


def test_requests_sent_ahead_are_answered_in_their_order(address: tuple[str, int]) -> None:
    count, body = 500, b"x" * 40_000
    requests = [
        f"POST /{n} HTTP/1.1\r\nHost: x\r\nContent-Length: {n % 7}\r\n\r\n".encode()
        + b"y" * (n % 7)
        for n in range(count)
    ]
    large = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    answer = talk(address, b"".join([*requests, large, *requests, last()]))
    told = [part.rpartition(b"\r\n\r\n")[2] for part in answer.split(b"HTTP/1.1 200 OK")[1:]]
    each = [str(n % 7).encode() for n in range(count)]
    assert told == [*each, str(len(body)).encode(), *each, b"0"]


def test_what_all_connections_hold_unanswered_is_bounded(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HELD_BYTES", 1 << 20)
    held = Connection._held_in_all  # pyright: ignore[reportPrivateUsage]
    large = get("/slow", more=f"X-Large: {'x' * 40_000}\r\n")
    with ExitStack() as stack:
        for _ in range(60):
            flooding = stack.enter_context(socket.create_connection(address, timeout=PATIENCE_S))
            with suppress(OSError):
                flooding.sendall(large * 4)
        assert is_served(address)
        most = Connection._held_in_all - held  # pyright: ignore[reportPrivateUsage]
        assert 0 < most < 2 << 20
    end = time.monotonic() + PATIENCE_S
    # Connections of tests before may have ended since.
    while Connection._held_in_all > held:  # pyright: ignore[reportPrivateUsage]
        assert time.monotonic() < end
        assert is_served(address)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it shows when it is read from")
@pytest.mark.parametrize("ahead", [b"", get() * 2])
def test_who_leaves_is_noticed_also_where_more_has_come(
    address: tuple[str, int], ahead: bytes
) -> None:
    LEFT.clear()
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(get("/left") + ahead)
        assert is_served(address)
        assert not LEFT.is_set()
    assert LEFT.wait(PATIENCE_S)


def test_whoever_sends_more_ahead_than_is_answered_waits(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    most, parse = list[int](), Connection._parse  # pyright: ignore[reportPrivateUsage]

    def watch(self: Connection) -> None:
        parse(self)
        most.append(len(self.pipeline))

    monkeypatch.setattr(Connection, "_parse", watch)
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.setblocking(False)
        # Nothing is read: the first answer that does not fit anywhere is waited for.
        flood, sent = get() * 200_000, 0
        with suppress(BlockingIOError):
            while sent < len(flood) and select.select([], [connection], [], 0.5)[1]:
                sent += connection.send(flood[sent : sent + (1 << 18)])
        assert is_served(address)
    assert max(most) <= 1
    assert sent < len(flood)


CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("beginning", "more"),
    [
        (b"3\r\nabc\r\n0\r\n", b"T: x\r\n" * 1000),
        (b"3\r\nabc\r\n0\r\nT: ", b"x" * 6000),
        (b"3\r\nabc\r\n0\r\n", b"T" * 6000),
        (b"3;", b"x" * 6000),
    ],
    ids=["fields", "value", "name", "extension"],
)
@pytest.mark.parametrize("path", [b"/", b"/early"])
def test_what_comes_around_a_body_is_bounded(
    address: tuple[str, int], beginning: bytes, more: bytes, path: bytes
) -> None:
    head = CHUNKED.replace(b"/", path, 1)
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(head + beginning)
        sent = 0
        with suppress(BrokenPipeError, ConnectionResetError):
            while sent < LARGE:
                connection.sendall(more)
                sent += len(more)
    assert sent < LARGE
    assert is_served(address)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_body_in_chunks_of_any_size_is_taken(address: tuple[str, int], size: int) -> None:
    chunk, count = b"%x;note=1\r\n" % size + b"z" * size + b"\r\n", 20_000 // min(size, 100)
    head = CHUNKED.replace(b"Host", b"Connection: close\r\nHost")
    answer = talk(address, head, chunk * count, b"0\r\nT: x\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n%d" % (size * count))


def test_what_stands_behind_a_body_is_no_header(address: tuple[str, int]) -> None:
    trailer = b"3\r\nabc\r\n0\r\nX-Stamp: late\r\n\r\n"
    answer = talk(
        address, CHUNKED.replace(b"/", b"/headers", 1) + trailer + get("/headers"), last()
    )
    assert b"x-stamp" not in answer
    assert answer.count(b"200 OK") == 3
