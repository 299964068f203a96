"""Opening a catalog for the first time, and dying while doing so: empty or complete, never half."""

import math
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import psycopg
import pytest

import holdfast
from holdfast.catalog import postgres as holdfast_postgres
from holdfast.catalog import tables
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.catalog.tables import (
    Step,
    load_migrations,
    load_tables,
    load_tables_of,
    newest_format,
    no_step,
)
from holdfast.errors import Busy, Damaged, Incompatible, Unavailable, VaultTooNew, VaultTooOld
from holdfast.ids import NamespaceId
from holdfast.testing.damaged import one_of_each
from holdfast.testing.faults import fuses
from holdfast.testing.postgres import PostgresServer

pytestmark = [pytest.mark.in_memory, pytest.mark.usefixtures("made_anew")]

NOW = datetime(2025, 3, 1, tzinfo=UTC)
NEWEST = newest_format()
STATEMENTS = {
    kind: [statement for migration in load_tables(kind) for statement in migration.statements]
    for kind in ("sqlite", "postgres")
}
TABLES = sum(statement.startswith("CREATE TABLE") for statement in STATEMENTS["sqlite"])

OPENER = """
import os, signal, sys
from pathlib import Path
kind, where, steps = sys.argv[1:]
left = int(steps)
def step(statement):
    global left
    left -= 1
    if left == -1:
        os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.readline()
if kind == "sqlite":
    from holdfast.catalog.sqlite import SqliteCatalog
    catalog = SqliteCatalog(Path(where), step=step)
else:
    from holdfast.catalog.postgres import PostgresCatalog
    catalog = PostgresCatalog(where, step=step)
from datetime import datetime, UTC
with catalog.write() as transaction:
    tenant = transaction.add_tenant("default", public_id="ws-a", now=datetime.now(tz=UTC))
catalog.close()
print(tenant.id)
"""


class Place(Protocol):
    """Where there is no catalog yet."""

    kind: str
    words: int | None
    """With how many of their words statements are alike: PostgreSQL's take long to come to."""

    @property
    def where(self) -> str: ...
    def open(self, step: Step = no_step) -> Catalog: ...
    def tables(self) -> list[str]: ...
    def run(self, statement: str) -> None: ...
    def contents(self) -> object: ...
    def start_afresh(self) -> None: ...


class SqlitePlace:
    kind, words = "sqlite", None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = 0

    @property
    def folder(self) -> Path:
        return self._folder / f"vault-{self._turn}"

    @property
    def where(self) -> str:
        return str(self.folder)

    def open(self, step: Step = no_step) -> SqliteCatalog:
        return SqliteCatalog(self.folder, step=step)

    def tables(self) -> list[str]:
        with closing(sqlite3.connect(self.folder / "catalog.sqlite")) as connection:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            # SQLite's own, and those in which FTS5 keeps its index, are none of ours.
            return sorted(name for (name,) in names if not name.startswith(("sqlite_", "memory_")))

    def run(self, statement: str) -> None:
        with closing(sqlite3.connect(self.folder / "catalog.sqlite")) as connection:
            connection.execute(statement)
            connection.commit()

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.folder.glob("catalog*")}

    def start_afresh(self) -> None:
        self._turn += 1


class PostgresPlace:
    kind, words = "postgres", 2

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._name = server.create_database()

    @property
    def where(self) -> str:
        return self._server.dsn(self._name)

    def open(self, step: Step = no_step) -> PostgresCatalog:
        return PostgresCatalog(self.where, step=step)

    def tables(self) -> list[str]:
        with psycopg.connect(self.where) as connection:
            query = "SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast' ORDER BY 1"
            return [name for (name,) in connection.execute(query)]

    def run(self, statement: str) -> None:
        with psycopg.connect(self.where, options="-c search_path=holdfast") as connection:
            connection.execute(statement)

    def contents(self) -> object:
        with psycopg.connect(self.where, options="-c search_path=holdfast") as connection:
            rows = [
                connection.execute(f"SELECT * FROM {name}").fetchall() for name in self.tables()
            ]
            locks = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
            return rows, locks.fetchall()

    def start_afresh(self) -> None:
        self.run("DROP SCHEMA IF EXISTS holdfast CASCADE")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return SqlitePlace(tmp_path)
    return PostgresPlace(request.getfixturevalue("postgres"))


