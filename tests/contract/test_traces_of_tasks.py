"""Which task a trace belongs to: it says so when it is written, and can never be told later."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast.model.traces import TraceInfo
from holdfast.testing.clocks import Watch


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2031, 5, 6, tzinfo=UTC))


@pytest.fixture
def vault(opener: Callable[..., holdfast.Holdfast]) -> holdfast.Holdfast:
    return opener()


@pytest.fixture
def agent(vault: holdfast.Holdfast) -> holdfast.Namespace:
    return vault.namespace("alice")


def all_of(agent: holdfast.Namespace) -> list[TraceInfo]:
    """Returns the traces of a namespace, oldest first."""
    return agent.traces.list(limit=1000)[::-1]


def by_task(agent: holdfast.Namespace) -> list[tuple[str, str | None]]:
    return [(each.action, each.task_id) for each in all_of(agent)]


def do_everything(agent: holdfast.Namespace) -> None:
    """Leaves a trace of every kind that is left through a namespace."""
    first = agent.snapshot("first")
    session = agent.sessions.create("planner", initial_state={"a": 1})
    agent.sessions.update_state(session.id, {"a": 2})
    agent.sessions.add_turn(session.id, "hello", "yes?")
    agent.sessions.rollback(session.id, 0)
    agent.sessions.update(session.id, metadata={"a": 1})
    agent.sessions.fork(session.id)
    kept = agent.memory.add("tea, not coffee")
    agent.memory.update(kept.id, content="coffee")
    agent.memory.delete(kept.id)
    thing = agent.entities.create(session.id, entity_type="order", entity_id="o-1")
    agent.entities.update(thing.id, {"paid": True})
    agent.entities.delete(thing.id)
    agent.sessions.delete(session.id)
    second = agent.snapshot("second")
    agent.restore(first)
    agent.undo()
    agent.redo()
    agent.pin(second)
    agent.unpin(second)
    agent.set_label(second, "better")
    agent.delete_snapshot(second)
    agent.recover_snapshot(second.id)
    agent.set_retention(keep_last=50)
    agent.set_quota(1 << 20)
    schedule = agent.schedules.create(every=timedelta(hours=1))
    agent.schedules.update(schedule.id, enabled=False)
    agent.schedules.delete(schedule.id)
    agent.store.clear_history()
    agent.traces.add("tool.called")


def test_whatever_is_done_in_a_task_says_so(
    vault: holdfast.Holdfast, agent: holdfast.Namespace
) -> None:
    with agent.task("work") as run:
        do_everything(agent)
    found = all_of(agent)
    assert {each.action for each in found if each.task_id != run.id} == set()
    assert len({each.action for each in found}) > 25
    assert found[0].action == "task.started"
    assert vault.verify_audit().is_sound
    before = len(found)
    do_everything(agent)
    assert {each.task_id for each in all_of(agent)[before:]} == {None}
    assert vault.verify_audit().is_sound


def test_of_tasks_within_each_other_it_is_the_innermost(agent: holdfast.Namespace) -> None:
    agent.snapshot()
    with agent.task("outer") as outer:
        agent.memory.add("in the outer one")
        with agent.task("inner") as inner:
            agent.memory.add("in the inner one")
        agent.memory.add("in the outer one again")
    agent.memory.add("in none")
    made = [each for each in by_task(agent) if each[0] == "memory.created"]
    assert [task for _, task in made] == [outer.id, inner.id, outer.id, None]
    ends = [each for each in all_of(agent) if each.action in {"task.started", "task.completed"}]
    assert [(each.resource_id, each.task_id) for each in ends] == [
        (outer.id, outer.id),
        (inner.id, inner.id),
        (inner.id, inner.id),
        (outer.id, outer.id),
    ]


def test_a_task_that_fails_and_goes_back_has_all_of_its_traces(agent: holdfast.Namespace) -> None:
    agent.snapshot()
    with suppress(ZeroDivisionError), agent.task("fails", rollback_on_failure=True) as run:
        agent.memory.add("a mistake")
        raise ZeroDivisionError
    assert [action for action, task in by_task(agent) if task == run.id] == [
        "task.started",
        "memory.created",
        "task.failed",
        "snapshot.taken",
        "snapshot.restored",
    ]


def test_a_task_by_hand_is_named_by_its_own_traces_alone(agent: holdfast.Namespace) -> None:
    agent.snapshot()
    run = agent.tasks.start("by hand")
    agent.memory.add("whose, nobody has said")
    agent.tasks.complete(run.id)
    assert by_task(agent)[1:] == [
        ("task.started", run.id),
        ("memory.created", None),
        ("task.completed", run.id),
        ("snapshot.taken", run.id),
    ]


def test_a_snapshot_that_names_a_task_is_that_ones(agent: holdfast.Namespace) -> None:
    agent.snapshot("outside", task_id="task-of-others")
    with agent.task("work"):
        agent.snapshot("inside", task_id="task-of-others")
    named = [each for each in all_of(agent) if each.task_id == "task-of-others"]
    assert [each.details["label"] for each in named] == ["outside", "inside"]


def test_threads_that_work_for_a_task_leave_traces_of_it(agent: holdfast.Namespace) -> None:
    agent.snapshot()
    with agent.task("work") as run:
        thread = threading.Thread(target=lambda: agent.memory.add("from a thread"))
        thread.start()
        thread.join()
    (made,) = agent.traces.list(action="memory.created")
    assert made.task_id == run.id


def test_what_others_do_meanwhile_is_not_the_tasks(
    vault: holdfast.Holdfast, agent: holdfast.Namespace
) -> None:
    with agent.task("work"):
        vault.namespace("alice").memory.add("through another door")
        vault.namespace("bob").memory.add("elsewhere")
        agent.fork("carol")
    (here,) = agent.traces.list(action="memory.created")
    assert here.task_id is None
    for name in ("bob", "carol"):
        # A task is one namespace's.
        assert {each.task_id for each in all_of(vault.namespace(name))} == {None}


def test_traces_are_found_by_their_task(
    vault: holdfast.Holdfast, agent: holdfast.Namespace
) -> None:
    session = agent.sessions.create("planner")
    agent.snapshot()
    with agent.task("one") as one:
        agent.sessions.update_state(session.id, {"a": 1})
        agent.memory.add("tea")
    with agent.task("two") as two:
        agent.sessions.update_state(session.id, {"a": 2})
    for traces in (agent.traces, vault.traces):
        found = traces.list(task_id=one.id)[::-1]
        assert [each.action for each in found] == [
            "task.started",
            "state.updated",
            "memory.created",
            "task.completed",
            "snapshot.taken",
        ]
        assert {each.task_id for each in found} == {one.id}
        assert traces.list(task_id="task-nobody") == []
        for more in ({"action": "state.updated"}, {"session_id": session.id}):
            (found_one,) = traces.list(task_id=two.id, **more)
            assert (found_one.action, found_one.task_id) == ("state.updated", two.id)
        (made,) = traces.list(task_id=one.id, action="memory.created")
        assert agent.traces.get(made.id) == made
        seen: list[str] = []
        while page := traces.list(task_id=one.id, limit=2, starting_after=(seen or [None])[-1]):
            seen += [each.id for each in page]
        assert seen == [each.id for each in found[::-1]]
