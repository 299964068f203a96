"""The in-process store while several threads, and code in unlikely places, use it at once.

Threads write pairs of keys together; whoever looks sees both halves of a pair or neither. Code
that runs in the middle of a call - while a value is written, while an iterable is read, when
garbage is collected - may use the same store: calls are done before it or after it.
"""

import gc
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from uuid import UUID
from weakref import ref

import pytest

from holdfast import store as compiled
from holdfast.testing.cores import load_interpreted_store

SECONDS = 0.6
"""How long threads go on: thousands of turns, and a test that is still quick."""


MODULES = {"chosen": compiled, "interpreted": load_interpreted_store()}


@pytest.fixture(params=MODULES)
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return MODULES[request.param].Store


@pytest.fixture(autouse=True)
def threads_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


# Threads

PAIRS = 40


def row(number: int, stamp: int) -> list[tuple[str, str, Any]]:
    """Returns both halves of a pair; the second lies in a namespace that comes and goes."""
    return [("left", str(number), stamp), (f"right {number % 4}", str(number), [stamp] * 3)]


def check_whole(items: list[tuple[tuple[str, str], Any]]) -> None:
    found = dict(items)
    assert len(found) == len(items)
    for (namespace, key), value in items:
        if namespace == "left":
            assert found[f"right {int(key) % 4}", key] == [value] * 3
        else:
            assert [found["left", key]] * 3 == value


def run_together(*works: Callable[[random.Random], None], seconds: float = SECONDS) -> None:
    """Repeats each piece of work in a thread of its own; the first that fails ends all."""
    end, is_over = time.monotonic() + seconds, threading.Event()
    barrier = threading.Barrier(len(works))

    def go_on(work: Callable[[random.Random], None], seed: int) -> None:
        rng = random.Random(seed)
        barrier.wait()
        try:
            while time.monotonic() < end and not is_over.is_set():
                work(rng)
        finally:
            is_over.set()

    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(go_on, work, seed) for seed, work in enumerate(works)]:
            done.result()


class Traffic:
    """What threads do at once to one store, and what they see meanwhile."""

    def __init__(self, store: Any) -> None:
        self.store, self.kept = store, list[tuple[Any, list[Any], int]]()

    def write(self, rng: random.Random) -> None:
        stamp = rng.randrange(10**9)
        numbers = [rng.randrange(PAIRS) for _ in range(3)]
        self.store.set_many([half for number in numbers for half in row(number, stamp)])

    def remove(self, rng: random.Random) -> None:
        pair = row(rng.randrange(PAIRS), 0)
        self.store.put_many([(namespace, key, None) for namespace, key, _ in pair])

    def look_at_a_snapshot(self, rng: random.Random) -> None:
        snapshot = self.store.snapshot()
        items = snapshot.items()
        check_whole(items)
        assert sorted(snapshot.keys) == sorted(pair for pair, _ in items)
        if rng.random() < 0.1:
            self.kept.append((snapshot, items, snapshot.size_bytes))

    def look_at_the_store(self, rng: random.Random) -> None:
        check_whole(self.store.items())
        pair = row(rng.randrange(PAIRS), 0)
        left, right = self.store.get_many([(namespace, key) for namespace, key, _ in pair])
        assert right == (None if left is None else [left] * 3)

    def compare(self, rng: random.Random) -> None:
        if len(self.kept) < 2:
            return
        (old, *_), (new, *_) = rng.choice(self.kept), rng.choice(self.kept)
        changes, before, after = new.diff(old), dict(old.items()), dict(new.items())
        assert changes["added"] == sorted(after.keys() - before.keys())
        assert changes["removed"] == sorted(before.keys() - after.keys())
        assert changes["changed"] == sorted(
            pair for pair in before.keys() & after.keys() if before[pair] != after[pair]
        )

    def go_back(self, rng: random.Random) -> None:
        if self.kept and rng.random() < 0.3:
            self.store.restore(rng.choice(self.kept)[0])
        elif rng.random() < 0.02:
            self.store.clear()


def test_no_snapshot_is_torn(make: Callable[..., Any]) -> None:
    store = make(max_history=5)
    traffic = Traffic(store)
    run_together(
        *[traffic.write] * 2,
        traffic.remove,
        traffic.look_at_a_snapshot,
        traffic.look_at_the_store,
        traffic.compare,
        traffic.go_back,
    )
    assert traffic.kept
    for snapshot, items, size_bytes in traffic.kept:
        assert (sorted(snapshot.items()), snapshot.size_bytes) == (sorted(items), size_bytes)
    check_books(store)
    numbers = [each.id for each in store.history()]
    assert numbers == list(range(numbers[0], numbers[0] + 5))


