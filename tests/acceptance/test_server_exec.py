"""Commands over HTTP: both clients, who goes away, who is killed, and many at once."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from holdfast import AdminClient, AsyncClient, Client
from holdfast.errors import AddOnly, InvalidValue, NotBuilt
from holdfast.model.commands import Stopped
from holdfast.testing.sandboxes import why_none
from holdfast.testing.servers import COMMAND, Begin, Server, running_server

needs_sandbox = pytest.mark.skipif(why_none() is not None, reason=why_none() or "")

EXEC = {"HOLDFAST_EXEC": "1"}


@pytest.fixture(scope="module")
def served(home: Path, at_once: Begin) -> Iterator[Server]:
    if why_none() is not None:
        pytest.skip(why_none() or "")
    with running_server(home, environ=EXEC, begin=at_once) as started:
        yield started


def client_of(server: Server, namespace: str) -> Client:
    return Client(server.api_key, url=server.url, namespace=namespace)


def left(number: str) -> list[str]:
    found = subprocess.run(
        ["pgrep", "-f", f"sleep {number}"], capture_output=True, text=True, check=False
    )
    return found.stdout.split()


def await_none_left(number: str) -> None:
    until = time.monotonic() + 30
    while left(number) and time.monotonic() < until:
        time.sleep(0.02)
    assert left(number) == []


def test_a_command_is_heard_while_it_runs(served: Server) -> None:
    heard: list[tuple[str, str]] = []
    written = threading.Event()

    def hear(stream: str, text: str) -> None:
        heard.append((stream, text))
        if text == "first\n":
            # Before it has ended: what it waits for comes from here.
            written.set()

    with client_of(served, "heard") as client:
        client.files.write("a", "1")
        done = client.exec(
            "echo first; sleep 0.3; echo second >&2; cat a; echo 2 > b; exit 5", output=hear
        )
        assert heard[:2] == [("stdout", "first\n"), ("stderr", "second\n")]
        assert (done.exit_code, done.stdout, done.stderr) == (5, "first\n1", "second\n")
        assert written.is_set()
        assert client.files.read("b") == b"2\n"
        assert client.status().position == done.snapshot
        (event,) = client.events.list(types=["exec.completed"])
        assert (event.data["exit_code"], event.data["command"][:10]) == (5, "echo first")


def test_an_asynchronous_client_does_the_same(served: Server) -> None:
    async def use() -> None:
        heard: list[str] = []
        url = served.url
        async with AsyncClient(served.api_key, url=url, namespace="awaited") as client:
            await client.files.write("kept", "1")
            done = await client.exec(
                "echo out; rm kept; exit 1",
                rollback_on_failure=True,
                output=lambda _, text: heard.append(text),
            )
            assert (heard, done.stdout, done.exit_code) == (["out\n"], "out\n", 1)
            assert done.restored is not None
            assert await client.files.read("kept") == b"1"
            async with client.task("outer") as task:
                await client.exec("echo 2 > more")
            await client.undo(task=task.id)
            assert not await client.files.exists("more")

    asyncio.run(use())


@pytest.mark.parametrize("kind", [ValueError, RecursionError, httpx2.ReadError, KeyError])
def test_what_a_listener_raises_goes_on_and_the_command_is_ended(
    served: Server, kind: type[Exception]
) -> None:
    number = f"8{os.getpid()}"
    command = f"echo 1 > one; echo said; sleep {number}"
    error = kind("boom")

    def fail(_stream: str, _text: str) -> None:
        raise error

    async def use() -> None:
        url = served.url
        async with AsyncClient(served.api_key, url=url, namespace=f"a-{kind.__name__}") as client:
            await client.exec(command, output=fail)

    with client_of(served, kind.__name__) as client:
        with pytest.raises(kind) as raised:
            client.exec(command, output=fail)
        assert raised.value is error
        await_none_left(number)
    with pytest.raises(kind) as raised:
        asyncio.run(use())
    assert raised.value is error
    await_none_left(number)


def test_what_is_refused_says_why_with_a_status(served: Server) -> None:
    with client_of(served, "refused") as client:
        with pytest.raises(InvalidValue, match="network") as told:
            client.exec("true", network=True)
        assert told.value.http_status == 400
        with pytest.raises(InvalidValue, match="for 600 seconds at the most"):
            client.exec("true", timeout_s=1e6)
        with pytest.raises(InvalidValue, match="number of seconds"):
            client.exec("true", timeout_s=float("inf"))
        done = client.exec("sleep 60", timeout_s=0.2)
        assert done.stopped is Stopped.TIME
    headers = {"Authorization": f"Bearer {served.api_key}", "X-Namespace": "refused"}
    with httpx2.Client(base_url=served.url, headers=headers) as wire:
        for body in ({}, {"command": ""}, {"command": 1}, {"command": "x", "timeout_s": "long"}):
            assert wire.post("/v1/commands", json=body).status_code in (400, 422), body
        named = wire.post(
            "/v1/commands", json={"command": "true"}, headers={"Idempotency-Key": "once"}
        )
        assert named.status_code in (400, 422)
        lines = wire.post("/v1/commands", json={"command": "printf '\\377'"}).text.splitlines()
        assert json.loads(lines[0]) == {"stream": "stdout", "text": "\ufffd"}
        assert json.loads(lines[-1])["result"]["exit_code"] == 0
        # A name has the answer given again, where it is one answer.
        said = [
            wire.post(
                "/v1/exec", json={"command": "date +%N"}, headers={"Idempotency-Key": "twice"}
            ).json()["stdout"]
            for _ in range(2)
        ]
        assert said[0] == said[1]


def test_who_goes_away_takes_its_command_along(served: Server) -> None:
    number = f"7{os.getpid()}"
    headers = {"Authorization": f"Bearer {served.api_key}", "X-Namespace": "gone"}
    body = {"command": f"echo on; sleep {number}"}
    with (
        httpx2.Client(base_url=served.url, headers=headers) as wire,
        wire.stream("POST", "/v1/commands", json=body) as answer,
    ):
        said = answer.iter_bytes()  # Its end would be that of the connection.
        assert b"on" in next(said)
        assert left(number)
    await_none_left(number)
    with (
        httpx2.Client(base_url=served.url, headers=headers, timeout=1.0) as wire,
        pytest.raises(httpx2.ReadTimeout),
    ):
        wire.post("/v1/exec", json=body)
    await_none_left(number)
    with client_of(served, "gone") as client:
        assert client.exec("echo free").stdout == "free\n"


def test_who_leaves_the_line_is_never_begun(served: Server) -> None:
    headers = {"Authorization": f"Bearer {served.api_key}", "X-Namespace": "line"}
    number = f"6{os.getpid()}"

    def leave(route: str) -> None:
        body = {"command": f"rm -f kept; echo {route} > left"}
        with (
            httpx2.Client(base_url=served.url, headers=headers, timeout=1.0) as wire,
            pytest.raises(httpx2.ReadTimeout),
        ):
            wire.post(route, json=body)

    def stay() -> str:
        with client_of(served, "line") as client:
            return client.exec("ls; echo 1 > stayed").stdout

    with client_of(served, "line") as client:
        client.files.write("kept", "1")
        client.snapshot("before")
    with ThreadPoolExecutor(3) as pool:
        with (
            httpx2.Client(base_url=served.url, headers=headers) as wire,
            wire.stream("POST", "/v1/commands", json={"command": f"echo on; sleep {number}"}) as on,
        ):
            said = on.iter_bytes()  # Its end would be that of the connection.
            assert b"on" in next(said)
            leaving = [pool.submit(leave, route) for route in ("/v1/commands", "/v1/exec")]
            for each in leaving:
                each.result()
            staying = pool.submit(stay)
        # With who held the namespace gone, it is the turn of those who waited.
        assert staying.result() == "kept\n"
    await_none_left(number)
    with client_of(served, "line") as client:
        assert {each.path for each in client.files.list()} == {"kept", "stayed"}
        assert [each.label for each in client.timeline()] == [None, "before"]
        ran = [each.data["command"] for each in client.events.list(types=["exec.completed"])]
        assert ran == ["ls; echo 1 > stayed", f"echo on; sleep {number}"]


def test_many_at_once_over_many_namespaces(served: Server) -> None:
    def work(number: int) -> None:
        with client_of(served, f"many-{number % 20}") as client:
            done = client.exec(f"echo {number} > {number}; ls | wc -l")
            assert done.is_ok, done

    with ThreadPoolExecutor(40) as pool:
        list(pool.map(work, range(200)))
    for number in range(20):
        with client_of(served, f"many-{number}") as client:
            found = {each.path for each in client.files.list()}
            assert found == {str(each) for each in range(number, 200, 20)}


@needs_sandbox
def test_a_busy_namespace_keeps_no_other_of_its_tenant_waiting(served: Server) -> None:
    begun, done = threading.Event(), list[int]()

    def work(number: int) -> None:
        with client_of(served, "busy") as client:
            client.exec("echo begun; sleep 0.8", output=lambda *_: begun.set())
        done.append(number)

    with ThreadPoolExecutor(5) as pool:
        tasks = [pool.submit(work, number) for number in range(5)]
        assert begun.wait(30)
        with client_of(served, "quiet") as client:
            assert client.exec("echo quiet").stdout == "quiet\n"
            # Those that wait for the first one hold none of the tenant's four threads.
            assert len(done) < 2
        for task in tasks:
            task.result()


@needs_sandbox
def test_a_server_that_is_killed_leaves_no_command(tmp_path: Path, at_once: Begin) -> None:
    number, places = f"8{os.getpid()}", [f"place-{each}" for each in range(4)]
    with running_server(tmp_path, environ=EXEC, begin=at_once) as server:
        begun = threading.Semaphore(0)

        def run(place: str) -> None:
            with client_of(server, place) as client, pytest.raises(Exception):  # noqa: B017, PT011 - whatever a broken connection is
                client.exec(
                    f"echo 1 > half; echo on; setsid sleep {number} & sleep {number}",
                    output=lambda *_: begun.release(),
                )

        for place in places:
            with client_of(server, place) as client:
                client.exec("echo 1 > whole")
        # One runs in each, and others wait for it.
        running = [threading.Thread(target=run, args=(place,)) for place in places * 3]
        for each in running[: len(places)]:
            each.start()
        assert all(begun.acquire(timeout=30) for _ in places)
        for each in running[len(places) :]:
            each.start()
        server.kill()
        for each in running:
            each.join()
        await_none_left(number)
        server.start()
        for place in places:
            with client_of(server, place) as client:
                assert [each.path for each in client.files.list()] == ["whole"]
                # What it had done is beside the head, where nobody's work since then is replaced.
                assert client.exec("ls").stdout == "whole\n"
                left = client.timeline()[1]
                assert client.at(left).files.read("half") == b"1\n"
        server.stop()
    done = subprocess.run(
        [*COMMAND, "verify", "--data", str(server.data)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_a_key_that_only_adds_runs_commands_and_takes_no_history(served: Server) -> None:
    with client_of(served, "added") as client:
        client.files.write("kept", "1")
        before = client.snapshot("before")
        client.files.write("pending", "in no snapshot yet")
    with AdminClient(served.admin_key, url=served.url) as operator:
        key = operator.create_key("agent", namespace="added", add_only=True).api_key
    with Client(key, url=served.url, namespace="added") as agent:
        done = agent.exec("rm -rf ./*; ls -A", task="tidy")
        assert (done.exit_code, done.stdout, agent.files.list()) == (0, "", [])
        with pytest.raises(AddOnly):
            agent.delete_snapshot(before.id)
    with client_of(served, "added") as client:
        # Nothing that was there is out of reach: what no snapshot had became one first.
        client.restore(str(done.before))
        assert client.files.read("pending") == b"in no snapshot yet"
        client.restore(before.id)
        assert [each.path for each in client.files.list()] == ["kept"]


def test_a_server_without_it_runs_nothing(tmp_path: Path, at_once: Begin) -> None:
    with running_server(tmp_path, begin=at_once) as server, client_of(server, "alice") as client:
        with pytest.raises(NotBuilt, match="runs no commands") as told:
            client.exec("true")
        assert told.value.http_status == 501
        assert "HOLDFAST_EXEC=1" in told.value.hint


def test_a_server_that_cannot_have_a_sandbox_does_not_start(tmp_path: Path) -> None:
    # As where bubblewrap may not make namespaces: it is there, and says no.
    program = (
        "import sys; from holdfast.sandbox import probing; "
        f"probing.PATH = {str(tmp_path)!r} + ':' + probing.PATH; "
        "from holdfast.cli.main import main; sys.exit(main())"
    )
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", program, "serve", "--port", "0", "--data", str(tmp_path / "vault")],
        env={**os.environ, **EXEC},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "No permissions to create new namespace" in done.stderr
