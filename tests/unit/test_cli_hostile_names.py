"""No command writes what somebody else called something to a terminal that would obey it."""

import io
import os
import re
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.app import run
from holdfast.cli.console import Console

pytestmark = pytest.mark.in_memory

HOSTILE = "x\x1b[31m\x9b2J\nFORGED\r\u202e"
"""A colour, a screen wiped, a line of its own, and a change of direction."""

OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]|^FORGED", re.MULTILINE)


class Terminal:
    """A person's shell in one directory, which fails the test that makes it do anything."""

    def __init__(self, home: Path) -> None:
        self.said = ""
        self._environ = {
            "HOME": str(home),
            "HOLDFAST_DATA": str(home / f"vault{HOSTILE}"),
            "HOLDFAST_STAY": "0",
        }

    def type(self, cwd: Path, *argv: str) -> int:
        out, err = io.StringIO(), io.StringIO()
        console = Console(
            out=out, err=err, is_terminal=True, cwd=str(cwd), environ=self._environ, width=80
        )
        code = run([*argv[:1], "--no-color", *argv[1:]], console)
        self.said = out.getvalue() + err.getvalue()
        found = OBEYED.search(self.said)
        assert found is None, (argv, self.said[max(0, found.start() - 200) : found.end() + 80])
        return code


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    (tmp_path / ".config").mkdir()
    return Terminal(tmp_path)


@pytest.fixture
def tree(tmp_path: Path, terminal: Terminal) -> Path:
    """A directory with everything in it that can be called something, and two snapshots."""
    tree = tmp_path / f"tree{HOSTILE}"
    (tree / f"folder{HOSTILE}").mkdir(parents=True)
    (tree / f"file{HOSTILE}").write_text("one\n")
    (tree / f"folder{HOSTILE}" / HOSTILE).write_text("one\n")
    assert terminal.type(tree, "init") == 0
    (tree / f"file{HOSTILE}").write_text("two\n")
    os.mkfifo(tree / f"pipe{HOSTILE}")
    said = ("-m", HOSTILE, "--reason", HOSTILE, "--meta", f"key={HOSTILE}")
    assert terminal.type(tree, "snapshot", *said) == 0
    (tree / f"new{HOSTILE}").symlink_to(HOSTILE)
    (tree / f"file{HOSTILE}").write_text("three\n")
    return tree


