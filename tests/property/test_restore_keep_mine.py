"""A restore that keeps what others did, against a plain history of two hands.

An agent works in tasks, some of them within others, and somebody else changes the same keys before,
during and after them. The model knows who changed what: the newest task goes back first, a key that
is as a task left it goes back to what the task found, and one that somebody else changed since
stays, and is named. Going back is one move: undone, all is as it was.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.errors import NothingToUndo

Key = tuple[str, str]
KEYS: list[Key] = [("files", "a"), ("files", "d/b"), ("store", "k")]
OTHER = -1

keys = st.sampled_from(KEYS)
mostly = st.sampled_from([True, True, False])
writes = st.tuples(st.just("write"), mostly, keys)
removals = st.tuples(st.just("remove"), mostly, keys)
moments = st.tuples(st.sampled_from(["begin", "end", "snapshot"]), mostly, keys)
steps = st.lists(st.one_of(writes, writes, removals, moments), min_size=10, max_size=30).map(
    lambda drawn: [("begin", True, KEYS[0]), *drawn]
)


@dataclass
class World:
    """What is there, and who made it so."""

    agent: Any
    now: dict[Key, str | None] = field(default_factory=dict[Key, str | None])
    values: Iterator[int] = field(default_factory=count)
    history: dict[Key, list[tuple[int, str | None, str | None]]] = field(
        default_factory=dict[Key, list[tuple[int, str | None, str | None]]]
    )

    def put(self, door: Any, who: int, key: Key, value: str | None) -> None:
        plane, name = key
        if value is None and self.now.get(key) is None:
            return
        if plane == "files":
            door.files.delete(name) if value is None else door.files.write(name, value)
        else:
            door.store.delete("s", name) if value is None else door.store.set("s", name, value)
        self.history.setdefault(key, []).append((who, self.now.get(key), value))
        self.now[key] = value

    def shown(self) -> dict[Key, str | None]:
        found = dict[Key, str | None]()
        for key in KEYS:
            plane, name = key
            if plane == "files":
                files = self.agent.files
                found[key] = files.read_text(name) if files.exists(name) else None
            else:
                found[key] = self.agent.store.get("s", name)
        return found

    def restored(
        self, tasks: list[tuple[int, list[int]]], then: dict[Key, str | None]
    ) -> tuple[dict[Key, str | None], set[Key]]:
        """Returns what is there without these tasks, and what stays since others changed it."""
        now, left = {key: self.now.get(key) for key in KEYS}, set[Key]()
        for key in KEYS:
            value, is_left = self._without(key, tasks)
            if not is_left or value == then.get(key):
                now[key] = value
            else:  # Half of the way is a state that nobody has made.
                left.add(key)
        return now, left

    def _without(self, key: Key, tasks: list[tuple[int, list[int]]]) -> tuple[str | None, bool]:
        """Returns how far one key goes back, and whether something of it stays."""
        now, changes, gone = self.now.get(key), self.history.get(key, []), set[int]()
        while True:
            is_left, is_moving = False, False
            for task, within in reversed(tasks):
                # What is done in a task within is done in this one, too.
                own = [(old, new) for who, old, new in changes if who == task or who in within]
                if not own or task in gone:
                    continue
                old, new = own[0][0], own[-1][1]
                is_shared = _is_shared([(task, *each) for each in own])
                # One within that shared it with others is not taken back.
                inner = [_own(changes, w) for w in within]
                found = [each[0][1] for each in inner if each and not _is_shared(each)]
                new = now if now in found else new
                if key[0] == "files" and old is new is now is None:
                    continue
                if now == new and not is_shared:
                    if old != new:
                        now, is_moving = old, True
                        gone.add(task)
                elif now == new or (now != old and (is_shared or old != new)):
                    is_left = True
            if not is_moving:
                return now, is_left


Change = tuple[int, str | None, str | None]


def _own(changes: list[Change], who: int) -> list[Change]:
    return [change for change in changes if change[0] == who]


def _is_shared(own: list[Change]) -> bool:
    """Says whether others changed it between these changes."""
    return any(one[2] != other[1] for one, other in pairwise(own))


def play(
    world: World, other: Any, steps: list[tuple[str, bool, Key]]
) -> list[tuple[int, list[int]]]:
    """Does these steps; returns the tasks, each with those that were begun within it."""
    tasks, running = list[tuple[int, list[int]]](), list[tuple[int, Any]]()
    for word, is_mine, key in steps:
        who = running[-1][0] if running and is_mine else OTHER
        if word == "begin" and len(running) < 2:
            task = world.agent.task(f"t{len(tasks)}")
            task.__enter__()
            for outer, _ in running:
                tasks[outer][1].append(len(tasks))
            running.append((len(tasks), task))
            tasks.append((len(tasks), []))
        elif word == "end" and running:
            running.pop()[1].__exit__(None, None, None)
        elif word == "snapshot":
            other.snapshot()
        elif word in ("write", "remove"):
            door = world.agent if who != OTHER else other
            world.put(door, who, key, f"v{next(world.values)}" if word == "write" else None)
    for _, task in reversed(running):
        task.__exit__(None, None, None)
    return tasks


@pytest.fixture(scope="module")
def vault(home: Path) -> Any:
    with holdfast.open(home / "vault") as opened:
        yield opened


NUMBERS = count()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=steps, before=st.lists(keys, max_size=4))
@example(
    steps=[
        ("begin", True, ("files", "d/b")),
        ("write", True, ("files", "d/b")),
        ("write", False, ("files", "d/b")),
        ("begin", True, ("files", "d/b")),
        ("remove", True, ("files", "d/b")),
    ],
    before=[],
)
def test_what_tasks_did_goes_back_and_what_others_did_stays(
    vault: Any, steps: list[tuple[str, bool, Key]], before: list[Key]
) -> None:
    name = f"n{next(NUMBERS)}"
    agent, other = vault.namespace(name), vault.namespace(name)
    world = World(agent)
    for key in before:
        world.put(other, OTHER, key, f"v{next(world.values)}")
    target = agent.snapshot("here")
    then = world.shown()
    tasks = play(world, other, steps)
    wanted, left = world.restored(tasks, then)
    before_it = world.shown()
    assert before_it == {key: world.now.get(key) for key in KEYS}
    seen = restore(agent, target, dry_run=True)
    assert world.shown() == before_it
    done = restore(agent, target)
    if isinstance(done, NothingToUndo):
        assert wanted == before_it == world.shown()
        assert all(_told(key) in str(done) for key in left)
        return
    assert done.root != done.old_root, "a restore of nothing is none"
    assert world.shown() == wanted
    assert {*done.left} == {*seen.left} == {_told(key) for key in left}
    assert done.verified
    with pytest.raises(NothingToUndo):
        agent.restore(target, keep="mine")
    agent.undo()
    assert world.shown() == before_it


def restore(agent: Any, target: Any, **more: Any) -> Any:
    """Returns what was restored, or would be, or that there is nothing."""
    try:
        return agent.restore(target, keep="mine", **more)
    except NothingToUndo as exc:
        return exc


def _told(key: Key) -> str:
    return f"files:{key[1]}" if key[0] == "files" else f"store:s/{key[1]}"
