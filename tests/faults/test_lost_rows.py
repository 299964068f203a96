"""A list that lacks a row says so, and never that there is nothing.

A row whose namespace was damaged is in no list; how many there have to be is counted apart.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.errors import Damaged
from holdfast.testing.damaged import Kept
from holdfast.testing.flips import flip_in_index

pytestmark = pytest.mark.in_memory

Read = Callable[[Holdfast], object]

OF_NAMESPACE: dict[str, Read] = {
    "snapshots": lambda vault: vault.namespace("alice").timeline(),
    "tasks": lambda vault: vault.namespace("alice").tasks.list(),
    "schedules": lambda vault: vault.namespace("alice").schedules.list(),
    "memories": lambda vault: vault.namespace("alice").memory.list(),
    "entities": lambda vault: vault.namespace("alice").entities.list(),
}
OF_TENANT: dict[str, Read] = {
    "namespaces": lambda vault: vault.namespaces(),
    "keys": lambda vault: vault.keys.list(),
    "webhooks": lambda vault: vault.webhooks.list(),
}
ALL = OF_NAMESPACE | OF_TENANT


@pytest.fixture(autouse=True)
def _written(kept: Kept) -> None:
    kept.vault.keys.create("ops")
    kept.vault.webhooks.create("https://hooks.example/in")
    agent = kept.vault.namespace("alice")
    agent.store.set("s", "k", 1)
    agent.snapshot()
    agent.tasks.start("a task")
    agent.schedules.create(every=timedelta(hours=1))
    agent.memory.add("the sky is blue")
    made = agent.sessions.create("planner")
    agent.entities.create(made.id, entity_type="order", entity_id="1")


def _lose(kept: Kept, table: str) -> None:
    """Puts the newest row of a table where nobody looks for it, as one bit does."""
    column = "tenant_id" if table in OF_TENANT else "namespace_id"
    found = (
        kept.sql("SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'f'")
        if kept.is_postgres
        else []
    )
    for of, name in found:
        kept.sql(f"ALTER TABLE {of} DROP CONSTRAINT {name}")
    order = {"namespaces": "created_at", "memories": "number"}.get(table, "id")
    where = f"{order} = (SELECT MAX({order}) FROM {table})"
    kept.flip(table, column, bit=20, where=where)


@pytest.mark.parametrize("table", ALL)
def test_a_list_that_lacks_a_row_is_damaged(kept: Kept, table: str) -> None:
    before = ALL[table](kept.vault)
    assert before
    _lose(kept, table)
    with kept.reopen() as vault:
        with pytest.raises(Damaged, match=table):
            ALL[table](vault)
        for other, read in ALL.items():
            if table not in {"namespaces", other}:
                read(vault)


@pytest.mark.parametrize("table", OF_NAMESPACE)
def test_what_is_lost_is_named_and_put_back(kept: Kept, table: str) -> None:
    before = ALL[table](kept.vault)
    _lose(kept, table)
    with kept.reopen() as vault:
        assert not vault.verify().ok
        assert not vault.repair().lost
        assert ALL[table](vault) == before
        assert vault.verify().ok


def test_a_search_finds_what_the_index_of_words_has_lost(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    (found,) = agent.memory.search("sky")
    if kept.is_postgres:
        kept.sql("UPDATE memories SET words = NULL")
    else:
        kept.sql("INSERT INTO memory_index (memory_index) VALUES ('delete-all')")
    with kept.reopen() as vault:
        assert [each.id for each in vault.namespace("alice").memory.search("sky")] == [found.id]


def test_a_search_misses_no_memory_in_silence(kept: Kept) -> None:
    _lose(kept, "memories")
    with kept.reopen() as vault, pytest.raises(Damaged, match="memories"):
        vault.namespace("alice").memory.search("sky")


def test_numbers_follow_what_is_added_and_removed(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    (schedule,), (memory,), (entity,) = (
        agent.schedules.list(),
        agent.memory.list(),
        agent.entities.list(),
    )
    point = agent.snapshot("before")
    agent.schedules.delete(schedule.id)
    agent.memory.delete(memory.id)
    agent.memory.add("grass is green")
    agent.entities.delete(entity.id)
    assert kept.vault.verify().ok
    agent.memory.recover(memory.id)
    agent.entities.recover(entity.id)
    agent.restore(point)
    agent.delete_snapshot(agent.snapshot("to go"))
    kept.vault.collect(now=True)
    fork = agent.fork("branch")
    assert [each.id for each in fork.memory.list()] == [memory.id]
    agent.sessions.delete(entity.session_id)
    assert kept.vault.verify().ok
    for read in ALL.values():
        read(kept.vault)


def test_verify_names_a_count_of_the_tenant_that_is_wrong_and_repair_says_that_it_was(
    kept: Kept,
) -> None:
    kept.sql("UPDATE counted SET namespaces = namespaces + 1")
    with pytest.raises(Damaged):
        kept.vault.namespaces()
    assert not kept.vault.verify().ok
    assert kept.vault.repair().mended
    assert kept.vault.namespaces() == ["alice"]
    assert kept.vault.verify().ok


def test_who_counts_anew_counts_what_somebody_is_just_adding(kept: Kept) -> None:
    context, tenant = kept.vault._context, kept.vault._tenant

    def mend() -> None:
        with context.catalog.write() as transaction:
            transaction.mend_tenant_counts(tenant.id)

    with ThreadPoolExecutor(1) as pool:
        with context.catalog.write() as transaction:
            kept.vault.namespace("bob")._handle.lock_or_create(transaction)
            mending = pool.submit(mend)
            with suppress(TimeoutError):
                mending.result(0.5)
        mending.result()
    assert kept.vault.namespaces() == ["alice", "bob"]


@pytest.mark.parametrize("order", ["DESC", "ASC"], ids=["newest", "oldest"])
def test_a_list_of_traces_that_lacks_its_end_is_damaged(
    kept: Kept, tmp_path: Path, order: str
) -> None:
    if kept.is_postgres:
        pytest.skip("its files are not ours")
    agent = kept.vault.namespace("bob")  # Of its number SQLite stores a byte, of the first none.
    agent.memory.add("grass is green")
    agent.memory.add("snow is white")
    query = f"SELECT created_at FROM journal WHERE namespace_id = 2 ORDER BY created_at {order}"
    instant = kept.sql(query)[0][0]
    kept.vault.close()
    path = tmp_path / "catalog.sqlite"
    flip_in_index(path, instant.to_bytes(8), index="journal_of_namespace", before=True)
    with kept.reopen() as vault, pytest.raises(Damaged, match="trace"):
        vault.namespace("bob").traces.list()


def test_no_number_decides_in_which_order_memories_are(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    for _ in range(4):
        agent.memory.add("the sky is blue")
    before = agent.memory.search("sky"), agent.memory.list()
    if kept.is_postgres:
        kept.sql("ALTER TABLE memories ALTER COLUMN number SET GENERATED BY DEFAULT")
    kept.flip("memories", "number", bit=10, where="number = (SELECT MIN(number) FROM memories)")
    with kept.reopen() as vault:
        memory = vault.namespace("alice").memory
        assert (memory.search("sky"), memory.list()) == before


def test_a_pack_that_says_to_be_another_tenants_is_put_right(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    agent.files.write("a.txt", "1" * 5000)
    agent.snapshot()
    kept.vault.tenant("another")
    kept.sql("UPDATE packs SET tenant_id = (SELECT MAX(id) FROM tenants)")
    kept.sql("UPDATE packs SET state = 'stoped'")
    with kept.reopen() as vault:
        assert not vault.verify().ok
        done = vault.repair()
        assert (done.ok, done.lost) == (True, [])
        assert vault.verify().ok
        assert vault.namespace("alice").files.read("a.txt") == b"1" * 5000


def test_a_list_of_entities_without_one_that_its_index_has_lost_is_damaged(
    kept: Kept, tmp_path: Path
) -> None:
    if kept.is_postgres:
        pytest.skip("its files are not ours")
    agent = kept.vault.namespace("bob")  # Of its number SQLite stores a byte, of the first none.
    made = agent.sessions.create("planner")
    for each in ("1", "2"):
        agent.entities.create(made.id, entity_type="order", entity_id=each)
    assert len(agent.entities.list()) == 2
    query = "SELECT created_at FROM entities WHERE namespace_id = 2 ORDER BY created_at"
    instant = kept.sql(query)[0][0]
    kept.vault.close()
    path = tmp_path / "catalog.sqlite"
    flip_in_index(path, instant.to_bytes(8), index="entities_by_age", before=True)
    with kept.reopen() as vault, pytest.raises(Damaged, match="entities"):
        vault.namespace("bob").entities.list()
