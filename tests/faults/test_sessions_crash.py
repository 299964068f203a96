"""Kills the engine at every step of every change of a session, and of a joint restore.

After each death the vault is opened anew. Files, store, sessions and conversations must then all
be what they were, or all what they were to become; so must the history, the timeline and the
traces. All of it must be sound, and the operation must then run to its end. The same holds with
an attached directory, whose every system call is a step, too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast
from holdfast.engine.workspace import Workspace
from holdfast.errors import SessionNotFound
from holdfast.model.basics import SnapshotInfo
from holdfast.model.sessions import SessionInfo
from holdfast.testing.faults import (
    find_litter,
    fuses,
)
from holdfast.testing.places import (
    Place,
    PostgresPlace,
    SqlitePlace,
    attached,
    fingerprint,
    opened,
    touches_files,
)

Seen = dict[str, Any]
"""What a namespace shows, as plain values, without ids that differ from run to run."""

LONG = "".join(Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789 ", k=9000))
"""Does not fit in one piece, nor in the catalog: a state with it is a map, and makes a pack."""


# What is there


def observe(namespace: Namespace) -> Seen:
    """Returns all that a namespace shows, its history too."""
    return {
        **observe_now(namespace),
        "timeline": [(s.number, s.kind, s.label, s.size) for s in namespace.timeline()],
        "traces": [trace.action for trace in namespace.traces.list(limit=100)],
        "size": namespace.size(),
        "is dirty": namespace.is_dirty(),
    }


def observe_now(namespace: Namespace) -> Seen:
    """Returns files, store, sessions and conversations."""
    listed = namespace.sessions.list(limit=100)
    known = {session.id: session for session in listed}
    for name in ("chat", "other", "young"):
        if name not in known and has_session(namespace, name):
            known[name] = namespace.sessions.get(name)
    return {
        "files": {
            info.path: namespace.files.read(info.path)
            for info in namespace.files.list(recursive=True)
            if info.kind == "file"
        },
        "store": namespace.store.items(),
        "sessions": sorted(
            (
                observe_session(namespace, session, is_listed=session in listed)
                for session in known.values()
            ),
            key=lambda seen: seen["name"],
        ),
    }


def has_session(namespace: Namespace, name: str) -> bool:
    try:
        namespace.sessions.get(name)
    except SessionNotFound:
        return False
    return True


def observe_session(namespace: Namespace, session: SessionInfo, *, is_listed: bool) -> Seen:
    is_own = session.id.startswith("sess_")
    return {
        "name": f"fork of {session.forked_from}" if is_own else session.id,
        "is listed": is_listed,
        "forked": (session.forked_from, session.forked_version),
        "state": session.state,
        "metadata": session.metadata,
        "version": session.version,
        "expires_at": session.expires_at,
        "history": [
            (v.number, v.kind, v.state, v.target, v.reasoning, v.actor, v.turn_count)
            for v in namespace.sessions.history(session.id)
        ],
        "turns": [
            (turn.number, turn.input, turn.output, turn.version_before, turn.version_after)
            for turn in namespace.sessions.list_turns(session.id)
        ],
    }


# What is done


def build(namespace: Namespace) -> None:
    """Makes sessions that have been somewhere: versions, turns, branches, snapshots."""
    sessions = namespace.sessions
    namespace.files.write("notes.md", "first thoughts")
    namespace.files.write("large.bin", Random(2).randbytes(6000))
    namespace.store.set("config", "model", "a")
    sessions.create("agent", session_id="chat", initial_state={"step": 0}, metadata={"m": 1})
    sessions.create("agent", session_id="other", initial_state={"text": LONG, "k": [1, 2.5, None]})
    sessions.add_turn("chat", "Hello", "Hi")
    sessions.add_turn("chat", "Book it", "Done", state_after={"step": 1, "flight": "UA123"})
    namespace.snapshot("one")
    namespace.files.write("notes.md", "second thoughts")
    namespace.files.delete("large.bin")
    namespace.store.set("config", "model", "b")
    sessions.update_state("chat", {"step": 2, "text": LONG[::-1]}, reasoning="more")
    sessions.add_turn("chat", "Thanks", "You are welcome")
    sessions.rollback("other", 0)
    namespace.snapshot("two")
    namespace.files.write("draft.md", "in no snapshot")
    namespace.store.set("config", "pending", True)
    sessions.create("agent", session_id="young", initial_state={"young": True})
    sessions.rollback("chat", 1, conversation=True)
    sessions.add_turn("chat", "Again", "As you like", state_after={"step": 3})
    sessions.delete("other")


def labelled(namespace: Namespace, label: str) -> SnapshotInfo:
    return next(s for s in namespace.timeline() if s.label == label)


@dataclass(frozen=True)
class Scenario:
    """One operation, and what is done before it."""

    act: Callable[[Namespace], object]
    arrange: Callable[[Namespace], object] = lambda _namespace: None


def go_back(namespace: Namespace) -> None:
    namespace.acting_as("ada").restore(labelled(namespace, "one"), reason="start again")


SCENARIOS = {
    "joint restore": Scenario(go_back),
    "restore of one plane": Scenario(
        lambda ns: ns.restore(labelled(ns, "one"), planes=["sessions"])
    ),
    "undo of what is pending": Scenario(lambda ns: ns.undo()),
    "undo of a restore": Scenario(lambda ns: ns.undo(), go_back),
    "redo": Scenario(lambda ns: ns.redo(), lambda ns: ns.undo()),
    "create": Scenario(
        lambda ns: ns.sessions.create("b", session_id="new", initial_state={"text": LONG + "!"})
    ),
    "update": Scenario(lambda ns: ns.sessions.update_state("chat", {"step": 4}, reasoning="why")),
    "update of a long state": Scenario(
        lambda ns: ns.sessions.update_state("chat", {"text": LONG + LONG[::-1]})
    ),
    "replace": Scenario(lambda ns: ns.sessions.replace_state("chat", {"only": LONG[5:]})),
    "rollback": Scenario(lambda ns: ns.sessions.rollback("chat", 2)),
    "rollback of both": Scenario(lambda ns: ns.sessions.rollback("chat", -2, conversation=True)),
    "fork": Scenario(lambda ns: ns.sessions.fork("chat", 2)),
    "fork with turns": Scenario(lambda ns: ns.sessions.fork("chat", 2, include_turns=True)),
    "turn": Scenario(lambda ns: ns.sessions.add_turn("chat", "And?", LONG)),
    "turn with a state": Scenario(
        lambda ns: ns.sessions.add_turn("chat", "And?", "so", state_after={"text": LONG[7:]})
    ),
    "turn on a branch": Scenario(
        lambda ns: ns.sessions.add_turn("chat", "And?", "so"),
        lambda ns: ns.sessions.rollback("chat", 1, conversation=True),
    ),
    "metadata": Scenario(lambda ns: ns.sessions.update("chat", metadata={"m": 2}, ttl_seconds=9)),
    "delete": Scenario(lambda ns: ns.sessions.delete("chat", reason="done")),
    "made again": Scenario(
        lambda ns: ns.sessions.create("other", session_id="young", initial_state={"back": True}),
        go_back,
    ),
}

ON_POSTGRES = (
    "joint restore",
    "undo of a restore",
    "update of a long state",
    "rollback of both",
    "fork with turns",
    "turn with a state",
)
"""One of each kind: the engine is the same, and a step takes ten times as long."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_at_any_step_leaves_the_old_or_the_new(place: SqlitePlace, name: str) -> None:
    die_everywhere(place, SCENARIOS[name])


