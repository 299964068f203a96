"""Traces on both catalogs: every change leaves one, the chain holds, and tampering shows."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.hashing import redacted
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.audit import chains as audit
from holdfast.engine.audit import export as auditfile
from holdfast.engine.audit.export import verify_audit_file
from holdfast.engine.audit.traces import Traces, WorkspaceTraces
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.journal import anchors
from holdfast.engine.journal.chain import append, hash_of, new_id
from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast
from holdfast.errors import (
    Damaged,
    HoldfastError,
    InvalidValue,
    QuotaExceeded,
    TooLarge,
    TraceNotFound,
    Unencodable,
)
from holdfast.model.traces import Level, Thresholds, Trace, TraceFilter, TraceInfo
from holdfast.model.upkeep import AuditReport
from holdfast.testing.clocks import Watch
from holdfast.testing.damaged import run_in

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)
APPENDERS = 8
EACH = 25


@dataclass
class Place:
    """A vault with a clock, and a way to change its tables behind its back."""

    where: str
    folder: Path
    vault: Holdfast
    context: Context
    clock: Watch

    def run(self, statement: str) -> None:
        run_in(self.where or self.folder, statement)

    def bytes_of(self, text: str) -> str:
        return f"'\\x{text}'::bytea" if self.where else f"x'{text}'"


def open_catalog(where: str, folder: Path) -> Catalog:
    return PostgresCatalog(where) if where else SqliteCatalog(folder)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    where = "" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    clock = Watch(NOON)
    with closing(open_catalog(where, tmp_path)) as catalog:
        limits = Limits(free_floor_bytes=0)
        blobs = DiskBlobStore(tmp_path / "packs")
        context = Context.of(catalog, blobs, clock=clock, limits=limits)
        yield Place(where, tmp_path, Holdfast(context), context, clock)


@pytest.fixture
def agent(place: Place) -> Namespace:
    return place.vault.namespace("alice")


def actions(traces: list[TraceInfo]) -> list[str]:
    return [trace.action for trace in reversed(traces)]


def tell(place: Place, agent: Namespace, trace: Trace) -> None:
    with place.context.catalog.write() as transaction:
        head = agent._handle.lock_or_create(transaction)
        append(transaction, place.context, head, trace)


# Every change leaves one


def test_every_change_of_a_timeline_leaves_one_trace(place: Place, agent: Namespace) -> None:
    vault = place.vault
    agent.files.write("plan.md", "one")
    agent.store.set("state", "step", 1)
    assert agent.traces.list() == []  # Single writes leave none.
    first = agent.acting_as("me").snapshot("first", reason="why not")
    agent.files.write("plan.md", "two")
    done = agent.acting_as("you").restore(first)
    agent.undo()
    agent.redo()
    agent.pin(first)
    agent.unpin(first)
    agent.set_label(first, "better")
    agent.set_retention(keep_last=50)
    agent.set_quota(1 << 20)
    fork = agent.fork("bob")
    fork.files.write("plan.md", "three")
    agent.merge(fork)
    agent.export(place.folder / "a.tar")
    agent.import_(place.folder / "a.tar")
    assert done.safety_id is not None
    agent.delete_snapshot(done.safety_id)
    agent.recover_snapshot(done.safety_id)
    agent.store.clear_history()
    assert actions(agent.traces.list(limit=100)) == [
        "snapshot.taken",
        "snapshot.restored",
        "snapshot.undone",
        "snapshot.redone",
        "snapshot.pinned",
        "snapshot.unpinned",
        "snapshot.labelled",
        "namespace.retention_set",
        "namespace.quota_set",
        "namespace.merged",
        "namespace.imported",
        "snapshot.deleted",
        "snapshot.recovered",
        "snapshot.deleted",
    ]
    # Whose retention it took over, a fork says apart: that trace stays.
    assert actions(fork.traces.list()) == ["namespace.forked", "namespace.retention_set"]
    taken = agent.traces.list(resource_type="snapshot", resource_id=first.id)[-1]
    assert (taken.actor, taken.details) == ("me", {"label": "first", "reason": "why not"})
    (restored,) = agent.traces.list(action="snapshot.restored")
    why = f"restore {first.id}"
    assert restored.details == {"target": first.id, "safety": done.safety_id, "reason": why}
    assert restored.actor == "you"
    assert vault.verify_audit().is_sound


def test_what_happens_to_namespaces_and_tenants_leaves_traces(
    place: Place, agent: Namespace
) -> None:
    vault = place.vault
    agent.snapshot(expires_in=timedelta(hours=1))
    agent.snapshot()
    agent.files.write("a", "b")
    agent.snapshot()
    agent.files.write("a", "c")
    agent.snapshot()
    place.clock.wait(timedelta(hours=2))
    (gone,) = agent.forget()
    vault.delete_namespace("alice")
    vault.recover_namespace("alice", as_name="ann")
    vault.delete_namespace("ann")
    place.clock.wait(timedelta(days=8))
    vault.forget()
    vault.set_quota(None)
    found = vault.traces.list(limit=6)
    assert actions(found) == [
        "snapshot.forgotten",
        "namespace.deleted",
        "namespace.recovered",
        "namespace.deleted",
        "namespace.purged",
        "tenant.quota_set",
    ]
    assert found[-1].details == {"snapshots": [gone.id]}
    # The namespace is gone; what was done to it is not.
    assert {trace.namespace for trace in found} == {None}
    assert agent.traces.list() == []
    assert vault.verify_audit().is_sound


def test_what_does_not_happen_leaves_no_trace(place: Place, agent: Namespace) -> None:
    agent.files.write("a", "b")
    first = agent.snapshot()
    agent.restore(first, dry_run=True)
    agent.forget()
    agent.store.clear_history()
    for refused in (
        lambda: agent.undo(first),
        lambda: agent.fork("alice"),
        lambda: agent.snapshot(expected="snap-other"),
        lambda: agent.delete_snapshot("snap-other"),
        lambda: agent.recover_snapshot("snap-other"),
        lambda: place.vault.delete_namespace("nobody"),
        lambda: agent.traces.add(""),
    ):
        with pytest.raises(HoldfastError):
            refused()
    assert actions(place.vault.traces.list()) == ["snapshot.taken"]


def test_a_transaction_that_fails_takes_its_trace_along(place: Place, agent: Namespace) -> None:
    agent.traces.add("one")

    def fail() -> None:
        with place.context.catalog.write() as transaction:
            head = agent._handle.lock(transaction)
            append(transaction, place.context, head, Trace(action="two"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    agent.traces.add("three")
    assert [(trace.number, trace.action) for trace in agent.traces.list()] == [
        (2, "three"),
        (1, "one"),
    ]
    assert place.vault.verify_audit().is_sound


# Asking


def test_traces_are_found_by_whatever_they_say(place: Place, agent: Namespace) -> None:
    added = agent.acting_as("key_1").traces.add(
        "tool_call.failed",
        session_id="sess_1",
        user_id="u",
        agent_id="a",
        resource_type="tool",
        resource_id="grep",
        details={"exit": 2, "big": 2**80, "text": "\0\u2028"},
    )
    agent.acting_as("key_2").traces.add("tool_call.failed", session_id="sess_2")
    agent.traces.add("session.escalated", session_id="sess_1", user_id="v")
    other = place.vault.namespace("bob")
    other.traces.add("tool_call.failed", session_id="sess_1", agent_id="a")
    assert added.details == {"exit": 2, "big": 2**80, "text": "\0\u2028"}
    assert added.namespace == "alice"
    assert agent.traces.get(added.id) == added == place.vault.traces.get(added.id)
    questions = {
        "session_id": ("sess_1", [3, 1]),
        "action": ("tool_call.failed", [2, 1]),
        "actor": ("key_2", [2]),
        "user_id": ("u", [1]),
        "agent_id": ("a", [1]),
        "resource_type": ("tool", [1]),
        "resource_id": ("grep", [1]),
    }
    for name, (value, numbers) in questions.items():
        found = agent.traces.list(**{name: value})
        assert [trace.number for trace in found] == numbers, name
        assert agent.traces.list(**{name: "nobody"}) == []
    everywhere = place.vault.traces
    assert [t.number for t in everywhere.list(session_id="sess_1")] == [1, 3, 1]
    assert [t.number for t in everywhere.list(action="tool_call.failed")] == [1, 2, 1]
    assert [t.namespace for t in everywhere.list()] == ["bob", "alice", "alice", "alice"]
    both = agent.traces.list(session_id="sess_1", action="tool_call.failed", actor="key_1")
    assert both == [added]


def test_times_select_from_one_instant_on_and_before_another(
    place: Place, agent: Namespace
) -> None:
    for _ in range(4):
        agent.traces.add("tick", session_id="sess_1")
        place.clock.wait(timedelta(minutes=1))
    after, before = NOON + timedelta(minutes=1), NOON + timedelta(minutes=3)
    for traces in (agent.traces, place.vault.traces):
        for more in ({}, {"session_id": "sess_1"}, {"action": "tick"}):
            found = traces.list(after=after, before=before, **more)
            assert [trace.number for trace in found] == [3, 2]
            assert [trace.created_at for trace in found][-1] == after
    with pytest.raises(InvalidValue, match="time zone"):
        agent.traces.list(after=datetime(2025, 3, 1))  # noqa: DTZ001 - that is what is refused


def test_pages_follow_each_other_without_a_gap(place: Place, agent: Namespace) -> None:
    # All at one instant: then their numbers decide.
    added = [agent.traces.add("tick", session_id="sess_1").id for _ in range(7)]
    for traces in (agent.traces, place.vault.traces):
        for more in ({}, {"session_id": "sess_1"}, {"action": "tick"}):
            seen: list[str] = []
            while page := traces.list(limit=3, starting_after=(seen or [None])[-1], **more):
                seen += [trace.id for trace in page]
            assert seen == added[::-1]


def test_a_clock_that_goes_back_orders_by_time_and_still_makes_one_chain(
    place: Place, agent: Namespace
) -> None:
    agent.traces.add("late")
    place.clock.wait(timedelta(hours=-5))
    agent.traces.add("early")
    assert actions(agent.traces.list()) == ["early", "late"]
    assert place.vault.verify_audit().is_sound


def test_nobody_sees_the_traces_of_another_namespace_or_tenant(
    place: Place, agent: Namespace
) -> None:
    mine = agent.traces.add("mine", session_id="sess_1")
    other = place.vault.tenant("other")
    theirs = other.namespace("alice").traces.add("theirs", session_id="sess_1")
    assert (mine.number, theirs.number) == (1, 1)
    bob = place.vault.namespace("bob")
    bob.traces.add("his")
    for traces in (bob.traces, other.traces, other.namespace("alice").traces):
        with pytest.raises(TraceNotFound):
            traces.get(mine.id)
        with pytest.raises(InvalidValue, match="starting_after"):
            traces.list(starting_after=mine.id)
        assert all(trace.id != mine.id for trace in traces.list(session_id="sess_1"))
    assert other.verify_audit().is_sound


@pytest.mark.parametrize("name", ["", "trace_", "trace_zz", "x" * 5000, "trace_" + "f" * 40, "\0"])
def test_an_id_that_is_none_is_not_found(place: Place, agent: Namespace, name: str) -> None:
    agent.traces.add("mine")
    with pytest.raises((TraceNotFound, InvalidValue)):
        agent.traces.get(name)
    assert place.vault.traces.list()


def test_a_trace_that_cannot_be_kept_is_refused(agent: Namespace) -> None:
    for details, error in (
        ({"a": float("nan")}, Unencodable),
        ({"a": {1, 2}}, Unencodable),
        ({"a": "\ud800"}, Unencodable),
        ({"a": "x" * 70_000}, TooLarge),
    ):
        with pytest.raises(error):
            agent.traces.add("mine", details=details)
    with pytest.raises(HoldfastError):
        agent.acting_as("\0").traces.add("mine")
    for more in ({"user_id": "\ud800"}, {"session_id": "x" * 5000}):
        with pytest.raises(HoldfastError):
            agent.traces.add("mine", **more)
    with pytest.raises(InvalidValue, match="limit"):
        agent.traces.list(limit=-1)
    assert agent.traces.list(limit=0) == agent.traces.list() == []


def test_an_id_can_be_had_before_the_trace_is_appended(place: Place, agent: Namespace) -> None:
    trace_id = new_id(place.context, NOON)
    place.clock.wait(timedelta(seconds=5))
    with place.context.catalog.write() as transaction:
        head = agent._handle.lock_or_create(transaction)
        told = Trace(action="state.updated")
        assert append(transaction, place.context, head, told, trace_id=trace_id) == trace_id
    assert agent.traces.get(trace_id).created_at == NOON


# The chain


def test_appenders_of_several_processes_make_chains_without_a_gap(place: Place) -> None:
    with ExitStack() as cleanup:
        children: list[subprocess.Popen[bytes]] = []
        for number in range(APPENDERS // 2):
            child = subprocess.Popen(
                [sys.executable, __file__, place.where, str(place.folder), str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            cleanup.enter_context(child)
            cleanup.callback(child.kill)
            children.append(child)
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
        for child in children:
            child.communicate(b"go\n")
            assert child.returncode == 0
    found = place.vault.traces.list(limit=10_000)
    for namespace in (None, "shared"):
        numbers = sorted(trace.number for trace in found if trace.namespace == namespace)
        assert numbers == [*range(1, APPENDERS // 2 * EACH + 1)]
    assert len({(trace.actor, trace.details["time"]) for trace in found}) == len(found)
    report = place.vault.verify_audit()
    assert (report.checked, report.problems) == (APPENDERS * EACH + 1, [])  # With the anchor.


def test_a_snapshot_a_collection_and_traces_never_lock_each_other_up(
    place: Place, agent: Namespace
) -> None:
    """The end of a chain is in the row that its writers lock first."""

    def work(number: int) -> None:
        own = place.vault.namespace(f"n{number}")
        for time in range(6):
            own.files.write("a", f"{number} {time}" * 400)
            own.snapshot()

    def collect(_: int) -> None:
        for _ in range(5):
            place.vault.collect()

    with ThreadPoolExecutor(5) as pool:
        futures = [pool.submit(work, number) for number in range(4)]
        futures.append(pool.submit(collect, 0))
        for future in futures:
            future.result(timeout=120)
    assert agent.traces.list() == []
    assert place.vault.verify_audit().checked == 24 + 1  # With the anchor.


Tamper = Callable[[Place], None]


def edit(column: str, value: str) -> Tamper:
    return lambda place: place.run(
        f"UPDATE journal SET {column} = {value} WHERE {OF_ALICE} AND number = 3"
    )


OF_ALICE = "stream <> 0"
"""The rows of the one namespace that has some."""

EDITS = {
    "format": "0",
    "stream": "stream + 7",
    "kind": "'done'",
    "version": "4",
    "task_id": "'task-1'",
    "id": "'trace_0000000000000000000000000000'",
    "namespace_id": "7",
    "session_id": "'sess_9'",
    "user_id": "'nobody'",
    "agent_id": "NULL",
    "action": "'state.updated '",
    "resource_type": "NULL",
    "resource_id": "'x'",
    "actor": "'innocent'",
    "created_at": "created_at + 1",
    "details": "'{}'",
    "tenant_id": "99",
    "number": "300",
}


@pytest.fixture
def told(place: Place, agent: Namespace) -> Place:
    """A vault with six traces."""
    for number in range(6):
        agent.acting_as("key").traces.add(
            "state.updated",
            session_id="sess_1",
            user_id="u",
            agent_id="a",
            resource_type="session",
            resource_id="sess_1",
            details={"version": number},
        )
    assert place.vault.verify_audit().problems == []
    return place


def numbers(report: AuditReport) -> list[int]:
    assert report.is_sound is (not report.problems)
    return [problem.number for problem in report.problems]


def test_the_edits_leave_out_no_column() -> None:
    assert set(auditfile._Line.__struct_fields__) == {*EDITS, *HASHES}


@pytest.mark.parametrize("column", EDITS)
def test_an_edited_row_is_found(told: Place, column: str) -> None:
    edit(column, EDITS[column])(told)
    assert 3 in numbers(told.vault.verify_audit())


HASHES = ("previous", "hash", "salt", "version_hash", "turn_hash", "roots")


@pytest.mark.parametrize("column", HASHES)
def test_an_edited_hash_is_found(told: Place, column: str) -> None:
    edit(column, told.bytes_of("ab" * 32))(told)
    assert 3 in numbers(told.vault.verify_audit())


@pytest.mark.parametrize("number", [1, 3, 6])
def test_a_removed_row_is_found(told: Place, number: int) -> None:
    told.run(f"DELETE FROM journal WHERE {OF_ALICE} AND number = {number}")
    assert numbers(told.vault.verify_audit()) == [number]


def test_an_end_that_was_cut_off_is_found(told: Place) -> None:
    told.run(f"DELETE FROM journal WHERE {OF_ALICE} AND number > 2")
    report = told.vault.verify_audit()
    assert numbers(report) == [3]
    assert report.problems[0].reason == "all up to 6 are missing"
    assert report.problems[0].namespace == "alice"


FORGET = (
    "DELETE FROM journal",
    "DELETE FROM anchored",
    "UPDATE tenants SET journal_number = 0, journal_hash = NULL",
    "UPDATE namespaces SET journal_number = 0, journal_hash = NULL",
)
"""What whoever can write all of the catalog does."""


def test_all_rows_removed_is_found(told: Place) -> None:
    told.run(FORGET[0])
    found = told.vault.verify_audit()
    assert [(each.namespace, each.number) for each in found.problems] == [(None, 1), ("alice", 1)]
    for statement in FORGET:
        told.run(statement)
    assert told.vault.verify_audit().is_sound  # Nothing is left that could tell ...


def test_an_anchor_kept_elsewhere_finds_chains_that_were_made_anew(told: Place) -> None:
    anchor = told.vault.verify_audit().anchor
    told.vault.namespace("alice").traces.add("more")
    assert told.vault.verify_audit(anchor=anchor).is_sound
    for statement in FORGET:
        told.run(statement)
    assert numbers(told.vault.verify_audit(anchor=anchor)) == [1]  # ... but the anchor.
    for _ in range(8):
        told.vault.namespace("alice").traces.add("quite innocent")
    assert told.vault.verify_audit().is_sound
    assert numbers(told.vault.verify_audit(anchor=anchor)) == [1]
    for wrong in ("", "6", "x:00", "6:xyz"):
        with pytest.raises(InvalidValue, match="anchor"):
            told.vault.verify_audit(anchor=wrong)


def test_rows_that_change_places_are_found(told: Place) -> None:
    told.run(f"UPDATE journal SET number = -1 WHERE {OF_ALICE} AND number = 3")
    told.run(f"UPDATE journal SET number = 3 WHERE {OF_ALICE} AND number = 4")
    told.run(f"UPDATE journal SET number = 4 WHERE {OF_ALICE} AND number = -1")
    assert {3, 4} <= set(numbers(told.vault.verify_audit()))


@pytest.mark.parametrize("number", [-1, 0, 7])
def test_an_inserted_row_is_found(told: Place, number: int) -> None:
    copied = "tenant_id, stream, format, kind, id, namespace_id, action, created_at, details"
    copied += ", salt, previous, hash"
    told.run(
        f"INSERT INTO journal (number, {copied}) "
        f"SELECT {number}, {copied} FROM journal WHERE {OF_ALICE} AND number = 2"
    )
    assert number in numbers(told.vault.verify_audit())


@pytest.mark.parametrize("number", [2, 6])
def test_an_edited_row_with_a_hash_that_fits_is_found(told: Place, number: int) -> None:
    """The next one remembers what it had, and so do the end and the anchor."""
    tenant = told.vault._tenant.id
    with told.context.catalog.read() as transaction:
        stream = transaction.list_ends(tenant)[0].namespace_id
        row = transaction.page_traces(tenant, stream=stream, after=number - 1, most=1)[0]
    forged = replace(row, action="session.forked")
    told.run(
        f"UPDATE journal SET action = 'session.forked', "
        f"hash = {told.bytes_of(hash_of(forged).hex())} WHERE {OF_ALICE} AND number = {number}"
    )
    assert set(numbers(told.vault.verify_audit())) == {min(number + 1, 6)}


def move_back(place: Place, number: int) -> None:
    """Cuts the end of a chain off, and lets its namespace say that it always ended there."""
    last = f"SELECT hash FROM journal WHERE {OF_ALICE} AND number = {number}"
    place.run(f"DELETE FROM journal WHERE {OF_ALICE} AND number > {number}")
    place.run(f"UPDATE namespaces SET journal_number = {number}, journal_hash = ({last})")


def test_an_end_that_was_moved_back_with_the_rows_shows_by_the_tenants_own_chain(
    told: Place,
) -> None:
    move_back(told, 4)
    found = told.vault.verify_audit().problems
    assert [(each.namespace, each.number) for each in found] == [("alice", 6)]


def test_an_end_that_no_anchor_had_yet_is_moved_back_unseen(told: Place) -> None:
    """What the order across namespaces costs: what came after the last anchor proves itself."""
    for _ in range(2):
        told.vault.namespace("alice").traces.add("more")
    move_back(told, 7)
    assert told.vault.verify_audit().is_sound


def test_more_traces_than_a_page_are_checked_and_exported(
    place: Place, agent: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "_PAGE", 4)
    for _ in range(10):
        agent.traces.add("tick")
    seen: list[tuple[str, int, int]] = []
    report = place.vault.verify_audit(progress=lambda *step: seen.append(step))
    assert (report.checked, report.is_sound) == (11, True)  # With the anchor.
    assert seen == [("audit", done, 11) for done in (1, 5, 9, 11)]
    target = place.folder / "audit.jsonl"
    assert place.vault.export_audit(target) == 11
    offline = verify_audit_file(target, anchor=report.anchor)
    assert offline == report


def test_redacted_details_are_gone_and_the_chain_holds(told: Place) -> None:
    alice = told.vault.namespace("alice")
    alice.traces.add("state.updated", session_id="sess_2", details={"secret": "kept"})
    anchor = told.vault.verify_audit().anchor
    with told.context.catalog.write() as transaction:
        head = alice._handle.lock(transaction)
        wanted = TraceFilter(namespace_id=head.namespace_id, session_id="sess_1")
        for row in transaction.list_traces(head.tenant_id, wanted, most=10):
            transaction.redact_trace(row, redacted(row))
    assert told.vault.verify_audit(anchor=anchor).is_sound
    found = alice.traces.list(session_id="sess_1")
    assert [(trace.details, trace.is_redacted) for trace in found] == [({}, True)] * 6
    assert alice.traces.list(session_id="sess_2")[0].details == {"secret": "kept"}
    # Nobody can put other details there, or pretend that there were others.
    for details in ("{}", f"redacted:{'00' * 32}", "redacted:", "redacted:zz"):
        edit("details", f"'{details}'")(told)
        assert numbers(told.vault.verify_audit()) == [3]


# Chains belong together


def test_writers_of_one_namespace_wait_for_nobody_elses(place: Place, agent: Namespace) -> None:
    """Neither for a writer of another one, nor for who does something to the tenant."""
    if not place.where:
        pytest.skip("SQLite has one writer at a time")
    agent.sessions.create("a", session_id="s", initial_state={"n": 0})
    tenant, other = place.vault._tenant.id, place.vault.namespace("bob")
    with place.context.catalog.write() as transaction:
        head = other._handle.lock_or_create(transaction)
        append(transaction, place.context, head, Trace(action="tick"))
        append(transaction, place.context, tenant, Trace(action="tick"))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(agent.sessions.update_state, "s", {"n": 1}).result(timeout=20)
            pool.submit(agent.snapshot).result(timeout=20)
            pool.submit(agent.traces.add, "tock").result(timeout=20)
    assert place.vault.verify_audit().is_sound


def test_an_anchor_is_set_for_what_has_moved_and_is_listed_nowhere(
    place: Place, agent: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchors, "_MOST", 2)
    for name in ("a", "b", "c"):
        place.vault.namespace(name).traces.add("tick")
    place.vault.look_after()
    first = place.vault.verify_audit()
    assert first.checked == 3 + 2  # Two of them in an anchor, and one in the next.
    assert place.vault.verify_audit() == first
    agent.traces.add("tick")
    assert place.vault.verify_audit(anchor=first.anchor).checked == 3 + 2 + 2
    assert actions(place.vault.traces.list()) == ["tick"] * 4
    assert place.vault.traces.list(action=anchors.ACTION) == []


def test_whoever_calls_a_trace_an_anchor_anchors_nothing(place: Place, agent: Namespace) -> None:
    agent.traces.add("tick")
    ends = {"ends": [[1, 1, "00" * 32]]}
    place.vault.traces.add(anchors.ACTION, resource_type="journal", details=ends)
    place.vault.traces.add("namespace.purged", resource_type="namespace", resource_id="alice")
    assert place.vault.verify_audit().is_sound


def test_a_namespace_that_never_had_a_chain_goes_without_one(
    place: Place, agent: Namespace
) -> None:
    """One that was deleted before namespaces had chains: all it did is in the tenant's."""
    agent.traces.add("tick")
    place.vault.delete_namespace("alice")
    place.run(f"DELETE FROM journal WHERE {OF_ALICE}")
    place.run("UPDATE namespaces SET journal_number = 0, journal_hash = NULL")
    place.clock.wait(timedelta(days=400))
    place.vault.forget()
    assert place.vault.verify_audit().problems == []


