"""A backup is whole or none, made beside everybody, and what is made of it is proven.

On both databases: with writers and a collection in between, into the same directory again, with
every file of it missing or altered in turn, and with the power gone between any two steps.
"""

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, Self

import psycopg
import pytest
from msgspec.structs import replace as replaced

import holdfast
from holdfast import reinstating
from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog import postgres_reinstating
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.catalog.transaction import Transaction
from holdfast.engine.backups import making
from holdfast.engine.backups.folders import FolderPlace
from holdfast.engine.backups.manifest import decode_manifest, hash_of
from holdfast.engine.backups.reading import Backup
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.objects import retired as retiring
from holdfast.engine.upkeep.examining import Examination
from holdfast.engine.vault import Holdfast
from holdfast.errors import (
    BackupDamaged,
    Busy,
    Damaged,
    Incompatible,
    InvalidValue,
    OutcomeUnknown,
    PathExists,
    StorageFull,
    StoreMismatch,
    Unavailable,
    VaultTooNew,
    VaultUnfinished,
)
from holdfast.model.upkeep import Verified
from holdfast.testing.faults import (
    FusedCatalog,
    Trouble,
    fuses,
    observe,
)
from holdfast.testing.places import fused_files, touches_files
from holdfast.testing.postgres import PostgresServer
from holdfast.wiring import find_formats

pytestmark = pytest.mark.in_memory

LIMITS = Limits(inline_bytes=512, free_floor_bytes=0, grace=timedelta(0))


class Vault:
    """A vault in a directory, or in a database with its packs in a directory."""

    def __init__(self, location: str, packs: Path) -> None:
        self.location, self.packs = location, packs

    def open(self) -> Holdfast:
        return holdfast.open(self.location, objects=self.packs, limits=LIMITS)

    @contextmanager
    def context(self) -> Iterator[Context]:
        is_file = "://" not in self.location
        catalog = SqliteCatalog(Path(self.location)) if is_file else PostgresCatalog(self.location)
        with closing(catalog):
            yield Context.of(catalog, DiskBlobStore(self.packs), limits=LIMITS)


Make = Callable[[str], Vault]


