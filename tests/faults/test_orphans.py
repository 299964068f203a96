"""Rows that refer to a row that is not there: named, put right or let go of."""

from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.catalog.orphans import load_references
from holdfast.errors import Damaged
from holdfast.testing.damaged import Kept, Reinstate

pytestmark = pytest.mark.in_memory

COLUMN = {each.table: each.columns[0] for each in load_references()}

ORDER = {
    **dict.fromkeys(("snapshots", "tasks", "schedules", "webhooks", "keys", "sessions"), "id"),
    **dict.fromkeys(("namespaces", "packs", "entities"), "id"),
    **dict.fromkeys(("pending", "task_changes"), "key"),
    **dict.fromkeys(("lagging", "lagging_memories", "logs"), "namespace_id"),
    **dict.fromkeys(("counted", "event_ends"), "tenant_id"),
    **dict.fromkeys(("events", "memories"), "number"),
}
"""Tables in which something is after `fill`, and what says which of their rows is the first."""

A_BIT, SEVERAL = 1 << 10, 1 << 10 | 1 << 12 | 1 << 20


def fill(kept: Kept) -> None:
    vault = kept.vault
    vault.webhooks.create("https://example.com/hook")
    vault.keys.create("a key")
    for name in ("alice", "bob"):
        agent = vault.namespace(name)
        agent.files.write("a.txt", f"of {name}")
        session = agent.sessions.create("helper", user_id="somebody")
        agent.entities.create(session.id, entity_type="person", entity_id="p")
        agent.memory.add(f"tea, says {name}")
        agent.schedules.create(every=timedelta(hours=1))
        with agent.task("a task"):
            agent.files.write("task.txt", "x")
        agent.snapshot("first")
    vault.namespace("alice").fork("a-fork")
    vault.namespace("alice").files.write("pending.txt", "pending")
    vault.events.list()
    kept.sql("INSERT INTO logs (namespace_id, name, position) VALUES (1, 'x', 1)")


def lose_parent(kept: Kept, table: str, bits: int) -> None:
    """Has the first row of a table refer to another number, which is nobody's."""
    column, order = COLUMN[table], ORDER[table]
    ((number, which),) = kept.sql(f"SELECT {column}, {order} FROM {table} ORDER BY 1, 2 LIMIT 1")
    where = f"{column} = ? AND {order} = ?"
    kept.sql(f"UPDATE {table} SET {column} = ? WHERE {where}", number | bits, number, which)


def check_refused(vault: Holdfast, elsewhere: Path) -> None:
    assert any(each.what == "rows of nobody" for each in vault.verify().faults)
    with pytest.raises(Damaged, match="was not backed up"):
        vault.backup(elsewhere / "backup")


def check_comes_back(vault: Holdfast, elsewhere: Path, bring_back: Reinstate) -> None:
    """Looks whether what is damaged is known, and can be backed up, and brought back."""
    before = vault.verify()
    assert before.ok or before.is_noted, before.faults
    vault.backup(elsewhere / "backup")
    with bring_back(elsewhere / "backup", "again") as again:
        after = again.verify()
        assert [each.what for each in after.faults] == [each.what for each in before.faults]
        assert after.ok or after.is_noted
        assert again.namespace("bob").files.read_text("a.txt") == "of bob"


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place outside of every vault."""
    return tmp_path_factory.mktemp("elsewhere")


def test_every_reference_is_asked_about(kept: Kept) -> None:
    if kept.is_postgres:
        query = "SELECT COUNT(*) FROM pg_constraint WHERE contype = 'f'"
    else:
        query = "SELECT COUNT(*) FROM sqlite_master, pragma_foreign_key_list(name) WHERE seq = 0"
    assert kept.sql(query) == [(len(load_references()),)]


@pytest.mark.parametrize("table", ORDER)
def test_a_flipped_bit_of_what_a_row_refers_to_is_put_back(
    kept: Kept, elsewhere: Path, bring_back: Reinstate, table: str
) -> None:
    fill(kept)
    before = kept.sql(f"SELECT {COLUMN[table]}, {ORDER[table]} FROM {table} ORDER BY 1, 2")
    lose_parent(kept, table, A_BIT)
    check_refused(kept.vault, elsewhere)
    done = kept.vault.repair()
    assert done.ok, done.lost
    assert kept.vault.verify().ok
    after = kept.sql(f"SELECT {COLUMN[table]}, {ORDER[table]} FROM {table} ORDER BY 1, 2")
    # What repair does, it tells.
    assert after == before or table in ("events", "event_ends")
    check_comes_back(kept.vault, elsewhere, bring_back)


@pytest.mark.parametrize("table", ORDER)
def test_a_row_that_nobody_can_place_is_let_go_of(
    kept: Kept, elsewhere: Path, bring_back: Reinstate, table: str
) -> None:
    fill(kept)
    lose_parent(kept, table, SEVERAL)
    check_refused(kept.vault, elsewhere)
    kept.vault.repair()
    check_comes_back(kept.vault, elsewhere, bring_back)


def test_what_a_lost_namespace_had_is_named_and_let_go_of(
    kept: Kept, elsewhere: Path, bring_back: Reinstate
) -> None:
    fill(kept)
    kept.sql("DELETE FROM namespaces WHERE name = 'alice'")
    check_refused(kept.vault, elsewhere)
    done = kept.vault.repair()
    assert any(each.what.startswith("snapshots: ") for each in done.lost)
    check_comes_back(kept.vault, elsewhere, bring_back)


@pytest.mark.parametrize("table", ["namespaces", "tenants"])
def test_nothing_goes_while_its_owner_may_have_another_number(
    kept: Kept, elsewhere: Path, table: str
) -> None:
    fill(kept)
    count = kept.sql("SELECT COUNT(*) FROM snapshots")
    if kept.is_postgres:
        kept.sql(f"ALTER TABLE {table} ALTER COLUMN id SET GENERATED BY DEFAULT")
    kept.sql(f"UPDATE {table} SET id = id + {A_BIT} WHERE name IN ('alice', 'default')")
    kept.vault.close()

    def back_up() -> None:
        with kept.reopen() as vault:
            vault.repair()
            vault.backup(elsewhere / "backup")

    with pytest.raises(Damaged):
        back_up()
    assert kept.sql("SELECT COUNT(*) FROM snapshots") == count


def test_rows_that_moved_to_another_namespace_are_named(
    kept: Kept, elsewhere: Path, bring_back: Reinstate
) -> None:
    kept.vault.namespace("alice").files.write("a.txt", "of alice")
    kept.vault.namespace("alice").snapshot("first")
    kept.vault.namespace("bob").files.write("a.txt", "of bob")
    kept.vault.namespace("bob").snapshot("first")
    kept.vault.namespace("alice").files.write("pending.txt", "pending")
    kept.vault.namespace("alice").sessions.create("helper", initial_state={"secret": "of alice"})
    for table in ("pending", "sessions", "versions"):
        kept.sql(f"UPDATE {table} SET namespace_id = 2 WHERE namespace_id = 1")
    assert not kept.vault.verify().ok
    done = kept.vault.repair()
    assert any("pending.txt" in each.what for each in done.lost)
    assert any(each.what.startswith("sessions: ") for each in done.lost)
    check_comes_back(kept.vault, elsewhere, bring_back)
    assert kept.vault.namespace("bob").sessions.list() == []
    kept.vault.namespace("bob").snapshot("goes on")
    kept.vault.namespace("alice").snapshot("goes on")
