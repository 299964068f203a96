"""One suite, every blob store: what `holdfast.blobs.port` promises."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import obstore
import pytest
from obstore.store import MemoryStore

from holdfast.blobs import BlobStore
from holdfast.blobs.bucket import BucketBlobStore, key_of, open_bucket
from holdfast.blobs.buckets import Bucket
from holdfast.blobs.cached import CachedBlobStore
from holdfast.blobs.disk import DiskBlobStore
from holdfast.blobs.memory import MemoryBlobStore
from holdfast.errors import InvalidName, InvalidValue, PackDamaged, PackMissing, Unavailable
from holdfast.instruments import TALLIES

STORES: dict[str, Callable[[Path, pytest.FixtureRequest], BlobStore]] = {
    "memory": lambda _path, _request: MemoryBlobStore(),
    "disk": lambda path, _request: DiskBlobStore(path / "made" / "on the way"),
    "bucket": lambda _path, _request: BucketBlobStore(Bucket(MemoryStore())),
    "cached": lambda path, _request: CachedBlobStore(
        BucketBlobStore(Bucket(MemoryStore())), path / "cache", max_bytes=1 << 30
    ),
    "seaweedfs": lambda _path, request: open_bucket(request.getfixturevalue("bucket_url")),
    "moto": lambda _path, request: open_bucket(request.getfixturevalue("moto_url")),
}

BAD_NAMES = [
    "",
    ".",
    "..",
    "../pack-a",
    "a/b",
    "/etc/passwd",
    "pack-a.tmp",
    "pack\x00a",
    "pack-a\n",
    "-pack",
    "Pack",
    "pack_a",
    "päck",
    "pack-٣",
    "a" * 65,
]

GOOD_NAMES = ["a", "0", "a-", "x--", "pack-abcdefghijklmnop", "a" * 64]


@pytest.fixture(params=STORES)
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return STORES[request.param](tmp_path, request)


def names(blobs: BlobStore) -> dict[str, int]:
    listed = list(blobs.iter_names())
    assert len(listed) == len(dict(listed)), "a name was listed twice"
    return dict(listed)


@pytest.mark.parametrize("data", [b"", b"x", random.Random(7).randbytes(300_000)])
def test_what_was_put_comes_back(blobs: BlobStore, data: bytes) -> None:
    blobs.put("pack-a", data)
    assert blobs.get("pack-a") == data
    assert blobs.size("pack-a") == len(data)
    assert names(blobs) == {"pack-a": len(data)}


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_every_name_of_the_pattern_can_be_used(blobs: BlobStore, name: str) -> None:
    blobs.put(name, b"bytes")
    assert blobs.get(name) == b"bytes"
    assert names(blobs) == {name: 5}
    blobs.delete(name)
    assert names(blobs) == {}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_no_blob_has_any_other_name(blobs: BlobStore, name: str) -> None:
    with pytest.raises(InvalidName):
        blobs.put(name, b"bytes")
    for use in (lambda: blobs.get(name), lambda: blobs.size(name)):
        with pytest.raises(PackMissing):
            use()
    assert blobs.find_short({name: 1}) == {name: 0}
    blobs.delete(name)
    assert names(blobs) == {}


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [
        (0, 10, b"0123456789"),
        (0, 3, b"012"),
        (4, 3, b"456"),
        (7, None, b"789"),
        (7, 3, b"789"),
        (3, 0, b""),
        (10, 0, b""),
        (10, None, b""),
    ],
)
def test_a_range_is_returned_exactly(
    blobs: BlobStore, start: int, length: int | None, expected: bytes
) -> None:
    blobs.put("pack-a", b"0123456789")
    assert blobs.get("pack-a", start=start, length=length) == expected


@pytest.mark.parametrize(
    ("start", "length"), [(0, 11), (5, 6), (10, 1), (11, 0), (11, None), (0, 1 << 62), (1 << 62, 1)]
)
def test_a_blob_that_ends_too_soon_is_damaged(
    blobs: BlobStore, start: int, length: int | None
) -> None:
    blobs.put("pack-a", b"0123456789")
    with pytest.raises(PackDamaged) as caught:
        blobs.get("pack-a", start=start, length=length)
    assert caught.value.pack == "pack-a"


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (-1, None), (0, -1), (3, -1)])
def test_a_range_that_no_blob_could_have_is_refused(
    blobs: BlobStore, start: int, length: int | None
) -> None:
    blobs.put("pack-a", b"0123456789")
    with pytest.raises(InvalidValue):
        blobs.get("pack-a", start=start, length=length)


def test_what_is_not_there_is_missing_by_name(blobs: BlobStore) -> None:
    blobs.put("pack-a", b"bytes")
    for use in (
        lambda: blobs.get("pack-b"),
        lambda: blobs.get("pack-b", start=0, length=0),
        lambda: blobs.size("pack-b"),
    ):
        with pytest.raises(PackMissing) as caught:
            use()
        assert caught.value.pack == "pack-b"


def test_putting_the_same_again_is_done_already(blobs: BlobStore) -> None:
    blobs.put("pack-a", b"bytes")
    blobs.put("pack-a", b"bytes")
    assert blobs.get("pack-a") == b"bytes"
    assert names(blobs) == {"pack-a": 5}


@pytest.mark.parametrize("other", [b"short", b"other bytes!", b""])
def test_other_bytes_are_refused_and_what_was_there_stays(blobs: BlobStore, other: bytes) -> None:
    blobs.put("pack-a", b"first bytes!")
    with pytest.raises(Unavailable, match="other bytes are there"):
        blobs.put("pack-a", other)
    assert blobs.get("pack-a") == b"first bytes!"
    assert names(blobs) == {"pack-a": 12}


def test_deleting_removes_one_blob_and_may_be_repeated(blobs: BlobStore) -> None:
    blobs.put("pack-a", b"one")
    # Names that share a beginning, an end, or a shard: none of them may go too.
    others = {"pack-aa": 3, "pack-ba": 3, "xpack-a": 3}
    for other in others:
        blobs.put(other, b"two")
    blobs.delete("pack-a")
    blobs.delete("pack-a")
    blobs.delete("pack-never")
    with pytest.raises(PackMissing):
        blobs.get("pack-a")
    assert names(blobs) == others


def test_a_deleted_name_can_be_put_again(blobs: BlobStore) -> None:
    blobs.put("pack-a", b"one")
    blobs.delete("pack-a")
    blobs.put("pack-a", b"two")
    assert blobs.get("pack-a") == b"two"


def test_a_store_that_never_held_anything_is_empty(blobs: BlobStore) -> None:
    assert names(blobs) == {}


def test_listing_goes_on_while_blobs_come_and_go(blobs: BlobStore) -> None:
    stay = {f"stay-{number}" for number in range(20)}
    for name in stay:
        blobs.put(name, b"bytes")
    seen: set[str] = set()
    for number, (name, _) in enumerate(blobs.iter_names()):
        seen.add(name)
        blobs.put(f"new-{number}", b"bytes")
        blobs.delete(f"new-{number - 1}")
        assert number < 1000, "the listing chases what is put meanwhile"
    assert stay <= seen


def test_what_is_stored_does_not_change_with_the_buffer_it_came_from(blobs: BlobStore) -> None:
    buffer = bytearray(b"before")
    blobs.put("pack-a", bytes(buffer))
    blobs.put("pack-b", buffer)  # pyright: ignore[reportArgumentType]  # a caller without types
    buffer[:] = b"after!"
    assert blobs.get("pack-a") == blobs.get("pack-b") == b"before"


def test_room_is_a_number_or_has_no_meaning(blobs: BlobStore) -> None:
    free = blobs.free_bytes()
    assert free is None or free > 0


def test_many_threads_each_find_what_they_put(blobs: BlobStore) -> None:
    def put_and_get(number: int) -> bool:
        name, data = f"pack-{number}", random.Random(number).randbytes(5_000)
        blobs.put(name, data)
        return (
            blobs.get(name) == data and blobs.get(name, start=4_000, length=10) == data[4000:4010]
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(put_and_get, range(60)))
    assert names(blobs) == {f"pack-{number}": 5_000 for number in range(60)}


def test_two_that_put_one_name_leave_the_whole_of_one(blobs: BlobStore) -> None:
    contents = [bytes([number]) * (1_000 + number) for number in range(40)]

    def put_and_get(data: bytes) -> bytes:
        with suppress(Unavailable):
            blobs.put("pack-a", data)
        return blobs.get("pack-a")

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(put_and_get, contents)) <= set(contents)
    assert blobs.get("pack-a") in contents
    assert names(blobs) == {"pack-a": blobs.size("pack-a")}


def test_deleting_while_others_read_gives_all_or_missing(blobs: BlobStore) -> None:
    data = random.Random(1).randbytes(200_000)

    def read(_: int) -> bool:
        try:
            return blobs.get("pack-a") == data
        except PackMissing:
            return True

    blobs.put("pack-a", data)
    with ThreadPoolExecutor(4) as pool:
        reads = pool.map(read, range(50))
        blobs.delete("pack-a")
        assert all(reads)


def test_blobs_that_are_missing_or_too_short_are_found(blobs: BlobStore) -> None:
    for number in range(3):
        blobs.put(f"pack-{number}", b"x" * 10)
    expected = {"pack-0": 10, "pack-1": 11, "pack-2": 3, "pack-3": 1}
    for _ in range(2):
        assert blobs.find_short(expected) == {"pack-1": 10, "pack-3": 0}
    blobs.delete("pack-0")
    assert blobs.find_short(expected) == {"pack-0": 0, "pack-1": 10, "pack-3": 0}


def test_many_blobs_that_are_missing_or_too_short_are_found(blobs: BlobStore) -> None:
    for number in range(50):
        blobs.put(f"pack-{number}", b"x" * number)
    expected = {f"pack-{number}": 40 for number in range(60)} | {"../pack-1": 1}
    short = {
        f"pack-{number}": number if number < 40 else 0 for number in (*range(40), *range(50, 60))
    }
    assert blobs.find_short(expected) == short | {"../pack-1": 0}


def test_a_place_says_of_itself_what_was_said_first(blobs: BlobStore) -> None:
    assert blobs.find_mark() is None
    blobs.put_mark(b"one")
    blobs.put_mark(b"two")
    assert blobs.find_mark() == b"one"
    assert names(blobs) == {}
    blobs.remove_mark(b"two")
    assert blobs.find_mark() == b"one"
    blobs.remove_mark(b"one")
    assert blobs.find_mark() is None
    blobs.remove_mark(b"one")
    blobs.put_mark(b"three")
    assert blobs.find_mark() == b"three"


def test_past_a_cache_are_the_same_blobs(blobs: BlobStore) -> None:
    data = random.Random(3).randbytes(3_000_000)
    blobs.put("pack-a", data)
    for start, length in ((1_000_000, 100_000), (2_999_990, 10), (0, 1 << 20)):
        assert blobs.get("pack-a", start=start, length=length) == data[start : start + length]
    assert blobs.uncached().get("pack-a") == data
    blobs.delete("pack-a")
    with pytest.raises(PackMissing):
        blobs.get("pack-a", start=0, length=10)
    blobs.forget("pack-a")
    blobs.forget()
    assert blobs.is_remote == blobs.uncached().is_remote


def test_whoever_says_what_will_be_asked_for_gets_the_same(blobs: BlobStore) -> None:
    data = random.Random(4).randbytes(3_000_000)
    blobs.put("pack-a", data)
    ranges = [("pack-a", start, 1000) for start in range(0, len(data) - 1000, 99_000)]
    blobs.expect([*ranges, *ranges])
    blobs.expect(("pack-a", start, length) for start, length in ((-1, 5), (0, 0), (9 << 20, 7)))
    blobs.expect((name, 0, 10) for name in (*BAD_NAMES, *GOOD_NAMES))
    for name, start, length in ranges:
        assert blobs.get(name, start=start, length=length) == data[start : start + length]
    with pytest.raises(PackMissing):
        blobs.get("a", start=0, length=10)
    with pytest.raises(PackDamaged):
        blobs.get("pack-a", start=9 << 20, length=7)


def test_what_others_have_in_a_bucket_is_not_listed_for_one_of_them() -> None:
    store = MemoryStore()
    blobs = BucketBlobStore(Bucket(store))
    own = {f"pack-own-{number:03}": 2 for number in range(200)}
    theirs = {f"pack-theirs-{number:05}": 2 for number in range(10_000)}
    for name in own | theirs:
        obstore.put(store, key_of(name), b"ok")
    before = TALLIES.read()
    assert blobs.find_short(own | {"pack-own-000": 3, "pack-own-none": 1}) == {
        "pack-own-000": 2,
        "pack-own-none": 0,
    }
    after = TALLIES.read()
    assert after["bucket_list"] - before["bucket_list"] <= 2
    assert after["bucket_head"] - before["bucket_head"] <= 202
    # Who has nearly all of it is answered by the list.
    assert blobs.find_short(theirs) == {}
    assert TALLIES.read()["bucket_head"] == after["bucket_head"]
