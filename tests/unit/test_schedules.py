"""Schedules: when they take a snapshot, when they do not, and who does it."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread

import pytest

from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.tasks.schedules import LOOKS, MOST_SCHEDULES, PAUSE, run_due
from holdfast.engine.vault import Holdfast
from holdfast.errors import InvalidName, InvalidValue, ScheduleNotFound, Unavailable
from holdfast.testing.clocks import Watch

pytestmark = pytest.mark.in_memory

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def context(request: pytest.FixtureRequest, tmp_path: Path, watch: Watch) -> Iterator[Context]:
    catalog: Catalog = (
        PostgresCatalog(request.getfixturevalue("postgres_url"))
        if getattr(request, "param", "sqlite") == "postgres"
        else SqliteCatalog(tmp_path)
    )
    with closing(catalog):
        yield Context.of(catalog, MemoryBlobStore(), clock=watch, limits=Limits(snapshot_bytes=100))


both = pytest.mark.parametrize(
    "context",
    ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)],
    indirect=True,
)
"""For what several do at once: there the databases differ."""


@pytest.fixture
def vault(context: Context) -> Holdfast:
    return Holdfast(context)


@pytest.fixture
def agent(vault: Holdfast) -> Namespace:
    return vault.namespace("alice")


def write(agent: Namespace, times: int = 1) -> None:
    for number in range(times):
        agent.store.set("n", f"key {number}", number)


# Every so often


def test_a_snapshot_comes_when_its_time_has_come(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    schedule = agent.schedules.create(every=MINUTE, label="each minute")
    write(agent)
    watch.wait(MINUTE - SECOND)
    assert vault.run_schedules() == 0
    watch.wait(SECOND)
    assert vault.run_schedules() == 1
    (snapshot,) = agent.timeline()
    assert (snapshot.label, snapshot.actor) == ("each minute", schedule.id)
    after = agent.schedules.get(schedule.id)
    assert (after.last_snapshot_id, after.last_run_at) == (snapshot.id, watch.now)
    assert vault.run_schedules() == 0


def test_nothing_is_taken_where_nothing_has_changed(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    agent.schedules.create(every=MINUTE)
    write(agent)
    agent.snapshot()
    watch.wait(MINUTE)
    assert vault.run_schedules() == 0
    write(agent)
    watch.wait(MINUTE)
    assert vault.run_schedules() == 1


def test_a_snapshot_can_be_had_in_any_case(vault: Holdfast, agent: Namespace, watch: Watch) -> None:
    agent.schedules.create(every=MINUTE, only_if_changed=False)
    for taken in (1, 2):
        watch.wait(MINUTE)
        assert vault.run_schedules() == 1
        assert len(agent.timeline()) == taken


def test_what_was_missed_is_made_up_for_once_and_keeps_in_step(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    schedule = agent.schedules.create(every=MINUTE, only_if_changed=False)
    watch.wait(100 * MINUTE + SECOND)
    assert vault.run_schedules() == 1
    assert vault.run_schedules() == 0
    assert agent.schedules.get(schedule.id).next_at == schedule.created_at + 101 * MINUTE


def test_a_clock_that_goes_back_takes_nothing_twice(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    agent.schedules.create(every=MINUTE, only_if_changed=False)
    watch.wait(MINUTE)
    assert vault.run_schedules() == 1
    watch.wait(-MINUTE)
    assert vault.run_schedules() == 0
    watch.wait(MINUTE)
    assert vault.run_schedules() == 0


# After so many writes


def test_a_snapshot_comes_after_so_many_writes(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    agent.schedules.create(after_changes=3)
    write(agent, 2)
    watch.wait(LOOKS)
    assert vault.run_schedules() == 0
    write(agent, 1)
    assert vault.run_schedules() == 1
    watch.wait(LOOKS)
    assert vault.run_schedules() == 0
    write(agent, 3)
    assert vault.run_schedules() == 1


def test_writes_that_a_snapshot_holds_already_do_not_count(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    agent.schedules.create(after_changes=3)
    write(agent, 5)
    agent.snapshot()
    watch.wait(LOOKS)
    assert vault.run_schedules() == 0
    write(agent, 2)
    watch.wait(LOOKS)
    assert vault.run_schedules() == 0
    write(agent, 1)
    assert vault.run_schedules() == 1


# When it is quiet


def test_a_snapshot_comes_when_nothing_was_written_for_a_while(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    agent.schedules.create(when_quiet=MINUTE)
    for _ in range(10):
        write(agent)
        watch.wait(10 * SECOND)
        assert vault.run_schedules() == 0
    for _ in range(5):
        watch.wait(10 * SECOND)
        assert vault.run_schedules() == 0
    watch.wait(10 * SECOND)
    assert vault.run_schedules() == 1
    for _ in range(10):
        watch.wait(MINUTE)
        assert vault.run_schedules() == 0


def test_what_is_pending_when_a_schedule_is_made_is_waited_for_too(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    write(agent)
    agent.schedules.create(when_quiet=MINUTE)
    watch.wait(MINUTE)
    assert vault.run_schedules() == 1


def test_who_waits_for_writes_costs_nothing_while_there_are_none(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    quiet = agent.schedules.create(when_quiet=MINUTE)
    changes = agent.schedules.create(after_changes=1)
    watch.wait(60 * MINUTE)
    vault.run_schedules()
    assert {each.id: each for each in agent.schedules.list()} == {
        quiet.id: quiet,
        changes.id: changes,
    }


# What goes wrong


def test_one_that_fails_says_why_and_keeps_no_other_from_its_turn(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    schedule = agent.schedules.create(after_changes=1)
    agent.store.set("n", "much", "".join(map(chr, range(33, 233))))
    other = vault.namespace("bob")
    other.schedules.create(every=MINUTE)
    write(other)
    watch.wait(MINUTE)
    assert vault.run_schedules() == 1
    failed = agent.schedules.get(schedule.id)
    assert failed.last_error is not None
    assert failed.last_error.startswith("too_large: a snapshot may take 100 bytes")
    assert failed.next_at == watch.now + PAUSE
    agent.store.delete("n", "much")
    write(agent)
    assert vault.run_schedules() == 0
    watch.wait(PAUSE)
    assert vault.run_schedules() == 1
    assert agent.schedules.get(schedule.id).last_error is None


def test_a_database_that_is_away_is_nobodys_fault(
    context: Context, agent: Namespace, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = agent.schedules.create(every=MINUTE)
    write(agent)
    watch.wait(MINUTE)

    def fail(*_: object, **__: object) -> None:
        raise Unavailable("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.engine.timeline.snapshots.advance", fail)
        with pytest.raises(Unavailable):
            run_due(context)
    assert agent.schedules.get(schedule.id) == schedule
    assert run_due(context) == 1


def test_a_deleted_namespace_does_nothing_and_is_not_made_again(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    agent.schedules.create(every=MINUTE, only_if_changed=False)
    vault.delete_namespace("alice")
    watch.wait(MINUTE)
    assert vault.run_schedules() == 0
    assert vault.namespaces() == []
    vault.recover_namespace("alice")
    assert vault.run_schedules() == 1


# Who does it


@both
def test_of_many_workers_one_takes_the_snapshot(
    context: Context, agent: Namespace, watch: Watch
) -> None:
    for number in range(3):
        agent.schedules.create(every=MINUTE, label=str(number), only_if_changed=False)
    write(agent)
    watch.wait(MINUTE)
    ready, taken = Barrier(4), list[int]()

    def work() -> None:
        ready.wait()
        taken.append(run_due(context))

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) == 3
    assert sorted(snapshot.label or "" for snapshot in agent.timeline()) == ["0", "1", "2"]


# Keeping them


def test_a_schedule_that_is_stopped_rests_until_it_goes_on(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    schedule = agent.schedules.create(every=MINUTE)
    write(agent)
    agent.schedules.update(schedule.id, enabled=False)
    watch.wait(10 * MINUTE)
    assert vault.run_schedules() == 0
    going = agent.schedules.update(schedule.id, enabled=True, label="again")
    assert (going.next_at, going.label) == (watch.now + MINUTE, "again")
    watch.wait(MINUTE)
    assert vault.run_schedules() == 1
    assert agent.timeline()[0].label == "again"


def test_changing_nothing_is_not_told(agent: Namespace) -> None:
    schedule = agent.schedules.create(every=MINUTE)
    assert agent.schedules.update(schedule.id) == schedule
    assert agent.schedules.update(schedule.id, enabled=True) == schedule
    told = [trace.action for trace in agent.traces.list() if "schedule" in trace.action]
    assert told == ["schedule.created"]


def test_a_deleted_schedule_does_nothing_and_its_snapshots_stay(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    schedule = agent.schedules.create(every=MINUTE, only_if_changed=False)
    watch.wait(MINUTE)
    vault.run_schedules()
    agent.schedules.delete(schedule.id)
    watch.wait(MINUTE)
    assert vault.run_schedules() == 0
    assert len(agent.timeline()) == 1
    with pytest.raises(ScheduleNotFound):
        agent.schedules.get(schedule.id)


def test_a_schedule_is_its_namespaces_alone(vault: Holdfast, agent: Namespace) -> None:
    schedule = agent.schedules.create(every=MINUTE)
    bob, stranger = vault.namespace("bob"), vault.tenant("rivals").namespace("alice")
    bob.snapshot()
    for other in (bob, stranger):
        assert other.schedules.list() == []
        with pytest.raises(ScheduleNotFound):
            other.schedules.get(schedule.id)
        with pytest.raises(ScheduleNotFound):
            other.schedules.update(schedule.id, enabled=False)
        with pytest.raises(ScheduleNotFound):
            other.schedules.delete(schedule.id)
    assert agent.schedules.list() == [schedule]


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"every": MINUTE, "after_changes": 1},
        {"every": SECOND},
        {"when_quiet": timedelta(days=400)},
        {"after_changes": 0},
        {"after_changes": 10**7},
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(
    vault: Holdfast, agent: Namespace, wanted: dict[str, timedelta]
) -> None:
    with pytest.raises(InvalidValue):
        agent.schedules.create(**wanted)  # pyright: ignore[reportArgumentType] - that is the point
    assert vault.namespaces() == []


def test_there_are_so_many_schedules_and_no_more(agent: Namespace) -> None:
    for _ in range(MOST_SCHEDULES):
        agent.schedules.create(every=MINUTE)
    with pytest.raises(InvalidValue, match="at the most"):
        agent.schedules.create(every=MINUTE)
    with pytest.raises(InvalidName):
        agent.schedules.update(agent.schedules.list()[0].id, label="x" * 1000)
