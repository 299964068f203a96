"""Many writers at once, forks, and connections that die: nothing is lost, and nobody hangs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import Context
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier, Event, Semaphore

import psycopg
import pytest

from holdfast.behalf import BEHALF
from holdfast.catalog.filelocks import FileLocks
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.errors import Busy, Conflict, Unavailable
from holdfast.ids import NamespaceId, ObjectId, PackName, TenantId, object_id_of
from holdfast.model.basics import Head, Placement, Plane, Size
from holdfast.testing.postgres import PostgresServer

pytestmark = [pytest.mark.in_memory, pytest.mark.usefixtures("made_anew")]

NOW = datetime(2025, 3, 1, tzinfo=UTC)
PROCESSES, THREADS, TURNS = 10, 5, 4

SCRIPT = """
import os, sys, threading
from pathlib import Path
from holdfast.model.basics import Plane, Size
kind, where, number = sys.argv[1:]
def open_catalog():
    if kind == "sqlite":
        from holdfast.catalog.sqlite import SqliteCatalog
        return SqliteCatalog(Path(where))
    from holdfast.catalog.postgres import PostgresCatalog
    return PostgresCatalog(where, max_connections=2)
def add(catalog, key):
    with catalog.write() as transaction:
        head = transaction.lock_head(1)
        sequence = transaction.advance_sequence(1, more=Size(1, len(key)))
        assert sequence == head.sequence + 1
        transaction.put_pending(1, Plane.STORE, [(key.encode(), b"entry")], sequence=sequence)
"""

WRITER = f"""
catalog = open_catalog()
def work(thread):
    for turn in range({TURNS}):
        add(catalog, f"{{number}}-{{thread}}-{{turn}}")
print("ready", flush=True)
sys.stdin.readline()
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor({THREADS}) as pool:
    list(pool.map(work, range({THREADS})))
