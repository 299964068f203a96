"""Somebody else comes in between two steps of a task or a schedule, at every step there is.

Outside of a transaction anything may have changed by the next one: the namespace was deleted, and
another is called so now; the schedule was stopped; the task was ended by another.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest

from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.port import Catalog
from holdfast.engine.core.context import Context
from holdfast.engine.namespace import Namespace
from holdfast.engine.tasks.schedules import run_due
from holdfast.engine.vault import Holdfast
from holdfast.errors import NotFound, TaskEnded
from holdfast.model.basics import Kind
from holdfast.testing.clocks import Watch
from holdfast.testing.faults import FusedCatalog
from holdfast.testing.visitors import Interloper

MINUTE = timedelta(minutes=1)

Act = Callable[[], object]


@pytest.fixture
def context(catalog: Catalog, watch: Watch) -> Context:
    return Context.of(catalog, MemoryBlobStore(), clock=watch)


@pytest.fixture
def vault(context: Context) -> Holdfast:
    return Holdfast(context)


@pytest.fixture
def agent(vault: Holdfast) -> Namespace:
    return vault.namespace("alice")


def at_every_step(context: Context, act: Act) -> Iterator[tuple[Interloper, Context]]:
    """Yields contexts in which somebody else acts one step later each time, until too late."""
    for number in count():
        interloper = Interloper(number, act)
        yield interloper, replace(context, catalog=FusedCatalog(context.catalog, interloper))
        if not interloper.has_acted:
            assert number > 3
            return


# Schedules


def test_a_schedule_makes_no_namespace_that_was_deleted(
    context: Context, vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    for interloper, interrupted in at_every_step(context, lambda: vault.delete_namespace("alice")):
        agent.schedules.create(every=MINUTE, only_if_changed=False)
        watch.now += MINUTE
        run_due(interrupted)
        assert vault.namespaces() == ([] if interloper.has_acted else ["alice"])


def test_a_schedule_takes_no_snapshot_of_what_has_its_namespaces_name_now(
    context: Context, vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    def succeed() -> None:
        vault.delete_namespace("alice")
        agent.store.set("n", "another", "life")

    for interloper, interrupted in at_every_step(context, succeed):
        agent.schedules.create(every=MINUTE, only_if_changed=False)
        watch.now += MINUTE
        run_due(interrupted)
        if interloper.has_acted:
            assert (agent.timeline(), agent.schedules.list()) == ([], [])
            vault.delete_namespace("alice")


def test_a_schedule_that_is_stopped_takes_no_snapshot_and_stays_stopped(
    context: Context, agent: Namespace, watch: Watch
) -> None:
    ids: list[str] = []
    taken: list[int] = []

    def stop() -> None:
        agent.schedules.update(ids[-1], enabled=False, label="mine")
        taken.append(len(agent.timeline()))

    for interloper, interrupted in at_every_step(context, stop):
        ids.append(agent.schedules.create(every=MINUTE, only_if_changed=False).id)
        watch.now += MINUTE
        run_due(interrupted)
        after = agent.schedules.get(ids[-1])
        if interloper.has_acted:
            assert (after.enabled, after.label) == (False, "mine")
            assert len(agent.timeline()) == taken[-1]
        agent.schedules.delete(after.id)


def test_a_schedule_takes_nothing_that_somebody_else_has_taken(
    context: Context, agent: Namespace, watch: Watch
) -> None:
    for number, (_, interrupted) in enumerate(at_every_step(context, agent.snapshot)):
        schedule = agent.schedules.create(every=MINUTE)
        agent.store.set("n", "k", number)
        watch.now += MINUTE
        before = len(agent.timeline())
        run_due(interrupted)
        run_due(context)
        added = agent.timeline()[: len(agent.timeline()) - before]
        # One of us took it; the other took none, or was asked to by somebody.
        assert sum(snapshot.actor == schedule.id for snapshot in added) <= 1
        if added[0].actor == schedule.id:
            assert len({snapshot.root for snapshot in added}) == len(added)
        agent.schedules.delete(schedule.id)


# Tasks


def test_a_task_ends_in_no_namespace_but_its_own(
    context: Context, vault: Holdfast, agent: Namespace
) -> None:
    for interloper, interrupted in at_every_step(context, lambda: vault.delete_namespace("alice")):
        task = agent.tasks.start("tidy up")
        with suppress(NotFound):
            Holdfast(interrupted).namespace("alice").tasks.complete(task.id)
        assert vault.namespaces() == ([] if interloper.has_acted else ["alice"])


def test_a_task_takes_no_snapshot_of_what_has_its_namespaces_name_now(
    context: Context, vault: Holdfast, agent: Namespace
) -> None:
    def succeed() -> None:
        vault.delete_namespace("alice")
        agent.store.set("n", "another", "life")

    for interloper, interrupted in at_every_step(context, succeed):
        task = agent.tasks.start("tidy up", rollback_on_failure=True)
        with suppress(NotFound):
            Holdfast(interrupted).namespace("alice").tasks.fail(task.id)
        if interloper.has_acted:
            assert agent.timeline() == []
            vault.delete_namespace("alice")


def test_a_task_that_two_let_fail_goes_back_once(context: Context, agent: Namespace) -> None:
    ids: list[str] = []

    def fail() -> None:
        agent.tasks.fail(ids[-1])
        agent.files.write("notes.txt", b"later work")

    for interloper, interrupted in at_every_step(context, fail):
        agent.files.write("notes.txt", b"old")
        ids.append(agent.tasks.start("tidy up", rollback_on_failure=True).id)
        agent.files.write("notes.txt", b"broken")
        before = len(agent.timeline())
        Holdfast(interrupted).namespace("alice").tasks.fail(ids[-1])
        added = agent.timeline()[: len(agent.timeline()) - before]
        assert [snapshot.kind for snapshot in added] == [Kind.RESTORE, Kind.SNAPSHOT]
        expected = b"later work" if interloper.has_acted else b"old"
        assert agent.files.read("notes.txt") == expected


def test_a_task_that_one_completes_and_another_lets_fail_has_one_end(
    context: Context, agent: Namespace
) -> None:
    ids: list[str] = []

    def complete() -> None:
        with suppress(TaskEnded):
            agent.tasks.complete(ids[-1])

    for _, interrupted in at_every_step(context, complete):
        ids.append(agent.tasks.start("tidy up").id)
        with suppress(TaskEnded):
            Holdfast(interrupted).namespace("alice").tasks.fail(ids[-1])
        found = agent.tasks.get(ids[-1])
        ends = [s.id for s in agent.timeline() if (s.task_id, s.label) == (found.id, "tidy up")]
        assert ends == [found.after]
