"""Reads one file as it is at one moment, or says that it could not.

The file is opened by its name inside an open folder, never through a link and without waiting
for a fifo's other end. Its times and size are asked before and after: if they differ, somebody
wrote meanwhile, and it is read again, a few times with a growing pause.

What was read is one version only if nobody could have been writing (`resting.py` has the proof).
Where that can be asked, and nobody was, it is. Where somebody has the file open for writing, or it
never holds still, it is *in motion*: what was read may be a mixture that never existed, and the
answer says so. Where it cannot be asked, a file that was changed within a generous margin is
unsure; that its second reading equals the first is the caller's to see
(`holdfast.engine.capturing.capture`).
"""

import os
import stat
import time
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from holdfast.workspace.descent import is_link_error
from holdfast.workspace.resting import Rest, Resting, floor_ns, tick_s
from holdfast.workspace.statindex import is_unsure, settled, unsure

PAUSES_S: Final = (0.0, 0.005, 0.02, 0.1, 0.3)
"""Before each attempt: most writers are done within a few milliseconds."""

OPEN: Final = "it was open for writing"
TORN: Final = "it changed each time it was read"

_MARGIN_NS: Final = 10_000_000_000
_SLOW_BYTES_PER_NS: Final = 16e6 / 1e9
"""Where writers cannot be seen: a write that began longer ago than ten seconds, and a second more
for every 16 MB that the file has, is taken to have ended."""

_WORTH_WAITING_BYTES: Final = 1 << 20
"""From here on, waiting for a tick of the clock is cheaper than reading twice."""

OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

T = TypeVar("T")


class Vanished(Exception):
    """The name is gone, or stands for something else now. Never leaves the engine."""


class Unreadable(Exception):
    """The file is there and cannot be read. Never leaves the engine: it goes to the coverage."""


class Reading(NamedTuple, Generic[T]):
    """What was read of a file."""

    value: T
    state: os.stat_result
    ctime_ns: int
    """For the index: proof that what was read is one version, or else unsure."""
    motion: str
    """Why what was read may be a mixture; empty if nothing says so."""
    heard: int | None
    """How much had been heard when nobody was seen to have it open for writing; None otherwise."""


def read_still(
    name: bytes,
    folder_fd: int,
    read: Callable[[int, os.stat_result], T],
    *,
    resting: Resting,
) -> Reading[T]:
    """Returns what `read` makes of the open file, and what that is worth.

    Raises `Vanished`, or `Unreadable` with the reason.
    """
    for pause_s in PAUSES_S:
        if pause_s:
            time.sleep(pause_s)
        fd = _open(name, folder_fd)
        try:
            floor, before = _look(fd)
            heard = resting.listen()
            rest = resting.ask(fd, before.st_dev)
            found = read(fd, before)
            rest = resting.ask_again(fd, before.st_dev, rest)
            after = os.fstat(fd)
        except OSError as exc:
            raise Unreadable(exc.strerror or str(exc)) from exc
        finally:
            os.close(fd)
        if rest is Rest.REFUSED:
            # Whoever it is may stay for days: the caller knows whether to try again.
            return Reading(found, after, unsure(after.st_ctime_ns), OPEN, None)
        if is_same(before, after):
            return Reading(found, after, _settled(after, rest, floor), "", heard)
        if pause_s == PAUSES_S[-1]:
            return Reading(found, after, unsure(after.st_ctime_ns), TORN, None)
    raise AssertionError("the last attempt returns or raises")


def look_at_rest(name: bytes, folder_fd: int, *, resting: Resting) -> Rest:
    """Says whether reading the file now may prove what it holds; raises as `read_still` does."""
    fd = _open(name, folder_fd)
    try:
        floor, state = _look(fd)
        rest = resting.ask(fd, state.st_dev)
    except OSError as exc:
        raise Unreadable(exc.strerror or str(exc)) from exc
    finally:
        os.close(fd)
    if rest is Rest.REFUSED:
        return rest
    return Rest.UNKNOWN if is_unsure(_settled(state, rest, floor)) else Rest.PROVEN


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


def _look(fd: int) -> tuple[int, os.stat_result]:
    """Returns an open file's state, and a time that no later change is stamped before."""
    floor, state = floor_ns(), os.fstat(fd)
    if not stat.S_ISREG(state.st_mode):
        raise Vanished
    if state.st_size >= _WORTH_WAITING_BYTES and state.st_ctime_ns >= floor:
        time.sleep(tick_s())
        floor, state = floor_ns(), os.fstat(fd)
    return floor, state


def _settled(state: os.stat_result, rest: Rest, floor: int) -> int:
    """Returns the time of change if it proves what was read, or else that it is unsure."""
    margin_ns = 0
    if rest is not Rest.PROVEN:
        margin_ns = _MARGIN_NS + int(state.st_size / _SLOW_BYTES_PER_NS)
    return settled(state.st_ctime_ns, read_at_ns=floor, margin_ns=margin_ns)


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
