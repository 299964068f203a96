"""Paths as a server is told them: as UTF-8, below the prefix that stands for the root.

Names are bytes, and over HTTP they are text. One that is no UTF-8 is refused here, before anything
is sent: it would come to mean another file.
"""

import os

from holdfast.errors import InvalidPath

PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def sent_path(path: PathLike) -> str:
    """Returns a path as it is sent; raises `InvalidPath` for one that cannot be."""
    return f"workspace/{sent_text(path)}"


def sent_text(path: PathLike) -> str:
    """Returns a path, or the target of a link, as text; raises `InvalidPath` for what is none."""
    raw = os.fspath(path)
    try:
        return raw.encode("utf-8").decode("utf-8") if isinstance(raw, str) else raw.decode("utf-8")
    except UnicodeError as exc:
        raise InvalidPath(raw, reason="a server is told paths as UTF-8") from exc
