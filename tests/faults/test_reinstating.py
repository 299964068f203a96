"""A backup is brought back where nothing is, and what keeps it from that is said.

Places that are taken, by others or by a second one at the same time; what is written as a place and
is none; disks that are full; manifests that no version has written.
"""

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import Request, urlopen

import msgspec
import psycopg
import pytest
from msgspec.structs import replace as replaced

import holdfast
from holdfast import reinstating
from holdfast.blobs.bucketplace import open_place
from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog import postgres_reinstating
from holdfast.engine.backups.manifest import Manifest, decode_manifest
from holdfast.engine.core.limits import Limits
from holdfast.engine.vault import Holdfast
from holdfast.errors import (
    BackupDamaged,
    InvalidValue,
    PathExists,
    StorageFull,
    VaultUnfinished,
)
from holdfast.model.upkeep import Unfinished
from holdfast.testing.buckets import SeaweedServer
from holdfast.testing.postgres import PostgresServer
from holdfast.wiring import holds_objects

pytestmark = pytest.mark.in_memory

LIMITS = Limits(inline_bytes=512, free_floor_bytes=0)


def fill(vault: Holdfast) -> None:
    alice = vault.namespace("alice")
    for number in range(2):
        alice.files.write("a.bin", Random(number).randbytes(4000))
        alice.snapshot(f"number {number}")


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of a vault in a directory."""
    with holdfast.open(tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
        vault.backup(tmp_path / "backup")
    return tmp_path / "backup"


@pytest.fixture
def of_database(tmp_path: Path, postgres_url: str) -> Path:
    """A backup of a vault in a database."""
    with holdfast.open(postgres_url, objects=tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
        vault.backup(tmp_path / "backup")
    return tmp_path / "backup"


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Places that are taken


@pytest.mark.usefixtures("bucket_url")
def test_a_prefix_that_holds_anything_is_not_empty(
    tmp_path: Path,
    postgres: PostgresServer,
    postgres_url: str,
    seaweed: SeaweedServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    own = seaweed.url(os.urandom(8).hex())
    new = postgres.dsn(postgres.create_database())
    with holdfast.open(postgres_url, objects=tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
        for name in ("mine", "other"):
            vault.backup(f"{own}/{name}")
        before = set(open_place(own).sizes())
        # The backup itself, in and around it; another one, and what others are in.
        for name in ("/mine", "/mine/packs", "/mine/new", "", "/other"):
            with pytest.raises(PathExists) as raised:
                holdfast.reinstate(f"{own}/mine", new, objects=f"{own}{name}")
            assert "new or empty" in raised.value.hint
            assert set(open_place(own).sizes()) == before
            vault.backup(f"{own}/mine")
            before = set(open_place(own).sizes())
    # A name that begins as another is a place of its own.
    holdfast.reinstate(f"{own}/mine", new, objects=f"{own}/min")
    with holdfast.open(new, objects=f"{own}/min") as vault:
        assert vault.verify().ok


def test_what_tools_put_where_they_make_a_folder_is_nothing(
    moto_url: str, moto_endpoint: str
) -> None:
    assert not holds_objects(moto_url)
    for path, is_taken in (("", False), ("theirs/", True)):
        url = f"{moto_endpoint}/{moto_url.removeprefix('s3://')}/{path}"
        with urlopen(Request(url, data=b"", method="PUT")) as answer:
            assert answer.status == 200
        assert holds_objects(moto_url) == is_taken


def test_no_vault_is_made_inside_of_its_backup(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_of(tmp_path)
    (tmp_path / "link").symlink_to(backup)
    monkeypatch.chdir(tmp_path)
    for place in (backup / "x", "backup/new/vault", tmp_path / "link/x", backup, tmp_path):
        with pytest.raises(PathExists) as raised:
            holdfast.reinstate(backup, place)
        assert "new or empty" in raised.value.hint
        with pytest.raises(PathExists):
            holdfast.reinstate(backup, tmp_path / "again", objects=place)
    assert files_of(tmp_path) == before
    with holdfast.open(tmp_path / "live") as vault:
        assert not vault.backup(backup).is_first


def test_packs_of_a_database_do_not_go_into_the_backup(
    tmp_path: Path, postgres: PostgresServer, of_database: Path
) -> None:
    new, before = postgres.dsn(postgres.create_database()), files_of(of_database)
    for place in (of_database, of_database / "new", of_database / "packs"):
        with pytest.raises(PathExists, match="the backup itself"):
            holdfast.reinstate(of_database, new, objects=place)
    assert files_of(of_database) == before
    with psycopg.connect(new) as connection:
        assert connection.execute("SELECT to_regnamespace('holdfast')").fetchone() == (None,)
    holdfast.reinstate(of_database, new, objects=tmp_path / "backup-packs")


def test_of_two_that_bring_packs_to_one_place_the_second_is_told(
    tmp_path: Path,
    postgres: PostgresServer,
    of_database: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = (postgres.dsn(postgres.create_database()) for _ in range(2))
    packs, check = tmp_path / "packs", reinstating.Backup.check

    def meanwhile(*arguments: Any, **named: Any) -> None:
        monkeypatch.undo()
        holdfast.reinstate(of_database, first, objects=packs)
        check(*arguments, **named)

    monkeypatch.setattr(reinstating.Backup, "check", meanwhile)
    with pytest.raises(PathExists, match="a vault, or the packs of one") as raised:
        holdfast.reinstate(of_database, second, objects=packs)
    assert "new or empty" in raised.value.hint
    assert not list(tmp_path.glob(".*reinstating"))
    with holdfast.open(first, objects=packs) as vault:
        assert vault.verify().ok
    holdfast.reinstate(of_database, second, objects=tmp_path / "other")


def test_what_is_no_directory_is_named(tmp_path: Path, backup: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    with pytest.raises(PathExists, match=r"a link at .*link") as raised:
        holdfast.reinstate(backup, tmp_path / "link")
    assert str(tmp_path / "empty") in raised.value.hint
    (tmp_path / "file").write_text("mine")
    for place in ("file", "file/x", "file/x/y"):
        with pytest.raises(PathExists, match="file'"):
            holdfast.reinstate(backup, tmp_path / place)
    with holdfast.open(tmp_path / "live") as vault:
        for place in ("backup.json", "backup.json/x"):
            with pytest.raises(PathExists, match=r"no directory at .*backup\.json'") as raised:
                vault.backup(backup / place)
            assert "directory" in raised.value.hint
    holdfast.reinstate(backup, tmp_path / "empty")


NO_PLACES = ["s3://bucket/x", "gs://x/y", "az://x/y", "http://x/y", "s3:/bucket/x"]


@pytest.mark.parametrize("place", NO_PLACES)
def test_a_url_that_is_no_database_is_no_place_for_a_vault(
    tmp_path: Path, backup: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InvalidValue, match="postgresql://"):
        holdfast.reinstate(backup, place)
    if not place.startswith(("s3://", "gs://", "az://")):
        with pytest.raises(InvalidValue, match="az://"):
            holdfast.reinstate(backup, tmp_path / "again", objects=place)
    assert sorted(tmp_path.iterdir()) == before


# Who was cut off


def test_who_was_cut_off_while_another_began_is_told_so(
    tmp_path: Path,
    postgres: PostgresServer,
    of_database: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new, prove = postgres.dsn(postgres.create_database()), reinstating._prove

    def cut_off(*arguments: Any) -> Any:
        monkeypatch.undo()
        # What the next one does first, when nobody holds the lock any more.
        ours = Unfinished(str(tmp_path / "other"), "another")
        with psycopg.connect(new, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        postgres_reinstating.begin(new, ours)
        return prove(*arguments)

    monkeypatch.setattr(reinstating, "_prove", cut_off)
    with pytest.raises(VaultUnfinished):
        holdfast.reinstate(of_database, new, objects=tmp_path / "packs")
    # What the other has begun is as it was.
    with pytest.raises(VaultUnfinished):
        holdfast.open(new, objects=tmp_path / "other")
    holdfast.reinstate(of_database, new, objects=tmp_path / "third")


# What is said


def test_what_was_erased_again_is_not_counted(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
        vault.namespace("bob").files.write("b.txt", "b")
        vault.namespace("bob").snapshot()
        vault.tenant("acme").namespace("carol").snapshot()
        vault.delete_namespace("bob")
        made = vault.backup(tmp_path / "backup")
        certificate = vault.erasures.namespace("alice")
    (tmp_path / "erased.json").write_bytes(msgspec.json.encode(certificate))
    whole = holdfast.reinstate(tmp_path / "backup", tmp_path / "whole")
    assert (whole.namespaces, whole.snapshots) == (made.namespaces, made.snapshots) == (3, 4)
    less = holdfast.reinstate(
        tmp_path / "backup", tmp_path / "less", erased=[tmp_path / "erased.json"]
    )
    assert (less.namespaces, less.snapshots) == (2, 2)


def test_a_full_disk_is_named_when_rows_go_to_a_database(
    tmp_path: Path,
    postgres: PostgresServer,
    of_database: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new, packs = postgres.dsn(postgres.create_database()), tmp_path / "packs"

    def full(*_: object, **__: object) -> None:
        raise StorageFull("no space left on device")

    for owner, name, named in (
        (DiskBlobStore, "put", f"the disk of {packs} has no room"),
        (postgres_reinstating, "load_rows", "the database has no room"),
        (reinstating, "_erase_again", f"the database, or the place of {packs}, has no room"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, full)
            with pytest.raises(StorageFull, match=named) as raised:
                holdfast.reinstate(of_database, new, objects=packs)
        assert "collect" not in raised.value.hint
        assert not packs.exists()
    holdfast.reinstate(of_database, new, objects=packs)


FORGED: dict[str, Callable[[Manifest], Manifest]] = {
    "a kind that is none": lambda all_: replaced(all_, catalog=replaced(all_.catalog, kind="foo")),
    "a moment without a zone": lambda all_: replaced(
        all_,
        made_at=datetime(2026, 1, 1),  # noqa: DTZ001 - as somebody may write it
    ),
    "a copy without a zone": lambda all_: replaced(
        all_,
        reinstated_at=datetime(2026, 1, 1),  # noqa: DTZ001 - as above
    ),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_manifest_that_no_version_has_written_is_damage(
    tmp_path: Path, backup: Path, forge: Callable[[Manifest], Manifest]
) -> None:
    manifest = backup / "backup.json"
    manifest.write_bytes(forge(decode_manifest(manifest.read_bytes())).encode())
    with pytest.raises(BackupDamaged, match=r"backup\.json"):
        holdfast.reinstate(backup, tmp_path / "again")
    with holdfast.open(tmp_path / "live") as vault, pytest.raises(BackupDamaged):
        vault.backup(backup)
    assert not (tmp_path / "again").exists()
