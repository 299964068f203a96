"""A client that dies at any request of a move leaves nothing half done for the next one.

The server is real, and so are directory and cache. What dies is the client: before or after any of
its requests, or between the steps of the directory. Whoever comes next finds the directory as it
was, or what the server shows; and everything that was ever in it is on the timeline.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast import errors
from holdfast.engine.directory.writer import Follower
from holdfast.mirror import RemoteWorkspace, open_workspace
from holdfast.sdk.agent import Agent
from holdfast.sdk.calls import Call, Sync
from holdfast.sdk.lines import Line, ReachNamespace, line_to
from holdfast.sdk.sending import SyncSender
from holdfast.testing.faults import PowerCut
from holdfast.testing.servers import Begin, Server, running_server

pytestmark = pytest.mark.in_memory

T = TypeVar("T")


class Fuse:
    """Counts steps, and blows at one of them."""

    def __init__(self) -> None:
        self.left: int | None = None

    def step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise PowerCut


class DyingSender(SyncSender):
    """Dies before a request, or when it was done and nobody has heard of it."""

    def __init__(self, line: Line, fuse: Fuse) -> None:
        super().__init__(line)
        self._fuse = fuse

    def send(self, call: Call[T]) -> T:
        self._fuse.step()
        answer = super().send(call)
        self._fuse.step()
        return answer


class Machine:
    """One directory, and whoever uses it next."""

    def __init__(self, server: Server, folder: Path) -> None:
        folder.mkdir()
        self.fuse, self.tree, self._cache = Fuse(), folder / "tree", folder / "cache"
        self.tree.mkdir()
        name = str(folder)[-60:].replace("/", "-")  # Paths are no names of namespaces.
        line = line_to(
            ReachNamespace(server.api_key, namespace=name, url=server.url, timeout_s=30, retries=2)
        )
        self._sender = DyingSender(line, self.fuse)
        self.agent = Agent[Sync](self._sender)

    def open(self) -> RemoteWorkspace:
        return open_workspace(self.agent, self.tree, cache=self._cache)

    def close(self) -> None:
        self._sender.close()

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.tree.iterdir()}

    def shown(self) -> dict[str, str]:
        """Returns what the server shows."""
        return {
            info.path: self.agent.files.read(info.path).decode() for info in self.agent.files.list()
        }

    def ever(self) -> list[dict[str, str]]:
        """Returns what any snapshot on the timeline holds."""
        return [
            {
                info.path: self.agent.at(each).files.read(info.path).decode()
                for info in self.agent.at(each).files.list()
            }
            for each in self.agent.timeline()
        ]


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    with running_server(home, begin=at_once) as running:
        yield running


def prepared(server: Server, folder: Path) -> Machine:
    """Returns a directory with a snapshot, a later one, and something that no snapshot holds."""
    machine = Machine(server, folder)
    with machine.open() as workspace:
        (machine.tree / "a").write_text("old")
        workspace.snapshot("old")
        (machine.tree / "a").write_text("new")
        (machine.tree / "b").write_text("more")
        workspace.snapshot("new")
    (machine.tree / "c").write_text("drift")
    return machine


OLD = {"a": "old"}
DRIFTED = {"a": "new", "b": "more", "c": "drift"}


def restored(workspace: RemoteWorkspace) -> None:
    workspace.restore(next(s for s in workspace.namespace.timeline() if s.label == "old"))


def pulled(workspace: RemoteWorkspace) -> None:
    workspace.pull()


def undone(workspace: RemoteWorkspace) -> None:
    workspace.undo()


ACTS: dict[str, Callable[[RemoteWorkspace], None]] = {
    "restore": restored,
    "undo": undone,
    "pull": pulled,
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_death_at_any_request_is_finished_by_the_next_one(
    server: Server, tmp_path: Path, act: Callable[[RemoteWorkspace], None]
) -> None:
    for steps in range(200):
        machine = prepared(server, tmp_path / f"died-{steps}")
        workspace = machine.open()
        machine.fuse.left = steps
        try:
            act(workspace)
        except PowerCut:
            is_over = False
        else:
            is_over = True
        machine.fuse.left = None
        workspace.close()
        (machine.tree / "later").write_text("work")
        with machine.open() as again:
            again.snapshot("afterwards")
        ever = machine.ever()
        assert machine.files() == machine.shown(), steps
        assert DRIFTED in ever or {**DRIFTED, "later": "work"} in ever, steps
        assert any(each.get("later") == "work" for each in ever), steps
        machine.close()
        if is_over:
            return
    raise AssertionError("it never ends")


def test_where_the_server_never_moved_the_directory_stays_as_it_is(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = prepared(server, tmp_path / "died")
    workspace = machine.open()

    def dies(*_: Any, **__: Any) -> Any:
        raise PowerCut

    with monkeypatch.context() as patched:
        patched.setattr(Agent, "restore", dies)
        with pytest.raises(PowerCut):
            restored(workspace)
    workspace.close()
    (machine.tree / "later").write_text("work")
    with machine.open() as again:
        again.snapshot("afterwards")
    assert machine.files() == machine.shown() == {**DRIFTED, "later": "work"}
    machine.close()


@pytest.mark.parametrize("said", [errors.RequestRunning, errors.ReplyNotKept])
def test_a_move_whose_answer_is_not_there_to_be_repeated_is_followed_all_the_same(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: Callable[[], errors.HoldfastError],
) -> None:
    machine = prepared(server, tmp_path / "lost")
    real: Any = Agent.restore

    def lost(agent: Agent[Sync], *args: Any, **kwargs: Any) -> Any:
        real.__get__(agent, Agent)(*args, **kwargs)
        error = said()
        error.http_status = 409
        raise error

    workspace = machine.open()
    with monkeypatch.context() as patched:
        patched.setattr(Agent, "restore", lost)
        with pytest.raises(errors.Conflict):
            restored(workspace)
    workspace.snapshot("afterwards")
    assert machine.files() == machine.shown() == OLD
    assert DRIFTED in machine.ever()
    workspace.close()
    machine.close()


@pytest.mark.parametrize("where", ["follow", "arrive"])
def test_a_death_while_the_directory_follows_is_finished_by_the_next_one(
    server: Server, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = prepared(server, tmp_path / "died")
    real: Any = getattr(Follower, where)

    def dies(*args: Any, **kwargs: Any) -> Any:
        done = real(*args, **kwargs)
        del done
        raise PowerCut

    workspace = machine.open()
    with monkeypatch.context() as patched:
        patched.setattr(Follower, where, dies)
        with pytest.raises(PowerCut):
            restored(workspace)
    workspace.close()
    with machine.open() as again:
        again.snapshot("afterwards")
    assert machine.files() == machine.shown() == OLD
    assert DRIFTED in machine.ever()
    machine.close()


def test_whoever_only_wants_it_put_right_has_the_directory_follow(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = prepared(server, tmp_path / "died")
    real: Any = Follower.follow

    def dies(*args: Any, **kwargs: Any) -> Any:
        real(*args, **kwargs)
        raise PowerCut

    workspace = machine.open()
    assert not workspace.is_half_way
    with monkeypatch.context() as patched:
        patched.setattr(Follower, "follow", dies)
        with pytest.raises(PowerCut):
            restored(workspace)
    assert workspace.is_half_way
    assert "interrupted restore" in (workspace.recover() or "")
    assert not workspace.is_half_way
    assert machine.files() == machine.shown() == OLD
    assert DRIFTED in machine.ever()
    workspace.close()
    machine.close()
