"""Kills a server between what it did and its answer: who asks again gets the answer, once.

The server is the one that people start, with one change: it dies right after the commit that it is
told to die after, before anybody hears of it. Then it is started again, and the same request comes
under the same name.
"""

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.testing.servers import Server, running_server

DIES = """
import os, signal, sys, threading
from contextlib import contextmanager
from pathlib import Path
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog

told = Path(os.environ["DIES_AFTER"])

def committed():
    # What a request commits, and not what the server does by itself meanwhile.
    if threading.current_thread().name.startswith("holdfast-") and told.exists():
        left = int(told.read_text()) - 1
        told.write_text(str(left))
        if not left:
            told.unlink()
            os.killpg(0, signal.SIGKILL)

def dying(write):
    @contextmanager
    def run(self):
        with write(self) as transaction:
            yield transaction
        committed()
    return run

for catalog in (SqliteCatalog, PostgresCatalog):
    catalog.write = dying(catalog.write)

from holdfast.cli.main import main
sys.exit(main())
"""
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(either: tuple[Path, dict[str, str]]) -> Iterator[Server]:
    folder, database = either
    environ = {**database, "DIES_AFTER": str(folder / "commits")}
    command = (sys.executable, "-c", DIES)
    with running_server(folder, environ=environ, command=command) as started:
        yield started


@pytest.fixture
def agent(server: Server) -> Iterator[httpx.Client]:
    headers = {
        "Authorization": f"Bearer {server.api_key}",
        "X-Namespace": f"agent-{next(_NUMBERS)}",
    }
    # Connections end with the server.
    limits = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(
        base_url=server.url, headers=headers, trust_env=False, timeout=60, limits=limits
    ) as http:
        http.post("/v1/sessions", json={"agent_id": "a", "session_id": "sess_1"})
        yield http


def ask_twice(
    server: Server, agent: httpx.Client, method: str, path: str, **more: Any
) -> httpx.Response:
    """Asks a server that dies after its first commit, and then one that does not."""
    named = {"Idempotency-Key": f"request {next(_NUMBERS)}"}
    told = Path(server.environ["DIES_AFTER"])
    told.write_text("1")
    with pytest.raises(httpx.TransportError):
        agent.request(method, path, headers=named, **more)
    assert not told.exists()
    server.kill()
    server.start()
    answer = agent.request(method, path, headers=named, **more)
    assert answer.is_success, answer.text
    assert answer.headers["Idempotent-Replayed"] == "true"
    return answer


def events(agent: httpx.Client, kind: str) -> list[dict[str, Any]]:
    namespace = agent.headers["X-Namespace"]
    wanted = {"types": kind, "namespace": namespace}
    return agent.get("/v1/workspaces/me/events", params=wanted).json()["events"]


def test_a_turn_is_added_once(server: Server, agent: httpx.Client) -> None:
    turns = "/v1/sessions/sess_1/turns"
    turn = {"input": {"content": "hello"}, "output": {"content": "hi"}}
    answer = ask_twice(server, agent, "POST", turns, json=turn)
    assert answer.status_code == 201
    listed = agent.get(turns).json()["data"]
    assert [each["id"] for each in listed] == [answer.json()["id"]]
    assert agent.get(f"{turns}/{answer.json()['id']}").json() == answer.json()
    assert len(events(agent, "turn.added")) == 1


def test_a_state_is_updated_once(server: Server, agent: httpx.Client) -> None:
    state = "/v1/sessions/sess_1/state"
    answer = ask_twice(server, agent, "PATCH", state, json={"state": {"n": 1}})
    assert answer.json()["version"] == 1
    assert agent.get(state).json()["version"] == 1
    assert len(events(agent, "state.updated")) == 1


def test_a_snapshot_is_taken_once(server: Server, agent: httpx.Client) -> None:
    answer = ask_twice(server, agent, "POST", "/v1/snapshots", json={"label": "once"})
    listed = agent.get("/v1/snapshots").json()["snapshots"]
    assert listed == [answer.json()]
    assert len(events(agent, "snapshot.created")) == 1


def test_a_file_is_written_once(server: Server, agent: httpx.Client) -> None:
    answer = ask_twice(server, agent, "PUT", "/files/notes.md", content=b"what was written")
    assert answer.json()["path"] == "workspace/notes.md"
    assert agent.get("/files/notes.md").content == b"what was written"
    assert len(events(agent, "file.written")) == 1


def test_a_memory_is_added_once(server: Server, agent: httpx.Client) -> None:
    answer = ask_twice(server, agent, "POST", "/v1/memories", json={"content": "they like tea"})
    listed = agent.get("/v1/memories").json()["data"]
    assert [each["id"] for each in listed] == [answer.json()["id"]]
    assert len(events(agent, "memory.created")) == 1


def test_what_was_deleted_is_no_404(server: Server, agent: httpx.Client) -> None:
    answer = ask_twice(server, agent, "DELETE", "/v1/sessions/sess_1")
    assert (answer.status_code, answer.content) == (204, b"")
    assert agent.get("/v1/sessions/sess_1").status_code == 404
