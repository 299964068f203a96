"""Says in which folders of a directory something may have happened, so that the rest need no look.

A hint, never the truth. Whoever asks checks everything when the answer is None, and now and then
without asking, because some changes leave no event in the folder that shows them:

- through another name of the same file (a hard link): the event names only the name that was
  used. Where that name is in the tree too, its folder is reported; one outside is not heard;
- through `mmap`, by a program that mapped the file before; that it was opened is told to who asks
  for it (`openings.py`);
- by another machine.

A folder's own times move with the names in it: then the folder is reported, not its parent.

What makes it right, and what the tests break on purpose:

- A folder is watched first and listed afterwards. What appears in it in between is seen twice;
  the other way round it would not be seen at all.
- Whatever an event says of a folder's name (made, moved here or away, deleted), the answer is
  the same: look at what is at that path now, and bring the watches below it in line. Events are
  old news by the time they are read, so that an exchange or a chain of renames settles by itself.
- The watches of a folder that moved away are ended: they follow the inode, and would report
  under a path that is no longer its own.
- What is mounted below the directory is compared (`mounts.py`): if it is other, all is.
- Folders that cannot be watched (no permission) are part of every answer, and tried again.

The kernel's inotify, as it is: watches on folders, and the events that they queued.

Called through ctypes, as Python has no door to it. Nothing here decides anything; which folders
are watched and what an event means is in `holdfast.workspace.watching`.

The kernel queues an event before the system call that caused it returns. Whoever drains the
queue therefore sees everything that was finished before.
"""

import ctypes
import errno
import fcntl
import os
import select
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from holdfast.errors import Unavailable
from holdfast.workspace.mounts import Mounts

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


_WATCHED: Final = (
    CREATE
    | DELETE
    | MODIFY
    | ATTRIB
    | CLOSE_WRITE
    | MOVED_FROM
    | MOVED_TO
    | DELETE_SELF
    | MOVE_SELF
    | ONLYDIR
)
_NAMES_CHANGED: Final = CREATE | DELETE | MOVED_FROM | MOVED_TO
_LEFT: Final = DELETE_SELF | MOVE_SELF | IGNORED
_EVERYTHING_LOST: Final = Q_OVERFLOW | UNMOUNT

_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_NOT_ALLOWED: Final = frozenset({errno.EACCES, errno.EPERM})


