"""Events on both catalogs: what is done is told, once, in order, and nothing else is."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.journal import events
from holdfast.engine.journal.events import (
    MAX_LISTED,
    Events,
    envelope,
    number_all,
    purge_events,
    tell,
)
from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast
from holdfast.errors import Damaged, InvalidValue, NoLongerKept
from holdfast.ids import TenantId
from holdfast.instants import to_us
from holdfast.model.events import EventRow, Occurrence
from holdfast.testing.clocks import Watch
from holdfast.testing.damaged import run_in

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEPT = timedelta(days=9)
WRITERS = 4
EACH = 40


@dataclass
class Place:
    """A vault that tells what is done, with a clock that stands still."""

    where: str
    folder: Path
    vault: Holdfast
    catalog: Catalog
    clock: Watch

    def told(self, **wanted: Any) -> list[EventRow]:
        """Returns what was told, oldest first."""
        return self.vault.events.list(limit=MAX_LISTED, **wanted)[0][::-1]

    def types(self) -> list[str]:
        return [event.type for event in self.told()]


@pytest.fixture
def place(quiet: Place) -> Place:
    quiet.vault.events.listen()
    return quiet


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def quiet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A vault in which nobody listens."""
    where = "" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    clock = Watch(NOON)
    opened = PostgresCatalog(where) if where else SqliteCatalog(tmp_path)
    with closing(opened) as catalog:
        context = Context.of(
            catalog,
            DiskBlobStore(tmp_path / "packs"),
            clock=clock,
            limits=Limits(free_floor_bytes=0, keep_events=KEPT),
        )
        yield Place(where, tmp_path, Holdfast(context), catalog, clock)


@pytest.fixture
def agent(place: Place) -> Namespace:
    return place.vault.namespace("alice")


def data_of(event: EventRow) -> dict[str, Any]:
    return msgspec.json.decode(event.data)


def place_in(data: dict[str, Any]) -> tuple[int, str | None, str | None]:
    return data["number"], data["parent"], data["task_id"]


def numbers(events: list[EventRow]) -> list[int]:
    return [event.number for event in events]


# What is told


def test_files_are_told_with_the_prefix_that_clients_know(place: Place, agent: Namespace) -> None:
    agent.files.write("notes/a.txt", "abc")
    agent.files.write_many([("b.txt", "bb"), ("c.txt", "ccc")])
    agent.files.symlink("latest", "notes/a.txt")
    agent.files.delete("notes", recursive=True)
    told = [(event.type, data_of(event)) for event in place.told()]
    assert told == [
        ("file.written", {"path": "workspace/notes/a.txt", "size_bytes": 3, "source": "write"}),
        ("file.written", {"path": "workspace/b.txt", "size_bytes": 2, "source": "write"}),
        ("file.written", {"path": "workspace/c.txt", "size_bytes": 3, "source": "write"}),
        ("file.written", {"path": "workspace/latest", "size_bytes": 11, "source": "link"}),
        ("file.deleted", {"path": "workspace/notes", "entries": 1}),
    ]
    assert {event.namespace for event in place.told()} == {"alice"}


def test_a_move_tells_what_went_and_where_every_file_is_now(place: Place, agent: Namespace) -> None:
    agent.files.write_many([("old/a", "a"), ("old/deep/b", "bb")])
    agent.files.mkdir("old/empty")
    agent.files.move("old", "new")
    told = [(event.type, data_of(event)) for event in place.told()[2:]]
    assert told == [
        ("file.deleted", {"path": "workspace/old", "entries": 3}),
        ("file.written", {"path": "workspace/new/a", "size_bytes": 1, "source": "move"}),
        ("file.written", {"path": "workspace/new/deep/b", "size_bytes": 2, "source": "move"}),
    ]


def test_what_changes_no_file_and_what_is_refused_is_not_told(
    place: Place, agent: Namespace
) -> None:
    agent.files.write("a", "a")
    agent.files.chmod("a", 0o600)
    agent.files.mkdir("empty")
    agent.store.set("state", "step", 1)
    with pytest.raises(InvalidValue):
        agent.files.write("a", "a", mode=-1)
    assert place.types() == ["file.written"]


