"""What one tenant does, or somebody without a key, keeps no other tenant waiting."""

import selectors
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

import holdfast
from holdfast.server.strangers import AT_ONCE, PER_S
from holdfast.server.streams import STREAMS_OF_KEY
from holdfast.testing.servers import COMMAND, Begin, Server, running_server

pytestmark = pytest.mark.in_memory

MIB, GIB = 1 << 20, 1 << 30
PROMPT_S = 5.0
"""What others wait at the most, generously: what is awaited for longer is not theirs."""


@dataclass(frozen=True)
class Tenant:
    """A tenant of the server, and its keys."""

    id: str
    key: str
    admin_key: str

    def client(self, server: Server, *, is_admin: bool = False) -> httpx.Client:
        key = self.admin_key if is_admin else self.key
        headers = {"Authorization": f"Bearer {key}", "X-Namespace": "work"}
        return httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60)


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    with running_server(
        home, environ={"HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1"}, begin=at_once
    ) as running:
        yield running


def make_tenant(server: Server, name: str) -> Tenant:
    with holdfast.open(server.data) as vault:
        tenant = vault.tenant(name)
        key = tenant.keys.create("agent").api_key
        admin = tenant.keys.create("operator", admin=True).api_key
        return Tenant(tenant.tenant_id, key, admin)


@pytest.fixture(scope="module")
def hostile(server: Server) -> Tenant:
    return make_tenant(server, "hostile")


@pytest.fixture
def other(server: Server) -> Iterator[httpx.Client]:
    """Another tenant, which has a file and a snapshot."""
    headers = {"Authorization": f"Bearer {server.api_key}", "X-Namespace": "work"}
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60) as client:
        client.post("/write", json={"path": "a.txt", "content": "mine"}).raise_for_status()
        client.post("/v1/snapshots", json={}).raise_for_status()
        yield client


@contextmanager
def prompt(other: httpx.Client) -> Generator[None]:
    """Asks for something as another tenant, and whether the server lives, until the block ends."""
    over, worst, failed = threading.Event(), [0.0], list[str]()

    def ask() -> None:
        while True:
            begun = time.monotonic()
            for path in ("/files/a.txt", "/v1/snapshots", "/health/live", "/health"):
                answer = other.get(path)
                if answer.status_code != 200:
                    failed.append(answer.text)
            worst[0] = max(worst[0], time.monotonic() - begun)
            if over.wait(0.05):
                return

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        over.set()
        asking.join()
    assert not failed
    assert worst[0] < PROMPT_S


class Silent(BaseHTTPRequestHandler):
    """Takes a request, and says nothing until it may."""

    may_end = threading.Event()

    def do_POST(self) -> None:
        self.may_end.wait(9)

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - as the base has it
        pass


def test_slow_requests_of_one_tenant_keep_no_upload_of_another_waiting(
    server: Server, hostile: Tenant, other: httpx.Client
) -> None:
    Silent.may_end.clear()
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Silent) as receiver,
        hostile.client(server, is_admin=True) as admin,
        ThreadPoolExecutor(48) as pool,
    ):
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        base = f"/v1/workspaces/{hostile.id}/webhooks"
        url = f"http://127.0.0.1:{receiver.server_port}/"
        hook = admin.post(base, json={"url": url, "events": ["file.written"]}).json()["webhook_id"]
        slow = [pool.submit(admin.post, f"{base}/{hook}/test") for _ in range(48)]
        begun = time.monotonic()
        with prompt(other):
            for number in range(3):
                answer = other.put("/v1/files/raw", params={"path": f"{number}"}, content=b"x")
                assert answer.status_code == 200
            assert other.get("/v1/export").status_code == 200
        assert time.monotonic() - begun < PROMPT_S
        assert not any(each.done() for each in slow[4:])
        Silent.may_end.set()
        assert {each.result().status_code for each in slow} == {200}
        receiver.shutdown()