COMMANDS: list[tuple[str, ...]] = [
    ("status",),
    ("status", HOSTILE),
    ("log",),
    ("log", "--stat"),
    ("log", "--graph"),
    ("log", "--grep", HOSTILE),
    ("log", "--", f"file{HOSTILE}"),
    ("log", "--", HOSTILE),
    ("show", HOSTILE),
    ("show", f"{HOSTILE}?"),
    ("show", "@-1"),
    ("diff",),
    ("diff", "--stat"),
    ("diff", "--word-diff"),
    ("diff", HOSTILE, "@"),
    ("diff", "--path", HOSTILE),
    ("grep", "one", "--name-only"),
    ("grep", "one"),
    ("grep", "one", f"new{HOSTILE}"),
    ("grep", HOSTILE, HOSTILE),
    ("du",),
    ("du", "--namespaces"),
    ("namespaces",),
    ("namespaces", HOSTILE),
    ("workspaces",),
    ("restore", HOSTILE, "--dry-run"),
    ("restore", "@-1", "--path", HOSTILE),
    ("restore", "@-1", "--name", f"file{HOSTILE}"),
    ("restore", "@-1", "--to", f"to{HOSTILE}"),
    ("restore", "@-1", "--to", f"folder{HOSTILE}"),
    ("restore", HOSTILE),
    ("undo",),
    ("redo",),
    ("undo", "--task", HOSTILE),
    ("pin", HOSTILE),
    ("unpin", HOSTILE),
    ("export", f"archive{HOSTILE}"),
    ("export", f"pipe{HOSTILE}"),
    ("export", f"{HOSTILE}/{HOSTILE}"),
    ("import", f"archive{HOSTILE}"),
    ("import", f"file{HOSTILE}"),
    ("import", "--files", f"folder{HOSTILE}"),
    ("fork", HOSTILE),
    ("fork", "copy", "--at", HOSTILE),
    ("switch", HOSTILE),
    ("switch", "copy"),
    ("merge", HOSTILE),
    ("merge", "copy"),
    ("hook", "status"),
    ("hook", "install", "cursor"),
    ("hook", "install", HOSTILE),
    ("hook", "uninstall", "cursor"),
    ("mcp", "install", "cursor"),
    ("mcp", "uninstall", "cursor"),
    ("mcp", "install", HOSTILE),
    ("agent", "log"),
    ("agent", "log", "--session", HOSTILE),
    ("run", "--", "false"),
    ("run", "--", HOSTILE),
    ("exec", HOSTILE),
    ("git", "set", HOSTILE),
    ("git",),
    ("keys", "create", HOSTILE),
    ("keys", "list"),
    ("keys", "revoke", HOSTILE),
    ("forget", "--dry-run"),
    ("gc",),
    ("verify",),
    ("doctor",),
    ("repair",),
    ("repair", HOSTILE),
    ("snapshot", "--meta", f"{HOSTILE}=value"),
    ("backup", f"backup{HOSTILE}"),
    ("backup", f"file{HOSTILE}"),
    ("reinstate", f"backup{HOSTILE}", f"another{HOSTILE}"),
    ("reinstate", HOSTILE, f"file{HOSTILE}"),
    ("erase", HOSTILE, "--yes"),
    ("erase", "copy", "--yes", "--certificate", f"file{HOSTILE}"),
    ("erase", "copy", "--yes", "--certificate", f"certificate{HOSTILE}"),
    ("serve", "--check", "--config", HOSTILE),
    ("migrate", "--check", "--config", HOSTILE),
    ("help", HOSTILE),
    ("completion", HOSTILE),
    ("login", HOSTILE),
    ("logout", HOSTILE),
    ("watch", "--stop"),
    ("init", "--namespace", HOSTILE),
    ("init", HOSTILE),
    ("init", f"file{HOSTILE}"),
    ("status", "-C", HOSTILE),
    ("status", "--data", HOSTILE),
    ("status", "--data", f"file{HOSTILE}"),
    ("status", "--objects", HOSTILE),
    ("status", f"--{HOSTILE}"),
    ("status", "--json", HOSTILE),
    (HOSTILE,),
    ("detach", HOSTILE),
    ("detach",),
    ("status",),
]


@pytest.mark.parametrize("more", [(), ("--verbose",)], ids=["", "verbose"])
def test_no_command_lets_a_name_act(tree: Path, terminal: Terminal, more: tuple[str, ...]) -> None:
    for argv in COMMANDS:
        terminal.type(tree, argv[0], *more, *argv[1:])


def test_a_directory_that_moved_says_so_and_no_more(tree: Path, terminal: Terminal) -> None:
    moved = tree.with_name("moved")
    tree.rename(moved)
    assert terminal.type(moved, "status") == 0
    assert "was" in terminal.said
    assert "before: its history came along" in terminal.said
    moved.rename(tree)
    assert terminal.type(tree, "status") == 0
    assert "before: its history came along" in terminal.said


def test_a_directory_that_is_gone_is_named_and_no_more(
    tree: Path, terminal: Terminal, tmp_path: Path
) -> None:
    tree.rename(tmp_path / "elsewhere")
    for argv in (("status",), ("log",), ("undo", "--dry-run"), ("workspaces",), ("doctor",)):
        terminal.type(tmp_path, *argv)
        terminal.type(tmp_path, argv[0], "-C", str(tree), *argv[1:])
    tree.mkdir()
    for argv in (("status",), ("undo",), ("init",), ("init", "--namespace", "another")):
        terminal.type(tree, *argv)


def test_what_came_in_from_the_namespace_is_named_and_no_more(
    tree: Path, terminal: Terminal, tmp_path: Path
) -> None:
    with holdfast.open(tmp_path / f"vault{HOSTILE}") as vault:
        (name,) = vault.namespaces()
        vault.namespace(name).files.write(f"both{HOSTILE}", "theirs")
        vault.namespace(name).files.write(f"came{HOSTILE}", "theirs")
        (tree / f"both{HOSTILE}").write_text("mine")
    assert terminal.type(tree, "status") == 0
    assert "took in" in terminal.said
    assert "gives way" in terminal.said
    assert terminal.type(tree, "snapshot") == 0
