"""A folder for the numbers that workers share while a server runs, and no longer.

A server that is killed leaves its folder behind. The next one to start removes it: whoever runs
holds a lock in its own, which ends with the process, in whatever container that is.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "holdfast-metrics-"
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
