"""What happens in this process, counted and named for whoever shows it: nothing depends on it.

Deep inside, where something happens or is waited for, nobody knows a server, its library of metrics
or its library of spans. So it is counted here, by a name that stands in `NAMES`, from when the
process began; and it is named here, and who draws spans says how one begins. Where nobody does, a
name costs nothing.
"""

import os
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

Begin = Callable[[str], AbstractContextManager[object]]
"""Begins a span of a name; it ends with the block."""

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


class Spans:
    """Names of what is under way, for any number of threads."""

    def __init__(self) -> None:
        self._begin: Begin | None = None

    def draw(self, begin: Begin | None) -> None:
        """From now on, has spans begin so; None for none."""
        self._begin = begin

    def around(self, name: str, work: AbstractContextManager[T]) -> AbstractContextManager[T]:
        """Returns the work, inside a span of this name if somebody draws it."""
        begin = self._begin
        return work if begin is None else _inside(begin(name), work)


@contextmanager
def _inside(span: AbstractContextManager[object], work: AbstractContextManager[T]) -> Generator[T]:
    with span, work as made:
        yield made


SPANS: Final = Spans()
