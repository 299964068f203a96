"""The console's door on real servers: two workers, both databases, a terminal, and a log."""

import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import holdfast
from holdfast.testing.servers import ADMIN_KEY, API_KEY, COMMAND, Begin, Server, running_server

pytestmark = pytest.mark.in_memory

OURS = {"Sec-Fetch-Site": "same-origin", "X-Holdfast-Console": "1"}
ALICE = {"X-Namespace": "alice"}


@pytest.fixture(scope="module")
def server(either: tuple[Path, dict[str, str]], at_once: Begin) -> Iterator[Server]:
    folder, environ = either
    more = {"HOLDFAST_PREFIX": "/hf", **environ}
    with running_server(folder, "--workers", "2", environ=more, begin=at_once) as started:
        yield started


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    """A browser that opens a connection for each request: either worker may get it."""
    with httpx.Client(
        base_url=server.url,
        trust_env=False,
        timeout=30,
        limits=httpx.Limits(max_keepalive_connections=0),
    ) as client:
        yield client


def sign_in(http: httpx.Client, **body: str) -> httpx.Response:
    return http.post("/console/session", json=body, headers=OURS)


def opened(server: Server) -> holdfast.Holdfast:
    url = server.environ.get("HOLDFAST_DATABASE_URL")
    return holdfast.open(url or server.data, objects=server.data / "packs" if url else None)


def test_a_sign_in_counts_with_all_workers_until_it_ends(http: httpx.Client):
    assert sign_in(http, api_key=API_KEY).status_code == 200
    assert sign_in(http, api_key=ADMIN_KEY).json()["scopes"] == ["workspace", "admin"]
    for _ in range(10):
        assert http.get("/v1/timeline?in=alice").status_code == 200
        assert http.get("/v1/workspaces/me/keys").status_code == 200
    assert http.request("DELETE", "/console/session?everywhere=true", headers=OURS).is_success
    assert not http.cookies
    assert [http.get("/v1/timeline?in=alice").status_code for _ in range(6)] == [401] * 6


def test_a_link_is_taken_by_one_worker_for_all_and_nothing_of_it_is_logged(
    server: Server, http: httpx.Client
):
    with opened(server) as vault:
        link = vault.sign_ins.create_link()
    got = [sign_in(http, link=link) for _ in range(4)]
    assert [each.status_code for each in got] == [200, 401, 401, 401]
    token = http.cookies[f"holdfast-{http.base_url.port}"]
    assert http.get("/v1/timeline?in=alice").status_code == 200
    deadline = time.monotonic() + 20
    while (log := server.log.read_text("utf-8")).count('"via":"console"') < 1:
        assert time.monotonic() < deadline, log
    assert not [each for each in (link, token, API_KEY, ADMIN_KEY) if each in log]


def test_the_live_stream_is_for_who_is_signed_in_and_ends_with_the_key(
    server: Server, http: httpx.Client
):
    with opened(server) as vault:
        brief = vault.keys.create("brief", namespace="alice")
    sign_in(http, api_key=brief.api_key)
    path = "/v1/workspaces/me/events/stream?namespace=alice"
    with http.stream("GET", path, headers={"Sec-Fetch-Site": "same-origin"}) as live:
        lines = live.iter_lines()
        assert '"type":"connected"' in next(lines)
        http.post("/v1/snapshots", headers={**ALICE, **OURS}).raise_for_status()
        told = next(line for line in lines if "snapshot.created" in line)
        assert '"namespace":"alice"' in told
        with opened(server) as vault:
            vault.keys.revoke(brief.id)
        assert not [line for line in lines if line.startswith("data")]
    assert http.get("/v1/timeline").status_code == 401


def test_signing_out_ends_the_live_stream(http: httpx.Client):
    sign_in(http, api_key=API_KEY)
    with http.stream("GET", "/v1/workspaces/me/events/stream?namespace=quiet") as live:
        lines = live.iter_lines()
        assert "connected" in next(lines)
        http.delete("/console/session", headers=OURS).raise_for_status()
        assert not [line for line in lines if line.startswith("data")]


def printed(tmp_path: Path, *arguments: str, environ: dict[str, str] | None = None) -> str:
    """Returns what a server says on a terminal until it listens, and then ends it."""
    parent, child = pty.openpty()
    given = {**os.environ, "HOLDFAST_API_KEY": API_KEY, "HOLDFAST_ADMIN_KEY": ADMIN_KEY}
    process = subprocess.Popen(
        [*COMMAND, "serve", "--data", str(tmp_path / "vault"), "--port", "0", *arguments],
        stdout=child,
        stderr=subprocess.DEVNULL,
        env={**given, **(environ or {})},
        start_new_session=True,
    )
    os.close(child)
    try:
        told = b""
        while b"readable by you alone" not in told:
            told += os.read(parent, 4096)
        if "#link=" in told.decode():
            link = r"http://(\S+)\.localhost:(\d+)(\S*)/console/#link=(\S+)"
            address = re.search(link, told.decode())
            assert address is not None
            base = f"http://127.0.0.1:{address[2]}{address[3]}"
            with httpx.Client(base_url=base, trust_env=False, timeout=60) as http:
                headers = {"Host": f"{address[1]}.localhost:{address[2]}", **OURS}
                answer = http.post("/console/session", json={"link": address[4]}, headers=headers)
                assert answer.json()["scopes"] == ["workspace", "admin"]
        return told.decode()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(parent)


def test_a_terminal_is_told_a_link_that_signs_in(tmp_path: Path):
    assert "#link=" in printed(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "environ"), [(["--host", "0.0.0.0"], {}), ([], {"HOLDFAST_CONSOLE": "0"})]
)
def test_no_link_leads_beyond_this_machine_or_nowhere(
    tmp_path: Path, arguments: list[str], environ: dict[str, str]
):
    assert "#link=" not in printed(tmp_path, *arguments, environ=environ)
