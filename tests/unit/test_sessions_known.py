"""States of sessions that are kept in memory: nobody sees what somebody else did to his copy."""

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields, replace
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.engine.core.caches import ByteCache
from holdfast.engine.sessions import state as states
from holdfast.engine.sessions.door import Sessions
from holdfast.engine.sessions.state import CachedState

LONG = {f"text{number:03d}": "some words " * 20 for number in range(50)}
"""Long enough to be a map of its own."""


@pytest.fixture
def agent(tmp_path) -> Iterator[holdfast.Namespace]:
    with holdfast.open(tmp_path / "vault") as vault:
        yield vault.namespace("agent")


def test_a_state_in_memory_is_what_its_text_says():
    parts = {"b": b'{"deep":[1]}', "a": b"12345678901234567890123", "c": b"null", "d": b'"text"'}
    known = CachedState().with_changes(parts)
    assert known.to_state() == {
        "a": 12345678901234567890123,
        "b": {"deep": [1]},
        "c": None,
        "d": "text",
    }
    assert list(known.to_state()) == list(known.parts) == ["a", "b", "c", "d"]


def test_changes_make_another_state_and_leave_the_old_one():
    old = CachedState().with_changes({"a": b"[1]", "b": b"2", "c": b"[3]"})
    new = old.with_changes({"a": b"1", "b": b"[2]", "_": b"0"})
    assert old.to_state() == {"a": [1], "b": 2, "c": [3]}
    assert list(new.to_state().items()) == [("_", 0), ("a", 1), ("b", [2]), ("c", [3])]


def test_whoever_changes_the_state_that_he_got_changes_nothing_else(agent: holdfast.Namespace):
    session = agent.sessions.create("x", initial_state={**LONG, "list": [{"deep": []}]})
    session.state["list"][0]["deep"].append("mine")
    session.state["text000"] = "mine"
    made = agent.sessions.update_state(session.id, {"more": {"deep": []}})
    made.state["list"].append("mine")
    made.state["more"]["deep"].append("mine")
    del made.state["text001"]
    expected = {**LONG, "list": [{"deep": []}], "more": {"deep": []}}
    assert agent.sessions.get_state(session.id).state == expected
    assert agent.sessions.rollback(session.id, 0).state == {**LONG, "list": [{"deep": []}]}


def test_the_given_state_may_change_after_it_was_stored(agent: holdfast.Namespace):
    given = {**LONG, "list": ["stored"]}
    session = agent.sessions.create("x", initial_state=given)
    given["list"].append("too late")
    changes = {"other": {"key": "stored"}}
    agent.sessions.update_state(session.id, changes)
    changes["other"]["key"] = "too late"
    state = agent.sessions.get_state(session.id).state
    assert state["list"] == ["stored"]
    assert state["other"] == {"key": "stored"}


def test_memory_gives_the_answer_of_the_disk(tmp_path):
    with holdfast.open(tmp_path / "vault") as vault:
        sessions = vault.namespace("agent").sessions
        session = sessions.create("x", initial_state=LONG)
        for number in range(20):
            changes = {f"text{number:03d}": number, f"new{number}": [number, "x" * number * 300]}
            sessions.update_state(session.id, changes)
        sessions.replace_state(session.id, {**LONG, "long": ["y" * 9000]})
        seen = [version.state for version in sessions.history(session.id, limit=None)]
    with holdfast.open(tmp_path / "vault") as vault:
        sessions = vault.namespace("agent").sessions
        read = [version.state for version in sessions.history(session.id, limit=None)]
        shrunk = sessions.update_state(session.id, {"long": None}).state
    assert read == seen
    assert [list(state) for state in read if state] == [list(state) for state in seen if state]
    assert shrunk == {**LONG, "long": None}


def test_a_state_larger_than_the_memory_for_them_is_read_from_the_disk(
    agent: holdfast.Namespace,
):
    handle = agent.sessions._handle
    small = replace(handle, context=replace(handle.context, states=ByteCache(1000)))
    sessions = type(agent.sessions)(small)
    session = sessions.create("x", initial_state=LONG)
    sessions.update_state(session.id, {"text000": "new"})
    assert sessions.get_state(session.id).state == {**LONG, "text000": "new"}


