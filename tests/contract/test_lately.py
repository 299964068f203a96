"""A writer that has a namespace to itself does not look before it writes; nobody ever notices."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast.catalog.sessions import SessionQueries
from holdfast.engine.sessions.door import Sessions
from holdfast.errors import (
    ConversationMoved,
    QuotaExceeded,
    SessionNotFound,
    StateMoved,
    VersionNotFound,
)
from holdfast.testing.clocks import Watch

Opener = Callable[..., holdfast.Holdfast]


@pytest.fixture
def clock() -> Watch:
    return Watch(step=timedelta(microseconds=1))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects the names of the namespaces that writers have looked at."""
    looked, look = list[str](), SessionQueries.open_session

    def open_session(self: SessionQueries, tenant_id: Any, name: str, *args: Any, **more: Any):
        looked.append(name)
        return look(self, tenant_id, name, *args, **more)

    monkeypatch.setattr(SessionQueries, "open_session", open_session)
    return looked


@pytest.fixture
def both(opener: Opener) -> tuple[Sessions, Sessions]:
    """Two vaults' ways to a session, the first of which has been writing to it by itself."""
    one, other = (opener().namespace("alice").sessions for _ in range(2))
    one.create("bot", session_id="s", initial_state={"n": 0})
    for number in range(1, 4):
        one.update_state("s", {"n": number})
    return one, other


def numbers_of(sessions: Sessions) -> list[Any]:
    found = sessions.history("s", limit=100, include_state=True)
    return [version.state["n"] for version in found if version.state is not None]


def test_who_is_alone_does_not_look(both: tuple[Sessions, Sessions], looks: list[str]) -> None:
    one, other = both
    one.update_state("s", {"n": 4})
    one.add_turn("s", input="hello", output="there")
    one.add_turn("s", input="once", output="more", state_after={"n": 5})
    one.rollback("s", 2)
    looked = list(looks)
    assert numbers_of(other) == [0, 1, 2, 3, 4, 5, 2]
    assert [turn.input["content"] for turn in other.list_turns("s", order="asc")] == [
        "hello",
        "once",
    ]
    assert looked == []


def test_who_meets_somebody_looks_until_alone_again(
    both: tuple[Sessions, Sessions], looks: list[str]
) -> None:
    one, other = both
    for number in range(4, 12, 2):
        other.update_state("s", {"n": number})
        one.update_state("s", {"n": number + 1})
    assert numbers_of(one) == numbers_of(other) == [*range(12)]
    assert len(looks) == 8, "each has looked once for each write, after one that was in vain"
    looks.clear()
    for number in range(12, 16):
        one.update_state("s", {"n": number})
    assert len(looks) == 1
    assert numbers_of(other) == [*range(16)]


def test_what_is_refused_was_looked_at(both: tuple[Sessions, Sessions]) -> None:
    one, other = both
    other.update_state("s", {"n": 4})
    with pytest.raises(StateMoved) as moved:
        one.update_state("s", {"n": 0}, expected_version=3)
    assert moved.value.actual == 4
    other.update_state("s", {"n": 5})
    one.update_state("s", {"n": 6}, expected_version=5)
    other.update_state("s", {"n": 7})
    assert one.rollback("s", 7).version == 8
    with pytest.raises(VersionNotFound):
        one.rollback("s", 9)


def test_no_turn_is_taken_back_that_was_not_seen(both: tuple[Sessions, Sessions]) -> None:
    one, other = both
    one.add_turn("s", "seen", "by all")
    other.add_turn("s", "said", "meanwhile")
    with pytest.raises(ConversationMoved) as moved:
        one.rollback("s", 1, conversation=True, expected_version=3, expected_turns=1)
    assert (moved.value.expected, moved.value.actual) == (1, 2)
    assert one.get("s").version == 3
    one.rollback("s", 1, conversation=True, expected_turns=2)
    assert other.list_turns("s") == []


def test_a_session_that_somebody_deleted_is_not_found(both: tuple[Sessions, Sessions]) -> None:
    one, other = both
    other.delete("s")
    with pytest.raises(SessionNotFound):
        one.update_state("s", {"n": 4})


