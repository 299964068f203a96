"""What a trace tells those who may see content, looked up when it is asked for."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.behalf import REQUEST
from holdfast.engine.audit.content import MOST_BYTES
from holdfast.engine.journal.withheld import for_operators
from holdfast.testing.clocks import Watch


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2031, 5, 6, tzinfo=UTC))


@pytest.fixture
def vault(opener: Callable[..., holdfast.Holdfast]) -> holdfast.Holdfast:
    return opener()


def whole(traces: object) -> str:
    """Returns all that traces say, of which they show little."""
    return msgspec.json.encode(traces).decode()


def told(agent: holdfast.Namespace, action: str) -> dict[str, Any]:
    """Returns what the newest trace of an action says."""
    return agent.traces.list(action=action, limit=1, with_content=True)[0].details


def test_a_trace_says_what_it_did_to_the_state(vault: holdfast.Holdfast) -> None:
    agent = vault.namespace("alice")
    first = {"step": 0, "plan": ["a"], "gone": None}
    session = agent.sessions.create("planner", initial_state=first)
    assert told(agent, "session.created")["initial_state"] == first
    agent.sessions.update_state(session.id, {"step": 1, "new": {"n": 1.5}}, reasoning="because")
    known = told(agent, "state.updated")
    assert known["state_diff"] == {
        "added": {"new": {"n": 1.5}},
        "removed": {},
        "modified": {"step": {"old": 0, "new": 1}},
    }
    assert (known["version"], known["reasoning"]) == (1, "because")
    agent.sessions.replace_state(session.id, {"step": 1})
    assert told(agent, "state.updated")["state_diff"]["removed"] == {
        "gone": None,
        "new": {"n": 1.5},
        "plan": ["a"],
    }
    agent.sessions.rollback(session.id, 0, reason="it was wrong")
    assert told(agent, "state.rolled_back")["reasoning"] == "it was wrong"


def test_a_trace_says_of_what_type_a_turn_was_and_how_many_memories_went(
    vault: holdfast.Holdfast,
) -> None:
    agent = vault.namespace("alice")
    session = agent.sessions.create("planner")
    said = agent.sessions.add_turn(
        session.id, {"type": "image", "content": "x"}, "seen", metadata={"latency_ms": 5}
    )
    known = told(agent, "turn.added")
    assert (known["input_type"], known["output_type"]) == ("image", "text")
    assert (known["turn_id"], known["metadata"]) == (said.id, {"latency_ms": 5})
    for text in ("one", "two"):
        agent.memory.add(text, session_id=session.id)
    assert told(agent, "memory.created")["content_preview"] == "two"
    agent.sessions.delete(session.id)
    gone = told(agent, "session.deleted")
    assert (gone["memory_count"], gone["turn_count"]) == (2, 1)
    assert "initial_state" not in told(agent, "session.created"), "it went with its session"
    assert "content_preview" not in told(agent, "memory.created")
    assert "metadata" not in told(agent, "turn.added")


def test_operators_and_who_does_not_ask_see_nothing_of_it(vault: holdfast.Holdfast) -> None:
    agent = vault.namespace("alice")
    session = agent.sessions.create("planner", initial_state={"word": "secret"})
    agent.sessions.update_state(session.id, {"word": "another secret"})
    agent.sessions.add_turn(session.id, "a secret", "kept")
    for traces in (agent.traces.list(), vault.traces.list()):
        assert "secret" not in whole(traces)
    shown = agent.traces.list(with_content=True)
    assert "another secret" in whole(shown)
    assert "secret" not in whole([for_operators(trace) for trace in shown])
    assert vault.verify_audit().ok, "nothing of it is in the chain"


def test_a_list_shows_changes_of_so_many_bytes_and_a_single_trace_its_own(
    vault: holdfast.Holdfast,
) -> None:
    agent = vault.namespace("alice")
    text = "x" * (MOST_BYTES // 5)
    session = agent.sessions.create("planner", initial_state={"text": text})
    for number in range(6):
        agent.sessions.update_state(session.id, {"n": number})
    listed = agent.traces.list(action="state.updated", with_content=True)
    shown = ["state_diff" in trace.details for trace in listed]
    assert shown == [True, True, False, False, False, False]
    last = agent.traces.get(listed[-1].id, with_content=True)
    assert last.details["state_diff"]["added"] == {"n": 0}


def test_a_trace_says_by_which_request_it_was_done(vault: holdfast.Holdfast) -> None:
    asked = vault.namespace("alice")
    token = REQUEST.set("req_1")
    asked.sessions.create("planner")
    asked.traces.add("own.thing", details={"request_id": "mine"})
    REQUEST.reset(token)
    own, made = asked.traces.list()
    assert (made.request_id, "request_id" in made.details) == ("req_1", False)
    assert (own.request_id, own.details) == (None, {"request_id": "mine"})
    assert vault.namespace("alice").traces.get(made.id).request_id == "req_1"
    vault.namespace("alice").snapshot()
    assert vault.namespace("alice").traces.list(limit=1)[0].request_id is None
    assert vault.verify_audit().ok
