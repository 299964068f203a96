"""Rules that come and go with what a restore brings back, as somebody types it.

What `.holdfastignore` says decides what is captured. Whoever writes it must not thereby decide
what becomes of work that was captured before, nor of what it did itself.
"""

import json
from contextlib import suppress
from pathlib import Path

import pytest

import holdfast

from .test_cli_lost_directory import Shell

pytestmark = pytest.mark.in_memory

FILES = {"f1": "one\n", "f2": "two\n", "f3": "three\n"}


@pytest.fixture
def shell(tmp_path: Path, warm: tuple[str, ...]) -> Shell:
    made = Shell(tmp_path, warm)
    made.ok("mkdir d && cd d && echo app > app.py && holdfast init -q")
    made.ok("mkdir g && cd g && echo one > f1 && echo two > f2 && echo three > f3")
    made.ok("cd g && holdfast init -q")
    return made


IGNORING = "cd d; echo '*.log' > .holdfastignore; echo trace > debug.log; echo broken > app.py"


def test_what_was_excluded_until_now_is_left_alone_and_named(shell: Shell) -> None:
    before = json.loads(shell.ok("cd d && holdfast show @ --json").out)
    done = shell.ok(f"{IGNORING}; holdfast undo")
    assert "1 removed, 1 changed, verified, 1 left alone" in done.out
    assert "left alone: debug.log, which was excluded until now" in done.out
    shown = json.loads(shell.ok("cd d && holdfast log --json").out)
    undone = shown["snapshots"][0]
    assert (undone["kind"], undone["root"]) == ("undo", before["root"])
    status = shell.ok("cd d && holdfast status").out
    assert "1 change: 1 added" in status
    assert "+ debug.log" in status
    assert "+ debug.log" in shell.ok("cd d && holdfast diff --stat").out
    assert (shell.home / "d/debug.log").read_text() == "trace\n"


def test_it_is_named_in_json_and_by_a_dry_run(shell: Shell) -> None:
    shell.ok(IGNORING)
    dry = json.loads(shell.ok("cd d && holdfast restore @ --dry-run --json").out)
    assert dry["uncovered"] == [{"path": "debug.log"}]
    done = json.loads(shell.ok("cd d && holdfast undo --json").out)
    assert (done["uncovered"], done["verified"]) == ([{"path": "debug.log"}], True)


def test_a_way_there_and_back_is_exact(shell: Shell) -> None:
    shell.ok(f"{IGNORING}; mkdir deep; echo more > deep/a.log; holdfast undo")
    forth = json.loads(shell.ok("cd d && holdfast redo --json").out)
    kept = json.loads(shell.ok(f"cd d && holdfast show {forth['target_id']} --json").out)
    assert (forth["verified"], forth["root"]) == (True, kept["root"])
    assert (shell.home / "d/app.py").read_text() == "broken\n"
    again = json.loads(shell.ok("cd d && holdfast undo --json").out)
    assert again["verified"]
    assert {each["path"] for each in again["uncovered"]} == {"debug.log", "deep/a.log"}
    assert (shell.home / "d/deep/a.log").read_text() == "more\n"
    assert (shell.home / "d/debug.log").read_text() == "trace\n"


def test_what_is_uncovered_stays_until_somebody_takes_a_snapshot_of_it(shell: Shell) -> None:
    first = json.loads(shell.ok("cd d && holdfast show @ --json").out)["snapshot_id"]
    shell.ok(f"{IGNORING}; holdfast undo -q")
    done = json.loads(shell.ok("cd d && holdfast restore @ --json").out)
    assert done["uncovered"] == [{"path": "debug.log"}]
    assert (shell.home / "d/debug.log").read_text() == "trace\n"
    # From then on it is captured like everything else, and goes and comes with it.
    shell.ok("cd d && holdfast snapshot -q")
    assert "1 removed, verified\n" in shell.ok(f"cd d && holdfast restore {first}").out
    assert not (shell.home / "d/debug.log").exists()
    shell.ok("cd d && holdfast undo -q")
    assert (shell.home / "d/debug.log").read_text() == "trace\n"


def test_an_undo_takes_back_the_restore_and_not_what_it_left_alone(shell: Shell) -> None:
    shell.ok(f"{IGNORING}; holdfast snapshot -q; holdfast restore @-1 -q")
    done = json.loads(shell.ok("cd d && holdfast undo --json").out)
    assert [change["path"] for change in done["changes"]] == [".holdfastignore", "app.py"]
    assert (shell.home / "d/app.py").read_text() == "broken\n"
    assert (shell.home / "d/debug.log").read_text() == "trace\n"


