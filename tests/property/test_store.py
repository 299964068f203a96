"""The in-process store against dicts: whatever is done, in whatever order, both say the same.

The model of a store is a dict from pairs to bytes, that of a snapshot is a copy of it. Both
cores run the same steps. The compiled one runs them also with hashes of which only a few bits
are left, so that keys meet in every way that they could: in one way of a node, far down in a
chain of nodes, and with the same hash altogether.
"""

import gc
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from holdfast import store as compiled
from holdfast.testing.cores import load_interpreted_store

Pair = tuple[str, str]
Content = dict[Pair, bytes]
Difference = tuple[str, str, bytes | None, bytes | None]


interpreted = load_interpreted_store()
IS_COMPILED = compiled.Store.__base__ is not interpreted.Store.__base__
if_compiled = pytest.mark.skipif(not IS_COMPILED, reason="no compiler was at hand")
CORES = [
    pytest.param(compiled, marks=if_compiled, id="compiled"),
    pytest.param(interpreted, id="interpreted"),
]

# Three namespaces are used all the time; the last is large now and then.
NAMESPACES = ["", "n", "é\0", "many"]
KEYS = ["", "k", "k/1", "k/2", "\0", "é", "\U0001f600", *"abcdefgh"]
MANY = [f"key {number}" for number in range(150)]
VALUES: list[Any] = [None, 0, 1, True, 1.0, "text", b"", {"a": [1, 2]}, "long" * 50]
DATA = [msgspec.msgpack.encode(value) for value in VALUES]
PREFIXES = [None, "", "k", "k/", "key 1", "é", "zzz"]

pairs = st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(KEYS)) | st.tuples(
    st.just("many"), st.sampled_from(MANY)
)
numbers = st.integers(0, len(VALUES) - 1)
triples = st.lists(st.tuples(pairs, numbers), max_size=6)
which = st.integers(0, 1)


def naive_differences(old: Content, new: Content) -> list[Difference]:
    pairs = {pair for pair, _ in old.items() ^ new.items()}
    return [(*pair, old.get(pair), new.get(pair)) for pair in sorted(pairs)]


def naive_diff(old: Content, new: Content) -> dict[str, list[Pair]]:
    return {
        "added": sorted(new.keys() - old.keys()),
        "removed": sorted(old.keys() - new.keys()),
        "changed": sorted(pair for pair in old.keys() & new.keys() if old[pair] != new[pair]),
    }


@dataclass(frozen=True)
class Taken:
    snapshot: Any
    content: Content
    number: int
    parent: int | None


class Both:
    """A store, and a dict that should say the same."""

    def __init__(self, store: Any, max_history: int | None) -> None:
        self.store, self.content, self.max_history = store, Content(), max_history
        self.last_id, self.history = 0, list[Taken]()

    def put(self, pair: Pair, data: bytes | None) -> None:
        if data is None:
            self.content.pop(pair, None)
        else:
            self.content[pair] = data

    def check(self) -> None:
        """Compares everything that a store can be asked."""
        check_reader(self.store, self.content)
        assert self.store.max_history == self.max_history
        assert [(each.id, each.parent) for each in self.store.history()] == [
            (taken.number, taken.parent) for taken in self.history
        ]


def check_reader(reader: Any, content: Content) -> None:
    by_namespace: dict[str, dict[str, bytes]] = {}
    for (namespace, key), data in content.items():
        by_namespace.setdefault(namespace, {})[key] = data
    assert len(reader) == len(content)
    assert sorted(reader.namespaces()) == sorted(by_namespace)
    for namespace in NAMESPACES:
        found = by_namespace.get(namespace, {})
        assert (namespace in reader) == (namespace in by_namespace)
        assert sorted(reader.keys(namespace)) == sorted(found)
        assert reader.max_key(namespace) == max(found, default=None)
        same_values(reader.items(namespace), found)
    same_values(reader.items(), content)
    asked = [(namespace, key) for namespace in NAMESPACES for key in KEYS]
    expected = [content.get(pair) for pair in asked]
    for value, data in zip(reader.get_many(asked), expected, strict=True):
        assert msgspec.msgpack.encode(value) == (data or b"\xc0")


