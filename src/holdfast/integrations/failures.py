"""What went wrong with a file, in the words of an operating system."""

import errno
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from holdfast.errors import (
    Conflict,
    Denied,
    HoldfastError,
    InvalidName,
    InvalidPath,
    NotADirectory,
    NotAFile,
    NotAsExpected,
    NotFound,
    PathExists,
    PathNotFound,
    QuotaExceeded,
    RateLimited,
    StorageFull,
    StorageReadOnly,
    TooLarge,
    shorten,
)

_OF_A_PATH: Final[dict[type[HoldfastError], int]] = {
    PathNotFound: errno.ENOENT,
    PathExists: errno.EEXIST,
    NotAsExpected: errno.EEXIST,
    NotADirectory: errno.ENOTDIR,
    NotAFile: errno.EISDIR,
    InvalidPath: errno.EINVAL,
}
"""What is said with the path alone, in the words that every program knows."""

_NUMBERS: Final[dict[type[HoldfastError], int]] = {
    **_OF_A_PATH,
    InvalidName: errno.EINVAL,
    QuotaExceeded: errno.EDQUOT,
    StorageFull: errno.ENOSPC,
    TooLarge: errno.EFBIG,
    RateLimited: errno.EAGAIN,
    StorageReadOnly: errno.EROFS,
    # Families, after those of their members that have a number of their own.
    NotFound: errno.ENOENT,
    Conflict: errno.EBUSY,
    Denied: errno.EACCES,
}
"""What programs that open files know how to answer, and a model can do something about. A server
that is away is none of these, nor is damage: it would pass for a file that is not there. An
argument of a wrong type is a `TypeError` already."""


@contextmanager
def system_errors(place: str, *, several: Mapping[str, str] | None = None) -> Generator[None]:
    """Raises what an operating system would raise for a file at this path.

    Where `several` are written at once, by their paths in the namespace, the one that is at fault
    is named in its place.
    """
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
        fault = _path_at_fault(error)
        for inner, each in (several or {}).items():
            if shorten(inner) == fault:
                place = each
        # A snapshot or a namespace that is missing must not read like a missing file.
        more = "" if isinstance(error, tuple(_OF_A_PATH)) else str(error)
        raise failure(number, place, more=more) from error


def _path_at_fault(error: HoldfastError) -> str | None:
    """Returns the path that an error is about, as errors name it; None if it is about none."""
    if isinstance(error, NotAsExpected):
        return error.name
    path = getattr(error, "path", None)
    return None if path is None else shorten(path)


def failure(number: int, place: str, *, more: str = "") -> OSError:
    """Returns an error of an operating system, of the class that its number stands for."""
    return OSError(number, f"{os.strerror(number)}: {more}" if more else os.strerror(number), place)
