"""What happens in this process, counted for whoever shows it: nothing depends on it.

Deep inside, where something happens, nobody knows a server or its library of metrics. So it is
counted here, by a name that stands in `NAMES`, from when the process began.
"""

import os
import threading
from typing import Final

NAMES: Final = (
    *("retries", "cache_hits", "cache_misses"),
    *("bucket_get", "bucket_put", "bucket_head", "bucket_list", "bucket_delete"),
    *("bucket_read_bytes", "bucket_written_bytes"),
)


class Tallies:
    """Counts, for any number of threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._counts = dict.fromkeys(NAMES, 0)

    def add(self, name: str, amount: int = 1) -> None:
        """Counts something."""
        with self._guard:
            self._counts[name] += amount

    def read(self) -> dict[str, int]:
        """Returns what was counted so far."""
        with self._guard:
            return dict(self._counts)

    def begin_anew(self) -> None:
        """Lets go of a lock that a thread held which a fork has left behind."""
        self._guard = threading.Lock()


TALLIES: Final = Tallies()

os.register_at_fork(after_in_child=TALLIES.begin_anew)
