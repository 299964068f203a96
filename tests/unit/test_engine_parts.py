"""The engine's parts on their own: caches, paths, content, settling, retention, keys."""

import io
import os
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.caches import ByteCache
from holdfast.engine.core.limits import Limits
from holdfast.engine.core.paths import ancestors, check_key, parent_of, to_folder, to_key, to_text
from holdfast.engine.files import fitting
from holdfast.engine.files.fitting import find_clashes, is_directory, keep_emptied, settle
from holdfast.engine.objects import content
from holdfast.engine.objects.reachable import mark
from holdfast.engine.planes.storevalues import decode_value
from holdfast.engine.timeline.retention import choose, get_policy
from holdfast.engine.timeline.selection import path_filter
from holdfast.entries import (
    Blob,
    Directory,
    Entry,
    Inline,
    Link,
    decode_entry,
    encode_entry,
    unpack_refs,
)
from holdfast.errors import Damaged, InvalidPath, InvalidValue, TooLarge
from holdfast.ids import (
    IdMaker,
    NamespaceId,
    ObjectId,
    PackName,
    SnapshotId,
    TenantId,
    object_id_of,
)
from holdfast.model.basics import Head, Kind, Plane, Size, SnapshotInfo
from holdfast.model.upkeep import Policy
from holdfast.packs import ObjectKind
from holdfast.store.codec import encode
from holdfast.storekeys import from_store_key, to_store_key
from holdfast.tree import Node, build, decode_node

pytestmark = pytest.mark.in_memory

MIB = 1 << 20


# Caches


def test_a_cache_forgets_what_was_used_longest_ago() -> None:
    cache = ByteCache[str, int](10)
    cache.put("a", 1, size=4)
    cache.put("b", 2, size=4)
    assert cache.find("a") == 1
    cache.put("c", 3, size=4)
    assert (cache.find("a"), cache.find("b"), cache.find("c")) == (1, None, 3)


def test_a_cache_never_holds_more_than_it_may() -> None:
    cache, random = ByteCache[int, int](1000), Random(1)
    for number in range(2000):
        key, size = random.randrange(50), random.randrange(1, 300)
        cache.put(key, number, size=size)
        held = cache._items.values()
        assert cache._bytes == sum(size for _, size in held) <= 1000
        assert cache.find(key) == number


def test_what_is_larger_than_the_cache_is_not_kept_and_costs_nobody_a_place() -> None:
    cache = ByteCache[str, int](10)
    cache.put("a", 1, size=10)
    cache.put("b", 2, size=11)
    assert (cache.find("a"), cache.find("b")) == (1, None)


def test_a_cache_of_no_bytes_and_a_cleared_one_are_empty() -> None:
    nothing = ByteCache[str, int](0)
    nothing.put("a", 1, size=1)
    assert nothing.find("a") is None
    cache = ByteCache[str, int](10)
    cache.put("a", 1, size=10)
    cache.clear()
    cache.put("b", 2, size=10)
    assert (cache.find("a"), cache.find("b")) == (None, 2)


