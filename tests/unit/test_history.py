"""What happened to one thing: a path, a directory, a value, a session."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

import holdfast
from holdfast import Name
from holdfast.engine.timeline import history as histories
from holdfast.errors import InvalidPath, InvalidValue
from holdfast.wiring import open_vault


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(tmp_path / "vault") as opened:
        yield opened


@pytest.fixture
def agent(vault: holdfast.Holdfast) -> holdfast.Namespace:
    return vault.namespace("alice")


def told(history: holdfast.History) -> list[tuple[str, str | None]]:
    return [(s.change, None if s.snapshot is None else s.snapshot.label) for s in history]


def test_a_step_says_what_happened_when_by_whom_why_and_how_large_it_was(
    agent: holdfast.Namespace,
) -> None:
    agent.files.write("notes.md", "one")
    first = agent.acting_as("ann").snapshot("first", reason="to begin", task_id="task-1")
    agent.files.write("other.md", "of no concern")
    agent.snapshot("second")
    agent.files.write("notes.md", "three!")
    third = agent.snapshot("third")
    agent.files.delete("notes.md")
    now, change, addition = agent.history("notes.md")
    assert (now.change, now.snapshot, now.previous) == ("removed", None, third.id)
    assert (now.old_bytes, now.new_bytes) == (6, None)
    assert (change.change, change.snapshot) == ("changed", third)
    assert (change.old_bytes, change.new_bytes, change.gone) == (3, 6, 0)
    assert (addition.change, addition.snapshot) == ("added", first)
    assert addition.snapshot is not None
    assert (addition.snapshot.actor, addition.snapshot.task_id) == ("ann", "task-1")
    assert (addition.previous, addition.old_bytes, addition.new_bytes) == (None, None, 3)


def test_values_and_sessions_have_a_history_by_the_names_that_a_restore_takes(
    agent: holdfast.Namespace,
) -> None:
    agent.store.set("config", "model/size", 1)
    agent.sessions.create("helper", session_id="ses-1", initial_state={"step": 1})
    agent.snapshot("first")
    agent.store.set("config", "model/size", 2)
    agent.snapshot("second")
    agent.sessions.add_turn("ses-1", input="hello", output="hi")
    agent.snapshot("third")
    assert told(agent.history(Name.value("config", "model/size"))) == [
        ("changed", "second"),
        ("added", "first"),
    ]
    session = agent.history(Name.session("ses-1"))
    assert told(session) == [("changed", "third"), ("added", "first")]
    assert told(agent.history(Name.value("config", "model"))) == []


def test_a_directory_has_a_history_of_what_lies_in_it_and_of_nothing_beside_it(
    agent: holdfast.Namespace,
) -> None:
    agent.files.write("src/a/x.py", "1")
    agent.files.write("src-old/y.py", "1")
    agent.snapshot("first")
    agent.files.write("src-old/y.py", "2")
    agent.files.write("src.py", "2")
    agent.snapshot("beside")
    agent.files.write_many([("src/a/x.py", "2"), ("src/a/y.py", "2"), ("src/b.py", "2")])
    agent.snapshot("within")
    agent.files.delete("src", recursive=True)
    agent.snapshot("gone")
    found = agent.history("src")
    assert told(found) == [("removed", "gone"), ("changed", "within"), ("added", "first")]
    assert [step.entries for step in found] == [3, 3, 1]
    assert [(step.old_bytes, step.new_bytes) for step in found] == [(None, None)] * 3
    assert told(agent.history("src/a/")) == told(found)


def test_where_a_file_became_a_directory_it_changed(agent: holdfast.Namespace) -> None:
    agent.files.write("a", "file")
    agent.snapshot("file")
    agent.files.delete("a")
    agent.files.write("a/b", "in a directory")
    agent.snapshot("directory")
    found = agent.history("a")
    assert told(found) == [("changed", "directory"), ("added", "file")]
    assert (found.steps[0].old_bytes, found.steps[0].new_bytes) == (4, None)


def test_going_back_is_a_step_and_a_touch_is_none(agent: holdfast.Namespace) -> None:
    agent.files.write("a", "1")
    first = agent.snapshot("first")
    agent.files.write("a", "2")
    agent.snapshot("second")
    agent.restore(first, reason="back")
    agent.files.write("a", "1")  # As it is, at another time.
    agent.snapshot("the same")
    back, *_ = agent.history("a")
    assert back.snapshot is not None
    assert (back.snapshot.kind, back.snapshot.reason) == (holdfast.Kind.RESTORE, "back")
    assert len(agent.history("a")) == 3


def test_a_fork_begins_with_what_it_was_given(agent: holdfast.Namespace) -> None:
    agent.files.write("a", "1")
    agent.snapshot("first")
    fork = agent.fork("bob")
    fork.files.write("a", "2")
    now, given = fork.history("a")
    assert (now.change, now.snapshot) == ("changed", None)
    assert given.snapshot is not None
    assert (given.change, given.snapshot.kind) == ("added", holdfast.Kind.FORK)
    assert len(agent.history("a")) == 1


def test_where_snapshots_are_gone_a_step_is_told_at_the_next_one_and_says_so(
    agent: holdfast.Namespace,
) -> None:
    for number in range(6):
        agent.files.write("a", str(number))
        agent.snapshot(str(number))
    timeline = agent.timeline()
    for snapshot in (timeline[1], timeline[2], timeline[5]):
        agent.delete_snapshot(snapshot)
    found = agent.history("a")
    assert told(found) == [("changed", "5"), ("changed", "2"), ("added", "1")]
    assert [step.gone for step in found] == [2, 0, 1]
    assert [step.previous for step in found] == [timeline[3].id, timeline[4].id, None]
    assert found.searched_to == 2
    agent.recover_snapshot(timeline[5].id)
    assert told(agent.history("a"))[-2:] == [("changed", "1"), ("added", "0")]


def test_what_was_never_there_has_no_steps_and_says_how_far_was_looked(
    agent: holdfast.Namespace, vault: holdfast.Holdfast
) -> None:
    agent.files.write("a", "1")
    agent.snapshot()
    agent.snapshot()
    found = agent.history("b")
    assert (list(found), found.searched_to, found.before) == ([], 1, None)
    nobody = vault.namespace("nobody").history("a")
    assert (list(nobody), nobody.searched_to, nobody.before) == ([], None, None)


def test_what_is_named_badly_is_refused(agent: holdfast.Namespace) -> None:
    for name in ("../a", "/etc/passwd", "", "a//b"):
        with pytest.raises(InvalidPath):
            agent.history(name)
    for name in (Name("nothing", "a"), Name("sessions", ""), Name("store", "a")):
        with pytest.raises(InvalidValue):
            agent.history(name)
    with pytest.raises(InvalidValue):
        agent.history(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidValue):
        agent.history("a", limit=-1)


def test_a_page_ends_when_its_time_is_up_and_the_next_goes_on_there(tmp_path: Path) -> None:
    started, seconds = datetime(2026, 1, 1, tzinfo=UTC), count()
    clock = lambda: started + timedelta(seconds=next(seconds))  # noqa: E731 - each look is a second
    with open_vault(tmp_path / "vault", clock=clock) as opened:
        agent = opened.namespace("a")
        agent.files.write("a", "1")
        for _ in range(10):
            agent.snapshot()
        first = agent.comparing.page_of_history(Name.file("a"), limit=100, before=None)
        assert (list(first), first.searched_to, first.before) == ([], 10, 11)
        second = agent.comparing.page_of_history(Name.file("a"), limit=100, before=first.before)
        assert (list(second), second.before) == ([], 10)
        assert len(agent.history("a")) == 1


def test_a_page_looks_at_so_many_snapshots(
    agent: holdfast.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "BATCH", 2)
    monkeypatch.setattr(histories, "PAGE_SNAPSHOTS", 4)
    agent.files.write("a", "1")
    for _ in range(10):
        agent.snapshot()
    page = agent.comparing.page_of_history(Name.file("a"), limit=100, before=None)
    assert (list(page), page.searched_to, page.before) == ([], 7, 8)


def test_snapshots_of_a_directory_tell_it_as_well_and_so_does_the_directory(
    vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    place = tmp_path / "work"
    (place / "src").mkdir(parents=True)
    (place / "src/a.py").write_text("1")
    with vault.workspace(place, namespace="alice") as project:
        project.snapshot("first")
        (place / "b").write_text("beside")
        project.snapshot("beside")
        (place / "src/a.py").write_text("22")
        project.snapshot("second")
        (place / "src/a.py").unlink()
        found = project.history("src/a.py")
        assert told(found) == [("removed", None), ("changed", "second"), ("added", "first")]
        assert told(project.history("src"))[1:] == [("changed", "second"), ("added", "first")]
        assert told(project.namespace.history("src/a.py")) == told(found)[1:]
        older = project.history("src/a.py", limit=2)
        assert told(project.history("src/a.py", before=older.before)) == [("added", "first")]
