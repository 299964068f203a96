"""No room: a real small disk, a full catalog, the floor that is kept free, and quotas.

Whatever runs out, the caller gets a typed error, nothing has changed, what was there can still
be read, and after room was made the same call works.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random

import pytest

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog import sqlite_connections
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.objects import stage
from holdfast.engine.vault import Holdfast
from holdfast.errors import LimitExceeded, PathNotFound, QuotaExceeded, StorageFull
from holdfast.testing.faults import Observed, find_litter, observe

pytestmark = pytest.mark.usefixtures("made_anew")

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LIMITS = Limits(inline_bytes=4096, free_floor_bytes=0)
KIB = 1 << 10


def noise(size: int, seed: int) -> bytes:
    return Random(seed).randbytes(size)


def open_context(root: Path, *, limits: Limits = LIMITS, now: datetime = NOW) -> Context:
    root.mkdir(exist_ok=True)
    blobs = DiskBlobStore(root / "packs")
    return Context.of(SqliteCatalog(root), blobs, clock=lambda: now, limits=limits)


@contextmanager
def opened(root: Path, *, limits: Limits = LIMITS, now: datetime = NOW) -> Iterator[Context]:
    context = open_context(root, limits=limits, now=now)
    with closing(context.catalog):
        yield context


def build(context: Context) -> None:
    alice = Holdfast(context).namespace("alice")
    alice.files.write("old.bin", noise(50 * KIB, 1))
    alice.store.set("config", "model", "a")
    alice.snapshot("one", expires_in=timedelta(hours=1))
    alice.files.write("old.bin", noise(60 * KIB, 2))
    alice.files.write("small.txt", "small")
    alice.snapshot("two")
    alice.files.write("pending.txt", "pending")


def write_a_pack(vault: Holdfast) -> None:
    vault.namespace("alice").files.write("new.bin", noise(200 * KIB, 3))


def write_a_row(vault: Holdfast) -> None:
    vault.namespace("alice").files.write("new.txt", "a few bytes")


def write_many(vault: Holdfast) -> None:
    items = [(f"many/{number}", noise(3 * KIB, number)) for number in range(60)]
    vault.namespace("alice").files.write_many(items)


def take_a_snapshot(vault: Holdfast) -> None:
    vault.namespace("alice").snapshot("three")


def restore(vault: Holdfast) -> None:
    vault.namespace("alice").restore("@-1")


def delete(vault: Holdfast) -> None:
    vault.namespace("alice").files.delete("old.bin")


def collect(vault: Holdfast) -> None:
    vault.collect(now=True)


ACTS: dict[str, Callable[[Holdfast], None]] = {
    act.__name__: act
    for act in (write_a_pack, write_a_row, write_many, take_a_snapshot, restore, delete, collect)
}


# A real disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Eight megabytes of memory that believe to be a disk; making one takes root."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "tmpfs", disk]
    may_mount = os.geteuid() == 0 and shutil.which("mount") is not None
    if not may_mount or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this process may not mount a file system")
    yield disk
    # Lazily: a test that failed may still have a file open.
    subprocess.run(["umount", "--lazy", disk], check=True)


def fill(disk: Path, *, but: int) -> Path:
    """Takes all the room on a disk but some bytes."""
    ballast = disk / "ballast"
    state = os.statvfs(disk)
    free = state.f_bavail * state.f_frsize
    with ballast.open("wb") as file:
        file.write(bytes(max(free - but, 0)))
    return ballast


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_full_disk_leaves_the_old_or_the_new(
    small_disk: Path, act: Callable[[Holdfast], None]
) -> None:
    root = small_disk / "vault"
    failed = 0
    for room in (0, 4, 12, 40, 100, 160, 250, 400):
        shutil.rmtree(root, ignore_errors=True)
        with opened(root) as context:
            build(context)
        with opened(root) as context:
            old = observe(context)
            ballast = fill(small_disk, but=room * KIB)
            try:
                act(Holdfast(context))
            except StorageFull:
                failed += 1
                assert observe(context) == old
            ballast.unlink()
            new = observe(context)
            assert Holdfast(context).verify().ok
        check_tidy(root, new)
        with opened(root) as context:
            if new == old:
                act(Holdfast(context))
            assert Holdfast(context).verify().ok
    assert failed or act is collect


def write_until_full(namespace: Namespace, *, size: int) -> int:
    """Writes files until there is no room for another; returns how many there are."""
    for number in count():
        try:
            namespace.files.write(f"{number}.bin", noise(size, number))
        except StorageFull:
            return number
    raise AssertionError


def check_tidy(root: Path, found: Observed) -> None:
    with opened(root) as context:
        Holdfast(context).collect(now=True)
        assert find_litter(context) == set()
        assert observe(context) == found
        assert Holdfast(context).verify().ok


def test_a_vault_that_fills_its_disk_makes_room_by_deleting(small_disk: Path) -> None:
    """With a floor, there is always room left to delete and to collect."""
    limits = replace(LIMITS, free_floor_bytes=1024 * KIB)
    with opened(small_disk / "vault", limits=limits) as context:
        vault = Holdfast(context)
        alice = vault.namespace("alice")
        written = write_until_full(alice, size=300 * KIB)
        assert written > 10
        assert DiskBlobStore(small_disk).free_bytes() >= 1024 * KIB
        old = observe(context)
        with pytest.raises(StorageFull):
            alice.files.write("one more", noise(300 * KIB, 200))
        assert observe(context) == old
        for number in range(written):
            alice.files.delete(f"{number}.bin")
        assert vault.collect(now=True).bytes_freed > 4_500 * KIB
        alice.files.write("one more", noise(300 * KIB, 200))
        assert vault.verify().ok
        assert find_litter(context) == set()


# A catalog that may not grow


@pytest.mark.parametrize("act", [write_a_row, write_many, take_a_snapshot, restore])
def test_a_full_catalog_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Holdfast], None]
) -> None:
    limits = replace(LIMITS, inline_bytes=1024 * KIB)
    with opened(tmp_path / "vault", limits=limits) as context:
        build(context)
        old = observe(context)
    pages = (tmp_path / "vault" / "catalog.sqlite").stat().st_size // 4096
    monkeypatch.setattr(
        sqlite_connections, "_PRAGMAS", (*sqlite_connections._PRAGMAS, f"max_page_count={pages}")
    )
    with opened(tmp_path / "vault", limits=limits) as context:
        vault = Holdfast(context)
        write_until_full(vault.namespace("bob"), size=250)
        before = observe(context)
        failed = False
        try:
            act(vault)
        except StorageFull:
            failed = True
            assert observe(context) == before
        assert before["alice"] == old["alice"]
        assert vault.verify().ok
    monkeypatch.undo()
    with opened(tmp_path / "vault", limits=limits) as context:
        if failed:
            act(Holdfast(context))
        assert observe(context) != before
        assert Holdfast(context).verify().ok


# A blob store without room, whatever the catalog


class FullBlobs(DiskBlobStore):
    """Takes a number of packs, and then no more."""

    def __init__(self, root: Path, *, room: int) -> None:
        super().__init__(root)
        self.room = room

    def put(self, name: str, data: bytes, /) -> None:
        if not self.room:
            raise StorageFull("no room for another pack")
        self.room -= 1
        super().put(name, data)


@pytest.fixture(params=["sqlite", "postgres"])
def catalog(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[SqliteCatalog | PostgresCatalog]:
    if request.param == "sqlite":
        found = SqliteCatalog(tmp_path)
    else:
        found = PostgresCatalog(request.getfixturevalue("postgres_url"))
    with closing(found):
        yield found


@pytest.mark.parametrize("room", [0, 1, 3])
def test_a_batch_that_does_not_fit_leaves_nothing(
    catalog: SqliteCatalog | PostgresCatalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    room: int,
) -> None:
    blobs = FullBlobs(tmp_path / "packs", room=1000)
    context = Context.of(catalog, blobs, clock=lambda: NOW, limits=LIMITS)
    build(context)
    vault = Holdfast(context)
    old, used = observe(context), vault.stored_bytes()
    monkeypatch.setattr(stage, "PACK_TARGET_BYTES", 16 * KIB)
    blobs.room = room
    with pytest.raises(StorageFull):
        write_many(vault)
    assert observe(context) == old
    # At once, not after a collection: the writer lives, and cleans up after itself.
    assert vault.stored_bytes() == used
    assert find_litter(context) == set()
    assert all_rows_are_of_stored_packs(context)
    blobs.room = 1000
    write_many(vault)
    assert vault.verify().ok


def test_a_collection_without_room_to_copy_still_gives_back_what_is_dead(
    catalog: SqliteCatalog | PostgresCatalog, tmp_path: Path
) -> None:
    blobs = FullBlobs(tmp_path / "packs", room=1000)
    context = Context.of(catalog, blobs, clock=lambda: NOW, limits=LIMITS)
    build(context)
    make_garbage(Holdfast(context))
    context = replace(context, clock=lambda: NOW + timedelta(days=1))
    vault = Holdfast(context)
    old, used = observe(context), vault.stored_bytes()
    blobs.room = 0
    vault.collect(now=True)
    less = vault.stored_bytes()
    assert less < used
    assert all_rows_are_of_stored_packs(context)
    assert find_litter(context) == set()
    assert observe(context) == old
    blobs.room = 1000
    vault.collect(now=True)
    assert vault.stored_bytes() < less
    assert observe(context) == old
    assert vault.verify().ok


def make_garbage(vault: Holdfast) -> None:
    """Leaves a dead pack, and one of which little lives."""
    alice = vault.namespace("alice")
    alice.files.write("dead.bin", noise(9000, 8))
    alice.files.write_many([(f"mixed/{number}", noise(3000, number)) for number in range(10)])
    for number in range(8):
        alice.files.delete(f"mixed/{number}")
    alice.files.delete("dead.bin")


def all_rows_are_of_stored_packs(context: Context) -> bool:
    with context.catalog.read() as transaction:
        [tenant] = transaction.iter_tenants()
        return all(pack.is_stored for pack in transaction.iter_packs(tenant.id))


# The floor, and quotas


@pytest.mark.parametrize("act", [write_a_pack, write_a_row, write_many, take_a_snapshot, restore])
def test_below_the_floor_nothing_is_written(
    tmp_path: Path, act: Callable[[Holdfast], None]
) -> None:
    with opened(tmp_path / "vault") as context:
        build(context)
        old = observe(context)
    with opened(tmp_path / "vault", limits=replace(LIMITS, free_floor_bytes=1 << 60)) as context:
        with pytest.raises(StorageFull):
            act(Holdfast(context))
        assert observe(context) == old
        assert find_litter(context) == set()
        assert all_rows_are_of_stored_packs(context)
    with opened(tmp_path / "vault") as context:
        act(Holdfast(context))
        assert Holdfast(context).verify().ok


def test_below_the_floor_room_can_be_made(tmp_path: Path) -> None:
    with opened(tmp_path / "vault") as context:
        build(context)
        make_garbage(Holdfast(context))
    low = replace(LIMITS, free_floor_bytes=1 << 60)
    with opened(tmp_path / "vault", limits=low, now=NOW + timedelta(days=1)) as context:
        vault = Holdfast(context)
        vault.namespace("alice").files.delete("small.txt")
        vault.namespace("alice").store.delete("config", "model")
        vault.namespace("alice").delete_snapshot("@")
        vault.namespace("alice").forget()
        with pytest.raises(PathNotFound):
            vault.namespace("alice").files.read("small.txt")
        old = observe(context)
        assert vault.collect(now=True).bytes_freed > 0
        assert observe(context) == old
        vault.delete_namespace("alice")
        assert vault.verify().ok


def test_a_tenant_over_its_quota_writes_nothing_until_there_is_room(
    catalog: SqliteCatalog | PostgresCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = DiskBlobStore(tmp_path / "packs")
    context = Context.of(catalog, blobs, clock=lambda: NOW, limits=LIMITS)
    build(context)
    vault = Holdfast(context)
    old, used = observe(context), vault.stored_bytes()
    # Room for some packs of the batch, and not for all.
    monkeypatch.setattr(stage, "PACK_TARGET_BYTES", 32 * KIB)
    vault.set_quota(used + 100 * KIB)
    with pytest.raises(QuotaExceeded) as raised:
        write_many(vault)
    assert raised.value.quota_bytes == used + 100 * KIB
    assert observe(context) == old
    assert vault.stored_bytes() == used
    assert all_rows_are_of_stored_packs(context)
    assert find_litter(context) == set()
    with pytest.raises(QuotaExceeded):
        vault.namespace("alice").files.write("fits.bin", noise(140 * KIB, 11))
    # Other tenants have their own.
    vault.tenant("other").namespace("bob").files.write("new.bin", noise(200 * KIB, 3))
    write_a_row(vault)
    alice = vault.namespace("alice")
    alice.files.delete("old.bin")
    later = Holdfast(replace(context, clock=lambda: NOW + timedelta(days=40)))
    later.namespace("alice").snapshot("without it")
    later.collect(now=True)
    assert later.stored_bytes() < used - 45 * KIB
    later.namespace("alice").files.write("fits.bin", noise(140 * KIB, 11))
    assert later.verify().ok


def test_a_namespace_over_its_quota_writes_nothing_until_there_is_room(
    catalog: SqliteCatalog | PostgresCatalog, tmp_path: Path
) -> None:
    blobs = DiskBlobStore(tmp_path / "packs")
    context = Context.of(catalog, blobs, clock=lambda: NOW, limits=LIMITS)
    build(context)
    vault = Holdfast(context)
    alice = vault.namespace("alice")
    alice.set_quota(alice.size().bytes + 100)
    old, used = observe(context), vault.stored_bytes()
    for act in (write_a_pack, write_many):
        with pytest.raises(QuotaExceeded, match="alice"):
            act(vault)
        assert observe(context) == old
        assert vault.stored_bytes() == used
        assert find_litter(context) == set()
        assert all_rows_are_of_stored_packs(context)
    with pytest.raises(LimitExceeded):
        alice.store.set("big", "value", "x" * 200)
    assert observe(context) == old
    write_a_row(vault)
    # What makes it smaller is welcome at any time, and makes room.
    alice.files.write("old.bin", noise(10 * KIB, 9))
    alice.files.write("other.bin", noise(40 * KIB, 10))
    vault.namespace("bob").files.write("new.bin", noise(200 * KIB, 3))
    assert vault.verify().ok
