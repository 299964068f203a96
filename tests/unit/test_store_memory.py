"""Nothing of the in-process store stays behind: no memory and no reference, also after errors.

Each piece of work is repeated. One block of memory, or one reference, that a turn forgets would
be hundreds at the end; what Python itself keeps for later use is not that much.
"""

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, tzinfo
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from holdfast import store as compiled
from holdfast.testing.cores import load_interpreted_store

TURNS = 150
FEW = TURNS // 4
"""Fewer than one for each turn."""


MODULES = {"chosen": compiled, "interpreted": load_interpreted_store()}
IS_COMPILED = MODULES["chosen"].Store.__base__ is not MODULES["interpreted"].Store.__base__


@pytest.fixture(params=MODULES)
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return MODULES[request.param].Store


@pytest.fixture(autouse=True, scope="module")
def what_is_there_is_not_looked_at() -> Iterator[None]:
    # Thousands of collections follow, each of which would walk over all of pytest.
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Raising(tzinfo):
    def utcoffset(self, _: datetime | None) -> timedelta:
        raise LookupError("in the middle")


class Text(str):
    __slots__ = ()


def broken(*rows: Any) -> Any:
    yield from rows
    raise LookupError("half-way")


def use_snapshots(store: Any) -> None:
    first = store.snapshot()
    store.set("n", "5", "changed")
    store.delete("n", "6")
    second = store.snapshot()
    store.restore(first)
    store.set("m", "7", "branch")
    third = store.snapshot()
    for new in (first, second, third):
        for old in (first, second, third):
            new.diff(old)
            new.differences(old)
        list(map(repr, [new.keys, new.items(), new.items("n", "1"), new.get("n", "1"), new]))
        (new.id, new.parent, new.timestamp, new.size_bytes, new.get_data("n", "1"))
        store.at(new).items("n")
    store.restore(second)
    store.restore(first)


Work = Callable[[Any], object]
WORKS: dict[str, Work] = {
    "set and delete": lambda s: (s.set("n", "new", [1, "text"]), s.delete("n", "new")),
    "overwrite": lambda s: s.set("n", "5", {"a": [1] * 50}),
    "set a large value": lambda s: s.set("n", "5", "x" * 200_000),
    "set by a subclass": lambda s: (s.set(Text("n"), Text("5"), 1), s.set("n", Text("é" * 9), 1)),
    "a namespace comes and goes": lambda s: (s.set("o", "k", 1), s.delete("o", "k")),
    "delete what is missing": lambda s: (s.delete("n", "missing"), s.delete("missing", "k")),
    "set_many": lambda s: s.set_many([("n", str(i), i) for i in range(100)]),
    "set_many by subclasses": lambda s: s.set_many([(Text("n"), Text(i), 1) for i in range(9)]),
    "put": lambda s: s.put("n", "5", b"\x93\x01\x02\x03"),
    "put_many": lambda s: s.put_many(
        [("n", str(i), b"\x01") for i in range(9)] + [("n", str(i), None) for i in range(9)]
    ),
    "get": lambda s: (s.get("n", "1"), s.get("n", "missing"), s.get("missing", "1", [])),
    "get_many": lambda s: s.get_many([("n", str(i)) for i in range(100)]),
    "get_many by subclasses": lambda s: s.get_many([(Text("n"), Text(i)) for i in range(9)]),
    "list": lambda s: (s.keys("n"), s.keys("n", "1"), s.items(), s.items("n", "1"), s.max_key("n")),
    "list names": lambda s: (s.namespaces(), s.namespaces("n"), "n" in s, len(s), bool(s)),
    "contains": lambda s: (s.contains("n", "1"), s.contains("n", "x"), s.contains("x", "x")),
    "snapshots": use_snapshots,
    "history": lambda s: (s.snapshot(), s.history()),
    "clear_history": lambda s: (s.snapshot(), s.clear_history()),
    "clear": lambda s: (s.snapshot(), s.clear(), s.restore(s.history()[-1])),
    "another store": lambda s: type(s)(max_history=2).restore(s.snapshot()),
    "a store that is let go": lambda s: type(s)(max_history=2).set("n", "k", [1]),
}
MISTAKES: dict[str, Work] = {
    "no value": lambda s: s.set("n", "k", object()),
    "no value inside": lambda s: s.set("n", "k", {"a": [1, {2: object()}]}),
    "too large a number": lambda s: s.set("n", "k", [2**64]),
    "half a character": lambda s: s.set("n", "\ud800", 1),
    "half a character in a namespace": lambda s: s.get("\ud800", "k"),
    "a value that raises": lambda s: s.set("n", "k", [datetime(2026, 1, 1, tzinfo=Raising())]),
    "a map as a key": lambda s: s.put_many([("n", "k", b"\x81\x80\x01")]) or s.get("n", "k"),
    "no name": lambda s: s.set("n", 1, 1),
    "no namespace": lambda s: s.get(None, "k"),
    "too few arguments": lambda s: s.set("n", "k"),
    "too many arguments": lambda s: s.get("n", "k", 1, 2),
    "an unknown argument": lambda s: s.set("n", "k", values=1),
    "an argument given twice": lambda s: s.set("n", "k", 1, key="k"),
    "set_many of no value": lambda s: s.set_many([("n", "new", 1), ("n", "k", object())]),
    "set_many of no name": lambda s: s.set_many([("n", "new", 1), ("n", 1, 1)]),
    "set_many of a short row": lambda s: s.set_many([("n", "new", 1), ("n", "k")]),
    "set_many of no row": lambda s: s.set_many([("n", "new", [1]), None]),
    "set_many of nothing": lambda s: s.set_many(None),
    "set_many that raises": lambda s: s.set_many(broken(("n", "new", [1]))),
    "set_many by a subclass": lambda s: s.set_many([(Text("n"), Text("k"), 1), (Text("n"), 1, 1)]),
    "put no bytes": lambda s: s.put("n", "k", "text"),
    "put_many of no bytes": lambda s: s.put_many([("n", "k", b"\x01"), ("n", "k", 1)]),
    "get_many of no name": lambda s: s.get_many([("n", "1"), (Text("n"), 1)]),
    "get_many that raises": lambda s: s.get_many(broken(("n", "1"))),
    "keys of no name": lambda s: s.keys(1),
    "keys by no prefix": lambda s: s.keys("n", 1),
    "items by no prefix": lambda s: s.items("n", 1),
    "items of what cannot be read": lambda s: s.put("n", "k", b"\xc1") or s.items("n"),
    "all items of what cannot be read": lambda s: s.put("n", "k", b"\xc1") or s.items(),
    "get_many of what cannot be read": lambda s: (
        s.put("n", "k", b"\xc1") or s.get_many([("n", "1"), ("n", "k"), ("n", "1")])
    ),
    "names by no prefix": lambda s: s.namespaces(1),
    "restore nothing": lambda s: s.restore(None),
    "compare with nothing": lambda s: s.snapshot().diff(None),
    "differences to nothing": lambda s: s.snapshot().differences(1),
    "look at nothing": lambda s: s.at(None),
    "a wrong max_history": lambda s: type(s)(max_history=-1),
    "a max_history of no number": lambda s: type(s)(max_history="1"),
    "another backend": lambda s: type(s)("disk"),
}