def test_a_namespace_that_is_gone_for_good_leaves_its_chain(place: Place, agent: Namespace) -> None:
    agent.traces.add("tick")
    place.vault.delete_namespace("alice")
    place.clock.wait(timedelta(days=400))
    place.vault.forget()
    assert actions(place.vault.traces.list()) == ["tick", "namespace.deleted", "namespace.purged"]
    target = place.folder / "audit.jsonl"
    place.vault.export_audit(target)
    report = place.vault.verify_audit()
    assert (report.checked, report.problems) == (2 + 2, [])
    assert verify_audit_file(target, anchor=report.anchor) == report
    place.vault.export_audit(target, for_operators=True)
    assert verify_audit_file(target, anchor=report.anchor) == report
    place.run(f"DELETE FROM journal WHERE {OF_ALICE} AND number = 2")
    found = place.vault.verify_audit().problems
    assert [(each.namespace, each.number) for each in found] == [("alice", 2)]
    place.run(f"DELETE FROM journal WHERE {OF_ALICE}")
    found = place.vault.verify_audit().problems
    assert [(each.namespace, each.number) for each in found] == [("alice", 2)]


def test_a_namespace_whose_row_is_gone_without_a_word_is_found(told: Place) -> None:
    told.run("DELETE FROM namespaces")
    found = told.vault.verify_audit().problems
    assert [(each.number, each.reason) for each in found] == [
        (7, "the end of the chain is missing")
    ]


