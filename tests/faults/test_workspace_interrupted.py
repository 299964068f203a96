"""An undo, redo or restore that is interrupted half-way, and what a person does after it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
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


# What the timeline does meanwhile


def goes_on_by_api(place: Place, act: Callable[[holdfast.Namespace], object]) -> None:
    """Does something in the namespace, before anybody looks at the directory."""
    with holdfast.open(place.vault) as vault:
        act(vault.namespace("project"))


def write_by_api(namespace: holdfast.Namespace) -> None:
    namespace.files.write("by-api.txt", "A")
    namespace.files.write("00.txt", "by api")


def write_and_keep(namespace: holdfast.Namespace) -> None:
    write_by_api(namespace)
    namespace.snapshot("by api")


ACTS: dict[str, tuple[Callable[[holdfast.Namespace], object], dict[str, str]]] = {
    "snapshot": (lambda namespace: namespace.snapshot("by api"), {}),
    "write": (write_by_api, {"by-api.txt": "A", "00.txt": "by api"}),
    "write and snapshot": (write_and_keep, {"by-api.txt": "A", "00.txt": "by api"}),
    "task": (lambda namespace: namespace.task("t").__enter__(), {}),
}


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("deaths", [0, 2])
def test_what_a_restore_left_is_taken_back_wherever_the_timeline_has_gone(
    worked_on: Place, name: str, deaths: int
) -> None:
    place, (act, written) = worked_on, ACTS[name]
    place.ok("snapshot", "-m", "new")
    place.is_interrupted("restore", "first snapshot", how=signal.SIGKILL)
    half = place.deep()
    assert 2 < len(half) < COUNT
    (place.project / "new.txt").write_text("my new work\n")
    goes_on_by_api(place, act)
    for _ in range(deaths):
        place.is_interrupted("status", how=signal.SIGKILL)
    told = place("status").stderr
    assert told.count("An interrupted restore was taken back.") == 1, told
    assert "What was changed since stays: new.txt." in told
    whole = {"same.txt": "alike\n", "left.txt": "alike\n", "new.txt": "my new work\n"} | written
    assert place.deep() == whole
    place.ok("snapshot", "-m", "after")
    with holdfast.open(place.vault) as vault:
        files = vault.namespace("project").files
        assert {each.path for each in files.list("")} == {*whole}
    found = re.search(r"What it had left is in (snap-\w+)", told)
    assert found is not None
    place.ok("restore", found[1], "--to", str(place.project.parent / "half"))
    kept = place.deep(place.project.parent / "half")
    assert kept.items() >= {"new.txt": "my new work\n"}.items()
    assert deaths or kept == half | {"new.txt": "my new work\n"}


@pytest.mark.parametrize("name", ACTS)
def test_what_is_done_while_a_recovery_is_interrupted_does_not_make_a_mixture_of_what_there_is(
    worked_on: Place, name: str
) -> None:
    place, (act, written) = worked_on, ACTS[name]
    place.ok("snapshot", "-m", "new")
    place.is_interrupted("restore", "first snapshot", how=signal.SIGKILL)
    place.is_interrupted("status", how=signal.SIGKILL)
    goes_on_by_api(place, act)
    place.is_interrupted("status", how=signal.SIGKILL)
    told = place("status").stderr
    assert told.count("An interrupted restore was taken back.") == 1, told
    assert place.deep() == {"same.txt": "alike\n", "left.txt": "alike\n"} | written


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_restore_through_the_namespace_after_an_interrupted_one_leads_the_directory_too(
    worked_on: Place, *, is_gone: bool
) -> None:
    place = worked_on
    place.ok("snapshot", "-m", "new")
    place.is_interrupted("restore", "first snapshot", how=signal.SIGKILL)

    def goes_back(namespace: holdfast.Namespace) -> None:
        first, new = (find(namespace, label) for label in ("first snapshot", "new"))
        namespace.restore(first)
        if is_gone:
            namespace.delete_snapshot(new)

    goes_on_by_api(place, goes_back)
    told = place("status").stderr
    assert told.count("An interrupted restore was taken back.") == 1, told
    assert place.deep() == place.good


def find(namespace: holdfast.Namespace, label: str) -> holdfast.SnapshotInfo:
    return next(each for each in namespace.timeline() if each.label == label)


def test_of_a_file_that_both_wrote_since_the_directorys_stays_and_the_other_is_named(
    worked_on: Place,
) -> None:
    place = worked_on
    place.is_interrupted("undo", how=signal.SIGKILL)
    (place.project / "same.txt").write_text("edited since\n")
    (place.project / "left.txt").unlink()

    def write(namespace: holdfast.Namespace) -> None:
        namespace.files.write("same.txt", "by api")
        namespace.files.write("left.txt", "by api")

    goes_on_by_api(place, write)
    told = place("status").stderr
    assert place.deep() == {"same.txt": "edited since\n", "left.txt": "by api"}
    found = re.search(r"What was written to the namespace's same.txt is in (snap-\w+)", told)
    assert found is not None, told
    place.ok("restore", found[1], "--to", str(place.project.parent / "theirs"))
    assert place.deep(place.project.parent / "theirs")["same.txt"] == "by api"


def test_what_no_snapshot_holds_stays_where_the_namespace_has_something_since(
    worked_on: Place,
) -> None:
    place = worked_on
    (place.project / ".holdfastignore").write_text("ignored.txt\n")
    (place.project / "ignored.txt").write_text("mine alone")
    place.ok("snapshot", "-m", "new")
    place.is_interrupted("restore", "first snapshot", how=signal.SIGKILL)
    goes_on_by_api(place, lambda namespace: namespace.files.write("ignored.txt", "by api"))
    told = place("status").stderr
    assert (place.project / "ignored.txt").read_text() == "mine alone"
    found = re.search(r"written to the namespace's ignored.txt is in (snap-\w+)", told)
    assert found is not None, told
    place.ok("restore", found[1], "--to", str(place.project.parent / "theirs"))
    assert place.deep(place.project.parent / "theirs")["ignored.txt"] == "by api"


def test_work_in_a_directory_that_was_captured_since_is_not_what_a_restore_left(
    worked_on: Place,
) -> None:
    place = worked_on
    place.is_interrupted("undo", how=signal.SIGKILL)
    (journal,) = place.vault.glob("workspaces/*/journal")
    before = journal.read_bytes()
    place.ok("status")
    (place.project / "00.txt").write_text("worked on")
    place.ok("snapshot")
    (place.project / "01.txt").write_text("and on")
    journal.write_bytes(before)
    goes_on_by_api(place, lambda namespace: namespace.snapshot("by api"))
    assert "An interrupted" not in place("status").stderr
    assert place.files().items() >= {"00.txt": "worked on", "01.txt": "and on"}.items()


# The directory itself is gone, or let go of


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_undo_of_a_removed_directory_leads_to_the_newest_state_crash_or_not(
    place: Place, *, is_interrupted: bool
) -> None:
    (place.project / "newest.txt").write_text("newest")
    place.ok("snapshot", "-m", "new")
    if is_interrupted:
        place.is_interrupted("restore", "first snapshot", how=signal.SIGKILL)
    shutil.rmtree(place.project)
    place.ok("undo")
    assert place.files() == {"newest.txt": "newest"}


def test_detach_puts_a_restore_right_first_and_says_so(place: Place) -> None:
    place.is_interrupted("undo", how=signal.SIGKILL)
    told = place("detach").stderr
    assert told.count("An interrupted restore was taken back.") == 1, told
    assert place.files() == {}


def test_init_leaves_what_a_restore_left_to_the_next_command(place: Place) -> None:
    place.is_interrupted("undo", how=signal.SIGKILL)
    half = place.files()
    assert "An interrupted" not in place("init").stderr
    assert place.files() == half
    assert "An interrupted restore was taken back." in place("status").stderr
    assert place.files() == {}
