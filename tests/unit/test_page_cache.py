"""What a machine keeps of a bucket: proven, bounded, private, and never an authority."""

import logging
import os
import random
import stat
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from obstore.store import MemoryStore

from holdfast.blobs import cached
from holdfast.blobs.beside import AT_ONCE
from holdfast.blobs.bucket import BucketBlobStore
from holdfast.blobs.buckets import Bucket
from holdfast.blobs.cached import PAGE_BYTES, CachedBlobStore
from holdfast.errors import PackDamaged, PackMissing

DATA = random.Random(11).randbytes(3 * PAGE_BYTES + 1000)

pytestmark = pytest.mark.in_memory


class Counted(BucketBlobStore):
    """A bucket that counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(Bucket(MemoryStore()))
        self.asked: Counter[str] = Counter()
        self.bytes = 0

    def read(self, name: str, /, *, start: int, length: int) -> tuple[bytes, int]:
        self.asked["read"] += 1
        found = super().read(name, start=start, length=length)
        self.bytes += len(found[0])
        return found

    def size(self, name: str, /) -> int:
        self.asked["size"] += 1
        return super().size(name)


@pytest.fixture
def bucket() -> Counted:
    bucket = Counted()
    bucket.put("pack-aa", DATA)
    return bucket


def opened(bucket: Counted, path: Path, *, max_bytes: int = 1 << 30) -> CachedBlobStore:
    return CachedBlobStore(bucket, path / "cache", max_bytes=max_bytes, ahead=0)


def pages(path: Path) -> list[Path]:
    return sorted(path.rglob("*.page"))


def used(path: Path) -> int:
    total = 0
    for folder, _, names in os.walk(path / "cache"):
        for name in names:
            with suppress(FileNotFoundError):  # Another process has let go of it.
                total += os.stat(os.path.join(folder, name)).st_size
    return total


def test_a_page_is_fetched_once_and_by_whoever_comes_first(bucket: Counted, tmp_path: Path) -> None:
    for blobs in (opened(bucket, tmp_path), opened(bucket, tmp_path)):
        for start in range(0, len(DATA) - 1000, 50_000):
            assert blobs.get("pack-aa", start=start, length=1000) == DATA[start : start + 1000]
    assert bucket.asked == {"read": 3}
    assert len(pages(tmp_path)) == 3


def test_who_asks_for_one_page_after_the_other_has_the_next_ones_fetched(
    bucket: Counted, tmp_path: Path
) -> None:
    blobs = CachedBlobStore(bucket, tmp_path / "cache", max_bytes=1 << 30)
    assert blobs.get("pack-aa", start=0, length=10) == DATA[:10]
    assert bucket.asked == {"read": 1}, "who asks for one page gets one"
    for start in range(0, len(DATA) - 100, 70_000):
        assert blobs.get("pack-aa", start=start, length=100) == DATA[start : start + 100]
    blobs._beside.wait()
    assert bucket.asked == {"read": 4}
    assert len(pages(tmp_path)) == 4


def test_a_small_pack_is_there_when_it_was_put_and_a_large_one_is_not(
    bucket: Counted, tmp_path: Path
) -> None:
    blobs = opened(bucket, tmp_path)
    blobs.put("pack-small-aa", DATA)
    assert blobs.get("pack-small-aa", start=3 * PAGE_BYTES, length=10) == DATA[-1000:-990]
    assert bucket.asked == {}
    blobs.put("pack-large-aa", DATA * 3)
    assert len(pages(tmp_path)) == 4


def test_a_page_that_changes_under_a_process_is_forgotten_by_who_notices(
    bucket: Counted, tmp_path: Path
) -> None:
    blobs = opened(bucket, tmp_path)
    assert blobs.get("pack-aa", start=0, length=10) == DATA[:10]
    (page,) = pages(tmp_path)
    with page.open("r+b") as file:
        file.seek(40)
        file.write(b"X")
    blobs.forget("pack-aa")
    assert blobs.get("pack-aa", start=0, length=10) == DATA[:10]
    assert bucket.asked["read"] == 2


def test_a_range_over_two_pages_is_whole(bucket: Counted, tmp_path: Path) -> None:
    blobs = opened(bucket, tmp_path)
    start = PAGE_BYTES - 10
    assert blobs.get("pack-aa", start=start, length=20) == DATA[start : start + 20]
    assert blobs.get("pack-aa", start=3 * PAGE_BYTES + 990, length=10) == DATA[-10:]
    for start, length in (
        (3 * PAGE_BYTES + 990, 11),
        (4 * PAGE_BYTES, 1),
        (2 * PAGE_BYTES, 1 << 20),
    ):
        whole = start + length <= len(DATA)
        if whole:
            assert blobs.get("pack-aa", start=start, length=length) == DATA[start : start + length]
            continue
        with pytest.raises(PackDamaged):
            blobs.get("pack-aa", start=start, length=length)


@pytest.mark.parametrize("at", [0, 35, 40, 5000, -1])
def test_a_flipped_byte_is_fetched_again(bucket: Counted, tmp_path: Path, at: int) -> None:
    assert opened(bucket, tmp_path).get("pack-aa", start=0, length=10) == DATA[:10]
    (page,) = pages(tmp_path)
    raw = bytearray(page.read_bytes())
    raw[at] ^= 1
    page.write_bytes(raw)
    assert opened(bucket, tmp_path).get("pack-aa", start=0, length=10) == DATA[:10]
    assert bucket.asked["read"] == 2
    assert opened(bucket, tmp_path).get("pack-aa", start=0, length=10) == DATA[:10]
    assert bucket.asked["read"] == 2, "what was wrong is not there any more"


def test_a_page_of_another_blob_is_not_believed(bucket: Counted, tmp_path: Path) -> None:
    bucket.put("pack-ba", DATA[::-1])
    blobs = opened(bucket, tmp_path)
    for name in ("pack-aa", "pack-ba"):
        blobs.get(name, start=0, length=10)
    one, other = pages(tmp_path)
    other.write_bytes(one.read_bytes())
    assert opened(bucket, tmp_path).get("pack-ba", start=0, length=10) == DATA[::-1][:10]


def test_pages_go_with_their_blob(bucket: Counted, tmp_path: Path) -> None:
    bucket.put("pack-b-aa", DATA)
    blobs = opened(bucket, tmp_path)
    for name in ("pack-aa", "pack-b-aa"):
        blobs.get(name, start=0, length=10)
    blobs.delete("pack-aa")
    assert [page.name for page in pages(tmp_path)] == ["pack-b-aa.0.page"]
    with pytest.raises(PackMissing):
        blobs.get("pack-aa", start=0, length=10)
    blobs.forget()
    assert pages(tmp_path) == []


def test_nobody_else_can_read_a_page(bucket: Counted, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        opened(bucket, tmp_path).get("pack-aa", start=0, length=10)
    finally:
        os.umask(before)
    (page,) = pages(tmp_path)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "cache" / "pages").stat().st_mode) == 0o700


def test_where_nothing_can_be_kept_everything_is_read(
    bucket: Counted, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache" / "pages").mkdir(parents=True)
    (tmp_path / "cache" / "pages").chmod(0o755)
    with caplog.at_level(logging.WARNING):
        blobs = opened(bucket, tmp_path)
    assert "HOLDFAST_CACHE" in caplog.text
    assert blobs.get("pack-aa", start=7, length=10) == DATA[7:17]
    assert pages(tmp_path) == []


def test_a_full_disk_is_no_error(
    bucket: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def writev(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cached.os, "writev", writev)
    assert opened(bucket, tmp_path).get("pack-aa", start=7, length=10) == DATA[7:17]
    assert [*(tmp_path / "cache" / "pages" / "aa").iterdir()] == []


def test_many_at_once_fetch_a_page_once(bucket: Counted, tmp_path: Path) -> None:
    blobs = opened(bucket, tmp_path)

    def read(number: int) -> bool:
        start = number % 4 * PAGE_BYTES
        return blobs.get("pack-aa", start=start, length=500) == DATA[start : start + 500]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(400)))
    assert bucket.asked == {"read": 4}


class Synthetic(Counted):
    """A bucket of any number of blobs, made as they are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._lock, self.answered = threading.Lock(), threading.Semaphore(0)

    def read(self, name: str, /, *, start: int, length: int) -> tuple[bytes, int]:  # noqa: ARG002 - the same everywhere
        with self._lock:
            self.asked["read"] += 1
            self.bytes += length
        self.answered.release()
        return name.encode().ljust(length, b"-"), 1 << 30


