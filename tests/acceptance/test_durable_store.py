"""`Store.open`, as its users use it: one at a time, from many threads, next to other users."""

import errno
import gc
import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.durable import keeping
from holdfast.durable import log as log_module
from holdfast.durable.keeping import Sync
from holdfast.durable.store import DurableStore, open_store
from holdfast.errors import (
    Busy,
    Damaged,
    InvalidValue,
    NotFound,
    QuotaExceeded,
    StorageFull,
    TooLarge,
    Unavailable,
    Unencodable,
)
from holdfast.model.basics import Kind
from holdfast.store import Store
from holdfast.testing.faults import (
    Trouble,
)
from holdfast.testing.places import FusedOs

BOTH = pytest.mark.parametrize("sync", ["full", "normal"])


def content(store: Any) -> dict[tuple[str, str], Any]:
    return dict(store.items())


@BOTH
def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path, sync: Sync) -> None:
    with Store.open(tmp_path / "state", sync=sync) as store:
        assert isinstance(store, Store)
        store.set("a", "x", {"n": [1, 2, (3,)]})
        store.set_many([("a", "y", b"1"), ("b", "z", "long" * 5000)])
        store.put("c", "raw", holdfast.dumps(7))
        store.put_many([("c", "more", holdfast.dumps(8)), ("a", "y", None)])
        store.set("gone", "k", 1)
        assert store.delete("gone", "k") is True
        assert store.delete("gone", "k") is False
        expected = content(store)
    assert expected == {
        ("a", "x"): {"n": [1, 2, [3]]},
        ("b", "z"): "long" * 5000,
        ("c", "raw"): 7,
        ("c", "more"): 8,
    }
    with Store.open(tmp_path / "state", sync=sync) as store:
        assert content(store) == expected
        assert sorted(store.namespaces()) == ["a", "b", "c"]
        store.clear()
    with Store.open(tmp_path / "state", sync=sync) as store:
        assert len(store) == 0
        assert not store