def test_a_namespace_that_somebody_put_in_its_place_is_another(opener: Opener) -> None:
    one, other = opener(), opener()
    for number in range(4):
        if not number:
            one.namespace("alice").sessions.create("bot", session_id="s", initial_state={})
        one.namespace("alice").sessions.update_state("s", {"n": number})
    other.delete_namespace("alice")
    other.namespace("alice").sessions.create("bot", session_id="s", initial_state={"new": True})
    one.namespace("alice").sessions.update_state("s", {"n": 9})
    state = other.namespace("alice").sessions.get_state("s").state
    assert state == {"new": True, "n": 9}


def test_what_somebody_restored_is_built_upon(opener: Opener) -> None:
    one, other = opener().namespace("alice"), opener().namespace("alice")
    one.sessions.create("bot", session_id="s", initial_state={"n": 0})
    taken = one.snapshot()
    for number in range(1, 4):
        one.sessions.update_state("s", {"n": number, "new": number})
    other.restore(taken)
    one.sessions.update_state("s", {"more": 1})
    assert other.sessions.get_state("s").state == {"n": 0, "more": 1}


def test_a_quota_that_somebody_set_holds_at_once(opener: Opener) -> None:
    one, other = opener(), opener()
    sessions = one.namespace("alice").sessions
    sessions.create("bot", session_id="s", initial_state={})
    for number in range(3):
        sessions.update_state("s", {"n": number})
    other.set_quota(1)
    with pytest.raises(QuotaExceeded):
        sessions.update_state("s", {"n": 3})
    other.set_quota(None)
    sessions.update_state("s", {"n": 4})


def test_a_turn_after_one_that_a_fork_has_added_belongs_to_another_story(opener: Opener) -> None:
    vault, other = opener(), opener()
    sessions = vault.namespace("alice").sessions
    sessions.create("bot", session_id="s", initial_state={})
    for said in ("one", "two", "three"):
        sessions.add_turn("s", input=said, output="yes")
    vault.namespace("alice").snapshot()
    other.namespace("alice").fork("bob")
    other.namespace("bob").sessions.add_turn("s", input="bob's", output="yes")
    for said in ("four", "five", "six"):
        sessions.add_turn("s", input=said, output="yes")

    def told(name: str) -> list[str]:
        turns = other.namespace(name).sessions.list_turns("s", order="asc")
        return [turn.input["content"] for turn in turns]

    assert told("alice") == ["one", "two", "three", "four", "five", "six"]
    assert told("bob") == ["one", "two", "three", "bob's"]


def test_who_begins_to_listen_hears_what_is_written_unseen(opener: Opener) -> None:
    one, other = opener(), opener()
    sessions = one.namespace("alice").sessions
    sessions.create("bot", session_id="s", initial_state={})
    for number in range(4):
        sessions.update_state("s", {"n": number})
    other.events.listen()
    for number in range(3):
        sessions.update_state("s", {"n": number})
        sessions.add_turn("s", input=str(number), output="yes")
    heard = [event.type for event in other.events.page(after=0)]
    assert sorted(heard) == ["state.updated"] * 3 + ["turn.added"] * 3


def test_threads_of_one_process_lose_nothing(both: tuple[Sessions, Sessions]) -> None:
    def write(sessions: Sessions, name: str) -> None:
        for number in range(10):
            sessions.update_state("s", {name: number})

    threads = [
        threading.Thread(target=write, args=(sessions, f"{place} {again}"))
        for place, sessions in enumerate(both)
        for again in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = both[0].get_state("s")
    assert found.version == 43
    assert found.state == {"n": 3, "0 0": 9, "0 1": 9, "1 0": 9, "1 1": 9}


def test_the_audit_holds_what_was_written_unseen(opener: Opener) -> None:
    one, other = opener(), opener()
    sessions = one.namespace("alice").sessions
    sessions.create("bot", session_id="s", initial_state={})
    for number in range(6):
        sessions.update_state("s", {"n": number})
        sessions.add_turn("s", input=str(number), output="yes")
    assert other.verify().ok
    assert other.verify_audit().ok
