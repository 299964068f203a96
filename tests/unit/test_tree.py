"""What the tree costs, what its bytes are, and what it refuses."""

import random
import statistics
import sys
from collections.abc import Iterable, Sequence

import msgspec
import pytest

from holdfast import tree
from holdfast.errors import Damaged
from holdfast.ids import ObjectId, object_id_of
from holdfast.model.basics import EMPTY_MAP
from holdfast.tree import (
    EMPTY,
    MAX_BYTES,
    MAX_ENTRIES,
    MEAN_ENTRIES,
    Applied,
    Built,
    Edit,
    Node,
    apply,
    build,
    closes_node,
    count,
    decode_node,
    diff,
    encode_node,
    get,
    get_many,
    iterate,
    merge,
    prefix_stop,
)
from holdfast.tree.apply import Paths
from holdfast.tree.split import natural_ends


class Nodes:
    """A source that counts what it is asked for."""

    def __init__(self) -> None:
        self.known: dict[ObjectId, Node] = {}
        self.calls = self.reads = 0

    def get_nodes(self, ids: Sequence[ObjectId], /) -> list[Node]:
        self.calls += 1
        self.reads += len(ids)
        return [self.known[node_id] for node_id in ids]

    def add(self, tree: Built | Applied) -> ObjectId:
        self.known |= {node_id: decode_node(data) for node_id, data in tree.nodes.items()}
        self.calls = self.reads = 0
        return tree.root

    def build(self, items: Iterable[tuple[bytes, bytes]]) -> ObjectId:
        return self.add(build(items))


def numbered(size: int) -> list[tuple[bytes, bytes]]:
    return [(b"src/module_%06d.py" % number, b"%d" % number) for number in range(size)]


def never_closing(size: int, *, suffix: bytes = b"") -> list[bytes]:
    """Keys that an adversary would pick: none of them closes a node at the lower levels."""
    keys = (b"%07d" % number + suffix for number in range(size * 2))
    open_keys = [key for key in keys if not any(closes_node(key, level) for level in range(3))]
    return open_keys[:size]


GOLDEN_NUMBERED = "e4e0672bdd83766d3824db46040b34b8b81dbbf4cae107c3153a0944e53e3bd5"
GOLDEN_CROWDED = "7072d247b1f6daa0532ea429b20bb165a14b11bf8c80b1df112cd89b8f5d918d"
GOLDEN_HEAVY = "0c0c321667be598627a723097e787ceb77fa8daac3bf3f1eb3408f25aae18766"

LARGE = 100_000
SCATTERED = random.Random(7).sample(range(LARGE), 10)


@pytest.fixture(scope="module")
def built() -> tuple[Nodes, ObjectId]:
    nodes = Nodes()
    return nodes, nodes.build(numbered(LARGE))


@pytest.fixture
def large_tree(built: tuple[Nodes, ObjectId]) -> tuple[Nodes, ObjectId, int]:
    """A map of many entries with a source of its own, its root, and its number of levels."""
    nodes = Nodes()
    nodes.known = dict(built[0].known)
    return nodes, built[1], nodes.known[built[1]].level + 1


# Format


def test_the_empty_node_is_the_empty_map() -> None:
    assert object_id_of(encode_node(EMPTY)) == EMPTY_MAP
    assert build([]) == Built(EMPTY_MAP, {}, 0)


def test_a_node_is_the_documented_msgpack() -> None:
    leaf = Node(0, [b"a", b"b"], [b"1", b"2"], [])
    assert msgspec.msgpack.decode(encode_node(leaf)) == [0, [b"a", b"b"], [b"1", b"2"], []]
    assert build([(b"a", b"1"), (b"b", b"2")]).root == object_id_of(encode_node(leaf))


def test_roots_never_change_between_versions() -> None:
    # If this fails, every map stored so far has another root: that is a new format.
    assert build(numbered(5_000)).root.hex() == GOLDEN_NUMBERED
    # Runs too large by rows, and runs too large by bytes at two levels.
    crowded = build((key, b"") for key in never_closing(5_000))
    assert crowded.root.hex() == GOLDEN_CROWDED
    heavy = build((key, b"") for key in never_closing(3_000, suffix=bytes(2_000)))
    assert heavy.root.hex() == GOLDEN_HEAVY


