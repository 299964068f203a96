"""How many requests a key may make, and how often it was used.

What a key may make fills up steadily, to as much as it gets in a few seconds: a minute's requests
cannot come in one of its seconds. Counted in each worker for itself, as a connection stays with one
of them.

A key without a limit of its own may make as many as come. Headers say so on every answer, since
clients read them; what is unlimited is told as a very large number.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Final

from holdfast.model.keys import Key, KeyUse
from holdfast.server.problems import RateLimited
from holdfast.server.requests import Caller

MINUTE_S: Final = 60
BURST_S: Final = 10
LEAST_BURST: Final = 30
"""What a key may make at once is what it gets in so many seconds, or so many requests; never more
than in a minute."""

UNLIMITED: Final = 1_000_000_000


@dataclass(slots=True)
class _Bucket:
    """The requests that one key may make: so many a minute, and so many at once."""

    limit: int
    left: float
    at: float
    """When so many were left."""

    @property
    def per_second(self) -> float:
        return self.limit / MINUTE_S

    def fill(self, now: float) -> None:
        """Adds what has come since it was last looked at; a clock may go back."""
        came = max(0.0, now - self.at) * self.per_second
        self.left, self.at = min(burst_of(self.limit), self.left + came), now

    def seconds_until(self, count: float) -> float:
        """Returns how long it takes until so many may be made at once."""
        return max(0.0, count - self.left) / self.per_second


def burst_of(limit: int) -> int:
    """Returns how many requests may be made at once, where so many may be made in a minute."""
    return min(limit, max(LEAST_BURST, limit * BURST_S // MINUTE_S))


class Rates:
    """Counts the requests of keys."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._minute = 0
        self._buckets: dict[str, _Bucket] = {}
        self._before: dict[str, _Bucket] = {}
        """Of keys in use in this minute, and in the one before it: what was not touched for as
        long as that is full again, and as good as new."""
        self._uses: dict[str, tuple[float, int]] = {}
        self._guard = Lock()

    def count(self, caller: Caller) -> None:
        """Counts a request; raises `RateLimited` for one too many."""
        now, key = self._clock(), caller.key
        with self._guard:
            bucket = self._checked(key, now)
            if bucket is not None:
                bucket.left -= 1
            _, uses = self._uses.get(key.id, (now, 0))
            self._uses[key.id] = (now, uses + 1)

    def check(self, caller: Caller) -> None:
        """Raises `RateLimited` if the next request would be one too many."""
        with self._guard:
            self._checked(caller.key, self._clock())

    def headers(self, caller: Caller | None) -> Iterator[tuple[bytes, bytes]]:
        """Yields the headers that tell a client how much is left, and when all of it is again."""
        now, limit, left, wait_s = self._clock(), UNLIMITED, UNLIMITED, 0.0
        if caller is not None and caller.key.rate_limit is not None:
            limit = caller.key.rate_limit
            with self._guard:
                bucket = self._bucket(caller.key.id, limit, now)
                left, wait_s = int(bucket.left), bucket.seconds_until(burst_of(limit))
        yield b"x-ratelimit-limit", b"%d" % limit
        yield b"x-ratelimit-remaining", b"%d" % left
        yield b"x-ratelimit-reset", b"%d" % (int(now + wait_s) + 1)

    def take_uses(self) -> list[KeyUse]:
        """Returns how often keys were used since this was last asked."""
        with self._guard:
            uses, self._uses = self._uses, {}
        return [
            KeyUse(key_id, datetime.fromtimestamp(last, tz=UTC), count)
            for key_id, (last, count) in uses.items()
        ]

    def _checked(self, key: Key, now: float) -> _Bucket | None:
        """Returns what a key may make, and that is something; None if it has no limit."""
        if key.rate_limit is None:
            return None
        bucket = self._bucket(key.id, key.rate_limit, now)
        if bucket.left < 1:
            wait_s = math.ceil(bucket.seconds_until(1))
            raise RateLimited(limit=key.rate_limit, retry_after=wait_s)
        return bucket

    def _bucket(self, key_id: str, limit: int, now: float) -> _Bucket:
        minute = int(now) // MINUTE_S
        if minute != self._minute:
            self._minute, self._before, self._buckets = minute, self._buckets, {}
        bucket = self._buckets.get(key_id) or self._before.get(key_id)
        if bucket is None:
            bucket = _Bucket(limit, burst_of(limit), now)
        self._buckets[key_id] = bucket
        bucket.fill(now)
        return bucket