def same_values(items: list[tuple[Any, Any]], expected: dict[Any, bytes]) -> None:
    assert len(items) == len(expected)
    assert {key: msgspec.msgpack.encode(value) for key, value in items} == expected


def check_snapshot(taken: Taken) -> None:
    snapshot, content = taken.snapshot, taken.content
    assert (snapshot.id, snapshot.parent) == (taken.number, taken.parent)
    assert snapshot.size_bytes == sum(map(len, content.values()))
    assert sorted(snapshot.keys) == sorted(content)
    assert all(snapshot.get_data(*pair) == data for pair, data in content.items())
    same_values(snapshot.items(), content)


class StoreMachine(RuleBasedStateMachine):
    """Two stores of one core, and snapshots that come and go."""

    core: ModuleType = compiled
    snapshots = Bundle("snapshots")

    @initialize(histories=st.tuples(*[st.sampled_from([0, 1, 3, None])] * 2))
    def make(self, histories: tuple[int | None, int | None]) -> None:
        make = self.core.Store
        self.both = [Both(make(max_history=each), each) for each in histories]

    # Writing

    @rule(at=which, pair=pairs, number=numbers)
    def set_one(self, at: int, pair: Pair, number: int) -> None:
        self.both[at].store.set(*pair, VALUES[number])
        self.both[at].put(pair, DATA[number])

    @rule(at=which, pair=pairs, number=numbers)
    def put_one(self, at: int, pair: Pair, number: int) -> None:
        self.both[at].store.put(*pair, DATA[number])
        self.both[at].put(pair, DATA[number])

    @rule(at=which, items=triples)
    def set_many(self, at: int, items: list[tuple[Pair, int]]) -> None:
        self.both[at].store.set_many([(*pair, VALUES[number]) for pair, number in items])
        for pair, number in items:
            self.both[at].put(pair, DATA[number])

    @rule(at=which, items=triples, gone=st.sets(st.integers(0, 5)))
    def put_many(self, at: int, items: list[tuple[Pair, int]], gone: set[int]) -> None:
        rows = [
            (pair, None if index in gone else DATA[number])
            for index, (pair, number) in enumerate(items)
        ]
        self.both[at].store.put_many((*pair, data) for pair, data in rows)
        for pair, data in rows:
            self.both[at].put(pair, data)

    @rule(at=which, items=triples, wrong=st.sampled_from([object(), 2**64, "\ud800"]))
    def fail_to_set_many(self, at: int, items: list[tuple[Pair, int]], wrong: Any) -> None:
        rows = [(*pair, VALUES[number]) for pair, number in items]
        with pytest.raises(TypeError):
            self.both[at].store.set_many([*rows, ("n", "wrong", wrong)])
        with pytest.raises(TypeError):
            self.both[at].store.put_many([(*row[:2], None) for row in rows] + [("n", "k", 1)])

    @rule(at=which, first=st.integers(0, 149), count=st.integers(20, 150), number=numbers)
    def set_a_lot(self, at: int, first: int, count: int, number: int) -> None:
        rows = [("many", key, number) for key in MANY[first : first + count]]
        self.both[at].store.set_many(rows)
        for namespace, key, value in rows:
            self.both[at].put((namespace, key), msgspec.msgpack.encode(value))

    @rule(at=which, step=st.integers(1, 5))
    def delete_a_lot(self, at: int, step: int) -> None:
        for key in MANY[::step]:
            was_there = self.both[at].content.pop(("many", key), None) is not None
            assert self.both[at].store.delete("many", key) is was_there

    @rule(at=which, pair=pairs)
    def delete_one(self, at: int, pair: Pair) -> None:
        was_there = self.both[at].content.pop(pair, None) is not None
        assert self.both[at].store.delete(*pair) is was_there

    @rule(at=which)
    def clear(self, at: int) -> None:
        self.both[at].store.clear()
        self.both[at].content.clear()

    # Snapshots

    @rule(target=snapshots, at=which)
    def snapshot(self, at: int) -> Taken:
        both = self.both[at]
        number, parent = both.last_id + 1, both.last_id or None
        taken = Taken(both.store.snapshot(), both.content.copy(), number, parent)
        both.last_id = number
        both.history.append(taken)
        if both.max_history is not None:
            both.history = both.history[max(0, len(both.history) - both.max_history) :]
        assert (taken.snapshot.id, taken.snapshot.parent) == (number, parent)
        return taken

    @rule(target=snapshots, at=which)
    def take_from_history(self, at: int) -> Any:
        both = self.both[at]
        if not both.history:
            return multiple()
        known, kept = both.history[0], both.store.history()[0]
        return Taken(kept, known.content, known.number, known.parent)

    @rule(at=which, taken=snapshots)
    def restore(self, at: int, taken: Taken) -> None:
        self.both[at].store.restore(taken.snapshot)
        self.both[at].content = taken.content.copy()

    @rule(taken=consumes(snapshots))
    def drop(self, taken: Taken) -> None:
        check_snapshot(taken)

    @rule(at=which)
    def clear_history(self, at: int) -> None:
        self.both[at].store.clear_history()
        self.both[at].history.clear()

    @rule(new=snapshots, old=snapshots)
    def compare(self, new: Taken, old: Taken) -> None:
        assert new.snapshot.diff(old.snapshot) == naive_diff(old.content, new.content)
        assert new.snapshot.differences(old.snapshot) == naive_differences(old.content, new.content)

    @rule(at=which, old=snapshots)
    def compare_with_now(self, at: int, old: Taken) -> None:
        now = self.snapshot(at)
        self.compare(now, old)
        self.compare(old, now)

    @rule(at=which, taken=snapshots)
    def look_at(self, at: int, taken: Taken) -> None:
        check_reader(self.both[at].store.at(taken.snapshot), taken.content)
        check_snapshot(taken)

    # Reading

    @rule(at=which, prefix=st.sampled_from(PREFIXES))
    def list_by_prefix(self, at: int, prefix: str | None) -> None:
        store, content = self.both[at].store, self.both[at].content
        begin = prefix or ""
        for namespace in NAMESPACES:
            found = {
                key: data
                for (other, key), data in content.items()
                if other == namespace and key.startswith(begin)
            }
            assert sorted(store.keys(namespace, prefix)) == sorted(found)
            same_values(store.items(namespace, prefix), found)
        assert sorted(store.namespaces(prefix)) == sorted(
            {namespace for namespace, _ in content if namespace.startswith(begin)}
        )
        same_values(
            store.items(prefix=prefix),
            {pair: data for pair, data in content.items() if pair[1].startswith(begin)},
        )

    @rule(at=which, pair=pairs)
    def get_one(self, at: int, pair: Pair) -> None:
        store, data, missing = self.both[at].store, self.both[at].content.get(pair), object()
        assert store.contains(*pair) is (data is not None)
        value = store.get(*pair, missing)
        assert value is missing if data is None else msgspec.msgpack.encode(value) == data

    @rule(at=which)
    def check_everything(self, at: int) -> None:
        self.both[at].check()

    @invariant()
    def lengths_agree(self) -> None:
        for both in getattr(self, "both", []):
            assert len(both.store) == len(both.content)
            assert bool(both.store) is bool(both.content)

    def teardown(self) -> None:
        for both in getattr(self, "both", []):
            both.check()


