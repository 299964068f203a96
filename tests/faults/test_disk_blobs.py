"""Power cuts, full disks, damaged files: what the disk store does when the disk does not.

`Disk` stands in for the module `os` inside the adapter. It can stop the world at any system
call, and it then forgets, as a disk may, all that was not synced: a file loses half of its
bytes, a new name is gone. So a missing sync is found, not only a wrong order.
"""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from holdfast.blobs import disk
from holdfast.blobs.disk import DiskBlobStore
from holdfast.errors import PackDamaged, PackMissing, StorageFull, Unavailable

OLD, NEW = b"old bytes" * 100, b"the new bytes" * 1000
STEPS = {"open", "write", "fsync", "rename", "mkdir", "unlink", "close"}


class PowerCut(BaseException):
    """The process died here. Not an `Exception`: no handler may save the day."""


class Disk:
    """The module `os`, with a count of system calls, short writes, and a memory of syncs."""

    def __init__(self, *, dies_after: int | None = None, write_at_most: int = 1 << 30) -> None:
        self.calls: list[str] = []
        self.fails: dict[str, int] = {}
        self.dies_after = dies_after
        self._write_at_most = write_at_most
        self._unsynced_files: set[int] = set()
        # With what stood under the name before, if it was a file.
        self._unsynced_names: dict[Path, bytes | None] = {}

    def __getattr__(self, name: str) -> object:
        real = getattr(os, name)
        return self._step(name, real) if name in STEPS else real

    def forget(self, root: Path) -> None:
        """Does the worst that a power cut may do."""
        for path in [path for path in root.rglob("*") if path.is_file()]:
            if path.stat().st_ino in self._unsynced_files:
                os.truncate(path, path.stat().st_size // 2)
        for path, before in reversed(self._unsynced_names.items()):
            if path.is_dir():
                shutil.rmtree(path)
            elif before is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(before)

    def _step(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: Any, **options: Any) -> object:
            if self.dies_after is not None and len(self.calls) >= self.dies_after:
                if name == "close":  # the kernel does that for the dead
                    return real(*args, **options)
                raise PowerCut
            self.calls.append(name)
            if name in self.fails:
                raise OSError(self.fails[name], os.strerror(self.fails[name]))
            note = getattr(self, f"_note_{name}", None)
            if note is not None:
                note(*args)
            if name == "write":
                args = (args[0], args[1][: self._write_at_most])
            return real(*args, **options)

        return call

    def _note_write(self, descriptor: int, _: object) -> None:
        self._unsynced_files.add(os.fstat(descriptor).st_ino)

    def _note_fsync(self, descriptor: int) -> None:
        self._unsynced_files.discard(os.fstat(descriptor).st_ino)
        where = Path(f"/proc/self/fd/{descriptor}").readlink()
        for path in [path for path in self._unsynced_names if path.parent == where]:
            del self._unsynced_names[path]

    def _note_rename(self, _: str, target: str) -> None:
        path = Path(target)
        self._unsynced_names[path] = path.read_bytes() if path.exists() else None

    def _note_mkdir(self, target: str, _: int) -> None:
        # A directory that is there already is not made again, and not lost either.
        if not Path(target).exists():
            self._unsynced_names[Path(target)] = None


@pytest.fixture
def with_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Disk], Disk]]:
    def use(fake: Disk) -> Disk:
        monkeypatch.setattr(disk, "os", fake)
        return fake

    yield use
    monkeypatch.undo()


