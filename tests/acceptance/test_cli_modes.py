"""Permissions, as somebody types it: what differs in them, and what may not be read or entered."""

import os
import stat
from pathlib import Path

import pytest

from .test_cli import Session, without_rights

pytestmark = pytest.mark.in_memory


@pytest.fixture
def project(tmp_path: Path, warm: tuple[str, ...]) -> Session:
    user = Session(tmp_path, warm)
    user.write("src/deep/a.txt", "a\n")
    (user.project / "empty").mkdir()
    user.ok("init")
    return user


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def changes(project: Session, *argv: str) -> list[tuple[str, str]]:
    found = project(*(argv or ("status",)), "--json", preexec_fn=without_rights).document
    return [(each["change"], each["path"]) for each in found["changes"]]


# A directory that is what it was, but for its mode


def test_a_directory_whose_mode_alone_changed_has_changed(project: Session) -> None:
    (project.project / "src").chmod(0o700)
    assert changes(project) == changes(project, "diff") == [("changed", "src")]
    assert "~ src/" in project.ok("status").out
    assert project.ok("diff").out == "Directory src changed: mode 755 -> 700\n"
    project.ok("snapshot")
    (project.project / "src").chmod(0o755)
    assert changes(project) == [("changed", "src")]
    assert "1 changed, verified" in project.ok("undo").out
    assert mode_of(project.project / "src") == 0o700
    steps = project.ok("log", "src", "--json").document["steps"]
    assert [step["change"] for step in steps] == ["changed", "changed", "changed", "added"]


def test_a_directory_that_is_filled_or_emptied_neither_comes_nor_goes(project: Session) -> None:
    project.write("empty/new.txt", "new\n")
    (project.project / "src/deep/a.txt").unlink()
    expected = [("added", "empty/new.txt"), ("removed", "src/deep/a.txt")]
    assert changes(project) == changes(project, "diff") == expected
    taken = project.ok("snapshot", "--json").document["snapshot_id"]
    done = project.ok("undo").out
    assert "1 added, 1 removed, verified" in done
    assert changes(project, "diff", taken, "@") == [
        ("removed", "empty/new.txt"),
        ("added", "src/deep/a.txt"),
    ]
    (project.project / "empty").rmdir()
    (project.project / "other").mkdir()
    assert changes(project) == [("removed", "empty"), ("added", "other")]


# What may not be read


def test_a_file_that_cannot_be_read_is_not_said_to_be_removed(project: Session) -> None:
    (project.project / "readme.md").chmod(0)
    project.write("src/app.py", "x = 2\n")
    assert changes(project) == changes(project, "diff") == [("changed", "src/app.py")]
    status = project("status", preexec_fn=without_rights).out
    assert "failed: readme.md (Permission denied)" in status
    assert "would be PARTIAL" in status
    assert "readme.md" not in project("diff", preexec_fn=without_rights).out
    steps = project("log", "readme.md", "--json", preexec_fn=without_rights).document["steps"]
    assert [step["change"] for step in steps] == ["added"]
    (project.project / "readme.md").unlink()
    assert changes(project) == [("removed", "readme.md"), ("changed", "src/app.py")]


def test_what_lies_in_a_directory_that_cannot_be_listed_is_not_said_to_be_removed(
    project: Session,
) -> None:
    (project.project / "src").chmod(0)
    assert changes(project) == changes(project, "diff") == [("changed", "src")]
    assert "failed: src (Permission denied)" in project("status", preexec_fn=without_rights).out
    (project.project / "src").chmod(0o755)
    assert changes(project) == []


def test_a_file_that_cannot_be_read_is_drift_all_the_same(project: Session) -> None:
    (project.project / "readme.md").chmod(0)
    done = project("restore", "@", "--refuse-drift", preexec_fn=without_rights)
    assert done.code == 4, done
    assert "readme.md" in done.err


# What may not be entered


