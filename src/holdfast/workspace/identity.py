"""Which directory it is, whatever its path: so that a moved one is known again, and another isn't.

A directory keeps its inode and the time of its birth when it is renamed or its parents are. One
that is made in its place has another birth, although file systems like to give it the very inode
that became free. Where births are not told, the inode has to do, together with what lies in the
directory. Nothing is written into it.
"""

import os
import stat
import struct
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.workspace.descent import open_root

MOST_LOOKED_AT: Final = 2_000
"""Files by which a directory is told from another: enough to be sure, and done in 20 ms."""

MOST_PASSED: Final = 5_000
"""Entries that are passed in looking for a directory that was moved."""

OWN_VAULT: Final = b".holdfast"
"""A vault that lies beside the files: never one of them."""

_STATX_BTIME: Final = 0x800
_STATX_BYTES: Final = 256
_BTIME_AT: Final = 80
_MASK: Final = struct.Struct("=I")
_TIME: Final = struct.Struct("=qI")
_AT_EMPTY_PATH: Final = 0x1000


class Identity(NamedTuple):
    """What stays with a directory when it is moved within its file system."""

    device: int
    inode: int
    born_ns: int | None
    """None where the file system does not tell."""
    mode: int

    def is_same(self, other: "Identity") -> bool:
        """Says whether both are one directory, as far as that can be told.

        Devices are numbered anew at each start of the machine: only without births they count.
        """
        if self.born_ns is None or other.born_ns is None:
            return (self.device, self.inode) == (other.device, other.inode)
        return (self.inode, self.born_ns) == (other.inode, other.born_ns)

    def is_certain(self, other: "Identity") -> bool:
        """Says whether both are one directory without a doubt."""
        return self.born_ns is not None and other.born_ns is not None and self.is_same(other)


def find_identity(path: Path) -> Identity | None:
    """Returns which directory is at a real path; None if none is. Links are not followed."""
    try:
        fd = open_root(str(path))
    except PermissionError:
        return None if not path.is_dir() else _of(path.stat(), None)
    except (OSError, ValueError):
        return None
    try:
        return _of(os.fstat(fd), _born_ns(fd))
    finally:
        os.close(fd)


def find_files(path: Path) -> dict[bytes, int]:
    """Returns the sizes of files in a directory by path, the uppermost first, and not too many."""
    found = dict[bytes, int]()
    folders, left = deque([b""]), MOST_LOOKED_AT
    while folders and left > 0:
        folder = folders.popleft()
        try:
            entries = sorted(os.scandir(os.path.join(os.fsencode(path), folder)), key=_name)
        except OSError:
            continue
        for entry in entries[:left]:
            left -= 1
            below = folder + b"/" + entry.name if folder else entry.name
            with suppress(OSError):  # It has just gone.
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != OWN_VAULT:
                        folders.append(below)
                elif entry.is_file(follow_symlinks=False):
                    found[below] = entry.stat(follow_symlinks=False).st_size
    return found


def find_near(path: Path, was: Identity) -> Path | None:
    """Returns where a directory is that is no longer at its path, if it is certain and near.

    Near is what lies beside it or beside its parent, and what lies in that; never all that is
    mounted somewhere.
    """
    left = MOST_PASSED
    folders = deque((parent, 0) for parent in path.parents[:2] if parent != parent.parent)
    while folders and left > 0:
        folder, depth = folders.popleft()
        try:
            entries = sorted(os.scandir(os.fsencode(folder)), key=_name)
        except OSError:
            continue
        for entry in entries[:left]:
            left -= 1
            with suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    continue
                there = Path(os.fsdecode(entry.path))
                if entry.inode() == was.inode:
                    found = find_identity(there)
                    if found is not None and found.is_certain(was):
                        return there
                if depth == 0:
                    folders.append((there, 1))
    return None


def _of(found: os.stat_result, born_ns: int | None) -> Identity:
    return Identity(found.st_dev, found.st_ino, born_ns, stat.S_IMODE(found.st_mode))


def _name(entry: os.DirEntry[bytes]) -> bytes:
    return entry.name


def _born_ns(fd: int) -> int | None:
    """Returns when a directory was made; None where the system does not say."""
    if sys.platform == "darwin":
        return int(os.fstat(fd).st_birthtime * 1_000_000_000)
    statx = _statx()
    buffer = bytearray(_STATX_BYTES)
    if statx is None or not statx(fd, buffer):
        return None
    if not _MASK.unpack_from(buffer)[0] & _STATX_BTIME:
        return None
    seconds, nanoseconds = _TIME.unpack_from(buffer, _BTIME_AT)
    return seconds * 1_000_000_000 + nanoseconds


@cache
def _statx() -> Callable[[int, bytearray], bool] | None:
    """Returns the system's own call: Python has none for it."""
    import ctypes  # noqa: PLC0415 - 4 ms, and not before a directory is looked at

    try:
        call = ctypes.CDLL(None).statx
    except (OSError, AttributeError):
        return None

    def ask(fd: int, buffer: bytearray) -> bool:
        into = (ctypes.c_char * _STATX_BYTES).from_buffer(buffer)
        return call(fd, b"", _AT_EMPTY_PATH, ctypes.c_uint(_STATX_BTIME), into) == 0

    return ask
