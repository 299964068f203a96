"""What a timeline tells beside its snapshots, and which of them it finds, on both catalogs."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast.engine.timeline import head, listing, snapshots
from holdfast.errors import HoldfastError, InvalidValue
from holdfast.model.changes import tally, to_counts
from holdfast.operations.snapshots import ListSnapshots
from holdfast.operations.timeline import ListTimeline
from holdfast.testing.clocks import Watch

PATHS = ["a", "b", "d/a", "d/b", "d/e/a", "d-", "d.x"]
BESIDE = ["changes", "task", "actor"]


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2026, 3, 1, 12, tzinfo=UTC), step=timedelta(microseconds=1))


@pytest.fixture
def vault(opener: Callable[..., holdfast.Holdfast]) -> holdfast.Holdfast:
    return opener()


@pytest.fixture
def agent(vault: holdfast.Holdfast) -> holdfast.Namespace:
    return vault.namespace("alice")


def act(agent: holdfast.Namespace, chance: Random, taken: list[holdfast.SnapshotInfo]) -> None:
    """Does something, of which some changes nothing but a time, or fails."""
    path, number = chance.choice(PATHS), chance.randrange(3)
    match chance.randrange(12):
        case 0 | 1 | 2 | 3:
            agent.files.write(path, f"{number}")
        case 4 | 5:
            agent.files.delete(path, recursive=True)
        case 6:
            agent.files.mkdir(f"{path}-dir/{number}")
        case 7:
            agent.files.chmod("d", 0o700 + number)
        case 8:
            agent.store.set("n", f"{number}", chance.randrange(2))
        case 9:
            agent.sessions.create("helper", initial_state={"n": number})
        case 10:
            agent.memory.add(f"memory {number}")
        case _ if taken:
            chosen = chance.choice(taken[-5:])
            chance.choice(
                [
                    lambda: agent.restore(chosen),
                    lambda: agent.restore(chosen, paths=["d"]),
                    agent.undo,
                    lambda: (agent.undo(), agent.redo()),
                ]
            )()


def story(agent: holdfast.Namespace, length: int) -> list[holdfast.SnapshotInfo]:
    """Returns all snapshots of a busy namespace, newest first; the first of all holds nothing."""
    chance, taken = Random(length), [agent.snapshot("empty")]
    while taken[-1].number < length:
        try:
            act(agent, chance, taken)
        except HoldfastError:
            continue  # It is not there, or something is in the way.
        if chance.randrange(2):
            taken.append(agent.snapshot())
    return agent.timeline(limit=length)


def test_rows_count_and_paths_are_found_as_the_diffs_of_200_snapshots_say(
    agent: holdfast.Namespace,
) -> None:
    rows = story(agent, 200)
    diffs = {new.id: agent.diff(old, new) for new, old in pairwise(rows)}
    counted = agent.timeline(limit=200, with_=["changes"])
    assert {row.id: row.changes for row in counted if row.id in diffs} == {
        name: to_counts(tally(changes)) for name, changes in diffs.items()
    }
    assert {row.kind for row in counted} >= {"snapshot", "restore", "undo", "redo", "safety"}
    assert all(row.counts is not None for row in counted)
    for path in [*PATHS, "d/e", "nothing"]:
        changed = [
            name
            for name, changes in diffs.items()
            if any(each == path or each.startswith(f"{path}/") for each in names(changes))
        ]
        found = agent.timeline(path=path)
        assert [row.id for row in found if row.id in diffs] == changed
        assert (found.before, found.searched_to) == (None, 1)


def names(changes: holdfast.Changes) -> list[str]:
    return [each.name for each in changes if each.plane is holdfast.Plane.FILES]


def test_what_was_not_counted_when_it_was_taken_is_when_somebody_asks(
    agent: holdfast.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (head, snapshots):
        monkeypatch.setattr(module, "count_folded", lambda _: None)
    monkeypatch.setattr(head, "count_changes", lambda _: None)
    rows = story(agent, 30)
    fork = agent.fork("bob", at=rows[0])
    fork.files.write("a", "forked")
    agent.merge("bob", prefer="theirs")
    rows = agent.timeline()
    counted = agent.timeline(with_=["changes"])
    assert all(row.counts is None for row in counted)
    assert [row.changes for row in counted] == [
        *(to_counts(tally(agent.diff(old, new))) for new, old in pairwise(rows)),
        to_counts({}),
    ]
    assert [row.changes for row in fork.timeline(with_=["changes"])] == [to_counts({})]
    # Where there is no time for that, it is not known: nothing else is said of it then.
    agent.files.write("a", "once more")
    agent.snapshot()
    (newest, *_) = listing.timeline(
        agent._handle, ListTimeline(with_=["changes"], limit=1), time=timedelta(0)
    )
    assert newest.changes is None


def test_a_row_names_its_task_its_actor_and_its_forks(
    vault: holdfast.Holdfast, agent: holdfast.Namespace
) -> None:
    key = vault.keys.create("laptop of Ann")
    with agent.acting_as(key.id).task("Clean up"):
        agent.files.write("a", "1")
    agent.acting_as("somebody").snapshot("by hand", task_id="no task")
    by_hand, done, *_ = agent.timeline()
    agent.fork("bob", at=done)
    agent.fork("carol", at=done)
    agent.fork("dave", at=by_hand)
    vault.delete_namespace("carol")
    vault.keys.revoke(key.id)
    rows = agent.timeline(with_=BESIDE)
    assert rows[:2] == [by_hand, done]
    told = [(row.task and (row.task.name, row.task.status), row.actor_name) for row in rows[:2]]
    assert told == [(None, None), (("Clean up", "completed"), "laptop of Ann")]
    assert [row.forks for row in rows[:2]] == [["dave"], ["bob"]]
    assert rows.total == len(rows)
    (only,) = agent.timeline(limit=1, with_=["task"])
    assert (only.changes, only.actor_name, only.forks) == (None, None, ["dave"])
    assert agent.timeline(limit=1).total is None
    assert [row.id for row in agent.timeline(actor="laptop of Ann")] == [
        row.id for row in agent.timeline(actor=key.id)
    ]
    assert done in agent.timeline(actor=key.id)
    assert agent.timeline(q="CLEAN ann")[0] == done
    assert agent.timeline(q="clean", task_status="failed") == []
    assert agent.timeline(task_status="completed", limit=1) == [done]


def test_snapshots_are_chosen_by_what_is_said_of_them(
    agent: holdfast.Namespace, clock: Watch
) -> None:
    made = list[holdfast.SnapshotInfo]()
    for number in range(8):
        agent.files.write("a", f"{number}")
        made.append(agent.snapshot(f"Refund {number}", reason="as ASKED" if number % 2 else None))
        clock.wait(timedelta(hours=1))
    agent.pin(made[3])
    agent.restore(made[0])

    def found(**wanted: Any) -> list[int]:
        return [row.number for row in agent.timeline(**wanted)]

    assert found(q="refund") == [8, 7, 6, 5, 4, 3, 2, 1]
    assert found(q="asked REFUND") == [8, 6, 4, 2]
    assert found(q="refund 7 asked") == [8]
    assert found(q="%") == found(q="refund_") == []
    assert (found(kind="restore"), found(pinned=True)) == ([9], [4])
    assert len(found(pinned=False)) == 8
    between = {"since": made[2].created_at, "until": made[5].created_at}
    assert found(**between) == [5, 4, 3]
    assert found(path="a", q="refund", pinned=False, **between) == [5, 3]
    for wrong in (
        {"kind": "bogus"},
        {"task_status": "done"},
        {"with_": ["change"]},
        {"with_": "changes"},
        {"since": datetime(2026, 3, 1)},  # noqa: DTZ001 - on purpose
        {"q": "x" * 257},
        {"path": "../x"},
    ):
        with pytest.raises(HoldfastError):
            agent.timeline(**wrong)


@pytest.mark.parametrize("wanted", [{"q": "odd"}, {"path": "a"}, {}])
def test_a_search_that_ends_early_says_how_far_it_came_and_goes_on(
    agent: holdfast.Namespace, monkeypatch: pytest.MonkeyPatch, wanted: dict[str, str]
) -> None:
    for number in range(40):
        agent.files.write("a" if number % 4 == 0 else "b", f"{number}")
        agent.snapshot("odd" if number % 2 else "even")
    monkeypatch.setattr(listing, "BATCH", 8)
    monkeypatch.setattr(listing.history, "BATCH", 8)
    every = agent.timeline(**wanted)
    assert (every.before, every.searched_to) == (None, 1)
    found, before, parts = list[holdfast.SnapshotInfo](), None, 0
    while True:
        asked = ListTimeline(limit=30, before=before, **wanted)
        part = listing.timeline(agent._handle, asked, time=timedelta(0))
        found += part
        parts += 1
        if part.before is None:
            break
        assert part.searched_to is not None
        assert part.before >= part.searched_to
        assert before is None or part.before < before
        before = part.before
    assert found == every
    assert parts > 1
    limited = agent.timeline(limit=3, **wanted)
    assert limited == every[:3]
    assert agent.timeline(limit=3, before=limited.before, **wanted) == every[3:6]


def test_listing_what_was_taken_on_purpose_ends_early_as_well(
    agent: holdfast.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = agent.snapshot("first")
    for _ in range(20):
        agent.restore(taken)
        agent.files.write("a", b"x")
    monkeypatch.setattr(listing, "BATCH", 8)
    monkeypatch.setattr(listing, "PAGE_TIME", timedelta(0))
    parts, before = list[list[holdfast.SnapshotInfo]](), None
    while before is not None or not parts:
        part = agent.comparing.page_of_snapshots(ListSnapshots(before=before))
        parts.append([*part])
        before = part.before
    assert [each for part in parts for each in part] == agent.list_snapshots() == [taken]
    assert parts[0] == []


def test_snapshots_are_found_by_what_they_are_called(agent: holdfast.Namespace) -> None:
    long = "t" * 100
    taken = [
        agent.snapshot(label, task_id=task_id, trace_id=trace_id)
        for label, task_id, trace_id in (
            ("a", long + "1", "r1"),
            ("b", long + "2", "r1"),
            (None, long + "1", "ü" * 4000),
            ("a", None, None),
            ("a", "other", "r2"),
        )
    ]

    def found(**sought: Any) -> list[int]:
        listed = agent.list_snapshots(**sought)
        assert listed == agent.timeline(**sought)
        return [taken.index(each) for each in listed]

    assert found(label="a") == [4, 3, 0]
    assert found(label="a", limit=2) == [4, 3]
    assert found(label="a", before=taken[3].number) == [0]
    assert found(task_id=long + "1") == [2, 0]  # Another one begins as long with the same.
    assert found(trace_id="ü" * 4000) == [2]
    assert found(trace_id="r1", label="b") == [1]
    assert found(trace_id="r1", task_id="other") == found(label="A") == found(task_id=long) == []
    agent.set_label(taken[3], "b")
    agent.delete_snapshot(taken[0])
    assert found(label="a") == [4]
    assert [each.id for each in agent.timeline(label="b")] == [taken[3].id, taken[1].id]


def test_the_total_is_of_those_that_are_there(agent: holdfast.Namespace, clock: Watch) -> None:
    def total() -> int:
        told = agent.timeline(with_=["task"])
        assert told.total == len(told)
        return told.total

    old = [agent.snapshot(expires_in=timedelta(days=1)) for _ in range(3)]
    agent.snapshot("short-lived")
    agent.pin(old[0])
    assert total() == 4
    clock.wait(timedelta(days=2))
    assert total() == 2
    clock.wait(timedelta(days=10_000))
    assert total() == 2  # One is pinned, and the head stands on the other.
    agent.set_retention(keep_last=100)
    agent.snapshot("kept by the policy")
    assert total() == 3
    agent.delete_snapshot(old[0])
    assert total() == 2
    with pytest.raises(InvalidValue):
        agent.timeline(limit=-1)


def test_how_much_is_counted_for_all_and_by_folder(agent: holdfast.Namespace) -> None:
    old = agent.snapshot()
    agent.files.write_many([(f"data/{n % 3}/{n}.txt", "1") for n in range(9)])
    agent.files.write_many([("top.txt", "1"), ("data/x.txt", "1")])
    agent.store.set("n", "k", 1)
    new = agent.snapshot()
    cut = agent.diff(old, new, limit=2, counts=True)
    assert (len(cut), cut.truncated, cut.count()) == (2, True, 12)
    assert cut.count("added", plane=holdfast.Plane.FILES) == 11
    assert agent.diff(old, new, limit=2).count() is None
    whole = agent.diff_folders(old, new)
    assert {each.path: each.added for each in whole.folders} == {
        "": 1,
        "data": 1,
        "data/0": 3,
        "data/1": 3,
        "data/2": 3,
    }
    assert whole.counts == to_counts(tally(agent.diff(old, new)))
    assert not whole.truncated
    (top, data) = agent.diff_folders(old, new, depth=1).folders
    assert (top.path, top.added, data.path, data.added) == ("", 1, "data", 10)
    (back,) = agent.diff_folders(new, old, depth=0).folders
    assert (back.path, back.removed) == ("", 11)
    part = agent.diff_folders(old, new, limit=2)
    assert ([each.path for each in part.folders], part.truncated) == (["data/0", "data/1"], True)
    assert part.counts == whole.counts
    assert [each.path for each in agent.diff_folders(old, new, paths=["data/1"]).folders] == [
        "data/1"
    ]
    agent.files.delete("data", recursive=True)
    assert sum(each.removed for each in agent.diff_folders().folders) == 10
