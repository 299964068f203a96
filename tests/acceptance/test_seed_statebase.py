"""The page "Checkpoints & Rollbacks" of StateBase, its Python word for word.

`sb` is a namespace, on both catalogs. What a snippet calls that is not ours (a model, an API, a
pager) is a plain function here. After each snippet stands what the page says of it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import holdfast
from holdfast.engine.namespace import Namespace
from holdfast.errors import SessionNotFound
from holdfast.model.sessions import SessionInfo

pytestmark = pytest.mark.in_memory

CORRUPTED = """\
# Turn 5: Agent is working perfectly
state = {"user_request": "book flight", "destination": "NYC", "dates": "2024-03-15"}

# Turn 6: LLM hallucinates and corrupts state
state = {"user_request": "cancel everything", "destination": None, "dates": None}
# ❌ Conversation is now broken. Traditional approach: start over.
"""

EVERY_UPDATE_IS_A_VERSION = """\
# Version 0: Initial state
session = sb.sessions.create(
    agent_id="travel-agent",
    initial_state={"step": "gathering_info"}
)

# Version 1: After first update
sb.sessions.update_state(
    session_id=session.id,
    state={"step": "searching_flights", "destination": "NYC"},
    reasoning="User provided destination"
)

# Version 2: After second update
sb.sessions.update_state(
    session_id=session.id,
    state={"step": "confirming_booking", "flight_id": "UA123"},
    reasoning="User selected flight"
)
"""

ROLL_BACK = """\
# Agent corrupted state at version 5
# Roll back to version 3 (before the error)

restored_state = sb.sessions.rollback(
    session_id=session.id,
    version=3
)

# State is now identical to version 3
# Continue the conversation from there
"""

AFTER_TOOL_CALLS = """\
# Before calling an external API
result = call_weather_api(city="San Francisco")

# Checkpoint the result
sb.sessions.update_state(
    session_id=session.id,
    state={"weather_data": result, "last_tool": "weather_api"},
    reasoning="Cached weather API result"
)
"""

AFTER_CONFIRMATION = """\
# User confirmed the booking
if user_confirmed:
    sb.sessions.update_state(
        session_id=session.id,
        state={"booking_confirmed": True, "confirmation_id": "ABC123"},
        reasoning="User confirmed booking"
    )
"""

BEFORE_RISKY_OPERATIONS = """\
# About to delete user data (risky!)
sb.sessions.update_state(
    session_id=session.id,
    state={"pre_delete_snapshot": current_data},
    reasoning="Checkpoint before deletion"
)

# Perform deletion
delete_user_data(user_id)

# If deletion fails, roll back to pre_delete_snapshot
"""

TURNS = """\
# This does NOT create a checkpoint
sb.sessions.add_turn(
    session_id=session.id,
    input="Hello",
    output="Hi there!"
)

# This DOES create a checkpoint
sb.sessions.add_turn(
    session_id=session.id,
    input="Book a flight to NYC",
    output="Sure, searching flights...",
    state_after={"destination": "NYC", "searching": True}
)
"""

RETRY = """\
# Agent failed at version 5
# Roll back to version 4 and try a different approach

sb.sessions.rollback(session_id=session.id, version=4)

# Try again with a more explicit prompt
response = llm.generate(
    prompt="You are a travel agent. Be VERY careful not to delete user data.",
    context=sb.sessions.get_context(session_id=session.id)
)
"""

ESCALATE = """\
# Agent is stuck in a loop (versions 6, 7, 8 all failed)
# Roll back to version 5 and escalate to human

sb.sessions.rollback(session_id=session.id, version=5)
sb.sessions.update_state(
    session_id=session.id,
    state={"escalated_to_human": True, "reason": "Agent stuck in loop"},
    reasoning="Automatic escalation after 3 failed attempts"
)

notify_human_agent(session.id)
"""

OTHER_MODEL = """\
# Version 3 failed with GPT-4
# Roll back and try with Claude

sb.sessions.rollback(session_id=session.id, version=2)

# Try Claude instead
response = anthropic.messages.create(
    model="claude-3-5-sonnet-20241022",
    messages=[{"role": "user", "content": user_message}]
)

# If Claude succeeds, log which model worked
sb.sessions.update_state(
    session_id=session.id,
    state={"successful_model": "claude-3.5-sonnet"},
    reasoning="GPT-4 failed, Claude succeeded"
)
"""

FORK = """\
# Original session is at version 5
# Fork from version 3 to explore "what if" scenario

forked_session = sb.sessions.fork(
    session_id=original_session.id,
    version=3
)

