"""Vaults that lie in an attached directory: left out of its snapshots, and never rolled back.

Typed as people type it. An outer restore that took an inner vault for files would set it back
under the process that has it open, and what that one acknowledged would be nowhere.
"""

import json
import os
import select
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import CatalogReplaced, DirectoryRefused, Unavailable
from holdfast.testing.shells import environment
from holdfast.workspace import scan

pytestmark = pytest.mark.in_memory

NOT_FOUND = 3


class Shell:
    """Types commands in directories of one user."""

    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        self.command = command
        self.home = folder / "home"
        self.outer = folder / "outer"
        self.inner = self.outer / "in"
        for each in (self.home, self.inner):
            each.mkdir(parents=True)
        (self.outer / "a.txt").write_text("outer 1\n")
        (self.inner / "b.txt").write_text("inner 1\n")
        self.environ = environment(self.home)

    def __call__(self, folder: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.command, *argv],
            cwd=folder,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def ok(self, folder: Path, *argv: str) -> str:
        done = self(folder, *argv)
        assert done.returncode == 0, (argv, done)
        return done.stdout

    def json(self, folder: Path, *argv: str) -> Any:
        return json.loads(self.ok(folder, *argv, "--json"))

    def labels(self, folder: Path) -> list[str | None]:
        return [each["label"] for each in self.json(folder, "log")["snapshots"]]


@pytest.fixture
def shell(tmp_path: Path, warm: tuple[str, ...]) -> Iterator[Shell]:
    shell = Shell(tmp_path, warm)
    yield shell
    for folder in (shell.inner, shell.outer):
        if folder.is_dir():
            shell(folder, "watch", "--stop")


def test_an_outer_restore_leaves_an_inner_vault_and_its_watcher_alone(shell: Shell) -> None:
    shell.ok(shell.outer, "init", "--local")
    shell.ok(shell.inner, "init", "--local")
    shell.ok(shell.outer, "snapshot", "-m", "outer one")
    shell.ok(shell.inner, "watch", "--background", "--no-snapshots")
    for number in range(3):
        (shell.inner / "b.txt").write_text(f"inner {number + 2}\n")
        shell.ok(shell.inner, "snapshot", "-m", f"inner {number}")
    shell.ok(shell.outer, "restore", "@")
    assert (shell.inner / "b.txt").read_text() == "inner 1\n"
    for number in range(3, 6):
        shell.ok(shell.inner, "snapshot", "-m", f"inner {number}")
    shell.ok(shell.inner, "watch", "--stop")
    expected = [f"inner {number}" for number in reversed(range(6))]
    assert shell.labels(shell.inner)[:6] == expected
    shell.ok(shell.inner, "verify")
    shell.ok(shell.outer, "undo")
    assert (shell.inner / "b.txt").read_text() == "inner 4\n"
    assert shell.labels(shell.inner)[:6] == expected


def test_the_coverage_names_an_inner_vault_whatever_its_folder_is_called(shell: Shell) -> None:
    places = (shell.inner / ".holdfast", shell.outer / "my data", shell.outer / "deep/store")
    for place in places[:2]:
        holdfast.open(place).close()
    with holdfast.Store.open(places[2]) as store:
        store.set("a", "b", 1)
        done = shell.json(shell.outer, "init", "--local")
    excluded = {each["path"]: each["reason"] for each in done["coverage"]["excluded"]}
    for place in places:
        assert "vault" in excluded[place.relative_to(shell.outer).as_posix()], excluded
    assert done["coverage"]["captured"] == len(("a.txt", "in/b.txt"))


def test_a_folder_that_becomes_a_vault_is_no_longer_captured(tmp_path: Path) -> None:
    project, data = tmp_path / "project", tmp_path / "project/data"
    data.mkdir(parents=True)
    (data / "notes.txt").write_text("mine\n")
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(project) as workspace:
        workspace.snapshot("before")
        holdfast.open(data).close()
        names = {change.name for change in workspace.diff()}
        assert names == {"data/notes.txt"}, "it is left out with all that is in it"
        workspace.snapshot("after")
        assert not [n for n in workspace.namespace.files.list() if "catalog" in str(n)]
        shutil.rmtree(data)
        data.mkdir()
        (data / "notes.txt").write_text("again\n")
        assert {change.name for change in workspace.diff()} == {"data/notes.txt"}


