"""An undo, redo or restore that is interrupted half-way, and what a person does after it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

PROGRAM = """
import os, sys
from holdfast.cli.main import main
from holdfast.workspace.writing import Writer

carry_out = Writer.carry_out

def half(self, steps):
    carry_out(self, list(steps)[: len(steps) // 2])
    os.kill(os.getpid(), int(sys.argv[1]))

Writer.carry_out = half
sys.exit(main(sys.argv[2:]))
"""
"""The command itself, which gets a signal when half of a directory is written."""

COUNT = 20


class Place:
    def __init__(self, folder: Path) -> None:
        self.vault, self.project = folder / "vault", folder / "project"
        self.project.mkdir()
        for number in range(COUNT):
            (self.project / f"{number:02}.txt").write_text(f"{number}\n" * 100)
        self.good = self.files()

    def __call__(self, *argv: str, how: int | None = None) -> subprocess.CompletedProcess[str]:
        begin = ["-m", "holdfast.cli.main"] if how is None else ["-c", PROGRAM, str(how)]
        return subprocess.run(
            [sys.executable, *begin, "-C", str(self.project), "--data", str(self.vault), *argv],
            capture_output=True,
            text=True,
            check=False,
        )

    def ok(self, *argv: str) -> str:
        done = self(*argv)
        assert done.returncode == 0, done
        return done.stdout

    def is_interrupted(self, *argv: str, how: int) -> None:
        done = self(*argv, how=how)
        assert done.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130), done

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.project.iterdir())}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.ok("init", "-q")
    for number in range(COUNT):
        (made.project / f"{number:02}.txt").unlink()
    return made


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("first", ["status", "undo"])
def test_undo_after_an_interrupted_undo_leads_to_the_good_state(
    place: Place, how: int, first: str
) -> None:
    place.is_interrupted("undo", how=how)
    half = place.files()
    assert 0 < len(half) < COUNT

    told = place.ok(first)
    assert "An interrupted restore was taken back." in told
    if first == "status":
        assert place.files() == {}
        place.ok("undo")
    assert place.files() == place.good

    # Nothing was lost: what was half-written is there by its id, and redo goes forward.
    found = re.search(r"What it had left is in (snap-\w+): undo passes over it", told)
    assert found is not None
    place.ok("restore", found[1], "--to", str(place.project.parent / "half"))
    assert len(os.listdir(place.project.parent / "half")) == len(half)
    place.ok("redo")
    assert place.files() == {}
    place.ok("undo")
    assert place.files() == place.good


def test_what_puts_it_right_may_be_interrupted_as_often_as_one_likes(place: Place) -> None:
    place.is_interrupted("undo", how=signal.SIGKILL)
    for how in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL):
        place.is_interrupted("status", how=how)
    place.ok("status")
    assert place.files() == {}
    place.ok("undo")
    assert place.files() == place.good


def test_what_was_undone_can_be_redone_after_an_interrupted_redo(place: Place) -> None:
    place.ok("undo")
    place.is_interrupted("redo", how=signal.SIGKILL)
    assert 0 < len(place.files()) < COUNT
    place.ok("redo")
    assert place.files() == {}
    place.ok("undo")
    assert place.files() == place.good


def test_an_interrupted_restore_counts_for_nothing(place: Place) -> None:
    place.ok("snapshot", "-m", "all gone")
    place.is_interrupted("restore", "@-1", how=signal.SIGINT)
    place.ok("restore", "@-1", "--dry-run")
    assert place.files() == {}
    with holdfast.open(place.vault) as vault, vault.workspace(place.project) as workspace:
        done = workspace.undo()
        assert done.verified
    assert place.files() == place.good