def test_going_back_reads_the_state_when_it_is_looked_at_and_not_before(
    tmp_path, monkeypatch: pytest.MonkeyPatch
):
    with holdfast.open(tmp_path) as vault:
        vault.namespace("agent").sessions.create("x", session_id="s", initial_state=LONG)
        vault.namespace("agent").sessions.update_state("s", {"text000": "new"})
    with holdfast.open(tmp_path) as vault:
        sessions, reads = vault.namespace("agent").sessions, list[bytes]()
        read_parts = states.read_parts

        def counting(source: states.StateSource, entry: bytes) -> dict[str, bytes]:
            reads.append(entry)
            return read_parts(source, entry)

        monkeypatch.setattr(states, "read_parts", counting)
        made, forked = sessions.rollback("s", 0), sessions.fork("s", 1)
        assert not reads
        assert made.state == LONG
        assert forked.state == {**LONG, "text000": "new"}
        # Version 1 is laid over version 0, which is in memory by then.
        assert len(reads) == 1
        assert made.state is made.state


CHANGES: dict[str, Callable[[Sessions], holdfast.State | holdfast.SessionInfo]] = {
    "create": lambda sessions: sessions.create("x", initial_state=LONG),
    "fork": lambda sessions: sessions.fork("s", 0),
    "update_state": lambda sessions: sessions.update_state("s", {"more": [1]}),
    "replace_state": lambda sessions: sessions.replace_state("s", {"more": [1]}),
    "rollback": lambda sessions: sessions.rollback("s", 0),
}


def read_again(sessions: Sessions, made: holdfast.State | holdfast.SessionInfo):
    if isinstance(made, holdfast.State):
        return sessions.get_state(made.session_id)
    return sessions.get(made.id)


USES: dict[str, Callable[[Any], object]] = {
    "json": lambda made: json.loads(msgspec.json.encode(made)),
    "msgpack": lambda made: msgspec.msgpack.decode(msgspec.msgpack.encode(made)),
    "to_builtins": msgspec.to_builtins,
    "asdict": asdict,
    "fields": lambda made: [(each.name, getattr(made, each.name)) for each in fields(made)],
    "replace": lambda made: replace(made, state={"mine": 1}),
    "replace beside": lambda made: replace(made, version=7),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "copy of a copy": lambda made: copy.copy(replace(made, version=7)),
    "pickle": lambda made: pickle.loads(pickle.dumps(made)),
    "oldest pickle": lambda made: pickle.loads(pickle.dumps(made, 0)),
    "itself": lambda made: made,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("change", CHANGES)
def test_what_a_change_returns_is_used_as_what_is_read(
    agent: holdfast.Namespace, change: str, use: str
) -> None:
    agent.sessions.create("x", session_id="s", initial_state=LONG)
    made = CHANGES[change](agent.sessions)
    read = read_again(agent.sessions, made)
    found, expected = USES[use](made), USES[use](read)
    assert found == expected
    assert expected == found
    assert made == read
    assert read == made


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_change_returns_is_one_of_its_kind(agent: holdfast.Namespace, change: str) -> None:
    agent.sessions.create("x", session_id="s", initial_state=LONG)
    made, again = (CHANGES[change](agent.sessions) for _ in range(2))
    read = read_again(agent.sessions, made if change in {"create", "fork"} else again)
    assert isinstance(made, type(read))
    assert made != again
    assert again != made
    assert repr(again).partition(" ")[0] == repr(read).partition(" ")[0]
    assert repr(again.state)[:40] in repr(again)
    assert type(pickle.loads(pickle.dumps(made))) is type(copy.copy(made)) is type(read)
    for each in (again, read):
        with pytest.raises(TypeError):
            hash(each)
        with pytest.raises(AttributeError):
            each.version = 7  # pyright: ignore[reportAttributeAccessIssue] - frozen


def test_a_state_in_memory_can_be_looked_at_after_the_vault_is_closed(tmp_path):
    with holdfast.open(tmp_path) as vault:
        made = vault.namespace("agent").sessions.create("x", initial_state=LONG)
    assert made.state == LONG
