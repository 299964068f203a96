"""Says when something is mounted or unmounted below a directory.

Inotify tells of neither: what is mounted over a folder hides it, and what was mounted elsewhere as
well stays, with its watches, when it goes from here.
"""

import os
import re
import select
from collections.abc import Set as AbstractSet
from typing import Final

_MOUNTED: Final = "/proc/self/mountinfo"
_AT: Final = 4
"""The field of a line that says where something is mounted."""
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


class Mounts:
    """What is mounted below a directory; nothing, where the system does not say."""

    def __init__(self, root: bytes) -> None:
        # As the system lists them: without links.
        self._within = os.path.realpath(root).rstrip(b"/") + b"/"
        self._is_stale = False
        self._poll = select.poll()
        try:
            self._fd = os.open(_MOUNTED, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1
        self.wake(self._poll)
        self._there = self._read()

    def wake(self, poll: "select.poll") -> None:
        """Lets whoever polls wake up when something is mounted: once, so `note` has to be told."""
        if self._fd >= 0:
            poll.register(self._fd, select.POLLPRI)

    def note(self, ready: AbstractSet[int]) -> bool:
        """Takes in for what somebody woke up; says whether it was for this."""
        is_woken = self._fd in ready
        self._is_stale |= is_woken
        return is_woken

    def have_changed(self) -> bool:
        """Says whether others are there than when this was last asked."""
        if not self._is_stale and not self._poll.poll(0):
            return False
        self._is_stale = False
        before, self._there = self._there, self._read()
        return before != self._there

    def close(self) -> None:
        """Lets go of what tells of them."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> list[bytes]:
        if self._fd < 0:
            return []
        with open(_MOUNTED, "rb") as file:
            return [line for line in file if self._is_within(line.split(b" ")[_AT])]

    def _is_within(self, place: bytes) -> bool:
        plain = _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), place)
        return plain.startswith(self._within)
