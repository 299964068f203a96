"""Sessions, versions and turns go when nothing needs them, and never before.

Played on both catalogs: with a clock of the test's own, with a power cut at every step, and with
somebody else who comes in at every step of a collection.
"""

import sqlite3
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import pytest

from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast
from holdfast.errors import SessionNotFound
from holdfast.testing.faults import Fuse, FusedCatalog, fuses, leaves_traces
from holdfast.testing.postgres import PostgresServer

pytestmark = pytest.mark.in_memory

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
LONG = "long enough to be an object of its own " * 100


@dataclass
class World:
    """A vault that can be opened again and again, at a time of the test's choosing."""

    open_catalog: Callable[[], Catalog]
    limits: Limits = field(default_factory=lambda: Limits(free_floor_bytes=0))
    now: datetime = NOW
    blobs: MemoryBlobStore = field(default_factory=MemoryBlobStore)

    @contextmanager
    def opened(self, fuse: Fuse | None = None) -> Generator[Holdfast]:
        catalog = self.open_catalog()
        shown: Catalog = catalog if fuse is None else FusedCatalog(catalog, fuse)
        try:
            yield Holdfast(
                Context.of(shown, self.blobs, clock=lambda: self.now, limits=self.limits)
            )
        finally:
            catalog.close()


@pytest.fixture
def sqlite_world(tmp_path: Path) -> World:
    return World(lambda: SqliteCatalog(tmp_path))


@pytest.fixture
def postgres_world(postgres_url: str) -> World:
    return World(lambda: PostgresCatalog(postgres_url))


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def world(request: pytest.FixtureRequest) -> World:
    return request.getfixturevalue(f"{request.param}_world")


def rows(vault: Holdfast) -> dict[str, int]:
    """How much of each there is."""
    with vault._context.catalog.read() as transaction:
        tenant = vault._tenant.id
        branches = transaction.iter_branches(tenant)
        return {
            "versions": len([*transaction.iter_version_states(tenant)]),
            "branches": len(branches),
            "turns": sum(branch.turns - branch.parent_turns for branch in branches),
        }


def said(namespace: Namespace, session_id: str) -> list[str]:
    turns = namespace.sessions.list_turns(session_id, limit=100, order="asc")
    return [turn.input["content"] for turn in turns]


def talk(namespace: Namespace, session_id: str, *words: str) -> None:
    for word in words:
        namespace.sessions.add_turn(session_id, word, "yes")


def age(namespace: Namespace, times: int = 3) -> None:
    """Moves the head on, so that what it stood on may be forgotten."""
    for number in range(times):
        namespace.files.write("step", str(number))
        namespace.snapshot()


# What goes, and when


def test_a_session_that_a_restore_has_set_aside_goes_with_the_snapshots_that_hold_it(
    world: World,
) -> None:
    with world.opened() as vault:
        agent = vault.namespace("alice")
        before = agent.snapshot("before", pin=True)
        agent.sessions.create("a", session_id="aside", initial_state={"text": LONG})
        talk(agent, "aside", "one", "two")
        agent.restore(before)
        world.now += 10 * DAY
        vault.collect()
        assert rows(vault)["versions"] > 0, "an undo brings it back"
        agent.undo()
        assert said(agent, "aside") == ["one", "two"]
        agent.restore(before)
        age(agent)
        world.now += 400 * DAY
        vault.collect()
        world.now += 10 * DAY
        vault.collect()
        assert rows(vault) == {"versions": 0, "branches": 0, "turns": 0}
        with pytest.raises(SessionNotFound):
            agent.sessions.get("aside")
        agent.sessions.create("a", session_id="aside")
        assert agent.sessions.get("aside").turn_count == 0


