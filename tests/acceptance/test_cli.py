"""`holdfast` as people start it: a program of its own, a directory, and what comes of it.

The commands of every day are processes of their own (`cold`), from their beginning to their end;
where it is about what they say and do, they start at once (`warm`).
"""

import ctypes
import gzip
import json
import os
import pty
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.testing.servers import COMMAND
from holdfast.testing.shells import environment, read_terminal

pytestmark = pytest.mark.in_memory

_DROP_FROM_BOUNDING_SET = 24
_READS_EVERYTHING = (1, 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def without_rights() -> None:
    """Takes from root, in a child, what lets it read files that it has no right to read."""
    libc = ctypes.CDLL(None)
    for capability in _READS_EVERYTHING:
        libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


class Session:
    """A user with a home, a vault and a project."""

    def __init__(self, folder: Path, command: tuple[str, ...] = COMMAND) -> None:
        self.command = command
        self.home = folder / "home"
        self.vault = folder / "vault"
        self.project = folder / "project"
        for each in (self.home, self.project):
            each.mkdir()
        self.environ = environment(self.home, HOLDFAST_DATA=str(self.vault))
        self.write("readme.md", "hello\n")
        self.write("src/app.py", "x = 1\ny = 2\n")

    def __call__(self, *argv: str, **more: Any) -> Done:
        options: dict[str, Any] = {"cwd": self.project, "env": self.environ, **more}
        # What a child gives up before it begins, it needs a beginning of its own for.
        command = COMMAND if "preexec_fn" in more else self.command
        done = subprocess.run(
            [*command, *argv], capture_output=True, stdin=subprocess.DEVNULL, check=False, **options
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def ok(self, *argv: str) -> Done:
        done = self(*argv)
        assert done.code == 0, (argv, done)
        return done

    def write(self, name: str, text: str) -> None:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.project).as_posix(): path.read_bytes()
            for path in sorted(self.project.rglob("*"))
            if path.is_file() and ".holdfast" not in path.parts
        }


@pytest.fixture
def user(tmp_path: Path, warm: tuple[str, ...]) -> Session:
    return Session(tmp_path, warm)


@pytest.fixture
def project(user: Session) -> Session:
    user.ok("init")
    return user


@pytest.fixture
def cold(project: Session) -> Session:
    """The same, whose commands load what they need."""
    project.command = COMMAND
    return project


def test_what_an_agent_remembers_goes_back_with_its_directory(
    project: Session, tmp_path: Path
) -> None:
    with holdfast.open(project.vault) as hf:
        memory = hf.namespace("project").memory
        tea = memory.add("likes green tea")
        first = project.ok("snapshot", "--json").document
        assert first["entries"] == 3
        new = memory.add("made since")
        memory.update(tea.id, content="likes black coffee")
        project.write("readme.md", "changed\n")
        status = project.ok("status").out
        assert "3 changes" in status
        assert f"memories: {new.id}" in status
        patch = project.ok("diff").out
        assert "  -likes green tea" in patch.splitlines()
        assert "  +likes black coffee" in patch.splitlines()
        names = project.ok("diff", "--name-only").out.splitlines()
        assert sorted(names) == sorted(["readme.md", *(f"memories: {m.id}" for m in (new, tea))])
        seen = project.ok("restore", first["snapshot_id"], "--dry-run", "--json").document
        assert (len(seen["changes"]), seen["left_alone"]) == (3, [])
        done = project.ok("restore", first["snapshot_id"]).out
        assert ": 1 removed, 2 changed, verified" in done
        assert [each.content for each in memory.list()] == ["likes green tea"]
        assert memory.search("coffee") == []
        assert "memories: " in project.ok("show", "latest").out
        project.ok("undo")
        assert [each.content for each in memory.list()] == ["made since", "likes black coffee"]
        assert project.files()["readme.md"] == b"changed\n"
        archive = str(tmp_path / "a.tar")
        project.ok("export", archive)
        memory.add("not in the archive")
        project.ok("import", archive)
        assert [each.content for each in memory.list()] == ["made since", "likes black coffee"]
        project.ok("verify")


