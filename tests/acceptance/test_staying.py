"""The process that a command leaves behind: when there is one, what it holds, and when it ends."""

import ctypes
import fcntl
import json
import os
import pty
import resource
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.cli import thin
from holdfast.testing.shells import environment, read_terminal

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")

COMMAND = (sys.executable, "-P", "-m", "holdfast.cli.main")
INSTALLED = str(Path(sys.executable).with_name("holdfast"))
PATIENCE_S = 30


class Shell:
    """Somebody's shell on their own machine, with a vault of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.vault = folder, folder / "vault"
        self.directory = folder / "project"
        self.directory.mkdir()
        self.session = folder / "session"
        self.session.mkdir(mode=0o700)
        self.environ = environment(
            folder, HOLDFAST_DATA=str(self.vault), XDG_RUNTIME_DIR=str(self.session)
        )
        del self.environ["HOLDFAST_STAY"]

    def run(
        self,
        *words: str,
        command: tuple[str, ...] = COMMAND,
        cwd: Path | None = None,
        confine: Callable[[], object] | None = None,
        **environ: str,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *words],
            cwd=cwd or self.directory,
            env=self.environ | environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            preexec_fn=confine,
        )

    def ok(self, *words: str, cwd: Path | None = None, **environ: str) -> str:
        done = self.run(*words, cwd=cwd, **environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def socket(self) -> Path:
        folder = Path(thin.left_folder(str(self.session)))
        return folder / f"{thin.name_of(str(self.vault))}.sock"

    def is_answered(
        self,
        *words: str,
        cwd: Path | None = None,
        confine: Callable[[], object] | None = None,
        **environ: str,
    ) -> bool:
        """Says whether a command was done without loading the command line's own machinery."""
        done = self.run(*words, cwd=cwd, confine=confine, **environ, PYTHONPROFILEIMPORTTIME="1")
        assert "holdfast.cli.thin" in done.stderr
        return "holdfast.cli.app" not in done.stderr

    def left(self) -> int:
        """Returns the process that was left behind, once it listens."""
        wait_until(self.socket.exists)
        return int(self.socket.with_suffix(".lock").read_text())

    def held(self) -> list[str]:
        """Returns what the process that was left behind has open of the vault and directories."""
        ours = (str(self.vault), str(self.directory))
        return [each for each in held_by(self.left()) if each.startswith(ours)]

    def has_left_none(self) -> bool:
        return not self.socket.parent.exists()

    def close(self) -> None:
        """Ends whatever was left behind, be it still on its way."""
        for process in self.processes():
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)

    def processes(self) -> list[int]:
        """Returns whatever was left behind, be it still on its way."""
        mine, found = f"HOLDFAST_DATA={self.vault}".encode(), list[int]()
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and mine in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        select.select([], [], [], 0.01)


def held_by(process: int) -> list[str]:
    """Returns what a process has open."""
    held: list[str] = []
    for number in os.listdir(f"/proc/{process}/fd"):
        with suppress(FileNotFoundError):  # It was closed just now.
            held.append(os.readlink(f"/proc/{process}/fd/{number}"))
    return held


def is_alive(process: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    (shell.directory / "file").write_text("one")
    shell.ok("init")
    shell.left()
    yield shell
    shell.close()


def test_a_hook_leaves_one_behind_which_answers_the_next(shell: Shell) -> None:
    """An agent's session may be the first that anybody does here."""
    process = shell.left()
    os.kill(process, signal.SIGTERM)
    wait_until(lambda: not is_alive(process))
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "go on"}
    told = json.dumps(event | {"cwd": str(shell.directory)})

    def hook() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, "hook", "run", "claude-code"],
            cwd=shell.directory,
            env=shell.environ | {"PYTHONPROFILEIMPORTTIME": "1"},
            input=told,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )

    assert "holdfast.cli.app" in hook().stderr
    shell.left()
    done = hook()
    assert done.stdout == ""
    assert "holdfast.cli.app" not in done.stderr


