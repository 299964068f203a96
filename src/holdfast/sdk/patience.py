"""How long a call goes on trying, and how it spaces its attempts.

A server is stopped and started anew, and who uses it should not notice: attempts are repeated by
time, not by number. A server that never answered may be one that is nowhere: its address may be
wrong, and that is said soon. Whoever says a number or a time gets just that.
"""

import math
import random
import time
from collections.abc import Callable
from typing import Final

from holdfast.sdk.lines import Line

AWAY_S: Final = 60.0
"""How long a server that has answered before may be away. To finish what is under way it takes up
to 30 seconds, and a busy machine some more to start it anew."""

STRANGE_S: Final = 5.0
"""How long one is tried that never answered."""

FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 8.0
LONGEST_ASKED_S: Final = 60.0
"""Who is told to come back later than that is told so, and not kept waiting."""


def longer_pause(failures: int) -> float:
    """Returns how long to wait after so many failures in a row."""
    # Doubled a few times it is the longest already; doubled a thousand times it is no number.
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures, 10))


class Patience:
    """What one call has left of it: time counts from the first failure on."""

    def __init__(self, line: Line, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._line, self._clock = line, clock
        self._failures = 0
        self._spent_s = 0.0
        self._began = clock()

    def begin(self) -> None:
        """Says that an attempt begins."""
        self._began = self._clock()

    def pause(self, *, asked_s: float | None = None) -> float | None:
        """Counts an attempt as failed; returns how long to wait, None if it was the last.

        `asked_s` is how long the server wants to be left alone.
        """
        if self._failures:
            self._spent_s += self._clock() - self._began
        self._failures += 1
        left_s = self._most_s() - self._spent_s
        retries = self._line.retries
        if left_s <= 0 or (retries is not None and self._failures > retries):
            return None
        if asked_s is None:
            jitter = random.uniform(0.5, 1)  # noqa: S311 - no secret
            asked_s = min(longer_pause(self._failures - 1) * jitter, left_s)
        elif asked_s > LONGEST_ASKED_S:
            return None
        self._spent_s += asked_s
        return asked_s

    def _most_s(self) -> float:
        if self._line.patience_s is not None:
            return self._line.patience_s
        if self._line.retries is not None:
            return math.inf
        return AWAY_S if self._line.answered.is_set() else STRANGE_S