class Watcher:
    """Says where something may have happened; see above for what it cannot know.

    `skips` is asked for each folder (its path relative to the root) and never for the root: what
    it says yes to is not watched, nor is anything below. Thread-safe, but for `close`, which
    must not be called while another thread waits.
    """

    def __init__(
        self, root: str, *, skips: Callable[[bytes], bool], hears_opening: bool = False
    ) -> None:
        """Watches every folder; raises `Unavailable` if that is not possible."""
        self._root = os.fsencode(root)
        self._mask = _WATCHED | OPEN if hears_opening else _WATCHED
        self._hears_opening = hears_opening
        self._listened = 0
        # As `holdfast.workspace.openings` wants them; empty if opening is not heard.
        self.opened: dict[bytes, int] = {}
        self.unheard: dict[bytes, int] = {}
        self.closed: set[bytes] = set()
        self._skips = skips
        self._guard = threading.Lock()
        self._paths: dict[int, bytes] = {}
        self._watches: dict[bytes, int] = {}
        self._children: dict[bytes, set[bytes]] = {}
        self._unwatchable: set[bytes] = set()
        self._happened: set[bytes] = set()
        self._identity: tuple[int, int] | None = None
        self._is_aliased = False
        self._has_ended_some = False
        self._failure: OSError | None = None
        self._must_check = True
        self._inotify = Inotify()
        self._mounts = Mounts(self._root)
        self._watch_everything()
        if self._failure is not None:
            self.close()
            error = Unavailable(_explain(self._failure))
            raise error.with_hint(_how_to_go_on(self._failure)) from self._failure

    def take(self) -> frozenset[bytes] | None:
        """Returns the folders in which anything has happened since the last call.

        Paths are relative to the root, which is b"". A folder that is new, or came from
        elsewhere, is there with all that is below it, and so is its parent. A folder may have
        gone again by now. None means that it cannot say: check everything.
        """
        with self._guard:
            self._drain()
            if _identity_of(self._root) != self._identity:
                # Something else has this path now, or nothing: an ancestor was renamed.
                self._lose()
            for path in self._unwatchable.copy():
                self._unwatchable.discard(path)
                self._align(path)
            if self._must_check or self._failure is not None or self._is_aliased:
                return self._give_up()
            answer = frozenset(self._happened)
            self._happened.clear()
            return answer

    def listen(self) -> int:
        """Takes in what has happened up to now, for `take`; returns a number that grows."""
        with self._guard:
            self._drain()
            return self._listened

    def wait(self, timeout_s: float) -> bool:
        """Waits until something happens, and returns whether it did."""
        poll = select.poll()
        self.wake(poll)
        until = time.monotonic() + timeout_s
        while not (self._must_check or self._happened):
            left_s = max(0.0, until - time.monotonic())
            ready = {fd for fd, _ in poll.poll(left_s * 1000)}
            if not self.is_in(ready):
                return False
            self.listen()  # it may be nothing but that somebody reads
            if self._failure is not None:
                break
        return True

    def wake(self, poll: "select.poll") -> None:
        """Lets whoever polls wake up when there is something to take; `is_in` has to be asked."""
        poll.register(self._inotify.fileno(), select.POLLIN)
        self._mounts.wake(poll)

    def is_in(self, ready: AbstractSet[int]) -> bool:
        """Says whether that is so, given which descriptors are ready."""
        return self._mounts.note(ready) or self._inotify.fileno() in ready

    def close(self) -> None:
        """Ends all watches."""
        with self._guard:
            self._inotify.close()
            self._mounts.close()

    def _drain(self) -> None:
        """Follows what is queued, and the notices of watches that this ended itself.

        Left in the queue, those would wake up whoever waits, for nothing.
        """
        self._listened += 1
        if self._mounts.have_changed():
            self._lose()
        self._has_ended_some = False
        for event in self._inotify.drain():
            self._follow(event)
        if self._has_ended_some:
            for event in self._inotify.drain():
                self._follow(event)

    def _follow(self, event: Event) -> None:
        """Notes where an event happened, and brings the watches in line with it."""
        if event.mask & _EVERYTHING_LOST:
            self._lose()
            return
        path = self._paths.get(event.watch)
        if path is None:
            return  # Of a folder that has left; whatever took its place was looked at.
        if path == b"" and event.mask & _LEFT:
            self._lose()
            return
        if event.mask & IGNORED:
            return  # Gone with its watch, which its parent tells too, by name.
        key = path + b"/" + event.name if path else event.name
        is_file = bool(event.name) and not event.mask & ISDIR
        if event.mask & OPEN:
            if is_file:
                self.opened[key] = self._listened
            return
        self._happened.add(path)
        if is_file and event.mask & CLOSE_WRITE and self._hears_opening:
            self.closed.add(key)
        if event.name and not is_file and event.mask & _NAMES_CHANGED:
            self._align(key)

    def _align(self, top: bytes) -> None:
        """Makes the watches at and below a path be those of what is there now."""
        pending = [top]
        while pending and self._failure is None:
            path = pending.pop()
            if path and self._skips(path):
                continue
            watch = self._watch(path)
            if watch is None:
                self._forget(path)
                continue
            self._happened.add(path)
            if self._watches.get(path) == watch:
                # Names in it that changed since are queued: what is known below is enough.
                pending.extend(self._children.get(path, ()))
                continue
            self._record(path, watch)
            pending.extend(self._folders_in(path))

    def _watch(self, path: bytes) -> int | None:
        """Returns the watch of a folder: None if there is none, or it cannot be watched."""
        absolute = self._absolute(path)
        mask = self._mask | DONT_FOLLOW if path else self._mask
        try:
            watch = self._inotify.add(absolute, mask)
            known = self._paths.get(watch, path)
            if known != path:
                # The inode is known under another path: it moved, and the event is still to
                # come; or it is mounted twice, and no event could say in which place.
                if _identity_of(self._absolute(known)) == _identity_of(absolute):
                    self._is_aliased = True
                self._forget(known)
                watch = self._inotify.add(absolute, mask)
        except OSError as exc:
            self._note(path, exc)
            return None
        return watch

    def _folders_in(self, path: bytes) -> list[bytes]:
        prefix = path + b"/" if path else b""
        try:
            with os.scandir(self._absolute(path)) as entries:
                return [prefix + e.name for e in entries if e.is_dir(follow_symlinks=False)]
        except OSError as exc:
            self._note(path, exc)
            return []

    def _note(self, path: bytes, exc: OSError) -> None:
        """Decides what it means that a folder could not be watched or listed."""
        if path and exc.errno in _NOT_ALLOWED:
            self._happened.add(path)
            self._unwatchable.add(path)
        elif not path or exc.errno not in _NOT_THERE:
            self._failure = exc

    def _record(self, path: bytes, watch: int) -> None:
        self._forget(path, but=watch)
        self._watches[path] = watch
        self._paths[watch] = path
        if self._hears_opening:
            self.unheard[path] = self._listened
        if path:
            self._children.setdefault(path.rpartition(b"/")[0], set()).add(path)

    def _forget(self, top: bytes, *, but: int = -1) -> None:
        """Ends the watches at and below a path, except for one that is its new one."""
        siblings = self._children.get(top.rpartition(b"/")[0])
        if siblings is not None:
            siblings.discard(top)
        pending = [top]
        while pending:
            path = pending.pop()
            pending.extend(self._children.pop(path, ()))
            watch = self._watches.pop(path, None)
            if watch is not None:
                self._paths.pop(watch, None)
                if watch != but:
                    self._inotify.remove(watch)
                    self._has_ended_some = True

    def _absolute(self, path: bytes) -> bytes:
        return self._root + b"/" + path if path else self._root

    def _lose(self) -> None:
        self._must_check = True
        self._identity = None

    def _give_up(self) -> None:
        """Answers None; starts all over first if the watches are no longer what they should be."""
        if self._failure is not None or self._is_aliased or self._identity is None:
            self._inotify.renew()
            self._watch_everything()
        self._must_check = False
        self._happened.clear()

    def _watch_everything(self) -> None:
        self._paths.clear()
        self._watches.clear()
        self._children.clear()
        self._unwatchable.clear()
        self._failure = None
        self._is_aliased = False
        self._identity = _identity_of(self._root)
        self._align(b"")


def _identity_of(path: bytes) -> tuple[int, int] | None:
    """Returns what a directory is called whatever its path; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _how_to_go_on(exc: OSError) -> str:
    if exc.errno == errno.ENOSPC:
        return more_of("max_user_watches", instead="or leave folders out with .holdfastignore")
    return "Make it readable, or leave it out with .holdfastignore."


def _explain(exc: OSError) -> str:
    if exc.errno == errno.ENOSPC:
        return "there are more folders than this user may watch (fs.inotify.max_user_watches)"
    return f"{exc.filename!r} cannot be watched: {exc.strerror}"
