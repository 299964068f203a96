"""What a namespace stands on does not expire, however long nothing was done to it."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.timeline import retention
from holdfast.engine.vault import Holdfast
from holdfast.errors import SnapshotExpired, SnapshotNotFound
from holdfast.model.basics import SnapshotInfo
from holdfast.testing.clocks import Watch

pytestmark = pytest.mark.in_memory

DAY = timedelta(days=1)
LONG = timedelta(days=400)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def vault(request: pytest.FixtureRequest, tmp_path: Path, watch: Watch) -> Iterator[Holdfast]:
    place = tmp_path / "vault"
    is_postgres = request.param == "postgres"
    with holdfast.open(
        request.getfixturevalue("postgres_url") if is_postgres else place,
        objects=place if is_postgres else None,
        clock=watch,
        limits=Limits(free_floor_bytes=0),
    ) as opened:
        opened.events.listen()
        yield opened


@pytest.fixture
def agent(vault: Holdfast) -> Namespace:
    agent = vault.namespace("alice")
    agent.files.write("a", "1")
    return agent


def labels(agent: Namespace) -> list[str | None]:
    return [snapshot.label for snapshot in agent.timeline()]


def test_what_the_head_stands_on_answers_whatever_its_age(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    only = agent.snapshot("only")
    watch.wait(LONG)
    vault.forget()
    vault.collect()
    for name in ("@", "latest", only.id, only.id[:12]):
        assert agent.get_snapshot(name).id == only.id
    assert labels(agent) == ["only"]
    assert agent.at("@").files.read_text("a") == "1"
    agent.files.write("a", "2")
    assert [change.key for change in agent.diff("@")] == [b"a"]
    done = agent.restore("@")
    assert done.verified
    assert agent.files.read_text("a") == "1"
    agent.undo()
    assert agent.files.read_text("a") == "2"


def test_an_end_that_has_passed_is_not_shown(agent: Namespace, watch: Watch) -> None:
    taken = agent.snapshot("short", expires_in=DAY)
    assert agent.get_snapshot("@").expires_at == taken.expires_at == watch.now + DAY
    watch.wait(2 * DAY)
    assert agent.get_snapshot("@").expires_at is None
    assert not agent.get_snapshot("@").pinned


def test_others_expire_as_ever_and_one_undo_has_its_way_back(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    first = agent.snapshot("first")
    agent.files.write("a", "2")
    agent.snapshot("second")
    watch.wait(LONG)
    vault.collect()
    assert labels(agent) == ["second"]
    with pytest.raises(SnapshotExpired):
        agent.restore(first)
    agent.undo()
    assert agent.files.read_text("a") == "1"
    assert agent.get_snapshot("@").id == first.id, "now it is what there is"
    agent.redo()
    assert agent.files.read_text("a") == "2"


def test_the_last_operation_can_be_undone_by_its_name(agent: Namespace, watch: Watch) -> None:
    agent.snapshot("first")
    agent.files.write("a", "2")
    agent.snapshot("second")
    watch.wait(LONG)
    agent.undo("@")
    assert agent.files.read_text("a") == "1"


def test_who_goes_on_after_a_long_time_can_go_back(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    agent.snapshot("old")
    watch.wait(LONG)
    agent.files.write("a", "2")
    agent.snapshot("new")
    vault.collect()
    assert labels(agent) == ["new"]
    agent.undo()
    assert agent.files.read_text("a") == "1"


def test_a_fork_and_its_merge_begin_with_what_is_there(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    agent.snapshot("only")
    watch.wait(LONG)
    for fork in (agent.fork("as it stands"), agent.fork("at it", at="@")):
        watch.wait(LONG)
        vault.collect()
        assert fork.get_snapshot("@").detail == {"forked_from": "alice"}
        fork.files.write(fork.name, "new")
        watch.wait(LONG)
        agent.merge(fork)
        assert agent.files.read_text(fork.name) == "new"


def test_what_the_head_stands_on_can_still_be_deleted(agent: Namespace, watch: Watch) -> None:
    only = agent.snapshot("only")
    watch.wait(LONG)
    agent.delete_snapshot("@")
    with pytest.raises(SnapshotNotFound):
        agent.get_snapshot(only.id)
    agent.recover_snapshot(only.id)
    assert labels(agent) == ["only"]


def test_a_task_after_a_long_time_is_taken_back(agent: Namespace, watch: Watch) -> None:
    agent.snapshot("only")
    watch.wait(LONG)
    with pytest.raises(KeyError), agent.task("risky", rollback_on_failure=True):
        fail(agent)
    assert agent.files.read_text("a") == "1"
    run = agent.tasks.start("by hand", rollback_on_failure=True)
    watch.wait(LONG)
    agent.files.write("a", "2")
    assert agent.get_snapshot(run.before).id == run.before


def fail(agent: Namespace) -> None:
    agent.files.write("a", "2")
    raise KeyError


def test_a_directory_after_a_long_time(vault: Holdfast, watch: Watch, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a").write_text("1")
    workspace = vault.workspace(folder)
    workspace.snapshot("only")
    watch.wait(LONG)
    vault.collect()
    assert workspace.status().head is not None
    (folder / "a").write_text("2")
    assert [change.key for change in workspace.diff("@")] == [b"a"]
    workspace.restore("@")
    assert (folder / "a").read_text() == "1"
    workspace.undo()
    assert (folder / "a").read_text() == "2"


# Schedules


def extended(agent: Namespace) -> list[str | None]:
    return [trace.actor for trace in agent.traces.list(action="snapshot.extended", limit=100)]


def test_a_schedule_keeps_what_has_not_changed_for_longer(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    schedule = agent.schedules.create(every=DAY)
    watch.wait(DAY)
    assert vault.run_schedules() == 1
    (taken,) = agent.timeline()
    for days in range(1, 60):
        watch.wait(DAY)
        assert vault.run_schedules() == 0, "nothing is taken"
        vault.forget()
        assert agent.get_snapshot("@").expires_at == watch.now + 30 * DAY
        assert len(extended(agent)) == days
    after = agent.schedules.get(schedule.id)
    assert (after.last_run_at, after.last_snapshot_id) == (watch.now, taken.id)
    assert set(extended(agent)) == {schedule.id}
    # Somebody changes it after all these days: what was there yesterday is still there.
    agent.files.write("a", "2")
    watch.wait(DAY)
    assert vault.run_schedules() == 1
    watch.wait(20 * DAY)
    vault.collect()
    agent.restore(taken)
    assert agent.files.read_text("a") == "1"


def test_a_term_is_extended_once_a_day_at_the_most_and_never_shortened(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    agent.schedules.create(every=timedelta(hours=1))
    taken = agent.snapshot("long", expires_in=31 * DAY)
    for _ in range(24 * 3):
        watch.wait(timedelta(hours=1))
        vault.run_schedules()
    assert len(extended(agent)) == 2
    assert agent.get_snapshot(taken).expires_at == watch.now + 30 * DAY


def test_what_does_not_expire_is_not_extended(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    agent.schedules.create(every=DAY)
    agent.snapshot("kept", pin=True)
    watch.wait(40 * DAY)
    vault.run_schedules()
    assert agent.get_snapshot("@").pinned
    agent.unpin("@")
    agent.set_retention(keep_daily=7)
    agent.files.write("a", "2")
    agent.snapshot("by a policy")
    watch.wait(40 * DAY)
    vault.run_schedules()
    assert extended(agent) == []


def test_a_schedule_takes_again_what_was_deleted(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    agent.schedules.create(every=DAY)
    agent.delete_snapshot(agent.snapshot("gone"))
    watch.wait(DAY)
    assert vault.run_schedules() == 1
    assert agent.at("@").files.read_text("a") == "1"


def test_other_schedules_promise_nothing_where_nothing_has_changed(
    vault: Holdfast, agent: Namespace, watch: Watch
) -> None:
    agent.schedules.create(after_changes=1)
    agent.schedules.create(when_quiet=DAY)
    agent.snapshot("only")
    watch.wait(40 * DAY)
    assert vault.run_schedules() == 0
    assert extended(agent) == []


# Some at a time, while nobody waits for long


def fill(agent: Namespace, count: int) -> list[SnapshotInfo]:
    made = list[SnapshotInfo]()
    for number in range(count):
        agent.files.write("a", f"content {number}")
        made.append(agent.snapshot(f"{number}"))
    return made


def test_however_many_go_they_go_some_at_a_time_and_are_all_told(
    agent: Namespace, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    made = fill(agent, 9)
    watch.wait(LONG)
    gone = agent.forget()
    assert [snapshot.label for snapshot in gone] == ["6", "5", "4", "3", "2", "1", "0"]
    told = agent.traces.list(action="snapshot.forgotten", limit=10)
    assert [len(trace.details["snapshots"]) for trace in told] == [1, 2, 2, 2]
    assert {each for trace in told for each in trace.details["snapshots"]} == {
        snapshot.id for snapshot in made[:7]
    }
    assert agent.undo().target == made[7].id


class Meanwhile:
    """Lets something happen between a look at a timeline and what is done about it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
        self._look, self._act, self.looks = retention._look, act, 0
        monkeypatch.setattr(retention, "_look", self)

    def __call__(self, *given: Any) -> Any:
        seen = self._look(*given)
        self.looks += 1
        if self.looks == 1:
            self._act()
        return seen