@pytest.mark.parametrize("number", [1, 4, 6])
def test_a_list_that_leaves_a_trace_out_is_not_returned(told: Place, number: int) -> None:
    alice = told.vault.namespace("alice")
    assert [trace.number for trace in alice.traces.list()] == [6, 5, 4, 3, 2, 1]
    told.run(f"UPDATE journal SET namespace_id = 77 WHERE {OF_ALICE} AND number = {number}")
    with pytest.raises(Damaged, match=f"trace {number} "):
        alice.traces.list()
    told.run(f"DELETE FROM journal WHERE {OF_ALICE} AND number = {number}")
    with pytest.raises(Damaged, match=f"trace {number} "):
        alice.traces.list()


def test_traces_of_a_clock_that_went_back_are_no_gap(place: Place, agent: Namespace) -> None:
    for step in (2, -3, 2, -4, 5):
        agent.traces.add("tick")
        place.clock.wait(timedelta(minutes=step))
    assert sorted(trace.number for trace in agent.traces.list()) == [1, 2, 3, 4, 5]
    first = agent.traces.list(limit=2)
    rest = agent.traces.list(limit=2, starting_after=first[-1].id)
    assert len({trace.number for trace in (*first, *rest)}) == 4
    assert len(agent.traces.list(after=NOON)) == 3


