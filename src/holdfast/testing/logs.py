"""How much of a SQLite catalog's log was written: behind that it may have room, which is zeros."""

from pathlib import Path
from typing import Final

from holdfast.catalog.sqlite_log import FRAME_BYTES

HEAD_BYTES: Final = 32
"""Of a log that has a page."""


def written_bytes(log: Path) -> int:
    """Returns the bytes of a log up to its last page, of one that has not begun anew.

    A page may end with zeros, and begins with its number.
    """
    used = len(log.read_bytes().rstrip(b"\0"))
    return HEAD_BYTES + -(-(used - HEAD_BYTES) // FRAME_BYTES) * FRAME_BYTES if used else 0
