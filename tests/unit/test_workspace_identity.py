"""Directories that are moved: known again with bounded work, whatever was there before."""

import shutil
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import DirectoryReplaced


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