def test_where_the_way_back_is_deleted_meanwhile_the_one_before_it_stays(
    agent: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = fill(agent, 5)
    agent.set_retention(keep_last=1)
    seen = Meanwhile(monkeypatch, lambda: agent.delete_snapshot(made[3]))
    agent.forget()
    assert seen.looks == 2
    assert labels(agent) == ["4", "2"]
    assert agent.undo().target == made[2].id


def test_what_is_pinned_meanwhile_stays(agent: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    made = fill(agent, 5)
    agent.set_retention(keep_last=2)
    Meanwhile(monkeypatch, lambda: agent.pin(made[1]))
    agent.forget()
    assert labels(agent) == ["4", "3", "1"]


def test_a_policy_that_changes_meanwhile_is_the_one_that_counts(
    agent: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(agent, 5)
    agent.set_retention(keep_last=2)
    Meanwhile(monkeypatch, lambda: agent.set_retention(keep_last=4))
    agent.forget()
    assert labels(agent) == ["4", "3", "2", "1"]


def test_a_timeline_that_grows_all_the_time_is_left_for_the_next_time(
    agent: Namespace, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(agent, 5)
    watch.wait(LONG)
    look = retention._look

    def growing(*given: Any) -> Any:
        seen = look(*given)
        agent.snapshot("another")
        return seen

    with monkeypatch.context() as patch:
        patch.setattr(retention, "_look", growing)
        assert agent.forget() == []
    assert [snapshot.label for snapshot in agent.forget()][-3:] == ["2", "1", "0"]
