"""What it costs to ask for what is not there: anybody can, as often as he likes.

In counts that no noise of the machine can move: keys that are tried, statements, and steps that
SQLite takes. What is looked for twice, and found damaged, is in `tests/faults/test_lost_keys.py`.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.catalog import absence
from holdfast.catalog.counting import MOST_COUNTED
from holdfast.catalog.mending import flipped
from holdfast.catalog.sqlite_connections import Connection, SqliteConnections
from holdfast.errors import NotFound
from holdfast.testing.damaged import run_in

pytestmark = pytest.mark.in_memory

MOST_KEYS = 2 * (8 * 64 + 64)
"""The bits of the longest name that is looked for twice, and those of its tenant.

Who reads a file asks for its namespace in two ways.
"""

STEPS = 100
MOST_STEPS = 20_000
"""Of SQLite's machine: fewer than there are rows that could be read."""

Read = Callable[[holdfast.Holdfast, str], object]

READS: dict[str, tuple[str, Read]] = {
    "snapshots": ("snap-" + "a" * 16, lambda vault, key: agent_of(vault).get_snapshot(key)),
    "tasks": ("task-" + "a" * 16, lambda vault, key: agent_of(vault).tasks.get(key)),
    "schedules": ("sched-" + "a" * 12, lambda vault, key: agent_of(vault).schedules.get(key)),
    "memories": ("mem_" + "a" * 12, lambda vault, key: agent_of(vault).memory.get(key)),
    "entities": ("ent_" + "a" * 12, lambda vault, key: agent_of(vault).entities.get(key)),
    "webhooks": ("wh-" + "a" * 12, lambda vault, key: vault.webhooks.get(key)),
}
"""An id that nothing has, and how it is asked for."""

MANY = MOST_COUNTED + 1
COUNTS = {
    "snapshots": "UPDATE namespaces SET purged = purged - ?",
    "tasks": "UPDATE namespaces SET tasks = tasks + ?",
    "schedules": "UPDATE namespaces SET schedules = schedules + ?",
    "namespaces": "UPDATE counted SET namespaces = namespaces + ?",
    "webhooks": "UPDATE counted SET webhooks = webhooks + ?",
}
"""What counts rows that a test adds."""

ANEW = {"id": "id || i", "name": "name || i", "number": "number + i"}
"""Columns of which there are no two alike."""

NAMES = ("a" * 64, "é" * 32, "🙂" * 16, "a" * 128, "é" * 128, "🙂" * 128)


class Work:
    """What was done since it was last forgotten."""

    def __init__(self) -> None:
        self.keys, self.steps, self.statements = 0, 0, list[str]()

    def forget(self) -> None:
        self.__init__()

    def step(self) -> None:
        self.steps += STEPS

    def tell(self, statement: str) -> None:
        self.statements.append(statement)

    def flipped(self, value: object) -> Iterator[object]:
        for each in flipped(value):
            self.keys += 1
            yield each


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Counts what every connection does, and the keys that are tried."""
    done, open_connection = Work(), SqliteConnections._open

    def opened(self: SqliteConnections, *, writing: bool) -> Connection:
        connection = open_connection(self, writing=writing)
        connection.set_trace_callback(done.tell)
        connection.set_progress_handler(done.step, STEPS)
        return connection

    monkeypatch.setattr(SqliteConnections, "_open", opened)
    monkeypatch.setattr(absence, "flipped", done.flipped)
    return done


@pytest.fixture
def vault(tmp_path: Path, work: Work) -> Iterator[holdfast.Holdfast]:  # noqa: ARG001 - counts
    with holdfast.open(tmp_path) as opened:
        agent = agent_of(opened)
        agent.files.write("a.txt", "1")
        agent.snapshot()
        agent.tasks.start("a task")
        agent.schedules.create(every=timedelta(hours=1))
        agent.memory.add("the sky is blue")
        agent.sessions.create("planner", session_id="s-1")
        agent.entities.create("s-1", entity_type="order", entity_id="1")
        opened.webhooks.create("https://hooks.example/in")
        yield opened


def agent_of(vault: holdfast.Holdfast) -> holdfast.Namespace:
    return vault.namespace("agent")


def miss(vault: holdfast.Holdfast, kind: str, key: str, work: Work) -> None:
    _, read = READS[kind]
    with pytest.raises(NotFound):
        read(vault, "0")  # No id begins with it.
    work.forget()
    with pytest.raises(NotFound):
        read(vault, key)


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{len(name)} of {name[0]}")
def test_a_name_has_few_neighbours(vault: holdfast.Holdfast, work: Work, name: str) -> None:
    work.forget()
    with pytest.raises(NotFound):
        vault.namespace(name).files.read("a.txt")
    assert work.keys <= MOST_KEYS
    assert len(work.statements) <= 6
    assert work.steps <= MOST_STEPS


@pytest.mark.parametrize("kind", READS)
def test_an_id_that_nobody_made_is_not_looked_for_twice(
    vault: holdfast.Holdfast, work: Work, kind: str
) -> None:
    made, _ = READS[kind]
    for key in (made + "a", made[:-1], made.upper(), made[:-1] + "é", "zzzz" + made, "a" * 128):
        miss(vault, kind, key, work)
        assert work.keys == 0, key
        assert not any("json_each" in each for each in work.statements)
    miss(vault, kind, made, work)
    assert 0 < work.keys <= 8 * len(made)


@pytest.mark.parametrize("kind", sorted(COUNTS.keys() & READS.keys()))
def test_of_very_many_rows_not_all_are_read(
    vault: holdfast.Holdfast, work: Work, tmp_path: Path, kind: str
) -> None:
    add_rows(tmp_path, kind)
    made, _ = READS[kind]
    miss(vault, kind, made, work)
    assert 0 < work.steps <= MOST_STEPS


def test_of_very_many_namespaces_not_all_are_read(
    vault: holdfast.Holdfast, work: Work, tmp_path: Path
) -> None:
    add_rows(tmp_path, "namespaces")
    work.forget()
    with pytest.raises(NotFound):
        vault.namespace("nobody").files.read("a.txt")
    assert 0 < work.steps <= MOST_STEPS


def add_rows(folder: Path, table: str) -> None:
    """Adds more rows than are counted, like one that is there, and counts them."""
    found = run_in(folder, f"SELECT name FROM pragma_table_info('{table}')")
    anew = ANEW | ({"id": "id + i"} if table == "namespaces" else {})
    values = ", ".join(anew.get(str(column), str(column)) for (column,) in found)
    many = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY})"
    one = f"(SELECT * FROM {table} LIMIT 1)"
    run_in(folder, f"INSERT INTO {table} {many} SELECT {values} FROM {one}, n")
    run_in(folder, COUNTS[table], MANY)
