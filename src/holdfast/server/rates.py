"""How many requests a key may make, and how often it was used.

What a key may make fills up steadily, to as much as it gets in a few seconds: a minute's requests
cannot come in one of its seconds. Counted in each worker for itself, as a connection stays with one
of them.

A key without a limit of its own may make as many as come. Headers say so on every answer, since
clients read them; what is unlimited is told as a very large number.

Refuses a key that is over its rate limit at the door, for less than an answer costs.

A key that may make no request now is neither looked up nor routed, and nothing of its body is
read. Who asks again and again is answered once in a while: however many connections it has, its
refusals take next to nothing of the one loop that answers everybody. The answer is what a route
would have said.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock
from typing import Final

from holdfast.engine.tenancy.keys import hash_of
from holdfast.model.keys import Key, KeyUse
from holdfast.server.callers import MOST_KNOWN, secret_of
from holdfast.server.problems import RateLimited
from holdfast.server.requests import Caller, Request

MINUTE_S: Final = 60
BURST_S: Final = 10
LEAST_BURST: Final = 30
"""What a key may make at once is what it gets in so many seconds, or so many requests; never more
than in a minute."""

UNLIMITED: Final = 1_000_000_000


@dataclass(slots=True)
class Bucket:
    """The requests that somebody may make: so many a minute, and so many at once."""

    limit: int
    left: float
    at: float
    """When so many were left."""

    @property
    def per_second(self) -> float:
        """How many come back in a second."""
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
        self._buckets: dict[str, Bucket] = {}
        self._before: dict[str, Bucket] = {}
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

    def _checked(self, key: Key, now: float) -> Bucket | None:
        """Returns what a key may make, and that is something; None if it has no limit."""
        if key.rate_limit is None:
            return None
        bucket = self._bucket(key.id, key.rate_limit, now)
        if bucket.left < 1:
            wait_s = math.ceil(bucket.seconds_until(1))
            raise RateLimited(limit=key.rate_limit, retry_after=wait_s)
        return bucket

    def _bucket(self, key_id: str, limit: int, now: float) -> Bucket:
        minute = int(now) // MINUTE_S
        if minute != self._minute:
            self._minute, self._before, self._buckets = minute, self._buckets, {}
        bucket = self._buckets.get(key_id) or self._before.get(key_id)
        if bucket is None:
            bucket = Bucket(limit, burst_of(limit), now)
        self._buckets[key_id] = bucket
        bucket.fill(now)
        return bucket


KNOWN_S: Final = 1.0
"""How long a key is refused without being looked up: it may have a higher limit by now."""

APART_S: Final = 0.02
"""Between two refusals of one key, beyond the first: 50 a second take 1 % of the loop."""

ROUTE: Final = "refused"
"""What stands in the log and the metrics in place of a route: none was looked for."""


@dataclass(slots=True)
class _Known:
    """A key that was over its limit."""

    caller: Caller
    until: float
    """When it is to be looked up again."""
    next_at: float
    """When it may be refused next."""


class Refusing:
    """Knows who is over its limit, and lets no request of theirs any further."""

    def __init__(
        self, rates: Rates, public: frozenset[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rates, self._public, self._clock = rates, public, clock
        self._known = dict[bytes, _Known]()
        """Keys that were over their limit when they last asked, by the hash of each."""

    async def check(self, request: Request) -> None:
        """Raises `RateLimited` for a request of a key that may make none, when it is its turn."""
        if not self._known or (known := self._find(request)) is None:
            return
        await self._wait(known)
        try:
            self._rates.check(known.caller)
        except RateLimited:
            request.caller, request.template = known.caller, ROUTE
            raise

    def note(self, request: Request) -> None:
        """Notes of a key that was admitted, or refused, whether its next request would be."""
        caller = request.caller
        if caller is None or caller.key.rate_limit is None or request.template == ROUTE:
            return
        secret = secret_of(request.scope["headers"])
        if secret is None:
            return  # A person, who has two keys it may be about.
        name = hash_of(secret)
        before = self._known.pop(name, None)
        try:
            self._rates.check(caller)
        except RateLimited:
            now = self._clock()
            next_at = now if before is None else before.next_at
            self._known[name] = _Known(caller, until=now + KNOWN_S, next_at=next_at)
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]

    def _find(self, request: Request) -> _Known | None:
        """Returns what is known of a key that may still be over its limit."""
        secret = secret_of(request.scope["headers"])
        if secret is None or (request.path.rstrip("/") or "/") in self._public:
            return None
        known = self._known.get(hash_of(secret))
        return known if known is not None and self._clock() < known.until else None

    async def _wait(self, known: _Known) -> None:
        """Waits for the turn of a refusal."""
        now = self._clock()
        # Not for longer: whoever waits takes room, and may be gone by then.
        at = min(max(now, known.next_at), now + KNOWN_S)
        known.next_at = at + APART_S
        if at > now:
            await asyncio.sleep(at - now)