@pytest.mark.parametrize("name", ON_POSTGRES)
def test_a_crash_at_any_step_on_postgres_leaves_the_old_or_the_new(
    postgres_place: PostgresPlace, name: str
) -> None:
    die_everywhere(postgres_place, SCENARIOS[name])


def test_a_crash_when_a_fork_is_first_looked_at_leaves_it_as_it_was(place: SqlitePlace) -> None:
    with opened(place, seed=1) as context:
        agent = Holdfast(context).namespace("agent")
        build(agent)
        agent.fork("copy").snapshot("as it was")
    place.save()
    with opened(place, seed=2) as context:
        whole = observe(Holdfast(context).namespace("copy"))
    assert [seen["name"] for seen in whole["sessions"]] == ["chat", "young"]
    deaths = 0
    for fuse in fuses():
        place.reset()
        with fuse, opened(place, fuse=fuse, seed=3) as context:
            assert Holdfast(context).namespace("copy").sessions.list()
        deaths += fuse.blown
        with opened(place, seed=4) as context:
            assert observe(Holdfast(context).namespace("copy")) == whole, fuse
            assert Holdfast(context).verify().faults == [], fuse
    assert deaths > 10


def die_everywhere(place: Place, scenario: Scenario) -> None:
    with opened(place, seed=1) as context:
        agent = Holdfast(context).namespace("agent")
        build(agent)
        scenario.arrange(agent)
    place.save()
    with opened(place, seed=2) as context:
        agent = Holdfast(context).namespace("agent")
        old = observe(agent)
        scenario.act(agent)
        new = observe(agent)
    assert old != new
    seen: set[str] = set()
    for fuse in fuses(counts=place.counts):
        place.reset()
        with fuse, opened(place, fuse=fuse, seed=3) as context:
            scenario.act(Holdfast(context).namespace("agent"))
        state = fingerprint(place)
        if fuse.blown and state in seen:
            continue
        seen.add(state)
        with opened(place, seed=4) as context:
            vault = Holdfast(context)
            agent = vault.namespace("agent")
            found = observe(agent)
            assert found in ((old, new) if fuse.blown else (new,)), fuse
            assert vault.verify().faults == [], fuse
            assert vault.verify_audit().is_sound, fuse
            vault.collect()
            assert find_litter(context) == set(), fuse
            assert observe(agent) == found, fuse
            if found == old:
                scenario.act(agent)
                assert observe(agent) == new, fuse
            else:
                agent.sessions.create("agent", session_id="life-goes-on")
    assert len(seen) > 1


