"""What a task changed is taken back at any time, and nothing else, whoever opened the namespace."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier
from typing import Any

import httpx2
import pytest

import holdfast
from holdfast.errors import (
    InvalidValue,
    NothingToUndo,
    OthersChanged,
    SnapshotNotFound,
    TaskNotFound,
    TaskRunning,
)
from holdfast.testing.clocks import Watch
from holdfast.testing.servers import Server

pytestmark = pytest.mark.in_memory


@pytest.fixture
def agent(opens: Callable[[], Any]) -> Any:
    agent = opens()
    agent.store.set("n", "before", 1)
    return agent


class Failure(Exception):
    """What goes wrong in a task."""


def fail() -> None:
    raise Failure


def done_in(agent: Any, act: Callable[[], object], *, name: str = "work") -> str:
    """Does something in a task that ends well; returns the task's id."""
    with agent.task(name) as run:
        act()
    return run.id


def store(agent: Any) -> dict[str, Any]:
    return {key: agent.store.get("n", key) for key in agent.store.keys("n")}


def test_what_a_task_did_goes_back_later_and_the_rest_stays(agent: Any) -> None:
    session = agent.sessions.create("a", initial_state={"v": 0})
    agent.files.write("kept/a", "before")
    agent.files.write("kept/gone", "before")

    def work() -> None:
        agent.files.write("kept/a", "mine" * 5000)
        agent.files.write("new/b", "mine")
        agent.files.delete("kept/gone")
        agent.store.set("n", "before", 2)
        agent.store.set("n", "passing", 1)
        agent.snapshot("in the middle")
        agent.store.delete("n", "passing")
        agent.sessions.update_state(session.id, {"v": 1})
        agent.sessions.add_turn(session.id, "i", "o")
        agent.sessions.create("a", session_id="made-in-the-task")

    task = done_in(agent, work)
    agent.store.set("n", "later", 1)
    agent.files.write("kept/later", "later")
    there = len(agent.timeline())
    seen = agent.undo(task=task, dry_run=True)
    assert (seen.dry_run, seen.snapshot, len(agent.timeline())) == (True, None, there)
    assert store(agent) == {"before": 2, "later": 1}
    back = agent.undo(task=task)
    assert [(c.plane, c.name, c.change) for c in back.changes] == [
        (c.plane, c.name, c.change) for c in seen.changes
    ]
    assert back.verified
    assert (back.left, back.by_snapshots) == ([], False)
    assert store(agent) == {"before": 1, "later": 1}
    files = [(info.path, info.kind) for info in agent.files.list(recursive=True)]
    assert files == [("kept/a", "file"), ("kept/gone", "file"), ("kept/later", "file")]
    assert agent.files.read_text("kept/a") == "before"
    assert agent.sessions.get(session.id).state == {"v": 0}
    assert agent.sessions.list_turns(session.id) == []
    assert [each.id for each in agent.sessions.list()] == [session.id]
    # It is a snapshot like any other: told, and undone as one.
    newest, safety = agent.timeline(limit=2)
    assert (newest.kind, newest.id) == ("undo", back.snapshot.id)
    assert (safety.kind, safety.id) == ("safety", back.safety_id)
    told = agent.traces.list(action="snapshot.undone", limit=1)[0]
    assert told.resource_id == newest.id
    agent.undo()
    assert store(agent) == {"before": 2, "later": 1}
    assert agent.sessions.get(session.id).state == {"v": 1}
    assert len(agent.sessions.list_turns(session.id)) == 1
    agent.undo(task=task)
    assert store(agent) == {"before": 1, "later": 1}


def memories(agent: Any) -> dict[str, str]:
    return {memory.id: memory.content for memory in agent.memory.list(limit=100)}


def found(agent: Any, query: str) -> set[str]:
    return {each.id for each in agent.memory.search(query, threshold=0.0)}


