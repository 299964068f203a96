"""Files of a backup: written whole, synced, and named last; readable by their owner alone."""

import fcntl
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from blake3 import blake3

from holdfast.blobs.places import Pieces, pieces_of
from holdfast.errors import Busy
from holdfast.errors.system import translated

TEMPORARY: Final = ".tmp"
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@contextmanager
def locked_folder(folder: Path) -> Generator[None]:
    """Makes a folder for a backup if need be, and keeps everybody else out of it."""
    with translated(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            message = f"another backup is being made in {folder}"
            raise Busy(message) from exc
        except OSError:
            # A file system without locks: then its owner sees to it.
            pass
        yield
    finally:
        os.close(fd)


def put(path: Path, pieces: Pieces) -> None:
    """Writes a file: its bytes are on the disk before it has its name, and so is the name."""
    with translated(path):
        _make(path.parent)
        temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}{TEMPORARY}")
        try:
            fd = os.open(temporary, _CREATE, 0o600)
            with open(fd, "wb") as file:  # noqa: PTH123 - of a descriptor
                file.writelines(pieces)
                file.flush()
                os.fsync(fd)
            temporary.rename(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync(path.parent)


def begin(path: Path) -> None:
    """Makes an empty file for somebody who writes to it by its path."""
    os.close(os.open(path, _CREATE, 0o600))


def fill(target: Path, pieces: Pieces) -> None:
    """Writes a file of any size where nobody looks yet, and makes it durable."""
    with translated(target):
        begin(target)
        with target.open("wb") as made:
            made.writelines(pieces)
        sync(target)
        sync(target.parent)


def sync(path: Path) -> None:
    """Makes a file's bytes, or the names in a folder, durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def measure(pieces: Pieces) -> tuple[int, str]:
    """Returns the size and the hash of a file, reading it to its end."""
    digest, size = blake3(), 0
    for piece in pieces:
        digest.update(piece)
        size += len(piece)
    return size, digest.hexdigest()


def read(path: Path) -> Iterator[bytes]:
    """Yields the bytes of a file."""
    with translated(path), path.open("rb") as file:
        yield from pieces_of(file)


def read_open(file: BinaryIO, what: object) -> Iterator[bytes]:
    """Yields the bytes of a file that is open, from its beginning on."""
    with translated(what):
        yield from pieces_of(file)


def read_if_there(path: Path) -> bytes | None:
    """Returns the bytes of a file; None if there is none."""
    with translated(path):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


def all_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Yields the path of every file below a folder, relative to it, with its size."""
    with translated(folder):
        for path in folder.rglob("*"):
            if not path.is_dir():
                yield str(path.relative_to(folder)), path.lstat().st_size


def remove(path: Path) -> None:
    """Removes a file, if it is there."""
    with translated(path), suppress(FileNotFoundError):
        path.unlink()


def _make(folder: Path) -> None:
    """Makes a folder and what leads to it, each synced into the one above."""
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync(folder.parent)
