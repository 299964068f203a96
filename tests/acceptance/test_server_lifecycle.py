"""A server's life: its first start, what it says of itself, its workers, its end.

Real processes, started the way an operator starts them.
"""

import json
import os
import pty
import re
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from holdfast.testing.servers import ADMIN_KEY, API_KEY, COMMAND, Server, running_server

pytestmark = pytest.mark.in_memory

MIB = 1 << 20
PATIENCE_S = 20.0
NAMESPACE = {"X-Namespace": "alice"}
SIZES_MIB = (100, 300)
MOST_MORE_KIB = 160 * 1024  # Of 200 MiB more; packs under way take up to some dozens each time.
"""That a file of 200 MiB more may take: packs are made ready in memory, some at once; files are
not."""

UPLOAD = "PUT /files/slow.txt HTTP/1.1"


def client(server: Server, key: str = API_KEY) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}", **NAMESPACE}
    return httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=30)


def ask(server: Server, path: str, key: str = API_KEY) -> httpx.Response:
    """Asks over a connection of its own, so that any worker may answer."""
    with client(server, key) as http:
        return http.get(path)


# The first start, and the ones after it.


def run_serve(
    *arguments: str,
    environ: dict[str, str] | None = None,
    command: tuple[str, ...] = COMMAND,
) -> "subprocess.Popen[str]":
    """Starts `holdfast serve` with an environment in which nothing of ours is set."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")}
    return subprocess.Popen(
        [*command, "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**inherited, **(environ or {})},
        start_new_session=True,
    )


def told_until_stopped(process: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> str:
    """Waits until it answers, asks the process to stop, and returns all that it told."""
    assert process.stdout is not None
    assert process.stderr is not None
    first = ""
    while (found := re.search(r"http://[\w.:]+", first)) is None:
        first += process.stdout.readline()
    wait_until(lambda: answers(found[0]), "an answer")
    process.send_signal(number)
    # Not `communicate`, which knows nothing of what was read ahead.
    with process.stdout, process.stderr:
        rest, errors = process.stdout.read(), process.stderr.read()
    assert process.wait(PATIENCE_S) == 0, errors
    return first + rest


def test_the_first_start_keeps_its_keys_for_their_owner_alone(tmp_path: Path):
    data = tmp_path / "vault"
    told = told_until_stopped(run_serve("--data", str(data), "--port", "0"))
    kept = data / "credentials.json"
    keys = json.loads(kept.read_text())
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert re.search(r"^Holdfast is at http://127\.0\.0\.1:\d+$", told, re.MULTILINE)
    assert str(kept) in told
    # What is no terminal may be a log, and logs are kept and passed on.
    assert not any(keys[name] in told for name in ("admin_key", "api_key"))
    # Only hashes are at rest: nowhere in the vault but in that file is a key to be found.
    for path in data.rglob("*"):
        if path.is_file() and path != kept:
            assert keys["admin_key"].encode() not in path.read_bytes(), path
            assert keys["api_key"].encode() not in path.read_bytes(), path


def test_the_first_start_shows_its_keys_on_a_terminal(tmp_path: Path):
    shown, terminal = pty.openpty()
    data = tmp_path / "vault"
    command = [*COMMAND, "serve", "--data", str(data), "--port", "0"]
    with closing(os.fdopen(shown, "rb", buffering=0)) as screen:
        process = subprocess.Popen(command, stdout=terminal, start_new_session=True)
        os.close(terminal)
        told = b""
        while b"readable by you alone" not in told:
            told += screen.read(4096)
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    keys = json.loads((data / "credentials.json").read_text())
    assert all(keys[name].encode() in told for name in ("workspace_id", "admin_key", "api_key"))


def test_a_later_start_shows_no_key_and_admits_the_same_ones(tmp_path: Path):
    data = tmp_path / "vault"
    told_until_stopped(run_serve("--data", str(data), "--port", "0"))
    kept = (data / "credentials.json").read_bytes()
    keys = json.loads(kept)
    environ = {"HOLDFAST_ADMIN_KEY": ADMIN_KEY, "HOLDFAST_API_KEY": API_KEY}
    told = told_until_stopped(run_serve("--data", str(data), "--port", "0", environ=environ))
    assert told.count("\n") == 1
    assert (data / "credentials.json").read_bytes() == kept
    with running_server(tmp_path) as server:
        assert ask(server, "/v1/me", keys["api_key"]).json()["scope"] == "workspace"
        assert ask(server, "/v1/me", keys["admin_key"]).json()["scope"] == "admin"
        # Keys of the environment are for the first start: later they open nothing.
        assert ask(server, "/v1/me", ADMIN_KEY).status_code == 401


def test_the_environment_says_what_flags_do_not(tmp_path: Path):
    environ = {
        "HOLDFAST_DATA": str(tmp_path / "elsewhere"),
        "HOLDFAST_HOST": "127.0.0.2",
        "HOLDFAST_PORT": "0",
        "HOLDFAST_ADMIN_KEY": ADMIN_KEY,
        "HOLDFAST_API_KEY": API_KEY,
    }
    told = json.loads(told_until_stopped(run_serve("--json", environ=environ)))
    assert told["url"].startswith("http://127.0.0.2:")
    assert told["credentials"] == str(tmp_path / "elsewhere" / "credentials.json")
    assert json.loads(Path(told["credentials"]).read_text())["admin_key"] == ADMIN_KEY


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDFAST_PORT", "http"),
        ("HOLDFAST_PORT", "70000"),
        ("HOLDFAST_WORKERS", "-1"),
        ("HOLDFAST_ADMIN_KEY", "short"),
        ("HOLDFAST_EXEC", "yes"),
        ("HOLDFAST_DEFAULT_NAMESPACE", "../others"),
        ("HOLDFAST_GIT_CERTIFICATES", "/dev"),
        ("HOLDFAST_DATABASE_URL", "mysql://somewhere"),
        ("HOLDFAST_PREFIX", "no-slash"),
    ],
)
def test_a_setting_that_is_none_ends_the_start_with_a_sentence(
    name: str, value: str, tmp_path: Path, warm: tuple[str, ...]
):
    environ = {"HOLDFAST_PORT": "0", "HOLDFAST_DATA": str(tmp_path / "v"), name: value}
    process = run_serve(environ=environ, command=warm)
    told, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (1, 2), errors
    assert told == ""
    assert errors.startswith("holdfast: ")
    assert "Traceback" not in errors
    # Who looks before is told the same.
    looking = run_serve("--check", environ=environ, command=warm)
    _, found = looking.communicate(timeout=PATIENCE_S)
    assert (looking.returncode, found) == (process.returncode, errors)


def test_a_port_that_is_taken_ends_the_start_with_a_sentence(server: Server, tmp_path: Path):
    arguments = ("--data", str(tmp_path / "other"), "--port", str(server.port))
    told, errors = (process := run_serve(*arguments)).communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert told == ""
    assert f"127.0.0.1:{server.port}" in errors
    assert "--port" in errors
    assert "database" not in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "other" / "credentials.json").exists()


def test_a_vault_in_postgresql_serves_and_keeps_its_packs_in_the_data_directory(
    tmp_path: Path, postgres_url: str
):
    with running_server(tmp_path, environ={"HOLDFAST_DATABASE_URL": postgres_url}) as server:
        body = os.urandom(2 * MIB)
        with client(server) as http:
            assert http.put("/files/a.bin", content=body).status_code == 200
            snapshot = http.post("/v1/snapshots", json={"label": "kept"}).json()
        assert server.stop() == 0
        server.start()
        with client(server) as http:
            assert http.get("/files/a.bin").content == body
            listed = http.get("/v1/snapshots").json()["snapshots"]
        assert [each["snapshot_id"] for each in listed] == [snapshot["snapshot_id"]]
    assert not (server.data / "credentials.json").exists()
    assert not (server.data / "catalog.sqlite").exists()


def test_below_a_prefix_everything_answers_and_beside_it_nothing(tmp_path: Path):
    with running_server(tmp_path, environ={"HOLDFAST_PREFIX": "/deep/down"}) as server:
        assert server.url.endswith("/deep/down")
        with client(server) as http:
            assert http.get("/v1/me").json()["workspace_id"] == server.workspace_id
            assert http.put("/files/deep/down/a.txt", content=b"a").status_code == 200
            assert http.get("/files/deep/down/a.txt").content == b"a"
            root = server.url.removesuffix("/deep/down")
            for path in ("/v1/me", "/health", "/deep/downward/health", "/deep", "/"):
                assert http.get(f"{root}{path}").status_code == 404, path


# The end.


class Wire:
    """A connection on which a test sends and reads bytes as it likes."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)

    def send(self, first: str, body: bytes = b"", **headers: str) -> None:
        named = {"Host": "x", "Authorization": f"Bearer {API_KEY}", **NAMESPACE, **headers}
        lines = [first, *(f"{name.replace('_', '-')}: {value}" for name, value in named.items())]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode() + body)

    def send_more(self, body: bytes) -> None:
        self._socket.sendall(body)

    def read_until(self, mark: bytes) -> bytes:
        read = b""
        while mark not in read:
            piece = self._socket.recv(65536)
            assert piece, f"the connection ended after {read!r}"
            read += piece
        return read

    def read_to_end(self) -> bytes:
        read = b""
        while piece := self._socket.recv(65536):
            read += piece
        return read

    def close(self) -> None:
        self._socket.close()