def test_a_trace_that_is_not_what_was_written_is_never_returned(told: Place) -> None:
    alice = told.vault.namespace("alice")
    third = alice.traces.list()[3]
    assert third.number == 3
    edit("actor", "'innocent'")(told)
    for read in (alice.traces.list, told.vault.traces.list, lambda: alice.traces.get(third.id)):
        with pytest.raises(Damaged, match="trace 3"):
            read()


# Health


def roll_back(place: Place, agent: Namespace, session: str, version: int, who: str = "a") -> None:
    details = {"from_version": 9, "to_version": version, "reason": "wrong"}
    told = Trace(action="state.rolled_back", session_id=session, agent_id=who, details=details)
    tell(place, agent, told)


def be_active(place: Place, agent: Namespace, sessions: int, who: str = "a") -> None:
    for number in range(sessions):
        told = Trace(action="state.updated", session_id=f"sess_{number}", agent_id=who)
        tell(place, agent, told)


@pytest.mark.parametrize(
    ("rollbacks", "level"),
    [
        (0, Level.HEALTHY),
        (1, Level.HEALTHY),
        (2, Level.ELEVATED),
        (4, Level.ELEVATED),
        (5, Level.WARNING),
        (9, Level.WARNING),
        (10, Level.CRITICAL),
    ],
)
def test_the_rate_is_rollbacks_by_active_sessions(
    place: Place, agent: Namespace, rollbacks: int, level: Level
) -> None:
    be_active(place, agent, 100)
    for number in range(rollbacks):
        roll_back(place, agent, f"sess_{number}", 1)
    health = agent.health()
    assert (health.rollbacks, health.sessions, health.rate) == (rollbacks, 100, rollbacks / 100)
    assert (health.level, health.loops) == (level, [])


