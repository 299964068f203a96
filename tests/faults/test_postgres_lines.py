"""Connections to PostgreSQL: how often they are waited for, and what happens when they break."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from psycopg import sql
from psycopg.adapt import Transformer
from psycopg.pq import Format
from psycopg.rows import dict_row

import holdfast
from holdfast.catalog import postgres_lines
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.postgres_driver import CHECK_FORMAT
from holdfast.catalog.postgres_lines import Answer, Line, Parameters
from holdfast.catalog.tables import newest_format
from holdfast.catalog.transaction import Transaction
from holdfast.engine.journal.replies import reply_of
from holdfast.errors import Busy, Conflict, InvalidValue, NotAsExpected
from holdfast.ids import NamespaceId, TenantId
from holdfast.model.replies import ReplyPlace
from holdfast.model.sessions import BranchRow
from holdfast.model.values import ABSENT
from holdfast.testing.counting import functions_called

pytestmark = pytest.mark.postgres

NOW = datetime(2026, 1, 1, tzinfo=UTC)

ASKED = {
    "update_state": (1, 1),
    "add_turn": (4, 1),
    "turn with a state": (8, 3),
    "rollback": (6, 2),
    "get_state": (1, 1),
    "an old state": (5, 3),
    "history": (5, 3),
    "store.set": (7, 3),
    "store.get": (3, 1),
    "files.write": (9, 3),
    "files.write of 3 KB": (9, 3),
    "files.read": (3, 1),
    # The quota among them: where content is new, that comes with the epoch.
    "a snapshot of nothing new": (14, 4),
    "a snapshot": (23, 5),
    "restore": (36, 8),
}
"""How many statements an operation has sent, and how often it waits for the database, of who has
the namespace to itself. The limits that were set: 5 waits for a write, 8 for a snapshot, 14 for a
restore."""


@pytest.fixture
def vault(postgres_url: str, tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(postgres_url, objects=tmp_path / "packs") as vault:
        yield vault


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts statements, and waits for their answers."""
    counts, send, receive = [0, 0], Line.send, Line.receive

    def counted_send(self: Line, query: str, parameters: Parameters | None, answer: Answer) -> None:
        counts[0] += 1
        send(self, query, parameters, answer)

    def counted_receive(self: Line) -> None:
        counts[1] += 1
        receive(self)

    monkeypatch.setattr(Line, "send", counted_send)
    monkeypatch.setattr(Line, "receive", counted_receive)
    return counts


def operations(agent: holdfast.Namespace) -> dict[str, Callable[[int], object]]:
    agent.sessions.create("bot", session_id="s", initial_state={"n": 0})
    agent.files.write("a.txt", "first")
    return calls_of(agent, agent.snapshot())


def calls_of(
    agent: holdfast.Namespace, taken: holdfast.SnapshotInfo
) -> dict[str, Callable[[int], object]]:
    sessions = agent.sessions
    return {
        "update_state": lambda n: sessions.update_state("s", {"n": n}),
        "add_turn": lambda n: sessions.add_turn("s", input=str(n), output="yes"),
        "turn with a state": lambda n: sessions.add_turn(
            "s", input=str(n), output="yes", state_after={"n": -n}
        ),
        "rollback": lambda n: sessions.rollback("s", n % 3),
        "get_state": lambda _: sessions.get_state("s"),
        "an old state": lambda _: sessions.get_state("s", version=1),
        "history": lambda _: sessions.history("s", limit=5),
        "store.set": lambda n: agent.store.set("a", "key", n),
        "store.get": lambda _: agent.store.get("a", "key"),
        "files.write": lambda n: agent.files.write("a.txt", str(n)),
        "files.write of 3 KB": lambda n: agent.files.write("b.txt", f"{n:4}" * 750),
        "files.read": lambda _: agent.files.read("a.txt"),
        "a snapshot of nothing new": lambda _: agent.snapshot(),
        "a snapshot": lambda _: agent.snapshot(),
        "restore": lambda _: agent.restore(taken),
    }


def test_an_operation_asks_as_much_as_is_said(vault: holdfast.Holdfast, asked: list[int]) -> None:
    agent, found = vault.namespace("alice"), dict[str, tuple[int, ...]]()
    for name, call in operations(agent).items():
        counts = list[tuple[int, ...]]()
        for number in range(1, 6):
            if name in ("a snapshot", "restore"):
                agent.files.write("b.txt", f"{number} {name}" * 500)
            asked[:] = 0, 0
            call(number)
            counts.append(tuple(asked))
        # Once a second, a snapshot looks whether all packs are there.
        found[name] = min(counts[2:])
    assert found == ASKED