def fail(work: Work) -> Work:
    def failing(store: Any) -> None:
        with pytest.raises((TypeError, ValueError, LookupError)):
            work(store)

    return failing


def filled(make: Callable[..., Any]) -> Any:
    store = make(max_history=3)
    store.set_many([(name, str(number), number) for name in "nm" for number in range(80)])
    store.snapshot()
    return store


def blocks_left_by(work: Callable[[], object]) -> int:
    """Returns how many blocks of memory many turns leave behind, once Python has what it keeps."""
    left = list[int]()
    while len(left) < 6 and min(left, default=TURNS) >= FEW:
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(TURNS):
            work()
        gc.collect()
        left.append(sys.getallocatedblocks() - before)
    return min(left)


def test_a_block_that_is_forgotten_is_found() -> None:
    forgotten = list[Any]()
    assert blocks_left_by(lambda: forgotten.append(object())) > FEW


@pytest.mark.parametrize("name", [*WORKS, *MISTAKES])
def test_no_memory_is_left_behind(make: Callable[..., Any], name: str) -> None:
    work, store = WORKS.get(name) or fail(MISTAKES[name]), filled(make)
    assert blocks_left_by(lambda: work(store)) < FEW


@pytest.mark.parametrize("name", [*WORKS, *MISTAKES])
def test_every_reference_is_given_back(make: Callable[..., Any], name: str) -> None:
    # Things that are there anyway: what is taken or given once too often shows in their count.
    work, store = WORKS.get(name) or fail(MISTAKES[name]), filled(make)
    held = [None, True, False, store, type(store), compiled.Snapshot, "n", "k", "", b"", ()]
    work(store)
    gc.collect()
    before = [sys.getrefcount(each) for each in held]
    for _ in range(TURNS):
        work(store)
    gc.collect()
    after = [sys.getrefcount(each) for each in held]
    for thing, old, new in zip(held, before, after, strict=True):
        assert abs(new - old) < FEW, f"{thing!r}: {old} references became {new}"


