"""What takes long leaves the others time: by the processor's clock, however busy the machine is."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import holdfast
from holdfast.behalf import REST, rest
from holdfast.model.keys import Scope
from holdfast.server.callers import Admission
from holdfast.server.pacing import LATELY_S, LONGEST_S, SHARE, SLICE_S, Pace
from holdfast.server.requests import Caller
from holdfast.server.routing import Who
from holdfast.server.threads import Threads

LONG_S = 20 * SLICE_S


class Rests:
    """A pace that notes its rests, and takes none of them."""

    def __init__(self) -> None:
        self.taken, self.now = list[float](), 0.0
        self.pace = Pace(self.taken.append, clock=lambda: self.now)


def compute(seconds: float, *, between: Callable[[], None] = rest) -> float:
    """Computes for so long, in small steps; returns for how long it was."""
    begun = time.thread_time()
    while time.thread_time() - begun < seconds:
        between()
    return time.thread_time() - begun


def test_where_somebody_asks_the_rests_are_three_times_the_work() -> None:
    rests = Rests()
    rests.pace.asked()
    worked = rests.pace.run(lambda: compute(LONG_S))
    assert sum(rests.taken) == pytest.approx(worked * (SHARE - 1), rel=0.3)
    assert len(rests.taken) <= LONG_S / SLICE_S + 1


@pytest.mark.parametrize("was_asked", [False, True])
def test_where_nobody_asks_there_is_no_rest(*, was_asked: bool) -> None:
    rests = Rests()
    if was_asked:
        rests.pace.asked()
        rests.now += LATELY_S
    rests.pace.run(lambda: compute(LONG_S))
    assert rests.taken == []


def test_what_is_short_rests_at_its_end() -> None:
    rests = Rests()
    rests.pace.asked()
    worked = rests.pace.run(lambda: compute(SLICE_S, between=lambda: None))
    (taken,) = rests.taken
    assert taken >= worked * (SHARE - 1)


def test_no_rest_is_very_long() -> None:
    rests = Rests()
    rests.pace.asked()
    rests.pace.run(lambda: compute(LONGEST_S / 2, between=lambda: None))
    assert rests.taken == [LONGEST_S]


def test_many_share_the_time_that_one_has() -> None:
    rests, together = Rests(), threading.Barrier(4)

    def work() -> float:
        together.wait()
        worked = compute(LONG_S)
        together.wait()
        return worked

    rests.pace.asked()
    with ThreadPoolExecutor(4) as pool:
        begun = [pool.submit(rests.pace.run, work) for _ in range(4)]
        worked = sum(each.result() for each in begun)
    assert sum(rests.taken) > worked * (4 * SHARE - 1) * 0.7


def test_what_fails_rests_too_and_leaves_the_thread_as_it_was() -> None:
    rests = Rests()
    rests.pace.asked()

    def fail() -> None:
        compute(SLICE_S, between=lambda: None)
        raise LookupError("on purpose")

    with pytest.raises(LookupError):
        rests.pace.run(fail)
    assert len(rests.taken) == 1
    assert REST.get() is None


@pytest.mark.parametrize("what", ["verify", "collect"])
def test_who_goes_through_all_it_has_rests_often(place_in_memory: Path, what: str) -> None:
    """Not once in the end."""
    with holdfast.open(place_in_memory / "vault") as vault:
        agent = vault.namespace("work")
        for number in range(300):
            agent.files.write(f"{number % 9}", bytes([number % 256]) * 99)
            agent.snapshot()
        rests = Rests()

        def work() -> float:
            begun = time.thread_time()
            getattr(vault, what)()
            return time.thread_time() - begun

        rests.pace.asked()
        worked = rests.pace.run(work)
    assert len(rests.taken) >= 5
    assert sum(rests.taken) == pytest.approx(worked * (SHARE - 1), rel=0.3)


async def uncounted(_: Caller) -> None:
    """Counts no request."""


@pytest.mark.parametrize("who", [Who.AGENT, Who.ANYBODY])
def test_whoever_is_admitted_asks_and_who_looks_whether_the_server_lives_does_not(who: Who) -> None:
    rests = Rests()
    key = SimpleNamespace(id="key-1", scope=Scope.RUNTIME)
    tenant = SimpleNamespace(tenant_id="ws-1")
    admission = Admission(
        cast("Any", SimpleNamespace(admit=lambda _: (tenant, key))),
        uncounted,
        Threads(rests.pace),
        waits=False,
    )
    route = SimpleNamespace(who=who)
    entry = SimpleNamespace(route=route, verdict=None, names_workspace=False)
    request = SimpleNamespace(scope={"headers": [(b"x-api-key", b"secret")]}, id="req_1")
    asyncio.run(admission.admit(cast("Any", entry), cast("Any", request)))
    rests.pace.run(lambda: compute(SLICE_S))
    assert bool(rests.taken) is (who is Who.AGENT)
