"""Where a path leads in a namespace, for programs that expect links to be followed.

Holdfast itself never follows one: a link is data, and may lead anywhere. Here it leads to what it
names inside of the workspace, as it would for a command that runs in there, and nowhere else.
"""

import errno
import os
import posixpath
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Final

from holdfast.sandbox.confining import WORKSPACE

MOST_LINKS: Final = 40
"""As many as Linux follows before it says that they go in circles."""

ABOVE: Final = frozenset(str(place) for place in PurePosixPath(WORKSPACE).parents)
"""The directories that a workspace lies in, which are there for whoever looks."""


def to_inner(path: str) -> str | None:
    """Returns a normalized path as the namespace has it: empty for its root, None outside of it."""
    if path == WORKSPACE:
        return ""
    inner = path.removeprefix(f"{WORKSPACE}/")
    return None if inner == path else inner


def absolute(path: str) -> str:
    """Returns a path as it is meant: one that is relative, from the working directory."""
    if not path:
        raise ValueError("a path has characters: the working directory itself is '.'")
    return posixpath.join(WORKSPACE, path)


def normalized(path: str) -> str:
    """Returns an absolute path without `.` and `..`."""
    # Of two slashes in front, POSIX leaves open what they mean.
    return posixpath.normpath(absolute(path)).replace("//", "/")


def follow(path: str, find_target: Callable[[str], str | None]) -> str:
    """Returns where an absolute path leads, links and `..` followed as the kernel does.

    `find_target` says where the link at an inner path points; None for what is no link. What is not
    there stays as it is written. Raises `OSError` for links that go in circles.
    """
    waiting, done, links = _parts(path), list[str](), 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            done = done[:-1]
            continue
        here = "/".join(("", *done, part))
        inner = to_inner(here)
        target = find_target(inner) if inner else None
        if target is None:
            done.append(part)
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith("/"):
            done = []
        waiting += _parts(target)
    return "/".join(("", *done)) or "/"


def _parts(path: str) -> list[str]:
    """Returns the names of a path, the first one last."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
