"""What is there while a server runs, and no longer: numbers that workers share, and uploads.

A server that is killed leaves them behind. The next one to start removes them: whoever runs holds
a lock on its own, which ends with the process, in whatever container that is.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, Final, TypeVar, cast

F = TypeVar("F", bound=IO[bytes])

PREFIX: Final = "holdfast-metrics-"
UPLOAD: Final = "holdfast-import-"
_LOCK: Final = "lock"
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@contextmanager
def shared_folder() -> Generator[str]:
    """Lends a folder until the server ends; removes those of servers that were killed."""
    remove_left()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as folder:
        fd = os.open(f"{folder}/{_LOCK}.new", _FLAGS, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            # Held before it has its name: nobody finds one that is free and not yet held.
            Path(folder, f"{_LOCK}.new").rename(Path(folder, _LOCK))
            yield folder
        finally:
            os.close(fd)


def remove_left() -> None:
    """Removes the folders of servers of this user that do not run any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(fd)


@contextmanager
def given_up(file: F) -> Generator[F]:
    """Lends a file that is closed in the end, whatever the disk says: nobody wants it any more."""
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()


@contextmanager
def upload_in(folder: Path) -> Generator[BinaryIO]:
    """Lends a new file with a name, until the block ends."""
    while True:
        new = tempfile.NamedTemporaryFile(prefix=UPLOAD, dir=folder, delete=False)  # noqa: SIM115 - closed below
        with given_up(new) as file:
            path = Path(file.name)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                # Who removes what is left may have found it before it was held.
                if path.exists():
                    yield cast("BinaryIO", file)
                    return
            finally:
                path.unlink(missing_ok=True)


def remove_uploads(folder: Path) -> None:
    """Removes from a folder the uploads of servers that do not run any more."""
    for file in folder.glob(f"{UPLOAD}*"):
        with suppress(OSError):
            fd = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.unlink()
            finally:
                os.close(fd)
