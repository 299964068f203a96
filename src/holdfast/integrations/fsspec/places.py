"""What fsspec calls a file, and what it is told of one.

The first part of a path is the namespace, the rest a path in it. A namespace whose own name has a
slash is said with `%2F`, and a percent sign in one as `%25`: so every path has one meaning.
"""

from typing import Any, Final
from urllib.parse import unquote

from holdfast import FileInfo

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