def test_files_that_are_called_like_a_catalog_are_captured(tmp_path: Path) -> None:
    project = tmp_path / "project"
    names = ("db/catalog.sqlite", "db/packs/x", "locks/open", "ab/pack-1.pack", "locks/packs/x")
    for name in names:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("mine")
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(project) as workspace:
        workspace.snapshot()
        coverage = workspace.status().coverage
    assert (coverage.captured, coverage.excluded_count) == (len(names), 0)


@pytest.fixture
def captured_vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory whose first snapshot holds an inner vault as files, as earlier ones did."""
    project = tmp_path / "project"
    inner = project / "in"
    inner.mkdir(parents=True)
    with holdfast.open(inner / ".holdfast") as vault:
        vault.namespace("alice").snapshot("old")
    with monkeypatch.context() as patch:
        patch.setattr(scan, "is_vault", lambda *_: False)
        with holdfast.open(tmp_path / "vault") as vault, vault.workspace(project) as workspace:
            workspace.snapshot("with the vault")
    return project


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("is_ignored", [False, True])
def test_an_old_snapshot_that_holds_a_vault_does_not_overwrite_the_live_one(
    tmp_path: Path, captured_vault: Path, *, force: bool, is_ignored: bool
) -> None:
    inner = captured_vault / "in/.holdfast"
    if is_ignored:
        (captured_vault / ".holdfastignore").write_text("in\n")
    with (
        holdfast.open(tmp_path / "vault") as vault,
        vault.workspace(captured_vault) as workspace,
        holdfast.open(inner) as live,
    ):
        alice = live.namespace("alice")
        alice.snapshot("new")
        (captured_vault / "work.txt").write_text("work\n")
        preview = workspace.restore(workspace.namespace.timeline()[-1], dry_run=True)
        assert not [change.name for change in preview.changes if ".holdfast/" in change.name]
        done = workspace.restore(workspace.namespace.timeline()[-1], force=force)
        assert done.verified
        assert not (captured_vault / "work.txt").exists()
        workspace.undo(force=force)
        assert (captured_vault / "work.txt").read_text() == "work\n"
        alice.snapshot("newest")
    with holdfast.open(inner) as live:
        assert live.verify().ok
        found = [each.label for each in live.namespace("alice").timeline()]
        assert found == ["newest", "new", "old"]


def test_a_restore_never_removes_a_vault_that_the_snapshot_does_not_know(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(project) as workspace:
        before = workspace.snapshot("nothing here")
        (project / "in").mkdir()
        (project / "in/b.txt").write_text("b\n")
        with holdfast.open(project / "in/.holdfast") as live:
            done = workspace.restore(before, force=True)
            assert done.kept == ["in"]
            assert not (project / "in/b.txt").exists()
            live.namespace("alice").snapshot("kept")
    with holdfast.open(project / "in/.holdfast") as live:
        assert [each.label for each in live.namespace("alice").timeline()] == ["kept"]


def test_a_link_to_a_vault_does_not_keep_what_it_replaced_from_coming_back(
    tmp_path: Path,
) -> None:
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    for folder in ("direct", "below/inner"):
        (place / folder).mkdir(parents=True)
        (place / folder / "mine.txt").write_text(folder)
    holdfast.open(elsewhere / "inner").close()
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(place) as workspace:
        before = workspace.snapshot("before")
        for folder, aim in (("direct", elsewhere / "inner"), ("below", elsewhere)):
            shutil.rmtree(place / folder)
            (place / folder).symlink_to(aim)
        assert workspace.restore(before).verified
    assert (place / "direct" / "mine.txt").read_text() == "direct"
    assert (place / "below/inner/mine.txt").read_text() == "below/inner"
    assert not list(elsewhere.rglob("mine.txt"))


def test_a_very_deep_directory_comes_back(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    depth = 1500
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(place) as workspace:
        workspace.snapshot("empty")
        made = vault.namespace(workspace.namespace.name)
        made.files.write("d/" * depth + "leaf", b"here")
        deep = made.snapshot("deep")
        assert workspace.restore(deep).verified
        assert workspace.undo().verified
        assert not any(place.iterdir())


def test_packs_of_a_vault_in_a_database_are_left_alone(tmp_path: Path, postgres_url: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with (
        holdfast.open(tmp_path / "vault") as vault,
        vault.workspace(project) as workspace,
        holdfast.open(postgres_url, objects=project / "objects") as other,
    ):
        before = workspace.snapshot("before")
        other.namespace("alice").files.write("big.bin", os.urandom(400_000))
        workspace.snapshot("after")
        assert workspace.status().coverage.excluded_count == 1
        workspace.restore(before, force=True)
        assert other.verify().ok


def test_a_vault_cannot_be_attached(tmp_path: Path) -> None:
    holdfast.open(tmp_path / "other").close()
    with holdfast.open(tmp_path / "vault") as vault:
        for folder in ("other", "other/packs"):
            with pytest.raises(DirectoryRefused, match="vault"):
                vault.workspace(tmp_path / folder)


def test_init_remarks_that_directories_lie_in_each_other(shell: Shell) -> None:
    assert "lies in" not in shell(shell.outer, "init", "--local").stderr
    inside = shell(shell.inner, "init", "--local")
    assert inside.returncode == 0
    assert f"lies in {shell.outer}" in inside.stderr
    other = shell.outer / "other"
    other.mkdir()
    assert f"lies in {shell.outer}" in shell(other, "init").stderr
    above = shell(shell.outer.parent, "init", "--local", "--force")
    assert above.returncode == 0, above
    for folder in ("outer/.holdfast", "outer/in/.holdfast"):
        assert folder in above.stderr


# A vault that is replaced under a process that has it open


def remove(vault: Path) -> None:
    shutil.rmtree(vault)


def replace_by_a_copy(vault: Path) -> None:
    copy = vault.with_name("copy")
    shutil.copytree(vault, copy, ignore=shutil.ignore_patterns("*.sock"))
    shutil.rmtree(vault)
    copy.rename(vault)


def replace_the_catalog(vault: Path) -> None:
    shutil.copy(vault / "catalog.sqlite", vault / "other")
    (vault / "other").rename(vault / "catalog.sqlite")


def remove_the_catalog(vault: Path) -> None:
    (vault / "catalog.sqlite").unlink()


def remove_the_log(vault: Path) -> None:
    (vault / "catalog.sqlite-wal").unlink()


def remove_the_index(vault: Path) -> None:
    (vault / "catalog.sqlite-shm").unlink()


def move(vault: Path) -> None:
    vault.rename(vault.with_name("moved"))


@pytest.mark.parametrize(
    "happens",
    [
        remove,
        replace_by_a_copy,
        replace_the_catalog,
        remove_the_catalog,
        remove_the_log,
        remove_the_index,
        move,
    ],
)
def test_a_process_whose_catalog_was_replaced_acknowledges_nothing_more(
    tmp_path: Path, happens: Callable[[Path], None]
) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        alice = vault.namespace("alice")
        alice.snapshot("before")
        happens(tmp_path / "vault")
        for _ in range(2):
            with pytest.raises((CatalogReplaced, Unavailable)):
                alice.snapshot("after")
            with pytest.raises((CatalogReplaced, Unavailable)):
                alice.files.write("a.txt", "after")
        with pytest.raises(CatalogReplaced):
            vault.check_current()


def test_a_catalog_that_was_set_back_under_a_process_is_noticed(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        alice = vault.namespace("alice")
        alice.snapshot("before")
        # As a tool does that writes an older state through SQLite itself.
        with sqlite3.connect(tmp_path / "vault/catalog.sqlite") as tool:
            tool.execute("UPDATE namespaces SET commits = 1")
        tool.close()
        with pytest.raises(CatalogReplaced, match="set back"):
            alice.snapshot("after")
        assert [each.label for each in alice.timeline()] == ["before"]


@pytest.mark.parametrize("happens", [remove, replace_by_a_copy, replace_the_catalog])
def test_a_watcher_whose_vault_was_replaced_answers_nobody_and_ends(
    shell: Shell, happens: Callable[[Path], None]
) -> None:
    shell.ok(shell.inner, "init", "--local")
    # With nothing to do for a while: what is copied holds still.
    started = shell.json(shell.inner, "watch", "--background", "--quiet-for", "60")
    process = started["process"]
    happens(shell.inner / ".holdfast")
    (shell.inner / "b.txt").write_text("changed\n")
    stopped = shell(shell.inner, "watch", "--stop")
    assert stopped.returncode in (0, NOT_FOUND), stopped
    assert "No such file" not in stopped.stderr
    wait_for_the_end(process)
    if happens is not remove:
        shell.ok(shell.inner, "snapshot", "-m", "by itself")
        assert shell.labels(shell.inner)[0] == "by itself"


def wait_for_the_end(process: int) -> None:
    """Waits for a process that is not our child; fails the test if it stays."""
    fd = os.pidfd_open(process)
    try:
        assert select.select([fd], [], [], 60)[0], "it is still there"
    finally:
        os.close(fd)
