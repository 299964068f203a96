"""The program as one call: what it writes, how it ends, and that it never leaves the process.

The directory behind it is a fake with the methods of `Workspace`; the real one is tried in
`tests/acceptance/test_cli.py`.
"""

import argparse
import ast
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from holdfast import (
    Change,
    Changes,
    Coverage,
    Name,
    Omission,
    Patch,
    Plane,
    Restored,
    SnapshotInfo,
    Status,
)
from holdfast.cli import app, main
from holdfast.cli.app import Parser, find_command, load
from holdfast.cli.bar import Bar
from holdfast.cli.commands import COMMANDS, GROUPS, is_there
from holdfast.cli.console import Console
from holdfast.entries import Inline
from holdfast.errors import Damaged, DriftFound, SnapshotNotFound
from holdfast.ids import NamespaceId, ObjectId, SnapshotId
from holdfast.model.basics import Kind, Size
from holdfast.settings import CATALOG_NAME

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EVIL = "evil\x1b[2J\n\u202egpj.exe"
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def a_snapshot(**more: Any) -> SnapshotInfo:
    usual: dict[str, Any] = {
        "id": SnapshotId("snap-aaaabbbbccccdddd"),
        "namespace_id": NamespaceId(1),
        "number": 3,
        "kind": Kind.SNAPSHOT,
        "root": ObjectId(b"r" * 32),
        "parent": None,
        "created_at": NOW - timedelta(minutes=5),
        "size": Size(2, 2048),
    }
    coverage = Coverage(captured=2, captured_bytes=2048)
    return SnapshotInfo(**{**usual, "detail": coverage.to_detail(), **more})


def a_change(name: str, word: str = "changed") -> Change:
    old, new = Inline(b"old", 0o644), Inline(b"new!", 0o644)
    key = name.encode("utf-8", "surrogateescape")
    return Change(
        Plane.FILES,
        key,
        name,
        word,
        None if word == "added" else old,
        None if word == "removed" else new,
        None if word == "added" else old.size,
        None if word == "removed" else new.size,
    )


@dataclass
class FakeNamespace:
    name: str = "project"
    snapshots: list[SnapshotInfo] = field(default_factory=lambda: [a_snapshot()])

    def timeline(
        self,
        *,
        limit: int | None = None,
        before: int | None = None,
        metadata: dict[str, str] | None = None,
        with_: list[str] | None = None,
        label: str | None = None,
        task_id: str | None = None,
    ) -> list[SnapshotInfo]:
        assert with_ is None
        if before is not None:
            return []
        wanted = (metadata or {}).items()
        called = [each for each in self.snapshots if label in {None, each.label}]
        called = [each for each in called if task_id in {None, each.task_id}]
        return [each for each in called if wanted <= each.metadata.items()][:limit]

    def get_snapshot(self, name: str) -> SnapshotInfo:
        if name == "gone":
            raise SnapshotNotFound(name)
        return self.snapshots[0]

    def diff(self, _old: object, _new: object) -> Changes:
        return Changes([a_change("a.txt")])

    def pin(self, name: str) -> SnapshotInfo:
        return structs.replace(self.get_snapshot(name), pinned=True)

    def unpin(self, name: str) -> SnapshotInfo:
        return structs.replace(self.get_snapshot(name), expires_at=NOW)

    def forget(self, *, dry_run: bool, **_: object) -> list[SnapshotInfo]:
        return self.snapshots if dry_run else []


