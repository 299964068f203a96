"""Plays the core of the in-process store: against dicts, out of memory, and in disorder.

A round has two halves. In the first, one thread does one thing after the other, now and then
without memory for it, or with values and iterables that use the store while it uses them; after
each step a dict says what has to be there. In the second, threads, finalisers and callbacks of
weak references do everything at once, and what has to hold is what always does: a snapshot that
was taken before says what it said, and a store adds up.
"""

import contextlib
import copy
import gc
import random
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from play_core_values import Pair, Text, a_pair, a_plain_value, a_value, as_text, some_msgpack

from holdfast.store import _core, codec
from holdfast.store._core import Core, Reader, Snapshot, view

try:
    import _testcapi
except ImportError:  # a Python without its own tests
    _testcapi = None

Content = dict[Pair, bytes]
Difference = tuple[str, str, bytes | None, bytes | None]

STEPS, KEPT, THREADS, THREAD_STEPS = 400, 6, 3, 60
MASKS = (64, 64, 64, 0, 1, 5, 6, 12)
"""How many bits of a hash are kept: with fewer, keys meet far down, or have the same hash."""
REFUSED = (TypeError, ValueError, OverflowError, LookupError, AttributeError, RuntimeError)
FOREIGN = 0
"""How likely memory ends where `msgspec` itself makes the bytes: it does not survive that."""
NO_MEMORY = (MemoryError, SystemError)
"""Python itself forgets at times to say that there was no memory."""


class Acting(tzinfo):
    """Does something whenever it is asked, as a value may while it is encoded."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def utcoffset(self, _: datetime | None) -> timedelta:
        self.act()
        return timedelta(0)


class Ring:
    """Refers to itself; does something when the garbage collector finds it."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.me, self.act = self, act

    def __del__(self) -> None:
        with contextlib.suppress(*REFUSED), forgetting():
            self.act()


