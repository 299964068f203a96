"""Tasks beside each other, against a plain history: each is taken back without the others' work.

And one of a directory, which does not say what it changes, beside tasks that do.

Up to eight tasks and somebody outside change keys of all planes, one step at a time in any order.
Tasks end well, fail or are taken back later, snapshots fold and the collector collects meanwhile.
The model knows who changed what, in which order; what is there is always what it says.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.errors import NothingToUndo, OthersChanged

Key = tuple[str, str]
"""A plane, and the name of an entry there."""

KEYS: list[Key] = [
    *(("files", name) for name in ("a", "d/b", "d/c")),
    *(("store", name) for name in ("k", "l", "m")),
]
SESSIONS = ("s0", "s1")
MEMORIES = ("first", "second")
OUTSIDE = "outside"
STEPS = 30


class Failure(Exception):
    """What goes wrong in a task."""


Moment = tuple[dict[Key, Any], dict[Key, int]]

Then = tuple[Any, Moment, dict[Key, int]]
"""A snapshot, what it holds, and how often each key had been changed by then."""


@dataclass
class Model:
    """What is there, and who made it so: of each key, every change since the beginning."""

    now: dict[Key, Any] = field(default_factory=dict[Key, Any])
    history: dict[Key, list[tuple[str, Any, Any]]] = field(
        default_factory=dict[Key, list[tuple[str, Any, Any]]]
    )
    versions: dict[Key, int] = field(default_factory=dict[Key, int])
    """Of sessions, which change of all it was that made what is there: to say the same again makes
    a version, and only a restore brings one back."""
    made: dict[Key, list[tuple[int, int]]] = field(default_factory=dict[Key, list[tuple[int, int]]])
    """What each change found, and what it left."""
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def change(self, who: str, key: Key, value: Any, version: int | None = None) -> None:
        found = self.versions.get(key, 0)
        if key[0] == "sessions":
            self.versions[key] = next(self.numbers) if version is None else version
        self.made.setdefault(key, []).append((found, self.versions.get(key, 0)))
        self.history.setdefault(key, []).append((who, self.now.get(key), value))
        self.now[key] = value

    def moment(self) -> Moment:
        return dict(self.now), dict(self.versions)

    def go_back(self, task: str, key: Key, value: Any) -> None:
        """Changes what a task at work takes back of itself: it goes on from what it found."""
        steps = zip(self.history[key], self.made[key], strict=True)
        found = next(before for (who, *_), (before, _) in steps if who == task)
        self.change(task, key, value, found)

    def bring_back(self, who: str, key: Key, value: Any) -> None:
        """Changes what becomes what some task found last."""
        steps = [*zip(self.history[key], self.made[key], strict=True)]
        found = next(before for (_, old, _), (before, _) in reversed(steps) if old == value)
        self.change(who, key, value, found)

    def counts(self) -> dict[Key, int]:
        return {key: len(changes) for key, changes in self.history.items()}

    def go_to(self, who: str, moment: Moment) -> None:
        then, versions = moment
        for key in {*self.now, *then}:
            if self.now.get(key) != then.get(key):
                self.change(who, key, then.get(key), versions.get(key, 0))
        self.versions |= {key: versions.get(key, 0) for key in self.versions}

    def take_back(self, task: str) -> tuple[dict[Key, Any], set[Key]]:
        """Returns what goes back when a task is taken back, and what others changed since."""
        back, left = dict[Key, Any](), set[Key]()
        for key, changes in self.history.items():
            own = [
                ((old, before), (new, after))
                for (who, old, new), (before, after) in zip(changes, self.made[key], strict=True)
                if who == task
            ]
            if not own:
                continue
            old, new, now = own[0][0][0], own[-1][1][0], self.now.get(key)
            is_shared = any(one[1] != other[0] for one, other in pairwise(own))
            if key[0] == "files" and old is new is now is None:
                # Made and deleted: it may as well have been a directory that came and went.
                continue
            if now == new:
                if is_shared:
                    left.add(key)
                elif old != new:
                    back[key] = old
            elif now != old and (is_shared or old != new):
                left.add(key)
        return back, left


class World:
    """A namespace, the tasks that run in it, and what should be there."""

    def __init__(self, vault: Any, name: str, tasks: int) -> None:
        self.vault, self.name, self.numbers = vault, name, count(1)
        self.outside = vault.namespace(name)
        self.ids = [
            self.outside.sessions.create("a", session_id=f"{name}-{s}").id for s in SESSIONS
        ]
        self.remembered = {self.outside.memory.add(word).id: word for word in MEMORIES}
        """What each memory said last, also if it is deleted now."""
        memories = {("memories", each): word for each, word in self.remembered.items()}
        self.keys = [*KEYS, *(("sessions", each) for each in self.ids), *memories]
        self.model = Model({("sessions", each): (0, ()) for each in self.ids} | memories)
        self.then = list[Then]()
        self.remember_then()
        self.agents = {f"{n}": vault.namespace(name) for n in range(tasks)}
        self.open = {
            name: agent.task(name, rollback_on_failure=True) for name, agent in self.agents.items()
        }
        self.runs = {name: task.__enter__() for name, task in self.open.items()}

    def agent(self, who: str) -> Any:
        return self.agents.get(who, self.outside)

    def write(self, who: str, key: Key, chance: random.Random) -> None:
        plane, name = key
        agent, is_gone = self.agent(who), chance.random() < 0.25
        there = self.model.now.get(key)
        if plane == "sessions":
            if there is None:
                return
            if is_gone and chance.random() < 0.2:
                agent.sessions.delete(name)
                self.model.change(who, key, None)
            elif is_gone:
                said = f"{next(self.numbers)}"
                agent.sessions.add_turn(name, said, "o")
                self.model.change(who, key, (there[0], (*there[1], said)))
            else:
                value = next(self.numbers)
                agent.sessions.update_state(name, {"v": value, "long": "x" * 600})
                self.model.change(who, key, (value, there[1]))
        elif plane == "memories":
            self.remember(who, key, chance, is_gone=is_gone)
        elif is_gone:
            if there is None:
                return
            agent.store.delete("n", name) if plane == "store" else agent.files.delete(name)
            self.model.change(who, key, None)
        elif plane == "store":
            # Few values: to write what is there is no change of anybody's.
            value = chance.randrange(3)
            agent.store.set("n", name, value)
            self.model.change(who, key, value)
        else:
            value = f"{next(self.numbers)}" * chance.choice((1, 4000))
            agent.files.write(name, value)
            self.model.change(who, key, value)

    def remember(self, who: str, key: Key, chance: random.Random, *, is_gone: bool) -> None:
        memory, memory_id, there = self.agent(who).memory, key[1], self.model.now.get(key)
        if there is None:
            memory.recover(memory_id)
            self.model.change(who, key, self.remembered[memory_id])
        elif is_gone:
            memory.delete(memory_id)
            self.model.change(who, key, None)
        else:
            # A word of its own, and short or so long that maps have it as chunks.
            value = f"word{next(self.numbers)} " * chance.choice((1, 800))
            memory.update(memory_id, content=value)
            self.model.change(who, key, value)

    def end(self, who: str, *, fails: bool) -> None:
        task = self.open.pop(who, None)
        if task is None:
            return
        if not fails:
            task.__exit__(None, None, None)
            return
        back, left = self.model.take_back(who)
        error = Failure()
        if left:
            with pytest.raises(OthersChanged) as caught:
                task.__exit__(Failure, error, None)
            assert {*caught.value.names} == self.named(left)
            return
        task.__exit__(Failure, error, None)
        for key, value in back.items():
            self.model.change(f"undo of {who}", key, value)

    def undo(self, who: str, *, keep_mine: bool) -> None:
        back, left = self.model.take_back(who)
        run = self.runs[who].id
        for dry_run in (True, False):
            if left and not keep_mine:
                with pytest.raises(OthersChanged) as caught:
                    self.outside.undo(task=run, dry_run=dry_run)
                assert {*caught.value.names} == self.named(left)
            elif not back:
                # A directory that it made is there again, and empty: the model knows of none.
                with suppress(NothingToUndo):
                    done = self.outside.undo(task=run, keep_mine=keep_mine, dry_run=dry_run)
                    assert {(c.plane.value, c.name) for c in done.changes} == {("files", "d")}
            else:
                done = self.outside.undo(task=run, keep_mine=keep_mine, dry_run=dry_run)
                assert {(c.plane.value, c.name.removeprefix("n/")) for c in done.changes} >= {*back}
                assert {*done.left} == self.named(left)
                assert done.verified is not dry_run
        if back and (keep_mine or not left):
            for key, value in back.items():
                if who in self.open:
                    self.model.go_back(who, key, value)
                else:
                    self.model.change(f"undo of {who}", key, value)

    def remember_then(self) -> None:
        snapshot = self.outside.snapshot()
        self.then.append((snapshot, self.model.moment(), self.model.counts()))

    def restore(self, chance: random.Random) -> None:
        snapshot, then, _ = chance.choice(self.then)
        self.outside.restore(snapshot)
        self.model.go_to(OUTSIDE, then)

    def restore_beside(self, chance: random.Random) -> None:
        """What tasks did goes back where that is known; what stays has not moved at all."""
        snapshot, (then, _), counts = chance.choice(self.then)
        before = dict(self.model.now)
        try:
            done = self.outside.restore(snapshot, keep="mine")
            left = {*done.left}
        except NothingToUndo:
            left = None
        found = self.find()
        for key in {*before, *found}:
            changes = self.model.history.get(key, [])
            since = changes[counts.get(key, 0) :]
            was, now = before.get(key), found.get(key)
            name = next(iter(self.named({key})))
            if was != now:
                by_tasks = [new for who, _, new in changes if who in self.agents]
                assert was in by_tasks, "what others made last stays"
                assert name not in (left or ()), "what stays has not moved"
                self.model.bring_back(OUTSIDE, key, now)
            if all(who in self.agents for who, *_ in since):
                is_told = left is None or name in left
                assert now == then.get(key) or is_told, "tasks alone have changed it"

    @staticmethod
    def named(keys: set[Key]) -> set[str]:
        return {f"{plane}:{'n/' if plane == 'store' else ''}{name}" for plane, name in keys}

    def find(self) -> dict[Key, Any]:
        agent, found = self.outside, dict[Key, Any]()
        for name in agent.store.keys("n"):
            found["store", name] = agent.store.get("n", name)
        for info in agent.files.list(recursive=True):
            if info.kind == "file":
                found["files", info.path] = agent.files.read_text(info.path)
        for session in agent.sessions.list(limit=100):
            turns = agent.sessions.list_turns(session.id)
            said = tuple(turn.input["content"] for turn in reversed(turns))
            found["sessions", session.id] = (session.state.get("v", 0), said)
        for memory in agent.memory.list(limit=100):
            found["memories", memory.id] = self.remembered[memory.id] = memory.content
            word = memory.content.split()[0]
            assert [each.id for each in agent.memory.search(word, threshold=0.0)] == [memory.id]
        return found

    def check(self) -> None:
        there = {key: value for key, value in self.model.now.items() if value is not None}
        assert self.find() == there


def play(world: World, chance: random.Random) -> None:
    for _ in range(STEPS):
        who = chance.choice([*world.open, OUTSIDE])
        match chance.randrange(20):
            case 0:
                world.end(chance.choice([*world.agents]), fails=True)
            case 1:
                world.end(chance.choice([*world.agents]), fails=False)
            case 2 | 3:
                world.undo(chance.choice([*world.agents]), keep_mine=chance.random() < 0.3)
            case 4:
                world.remember_then()
            case 5:
                world.restore(chance)
            case 6:
                world.vault.collect()
            case 7:
                world.restore_beside(chance)
            case _:
                world.write(who, chance.choice(world.keys), chance)
        world.check()
    for who in [*world.open]:
        world.end(who, fails=chance.random() < 0.5)
        world.check()


_names = count()


@given(seed=st.integers(0, 2**32), tasks=st.integers(2, 8))
@settings(max_examples=12)
def test_each_task_is_taken_back_alone(home: Path, seed: int, tasks: int) -> None:
    with holdfast.open(home / f"vault-{next(_names)}") as vault:
        play(World(vault, "agent", tasks), random.Random(seed))


@given(seed=st.integers(0, 2**32), tasks=st.integers(2, 8))
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_task_is_taken_back_alone_on_postgres(
    tmp_path: Path, postgres_url: str, seed: int, tasks: int
) -> None:
    with holdfast.open(postgres_url, objects=tmp_path / "packs") as vault:
        play(World(vault, f"agent-{next(_names)}", tasks), random.Random(seed))


# Of a directory


class Beside:
    """A directory in which a task fails, and others who say with each change whose it is."""

    def __init__(self, vault: Any, tree: Path, chance: random.Random) -> None:
        tree.mkdir()
        self.tree, self.chance, self.numbers = tree, chance, count(1)
        self.project = vault.workspace(tree, namespace="agent")
        self.plain, self.others = vault.namespace("agent"), vault.namespace("agent")
        for name in ("t0", "t1", "t2"):
            (tree / name).write_text("before")
        for name in ("k0", "k1", "k2", "k3"):
            self.plain.store.set("n", name, 0)
        self.by: dict[Key, set[str]] = {}

    def act(self) -> None:
        value, plane = next(self.numbers), self.chance.choice(("store", "store", "files"))
        is_noted = self.chance.random() < 0.5
        if plane == "store":
            name = self.chance.choice(("k0", "k1", "k2", "k3"))
            self.act_as(is_noted, lambda agent: agent.store.set("n", name, value))
        else:
            # In the directory itself nobody says whose it is.
            name = self.chance.choice(("n0", "d/n1") if is_noted else ("t0", "t1", "e/t3"))
            path = self.tree / name
            if is_noted:
                self.act_as(True, lambda agent: agent.files.write(name, f"{value}"))
            elif path.exists() and self.chance.random() < 0.3:
                path.unlink()
            else:
                path.parent.mkdir(exist_ok=True)
                path.write_text(f"{value}")
        self.by.setdefault((plane, name), set()).add("others" if is_noted else "task")

    def act_as(self, is_noted: bool, act: Callable[[Any], object]) -> None:
        if not is_noted:
            act(self.plain)
            return
        with self.others.task("other"):
            act(self.others)

    def find(self) -> dict[Key, Any]:
        files = (path for path in self.tree.rglob("*") if path.is_file())
        found: dict[Key, Any] = {
            ("files", str(path.relative_to(self.tree))): path.read_text() for path in files
        }
        return found | {
            ("store", k): self.plain.store.get("n", k) for k in self.plain.store.keys("n")
        }

    def play(self) -> None:
        before, task = self.find(), self.project.task("fails", rollback_on_failure=True)
        run = task.__enter__()
        for _ in range(self.chance.randrange(1, 12)):
            self.act()
            if self.chance.random() < 0.2:
                self.project.snapshot()
        self.project.agree()
        after = self.find()
        both = {key for key, by in self.by.items() if len(by) == 2}
        own = {key for key, by in self.by.items() if by == {"task"}}
        wanted = after | {key: before.get(key) for key in own}
        error = Failure()
        if both:
            with pytest.raises(OthersChanged) as caught:
                task.__exit__(Failure, error, None)
            assert {*caught.value.names} == World.named(both)
            assert self.find() == after
            with suppress(NothingToUndo):
                done = self.project.undo(task=run.id, keep_mine=True)
                assert ({*done.left}, done.by_snapshots) == (World.named(both), True)
        else:
            task.__exit__(Failure, error, None)
            assert run.rolled_back.by_snapshots
            assert run.rolled_back.verified
        assert self.find() == {key: value for key, value in wanted.items() if value is not None}


@given(seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_a_task_of_a_directory_takes_nothing_of_others_back(home: Path, seed: int) -> None:
    folder = home / f"beside-{next(_names)}"
    folder.mkdir()
    with holdfast.open(folder / "vault") as vault:
        Beside(vault, folder / "tree", random.Random(seed)).play()