@dataclass
class FakeWorkspace:
    path: Path
    moved_from: Path | None = None
    is_half_way: bool = False
    namespace: FakeNamespace = field(default_factory=FakeNamespace)
    changes: Changes = field(default_factory=lambda: Changes([]))
    coverage: Coverage = field(default_factory=lambda: Coverage(captured=2, captured_bytes=2048))
    fails_with: Exception | None = None
    differing: list[str] = field(default_factory=list[str])
    calls: list[tuple[str, dict[str, object]]] = field(default_factory=list[Any])

    def status(self) -> Status:
        head = self.namespace.snapshots[0] if self.namespace.snapshots else None
        return Status(
            path=self.path,
            namespace=self.namespace.name,
            head=head,
            changes=self.changes,
            coverage=self.coverage,
            recovered=None,
        )

    def is_dirty(self) -> bool:
        return len(self.changes) > 0

    def snapshot(self, label: str | None = None, **more: Any) -> SnapshotInfo:
        self._called("snapshot", label=label, **more)
        more.pop("progress")("files", 1, 2)
        pinned = more.pop("pin", False)
        return a_snapshot(label=label, pinned=pinned, detail=self.coverage.to_detail(), **more)

    def diff(self, old: object = None, new: object = None, *, paths: object = None) -> Changes:
        self._called("diff", old=old, new=new, paths=paths)
        return self.changes

    def patches(
        self, old: object = None, new: object = None, *, paths: object = None
    ) -> list[Patch]:
        self._called("patches", old=old, new=new, paths=paths)
        text = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-old\x1b[0m\n+new\n"
        return [Patch(change=each, text=text.format(each.name)) for each in self.changes]

    def restore(self, snapshot: object, **more: Any) -> Restored:
        self._called("restore", snapshot=snapshot, **more)
        return self._restored(dry_run=more.get("dry_run", False))

    def undo(self, operation: object = None, **more: Any) -> Restored:
        self._called("undo", operation=operation, **more)
        return self._restored()

    def redo(self, **more: Any) -> Restored:
        self._called("redo", **more)
        return self._restored()

    def _called(self, name: str, **more: object) -> None:
        self.calls.append((name, more))
        if self.fails_with is not None:
            raise self.fails_with

    def _restored(self, *, dry_run: bool = False) -> Restored:
        return Restored(
            target=SnapshotId("snap-aaaabbbbccccdddd"),
            snapshot=None if dry_run else a_snapshot(kind=Kind.RESTORE),
            safety_id=None if dry_run else SnapshotId("snap-ssssssssssssssss"),
            root=ObjectId(b"r" * 32),
            changes=self.changes,
            verified=not dry_run and not self.differing,
            differing=self.differing,
            dry_run=dry_run,
            kept=["dir"],
        )


class FakeVault:
    """One that knows of no directory."""

    def find_origins(self, _directory: str, **_how: bool) -> list[object]:
        return []

    def find_loss(self) -> None:
        """All that was acknowledged is there."""

    def workspaces(self) -> Sequence[object]:
        return []


@dataclass
class FakeVaults:
    workspace: FakeWorkspace | None
    releases: int = 0

    def admit(self, _directory: str, _location: object, _objects: object, /) -> None: ...

    def open(self, _location: str, /) -> Any:
        return FakeVault()

    def find_workspace(self, _location: str, _directory: str, /) -> Any:
        return self.workspace

    def attach(self, _location: str, _directory: str, /, **_: object) -> Any:
        return self.workspace

    def release(self) -> None:
        self.releases += 1


@dataclass
class Answer:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


class Shell:
    """Runs command lines against the fake."""

    def __init__(self, folder: Path) -> None:
        (folder / "vault").mkdir()
        (folder / "vault" / CATALOG_NAME).touch()
        self.folder = folder
        self.workspace = FakeWorkspace(folder)
        self.vaults = FakeVaults(self.workspace)
        self.is_terminal = False
        self.environ = {"HOLDFAST_DATA": str(folder / "vault")}

    def __call__(self, *argv: str, out: Any = None) -> Answer:
        out, err = out or io.StringIO(), io.StringIO()
        console = Console(
            out=out,
            err=err,
            is_terminal=self.is_terminal,
            cwd=str(self.folder),
            environ=self.environ,
            vaults=self.vaults,
            clock=lambda: NOW,
        )
        code = app.run(argv, console)
        return Answer(code, out.getvalue() if hasattr(out, "getvalue") else "", err.getvalue())


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


# What is written


def test_status_says_what_changed_and_what_is_covered(shell: Shell) -> None:
    shell.workspace.changes = Changes([a_change("a.txt"), a_change("b.txt", "added")])
    done = shell("status")
    assert done.code == 0
    assert done.err == ""
    assert "at snap-aaaabbbb, 5 minutes ago" in done.out
    assert "2 changes: 1 added, 1 changed" in done.out
    assert "  ~ a.txt  3 B → 4 B" in done.out
    assert "captured 2 (2.0 kB)" in done.out


def test_executable_configuration_is_marked_with_the_reason(shell: Shell) -> None:
    shell.workspace.changes = Changes([a_change(".git/hooks/pre-commit", "added")])
    for command in (["status"], ["diff", "--stat"], ["undo"], ["restore", "@"]):
        done = shell(*command)
        assert "+!.git/hooks/pre-commit" in done.out, command
        assert "! marks executable configuration" in done.out, command
    assert shell("status", "--json").document["changes"][0]["is_executable_config"] is True


def test_a_snapshot_tells_its_id_to_programs(shell: Shell) -> None:
    done = shell("snapshot", "-m", "x", "--reason", "why", "--pin", "--json")
    assert done.document["snapshot_id"] == "snap-aaaabbbbccccdddd"
    assert done.document["pinned"] is True
    assert done.document["coverage"]["captured"] == 2
    assert shell("snapshot", "-q").out == "snap-aaaabbbbccccdddd\n"
    name, said = shell.workspace.calls[0]
    assert (name, said["label"], said["reason"], said["pin"]) == ("snapshot", "x", "why", True)


def test_a_partial_snapshot_says_so_and_exits_with_6(shell: Shell) -> None:
    shell.workspace.coverage = Coverage(
        captured=1, captured_bytes=1, failed=[Omission("secret", "permission denied")]
    )
    done = shell("snapshot")
    assert done.code == 6
    assert "PARTIAL" in done.out
    assert "failed: secret (permission denied)" in done.out
    assert "1 failed" in done.out
    assert shell("snapshot", "--json").document["is_partial"] is True
    assert shell("status").code == 0
    assert "would be PARTIAL" in shell("status").out


def test_what_is_skipped_by_nature_is_no_failure(shell: Shell) -> None:
    shell.workspace.coverage = Coverage(
        captured=1, captured_bytes=1, skipped=[Omission("sock", "a socket")], skipped_count=1
    )
    done = shell("snapshot")
    assert done.code == 0
    assert "skipped: sock (a socket)" in done.out


def test_hostile_names_labels_and_reasons_never_reach_the_terminal(shell: Shell) -> None:
    shell.is_terminal = True
    shell.environ["NO_COLOR"] = "1"
    shell.workspace.changes = Changes([a_change(EVIL), a_change("\udcff", "removed")])
    shell.workspace.namespace.name = EVIL
    shell.workspace.coverage = Coverage(captured=1, captured_bytes=1, failed=[Omission(EVIL, EVIL)])
    shell.workspace.namespace.snapshots = [
        a_snapshot(label=EVIL, reason=EVIL, actor=EVIL, task_id=EVIL, parent=EVIL, target=EVIL)
    ]
    commands = ["status", "log", "show @", "diff", "diff --stat", "diff --name-only", "undo"]
    commands += ["redo", "restore @", "restore @ --dry-run", "pin @", "unpin @", "snapshot"]
    for command in [*commands, "forget --dry-run", f"show {'gone'}"]:
        done = shell(*command.split())
        for text in (done.out, done.err):
            assert not CONTROLS.search(text), command
            assert "\ngpj" not in text, command
        assert "\n\\u202e" not in done.out, "a line end in a name has made a line"


def test_json_keeps_names_exactly_and_gives_bytes_where_they_are_not_text(shell: Shell) -> None:
    shell.workspace.changes = Changes([a_change(EVIL), a_change("ol\udce9")])
    done = shell("status", "--json")
    assert done.out.isascii()
    assert done.out.count("\n") == 1
    exact, broken = done.document["changes"]
    assert exact["path"] == EVIL
    assert "path_bytes" not in exact
    assert broken["path"] == "ol\ufffd"
    assert broken["path_bytes"] == "b2zp"


def test_colours_are_for_terminals_alone(shell: Shell) -> None:
    shell.workspace.changes = Changes([a_change("a")])
    assert "\x1b" not in shell("status").out
    shell.is_terminal = True
    assert "\x1b[33m" in shell("status").out
    assert "\x1b" not in shell("status", "--no-color").out
    shell.environ["NO_COLOR"] = "yes"
    assert "\x1b" not in shell("status").out


def test_a_diff_is_one_that_other_tools_read(shell: Shell) -> None:
    shell.workspace.changes = Changes([a_change('a"b', "added"), a_change("c", "removed")])
    lines = shell("diff").out.split("\n")
    assert lines[:4] == [
        'diff --git "a/a\\"b" "b/a\\"b"',
        "new file mode 100644",
        "--- /dev/null",
        '+++ "b/a\\"b"',
    ]
    assert lines[5] == "-old\x1b[0m", "content goes to a pipe as it is"
    assert lines[7:11] == [
        "diff --git a/c b/c",
        "deleted file mode 100644",
        "--- a/c",
        "+++ /dev/null",
    ]
    shell.is_terminal = True
    assert "-old\\x1b[0m" in shell("diff").out


def test_many_changes_are_not_all_listed(shell: Shell) -> None:
    shell.workspace.changes = Changes([a_change(f"f{n}") for n in range(100)])
    assert "… and 60 more" in shell("status").out
    assert "f99" in shell("status", "-v").out
    assert len(shell("diff", "--name-only").out.split()) == 100


def test_quiet_says_nothing_about_what_went_well(shell: Shell) -> None:
    for command in (["undo"], ["redo"], ["restore", "@"], ["pin", "@"], ["forget"], ["init"]):
        done = shell(*command, "-q")
        assert (done.code, done.out, done.err) == (0, "", ""), command


# What is passed on


def test_restore_passes_names_on_to_the_letter(shell: Shell) -> None:
    shell("restore", "abc", "--name", "x[1]", "*", "--name", "\udcff", "--except", "a b")
    _, said = shell.workspace.calls[0]
    assert said["paths"] is None
    assert said["names"] == [*map(Name.file, ("x[1]", "*", b"\xff"))]
    assert said["except_"] == [Name.file("a b")]


def test_restore_passes_on_what_was_said(shell: Shell) -> None:
    shell("restore", "abc", "--path", "a", "b*", "--path", "c", "--force", "--refuse-drift")
    _, said = shell.workspace.calls[0]
    said.pop("progress")
    assert said == {
        "snapshot": "snap-aaaabbbbccccdddd",
        "paths": ["a", "b*", "c"],
        "names": None,
        "except_": None,
        "dry_run": False,
        "force": True,
        "drift": "refuse",
        "keep": None,
        "limit": 1000,
    }


def test_options_that_every_command_understands_stand_anywhere(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    for argv in (["--json", "log"], ["log", "--json"], ["-C", "sub", "--json", "log", "-n", "1"]):
        assert shell(*argv).document["namespace"] == "project"


@pytest.mark.parametrize(
    ("argv", "at"),
    [
        ("status", 0),
        ("-C dir status", 2),
        ("-Cdir --data x --json log status", 4),
        ("--data=x log", 1),
        ("-q", None),
        ("-C status", None),
        ("-- status", None),
        ("", None),
    ],
)
def test_the_command_is_the_first_word_that_is_no_option(argv: str, at: int | None) -> None:
    assert find_command(argv.split()) == at


# How it ends


def test_an_error_is_a_sentence_and_a_hint(shell: Shell) -> None:
    done = shell("show", "gone")
    assert done.code == 3
    assert done.out == ""
    assert done.err == (
        "holdfast: there is no snapshot 'gone' on this timeline\n"
        "  `holdfast log` lists the snapshots.\n"
    )
    assert "Traceback" in shell("show", "gone", "-v").err


def test_an_error_for_programs_has_code_message_and_hint(shell: Shell) -> None:
    done = shell("show", "gone", "--json")
    assert done.code == 3
    assert done.out == ""
    assert set(done.error) == {"code", "message", "hint"}
    assert done.error["code"] == "snapshot_not_found"


def test_drift_is_listed(shell: Shell) -> None:
    shell.workspace.fails_with = DriftFound([EVIL, "b"], reason="not in a snapshot")
    done = shell("restore", "@")
    assert done.code == 4
    assert "\n    evil\\x1b[2J\\x0a\\u202egpj.exe\n    b\n" in done.err
    assert shell("restore", "@", "--json").error["paths"] == [EVIL, "b"]


@pytest.mark.parametrize("argv", ["restore @ -q", "undo -q", "redo -q", "redo"])
def test_what_was_carried_out_and_is_not_verified_is_told_with_a_code_of_its_own(
    shell: Shell, argv: str
) -> None:
    shell.workspace.differing = [EVIL, "b"]
    done = shell(*argv.split())
    assert done.code == 7
    assert done.err.startswith("holdfast: it was carried out, and is NOT VERIFIED: ")
    assert "\n    evil\\x1b[2J\\x0a\\u202egpj.exe\n    b\n" in done.err
    told = shell(*argv.split(), "--json")
    assert (told.code, told.err, told.document["verified"]) == (7, "", False)
    assert told.document["differing"] == [{"path": EVIL}, {"path": "b"}]


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (Damaged("a pack is broken"), 5, "a pack is broken"),
        (PermissionError(13, "Permission denied", "/x"), 1, "/x: Permission denied"),
        (ZeroDivisionError("surprise"), 1, "surprise"),
    ],
)
def test_whatever_happens_there_is_no_traceback(
    shell: Shell, error: Exception, code: int, says: str
) -> None:
    shell.workspace.fails_with = error
    done = shell("undo")
    assert done.code == code
    assert done.err.startswith(f"holdfast: {says}\n  ")
    assert "Traceback" not in done.err


