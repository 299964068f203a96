"""Threads that tenants share: who waits for whom, and what comes back when something goes wrong."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.behalf import BEHALF, NOBODY, REST
from holdfast.errors import Busy
from holdfast.model.keys import Scope
from holdfast.server.callers import Admission
from holdfast.server.pacing import Pace
from holdfast.server.problems import Unauthorized
from holdfast.server.requests import Caller
from holdfast.server.threads import MOST, SEAT, TOTALS, Seat, Threads, Work, in_thread

PATIENCE_S = 20.0


async def uncounted(_: Caller) -> None:
    """Counts no request."""


def run(test: Callable[[Threads], Awaitable[None]]) -> None:
    async def within() -> None:
        threads = Threads(Pace(threading.Event().wait))
        async with asyncio.timeout(PATIENCE_S), threads.running():
            await test(threads)

    asyncio.run(within())


@contextmanager
def seat_of(threads: Threads, tenant: str) -> Generator[None]:
    token = SEAT.set(Seat(tenant, threads))
    try:
        yield
    finally:
        SEAT.reset(token)


class Blocked:
    """Work that does not end before it may."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.begun = threading.Semaphore(0)

    def __call__(self) -> None:
        self.begun.release()
        assert self.may_end.wait(PATIENCE_S)

    async def has_begun(self, times: int) -> None:
        for _ in range(times):
            assert await asyncio.to_thread(self.begun.acquire, timeout=PATIENCE_S)


def begin(
    threads: Threads, tenant: str, function: Callable[[], Any], *, work: Work, times: int
) -> list["asyncio.Task[Any]"]:
    with seat_of(threads, tenant):
        return [asyncio.create_task(in_thread(function, work=work)) for _ in range(times)]


def test_what_runs_in_a_thread_knows_for_whom() -> None:
    async def test(threads: Threads) -> None:
        with seat_of(threads, "a"):
            assert await in_thread(BEHALF.get) == "a"
        with seat_of(threads, "b"):
            assert await in_thread(BEHALF.get, work=Work.LONG) == "b"
        assert BEHALF.get() == NOBODY

    run(test)


def test_what_takes_long_rests_and_nothing_else_does() -> None:
    async def test(threads: Threads) -> None:
        with seat_of(threads, "a"):
            found = {work: await in_thread(REST.get, work=work) for work in Work}
        assert [work for work, rest in found.items() if rest is not None] == [Work.LONG]
        assert REST.get() is None

    run(test)


class Slow:
    """A vault of which only the keys count: one is valid, and all others take for ever."""

    def __init__(self) -> None:
        self.blocked = Blocked()
        self.is_revoked = False

    def admit(self, secret: str) -> Any:
        if secret != "real":
            self.blocked()
            return None
        key = SimpleNamespace(id="key-1", scope=Scope.RUNTIME)
        tenant = SimpleNamespace(tenant_id="ws-real")
        return None if self.is_revoked else (tenant, key)


ENTRY = cast("Any", None)
"""What a key opens is not asked here."""


def asked_with(secret: str) -> Any:
    scope = {"headers": [(b"authorization", f"Bearer {secret}".encode())]}
    return SimpleNamespace(scope=scope, id="req_1")


