"""An index that does not agree with its rows: named, made anew, and copied into no backup."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import psycopg
import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.engine.backups.manifest import MANIFEST_NAME, decode_manifest, hash_of
from holdfast.errors import Damaged
from holdfast.testing.flips import flip_in_index

pytestmark = pytest.mark.in_memory

EACH = range(5)


def fill(vault: holdfast.Holdfast) -> list[str]:
    agent = vault.namespace("alice")
    for number in range(5):
        agent.files.write("a.txt", f"version {number}")
        agent.snapshot(f"number {number}")
    return [each.id for each in agent.timeline()]


def run(folder: Path, *arguments: str) -> int:
    return main(["--data", str(folder), *arguments])


@pytest.mark.parametrize("at", EACH)
def test_a_flipped_bit_in_an_index_is_named_and_mended(
    tmp_path: Path, at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "vault"
    with holdfast.open(folder) as vault:
        ids = fill(vault)
    flip_in_index(folder / "catalog.sqlite", ids[at].encode(), index="sqlite_autoindex_snapshots_1")
    with holdfast.open(folder) as vault:
        assert any("sqlite_autoindex_snapshots_1" in each.reason for each in vault.verify().faults)
        with pytest.raises(Damaged, match="was not backed up"):
            vault.backup(tmp_path / "backup")
    assert run(folder, "doctor") == 1
    assert "rows and indexes do not agree" in capsys.readouterr().out
    assert run(folder, "repair") == 0
    assert "Made indexes of the catalog anew" in capsys.readouterr().out
    with holdfast.open(folder) as vault:
        assert vault.verify().ok
        assert [vault.namespace("alice").at(each).files.read("a.txt") for each in ids]
        vault.backup(tmp_path / "backup")
    holdfast.reinstate(tmp_path / "backup", tmp_path / "again")
    with holdfast.open(tmp_path / "again") as again:
        assert [again.namespace("alice").at(each).files.read("a.txt") for each in ids]
        assert again.verify().ok


def test_a_backup_whose_index_is_damaged_comes_back_with_a_sound_one(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        ids = fill(vault)
        vault.backup(tmp_path / "backup")
    # As somebody made it who did not look.
    manifest = decode_manifest((tmp_path / "backup" / MANIFEST_NAME).read_bytes())
    rows = tmp_path / "backup" / manifest.catalog.file
    flip_in_index(rows, ids[2].encode(), index="sqlite_autoindex_snapshots_1")
    catalog = msgspec.structs.replace(manifest.catalog, hash=hash_of(rows.read_bytes()))
    made = msgspec.structs.replace(manifest, catalog=catalog)
    (tmp_path / "backup" / MANIFEST_NAME).write_bytes(made.encode())
    holdfast.reinstate(tmp_path / "backup", tmp_path / "again")
    with holdfast.open(tmp_path / "again") as again:
        assert [again.namespace("alice").at(each).files.read("a.txt") for each in ids]
        assert again.verify().ok


def test_rows_that_are_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "vault"
    with holdfast.open(folder) as vault:
        fill(vault)
        count = len(vault.traces.list(limit=100))
    path = folder / "catalog.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'journal'"
        (root,) = connection.execute(query).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    # The places of two cells of a page change places: so their rows do.
    at = (root - 1) * size + 8
    data[at : at + 2], data[at + 2 : at + 4] = data[at + 2 : at + 4], data[at : at + 2]
    path.write_bytes(data)
    with holdfast.open(folder) as vault:
        assert not vault.verify().ok
        assert vault.repair().reindexed
        assert vault.verify().ok
        assert len(vault.traces.list(limit=100)) == count


@pytest.fixture(params=[True, False], ids=["amcheck", "compared"])
def break_index(request: pytest.FixtureRequest, postgres_url: str) -> Callable[[], None]:
    """Returns what lets an index miss the rows that are written while it is called."""

    def damage() -> None:
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            if request.param:
                admin.execute("CREATE EXTENSION amcheck")
            admin.execute(
                "CREATE TABLE kept AS SELECT * FROM holdfast.snapshots WHERE number = 3;"
                "DELETE FROM holdfast.snapshots WHERE number = 3;"
                "UPDATE pg_index SET indisready = false"
                " WHERE indexrelid = 'holdfast.snapshots_pkey'::regclass"
            )
            admin.execute("INSERT INTO holdfast.snapshots SELECT * FROM kept; DROP TABLE kept")
            admin.execute(
                "UPDATE pg_index SET indisready = true"
                " WHERE indexrelid = 'holdfast.snapshots_pkey'::regclass"
            )

    return damage


def test_an_index_of_a_database_that_lacks_a_row_is_named_and_made_anew(
    break_index: Callable[[], None], postgres_url: str, tmp_path: Path
) -> None:
    with holdfast.open(postgres_url, objects=tmp_path / "packs") as vault:
        ids = fill(vault)
        assert vault.verify().ok
        break_index()
        assert any("snapshots_pkey" in each.reason for each in vault.verify().faults)
        with pytest.raises(Damaged, match="snapshots_pkey"):
            vault.backup(tmp_path / "backup")
        done = vault.repair()
        assert done.ok
        assert done.reindexed == 1
        assert vault.verify().ok
        assert [vault.namespace("alice").at(each).files.read("a.txt") for each in ids]
        vault.backup(tmp_path / "backup")


@pytest.mark.parametrize("table", ["anchored", "tasks", "packs"])
@pytest.mark.parametrize("bit", [2, 5])
def test_what_is_found_beyond_the_last_row_of_a_page_is_no_row(
    tmp_path: Path, table: str, bit: int
) -> None:
    with holdfast.open(tmp_path) as vault:
        agent = vault.namespace("alice")
        with agent.task("one of them"):
            agent.files.write("a.txt", "kept")
        assert vault.verify().ok
    path = tmp_path / "catalog.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        kept = connection.execute(f"SELECT * FROM {table}").fetchall()
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (root,) = connection.execute(query, (table,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(path.read_bytes())
    data[(root - 1) * size + 4] ^= 1 << bit  # How many rows the page has.
    path.write_bytes(data)
    with holdfast.open(tmp_path) as vault:
        done = vault.repair()
        assert (done.lost, done.damaged) == ([], ())
        assert vault.verify().ok
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(f"SELECT * FROM {table}").fetchall() == kept