def begin_upload(server: Server) -> Wire:
    """Begins to upload ten bytes; returns once a route waits for them."""
    wire = Wire(server)
    wire.send(UPLOAD, Content_Length="10", Expect="100-continue", Connection="close")
    wire.read_until(b"100 Continue")
    wire.send_more(b"01234")
    return wire


def listen(server: Server) -> Wire:
    """Listens to events; returns once the stream has begun."""
    wire = Wire(server)
    path = f"/v1/workspaces/{server.workspace_id}/events/stream"
    wire.send(f"GET {path} HTTP/1.1", Authorization=f"Bearer {ADMIN_KEY}")
    wire.read_until(b'"connected"')
    return wire


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def is_refused(server: Server) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port), 1).close()
    except ConnectionRefusedError:
        return True
    return False


def wait_until(condition, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not in {PATIENCE_S} s"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "workers"), [(signal.SIGTERM, 1), (signal.SIGINT, 1), (signal.SIGTERM, 2)]
)
def test_asked_to_stop_it_ends_streams_at_once_and_lets_requests_finish(
    number: int, workers: int, tmp_path: Path
):
    with running_server(tmp_path, "--workers", str(workers)) as server:
        with closing(listen(server)) as stream, closing(begin_upload(server)) as upload:
            assert server.process is not None
            server.process.send_signal(number)
            begun = time.monotonic()
            stream.read_to_end()
            assert time.monotonic() - begun < 5
            wait_until(lambda: is_refused(server), "no new connections")
            assert server.process.poll() is None
            upload.send_more(b"56789")
            assert b"HTTP/1.1 200" in upload.read_to_end()
        assert server.process.wait(PATIENCE_S) == 0
        server.stop()
        server.start()
        assert ask(server, "/files/slow.txt").content == b"0123456789"


