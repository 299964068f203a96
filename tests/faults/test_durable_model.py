"""A durable store against a dict: whatever is done, and however often it is closed or dies.

Rules open it anew, cleanly or after a death, let others write to its namespace in between, and
take and restore snapshots. After each of them the store is what the dict says.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import holdfast
from holdfast.durable import keeping
from holdfast.durable.store import DurableStore, open_store
from holdfast.testing.postgres import find_base

names = st.sampled_from(["a", "b", "", "a\0", "ü"])
keys = st.sampled_from(["", "k", "k\0", "kk", "long" * 100, "\U0001f600"])
values = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.text(max_size=5),
    st.sampled_from(["x" * 300, "y" * 5000]),
    st.lists(st.integers(0, 9), max_size=3),
)
Model = dict[tuple[str, str], Any]


class Kept(RuleBasedStateMachine):
    """The store, and the dict that it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="durable-model-", dir=find_base()))
        self.model: Model = {}
        self.snapshots: list[tuple[Any, Model]] = []
        # What the log holds and the catalog does not, also if it came to nothing in the end.
        self.logged: set[tuple[str, str]] = set()
        # Short enough for logs to be exchanged in the middle of a run.
        self.short = patch.multiple(keeping, LONG_LOG=2000, STEP=600)
        self.short.start()
        self.store: DurableStore

    @initialize(sync=st.sampled_from(["full", "normal"]))
    def begin(self, sync: keeping.Sync) -> None:
        self.sync = sync
        self.store = open_store(self.folder, sync=sync)

    @rule(namespace=names, key=keys, value=values)
    def set(self, namespace: str, key: str, value: Any) -> None:
        self.store.set(namespace, key, value)
        self.model[namespace, key] = value
        self.logged.add((namespace, key))

    @rule(items=st.lists(st.tuples(names, keys, values), max_size=5))
    def set_many(self, items: list[tuple[str, str, Any]]) -> None:
        self.store.set_many(items)
        self.model |= {(namespace, key): value for namespace, key, value in items}
        self.logged |= {(namespace, key) for namespace, key, _ in items}

    @rule(namespace=names, key=keys)
    def delete(self, namespace: str, key: str) -> None:
        was_there = (namespace, key) in self.model
        assert self.store.delete(namespace, key) is was_there
        self.model.pop((namespace, key), None)
        self.logged |= {(namespace, key)} if was_there else set()

    @rule()
    def clear(self) -> None:
        self.store.clear()
        self.logged |= self.model.keys()
        self.model.clear()

    @rule(holds=st.booleans())
    def snapshot(self, holds: bool) -> None:
        taken = self.store.snapshot()
        self.snapshots.append((taken if holds else taken.id, dict(self.model)))

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        taken, model = data.draw(st.sampled_from(self.snapshots))
        self.store.restore(taken)
        self.model = dict(model)

    @precondition(lambda self: len(self.snapshots) > 1)
    @rule(data=st.data())
    def look_back(self, data: st.DataObject) -> None:
        taken, model = data.draw(st.sampled_from(self.snapshots))
        base, before = data.draw(st.sampled_from(self.snapshots))
        assert dict(self.store.at(taken).items()) == model
        by_id = {each.id: each for each in self.store.history()}
        new, old = (by_id[each if isinstance(each, str) else each.id] for each in (taken, base))
        assert new.diff(old) == {
            "added": sorted(model.keys() - before.keys()),
            "removed": sorted(before.keys() - model.keys()),
            "changed": sorted(k for k in model.keys() & before.keys() if model[k] != before[k]),
        }

    @rule()
    def close_and_open(self) -> None:
        self.store.close()
        self.store = open_store(self.folder, sync=self.sync)

    @rule()
    def die_and_open(self) -> None:
        # What the kernel does for the dead: descriptors are closed, locks end.
        self.store._finalizer()
        self.store = open_store(self.folder, sync=self.sync)

    @rule(namespace=names, key=keys, value=values, dies=st.booleans())
    def others_write_in_between(self, namespace: str, key: str, value: Any, dies: bool) -> None:
        own = self.logged.copy() if dies else set()
        if dies:
            self.store._finalizer()
        else:
            self.store.close()
        with holdfast.open(self.folder) as vault:
            vault.namespace("store").store.set(namespace, key, value)
        self.store = open_store(self.folder, sync=self.sync)
        if (namespace, key) not in own:
            self.model[namespace, key] = value

    @rule(namespace=names, key=keys, value=values)
    def others_write_meanwhile(self, namespace: str, key: str, value: Any) -> None:
        self.store.snapshot()
        with holdfast.open(self.folder) as vault:
            vault.namespace("store").store.set(namespace, key, value)
        self.store.snapshot()
        self.model[namespace, key] = value

    @invariant()
    def is_what_the_dict_says(self) -> None:
        assert dict(self.store.items()) == self.model
        assert len(self.store) == len(self.model)
        if self.store._log.position == self.store._clean_at:
            self.logged.clear()

    def teardown(self) -> None:
        try:
            self.store.close()
            with holdfast.open(self.folder) as vault:
                assert dict(vault.namespace("store").store.items()) == self.model
                assert vault.verify().faults == []
        finally:
            self.short.stop()
            shutil.rmtree(self.folder)


TestKept = Kept.TestCase
TestKept.settings = settings(
    settings.default, max_examples=settings.default.max_examples // 2, stateful_step_count=25
)
