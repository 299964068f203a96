"""Paths inside a namespace: bytes that can never lead out of it.

A path is relative, has no empty, `.` or `..` part and no NUL, and is short enough for the
file systems we know. It is checked once, here, before it becomes a key. Names are bytes, so
that what is not UTF-8 survives; text is encoded as UTF-8, with `surrogateescape` so that names
that Python decoded from a file system come back as they were.
"""

import os
import re
from collections.abc import Collection, Iterator
from typing import Final

from holdfast.errors import Damaged, InvalidPath, shorten
from holdfast.model.files import MAX_PATH_BYTES
from holdfast.model.names import PathLike

MAX_NAME_BYTES: Final = 255
"""NAME_MAX of the file systems in use."""

_SOUND: Final = re.compile(rb"(?:(?!\.{1,2}(?:/|\Z))[^/\0]{1,255}(?:/(?!\Z)|\Z))+")
"""Every key that `_fault` finds nothing wrong with, but for its length."""


def to_key(path: PathLike) -> bytes:
    """Returns the key of a path; raises `InvalidPath` for one that is unsafe or unusable."""
    key = to_bytes(path)
    if not _is_sound(key):
        raise InvalidPath(key, reason=_fault(key))
    return key


def check_key(key: bytes) -> bytes:
    """Returns a key of a files map; raises `Damaged` for one that no path can have made.

    Maps are written from checked paths alone. One that was not would lead a restore astray.
    """
    if not _is_sound(key):
        message = f"a map holds a path that leads astray: {shorten(key)}"
        raise Damaged(message)
    return key


def to_folder(path: PathLike) -> bytes:
    """Returns the key of a directory; the empty path, `.` and `/`-ended forms are allowed."""
    raw = os.fspath(path)
    if raw in ("", ".", b"", b"."):
        return b""
    return to_key(raw[:-1] if raw[-1:] in ("/", b"/") and len(raw) > 1 else raw)


def to_bytes(path: PathLike) -> bytes:
    """Returns a path's bytes, unchecked; raises `InvalidPath` for text that has none."""
    raw = os.fspath(path)
    if isinstance(raw, bytes):
        return raw
    try:
        return raw.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as exc:
        raise InvalidPath(repr(raw), reason="it holds half a character") from exc


def to_text(key: bytes) -> str:
    """Returns a key as text; bytes that are not UTF-8 become lone surrogates, as in `os`."""
    return key.decode("utf-8", "surrogateescape")


def legible(text: str) -> str:
    """Returns a path as every program can print and send it, for messages."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def ancestors(key: bytes) -> Iterator[bytes]:
    """Yields the directories above a path, outermost first."""
    at = key.find(b"/")
    while at != -1:
        yield key[:at]
        at = key.find(b"/", at + 1)


def is_within(key: bytes, paths: Collection[bytes]) -> bool:
    """Says whether a path is one of some paths, or lies in one of them."""
    return bool(paths) and any(path in paths for path in (key, *ancestors(key)))


def parent_of(key: bytes) -> bytes:
    """Returns the directory a path lies in; empty for the root."""
    return key.rpartition(b"/")[0]


def _is_sound(key: bytes) -> bool:
    return len(key) <= MAX_PATH_BYTES and _SOUND.fullmatch(key) is not None


def _fault(key: bytes) -> str:
    """Returns what is wrong with a key that is not sound."""
    names = key.split(b"/")
    faults = {
        "it is empty": not key,
        "it is absolute": key.startswith(b"/"),
        "it holds a NUL byte": b"\0" in key,
        f"it is longer than {MAX_PATH_BYTES} bytes": len(key) > MAX_PATH_BYTES,
        "it leads upwards ('..')": b".." in names,
        "it has an empty or '.' part": b"" in names or b"." in names,
        f"a name in it is longer than {MAX_NAME_BYTES} bytes": len(max(names, key=len))
        > MAX_NAME_BYTES,
    }
    return next(reason for reason, is_so in faults.items() if is_so)