def test_only_the_window_counts(place: Place, agent: Namespace) -> None:
    be_active(place, agent, 3)
    roll_back(place, agent, "sess_0", 1)
    place.clock.wait(timedelta(hours=30))
    be_active(place, agent, 2)
    assert (agent.health().rollbacks, agent.health().sessions) == (0, 2)
    longer = agent.health(window=timedelta(hours=48))
    assert (longer.rollbacks, longer.sessions) == (1, 3)
    assert agent.health(window=timedelta.max) == longer
    with pytest.raises(InvalidValue, match="window"):
        agent.health(window=timedelta(0))


def test_agents_and_namespaces_are_counted_apart_and_together(
    place: Place, agent: Namespace
) -> None:
    be_active(place, agent, 4)
    be_active(place, agent, 2, who="b")
    roll_back(place, agent, "sess_0", 1, who="b")
    bob = place.vault.namespace("bob")
    be_active(place, bob, 3)
    roll_back(place, bob, "sess_0", 1)
    other = place.vault.tenant("other").namespace("alice")
    be_active(place, other, 1)
    assert (agent.health().sessions, bob.health().sessions) == (4, 3)
    of_b = agent.health(agent_id="b")
    assert (of_b.rollbacks, of_b.sessions, of_b.rate) == (1, 2, 0.5)
    # Sessions of the same id in two namespaces are two.
    everywhere = place.vault.health()
    assert (everywhere.rollbacks, everywhere.sessions) == (2, 7)
    assert place.vault.health(agent_id="a").rollbacks == 1