@pytest.mark.parametrize("long", ["", " and so on" * 900])
def test_what_a_task_remembers_and_forgets_goes_back_alone(
    agent: Any, opens: Callable[[], Any], long: str
) -> None:
    session = agent.sessions.create("a")
    changed, gone, others = (
        agent.memory.add(text + long, tags=["t"]).id
        for text in ("tea at four", "coffee at nine", "milk at two")
    )
    in_session = agent.memory.add("said in the session" + long, session_id=session.id).id
    before = memories(agent)

    def work() -> None:
        agent.memory.update(changed, content="cocoa at noon" + long)
        agent.memory.add("juice at ten" + long)
        agent.snapshot("in the middle")
        agent.memory.update(changed, content="cocoa at one" + long, tags=["u"])
        agent.memory.delete(gone)
        agent.memory.delete(agent.memory.add("passing" + long).id)
        agent.sessions.delete(session.id)

    def work_and_fail() -> None:
        with agent.task("fails", rollback_on_failure=True):
            work()
            opens().memory.update(others, content="beer at ten" + long)
            fail()

    with pytest.raises(Failure):
        work_and_fail()
    assert memories(agent) == before | {others: "beer at ten" + long}
    assert agent.memory.get(changed).tags == ("t",)
    assert (found(agent, "tea"), found(agent, "coffee")) == ({changed}, {gone})
    assert (found(agent, "cocoa"), found(agent, "juice")) == (set(), set())
    assert agent.memory.get(in_session).session_id == session.id
    task = done_in(agent, work)
    later = agent.memory.add("later" + long).id
    there = memories(agent)
    assert in_session not in there
    back = agent.undo(task=task)
    assert (back.verified, back.left, back.by_snapshots) == (True, [], False)
    assert memories(agent) == before | {others: "beer at ten" + long, later: "later" + long}
    agent.undo()
    assert memories(agent) == there
    assert found(agent, "cocoa") == {changed}


def test_a_memory_that_another_changed_since_stays(agent: Any) -> None:
    ours, theirs = (agent.memory.add(text).id for text in ("tea", "coffee"))

    def work() -> None:
        agent.memory.update(ours, content="cocoa")
        agent.memory.update(theirs, content="cocoa")

    task = done_in(agent, work)
    agent.memory.update(theirs, content="water")
    with pytest.raises(OthersChanged) as caught:
        agent.undo(task=task)
    assert caught.value.names == [f"memories:{theirs}"]
    assert memories(agent) == {ours: "cocoa", theirs: "water"}
    assert agent.undo(task=task, keep_mine=True).left == [f"memories:{theirs}"]
    assert memories(agent) == {ours: "tea", theirs: "water"}
    assert (found(agent, "tea"), found(agent, "water")) == ({ours}, {theirs})