def test_requests_of_one_tenant_that_wait_for_the_database_keep_no_other_waiting(
    server: Server, hostile: Tenant, other: httpx.Client
) -> None:
    """The file's lock is held: whatever writes waits in its thread."""
    catalog = sqlite3.connect(server.data / "catalog.sqlite", isolation_level=None)
    with (
        closing(catalog),
        hostile.client(server) as client,
        ThreadPoolExecutor(24) as pool,
    ):
        catalog.execute("BEGIN IMMEDIATE")
        body = {"path": "x", "content": "x"}
        writing = [pool.submit(client.post, "/write", json=body) for _ in range(24)]
        try:
            with prompt(other):
                for _ in range(10):
                    assert other.get("/files/a.txt").text == "mine"
            assert not any(each.done() for each in writing)
        finally:
            catalog.execute("ROLLBACK")
        assert {each.result().status_code for each in writing} == {200}


def stream_of(server: Server, tenant: Tenant, *, key: str | None = None) -> socket.socket:
    """Begins a stream of events; returns the connection once it is answered, or refused."""
    connection = socket.create_connection(("127.0.0.1", server.port), 30)
    connection.sendall(
        f"GET /v1/workspaces/me/events/stream HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {key or tenant.admin_key}\r\n\r\n".encode()
    )
    return connection


def test_a_key_has_so_many_streams_and_the_next_one_is_told_to_come_back(
    server: Server, hostile: Tenant, other: httpx.Client
) -> None:
    with ExitStack() as stack, prompt(other):
        streams = [stream_of(server, hostile) for _ in range(STREAMS_OF_KEY)]
        for stream in streams:
            assert b" 200 OK" in stack.enter_context(closing(stream)).recv(4096)
        refused = stack.enter_context(hostile.client(server, is_admin=True))
        answer = refused.get("/v1/workspaces/me/events/stream")
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many_at_once")
        assert int(answer.headers["Retry-After"]) == answer.json()["error"]["retry_after"] > 0
        # Another key, and another tenant, have their own.
        with holdfast.open(server.data) as vault:
            key = vault.tenant("hostile").keys.create("second", admin=True).api_key
        for who in (stream_of(server, hostile, key=key), mine(server)):
            assert b" 200 OK" in stack.enter_context(closing(who)).recv(4096)
        streams[0].close()
        deadline = time.monotonic() + 20
        while b" 200 OK" not in stack.enter_context(closing(stream_of(server, hostile))).recv(4096):
            assert time.monotonic() < deadline


def mine(server: Server) -> socket.socket:
    return stream_of(server, Tenant("", "", server.admin_key))


# What comes in is held against the quota before it lands.


@pytest.fixture
def limited(server: Server, hostile: Tenant) -> Iterator[Tenant]:
    with hostile.client(server, is_admin=True) as admin:
        path = "/v1/workspaces/me/quota"
        admin.put(path, json={"quota_bytes": MIB}).raise_for_status()
        yield hostile
        admin.put(path, json={"quota_bytes": None}).raise_for_status()


def upload(server: Server, tenant: Tenant, what: str, length: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), 30)
    connection.sendall(
        f"{what} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tenant.key}\r\n"
        f"X-Namespace: work\r\n{length}\r\n\r\n".encode()
    )
    return connection


def answer_of(wire: socket.socket, begun: bytes = b"") -> bytes:
    """Returns an answer of JSON, whole."""
    wire.settimeout(30)
    got = begun
    while not got.endswith(b"}"):
        more = wire.recv(4096)
        assert more, got
        got += more
    return got


UPLOADS = ["POST /v1/import", "PUT /v1/files/raw?path=big", "PUT /files/big"]


def taken_by_spools(data: Path, server: Server) -> int:
    """Returns the bytes of spooled files, with a name in the vault's folder or without one."""
    assert server.process is not None
    named = sum(file.stat().st_size for file in data.glob("holdfast-import-*"))
    nameless = 0
    for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
        try:
            if str(link.readlink()).startswith(f"{data}/") and "(deleted)" in str(link.readlink()):
                nameless += link.stat().st_size
        except FileNotFoundError:
            continue
    return named + nameless


