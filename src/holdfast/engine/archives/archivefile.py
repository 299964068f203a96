"""Archives as files outside the vault: one to read, or one to write.

Read: opened once, a regular file, and every byte comes from that one descriptor; a name that
is pointed elsewhere meanwhile changes nothing. Written: whole or not at all. The bytes go to a
name of their own beside the target, are synced, and take the target's name last, so whatever
stood there is there until all of the new file is. Whoever writes holds a lock on the file: one that
nobody holds was left by somebody who was killed, and goes when the next is written beside it.

What the operating system says about such a file becomes one of our errors here.
"""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, Self, cast

from holdfast.errors import (
    HoldfastError,
    InvalidValue,
    NotFound,
    StorageFull,
    Unavailable,
    UnsafeArchive,
    shorten,
)
from holdfast.errors.system import NO_ROOM
from holdfast.ownfiles import sync_folder
from holdfast.targets import target_of

FileName = str | os.PathLike[str]

# Without O_NONBLOCK, opening a pipe would wait for somebody to write to it.
_LOOK: Final = "Name a file that you may use, in a directory that is there."
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_TEMPORARY: Final = re.compile(r"\.holdfast-export-[0-9a-f]{16}\.tmp")
_FILE_MODE: Final = 0o600
"""As for the vault itself: what it holds is its owner's alone."""

_BUFFER_BYTES: Final = 1 << 20
_NOT_USABLE: Final = frozenset(
    {
        errno.EACCES,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOTDIR,
        errno.ENXIO,
        errno.EPERM,
        errno.EROFS,
    }
)


class Source:
    """An archive to read. It has to stay as it is for as long as this is open."""

    def __init__(self, path: FileName) -> None:
        """Opens the file; raises `UnsafeArchive` for one that is not regular."""
        self._path = os.fspath(path)
        try:
            self._fd = os.open(self._path, _READ)
        except OSError as exc:
            raise error_of(exc, self._path) from exc
        except ValueError as exc:
            raise InvalidValue(f"{shorten(self._path)} is not the name of a file") from exc
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(self._fd)
            raise UnsafeArchive("it is not a regular file")
        self.size = found.st_size
        self._mtime_ns = found.st_mtime_ns

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def read(self, at: int, length: int) -> bytes:
        """Returns exactly these bytes; raises `UnsafeArchive` if they are not there."""
        if at + length > self.size:
            raise UnsafeArchive("it ends before what it announces")
        data = self._pread(length, at)
        # One call reads 2 GB at the most, and may be interrupted.
        while len(data) < length:
            more = self._pread(length - len(data), at + len(data))
            if not more:
                raise UnsafeArchive("it became shorter while it was read")
            data += more
        return data

    def stream(self, at: int, length: int) -> BinaryIO:
        """Returns these bytes as a stream, to be read once."""
        # A cast, because all that is ever asked of the stream is to read on.
        return cast("BinaryIO", _Slice(self, at, length))

    def check_unchanged(self) -> None:
        """Raises `UnsafeArchive` if the file is not the one that was opened."""
        found = os.fstat(self._fd)
        if (found.st_size, found.st_mtime_ns) != (self.size, self._mtime_ns):
            raise UnsafeArchive("it was changed while it was read")

    def _pread(self, length: int, at: int) -> bytes:
        try:
            return os.pread(self._fd, length, at)
        except OSError as exc:
            raise error_of(exc, self._path) from exc


@contextmanager
def writing_to(target: FileName) -> Generator[BinaryIO]:
    """Opens a new file to write, which takes the target's name if all goes well."""
    path = _place_of(Path(target))
    file, temporary = _create(path)
    try:
        yield file
        _finish(file, temporary, path)
    except (Exception, KeyboardInterrupt):
        with suppress(OSError):
            temporary.unlink()
        with suppress(OSError):
            file.close()
        raise


def error_of(exc: OSError, path: str | Path) -> HoldfastError:
    """Returns our error for what the operating system says about a file of the user."""
    message = f"{shorten(str(path))}: {exc.strerror or exc}"
    if isinstance(exc, FileNotFoundError):
        return NotFound(message).with_hint(_LOOK)
    if exc.errno in NO_ROOM:
        return StorageFull(message)
    if exc.errno in _NOT_USABLE:
        return InvalidValue(message).with_hint(_LOOK)
    return Unavailable(message).with_hint(_LOOK)


def _place_of(path: Path) -> Path:
    """Returns where a file is written that somebody wants at a path."""
    if "\0" in str(path) or path.is_dir():
        raise InvalidValue(f"{shorten(str(path))} is not the name of a file").with_hint(_LOOK)
    try:
        return target_of(path)
    except OSError as exc:
        raise error_of(exc, path) from exc


def _create(path: Path) -> tuple[BinaryIO, Path]:
    """Opens a file beside the target, and holds its lock for as long as it is open."""
    _remove_left(path.parent)
    while True:
        temporary = path.parent / f".holdfast-export-{os.urandom(8).hex()}.tmp"
        try:
            file = os.fdopen(os.open(temporary, _CREATE, _FILE_MODE), "wb", _BUFFER_BYTES)
        except OSError as exc:
            raise error_of(exc, path) from exc
        with suppress(OSError):  # Where there are no locks, nobody takes it for left over either.
            fcntl.flock(file, fcntl.LOCK_EX)
        if temporary.exists():
            return file, temporary
        file.close()  # Somebody took it for left over, before it was locked.


def _remove_left(folder: Path) -> None:
    """Removes what was left in a folder by those who were killed while they wrote."""
    with suppress(OSError), os.scandir(folder) as entries:
        left = [entry.path for entry in entries if _TEMPORARY.fullmatch(entry.name)]
        for name in left:
            with suppress(OSError):  # It is somebody else's, or gone.
                _remove_unlocked(name)


def _remove_unlocked(name: str) -> None:
    fd = os.open(name, _LOCK)
    try:
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            Path(name).unlink()
    finally:
        os.close(fd)


def _finish(file: BinaryIO, temporary: Path, path: Path) -> None:
    try:
        file.flush()
        # Bytes first, name last: a power cut leaves the old file or the whole new one.
        os.fsync(file.fileno())
        temporary.replace(path)
        file.close()  # Not before it has its name: unlocked, it would be taken for left over.
        sync_folder(path.parent)
    except OSError as exc:
        raise error_of(exc, path) from exc


class _Slice:
    """A stretch of an archive to read once, from its beginning to its end."""

    def __init__(self, source: Source, at: int, length: int) -> None:
        self._source = source
        self._at = at
        self._left = length

    def read(self, length: int = -1, /) -> bytes:
        """Returns so many bytes, or all that are left; none at the end."""
        length = self._left if length < 0 else min(length, self._left)
        data = self._source.read(self._at, length)
        self._at, self._left = self._at + length, self._left - length
        return data
