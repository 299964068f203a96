"""A backup in a bucket, or encrypted: whole or none, and read by who has its key alone.

On a real bucket, with a wire to it on which answers are lost and the one who sends is killed.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast import reinstating
from holdfast.blobs import bucketplace
from holdfast.blobs.bucketplace import BucketPlace, open_place
from holdfast.blobs.places import Pieces, read_whole
from holdfast.catalog.port import Catalog
from holdfast.catalog.transaction import Transaction
from holdfast.engine.backups.folders import FolderPlace
from holdfast.engine.backups.reading import Backup
from holdfast.engine.backups.sealing import HEADER_BYTES, SEGMENT_BYTES, SealedPlace
from holdfast.engine.core.limits import Limits
from holdfast.engine.vault import Holdfast
from holdfast.errors import (
    BackupDamaged,
    BackupLocked,
    Busy,
    InvalidValue,
    PathExists,
    VaultUnfinished,
)
from holdfast.testing.buckets import Fault, SeaweedServer, Wire
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.servers import COMMAND

# None of it is about a disk.
pytestmark = pytest.mark.in_memory

KEY = "correct horse battery staple, and more of it"
OTHER = "another key of more than thirty-two characters"
SECRET = b"what nobody else is to read"
LIMITS = Limits(inline_bytes=512, free_floor_bytes=0)

Bucket = Callable[[str], str]
"""Returns the URL of a place in a bucket, by its name."""


def noise(size: int, seed: int) -> bytes:
    return Random(seed).randbytes(size)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def bucket(seaweed: SeaweedServer) -> Bucket:
    """Returns URLs of places in the bucket that nobody else uses."""
    own = os.urandom(8).hex()
    return lambda name: seaweed.url(f"{own}/{name}")


def fill(vault: Holdfast) -> None:
    alice = vault.namespace("alice")
    for number in range(3):
        alice.files.write_many([(f"{n}.bin", noise(3000, 10 * number + n)) for n in range(3)])
        alice.snapshot(f"number {number}")
    alice.files.write("note.txt", SECRET * 100)
    alice.sessions.create("a", session_id="s", initial_state={"text": SECRET.decode()})
    vault.tenant("acme").namespace("bob").files.write("theirs.bin", noise(5000, 5))


def check_same(location: str, objects: str | Path | None) -> None:
    with holdfast.open(location, objects=objects, limits=LIMITS) as again:
        alice = again.namespace("alice")
        assert alice.files.read("note.txt") == SECRET * 100
        assert [each.label for each in alice.timeline()][-1] == "number 0"
        assert alice.at(alice.timeline()[-1]).files.read("2.bin") == noise(3000, 2)
        assert alice.sessions.get_state("s").state == {"text": SECRET.decode()}
        assert again.tenant("acme").namespace("bob").files.read("theirs.bin") == noise(5000, 5)
        assert all(again.tenant(name).verify().ok for name in again.tenants())


# There and back


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_a_vault_goes_to_a_bucket_and_comes_back(
    tmp_path: Path, wire: Wire, bucket: Bucket, key: str | None
) -> None:
    with holdfast.open(tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
        first = vault.backup(bucket("backup"), key=key)
        assert (first.is_first, first.is_encrypted, first.is_beside) == (True, bool(key), False)
        assert first.packs == first.packs_copied > 3
        wire.counts.clear()
        wire.body_bytes = 0
        vault.namespace("alice").files.write("more.bin", noise(4000, 99))
        second = vault.backup(bucket("backup"), key=key)
        assert (second.is_first, second.packs_copied) == (False, 1)
        # The new pack, the rows, the manifest; none of the old packs is read or sent.
        assert wire.counts["PUT"] == 3
        assert wire.body_bytes < 20_000
    done = holdfast.reinstate(bucket("backup"), tmp_path / "again", key=key)
    assert done.packs >= second.packs
    check_same(str(tmp_path / "again"), None)
    # Any tool may copy it: what is in a directory is a backup, too.
    for path in open_place(bucket("backup")).sizes():
        (tmp_path / "copied" / path).parent.mkdir(parents=True, exist_ok=True)
        data = read_whole(open_place(bucket("backup")), path)
        assert data is not None
        assert key is None or SECRET not in data
        (tmp_path / "copied" / path).write_bytes(data)
    holdfast.reinstate(tmp_path / "copied", tmp_path / "third", key=key)
    check_same(str(tmp_path / "third"), None)


@pytest.mark.postgres
@pytest.mark.usefixtures("bucket_url")
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
def test_a_vault_in_a_database_whose_packs_are_in_the_same_bucket(
    postgres: PostgresServer,
    postgres_url: str,
    bucket: Bucket,
    key: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent, write = list[str](), BucketPlace.write

    def noted(self: BucketPlace, path: str, pieces: Pieces, /, *, size: int) -> None:
        sent.append(path)
        write(self, path, pieces, size=size)

    monkeypatch.setattr(BucketPlace, "write", noted)
    new = postgres.dsn(postgres.create_database())
    packs, again = bucket("packs"), bucket("again")
    with holdfast.open(postgres_url, objects=packs, limits=LIMITS) as vault:
        fill(vault)
        for inside in (packs, f"{packs}/backup", packs.rpartition("/")[0]):
            with pytest.raises(PathExists):
                vault.backup(inside, key=key)
        done = vault.backup(bucket("packs-backup"), key=key)
        assert done.is_beside
        # Copied inside of the bucket, unless it is to be encrypted on the way.
        assert sum(".pack" in path for path in sent) == (done.packs_copied if key else 0)
        assert done.packs_copied > 3
        assert vault.backup(bucket("packs-backup"), key=key).packs_copied == 0
    holdfast.reinstate(bucket("packs-backup"), new, objects=again, key=key)
    check_same(new, again)


def test_the_commands_take_a_bucket_and_the_key_in_a_file(
    tmp_path: Path, bucket_url: str, monkeypatch: pytest.MonkeyPatch, warm: tuple[str, ...]
) -> None:
    with holdfast.open(tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
    (tmp_path / "key").write_text(KEY)

    def type_(*argv: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*warm, *argv], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    monkeypatch.setenv("HOLDFAST_BACKUP_KEY_FILE", str(tmp_path / "key"))
    made = type_("backup", bucket_url, "--data", "live")
    assert (made.returncode, made.stderr) == (0, "")
    assert "encrypted" in made.stdout
    (tmp_path / "key").write_text(OTHER)
    refused = type_("reinstate", bucket_url, "again")
    assert refused.returncode != 0
    assert "another key" in refused.stderr
    assert not (tmp_path / "again").exists()
    (tmp_path / "key").write_text(KEY)
    assert type_("reinstate", bucket_url, "again").returncode == 0
    check_same(str(tmp_path / "again"), None)


# Killed, lost, and two at once


@pytest.mark.postgres
@pytest.mark.usefixtures("bucket_url")
@pytest.mark.parametrize(
    "when", ["BucketBlobStore.put = once", "r._prove = die"], ids=["among packs", "at the end"]
)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["there", "elsewhere"])
def test_what_a_killed_reinstating_left_in_a_bucket_is_cleared_by_the_next(
    tmp_path: Path,
    postgres_url: str,
    postgres: PostgresServer,
    bucket: Bucket,
    when: str,
    *,
    elsewhere: bool,
) -> None:
    new, packs = postgres.dsn(postgres.create_database()), bucket("packs")
    with holdfast.open(postgres_url, objects=tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
        vault.backup(tmp_path / "backup")
    code = (
        "import os, sys, holdfast.reinstating as r\n"
        "from holdfast.blobs.bucket import BucketBlobStore\n"
        "die = lambda *_: os.kill(os.getpid(), 9)\n"
        "put = BucketBlobStore.put\n"
        "once = lambda self, *a: (put(self, *a), die())\n"
        f"{when}\n"
        "r.reinstate(sys.argv[1], sys.argv[2], objects=sys.argv[3])\n"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "backup"), new, packs]
    assert subprocess.run(run, check=False).returncode == -signal.SIGKILL
    assert open_place(packs).sizes()
    with pytest.raises(VaultUnfinished):
        holdfast.open(new, objects=packs)
    there = bucket("elsewhere") if elsewhere else packs
    holdfast.reinstate(tmp_path / "backup", new, objects=there)
    check_same(new, there)
    assert (open_place(packs).sizes() == {}) == elsewhere


@pytest.mark.postgres
@pytest.mark.usefixtures("bucket_url")
def test_a_reinstating_that_fails_leaves_nothing_in_a_bucket(
    tmp_path: Path,
    postgres_url: str,
    postgres: PostgresServer,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new, packs = postgres.dsn(postgres.create_database()), bucket("packs")
    with holdfast.open(postgres_url, objects=tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
        vault.backup(tmp_path / "backup")

    def fail(*_: object) -> None:
        raise BackupDamaged("a snapshot", reason="it is not whole")

    monkeypatch.setattr(reinstating, "_prove", fail)
    with pytest.raises(BackupDamaged):
        holdfast.reinstate(tmp_path / "backup", new, objects=packs)
    assert open_place(packs).sizes() == {}
    with holdfast.open(new, objects=packs) as vault:
        assert vault.namespaces() == []


def test_kill_9_anywhere_leaves_the_backup_before_or_none(
    tmp_path: Path, wire: Wire, bucket: Bucket
) -> None:
    """And nothing of what was to be encrypted where it was on its way."""
    live, spool, place = tmp_path / "live", tmp_path / "spool", bucket("backup")
    spool.mkdir()
    with holdfast.open(live, limits=LIMITS) as vault:
        fill(vault)

    def kill_at(kind: str, fault: str, *, nth: int = 1) -> None:
        """Makes a backup that is killed when it sends its nth object of a kind."""
        puts = list[str]()
        with subprocess.Popen(
            [*COMMAND, "backup", place, "--data", str(live), "-q"],
            env={**os.environ, "TMPDIR": str(spool), "HOLDFAST_BACKUP_KEY": KEY},
        ) as running:

            def choose(method: str, path: str) -> str | None:
                if method != "PUT" or kind not in path:
                    return None
                puts.append(path)
                if len(puts) != nth:
                    return None
                running.kill()
                return fault

            wire.choose = choose
            assert running.wait(timeout=60) == -signal.SIGKILL
        wire.choose = lambda _method, _path: None
        assert [*spool.rglob("*")] == []

    def backup() -> Backup:
        return Backup(SealedPlace(open_place(place), KEY))

    kill_at(".pack", Fault.BUSY, nth=2)
    with pytest.raises(BackupDamaged, match="never finished"):
        holdfast.reinstate(place, tmp_path / "none", key=KEY)
    assert not (tmp_path / "none").exists()
    with holdfast.open(live, limits=LIMITS) as vault:
        sent = list[str]()
        wire.choose = lambda method, path: sent.append(path) if method == "PUT" else None
        vault.backup(place, key=KEY)
        assert "backup.json" in sent[-1]
        first = backup().manifest
        vault.namespace("alice").files.write("more.bin", noise(4000, 99))
        vault.namespace("alice").snapshot("more")
    # A pack and the rows are there by then, and nobody knows of them.
    for kind, fault in (
        (".pack", Fault.LOSE),
        ("/catalog-", Fault.LOSE),
        ("/backup.json", Fault.BUSY),
    ):
        kill_at(kind, fault)
        assert backup().manifest == first
        backup().check()
    holdfast.reinstate(place, tmp_path / "old", key=KEY)
    check_same(str(tmp_path / "old"), None)
    with holdfast.open(live, limits=LIMITS) as vault:
        vault.backup(place, key=KEY)
    made = backup().manifest
    assert made.snapshots == first.snapshots + 1
    # What the killed ones have left is gone.
    assert {*open_place(place).sizes()} == made.paths


def test_an_answer_that_was_lost_is_not_taken_for_another_backup(
    tmp_path: Path, wire: Wire, bucket: Bucket
) -> None:
    with holdfast.open(tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
        for _ in range(2):
            lost = list[str]()

            def lose(method: str, path: str, lost: list[str] = lost) -> str | None:
                if method != "PUT" or lost or "backup.json" not in path:
                    return None
                lost.append(path)
                return Fault.LOSE

            wire.choose = lose
            vault.backup(bucket("backup"), key=KEY)
            assert lost
    holdfast.reinstate(bucket("backup"), tmp_path / "again", key=KEY)


@pytest.mark.parametrize("maker", ["bucket_url", "moto_url"])
def test_of_two_that_make_a_backup_at_once_the_second_is_refused(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, maker: str
) -> None:
    url = request.getfixturevalue(maker)
    plain = open_place(url)
    for place in (plain, SealedPlace(open_place(f"{url}-sealed"), KEY)):
        place.publish("backup.json", b"{1}", over=None)
        with pytest.raises(Busy):
            place.publish("backup.json", b"{2}", over=None)
        place.publish("backup.json", b"{3}", over=b"{1}")
        with pytest.raises(Busy):
            place.publish("backup.json", b"{4}", over=b"{1}")
        assert read_whole(place, "backup.json") == b"{3}"
    # As large as rows are: in parts, and read in ranges.
    monkeypatch.setattr(bucketplace, "_WHOLE_BYTES", 16 << 20)
    large = noise(18 << 20, 1)
    pieces = (large[at : at + (1 << 20)] for at in range(0, len(large), 1 << 20))
    plain.write("catalog-0123456789abcdef", pieces, size=len(large))
    assert read_whole(plain, "catalog-0123456789abcdef") == large


def test_what_lacks_anything_in_a_bucket_is_refused_and_nothing_is_made(
    tmp_path: Path, bucket_url: str
) -> None:
    with holdfast.open(tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
        vault.backup(bucket_url)
        with pytest.raises(InvalidValue):
            vault.backup("ftp://somewhere/backup")
    place = open_place(bucket_url)
    manifest = Backup(place).manifest
    for path in (manifest.catalog.file, manifest.packs[0].path):
        good = read_whole(place, path)
        assert good is not None
        for bad in (None, good[:-1], bytes([good[0] ^ 1]) + good[1:]):
            place.remove(path)
            if bad is not None:
                place.write(path, [bad], size=len(bad))
            with pytest.raises(BackupDamaged):
                holdfast.reinstate(bucket_url, tmp_path / "again")
            assert sorted(each.name for each in tmp_path.iterdir()) == ["live"]
        place.write(path, [good], size=len(good))
    holdfast.reinstate(bucket_url, tmp_path / "again")


# Encrypted


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """An encrypted backup in a directory."""
    with holdfast.open(tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
        assert vault.backup(tmp_path / "backup", key=KEY).is_encrypted
        assert vault.backup(tmp_path / "backup", key=KEY).packs_copied == 0
    return tmp_path / "backup"


def test_what_is_encrypted_opens_with_its_key_alone(sealed: Path, tmp_path: Path) -> None:
    for path in sealed.rglob("*"):
        assert path.is_dir() or SECRET not in path.read_bytes()
    for key in (None, OTHER, "short"):
        with pytest.raises(BackupLocked):
            holdfast.reinstate(sealed, tmp_path / "again", key=key)
        with holdfast.open(tmp_path / "live") as vault, pytest.raises(BackupLocked):
            vault.backup(sealed, key=key)
    with holdfast.open(tmp_path / "live") as vault:
        vault.backup(tmp_path / "plain")
        with pytest.raises(BackupLocked):
            vault.backup(tmp_path / "plain", key=KEY)
    # Whoever can write there could have put it there.
    with pytest.raises(BackupLocked):
        holdfast.reinstate(tmp_path / "plain", tmp_path / "again", key=KEY)
    assert not (tmp_path / "again").exists()
    holdfast.reinstate(sealed, tmp_path / "again", key=KEY)
    check_same(str(tmp_path / "again"), None)


def test_an_encrypted_backup_that_lost_its_manifest_is_not_gone_on_with_in_plain(
    sealed: Path, tmp_path: Path
) -> None:
    (sealed / "backup.json").unlink()
    before = {path: path.read_bytes() for path in sealed.rglob("*") if path.is_file()}
    with holdfast.open(tmp_path / "live") as vault:
        with pytest.raises(BackupLocked, match="no key was given"):
            vault.backup(sealed)
        assert {path: path.read_bytes() for path in sealed.rglob("*") if path.is_file()} == before
        assert vault.backup(sealed, key=KEY).is_encrypted
    holdfast.reinstate(sealed, tmp_path / "again", key=KEY)


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": b""},
        {"key": 5},
        {"objects": 7},
        {"erased": 5},
        {"erased": "one"},
        {"erased": [5]},
        {"backup": 5},
        {"location": None},
    ],
    ids=str,
)
def test_what_is_of_another_type_is_refused_as_such(
    tmp_path: Path, wrong: dict[str, object]
) -> None:
    given: dict[str, Any] = {"backup": tmp_path / "backup", "location": tmp_path / "again", **wrong}
    with pytest.raises(InvalidValue, match=next(iter(wrong))):
        holdfast.reinstate(given.pop("backup"), given.pop("location"), **given)


def test_a_key_is_the_same_from_the_environment_and_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    with holdfast.open(tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
        monkeypatch.setenv("HOLDFAST_BACKUP_KEY", f"{KEY}\n")
        vault.backup(tmp_path / "backup")
    monkeypatch.delenv("HOLDFAST_BACKUP_KEY")
    monkeypatch.setenv("HOLDFAST_BACKUP_KEY_FILE", str(tmp_path / "key"))
    holdfast.reinstate(tmp_path / "backup", tmp_path / "again")
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("HOLDFAST_BACKUP_KEY_FILE", str(tmp_path / "pipe"))
    with pytest.raises(InvalidValue, match=r"_FILE: .*pipe' is a pipe.*: name a file"):
        holdfast.reinstate(tmp_path / "backup", tmp_path / "third")


def test_it_is_said_whose_a_place_is_that_is_taken(tmp_path: Path) -> None:
    with (
        holdfast.open(tmp_path / "live", limits=LIMITS) as vault,
        holdfast.open(tmp_path / "other", limits=LIMITS) as other,
    ):
        fill(vault)
        fill(other)
        other.backup(tmp_path / "theirs")
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes" / "mine.txt").write_text("mine")
        for place, whose in (
            ("theirs", "a backup of another vault at"),
            ("notes", "something that is of no backup of this vault at .*mine.txt"),
            ("live", "this vault itself at"),
        ):
            with pytest.raises(PathExists, match=f"there is {whose}") as raised:
                vault.backup(tmp_path / place)
            assert "empty, or a backup of this vault" in raised.value.hint
        vault.backup(tmp_path / "backup")
    for place, whose in (("live", "a vault"), ("notes", "something that is no vault")):
        with pytest.raises(PathExists, match=whose) as raised:
            holdfast.reinstate(tmp_path / "backup", tmp_path / place)
        assert "new or empty" in raised.value.hint


def test_what_was_left_by_who_was_killed_before_the_rows_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = tmp_path / "spool"
    old, young, full = (spool / f"holdfast-rows-{name}" for name in ("old", "young", "full"))
    for folder in (old, young, full):
        folder.mkdir(parents=True)
    (full / "mine").touch()
    for folder in (old, full):
        os.utime(folder, (1, 1))
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    with holdfast.open(tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
        vault.backup(tmp_path / "backup", key=KEY)
    assert {*spool.iterdir()} == {young, full}


def test_nothing_is_where_rows_are_copied_to_before_the_first_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, seen, dump = tmp_path / "spool", list[list[Path]](), Transaction.dump
    spool.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spool))

    def watched(self: Transaction, path: str, *, opened: Callable[[], None]) -> None:
        def look() -> None:
            assert Path(path).is_relative_to(spool)
            opened()
            seen.append([*spool.rglob("*")])

        dump(self, path, opened=look)

    monkeypatch.setattr(Transaction, "dump", watched)
    with holdfast.open(tmp_path / "live", limits=LIMITS) as vault:
        fill(vault)
        vault.backup(tmp_path / "backup", key=KEY)
    assert seen == [[]]


def test_rows_are_copied_to_a_file_whose_name_is_gone_before_the_first(
    catalog: Catalog, tmp_path: Path
) -> None:
    folder = tmp_path / "named"
    folder.mkdir()
    (folder / "rows").touch()
    with catalog.write() as transaction:
        transaction.add_tenant("somebody", public_id="somebody", now=datetime.now(UTC))
    with (folder / "rows").open("rb") as file, catalog.read() as transaction:

        def opened() -> None:
            assert file.read() == b""
            # Nothing can be made beside it from here on.
            shutil.rmtree(folder)

        transaction.dump(str(folder / "rows"), opened=opened)
        assert b"somebody" in file.read()


def test_what_was_altered_swapped_or_cut_short_does_not_open(sealed: Path, tmp_path: Path) -> None:
    packs = sorted(sealed.rglob("*.pack"))
    for path in [packs[0], sealed / "backup.json", next(sealed.glob("catalog-*"))]:
        good = path.read_bytes()
        for bad in (
            b"",
            good[:-1],
            good[:HEADER_BYTES],
            good + b"x",
            bytes([good[0] ^ 1]) + good[1:],
            good[:30] + bytes([good[30] ^ 1]) + good[31:],
            good[:-20] + bytes([good[-20] ^ 1]) + good[-19:],
            packs[1].read_bytes(),
        ):
            path.write_bytes(bad)
            with pytest.raises(BackupDamaged):
                holdfast.reinstate(sealed, tmp_path / "again", key=KEY)
        path.write_bytes(good)
    holdfast.reinstate(sealed, tmp_path / "again", key=KEY)


def test_a_file_of_many_segments_is_bound_to_its_name_and_its_end(tmp_path: Path) -> None:
    place = SealedPlace(FolderPlace(tmp_path), KEY)
    for size in (0, 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 2 * SEGMENT_BYTES):
        data = noise(size, size)
        place.write("a", [data[:7], data[7:]], size=size)
        assert read_whole(place, "a") == data
        assert place.sizes() == {"a": size}
    # Cut between two segments; the first one left out; under another name.
    whole, stored = (tmp_path / "a").read_bytes(), SEGMENT_BYTES + 16
    for bad in (whole[: HEADER_BYTES + stored], whole[:HEADER_BYTES] + whole[-stored:]):
        (tmp_path / "a").write_bytes(bad)
        with pytest.raises(BackupDamaged):
            read_whole(place, "a")
    shutil.copy(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b").write_bytes(whole)
    with pytest.raises(BackupDamaged):
        read_whole(place, "b")