@pytest.mark.parametrize("what", UPLOADS)
def test_an_upload_beyond_the_quota_is_refused_by_its_length_alone(
    server: Server, limited: Tenant, other: httpx.Client, what: str
) -> None:
    size = 16 * GIB - 1 if "import" in what else 99 * MIB
    with prompt(other), closing(upload(server, limited, what, f"Content-Length: {size}")) as wire:
        answer = answer_of(wire)
        assert b" 413 " in answer
        assert b"quota_exceeded" in answer
        assert taken_by_spools(server.data, server) == 0


@pytest.mark.parametrize("what", UPLOADS)
def test_an_upload_that_does_not_say_how_long_it_is_ends_where_the_quota_does(
    server: Server, limited: Tenant, other: httpx.Client, what: str
) -> None:
    piece, sent, worst = b"%x\r\n%s\r\n" % (MIB, b"\0" * MIB), 0, 0
    length = "Transfer-Encoding: chunked"
    with prompt(other), closing(upload(server, limited, what, length)) as wire:
        wire.settimeout(0.2)
        answer = b""
        while not answer and sent < 300:
            wire.settimeout(30)
            wire.sendall(piece)
            sent += 1
            worst = max(worst, taken_by_spools(server.data, server))
            wire.setblocking(False)
            try:
                answer = wire.recv(4096)
            except BlockingIOError:
                continue
        answer = answer_of(wire, answer)
        assert b" 413 " in answer
        assert b"quota_exceeded" in answer
        assert worst <= 12 * MIB
        assert taken_by_spools(server.data, server) == 0


def test_a_file_longer_than_the_quota_of_its_namespace_is_refused_by_its_length(
    server: Server, hostile: Tenant
) -> None:
    with hostile.client(server) as client, hostile.client(server, is_admin=True) as admin:
        client.post("/write", json={"path": "x", "content": "x"}).raise_for_status()
        path = "/v1/workspaces/me/namespaces/work/quota"
        admin.put(path, json={"quota_bytes": 3 * MIB}).raise_for_status()
        what = UPLOADS[1]
        with closing(upload(server, hostile, what, f"Content-Length: {4 * MIB}")) as wire:
            answer = answer_of(wire)
        admin.put(path, json={"quota_bytes": None}).raise_for_status()
    assert b" 413 " in answer
    assert b"quota_exceeded" in answer


# An archive says in its beginning what it is, and how much.


def archive_in(folder: Path, *, size: int = 0, floats: int = 0) -> bytes:
    """Returns an archive with a file of so many bytes, and a session with so many numbers."""
    with holdfast.open(folder / "elsewhere") as vault:
        agent = vault.namespace("other")
        agent.files.write("zeros", bytes(size))
        if floats:
            agent.sessions.create("a", initial_state={"a": [0.5] * floats})
        agent.export(folder / "archive")
    return (folder / "archive").read_bytes()


def first_answer_to(server: Server, tenant: Tenant, begun: bytes, *, of: int) -> bytes:
    """Begins an import of so many bytes; returns how that is answered before the rest comes."""
    with closing(upload(server, tenant, UPLOADS[0], f"Content-Length: {of}")) as wire:
        wire.sendall(begun)
        answer = answer_of(wire)
    assert taken_by_spools(server.data, server) == 0
    return answer


