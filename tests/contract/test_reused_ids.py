"""An id that is used again begins anew, on both catalogs: nobody sees, or loses, what is another's.

Ann had a session `late`, and it is gone; Bob makes one with the same id.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.catalog.hashing import digest_of, to_seal
from holdfast.catalog.rows import SESSION
from holdfast.engine.namespace import Namespace
from holdfast.errors import (
    Damaged,
    MergeConflict,
    SessionExists,
    SessionNotFound,
    TurnNotFound,
    VersionNotFound,
)
from holdfast.model.names import Name
from holdfast.model.sessions import VersionKind
from holdfast.testing.clocks import Watch
from holdfast.testing.damaged import run_in

Open = Callable[[], holdfast.Holdfast]
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def clock() -> Watch:
    return Watch()


@pytest.fixture
def vault(opener: Open) -> holdfast.Holdfast:
    return opener()


@pytest.fixture
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Returns where the catalog is."""
    if "postgres" in request.node.callspec.id:
        return request.getfixturevalue("postgres_url")
    return tmp_path / "vault"


@pytest.fixture
def agent(vault: holdfast.Holdfast) -> Namespace:
    agent = vault.namespace("alice")
    agent.snapshot("empty")
    return agent


def begin(agent: Namespace, who: str, **more: Any) -> str:
    """Makes the session of somebody, with all that one can have; returns the id of its turn."""
    sessions = agent.sessions
    sessions.create("a", session_id="late", user_id=who, initial_state={"of": who}, **more)
    turn = sessions.add_turn("late", f"by {who}", "yes", state_after={"of": who, "said": 1})
    agent.entities.create("late", entity_type="dog", entity_id="1", attributes={"of": who})
    return turn.id


def by_restore(agent: Namespace) -> None:
    agent.restore(agent.timeline()[-1])


def by_deletion(agent: Namespace) -> None:
    agent.snapshot("before it goes")
    agent.sessions.delete("late")


WAYS = {"a restore": by_restore, "deletion": by_deletion}


def seen(agent: Namespace) -> tuple[list[int], set[str], list[str], list[Any]]:
    """Returns the numbers of versions, whose states, turns and entities they are."""
    versions = agent.sessions.history("late")
    states = [each.state["of"] for each in versions if each.state]
    turns = agent.sessions.list_turns("late", include_state=True, limit=None)
    for turn in turns:
        states += [each["of"] for each in (turn.state_before, turn.state_after) if each]
    entities = [each.attributes["of"] for each in agent.entities.list(session_id="late")]
    return (
        [each.number for each in versions],
        {*states},
        [turn.input.content for turn in turns],
        entities,
    )


@pytest.mark.parametrize("way", WAYS)
def test_who_gets_an_id_sees_nothing_of_who_had_it(
    vault: holdfast.Holdfast, agent: Namespace, clock: Watch, way: str
) -> None:
    said = begin(agent, "ann")
    fork = agent.sessions.fork("late")
    WAYS[way](agent)
    clock.wait(HOUR)
    begin(agent, "bob")
    sessions = agent.sessions
    assert seen(agent) == ([2, 3], {"bob"}, ["by bob"], ["bob"])
    for number in (0, 1, -2, -3):
        with pytest.raises(VersionNotFound):
            sessions.get_state("late", version=number)
        with pytest.raises(VersionNotFound):
            sessions.diff("late", number)
        with pytest.raises(VersionNotFound):
            sessions.rollback("late", number, conversation=True)
        with pytest.raises(VersionNotFound):
            sessions.fork("late", number, include_turns=True)
    assert sessions.get_state("late", version=-1).state == {"of": "bob"}
    with pytest.raises(TurnNotFound):
        sessions.get_turn("late", said)
    assert sessions.lineage("late").forks == []
    assert [turn.input.content for turn in sessions.get_context("late").recent_turns] == ["by bob"]
    assert fork.id not in str(sessions.get("late"))
    shown = agent.at(agent.snapshot("bob's")).sessions.get("late")
    assert (shown.version, shown.state["of"]) == (3, "bob")
    assert vault.verify().faults == []


