"""A store under test with its entries, and one turn of it: which keys and values come next.

Keys are text that was made just before a turn: nobody gains by being asked with the very object
that it was given. A seed chooses them, so that a run can be repeated.
"""

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from store_contenders import Snapshot, Store

MANY: Final = 1000
"""How many a `set_many` and a `get_many` have."""

Pair = tuple[str, str]


def in_one_space(number: int) -> Pair:
    return "state", f"key-{number:08d}"


def in_many_spaces(number: int) -> Pair:
    """Puts ten entries into each namespace, as one conversation each would have."""
    return f"thread-{number // 10:06d}", f"key-{number % 10}"


@dataclass
class Subject:
    """A contender's store, with so many entries."""

    contender: str
    store: Store
    size: int
    value_of: Callable[[int], Any]
    pair_of: Callable[[int], Pair] = in_one_space
    is_durable: bool = False
    """Whether every single write waits for a disk."""
    grown: int = 0
    """By how many entries, where deleting them again would take minutes."""
    far: list[Snapshot] = field(default_factory=list[Snapshot])
    """Two snapshots between which everything changed; made by the first case that asks."""

    def put(self, numbers: Iterable[int], version: int = 0) -> None:
        self.store.set_many([(*self.pair_of(n), self.value_of(n + version)) for n in numbers])

    def fill(self, version: int = 0) -> None:
        for first in range(0, self.size, MANY):
            self.put(range(first, min(first + MANY, self.size)), version)

    def far_snapshots(self) -> list[Snapshot]:
        if not self.far:
            first = self.store.snapshot()
            self.fill(version=7)
            self.far = [first, self.store.snapshot()]
        return self.far

    def clean_up(self, pairs: list[Pair]) -> None:
        if not self.is_durable or len(pairs) < MANY:
            for space, key in pairs:
                self.store.delete(space, key)
        elif self.size <= MANY:
            self.store.clear()
            self.fill()
        else:
            self.grown += len(pairs)


@dataclass
class Turn:
    """One turn of one contender: so many calls, on keys that a seed chooses."""

    subject: Subject
    times: int
    rng: random.Random

    def numbers(self, count: int) -> list[int]:
        size = self.subject.size
        if count <= size:
            return self.rng.sample(range(size), count)
        return [self.rng.randrange(size) for _ in range(count)]

    def pairs(self, count: int) -> list[Pair]:
        return [self.subject.pair_of(number) for number in self.numbers(count)]

    def new_pairs(self, count: int) -> list[Pair]:
        first = self.subject.size + self.subject.grown
        return [self.subject.pair_of(number) for number in range(first, first + count)]

    def triples(self, pairs: Iterable[Pair]) -> list[tuple[str, str, Any]]:
        version = self.rng.randrange(1 << 20)
        value_of = self.subject.value_of
        return [(*pair, value_of(version + place)) for place, pair in enumerate(pairs)]

    def change(self, count: int) -> None:
        self.subject.put(self.numbers(count), self.rng.randrange(1 << 20))

    def repeat(self) -> Iterator[int]:
        return iter(range(self.times))
