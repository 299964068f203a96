"""What a command takes while it runs, looked at from outside.

The kernel bounds what one process maps and how long one file becomes. What all processes of a
command take together it bounds only where a cgroup was given to us, so it is counted here: the
processes below one are listed by the kernel, each with its memory; a folder is measured again and
again, and once more when the command has ended. A file counts as what it takes of the disk or as
long as it is, whichever is more: whoever keeps it reads its holes, too. Folders that are too deep
count as more than there is.

What was removed and is still open is in no folder, and goes with the command: where the disk runs
full all the same, every command is ended.
"""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.model.commands import Stopped
from holdfast.sandbox.limits import Allowance

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_BLOCK: Final = 512
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ENDLESS: Final = 1 << 62

MOST_DEEP: Final = 256
"""Folders within each other. Whoever follows them to the end holds one of our descriptors for each,
and paths of more than 4 KiB no program can name."""

RESTING: Final = 10
"""Measuring a folder takes at most one part of this many of the time."""

_LOOK_S: Final = 3e-6
"""What looking at one file takes."""

LEAST_FREE_BYTES: Final = 256 << 20
"""Disk space below which no command goes on."""

LEAST_MEMORY_BYTES: Final = 512 << 20
"""Memory of the machine below which no command goes on: what the kernel keeps for its processes, as
what is in their pipes and sockets, is counted for none of them."""


class Processes:
    """The processes below one, and what they take."""

    def __init__(self, pid: int, allowance: Allowance) -> None:
        self._pid, self._allowance = pid, allowance

    def find_excess(self) -> Stopped | None:
        """Returns what there is too much of, if anything."""
        count = memory = 0
        for pid in self._iter_below():
            threads, resident = _look_at(pid)
            count += threads
            memory += resident
            if count > self._allowance.processes:
                return Stopped.PROCESSES
        is_over = memory > self._allowance.memory_bytes or _available() < LEAST_MEMORY_BYTES
        return Stopped.MEMORY if is_over else None

    def _iter_below(self) -> Iterator[int]:
        waiting = [self._pid]
        while waiting:
            pid = waiting.pop()
            yield pid
            waiting += find_children(pid)


def find_children(pid: int) -> list[int]:
    """Returns the processes that one has started, whichever of its threads it was."""
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (thread / "children").read_bytes().split())
    return found


def _look_at(pid: int) -> tuple[int, int]:
    """Returns how many threads a process has, and the bytes that are its own or shared memory."""
    try:
        lines = Path(f"/proc/{pid}/status").read_bytes().splitlines()
        fields = dict(line.split(b":", 1) for line in lines if b":" in line)
    except OSError:
        return 0, 0
    # What is read of files can be dropped by the kernel at any time, and is nobody's.
    kept = (fields.get(name, b"0").split()[:1] for name in (b"RssAnon", b"RssShmem", b"VmSwap"))
    kilobytes = sum(int(value) for parts in kept for value in parts)
    return int(fields.get(b"Threads", b"1")), kilobytes * 1024


def _available() -> int:
    """Returns how many bytes of memory the machine has left."""
    for line in Path("/proc/meminfo").read_bytes().splitlines():
        if line.startswith(b"MemAvailable:"):
            return int(line.split()[1]) * 1024
    return LEAST_MEMORY_BYTES


class Growth:
    """A folder and the disk that it is on, against what they were when a command began."""

    def __init__(self, folder: str, allowance: Allowance, *, size: int, files: int) -> None:
        self._folder = folder
        # A file takes whole pages of a disk, whatever it holds.
        self._most_bytes = size + files * _PAGE + allowance.disk_bytes
        self._most_files = files + allowance.disk_files
        self._allowance = allowance
        self._free = self._measured_at = _free(folder)
        # What the first look will take is known well enough: it rests before, too.
        self._not_before = time.monotonic() + RESTING * files * _LOOK_S

    def find_excess(self) -> Stopped | None:
        """Returns that there is too much, if there is."""
        free = _free(self._folder)
        if free < LEAST_FREE_BYTES and free < self._free:
            return Stopped.DISK
        began = time.monotonic()
        # As much as one command may write was written by somebody: it may have been this one.
        is_urgent = free < self._measured_at - self._allowance.disk_bytes
        if began < self._not_before and not is_urgent:
            return None
        self._measured_at = free
        found = self.find_left()
        self._not_before = time.monotonic() + RESTING * (time.monotonic() - began)
        return found

    def find_left(self) -> Stopped | None:
        """Returns that there is too much in the folder, if there is, without a rest."""
        return Stopped.DISK if self._is_over(times=1) else None

    def is_far_over(self) -> bool:
        """Says whether the folder has grown by more than twice what it may, or is too deep.

        Few write as much between two looks. Holes of files can be of any length at once, and to
        read them takes longer than any command may.
        """
        return self._is_over(times=2)

    def _is_over(self, *, times: int) -> bool:
        size, files = measure(self._folder)
        more = times - 1
        return (
            size > self._most_bytes + more * self._allowance.disk_bytes
            or files > self._most_files + more * self._allowance.disk_files
        )


def _free(folder: str) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def measure(folder: str) -> tuple[int, int]:
    """Returns how many bytes a folder takes or holds, and how many files and folders it has.

    Where folders lie too deep to be followed, there is no end to it.
    """
    size = count = 0
    try:
        root = os.open(folder, _FOLDER)
    except OSError:
        return size, count
    try:
        waiting = ["."]
        while waiting:
            place = waiting.pop()
            if place.count("/") > MOST_DEEP:
                return _ENDLESS, count
            try:
                fd = os.open(place, _FOLDER, dir_fd=root)
            except OSError as exc:
                if exc.errno == errno.ENAMETOOLONG:
                    return _ENDLESS, count
                continue
            try:
                more, found, names = _measure_one(fd)
            finally:
                os.close(fd)
            size, count = size + more, count + found
            waiting += [f"{place}/{name}" for name in names]
    finally:
        os.close(root)
    return size, count


def _measure_one(fd: int) -> tuple[int, int, list[str]]:
    """Returns the same of a folder without what is in those below it, and their names.

    Every file that a namespace has is looked at here after each command: nothing is made for one
    but what the system answers.
    """
    size, count, folders = 0, 0, list[str]()
    with suppress(OSError), os.scandir(fd) as entries:
        for entry in entries:
            try:
                state = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            length, taken = state.st_size, state.st_blocks * _BLOCK
            size += length if length > taken else taken  # noqa: FURB136 - a call for each of 100,000
            count += 1
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
    return size, count, folders
