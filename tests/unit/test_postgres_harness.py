"""The harness's promises: a usable server, and nothing left when it or its owner is gone."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from holdfast.testing import postgres
from holdfast.testing import postgres as harness
from holdfast.testing.postgres import PostgresNotStarted, PostgresServer


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def home_of(url: str) -> Path:
    with psycopg.connect(url) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    return Path(row[0]).parent


@pytest.mark.parametrize("needed", [0, 1 << 62])
def test_a_server_starts_serves_and_goes_without_a_trace(
    monkeypatch: pytest.MonkeyPatch, needed: int
) -> None:
    monkeypatch.setattr(postgres, "MEMORY_BYTES", needed)
    with PostgresServer(in_memory=True) as server:
        pid, home = server.pid, home_of(server.dsn())
        assert (home.parent == postgres.MEMORY) == (needed == 0 and postgres.MEMORY.is_dir())
        name = server.create_database()
        with psycopg.connect(server.dsn(name)) as connection:
            assert connection.execute("SELECT current_database()").fetchone() == (name,)
            assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
        assert is_running(pid)
        assert home.exists()
    assert not is_running(pid)
    assert not home.exists()


def test_a_server_that_was_stopped_starts_again() -> None:
    server = PostgresServer()
    for _ in range(2):
        server.start()
        psycopg.connect(server.dsn()).close()
        server.stop()
        server.stop()
    with pytest.raises(PostgresNotStarted, match="not running"):
        server.dsn()


OWNER = """
import os, signal
from holdfast.testing.postgres import PostgresServer
server = PostgresServer()
server.start()
print(server.dsn(), flush=True)
input()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_owner_takes_the_server_and_its_directory_along() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        url = owner.stdout.readline().strip()
        home = home_of(url)
        owner.communicate("die\n")
    assert owner.returncode == -signal.SIGKILL
    # The sentinel works on its own and cannot tell us when it is done: looking again is all we
    # can do. Removing the directory is its last act.
    deadline = time.monotonic() + 30
    while home.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not home.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)


def test_databases_are_apart_and_copies_start_as_their_template(postgres: PostgresServer) -> None:
    template = postgres.create_database()
    with psycopg.connect(postgres.dsn(template)) as connection:
        connection.execute("CREATE TABLE notes AS SELECT 1 AS id")
    copies = [postgres.create_database(template=template) for _ in range(2)]
    with psycopg.connect(postgres.dsn(copies[0])) as connection:
        connection.execute("DELETE FROM notes")
    with psycopg.connect(postgres.dsn(copies[1])) as connection:
        assert connection.execute("SELECT id FROM notes").fetchall() == [(1,)]
    for name in (template, *copies):
        postgres.drop_database(name)


def test_dropping_ends_open_connections_and_may_be_repeated(postgres: PostgresServer) -> None:
    name = postgres.create_database()
    with psycopg.connect(postgres.dsn(name), autocommit=True) as connection:
        postgres.drop_database(name)
        postgres.drop_database(name)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_a_port_that_was_taken_meanwhile_is_given_up_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with harness.socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        find, ports = harness._free_port, iter([taken])
        monkeypatch.setattr(harness, "_free_port", lambda: next(ports, None) or find())
        with PostgresServer() as server:
            assert f":{taken}/" not in server.dsn()
            psycopg.connect(server.dsn()).close()


def test_a_server_that_cannot_start_shows_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(harness.SETTINGS, "shared_buffers", "nonsense")
    server = PostgresServer()
    with pytest.raises(PostgresNotStarted, match=re.escape('"shared_buffers": "nonsense"')):
        server.start()
    with pytest.raises(PostgresNotStarted, match="not running"):
        _ = server.pid


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_under_root_nobody_runs_the_server_from_a_copy_it_may_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(harness, "_is_open_to_all", lambda path: path.name != "postgres")
    with PostgresServer() as server:
        home = home_of(server.dsn())
        assert (home / "site").is_dir()
        assert (home / "data").owner() == "nobody"


def test_a_fresh_database_per_test(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE only_once (id int)")


def test_another_fresh_database_per_test(postgres_url: str) -> None:
    test_a_fresh_database_per_test(postgres_url)