class Gathering(Synthetic):
    """A bucket that answers nobody before so many ask at the same time."""

    def __init__(self, many: int) -> None:
        super().__init__()
        self._all = threading.Barrier(many)

    def read(self, name: str, /, *, start: int, length: int) -> tuple[bytes, int]:
        self._all.wait(timeout=60)
        return super().read(name, start=start, length=length)


def test_pages_that_will_be_asked_for_are_fetched_at_the_same_time(tmp_path: Path) -> None:
    bucket = Gathering(AT_ONCE)
    blobs = opened(bucket, tmp_path)
    wanted = [("pack-aa", number * 3 * PAGE_BYTES + 7, 100) for number in range(AT_ONCE)]
    blobs.expect([each for each in wanted for _ in range(3)])
    for name, start, length in wanted:
        assert len(blobs.get(name, start=start, length=length)) == length
    assert bucket.asked == {"read": AT_ONCE}


def test_what_will_be_asked_for_is_fetched_while_somebody_reads(tmp_path: Path) -> None:
    bucket = Synthetic()
    blobs = opened(bucket, tmp_path)
    wanted = [("pack-aa", number * PAGE_BYTES, 10) for number in range(3 * AT_ONCE)]
    blobs.expect(wanted)
    for _ in range(AT_ONCE):
        assert bucket.answered.acquire(timeout=60)
    assert not bucket.answered.acquire(timeout=0.05), "nobody has asked for any of them"
    for name, start, length in wanted:
        blobs.get(name, start=start, length=length)
    assert bucket.asked == {"read": 3 * AT_ONCE}