def check_books(store: Any) -> None:
    """Compares what a store counts along the way with what it holds."""
    snapshot = store.snapshot()
    items = snapshot.items()
    assert len(store) == len(items) == len(dict(items))
    assert snapshot.size_bytes == sum(len(snapshot.get_data(*pair)) for pair, _ in items)
    assert sorted(store.namespaces()) == sorted({namespace for (namespace, _), _ in items})
    for namespace in store.namespaces():
        assert sorted(store.items(namespace)) == sorted(
            (key, value) for (other, key), value in items if other == namespace
        )


def test_threads_on_their_own_keys_do_not_disturb_each_other(make: Callable[..., Any]) -> None:
    store, mine = make(), [dict[str, int]() for _ in range(4)]

    def work_on(number: int) -> Callable[[random.Random], None]:
        own = mine[number]

        def work(rng: random.Random) -> None:
            key = f"{number}/{rng.randrange(300)}"
            assert store.get("n", key) == own.get(key)
            match rng.randrange(4):
                case 0:
                    assert store.delete("n", key) is (own.pop(key, None) is not None)
                case 1:
                    store.set_many([("n", key, 1), ("n", key, 2)])
                    own[key] = 2
                case _:
                    own[key] = rng.randrange(100)
                    store.set("n", key, own[key])
            assert store.contains("n", key) is (key in own)
            if rng.random() < 0.05:
                assert dict(store.items("n", f"{number}/")) == own

        return work

    run_together(*[work_on(number) for number in range(4)])
    assert dict(store.items("n")) == {key: value for own in mine for key, value in own.items()}
    check_books(store)


def test_every_snapshot_has_a_number_of_its_own(make: Callable[..., Any]) -> None:
    store, taken = make(max_history=None), [list[Any]() for _ in range(4)]

    def take_into(own: list[Any]) -> Callable[[random.Random], None]:
        def take(_: random.Random) -> None:
            store.set("n", "k", len(own))
            own.append(store.snapshot())
            assert own[-1].parent == (own[-1].id - 1 or None)

        return take

    run_together(*map(take_into, taken), seconds=SECONDS / 3)
    numbers = sorted(each.id for own in taken for each in own)
    assert numbers == list(range(1, len(numbers) + 1))
    assert all(own == sorted(own, key=lambda each: each.id) for own in taken)
    assert [each.id for each in store.history()] == numbers, "oldest first"


def test_snapshots_are_let_go_of_in_any_thread(make: Callable[..., Any]) -> None:
    store, pile = make(), list[Any]()

    def write(rng: random.Random) -> None:
        store.set("n", str(rng.randrange(500)), rng.randrange(100))
        pile.append(store.snapshot())

    def let_go(rng: random.Random) -> None:
        if len(pile) > 50:
            del pile[rng.randrange(25) :: 2]

    run_together(write, write, let_go, let_go)
    pile.clear()
    check_books(store)


# Code in the middle of a call


Use = Callable[[Any], object]
USES: dict[str, Use] = {
    "set": lambda store: store.set("n", "inner", "inner"),
    "set the same": lambda store: store.set("n", "k", "inner"),
    "set_many": lambda store: store.set_many([("n", str(i), i) for i in range(200)]),
    "delete": lambda store: store.delete("n", "7"),
    "delete the namespace": lambda store: [store.delete("n", key) for key in store.keys("n")],
    "clear": lambda store: store.clear(),
    "snapshot": lambda store: store.snapshot(),
    "restore": lambda store: store.restore(store.history()[0]),
    "clear and restore": lambda store: (store.clear(), store.restore(store.history()[0])),
    "clear_history": lambda store: store.clear_history(),
    "look": lambda store: (store.items(), store.keys("n"), store.snapshot().keys),
}


def filled(make: Callable[..., Any]) -> Any:
    store = make(max_history=3)
    store.set_many([("n", str(number), number) for number in range(100)])
    store.set("m", "k", [1])
    store.snapshot()
    return store


class Zone(tzinfo):
    def __init__(self, run: Callable[[], object]) -> None:
        self.run = run

    def utcoffset(self, _: datetime | None) -> timedelta:
        self.run()
        return timedelta(0)


def moment(run: Callable[[], object]) -> Any:
    return datetime(2026, 1, 1, tzinfo=Zone(run))


def set_of(run: Callable[[], object]) -> Any:
    class Running(set[int]):
        def __iter__(self) -> Iterator[int]:
            run()
            return super().__iter__()

    return Running([1])


