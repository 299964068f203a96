"""Refuses a key that is over its rate limit at the door, for less than an answer costs.

A key that may make no request now is neither looked up nor routed, and nothing of its body is
read. Who asks again and again is answered once in a while: however many connections it has, its
refusals take next to nothing of the one loop that answers everybody. The answer is what a route
would have said.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from holdfast.engine.tenancy.keys import hash_of
from holdfast.server.callers import MOST_KNOWN, secret_of
from holdfast.server.problems import RateLimited
from holdfast.server.rates import Rates
from holdfast.server.requests import Caller, Request

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
        name = hash_of(cast("str", secret_of(request.scope["headers"])))
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