def test_an_archive_that_says_it_is_too_much_is_refused_before_all_of_it_has_come(
    server: Server, hostile: Tenant, other: httpx.Client, tmp_path: Path
) -> None:
    archive = archive_in(tmp_path, size=12 * MIB)
    with hostile.client(server) as client, hostile.client(server, is_admin=True) as admin:
        client.post("/write", json={"path": "x", "content": "x"}).raise_for_status()
        path = "/v1/workspaces/me/namespaces/work/quota"
        admin.put(path, json={"quota_bytes": 12 * MIB - 1}).raise_for_status()
        with prompt(other):
            answer = first_answer_to(server, hostile, archive[: 10 * MIB], of=len(archive))
        assert b" 413 " in answer
        assert b"quota_exceeded" in answer
        admin.put(path, json={"quota_bytes": 12 * MIB}).raise_for_status()
        assert client.post("/v1/import", content=archive).status_code == 200
        admin.put(path, json={"quota_bytes": None}).raise_for_status()


def test_what_is_no_archive_is_refused_before_all_of_it_has_come(
    server: Server, hostile: Tenant, other: httpx.Client
) -> None:
    with prompt(other):
        answer = first_answer_to(server, hostile, bytes(10 * MIB), of=GIB)
    assert b" 400 " in answer
    assert b"unsafe_archive" in answer


def test_an_archive_with_something_behind_its_end_is_refused_before_it_is_looked_into(
    server: Server, hostile: Tenant, other: httpx.Client, tmp_path: Path
) -> None:
    """A session of so many numbers takes seconds to look into, for as many as it has."""
    archive = archive_in(tmp_path, floats=1_000_000)
    with hostile.client(server) as client, prompt(other):
        before = server.cpu_s()
        answer = client.post("/v1/import", content=archive + b"x" * 512)
        took = server.cpu_s() - before
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsafe_archive")
    assert "after its end" in answer.json()["error"]["message"]
    assert took < 1


def test_a_server_that_looks_into_an_archive_stops_in_time(tmp_path: Path, at_once: Begin) -> None:
    archive = archive_in(tmp_path, floats=2_000_000)
    with running_server(tmp_path, environ={"HOLDFAST_STOP_SECONDS": "1"}, begin=at_once) as server:
        tenant = Tenant("", server.api_key, server.admin_key)
        with closing(upload(server, tenant, UPLOADS[0], f"Content-Length: {len(archive)}")) as wire:
            wire.sendall(archive)
            begun = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - begun < 2 * PROMPT_S


def test_a_server_that_was_killed_leaves_no_upload_for_longer_than_until_the_next(
    tmp_path: Path, at_once: Begin
) -> None:
    with running_server(tmp_path, begin=at_once) as server:
        tenant = Tenant("", server.api_key, server.admin_key)
        with closing(upload(server, tenant, UPLOADS[0], f"Content-Length: {GIB}")) as wire:
            wire.sendall(bytes(MIB))
            wait_until(lambda: taken_by_spools(server.data, server) > 0)
            server.kill()
        assert len(list(server.data.glob("holdfast-import-*"))) == 1
        with closing(upload(server.start(), tenant, UPLOADS[0], f"Content-Length: {GIB}")) as wire:
            wire.sendall(bytes(MIB))
            wait_until(lambda: taken_by_spools(server.data, server) > 0)
            assert len(list(server.data.glob("holdfast-import-*"))) == 1
            with running_server(tmp_path):
                assert len(list(server.data.glob("holdfast-import-*"))) == 1, "it is in use"


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# What is too much is refused while it comes, and nobody waits for it.


def test_a_body_that_holds_too_much_is_refused_before_all_of_it_has_come(
    server: Server, hostile: Tenant, other: httpx.Client
) -> None:
    length = f"Content-Length: {31 * MIB}"
    begun = b'{"agent_id": "a", "initial_state": {"a": [' + b"0.5," * MIB
    with prompt(other), closing(upload(server, hostile, "POST /v1/sessions", length)) as wire:
        wire.sendall(begun)
        answer = answer_of(wire)
    assert b" 413 " in answer
    assert b"500000 values" in answer