def test_every_step_of_a_timeline_is_told(place: Place, agent: Namespace) -> None:
    agent.files.write("plan", "one")
    first = agent.snapshot("first")
    agent.files.write("plan", "two")
    restored = agent.restore(first)
    agent.undo()
    agent.redo()
    agent.pin(first)
    agent.unpin(first)
    agent.delete_snapshot(first.id)
    agent.recover_snapshot(first.id)
    agent.fork("bob")
    place.vault.delete_namespace("bob")
    told = [event for event in place.told() if event.type != "file.written"]
    # The snapshot that keeps what a restore replaces is part of the restore.
    assert [event.type for event in told] == [
        "snapshot.created",
        "snapshot.restored",
        "snapshot.undone",
        "snapshot.redone",
        "snapshot.pinned",
        "snapshot.unpinned",
        "snapshot.deleted",
        "snapshot.recovered",
        "namespace.forked",
        "namespace.deleted",
    ]
    made = data_of(told[0])
    assert (made["snapshot_id"], made["label"]) == (first.id, "first")
    assert (made["kind"], made["size_bytes"]) == ("snapshot", 3)
    back = data_of(told[1])
    assert restored.snapshot is not None
    assert back["snapshot_id"] == first.id
    assert back["new_snapshot_id"] == restored.snapshot.id
    assert back["files_restored"] == 1
    assert place_in(back) == (restored.snapshot.number, restored.snapshot.parent, None)
    for event in (told[0], *told[4:8]):
        assert (data_of(event)["snapshot_id"], data_of(event)["label"]) == (first.id, "first")
        assert place_in(data_of(event)) == (1, None, None)
    assert data_of(told[-1])["namespace"] == "bob"
    assert told[-1].namespace == "bob"
    assert agent.traces.get(made["trace_id"]).action == "snapshot.taken"


def test_snapshots_that_go_together_are_told_one_by_one(place: Place, agent: Namespace) -> None:
    gone = list[str]()
    for label in ("one", None, "three"):
        agent.files.write("a", str(label))
        gone.append(agent.snapshot(label).id)
    agent.store.clear_history()
    told = [event for event in place.told() if event.type == "snapshot.deleted"]
    labels = {data_of(event)["snapshot_id"]: data_of(event)["label"] for event in told}
    assert labels == {gone[0]: "one", gone[1]: None}
    places = {place_in(data_of(event)) for event in told}
    assert places == {(1, None, None), (2, gone[0], None)}
    assert len({event.id for event in told}) == 2


def test_sessions_and_memories_are_told_without_what_is_in_them(
    place: Place, agent: Namespace
) -> None:
    secret = "the password is swordfish"
    session = agent.sessions.create("bot", initial_state={"note": secret})
    agent.sessions.update_state(session.id, {"note": secret + "!"}, reasoning=secret)
    agent.sessions.add_turn(session.id, secret, secret, reasoning=secret)
    agent.sessions.rollback(session.id, 0)
    agent.memory.add(secret, session_id=session.id)
    told = place.told()
    assert [event.type for event in told] == [
        "session.created",
        "state.updated",
        "turn.added",
        "state.rolled_back",
        "memory.created",
    ]
    assert all(data_of(event)["session_id"] == session.id for event in told)
    assert data_of(told[3])["to_version"] == 0
    assert not [event for event in told if "swordfish" in event.data]


def test_keys_are_told_by_their_ids_to_those_who_see_all(place: Place, agent: Namespace) -> None:
    agent.files.write("a", "a")
    key = place.vault.keys.create("ci")
    secret = key.api_key
    place.vault.keys.revoke(key.id)
    told = place.told()[1:]
    assert [event.type for event in told] == ["key.created", "key.revoked"]
    assert data_of(told[0])["key_id"] == key.id
    assert data_of(told[0])["name"] == "ci"
    assert data_of(told[0])["scope"] == "workspace", "as the routes of keys call it"
    assert not [event for event in told if secret in event.data]
    assert [event.namespace for event in told] == [None, None]
    assert [event.type for event in place.told(namespace="alice")] == ["file.written"]