def test_a_flood_of_keys_that_were_made_up_is_before_nobody_who_is_known() -> None:
    async def test(threads: Threads) -> None:
        vault = Slow()
        admission = Admission(cast("Any", vault), uncounted, threads, waits=True)
        assert (await admission._admit(ENTRY, asked_with("real"))).key.id == "key-1"
        flood = [
            asyncio.create_task(admission._admit(ENTRY, asked_with(f"made-up-{number}")))
            for number in range(100)
        ]
        await vault.blocked.has_begun(TOTALS[Work.ADMISSION] // 2)
        for _ in range(3):
            assert (await admission._admit(ENTRY, asked_with("real"))).key.id == "key-1"
        vault.is_revoked = True
        with pytest.raises(Unauthorized):
            await admission._admit(ENTRY, asked_with("real"))
        vault.blocked.may_end.set()
        for each in await asyncio.gather(*flood, return_exceptions=True):
            assert isinstance(each, Unauthorized)

    run(test)


@pytest.mark.parametrize("work", list(Work))
def test_work_of_one_tenant_that_does_not_end_keeps_no_other_waiting(work: Work) -> None:
    async def test(threads: Threads) -> None:
        blocked, most = Blocked(), MOST.get(work, TOTALS[work] // 2)
        begun = begin(threads, "greedy", blocked, work=work, times=50)
        await blocked.has_begun(most)
        for tenant in ("modest", ""):
            (mine,) = begin(threads, tenant, threading.get_ident, work=work, times=1)
            await mine
        assert not blocked.begun.acquire(blocking=False)
        blocked.may_end.set()
        await asyncio.gather(*begun)

    run(test)


class Alone:
    """Work of which two must not be done at once."""

    def __init__(self) -> None:
        self.done = 0
        self._guard = threading.Lock()

    def __call__(self) -> None:
        assert self._guard.acquire(blocking=False)
        self.done += 1
        self._guard.release()


def test_what_waits_in_line_takes_no_thread_from_the_others() -> None:
    async def test(threads: Threads) -> None:
        def run_in(line: str, function: Callable[[], Any]) -> "asyncio.Task[Any]":
            return asyncio.create_task(in_thread(function, work=Work.COMMANDS, line=line))

        blocked, alone = Blocked(), Alone()
        with seat_of(threads, "a"):
            first = run_in("busy", blocked)
            waiting = [run_in("busy", alone) for _ in range(20)]
            await blocked.has_begun(1)
            await asyncio.gather(*(run_in(f"quiet-{each}", threading.get_ident) for each in (1, 2)))
        with seat_of(threads, "b"):
            await run_in("busy", threading.get_ident)
        for task in (first, waiting[0], waiting[5]):
            task.cancel()
        await asyncio.gather(first, waiting[0], waiting[5], return_exceptions=True)
        assert alone.done == 0
        # Nobody waits for the first one any more, and its thread has not ended.
        blocked.may_end.set()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert alone.done == 18
        with seat_of(threads, "a"):
            await run_in("busy", alone)

    run(test)


def test_a_line_that_does_not_move_is_left_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(threads: Threads) -> None:
        blocked = Blocked()
        with seat_of(threads, "a"):
            first = asyncio.create_task(in_thread(blocked, work=Work.COMMANDS, line="busy"))
            await blocked.has_begun(1)
            monkeypatch.setattr("holdfast.server.threads.PATIENCE_S", 0.01)
            with pytest.raises(Busy):
                await in_thread(blocked, work=Work.COMMANDS, line="busy")
            blocked.may_end.set()
            await first
            await in_thread(blocked, work=Work.COMMANDS, line="busy")

    run(test)


def test_what_is_given_up_keeps_its_thread_until_that_is_done_and_no_longer() -> None:
    async def test(threads: Threads) -> None:
        blocked = Blocked()
        begun = begin(threads, "greedy", blocked, work=Work.COSTLY, times=3)
        await blocked.has_begun(1)
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        (next_one,) = begin(threads, "greedy", threading.get_ident, work=Work.COSTLY, times=1)
        (other,) = begin(threads, "modest", threading.get_ident, work=Work.COSTLY, times=1)
        await other
        assert not next_one.done()
        blocked.may_end.set()
        await next_one

    run(test)


def test_what_fails_gives_its_thread_back() -> None:
    def fail() -> None:
        raise LookupError("on purpose")

    async def test(threads: Threads) -> None:
        for task in begin(threads, "greedy", fail, work=Work.COSTLY, times=9):
            with pytest.raises(LookupError):
                await task

    run(test)


def test_what_nobody_asked_for_runs_in_any_thread() -> None:
    async def test(_: Threads) -> None:
        assert await in_thread(threading.get_ident) != threading.get_ident()

    run(test)


def test_where_no_thread_can_be_made_none_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def test(threads: Threads) -> None:
        with seat_of(threads, "a"):
            with monkeypatch.context() as patch:
                patch.setattr(threading.Thread, "start", start)
                for _ in range(TOTALS[Work.COSTLY] + 1):
                    with pytest.raises(RuntimeError, match="new thread"):
                        await in_thread(BEHALF.get, work=Work.COSTLY)
            assert await in_thread(BEHALF.get, work=Work.COSTLY) == "a"

    run(test)


def test_nothing_is_begun_once_the_threads_have_ended() -> None:
    async def test() -> None:
        threads = Threads(Pace(threading.Event().wait))
        async with threads.running():
            pass
        with pytest.raises(RuntimeError, match="have ended"):
            await threads.run("a", Work.COSTLY, BEHALF.get)

    asyncio.run(test())


def test_a_failure_holds_nothing_of_what_was_asked_for() -> None:
    class Asked:
        def __call__(self) -> None:
            raise LookupError

    async def test(threads: Threads) -> None:
        asked = Asked()
        still_there = weakref.ref(asked)
        with seat_of(threads, "a"):
            try:
                await in_thread(asked)
            except LookupError:
                del asked
        # Until the thread has put it down, too.
        while still_there() is not None:  # noqa: ASYNC110 - nobody tells when a thing is gone
            await asyncio.sleep(0.001)

    gc.disable()
    try:
        run(test)
    finally:
        gc.enable()