def test_a_new_user_breaks_things_and_gets_them_back(user: Session) -> None:
    begun = user.ok("init")
    assert f"Attached {user.project} as namespace project." in begun.out
    assert "holdfast undo" in begun.out
    assert "Nothing has changed." in user.ok("status").out
    before = user.files()

    user.write("src/app.py", "x = 1\ny = 3\n")
    user.write("new.txt", "new")
    (user.project / "readme.md").unlink()
    broken = user.files()
    status = user.ok("status").out
    assert "3 changes: 1 added, 1 removed, 1 changed" in status
    for line in (r"\+ new.txt", r"- readme.md", r"~ src/app.py"):
        assert re.search(rf"^  {line}\b", status, re.MULTILINE)
    assert "-y = 2\n+y = 3\n" in user.ok("diff").out

    undone = user.ok("undo")
    assert "verified" in undone.out
    assert re.search(r"is kept as snap-\w{8}\.", undone.out)
    assert user.files() == before
    user.ok("redo")
    assert user.files() == broken
    user.ok("undo")
    assert user.files() == before
    assert "Nothing has changed." in user.ok("status").out


def test_an_undo_takes_a_redo_back_that_ran_over_what_was_in_no_snapshot(project: Session) -> None:
    project.write("src/app.py", "x = 2\n")
    project.ok("snapshot", "-m", "second")
    project.ok("undo")
    project.write("mine", "in no snapshot")
    before = project.files()
    redone = project.ok("redo").out
    assert re.search(r"is kept as snap-\w{8}\.\n`holdfast undo` takes this back\.", redone)
    after = project.files()
    for command, there in (("undo", before), ("redo", after), ("undo", before)):
        project.ok(command)
        assert project.files() == there


def test_a_diff_shows_what_was_asked_for(project: Session) -> None:
    project.write("src/app.py", "x = 1\ny = 3\n")
    patch = project.ok("diff").out
    assert patch.startswith("diff --git a/src/app.py b/src/app.py\n--- a/src/app.py\n")
    assert project.ok("diff", "--name-only").out == "src/app.py\n"
    assert project.ok("diff", "--path", "readme.md", "--name-only").out == ""
    assert "1 changed" in project.ok("diff", "--stat").out


def test_what_is_kept_with_a_snapshot_finds_it_again(project: Session) -> None:
    project.ok("snapshot", "-m", "nightly", "--meta", "run=7", "--meta", "by=a = b")
    project.ok("snapshot", "-m", "other", "--meta", "run=8")
    project.ok("snapshot", "-m", "plain")
    (line,) = project.ok("log", "--meta", "run=7").out.splitlines()
    assert line.endswith("nightly  run=7 by=a = b")
    found = project.ok("log", "--meta", "run=7", "--meta", "by=a = b", "--json").document
    assert [each["metadata"] for each in found["snapshots"]] == [{"run": "7", "by": "a = b"}]
    assert project.ok("log", "--meta", "run=9").out == "None of the snapshots is meant.\n"
    shown = project.ok("show", found["snapshots"][0]["snapshot_id"]).out
    assert "  metadata run=7\n  metadata by=a = b\n" in shown
    assert project.ok("show", "latest", "--json").document["metadata"] == {}
    for wrong in ("run", "=7"):
        assert project("snapshot", "--meta", wrong).code == 2
    assert project("snapshot", "--meta", f"{'k' * 65}=7").code == 2
    project.ok("run", "--meta", "run=9", "--", "touch", "made.txt")
    (line,) = project.ok("log", "--meta", "run=9").out.splitlines()
    assert line.endswith("touch made.txt  run=9")
    for command in (("snapshot",), ("log",), ("run", "true")):
        verb, *rest = command
        twice = project(verb, "--meta", "run=1", "--meta", "run=2", *rest)
        assert (twice.code, "--meta says run twice" in twice.err) == (2, True)


def test_a_log_of_a_path_says_what_happened_to_it(project: Session) -> None:
    project.write("src/app.py", "x = 1\n")
    project.ok("snapshot", "-m", "shorter")
    project.write("beside.txt", "of no concern")
    project.ok("snapshot", "-m", "beside")
    (project.project / "src/app.py").unlink()
    now, changed, *begun = project.ok("log", "src/app.py").out.splitlines()
    assert re.fullmatch(r"- now .* in no snapshot yet", now)
    assert re.fullmatch(r"~ snap-\w{8} .* 12 B → 6 B .* shorter", changed)
    assert len(begun) == 1
    assert begun[0].startswith("+ snap-")
    assert "beside" not in project.ok("log", "src").out
    inside = project.project / "src"
    assert project.ok("-C", str(inside), "log", "--", "app.py").out.splitlines()[1] == changed
    assert project.ok("-C", str(inside), "log", "..").out == project.ok("log").out
    told = project.ok("log", "src/app.py", "-n", "2", "--json").document
    assert [step["change"] for step in told["steps"]] == ["removed", "changed"]
    assert told["name"] == {"plane": "files", "name": "src/app.py"}
    assert told["steps"][1]["snapshot"]["label"] == "shorter"
    for argv in ("nothing", "--stat nothing", "--session ses-1", "--value a b"):
        done = project("log", *argv.split())
        assert (done.code, done.out) == (3, ""), argv
        assert "holdfast: no snapshot has a" in done.err
    assert project("log", "nothing", "--json").code == 3
    assert project.ok("log", "--pinned", "--", "src/app.py").out.startswith("None of the snapshots")
    assert project("log", "../elsewhere").code == 2


