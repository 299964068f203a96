"""What `bench_store.py` times: each case does one thing many times and says how long it took.

A case leaves the store with as many entries as it found. Where every call needs a preparation
of its own, the clock runs for the call alone, and what reading the clock costs is taken off.
"""

import statistics
from collections.abc import Callable
from functools import partial
from time import perf_counter as clock
from typing import Final

from store_subjects import MANY, Pair, Turn

Case = Callable[[Turn], float]
"""Returns the seconds that all calls of a turn took."""


def cost_of_the_clock() -> float:
    costs: list[float] = []
    for _ in range(2000):
        start = clock()
        costs.append(clock() - start)
    return statistics.median(costs)


CLOCK: Final = cost_of_the_clock()


def time_sets(turn: Turn, pairs: list[Pair]) -> float:
    triples, set_ = turn.triples(pairs), turn.subject.store.set
    start = clock()
    for space, key, value in triples:
        set_(space, key, value)
    return clock() - start


def set_new(turn: Turn) -> float:
    pairs = turn.new_pairs(turn.times)
    spent = time_sets(turn, pairs)
    turn.subject.clean_up(pairs)
    return spent


def overwrite(turn: Turn) -> float:
    return time_sets(turn, turn.pairs(turn.times))


def time_each(call: Callable[[str, str], object], pairs: list[Pair]) -> float:
    start = clock()
    for space, key in pairs:
        call(space, key)
    return clock() - start


def get(turn: Turn) -> float:
    return time_each(turn.subject.store.get, turn.pairs(turn.times))


def get_missing(turn: Turn) -> float:
    return time_each(turn.subject.store.get, turn.new_pairs(turn.times))


def contains(turn: Turn) -> float:
    return time_each(turn.subject.store.contains, turn.pairs(turn.times))


def delete(turn: Turn) -> float:
    """Deletes new keys again, as a store of ten has no hundred to spare."""
    pairs = turn.new_pairs(turn.times)
    turn.subject.store.set_many(turn.triples(pairs))
    fresh = [("".join([*space]), "".join([*key])) for space, key in pairs]
    return time_each(turn.subject.store.delete, fresh)


def set_many(turn: Turn) -> float:
    spent = 0.0
    for _ in turn.repeat():
        pairs = turn.new_pairs(MANY)
        triples = turn.triples(pairs)
        start = clock()
        turn.subject.store.set_many(triples)
        spent += clock() - start
        turn.subject.clean_up(pairs)
    return spent


def overwrite_many(turn: Turn) -> float:
    spent = 0.0
    for _ in turn.repeat():
        triples = turn.triples(turn.pairs(MANY))
        start = clock()
        turn.subject.store.set_many(triples)
        spent += clock() - start
    return spent


def get_many(turn: Turn) -> float:
    spent = 0.0
    for _ in turn.repeat():
        pairs = turn.pairs(MANY)
        start = clock()
        turn.subject.store.get_many(pairs)
        spent += clock() - start
    return spent


def time_repeated(call: Callable[[], object], turn: Turn) -> float:
    start = clock()
    for _ in turn.repeat():
        call()
    return clock() - start


def snapshot_unchanged(turn: Turn) -> float:
    take = turn.subject.store.snapshot
    take()
    return time_repeated(take, turn)


def snapshot_after_set(turn: Turn) -> float:
    store, spent = turn.subject.store, 0.0
    kept = [store.snapshot()]
    for space, key, value in turn.triples(turn.pairs(turn.times)):
        store.set(space, key, value)
        start = clock()
        taken = store.snapshot()
        spent += clock() - start - CLOCK
        kept.append(taken)
    return spent


def let_go(turn: Turn) -> float:
    """Times what is freed with the last one that held it, ten changes later."""
    spent = 0.0
    for _ in turn.repeat():
        kept = [turn.subject.store.snapshot()]
        turn.change(10)
        start = clock()
        kept.clear()
        spent += clock() - start - CLOCK
    return spent


def set_after_snapshot(turn: Turn) -> float:
    store, spent = turn.subject.store, 0.0
    for space, key, value in turn.triples(turn.pairs(turn.times)):
        taken = store.snapshot()
        start = clock()
        store.set(space, key, value)
        spent += clock() - start - CLOCK
        del taken
    return spent


