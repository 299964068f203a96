"""`holdfast watch` as somebody starts it: snapshots by themselves, and commands that are fast."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from holdfast.cli import thin
from holdfast.testing.servers import COMMAND

IN_PYTHON = (sys.executable, "-P", "-m", "holdfast.cli.main")
"""The client in Python: it says what it loads."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs inotify")


class Shell:
    """Somebody's shell in a directory, with a vault of its own."""

    def __init__(self, folder: Path, *, vault: Path | None = None) -> None:
        self.directory = folder / "project"
        self.directory.mkdir()
        self.vault = vault or folder / "vault"
        self.environ = {**os.environ, "HOME": str(folder), "HOLDFAST_DATA": str(self.vault)}
        self.watching: list[subprocess.Popen[str]] = []

    def run(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *words],
            cwd=cwd or self.directory,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def labels(self) -> list[str | None]:
        document = json.loads(self.run("log", "--json").stdout)
        return [each["reason"] for each in document["snapshots"]]

    def watch(self, *options: str) -> subprocess.Popen[str]:
        """Starts watching, and returns when it does."""
        process = subprocess.Popen(
            [*COMMAND, "watch", *options],
            cwd=self.directory,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.watching.append(process)
        assert line(process) == f"Watching {self.directory}\n"
        return process

    @property
    def socket(self) -> Path:
        return self.vault / "run" / f"{thin.name_of(str(self.directory))}.sock"

    def close(self) -> None:
        for process in self.watching:
            if process.poll() is None:
                process.kill()
            process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    """Returns the next line that a process writes: waits for it as long as it takes."""
    assert process.stdout is not None
    return process.stdout.readline()


def is_answered_by_another_process(shell: Shell, *words: str, cwd: Path | None = None) -> bool:
    """Says whether a command was done without loading the command line's own machinery."""
    done = subprocess.run(
        [*IN_PYTHON, *words],
        cwd=cwd or shell.directory,
        env={**shell.environ, "PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "holdfast.cli.thin" in done.stderr
    return "holdfast.cli.app" not in done.stderr


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    (shell.directory / "file").write_text("one")
    assert shell.run("init").returncode == 0
    yield shell
    shell.close()


def test_a_change_becomes_a_snapshot_when_it_is_quiet(shell: Shell) -> None:
    process = shell.watch("--quiet-for", "0.2")
    (shell.directory / "new/deep").mkdir(parents=True)
    (shell.directory / "new/deep/file").write_text("x")
    assert re.fullmatch(r"\S+ \S+  snap-\w+\n", line(process))
    assert "Nothing has changed." in shell.run("status").stdout
    assert shell.labels() == ["watch", "holdfast init"]


TERMINALS = (
    *(b"1 1 80 " + name for name in (b"idna", b"punycode", b"undefined", b"utf-7", b"hex", b"")),
    *(b"1 1 -1 utf-8", b"1 1 99999999999 utf-8", b"1 1 80", b"x y z utf-8", b"1 1 80 \xff"),
)
STRANGE = (
    *(b"", b"\0", b"\xff\xfe", b"-1", b"0", b"9" * 5000, b"a" * 100_000, b"=", b"/", b"..", b"--"),
    *(b"--help", b"--json", b"-C", b"-C/nowhere", b"--data", b"--data=x://", b"-n", b"--limit"),
    *(b"HOME=\xff", b"TERM", "€😀".encode(), "٣".encode(), b"\xed\xa0\x80", b"%s{0}\x1b[2J"),
)


def strange(seed: random.Random, cwd: bytes) -> bytes:
    """Returns what no client of ours sends, and somebody might."""
    command = seed.choice([b"status", b"log", b"show", b"diff", b"pin"])
    fields = [b"1 1 80 utf-8 18", cwd, b"1", b"TERM=dumb", command]
    for _ in range(seed.randint(1, 3)):
        match seed.randrange(4):
            case 0:
                fields[0] = seed.choice(TERMINALS)
            case 1:
                fields[seed.randrange(len(fields))] = seed.choice(STRANGE)
            case 2:
                fields.insert(seed.randint(0, len(fields)), seed.choice(STRANGE))
            case _ if len(fields) > 1:
                fields.pop(seed.randrange(len(fields)))
            case _:
                pass
    message = bytearray(thin.pack(fields))
    for _ in range(seed.choice([0, 0, 0, 1, 8])):
        message[seed.randrange(len(message))] = seed.randrange(256)
    return bytes(message[: seed.choice([len(message)] * 4 + [seed.randrange(len(message))])])


def test_whatever_another_program_sends_snapshots_go_on(shell: Shell) -> None:
    process = shell.watch("--quiet-for", "0.2")
    seed, folder, cwd = random.Random(7), str(shell.vault / "run"), os.fsencode(shell.directory)
    for _ in range(300):
        connection = thin.connect(folder, thin.name_of(str(shell.directory)))
        assert connection is not None
        with closing(connection), suppress(OSError):
            connection.settimeout(30)
            thin.receive(connection)
            connection.sendall(strange(seed, cwd))
            connection.shutdown(socket.SHUT_WR)
            thin.receive(connection)
    assert process.poll() is None
    assert is_answered_by_another_process(shell, "status")
    (shell.directory / "new").write_text("x")
    assert re.fullmatch(r"\S+ \S+  snap-\w+\n", line(process))


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_was_removed_after_its_snapshot_does_not_come_back(
    shell: Shell, *, is_killed: bool
) -> None:
    process = shell.watch("--quiet-for", "0.2")
    (shell.directory / "new").write_text("x")
    assert "snap-" in line(process)
    if is_killed:
        process.kill()
        process.wait()
    (shell.directory / "new").unlink()
    done = shell.run("run", "--", "ls")
    assert "through the namespace" not in done.stderr
    assert done.stdout == "file\n"
    assert [*os.listdir(shell.directory)] == ["file"]


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_was_moved_back_after_a_snapshot_stays(shell: Shell, *, is_killed: bool) -> None:
    here, away = shell.directory, shell.directory.parent / "away"
    for path in (here / "folder", away):
        path.mkdir()
    (here / "folder/file").write_text("one")
    (here / "kept").write_text("one")
    assert shell.run("snapshot").returncode == 0
    process = shell.watch("--no-snapshots")
    for name in ("file", "folder", "kept"):
        (here / name).rename(away / name)
    (here / "kept").write_text("two")
    assert is_answered_by_another_process(shell, "snapshot")
    if is_killed:
        process.kill()
        process.wait()
    for name in ("file", "folder", "kept"):
        (away / name).replace(here / name)
    done = shell.run("run", "--", "cat", "file", "folder/file", "kept")
    assert (done.stdout, done.returncode) == ("oneoneone", 0), done.stderr
    assert "through the namespace" not in done.stderr
    assert sorted(os.listdir(here)) == ["file", "folder", "kept"]


def test_no_snapshot_is_taken_when_nothing_has_changed(shell: Shell) -> None:
    process = shell.watch("--quiet-for", "0.2")
    # Something happens, and is not there any more when it is quiet.
    (shell.directory / "passing").write_text("x")
    (shell.directory / "passing").unlink()
    assert "Nothing has changed." in shell.run("status").stdout
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30) == ("", "")
    assert shell.labels() == ["holdfast init"]

    # What happened while nobody watched is found at the start.
    (shell.directory / "meanwhile").write_text("x")
    process = shell.watch("--quiet-for", "0.2")
    line(process)
    (shell.directory / "last").write_text("x")
    line(process)
    assert shell.labels() == ["watch", "watch", "holdfast init"]


def test_a_directory_that_is_never_quiet_is_kept_all_the_same(shell: Shell) -> None:
    process = shell.watch("--quiet-for", "60", "--max-interval", "0.5")
    (shell.directory / "busy").write_text("x")
    assert "snap-" in line(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(shell: Shell, number: signal.Signals) -> None:
    process = shell.watch()
    assert shell.socket.is_socket()
    assert shell.socket.stat().st_mode & 0o777 == 0o600
    assert shell.socket.parent.stat().st_mode & 0o777 == 0o700
    process.send_signal(number)
    assert process.wait(30) == 0
    assert process.communicate()[1] == ""
    assert not shell.socket.exists()


def test_there_is_one_per_directory(shell: Shell) -> None:
    process = shell.watch()
    second = shell.run("watch")
    assert second.returncode == 4
    assert f"being watched already, by process {process.pid}" in second.stderr
    assert shell.socket.is_socket(), "the second took the first one's socket away"


def test_what_a_dead_one_left_is_in_nobodys_way(shell: Shell) -> None:
    process = shell.watch()
    process.kill()
    process.wait()
    assert shell.socket.is_socket()
    assert not is_answered_by_another_process(shell, "status")
    assert shell.run("status").returncode == 0
    shell.watch()
    assert is_answered_by_another_process(shell, "status")


@pytest.mark.parametrize("vault_name", ["vault", "v" * 120 + "/" + "w" * 80])
def test_hot_commands_are_answered_by_the_process_that_stays(
    tmp_path: Path, vault_name: str
) -> None:
    shell = Shell(tmp_path, vault=tmp_path / vault_name)
    shell.vault.parent.mkdir(exist_ok=True)
    below = shell.directory / "below"
    below.mkdir()
    assert shell.run("init").returncode == 0
    try:
        assert not is_answered_by_another_process(shell, "status")
        shell.watch("--no-snapshots")
        for command in ["status", "log", "diff", "snapshot"]:
            assert is_answered_by_another_process(shell, command), command
        assert is_answered_by_another_process(shell, "status", cwd=below)
        assert is_answered_by_another_process(shell, "-C", str(below), "status", cwd=tmp_path)
        assert not is_answered_by_another_process(shell, "status", cwd=tmp_path)
        assert not is_answered_by_another_process(shell, "workspaces")
    finally:
        shell.close()


def test_answers_are_those_of_a_process_of_ones_own(shell: Shell) -> None:
    (shell.directory / "file").write_text("two")
    (shell.directory / "new\x1b[31m\u00fc").write_text("x")
    commands = [
        ["status"],
        ["status", "--json"],
        ["log"],
        ["log", "--json"],
        ["diff"],
        ["diff", "--stat"],
        ["show", "@"],
        ["show", "snap-nonesuch"],
        ["show", "snap-nonesuch", "--json"],
        ["status", "--nonsense"],
        ["restore", "@", "--dry-run"],
        ["log", "--help"],
    ]
    alone = [shell.run(*words) for words in commands]
    shell.watch("--no-snapshots")
    for words, expected in zip(commands, alone, strict=True):
        found = shell.run(*words)
        assert (found.returncode, found.stderr) == (expected.returncode, expected.stderr), words
        assert without_times(found.stdout) == without_times(expected.stdout), words
    assert is_answered_by_another_process(shell, "status")


def without_times(text: str) -> str:
    return re.sub(r"just now|\d+ minutes? ago", "then", text)


def test_a_whole_story_through_the_process_that_stays(shell: Shell) -> None:
    shell.watch("--no-snapshots")
    path = shell.directory / "file"
    path.write_text("two")
    taken = json.loads(shell.run("snapshot", "-m", "second", "--json").stdout)
    path.write_text("three")
    assert shell.run("undo").returncode == 0
    assert path.read_text() == "two"
    assert shell.run("redo").returncode == 0
    assert path.read_text() == "three"
    assert shell.run("restore", taken["snapshot_id"]).returncode == 0
    assert path.read_text() == "two"
    assert shell.run("pin", taken["snapshot_id"]).returncode == 0
    assert is_answered_by_another_process(shell, "unpin", taken["snapshot_id"])
    assert shell.run("verify").returncode == 0


def test_a_vault_inside_of_the_directory_works_too(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    del shell.environ["HOLDFAST_DATA"]
    shell.vault = shell.directory / ".holdfast"
    assert shell.run("--data", ".holdfast", "init").returncode == 0
    try:
        process = shell.watch("--quiet-for", "0.2")
        assert is_answered_by_another_process(shell, "status")
        (shell.directory / "file").write_text("x")
        assert "snap-" in line(process)
        process.terminate()
        # Its own writing in there is no change.
        assert process.communicate()[0] == ""
        assert shell.labels() == ["watch", "holdfast init"]
    finally:
        shell.close()


PLACE = b"1 1 80 utf-8 18"
HOSTILE: list[bytes] = [
    b"",
    b"\0",
    b"\0\0\0\x08\xff\xff\xff\xffshrt",
    b"\xff\xff\xff\xff",
    b"\0\0\0\x09half",
    *(
        thin.pack([b"0 0 80 " + encoding + b" 18", b"/", b"0", b"status", *words])
        for encoding in (b"idna", b"punycode", b"utf-16", b"undefined", b"rot13", b"unicode_escape")
        for words in ([], [b"\xff" * 300], [b"--help"])
    ),
    *(
        thin.pack([b"0 0 %s utf-8 18" % width, b"/", b"0", b"status", b"--help"])
        for width in (b"-1", b"0", b"9" * 12, b"9" * 6000)
    ),
    *(
        thin.pack([PLACE, cwd, b"0", b"status"])
        for cwd in (b"", b"\0", b"relative", b"/" * 5000, b"/proc/self/fd", b"\xff", b"/gone")
    ),
    *(
        thin.pack([PLACE, b"/", b"0", *words])
        for words in (
            [b"status", b"--version"],
            [b"status", b"--no-such"],
            [b"status", b"-C"],
            [b"status", b"-C\0"],
            [b"status", b"--data", b"postgresql://\0"],
            [b"status", b"@/etc/passwd"],
            [b"log", b"-n", b"9" * 5000],
            [b"diff", b"\0", b"\xff"],
            [b"--", b"status"],
            [b"undo", b"-C", b"/"],
        )
    ),
    thin.pack([PLACE, b"/", b"-5", b"A=B", b"status"]),
    thin.pack([PLACE, b"/", b"1", b"HOLDFAST_DATA=\0", b"status"]),
]


def test_nothing_that_another_program_sends_ends_it(shell: Shell) -> None:
    shell.run("init")
    process = shell.watch("--no-snapshots")
    for message in HOSTILE:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(shell.socket))
            connection.settimeout(60)
            thin.receive(connection)
            connection.sendall(message)
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):  # It does not read all of some.
                while connection.recv(1 << 16):  # Until it is done with this one.
                    pass
        assert process.poll() is None, message
    assert is_answered_by_another_process(shell, "status")


def answer_to(shell: Shell, *words: str, data: Path | None = None) -> list[bytes]:
    """Returns what the process that watches answers to a request as somebody else might make it."""
    sent = {name: shell.environ[name] for name in thin.OF_A_PROCESS if name in shell.environ}
    sent |= {} if data is None else {"HOLDFAST_DATA": str(data)}
    environ = [f"{name}={value}" for name, value in sent.items()]
    fields = ["0 0 80 utf-8 18", str(shell.directory), str(len(environ)), *environ, *words]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(shell.socket))
        connection.settimeout(60)
        thin.receive(connection)
        connection.sendall(thin.pack([os.fsencode(field) for field in fields]))
        return thin.receive(connection)


def test_only_commands_for_its_own_vault_and_directory_are_answered(
    shell: Shell, tmp_path: Path
) -> None:
    shell.watch("--no-snapshots")
    other, link = tmp_path / "other", tmp_path / "link"
    link.symlink_to(shell.vault)
    assert shell.run("--data", str(other), "init").returncode == 0
    assert answer_to(shell, "status", data=shell.vault)[:2] == [b"exit", b"0"]
    assert answer_to(shell, "status", "--data", str(shell.vault))[:2] == [b"exit", b"0"]
    for elsewhere in (
        ("status", "--data", str(other)),
        ("status", f"--data={tmp_path / 'nothing'}"),
        ("undo", "--data", "postgresql://127.0.0.1:9/nobody"),
        ("status", "--data", str(shell.vault), "-C", str(tmp_path)),
        ("status", "--data", str(shell.vault), f"-qC{tmp_path}"),
        ("status", "--data", str(link)),
    ):
        assert answer_to(shell, *elsewhere) == [b"no"], elsewhere
    assert answer_to(shell, "status", data=other) == [b"no"]
    # Whoever asked does it without us.
    for data in (other, link):
        assert not is_answered_by_another_process(shell, "--data", str(data), "status")
    assert is_answered_by_another_process(shell, "status")


def test_in_the_background_until_it_is_stopped(shell: Shell) -> None:
    started = shell.run("watch", "--background", "--quiet-for", "0.1")
    assert started.returncode == 0
    assert is_answered_by_another_process(shell, "status")
    again = shell.run("watch", "--background")
    assert again.returncode == 4
    assert "being watched already" in again.stderr
    stopped = shell.run("watch", "--stop")
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert not shell.socket.exists()
    assert shell.run("watch", "--stop").returncode == 3


def test_a_directory_that_is_not_attached_is_refused(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert shell.run("watch").returncode == 3


def test_after_a_failure_it_recovers_by_itself(shell: Shell) -> None:
    process = shell.watch("--quiet-for", "0.1")
    packs = shell.vault / "packs"
    packs.rename(shell.vault / "away")
    packs.write_text("in the way")
    make_large(shell.directory / "large")
    assert process.stderr is not None
    assert "no snapshot could be taken" in process.stderr.readline()
    assert "tried again" in process.stderr.readline()
    packs.unlink()
    (shell.vault / "away").rename(packs)
    assert "can be taken again" in process.stderr.readline()
    assert "snap-" in line(process)


def make_large(path: Path) -> None:
    """Content that needs a pack of its own; small batches live in the catalog."""
    path.write_bytes(os.urandom(8 << 20))