def test_the_public_names_are_exact() -> None:
    assert sorted(tree.__all__) == sorted(set(tree.__all__))
    assert all(hasattr(tree, name) for name in tree.__all__)


@pytest.mark.parametrize(
    "rows",
    [
        (0, [b"b", b"a"], [b"1", b"2"], []),
        (0, [b"a", b"a"], [b"1", b"2"], []),
        (0, [b"a"], [b"1", b"2"], []),
        (0, [b"a"], [b"1"], [1]),
        (1, [], [], []),
        (1, [b"a"], [b"short"], [1]),
        (1, [b"a"], [bytes(32)], []),
        (1, [b"a"], [bytes(32)], [0]),
        (-1, [b"a"], [bytes(32)], [1]),
        (0, [b"a"], ["text"], []),
        "not a node",
    ],
)
def test_bytes_that_are_no_node_are_reported(rows: object) -> None:
    with pytest.raises(Damaged):
        decode_node(msgspec.msgpack.encode(rows))


def test_a_node_in_the_wrong_place_is_reported() -> None:
    nodes = Nodes()
    root = nodes.build(numbered(500))
    first, second = (ObjectId(child) for child in nodes.known[root].values[:2])
    nodes.known[first] = nodes.known[second]
    with pytest.raises(Damaged, match=first.hex()[:16]):
        get(nodes, root, b"")


@pytest.mark.parametrize("keys", [[b"b", b"a"], [b"a", b"a"]])
def test_building_from_unsorted_keys_is_refused(keys: list[bytes]) -> None:
    with pytest.raises(ValueError, match="ascending"):
        build((key, b"") for key in keys)


# Splitting


