"""What went wrong with a file, in the words of an operating system."""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from holdfast.errors import (
    Denied,
    HoldfastError,
    InvalidPath,
    NamespaceNotFound,
    NotADirectory,
    NotAFile,
    NotAsExpected,
    PathExists,
    PathNotFound,
    QuotaExceeded,
    StorageFull,
    TooLarge,
)

_NUMBERS: Final[dict[type[HoldfastError], int]] = {
    PathNotFound: errno.ENOENT,
    NamespaceNotFound: errno.ENOENT,
    PathExists: errno.EEXIST,
    NotAsExpected: errno.EEXIST,
    NotADirectory: errno.ENOTDIR,
    NotAFile: errno.EISDIR,
    InvalidPath: errno.EINVAL,
    Denied: errno.EACCES,
    QuotaExceeded: errno.EDQUOT,
    StorageFull: errno.ENOSPC,
    TooLarge: errno.EFBIG,
}
"""What programs that open files know how to answer, and a model can do something about. A server
that is away is none of these: it would pass for a file that is not there."""


@contextmanager
def system_errors(place: str) -> Generator[None]:
    """Raises what an operating system would raise for a file at this path."""
    try:
        yield
    except tuple(_NUMBERS) as error:
        number = next(number for kind, number in _NUMBERS.items() if isinstance(error, kind))
        if isinstance(error, NotAFile):
            # A link is none that is followed; the third thing that it may be is a directory that
            # has to be empty. A server of another version may not say.
            number = {"directory": number, "link": errno.ELOOP}.get(
                getattr(error, "found", "directory"), errno.ENOTEMPTY
            )
        raise failure(number, place) from error


def failure(number: int, place: str) -> OSError:
    """Returns an error of an operating system, of the class that its number stands for."""
    return OSError(number, os.strerror(number), place)