def files(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*") if path.is_file())


def stored_file(root: Path, name: str) -> Path:
    return root / name[-2:] / f"{name}.pack"


class TestPowerCuts:
    def test_the_bytes_are_synced_before_the_name_and_the_name_before_put_returns(
        self, tmp_path: Path, with_disk: Callable[[Disk], Disk]
    ) -> None:
        blobs = DiskBlobStore(tmp_path / "blobs")
        fake = with_disk(Disk())
        blobs.put("pack-a", NEW)
        blobs.put("pack-ba", NEW)
        making = ["mkdir", "open", "fsync", "close"]
        writing = ["open", "write", "fsync", "close", "rename", "open", "fsync", "close"]
        assert fake.calls == [*making, *writing, *making, *writing]
        fake.calls.clear()
        blobs.put("pack-a", NEW)
        # Read, compared, and written once more: who asks again may not have heard of a sync.
        assert fake.calls == ["open", "close", *writing]

    @pytest.mark.parametrize("before", [None, NEW], ids=["new name", "again"])
    def test_a_power_cut_at_any_step_leaves_nothing_or_the_whole(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        before: bytes | None,
    ) -> None:
        steps = 0
        for steps in count():
            root = tmp_path / f"died-after-{steps}" / "made" / "on the way"
            if before is not None:
                DiskBlobStore(root).put("pack-a", before)
            fake = Disk(dies_after=steps, write_at_most=6_000)
            died = False
            with monkeypatch.context() as patch:
                patch.setattr(disk, "os", fake)
                try:
                    DiskBlobStore(root).put("pack-a", NEW)
                except PowerCut:
                    died = True
            fake.forget(root)
            fresh = DiskBlobStore(root)
            assert found(fresh) in ((before, NEW) if died else (NEW,)), f"after step {steps}"
            assert_delete_leaves_nothing(fresh, root)
            if not died:
                break
        assert steps > 10

    def test_the_remains_of_an_interrupted_put_are_listed_and_deleted_by_name(
        self, tmp_path: Path, with_disk: Callable[[Disk], Disk]
    ) -> None:
        blobs = DiskBlobStore(tmp_path)
        blobs.put("pack-a", OLD)
        # Making the shard takes four calls, opening the file one: two writes are done.
        fake = with_disk(Disk(dies_after=7, write_at_most=500))
        with pytest.raises(PowerCut):
            blobs.put("pack-b", NEW)
        fake.dies_after = None
        assert dict(blobs.iter_names()) == {"pack-a": len(OLD), "pack-b": 1_000}
        with pytest.raises(PackMissing):
            blobs.get("pack-b")
        with pytest.raises(PackMissing):
            blobs.size("pack-b")
        blobs.delete("pack-b")
        assert dict(blobs.iter_names()) == {"pack-a": len(OLD)}
        assert files(tmp_path) == ["pack-a.pack"]

    def test_remains_do_not_stand_in_the_way_of_a_second_put(
        self, tmp_path: Path, with_disk: Callable[[Disk], Disk]
    ) -> None:
        blobs = DiskBlobStore(tmp_path)
        blobs.put("of-the-same-shard-a", OLD)
        fake = with_disk(Disk(dies_after=2))
        with pytest.raises(PowerCut):
            blobs.put("pack-a", NEW)
        fake.dies_after = None
        blobs.put("pack-a", NEW)
        assert blobs.get("pack-a") == NEW

    def test_a_killed_process_leaves_only_whole_blobs_and_all_it_acknowledged(
        self, tmp_path: Path
    ) -> None:
        child = subprocess.Popen(
            [sys.executable, "-c", PUT_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        acknowledged = [child.stdout.readline().strip() for _ in range(20)]
        child.send_signal(signal.SIGKILL)
        acknowledged += [line.strip() for line in child.stdout if line.endswith("\n")]
        child.wait()
        child.stdout.close()
        blobs = DiskBlobStore(tmp_path)
        for name in acknowledged:
            assert blobs.get(name) == name.encode() * 20_000
        for name, _ in blobs.iter_names():
            if stored_file(tmp_path, name).exists():
                assert blobs.get(name) == name.encode() * 20_000


PUT_FOR_EVER = """
import sys, itertools, pathlib
from holdfast.blobs.disk import DiskBlobStore
blobs = DiskBlobStore(pathlib.Path(sys.argv[1]))
for number in itertools.count():
    blobs.put(f"pack-{number}", f"pack-{number}".encode() * 20_000)
    print(f"pack-{number}", flush=True)
"""


class TestErrorsOfTheSystem:
    @pytest.mark.parametrize("at", ["open", "write", "fsync", "rename", "mkdir"])
    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
    def test_a_full_disk_is_said_so_and_takes_no_room(
        self, tmp_path: Path, with_disk: Callable[[Disk], Disk], at: str, number: int
    ) -> None:
        blobs = DiskBlobStore(tmp_path)
        blobs.put("pack-a", OLD)
        fake = with_disk(Disk())
        fake.fails[at] = number
        with pytest.raises(StorageFull, match="pack-b"):
            blobs.put("pack-b", NEW)
        fake.fails.clear()
        assert files(tmp_path) == ["pack-a.pack"]
        assert dict(blobs.iter_names()) == {"pack-a": len(OLD)}
        blobs.put("pack-b", NEW)
        assert blobs.get("pack-b") == NEW

    @pytest.mark.parametrize("at", ["open", "write", "fsync", "rename", "mkdir"])
    def test_any_other_error_is_unavailable_and_keeps_what_was_there(
        self, tmp_path: Path, with_disk: Callable[[Disk], Disk], at: str
    ) -> None:
        blobs = DiskBlobStore(tmp_path)
        blobs.put("pack-b", OLD)
        fake = with_disk(Disk())
        blobs = DiskBlobStore(tmp_path)
        fake.fails[at] = errno.EIO
        with pytest.raises(Unavailable, match="pack-b"):
            blobs.put("pack-b", NEW)
        fake.fails.clear()
        assert blobs.get("pack-b") == OLD
        assert files(tmp_path) == ["pack-b.pack"]

    def test_short_writes_are_continued(
        self, tmp_path: Path, with_disk: Callable[[Disk], Disk]
    ) -> None:
        blobs = DiskBlobStore(tmp_path)
        fake = with_disk(Disk(write_at_most=7))
        blobs.put("pack-a", NEW)
        assert fake.calls.count("write") > 1000
        assert blobs.get("pack-a") == NEW

    def test_short_reads_are_continued(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blobs = DiskBlobStore(tmp_path)
        blobs.put("pack-a", NEW)
        real = os.pread

        def short(descriptor: int, length: int, start: int) -> bytes:
            return real(descriptor, min(length, 7), start)

        monkeypatch.setattr(disk.os, "pread", short)
        assert blobs.get("pack-a") == NEW
        assert blobs.get("pack-a", start=3, length=50) == NEW[3:53]

    def test_a_file_that_shrinks_while_it_is_read_is_damaged(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        blobs = DiskBlobStore(tmp_path)
        blobs.put("pack-a", NEW)
        real = os.pread

        def shrinking(descriptor: int, length: int, start: int) -> bytes:
            os.truncate(stored_file(tmp_path, "pack-a"), 100)
            return real(descriptor, length, start)

        monkeypatch.setattr(disk.os, "pread", shrinking)
        with pytest.raises(PackDamaged, match="pack-a"):
            blobs.get("pack-a")

    def test_a_read_that_fails_is_unavailable(
        self, tmp_path: Path, with_disk: Callable[[Disk], Disk]
    ) -> None:
        blobs = DiskBlobStore(tmp_path)
        blobs.put("pack-a", NEW)
        fake = with_disk(Disk())
        fake.fails["open"] = errno.EMFILE
        with pytest.raises(Unavailable, match="pack-a"):
            blobs.get("pack-a")

    def test_no_descriptor_stays_open_whatever_fails(
        self, tmp_path: Path, with_disk: Callable[[Disk], Disk]
    ) -> None:
        blobs = DiskBlobStore(tmp_path)
        blobs.put("pack-a", NEW)
        before = open_descriptors()
        for at in ("write", "fsync", "rename", "mkdir"):
            fake = with_disk(Disk())
            fake.fails[at] = errno.EIO
            with pytest.raises(Unavailable):
                blobs.put(f"pack-{at}", NEW)
        with pytest.raises(PackDamaged):
            blobs.get("pack-a", start=1 << 40)
        assert open_descriptors() == before


class TestDamagedAndForeignFiles:
    def test_a_truncated_file_is_named_never_returned(self, tmp_path: Path) -> None:
        blobs = DiskBlobStore(tmp_path)
        blobs.put("pack-a", NEW)
        os.truncate(stored_file(tmp_path, "pack-a"), len(NEW) - 1)
        with pytest.raises(PackDamaged, match="pack-a"):
            blobs.get("pack-a", start=0, length=len(NEW))
        assert blobs.size("pack-a") == len(NEW) - 1

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        blobs = DiskBlobStore(tmp_path)
        blobs.put("pack-a", NEW)
        stored_file(tmp_path, "pack-a").unlink()
        with pytest.raises(PackMissing, match="pack-a"):
            blobs.get("pack-a")

    def test_a_link_or_directory_in_place_of_a_blob_is_not_followed(self, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_bytes(NEW)
        blobs = DiskBlobStore(tmp_path / "blobs")
        for name in ("pack-a", "pack-ba"):
            blobs.put(name, OLD)
            stored_file(tmp_path / "blobs", name).unlink()
        stored_file(tmp_path / "blobs", "pack-a").symlink_to(secret)
        stored_file(tmp_path / "blobs", "pack-ba").mkdir()
        for name in ("pack-a", "pack-ba"):
            with pytest.raises(Unavailable, match=name):
                blobs.get(name)
        blobs.put("pack-a", OLD)
        assert blobs.get("pack-a") == OLD
        assert secret.read_bytes() == NEW

    def test_a_root_that_is_gone_is_unavailable_not_damaged_and_not_empty(
        self, tmp_path: Path
    ) -> None:
        blobs = DiskBlobStore(tmp_path / "blobs")
        blobs.put("pack-a", NEW)
        (tmp_path / "blobs").rename(tmp_path / "unmounted")
        for use in (
            lambda: blobs.get("pack-a"),
            lambda: blobs.size("pack-a"),
            lambda: list(blobs.iter_names()),
            lambda: blobs.put("pack-a", NEW),
            blobs.free_bytes,
        ):
            with pytest.raises(Unavailable):
                use()
        (tmp_path / "unmounted").rename(tmp_path / "blobs")
        assert blobs.get("pack-a") == NEW

    def test_a_file_in_place_of_the_root_is_said_at_once(self, tmp_path: Path) -> None:
        (tmp_path / "blobs").write_bytes(b"")
        with pytest.raises(Unavailable):
            DiskBlobStore(tmp_path / "blobs")

    def test_a_shard_that_was_removed_is_made_again_at_the_second_try(self, tmp_path: Path) -> None:
        blobs = DiskBlobStore(tmp_path)
        blobs.put("pack-a", OLD)
        shutil.rmtree(tmp_path / "-a")
        with pytest.raises(Unavailable):
            blobs.put("pack-a", NEW)
        blobs.put("pack-a", NEW)
        assert blobs.get("pack-a") == NEW

    def test_files_that_are_not_ours_are_neither_listed_nor_deleted(self, tmp_path: Path) -> None:
        blobs = DiskBlobStore(tmp_path)
        blobs.put("pack-a", OLD)
        foreign = [
            tmp_path / "README",
            tmp_path / "-a" / "pack-a.txt",
            tmp_path / "-a" / ".pack-a.pack.swp",
            tmp_path / "-a" / "PACK-a.pack",
            tmp_path / "-a" / "pack-b.pack",
        ]
        for path in foreign:
            path.write_bytes(b"not ours")
        assert dict(blobs.iter_names()) == {"pack-a": len(OLD)}
        blobs.delete("pack-a")
        assert all(path.exists() for path in foreign)

    def test_only_the_owner_can_read(self, tmp_path: Path) -> None:
        root = tmp_path / "blobs"
        DiskBlobStore(root).put("pack-a", OLD)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [root, *root.rglob("*")]}
        assert modes == {"blobs": 0o700, "-a": 0o700, "pack-a.pack": 0o600}

    def test_another_store_on_the_same_directory_sees_the_same_blobs(self, tmp_path: Path) -> None:
        one, other = DiskBlobStore(tmp_path), DiskBlobStore(tmp_path)
        one.put("pack-a", OLD)
        assert other.get("pack-a") == OLD
        other.delete("pack-a")
        with pytest.raises(PackMissing):
            one.get("pack-a")


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def found(blobs: DiskBlobStore) -> bytes | None:
    try:
        return blobs.get("pack-a")
    except PackMissing:
        return None


def assert_delete_leaves_nothing(blobs: DiskBlobStore, root: Path) -> None:
    assert {name for name, _ in blobs.iter_names()} <= {"pack-a"}
    blobs.delete("pack-a")
    assert files(root) == []
    assert dict(blobs.iter_names()) == {}


def test_what_was_whole_is_looked_at_again_once_something_came_or_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DiskBlobStore(tmp_path / "packs")
    expected = {f"pack-{number:04}-aa": 5 for number in range(50)}
    for name in expected:
        store.put(name, b"12345")
    shard = tmp_path / "packs" / "aa"
    os.utime(shard, (1, 1))  # It has not changed for a while.
    looked: list[object] = []
    stat = os.stat

    def counting(path: object, *rest: object, **more: object) -> object:
        looked.append(path)
        return stat(path, *rest, **more)  # pyright: ignore[reportArgumentType, reportCallIssue] - as it came

    monkeypatch.setattr(os, "stat", counting)
    assert store.find_short(expected) == {}
    assert len(looked) > 50
    del looked[:]
    assert store.find_short(expected) == {}
    assert looked == [str(shard)]
    (shard / "pack-0007-aa.pack").unlink()
    assert store.find_short(expected) == {"pack-0007-aa": 0}
    # Just changed: the next change may bear the same time, so nothing is believed.
    (shard / "pack-0008-aa.pack").unlink()
    assert store.find_short(expected) == {"pack-0007-aa": 0, "pack-0008-aa": 0}


def test_what_was_cut_in_place_is_noticed_a_minute_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DiskBlobStore(tmp_path / "packs")
    store.put("pack-aa", b"12345")
    os.utime(tmp_path / "packs" / "aa", (1, 1))
    assert store.find_short({"pack-aa": 5}) == {}
    os.truncate(tmp_path / "packs" / "aa" / "pack-aa.pack", 2)
    assert DiskBlobStore(tmp_path / "packs").find_short({"pack-aa": 5}) == {"pack-aa": 2}
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert store.find_short({"pack-aa": 5}) == {"pack-aa": 2}


def test_a_directory_that_is_gone_is_no_damage(tmp_path: Path) -> None:
    store = DiskBlobStore(tmp_path / "packs")
    (tmp_path / "packs").rmdir()
    with pytest.raises(Unavailable):
        store.find_short({"pack-aa": 5})
