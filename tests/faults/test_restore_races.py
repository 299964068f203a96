"""What happens to a restore while it is under way: others act between its steps, bytes go bad.

Whoever restores is told the truth: the state is there and can be read, or an error says why not
and nothing has changed; `verified` is said only of what could be read back.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from holdfast import Holdfast, Limits, Namespace, errors
from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.port import Catalog
from holdfast.engine.core.context import Context
from holdfast.model.changes import Restored
from holdfast.testing.clocks import Watch
from holdfast.testing.faults import FusedCatalog
from holdfast.testing.visitors import Interloper

pytestmark = pytest.mark.in_memory

Act = Callable[[], object]
# Everything is in packs, and nothing waits to be forgotten.
LIMITS = Limits(inline_bytes=0, free_floor_bytes=0, grace=timedelta(0))


@dataclass
class World:
    """A vault, and the same vault in which somebody else acts in between."""

    context: Context
    packs: Path
    watch: Watch
    agent: Namespace = field(init=False)
    vault: Holdfast = field(init=False)

    def __post_init__(self) -> None:
        self.vault = Holdfast(self.context)
        self.agent = self.vault.namespace("alice")

    def interrupted(self, interloper: Interloper) -> Namespace:
        catalog = FusedCatalog(self.context.catalog, interloper)
        # With caches of its own, as another process has them.
        context = Context.of(
            catalog, self.context.blobs, limits=self.context.limits, clock=self.watch
        )
        return Holdfast(context).namespace("alice")


@pytest.fixture
def world(catalog: Catalog, tmp_path: Path) -> World:
    watch, packs = Watch(datetime(2026, 1, 1, tzinfo=UTC)), tmp_path / "packs"
    context = Context.of(catalog, DiskBlobStore(packs), limits=LIMITS, clock=watch)
    return World(context, packs, watch)


# The snapshot that is meant goes.


def restored(agent: Namespace, target: str) -> Restored:
    return agent.restore(target)


def undone(agent: Namespace, _: str) -> Restored:
    return agent.undo()


@pytest.mark.parametrize("operation", [restored, undone])
def test_a_target_that_is_deleted_meanwhile_comes_back_whole_or_not_at_all(
    world: World, operation: Callable[[Namespace, str], Restored]
) -> None:
    agent = world.agent
    refused, earlier = 0, set[str]()
    for number in count():
        # Bytes that no other snapshot holds: what is deleted is gone.
        wanted, before = f"target {number} " * 1000, f"now {number} " * 1000
        agent.files.write("file", wanted)
        target = agent.snapshot("target")
        agent.files.write("file", before)
        agent.snapshot("now")

        def forget(target: str = target.id) -> None:
            agent.delete_snapshot(target)
            world.vault.collect()

        interloper = Interloper(number, forget)
        try:
            operation(world.interrupted(interloper), target.id)
        except (errors.NotFound, errors.NothingToUndo, errors.Conflict):
            refused += 1
            assert agent.files.read_text("file") == before
        else:
            # An undo that finds its target gone goes to what was there before that.
            may_be = {wanted} if operation is restored else {wanted, *earlier}
            assert agent.files.read_text("file") in may_be
        earlier |= {wanted, before}
        world.vault.collect()
        assert world.vault.verify().ok
        if not interloper.has_acted:
            break
    assert refused


# Bytes go bad.


def cut(pack: Path) -> None:
    pack.write_bytes(pack.read_bytes()[:40])


def overwrite(pack: Path) -> None:
    pack.write_bytes(bytes(pack.stat().st_size))


DAMAGE = {"removed": Path.unlink, "cut": cut, "overwritten": overwrite}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("operation", [restored, undone])
def test_what_cannot_be_read_back_is_not_called_verified(
    world: World,
    operation: Callable[[Namespace, str], Restored],
    damage: Callable[[Path], None],
) -> None:
    agent = world.agent
    agent.files.write("file", "old " * 1000)
    target = agent.snapshot("old")
    agent.files.write("file", "new " * 1000)
    agent.snapshot("new")
    packs = list(world.packs.rglob("*.pack"))
    assert packs

    def harm() -> None:
        for pack in packs:
            damage(pack)

    after_commit = AfterCommit(harm)
    done = operation(world.interrupted(after_commit), target.id)
    assert after_commit.has_acted
    assert (done.verified, done.target) == (False, target.id)


class AfterCommit(Interloper):
    """Acts once something was committed, before whoever did it looks again."""

    def __init__(self, act: Act) -> None:
        super().__init__(0, act)

    def step(self, name: str, /) -> None:
        if name == "commit unacknowledged" and not self.has_acted:
            super().step(name)


# What is there goes soon.


@pytest.mark.parametrize("days", [1, 6])
@pytest.mark.parametrize("operation", [restored, undone])
def test_a_state_that_is_about_to_expire_is_kept_before_it_is_replaced(
    world: World, operation: Callable[[Namespace, str], Restored], days: int
) -> None:
    week = replace(LIMITS, grace=timedelta(days=7))
    catalog, blobs = world.context.catalog, world.context.blobs
    vault = Holdfast(Context.of(catalog, blobs, limits=week, clock=world.watch))
    agent = vault.namespace("alice")
    agent.files.write("file", "old")
    target = agent.snapshot("old", pin=True)
    agent.files.write("file", "precious")
    passing = agent.snapshot("precious", expires_in=timedelta(days=days))
    done = operation(agent, target.id)
    assert done.safety_id not in (None, passing.id)
    # Two changes further on no undo needs it any more, and its own time is over.
    for text in ("other", "another"):
        agent.files.write("file", text)
        agent.snapshot(text)
    for _ in range(2):
        world.watch.now += timedelta(days=8)
        vault.collect()
    with pytest.raises(errors.NotFound):
        agent.get_snapshot(passing.id)
    agent.restore(done.safety_id)
    assert agent.files.read_text("file") == "precious"


def test_a_state_that_stays_long_enough_is_not_kept_twice(world: World) -> None:
    week = replace(LIMITS, grace=timedelta(days=7))
    catalog, blobs = world.context.catalog, world.context.blobs
    agent = Holdfast(Context.of(catalog, blobs, limits=week, clock=world.watch)).namespace("alice")
    target = agent.snapshot("old", pin=True)
    agent.files.write("file", "new")
    agent.snapshot("new", expires_in=timedelta(days=8))
    assert agent.restore(target).safety_id is None
