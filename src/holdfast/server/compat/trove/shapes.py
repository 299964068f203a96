"""Files as this client sends and reads them."""

import msgspec

from holdfast.server.compat.trove.texts import QuotedText
from holdfast.wire.basics import Instant


class WriteRequest(msgspec.Struct, kw_only=True):
    """A text to write to a path below the namespace's root."""

    path: str
    content: QuotedText


class WrittenAnswer(msgspec.Struct, kw_only=True):
    """A file that was written."""

    path: str
    size_bytes: int
    modified_at: Instant


class DeleteRequest(msgspec.Struct, kw_only=True):
    """A path to delete, with all that lies below it."""

    path: str


class DeletedAnswer(msgspec.Struct, kw_only=True):
    """What was deleted."""

    deleted: str
    entries: int


class EntryAnswer(msgspec.Struct, kw_only=True):
    """One thing in a directory."""

    name: str
    path: str
    is_dir: bool
    is_link: bool
    size_bytes: int | None
    modified_at: Instant


class ListAnswer(msgspec.Struct, kw_only=True):
    """What lies in a directory; `truncated` if there is more."""

    path: str
    entries: list[EntryAnswer]
    truncated: bool


class ContentAnswer(msgspec.Struct, kw_only=True):
    """A file's content as text; null where it is none."""

    path: str
    size_bytes: int
    modified_at: Instant
    encoding: str
    content: str | None
    truncated: bool
