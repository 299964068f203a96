"""What the pages of other products promise and people who come from there rely on.

Each is asked for through the embedded door and through a server, on both databases: the same
test, the same answers.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

import holdfast
from holdfast import errors
from holdfast.engine.namespace import Namespace
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.servers import Server, running_server

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("sqlite")) as started:
        yield started


@pytest.fixture(scope="module")
def on_postgres(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> Iterator[Server]:
    name = postgres.create_database()
    environ = {"HOLDFAST_DATABASE_URL": postgres.dsn(name)}
    with running_server(tmp_path_factory.mktemp("postgres"), environ=environ) as started:
        yield started
    postgres.drop_database(name)


EMBEDDED, SERVED = ("sqlite", "postgres_url"), ("on_sqlite", "on_postgres")


@pytest.fixture(
    params=[
        each if each in ("sqlite", "on_sqlite") else pytest.param(each, marks=pytest.mark.postgres)
        for each in (*EMBEDDED, *SERVED)
    ]
)
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Namespace]:
    """A namespace of its own, behind one of four doors."""
    name = f"agent-{next(_NUMBERS)}"
    if request.param in EMBEDDED:
        where = (
            tmp_path / "vault"
            if request.param == "sqlite"
            else request.getfixturevalue("postgres_url")
        )
        with holdfast.open(where, objects=tmp_path / "packs") as vault:
            yield vault.namespace(name)
        return
    server: Server = request.getfixturevalue(request.param)
    with holdfast.Client(server.api_key, url=server.url, namespace=name) as client:
        yield cast("Namespace", client)


def told(agent: Namespace, action: str) -> list[dict[str, Any]]:
    return [trace.details for trace in agent.traces.list(action=action)]


# A context


def test_a_context_holds_as_many_memories_as_asked_for_whatever_their_score(
    agent: Namespace,
) -> None:
    session = agent.sessions.create("bot")
    for text in ("blue sky", "green grass", "red wine", "blue sea"):
        agent.memory.add(text, session_id=session.id)
    agent.memory.add("grey stone", session_id=session.id, embed=False)
    found = agent.sessions.get_context(session.id, "what is the blue sky", memory_limit=4)
    assert [each.memory.content for each in found.memories] == [
        "blue sky",
        "blue sea",
        "red wine",
        "green grass",
    ]
    scores = [each.score for each in found.memories]
    assert scores[0] > scores[1] > scores[2] == scores[3] == 0.0
    assert found.average_relevance == pytest.approx(sum(scores) / 4)
    assert not found.drift_warning, "what fills up is no sign of drift"
    few = agent.sessions.get_context(session.id, "what is the blue sky", memory_limit=3)
    assert few.memories == found.memories[:3]
    nothing = agent.sessions.get_context(session.id, "quantum chromodynamics", memory_limit=20)
    assert [each.score for each in nothing.memories] == [0.0] * 4
    assert nothing.drift_warning


def test_a_context_is_filled_from_what_the_session_sees_alone(agent: Namespace) -> None:
    ann, bob = (agent.sessions.create("bot", user_id=user) for user in ("ann", "bob"))
    agent.memory.add("the passport of ann", session_id=ann.id)
    agent.memory.add("for everybody")
    found = agent.sessions.get_context(bob.id, "quantum", memory_limit=20)
    assert [each.memory.content for each in found.memories] == ["for everybody"]


# Reasons


def test_the_trace_of_a_rollback_says_why_also_if_nobody_did(agent: Namespace) -> None:
    session = agent.sessions.create("bot", initial_state={"n": 0})
    agent.sessions.update_state(session.id, {"n": 1})
    agent.sessions.rollback(session.id, 0)
    agent.sessions.rollback(session.id, -1, reason="")
    agent.sessions.rollback(session.id, 0, reason="it was wrong")
    assert [each["reason"] for each in told(agent, "state.rolled_back")] == [
        "it was wrong",
        "rollback to version 1",
        "rollback to version 0",
    ]
    before = agent.snapshot("before")
    agent.files.write("a", "1")
    agent.restore(before)
    agent.undo()
    agent.redo()
    agent.restore(before, reason="it was wrong")
    assert [each["reason"] for each in told(agent, "snapshot.restored")] == [
        "it was wrong",
        f"restore {before.id}",
    ]
    assert all(each["reason"] for each in told(agent, "snapshot.undone"))
    assert all(each["reason"] for each in told(agent, "snapshot.redone"))


def test_the_first_version_has_a_reasoning(agent: Namespace) -> None:
    session = agent.sessions.create("bot", initial_state={"n": 0})
    agent.sessions.update_state(session.id, {"n": 1}, reasoning="one more")
    agent.sessions.update_state(session.id, {"n": 2})
    fork = agent.sessions.fork(session.id, 1)
    assert [each.reasoning for each in agent.sessions.history(session.id)] == [
        "initial state",
        "one more",
        None,
    ]
    (first,) = agent.sessions.history(fork.id)
    assert first.reasoning == f"forked from {session.id} at version 1"
    agent.snapshot("here")
    copy = agent.fork(f"copy-{next(_NUMBERS)}")
    first = copy.sessions.history(session.id)[0]
    assert first.reasoning == "came with the namespace, which was forked or imported"


# Turns


def test_a_turn_keeps_the_states_that_it_was_given(agent: Namespace) -> None:
    session = agent.sessions.create("bot", initial_state={"n": 0})
    add = agent.sessions.add_turn
    claimed = {"n": 7, "deep": {"list": [1, None, 2.5, "ü"]}}
    first = add(session.id, "a", "b", state_before=claimed, state_after={"n": 1})
    assert (first.state_before, first.state_after) == (claimed, {"n": 1})
    assert (first.version_before, first.version_after) == (0, 1)
    same = add(session.id, "c", "d", state_before={"n": 9}, state_after={"n": 9})
    assert (same.state_before, same.state_after) == ({"n": 9}, {"n": 9})
    assert (same.version_before, same.version_after) == (1, 1), "it says that nothing changed"
    alone = add(session.id, "e", "f", state_before={})
    assert alone.state_before == {}
    agent.sessions.update_state(session.id, {"n": 2})
    shown = agent.sessions.list_turns(session.id, include_state=True, order="asc")
    assert [turn.state_before for turn in shown] == [claimed, {"n": 9}, {}]
    assert [turn.state_after for turn in shown] == [{"n": 1}, {"n": 9}, {"n": 1}]
    read = agent.sessions.get_turn(session.id, first.id, include_state=True)
    assert read.state_before == claimed
    assert agent.sessions.get_state(session.id).state == {"n": 2}
    fork = agent.sessions.fork(session.id, include_turns=True)
    again = agent.sessions.list_turns(fork.id, include_state=True, order="asc")
    assert [turn.state_before for turn in again] == [claimed, {"n": 9}, {}]


# Values that cannot be kept


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


def containing_itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["list"] = [1, value]
    return value


ENDLESS = {"too deep": nested(100_000), "too deep for a body": nested(1_500)}
ENDLESS |= {"itself": containing_itself(), "more digits than text has": {"n": 10**5000}}
TOO_LARGE = {"2**64": {"n": 2**64}, "below": {"n": -(2**63) - 1}, "inside": {"n": [(1, {2**70})]}}


@pytest.mark.parametrize("value", ENDLESS.values(), ids=ENDLESS)
def test_what_has_no_end_is_a_value_error_of_ours_everywhere(
    agent: Namespace, value: dict[str, Any]
) -> None:
    session = agent.sessions.create("bot", initial_state={"n": 0}).id
    remembered = agent.memory.add("something").id
    refusals = [
        lambda: agent.store.set("n", "k", value),
        lambda: agent.store.set_many([("n", "k", value)]),
        lambda: agent.sessions.create("bot", initial_state=value),
        lambda: agent.sessions.create("bot", metadata=value),
        lambda: agent.sessions.update(session, metadata=value),
        lambda: agent.sessions.update_state(session, value),
        lambda: agent.sessions.replace_state(session, value),
        lambda: agent.sessions.add_turn(session, value, "said"),
        lambda: agent.sessions.add_turn(session, "asked", "said", metadata=value),
        lambda: agent.sessions.add_turn(session, "asked", "said", state_before=value),
        lambda: agent.sessions.add_tool_call(session, "tool", arguments=value),
        lambda: agent.sessions.add_tool_call(session, "tool", output=value),
        lambda: agent.memory.add("something else", metadata=value),
        lambda: agent.memory.update(remembered, metadata=value),
        lambda: agent.traces.add("mine", details=value),
    ]
    for refused in refusals:
        with pytest.raises(errors.InvalidValue) as caught:
            refused()
        assert isinstance(caught.value, ValueError)
    assert not agent.store.contains("n", "k")
    assert [each.id for each in agent.sessions.list()] == [session]
    assert agent.sessions.get(session).turn_count == 0
    assert len(agent.memory.list()) == 1


@pytest.mark.parametrize("value", TOO_LARGE.values(), ids=TOO_LARGE)
def test_an_integer_that_a_store_cannot_hold_is_a_value_error_of_ours(
    agent: Namespace, value: dict[str, Any], tmp_path: Path
) -> None:
    with holdfast.Store.open(tmp_path / "store") as durable:
        for store in (agent.store, holdfast.Store(), durable):
            store.set("n", "largest", [2**64 - 1, -(2**63)])
            for write in (
                lambda store=store: store.set("n", "k", value),
                lambda store=store: store.set_many([("n", "k", value)]),
            ):
                with pytest.raises(errors.Unencodable) as caught:
                    write()
                assert isinstance(caught.value, ValueError)
                assert isinstance(caught.value, TypeError)
            assert store.get("n", "largest") == [2**64 - 1, -(2**63)]
            assert not store.contains("n", "k")


@pytest.mark.parametrize("value", ENDLESS.values(), ids=ENDLESS)
def test_a_store_in_this_process_refuses_what_has_no_end(
    value: dict[str, Any], tmp_path: Path
) -> None:
    with holdfast.Store.open(tmp_path / "store") as durable:
        for store in (holdfast.Store(), durable):
            with pytest.raises(ValueError, match="cannot be stored"):
                store.set("n", "k", value)
            assert store.namespaces() == []
    with pytest.raises(ValueError, match="cannot be stored"):
        holdfast.dumps(value)
