"""A session whose row is damaged is named by lists and by its id, and comes back by a repair."""

import sqlite3
from contextlib import AbstractContextManager, closing, suppress
from functools import partial
from pathlib import Path

import pytest

import holdfast
from holdfast.catalog import mending
from holdfast.catalog.transaction import Transaction
from holdfast.errors import Damaged, SessionNotFound
from holdfast.testing.damaged import Kept

pytestmark = pytest.mark.in_memory

COLUMNS = {
    "namespace_id": 3,
    "is_present": 0,
    "id": 0,
    "expires_at": 40,
    "agent_id": 1,
    "version": 0,
    "turns": 2,
    "deleted_at": 3,
    "created_at": 5,
}


def sessions(kept: Kept) -> holdfast.Sessions:
    """Returns sessions of which some are in a snapshot, some ended, and one was forked."""
    agent = kept.vault.namespace("alice")
    for name in ("one", "two"):
        agent.sessions.create("planner", session_id=name, metadata={"of": name}, ttl_seconds=3600)
        agent.sessions.add_turn(name, "a question", "an answer")
        agent.entities.create(name, entity_type="order", entity_id="o", attributes={"of": name})
    agent.snapshot()
    agent.acting_as("me").sessions.update_state("two", {"step": 1})
    agent.sessions.add_turn("two", "another", "one")
    agent.sessions.create("planner", session_id="three", user_id="u")
    agent.sessions.create("planner", session_id="gone", user_id="u")
    agent.sessions.delete("gone")
    agent.sessions.fork("two", 0, metadata={"why": "to see"})
    return agent.sessions


def test_a_list_names_a_session_that_it_would_leave_out(kept: Kept) -> None:
    found = sessions(kept)
    before, entities = found.list(), kept.vault.namespace("alice").entities.list()
    for at, column in enumerate(COLUMNS):
        name = ("one", "two")[at % 2]
        change = f"{column} = {flipped(kept, column, name)}"
        if column == "deleted_at":
            change = "deleted_at = 1, is_present = 0"
        loose(kept, f"UPDATE sessions SET {change} WHERE id = ?", name)
        for read in (found.list, partial(found.get, name), partial(found.update_state, name, {})):
            with pytest.raises(Damaged):
                read()
        assert found.get("three").id == "three"
        assert not kept.vault.verify().ok, column
        done = kept.vault.repair()
        assert (done.lost, done.mended >= 1) == ([], True), column
        assert kept.vault.verify().faults == [], column
        assert found.list() == before, column
        assert kept.vault.namespace("alice").entities.list() == entities, column
    assert found.update_state("one", {"step": 9}).state["step"] == 9


def test_what_has_ended_stays_so_and_is_nobodys_damage(kept: Kept) -> None:
    found = sessions(kept)
    before = found.list()
    kept.flip("sessions", "is_present", where="id = 'gone'")
    assert found.list() == before, "the plane does not hold it"
    kept.flip("sessions", "agent_id", where="id = 'gone'")
    kept.flip("sessions", "agent_id", bit=1, where="id = 'gone'")
    assert not kept.vault.verify().ok
    assert [lost.what for lost in kept.vault.repair().lost] == ["sessions: gone"]
    assert kept.vault.verify().ok
    assert found.list() == before
    with pytest.raises(SessionNotFound):
        found.get("gone")


def test_a_row_of_anothers_namespace_is_in_nobodys_way(kept: Kept) -> None:
    found = sessions(kept)
    other = kept.vault.tenant("other").namespace("bob")
    other.sessions.create("planner", session_id="mine")
    ((number,),) = kept.sql("SELECT id FROM namespaces WHERE name = 'bob'")
    loose(kept, f"UPDATE sessions SET namespace_id = {number} WHERE id = ?", "three")
    assert [each.id for each in other.sessions.list()] == ["mine"]
    with pytest.raises(Damaged, match="three"):
        found.list()
    assert kept.vault.tenant("other").repair().mended
    assert kept.vault.repair().ok
    assert len(found.list()) == 4
    assert [each.id for each in other.sessions.list()] == ["mine"]
    assert kept.vault.verify().ok
    assert kept.vault.tenant("other").verify().ok


def test_how_many_there_are_is_counted_through_all_that_happens_to_them(kept: Kept) -> None:
    found = sessions(kept)
    agent = kept.vault.namespace("alice")
    before = agent.timeline()[-1]
    agent.sessions.create("planner", session_id="short", ttl_seconds=1)
    agent.restore(before)
    agent.undo()
    fork = agent.fork("copy")
    fork.sessions.create("planner")
    agent.merge("copy")
    for each in (agent, fork):
        assert len(each.sessions.list(limit=None)) >= 4
    counted = "SELECT COUNT(*) FROM sessions s WHERE s.namespace_id = n.id AND is_present = 1"
    rows = kept.sql(f"SELECT n.sessions, ({counted}) FROM namespaces n")
    assert rows
    assert all(one == other for one, other in rows)
    assert len(found.list()) >= 4


