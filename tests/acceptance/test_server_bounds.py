"""What one request may cost the others: bodies, answers and slow calls have bounds."""

import base64
import json
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import httpx
import pytest

from holdfast import Client
from holdfast.testing.servers import Server, most_awaited_s, running_server

MIB = 1 << 20
WORST_S = 0.6
"""What the server may compute while somebody waits: three times what it does."""

LIVE_S = 0.25
"""What whoever asks whether the server lives waits for at the most, beside whatever body."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc says what it costs")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("bounds")
    with running_server(folder, environ={"HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1"}) as running:
        yield running


@pytest.fixture
def agent(server: Server) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {server.api_key}", "X-Namespace": "alice"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client


def test_a_body_of_very_many_lists_is_refused_before_it_is_decoded(
    server: Server, agent: httpx.Client
) -> None:
    body = b'{"x": [' + b",".join([b"[]"] * MIB) + b"]}"
    before = server.cpu_s()
    answer = agent.post("/v1/tasks", content=body)
    assert answer.status_code == 422
    assert "lists and objects" in answer.json()["detail"]
    assert server.cpu_s() - before < WORST_S


def test_paths_of_thousands_of_levels_are_written_a_few_at_a_time(
    server: Server, agent: httpx.Client
) -> None:
    paths = [f"r{number}/{'d/' * 2030}a" for number in range(100)]
    sent = {"files": [{"path": path, "content": "YQ=="} for path in paths]}
    before = server.cpu_s()
    answer = agent.post("/v1/files/write_many", json=sent)
    assert answer.status_code == 413
    assert "fewer of them together" in answer.json()["detail"]
    assert server.cpu_s() - before < WORST_S
    with Client(server.api_key, url=server.url, namespace="deep") as client:
        assert client.files.write_many((path, b"a") for path in paths[:12]) == 12
        assert client.files.read(paths[11]) == b"a"


def of_state(value: bytes) -> bytes:
    return b'{"agent_id": "a", "initial_state": {"a": ' + value + b"}}"


def with_unknown(value: bytes) -> bytes:
    return b'{"path": "a.txt", "content": "b", "unknown": ' + value + b"}"


def of_text(quoted: bytes) -> bytes:
    return b'{"path": "large.txt", "content": "' + quoted + b'"}'


BODIES: dict[str, tuple[str, Callable[[], bytes], int]] = {
    # More than is made anything of: it took seconds to decode, and gigabytes.
    "floats in no field": (
        "/write",
        lambda: with_unknown(b"[" + b"1.5," * (30 * MIB) + b"1]"),
        413,
    ),
    "keys in no field": (
        "/write",
        lambda: with_unknown(b"{" + b",".join(b'"%07d":1' % n for n in range(6_000_000)) + b"}"),
        413,
    ),
    "a state of floats": (
        "/v1/sessions",
        lambda: of_state(b"[" + b"1.5," * (7 * MIB) + b"1]"),
        413,
    ),
    # As much as is taken.
    "a file of line ends": ("/write", lambda: of_text(b"\\n" * (20 * MIB)), 200),
    "a file with one wide character": (
        "/write",
        lambda: of_text(b"a" * (99 * MIB) + "😀".encode()),
        200,
    ),
    "a state of many floats": (
        "/v1/sessions",
        lambda: of_state(b"[" + b"0.1234567890123456," * 499_000 + b"1]"),
        201,
    ),
    "a state of many lists": (
        "/v1/sessions",
        lambda: of_state(b"[" + b"[]," * 99_000 + b"1]"),
        201,
    ),
    "a state of one text": (
        "/v1/sessions",
        lambda: of_state(b'"' + b"\\n" * (15 * MIB) + b'"'),
        201,
    ),
}


def packed(data: bytes) -> dict[str, object]:
    value = {"$msgpack": base64.b64encode(data).decode()}
    return {"namespace": "n", "key": "packed", "value": value}


@pytest.mark.parametrize("item", [b"\x90", b"\x01", b"\x80", b"\xa0"])
def test_a_value_that_would_unpack_to_millions_is_refused_before_it_is(
    agent: httpx.Client, item: bytes
) -> None:
    many = b"\xdd" + (8 * MIB).to_bytes(4, "big") + item * (8 * MIB)
    answer = agent.put("/v1/store/value", json=packed(many))
    assert answer.status_code == 413
    assert "500000" in answer.json()["error"]["message"]
    some = b"\xdd" + (100_000).to_bytes(4, "big") + item * 100_000
    assert agent.put("/v1/store/value", json=packed(some)).status_code == 200
    assert agent.put("/v1/store/value", json=packed(some[:-1])).status_code == 422


@pytest.mark.parametrize("shape", BODIES)
def test_while_a_large_body_is_read_everybody_else_is_answered(
    server: Server, agent: httpx.Client, shape: str
) -> None:
    path, make, status = BODIES[shape]
    body, answers, waits = make(), list[httpx.Response](), list[float]()
    # The same work takes up to twice the processor's time where others use its caches.
    while not waits or (min(waits) >= LIVE_S and len(waits) < 3):
        sending = threading.Thread(target=lambda: answers.append(agent.post(path, content=body)))
        sending.start()
        waits.append(most_awaited_s(server, sending.is_alive, paths=["/health/live"]))
    assert {answer.status_code for answer in answers} == {status}
    assert min(waits) < LIVE_S


def most_memory(server: Server) -> int:
    """Returns the most memory that the process has had at any time."""
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def test_a_body_is_in_memory_once(tmp_path: Path) -> None:
    body = of_text(b"x" * (90 * MIB))
    with running_server(tmp_path) as server:
        headers = {"Authorization": f"Bearer {server.api_key}", "X-Namespace": "alice"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=60) as agent:
            agent.post("/write", content=of_text(b"x")).raise_for_status()
            before = most_memory(server)
            agent.post("/write", content=body).raise_for_status()
        # The rest is what the engine needs on the way.
        assert most_memory(server) - before < 1.5 * len(body)


@pytest.mark.parametrize(
    ("path", "fits"), [("/v1/tasks", False), ("/write", True), ("/v1/store/value", True)]
)
def test_large_bodies_are_taken_only_where_they_have_a_use(
    agent: httpx.Client, path: str, *, fits: bool
) -> None:
    text = "x" * (9 * MIB)
    body = {
        "/v1/tasks": {"name": "t", "metadata": {"text": text}},
        "/write": {"path": "large.txt", "content": text},
        "/v1/store/value": {"namespace": "n", "key": "k", "value": text},
    }[path]
    answer = agent.request("PUT" if "store" in path else "POST", path, content=json.dumps(body))
    assert (answer.status_code == 200) is fits
    assert answer.status_code in (200, 413)


def test_a_history_that_would_fill_the_memory_is_refused_and_comes_in_parts(
    agent: httpx.Client,
) -> None:
    state = {"text": "x" * (20 * MIB)}
    made = agent.post("/v1/sessions", json={"agent_id": "a", "initial_state": state})
    session = made.json()["id"]
    for step in range(5):
        agent.patch(f"/v1/sessions/{session}/state", json={"state": {"step": step}})
    path = f"/v1/sessions/{session}/state/history"
    answer = agent.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "payload_too_large")
    assert "fewer" in answer.json()["error"]["message"]
    part = agent.get(path, params={"limit": 1, "since_version": 3}).json()
    assert [version["version"] for version in part["data"]] == [4]
    assert agent.get(path, params={"include_state": False}).json()["current_version"] == 5


def test_answers_that_nobody_takes_fill_no_memory(tmp_path: Path) -> None:
    state = {"text": "x" * (30 * MIB)}
    with running_server(tmp_path) as server, ExitStack() as stack:
        headers = {"Authorization": f"Bearer {server.api_key}", "X-Namespace": "alice"}
        agent = stack.enter_context(httpx.Client(base_url=server.url, headers=headers, timeout=60))
        made = agent.post("/v1/sessions", json={"agent_id": "a", "initial_state": state})
        path = f"/v1/sessions/{made.json()['id']}/state"
        assert agent.get(path).json()["state"] == state
        before = most_memory(server)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        looking = stack.enter_context(selectors.DefaultSelector())
        for _ in range(30):
            connection = socket.create_connection(("127.0.0.1", server.port), 60)
            stack.enter_context(closing(connection))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
            looking.register(connection, selectors.EVENT_READ)
        # Four are sent to a key at a time, and four wait; all others are told to come back.
        refused = list[tuple[int, str]]()
        while len(refused) < 22:
            ready = looking.select(60)
            assert ready
            for each, _ in ready:
                looking.unregister(each.fileobj)
                answer = stack.enter_context(HTTPResponse(cast("socket.socket", each.fileobj)))
                answer.begin()
                if answer.status != 200:
                    assert answer.headers["Retry-After"]
                    refused.append((answer.status, json.load(answer)["error"]["code"]))
        assert {*refused} == {(503, "answers_not_taken")}
        # Eight are there, as JSON and as what is sent, and some on the way from one to the other.
        assert most_memory(server) - before < 26 * len(state["text"])
        assert agent.get("/v1/sessions", params={"include_state": False}).is_success


def test_a_batch_that_names_one_value_many_times_is_refused(agent: httpx.Client) -> None:
    place = {"namespace": "n", "key": "large"}
    agent.put("/v1/store/value", json={**place, "value": "x" * MIB})
    answer = agent.post("/v1/store/batch", json={"get": [place] * 100})
    assert answer.status_code == 413
    assert agent.post("/v1/store/batch", json={"get": [place] * 2}).status_code == 200


class Silent(BaseHTTPRequestHandler):
    """Takes a request, and says nothing until it may."""

    def do_POST(self) -> None:
        self.server.is_over.wait(60)  # pyright: ignore[reportAttributeAccessIssue] - set below

    def log_message(self, *_: object) -> None:
        pass


def test_slow_calls_of_one_caller_keep_nobody_else_waiting(server: Server) -> None:
    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    receiver.is_over = threading.Event()  # pyright: ignore[reportAttributeAccessIssue] - ours
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    base = f"{server.url}/v1/workspaces/{server.workspace_id}/webhooks"
    with httpx.Client(headers=headers, timeout=60) as admin:
        url = f"http://127.0.0.1:{receiver.server_port}/"
        hook = admin.post(base, json={"url": url, "events": ["exec.completed"]}).json()[
            "webhook_id"
        ]
        callers = [
            threading.Thread(target=admin.post, args=(f"{base}/{hook}/test",)) for _ in range(12)
        ]
        for caller in callers:
            caller.start()
        for _ in range(5):
            assert admin.get(f"{server.url}/health").status_code == 200
        # Nobody had to go before the others were answered.
        assert all(caller.is_alive() for caller in callers)
        receiver.is_over.set()
        for caller in callers:
            caller.join()
    receiver.shutdown()
    receiver.server_close()


def test_uses_of_a_key_are_written_down_before_a_server_stops(tmp_path) -> None:
    with running_server(tmp_path) as server:
        headers = {"Authorization": f"Bearer {server.admin_key}"}
        with httpx.Client(base_url=server.url, headers=headers) as admin:
            for _ in range(5):
                admin.get("/v1/me")
        assert server.stop() == 0
        server.start()
        with httpx.Client(base_url=server.url, headers=headers) as admin:
            keys = admin.get(f"/v1/workspaces/{server.workspace_id}/keys").json()["keys"]
    assert max(key["requests"] for key in keys) >= 5


def test_texts_that_are_slow_to_compare_keep_nobody_else_waiting(
    server: Server, agent: httpx.Client
) -> None:
    # Half of the lines are the same: `difflib` took a minute for each.
    old, new = (
        "".join("same\n" if n % 2 else f"{side}{n}\n" for n in range(16_000)) for side in "ab"
    )
    # No order at all: whatever compares them has to give up.
    mixed = "".join(f"{n * n % 101}\n" for n in range(100_000))
    for text in (old, new):
        agent.post("/write", json={"path": "half.txt", "content": text})
        agent.post("/write", json={"path": "none.txt", "content": mixed})
        agent.post("/v1/snapshots", json={})
        mixed = mixed[::-1].strip() + "\n"
    compared = list[str]()

    def compare(path: str) -> None:
        answer = agent.get("/v1/diff/text", params={"path": path, "from": "@-1", "to": "latest"})
        assert answer.status_code == 200
        assert answer.json()["diff"].startswith("Too different") is (path == "none.txt")
        compared.append(path)

    threads = [threading.Thread(target=compare, args=(f"{n}.txt",)) for n in ["half", "none"] * 4]
    for thread in threads:
        thread.start()
    worst = most_awaited_s(
        server,
        lambda: any(thread.is_alive() for thread in threads),
        paths=["/v1/snapshots", "/health/live"],
    )
    for thread in threads:
        thread.join()
    assert sorted(compared) == 4 * ["half.txt"] + 4 * ["none.txt"]
    assert worst < WORST_S


def test_reading_under_ever_new_names_keeps_no_answers(server: Server, agent: httpx.Client) -> None:
    value = "x" * 700_000
    agent.put("/v1/store/value", json={"namespace": "n", "key": "large", "value": value})
    asked = {"get": [{"namespace": "n", "key": "large"}]}
    before = sum(each.stat().st_size for each in server.data.rglob("*") if each.is_file())
    for name in range(20):
        answer = agent.post(
            "/v1/store/batch", json=asked, headers={"Idempotency-Key": f"read-{name}"}
        )
        assert answer.status_code == 200, answer.text
        assert value in answer.text
    again = agent.post("/v1/store/batch", json=asked, headers={"Idempotency-Key": "read-0"})
    assert value in again.text
    assert "Idempotent-Replayed" not in again.headers
    after = sum(each.stat().st_size for each in server.data.rglob("*") if each.is_file())
    assert after - before < 4 * MIB


def test_numbers_that_no_row_holds_are_refused_by_name(server: Server, agent: httpx.Client) -> None:
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    for path in ("quota", "namespaces/alice/quota"):
        answer = httpx.put(
            f"{server.url}/v1/workspaces/me/{path}",
            json={"quota_bytes": 2**63},
            headers=headers,
            trust_env=False,
        )
        assert answer.status_code in (400, 422), answer.text
        assert "quota_bytes" in answer.text
        assert "SQLite" not in answer.text
    answer = agent.get(f"/v1/traces/{'9' * 390}")
    assert answer.status_code == 404


def test_a_quota_says_what_a_refusal_says(server: Server, agent: httpx.Client) -> None:
    headers, place = {"Authorization": f"Bearer {server.admin_key}"}, "/v1/workspaces/me/quota"
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False) as operator:
        assert operator.put(place, json={"quota_bytes": 1}).status_code == 200
        refused = agent.post("/write", json={"path": "more.txt", "content": "x" * 2000})
        used = operator.get(place).json()["used_bytes"]
        assert operator.put(place, json={"quota_bytes": None}).status_code == 200
    assert refused.status_code == 413
    assert f"uses {used} of 1 bytes" in refused.text


def test_whoever_asks_for_another_protocol_writes_nothing_into_the_log(server: Server) -> None:
    for protocol in ("websocket", "h2c"):
        upgrade = {"Connection": "Upgrade", "Upgrade": protocol}
        answer = httpx.get(f"{server.url}/health/live", headers=upgrade, trust_env=False)
        assert answer.status_code == 200
    assert "upgrade" not in server.read_log().lower()
    assert "websocket" not in server.read_log().lower()


def test_counters_are_made_once_a_second(server: Server) -> None:
    def ask() -> str:
        return httpx.get(f"{server.url}/metrics", trust_env=False).text

    assert any(ask() == ask() for _ in range(3))
