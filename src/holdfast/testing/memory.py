"""Where tests that are not about disks keep their files: in memory, if there is room."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - whoever uses it makes a private directory in it

MEMORY_BYTES: Final = 2 << 30
"""Room for the files of a whole run of tests; containers often have less there."""


def find_base() -> Path:
    """Returns the directory for directories of tests: in memory, or the usual one."""
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
        return MEMORY
    return Path(tempfile.gettempdir()).resolve()
