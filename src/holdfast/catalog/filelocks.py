"""Locks between processes on one machine, as files that the kernel locks.

A lock ends with its holder, however that ends: nothing has to be cleaned up after a kill -9.
A file descriptor's lock also excludes other descriptors of the same process, so threads are
kept apart the same way. A forked child lets go of what it inherited: it holds no lock.
Taking and freeing one costs 6 µs.
"""

import errno
import fcntl
import os
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.catalog.forking import tell_of_forks
from holdfast.errors import HoldfastError, StorageReadOnly
from holdfast.errors.system import from_system

_SAFE: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW

_NONE: Final = -1
"""No descriptor."""


class FileLocks:
    """Named locks in one directory, which is made durably if need be."""

    def __init__(self, folder: Path) -> None:
        with _translated():
            _make_folder(folder)
        self._folder = str(folder)
        self._open_fds: set[int] = set()
        self._held: tuple[str, int] | None = None
        self._guard = threading.RLock()
        tell_of_forks(self)

    def waiting(self, name: str) -> "_Waiting":
        """Holds a lock, waiting until it is free."""
        return _Waiting(self, name)

    def wait(self, name: str, *, kept: int = _NONE) -> int:
        """Takes a lock when it is free; returns what `free` or `unlock` has to be given.

        `kept` is what an earlier call has returned, and `unlock` was given.
        """
        fd, is_taken = kept if self._is_kept(kept) else self._open(name), False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            is_taken = True
        except OSError as exc:
            raise _error(exc) from exc
        finally:
            if not is_taken:
                self.free(fd)
        return fd

    @contextmanager
    def trying(self, name: str) -> Generator[bool]:
        """Holds a lock if it is free, and says whether it is held."""
        try:
            fd = self._open(name)
        except StorageReadOnly:
            # Nobody can change what lies there, so nobody has to be kept from it.
            yield True
            return
        try:
            yield _try(fd)
        finally:
            self.free(fd)

    def hold(self, make_name: Callable[[], str]) -> str:
        """Holds a lock of a new name until `release` or the end of the process.

        Returns the name, the same each time; a forked child gets one of its own.
        """
        with self._guard:
            while self._held is None:
                name = make_name()
                fd = self._open(name)
                if _try(fd) and self._is_at(name, fd):
                    self._held = (name, fd)
                else:
                    self.free(fd)
            return self._held[0]

    def release(self) -> None:
        """Lets go of the lock taken by `hold`, and removes its file."""
        with self._guard:
            held, self._held = self._held, None
        if held is not None:
            self._remove(held[0])
            self.free(held[1])

    def is_taken(self, name: str) -> bool:
        """Says whether anybody holds the lock; removes the file of a holder that died."""
        if not self.was_ever_taken(name):
            return False
        with self.trying(name) as is_free:
            if is_free:
                self._remove(name)
            return not is_free

    def clear(self, prefix: str) -> None:
        """Removes the files of holders that died, of all whose names begin so."""
        with _translated():
            names = [found.name for found in Path(self._folder).iterdir()]
        for name in names:
            if name.startswith(prefix) and _SAFE.fullmatch(name):
                self.is_taken(name)

    def was_ever_taken(self, name: str) -> bool:
        """Says whether anybody has held this lock since the folder was made."""
        return Path(self._path(name)).exists()

    def before_fork(self) -> None:
        """Sees to it that the child knows every descriptor it inherits."""
        self._guard.acquire()

    def after_fork(self, *, in_child: bool) -> None:
        """Closes the child's copies: they would keep a lock beyond the parent's death."""
        if in_child:
            for fd in self._open_fds:
                os.close(fd)
            self._open_fds.clear()
            self._held = None
        self._guard.release()

    def _open(self, name: str) -> int:
        path = self._path(name)
        with self._guard:
            try:
                fd = os.open(path, _FLAGS, 0o600)
            except OSError as exc:
                raise _error(exc) from exc
            self._open_fds.add(fd)
            return fd

    def free(self, fd: int) -> None:
        """Frees a lock."""
        with self._guard:
            # Not there: we are a child that was forked while its parent held the lock.
            if fd in self._open_fds:
                self._open_fds.discard(fd)
                # Closing alone would leave it to a copy in a child that is about to run
                # another program.
                fcntl.flock(fd, fcntl.LOCK_UN)
                os.close(fd)

    def unlock(self, fd: int) -> None:
        """Frees a lock that the same descriptor will take again: half the time of `free`."""
        with self._guard:
            if fd in self._open_fds:
                fcntl.flock(fd, fcntl.LOCK_UN)

    def _is_kept(self, fd: int) -> bool:
        """Says whether a descriptor is still open, and its file still has a name."""
        with self._guard:
            if fd not in self._open_fds:
                return False
            if os.fstat(fd).st_nlink:
                return True
            self.free(fd)
            return False

    def _is_at(self, name: str, fd: int) -> bool:
        """Says whether a file is still the one of a name.

        Who clears up may have found it before it was locked, and removed it.
        """
        try:
            found, mine = Path(self._path(name)).lstat(), os.fstat(fd)
        except FileNotFoundError:
            return False
        except OSError as exc:
            raise _error(exc) from exc
        return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)

    def _remove(self, name: str) -> None:
        with _translated():
            Path(self._path(name)).unlink(missing_ok=True)

    def _path(self, name: str) -> str:
        if not _SAFE.fullmatch(name):
            message = f"{name!r} cannot name a lock"
            raise ValueError(message)
        # Text: a path object takes longer to make than the lock itself to take.
        return f"{self._folder}/{name}"


class _Waiting:
    """A lock that is held, once it is free."""

    __slots__ = ("_fd", "_locks", "_name")

    def __init__(self, locks: FileLocks, name: str) -> None:
        self._locks, self._name = locks, name

    def __enter__(self) -> None:
        self._fd = self._locks.wait(self._name)

    def __exit__(self, *_: object) -> None:
        self._locks.free(self._fd)


def _try(fd: int) -> bool:
    try:
        with _translated():
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make_folder(folder: Path) -> None:
    """Makes a folder and what leads to it, each synced into the one above."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    # Also when it was there: another process may have made it a moment ago. A parent that we
    # may not read is the operator's own making.
    with suppress(PermissionError):
        fd = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as exc:
            # A disk that turned read-only says so here, and has nothing to write.
            if exc.errno != errno.EROFS:
                raise
        finally:
            os.close(fd)


@contextmanager
def _translated() -> Generator[None]:
    """Turns the operating system's errors into ours, but for 'somebody else has it'."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as exc:
        raise _error(exc) from exc


def _error(exc: OSError) -> HoldfastError:
    return from_system(exc, "the catalog's locks")