def test_ctrl_c_ends_it_with_130(shell: Shell) -> None:
    def interrupt(**_: object) -> Status:
        raise KeyboardInterrupt

    shell.workspace.status = interrupt  # type: ignore[method-assign]  # a fake of a fake
    done = shell("status")
    assert (done.code, done.out, done.err) == (130, "", "holdfast: interrupted\n")
    assert shell.vaults.releases == 1
    shell.workspace.is_half_way = True
    done = shell("status")
    assert (done.code, done.out) == (130, "")
    assert "half-way" in done.err


def test_a_closed_pipe_is_quiet(shell: Shell) -> None:
    class Closed(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    done = shell("status", out=Closed())
    assert (done.code, done.err) == (141, "")


@pytest.mark.parametrize(
    "argv",
    [
        "nonsense",
        "status --nonsense",
        "restore",
        "log -n x",
        "log -n -1",
        "diff --stat --name-only",
        "restore @ --to x --dry-run",
        "run",
        "run --",
        "-C /nowhere/at/all status",
        "--json",
        "snapshot --lab x",
    ],
)
def test_a_command_that_was_mistyped_exits_with_2(shell: Shell, argv: str) -> None:
    done = shell(*argv.split())
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 2 or done.err.startswith('{"error"')
    assert json.loads(shell("--json", *argv.split()).err)["error"]["code"] == "usage"


def test_no_command_at_all_shows_what_there_is(shell: Shell) -> None:
    done = shell()
    assert (done.code, done.out) == (2, "")
    assert "holdfast init" in done.err


def test_a_near_miss_is_recognised(shell: Shell) -> None:
    assert "Did you mean `holdfast status`?" in shell("statsu").err


def test_outside_of_any_attached_directory_it_says_so(shell: Shell) -> None:
    shell.vaults.workspace = None
    done = shell("status")
    assert done.code == 3
    assert "is not in an attached directory" in done.err
    assert "`holdfast init`" in done.err
    assert shell("status", "--json").error["code"] == "not_attached"


def test_without_a_vault_none_is_made(shell: Shell, tmp_path: Path) -> None:
    shell.environ["HOLDFAST_DATA"] = str(tmp_path / "none")
    typed = ("status", "gc", "verify", "workspaces", "keys", "keys revoke key-x", "keys first")
    for command in typed:
        assert shell(*command.split()).code == 3, command
    assert not (tmp_path / "none").exists()


def test_a_process_that_stays_gets_its_vaults_back_after_each_command(shell: Shell) -> None:
    shell("status")
    shell("show", "gone")
    shell("status", "--help")
    assert shell.vaults.releases == 3


def test_what_may_be_said_to_a_command_is_put_together_once(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shell("undo", "--help")

    def again(*_: object, **__: object) -> None:
        pytest.fail("it is put together again for each command")

    monkeypatch.setattr(argparse.ArgumentParser, "__init__", again)
    assert shell("undo", "--help") == first
    assert shell("undo", "--nonsense").code == shell("undo", "a", "b", "c").code == 2


def test_each_command_is_explained_to_its_own_console() -> None:
    told = list[str]()
    for width in (60, 90, 60):
        out = io.StringIO()
        console = Console(
            out=out, err=io.StringIO(), is_terminal=False, cwd="/", environ={}, width=width
        )
        Parser("restore", console, load("restore")).print_help()
        told.append(out.getvalue())
    assert told[0] == told[2] != told[1]
    assert told[0].count("\n") > told[1].count("\n")


# Help and documentation


def flags_of(name: str) -> list[argparse.Action]:
    console = Console(out=io.StringIO(), err=io.StringIO(), is_terminal=False, cwd="/", environ={})
    actions = Parser(name, console, load(name))._actions
    return [action for action in actions if action.help != argparse.SUPPRESS]


THERE = [name for name in COMMANDS if is_there(name)]


@pytest.mark.parametrize("name", THERE)
def test_every_command_explains_itself(shell: Shell, name: str) -> None:
    done = shell(name, "--help")
    assert done.code == 0
    assert done.err == ""
    assert f"usage: holdfast {name}" in done.out
    assert "examples:" in done.out
    assert f"holdfast {name}" in done.out.split("examples:")[1]


def test_the_overview_names_every_command(shell: Shell) -> None:
    out = shell("--help").out
    assert [name for name in THERE if f"\n  {name} " not in out] == []
    assert [title for title in GROUPS if f"{title}:" not in out] == []


REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md"


def section_of(name: str) -> str:
    text = REFERENCE.read_text("utf-8")
    found = re.search(rf"^### `{re.escape(name)}`$(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"the reference has no section for {name}"
    return found[1]


def global_flags() -> Iterator[str]:
    for action in flags_of("version"):
        yield from action.option_strings


@pytest.mark.parametrize("name", THERE)
def test_the_reference_names_every_argument_of_every_command(name: str) -> None:
    section, everywhere = section_of(name), set(global_flags())
    for action in flags_of(name):
        for flag in action.option_strings or [str(action.metavar)]:
            assert flag in everywhere or re.search(rf"`[^`]*{re.escape(flag)}\b", section), flag


def test_the_reference_names_every_option_that_all_commands_understand() -> None:
    text = REFERENCE.read_text("utf-8")
    assert [flag for flag in global_flags() if f"`{flag}" not in text] == []


def test_the_reference_names_no_command_and_no_flag_that_is_not_there() -> None:
    text = REFERENCE.read_text("utf-8")
    assert set(re.findall(r"^### `([a-z]+)`$", text, re.MULTILINE)) <= set(COMMANDS)
    for name in THERE:
        known = {flag for action in flags_of(name) for flag in action.option_strings}
        named = set(re.findall(r"^\| `(--?[a-zA-Z][a-zA-Z-]*)", section_of(name), re.MULTILINE))
        assert named <= known, name


def test_the_reference_names_every_variable_and_exit_code() -> None:
    text = REFERENCE.read_text("utf-8")
    for name in ("HOLDFAST_DATA", "XDG_DATA_HOME", "HOME", "NO_COLOR", "TERM"):
        assert f"`{name}" in text
    for code in (0, 1, 2, 3, 4, 5, 6, 7, 126, 127, 130, 141):
        assert re.search(rf"^\| {code} \|", text, re.MULTILINE), code


# The process


def test_main_imports_next_to_nothing() -> None:
    tree = ast.parse(Path(main.__file__).read_text("utf-8"))
    imported = [ast.unparse(n) for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    assert imported == ["import gc", "import os", "import sys"]


def test_main_gives_the_exit_code_of_the_app(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["holdfast", "nonsense"])
    assert main.main() == 2
    assert main.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("holdfast ")


def test_a_bar_is_drawn_rarely_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    instants: Sequence[float] = [0.0, 0.01, 0.2, 0.25, 0.4]
    ticks = iter(instants)
    monkeypatch.setattr("holdfast.cli.bar.time.monotonic", lambda: next(ticks))
    stream = io.StringIO()
    bar = Bar(stream, width=40)
    for done in range(1, 5):
        bar.update("files", done, 4)
    bar.close()
    drawn = stream.getvalue().split("\r\x1b[K")[1:]
    assert len(drawn) == 3
    assert drawn[-1] == ""
    assert all(len(line) < 40 for line in drawn)
