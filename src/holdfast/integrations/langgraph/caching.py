"""What is remembered of checkpoints: parts of large values, and how checkpoints were left.

Parts of large values that were put or read lately never change.

A part is named by the hash of its bytes, so that what is kept here is what is stored, but for its
compression. It is kept for one thread alone: a checkpoint that names what another thread has finds
nothing.

How a checkpoint was left may change, and whoever uses that expects it to be so.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Final, NamedTuple

from holdfast.integrations.langgraph.records import Large, Place

MOST_BYTES: Final = 16 << 20
"""What a saver keeps in memory."""


MOST_LEFT: Final = 256
"""Places of which it is remembered how the last checkpoint was left; of each, some KiB."""


class Left(NamedTuple):
    """A checkpoint as this saver has put it."""

    id: str
    tag: str
    large: Mapping[str, Large]
    """Its large values, by channel."""


class Lefts:
    """Of each place the checkpoint that was put last; any number of threads may use it."""

    def __init__(self) -> None:
        self._lefts = OrderedDict[Place, Left]()
        self._lock = Lock()

    def find(self, place: Place, checkpoint_id: str) -> Left | None:
        """Returns how a checkpoint was left, if it was the last of its place."""
        left = self._lefts.get(place)
        return left if left is not None and left.id == checkpoint_id else None

    def note(self, place: Place, left: Left) -> None:
        """Notes how a checkpoint was left, in place of those that are the oldest."""
        with self._lock:
            self._lefts[place] = left
            self._lefts.move_to_end(place)
            if len(self._lefts) > MOST_LEFT:
                self._lefts.popitem(last=False)


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