def test_names_and_bytes_are_held_once_for_each_place(make: Callable[..., Any]) -> None:
    store = make()
    name, keys = f"name {len(store)}", [f"key {number}" for number in range(500)]
    data = bytes(bytearray(b"\xa4text"))

    def count_references() -> list[int]:
        return [sys.getrefcount(thing) for thing in (name, data, *keys)]

    before = count_references()
    store.put_many([(name, key, data) for key in keys])
    more = [new - old for new, old in zip(count_references(), before, strict=True)]
    assert more == [1, len(keys), *[1] * len(keys)]
    snapshots = []
    for number in range(100):
        store.put(name, keys[number], data)
        store.delete(name, keys[-1 - number])
        snapshots.append(store.snapshot())
        store.restore(snapshots[number // 2])
    del snapshots
    store.clear()
    assert count_references() == before


def test_what_a_snapshot_holds_goes_with_it(make: Callable[..., Any]) -> None:
    store, data = make(), bytes(bytearray(b"\xa4text"))
    before = sys.getrefcount(data)
    store.put("n", "k", data)
    snapshot = store.snapshot()
    view = store.at(snapshot)
    store.delete("n", "k")
    assert sys.getrefcount(data) > before
    del snapshot
    assert view.get("n", "k") == "text"
    del view
    assert sys.getrefcount(data) == before
    store.put("n", "k", data)
    store.snapshot()
    del store
    assert sys.getrefcount(data) == before


def test_history_lets_go_of_what_it_does_not_keep(make: Callable[..., Any]) -> None:
    store, seen = make(max_history=2), []
    for number in range(5):
        store.set("n", "k", number)
        seen.append(ref(store.snapshot()))
    assert [each() is not None for each in seen] == [False, False, False, True, True]
    store.clear_history()
    assert [each() for each in seen] == [None] * 5
    store = make(max_history=None)
    last = ref(store.snapshot())
    del store
    assert last() is None


def test_a_store_in_a_ring_of_references_is_collected(make: Callable[..., Any]) -> None:
    class Ring(make):  # type: ignore[misc, valid-type]
        """Refers to itself, as a store in an agent's attributes does in the end."""

    ring = Ring(max_history=None)
    ring.set("n", "k", 1)
    ring.me, gone = ring, ref(ring)
    last = ref(ring.snapshot())
    del ring
    gc.collect()
    assert gone() is None
    assert last() is None


def test_a_store_can_be_let_go_while_it_is_in_use(make: Callable[..., Any]) -> None:
    holder = [make()]

    class Dropping(tzinfo):
        def utcoffset(self, _: datetime | None) -> timedelta:
            holder.clear()
            gc.collect()
            return timedelta(0)

    holder[0].set("n", "k", datetime(2026, 1, 1, tzinfo=Dropping()))
    assert not holder


# Whole processes


def run_child(program: str, *arguments: str) -> str:
    source = str(Path(compiled.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program, source, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


CHURN = """
import gc, os, random, sys
sys.path.insert(0, sys.argv[1])
from holdfast.store import Store

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def churn(rng):
    store, kept = Store(max_history=5), []
    for turn in range(100_000):
        key = str(rng.randrange(5_000))
        match rng.randrange(8):
            case 0: store.delete("n", key)
            case 1 if rng.random() < 0.2: kept.append(store.snapshot())
            case 2 if rng.random() < 0.2 and kept: store.restore(rng.choice(kept))
            case 3 if rng.random() < 0.2 and kept: del kept[rng.randrange(len(kept))]
            case 4 if rng.random() < 0.01 and len(kept) > 1: kept[0].diff(kept[-1])
            case 5:
                try: store.set("n", key, object())
                except TypeError: pass
            case 6: store.set_many([("m", key, turn), ("n", key, {"a": [turn] * (turn % 40)})])
            case _: store.set("n", key, [turn])
        if turn % 20_000 == 0:
            kept.clear()

rng = random.Random(6)
churn(rng); gc.collect()
blocks, bytes_ = sys.getallocatedblocks(), resident()
for _ in range(3):
    churn(rng)
gc.collect()
print(sys.getallocatedblocks() - blocks, resident() - bytes_)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells")
def test_a_process_is_as_small_after_300_000_turns_as_after_100_000() -> None:
    blocks, bytes_ = map(int, run_child(CHURN).split())
    assert blocks < 2_000
    assert bytes_ < 4_000_000


WITHOUT_MEMORY = """
import gc, sys, _testcapi
sys.path.insert(0, sys.argv[1])
from holdfast.store import Store

def filled():
    store = Store(max_history=3)
    store.set_many([(n, str(k), [k]) for n in ("n", "m") for k in range(40)])
    store.set("one", "k", 1)
    return store

OPERATIONS = {
    "set": lambda s, t: s.set("n", "new", [1, 2]),
    "overwrite": lambda s, t: s.set("n", "7", [1, 2]),
    "set a namespace": lambda s, t: s.set("new", "new", 1),
    "delete": lambda s, t: s.delete("n", "7"),
    "delete a namespace": lambda s, t: s.delete("one", "k"),
    "set_many": lambda s, t: s.set_many([(n, str(k), 1) for n in "nmo" for k in range(30, 60)]),
    "put_many": lambda s, t: s.put_many(
        [("n", str(k), None) for k in range(40)]
        + [("n", str(k), b"\\x01") for k in range(20, 60)]),
    "clear": lambda s, t: s.clear(),
    "snapshot": lambda s, t: s.snapshot(),
    "restore": lambda s, t: s.restore(t),
    "get_many": lambda s, t: s.get_many([("n", str(k)) for k in range(40)]),
    "items": lambda s, t: (s.items(), s.keys("n"), s.namespaces(), s.max_key("n")),
    "diff": lambda s, t: (s.snapshot().diff(t), s.snapshot().keys, s.at(t).items("m")),
    "mistakes": lambda s, t: s.set_many([("n", "new", 1), ("n", "k", object())]),
}

def content(reader):
    found = dict(reader.items())
    assert len(found) == len(reader)
    return found

def attempt(operation, is_shared, number):
    store = filled()
    taken = store.snapshot()
    known = content(store)
    for k in range(0, 40, 3):
        store.delete("m", str(k))
    if is_shared:
        store.snapshot()
    before = content(store)
    failed = False
    _testcapi.set_nomemory(number, number + 1)
    try:
        operation(store, taken)
    except (MemoryError, SystemError):  # Python itself forgets to say why at times.
        failed = True
    except TypeError:
        pass
    finally:
        _testcapi.remove_mem_hooks()
    now = content(store)
    assert store.snapshot().size_bytes == sum(len(store.snapshot().get_data(*p)) for p in now)
    assert dict(taken.items()) == known, "a snapshot changed"
    return failed, before, now

for name, operation in OPERATIONS.items():
    for is_shared in (False, True):
        after = attempt(operation, is_shared, 10**6)[2]
        failures = 0
        for number in range(1, int(sys.argv[2])):
            failed, before, now = attempt(operation, is_shared, number)
            failures += failed
            # Nothing is done by halves; a call whose answer alone found no memory may be done.
            assert now in (before, after), (name, is_shared, number, len(now))
        print(name, is_shared, failures)
"""


can_end_memory = pytest.mark.skipif(
    find_spec("_testcapi") is None, reason="this Python is without its test hooks"
)


@pytest.mark.slow
@pytest.mark.skipif(not IS_COMPILED, reason="no compiler was at hand")
@can_end_memory
def test_a_call_that_runs_out_of_memory_did_all_or_nothing() -> None:
    told = run_child(WITHOUT_MEMORY, "250")
    assert sum(int(line.rsplit(maxsplit=1)[1]) for line in told.splitlines()) > 100


FAILED_CALLS = """
import sys, weakref, _testcapi
sys.path.insert(0, sys.argv[1])
from holdfast.store import Store

TRIPLES = [("n", str(k), b"\\x01") for k in range(40)]
PAIRS = [["n", str(k)] for k in range(40)]
CALLS = {
    "history": (),
    "clear_history": (),
    "get_many": (PAIRS,),
    "put_many": (TRIPLES,),
    "put_many of a tuple": (tuple(TRIPLES),),
    "set_many": (TRIPLES,),
}

for name, given in CALLS.items():
    failures = 0
    held = [sys.getrefcount(each) for each in given]
    for number in range(12):
        store = Store(max_history=None)
        taken = weakref.ref(store.snapshot())
        call = getattr(store, name.split()[0])
        try:
            _testcapi.set_nomemory(number, number + 1)
            call(*given)
        except MemoryError:
            failures += 1
        finally:
            _testcapi.remove_mem_hooks()
        del store, call
        assert taken() is None, f"{name} keeps the history, number {number}"
    assert [sys.getrefcount(each) for each in given] == held, f"{name} keeps what it was given"
    print(name, failures)
"""


@pytest.mark.skipif(not IS_COMPILED, reason="no compiler was at hand")
@can_end_memory
def test_a_call_that_runs_out_of_memory_lets_go_of_what_it_used() -> None:
    told = run_child(FAILED_CALLS)
    failures = {line.rsplit(maxsplit=1)[0]: int(line.split()[-1]) for line in told.splitlines()}
    assert failures["history"] >= 1
    assert failures["get_many"] >= 1
    assert failures["put_many of a tuple"] >= 1
