"""What a call costs on SQLite, in counts that no noise of the machine can move.

Pages that it adds to the log, statements, and functions that it goes through: of a writer that has
the namespace to itself. A page splits now and then: pages are means, and have half a page of room.
Whoever makes a call cheaper lowers its bound here; nobody raises one unless it is known what for.
"""

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.catalog.sqlite_connections import Connection, SqliteConnections
from holdfast.catalog.sqlite_log import FRAME_BYTES
from holdfast.testing.counting import functions_called
from holdfast.testing.logs import written_bytes

pytestmark = pytest.mark.usefixtures("made_anew")

TIMES = 12
WARM_UP = 4
ROOM = 0.5

Call = Callable[[holdfast.Namespace, int], object]


def changed(number: int, *, keys: int, chars: int) -> dict[str, str]:
    """Returns one key in a hundred of a state, at least one, with text that nobody has seen."""
    text = "".join(f"{number * 7919 + place * 104729:07d} " for place in range(chars // 8))
    return {f"key {(number * 31 + each) % keys}": text for each in range(max(keys // 100, 1))}


def state_of(*, keys: int, chars: int) -> dict[str, str]:
    return {
        key: text
        for number in range(keys)
        for key, text in changed(number, keys=keys, chars=chars).items()
    }


SHORT: dict[str, Any] = {"keys": 10, "chars": 80}
LONG: dict[str, Any] = {"keys": 200, "chars": 480}

CALLS: dict[str, tuple[Call, float, float]] = {
    "update_state, 1 KB": (
        lambda agent, n: agent.sessions.update_state("short", changed(n, **SHORT)),
        10.5,
        8,
    ),
    "update_state, 100 KB": (
        lambda agent, n: agent.sessions.update_state("long", changed(n, **LONG)),
        16.5,
        12,
    ),
    "sessions.fork": (lambda agent, n: agent.sessions.fork("short", n % 20), 15.2, 10),
    "add_turn": (lambda agent, n: agent.sessions.add_turn("short", f"{n}", "yes"), 13.1, 9),
    "rollback": (lambda agent, n: agent.sessions.rollback("short", n % 20), 11.2, 9),
    "get_state": (lambda agent, _: agent.sessions.get_state("short"), 0, 1),
    "get_state of an old version": (
        lambda agent, _: agent.sessions.get_state("short", version=9),
        0,
        5,
    ),
    "get_context": (lambda agent, _: agent.sessions.get_context("short"), 0, 6),
    "sessions.get": (lambda agent, _: agent.sessions.get("short"), 0, 4),
    "list_turns": (lambda agent, _: agent.sessions.list_turns("short"), 0, 3),
    "history": (lambda agent, _: agent.sessions.history("short", limit=20), 0, 5),
    "store.set": (lambda agent, n: agent.store.set("topic", "key", n), 2, 7),
    "store.set of a new key": (lambda agent, n: agent.store.set("topic", f"key {n}", n), 2, 5),
    "store.set of 3 KB": (lambda agent, n: agent.store.set("topic", f"k {n}", "x" * 3000), 5.5, 5),
    "store.batch of a new key": (
        lambda agent, n: agent.store.batch(put=[("topic", f"b {n}", b"\1")], keep=True),
        2,
        5,
    ),
    "store.get": (lambda agent, _: agent.store.get("topic", "key"), 0, 3),
    "files.write, 200 B": (lambda agent, n: agent.files.write("a", f"{n:4}" * 50), 2, 6),
    # A row as long as the one before is written over it, in 3 pages; any other takes 6. Which it is
    # depends on how many bytes the numbers in it take, checksums among them: chance.
    "files.write, 3 KB": (lambda agent, n: agent.files.write("b", f"{n:4}" * 750), 5.5, 6),
    "files.read": (lambda agent, _: agent.files.read("a"), 0, 3),
}
"""What is called, and how many pages and statements it may take."""


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects what every connection is told."""
    told, open_connection = list[str](), SqliteConnections._open

    def opened(self: SqliteConnections, *, writing: bool) -> Connection:
        connection = open_connection(self, writing=writing)
        connection.set_trace_callback(told.append)
        return connection

    monkeypatch.setattr(SqliteConnections, "_open", opened)
    return told


@contextmanager
def an_agent(folder: Path) -> Generator[holdfast.Namespace]:
    with holdfast.open(folder) as vault:
        agent = vault.namespace("agent")
        for name, shape in (("short", SHORT), ("long", LONG)):
            agent.sessions.create("bot", session_id=name, initial_state=state_of(**shape))
            for number in range(1000, 1024):
                agent.sessions.update_state(name, changed(number, **shape))
        for path in ("a", "b"):
            agent.files.write(path, path)
        agent.store.set("topic", "key", "first")
        agent.snapshot()
        yield agent


@pytest.mark.parametrize("name", CALLS)
def test_a_call_costs_no_more(tmp_path: Path, statements: list[str], name: str) -> None:
    call, most_pages, most_statements = CALLS[name]
    log = tmp_path / "vault/catalog.sqlite-wal"
    with an_agent(tmp_path / "vault") as agent:
        for number in range(WARM_UP):
            call(agent, number)
        with closing(sqlite3.connect(log.with_name("catalog.sqlite"))) as beside:
            beside.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        call(agent, WARM_UP)
        statements.clear()
        before = written_bytes(log)
        for number in range(WARM_UP + 1, WARM_UP + 1 + TIMES):
            call(agent, number)
        pages = (written_bytes(log) - before) / FRAME_BYTES / TIMES
    assert len(statements) / TIMES <= most_statements, statements[-20:]
    assert pages <= most_pages + (ROOM if most_pages else 0)


FUNCTIONS = {
    "update_state, 1 KB": 217,
    "rollback": 202,
    "get_state": 36,
    "store.set of a new key": 116,
    "store.batch of a new key": 136,
    "files.write, 200 B": 210,
}
"""How many functions of Python a call may go through, with some to spare: half of what an update
takes is spent in them, and none stands out."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_call_goes_through_no_more_functions(tmp_path: Path, name: str) -> None:
    call, _, _ = CALLS[name]
    with an_agent(tmp_path / "vault") as agent:
        for number in range(WARM_UP):
            call(agent, number)
        # The least: now and then one makes room in the log.
        least = min(
            functions_called(lambda number=number: call(agent, number))
            for number in range(WARM_UP, WARM_UP + TIMES)
        )
    assert least <= FUNCTIONS[name]