def restore_unchanged(turn: Turn) -> float:
    taken, restore = turn.subject.store.snapshot(), turn.subject.store.restore
    start = clock()
    for _ in turn.repeat():
        restore(taken)
    return clock() - start


def restore_after(count: int) -> Case:
    def case(turn: Turn) -> float:
        store, spent = turn.subject.store, 0.0
        taken = store.snapshot()
        for _ in turn.repeat():
            turn.change(count)
            start = clock()
            store.restore(taken)
            spent += clock() - start - CLOCK
        return spent

    return case


def diff_of_ten(turn: Turn) -> float:
    """Every diff is of two snapshots that have not met before."""
    spent, base = 0.0, turn.subject.store.snapshot()
    for _ in turn.repeat():
        turn.change(10)
        taken = turn.subject.store.snapshot()
        start = clock()
        found = taken.diff(base)
        spent += clock() - start - CLOCK
        assert len(found["changed"]) == 10
        base = taken
    return spent


def toggle(turn: Turn) -> float:
    far, restore = turn.subject.far_snapshots(), turn.subject.store.restore
    goals = far * (turn.times // 2 + 1)
    start = clock()
    for goal in goals:
        restore(goal)
    return (clock() - start) / len(goals) * turn.times


def diff_of_everything(turn: Turn) -> float:
    first, second = turn.subject.far_snapshots()
    start = clock()
    for _ in turn.repeat():
        second.diff(first)
    return clock() - start


def keys(turn: Turn) -> float:
    return time_repeated(partial(turn.subject.store.keys, turn.subject.pair_of(0)[0]), turn)


def keys_with_prefix(turn: Turn) -> float:
    """A hundred keys begin with it, where there are so many."""
    return time_repeated(partial(turn.subject.store.keys, "state", "key-000001"), turn)


def max_key(turn: Turn) -> float:
    return time_repeated(partial(turn.subject.store.max_key, "state"), turn)


def namespaces(turn: Turn) -> float:
    return time_repeated(turn.subject.store.namespaces, turn)


def keys_of_snapshot(turn: Turn) -> float:
    spent = 0.0
    for _ in turn.repeat():
        turn.change(1)
        taken = turn.subject.store.snapshot()
        start = clock()
        _ = taken.keys
        spent += clock() - start - CLOCK
    return spent


def keys_of_old_snapshot(turn: Turn) -> float:
    spent = 0.0
    for _ in turn.repeat():
        old = turn.subject.store.snapshot()
        turn.change(100)
        start = clock()
        _ = old.keys
        spent += clock() - start - CLOCK
    return spent


BY_VALUE: dict[str, Case] = {
    "set, new key": set_new,
    "set, overwrite": overwrite,
    "get": get,
    "get, missing": get_missing,
    "set_many of 1,000, new": set_many,
    "set_many of 1,000, overwrite": overwrite_many,
    "get_many of 1,000": get_many,
    "contains": contains,
    "delete": delete,
    "first set after a snapshot": set_after_snapshot,
}
"""What the size of a value matters to."""

BY_COUNT: dict[str, Case] = {
    "snapshot, nothing changed": snapshot_unchanged,
    "snapshot after a set": snapshot_after_set,
    "let a snapshot go, 10 changes later": let_go,
    "restore, nothing changed": restore_unchanged,
    "restore after 10 changes": restore_after(10),
    "restore after 1,000 changes": restore_after(1000),
    "diff of 10": diff_of_ten,
    "keys": keys,
    "keys, with a prefix": keys_with_prefix,
    "max_key": max_key,
    "namespaces": namespaces,
    "snapshot.keys": keys_of_snapshot,
    "snapshot.keys, an old one": keys_of_old_snapshot,
    "toggle between far snapshots": toggle,
    "diff of everything": diff_of_everything,
}
"""What the number of entries may matter to. The last two come last: they change everything."""

IN_MANY_SPACES: dict[str, Case] = {
    name: case
    for name, case in (BY_VALUE | BY_COUNT).items()
    if name not in {"keys, with a prefix", "max_key"}
}

ON_DISK: dict[str, Case] = {
    "set, new key": set_new,
    "set, overwrite": overwrite,
    "get": get,
    "get_many of 1,000": get_many,
    "delete": delete,
    "keys": keys,
    "snapshot after a set": snapshot_after_set,
    "restore after 10 changes": restore_after(10),
    "set_many of 1,000, new": set_many,
}
"""The last one comes last: a large store grows by it."""
