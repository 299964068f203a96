"""An undo, redo or restore that is interrupted half-way, and what a person does after it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

pytestmark = pytest.mark.in_memory

PROGRAM = """
import os, signal, sys
from holdfast.cli.main import main
from holdfast.workspace.writing import Writer

carry_out = Writer.carry_out

def half(self, steps):
    carry_out(self, list(steps)[: len(steps) // 2])
    os.kill(os.getpid(), int(sys.argv[1]))

Writer.carry_out = half
# Who runs this in the background may have it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main(sys.argv[2:]))
"""
"""The command itself, which gets a signal when half of a directory is written."""

COUNT = 20


class Place:
    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        self.command = command
        self.vault, self.project = folder / "vault", folder / "project"
        self.project.mkdir()
        for number in range(COUNT):
            (self.project / f"{number:02}.txt").write_text(f"{number}\n" * 100)
        self.good = self.files()

    def __call__(
        self, *argv: str, how: int | None = None, program: str = PROGRAM
    ) -> subprocess.CompletedProcess[str]:
        begun = self.command if how is None else (sys.executable, "-c", program, str(how))
        return subprocess.run(
            [*begun, "-C", str(self.project), "--data", str(self.vault), *argv],
            capture_output=True,
            text=True,
            check=False,
        )

    def ok(self, *argv: str) -> str:
        done = self(*argv)
        assert done.returncode == 0, done
        return done.stdout

    def is_interrupted(self, *argv: str, how: int, program: str = PROGRAM) -> None:
        done = self(*argv, how=how, program=program)
        assert done.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130), done

    def deep(self, folder: Path | None = None) -> dict[str, str]:
        """Returns all files with their paths."""
        top = folder or self.project
        found = [path for path in sorted(top.rglob("*")) if path.is_file()]
        return {str(path.relative_to(top)): path.read_text() for path in found}

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.project.iterdir())}


@pytest.fixture
def place(tmp_path: Path, warm: tuple[str, ...]) -> Place:
    made = Place(tmp_path, warm)
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

    done = place(first)
    assert done.returncode == 0, done
    told = done.stderr
    assert told.count("An interrupted restore was taken back.") == 1
    assert "An interrupted" not in done.stdout
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


def test_what_was_left_is_named_by_whoever_puts_it_right_in_the_end(place: Place) -> None:
    place.is_interrupted("undo", how=signal.SIGKILL)
    name = min(place.files())
    (place.project / name).write_text("edited half-way")
    at_once = PROGRAM.replace("carry_out(self, list(steps)[: len(steps) // 2])", "pass")
    place.is_interrupted("status", how=signal.SIGKILL, program=at_once)
    told = place("status").stderr
    found = re.search(rf"is in (snap-\w+): .* What had become of {name} is in that snapshot", told)
    assert found is not None, told
    place.ok("restore", found[1], "--to", str(place.project.parent / "half"))
    assert (place.project.parent / "half" / name).read_text() == "edited half-way"


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


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_part_of_a_snapshot_says_that_it_is_one(place: Place, how: int) -> None:
    copy = place.project.parent / "copy"
    place.is_interrupted("restore", "@", "--to", str(copy), how=how)
    (mark,) = copy.glob(".holdfast-checkout-unfinished")
    assert "This is a part of snap-" in mark.read_text()
    done = place("restore", "@", "--to", str(copy))
    assert done.returncode != 0
    assert "a part of a snapshot, which was not written to its end" in done.stderr
    shutil.rmtree(copy)
    place.ok("restore", "@", "--to", str(copy))
    assert sorted(place.deep(copy)) == sorted(place.good)


def test_a_folder_may_have_the_name_that_a_part_is_marked_with(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("a")
        agent.files.write(".holdfast-checkout-unfinished/x", "1")
        agent.checkout(tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == [
        ".holdfast-checkout-unfinished"
    ]


# What somebody did since


def work_on(place: Place) -> dict[str, str]:
    """Makes and changes files that no restore ever touched; returns what they are."""
    (place.project / "new.txt").write_text("my new work\n")
    (place.project / "folder").mkdir()
    (place.project / "folder" / "deep.txt").write_text("more of it\n")
    (place.project / "same.txt").write_text("edited since\n")
    return place.deep()


@pytest.fixture
def worked_on(tmp_path: Path, warm: tuple[str, ...]) -> Place:
    """A directory with a file that all snapshots have alike; everything else was deleted."""
    made = Place(tmp_path, warm)
    (made.project / "same.txt").write_text("alike\n")
    (made.project / "left.txt").write_text("alike\n")
    made.ok("init", "-q")
    for number in range(COUNT):
        (made.project / f"{number:02}.txt").unlink()
    made.good |= {"same.txt": "alike\n", "left.txt": "alike\n"}
    return made


MINE = {"new.txt": "my new work\n", "folder/deep.txt": "more of it\n", "same.txt": "edited since\n"}

COMMANDS = [
    ["snapshot", "-m", "my new work"],
    ["run", "--", "true"],
    ["status"],
    ["redo"],
    ["restore", "snap-none"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_was_made_since_an_interruption_stays_and_the_next_command_says_what_it_did(
    worked_on: Place, command: list[str]
) -> None:
    place = worked_on
    place.is_interrupted("undo", how=signal.SIGKILL)
    work_on(place)
    (place.project / "left.txt").unlink()
    done = place(*command)
    assert done.returncode == (3 if command[0] in ("redo", "restore", "undo") else 0), done
    assert place.deep() == MINE
    assert done.stderr.count("An interrupted restore was taken back.") == 1
    assert (
        "What was changed since stays: folder/deep.txt, left.txt, new.txt, same.txt." in done.stderr
    )
    found = re.search(r"What it had left is in (snap-\w+)", done.stderr)
    assert found is not None
    assert "found after an interrupted restore" in place.ok("show", found[1])
    again = place("status")
    assert "An interrupted" not in again.stdout + again.stderr
    place.ok("snapshot")
    copy = place.project.parent / "copy"
    place.ok("restore", "latest", "--to", str(copy))
    assert place.deep(copy) == MINE


def test_undo_after_an_interrupted_undo_leads_to_the_good_state_whatever_was_made_since(
    worked_on: Place,
) -> None:
    place = worked_on
    place.is_interrupted("undo", how=signal.SIGKILL)
    work_on(place)
    place.ok("undo")
    assert place.deep() == place.good
    place.ok("redo")
    assert place.deep() == MINE | {"left.txt": "alike\n"}
    place.ok("undo")
    assert place.deep() == place.good


def test_undo_after_a_refused_undo_leads_to_the_good_state_whatever_was_done_since(
    worked_on: Place,
) -> None:
    place = worked_on
    os.mkfifo(place.project / "00.txt")
    for _ in range(2):
        refused = place("undo")
        assert refused.returncode == 4, refused
        (place.project / "log.txt").write_text(f"still running {refused.stderr}")
    (place.project / "00.txt").unlink()
    left = place.deep()
    place.ok("undo")
    assert place.deep() == place.good
    place.ok("redo")
    assert place.deep() == left


def test_what_was_redone_is_gone_back_to(worked_on: Place) -> None:
    place = worked_on
    redone = place.deep()
    place.ok("undo")
    place.ok("redo")
    work_on(place)
    place.ok("undo")
    assert place.deep() == redone
    place.ok("undo")
    assert place.deep() == place.good


def test_what_was_made_since_stays_when_the_recovery_is_interrupted_as_well(
    worked_on: Place,
) -> None:
    place = worked_on
    place.is_interrupted("undo", how=signal.SIGKILL)
    work_on(place)
    for _ in range(3):
        place.is_interrupted("status", how=signal.SIGKILL)
    place.ok("status")
    assert place.deep() == MINE | {"left.txt": "alike\n"}


def test_what_was_made_since_stays_after_a_restore_of_some_paths(worked_on: Place) -> None:
    place = worked_on
    place.ok("snapshot")
    place.is_interrupted("restore", "@-1", "--path", "0*", how=signal.SIGKILL)
    work_on(place)
    place.ok("status")
    assert place.deep() == MINE | {"left.txt": "alike\n"}


def test_a_file_that_was_edited_while_it_is_half_way_is_kept_and_named(place: Place) -> None:
    place.is_interrupted("undo", how=signal.SIGKILL)
    name = min(place.files())
    (place.project / name).write_text("edited half-way")
    told = place("status").stderr
    found = re.search(rf"in (snap-\w+): .* What had become of {name} is in that snapshot", told)
    assert found is not None, told
    place.ok("restore", found[1], "--to", str(place.project.parent / "half"))
    assert (place.project.parent / "half" / name).read_text() == "edited half-way"
    assert place.files() == {}


def test_a_file_in_the_place_of_a_folder_that_comes_back_is_kept_and_named(
    tmp_path: Path, warm: tuple[str, ...]
) -> None:
    place = Place(tmp_path, warm)
    place.ok("init", "-q")
    for number in range(COUNT):
        (place.project / f"{number:02}.txt").unlink()
    (place.project / "later").mkdir()
    (place.project / "later" / "file").write_text("later")
    before = place.deep()
    place.is_interrupted("undo", how=signal.SIGKILL)
    shutil.rmtree(place.project / "later", ignore_errors=True)
    (place.project / "later").write_text("mine")
    told = place("status").stderr
    assert "What had become of later is in that snapshot alone." in told
    assert place.deep() == before


def test_json_says_on_stderr_what_was_put_right(place: Place) -> None:
    place.is_interrupted("undo", how=signal.SIGKILL)
    done = place("redo", "--json")
    first, error = (json.loads(line) for line in done.stderr.splitlines())
    assert first["recovered"].startswith("An interrupted restore was taken back.")
    assert error["error"]["code"] == "nothing_to_undo"
    assert done.stdout == ""
    place.is_interrupted("undo", how=signal.SIGKILL)
    done = place("snapshot", "--json", "-q")
    assert json.loads(done.stdout)["snapshot_id"]
    assert "recovered" in json.loads(done.stderr)


@pytest.mark.parametrize("command", [["undo"], ["restore", "@"], ["undo", "--json"]], ids=" ".join)
def test_ctrl_c_says_that_the_directory_is_half_way(place: Place, command: list[str]) -> None:
    done = place(*command, how=signal.SIGINT)
    assert done.returncode == 130
    (line,) = done.stderr.splitlines()
    assert line == (
        f"holdfast: interrupted: {place.project} is half-way; "
        "the next holdfast command puts it right"
    )
