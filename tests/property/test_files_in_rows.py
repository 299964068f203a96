"""Files that lie in their rows until a snapshot, against those that are cut at once, and a dict.

Two namespaces get the same, step by step: one as it comes, the other in a vault that keeps nothing
in its rows. What is read, listed, searched and compared is the same in both at every moment, tags
included, and so is the root of every snapshot: nobody can tell where a file lay before.
"""

import io
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.engine.objects.content import INLINE_BYTES, PENDING_BYTES
from holdfast.errors import HoldfastError

START: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
PATHS: Final = ["a", "b", "a-b", "d/a", "d/b", "d/e/a", "f"]
SIZES: Final = [
    *(0, 5, INLINE_BYTES - 1, INLINE_BYTES, INLINE_BYTES + 1, 900, 4095, 4097),
    *(PENDING_BYTES - 1, PENDING_BYTES, PENDING_BYTES + 1, 70_000),
]
STEPS: Final = 30
SHARED: Final = HealthCheck.function_scoped_fixture
PHASES: Final = [Phase.explicit, Phase.reuse, Phase.generate]
"""A seed is as short as it is."""

_numbers = count()


@dataclass
class Hands:
    """Namespaces that get the same, and what is there by a dict."""

    agents: Sequence[holdfast.Namespace]
    now: list[datetime]
    model: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def do(self, what: Callable[[holdfast.Namespace], object]) -> bool:
        """Does the same in each; says whether it was done."""
        self.now[0] += timedelta(seconds=1)
        ended = [_outcome(what, agent) for agent in self.agents]
        assert all(each == ended[0] for each in ended)
        return not isinstance(ended[0], str)


class World(Hands):
    """The same in two vaults."""

    def __init__(self, vaults: Sequence[holdfast.Holdfast], now: list[datetime]) -> None:
        name = f"agent-{next(_numbers)}"
        super().__init__([vault.namespace(name) for vault in vaults], now)
        self.vaults = vaults
        self.taken: list[tuple[str, str, dict[str, bytes]]] = []
        """Snapshots, as either calls them, and what was there."""

    def read(self) -> dict[str, bytes]:
        """Returns what the first has."""
        files = self.agents[0].files
        found = files.list("", recursive=True)
        return {each.path: files.read(each.path) for each in found if each.kind == "file"}

    def check(self) -> None:
        assert self.read() == self.model
        shown = [
            (
                agent.files.list("", recursive=True),
                [agent.files.stat(path) for path in self.model],
                agent.files.grep("7 7").matches,
                [agent.files.read(path, start=250, length=9000) for path in self.model],
                [*agent.diff()],
                agent.text_diffs(),
                agent.size(),
            )
            for agent in self.agents
        ]
        assert shown[0] == shown[1]

    def snapshot(self) -> None:
        one, other = (agent.snapshot() for agent in self.agents)
        assert one.root == other.root
        self.taken.append((one.id, other.id, dict(self.model)))
        self.check()

    def restore(self, chance: Random) -> None:
        if self.taken:
            *ids, then = chance.choice(self.taken)
            for agent, snapshot in zip(self.agents, ids, strict=True):
                agent.restore(snapshot)
            self.model = dict(then)

    def restore_some(self, chance: Random) -> None:
        if not self.taken:
            return
        *ids, then = chance.choice(self.taken)
        path, pairs = chance.choice(PATHS), zip(self.agents, ids, strict=True)
        ended = [_outcome(partial(_restore_path, s, path), agent) for agent, s in pairs]
        if isinstance(ended[0], str):
            assert ended[0] == ended[1]  # There is no such path, neither now nor then.
            return
        self.model = {name: self.model[name] for name in self.model if not _is_in(name, path)}
        # A file takes the place of a directory, and gives way to one.
        back = {name: data for name, data in then.items() if _is_in(name, path)}
        for above in (str(above) for name in back for above in Path(name).parents):
            self.model.pop(above, None)
        self.model |= back

    def fork_and_merge(self, data: bytes) -> None:
        name = f"fork-{next(_numbers)}"

        def change(agent: holdfast.Namespace) -> None:
            fork = agent.fork(name)
            fork.files.write("f", data)
            fork.files.chmod("f", 0o600)
            agent.merge(fork, prefer="theirs")

        if self.do(change):
            self.model["f"] = data


def _restore_path(snapshot: str, path: str, agent: holdfast.Namespace) -> object:
    return agent.restore(snapshot, paths=[path])


def _is_in(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}/")


def _outcome(what: Callable[[holdfast.Namespace], object], agent: holdfast.Namespace) -> object:
    try:
        return what(agent)
    except HoldfastError as exc:
        return type(exc).__name__


