"""Who looked goes back, or undoes, over what they saw or over nothing, on both catalogs."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import holdfast
from holdfast.engine.timeline import undo as undoing
from holdfast.errors import HeadMoved
from holdfast.testing.clocks import Watch


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2026, 3, 1, 12, tzinfo=UTC), step=timedelta(microseconds=1))


@pytest.fixture
def agent(opener: Callable[..., holdfast.Holdfast]) -> holdfast.Namespace:
    agent = opener().namespace("alice")
    agent.files.write("a.txt", "one")
    agent.snapshot("first")
    agent.files.write("a.txt", "two")
    return agent


def look(agent: holdfast.Namespace) -> holdfast.Restored:
    return agent.undo(dry_run=True)


def test_an_undo_takes_back_what_a_look_saw_or_nothing(agent: holdfast.Namespace) -> None:
    agent.sessions.create("agent", session_id="s")
    agent.store.set("n", "k", [1])
    agent.memory.add("It is blue")
    seen, place = look(agent), agent.status().position
    agent.files.write("a.txt", "new")  # of the same size, and in no snapshot
    before = agent.timeline(limit=1)
    with pytest.raises(HeadMoved) as raised:
        agent.undo(expected=place, expected_root=seen.old_root)
    assert seen.old_root is not None
    assert raised.value.expected == seen.old_root.hex()
    assert agent.files.read("a.txt") == b"new"
    assert agent.timeline(limit=1) == before
    done = agent.undo(expected=place, expected_root=look(agent).old_root)
    assert agent.files.read("a.txt") == b"one"
    assert done.safety_id is not None


def test_an_undo_is_refused_where_what_is_there_has_become_a_snapshot(
    agent: holdfast.Namespace,
) -> None:
    seen, place = look(agent), agent.status().position
    agent.snapshot("second")
    with pytest.raises(HeadMoved):
        agent.undo(expected=place, expected_root=seen.old_root)
    assert agent.files.read("a.txt") == b"two"


def test_one_writes_between_the_look_of_an_undo_and_its_commit(
    agent: holdfast.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = look(agent)
    replacing = undoing.replacing

    def late(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(undoing, "replacing", replacing)
        agent.files.write("a.txt", "new")
        return replacing(*args, **kwargs)

    monkeypatch.setattr(undoing, "replacing", late)
    with pytest.raises(HeadMoved):
        agent.undo(expected_root=seen.old_root)
    assert agent.files.read("a.txt") == b"new"


def test_a_restore_goes_over_what_a_look_saw_or_over_nothing(agent: holdfast.Namespace) -> None:
    seen = agent.restore("latest", dry_run=True)
    agent.files.write("a.txt", "new")
    with pytest.raises(HeadMoved):
        agent.restore("latest", expected_root=seen.old_root)
    assert agent.files.read("a.txt") == b"new"
    again = agent.restore("latest", dry_run=True)
    agent.restore("latest", expected_root=again.old_root)
    assert agent.files.read("a.txt") == b"one"
