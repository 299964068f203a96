"""How many requests a key may make, and how often it was used.

A worker that is alone counts by itself; of several, each takes some requests of a key ahead, of
what all of them have together (`tenancy/rates`), and gives back what it has not used in a second.

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
from functools import partial
from threading import Lock
from typing import Final, Protocol

from holdfast.engine.tenancy.keys import hash_of
from holdfast.engine.tenancy.rates import (
    LONGEST_S,
    MINUTE_S,
    TAKEN_S,
    Allowance,
    Grant,
    Taken,
    burst_of,
    share_of,
)
from holdfast.model.keys import Key, KeyUse
from holdfast.server.callers import MOST_KNOWN, secret_of
from holdfast.server.problems import RateLimited
from holdfast.server.requests import Caller, Request

UNLIMITED: Final = 1_000_000_000


class Take(Protocol):
    """Takes requests of a key from what all servers have together, and gives some back."""

    def __call__(
        self, key_id: str, /, *, limit: int, wanted: int, unused: Grant | None = None
    ) -> Taken:
        """Returns what was granted of what is wanted, and what is left."""
        ...


class Run(Protocol):
    """Runs something that waits for the catalog, in a thread of a tenant's."""

    async def __call__(self, tenant: str, function: Callable[[], Taken], /) -> Taken:
        """Returns what the function does."""
        ...


@dataclass(slots=True)
class _Ahead:
    """What was taken ahead of a key's requests."""

    limit: int
    left: Grant
    taken_at: float
    empty_until: float = 0.0
    """Until when there is none to be had, as far as is known here."""


