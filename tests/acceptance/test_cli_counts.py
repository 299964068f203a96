"""Counts that commands tell are exact, however much changed; what is listed may be less."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.testing.shells import environment

pytestmark = pytest.mark.in_memory

MANY = 1_050
"""More than an answer lists."""


class Project:
    """A directory with many files, of which a snapshot was taken, and what became of it."""

    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        self.command = command
        self.path = folder / "project"
        self.path.mkdir()
        self.environ = environment(folder, HOLDFAST_DATA=str(folder / "vault"))

    def __call__(self, *argv: str) -> str:
        done = subprocess.run(
            [*self.command, *argv],
            capture_output=True,
            cwd=self.path,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            check=True,
        )
        return done.stdout.decode()

    def write(self, name: str, text: str = "x") -> None:
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


@pytest.fixture
def project(tmp_path: Path, warm: tuple[str, ...]) -> Project:
    project = Project(tmp_path, warm)
    for number in range(MANY):
        project.write(f"many/{number:04}")
    project.write("z-changed", "old")
    project.write("z-removed")
    project("init")
    shutil.rmtree(project.path / "many")
    project.write("z-changed", "new")
    (project.path / "z-removed").unlink()
    for number in range(3):
        project.write(f"z-new/{number}")
    return project


BACK = "1,051 added, 3 removed, 1 changed"
FORTH = "3 added, 1,051 removed, 1 changed"


def listed(told: str) -> int:
    return sum(line[:3] in ("  +", "  -", "  ~") for line in told.splitlines())


def test_undo_redo_and_restore_count_all_that_changed(project: Project) -> None:
    assert f"1,055 changes: {FORTH}" in project("status")
    planned = project("restore", "@", "--dry-run")
    assert f"would change: {BACK}\n" in planned
    assert (listed(planned), "… and 1,015 more\n" in planned) == (40, True)
    undone = project("undo")
    assert f"{BACK}, verified\n" in undone
    assert (listed(undone), "… and 1,015 more\n" in undone) == (40, True)
    redone = project("redo", "-v")
    assert f"{FORTH}, verified\n" in redone
    assert (listed(redone), "more" in redone) == (1_055, False)
    restored = json.loads(project("restore", "@-1", "--json"))
    assert restored["counts"] == {"added": 1_051, "removed": 3, "changed": 1}
    assert (len(restored["changes"]), restored["truncated"]) == (1_000, True)
    undone = json.loads(project("undo", "--json", "-v"))
    assert undone["counts"] == {"added": 3, "removed": 1_051, "changed": 1}
    assert (len(undone["changes"]), undone["truncated"]) == (1_055, False)


def test_what_is_left_alone_is_not_counted_wherever_it_comes(project: Project) -> None:
    """Files that the goal's rules leave out stay, also behind the last one that is listed."""
    project("undo")
    project.write(".holdfastignore", "zz-*\n")
    project("snapshot")
    (project.path / ".holdfastignore").unlink()
    shutil.rmtree(project.path / "many")
    for number in range(5):
        project.write(f"zz-{number}")
    told = "1,051 added"
    assert f"would change: {told}\n" in project("restore", "latest", "--dry-run")
    assert f": {told}, verified\n" in project("restore", "latest")
    assert (project.path / "zz-4").exists()


def test_a_snapshot_written_elsewhere_is_counted(project: Project, tmp_path: Path) -> None:
    assert ": 1,052 added, verified\n" in project("restore", "@", "--to", str(tmp_path / "copy"))
