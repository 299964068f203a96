"""Where a file goes that somebody names: in place of nothing, or of a file, and of nothing else.

Such a file is written beside its place and takes the name last, which replaces what has it. A
device, a pipe or a socket would be gone for whoever uses it, so these are refused; links are
followed, and stay.
"""

import errno
import os
import stat
from pathlib import Path

from holdfast.errors import InvalidValue, shorten

_HINT = (
    "Name a file, or a path at which nothing is. Into a pipe or a device it is written by what "
    "takes an open file: `holdfast export -` writes to standard output."
)


def target_of(path: Path) -> Path:
    """Returns the place of the file that a path leads to, or would.

    Raises `InvalidValue` for what is there and is no regular file, a link to nothing included, and
    what the operating system says.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise _refused(path, "is a link that leads nowhere") from None
        return path
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise _refused(path, "is no regular file, and is not replaced by one")
    place = Path(os.path.realpath(path))
    # The kernel follows no link that a stranger has put into a directory of all: nor is one that
    # was put there after it was asked.
    if not os.path.samestat(found, os.lstat(place)):
        raise _refused(path, "was changed by somebody else just now")
    return place


def _refused(path: Path, why: str) -> InvalidValue:
    return InvalidValue(f"{shorten(str(path))} {why}").with_hint(_HINT)