def start(place: Place, *, steps: int = -1) -> "subprocess.Popen[str]":
    """Starts a process that opens the catalog when told, and dies after so many steps."""
    return subprocess.Popen(
        [sys.executable, "-c", OPENER, place.kind, place.where, str(steps)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def check_it_works(place: Place) -> None:
    with closing(place.open()) as catalog:
        with catalog.write() as transaction:
            transaction.add_tenant("default", public_id="ws-a", now=NOW)
        with catalog.read() as transaction:
            assert [tenant.name for tenant in transaction.iter_tenants()] == ["default"]
    assert len(place.tables()) == TABLES


def test_dying_at_any_step_leaves_an_empty_or_a_complete_catalog(place: Place) -> None:
    deaths = 0
    for fuse in fuses():
        place.start_afresh()
        with fuse:
            place.open(one_of_each(fuse.step, words=place.words)).close()
        assert place.tables() == [] if fuse.blown else len(place.tables()) == TABLES
        check_it_works(place)
        deaths += fuse.blown
    assert deaths > (len(STATEMENTS[place.kind]) if place.words is None else 5)


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 1])
def test_being_killed_while_opening_leaves_an_empty_catalog_that_works(
    place: Place, share: float
) -> None:
    process = start(place, steps=math.ceil(share * len(STATEMENTS[place.kind])))
    process.communicate("go\n")
    assert process.returncode == -signal.SIGKILL
    assert place.tables() == []
    check_it_works(place)