def test_a_memory_that_a_task_brought_back_is_deleted_again(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("agent")
        one = agent.memory.add("tea").id
        agent.memory.delete(one)
        back = done_in(agent, lambda: agent.memory.recover(one))
        assert found(agent, "tea") == {one}
        agent.undo(task=back)
        assert (memories(agent), found(agent, "tea")) == ({}, set())
        both = done_in(agent, lambda: (agent.memory.recover(one), agent.memory.delete(one)))
        with pytest.raises(NothingToUndo):
            agent.undo(task=both)


def test_memories_of_nested_tasks_and_of_a_restore_are_the_tasks_own(agent: Any) -> None:
    one = agent.memory.add("first" * 500).id
    then = agent.snapshot()
    agent.memory.update(one, content="second" * 500)
    with agent.task("around") as around:
        agent.memory.update(one, content="third" * 500)
        with agent.task("inside") as inside:
            agent.restore(then)
            agent.memory.update(one, tags=["inside"])
        agent.memory.update(one, metadata={"k": 1})
    with pytest.raises(OthersChanged):
        agent.undo(task=inside.id)
    agent.undo(task=around.id)
    assert memories(agent) == {one: "second" * 500}
    assert agent.memory.get(one).tags == ()


def test_a_second_time_there_is_nothing_to_take_back(agent: Any) -> None:
    task = done_in(agent, lambda: agent.store.set("n", "k", 1))
    agent.undo(task=task)
    there = agent.timeline(limit=1)[0].id
    with pytest.raises(NothingToUndo, match=task):
        agent.undo(task=task)
    assert agent.timeline(limit=1)[0].id == there
    idle = done_in(agent, lambda: agent.store.get("n", "k"))
    with pytest.raises(NothingToUndo):
        agent.undo(task=idle)
    with pytest.raises(TaskNotFound):
        agent.undo(task="task-nobody")
    with pytest.raises(InvalidValue):
        agent.undo(there, task=task)
    for choice in ({"keep_mine": True}, {"operation": there, "dry_run": True}):
        with pytest.raises(InvalidValue):
            agent.undo(**choice)


def test_the_last_change_is_shown_before_it_goes_back(agent: Any) -> None:
    def look() -> tuple[Any, ...]:
        moments = [each.id for each in agent.timeline()]
        return moments, agent.files.read_text("a"), store(agent), agent.is_dirty()

    agent.files.write("a", "1")
    first = agent.snapshot("first")
    agent.files.write("a", "2")
    agent.snapshot("second")
    agent.store.set("n", "pending", 1)
    for name in ("pending", "a"):  # What is in no snapshot, and then what one has changed.
        before = look()
        seen = agent.undo(dry_run=True)
        assert look() == before
        assert (seen.dry_run, seen.snapshot, seen.safety_id) == (True, None, None)
        done = agent.undo()
        assert [(c.name, c.change) for c in seen.changes] == [
            (c.name, c.change) for c in done.changes
        ]
        assert next(iter(seen.changes)).name.endswith(name)
        assert (seen.target, seen.root) == (done.target, done.root)
    assert done.target == first.id


def test_from_nothing_on_all_of_a_snapshot_was_added(agent: Any) -> None:
    agent.files.write("folder/a", "one\n")
    first = agent.snapshot("first")
    agent.files.delete("folder/a")
    found = agent.diff("nothing", first, counts=True)
    assert [(c.name, c.change) for c in found] == [("folder/a", "added"), ("n/before", "added")]
    assert "+one" in agent.text_diff("folder/a", "nothing", first)
    assert [each.change for each in agent.diff("nothing", limit=1)] == ["added"]
    assert not agent.diff("nothing", "nothing")
    with pytest.raises(SnapshotNotFound):
        agent.at("nothing").files.list()


def test_of_two_tasks_that_changed_a_key_only_the_second_goes_back(agent: Any) -> None:
    first = done_in(agent, lambda: agent.store.set("n", "k", 1))
    second = done_in(agent, lambda: (agent.store.set("n", "k", 2), agent.store.set("n", "own", 2)))
    with pytest.raises(OthersChanged) as caught:
        agent.undo(task=first)
    assert (caught.value.names, caught.value.count) == (["store:n/k"], 1)
    assert store(agent) == {"before": 1, "k": 2, "own": 2}
    agent.undo(task=second)
    assert store(agent) == {"before": 1, "k": 1}
    agent.undo(task=first)
    assert store(agent) == {"before": 1}


def test_what_is_mine_is_kept_and_told(agent: Any) -> None:
    def work() -> None:
        agent.files.write("a", "task")
        agent.files.write("b", "task")
        agent.store.set("n", "k", "task")

    task = done_in(agent, work)
    agent.files.write("a", "mine")
    with pytest.raises(OthersChanged):
        agent.undo(task=task, dry_run=True)
    back = agent.undo(task=task, keep_mine=True)
    assert back.left == ["files:a"]
    assert [info.path for info in agent.files.list()] == ["a"]
    assert (agent.files.read_text("a"), store(agent)) == ("mine", {"before": 1})
    agent.undo()
    assert (agent.files.read_text("b"), store(agent)["k"]) == ("task", "task")


def test_a_key_that_a_task_and_another_changed_in_turns_is_both_of_theirs(
    agent: Any, opens: Callable[[], Any]
) -> None:
    other = opens()
    with agent.task("counts") as run:
        agent.store.set("n", "counter", 1)
        other.store.set("n", "counter", 2)
        agent.store.set("n", "counter", 3)
        agent.store.set("n", "own", 1)
    with pytest.raises(OthersChanged, match="counter"):
        agent.undo(task=run.id)
    assert agent.undo(task=run.id, keep_mine=True).left == ["store:n/counter"]
    assert store(agent) == {"before": 1, "counter": 3}


def test_files_that_are_in_the_way_are_told(agent: Any) -> None:
    agent.files.write("a", "file")
    task = done_in(agent, lambda: agent.files.delete("a"))
    agent.files.write("a/below", "mine")
    with pytest.raises(OthersChanged) as caught:
        agent.undo(task=task)
    assert caught.value.names == ["files:a/below"]
    with pytest.raises(NothingToUndo):
        agent.undo(task=task, keep_mine=True)
    agent.files.delete("a", recursive=True)
    agent.undo(task=task)
    assert agent.files.read_text("a") == "file"


def test_directories_come_and_go_with_what_is_in_them(agent: Any) -> None:
    agent.files.mkdir("empty")
    agent.files.write("was/a", "1")

    def work() -> None:
        agent.files.write("empty/x", "task")
        agent.files.write("was/b", "task")
        agent.files.write("new/deep/y", "task")
        agent.files.mkdir("made")

    task = done_in(agent, work)
    agent.files.delete("was/a")
    agent.files.write("made/mine", "mine")
    agent.undo(task=task)
    found = [(info.path, info.kind) for info in agent.files.list(recursive=True)]
    assert found == [("empty", "directory"), ("made/mine", "file"), ("was", "directory")]


def test_nested_tasks_go_back_alone_or_with_the_one_around_them(agent: Any) -> None:
    with agent.task("around") as around:
        agent.store.set("n", "k", 1)
        with agent.task("inside") as inside:
            agent.store.set("n", "k", 2)
            agent.store.set("n", "inner", 1)
        agent.store.set("n", "outer", 1)
    agent.undo(task=inside.id)
    assert store(agent) == {"before": 1, "k": 1, "outer": 1}
    agent.undo(task=around.id)
    assert store(agent) == {"before": 1}
    agent.undo()
    agent.undo()
    agent.undo(task=around.id)
    assert store(agent) == {"before": 1}


@pytest.mark.parametrize("by_another", [False, True])
def test_a_task_that_is_taken_back_and_tries_again_is_alone(
    agent: Any, opens: Callable[[], Any], by_another: bool
) -> None:
    session = agent.sessions.create("a", initial_state={"v": 0})
    memory = agent.memory.add("tea").id
    agent.files.write("f", "before" * 900)

    def work(value: int) -> None:
        agent.store.set("n", "before", value)
        agent.store.set("n", "new", value)
        agent.files.write("f", f"{value}" * 9000)
        agent.files.write("g/new", f"{value}")
        agent.sessions.update_state(session.id, {"v": value})
        agent.memory.update(memory, content=f"cocoa {value}")

    def try_twice() -> None:
        with agent.task("twice", rollback_on_failure=True) as run:
            work(2)
            agent.snapshot("in the middle")
            with agent.task("inside"):
                work(3)
            (opens() if by_another else agent).undo(task=run.id)
            assert store(agent) == {"before": 1}
            work(4)
            fail()

    with pytest.raises(Failure):
        try_twice()
    assert store(agent) == {"before": 1}
    assert [info.path for info in agent.files.list(recursive=True)] == ["f"]
    assert agent.files.read_text("f") == "before" * 900
    assert agent.sessions.get(session.id).state == {"v": 0}
    assert memories(agent) == {memory: "tea"}


def test_what_a_running_task_found_since_it_was_taken_back_is_anothers(
    agent: Any, opens: Callable[[], Any]
) -> None:
    with agent.task("twice") as run:
        agent.store.set("n", "before", 2)
        agent.undo(task=run.id)
        opens().store.set("n", "before", 3)
        agent.store.set("n", "before", 4)
    with pytest.raises(OthersChanged):
        agent.undo(task=run.id)
    assert store(agent) == {"before": 4}


def test_a_restore_in_a_task_is_the_tasks_own(agent: Any) -> None:
    agent.store.set("n", "old", 1)
    then = agent.snapshot("then")
    agent.store.delete("n", "old")
    agent.store.set("n", "new", 1)
    task = done_in(agent, lambda: agent.restore(then))
    assert store(agent) == {"before": 1, "old": 1}
    agent.store.set("n", "later", 1)
    agent.undo(task=task)
    assert store(agent) == {"before": 1, "later": 1, "new": 1}


def test_what_a_task_takes_back_of_another_is_its_own(agent: Any) -> None:
    first = done_in(agent, lambda: agent.store.set("n", "before", 2))
    second = done_in(agent, lambda: agent.undo(task=first))
    assert store(agent) == {"before": 1}
    agent.undo(task=second)
    assert store(agent) == {"before": 2}


def test_a_file_that_another_wrote_again_as_it_was_is_still_the_tasks(
    tmp_path: Path, watch: Watch
) -> None:
    with holdfast.open(tmp_path / "vault", clock=watch) as vault:
        agent = vault.namespace("agent")
        agent.files.write("f", "before")
        task = done_in(agent, lambda: agent.files.write("f", "mine"))
        watch.wait(timedelta(hours=1))
        agent.files.write("f", "mine")
        assert agent.undo(task=task).left == []
        assert agent.files.read_text("f") == "before"


def test_a_fork_has_no_tasks_of_its_origin(agent: Any) -> None:
    task = done_in(agent, lambda: agent.store.set("n", "k", 1))
    fork = agent.fork(f"{agent.name}-fork")
    with pytest.raises(TaskNotFound):
        fork.undo(task=task)
    assert fork.store.get("n", "k") == 1
    agent.undo(task=task)
    assert fork.store.get("n", "k") == 1


def test_tasks_in_threads_fail_beside_each_other(agent: Any, opens: Callable[[], Any]) -> None:
    ready = Barrier(8)

    def work(number: int) -> None:
        mine = opens()
        try:
            with mine.task(f"{number}", rollback_on_failure=True):
                for step in range(4):
                    mine.store.set("n", f"{number} {step}", step)
                    mine.files.write(f"shared/{number}/{step}", f"{step}")
                ready.wait(60)
                (fail if number % 2 else int)()
        except Failure:
            return

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert store(agent) == {"before": 1} | {f"{n} {s}": s for n in range(0, 8, 2) for s in range(4)}
    assert len(agent.files.list(recursive=True)) == 16


def test_a_task_by_hand_that_was_alone_goes_back_later(
    agent: Any, opens: Callable[[], Any]
) -> None:
    run = agent.tasks.start("by hand")
    agent.store.set("n", "mine", 1)
    with pytest.raises(TaskRunning):
        agent.undo(task=run.id)
    agent.tasks.complete(run.id)
    agent.store.set("n", "later", 1)
    back = agent.undo(task=run.id)
    assert back.by_snapshots
    assert store(agent) == {"before": 1, "later": 1}
    run = agent.tasks.start("beside another")
    done_in(opens(), lambda: agent.store.set("n", "theirs", 1))
    with agent.task("another"):
        agent.store.set("n", "theirs", 2)
    agent.tasks.complete(run.id)
    with pytest.raises(OthersChanged):
        agent.undo(task=run.id)
    assert store(agent)["theirs"] == 2


def test_a_request_that_names_a_task_is_that_tasks(server: Server) -> None:
    headers = {"Authorization": f"Bearer {server.api_key}", "X-Namespace": "plain http"}
    with httpx2.Client(base_url=server.url, headers=headers) as http:

        def put(key: str, *tasks: str) -> None:
            body = {"namespace": "n", "key": key, "value": 1}
            named = {"X-Task": " ".join(tasks)} if tasks else {}
            http.put("/v1/store/value", json=body, headers=named).raise_for_status()

        started = http.post("/v1/tasks", json={"name": "t"}, headers={"X-Task": "new"})
        task = started.json()["task_id"]
        put("mine", task, "task-nobody")
        put("others")
        for last, named in ((task, task), ("task-nobody", task), ("task-\xe9 new", task)):
            said = http.post(
                "/v1/traces",
                json={"action": "tool.called"},
                headers={b"X-Task": f"{task} {last}".encode("latin-1")},
            )
            assert said.json()["task_id"] == named
        found = http.get("/v1/traces", params={"task_id": task}).json()["data"]
        assert [each["action"] for each in found][-2:] == ["task.started", "snapshot.taken"]
        assert {each["task_id"] for each in found} == {task}
        ended = http.post(f"/v1/tasks/{task}/fail", json={"rollback": True})
        assert ended.json()["restored_snapshot_id"] is not None
        keys = http.get("/v1/store/keys", params={"namespace": "n"}).json()["keys"]
        assert keys == ["others"]
        refused = http.post("/v1/undo", json={"task": task})
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "nothing_to_undo")
        again = http.post("/v1/undo", json={"operation": ended.json()["restored_snapshot_id"]})
        assert again.status_code == 200
        put("mine")
        kept = http.post("/v1/undo", json={"task": task, "dry_run": True})
        assert (kept.status_code, kept.json()["dry_run"]) == (200, True)
        assert kept.json()["counts"]["store"] == {"added": 0, "removed": 1, "changed": 0}


