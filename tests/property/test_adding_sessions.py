"""Whatever a caller does who only adds, no session goes that would have stayed without it.

Two vaults are one until the adder comes. Then it restores, undoes, imports and rolls back in one of
them, for less than a full term, while both are collected: what the other still has of sessions at
the end, the first has, too. It may be set aside; but its term is no shorter, and every version and
turn is there.
"""

import shutil
import tempfile
from contextlib import suppress
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.engine.core.limits import Limits
from holdfast.errors import AddOnly, Conflict, NotFound
from holdfast.testing.clocks import Watch
from holdfast.testing.damaged import run_in
from holdfast.testing.postgres import find_base

IDS = ("x", "y")
RETENTION = timedelta(days=30)
DAY_S = 24 * 3600

Step = tuple[str, int]

SHARED = st.sampled_from(
    ["create", "term", "state", "say", "take back", "snapshot", "undo", "redo", "restore"]
)
OWNERS = st.one_of(SHARED, st.sampled_from(["delete", "wait", "collect"]))
ADDERS = st.one_of(SHARED, st.sampled_from(["forge", "import", "fork", "merge", "wait"]))


def steps(of: st.SearchStrategy[str], most: int) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(of, st.integers(0, 9)), max_size=most)


@cache
def forged(number: int) -> bytes:
    """Returns an archive from elsewhere, with some sessions that are soon over, or are already."""
    with tempfile.TemporaryDirectory(dir=find_base()) as folder:
        clock = Watch(Watch().now + timedelta(days=4 * number - 8))
        with holdfast.open(Path(folder) / "vault", clock=clock) as vault:
            agent = vault.namespace("elsewhere")
            agent.files.write("a", "forged")
            for name in (IDS, IDS[:1], IDS[1:], ())[number % 4]:
                agent.sessions.create("evil", session_id=name, ttl_seconds=1)
            agent.export(Path(folder) / "forged.tar")
        return (Path(folder) / "forged.tar").read_bytes()


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
        with suppress(NotFound, Conflict, AddOnly):
            self._talk(agent, what, number)
            self._go(agent, what, number)
            self._attack(what, number)

    def _talk(self, agent: holdfast.Namespace, what: str, number: int) -> None:
        name, sessions = IDS[number % 2], agent.sessions
        term = None if number > 7 else (number + 1) * 3 * DAY_S
        match what:
            case "create":
                sessions.create("a", session_id=name, ttl_seconds=term)
            case "term":
                sessions.update(name, ttl_seconds=term)
            case "state":
                sessions.update_state(name, {"n": number})
            case "say":
                sessions.add_turn(name, f"{number}", "yes")
            case "take back":
                version = number % (sessions.get(name).version + 1)
                sessions.rollback(name, version, conversation=True)
            case "delete":
                sessions.delete(name)
            case _:
                pass

    def _go(self, agent: holdfast.Namespace, what: str, number: int) -> None:
        match what:
            case "snapshot":
                agent.snapshot()
            case "undo":
                agent.undo()
            case "redo":
                agent.redo()
            case "restore":
                agent.restore(self._some(number))
            case "wait":
                self.clock.wait(timedelta(days=number, hours=number))
            case "collect":
                self.vault.collect(now=True)
            case _:
                pass

    def _attack(self, what: str, number: int) -> None:
        archive = self.folder.with_suffix(".tar")
        match what:
            case "forge":
                archive.write_bytes(forged(number))
                self.adder.import_(archive)
            case "import":
                self.adder.export(archive, snapshot=self._some(number))
                self.adder.import_(archive)
            case "fork":
                self.adder.fork(f"fork {number}", at=self._some(number))
            case "merge":
                self.adder.merge(f"fork {number}", prefer="theirs")
            case _:
                pass

    def _some(self, number: int) -> holdfast.SnapshotInfo:
        found = self.owner.timeline()
        return found[number % len(found)] if found else self.owner.get_snapshot("latest")

    def ends(self) -> dict[str, datetime | None]:
        """Returns when sessions end that are there or set aside, and whose time is not over."""
        handle, found = self.owner._handle, dict[str, datetime | None]()
        with handle.context.catalog.read() as transaction:
            for name in IDS:
                rows = transaction.find_session(handle.tenant_id, handle.name, name)
                if rows is None or rows[0].deleted_at is not None:
                    continue
                # Nobody ends what is set aside: its time may be over all the same.
                end = rows[0].expires_at
                if end is None or end > self.clock.now:
                    found[name] = end
        return found

    def ids(self, query: str) -> set[object]:
        return set(run_in(self.folder, query))


@given(before=steps(OWNERS, 14), during=steps(ADDERS, 14))
def test_no_session_goes_because_of_a_caller_who_only_adds(
    before: list[Step], during: list[Step]
) -> None:
    with tempfile.TemporaryDirectory(dir=find_base()) as folder:
        clock = Watch()
        place = Place(Path(folder) / "here", clock)
        for step in [("snapshot", 0), ("create", 8), ("say", 0), *before]:
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
        wanted, found = without.ends(), here.ends()
        for name, end in wanted.items():
            assert name in found, "it is there, or set aside"
            assert found[name] is None or (end is not None and found[name] >= end)
        for query in ("SELECT session_id, number, state FROM versions", "SELECT id FROM turns"):
            assert without.ids(query) <= here.ids(query)
        assert here.vault.verify().faults == []
        for each in (here, without):
            each.vault.close()