def test_a_trace_of_ones_own_is_told_as_that_whatever_it_calls_itself(
    place: Place, agent: Namespace
) -> None:
    agent.traces.add("key.created", resource_type="key", resource_id="key-1", details={"x": "y"})
    agent.traces.add("deploy")
    told = place.told()
    assert [event.type for event in told] == ["trace.created", "trace.created"]
    assert [data_of(event)["action"] for event in told] == ["key.created", "deploy"]
    assert "x" not in data_of(told[0])


def work(agent: Namespace) -> None:
    """Does what is told in each of the ways that there are."""
    agent.files.write("a", "a")
    agent.files.write_many([("b", "b"), ("c", "c")])
    agent.sessions.create("bot", session_id="sess_1")
    agent.sessions.update_state("sess_1", {"n": 1})
    before = agent.snapshot()
    agent.files.delete("a")
    agent.restore(before)


WORK = [
    *("file.written", "file.written", "file.written", "session.created", "state.updated"),
    *("snapshot.created", "file.deleted", "snapshot.restored"),
]


def told_rows(catalog: Catalog) -> int:
    with catalog.read() as transaction:
        return len(transaction.list_unnumbered(TenantId(1), most=1000))


def test_nothing_is_told_where_nobody_has_ever_listened(quiet: Place) -> None:
    work(quiet.vault.namespace("alice"))
    quiet.vault.collect()
    quiet.vault.look_after()
    assert told_rows(quiet.catalog) == 0
    with quiet.catalog.read() as transaction:
        assert transaction.last_event(TenantId(1)) == 0
        assert not transaction.is_heard()


def test_whoever_writes_is_heard_once_somebody_listens(quiet: Place) -> None:
    agent = quiet.vault.namespace("alice")  # Opened before anybody listened.
    agent.files.write("before", "nobody")
    packs = DiskBlobStore(quiet.folder / "packs")
    listener = Holdfast(Context.of(quiet.catalog, packs, clock=quiet.clock))
    listener.events.listen()
    work(agent)
    assert [event.type for event in listener.events.page(after=0)] == WORK


def test_to_ask_for_events_is_to_listen(quiet: Place) -> None:
    assert quiet.vault.events.last() == 0
    work(quiet.vault.namespace("alice"))
    assert quiet.types() == WORK


def test_a_webhook_listens(quiet: Place) -> None:
    quiet.vault.webhooks.create("https://hooks.example.com/")
    work(quiet.vault.namespace("alice"))
    assert told_rows(quiet.catalog) == len(WORK)
    assert quiet.types() == ["webhook.created", *WORK]


# In which order


def test_no_two_have_the_same_instant_though_the_clock_stands_still(
    place: Place, agent: Namespace
) -> None:
    agent.files.write_many((f"{number}.txt", "x") for number in range(50))
    place.clock.now = NOON - timedelta(hours=1)  # And though it goes back.
    agent.files.write("late", "x")
    events = place.told()
    assert numbers(events) == list(range(1, 52))
    instants = [event.created_us for event in events]
    assert instants == list(range(instants[0], instants[0] + 51))
    assert to_us(NOON) in instants
    assert len({event.id for event in events}) == 51


def test_another_tenant_has_its_own(place: Place, agent: Namespace) -> None:
    agent.files.write("a", "a")
    other = place.vault.tenant("other")
    other.namespace("alice").files.write("b", "b")
    assert numbers(place.told()) == [1]
    found, _ = other.events.list()
    assert numbers(found) == [1]
    assert data_of(found[0])["path"] == "workspace/b"
    assert other.events.find(place.told()[0].id) is None


def test_an_event_is_found_by_its_id_and_by_no_other(place: Place, agent: Namespace) -> None:
    agent.files.write("a", "a")
    event = place.told()[0]
    assert place.vault.events.find(event.id) == event
    for other in (event.id[:-1] + "z", "evt-", "x", "evt-" + "f" * 60, "evt--1" + "0" * 14, ""):
        assert place.vault.events.find(other) is None


# Pages


def test_pages_lead_from_the_newest_to_the_oldest(place: Place, agent: Namespace) -> None:
    agent.files.write_many((f"{number}.txt", "x") for number in range(25))
    seen, cursor = list[int](), None
    for size in (10, 10, 5):
        page, cursor = place.vault.events.list(limit=10, cursor=cursor)
        assert len(page) == size
        seen += numbers(page)
    assert seen == list(range(25, 0, -1))
    assert cursor is None