@contextmanager
def hashes_of(bits: int) -> Iterator[None]:
    """Leaves that many bits of every hash to the compiled core."""
    mask: Callable[[int], None] = import_module("holdfast.store._core")._mask_hashes
    gc.collect()  # Only while there is no store.
    mask(bits)
    try:
        yield
    finally:
        gc.collect()
        mask(64)


@if_compiled
@pytest.mark.parametrize("bits", [0, 3, 11, 64])
def test_the_compiled_store_is_a_dict_with_snapshots(bits: int) -> None:
    with hashes_of(bits):
        run_state_machine_as_test(StoreMachine)


def test_the_interpreted_store_is_a_dict_with_snapshots() -> None:
    class InterpretedMachine(StoreMachine):
        core = interpreted

    run_state_machine_as_test(InterpretedMachine)


def fill(store: Any, count: int) -> Content:
    rows = [(f"n{number % 3}", str(number), number) for number in range(count)]
    store.set_many(rows)
    return {(namespace, key): msgspec.msgpack.encode(value) for namespace, key, value in rows}


def change(rng: random.Random, stores: list[Any], content: Content, count: int) -> None:
    """Makes the same random changes in all stores and in the dict."""
    known = rng.sample(sorted(content), count)
    for number, pair in enumerate(known):
        match number % 3:
            case 0:
                rows = [(*pair, b"\xcc" + rng.randbytes(1))]
            case 1:
                rows = [(*pair, None)]
            case _:
                rows = [(pair[0], f"new {rng.random()}", b"\xc0"), (*pair, content[pair])]
        for store in stores:
            store.put_many(rows)
        for namespace, key, data in rows:
            if data is None:
                del content[namespace, key]
            else:
                content[namespace, key] = data


