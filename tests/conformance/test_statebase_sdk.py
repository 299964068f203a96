"""The `statebase` package of PyPI, unmodified, against a real server: every method it has.

Each test runs twice, with `StateBase` and with `AsyncStateBase`: what the second returns is
awaited on the way. The client parses every answer into its own models, and raises where one of
their fields is missing or of another type.
"""

import ast
import asyncio
import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from statebase import (  # pyright: ignore[reportMissingTypeStubs] - it has none
    AsyncStateBase,
    StateBase,
)

from holdfast.testing.servers import Server


class Awaited:
    """An asynchronous client that is used as if it were not: it waits for each answer."""

    def __init__(self, runner: asyncio.Runner, target: Any) -> None:
        self._runner, self._target = runner, target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if name in ("sessions", "memory", "client"):
            return Awaited(self._runner, found)
        if not inspect.iscoroutinefunction(found):
            return found

        def wait(*args: Any, **kwargs: Any) -> Any:
            return self._runner.run(found(*args, **kwargs))

        return wait


@pytest.fixture(params=["sync", "async"])
def sb(request: pytest.FixtureRequest, server: Server, namespace: str) -> Iterator[Any]:
    """A client of a namespace of its own."""
    if request.param == "sync":
        client = StateBase(api_key=server.api_key, base_url=server.url)
        client.client.headers["X-Namespace"] = namespace
        yield client
        client.close()
        return
    with asyncio.Runner() as runner:
        waiting = AsyncStateBase(api_key=server.api_key, base_url=server.url)
        waiting.client.headers["X-Namespace"] = namespace
        client = Awaited(runner, waiting)
        yield client
        client.close()


def code_of(error: httpx.HTTPStatusError) -> tuple[int, str]:
    return error.response.status_code, error.response.json()["error"]["code"]


# Every method there is


def methods_of(client: Any) -> set[str]:
    """Returns the public methods of a client and of its parts."""
    found = set[str]()
    for owner, prefix in ((client, ""), (client.sessions, "sessions."), (client.memory, "memory.")):
        members = inspect.getmembers(owner, inspect.ismethod)
        found |= {prefix + name for name, _ in members if not name.startswith("_")}
    return found


