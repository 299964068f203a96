"""Paths as they stand in requests, and as they are answered.

The root of a namespace is called `workspace`: a path may be said with that before it or without.
Whether it is a sound one is the engine's to say. Here it is only found.
"""

from typing import Final

PREFIX: Final = "workspace"


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
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
