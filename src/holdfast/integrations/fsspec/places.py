"""What fsspec calls a file, and what went wrong with it in the words of an operating system.

The first part of a path is the namespace, the rest a path in it. A namespace whose own name has a
slash is said with `%2F`, and a percent sign in one as `%25`: so every path has one meaning.
"""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote

from holdfast import FileInfo
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

SCHEME: Final = "holdfast://"
MOMENT: Final = "?at="


def parsed(path: str) -> tuple[str, str | None]:
    """Returns the path that a URL or a bare path names, and the snapshot that a URL names.

    Only a URL names one: a bare path may end in anything that a file is called.
    """
    if not path.startswith(SCHEME):
        return path.strip("/"), None
    path = path.removeprefix(SCHEME)
    before, _, at = path.rpartition(MOMENT)
    if at and "/" not in at and path != at:
        return before.strip("/"), at
    return path.strip("/"), None


def split(place: str) -> tuple[str, str]:
    """Returns the namespace of a path, and the path in it; empty for its root."""
    namespace, _, inner = place.partition("/")
    return unquote(namespace), inner


def joined(namespace: str, inner: str) -> str:
    """Returns the path of something in a namespace."""
    first = namespace.replace("%", "%25").replace("/", "%2F")
    return f"{first}/{inner}" if inner else first


def described(namespace: str, info: FileInfo) -> dict[str, Any]:
    """Returns what is known of a file or directory, as fsspec tells it."""
    place = joined(namespace, info.path)
    if info.is_dir:
        return {"name": place, "size": 0, "type": "directory", "mode": info.mode}
    answer = {
        "name": place,
        "size": info.size_bytes,
        "type": info.kind,
        "mode": info.mode,
        "mtime": info.modified_at,
    }
    if info.target is not None:
        answer |= {"islink": True, "destination": info.target}
    return answer


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
"""What programs that open files know how to answer. A server that is away is none of these: it
would pass for a file that is not there."""


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
