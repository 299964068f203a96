"""What cannot be put right is named, noted in the chain, and carried by backups."""

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.errors import Damaged, Incompatible
from holdfast.testing.damaged import Kept
from holdfast.testing.flips import PostgresFlips, SqliteFlips, fill, look, open_at
from holdfast.testing.mending import BROKEN, CLEAN, repair_after

pytestmark = pytest.mark.in_memory

OF_ALICE = "number = 2 AND stream = (SELECT id FROM namespaces WHERE name = 'alice')"


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place outside of every vault."""
    return tmp_path_factory.mktemp("elsewhere")


def two(kept: Kept) -> holdfast.Namespace:
    agent = kept.vault.namespace("alice")
    agent.files.write("a.txt", "one")
    agent.snapshot("first", reason="a reason of some length")
    agent.files.write("a.txt", "two")
    agent.snapshot("second", reason="another reason")
    return agent


@pytest.mark.parametrize(
    "column", ["details", "action", "hash", "previous", "created_at", "salt", "id", "number"]
)
def test_a_flipped_bit_of_a_trace_is_put_back(kept: Kept, column: str) -> None:
    agent = two(kept)
    before = agent.traces.list()
    kept.flip("journal", column, bit=4, where=OF_ALICE)
    assert not kept.vault.verify().ok
    done = kept.vault.repair()
    assert (done.ok, done.mended) == (True, 1)
    assert kept.vault.verify().ok
    assert kept.vault.verify_audit().ok
    assert agent.traces.list() == before


@pytest.mark.parametrize("column", ["journal_hash", "journal_number"])
@pytest.mark.parametrize("table", ["namespaces", "tenants"])
def test_a_flipped_bit_of_where_a_chain_ends_is_put_back(
    kept: Kept, table: str, column: str
) -> None:
    agent = two(kept)
    kept.vault.verify_audit()  # Which leaves an anchor in the tenant's own chain.
    kept.flip(table, column, bit=5)
    assert not kept.vault.verify().ok
    assert kept.vault.repair().ok
    assert kept.vault.verify().ok
    agent.snapshot("goes on")
    assert kept.vault.verify_audit().ok


def test_a_trace_that_is_lost_is_named_noted_and_carried(kept: Kept, elsewhere: Path) -> None:
    agent = two(kept)
    kept.vault.backup(elsewhere / "backup")
    kept.break_row("journal", "details", where=OF_ALICE)
    with pytest.raises(Damaged, match="was not backed up"):
        kept.vault.backup(elsewhere / "backup")
    done = kept.vault.repair()
    assert not done.ok
    assert any("journal of alice: trace 2" in each.what for each in done.lost)
    found = kept.vault.verify()
    assert not found.ok
    assert found.is_noted
    report = kept.vault.verify_audit()
    assert not report.ok
    assert [each.is_noted for each in report.problems] == [True]
    made = kept.vault.backup(elsewhere / "backup")
    assert len(made.damage) == 1
    assert "trace 2" in made.damage[0]
    # Once more changes nothing, and notes nothing.
    notes = len(kept.vault.traces.list(action="tenant.damage_noted"))
    kept.vault.repair()
    assert len(kept.vault.traces.list(action="tenant.damage_noted")) == notes == 1
    # What is changed since is new, and so is another one.
    kept.flip("journal", "details", bit=3, where=OF_ALICE)
    assert not kept.vault.verify().is_noted
    assert agent.files.read("a.txt") == b"two"


def test_a_backup_with_known_damage_comes_back_with_it(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        kept = Kept(tmp_path / "vault", vault, lambda: vault)
        two(kept)
        kept.break_row("journal", "details", where=OF_ALICE)
        vault.repair()
        vault.backup(tmp_path / "backup")
    back = holdfast.reinstate(tmp_path / "backup", tmp_path / "again")
    assert len(back.damage) == 1
    assert main(["--data", str(tmp_path / "again"), "verify"]) == 6


def test_what_an_earlier_backup_may_hold_is_not_overwritten(kept: Kept, elsewhere: Path) -> None:
    two(kept)
    kept.vault.backup(elsewhere / "backup")
    kept.break_row("snapshots", "label", where="number = 1")
    done = kept.vault.repair()
    assert any("snapshot" in each.what for each in done.lost)
    with pytest.raises(Damaged, match="may hold what this vault has lost"):
        kept.vault.backup(elsewhere / "backup")
    assert kept.vault.backup(elsewhere / "another").damage
    assert kept.vault.backup(elsewhere / "another").damage


def test_text_that_is_none_any_more_is_put_back(tmp_path: Path) -> None:
    with holdfast.open(tmp_path) as vault:
        kept = Kept(tmp_path, vault, lambda: vault)
        agent = two(kept)
        (second, _) = agent.timeline()
        for table, column, where in (
            ("snapshots", "id", "number = 2"),
            ("snapshots", "label", "number = 1"),
            ("journal", "details", OF_ALICE),
        ):
            ((old,),) = kept.sql(f"SELECT CAST({column} AS BLOB) FROM {table} WHERE {where}")
            new = bytes([old[0], old[1] ^ 0x80, *old[2:]])
            kept.sql(f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE {where}", new)
        assert not vault.verify().ok
        done = vault.repair()
        assert (done.ok, done.mended) == (True, 3)
        assert vault.verify().ok
        assert agent.timeline()[0] == second


def test_a_schema_that_is_damaged_names_the_backup_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with holdfast.open(tmp_path) as vault:
        two(Kept(tmp_path, vault, lambda: vault))
    path = tmp_path / "catalog.sqlite"
    data = bytearray(path.read_bytes())
    data[data.index(b"root BLOB", data.index(b"CREATE TABLE snapshots"))] ^= 1
    path.write_bytes(data)
    assert main(["--data", str(tmp_path), "verify"]) == 5
    said = capsys.readouterr().out
    assert "holdfast reinstate BACKUP NEWDIR" in said
    assert "holdfast repair" not in said


def test_rows_of_a_database_do_not_go_into_a_directory(postgres_url: str, tmp_path: Path) -> None:
    with holdfast.open(postgres_url, objects=tmp_path / "packs") as vault:
        vault.namespace("alice").snapshot()
        vault.backup(tmp_path / "backup")
    with pytest.raises(Incompatible) as caught:
        holdfast.reinstate(tmp_path / "backup", tmp_path / "again")
    assert "Name a database" in caught.value.hint
    assert "Upgrade" not in caught.value.hint


def test_after_a_repair_nothing_is_damaged_that_was_not_named_sqlite(tmp_path: Path) -> None:
    with open_at(str(tmp_path / "vault"), tmp_path) as vault:
        fill(vault)
        before = look(vault)
    flips = SqliteFlips(tmp_path / "vault", Random(7))
    seen = [repair_after(before, flips.flip(), flips.location, flips.objects) for _ in range(15)]
    assert [each for each in seen if each.outcome == BROKEN] == []
    assert any(each.outcome == CLEAN for each in seen)


def test_after_a_repair_nothing_is_damaged_that_was_not_named_postgres(
    postgres_url: str, tmp_path: Path
) -> None:
    with open_at(postgres_url, tmp_path) as vault:
        fill(vault)
        before = look(vault)
    with closing(PostgresFlips(postgres_url, tmp_path, Random(7))) as flips:
        seen = [
            repair_after(before, flips.flip(table), flips.location, flips.objects)
            for table in ("journal", "snapshots", "tasks")
        ]
    assert [each for each in seen if each.outcome == BROKEN] == []