def test_a_task_whose_process_was_killed_goes_back(tmp_path: Path) -> None:
    program = """
import os, sys, holdfast
agent = holdfast.open(sys.argv[1]).namespace("agent")
with agent.task("dies") as run:
    agent.store.set("n", "k", 2)
    agent.files.write("f", "x" * 100_000)
    print(run.id, flush=True)
    os.kill(os.getpid(), 9)
"""
    with holdfast.open(tmp_path / "vault") as vault:
        vault.namespace("agent").store.set("n", "k", 1)
    died = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "vault"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert died.returncode == -9
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("agent")
        agent.store.set("n", "later", 1)
        agent.undo(task=died.stdout.strip())
        assert (store(agent), agent.files.list()) == ({"k": 1, "later": 1}, [])


def test_what_was_there_before_a_task_outlives_the_collector(tmp_path: Path, watch: Watch) -> None:
    with holdfast.open(tmp_path / "vault", clock=watch) as vault:
        agent = vault.namespace("agent")
        with agent.task("slow") as run:
            # In no snapshot: written after the task began, and replaced before the next one.
            vault.namespace("agent").files.write("f", b"theirs" * 50_000)
            agent.files.write("f", "mine")
        vault.collect()
        vault.collect(now=True)
        agent.undo(task=run.id)
        assert agent.files.read("f") == b"theirs" * 50_000