def test_a_log_finds_what_is_meant_and_says_how_much_changed(project: Session) -> None:
    project.write("src/app.py", "x = 1\n")
    project.ok("snapshot", "-m", "Refund path", "--pin")
    project.write("beside.txt", "of no concern")
    project.ok("snapshot", "-m", "beside")
    project.ok("restore", "@-1")
    back, beside, refund, *_ = project.ok("log", "--stat").out.splitlines()
    assert back.endswith("(files -1)")
    assert beside.endswith("beside  (files +1)")
    assert refund.endswith("Refund path pinned  (files ~1)")
    assert project.ok("log", "--grep", "PATH refund").out.splitlines() == [refund.split("  (")[0]]
    only = project.ok("log", "--pinned", "--since", "2 hours ago", "--", "src").out
    assert only.splitlines() == [refund.split("  (")[0]]
    told = project.ok("log", "--kind", "restore", "--stat", "--json").document["snapshots"]
    assert [each["changes"]["files"]["removed"] for each in told] == [1]
    assert project.ok("log", "--until", "2020-01-01").out == "None of the snapshots is meant.\n"
    assert project.ok("log", "--actor", "nobody", "--task-status", "failed").code == 0
    for wrong in (("--kind", "x"), ("--since", "x"), ("--session", "ses-1", "--stat")):
        assert project("log", *wrong).code == 2


def test_every_command_speaks_json(cold: Session, tmp_path: Path) -> None:
    first = cold.ok("log", "--json").document["snapshots"][0]["snapshot_id"]
    cold.write("more.txt", "more")
    status = cold.ok("status", "--json").document
    assert status["is_dirty"]
    assert [change["path"] for change in status["changes"]] == ["more.txt"]
    taken = cold.ok("snapshot", "-m", "second", "--json").document
    assert taken["snapshot_id"].startswith("snap-")
    assert taken["coverage"]["captured"] == 3
    assert cold.ok("init", "--json").document["is_new"] is False
    assert cold.ok("show", "latest", "--json").document["label"] == "second"
    diff = cold.ok("diff", first, "latest", "--json").document
    assert diff["changes"][0]["change"] == "added"
    assert cold.ok("pin", first, "--json").document["pinned"] is True
    assert cold.ok("unpin", first, "--json").document["pinned"] is False
    assert cold.ok("restore", first, "--dry-run", "--json").document["dry_run"] is True
    assert cold.ok("restore", first, "--json").document["verified"] is True
    assert cold.ok("undo", "--json").document["changes"][0]["path"] == "more.txt"
    assert cold.ok("redo", "--json").document["target_id"]
    copy = cold.ok("restore", first, "--to", str(tmp_path / "copy"), "--json").document
    assert copy["to"]["path"] == str(tmp_path / "copy")
    assert cold.ok("run", "--json", "--", "true").document["exit_code"] == 0
    assert cold.ok("forget", "--dry-run", "--json").document["forgotten"] == []
    assert cold.ok("gc", "--json").document["damaged"] == []
    assert cold.ok("verify", "--json").document["ok"] is True
    assert cold.ok("du", "--json").document["largest_files"][0]["bytes"] > 0
    checks = cold.ok("doctor", "--json").document["checks"]
    assert {check["state"] for check in checks} <= {"ok", "warn"}
    attached = cold.ok("workspaces", "--json").document["workspaces"]
    assert [each["path"] for each in attached] == [str(cold.project)]
    archive = cold.ok("export", "../out.tar", "--json").document
    assert Path(archive["path"]).stat().st_size == archive["bytes"]
    assert cold.ok("version", "--json").document["version"]
    assert cold.ok("--version").out.startswith("holdfast ")