def _body(chance: Random) -> bytes:
    size = chance.choice(SIZES)
    return (b"%d 7 %d\n" % (chance.randrange(9), size) * (size // 4 + 1))[:size]


def _write(world: Hands, chance: Random) -> None:
    path, body = chance.choice(PATHS), _body(chance)
    mode, is_stream = chance.choice([None, 0o600]), chance.random() < 0.3
    if world.do(
        lambda agent: agent.files.write(path, io.BytesIO(body) if is_stream else body, mode=mode)
    ):
        world.model[path] = body


def _write_many(world: Hands, chance: Random) -> None:
    items = [(path, _body(chance)) for path in chance.sample(["a", "b", "d/a", "d/b"], 3)]
    if world.do(lambda agent: agent.files.write_many(items)):
        world.model |= dict(items)


def _write_as_expected(world: Hands, chance: Random) -> None:
    if not world.model:
        return
    path, body = chance.choice(sorted(world.model)), _body(chance)
    tags = {agent.files.stat(path).tag for agent in world.agents}
    assert len(tags) == 1
    (tag,) = tags
    assert world.do(lambda agent: agent.files.write(path, body, expected=tag))
    world.model[path] = body
    if world.agents[0].files.stat(path).tag != tag:
        assert not world.do(lambda agent: agent.files.write(path, b"", expected=tag))


def _chmod(world: Hands, chance: Random) -> None:
    path, mode = chance.choice(PATHS), chance.choice([0o600, 0o644])
    world.do(lambda agent: agent.files.chmod(path, mode))


def _move(world: Hands, chance: Random) -> None:
    old, new = chance.choice([*PATHS, "d"]), chance.choice(PATHS)
    if world.do(lambda agent: agent.files.move(old, new, overwrite=True)):
        went = [path for path in world.model if _is_in(path, old)]
        world.model.pop(new, None)
        moved = {new + path[len(old) :]: world.model.pop(path) for path in went}
        world.model |= moved


def _delete(world: Hands, chance: Random) -> None:
    path = chance.choice([*PATHS, "d"])
    if world.do(lambda agent: agent.files.delete(path, recursive=True)):
        for each in [each for each in world.model if _is_in(each, path)]:
            del world.model[each]


def _undo(task: str, agent: holdfast.Namespace) -> object:
    return agent.undo(task=task)


def _in_a_task(world: World, chance: Random) -> None:
    """Does some of it in a task, which is taken back or not."""
    before, seed, began = dict(world.model), chance.random(), world.now[0]
    for agent in world.agents:
        again, world.now[0] = Random(seed), began
        side = Hands([agent], world.now, dict(before))
        with agent.task("a task") as task:
            for _ in range(3):
                again.choice([_write, _write_many, _chmod, _move, _delete])(side, again)
            if again.random() < 0.3:
                agent.snapshot()
        if again.random() < 0.6:
            taken_back = _outcome(partial(_undo, task.id), agent)
            if not isinstance(taken_back, str):  # There was something to be taken back.
                side.model = before
        world.model = dict(side.model)


def play(world: World, chance: Random) -> None:
    _write(world, chance)
    edits = [_write] * 5 + [_write_many] * 2 + [_write_as_expected, _chmod, _move, _delete]
    for _ in range(STEPS):
        match chance.randrange(9):
            case 0:
                world.snapshot()
            case 1:
                chance.choice([world.restore, world.restore_some])(chance)
            case 2:
                _in_a_task(world, chance)
            case 3 if chance.random() < 0.5:
                world.fork_and_merge(_body(chance))
            case _:
                chance.choice(edits)(world, chance)
        world.check()
    world.snapshot()
    for one, other, then in world.taken:
        for agent, snapshot in zip(world.agents, (one, other), strict=True):
            files = agent.at(snapshot).files
            assert {path: files.read(path) for path in then} == then
    for vault in world.vaults:
        assert vault.verify().ok


@contextmanager
def opened(*places: dict[str, Any]) -> Generator[World]:
    now = [START]
    rows, cut = ({"clock": lambda: now[0], **place} for place in places)
    limits = holdfast.Limits(inline_bytes=0)
    with holdfast.open(**rows) as one, holdfast.open(**cut, limits=limits) as other:
        yield World([one, other], now)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=15, phases=PHASES, suppress_health_check=[SHARED])
def test_nobody_can_tell_where_a_file_lay(home: Path, seed: int) -> None:
    number = next(_numbers)
    places = [{"location": home / f"{kind}-{number}"} for kind in ("rows", "cut")]
    with opened(*places) as world:
        play(world, Random(seed))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=4, phases=PHASES, suppress_health_check=[SHARED])
def test_nobody_can_tell_where_a_file_lay_on_postgres(
    tmp_path: Path, postgres_url: str, seed: int
) -> None:
    rows = {"location": postgres_url, "objects": tmp_path / "packs"}
    with opened(rows, {"location": tmp_path / f"cut-{next(_numbers)}"}) as world:
        play(world, Random(seed))