def test_whoever_an_undo_brings_back_has_its_own_again(
    vault: holdfast.Holdfast, agent: Namespace, clock: Watch
) -> None:
    begin(agent, "ann")
    hers = agent.snapshot("ann's")
    by_restore(agent)
    clock.wait(HOUR)
    begin(agent, "bob")
    his = agent.snapshot("bob's")
    for _ in range(2):
        clock.wait(HOUR)
        agent.restore(hers)
        numbers, *known = seen(agent)
        assert (numbers[:2], known) == ([0, 1], [{"ann"}, ["by ann"], ["ann"]])
        assert agent.sessions.get("late").user_id == "ann"
        assert agent.sessions.get_state("late", version=-len(numbers) + 1).version == 0
        with pytest.raises(VersionNotFound):
            agent.sessions.rollback("late", 2)
        assert agent.at(his).sessions.get("late").version == 3
        assert vault.verify().faults == []
        clock.wait(HOUR)
        agent.undo()
        numbers, *known = seen(agent)
        assert (numbers[:2], known) == ([2, 3], [{"bob"}, ["by bob"], ["bob"]])
        assert agent.at(hers).sessions.get("late").version == 1
    assert [each.kind for each in agent.sessions.history("late")] == [
        *(VersionKind.CREATED, VersionKind.TURN, VersionKind.RESTORE, VersionKind.RESTORE)
    ]
    assert vault.verify().faults == []


@pytest.mark.parametrize("is_looked_at", [True, False])
def test_an_id_is_free_as_soon_as_its_session_is_over(
    vault: holdfast.Holdfast, agent: Namespace, clock: Watch, is_looked_at: bool
) -> None:
    begin(agent, "ann", ttl_seconds=60)
    agent.memory.add("Ann has a dog", session_id="late")
    clock.wait(HOUR)
    if is_looked_at:
        with pytest.raises(SessionNotFound):
            agent.sessions.get("late")
    begin(agent, "bob")
    with pytest.raises(SessionExists):
        agent.sessions.create("a", session_id="late")
    assert seen(agent) == ([2, 3], {"bob"}, ["by bob"], ["bob"])
    assert agent.sessions.get("late").memory_count == 0
    assert agent.sessions.get_context("late").memories == []
    agent.sessions.delete("late")
    assert [each.content for each in agent.memory.list(user_id="ann")] == ["Ann has a dog"]
    assert vault.verify().faults == []


@pytest.mark.parametrize("way", WAYS)
def test_erasing_a_user_leaves_who_has_the_id_alone(
    vault: holdfast.Holdfast, agent: Namespace, clock: Watch, way: str
) -> None:
    begin(agent, "ann")
    WAYS[way](agent)
    clock.wait(HOUR)
    begin(agent, "bob")
    agent.memory.add("Bob has a cat", session_id="late")
    his = agent.snapshot("bob is here")
    traces = len(agent.traces.list(user_id="bob"))
    done = vault.erasures.user("ann")
    assert (done.removed["sessions"], done.removed["versions"]) == (1, 2)
    assert done.removed["entities"] == 1
    assert seen(agent) == ([2, 3], {"bob"}, ["by bob"], ["bob"])
    assert agent.sessions.get("late").memory_count == 1
    assert agent.at(his).sessions.get("late").state["of"] == "bob"
    assert len(agent.traces.list(user_id="bob")) == traces
    assert agent.traces.list(user_id="ann") == []
    users = {each.user_id for shot in agent.timeline() for each in agent.at(shot).sessions.list()}
    assert users == {"bob"}
    assert vault.verify().faults == []
    # And the other way round: what is left of the id is nobody's.
    assert vault.erasures.user("bob").removed["sessions"] == 1
    assert agent.sessions.create("a", session_id="late").version == 0
    assert vault.verify().faults == []


def test_erasing_who_has_an_id_now_leaves_who_had_it_to_an_undo(
    vault: holdfast.Holdfast, agent: Namespace, clock: Watch
) -> None:
    begin(agent, "ann")
    hers = agent.snapshot("ann's")
    agent.sessions.delete("late")
    clock.wait(HOUR)
    begin(agent, "bob")
    assert vault.erasures.user("bob").removed["versions"] == 2
    with pytest.raises(SessionNotFound):
        agent.sessions.get("late")
    assert agent.sessions.list() == []
    assert vault.verify().faults == []
    agent.restore(hers)
    assert seen(agent) == ([0, 1, 2], {"ann"}, ["by ann"], ["ann"])
    assert vault.verify().faults == []