FUNCTIONS = 220
"""How many functions of Python an update may go through, with some to spare."""


def test_an_update_goes_through_no_more_functions(vault: holdfast.Holdfast) -> None:
    update = operations(vault.namespace("alice"))["update_state"]
    counts = [functions_called(lambda number=number: update(number)) for number in range(1, 9)]
    assert min(counts) <= FUNCTIONS


NAMED = {"update_state": 3, "files.write": 4, "files.write of 3 KB": 4, "a snapshot": 6}
"""How often the same waits under a name, with which it is looked for and its answer is kept. A
server also looks the key up."""


def test_a_request_under_a_name_waits_as_often_as_is_said(
    vault: holdfast.Holdfast, asked: list[int]
) -> None:
    operations(vault.namespace("alice"))
    taken, found = vault.namespace("alice").snapshot(), dict[str, int]()
    for name in NAMED:
        counts = list[int]()
        for number in range(1, 6):
            vault.namespace("alice").files.write("b.txt", f"{number} {name}" * 500)
            asked[:] = 0, 0
            place = ReplyPlace("key", "POST", "/", f"{name} {number}")
            wanted = vault.replies.look(place, b"body")
            catalog = vault.replies.begin(wanted)
            agent = vault.replying(catalog).namespace("alice")
            with catalog.answering():
                calls_of(agent, taken)[name](number)
                catalog.keep(reply_of(wanted.mine, status=200, media_type="", body=b""))
            assert catalog.is_kept
            counts.append(asked[1])
        found[name] = min(counts[2:])
    assert found == NAMED


def backends(url: str) -> list[tuple[int, str]]:
    query = "SELECT pid, state FROM pg_stat_activity WHERE application_name = 'holdfast'"
    with psycopg.connect(url) as connection:
        query += " AND datname = current_database()"
        return connection.execute(query).fetchall()


def test_a_write_that_does_not_look_never_meets_a_connection_that_the_server_has_closed(
    vault: holdfast.Holdfast, postgres_url: str
) -> None:
    calls = operations(vault.namespace("alice"))
    for number in range(1, 5):
        calls["update_state"](number)
    for name in ("update_state", "get_state", "update_state", "files.read", "add_turn"):
        if name == "files.read":
            calls["files.write"](1)
            calls["files.read"](1)
        with psycopg.connect(postgres_url) as connection:
            for pid, _ in backends(postgres_url):
                connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
        calls[name](7)
    versions = vault.namespace("alice").sessions.history("s", limit=100)
    assert [version.number for version in versions] == [*range(7)]


WAITING = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"


def waits_for_locks(url: str, *, number: int) -> bool:
    """Returns once so many wait for others in a database."""
    with psycopg.connect(url, autocommit=True) as connection:
        query = f"{WAITING} AND datname = current_database()"
        stop = time.monotonic() + 30
        while connection.execute(query).fetchone() != (number,):
            if time.monotonic() > stop:
                return False
    return True


def test_who_compares_and_writes_at_once_sees_whom_it_waited_for(
    vault: holdfast.Holdfast, postgres_url: str, tmp_path: Path
) -> None:
    calls, locks = operations(vault.namespace("alice")), "-c search_path=holdfast"
    for number in range(1, 5):
        calls["update_state"](number)
    with (
        holdfast.open(postgres_url, objects=tmp_path / "packs") as other,
        ThreadPoolExecutor(2) as threads,
    ):
        with psycopg.connect(postgres_url, options=locks) as holder:
            holder.execute("SELECT 1 FROM namespaces FOR UPDATE")
            updating = other.namespace("alice").sessions.update_state
            first = threads.submit(updating, "s", {"first": True})
            assert waits_for_locks(postgres_url, number=1)
            second = threads.submit(calls["update_state"], 5)
            assert waits_for_locks(postgres_url, number=2)
        assert first.result().version == 5
        second.result()
        found = other.namespace("alice").sessions.get_state("s")
        assert (found.version, found.state) == (6, {"n": 5, "first": True})
        assert other.verify_audit().ok


