"""Turns to write: a tenant's queue stands behind itself, and who goes away keeps nobody waiting."""

import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from holdfast.behalf import BEHALF, NOBODY
from holdfast.catalog.filelocks import FileLocks
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.catalog.turns import WRITE, Slots, Turn, Turns
from holdfast.errors import StorageFull, Unavailable

PATIENCE_S = 20.0


class Watched(Turns):
    """Says when somebody has queued."""

    def __init__(self, locks: FileLocks) -> None:
        super().__init__(locks)
        self.queued = threading.Semaphore(0)

    def _queue(self, turn: Turn) -> None:
        super()._queue(turn)
        self.queued.release()


def started(tenant: str, function: Callable[[], None]) -> threading.Thread:
    def run() -> None:
        BEHALF.set(tenant)
        function()

    thread = threading.Thread(target=Context().run, args=(run,))
    thread.start()
    return thread


def order_of(turns: Watched, tenants: Sequence[str]) -> str:
    """Returns in which order the turns of tenants come who queue in this one, as `a1 b1 a2`."""
    came = list[str]()

    def note(name: str) -> None:
        with turns.taken():
            came.append(name)

    with turns.taken():
        turns.queued.acquire()
        threads = list[threading.Thread]()
        for at, tenant in enumerate(tenants, 1):
            name = f"{tenant}{tenants[:at].count(tenant)}"
            threads.append(started(tenant, partial(note, name)))
            assert turns.queued.acquire(timeout=PATIENCE_S)
    for thread in threads:
        thread.join(PATIENCE_S)
    return " ".join(came)


@pytest.mark.parametrize(
    ("queued", "served"),
    [
        ("aaaaab", "a1 b1 a2 a3 a4 a5"),
        ("aaaabbc", "a1 b1 c1 a2 b2 a3 a4"),
        ("abcabc", "a1 b1 c1 a2 b2 c2"),
        ("aaaa", "a1 a2 a3 a4"),
    ],
)
def test_tenants_take_turns_and_each_has_its_own_in_their_order(
    tmp_path: Path, queued: str, served: str
) -> None:
    assert order_of(Watched(FileLocks(tmp_path)), queued) == served


def test_transactions_of_a_vault_take_turns_by_tenant(tmp_path: Path) -> None:
    catalog, came = SqliteCatalog(tmp_path), list[str]()
    turns = catalog._turns = Watched(FileLocks(tmp_path / "locks"))  # pyright: ignore[reportPrivateUsage]

    def write() -> None:
        with catalog.write():
            came.append(BEHALF.get())

    with catalog.write():
        turns.queued.acquire()
        threads = list[threading.Thread]()
        for tenant in "aaab":
            threads.append(started(tenant, write))
            assert turns.queued.acquire(timeout=PATIENCE_S)
    for thread in threads:
        thread.join(PATIENCE_S)
    catalog.close()
    assert "".join(came) == "abaa"


class Stopped(Exception):
    """Somebody pressed Ctrl-C."""


def test_who_stops_waiting_for_its_turn_leaves_the_queue(tmp_path: Path) -> None:
    turns, main = Watched(FileLocks(tmp_path)), threading.main_thread().ident
    is_taken, may_end, calls = threading.Event(), threading.Event(), count()
    assert main is not None

    def hold() -> None:
        with turns.taken():
            turns.queued.acquire()
            is_taken.set()
            assert turns.queued.acquire(timeout=PATIENCE_S)
            # One that comes a moment before the wait is seen only after it, as Ctrl-C would be.
            while not may_end.wait(0.05):
                signal.pthread_kill(main, signal.SIGUSR1)

    def stop(*_: object) -> None:
        if next(calls) == 0:
            raise Stopped

    before = signal.signal(signal.SIGUSR1, stop)
    holder = started("a", hold)
    try:
        assert is_taken.wait(PATIENCE_S)
        with pytest.raises(Stopped):
            turns.take()
    finally:
        may_end.set()
        holder.join(PATIENCE_S)
        signal.signal(signal.SIGUSR1, before)
    assert order_of(turns, "ab") == "a1 b1"


def held_by(slots: Slots, tenant: str, most: int) -> int:
    """Returns how many of so many slots a tenant gets without waiting."""
    BEHALF.set(tenant)
    taken = 0
    for _ in range(most):
        with suppress(Unavailable):
            slots.take()
            taken += 1
    return taken


def test_a_tenant_gets_one_more_only_while_as_many_are_free() -> None:
    slots = Slots(16, wait_s=0.001)

    def test() -> list[int]:
        return [held_by(slots, tenant, 16) for tenant in "abcdef"]

    assert Context().run(test) == [8, 4, 2, 1, 1, 0]


def test_what_is_done_for_nobody_gets_all_that_there_is() -> None:
    assert Context().run(held_by, Slots(16, wait_s=0.001), NOBODY, 20) == 16


def test_what_comes_free_goes_to_the_tenants_that_wait_in_turn() -> None:
    slots, came, queued = Slots(2), list[str](), threading.Semaphore(0)

    def note() -> None:
        queued.release()
        with slots.taken():
            came.append(BEHALF.get())

    def held() -> list[Turn]:
        BEHALF.set("z")
        first = slots.take()
        BEHALF.set("y")
        return [first, slots.take()]

    turns = Context().run(held)
    threads = [started(tenant, note) for tenant in "aab"]
    for _ in threads:
        assert queued.acquire(timeout=PATIENCE_S)
    for turn in turns:
        slots.leave(turn)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(came) == ["a", "a", "b"]
    assert Context().run(held_by, slots, NOBODY, 2) == 2


class Full(FileLocks):
    """Has no room for a lock, once."""

    is_full = True

    def wait(self, name: str, *, kept: int = -1) -> int:
        if self.is_full:
            self.is_full = False
            raise StorageFull("no room")
        return super().wait(name, kept=kept)


def test_a_turn_that_could_not_be_used_is_passed_on(tmp_path: Path) -> None:
    turns = Turns(Full(tmp_path))
    with pytest.raises(StorageFull):
        turns.take()
    done = started("b", lambda: turns.leave(turns.take()))
    done.join(PATIENCE_S)
    assert not done.is_alive()


def test_the_lock_of_all_processes_is_held_for_as_long_as_a_turn_lasts(tmp_path: Path) -> None:
    turns, others = Turns(FileLocks(tmp_path)), FileLocks(tmp_path)
    with turns.taken(), others.trying(WRITE) as is_free:
        assert not is_free
    with others.trying(WRITE) as is_free:
        assert is_free
