"""How much a command may take."""

from dataclasses import dataclass
from typing import Final

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How much one command may take."""

    seconds: float = 30.0
    memory_bytes: int = 1024 * MIB
    """Of all its processes together; what each of them may map for itself is bounded by as much."""
    processes: int = 256
    """With their threads."""
    output_bytes: int = 8 * MIB
    """Of both streams together."""
    disk_bytes: int = 2048 * MIB
    """By how much the folder may grow; no file in it becomes larger."""
    disk_files: int = 100_000
    """How many files and folders may come to be in it."""
    scratch_bytes: int = 256 * MIB
    """Of the temporary folder, and of the home, each. They are in memory."""
    open_files: int = 1024