class Number:
    """An index that does something first."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def __index__(self) -> int:
        self.act()
        return 3


class Child(Core):
    """A store with attributes, which the garbage collector knows."""


def encoded(value: Any) -> bytes | None:
    """Returns what the value has to become, or None: it has to be refused."""
    try:
        return codec.encode(value)
    except REFUSED:
        return None


@contextlib.contextmanager
def no_memory(rng: random.Random, chance: float) -> Generator[None]:
    """Now and then, lets one of the next blocks that are asked for be refused, or all from it."""
    if _testcapi is None or rng.random() >= chance:
        yield
        return
    first = rng.randrange(60)
    _testcapi.set_nomemory(first, first + rng.choice([1, 1, 1, 3]))
    try:
        yield
    finally:
        _testcapi.remove_mem_hooks()


def forget(exc: BaseException) -> None:
    """Lets go of all that an exception refers to.

    The last `MemoryError` that Python has is kept for ever, with every frame that it came through.
    """
    exc.__traceback__ = exc.__context__ = None


@contextlib.contextmanager
def forgetting() -> Generator[None]:
    """Goes on when memory has ended."""
    try:
        yield
    except NO_MEMORY as exc:
        forget(exc)


@dataclass(frozen=True)
class Taken:
    """A snapshot, and what it has to say."""

    snapshot: Snapshot
    content: Content


class Orderly:
    """One store, a dict that has to say the same, and snapshots of both."""

    def __init__(self, rng: random.Random, done: Counter[str]) -> None:
        self.rng, self.done = rng, done
        self.max_history = rng.choice([0, 1, 3, None])
        self.store = rng.choice([Core, Child])(max_history=self.max_history)
        self.content, self.taken = Content(), list[Taken]()
        # To make them takes longer than all that is done with them.
        self.values = [a_value(rng) for _ in range(40)]

    def step(self) -> None:
        name = self.rng.choice(STEPS_BY_WEIGHT)
        self.done[name] += 1
        getattr(self, name)()

    def change(self, act: Callable[[], object], after: Content, chance: float = 0.2) -> None:
        """Does what leads to a content; without memory for it, all or nothing was done.

        The call is made before: what Python has put together when memory ends, it forgets to let
        go of, and that would look as if the core did.
        """
        try:
            with no_memory(self.rng, chance):
                act()
        except NO_MEMORY as exc:
            forget(exc)
            self.done["without memory"] += 1
            found = content_of(self.store)
            assert found in (self.content, after), "done by halves"
            self.content = found
        else:
            self.content = after

    def refuse(self, act: Callable[[], object]) -> None:
        """Does what has to be refused, and to change nothing."""
        try:
            act()
        except REFUSED:
            return
        raise AssertionError("not refused")

    # Writing

    def set(self) -> None:
        (namespace, key), value = a_pair(self.rng), self.rng.choice(self.values)
        place = as_text(self.rng, namespace), as_text(self.rng, key)
        data = encoded(value)
        if data is None:
            self.refuse(lambda: self.store.set(*place, value))
        else:
            after = {**self.content, (namespace, key): data}
            self.change(partial(self.store.set, *place, value=value), after, FOREIGN)

    def set_what_is_plain(self) -> None:
        pair, value = a_pair(self.rng), a_plain_value(self.rng)
        after = {**self.content, pair: codec.encode(value)}
        self.change(partial(self.store.set, *pair, value), after)

    def set_many_that_are_plain(self) -> None:
        rows = [(a_pair(self.rng), a_plain_value(self.rng)) for _ in range(self.rng.randrange(25))]
        after = self.content | {pair: codec.encode(value) for pair, value in rows}
        items = [(*pair, value) for pair, value in rows]
        self.change(partial(self.store.set_many, items), after)

    def set_while_it_is_used(self) -> None:
        pair = a_pair(self.rng)

        def act() -> None:
            # Not the same place: who was last there is not the point.
            other = ("nested", self.rng.choice("abcdef"))
            if self.rng.random() < 0.5:
                self.store.put(*other, b"\x01")
                self.content[other] = b"\x01"
            else:
                self.store.delete(*other)
                self.content.pop(other, None)
            gc.collect(0)

        self.store.set(*pair, [datetime(2026, 1, 1, tzinfo=Acting(act)), "é" * 40])
        self.content[pair] = codec.encode([datetime(2026, 1, 1, tzinfo=UTC), "é" * 40])

    def set_many(self) -> None:
        count = self.rng.choice([0, 1, 1, 2, 25])
        rows = [(a_pair(self.rng), self.rng.choice(self.values)) for _ in range(count)]
        known = [(pair, value, encoded(value)) for pair, value in rows]
        items = [
            [*pair, value] if self.rng.random() < 0.1 else (*pair, value) for pair, value in rows
        ]
        if any(data is None for _, _, data in known):
            self.refuse(lambda: self.store.set_many(items))
        else:
            after = self.content | {pair: data for pair, _, data in known if data is not None}
            self.change(partial(self.store.set_many, iter(items)), after, FOREIGN)

    def put_many(self) -> None:
        rows = [
            (a_pair(self.rng), self.rng.choice([None, None, b"\x01", b"\xc0", b"\xa1k"]))
            for _ in range(self.rng.randrange(40))
        ]
        rows += [(pair, None) for pair in self.content if self.rng.random() < 0.1]
        after = dict(self.content)
        for pair, data in rows:
            if data is None:
                after.pop(pair, None)
            else:
                after[pair] = data
        items = [(*pair, data) for pair, data in rows]
        self.change(partial(self.store.put_many, items), after)

    def put_many_while_it_is_used(self) -> None:
        def rows() -> Generator[Any]:
            for number in range(5):
                yield ("many", str(number), b"\x05")
                self.store.put("nested", str(number), b"\x02")
                self.content["nested", str(number)] = b"\x02"
                self.store.clear_history()

        self.store.put_many(rows())
        self.content |= {("many", str(number)): b"\x05" for number in range(5)}

    def delete(self) -> None:
        pair = a_pair(self.rng)
        if self.content and self.rng.random() < 0.7:
            pair = self.rng.choice(list(self.content))
        after = {place: data for place, data in self.content.items() if place != pair}
        place = (as_text(self.rng, part) for part in pair)
        self.change(partial(self.store.delete, *place), after)

    def clear(self) -> None:
        if self.rng.random() < 0.2:
            self.change(self.store.clear, {})

    # Snapshots

    def snapshot(self) -> None:
        with forgetting(), no_memory(self.rng, 0.1):
            taken = self.store.snapshot()
            self.taken.append(Taken(taken, dict(self.content)))
        if len(self.taken) > KEPT:
            del self.taken[self.rng.randrange(len(self.taken))]

    def restore(self) -> None:
        if self.taken:
            taken = self.rng.choice(self.taken)
            self.change(partial(self.store.restore, taken.snapshot), dict(taken.content))

    def compare(self) -> None:
        if not self.taken:
            return
        old, new = self.rng.choice(self.taken), self.rng.choice(self.taken)
        wanted = differences(old.content, new.content)
        with forgetting():
            with no_memory(self.rng, 0.2):
                found = new.snapshot.differences(old.snapshot)
                kinds = new.snapshot.diff(base=old.snapshot)
            assert found == wanted
            assert sorted(chain.from_iterable(kinds.values())) == [
                difference[:2] for difference in wanted
            ]

    def look_at_a_view(self) -> None:
        if self.taken:
            taken = self.rng.choice(self.taken)
            check(view(taken.snapshot), taken.content)

    # Reading

    def read(self) -> None:
        pairs = [a_pair(self.rng) for _ in range(8)] + list(self.content)[:8]
        looks = [(partial(self.store.contains, *pair), pair in self.content) for pair in pairs]
        prefix, lists = as_text(self.rng, pairs[0][1][:2]), [list(pair) for pair in pairs]
        others = [
            partial(self.store.max_key, pairs[0][0]),
            partial(self.store.keys, pairs[0][0], prefix),
            partial(self.store.items, prefix=prefix),
            partial(self.store.namespaces, prefix),
            partial(self.store.get_many, lists),
            self.store.history,
        ]
        with forgetting(), no_memory(self.rng, 0.2):
            for look, is_there in looks:
                assert look() is is_there
            for look in others:
                look()

    def encode(self) -> None:
        value = msgspec.Raw(some_msgpack(self.rng))
        if self.rng.random() < 0.3:
            value = self.rng.choice(self.values)
        wanted = encoded(value)
        try:
            found = _core.encode(value)
        except REFUSED:
            found = None
        assert found == wanted, (value, wanted, found)

    def misuse(self) -> None:
        things = [self.store, Core, Snapshot, Reader, _core]
        things += [taken.snapshot for taken in self.taken[:1]]
        thing = self.rng.choice(things)
        name = self.rng.choice([name for name in dir(thing) if name not in UNSAFE])
        arguments = [self.junk() for _ in range(self.rng.randrange(5))]
        names = self.rng.choice([(), (), ("key",), ("namespace", "prefix"), ("\ud800",)])
        with contextlib.suppress(*REFUSED), forgetting():
            getattr(thing, name)(*arguments, **{each: self.junk() for each in names})
        # Some of it was well-formed by chance.
        self.content = content_of(self.store)
        check(self.store, self.content)

    def junk(self) -> Any:
        taken = [taken.snapshot for taken in self.taken[:1]]
        makers: list[Any] = [self.store, *taken, Core, Number(self.store.clear_history), object()]
        makers += [None, "n", "k", "\ud800", 1, -1, 2**70, b"", [], [()], [("n", "k", 1)], 1.5]
        return self.rng.choice([*makers, str.__new__(Text, "n"), [("n",)], {"n": 1}, iter([1, 2])])

    def copy_and_change(self) -> None:
        taken = self.store.snapshot()
        for act in (
            lambda: copy.copy(taken),
            lambda: copy.deepcopy(taken),
            lambda: taken.__reduce_ex__(4),
            lambda: setattr(taken, "id", 1),
            lambda: object.__new__(Snapshot),
            lambda: Core.__new__(Snapshot),
            Reader,
        ):
            self.refuse(act)
        bare = Core.__new__(Core)
        bare.set("n", "k", 1)
        assert bare.snapshot().size_bytes == 1
        bare.__init__(max_history=Number(bare.clear))
        assert len(bare) == 0

    def look_at_all(self) -> None:
        check(self.store, self.content)
        for taken in self.taken:
            check_snapshot(taken)


WEIGHTS = {
    "set": 10, "set_what_is_plain": 5, "set_many_that_are_plain": 3,
    "set_while_it_is_used": 2, "set_many": 5, "put_many": 6, "delete": 10, "clear": 1,
    "put_many_while_it_is_used": 1, "snapshot": 8, "restore": 4, "compare": 6, "look_at_a_view": 2,
    "read": 5, "encode": 10, "misuse": 8, "copy_and_change": 1, "look_at_all": 2,
}  # fmt: skip
STEPS_BY_WEIGHT = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
UNSAFE = {"_mask_hashes", "__init_subclass__", "__subclasshook__", "__loader__", "__spec__"}
"""What is for tests while there is no store, or belongs to Python's import."""


