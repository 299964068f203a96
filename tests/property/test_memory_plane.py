"""Whatever is done, in whatever order: memories are those of a simple model, in every moment.

The model is a dictionary for each namespace, and a copy of it for each snapshot. Beside memories a
value of the store is written, so that restores of one plane are told from those of another.
"""

import shutil
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import holdfast
from holdfast import Name, Plane
from holdfast.testing.clocks import Watch
from holdfast.testing.postgres import find_base

START = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = ("tea", "coffee", "rain", "x" * 400)
PLANES = st.sets(st.sampled_from(["memories", "store", "files"]), min_size=1)

Held = tuple[dict[str, str], int]
"""What is remembered, by id, and the value beside it."""


@dataclass
class World:
    """One namespace of the model."""

    memories: dict[str, str] = field(default_factory=dict[str, str])
    value: int = 0
    deleted: dict[str, str] = field(default_factory=dict[str, str])
    """What `recover` brings back."""
    snapshots: dict[str, Held] = field(default_factory=dict[str, Held])

    def held(self) -> Held:
        return dict(self.memories), self.value

    def show(self, held: Held) -> None:
        self.deleted |= {k: v for k, v in self.memories.items() if k not in held[0]}
        self.memories, self.value = dict(held[0]), held[1]


class Remembering(RuleBasedStateMachine):
    """Adds, changes, forgets, takes snapshots, goes back, forks."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-plane-", dir=find_base()))
        self.clock = Watch(START, step=timedelta(microseconds=1))
        self.vault = holdfast.open(self.folder / "vault", clock=self.clock)
        self.worlds = {"main": World()}
        self.vault.namespace("main").snapshot()
        self.worlds["main"].snapshots[self.vault.namespace("main").timeline()[0].id] = ({}, 0)

    def teardown(self) -> None:
        assert self.vault.verify().faults == []
        self.vault.close()
        shutil.rmtree(self.folder)

    def pick(self, data: st.DataObject) -> tuple[holdfast.Namespace, World]:
        name = data.draw(st.sampled_from(sorted(self.worlds)))
        return self.vault.namespace(name), self.worlds[name]

    @rule(data=st.data(), word=st.sampled_from(WORDS))
    def add(self, data: st.DataObject, word: str) -> None:
        ns, world = self.pick(data)
        content = f"{word} {len(world.memories)}"
        world.memories[ns.memory.add(content).id] = content

    @rule(data=st.data(), value=st.integers(1, 3))
    def write(self, data: st.DataObject, value: int) -> None:
        ns, world = self.pick(data)
        ns.store.set("s", "k", value)
        world.value = value

    @rule(data=st.data(), word=st.sampled_from(WORDS))
    def update(self, data: st.DataObject, word: str) -> None:
        ns, world = self.pick(data)
        if world.memories:
            memory_id = data.draw(st.sampled_from(sorted(world.memories)))
            ns.memory.update(memory_id, content=word)
            world.memories[memory_id] = word

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        ns, world = self.pick(data)
        if world.memories:
            memory_id = data.draw(st.sampled_from(sorted(world.memories)))
            ns.memory.delete(memory_id)
            world.deleted[memory_id] = world.memories.pop(memory_id)

    @rule(data=st.data())
    def recover(self, data: st.DataObject) -> None:
        ns, world = self.pick(data)
        there = sorted(world.deleted.keys() - world.memories.keys())
        if there and ns.timeline()[-1].kind is not holdfast.Kind.FORK:
            # In a fork nothing was deleted before its rows were there.
            memory_id = data.draw(st.sampled_from(there))
            ns.memory.recover(memory_id)
            world.memories[memory_id] = world.deleted[memory_id]

    @rule(data=st.data())
    def snapshot(self, data: st.DataObject) -> None:
        ns, world = self.pick(data)
        world.snapshots[ns.snapshot().id] = world.held()

    @rule(data=st.data(), is_dry=st.booleans())
    def restore(self, data: st.DataObject, is_dry: bool) -> None:
        ns, world = self.pick(data)
        snapshot = data.draw(st.sampled_from(sorted(world.snapshots)))
        goal, before = world.snapshots[snapshot], world.held()
        restored = ns.restore(snapshot, dry_run=is_dry)
        told = {c.name: c.change for c in restored.changes if c.plane is Plane.MEMORIES}
        texts = before[0].items() ^ goal[0].items()
        assert {name for name, _ in texts} <= told.keys()
        assert {k for k, word in told.items() if word == "removed"} == before[0].keys() - goal[0]
        if not is_dry:
            assert restored.verified
            world.show(goal)

    @rule(data=st.data(), planes=PLANES)
    def restore_planes(self, data: st.DataObject, planes: set[str]) -> None:
        ns, world = self.pick(data)
        snapshot = data.draw(st.sampled_from(sorted(world.snapshots)))
        memories, value = world.snapshots[snapshot]
        ns.restore(snapshot, planes=sorted(planes))
        here, there = world.held()
        world.show(
            (memories if "memories" in planes else here, value if "store" in planes else there)
        )

    @rule(data=st.data(), spares=st.booleans())
    def restore_names(self, data: st.DataObject, spares: bool) -> None:
        ns, world = self.pick(data)
        snapshot = data.draw(st.sampled_from(sorted(world.snapshots)))
        then, value = world.snapshots[snapshot]
        known = sorted({*then, *world.memories})
        if not known:
            return
        chosen = data.draw(st.sets(st.sampled_from(known), min_size=1, max_size=3))
        names = [Name.memory(memory_id) for memory_id in sorted(chosen)]
        here = world.held()
        if spares:
            ns.restore(snapshot, except_=names)
            source, spared = then, {k: v for k, v in here[0].items() if k in chosen}
            kept = {k: v for k, v in source.items() if k not in chosen}
            world.show(({**kept, **spared}, value))
        else:
            ns.restore(snapshot, names=names)
            kept = {k: v for k, v in here[0].items() if k not in chosen}
            world.show(({**kept, **{k: v for k, v in then.items() if k in chosen}}, here[1]))

    @rule(data=st.data())
    def there_and_back(self, data: st.DataObject) -> None:
        ns, world = self.pick(data)
        ns.store.set("s", "mark", self.clock.now.isoformat())
        ns.snapshot()
        before = world.held()
        snapshot = data.draw(st.sampled_from(sorted(world.snapshots)))
        ns.restore(snapshot)
        world.show(world.snapshots[snapshot])
        self.agrees()
        if ns.undo().target:
            world.show(before)
            self.agrees()
            ns.redo()
            world.show(world.snapshots[snapshot])

    @precondition(lambda self: len(self.worlds) < 4)
    @rule(data=st.data(), at_snapshot=st.booleans())
    def fork(self, data: st.DataObject, at_snapshot: bool) -> None:
        ns, world = self.pick(data)
        name = f"fork{len(self.worlds)}"
        if at_snapshot:
            snapshot = data.draw(st.sampled_from(sorted(world.snapshots)))
            fork, held = ns.fork(name, at=snapshot), world.snapshots[snapshot]
        else:
            fork, held = ns.fork(name), world.held()
        made = World(dict(held[0]), held[1])
        made.snapshots[fork.timeline()[0].id] = held
        self.worlds[name] = made

    @invariant()
    def agrees(self) -> None:
        """What is listed, found and counted is what the model has."""
        for name, world in self.worlds.items():
            ns = self.vault.namespace(name)
            listed = ns.memory.list(limit=1000)
            assert {memory.id: memory.content for memory in listed} == world.memories
            instants = [memory.created_at for memory in listed]
            assert instants == sorted(instants, reverse=True)
            assert ns.store.get("s", "k", default=0) == world.value
            for word in WORDS[:3]:
                found = {each.id for each in ns.memory.search(word, threshold=0.0, limit=1000)}
                wanted = {k for k, text in world.memories.items() if word in text.split()}
                assert found == wanted


TestRemembering = Remembering.TestCase
TestRemembering.settings = settings(max_examples=10, stateful_step_count=20, deadline=None)
