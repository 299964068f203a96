"""Files of a backup: written whole, synced, and named last; readable by their owner alone."""

import fcntl
import os
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from blake3 import blake3

from holdfast.blobs.places import Pieces, pieces_of
from holdfast.errors import Busy, PathExists, StorageFull
from holdfast.errors.system import translated

TEMPORARY: Final = ".tmp"
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@contextmanager
def room_in(where: object, *, what: str, hint: str) -> Generator[None]:
    """Has a full disk named that is not the vault's: to collect there would help nobody."""
    try:
        yield
    except StorageFull as exc:
        if exc.hint != StorageFull.hint:
            raise  # It is named already.
        raise StorageFull(f"{where} has no room for {what}").with_hint(hint) from exc


def room_for_rows(folder: Path | None) -> AbstractContextManager[None]:
    """Names the disk that rows lie on while they are sent or loaded, if that is full."""
    from tempfile import gettempdir  # noqa: PLC0415 - by who makes backups or brings them back

    where = folder or gettempdir()
    other = "another place" if folder else "another directory with TMPDIR"
    return room_in(
        where, what="the rows of the backup", hint=f"Free space in {where}, or name {other}."
    )


@contextmanager
def locked_folder(folder: Path) -> Generator[None]:
    """Makes a folder for a backup if need be, and keeps everybody else out of it."""
    make_folder(folder, mode=0o700)
    with translated(folder):
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


def make_folder(folder: Path, *, mode: int = 0o777) -> None:
    """Makes a folder and what leads to it; raises `PathExists` where something else stands."""
    with translated(folder):
        try:
            folder.mkdir(mode=mode, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as exc:
            there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
            taken = PathExists(os.fsencode(there), what="something that is no directory")
            raise taken.with_hint("Name a path at which there is a directory, or nothing.") from exc


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
