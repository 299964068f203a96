"""Tasks that outlive a call: their snapshots, their ends, and being told the same twice."""

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread

import pytest

from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast
from holdfast.errors import (
    InvalidName,
    InvalidValue,
    SnapshotNotFound,
    TaskEnded,
    TaskNotFound,
    TooLarge,
)
from holdfast.model.basics import Kind
from holdfast.model.tasks import TaskRun, TaskStatus
from holdfast.operations.snapshots import MAX_TEXT_CHARS
from holdfast.testing.clocks import Watch


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Holdfast]:
    with closing(SqliteCatalog(tmp_path)) as catalog:
        opened = Holdfast(
            Context.of(catalog, MemoryBlobStore(), clock=Watch(step=timedelta(seconds=1)))
        )
        opened.events.listen()
        yield opened


@pytest.fixture
def agent(vault: Holdfast) -> Namespace:
    return vault.namespace("alice")


def actions(agent: Namespace) -> list[str]:
    return [trace.action for trace in reversed(agent.traces.list(limit=100))]


# Starting


def test_what_is_there_when_a_task_starts_is_kept(agent: Namespace) -> None:
    agent.files.write("notes.txt", b"old")
    task = agent.tasks.start("tidy up", metadata={"why": "dust"})
    assert task.status is TaskStatus.RUNNING
    assert task.metadata == '{"why":"dust"}'
    before = agent.get_snapshot(task.before)
    assert (before.label, before.task_id) == ("before tidy up", task.id)
    assert agent.at(before).files.read("notes.txt") == b"old"


def test_a_task_begins_where_a_snapshot_holds_everything_already(agent: Namespace) -> None:
    agent.files.write("notes.txt", b"old")
    held = agent.snapshot()
    assert agent.tasks.start("tidy up").before == held.id
    assert len(agent.timeline()) == 1


def test_a_task_can_be_the_first_thing_that_happens_in_a_namespace(agent: Namespace) -> None:
    task = agent.tasks.start("begin")
    assert agent.tasks.complete(task.id).before == task.before


def test_what_a_snapshot_holds_needs_no_other_when_a_task_is_taken_back(agent: Namespace) -> None:
    task = agent.tasks.start("tidy up")
    agent.files.write("notes.txt", b"new")
    agent.tasks.complete(task.id)
    count = len(agent.timeline())
    done = agent.undo(task=task.id)
    assert (done.safety_id, len(agent.timeline())) == (None, count + 1)


