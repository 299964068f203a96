"""The kernel's inotify, as it is: watches on folders, and the events that they queued.

Called through ctypes, as Python has no door to it. Nothing here decides anything; which folders
are watched and what an event means is in `holdfast.workspace.watching`.

The kernel queues an event before the system call that caused it returns. Whoever drains the
queue therefore sees everything that was finished before.
"""

import ctypes
import errno
import fcntl
import os
import struct
import termios
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.errors import Unavailable

MODIFY: Final = 0x0000_0002
ATTRIB: Final = 0x0000_0004
CLOSE_WRITE: Final = 0x0000_0008
OPEN: Final = 0x0000_0020
MOVED_FROM: Final = 0x0000_0040
MOVED_TO: Final = 0x0000_0080
CREATE: Final = 0x0000_0100
DELETE: Final = 0x0000_0200
DELETE_SELF: Final = 0x0000_0400
MOVE_SELF: Final = 0x0000_0800
UNMOUNT: Final = 0x0000_2000
Q_OVERFLOW: Final = 0x0000_4000
IGNORED: Final = 0x0000_8000
ONLYDIR: Final = 0x0100_0000
DONT_FOLLOW: Final = 0x0200_0000
ISDIR: Final = 0x4000_0000

_HEADER: Final = struct.Struct("=iIII")  # watch, mask, cookie, length of the name
_CLOSE_AND_NEVER_BLOCK: Final = os.O_CLOEXEC | os.O_NONBLOCK

_BUFFER_BYTES: Final = 1 << 18
"""Holds some 8,000 events: half of what the kernel queues unless it is told otherwise."""


class Event(NamedTuple):
    """Something that happened in the folder of a watch, or to it where there is no name."""

    watch: int
    mask: int
    name: bytes


def more_of(limit: str, *, instead: str) -> str:
    """Returns what to type to have more of what the kernel limits for each user."""
    try:
        with open(f"/proc/sys/fs/inotify/{limit}", encoding="ascii") as file:
            most = int(file.read())
    except (OSError, ValueError):
        return f"Raise fs.inotify.{limit}, {instead}."
    return f"As root, `sysctl fs.inotify.{limit}={2 * most}` allows twice as many; {instead}."


class Inotify:
    """One queue of the kernel's, with its watches; its descriptor never changes."""

    def __init__(self) -> None:
        """Opens a queue; raises `Unavailable` where there are none, or no more of them."""
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._init = libc.inotify_init1
            self._add, self._remove = libc.inotify_add_watch, libc.inotify_rm_watch
        except AttributeError:
            raise Unavailable("this system has no inotify: directories cannot be watched") from None
        self._add.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
        self._remove.argtypes = [ctypes.c_int, ctypes.c_int]
        self._fd = self._open()

    def _open(self) -> int:
        fd = int(self._init(_CLOSE_AND_NEVER_BLOCK))
        if fd < 0:
            number = ctypes.get_errno()
            message = f"no inotify to be had: {os.strerror(number)}"
            if number != errno.EMFILE:
                raise Unavailable(message).with_hint("Without it, nobody can watch a directory.")
            hint = more_of("max_user_instances", instead="or end a program that watches")
            raise Unavailable(f"{message} (fs.inotify.max_user_instances)").with_hint(hint)
        return fd

    def renew(self) -> None:
        """Forgets every watch and every event at once, and keeps the descriptor."""
        fresh = self._open()
        try:
            os.dup2(fresh, self._fd, inheritable=False)
        finally:
            os.close(fresh)

    def fileno(self) -> int:
        """Returns the descriptor, which is readable while there are events."""
        return self._fd

    def close(self) -> None:
        """Ends all watches."""
        os.close(self._fd)

    def add(self, path: bytes, mask: int) -> int:
        """Watches the inode at a path, and returns its watch: the same one for the same inode."""
        watch = int(self._add(self._fd, path, mask))
        if watch < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), os.fsdecode(path))
        return watch

    def remove(self, watch: int) -> None:
        """Ends a watch; the kernel may have ended it already."""
        self._remove(self._fd, watch)

    def drain(self) -> Iterator[Event]:
        """Yields what is in the queue now, and leaves what arrives meanwhile.

        A program that never stops writing would otherwise never let this end.
        """
        queued = fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4))
        left = int.from_bytes(queued, "little" if _IS_LITTLE_ENDIAN else "big")
        while left > 0:
            try:
                block = os.read(self._fd, min(left, _BUFFER_BYTES))
            except BlockingIOError:
                return
            left -= len(block)
            yield from _parse(block)


_IS_LITTLE_ENDIAN: Final = struct.pack("=H", 1) == b"\x01\x00"


def _parse(block: bytes) -> Iterator[Event]:
    """Yields the events of one read; the kernel never cuts one in two."""
    at, end = 0, len(block)
    while at < end:
        watch, mask, _, length = _HEADER.unpack_from(block, at)
        at += _HEADER.size
        yield Event(watch, mask, block[at : at + length].rstrip(b"\0"))
        at += length
