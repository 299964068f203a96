"""A connection that is lost in the very moment of a commit: whoever moves a timeline finds out."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import holdfast
from holdfast.catalog.postgres_lines import Answer
from holdfast.catalog.postgres_talk import WRITING, Talk
from holdfast.errors import OutcomeUnknown, Unavailable

pytestmark = pytest.mark.postgres

PATIENCE_S = 20.0

Harm = Callable[[Talk], None]


@pytest.fixture
def vault(postgres_url: str, tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(postgres_url, objects=tmp_path / "packs") as vault:
        yield vault


@pytest.fixture
def project(vault: holdfast.Holdfast, tmp_path: Path) -> holdfast.Workspace:
    """A directory whose newest snapshot has another file than the one before."""
    place = tmp_path / "project"
    place.mkdir()
    project = vault.workspace(place)
    for text in ("first", "second"):
        (place / "a.txt").write_text(text)
        project.snapshot(text)
    return project


@pytest.fixture
def at_commit(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Harm]]:
    """Takes what shall happen to the next transactions that write, in place of their commits."""
    harms, commit = list[Harm](), Talk.commit

    def harmed(self: Talk) -> None:
        if cast("Any", self)._begin == WRITING and harms:
            harms.pop(0)(self)
        commit(self)

    monkeypatch.setattr(Talk, "commit", harmed)
    yield harms
    assert not harms


def lose_the_answer(talk: Talk) -> None:
    """Has the server commit, and hang up on us before it can say so."""
    known = cast("Any", talk)
    if known._said is None:
        known._line.send("COMMIT", None, Answer())
    else:
        known._send(None)
        known._said = None
    line = known._line
    line.pgconn.pipeline_sync()
    assert line.pgconn.flush() == 0
    with socket.socket(fileno=os.dup(line.pgconn.socket)) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def lose_the_question(talk: Talk) -> None:
    """Ends the connection before the server is told to commit."""
    line = cast("Any", talk)._line
    info = line.connection.info
    with psycopg.connect(info.dsn, password=info.password, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", (info.backend_pid,))


def wait_until_back(vault: holdfast.Holdfast) -> None:
    """Waits until the database is used again that some have waited for in vain."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with suppress(Unavailable):
            return vault.ping()
        assert time.monotonic() < deadline


def text_in(project: holdfast.Workspace) -> str:
    return (project.path / "a.txt").read_text()


def kinds(project: holdfast.Workspace) -> list[str]:
    return [snapshot.kind.value for snapshot in project.namespace.timeline()][::-1]


def test_a_restore_whose_commit_happened_is_one_that_happened(
    project: holdfast.Workspace, at_commit: list[Harm]
) -> None:
    at_commit.append(lose_the_answer)
    done = project.restore("@-1")
    assert done.verified
    assert text_in(project) == "first"
    assert kinds(project) == ["snapshot", "snapshot", "restore"]
    assert not project.status().changes
    project.undo()
    assert text_in(project) == "second"


def test_a_restore_whose_commit_did_not_happen_turns_back(
    project: holdfast.Workspace, at_commit: list[Harm]
) -> None:
    at_commit.append(lose_the_question)
    with pytest.raises(Unavailable, match="nothing was changed") as caught:
        project.restore("@-1")
    assert not isinstance(caught.value, OutcomeUnknown)
    assert text_in(project) == "second"
    assert kinds(project) == ["snapshot", "snapshot"]
    assert not project.status().changes


@pytest.mark.parametrize("harm", [lose_the_answer, lose_the_question])
def test_where_nobody_can_say_the_directory_waits_for_who_can(
    vault: holdfast.Holdfast,
    project: holdfast.Workspace,
    at_commit: list[Harm],
    postgres_url: str,
    harm: Harm,
) -> None:
    name = str(conninfo_to_dict(postgres_url)["dbname"])
    elsewhere = make_conninfo(postgres_url, dbname="postgres")
    lines = cast("Any", vault)._context.catalog._lines
    lines.timeout = 0.5

    def allow_connections(*, allowed: bool) -> None:
        change = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        with psycopg.connect(elsewhere, autocommit=True) as other:
            other.execute(change.format(sql.Identifier(name), sql.Literal(allowed)))
            if not allowed:
                other.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                    " WHERE datname = %s AND state != 'active'",
                    (name,),
                )

    def go_away(talk: Talk) -> None:
        harm(talk)
        allow_connections(allowed=False)

    at_commit.append(go_away)
    with pytest.raises(OutcomeUnknown):
        project.restore("@-1")
    assert text_in(project) == "first"
    allow_connections(allowed=True)
    lines.timeout = PATIENCE_S
    wait_until_back(vault)
    assert not project.status().changes
    happened = harm is lose_the_answer
    assert text_in(project) == ("first" if happened else "second")
    assert project.namespace.timeline()[0].kind.value == "restore"
    project.undo() if happened else project.restore("@")
    assert text_in(project) == "second"


def test_a_snapshot_of_a_new_namespace_is_there_if_it_is_said_to_be(
    vault: holdfast.Holdfast, at_commit: list[Harm]
) -> None:
    at_commit.append(lose_the_answer)
    taken = vault.namespace("new").snapshot()
    assert [each.id for each in vault.namespace("new").timeline()] == [taken.id]
    at_commit.append(lose_the_question)
    with pytest.raises(Unavailable, match="nothing was changed"):
        vault.namespace("another").snapshot()
    assert vault.namespaces() == ["new"]


def test_a_fork_that_may_have_happened_is_not_said_not_to_have(
    vault: holdfast.Holdfast, at_commit: list[Harm]
) -> None:
    agent = vault.namespace("agent")
    agent.files.write("a.txt", b"1")
    agent.snapshot()
    at_commit.append(lose_the_answer)
    with pytest.raises(OutcomeUnknown):
        agent.fork("copy")
    # The server was told to commit, and does so when it comes to it.
    deadline = time.monotonic() + PATIENCE_S
    while vault.namespaces() != ["agent", "copy"]:
        assert time.monotonic() < deadline


def test_a_version_that_may_have_come_about_is_not_said_not_to_have(
    vault: holdfast.Holdfast, at_commit: list[Harm]
) -> None:
    sessions = vault.namespace("agent").sessions
    sessions.create("bot", session_id="s", initial_state={"n": 0})
    for number in (1, 2, 3):
        sessions.update_state("s", {"n": number})
    # Nothing is asked any more: what is said is one piece, and committed at its end.
    at_commit.append(lose_the_answer)
    with pytest.raises(OutcomeUnknown):
        sessions.update_state("s", {"n": 4})
    deadline = time.monotonic() + PATIENCE_S
    while sessions.get_state("s").version != 4:
        assert time.monotonic() < deadline
    at_commit.append(lose_the_question)
    with pytest.raises(Unavailable):
        sessions.update_state("s", {"n": 5})
    assert sessions.get_state("s").state == {"n": 4}
    sessions.update_state("s", {"n": 6})
    assert [each.number for each in sessions.history("s", limit=9)] == [0, 1, 2, 3, 4, 5]
