"""What a user does with a vault in their own process, from opening it to giving bytes back.

Everything runs on both catalogs, through public names alone.
"""

import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast import Holdfast, Kind, Limits, Namespace, Plane, Policy, TenantVault, errors
from holdfast.testing.postgres import PostgresServer

START = datetime(2026, 4, 30, 18, 50, 11, tzinfo=UTC)
MIB = 1 << 20


def noise(size: int, seed: int = 0) -> bytes:
    """Returns bytes that no compression makes smaller."""
    return Random(seed).randbytes(size)


@dataclass
class Home:
    """Where a vault lies, and a clock that goes when it is told to."""

    location: str | Path
    packs: Path
    now: datetime = START
    opened: list[Holdfast] = field(default_factory=list)

    def open(self, limits: Limits | None = None) -> Holdfast:
        self.opened.append(
            holdfast.open(self.location, objects=self.packs, clock=lambda: self.now, limits=limits)
        )
        return self.opened[-1]

    def wait(self, **time: float) -> None:
        self.now += timedelta(**time)

    def bytes_on_disk(self) -> int:
        """Returns what the vault takes; of a database, what lies outside of it."""
        top = self.location if isinstance(self.location, Path) else self.packs
        return sum(path.stat().st_size for path in top.rglob("*") if path.is_file())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, where there is enough: power cuts are tested elsewhere."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or shutil.disk_usage(memory).free < 1 << 30:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def home(request: pytest.FixtureRequest, folder: Path) -> Iterator[Home]:
    database = ""
    if request.param == "sqlite":
        made = Home(folder / "vault", folder / "vault" / "packs")
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        database = server.create_database(template=request.getfixturevalue("postgres_template"))
        made = Home(server.dsn(database), folder / "packs")
    yield made
    for vault in made.opened:
        vault.close()
    if database:
        server.drop_database(database)


@pytest.fixture
def vault(home: Home) -> Holdfast:
    return home.open()


@pytest.fixture
def alice(vault: Holdfast) -> Namespace:
    return vault.namespace("alice")


def names(namespace: Namespace) -> list[str]:
    return [info.path for info in namespace.files.list(recursive=True)]


# Beginning


def test_a_minute_to_the_first_rollback(alice: Namespace) -> None:
    alice.files.write("notes.md", "first thoughts")
    before = alice.snapshot("before the risky step")
    alice.files.delete("notes.md")
    alice.restore(before)
    assert alice.files.read_text("notes.md") == "first thoughts"


def test_a_namespace_begins_with_its_first_write(vault: Holdfast) -> None:
    alice = vault.namespace("alice")
    assert alice.files.list() == []
    assert not alice.files.exists("notes.md")
    assert alice.store.get("n", "k", "nothing") == "nothing"
    assert len(alice.store) == 0
    assert alice.timeline() == []
    assert not alice.is_dirty()
    assert vault.namespaces() == []
    alice.files.write("notes.md", "hello")
    vault.namespace("bob").store.set("n", "k", 1)
    vault.namespace("carol").snapshot()
    assert vault.namespaces() == ["alice", "bob", "carol"]


def test_what_was_done_is_there_when_the_vault_is_opened_again(home: Home) -> None:
    with home.open() as vault:
        alice = vault.namespace("alice")
        alice.files.write("kept", noise(300_000))
        taken = alice.snapshot("kept")
        alice.files.write("pending", "not in a snapshot yet")
        alice.store.set("n", "k", {"a": 1})
    alice = home.open().namespace("alice")
    assert alice.files.read("kept") == noise(300_000)
    assert alice.files.read_text("pending") == "not in a snapshot yet"
    assert alice.store.get("n", "k") == {"a": 1}
    assert alice.timeline() == [taken]
    assert alice.is_dirty()


# Files


CONTENTS: dict[str, bytes] = {
    "nothing": b"",
    "text": "Grüße\r\n日本\n".encode(),
    "binary": bytes(range(256)),
    "one chunk": noise(10_000),
    "five megabytes": noise(5 * MIB),
}


@pytest.mark.parametrize("content", CONTENTS)
def test_content_comes_back_byte_for_byte(alice: Namespace, content: str) -> None:
    data = CONTENTS[content]
    info = alice.files.write("a/b/file", data)
    assert (info.path, info.name, info.kind) == ("a/b/file", "file", "file")
    assert info.size_bytes == len(data)
    assert alice.files.read("a/b/file") == data
    taken = alice.snapshot()
    assert taken.size.bytes == len(data)
    alice.files.delete("a", recursive=True)
    assert alice.at(taken).files.read("a/b/file") == data
    alice.restore(taken)
    assert b"".join(alice.files.stream("a/b/file")) == data


