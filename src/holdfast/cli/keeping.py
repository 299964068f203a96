"""When `holdfast watch` takes its next snapshot: after a while of quiet, or of no quiet at all.

Neither sleeps nor captures: it is told what happened, and says what is due. A capture that
fails is tried again, less and less often; that is said once, and so is that it works again.
"""

import time
from collections.abc import Callable
from typing import Final

from holdfast.cli.escaping import escaped

FIRST_DELAY_S: Final = 1.0
LONGEST_DELAY_S: Final = 300.0
"""How long a capture that failed waits for its next try: from the first to this, doubled."""


class Keeper:
    """Knows when the next snapshot is due, and how long to wait after one that failed."""

    def __init__(
        self,
        keep: Callable[[], None],
        complain: Callable[[str], None],
        *,
        quiet_s: float,
        max_interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keep, self._complain, self._clock = keep, complain, clock
        self._quiet_s, self._max_interval_s = quiet_s, max_interval_s
        self._changed_at: float | None = None
        self._last_at = self._not_before = clock()
        self._delay_s = 0.0

    def suspect(self) -> None:
        """Notes that something may have changed."""
        self._last_at = self._clock()
        if self._changed_at is None:
            self._changed_at = self._last_at

    def due_in(self) -> float | None:
        """Returns in how many seconds there is something to do; None if nothing has changed."""
        if self._changed_at is None:
            return None
        due = min(self._last_at + self._quiet_s, self._changed_at + self._max_interval_s)
        return max(0.0, max(due, self._not_before) - self._clock())

    def run_due(self) -> None:
        """Keeps what has changed, if it is time to."""
        if self.due_in() != 0.0:
            return
        changed_at, self._changed_at = self._changed_at, None
        try:
            self._keep()
        except Exception as exc:  # noqa: BLE001 - whatever it is: a watcher that died protects nobody
            self._changed_at = changed_at
            self._back_off(exc)
            return
        if self._delay_s:
            self._complain("snapshots can be taken again")
        self._delay_s = 0.0

    def _back_off(self, exc: Exception) -> None:
        if not self._delay_s:
            self._complain(
                f"no snapshot could be taken: {escaped(str(exc))}\n"
                "  It is tried again, less and less often, until it works."
            )
        self._delay_s = min(LONGEST_DELAY_S, self._delay_s * 2 or FIRST_DELAY_S)
        self._not_before = self._clock() + self._delay_s
