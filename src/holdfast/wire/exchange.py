"""Requests and answers of an exchange of directories: msgpack in one zstd frame.

Names of objects and roots are bytes, and there may be many of them: as JSON they would be half as
large again. A frame states how much it holds, and is refused before it is opened if that is too
much. Answers that are small and worth looking at are JSON, as everywhere else.
"""

from typing import Annotated, Final, TypeVar

import msgspec

from holdfast.errors import InvalidValue, TooLarge
from holdfast.operations.snapshots import NOTHING_SAID, Note

T = TypeVar("T")

MEDIA_TYPE: Final = "application/octet-stream"

MAX_PLAIN_BYTES: Final = 16 << 20
"""The most that a body may hold once it is unpacked."""

MAX_PATHS: Final = 20_000
"""Paths that content is asked for of at a time."""

_LEVEL: Final = 3


class MissingRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Objects, by their names back to back: which of them would have to be sent?"""

    ids: bytes


class MissingAnswer(msgspec.Struct, kw_only=True):
    """Those that would have to be sent, by their names back to back."""

    ids: bytes


class ReceivedAnswer(msgspec.Struct, kw_only=True):
    """What a pack held, and is stored now."""

    objects: int


class ListedEdits(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Edits that were sent before, as content: its size and its references, as in an entry."""

    size: int
    depth: int
    refs: bytes


class CommitRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A directory as its client saw it, to be made a snapshot."""

    name: str
    base: bytes
    root: bytes
    edits: bytes = b""
    listed: ListedEdits | None = None
    pack: bytes = b""
    seen: str | None = None
    overwrite: bool = False
    aside: bool = False
    keeps_redo: bool = False
    kind: str = "snapshot"
    note: Note = NOTHING_SAID
    coverage: bytes = b""
    """What the snapshot covers, as JSON."""


class StandingAnswer(msgspec.Struct, kw_only=True):
    """Where a namespace stands."""

    namespace: str
    position: str | None
    """The snapshot whose state it shows, if nothing has changed since."""
    root: str
    """The files that it shows, with what has changed since, as the root of their map."""
    dirty: bool


class ChangesRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Two snapshots, the first of which may be none; and the path to go on after."""

    new: str
    old: str | None = None
    after: bytes = b""


class ChangesBetween(msgspec.Struct, kw_only=True):
    """What leads from the files of one snapshot to those of another."""

    root: bytes
    edits: list[tuple[bytes, bytes | None]]
    has_more: bool


class ContentRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Objects that files of a snapshot need: for each path, their names back to back."""

    snapshot: str
    paths: Annotated[list[bytes], msgspec.Meta(max_length=MAX_PATHS)]
    ids: Annotated[list[bytes], msgspec.Meta(max_length=MAX_PATHS)]


def encode(body: msgspec.Struct) -> bytes:
    """Returns a body as it is sent."""
    import zstandard  # noqa: PLC0415 - whoever only imports a client pays nothing for it

    return zstandard.ZstdCompressor(level=_LEVEL).compress(msgspec.msgpack.encode(body))


def decode(data: bytes, kind: type[T]) -> T:
    """Returns what a body says; raises `InvalidValue` or `TooLarge`."""
    import zstandard  # noqa: PLC0415 - see above

    try:
        # The library believes what a frame claims to hold, and allocates that much.
        claimed = zstandard.get_frame_parameters(data).content_size
        if claimed == zstandard.CONTENTSIZE_UNKNOWN:
            raise InvalidValue("the body does not say how much it holds")
        if claimed > MAX_PLAIN_BYTES:
            message = f"a body may hold {MAX_PLAIN_BYTES} bytes; this one claims {claimed}"
            raise TooLarge(message)
        plain = zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
        return msgspec.msgpack.decode(plain, type=kind)
    except (zstandard.ZstdError, msgspec.DecodeError, RecursionError) as exc:
        message = f"the body cannot be read: {exc}"
        raise InvalidValue(message) from exc
