"""Memories as a snapshot shows them, on both catalogs: what was remembered then, to read."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import holdfast
from holdfast.errors import InvalidValue, MemoryNotFound
from holdfast.testing.clocks import Watch

LONG = "A long story about the sea. " * 300
"""More than an entry holds itself."""


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2031, 5, 6, tzinfo=UTC), step=timedelta(microseconds=1))


@pytest.fixture
def vault(opener: Callable[..., holdfast.Holdfast]) -> Iterator[holdfast.Holdfast]:
    vault = opener(embed=lambda texts: [[float(len(text)), 1.0] for text in texts])
    yield vault
    assert vault.verify().faults == []


@pytest.fixture
def ns(vault: holdfast.Holdfast) -> holdfast.Namespace:
    return vault.namespace("alice")


def test_a_memory_is_what_it_was_whatever_became_of_it(ns: holdfast.Namespace) -> None:
    session = ns.sessions.create("bot", user_id="ada")
    kept = ns.memory.add("tea", type="taste", tags=["drink"], metadata={"sure": True})
    story = ns.memory.add(LONG, session_id=session.id)
    hidden = ns.memory.add("nobody searches this", embed=False, agent_id="bot")
    before = ns.memory.list()
    then = ns.at(ns.snapshot())
    ns.memory.update(kept.id, content="coffee", tags=[], metadata={"sure": False})
    ns.memory.delete(story.id)
    ns.memory.delete(hidden.id)
    later = ns.memory.add("later")
    assert then.memory.list() == before
    assert [then.memory.get(each.id) for each in (kept, story, hidden)] == [kept, story, hidden]
    with pytest.raises(MemoryNotFound):
        then.memory.get(later.id)
    now = ns.at(ns.snapshot())
    assert [each.content for each in now.memory.list()] == ["later", "coffee"]
    with pytest.raises(MemoryNotFound):
        now.memory.get(story.id)
    ns.restore(then.snapshot)
    assert ns.memory.list() == then.memory.list()
    assert [each.content for each in now.memory.list()] == ["later", "coffee"]


def test_what_is_listed_is_chosen_and_paged_as_now(ns: holdfast.Namespace) -> None:
    for number in range(12):
        ns.memory.add(
            f"memory {number}",
            type="odd" if number % 2 else "even",
            tags=[f"tag {number % 3}", "all"],
            user_id="ada" if number < 6 else None,
            agent_id="bot" if number % 4 == 0 else None,
        )
    then = ns.at(ns.snapshot())
    choices: list[dict[str, Any]] = [
        {},
        {"limit": 0},
        {"limit": None},
        {"limit": 5},
        {"types": ["odd"]},
        {"types": ["odd", "even"], "tags": ["tag 1", "tag 2"]},
        {"types": []},
        {"tags": []},
        {"user_id": "ada", "agent_id": "bot"},
        {"user_id": "nobody"},
    ]
    for chosen in choices:
        assert then.memory.list(**chosen) == ns.memory.list(**chosen), chosen
    seen: list[str] = []
    while page := then.memory.list(limit=3, types=["even"], starting_after=(seen or [None])[-1]):
        seen += [each.id for each in page]
    assert seen == [each.id for each in ns.memory.list(types=["even"])]
    with pytest.raises(InvalidValue, match="starting_after"):
        then.memory.list(starting_after="mem_nobody")


def test_what_only_the_present_knows_is_refused(ns: holdfast.Namespace) -> None:
    session = ns.sessions.create("bot")
    then = ns.at(ns.snapshot())
    for refused in ({"session_id": session.id}, {"scope": "global"}, {"limit": -1}):
        with pytest.raises(InvalidValue):
            then.memory.list(**refused)
    for name in ("", "mem_", "\0", "\ud800", "x" * 5000):
        with pytest.raises((MemoryNotFound, InvalidValue)):
            then.memory.get(name)
    assert then.memory.list() == []


def test_a_fork_shows_what_it_was_made_with(
    vault: holdfast.Holdfast, ns: holdfast.Namespace
) -> None:
    kept = ns.memory.add("tea")
    ns.snapshot()
    fork = ns.fork("bob")
    assert [each.id for each in fork.at("latest").memory.list()] == [kept.id]
    assert vault.namespace("bob").at("latest").memory.get(kept.id).content == "tea"


def test_what_was_erased_is_in_no_snapshot_any_more(
    vault: holdfast.Holdfast, ns: holdfast.Namespace
) -> None:
    session = ns.sessions.create("bot")
    ns.memory.add("mine", session_id=session.id)
    kept = ns.memory.add("everybody's")
    taken = ns.snapshot()
    vault.erasures.session("alice", session.id)
    assert [each.id for each in ns.at(taken).memory.list()] == [kept.id]