# forked_session is a NEW session with:
# - Different session ID
# - State identical to original session's version 3
# - Metadata: {"forked_from": original_session.id, "forked_version": 3}
"""

DEBUG = """\
# Production session is failing at turn 10
# Don't touch it—fork it for debugging

debug_session = sb.sessions.fork(
    session_id=production_session.id,
    version=9  # Fork from just before failure
)

# Experiment in the forked session
# Original production session is untouched
"""

PARANOID = """\
# Checkpoint after EVERY state change
# Cost: High | Safety: Maximum
sb.sessions.update_state(session_id, state, reasoning="...")
"""

BALANCED = """\
# Checkpoint after:
# - Tool calls
# - User confirmations
# - Major state transitions

# Cost: Medium | Safety: High
if is_critical_operation:
    sb.sessions.update_state(session_id, state, reasoning="...")
"""

OPTIMIZED = """\
# Checkpoint only at:
# - Session start
# - Session end
# - Explicit user requests

# Cost: Low | Safety: Medium
if user_requested_save:
    sb.sessions.update_state(session_id, state, reasoning="User checkpoint")
"""

ROLLBACK_RATE = """\
# Track rollback rate in your analytics
rollback_count = count_rollbacks_last_24h()
total_sessions = count_sessions_last_24h()

rollback_rate = rollback_count / total_sessions

if rollback_rate > 0.05:  # More than 5% of sessions need rollback
    alert_engineering_team("High rollback rate detected")
