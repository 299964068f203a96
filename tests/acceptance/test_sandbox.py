"""Commands stay where they were put: ways out are tried, and none of them leads anywhere."""

import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import SandboxUnavailable
from holdfast.model.commands import Stopped
from holdfast.sandbox import probing, tallying
from holdfast.sandbox.confining import HOME, USUAL_ID, Become
from holdfast.sandbox.filtering import MACHINES, make_filter
from holdfast.sandbox.limits import Allowance, find_user
from holdfast.sandbox.probing import Sandbox
from holdfast.sandbox.running import End, Order
from holdfast.testing.sandboxes import why_none
from holdfast.workspace.owning import hand_over

needs_sandbox = pytest.mark.skipif(why_none() is not None, reason=why_none() or "")

MIB = 1 << 20


class Box:
    """Runs commands of a shell in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sandbox = Sandbox()
        # Of each test: the kernel counts the processes of all that have the same.
        self._number = zlib.crc32(str(folder).encode())
        self.user = find_user(self._number)

    def __call__(
        self, command: str, *, stdin: bytes = b"", has_network: bool = False, **allowed: float
    ) -> tuple[End, str]:
        said: list[bytes] = []
        if self.user not in (None, self.folder.stat().st_uid):
            hand_over(str(self.folder), self.user)
        order = Order(
            command=["/bin/bash", "-c", command],
            folder=str(self.folder),
            cwd=HOME,
            allowance=Allowance(**allowed),  # pyright: ignore[reportArgumentType] - as the test says
            stdin=stdin,
            has_network=has_network,
            number=self._number,
        )
        end = self._sandbox.run(order, lambda _, text: said.append(text))
        return end, b"".join(said).decode("utf-8", "replace")


@pytest.fixture
def box(tmp_path: Path) -> Box:
    folder = tmp_path / "folder"
    folder.mkdir()
    return Box(folder)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("nobody's business")
    return path


@needs_sandbox
def test_a_command_has_its_folder_and_says_what_it_did(box: Box) -> None:
    end, said = box("cat > workspace/a.txt; cat workspace/a.txt; exit 3", stdin=b"hello")
    assert (end.exit_code, said, end.stopped) == (3, "hello", None)
    assert (box.folder / "a.txt").read_text() == "hello"
    assert box("kill -TERM $$")[0].exit_code == 128 + signal.SIGTERM


@needs_sandbox
def test_nothing_of_the_machine_is_there_but_its_programs(box: Box, secret: Path) -> None:
    (box.folder / "way-out").symlink_to(secret)
    (box.folder / "up").symlink_to("/")
    _, said = box(
        f"cat workspace/way-out workspace/up{secret} {secret} /etc/shadow 2>/dev/null; "
        f"ls /root /srv /var /run {secret.parent} 2>/dev/null; "
        "env; ls /home; echo; cat /proc/*/comm"
    )
    assert "nobody's business" not in said
    assert "root:" not in said
    assert "PYTEST" not in said
    assert set(said.rpartition("\n\n")[2].split()) <= {"bwrap", "bash", "cat"}


@needs_sandbox
def test_nothing_runs_where_what_is_private_lies_among_the_programs(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/usr/share")
    for seen in (Path("/usr/src/app/data"), tmp_path / "link/data", Path("/bin")):
        with pytest.raises(SandboxUnavailable, match="could read"):
            Sandbox(seen).check()
        order = Order(command=["true"], folder=str(seen), cwd=HOME, allowance=Allowance())
        with pytest.raises(SandboxUnavailable, match="could read"):
            Sandbox().run(order, lambda _stream, _text: None)
    Sandbox(tmp_path, Path("/usr-of-another")).check()


@needs_sandbox
def test_other_processes_are_neither_seen_nor_ended(box: Box) -> None:
    mine = os.getpid()
    end, said = box(f"kill -0 {mine} && echo seen; kill -KILL {mine} $PPID -1; ls -d /proc/[0-9]*")
    assert "seen" not in said
    assert end.stopped is None
    os.kill(mine, 0)


REFUSED = {
    "mounting": "mount -t tmpfs none /tmp",
    "mounting what it can read as what it can write": "mount -o remount,rw /usr",
    "namespaces": "unshare --user --map-root-user true",
    "devices": "mknod workspace/disk b 254 0",
    "setuid": "cp /bin/bash workspace/b && chmod u+s workspace/b",
    "system": "echo x > /usr/bin/holdfast-was-here",
    "root": "echo x > /holdfast-was-here",
    # Opened, and nothing written: whoever finds that it can be shall still have a machine.
    "settings of the kernel": ": >> /proc/sys/kernel/core_pattern",
    "requests to the kernel": ": >> /proc/sysrq-trigger",
    "debugging of the kernel": ": >> /proc/dynamic_debug/control",
    "the program of the first process": ": >> /proc/1/exe",
    "memory of the kernel": "head -c 1 /proc/kcore",
    "a device that all have": "mknod workspace/null c 1 3",
    "becoming another": "su -c true",
    "becoming root": "sudo -n true",
    "other users": "newuidmap $$ 0 0 1",
    "root's number": "setpriv --reuid 0 true",
    "root's group": "setpriv --regid 0 --clear-groups true",
    "capabilities": "setpriv --inh-caps +chown --ambient-caps +chown true",
    "the owner of a file": "touch workspace/f && chown 0:0 workspace/f",
    # As they are: it would be the machine's own.
    "the mode of a program": "chmod 755 /usr/bin/env",
    **{f"the mode of {name}": f"chmod 666 /dev/{name}" for name in ("null", "zero", "tty")},
}


@needs_sandbox
def test_nothing_of_ours_is_open_in_there(box: Box, secret: Path) -> None:
    # Its own three streams, and the folder that is listed.
    assert box("ls /proc/self/fd")[1].split() == ["0", "1", "2", "3"]
    # The first process is ours, and shows nothing: it has the same streams, and the same root.
    _, said = box(f"ls -l /proc/1/fd; cat /proc/1/root{secret} /proc/1/cwd{secret}")
    lines = (line.rpartition(" -> ")[2] for line in said.splitlines() if " -> " in line)
    assert {line.partition(":")[0] for line in lines} <= {"/memfd", "pipe", "anon_inode"}
    assert "nobody's business" not in said
    # What it reads cannot grow in memory that nobody counts.
    for way in (">&0", "> /proc/self/fd/0", ">> /dev/stdin"):
        _, said = box(f"head -c 1M /dev/zero {way}; wc -c < /proc/self/fd/0", stdin=b"read")
        assert said.endswith("\n4\n"), (way, said)


@needs_sandbox
@pytest.mark.parametrize("way", REFUSED)
def test_ways_out_are_refused(box: Box, way: str) -> None:
    end, said = box(f"{REFUSED[way]} && echo done")
    if "command not found" in said:
        pytest.skip("the program that would try it is not among the system's")
    assert end.exit_code != 0
    assert "done" not in said


@needs_sandbox
def test_a_program_of_somebody_elses_runs_as_whoever_starts_it(box: Box) -> None:
    box("true")
    # Root's, where these are root's tests.
    (box.folder / "who").write_bytes(Path("/usr/bin/id").read_bytes())
    (box.folder / "who").chmod(0o6755)
    _, said = box("workspace/who -u; workspace/who -g; grep -h Cap /proc/self/status")
    ids, capabilities = said.split()[:2], said.split()[3::2]
    assert ids == [str(box.user or USUAL_ID)] * 2
    assert capabilities == ["0" * 16] * 5


CALLS = """
import ctypes, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def tried(name, *args):
    ctypes.set_errno(0)
    result = libc.syscall(NUMBERS[name], *args)
    print(name, result, ctypes.get_errno())
