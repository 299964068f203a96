"""Ids that are used again, against plain lists: whoever has one has its own history, and all of it.

Few ids, and much that brings another session under one. Every session bears the name of its owner
in its state; a fork has that of its origin. Whatever was done, the history of each session that is
there is its owner's alone, holds all that it ever held, and can be asked for by number. One whose
id nobody had before, as a fork, has every version from 0 on. And the vault is sound.
"""

import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

import holdfast
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.errors import Conflict, NotFound, NothingToUndo
from holdfast.testing.clocks import Watch
from holdfast.testing.postgres import find_base

IDS = ("x", "y")
TERM_S = 3600
Step = tuple[str, int]

WORDS = (
    *("create", "create", "write", "fork", "fork", "roll back", "delete", "delete", "wait"),
    *("snapshot", "restore", "undo", "export", "import", "branch", "switch", "merge", "collect"),
)
steps = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 9)), min_size=8, max_size=30)


class World:
    """A vault with a namespace and its fork, and what every session was seen to have made."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.folder = Watch(step=timedelta(microseconds=1)), folder
        limits = Limits(free_floor_bytes=0)
        self.vault = holdfast.open(folder / "vault", clock=self.clock, limits=limits)
        self.agents = [self.vault.namespace("main")]
        self.agent, self.owners, self.archives = self.agents[0], 0, list[Path]()
        self.held: dict[tuple[str, str], dict[str, Any]] = {}
        """What each snapshot of each namespace holds that was asked for."""
        self.seen: dict[tuple[str, str, Any], dict[int, Any]] = {}
        """By namespace, id and beginning: versions by number."""

    def do(self, word: str, number: int) -> None:
        with suppress(NotFound, Conflict):
            self._talk(word, number)
            self._go(word, number)
            self._bring(word, number)

    def _some_id(self, number: int) -> str:
        known = sorted({*IDS, *self.shown(self.agent)})
        return known[number % len(known)]

    def _talk(self, word: str, number: int) -> None:
        sessions, name = self.agent.sessions, self._some_id(number)
        match word:
            case "create":
                self.owners += 1
                term = TERM_S if number > 4 else None
                state = {"of": self.owners}
                sessions.create("a", session_id=name, initial_state=state, ttl_seconds=term)
            case "write":
                state = {**(sessions.get(name).state or {}), "n": number}
                sessions.add_turn(name, f"{number}", "yes", state_after=state)
            case "fork":
                newest = sessions.get(name)
                made = sessions.fork(name, None if number % 2 else newest.version)
                assert (made.version, made.state) == (0, newest.state)
                assert [each.state for each in sessions.history(made.id)] == [newest.state]
            case "roll back":
                first = sessions.history(name)[0]
                assert sessions.rollback(name, first.number).state == first.state
            case "delete":
                sessions.delete(name)
            case _:
                pass

    def _go(self, word: str, number: int) -> None:
        agent = self.agent
        match word:
            case "wait":
                self.clock.wait(timedelta(seconds=TERM_S))
            case "snapshot":
                shown = self.shown(agent)
                self.held[agent.name, agent.snapshot().id] = shown
            case "restore":
                held = [shot for name, shot in self.held if name == agent.name]
                if held:
                    agent.restore(target := held[number % len(held)])
                    assert self.shown(agent) == self.held[agent.name, target]
            case "undo":
                agent.undo()
            case "collect":
                self.vault.collect(now=True)
            case _:
                pass

    def _bring(self, word: str, number: int) -> None:
        agent, others = self.agent, [each for each in self.agents if each is not self.agent]
        match word:
            case "export":
                self.archives.append(self.folder / f"{len(self.archives)}.tar")
                agent.export(self.archives[-1])
            case "import" if self.archives:
                agent.import_(self.archives[number % len(self.archives)])
            case "branch" if not others:
                held = [shot for name, shot in self.held if name == agent.name]
                at = held[number % len(held)] if held and number % 2 else None
                self.agents.append(agent.fork("fork", at=at))
            case "switch":
                self.agent = self.agents[number % len(self.agents)]
            case "merge" if others:
                agent.merge(others[number % len(others)], prefer="theirs")
            case _:
                pass

    def go_back(self) -> None:
        """Undoes all that can be, step by step: terms that end meanwhile are in nobody's way."""
        agent = self.agent
        left = len(agent.timeline(limit=None))
        with suppress(NothingToUndo):
            while True:
                self.clock.wait(timedelta(seconds=TERM_S))
                self.shown(agent)
                agent.undo()
                assert (left := left - 1) >= 0, "an undo leads nowhere"

    def shown(self, agent: Namespace) -> dict[str, Any]:
        return {each.id: each.state for each in agent.sessions.list(limit=None)}

    def check(self) -> None:
        sessions = self.agent.sessions
        for info in sessions.list(limit=None):
            whose = self.agent.name, info.id, info.created_at
            others = [each for each in self.seen if each[:2] == whose[:2] and each != whose]
            history = {each.number: each.state for each in sessions.history(info.id, limit=None)}
            assert self.seen.get(whose, {}).items() <= history.items(), "what was is there"
            self.seen[whose] = history
            assert (info.version, info.state) == (max(history), history[max(history)])
            assert not any(history.keys() & self.seen[each].keys() for each in others)
            owners = {str((state or {})["of"]) for state in history.values()}
            assert len(owners) == 1, "a history is one owner's"
            if info.id not in IDS and not others:
                assert [*history] == [*range(len(history))]
            for number, state in history.items():
                assert sessions.get_state(info.id, version=number).state == state


@example(steps=[("create", 5), ("wait", 0), ("snapshot", 0)])
@example(steps=[("create", 5), ("snapshot", 0), ("wait", 0), ("branch", 1), ("snapshot", 0)])
@example(steps=[("create", 5), ("export", 0), ("wait", 0), ("import", 0)])
@given(steps=steps)
def test_whoever_has_an_id_has_all_of_its_own_history(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory(dir=find_base()) as folder:
        world = World(Path(folder))
        try:
            for word, number in [("create", 0), ("snapshot", 0), *steps]:
                world.do(word, number)
                world.check()
            for agent in world.agents:
                world.agent = agent
                world.check()
                world.go_back()
                world.check()
            assert world.vault.verify().faults == []
        finally:
            world.vault.close()
