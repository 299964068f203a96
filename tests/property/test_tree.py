"""Laws of the tree: it is a dict, it forgets how it came to be, and diff and merge add up.

Maps are drawn as a few spans over pools of keys. Pools are what an adversary would pick, so
that a few draws make the rare shapes common: runs too large for a node, nodes of one row,
trees many levels deep.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.ids import ObjectId, object_id_of
from holdfast.model.basics import EMPTY_MAP
from holdfast.tree import (
    EMPTY,
    MAX_BYTES,
    MAX_ENTRIES,
    Applied,
    Conflict,
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
from holdfast.tree.split import natural_ends

Contents = dict[bytes, bytes]
Changes = dict[bytes, bytes | None]

law = settings(max_examples=max(150, settings.default.max_examples if settings.default else 0))

NUMBERED = [b"dir/file%05d" % number for number in range(40_000)]
ONCE_CLOSING = [NUMBERED[end - 1] for end in natural_ends(NUMBERED, 0)]
TWICE_CLOSING = [ONCE_CLOSING[end - 1] for end in natural_ends(ONCE_CLOSING, 1)]
NEVER_CLOSING = [key for key in NUMBERED if not any(closes_node(key, level) for level in range(3))]
TINY_ALPHABET = [
    bytes(letters) for size in range(6) for letters in product(b"a\x00\xff", repeat=size)
]
POOLS = [
    NUMBERED[:400],
    ONCE_CLOSING[:300],
    TWICE_CLOSING,
    NEVER_CLOSING[:700],
    TINY_ALPHABET,
]


class Nodes:
    """A source that is stricter than any store: no empty, needless or repeated question."""

    def __init__(self) -> None:
        self.known: dict[ObjectId, Node] = {}

    def add(self, nodes: dict[ObjectId, bytes]) -> None:
        for node_id, data in nodes.items():
            assert object_id_of(data) == node_id
            self.known[node_id] = decode_node(data)

    def get_nodes(self, ids: Sequence[ObjectId], /) -> list[Node]:
        assert ids
        assert EMPTY_MAP not in ids
        assert len(set(ids)) == len(ids)
        return [self.known[node_id] for node_id in ids]

    def build(self, contents: Contents) -> ObjectId:
        built = build(sorted(contents.items()))
        self.add(built.nodes)
        return built.root

    def apply(self, root: ObjectId, changes: Changes) -> Applied:
        applied = apply(self, root, changes)
        self.add(applied.nodes)
        return applied

    def reachable(self, root: ObjectId) -> dict[ObjectId, Node]:
        if root == EMPTY_MAP:
            return {}
        [node] = self.get_nodes([root])
        found = {root: node}
        for child in node.values if node.level else []:
            found |= self.reachable(ObjectId(child))
        return found


@st.composite
def spans(draw: st.DrawFn) -> list[bytes]:
    """Some neighbouring keys of a pool, or every few of them."""
    pool = draw(st.sampled_from(POOLS))
    first = draw(st.one_of(st.just(0), st.integers(0, len(pool) - 1)))
    length = draw(st.one_of(st.integers(1, 5), st.integers(1, len(pool)), st.just(len(pool))))
    return pool[first : first + length : draw(st.integers(1, 3))]


def value_of(key: bytes, *, kind: int) -> bytes:
    """A value that is tiny, or large enough to make runs exceed a node, or beyond a node."""
    match kind:
        case 0 | 1 | 2:
            return bytes(kind)
        case 3:
            return key * 150
        case _:
            return key * 6_000 if key.endswith((b"37", b"a\xff")) else key


@st.composite
def contents(draw: st.DrawFn) -> Contents:
    made: Contents = {}
    for keys in draw(st.lists(spans(), max_size=3)):
        kind = draw(st.integers(0, 4))
        made.update((key, value_of(key, kind=kind)) for key in keys)
    return made


@st.composite
def changes(draw: st.DrawFn) -> Changes:
    made: Changes = {}
    for keys in draw(st.lists(spans(), min_size=1, max_size=4)):
        kind = draw(st.integers(-4, 4))
        made.update((key, None if kind < 0 else value_of(key, kind=kind)) for key in keys)
    return made


def change(old: Contents, made: Changes) -> Contents:
    new: Changes = {**old, **made}
    return {key: new_value for key, new_value in new.items() if new_value is not None}


def naive_diff(old: Contents, new: Contents) -> list[Edit]:
    return [
        Edit(key, old.get(key), new.get(key))
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]


def between(edits: list[Edit], start: bytes, stop: bytes | None) -> Iterator[Edit]:
    return (edit for edit in edits if edit.key >= start and (stop is None or edit.key < stop))


batches = st.lists(changes(), min_size=1, max_size=3)
bounds = st.one_of(st.sampled_from(TINY_ALPHABET), st.sampled_from(NUMBERED[:500]))


@law
@given(contents(), batches, bounds, st.one_of(st.none(), bounds))
def test_a_tree_behaves_like_a_dict(
    model: Contents, made: list[Changes], start: bytes, stop: bytes | None
) -> None:
    nodes = Nodes()
    root = nodes.build(model)
    for batch in made:
        applied = nodes.apply(root, batch)
        root, model = applied.root, change(model, batch)
        wanted = sorted(model.items())
        assert list(iterate(nodes, root)) == wanted
        assert count(nodes, root) == applied.count == len(model)
        assert list(iterate(nodes, root, start=start, stop=stop)) == [
            item for item in wanted if item[0] >= start and (stop is None or item[0] < stop)
        ]
        assert list(iterate(nodes, root, start=start, stop=prefix_stop(start))) == [
            item for item in wanted if item[0].startswith(start)
        ]
        asked = [start, *batch]
        assert get_many(nodes, root, asked) == {key: model[key] for key in asked if key in model}
        for key in asked[:10]:
            assert get(nodes, root, key) == model.get(key)


@law
@given(contents(), batches, st.integers(0, 1_000))
def test_the_order_of_arrival_leaves_no_trace(
    model: Contents, made: list[Changes], seed: int
) -> None:
    nodes = Nodes()
    root = nodes.build(model)
    for batch in made:
        root, model = nodes.apply(root, batch).root, change(model, batch)
    assert root == nodes.build(model)

    arrivals = random.Random(seed).sample(sorted(model.items()), k=len(model))
    half = len(arrivals) // 2
    other = nodes.apply(EMPTY_MAP, dict(arrivals[:half])).root
    assert nodes.apply(other, dict(arrivals[half:])).root == root


@law
@given(contents(), changes())
def test_undoing_changes_brings_the_old_root_back(model: Contents, made: Changes) -> None:
    nodes = Nodes()
    root = nodes.build(model)
    applied = nodes.apply(root, made)
    assert applied.edits == naive_diff(model, change(model, made))
    assert (applied.root == root) == (not applied.edits)
    undone = nodes.apply(applied.root, {edit.key: edit.old for edit in applied.edits})
    assert undone.root == root


@law
@given(contents(), changes())
def test_new_nodes_are_new_and_needed_and_enough(model: Contents, made: Changes) -> None:
    nodes = Nodes()
    root = nodes.build(model)
    old = nodes.reachable(root)
    assert old.keys() == nodes.known.keys()
    applied = nodes.apply(root, made)
    new = nodes.reachable(applied.root)
    assert applied.nodes.keys() == new.keys() - old.keys()


@law
@given(contents(), changes())
def test_every_node_is_sound_and_bounded(model: Contents, made: Changes) -> None:
    nodes = Nodes()
    root = nodes.apply(nodes.build(model), made).root
    for node_id, node in nodes.reachable(root).items():
        assert object_id_of(encode_node(node)) == node_id
        size = sum(map(len, node.keys)) + sum(map(len, node.values))
        assert 1 <= len(node.keys) <= MAX_ENTRIES
        assert size <= MAX_BYTES or len(node.keys) == 1
        assert not any(closes_node(key, node.level) for key in node.keys[:-1])
        for last_key, child_id, total in zip(node.keys, node.values, node.counts, strict=False):
            child = nodes.known[ObjectId(child_id)]
            assert (child.level, child.keys[-1]) == (node.level - 1, last_key)
            assert child.total == total
    top = nodes.known.get(root, EMPTY)
    assert top.level == 0 or len(top.keys) > 1


@law
@given(contents(), changes(), contents(), bounds, st.one_of(st.none(), bounds))
def test_diff_says_what_two_dicts_would(
    old: Contents, made: Changes, other: Contents, start: bytes, stop: bytes | None
) -> None:
    nodes = Nodes()
    root = nodes.build(old)
    assert list(diff(nodes, root, root)) == []
    for new in (change(old, made), other):
        new_root = nodes.build(new)
        edits = naive_diff(old, new)
        assert list(diff(nodes, root, new_root)) == edits
        assert list(diff(nodes, root, new_root, start=start, stop=stop)) == list(
            between(edits, start, stop)
        )
        assert nodes.apply(root, {edit.key: edit.new for edit in edits}).root == new_root


@law
@given(contents(), changes(), changes())
def test_merge_takes_what_one_side_changed(
    base: Contents, our_changes: Changes, their_changes: Changes
) -> None:
    nodes = Nodes()
    ours, theirs = change(base, our_changes), change(base, their_changes)
    base_root, our_root, their_root = map(nodes.build, (base, ours, theirs))
    merged = merge(nodes, base_root, our_root, their_root)
    mirrored = merge(nodes, base_root, their_root, our_root)
    assert merged.conflicts == [
        Conflict(key, base.get(key), ours.get(key), theirs.get(key))
        for key in sorted(base.keys() | ours.keys() | theirs.keys())
        if len({base.get(key), ours.get(key), theirs.get(key)}) == 3
    ]
    assert mirrored.conflicts == [
        Conflict(each.key, each.base, each.theirs, each.ours) for each in merged.conflicts
    ]
    # Both directions agree on all that is not in conflict.
    in_conflict: Changes = dict.fromkeys((each.key for each in merged.conflicts), None)
    one = nodes.apply(nodes.apply(our_root, merged.changes).root, in_conflict).root
    other = nodes.apply(nodes.apply(their_root, mirrored.changes).root, in_conflict).root
    assert one == other


@law
@given(contents(), changes())
def test_merging_with_what_did_not_change_is_taking_the_other(
    base: Contents, made: Changes
) -> None:
    nodes = Nodes()
    root = nodes.build(base)
    changed = nodes.apply(root, made).root
    assert merge(nodes, root, changed, root).changes == {}
    assert merge(nodes, root, changed, changed).changes == {}
    taken = merge(nodes, root, root, changed)
    assert taken.conflicts == []
    assert nodes.apply(root, taken.changes).root == changed
