"""Says whether anybody could be writing to a file that is about to be read.

The kernel stamps a write when it *begins*. A call that overwrites some megabytes in place and is
held up half-way (a busy machine, a throttled group, a slow disk) leaves a file that looks as if it
had been at rest for seconds, and nothing moves when the rest of it arrives; nor does anything move
when a program writes through a mapping to a page that it had changed before. So times alone never
prove that what was read is one version.

On Linux a *read lease* does: the kernel grants it only if nobody has the file open for writing, and
a mapping that can be written counts as long as it is there, whether or not its descriptor was
closed. It is asked for and given back at once, between the first look at the file and the first
byte that is read. The argument, with the moments in their order:

    floor <= stat before <= lease <= reading <= stat after

1. At the lease nobody had the file open for writing. So whatever was written before is complete,
   and whoever writes during the reading opened the file later.
2. Every such write is stamped, before its first byte can be seen, with a time of change that is no
   earlier than the kernel's coarse clock was at `floor`: stamps are taken from that clock, or from
   a finer one that is never behind it. So does the first write to each page of a mapping.
3. If the time of change before is older than `floor`, a write during the reading therefore shows:
   it is another one after. If both are equal, what was read is one version; and any later write
   shows as well, which is what makes the row of the index proof (`statindex.settled`).

No margin is needed, since the clock that is asked is the one that stamps. A time of change that is
not older than `floor` proves nothing, and the file is read once more when the clock has moved on.

On tmpfs a mapping that was *read* before it is written moves no time (3 fails): there the lease is
asked for once more after the reading, so that such a writer is seen while it is there.

Nobody has to wait: the lease is held for a microsecond, in one call that keeps Python's lock, so
that no thread can stop between asking and giving back. Who opens the file in that moment sends us a
signal, by default one that ends the process; it is made SIGURG, which by default is ignored.

A file that is to get shorter where it is takes two calls, to write and to cut, and what somebody
writes to its end in between would be cut off. A *write lease* keeps everybody else from opening it
for that long, and is granted only if nobody has it open at all (`load_shortener`). All of it is one
call of C that does not need Python's lock: who opens the file and keeps that waits for some
microseconds, and not for ever.

A lease needs the file's owner, or CAP_LEASE. On file systems that others write to behind the
kernel's back (network, FUSE) it proves nothing, and on an overlay it does not see mappings, though
it is refused for good reason. Then the answer is `UNKNOWN`, and a margin and a second reading have
to do (`reading.py`).
"""

import errno
import fcntl
import os
import sys
import time
from collections.abc import Callable
from enum import Enum
from functools import cache
from signal import SIGURG
from typing import Final, NamedTuple

from holdfast.workspace.library import is_near, load_function

_COARSE_CLOCK: Final = 5
"""CLOCK_REALTIME_COARSE, which `time` has no name for."""

TICK_MARGIN_NS: Final = 50_000_000
"""The kernel stamps a change with the time of its last tick: up to 10 ms ago (at 100 Hz), and ticks
are late on a busy machine or a virtual one. Five times that costs nothing, as it only means listing
again what was changed in the last twentieth of a second before it was listed."""

_MASK: Final = (1 << 64) - 1
_TMPFS: Final = 0x01021994
_OVERLAY: Final = 0x794C7630
_LOCAL: Final = frozenset(
    {
        _TMPFS,
        0xEF53,  # ext2, ext3, ext4
        0x58465342,  # XFS
        0x9123683E,  # btrfs
        0xF2F52010,  # f2fs
        0xCA451A4E,  # bcachefs
        0x3153464A,  # JFS
        0x52654973,  # reiserfs
    }
)
"""File systems of this machine's own kernel, that stamp as said above and keep the kernel's count
of writers. Whatever is not known to be one is not believed to be."""


COMMANDS: Final = (
    (fcntl.F_SETSIG, fcntl.F_SETLEASE, fcntl.F_SETLEASE) if sys.platform == "linux" else ()
)
ARGUMENTS: Final = (SIGURG, fcntl.F_RDLCK, fcntl.F_UNLCK)
"""One after the other: the signal, the lease, and back with it (which forgets the signal, too)."""


class Rest(Enum):
    """What is known of those who could write to a file."""

    PROVEN = "proven"
    """Nobody could, when it was asked."""
    REFUSED = "refused"
    """Somebody has it open for writing."""
    UNKNOWN = "unknown"
    """Nobody can say."""


class Asked(NamedTuple):
    """The kernel's answers about one file system."""

    sees_writers: bool
    """A lease that is refused was refused for a writer."""
    sees_all: bool
    """A lease that is granted proves that there is none."""
    stamps_all: bool
    """Whatever is written leaves a stamp."""


NOTHING: Final = Asked(sees_writers=False, sees_all=False, stamps_all=False)