@pytest.mark.slow
def test_both_cores_say_the_same_at_100_000_entries() -> None:
    rng, taken = random.Random(4), list[tuple[list[Any], Content]]()
    stores = [module.Store() for module in (compiled, interpreted)]
    for store in stores:
        content = fill(store, 100_000)
    for count in (0, 1, 10, 3_000, 10):
        change(rng, stores, content, count)
        taken.append(([store.snapshot() for store in stores], content.copy()))
    # A branch: back to the second, and on from there.
    for store, snapshot in zip(stores, taken[1][0], strict=True):
        store.restore(snapshot)
    content = taken[1][1].copy()
    change(rng, stores, content, 100)
    taken.append(([store.snapshot() for store in stores], content))
    for here, there in [*pairwise(range(len(taken))), (5, 1), (3, 5), (4, 4)]:
        (olds, old), (news, new) = taken[here], taken[there]
        expected = naive_differences(old, new)
        for after, before in zip(news, olds, strict=True):
            assert after.differences(before) == expected
            assert sum(map(len, after.diff(before).values())) == len(expected)
            assert after.size_bytes == sum(map(len, new.values()))
            assert set(after.keys) == new.keys()


def quickest(call: Callable[[], object]) -> float:
    """Returns the seconds of the quickest of some calls: what others take from us is left out."""
    times = list[float]()
    for _ in range(7):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize("module", CORES)
def test_what_was_not_changed_costs_nothing(module: ModuleType) -> None:
    # Everything that looks at each entry takes as long as listing the keys, or longer.
    store, rng = module.Store(), random.Random(5)
    content = fill(store, 100_000)
    listing = quickest(lambda: store.snapshot().keys)
    base = store.snapshot()
    change(rng, [store], content, 10)
    later = store.snapshot()
    far = module.Store()
    fill(far, 100_000)
    change(rng, [far], content.copy(), 10)
    distant = far.snapshot()
    limit = listing / 10
    assert quickest(store.snapshot) < limit
    assert quickest(lambda: later.diff(base)) < limit
    assert quickest(lambda: base.differences(later)) < limit
    assert quickest(lambda: store.restore(base)) < limit
    assert quickest(lambda: (store.restore(base), store.restore(distant))) < limit, "far apart"
    assert quickest(lambda: (store.snapshot(), store.set("n0", "0", 1))) < limit, "the first write"
    assert quickest(lambda: store.at(base).get("n0", "0")) < limit
    assert quickest(lambda: base.size_bytes) < limit
