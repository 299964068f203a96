"""A restore brings sessions back as a snapshot holds them: all of them, alive, and no others."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast
from holdfast.errors import SessionExists, SessionNotFound
from holdfast.model.sessions import VersionKind
from holdfast.testing.clocks import Watch

pytestmark = pytest.mark.in_memory

HOUR = timedelta(hours=1)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def vault(request: pytest.FixtureRequest, tmp_path: Path, watch: Watch) -> Iterator[Holdfast]:
    place = tmp_path / "vault"
    is_postgres = request.param == "postgres"
    with holdfast.open(
        request.getfixturevalue("postgres_url") if is_postgres else place,
        objects=place if is_postgres else None,
        clock=watch,
        limits=Limits(free_floor_bytes=0),
    ) as opened:
        yield opened


@pytest.fixture
def agent(vault: Holdfast) -> Namespace:
    agent = vault.namespace("alice")
    agent.sessions.create("a", session_id="short", initial_state={"v": 1}, ttl_seconds=3600)
    agent.sessions.create("a", session_id="open", initial_state={"v": 1})
    agent.sessions.add_turn("short", "hello", "hi")
    return agent


def listed(agent: Namespace) -> set[str]:
    return {session.id for session in agent.sessions.list(limit=None)}


def test_a_session_that_has_lapsed_comes_back_with_a_full_term(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    then = agent.snapshot("both")
    for collects in (False, True):
        watch.wait(48 * HOUR)
        if collects:
            vault.collect()
        assert listed(agent) == {"open"}
        done = agent.restore(then)
        assert done.verified
        assert [change.key for change in done.changes] == [b"short"]
        assert listed(agent) == {"open", "short"}
        found = agent.sessions.get("short")
        assert (found.state, found.expires_at) == ({"v": 1}, watch.now + HOUR)
        assert len(agent.sessions.list_turns("short")) == found.turn_count == 1
        assert agent.at("@").sessions.get("short").expires_at == found.expires_at
        agent.sessions.update_state("short", {"v": 2})
        assert vault.verify().faults == []


def test_an_undo_and_a_redo_bring_them_back_alive_too(agent: Namespace, watch: Watch) -> None:
    agent.snapshot("both")
    agent.sessions.delete("short")
    agent.snapshot("one")
    watch.wait(48 * HOUR)
    agent.undo()
    assert agent.sessions.get("short").expires_at == watch.now + HOUR
    agent.redo()
    assert listed(agent) == {"open"}
    watch.wait(48 * HOUR)
    agent.undo()
    assert listed(agent) == {"open", "short"}


def test_what_had_lapsed_by_then_stays_so(vault: Holdfast, agent: Namespace, watch: Watch) -> None:
    watch.wait(2 * HOUR)
    late = agent.snapshot("one of them is over")
    watch.wait(HOUR)
    agent.files.write("a", "1")
    agent.restore(late)
    assert listed(agent) == {"open"}
    with pytest.raises(SessionNotFound):
        agent.sessions.get("short")
    assert vault.verify().faults == []


def test_other_planes_wake_no_session(agent: Namespace, watch: Watch) -> None:
    agent.files.write("a", "1")
    then = agent.snapshot("both")
    watch.wait(2 * HOUR)
    agent.files.write("a", "2")
    agent.restore(then, planes=["files"])
    agent.restore(then, paths=["a"])
    assert listed(agent) == {"open"}
    assert len(list(agent.restore(then, planes=["sessions"], dry_run=True).changes)) == 1
    agent.restore(then, planes=["sessions"])
    assert listed(agent) == {"open", "short"}


def test_a_term_that_is_not_over_stays_as_it_is(agent: Namespace, watch: Watch) -> None:
    then = agent.snapshot("both")
    end = agent.sessions.get("short").expires_at
    watch.wait(HOUR / 2)
    agent.sessions.delete("short")
    agent.restore(then)
    assert agent.sessions.get("short").expires_at == end


def test_a_fork_that_nobody_has_looked_at_brings_them_back_too(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    fork = agent.fork("bob")
    watch.wait(48 * HOUR)
    fork.files.write("a", "1")
    fork.restore(fork.timeline()[-1])
    assert listed(fork) == {"open", "short"}
    assert vault.verify().faults == []


def test_a_session_that_was_made_after_the_snapshot_is_gone_until_an_undo(
    vault: Holdfast, agent: Namespace
) -> None:
    then = agent.snapshot("two")
    agent.sessions.create("a", session_id="late", initial_state={"v": 1})
    turn = agent.sessions.add_turn("late", "i", "o", state_after={"v": 2})
    late = agent.sessions.fork("late")
    agent.restore(then)
    sessions = agent.sessions
    for session_id in ("late", late.id):
        for ask in (
            sessions.get,
            sessions.get_state,
            sessions.history,
            sessions.list_turns,
            sessions.lineage,
            sessions.get_context,
            sessions.delete,
            sessions.fork,
            lambda name: sessions.get_state(name, version=0),
            lambda name: sessions.get_turn(name, turn.id),
            lambda name: sessions.diff(name, 0, 0),
            lambda name: sessions.rollback(name, 0),
            lambda name: sessions.update_state(name, {"v": 3}),
            lambda name: sessions.update(name, metadata={"v": 3}),
            lambda name: sessions.add_turn(name, "i", "o"),
        ):
            with pytest.raises(SessionNotFound):
                ask(session_id)
    assert listed(agent) == {"open", "short"}
    agent.undo()
    assert listed(agent) == {"open", "short", "late", late.id}
    assert sessions.get("late").state == {"v": 2}
    assert [each.id for each in sessions.list_turns("late")] == [turn.id]
    assert [each.kind for each in sessions.history("late")] == [
        VersionKind.CREATED,
        VersionKind.TURN,
        VersionKind.RESTORE,
    ]
    assert [each.session_id for each in sessions.lineage("late").forks] == [late.id]
    assert vault.verify().faults == []


def test_an_id_that_is_free_again_can_be_used_again(vault: Holdfast, agent: Namespace) -> None:
    then = agent.snapshot("two")
    agent.sessions.create("a", session_id="mine", initial_state={"v": "old"})
    agent.sessions.add_turn("mine", "old", "o")
    agent.restore(then)
    made = agent.sessions.create("b", session_id="mine", initial_state={"v": "new"})
    assert (made.state, made.turn_count, made.agent_id) == ({"v": "new"}, 0, "b")
    assert agent.sessions.get("mine") == made
    with pytest.raises(SessionExists):
        agent.sessions.create("b", session_id="mine")
    assert vault.verify().faults == []
    before = agent.timeline()[0]
    agent.undo()
    agent.undo()
    found = agent.sessions.get("mine")
    assert (found.state, found.turn_count, found.agent_id) == ({"v": "old"}, 1, "a")
    agent.restore(before)
    with pytest.raises(SessionNotFound):
        agent.sessions.get("mine")
    assert vault.verify().faults == []
