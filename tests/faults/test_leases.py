"""Locks that are lost, databases that are away, and poolers in between: nobody does harm."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import holdfast
from holdfast.catalog.postgres import PostgresCatalog, lock_opening
from holdfast.catalog.transaction import Transaction
from holdfast.engine.audit import alerts
from holdfast.engine.core import rounds
from holdfast.engine.objects.retired import LOCK
from holdfast.errors import Busy, Damaged, Incompatible, Unavailable
from holdfast.testing.poolers import pooled
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.proxies import Proxy

pytestmark = [pytest.mark.postgres, pytest.mark.in_memory]

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def vault(postgres_url: str, tmp_path: Path) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(postgres_url, objects=tmp_path / "packs") as vault:
        yield vault


def take_over(url: str, name: str) -> None:
    """Has somebody else hold a lock, as if its holder had stood still for longer than its term."""
    with psycopg.connect(url) as connection:
        done = connection.execute(
            "UPDATE holdfast.leases SET holder = 'another', token = token + 1 WHERE name = %s",
            (name,),
        )
        assert done.rowcount == 1


def end_terms(url: str) -> None:
    """Has the time of all locks be over, by the database's clock."""
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE holdfast.leases SET until = 0")


def end_connections(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'holdfast'"
        )


def fill(vault: holdfast.Holdfast) -> None:
    """Makes packs of which a collection moves some and drops others."""
    agent = vault.namespace("agent")
    for number in range(20):
        agent.files.write(f"{number}.bin", os.urandom(2000))
        agent.snapshot()
    for number in range(0, 20, 2):
        agent.files.delete(f"{number}.bin")
    agent.snapshot()


def interrupted(act: Callable[[], object]) -> Callable[..., None]:
    """Returns what does something once, when a collection has looked and is about to move."""
    left = [act]

    def progress(step: str, _done: int, _total: int) -> None:
        if step == "repack" and left:
            left.pop()()

    return progress


def test_a_collection_whose_connections_end_keeps_its_lock_and_is_done(
    vault: holdfast.Holdfast, postgres_url: str, tmp_path: Path
) -> None:
    fill(vault)
    met = list[bool]()

    def end_them() -> None:
        end_connections(postgres_url)
        with holdfast.open(postgres_url, objects=tmp_path / "packs") as other:
            with pytest.raises(Busy):
                other.collect()
            met.append(True)

    done = vault.collect(progress=interrupted(end_them))
    assert met == [True]
    assert done.damaged == ()
    assert vault.verify().ok


def test_a_collection_that_has_lost_its_lock_stops_and_reports_no_damage(
    vault: holdfast.Holdfast, postgres_url: str, tmp_path: Path
) -> None:
    fill(vault)
    collected = list[Any]()

    def lose_it() -> None:
        # The second one takes the lock, and works.
        end_terms(postgres_url)
        with holdfast.open(postgres_url, objects=tmp_path / "packs") as other:
            collected.append(other.collect())

    with pytest.raises(Busy, match="taken"):
        vault.collect(progress=interrupted(lose_it))
    assert collected[0].damaged == ()
    assert vault.verify().ok
    assert len(vault.namespace("agent").files.list()) == 10
    assert vault.collect().damaged == ()


def test_a_backup_that_has_lost_its_lock_reports_no_damage(
    vault: holdfast.Holdfast, postgres_url: str, tmp_path: Path
) -> None:
    """Whoever has it now may have given back what the backup was about to copy."""
    vault.namespace("agent").files.write("large.bin", os.urandom(400_000))
    vault.namespace("agent").snapshot()
    left = [*(tmp_path / "packs").rglob("*.pack")]
    assert left

    def lose_it(_step: str, _done: int, _total: int) -> None:
        if left:
            take_over(postgres_url, LOCK)
        while left:
            left.pop().unlink()

    with pytest.raises(Busy, match="taken"):
        vault.backup(tmp_path / "backup", progress=lose_it)
    end_terms(postgres_url)  # Otherwise the next one waits for it.
    with pytest.raises(Damaged, match="not backed up"):
        vault.backup(tmp_path / "backup")