def test_a_deleted_session_goes_after_the_grace_period_and_not_before(world: World) -> None:
    with world.opened() as vault:
        agent = vault.namespace("alice")
        agent.sessions.create("a", session_id="kept", initial_state={"text": LONG})
        agent.sessions.create("a", session_id="gone", initial_state={"other": LONG[::-1]})
        talk(agent, "kept", "hello")
        talk(agent, "gone", "one", "two")
        agent.sessions.delete("gone")
        world.now += 6 * DAY
        vault.collect()
        assert rows(vault) == {"versions": 2, "branches": 2, "turns": 3}
        world.now += 2 * DAY
        assert vault.collect().objects_deleted > 0
        assert rows(vault) == {"versions": 1, "branches": 1, "turns": 1}
        assert said(agent, "kept") == ["hello"]
        assert agent.sessions.get_state("kept").state == {"text": LONG}
        assert vault.verify().faults == []
        (purged,) = vault.traces.list(action="session.purged")
        assert purged.details == {"sessions": ["gone"]}
        assert vault.verify_audit().is_sound


def test_a_deleted_session_stays_while_a_snapshot_holds_it(world: World) -> None:
    with world.opened() as vault:
        agent = vault.namespace("alice")
        agent.sessions.create("a", session_id="s", initial_state={"n": 1})
        talk(agent, "s", "one")
        agent.sessions.update_state("s", {"n": 2})
        held = agent.snapshot(pin=True)
        agent.sessions.delete("s")
        agent.snapshot()
        world.now += 400 * DAY
        age(agent)
        vault.collect()
        agent.restore(held, planes=["sessions"])
        assert [v.state for v in agent.sessions.history("s")] == [{"n": 1}, {"n": 2}, {"n": 2}]
        assert said(agent, "s") == ["one"]
        agent.sessions.delete("s")
        agent.unpin(held)
        age(agent)
        world.now += 400 * DAY
        age(agent)
        world.now += 400 * DAY
        age(agent)
        vault.collect()
        assert rows(vault) == {"versions": 0, "branches": 0, "turns": 0}
        assert vault.verify().faults == []


def test_a_session_past_its_time_goes_as_a_deleted_one_and_leaves_its_memories(
    world: World,
) -> None:
    with world.opened() as vault:
        agent = vault.namespace("alice")
        agent.sessions.create("a", session_id="s", initial_state={"n": 1}, ttl_seconds=3600)
        talk(agent, "s", "one")
        agent.memory.add("The user likes blue", session_id="s")
        assert agent.size().entries == 2
        kept = rows(vault)
        world.now += DAY
        vault.collect()
        assert agent.size().entries == 1, "the memory"
        assert rows(vault) == kept, "for the grace period"
        world.now += 7 * DAY
        vault.collect()
        assert rows(vault) == {"versions": 0, "branches": 0, "turns": 0}
        assert [memory.content for memory in agent.memory.list()] == ["The user likes blue"]
        (expired,) = agent.traces.list(action="session.expired")
        assert expired.session_id == "s"
        assert vault.verify().faults == []


def test_a_session_that_a_restore_set_aside_stays_while_a_snapshot_holds_it(world: World) -> None:
    with world.opened() as vault:
        agent = vault.namespace("alice")
        agent.files.write("a", "b")
        before = agent.snapshot(pin=True)
        agent.sessions.create("a", session_id="s", initial_state={"n": 1})
        talk(agent, "s", "one")
        after = agent.snapshot(pin=True)
        agent.restore(before)
        world.now += 400 * DAY
        age(agent)
        world.now += 400 * DAY
        age(agent)
        vault.collect()
        with pytest.raises(SessionNotFound):
            agent.sessions.get("s")
        agent.restore(after)
        assert said(agent, "s") == ["one"]
        assert agent.sessions.update_state("s", {"n": 2}).state == {"n": 2}
        assert vault.verify().faults == []


