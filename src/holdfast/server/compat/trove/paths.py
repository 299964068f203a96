"""Paths as this client sends them, and as it expects them.

Two families of routes get differently shaped paths. Those that write (and the raw download) get
them relative to the namespace's root, with `workspace/` taken off already. Those that read get
what the user typed: there, slashes at the beginning and one `workspace/` come off, as in our own
routes. What is answered always carries the prefix.
"""

from typing import Final
from urllib.parse import unquote_to_bytes

from holdfast.errors import InvalidPath
from holdfast.model.paths import read_path

_FILES: Final = b"/files/"


def written_path(path: str) -> str:
    """Returns the path of a request that writes; raises `InvalidPath` for the root."""
    if not path:
        raise InvalidPath(path, reason="it is empty")
    return path


def deleted_path(path: str) -> str:
    """Returns the path of a request that deletes: a directory may be named with its slash."""
    return written_path(path.removesuffix("/"))


def folder_path(path: str) -> str:
    """Returns the path of a directory to read: empty for the root."""
    bare = read_path(path).rstrip("/")
    return "" if bare == "." else bare


def url_path(raw_path: bytes) -> str:
    """Returns the path that follows `/files/` in a URL, with its escapes decoded once.

    A `%` that begins no escape stands for itself.
    """
    if not raw_path.startswith(_FILES):
        # Somebody escaped letters of the route itself: where the path begins is not certain.
        raise InvalidPath(raw_path, reason="the route's own name has to stand there unescaped")
    escaped = raw_path.removeprefix(_FILES)
    try:
        return written_path(unquote_to_bytes(escaped).decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise InvalidPath(escaped, reason="its escapes are not UTF-8") from exc