def test_what_a_restore_wrote_is_no_longer_taken_for_excluded(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(folder) as project:
        (folder / "x").write_text("x")
        with_x = project.snapshot()
        (folder / "x").rename(folder / "a")
        with_a = project.snapshot()
        (folder / ".holdfastignore").write_text("*")
        project.snapshot()
        project.restore(with_x)
        done = project.restore(with_a)
        assert (done.verified, done.uncovered) == (True, [])
        assert sorted(each.name for each in folder.iterdir()) == ["a", "mine"]


@pytest.mark.parametrize("rules", ["*", "build/"])
def test_files_are_brought_in_exactly_whatever_their_rules_say(tmp_path: Path, rules: str) -> None:
    folder, source = tmp_path / "d", tmp_path / "source"
    folder.mkdir()
    (folder / "mine").write_text("mine")
    (source / "build").mkdir(parents=True)
    (source / "build" / "x.o").write_text("x")
    (source / ".holdfastignore").write_text(rules)
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(folder) as project:
        done = project.import_files(source)
        assert done.verified
        assert done.left_out == ["build/x.o"]
        assert sorted(each.name for each in folder.iterdir()) == [".holdfastignore", "build"]
        project.undo()
        assert (folder / "mine").read_text() == "mine"


def test_the_head_shows_what_was_brought_back_to_programs_too(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "app.py").write_text("app")
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(folder) as project:
        before = project.snapshot()
        (folder / ".holdfastignore").write_text("*.log")
        (folder / "debug.log").write_text("trace")
        done = project.undo()
        assert done.snapshot is not None
        assert (done.snapshot.root, done.verified) == (before.root, True)
        assert done.uncovered == ["debug.log"]
        assert project.status().changes.of("added") == ["debug.log"]


RUINS = """'echo "*" > .holdfastignore; rm f1; echo junk > f3; echo n > new; exit 1'"""


def test_a_guarded_command_is_judged_by_the_rules_that_it_found(shell: Shell) -> None:
    done = shell(f"cd g && holdfast run --rollback-on-failure --json -- sh -c {RUINS}")
    assert done.code == 1
    told = json.loads(done.out)
    assert told["rolled_back"]["verified"]
    assert told["rolled_back"]["root"] == told["before"]["root"]
    there = {path.name: path.read_text() for path in (shell.home / "g").iterdir()}
    assert there == FILES
    # What it did is kept, all of it.
    shell.ok(f"cd g && holdfast restore {told['after']['snapshot_id']} --to ../did -q")
    did = {path.name: path.read_text() for path in (shell.home / "did").iterdir()}
    assert did == {"f2": "two\n", "f3": "junk\n", "new": "n\n", ".holdfastignore": "*\n"}
    assert "Nothing has changed." in shell.ok("cd g && holdfast status").out


def test_a_task_of_a_directory_is_judged_by_the_rules_that_it_found(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "a").write_text("1")
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(folder) as project:
        with suppress(KeyError), project.task("ruin it", rollback_on_failure=True) as task:
            (folder / ".holdfastignore").write_text("*")
            (folder / "a").write_text("2")
            (folder / "new").write_text("3")
            raise KeyError
        assert sorted(path.name for path in folder.iterdir()) == ["a"]
        assert (folder / "a").read_text() == "1"
        assert task.after is not None
        at = project.namespace.at(task.after)
        assert at.files.read("a") == b"2"
        assert at.files.read("new") == b"3"


def test_the_rules_are_captured_whatever_they_say(shell: Shell) -> None:
    shell.ok("cd g && echo '*' > .holdfastignore && holdfast snapshot -q")
    assert ".holdfastignore" in shell.ok("cd g && holdfast diff --stat @-1 @").out


def test_what_rules_take_out_is_not_told_as_removed(shell: Shell) -> None:
    shell.ok("cd g && rm f1 && echo 'f*' > .holdfastignore")
    status = shell.ok("cd g && holdfast status").out
    assert "2 changes: 1 added, 1 removed" in status
    excluded = "2 files of the snapshot before are there, and excluded by .holdfastignore now."
    assert excluded in status
    told = json.loads(shell.ok("cd g && holdfast status --json").out)
    assert told["counts"] == {"added": 1, "removed": 1, "changed": 0}
    assert told["coverage"]["newly_excluded_count"] == 2
    assert "2 files of the snapshot before are" in shell.ok("cd g && holdfast snapshot").out
    assert "of the snapshot before" not in shell.ok("cd g && holdfast snapshot").out
    assert "Nothing has changed." in shell.ok("cd g && holdfast status").out


def test_what_was_never_on_the_disk_is_not_counted_as_there_and_excluded(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    (folder / "out").mkdir(parents=True)
    (folder / "out/there").write_text("1")
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(folder) as project:
        project.snapshot()
        (folder / ".holdfastignore").write_text("out/")
        project.namespace.files.write("out/never", "2")
        project.namespace.snapshot()
        status = project.status()
        assert status.coverage.newly_excluded == 1
        assert {(each.name, each.change) for each in status.changes} == {
            (".holdfastignore", "added"),
            ("out/never", "removed"),
        }
        assert project.snapshot().detail["coverage"]["newly_excluded"] == 1
        assert "out/never" not in {each.name for each in project.status().changes}


def test_an_undo_of_rules_that_exclude_everything_brings_everything_back(shell: Shell) -> None:
    shell(f"cd g && sh -c {RUINS}")
    done = json.loads(shell.ok("cd g && holdfast undo --json").out)
    assert (done["verified"], done["uncovered"]) == (True, [{"path": "new"}])
    there = {path.name: path.read_text() for path in (shell.home / "g").iterdir()}
    assert there == FILES | {"new": "n\n"}
    forth = json.loads(shell.ok("cd g && holdfast redo --json").out)
    assert forth["verified"]
    assert (shell.home / "g/f3").read_text() == "junk\n"
