"""A log of the catalog that was damaged or cut: what SQLite drops in silence is named.

SQLite ends a log at the first frame that does not match its checksum. What is left is a sound
catalog of an earlier moment; a count outside of the log says that it is not the last.
"""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.catalog.sqlite_transaction import count_of
from holdfast.catalog.watermark import Acknowledged, Watermark
from holdfast.errors import Damaged, Unavailable
from holdfast.testing.flips import flip_in_file
from holdfast.testing.logs import written_bytes
from holdfast.testing.shells import environment

pytestmark = pytest.mark.in_memory

DAMAGED = 5
SNAPSHOTS = 30

KILLED = """
import os, signal, sys, holdfast
alice = holdfast.open(sys.argv[1]).namespace("alice")
for number in range(int(sys.argv[2])):
    alice.files.write("a.txt", f"version {number}")
    print(alice.snapshot(f"number {number}").id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def write_and_die(vault: Path, count: int = SNAPSHOTS) -> list[str]:
    """Takes snapshots in a process that is killed; returns what it was told."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, vault, str(count)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done
    return done.stdout.split()


def log_of(vault: Path) -> Path:
    return vault / "catalog.sqlite-wal"


def flip(path: Path, share: float) -> None:
    flip_in_file(path, int(written_bytes(path) * share))


def cut(path: Path, share: float) -> None:
    os.truncate(path, int(written_bytes(path) * share))


def labels(vault: holdfast.Holdfast) -> list[str | None]:
    return [each.label for each in vault.namespace("alice").timeline()]


@pytest.mark.parametrize("damage", [flip, cut])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.995])
def test_a_tail_that_was_dropped_is_named_until_it_is_accepted(
    tmp_path: Path, damage: Callable[[Path, float], None], share: float
) -> None:
    vault = tmp_path / "vault"
    told = write_and_die(vault)
    damage(log_of(vault), share)
    for _ in range(2):
        with holdfast.open(vault) as opened:
            loss = opened.find_loss()
            assert loss is not None
            assert loss.missing >= SNAPSHOTS - len(labels(opened))
            assert loss.last_at is not None
            [fault] = opened.verify().faults
            assert (fault.what, fault.reason) == ("catalog", str(loss))
            # It can be used all the same.
            assert len(labels(opened)) < len(told) + 1
            opened.namespace("alice").snapshot("goes on")
    with holdfast.open(vault) as opened:
        assert labels(opened)[:2] == ["goes on", "goes on"]
        opened.accept_loss()
        assert opened.verify().ok
    with holdfast.open(vault) as opened:
        assert opened.find_loss() is None


def test_a_loss_is_counted_once_by_whoever_is_killed_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = tmp_path / "vault"
    write_and_die(vault)
    cut(log_of(vault), 0.5)
    with monkeypatch.context() as killed:

        def be_killed(_: Watermark, count: int) -> None:
            raise KeyboardInterrupt(count)

        killed.setattr(Watermark, "write", be_killed)
        with pytest.raises(KeyboardInterrupt):
            holdfast.open(vault)
    kept = json.loads((vault / "catalog.loss").read_bytes())
    with holdfast.open(vault) as opened:
        loss = opened.find_loss()
    assert loss is not None
    assert loss.missing == kept["missing"] > 0


