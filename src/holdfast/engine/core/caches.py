"""A cache bounded by bytes that forgets what was used longest ago.

Only immutable things named by their own content go in (decoded nodes, plain blocks), so an
entry can be dropped at any time and can never be stale; or what is compared before it is relied on
(`recent.py`).
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteCache(Generic[K, V]):
    """Values by key, together never larger than `max_bytes`; safe from many threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._items: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._guard = threading.Lock()

    def find(self, key: K) -> V | None:
        """Returns the value, or None."""
        with self._guard:
            item = self._items.get(key)
            if item is None:
                return None
            self._items.move_to_end(key)
            return item[0]

    def take(self, key: K) -> V | None:
        """Returns the value, or None, and forgets it."""
        with self._guard:
            item = self._items.pop(key, None)
            if item is None:
                return None
            self._bytes -= item[1]
            return item[0]

    def put(self, key: K, value: V, *, size: int) -> None:
        """Keeps a value, and forgets others until there is room for it."""
        if size > self._max_bytes:
            return
        with self._guard:
            old = self._items.pop(key, None)
            if old is not None:
                self._bytes -= old[1]
            self._items[key] = (value, size)
            self._bytes += size
            while self._bytes > self._max_bytes:
                _, (_, dropped) = self._items.popitem(last=False)
                self._bytes -= dropped

    def clear(self) -> None:
        """Forgets everything."""
        with self._guard:
            self._items.clear()
            self._bytes = 0


class FileCache(ByteCache[K, bytes]):
    """Bytes by key in a file without a name, which goes with the process; safe from many threads.

    Nothing is forgotten: what there is no room for is not kept. Whoever reads them proves them.
    """

    def __init__(self, max_bytes: int) -> None:
        from tempfile import TemporaryFile  # noqa: PLC0415 - for those alone who have a bucket

        super().__init__(max_bytes)
        self._places = dict[K, tuple[int, int]]()
        try:
            self._file = TemporaryFile()  # noqa: SIM115 - closed by `close`
        except OSError:
            self._file, self._max_bytes = None, 0

    def find(self, key: K) -> bytes | None:
        """Returns the bytes, or None."""
        with self._guard:
            at, size = self._places.get(key, (0, -1))
            if self._file is None or size < 0:
                return None
            return os.pread(self._file.fileno(), size, at)

    def put(self, key: K, value: bytes, *, size: int) -> None:
        """Keeps bytes, if there is room for them."""
        with self._guard:
            if self._file is None or key in self._places or self._bytes + size > self._max_bytes:
                return
            try:
                written = os.pwrite(self._file.fileno(), value, self._bytes)
            except OSError:
                self._max_bytes = 0  # The disk is full, or nearly so.
                return
            if written == len(value):
                self._places[key] = (self._bytes, written)
                self._bytes += written

    def clear(self) -> None:
        """Forgets everything."""
        with self._guard:
            self._places.clear()
            self._bytes = 0

    def close(self) -> None:
        """Gives the room back."""
        with self._guard:
            self._places.clear()
            if self._file is not None:
                self._file.close()
                self._file = None