def test_asked_to_stop_while_it_starts_it_stops(tmp_path: Path):
    process = run_serve("--data", str(tmp_path / "vault"), "--port", "0")
    assert process.stdout is not None
    process.stdout.readline()  # From here on it is about to answer.
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors


def test_an_upload_that_breaks_off_writes_nothing_and_hinders_no_stop(tmp_path: Path):
    with running_server(tmp_path) as server:
        begin_upload(server).close()
        assert ask(server, "/files/slow.txt").status_code == 404
        begun = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begun < 5


# Workers.


def workers_of(server: Server) -> list[int]:
    assert server.process is not None
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    found: list[int] = []
    for pid in children.read_text().split():
        with suppress(FileNotFoundError, ProcessLookupError):  # It has ended meanwhile.
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    return found


@contextmanager
def only(worker: int, of: list[int]) -> Iterator[None]:
    """Stops the other workers for a moment, so that this one has to answer."""
    others = [pid for pid in of if pid != worker]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


def ask_each(server: Server, path: str, key: str = API_KEY) -> list[httpx.Response]:
    workers = workers_of(server)
    answers = list[httpx.Response]()
    for worker in workers:
        with only(worker, workers):
            answers.append(ask(server, path, key))
    return answers


def test_of_two_workers_both_answer_forget_a_key_at_once_and_count_together(tmp_path: Path):
    with running_server(tmp_path, "--workers", "2") as server:
        wait_until(lambda: len(workers_of(server)) == 2, "two workers")
        keys = f"/v1/workspaces/{server.workspace_id}/keys"
        with client(server, ADMIN_KEY) as admin:
            made = admin.post(keys, json={"name": "short-lived"}).json()
            before = ask_each(server, "/v1/me", made["api_key"])
            assert [answer.status_code for answer in before] == [200, 200]
            admin.delete(f"{keys}/{made['key_id']}")
        after = ask_each(server, "/v1/me", made["api_key"])
        assert [answer.status_code for answer in after] == [401, 401]
        counted = 'holdfast_requests_total{method="GET",route="/v1/me",status="200"} 2.0'
        for answer in ask_each(server, "/metrics"):
            assert counted in answer.text
        pids = workers_of(server)
        assert server.stop() == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_worker_that_dies_is_replaced(tmp_path: Path):
    with running_server(tmp_path, "--workers", "2") as server:
        wait_until(lambda: len(workers_of(server)) == 2, "two workers")
        gone = workers_of(server)[0]
        os.kill(gone, signal.SIGKILL)
        wait_until(
            lambda: gone not in workers_of(server) and len(workers_of(server)) == 2, "another one"
        )
        assert ask(server, "/v1/me").status_code == 200
        said = f"worker {gone} was ended by SIGKILL: worker "
        wait_until(lambda: said in server.log.read_text(), "a line of the log")


