"""The log of a SQLite catalog has room before commits need it, and says what it said without."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

import holdfast
from holdfast.catalog import sqlite_log
from holdfast.catalog.sqlite_connections import LOG_PAGES
from holdfast.catalog.sqlite_log import FIRST_BYTES, FRAME_BYTES, STEP_BYTES, is_short, lengthen
from holdfast.testing.logs import written_bytes

MOST = LOG_PAGES * FRAME_BYTES

KILLED = f"""
import os, signal, sys, holdfast
store = holdfast.open(sys.argv[1]).namespace("alice").store
for number in range(100):
    store.set("log", f"{{number:04}}", "x" * 3000)
    # Room is made before a commit: one that was longer than what was left ends where it ends.
    if number >= 40 and not os.stat(f"{{sys.argv[1]}}/catalog.sqlite-wal").st_size % {STEP_BYTES}:
        break
print(number + 1, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def identity_of(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def log_in(folder: Path) -> Path:
    return folder / "catalog.sqlite-wal"


def test_commits_fill_room_that_is_there(tmp_path: Path) -> None:
    lengths = list[int]()
    with holdfast.open(tmp_path / "vault") as vault:
        store = vault.namespace("alice").store
        for number in range(100):
            store.set("log", f"{number:04}", "x" * 3000)
            lengths.append(log_in(tmp_path / "vault").stat().st_size)
        # Without room, nearly every commit would make it longer.
        longer = sum(one != other for one, other in pairwise(lengths))
        assert longer < 25
        assert lengths[-1] % STEP_BYTES == 0
        assert written_bytes(log_in(tmp_path / "vault")) < lengths[-1]


def test_a_log_that_has_hardly_begun_is_as_long_as_what_it_holds(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        vault.namespace("alice").store.set("log", "key", "value")
    with holdfast.open(tmp_path / "vault") as vault:
        store, log = vault.namespace("alice").store, log_in(tmp_path / "vault")
        for number in range(3):
            store.set("log", "key", number)
            assert log.stat().st_size == written_bytes(log) < FIRST_BYTES


def test_it_becomes_no_longer_than_it_would(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        store = vault.namespace("alice").store
        for number in range(400):
            store.set("log", f"{number:04}", "x" * 9000)
        assert log_in(tmp_path / "vault").stat().st_size < MOST + 2 * STEP_BYTES
    assert not is_short(MOST, most=MOST)


def test_whoever_is_killed_leaves_a_log_that_can_be_read(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "vault")]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    assert done.returncode == -signal.SIGKILL
    log = log_in(tmp_path / "vault")
    assert log.stat().st_size % STEP_BYTES == 0
    with closing(sqlite3.connect(f"file:{log.parent}/catalog.sqlite?mode=ro", uri=True)) as beside:
        assert beside.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with holdfast.open(tmp_path / "vault") as vault:
        assert vault.find_loss() is None
        assert len(vault.namespace("alice").store.keys("log")) == int(done.stdout)
        assert vault.verify().ok


@pytest.mark.parametrize("size", [FIRST_BYTES, STEP_BYTES + 1, 3 * STEP_BYTES - 1])
def test_room_ends_at_a_step_and_changes_nothing_before_it(tmp_path: Path, size: int) -> None:
    log, before = tmp_path / "log", os.urandom(size)
    log.write_bytes(before)
    lengthen(str(log), identity_of(log), most=MOST)
    after = log.read_bytes()
    assert after.startswith(before)
    assert len(after) == -(-size // STEP_BYTES) * STEP_BYTES
    assert not after[size:].strip(b"\0")
    lengthen(str(log), identity_of(log), most=MOST)
    assert len(log.read_bytes()) == len(after)


def test_another_file_in_its_place_is_left_alone(tmp_path: Path) -> None:
    log, other = tmp_path / "log", tmp_path / "other"
    for path in (log, other):
        path.write_bytes(os.urandom(FIRST_BYTES))
    meant = identity_of(log)
    other.replace(log)
    lengthen(str(log), meant, most=MOST)
    lengthen(str(log), None, most=MOST)
    assert log.stat().st_size == FIRST_BYTES
    (tmp_path / "link").symlink_to(log)
    lengthen(str(tmp_path / "link"), identity_of(log), most=MOST)
    assert log.stat().st_size == FIRST_BYTES


def test_where_the_disk_is_nearly_full_no_room_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_bytes(os.urandom(FIRST_BYTES))
    with monkeypatch.context() as full:
        full.setattr(sqlite_log, "SCARCE_BYTES", 1 << 62)
        lengthen(str(log), identity_of(log), most=MOST)
    assert log.stat().st_size == FIRST_BYTES
    lengthen(str(log), identity_of(log), most=MOST)
    assert log.stat().st_size == STEP_BYTES


def test_where_there_is_no_room_whoever_commits_is_told_and_nobody_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    log = tmp_path / "log"
    log.write_bytes(os.urandom(FIRST_BYTES))
    monkeypatch.setattr(sqlite_log.os, "pwrite", refuse)
    lengthen(str(log), identity_of(log), most=MOST)
    lengthen(str(tmp_path / "nowhere"), identity_of(log), most=MOST)
    assert log.stat().st_size == FIRST_BYTES


def test_room_is_made_by_who_holds_the_lock_of_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever else could append meanwhile would have zeros written over its pages."""
    refused, lengthen_it = list[str](), sqlite_log.lengthen

    def lengthened(name: str, identity: tuple[int, int] | None, *, most: int) -> None:
        with closing(sqlite3.connect(name.removesuffix("-wal"), timeout=0)) as beside:
            try:
                beside.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as exc:
                refused.append(str(exc))
        lengthen_it(name, identity, most=most)

    monkeypatch.setattr(sqlite_log, "lengthen", lengthened)
    with holdfast.open(tmp_path / "vault") as vault:
        store = vault.namespace("alice").store
        for number in range(40):
            store.set("log", f"{number:04}", "x" * 3000)
    assert refused
    assert set(refused) == {"database is locked"}
