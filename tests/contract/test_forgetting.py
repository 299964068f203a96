"""Traces whose time is over go, on both catalogs, and what is left of their chain proves it all."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.audit.export import verify_audit_file
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.journal import forgetting
from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast
from holdfast.errors import InvalidValue, NoLongerKept
from holdfast.testing.clocks import Watch
from holdfast.testing.counting import asked
from holdfast.testing.damaged import run_in
from holdfast.testing.faults import FusedCatalog, fuses

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
KEEP = timedelta(days=10)
LATER = timedelta(days=12)
OF_ALICE = "stream = (SELECT id FROM namespaces WHERE name = 'alice')"


class Place:
    """A vault with a clock, and a way to look at its tables and to change them."""

    def __init__(self, where: str, folder: Path, catalog: Catalog, keep: timedelta | None) -> None:
        self.where, self.folder, self.clock = where, folder, Watch(NOON)
        limits = Limits(free_floor_bytes=0, keep_traces=keep)
        blobs = DiskBlobStore(folder / "packs")
        self.context = Context.of(catalog, blobs, clock=self.clock, limits=limits)
        self.vault = Holdfast(self.context)

    def run(self, statement: str) -> None:
        run_in(self.where or self.folder, statement)

    def let_pass(self, time: timedelta = LATER) -> None:
        self.clock.now += time
        self.vault.forget()

    def streams(self) -> set[int]:
        """Returns the chains of which there are rows."""
        with self.context.catalog.read() as transaction:
            (tenant,) = transaction.iter_tenants()
            return {stream for stream, _ in transaction.list_streams(tenant.id)}

    def is_sound(self) -> bool:
        audit, verified = self.vault.verify_audit(), self.vault.verify()
        assert [*map(str, audit.problems)] == [*map(str, verified.faults)] == []
        return True


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Catalog]]:
    where = "" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    made = PostgresCatalog(where) if where else SqliteCatalog(tmp_path)
    with closing(made) as opened:
        yield where, opened


@pytest.fixture
def place(catalog: tuple[str, Catalog], tmp_path: Path) -> Place:
    where, opened = catalog
    return Place(where, tmp_path, opened, KEEP)


@pytest.fixture
def agent(place: Place, monkeypatch: pytest.MonkeyPatch) -> Namespace:
    """A namespace with traces in several pieces: of a session, of snapshots and added ones."""
    monkeypatch.setattr(forgetting, "PIECE", 4)
    alice = place.vault.namespace("alice")
    session = alice.sessions.create("agent", initial_state={"step": 0})
    for step in range(3):
        alice.sessions.update_state(session.id, {"step": step + 1}, reasoning=f"step {step}")
    alice.sessions.add_turn(session.id, {"a": 1}, {"b": 2})
    alice.files.write("a.txt", b"a")
    alice.pin(alice.snapshot("kept"))
    for number in range(9):
        alice.traces.add("looked.around", details={"number": number})
    return alice


def actions(agent: Namespace) -> list[str]:
    return [trace.action for trace in reversed(agent.traces.list(limit=None))]


def test_what_is_needed_stays_and_the_rest_goes(place: Place, agent: Namespace) -> None:
    (session,) = agent.sessions.list()
    before, history = agent.traces.list(limit=None), agent.sessions.history(session.id)
    place.let_pass(timedelta(days=10, hours=1))
    assert agent.traces.list(limit=None) == before  # A day late at the most, and all at once.
    place.let_pass(timedelta(days=1))
    left = actions(agent)
    assert "looked.around" not in left
    assert left.count("state.updated") == 3
    assert {"session.created", "turn.added", "snapshot.taken", "traces.forgotten"} <= {*left}
    assert agent.sessions.history(session.id) == history
    assert place.is_sound()
    assert place.vault.verify_audit().forgotten == len(before) - left.index("traces.forgotten")
    place.let_pass()
    assert actions(agent)[-1] == "traces.forgotten"
    assert place.is_sound()


def test_what_is_needed_no_longer_goes_with_the_next(place: Place, agent: Namespace) -> None:
    place.let_pass()
    (session,) = agent.sessions.list()
    agent.sessions.delete(session.id)
    (snapshot,) = (each for each in agent.timeline() if each.label == "kept")
    agent.unpin(snapshot)
    for number in range(5):
        place.let_pass(timedelta(days=31))
        place.vault.collect()
        agent.files.write("a.txt", f"{number}")
        agent.snapshot("one more")
    left = actions(agent)
    assert "state.updated" not in left
    assert "turn.added" not in left
    assert place.is_sound()


def test_whoever_asks_for_what_is_gone_is_told_where_it_begins(
    place: Place, agent: Namespace
) -> None:
    added = [each for each in agent.traces.list() if each.action == "looked.around"]
    place.let_pass()
    for ask in (
        lambda: agent.traces.get(added[-1].id),
        lambda: agent.traces.list(starting_after=added[0].id),
    ):
        with pytest.raises(NoLongerKept, match="which begin at number") as refused:
            ask()
        assert refused.value.begins == added[0].number + 1


def test_a_power_cut_at_any_step_leaves_a_chain_that_is_whole(
    place: Place, agent: Namespace
) -> None:
    place.clock.now += LATER
    chain = chain_of(place, agent)
    for fuse in fuses():
        catalog = FusedCatalog(place.context.catalog, fuse)
        with fuse:
            forgetting.forget_traces(replace(place.context, catalog=catalog), chain, keep=KEEP)
        assert place.vault.verify_audit().ok
    assert "looked.around" not in actions(agent)
    assert place.is_sound()


def test_whoever_lets_go_of_the_same_does_so_once_and_writers_go_on(
    place: Place, agent: Namespace
) -> None:
    place.clock.now += LATER
    chain = chain_of(place, agent)

    def forget() -> int:
        return forgetting.forget_traces(place.context, chain, keep=KEEP)

    with ThreadPoolExecutor(4) as pool:
        counts = [pool.submit(forget) for _ in range(3)]
        added = [pool.submit(agent.traces.add, "meanwhile") for _ in range(10)]
        audits = [pool.submit(place.vault.verify_audit) for _ in range(2)]
        assert all(audit.result().ok for audit in audits)
        assert len({each.result().number for each in added}) == len(added)
        total = sum(each.result() for each in counts)
    total += forget()
    assert total == place.vault.verify_audit().forgotten > 0
    assert "looked.around" not in actions(agent)
    assert place.is_sound()


def chain_of(place: Place, agent: Namespace) -> forgetting.Chain:
    with place.context.catalog.read() as transaction:
        head = agent._handle.get_head(transaction)
    return forgetting.Chain(head.tenant_id, head.namespace_id, head.name)


@pytest.mark.parametrize(
    "damage",
    [
        f"DELETE FROM journal WHERE {OF_ALICE} AND number = 2",
        f"DELETE FROM journal WHERE {OF_ALICE} AND number = 20",
        f"UPDATE journal SET actor = 'x' WHERE {OF_ALICE} AND number = 3",
        f"UPDATE journal SET number = 9 WHERE {OF_ALICE} AND number = 3",
        f"UPDATE forgotten SET last_number = 18 WHERE last_number = 17 AND {OF_ALICE}",
        f"UPDATE forgotten SET kept = kept - 1 WHERE first_number = 1 AND {OF_ALICE}",
        "DELETE FROM forgotten",
    ],
)
def test_whoever_changes_what_is_left_is_found(place: Place, agent: Namespace, damage: str) -> None:
    agent.traces.add("so that there are more")
    place.let_pass(timedelta(days=11, hours=1))
    agent.traces.add("and one more")
    assert place.is_sound()
    place.run(damage)
    problems = place.vault.verify_audit().problems
    assert {each.namespace for each in problems} == {"alice"}
    # And nothing more goes of it.
    place.let_pass(timedelta(days=30))
    assert "and one more" in actions_of_rows(place, agent)


@pytest.mark.usefixtures("agent")
def test_a_flipped_bit_of_what_is_left_is_put_back(place: Place) -> None:
    place.let_pass()
    for damage in (
        f"UPDATE forgotten SET first_number = 7 WHERE first_number = 5 AND {OF_ALICE}",
        f"UPDATE forgotten SET kept = 5 WHERE kept = 4 AND first_number = 1 AND {OF_ALICE}",
        f"UPDATE journal SET agent_id = 'agenu' WHERE {OF_ALICE} AND number = 3",
    ):
        place.run(damage)
        assert not place.vault.verify_audit().ok
        place.vault.repair()
        assert place.is_sound()


def actions_of_rows(place: Place, agent: Namespace) -> list[str]:
    with place.context.catalog.read() as transaction:
        head = agent._handle.get_head(transaction)
        rows = transaction.page_traces(
            head.tenant_id, stream=head.namespace_id, after=-1, most=1000
        )
    return [row.action for row in rows]


@pytest.mark.usefixtures("agent")
def test_a_namespace_that_is_gone_for_good_leaves_a_proof(place: Place) -> None:
    place.vault.delete_namespace("alice")
    place.let_pass()  # It is purged,
    place.vault.collect()  # and so is what was said in it.
    place.let_pass()
    assert place.is_sound()
    assert place.vault.verify_audit().forgotten > 10
    found = [each.action for each in place.vault.traces.list(limit=None)]
    assert "traces.forgotten" in found
    assert "looked.around" not in found
    place.let_pass()
    assert [each.action for each in place.vault.traces.list(limit=None)] == found
    place.run("DELETE FROM forgotten")
    assert place.vault.verify_audit().problems


def test_what_a_fork_needs_of_a_namespace_that_is_gone_goes_with_the_fork(
    place: Place, agent: Namespace
) -> None:
    (session,) = agent.sessions.list()
    bob = agent.fork("bob")
    turns = bob.sessions.list_turns(session.id)
    place.vault.delete_namespace("alice")
    for _ in range(3):
        place.let_pass()
    assert bob.sessions.list_turns(session.id) == turns != []
    assert place.is_sound()
    place.vault.delete_namespace("bob")
    for _ in range(5):
        place.let_pass()
        place.vault.collect()
    assert place.streams() == {0}
    assert place.is_sound()


@pytest.mark.parametrize("keep", [None, timedelta(days=90)], ids=["for ever", "for a while"])
def test_a_round_asks_no_more_of_chains_of_which_nothing_is_to_go(
    catalog: tuple[str, Catalog], tmp_path: Path, keep: timedelta | None
) -> None:
    place = Place(catalog[0], tmp_path, catalog[1], keep)

    def asked_after(purged: int) -> list[str]:
        for number in range(purged):
            agent = place.vault.namespace(f"agent-{number}")
            agent.traces.add("looked.around")
            if number % 2:
                agent.set_retention(keep_traces_days=60)
            place.vault.delete_namespace(agent.name)
        place.let_pass()  # They are purged.
        with asked() as names:
            place.vault.forget()
        return names

    few = asked_after(1)
    assert few.count("chains_to_forget") == 1
    assert asked_after(6) == few
    # What is over by a namespace's own word goes, and nothing else.
    place.let_pass(timedelta(days=60))
    assert len(place.streams()) == 5
    # Nor of one that stays, and of which only the trace of what was let go is left.
    place.vault.namespace("stays").set_retention(keep_traces_days=5)
    for _ in range(3):
        place.let_pass()
    with asked() as names:
        place.vault.forget()
    assert {"last_span", "page_traces", "last_done"}.isdisjoint(names)
    assert place.is_sound()


def test_a_namespace_says_how_long_its_own_are_kept(
    catalog: tuple[str, Catalog], tmp_path: Path
) -> None:
    place = Place(catalog[0], tmp_path, catalog[1], None)
    alice, bob = place.vault.namespace("alice"), place.vault.namespace("bob")
    alice.traces.add("looked.around")
    bob.traces.add("looked.around")
    assert alice.set_retention(keep_traces_days=5).keep_traces_days == 5
    place.let_pass()
    # Who said so, and when, stays for as long as it holds.
    assert actions(alice) == ["namespace.retention_set", "traces.forgotten"]
    assert actions(bob) == ["looked.around"]  # For ever, unless somebody says otherwise.
    place.vault.delete_namespace("alice")
    for _ in range(3):
        place.let_pass()
    assert len(place.streams()) == 2  # Bob's, and the tenant's own.
    assert place.is_sound()
    for days in (-1, 36_501, 2.5):
        with pytest.raises(InvalidValue):
            bob.set_retention(keep_traces_days=days)  # pyright: ignore[reportArgumentType] - on purpose


def test_the_last_word_on_how_long_traces_are_kept_is_not_let_go_by_it(
    catalog: tuple[str, Catalog], tmp_path: Path
) -> None:
    place = Place(catalog[0], tmp_path, catalog[1], None)
    alice = place.vault.namespace("alice")

    def settings() -> list[tuple[str | None, object]]:
        found = alice.traces.list(action="namespace.retention_set")
        return [(each.actor, each.details["keep_traces_days"]) for each in found]

    for days, actor in ((7, "first"), (6, "second"), (5, "third")):
        place.vault.acting_as(actor).namespace("alice").set_retention(keep_traces_days=days)
        alice.traces.add("looked.around")
    assert len(settings()) == 3
    for _ in range(3):
        place.let_pass()
        assert settings() == [("third", 5)]
        assert place.is_sound()
        alice.traces.add("looked.around")
    # A later word takes its place, and the one before goes with the rest.
    place.vault.acting_as("fourth").namespace("alice").set_retention(keep_traces_days=4)
    for _ in range(3):
        place.let_pass()
        assert settings() == [("fourth", 4)]
    assert place.is_sound()


def test_a_fork_says_for_as_long_as_it_is_there_whose_retention_it_has(
    catalog: tuple[str, Catalog], tmp_path: Path
) -> None:
    place = Place(catalog[0], tmp_path, catalog[1], None)
    alice = place.vault.namespace("alice")
    alice.traces.add("looked.around")
    alice.fork("plain")
    place.vault.acting_as("first").namespace("alice").set_retention(keep_traces_days=5)
    place.vault.acting_as("second").namespace("alice").fork("copy")
    copy = place.vault.namespace("copy")
    for _ in range(3):
        copy.traces.add("looked.around")
        place.let_pass()
        (told,) = copy.traces.list(action="namespace.retention_set")
        assert told.actor == "second"
        assert (told.details["forked_from"], told.details["keep_traces_days"]) == ("alice", 5)
    assert place.is_sound()
    assert place.vault.namespace("plain").traces.list(action="namespace.retention_set") == []


@pytest.mark.usefixtures("agent")
def test_what_was_added_no_longer_counts_against_a_quota(place: Place) -> None:
    with place.context.catalog.read() as transaction:
        (tenant,) = transaction.iter_tenants()
        assert transaction.added_bytes(tenant.id) > 0
    place.let_pass()
    with place.context.catalog.read() as transaction:
        assert transaction.added_bytes(tenant.id) == 0


@pytest.mark.usefixtures("agent")
def test_a_file_of_what_is_left_is_checked_without_the_vault(place: Place, tmp_path: Path) -> None:
    place.let_pass()
    file = tmp_path / "audit.jsonl"
    place.vault.export_audit(file)
    report = verify_audit_file(file)
    assert report.is_sound
    assert report.forgotten == place.vault.verify_audit().forgotten > 0
    text = file.read_text()
    file.write_text(text.replace('"kept":', '"kept":1', 1))
    assert not verify_audit_file(file).is_sound
