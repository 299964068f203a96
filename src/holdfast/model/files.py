"""Values of files: what is known of a path without reading what is there, and what is found in it.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Final

import msgspec

from holdfast.display import counted, line, minute, quoted
from holdfast.errors import InvalidValue
from holdfast.model.marks import HERE, UNSAID
from holdfast.model.names import FileName, LinkTarget

USUAL_DIRECTORY_MODE: Final = 0o755
PERMISSIONS: Final = 0o1777
"""What of a mode is kept: set-user-id and set-group-id are neither stored nor set."""

MAX_PATH_BYTES: Final = 4095
"""PATH_MAX of Linux, less the NUL that ends a path there."""

Bytes = bytes | bytearray | memoryview


def to_content(data: str | Bytes) -> bytes:
    """Returns what a file holds that is written of text or bytes; raises `InvalidValue`."""
    if isinstance(data, bytes):
        return data
    try:
        # Not `bytes(data)`: of a number it makes so many zeros, of a list whatever is in it.
        return data.encode() if isinstance(data, str) else bytes(memoryview(data))
    except UnicodeEncodeError as exc:
        message = f"the text cannot be encoded as UTF-8: {exc.reason}"
        raise InvalidValue(message) from exc
    except TypeError as exc:
        message = f"the content of a file is text or bytes, not {type(data).__name__}"
        raise InvalidValue(message) from exc


def as_text(content: bytes, encoding: str) -> str:
    """Returns what a file holds as text; raises `InvalidValue` for an encoding that is none."""
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        raise
    except (LookupError, ValueError) as exc:
        message = f"encoding: {exc}"
        raise InvalidValue(message) from exc


class FileInfo(msgspec.Struct, frozen=True):
    """What is known about one path without reading its content."""

    path: FileName
    kind: str
    """`file`, `directory` or `link`."""
    size_bytes: int
    mode: int
    modified_at: datetime | None
    """Of a directory, where it is listed or asked for: that of the newest thing in it."""
    target: LinkTarget = None
    """Where a link points."""
    tag: Annotated[str | None, UNSAID] = None
    """Of one file that was asked for, or written: a name for its bytes. Others have another."""

    def __repr__(self) -> str:
        return line(
            type(self).__name__,
            quoted(self.path),
            self.kind,
            None if self.target is None else f"to {quoted(self.target)}",
            f"{self.mode:04o}",
            counted(self.size_bytes, "byte"),
            None if self.modified_at is None else minute(self.modified_at),
        )

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.kind == "directory"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line that holds what was searched for."""

    path: FileName
    line: int
    """Its number, from 1 on."""
    text: str
    """What it says, up to 500 characters; bytes that are no text are replaced."""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What a search has found, and where it goes on if it has not seen all."""

    namespace: Annotated[str | None, HERE] = None
    matches: list[Finding]
    next_cursor: str | None = None
    """Where it goes on: `cursor` of the next search; None if all was searched."""
    passed_by: int = 0
    """How many files were too large to be searched."""

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.matches)

    def __len__(self) -> int:
        return len(self.matches)