@pytest.mark.parametrize(
    ("name", "error"), [("", InvalidValue), ("x" * 129, InvalidName), ("a\0b", InvalidName)]
)
def test_a_name_that_no_label_can_be_is_refused(
    agent: Namespace, name: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        agent.tasks.start(name)
    assert agent.timeline() == []


def test_metadata_has_its_limit(agent: Namespace) -> None:
    with pytest.raises(TooLarge):
        agent.tasks.start("tidy up", metadata={"much": "x" * (1 << 16)})
    assert agent.timeline() == []


# Completing


def test_completing_takes_a_snapshot_with_the_tasks_name(agent: Namespace) -> None:
    task = agent.tasks.start("tidy up")
    agent.files.write("notes.txt", b"new")
    done = agent.tasks.complete(task.id, reason="all dusted")
    assert done.status is TaskStatus.COMPLETED
    assert done.after is not None
    after = agent.get_snapshot(done.after)
    assert (after.label, after.reason, after.task_id) == ("tidy up", "all dusted", task.id)
    assert agent.at(after).files.read("notes.txt") == b"new"
    assert done.ended_at is not None
    assert done.ended_at > done.started_at


def test_completing_twice_is_completing_once(agent: Namespace) -> None:
    task = agent.tasks.start("tidy up")
    first = agent.tasks.complete(task.id, reason="once")
    agent.files.write("notes.txt", b"later")
    assert agent.tasks.complete(task.id, reason="twice") == first
    assert len(agent.timeline()) == 2


def test_a_task_ends_in_one_way(agent: Namespace) -> None:
    done, gone = agent.tasks.start("one"), agent.tasks.start("two")
    agent.tasks.complete(done.id)
    agent.tasks.fail(gone.id)
    with pytest.raises(TaskEnded, match="completed"):
        agent.tasks.fail(done.id)
    with pytest.raises(TaskEnded, match="failed"):
        agent.tasks.complete(gone.id)


def test_everything_about_a_task_is_told(agent: Namespace) -> None:
    task = agent.tasks.start("one")
    agent.tasks.complete(task.id)
    other = agent.tasks.start("two", rollback_on_failure=True)
    agent.tasks.fail(other.id)
    told = actions(agent)
    assert [action for action in told if action.startswith("task.")] == [
        "task.started",
        "task.completed",
        "task.started",
        "task.failed",
    ]
    assert told[-1] == "snapshot.restored"


# Failing


def test_a_failed_attempt_is_kept_and_stays(agent: Namespace) -> None:
    task = agent.tasks.start("tidy up")
    agent.files.write("notes.txt", b"broken")
    failed = agent.tasks.fail(task.id, error="out of dusters")
    assert (failed.status, failed.reason) == (TaskStatus.FAILED, "out of dusters")
    assert failed.restored is None
    assert agent.files.read("notes.txt") == b"broken"
    assert failed.after is not None
    assert agent.at(failed.after).files.read("notes.txt") == b"broken"


@pytest.mark.parametrize(("says", "asked"), [(True, None), (False, True)])
def test_failing_brings_back_what_was_there_if_that_is_wanted(
    agent: Namespace, *, says: bool, asked: bool | None
) -> None:
    agent.files.write("notes.txt", b"old")
    agent.store.set("n", "k", 1)
    task = agent.tasks.start("tidy up", rollback_on_failure=says)
    agent.files.write("notes.txt", b"broken")
    agent.store.delete("n", "k")
    failed = agent.tasks.fail(task.id, error="no", rollback=asked)
    assert agent.files.read("notes.txt") == b"old"
    assert agent.store.get("n", "k") == 1
    assert failed.after is not None
    assert agent.at(failed.after).files.read("notes.txt") == b"broken"
    assert failed.restored is not None
    restored = agent.get_snapshot(failed.restored)
    assert (restored.kind, restored.target) == (Kind.RESTORE, task.before)


def test_failing_twice_goes_back_once(agent: Namespace) -> None:
    agent.files.write("notes.txt", b"old")
    task = agent.tasks.start("tidy up", rollback_on_failure=True)
    agent.files.write("notes.txt", b"broken")
    first = agent.tasks.fail(task.id)
    agent.files.write("notes.txt", b"later work")
    assert agent.tasks.fail(task.id) == first
    assert agent.files.read("notes.txt") == b"later work"


def test_who_failed_without_going_back_does_not_go_back_by_repeating_it(agent: Namespace) -> None:
    agent.files.write("notes.txt", b"old")
    task = agent.tasks.start("tidy up", rollback_on_failure=True)
    agent.files.write("notes.txt", b"worth keeping")
    agent.tasks.fail(task.id, rollback=False)
    agent.tasks.fail(task.id)
    assert agent.files.read("notes.txt") == b"worth keeping"
    agent.tasks.fail(task.id, rollback=True)
    assert agent.files.read("notes.txt") == b"old"


def test_no_failure_is_refused_for_what_is_said_of_it(agent: Namespace) -> None:
    task = agent.tasks.start("tidy up")
    failed = agent.tasks.fail(task.id, error="a\0b\ud800c\n" + "x" * (MAX_TEXT_CHARS * 2))
    assert failed.reason is not None
    assert failed.reason.startswith("a\ufffdb\ufffdc\nxxx")
    assert len(failed.reason) == MAX_TEXT_CHARS


def test_a_task_whose_beginning_was_deleted_fails_and_says_that_it_cannot_go_back(
    agent: Namespace,
) -> None:
    task = agent.tasks.start("tidy up", rollback_on_failure=True)
    agent.files.write("notes.txt", b"mine")
    agent.snapshot()
    agent.delete_snapshot(task.before)
    with pytest.raises(SnapshotNotFound):
        agent.tasks.fail(task.id)
    assert agent.tasks.get(task.id).status is TaskStatus.FAILED
    assert agent.files.read("notes.txt") == b"mine"


# Finding


def test_a_task_is_its_namespaces_alone(vault: Holdfast, agent: Namespace) -> None:
    task, other = agent.tasks.start("mine"), vault.namespace("bob")
    other.tasks.start("theirs")
    stranger = vault.tenant("rivals").namespace("alice")
    stranger.snapshot()
    for elsewhere in (other, stranger, vault.namespace("nobody")):
        acts: list[Callable[[str], TaskRun]] = [
            elsewhere.tasks.get,
            elsewhere.tasks.complete,
            elsewhere.tasks.fail,
        ]
        for act in acts:
            with pytest.raises(TaskNotFound):
                act(task.id)
        with pytest.raises(InvalidValue, match="starting_after"):
            elsewhere.tasks.list(starting_after=task.id)
    assert agent.tasks.get(task.id) == task


def test_tasks_are_listed_by_status_a_page_at_a_time(agent: Namespace) -> None:
    tasks = [agent.tasks.start(f"task {number}") for number in range(4)]
    agent.tasks.complete(tasks[1].id)
    agent.tasks.complete(tasks[2].id)
    found = agent.tasks.list(limit=3)
    assert [task.id for task in found] == [task.id for task in reversed(tasks[1:])]
    rest = agent.tasks.list(limit=3, starting_after=found[-1].id)
    assert [task.id for task in rest] == [tasks[0].id]
    completed = agent.tasks.list(status="completed")
    assert [task.id for task in completed] == [tasks[2].id, tasks[1].id]
    with pytest.raises(InvalidValue, match="running, completed, failed"):
        agent.tasks.list(status="paused")


def test_a_task_of_a_namespace_that_was_deleted_is_not_that_of_its_successor(
    vault: Holdfast, agent: Namespace
) -> None:
    task = agent.tasks.start("tidy up")
    vault.delete_namespace("alice")
    with pytest.raises(TaskNotFound):
        agent.tasks.complete(task.id)
    assert vault.namespaces() == []
    agent.files.write("new.txt", b"another life")
    with pytest.raises(TaskNotFound):
        agent.tasks.complete(task.id)
    assert agent.timeline() == []


def test_of_many_that_end_a_task_at_once_one_does(agent: Namespace) -> None:
    task = agent.tasks.start("tidy up", rollback_on_failure=True)
    agent.files.write("notes.txt", b"new")
    ready, ended = Barrier(6), list[TaskRun]()

    def end(act: Callable[[str], TaskRun]) -> None:
        ready.wait()
        with suppress(TaskEnded):
            ended.append(act(task.id))

    acts: list[Callable[[str], TaskRun]] = [agent.tasks.complete, agent.tasks.fail]
    threads = [Thread(target=end, args=(acts[number % 2],)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    final = agent.tasks.get(task.id)
    assert {each.status for each in ended} == {final.status}
    assert len(ended) == 3
    labelled = [s for s in agent.timeline() if s.task_id == task.id and s.label == "tidy up"]
    assert [snapshot.id for snapshot in labelled] == [final.after]
    restored = [s.id for s in agent.timeline() if s.kind is Kind.RESTORE]
    assert restored == ([final.restored] if final.restored else [])
