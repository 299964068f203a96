"""A vault on a disk that takes no writes: read-only, or without a byte left.

Real disks: memory that is mounted as one. What was kept can be read and taken elsewhere, what
writes says what is wrong, and on a full disk a collection gives bytes back.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast.errors import StorageFull, StorageReadOnly
from holdfast.testing.shells import environment

pytestmark = pytest.mark.usefixtures("made_anew")

MIB = 1 << 20

KILLED = """
import os, signal, sys, holdfast
vault = holdfast.open(sys.argv[1])
vault.namespace("alice").files.write("a.txt", "in the log alone")
vault.namespace("alice").snapshot("killed")
os.kill(os.getpid(), signal.SIGKILL)
"""


class Disk:
    """A small disk with a project and its vault on it, and commands that are typed there."""

    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        self.command = command
        self.root = folder / "disk"
        self.elsewhere = folder / "elsewhere"
        self.project = self.root / "project"
        self.vault = self.project / ".holdfast"
        self.environ = environment(folder)
        self.root.mkdir()
        self.elsewhere.mkdir()

    def mount(self, *argv: str) -> bool:
        command = ["mount", *argv, str(self.root)]
        may_mount = os.geteuid() == 0 and shutil.which("mount") is not None
        return may_mount and not subprocess.run(command, check=False).returncode

    def fill(self) -> None:
        """Takes every byte."""
        with (self.root / "ballast").open("wb", buffering=0) as file:
            while room := free_bytes(self.root):
                file.write(bytes(min(room, MIB)))
        assert free_bytes(self.root) == 0

    def __call__(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.command, *argv],
            cwd=self.project,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def ok(self, *argv: str) -> str:
        done = self(*argv)
        assert done.returncode == 0, (argv, done)
        assert "Traceback" not in done.stderr
        return done.stdout

    def error(self, *argv: str) -> Any:
        done = self(*argv, "--json")
        assert done.returncode == 1, (argv, done)
        return json.loads(done.stderr)["error"]


def free_bytes(folder: Path) -> int:
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


@pytest.fixture
def disk(tmp_path: Path, warm: tuple[str, ...]) -> Iterator[Disk]:
    disk = Disk(tmp_path, warm)
    if not disk.mount("-t", "tmpfs", "-o", "size=96m,mode=700", "tmpfs"):
        pytest.skip("this process may not mount a file system")
    try:
        disk.project.mkdir()
        (disk.project / "a.txt").write_text("one\n")
        disk.ok("init", "--local")
        (disk.project / "old.bin").write_bytes(Random(1).randbytes(4 * MIB))
        disk.ok("snapshot", "-m", "with old.bin")
        (disk.project / "old.bin").unlink()
        for number in range(3):
            (disk.project / "a.txt").write_text(f"one\nmore {number}\n")
            disk.ok("snapshot", "-m", f"number {number}")
        yield disk
    finally:
        # Lazily: a test that failed may still have a file open.
        subprocess.run(["umount", "--lazy", str(disk.root)], check=True)


def check_that_all_can_be_read(disk: Disk, *, target: str) -> None:
    snapshots = json.loads(disk.ok("log", "--json"))["snapshots"]
    assert [each["label"] for each in snapshots][:2] == ["number 2", "number 1"]
    assert "number 2" in disk.ok("show", "@")
    assert "+more 2" in disk.ok("diff", snapshots[1]["snapshot_id"], snapshots[0]["snapshot_id"])
    assert "Nothing has changed" in disk.ok("status")
    assert "All is well" in disk.ok("verify")
    disk.ok("workspaces")
    disk.ok("du")
    place = disk.elsewhere / target
    disk.ok("restore", snapshots[3]["snapshot_id"], "--to", str(place))
    assert (place / "old.bin").read_bytes() == Random(1).randbytes(4 * MIB)
    disk.ok("export", str(disk.elsewhere / f"{target}.tar"))
    with holdfast.open(disk.elsewhere / f"{target} vault") as other:
        other.namespace("copy").import_(disk.elsewhere / f"{target}.tar")
        assert other.namespace("copy").files.read("a.txt") == b"one\nmore 2\n"
    with holdfast.open(disk.vault) as vault:
        assert vault.namespace("project").files.read("a.txt") == b"one\nmore 2\n"
        assert vault.verify().ok


def test_a_vault_on_a_read_only_disk_can_be_read(disk: Disk) -> None:
    assert disk.mount("-o", "remount,ro")
    check_that_all_can_be_read(disk, target="read")
    for argv in (("snapshot",), ("undo",), ("gc",), ("pin", "@")):
        error = disk.error(*argv)
        assert error["code"] == "storage_read_only", argv
        assert "Reading works" in error["hint"], argv
        # The directory may lie on another disk, and be as writable as ever.
        assert f"{disk.project} could not be written to" not in error["message"], argv
    with holdfast.open(disk.vault) as vault:
        for act in (vault.namespace("project").snapshot, vault.collect):
            with pytest.raises(StorageReadOnly):
                act()
        vault.tend_log()
    assert "attached already" in disk.ok("init", "--local")
    doctor = disk("doctor")
    assert doctor.returncode == 1
    assert "read-only" in doctor.stdout
    assert disk.mount("-o", "remount,rw")
    disk.ok("snapshot", "-m", "writable again")


def test_what_only_the_log_holds_is_read_from_a_read_only_disk(disk: Disk) -> None:
    subprocess.run([sys.executable, "-c", KILLED, disk.vault], check=False)
    assert disk.mount("-o", "remount,ro")
    for _ in range(2):
        with holdfast.open(disk.vault) as vault:
            alice = vault.namespace("alice")
            assert alice.files.read("a.txt") == b"in the log alone"
            assert [each.label for each in alice.timeline()] == ["killed"]
            assert vault.verify().ok
            with pytest.raises(StorageReadOnly):
                alice.snapshot()
        # Once more without the index of the log, as a copy may lack it.
        assert disk.mount("-o", "remount,rw")
        (disk.vault / "catalog.sqlite-shm").unlink(missing_ok=True)
        assert disk.mount("-o", "remount,ro")


def test_there_is_no_vault_to_be_made_on_a_read_only_disk(disk: Disk) -> None:
    assert disk.mount("-o", "remount,ro")
    with pytest.raises(StorageReadOnly):
        holdfast.open(disk.root / "new")


def test_a_vault_on_a_full_disk_can_be_read_and_collected(disk: Disk) -> None:
    disk.fill()
    check_that_all_can_be_read(disk, target="full")
    assert free_bytes(disk.root) == 0, "reading gives up nothing"
    (disk.project / "a.txt").write_text("")
    error = disk.error("snapshot")
    assert error["code"] == "storage_full"
    # What its hint says is what helps.
    assert "`holdfast forget`, then `holdfast gc --now`" in error["hint"]
    disk.ok("forget", "--keep-last", "1")
    disk.ok("gc", "--now")
    assert free_bytes(disk.root) > 4 * MIB
    disk.ok("verify")
    with holdfast.open(disk.vault) as vault:
        assert vault.namespace("project").timeline()[0].label == "number 2"


def test_a_damaged_log_waits_on_a_full_disk_until_there_is_room_to_keep_it(disk: Disk) -> None:
    subprocess.run([sys.executable, "-c", KILLED, disk.vault], check=False)
    log = disk.vault / "catalog.sqlite-wal"
    data = bytearray(log.read_bytes())
    data[-5000] ^= 1
    log.write_bytes(data)
    disk.fill()
    for _ in range(2):
        assert "missing from its end" in disk("log").stderr
        with holdfast.open(disk.vault) as vault:
            assert vault.find_loss() is not None
            with pytest.raises(StorageFull, match="cannot be kept aside"):
                vault.namespace("alice").snapshot()
        assert log.read_bytes() == data
    (disk.root / "ballast").unlink()
    disk.ok("log")
    [kept] = disk.vault.glob("catalog.sqlite-wal.damaged*")
    assert kept.read_bytes() == data


def test_a_process_that_has_the_vault_open_collects_on_a_disk_that_filled_up(disk: Disk) -> None:
    with holdfast.open(disk.vault, limits=holdfast.Limits(free_floor_bytes=0)) as vault:
        project = vault.namespace("project")
        disk.fill()
        with pytest.raises(StorageFull):
            project.files.write("new.bin", Random(2).randbytes(MIB))
        assert project.files.read("a.txt") == b"one\nmore 2\n"
        project.forget(policy=holdfast.Policy(keep_last=1))
        vault.collect(now=True)
        assert free_bytes(disk.root) > 4 * MIB
        project.files.write("new.bin", Random(2).randbytes(MIB))
        assert vault.verify().ok


def test_room_for_a_collection_is_kept_again_once_there_is_some(disk: Disk) -> None:
    disk.fill()
    disk.ok("forget", "--keep-last", "1")
    disk.ok("gc", "--now")
    (disk.root / "ballast").unlink()
    disk.ok("log")
    disk.fill()
    disk.ok("gc", "--now")


def test_a_reserve_that_was_left_empty_is_filled(tmp_path: Path) -> None:
    """Whoever took the room was killed between making the file and making it long."""
    holdfast.open(tmp_path / "vault").close()
    reserve = tmp_path / "vault" / "reserve"
    for size in (0, 4096):
        os.truncate(reserve, size)
        holdfast.open(tmp_path / "vault").close()
        assert reserve.stat().st_size == MIB
        assert reserve.stat().st_blocks * 512 >= MIB