def test_a_round_that_has_lost_its_lock_stops_and_counts_as_none(
    vault: holdfast.Holdfast, postgres_url: str
) -> None:
    context = cast("Any", vault)._context
    done = list[str]()

    def lose_it() -> None:
        done.append("one")
        take_over(postgres_url, rounds.LOCK)

    def chores(*_: Any, **__: Any) -> list[Callable[[], object]]:
        return [lose_it, lambda: done.append("another")]

    hour = timedelta(hours=1)
    with pytest.raises(Busy, match="taken"):
        rounds.look_after(context, chores, every=hour, collects=hour)
    assert done == ["one"]
    assert rounds.find_lags(context).looked_after_at is None

    def lose_it_last(*_: Any, **__: Any) -> list[Callable[[], object]]:
        return [lose_it]

    end_terms(postgres_url)
    with pytest.raises(Busy, match="taken"):
        rounds.look_after(context, lose_it_last, every=hour, collects=hour)
    assert rounds.find_lags(context).looked_after_at is None


def test_a_look_at_rates_that_has_lost_its_lock_is_left_to_whoever_has_it(
    vault: holdfast.Holdfast, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.events.listen()
    for tenant in ("one", "another"):
        sessions = vault.tenant(tenant).namespace("agent").sessions
        sessions.rollback(sessions.create("bot").id, 0)
    counts = Transaction.rollback_counts
    looked = list[object]()

    def losing(self: Any, tenant_id: Any, *args: Any, **more: Any) -> Any:
        looked.append(tenant_id)
        if len(looked) == 1:
            take_over(postgres_url, alerts.CHORE)
        return counts(self, tenant_id, *args, **more)

    monkeypatch.setattr(Transaction, "rollback_counts", losing)
    vault.watch_rollbacks()
    assert len(looked) == 1
    end_terms(postgres_url)
    assert vault.watch_rollbacks() == 2
    assert vault.watch_rollbacks(every=timedelta(hours=1)) == 0


def test_who_has_lost_a_lock_writes_nothing_under_it(postgres_url: str) -> None:
    with closing(PostgresCatalog(postgres_url)) as catalog:
        with catalog.write() as transaction:
            tenant = transaction.add_tenant("t", public_id="t", now=NOW).id

        def write_under(lease: Any) -> None:
            with catalog.write() as transaction:
                lease.fence(transaction)
                transaction.set_tenant_quota(tenant, 7)

        with catalog.lock("collect-1") as lease:
            write_under(lease)
            take_over(postgres_url, "collect-1")
            with pytest.raises(Busy):
                lease.check()
            with catalog.write() as transaction:
                transaction.set_tenant_quota(tenant, 8)
            with pytest.raises(Busy):
                write_under(lease)
        with catalog.read() as transaction:
            assert transaction.get_tenant_quota(tenant) == 8
        # Nor has it let go of what is somebody else's.
        with pytest.raises(Busy), catalog.lock("collect-1"):
            pass


def test_whoever_takes_a_lock_over_waits_for_what_is_being_written_under_it(
    postgres_url: str,
) -> None:
    with (
        closing(PostgresCatalog(postgres_url)) as catalog,
        catalog.lock("collect-1") as lease,
        catalog.write() as transaction,
        psycopg.connect(postgres_url) as other,
    ):
        lease.fence(transaction)
        assert transaction.find_tenant("nobody") is None
        # Of this transaction alone: a pooler takes nothing that a connection is to remember.
        other.execute("SET LOCAL lock_timeout = 200")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("UPDATE holdfast.leases SET token = token + 1")


def test_a_lock_is_renewed_by_the_clock_of_the_database_alone(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def until() -> int:
        query = "SELECT until FROM holdfast.leases"
        with psycopg.connect(postgres_url) as connection:
            found = connection.execute(query).fetchone()
        assert found is not None
        return int(found[0])

    with (
        closing(PostgresCatalog(postgres_url, term_s=0.6)) as catalog,
        closing(PostgresCatalog(postgres_url)) as other,
        catalog.lock("collect-1"),
    ):
        first, deadline = until(), time.monotonic() + 20
        while until() < first + 600_000:
            assert time.monotonic() < deadline
        # One whose clock is an hour ahead takes it no sooner.
        ahead = time.time() + 3600
        monkeypatch.setattr(time, "time", lambda: ahead)
        with pytest.raises(Busy), other.lock("collect-1"):
            pass


def test_what_is_written_under_one_lock_for_long_costs_no_other_of_its_process(
    postgres_url: str,
) -> None:
    with (
        closing(PostgresCatalog(postgres_url, term_s=1.2)) as catalog,
        closing(PostgresCatalog(postgres_url)) as other,
        catalog.lock("first") as lease,
        catalog.lock("second"),
        catalog.write() as transaction,
    ):
        lease.fence(transaction)
        assert transaction.find_tenant("nobody") is None
        until = time.monotonic() + 4
        while time.monotonic() < until:
            with pytest.raises(Busy), other.lock("second"):
                pass
        # Nor does one's own process wait for it, which takes a third.
        with catalog.lock("third"):
            pass


def test_who_would_take_over_what_is_being_written_under_waits_only_briefly(
    postgres_url: str,
) -> None:
    with (
        closing(PostgresCatalog(postgres_url)) as catalog,
        closing(PostgresCatalog(postgres_url)) as other,
        catalog.lock("first") as lease,
    ):
        end_terms(postgres_url)
        with catalog.write() as transaction:
            lease.fence(transaction)
            assert transaction.find_tenant("nobody") is None
            with pytest.raises(Busy, match="already running"), other.lock("first"):
                pass
        with other.lock("first"), pytest.raises(Busy):
            lease.check()


STUB = """
CREATE SCHEMA stubs;
CREATE FUNCTION stubs.pg_try_advisory_xact_lock(BIGINT) RETURNS BOOLEAN LANGUAGE sql
AS 'SELECT true';
"""


def stubbed(url: str) -> str:
    """Returns the address by which a database has no locks, but says that it does."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(STUB)
    return f"{url}?options=-c%20search_path%3Dstubs,pg_catalog"


def has_catalog(url: str) -> bool:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT to_regnamespace('holdfast') IS NOT NULL").fetchone()
    return found == (True,)


def test_a_database_whose_locks_are_none_is_refused(postgres: PostgresServer) -> None:
    url = postgres.dsn(postgres.create_database())
    with pytest.raises(Incompatible, match="one lock to two"):
        PostgresCatalog(stubbed(url))
    assert not has_catalog(url)


def test_a_database_whose_locks_are_none_is_refused_though_a_vault_is_in_it(
    postgres: PostgresServer,
) -> None:
    """Brought back by the database's own means, into what is no PostgreSQL."""
    url = postgres.dsn(postgres.create_database())
    PostgresCatalog(url).close()
    with pytest.raises(Incompatible, match="one lock to two"):
        PostgresCatalog(stubbed(url))


def test_no_backup_is_brought_back_into_a_database_whose_locks_are_none(
    vault: holdfast.Holdfast, postgres: PostgresServer, tmp_path: Path
) -> None:
    vault.backup(tmp_path / "backup")
    url = postgres.dsn(postgres.create_database())
    with pytest.raises(Incompatible, match="one lock to two"):
        holdfast.reinstate(tmp_path / "backup", stubbed(url), objects=tmp_path / "new")
    assert not has_catalog(url)
    assert not (tmp_path / "new").exists()


def test_whether_a_database_has_locks_is_asked_once_in_a_process(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.dsn(postgres.create_database())
    PostgresCatalog(url).close()
    made, connect = list[object](), psycopg.connect

    def counting(*args: Any, **more: Any) -> Any:
        made.append(connect(*args, **more))
        return made[-1]

    monkeypatch.setattr(psycopg, "connect", counting)
    PostgresCatalog(url).close()
    assert len(made) == 1


def test_those_who_open_a_vault_leave_a_connection_for_whoever_is_first(
    postgres: PostgresServer,
) -> None:
    """A pooler may have few, and give each transaction one until it ends."""
    url = postgres.dsn(postgres.create_database())
    with psycopg.connect(url) as first, psycopg.connect(url) as second:
        lock_opening(first)
        waiting = threading.Thread(target=lock_opening, args=(second,))
        waiting.start()
        query = "SELECT xact_start FROM pg_stat_activity WHERE pid = %s"
        seen = set[object]()
        deadline = time.monotonic() + 20
        with psycopg.connect(url, autocommit=True) as looking:
            while len(seen - {(None,)}) < 2:
                seen.add(looking.execute(query, (second.info.backend_pid,)).fetchone())
                assert time.monotonic() < deadline
        first.commit()
        waiting.join()
        found = second.execute("SHOW lock_timeout").fetchone()
    assert found == ("0",)


# A database that is away


def test_nobody_waits_for_a_database_that_others_have_waited_for_in_vain(
    postgres_url: str,
) -> None:
    place = urlsplit(postgres_url)
    assert place.port is not None
    with Proxy(place.port) as proxy:
        url = postgres_url.replace(f":{place.port}/", f":{proxy.port}/")
        with closing(PostgresCatalog(url, wait_s=0.6)) as catalog:

            def asks() -> float:
                began = time.monotonic()
                with catalog.read() as transaction:
                    transaction.find_tenant("nobody")
                return time.monotonic() - began

            asks()
            proxy.cut()
            for _ in range(2):
                began = time.monotonic()
                with pytest.raises(Unavailable):
                    asks()
                assert time.monotonic() - began >= 0.6
            spent = time.process_time()
            for _ in range(50):
                with pytest.raises(Unavailable, match="nobody waits"):
                    asks()
            assert time.process_time() - spent < 1
            proxy.mend()
            deadline = time.monotonic() + 20
            while True:
                try:
                    asks()
                    break
                except Unavailable:
                    assert time.monotonic() < deadline
                    time.sleep(0.01)


def test_a_database_that_vanishes_is_noticed_while_there_is_time_to_look_for_it(
    postgres_url: str,
) -> None:
    """`bench/soak_outages.py --only vanished` has one that does, which takes a network."""

    def silent_ms(url: str) -> int:
        with closing(PostgresCatalog(url, wait_s=5)) as catalog:
            found = conninfo_to_dict(cast("Any", catalog)._conninfo)
        assert int(found["keepalives_idle"] or 0) * 1000 < int(found["tcp_user_timeout"] or 0)
        return int(found["tcp_user_timeout"] or 0)

    # Two seconds are the shortest that a host is waited for.
    assert 0 < silent_ms(postgres_url) <= 5000 - 2000
    assert silent_ms(f"{postgres_url}?tcp_user_timeout=9000") == 9000


# A pooler between us and the database

BOUNCER = os.environ.get("HOLDFAST_TEST_PGBOUNCER") or shutil.which("pgbouncer")


@pytest.mark.skipif(BOUNCER is None, reason="PgBouncer is not installed")
def test_a_vault_works_behind_a_pooler_that_gives_each_transaction_another_connection(
    postgres_url: str, tmp_path: Path
) -> None:
    port = urlsplit(postgres_url).port
    assert BOUNCER is not None
    assert port is not None
    with ExitStack() as stack:
        pooled_port = stack.enter_context(pooled(BOUNCER, port))
        url = postgres_url.replace(f":{port}/", f":{pooled_port}/")
        vault = stack.enter_context(holdfast.open(url, objects=tmp_path / "packs"))
        fill(vault)
        agent = vault.namespace("agent")
        agent.undo()
        agent.sessions.create("bot", session_id="s", initial_state={"n": 0})
        for number in range(20):
            agent.sessions.update_state("s", {"n": number})
        assert vault.collect().damaged == ()
        assert vault.verify().ok
        with holdfast.open(url, objects=tmp_path / "packs") as other:
            lock = cast("Any", vault)._context.catalog.lock
            with lock("collect-1"), pytest.raises(Busy):
                cast("Any", other)._context.catalog.lock("collect-1").__enter__()
            assert other.namespace("agent").sessions.get_state("s").state == {"n": 19}