def test_where_no_thread_can_be_had_pages_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = Synthetic()
    blobs = opened(bucket, tmp_path)
    wanted = [("pack-aa", number * PAGE_BYTES, 10) for number in range(2 * AT_ONCE)]

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        blobs.expect(wanted)
        for name, start, length in wanted[:AT_ONCE]:
            assert len(blobs.get(name, start=start, length=length)) == length
    blobs.expect(wanted[AT_ONCE:])
    blobs._beside.wait()
    assert bucket.asked == {"read": 2 * AT_ONCE}


def test_a_page_that_had_to_go_is_fetched_again_before_it_is_asked_for(tmp_path: Path) -> None:
    bucket = Synthetic()
    blobs = opened(bucket, tmp_path)
    blobs.get("pack-aa", start=0, length=10)
    (page,) = pages(tmp_path)
    page.unlink()  # As another process does that makes room.
    blobs.expect([("pack-aa", 0, 10)])
    blobs._beside.wait()
    assert len(pages(tmp_path)) == 1
    assert bucket.asked == {"read": 2}


def test_to_forget_one_blob_looks_at_no_page_of_another(tmp_path: Path) -> None:
    bucket = Synthetic()
    blobs = opened(bucket, tmp_path)
    for number in range(50):
        blobs.get(f"pack-{number}", start=0, length=10)
    lines = Counter[str]()

    def count(_frame: FrameType, event: str, _argument: object) -> Any:
        lines[event] += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        blobs.forget("pack-7")
    finally:
        sys.settrace(before)
    assert lines["line"] < 50
    blobs.get("pack-7", start=0, length=10)
    blobs.get("pack-8", start=0, length=10)
    assert bucket.asked == {"read": 51}


