"""Directories that are moved: known again with bounded work, whatever was there before."""

import shutil
from pathlib import Path

import pytest

import holdfast
from holdfast.workspace.identity import resembles
from holdfast.workspace.statindex import Folder, Row, StatIndex


class CountedIndex:
    """An index that counts how often it was asked."""

    def __init__(self, index: StatIndex) -> None:
        self._index = index
        self.asked = 0

    def find(self, path: bytes) -> Folder | None:
        self.asked += 1
        return self._index.find(path)


def index_of(folder: bytes, names: list[str], *, size: int) -> CountedIndex:
    rows = tuple(
        Row(name.encode(), mode=0o100644, size=size, mtime_ns=1, ctime_ns=1, ino=1, dev=1, nlink=1)
        for name in sorted(names)
    )
    made = Folder(folder, 0o40755, 1, 1, 1, 1, rows, ())
    return CountedIndex(StatIndex.empty().replacing({folder: made}, meta=b""))


@pytest.mark.parametrize(("size", "is_alike"), [(3, True), (4, False)])
def test_a_folder_of_many_files_is_looked_up_once(
    tmp_path: Path, size: int, is_alike: bool
) -> None:
    names = [f"file-{number}" for number in range(50)]
    for name in names:
        (tmp_path / name).write_bytes(b"abc")
    index = index_of(b"", names, size=size)
    assert resembles(tmp_path, index) is is_alike  # pyright: ignore[reportArgumentType] - a fake
    assert index.asked == 1


def test_a_directory_without_files_is_like_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert resembles(tmp_path, StatIndex.empty()) is None


def test_a_moved_directory_takes_the_place_of_what_a_crash_has_left(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    new.mkdir()
    with holdfast.open(tmp_path / "vault") as vault:
        vault.workspace(new).close()
        vault.detach(new)
        (state,) = (tmp_path / "vault" / "workspaces").iterdir()
        (state / "attachment.json.tmp").write_bytes(b"{")
        shutil.rmtree(new)
        old.mkdir()
        (old / "a.txt").write_text("a")
        with vault.workspace(old) as workspace:
            workspace.snapshot("before")
        old.rename(new)
        found = vault.find_workspace(new)
        assert found is not None
        with found as workspace:
            assert workspace.moved_from == old
            assert [each.label for each in workspace.namespace.timeline()] == ["before"]
