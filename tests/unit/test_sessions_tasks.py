"""Tasks: a snapshot when they end, well or not, and if asked everything as it was before."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.namespace import Namespace
from holdfast.engine.tasks.contexts import Task, Tasks
from holdfast.engine.vault import Holdfast
from holdfast.errors import InvalidName
from holdfast.model.basics import Kind
from holdfast.testing.faults import PowerCut

pytestmark = pytest.mark.in_memory


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Holdfast]:
    with holdfast.open(tmp_path / "vault") as opened:
        yield opened


@pytest.fixture
def agent(vault: Holdfast) -> Namespace:
    agent = vault.namespace("agent")
    agent.sessions.create("agent", session_id="s", initial_state={"v": 0})
    agent.files.write("a", "before")
    return agent


def seen(agent: Namespace) -> tuple[str, dict[str, object], int]:
    session = agent.sessions.get("s")
    return agent.files.read_text("a"), session.state, session.turn_count


def change(agent: Namespace, value: object = "after") -> None:
    agent.files.write("a", str(value))
    agent.sessions.add_turn("s", "i", "o", state_after={"v": value})


BEFORE = ("before", {"v": 0}, 0)
AFTER = ("after", {"v": "after"}, 1)


class Failure(Exception):
    """What goes wrong in a task."""


def fail(tasks: Tasks, act: Callable[[], object], error: BaseException | None = None) -> Task:
    """Does something in a task that fails then; returns the task."""
    began = list[Task]()
    raised = error or Failure("no")

    def run() -> None:
        with tasks as task:
            began.append(task)
            act()
            raise raised

    with pytest.raises(type(raised)) as caught:
        run()
    assert caught.value is raised, "the exception goes on"
    return began[0]


def labels(agent: Namespace) -> list[str | None]:
    return [snapshot.label for snapshot in reversed(agent.timeline())]


def test_a_task_leaves_a_snapshot_before_and_after(agent: Namespace) -> None:
    with agent.acting_as("ada").task("tidy") as task:
        assert isinstance(task, Task)
        assert task.after is None
        change(agent)
    assert seen(agent) == AFTER
    assert labels(agent) == ["before tidy", "tidy"]
    assert task.after is not None
    assert task.rolled_back is None
    assert {snapshot.task_id for snapshot in agent.timeline()} == {task.id}
    assert {snapshot.actor for snapshot in agent.timeline()} == {"ada"}
    assert task.before.id == agent.timeline()[1].id
    assert task.after.reason == "the task was completed"
    agent.undo()
    assert seen(agent) == BEFORE


def test_what_a_snapshot_holds_already_is_not_kept_again(agent: Namespace) -> None:
    known = agent.snapshot("known")
    with agent.task("first") as first:
        change(agent)
    with agent.task("second") as second:
        pass
    assert first.before.id == known.id
    assert first.after is not None
    assert second.before.id == first.after.id
    assert labels(agent) == ["known", "first", "second"]


def test_a_failed_task_is_kept_and_the_exception_goes_on(agent: Namespace) -> None:
    task = fail(agent.task("tidy"), lambda: change(agent))
    assert seen(agent) == AFTER
    assert task.after is not None
    assert task.after.reason == "the task failed: Failure('no')"
    assert task.rolled_back is None


def test_a_failed_task_is_rolled_back_if_asked(agent: Namespace) -> None:
    tasks = agent.acting_as("ada").task("tidy", rollback_on_failure=True)
    task = fail(tasks, lambda: change(agent))
    assert seen(agent) == BEFORE
    assert task.rolled_back is not None
    assert task.rolled_back.target == task.before.id
    assert [snapshot.kind for snapshot in reversed(agent.timeline())] == [
        Kind.SNAPSHOT,
        Kind.SNAPSHOT,
        Kind.RESTORE,
    ]
    assert agent.timeline()[0].reason == f"task {task.id} failed"
    agent.undo()
    assert seen(agent) == AFTER, "the failed attempt is on the timeline"
    assert [version.number for version in agent.sessions.history("s")] == [0, 1, 2, 3]


def test_a_task_that_goes_well_is_not_rolled_back(agent: Namespace) -> None:
    with agent.task("tidy", rollback_on_failure=True):
        change(agent)
    assert seen(agent) == AFTER


def test_every_call_of_a_decorated_function_is_a_task(agent: Namespace) -> None:
    @agent.task("set", rollback_on_failure=True)
    def write(value: object, *, fails: bool = False) -> str:
        """Writes a value."""
        change(agent, value)
        if fails:
            raise ValueError(value)
        return f"wrote {value}"

    assert (write.__name__, write.__doc__) == ("write", "Writes a value.")
    assert write(1) == "wrote 1"
    assert write(2) == "wrote 2"
    with pytest.raises(ValueError, match="3"):
        write(3, fails=True)
    assert seen(agent) == ("2", {"v": 2}, 2)
    ids = {snapshot.task_id for snapshot in agent.timeline() if snapshot.label == "set"}
    assert len(ids) == 3


def test_an_asynchronous_task_is_one_too(agent: Namespace) -> None:
    @agent.task("async", rollback_on_failure=True)
    async def write(value: object, *, fails: bool = False) -> object:
        await asyncio.sleep(0)
        change(agent, value)
        if fails:
            raise ValueError(value)
        return value

    async def play() -> None:
        async with agent.task("context") as task:
            change(agent)
        assert task.after is not None
        assert await write(1) == 1
        with pytest.raises(ValueError, match="2"):
            await write(2, fails=True)

    assert asyncio.iscoroutinefunction(write)
    asyncio.run(play())
    assert seen(agent) == ("1", {"v": 1}, 2)
    assert labels(agent)[:3] == ["before context", "context", "async"]


def test_many_coroutines_may_use_one_task_at_once(vault: Holdfast) -> None:
    agents = [vault.namespace(f"agent {number}") for number in range(4)]
    tasks = agents[0].task("shared")
    found = list[Task]()

    async def work(number: int) -> None:
        async with tasks as task:
            await asyncio.to_thread(agents[0].files.write, f"{number}", "x")
            found.append(task)

    async def play() -> None:
        await asyncio.gather(*(work(number) for number in range(4)))

    asyncio.run(play())
    assert len({task.id for task in found}) == 4
    assert all(task.after is not None and task.after.task_id == task.id for task in found)


def test_many_threads_may_use_one_task_at_once(agent: Namespace) -> None:
    tasks, barrier = agent.task("shared"), threading.Barrier(4)

    def work(number: int) -> Task:
        with tasks as task:
            barrier.wait()
            agent.files.write(f"{number}", "x")
        return task

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(work, range(4)))
    assert len({task.id for task in found}) == 4
    assert all(task.after is not None and task.after.task_id == task.id for task in found)
    assert {info.path for info in agent.files.list()} == {"a", "0", "1", "2", "3"}


def test_a_task_inside_a_task_is_rolled_back_alone(agent: Namespace) -> None:
    with agent.task("outer", rollback_on_failure=True):
        change(agent)
        inner = agent.task("inner", rollback_on_failure=True)
        fail(inner, lambda: change(agent, "inner"))
        assert seen(agent) == AFTER
    assert seen(agent) == AFTER


def test_a_failure_that_goes_through_takes_all_back(agent: Namespace) -> None:
    tasks = agent.task("same", rollback_on_failure=True)
    began = list[Task]()

    def nested() -> None:
        change(agent)
        with tasks as task:
            began.append(task)
            change(agent, "inner")
            raise Failure("inner")

    error = None
    try:
        with tasks as outer:
            began.append(outer)
            nested()
    except Failure as exc:
        error = exc
    assert str(error) == "inner"
    assert seen(agent) == BEFORE
    assert len({task.id for task in began}) == 2
    for task in began:
        assert task.rolled_back is not None
        assert task.rolled_back.target == task.before.id


ENDS = [KeyboardInterrupt(), SystemExit(3), SystemExit("no"), asyncio.CancelledError()]


@pytest.mark.parametrize("error", ENDS, ids=repr)
def test_who_is_asked_to_end_is_rolled_back_too(agent: Namespace, error: BaseException) -> None:
    tasks = agent.task("tidy", rollback_on_failure=True)
    task = fail(tasks, lambda: change(agent), error)
    assert seen(agent) == BEFORE
    assert task.after is not None
    assert agent.at(task.after).files.read_text("a") == "after", "the attempt is kept"
    assert type(error).__name__ in (task.after.reason or "")


def test_a_group_that_holds_an_interrupt_is_a_failure_like_any_other(agent: Namespace) -> None:
    error = BaseExceptionGroup("several", [KeyboardInterrupt(), Failure("no")])
    fail(agent.task("tidy", rollback_on_failure=True), lambda: change(agent), error)
    assert seen(agent) == BEFORE


def test_when_the_power_goes_nothing_is_done_any_more(agent: Namespace) -> None:
    for error in (PowerCut(), BaseExceptionGroup("several", [PowerCut(), Failure("no")])):
        task = fail(agent.task("tidy", rollback_on_failure=True), lambda: change(agent), error)
        assert seen(agent) == AFTER
        assert task.after is None
        agent.restore(task.before)


@pytest.mark.parametrize("code", [None, 0])
def test_who_exits_because_all_is_done_has_not_failed(agent: Namespace, code: int | None) -> None:
    task = fail(
        agent.task("tidy", rollback_on_failure=True), lambda: change(agent), SystemExit(code)
    )
    assert seen(agent) == AFTER
    assert task.after is not None
    assert task.after.reason == "the task was completed"


def test_a_generator_that_is_closed_in_the_middle_is_rolled_back(agent: Namespace) -> None:
    def work() -> Iterator[None]:
        with agent.task("tidy", rollback_on_failure=True):
            change(agent)
            yield
            change(agent, "never")

    for _ in work():
        break
    assert seen(agent) == BEFORE


def test_an_interrupt_stays_one_if_the_task_cannot_be_ended(vault: Holdfast) -> None:
    agent = vault.namespace("gone")
    agent.files.write("a", "before")
    error = KeyboardInterrupt()
    fail(agent.task("tidy", rollback_on_failure=True), vault.close, error)
    assert error.__notes__, "what went wrong is said along with it"


def test_a_decorated_function_that_is_interrupted_is_rolled_back(agent: Namespace) -> None:
    @agent.checkpointed(None, rollback_on_failure=True)
    def work() -> None:
        change(agent)
        raise KeyboardInterrupt

    @agent.task("awaited", rollback_on_failure=True)
    async def awaited() -> None:
        change(agent)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert seen(agent) == BEFORE
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(awaited())
    assert seen(agent) == BEFORE


def test_a_task_that_cannot_begin_does_not_run(agent: Namespace) -> None:
    has_run = False
    with pytest.raises(InvalidName), agent.task("\ud800"):
        has_run = True
    assert not has_run


@pytest.mark.parametrize("name", ["x" * 500, "ü" * 128, "two\nlines"])
def test_any_name_makes_a_task(agent: Namespace, name: str) -> None:
    with agent.task(name) as task:
        change(agent)
    assert task.after is not None
    assert seen(agent) == AFTER


def test_an_error_that_cannot_be_told_is_no_trouble(agent: Namespace) -> None:
    error = Failure("half \ud800 and \0 " + "x" * 10_000)
    fail(agent.task("tidy", rollback_on_failure=True), lambda: change(agent), error)
    assert seen(agent) == BEFORE


class Untellable(Exception):
    """An error that does not know its own name."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_that_fails_to_tell_is_no_trouble_either(agent: Namespace) -> None:
    fail(agent.task("tidy", rollback_on_failure=True), lambda: change(agent), Untellable())
    assert seen(agent) == BEFORE


