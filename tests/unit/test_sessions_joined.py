"""What the rest of the engine makes of sessions: moments, diffs, merges, limits, sizes."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast import Limits, Plane
from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.vault import Holdfast
from holdfast.errors import (
    InvalidValue,
    MergeConflict,
    QuotaExceeded,
    SessionNotFound,
    TooLarge,
)
from holdfast.model.basics import Size
from holdfast.testing.clocks import Watch

pytestmark = pytest.mark.in_memory

LONG = "long enough for a state that is a map " * 100


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2030, 1, 1, tzinfo=UTC), step=timedelta(milliseconds=1))


@pytest.fixture
def vault(tmp_path: Path, clock: Watch) -> Iterator[Holdfast]:
    with Holdfast(Context.of(SqliteCatalog(tmp_path), MemoryBlobStore(), clock=clock)) as vault:
        yield vault


@pytest.fixture
def agent(vault: Holdfast) -> holdfast.Namespace:
    agent = vault.namespace("alice")
    agent.sessions.create("travel", session_id="s", user_id="u", initial_state={"n": 1, "k": "a"})
    agent.sessions.add_turn("s", "one", "1")
    return agent


def said(turns: list[holdfast.Turn]) -> list[str]:
    return [turn.input["content"] for turn in turns]


# Moments


def test_a_moment_shows_sessions_as_they_were(agent: holdfast.Namespace) -> None:
    then = agent.snapshot()
    agent.sessions.update_state("s", {"n": 2})
    agent.sessions.update("s", metadata={"later": True})
    agent.sessions.add_turn("s", "two", "2")
    later = agent.snapshot()
    agent.sessions.delete("s")
    old, new = agent.at(then).sessions, agent.at(later).sessions
    assert (old.get("s").state, old.get("s").version) == ({"n": 1, "k": "a"}, 0)
    assert (new.get("s").state, new.get("s").version) == ({"n": 2, "k": "a"}, 1)
    assert (old.get("s").metadata, new.get("s").metadata) == ({}, {"later": True})
    assert (old.get("s").turn_count, new.get("s").turn_count) == (1, 2)
    assert old.get_state("s").state == {"n": 1, "k": "a"}
    assert said(old.list_turns("s")) == ["one"]
    assert said(new.list_turns("s")) == ["two", "one"]
    assert said(new.list_turns("s", order="asc", limit=1)) == ["one"]
    first = new.list_turns("s")[0].id
    assert said(new.list_turns("s", starting_after=first)) == ["one"]


def test_a_moment_shows_the_conversation_that_was_left(agent: holdfast.Namespace) -> None:
    then = agent.snapshot()
    agent.sessions.rollback("s", 0, conversation=True)
    agent.sessions.add_turn("s", "another", "2")
    assert said(agent.at(then).sessions.list_turns("s")) == ["one"]
    assert said(agent.at(agent.snapshot()).sessions.list_turns("s")) == ["another"]


def test_a_moment_lists_newest_first_with_filters_and_cursor(agent: holdfast.Namespace) -> None:
    for number in range(5):
        agent.sessions.create(
            f"agent-{number % 2}", session_id=f"t{number}", metadata={"n": number % 3}
        )
    moment = agent.at(agent.snapshot()).sessions
    assert [s.id for s in moment.list()] == ["t4", "t3", "t2", "t1", "t0", "s"]
    assert [s.id for s in moment.list()] == [s.id for s in agent.sessions.list()]
    assert [s.id for s in moment.list(limit=2, starting_after="t3")] == ["t2", "t1"]
    assert [s.id for s in moment.list(agent_id="agent-1")] == ["t3", "t1"]
    assert [s.id for s in moment.list(user_id="u")] == ["s"]
    assert [s.id for s in moment.list(metadata={"n": 1})] == ["t4", "t1"]
    with pytest.raises(InvalidValue, match="starting_after"):
        moment.list(starting_after="never")
    with pytest.raises(InvalidValue):
        moment.list(limit=-1)


def test_a_moment_knows_only_what_was_there(agent: holdfast.Namespace, clock: Watch) -> None:
    agent.sessions.create("a", session_id="short", ttl_seconds=60)
    before = agent.snapshot()
    clock.now += timedelta(hours=1)
    agent.sessions.create("a", session_id="late")
    after = agent.snapshot()
    assert agent.at(before).sessions.get("short").id == "short"
    for moment, name in ((after, "short"), (before, "late"), (before, "\ud800")):
        with pytest.raises(SessionNotFound):
            agent.at(moment).sessions.get(name)
    assert [s.id for s in agent.at(after).sessions.list()] == ["late", "s"]
    with pytest.raises(InvalidValue, match="starting_after"):
        agent.at(after).sessions.list_turns("s", starting_after="turn_none")


def test_a_moment_of_a_fork_that_nobody_has_used_yet(agent: holdfast.Namespace) -> None:
    fork = agent.fork("bob")
    moment = fork.at("latest").sessions
    assert (moment.get("s").state, moment.get("s").version) == ({"n": 1, "k": "a"}, 0)
    assert said(moment.list_turns("s")) == ["one"]


# Differences


def test_a_session_that_changed_is_a_readable_diff(agent: holdfast.Namespace) -> None:
    agent.snapshot()
    agent.sessions.update_state("s", {"n": 2, "list": [1, {"a": None}]})
    agent.sessions.add_turn("s", "two", "2")
    ((change, text),) = agent.text_diffs()
    assert (change.plane, change.name, change.change) == (Plane.SESSIONS, "s", "changed")
    lines = text.splitlines()
    assert lines[:2] == ["--- a/s", "+++ b/s"]
    assert "-1 turn" in lines
    assert "+2 turns" in lines
    assert '-  "n": 1' in lines
    assert '+  "n": 2' in lines
    assert '+      "a": null' in lines
    assert " agent: travel" in lines


def test_a_session_that_came_or_went_is_shown_whole(agent: holdfast.Namespace) -> None:
    ((change, text),) = agent.text_diffs()
    assert change.change == "added"
    assert {"+agent: travel", "+user: u", "+1 turn", '+  "k": "a",'} <= {*text.splitlines()}
    agent.snapshot()
    agent.sessions.delete("s")
    ((change, text),) = agent.text_diffs()
    assert change.change == "removed"
    assert "-1 turn" in text.splitlines()


def test_another_conversation_of_the_same_length_is_a_difference(agent: holdfast.Namespace) -> None:
    agent.snapshot()
    agent.sessions.rollback("s", 0, conversation=True)
    agent.sessions.add_turn("s", "another", "1")
    ((_, text),) = agent.text_diffs()
    assert len([line for line in text.splitlines() if line.startswith(("-1 t", "+1 t"))]) == 2


def test_a_large_state_is_compared_by_size_alone(agent: holdfast.Namespace) -> None:
    agent.snapshot()
    agent.sessions.update_state("s", {"big": "x" * (1 << 20)})
    ((_, text),) = agent.text_diffs()
    assert re.fullmatch(r"Binary or large: \d+ -> \d+ bytes\n", text)


def test_a_state_or_value_of_long_lines_is_compared_by_size_alone(
    agent: holdfast.Namespace,
) -> None:
    deep: object = [1] * 50_000
    for _ in range(190):
        deep = [deep]
    agent.snapshot()
    agent.sessions.update_state("s", {"deep": deep})
    agent.store.set("n", "k", deep)
    for _, text in agent.text_diffs():
        assert text.startswith("Binary or large: ")


def test_planes_select_sessions_and_a_dry_run_lists_them(agent: holdfast.Namespace) -> None:
    agent.files.write("a", "b")
    then = agent.snapshot()
    assert not agent.is_dirty()
    agent.files.write("a", "c")
    agent.sessions.update_state("s", {"n": 2})
    assert agent.is_dirty()
    assert [change.name for change in agent.diff(planes=["sessions"])] == ["s"]
    dry = agent.restore(then, dry_run=True)
    assert dry.changes.of("changed", Plane.SESSIONS) == ["s"]
    assert dry.changes.of("changed", Plane.FILES) == ["a"]
    assert agent.sessions.get("s").state["n"] == 2


def test_a_dry_run_over_a_directory_lists_sessions_too(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a").write_text("one")
    with holdfast.open(tmp_path / "vault") as vault:
        workspace = vault.workspace(folder)
        agent = workspace.namespace
        agent.sessions.create("a", session_id="a", initial_state={"n": 1})
        then = workspace.snapshot()
        (folder / "a").write_text("two")
        agent.sessions.update_state("a", {"n": 2})
        dry = workspace.restore(then, dry_run=True)
        assert dry.changes.of("changed", Plane.SESSIONS) == ["a"]
        assert dry.changes.of("changed", Plane.FILES) == ["a"]


# Merging


def test_two_sides_that_changed_other_keys_are_merged(
    agent: holdfast.Namespace, vault: Holdfast
) -> None:
    agent.sessions.update_state("s", {"long": LONG, "gone": 1})
    fork = agent.fork("bob")
    fork.sessions.update_state("s", {"n": 2, "new": True})
    fork.sessions.add_turn("s", "two", "2")
    fork.sessions.update("s", metadata={"theirs": 1})
    agent.sessions.update_state("s", {"k": "b"})
    agent.sessions.update("s", metadata={"ours": 1})
    done = agent.merge(fork)
    found = agent.sessions.get("s")
    assert found.state == {"n": 2, "k": "b", "new": True, "long": LONG, "gone": 1}
    assert found.metadata == {"ours": 1, "theirs": 1}
    assert said(agent.sessions.list_turns("s")) == ["two", "one"]
    assert done.changes.of("changed", Plane.SESSIONS) == ["s"]
    assert vault.verify().faults == []
    agent.undo()
    assert agent.sessions.get("s").state["n"] == 1


def test_keys_that_both_removed_or_one_removed_stay_removed(agent: holdfast.Namespace) -> None:
    agent.sessions.replace_state("s", {"a": 1, "b": 1, "c": 1})
    fork = agent.fork("bob")
    fork.sessions.replace_state("s", {"b": 1, "c": 2})
    agent.sessions.replace_state("s", {"c": 1, "d": 1})
    agent.merge(fork)
    assert agent.sessions.get("s").state == {"c": 2, "d": 1}


CLASHES = {
    "the same key": (
        lambda s: s.update_state("s", {"n": 2}),
        lambda s: s.update_state("s", {"n": 3}),
    ),
    "a key that one removed": (
        lambda s: s.replace_state("s", {"k": "a"}),
        lambda s: s.update_state("s", {"n": 3}),
    ),
    "two stories": (lambda s: s.add_turn("s", "x", "y"), lambda s: s.add_turn("s", "z", "y")),
    "the same metadata": (
        lambda s: s.update("s", metadata={"m": 1}),
        lambda s: s.update("s", metadata={"m": 2}),
    ),
    "one deleted it": (lambda s: s.delete("s"), lambda s: s.update_state("s", {"n": 3})),
}


@pytest.mark.parametrize("name", CLASHES)
def test_a_clash_names_the_session_and_changes_nothing(
    agent: holdfast.Namespace, name: str
) -> None:
    ours, theirs = CLASHES[name]
    fork = agent.fork("bob")
    theirs(fork.sessions)
    ours(agent.sessions)
    before = agent.sessions.list()
    with pytest.raises(MergeConflict) as caught:
        agent.merge(fork)
    assert caught.value.conflicts == [("sessions", b"s")]
    assert agent.sessions.list() == before
    agent.merge(fork, prefer="theirs")
    assert agent.sessions.get("s").state == fork.sessions.get("s").state


def test_undoing_one_operation_keeps_what_came_after_it(agent: holdfast.Namespace) -> None:
    agent.snapshot()
    agent.sessions.update_state("s", {"n": 2})
    wrong = agent.snapshot()
    agent.sessions.update_state("s", {"k": "b"})
    agent.snapshot()
    agent.undo(wrong)
    assert agent.sessions.get("s").state == {"n": 1, "k": "b"}


# Limits and sizes


def test_a_state_or_turn_beyond_its_limit_is_refused(tmp_path: Path) -> None:
    limits = Limits(state_bytes=1000, turn_bytes=500)
    with holdfast.open(tmp_path / "vault", limits=limits) as vault:
        agent = vault.namespace("alice")
        agent.sessions.create("a", session_id="s", initial_state={"a": "x" * 900})
        with pytest.raises(TooLarge):
            agent.sessions.update_state("s", {"b": "x" * 200})
        with pytest.raises(TooLarge):
            agent.sessions.replace_state("s", {"b": "x" * 1200})
        with pytest.raises(TooLarge):
            agent.sessions.create("a", initial_state={"b": "x" * 1200})
        with pytest.raises(TooLarge):
            agent.sessions.add_turn("s", "x" * 500, "y")
        assert agent.sessions.add_turn("s", "x" * 100, "y").number == 1
        assert agent.sessions.get("s").version == 0
        assert vault.verify().faults == []


def test_a_state_of_many_megabytes_is_stored_outside_the_catalog(tmp_path: Path) -> None:
    noise = Random(1).randbytes(17 << 20).hex()  # More than a pack holds.
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("alice")
        agent.sessions.create("a", session_id="s", initial_state={"one": noise})
        agent.sessions.update_state("s", {"two": 2})
        assert agent.sessions.get("s").state == {"one": noise, "two": 2}
        assert [*(tmp_path / "vault" / "packs").rglob("*.pack")]
        assert vault.verify().faults == []


def test_turns_count_against_the_quota_of_a_tenant(
    agent: holdfast.Namespace, vault: Holdfast
) -> None:
    vault.set_quota(100_000)
    agent.sessions.add_turn("s", "x" * 50_000, "y")
    with pytest.raises(QuotaExceeded):
        agent.sessions.add_turn("s", "x" * 60_000, "y")
    agent.sessions.rollback("s", 0, conversation=True)
    with pytest.raises(QuotaExceeded):
        agent.sessions.add_turn("s", "x" * 60_000, "y")
    vault.collect()
    assert agent.sessions.add_turn("s", "x" * 60_000, "y").number == 1


def test_the_size_of_a_namespace_counts_states(agent: holdfast.Namespace) -> None:
    assert agent.size() == Size(1, len('{"k":"a","n":1}'))
    agent.sessions.update_state("s", {"long": LONG})
    agent.files.write("a", "bcd")
    agent.sessions.create("a", session_id="t")
    whole = sum(len(text) for text in ('{"k":"a","long":"', LONG, '","n":1}', "{}", "bcd"))
    assert agent.size() == Size(3, whole)
    assert agent.snapshot().size == agent.size()
    agent.sessions.delete("s")
    assert agent.size() == Size(2, 5)
    agent.undo()
    assert agent.size() == Size(3, whole)
