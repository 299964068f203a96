"""A directory and a namespace that nobody has touched for a year, by command and over HTTP.

Time is made to pass in the rows: the command and the server know no other clock than the real one.
"""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import SnapshotExpired
from holdfast.testing.servers import Begin, running_server

pytestmark = pytest.mark.in_memory

YEAR_US = 366 * 24 * 3600 * 1_000_000


def age(vault: Path) -> None:
    """Makes every snapshot a year older; rows without a checksum are as good as theirs."""
    with closing(sqlite3.connect(vault / "catalog.sqlite")) as database, database:
        database.execute(
            "UPDATE snapshots SET created_at = created_at - ?, expires_at = expires_at - ?,"
            " checksum = NULL",
            (YEAR_US, YEAR_US),
        )


class Shell:
    """The command, in a directory with a vault of its own."""

    def __init__(self, home: Path, command: tuple[str, ...]) -> None:
        self._command = command
        self.vault, self.directory = home / "vault", home / "work"
        self.directory.mkdir()
        self._environ = {**os.environ, "HOLDFAST_DATA": str(self.vault), "HOME": str(home)}

    def __call__(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [*self._command, *arguments],
            cwd=self.directory,
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout


@pytest.fixture
def shell(tmp_path: Path, warm: tuple[str, ...]) -> Shell:
    shell = Shell(tmp_path, warm)
    (shell.directory / "notes.md").write_text("good\n")
    shell("init")
    age(shell.vault)
    return shell


def test_every_command_answers_about_what_there_is(shell: Shell) -> None:
    (known,) = json.loads(shell("log", "--json"))["snapshots"]
    assert known["expires_at"] is None
    assert known["snapshot_id"] in shell("show", "@", "--json")
    (shell.directory / "notes.md").write_text("bad\n")
    assert "notes.md" in shell("status")
    assert "notes.md" in shell("diff", "@")
    shell("gc")
    shell("restore", "@")
    assert (shell.directory / "notes.md").read_text() == "good\n"
    shell("undo")
    assert (shell.directory / "notes.md").read_text() == "bad\n"


def test_a_command_that_fails_is_taken_back(shell: Shell) -> None:
    script = "open('notes.md', 'w').write('bad'); raise SystemExit(3)"
    shell("run", "--rollback-on-failure", "--", sys.executable, "-c", script, code=3)
    assert (shell.directory / "notes.md").read_text() == "good\n"


def test_a_server_answers_about_what_there_is(tmp_path: Path, at_once: Begin) -> None:
    with (
        running_server(tmp_path, begin=at_once) as server,
        holdfast.Client(server.api_key, url=server.url, namespace="alice") as client,
    ):
        client.files.write("a", "0")
        old = client.snapshot("old")
        client.files.write("a", "1")
        only = client.snapshot("only")
        age(server.data)
        assert [snapshot.label for snapshot in client.timeline()] == ["only"]
        assert client.get_snapshot("@").id == client.get_snapshot(only.id).id == only.id
        assert client.at("@").files.read("a") == b"1"
        with pytest.raises(SnapshotExpired):
            client.restore(old)
        client.files.write("a", "2")
        assert [change.key for change in client.diff("@")] == [b"a"]
        assert client.restore("@").verified
        assert client.files.read("a") == b"1"
        client.undo()
        assert client.files.read("a") == b"2"