class Odd(Exception):
    """An error that tells of half a character."""

    def __repr__(self) -> str:
        return "\ud800\0"


def test_an_error_that_tells_half_a_character_is_no_trouble_either(agent: Namespace) -> None:
    fail(agent.task("tidy", rollback_on_failure=True), lambda: change(agent), Odd())
    assert seen(agent) == BEFORE


def test_a_task_whose_start_was_deleted_begins_anew(agent: Namespace) -> None:
    agent.snapshot("one")
    agent.store.set("n", "k", 1)
    agent.delete_snapshot(agent.snapshot("two"))
    fail(agent.task("tidy", rollback_on_failure=True), lambda: change(agent))
    assert seen(agent) == BEFORE
    assert agent.store.get("n", "k") == 1


def test_a_task_on_a_directory_takes_all_planes_back(vault: Holdfast, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_text("before")
    work = vault.workspace(tree)
    work.namespace.sessions.create("agent", session_id="s", initial_state={"v": 0})

    def act() -> None:
        (tree / "a").write_text("after")
        (tree / "b").write_text("new")
        work.namespace.sessions.add_turn("s", "i", "o", state_after={"v": 1})

    task = fail(work.task("tidy", rollback_on_failure=True), act)
    assert {path.name: path.read_text() for path in tree.iterdir()} == {"a": "before"}
    session = work.namespace.sessions.get("s")
    assert (session.state, session.turn_count) == ({"v": 0}, 0)
    assert task.after is not None
    work.undo()
    assert {path.name: path.read_text() for path in tree.iterdir()} == {"a": "after", "b": "new"}
    assert work.namespace.sessions.get("s").state == {"v": 1}


def test_a_task_on_a_directory_is_rolled_back_whatever_rules_it_leaves(
    vault: Holdfast, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "plan.md").write_text("one")
    work = vault.workspace(tree)

    def act() -> None:
        (tree / "plan.md").unlink()
        (tree / ".holdfastignore").write_text("[a\n")

    task = fail(work.task("tidy", rollback_on_failure=True), act)
    assert [path.name for path in tree.iterdir()] == ["plan.md"]
    assert (tree / "plan.md").read_text() == "one"
    assert task.rolled_back is not None
    assert task.after is not None
    assert work.namespace.at(task.after).files.read(".holdfastignore") == b"[a\n"


def test_a_change_of_sessions_alone_is_in_the_tasks_way_back(
    vault: Holdfast, tmp_path: Path
) -> None:
    """Nothing in the directory differs from the last snapshot: what is pending counts, too."""
    (tmp_path / "tree").mkdir()
    work = vault.workspace(tmp_path / "tree")
    work.snapshot("known")
    work.namespace.sessions.create("agent", session_id="s", initial_state={"v": 0})
    sessions = work.namespace.sessions
    fail(work.task("tidy", rollback_on_failure=True), lambda: sessions.update_state("s", {"v": 1}))
    assert work.namespace.sessions.get_state("s").state == {"v": 0}


def test_a_task_that_is_cancelled_is_kept_and_rolled_back(agent: Namespace) -> None:
    began = list[Task]()

    async def work() -> None:
        async with agent.task("tidy", rollback_on_failure=True) as task:
            began.append(task)
            change(agent)
            await asyncio.sleep(60)

    async def run() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work(), 1)

    asyncio.run(run())
    assert seen(agent) == BEFORE
    assert began[0].after is not None
    assert began[0].rolled_back is not None


def test_a_task_may_end_in_another_context_than_it_began_in(agent: Namespace) -> None:
    def work() -> Iterator[None]:
        with agent.task("tidy", rollback_on_failure=True):
            change(agent)
            yield
            raise Failure

    running = work()
    contextvars.copy_context().run(next, running)
    with pytest.raises(Failure):
        contextvars.copy_context().run(next, running)
    assert seen(agent) == BEFORE


def test_a_generator_is_no_task(agent: Namespace) -> None:
    def work() -> Iterator[None]:
        yield

    with pytest.raises(TypeError, match="generator"):
        agent.task("tidy")(work)


def test_a_task_that_went_back_to_an_earlier_session_is_taken_back(agent: Namespace) -> None:
    first = agent.snapshot()
    change(agent)
    with agent.task("goes back") as run:
        agent.restore(first)
        assert seen(agent) == BEFORE
    agent.undo(task=run.id)
    assert seen(agent) == AFTER