def test_every_command_speaks_to_people(cold: Session) -> None:
    cold.write("more.txt", "more")
    for command in (
        *("status", "snapshot", "log", "show latest", "diff @-1 latest", "restore @-1", "undo"),
        *("redo", "pin @", "unpin @", "forget", "forget --keep-last 9 --dry-run", "gc", "verify"),
        *("du", "doctor", "workspaces", "export ../x.tar", "version", "--help", "init"),
    ):
        done = cold.ok(*command.split())
        assert done.out.strip(), command
        assert "\x1b" not in done.out, command


# Exit codes


def test_a_mistake_is_2(project: Session) -> None:
    assert project("frobnicate").code == 2
    assert project("snapshot", "--frobnicate").code == 2
    done = project("diff", "--path", "../outside", "--json")
    assert (done.code, done.error["code"]) == (2, "invalid_path")


def test_what_is_not_there_is_3(user: Session) -> None:
    done = user("status")
    assert done.code == 3
    assert "`holdfast init`" in done.err
    assert not user.vault.exists(), "asking has made a vault"
    user.ok("init")
    assert user("show", "snap-nothing").code == 3
    done = user("undo", "--json")
    assert (done.code, done.error["code"]) == (3, "nothing_to_undo")


def test_drift_is_4_where_it_is_refused(project: Session) -> None:
    project.write("drift.txt", "not in a snapshot")
    done = project("restore", "latest", "--refuse-drift")
    assert done.code == 4
    assert "    drift.txt" in done.err
    assert "drift.txt" in project.files()
    done = project("restore", "latest", "--refuse-drift", "--json")
    assert done.error["paths"] == ["drift.txt"]


def test_the_home_directory_is_refused_with_4(user: Session) -> None:
    for more in ([], ["--local"]):
        done = user("init", str(user.home), *more)
        assert done.code == 4
        assert "--force" in done.err
    assert os.listdir(user.home) == [], "a vault was left there"


def test_damage_is_5(project: Session) -> None:
    project.write("large.bin", os.urandom(400_000).hex())
    project.ok("snapshot")
    packs = [path for path in (project.vault / "packs").rglob("*") if path.is_file()]
    assert packs
    for pack in packs:
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 0xFF
        pack.chmod(0o600)
        pack.write_bytes(data)
    done = project("verify")
    assert done.code == 5
    assert "DAMAGED" in done.out
    assert project("verify", "--json").document["ok"] is False


def test_a_partial_snapshot_is_6(project: Session) -> None:
    secret = project.project / "secret"
    secret.write_text("nobody may read this")
    secret.chmod(0)
    done = project("snapshot", preexec_fn=without_rights)
    assert done.code == 6, done
    assert "PARTIAL" in done.out
    assert "failed: secret" in done.out
    shown = project.ok("show", "latest", "--json").document
    assert shown["is_partial"] is True
    assert [each["path"] for each in shown["coverage"]["failed"]] == ["secret"]


def test_a_directory_that_may_not_be_entered_is_said_how_to_open(project: Session) -> None:
    wanted = project.files()
    project.write("readme.md", "changed\n")
    project.project.chmod(0)
    argv = ["-C", str(project.project), "undo"]
    done = project(*argv, cwd=project.project.parent, preexec_fn=without_rights)
    assert done.code == 1, done
    assert f"`chmod u+rwx {project.project}` lets it be" in done.err
    project.project.chmod(0o755)
    project.ok("undo")
    assert project.files() == wanted


def test_rules_that_are_too_many_are_named_and_stop_nobody(project: Session) -> None:
    project.write(".holdfastignore", "x" * 300_000)
    assert "leaves nothing out after line 1" in project.ok("status").err
    project.ok("undo")
    assert ".holdfastignore" not in project.files()


def partial_snapshot(project: Session) -> str:
    """Returns the id of a snapshot that lacks a file, which can be read since."""
    secret = project.project / "secret"
    secret.write_text("nobody may read this")
    secret.chmod(0)
    taken = project("snapshot", "--json", preexec_fn=without_rights).document["snapshot_id"]
    secret.chmod(0o644)
    project.write("readme.md", "changed\n")
    project.ok("snapshot")
    return taken


