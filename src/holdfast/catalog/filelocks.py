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
from holdfast.errors import StorageFull, Unavailable

_SAFE: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class FileLocks:
    """Named locks in one directory, which is made durably if need be."""

    def __init__(self, folder: Path) -> None:
        with _translated():
            _make_folder(folder)
        self._folder = folder
        self._open_fds: set[int] = set()
        self._held: tuple[str, int] | None = None
        self._guard = threading.RLock()
        tell_of_forks(self)

    @contextmanager
    def waiting(self, name: str) -> Generator[None]:
        """Holds a lock, waiting until it is free."""
        fd = self._open(name)
        try:
            with _translated():
                fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            self._close(fd)

    @contextmanager
    def trying(self, name: str) -> Generator[bool]:
        """Holds a lock if it is free, and says whether it is held."""
        fd = self._open(name)
        try:
            yield _try(fd)
        finally:
            self._close(fd)

    def hold(self, make_name: Callable[[], str]) -> str:
        """Holds a lock of a new name until `release` or the end of the process.

        Returns the name, the same each time; a forked child gets one of its own.
        """
        with self._guard:
            while self._held is None:
                name = make_name()
                fd = self._open(name)
                if _try(fd):
                    self._held = (name, fd)
                else:
                    self._close(fd)
            return self._held[0]

    def release(self) -> None:
        """Lets go of the lock taken by `hold`, and removes its file."""
        with self._guard:
            held, self._held = self._held, None
        if held is not None:
            self._remove(held[0])
            self._close(held[1])

    def is_held(self, name: str) -> bool:
        """Says whether anybody holds the lock; removes the file of a holder that died."""
        if not self._path(name).exists():
            return False
        with self.trying(name) as is_free:
            if is_free:
                self._remove(name)
            return not is_free

    def was_ever_taken(self, name: str) -> bool:
        """Says whether anybody has held this lock since the folder was made."""
        return self._path(name).exists()

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
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with _translated(), self._guard:
            fd = os.open(self._path(name), flags, 0o600)
            self._open_fds.add(fd)
            return fd

    def _close(self, fd: int) -> None:
        with self._guard:
            # Not there: we are a child that was forked while its parent held the lock.
            if fd in self._open_fds:
                self._open_fds.discard(fd)
                # Closing alone would leave it to a copy in a child that is about to run
                # another program.
                fcntl.flock(fd, fcntl.LOCK_UN)
                os.close(fd)

    def _remove(self, name: str) -> None:
        with _translated():
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if not _SAFE.fullmatch(name):
            message = f"{name!r} cannot name a lock"
            raise ValueError(message)
        return self._folder / name


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
        message = f"the catalog's locks: {exc.strerror or exc}"
        if exc.errno in _NO_ROOM:
            raise StorageFull(message) from exc
        raise Unavailable(message) from exc