def test_every_method_of_both_clients_is_called_in_this_module(server: Server) -> None:
    called = set[str]()
    for node in ast.walk(ast.parse(Path(__file__).read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called.add(ast.unparse(node.func).removeprefix("sb.").removeprefix("client."))
    plain = StateBase(api_key=server.api_key, base_url=server.url)
    waiting = AsyncStateBase(api_key=server.api_key, base_url=server.url)
    methods = methods_of(plain)
    plain.close()
    asyncio.run(waiting.close())
    assert methods == methods_of(waiting)
    assert len(methods) >= 15
    assert methods - called == set()


# Sessions


def test_a_session_is_created_with_nothing_but_an_agent(sb: Any) -> None:
    session = sb.sessions.create(agent_id="travel-agent")
    assert session.object == "session"
    assert session.id.startswith("sess_")
    assert (session.agent_id, session.user_id) == ("travel-agent", None)
    assert (session.state, session.memory_count, session.turn_count) == ({}, 0, 0)
    assert session.created_at == session.updated_at
    assert session.created_at.endswith("Z")
    assert session.ttl_expires_at is not None, "a day, where nothing else is said"


def test_a_session_comes_back_as_it_was_created(sb: Any) -> None:
    state = {"step": "asking", "deep": {"list": [1, None, "ü", {"x": 1.5}]}, "big": 2**80}
    made = sb.sessions.create(
        agent_id="a", user_id="u", metadata={"tier": "pro"}, initial_state=state, ttl_seconds=60
    )
    found = sb.sessions.get(made.id)
    assert found == made
    assert (found.user_id, found.metadata, found.state) == ("u", {"tier": "pro"}, state)


def test_sessions_are_listed_newest_first_a_page_at_a_time(sb: Any) -> None:
    ids = [sb.sessions.create(agent_id="a").id for _ in range(5)]
    other = sb.sessions.create(agent_id="b").id
    page = sb.sessions.list(agent_id="a", limit=2)
    assert page["object"] == "list"
    assert [each["id"] for each in page["data"]] == [ids[4], ids[3]]
    assert (page["first_id"], page["last_id"], page["has_more"]) == (ids[4], ids[3], True)
    rest = sb.sessions.list(agent_id="a", limit=100, starting_after=page["last_id"])
    assert [each["id"] for each in rest["data"]] == [ids[2], ids[1], ids[0]]
    assert rest["has_more"] is False
    assert sb.sessions.list()["data"][0]["id"] == other
    empty = sb.sessions.list(agent_id="nobody")
    assert (empty["data"], empty["first_id"], empty["last_id"]) == ([], None, None)


def test_sessions_are_listed_from_an_instant_on(sb: Any) -> None:
    first = sb.sessions.create(agent_id="a")
    second = sb.sessions.create(agent_id="a")
    found = sb.sessions.list(created_after=second.created_at)["data"]
    assert [each["id"] for each in found] == [second.id]
    assert len(sb.sessions.list(created_after=first.created_at)["data"]) == 2
    assert sb.sessions.list(created_after="2100-01-01T00:00:00Z")["data"] == []


def test_a_cursor_that_nobody_gave_out_is_refused(sb: Any) -> None:
    with pytest.raises(httpx.HTTPStatusError) as caught:
        sb.sessions.list(starting_after="sess_nosuchsession")
    assert code_of(caught.value) == (400, "invalid_request")


def test_a_deleted_session_is_gone_and_cannot_be_deleted_again(sb: Any) -> None:
    session = sb.sessions.create(agent_id="a")
    assert sb.sessions.delete(session.id) is None
    for again in (sb.sessions.get, sb.sessions.delete, sb.sessions.get_state):
        with pytest.raises(httpx.HTTPStatusError) as caught:
            again(session.id)
        assert code_of(caught.value) == (404, "session_not_found")
    assert sb.sessions.list()["data"] == []


# State


def test_the_initial_state_is_version_0_and_each_update_is_one_more(sb: Any) -> None:
    session = sb.sessions.create(agent_id="a", initial_state={"step": 1})
    found = sb.sessions.get_state(session.id)
    assert (found.session_id, found.version, found.state) == (session.id, 0, {"step": 1})
    updated = sb.sessions.update_state(session.id, {"step": 2}, reasoning="it went on")
    assert (updated.version, updated.state) == (1, {"step": 2})
    assert sb.sessions.update_state(session.id, {"step": 2}).version == 2, "also the same again"


def test_an_update_merges_at_the_top_and_replaces_below(sb: Any) -> None:
    session = sb.sessions.create(agent_id="a", initial_state={"kept": 1, "deep": {"a": 1, "b": 2}})
    updated = sb.sessions.update_state(session.id, state={"deep": {"c": 3}, "none": None})
    assert updated.state == {"kept": 1, "deep": {"c": 3}, "none": None}
    assert sb.sessions.get_state(session.id) == updated


def test_what_json_cannot_hold_is_refused_by_the_client_itself(sb: Any) -> None:
    session = sb.sessions.create(agent_id="a")
    with pytest.raises(ValueError, match="JSON"):
        sb.sessions.update_state(session.id, {"x": math.nan})
    assert sb.sessions.get_state(session.id).version == 0


def test_a_rollback_is_a_new_version_without_what_came_later(sb: Any) -> None:
    session = sb.sessions.create(agent_id="a", initial_state={"n": 0})
    for n in range(1, 6):
        sb.sessions.update_state(session.id, {"n": n, f"since {n}": True})
    back = sb.sessions.rollback(session.id, version=3)
    assert back.version == 6
    assert back.state == {"n": 3, "since 1": True, "since 2": True, "since 3": True}
    assert sb.sessions.get_state(session.id).state == back.state
    assert sb.sessions.update_state(session.id, {"n": 7}).version == 7


def test_a_negative_version_counts_back_from_the_newest(sb: Any) -> None:
    session = sb.sessions.create(agent_id="a", initial_state={"n": 0})
    for n in (1, 2, 3):
        sb.sessions.update_state(session.id, {"n": n})
    assert sb.sessions.rollback(session.id, -2).state == {"n": 1}
    assert sb.sessions.rollback(session.id, -1).state == {"n": 3}, "which undoes the rollback"


@pytest.mark.parametrize("version", [4, -4, 10**30])
def test_an_unknown_version_is_not_found_and_writes_nothing(sb: Any, version: int) -> None:
    session = sb.sessions.create(agent_id="a", initial_state={"n": 0})
    for n in (1, 2, 3):
        sb.sessions.update_state(session.id, {"n": n})
    for act in (sb.sessions.rollback, sb.sessions.fork):
        with pytest.raises(httpx.HTTPStatusError) as caught:
            act(session.id, version)
        assert code_of(caught.value) == (404, "version_not_found")
    assert sb.sessions.get_state(session.id).version == 3
    assert len(sb.sessions.list()["data"]) == 1


def test_a_fork_goes_on_from_a_version_and_leaves_its_origin_alone(sb: Any) -> None:
    session = sb.sessions.create(agent_id="a", user_id="u", initial_state={"n": 0})
    sb.sessions.update_state(session.id, {"n": 1})
    sb.sessions.add_turn(session.id, "hello", "hi")
    origin = sb.sessions.get(session.id)
    forked, latest = sb.sessions.fork(session.id, version=0), sb.sessions.fork(session.id)
    assert forked.id not in (session.id, latest.id)
    assert (forked.state, latest.state) == ({"n": 0}, {"n": 1})
    assert forked.metadata == {"forked_from": session.id, "forked_version": 0}
    assert latest.metadata == {"forked_from": session.id, "forked_version": 1}
    assert (forked.agent_id, forked.user_id, forked.turn_count) == ("a", "u", 0)
    assert sb.sessions.update_state(forked.id, {"n": 9}).version == 1, "numbers begin again"
    assert sb.sessions.get(session.id) == origin


# Turns


def test_turns_are_numbered_from_1_and_listed_newest_first(sb: Any) -> None:
    session = sb.sessions.create(agent_id="a", initial_state={"n": 0})
    made = [
        sb.sessions.add_turn(session.id, f"q{n}", f"a{n}", metadata={"n": n}, reasoning="because")
        for n in range(1, 6)
    ]
    assert [turn.turn_number for turn in made] == [1, 2, 3, 4, 5]
    first = made[0]
    assert (first.object, first.session_id) == ("turn", session.id)
    assert (first.input.type, first.input.content) == ("text", "q1")
    assert (first.output.type, first.output.content) == ("text", "a1")
    assert (first.metadata, first.reasoning) == ({"n": 1}, "because")
    assert (first.state_before, first.state_after) == ({"n": 0}, {"n": 0})
    page = sb.sessions.list_turns(session.id, limit=2)
    assert page == [made[4], made[3]]
    rest = sb.sessions.list_turns(session.id, limit=20, starting_after=page[-1].id)
    assert rest == [made[2], made[1], made[0]]
    assert sb.sessions.list_turns(session.id, starting_after=rest[-1].id) == []
    assert sb.sessions.get(session.id).turn_count == 5
    assert sb.sessions.get_state(session.id).version == 0, "a turn alone is no checkpoint"


@pytest.mark.parametrize(
    ("given", "kind", "content"),
    [
        ({"type": "image", "content": "a.png", "alt": "x"}, "image", "a.png"),
        ({"type": "search", "tool": "t", "args": [1]}, "search", None),
        ({"from": "x", "action": "y"}, "text", None),
        ({"type": 5, "content": {"deep": 1}}, "text", None),
        ([1, 2], "text", "[1,2]"),
        (7.5, "text", "7.5"),
        (None, "text", "null"),
    ],
)
def test_a_turn_of_any_shape_comes_back_with_type_and_content(
    sb: Any, given: Any, kind: str, content: str | None
) -> None:
    session = sb.sessions.create(agent_id="a")
    turn = sb.sessions.add_turn(session.id, input=given, output=given)
    assert turn.input.type == turn.output.type == kind
    assert content is None or turn.input.content == content
    assert sb.sessions.list_turns(session.id) == [turn]
    raw = sb.client.get(f"{sb.base_url}/v1/sessions/{session.id}/turns").json()["data"][0]
    kept = raw["input"].get("raw", raw["input"])
    assert kept == given


def test_a_tool_call_is_a_turn_that_keeps_what_the_tool_returned(sb: Any) -> None:
    session = sb.sessions.create(agent_id="a")
    turn = sb.sessions.add_tool_call(
        session.id,
        tool_name="weather",
        arguments={"city": "Oslo"},
        output={"celsius": -3},
        tool_call_id="call-1",
        reasoning="was asked",
        metadata={"ms": 12},
    )
    assert (turn.input.type, turn.output.type) == ("tool_call", "tool_response")
    raw = sb.client.get(f"{sb.base_url}/v1/sessions/{session.id}/turns/{turn.id}").json()
    about = {"name": "weather", "arguments": {"city": "Oslo"}, "id": "call-1"}
    assert raw["input"]["tool_metadata"] == about
    assert raw["output"]["output"] == {"celsius": -3}


def test_an_unknown_session_has_no_turns_and_takes_none(sb: Any) -> None:
    for act in (
        lambda: sb.sessions.list_turns("sess_nosuchsession"),
        lambda: sb.sessions.add_turn("sess_nosuchsession", "a", "b"),
        lambda: sb.sessions.get_context("sess_nosuchsession"),
        lambda: sb.sessions.update_state("sess_nosuchsession", {}),
    ):
        with pytest.raises(httpx.HTTPStatusError) as caught:
            act()
        assert code_of(caught.value) == (404, "session_not_found")


# Memory and context


def test_an_obvious_match_reaches_the_threshold_that_the_client_always_sends(sb: Any) -> None:
    session = sb.sessions.create(agent_id="a", user_id="ada")
    seat = sb.memory.add("The user prefers an aisle seat on long flights", session_id=session.id)
    sb.memory.add("Invoices are sent on the first of the month", session_id=session.id)
    found = sb.memory.search("aisle seat", session_id=session.id)
    assert [each.id for each in found] == [seat.id]
    assert 0.7 <= found[0].score <= 1
    assert (found[0].session_id, found[0].content, found[0].type) == (
        session.id,
        "The user prefers an aisle seat on long flights",
        "fact",
    )
    assert sb.memory.search("quantum chromodynamics") == []
    assert sb.sessions.get(session.id).memory_count == 2


def test_a_memory_of_no_session_is_global_and_found_by_every_one(sb: Any) -> None:
    made = sb.memory.add("The office in Berlin closes at six", type="policy", tags=["hours"])
    assert (made.object, made.session_id, made.type, made.tags) == (
        "memory",
        "",
        "policy",
        ["hours"],
    )
    assert made.vector_available is True
    session = sb.sessions.create(agent_id="a")
    found = sb.memory.search("when does the Berlin office close", session_id=session.id)
    assert [each.id for each in found] == [made.id]
    assert found[0].session_id == ""


def test_a_search_is_narrowed_by_types_tags_limit_and_threshold(sb: Any) -> None:
    for tags, kind in ((["a"], "fact"), (["b", "c"], "preference"), (None, "event")):
        sb.memory.add(f"cats like {kind} boxes", type=kind, tags=tags, metadata={"k": 1})
    everything = sb.memory.search("cats boxes", threshold=0.1)
    assert len(everything) == 3
    assert [each.score for each in everything] == sorted(
        (each.score for each in everything), reverse=True
    )
    assert len(sb.memory.search("cats boxes", limit=2, threshold=0.1)) == 2
    assert {m.type for m in sb.memory.search("cats", types="fact,event", threshold=0.1)} == {
        "fact",
        "event",
    }
    assert {m.type for m in sb.memory.search("cats", tags=["a", "c"], threshold=0.1)} == {
        "fact",
        "preference",
    }


def test_another_users_memories_are_never_found_through_a_session(sb: Any) -> None:
    ada, bob = (sb.sessions.create(agent_id="a", user_id=user) for user in ("ada", "bob"))
    later = sb.sessions.create(agent_id="a", user_id="ada")
    made = sb.memory.add("The passport number is 12345", session_id=ada.id)
    assert [m.id for m in sb.memory.search("passport number", session_id=later.id)] == [made.id]
    assert sb.memory.search("passport number", session_id=bob.id, threshold=0.0) == []


def test_a_context_holds_state_memories_and_recent_turns(sb: Any) -> None:
    session = sb.sessions.create(agent_id="a", initial_state={"step": "booking"})
    for n in (1, 2, 3):
        sb.sessions.add_turn(session.id, f"q{n}", f"a{n}")
    sb.memory.add("The user prefers an aisle seat", session_id=session.id)
    context = sb.sessions.get_context(session.id, query="aisle seat", memory_limit=5, turn_limit=2)
    assert context["state"] == {"step": "booking"}
    (memory,) = context["memories"]
    assert {"id", "content", "type", "score", "created_at"} <= memory.keys()
    assert memory["score"] >= 0.7
    assert [turn["turn_number"] for turn in context["recent_turns"]] == [3, 2]
    assert context["recent_turns"][0]["input"]["content"] == "q3"
    assert context["drift_warning"] is False
    assert context["average_relevance"] == pytest.approx(memory["score"])


def test_a_context_without_a_question_or_with_limits_of_0(sb: Any) -> None:
    session = sb.sessions.create(agent_id="a")
    sb.sessions.add_turn(session.id, "q", "a")
    sb.memory.add("Something", session_id=session.id)
    plain = sb.sessions.get_context(session.id)
    assert [memory["score"] for memory in plain["memories"]] == [0.0]
    assert (plain["average_relevance"], plain["drift_warning"]) == (0.0, False)
    empty = sb.sessions.get_context(session.id, "Something", memory_limit=0, turn_limit=0)
    assert (empty["memories"], empty["recent_turns"]) == ([], [])
    drifted = sb.sessions.get_context(session.id, "quantum chromodynamics")
    assert drifted["drift_warning"] is True


# Transport


def test_health_needs_no_key_and_has_what_the_client_reads(sb: Any, server: Server) -> None:
    health = sb.health()
    assert health["status"] == "healthy"
    assert {"timestamp", "version", "uptime_seconds", "services"} <= health.keys()
    assert all(isinstance(each, dict) for each in health["services"].values())
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_a_wrong_key_is_told_so_in_the_body(server: Server) -> None:
    with StateBase(api_key="sb_live_wrong", base_url=server.url) as sb:
        with pytest.raises(httpx.HTTPStatusError) as caught:
            sb.sessions.list()
        assert code_of(caught.value) == (401, "authentication_failed")


def test_slashes_at_the_end_of_the_base_url_do_not_matter(server: Server) -> None:
    with StateBase(api_key=server.api_key, base_url=f"{server.url}//") as sb:
        session = sb.sessions.create(agent_id="a")
        assert sb.sessions.get(session.id) == session
        sb.sessions.delete(session.id)


def test_without_a_namespace_all_calls_meet_in_the_usual_one(server: Server) -> None:
    with StateBase(api_key=server.api_key, base_url=server.url) as sb:
        session = sb.sessions.create(agent_id="a")
        named = sb.client.get(
            f"{sb.base_url}/v1/sessions/{session.id}", headers={"X-Namespace": "default"}
        )
        assert named.json()["namespace"] == "default"
        elsewhere = sb.client.get(
            f"{sb.base_url}/v1/sessions/{session.id}", headers={"X-Namespace": "elsewhere"}
        )
        assert (elsewhere.status_code, elsewhere.json()["error"]["code"]) == (
            404,
            "session_not_found",
        )
