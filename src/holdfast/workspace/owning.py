"""Gives a directory to a user, so that what runs as that user can change what is in it.

Never through a link, and never out of the directory: each folder is opened within the one above it
(`descent.py`), and what is in it is given by its name alone.
"""

import os
import stat
from collections.abc import Iterable

from holdfast.workspace.descent import OPEN_FOLDER, Descent


def hand_over(folder: str, user: int, *, within: Iterable[bytes] | None = None) -> None:
    """Gives a user a directory and all that is in it and belongs to somebody else.

    `within` are the folders to be looked into, if it is known that all else is the user's.
    Modes stay as they are.
    """
    root_fd = os.open(folder, OPEN_FOLDER)
    try:
        if os.fstat(root_fd).st_uid != user:
            os.fchown(root_fd, user, user)
        with Descent(root_fd) as descent:
            waiting = [b""] if within is None else sorted(within, reverse=True)
            while waiting:
                path = waiting.pop()
                try:
                    fd = descent.open(path)
                except (FileNotFoundError, NotADirectoryError):
                    # Gone since, or no folder any more: nothing is in it.
                    continue
                folders = _give_all(fd, user)
                if within is None:
                    waiting += (path + b"/" + name if path else name for name in folders)
    finally:
        os.close(root_fd)


def _give_all(fd: int, user: int) -> list[bytes]:
    """Gives what is in a folder; returns the names of folders in it."""
    folders: list[bytes] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            state = entry.stat(follow_symlinks=False)
            if state.st_uid != user:
                os.chown(entry.name, user, user, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISDIR(state.st_mode):
                folders.append(os.fsencode(entry.name))
    return folders
