"""Tasks and other writers in one namespace: a failed task takes back its own, and nothing else."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.errors import Conflict, OthersChanged
from holdfast.testing.servers import Server

pytestmark = pytest.mark.in_memory


@pytest.fixture
def agent(opens: Callable[[], Any]) -> Any:
    agent = opens()
    agent.store.set("n", "before", 1)
    return agent


class Failure(Exception):
    """What goes wrong in a task."""


def fail(agent: Any, act: Callable[[], object]) -> Any:
    """Does something in a task that fails then."""
    with agent.task("risky", rollback_on_failure=True):
        agent.store.set("n", "mine", 1)
        act()
        raise Failure


def give_up(number: int) -> None:
    """Fails if this is the first of several."""
    if number == 0:
        raise Failure


def keys(agent: Any) -> list[str]:
    return sorted(agent.store.keys("n"))


def test_the_work_of_one_agent_is_taken_back(agent: Any) -> None:
    session = agent.sessions.create("a")

    def act() -> None:
        agent.files.write("a", "1")
        agent.files.move("a", "b")
        agent.sessions.update_state(session.id, {"v": 1})
        agent.sessions.add_turn(session.id, "i", "o")
        agent.snapshot("in the middle")
        agent.store.set("n", "more", 1)
        agent.undo()
        agent.files.write("c", "1")
        agent.restore(agent.timeline(limit=1)[0])
        with agent.task("nested"):
            agent.store.set("n", "nested", 1)
        with pytest.raises(Failure):
            fail(agent, lambda: agent.store.set("n", "never", 1))
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda n: agent.store.set("n", f"thread {n}", n), range(8)))
        agent.sessions.create("b")

    with pytest.raises(Failure):
        fail(agent, act)
    assert keys(agent) == ["before"]
    assert agent.files.list() == []
    assert [each.id for each in agent.sessions.list()] == [session.id]


def test_what_another_did_meanwhile_stays(agent: Any, opens: Callable[[], Any]) -> None:
    other = opens()
    other.snapshot("known")
    session = other.sessions.create("theirs")

    def in_a_task_of_theirs() -> None:
        with other.task("theirs"):
            other.store.set("n", "in a task", 1)

    for act in (
        lambda: other.store.set("n", "theirs", 1),
        lambda: other.files.write("theirs", "1"),
        lambda: other.sessions.update_state(session.id, {"v": 1}),
        lambda: other.sessions.add_turn(session.id, "i", "o"),
        lambda: (other.store.set("n", "theirs 2", 1), agent.store.set("n", "mine", 2)),
        lambda: other.snapshot("theirs"),
        in_a_task_of_theirs,
        lambda: (other.store.set("n", "gone", 1), other.store.delete("n", "gone")),
    ):
        with pytest.raises(Failure):
            fail(agent, act)
        attempt, way_back = agent.timeline(limit=2)[::-1]
        assert (attempt.label, way_back.task_id) == ("risky", attempt.task_id)
    assert keys(agent) == ["before", "in a task", "theirs", "theirs 2"]
    assert agent.files.read_text("theirs") == "1"
    assert agent.sessions.get(session.id).state == {"v": 1}
    assert len(agent.sessions.list_turns(session.id)) == 1


def test_where_another_changed_the_same_nothing_is_taken_back_and_it_is_told(
    agent: Any, opens: Callable[[], Any]
) -> None:
    other = opens()
    session = other.sessions.create("shared")
    other.files.write("a/file", "before")
    agent.snapshot("before")

    def act() -> None:
        agent.files.write("a/file", "mine")
        agent.sessions.update_state(session.id, {"v": 1})
        other.store.set("n", "mine", "theirs")
        other.files.write("a/file", "theirs")
        other.sessions.update_state(session.id, {"v": 2})

    with pytest.raises(OthersChanged) as caught:
        fail(agent, act)
    error = caught.value
    assert isinstance(error, Conflict)
    assert isinstance(error.__context__, Failure)
    assert error.names == ["files:a/file", f"sessions:{session.id}", "store:n/mine"]
    assert error.count == 3
    assert error.before in str(error)
    assert "a/file" in str(error)
    assert agent.store.get("n", "mine") == "theirs"
    assert agent.files.read_text("a/file") == "theirs"
    assert agent.sessions.get(session.id).state == {"v": 2}
    attempt = agent.timeline(limit=1)[0]
    assert (attempt.label, attempt.task_id) == ("risky", error.task_id)
    agent.restore(error.before)
    assert agent.files.read_text("a/file") == "before"


def test_of_two_tasks_within_one_each_has_its_own(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        mine, bobs = (vault.acting_as(name).namespace("agent") for name in ("alice", "bob"))
        with mine.task("around"):
            beside = contextvars.copy_context()

            def write_beside() -> None:
                with mine.task("beside"):
                    mine.store.set("n", "beside", 1)

            with pytest.raises(Failure):
                fail(mine, lambda: beside.run(write_beside))
            with pytest.raises(Failure):
                fail(mine, lambda: bobs.store.set("n", "bob's", 1))
        assert keys(mine) == ["beside", "bob's"]


def test_who_only_looks_or_takes_a_snapshot_disturbs_nobody(
    agent: Any, opens: Callable[[], Any]
) -> None:
    other = opens()
    with pytest.raises(Failure):
        fail(agent, lambda: (other.snapshot("theirs"), keys(other), other.timeline()))
    assert keys(agent) == ["before"]


def test_an_interrupt_stays_one_beside_others(agent: Any, opens: Callable[[], Any]) -> None:
    other, error = opens(), KeyboardInterrupt()

    def act() -> None:
        other.store.set("n", "mine", "theirs")
        raise error

    with pytest.raises(KeyboardInterrupt):
        fail(agent, act)
    assert "OthersChanged" in error.__notes__[0]
    assert agent.store.get("n", "mine") == "theirs"


def test_of_tasks_in_threads_none_takes_back_what_another_did(agent: Any) -> None:
    meet = threading.Barrier(4)

    def work(number: int) -> str:
        try:
            with agent.task(f"user-{number}", rollback_on_failure=True):
                agent.store.set("n", f"{number}", 1)
                meet.wait(60)
                give_up(number)
        except Failure as exc:
            return type(exc).__name__
        agent.store.set("n", f"{number}-done", 1)
        return "done"

    with ThreadPoolExecutor(4) as threads:
        ended = list(threads.map(work, range(4)))
    assert ended == ["Failure", "done", "done", "done"]
    assert keys(agent) == ["1", "1-done", "2", "2-done", "3", "3-done", "before"]


def gathered(agent: Any, write: Callable[[str], Any]) -> list[str]:
    async def run() -> list[str]:
        meet = asyncio.Barrier(4)

        async def work(number: int) -> str:
            try:
                async with agent.task(f"user-{number}", rollback_on_failure=True):
                    await meet.wait()
                    await write(f"{number}")
                    await meet.wait()
                    give_up(number)
                    await write(f"{number}-done")
            except Failure as exc:
                return type(exc).__name__
            return "done"

        try:
            return await asyncio.gather(*map(work, range(4)))
        finally:
            if isinstance(agent, holdfast.AsyncClient):
                await agent.close()

    return asyncio.run(run())


def test_of_tasks_in_coroutines_none_takes_back_what_another_did(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("agent")

        async def write(key: str) -> None:
            await asyncio.to_thread(agent.store.set, "n", key, 1)

        assert gathered(agent, write) == ["Failure", "done", "done", "done"]
        assert keys(agent) == ["1", "1-done", "2", "2-done", "3", "3-done"]


def test_of_awaited_tasks_none_takes_back_what_another_did(server: Server) -> None:
    agent = holdfast.AsyncClient(server.api_key, url=server.url, namespace="awaited")
    found = gathered(agent, lambda key: agent.store.set("n", key, 1))
    assert found == ["Failure", "done", "done", "done"]
    with holdfast.Client(server.api_key, url=server.url, namespace="awaited") as client:
        assert keys(client) == ["1", "1-done", "2", "2-done", "3", "3-done"]


def test_a_task_by_hand_is_taken_back_unless_another_task_wrote(
    agent: Any, opens: Callable[[], Any]
) -> None:
    run = agent.tasks.start("by hand", rollback_on_failure=True)
    opens().store.set("n", "mine", 1)
    assert agent.tasks.fail(run.id).restored is not None
    assert keys(agent) == ["before"]
    run = agent.tasks.start("by hand", rollback_on_failure=True)
    with agent.task("another"):
        agent.store.set("n", "theirs", 1)
    for _ in range(2):
        with pytest.raises(OthersChanged):
            agent.tasks.fail(run.id)
    assert keys(agent) == ["before", "theirs"]
    assert agent.tasks.get(run.id).status == "failed"
