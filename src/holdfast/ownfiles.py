"""Files of our own: read whole, for their owner alone, and there after a power cut.

What a vault holds is somebody's work, and its catalog the secrets of webhooks. So a file is its
owner's alone, whatever the umask, and whatever the folder lets others do: one that was there
before, such as a volume that was mounted, may be open to everybody on the machine.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

MODE: Final = 0o600
_OTHERS: Final = 0o077
_AT_ONCE: Final = 1 << 16


def create(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a file to write, empty; makes it if it is not there."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)
    file = os.fdopen(fd, "wb")
    close_to_others(path)
    return file


def claim(path: str | os.PathLike[str]) -> None:
    """Makes an empty file, unless there is one: what somebody else makes takes its own mode."""
    with suppress(OSError):  # Whoever opens it next hears the same, and knows what to do.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, MODE))


def close_to_others(path: str | os.PathLike[str]) -> None:
    """Takes a file from all but its owner, where it is there, ours, and open to others."""
    with suppress(OSError):
        if is_open(path):
            Path(path).chmod(MODE)


def is_open(path: str | os.PathLike[str]) -> bool:
    """Says whether others than its owner may read, write or enter something."""
    return bool(Path(path).stat().st_mode & _OTHERS)


def read_small(path: str | os.PathLike[str]) -> bytes:
    """Returns what a small file holds.

    In four system calls, where `open` makes nine: a command that a process that stays answers reads
    some twenty of them, and has three milliseconds.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = b""
        while part := os.read(fd, _AT_ONCE):
            data += part
        return data
    finally:
        os.close(fd)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Puts on the disk what a folder says of its files: their names.

    A new file is there after a power cut if both are synced, the file and its folder.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