def test_bringing_a_partial_snapshot_back_says_so_before_and_after(
    project: Session, tmp_path: Path
) -> None:
    partial = partial_snapshot(project)
    lacking = "the snapshot is PARTIAL, 1 path could not be captured"
    named = "  not captured, left as it is: secret"
    seen = project.ok("restore", partial, "--dry-run").out
    assert f"But {lacking}:\n{named}\n" in seen
    for argv in (
        ["restore", partial],
        ["restore", partial, "--to", str(tmp_path / "copy")],
    ):
        done = project.ok(*argv).out
        assert f"verified, but {lacking}\n{named}\n" in done
        assert "verified\n" not in done
    assert (project.project / "secret").read_text() == "nobody may read this"
    assert project.ok("undo").out.count("PARTIAL") == 0
    project.ok("restore", partial, "--path", "readme.md")
    assert "PARTIAL" not in project.ok("undo").out


def test_undo_and_redo_that_lead_to_a_partial_snapshot_say_so_and_leave_what_it_lacks(
    project: Session,
) -> None:
    partial_snapshot(project)
    for command in ("undo", "redo", "undo"):
        done = project.ok(command).out
        assert ("verified, but the snapshot is PARTIAL" in done) == (command == "undo")
        assert (project.project / "secret").read_text() == "nobody may read this"
    document = project.ok("redo", "--json").document
    assert (document["verified"], document["is_partial"]) == (True, False)
    document = project.ok("undo", "--json").document
    assert (document["verified"], document["is_partial"]) == (True, True)
    assert document["uncaptured"] == [{"path": "secret"}]


def test_an_archive_of_a_partial_snapshot_says_so_when_it_comes_in(
    project: Session, tmp_path: Path
) -> None:
    archive = str(tmp_path / "partial.tar")
    project.ok("export", archive, partial_snapshot(project))
    assert (
        "verified, but the snapshot is PARTIAL, 1 path could not be"
        in project.ok("import", archive).out
    )
    assert "  not captured: secret\n" in project.ok("show", "@").out
    project.ok("undo")
    document = project.ok("import", archive, "--json").document
    assert (document["is_partial"], document["uncaptured_count"]) == (True, 1)


def test_show_names_what_a_snapshot_lacks_that_comes_from_a_partial_one(project: Session) -> None:
    partial = partial_snapshot(project)
    (project.project / "secret").unlink()
    project.ok("restore", partial)
    done = project.ok("show", "latest")
    assert "PARTIAL" in done.out
    assert "  not captured: secret\n" in done.out
    document = project.ok("show", "latest", "--json").document
    assert document["uncaptured"] == [{"path": "secret"}]
    assert document["in_motion"] == []


def test_a_file_that_somebody_writes_to_is_in_motion_with_0(project: Session) -> None:
    with open(project.project / "readme.md", "r+b") as file:
        assert "in motion" not in project.ok("snapshot").out, "nothing was written since"
        file.write(b"H")
        file.flush()
        done = project.ok("snapshot")
        assert "1 in motion" in done.out
        assert "in motion: readme.md (it was open for writing)" in done.out
        assert "in motion: readme.md" in project.ok("status").out
        file.write(b"ELLO")
        file.flush()
        moving = project.ok("snapshot", "--json").document
        assert moving["is_partial"] is False
        assert [each["path"] for each in moving["coverage"]["in_motion"]] == ["readme.md"]
    project.write("readme.md", "at rest\n")
    assert "in motion" not in project.ok("snapshot").out
    said = "1 file was in motion and may be a mixture"
    seen = project.ok("restore", moving["snapshot_id"], "--dry-run").out
    assert f"But {said}:\n  in motion: readme.md\n" in seen
    assert f"verified, but {said}\n" in project.ok("restore", moving["snapshot_id"]).out
    assert "verified\n" in project.ok("undo").out
    document = project.ok("restore", moving["snapshot_id"], "--json").document
    assert document["in_motion"] == [{"path": "readme.md"}]


def test_what_cannot_be_captured_by_nature_is_skipped_with_0(project: Session) -> None:
    os.mkfifo(project.project / "pipe")
    done = project.ok("snapshot")
    assert "1 skipped" in done.out
    assert "skipped: pipe" in done.out


# Naming, paths and names


def test_a_snapshot_is_found_by_the_beginning_of_its_id(project: Session) -> None:
    full = project.ok("snapshot", "-q").out.strip()
    for name in (full, full[:12], full.removeprefix("snap-")[:8], "latest", "@"):
        assert project.ok("show", name, "--json").document["snapshot_id"] == full
    project.ok("snapshot")
    assert project("show", "snap-").code == 4, "more than one begins so"