def test_a_worker_that_dies_while_it_is_asked_is_replaced_at_once(tmp_path: Path):
    with running_server(tmp_path, "--workers", "2") as server:
        wait_until(lambda: len(workers_of(server)) == 2, "two workers")
        gone = workers_of(server)[0]
        os.kill(gone, signal.SIGSTOP)
        time.sleep(1.5)  # by now it has been asked whether it lives, and cannot answer
        os.kill(gone, signal.SIGKILL)
        wait_until(
            lambda: gone not in workers_of(server) and len(workers_of(server)) == 2, "another one"
        )


def kill_parent(server: Server) -> None:
    """Kills the process that keeps the workers, and not them."""
    assert server.process is not None
    server.process.kill()
    server.process.wait(PATIENCE_S)


def test_workers_end_with_their_parent_and_let_requests_finish(tmp_path: Path):
    with running_server(tmp_path, "--workers", "2") as server:
        wait_until(lambda: len(workers_of(server)) == 2, "two workers")
        workers = workers_of(server)
        with closing(listen(server)) as stream, closing(begin_upload(server)) as upload:
            kill_parent(server)
            begun = time.monotonic()
            wait_until(lambda: is_refused(server), "the port is free")
            assert time.monotonic() - begun < 5
            stream.read_to_end()
            upload.send_more(b"56789")
            assert b"HTTP/1.1 200" in upload.read_to_end()
        wait_until(lambda: not any(map(is_there, workers)), "the end of the workers")
        assert server.stop() == -signal.SIGKILL
        server.start()
        assert ask(server, "/files/slow.txt").content == b"0123456789"


