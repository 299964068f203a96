"""Parts of large values that were put or read lately, in memory: they never change.

A part is named by the hash of its bytes, so that what is kept here is what is stored, but for its
compression. It is kept for one thread alone: a checkpoint that names what another thread has finds
nothing.
"""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Final

MOST_BYTES: Final = 16 << 20
"""What a saver keeps in memory."""


class Parts:
    """Bytes by thread and name, those that were used last; any number of threads may use it."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._size = most_bytes, 0
        self._parts = OrderedDict[tuple[str, str], bytes]()
        self._lock = Lock()

    def find(self, thread: str, names: Iterable[str]) -> dict[str, bytes]:
        """Returns those of the parts that are here."""
        with self._lock:
            found = {
                name: self._parts[thread, name] for name in names if (thread, name) in self._parts
            }
            for name in found:
                self._parts.move_to_end((thread, name))
        return found

    def keep(self, thread: str, parts: Iterable[tuple[str, bytes]]) -> None:
        """Keeps parts, in place of those that nobody has used for longest."""
        with self._lock:
            for name, data in parts:
                if (thread, name) in self._parts or len(data) > self._most:
                    continue
                self._parts[thread, name] = data
                self._size += len(data)
            while self._size > self._most:
                _, data = self._parts.popitem(last=False)
                self._size -= len(data)