def test_a_file_that_died_young_still_gives_pages_back(tmp_path: Path) -> None:
    for fuse in fuses():
        folder = tmp_path / f"{fuse.steps}"
        with fuse:
            SqliteCatalog(folder, step=one_of_each(fuse.step, words=2)).close()
        SqliteCatalog(folder).close()
        with closing(sqlite3.connect(folder / "catalog.sqlite")) as connection:
            assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_four_processes_that_open_a_new_catalog_at_once_all_succeed(place: Place) -> None:
    processes = [start(place) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert answers == ["1\n"] * 4
    check_it_works(place)


def test_opening_again_changes_nothing(place: Place) -> None:
    place.open().close()
    before = place.contents()
    for _ in range(2):
        place.open().close()
    assert place.contents() == before


def test_a_catalog_of_each_format_before_becomes_one_of_today(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for older in load_migrations(place.kind)[:-1]:
        place.start_afresh()
        made = load_tables_of(older.number, place.kind)
        with monkeypatch.context() as then:
            then.setattr(tables, "load_tables", lambda _, made=made: made)
            place.open().close()
        check_it_works(place)


def test_a_catalog_that_is_newer_than_we_are_is_left_alone(place: Place) -> None:
    place.open().close()
    place.run(f"INSERT INTO migrations VALUES ({NEWEST + 1}, 'from the future', 0)")
    before = place.contents()
    with pytest.raises(VaultTooNew) as raised:
        place.open()
    assert (raised.value.found, raised.value.known) == (NEWEST + 1, NEWEST)
    assert place.contents() == before


@pytest.mark.parametrize(
    "harm",
    [
        f"UPDATE migrations SET name = 'other' WHERE number = {NEWEST}",
        "INSERT INTO migrations VALUES (15, '0015_writers', 0)",
    ],
)
def test_a_catalog_that_no_version_of_ours_has_made_is_left_alone(place: Place, harm: str) -> None:
    place.open().close()
    place.run(harm)
    before = place.contents()
    with pytest.raises(Damaged):
        place.open()
    assert place.contents() == before


@pytest.mark.parametrize("number", [14, 16, 26])
def test_a_catalog_that_is_older_than_we_know_is_left_alone(place: Place, number: int) -> None:
    place.open().close()
    place.run("DELETE FROM migrations")
    place.run(f"INSERT INTO migrations VALUES ({number}, 'of another time', 0)")
    before = place.contents()
    with pytest.raises(VaultTooOld) as raised:
        place.open()
    assert (raised.value.found, raised.value.known) == (number, 15)
    assert ("never released" in str(raised.value)) == (number > 15)
    assert "Export" in (raised.value.hint or "")
    assert place.contents() == before


def test_who_has_a_catalog_open_that_a_newer_version_changes_writes_no_more(place: Place) -> None:
    with closing(place.open()) as catalog:
        with catalog.write() as transaction:
            tenant = transaction.add_tenant("default", public_id="ws-a", now=NOW)
        place.run(f"INSERT INTO migrations VALUES ({NEWEST + 1}, 'from the future', 0)")
        for _ in range(2):
            with pytest.raises(VaultTooNew) as raised, catalog.write() as transaction:
                transaction.add_tenant("another", public_id="ws-b", now=NOW)
            assert (raised.value.found, raised.value.known) == (NEWEST + 1, NEWEST)
        with catalog.read() as transaction:
            assert transaction.find_tenant("default") == tenant
            assert transaction.find_tenant("another") is None


def test_who_writes_unseen_to_tables_that_a_newer_version_has_changed_is_told(
    postgres_url: str, tmp_path: Path
) -> None:
    with holdfast.open(postgres_url, objects=tmp_path) as vault:
        sessions = vault.namespace("alice").sessions
        sessions.create("bot", session_id="s", initial_state={})
        for number in range(4):
            sessions.update_state("s", {"n": number})
        with psycopg.connect(postgres_url, options="-c search_path=holdfast") as connection:
            connection.execute("ALTER TABLE versions RENAME COLUMN state TO another")
            connection.execute(f"INSERT INTO migrations VALUES ({NEWEST + 1}, 'from then', 0)")
        for _ in range(2):
            with pytest.raises(VaultTooNew) as raised:
                sessions.update_state("s", {"n": 9})
            assert (raised.value.found, raised.value.known) == (NEWEST + 1, NEWEST)


def test_a_newer_version_waits_until_nobody_writes(postgres: PostgresServer) -> None:
    place = PostgresPlace(postgres)
    # As opening does before it changes tables; SQLite has one writer at a time anyway.
    lock = "LOCK TABLE migrations IN ACCESS EXCLUSIVE MODE NOWAIT"
    with closing(place.open()) as catalog:
        with catalog.write() as transaction:
            transaction.add_tenant("default", public_id="ws-a", now=NOW)
            with pytest.raises(psycopg.errors.LockNotAvailable):
                place.run(lock)
        place.run(lock)


def test_the_tables_of_others_in_the_same_database_are_left_alone(
    postgres: PostgresServer,
) -> None:
    place = PostgresPlace(postgres)
    with psycopg.connect(place.where) as connection:
        connection.execute("CREATE TABLE migrations (name TEXT)")
        connection.execute("CREATE TABLE tenants (name TEXT)")
        connection.execute("INSERT INTO tenants VALUES ('somebody')")
    check_it_works(place)
    with psycopg.connect(place.where) as connection:
        assert connection.execute("SELECT * FROM public.tenants").fetchall() == [("somebody",)]
        assert connection.execute("SELECT * FROM public.migrations").fetchall() == []


# Files that are no catalogs


def folder_with(tmp_path: Path, data: bytes) -> Path:
    (tmp_path / "catalog.sqlite").write_bytes(data)
    return tmp_path


NO_CATALOGS = {
    "text": b"not a database, and longer than the header of one. " * 20,
    "nonsense": b"SQLite format 3\0" + bytes(range(256)) * 16,
    "zeros": b"\0" * 8192,
}


@pytest.mark.parametrize("data", NO_CATALOGS.values(), ids=NO_CATALOGS)
def test_a_file_that_is_no_catalog_is_damaged_and_left_alone(tmp_path: Path, data: bytes) -> None:
    folder = folder_with(tmp_path, data)
    with pytest.raises(Damaged):
        SqliteCatalog(folder)
    assert (folder / "catalog.sqlite").read_bytes() == data


def used_catalog(folder: Path) -> Path:
    with closing(SqliteCatalog(folder)) as catalog, catalog.write() as transaction:
        transaction.add_tenant("default", public_id="ws-a", now=NOW)
    return folder / "catalog.sqlite"


def test_a_catalog_that_lost_its_file_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    path = used_catalog(tmp_path)
    path.unlink()
    with pytest.raises(Damaged, match="lost"):
        SqliteCatalog(tmp_path)
    with pytest.raises(Damaged, match="lost"):
        SqliteCatalog(tmp_path)


@pytest.mark.parametrize("cut", [1, 100, 4096, 5000])
def test_a_catalog_that_was_cut_short_is_damaged(tmp_path: Path, cut: int) -> None:
    path = used_catalog(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with pytest.raises(Damaged):
        SqliteCatalog(tmp_path)
    assert path.read_bytes() == whole[:-cut]
    path.write_bytes(whole)
    SqliteCatalog(tmp_path).close()


def test_a_catalog_whose_tables_are_gone_is_damaged(place: Place) -> None:
    place.open().close()
    place.run("DROP TABLE pending")
    with (
        closing(place.open()) as catalog,
        pytest.raises(Damaged),
        catalog.write() as transaction,
    ):
        transaction.count_pending(NamespaceId(1))


def test_a_folder_where_the_file_should_be_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "catalog.sqlite").mkdir()
    with pytest.raises(Unavailable):
        SqliteCatalog(tmp_path)


def test_a_file_where_the_folder_should_be_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "vault").write_bytes(b"")
    with pytest.raises(Unavailable):
        SqliteCatalog(tmp_path / "vault")


def test_a_database_that_does_not_answer_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(Unavailable):
        PostgresCatalog(f"postgresql://nobody@127.0.0.1:{port}/nothing")


def test_a_sqlite_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with pytest.raises(Incompatible, match=r"3\.37"):
        SqliteCatalog(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_sqlite_that_lacks_a_part_is_named_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.catalog.sqlite_connections._MODULES", ("json_each", "fts9"))
    with pytest.raises(Incompatible, match="built without fts9"):
        SqliteCatalog(tmp_path)
    monkeypatch.undo()
    SqliteCatalog(tmp_path).close()


@pytest.mark.parametrize("needed", [NEWEST - 1, NEWEST])
def test_beside_a_newer_version_that_only_adds_those_before_it_go_on_and_start(
    place: Place, needed: int
) -> None:
    name = f"{NEWEST + 1:04}_more_beside_{needed:04}"
    with closing(place.open()) as catalog:
        place.run("CREATE TABLE more (id INTEGER)")
        place.run(f"INSERT INTO migrations VALUES ({NEWEST + 1}, '{name}', 0)")
        with catalog.write() as transaction:
            tenant = transaction.add_tenant("default", public_id="ws-a", now=NOW)
        with closing(place.open()) as other, other.write() as transaction:
            assert transaction.find_tenant("default") == tenant
            transaction.add_tenant("another", public_id="ws-b", now=NOW)
        # One more, which only those know who know the last.
        worse = f"{NEWEST + 2:04}_more_beside_{NEWEST + 1:04}"
        place.run(f"INSERT INTO migrations VALUES ({NEWEST + 2}, '{worse}', 0)")
        with pytest.raises(VaultTooNew) as raised, catalog.write() as transaction:
            transaction.add_tenant("third", public_id="ws-c", now=NOW)
        assert (raised.value.found, raised.value.known) == (NEWEST + 2, NEWEST)
        with pytest.raises(VaultTooNew) as raised:
            place.open()
        assert (raised.value.found, raised.value.known) == (NEWEST + 2, NEWEST)


def test_a_change_of_tables_is_given_up_if_somebody_does_not_let_go(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = PostgresPlace(postgres)
    made = load_tables_of(load_migrations("postgres")[-2].number, "postgres")
    with monkeypatch.context() as then:
        then.setattr(tables, "load_tables", lambda _: made)
        place.open().close()
    monkeypatch.setattr(holdfast_postgres, "_IN_TIME", "SET LOCAL lock_timeout = '50ms'")
    with psycopg.connect(place.where) as busy:
        busy.execute("SELECT * FROM holdfast.migrations")
        with pytest.raises(Busy):
            place.open()
    place.open().close()
