"""How long several threads take that use one store at once.

Every thread makes its share of the calls; what counts is the time from the first one's start to
the last one's end, by all calls of all of them. A turn is ten times as long as that of other
cases: the interpreter changes threads every five milliseconds.
"""

import threading
from collections.abc import Callable
from time import perf_counter as clock

from store_cases import Case
from store_subjects import Turn

THREADS = (1, 2, 4)
LONGER = 10

Work = Callable[[], None]


def sets(turn: Turn) -> Work:
    triples, set_ = turn.triples(turn.pairs(turn.times)), turn.subject.store.set

    def work() -> None:
        for space, key, value in triples:
            set_(space, key, value)

    return work


def gets(turn: Turn) -> Work:
    pairs, get = turn.pairs(turn.times), turn.subject.store.get

    def work() -> None:
        for space, key in pairs:
            get(space, key)

    return work


def mixed(turn: Turn) -> Work:
    """Four reads for each write."""
    triples = turn.triples(turn.pairs(turn.times))
    set_, get = turn.subject.store.set, turn.subject.store.get

    def work() -> None:
        for place, (space, key, value) in enumerate(triples):
            if place % 5:
                get(space, key)
            else:
                set_(space, key, value)

    return work


def snapshots(turn: Turn) -> Work:
    """A savepoint after every write."""
    triples = turn.triples(turn.pairs(turn.times))
    set_, snapshot = turn.subject.store.set, turn.subject.store.snapshot

    def work() -> None:
        for space, key, value in triples:
            set_(space, key, value)
            snapshot()

    return work


WORKS: dict[str, Callable[[Turn], Work]] = {
    "set": sets,
    "get": gets,
    "four gets and a set": mixed,
    "set and snapshot": snapshots,
}


def in_threads(kind: Callable[[Turn], Work], threads: int) -> Case:
    """Returns a case that shares its calls out among so many threads."""

    def case(turn: Turn) -> float:
        each = max(turn.times // threads, 1)
        works = [kind(Turn(turn.subject, each, turn.rng)) for _ in range(threads)]
        return span_of(works) / (each * threads) * turn.times

    return case


def span_of(works: list[Work]) -> float:
    """Returns the seconds from the first one's start to the last one's end."""
    barrier = threading.Barrier(len(works))
    spans: list[tuple[float, float]] = []

    def run(work: Work) -> None:
        barrier.wait()
        start = clock()
        work()
        spans.append((start, clock()))

    workers = [threading.Thread(target=run, args=(work,)) for work in works]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return max(end for _, end in spans) - min(start for start, _ in spans)