def test_what_a_task_changed_goes_with_the_snapshot_from_before_it(
    tmp_path: Path, watch: Watch
) -> None:
    with holdfast.open(tmp_path / "vault", clock=watch) as vault:
        agent = vault.namespace("agent")
        task = done_in(agent, lambda: agent.store.set("n", "k", 1))
        with agent.task("runs on") as running:
            agent.store.set("n", "l", 1)
            for number in range(4):
                agent.store.set("n", "m", number)
                agent.snapshot()
            agent.set_retention(keep_last=1)
            assert agent.forget()
            agent.store.set("n", "l", 2)
        with pytest.raises(SnapshotNotFound):
            agent.undo(task=task)
        # It was at work still: what it did was not forgotten.
        agent.undo(task=running.id)
        assert store(agent) == {"k": 1}
        watch.wait(timedelta(days=400))
        agent.store.set("n", "k", 2)
        agent.snapshot()
        agent.forget()
        with pytest.raises(SnapshotNotFound):
            agent.undo(task=running.id)


def test_a_task_that_outlives_the_snapshot_from_before_it_goes_back(
    tmp_path: Path, watch: Watch
) -> None:
    with holdfast.open(tmp_path / "vault", clock=watch) as vault:
        agent = vault.namespace("agent")
        agent.store.set("n", "k", 0)
        with agent.task("runs on") as run:
            agent.store.set("n", "k", 1)
            for number in range(3):
                agent.store.set("n", "m", number)
                agent.snapshot()
            agent.set_retention(keep_last=1)
            assert agent.forget()
            watch.wait(timedelta(days=20))
            vault.collect()
            assert agent.deleted_snapshots() == []
            agent.store.set("n", "k", 2)
        # Its own snapshot is gone for good; what it changed is known all the same.
        agent.undo(task=run.id)
        assert store(agent) == {"k": 0}


