"""Whose a command is, where the server is the machine's root: nobody's.

Root's own it must not be: in whatever namespace a process of root's is, what belongs to root is
its own. So commands run as a user that has no name, no other files and no other processes; each
number has another, and the kernel counts the processes of each apart from all others.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

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