# With an attached directory


def picture(tree: Path) -> dict[str, bytes]:
    paths = (path for path in tree.rglob("*") if path.is_file())
    return {str(path.relative_to(tree)): path.read_bytes() for path in paths}


def build_both(work: Workspace) -> None:
    """Changes the directory, the store and the sessions side by side."""
    tree, sessions, store = work.path, work.namespace.sessions, work.namespace.store
    (tree / "src").mkdir()
    (tree / "src/main.py").write_text("one")
    (tree / "large.bin").write_bytes(Random(3).randbytes(9000))
    sessions.create("agent", session_id="chat", initial_state={"step": 0})
    sessions.add_turn("chat", "Hello", "Hi", state_after={"step": 1, "text": LONG})
    store.set("config", "model", "a")
    work.snapshot("one")
    (tree / "src/main.py").write_text("two")
    (tree / "large.bin").unlink()
    (tree / "new.txt").write_text("new")
    sessions.add_turn("chat", "More", "Gladly", state_after={"step": 2})
    sessions.create("agent", session_id="young")
    store.set("config", "model", "b")
    work.snapshot("two")


def drift_in_both(work: Workspace) -> None:
    (work.path / "src/main.py").write_text("in no snapshot")
    work.namespace.sessions.update_state("chat", {"step": 3, "in": "no snapshot"})
    work.namespace.store.set("config", "pending", True)


def drift_in_planes(work: Workspace) -> None:
    """Changes what no snapshot holds yet, and nothing in the directory."""
    work.namespace.sessions.add_turn("chat", "And?", "So", state_after={"step": 3})
    work.namespace.store.set("config", "pending", True)


def go_back_in_both(work: Workspace) -> None:
    work.restore(labelled(work.namespace, "one"))


@dataclass(frozen=True)
class Attached:
    """One operation on a directory and its namespace, and at which calls it dies."""

    act: Callable[[Workspace], object]
    arrange: Callable[[Workspace], object] = lambda _work: None
    every: int = 2
    back: Callable[[Workspace], object] = lambda work: work.undo()


BOTH = {
    "restore": Attached(go_back_in_both),
    "restore over drift": Attached(go_back_in_both, drift_in_both),
    "restore over sessions": Attached(go_back_in_both, drift_in_planes),
    "undo": Attached(lambda work: work.undo(), every=3, back=lambda work: work.redo()),
    "undo of a restore": Attached(
        lambda work: work.undo(), go_back_in_both, every=3, back=lambda work: work.redo()
    ),
}


@pytest.mark.parametrize("name", BOTH)
def test_a_crash_leaves_the_directory_and_all_planes_old_or_new(
    place: SqlitePlace, name: str
) -> None:
    die_everywhere_in_both(place, BOTH[name])


def test_a_crash_on_postgres_leaves_the_directory_and_all_planes_old_or_new(
    postgres_place: PostgresPlace,
) -> None:
    die_everywhere_in_both(postgres_place, Attached(go_back_in_both, drift_in_both, every=7))


def die_everywhere_in_both(place: Place, scenario: Attached) -> None:
    with attached(place, seed=1) as it:
        build_both(it.work)
        scenario.arrange(it.work)
        old = observe_both(it.work)
    place.save()
    with attached(place, seed=2) as it:
        scenario.act(it.work)
        new = observe_both(it.work)
    assert all(old[part] != new[part] for part in ("directory", "store", "sessions"))
    deaths = 0
    for fuse in fuses(counts=touches_files):
        if fuse.steps % scenario.every:
            fuse.died_at = "not played"
            continue
        place.reset()
        with fuse, attached(place, fuse=fuse, seed=3) as it:
            scenario.act(it.work)
        deaths += fuse.blown
        with attached(place, seed=4) as it:
            # Whoever looks first puts right what the dead have left.
            is_recovered = it.work.status().recovered is not None
            found = observe_both(it.work)
            assert found in ((old, new) if fuse.blown else (new,)), fuse
            if found == new:
                scenario.back(it.work)
                assert without_history(observe_both(it.work)) == without_history(old), fuse
            elif not is_recovered:
                # Else the last change is that something was put right.
                scenario.act(it.work)
                assert observe_both(it.work) == new, fuse
    assert deaths > 20 // scenario.every


def observe_both(work: Workspace) -> Seen:
    seen = observe_now(work.namespace)
    del seen["files"]  # What was captured last; the directory is what is there.
    return {"directory": picture(work.path), **seen}


def without_history(seen: Seen) -> Seen:
    """Leaves out what an undo does not take back: it is one more version."""
    sessions = [
        {part: each[part] for part in ("name", "is listed", "state", "metadata", "turns")}
        for each in seen["sessions"]
    ]
    for session in sessions:
        session["turns"] = [turn[:3] for turn in session["turns"]]
    kept = [session for session in sessions if session["is listed"]]
    return {**seen, "sessions": kept}