def test_a_copy_with_a_directory_that_nobody_may_enter_is_verified(
    project: Session, tmp_path: Path
) -> None:
    (project.project / "src/deep").chmod(0o300)
    (project.project / "src").chmod(0o500)
    (project.project / "readme.md").chmod(0o200)
    (project.project / "empty").chmod(0)
    project.ok("snapshot")
    copy = tmp_path / "copy"
    done = project("restore", "@", "--to", str(copy), preexec_fn=without_rights)
    assert done.code == 0, done
    assert "verified\n" in done.out
    found = {path: mode_of(copy / path) for path in ("src", "src/deep", "readme.md", "empty")}
    assert found == {"src": 0o500, "src/deep": 0o300, "readme.md": 0o200, "empty": 0}
    assert (copy / "src/deep/a.txt").read_text() == "a\n"


def test_undo_and_redo_pass_a_directory_that_nobody_may_enter(project: Session) -> None:
    (project.project / "empty").chmod(0)
    project.ok("snapshot")
    for command in ("undo", "redo", "undo"):
        done = project(command, preexec_fn=without_rights)
        assert done.code == 0, (command, done)
        assert "verified" in done.out
        assert mode_of(project.project / "empty") == (0 if command == "redo" else 0o755)


@pytest.mark.parametrize("folder", [".", "src/deep"])
def test_a_directory_that_takes_no_writes_is_filled_and_keeps_its_mode(
    project: Session, folder: str
) -> None:
    place = project.project / folder
    (place / "lost.txt").write_text("lost\n")
    place.chmod(0o2555)
    project.ok("snapshot")
    wanted = project.files()
    (place / "lost.txt").unlink()
    done = project("undo", preexec_fn=without_rights)
    assert done.code == 0, done
    assert "1 added, verified" in done.out
    assert project.files() == wanted
    assert mode_of(place) == 0o2555


# Where nothing is meant


def test_a_restore_of_paths_that_match_nothing_is_refused_and_moves_nothing(
    project: Session,
) -> None:
    project.write("readme.md", "drift\n")
    before = project.ok("log", "--json").document
    for paths in (["nothing", "src/app.py/x"], ["no/such", "*.nothing"], ["[x]", "--dry-run"]):
        done = project("restore", "@", "--path", *paths)
        assert done.code == 3, done
        assert paths[0] in done.err
        assert "from the directory that you are in" in done.err
    assert project.ok("log", "--json").document == before
    assert (project.project / "readme.md").read_text() == "drift\n"
    for path in ("s*", ".", "src/deep/"):
        project.ok("restore", "@", "--path", path, "nothing", "--dry-run")
    assert "1 changed, verified" in project.ok("restore", "@", "--path", "readme.md").out
    (project.project / "new.txt").write_text("new\n")
    assert "1 removed, verified" in project.ok("restore", "@", "--path", "new*").out


def test_a_directory_that_is_refused_has_no_vault_made_among_its_files(
    tmp_path: Path, warm: tuple[str, ...]
) -> None:
    user = Session(tmp_path, warm)
    before = sorted(os.listdir(user.project))
    for data in (".", str(user.project), str(user.project.parent)):
        for more in ([], ["--force"]):
            done = user("--data", data, "init", *more)
            assert (done.code, user("--data", data, "status").code) == (4, 3), done
    assert sorted(os.listdir(user.project)) == before
    assert user("init", "/").code == 4
    assert not user.vault.exists()
    user.ok("--data", "own", "init")
    user.ok("--data", "own", "init")


def test_what_lies_in_a_vault_is_not_attached_even_by_force(project: Session) -> None:
    inside = project.vault / "packs"
    for place in (inside, project.vault):
        done = project("init", str(place), "--force", "--namespace", "other")
        assert done.code == 4, done
        assert "--force" not in done.err
    environ = {key: value for key, value in project.environ.items() if key != "HOLDFAST_DATA"}
    done = project("init", "--local", "--force", str(inside), env=environ)
    assert done.code == 4, done
    assert not (inside / ".holdfast").exists()
    assert len(project.ok("workspaces", "--json").document["workspaces"]) == 1