def test_threads_may_share_a_cache() -> None:
    cache = ByteCache[int, int](100)

    def use(seed: int) -> None:
        random = Random(seed)
        for _ in range(2000):
            key = random.randrange(40)
            cache.put(key, key, size=random.randrange(1, 20))
            assert cache.find(random.randrange(40)) in {None, *range(40)}

    threads = [threading.Thread(target=use, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache._bytes == sum(size for _, size in cache._items.values()) <= 100


# Paths


def test_a_short_file_is_looked_for_once_and_again_when_all_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    located = list[Sequence[ObjectId]]()
    locate = Transaction.locate

    def count(self: Transaction, tenant_id: TenantId, object_ids: Sequence[ObjectId]) -> Any:
        located.append(object_ids)
        return locate(self, tenant_id, object_ids)

    limits = Limits(inline_bytes=800)  # So short that no row has room for it.
    with holdfast.open(tmp_path / "vault", limits=limits) as vault:
        files = vault.namespace("alice").files
        files.write("short", b"short" * 200)
        files.write("long", bytes(range(256)) * 80)
        monkeypatch.setattr(Transaction, "locate", count)
        assert {files.read("short") for _ in range(3)} == {b"short" * 200}
        assert len(located) == 1
        vault._context.forget_caches()
        assert files.read("short") == b"short" * 200
        assert len(located) == 2
        assert {files.read("long") for _ in range(3)} == {bytes(range(256)) * 80}
        assert len(located) == 5


@given(st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=5))
def test_a_path_that_is_taken_can_never_lead_out(parts: list[bytes]) -> None:
    path = b"/".join(parts)
    try:
        key = to_key(path)
    except InvalidPath:
        names = path.split(b"/")
        assert b"\0" in path or any(name in (b"", b".", b"..") for name in names)
        return
    assert key == path
    assert to_key(to_text(key)) == key
    # Where the operating system would look for it is inside, and its name is unchanged.
    assert os.path.normpath(os.path.join(b"/root", key)) == b"/root/" + key


def test_directories_above_a_path_come_outermost_first() -> None:
    assert [*ancestors(b"a/b/c")] == [b"a", b"a/b"]
    assert [*ancestors(b"a")] == []
    assert (parent_of(b"a/b/c"), parent_of(b"a")) == (b"a/b", b"")


@pytest.mark.parametrize(
    ("path", "key"),
    [("", b""), (".", b""), (b"", b""), (b".", b""), ("a", b"a"), ("a/", b"a"), (b"a/b/", b"a/b")],
)
def test_a_directory_may_be_named_in_more_ways_than_a_file(path: str, key: bytes) -> None:
    assert to_folder(path) == key


@pytest.mark.parametrize("path", ["/", "//", "a//", "./a", "..", "../", "a/./"])
def test_a_directory_outside_is_refused_all_the_same(path: str) -> None:
    with pytest.raises(InvalidPath):
        to_folder(path)


# Content


class Chunks:
    """A stage and a vault in one dict; counts what is new."""

    def __init__(self) -> None:
        self.known: dict[ObjectId, bytes] = {}
        self.new_bytes = self.new_chunks = 0

    def add(self, data: bytes, kind: ObjectKind) -> ObjectId:
        assert kind is ObjectKind.CHUNK
        object_id = object_id_of(data)
        if object_id not in self.known:
            self.known[object_id] = data
            self.new_bytes += len(data)
            self.new_chunks += 1
        return object_id

    def spill(self) -> None:
        """Has room for everything."""

    def get_many(self, object_ids: Sequence[ObjectId]) -> dict[ObjectId, bytes]:
        return {object_id: self.known[object_id] for object_id in object_ids}

    def forget_counts(self) -> None:
        self.new_bytes = self.new_chunks = 0


def as_file(chunks: Any, data: bytes) -> Inline | Blob:
    return content.as_file(chunks, data)


def as_stream(chunks: Any, stream: Any, *, max_bytes: int = 1 << 40) -> Inline | Blob:
    return content.store_stream(chunks, stream, max_bytes=max_bytes)


def as_value(chunks: Any, value: Any) -> Inline | Blob:
    return content.as_value(chunks, encode(value))


class Trickle:
    """A stream that gives a few bytes at a time, as pipes and sockets do."""

    def __init__(self, data: bytes, step: int) -> None:
        self._rest, self._step = io.BytesIO(data), step

    def read(self, size: int = -1, /) -> bytes:
        assert size >= 0
        return self._rest.read(min(size, self._step))


noise = Random(7).randbytes(5 * MIB)
SIZES = [0, 1, 256, 257, 4096, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 300_000, 5 * MIB]


@pytest.mark.parametrize("size", SIZES)
def test_content_comes_back_whichever_way_it_went_in(size: int) -> None:
    chunks, data = Chunks(), noise[:size]
    entry = as_file(chunks, data)
    assert content.read(chunks, entry) == b"".join(content.stream(chunks, entry)) == data
    assert entry.size == size
    assert len(encode_entry(entry)) < 600
    assert as_stream(chunks, io.BytesIO(data)) == entry
    # The second step is all that is asked for but one byte.
    for step in (7001, content.FILES.whole_bytes):
        assert as_stream(chunks, Trickle(data, step=step)) == entry


def test_small_content_stays_in_its_entry() -> None:
    chunks = Chunks()
    assert as_file(chunks, b"x" * 256) == Inline(b"x" * 256)
    assert chunks.new_chunks == 0
    assert isinstance(as_file(chunks, b"x" * 257), Blob)
    assert chunks.new_chunks == 1


def test_an_insertion_in_the_middle_of_a_large_file_adds_few_chunks() -> None:
    chunks = Chunks()
    as_file(chunks, noise)
    assert chunks.new_chunks > 40
    chunks.forget_counts()
    middle = len(noise) // 2
    changed = noise[:middle] + b"inserted" + noise[middle:]
    entry = as_file(chunks, changed)
    # One or two chunks of content, and as many of the list that names them.
    assert chunks.new_chunks <= 6
    assert chunks.new_bytes < 1 * MIB
    assert content.read(chunks, entry) == changed


def test_an_appended_list_stores_its_tail_alone() -> None:
    chunks, random = Chunks(), Random(3)
    messages = [{"role": "user", "content": random.randbytes(100).hex()} for _ in range(5000)]
    first = as_value(chunks, messages)
    assert first.size > MIB
    chunks.forget_counts()
    longer = as_value(chunks, [*messages, {"role": "user", "content": "the newest"}])
    assert chunks.new_bytes < 64 << 10
    assert decode_value(content.read(chunks, longer))[-1]["content"] == "the newest"


def test_a_long_list_of_chunks_is_content_of_its_own() -> None:
    chunks = Chunks()
    entry = as_file(chunks, noise)
    assert isinstance(entry, Blob)
    assert entry.depth >= 1
    assert len(unpack_refs(entry.refs)) <= content.MAX_REFS
    needed = set(content.list_refs(chunks, entry))
    assert needed == chunks.known.keys()
    assert {i for i, _ in content.content_refs(chunks, entry)} < needed


@pytest.mark.parametrize("size", [1001, 100_000, 300_000])
def test_a_stream_is_measured_as_it_is_read(size: int) -> None:
    with pytest.raises(TooLarge):
        as_stream(Chunks(), io.BytesIO(noise[:size]), max_bytes=size - 1)
    assert as_stream(Chunks(), io.BytesIO(noise[:size]), max_bytes=size).size == size


@pytest.mark.parametrize("text", ["", "short", "long" * 100_000])
def test_a_stream_of_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        as_stream(Chunks(), io.StringIO(text))


def test_a_chunk_of_another_size_is_damage() -> None:
    chunks = Chunks()
    entry = as_file(chunks, noise[:300_000])
    assert isinstance(entry, Blob)
    wrong = next(iter(chunks.known))
    chunks.known[wrong] += b"more"
    with pytest.raises(Damaged):
        content.read(chunks, entry)
    short = msgspec.structs.replace(as_file(Chunks(), b"x" * 300), size=299)
    chunks.add(b"x" * 300, ObjectKind.CHUNK)
    with pytest.raises(Damaged):
        content.read(chunks, short)


# Settling


class Nodes:
    """The nodes of maps that are built here."""

    def __init__(self) -> None:
        self.known: dict[ObjectId, Node] = {}

    def build(self, entries: dict[bytes, Entry]) -> ObjectId:
        rows = [(key, encode_entry(entry)) for key, entry in sorted(entries.items())]
        built = build(rows)
        self.known |= {node_id: decode_node(data) for node_id, data in built.nodes.items()}
        return built.root

    def get_nodes(self, ids: Sequence[ObjectId], /) -> list[Node]:
        return [self.known[node_id] for node_id in ids]


FILE, LINK, USUAL, OWN = Inline(b"x", 0o644), Link(b"x"), Directory(0o755), Directory(0o700)
Entries = dict[bytes, Entry]
Wanted = dict[bytes, Entry | None]


def settled(there: Entries, wanted: Wanted) -> Entries:
    nodes = Nodes()
    changes = {key: entry and encode_entry(entry) for key, entry in wanted.items()}
    result = settle(nodes, nodes.build(there), changes)
    after = {key: encode_entry(entry) for key, entry in there.items()} | result
    return {key: decode_entry(data) for key, data in after.items() if data is not None}


def clashes(there: Entries, wanted: Wanted) -> list[bytes]:
    nodes = Nodes()
    changes = {key: entry and encode_entry(entry) for key, entry in wanted.items()}
    return find_clashes(nodes, nodes.build(there), changes)


SETTLED: dict[str, tuple[Entries, Wanted, list[bytes], Entries]] = {
    "nothing in the way": ({b"a": FILE}, {b"b": FILE}, [], {b"a": FILE, b"b": FILE}),
    "a file above": ({b"a": FILE}, {b"a/b": FILE}, [b"a"], {b"a/b": FILE}),
    "a link above": ({b"a": LINK}, {b"a/b/c": FILE}, [b"a"], {b"a/b/c": FILE}),
    "files below": (
        {b"a/b": FILE, b"a/c/d": FILE, b"a-b": FILE, b"a0": FILE},
        {b"a": FILE},
        [b"a/b", b"a/c/d"],
        {b"a": FILE, b"a-b": FILE, b"a0": FILE},
    ),
    "what is below goes anyway": ({b"a/b": FILE}, {b"a": FILE, b"a/b": None}, [], {b"a": FILE}),
    "what is above goes anyway": ({b"a": FILE}, {b"a": None, b"a/b": FILE}, [], {b"a/b": FILE}),
    "a directory that is no longer empty": ({b"a": USUAL}, {b"a/b": FILE}, [], {b"a/b": FILE}),
    "a directory with a mode of its own": (
        {b"a": OWN},
        {b"a/b": FILE},
        [],
        {b"a": OWN, b"a/b": FILE},
    ),
    "an empty directory that is not": ({b"a/b": FILE}, {b"a": USUAL}, [], {b"a/b": FILE}),
    "an empty directory that becomes one": (
        {b"a/b": FILE},
        {b"a": USUAL, b"a/b": None},
        [],
        {b"a": USUAL},
    ),
    "directories within directories": (
        {},
        {b"a": USUAL, b"a/b": USUAL, b"a/b/c": OWN},
        [],
        {b"a/b/c": OWN},
    ),
}


@pytest.mark.parametrize("most", [fitting.MOST_WEIGHT, 1], ids=["at once", "one by one"])
@pytest.mark.parametrize("case", SETTLED)
def test_changes_are_made_to_fit(case: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "MOST_WEIGHT", most)
    there, wanted, in_the_way, after = SETTLED[case]
    assert clashes(there, wanted) == in_the_way
    assert settled(there, wanted) == after


NAMES = [b"a", b"a-b", b"a0", b"b", b"a/b", b"a/b-c", b"b/a", b"a/b/c", b"a/b/d"]
ENTRIES = st.sampled_from([FILE, LINK, USUAL, OWN])


def tidy(found: Entries) -> Entries:
    """Returns a tree that keeps the rules: nothing below a file, no needless directory."""
    kept: Entries = {}
    for name in sorted(found):
        if all(isinstance(kept.get(folder, USUAL), Directory) for folder in ancestors(name)):
            kept[name] = found[name]
    return {
        name: entry
        for name, entry in kept.items()
        if entry != USUAL or not any(other.startswith(name + b"/") for other in kept)
    }


trees = st.dictionaries(st.sampled_from(NAMES), ENTRIES).map(tidy)


@given(there=trees, theirs=trees, chosen=st.sets(st.sampled_from(NAMES)))
def test_whatever_is_settled_is_a_tree(there: Entries, theirs: Entries, chosen: set[bytes]) -> None:
    wanted: Wanted = {name: theirs.get(name) for name in chosen if name in {*there, *theirs}}
    after = settled(there, wanted)
    assert after == tidy(after)
    # What was wanted is there: only a needless directory may have given way to what is in it.
    for name, entry in wanted.items():
        is_implied = any(other.startswith(name + b"/") for other in after)
        if entry is not None:
            assert after.get(name) == entry or (entry == USUAL and is_implied)


def kept_after(there: Entries, gone: Sequence[bytes], *, stays: Callable[[bytes], bool]) -> Wanted:
    nodes = Nodes()
    changes = dict.fromkeys(gone)
    result = keep_emptied(nodes, nodes.build(there), changes, stays=stays)
    assert all(result[key] is None for key in gone)
    return {key: decode_entry(data) for key, data in result.items() if data is not None}


def test_a_directory_that_loses_its_last_file_is_still_there() -> None:
    there: Entries = {b"a/b/c": FILE, b"a/b/d": FILE, b"e/f": FILE, b"g/h": FILE, b"g": OWN}
    assert kept_after(there, [b"a/b/c"], stays=lambda _: True) == {}
    assert kept_after(there, [b"a/b/c", b"a/b/d"], stays=lambda _: True) == {b"a/b": USUAL}
    above = kept_after(there, [b"a/b/c", b"a/b/d"], stays=lambda name: name == b"a")
    assert above == {b"a": USUAL}
    assert kept_after(there, [b"e/f"], stays=lambda _: False) == {}
    # Its own entry, with its own mode, is there already.
    assert kept_after(there, [b"g/h"], stays=lambda _: True) == {}


def test_a_directory_is_one_with_or_without_an_entry() -> None:
    nodes = Nodes()
    root = nodes.build({b"a/b": FILE, b"c": USUAL, b"d": LINK})
    found = [is_directory(nodes, root, name) for name in (b"a", b"c", b"d", b"a/b", b"e")]
    assert found == [True, True, False, False, False]


# Choosing what to restore


@pytest.mark.parametrize(
    ("paths", "chosen"),
    [
        (["a"], [b"a", b"a/b", b"a/b/c"]),
        (["a/b"], [b"a/b", b"a/b/c"]),
        (["a/b/"], [b"a/b", b"a/b/c"]),
        (["a-b", "a0"], [b"a-b", b"a0"]),
        (["a*"], [b"a", b"a-b", b"a/b", b"a/b/c", b"a0"]),
        (["?"], [b"a", b"\xff"]),
        (["a/*"], [b"a/b", b"a/b/c"]),
        (["*/c"], [b"a/b/c"]),
        (["a[0-9]"], [b"a0"]),
        (["A"], []),
        ([""], [b"a", b"a-b", b"a/b", b"a/b/c", b"a0", b"\xff"]),
        (["."], [b"a", b"a-b", b"a/b", b"a/b/c", b"a0", b"\xff"]),
        (["\udcff"], [b"\xff"]),
        (["nothing"], []),
    ],
)
def test_paths_choose_what_is_below_them_or_matches(paths: list[str], chosen: list[bytes]) -> None:
    selects = path_filter(paths)
    names = [b"a", b"a-b", b"a/b", b"a/b/c", b"a0", b"\xff"]
    assert [name for name in names if selects(name)] == chosen


@pytest.mark.parametrize("path", ["pages/[id].tsx", "what?", "*", "[", "a[!b]"])
def test_a_name_that_looks_like_a_pattern_still_means_itself(path: str) -> None:
    selects = path_filter([path])
    assert selects(path.encode())
    assert selects(path.encode() + b"/below")


# Retention


NOW = datetime(2026, 6, 30, 12, tzinfo=UTC)
LIMITS = Limits()


def snapshot(number: int, *, days: float, **fields: Any) -> SnapshotInfo:
    taken = NOW - timedelta(days=days)
    values: dict[str, Any] = {
        "id": SnapshotId(f"snap-{number}"),
        "namespace_id": NamespaceId(1),
        "number": number,
        "kind": Kind.SNAPSHOT,
        "root": ObjectId(b"r" * 32),
        "parent": None,
        "created_at": taken,
        "size": Size(),
        "expires_at": taken + LIMITS.retention,
    }
    return SnapshotInfo(**values | fields)


def gone(timeline: list[SnapshotInfo], policy: Policy | None = None, **head: Any) -> list[int]:
    """Returns the numbers of what would be forgotten."""
    values: dict[str, Any] = {
        "namespace_id": NamespaceId(1),
        "tenant_id": TenantId(1),
        "name": "n",
        "generation": len(timeline),
        "sequence": 0,
        "root": ObjectId(b"r" * 32),
        "position": None,
        "redo": (),
        "size": Size(),
        "created_at": NOW,
    }
    handle: Any = SimpleNamespace(context=SimpleNamespace(clock=lambda: NOW, limits=LIMITS))
    newest_first = sorted(timeline, key=lambda one: -one.number)
    found = choose(handle, Head(**values | head), newest_first, policy or Policy())
    return [one.number for one in found]


def daily(count: int) -> list[SnapshotInfo]:
    return [snapshot(count - day, days=day, expires_at=None) for day in range(count)]


def test_by_default_a_snapshot_goes_after_thirty_days() -> None:
    timeline = [snapshot(4 - at, days=days) for at, days in enumerate([1, 29.9, 30, 31])]
    assert gone(timeline) == [2, 1]


def test_pins_and_what_the_head_needs_never_go() -> None:
    old = [snapshot(number, days=90 - number) for number in range(1, 8)]
    old[0] = snapshot(1, days=89, pinned=True)
    old[2] = snapshot(3, days=87, root=ObjectId(b"q" * 32))
    old[3] = snapshot(4, days=86, parent=SnapshotId("snap-3"))
    assert gone(old) == [6, 5, 4, 3, 2]
    assert gone(old, position=SnapshotId("snap-4"), redo=(SnapshotId("snap-6"),)) == [5, 2]


def test_a_deleted_snapshot_stays_for_the_grace_period() -> None:
    def deleted(number: int, days: float, **fields: Any) -> SnapshotInfo:
        return snapshot(number, days=8, deleted_at=NOW - timedelta(days=days), **fields)

    newest = snapshot(9, days=0)
    assert gone([deleted(1, 6.9), deleted(2, 7), deleted(3, 8), newest]) == [3, 2]
    # A pin keeps retention away, not whoever deletes: the bytes have to come back.
    assert gone([deleted(1, 8, pinned=True), newest]) == [1]
    assert gone([deleted(1, 8), newest], position=SnapshotId("snap-1")) == []
    # What is deleted takes nobody's place.
    assert gone([snapshot(1, days=3), deleted(2, 1), newest], Policy(keep_last=2)) == []


def test_policies_keep_the_newest_of_each() -> None:
    assert gone(daily(10), Policy(keep_last=3)) == [7, 6, 5, 4, 3, 2, 1]
    assert gone(daily(10), Policy(keep_daily=4)) == [6, 5, 4, 3, 2, 1]
    # 2026-06-30 is a Tuesday: its week has two days, the week before begins on the 22nd.
    assert gone(daily(10), Policy(keep_weekly=2)) == [9, 7, 6, 5, 4, 3, 2, 1]
    assert gone(daily(10), Policy(keep_last=1, keep_daily=2, keep_weekly=2)) == [
        7,
        6,
        5,
        4,
        3,
        2,
        1,
    ]
    assert gone(daily(3), Policy(keep_last=100)) == []


def test_of_one_day_the_newest_stays() -> None:
    hours = [snapshot(5 - at, days=at / 24) for at in range(5)]
    assert gone(hours, Policy(keep_daily=1)) == [4, 3, 2, 1]
    assert gone(hours, Policy(keep_daily=7)) == [4, 3, 2, 1]


def test_a_policy_keeps_none_or_more_and_survives_its_row() -> None:
    for rule in ("keep_last", "keep_daily", "keep_weekly"):
        with pytest.raises(InvalidValue):
            Policy(**{rule: -1})
    assert not Policy().is_set
    row: Any = SimpleNamespace(retention=msgspec.json.encode(Policy(keep_daily=3)).decode())
    assert get_policy(row) == Policy(keep_daily=3)
    row = SimpleNamespace(retention=None)
    assert get_policy(row) == Policy()


# Keys and values of the store


halves = st.text(st.sampled_from("\0\x01aé\U0010ffff"), max_size=4) | st.text(max_size=6)


@given(halves, halves)
def test_a_key_comes_back_as_it_was(namespace: str, key: str) -> None:
    assert from_store_key(to_store_key(namespace, key)) == (namespace, key)


@settings(max_examples=300)
@given(st.tuples(halves, halves), st.tuples(halves, halves))
def test_keys_are_in_the_order_of_namespaces_and_then_of_keys(
    first: tuple[str, str], second: tuple[str, str]
) -> None:
    assert (to_store_key(*first) < to_store_key(*second)) == (first < second)


def test_a_key_without_a_namespace_is_damage() -> None:
    for key in (b"", b"abc", b"a\0\xffb"):
        with pytest.raises(Damaged):
            from_store_key(key)


def test_namespaces_that_begin_alike_do_not_see_each_other(tmp_path: Path) -> None:
    with holdfast.open(tmp_path) as vault:
        namespace = vault.namespace("alice")
        groups = ["", "\0", "a", "a\0", "a\0\0", "a\0b", "a\x01", "ab"]
        namespace.store.set_many([(group, f"key of {group}", group) for group in groups[1::2]])
        namespace.snapshot()
        namespace.store.set_many([(group, f"key of {group}", group) for group in groups[::2]])
        for group in groups:
            assert namespace.store.items(group) == [(f"key of {group}", group)]
            assert namespace.store.keys(group, "key") == [f"key of {group}"]
            assert namespace.store.keys(group, "\0") == []
        assert namespace.store.namespaces() == groups
        assert namespace.store.namespaces("a\0") == ["a\0", "a\0\0", "a\0b"]
        for group in groups:
            assert namespace.store.delete(group, f"key of {group}")
            assert group not in namespace.store


# Marking


def test_a_file_that_holds_the_bytes_of_a_node_does_not_hide_what_the_node_leads_to(
    tmp_path: Path,
) -> None:
    with holdfast.open(tmp_path) as vault:
        alice, mallory = vault.namespace("alice"), vault.namespace("mallory")
        alice.files.write_many([(f"{number}", noise[number : number + 300]) for number in range(9)])
        taken = alice.snapshot()
        objects = alice._handle.objects
        node_id = objects.get_root(taken.root).plane(Plane.FILES)
        mallory.files.write("copy", objects.get(node_id))
        copied = mallory.snapshot()
        needed = mark(objects, [taken.root], [])
        assert len(needed) >= 11
        # In whichever order they are looked at: both roots need all that each of them needs.
        for roots in ([copied.root, taken.root], [taken.root, copied.root]):
            assert mark(objects, roots, []) >= needed
        vault.collect(now=True)
        assert [alice.files.read(f"{n}") for n in range(9)] == [
            noise[n : n + 300] for n in range(9)
        ]
        assert vault.verify().ok


# Beside a collector


class Interrupted(IdMaker):
    """Lets something happen between the moment that a pack is ready and its announcement."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None

    def pack(self, vault: str) -> PackName:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().pack(vault)


@pytest.mark.parametrize("is_collected", [True, False])
@pytest.mark.parametrize("changed", ["origin", "fork"])
@pytest.mark.parametrize("operation", ["snapshot", "fork", "merge", "merge back"])
def test_no_snapshot_names_what_was_overwritten_and_collected_meanwhile(
    tmp_path: Path, operation: str, changed: str, is_collected: bool
) -> None:
    ids = Interrupted()
    limits = Limits(inline_bytes=0)
    with holdfast.open(tmp_path, ids=ids, limits=limits) as vault, holdfast.open(tmp_path) as other:
        origin = vault.namespace("origin")
        origin.files.write("shared", noise[:300])
        fork = origin.fork("fork")
        origin.files.write("of the origin", noise[1000:1300])
        fork.files.write("of the fork", noise[2000:2300])

        def interfere() -> None:
            other.namespace(changed).files.write(f"of the {changed}", noise[3000:3300])
            if is_collected:
                other.collect(now=True)

        ids.meanwhile = interfere
        match operation:
            case "snapshot":
                fork.snapshot()
            case "fork":
                fork.fork("another")
            case "merge":
                fork.merge(origin)
            case _:
                origin.merge(fork)
        assert ids.meanwhile is None
        assert vault.verify().ok
        assert other.namespace(changed).files.read(f"of the {changed}") == noise[3000:3300]
        for name in vault.namespaces():
            namespace = vault.namespace(name)
            for taken in namespace.timeline():
                for info in namespace.at(taken).files.list(recursive=True):
                    assert len(namespace.at(taken).files.read(info.path)) == 300
        vault.collect(now=True)
        assert vault.verify().ok


@pytest.mark.parametrize(
    "key",
    [
        *(b"", b"/", b"a", b"a/b", b"a/", b"/a", b"a//b", b".", b"..", b"a/..", b"../a", b"a/./b"),
        *(
            b".a",
            b"..a",
            b"a/..b",
            b"a\0b",
            b"\n",
            b"a\n/b",
            b"...",
            b"a/...",
            b"a/.",
            b"\xff/\xfe",
        ),
        *(b"x" * 255, b"x" * 256, b"a/" + b"y" * 255, b"a/" + b"y" * 256, b"ab/" * 1365),
        *(b"ab/" * 1364 + b"abc", b"ab/" * 1365 + b"a"),
    ],
)
def test_keys_of_maps_are_judged_as_paths_are(key: bytes) -> None:
    try:
        to_key(key)
    except InvalidPath:
        with pytest.raises(Damaged):
            check_key(key)
    else:
        assert check_key(key) == key