def test_a_page_that_is_just_full_leads_nowhere(place: Place, agent: Namespace) -> None:
    agent.files.write_many((f"{number}.txt", "x") for number in range(10))
    page, cursor = place.vault.events.list(limit=10)
    assert (len(page), cursor) == (10, None)


def test_what_is_no_cursor_is_refused(place: Place) -> None:
    for cursor in ("x", "c", "c-1", "c1; rm", "c" + "f" * 16, "cG", "c" + chr(0xFF11)):
        with pytest.raises(InvalidValue, match="not a cursor"):
            place.vault.events.list(cursor=cursor)


def test_what_never_was_a_cursor_is_refused_whatever_is_asked_for(
    place: Place, agent: Namespace
) -> None:
    agent.files.write_many((f"{number}.txt", "x") for number in range(5))
    _, cursor = place.vault.events.list(limit=3)
    assert cursor is not None
    for _ in range(2):
        for other in ("1", "a", "bad", "c0", "c1", cursor[1:], cursor[:-1], f"{cursor}0"):
            for wanted in ({}, {"namespace": agent.name}, {"types": ["file.written"]}):
                with pytest.raises(InvalidValue, match="not a cursor"):
                    place.vault.events.list(cursor=other, **wanted)
        # They are none when events are gone, either.
        place.clock.wait(KEPT + timedelta(days=1))
        assert purge_events(place.vault._context, TenantId(1))
        agent.files.write("new", "x")


def test_a_cursor_of_events_that_are_gone_ends_the_list(place: Place, agent: Namespace) -> None:
    agent.files.write_many((f"{number}.txt", "x") for number in range(25))
    _, cursor = place.vault.events.list(limit=10)
    _, later = place.vault.events.list(limit=5)
    assert cursor is not None
    place.clock.wait(KEPT + timedelta(days=1))
    for new in (0, 3):
        agent.files.write_many((f"new/{number}", "x") for number in range(new))
        purge_events(place.vault._context, TenantId(1))
        assert len(place.told()) == new
        for each in (cursor, later):
            for wanted in ({}, {"namespace": agent.name}, {"types": ["file.written"]}):
                assert place.vault.events.list(cursor=each, limit=10, **wanted) == ([], None)


def test_events_that_are_missing_are_named_on_every_page(place: Place, agent: Namespace) -> None:
    agent.files.write_many((f"{number}.txt", "x") for number in range(25))
    _, cursor = place.vault.events.list(limit=10)
    seen = [event for event in place.told() if event.number == 16]
    assert cursor == f"c{seen[0].created_us:x}"
    # Behind the cursor, with what it is of, and all that is older.
    for gone, named in (("number = 15", 15), ("number BETWEEN 2 AND 16", 2), ("number = 1", 1)):
        run_in(place.where or place.folder, f"DELETE FROM events WHERE {gone}")
        with pytest.raises(Damaged, match=f"events are missing at number {named}\\b"):
            place.vault.events.list(limit=100, cursor=cursor)


def test_types_are_matched_exactly_and_known_under_other_names(
    place: Place, agent: Namespace
) -> None:
    session = agent.sessions.create("bot")
    agent.sessions.rollback(session.id, 0)
    agent.snapshot()
    agent.files.write("a", "a")

    def types(*wanted: str) -> list[str]:
        return [event.type for event in place.told(types=wanted)]

    assert types("state.rolled_back") == ["state.rolled_back"]
    assert types("trace.rollback") == ["state.rolled_back"]
    assert types("snapshot.taken", "file.written") == ["snapshot.created", "file.written"]
    assert types("file.*") == ["file.written"]
    for nothing in ("state.rolledXback", "STATE.ROLLED_BACK", "%", "file", "nothing.*", "'--"):
        assert types(nothing) == []


def test_since_is_strictly_later_and_comes_back_as_it_was_shown(
    place: Place, agent: Namespace
) -> None:
    agent.files.write_many((f"{number}.txt", "x") for number in range(3))
    shown = envelope(place.told()[1], workspace_id="ws-1")["created_at"]
    assert len(shown) == len("2026-03-01T12:00:00.000000Z")
    later, _ = place.vault.events.list(since=datetime.fromisoformat(shown))
    assert numbers(later) == [3]


