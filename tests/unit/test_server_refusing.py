"""Keys over their rate limit at the door: who gets no further, for how long, and how often."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from holdfast.model.keys import Key, Scope
from holdfast.server.app import Application
from holdfast.server.callers import secret_of
from holdfast.server.observing import Observer
from holdfast.server.rates import APART_S, KNOWN_S, Rates, Refusing
from holdfast.server.requests import Caller, Request
from holdfast.server.routing import Who, get
from holdfast.server.table import Entry, Group, Table

LIMIT = 60
"""Requests a minute: one a second, and 30 at once."""
BURST = 30


@get("/v1/me", work=None)
def me() -> str:
    """Says that it was reached."""
    return "done"


@get("/v1/sessions/{name}", work=None)
def session(name: str) -> str:
    """Says that it was reached, where errors have the other shape."""
    return name


@get("/health", who=Who.ANYBODY, work=None)
def health() -> str:
    """Needs no key."""
    return "public"


def caller_of(secret: str, limit: int | None) -> Caller:
    key = Key(
        id=f"key-{secret}",
        tenant_id=cast("Any", 1),
        name="",
        prefix="",
        scope=Scope.RUNTIME,
        created_at=cast("Any", None),
        rate_limit=limit,
    )
    return Caller(key, cast("Any", SimpleNamespace(tenant_id="t")))


class Door:
    """A server with a clock of its own, and those who ask it."""

    def __init__(self) -> None:
        self.now = 600.0
        self.reached = list[str]()
        self.limits: dict[str, int | None] = {"slow": LIMIT, "slow too": LIMIT, "free": None}
        self._rates = Rates(clock=lambda: self.now)
        table = Table([Group([me, session, health], 0)])
        app = Application(
            table,
            cast("Any", SimpleNamespace()),
            refusing=Refusing(self._rates, table.public_paths(), clock=lambda: self.now),
            admit=self.admit,
            observer=Observer(self._rates),
        )
        transport = httpx.ASGITransport(cast("Any", app))
        self._client = httpx.AsyncClient(transport=transport, base_url="http://here")

    async def admit(self, entry: Entry, request: Request) -> None:
        """Looks a key up, and counts the request."""
        secret = secret_of(request.scope["headers"]) or ""
        self.reached.append(f"{secret} {request.path}")
        if secret in self.limits and entry.route.who is not Who.ANYBODY:
            request.caller = caller_of(secret, self.limits[secret])
            self._rates.count(request.caller)

    async def ask(self, key: str, path: str = "/v1/me") -> httpx.Response:
        return await self._client.get(path, headers={"Authorization": f"Bearer {key}"})

    async def spend(self, key: str) -> httpx.Response:
        """Makes all requests that a key may make, and one more; returns how that is refused."""
        for _ in range(BURST):
            assert (await self.ask(key)).status_code == 200
        self.reached.clear()
        return await self.ask(key)


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.mark.parametrize("path", ["/v1/me", "/v1/sessions/s"])
def test_what_is_said_at_the_door_is_what_a_route_says(door: Door, path: str) -> None:
    async def run() -> None:
        door.limits["slow"] = 1
        assert (await door.ask("slow", path)).status_code == 200
        door.reached.clear()
        at_the_door = await door.ask("slow", path)
        assert door.reached == []
        door.now += KNOWN_S
        routed = await door.ask("slow", path)
        assert door.reached == [f"slow {path}"]
        told = [at_the_door.json(), routed.json()]
        for each in told:
            assert each["error"].pop("request_id")
            assert each["error"].pop("retry_after") in (59, 60)
            assert each["error"].pop("values")
        assert told[0] == told[1]
        assert set(at_the_door.headers) == set(routed.headers)
        assert {at_the_door.status_code, routed.status_code} == {429}

    asyncio.run(run())


def test_a_key_over_its_limit_gets_no_further(door: Door) -> None:
    async def run() -> None:
        refused = await door.spend("slow")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        assert (await door.ask("slow", "/nowhere")).status_code == 429
        assert door.reached == []
        for key in ("free", "slow too", "made up"):
            assert (await door.ask(key)).status_code == 200
        assert (await door.ask("slow", "/health")).json() == "public"
        assert (await door.ask("slow", "/health/")).json() == "public"

    asyncio.run(run())


def test_when_it_may_make_a_request_again_it_gets_through(door: Door) -> None:
    async def run() -> None:
        await door.spend("slow")
        door.now += 0.99
        assert (await door.ask("slow")).status_code == 429
        assert door.reached == []
        door.now += 0.01
        assert [(await door.ask("slow")).status_code for _ in range(3)] == [200, 429, 429]
        assert len(door.reached) == 1

    asyncio.run(run())


def test_a_key_with_a_higher_limit_is_not_refused_for_long(door: Door) -> None:
    """Nor is one that was revoked told for long that it made too many requests."""

    async def run() -> None:
        door.limits["slow"] = 1
        assert [(await door.ask("slow")).status_code for _ in range(3)] == [200, 429, 429]
        door.limits["slow"] = None
        door.now += KNOWN_S / 2
        assert (await door.ask("slow")).status_code == 429
        door.now += KNOWN_S / 2
        assert (await door.ask("slow")).status_code == 200

    asyncio.run(run())


def test_who_asks_again_and_again_is_refused_one_at_a_time(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the waiting ones are before nobody else."""
    waits = list[float]()
    over, yielding = asyncio.Event(), asyncio.sleep

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await over.wait()

    async def run() -> None:
        await door.spend("slow")
        monkeypatch.setattr(asyncio, "sleep", sleep)
        asked = [asyncio.ensure_future(door.ask("slow")) for _ in range(20)]
        for _ in range(100):
            await yielding(0)
        assert (await door.ask("free")).status_code == 200
        assert waits == pytest.approx([APART_S * number for number in range(1, 21)])
        assert not any(each.done() for each in asked)
        over.set()
        assert {(await each).status_code for each in asked} == {429}
        assert all(reached.startswith("free") for reached in door.reached)

    asyncio.run(run())


def test_however_many_ask_none_waits_for_long(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = list[float]()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def run() -> None:
        await door.spend("slow")
        monkeypatch.setattr(asyncio, "sleep", sleep)
        for _ in range(500):
            assert (await door.ask("slow")).status_code == 429

    asyncio.run(run())
    assert 0.9 * KNOWN_S < max(waits) <= KNOWN_S