def test_streams_go_in_and_out_without_being_held(alice: Namespace, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(noise(3 * MIB))
    with source.open("rb") as stream:
        stream.seek(MIB)
        alice.files.write("from a file", stream)
    read_end, write_end = os.pipe()
    writer = threading.Thread(target=feed, args=[write_end, noise(400_000)])
    writer.start()
    with os.fdopen(read_end, "rb", buffering=0) as pipe:
        alice.files.write("from a pipe", pipe)
    writer.join()
    alice.files.write("from memory", io.BytesIO(b"small"))
    assert alice.files.read("from a file") == noise(3 * MIB)[MIB:]
    assert alice.files.read("from a pipe") == noise(400_000)
    assert alice.files.read("from memory") == b"small"
    pieces = list(alice.files.stream("from a file"))
    assert len(pieces) > 10
    assert max(len(piece) for piece in pieces) <= 256 << 10


def feed(descriptor: int, data: bytes) -> None:
    with os.fdopen(descriptor, "wb", buffering=0) as pipe:
        for at in range(0, len(data), 1000):
            pipe.write(data[at : at + 1000])


def test_a_stream_shows_the_file_as_it_was_when_it_was_asked_for(alice: Namespace) -> None:
    alice.files.write("file", noise(MIB))
    stream = alice.files.stream("file")
    next(stream)
    alice.files.write("file", b"other")
    assert len(b"".join(stream)) > MIB // 2


def test_names_that_are_not_utf_8_survive(alice: Namespace) -> None:
    raw = b"\xe9t\xe9/\xff\xfe"
    alice.files.write(raw, b"1")
    as_python_sees_it = os.fsdecode(raw)
    assert names(alice) == [as_python_sees_it]
    assert alice.files.read(as_python_sees_it) == alice.files.read(raw) == b"1"
    taken = alice.snapshot()
    alice.files.delete(raw)
    assert alice.diff(taken).of("removed") == [as_python_sees_it]
    alice.restore(taken, paths=[as_python_sees_it])
    assert alice.files.read(Path(as_python_sees_it)) == b"1"


def test_modes_times_links_and_empty_directories_come_back(home: Home, alice: Namespace) -> None:
    long_ago = datetime(1999, 12, 31, 23, 59, 59, 123456, tzinfo=UTC)
    alice.files.write("run.sh", "#!/bin/sh\n", mode=0o755, modified_at=long_ago)
    alice.files.write("now.txt", "now")
    alice.files.mkdir("empty/inside")
    alice.files.mkdir("private", mode=0o700)
    alice.files.write("private/key", "secret", mode=0o600)
    alice.files.symlink("passwd", "/etc/passwd")
    alice.files.symlink("up", "../../outside")
    before = {path: alice.files.stat(path) for path in [*names(alice), "empty", "private"]}
    taken = alice.snapshot()
    home.wait(days=1)
    alice.files.write("run.sh", "rm -rf /")
    alice.files.chmod("run.sh", 0o600)
    alice.files.chmod("private", 0o755)
    for path in ("empty", "passwd", "up", "now.txt"):
        alice.files.delete(path, recursive=True)
    alice.restore(taken)
    assert {path: alice.files.stat(path) for path in before} == before
    assert alice.files.stat("run.sh").modified_at == long_ago
    assert alice.files.stat("now.txt").modified_at == START
    assert alice.files.stat("empty/inside").kind == "directory"
    assert alice.files.readlink("passwd") == "/etc/passwd"
    assert alice.files.readlink("up") == "../../outside"
    with pytest.raises(errors.NotAFile):
        alice.files.read("passwd")


def test_a_file_keeps_its_mode_when_it_is_written_again(home: Home, alice: Namespace) -> None:
    alice.files.write("run.sh", "1", mode=0o755)
    home.wait(hours=1)
    assert alice.files.write("run.sh", "2").mode == 0o755
    assert alice.files.stat("run.sh").modified_at == home.now
    alice.files.write_many([("run.sh", "3")])
    assert alice.files.stat("run.sh").mode == 0o755


def test_listings_show_one_level_or_all(alice: Namespace) -> None:
    alice.files.write_many((path, "x") for path in ["a/b/c", "a/d", "a-b", "a.txt", "z"])
    alice.files.mkdir("e")
    assert [(i.path, i.kind) for i in alice.files.list()] == [
        ("a", "directory"),
        ("a-b", "file"),
        ("a.txt", "file"),
        ("e", "directory"),
        ("z", "file"),
    ]
    assert [i.path for i in alice.files.list("a/")] == ["a/b", "a/d"]
    assert names(alice) == ["a-b", "a.txt", "a/b/c", "a/d", "e", "z"]
    assert [i.path for i in alice.files.list(recursive=True, limit=2)] == ["a-b", "a.txt"]
    assert [i.path for i in alice.files.list("a", prefix="d")] == ["a/d"]


def test_files_and_directories_are_moved_and_deleted_whole(alice: Namespace) -> None:
    alice.files.write_many([("src/a", "1"), ("src/deep/b", "2"), ("other", "3")])
    alice.files.move("src", "lib/code")
    assert names(alice) == ["lib/code/a", "lib/code/deep/b", "other"]
    alice.files.move("other", "lib/code/a", overwrite=True)
    assert alice.files.read_text("lib/code/a") == "3"
    assert alice.files.delete("lib/code", recursive=True) == 2
    # The directory it lay in is still there.
    assert names(alice) == ["lib"]
    assert alice.files.delete("lib") == 1
    assert names(alice) == []


# Store


def test_the_store_has_the_methods_of_the_one_in_memory(alice: Namespace) -> None:
    store = alice.store
    store.set("workflow", "onboarding", {"step": 3})
    store.set_many([("a", "k1", 1), ("a", "k2", [2]), ("b", "k1", None), ("a", "x", b"raw")])
    assert store.get("workflow", "onboarding") == {"step": 3}
    assert store.get("workflow", "missing") is None
    assert store.get("workflow", "missing", 7) == 7
    assert store.get_many([("a", "k2"), ("a", "missing"), ("a", "k1")]) == [[2], None, 1]
    assert store.contains("b", "k1")
    assert not store.contains("b", "k2")
    assert store.keys("a") == ["k1", "k2", "x"]
    assert store.keys("a", "k") == ["k1", "k2"]
    assert store.keys("missing") == []
    assert store.items("a", "k") == [("k1", 1), ("k2", [2])]
    assert store.max_key("a") == "x"
    assert store.max_key("missing") is None
    assert store.namespaces() == ["a", "b", "workflow"]
    assert store.namespaces("w") == ["workflow"]
    assert "a" in store
    assert "missing" not in store
    assert len(store) == 5
    assert store.delete("a", "x")
    assert not store.delete("a", "x")
    assert len(store) == 4
    store.clear()
    assert (len(store), store.namespaces()) == (0, [])


def test_values_are_isolated_from_what_the_caller_does_next(alice: Namespace) -> None:
    value = {"list": [1, 2], "deep": {"a": [3]}}
    alice.store.set("n", "k", value)
    value["list"] = []
    value["deep"]["a"].append(4)  # type: ignore[call-overload]  # the value is a mixed dict
    first = alice.store.get("n", "k")
    first["list"].append("changed")
    assert alice.store.get("n", "k") == {"list": [1, 2], "deep": {"a": [3]}}


def test_the_store_can_be_read_as_it_was(alice: Namespace) -> None:
    alice.store.set_many([("n", "kept", 1), ("n", "gone", 2)])
    taken = alice.snapshot()
    alice.store.delete("n", "gone")
    alice.store.set("n", "kept", "x" * 100_000)
    then = alice.at(taken)
    assert then.store.items("n") == [("gone", 2), ("kept", 1)]
    assert (len(then.store), "n" in then.store, then.store.max_key("n")) == (2, True, "kept")
    assert alice.store.get("n", "kept") == "x" * 100_000
    assert then.snapshot == taken


def test_a_long_value_grows_by_what_is_new(vault: Holdfast, alice: Namespace) -> None:
    messages = [noise(200, seed).hex() for seed in range(3000)]
    alice.store.set("thread", "messages", messages)
    alice.snapshot()
    before = vault.stored_bytes()
    for turn in range(10):
        messages.append(noise(200, 10_000 + turn).hex())
        alice.store.set("thread", "messages", messages)
        alice.snapshot()
    assert alice.store.get("thread", "messages") == messages
    assert vault.stored_bytes() - before < before // 2


# Snapshots and timelines


def test_a_snapshot_says_who_why_when_and_how_much(home: Home, alice: Namespace) -> None:
    alice.files.write("a", "12345")
    alice.store.set("n", "k", "x")
    taken = alice.acting_as("agent-7").snapshot(
        "before-quarterly-rebuild",
        reason="about to delete",
        task_id="task-1",
        trace_id="trace-9",
        expires_in=timedelta(days=3),
    )
    assert taken.id.startswith("snap-")
    assert taken.label == "before-quarterly-rebuild"
    assert (taken.reason, taken.actor) == ("about to delete", "agent-7")
    assert (taken.task_id, taken.trace_id) == ("task-1", "trace-9")
    assert (taken.kind, taken.number, taken.parent) == (Kind.SNAPSHOT, 1, None)
    assert taken.created_at == home.now
    assert taken.expires_at == home.now + timedelta(days=3)
    assert (taken.size.entries, taken.size.bytes) == (2, 7)
    assert taken.size == alice.size()
    assert alice.get_snapshot(taken) == taken
    pinned = alice.snapshot(pin=True)
    assert (pinned.pinned, pinned.expires_at, pinned.parent) == (True, None, taken.id)
    assert alice.set_label(pinned, "known good").label == "known good"
    assert alice.get_snapshot(pinned.id).label == "known good"
    assert alice.set_label(pinned, None).label is None


def test_a_timeline_is_newest_first_and_comes_in_pages(alice: Namespace) -> None:
    taken = [alice.snapshot(f"label {number}") for number in range(7)]
    newest_first = list(reversed(taken))
    assert alice.timeline() == newest_first
    assert [snapshot.number for snapshot in newest_first] == [7, 6, 5, 4, 3, 2, 1]
    assert alice.timeline(limit=0) == []
    pages, before = list[Any](), None
    while page := alice.timeline(limit=3, before=before):
        pages.append([snapshot.number for snapshot in page])
        before = page[-1].number
    assert pages == [[7, 6, 5], [4, 3, 2], [1]]
    alice.delete_snapshot(taken[5])
    assert [s.number for s in alice.timeline(limit=3)] == [7, 5, 4]


def test_a_snapshot_can_be_named_in_short(alice: Namespace) -> None:
    taken = []
    for number in range(4):
        alice.files.write("file", str(number))
        taken.append(alice.snapshot())
    for snapshot in taken:
        assert alice.get_snapshot(snapshot.id[:12]) == snapshot
        assert alice.get_snapshot(snapshot.id[5:12]) == snapshot
    assert alice.get_snapshot("latest") == alice.get_snapshot("@") == taken[3]
    assert alice.get_snapshot("@-0") == taken[3]
    assert alice.get_snapshot("@-2") == taken[1]
    with pytest.raises(errors.SnapshotNotFound):
        alice.get_snapshot("@-4")
    with pytest.raises(errors.Conflict):
        alice.get_snapshot("snap-")
    alice.undo()
    # The newest is the undo itself; the head shows the state before.
    assert alice.get_snapshot("latest").kind is Kind.UNDO
    assert alice.get_snapshot("@") == taken[2]
    assert alice.get_snapshot("@-1") == taken[1]


def test_a_snapshot_can_be_made_to_depend_on_what_the_caller_saw(alice: Namespace) -> None:
    seen = alice.snapshot()
    alice.files.write("a", "1")
    alice.snapshot("somebody else's")
    for stale in (
        lambda: alice.snapshot(expected=seen),
        lambda: alice.restore(seen, expected=seen.id),
    ):
        with pytest.raises(errors.HeadMoved):
            stale()
    assert alice.snapshot(expected="latest").number == 3


# Going back, and forth


def test_a_restore_says_what_it_did_and_how_to_get_back(alice: Namespace) -> None:
    alice.files.write_many([("changed", "old"), ("deleted", "x"), ("same", "x")])
    alice.store.set("n", "k", 1)
    good = alice.snapshot("good")
    alice.files.write("changed", "new")
    alice.files.delete("deleted")
    alice.files.write("created", "x")
    alice.store.set("n", "k", 2)
    rehearsed = alice.restore(good, dry_run=True)
    assert rehearsed.dry_run
    assert alice.files.read_text("changed") == "new"
    assert alice.timeline() == [good]
    done = alice.acting_as("operator").restore(good, reason="went off the rails")
    assert done.verified
    assert not done.dry_run
    assert (done.target, done.root) == (good.id, good.root)
    assert done.changes == rehearsed.changes
    assert done.changes.of("changed") == ["changed", "n/k"]
    assert done.changes.of("changed", Plane.STORE) == ["n/k"]
    assert done.changes.of("added") == ["deleted"]
    assert done.changes.of("removed") == ["created"]
    assert done.snapshot is not None
    assert (done.snapshot.kind, done.snapshot.reason) == (Kind.RESTORE, "went off the rails")
    assert (done.snapshot.target, done.snapshot.parent) == (good.id, done.safety_id)
    assert done.safety_id is not None
    assert alice.at(done.safety_id).files.read_text("created") == "x"
    assert names(alice) == ["changed", "deleted", "same"]
    assert not alice.is_dirty()
    limited = alice.restore(done.safety_id, limit=1)
    assert (len(limited.changes), limited.changes.truncated) == (1, True)


def test_undoing_a_restore_is_byte_identical(home: Home, alice: Namespace) -> None:
    alice.files.write("a", noise(100_000))
    good = alice.snapshot()
    home.wait(minutes=5)
    alice.files.write("a", b"overwritten", mode=0o700)
    alice.files.mkdir("b", mode=0o711)
    alice.store.set("n", "k", 1)
    bad = alice.snapshot()
    home.wait(minutes=5)
    alice.restore(good)
    assert alice.snapshot().root == good.root
    undone = alice.undo()
    assert undone.root == bad.root
    assert alice.snapshot().root == bad.root
    assert alice.files.stat("a").modified_at == START + timedelta(minutes=5)


def test_undoing_a_restore_brings_back_what_no_snapshot_held(alice: Namespace) -> None:
    good = alice.snapshot()
    alice.files.write("unsaved", "an hour of work")
    alice.restore(good)
    assert names(alice) == []
    alice.undo()
    assert alice.files.read_text("unsaved") == "an hour of work"


def test_undo_and_redo_go_step_by_step(alice: Namespace) -> None:
    for number in range(4):
        alice.files.write("file", str(number))
        alice.snapshot()
    alice.files.write("file", "pending")

    def states(step: Callable[[], object], times: int) -> list[str]:
        found = []
        for _ in range(times):
            step()
            found.append(alice.files.read_text("file"))
        return found

    assert states(alice.undo, 4) == ["3", "2", "1", "0"]
    with pytest.raises(errors.NothingToUndo):
        alice.undo()
    assert states(alice.redo, 4) == ["1", "2", "3", "pending"]
    with pytest.raises(errors.NothingToUndo):
        alice.redo()
    assert states(alice.undo, 2) == ["3", "2"]
    alice.files.write("file", "another way")
    alice.snapshot()
    with pytest.raises(errors.NothingToUndo):
        alice.redo()
    assert states(alice.undo, 1) == ["2"]
    assert [s.number for s in alice.timeline()] == list(range(len(alice.timeline()), 0, -1))


def test_a_redo_over_what_was_not_captured_is_taken_back_by_an_undo(alice: Namespace) -> None:
    for number in range(3):
        alice.files.write("file", str(number))
        alice.snapshot()

    def states(step: Callable[[], object], times: int) -> list[tuple[str, bool, bool]]:
        found = []
        for _ in range(times):
            step()
            there = (alice.files.exists("mine"), len(alice.store) == 1)
            found.append((alice.files.read_text("file"), *there))
        return found

    states(alice.undo, 2)
    alice.files.write("mine", "an hour of work")
    assert alice.redo().safety_id is not None
    alice.store.set("n", "mine", "as well")
    assert alice.redo().safety_id is not None
    way = [
        ("0", False, False),
        ("0", True, False),
        ("1", False, False),
        ("1", False, True),
        ("2", False, False),
    ]
    for _ in range(2):
        assert states(alice.undo, 4) == way[-2::-1]
        with pytest.raises(errors.NothingToUndo):
            alice.undo()
        assert states(alice.redo, 4) == way[1:]
        with pytest.raises(errors.NothingToUndo):
            alice.redo()


def test_a_snapshot_of_something_new_is_the_end_of_redo(alice: Namespace) -> None:
    for number in range(2):
        alice.files.write("file", str(number))
        alice.snapshot()
    alice.undo()
    alice.files.write("mine", "kept by an undo")
    alice.undo()
    alice.redo()
    assert names(alice) == ["file", "mine"]
    with pytest.raises(errors.NothingToUndo):
        alice.redo()


def test_what_was_taken_back_by_hand_is_no_change(alice: Namespace) -> None:
    for number in range(4):
        alice.files.write("file", str(number))
        alice.snapshot()

    def to_and_fro() -> None:
        alice.store.set("n", "k", 1)
        alice.store.delete("n", "k")
        assert (alice.is_dirty(), alice.find_current()) == (True, None)
        assert not alice.diff(limit=1)

    alice.undo()
    to_and_fro()
    assert (alice.undo().safety_id, alice.files.read_text("file")) == (None, "1")
    assert not alice.is_dirty()
    to_and_fro()
    again = alice.snapshot()
    assert alice.find_current() == again
    to_and_fro()
    assert (alice.redo().safety_id, alice.files.read_text("file")) == (None, "2")
    assert (alice.redo().safety_id, alice.files.read_text("file")) == (None, "3")
    to_and_fro()
    assert alice.restore(again).safety_id is None
    assert (alice.is_dirty(), alice.files.read_text("file")) == (False, "1")


def test_a_file_that_was_written_back_is_no_change(alice: Namespace, home: Home) -> None:
    alice.files.write("file", "1")
    alice.snapshot()
    alice.files.write("later", "x")
    alice.snapshot()
    for text in ("2", "1"):
        home.wait(seconds=1)
        alice.files.write("file", text)
    assert list(alice.diff()) == []
    back = alice.undo()
    assert not alice.files.exists("later")
    # Its time is another all the same, and that is kept.
    assert back.safety_id is not None
    alice.redo()
    assert alice.files.exists("later")


def test_any_operation_on_the_timeline_can_be_undone_alone(alice: Namespace) -> None:
    alice.files.write("kept", "1")
    alice.snapshot()
    alice.files.write("wrong", "x")
    alice.files.delete("kept")
    alice.store.set("n", "k", 1)
    mistake = alice.snapshot("the mistake")
    alice.files.write("later", "good work")
    alice.snapshot()
    alice.files.write("pending", "more good work")
    undone = alice.undo(mistake)
    assert names(alice) == ["kept", "later", "pending"]
    assert len(alice.store) == 0
    assert undone.snapshot is not None
    assert (undone.snapshot.kind, undone.snapshot.target) == (Kind.UNDO, mistake.id)
    assert undone.changes.of("removed") == ["wrong", "n/k"]
    alice.undo(undone.snapshot)
    assert names(alice) == ["later", "pending", "wrong"]


def test_undoing_what_later_work_builds_on_says_so_and_changes_nothing(alice: Namespace) -> None:
    alice.files.write("file", "1")
    alice.snapshot()
    alice.files.write("file", "2")
    mistake = alice.snapshot()
    alice.files.write("file", "3")
    before = alice.timeline()
    with pytest.raises(errors.MergeConflict) as refused:
        alice.undo(mistake)
    assert refused.value.conflicts == [("files", b"file")]
    assert alice.files.read_text("file") == "3"
    assert alice.timeline() == before
    with pytest.raises(errors.NothingToUndo):
        alice.undo(before[-1])


def test_planes_and_paths_are_restored_alone(alice: Namespace) -> None:
    alice.files.write_many([("src/a.py", "1"), ("src/sub/b.py", "1"), ("docs/c.md", "1")])
    alice.store.set("n", "k", 1)
    good = alice.snapshot()
    alice.files.write_many([("src/a.py", "2"), ("src/sub/b.py", "2"), ("docs/c.md", "2")])
    alice.files.write("src/new.py", "2")
    alice.store.set("n", "k", 2)

    def seen() -> list[str]:
        return [f"{path}={alice.files.read_text(path)}" for path in names(alice)]

    alice.restore(good, paths=["src/a.py"])
    assert seen() == ["docs/c.md=2", "src/a.py=1", "src/new.py=2", "src/sub/b.py=2"]
    alice.undo()
    alice.restore(good, paths=["src"])
    assert seen() == ["docs/c.md=2", "src/a.py=1", "src/sub/b.py=1"]
    alice.undo()
    alice.restore(good, paths=["*.md", "src/sub/*"])
    assert seen() == ["docs/c.md=1", "src/a.py=2", "src/new.py=2", "src/sub/b.py=1"]
    alice.undo()
    alice.restore(good, planes=["store"])
    assert alice.store.get("n", "k") == 1
    assert alice.files.read_text("src/a.py") == "2"
    alice.undo()
    done = alice.restore(good, planes=[Plane.FILES])
    assert alice.store.get("n", "k") == 2
    assert done.snapshot is not None
    assert done.snapshot.size == alice.size()
    assert alice.size() == good.size


# Comparing


def test_a_diff_names_what_changed_over_all_planes(home: Home, alice: Namespace) -> None:
    alice.files.write_many([("changed", "1"), ("removed", "1"), ("touched", "1")])
    alice.files.symlink("link", "a")
    alice.store.set_many([("n", "changed", 1), ("n", "removed", 1)])
    old = alice.snapshot()
    home.wait(days=1)
    alice.files.write_many([("changed", "22"), ("touched", "1"), ("added", "333")])
    alice.files.delete("removed")
    alice.files.symlink("link", "b")
    alice.files.chmod("touched", 0o600)
    alice.store.set_many([("n", "changed", 2), ("n", "added", 1)])
    alice.store.delete("n", "removed")
    found = alice.diff(old)
    assert [(c.plane.value, c.name, c.change) for c in found] == [
        ("files", "added", "added"),
        ("files", "changed", "changed"),
        ("files", "link", "changed"),
        ("files", "removed", "removed"),
        ("files", "touched", "changed"),
        ("store", "n/added", "added"),
        ("store", "n/changed", "changed"),
        ("store", "n/removed", "removed"),
    ]
    sizes = {c.name: (c.old_bytes, c.new_bytes) for c in found}
    assert sizes["added"] == (None, 3)
    assert sizes["changed"] == (1, 2)
    assert sizes["removed"] == (1, None)
    assert alice.diff() == found
    assert alice.diff(planes=["store"]).of("added") == ["n/added"]
    assert len(alice.diff(limit=2)) == 2
    assert alice.diff(limit=2).truncated
    assert not alice.diff(limit=8).truncated
    new = alice.snapshot()
    assert len(alice.diff(old, new)) == 8
    assert [(c.name, c.change) for c in alice.diff(new, old) if c.name == "added"] == [
        ("added", "removed")
    ]
    assert len(alice.diff()) == len(alice.diff(new, new)) == 0


def test_writing_the_same_again_is_no_difference(home: Home, alice: Namespace) -> None:
    alice.files.write("file", "1")
    alice.snapshot()
    home.wait(hours=1)
    alice.files.write("file", "1")
    assert alice.is_dirty()
    assert len(alice.diff()) == 0


def test_a_text_diff_shows_lines(alice: Namespace) -> None:
    alice.files.write("notes", "one\ntwo\nthree\n")
    alice.files.write("binary", b"\0\1")
    alice.files.symlink("link", "a")
    old = alice.snapshot()
    alice.files.write("notes", "one\nTWO\nthree")
    alice.files.write("binary", b"\0\2\3")
    alice.files.write("added", "new\n")
    alice.files.symlink("link", "b")
    shown = alice.text_diff("notes", old)
    assert shown.splitlines() == [
        "--- a/notes",
        "+++ b/notes",
        "@@ -1,3 +1,3 @@",
        " one",
        "-two",
        "-three",
        "+TWO",
        "+three",
        "\\ No newline at end of file",
    ]
    assert alice.text_diff("added", old).splitlines()[-1] == "+new"
    assert alice.text_diff("link", old).splitlines()[-2:] == ["-a", "+b"]
    assert "Binary" in alice.text_diff("binary", old)
    with pytest.raises(errors.PathNotFound):
        alice.text_diff("nothing", old)
    new = alice.snapshot()
    assert alice.text_diff("notes", old, new) == shown
    assert alice.text_diff("notes", new) == ""


# Branching


def test_a_fork_is_a_world_of_its_own(home: Home, vault: Holdfast, alice: Namespace) -> None:
    alice.files.write("shared", noise(MIB))
    alice.store.set("n", "k", 1)
    first = alice.snapshot()
    alice.files.write("pending", "x")
    before = home.bytes_on_disk()
    fork = alice.fork("what if")
    assert home.bytes_on_disk() - before < 200_000
    assert vault.namespaces() == ["alice", "what if"]
    assert names(fork) == ["pending", "shared"]
    assert [s.kind for s in fork.timeline()] == [Kind.FORK]
    fork.files.delete("shared")
    fork.store.set("n", "k", 2)
    alice.files.write("ours", "x")
    assert names(alice) == ["ours", "pending", "shared"]
    assert alice.store.get("n", "k") == 1
    assert names(fork) == ["pending"]
    with pytest.raises(errors.SnapshotNotFound):
        fork.restore(first)
    earlier = alice.fork("earlier", at=first)
    assert names(earlier) == ["shared"]
    fork.undo()
    assert names(fork) == ["pending", "shared"]


def test_what_a_fork_learned_is_merged_back(alice: Namespace) -> None:
    alice.files.write_many([("both", "1"), ("theirs", "1"), ("ours", "1"), ("gone", "1")])
    fork = alice.fork("fork")
    fork.files.write_many([("theirs", "2"), ("new", "2"), ("both", "same")])
    fork.files.delete("gone")
    fork.store.set("n", "k", "learned")
    alice.files.write_many([("ours", "2"), ("both", "same")])
    merged = alice.merge(fork)
    assert merged.snapshot.kind is Kind.MERGE
    assert merged.changes.of("added") == ["new", "n/k"]
    assert merged.changes.of("changed") == ["theirs"]
    assert merged.changes.of("removed") == ["gone"]
    assert {path: alice.files.read_text(path) for path in names(alice)} == {
        "both": "same",
        "new": "2",
        "ours": "2",
        "theirs": "2",
    }
    # They have met: what was merged is no conflict the next time, in either direction.
    fork.files.write("theirs", "3")
    assert alice.merge("fork").changes.of("changed") == ["theirs"]
    fork.merge(alice)
    assert fork.snapshot().root == alice.snapshot().root
    alice.undo()
    assert alice.files.read_text("theirs") == "2"


def test_a_conflict_is_listed_and_nothing_is_applied(alice: Namespace) -> None:
    alice.files.write_many([("text", "1"), ("thing", "1"), ("fine", "1")])
    alice.store.set("n", "k", 1)
    fork = alice.fork("fork")
    fork.files.write_many([("text", "theirs"), ("fine", "theirs")])
    fork.files.delete("thing")
    fork.files.write("thing/inside", "theirs")
    fork.store.set("n", "k", "theirs")
    alice.files.write_many([("text", "ours"), ("thing", "ours")])
    alice.store.set("n", "k", "ours")
    before = (alice.timeline(), names(alice), alice.size())
    with pytest.raises(errors.MergeConflict) as refused:
        alice.merge(fork)
    assert refused.value.conflicts == [
        ("files", b"text"),
        ("files", b"thing"),
        ("store", b"n\0k"),
    ]
    assert (alice.timeline(), names(alice), alice.size()) == before
    assert alice.files.read_text("fine") == "1"
    alice.merge(fork, prefer="ours")
    assert alice.files.read_text("text") == "ours"
    assert alice.files.read_text("thing") == "ours"
    assert alice.files.read_text("fine") == "theirs"
    assert alice.store.get("n", "k") == "ours"


def test_the_other_side_may_win(alice: Namespace) -> None:
    alice.files.write_many([("text", "1"), ("thing", "1")])
    fork = alice.fork("fork")
    fork.files.delete("thing")
    fork.files.write_many([("text", "theirs"), ("thing/inside", "theirs")])
    alice.files.write_many([("text", "ours"), ("thing", "ours")])
    alice.merge(fork, prefer="theirs")
    assert names(alice) == ["text", "thing/inside"]
    assert alice.files.read_text("text") == "theirs"


def test_a_directory_that_nobody_deleted_survives_a_merge_and_a_restore(alice: Namespace) -> None:
    alice.files.write_many([("dir/x", "1"), ("dir/y", "1"), ("a/b/c", "1")])
    good = alice.snapshot()
    fork = alice.fork("fork")
    fork.files.delete("dir/x")
    alice.files.delete("dir/y")
    alice.merge(fork)
    assert names(alice) == ["a/b/c", "dir"]
    alice.files.chmod("dir", 0o700)
    alice.files.write("dir/z/new", "1")
    alice.restore(good, paths=["dir/z"])
    assert alice.files.stat("dir").mode == 0o700
    alice.files.write("e/f/g", "1")
    alice.restore(good, paths=["e/f"])
    assert names(alice) == ["a/b/c", "dir", "e"]


# Keeping and forgetting


def test_a_snapshot_is_kept_for_thirty_days(home: Home, vault: Holdfast, alice: Namespace) -> None:
    alice.files.write("file", "1")
    old = alice.snapshot("old")
    short = alice.snapshot("short", expires_in=timedelta(hours=1))
    pinned = alice.snapshot("pinned", pin=True)
    assert old.expires_at == START + timedelta(days=30)
    home.wait(days=29)
    alice.files.write("file", "2")
    new = alice.snapshot("new")
    alice.snapshot("newer")
    assert [s.label for s in alice.timeline()] == ["newer", "new", "pinned", "old"]
    with pytest.raises(errors.SnapshotExpired):
        alice.at(short)
    home.wait(days=1)
    assert [s.label for s in alice.timeline()] == ["newer", "new", "pinned"]
    with pytest.raises(errors.SnapshotExpired):
        alice.restore(old)
    assert [s.label for s in alice.forget(dry_run=True)] == ["short", "old"]
    with pytest.raises(errors.SnapshotExpired):
        alice.at(old)
    assert [s.label for s in vault.forget()] == ["short", "old"]
    with pytest.raises(errors.SnapshotNotFound):
        alice.at(old)
    unpinned = alice.unpin(pinned)
    assert (unpinned.pinned, unpinned.expires_at) == (False, home.now + timedelta(days=30))
    assert alice.pin(new).expires_at is None
    home.wait(days=365)
    assert [s.label for s in alice.timeline()] == ["newer", "new"], "it stands on the first"
    assert alice.files.read_text("file") == "2"


def test_policies_keep_the_last_the_daily_and_the_weekly(home: Home, alice: Namespace) -> None:
    home.now = datetime(2026, 6, 1, 6, tzinfo=UTC)
    for number in range(28):
        alice.files.write("file", str(number))
        alice.snapshot(home.now.strftime("%d %H"), pin=number == 3)
        home.wait(hours=12)
    kept = alice.forget(policy=Policy(keep_last=3, keep_daily=5), dry_run=True)
    assert len(kept) == 28 - len({"14 18", "14 06", "13 18", "12 18", "11 18", "10 18", "02 18"})
    policy = alice.set_retention(keep_last=3, keep_daily=5, keep_weekly=2)
    assert policy == Policy(keep_last=3, keep_daily=5, keep_weekly=2)
    alice.forget()
    assert [s.label for s in alice.timeline()] == [
        *("14 18", "14 06", "13 18", "12 18", "11 18", "10 18"),
        *("07 18", "02 18"),
    ]
    assert alice.forget() == []
    alice.undo()
    assert alice.files.read_text("file") == "26"


def test_what_a_policy_keeps_stays_beyond_the_thirty_days(
    home: Home, vault: Holdfast, alice: Namespace
) -> None:
    for week in range(12):
        alice.files.write("file", str(week))
        alice.snapshot(str(week))
        if week == 2:
            alice.set_retention(keep_weekly=8)
        home.wait(weeks=1)
        vault.collect()
    labels = [s.label for s in alice.timeline()]
    assert labels == ["11", "10", "9", "8", "7", "6", "5", "4"]
    assert {s.expires_at for s in alice.timeline()} == {None}
    alice.restore(alice.timeline()[-1])
    assert alice.files.read_text("file") == "4"
    own = alice.snapshot("its own term counts first", expires_in=timedelta(hours=1))
    alice.snapshot("what it stands on")
    home.wait(hours=2)
    with pytest.raises(errors.SnapshotExpired):
        alice.at(own)


def test_a_deleted_snapshot_can_be_recovered_for_a_while(home: Home, alice: Namespace) -> None:
    alice.files.write("file", "1")
    taken = alice.snapshot("wanted", pin=True)
    alice.files.write("file", "2")
    alice.snapshot()
    alice.files.write("file", "3")
    alice.snapshot()
    alice.delete_snapshot(taken)
    assert taken.id not in [s.id for s in alice.timeline()]
    with pytest.raises(errors.SnapshotNotFound):
        alice.restore(taken)
    home.wait(days=6)
    assert alice.forget() == []
    assert alice.recover_snapshot(taken.id).label == "wanted"
    assert alice.at(taken).files.read_text("file") == "1"
    alice.delete_snapshot(taken)
    home.wait(days=7)
    assert [s.id for s in alice.forget()] == [taken.id]
    with pytest.raises(errors.SnapshotNotFound):
        alice.recover_snapshot(taken.id)


def test_collecting_gives_the_bytes_back(home: Home, vault: Holdfast, alice: Namespace) -> None:
    alice.files.write("kept", noise(300_000))
    kept = alice.snapshot()
    for number in range(1, 5):
        alice.files.write("large", noise(2 * MIB, seed=number))
        alice.files.write_many((f"small/{n}", noise(2000, seed=n)) for n in range(50))
        alice.snapshot()
    alice.files.delete("large")
    alice.files.delete("small", recursive=True)
    alice.snapshot()
    alice.snapshot()
    full = home.bytes_on_disk()
    assert full > 8 * MIB
    assert vault.collect().bytes_freed < MIB
    for snapshot in alice.timeline()[2:]:
        if snapshot != kept:
            alice.delete_snapshot(snapshot)
    vault.collect()
    assert home.bytes_on_disk() > 8 * MIB
    home.wait(days=8)
    collected = vault.collect(now=True)
    assert collected.objects_deleted > 20
    assert collected.bytes_freed > 8 * MIB
    assert collected.bytes_after == vault.stored_bytes()
    assert home.bytes_on_disk() < full - 7 * MIB
    assert vault.stored_bytes() < MIB
    assert alice.at(kept).files.read("kept") == alice.files.read("kept") == noise(300_000)
    assert vault.verify().ok
    assert vault.collect().objects_deleted == 0


def test_a_vault_whose_index_is_lost_is_rebuilt_from_its_packs(
    vault: Holdfast, alice: Namespace
) -> None:
    alice.files.write("large", noise(MIB))
    alice.files.write("small", noise(1000))
    alice.snapshot()
    before = vault.verify()
    assert vault.rebuild_index() == before.objects
    assert vault.verify() == before
    assert before.ok
    assert alice.files.read("large") == noise(MIB)


def test_quotas_hold_and_deleting_makes_room(vault: Holdfast, alice: Namespace) -> None:
    alice.files.write("file", b"x" * 800)
    alice.set_quota(1000)
    with pytest.raises(errors.QuotaExceeded) as refused:
        alice.files.write("more", b"x" * 201)
    assert (refused.value.used_bytes, refused.value.needed_bytes) == (800, 201)
    alice.files.write("more", b"x" * 200)
    alice.files.delete("file")
    alice.store.set("n", "k", "x" * 700)
    with pytest.raises(errors.QuotaExceeded):
        alice.store.set("n", "k", "x" * 900)
    alice.set_quota(None)
    alice.store.set("n", "k", "x" * 900)
    vault.set_quota(vault.stored_bytes() + 100_000)
    with pytest.raises(errors.QuotaExceeded):
        alice.files.write("large", noise(200_000))
    with pytest.raises(errors.QuotaExceeded):
        vault.namespace("bob").files.write("large", noise(200_000))
    vault.tenant("another").namespace("alice").files.write("large", noise(200_000))
    vault.set_quota(None)
    alice.files.write("large", noise(200_000))
    assert alice.size().bytes == 200 + 903 + 200_000


# Tenants and namespaces


def test_tenants_share_nothing(home: Home, vault: Holdfast) -> None:
    one, two = vault.tenant("one"), vault.tenant("two")
    assert vault.tenants() == ["default", "one", "two"]
    assert one.tenant_id != two.tenant_id
    data = noise(MIB)
    one.namespace("alice").files.write("file", data)
    taken = one.namespace("alice").snapshot()
    assert two.stored_bytes() == 0
    before = home.bytes_on_disk()
    two.namespace("alice").files.write("file", data)
    theirs = two.namespace("alice").snapshot()
    # The same content is stored twice: that it was there already is not to be found out.
    assert home.bytes_on_disk() - before > MIB
    assert two.stored_bytes() == pytest.approx(one.stored_bytes(), rel=0.01)
    assert vault.stored_bytes() == 0
    assert [t.namespaces() for t in (vault, one, two)] == [[], ["alice"], ["alice"]]
    for tenant, foreign in ((one, theirs), (two, taken)):
        alice = tenant.namespace("alice")
        for use in (alice.get_snapshot, alice.at, alice.restore, alice.pin, alice.delete_snapshot):
            with pytest.raises(errors.SnapshotNotFound):
                use(foreign.id)
        with pytest.raises(errors.SnapshotNotFound):
            alice.fork("stolen", at=foreign)
    two.delete_namespace("alice")
    home.wait(days=8)
    assert two.collect(now=True).bytes_after == 0
    assert one.namespace("alice").files.read("file") == data
    assert all(tenant.verify().ok for tenant in (vault, one, two))


def test_objects_of_another_tenant_cannot_be_named(vault: Holdfast) -> None:
    one, two = vault.tenant("one"), vault.tenant("two")
    one.namespace("alice").files.write("file", noise(10_000))
    taken = one.namespace("alice").snapshot()
    two.namespace("alice").snapshot()
    with pytest.raises(errors.ObjectMissing):
        two.namespace("alice")._handle.objects.get(taken.root)
    assert one.namespace("alice")._handle.objects.get(taken.root)


def test_namespaces_do_not_see_each_others_snapshots(vault: Holdfast) -> None:
    taken = vault.namespace("alice").snapshot()
    bob = vault.namespace("bob")
    bob.snapshot()
    with pytest.raises(errors.SnapshotNotFound):
        bob.restore(taken)
    with pytest.raises(errors.SnapshotNotFound):
        bob.diff(taken.id[:10])


def test_a_deleted_namespace_can_be_recovered_for_a_while(home: Home, vault: Holdfast) -> None:
    alice = vault.namespace("alice")
    alice.files.write("file", "1")
    taken = alice.snapshot()
    alice.files.write("pending", "2")
    vault.delete_namespace("alice")
    assert vault.namespaces() == []
    assert names(alice) == []
    with pytest.raises(errors.SnapshotNotFound):
        alice.restore(taken)
    home.wait(days=6)
    vault.collect()
    recovered = vault.recover_namespace("alice")
    assert names(recovered) == ["file", "pending"]
    assert recovered.timeline() == [taken]
    vault.delete_namespace("alice")
    # The name is free at once, and whoever has it now is not replaced.
    alice.files.write("another life", "3")
    with pytest.raises(errors.NamespaceExists):
        vault.recover_namespace("alice")
    # Nor is the first one out of reach because its name was used again.
    (first,) = vault.deleted_namespaces()
    assert names(vault.recover_namespace("alice", as_name="first")) == ["file", "pending"]
    vault.delete_namespace("first")
    vault.delete_namespace("alice")
    assert [d.name for d in vault.deleted_namespaces()] == ["alice", "first"]
    assert vault.deleted_namespaces()[1].number == first.number
    assert names(vault.recover_namespace("alice")) == ["another life"]
    vault.delete_namespace("alice")
    home.wait(days=7)
    vault.collect()
    with pytest.raises(errors.NamespaceNotFound):
        vault.recover_namespace("alice")
    assert vault.stored_bytes() == 0


# Many at once


WORKER = """
import sys
import holdfast

location, objects, name, times = sys.argv[1:]
with holdfast.open(location, objects=objects) as vault:
    shared, own = vault.namespace("shared"), vault.namespace(name)
    for number in range(int(times)):
        shared.files.write(f"{name}/{number}", f"{name} {number}" * 100)
        shared.store.set(name, str(number), number)
        shared.snapshot(f"{name} {number}")
        own.files.write("file", str(number))
        own.snapshot()
        if number == 2:
            try:
                vault.collect()
            except holdfast.errors.Busy:
                pass
"""


def test_several_processes_share_a_vault(home: Home) -> None:
    workers, times = ["w1", "w2", "w3"], 5
    arguments = [str(home.location), str(home.packs)]
    started = [
        subprocess.Popen([sys.executable, "-c", WORKER, *arguments, name, str(times)])
        for name in workers
    ]
    assert [process.wait(timeout=120) for process in started] == [0] * len(workers)
    home.now = datetime.now(tz=UTC)
    vault = home.open()
    shared = vault.namespace("shared")
    assert len(names(shared)) == len(shared.store) == len(workers) * times
    for name in workers:
        for number in range(times):
            expected = f"{name} {number}" * 100
            assert shared.files.read_text(f"{name}/{number}") == expected
        assert len(vault.namespace(name).timeline()) == times
    timeline = shared.timeline()
    assert [s.number for s in timeline] == list(range(len(workers) * times, 0, -1))
    # Each snapshot holds what its writer had written before it.
    for snapshot in timeline:
        name, number = (snapshot.label or "").split()
        assert shared.at(snapshot).files.exists(f"{name}/{number}")
    vault.collect()
    assert vault.verify().ok


def test_two_vaults_on_one_place_see_the_same(home: Home) -> None:
    first, second = home.open(), home.open()
    here, there = first.namespace("alice"), second.namespace("alice")
    here.files.write("a", noise(300_000))
    assert there.files.read("a") == noise(300_000)
    taken = there.snapshot()
    assert here.timeline() == [taken]
    here.files.write("a", "2")
    done = there.restore(taken)
    assert here.files.read("a") == noise(300_000)
    assert done.safety_id is not None
    assert here.at(done.safety_id).files.read_text("a") == "2"
    for number in range(20):
        here.files.write("b", noise(1000, seed=number))
        here.snapshot()
    first.collect()
    # What the other had cached or was about to read may have moved to another pack.
    assert there.files.read("a") == noise(300_000)
    assert there.files.read("b") == noise(1000, seed=19)
    for snapshot in there.timeline():
        assert there.at(snapshot).files.list(recursive=True)
    first.close()
    there.files.write("c", "still open")
    assert second.verify().ok


def test_threads_take_turns_and_lose_nothing(vault: Holdfast, alice: Namespace) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(6):
                alice.files.write(f"{name}/{number}", noise(500, seed=number))
                alice.store.set(name, str(number), number)
                alice.snapshot(name)
                alice.files.list(name)
        except BaseException as exc:  # noqa: BLE001 - handed to the test's own thread
            failures.append(exc)

    threads = [threading.Thread(target=work, args=[f"t{number}"]) for number in range(4)]
    for thread in threads:
        thread.start()
    vault.collect()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(names(alice)) == len(alice.store) == len(alice.timeline()) == 24
    assert vault.verify().ok


def test_equal_contents_have_equal_roots_whatever_led_there(vault: Holdfast) -> None:
    def straight(namespace: Namespace) -> None:
        namespace.files.write_many([("a/b", "1"), ("c", "2")])
        namespace.files.mkdir("d")
        namespace.store.set("n", "k", [1])

    def crooked(namespace: Namespace) -> None:
        namespace.store.set("n", "k", "wrong")
        namespace.files.write("a", "a file first")
        namespace.files.mkdir("d/e", mode=0o700)
        namespace.snapshot()
        namespace.files.delete("a")
        namespace.files.mkdir("a")
        namespace.files.write("x/c", "2")
        namespace.files.move("x/c", "c")
        namespace.files.delete("x")
        namespace.snapshot()
        namespace.files.delete("d/e")
        namespace.files.write("a/b", io.BytesIO(b"1"))
        namespace.store.set("n", "k", [1])

    roots = set[bytes]()
    for number, way in enumerate((straight, crooked)):
        for tenant in (vault, vault.tenant("another")):
            namespace = tenant_namespace(tenant, f"way {number}")
            way(namespace)
            roots.add(namespace.snapshot().root)
    assert len(roots) == 1


def tenant_namespace(tenant: TenantVault, name: str) -> Namespace:
    return tenant.namespace(name)
