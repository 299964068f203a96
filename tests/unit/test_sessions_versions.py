"""Versions of a session: history, rollback, forks, lineage, and what a diff says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.engine.namespace import Namespace
from holdfast.engine.sessions.door import Sessions
from holdfast.errors import (
    InvalidName,
    InvalidValue,
    NotFound,
    SessionExists,
    SessionNotFound,
    StateMoved,
    TurnNotFound,
    VersionNotFound,
)
from holdfast.model.sessions import Lineage, VersionKind

pytestmark = pytest.mark.in_memory


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Namespace]:
    with holdfast.open(tmp_path) as vault:
        agent = vault.namespace("agent")
        agent.sessions.create("agent", session_id="s", initial_state={"v": 0})
        yield agent


@pytest.fixture
def sessions(agent: Namespace) -> Sessions:
    return agent.sessions


def said(sessions: Sessions, session_id: str = "s") -> list[str]:
    return [turn.input["content"] for turn in sessions.list_turns(session_id, order="asc")]


# History


def test_the_history_says_what_made_each_version(agent: Namespace, sessions: Sessions) -> None:
    agent.acting_as("ada").sessions.update_state("s", {"v": 1}, reasoning="why")
    sessions.replace_state("s", {"v": 2})
    sessions.add_turn("s", "i", "o", state_after={"v": 3})
    agent.acting_as("bob").sessions.rollback("s", 1, reason="wrong")
    found = sessions.history("s")
    assert [version.kind for version in found] == [
        VersionKind.CREATED,
        VersionKind.UPDATED,
        VersionKind.REPLACED,
        VersionKind.TURN,
        VersionKind.ROLLBACK,
    ]
    assert [version.state for version in found] == [{"v": v} for v in (0, 1, 2, 3, 1)]
    assert (found[1].reasoning, found[1].actor) == ("why", "ada")
    assert (found[4].reasoning, found[4].actor, found[4].target) == ("wrong", "bob", 1)
    assert len({version.trace_id for version in found}) == 5
    assert [version.turn_count for version in found] == [0, 0, 0, 1, 1]


def test_a_history_is_read_in_pages_and_without_states(sessions: Sessions) -> None:
    for number in range(1, 8):
        sessions.update_state("s", {"v": number})
    assert [v.number for v in sessions.history("s", since_version=2, limit=3)] == [3, 4, 5]
    assert [v.number for v in sessions.history("s", since_version=6)] == [7]
    assert sessions.history("s", since_version=7) == []
    assert sessions.history("s", limit=0) == []
    assert len(sessions.history("s", limit=None)) == 8
    assert {v.state is None for v in sessions.history("s", include_state=False)} == {True}
    with pytest.raises(InvalidValue):
        sessions.history("s", limit=-1)


def test_a_state_is_read_at_any_version(sessions: Sessions) -> None:
    for number in range(1, 4):
        sessions.update_state("s", {"v": number})
    wanted = {None: 3, 0: 0, 2: 2, 3: 3, -1: 2, -3: 0}
    for version, value in wanted.items():
        found = sessions.get_state("s", version=version)
        assert (found.state, found.version) == ({"v": value}, value)
    for version in (4, -4, 2**70, -(2**70)):
        with pytest.raises(VersionNotFound):
            sessions.get_state("s", version=version)


# Rollback


@pytest.mark.parametrize(("wanted", "target"), [(3, 3), (0, 0), (5, 5), (-1, 4), (-5, 0)])
def test_a_rollback_goes_to_a_version_or_so_many_back(
    sessions: Sessions, wanted: int, target: int
) -> None:
    for number in range(1, 6):
        sessions.update_state("s", {"v": number, f"since {number}": True})
    before = sessions.history("s")
    found = sessions.rollback("s", wanted)
    assert (found.version, found.state) == (6, before[target].state), "younger keys are gone"
    after = sessions.history("s")
    assert after[:6] == before
    assert after[6].target == target
    assert after[6].reasoning == f"rollback to version {target}"


@pytest.mark.parametrize("wanted", [6, -6, 2**64, -(2**64)])
def test_a_rollback_to_nowhere_writes_nothing(sessions: Sessions, wanted: int) -> None:
    for number in range(1, 6):
        sessions.update_state("s", {"v": number})
    before = sessions.get("s"), sessions.history("s")
    with pytest.raises(VersionNotFound):
        sessions.rollback("s", wanted)
    with pytest.raises(VersionNotFound):
        sessions.fork("s", wanted)
    assert (sessions.get("s"), sessions.history("s")) == before
    assert len(sessions.list()) == 1


@pytest.mark.parametrize("wanted", ["0", 1.0, True, [0]])
def test_a_version_is_a_number(sessions: Sessions, wanted: Any) -> None:
    sessions.update_state("s", {"v": 1})
    for act in (sessions.rollback, sessions.fork):
        with pytest.raises(InvalidValue):
            act("s", wanted)
    with pytest.raises(InvalidValue):
        sessions.get_state("s", version=wanted)


def test_two_rollbacks_by_one_undo_each_other(sessions: Sessions) -> None:
    sessions.update_state("s", {"v": 1})
    assert sessions.rollback("s", -1).state == {"v": 0}
    assert sessions.rollback("s", -1).state == {"v": 1}


def test_a_rollback_takes_the_conversation_back_only_if_asked(sessions: Sessions) -> None:
    sessions.add_turn("s", "one", "o", state_after={"v": 1})
    sessions.add_turn("s", "small talk", "o")
    sessions.add_turn("s", "two", "o", state_after={"v": 2})
    sessions.rollback("s", 1)
    assert said(sessions) == ["one", "small talk", "two"]
    sessions.rollback("s", 1, conversation=True)
    assert said(sessions) == ["one"], "as it was when the version was made"
    assert sessions.get("s").turn_count == 1
    turn = sessions.add_turn("s", "other", "o")
    assert turn.number == 2
    sessions.rollback("s", 2, conversation=True)
    assert said(sessions) == ["one", "small talk", "two"], "what was left is still there"
    sessions.rollback("s", 0, conversation=True)
    assert said(sessions) == []


def test_a_turn_that_went_back_is_not_in_the_conversation(sessions: Sessions) -> None:
    sessions.add_turn("s", "one", "o", state_after={"v": 1})
    gone = sessions.add_turn("s", "two", "o")
    sessions.rollback("s", 1, conversation=True)
    here = sessions.add_turn("s", "instead", "o")
    assert here.number == gone.number == 2
    assert sessions.get_turn("s", here.id).input["content"] == "instead"
    with pytest.raises(TurnNotFound):
        sessions.get_turn("s", gone.id)
    # Who has seen it goes on behind where it was.
    assert [turn.number for turn in sessions.list_turns("s", starting_after=gone.id)] == [1]


# Compare and set


def test_an_expected_version_is_the_newest_or_nothing_is_written(sessions: Sessions) -> None:
    assert sessions.update_state("s", {"v": 1}, expected_version=0).version == 1
    acts = [
        lambda: sessions.update_state("s", {"v": 9}, expected_version=0),
        lambda: sessions.replace_state("s", {"v": 9}, expected_version=2),
        lambda: sessions.rollback("s", 0, expected_version=0),
    ]
    for act in acts:
        with pytest.raises(StateMoved) as caught:
            act()
        assert caught.value.actual == 1
    assert sessions.get_state("s").state == {"v": 1}
    assert sessions.rollback("s", 0, expected_version=1).version == 2
    assert sessions.replace_state("s", {}, expected_version=2).version == 3


# Forks and lineage


def test_a_fork_begins_anew_with_the_state_of_a_version(sessions: Sessions) -> None:
    sessions.update("s", metadata={"team": "a"})
    sessions.update_state("s", {"v": 1})
    sessions.add_turn("s", "one", "o", state_after={"v": 2})
    before = sessions.get("s")
    newest = sessions.fork("s")
    assert (newest.state, newest.version, newest.turn_count) == ({"v": 2}, 0, 0)
    assert newest.metadata == {"forked_from": "s", "forked_version": 2}
    first = sessions.fork("s", -2, agent_id="other", metadata={"why": "test", "forked_from": "x"})
    assert (first.state, first.agent_id) == ({"v": 0}, "other")
    assert first.metadata == {"why": "test", "forked_from": "s", "forked_version": 0}
    assert (first.forked_from, first.forked_version) == ("s", 0)
    assert sessions.get("s") == before
    [version] = sessions.history(first.id)
    assert (version.number, version.kind) == (0, VersionKind.FORK)


def test_a_fork_with_turns_goes_on_with_them_and_each_goes_its_way(sessions: Sessions) -> None:
    sessions.add_turn("s", "one", "o", state_after={"v": 1})
    sessions.add_turn("s", "two", "o", state_after={"v": 2})
    sessions.add_turn("s", "three", "o")
    early = sessions.fork("s", 1, include_turns=True).id
    late = sessions.fork("s", include_turns=True).id
    assert said(sessions, early) == ["one"]
    assert said(sessions, late) == ["one", "two", "three"], "as it is now"
    assert said(sessions, sessions.fork("s", 2, include_turns=True).id) == ["one", "two"]
    for name in (early, late, "s"):
        sessions.add_turn(name, f"from {name}", "o")
    assert said(sessions, early) == ["one", f"from {early}"]
    assert said(sessions, late) == ["one", "two", "three", f"from {late}"]
    assert said(sessions) == ["one", "two", "three", "from s"]


def test_the_states_around_a_forks_turns_are_those_of_their_time(agent: Namespace) -> None:
    sessions = agent.sessions
    for number in range(1, 5):
        sessions.add_turn("s", "i", "o", state_after={"v": number})
    wanted = [{"v": number} for number in range(1, 5)]
    fork = sessions.fork("s", include_turns=True).id
    for number in range(6):
        sessions.update_state(fork, {"v": f"other {number}"})
    copy = agent.fork("copy").sessions
    for where, name in ((sessions, "s"), (sessions, fork), (copy, "s")):
        found = where.list_turns(name, order="asc", include_state=True)
        assert [turn.state_after for turn in found] == wanted
        assert {turn.session_id for turn in found} == {name}


def test_a_lineage_names_all_ancestors_and_the_tree_below(sessions: Sessions) -> None:
    sessions.update_state("s", {"v": 1})
    a = sessions.fork("s", 0).id
    b = sessions.fork("s", 1).id
    aa = sessions.fork(a).id
    gone = sessions.fork(a).id
    sessions.delete(gone)
    leaf = Lineage(aa, a, 0, [a, "s"], [])
    branch = Lineage(a, "s", 0, ["s"], [leaf])
    assert sessions.lineage("s") == Lineage(
        "s", None, None, [], [branch, Lineage(b, "s", 1, ["s"], [])]
    )
    assert sessions.lineage(a) == branch
    assert sessions.lineage(aa) == leaf
    sessions.delete(a)
    assert sessions.lineage(aa).ancestors == [a, "s"], "where it came from stays true"


def test_a_long_lineage_is_shown_without_falling_over(sessions: Sessions) -> None:
    name = "s"
    for _ in range(120):
        name = sessions.fork(name).id
    assert len(sessions.lineage(name).ancestors) == 120
    depth, at = 0, sessions.lineage("s")
    while at.forks:
        depth, at = depth + 1, at.forks[0]
    assert depth >= 100


# Diffs


@pytest.mark.parametrize(
    ("old", "new", "patch", "text"),
    [
        ({"a": 1}, {"a": 1}, [], ""),
        ({"a": 1}, {}, [{"op": "remove", "path": "/a"}], "- /a: 1"),
        ({}, {"a": None}, [{"op": "add", "path": "/a", "value": None}], "+ /a: null"),
        (
            {"a": 1},
            {"a": 1.0},
            [{"op": "replace", "path": "/a", "value": 1.0}],
            "- /a: 1\n+ /a: 1.0",
        ),
        (
            {"a/b": {"~": [1, 2]}},
            {"a/b": {"~": [1, 3, 2]}},
            [{"op": "add", "path": "/a~1b/~0/1", "value": 3}],
            "+ /a~1b/~0/1: 3",
        ),
        (
            {"m": [1, 2, 3]},
            {"m": [1]},
            [{"op": "remove", "path": "/m/2"}, {"op": "remove", "path": "/m/1"}],
            "- /m/2: 3\n- /m/1: 2",
        ),
        (
            {"m": {"x": [1]}},
            {"m": [1]},
            [{"op": "replace", "path": "/m", "value": [1]}],
            '- /m: {"x":[1]}\n+ /m: [1]',
        ),
    ],
)
def test_a_diff_is_a_json_patch_and_lines_for_people(
    sessions: Sessions, old: Any, new: Any, patch: Any, text: str
) -> None:
    sessions.replace_state("s", old)
    sessions.replace_state("s", new)
    found = sessions.diff("s", 1, 2)
    assert (found.patch, found.text) == (patch, text)
    assert sessions.diff("s", -1, 2) == found


def test_a_diff_with_a_version_that_is_not_there_is_refused(sessions: Sessions) -> None:
    for old, new in ((0, 1), (1, 0), (-1, 0)):
        with pytest.raises(VersionNotFound):
            sessions.diff("s", old, new)


# Namespaces


def test_a_session_younger_than_what_was_restored_is_set_aside_and_comes_back(
    agent: Namespace,
) -> None:
    snapshot = agent.snapshot()
    agent.sessions.create("agent", session_id="young", initial_state={"v": 1})
    agent.restore(snapshot)
    assert [session.id for session in agent.sessions.list()] == ["s"]
    with pytest.raises(SessionNotFound):
        agent.sessions.get("young")
    assert agent.size().entries == 1
    agent.undo()
    assert agent.sessions.get("young").state == {"v": 1}
    assert agent.size().entries == 2


def test_a_deleted_session_is_gone_until_a_snapshot_brings_it_back(agent: Namespace) -> None:
    agent.sessions.add_turn("s", "one", "o", state_after={"v": 1})
    snapshot = agent.snapshot()
    agent.sessions.delete("s", reason="enough")
    for act in (agent.sessions.get, agent.sessions.delete, agent.sessions.history):
        with pytest.raises(SessionNotFound):
            act("s")
    with pytest.raises(SessionNotFound):
        agent.sessions.update_state("s", {})
    assert agent.sessions.list() == []
    agent.restore(snapshot)
    assert said(agent.sessions) == ["one"]
    assert [version.kind for version in agent.sessions.history("s")] == [
        VersionKind.CREATED,
        VersionKind.TURN,
        VersionKind.RESTORE,
    ]


def test_a_joint_restore_brings_planes_back_together_and_can_be_undone(agent: Namespace) -> None:
    agent.files.write("a", "one")
    agent.store.set("n", "k", 1)
    agent.sessions.add_turn("s", "one", "o", state_after={"v": 1})
    snapshot = agent.snapshot()
    agent.files.write("a", "two")
    agent.store.set("n", "k", 2)
    agent.sessions.add_turn("s", "two", "o", state_after={"v": 2})

    def seen() -> tuple[Any, ...]:
        state = agent.sessions.get_state("s").state
        return agent.files.read_text("a"), agent.store.get("n", "k"), state, said(agent.sessions)

    later = seen()
    shown = agent.restore(snapshot, dry_run=True)
    assert seen() == later
    done = agent.acting_as("ada").restore(snapshot, reason="wrong way")
    assert seen() == ("one", 1, {"v": 1}, ["one"])
    changed = [(change.plane, change.name) for change in done.changes]
    assert changed == [(change.plane, change.name) for change in shown.changes]
    assert ("sessions", "s") in changed
    newest = agent.sessions.history("s")[-1]
    assert (newest.number, newest.kind, newest.actor) == (3, VersionKind.RESTORE, "ada")
    agent.undo()
    assert seen() == later
    agent.redo()
    assert seen() == ("one", 1, {"v": 1}, ["one"])
    assert [version.number for version in agent.sessions.history("s")] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("planes", [["files"], ["sessions"], ["store", "files"]])
def test_a_restore_of_some_planes_leaves_the_others(agent: Namespace, planes: list[str]) -> None:
    agent.files.write("a", "one")
    snapshot = agent.snapshot()
    agent.files.write("a", "two")
    agent.sessions.update_state("s", {"v": 1})
    agent.restore(snapshot, planes=planes)
    assert agent.files.read_text("a") == ("one" if "files" in planes else "two")
    is_back = "sessions" in planes
    assert agent.sessions.get("s").version == 1 + is_back
    assert agent.sessions.get_state("s").state == {"v": 0 if is_back else 1}


def test_a_fork_of_a_namespace_has_its_sessions_and_goes_its_way(agent: Namespace) -> None:
    agent.sessions.add_turn("s", "one", "o", state_after={"v": 1})
    agent.sessions.update("s", metadata={"m": 1})
    copy = agent.fork("copy").sessions
    found = copy.get("s")
    assert (found.state, found.version, found.metadata) == ({"v": 1}, 0, {"m": 1})
    assert said(copy) == ["one"]
    copy.add_turn("s", "in the copy", "o", state_after={"v": 2})
    agent.sessions.add_turn("s", "in the first", "o")
    assert said(copy) == ["one", "in the copy"]
    assert said(agent.sessions) == ["one", "in the first"]
    assert agent.sessions.get_state("s").state == {"v": 1}


def test_a_fork_nobody_has_looked_at_yet_is_whole(agent: Namespace) -> None:
    """Its sessions have no rows before the first question, whatever that is."""
    agent.sessions.add_turn("s", "one", "o", state_after={"v": 1})
    copies = iter(agent.fork(f"copy {number}") for number in range(12))
    with pytest.raises(SessionExists):
        next(copies).sessions.create("agent", session_id="s")
    assert next(copies).sessions.update_state("s", {"w": 1}).state == {"v": 1, "w": 1}
    assert next(copies).sessions.rollback("s", 0).state == {"v": 1}
    assert next(copies).sessions.fork("s", include_turns=True).turn_count == 1
    assert next(copies).sessions.add_turn("s", "two", "o").number == 2
    assert len(next(copies).sessions.history("s")) == 1
    assert next(copies).sessions.lineage("s").ancestors == []
    assert next(copies).sessions.get_state("s", version=0).state == {"v": 1}
    assert said(next(copies).sessions) == ["one"]
    gone = next(copies)
    gone.sessions.delete("s")
    assert gone.sessions.list() == []
    assert gone.size().entries == 0
    back = next(copies)
    first = back.get_snapshot("@")
    back.files.write("a", "b")
    back.snapshot()
    back.restore(first)
    assert back.sessions.get("s").state == {"v": 1}
    with pytest.raises(SessionNotFound):
        next(copies).sessions.get("none")


# Ids


@pytest.mark.parametrize("name", ["a", "A-b_c.d", "0", "x" * 128, "..."])
def test_an_id_of_ones_own_is_kept(sessions: Sessions, name: str) -> None:
    assert sessions.create("agent", session_id=name).id == name
    assert sessions.get(name).id == name
    with pytest.raises(SessionExists):
        sessions.create("agent", session_id=name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "a\n", "é", "a%2f", "x" * 129, "\0"])
def test_an_id_that_cannot_stand_in_a_url_is_refused(sessions: Sessions, name: str) -> None:
    with pytest.raises(InvalidName):
        sessions.create("agent", session_id=name)


def test_ids_are_made_of_their_kind(sessions: Sessions) -> None:
    names = {sessions.create("agent").id for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("sess_") and len(name) == 17 for name in names)
    turn = sessions.add_turn("s", "i", "o")
    assert turn.id.startswith("turn_")
    assert len(turn.id) == 17


@pytest.mark.parametrize("name", ["", "none", "S", "s ", "\0", "\ud800", "../s", "x" * 1000])
def test_what_is_no_session_is_not_found(sessions: Sessions, name: str) -> None:
    with pytest.raises((SessionNotFound, InvalidValue)):
        sessions.get(name)
    with pytest.raises((SessionNotFound, InvalidValue)):
        sessions.update_state(name, {})


def test_a_namespace_that_is_not_there_has_no_sessions(agent: Namespace) -> None:
    other = agent._sibling("other")
    sessions = Namespace(other).sessions
    assert sessions.list() == []
    for act in (sessions.get, sessions.history, sessions.list_turns):
        with pytest.raises(SessionNotFound, match="'s'"):
            act("s")
    for act in (sessions.delete, sessions.fork):
        with pytest.raises(NotFound):
            act("s")


@pytest.mark.parametrize("bad", ["\ud800", "a\0b", "x" * 5000])
def test_a_text_that_no_catalog_can_hold_is_refused(
    agent: Namespace, sessions: Sessions, bad: str
) -> None:
    acts = [
        lambda: sessions.create(bad),
        lambda: sessions.create("agent", user_id=bad),
        lambda: agent.acting_as(bad),
        lambda: sessions.fork("s", agent_id=bad),
        lambda: sessions.delete("s", reason=bad),
    ]
    for act in acts:
        with pytest.raises(InvalidName):
            act()
    assert sessions.get("s").version == 0
    assert len(sessions.list()) == 1


def test_who_did_it_is_text(agent: Namespace, sessions: Sessions) -> None:
    wrong: Any = 5
    for use in (
        lambda: agent.acting_as(wrong),
        lambda: sessions.update_state("s", {"v": 1}, reasoning=wrong),
        lambda: sessions.rollback("s", 0, reason=wrong),
        lambda: sessions.add_turn("s", "i", "o", reasoning=wrong),
    ):
        with pytest.raises(InvalidValue):
            use()
    assert sessions.get("s").version == 0
    assert agent.traces.list(session_id="s")[0].action == "session.created"


def test_nothing_of_what_was_said_is_lost(sessions: Sessions) -> None:
    odd = {"content": ["a", "b"], "raw": "x"}
    turn = sessions.add_turn("s", odd, {"type": 5, "content": "hi"})
    assert turn.input["raw"] == odd
    assert turn.output["raw"] == {"type": 5, "content": "hi"}
    assert (turn.output["type"], turn.output["content"]) == ("text", "hi")
