"""Kills the engine at every step of a task and of a schedule; several processes keep schedules.

A task is running, or has ended with its snapshot. A schedule has run and its snapshot is there,
or neither. Whoever says the same again brings it to its end, once.
"""

import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.tasks.schedules import run_due
from holdfast.engine.vault import Holdfast
from holdfast.model.basics import Kind
from holdfast.model.tasks import TaskStatus
from holdfast.testing.faults import (
    Counts,
    Fuse,
    FusedBlobStore,
    FusedCatalog,
    every_step,
    fuses,
    leaves_traces,
)

pytestmark = pytest.mark.in_memory

NOW = datetime(2031, 5, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LIMITS = Limits(inline_bytes=16, free_floor_bytes=0)
OLD, NEW = b"what was there" * 10, b"what was done" * 10

WORKERS, AGENTS = 3, 24


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def where(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database, or nothing for a file beside the packs."""
    return "" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@pytest.fixture
def context(where: str, tmp_path: Path) -> Iterator[Context]:
    with open_parts(where, tmp_path) as parts:
        yield parts


@pytest.fixture
def counts(where: str) -> Counts:
    return leaves_traces if where else every_step


@contextmanager
def open_parts(where: str, folder: Path) -> Generator[Context]:
    catalog: Catalog = PostgresCatalog(where) if where else SqliteCatalog(folder)
    with closing(catalog):
        blobs = DiskBlobStore(folder / "packs")
        context = Context.of(catalog, blobs, clock=lambda: NOW, limits=LIMITS)
        Holdfast(context).events.listen()
        yield context


def cuts(context: Context, counts: Counts) -> Iterator[tuple[Fuse, Namespace, Context]]:
    """Yields fuses that blow one step later each time, each with a namespace of its own.

    And with the parts of an engine that hang on the fuse.
    """
    vault = Holdfast(context)
    for fuse in fuses(counts=counts):
        agent = vault.namespace(f"agent {fuse.steps}")
        agent.files.write("notes.txt", OLD)
        catalog, blobs = FusedCatalog(context.catalog, fuse), FusedBlobStore(context.blobs, fuse)
        yield fuse, agent, replace(context, catalog=catalog, blobs=blobs)
        assert agent.at(agent.timeline()[0]).files.read("notes.txt") in (OLD, NEW)


def mortal(context: Context, agent: Namespace) -> Namespace:
    return Holdfast(context).namespace(agent.name)


def labels(agent: Namespace) -> list[str | None]:
    return [snapshot.label for snapshot in reversed(agent.timeline())]


# Tasks


def test_a_task_that_starts_is_there_with_what_it_began_with(
    context: Context, counts: Counts
) -> None:
    for fuse, agent, parts in cuts(context, counts):
        with fuse:
            mortal(parts, agent).tasks.start("tidy up")
        tasks = agent.tasks.list()
        assert [task.before for task in tasks] == [snapshot.id for snapshot in agent.timeline()]
        assert tasks or fuse.blown
        again = agent.tasks.start("tidy up")
        assert agent.at(again.before).files.read("notes.txt") == OLD


def test_a_task_is_running_or_completed_with_its_snapshot(context: Context, counts: Counts) -> None:
    for fuse, agent, parts in cuts(context, counts):
        task = agent.tasks.start("tidy up")
        agent.files.write("notes.txt", NEW)
        with fuse:
            mortal(parts, agent).tasks.complete(task.id, reason="done")
        found = agent.tasks.get(task.id)
        if found.status is TaskStatus.RUNNING:
            assert fuse.blown
            assert (found, labels(agent)) == (task, ["before tidy up"])
        else:
            assert labels(agent) == ["before tidy up", "tidy up"]
        done = agent.tasks.complete(task.id, reason="done")
        assert labels(agent) == ["before tidy up", "tidy up"]
        assert done.after == agent.timeline()[0].id
        assert agent.at(agent.timeline()[0]).files.read("notes.txt") == NEW


def test_a_failure_is_taken_back_once_and_its_attempt_is_kept(
    context: Context, counts: Counts
) -> None:
    for fuse, agent, parts in cuts(context, counts):
        task = agent.tasks.start("tidy up")
        agent.files.write("notes.txt", NEW)
        with fuse:
            mortal(parts, agent).tasks.fail(task.id, error="no", rollback=True)
        found, kinds = agent.tasks.get(task.id), [s.kind for s in agent.timeline()]
        assert (found.status is TaskStatus.FAILED) == (found.after is not None)
        assert len(kinds) == 1 + (found.after is not None) + (found.restored is not None)
        assert agent.files.read("notes.txt") == (OLD if found.restored else NEW)
        # The client does not know what became of it, and says so again: without the wish, if the
        # first attempt was heard.
        failed = agent.tasks.fail(task.id, rollback=None if found.after else True)
        assert failed.after is not None
        assert failed.restored == agent.timeline()[0].id
        assert [s.kind for s in agent.timeline()].count(Kind.RESTORE) == 1
        assert agent.files.read("notes.txt") == OLD
        assert agent.at(failed.after).files.read("notes.txt") == NEW


class SecondInterrupt(Fuse):
    """Once it is armed, lets `steps` steps pass and interrupts the next one; life goes on."""

    is_armed = False

    def step(self, name: str, /) -> None:
        if self.is_armed and not self.blown and self._counts(name):
            if self._left == 0:
                self.died_at = name
                raise KeyboardInterrupt(name)
            self._left -= 1


def test_who_is_interrupted_twice_has_all_of_the_old_or_all_of_the_new(
    context: Context, counts: Counts
) -> None:
    for steps in count():
        fuse = SecondInterrupt(steps, counts=counts)
        catalog, blobs = FusedCatalog(context.catalog, fuse), FusedBlobStore(context.blobs, fuse)
        agent = Holdfast(replace(context, catalog=catalog, blobs=blobs)).namespace(f"agent {steps}")
        agent.files.write("notes.txt", OLD)
        agent.sessions.create("agent", session_id="s", initial_state={"v": "old"})
        known = agent.snapshot("known")
        with pytest.raises(KeyboardInterrupt):
            interrupt(agent, fuse)
        fuse.is_armed = False
        state = agent.sessions.get("s").state["v"]
        found = agent.files.read("notes.txt"), state
        assert found == ((NEW, "new") if fuse.blown and found[0] == NEW else (OLD, "old"))
        if found[0] == OLD:
            assert "tidy up" in labels(agent), "the attempt is kept before it is taken back"
        # The process goes on, and whoever means it goes back now.
        agent.restore(known)
        assert agent.files.read("notes.txt") == OLD
        agent.files.write("after.txt", b"the vault is in order")
        if not fuse.blown:
            assert steps > 1
            return


def interrupt(agent: Namespace, fuse: SecondInterrupt) -> None:
    """Is interrupted in the middle of a task; the way back may be interrupted again."""
    with agent.task("tidy up", rollback_on_failure=True):
        agent.files.write("notes.txt", NEW)
        agent.sessions.update_state("s", {"v": "new"})
        fuse.is_armed = True
        raise KeyboardInterrupt


# Schedules


def test_a_schedule_has_run_and_left_a_snapshot_or_neither(
    context: Context, counts: Counts
) -> None:
    later = NOW
    for fuse, agent, parts in cuts(context, counts):
        schedule = agent.schedules.create(every=MINUTE, label="each minute")
        later += MINUTE
        with fuse:
            run_due(replace(parts, clock=lambda now=later: now))
        found = agent.schedules.get(schedule.id)
        taken = [snapshot.id for snapshot in agent.timeline()]
        assert taken == ([] if found.last_snapshot_id is None else [found.last_snapshot_id])
        run_due(replace(context, clock=lambda now=later: now))
        assert labels(agent) == ["each minute"]
        agent.schedules.delete(schedule.id)


WORKER = """
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from holdfast.engine.tasks.schedules import run_due
from tests.faults.test_tasks_crash import MINUTE, NOW, open_parts

where, folder = sys.argv[1:]
with open_parts(where, Path(folder)) as context:
    context = replace(context, clock=lambda: NOW + MINUTE)
    print("ready", flush=True)
    sys.stdin.readline()
    print(run_due(context), flush=True)
"""


def test_of_several_processes_one_takes_each_snapshot(
    context: Context, where: str, tmp_path: Path
) -> None:
    vault = Holdfast(context)
    agents = [vault.namespace(f"agent {number}") for number in range(AGENTS)]
    for agent in agents:
        agent.files.write("notes.txt", NEW)
        agent.schedules.create(every=MINUTE)
        agent.schedules.create(after_changes=1)
    with ExitStack() as stack:
        workers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", WORKER, where, str(tmp_path)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(WORKERS)
        ]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        taken = [int(worker.communicate(timeout=60)[0]) for worker in workers]
    # Two schedules each, and one write: whichever comes first, the other finds nothing to do.
    assert sum(taken) == AGENTS
    assert all(len(agent.timeline()) == 1 for agent in agents)