def test_a_task_in_a_directory_is_what_lies_between_its_snapshots(tmp_path: Path) -> None:
    place = tmp_path / "project"
    place.mkdir()
    (place / "kept").write_text("before")
    (place / "same").write_text("before")
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(place) as project:
        with project.task("edits") as run:
            (place / "kept").write_text("task")
            (place / "new").write_text("task")
            (place / "same").write_text("task")
            project.snapshot("in the middle")
            (place / "new2").write_text("task")
        (place / "later").write_text("mine")
        seen = project.undo(task=run.id, dry_run=True)
        assert seen.by_snapshots
        assert (place / "new").exists()
        (place / "same").write_text("mine")
        with pytest.raises(OthersChanged) as caught:
            project.undo(task=run.id)
        assert caught.value.names == ["files:same"]
        assert (place / "new").exists()
        back = project.undo(task=run.id, keep_mine=True)
        assert (back.by_snapshots, back.left, back.verified) == (True, ["files:same"], True)
        found = {path.name: path.read_text() for path in place.iterdir()}
        assert found == {"kept": "before", "same": "mine", "later": "mine"}
        project.undo()
        assert (place / "new2").read_text() == "task"


def test_the_command_line_takes_a_run_back(tmp_path: Path, warm: tuple[str, ...]) -> None:
    place, vault = tmp_path / "project", tmp_path / "vault"
    place.mkdir()
    (place / "a").write_text("before")

    def typed(*arguments: str) -> Any:
        return subprocess.run(
            [*warm, *arguments],
            cwd=place,
            env={**os.environ, "HOLDFAST_DATA": str(vault)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert typed("init").returncode == 0
    ran = json.loads(typed("--json", "run", "--", "sh", "-c", "echo b > b; echo task > a").stdout)
    task = ran["after"]["task_id"]
    (place / "c").write_text("mine")
    assert typed("snapshot").returncode == 0
    seen = typed("undo", "--task", task, "--dry-run")
    assert seen.stdout.startswith(f"Taking back {task} would change: ")
    (place / "a").write_text("mine")
    refused = typed("undo", "--task", task)
    assert (refused.returncode, (place / "b").exists()) == (4, True)
    assert "files:a" in refused.stderr
    assert "--keep-mine" in refused.stderr
    done = typed("undo", "--task", task, "--keep-mine")
    assert done.returncode == 0, done.stderr
    assert "between its two snapshots" in done.stdout
    assert "files:a stays" in done.stdout
    assert {path.name: path.read_text() for path in place.iterdir()} == {"a": "mine", "c": "mine"}
    assert typed("undo", "--task", task).returncode == 4
    assert typed("undo", "--task", "task-nobody").returncode == 3
