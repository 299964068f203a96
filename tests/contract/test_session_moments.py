"""What is answered of a session is of one moment, on both catalogs, whoever restores meanwhile."""

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import cycle
from threading import Event, Semaphore
from typing import Any

import pytest

import holdfast
from holdfast.catalog.transaction import Transaction
from holdfast.testing.clocks import Watch

Open = Callable[..., holdfast.Holdfast]
Seen = tuple[str, int, int]
"""The state, how many turns there are, and how many memories."""

OLD: Seen = ("old", 1, 1)
NEW: Seen = ("new", 2, 2)


def of_context(agent: holdfast.Namespace, **asked: Any) -> Seen:
    found = agent.sessions.get_context("s", **asked)
    return found.state["is"], len(found.recent_turns), len(found.memories)


def of_info(found: holdfast.SessionInfo) -> Seen:
    return found.state["is"], found.turn_count, found.memory_count


def of_turns(agent: holdfast.Namespace) -> Seen:
    turns = agent.sessions.list_turns("s", include_state=True)
    assert turns[0].state_after is not None
    return turns[0].state_after["is"], len(turns), len(turns)


READERS: dict[str, Callable[[holdfast.Namespace], Seen]] = {
    "context": of_context,
    "context for a question": lambda agent: of_context(agent, query="something remembered"),
    "get": lambda agent: of_info(agent.sessions.get("s")),
    "list": lambda agent: of_info(agent.sessions.list()[0]),
    "update": lambda agent: of_info(agent.sessions.update("s", metadata={"a": 1})),
    "turns": of_turns,
}


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2025, 3, 1, tzinfo=UTC), step=timedelta(microseconds=1))


@pytest.fixture
def agent(opener: Open) -> holdfast.Namespace:
    return opener().namespace("alice")


def make_both(agent: holdfast.Namespace) -> tuple[str, str]:
    """Returns snapshots of two moments of a session."""
    agent.sessions.create("bot", session_id="s")
    made = list[str]()
    for name in ("old", "new"):
        agent.sessions.add_turn("s", name, "yes", state_after={"is": name})
        agent.memory.add(f"something {name} is remembered", session_id="s")
        made.append(agent.snapshot(name).id)
    return made[0], made[1]


class BetweenTransactions:
    """Does something whenever a transaction that only reads has ended."""

    def __init__(self, agent: holdfast.Namespace, act: Callable[[], object]) -> None:
        self._catalog, self._act = agent._handle.context.catalog, act
        self._is_quiet, self.times = False, 0

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("read", "ask"):
            opens = getattr(self._catalog, name)
            monkeypatch.setattr(self._catalog, name, lambda opens=opens: self._opened(opens))

    @contextmanager
    def _opened(
        self, opens: Callable[[], AbstractContextManager[Transaction]]
    ) -> Generator[Transaction]:
        with opens() as transaction:
            yield transaction
        if not self._is_quiet:
            self._is_quiet = True
            self._act()
            self._is_quiet = False
            self.times += 1


@pytest.mark.parametrize("reader", READERS)
def test_an_answer_is_of_one_moment_though_each_transaction_is_followed_by_a_restore(
    agent: holdfast.Namespace, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = cycle(make_both(agent))
    between = BetweenTransactions(agent, lambda: agent.restore(next(moments)))
    between.patch(monkeypatch)
    assert {READERS[reader](agent) for _ in range(6)} <= {OLD, NEW}
    assert between.times or reader == "update"


def test_no_answer_mixes_two_moments_beside_restores(agent: holdfast.Namespace) -> None:
    moments, restored, is_over = cycle(make_both(agent)), Semaphore(0), Event()

    def flip() -> None:
        while not is_over.is_set():
            agent.restore(next(moments))
            restored.release()

    readers = {name: read for name, read in READERS.items() if name != "update"}
    seen = {name: set[Seen]() for name in readers}
    with ThreadPoolExecutor(1) as pool:
        flipping = pool.submit(flip)
        try:
            for _ in range(30):  # as many restores beside it, however slow they are
                assert restored.acquire(timeout=30), flipping.exception(0)
                for name, read in readers.items():
                    seen[name] |= {read(agent), read(agent)}
        finally:
            is_over.set()
        flipping.result()
    assert {name: found for name, found in seen.items() if found - {OLD, NEW}} == {}


def test_a_turn_and_the_state_it_left_come_together(agent: holdfast.Namespace) -> None:
    agent.sessions.create("bot", session_id="s")

    def talk() -> None:
        for number in range(40):
            agent.sessions.add_turn("s", f"{number}", "yes", state_after={"last": f"{number}"})

    with ThreadPoolExecutor(1) as pool:
        talking = pool.submit(talk)
        while not talking.done():
            found = agent.sessions.get_context("s")
            said = [turn.input["content"] for turn in found.recent_turns]
            assert found.state.get("last") == next(iter(said), None)
        talking.result()


def test_a_fork_answers_with_what_it_remembers_though_that_has_no_rows_yet(
    agent: holdfast.Namespace,
) -> None:
    make_both(agent)
    for name, read in READERS.items():
        assert read(agent.fork(f"fork-{name.replace(' ', '-')}")) == NEW
