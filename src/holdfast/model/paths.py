"""Paths of files as they stand in requests and answers.

Names are bytes, and over HTTP they are text: one that is no UTF-8 is not sent, as it would come to
mean another file, and is answered with what is none of it replaced. The root of a namespace is
called `workspace`: a path may be said with that before it or without. Whether it is a sound one is
the engine's to say.
"""

import os
from typing import Annotated, Final

from holdfast.errors import InvalidPath
from holdfast.jsontext import legible
from holdfast.model.marks import Shape

PREFIX: Final = "workspace"

PathLike = str | bytes | os.PathLike[str] | os.PathLike[bytes]


def sent_path(path: PathLike) -> str:
    """Returns a path as it is sent; raises `InvalidPath` for one that cannot be."""
    return f"{PREFIX}/{sent_text(path)}"


def sent_text(path: PathLike) -> str:
    """Returns a path, or the target of a link, as text; raises `InvalidPath` for what is none."""
    raw = os.fspath(path)
    try:
        return raw.encode("utf-8").decode("utf-8") if isinstance(raw, str) else raw.decode("utf-8")
    except UnicodeError as exc:
        raise InvalidPath(raw, reason="a server is told paths as UTF-8") from exc


def read_path(path: str) -> str:
    """Returns the path that a request means: empty for the root."""
    bare = path.lstrip("/")
    if bare == PREFIX:
        return ""
    return bare.removeprefix(f"{PREFIX}/")


def shown_path(path: str) -> str:
    """Returns a path as it is answered where it has the prefix."""
    return f"{PREFIX}/{shown_name(path)}"


def shown_name(name: str) -> str:
    """Returns a name as it is answered; what is no UTF-8 in it is replaced."""
    return legible(name)


FilePath = Annotated[PathLike, Shape(str, sent_path, read_path)]
"""A path that is asked for."""

PathText = Annotated[PathLike, Shape(str, sent_text)]
"""What paths begin with, or where a link points: as it is."""

FileName = Annotated[str, Shape(str, shown_name)]
"""A path that is answered."""