def test_a_restore_with_very_many_patterns_keeps_nobody_else_waiting(
    server: Server, hostile: Tenant, other: httpx.Client
) -> None:
    with hostile.client(server) as client, ThreadPoolExecutor(8) as pool:
        for number in range(50):
            body = {"path": f"{number:060}", "content": "x"}
            client.post("/write", json=body).raise_for_status()
        snapshot = client.post("/v1/snapshots", json={}).json()["snapshot_id"]
        paths = [f"*{number}*x" for number in range(36_000)]
        ask = {"json": {"paths": paths, "dry_run": True}}
        begun = time.monotonic()
        with prompt(other):
            path = f"/v1/snapshots/{snapshot}/restore"
            asked = [pool.submit(client.post, path, **ask) for _ in range(8)]
            answers = [each.result() for each in asked]
        assert time.monotonic() - begun < 2 * PROMPT_S
    assert {answer.status_code for answer in answers} == {400}
    assert "too many" in answers[0].json()["error"]["message"]


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\r\nX-A: ", b"GET /"], ids=["header", "url"])
def test_an_endless_head_keeps_nobody_else_waiting(
    server: Server, other: httpx.Client, head: bytes
) -> None:
    """Of one that is refused, little more is taken: nobody has to read what has no end."""
    sent = 0
    with prompt(other), closing(socket.create_connection(("127.0.0.1", server.port), 30)) as wire:
        wire.sendall(head)
        try:
            for _ in range(200):
                wire.sendall(b"a" * MIB)
                sent += 1
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert sent < 50


def test_more_connections_than_a_server_may_have_keep_nobody_else_waiting(tmp_path: Path) -> None:
    few = ("sh", "-c", 'ulimit -n 256; exec "$0" "$@"', *COMMAND)
    with running_server(tmp_path, command=few) as server, ExitStack() as stack:
        worst = 0.0
        for number in range(400):
            wire = socket.create_connection(("127.0.0.1", server.port), 30)
            stack.enter_context(closing(wire)).sendall(b"GET / HT" if number % 2 else b"")
            if number % 10 == 0:
                begun = time.monotonic()
                assert httpx.get(f"{server.url}/health/live", trust_env=False).status_code == 200
                headers = {"Authorization": f"Bearer {server.api_key}", "X-Namespace": "work"}
                url = f"{server.url}/v1/snapshots"
                assert httpx.get(url, headers=headers, trust_env=False).status_code == 200
                worst = max(worst, time.monotonic() - begun)
        assert worst < PROMPT_S
        assert "Too many open files" not in server.read_log()


FLOODED_S, STRANGERS = 4.0, 400
ASKED = (b"GET /v1/me", b"GET /no", b"DELETE /health", b"GET /console/session", b"GET /console/")
FLOOD = b"".join(each + b" HTTP/1.1\r\nHost: x\r\n\r\n" for each in ASKED)


def flood(server: Server, until: float) -> int:
    """Asks without a key on many connections, again and again; returns how many answers came."""
    answers = 0
    with ExitStack() as stack, selectors.DefaultSelector() as waiting:
        for _ in range(STRANGERS):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            stranger.sendall(FLOOD * 2)
            stranger.setblocking(False)
            waiting.register(stranger, selectors.EVENT_READ, stranger)
        while time.monotonic() < until:
            for key, _ in waiting.select(0.05):
                with suppress(BlockingIOError):
                    answers += key.data.recv(1 << 16).count(b"HTTP/1.1 ")
                    key.data.send(FLOOD)
    return answers


def test_a_flood_of_strangers_keeps_no_newcomer_out(server: Server) -> None:
    end = time.monotonic() + FLOODED_S
    with ThreadPoolExecutor(1) as pool:
        flooding = pool.submit(flood, server, end)
        time.sleep(1)
        waited = list[float]()
        while time.monotonic() < end:
            begun = time.monotonic()
            httpx.get(f"{server.url}/health/live", trust_env=False).raise_for_status()
            waited.append(time.monotonic() - begun)
        assert flooding.result() < AT_ONCE + PER_S * (FLOODED_S + 2)
    assert len(waited) > STRANGERS / 40  # One at a turn of the loop was let in.
    assert max(waited) < FLOODED_S / 2