class Resting:
    """Asks about files, in one look at a directory; what kind a file system is, it asks once."""

    def __init__(self, listen: Callable[[], int] = lambda: 0) -> None:
        """In a watched directory, `listen` is called before it is asked (`openings.py`)."""
        self.listen = listen
        self._devices: dict[int, Asked] = {}

    def ask(self, fd: int, device: int) -> Rest:
        """Says whether anybody has an open file open for writing, too."""
        known = self.about(fd, device)
        problem = load_lease()(fd) if known.sees_writers else errno.ENOTSUP
        if problem == 0 and known.sees_all:
            return Rest.PROVEN
        return Rest.REFUSED if problem == errno.EAGAIN else Rest.UNKNOWN

    def ask_again(self, fd: int, device: int, before: Rest) -> Rest:
        """Says the same after the reading: anew where a writer need not have left a stamp."""
        if before is not Rest.PROVEN or self.about(fd, device).stamps_all:
            return before
        return self.ask(fd, device)

    def shorten(self, fd: int, data: bytes, state: os.stat_result, *, mtime_ns: int) -> bool:
        """Gives a file of that state a shorter content, if nobody else has it open.

        Says whether it did. Raises FileNotFoundError if it is not in that state any more, and any
        other OSError if it is in none that somebody wanted.
        """
        act = load_shortener() if is_near(mtime_ns) and is_near(state.st_ctime_ns) else None
        if act is None or not self.about(fd, state.st_dev).sees_all:
            return False
        times = (each & _MASK for each in (state.st_ctime_ns, mtime_ns))
        problem = act(fd, data, len(data), state.st_size, *times)
        if problem == errno.ESTALE:
            raise FileNotFoundError(problem, "it was changed meanwhile")
        if problem < 0:
            raise OSError(-problem, os.strerror(-problem))
        return problem == 0

    def about(self, fd: int, device: int) -> Asked:
        """Returns what is known of the file system that an open file is on."""
        known = self._devices.get(device)
        if known is None:
            known = self._devices[device] = about(_file_system_of(fd))
        return known


def about(file_system: int | None) -> Asked:
    """Returns what a lease says on a file system of this kind; None for one nobody knows."""
    if file_system in _LOCAL:
        return Asked(sees_writers=True, sees_all=True, stamps_all=file_system != _TMPFS)
    return Asked(file_system == _OVERLAY, sees_all=False, stamps_all=False)


def floor_ns() -> int:
    """Returns a time that no change from now on is stamped before."""
    if sys.platform == "linux":
        return time.clock_gettime_ns(_COARSE_CLOCK)
    return time.time_ns() - TICK_MARGIN_NS


@cache
def tick_s() -> float:
    """Returns how long it takes until a change gets another stamp."""
    if sys.platform == "linux":
        return time.clock_getres(_COARSE_CLOCK)
    return TICK_MARGIN_NS / 1e9


@cache
def load_lease() -> Callable[[int], int]:
    """Returns what asks for a lease and gives it back: compiled, or else in Python."""
    compiled = load_function("resting", "holdfast_rest_1", "i", keeps_lock=True)
    return lease_in_python if compiled is None else compiled


@cache
def load_shortener() -> Callable[[int, bytes, int, int, int, int], int] | None:
    """Returns what makes an open file shorter while nobody else can open it, where it was compiled.

    Is given a descriptor, the content and its size, the size and the time of change that the file
    has, and the time of modification that it gets. Returns 0; or the number of an error if it did
    not touch the file, ESTALE if that is not as it was; or minus the number if it did.
    """
    return load_function("resting", "holdfast_shorten_1", "iPQQQQ")


def lease_in_python(fd: int) -> int:
    """Returns 0 if a lease was granted, or why not: as `_resting.c`, two microseconds later."""
    library = _load()
    if library is None:
        return errno.ENOSYS
    _, asked, _ = map(library.fcntl, (fd, fd, fd), COMMANDS, ARGUMENTS)
    if asked == 0:
        return 0
    # Giving back what was not granted has failed since: asked once more for the reason.
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as exc:
        return exc.errno or errno.EIO
    library.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return errno.EAGAIN  # whoever it was has just gone


class _Library(NamedTuple):
    """Two functions of the C library, called without letting go of Python's lock.

    `fcntl.fcntl` lets go of it, and a thread that then opens the file while it keeps the lock
    would wait for us, and we for it.
    """

    fcntl: Callable[[int, int, int], int]
    fstatfs: Callable[[int, object], int]


@cache
def _load() -> _Library | None:
    if sys.platform != "linux":
        return None
    try:
        import ctypes  # noqa: PLC0415 - takes a millisecond, and only reading needs it

        library = ctypes.PyDLL(None)
        control, describe = library["fcntl"], library["fstatfs"]
    except (ImportError, OSError, AttributeError):
        return None  # of a Python that was built without it, or a C library without them
    control.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long]
    describe.argtypes = [ctypes.c_int, ctypes.c_void_p]
    return _Library(control, describe)


def _file_system_of(fd: int) -> int | None:
    """Returns the number by which the kernel calls an open file's file system."""
    library = _load()
    if library is None:
        return None
    import ctypes  # noqa: PLC0415 - loaded with the library

    # The number stands first, whatever follows; no machine's structure is that long.
    buffer = ctypes.create_string_buffer(512)
    if library.fstatfs(fd, buffer) != 0:
        return None
    return ctypes.c_ulong.from_buffer(buffer).value
