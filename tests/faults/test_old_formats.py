"""A vault of the oldest format that is carried on: nothing is lost, and the tables become ours.

`format_15.zip` was written by the last version before the tables were written once: a vault on
SQLite, and on PostgreSQL its tables with a backup of its rows. They hold a bit of everything, and
their clock stood at the first minutes of 2026.
"""

import json
import re
import shutil
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, LiteralString, Protocol, cast

import msgspec
import psycopg
import pytest

import holdfast
from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.postgres_dump import load_rows
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.catalog.tables import (
    Migration,
    Step,
    load_migrations,
    no_step,
    split_statements,
)
from holdfast.engine.backups.manifest import decode_manifest
from holdfast.engine.core.context import Context
from holdfast.engine.vault import Holdfast
from holdfast.entries import IN_ROW
from holdfast.errors import Incompatible, VaultTooOld
from holdfast.model.basics import Plane
from holdfast.testing.damaged import one_of_each
from holdfast.testing.faults import fuses
from holdfast.testing.postgres import PostgresServer

pytestmark = pytest.mark.in_memory

FIXTURE = Path(__file__).with_name("format_15.zip")
NOW = [each.number for each in load_migrations("sqlite")]
"""The formats that a vault of today has had."""

LATER = datetime(2026, 1, 2, tzinfo=UTC)

Rows = dict[str, list[tuple[Any, ...]]]


class Old(Protocol):
    """A vault of format 15, and an empty place for a new one."""

    words: int | None
    """With how many of their words statements are alike: PostgreSQL's take long to come to."""

    def open(self, step: Step = no_step) -> Catalog: ...
    def open_new(self) -> Catalog: ...
    def tables(self, *, new: bool = False) -> object: ...
    def rows(self) -> Rows: ...
    def start_afresh(self) -> None: ...


class OldSqlite:
    words = None

    def __init__(self, files: Path) -> None:
        self._files, self._folder = files, files / "vault"
        self.start_afresh()

    def start_afresh(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        shutil.copytree(self._files / "sqlite", self._folder)

    def open(self, step: Step = no_step) -> Catalog:
        return SqliteCatalog(self._folder, step=step)

    def open_new(self) -> Catalog:
        return SqliteCatalog(self._files / "new")

    def tables(self, *, new: bool = False) -> object:
        with self._connect(self._files / "new" if new else self._folder) as connection:
            return sqlite_tables(connection)

    def rows(self) -> Rows:
        with self._connect(self._folder) as connection:
            query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%STRICT%'"
            names = [name for (name,) in connection.execute(query).fetchall()]
            return {n: connection.execute(f"SELECT * FROM {n}").fetchall() for n in names}

    @contextmanager
    def _connect(self, folder: Path) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(folder / "catalog.sqlite")) as connection:
            yield connection


class OldPostgres:
    words = 2

    def __init__(self, files: Path, server: PostgresServer) -> None:
        self._server = server
        self._new = server.create_database()
        self._template = server.create_database()
        statements = split_statements((files / "postgres.sql").read_text())
        (rows,) = (files / "backup").glob("catalog-*")
        with self._connect(self._template) as connection, rows.open("rb") as file:
            load_rows(connection, file, [Migration(15, "15", statements)])
        self.start_afresh()

    def start_afresh(self) -> None:
        self._old = self._server.create_database(template=self._template)

    def open(self, step: Step = no_step) -> Catalog:
        return PostgresCatalog(self._server.dsn(self._old), step=step)

    def open_new(self) -> Catalog:
        return PostgresCatalog(self._server.dsn(self._new))

    def tables(self, *, new: bool = False) -> object:
        with self._connect(self._new if new else self._old) as connection:
            return postgres_tables(connection)

    def rows(self) -> Rows:
        with self._connect(self._old) as connection:
            query = "SELECT tablename FROM pg_tables WHERE schemaname = 'holdfast'"
            names = [name for (name,) in connection.execute(query)]
            return {name: _all(connection, name) for name in names}

    @contextmanager
    def _connect(self, name: str) -> "Iterator[psycopg.Connection[Any]]":
        options = "-c search_path=holdfast"
        with psycopg.connect(self._server.dsn(name), options=options) as connection:
            yield connection