def test_erasing_a_session_takes_all_that_had_its_id_and_counts_them(
    vault: holdfast.Holdfast, agent: Namespace, clock: Watch
) -> None:
    begin(agent, "ann")
    by_restore(agent)
    clock.wait(HOUR)
    begin(agent, "bob")
    done = vault.erasures.session("alice", "late")
    removed = [done.removed[each] for each in ("sessions", "versions", "entities")]
    assert removed == [2, 4, 2]
    assert all(agent.at(each).sessions.list() == [] for each in agent.timeline())
    assert agent.traces.list(session_id="late") == []
    assert vault.verify().faults == []


def test_a_session_that_is_gone_for_good_takes_nobody_with_it(
    vault: holdfast.Holdfast, agent: Namespace, clock: Watch
) -> None:
    """Neither by collection, nor when the journal alone still knows whose it was."""
    begin(agent, "ann")
    agent.sessions.delete("late")
    clock.wait(HOUR)
    begin(agent, "bob")
    clock.wait(8 * DAY)
    vault.collect()
    assert seen(agent) == ([2, 3], {"bob"}, ["by bob"], ["bob"])
    agent.sessions.delete("late")
    clock.wait(8 * DAY)
    vault.collect()
    begin(agent, "cid")
    assert seen(agent) == ([0, 1], {"cid"}, ["by cid"], ["cid"])
    for user in ("ann", "bob"):
        vault.erasures.user(user)
        assert agent.traces.list(user_id=user) == []
    assert seen(agent) == ([0, 1], {"cid"}, ["by cid"], ["cid"])
    assert len(agent.traces.list(user_id="cid")) == 3
    assert vault.verify().faults == []


def test_two_sessions_of_one_id_are_not_merged_into_one(
    vault: holdfast.Holdfast, agent: Namespace, clock: Watch
) -> None:
    begin(agent, "ann")
    fork = agent.fork("fork")
    fork.sessions.delete("late")
    clock.wait(HOUR)
    begin(fork, "bob")
    agent.sessions.update_state("late", {"more": 1})
    with pytest.raises(MergeConflict):
        agent.merge(fork)
    agent.merge(fork, prefer="theirs")
    assert seen(agent)[:3] == ([3], {"bob"}, ["by bob"])
    agent.undo()
    assert seen(agent)[:3] == ([0, 1, 2, 4], {"ann"}, ["by ann"])
    assert vault.verify().faults == []


def test_a_flipped_bit_of_who_had_an_id_is_told_and_put_back(
    vault: holdfast.Holdfast,
    agent: Namespace,
    where: Path | str,
    clock: Watch,
) -> None:
    begin(agent, "ann")
    by_restore(agent)
    clock.wait(HOUR)
    begin(agent, "bob")
    run_in(where, "UPDATE former_sessions SET version = version + 4")
    with pytest.raises(Damaged):
        agent.sessions.history("late")
    with pytest.raises(Damaged):
        agent.sessions.rollback("late", 2)
    assert "sessions: late" in str(vault.verify().faults)
    vault.repair()
    assert vault.verify().faults == []
    assert seen(agent) == ([2, 3], {"bob"}, ["by bob"], ["bob"])


