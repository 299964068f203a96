"""Rows of sessions on both catalogs: what was not written like that is damage, and never data."""

import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.hashing import to_seal
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.rows import TURN, VERSION
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast
from holdfast.errors import Damaged, HoldfastError
from holdfast.model.traces import TraceKind
from holdfast.testing.damaged import run_in

TABLES = {
    "sessions": ("namespace_id", "id"),
    "versions": ("namespace_id", "session_id", "number"),
    "branches": ("id",),
    "turns": ("branch", "number"),
}
"""Those of sessions, and what their rows are found by."""

ONLY_VERIFIED = {
    *(("turns", "stream"), ("turns", "journal"), ("branches", "bytes"), ("branches", "turns")),
}
"""What no reader of a session needs."""


@dataclass
class Place:
    """A vault with a conversation that went back and on, and a way into its tables."""

    server: "psycopg.Connection[tuple[Any, ...]] | None"
    folder: Path
    vault: Holdfast
    context: Context

    @property
    def agent(self) -> Namespace:
        return self.vault.namespace("alice")

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        if self.server is None:
            return run_in(self.folder, statement, *values)
        cursor = self.server.execute(statement.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description else []

    def columns(self, table: str) -> list[str]:
        if self.server is not None:
            query = "SELECT column_name FROM information_schema.columns WHERE table_name = ?"
            return sorted(name for (name,) in self.run(query, (table,)))
        return sorted(row[1] for row in self.run(f"PRAGMA table_info({table})"))

    @contextmanager
    def changed(self, table: str, key: Sequence[Any], column: str, new: object) -> Iterator[bool]:
        """Puts another value into a column of a row; says whether the table takes it."""
        where = " AND ".join(f"{name} = ?" for name in TABLES[table])
        ((old,),) = self.run(f"SELECT {column} FROM {table} WHERE {where}", key)
        change = f"UPDATE {table} SET {column} = ? WHERE {where}"
        now = [
            new if name == column else each for name, each in zip(TABLES[table], key, strict=True)
        ]
        try:
            self.run(change, (new, *key))
        except (sqlite3.IntegrityError, psycopg.IntegrityError):
            yield False
            return
        yield True
        self.run(change, (old, *now))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    url = "" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    options = {"options": "-c search_path=holdfast", "autocommit": True}
    with (
        closing(PostgresCatalog(url) if url else SqliteCatalog(tmp_path)) as catalog,
        psycopg.connect(url, **options) if url else nullcontext() as server,
    ):
        blobs = DiskBlobStore(tmp_path / "packs")
        context = Context.of(catalog, blobs, limits=Limits(free_floor_bytes=0)).without_caches()
        made = Place(server, tmp_path, Holdfast(context), context)
        sessions = made.agent.sessions
        sessions.create("bot", session_id="s", user_id="u", initial_state={"step": 0})
        sessions.add_turn("s", "one", "1", reasoning="asked", state_after={"step": 0.5})
        sessions.add_turn("s", "two", "2", state_after={"step": 1, "text": "x" * 600})
        mine = made.agent.acting_as("me").sessions
        mine.update_state("s", {"step": 2}, reasoning="because")
        sessions.rollback("s", 1, conversation=True)
        sessions.add_turn("s", "instead", "3")
        yield made


def readings(agent: Namespace, turns: Sequence[str]) -> dict[str, Callable[[], object]]:
    sessions = agent.sessions
    return {
        "get": lambda: sessions.get("s"),
        "state": lambda: [sessions.get_state("s", version=number) for number in range(5)],
        "history": lambda: sessions.history("s"),
        "diff": lambda: sessions.diff("s", 0, 3),
        "turns": lambda: sessions.list_turns("s", include_state=True),
        "turn": lambda: [sessions.get_turn("s", each) for each in turns],
        "lineage": lambda: sessions.lineage("s"),
    }


@pytest.mark.parametrize(
    ("table", "column", "new"),
    [("sessions", "turns", 7), ("versions", "bytes", 7), ("versions", "state", b"?")],
)
def test_what_was_read_before_is_checked_if_it_is_another(
    place: Place, table: str, column: str, new: object
) -> None:
    """With all caches: what a process remembers of a row is compared with the whole of it."""
    context = Context.of(place.context.catalog, place.context.blobs)
    sessions = Holdfast(context).namespace("alice").sessions
    known = sessions.get_state("s")
    ((namespace_id, version),) = place.run("SELECT namespace_id, version FROM sessions")
    key = {"sessions": (namespace_id, "s"), "versions": (namespace_id, "s", version)}[table]
    with place.changed(table, key, column, new) as is_taken:
        assert is_taken
        with pytest.raises(Damaged):
            sessions.get_state("s")
    assert sessions.get_state("s") == known


def flipped(value: object, rng: random.Random) -> object:
    """Returns a value with one bit turned over; text stays text."""
    if value is None:
        return None
    if isinstance(value, int):
        return value ^ (1 << rng.randrange(40))
    data = bytearray(value.encode() if isinstance(value, str) else bytes(value))  # pyright: ignore[reportArgumentType] - bytes
    if not data:
        return None
    place = rng.randrange(len(data))
    data[place] ^= 1 << rng.randrange(5 if isinstance(value, str) else 8)
    return data.decode() if isinstance(value, str) else bytes(data)


def test_a_bit_that_turns_over_is_damage_and_verify_finds_it(place: Place) -> None:
    agent, rng = place.agent, random.Random(19)
    turns = [turn.id for turn in agent.sessions.list_turns("s")]
    good = {name: read() for name, read in readings(agent, turns).items()}
    assert place.vault.verify().ok
    seen = set[tuple[str, str]]()
    for table, key in TABLES.items():
        rows = place.run(f"SELECT {', '.join(key)} FROM {table}")
        assert rows
        for column in place.columns(table):
            for row in rows:
                where = " AND ".join(f"{name} = ?" for name in key)
                ((old,),) = place.run(f"SELECT {column} FROM {table} WHERE {where}", row)
                new = flipped(old, rng)
                if new is None:
                    continue
                with place.changed(table, row, column, new) as is_taken:
                    if not is_taken:
                        continue
                    found = f"{table}.{column} of {row}: {old!r} became {new!r}"
                    for name, read in readings(agent, turns).items():
                        try:
                            assert read() == good[name], f"{found}, and {name} tells it"
                        except HoldfastError as exc:
                            if isinstance(exc, Damaged):
                                seen.add((table, column))
                    if row == rows[-1]:
                        assert not place.vault.verify().ok, found
    assert place.vault.verify().ok
    wanted = {(table, column) for table in TABLES for column in place.columns(table)}
    never_set = {("sessions", each) for each in ("expires_at", "forked_from", "forked_version")}
    never_set |= {("sessions", "deleted_at"), ("sessions", "since")}
    keys = {("sessions", "namespace_id"), ("sessions", "id")}
    assert wanted - seen <= ONLY_VERIFIED | never_set | keys


def test_a_row_that_is_gone_is_damage(place: Place) -> None:
    sessions = place.agent.sessions
    where = "session_id = 's' AND number = 1"
    (row,) = place.run(f"SELECT * FROM versions WHERE {where}")
    place.run(f"DELETE FROM versions WHERE {where}")
    for read in (lambda: sessions.get_state("s", version=1), lambda: sessions.history("s")):
        with pytest.raises(Damaged):
            read()
    with pytest.raises(Damaged):
        sessions.rollback("s", 1)
    assert not place.vault.verify().ok
    place.run(f"INSERT INTO versions VALUES ({', '.join('?' * len(row))})", row)
    assert place.vault.verify().ok
    place.run("DELETE FROM turns WHERE number = 1")
    for order in ("asc", "desc"):
        with pytest.raises(Damaged):
            sessions.list_turns("s", order=order)


def test_a_session_without_its_newest_version_is_damage_and_not_unknown(place: Place) -> None:
    sessions = place.agent.sessions
    place.run("DELETE FROM versions WHERE number = 4")
    for act in (
        lambda: sessions.get("s"),
        sessions.list,
        lambda: sessions.get_state("s"),
        lambda: sessions.update_state("s", {"step": 9}),
    ):
        with pytest.raises(Damaged, match="version 4 of session s is missing"):
            act()


def test_what_was_forged_with_its_seal_is_told_by_the_journal(place: Place) -> None:
    """Whoever can write to the catalog makes seals; the chain he would have to make anew."""
    ((namespace_id,),) = place.run("SELECT id FROM namespaces")
    columns = ", ".join(VERSION.columns[:-1])
    (row,) = place.run(f"SELECT {columns} FROM versions WHERE number = 3")
    forged = [*row]
    forged[VERSION.columns.index("turns")] += 1
    seal = to_seal(VERSION.hash_row(forged, namespace_id, "s"))
    place.run("UPDATE versions SET turns = turns + 1, seal = ? WHERE number = 3", (seal,))
    assert place.agent.sessions.get_state("s", version=3).state["step"] == 2
    with pytest.raises(Damaged, match="version 3 of session s is not what the journal says"):
        place.agent.sessions.history("s")
    faults = [fault.reason for fault in place.vault.verify().faults]
    assert "version 3 is not what the journal says" in faults
    columns = ", ".join(TURN.columns[:-1])
    (row,) = place.run(f"SELECT {columns} FROM turns WHERE number = 1")
    forged = [bytes(x).replace(b"one", b"two") if n == 3 else x for n, x in enumerate(row)]
    seal = to_seal(TURN.hash_row(forged))
    place.run("UPDATE turns SET data = ?, seal = ? WHERE number = 1", (forged[3], seal))
    faults = [fault.reason for fault in place.vault.verify().faults]
    assert "turn 1 is not what the journal says" in faults


def test_versions_that_a_restore_brings_are_in_the_chain_and_in_no_list(place: Place) -> None:
    agent = place.agent
    first = agent.snapshot("first")
    agent.sessions.update_state("s", {"step": 7})
    agent.sessions.create("bot", session_id="younger")
    agent.restore(first)
    agent.undo()
    fork = agent.fork("copy")
    assert fork.sessions.get_state("s").state["step"] == 7
    assert [each.kind.value for each in agent.sessions.history("s")][-2:] == ["restore"] * 2
    told = agent.sessions.history("s")[-2]
    (trace_of,) = (each for each in agent.traces.list() if each.action == "snapshot.restored")
    assert (told.reasoning, told.trace_id) == (f"restore {first.id}", trace_of.id)
    for namespace in (agent, fork):
        assert not any("kept" in trace.action for trace in namespace.traces.list(limit=100))
        head = namespace.traces.list(limit=1)[0]
        assert head.namespace == namespace.name
    assert place.vault.verify_audit().ok
    assert place.vault.verify().ok
    kept = place.run("SELECT COUNT(*) FROM journal WHERE kind = ?", (TraceKind.KEPT.value,))
    assert kept == [(5,)], "two of s, one of younger that came back, two of the fork"


def test_a_purged_session_leaves_its_rows_in_the_chain(place: Place) -> None:
    before = place.run("SELECT COUNT(*) FROM journal WHERE version_hash IS NOT NULL")
    with place.context.catalog.write() as transaction:
        ((namespace_id,),) = place.run("SELECT id FROM namespaces")
        transaction.purge_session(namespace_id, "s")
    assert place.run("SELECT COUNT(*) FROM versions") == [(0,)]
    assert place.run("SELECT COUNT(*) FROM journal WHERE version_hash IS NOT NULL") == before
    assert place.vault.verify_audit().ok