def test_every_directory_of_the_vault_is_answered_for(shell: Shell, tmp_path: Path) -> None:
    process = shell.left()
    for number in range(6):
        (tmp_path / f"other{number}").mkdir()
        (tmp_path / f"other{number}" / "file").write_text("x")
        shell.ok("init", cwd=tmp_path / f"other{number}")
    assert shell.is_answered("status")
    for number in range(6):
        other = tmp_path / f"other{number}"
        (other / "file").write_text("changed")
        assert shell.is_answered("snapshot", cwd=other)
        assert "Nothing has changed" in shell.ok("status", cwd=other)
        shell.ok("undo", cwd=other)
        assert (other / "file").read_text() == "x"
    assert shell.left() == process
    told = json.loads(shell.ok("watch", "--status", "--json"))
    assert told["watching"] is None
    assert told["left_behind"]["process"] == process
    assert 1 << 20 < told["left_behind"]["memory_bytes"] < 200 << 20
    assert f"Process {process} was left behind" in shell.ok("watch", "--status")


def test_nothing_of_the_caller_is_kept(shell: Shell) -> None:
    shell.ok("watch", "--stop")
    wait_until(lambda: not shell.socket.exists())
    reading, writing = os.pipe()
    with subprocess.Popen(
        [*COMMAND, "status"],
        cwd=shell.directory,
        env=shell.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=[writing],
    ) as command:
        os.close(writing)
        # All of them end, although the process that is left goes on.
        out, _ = command.communicate(timeout=PATIENCE_S)
    assert b"project" in out
    assert os.read(reading, 1) == b""
    os.close(reading)
    process = shell.left()
    assert os.getsid(process) == process
    assert os.readlink(f"/proc/{process}/cwd") == "/"

    assert shell.is_answered("status")
    allowed = ("/dev/null", f"{shell.session}/", "socket:", "pipe:")
    wait_until(lambda: all(each.startswith(allowed) for each in held_by(process)))
    assert sum(each.startswith("pipe:") for each in held_by(process)) == 2, "its own, for signals"


def test_the_command_that_was_installed_leaves_one_unless_it_is_told_otherwise(
    tmp_path: Path,
) -> None:
    shell = Shell(tmp_path)
    assert shell.run("init", command=(INSTALLED,)).returncode == 0
    process = shell.left()
    told = json.loads(shell.ok("watch", "--status", "--json"))["left_behind"]
    assert told["process"] == process
    assert 500 < told["ends_in_s"] <= 600
    done = shell.run("status", command=(INSTALLED,), PYTHONPROFILEIMPORTTIME="1")
    assert "project" in done.stdout
    assert "holdfast.cli.app" not in done.stderr
    shell.ok("watch", "--stop")
    wait_until(lambda: not is_alive(process))


