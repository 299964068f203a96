"""What an add-only caller leaves of sessions, on both catalogs: their terms, and what was said."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.engine.namespace import Namespace
from holdfast.errors import AddOnly
from holdfast.model.names import Name
from holdfast.testing.clocks import Watch

START = datetime(2025, 3, 1, 12, 30, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LONG_S = 20 * 24 * 3600

Open = Callable[[], holdfast.Holdfast]


@pytest.fixture
def clock() -> Watch:
    return Watch(START)


@dataclass
class Scene:
    """A session `x` that had an hour in the snapshot `brief`, and has 20 days, or no end, now."""

    vault: holdfast.Holdfast
    owner: Namespace
    adder: Namespace
    clock: Watch
    empty: holdfast.SnapshotInfo
    brief: holdfast.SnapshotInfo
    lasting: holdfast.SnapshotInfo
    ends: datetime | None
    tmp_path: Path

    def archive(
        self, name: str = "short.tar", *, later: timedelta = timedelta(), **more: Any
    ) -> Path:
        """Returns an archive that somebody made elsewhere: of a session of the same id."""
        clock = Watch(self.clock.now + later)
        with holdfast.open(self.tmp_path / f"elsewhere {name}", clock=clock) as elsewhere:
            agent = elsewhere.namespace("mine")
            agent.files.write("bad", "1")
            if more:
                agent.sessions.create("evil", initial_state={"v": "forged"}, **more)
            agent.export(self.tmp_path / name)
        return self.tmp_path / name


@pytest.fixture(params=["with a term", "without"])
def scene(opener: Open, clock: Watch, request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    vault = opener()
    owner, adder = (each.namespace("alice") for each in (vault, vault.adding_only()))
    owner.files.write("a", "1")
    empty = owner.snapshot("empty")
    has_term, ends = request.param == "with a term", None
    owner.sessions.create("a", session_id="x", initial_state={"v": "old"}, ttl_seconds=3600)
    brief = owner.snapshot("brief")
    if has_term:
        owner.sessions.update("x", ttl_seconds=LONG_S)
        ends = clock.now + timedelta(seconds=LONG_S)
    else:
        # No call takes a term away: one of the same id that has none takes its place.
        owner.restore(empty)
        owner.sessions.create("a", session_id="x", initial_state={"v": "mid"})
    owner.sessions.update_state("x", {"v": "new"})
    lasting = owner.snapshot("lasting")
    return Scene(vault, owner, adder, clock, empty, brief, lasting, ends, tmp_path)


def by_undo(scene: Scene) -> object:
    for _ in range(5):
        done = scene.adder.undo()
        if [each.state for each in scene.adder.sessions.list()] == [{"v": "old"}]:
            return done
    raise AssertionError("no undo leads there")


def by_task(scene: Scene) -> object:
    scene.owner.restore(scene.brief)
    with scene.owner.task("extends") as task:
        scene.owner.restore(scene.lasting)
    return scene.adder.undo(task=task.id)


def by_failure(scene: Scene) -> object:
    scene.owner.restore(scene.brief)
    task = scene.owner.tasks.start("extends")
    scene.owner.restore(scene.lasting)
    return scene.adder.tasks.fail(task.id, rollback=True)


def by_merge(scene: Scene) -> object:
    fork = scene.owner.fork("a fork")
    fork.restore(fork.timeline()[-1])
    fork.import_(scene.archive(session_id="x", ttl_seconds=60))
    return scene.adder.merge(fork, prefer="theirs")


def by_revert(scene: Scene) -> object:
    scene.owner.restore(scene.brief)
    changed = scene.owner.restore(scene.lasting).snapshot
    scene.owner.files.write("b", "since")
    scene.owner.snapshot("since")
    return scene.adder.undo(changed)


def by_redo(scene: Scene) -> object:
    scene.owner.restore(scene.brief)
    scene.owner.undo()
    return scene.adder.redo()


def by_import(scene: Scene) -> object:
    return scene.adder.import_(scene.archive(session_id="x", ttl_seconds=60))


def by_own_archive(scene: Scene) -> object:
    scene.adder.export(scene.tmp_path / "own.tar", snapshot=scene.brief)
    return scene.adder.import_(scene.tmp_path / "own.tar")


def set_aside_first(scene: Scene) -> object:
    scene.adder.restore(scene.empty)
    return by_import(scene)


WAYS: dict[str, Callable[[Scene], object]] = {
    "restore": lambda scene: scene.adder.restore(scene.brief),
    "restore a plane": lambda scene: scene.adder.restore(scene.brief, planes=["sessions"]),
    "restore one": lambda scene: scene.adder.restore(scene.brief, names=[Name.session("x")]),
    "undo": by_undo,
    "redo": by_redo,
    "undo an operation": by_revert,
    "undo a task": by_task,
    "fail a task": by_failure,
    "merge": by_merge,
    "import": by_import,
    "import its own": by_own_archive,
    "import what is set aside": set_aside_first,
}


@pytest.mark.parametrize("way", WAYS)
def test_no_session_ends_sooner_whatever_it_brings_back(scene: Scene, way: str) -> None:
    WAYS[way](scene)
    found, owner = scene.adder.sessions.get("x"), scene.owner
    assert found.state in ({"v": "old"}, {"v": "forged"}), "it does come back"
    assert found.expires_at == scene.ends
    shown = owner.timeline()[0]
    assert shown.detail["terms_kept"] == 1
    assert owner.at(shown).sessions.get("x").expires_at == scene.ends
    (trace,) = owner.traces.list(limit=1, resource_type="snapshot")
    assert trace.details["terms_kept"] == 1
    scene.clock.wait(19 * DAY)
    scene.vault.end_lapsed_sessions()
    scene.vault.collect(now=True)
    assert owner.sessions.get("x").state == found.state
    assert scene.vault.verify().faults == []


@pytest.mark.parametrize("way", ["restore", "import", "merge"])
def test_whoever_may_end_a_session_ends_it_sooner_so(scene: Scene, way: str) -> None:
    scene.adder = scene.owner
    WAYS[way](scene)
    assert scene.owner.sessions.get("x").expires_at <= scene.clock.now + HOUR
    assert "terms_kept" not in scene.owner.timeline()[0].detail


def test_a_second_restore_changes_nothing(scene: Scene) -> None:
    assert len(scene.adder.restore(scene.brief, dry_run=True).changes) == 1
    first, second = (scene.adder.restore(scene.brief) for _ in range(2))
    assert (len(first.changes), len(second.changes)) == (1, 0)
    assert (first.verified, second.verified, first.root) == (True, True, second.root)


def test_what_comes_back_with_a_longer_term_has_that(opener: Open, clock: Watch) -> None:
    vault = opener()
    owner, adder = (each.namespace("alice") for each in (vault, vault.adding_only()))
    owner.sessions.create("a", session_id="x", ttl_seconds=LONG_S)
    then, ends = owner.snapshot(), clock.now + timedelta(seconds=LONG_S)
    owner.sessions.update("x", ttl_seconds=60)
    done = adder.restore(then)
    assert adder.sessions.get("x").expires_at == ends
    assert done.snapshot is not None
    assert "terms_kept" not in done.snapshot.detail


@pytest.mark.parametrize("is_deleted", [True, False])
def test_what_has_ended_has_no_term_to_keep(scene: Scene, is_deleted: bool) -> None:
    if is_deleted:
        scene.owner.sessions.delete("x")
    else:
        scene.owner.sessions.update("x", ttl_seconds=60)
        scene.clock.wait(HOUR)
        assert scene.vault.end_lapsed_sessions() == 1
    by_import(scene)
    assert scene.adder.sessions.get("x").expires_at == scene.clock.now + timedelta(minutes=1)
    assert "terms_kept" not in scene.owner.timeline()[0].detail


def test_terms_of_sessions_that_are_not_selected_do_not_count(opener: Open) -> None:
    vault = opener()
    owner, adder = (each.namespace("alice") for each in (vault, vault.adding_only()))
    for name in ("x", "y"):
        owner.sessions.create("a", session_id=name, initial_state={"v": 0}, ttl_seconds=60)
    both = owner.snapshot()
    for name in ("x", "y"):
        owner.sessions.update(name, ttl_seconds=LONG_S)
        owner.sessions.update_state(name, {"v": 1})
    done = adder.restore(both, names=[Name.session("x")])
    assert done.snapshot is not None
    assert done.snapshot.detail["terms_kept"] == 1
    assert [owner.sessions.get_state(name).state for name in ("x", "y")] == [{"v": 0}, {"v": 1}]


def test_a_forged_beginning_makes_no_later_term_shorter(scene: Scene) -> None:
    """How long a session is given anew is what lies between its beginning and its end."""
    began = scene.owner.sessions.get("x").created_at
    later = timedelta(seconds=LONG_S) - HOUR
    brief = scene.archive(session_id="x", ttl_seconds=7200, later=later)
    scene.adder.import_(brief)
    found = scene.owner.sessions.get("x")
    assert found.created_at == began
    then = scene.owner.snapshot()
    if found.expires_at is not None:
        scene.clock.wait(40 * DAY)
        scene.owner.restore(then)
        left = scene.owner.sessions.get("x").expires_at - scene.clock.now
        assert left > timedelta(seconds=LONG_S)


# What was set aside


def test_an_id_that_is_free_again_keeps_the_term_of_what_was_set_aside(scene: Scene) -> None:
    scene.owner.restore(scene.empty)
    made = scene.adder.sessions.create("evil", session_id="x", ttl_seconds=60)
    assert made.expires_at == scene.ends
    (trace,) = scene.owner.traces.list(action="session.created", limit=1)
    assert trace.details["terms_kept"] == 1
    scene.clock.wait(HOUR)
    scene.vault.end_lapsed_sessions()
    assert scene.owner.sessions.get("x").agent_id == "evil"
    assert scene.vault.verify().faults == []


def test_an_id_of_nobody_has_the_term_that_was_asked_for(scene: Scene) -> None:
    made = scene.adder.sessions.create("a", session_id="new", ttl_seconds=60)
    assert made.expires_at == scene.clock.now + timedelta(minutes=1)
    (trace,) = scene.owner.traces.list(action="session.created", limit=1)
    assert "terms_kept" not in trace.details
    scene.owner.restore(scene.empty)
    made = scene.owner.sessions.create("a", session_id="x", ttl_seconds=60)
    assert made.expires_at == scene.clock.now + timedelta(minutes=1)


def test_a_shorter_term_that_it_asks_for_is_refused(scene: Scene) -> None:
    before = scene.owner.sessions.get("x")
    with pytest.raises(AddOnly, match="shorten the term"):
        scene.adder.sessions.update("x", ttl_seconds=60)
    assert scene.owner.sessions.get("x") == before


@pytest.mark.parametrize("is_looked_at", [True, False])
@pytest.mark.parametrize("is_set_aside", [True, False])
def test_sessions_of_a_fork_have_terms_before_anybody_has_looked(
    scene: Scene, is_looked_at: bool, is_set_aside: bool
) -> None:
    fork = scene.owner.fork("a fork")
    if is_looked_at:
        assert fork.sessions.get("x").expires_at == scene.ends
    adder = scene.vault.adding_only().namespace("a fork")
    if is_set_aside:
        adder.import_(scene.archive("without.tar"))
        assert adder.sessions.list() == []
    adder.import_(scene.archive(session_id="x", ttl_seconds=60))
    assert fork.sessions.get("x").expires_at == scene.ends
    assert fork.timeline()[0].detail["terms_kept"] == 1
    assert [each.number for each in fork.sessions.history("x")] == [0, 1]
    assert scene.vault.verify().faults == []


# What was said


def said(agent: Namespace, version: int) -> list[str]:
    agent.sessions.rollback("x", version, conversation=True)
    return [turn.input["content"] for turn in agent.sessions.list_turns("x", order="asc")]


def first(scene: Scene) -> int:
    """Returns the number of the session's first version: another had its id before, or none."""
    return scene.owner.sessions.history("x")[0].number