def identity(run: Callable[[], object]) -> Any:
    class Running(UUID):
        @property
        def int(self) -> int:  # type: ignore[override]
            run()
            return 5

    return Running.__new__(Running)


@dataclass(slots=True)
class Slotted:
    a: int


def property_of(run: Callable[[], object]) -> Any:
    class Running(Slotted):
        __slots__ = ()

        @property
        def a(self) -> int:  # type: ignore[override]
            run()
            return 1

        @a.setter
        def a(self, value: int) -> None:
            pass

    return Running(1)


def text_of(run: Callable[[], object]) -> Any:
    class Running(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            run()
            return str(self) == other

        def __hash__(self) -> int:
            run()
            return hash(str(self))

        def __str__(self) -> str:
            run()
            return super().__str__()

    return {"k": [Running("x")], Running("y"): 1}


RUNNING = {
    "a time zone": (moment, datetime(2026, 1, 1, tzinfo=UTC)),
    "an iterator of a set": (set_of, [1]),
    "a property of an id": (identity, str(UUID(int=5))),
    "a property of a dataclass": (property_of, {"a": 1}),
    "text": (text_of, {"k": ["x"], "y": 1}),
}


@pytest.mark.parametrize("running", RUNNING)
@pytest.mark.parametrize("use", USES)
def test_a_value_may_use_the_store_while_it_is_written(
    make: Callable[..., Any], use: str, running: str
) -> None:
    store, (build, back) = filled(make), RUNNING[running]
    store.set("n", "k", build(lambda: USES[use](store)))
    assert store.get("n", "k") == back, "the outer call is done after the inner ones"
    check_books(store)
    store = filled(make)
    value = build(lambda: USES[use](store))
    store.set_many([("n", "j", value), ("n", "k", value), ("new", "k", value)])
    assert store.get_many([("n", "j"), ("n", "k"), ("new", "k")]) == [back] * 3
    check_books(store)


@pytest.mark.parametrize("use", USES)
def test_an_iterable_may_use_the_store_while_it_is_read(make: Callable[..., Any], use: str) -> None:
    store = filled(make)

    def rows(*last: Any) -> Iterator[tuple[Any, ...]]:
        for number in range(30):
            USES[use](store)
            yield ("n", str(number), *last)

    store.set_many(rows("outer"))
    assert store.get_many(rows())[-1] in ("outer", None, 29)
    store.put_many(rows(b"\xa5outer"))
    assert [store.get("n", str(number)) for number in range(30)] == ["outer"] * 30
    store.put_many(rows(None))
    assert not any(store.contains("n", str(number)) for number in range(30))
    check_books(store)


class LengthHint:
    """An iterable that runs code also when it is asked how long it is."""

    def __init__(self, run: Callable[[], object], rows: list[Any]) -> None:
        self.run, self.rows = run, rows

    def __length_hint__(self) -> int:
        self.run()
        return 10**6

    def __len__(self) -> int:
        self.run()
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        self.run()
        return iter(self.rows)


class Row(list[Any]):
    """A row that runs code when it is taken apart."""

    def __init__(self, run: Callable[[], object], *parts: Any) -> None:
        super().__init__(parts)
        self.run = run

    def __iter__(self) -> Iterator[Any]:
        self.run()
        return super().__iter__()

    def __len__(self) -> int:
        self.run()
        return super().__len__()


@pytest.mark.parametrize("use", USES)
def test_rows_of_any_kind_are_taken_apart_before_anything_is_set(
    make: Callable[..., Any], use: str
) -> None:
    store = filled(make)
    rows = [Row(lambda: USES[use](store), "n", str(number), "outer") for number in range(10)]
    given = LengthHint(lambda: USES[use](store), rows)
    store.set_many(given)
    assert [store.get("n", str(number)) for number in range(10)] == ["outer"] * 10
    check_books(store)


@contextmanager
def collecting(run: Callable[[], object]) -> Iterator[list[int]]:
    """Runs code whenever garbage is collected, and has it collected as often as it can be.

    Before Python 3.12 that is in the middle of whatever makes a list or a tuple.

    Lists and tuples come from free lists as long as those have any, which collects nothing: so
    they are used up first.
    """
    runs: list[int] = []
    busy: list[bool] = []

    def collected(phase: str, _: dict[str, int]) -> None:
        if phase == "stop" and not busy:
            busy.append(True)
            try:
                run()
                runs.append(1)
            finally:
                busy.clear()

    used_up: list[Any] = [[] for _ in range(200)]
    used_up += [tuple([object()] * size) for size in range(1, 6) for _ in range(2_100)]
    used_up += [{} for _ in range(200)]
    before = gc.get_threshold()
    gc.freeze()  # Whatever else a test run has in memory would be looked through each time.
    gc.callbacks.append(collected)
    gc.set_threshold(1)
    try:
        yield runs
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(collected)
        gc.unfreeze()
        used_up.clear()


CALLS: dict[str, Use] = {
    "keys": lambda store: store.keys("n"),
    "keys by prefix": lambda store: store.keys("n", "1"),
    "items": lambda store: store.items("n"),
    "all items": lambda store: store.items(),
    "namespaces": lambda store: store.namespaces(),
    "max_key": lambda store: store.max_key("n"),
    "get": lambda store: store.get("m", "k"),
    "get_many": lambda store: store.get_many([("n", str(number)) for number in range(100)]),
    "set": lambda store: store.set("n", "outer", [1, {"a": ()}]),
    "set_many": lambda store: store.set_many([("n", str(i), [i]) for i in range(100)]),
    "put_many": lambda store: store.put_many([("n", str(i), b"\x01") for i in range(100)]),
    "delete": lambda store: store.delete("n", "1"),
    "snapshot": lambda store: store.snapshot(),
    "snapshot.keys": lambda store: store.snapshot().keys,
    "snapshot.items": lambda store: store.snapshot().items(),
    "diff": lambda store: store.snapshot().diff(store.history()[0]),
    "history": lambda store: store.history(),
    "clear_history": lambda store: store.clear_history(),
    "restore": lambda store: store.restore(store.snapshot()),
    "at": lambda store: store.at(store.snapshot()).items("n"),
    "clear": lambda store: store.clear(),
}


# The nodes of the interpreted core are garbage-collected themselves: it cannot promise this.
if_compiled = pytest.mark.skipif(
    MODULES["chosen"].Store.__base__ is MODULES["interpreted"].Store.__base__,
    reason="no compiler was at hand",
)


@if_compiled
@pytest.mark.parametrize("use", [use for use in USES if "restore" not in use])
@pytest.mark.parametrize("call", CALLS)
def test_code_that_runs_when_garbage_is_collected_may_use_the_store(call: str, use: str) -> None:
    store = filled(compiled.Store)

    def run() -> None:
        USES[use](store)
        if use not in ("look", "snapshot", "clear_history"):
            store.set("n", "3", "again")

    held = list[Any]()
    with collecting(run):
        for _ in range(3):
            if not store.history():
                store.snapshot()
            if store.history():
                held.append(CALLS[call](store))
    check_books(store)


@if_compiled
def test_a_listing_shows_one_moment_whatever_is_collected_meanwhile() -> None:
    store, turn = compiled.Store(), [0]

    def flip() -> None:
        turn[0] += 1
        store.clear()
        store.set_many([(name, str(k), turn[0]) for name in "ab" for k in range(40)])

    flip()
    with collecting(flip) as runs:
        for _ in range(20):
            for items in (store.items("a"), store.items(), store.snapshot().items("b")):
                assert len({value for _, value in items}) == 1
            assert len(store.keys("a")) == 40
            assert len(set(store.get_many([("a", str(k)) for k in range(40)]))) == 1
    assert len(runs) > 20, "garbage is collected in the middle of calls, or nothing is shown"
    check_books(store)


@if_compiled
def test_a_value_is_read_whole_whatever_is_collected_meanwhile() -> None:
    store, words = compiled.Store(), ["old", "new"]

    def flip() -> None:
        # Bytes of the same size, in the place of those that are being read if nobody holds them.
        words.reverse()
        store.clear()
        store.set("n", "k", [[words[0]] * 5] * 50)

    flip()
    with collecting(flip) as runs:
        for _ in range(20):
            for value in (
                store.get("n", "k"),
                *store.get_many([("n", "k")]),
                *dict(store.items("n")).values(),
            ):
                assert len({word for row in value for word in row}) == 1
                assert len(value) == 50
    assert len(runs) > 20


def test_whoever_hears_of_a_snapshots_end_may_use_the_store(make: Callable[..., Any]) -> None:
    store, heard, kept = make(max_history=2), [], []

    def hear(_: object) -> None:
        heard.append(len(store.history()))
        store.set("n", str(len(heard)), 1)
        if len(heard) % 3 == 0:
            store.clear_history()

    for number in range(30):
        store.set("n", "k", number)
        kept.append(ref(store.snapshot(), hear))
    assert len(heard) > 20
    check_books(store)
