"""Several servers of one vault in a database: no disk of their own, one limit, a database away."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

import holdfast
from holdfast.testing.proxies import Proxy
from holdfast.testing.servers import ADMIN_KEY, API_KEY, COMMAND, Begin, Server, running_server
from holdfast.testing.shells import environment

pytestmark = [pytest.mark.postgres, pytest.mark.in_memory]

PATIENCE_S = 30.0
CLIENTS = 10


def client(server: Server, key: str = API_KEY) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}", "X-Namespace": "alice"}
    return httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60)


# A database that is away


class Writers:
    """Clients that write, whatever they are answered."""

    def __init__(self, server: Server) -> None:
        self._server, self._stop = server, threading.Event()
        self.answers = list[tuple[float, float, httpx.Response]]()
        """When each was asked and answered, and with what."""

    def __enter__(self) -> Self:
        self._threads = ThreadPoolExecutor(CLIENTS)
        self._writing = [self._threads.submit(self._write, number) for number in range(CLIENTS)]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._threads.shutdown()
        for each in self._writing:
            each.result()

    def succeed(self, *, after: float) -> bool:
        return any(answer.is_success for began, _, answer in self.answers if began > after)

    def _write(self, number: int) -> None:
        with client(self._server) as http:
            while not self._stop.is_set():
                began = time.monotonic()
                answer = http.put(f"/files/{number}.txt", content=b"x")
                self.answers.append((began, time.monotonic(), answer))
                self._stop.wait(0.05)


def wait_until(is_so: Callable[[], bool]) -> float:
    """Waits for something; returns when it was so."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return time.monotonic()


def test_while_the_database_is_away_all_are_told_soon_and_it_is_used_as_soon_as_it_is_back(
    postgres_url: str, tmp_path: Path, at_once: Begin
) -> None:
    place = urlsplit(postgres_url)
    assert place.port is not None
    with Proxy(place.port) as proxy:
        url = postgres_url.replace(f":{place.port}/", f":{proxy.port}/")
        with (
            running_server(
                tmp_path, environ={"HOLDFAST_DATABASE_URL": url}, begin=at_once
            ) as server,
            Writers(server) as writers,
            client(server) as http,
        ):

            def is_ready() -> bool:
                return http.get("/health/ready").status_code == 200

            wait_until(lambda: writers.succeed(after=0))
            assert is_ready()
            proxy.cut()
            cut_at = time.monotonic()
            assert wait_until(lambda: not is_ready()) - cut_at < 2
            began = time.monotonic()
            assert not is_ready()
            assert time.monotonic() - began < 1.5
            assert http.get("/health/live").status_code == 200
            # Until the first have waited in vain, and a little longer.
            wait_until(lambda: time.monotonic() - cut_at > 7)
            proxy.mend()
            back_at = time.monotonic()
            assert wait_until(lambda: writers.succeed(after=cut_at)) - back_at < 2
            wait_until(is_ready)
    assert {answer.status_code for _, _, answer in writers.answers} == {200, 503}
    refused = [each for each in writers.answers if each[2].status_code == 503]
    assert max(ended - began for began, ended, _ in refused) < 6
    for _, _, answer in refused:
        # Of what may have happened nobody is told to ask again.
        is_known = answer.json()["error"]["code"] == "unavailable"
        assert ("retry-after" in answer.headers) == is_known
    # In the last second nobody waited any more.
    late = [ended - began for began, ended, _ in refused if back_at - 1 < began < back_at]
    assert late
    assert max(late) < 1


# No disk of its own


