"""Signing programs in that have no key: the installed `holdfast`, and a person who decides."""

import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import holdfast
from holdfast.testing.servers import COMMAND, Begin, Server, running_server
from holdfast.testing.shells import environment

pytestmark = pytest.mark.in_memory

CODE = re.compile(r"your code is ([A-Z]{4}-[A-Z]{4})\b")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    found = environment(tmp_path, NO_PROXY="127.0.0.1")
    return {n: v for n, v in found.items() if "DISPLAY" not in n and n != "XDG_CONFIG_HOME"}


@contextmanager
def login(url: str, environ: dict[str, str], *argv: str) -> Iterator[tuple[str, Any]]:
    """Starts it, and hands out the code that it shows."""
    with subprocess.Popen(
        [*COMMAND, "login", url, *argv],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            found = CODE.search(first := process.stderr.readline())
            assert found is not None, first + process.stderr.read()
            yield found[1], process
        finally:
            process.kill()


def holdfast_says(environ: dict[str, str], *argv: str) -> str:
    done = subprocess.run(
        [*COMMAND, *argv], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.fixture
def boss(server: Server) -> Iterator[holdfast.AdminClient]:
    with holdfast.AdminClient(server.admin_key, url=server.url) as admin:
        yield admin


def test_a_machine_is_signed_in_and_its_clients_find_the_key(
    server: Server, boss: holdfast.AdminClient, environ: dict[str, str], tmp_path: Path
):
    with login(server.url, environ) as (code, process):
        seen = boss.logins.find(code.lower())
        assert seen.client.startswith("holdfast login")
        assert seen.address == "127.0.0.1"
        assert f"{server.url}/console/device#code={code}" in "".join(
            process.stderr.readline() for _ in range(2)
        )
        boss.logins.approve(code, "laptop", namespace="alice")
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "for namespace alice" in out
    (key,) = [each for each in boss.keys.list() if each.name == "laptop"]
    assert key.namespace == "alice"
    kept = tmp_path / ".config" / "holdfast" / "logins.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    secret = json.loads(kept.read_text())["servers"][server.url]["api_key"]
    assert secret not in out + server.log.read_text("utf-8")
    # A client that was told nothing finds server, key and namespace.
    script = (
        "import holdfast; c = holdfast.Client(); c.files.write('a', 'b'); print(c.snapshot().id)"
    )
    python = [sys.executable, "-c", script]
    done = subprocess.run(python, env=environ, capture_output=True, text=True, check=True)
    with holdfast.Client(server.api_key, url=server.url, namespace="alice") as alice:
        assert alice.get_snapshot(done.stdout.strip()).actor == key.id
    assert key.id in holdfast_says(environ, "logout")
    assert json.loads(kept.read_text())["servers"] == {}
    again = subprocess.run(python, env=environ, capture_output=True, text=True, check=False)
    assert again.returncode != 0
    assert "Nothing is kept" in holdfast_says(environ, "logout", server.url)


def test_who_is_refused_is_told(
    server: Server, boss: holdfast.AdminClient, environ: dict[str, str], tmp_path: Path
):
    with login(server.url, environ) as (code, process):
        boss.logins.deny(code)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "it was refused in the browser" in err
    assert not (tmp_path / ".config").exists()


def test_codes_are_few_and_asked_for_slowly(tmp_path: Path, at_once: Begin):
    with (
        running_server(tmp_path, begin=at_once) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        started = [http.post("/v1/auth/device/start") for _ in range(11)]
        assert [each.status_code for each in started] == [200] * 10 + [429]
        first = started[0].json()
        assert (first["interval"], first["expires_in"]) == (2, 600)
        asked = {"device_code": first["device_code"]}
        polled = [http.post("/v1/auth/device/poll", json=asked) for _ in range(3)]
        told = [(each.status_code, each.json()["status"]) for each in polled]
        assert told == [(200, "pending"), (200, "slow_down"), (200, "slow_down")]
        assert polled[1].json()["interval"] == 4
        headers = {"Authorization": f"Bearer {server.admin_key}"}
        where = "/v1/workspaces/me/logins/find"
        tried = [
            http.post(where, json={"user_code": "AAAA-AAAA"}, headers=headers) for _ in range(31)
        ]
        assert [each.status_code for each in tried] == [404] * 30 + [429]
        # An agent's key decides nothing.
        headers = {"Authorization": f"Bearer {server.api_key}"}
        body = {"user_code": first["user_code"], "name": "mine", "admin": True}
        answer = http.post("/v1/workspaces/me/logins/approve", json=body, headers=headers)
        assert answer.status_code == 403
        # The address that people are sent to is one that this server goes by.
        evil = http.post("/v1/auth/device/start", headers={"Host": "evil.example"})
        assert evil.status_code in (403, 429)


def test_without_a_console_nobody_signs_in(tmp_path: Path, environ: dict[str, str], at_once: Begin):
    with (
        running_server(tmp_path, environ={"HOLDFAST_CONSOLE": "0"}, begin=at_once) as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=60) as http,
    ):
        paths = ["/v1/auth/device/start", "/v1/auth/device/poll", "/v1/workspaces/me/logins/find"]
        assert [http.post(path, json={}).status_code for path in paths] == [404] * 3
        done = subprocess.run(
            [*COMMAND, "login", server.url],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, "nobody can sign in" in done.stderr) == (1, True)
