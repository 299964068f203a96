"""Keys over their rate limit at the door: who gets no further, for how long, and how often."""

import asyncio
from typing import Any, cast

import httpx
import pytest
from litestar import Request

from holdfast.model_keys import KeyInfo, Scope
from holdfast.server.callers import Caller, secret_of
from holdfast.server.problems import RateLimited, answer_known, refusal
from holdfast.server.rates import Rates
from holdfast.server.refusing import APART_S, KNOWN_S, Refusing

LIMIT = 60
"""Requests a minute: one a second, and 30 at once."""
BURST = 30


class Routed:
    """An application that looks a key up, counts the request, and answers it or refuses."""

    def __init__(self, rates: Rates) -> None:
        self.reached = list[str]()
        self.limits = dict[str, int | None]()
        self._rates = rates

    async def __call__(self, scope: Any, _receive: Any, send: Any) -> None:
        secret = secret_of(scope) or ""
        self.reached.append(f"{secret} {scope['path']}")
        if secret not in self.limits or scope["path"].startswith("/health"):
            await answer(send, 200, [], b"public")
            return
        caller = scope["state"]["caller"] = caller_of(secret, self.limits[secret])
        try:
            self._rates.count(caller)
        except RateLimited as error:
            await answer(send, *refusal(scope, error))
        else:
            await answer(send, 200, [], b"done")


async def answer(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def caller_of(secret: str, limit: int | None) -> Caller:
    key = KeyInfo(
        id=f"key-{secret}",
        tenant_id=cast("Any", 1),
        name="",
        prefix="",
        scope=Scope.RUNTIME,
        created_at=cast("Any", None),
        rate_limit=limit,
    )
    return Caller(key, cast("Any", None))


class Door:
    """A server with a clock of its own, and those who ask it."""

    def __init__(self) -> None:
        self.now = 600.0
        rates = Rates(clock=lambda: self.now)
        self.routed = Routed(rates)
        self.routed.limits = {"slow": LIMIT, "slow too": LIMIT, "free": None}
        refusing = Refusing(
            cast("Any", self.routed), rates, frozenset({"/health"}), clock=lambda: self.now
        )

        async def numbered(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("state", {})["request_id"] = "req_1"
            await refusing(scope, receive, send)

        transport = httpx.ASGITransport(cast("Any", numbered))
        self._client = httpx.AsyncClient(transport=transport, base_url="http://here")

    async def ask(self, key: str, path: str = "/v1/me") -> httpx.Response:
        return await self._client.get(path, headers={"Authorization": f"Bearer {key}"})

    async def spend(self, key: str) -> httpx.Response:
        """Makes all requests that a key may make, and one more; returns how that is refused."""
        for _ in range(BURST):
            assert (await self.ask(key)).status_code == 200
        self.routed.reached.clear()
        return await self.ask(key)


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.mark.parametrize("path", ["/v1/me", "/v1/sessions/s"])
def test_what_is_said_at_the_door_is_what_a_route_says(path: str) -> None:
    scope: Any = {"type": "http", "path": path, "state": {"request_id": "req_1"}}
    error = RateLimited(limit=3, retry_after=7)
    routed = answer_known(Request(scope), error)
    status, headers, body = refusal(scope, error)
    assert (status, body) == (routed.status_code, routed.content)
    told = dict(headers)
    assert int(told.pop(b"content-length")) == len(body)
    assert told.pop(b"content-type") == str(routed.media_type).encode()
    assert (
        told == {b"retry-after": routed.headers["Retry-After"].encode()} == {b"retry-after": b"7"}
    )


def test_a_key_over_its_limit_gets_no_further(door: Door) -> None:
    async def run() -> None:
        refused = await door.spend("slow")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        assert (await door.ask("slow", "/nowhere")).status_code == 429
        assert door.routed.reached == []
        for key in ("free", "slow too", "made up"):
            assert (await door.ask(key)).status_code == 200
        assert (await door.ask("slow", "/health")).text == "public"
        assert (await door.ask("slow", "/health/")).text == "public"

    asyncio.run(run())


def test_when_it_may_make_a_request_again_it_gets_through(door: Door) -> None:
    async def run() -> None:
        await door.spend("slow")
        door.now += 0.99
        assert (await door.ask("slow")).status_code == 429
        assert door.routed.reached == []
        door.now += 0.01
        assert [(await door.ask("slow")).status_code for _ in range(3)] == [200, 429, 429]
        assert len(door.routed.reached) == 1

    asyncio.run(run())


def test_a_key_with_a_higher_limit_is_not_refused_for_long(door: Door) -> None:
    """Nor is one that was revoked told for long that it made too many requests."""

    async def run() -> None:
        door.routed.limits["slow"] = 1
        assert [(await door.ask("slow")).status_code for _ in range(3)] == [200, 429, 429]
        door.routed.limits["slow"] = None
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
        assert all(reached.startswith("free") for reached in door.routed.reached)

    asyncio.run(run())
