"""Values of files: what is known of a path without reading what is there.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

from datetime import datetime
from typing import Final

import msgspec

from holdfast.model.names import FileName

USUAL_DIRECTORY_MODE: Final = 0o755


class FileInfo(msgspec.Struct, frozen=True):
    """What is known about one path without reading its content."""

    path: FileName
    kind: str
    """`file`, `directory` or `link`."""
    size_bytes: int
    mode: int
    modified_at: datetime | None
    """Of a directory, where it is listed or asked for: that of the newest thing in it."""
    target: FileName | None = None
    """Where a link points."""

    @property
    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.kind == "directory"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]
