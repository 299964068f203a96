"""The store of a namespace against a dict, whatever is pending and whatever is stored."""

from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import holdfast
from holdfast.testing.postgres import find_base
from holdfast.tree import Node, build, decode_node, iterate

NAMES = st.sampled_from(["a", "a\0", "a\0b", "b", ""])
KEYS = st.sampled_from(["", "a", "ab", "b", "\0", "\xff", "z" * 40])
VALUES = st.one_of(st.integers(0, 3), st.just("long" * 100))
Pairs = dict[tuple[str, str], object]


class StoreMachine(RuleBasedStateMachine):
    """Writes, deletes, snapshots and restores; every answer is compared with plain dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(dir=find_base())
        self.vault = holdfast.open(self.folder.name)
        self.store = self.vault.namespace("alice").store
        self.model: Pairs = {}
        self.taken: list[tuple[str, Pairs]] = []

    def teardown(self) -> None:
        self.vault.close()
        self.folder.cleanup()

    @rule(name=NAMES, key=KEYS, value=VALUES)
    def set(self, name: str, key: str, value: object) -> None:
        self.store.set(name, key, value)
        self.model[name, key] = value

    @rule(items=st.lists(st.tuples(NAMES, KEYS, VALUES), max_size=12))
    def set_many(self, items: list[tuple[str, str, object]]) -> None:
        self.store.set_many(items)
        self.model |= {(name, key): value for name, key, value in items}

    @rule(name=NAMES, key=KEYS)
    def delete(self, name: str, key: str) -> None:
        assert self.store.delete(name, key) == ((name, key) in self.model)
        self.model.pop((name, key), None)

    @rule()
    def clear(self) -> None:
        self.store.clear()
        self.model.clear()

    @rule()
    def snapshot(self) -> None:
        self.taken.append((self.store.snapshot().id, dict(self.model)))

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        if self.taken:
            chosen, self.model = data.draw(st.sampled_from(self.taken))
            self.model = dict(self.model)
            self.store.restore(chosen)

    @rule(data=st.data())
    def diff(self, data: st.DataObject) -> None:
        if self.taken:
            (old_id, old), (new_id, new) = (data.draw(st.sampled_from(self.taken)) for _ in "ab")
            by_id = {snapshot.id: snapshot for snapshot in self.store.history()}
            assert by_id[new_id].diff(old_id) == {
                "added": sorted(new.keys() - old.keys()),
                "removed": sorted(old.keys() - new.keys()),
                "changed": sorted(k for k in new.keys() & old.keys() if new[k] != old[k]),
            }
            assert by_id[new_id].keys == sorted(new)
            assert dict(self.store.at(old_id).items()) == old

    @invariant()
    def shows_what_the_model_does(self) -> None:
        assert self.store.items() == sorted(self.model.items(), key=lambda item: item[0])
        names = sorted({name for name, _ in self.model})
        assert self.store.namespaces() == names
        for name in ("a", "a\0", "a\0b", "b", "", "none"):
            keys = sorted(key for each, key in self.model if each == name)
            assert self.store.keys(name) == keys
            assert self.store.max_key(name) == max(keys, default=None)
            assert (name in self.store) == (name in names)
        pairs = [(name, key) for name in ("a", "a\0b") for key in ("", "a", "b", "\0", "none")]
        assert self.store.get_many(pairs) == [self.model.get(pair) for pair in pairs]
        assert [self.store.get(*pair) for pair in pairs] == [self.model.get(p) for p in pairs]
        assert len(self.store) == len(self.model)


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=25, stateful_step_count=20)


class Nodes:
    def __init__(self, nodes: dict[bytes, bytes]) -> None:
        self.nodes = nodes
        self.read = 0

    def get_nodes(self, ids, /) -> list[Node]:
        self.read += len(ids)
        return [decode_node(self.nodes[each]) for each in ids]


def key_of(number: int) -> bytes:
    return number.to_bytes(4, "big")


TREES = {
    count: build((key_of(2 * number), b"%d" % number) for number in range(count))
    for count in (0, 1, 50, 500, 9000)
}


@pytest.mark.parametrize("count", TREES)
@given(data=st.data())
def test_what_is_below_a_stop_comes_from_the_one_before_it_down(
    count: int, data: st.DataObject
) -> None:
    stop = data.draw(st.one_of(st.none(), st.integers(0, 2 * count + 2)))
    start = data.draw(st.integers(0, 2 * count + 2))
    below = count if stop is None else min((stop + 1) // 2, count)
    nodes, root = Nodes(dict(TREES[count].nodes)), TREES[count].root
    until = None if stop is None else key_of(stop)
    found = next(iterate(nodes, root, stop=until, down=True), None)
    assert found == ((key_of(2 * below - 2), b"%d" % (below - 1)) if below else None)
    assert nodes.read <= 7, "more than two nodes of a level"
    up = [*iterate(nodes, root, start=key_of(start), stop=until)]
    assert [*iterate(nodes, root, start=key_of(start), stop=until, down=True)] == up[::-1]