class Rates:
    """Counts the requests of keys; with `take`, as one of several who do."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        take: Take | None = None,
        run: Run | None = None,
    ) -> None:
        self._clock = clock
        self._take, self._run = take, run
        self._minute = 0
        self._buckets: dict[str, Allowance] = {}
        self._before: dict[str, Allowance] = {}
        """Of keys in use in this minute, and in the one before it: what was not touched for as
        long as that is full again, and as good as new."""
        self._ahead: dict[str, _Ahead] = {}
        self._taking: dict[str, asyncio.Task[None]] = {}
        self._uses: dict[str, tuple[float, int]] = {}
        self._guard = Lock()

    async def admit(self, caller: Caller) -> None:
        """Counts a request, once there is one to be had; raises `RateLimited` for one too many."""
        limit, key = caller.key.rate_limit, caller.key
        if self._take is None or limit is None:
            self.count(caller)
            return
        is_new = False
        while True:
            self.check(caller)
            with self._guard:
                ahead = self._ahead.get(key.id)
                # Whoever waited for it may use it, however long it took to come.
                if ahead is not None and ahead.left.amount and (is_new or self._is_young(ahead)):
                    ahead.left = ahead.left._replace(amount=ahead.left.amount - 1)
                    self._note(key)
                    return
            taking = self._taking.get(key.id)
            if taking is None:
                # One at a time: those who come meanwhile wait for what it brings.
                taking = asyncio.create_task(self._take_ahead(caller, limit))
                self._taking[key.id] = taking
                taking.add_done_callback(lambda _: self._taking.pop(key.id, None))
            # Whoever gives up waiting does not end it for the others.
            await asyncio.shield(taking)
            is_new = True

    def count(self, caller: Caller) -> None:
        """Counts a request; raises `RateLimited` for one too many."""
        key = caller.key
        with self._guard:
            allowance = self._checked(key, self._clock())
            if allowance is not None:
                allowance.spend(1)
            self._note(key)

    def check(self, caller: Caller) -> None:
        """Raises `RateLimited` if the next request would be one too many."""
        with self._guard:
            if self._take is None:
                self._checked(caller.key, self._clock())
                return
            ahead, now = self._ahead.get(caller.key.id), self._clock()
            if ahead is not None and not ahead.left.amount and _is_empty(ahead, now):
                raise _refused(ahead.limit, ahead.empty_until - now)

    def give_back(self) -> None:
        """Gives back what was taken ahead, and has not been used in a second."""
        if self._take is None:
            return
        now = self._clock()
        with self._guard:
            idle = {
                key_id: each
                for key_id, each in self._ahead.items()
                if not self._is_young(each) and not _is_empty(each, now)
            }
            for key_id in idle:
                del self._ahead[key_id]
        for key_id, each in idle.items():
            if each.left.amount:
                self._take(key_id, limit=each.limit, wanted=0, unused=each.left)

    async def _take_ahead(self, caller: Caller, limit: int) -> None:
        key, unused = caller.key, None
        assert self._take is not None  # noqa: S101 - nobody would have asked
        assert self._run is not None  # noqa: S101 - they come together
        with self._guard:
            ahead = self._ahead.get(key.id)
            if ahead is not None and ahead.left.amount:
                unused, ahead.left = ahead.left, ahead.left._replace(amount=0)
        take = partial(self._take, key.id, limit=limit, wanted=share_of(limit), unused=unused)
        taken = await self._run(caller.vault.tenant_id, take)
        with self._guard:
            now = self._clock()
            self._bucket(key.id, limit, now)
            taken.allowance.rebase(now)
            self._buckets[key.id] = taken.allowance
            ahead = _Ahead(limit, taken.granted, now)
            if not taken.granted.amount:
                ahead.empty_until = now + taken.allowance.seconds_until(1)
            self._ahead[key.id] = ahead

    def _is_young(self, ahead: _Ahead) -> bool:
        return 0 <= self._clock() - ahead.taken_at < TAKEN_S

    def _note(self, key: Key) -> None:
        _, uses = self._uses.get(key.id, (0.0, 0))
        self._uses[key.id] = (self._clock(), uses + 1)

    def headers(self, caller: Caller | None) -> Iterator[tuple[bytes, bytes]]:
        """Yields the headers that tell a client how much is left, and when all of it is again."""
        now, limit, left, wait_s = self._clock(), UNLIMITED, UNLIMITED, 0.0
        if caller is not None and caller.key.rate_limit is not None:
            limit = caller.key.rate_limit
            with self._guard:
                allowance = self._bucket(caller.key.id, limit, now)
                ahead = self._ahead.get(caller.key.id)
                left = allowance.free + (0 if ahead is None else ahead.left.amount)
                wait_s = allowance.seconds_until(burst_of(limit))
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

    def _checked(self, key: Key, now: float) -> Allowance | None:
        """Returns what a key may make, and that is something; None if it has no limit."""
        if key.rate_limit is None:
            return None
        allowance = self._bucket(key.id, key.rate_limit, now)
        if not allowance.free:
            raise _refused(key.rate_limit, allowance.seconds_until(1))
        return allowance

    def _bucket(self, key_id: str, limit: int, now: float) -> Allowance:
        minute = int(now) // MINUTE_S
        if minute != self._minute:
            self._minute, self._before, self._buckets = minute, self._buckets, {}
        bucket = self._buckets.get(key_id) or self._before.get(key_id)
        if bucket is None:
            bucket = Allowance(limit, burst_of(limit), now)
        self._buckets[key_id] = bucket
        bucket.limit = limit
        bucket.fill(now)
        return bucket


def _is_empty(ahead: _Ahead, now: float) -> bool:
    """Says whether there is none to be had; a clock may go back, and nobody waits for that."""
    return 0 < ahead.empty_until - now <= LONGEST_S and 0 <= now - ahead.taken_at < LOOK_S


def _refused(limit: int, wait_s: float) -> RateLimited:
    # Clients wait for a minute at most: after that it is a second or two for some.
    return RateLimited(limit=limit, retry_after=min(MINUTE_S, math.ceil(wait_s)))


LOOK_S: Final = 2.0
"""How long a worker believes that there is none to be had: others may have given some back."""

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