def test_odd_names_come_through_and_never_reach_the_terminal(project: Session) -> None:
    names = [b"a\x1b[31mred", b"line\nend", b"not-utf8-\xff", "\u202egpj.exe".encode()]
    for name in names:
        with open(os.path.join(os.fsencode(project.project), name), "wb") as file:
            file.write(b"x")
    for command in (["status"], ["diff", "--name-only"], ["diff"], ["snapshot"], ["show", "@"]):
        done = project.ok(*command)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.out), command
    changes = project.ok("show", "@", "--json").document["changes"]
    by_bytes = {each.get("path_bytes"): each["path"] for each in changes}
    assert by_bytes["bm90LXV0Zjgt/w=="] == "not-utf8-\ufffd"
    assert {each["path"] for each in changes} >= {"a\x1b[31mred", "line\nend", "\u202egpj.exe"}
    for name in names:
        os.unlink(os.path.join(os.fsencode(project.project), name))
    project.ok("undo")
    assert set(names) <= set(os.listdir(os.fsencode(project.project)))


def test_restore_takes_names_to_the_letter_and_exceptions(project: Session) -> None:
    odd = ["x[1].txt", "x1.txt", "-x", "a\nb", "d/*", "d/a"]
    for name in odd:
        project.write(name, "1")
    snapshot = project.ok("snapshot", "--json").document["snapshot_id"]
    for name in odd:
        project.write(name, "2")

    def changed(*argv: str) -> list[str]:
        seen = project.ok("restore", snapshot, *argv, "--dry-run", "--json").document
        done = project.ok("restore", snapshot, *argv, "--json").document
        assert done["changes"] == seen["changes"]
        return [change["path"] for change in done["changes"]]

    assert changed("--name", "x[1].txt", "--name=-x") == ["-x", "x[1].txt"]
    assert changed("--name", "d", "--except", "d/*") == ["d/a"]
    assert (project.project / "d/*").read_text() == "2"
    assert changed("--path", "x*", "--name", "a\nb") == ["a\nb", "x1.txt"]
    missing = project("restore", snapshot, "--name", "d/?", "--json")
    assert (missing.code, missing.error["code"]) == (3, "name_not_found")
    assert "'d/?'" in missing.error["message"]
    # Bytes that are no text are what the system gives a program.
    raw = os.fsdecode(b"\xff.txt")
    (project.project / raw).write_text("new")
    assert changed("--name", raw) == ["\ufffd.txt"]
    assert not (project.project / raw).exists()
    project.ok("undo")
    assert (project.project / raw).read_text() == "new"
    assert changed("--except", "d/*", raw) == []


def test_a_command_works_from_below_and_from_elsewhere(project: Session, tmp_path: Path) -> None:
    below = project("status", "--json", cwd=project.project / "src").document
    assert below["path"] == str(project.project)
    elsewhere = project("-C", str(project.project), "status", "--json", cwd=tmp_path).document
    assert elsewhere["path"] == str(project.project)
    assert project("status", cwd=tmp_path).code == 3


def test_a_vault_can_lie_beside_the_files(user: Session) -> None:
    del user.environ["HOLDFAST_DATA"]
    user.ok("init", "--local")
    assert (user.project / ".holdfast").is_dir()
    before = user.files()
    user.write("src/app.py", "broken")
    user("undo", cwd=user.project / "src")
    assert user.files() == before
    assert not (user.home / ".local").exists()


def test_without_a_word_the_vault_is_the_users_own(user: Session) -> None:
    del user.environ["HOLDFAST_DATA"]
    user.environ["XDG_DATA_HOME"] = str(user.home / "data")
    user.ok("init")
    assert (user.home / "data" / "holdfast").is_dir()
    assert not (user.project / ".holdfast").exists()


def test_junk_in_variables_of_git_changes_nothing(user: Session) -> None:
    user.environ |= {"GIT_DIR": "/junk", "GIT_WORK_TREE": "/junk", "GIT_INDEX_FILE": "/junk"}
    user.environ["PATH"] = "/nowhere"
    user.ok("init")
    user.write("a", "a")
    assert "+ a" in user.ok("status").out


# Going back