def test_no_more_comes_ahead_than_a_small_cache_holds(tmp_path: Path) -> None:
    bucket = Synthetic()
    blobs = opened(bucket, tmp_path, max_bytes=16 * PAGE_BYTES)
    blobs.expect(("pack-aa", number * PAGE_BYTES, 10) for number in range(40))
    blobs._beside.wait()
    assert bucket.asked == {"read": 4}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_bound_is_kept_by_eight_processes(tmp_path: Path) -> None:
    bound = 64 * PAGE_BYTES
    children = list[int]()
    for number in range(8):
        pid = os.fork()
        if not pid:
            try:
                blobs = opened(Synthetic(), tmp_path, max_bytes=bound)
                for page in range(40):
                    blobs.get(f"pack-{number}-aa", start=page * PAGE_BYTES, length=10)
                os._exit(0 if used(tmp_path) <= bound else 1)
            finally:
                os._exit(2)
        children.append(pid)
    most = 0
    while children:
        most = max(most, used(tmp_path))
        pid, status = os.waitpid(children[0], os.WNOHANG)
        if pid:
            assert status == 0
            children.pop(0)
    assert bound // 4 < most <= bound


def test_what_was_used_last_stays_longest(tmp_path: Path) -> None:
    bucket = Synthetic()
    blobs = opened(bucket, tmp_path, max_bytes=64 * PAGE_BYTES)
    for name in ("pack-old-aa", "pack-used-aa"):
        blobs.get(name, start=0, length=10)
    for number in range(40):
        blobs.get("pack-then-aa", start=number * PAGE_BYTES, length=10)
    for page in pages(tmp_path):
        age = 2000 if "then" in page.name else 3000
        os.utime(page, (time.time() - age, time.time() - age))
    # By a process that has it not in memory.
    opened(bucket, tmp_path).get("pack-used-aa", start=0, length=10)
    for number in range(20):
        blobs.get("pack-new-aa", start=number * PAGE_BYTES, length=10)
    left = {page.name for page in pages(tmp_path)}
    assert "pack-old-aa.0.page" not in left
    assert "pack-used-aa.0.page" in left


def test_what_nobody_uses_goes_after_a_day(tmp_path: Path) -> None:
    blobs = opened(Synthetic(), tmp_path)
    blobs.get("pack-old-aa", start=0, length=10)
    (page,) = pages(tmp_path)
    os.utime(page, (time.time() - 90_000, time.time() - 90_000))
    opened(Synthetic(), tmp_path).get("pack-new-aa", start=0, length=10)
    assert [page.name for page in pages(tmp_path)] == ["pack-new-aa.0.page"]


def test_a_cache_that_does_harm_is_passed_by(tmp_path: Path) -> None:
    bucket = Synthetic()
    blobs = opened(bucket, tmp_path, max_bytes=16 * PAGE_BYTES)

    def reads() -> Iterator[int]:
        for _ in range(10):
            yield from range(0, 100 * PAGE_BYTES, PAGE_BYTES)

    for start in reads():
        blobs.get("pack-aa", start=start, length=1000)
    # With a page for each of the thousand reads it would be a thousand MiB.
    assert bucket.bytes < 300 * PAGE_BYTES


def test_who_only_reads_has_one_client() -> None:
    made, store = list[MemoryStore](), MemoryStore()

    def patient() -> MemoryStore:
        made.append(store)
        return store

    blobs = BucketBlobStore(Bucket(store, patient=patient))
    assert blobs.find_mark() is None
    with pytest.raises(PackMissing):
        blobs.get("pack-aa", start=0, length=10)
    assert made == []
    blobs.put("pack-aa", DATA)
    blobs.put("pack-ba", DATA)
    assert blobs.get("pack-aa", start=0, length=10) == DATA[:10]
    assert len(made) == 1