def _all(connection: "psycopg.Connection[Any]", table: str) -> list[tuple[Any, ...]]:
    found = connection.execute(cast("LiteralString", f"SELECT * FROM {table}")).fetchall()
    return sorted(found, key=repr)


def sqlite_tables(connection: sqlite3.Connection) -> Sequence[Any]:
    """Returns what SQLite has, whatever the layout of what made it."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    texts = (" ".join((row[3] or "").split()) for row in rows)
    plain = [re.sub(r"\s*([(),])\s*", r"\1", text) for text in texts]
    return sorted((*row[:3], text) for row, text in zip(rows, plain, strict=True))


POSTGRES_TABLES: Sequence[LiteralString] = (
    """
    SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           a.attidentity, a.attstorage, l.collname, pg_get_expr(d.adbin, d.adrelid), c.relkind,
           c.relpersistence
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    LEFT JOIN pg_collation l ON l.oid = a.attcollation
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'holdfast'::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY 1, 2
    """,
    """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'holdfast'::regnamespace ORDER BY 1, 2
    """,
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'holdfast' ORDER BY 1",
)


def postgres_tables(connection: "psycopg.Connection[Any]") -> Sequence[Any]:
    """Returns what PostgreSQL has, whatever the layout of what made it."""
    tables = [connection.execute(query).fetchall() for query in POSTGRES_TABLES]
    assert all(tables)
    return tables


@pytest.fixture
def files(tmp_path: Path) -> Path:
    with zipfile.ZipFile(FIXTURE) as archive:
        archive.extractall(tmp_path / "files")
    return tmp_path / "files"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def old(request: pytest.FixtureRequest, files: Path) -> Old:
    if request.param == "sqlite":
        return OldSqlite(files)
    return OldPostgres(files, request.getfixturevalue("postgres"))


def vault_of(catalog: Catalog, packs: Path) -> Holdfast:
    return Holdfast(Context.of(catalog, DiskBlobStore(packs), clock=lambda: LATER))


def check_it_is_whole(vault: Holdfast) -> None:
    """Raises unless everything is there that was put into the vault, in its order."""
    alice = vault.namespace("alice")
    kinds = [(snapshot.kind.value, snapshot.label) for snapshot in alice.timeline()][::-1]
    assert kinds[:2] == [("snapshot", "first"), ("snapshot", "second")]
    assert [kind for kind, _ in kinds[2:]] == ["restore", "undo", *3 * ["snapshot"]]
    (second,) = (each for each in alice.timeline() if each.label == "second")
    assert (second.pinned, second.actor, second.reason) == (True, "ops", "a reason")
    assert alice.files.read("notes.md") == b"second"
    assert alice.files.read("pending.txt") == b"in no snapshot yet"
    assert alice.store.get("config", "mode") == "careful"
    assert alice.sessions.get_state("talk").state == {"step": 1}
    history = [version.kind.value for version in alice.sessions.history("talk")]
    assert history == ["created", "updated", "rollback"]
    assert [turn.input["content"] for turn in alice.sessions.list_turns("talk")] == ["hello"]
    (aside,) = (each for each in alice.sessions.list() if each.id != "talk")
    assert alice.sessions.get_state(aside.id).state == {"step": 2}
    assert alice.memory.search("answer")[0].memory.content == "the answer is forty-two"
    assert [each.entity_id for each in alice.entities.list(session_id="talk")] == ["17"]
    assert [task.name for task in alice.tasks.list()] == ["tidy up"]
    assert [schedule.label for schedule in alice.schedules.list()] == ["hourly"]
    assert [webhook.events for webhook in vault.webhooks.list()] == [["snapshot.created"]]
    assert [key.name for key in vault.keys.list()] == ["ops"]
    assert vault.namespace("branch").files.read("tidy.txt") == b"done"
    acme = vault.tenant("acme")
    assert acme.namespace("bob").files.read("theirs.txt") == b"acme's"
    for tenant in (vault, acme):
        assert tenant.verify().ok
        assert tenant.verify_audit().ok


SEALED = (
    "pending",
    "tenants",
    "namespaces",
    "snapshots",
    "entities",
    "keys",
    "webhooks",
    "deliveries",
    "tasks",
    "schedules",
    "events",
    "memories",
)
"""Tables whose rows have a checksum, last."""


def drop_what_tasks_noted(rows: Rows) -> None:
    assert rows.pop("task_changes") == []
    assert {row[-1] for row in rows["tasks"]} == {0}
    rows["tasks"] = [row[:-1] for row in rows["tasks"]]


def check_sums(packs: Sequence[Any], sums: Sequence[Any]) -> None:
    """What packs take is counted, and what those take that are in the catalog."""
    all_of_them, inside, number = Counter[int](), Counter[int](), Counter[int]()
    for row in packs:
        all_of_them[row[1]] += row[6]
        inside[row[1]] += row[6] * row[4]
        number[row[1]] += row[4]
    assert {row[0]: row[2] for row in sums} == all_of_them
    assert {row[0]: row[3] for row in sums} == number
    assert {row[0]: row[4] for row in sums} == inside


def carried_back(rows: Rows) -> Rows:
    """Returns the rows of now as format 15 had them: nothing that it had was changed."""
    drop_what_tasks_noted(rows)
    assert rows.pop("told") == []
    assert rows.pop("anchored")
    assert {row[1] for row in rows.pop("counted")} == {
        *Counter(r[1] for r in rows["namespaces"]).values()
    }
    assert rows.pop("listening") == [("events", 0)]  # It had events: somebody listened.
    assert rows.pop("erasures") == []
    assert rows.pop("rollback_levels") == []
    assert rows.pop("storage_days") == rows.pop("sign_ins") == rows.pop("agreements") == []
    assert rows.pop("logins") == rows.pop("git_backups") == []
    assert rows.pop("first_keys") == rows.pop("rates") == []
    assert {until for _, _, until, _ in rows.pop("leases")} <= {0}  # Of who has just looked.
    assert rows.pop("writers") == rows.pop("sweeps") == rows.pop("forgotten") == []
    assert {row[8] for row in rows["packs"]} <= {None}  # Nobody has counted what is in them.
    check_sums(rows["packs"], rows.pop("pack_sums"))
    rows["packs"] = [row[:8] for row in rows["packs"]]
    # Its metadata, and how much it changed.
    assert {row[-2:] for row in rows["snapshots"]} <= {(None, None)}
    rows["snapshots"] = [row[:-1] for row in rows["snapshots"]]
    assert rows.pop("former_sessions") == rows.pop("former_entities") == []
    assert {row[-1] for row in rows["sessions"]} == {None}  # Nobody else had their ids.
    assert {row[-1] for row in rows["namespaces"]} == {0}  # The bytes of rows.
    rows["namespaces"] = [row[:-1] for row in rows["namespaces"]]
    for name in ("tenants", "namespaces"):
        assert {row[-1] for row in rows[name]} == {0}  # The bytes of traces that were added.
    for name in ("snapshots", "tenants", "namespaces"):
        rows[name] = [row[:-1] for row in rows[name]]
    for name in SEALED:
        assert {row[-1] for row in rows[name]} <= {None}  # Nothing has been written since.
        rows[name] = [row[:-1] for row in rows[name]]
    rows["tasks"] = [row[:-2] for row in rows["tasks"]]
    present = Counter(row[0] for row in rows["sessions"] if row[13])
    assert {row[0]: row[-1] for row in rows["namespaces"] if row[-1]} == present
    assert rows.pop("lagging_memories") == []
    # What is remembered became a plane, of which nothing is in a snapshot yet.
    there = [row for row in rows["memories"] if row[13] is None]
    assert {row[1:] for row in rows["pending"] if row[1] == "memories"} == {
        ("memories", row[2].encode(), IN_ROW, 10) for row in there
    }
    rows["pending"] = [row for row in rows["pending"] if row[1] != "memories"]
    for at, row in enumerate(rows["namespaces"]):
        texts = [memory[16].encode() for memory in there if memory[1] == row[0]]
        size = (row[8] - len(texts), row[9] - sum(map(len, texts)))
        rows["namespaces"][at] = (*row[:8], *size, *row[10:])
    journal = rows.pop("journal")
    # The stream, and the format: what came since are versions, turns and where the chains ended.
    assert {row[1:5:2] for row in journal if row[4] == "done"} == {(0, 0)}
    assert {row[4] for row in journal} == {"done", "kept", "anchor"}
    done = [row for row in journal if row[4] == "done"]
    kept = {(row[1], row[2]): row for row in journal if row[4] == "kept"}
    old = {**rows, "traces": [(*r[:3:2], *r[5:13], *r[15:18], *r[19:21]) for r in done]}
    for name, more in {
        "tenants": 2,
        "namespaces": 10,
        "event_ends": 2,
        "sessions": 2,
        "branches": 1,
    }.items():
        old[name] = [row[:-more] for row in rows[name]]
    old["turns"] = [row[:-4] for row in rows["turns"]]
    old["versions"] = []
    for *row, trace_id, created_at, number, _salt, _seal in rows["versions"]:
        by = kept[row[0], number]
        why = json.loads(by[17]).get("reasoning")
        old["versions"].append((*row, why, by[15], trace_id, created_at))
    return {name: sorted(each, key=repr) for name, each in old.items()}


def test_an_old_vault_is_carried_on_with_all_that_it_had(old: Old, tmp_path: Path) -> None:
    before = old.rows()
    with closing(old.open()) as catalog:
        vault = vault_of(catalog, tmp_path / "packs")
        check_it_is_whole(vault)
        after = old.rows()
        assert [row[0] for row in after.pop("migrations")] == NOW
        assert sorted(row[0] for row in before.pop("migrations")) == [*range(1, 16)]
        ends = before.pop("trace_ends")
        assert carried_back(after) == {n: sorted(rows, key=repr) for n, rows in before.items()}
        # The tenant's chain goes through what was its end, ...
        for tenant, end in zip((vault, vault.tenant("acme")), sorted(ends), strict=True):
            anchor = f"{end[1]}:{end[2].hex()}"
            assert tenant.verify_audit(anchor=anchor).ok
        # ... and life goes on, with ids that nothing had.
        audited = vault.verify_audit()
        vault.namespace("alice").snapshot("carried on")
        vault.namespace("alice").sessions.update_state("talk", {"step": 3})
        vault.namespace("carol").files.write("a", "b")
        assert vault.verify_audit().ok
        assert vault.verify_audit() != audited
        assert vault.verify().ok


def test_an_old_snapshot_leaves_alone_what_is_remembered_and_says_so(
    old: Old, tmp_path: Path
) -> None:
    with closing(old.open()) as catalog:
        vault = vault_of(catalog, tmp_path / "packs")
        alice = vault.namespace("alice")
        (first,) = (each for each in alice.timeline() if each.label == "first")
        alice.memory.add("a younger memory")
        there = alice.memory.list()
        for restored in (
            alice.restore(first, dry_run=True),
            alice.restore(first),
            alice.restore(first, planes=["memories"]),
        ):
            assert restored.left_alone == [Plane.MEMORIES]
            assert restored.changes.count(plane=Plane.MEMORIES) == 0
            assert restored.dry_run or restored.verified
        assert alice.memory.list() == there
        assert alice.undo().left_alone == []
        assert alice.restore(first, planes=["files", "store", "sessions"]).left_alone == []
        # A snapshot of now knows of them, also where there are none.
        now, bob = alice.snapshot(), vault.tenant("acme").namespace("bob")
        alice.memory.add("the youngest")
        alice.restore(now)
        assert alice.memory.list() == there
        none = bob.snapshot()
        bob.memory.add("of bob")
        assert bob.restore(none).left_alone == []
        assert bob.memory.list() == []
        # A fork of an old snapshot has none, and goes its own way.
        fork = alice.fork("then", at=first)
        assert fork.memory.list() == []
        fork.memory.add("in the fork")
        alice.merge(fork)
        assert len(alice.memory.list()) == len(there) + 1
        assert vault.verify().ok
        assert vault.tenant("acme").verify().ok


def test_what_an_old_snapshot_holds_travels_in_an_archive_without_memories(
    old: Old, tmp_path: Path
) -> None:
    with closing(old.open()) as catalog:
        alice = vault_of(catalog, tmp_path / "packs").namespace("alice")
        (first,) = (each for each in alice.timeline() if each.label == "first")
        there = alice.memory.list()
        alice.export(tmp_path / "then.tar", snapshot=first)
        imported = alice.import_(tmp_path / "then.tar")
        assert imported.manifest.format == 1
        assert imported.verified
        assert alice.memory.list() == there
        assert not alice.diff(first, planes=["files", "store"])


def test_the_first_undo_in_an_old_vault_takes_something_back(old: Old, tmp_path: Path) -> None:
    with closing(old.open()) as catalog:
        bob = vault_of(catalog, tmp_path / "packs").tenant("acme").namespace("bob")
        bob.files.write("more.txt", "1")
        assert bob.undo().changes.of("removed") == ["more.txt"]


def test_the_tables_of_an_old_vault_become_those_of_a_new_one(old: Old) -> None:
    old.open_new().close()
    old.open().close()
    assert old.tables() == old.tables(new=True)


def test_dying_at_any_step_leaves_the_old_vault_or_the_new_one(old: Old, tmp_path: Path) -> None:
    before, deaths = old.rows(), 0
    for fuse in fuses():
        old.start_afresh()
        with fuse:
            old.open(one_of_each(fuse.step, words=old.words)).close()
        if fuse.blown:
            assert old.rows() == before
            old.open().close()
        deaths += fuse.blown
        applied = [row[0] for row in old.rows()["migrations"]]
        assert applied == NOW
    with closing(old.open()) as catalog:
        check_it_is_whole(vault_of(catalog, tmp_path / "packs"))
    statements = [each for migration in load_migrations("sqlite") for each in migration.statements]
    assert deaths > (len(statements) if old.words is None else 10)


CHANGES = [
    "CREATE INDEX more ON packs (created_at)",
    "DROP INDEX namespaces_live",
    "ALTER TABLE packs ADD COLUMN more INTEGER",
    "ALTER TABLE packs RENAME COLUMN writer TO author",
    'ALTER TABLE retired ALTER COLUMN name TYPE TEXT COLLATE "default"',
]


def test_the_comparison_of_tables_can_fail(postgres_url: str, tmp_path: Path) -> None:
    SqliteCatalog(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as connection:
        tables = sqlite_tables(connection)
        for change in CHANGES[:-1]:
            connection.execute("BEGIN")
            connection.execute(change)
            assert sqlite_tables(connection) != tables
            connection.rollback()
    with psycopg.connect(postgres_url, options="-c search_path=holdfast") as connection:
        tables = postgres_tables(connection)
        for change in CHANGES:
            connection.execute(cast("LiteralString", change))
            assert postgres_tables(connection) != tables
            connection.rollback()


# Backups


def test_a_backup_of_an_old_vault_comes_back(
    files: Path, tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.dsn(postgres.create_database())
    holdfast.reinstate(files / "backup", url, objects=tmp_path / "packs")
    with closing(PostgresCatalog(url)) as catalog:
        check_it_is_whole(vault_of(catalog, tmp_path / "packs"))
    new = postgres.dsn(postgres.create_database())
    PostgresCatalog(new).close()
    tables = []
    for each in (url, new):
        with psycopg.connect(each, options="-c search_path=holdfast") as connection:
            tables.append(postgres_tables(connection))
    assert tables[0] == tables[1]


@pytest.mark.parametrize("number", [14, 16, 26])
def test_a_backup_that_is_older_than_we_know_is_refused(
    files: Path, tmp_path: Path, postgres: PostgresServer, number: int
) -> None:
    url = postgres.dsn(postgres.create_database())
    path = files / "backup" / "backup.json"
    manifest = decode_manifest(path.read_bytes())
    catalog = msgspec.structs.replace(manifest.catalog, migrations=number)
    path.write_bytes(msgspec.structs.replace(manifest, catalog=catalog).encode())
    with pytest.raises(VaultTooOld, match=f"the backup's catalog has format {number}") as raised:
        holdfast.reinstate(files / "backup", url, objects=tmp_path / "packs")
    assert isinstance(raised.value, Incompatible)
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT to_regnamespace('holdfast') IS NULL").fetchone()
    assert found == (True,)
    assert not (tmp_path / "packs").exists()