def test_a_wrong_count_is_no_damage_of_any_session(kept: Kept) -> None:
    found = sessions(kept)
    before = found.list()
    kept.sql("UPDATE namespaces SET sessions = sessions + 2")
    assert found.list() == before
    assert kept.vault.repair().mended == 1
    ((count,),) = kept.sql("SELECT sessions FROM namespaces")
    assert count == len(before)


def test_what_ended_in_a_fork_is_kept_and_named_though_its_journal_tells_no_beginning(
    kept: Kept,
) -> None:
    sessions(kept)
    copy = kept.vault.namespace("alice").fork("copy")
    copy.entities.create("one", entity_type="order", entity_id="p", attributes={})
    copy.sessions.delete("one")
    ((number,),) = kept.sql("SELECT id FROM namespaces WHERE name = 'copy'")
    rows = f"FROM entities WHERE namespace_id = {number}"
    before = kept.sql(f"SELECT COUNT(*) {rows}")
    kept.break_row("sessions", "agent_id", where=f"id = 'one' AND namespace_id = {number}")
    assert [fault.what for fault in kept.vault.verify().faults] == ["sessions: one"]
    assert [lost.what for lost in kept.vault.repair().lost] == ["sessions: one"]
    assert kept.sql(f"SELECT COUNT(*) {rows}") == before
    assert not kept.vault.verify().ok
    assert len(copy.sessions.list()) == 3


@pytest.mark.parametrize("reads", [0, 1, 2])
def test_a_session_that_is_created_while_somebody_asks_for_it_is_no_damage(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    found = sessions(kept)
    catalog = kept.vault._context.catalog
    read, left = catalog.read, [*range(reads)]

    def read_later() -> AbstractContextManager[Transaction]:
        if left:
            left.pop()
        else:
            monkeypatch.setattr(catalog, "read", read)
            found.create("planner", session_id="new")
        return read()

    monkeypatch.setattr(catalog, "read", read_later)
    with suppress(SessionNotFound):
        assert found.get("new").id == "new"
    assert {"one", "two"} < {each.id for each in found.list()}


def test_a_long_row_is_not_tried_bit_by_bit(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    found = kept.vault.namespace("alice").sessions
    found.create("planner", session_id="long", metadata={"text": "x" * 2 * mending.MOST_BYTES})
    kept.break_row("sessions", "agent_id", where="id = 'long'")
    tried, to_seal = list[bytes](), mending.to_seal

    def count(hashed: bytes) -> bytes:
        tried.append(hashed)
        assert len(tried) < 100
        return to_seal(hashed)

    monkeypatch.setattr(mending, "to_seal", count)
    assert kept.vault.repair().ok
    assert found.get("long").agent_id == "planner"


def flipped(kept: Kept, column: str, name: str) -> str:
    """Returns a value of a column with one bit of it turned over, as SQL has it."""
    ((old,),) = kept.sql(f"SELECT {column} FROM sessions WHERE id = ?", name)
    if old is None:
        return "NULL"
    if isinstance(old, str):
        return f"'{chr(ord(old[0]) ^ 1)}{old[1:]}'"
    return str(old ^ 1 << COLUMNS[column])


def loose(kept: Kept, statement: str, *given: object) -> None:
    """Runs a statement that no constraint stands in the way of."""
    if kept.is_postgres:
        names = kept.sql(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'f'"
            " AND connamespace = 'holdfast'::regnamespace"
        )
        for table, name in names:
            kept.sql(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    kept.sql(statement, *given)


def test_a_list_that_an_index_leads_to_an_early_end_says_so(tmp_path: Path) -> None:
    with holdfast.open(tmp_path) as vault:
        for name in ("bob", "alice"):
            for number in range(3):
                vault.namespace(name).sessions.create("planner", session_id=f"{name}-{number}")
    path = tmp_path / "catalog.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'sessions_present'"
        ((root,),) = connection.execute(query).fetchall()
        ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    good = path.read_bytes()
    at = good.index(b"alice-1", (root - 1) * size, root * size)
    seen = set[str]()
    for bit in range(8 * (at - 14), 8 * at):
        bad = bytearray(good)
        bad[bit >> 3] ^= 1 << (bit & 7)
        path.write_bytes(bad)
        try:
            with holdfast.open(tmp_path) as vault:
                assert len(vault.namespace("alice").sessions.list()) == 3
        except Damaged as exc:
            seen.add(str(exc))
    assert any("lost the row of the session alice-" in each for each in seen)
