"""What stands at a place in a folder: is it what is known, whose is it, how would it be made."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

from holdfast.workspace.statindex import UNSURE, Row
from holdfast.workspace.steps import State

_LEAST_NS: Final = -(2**63)
_MOST_NS: Final = 2**63 - 1


@contextmanager
def removing(temporary: bytes, fd: int) -> Generator[None]:
    """Removes a temporary file if what is done with it fails."""
    try:
        yield
    except Exception:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=fd)
        raise


def is_known(row: Row, state: os.stat_result) -> bool:
    """Says whether something is as the index knows it."""
    return (
        row.size == state.st_size
        # Clamped, as the index has it: some file systems know years that 64 bits do not.
        and row.mtime_ns == min(max(state.st_mtime_ns, _LEAST_NS), _MOST_NS)
        and row.ino == state.st_ino
        and row.mode == state.st_mode
        # One that was read a moment after it was written has no sure time of change.
        and (row.ctime_ns in (UNSURE, state.st_ctime_ns) or row.nlink > 1)
    )


def umask() -> int:
    """Returns which bits new files are not given; all of them, where that cannot be asked.

    Asking the system itself means setting it, for all threads, for a moment.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("Umask:"))
        return int(line.split()[1], 8)
    except (OSError, StopIteration, ValueError):
        return 0o7777


def state_of(name: bytes, fd: int) -> State:
    """Returns what is compared of something that was put."""
    state = os.stat(name, dir_fd=fd, follow_symlinks=False)
    return state.st_size, state.st_mtime_ns
