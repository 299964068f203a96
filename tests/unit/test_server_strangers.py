"""Turns of those who have shown no key: they go round the places that they come from."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.server import strangers
from holdfast.server.asgi import HAS_LEFT
from holdfast.server.problems import Unfit
from holdfast.server.requests import Request
from holdfast.server.strangers import Strangers

MANY = 300


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangers, "AT_ONCE", 1)
    monkeypatch.setattr(strangers, "PER_S", 1000)


def request(
    address: str = "192.0.2.1", *, port: int = 1, path: str = "/", said: bytes | None = None
) -> Request:
    asked = SimpleNamespace(
        scope={"client": (address, port), "headers": []},
        headers={} if said is None else {b"x-forwarded-for": said},
        path=path,
        has_waited=False,
    )
    return cast("Request", asked)


def place_among(flood: list[Request], other: Request, turns: Strangers | None = None) -> int:
    """Returns how many of a flood have had their turn before another who came last."""

    async def run() -> int:
        held, had = turns or Strangers(), list[Request]()

        async def ask(each: Request) -> None:
            await held.hold(each)
            had.append(each)

        async with asyncio.TaskGroup() as group:
            for each in (*flood, other):
                group.create_task(ask(each))
        return had.index(other)

    return asyncio.run(run())


FLOOD = [(f"192.0.2.{number % 3}", None) for number in range(MANY)]
MADE_UP = [("192.0.2.1", b"198.51.100.%d" % (number % 250)) for number in range(MANY)]


@pytest.mark.parametrize("flood", [FLOOD, MADE_UP])
def test_a_flood_delays_nobody_at_another_place(flood: list[tuple[str, bytes | None]]) -> None:
    asked = [request(address, said=said) for address, said in flood]
    assert place_among(asked, request("203.0.113.1")) < MANY / 10


def test_all_of_a_network_are_one_place() -> None:
    flood = [request(f"2001:db8::{number:x}") for number in range(MANY)]
    assert place_among(flood, request("2001:db8:0:1::1")) < MANY / 10


def test_a_flood_delays_no_probe_and_no_connection_that_has_shown_a_key() -> None:
    flood = [request(port=number) for number in range(MANY)]
    assert place_among(flood, request(port=MANY, path="/health/live")) < MANY / 10
    turns = Strangers()
    turns.know(request(port=MANY), "tenant")
    again = [request(port=number) for number in range(MANY)]
    assert place_among(again, request(port=MANY), turns) < MANY / 10


def test_who_leaves_takes_next_to_no_turn_and_who_had_one_needs_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strangers, "PER_S", 20)

    async def run() -> None:
        held, first, gone = Strangers(), request(), [request() for _ in range(MANY)]
        has_gone = asyncio.Event()
        for each in gone:
            each.scope[HAS_LEFT] = has_gone.is_set
        for _ in range(MANY):
            await held.hold(first)
        loop = asyncio.get_running_loop()
        waiting = [loop.create_task(held.hold(each)) for each in gone]
        last = loop.create_task(held.hold(request()))
        await asyncio.sleep(0)
        has_gone.set()
        begun = loop.time()
        await last
        # Their turns would have been so long.
        assert loop.time() - begun < MANY / strangers.PER_S
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert sum(isinstance(each, Unfit) for each in told) >= MANY - 10

    asyncio.run(run())
