"""A cache bounded by bytes that forgets what was used longest ago.

Only immutable things named by their own content go in (decoded nodes, plain blocks), so an
entry can be dropped at any time and can never be stale; or what is compared before it is relied on
(`recent.py`).
"""

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