def test_a_follower_misses_none_though_more_happened_than_fits_on_a_page(
    place: Place, agent: Namespace
) -> None:
    agent.files.write_many((f"{number}.txt", "x") for number in range(450))
    since, seen = NOON - timedelta(days=1), list[int]()
    while True:
        page, cursor = place.vault.events.list(since=since, limit=MAX_LISTED)
        assert cursor is None
        if not page:
            break
        assert numbers(page) == sorted(numbers(page), reverse=True)
        seen += numbers(page)[::-1]
        since = datetime.fromisoformat(envelope(page[0], workspace_id="ws-1")["created_at"])
    assert seen == list(range(1, 451))


def test_whoever_lists_since_an_instant_gets_the_newest(place: Place, agent: Namespace) -> None:
    agent.files.write_many((f"{number}.txt", "x") for number in range(30))
    page, cursor = place.vault.events.list(since=NOON - timedelta(days=1), limit=20)
    assert numbers(page) == list(range(30, 10, -1))
    page, cursor = place.vault.events.list(since=NOON - timedelta(days=1), limit=20, cursor=cursor)
    assert numbers(page) == list(range(10, 0, -1))


def test_events_age_out_and_their_numbers_go_on(place: Place, agent: Namespace) -> None:
    agent.files.write("old", "x")
    place.clock.now = NOON + KEPT - timedelta(seconds=1)
    agent.files.write("young", "x")
    place.vault.forget()
    old, young = place.told()
    assert numbers([old, young]) == [1, 2]
    place.vault.events.check_kept(old.id, says_number=True)
    place.clock.now = NOON + KEPT + timedelta(seconds=1)
    place.vault.forget()
    assert numbers(place.told()) == [2]
    place.vault.events.check_kept(young.id, says_number=True)
    place.vault.events.check_kept("evt_of_nobody", says_number=True)
    for begins in (2, None):
        with pytest.raises(NoLongerKept) as refused:
            place.vault.events.check_kept(old.id, says_number=begins is not None)
        assert refused.value.begins == begins
    place.clock.now = NOON + 3 * KEPT
    place.vault.forget()
    with pytest.raises(NoLongerKept, match="begin at number 3"):
        place.vault.events.check_kept(young.id, says_number=True)
    agent.files.write("new", "x")
    assert numbers(place.told()) == [3]


def test_however_many_age_out_all_of_them_do(
    place: Place, agent: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PURGED", 2)
    agent.files.write_many((f"{number}.txt", "x") for number in range(5))
    place.clock.now = NOON + KEPT + timedelta(seconds=1)
    agent.files.write("young", "x")
    place.vault.forget()
    assert numbers(place.told()) == [6]


# Many at once

WRITER = """
import sys
from holdfast.wiring import open_vault
location, objects, name, each = sys.argv[1:]
with open_vault(location, objects=objects) as vault:
    agent = vault.namespace(name)
    for number in range(int(each)):
        agent.files.write(f"{number}.txt", name)
"""


def follow(events: Events, since: datetime) -> tuple[list[EventRow], datetime]:
    page, _ = events.list(since=since, limit=MAX_LISTED)
    if page:
        since = datetime.fromisoformat(envelope(page[0], workspace_id="ws-1")["created_at"])
    return page[::-1], since


def test_who_follows_while_many_processes_write_sees_each_once(place: Place) -> None:
    location = place.where or str(place.folder)
    arguments = [location, str(place.folder / "packs")]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, *arguments, f"agent-{number}", str(EACH)])
        for number in range(WRITERS)
    ]
    since, seen = datetime(2020, 1, 1, tzinfo=UTC), list[EventRow]()
    try:
        while True:
            is_over = all(writer.poll() is not None for writer in writers)
            page, since = follow(place.vault.events, since)
            seen += page
            if is_over and not page:
                break
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert [writer.returncode for writer in writers] == [0] * WRITERS
    assert numbers(seen) == list(range(1, WRITERS * EACH + 1))
    paths = {(event.namespace, data_of(event)["path"]) for event in seen}
    assert len(paths) == WRITERS * EACH