def mix(where: Path | str) -> None:
    """Makes a vault what format 35 had: one row of an id, and all versions are its own."""
    for statement in (
        "DROP TABLE former_sessions",
        "DROP TABLE former_entities",
        "ALTER TABLE sessions DROP COLUMN since",
        "DROP TABLE agreements",
        "DROP TABLE logins",
        "DROP TABLE git_backups",
        "ALTER TABLE namespaces DROP COLUMN row_bytes",
        "DROP INDEX replies_large",
        "DROP INDEX snapshots_of_label",
        "DROP INDEX snapshots_of_task",
        "DROP INDEX snapshots_of_trace",
        "DROP TABLE first_keys",
        "DROP TABLE rates",
        "DROP TABLE leases",
        "DROP TABLE writers",
        "DROP TABLE pack_sums",
        "DROP TABLE sweeps",
        "DROP TABLE forgotten",
        "ALTER TABLE tasks DROP COLUMN noted",
        "ALTER TABLE event_ends DROP COLUMN timeline",
        "DROP INDEX retired_by_age",
        "DROP INDEX retired_of_tenant",
        "DROP INDEX packs_outside",
        "DROP INDEX packs_unfinished",
        "ALTER TABLE packs DROP COLUMN plain_bytes",
        "DELETE FROM migrations WHERE number >= 36",
    ):
        run_in(where, statement)
    columns = ", ".join(SESSION.columns[:-2])
    for row in run_in(where, f"SELECT {columns} FROM sessions"):
        seal = to_seal(digest_of(row))
        run_in(where, "UPDATE sessions SET seal = ? WHERE namespace_id = ?", seal, row[0])


def test_what_an_older_version_has_mixed_is_parted_when_a_vault_is_opened(
    opener: Open, where: Path | str, clock: Watch
) -> None:
    vault = opener()
    agent = vault.namespace("alice")
    agent.snapshot("empty")
    begin(agent, "ann")
    hers = agent.snapshot("ann's")
    by_restore(agent)
    clock.wait(HOUR)
    begin(agent, "bob")
    wanted = agent.sessions.history("late")
    vault.close()
    mix(where)
    vault = opener()
    agent = vault.namespace("alice")
    assert agent.sessions.history("late") == wanted
    assert vault.verify().faults == []
    agent.restore(hers)
    assert seen(agent)[:3] == ([0, 1, 4], {"ann"}, ["by ann"])
    assert vault.erasures.user("bob").removed["versions"] == 2
    assert seen(agent)[:3] == ([0, 1, 4], {"ann"}, ["by ann"])
    assert vault.verify().faults == []


def test_what_came_by_a_fork_is_not_parted_by_a_beginning_that_nobody_knows(
    opener: Open, where: Path | str, clock: Watch
) -> None:
    vault = opener()
    begin(vault.namespace("alice"), "ann")
    clock.wait(HOUR)
    fork = vault.namespace("alice").fork("fork")
    fork.sessions.update_state("late", {"more": 1})
    hers = fork.snapshot("ann's")
    fork.sessions.delete("late")
    clock.wait(HOUR)
    begin(fork, "bob")
    vault.close()
    mix(where)
    vault = opener()
    fork = vault.namespace("fork")
    clock.wait(8 * DAY)
    kept = run_in(where, "SELECT COUNT(*) FROM versions")
    assert vault.collect().damaged == ()
    assert run_in(where, "SELECT COUNT(*) FROM versions") == kept
    assert vault.verify().faults == []
    fork.restore(hers)
    assert fork.sessions.get("late").user_id == "ann"
    assert fork.sessions.get("late").state == {"of": "ann", "said": 1, "more": 1}
    vault.erasures.user("ann")
    assert [each.user_id for each in fork.sessions.list()] == []
    assert vault.verify().faults == []


@pytest.mark.parametrize("names", [[Name.session("late")], None])
def test_who_is_brought_back_alone_has_no_memories_of_who_had_the_id_meanwhile(
    agent: Namespace, clock: Watch, names: list[Name] | None
) -> None:
    begin(agent, "ann")
    agent.memory.add("Ann has a dog", session_id="late")
    hers = agent.snapshot("ann's")
    clock.wait(HOUR)
    agent.restore(agent.timeline()[-1], planes=["sessions"])
    clock.wait(HOUR)
    begin(agent, "bob")
    agent.memory.add("Bob has a cat", session_id="late")
    clock.wait(HOUR)
    if names is None:
        agent.restore(hers, planes=["sessions"])
    else:
        agent.restore(hers, names=names)
    clock.wait(HOUR)
    agent.memory.add("Ann has a fish", session_id="late")
    wanted = {"Ann has a dog", "Ann has a fish"}
    context = agent.sessions.get_context("late")
    assert {each.memory.content for each in context.memories} == wanted
    asked = agent.sessions.get_context("late", query="who has a cat")
    assert {each.memory.content for each in asked.memories} == wanted
    assert {each.content for each in agent.memory.list(session_id="late")} == wanted
    assert agent.memory.search("cat", session_id="late", threshold=0.1) == []
    assert agent.sessions.get("late").memory_count == 2
    agent.sessions.delete("late")
    assert [each.content for each in agent.memory.list()] == ["Bob has a cat"]


