"""Room in the log of a SQLite catalog, made before commits need it.

A commit that makes the log longer has the file system write down how long it is, and waits for
that as well: 0.35 ms, where one that fills room takes 0.22 (pages of zeros among them). So the log
is made longer by many pages at once. SQLite reads a log up to the first page that is none of its
own, and zeros are none: a log with room at its end says what it said without.

Once it is as long as it gets before it is copied, it begins anew in the room that it has, and
nothing is done any more. One that has hardly begun is left alone: most commands write once or
twice, and SQLite removes the log with the last who has the catalog open.
"""

import os
from contextlib import suppress
from typing import Final

FRAME_BYTES: Final = 4096 + 24
"""What a page takes in the log."""

FIRST_BYTES: Final = 16 * FRAME_BYTES
"""A log is left alone until it is so long: some commits of a few pages."""

STEP_BYTES: Final = 256 << 10
"""It ends at a multiple of this then. Fewer bytes gain less, and with more one commit in many
waits for milliseconds."""

SCARCE_BYTES: Final = 64 << 20
"""With less than this free on the disk, room is left to what has to be written."""

_ZEROS: Final = bytes(STEP_BYTES)


def is_short(size: int, *, most: int) -> bool:
    """Says whether a log of so many bytes ends where SQLite stopped, and may have `most`."""
    return FIRST_BYTES <= size < most and size % STEP_BYTES != 0


def lengthen(name: str, identity: tuple[int, int] | None, *, most: int) -> None:
    """Makes room at the end of a log; to be called by who holds SQLite's own lock of writers.

    Nothing is done to another file than the one that is meant, by device and inode: that lock is
    not for it, and somebody may be writing there. Nor where the disk is nearly full; should it be
    full all the same, whoever commits is told.
    """
    with suppress(OSError):
        fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            found, disk = os.fstat(fd), os.fstatvfs(fd)
            is_meant = (found.st_dev, found.st_ino) == identity
            is_scarce = disk.f_bavail * disk.f_frsize < SCARCE_BYTES
            if is_meant and not is_scarce and is_short(found.st_size, most=most):
                missing = STEP_BYTES - found.st_size % STEP_BYTES
                os.pwrite(fd, _ZEROS[:missing], found.st_size)
        finally:
            os.close(fd)