tried("ptrace", 16, 1, 0, 0)
tried("ptrace", 0, 0, 0, 0)
tried("memfd_create", b"x", 0)
tried("bpf", 0, 0, 0)
tried("io_uring_setup", 1, 0)
tried("keyctl", 0, 0, 0)
tried("msgget", 0, 0o1600)
tried("semget", 0, 1, 0o1600)
tried("userfaultfd", 0)
tried("perf_event_open", 0, 0, 0, 0, 0)
tried("process_vm_readv", 1, 0, 0, 0, 0, 0)
tried("open_by_handle_at", 0, 0, 0)
tried("clone", 0x10000000, 0, 0, 0, 0)
for family in (40, 16, 17, 38):
    try:
        socket.socket(family, socket.SOCK_RAW if family == 17 else socket.SOCK_DGRAM)
        print("family", family, "had")
    except OSError:
        pass
"""


@needs_sandbox
def test_calls_that_lead_out_of_namespaces_are_refused(box: Box) -> None:
    if box("command -v python3")[0].exit_code != 0:
        pytest.skip("there is no python3 among the system's programs")
    numbers = dict(MACHINES[os.uname().machine].numbers)
    end, said = box("python3 -", stdin=f"NUMBERS = {numbers}\n{CALLS}".encode())
    lines = said.splitlines()
    assert end.exit_code == 0, said
    assert len(lines) == 13
    assert [line for line in lines if line.split()[1:] not in (["-1", "1"], ["-1", "38"])] == []


@needs_sandbox
def test_there_is_no_network(box: Box) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        speak = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        assert box(speak)[0].exit_code != 0
        # It is the sandbox that keeps it from there.
        assert box(speak, has_network=True)[0].exit_code == 0
    assert box("cat /proc/net/dev | grep -c :")[1] == "1\n"


BOMB = 'f() { [ "$1" -gt 0 ] && { f $(($1 - 1)) & f $(($1 - 1)) & }; sleep 60; }; f 8'
"""Of processes, each of which starts two others. With an end of its own: whoever tests whether they
are counted shall not lose a machine if they are not."""


@needs_sandbox
@pytest.mark.parametrize(
    ("command", "allowed", "why"),
    [
        ("sleep 60", {"seconds": 0.3}, Stopped.TIME),
        ("exec >/dev/null 2>&1; sleep 60", {"seconds": 0.3}, Stopped.TIME),
        (BOMB, {"processes": 100, "seconds": 2.0}, Stopped.PROCESSES),
        (
            "for i in {1..99}; do sleep 60 & done; wait",
            {"processes": 50, "seconds": 2.0},
            Stopped.PROCESSES,
        ),
        ("cat /dev/zero", {"output_bytes": MIB}, Stopped.OUTPUT),
        ("cat /dev/zero >&2", {"output_bytes": MIB}, Stopped.OUTPUT),
        (
            "for i in {1..9}; do head -c 8M /dev/zero > workspace/$i; done; sleep 60",
            {"disk_bytes": 16 * MIB},
            Stopped.DISK,
        ),
        *(
            (
                f"for i in {{1..9}}; do truncate -s 8M workspace/$i; done{after}",
                {"disk_bytes": 16 * MIB},
                Stopped.DISK,
            )
            for after in ("", "; sleep 60")
        ),
        (
            # A last command takes the place of its shell, and of what that shell held.
            "for i in {1..8}; do (x=$(head -c6M /dev/zero | tr '\\0' x); sleep 60; :) & done; wait",
            {"memory_bytes": 40 * MIB},
            Stopped.MEMORY,
        ),
    ],
)
def test_what_takes_too_much_is_ended(
    box: Box, command: str, allowed: dict[str, float], why: Stopped
) -> None:
    end, said = box(command, **allowed)
    if why is Stopped.PROCESSES and end.stopped is not why:
        # The kernel refuses them, before anybody has counted.
        assert "Resource temporarily unavailable" in said
        return
    assert end.stopped is why
    assert end.exit_code == 128 + signal.SIGKILL
    assert len(said) <= allowed.get("output_bytes", 1e9)


@needs_sandbox
def test_no_command_takes_the_last_memory_of_the_machine(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert box("sleep 0.2")[0].stopped is None
    monkeypatch.setattr(tallying, "LEAST_MEMORY_BYTES", 1 << 60)
    assert box("sleep 60", seconds=30.0)[0].stopped is Stopped.MEMORY


@needs_sandbox
def test_no_command_takes_the_last_room_of_the_disk(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    box("true")
    monkeypatch.setattr(tallying, "LEAST_FREE_BYTES", 1 << 60)
    # In a file that has no name, which nobody can measure.
    filling = "exec 3> workspace/f; rm workspace/f; while :; do head -c 8M /dev/zero >&3; done"
    assert box(filling, seconds=30.0)[0].stopped is Stopped.DISK


@needs_sandbox
def test_no_core_is_handed_to_a_program_of_the_machine(box: Box) -> None:
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("there is no way back from 0")
    said = box("grep 'Max core' /proc/self/limits")[1]
    assert said.split()[4:6] == ["1", "1"]


@needs_sandbox
def test_one_file_and_one_process_have_an_end_by_themselves(box: Box) -> None:
    end, said = box("head -c 3M /dev/zero > workspace/f; echo $?", disk_bytes=MIB)
    # The kernel ends it; or the folder is looked at just then, on a disk that gives files more.
    assert said.endswith("153\n") or end.stopped is Stopped.DISK
    assert (box.folder / "f").stat().st_size <= MIB
    assert box("head -c 9M /dev/zero > /tmp/f", scratch_bytes=MIB)[0].exit_code != 0
    assert box("head -c 99M /dev/zero > /dev/shm/f")[0].exit_code != 0
    assert box("echo > /dev/f")[0].exit_code != 0


def left(marker: str) -> list[str]:
    """Returns the processes that have a word in their command lines."""
    found = subprocess.run(["pgrep", "-f", marker], capture_output=True, text=True, check=False)
    return found.stdout.split()


@needs_sandbox
def test_nothing_outlives_its_command(box: Box) -> None:
    number = f"4{os.getpid()}"
    began = time.monotonic()
    end, said = box(f"(setsid nohup sleep {number} &) ; sleep {number} & disown; echo over")
    assert (end.exit_code, said) == (0, "over\n")
    assert time.monotonic() - began < 20
    assert left(f"sleep {number}") == []


SERVES = """
import sys
from holdfast.sandbox.limits import Allowance
from holdfast.sandbox.probing import Sandbox
from holdfast.sandbox.running import Order
sandbox = Sandbox()
sandbox.check()
print("ready", flush=True)
order = Order(command=["/bin/bash", "-c", sys.argv[2]], folder=sys.argv[1], cwd="/",
              allowance=Allowance())