@pytest.mark.parametrize("table", ["sessions", "former_sessions"])
def test_one_damaged_row_keeps_nobody_else_from_being_let_go(
    vault: holdfast.Holdfast,
    agent: Namespace,
    where: Path | str,
    clock: Watch,
    table: str,
) -> None:
    """Neither by collection nor by erasing; and there is a way out."""
    begin(agent, "ann")
    agent.sessions.delete("late")
    clock.wait(HOUR)
    begin(agent, "bob")
    agent.sessions.delete("late")
    agent.sessions.create("a", session_id="other", user_id="cid")
    agent.sessions.delete("other")
    run_in(where, f"UPDATE {table} SET metadata = '{{\"much\": 1}}' WHERE id = 'late'")
    clock.wait(8 * DAY)
    assert "late" in str(vault.collect().damaged)
    assert run_in(where, "SELECT id FROM sessions") == [("late",)]
    assert run_in(where, "SELECT COUNT(*) FROM versions") == [(4,)]
    vault.repair()
    assert vault.repair().lost == []
    assert vault.collect().damaged == ()
    assert vault.verify().faults == []


def test_erasing_a_user_takes_damaged_rows_where_nobody_else_has_the_id(
    vault: holdfast.Holdfast, agent: Namespace, where: Path | str
) -> None:
    begin(agent, "ann")
    run_in(where, "UPDATE sessions SET metadata = '{\"much\": 1}'")
    assert vault.erasures.user("ann").removed["versions"] == 2
    assert agent.sessions.list() == []
    assert vault.verify().faults == []


def test_a_row_that_is_made_anew_has_the_versions_that_are_left(
    vault: holdfast.Holdfast,
    agent: Namespace,
    where: Path | str,
    clock: Watch,
) -> None:
    """Bob, who had the id between Ann and Cid, is gone for good."""
    begin(agent, "ann")
    agent.snapshot("ann's")
    for who in ("bob", "cid"):
        agent.sessions.delete("late")
        clock.wait(HOUR)
        begin(agent, who)
    clock.wait(8 * DAY)
    vault.collect()
    assert seen(agent)[0] == [4, 5]
    run_in(where, "UPDATE sessions SET metadata = '{\"much\": 1}', since = 9")
    vault.repair()
    assert vault.verify().faults == []
    assert seen(agent) == ([4, 5], {"cid"}, ["by cid"], ["cid"])


# Forks of a session whose id others had


def by_expiry(agent: Namespace, clock: Watch, _: Path) -> None:
    agent.sessions.create("a", session_id="late", ttl_seconds=60)
    clock.wait(HOUR)
    begin(agent, "bob")


def by_taking_back(agent: Namespace, clock: Watch, _: Path) -> None:
    begin(agent, "ann")
    by_restore(agent)
    clock.wait(HOUR)
    begin(agent, "bob")


def by_a_restore_of_who_had_it(agent: Namespace, clock: Watch, _: Path) -> None:
    begin(agent, "bob")
    his = agent.snapshot("bob's")
    agent.sessions.delete("late")
    clock.wait(HOUR)
    begin(agent, "ann")
    agent.restore(his)


def by_import(agent: Namespace, clock: Watch, folder: Path) -> None:
    elsewhere = agent.fork("elsewhere")
    begin(elsewhere, "bob")
    elsewhere.export(folder / "bob.tar")
    clock.wait(HOUR)
    begin(agent, "ann")
    agent.import_(folder / "bob.tar")


def by_merge(agent: Namespace, clock: Watch, _: Path) -> None:
    fork = agent.fork("fork")
    begin(fork, "bob")
    clock.wait(HOUR)
    begin(agent, "ann")
    agent.sessions.delete("late")
    agent.merge(fork)


def by_forking_the_namespace(agent: Namespace, clock: Watch, folder: Path) -> None:
    by_taking_back(agent, clock, folder)
    agent.fork("elsewhere").export(folder / "bob.tar")
    agent.sessions.delete("late")
    agent.import_(folder / "bob.tar")