def talks(scene: Scene) -> int:
    """Lets the owner's session have three turns that no version shows; returns its version."""
    for number in range(3):
        scene.owner.sessions.add_turn("x", f"{number}", "yes")
    return scene.owner.sessions.get("x").version


def test_turns_that_it_takes_back_stay_in_a_version(scene: Scene) -> None:
    newest = talks(scene)
    scene.adder.sessions.rollback("x", first(scene), conversation=True, reason="all of it")
    assert scene.owner.sessions.list_turns("x") == []
    scene.adder.sessions.add_turn("x", "elsewhere", "no")
    scene.vault.collect(now=True)
    kept = scene.owner.sessions.history("x", since_version=newest)
    assert [(each.number, each.kind, each.turn_count) for each in kept] == [
        (newest + 1, "turn", 3),
        (newest + 2, "rollback", 0),
    ]
    assert kept[0].reasoning == "kept before the conversation went elsewhere"
    assert said(scene.owner, newest + 1) == ["0", "1", "2"]
    assert scene.vault.verify().faults == []


def test_turns_that_a_version_shows_take_no_other(scene: Scene) -> None:
    scene.owner.sessions.add_turn("x", "0", "yes", state_after={"v": "after"})
    newest = scene.owner.sessions.get("x").version
    scene.adder.sessions.rollback("x", first(scene), conversation=True)
    assert scene.owner.sessions.get("x").version == newest + 1
    talks(scene)
    scene.owner.sessions.rollback("x", first(scene), conversation=True)
    assert scene.owner.sessions.get("x").version == newest + 2, "whoever may delete turns"


def test_turns_that_a_restore_takes_back_stay_as_long_as_the_session(scene: Scene) -> None:
    newest = talks(scene)
    scene.adder.restore(scene.brief)
    for _ in range(3):
        scene.clock.wait(15 * DAY)
        scene.owner.sessions.update("x", ttl_seconds=LONG_S) if scene.ends else None
        scene.vault.collect(now=True)
    assert len(scene.owner.timeline()) < 4, "the snapshot that kept them is gone"
    assert said(scene.owner, newest + 1) == ["0", "1", "2"]
    assert scene.vault.verify().faults == []
