"""Whatever a caller does who only adds, no snapshot goes that would have stayed without it.

Two vaults are one until the adder comes. Then it floods, undoes, restores and deletes in one of
them, for less than a full term, while both are collected: what the other still has at the end,
the first has, too, byte for byte.
"""

import shutil
import tempfile
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.engine.core.limits import Limits
from holdfast.errors import AddOnly, Conflict, NotFound
from holdfast.testing.clocks import Watch
from holdfast.testing.postgres import find_base

NAMES = ("a", "b")
RETENTION = timedelta(days=30)

Step = tuple[str, int]

SHARED = st.sampled_from(["write", "delete", "snapshot", "brief", "undo", "redo", "restore"])
OWNERS = st.one_of(SHARED, st.sampled_from(["pin", "wait", "collect", "policy"]))
ADDERS = st.one_of(SHARED, st.sampled_from(["import", "fork", "merge", "wait", "try to remove"]))


def steps(of: st.SearchStrategy[str], most: int) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(of, st.integers(0, 9)), max_size=most)


class Place:
    """A vault, and somebody who does something with it."""

    def __init__(self, folder: Path, clock: Watch) -> None:
        limits = Limits(free_floor_bytes=0, retention=RETENTION)
        self.clock, self.folder = clock, folder
        self.vault = holdfast.open(folder, clock=clock, limits=limits)
        self.owner = self.vault.namespace("alice")
        self.adder = self.vault.adding_only().namespace("alice")

    def do(self, agent: holdfast.Namespace, step: Step) -> None:
        what, number = step
        with suppress(NotFound, Conflict):
            self._change(agent, what, number)
            self._go(agent, what, number)
            self._keep_house(what, number)
            self._attack(what, number)

    def _change(self, agent: holdfast.Namespace, what: str, number: int) -> None:
        match what:
            case "write":
                agent.files.write(NAMES[number % 2], f"{number}")
            case "delete":
                agent.files.delete(NAMES[number % 2])
            case "snapshot" | "pin":
                agent.snapshot(pin=what == "pin")
            case "brief":
                agent.snapshot(expires_in=timedelta(hours=number + 1))
            case _:
                pass

    def _go(self, agent: holdfast.Namespace, what: str, number: int) -> None:
        match what:
            case "undo":
                agent.undo()
            case "redo":
                agent.redo()
            case "restore":
                agent.restore(self._some(number))
            case _:
                pass

    def _keep_house(self, what: str, number: int) -> None:
        match what:
            case "wait":
                self.clock.now += timedelta(days=number, hours=number)
            case "collect":
                self.vault.collect(now=True)
            case "policy":
                self.owner.set_retention(keep_last=number % 4, keep_daily=number % 3)
            case _:
                pass

    def _attack(self, what: str, number: int) -> None:
        match what:
            case "import":
                archive = self.folder.with_suffix(".tar")
                self.adder.export(archive)
                self.adder.import_(archive)
            case "fork":
                self.adder.fork(f"fork {number}")
            case "merge":
                self.adder.merge(f"fork {number}", prefer="theirs")
            case "try to remove":
                for remove in (self.adder.delete_snapshot, self.adder.unpin):
                    with pytest.raises(AddOnly):
                        remove(self._some(number))
            case _:
                pass

    def _some(self, number: int) -> holdfast.SnapshotInfo:
        found = self.owner.timeline()
        return found[number % len(found)] if found else self.owner.get_snapshot("latest")

    def held(self) -> dict[str, dict[str, str]]:
        return {
            snapshot.id: {
                name: then.files.read_text(name) for name in NAMES if then.files.exists(name)
            }
            for snapshot in self.owner.timeline()
            for then in (self.owner.at(snapshot),)
        }


@given(before=steps(OWNERS, 14), during=steps(ADDERS, 14))
def test_nothing_goes_because_of_a_caller_who_only_adds(
    before: list[Step], during: list[Step]
) -> None:
    with tempfile.TemporaryDirectory(dir=find_base()) as folder:
        clock = Watch()
        place = Place(Path(folder) / "here", clock)
        for step in [("write", 0), ("snapshot", 0), *before]:
            place.do(place.owner, step)
        place.vault.close()
        shutil.copytree(place.folder, Path(folder) / "without")
        here, without = (Place(Path(folder) / name, clock) for name in ("here", "without"))
        began = clock.now
        for step in during:
            here.do(here.adder, step)
            clock.now = min(clock.now, began + RETENTION - timedelta(seconds=1))
            for each in (here, without):
                each.vault.collect(now=True)
        wanted, found = without.held(), here.held()
        for snapshot_id, contents in wanted.items():
            assert found[snapshot_id] == contents
            # By the adder: an owner who moves on lets go of what is past its time.
            assert here.adder.restore(snapshot_id).verified
        for each in (here, without):
            each.vault.close()