def content_of(reader: Any) -> Content:
    snapshot = reader.snapshot() if isinstance(reader, Core) else reader
    return {pair: snapshot.get_data(*pair) for pair in snapshot.keys}


def differences(old: Content, new: Content) -> list[Difference]:
    pairs = {pair for pair, _ in old.items() ^ new.items()}
    return [(*pair, old.get(pair), new.get(pair)) for pair in sorted(pairs)]


def check(reader: Any, content: Content) -> None:
    """Compares what a store says with what it has to say."""
    assert len(reader) == len(content)
    namespaces = {namespace for namespace, _ in content}
    assert sorted(reader.namespaces()) == sorted(namespaces)
    for namespace in namespaces:
        keys = sorted(key for name, key in content if name == namespace)
        assert sorted(reader.keys(namespace)) == keys
        assert reader.max_key(namespace) == keys[-1]
        assert namespace in reader
    assert all(reader.contains(*pair) for pair in content)
    if isinstance(reader, Core):
        assert content_of(reader) == content
        assert reader.snapshot().size_bytes == sum(map(len, content.values()))


def check_snapshot(taken: Taken) -> None:
    snapshot, content = taken.snapshot, taken.content
    assert sorted(snapshot.keys) == sorted(content)
    assert all(snapshot.get_data(*pair) == data for pair, data in content.items())
    assert snapshot.size_bytes == sum(map(len, content.values()))
    assert repr(snapshot).startswith("Snapshot(id=")