"""


@pytest.fixture(params=["sqlite", "postgres"])
def sb(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Namespace]:
    if request.param == "sqlite":
        vault = holdfast.open(tmp_path / "vault")
    else:
        vault = holdfast.open(request.getfixturevalue("postgres_url"), objects=tmp_path)
    with vault as hf:
        yield hf.namespace("travel")


def run(snippet: str, **names: Any) -> SimpleNamespace:
    """Runs a snippet with these names; returns all that it has named."""
    exec(snippet, names)
    return SimpleNamespace(**names)


def states(sb: Namespace, session_id: str) -> list[Any]:
    """Returns the state of every version."""
    found = sb.sessions.history(session_id)
    assert [version.number for version in found] == list(range(len(found)))
    return [version.state for version in found]


def at_version(sb: Namespace, number: int) -> SessionInfo:
    """Makes a session that is at a version; each is told apart by its state."""
    session = sb.sessions.create(agent_id="travel-agent", initial_state={"version": 0})
    for n in range(1, number + 1):
        sb.sessions.update_state(session.id, {"version": n, f"only since {n}": True})
    return sb.sessions.get(session.id)


# The problem, and how it works


def test_a_corrupted_state_is_undone_instead_of_started_over(sb: Namespace) -> None:
    good = CORRUPTED[: CORRUPTED.index("# Turn 6")]
    turn_5, turn_6 = run(good).state, run(CORRUPTED).state
    session = sb.sessions.create(agent_id="travel-agent")
    before = sb.sessions.add_turn(session.id, "book a flight", "gladly", state_after=turn_5)
    sb.sessions.add_turn(session.id, "in March", "cancelled", state_after=turn_6)
    assert sb.sessions.get_state(session.id).state == turn_6
    assert before.version_after is not None
    assert sb.sessions.rollback(session.id, version=before.version_after).state == turn_5


def test_every_update_is_a_version_that_stays_as_it_is(sb: Namespace) -> None:
    session = run(EVERY_UPDATE_IS_A_VERSION, sb=sb).session
    assert session.version == 0
    assert session.state == {"step": "gathering_info"}
    zero, one, two = sb.sessions.history(session.id)
    assert [v.number for v in (zero, one, two)] == [0, 1, 2], "auto-incrementing"
    assert zero.state == {"step": "gathering_info"}
    assert one.state == {"step": "searching_flights", "destination": "NYC"}
    assert two.state == {"step": "confirming_booking", "destination": "NYC", "flight_id": "UA123"}
    assert zero.created_at <= one.created_at <= two.created_at
    assert one.reasoning == "User provided destination"
    assert two.reasoning == "User selected flight"
    traces = [version.trace_id for version in (zero, one, two)]
    assert len(set(traces)) == 3
    actions = [sb.traces.get(trace_id or "").action for trace_id in traces]
    assert actions == ["session.created", "state.updated", "state.updated"]


def test_a_rollback_is_a_new_version_and_loses_nothing(sb: Namespace) -> None:
    session = at_version(sb, 5)
    before = states(sb, session.id)
    restored = run(ROLL_BACK, sb=sb, session=session).restored_state
    assert restored.state == before[3]
    assert restored.version == 6
    assert states(sb, session.id) == [*before, before[3]]
    assert sb.sessions.history(session.id, since_version=5)[0].target == 3
    after = sb.sessions.update_state(session.id, {"goes": "on"})
    assert (after.version, after.state) == (7, {**before[3], "goes": "on"})


# Strategies


def test_a_tools_result_is_there_without_asking_it_again(sb: Namespace) -> None:
    session, calls = at_version(sb, 1), list[str]()

    def call_weather_api(city: str) -> dict[str, object]:
        calls.append(city)
        return {"celsius": 17.5, "wind": None}

    run(AFTER_TOOL_CALLS, sb=sb, session=session, call_weather_api=call_weather_api)
    newest = sb.sessions.history(session.id)[-1]
    assert newest.reasoning == "Cached weather API result"
    sb.sessions.update_state(session.id, {"weather_data": "garbled"})
    again = sb.sessions.rollback(session.id, version=newest.number)
    assert again.state["weather_data"] == {"celsius": 17.5, "wind": None}
    assert calls == ["San Francisco"]


@pytest.mark.parametrize("user_confirmed", [True, False])
def test_one_can_go_back_to_just_before_a_confirmation(
    sb: Namespace, *, user_confirmed: bool
) -> None:
    session = at_version(sb, 1)
    run(AFTER_CONFIRMATION, sb=sb, session=session, user_confirmed=user_confirmed)
    found = sb.sessions.get_state(session.id)
    assert found.version == 1 + user_confirmed
    assert found.state.get("booking_confirmed", False) is user_confirmed
    if user_confirmed:
        assert sb.sessions.rollback(session.id, version=-1).state == session.state


def test_there_is_a_checkpoint_right_before_a_risky_operation(sb: Namespace) -> None:
    session, current_data = at_version(sb, 1), {"user": {"name": "Ada"}}

    def delete_user_data(_user_id: str) -> None:
        sb.sessions.update_state(session.id, {"pre_delete_snapshot": None, "deleting": "failed"})

    run(
        BEFORE_RISKY_OPERATIONS,
        sb=sb,
        session=session,
        current_data=current_data,
        delete_user_data=delete_user_data,
        user_id="ada",
    )
    back = sb.sessions.rollback(session.id, version=-1)
    assert back.state == {**session.state, "pre_delete_snapshot": current_data}


# Automatic checkpoints


def create(sb: Namespace, _: str) -> str:
    return sb.sessions.create(agent_id="x", initial_state={"a": 1}).id


Event = Callable[[Namespace, str], object]

EVENTS: dict[str, tuple[Event, int]] = {
    "sessions.create()": (create, 1),
    "sessions.update_state()": (lambda sb, s: sb.sessions.update_state(s, {"a": 2}), 1),
    "sessions.update_state(), the same again": (
        lambda sb, s: sb.sessions.update_state(s, {"a": 1}),
        1,
    ),
    "sessions.add_turn()": (lambda sb, s: sb.sessions.add_turn(s, "Hello", "Hi there!"), 0),
    "state_after differs": (
        lambda sb, s: sb.sessions.add_turn(s, "i", "o", state_after={"a": 2}),
        1,
    ),
    "state_after differs from state_before": (
        lambda sb, s: sb.sessions.add_turn(s, "i", "o", state_before={"a": 1}, state_after={}),
        1,
    ),
    "state_after is state_before": (
        lambda sb, s: sb.sessions.add_turn(
            s, "i", "o", state_before={"b": 1}, state_after={"b": 1}
        ),
        0,
    ),
    "state_after is the state": (
        lambda sb, s: sb.sessions.add_turn(s, "i", "o", state_after={"a": 1}),
        0,
    ),
    "state_before alone": (
        lambda sb, s: sb.sessions.add_turn(s, "i", "o", state_before={"b": 1}),
        0,
    ),
    "memory.add()": (lambda sb, s: sb.memory.add("likes windows", session_id=s), 0),
    "metadata": (lambda sb, s: sb.sessions.update(s, metadata={"b": 1}), 0),
}


@pytest.mark.parametrize("event", EVENTS)
def test_what_makes_a_checkpoint_by_itself(sb: Namespace, event: str) -> None:
    act, more = EVENTS[event]
    if act is create:
        assert len(states(sb, create(sb, ""))) == more
        return
    session_id = create(sb, "")
    act(sb, session_id)
    assert len(states(sb, session_id)) == 1 + more
    assert sb.sessions.get(session_id).version == more


def test_of_these_two_turns_the_second_makes_a_checkpoint(sb: Namespace) -> None:
    session = at_version(sb, 1)
    run(TURNS, sb=sb, session=session)
    first, second = sb.sessions.list_turns(session.id, order="asc")
    assert (first.version_before, first.version_after) == (1, 1)
    assert (second.version_before, second.version_after) == (1, 2)
    assert states(sb, session.id)[2:] == [{"destination": "NYC", "searching": True}]


# Recovery


def test_one_tries_again_with_another_prompt(sb: Namespace) -> None:
    session, asked = at_version(sb, 5), dict[str, Any]()
    sb.sessions.add_turn(session.id, "Book it", "Booked.")
    sb.memory.add("The user sits at the window.", session_id=session.id)
    llm = SimpleNamespace(generate=asked.update)
    run(RETRY, sb=sb, session=session, llm=llm)
    assert "Be VERY careful" in asked["prompt"]
    context = asked["context"]
    assert context.state == states(sb, session.id)[4]
    assert [turn.input["content"] for turn in context.recent_turns] == ["Book it"]
    assert [found.memory.content for found in context.memories] == ["The user sits at the window."]


def test_an_agent_that_turns_in_circles_is_handed_to_a_human(sb: Namespace) -> None:
    session, notified = at_version(sb, 8), list[str]()
    run(ESCALATE, sb=sb, session=session, notify_human_agent=notified.append)
    assert notified == [session.id]
    all_states = states(sb, session.id)
    assert all_states[9] == all_states[5]
    escalated = {"escalated_to_human": True, "reason": "Agent stuck in loop"}
    assert all_states[10] == {**all_states[5], **escalated}
    assert len(all_states) == 11, "what failed is still there"


def test_another_model_goes_on_from_before_the_failure(sb: Namespace) -> None:
    session, asked = at_version(sb, 3), dict[str, Any]()
    messages = SimpleNamespace(create=asked.update)
    anthropic = SimpleNamespace(messages=messages)
    run(OTHER_MODEL, sb=sb, session=session, anthropic=anthropic, user_message="to NYC")
    assert asked["messages"] == [{"role": "user", "content": "to NYC"}]
    found = sb.sessions.history(session.id)[-1]
    assert found.state == {**states(sb, session.id)[2], "successful_model": "claude-3.5-sonnet"}
    assert found.reasoning == "GPT-4 failed, Claude succeeded"


# Forking


def test_a_fork_explores_what_if(sb: Namespace) -> None:
    original = at_version(sb, 5)
    before = states(sb, original.id)
    forked = run(FORK, sb=sb, original_session=original).forked_session
    assert forked.id != original.id
    assert forked.state == before[3]
    assert forked.metadata == {"forked_from": original.id, "forked_version": 3}
    sb.sessions.update_state(forked.id, {"what": "if"})
    assert states(sb, original.id) == before, "the original conversation is preserved"
    assert states(sb, forked.id) == [before[3], {**before[3], "what": "if"}]


def test_production_is_untouched_while_its_fork_is_debugged(sb: Namespace) -> None:
    production = at_version(sb, 10)
    debug = run(DEBUG, sb=sb, production_session=production).debug_session
    assert debug.state == states(sb, production.id)[9]
    sb.sessions.replace_state(debug.id, {"tried": "everything"})
    sb.sessions.delete(debug.id)
    assert sb.sessions.get(production.id) == production
    with pytest.raises(SessionNotFound):
        sb.sessions.get(debug.id)


# Cost, and health


@pytest.mark.parametrize(
    ("snippet", "flag"),
    [(PARANOID, None), (BALANCED, "is_critical_operation"), (OPTIMIZED, "user_requested_save")],
)
def test_how_often_is_the_callers_choice(sb: Namespace, snippet: str, flag: str | None) -> None:
    session = at_version(sb, 0)
    flags = [{flag: True}, {flag: False}] if flag else [{}, {}]
    for step, names in enumerate(flags):
        run(snippet, sb=sb, session_id=session.id, state={"step": step}, **names)
    assert len(states(sb, session.id)) == (2 if flag else 3)


@pytest.mark.parametrize(
    ("rollbacks", "level"), [(0, "healthy"), (1, "elevated"), (2, "warning"), (3, "critical")]
)
def test_the_rate_of_rollbacks_is_known(sb: Namespace, rollbacks: int, level: str) -> None:
    sessions, alerts = [at_version(sb, 1) for _ in range(25)], list[str]()
    for session in sessions[:rollbacks]:
        sb.sessions.rollback(session.id, version=0)
    found = run(
        ROLLBACK_RATE,
        count_rollbacks_last_24h=lambda: sb.health().rollbacks,
        count_sessions_last_24h=lambda: sb.health().sessions,
        alert_engineering_team=alerts.append,
    )
    assert (found.rollback_count, found.total_sessions) == (rollbacks, 25)
    assert found.rollback_rate == sb.health().rate
    assert alerts == ["High rollback rate detected"] * (rollbacks / 25 > 0.05)
    assert sb.health().level == level