def test_a_dry_run_shows_what_is_then_done(project: Session) -> None:
    first = project.ok("snapshot", "-q").out.strip()
    project.write("src/app.py", "changed")
    project.write("new/file.txt", "new")
    (project.project / "readme.md").unlink()
    before = project.files()
    planned = project.ok("restore", first, "--dry-run", "--json").document
    assert project.files() == before
    done = project.ok("restore", first, "--json").document
    assert done["changes"] == planned["changes"]
    assert done["root"] == planned["root"]
    assert done["safety_id"]


def test_a_part_of_a_snapshot_comes_back_alone(project: Session) -> None:
    project.write("src/app.py", "changed")
    project.write("readme.md", "changed")
    project.ok("restore", "latest", "--path", "src")
    assert project.files()["src/app.py"] == b"x = 1\ny = 2\n"
    assert project.files()["readme.md"] == b"changed"


def test_an_old_operation_is_taken_out_and_later_work_stays(project: Session) -> None:
    project.write("src/app.py", "a mistake")
    mistake = project.ok("snapshot", "-q").out.strip()
    project.write("later.txt", "good work")
    project.ok("snapshot")
    project.ok("undo", mistake)
    assert project.files()["src/app.py"] == b"x = 1\ny = 2\n"
    assert project.files()["later.txt"] == b"good work"


def test_an_archive_goes_out_and_comes_in_again(project: Session) -> None:
    before = project.files()
    project.ok("export", "../out.tar")
    project.write("src/app.py", "changed")
    project.write("more.txt", "more")
    changed = project.files()
    done = project.ok("import", "../out.tar", "--json").document
    assert done["verified"] is True
    assert done["safety_id"]
    assert project.files() == before
    project.ok("undo")
    assert project.files() == changed
    (project.project.parent / "bad.tar").write_bytes(b"\0" * 1024)
    assert project("import", "../bad.tar").code == 2
    assert project("import", "../none.tar").code == 3
    assert project.files() == changed


