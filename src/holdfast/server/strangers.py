"""Turns of those who have shown no key: all of them together are answered so often in a second.

Whatever it is that they are told, a page, a 404 or that there is no key, each answer takes time of
the one loop that answers everybody. So many may come together, as a browser asks for the files of
a page; beyond that each waits for its turn, before anything is looked up for it. Turns go round
the addresses, and at one that says for whom it asks, round those: a flood from one place delays
nobody at another. A connection on which a key was shown has turns of its own, and so has the
question whether the server is alive.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Final, NamedTuple

from holdfast.server.asgi import HAS_LEFT
from holdfast.server.problems import Unfit
from holdfast.server.requests import CUT_OFF, Request

PER_S: Final = 400
"""Answers to strangers in a second: some tenth of the loop's time."""

AT_ONCE: Final = 1000
"""What may come together after a while without: pages of a dozen people, of 60 files each."""

HEADERS: Final = 32
"""More than a browser sends: who sends more has one turn for each so many. To parse 190 of them
takes 250 us, and each is looked at again."""

GONE: Final = 0.1
"""What a turn of somebody who has left costs: to clear thousands away at once would take long."""

MOST_CONNECTIONS: Final = 10_000
ALIVE: Final = "/health/live"


class _Asked(NamedTuple):
    """Somebody who waits for a turn."""

    told: asyncio.Future[None]
    cost: float
    has_left: Callable[[], bool]


class Strangers:
    """Those who have shown no key to one worker."""

    def __init__(self) -> None:
        self._probes, self._others = Turns(), Turns()
        self._tenants = dict[tuple[object, ...], str]()
        """Who has shown a key on a connection."""

    async def hold(self, request: Request) -> None:
        """Waits for the turn of a request, once; raises `Unfit` for who has left."""
        if request.has_waited:
            return
        request.has_waited = True
        turns = self._probes if request.path == ALIVE else self._others
        tenant = self._tenants.get(_connection(request))
        whose = _places(request) if tenant is None else (tenant, "")
        cost = 1 + len(request.scope["headers"]) // HEADERS
        await turns.wait(*whose, cost=cost, has_left=request.scope.get(HAS_LEFT, _stays))

    def know(self, request: Request, tenant: str) -> None:
        """Notes that a connection is a tenant's."""
        connection = _connection(request)
        if self._tenants.get(connection) != tenant:
            self._tenants[connection] = tenant
            if len(self._tenants) > MOST_CONNECTIONS:
                del self._tenants[next(iter(self._tenants))]


class Turns:
    """So many turns in a second, which go round places, and round those who ask there."""

    def __init__(self) -> None:
        self._next_at = 0.0
        """When the next turn is; long past after a while without any."""
        self._waiting = dict[str, dict[str, deque[_Asked]]]()
        self._timer: asyncio.TimerHandle | None = None

    async def wait(
        self, place: str, name: str, *, cost: float, has_left: Callable[[], bool]
    ) -> None:
        """Waits for a turn, which counts as so many of them; raises `Unfit` for who has left."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._next_at = max(self._next_at, now - AT_ONCE / PER_S)
        if not self._waiting and self._next_at <= now:
            self._next_at += cost / PER_S
            return
        told: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(place, {}).setdefault(name, deque()).append(
            _Asked(told, cost, has_left)
        )
        self._set_timer(loop)
        await told

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is None and self._waiting:
            self._timer = loop.call_at(self._next_at, self._pass_on, loop)

    def _pass_on(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer, now = None, loop.time()
        while self._waiting and self._next_at <= now:
            asked = self._take()
            if asked.told.done():  # It was cancelled.
                continue
            if asked.has_left():
                asked.told.set_exception(Unfit(CUT_OFF))
                self._next_at += GONE / PER_S
                continue
            asked.told.set_result(None)
            self._next_at += asked.cost / PER_S
        self._set_timer(loop)

    def _take(self) -> _Asked:
        """Returns whose turn it is; the next is somebody else's, if any is."""
        place, names = next(iter(self._waiting.items()))
        name, waiting = next(iter(names.items()))
        asked = waiting.popleft()
        del self._waiting[place], names[name]
        if waiting:
            names[name] = waiting
        if names:
            self._waiting[place] = names
        return asked


def _stays() -> bool:
    return False


def _connection(request: Request) -> tuple[object, ...]:
    return tuple(request.scope.get("client") or ())


def _places(request: Request) -> tuple[str, str]:
    """Returns who is connected, and for whom it says that it asks, if it does."""
    peer, other = addresses(request)
    return network(peer), "" if other is None else network(other)


def address_of(request: Request) -> str:
    """Returns where a request comes from, as far as that is told."""
    peer, other = addresses(request)
    return peer if other is None else f"{other} (by {peer})"


def addresses(request: Request) -> tuple[str, str | None]:
    """Returns who is connected, and for whom it says that it asks; None if it says nothing."""
    peer = (request.scope.get("client") or ("",))[0]
    said = request.headers.get(b"x-forwarded-for")
    # What the last proxy says; whoever is before it may have said anything.
    return peer, None if said is None else said.decode("latin-1").rpartition(",")[2].strip()[:64]


def network(address: str) -> str:
    """Returns whose address it is: of IPv6, everybody has 2^64."""
    try:
        found = ip_address(address)
    except ValueError:
        return address[:64]
    if isinstance(found, IPv4Address):
        return str(found)
    return str(ip_network(f"{found}/64", strict=False))
