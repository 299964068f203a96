"""A connection that made the last commit of all asks for nothing that it knows; nobody else's
commit, nor that of a tool, is overlooked by it."""

import sqlite3
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import holdfast
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.catalog.sqlite_connections import Connection, SqliteConnections
from holdfast.catalog.sqlite_transaction import count_at_once
from holdfast.engine.core.replying import Replying
from holdfast.engine.namespace import Namespace
from holdfast.errors import QuotaExceeded, RequestRunning
from holdfast.ids import TenantId
from holdfast.instants import from_us
from holdfast.model.basics import Head
from holdfast.model.replies import Reply

START = from_us(0)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects what connections that write are told."""
    said, open_connection = list[str](), SqliteConnections._open

    def opened(self: SqliteConnections, *, writing: bool) -> Connection:
        connection = open_connection(self, writing=writing)
        if writing:
            connection.set_trace_callback(said.append)
        return connection

    monkeypatch.setattr(SqliteConnections, "_open", opened)
    return said


@pytest.fixture
def vault(tmp_path: Path) -> Generator[holdfast.Holdfast]:
    with holdfast.open(tmp_path / "vault") as vault:
        sessions = vault.namespace("alice").sessions
        for name in ("s", "other"):
            sessions.create("bot", session_id=name, initial_state={})
        for number in range(3):
            sessions.update_state("s", {"n": number})
        yield vault


def run_by_a_tool(tmp_path: Path, statement: str) -> None:
    with closing(sqlite3.connect(tmp_path / "vault/catalog.sqlite")) as tool, tool:
        tool.execute(statement)


def asked(told: list[str]) -> list[str]:
    return [each for each in told if each.startswith("SELECT")]


def test_who_wrote_a_session_last_asks_nothing(told: list[str], vault: holdfast.Holdfast) -> None:
    sessions = vault.namespace("alice").sessions
    told.clear()
    sessions.update_state("s", {"n": 4})
    assert asked(told) == []
    assert len(told) == 8, told
    sessions.update_state("other", {"n": 4})
    sessions.update_state("other", {"n": 5})
    told.clear()
    # Of the head, what it left is the newest; of this session nobody can say.
    sessions.update_state("s", {"n": 5})
    assert len(asked(told)) == 1, told
    assert sessions.get_state("s").state == {"n": 5}


def test_what_a_tool_wrote_is_seen(tmp_path: Path, vault: holdfast.Holdfast) -> None:
    """It counts no commit; SQLite says that there was one."""
    sessions = vault.namespace("alice").sessions
    run_by_a_tool(tmp_path, "UPDATE tenants SET quota_bytes = 1, checksum = NULL")
    with pytest.raises(QuotaExceeded):
        sessions.update_state("s", {"n": 4})
    run_by_a_tool(tmp_path, "UPDATE tenants SET quota_bytes = NULL")
    run_by_a_tool(tmp_path, "INSERT INTO listening (what, since) VALUES ('events', 0)")
    sessions.update_state("s", {"n": 5})
    assert [each.type for each in vault.events.list()[0]] == ["state.updated"]


def test_who_begins_to_listen_hears_the_next_write(vault: holdfast.Holdfast) -> None:
    """It is written by the connection that the next write goes through."""
    vault.events.listen()
    vault.namespace("alice").sessions.update_state("s", {"n": 4})
    assert [each.type for each in vault.events.list()[0]] == ["state.updated"]


def test_a_count_does_not_go_with_the_row_that_has_it(tmp_path: Path) -> None:
    """Of a transaction that changes the row of a namespace, and deletes it."""
    with closing(SqliteCatalog(tmp_path)) as catalog:
        with catalog.write() as transaction:
            tenant = transaction.add_tenant("t", public_id="t", now=START)
            head = transaction.add_namespace(empty_head(tenant.id))
        assert head is not None
        before = count_in(tmp_path)
        with catalog.write() as transaction:
            assert transaction.delete_namespace(head.namespace_id, now=START)
            assert transaction.purge_namespace(head.namespace_id)
        assert count_in(tmp_path) == before + 1
        with catalog.write() as transaction:
            assert transaction.add_namespace(empty_head(tenant.id)) is not None
        assert count_in(tmp_path) == before + 2


def count_in(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "catalog.sqlite", isolation_level=None)) as tool:
        return count_at_once(tool)


def empty_head(tenant_id: TenantId) -> Head:
    return Head.of_nothing(tenant_id, "alice", now=START)


def test_what_was_undone_with_its_answer_is_not_believed(vault: holdfast.Holdfast) -> None:
    alice = vault.namespace("alice")
    handle = alice._handle
    replying = Replying(handle.context.catalog, lambda _, __: False)
    request = Namespace(replace(handle, context=replace(handle.context, catalog=replying)))

    def answer() -> None:
        with replying.answering():
            assert request.sessions.update_state("s", {"undone": True}).version == 4
            replying.keep(Reply(fingerprint=b"", created_at=START, leased_until=START))

    with pytest.raises(RequestRunning):
        answer()
    # The next commit of this connection has the number that the undone one would have had.
    vault.namespace("bob").sessions.create("bot", session_id="x", initial_state={})
    made = alice.sessions.update_state("s", {"real": 1})
    assert (made.version, made.state) == (4, {"n": 2, "real": 1})
    assert [each.number for each in alice.sessions.history("s")] == [0, 1, 2, 3, 4]
    assert vault.verify().faults == []
