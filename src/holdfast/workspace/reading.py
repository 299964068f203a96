"""Reads one file as it is at one moment, or says that it could not.

The file is opened by its name inside an open folder, never through a link and without waiting
for a fifo's other end. Its times and size are asked before and after: if they differ, somebody
wrote meanwhile, and it is read again, a few times with a growing pause. A file that never holds
still is an error; its bytes would be a mixture that never existed.
"""

import os
import stat
import time
from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.workspace.descent import is_link_error

PAUSES_S: Final = (0.0, 0.005, 0.02, 0.1, 0.3)
"""Before each attempt: most writers are done within a few milliseconds."""

OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

T = TypeVar("T")


class Vanished(Exception):
    """The name is gone, or stands for something else now. Never leaves the engine."""


class Unreadable(Exception):
    """The file is there and cannot be read. Never leaves the engine: it goes to the coverage."""


def read_still(
    name: bytes, folder_fd: int, read: Callable[[int, os.stat_result], T]
) -> tuple[T, os.stat_result]:
    """Returns what `read` makes of the open file, and the file's state at that moment.

    Raises `Vanished`, or `Unreadable` with the reason.
    """
    for pause_s in PAUSES_S:
        if pause_s:
            time.sleep(pause_s)
        fd = _open(name, folder_fd)
        try:
            before = os.fstat(fd)
            if not stat.S_ISREG(before.st_mode):
                raise Vanished
            found = read(fd, before)
            after = os.fstat(fd)
        except OSError as exc:
            raise Unreadable(exc.strerror or str(exc)) from exc
        finally:
            os.close(fd)
        if is_same(before, after):
            return found, after
    raise Unreadable("it changed each time it was read")


def read_all(fd: int, size_bytes: int) -> bytes:
    """Returns a file's bytes up to its end, which should come after that many."""
    data = os.read(fd, size_bytes + 1)
    if len(data) == size_bytes:
        return data
    parts = [data]
    while parts[-1]:
        parts.append(os.read(fd, 1 << 20))
    return b"".join(parts)


def read_link(name: bytes, folder_fd: int) -> tuple[bytes, os.stat_result]:
    """Returns where a link points, and its state."""
    try:
        before = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        target = os.readlink(name, dir_fd=folder_fd)
        after = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError as exc:
        raise Vanished from exc
    except OSError as exc:
        raise Vanished if not _is_link(name, folder_fd) else Unreadable(str(exc)) from exc
    if not is_same(before, after) or not stat.S_ISLNK(after.st_mode):
        raise Vanished
    return target, after


def is_same(before: os.stat_result, after: os.stat_result) -> bool:
    """Says whether nothing was written between two looks at a file."""
    return (
        before.st_mtime_ns == after.st_mtime_ns
        and before.st_ctime_ns == after.st_ctime_ns
        and before.st_size == after.st_size
        and before.st_ino == after.st_ino
    )


def _open(name: bytes, folder_fd: int) -> int:
    try:
        return os.open(name, OPEN_FILE, dir_fd=folder_fd)
    except FileNotFoundError as exc:
        raise Vanished from exc
    except OSError as exc:
        if is_link_error(exc):
            raise Vanished from exc
        raise Unreadable(exc.strerror or str(exc)) from exc


def _is_link(name: bytes, folder_fd: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder_fd, follow_symlinks=False).st_mode)
    except OSError:
        return False