GOT: dict[str, Callable[[Namespace, Watch, Path], None]] = {
    "when its time was over": by_expiry,
    "since a restore took the other away": by_taking_back,
    "since a restore brought it back": by_a_restore_of_who_had_it,
    "by an import": by_import,
    "by a merge": by_merge,
    "by way of another namespace": by_forking_the_namespace,
}


def check_whole(agent: Namespace, session_id: str, wanted: list[dict[str, Any] | None]) -> None:
    """Asks all that can be asked of the history of a session that nobody had the id of before."""
    sessions = agent.sessions
    history = sessions.history(session_id)
    assert [each.state for each in history] == wanted
    assert [each.number for each in history] == [*range(len(wanted))]
    newest = sessions.get(session_id)
    assert (newest.version, newest.state) == (len(wanted) - 1, wanted[-1])
    for number, state in enumerate(wanted):
        assert sessions.get_state(session_id, version=number).state == state
        assert sessions.diff(session_id, number, number).patch == []
        assert sessions.fork(session_id, number).state == state


@pytest.mark.parametrize("way", GOT)
def test_a_fork_has_all_of_its_history_whoever_had_the_id_of_its_origin(
    vault: holdfast.Holdfast, agent: Namespace, clock: Watch, tmp_path: Path, way: str
) -> None:
    GOT[way](agent, clock, tmp_path)
    now = agent.sessions.get("late").state
    assert now["of"] == "bob"
    fork = agent.sessions.fork("late")
    check_whole(agent, fork.id, [now])
    again = agent.sessions.fork(agent.sessions.fork(fork.id).id, 0)
    check_whole(agent, again.id, [now])
    for session_id in (fork.id, again.id):
        agent.sessions.add_turn(session_id, "more", "yes", state_after={"more": 1})
        agent.sessions.rollback(session_id, 0, conversation=True)
        check_whole(agent, session_id, [now, {"more": 1}, now])
    held = agent.snapshot("held")
    agent.sessions.delete(fork.id)
    agent.restore(held)
    check_whole(agent, fork.id, [now, {"more": 1}, now, now])
    beside = agent.fork("beside")
    check_whole(beside, "late", [now])
    check_whole(beside, fork.id, [now])
    assert vault.verify().faults == []


def test_the_id_of_a_fork_is_used_again_and_forked(
    vault: holdfast.Holdfast, agent: Namespace, clock: Watch
) -> None:
    begin(agent, "ann")
    fork = agent.sessions.fork("late")
    agent.sessions.delete(fork.id)
    clock.wait(HOUR)
    agent.sessions.create("a", session_id=fork.id, initial_state={"of": "bob"})
    check_whole(agent, agent.sessions.fork(fork.id).id, [{"of": "bob"}])
    with pytest.raises(VersionNotFound):
        agent.sessions.fork(fork.id, 0)
    assert vault.verify().faults == []


def test_a_fork_without_its_first_version_has_it_again_after_a_repair(
    vault: holdfast.Holdfast, agent: Namespace, where: Path | str, clock: Watch
) -> None:
    """Forks once had from their origins where those began. Nobody else's row is touched."""
    by_taking_back(agent, clock, Path())
    fork = agent.sessions.fork("late")
    agent.sessions.update_state(fork.id, {"more": 1})
    wanted = [each.state for each in agent.sessions.history(fork.id)]
    columns = ", ".join(SESSION.columns[:-2])
    (row,) = run_in(where, f"SELECT {columns} FROM sessions WHERE id = '{fork.id}'")
    seal = to_seal(digest_of((*row, 2)))
    run_in(where, f"UPDATE sessions SET since = 2, seal = ? WHERE id = '{fork.id}'", seal)
    assert agent.sessions.history(fork.id) == []
    assert [each.what for each in vault.verify().faults] == [f"sessions: {fork.id}"]
    repaired = vault.repair()
    assert (repaired.mended, repaired.lost) == (1, [])
    assert vault.verify().faults == []
    check_whole(agent, fork.id, wanted)
    assert seen(agent) == ([2, 3], {"bob"}, ["by bob"], ["bob"])