@pytest.fixture(params=["sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Returns places for vaults in which there is nothing."""
    if request.param == "sqlite":
        yield lambda name: Vault(str(tmp_path / name), tmp_path / f"{name}-packs")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    made = list[str]()

    def in_database(name: str) -> Vault:
        made.append(server.create_database())
        return Vault(server.dsn(made[-1]), tmp_path / f"{name}-packs")

    yield in_database
    for name in made:
        server.drop_database(name)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "backup"


def noise(size: int, seed: int) -> bytes:
    return Random(seed).randbytes(size)


def fill(vault: Holdfast, *, length: int = 6) -> None:
    """Gives a vault all that a vault can have."""
    alice = vault.namespace("alice")
    for number in range(length):
        many = [(f"{n}.bin", noise(3000, 100 * number + n)) for n in range(4)]
        alice.files.write_many(many)
        alice.store.set("config", "number", number)
        alice.snapshot(f"number {number}")
    alice.files.write("pending.bin", noise(4000, 77))
    alice.sessions.create("a", session_id="s", initial_state={"n": "x" * 700})
    alice.sessions.add_turn("s", input="hello", output="hi \\ there\n\t\0".replace("\0", "0"))
    alice.memory.add("the answer is forty-two", session_id="s")
    vault.keys.create("ops")
    vault.tenant("acme").namespace("bob").files.write("theirs.bin", noise(5000, 5))
    vault.tenant("acme").namespace("bob").snapshot()


def reinstated(make: Make, target: Path, name: str = "again") -> Vault:
    made = make(name)
    done = holdfast.reinstate(target, made.location, objects=made.packs)
    assert done.objects > 0
    return made


def seen(vault: Vault) -> object:
    with vault.context() as context:
        return observe(context)


# There and back


def test_a_vault_comes_back_elsewhere_with_all_that_it_had(make: Make, target: Path) -> None:
    live = make("live")
    with live.open() as vault:
        fill(vault)
        audits = {name: vault.tenant(name).verify_audit() for name in ("default", "acme")}
        done = vault.backup(target)
        assert (done.namespaces, done.snapshots) == (2, 7)
        assert done.packs == done.packs_copied > 6
    old = seen(live)
    again = reinstated(make, target)
    assert seen(again) == old
    with again.open() as copy:
        for tenant, audit in audits.items():
            assert copy.tenant(tenant).verify().ok
            assert copy.tenant(tenant).verify_audit(anchor=audit.anchor) == audit
        alice = copy.namespace("alice")
        assert alice.sessions.get_state("s").state == {"n": "x" * 700}
        assert alice.memory.search("answer")[0].memory.content == "the answer is forty-two"
        assert [key.name for key in copy.keys.list()] == ["ops"]
        assert copy.tenant("acme").namespace("bob").files.read("theirs.bin") == noise(5000, 5)
        # Life goes on, and no id is given twice.
        fresh = alice.snapshot("in the new place")
        assert fresh.number == 7
        copy.tenant("third").namespace("carol").snapshot()
        alice.restore(alice.timeline()[3])
        copy.collect(now=True)
        assert copy.verify().ok


def test_who_follows_events_by_number_misses_and_repeats_none_when_a_backup_comes_back(
    make: Make, target: Path
) -> None:
    seen, after = list[str](), 0

    def look(vault: Holdfast) -> int:
        at = after
        while found := vault.events.page(after=at, limit=3):
            told = [json.loads(event.data) for event in found if event.type == "file.written"]
            seen.extend(data["path"].rpartition("/")[2] for data in told)
            at = found[-1].number
        return at

    def write(vault: Holdfast, name: str) -> list[str]:
        paths = [f"{name}-{number}" for number in range(5)]
        for path in paths:
            vault.namespace("agent").files.write(path, noise(3000, 1))
        return paths

    with make("vault").open() as vault:
        vault.events.listen()
        wanted = write(vault, "before")
        vault.backup(target)
        wanted += write(vault, "lost")
        after = look(vault)
    for name in ("again", "and again"):
        with reinstated(make, target, name).open() as vault:
            wanted += write(vault, name)
            after = look(vault)
            listed = [event.type for event in vault.events.list(limit=100)[0]]
            assert listed[:6] == [*["file.written"] * 5, "vault.reinstated"]
            assert vault.verify().ok
            vault.backup(target)
    assert seen == wanted


def test_a_backup_holds_one_moment_beside_writers_and_collections(
    make: Make, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = make("live")
    with live.open() as vault:
        fill(vault)
        alice = vault.namespace("alice")
        look, old = Examination.look, list[object]()

        def collect_meanwhile(self: Examination, transaction: Transaction) -> Verified:
            """Lets go of all that it can, after the moment and before the packs."""
            if not old:
                old.append(seen(live))
                for snapshot in alice.timeline()[1:]:
                    alice.delete_snapshot(snapshot)
                alice.files.write("new.bin", noise(4000, 9))
                alice.snapshot("newer than the backup")
                assert vault.collect().packs_deleted > 3
                with pytest.raises(Busy):
                    vault.collect(now=True)
            return look(self, transaction)

        monkeypatch.setattr(Examination, "look", collect_meanwhile)
        with working(vault):
            vault.backup(target)
        assert vault.verify().ok
    again = reinstated(make, target)
    shown, expected = seen(again), old[0]
    assert isinstance(shown, dict)
    assert isinstance(expected, dict)
    assert shown["alice"] == expected["alice"]


@contextmanager
def working(vault: Holdfast) -> Iterator[None]:
    is_over, failures = threading.Event(), list[BaseException]()

    def work() -> None:
        random, carol = Random(3), vault.namespace("carol")
        try:
            while not is_over.is_set():
                carol.files.write(f"{random.randrange(5)}.bin", random.randbytes(2000))
                carol.snapshot()
        except BaseException as exc:  # noqa: BLE001 - raised below
            failures.append(exc)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert failures == []


def test_a_second_backup_copies_what_is_new_and_keeps_nothing_else(
    make: Make, target: Path
) -> None:
    live = make("live")
    with live.open() as vault:
        fill(vault)
        first = vault.backup(target)
        vault.namespace("alice").files.write("more.bin", noise(4000, 8))
        vault.namespace("alice").snapshot("more")
        second = vault.backup(target)
        assert (first.is_first, second.is_first) == (True, False)
        assert 0 < second.packs_copied < second.packs
        assert second.snapshots == first.snapshots + 1
        for snapshot in vault.namespace("alice").timeline()[1:]:
            vault.namespace("alice").delete_snapshot(snapshot)
        vault.collect(now=True)
        third = vault.backup(target)
        assert third.packs < second.packs
    found = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert found == Backup(FolderPlace(target)).manifest.paths
    assert seen(reinstated(make, target)) == seen(live)


def test_what_has_rotted_in_the_backup_is_copied_again(make: Make, target: Path) -> None:
    live = make("live")
    with live.open() as vault:
        fill(vault)
        vault.backup(target)
        pack = min(target.rglob("*.pack"))
        pack.write_bytes(pack.read_bytes()[:-1] + b"x")
        assert vault.backup(target).packs_copied == 1
    assert seen(reinstated(make, target)) == seen(live)


def test_a_backup_is_its_owners_alone(make: Make, target: Path) -> None:
    os.umask(0o022)
    with make("live").open() as vault:
        fill(vault)
        vault.backup(target)
    assert target.stat().st_mode & 0o777 == 0o700
    modes = {path.stat().st_mode & 0o777 for path in target.rglob("*") if path.is_file()}
    assert modes == {0o600}


# Copies


def write_more(vault: Holdfast, seed: int) -> None:
    vault.namespace("alice").files.write("more.bin", noise(4000, seed))
    vault.namespace("alice").snapshot()


def test_a_copy_does_not_overwrite_what_the_vault_has_backed_up_since(
    make: Make, target: Path
) -> None:
    live = make("live")
    with live.open() as vault:
        fill(vault, length=2)
        vault.backup(target)
    drill = reinstated(make, target, "drill")
    with live.open() as vault:
        write_more(vault, 1)
        vault.backup(target)
    before = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    with drill.open() as copy:
        write_more(copy, 2)
        with pytest.raises(PathExists, match="by the vault that this one is a copy of") as raised:
            copy.backup(target)
        assert "--replace" in raised.value.hint
        copy.backup(target.with_name("elsewhere"))
        copy.backup(target.with_name("elsewhere"))
    assert {path: path.read_bytes() for path in target.rglob("*") if path.is_file()} == before
    with live.open() as vault:
        vault.backup(target)
        with pytest.raises(PathExists, match="by a copy of this vault that was brought back at"):
            vault.backup(target.with_name("elsewhere"))
    # Of the copy that goes on after all, it is said; then the other is refused.
    with drill.open() as copy:
        assert not copy.backup(target, replace=True).is_first
        copy.backup(target)
    with live.open() as vault, pytest.raises(PathExists):
        vault.backup(target)
    assert seen(reinstated(make, target)) == seen(drill)


def test_on_a_command_line_a_copy_says_that_it_goes_on(
    tmp_path: Path, target: Path, warm: tuple[str, ...]
) -> None:
    with holdfast.open(tmp_path / "live") as vault:
        fill(vault, length=2)
        vault.backup(target)
        holdfast.reinstate(target, tmp_path / "copy")
        vault.backup(target)

    def back_up(*flags: str) -> "subprocess.CompletedProcess[str]":
        argv = [*warm, "backup", str(target), "--data", str(tmp_path / "copy"), *flags]
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)

    refused = back_up()
    assert refused.returncode == 4
    assert "a copy of" in refused.stderr
    assert "--replace" in refused.stderr
    assert back_up("--replace").returncode == 0
    assert back_up().returncode == 0


def test_a_vault_that_came_back_goes_on_where_its_backup_is(make: Make, target: Path) -> None:
    with make("live").open() as vault:
        fill(vault, length=2)
        vault.backup(target.with_name("weekly"))
        write_more(vault, 1)
        vault.backup(target)
    for number, name in enumerate(("again", "and again")):
        with reinstated(make, target, name).open() as vault:
            write_more(vault, 2 + number)
            assert not vault.backup(target).is_first
    # Older than all that was brought back: none of it is missing.
    with reinstated(make, target, "at last").open() as vault:
        vault.backup(target.with_name("weekly"))


def test_a_copy_of_a_copy_does_not_take_what_came_after_the_first_for_its_own(
    make: Make, target: Path
) -> None:
    other = target.with_name("other")
    live = make("live")
    with live.open() as vault:
        fill(vault, length=2)
        vault.backup(target)
    with reinstated(make, target, "first").open() as copy:
        with live.open() as vault:
            write_more(vault, 1)
            vault.backup(target)
        write_more(copy, 2)
        copy.backup(other)
    with reinstated(make, other, "second").open() as copy:
        copy.backup(other)
        with pytest.raises(PathExists):
            copy.backup(target)


def noted(vault: Vault) -> set[str]:
    """Returns the seals of the backups that a vault knows."""
    with vault.context() as context:
        if isinstance(context.catalog, SqliteCatalog):
            with closing(sqlite3.connect(Path(vault.location) / "catalog.sqlite")) as database:
                rows = database.execute("SELECT name FROM chores").fetchall()
        else:
            with psycopg.connect(vault.location) as connection:
                rows = connection.execute("SELECT name FROM holdfast.chores").fetchall()
    return {name.split()[-1] for (name,) in rows if name.startswith("backed up ")}


def seal_in(target: Path) -> str:
    return decode_manifest((target / "backup.json").read_bytes()).seal


@pytest.mark.parametrize("ahead", [timedelta(hours=2), -timedelta(hours=2)])
def test_a_clock_that_went_wrong_lets_no_copy_overwrite_what_it_never_had(
    make: Make, target: Path, ahead: timedelta
) -> None:
    live, weekly = make("live"), target.with_name("weekly")

    def back_up(place: Path, *, by: timedelta) -> None:
        with live.context() as context:
            clock = context.clock
            Holdfast(replace(context, clock=lambda: clock() + by)).backup(place)

    with live.open() as vault:
        fill(vault, length=2)
    back_up(weekly, by=-ahead)
    back_up(target, by=ahead)
    drill = reinstated(make, target, "drill")
    with live.open() as vault:
        write_more(vault, 1)
    back_up(target, by=timedelta(0))
    before = seal_in(target)
    with drill.open() as copy:
        write_more(copy, 2)
        with pytest.raises(PathExists, match="by the vault that this one is a copy of"):
            copy.backup(target)
        assert seal_in(target) == before
        # From before they parted, whatever a clock said then.
        copy.backup(weekly)


def test_a_vault_knows_the_backups_that_are_there_and_no_others(make: Make, target: Path) -> None:
    weekly = target.with_name("weekly")
    live = make("live")
    with live.open() as vault:
        fill(vault, length=2)
        vault.backup(weekly)
        for _ in range(3):
            vault.backup(target)
    assert noted(live) == {seal_in(weekly), seal_in(target)}
    again = reinstated(make, target)
    assert noted(again) >= {seal_in(weekly), seal_in(target)}


def test_a_backup_that_cannot_be_noted_is_made_and_no_copy_goes_over_it(
    make: Make, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StorageFull("the catalog answered: database or disk is full")

    weekly = target.with_name("weekly")
    with make("live").open() as vault:
        fill(vault, length=2)
        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "set_chore", full)
            vault.backup(weekly)
            vault.backup(target)
    with reinstated(make, target).open() as copy:
        with pytest.raises(PathExists):
            copy.backup(weekly)
        copy.backup(target)  # The one that it was made of.


# What is refused


def test_a_backup_of_which_anything_is_missing_or_altered_is_refused(
    make: Make, target: Path
) -> None:
    with make("live").open() as vault:
        fill(vault, length=3)
        vault.backup(target)
    empty = make("again")
    for path in [path for path in target.rglob("*") if path.is_file()]:
        good = path.read_bytes()
        middle = len(good) // 2
        flipped = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
        for bad in (None, good[:-1], good + b"x", flipped, b""):
            path.unlink()
            if bad is not None:
                path.write_bytes(bad)
            with pytest.raises(Damaged) as raised:
                holdfast.reinstate(target, empty.location, objects=empty.packs)
            assert isinstance(raised.value, BackupDamaged), (path, raised.value)
            path.write_bytes(good)
    assert not empty.packs.exists()
    assert not list(target.parent.glob(".*reinstating"))
    holdfast.reinstate(target, empty.location, objects=empty.packs)


def reseal(target: Path, rows: bytes) -> None:
    """Puts other rows into a backup, as somebody does who can write its manifest as well."""
    manifest = decode_manifest((target / "backup.json").read_bytes())
    (target / manifest.catalog.file).write_bytes(rows)
    catalog = replaced(manifest.catalog, size=len(rows), hash=hash_of(rows))
    (target / "backup.json").write_bytes(replaced(manifest, catalog=catalog).encode())


CRAFTED = {
    "no table": b'{"columns": ["a"]}\n',
    "no columns": b'{"table": "tenants"}\n\\.\n',
    "a table that is none": b'{"table": "nothing", "columns": ["id"]}\n\\.\n',
    "a column that is none": b'{"table": "tenants", "columns": ["nothing"]}\n\\.\n',
    "columns that are none": b'{"table": "tenants", "columns": 7}\n',
    "a number for a name": b'{"table": "tenants", "columns": [7]}\n',
    "a name with a NUL": b'{"table": "ten\\u0000ants", "columns": ["id"]}\n',
    "numbers that are none": b'{"numbers": []}\n',
    "a number that is none": b'{"numbers": {"tenants_id_seq": "x"}}\n',
    "a sequence that is none": b'{"numbers": {"nothing": 1}}\n',
    "a list": b"[]\n",
    "deep nesting": b"[" * 100_000 + b"\n",
    "not UTF-8": b'{"table": "\xff"}\n',
    "rows that are none": b'{"table": "tenants", "columns": ["id", "name"]}\nx\ty\tz\n\\.\n',
}


@pytest.mark.postgres
@pytest.mark.parametrize("rows", CRAFTED.values(), ids=CRAFTED)
def test_rows_of_a_crafted_backup_are_refused_as_damage(
    tmp_path: Path, sealed: Path, postgres_url: str, rows: bytes
) -> None:
    reseal(sealed, rows)
    with pytest.raises(BackupDamaged):
        holdfast.reinstate(sealed, postgres_url, objects=tmp_path / "packs")
    assert not (tmp_path / "packs").exists()
    assert not list(tmp_path.glob(".*reinstating"))


@pytest.fixture
def sealed(tmp_path: Path, postgres_url: str) -> Path:
    """A backup of a vault in a database that is empty again."""
    with holdfast.open(postgres_url, objects=tmp_path / "live") as vault:
        fill(vault, length=2)
        vault.backup(tmp_path / "backup")
    drop_schema(postgres_url)
    return tmp_path / "backup"


def drop_schema(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("DROP SCHEMA holdfast CASCADE")


def test_a_vault_that_cannot_have_its_name_leaves_no_packs_behind(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holdfast.open(tmp_path / "live") as vault:
        fill(vault, length=2)
        vault.backup(target)
    rename = Path.rename

    def failing(self: Path, to: Path) -> Path:
        if to.name == "vault":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(Unavailable):
        holdfast.reinstate(target, tmp_path / "vault", objects=tmp_path / "objects")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({"live", target.name})
    monkeypatch.undo()
    holdfast.reinstate(target, tmp_path / "vault", objects=tmp_path / "objects")


def test_a_vault_is_made_only_where_nothing_is(make: Make, target: Path) -> None:
    live = make("live")
    with live.open() as vault:
        fill(vault, length=2)
        vault.backup(target)
    old = seen(live)
    with pytest.raises(PathExists):
        holdfast.reinstate(target, live.location, objects=live.packs.with_name("new"))
    busy = make("busy")
    busy.packs.mkdir()
    (busy.packs / "mine").write_text("mine")
    with pytest.raises(PathExists):
        holdfast.reinstate(target, busy.location, objects=busy.packs)
    assert (busy.packs / "mine").read_text() == "mine"
    assert seen(live) == old


def test_a_backup_is_made_only_where_nothing_else_is(make: Make, target: Path) -> None:
    with make("live").open() as vault, make("other").open() as other:
        fill(vault, length=2)
        other.namespace("x").snapshot()
        target.mkdir()
        (target / "mine").write_text("mine")
        with pytest.raises(PathExists):
            vault.backup(target)
        (target / "mine").unlink()
        vault.backup(target)
        before = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
        with pytest.raises(PathExists):
            other.backup(target)
        (target / "backup.json").write_text("{}")
        with pytest.raises(BackupDamaged):
            vault.backup(target)
        (target / "backup.json").write_bytes(before[target / "backup.json"])
        now = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
        assert now == before
        with pytest.raises(PathExists):
            vault.backup(vault._context.folders[0] / "inside")


@pytest.mark.parametrize(
    "name", ["packs/q7/pack-other-0000q7.pack", "packs/notes.txt", "catalog-2026.csv"]
)
def test_what_is_of_somebody_else_is_never_removed(make: Make, target: Path, name: str) -> None:
    (target / name).parent.mkdir(parents=True)
    (target / name).write_text("all that there is")
    with make("live").open() as vault:
        fill(vault, length=2)
        with pytest.raises(PathExists):
            vault.backup(target)
    assert (target / name).read_text() == "all that there is"
    assert [path for path in target.rglob("*") if path.is_file()] == [target / name]


def test_a_backup_is_not_made_around_the_vault(make: Make, tmp_path: Path, target: Path) -> None:
    place = tmp_path / "place"
    live = Vault(make("live").location, place / "packs")
    with live.open() as vault:
        fill(vault, length=2)
        before = sorted(place.rglob("*"))
        target.symlink_to(place)
        for chosen in (place, target):
            with pytest.raises(PathExists):
                vault.backup(chosen)
        assert sorted(place.rglob("*")) == before


def test_a_damaged_vault_is_not_backed_up_over_a_good_backup(make: Make, target: Path) -> None:
    live = make("live")
    with live.open() as vault:
        fill(vault)
        vault.backup(target)
    old = seen(live)
    for pack in sorted(live.packs.rglob("*.pack"))[:2]:
        good = pack.read_bytes()
        pack.write_bytes(good[:40] + bytes([good[40] ^ 1]) + good[41:])
        with live.open() as vault, pytest.raises(Damaged, match="not backed up"):
            vault.backup(target)
        pack.write_bytes(good)
    assert seen(reinstated(make, target)) == old


def test_nobody_sees_a_catalog_before_the_place_of_its_packs_is_marked(
    tmp_path: Path, postgres: PostgresServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who opened it in between could have another place taken for the vault's."""
    live, new = (postgres.dsn(postgres.create_database()) for _ in range(2))
    with holdfast.open(live, objects=tmp_path / "live", limits=LIMITS) as vault:
        vault.namespace("alice").files.write("a.bin", noise(4000, 1))
        vault.namespace("alice").snapshot()
        vault.backup(target)
    marked, put_mark = list[bytes](), DiskBlobStore.put_mark

    def put(self: DiskBlobStore, data: bytes, /) -> None:
        with pytest.raises(VaultUnfinished):
            holdfast.open(new, objects=tmp_path / "live")
        put_mark(self, data)
        marked.append(data)

    monkeypatch.setattr(DiskBlobStore, "put_mark", put)
    holdfast.reinstate(target, new, objects=tmp_path / "new")
    assert marked == [(tmp_path / "new" / "vault.json").read_bytes()]
    with pytest.raises(StoreMismatch):
        holdfast.open(new, objects=tmp_path / "live")


def test_rows_of_one_database_are_not_put_into_another(
    tmp_path: Path, postgres_url: str, target: Path
) -> None:
    with holdfast.open(tmp_path / "live") as vault:
        vault.namespace("alice").snapshot()
        vault.backup(target)
    with pytest.raises(Incompatible):
        holdfast.reinstate(target, postgres_url, objects=tmp_path / "packs")
    with pytest.raises(InvalidValue):
        holdfast.reinstate(target, postgres_url)
    text = (target / "backup.json").read_text().replace('"format": 1', '"format": 4')
    (target / "backup.json").write_text(text)
    with pytest.raises(VaultTooNew):
        holdfast.reinstate(target, tmp_path / "new")


def test_two_at_once_are_one_and_busy(
    make: Make, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retiring, "PATIENCE_S", 2 * retiring.PAUSE_S)
    with make("live").open() as vault:
        fill(vault, length=2)
        with vault._context.catalog.lock(retiring.LOCK), pytest.raises(Busy):
            vault.backup(target)
        vault.backup(target)


class Contended:
    """A catalog whose locks somebody else lets go of while they are waited for."""

    def __init__(self, inner: Any, *, meets: list[str]) -> None:
        self._inner, self._meets = inner, meets

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def lock(self, name: str) -> Any:
        if len(self._meets) < 3:
            self._meets.append(name)
            raise Busy(name)
        return self._inner.lock(name)


def test_a_backup_waits_for_bytes_that_are_being_given_back(make: Make, target: Path) -> None:
    met: list[str] = []
    with make("live").open() as vault:
        fill(vault, length=2)
        context = replace(vault._context, catalog=Contended(vault._context.catalog, meets=met))
        assert making.back_up(context, FolderPlace(target)).packs > 0
    assert met == [retiring.LOCK] * 3


# Power cuts, and a full disk


def test_a_power_cut_at_any_step_leaves_the_backup_before_or_the_new_one(
    make: Make, target: Path, tmp_path: Path
) -> None:
    live = make("live")
    with live.open() as vault:
        fill(vault, length=2)
        vault.backup(target)
        first = seen(live)
        alice = vault.namespace("alice")
        alice.files.write("more.bin", noise(4000, 8))
        alice.delete_snapshot(alice.timeline()[-1])
        alice.snapshot("more")
        vault.collect()
    second = seen(live)
    saved = tmp_path / "saved"
    shutil.copytree(target, saved)
    names = list[str]()
    for fuse in fuses(counts=touches_files):
        shutil.rmtree(target)
        shutil.copytree(saved, target)
        with live.context() as context, fuse, fused_files(fuse):
            fused = replace(context, catalog=FusedCatalog(context.catalog, fuse))
            Holdfast(fused).backup(target)
        manifest = Backup(FolderPlace(target))
        manifest.check()
        names.append(manifest.manifest.catalog.file)
        if fuse.blown and len(names) > 1 and names[-1] == names[-2]:
            continue  # the same backup as after the cut before
        is_old = manifest.manifest.snapshots == Backup(FolderPlace(saved)).manifest.snapshots
        again = reinstated(make, target, f"again-{fuse.steps}")
        assert seen(again) == (first if names[-1] == names[0] else second), (fuse, is_old)
    assert len(set(names)) > 1
    with live.open() as vault:
        vault.backup(target)
    found = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert found == Backup(FolderPlace(target)).manifest.paths


def test_a_full_disk_leaves_the_backup_before(make: Make, target: Path) -> None:
    live = make("live")
    with live.open() as vault:
        fill(vault, length=2)
        vault.backup(target)
    old = seen(live)
    with live.open() as vault:
        vault.namespace("alice").files.write("more.bin", noise(4000, 8))
        trouble = Trouble(0, 28, counts=lambda name: name == "os.fsync", lasts=True)
        with fused_files(trouble), pytest.raises(StorageFull) as raised:
            vault.backup(target)
        # Its own disk, and not the vault's, where something could be collected.
        assert str(target) in str(raised.value)
        assert str(target) in raised.value.hint
        assert "collect" not in raised.value.hint
    assert seen(reinstated(make, target)) == old


def test_a_full_temporary_directory_is_named_and_not_the_catalog(
    make: Make, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, spool = "a key of thirty-two characters, or more", tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    live = make("live")

    def full(_: Transaction, path: str, *, opened: Callable[[], None]) -> None:
        assert path.startswith(str(spool))
        opened()
        raise StorageFull("the catalog answered: database or disk is full")

    with live.open() as vault:
        fill(vault, length=2)
        vault.backup(target, key=key)
        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "dump", full)
            with pytest.raises(StorageFull, match=f"{spool} has no room") as raised:
                vault.backup(target, key=key)
        assert "TMPDIR" in raised.value.hint
        assert not list(spool.iterdir())
    new = make("new")
    with monkeypatch.context() as patch:
        if "://" in new.location:
            # Where rows lie until they are loaded.
            patch.setattr(tempfile, "TemporaryFile", FullFile)
            wanted = f"{spool} has no room"
        else:
            patch.setattr(DiskBlobStore, "put", FullFile().writelines)
            wanted = f"the disk of {new.location} has no room"
        with pytest.raises(StorageFull, match=wanted) as raised:
            holdfast.reinstate(target, new.location, objects=new.packs, key=key)
    assert "collect" not in raised.value.hint
    assert not new.packs.exists()
    holdfast.reinstate(target, new.location, objects=new.packs, key=key)
    assert seen(new) == seen(live)


class FullFile:
    """A file on a disk that is full."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Has nothing to close."""

    def writelines(self, *_: object) -> None:
        raise StorageFull("it is full")


KILLED = {
    "among the packs": "DiskBlobStore.put = lambda *_: die()",
    "before the rows": "r.Backup.rows = r.Backup.copy_rows = lambda *_: die()",
    "before anything is erased": "r._erase_again = lambda *_: die()",
    "before all is proven": "r._prove = lambda *_: die()",
    "before the last step": "r._begin_eras = lambda *_: die()",
}


@pytest.mark.parametrize("when", KILLED.values(), ids=KILLED)
def test_a_killed_reinstating_leaves_no_vault_and_is_repeated(
    make: Make, target: Path, when: str
) -> None:
    live = make("live")
    with live.open() as vault:
        fill(vault, length=2)
        vault.backup(target)
    again = make("again")
    code = (
        "import os, sys, holdfast.reinstating as r\n"
        "from holdfast.blobs.disk import DiskBlobStore\n"
        "die = lambda: os.kill(os.getpid(), 9)\n"
        f"{when}\n"
        "r.reinstate(sys.argv[1], sys.argv[2], objects=sys.argv[3])\n"
    )
    run = [sys.executable, "-c", code, str(target), again.location, str(again.packs)]
    assert subprocess.run(run, check=False).returncode == -9
    if "://" in again.location:
        with pytest.raises(VaultUnfinished, match="brought back"):
            again.open()
        with pytest.raises(VaultUnfinished):
            find_formats(again.location)
    else:
        assert not again.packs.exists()
        assert not Path(again.location).exists()
    holdfast.reinstate(target, again.location, objects=again.packs)
    assert seen(again) == seen(live)
    with again.open() as vault:
        assert vault.verify().ok
    with pytest.raises(PathExists):
        holdfast.reinstate(target, again.location, objects=again.packs)


def in_database(tmp_path: Path, postgres: PostgresServer, target: Path) -> str:
    """Makes a backup of a vault in a database; returns another one, in which nothing is."""
    live, new = (postgres.dsn(postgres.create_database()) for _ in range(2))
    with holdfast.open(live, objects=tmp_path / "live", limits=LIMITS) as vault:
        fill(vault, length=2)
        vault.backup(target)
    return new


class Killed(BaseException):
    """The process is gone: nothing is tidied up."""


def kill_before_proving(patch: pytest.MonkeyPatch) -> None:
    """Has a reinstating end where it would prove what it made, and leave all of that."""

    def die(*_: object) -> None:
        raise Killed

    patch.setattr(reinstating, "_prove", die)
    patch.setattr(reinstating._Making, "_give_up", lambda *_: None)


def test_nobody_opens_a_vault_or_brings_another_back_while_one_is_on_its_way(
    tmp_path: Path, postgres: PostgresServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, packs = in_database(tmp_path, postgres, target), tmp_path / "packs"
    erase, met = reinstating._erase_again, list[type[Exception]]()

    def meanwhile(*arguments: Any) -> Any:
        with pytest.raises(VaultUnfinished) as opened:
            holdfast.open(new, objects=packs)
        for place in (packs, tmp_path / "other"):
            with pytest.raises(Busy) as repeated:
                holdfast.reinstate(target, new, objects=place)
        met.extend((opened.type, repeated.type))
        return erase(*arguments)

    monkeypatch.setattr(reinstating, "_erase_again", meanwhile)
    holdfast.reinstate(target, new, objects=packs)
    assert met == [VaultUnfinished, Busy]
    assert not (tmp_path / "other").exists()
    with holdfast.open(new, objects=packs) as vault:
        assert vault.verify().ok


def test_what_a_killed_one_left_is_cleared_only_where_it_is_still_that(
    tmp_path: Path, postgres: PostgresServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, packs = in_database(tmp_path, postgres, target), tmp_path / "packs"
    with monkeypatch.context() as patch:
        kill_before_proving(patch)
        with pytest.raises(Killed):
            holdfast.reinstate(target, new, objects=packs)
    left = {path: path.read_bytes() for path in packs.rglob("*") if path.is_file()}
    assert len(left) > 3
    # Somebody else's by now: not a byte of it is touched.
    (packs / "vault.json").write_bytes(left[packs / "vault.json"].replace(b"since", b"when!"))
    with pytest.raises(PathExists):
        holdfast.reinstate(target, new, objects=packs)
    with pytest.raises(VaultUnfinished):
        holdfast.open(new, objects=packs)
    assert {path for path in packs.rglob("*") if path.is_file()} == set(left)
    # Another place will do; what was left in the first one stays there.
    holdfast.reinstate(target, new, objects=tmp_path / "other")
    with holdfast.open(new, objects=tmp_path / "other") as vault:
        assert vault.verify().ok
    assert {path for path in packs.rglob("*") if path.is_file()} == set(left)


def test_what_a_killed_one_left_is_cleared_also_if_the_next_names_another_place(
    tmp_path: Path, postgres: PostgresServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what was to be erased in it, and no mark that would lead there any more."""
    new, packs = in_database(tmp_path, postgres, target), tmp_path / "packs"

    def kill() -> None:
        with monkeypatch.context() as patch:
            kill_before_proving(patch)
            with pytest.raises(Killed):
                holdfast.reinstate(target, new, objects=packs)

    kill()
    assert [*packs.rglob("*.pack")]
    # Not before there is something to begin anew with.
    with pytest.raises(PathExists):
        holdfast.reinstate(target, new, objects=tmp_path / "live")
    assert [*packs.rglob("*.pack")]
    holdfast.reinstate(target, new, objects=tmp_path / "other")
    assert not packs.exists()
    with holdfast.open(new, objects=tmp_path / "other") as vault:
        assert vault.verify().ok


def test_what_a_killed_one_left_is_not_cleared_with_the_backup_in_it(
    tmp_path: Path, postgres: PostgresServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, packs = in_database(tmp_path, postgres, target), tmp_path / "packs"
    with monkeypatch.context() as patch:
        kill_before_proving(patch)
        with pytest.raises(Killed):
            holdfast.reinstate(target, new, objects=packs)
    moved = packs / "backup"
    target.rename(moved)
    holdfast.reinstate(moved, new, objects=tmp_path / "other")
    assert (moved / "backup.json").exists()


def test_a_last_step_whose_answer_is_lost_takes_no_packs_from_a_vault_that_is_there(
    tmp_path: Path, postgres: PostgresServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, packs = in_database(tmp_path, postgres, target), tmp_path / "packs"
    finish = postgres_reinstating.finish

    def unheard(url: str, ours: Any) -> None:
        finish(url, ours)
        raise OutcomeUnknown("the connection broke")

    monkeypatch.setattr(postgres_reinstating, "finish", unheard)
    with pytest.raises(OutcomeUnknown):
        holdfast.reinstate(target, new, objects=packs)
    with holdfast.open(new, objects=packs) as vault:
        assert vault.verify().ok


def test_what_cannot_be_proven_is_taken_back(
    make: Make, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make("live").open() as vault:
        fill(vault, length=2)
        with monkeypatch.context() as patched:
            # A backup that was made without being looked at, of a vault that lacks an object.
            patched.setattr(Examination, "look", pass_over)
            with vault._context.catalog.write() as transaction:
                [tenant, _] = transaction.iter_tenants()
                page = transaction.page_objects(tenant.id, after=b"", most=1000)
                transaction.delete_objects(tenant.id, [row.id for row in page], before=2**40)
            vault.backup(target)
    empty = make("again")
    with pytest.raises(BackupDamaged):
        holdfast.reinstate(target, empty.location, objects=empty.packs)
    assert not empty.packs.exists()
    with empty.open() as vault:
        assert vault.namespaces() == []


def pass_over(self: Examination, transaction: Transaction) -> Verified:
    self.packs = [p for p in transaction.iter_packs(self._tenant_id) if not p.is_inline]
    for pack in self.packs:
        self._keep(pack, self._context.blobs.get(pack.name), True)
    return Verified(0, 0, 0, 0)


# What lies beside the catalog


def test_what_an_open_store_has_only_in_its_log_is_in_the_backup(tmp_path: Path) -> None:
    with holdfast.Store.open(tmp_path / "live") as store:
        store.set("agent", "one", 1)
        with holdfast.open(tmp_path / "live") as vault:
            vault.backup(tmp_path / "backup")
        store.set("agent", "two", 2)
    holdfast.reinstate(tmp_path / "backup", tmp_path / "again")
    with holdfast.Store.open(tmp_path / "again") as store:
        assert store.get("agent", "one") == 1
        assert store.get("agent", "two") is None


def test_an_attached_directory_still_belongs_to_its_timeline(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one")
    with holdfast.open(tmp_path / "live") as vault:
        with vault.workspace(project) as work:
            work.snapshot("first")
        vault.backup(tmp_path / "backup")
    shutil.rmtree(tmp_path / "live")
    holdfast.reinstate(tmp_path / "backup", tmp_path / "live")
    (project / "a.txt").write_text("two")
    with holdfast.open(tmp_path / "live") as vault:
        found = vault.find_workspace(project)
        assert found is not None
        with found as work:
            work.restore("@")
    assert (project / "a.txt").read_text() == "one"


# As it is typed


def test_the_commands_make_a_backup_and_bring_it_back(
    tmp_path: Path, warm: tuple[str, ...]
) -> None:
    project, data = tmp_path / "project", tmp_path / "vault"
    project.mkdir()
    (project / "a.txt").write_text("one")

    def type_(*argv: str) -> "subprocess.CompletedProcess[str]":
        command = [*warm, *argv, "--data", str(data)]
        return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)

    assert type_("init").returncode == 0
    made = type_("backup", str(tmp_path / "backup"), "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["snapshots"] == 1
    shutil.rmtree(data)
    back = type_("reinstate", str(tmp_path / "backup"), str(data), "--json")
    assert back.returncode == 0, back.stderr
    assert json.loads(back.stdout)["verified"] is True
    again = type_("reinstate", str(tmp_path / "backup"), str(data))
    assert again.returncode == 4
    (project / "a.txt").write_text("two")
    assert type_("restore", "@").returncode == 0
    assert (project / "a.txt").read_text() == "one"
    file = min((tmp_path / "backup").glob("catalog-*"))
    with closing(sqlite3.connect(file)) as connection, suppress(sqlite3.Error):
        connection.execute("DELETE FROM snapshots")
        connection.commit()
    bad = type_("reinstate", str(tmp_path / "backup"), str(tmp_path / "new"))
    assert bad.returncode == 5
    assert not (tmp_path / "new").exists()
