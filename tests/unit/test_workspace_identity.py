"""Directories that are moved: known again with bounded work, whatever was there before."""

import errno
import os
import shutil
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.directory.directory import Directory
from holdfast.errors import DirectoryMissing, DirectoryReplaced, Unavailable


def attached(vault: holdfast.Holdfast, path: Path, files: dict[str, str]) -> None:
    fill(path, files)
    with vault.workspace(path) as workspace:
        workspace.snapshot("before")


def fill(path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)


THREE = {"a.py": "a = 1\n", "b.py": "b = 1\n", "c.py": "c = 1\n"}
LARGE = "".join(f"line {number}\n" for number in range(20_000))


@pytest.mark.parametrize(
    ("was", "there", "is_sure", "is_some"),
    [
        (THREE, THREE, True, True),
        (THREE, {**THREE, "new.py": "n"}, True, True),
        (THREE, {**THREE, **{f"n{n}": "n" for n in range(9)}}, True, True),
        ({**THREE, "d": LARGE}, {"a.py": "a = 1\n", "b.py": "b = 1\n", "d": LARGE}, True, True),
        (THREE, {"a.py": "a = 2\n", "b.py": "b = 2\n", "c.py": "c = 1\n"}, False, True),
        (dict.fromkeys("abc", "same"), dict.fromkeys("abc", "same"), False, True),
        (dict.fromkeys("abc", ""), dict.fromkeys("abc", ""), False, True),
        ({"f": "one", "g": "two"}, {"f": "one", "h": "other"}, False, True),
        (THREE, {"thesis.txt": "words"}, False, False),
        (THREE, {}, False, False),
    ],
)  # fmt: skip
def test_only_strong_evidence_says_that_a_directory_was_moved(
    tmp_path: Path, was: dict[str, str], there: dict[str, str], is_sure: bool, is_some: bool
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with holdfast.open(tmp_path / "vault") as vault:
        attached(vault, old, was)
        shutil.rmtree(old)
        new.mkdir()
        fill(new, there)
        assert [each.path for each in vault.find_origins(new)] == [old] * is_sure
        assert [each.path for each in vault.find_origins(new, is_sure=False)] == [old] * is_some


def test_a_directory_that_was_replaced_is_known_without_its_index(tmp_path: Path) -> None:
    old = tmp_path / "old"
    with holdfast.open(tmp_path / "vault") as vault:
        attached(vault, old, THREE)
        (state,) = (tmp_path / "vault" / "workspaces").iterdir()
        (state / "index").unlink()
        old.rename(tmp_path / "kept")
        fill(old, {"theirs.txt": "theirs", "more.txt": "more"})
        with pytest.raises(DirectoryReplaced) as refused, vault.workspace(old):
            pass
        assert refused.value.now_at == str(tmp_path / "kept")
        shutil.rmtree(old)
        shutil.copytree(tmp_path / "kept", old)
        with vault.workspace(old) as workspace:
            assert not workspace.status().changes


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


def test_a_directory_that_is_moved_to_where_a_detached_one_was_keeps_its_history(
    tmp_path: Path,
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with holdfast.open(tmp_path / "vault") as vault:
        attached(vault, new, {"other.txt": "other"})
        vault.detach(new)
        shutil.rmtree(new)
        attached(vault, old, THREE)
        old.rename(new)
        with vault.workspace(new) as workspace:
            assert workspace.namespace.name == "old"
            assert [each.label for each in workspace.namespace.timeline()] == ["before"]
            assert not workspace.status().changes
        # What was let go of is still to be had by its name.
        (tmp_path / "back").mkdir()
        with vault.workspace(tmp_path / "back", namespace="new") as workspace:
            assert workspace.namespace.timeline()


def test_a_detached_directory_that_is_still_there_goes_on_with_its_own_history(
    tmp_path: Path,
) -> None:
    new = tmp_path / "new"
    with holdfast.open(tmp_path / "vault") as vault:
        attached(vault, new, THREE)
        vault.detach(new)
        with vault.workspace(new) as workspace:
            assert workspace.namespace.name == "new"
            assert workspace.namespace.timeline()


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOENT, DirectoryMissing),
        (errno.ENOTDIR, DirectoryMissing),
        (errno.EACCES, Unavailable),
        (errno.EIO, Unavailable),
        (errno.ESTALE, Unavailable),
    ],
)
def test_only_a_directory_that_is_not_there_is_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    with holdfast.open(tmp_path / "vault") as vault:
        directory = Directory(vault._context, tmp_path, state)
        directory.refresh()

        def failing(_path: Path) -> object:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(Path, "lstat", failing)
        with pytest.raises(Unavailable) as caught:
            directory.refresh()
        monkeypatch.undo()
        assert type(caught.value) is kind
        directory.close()