def test_turns_that_nobody_shows_any_more_go_and_those_of_a_version_stay(world: World) -> None:
    with world.opened() as vault:
        agent = vault.namespace("alice")
        agent.sessions.create("a", session_id="s")
        talk(agent, "s", "first")
        agent.sessions.update_state("s", {"n": 1})
        talk(agent, "s", "left behind")
        agent.sessions.rollback("s", 0, conversation=True)
        talk(agent, "s", "another story", "and on")
        agent.sessions.rollback("s", 0, conversation=True)
        talk(agent, "s", "the last one")
        assert rows(vault)["branches"] == 3
        vault.collect()
        # No version, session or snapshot leads to `another story`; the first is version 1's.
        assert rows(vault) == {"versions": 4, "branches": 2, "turns": 3}
        agent.sessions.rollback("s", 1, conversation=True)
        assert said(agent, "s") == ["first"]
        assert vault.verify().faults == []


def test_a_purged_namespace_leaves_the_turns_that_a_fork_shows(world: World) -> None:
    with world.opened() as vault:
        agent = vault.namespace("alice")
        agent.sessions.create("a", session_id="s", initial_state={"text": LONG})
        talk(agent, "s", "one", "two")
        fork = agent.fork("bob")
        talk(agent, "s", "three of alice")
        vault.delete_namespace("alice")
        world.now += 8 * DAY
        vault.collect()
        assert vault.verify().faults == []
        # Nobody has asked for it yet: the fork has no rows of its own.
        assert said(fork, "s") == ["one", "two", "three of alice"][:2]
        talk(fork, "s", "three of bob")
        assert said(fork, "s") == ["one", "two", "three of bob"]
        vault.delete_namespace("bob")
        world.now += 8 * DAY
        vault.collect()
        assert rows(vault) == {"versions": 0, "branches": 0, "turns": 0}
        assert vault.verify().faults == []


def test_what_another_tenant_has_is_left_alone(world: World) -> None:
    with world.opened() as vault:
        other = vault.tenant("other").namespace("alice")
        other.sessions.create("a", session_id="s")
        talk(other, "s", "one")
        other.sessions.delete("s")
        world.now += 8 * DAY
        vault.collect()
        with vault._context.catalog.read() as transaction:
            tenant_id = other._handle.tenant_id
            assert len(transaction.iter_branches(tenant_id)) == 1
        vault.tenant("other").collect()
        with vault._context.catalog.read() as transaction:
            assert transaction.iter_branches(tenant_id) == []


# What verification finds


