"""Fetches what will be asked for, several things at a time, beside whoever asks.

Nobody waits for it, and nothing is raised: what could not be fetched is asked for again by who
needs it. And it goes on only while somebody reads: what is expected by a reader who has gone is not
fetched to its end, and no process stays for it.
"""

import threading
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, TypeVar

AT_ONCE: Final = 16
"""So many are fetched at the same time, and so many answers are in memory."""

K = TypeVar("K", bound=Hashable)


class Beside(Generic[K]):
    """What is expected, and what is on its way; safe from many threads."""

    def __init__(self, fetch: Callable[[K], object], *, most: int, name: str) -> None:
        self._fetch, self._most = fetch, most
        self._expected = dict[K, None]()
        self._coming = set[K]()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=name)

    def expect(self, keys: Iterable[K]) -> None:
        """Notes what will be asked for, in this order, as far as there is room: `most` of it."""
        with self._lock:
            for key in keys:
                if len(self._expected) >= self._most:
                    return
                if key not in self._coming:
                    self._expected[key] = None

    def go_on(self) -> None:
        """Fetches what is expected, as much of it as goes at the same time.

        Called by whoever reads, with each read.
        """
        if not self._expected:
            return  # As mostly: it saves the lock.
        with self._lock:
            while self._expected and len(self._coming) < AT_ONCE:
                key = next(iter(self._expected))
                try:
                    self._pool.submit(self._bring, key)
                except RuntimeError:
                    # There may be no thread to be had, and there is none when the process ends.
                    self._expected.clear()
                    return
                del self._expected[key]
                self._coming.add(key)

    def wait(self) -> None:
        """Waits for what is on its way, and fetches nothing more."""
        self._pool.shutdown()

    def _bring(self, key: K) -> None:
        try:
            self._fetch(key)
        finally:
            with self._lock:
                self._coming.discard(key)
