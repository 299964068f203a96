"""How often somebody may try to sign in, and when they are told how it went.

A key has 256 random bits, and nobody guesses one; but people may have chosen their own. Counted in
each worker for itself.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from holdfast.engine.tenancy.rates import Bucket
from holdfast.server.problems import TooManySignIns
from holdfast.server.requests import Request
from holdfast.server.strangers import addresses, network

TRIES: Final = 10
"""Sign-ins that an address may try in a minute."""

TRIES_OF_PROXY: Final = 120
"""The same of whoever says that it asks for others: what it says may be made up."""

MOST_ADDRESSES: Final = 10_000

ANSWER_S: Final = 0.25
"""When a sign-in is answered, however it goes: how long it took tells nothing."""


class Tries:
    """How often each address has tried to sign in lately."""

    def __init__(
        self,
        most: int = TRIES,
        most_of_proxy: int = TRIES_OF_PROXY,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._most, self._most_of_proxy = clock, most, most_of_proxy
        self._buckets = dict[str, Bucket]()

    def count(self, request: Request) -> None:
        """Counts a try; raises `TooManySignIns` for one too many."""
        peer, other = addresses(request)
        if other is None:
            self._take(network(peer), self._most)
        else:
            self._take(f"{network(peer)} for {network(other)}", self._most)
            self._take(f"{network(peer)} for others", self._most_of_proxy)

    def take(self, name: str) -> None:
        """Counts a try of somebody who is known by name; raises `TooManySignIns`."""
        self._take(name, self._most)

    def _take(self, name: str, limit: int) -> None:
        now = self._clock()
        # To the end: those that come first have not tried for the longest.
        bucket = self._buckets.pop(name, None) or Bucket(limit, limit, now)
        self._buckets[name] = bucket
        bucket.fill(now)
        if bucket.left < 1:
            raise TooManySignIns(retry_after=int(bucket.seconds_until(1)) + 1)
        bucket.left -= 1
        if len(self._buckets) > MOST_ADDRESSES:
            del self._buckets[next(iter(self._buckets))]


async def answered_at(begun: float) -> None:
    """Waits until it is time to answer a sign-in that began then."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(max(0.0, begun + ANSWER_S - loop.time()))
