"""Requests and answers about files."""

import msgspec

from holdfast.wire.basics import Instant


class FileAnswer(msgspec.Struct, kw_only=True):
    """What lies at a path, which is named without `workspace/` here."""

    path: str
    kind: str
    """`file`, `directory` or `link`."""
    size_bytes: int
    mode: int
    modified_at: Instant | None
    """null for a directory."""
    target: str | None
    """Where a link points."""


class FilesAnswer(msgspec.Struct, kw_only=True):
    """What lies in a directory, by the bytes of the paths; with `has_more`, more follows."""

    files: list[FileAnswer]
    has_more: bool


class MkdirRequest(msgspec.Struct, kw_only=True):
    """A directory to make."""

    path: str
    mode: int | None = None


class SymlinkRequest(msgspec.Struct, kw_only=True):
    """A link to make; where it points is data, and never followed."""

    path: str
    target: str


class ChmodRequest(msgspec.Struct, kw_only=True):
    """Permission bits to set."""

    path: str
    mode: int


class MoveRequest(msgspec.Struct, kw_only=True):
    """What to move, and where to."""

    source: str
    target: str
    overwrite: bool | None = None


class RemoveRequest(msgspec.Struct, kw_only=True):
    """What to delete; a directory with something in it only if that is meant."""

    path: str
    recursive: bool | None = None


class RemovedAnswer(msgspec.Struct, kw_only=True):
    """How many files, links and empty directories went."""

    entries: int


class WriteManyItem(msgspec.Struct, kw_only=True):
    """A file to write: its bytes in base64."""

    path: str
    content: str


class WriteManyRequest(msgspec.Struct, kw_only=True):
    """Files to write, all or none of them."""

    files: list[WriteManyItem]


class WroteManyAnswer(msgspec.Struct, kw_only=True):
    """How many files were written."""

    written: int
