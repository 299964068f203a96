"""A snapshot is found by its id or a beginning of it; what is none takes no whole timeline."""

from pathlib import Path

import pytest

import holdfast
from holdfast.catalog.driver import Row
from holdfast.catalog.sqlite_driver import SqliteDriver
from holdfast.errors import SnapshotNotFound
from holdfast.ids import IdMaker


def test_only_a_whole_id_that_nothing_begins_with_is_looked_for_past_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, one = list[str](), SqliteDriver.one

    def note(driver: SqliteDriver, name: str, /, **given: object) -> Row | None:
        asked.append(name)
        return one(driver, name, **given)

    with holdfast.open(tmp_path) as vault:
        agent = vault.namespace("alice")
        agent.files.write("a.txt", "1")
        made = agent.snapshot()
        monkeypatch.setattr(SqliteDriver, "one", note)
        for name in (made.id, made.id[:-1], made.id.removeprefix("snap-")[:6]):
            assert agent.get_snapshot(name).id == made.id
        for name in ("nothing", "snap-1", "", f"{made.id}a", made.id.upper()):
            with pytest.raises(SnapshotNotFound):
                agent.get_snapshot(name)
        assert "find_head" in asked  # So what is asked is noted.
        assert "is_on_timeline" not in asked
        with pytest.raises(SnapshotNotFound):
            agent.get_snapshot(IdMaker().snapshot())
        assert "is_on_timeline" in asked
