"""Who asks for one row by its key is told that it is damaged, and not that there is none.

A row whose key has a flipped bit is found under another one, and a row that the index of its key
has lost under none.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast import Holdfast
from holdfast.catalog import absence
from holdfast.errors import Damaged, NotFound, RowDamaged
from holdfast.testing.damaged import Kept
from holdfast.testing.flips import flip_in_index

pytestmark = pytest.mark.in_memory

Read = Callable[[Holdfast, str], object]

OF_NAMESPACE: dict[str, Read] = {
    "snapshots": lambda vault, key: vault.namespace("alice").get_snapshot(key),
    "tasks": lambda vault, key: vault.namespace("alice").tasks.get(key),
    "schedules": lambda vault, key: vault.namespace("alice").schedules.get(key),
    "memories": lambda vault, key: vault.namespace("alice").memory.get(key),
    "entities": lambda vault, key: vault.namespace("alice").entities.get(key),
}
OF_TENANT: dict[str, Read] = {
    "webhooks": lambda vault, key: vault.webhooks.get(key),
}
ALL = OF_NAMESPACE | OF_TENANT

BY_NAME: dict[str, Callable[[holdfast.Namespace], object]] = {
    "a file": lambda agent: agent.files.read("a.txt"),
    "a value": lambda agent: agent.store.get("s", "k"),
    "a list of files": lambda agent: agent.files.list(),
    "a state": lambda agent: agent.sessions.get_state("s-1"),
    "a change of state": lambda agent: agent.sessions.update_state("s-1", {"step": 2}),
    "a list of sessions": lambda agent: agent.sessions.list(),
    "the timeline": lambda agent: agent.timeline(),
    "memories": lambda agent: agent.memory.list(),
    "a write": lambda agent: agent.files.write("b.txt", "2"),
    "a snapshot": lambda agent: agent.snapshot(),
}


@pytest.fixture(autouse=True)
def _written(kept: Kept) -> None:
    for name in ("other", "alice", "bob"):
        agent = kept.vault.namespace(name)
        agent.files.write("a.txt", "1")
        agent.snapshot()
    kept.vault.webhooks.create("https://hooks.example/in")
    agent = kept.vault.namespace("alice")
    agent.store.set("s", "k", 1)
    agent.tasks.start("a task")
    agent.schedules.create(every=timedelta(hours=1))
    agent.memory.add("the sky is blue")
    agent.sessions.create("planner", session_id="s-1", initial_state={"step": 1})
    agent.entities.create("s-1", entity_type="order", entity_id="1")


def _id_in(kept: Kept, table: str) -> str:
    mine = "(SELECT id FROM namespaces WHERE name = 'alice')"
    where = "1 = 1" if table in OF_TENANT else f"namespace_id = {mine}"
    ((found,),) = kept.sql(f"SELECT MIN(id) FROM {table} WHERE {where}")
    return found


@pytest.mark.parametrize("bit", [0, 3])
@pytest.mark.parametrize("table", ALL)
def test_a_row_whose_id_is_damaged_is_damaged_for_who_asks_for_it(
    kept: Kept, table: str, bit: int
) -> None:
    key = _id_in(kept, table)
    before = ALL[table](kept.vault, key)
    kept.flip(table, "id", bit=bit, where=f"id = '{key}'")
    with kept.reopen() as vault:
        with pytest.raises(RowDamaged, match=key):
            ALL[table](vault, key)
        with pytest.raises(NotFound):
            ALL[table](vault, key[:-6] + "777777")
        assert not vault.verify().ok
        assert vault.repair().ok
        assert ALL[table](vault, key) == before


@pytest.mark.parametrize("table", ["tasks", "schedules", "memories"])
def test_so_is_one_whose_namespace_is_damaged(kept: Kept, table: str) -> None:
    key = _id_in(kept, table)
    kept.flip(table, "namespace_id", where=f"id = '{key}'")  # To that of another.
    with kept.reopen() as vault:
        with pytest.raises(Damaged):
            ALL[table](vault, key)
        with pytest.raises(Damaged if table == "memories" else NotFound):
            ALL[table](vault, key[:-6] + "777777")


@pytest.mark.parametrize("bit", [0, 3])
@pytest.mark.parametrize("what", BY_NAME)
def test_a_namespace_whose_name_is_damaged_is_damaged_for_who_asks_for_it(
    kept: Kept, what: str, bit: int
) -> None:
    kept.flip("namespaces", "name", bit=bit, where="name = 'alice'")
    with kept.reopen() as vault:
        with pytest.raises(RowDamaged, match="alice"):
            BY_NAME[what](vault.namespace("alice"))
        assert vault.namespace("bob").files.read("a.txt") == b"1"


def test_others_are_not_stopped_by_it_and_it_is_put_back(kept: Kept) -> None:
    kept.flip("namespaces", "name", where="name = 'alice'")
    with kept.reopen() as vault:
        # One bit away from what it is called now, and nobody's.
        new = vault.namespace("alhcd")
        new.files.write("n.txt", "new")
        assert new.files.read("n.txt") == b"new"
        assert vault.repair().ok
        assert vault.namespace("alice").files.read("a.txt") == b"1"
        assert vault.verify().ok


def test_so_is_one_whose_tenant_is_damaged(kept: Kept) -> None:
    kept.vault.tenant("a second one")
    kept.vault.tenant("a third one")
    ((mine,),) = kept.sql("SELECT tenant_id FROM namespaces WHERE name = 'alice'")
    assert mine ^ 2 in {each for (each,) in kept.sql("SELECT id FROM tenants")}
    kept.flip("namespaces", "tenant_id", bit=1, where="name = 'alice'")
    with kept.reopen() as vault, pytest.raises(RowDamaged, match="alice"):
        vault.namespace("alice").files.read("a.txt")


def test_what_was_deleted_is_not_missed(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    memory, entity, schedule = (
        _id_in(kept, table) for table in ("memories", "entities", "schedules")
    )
    agent.memory.delete(memory)
    agent.entities.delete(entity)
    agent.schedules.delete(schedule)
    kept.vault.delete_namespace("bob")
    for read in (
        lambda: agent.memory.get(memory),
        lambda: agent.entities.get(entity),
        lambda: agent.schedules.get(schedule),
        lambda: kept.vault.namespace("bob").get_snapshot("latest"),
    ):
        with pytest.raises(NotFound):
            read()
    kept.vault.namespace("bob").files.write("again.txt", "2")
    assert kept.vault.verify().ok


INDEXES = {table: f"sqlite_autoindex_{table}_1" for table in ALL}


@pytest.mark.parametrize("table", [*INDEXES, "namespaces"])
def test_a_row_that_its_index_has_lost_is_damaged_for_who_asks_for_it(
    kept: Kept, tmp_path: Path, table: str
) -> None:
    if kept.is_postgres:
        pytest.skip("its files are not ours")
    key = "alice" if table == "namespaces" else _id_in(kept, table)
    read = ALL.get(table, lambda vault, key: vault.namespace(key).files.read("a.txt"))
    before = read(kept.vault, key)
    kept.vault.close()
    index = INDEXES.get(table, "namespaces_live")
    flip_in_index(tmp_path / "catalog.sqlite", key.encode(), index=index)
    with kept.reopen() as vault:
        with pytest.raises(Damaged):
            read(vault, key)
        assert vault.repair().ok
        assert read(vault, key) == before


def test_a_turn_whose_id_is_damaged_is_damaged_for_who_asks_for_it(kept: Kept) -> None:
    sessions = kept.vault.namespace("alice").sessions
    turn = sessions.add_turn("s-1", input="what is next?", output="step one")
    sessions.add_turn("s-1", input="and then?", output="step two")
    kept.flip("turns", "id", where=f"id = '{turn.id}'")
    with kept.reopen() as vault, pytest.raises(Damaged):
        vault.namespace("alice").sessions.get_turn("s-1", turn.id)


@pytest.mark.parametrize("column", ["id", "created_at"])
def test_so_is_a_trace(kept: Kept, column: str) -> None:
    trace = kept.vault.namespace("alice").traces.list()[2]
    kept.flip("journal", column, bit=3, where=f"id = '{trace.id}'")
    with kept.reopen() as vault, pytest.raises(Damaged, match="trace"):
        vault.namespace("alice").traces.get(trace.id)


@pytest.mark.parametrize("table", ALL)
def test_so_is_one_whose_id_has_two_flipped_bits(kept: Kept, table: str) -> None:
    key = _id_in(kept, table)
    kept.sql(f"UPDATE {table} SET id = ? WHERE id = ?", key[:-4] + "zzzz", key)
    with kept.reopen() as vault:
        with pytest.raises(RowDamaged, match=key):
            ALL[table](vault, key)
        with pytest.raises(NotFound):
            ALL[table](vault, key[:-6] + "777777")


LONG = "a-name-of-a-namespace-that-somebody-has-made-of-" + "many-words-" * 7
"""It has 125 bytes."""


@pytest.mark.parametrize("at", [3, 60, 120])
@pytest.mark.parametrize("others", [0, absence.FEW])
def test_so_is_a_namespace_with_a_long_name(kept: Kept, at: int, others: int) -> None:
    for number in range(others):
        kept.vault.namespace(f"other-{number}").files.write("a.txt", "0")
    kept.vault.namespace(LONG).files.write("a.txt", "1")
    damaged = LONG[:at] + chr(ord(LONG[at]) ^ 1) + LONG[at + 1 :]
    kept.sql("UPDATE namespaces SET name = ? WHERE name = ?", damaged, LONG)
    with kept.reopen() as vault:
        with pytest.raises(RowDamaged, match=r"a-name-of-a"):
            vault.namespace(LONG).files.write("a.txt", "2")
        # What is pending there is nobody's who asks by the other name.
        with pytest.raises(RowDamaged):
            vault.namespace(damaged).files.read("a.txt")
        assert vault.namespace(LONG[:-1]).files.list() == []