def test_what_was_asked_ahead_on_a_lost_connection_is_asked_again(postgres_url: str) -> None:
    catalog = PostgresCatalog(postgres_url)
    with closing(catalog):
        with catalog.write() as transaction:
            tenant = transaction.add_tenant("t", public_id="t", now=NOW).id
        with catalog.write() as transaction, psycopg.connect(postgres_url) as connection:
            transaction.ahead(Transaction.join_tenant, tenant)
            transaction.ahead(Transaction.find_tenant, "t")
            for pid, _ in backends(postgres_url):
                connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
            found = transaction.find_tenant("t")
            assert found is not None
            assert found.id == tenant
            assert transaction.join_tenant(tenant) == (1, None)
            # It has joined there, too: the collector's turn comes later.
            shared = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 7433"
            assert connection.execute(shared).fetchone() == (1,)


def put_next(agent: holdfast.Namespace, key: str, expected: str) -> str:
    """Puts a value if "a" is as expected; returns the tag of what was put."""
    put = agent.store.batch(set=[("t", key, "mine")], expected=[("t", "a", expected)])
    assert put is not None
    found = agent.store.batch(get=[("t", key)]).values[0]
    assert found is not None
    assert found.tag is not None
    return found.tag


def test_what_is_known_of_a_database_that_was_lost_is_not_believed_of_the_next(
    vault: holdfast.Holdfast, postgres_url: str, tmp_path: Path
) -> None:
    agent = vault.namespace("alice")
    agent.store.set("t", "0", "first")
    tag = put_next(agent, "a", ABSENT)
    put_next(agent, "b", tag)
    with psycopg.connect(postgres_url, autocommit=True, row_factory=dict_row) as connection:
        # A standby, on which somebody writes before us: its head gets to where ours has been.
        found = connection.execute("SELECT * FROM holdfast.namespaces WHERE name = 'alice'")
        head = found.fetchone()
        with holdfast.open(postgres_url, objects=tmp_path / "packs") as other:
            other.namespace("alice").store.set("t", "a", "theirs")
        assert head is not None
        changed = [name for name in head if name != "id"]
        names = sql.SQL(", ").join(map(sql.Identifier, changed))
        values = sql.SQL(", ").join(map(sql.Placeholder, changed))
        query = sql.SQL("UPDATE holdfast.namespaces SET ({}) = ROW({}) WHERE id = {}")
        query = query.format(names, values, sql.Placeholder("id"))
        assert connection.execute(query, head).rowcount == 1
        for pid, _ in backends(postgres_url):
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
    with pytest.raises(NotAsExpected):
        put_next(agent, "c", tag)


def test_who_has_read_leaves_no_transaction_open(
    vault: holdfast.Holdfast, postgres_url: str
) -> None:
    calls = operations(vault.namespace("alice"))
    calls["files.write"](1)
    calls["files.read"](1)
    # What was said last is on its way: the server has read it before it reads of anybody else.
    vault.namespace("alice").files.read("a.txt")
    states = {state for _, state in backends(postgres_url)}
    assert "idle in transaction" not in states


@pytest.fixture
def prepares() -> Iterator[None]:
    yield
    Line.may_prepare = True


@pytest.mark.usefixtures("prepares")
def test_a_server_that_has_forgotten_what_was_prepared_is_told_again(
    vault: holdfast.Holdfast,
) -> None:
    calls = operations(vault.namespace("alice"))
    for number in range(1, 5):
        calls["update_state"](number)
        calls["get_state"](number)
    forget(vault)
    calls["get_state"](0)
    assert not Line.may_prepare
    Line.may_prepare = True
    for number in range(5, 8):
        calls["update_state"](number)
    forget(vault)
    calls["update_state"](9)
    assert vault.namespace("alice").sessions.get_state("s").state == {"n": 9}
    assert vault.namespace("alice").sessions.get_state("s").version == 8


def forget(vault: holdfast.Holdfast) -> None:
    """Has the servers forget what they prepared, as if they were others behind a pooler."""
    catalog: Any = cast("Any", vault)._context.catalog
    for line in catalog._lines._idle:
        line.send("DEALLOCATE ALL", None, Answer())
        line.receive()


def insist_in_vain(catalog: PostgresCatalog) -> None:
    with catalog.write() as transaction:
        transaction.extend_branch(TenantId(1), "none", turns=0, more=0, is_sure=True)
        transaction.is_lagging(NamespaceId(0))


def test_what_was_prepared_in_vain_is_prepared_again(postgres_url: str) -> None:
    catalog = PostgresCatalog(postgres_url)
    try:
        for _ in range(4):
            with pytest.raises(Busy):
                insist_in_vain(catalog)
        assert Line.may_prepare
        with catalog.read() as transaction:
            assert not transaction.is_lagging(NamespaceId(0))
    finally:
        catalog.close()


