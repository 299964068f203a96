"""Files that somebody could write to while they are read: captured, named, and not believed.

The kernel stamps a write when it begins. Here writers are held up in the middle, so that what is
found on disk is half of one version and half of another, with times that never move again. No
snapshot holds such a mixture without naming it, and none holds it once the writer has ended.
"""

import ctypes
import fcntl
import mmap
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

import holdfast
from holdfast.engine.capturing.capture import AGAIN_BYTES
from holdfast.engine.core.coverage import coverage_of
from holdfast.engine.workspace import Workspace
from holdfast.model.basics import SnapshotInfo
from holdfast.workspace import resting
from holdfast.workspace.resting import Rest, Resting, about

needs_leases = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux says who has a file open for writing"
)

SIZE = 8 << 20
OLD, NEW = b"o" * SIZE, b"n" * SIZE
MIXED = NEW[: SIZE // 2] + OLD[SIZE // 2 :]


class Place:
    """A directory with a file in it, and its vault."""

    def __init__(self, folder: Path, vault: holdfast.Holdfast) -> None:
        self.tree = folder / "tree"
        self.tree.mkdir()
        self.file = self.tree / "f"
        self.file.write_bytes(OLD)
        self.workspace: Workspace = vault.workspace(self.tree)
        self.first = self.workspace.snapshot("first")

    def held(self, snapshot: SnapshotInfo) -> bytes:
        return self.workspace.namespace.at(snapshot).files.read("f")

    def assert_believed(self, want: bytes) -> None:
        """The next snapshot holds what is there and vouches for it, and so do undo and redo."""
        assert self.file.read_bytes() == want
        taken = self.workspace.snapshot()
        assert self.held(taken) == want
        assert in_motion(taken) == []
        restored = self.workspace.restore(self.first)
        assert (restored.verified, list(restored.in_motion)) == (True, [])
        assert self.file.read_bytes() == OLD
        undone = self.workspace.undo()
        assert (undone.verified, list(undone.in_motion)) == (True, [])
        assert self.file.read_bytes() == want


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(tmp_path / "vault") as opened:
        yield opened


@pytest.fixture(params=["disk", "memory"])
def place(
    tmp_path: Path, vault: holdfast.Holdfast, request: pytest.FixtureRequest
) -> Iterator[Place]:
    if request.param == "disk":
        yield Place(tmp_path, vault)
        return
    memory = "/dev/shm"
    if not os.path.isdir(memory) or shutil.disk_usage(memory).free < 1 << 28:
        pytest.skip("there is no file system in memory with room")
    with tempfile.TemporaryDirectory(prefix="holdfast-", dir=memory) as folder:
        yield Place(Path(folder), vault)


def in_motion(snapshot: SnapshotInfo) -> list[str]:
    coverage = coverage_of(snapshot)
    assert coverage is not None
    return [each.path for each in coverage.in_motion]


def times_of(path: Path) -> tuple[int, int, int]:
    state = path.stat()
    return state.st_mtime_ns, state.st_ctime_ns, state.st_size


def is_long_ago(path: Path) -> bool:
    """Says whether a file's times are so old that they would prove something."""
    return path.stat().st_ctime_ns + 100_000_000 < time.time_ns()


@contextmanager
def mapped(path: Path) -> Generator[mmap.mmap]:
    """Maps a file to write to it; its descriptor is closed, the mapping stays."""
    fd = os.open(path, os.O_RDWR)
    try:
        shared = mmap.mmap(fd, 0)
    finally:
        os.close(fd)
    with shared:
        yield shared


class HeldUp:
    """One `pwrite` of a whole file that stops half-way until it is let go.

    The second half of what it writes is memory that is not there yet: the kernel waits for
    whoever serves the fault, in the middle of the call.
    """

    _SYSCALLS: ClassVar = {"x86_64": 323, "aarch64": 282}
    _API, _REGISTER, _COPY = 0xC018AA3F, 0xC020AA00, 0xC028AA03

    def __init__(self, path: Path, data: bytes) -> None:
        self._path, self._data = path, data
        self._number = self._SYSCALLS.get(platform.machine())
        self._library = ctypes.CDLL(None, use_errno=True)
        self._fault_fd = -1 if self._number is None else self._open()
        if self._fault_fd < 0:
            pytest.skip("userfaultfd is not to be had here")
        self._source = mmap.mmap(-1, len(data))
        self._half = len(data) // 2
        self._source[: self._half] = data[: self._half]
        self._thread = threading.Thread(target=self._write)

    def _open(self) -> int:
        fd = self._library.syscall(self._number, os.O_CLOEXEC)
        if fd >= 0:
            fcntl.ioctl(fd, self._API, struct.pack("=QQQ", 0xAA, 0, 0))
        return fd

    @property
    def _start(self) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(self._source)) + self._half

    def _write(self) -> None:
        fd = os.open(self._path, os.O_WRONLY)
        try:
            assert os.pwrite(fd, self._source, 0) == len(self._data)
        finally:
            os.close(fd)

    def begin(self) -> None:
        """Returns when half of it is written, and the other half waits."""
        area = struct.pack("=QQQQ", self._start, len(self._data) - self._half, 1, 0)
        fcntl.ioctl(self._fault_fd, self._REGISTER, area)
        self._thread.start()
        os.read(self._fault_fd, 32)

    def end(self) -> None:
        """Lets the call get on, and returns when it has."""
        rest = ctypes.create_string_buffer(self._data[self._half :], len(self._data) - self._half)
        copy = struct.pack("=QQQQq", self._start, ctypes.addressof(rest), len(rest), 0, 0)
        fcntl.ioctl(self._fault_fd, self._COPY, copy)
        self._thread.join()
        os.close(self._fault_fd)


