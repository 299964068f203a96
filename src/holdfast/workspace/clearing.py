"""Opens and removes directories in which somebody else has worked, however they were left.

Folders may be closed to everybody, and lie deeper than any path can name, or a function can call
itself: neither keeps anybody from removing them. Nobody works in there any more; still, nothing is
done through a link.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from holdfast.workspace.descent import OPEN_FOLDER, open_folder, set_mode_unopened

_PRIVATE: Final = 0o700


def open_all(folder: Path) -> None:
    """Lets a directory and the folders in it be entered, and all files be read.

    What lies deeper than a path can name stays as it is.
    """
    folder.chmod(folder.stat().st_mode | _PRIVATE)
    root_fd = os.open(folder, OPEN_FOLDER)
    try:
        waiting = [b"."]
        while waiting:
            place = waiting.pop()
            try:
                fd = os.open(place, OPEN_FOLDER, dir_fd=root_fd)
            except OSError as exc:
                if exc.errno == errno.ENAMETOOLONG:
                    continue
                raise
            try:
                for name, mode in _iter_in(fd):
                    if stat.S_ISDIR(mode):
                        _let(name, fd, mode, _PRIVATE)
                        waiting.append(place + b"/" + name)
                    elif not stat.S_ISLNK(mode):
                        _let(name, fd, mode, stat.S_IRUSR)
            finally:
                os.close(fd)
    finally:
        os.close(root_fd)


def remove(folder: Path) -> None:
    """Removes a directory and all that is in it.

    Folders come up to the top one after the other, and are removed there: so none is deep.
    """
    folder.chmod(folder.stat().st_mode | _PRIVATE)
    root_fd = os.open(folder, OPEN_FOLDER)
    try:
        waiting = _empty(root_fd, None)
        while waiting:
            name = waiting.pop()
            fd = open_folder(name, root_fd)
            try:
                waiting += _empty(fd, root_fd)
            finally:
                os.close(fd)
            os.rmdir(name, dir_fd=root_fd)
    finally:
        os.close(root_fd)
    folder.rmdir()


def _empty(fd: int, top_fd: int | None) -> list[bytes]:
    """Removes what is in a folder, but for folders, which come to the top; returns their names."""
    folders: list[bytes] = []
    for name, mode in list(_iter_in(fd)):
        if not stat.S_ISDIR(mode):
            os.unlink(name, dir_fd=fd)
            continue
        # Who moves a folder changes what is in it: the way up.
        _let(name, fd, mode, _PRIVATE)
        if top_fd is None:
            folders.append(name)
        else:
            folders.append(uuid4().hex.encode())
            os.rename(name, folders[-1], src_dir_fd=fd, dst_dir_fd=top_fd)
    return folders


def _iter_in(fd: int) -> Iterator[tuple[bytes, int]]:
    with os.scandir(fd) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                yield os.fsencode(entry.name), entry.stat(follow_symlinks=False).st_mode


def _let(name: bytes, fd: int, mode: int, wanted: int) -> None:
    if mode & wanted != wanted:
        set_mode_unopened(name, fd, stat.S_IMODE(mode) | wanted)