class Disorderly:
    """One store that threads, finalisers and callbacks use at once."""

    def __init__(self, rng: random.Random, done: Counter[str]) -> None:
        self.rng, self.done = rng, done
        self.store = Child(max_history=2)
        self.store.put_many([("n", str(number), b"\x01") for number in range(80)])
        self.shared, self.wrong = list[Taken](), list[str]()
        self.values = [a_value(rng) for _ in range(20)]

    def act(self, rng: random.Random) -> None:
        store, pair = self.store, (rng.choice("nm"), str(rng.randrange(120)))
        match rng.randrange(15):
            case 0 | 1 | 2:
                store.set(*pair, rng.choice(self.values))
            case 3 | 4:
                store.delete(*pair)
            case 5:
                # What it says at once is what it has to say for ever.
                taken = store.snapshot()
                self.shared.append(Taken(taken, content_of(taken)))
            case 6:
                weakref.finalize(store.snapshot(), store.put, *pair, b"\x02")
            case 7 if self.shared:
                store.restore(rng.choice(self.shared).snapshot)
            case 8 if self.shared:
                rng.choice(self.shared).snapshot.diff(store.snapshot())
            case 9:
                Ring(lambda: store.put_many([(*pair, b"\x03"), ("n", "x", None)]))
                Ring(store.clear_history)
            case 10:
                store.items(rng.choice([None, "n"]), rng.choice([None, "1"]))
            case 11:
                store.get_many([("n", str(number)) for number in range(50)])
            case 12:
                store.set_many((rng.choice("nm"), str(number), [number]) for number in range(30))
            case 13:
                store.set(*pair, datetime(2026, 1, 1, tzinfo=Acting(store.clear_history)))
            case _:
                if rng.random() < 0.1:
                    store.clear()

    def run(self, seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(THREAD_STEPS):
                with contextlib.suppress(*REFUSED):
                    self.act(rng)
        except Exception as exc:  # noqa: BLE001 - said by the thread that looks
            self.wrong.append(repr(exc))

    def play(self) -> None:
        threads = [
            threading.Thread(target=self.run, args=[self.rng.getrandbits(32)])
            for _ in range(THREADS)
        ]
        interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
        sys.setswitchinterval(1e-6)
        gc.set_threshold(self.rng.choice([1, 5, 50]))
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
            gc.set_threshold(*thresholds)
        self.done["in disorder"] += THREADS * THREAD_STEPS
        assert not self.wrong, self.wrong
        self.store.clear_history()  # with what the ends of its snapshots set off
        gc.collect()
        check(self.store, content_of(self.store))
        for taken in self.shared:
            check_snapshot(taken)
        last, content = view(self.store.snapshot()), content_of(self.store)
        del self.store, self.shared
        check(last, content)


def play(rng: random.Random, _: Path) -> Counter[str]:
    """Plays one round."""
    done = Counter[str]()
    _core._mask_hashes(rng.choice(MASKS))  # noqa: SLF001 - it is for this
    orderly = Orderly(rng, done)
    for _ in range(STEPS):
        orderly.step()
    orderly.look_at_all()
    taken = orderly.taken
    del orderly
    gc.collect()
    for each in taken:  # They outlive their store.
        check_snapshot(each)
    del taken
    Disorderly(rng, done).play()
    gc.collect()
    return done