def snapshots_until_old(place: Place) -> Iterator[SnapshotInfo]:
    """Yields snapshots until the file's times would prove something, and one more."""
    while not is_long_ago(place.file):
        yield place.workspace.snapshot()
    yield place.workspace.snapshot()


@needs_leases
def test_a_call_that_is_held_up_half_way_is_named_and_not_believed(place: Place) -> None:
    writer = HeldUp(place.file, NEW)
    writer.begin()
    try:
        assert place.file.read_bytes() == MIXED
        stamp = times_of(place.file)
        for taken in snapshots_until_old(place):
            assert in_motion(taken) == ["f"]
            assert not taken.is_partial
            assert place.held(taken) == MIXED
    finally:
        writer.end()
    assert times_of(place.file) == stamp, "it moved: then this shows nothing"
    place.assert_believed(NEW)


@needs_leases
def test_a_mapping_that_is_written_for_long_is_named_and_not_believed(place: Place) -> None:
    with mapped(place.file) as shared:
        # Pages that were changed before move no time when they are changed again.
        shared[:] = OLD
        shared[: SIZE // 2] = NEW[: SIZE // 2]
        stamp = times_of(place.file)
        for taken in snapshots_until_old(place):
            assert in_motion(taken) == ["f"]
            assert place.held(taken) == MIXED
        shared[SIZE // 2 :] = NEW[SIZE // 2 :]
        assert times_of(place.file) == stamp, "it moved: then this shows nothing"
        taken = place.workspace.snapshot()
        assert in_motion(taken) == ["f"]
        assert place.held(taken) == NEW
    place.assert_believed(NEW)


@needs_leases
def test_what_is_in_motion_is_named_by_a_status_that_does_not_read_it(place: Place) -> None:
    with mapped(place.file) as shared:
        shared[:] = NEW
        taken = place.workspace.snapshot()
        shared[:1] = b"?"
        status = place.workspace.status()
        assert [each.path for each in status.coverage.in_motion] == ["f"]
        assert len(status.changes) == 0
        # Whoever asks what differs has it read.
        assert [change.name for change in place.workspace.diff()] == ["f"]
        assert place.workspace.is_dirty()
    assert in_motion(taken) == ["f"]
    place.assert_believed(b"?" + NEW[1:])


@needs_leases
def test_restoring_what_was_in_motion_says_so_before_and_after(place: Place) -> None:
    writer = HeldUp(place.file, NEW)
    writer.begin()
    taken = place.workspace.snapshot()
    writer.end()
    place.workspace.snapshot()
    seen = place.workspace.restore(taken, dry_run=True)
    assert list(seen.in_motion) == ["f"]
    restored = place.workspace.restore(taken)
    assert (restored.verified, list(restored.in_motion)) == (True, ["f"])
    assert place.file.read_bytes() == MIXED
    assert list(place.workspace.undo().in_motion) == []
    assert place.file.read_bytes() == NEW
    # Where a redo leads shows the same mixture, under the name of the restore.
    assert list(place.workspace.redo().in_motion) == ["f"]
    (place.tree / "elsewhere").touch()
    assert list(place.workspace.restore(taken, paths=["elsewhere"]).in_motion) == []
    target = place.tree.parent / "copy"
    assert list(place.workspace.checkout(taken, target).in_motion) == ["f"]


@needs_leases
def test_a_large_file_that_stays_open_is_not_read_each_time_and_never_lost(place: Place) -> None:
    size = AGAIN_BYTES + 1
    with open(place.file, "r+b") as file:
        file.truncate(size)
    with mapped(place.file) as shared:
        shared[:] = b"1" * size
        place.workspace.snapshot()
        stamp = times_of(place.file)
        shared[:] = b"2" * size
        assert times_of(place.file) == stamp, "it moved: then this shows nothing"
        taken = place.workspace.snapshot()
        assert in_motion(taken) == ["f"]
        assert place.held(taken) == b"1" * size, "it was read for nothing"
        # Before something takes its place, it is read whatever it costs.
        place.workspace.restore(place.first)
    assert place.file.read_bytes() == OLD
    place.workspace.undo()
    assert place.file.read_bytes() == b"2" * size


@needs_leases
def test_a_large_file_is_read_when_its_writer_has_left(place: Place) -> None:
    size = AGAIN_BYTES + 1
    with open(place.file, "r+b") as file:
        file.truncate(size)
        place.workspace.snapshot()
        with mapped(place.file) as shared:
            shared[:] = b"1" * size
            place.workspace.snapshot()
            shared[:] = b"2" * size
    place.assert_believed(b"2" * size)


@needs_leases
def test_the_names_of_a_file_in_motion_stay_one_file(place: Place) -> None:
    (place.tree / "g").hardlink_to(place.file)
    with mapped(place.file) as shared:
        for byte in (b"1", b"2", b"3"):
            shared[:] = byte * SIZE
            taken = place.workspace.snapshot()
            assert in_motion(taken) == ["f", "g"]
    place.assert_believed(b"3" * SIZE)
    assert place.file.samefile(place.tree / "g")


@needs_leases
def test_what_is_in_motion_is_remembered_by_the_next_process(
    place: Place, vault: holdfast.Holdfast
) -> None:
    with mapped(place.file) as shared:
        shared[:] = NEW
        place.workspace.snapshot()
        place.workspace.close()
        place.workspace = vault.workspace(place.tree)
        status = place.workspace.status()
        assert [each.path for each in status.coverage.in_motion] == ["f"]
        shared[:] = OLD[:1] + NEW[1:]
    place.assert_believed(OLD[:1] + NEW[1:])


@needs_leases
def test_what_is_in_motion_is_looked_at_where_only_events_lead(place: Place) -> None:
    place.workspace.watch()
    with mapped(place.file) as shared:
        shared[:] = NEW
        assert in_motion(place.workspace.snapshot()) == ["f"]
        shared[:1] = b"1"
        assert place.held(place.workspace.snapshot())[:1] == b"1"
        shared[:1] = b"2"
    place.assert_believed(b"2" + NEW[1:])


@needs_leases
def test_a_file_that_went_away_or_was_left_out_is_in_motion_no_more(place: Place) -> None:
    with mapped(place.file) as shared:
        shared[:] = NEW
        assert in_motion(place.workspace.snapshot()) == ["f"]
        os.rename(place.file, place.tree / "g")
        assert in_motion(place.workspace.snapshot()) == ["g"]
        (place.tree / ".holdfastignore").write_text("g\n")
        assert in_motion(place.workspace.snapshot()) == []


# Where nobody says who writes


def test_a_fresh_file_is_read_again_until_it_is_old_where_writers_cannot_be_seen(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resting, "about", lambda _: resting.NOTHING)
    with mapped(place.file) as shared:
        shared[:] = NEW
        # The second reading is the same: nothing says that it moves.
        assert in_motion(place.workspace.snapshot()) == []
        stamp = times_of(place.file)
        shared[:] = OLD
        assert times_of(place.file) == stamp, "it moved: then this shows nothing"
        taken = place.workspace.snapshot()
    assert place.held(taken) == OLD


def test_a_file_that_is_another_each_time_is_in_motion_where_writers_cannot_be_seen(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resting, "about", lambda _: resting.NOTHING)
    stop = threading.Event()

    def write() -> None:
        with mapped(place.file) as shared:
            while not stop.is_set():
                for byte in range(256):
                    shared[:] = bytes([byte]) * SIZE

    thread = threading.Thread(target=write)
    thread.start()
    try:
        while not in_motion(place.workspace.snapshot()):
            pass
    finally:
        stop.set()
        thread.join()


@needs_leases
def test_a_lease_says_who_writes_where_it_can(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(OLD)
    fd = os.open(file, os.O_RDONLY)
    device = os.fstat(fd).st_dev
    try:
        assert Resting().ask(fd, device) is Rest.PROVEN
        with open(file, "rb"):
            assert Resting().ask(fd, device) is Rest.PROVEN
        with open(file, "r+b"):
            assert Resting().ask(fd, device) is Rest.REFUSED
        with mapped(file):
            assert Resting().ask(fd, device) is Rest.REFUSED
        assert Resting().ask(fd, device) is Rest.PROVEN
    finally:
        os.close(fd)


def test_what_is_not_known_to_see_writers_proves_nothing() -> None:
    for strange in (None, 0x6969, 0x65735546, 0xFF534D42):  # NFS, FUSE, SMB
        assert about(strange) == resting.NOTHING
    overlay = about(0x794C7630)
    assert (overlay.sees_writers, overlay.sees_all) == (True, False)


@needs_leases
def test_a_lease_needs_a_file_of_ones_own(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    file = tmp_path / "f"
    file.write_bytes(b"1")
    script = """
        import os, sys
        from holdfast.workspace.resting import Rest, Resting
        fd = os.open(sys.argv[1], os.O_RDONLY)
        assert Resting().ask(fd, 0) is Rest.PROVEN
        os.setresuid(65534, 65534, 65534)
        assert Resting().ask(fd, 0) is Rest.UNKNOWN
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(file)], check=True)


@needs_leases
def test_a_lease_is_given_back_and_breaking_it_ends_nobody(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"1")
    script = """
        import fcntl, os, sys
        from holdfast.workspace import resting
        fd = os.open(sys.argv[1], os.O_RDONLY)
        assert resting.Resting().ask(fd, 0) is resting.Rest.PROVEN
        assert fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_UNLCK
        # The same, but for giving it back, so that somebody comes in between for certain.
        for command, argument in list(zip(resting.COMMANDS, resting.ARGUMENTS))[:-1]:
            fcntl.fcntl(fd, command, argument)
        assert fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_RDLCK
        try:
            os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK)
        except BlockingIOError:
            print("broken, and alive")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "broken, and alive\n"), done.stderr


BUSY = """
    import os, sys, threading, time
    from holdfast.workspace.resting import Rest, Resting

    path, answers = sys.argv[1], set()
    stop, rest = threading.Event(), threading.Event()

    def write():
        while not stop.is_set():
            for _ in range(20):
                with open(path, "r+b") as file:
                    file.write(b"1")
            rest.wait(0.001)

    def ask():
        resting = Resting()
        while not stop.is_set():
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            answers.add(resting.ask(fd, 0))
            os.close(fd)

    threads = [threading.Thread(target=what) for what in (write, ask, ask, write, ask)]
    for thread in threads:
        thread.start()
    start = time.monotonic()
    # A shell of its own opens the file as well: nobody waits for a thread of this process.
    while time.monotonic() < start + 1 or (len(answers) < 2 and time.monotonic() < start + 30):
        assert os.system(f"for i in 1 2 3 4 5 6 7 8 9; do : >> '{path}'; done") == 0
    stop.set()
    for thread in threads:
        thread.join()
    assert answers == {Rest.PROVEN, Rest.REFUSED}, answers
"""


@needs_leases
def test_whoever_opens_a_file_while_it_is_asked_about_neither_waits_nor_ends_us(
    tmp_path: Path,
) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"0")
    script = textwrap.dedent(BUSY)
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script, str(file)], check=False)
    assert done.returncode == 0
    # A lease that is not given back is broken after 45 seconds.
    assert time.monotonic() - started < 40
