"""A server stays up while a replica that lacks what was told last becomes the primary."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

import holdfast
from holdfast.errors import HoldfastError
from holdfast.model.events import ERA, REINSTATED, Event
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.servers import ADMIN_KEY, API_KEY, Begin, Server, running_server

pytestmark = pytest.mark.in_memory

PATIENCE_S = 30.0


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with PostgresServer(in_memory=True) as server:
        yield server


@pytest.fixture
def replica(primary: PostgresServer) -> Iterator[PostgresServer]:
    with PostgresServer(standby_of=primary, in_memory=True) as server:
        yield server


class Follower(threading.Thread):
    """Listens to all that is told, for as long as its server is there."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self._server, self.seen = server, list[Event]()

    def run(self) -> None:
        with (
            suppress(HoldfastError),
            holdfast.AdminClient(ADMIN_KEY, url=self._server.url) as admin,
        ):
            self.seen.extend(admin.events.stream())

    def wait_for(self, path: str) -> None:
        wait_until(lambda: path in paths(self.seen))


def paths(events: list[Event]) -> list[str]:
    written = [each for each in events if each.type == "file.written"]
    return [each.data["path"].removeprefix("workspace/") for each in written]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_for_replica(primary: PostgresServer, replica: PostgresServer) -> None:
    with psycopg.connect(primary.dsn()) as connection:
        row = connection.execute("SELECT pg_current_wal_lsn()").fetchone()
    with psycopg.connect(replica.dsn(), autocommit=True) as connection:
        query = "SELECT pg_last_wal_replay_lsn() >= %s"
        wait_until(lambda: connection.execute(query, row).fetchone() == (True,))


def cut_off(replica: PostgresServer) -> None:
    """Lets a replica hear nothing more of its primary."""
    with psycopg.connect(replica.dsn(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
        connection.execute("SELECT pg_reload_conf()")
        query = "SELECT COUNT(*) FROM pg_stat_wal_receiver"
        wait_until(lambda: connection.execute(query).fetchone() == (0,))


def write(client: holdfast.Client, *names: str) -> None:
    for name in names:
        wait_until(partial(_writes, client, name))


def _writes(client: holdfast.Client, name: str) -> bool:
    try:
        client.files.write(name, name)
    except HoldfastError:  # The database is away for a moment.
        return False
    return True


def test_who_listens_across_a_promotion_misses_nothing_of_what_comes(
    primary: PostgresServer, replica: PostgresServer, tmp_path: Path, at_once: Begin
) -> None:
    name = primary.create_database()
    hosts = ",".join(urlsplit(each.dsn()).netloc.partition("@")[2] for each in (primary, replica))
    url = f"postgresql://postgres@{hosts}/{name}?target_session_attrs=read-write"
    environ = {"HOLDFAST_DATABASE_URL": url}
    with (
        running_server(tmp_path, environ=environ, begin=at_once) as server,
        holdfast.Client(API_KEY, url=server.url, namespace="alice") as client,
    ):
        follower = Follower(server)
        follower.start()
        write(client, "first")
        wait_until(lambda: bool(client.events.list()))
        write(client, "before")
        follower.wait_for("before")
        wait_for_replica(primary, replica)
        cut_off(replica)
        lost = [f"lost-{number}" for number in range(8)]
        write(client, *lost)
        follower.wait_for(lost[-1])
        at = follower.seen[-1].id
        primary.stop()
        replica.promote()
        new = [f"new-{number}" for number in range(4)]
        write(client, *new)
        follower.wait_for(new[-1])
        assert paths(follower.seen)[-12:] == [*lost, *new]
        assert [each.type for each in follower.seen].count(REINSTATED) == 1
        back = client.events.stream(last_event_id=at)
        assert [next(back).data["path"] for _ in new] == [f"workspace/{each}" for each in new]
        with psycopg.connect(replica.dsn(name)) as connection:
            found = connection.execute("SELECT number, timeline FROM holdfast.event_ends")
            assert found.fetchall() == [(2 * ERA + len(new), 2)]