def test_going_back_to_the_same_version_again_and_again_is_a_loop(
    place: Place, agent: Namespace
) -> None:
    for _ in range(4):
        roll_back(place, agent, "sess_1", 3)
    for version in (1, 2, 3):
        roll_back(place, agent, "sess_2", version)
    bob = place.vault.namespace("bob")
    for _ in range(2):
        roll_back(place, bob, "sess_2", 1)
    loops = [(loop.session_id, loop.version, loop.rollbacks) for loop in agent.health().loops]
    assert loops == [("sess_1", 3, 4)]
    assert place.vault.health().loops == agent.health().loops
    twice = place.vault.health(thresholds=Thresholds(loop=2)).loops
    assert [(loop.namespace, loop.rollbacks) for loop in twice] == [("alice", 4), ("bob", 2)]


def test_real_sessions_leave_what_health_counts(place: Place, agent: Namespace) -> None:
    session = agent.sessions.create(agent_id="planner", initial_state={"step": 0})
    for step in range(3):
        agent.sessions.update_state(session.id, {"step": step})
        agent.sessions.rollback(session.id, 0)
    assert agent.sessions.create(agent_id="other").id != session.id
    health = agent.health(agent_id="planner")
    assert (health.rollbacks, health.sessions) == (3, 1)
    (loop,) = health.loops
    assert (loop.session_id, loop.version, loop.rollbacks) == (session.id, 0, 3)
    state = agent.sessions.get_state(session.id)
    assert state.trace_id is not None
    assert agent.traces.get(state.trace_id).action == "state.rolled_back"
    assert place.vault.verify_audit().is_sound