def test_what_was_written_is_told_to_whoever_asks_next(place: Place, agent: Namespace) -> None:
    for number in range(1, 9, 4):
        agent.files.write("a", f"{number}")
        assert numbers(place.vault.events.page(after=number - 1)) == [number]
        agent.sessions.create("planner", session_id=f"s{number}")
        assert place.vault.events.last() == number + 1
        agent.snapshot()
        assert place.types()[-1] == "snapshot.created"
        place.vault.keys.create("ops")
        assert place.told()[-1] == place.vault.events.find(place.told()[-1].id)
        assert place.vault.events.last() == number + 3


def test_who_tells_something_waits_for_nobody_who_numbers_or_tells(
    place: Place, agent: Namespace
) -> None:
    """And what is told later, and seen first, has the lower number."""
    if not place.where:
        pytest.skip("SQLite has one writer at a time")
    agent.files.write("a", "a")
    bob, tenant = place.vault.namespace("bob"), place.vault._tenant.id
    context = place.vault._context
    with place.catalog.write() as transaction:
        head = bob._handle.lock_or_create(transaction)
        transaction.lock_event_end(tenant)
        tell(transaction, context, head, lambda: [Occurrence("file.written", {"path": "slow"})])
        with ThreadPoolExecutor(1) as pool:
            pool.submit(agent.files.write, "a", "quick").result(timeout=20)
            pool.submit(agent.snapshot).result(timeout=20)
    with place.catalog.write() as transaction:
        head = bob._handle.lock(transaction)
        tell(transaction, context, head, lambda: [Occurrence("file.written", {"path": "slower"})])
        before = place.told()
        agent.files.write("a", "quicker")
        seen = place.told()
    assert seen[: len(before)] == before
    assert len(seen) == len(before) + 1
    after = place.told()
    assert after[: len(seen)] == seen
    assert data_of(after[-1]) == {"path": "slower"}
    assert numbers(after) == [*range(1, len(after) + 1)]
    instants = [event.created_us for event in after]
    assert instants == sorted(set(instants))


@pytest.mark.parametrize("numbers_too", [True, False])
def test_who_waited_for_numbers_sees_those_that_were_given_out_meanwhile(
    place: Place, agent: Namespace, *, numbers_too: bool
) -> None:
    if not place.where:
        pytest.skip("SQLite has one writer at a time")
    agent.files.write("a", "a")
    tenant, context = place.vault._tenant.id, place.vault._context
    before = place.told()
    agent.files.write("b", "b")

    def wait() -> bool:
        with place.catalog.write() as transaction:
            if numbers_too:
                return transaction.lock_event_end(tenant)[0] == len(before) + 1
            return not transaction.mend_event_end(tenant)

    # It may go through a pooler, and asks the same again and again.
    asking = psycopg.connect(place.where, autocommit=True, prepare_threshold=None)
    with ThreadPoolExecutor(1) as pool, asking as other:
        other.execute("UPDATE holdfast.event_ends SET number = number + 64")
        with place.catalog.write() as transaction:
            assert transaction.mend_event_end(tenant)
            waiting = pool.submit(wait)
            while (
                not waiting.done()
                and not other.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone()
            ):
                pass
            number_all(transaction, context, tenant)
        assert waiting.result(timeout=20)
    assert numbers(place.told()) == [*range(1, len(before) + 2)]
    assert place.vault.events.last() == len(before) + 1


def test_more_than_is_numbered_at_once_is_numbered(
    place: Place, agent: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_BATCH", 2)
    agent.files.write_many([(f"{number}", "a") for number in range(7)])
    hook = place.vault.webhooks.create("https://example.com/hook")
    assert (hook.cursor, place.vault.events.last()) == (8, 8)  # Seven files, and its own making.
    agent.files.write_many([(f"{number}", "b") for number in range(7)])
    assert numbers(place.told()) == [*range(1, 16)]


def test_writers_of_traces_and_of_files_do_not_wait_for_each_other_for_ever(
    place: Place,
) -> None:
    def work(number: int) -> None:
        agent = place.vault.namespace(f"agent-{number % 3}")
        for round_ in range(8):
            if number % 2:
                agent.files.write(f"{number}-{round_}", "x")
            else:
                agent.traces.add("deploy")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert numbers(place.told()) == list(range(1, 49))