def test_the_first_keys_are_in_the_catalog_until_one_is_used(
    postgres_url: str, tmp_path: Path, warm: tuple[str, ...], at_once: Begin
) -> None:
    environ = {
        **environment(tmp_path),
        "HOLDFAST_DATABASE_URL": postgres_url,
        "HOLDFAST_OBJECTS_URL": str(tmp_path / "packs"),
        "HOLDFAST_DATA": str(tmp_path / "none"),
    }

    def first() -> dict[str, str]:
        told = subprocess.run(
            [*warm, "keys", "first", "--json"], env=environ, capture_output=True, check=True
        )
        return {each["scope"]: each["api_key"] for each in json.loads(told.stdout)["keys"]}

    given = {"HOLDFAST_ADMIN_KEY": "", "HOLDFAST_API_KEY": "", "TMPDIR": str(tmp_path)}
    with running_server(tmp_path / "a", environ={**environ, **given}, begin=at_once) as server:
        keys = first()
        assert keys.keys() == {"admin", "runtime"}
        assert first() == keys
        # What is no terminal may be a log.
        assert not any(key in server.log.read_text() for key in keys.values())
        assert not (server.data / "credentials.json").exists()
        with running_server(tmp_path / "b", environ={**environ, **given}, begin=at_once) as other:
            assert first() == keys
            with client(other, keys["runtime"]) as http:
                assert http.get("/v1/me").status_code == 200
        # The one that was used has been noted, at the latest when that server has ended.
        deadline = time.monotonic() + PATIENCE_S
        while first():
            assert time.monotonic() < deadline
            with client(server, keys["runtime"]) as http:
                assert http.get("/v1/me").status_code == 200
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT * FROM holdfast.first_keys").fetchall() == []


BWRAP = shutil.which("bwrap")


@pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed")
def test_a_server_needs_nothing_that_can_be_written_but_its_spool_and_the_packs(
    postgres_url: str, tmp_path: Path
) -> None:
    assert BWRAP is not None
    spool, packs = tmp_path / "spool", tmp_path / "packs"
    spool.mkdir()
    packs.mkdir()
    write = [each for folder in (spool, packs) for each in ("--bind", str(folder), str(folder))]
    command = [BWRAP, "--ro-bind", "/", "/", "--dev", "/dev", "--die-with-parent", *write, *COMMAND]
    environ = {
        "HOLDFAST_DATABASE_URL": postgres_url,
        "HOLDFAST_OBJECTS_URL": str(packs),
        "HOLDFAST_SPOOL": str(spool),
        "HOME": "/nonexistent",
        "TMPDIR": "/nonexistent",
    }
    if subprocess.run([*command[: -len(COMMAND)], "true"], check=False).returncode:
        pytest.skip("this machine lets nobody make a root that cannot be written")
    with running_server(
        tmp_path / "run", "--workers", "2", environ=environ, command=command
    ) as server:
        with client(server) as http:
            big = os.urandom(3 << 20)
            assert http.put("/files/big.bin", content=big).status_code == 200
            assert http.post("/v1/snapshots", json={"label": "kept"}).status_code == 201
            exported = http.get("/v1/export")
            assert exported.status_code == 200
            http.headers["X-Namespace"] = "bob"
            done = http.post("/v1/import", content=exported.content)
            assert done.is_success, done.text
            assert http.get("/files/big.bin").content == big
            assert http.get("/metrics").status_code == 200
        with client(server, ADMIN_KEY) as http:
            assert http.post("/v1/workspaces/me/collect").is_success
        assert "Traceback" not in server.read_log()


# One limit for all


@pytest.fixture
def three(postgres_url: str, tmp_path: Path, at_once: Begin) -> Iterator[list[Server]]:
    with ExitStack() as stack:
        environ = {
            "HOLDFAST_DATABASE_URL": postgres_url,
            "HOLDFAST_OBJECTS_URL": str(tmp_path / "p"),
        }
        yield [
            stack.enter_context(
                running_server(tmp_path / str(number), environ=environ, begin=at_once)
            )
            for number in range(3)
        ]


def test_three_servers_let_a_key_make_no_more_than_one_would(
    three: list[Server], postgres_url: str, tmp_path: Path
) -> None:
    with holdfast.open(postgres_url, objects=tmp_path / "p") as vault:
        key = vault.keys.create("limited", rate_limit=60).api_key
    began, seconds = time.monotonic(), 4.0

    def ask(server: Server) -> Counter[int]:
        found = Counter[int]()
        with client(server, key) as http:
            while time.monotonic() - began < seconds:
                with suppress(httpx.TransportError):
                    found[http.get("/v1/me").status_code] += 1
        return found

    with ThreadPoolExecutor(6) as threads:
        found = sum(threads.map(ask, three * 2), Counter[int]())
    took = time.monotonic() - began
    assert found.keys() == {200, 429}
    # Half a minute's worth at once, and one more each second: what one server alone lets through.
    assert 30 <= found[200] <= 31 + took