@pytest.mark.parametrize(
    "environ",
    [
        {"HOLDFAST_STAY": "0"},
        {"HOLDFAST_STAY": "no"},
        {"CI": "1"},
        {"SUDO_UID": "12345"},
        {"XDG_RUNTIME_DIR": "open"},
    ],
    ids=lambda environ: "=".join(*environ.items()),
)
def test_where_it_is_not_wanted_there_is_none_and_none_is_asked(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    shell = Shell(tmp_path)
    (tmp_path / "open").mkdir(mode=0o755)
    if environ.get("XDG_RUNTIME_DIR"):
        environ = {"XDG_RUNTIME_DIR": str(tmp_path / "open")}
    shell.ok("init", **environ)
    assert not shell.is_answered("status", **environ)
    assert shell.has_left_none()
    shell.ok("status")
    shell.left()
    assert shell.is_answered("status")
    assert not shell.is_answered("status", **environ)
    shell.close()


def test_where_the_system_names_no_directory_one_of_our_own_will_do(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.session = Path(f"/tmp/holdfast-{os.geteuid()}")
    try:
        shell.ok("init", XDG_RUNTIME_DIR="")
        process = shell.left()
        assert stat.S_IMODE(shell.session.stat().st_mode) == 0o700
        assert shell.is_answered("status", XDG_RUNTIME_DIR="")
        shell.ok("watch", "--stop", XDG_RUNTIME_DIR="")
        wait_until(lambda: not is_alive(process))
    finally:
        shell.close()


def test_none_is_left_below_the_first_process(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "-rp", "--fork", "true"], check=False).returncode:
        pytest.skip("no process can be the first of its own here")
    shell = Shell(tmp_path)
    (tmp_path / "command").write_text(f"#!/bin/sh\n{' '.join(COMMAND)} init\nexit $?\n")
    (tmp_path / "command").chmod(0o755)
    for command in ([*COMMAND, "init"], [str(tmp_path / "command")]):
        done = subprocess.run(
            ["unshare", "-rp", "--fork", *command],
            cwd=shell.directory,
            env=shell.environ,
            check=False,
            capture_output=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr
        assert shell.has_left_none()


def test_it_ends_when_it_is_idle(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("init", HOLDFAST_STAY="1")
    process = shell.left()
    wait_until(lambda: not is_alive(process))
    assert not shell.socket.exists()
    assert shell.ok("status")
    shell.close()


def test_it_ends_with_its_vault(shell: Shell) -> None:
    process = shell.left()
    assert shell.is_answered("status")
    shutil.copytree(shell.vault, shell.folder / "copy")
    shutil.rmtree(shell.vault)
    wait_until(lambda: not is_alive(process))
    assert not shell.vault.exists()
    assert not shell.socket.exists()


def test_who_comes_after_the_vault_was_replaced_is_not_answered(shell: Shell) -> None:
    process = shell.left()
    (shell.vault / "catalog.sqlite").rename(shell.vault / "away")
    for name in ("catalog.sqlite-wal", "catalog.sqlite-shm"):
        (shell.vault / name).unlink(missing_ok=True)
    other = shell.folder / "other"
    other.mkdir()
    shell.ok("init", "--data", str(shell.folder / "second"), cwd=other, HOLDFAST_STAY="0")
    shutil.copy(shell.folder / "second" / "catalog.sqlite", shell.vault / "catalog.sqlite")
    assert not shell.is_answered("log")
    wait_until(lambda: not is_alive(process))


def test_it_ends_with_the_users_session(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("init")
    process = shell.left()
    assert shell.is_answered("status")
    shutil.rmtree(shell.session)
    (tmp_path / "later").mkdir(mode=0o700)
    later = str(tmp_path / "later")
    assert not shell.is_answered("status", XDG_RUNTIME_DIR=later), "whose session was that?"
    wait_until(lambda: not is_alive(process))
    shell.close()


def test_after_an_upgrade_it_ends_and_the_new_one_takes_its_place(tmp_path: Path) -> None:
    package = Path(thin.__file__).parents[1]
    ignored = shutil.ignore_patterns("__pycache__", "*.c", "server", "testing")
    shutil.copytree(package, tmp_path / "code" / "holdfast", ignore=ignored)
    code = {"PYTHONPATH": str(tmp_path / "code")}
    shell = Shell(tmp_path)
    shell.ok("init", **code)
    process = shell.left()
    assert shell.is_answered("status", **code)
    assert not shell.is_answered("status"), "another installation was believed"
    changed = tmp_path / "code" / "holdfast" / "cli" / "words.py"
    changed.write_text(changed.read_text().replace("just now", "this very moment"))
    assert "this very moment" in shell.ok("status", **code)
    wait_until(lambda: not is_alive(process))
    shell.ok("status", **code)
    assert shell.left() != process
    assert "this very moment" in shell.ok("status", **code)
    shell.close()


def test_it_is_to_the_system_what_the_caller_is(shell: Shell) -> None:
    def modes(mask: int, name: str, **environ: str) -> list[int]:
        place = shell.folder / name / "in" / "there"
        before = os.umask(mask)
        try:
            shell.ok("restore", "@", "--to", str(place), **environ)
        finally:
            os.umask(before)
        return [each.stat().st_mode for each in (place.parents[1], place.parent, place)]

    assert shell.is_answered("status")
    alone = [modes(mask, f"alone{mask}", HOLDFAST_STAY="0") for mask in (0o077, 0o022)]
    assert alone[0] != alone[1]
    assert [modes(mask, f"asked{mask}") for mask in (0o077, 0o022)] == alone
    utc = shell.ok("log", TZ="UTC")
    assert shell.ok("log", TZ="XXX-11") != utc
    assert shell.ok("log", TZ="UTC") == utc
    assert shell.is_answered("log", TZ="XXX-11")


def test_many_at_once_leave_one(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("init", HOLDFAST_STAY="0")
    commands = [
        subprocess.Popen(
            [*COMMAND, "status"],
            cwd=shell.directory,
            env=shell.environ,
            stdout=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    assert [command.wait(PATIENCE_S) for command in commands] == [0] * 4
    process = shell.left()
    assert shell.is_answered("status")
    assert shell.left() == process
    shell.close()


def test_a_pager_opens_whether_it_is_there_or_not(shell: Shell) -> None:
    def typed(*words: str, **environ: str) -> bytes:
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [*COMMAND, *words],
            cwd=shell.directory,
            env=shell.environ | {"TERM": "xterm", "PAGER": "sed s/^/paged:/"} | environ,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        ) as command:
            os.close(theirs)
            seen = read_terminal(ours)
            assert command.wait(PATIENCE_S) == 0
        return seen

    process = shell.left()
    (shell.directory / "file").write_text("two")
    for command in ("log", "diff"):
        assert b"paged:" in typed(command)
        loaded = typed(command, "--json", PYTHONPROFILEIMPORTTIME="1")
        assert b"holdfast.cli.app" not in loaded, "it pages nothing, and was not answered"
        loaded = typed(command, PAGER="cat", PYTHONPROFILEIMPORTTIME="1")
        assert b"holdfast.cli.app" not in loaded, "nobody wants a pager, and it was not answered"
    assert shell.left() == process


RUDE = """
import ctypes, os, sys
from holdfast.cli import thin
address, directory, is_modest = sys.argv[1:]
said = [f"{name}={os.environ[name]}" for name in thin.ENVIRONMENT if name in os.environ]
asked = ["0 0 80 utf-8 18", directory, str(len(said)), *said, "status"]
asked = [os.fsencode(each) for each in asked]
if is_modest == "yes":
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
connection = thin.connect(*os.path.split(address.removesuffix(".sock")))
try:
    connection.sendall(thin.pack(asked))
    heard = [thin.receive(connection)[0], thin.receive(connection)[0]]
except OSError:
    heard = []
print(*(each.decode() for each in heard))
"""
"""A client that asks whatever it is greeted with."""


@pytest.mark.parametrize(
    ("around", "is_modest", "expected"),
    [
        ([], "no", "holdfast exit"),
        ([], "yes", ""),
        (["unshare", "-rm"], "no", ""),
        (["unshare", "-r"], "no", ""),
    ],
)
def test_who_is_confined_otherwise_is_not_answered(
    shell: Shell, around: list[str], is_modest: str, expected: str
) -> None:
    if around and subprocess.run([*around, "true"], check=False).returncode:
        pytest.skip("no process can have mounts of its own here")
    words = [sys.executable, "-c", RUDE, str(shell.socket), str(shell.directory), is_modest]
    done = subprocess.run(
        [*around, *words], env=shell.environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == expected
    assert shell.is_answered("status"), "it goes on for others"


def limited(name: int) -> Callable[[], None]:
    hard = resource.getrlimit(name)[1]
    return lambda: resource.setrlimit(name, (1 << 40, hard))


CONFINED: dict[str, Callable[[], object]] = {
    "size": limited(resource.RLIMIT_FSIZE),
    "time": limited(resource.RLIMIT_CPU),
    "memory": limited(resource.RLIMIT_AS),
    "data": limited(resource.RLIMIT_DATA),
    "nice": lambda: os.nice(1),
    "sandbox": lambda: ctypes.CDLL(None).prctl(38, 1, 0, 0, 0),  # PR_SET_NO_NEW_PRIVS
}


@pytest.mark.parametrize("confine", CONFINED.values(), ids=CONFINED)
def test_who_is_confined_leaves_none(tmp_path: Path, confine: Callable[[], object]) -> None:
    shell = Shell(tmp_path)
    shell.ok("init", HOLDFAST_STAY="0")
    done = shell.run("status", "-q", confine=confine)
    left = shell.processes()
    shell.close()
    assert (done.returncode, left) == (0, [])


def test_who_may_do_less_or_more_works_alone(shell: Shell) -> None:
    process = shell.left()
    assert shell.is_answered("status")
    for name, confine in CONFINED.items():
        assert not shell.is_answered("status", confine=confine), name
    few = (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    assert not shell.is_answered(
        "status", confine=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, few)
    )
    if os.geteuid() == 0:
        assert not shell.is_answered("status", confine=lambda: os.setgroups([12345]))
        assert not shell.is_answered("status", confine=lambda: os.setegid(12345))
    assert shell.is_answered("status"), "it goes on for its equals"
    assert shell.left() == process


def test_the_environment_is_the_callers(shell: Shell, tmp_path: Path) -> None:
    for name in ("HOME", "TMPDIR", "SQLITE_TMPDIR", "LD_LIBRARY_PATH"):
        assert not shell.is_answered("status", **{name: str(tmp_path / "other")}), name
    other = {"HOLDFAST_DATA": str(tmp_path / "other")}
    assert shell.run("status", **other).returncode == 3
    database = shell.run("status", HOLDFAST_DATABASE_URL="postgresql://127.0.0.1:9/nobody")
    assert database.returncode not in (0, 3)
    (shell.directory / "größe").write_text("x")
    alone = shell.ok("status", LC_ALL="C", PYTHONIOENCODING="ascii", HOLDFAST_STAY="0")
    assert shell.ok("status", LC_ALL="C", PYTHONIOENCODING="ascii") == alone
    ascii_names = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    assert not shell.is_answered("status", **ascii_names)
    assert shell.is_answered("status", NO_COLOR="1", LANG="de_DE.UTF-8", COLUMNS="20")


def damage_catalog(shell: Shell) -> None:
    with (shell.vault / "catalog.sqlite").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (os.fstat(file.fileno()).st_size - 4096))


def damage_packs(shell: Shell) -> None:
    for pack in (shell.vault / "packs").rglob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(b"\0" * pack.stat().st_size)


@pytest.mark.parametrize(
    ("damage", "words"),
    [(damage_catalog, ("log",)), (damage_packs, ("restore", "@-1", "--to", "elsewhere"))],
    ids=["catalog", "packs"],
)
def test_damage_is_met_as_by_a_process_of_ones_own(
    shell: Shell, damage: Callable[[Shell], None], words: tuple[str, ...]
) -> None:
    large = shell.directory / "large"
    large.write_bytes(os.urandom(1 << 20))
    shell.ok("snapshot")
    large.unlink()
    shell.ok("snapshot")
    assert shell.is_answered(*words[:2], *(("--dry-run",) if words[1:] else ()))
    wait_until(lambda: not shell.held())
    damage(shell)
    answered = shell.run(*words)
    alone = shell.run(*words, HOLDFAST_STAY="0")
    assert (answered.returncode, answered.stderr) == (alone.returncode, alone.stderr)
    assert answered.returncode == 5, answered


def test_what_was_stored_anew_is_said_to_who_asked(shell: Shell) -> None:
    model = shell.directory / "model"
    model.write_bytes(os.urandom(400_000))
    shell.ok("snapshot")
    wait_until(lambda: not shell.held())
    for pack in (shell.vault / "packs").rglob("*.pack"):
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 1
        pack.chmod(0o600)
        pack.write_bytes(data)
    shutil.copyfile(model, shell.directory / "copy")
    done = shell.run("snapshot", PYTHONPROFILEIMPORTTIME="1")
    assert "holdfast.cli.app" not in done.stderr, "it was answered"
    assert "was damaged was stored anew" in done.stderr


def test_nobody_waits_for_a_directory_that_another_has(shell: Shell) -> None:
    assert shell.is_answered("status")
    (lock,) = (shell.vault / "workspaces").glob("*/lock")
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        wait_until(lambda: not shell.held())
        shell.ok("watch", "--stop")


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody else may use the vault of another user")
def test_none_is_left_in_the_vault_of_another_user(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("init", HOLDFAST_STAY="0")
    os.chown(shell.vault, 12345, 12345)
    shell.ok("status")
    left = shell.processes()
    shell.close()
    assert left == []
    assert shell.has_left_none()


def test_a_log_that_was_swapped_for_a_link_is_not_followed(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("init", HOLDFAST_STAY="0")
    (tmp_path / "precious").write_text("kept")
    shell.socket.parent.mkdir(mode=0o700)
    shell.socket.with_suffix(".log").symlink_to(tmp_path / "precious")
    shell.ok("status")
    wait_until(lambda: shell.processes() == [])
    assert (tmp_path / "precious").read_text() == "kept"
    assert not shell.socket.exists()


def leave(shell: Shell, *lines: str) -> subprocess.Popen[bytes]:
    """Starts a program that prepares something, and leaves a process behind as commands do."""
    script = "\n".join(
        (
            "import os, pathlib, shutil, sys, time",
            "from holdfast.cli import leaving",
            "vault = pathlib.Path(sys.argv[1])",
            *lines,
            "environ = os.environ | {'HOLDFAST_STAY': '1'}",
            "leaving.leave_behind(['status', '--data', str(vault)], environ)",
        )
    )
    command = [sys.executable, "-c", script, str(shell.vault)]
    return subprocess.Popen(command, env=shell.environ, stdout=subprocess.PIPE)


def test_nobody_waits_while_it_is_loading(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("init", HOLDFAST_STAY="0")
    with leave(
        shell,
        "class Slow:",
        "    def find_spec(self, name, *_):",
        "        if name != 'holdfast.cli.staying': return",
        "        for _ in range(500):",
        "            if (vault / 'go').exists(): return",
        "            time.sleep(0.01)",
        "        (vault / 'late').touch()",
        "sys.meta_path.insert(0, Slow())",
    ) as command:
        command.communicate(timeout=PATIENCE_S)
        assert shell.processes() != []
        assert not (shell.vault / "late").exists(), "the end came when it had loaded"
        (shell.vault / "go").touch()
        process = shell.left()
        assert os.getsid(process) == process
    wait_until(lambda: shell.processes() == [])


def test_who_has_too_much_memory_does_not_stay(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("init", HOLDFAST_STAY="0")
    with leave(
        shell, "from holdfast.cli import staying", "staying.MOST_BYTES = 1 << 10"
    ) as command:
        command.communicate(timeout=PATIENCE_S)
    wait_until(lambda: shell.processes() == [])
    assert shell.has_left_none()


def test_a_vault_that_is_removed_meanwhile_is_not_made_anew(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.ok("init", HOLDFAST_STAY="0")
    with leave(
        shell,
        "from holdfast.cli import staying",
        "real = staying.Door",
        "def remove(*given, **named):",
        "    door = real(*given, **named)",
        "    shutil.rmtree(vault)",
        "    return door",
        "staying.Door = remove",
    ) as command:
        command.communicate(timeout=PATIENCE_S)
    wait_until(lambda: shell.processes() == [])
    assert not shell.vault.exists()
    assert not shell.socket.exists()


@pytest.mark.parametrize("again", [False, True], ids=["removed", "replaced"])
def test_nothing_is_written_to_a_vault_that_is_no_longer_the_same(
    tmp_path: Path, *, again: bool
) -> None:
    shell = Shell(tmp_path)
    shell.ok("init", HOLDFAST_STAY="0")
    with leave(
        shell,
        "real, catalog = os.fork, vault / 'catalog.sqlite'",
        "def fork():",
        "    process = real()",
        "    if not process:",
        "        shutil.copy(catalog, vault / 'other')",
        "        catalog.unlink()",
        f"        if {again}: (vault / 'other').rename(catalog)",
        "    return process",
        "os.fork = fork",
    ) as command:
        command.communicate(timeout=PATIENCE_S)
    wait_until(lambda: shell.processes() == [])
    assert shell.has_left_none()
