"""How what takes long goes on beside those who wait for an answer.

Whoever computes in a thread takes the interpreter from all others again and again, half a
millisecond at a time, and an answer needs it some twenty times. What may go through all that a
tenant has therefore works in short slices and rests after each, where it holds no lock
(`holdfast.behalf`): together, all such work computes for a quarter of the time. Where nobody else
has asked for anything lately, it does not rest.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.behalf import REST

T = TypeVar("T")

SLICE_S: Final = 0.002
"""The least that is computed between two rests: shorter ones cost more than they give."""

SHARE: Final = 4
"""Of so much time, one part is for what takes long."""

LATELY_S: Final = 0.25
"""For so long after a request the next one is expected."""

LONGEST_S: Final = 1.0
"""No rest is longer, however long a single step took."""


class Pace:
    """The pace of one process, for all its threads; `wait` ends early when the server stops."""

    def __init__(
        self, wait: Callable[[float], object], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._wait, self._clock = wait, clock
        self._asked_at = -math.inf
        self._guard, self._working = threading.Lock(), 0

    def asked(self) -> None:
        """Notes that somebody asks for something."""
        self._asked_at = self._clock()

    def run(self, function: Callable[[], T]) -> T:
        """Runs what takes long, in this thread; returns what it does."""
        self._count(1)
        slices = _Slices(self.rest)
        token = REST.set(slices.rest)
        try:
            return function()
        finally:
            REST.reset(token)
            slices.end()
            self._count(-1)

    def rest(self, worked_s: float) -> None:
        """Rests after work of so many seconds, unless nobody has asked for anything lately."""
        if self._clock() - self._asked_at < LATELY_S:
            self._wait(min(worked_s * (SHARE * self._working - 1), LONGEST_S))

    def _count(self, more: int) -> None:
        with self._guard:
            self._working += more


class _Slices:
    """The work of one thread, by the time of the processor that it takes."""

    def __init__(self, rest: Callable[[float], None]) -> None:
        self._rest, self._begun = rest, time.thread_time()

    def rest(self) -> None:
        """Ends a slice, if it was long enough."""
        if time.thread_time() - self._begun >= SLICE_S:
            self.end()

    def end(self) -> None:
        """Ends a slice: what is short and comes again and again rests, too."""
        self._rest(time.thread_time() - self._begun)
        self._begun = time.thread_time()