def test_a_loss_that_another_process_accepts_is_told_nowhere_any_more(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    write_and_die(vault)
    cut(log_of(vault), 0.5)
    with holdfast.open(vault) as first, holdfast.open(vault) as second:
        assert first.find_loss() is not None
        second.accept_loss()
        assert first.find_loss() is None
        assert first.verify().ok


def test_packs_of_what_is_missing_stay_until_the_loss_is_accepted(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    holdfast.open(vault).close()
    script = KILLED.replace('f"version {number}"', "os.urandom(400_000)")
    subprocess.run([sys.executable, "-c", script, vault, "5"], capture_output=True, check=False)
    cut(log_of(vault), 0.5)
    packs = set(vault.rglob("*.pack"))
    with holdfast.open(vault) as opened:
        assert opened.find_loss() is not None
        opened.collect(now=True)
        assert set(vault.rglob("*.pack")) == packs
        opened.accept_loss()
        opened.collect(now=True)
        assert set(vault.rglob("*.pack")) < packs


def test_commands_say_what_is_missing_until_it_is_accepted(
    tmp_path: Path, warm: tuple[str, ...]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    environ = environment(tmp_path)

    def holds(*argv: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*warm, *argv], cwd=project, env=environ, capture_output=True, text=True, check=False
        )

    assert holds("init", "--local").returncode == 0
    write_and_die(project / ".holdfast", 5)
    flip(log_of(project / ".holdfast"), 0.6)
    done = holds("log")
    assert done.returncode == 0
    assert "missing from its end" in done.stderr
    assert "verify --accept-loss" in done.stderr
    found = holds("verify", "--json")
    assert found.returncode == DAMAGED
    assert "missing" in json.loads(found.stdout)["faults"][0]["reason"]
    assert "missing" in holds("doctor").stdout
    assert "/.holdfast/catalog.sqlite-wal.damaged-" in holds("doctor").stdout
    assert holds("doctor").returncode == 1
    (project / "a.txt").write_text("a\n")
    assert holds("snapshot", "-m", "on").returncode == 0
    assert holds("verify", "--accept-loss").returncode == 0
    for argv in (("verify",), ("doctor",), ("log",)):
        done = holds(*argv)
        assert (done.returncode, done.stderr) == (0, ""), done


# The log as it was found


def kept_logs(vault: Path) -> list[Path]:
    return sorted(vault.glob("catalog.sqlite-wal.damaged*"))


@pytest.mark.parametrize("damage", [flip, cut])
def test_a_damaged_log_is_kept_as_it_was_found(
    tmp_path: Path, damage: Callable[[Path, float], None]
) -> None:
    vault = tmp_path / "vault"
    write_and_die(vault, 8)
    damage(log_of(vault), 0.6)
    found = log_of(vault).read_bytes()
    for _ in range(3):
        with holdfast.open(vault) as opened:
            opened.namespace("alice").snapshot("goes on")
            [kept] = kept_logs(vault)
            loss = opened.find_loss()
            assert loss is not None
            assert loss.log == str(kept)
            assert str(kept) in str(loss)
    assert kept.read_bytes() == found
    assert kept.stat().st_mode & 0o777 == 0o600


def test_logs_that_were_kept_are_few(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    found = list[bytes]()
    for _ in range(6):
        write_and_die(vault, 2)
        cut(log_of(vault), 0.9)
        found.append(log_of(vault).read_bytes())
        holdfast.open(vault).close()
    assert [each.read_bytes() for each in kept_logs(vault)] == found[-4:]


def test_a_log_that_cannot_be_kept_is_left_where_it_is(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    write_and_die(vault, 8)
    flip(log_of(vault), 0.6)
    found = log_of(vault).read_bytes()
    in_the_way = vault / "catalog.sqlite-wal.damaged.tmp"
    in_the_way.mkdir()
    for _ in range(2):
        with pytest.raises(Unavailable, match="cannot be kept aside") as caught:
            holdfast.open(vault)
        assert "Make room" in caught.value.hint
        assert log_of(vault).read_bytes() == found
    in_the_way.rmdir()
    with holdfast.open(vault) as opened:
        assert opened.find_loss() is not None
    [kept] = kept_logs(vault)
    assert kept.read_bytes() == found


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01])
def test_where_nothing_can_be_read_the_error_names_the_log(tmp_path: Path, share: float) -> None:
    """Nothing was copied into the file yet: without its log there is no catalog."""
    vault = tmp_path / "vault"
    write_and_die(vault, 2)
    flip(log_of(vault), share)
    found = log_of(vault).read_bytes()
    with pytest.raises(Damaged) as caught:
        holdfast.open(vault)
    [kept] = kept_logs(vault)
    assert str(kept) in str(caught.value)
    assert kept.read_bytes() == found


# No false alarm


def test_a_kill_loses_nothing_and_alarms_nobody(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    for _ in range(3):
        write_and_die(vault, 3)
        with holdfast.open(vault) as opened:
            assert opened.find_loss() is None
            assert opened.verify().ok


def test_a_count_older_than_the_catalog_alarms_nobody(tmp_path: Path) -> None:
    """After a power cut the catalog is on the disk, and the count may not be, or not whole."""
    vault = tmp_path / "vault"
    with holdfast.open(vault) as opened:
        opened.namespace("alice").snapshot("one")
    mark = vault / "catalog.mark"
    old = mark.read_bytes()
    with holdfast.open(vault) as opened:
        opened.namespace("alice").snapshot("two")
    for data in (old, b"", old[:9], bytes(len(old)), old[:-1] + b"\0"):
        mark.write_bytes(data)
        with holdfast.open(vault) as opened:
            assert opened.find_loss() is None, data
    mark.unlink()
    with holdfast.open(vault) as opened:
        assert opened.verify().ok
        opened.namespace("alice").snapshot("three")
    assert mark.exists()


def test_copies_and_catalogs_brought_back_alarm_nobody(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    with holdfast.open(vault) as opened:
        alice = opened.namespace("alice")
        alice.snapshot("one")
        # The catalog of one moment and the count of a later one, as a live copy may have them.
        shutil.copytree(vault, tmp_path / "copy")
        alice.snapshot("two")
        shutil.copy(vault / "catalog.mark", tmp_path / "copy/catalog.mark")
    for place in (tmp_path / "copy", vault):
        with holdfast.open(place) as opened:
            assert opened.find_loss() is None, place
        shutil.copy(tmp_path / "copy/catalog.sqlite", vault / "brought back")
        (vault / "brought back").rename(vault / "catalog.sqlite")


def test_many_writers_at_once_leave_the_count_of_the_last(tmp_path: Path) -> None:
    def write(number: int) -> None:
        with holdfast.open(tmp_path / "vault") as opened:
            for _ in range(10):
                opened.namespace(f"n{number}").snapshot()

    holdfast.open(tmp_path / "vault").close()
    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    acknowledged = Watermark(tmp_path / "vault/catalog.sqlite").read()
    assert acknowledged is not None
    with holdfast.open(tmp_path / "vault") as opened, counted(opened) as count:
        assert acknowledged.missing_from(count) is None
        missing = acknowledged.missing_from(count - 1)
        assert missing is not None
        assert missing.missing == 1


def test_who_opens_beside_a_writer_is_not_alarmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer goes on whenever the opener has asked for anything."""
    read = Watermark.read
    with holdfast.open(tmp_path / "vault") as writer:
        busy = writer.namespace("alice")
        busy.snapshot("first")

        def read_beside_a_writer(self: Watermark) -> Acknowledged | None:
            busy.snapshot("before it was read")
            found = read(self)
            busy.snapshot("after it was read")
            return found

        monkeypatch.setattr(Watermark, "read", read_beside_a_writer)
        with holdfast.open(tmp_path / "vault") as opened:
            assert opened.find_loss() is None
            assert opened.verify().ok


@contextmanager
def counted(vault: holdfast.Holdfast) -> Iterator[int]:
    catalog = vault._context.catalog
    assert isinstance(catalog, SqliteCatalog)
    with catalog._connections.use(writing=False) as connection:
        yield count_of(connection)


@pytest.mark.parametrize("at", [(1 << 31) - 2, (1 << 32) - 2])
def test_counts_go_on_beyond_what_the_header_holds(tmp_path: Path, at: int) -> None:
    vault = tmp_path / "vault"
    with holdfast.open(vault) as opened:
        opened.namespace("alice").snapshot()
    with sqlite3.connect(vault / "catalog.sqlite") as tool:
        tool.execute("UPDATE namespaces SET commits = ?", (at,))
        tool.execute(f"PRAGMA user_version={(at + (1 << 31)) % (1 << 32) - (1 << 31)}")
    tool.close()
    with holdfast.open(vault) as opened:
        for number in range(4):
            opened.namespace("alice").snapshot()
            opened.keys.create(f"of no namespace {number}")
        with counted(opened) as count:
            assert count == at + 8
    with holdfast.open(vault) as opened, counted(opened) as count:
        assert opened.find_loss() is None
        assert count == at + 8


def test_a_count_that_became_a_text_by_damage_is_none() -> None:
    with closing(sqlite3.connect(":memory:")) as tool:
        tool.execute("CREATE TABLE namespaces (commits)")
        tool.executemany("INSERT INTO namespaces VALUES (?)", [(7,), ("8",), (9.5,)])
        assert count_of(tool) == 7


@pytest.mark.parametrize(
    "write",
    [
        lambda vault: vault.namespace("alice").files.write("a", "3"),
        lambda vault: vault.namespace("bob").files.write("a", "3"),
        lambda vault: vault.keys.create("of no namespace"),
    ],
    ids=["alice", "bob", "nobody"],
)
def test_a_count_that_a_dead_writer_has_used_is_not_used_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[holdfast.Holdfast], object],
) -> None:
    """It died between its commit and its mark; the next one was open all the while.

    Where its count stands, the one before it stood, or another, or that of no namespace.
    """
    with holdfast.open(tmp_path / "vault") as dies, holdfast.open(tmp_path / "vault") as goes_on:
        for name in ("alice", "bob"):
            dies.namespace(name).files.write("a", "1")
        goes_on.namespace("bob").files.write("a", "2")
        dies.namespace("alice").files.write("a", "2")
        with counted(goes_on) as before:
            pass
        with monkeypatch.context() as killed:

            def die(*_: object) -> None:
                raise KeyboardInterrupt

            killed.setattr(Watermark, "write", die)
            with pytest.raises(KeyboardInterrupt):
                write(dies)
        goes_on.namespace("bob").files.write("a", "4")
        with counted(goes_on) as count:
            assert count == before + 2


def test_a_mark_that_a_power_cut_set_back_gives_out_no_count_again(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    with holdfast.open(vault) as opened:
        for name in ("alice", "bob"):
            opened.namespace(name).files.write("a", "1")
        old = (vault / "catalog.mark").read_bytes()
        for _ in range(3):
            opened.namespace("alice").files.write("a", "2")
        with counted(opened) as before:
            pass
    (vault / "catalog.mark").write_bytes(old)
    with holdfast.open(vault) as opened:
        opened.namespace("bob").files.write("a", "2")
        with counted(opened) as count:
            assert count == before + 1