sandbox.run(order, lambda _, text: print(text.decode(), flush=True))
"""


@needs_sandbox
def test_who_runs_commands_and_is_killed_leaves_none_of_them(box: Box) -> None:
    number = f"5{os.getpid()}"
    line = [
        sys.executable,
        "-c",
        SERVES,
        str(box.folder),
        f"setsid sleep {number} & sleep {number}",
    ]
    # Before bubblewrap is there, while it makes the sandbox, and when the command runs.
    for seconds in (0.0, 0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.012, 0.3):
        with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(seconds)
            process.kill()
        until = time.monotonic() + 20
        while left(number) and time.monotonic() < until:
            time.sleep(0.02)
        assert left(number) == [], seconds


@needs_sandbox
def test_many_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    boxes = [Box(tmp_path / str(number)) for number in range(8)]
    said: dict[int, str] = {}

    def work(number: int) -> None:
        boxes[number].folder.mkdir()
        said[number] = box_says(boxes[number], number)

    def box_says(box: Box, number: int) -> str:
        return "".join(box(f"echo {number} >> workspace/n; cat workspace/n")[1] for _ in range(3))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {n: f"{n}\n{n}\n{n}\n{n}\n{n}\n{n}\n" for n in range(8)}


@needs_sandbox
def test_no_more_processes_than_the_kernel_lets_it_have(box: Box) -> None:
    _, said = box(
        "for i in {1..40}; do sleep 5 & done 2>/dev/null; ls -d /proc/[0-9]* | wc -l",
        processes=20,
        seconds=2.0,
    )
    # A shell that gets none tries again for a while, and may not come to count.
    assert not said or int(said.split()[-1]) <= 20


needs_root = pytest.mark.skipif(find_user(0) is None, reason="it is about root")


@needs_root
@needs_sandbox
def test_root_runs_nothing_without_what_gives_root_up(
    box: Box, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bwrap").symlink_to("/usr/bin/bwrap")
    monkeypatch.setattr(probing, "PATH", str(tmp_path / "bin"))
    with pytest.raises(SandboxUnavailable, match="setpriv"):
        box("touch workspace/ran")
    assert list(box.folder.iterdir()) == []


@needs_root
@needs_sandbox
@pytest.mark.parametrize(
    ("kept", "why"), [("--bounding-set", "capabilities are left"), ("--regid", "somebody else")]
)
def test_a_sandbox_that_leaves_something_of_roots_is_not_believed(
    box: Box, monkeypatch: pytest.MonkeyPatch, kept: str, why: str
) -> None:
    line = Become.line

    def without(self: Become) -> list[str]:
        given = line(self)
        at = next(at for at, each in enumerate(given) if each.startswith(kept))
        return given[:at] + given[at + (1 if "=" in given[at] else 2) :]

    monkeypatch.setattr(Become, "line", without)
    with pytest.raises(SandboxUnavailable, match=why):
        box("touch workspace/ran")
    assert list(box.folder.iterdir()) == []


@needs_root
def test_what_is_handed_over_is_in_the_folder(box: Box, secret: Path) -> None:
    assert box.user is not None
    (box.folder / "in").mkdir(mode=0o500)
    for place in (box.folder, box.folder / "in"):
        (place / "out").symlink_to(secret)
        (place / "up").symlink_to(box.folder.parent)
        (place / "kept").write_text("x")
        (place / "kept").chmod(0o4640)
    hand_over(str(box.folder), box.user)
    assert {each.lstat().st_uid for each in box.folder.rglob("*")} == {box.user}
    assert (box.folder / "in").stat().st_mode & 0o7777 == 0o500
    assert (secret.stat().st_uid, box.folder.parent.stat().st_uid) == (os.geteuid(),) * 2


def test_without_bubblewrap_nothing_is_run(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "PATH", str(box.folder))
    with pytest.raises(SandboxUnavailable, match="bwrap"):
        box("touch workspace/ran")
    assert list(box.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "why"), [("exit 1", "does not answer"), ("echo no leave >&2; exit 1", "no leave")]
)
def test_a_bubblewrap_that_makes_no_sandbox_runs_nothing(
    box: Box, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, why: str
) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "bwrap"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(probing, "PATH", f"{fake.parent}:{probing.PATH}")
    with pytest.raises(SandboxUnavailable, match=why):
        box("touch workspace/ran")
    assert list(box.folder.iterdir()) == []


def test_there_is_a_filter_for_each_machine_that_is_known() -> None:
    for machine in MACHINES:
        made = make_filter(machine)
        assert made is not None
        assert len(made) % 8 == 0
        assert len(made) // 8 < 4096  # BPF_MAXINSNS
    assert make_filter("pdp11") is None
