"""What a command advises when it refuses can be done, there and then: every hint is typed."""

import json
import os
import re
import shlex
import socket
import subprocess
from pathlib import Path

import pytest

from holdfast.testing.shells import environment

pytestmark = pytest.mark.in_memory

COMMANDS = re.compile(r"`(holdfast [^`]*)`")


class User:
    """A user with a project of two snapshots, and a file that is no text."""

    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        self.command = command
        self.folder, self.project = folder, folder / "project"
        self.project.mkdir()
        self.environ = environment(folder, HOLDFAST_DATA=str(folder / "vault"))
        (self.project / "a").write_text("1")
        self.ok("init")
        (self.project / "binary").write_bytes(b"\0" * 70)
        self.ok("snapshot")

    def __call__(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.command, *argv],
            cwd=self.project,
            env=self.environ,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def ok(self, *argv: str) -> str:
        done = self(*argv)
        assert done.returncode == 0, (argv, done)
        return done.stdout

    def refused(self, *argv: str) -> tuple[str, str]:
        done = self(*argv, "--json")
        assert done.returncode not in (0, 1) or "unavailable" in done.stderr, (argv, done)
        error = json.loads(done.stderr)["error"]
        return error["message"], error["hint"]


@pytest.fixture(scope="module")
def user(home: Path, warm: tuple[str, ...]) -> User:
    folder = home / "hints"
    folder.mkdir()
    return User(folder, warm)


TYPED = [
    "show",
    "show nope",
    "show @ more",
    "log -n -1",
    "log -n x",
    "du -n -1",
    "diff nope",
    "restore @-70",
    "undo nope",
    "run",
    "keys create",
    "keys revoke",
    "keys revoke nope",
    "keys list --tenant nope",
    "keys make",
    "detach nope",
    "serve --port 99999",
    "serve --workers 0",
    "snapshut",
    "bogus",
]


@pytest.mark.parametrize("typed", TYPED)
def test_a_command_in_a_hint_can_be_typed(user: User, typed: str) -> None:
    message, hint = user.refused(*typed.split())
    assert not message.startswith("holdfast")
    advised = COMMANDS.findall(hint)
    assert advised, hint
    for each in advised:
        filled = each.replace("run -- COMMAND", "run -- true").replace("NAME", "somebody")
        if " ID" in filled:
            filled = filled.replace(" ID", " latest")
        assert "COMMAND" not in filled
        user.ok(*shlex.split(filled)[1:])


FILES = {
    "diff ./a": "holdfast diff --path ./a",
    "diff @ binary": "holdfast diff @ --path binary",
    "diff ./a binary": "holdfast diff --path ./a binary",
}


@pytest.mark.parametrize("typed", FILES)
def test_a_file_in_the_place_of_a_snapshot_is_answered_with_how_it_is_named(
    user: User, typed: str
) -> None:
    _, hint = user.refused(*typed.split())
    assert hint == f"Files are named after --path: `{FILES[typed]}`."
    user.ok(*FILES[typed].split()[1:])


WORDS = {
    "restore --path a @": "--path takes all that follows it: say what is missing before --path.",
    "restore --except a @": (
        "--except takes all that follows it: say what is missing before --except."
    ),
    "restore": "`holdfast restore --help` shows how it is used.",
    "export missing/x": "Name a file that you may use, in a directory that is there.",
    "export .": "Name a file that you may use, in a directory that is there.",
    "import missing": "Name a file that you may use, in a directory that is there.",
    "restore @ --to a/below": "Name a directory that is new or empty, where you may write.",
    "restore @ --to .": "Name a directory that is new or empty.",
    "init --namespace ../x": (
        "Use 1 to 128 printable characters; a namespace's name must not read like a path."
    ),
}


@pytest.mark.parametrize("typed", WORDS)
def test_a_hint_without_a_command_is_about_what_was_typed(user: User, typed: str) -> None:
    _, hint = user.refused(*typed.split())
    assert hint == WORDS[typed]


def test_an_ambiguous_id_is_answered_with_ids_that_can_be_typed(user: User) -> None:
    message, hint = user.refused("show", "snap-")
    assert hint == "Give more of the id."
    named = re.findall(r"snap-\w{16}", message)
    assert len(named) == 2
    for each in named:
        assert each in user.ok("show", each)


def test_a_port_that_is_taken_is_answered_with_another(user: User) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        _, hint = user.refused("serve", "--port", str(taken.getsockname()[1]))
    assert hint == (
        "Choose another --port (0 takes one that is free) or --host, or stop what listens there."
    )


def test_a_line_of_rules_that_cannot_be_read_is_named_and_can_be_commented_out(user: User) -> None:
    rules = user.project / ".holdfastignore"
    rules.write_text("ok\n[a\n")
    said = "holdfast: .holdfastignore, line 2, leaves nothing out: a bracket is not closed\n"
    for command in (["status"], ["snapshot"], ["run", "--", "true"]):
        assert user(*command).stderr.count(said) == 1
    (unread,) = json.loads(user.ok("status", "--json"))["coverage"]["unread_rules"]
    assert said == f"holdfast: {unread}\n"
    assert unread in user.ok("doctor")
    assert user("diff").returncode == 0
    rules.write_text("ok\n#[a\n")
    assert user("status").stderr == ""
    rules.unlink()


@pytest.mark.parametrize("flag", ["--name", "--path"])
def test_a_name_that_is_nowhere_is_told_as_it_is_typed(user: User, flag: str) -> None:
    user.ok("snapshot")
    message, hint = user.refused("restore", "@", flag, "nope")
    assert "nope" in message
    assert hint == "Names are from the directory that you are in; --path takes patterns, too."


def test_a_binary_file_is_in_a_patch_with_its_size(tmp_path: Path, warm: tuple[str, ...]) -> None:
    user = User(tmp_path, warm)
    assert "GIT binary patch\nliteral 70\n" in user.ok("diff", "@-1", "@")
    assert "GIT binary patch\nliteral 0\n" in user.ok("diff", "@", "@-1")


def test_what_was_imported_is_said_with_or_without_a_label(
    tmp_path: Path, warm: tuple[str, ...]
) -> None:
    user = User(tmp_path, warm)
    user.ok("export", "../plain.tar", "@")
    user.ok("export", "../first.tar", "@-1")
    label = json.loads(user.ok("show", "@-1", "--json"))["label"]
    told = user.ok("import", "../first.tar")
    assert told.startswith(f'Imported "{label}" of namespace project:')
    told = user.ok("import", "../plain.tar")
    assert told.startswith("Imported a snapshot of namespace project:")


def test_a_vault_is_no_directory_to_insist_on(user: User) -> None:
    inside = user.folder / "vault" / "packs"
    for place in (inside, inside.parent):
        message, hint = user.refused("init", str(place))
        assert "vault" in message
        assert "--force" not in hint
        assert "that the agent works in" in hint


def test_an_archive_that_is_too_large_is_not_said_to_be_split(user: User, tmp_path: Path) -> None:
    archive = tmp_path / "large.tar"
    archive.touch()
    os.truncate(archive, 2 << 40)
    done = user("import", str(archive), "--json")
    assert done.returncode == 1
    error = json.loads(done.stderr)["error"]
    assert error["code"] == "too_large"
    assert "Nothing was imported" in error["hint"]
    assert "holdfast.Limits" in error["hint"]
    assert "Split" not in error["hint"]