def test_what_somebody_only_tells_of_is_no_rollback(place: Place, agent: Namespace) -> None:
    session = agent.sessions.create("planner").id
    for _ in range(3):
        agent.traces.add("state.rolled_back", session_id=session, details={"to_version": 0})
    for health in (agent.health(), place.vault.health()):
        assert (health.rollbacks, health.level, health.loops) == (0, Level.HEALTHY, [])
    (seen,) = place.vault.overview()
    assert (seen.rollbacks, seen.level) == (0, Level.HEALTHY)
    assert {each.rollbacks for each in place.vault.rollback_series().buckets} == {0}


def test_a_rollback_that_says_nothing_of_a_version_counts_and_is_no_loop(
    place: Place, agent: Namespace
) -> None:
    for details in ({}, {"to_version": "3"}, {"to_version": None}):
        told = Trace(action="state.rolled_back", session_id="sess_1", details=details)
        tell(place, agent, told)
    health = agent.health(thresholds=Thresholds(loop=1))
    assert (health.rollbacks, health.loops) == (3, [])


def test_a_namespace_that_does_not_exist_is_healthy(place: Place) -> None:
    health = place.vault.namespace("nobody").health()
    assert (health.rollbacks, health.sessions, health.level) == (0, 0, Level.HEALTHY)
    assert place.vault.namespaces() == []


