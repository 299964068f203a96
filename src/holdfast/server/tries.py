"""How often somebody may try to sign in, and when they are told how it went.

A key has 256 random bits, and nobody guesses one; but people may have chosen their own. Counted in
each worker for itself.
"""

import asyncio
import time
from collections.abc import Callable
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Final

from holdfast.engine.tenancy.rates import Bucket
from holdfast.server.problems import TooManySignIns
from holdfast.server.requests import Request

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
        peer, other = _addresses(request)
        if other is None:
            self._take(_network(peer), self._most)
        else:
            self._take(f"{_network(peer)} for {_network(other)}", self._most)
            self._take(f"{_network(peer)} for others", self._most_of_proxy)

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


def address_of(request: Request) -> str:
    """Returns where a request comes from, as far as that is told."""
    peer, other = _addresses(request)
    return peer if other is None else f"{other} (by {peer})"


def _addresses(request: Request) -> tuple[str, str | None]:
    """Returns who is connected, and for whom it says that it asks; None if it says nothing."""
    peer = (request.scope.get("client") or ("",))[0]
    said = request.headers.get(b"x-forwarded-for")
    # What the last proxy says; whoever is before it may have said anything.
    return peer, None if said is None else said.decode("latin-1").rpartition(",")[2].strip()[:64]


def _network(address: str) -> str:
    """Returns whose address it is: of IPv6, everybody has 2^64."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(found, IPv4Address):
        return str(found)
    return str(ip_network(f"{found}/64", strict=False))


async def answered_at(begun: float) -> None:
    """Waits until it is time to answer a sign-in that began then."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(max(0.0, begun + ANSWER_S - loop.time()))