DAMAGE = {
    "a branch is gone": ("DELETE FROM branches", "are not there"),
    "a turn is gone": ("DELETE FROM turns WHERE number = 2", "turn 2 is missing"),
    "the last turn is gone": ("DELETE FROM turns WHERE number = 3", "turn 3 is missing"),
    "a turn cannot be read": ("UPDATE turns SET data = CAST('{' AS BLOB)", "cannot be read"),
    "a turn is another": ("UPDATE turns SET data = CAST(data || ' ' AS BLOB)", "bytes, not"),
    "fewer turns than shown": ("UPDATE branches SET turns = 2", "are not there"),
    "a version is gone": ("DELETE FROM versions WHERE number = 0", "history is not whole"),
    "a row was changed": ("UPDATE sessions SET turns = 1", "is not what was written"),
    "a row is gone": ("UPDATE sessions SET is_present = 0", "differ"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_verification_names_what_is_wrong_with_sessions(
    sqlite_world: World, tmp_path: Path, name: str
) -> None:
    with sqlite_world.opened() as vault:
        agent = vault.namespace("alice")
        agent.sessions.create("a", session_id="s")
        talk(agent, "s", "one", "two", "three")
        agent.sessions.update_state("s", {"n": 1})
        assert vault.verify().faults == []
    statement, reason = DAMAGE[name]
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as connection:
        connection.execute(statement)
        connection.commit()
    with sqlite_world.opened() as vault:
        found = vault.verify().faults
        assert any(reason in fault.reason for fault in found), found


# Dying, and somebody else


def build(vault: Holdfast) -> None:
    """Leaves some of everything that a collection takes, and something beside each that stays."""
    agent = vault.namespace("alice")
    for name in ("deleted", "kept", "held"):
        agent.sessions.create("a", session_id=name, initial_state={"text": f"{name} {LONG}"})
        talk(agent, name, "one", "two")
    agent.sessions.create("a", session_id="expired", ttl_seconds=60)
    talk(agent, "expired", "one")
    fork = agent.fork("bob")
    fork.sessions.delete("held")
    talk(fork, "deleted", "of the fork")
    agent.sessions.rollback("kept", 0, conversation=True)
    talk(agent, "kept", "spare")
    agent.sessions.rollback("kept", 0, conversation=True)
    talk(agent, "kept", "anew")
    agent.sessions.delete("deleted")
    doomed = vault.namespace("carol")
    doomed.sessions.create("a", session_id="s", initial_state={"text": LONG + "carol"})
    talk(doomed, "s", "one", "two")
    vault.delete_namespace("carol")


def shown(vault: Holdfast) -> dict[str, object]:
    """What users see."""
    found: dict[str, object] = {}
    for name in vault.namespaces():
        namespace = vault.namespace(name)
        for session in namespace.sessions.list(limit=100):
            history = [version.state for version in namespace.sessions.history(session.id)]
            found[f"{name}/{session.id}"] = (session.state, history, said(namespace, session.id))
    return found


LATER = 8 * DAY


def die_everywhere(world: World, afresh: Callable[[], World], counts: Callable[[str], bool]) -> int:
    with world.opened() as vault:
        build(vault)
        seen = shown(vault)
    world.now += LATER
    with world.opened() as vault:
        expected = shown(vault)
        vault.collect()
        assert shown(vault) == expected
        left = rows(vault)
    assert expected.items() <= seen.items()
    deaths = 0
    for fuse in fuses(counts=counts):
        world = afresh()
        with world.opened() as vault:
            build(vault)
        world.now += LATER
        with fuse, world.opened(fuse) as vault:
            vault.collect()
        with world.opened() as vault:
            assert vault.verify().faults == [], fuse
            assert {*shown(vault)} == {*expected}, fuse
            vault.collect()
            assert rows(vault) == left, fuse
            assert vault.verify().faults == [], fuse
            assert vault.verify_audit().is_sound, fuse
        deaths += fuse.blown
    return deaths


def in_purging(name: str) -> bool:
    """Counts what a purge changes, and the commits around it."""
    steps = ("purge_session", "delete_branches", "set_session", "ended_sessions", "spare_branches")
    return name.removeprefix("transaction.") in steps or leaves_traces(name)


def test_a_death_at_any_step_of_a_collection_loses_nothing(tmp_path: Path) -> None:
    worlds = iter(range(1000))

    def afresh() -> World:
        folder = tmp_path / str(next(worlds))
        folder.mkdir()
        return World(lambda: SqliteCatalog(folder))

    assert die_everywhere(afresh(), afresh, in_purging) > 20


def test_a_death_at_any_step_of_a_collection_on_postgres_loses_nothing(
    postgres: PostgresServer, postgres_template: str
) -> None:
    made: list[str] = []

    def afresh() -> World:
        for name in made:
            postgres.drop_database(name)
        made[:] = [postgres.create_database(template=postgres_template)]
        url = postgres.dsn(made[0])
        return World(lambda: PostgresCatalog(url))

    assert die_everywhere(afresh(), afresh, leaves_traces) > 5
    postgres.drop_database(made[0])


class Visit(Fuse):
    """Lets somebody else in at one step, and goes on."""

    def __init__(self, steps: int, visit: Callable[[], None]) -> None:
        super().__init__(steps, counts=lambda name: name in ("read", "write"))
        self._visit = visit
        self.has_come = False

    def step(self, name: str, /) -> None:
        if not self._counts(name):
            return
        self.steps -= 1
        if self.steps == -1:
            self.has_come = True
            self._visit()


def visits() -> Iterator[int]:
    return iter(range(1000))


VISITORS: dict[str, Callable[[Holdfast], object]] = {
    "a restore brings it back": lambda vault: vault.namespace("alice").restore("@-1"),
    "a fork goes on": lambda vault: talk(vault.namespace("bob"), "deleted", "while it is purged"),
    "a new fork": lambda vault: vault.namespace("alice").fork("dora"),
    "a session is forked with its turns": lambda vault: vault.namespace("alice").sessions.fork(
        "kept", include_turns=True
    ),
}


@pytest.mark.parametrize("name", VISITORS)
def test_whoever_comes_in_during_a_collection_finds_what_he_needs(
    tmp_path: Path, name: str
) -> None:
    for number in visits():
        folder = tmp_path / f"{number}"
        folder.mkdir()
        world = World(lambda folder=folder: SqliteCatalog(folder))
        with world.opened() as vault:
            build(vault)
            vault.namespace("alice").snapshot()
        world.now += LATER

        def come_in(world: World = world) -> None:
            with world.opened() as vault:
                VISITORS[name](vault)

        visit = Visit(number, come_in)
        with world.opened(visit) as vault:
            vault.collect()
        with world.opened() as vault:
            assert vault.verify().faults == [], number
            shown(vault)
            vault.collect()
            assert vault.verify().faults == [], number
        if not visit.has_come:
            assert number > 5
            return


def test_a_snapshot_that_was_overtaken_never_names_turns_that_are_gone(tmp_path: Path) -> None:
    """It has folded a row that is replaced, and whose turns are collected, before it commits."""
    for number in visits():
        folder = tmp_path / f"{number}"
        folder.mkdir()
        limits = Limits(free_floor_bytes=0, grace=timedelta(0))
        world = World(lambda folder=folder: SqliteCatalog(folder), limits)
        with world.opened() as vault:
            agent = vault.namespace("alice")
            agent.sessions.create("a", session_id="s")
            talk(agent, "s", "soon gone")

        def come_in(world: World = world) -> None:
            with world.opened() as vault:
                vault.namespace("alice").sessions.rollback("s", 0, conversation=True)
                vault.collect()

        visit = Visit(number, come_in)
        with world.opened(visit) as vault:
            vault.namespace("alice").snapshot()
        with world.opened() as vault:
            assert vault.verify().faults == [], number
            moment = vault.namespace("alice").at("latest")
            assert len(moment.sessions.list_turns("s")) in (0, 1)
            with pytest.raises(SessionNotFound):
                moment.sessions.get("never")
        if not visit.has_come:
            assert number > 2
            return


class Hold(Fuse):
    """Stops before the first write until it is let go."""

    def __init__(self) -> None:
        super().__init__(0)
        self.has_come, self.may_go = Event(), Event()

    def step(self, name: str, /) -> None:
        if name == "write":
            self.has_come.set()
            assert self.may_go.wait(30)


def test_a_snapshot_that_commits_during_a_collection_keeps_its_turns(tmp_path: Path) -> None:
    """It has folded a row that is replaced before the collection looks at what is held."""
    for number in visits():
        folder = tmp_path / f"{number}"
        folder.mkdir()
        limits = Limits(free_floor_bytes=0, grace=timedelta(0))
        world = World(lambda folder=folder: SqliteCatalog(folder), limits)
        with world.opened() as vault:
            agent = vault.namespace("alice")
            agent.sessions.create("a", session_id="s")
            talk(agent, "s", "soon gone")
        hold = Hold()

        def take(world: World = world, hold: Hold = hold) -> None:
            with world.opened(hold) as vault:
                vault.namespace("alice").snapshot()

        with ThreadPoolExecutor(1) as pool:
            taken = pool.submit(take)
            assert hold.has_come.wait(30)

            def let_go(hold: Hold = hold, taken: Future[None] = taken) -> None:
                hold.may_go.set()
                taken.result(30)

            visit = Visit(number, let_go)
            with world.opened() as vault:
                vault.namespace("alice").sessions.rollback("s", 0, conversation=True)
            with world.opened(visit) as vault:
                vault.collect()
            let_go()
        with world.opened() as vault:
            assert vault.verify().faults == [], number
        if not visit.has_come:
            assert number > 5
            return
