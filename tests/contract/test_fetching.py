"""What lies in a bucket is fetched between transactions, on both databases.

Everything that is stored goes to the bucket here, and no cache holds anything when an operation
begins: so whatever it needs, it has to ask for.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import pytest

from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.port import Catalog
from holdfast.engine.backups.folders import FolderPlace
from holdfast.engine.backups.making import back_up
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast
from holdfast.errors import Damaged, PackMissing
from holdfast.fetching import ROOM_BYTES, ROUNDS, Away, anew, can_wait, fetched, write
from holdfast.testing.apart import Watched
from holdfast.testing.clocks import Watch

BLOCK = b"hello" * 1000


class Bucket:
    """A vault whose packs are all in a bucket, and what is asked of that."""

    def __init__(self, catalog: Catalog, folder: Path) -> None:
        self.folder = folder
        self.watched, self.stored, self.clock = Watched(), MemoryBlobStore(), Watch()
        self.context = Context.of(
            self.watched.catalog(catalog),
            self.watched.blobs(self.stored),
            clock=self.clock,
            limits=Limits(inline_bytes=0, free_floor_bytes=0),
        )
        self.vault = Holdfast(self.context)
        self.alice = self.vault.namespace("alice")
        for number in range(12):
            self.alice.files.write(f"data/{number}.bin", os.urandom(3000))
        self.alice.store.set("config", "model", {"name": "x" * 5000})
        self.alice.snapshot("one")

    def cold(self) -> None:
        """Lets go of all that was read, and of what was asked so far."""
        self.context.forget_caches()
        self.watched.forget()


@pytest.fixture
def bucket(catalog: Catalog, tmp_path: Path) -> Bucket:
    return Bucket(catalog, tmp_path)


def talk(alice: Namespace) -> None:
    alice.sessions.add_turn("s", "hello", "yes", state_after={"text": "b" * 9000})


Act = Callable[[Bucket], object]

READS: dict[str, Act] = {
    "read": lambda bucket: bucket.alice.files.read("data/3.bin"),
    "list": lambda bucket: bucket.alice.files.list("data"),
    "glob": lambda bucket: bucket.alice.files.glob("data/*"),
    "stat": lambda bucket: bucket.alice.files.stat("data/3.bin"),
    "get": lambda bucket: bucket.alice.store.get("config", "model"),
    "get many": lambda bucket: bucket.alice.store.get_many(iter([("config", "model")])),
    "keys": lambda bucket: bucket.alice.store.keys("config"),
    "diff": lambda bucket: bucket.alice.diff("@-1", "@"),
    "text diff": lambda bucket: bucket.alice.text_diff("data/1.bin", "@-1", "@"),
    "dry run": lambda bucket: bucket.alice.restore("@-1", dry_run=True),
    "state": lambda bucket: bucket.alice.sessions.get_state("s"),
    "context": lambda bucket: bucket.alice.sessions.get_context("s", query="hello"),
    "session": lambda bucket: bucket.alice.sessions.get("s"),
    "sessions": lambda bucket: bucket.alice.sessions.list(),
    "grep": lambda bucket: bucket.alice.files.grep("hello"),
    "export": lambda bucket: bucket.alice.export(BytesIO()),
    "export of a snapshot": lambda bucket: bucket.alice.export(BytesIO(), snapshot="@-1"),
    "export of files": lambda bucket: bucket.alice.export_files(BytesIO()),
    "verify": lambda bucket: bucket.vault.verify(),
    "backup": lambda bucket: bucket.vault.backup(bucket.folder / "backup"),
    "a second backup": lambda bucket: bucket.vault.backup(bucket.folder / "backup"),
}
WRITES: dict[str, Act] = {
    "write": lambda bucket: bucket.alice.files.write("data/new.bin", os.urandom(900)),
    "write much": lambda bucket: bucket.alice.files.write("large", os.urandom(3_000_000)),
    "write what is there": lambda bucket: bucket.alice.files.write("data/copy.bin", BLOCK),
    "write little that is there": lambda bucket: bucket.alice.store.set("a", "b", "x" * 300),
    "delete": lambda bucket: bucket.alice.files.delete("data/2.bin"),
    "set": lambda bucket: bucket.alice.store.set("config", "other", "y" * 9000),
    "talk": lambda bucket: talk(bucket.alice),
    "snapshot": lambda bucket: bucket.alice.snapshot("three"),
    "restore": lambda bucket: bucket.alice.restore("@-2"),
    "undo": lambda bucket: bucket.alice.undo(),
    "redo": lambda bucket: bucket.alice.redo(),
    "fork": lambda bucket: bucket.alice.fork("bob"),
    "write to the fork": lambda bucket: bucket.vault.namespace("bob").files.write("b", "c" * 900),
    "merge": lambda bucket: bucket.alice.merge("bob"),
    "collect": lambda bucket: bucket.vault.collect(),
    "look after": lambda bucket: bucket.vault.look_after(),
}


def test_no_bucket_is_asked_while_a_transaction_is_open(bucket: Bucket) -> None:
    bucket.alice.files.write("data/1.bin", BLOCK)
    bucket.alice.store.set("a", "a", "x" * 300)
    bucket.alice.sessions.create("agent", session_id="s", initial_state={"text": "a" * 9000})
    bucket.alice.snapshot("two")
    asked, inside = set[str](), dict[str, list[str]]()
    for name, act in (READS | WRITES).items():
        bucket.cold()
        act(bucket)
        inside |= {name: bucket.watched.inside[:]} if bucket.watched.inside else {}
        asked |= {name} if bucket.watched.asked else set()
    assert inside == {}
    assert {*READS, *WRITES} - asked == set()
    assert bucket.vault.verify().faults == []


def test_what_is_lost_or_damaged_in_a_bucket_is_named_with_who_needs_it(bucket: Bucket) -> None:
    names = [name for name, _ in bucket.stored.iter_names()]
    for name in names:
        data = bucket.stored.get(name)
        bucket.stored.delete(name)
        bucket.cold()
        assert name in {each.what for each in bucket.vault.verify().faults}
        bucket.stored.put(name, data[:40] + bytes([data[40] ^ 1]) + data[41:])
        bucket.cold()
        found = bucket.vault.verify()
        assert name in {each.what for each in found.faults}
        assert any(each.snapshots for each in found.faults)
        with pytest.raises(Damaged, match="not backed up"):
            bucket.vault.backup(bucket.folder / "backup")
        bucket.stored.delete(name)
        bucket.stored.put(name, data)
    assert bucket.vault.verify().ok
    assert not (bucket.folder / "backup" / "backup.json").exists()


class FarFolder(FolderPlace):
    """A place for backups that is asked as a bucket is."""

    is_remote = True

    def __init__(self, folder: Path, watched: Watched) -> None:
        super().__init__(folder)
        self._note = watched.note

    def sizes(self) -> dict[str, int]:
        self._note("sizes")
        return super().sizes()

    def read(self, path: str, /) -> Iterator[bytes] | None:
        self._note("read")
        return super().read(path)

    def write(self, path: str, pieces: Iterable[bytes], /, *, size: int) -> None:
        self._note("write")
        super().write(path, pieces, size=size)

    def publish(self, path: str, data: bytes, /, *, over: bytes | None) -> None:
        self._note("publish")
        super().publish(path, data, over=over)


def test_a_backup_is_sent_to_a_bucket_while_no_transaction_is_open(
    catalog: Catalog, tmp_path: Path
) -> None:
    watched = Watched()
    context = Context.of(
        watched.catalog(catalog),
        MemoryBlobStore(),
        limits=Limits(inline_bytes=0, free_floor_bytes=0),
    )
    vault = Holdfast(context)
    for name in ("alice", "bob"):
        vault.tenant(name).namespace("a").files.write("x", os.urandom(3000))
        vault.tenant(name).namespace("a").snapshot("one")
    done = back_up(vault._context, FarFolder(tmp_path / "backup", watched))
    assert done.packs_copied == watched.asked.count("write") > 2
    assert "publish" in watched.asked
    assert watched.inside == []


def test_what_is_large_is_put_once_however_much_has_to_be_fetched(bucket: Bucket) -> None:
    content = os.urandom(3_000_000)
    bucket.cold()
    bucket.alice.files.write("data/large", content)
    assert bucket.watched.asked.count("put") == 1
    assert "get" in bucket.watched.asked
    assert bucket.watched.asked.count("delete") == 0
    assert bucket.alice.files.read("data/large") == content


def test_a_copy_in_a_bucket_is_compared_before_it_is_relied_on(bucket: Bucket) -> None:
    bucket.alice.files.write("data/1.bin", BLOCK)
    names = {name for name, _ in bucket.stored.iter_names()}
    bucket.alice.files.write("data/2.bin", BLOCK)
    assert {name for name, _ in bucket.stored.iter_names()} == names
    for name in names:
        bucket.stored.delete(name)
    bucket.alice.files.write("data/3.bin", BLOCK)
    bucket.context.forget_caches()
    bucket.clock.wait(timedelta(hours=1))
    with pytest.raises(Damaged):
        bucket.alice.files.read("data/0.bin")
    assert len({*dict(bucket.stored.iter_names())} - names) == 1


def test_a_pack_that_stays_lost_is_asked_for_alone(bucket: Bucket) -> None:
    """One that was listed for every write is a list of the whole bucket for each."""
    before = dict(bucket.stored.iter_names())
    for number in range(12):
        bucket.alice.files.write(f"more/{number}", os.urandom(2000))
    # Of contents: what leads to them is looked for where it is needed, once it is lost.
    lost = min(name for name, _ in bucket.stored.iter_names() if name not in before)
    data = bucket.stored.get(lost)
    bucket.stored.delete(lost)
    bucket.clock.wait(timedelta(hours=1))
    bucket.cold()
    for _ in range(3):
        with pytest.raises(PackMissing, match=lost):
            bucket.alice.snapshot("refused")
    # All are looked for once, whatever that takes; then this one, each time, in no transaction.
    assert bucket.watched.asked.count("iter_names") == 0
    assert bucket.watched.asked.count("find_short") <= 4
    assert bucket.watched.inside == []
    bucket.stored.put(lost, data)
    bucket.alice.snapshot("it is back")


def test_a_collection_asks_for_what_leads_to_objects_and_for_no_pack(bucket: Bucket) -> None:
    for number in range(30):
        bucket.alice.files.write(f"more/{number}", os.urandom(2000))
        bucket.alice.snapshot(str(number))
    bucket.vault.collect()
    assert len([*bucket.stored.iter_names()]) > 60
    bucket.cold()
    done = bucket.vault.collect()
    assert (done.objects_deleted, done.packs_deleted, done.damaged) == (0, 0, ())
    assert bucket.watched.asked == ["iter_names"]
    # What dies since then does.
    bucket.alice.files.write("more/0", "short")
    bucket.alice.set_retention(keep_last=1)
    bucket.clock.wait(timedelta(days=40))
    assert bucket.vault.collect().objects_deleted > 20
    assert bucket.vault.verify().faults == []


def test_what_was_used_meanwhile_and_then_given_up_goes_with_the_next_collection(
    bucket: Bucket,
) -> None:
    """Nothing is needed, or there, that was not before: still something is left to die."""
    bucket.vault.collect()
    bucket.alice.files.write("dead.bin", os.urandom(5000))
    bucket.alice.files.delete("dead.bin")
    with bucket.context.catalog.write() as transaction:
        (tenant,) = transaction.iter_tenants()
        (row,) = [
            row
            for row in transaction.page_objects(tenant.id, after=b"", most=99)
            if row.size == 5000
        ]
        # As a writer does that was refused in the end, in the middle of a collection.
        transaction.touch_objects(tenant.id, [row.id], epoch=99)
    assert bucket.vault.collect().objects_deleted == 0
    with bucket.context.catalog.write() as transaction:
        while transaction.advance_epoch(tenant.id) < 99:
            pass
    assert bucket.vault.collect().objects_deleted == 1


def test_a_pack_from_before_it_was_counted_is_counted_once(bucket: Bucket) -> None:
    bucket.vault.collect()
    with bucket.context.catalog.write() as transaction:
        (tenant,) = transaction.iter_tenants()
        packs = transaction.iter_packs(tenant.id)
        assert all(pack.plain_bytes for pack in packs)
        transaction.set_plain_bytes(packs[0].id, 1)  # It cannot be so: more of it lives.
    bucket.alice.files.write("new.bin", os.urandom(900))
    for asked in ({"get", "iter_names"}, {"iter_names"}):
        bucket.watched.forget()
        bucket.vault.collect()
        assert {*bucket.watched.asked} == asked
    with bucket.context.catalog.read() as transaction:
        assert transaction.iter_packs(tenant.id)[:-1] == packs


# Work that is done anew


class Far:
    """Something that has to be fetched, as often as there is something left of it."""

    def __init__(self, left: int = 1, *, is_there: bool = True, size: int = 1) -> None:
        self.left, self.is_there, self.size = left, is_there, size
        self.begun = self.inside = 0

    def read(self) -> str:
        self.begun += 1
        while self.left:
            if can_wait():
                raise Away(self.fetch)
            self.inside += 1
            self.left -= 1
        return "read"

    def fetch(self) -> int:
        self.left -= self.is_there
        return self.size * self.is_there


def test_work_begins_anew_until_all_was_fetched() -> None:
    far = Far(3)
    assert fetched(far.read)() == "read"
    assert (far.begun, far.inside) == (4, 0)
    assert not can_wait()


def test_work_that_needs_too_much_comes_to_an_end() -> None:
    far = Far(ROUNDS + 5)
    assert anew(far.read) == "read"
    assert (far.begun, far.inside) == (ROUNDS + 1, 5)
    far = Far(4, size=ROOM_BYTES // 2)
    assert anew(far.read) == "read"
    assert (far.begun, far.inside) == (3, 2)


def test_what_is_not_there_is_looked_for_where_it_is_needed() -> None:
    far = Far(is_there=False)
    assert anew(far.read) == "read"
    assert (far.begun, far.inside) == (2, 1)


def test_nothing_is_written_twice() -> None:
    """Who has written something goes on; who may write it again does not keep others from that."""
    written, far = list[str](), Far()

    def act() -> str:
        written.append("once")
        write()
        return far.read()

    assert anew(act) == "read"
    assert (written, far.inside) == (["once"], 1)
    far = Far()
    assert anew(act, rewrites=True) == "read"
    assert (written, far.inside) == (["once"] * 3, 0)
    for rewrites in (False, True):
        far = Far()

        def around() -> str:
            anew(write, rewrites=True)
            return far.read()  # noqa: B023 - called at once

        assert anew(around, rewrites=rewrites) == "read"
        assert (far.begun, far.inside) == (1, 1)