FAMILIES: dict[str, list[bytes]] = {
    "numbered names": [b"file%05d" % number for number in range(30_000)],
    "numbers": sorted(b"%d" % number for number in range(30_000)),
    "long common prefix": [b"workspace/" * 20 + b"%06d.py" % n for n in range(30_000)],
    "big-endian integers": [number.to_bytes(8, "big") for number in range(30_000)],
    "hexadecimal": [b"%08x" % (number * 17) for number in range(30_000)],
    "times": [
        b"2026-01-01T%02d:%02d:%02dZ" % (n // 3600, n // 60 % 60, n % 60) for n in range(30_000)
    ],
    "random": sorted(map(random.Random(1).randbytes, [16] * 30_000)),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_nodes_have_the_promised_mean_for_every_kind_of_name(family: str) -> None:
    keys = FAMILIES[family]
    ends = natural_ends(keys, 0)
    gaps = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    # A geometric distribution: its deviation is its mean. Bounds are five standard errors.
    assert statistics.mean(gaps) == pytest.approx(MEAN_ENTRIES, rel=0.17)
    assert statistics.pstdev(gaps) == pytest.approx(MEAN_ENTRIES, rel=0.25)
    assert max(gaps) < MEAN_ENTRIES * 13


@pytest.mark.parametrize("size", [4, 8, 20, 33, 64])
def test_levels_close_independently_for_names_of_one_length(size: int) -> None:
    # CRC-32 is linear, and for one length levels differ by a constant: without the mixing
    # step a key that closed a node would close the next level always, or never.
    rng = random.Random(size)
    keys = [rng.randbytes(size) for _ in range(100_000)]
    for level in range(3):
        closing = [keys[end - 1] for end in natural_ends(keys, level)]
        for other in (level + 1, level + 2):
            share = len(natural_ends(closing, other)) / len(closing)
            assert share == pytest.approx(1 / MEAN_ENTRIES, rel=0.5)


def test_one_key_and_many_are_judged_alike() -> None:
    keys = [key for key, _ in numbered(2_000)]
    for level in range(4):
        one_by_one = [at for at, key in enumerate(keys, 1) if closes_node(key, level)]
        assert natural_ends(keys, level) == one_by_one


def test_a_run_is_cut_only_when_it_exceeds_the_bounds() -> None:
    keys = never_closing(MAX_ENTRIES + 1)
    assert len(build([(key, b"") for key in keys[:-1]]).nodes) == 1
    assert len(build([(key, b"") for key in keys]).nodes) == 3
    half = MAX_BYTES // 2
    assert len(build([(key, bytes(half - len(key))) for key in keys[:2]]).nodes) == 1
    assert len(build([(key, bytes(half)) for key in keys[:2]]).nodes) == 3


def test_keys_that_never_close_a_node_still_make_bounded_nodes() -> None:
    nodes = Nodes()
    keys = never_closing(20_000)
    nodes.build((key, b"") for key in keys)
    sizes = [len(node.keys) for node in nodes.known.values()]
    assert max(sizes) <= MAX_ENTRIES
    assert statistics.mean(sizes) > MAX_ENTRIES / 4


def test_an_edit_in_a_large_run_leaves_most_of_its_nodes() -> None:
    nodes = Nodes()
    keys = never_closing(50_001)
    inserted = keys.pop(9_000)
    root = nodes.build((key, b"") for key in keys)
    levels = [node.level for node in nodes.known.values()]
    applied = apply(nodes, root, {inserted: b""})
    assert levels.count(0) > 256
    assert levels.count(1) > 1
    assert len(applied.nodes) <= 8
    # The whole run is read, but in one round trip per parent.
    assert nodes.calls <= 1 + 2 * levels.count(1)


def test_keys_longer_than_a_node_do_not_grow_the_tree_for_ever() -> None:
    nodes = Nodes()
    items = [(b"%03d" % number + bytes(MAX_BYTES), b"") for number in range(40)]
    root = nodes.build(items)
    assert list(iterate(nodes, root)) == items
    assert nodes.known[root].level <= 6
    changed = apply(nodes, root, {items[20][0]: b"new"})
    assert changed.root == build([*items[:20], (items[20][0], b"new"), *items[21:]]).root


# Reading


def test_a_prefix_ends_before_the_next_one() -> None:
    assert prefix_stop(b"a/") == b"a0"
    assert prefix_stop(b"a\xff\xff") == b"b"
    assert prefix_stop(b"\xff") is None
    assert prefix_stop(b"") is None


def test_the_empty_map_is_read_without_a_source() -> None:
    nodes = Nodes()
    assert get(nodes, EMPTY_MAP, b"a") is None
    assert get_many(nodes, EMPTY_MAP, [b"a"]) == {}
    assert list(iterate(nodes, EMPTY_MAP)) == []
    assert count(nodes, EMPTY_MAP) == 0
    assert list(diff(nodes, EMPTY_MAP, EMPTY_MAP)) == []
    assert apply(nodes, EMPTY_MAP, {b"a": None}) == Applied(EMPTY_MAP, {}, [], 0)
    assert nodes.calls == 0


def test_one_key_costs_one_path(large_tree: tuple[Nodes, ObjectId, int]) -> None:
    nodes, root, height = large_tree
    assert get(nodes, root, b"src/module_050000.py") == b"50000"
    assert (nodes.calls, nodes.reads) == (height, height)


def test_many_keys_cost_one_round_trip_per_level(
    large_tree: tuple[Nodes, ObjectId, int],
) -> None:
    nodes, root, height = large_tree
    wanted = {b"src/module_%06d.py" % number: b"%d" % number for number in SCATTERED}
    assert get_many(nodes, root, [*wanted, b"missing"]) == wanted
    assert nodes.calls == height
    assert nodes.reads <= (len(SCATTERED) + 1) * height


def test_counting_reads_the_root_alone(large_tree: tuple[Nodes, ObjectId, int]) -> None:
    nodes, root, _ = large_tree
    assert count(nodes, root) == LARGE
    assert nodes.reads == 1


def test_looking_at_the_first_entries_reads_little(
    large_tree: tuple[Nodes, ObjectId, int],
) -> None:
    nodes, root, _ = large_tree
    assert next(iterate(nodes, root, start=b"src/module_05")) == (b"src/module_050000.py", b"50000")
    assert nodes.reads <= 8


def test_reading_everything_takes_few_round_trips(
    large_tree: tuple[Nodes, ObjectId, int],
) -> None:
    nodes, root, _ = large_tree
    assert sum(1 for _ in iterate(nodes, root)) == LARGE
    assert nodes.reads == len(nodes.known)
    assert nodes.calls < len(nodes.known) / 8


def test_a_range_reads_only_what_it_covers(large_tree: tuple[Nodes, ObjectId, int]) -> None:
    nodes, root, height = large_tree
    prefix = b"src/module_0500"
    found = list(iterate(nodes, root, start=prefix, stop=prefix_stop(prefix)))
    assert [value for _, value in found] == [b"%d" % number for number in range(50_000, 50_100)]
    assert nodes.reads <= height + 20


# Changing and comparing


def test_a_few_changes_in_a_large_map_cost_their_paths(
    large_tree: tuple[Nodes, ObjectId, int],
) -> None:
    nodes, root, height = large_tree
    applied = apply(nodes, root, {b"src/module_%06d.py" % n: b"new" for n in SCATTERED})
    assert len(applied.edits) == len(SCATTERED)
    assert nodes.calls == height
    assert nodes.reads <= len(SCATTERED) * height
    assert len(applied.nodes) <= len(SCATTERED) * height


def test_inserting_and_deleting_cost_little_more(
    large_tree: tuple[Nodes, ObjectId, int],
) -> None:
    nodes, root, height = large_tree
    changes: dict[bytes, bytes | None] = {}
    for number in SCATTERED:
        changes[b"src/module_%06d.py" % number] = None
        changes[b"src/module_%06d.pyi" % number] = b""
    applied = apply(nodes, root, changes)
    assert applied.count == LARGE
    assert nodes.reads <= len(changes) * (height + 2)
    assert len(applied.nodes) <= len(changes) * (height + 2)


def test_deleting_a_boundary_joins_two_nodes(large_tree: tuple[Nodes, ObjectId, int]) -> None:
    nodes, root, height = large_tree
    # The last keys of the children of the root close nodes at every level below it.
    boundaries = nodes.known[root].keys[:2]
    applied = apply(nodes, root, dict.fromkeys(boundaries))
    left = [item for item in numbered(LARGE) if item[0] not in boundaries]
    assert applied.root == build(left).root
    assert nodes.reads <= len(boundaries) * 2 * (height + 1)


def test_deleting_a_whole_leaf_leaves_its_neighbours_alone(
    large_tree: tuple[Nodes, ObjectId, int],
) -> None:
    nodes, root, height = large_tree
    leaf = max(nodes.known.values(), key=lambda node: (node.level == 0, len(node.keys)))
    applied = apply(nodes, root, dict.fromkeys(leaf.keys))
    assert applied.count == LARGE - len(leaf.keys)
    assert nodes.reads == height
    assert len(applied.nodes) == height - 1


def test_deleting_every_boundary_is_not_quadratic() -> None:
    nodes = Nodes()
    items = numbered(20_000)
    root = nodes.build(items)
    closing = [items[end - 1][0] for end in natural_ends([key for key, _ in items], 0)]
    applied = apply(nodes, root, dict.fromkeys(closing))
    gone = set(closing)
    assert applied.root == build(item for item in items if item[0] not in gone).root


def test_what_is_so_already_is_no_change(large_tree: tuple[Nodes, ObjectId, int]) -> None:
    nodes, root, height = large_tree
    same = apply(nodes, root, {b"missing": None, b"src/module_000007.py": b"7"})
    assert same == Applied(root, {}, [], LARGE)
    assert nodes.calls == height
    assert apply(nodes, root, {}) == same


def test_deleting_everything_leaves_the_empty_map() -> None:
    nodes = Nodes()
    items = numbered(3_000)
    applied = apply(nodes, nodes.build(items), {key: None for key, _ in items})
    assert (applied.root, applied.nodes, applied.count) == (EMPTY_MAP, {}, 0)
    assert applied.edits == [Edit(key, value, None) for key, value in items]


def test_deleting_all_but_the_untouched_leaf_makes_it_the_root() -> None:
    nodes = Nodes()
    items = numbered(3_000)
    root = nodes.build(items)
    [first, *_] = natural_ends([key for key, _ in items], 0)
    applied = apply(nodes, root, {key: None for key, _ in items[first:]})
    assert applied.root == build(items[:first]).root
    assert applied.nodes == {}


def test_a_small_difference_is_found_by_reading_little(
    large_tree: tuple[Nodes, ObjectId, int],
) -> None:
    nodes, root, height = large_tree
    numbers = sorted(SCATTERED)
    changes = {b"src/module_%06d.py" % number: b"new" for number in numbers}
    new_root = nodes.add(apply(nodes, root, changes))
    edits = [Edit(key, b"%d" % n, b"new") for n, key in zip(numbers, changes, strict=True)]
    assert list(diff(nodes, root, new_root)) == edits
    assert nodes.reads <= 2 * len(SCATTERED) * height
    assert nodes.calls <= len(SCATTERED) * height / 2


def test_values_that_changed_are_found_without_looking_each_key_up(
    large_tree: tuple[Nodes, ObjectId, int],
) -> None:
    nodes, root, _ = large_tree
    new_root = nodes.add(apply(nodes, root, {b"src/module_%06d.py" % n: b"new" for n in SCATTERED}))
    looked_up = list[object]()
    sys.setprofile(lambda _, kind, what: looked_up.append(what) if kind == "c_call" else None)
    try:
        edits = list(diff(nodes, root, new_root))
    finally:
        sys.setprofile(None)
    asked = [each for each in looked_up if getattr(each, "__name__", "") == "get"]
    assert len(edits) == len(SCATTERED)
    assert len(asked) < 10 * len(SCATTERED), "one for each row of a node is some hundred each"


def test_a_shifted_boundary_does_not_spread_the_reading(
    large_tree: tuple[Nodes, ObjectId, int],
) -> None:
    nodes, root, height = large_tree
    boundary = nodes.known[root].keys[0]
    new_root = nodes.add(apply(nodes, root, {boundary: None}))
    assert [edit.key for edit in diff(nodes, root, new_root)] == [boundary]
    assert nodes.reads <= 8 * height


def test_a_difference_outside_the_range_is_not_read(
    large_tree: tuple[Nodes, ObjectId, int],
) -> None:
    nodes, root, _ = large_tree
    new_root = nodes.add(apply(nodes, root, {b"src/module_000007.py": b"new"}))
    assert list(diff(nodes, root, new_root, start=b"src/module_05")) == []
    assert list(diff(nodes, root, new_root, stop=b"src/module_000007.py")) == []
    assert nodes.reads <= 2 * (2 + 2 * 4)


def test_the_first_difference_comes_before_the_rest_is_read(
    large_tree: tuple[Nodes, ObjectId, int],
) -> None:
    nodes, root, height = large_tree
    assert next(diff(nodes, EMPTY_MAP, root)) == Edit(b"src/module_000000.py", None, b"0")
    assert nodes.reads <= 16 * height


def test_both_sides_changing_one_key_differently_is_a_conflict() -> None:
    nodes = Nodes()
    base = nodes.build([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    ours = nodes.add(apply(nodes, base, {b"a": b"2", b"b": b"2", b"c": None}))
    theirs = nodes.add(apply(nodes, base, {b"a": b"3", b"b": b"2", b"c": None, b"d": b"4"}))
    merged = merge(nodes, base, ours, theirs)
    assert merged.changes == {b"d": b"4"}
    assert merged.conflicts == [tree.Conflict(b"a", b"1", b"2", b"3")]


def test_a_root_has_no_neighbours() -> None:
    nodes = Nodes()
    root = nodes.build(numbered(5))
    paths = Paths(nodes, root, nodes.known[root])
    [spot] = paths.sorted_spots(0)[1].values()
    with pytest.raises(ValueError, match="neighbours"):
        paths.step(spot, 1)