catalog.close()
"""


class Place:
    """A catalog with one namespace, whose id is 1."""

    def __init__(self, kind: str, where: str) -> None:
        self.kind, self.where = kind, where
        with closing(self.open()) as catalog:
            prepare(catalog)

    def open(self) -> Catalog:
        return (
            SqliteCatalog(Path(self.where))
            if self.kind == "sqlite"
            else PostgresCatalog(self.where)
        )

    def start(self, script: str, number: int = 0) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT + script, self.kind, self.where, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str) -> str:
        """Runs a script to its end; returns what it printed."""
        with self.start(script) as process:
            try:
                answer, complaint = process.communicate(timeout=60)
            finally:
                process.kill()
        assert process.returncode == 0, complaint
        return answer

    def keys(self) -> list[str]:
        with closing(self.open()) as catalog, catalog.read() as transaction:
            rows = transaction.range_pending(NamespaceId(1), Plane.STORE, start=b"", stop=None)
            head = transaction.find_head(TenantId(1), "alice")
        assert head is not None
        keys = [key.decode() for key, _ in rows]
        assert head.size == Size(len(keys), sum(map(len, keys)))
        assert head.sequence == len(keys)
        return keys


def prepare(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        tenant = transaction.add_tenant("default", public_id="ws-a", now=NOW)
        head = Head.of_nothing(tenant.id, "alice", now=NOW)
        assert transaction.add_namespace(head) is not None


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    is_sqlite = request.param == "sqlite"
    where = str(tmp_path / "vault") if is_sqlite else request.getfixturevalue("postgres_url")
    return Place(request.param, where)


# Many writers


@pytest.mark.slow
def test_fifty_writers_in_ten_processes_lose_nothing(place: Place) -> None:
    processes = [place.start(WRITER, number) for number in range(PROCESSES)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    complaints = [process.communicate(timeout=120)[1] for process in processes]
    assert complaints == [""] * PROCESSES
    assert place.keys() == sorted(
        f"{process}-{thread}-{turn}"
        for process in range(PROCESSES)
        for thread in range(THREADS)
        for turn in range(TURNS)
    )


def test_who_opens_and_closes_all_the_time_disturbs_nobody(place: Place) -> None:
    """On SQLite the last to close removes the log: others may be about to open it."""
    opener = "for turn in range(15):\n    c = open_catalog(); add(c, f'{number}-{turn}'); c.close()"
    processes = [place.start(opener, number) for number in range(4)]
    complaints = [process.communicate(timeout=120)[1] for process in processes]
    assert complaints == [""] * 4
    assert len(place.keys()) == 60


def test_writers_who_add_the_same_objects_wait_for_each_other_and_not_for_ever(
    place: Place,
) -> None:
    objects = [Placement(object_id_of(b"%d" % i), 0, 1, 0, 1) for i in range(300)]
    catalogs, barrier = [place.open() for _ in range(4)], Barrier(4)

    def add(number: int) -> int:
        catalog, mine = catalogs[number], objects[:: -1 if number % 2 else 1]
        ids = [ObjectId(placement.object_id) for placement in mine]
        for turn in range(4):
            barrier.wait()
            with catalog.write() as transaction:
                epoch = transaction.join_epoch(TenantId(1)) + turn
                name = PackName(f"pack-{number}-{turn}")
                transaction.add_inline_pack(TenantId(1), name, b"data", now=NOW)
                transaction.add_objects(TenantId(1), name, mine, epoch=epoch)
                assert transaction.touch_objects(TenantId(1), ids, epoch=epoch + 1) == 300
        return number

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(add, range(4), timeout=120)) == [0, 1, 2, 3]
    for catalog in catalogs:
        catalog.close()


# Forks

FORK = """
def fork(child):
    pid = os.fork()
    if pid == 0:
        try:
            child()
        except BaseException as exc:
            print(repr(exc), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return pid
def wait(pid):
    assert os.waitpid(pid, 0)[1] == 0
catalog = open_catalog()
"""


def test_a_forked_child_goes_on_with_the_open_catalog(place: Place) -> None:
    script = """
add(catalog, "before")
children = [fork(lambda: add(catalog, f"child-{i}")) for i in range(3)]
add(catalog, "parent")
for child in children:
    wait(child)
add(catalog, "after")
catalog.close()
"""
    place.run(FORK + script)
    assert place.keys() == ["after", "before", "child-0", "child-1", "child-2", "parent"]


def test_a_child_loses_nothing_when_its_parent_closes_first(place: Place) -> None:
    script = """
add(catalog, "before")
to_child, to_parent = os.pipe(), os.pipe()
def child():
    add(catalog, "child 1")
    os.write(to_parent[1], b"x")
    os.read(to_child[0], 1)
    add(catalog, "child 2")
pid = fork(child)
os.read(to_parent[0], 1)
catalog.close()
os.write(to_child[1], b"x")
wait(pid)
"""
    place.run(FORK + script)
    assert place.keys() == ["before", "child 1", "child 2"]


def test_a_child_has_a_name_of_its_own_and_takes_nobodys_away(place: Place) -> None:
    script = """
mine = catalog.writer
reading, writing = os.pipe()
def child():
    assert catalog.is_alive(mine)
    os.write(writing, catalog.writer.encode())
    assert catalog.writer != mine
    catalog.close()
wait(fork(child))
theirs = os.read(reading, 100).decode()
assert theirs.startswith("writer-")
assert catalog.writer == mine
assert catalog.is_alive(mine)
for _ in range(10_000):
    if not catalog.is_alive(theirs):
        break
else:
    raise AssertionError("the child's name outlived it")
catalog.close()
"""
    place.run(FORK + script)


def test_a_child_keeps_no_lock_of_a_parent_that_was_killed(tmp_path: Path) -> None:
    """On PostgreSQL a lock is a connection's, and the server cannot tell whose copy is left."""
    place = Place("sqlite", str(tmp_path))
    script = """
with catalog.lock("collect-1"), catalog.write() as transaction:
    name = catalog.writer
    def child():
        print(name, flush=True)
        sys.stdin.readline()
    wait(fork(child))
"""
    process = place.start(FORK + script)
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    process.kill()
    process.wait()
    with closing(place.open()) as catalog:
        with catalog.lock("collect-1"), catalog.write():
            pass
        assert not catalog.is_alive(name)
    process.communicate("done\n")


def test_a_child_of_a_busy_parent_is_refused_rather_than_wrong(tmp_path: Path) -> None:
    place = Place("sqlite", str(tmp_path))
    script = """
from holdfast.errors import Unavailable
begun, done = threading.Event(), threading.Event()
def write():
    with catalog.write() as transaction:
        transaction.set_retention(1, "kept")
        begun.set()
        done.wait()
thread = threading.Thread(target=write)
thread.start()
begun.wait()
def child():
    for use in (catalog.read, catalog.write, lambda: open_catalog().read()):
        try:
            with use():
                raise AssertionError("not refused")
        except Unavailable as exc:
            assert "fork" in str(exc)
wait(fork(child))
done.set()
thread.join()
with catalog.read() as transaction:
    assert transaction.find_head(1, "alice").retention == "kept"
catalog.close()
"""
    place.run(FORK + script)


def test_a_child_waits_for_no_thread_of_its_parent(tmp_path: Path) -> None:
    place = Place("sqlite", str(tmp_path))
    script = """
from holdfast.catalog.filelocks import FileLocks
others, waits = FileLocks(Path(where) / "locks"), threading.Event()
class Told(FileLocks):
    def wait(self, name, **kept):
        waits.set()
        return super().wait(name, **kept)
catalog._turns._locks.__class__ = Told
def child():
    add(catalog, "child")
with others.waiting("write"):
    threads = [threading.Thread(target=add, args=(catalog, f"parent-{i}")) for i in range(2)]
    for thread in threads:
        thread.start()
    waits.wait()
    pid = fork(child)
wait(pid)
for thread in threads:
    thread.join()
catalog.close()
"""
    place.run(FORK + script)
    assert place.keys() == ["child", "parent-0", "parent-1"]


# Connections of PostgreSQL that die


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of our own: it is treated badly here."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.dsn(server.create_database())


@pytest.fixture
def catalog(url: str) -> Iterator[PostgresCatalog]:
    with closing(PostgresCatalog(url, max_connections=4)) as catalog:
        prepare(catalog)
        yield catalog


def backends(url: str) -> Sequence[tuple[int, str]]:
    """Returns the server's processes for our connections, and what they are doing."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT pid, state FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'holdfast'"
        ).fetchall()


def end_connections(url: str) -> None:
    with psycopg.connect(url) as connection:
        for pid, _ in backends(url):
            connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))


def use_at_once(catalog: Catalog, count: int) -> None:
    """Fills the pool: that many transactions are open at one moment."""
    barrier = Barrier(count)

    def read(_: int) -> None:
        with catalog.read() as transaction:
            barrier.wait()
            assert transaction.find_head(TenantId(1), "alice") is not None

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(read, range(count)))


def quota_of(catalog: Catalog) -> int | None:
    with catalog.read() as transaction:
        return transaction.get_tenant_quota(TenantId(1))


def set_quota(catalog: Catalog, quota: int) -> None:
    with catalog.write() as transaction:
        transaction.set_tenant_quota(TenantId(1), quota)


def test_connections_that_died_while_idle_are_replaced_unseen(
    catalog: PostgresCatalog, url: str
) -> None:
    for turn in range(3):
        use_at_once(catalog, 4)
        end_connections(url)
        set_quota(catalog, turn)
        assert quota_of(catalog) == turn


def test_a_connection_that_dies_before_its_first_answer_is_replaced_unseen(
    catalog: PostgresCatalog, url: str
) -> None:
    """What was said is said again: nothing of it can have been committed."""
    tenant_id = TenantId(1)
    with catalog.write() as transaction:
        end_connections(url)
        transaction.advance_head(NamespaceId(1), 7, more=Size(), writer="", unfolded=0)
        end_connections(url)
        assert transaction.get_tenant_quota(tenant_id) is None
    with catalog.ask() as question:
        end_connections(url)
        head = question.find_head(tenant_id, "alice")
    assert head is not None
    assert head.sequence == 7


def test_what_was_said_and_never_answered_is_committed_or_an_error(
    catalog: PostgresCatalog, url: str
) -> None:
    def commit() -> None:
        with catalog.write() as transaction:
            transaction.advance_head(NamespaceId(1), 7, more=Size(), writer="", unfolded=0)
            end_connections(url)

    with pytest.raises(Unavailable):
        commit()
    with catalog.read() as transaction:
        head = transaction.find_head(TenantId(1), "alice")
    assert head is not None
    assert head.sequence == 0


def test_a_connection_that_dies_in_a_transaction_takes_it_along(
    catalog: PostgresCatalog, url: str
) -> None:
    def write() -> None:
        with catalog.write() as transaction:
            transaction.set_tenant_quota(TenantId(1), 7)
            end_connections(url)
            transaction.set_tenant_quota(TenantId(1), 8)

    def commit() -> None:
        with catalog.write() as transaction:
            transaction.set_tenant_quota(TenantId(1), 7)
            end_connections(url)

    for use in (write, commit):
        with pytest.raises(Unavailable):
            use()
        assert quota_of(catalog) is None


def test_a_server_that_crashed_is_used_again_when_it_is_back(
    catalog: PostgresCatalog, url: str
) -> None:
    use_at_once(catalog, 4)
    # The death of one of its processes makes the server end the others and recover.
    os.kill(backends(url)[0][0], signal.SIGKILL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        # Either call may still meet a process that the server is about to end.
        with suppress(Unavailable):
            set_quota(catalog, 9)
            assert quota_of(catalog) == 9
            return
    pytest.fail("the server was not used again within a minute")


def test_a_server_that_is_gone_is_unavailable_and_never_a_hang() -> None:
    with PostgresServer() as server:
        catalog = PostgresCatalog(server.dsn(), wait_s=1)
        name = catalog.writer
        prepare(catalog)
    started = time.monotonic()
    for use in (lambda: quota_of(catalog), lambda: set_quota(catalog, 1)):
        with pytest.raises(Unavailable):
            use()
    with pytest.raises(Unavailable):
        catalog.is_alive(name)
    assert catalog.writer == name  # For some minutes others take it for alive.
    with pytest.raises(Unavailable), catalog.lock("collect-1"):
        pass
    catalog.close()
    assert time.monotonic() - started < 20


def test_a_name_and_a_lock_belong_to_no_connection(catalog: PostgresCatalog, url: str) -> None:
    name = catalog.writer
    with closing(PostgresCatalog(url)) as other, catalog.lock("collect-1") as lease:
        end_connections(url)
        assert catalog.writer == name
        assert other.is_alive(name)
        with pytest.raises(Busy), other.lock("collect-1"):
            pass
        lease.check()
        with catalog.write() as transaction:
            lease.fence(transaction)
            transaction.set_tenant_quota(TenantId(1), 5)
    assert quota_of(catalog) == 5


def test_a_failed_transaction_goes_back_to_the_pool_clean(url: str) -> None:
    with closing(PostgresCatalog(url, max_connections=1, wait_s=5)) as catalog:
        prepare(catalog)

        def fail() -> None:
            with catalog.write() as transaction:
                transaction.set_tenant_quota(TenantId(1), 7)
                transaction.put_pending(NamespaceId(99), Plane.FILES, [(b"k", b"v")], sequence=1)

        for _ in range(3):
            with pytest.raises(Conflict):
                fail()
            assert [state for _, state in backends(url)] == ["idle"]
        assert quota_of(catalog) is None


def test_a_transaction_asks_for_no_second_connection(url: str) -> None:
    """With a pool of one, asking for another would wait for ever."""
    with closing(PostgresCatalog(url, max_connections=1, wait_s=1)) as catalog:
        prepare(catalog)
        with catalog.write() as transaction:
            transaction.lock_head(NamespaceId(1))
            transaction.join_epoch(TenantId(1))
            pack = PackName("p")
            transaction.add_inline_pack(TenantId(1), pack, b"data", now=NOW)
            placement = Placement(object_id_of(b"data"), 0, 4, 0, 4)
            transaction.add_objects(TenantId(1), pack, [placement], epoch=1)
            assert transaction.locate(TenantId(1), [placement.object_id])
            assert catalog.writer
            assert catalog.free_bytes() is None
            assert len(backends(url)) == 2  # this one, and the one that locks are kept by


def test_a_full_pool_makes_callers_wait_and_not_for_ever(
    url: str, catalog: PostgresCatalog
) -> None:
    use_at_once(catalog, 4)
    with ThreadPoolExecutor(12) as threads:
        list(threads.map(lambda number: set_quota(catalog, number), range(48)))
    release = Event()
    with closing(PostgresCatalog(url, max_connections=1, wait_s=0.3)) as small:

        def hold() -> None:
            with small.read() as transaction:
                transaction.iter_tenants()
                held.set()
                release.wait()

        held = Event()
        with ThreadPoolExecutor(1) as threads:
            threads.submit(hold)
            held.wait()
            with pytest.raises(Unavailable):
                quota_of(small)
            release.set()
        assert quota_of(small) in range(48)


def test_transactions_of_one_tenant_leave_a_connection_for_the_next(url: str) -> None:
    begun, release = Semaphore(0), Event()

    def hold(catalog: PostgresCatalog) -> None:
        BEHALF.set("greedy")
        with catalog.read() as transaction:
            transaction.iter_tenants()
            begun.release()
            release.wait()

    def look(catalog: PostgresCatalog) -> Sequence[object]:
        BEHALF.set("modest")
        with catalog.read() as transaction:
            return transaction.iter_tenants()

    with (
        closing(PostgresCatalog(url, max_connections=4, wait_s=20)) as catalog,
        ThreadPoolExecutor(9) as threads,
    ):
        held = [threads.submit(Context().run, hold, catalog) for _ in range(8)]
        try:
            for _ in range(2):
                assert begun.acquire(timeout=20)
            assert threads.submit(Context().run, look, catalog).result(timeout=10) == []
            assert not begun.acquire(blocking=False)
        finally:
            release.set()
        for each in held:
            each.result(timeout=20)


def test_nothing_outlives_its_catalog(url: str, catalog: PostgresCatalog) -> None:
    assert catalog.writer
    with catalog.lock("collect-1"):
        set_quota(catalog, 1)
    catalog.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and backends(url):
        pass
    with psycopg.connect(url) as connection:
        query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        assert connection.execute(query).fetchone() == (0,)
        assert connection.execute("SELECT name FROM holdfast.writers").fetchall() == []
        assert connection.execute("SELECT until FROM holdfast.leases").fetchall() == [(0,)]


# Locks whose files are cleared up


class Raced(FileLocks):
    """Finds the first file that it opens removed before it can lock it."""

    is_raced = False

    def _open(self, name: str) -> int:
        fd = super()._open(name)
        if not self.is_raced:
            self.is_raced = True
            # Nobody holds it yet: to who clears up, its holder is dead.
            FileLocks(Path(self._folder)).clear("writer-")
        return fd


def test_a_writer_whose_file_is_cleared_away_before_it_is_locked_takes_another_name(
    tmp_path: Path,
) -> None:
    locks, names = Raced(tmp_path), iter(["writer-a", "writer-b"])
    assert locks.hold(lambda: next(names)) == "writer-b"
    assert FileLocks(tmp_path).is_taken("writer-b")
    assert os.listdir(tmp_path) == ["writer-b"]
    locks.release()
    assert os.listdir(tmp_path) == []