def test_what_is_refused_leaves_no_snapshot(project: Session) -> None:
    project.ok("export", "../whole.tar")
    whole = (project.project.parent / "whole.tar").read_bytes()
    (project.project.parent / "half.tar").write_bytes(whole[: len(whole) // 2])
    project.ok("fork", "taken")
    project.write("src/app.py", "in no snapshot")
    before = project.ok("log").out
    refused = {
        ("import", "../half.tar"): 2,
        ("import", "--files", "../half.tar"): 2,
        ("import", "../none.tar"): 3,
        ("undo", "--task", "task-x"): 3,
        ("fork", "taken"): 4,
        ("fork", "../x"): 2,
        ("switch", "-c", "taken"): 4,
    }
    for words, code in refused.items():
        assert project(*words).code == code, words
        assert project.ok("log").out == before, words


def test_files_become_exactly_those_of_a_tar_file_or_a_folder(project: Session) -> None:
    before, above = project.files(), project.project.parent
    project.ok("export", "../files.tar", "--files")
    project.write("src/app.py", "changed")
    changed = project.files()
    done = project.ok("import", "--files", "../files.tar", "--json").document
    assert (done["verified"], done["imported_entries"]) == (True, len(before))
    assert project.files() == before
    told = project.ok("undo")
    assert project.files() == changed
    (above / "set").mkdir()
    (above / "set" / "only.txt").write_text("only this")
    told = project.ok("import", "--files", "../set").out
    assert told.startswith("Imported files: 1 entry, 9 B, verified")
    assert "`holdfast undo` takes this back." in told
    assert project.files() == {"only.txt": b"only this"}
    project.ok("undo")
    plain = project("import", "../files.tar")
    assert (plain.code, "--files" in plain.err) == (2, True)
    packed = gzip.compress((above / "files.tar").read_bytes())
    (above / "files.tgz").write_bytes(packed)
    refused = project("import", "--files", "../files.tgz")
    assert (refused.code, "gunzip -c" in refused.err) == (2, True)
    assert project.files() == changed


# Tasks


def test_a_task_is_kept_and_its_exit_code_passed_on(project: Session) -> None:
    project.write("dirty.txt", "before the task")
    done = project("run", "--", "sh", "-c", "echo made > made.txt; echo said; exit 3")
    assert done.code == 3
    assert done.out == "said\n"
    assert "holdfast: kept as snap-" in done.err
    after, before, *_ = project.ok("log", "--json").document["snapshots"]
    assert after["label"].startswith("sh -c ")
    assert before["label"].startswith("before sh -c ")
    assert after["task_id"] == before["task_id"]
    assert "3" in after["reason"]
    assert "made.txt" in project.files()


def test_a_task_that_fails_can_be_rolled_back_and_is_kept(project: Session) -> None:
    before = project.files()
    script = "rm -r src; echo broken > readme.md; exit 1"
    done = project("run", "--rollback-on-failure", "--json", "--", "sh", "-c", script)
    assert done.code == 1
    assert project.files() == before
    kept = done.document["snapshot_id"]
    project.ok("restore", kept)
    assert project.files() == {"readme.md": b"broken\n"}


@pytest.mark.parametrize("rules", ["printf '[a\\n'", "head -c 3000000 /dev/zero"])
def test_a_task_that_fails_is_rolled_back_whatever_rules_it_leaves(
    project: Session, rules: str
) -> None:
    before = project.files()
    script = f"rm -r src; {rules} > .holdfastignore; exit 7"
    done = project("run", "--rollback-on-failure", "--json", "--", "sh", "-c", script)
    assert done.code == 7, done
    assert project.files() == before
    kept = done.document["snapshot_id"]
    project.ok("restore", kept)
    assert sorted(project.files()) == [".holdfastignore", "readme.md"]


def test_a_task_that_fails_has_its_exit_code_whatever_cannot_be_kept_of_it(
    project: Session,
) -> None:
    # One that succeeds, and is not kept, is no success.
    script, place = "rm -rf ../project; echo x > ../project", str(project.project)
    run = ("-C", place, "run", "--", "sh", "-c")
    assert project(*run, script, cwd=project.home).code == 4
    project.project.unlink()
    assert project("-C", place, "undo", cwd=project.home).code == 0
    done = project(*run, f"{script}; exit 7", cwd=project.home)
    assert done.code == 7, done
    assert "failed with 7, and what it did is not kept" in done.err
    assert "is a file, not the directory that is attached" in done.err


def test_a_task_that_succeeds_is_not_rolled_back(project: Session) -> None:
    project.ok("run", "--rollback-on-failure", "-m", "good", "touch", "made.txt")
    assert "made.txt" in project.files()
    assert project.ok("log", "--json").document["snapshots"][0]["label"] == "good"


def test_a_task_that_cannot_be_started_is_127(project: Session) -> None:
    done = project("run", "--", "no-such-command")
    assert done.code == 127
    assert "no-such-command cannot be started" in done.err


# Keeping and forgetting


def test_forget_says_what_would_go_and_then_lets_it_go(project: Session) -> None:
    for number in range(4):
        project.write("counter", str(number))
        project.ok("snapshot", "-m", f"number {number}")
    pinned = project.ok("pin", "@-2", "--json").document["snapshot_id"]
    ids = {each["snapshot_id"] for each in project.ok("log", "--json").document["snapshots"]}
    planned = project.ok("forget", "--keep-last", "1", "--dry-run", "--json").document
    now = {each["snapshot_id"] for each in project.ok("log", "--json").document["snapshots"]}
    assert now == ids
    done = project.ok("forget", "--keep-last", "1", "--json").document
    gone = {each["snapshot_id"] for each in done["forgotten"]}
    assert gone == {each["snapshot_id"] for each in planned["forgotten"]}
    assert gone
    left = {each["snapshot_id"] for each in project.ok("log", "--json").document["snapshots"]}
    assert left == ids - gone
    assert pinned in left
    project.ok("gc")
    project.ok("verify")


# Pipes and terminals


@pytest.mark.parametrize("command", ["diff --stat -v", "export -", "export - --files"])
def test_a_pipe_that_is_closed_early_is_quiet(project: Session, command: str) -> None:
    for number in range(400):
        project.write(f"many/{number}", "x\n" * 200)
    if command.startswith("export"):
        project.ok("snapshot", "-q")
    process = subprocess.Popen(
        [*COMMAND, *command.split()],
        cwd=project.project,
        env=project.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


def test_a_terminal_gets_colours_and_no_control_bytes_of_names(project: Session) -> None:
    project.write("evil\x1b]0;owned\x07", "x")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "status"],
        cwd=project.project,
        env={**project.environ, "TERM": "xterm"},
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = read_terminal(ours)
    assert process.returncode == 0
    assert b"\x1b[32m" in shown
    assert b"evil\\x1b]0;owned\\x07" in shown
    assert b"\x1b]" not in shown
    assert b"\x07" not in shown
