"""Retention reads a timeline again when something may have to go of it, on both catalogs."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast.engine.namespace import Namespace
from holdfast.testing.clocks import Watch
from holdfast.testing.counting import asked

Open = Callable[..., holdfast.Holdfast]

DAY = timedelta(days=1)


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2026, 3, 1, 12, tzinfo=UTC))


@pytest.fixture
def vault(opener: Open) -> holdfast.Holdfast:
    return opener()


def looks(vault: holdfast.Holdfast) -> tuple[int, int]:
    """Applies retention; returns how many timelines were read for it, and how many went of them."""
    with asked() as names:
        gone = vault.forget()
    return names.count("timeline"), len(gone)


def build(vault: holdfast.Holdfast, name: str) -> Namespace:
    agent = vault.namespace(name)
    for number in range(4):
        agent.files.write("file", f"{name} {number}")
        agent.snapshot(f"number {number}")
    return agent


def labelled(agent: Namespace, label: str) -> str:
    return next(each.id for each in agent.timeline() if each.label == label)


def test_a_timeline_is_read_again_when_something_was_done(
    vault: holdfast.Holdfast, clock: Watch
) -> None:
    agents = [build(vault, name) for name in ("alice", "bob", "carol")]
    assert looks(vault) == (3, 0)
    clock.wait(DAY)
    assert looks(vault) == (0, 0)
    done: list[Callable[[], object]] = [
        lambda: agents[0].snapshot("more"),
        lambda: agents[0].pin(labelled(agents[0], "number 1")),
        lambda: agents[0].unpin(labelled(agents[0], "number 1")),
        lambda: agents[0].delete_snapshot(labelled(agents[0], "number 2")),
        lambda: agents[0].recover_snapshot(agents[0].deleted_snapshots()[0].id),
        lambda: agents[0].set_retention(keep_last=50),
        agents[0].undo,
        agents[0].redo,
    ]
    for act in done:
        act()
        assert looks(vault) == (1, 0)
        assert looks(vault) == (0, 0)
    agents[0].set_retention(keep_last=2)
    read, gone = looks(vault)
    assert read >= 1
    assert gone >= 1
    assert looks(vault)[1] == 0
    assert looks(vault) == (0, 0)


def test_a_timeline_is_read_again_when_its_time_has_come(
    vault: holdfast.Holdfast, clock: Watch
) -> None:
    alice, bob = build(vault, "alice"), build(vault, "bob")
    assert looks(vault) == (2, 0)
    alice.delete_snapshot(labelled(alice, "number 1"))
    alice.files.write("file", "brief")
    alice.snapshot("brief", expires_in=2 * DAY)
    alice.files.write("file", "last")
    alice.snapshot()
    alice.files.write("file", "very last")
    alice.snapshot()
    assert looks(vault) == (1, 0)
    clock.wait(2 * DAY - timedelta(seconds=1))
    assert looks(vault) == (0, 0)
    clock.wait(timedelta(seconds=1))
    assert looks(vault) == (1, 1)
    assert looks(vault) == (1, 0)
    clock.wait(5 * DAY - timedelta(seconds=1))
    assert looks(vault) == (0, 0)
    clock.wait(timedelta(seconds=1))
    assert looks(vault) == (1, 1)
    clock.wait(30 * DAY)
    assert looks(vault)[1] >= 4
    assert [each.label for each in bob.timeline()] == ["number 3"]


def test_what_is_remembered_of_a_namespace_goes_with_it(
    vault: holdfast.Holdfast, clock: Watch
) -> None:
    build(vault, "alice")
    vault.forget()
    assert len(vault._context.settled) == 1
    vault.delete_namespace("alice")
    clock.wait(8 * DAY)
    vault.forget()
    assert vault._context.settled == {}
