"""A snapshot is found by its id or a beginning of it; what is none takes no whole timeline."""

import sqlite3
from pathlib import Path

import pytest

import holdfast
from holdfast.catalog.driver import Row
from holdfast.catalog.sqlite_driver import SqliteDriver
from holdfast.errors import SnapshotNotFound
from holdfast.ids import IdMaker


def test_only_a_whole_id_that_nothing_has_is_looked_for_past_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, run, one = list[str](), SqliteDriver._run, SqliteDriver.one

    def note(driver: SqliteDriver, name: str, given: dict[str, object], /) -> sqlite3.Cursor:
        asked.append(name)
        return run(driver, name, given)

    def note_one(driver: SqliteDriver, name: str, /, **given: object) -> Row | None:
        asked.append(name)
        return one(driver, name, **given)

    with holdfast.open(tmp_path) as vault:
        agent = vault.namespace("alice")
        agent.files.write("a.txt", "1")
        made = agent.snapshot()
        monkeypatch.setattr(SqliteDriver, "_run", note)
        monkeypatch.setattr(SqliteDriver, "one", note_one)
        assert agent.get_snapshot(made.id).id == made.id
        assert "find_snapshot" in asked
        with pytest.raises(SnapshotNotFound):
            agent.get_snapshot(IdMaker().snapshot())
        assert "near_snapshot" in asked
        assert "find_snapshots_by_prefix" not in asked
        asked.clear()
        for name in (made.id[:-1], made.id.removeprefix("snap-")[:6]):
            assert agent.get_snapshot(name).id == made.id
        for name in ("nothing", "snap-1", "", f"{made.id}a", made.id.upper()):
            with pytest.raises(SnapshotNotFound):
                agent.get_snapshot(name)
        assert "find_snapshots_by_prefix" in asked
        assert "near_snapshot" not in asked
