"""How much a command may take, and whose it is where the server is the machine's root: nobody's.

Root's own it must not be: in whatever namespace a process of root's is, what belongs to root is
its own. So commands run as a user that has no name, no other files and no other processes; each
number has another, and the kernel counts the processes of each apart from all others.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
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


FIRST: Final = 0x7000_0000
COUNT: Final = 0x0FFE_0000
"""Above those that containers are given, below those that programs read as negative."""


def is_root() -> bool:
    """Says whether this is the machine's root, and not one of a namespace of its own."""
    if os.geteuid() != 0:
        return False
    with suppress(OSError, ValueError):
        inside, outside, _ = Path("/proc/self/uid_map").read_text("ascii").split("\n")[0].split()
        return inside != "0" or outside == "0"
    return True


def find_user(number: int) -> int | None:
    """Returns the user that commands of a number run as; None if they run as whoever we are."""
    return FIRST + number % COUNT if is_root() else None