def main(where: str, folder: str, number: str) -> None:
    """Appends from two threads of a process of its own."""
    from threading import Thread  # noqa: PLC0415 - of the children alone

    with closing(open_catalog(where, Path(folder))) as catalog:
        context = Context.of(catalog, DiskBlobStore(Path(folder) / "packs"))
        vault = Holdfast(context)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()

        def work(traces: Traces | WorkspaceTraces) -> None:
            for time in range(EACH):
                traces.add("tick", details={"time": time})

        chains = (
            vault.acting_as(f"{number}-0").traces,
            vault.acting_as(f"{number}-1").namespace("shared").traces,
        )
        threads = [Thread(target=work, args=(traces,)) for traces in chains]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def added(place: Place) -> int:
    with place.context.catalog.read() as transaction:
        tenant = transaction.find_tenant("default")
        assert tenant is not None
        return transaction.added_bytes(tenant.id)


def test_what_somebody_adds_counts_against_the_quota_until_it_is_erased(
    place: Place, agent: Namespace
) -> None:
    vault, said = place.vault, {"why": "é" * 2_000}
    agent.sessions.create("agent", session_id="s")
    assert added(place) == 0
    for chain in (agent.traces, vault.namespace("other").traces, vault.traces):
        before, used = added(place), vault.totals().storage_bytes
        chain.add("tool.called", session_id="s", details=said)
        assert 4_000 < added(place) - before < 4_100
        assert vault.totals().storage_bytes - used >= 4_000
    vault.set_quota(vault.totals().storage_bytes + 4_000)
    for chain in (agent.traces, vault.traces):
        with pytest.raises(QuotaExceeded):
            chain.add("tool.called", details=said)
    assert agent.traces.add("tool.called").details == {}
    kept = added(place)
    vault.erasures.session("alice", "s")
    assert kept - 4_000 < added(place) < kept - 3_800


def test_what_was_added_to_a_namespace_counts_when_that_is_gone(place: Place) -> None:
    agent = place.vault.namespace("gone")
    agent.traces.add("tool.called", details={"why": "x" * 2_000})
    place.vault.delete_namespace("gone")
    place.clock.wait(timedelta(days=8))
    counted = added(place)
    place.vault.collect()
    assert [*place.vault.deleted_namespaces()] == []
    assert added(place) == counted > 2_000


def test_what_is_erased_in_a_namespace_that_is_gone_counts_no_more(place: Place) -> None:
    agent = place.vault.namespace("gone")
    agent.sessions.create("agent", session_id="s", user_id="u")
    agent.traces.add("tool.called", session_id="s", user_id="u", details={"why": "x" * 2_000})
    place.vault.delete_namespace("gone")
    place.clock.wait(timedelta(days=8))
    place.vault.collect()
    counted = added(place)
    place.vault.erasures.user("u")
    assert added(place) < counted - 1_800


def test_what_was_added_before_it_was_counted_is_no_debt(place: Place, agent: Namespace) -> None:
    agent.sessions.create("agent", session_id="s")
    for chain in (agent.traces, place.vault.traces):
        chain.add("tool.called", session_id="s", details={"why": "x" * 2_000})
    for table in ("namespaces", "tenants"):
        place.run(f"UPDATE {table} SET added_bytes = 0")
    place.vault.erasures.session("alice", "s")
    assert added(place) == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