def test_snapshots_are_the_namespaces_and_a_restore_can_be_undone(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.set("a", "x", 1)
        first = store.snapshot("before", pin=True, reason="why")
        assert (first.label, first.pinned, first.parent) == ("before", True, None)
        assert (first.keys, first.get("a", "x"), first.items()) == (
            [("a", "x")],
            1,
            [(("a", "x"), 1)],
        )
        assert first.size_bytes == 1
        store.set_many([("a", "x", 2), ("a", "y", 3)])
        second = store.snapshot()
        assert second.parent == first.id
        assert second.diff(first) == {
            "added": [("a", "y")],
            "removed": [],
            "changed": [("a", "x")],
        }
        store.set("a", "unsaved", 4)
        restored = store.restore(first)
        assert restored is not None
        assert restored.verified
        assert content(store) == {("a", "x"): 1}
        assert content(store.at(restored.safety_id)) == {
            ("a", "x"): 2,
            ("a", "y"): 3,
            ("a", "unsaved"): 4,
        }
        store.undo()
        assert store.get("a", "unsaved") == 4
        store.redo()
        assert content(store) == {("a", "x"): 1}
        assert [each.id for each in store.history()][:2] == [first.id, second.id]
        assert store.max_history is None
        assert store.codec == "msgpack"
    with Store.open(tmp_path) as store:
        assert content(store) == {("a", "x"): 1}
        again = {each.id: each for each in store.history()}
        assert again[second.id].diff(again[first.id])["added"] == [("a", "y")]
        store.restore(second.id[:12])
        assert content(store) == {("a", "x"): 2, ("a", "y"): 3}
        store.clear_history()
        assert [each.id for each in store.history()][:1] == [first.id]
        with pytest.raises(NotFound):
            store.restore("snap-none")


def test_a_snapshot_in_memory_can_become_the_content(tmp_path: Path) -> None:
    memory = Store()
    memory.set("m", "k", [1])
    taken = memory.snapshot()
    with Store.open(tmp_path) as store:
        store.set("a", "x", 1)
        assert store.restore(taken) is None
        assert content(store) == {("m", "k"): [1]}
        assert content(store.at(taken)) == {("m", "k"): [1]}
    with Store.open(tmp_path) as store:
        assert content(store) == {("m", "k"): [1]}


def test_a_second_opener_is_told_what_to_do(tmp_path: Path) -> None:
    script = "import sys; from holdfast.store import Store; Store.open(sys.argv[1])"
    with Store.open(tmp_path) as store:
        store.set("a", "x", 1)
        with pytest.raises(Busy, match=r"close it there, share the object .* holdfast\.open"):
            Store.open(tmp_path)
        other = subprocess.run(
            [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False
        )
        assert "Busy" in other.stderr
        # In another namespace there is another store.
        with Store.open(tmp_path, namespace="other") as second:
            assert len(second) == 0
            second.set("a", "x", 2)
        assert store.get("a", "x") == 1
    with Store.open(tmp_path, namespace="other") as second:
        assert content(second) == {("a", "x"): 2}


def test_after_close_everything_is_refused_but_closing(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.set("a", "x", 1)
    store.close()
    store.close()
    assert isinstance(store, DurableStore)
    assert "closed" in repr(store)
    for use in (
        lambda: store.get("a", "x"),
        lambda: store.set("a", "x", 2),
        lambda: store.keys("a"),
        lambda: len(store),
        lambda: "a" in store,
        lambda: store.namespace,
        lambda: store.snapshot,
        lambda: store.history,
    ):
        with pytest.raises(Unavailable, match="open it again"):
            use()


@BOTH
def test_a_store_that_nobody_closes_loses_nothing_and_lets_the_next_one_in(
    tmp_path: Path, sync: Sync
) -> None:
    store = Store.open(tmp_path, sync=sync)
    store.set("a", "x", 1)
    del store
    gc.collect()
    store = Store.open(tmp_path, sync=sync)
    assert store.get("a", "x") == 1
    store.close()
    script = """
import sys
from holdfast.store import Store
Store.open(sys.argv[1], sync=sys.argv[2]).set("a", "y", 2)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script, tmp_path, sync], check=True)
    with Store.open(tmp_path) as store:
        assert content(store) == {("a", "x"): 1, ("a", "y"): 2}


def test_a_forked_child_is_told_that_the_store_is_its_parents(tmp_path: Path) -> None:
    script = """
import os, sys
from holdfast.errors import Unavailable
from holdfast.store import Store
store = Store.open(sys.argv[1])
store.set("a", "x", 1)
if (pid := os.fork()) == 0:
    refused = 0
    for use in (lambda: store.get("a", "x"), lambda: store.set("a", "x", 2), lambda: len(store)):
        try:
            use()
        except Unavailable as exc:
            refused += "forked" in str(exc)
    store.close()
    sys.exit(refused)
_, status = os.waitpid(pid, 0)
store.set("a", "y", os.waitstatus_to_exitcode(status))
try:
    Store.open(sys.argv[1])
except Exception as exc:
    store.set("a", "still mine", type(exc).__name__)
store.close()
"""
    subprocess.run([sys.executable, "-c", script, tmp_path], check=True)
    with Store.open(tmp_path) as store:
        assert content(store) == {("a", "x"): 1, ("a", "y"): 3, ("a", "still mine"): "Busy"}


@BOTH
def test_threads_share_it_and_lose_nothing(tmp_path: Path, sync: Sync) -> None:
    with Store.open(tmp_path, sync=sync) as store:
        barrier = threading.Barrier(4)

        def work(name: str) -> int:
            barrier.wait()
            deleted = 0
            for number in range(40):
                store.set_many([(name, "left", number), (name, "right", number)])
                store.set("shared", f"{name}{number}", number)
                if number % 10 == 0:
                    store.snapshot()
                deleted += store.delete("shared", f"{name}{number - 1}")
            return deleted

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(work, "abcd")) == [39] * 4
        expected = content(store)
        assert expected == {
            **{(name, side): 39 for name in "abcd" for side in ("left", "right")},
            **{("shared", f"{name}39"): 39 for name in "abcd"},
        }
        for snapshot in store.history():
            for name in "abcd":
                assert snapshot.get(name, "left") == snapshot.get(name, "right")
    with Store.open(tmp_path, sync=sync) as store:
        assert content(store) == expected


def test_writers_that_wait_for_the_disk_wait_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow:
        """A disk that takes its time: until all the others have appended."""

        def __init__(self) -> None:
            self.syncs = 0
            self.may_go = threading.Event()

        def __getattr__(self, name: str) -> Any:
            return getattr(os, name)

        def fdatasync(self, fd: int) -> None:
            self.syncs += 1
            self.may_go.wait()
            os.fdatasync(fd)

    with Store.open(tmp_path) as store, ThreadPoolExecutor(8) as threads:
        slow = Slow()
        monkeypatch.setattr(log_module, "os", slow)
        writes = [threads.submit(store.set, "a", f"k{i}", i) for i in range(8)]
        while len(store._waiting) < 8:
            assert store.get("a", "k0") is None  # nothing is seen before it is synced
        slow.may_go.set()
        for write in writes:
            write.result()
        assert len(store) == 8
        assert slow.syncs <= 3
        monkeypatch.undo()


def test_others_may_write_while_it_is_open_and_are_adopted(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, holdfast.open(tmp_path) as vault:
        others = vault.namespace("store")
        store.set_many([("a", "x", 1), ("a", "y", 1), ("a", "z", 1)])
        first = store.snapshot()
        others.store.set_many([("a", "x", "theirs"), ("a", "new", "theirs")])
        others.files.write("notes.txt", b"hello")
        store.set("a", "y", "mine")
        store.set("a", "x", "mine too")
        assert store.get("a", "new") is None
        store.snapshot()
        expected = {
            ("a", "x"): "mine too",
            ("a", "y"): "mine",
            ("a", "z"): 1,
            ("a", "new"): "theirs",
        }
        assert content(store) == expected
        assert dict(others.store.items()) == expected
        others.restore(first)
        store.set("a", "after", 1)
        store.snapshot()
        assert content(store) == {
            ("a", "x"): 1,
            ("a", "y"): 1,
            ("a", "z"): 1,
            ("a", "after"): 1,
        }
        assert store.namespace.files.list() == []


def test_what_was_seen_before_may_be_collected_meanwhile(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, holdfast.open(tmp_path) as vault:
        store.set_many([("a", f"k{i}", "v" * 400) for i in range(300)])
        store.snapshot()
        others = vault.namespace("store")
        others.store.clear()
        others.store.set("b", "x", 1)
        others.snapshot()
        others.store.clear_history()
        store.set("a", "mine", 1)
        store.snapshot()
        assert content(store) == {("b", "x"): 1, ("a", "mine"): 1}


def test_a_namespace_that_was_deleted_meanwhile_is_not_made_anew(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    store.set("a", "x", 1)
    store.snapshot()
    store.set("a", "y", 2)
    with holdfast.open(tmp_path) as vault:
        vault.delete_namespace("store")
    with pytest.raises(NotFound):
        store.snapshot()
    assert store.get("a", "y") == 2
    with pytest.raises(NotFound):
        store.close()
    with Store.open(tmp_path) as store:
        assert content(store) == {("a", "y"): 2}


def test_what_could_not_be_flushed_is_refused_at_once(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        for wrong in (
            lambda: store.set("n" * 2000, "k" * 2096, 1),
            lambda: store.set("ü" * 1000, "ü" * 1048, 1),
        ):
            with pytest.raises(InvalidValue, match="4095"):
                wrong()
        store.set("n" * 2000, "k" * 2094, 1)
        store._most = 10
        with pytest.raises(TooLarge):
            store.set("a", "k", "x" * 20)
        with pytest.raises(Unencodable, match=r"\[1\]"):
            store.set_many([("a", "good", 1), ("a", "bad", [1, object()])])
        for wrong in (lambda: store.set(1, "k", 1), lambda: store.delete("a", None)):  # type: ignore[arg-type] - on purpose
            with pytest.raises(TypeError):
                wrong()
        with pytest.raises(UnicodeEncodeError):
            store.set("a", "\ud800", 1)

        class Name(str):
            __slots__ = ()

        store.set(Name("sub"), Name("class"), 1)
        assert type(store.keys("sub")[0]) is str
        assert len(store) == 2


def test_arguments_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="full"):
        open_store(tmp_path, sync="never")  # type: ignore[arg-type] - on purpose
    with pytest.raises(InvalidValue, match="directory"):
        open_store("postgresql://localhost/x")
    with pytest.raises(holdfast.errors.InvalidName):
        open_store(tmp_path, namespace="")
    with Store.open(tmp_path) as store, pytest.raises(TypeError):
        store.restore(None)  # type: ignore[arg-type] - on purpose


@BOTH
def test_a_full_disk_changes_nothing_and_is_over_when_there_is_room(
    tmp_path: Path, sync: Sync, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path, sync=sync) as store:
        store.set("a", "x", 1)
        for code, error in ((errno.ENOSPC, StorageFull), (errno.EIO, Unavailable)):
            for steps in range(2):
                trouble = Trouble(steps, code, counts=lambda name: name.startswith("os.pwrite"))
                monkeypatch.setattr(log_module, "os", FusedOs(trouble))
                with pytest.raises(error):
                    store.set_many([("a", "x", 2), ("a", "y", 2)])
                monkeypatch.undo()
                assert content(store) == {("a", "x"): 1}
        store.set("a", "z", 3)
    with Store.open(tmp_path) as store:
        assert content(store) == {("a", "x"): 1, ("a", "z"): 3}


def test_after_a_failed_sync_it_can_be_read_and_has_to_be_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path)
    store.set("a", "x", 1)
    trouble = Trouble(0, errno.EIO, counts=lambda name: name == "os.fdatasync")
    monkeypatch.setattr(log_module, "os", FusedOs(trouble))
    for write in (
        lambda: store.set("a", "x", 2),
        lambda: store.delete("a", "x"),
        store.clear,
        store.snapshot,
    ):
        with pytest.raises(Unavailable, match="opened again"):
            write()
    monkeypatch.undo()
    assert content(store) == {("a", "x"): 1}
    store.close()
    with Store.open(tmp_path) as store:
        assert store.get("a", "x") in (1, 2)
        store.set("a", "y", 3)


def test_a_long_log_is_flushed_and_stays_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "LONG_LOG", 20_000)
    with Store.open(tmp_path, sync="normal") as store:
        [path] = tmp_path.glob("store-*.log")
        longest = 0
        for number in range(1000):
            store.set("a", f"k{number % 10}", "x" * 200)
            longest = max(longest, path.stat().st_size)
        assert longest < 30_000
        assert store.namespace.store.get("a", "k3") == "x" * 200


def test_a_quota_stops_the_flush_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store.open(tmp_path)
    store.set("a", "x", 1)
    store.namespace.set_quota(100)
    store.set("a", "y", "y" * 5000)
    with pytest.raises(QuotaExceeded):
        store.snapshot()
    monkeypatch.setattr(keeping, "LONG_LOG", 1000)
    store._longest = 1000
    with caplog.at_level(logging.WARNING):
        store.set("a", "z", "z" * 5000)
    assert "store.flush_failed" in caplog.text
    expected = content(store)
    with pytest.raises(QuotaExceeded):
        store.close()
    with Store.open(tmp_path) as store:
        assert content(store) == expected
        store.namespace.set_quota(None)
        taken = store.snapshot()
        assert taken.get("a", "z") == "z" * 5000


def test_a_log_that_is_not_there_any_more_is_said_to_be_lost(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.set("a", "x", 1)
    for path in tmp_path.glob("store-*.log"):
        path.unlink()
    with pytest.raises(Damaged, match=r"holdfast\.open"):
        Store.open(tmp_path)
    with holdfast.open(tmp_path) as vault:
        assert vault.namespace("store").store.get("a", "x") == 1


def test_a_vault_that_others_began_can_be_opened_as_a_store(tmp_path: Path) -> None:
    with holdfast.open(tmp_path) as vault:
        alice = vault.namespace("alice")
        alice.store.set_many([("a", f"k{i}", "v" * (i * 40)) for i in range(300)])
        alice.snapshot()
        alice.store.set("a", "pending", "p" * 70_000)
        alice.store.delete("a", "k7")
        expected = dict(alice.store.items())
    with Store.open(tmp_path, namespace="alice") as store:
        assert content(store) == expected
        assert [each.kind for each in store.history()] == [Kind.SNAPSHOT]


@pytest.mark.parametrize("data", ["text", bytearray(b"\x01"), memoryview(b"\x01"), None])
def test_only_bytes_are_put_and_nothing_else_gets_into_the_log(tmp_path: Path, data: Any) -> None:
    with Store.open(tmp_path) as store:
        store.set("n", "k", 1)
        with pytest.raises(TypeError, match="bytes"):
            store.put("n", "k", data)
        store.set("n", "other", 2)
    with Store.open(tmp_path) as store:
        assert content(store) == {("n", "k"): 1, ("n", "other"): 2}