def test_workers_whose_parent_dies_while_they_start_end_too(tmp_path: Path):
    process = run_serve("--data", str(tmp_path / "vault"), "--port", "0", "--workers", "2")
    server = Server(data=tmp_path / "vault", log=tmp_path / "log", process=process)
    wait_until(lambda: len(workers_of(server)) == 2, "two workers")
    workers = workers_of(server)
    process.kill()
    process.communicate(timeout=PATIENCE_S)  # which ends when nobody holds its output any more
    assert not any(map(is_there, workers))


def is_there(pid: int) -> bool:
    """Says whether a process runs; one that ended may wait for somebody to ask how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# What it says while it runs.


def test_health_needs_no_key_and_metrics_hold_no_secret(server: Server):
    with client(server) as http:
        http.put("/files/hush-hush.txt", content=b"very private")
        http.get("/v1/files/content", params={"path": "hush-hush.txt"})
    bare = httpx.get(f"{server.url}/health", trust_env=False)
    assert bare.status_code == 200
    assert bare.json()["status"] == "healthy"
    answer = httpx.get(f"{server.url}/metrics", trust_env=False)
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert "# TYPE holdfast_requests_total counter" in answer.text
    # Nobody has to be told that packs beside the rows answer.
    assert "holdfast_packs_answered" not in answer.text
    for line in answer.text.splitlines():
        assert re.fullmatch(r"#.*|[a-z_:]+(\{.*\})? [-+0-9.eIinfNa]+", line), line
    for secret in (API_KEY, ADMIN_KEY, "hush-hush", "alice", server.workspace_id):
        assert secret not in answer.text


def log_of(server: Server) -> list[dict[str, Any]]:
    lines = server.log.read_text().splitlines()
    return [json.loads(line.partition(" holdfast.access ")[2]) for line in lines]


def test_the_log_says_who_did_what_and_holds_no_key_name_body_or_query(server: Server):
    with client(server) as http:
        http.post("/write", json={"path": "log-path.txt", "content": "log-body"})
        http.get("/v1/files/content", params={"path": "log-query.txt"})
        http.get("/files/log-path.txt")
        http.post("/v1/sessions", json={"agent_id": "log-agent", "initial_state": {"a": "log-s"}})
        http.post("/write", content=b"{log-broken", headers={"Content-Type": "application/json"})
        http.get("/log-nowhere")
        answer = http.get("/v1/me", headers={"X-Request-Id": "log-request-1"})
        assert answer.headers["X-Request-Id"] == "log-request-1"
        key_id = answer.json()["key_id"]
    headers = {"X-Request-Id": "log-request-2", "Authorization": "Bearer log-wrong-key"}
    assert httpx.get(f"{server.url}/v1/me", headers=headers, trust_env=False).status_code == 401
    last = "log-request-2"
    wait_until(lambda: any(line["request_id"] == last for line in log_of(server)), "the last line")
    told, lines = log_of(server), server.log.read_text().splitlines()
    [mine] = [line for line in told if line["request_id"] == "log-request-1"]
    assert (mine["method"], mine["route"], mine["status"]) == ("GET", "/v1/me", 200)
    assert (mine["key"], mine["workspace"]) == (key_id, server.workspace_id)
    assert len({line["request_id"] for line in told}) == len(told)
    text = "\n".join(lines).replace("log-request-", "")
    for secret in ("log-", API_KEY, ADMIN_KEY):
        assert secret not in text


@pytest.mark.parametrize("given", ["a" * 65, "two words", "a\xe9", "a;b", ""])
def test_a_request_id_that_is_none_is_replaced(server: Server, given: str):
    headers = {"X-Request-Id": given.encode("latin-1")}
    answer = httpx.get(f"{server.url}/health", headers=headers, trust_env=False)
    assert re.fullmatch(r"req_[0-9a-f]{16}", answer.headers["X-Request-Id"])


def test_every_answer_tells_what_is_left_even_one_that_refuses(server: Server):
    for path, key in (("/v1/me", API_KEY), ("/v1/me", "wrong"), ("/nowhere", API_KEY)):
        headers = ask(server, path, key).headers
        assert int(headers["X-RateLimit-Remaining"]) <= int(headers["X-RateLimit-Limit"])
        assert 0 < int(headers["X-RateLimit-Reset"]) - time.time() <= 60


def test_a_key_with_a_limit_is_refused_beyond_it_and_told_when_to_come_back(server: Server):
    keys = f"/v1/workspaces/{server.workspace_id}/keys"
    with client(server, ADMIN_KEY) as admin:
        made = admin.post(keys, json={"name": "slow", "rate_limit": 3}).json()
    with client(server, made["api_key"]) as http:
        answers = [http.get("/v1/me") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == [*"21000"]
    assert answers[-1].headers["X-RateLimit-Limit"] == "3"
    assert 0 < int(answers[-1].headers["Retry-After"]) <= 60
    assert 0 < int(answers[-1].headers["X-RateLimit-Reset"]) - time.time() <= 65
    assert answers[-1].json()["error"]["code"] == "rate_limit_exceeded"
    assert ask(server, "/v1/me").status_code == 200


# Large files.


def peak_kib(server: Server) -> int:
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1])


@pytest.mark.slow
def test_large_files_pass_through_without_being_held_in_memory(tmp_path: Path):
    environ = {"HOLDFAST_MAX_UPLOAD_BYTES": str(SIZES_MIB[-1] * MIB)}
    peaks = list[int]()
    with running_server(tmp_path, environ=environ) as server, client(server) as http:
        for size in SIZES_MIB:
            sent = upload(http, size)
            with http.stream("GET", "/files/large.bin") as download:
                assert download.headers["X-Trove-Size"] == str(size * MIB)
                received = blake2b()
                for part in download.iter_raw():
                    received.update(part)
            assert received.digest() == sent.digest()
            peaks.append(peak_kib(server))
    assert peaks[1] - peaks[0] < MOST_MORE_KIB


def upload(http: httpx.Client, size_mib: int) -> "blake2b":
    """Uploads a file of bytes that are all different; returns the hash of them."""
    sent = blake2b()

    def pieces() -> Iterator[bytes]:
        for _ in range(size_mib):
            part = os.urandom(MIB)
            sent.update(part)
            yield part

    length = {"Content-Length": str(size_mib * MIB)}
    answer = http.put("/files/large.bin", content=pieces(), headers=length)
    assert answer.json()["size_bytes"] == size_mib * MIB
    return sent


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_stops_in_time_whatever_still_runs(
    tmp_path: Path, postgres_url: str, workers: str
) -> None:
    environ = {"HOLDFAST_DATABASE_URL": postgres_url, "HOLDFAST_STOP_SECONDS": "1"}
    with running_server(tmp_path, "--workers", workers, environ=environ) as server:
        with client(server) as agent:
            agent.post("/v1/snapshots", json={"label": "there"})
        with psycopg.connect(postgres_url) as holder:
            # Somebody holds what the request needs, and never lets go.
            holder.execute("LOCK TABLE holdfast.snapshots IN ACCESS EXCLUSIVE MODE")
            with closing(socket.create_connection(("127.0.0.1", server.port))) as asking:
                head = f"Host: x\r\nAuthorization: Bearer {API_KEY}\r\nX-Namespace: alice\r\n\r\n"
                asking.sendall(f"GET /v1/timeline HTTP/1.1\r\n{head}".encode())
                _wait_for_blocked(postgres_url)
                begun = time.monotonic()
                assert server.stop() == 0
                assert time.monotonic() - begun < PATIENCE_S
        log = server.read_log()
        assert "Cancel 1 running task" in log
        assert "Traceback" not in log


def _wait_for_blocked(url: str) -> None:
    asked = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    deadline = time.monotonic() + PATIENCE_S
    with psycopg.connect(url, autocommit=True) as looking:
        while time.monotonic() < deadline:
            if looking.execute(asked).fetchone() != (0,):
                return
            time.sleep(0.02)
    pytest.fail("nothing waits for the lock")
