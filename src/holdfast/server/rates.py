"""How many requests a key may make, and how often it was used.

Counted by the minute, in each worker for itself: a connection stays with one of them.

A key without a limit of its own may make as many as come. Headers say so on every answer, since
clients read them; what is unlimited is told as a very large number.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from threading import Lock
from typing import Final

from holdfast.model_keys import KeyUse
from holdfast.server.callers import Caller
from holdfast.server.problems import RateLimited

MINUTE_S: Final = 60
UNLIMITED: Final = 1_000_000_000


class Rates:
    """Counts the requests of keys."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._minute = 0
        self._counts: dict[str, int] = {}
        self._uses: dict[str, tuple[float, int]] = {}
        self._guard = Lock()

    def count(self, caller: Caller) -> None:
        """Counts a request; raises `RateLimited` for one too many."""
        now = self._clock()
        with self._guard:
            self._turn(now)
            count = self._counts.get(caller.key.id, 0) + 1
            limit = caller.key.rate_limit
            if limit is not None and count > limit:
                raise RateLimited(limit=limit, retry_after=MINUTE_S - int(now) % MINUTE_S)
            self._counts[caller.key.id] = count
            _, uses = self._uses.get(caller.key.id, (now, 0))
            self._uses[caller.key.id] = (now, uses + 1)

    def headers(self, caller: Caller | None) -> Iterator[tuple[bytes, bytes]]:
        """Yields the headers that tell a client how much is left."""
        now = self._clock()
        limit, left = UNLIMITED, UNLIMITED
        if caller is not None and caller.key.rate_limit is not None:
            with self._guard:
                self._turn(now)
                used = self._counts.get(caller.key.id, 0)
            limit = caller.key.rate_limit
            left = max(0, limit - used)
        yield b"x-ratelimit-limit", b"%d" % limit
        yield b"x-ratelimit-remaining", b"%d" % left
        yield b"x-ratelimit-reset", b"%d" % ((int(now) // MINUTE_S + 1) * MINUTE_S)

    def take_uses(self) -> list[KeyUse]:
        """Returns how often keys were used since this was last asked."""
        with self._guard:
            uses, self._uses = self._uses, {}
        return [
            KeyUse(key_id, datetime.fromtimestamp(last, tz=UTC), count)
            for key_id, (last, count) in uses.items()
        ]

    def _turn(self, now: float) -> None:
        minute = int(now) // MINUTE_S
        if minute != self._minute:
            self._minute, self._counts = minute, {}