def test_what_fails_only_when_it_is_committed_has_failed(
    vault: holdfast.Holdfast, postgres_url: str
) -> None:
    calls = operations(vault.namespace("alice"))
    for number in range(1, 4):
        calls["update_state"](number)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN RAISE unique_violation; END$$"
        )
        connection.execute(
            "CREATE CONSTRAINT TRIGGER refusing AFTER INSERT ON holdfast.versions "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        with pytest.raises(Conflict):
            calls["update_state"](7)
        assert vault.namespace("alice").sessions.get_state("s").state == {"n": 3}
        connection.execute("DROP TRIGGER refusing ON holdfast.versions")
    calls["update_state"](8)
    assert vault.namespace("alice").sessions.get_state("s").state == {"n": 8}
    assert vault.namespace("alice").sessions.get_state("s").version == 4


def add_all(catalog: PostgresCatalog, tenant: TenantId, *branches: BranchRow) -> None:
    with catalog.write() as transaction:
        for branch in branches:
            transaction.add_branch(tenant, branch)


def test_of_what_is_refused_before_it_is_sent_nothing_is_committed(postgres_url: str) -> None:
    catalog = PostgresCatalog(postgres_url)
    with closing(catalog):
        with catalog.write() as transaction:
            tenant = transaction.add_tenant("t", public_id="t", now=NOW).id
        sound, refused = (
            BranchRow(id=name, parent=None, parent_turns=0, turns=0, bytes=0)
            for name in ("sound", "no\0ne")
        )
        for _ in range(3):
            with pytest.raises(InvalidValue):
                add_all(catalog, tenant, sound, refused)
            with catalog.read() as transaction:
                assert transaction.find_branch(tenant, "sound") is None


def test_values_that_no_row_can_hold_are_refused_before_they_are_sent(postgres_url: str) -> None:
    catalog = PostgresCatalog(postgres_url)
    try:
        for name in ("a\0b", "\ud800"):
            with pytest.raises(InvalidValue), catalog.read() as transaction:
                transaction.find_head(TenantId(1), name)
        with pytest.raises(InvalidValue), catalog.read() as transaction:
            transaction.find_head(TenantId(2**70), "alice")
        with catalog.read() as transaction:
            assert transaction.find_head(TenantId(1), "alice") is None
    finally:
        catalog.close()


def test_who_writes_looks_at_no_format_that_it_knows(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {CHECK_FORMAT}"
        for known, looked_at in ((newest_format(), 0), (newest_format() - 1, 1)):
            ((plans,),) = connection.execute(
                explained.replace("::INTEGER)::INTEGER", "::INTEGER)"), {"known": known}
            )
            assert plans[0]["Plan"]["Plans"][0]["Actual Rows"] == looked_at


def test_numbers_are_sent_as_they_are_stored(postgres_url: str) -> None:
    catalog = PostgresCatalog(postgres_url)
    with closing(catalog), psycopg.connect(postgres_url) as connection:
        query = "SELECT data_type FROM information_schema.columns WHERE table_schema = 'holdfast'"
        kinds = {kind for (kind,) in connection.execute(query).fetchall()}
        # A statement that is prepared without a number takes it as its column has it.
        assert kinds == {"bigint", "bytea", "text", "tsvector"}
        with catalog.write() as transaction:
            tenant = transaction.add_tenant("t", public_id="t", now=NOW).id
        for quota in (None, 0, 2**63 - 1, None, -(2**63)):
            with catalog.write() as transaction:
                transaction.set_tenant_quota(tenant, quota)
            with catalog.read() as transaction:
                assert transaction.get_tenant_quota(tenant) == quota
    given = (7, -1, "seven", b"7", None)
    sent, forms = postgres_lines._dump(Transformer(), given)
    assert [*sent] == [(7).to_bytes(8), b"\xff" * 8, b"seven", b"7", None]
    assert [*forms] == [Format.BINARY, Format.BINARY, Format.TEXT, Format.BINARY, Format.TEXT]


def test_a_closed_catalog_has_no_connections(postgres_url: str, tmp_path: Path) -> None:
    with holdfast.open(postgres_url, objects=tmp_path / "packs") as vault:
        calls = operations(vault.namespace("alice"))
        calls["files.write"](1)
        calls["files.read"](1)
        assert backends(postgres_url)
    deadline = time.monotonic() + 30  # The server notices in its own time.
    while backends(postgres_url):
        assert time.monotonic() < deadline
