"""What stands at a place in a folder: is it what is known, whose is it, how would it be made."""

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from holdfast.workspace.descent import Descent
from holdfast.workspace.resting import Rest, Resting
from holdfast.workspace.statformat import nearest
from holdfast.workspace.statindex import UNSURE, Row, StatIndex, unsure
from holdfast.workspace.steps import Drifted, State, Step, is_file, split_key

_LOOK: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GET_FLAGS: Final = 0x80086601
_APPEND_ONLY: Final = 0x20
"""Of Linux: `FS_IOC_GETFLAGS` and `FS_APPEND_FL`."""
_MOST_KEPT: Final = 1000
"""Names that are tried for what somebody has changed, and made anew meanwhile."""
_KEPT_BYTES: Final = 240


class Expected:
    """What is known of a directory, to be compared before something of it is replaced."""

    def __init__(self, index: StatIndex, *, checks: bool, written: Mapping[bytes, State]) -> None:
        """Without `checks`, whatever is there may go; `written` is what another writer put."""
        self._index = index
        self.checks = checks
        """Whether what is known was there a moment ago, and nothing else may go."""
        self._written = written
        self._folder: bytes | None = None
        self._rows: dict[bytes, Row] = {}
        self._resting = Resting()
        self.at = b""
        """What `check_all` last looked at."""

    def check_all(self, steps: Iterable[Step], root_fd: int) -> None:
        """Raises `Drifted` if a file that is to be replaced is not as it was."""
        with Descent(root_fd) as descent:
            for step in steps:
                if is_file(step.old):
                    self.at = step.key
                    self.check(step.key, descent.open(split_key(step.key)[0]))

    def check(self, key: bytes, fd: int) -> Row | None:
        """Returns the row of what is at a path; raises `Drifted` if it is something else."""
        folder, name = split_key(key)
        known = self._row(folder, name)
        try:
            state = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            if known is not None and self.checks:
                raise Drifted(key) from None
            return None
        if not self.checks:
            return None
        if known is None or not is_as_indexed(known, state):
            raise Drifted(key)
        return known

    def check_open(self, key: bytes, file: int, row: Row) -> os.stat_result:
        """Returns the state of an open file; raises `Drifted` if it is not the one a row knows."""
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode) or not is_as_indexed(row, state):
            raise Drifted(key)
        return state

    def remove(self, key: bytes, fd: int, row: Row, *, aside: bytes) -> None:
        """Removes what is at a path; raises `Drifted` if it is not the file that the row knows.

        Under another name nobody can open it, or put something else in its place: whatever was
        done until then shows, and is there again.
        """
        name = split_key(key)[1]
        os.rename(name, aside, src_dir_fd=fd, dst_dir_fd=fd)
        state = os.stat(aside, dir_fd=fd, follow_symlinks=False)
        if not _is_same_content(row, state):
            _put_back(aside, name, fd)
            raise Drifted(key)
        try:
            os.unlink(aside, dir_fd=fd)
        except OSError:
            _put_back(aside, name, fd)
            raise

    def shorten(self, key: bytes, file: int, row: Row, data: bytes, *, mtime_ns: int) -> bool:
        """Gives an open file a shorter content, if nobody else has it open; says whether it did.

        Raises `Drifted` if it is not the one that the row knows.
        """
        # That state, and none that is looked at later, is what is compared once nobody can write.
        state = self.check_open(key, file, row)
        try:
            return self._resting.shorten(file, data, state, mtime_ns=mtime_ns)
        except FileNotFoundError as exc:
            raise Drifted(key) from exc

    def has_writer(self, name: bytes, fd: int) -> bool:
        """Says whether somebody is known to have a file open, or mapped, for writing."""
        try:
            file = os.open(name, _LOOK, dir_fd=fd)
        except OSError:
            return False
        try:
            return self._resting.ask(file, os.fstat(file).st_dev) is Rest.REFUSED
        finally:
            os.close(file)

    def is_theirs(self, key: bytes, fd: int) -> bool:
        """Says whether somebody has changed what another writer put there."""
        if key not in self._written:
            return False
        with suppress(FileNotFoundError):
            return state_of(split_key(key)[1], fd) != self._written[key]
        return False

    def _row(self, folder: bytes, name: bytes) -> Row | None:
        if self._folder != folder:
            known = self._index.find(folder)
            self._folder = folder
            self._rows = {row.name: row for row in known.rows} if known else {}
        return self._rows.get(name)


def _put_back(aside: bytes, name: bytes, fd: int) -> None:
    """Gives something its name again: another one, where somebody has made a file since."""
    for number in range(_MOST_KEPT):
        free = name[:_KEPT_BYTES] + b".kept-%d" % number if number else name
        try:
            os.link(aside, free, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
        except FileExistsError:
            continue
        except OSError:  # A folder has one name, and so has a file of somebody else's.
            os.rename(aside, free, src_dir_fd=fd, dst_dir_fd=fd)
        else:
            os.unlink(aside, dir_fd=fd)
        return


@contextmanager
def removing(temporary: bytes, fd: int) -> Generator[None]:
    """Removes a temporary file if what is done with it fails."""
    try:
        yield
    except Exception:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=fd)
        raise


def check_lets_go(fd: int) -> None:
    """Raises `PermissionError` for a folder that takes new names and lets none go.

    What is written there beside its place could neither be put in it nor be removed.
    """
    try:
        found = fcntl.ioctl(fd, _GET_FLAGS, bytes(8))
    except OSError:  # a file system without such attributes
        return
    if int.from_bytes(found[:4], sys.byteorder) & _APPEND_ONLY:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def is_there(name: bytes, fd: int) -> bool:
    """Says whether something has this name in a folder; where nobody can say, it has not."""
    try:
        os.lstat(name, dir_fd=fd)
    except OSError:
        return False
    return True


def is_as_indexed(row: Row, state: os.stat_result) -> bool:
    """Says whether something is as the index knows it."""
    return _is_same_content(row, state) and (
        # One that is unsure has the same time of change still, if the index could keep it.
        row.ctime_ns in (state.st_ctime_ns, unsure(state.st_ctime_ns), UNSURE) or row.nlink > 1
    )


def _is_same_content(row: Row, state: os.stat_result) -> bool:
    """Says whether something is the file of the index, whatever its names are."""
    return (
        row.size == state.st_size
        and row.mtime_ns == nearest(state.st_mtime_ns)
        and row.ino == state.st_ino
        and row.mode == state.st_mode
    )


def umask() -> int:
    """Returns which bits new files are not given; all of them, where that cannot be asked.

    Asking the system itself means setting it, for all threads, for a moment.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("Umask:"))
        return int(line.split()[1], 8)
    except (OSError, StopIteration, ValueError):
        return 0o7777


def state_of(name: bytes, fd: int) -> State:
    """Returns what is compared of something that was put."""
    state = os.stat(name, dir_fd=fd, follow_symlinks=False)
    return state.st_size, state.st_mtime_ns
