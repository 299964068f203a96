"""The page "Checkpoints & Rollbacks" of StateBase, with its own client against our server.

The snippets are the page's, word for word, as `tests/acceptance/test_seed_statebase.py` holds
them; only the base URL and the key are ours. What the page calls that its client has no argument
for (a turn's `state_after`) goes through `sb.client`, as a user of that client would send it.
"""

import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from statebase import StateBase  # pyright: ignore[reportMissingTypeStubs] - it has none

from holdfast.testing.servers import Server

PAGE = Path(__file__).parents[1] / "acceptance" / "test_seed_statebase.py"


@pytest.fixture(scope="module")
def page() -> ModuleType:
    """The module that holds the snippets."""
    spec = importlib.util.spec_from_file_location("statebase_page", PAGE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def sb(server: Server, namespace: str) -> Iterator[StateBase]:
    with StateBase(api_key=server.api_key, base_url=server.url) as client:
        client.client.headers["X-Namespace"] = namespace
        yield client


def run(snippet: str, **names: Any) -> SimpleNamespace:
    """Runs a snippet with these names; returns all that it has named."""
    exec(snippet, names)
    return SimpleNamespace(**names)


def ask(sb: StateBase, path: str) -> Any:
    answer = sb.client.get(f"{sb.base_url}{path}")
    answer.raise_for_status()
    return answer.json()


def history(sb: StateBase, session_id: str) -> list[dict[str, Any]]:
    return ask(sb, f"/v1/sessions/{session_id}/state/history")["data"]


def at_version(sb: StateBase, number: int) -> Any:
    """Makes a session that is at a version; each is told apart by its state."""
    session = sb.sessions.create(agent_id="travel-agent", initial_state={"version": 0})
    for n in range(1, number + 1):
        sb.sessions.update_state(session.id, {"version": n, f"only since {n}": True})
    return sb.sessions.get(session.id)


def test_every_update_is_a_version_with_number_state_time_reasoning_and_trace(
    page: ModuleType, sb: StateBase
) -> None:
    session = run(page.EVERY_UPDATE_IS_A_VERSION, sb=sb).session
    zero, one, two = history(sb, session.id)
    assert [each["version"] for each in (zero, one, two)] == [0, 1, 2]
    assert zero["state"] == session.state == {"step": "gathering_info"}
    assert one["state"] == {"step": "searching_flights", "destination": "NYC"}
    assert two["state"] == {
        "step": "confirming_booking",
        "destination": "NYC",
        "flight_id": "UA123",
    }
    assert zero["created_at"] < one["created_at"] < two["created_at"]
    assert one["reasoning"] == "User provided destination"
    traces = [ask(sb, f"/v1/traces/{each['trace_id']}")["action"] for each in (zero, one, two)]
    assert traces == ["session.created", "state.updated", "state.updated"]


def test_a_rollback_restores_and_keeps_what_was_between(page: ModuleType, sb: StateBase) -> None:
    session = at_version(sb, 5)
    before = [each["state"] for each in history(sb, session.id)]
    restored = run(page.ROLL_BACK, sb=sb, session=session).restored_state
    assert (restored.version, restored.state) == (6, before[3])
    assert [each["state"] for each in history(sb, session.id)] == [*before, before[3]]


def test_checkpoints_around_tools_confirmations_and_risks(page: ModuleType, sb: StateBase) -> None:
    session = at_version(sb, 0)

    def call_weather_api(city: str) -> dict[str, float]:
        return {city: 17.5}

    run(page.AFTER_TOOL_CALLS, sb=sb, session=session, call_weather_api=call_weather_api)
    run(page.AFTER_CONFIRMATION, sb=sb, session=session, user_confirmed=True)
    deleted = list[str]()
    run(
        page.BEFORE_RISKY_OPERATIONS,
        sb=sb,
        session=session,
        current_data={"name": "Ada"},
        delete_user_data=deleted.append,
        user_id="ada",
    )
    assert deleted == ["ada"]
    assert [each["reasoning"] for each in history(sb, session.id)] == [
        "initial state",
        "Cached weather API result",
        "User confirmed booking",
        "Checkpoint before deletion",
    ]
    assert sb.sessions.get_state(session.id).state == {
        "version": 0,
        "weather_data": {"San Francisco": 17.5},
        "last_tool": "weather_api",
        "booking_confirmed": True,
        "confirmation_id": "ABC123",
        "pre_delete_snapshot": {"name": "Ada"},
    }


class Turns:
    """The client's sessions, with the two arguments that its `add_turn` does not have."""

    def __init__(self, sb: StateBase) -> None:
        self.sessions, self._sb = self, sb

    def add_turn(self, session_id: str, **turn: Any) -> None:
        url = f"{self._sb.base_url}/v1/sessions/{session_id}/turns"
        self._sb.client.post(url, json=turn).raise_for_status()


def test_of_the_pages_two_turns_the_second_is_a_checkpoint(page: ModuleType, sb: StateBase) -> None:
    session = at_version(sb, 1)
    assert "state_after" not in inspect.signature(sb.sessions.add_turn).parameters
    run(page.TURNS, sb=Turns(sb), session=session)
    second, first = sb.sessions.list_turns(session.id)
    assert first.state_before == first.state_after == session.state
    assert second.state_after == {"destination": "NYC", "searching": True}
    assert [each["kind"] for each in history(sb, session.id)] == ["created", "updated", "turn"]


def test_recovery_by_another_prompt_a_human_or_another_model(
    page: ModuleType, sb: StateBase
) -> None:
    session, asked, notified = at_version(sb, 8), dict[str, Any](), list[str]()
    run(page.RETRY, sb=sb, session=session, llm=SimpleNamespace(generate=asked.update))
    assert asked["context"]["state"]["version"] == 4
    run(page.ESCALATE, sb=sb, session=session, notify_human_agent=notified.append)
    assert notified == [session.id]
    state = sb.sessions.get_state(session.id)
    assert (state.state["version"], state.state["escalated_to_human"]) == (5, True)
    messages = SimpleNamespace(create=asked.update)
    run(
        page.OTHER_MODEL,
        sb=sb,
        session=session,
        anthropic=SimpleNamespace(messages=messages),
        user_message="to NYC",
    )
    found = history(sb, session.id)
    assert found[-1]["reasoning"] == "GPT-4 failed, Claude succeeded"
    assert found[-1]["state"]["version"] == 2
    assert len(found) == 9 + 1 + 2 + 2, "nothing that failed is lost"


@pytest.mark.parametrize(
    ("name", "names", "version"),
    [
        ("FORK", ("original_session", "forked_session"), 3),
        ("DEBUG", ("production_session", "debug_session"), 9),
    ],
)
def test_a_fork_is_a_new_session_with_the_state_of_a_version(
    page: ModuleType, sb: StateBase, name: str, names: tuple[str, str], version: int
) -> None:
    given, made = names
    origin = at_version(sb, 10)
    forked = getattr(run(getattr(page, name), sb=sb, **{given: origin}), made)
    assert forked.id != origin.id
    assert forked.state == history(sb, origin.id)[version]["state"]
    assert forked.metadata == {"forked_from": origin.id, "forked_version": version}
    sb.sessions.update_state(forked.id, {"tried": "everything"})
    assert sb.sessions.get(origin.id) == origin


def test_how_often_is_the_callers_choice(page: ModuleType, sb: StateBase) -> None:
    session = at_version(sb, 0)
    common = {"sb": sb, "session_id": session.id, "state": {"n": 1}}
    run(page.PARANOID, **common)
    run(page.BALANCED, **common, is_critical_operation=True)
    run(page.OPTIMIZED, **common, user_requested_save=False)
    assert sb.sessions.get_state(session.id).version == 2


def test_the_rollback_rate_raises_the_pages_alarm(page: ModuleType, sb: StateBase) -> None:
    sessions, alerts = [at_version(sb, 1) for _ in range(10)], list[str]()
    sb.sessions.rollback(sessions[0].id, version=0)
    found = run(
        page.ROLLBACK_RATE,
        count_rollbacks_last_24h=lambda: ask(sb, "/v1/rollbacks")["rollbacks"],
        count_sessions_last_24h=lambda: ask(sb, "/v1/rollbacks")["sessions"],
        alert_engineering_team=alerts.append,
    )
    assert (found.rollback_count, found.total_sessions, found.rollback_rate) == (1, 10, 0.1)
    assert alerts == ["High rollback rate detected"]
