"""Programs that are stopped in the middle of a task, as people stop them: with Ctrl-C.

Each is a process of its own that gets a real signal, in this process's stead: with a vault of its
own, with a `Client` and with an `AsyncClient` of a real server.
"""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import holdfast
from holdfast.engine.namespace import Namespace
from holdfast.model.basics import Kind
from holdfast.sdk.awaiting import AsyncSender
from holdfast.testing.servers import Server

pytestmark = pytest.mark.in_memory

PLAIN = """
import signal, sys
import holdfast
{opened}
with agent.task("risky", rollback_on_failure=True):
    agent.files.write("notes.txt", "half done")
    agent.store.set("agent", "step", 2)
    {stops}
"""

AWAITED = """
import asyncio, sys
import holdfast

async def work():
    async with holdfast.AsyncClient({key!r}, url={url!r}, namespace="awaited") as agent:
        async with agent.task("risky", rollback_on_failure=True):
            await agent.files.write("notes.txt", "half done")
            await agent.store.set("agent", "step", 2)
            {stops}

asyncio.run(work())
"""

EMBEDDED = "agent = holdfast.open({path!r}).namespace('plain')"
SERVED = "agent = holdfast.Client({key!r}, url={url!r}, namespace='served')"

INTERRUPTED = 'print("ready", flush=True); signal.pause()'
INTERRUPTED_AWAITED = 'print("ready", flush=True); await asyncio.Event().wait()'
EXITS = "sys.exit(7)"
EXITS_WELL = "sys.exit(0)"


@pytest.fixture(params=["embedded", "served", "awaited"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator["tuple[str, Namespace]"]:
    """A program with a place for how it stops, and what it works on."""
    if request.param == "embedded":
        vault = holdfast.open(tmp_path / "vault")
        text = PLAIN.replace("{opened}", EMBEDDED.format(path=str(tmp_path / "vault")))
        with vault:
            yield text, prepared(vault.namespace("plain"))
        return
    server: Server = request.getfixturevalue("server")
    where = {"key": server.api_key, "url": server.url}
    if request.param == "served":
        text = PLAIN.replace("{opened}", SERVED.format(**where))
    else:
        text = AWAITED.replace("{key!r}", repr(server.api_key)).replace("{url!r}", repr(server.url))
    name = request.param
    with holdfast.Client(server.api_key, url=server.url, namespace=name) as client:
        yield text, prepared(client)  # type: ignore[arg-type] - the same names


def prepared(agent: Namespace) -> Namespace:
    agent.files.write("notes.txt", "good")
    agent.store.set("agent", "step", 1)
    agent.snapshot("before")
    return agent


CTRL_C = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"


def started(text: str, stops: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        # Who runs this in the background may have Ctrl-C ignored.
        [sys.executable, "-c", CTRL_C + text.replace("{stops}", stops)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def seen(agent: Namespace) -> tuple[str, object]:
    return agent.files.read_text("notes.txt"), agent.store.get("agent", "step")


def test_ctrl_c_takes_a_task_back_and_ends_the_program_as_ever(
    program: "tuple[str, Namespace]",
) -> None:
    text, agent = program
    stops = INTERRUPTED_AWAITED if "asyncio" in text else INTERRUPTED
    with started(text, stops) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT, told
    assert seen(agent) == ("good", 1)
    kinds = [snapshot.kind for snapshot in agent.timeline(limit=2)]
    assert kinds == [Kind.RESTORE, Kind.SNAPSHOT]
    attempt = agent.timeline(limit=2)[1]
    assert agent.at(attempt).files.read_text("notes.txt") == "half done", "the attempt is kept"


def test_an_exit_takes_a_task_back_and_keeps_its_code(program: "tuple[str, Namespace]") -> None:
    text, agent = program
    with started(text, EXITS) as process:
        _, told = process.communicate(timeout=60)
    assert process.returncode == 7, told
    assert seen(agent) == ("good", 1)


def test_an_exit_that_says_that_all_is_well_completes_a_task(
    program: "tuple[str, Namespace]",
) -> None:
    text, agent = program
    with started(text, EXITS_WELL) as process:
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert seen(agent) == ("half done", 2)
    assert agent.timeline(limit=1)[0].label == "risky"


@pytest.mark.parametrize("moment", ["request", "response"])
@pytest.mark.parametrize("asked", ["POST /v1/tasks", "GET /v1/timeline"])
def test_a_task_that_is_cancelled_while_it_begins_is_ended(
    server: Server, moment: str, asked: str
) -> None:
    async def run(client: holdfast.AsyncClient) -> None:
        async def work() -> None:
            async with client.task("risky", rollback_on_failure=True):
                raise AssertionError("it was cancelled before")

        async def notice(noticed: httpx2.Request | httpx2.Response) -> None:
            request = noticed if isinstance(noticed, httpx2.Request) else noticed.request
            if hooks and f"{request.method} {request.url.path}".startswith(asked):
                hooks.clear()
                job.cancel()

        hooks: list[Any] = [notice]
        http = httpx2.AsyncClient(event_hooks={moment: hooks})
        client._begin(AsyncSender(client.sender.line, http=http))
        async with client:
            job = asyncio.create_task(work())
            with pytest.raises(asyncio.CancelledError):
                await job
            (task,) = await client.tasks.list()
        assert (task.name, task.status) == ("risky", "failed")
        assert "CancelledError" in str(task.reason)

    name = f"cancelled-{moment}-{len(asked)}"
    asyncio.run(run(holdfast.AsyncClient(server.api_key, url=server.url, namespace=name)))
