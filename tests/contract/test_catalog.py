"""The catalog's promises, kept by every adapter: the numbers are those of `catalog/port.py`."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from threading import Barrier
from typing import Any

import psycopg
import pytest
from msgspec import structs

from holdfast.behalf import REST
from holdfast.catalog.namespaces import LogPosition
from holdfast.catalog.packs import Located, ObjectRow, pages
from holdfast.catalog.port import Catalog
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.catalog.transaction import Transaction
from holdfast.errors import Busy, Conflict, HoldfastError, InvalidValue, Unavailable
from holdfast.ids import (
    NamespaceId,
    ObjectId,
    PackId,
    PackName,
    SnapshotId,
    TenantId,
    object_id_of,
)
from holdfast.model.basics import (
    EMPTY_ROOT,
    Head,
    Kind,
    Placement,
    Plane,
    Size,
    SnapshotInfo,
    Tenant,
)
from holdfast.testing.faults import PowerCut

NOW = datetime(2025, 3, 1, 12, 30, 15, 123457, tzinfo=UTC)
PROCESS = """
import sys
from pathlib import Path
kind, where = sys.argv[1:]
if kind == "sqlite":
    from holdfast.catalog.sqlite import SqliteCatalog
    catalog = SqliteCatalog(Path(where))
else:
    from holdfast.catalog.postgres import PostgresCatalog
    catalog = PostgresCatalog(where, term_s=1)
def say(line):
    print(line, flush=True)
"""


@dataclass
class Place:
    """Where a catalog lies: any number of openers may open it."""

    kind: str
    where: str
    stack: ExitStack = field(default_factory=ExitStack)

    def open(self) -> Catalog:
        catalog: Catalog
        if self.kind == "sqlite":
            catalog = SqliteCatalog(Path(self.where))
        else:
            catalog = PostgresCatalog(self.where, term_s=1)
        self.stack.callback(catalog.close)
        return catalog

    def start(self, script: str) -> "subprocess.Popen[str]":
        """Starts a process with the catalog open; it ends with the test."""
        process = self.stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", PROCESS + script, self.kind, self.where],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        self.stack.callback(process.kill)
        return process


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    is_sqlite = request.param == "sqlite"
    where = str(tmp_path / "vault") if is_sqlite else request.getfixturevalue("postgres_url")
    found = Place(request.param, where)
    with found.stack:
        yield found


@pytest.fixture
def catalog(place: Place) -> Catalog:
    return place.open()


@pytest.fixture
def tenant(catalog: Catalog) -> TenantId:
    return add_tenant(catalog, "default").id


@pytest.fixture
def namespace(catalog: Catalog, tenant: TenantId) -> NamespaceId:
    return add_namespace(catalog, tenant, "alice").namespace_id


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def add_tenant(catalog: Catalog, name: str) -> Tenant:
    with catalog.write() as transaction:
        return transaction.add_tenant(name, public_id=f"ws-{name}", now=NOW)


def add_namespace(catalog: Catalog, tenant: TenantId, name: str) -> Head:
    with catalog.write() as transaction:
        added = transaction.add_namespace(head_of(tenant, name))
    assert added is not None
    return added


def head_of(tenant: TenantId, name: str) -> Head:
    return Head.of_nothing(tenant, name, now=NOW)


def snapshot_of(namespace: NamespaceId, number: int, name: str = "") -> SnapshotInfo:
    return SnapshotInfo(
        id=SnapshotId(name or f"snap-{number:04}"),
        namespace_id=namespace,
        number=number,
        kind=Kind.SNAPSHOT,
        root=EMPTY_ROOT,
        parent=None,
        created_at=NOW,
        size=Size(1, 2),
    )


def placement_of(data: bytes, *, at: int = 0) -> Placement:
    return Placement(object_id_of(data), at, len(data), 0, len(data))


def get_head(catalog: Catalog, namespace: NamespaceId) -> Head:
    with catalog.write() as transaction:
        head = transaction.lock_head(namespace)
    assert head is not None
    return head


@contextmanager
def dying(catalog: Catalog, death: type[BaseException] = PowerCut) -> Iterator[Transaction]:
    """Gives a transaction that is cut short at the end of the block."""
    with suppress(death), catalog.write() as transaction:
        yield transaction
        raise death


def is_waiting(future: "Future[object]") -> bool:
    try:
        future.result(timeout=0.2)
    except TimeoutError:
        return True
    return False


def eventually(claim: Callable[[], bool]) -> bool:
    """Says whether something becomes true: a server needs a moment to notice a death."""
    deadline = time.monotonic() + 20
    while not claim():
        if time.monotonic() > deadline:
            return False
    return True


# Promise 1: transactions


@pytest.mark.parametrize("death", [ValueError, PowerCut])
def test_a_transaction_that_raises_leaves_nothing(
    catalog: Catalog, tenant: TenantId, death: type[BaseException]
) -> None:
    with dying(catalog, death) as transaction:
        transaction.add_tenant("other", public_id="ws-other", now=NOW)
        transaction.add_namespace(head_of(tenant, "alice"))
    with catalog.read() as transaction:
        assert transaction.find_tenant("other") is None
        assert transaction.iter_heads(tenant) == []


def test_a_transaction_that_returns_is_there_for_every_opener(
    place: Place, tenant: TenantId
) -> None:
    with place.open().read() as transaction:
        assert [found.id for found in transaction.iter_tenants()] == [tenant]


def test_a_failed_statement_undoes_the_transaction_whoever_swallows_the_error(
    catalog: Catalog, namespace: NamespaceId
) -> None:
    def swallow() -> None:
        with catalog.write() as transaction:
            transaction.set_retention(namespace, "before")
            # Raised here, or by whatever waits for the database next.
            with suppress(Conflict):
                transaction.add_snapshot(snapshot_of(NamespaceId(999), 1))
            with suppress(Conflict):
                transaction.set_retention(namespace, "after")

    with pytest.raises(Conflict):
        swallow()
    assert get_head(catalog, namespace).retention is None


def test_an_argument_that_raises_half_way_undoes_the_transaction(
    catalog: Catalog, namespace: NamespaceId
) -> None:
    def changes() -> Iterator[tuple[bytes, bytes]]:
        yield b"key", b"entry"
        raise KeyError

    with pytest.raises(Unavailable), catalog.write() as transaction, pytest.raises(KeyError):
        transaction.put_pending(namespace, Plane.FILES, changes(), sequence=1)
    with catalog.read() as transaction:
        assert transaction.count_pending(namespace) == 0


def test_a_read_transaction_sees_one_moment_while_writers_commit(
    place: Place, catalog: Catalog, tenant: TenantId, threads: ThreadPoolExecutor
) -> None:
    with catalog.read() as transaction:
        before = transaction.iter_heads(tenant)
        threads.submit(add_namespace, catalog, tenant, "alice").result()
        threads.submit(add_namespace, place.open(), tenant, "bob").result()
        assert transaction.iter_heads(tenant) == before == []
    with catalog.read() as transaction:
        assert [head.name for head in transaction.iter_heads(tenant)] == ["alice", "bob"]


def test_a_read_transaction_changes_nothing(catalog: Catalog, tenant: TenantId) -> None:
    with pytest.raises(HoldfastError), catalog.read() as transaction:
        transaction.set_tenant_quota(tenant, 7)
    with catalog.read() as transaction:
        assert transaction.get_tenant_quota(tenant) is None


def test_a_thread_that_rests_does_so_while_it_reads_and_never_while_it_writes(
    catalog: Catalog, tenant: TenantId
) -> None:
    rests = list[str]()
    place = "before"
    token = REST.set(lambda: rests.append(place))
    try:
        with catalog.write() as transaction:
            place = "writing"
            for number in range(100):
                transaction.add_namespace(head_of(tenant, f"{number:02}"))
            assert len(transaction.iter_heads(tenant)) == 100
        assert rests == ["before"]
        with catalog.read() as transaction:
            rests.clear()
            place = "reading"
            assert transaction.find_head(tenant, "07") is not None
            assert rests
            rests.clear()
            heads = transaction.iter_heads(tenant)
    finally:
        REST.reset(token)
    assert [head.name for head in heads] == [f"{number:02}" for number in range(100)]
    assert len(rests) == 4, "before the question, and after 32, 64 and 96 rows"


def test_a_transaction_is_over_when_its_block_ends(catalog: Catalog, tenant: TenantId) -> None:
    with catalog.write() as transaction:
        pass
    for use in (transaction.iter_tenants, lambda: transaction.set_tenant_quota(tenant, 7)):
        with pytest.raises(Unavailable):
            use()


def test_many_threads_read_and_write_at_once(
    catalog: Catalog, tenant: TenantId, threads: ThreadPoolExecutor
) -> None:
    def work(number: int) -> None:
        for turn in range(5):
            add_namespace(catalog, tenant, f"{number}-{turn}")
            with catalog.read() as transaction:
                assert transaction.find_head(tenant, f"{number}-{turn}") is not None

    list(threads.map(work, range(8)))
    with catalog.read() as transaction:
        assert len(transaction.iter_heads(tenant)) == 40


# Promise 2: writers of one namespace take turns


def test_writers_of_one_namespace_take_turns_and_lose_nothing(
    catalog: Catalog, namespace: NamespaceId, threads: ThreadPoolExecutor
) -> None:
    def write(number: int) -> list[int]:
        seen = []
        for turn in range(6):
            with catalog.write() as transaction:
                head = transaction.lock_head(namespace)
                assert head is not None
                sequence = transaction.advance_sequence(namespace, more=Size(1, 10))
                assert sequence == head.sequence + 1
                row = (b"%d-%d" % (number, turn), b"entry")
                transaction.put_pending(namespace, Plane.STORE, [row], sequence=sequence)
                seen.append(sequence)
        return seen

    seen = [each for found in threads.map(write, range(6)) for each in found]
    head = get_head(catalog, namespace)
    assert sorted(seen) == list(range(1, 37))
    assert (head.sequence, head.size) == (36, Size(36, 360))
    with catalog.read() as transaction:
        assert transaction.count_pending(namespace) == 36


def test_who_waited_for_a_head_sees_what_the_other_left(
    catalog: Catalog, namespace: NamespaceId, threads: ThreadPoolExecutor
) -> None:
    with catalog.write() as transaction:
        transaction.lock_head(namespace)
        waiting = threads.submit(get_head, catalog, namespace)
        assert is_waiting(waiting)
        transaction.advance_sequence(namespace, more=Size(2, 3))
    head = waiting.result(timeout=20)
    assert (head.sequence, head.size) == (1, Size(2, 3))


def test_a_lost_transaction_frees_its_head(catalog: Catalog, namespace: NamespaceId) -> None:
    for _ in range(3):
        with dying(catalog) as transaction:
            transaction.lock_head(namespace)
    assert get_head(catalog, namespace).sequence == 0


def test_a_head_that_is_not_there_cannot_be_locked(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        assert transaction.lock_head(NamespaceId(999)) is None


# Promise 3: epochs


def join(catalog: Catalog, tenant: TenantId) -> int:
    with catalog.write() as transaction:
        return transaction.join_epoch(tenant)


def advance(catalog: Catalog, tenant: TenantId) -> int:
    with catalog.write() as transaction:
        return transaction.advance_epoch(tenant)


def test_the_epoch_waits_for_every_writer_that_joined_the_old_one(
    place: Place, catalog: Catalog, tenant: TenantId, threads: ThreadPoolExecutor
) -> None:
    with catalog.write() as transaction:
        old = transaction.join_epoch(tenant)
        advancing = threads.submit(advance, place.open(), tenant)
        assert is_waiting(advancing)
    assert advancing.result(timeout=20) == old + 1


def test_who_waited_to_join_joins_the_new_epoch(
    place: Place, catalog: Catalog, tenant: TenantId, threads: ThreadPoolExecutor
) -> None:
    with catalog.write() as transaction:
        new = transaction.advance_epoch(tenant)
        joining = threads.submit(join, place.open(), tenant)
        assert is_waiting(joining)
    assert joining.result(timeout=20) == new


def test_a_writer_that_died_does_not_hold_the_epoch_back(
    catalog: Catalog, tenant: TenantId
) -> None:
    with dying(catalog) as transaction:
        old = transaction.join_epoch(tenant)
    assert advance(catalog, tenant) == old + 1


def test_an_advance_that_died_did_not_happen(catalog: Catalog, tenant: TenantId) -> None:
    old = join(catalog, tenant)
    with dying(catalog) as transaction:
        transaction.advance_epoch(tenant)
    assert join(catalog, tenant) == old


def test_epochs_are_each_tenants_own(catalog: Catalog, tenant: TenantId) -> None:
    other = add_tenant(catalog, "other").id
    old = join(catalog, other)
    advance(catalog, tenant)
    assert join(catalog, other) == old


# Promise 4: errors


@pytest.mark.parametrize("text", ["a\0b", "half a character \ud800"])
def test_text_that_no_row_can_hold_is_invalid(
    catalog: Catalog, namespace: NamespaceId, text: str
) -> None:
    uses: Sequence[Callable[[Transaction], object]] = [
        lambda t: t.find_tenant(text),
        lambda t: t.find_head(TenantId(1), text),
        lambda t: t.find_snapshot(namespace, SnapshotId(text)),
        lambda t: t.find_snapshots_by_prefix(namespace, text),
        lambda t: t.add_snapshot(structs.replace(snapshot_of(namespace, 1), label=text)),
        lambda t: t.set_retention(namespace, text),
    ]
    for use in uses:
        with pytest.raises(InvalidValue), catalog.write() as transaction:
            use(transaction)


def test_a_value_of_no_known_type_is_invalid(catalog: Catalog, namespace: NamespaceId) -> None:
    unknown: Any = object()
    with pytest.raises(InvalidValue), catalog.write() as transaction:
        transaction.set_retention(namespace, unknown)


def test_a_number_beyond_64_bits_is_invalid(catalog: Catalog, tenant: TenantId) -> None:
    with pytest.raises(InvalidValue), catalog.write() as transaction:
        transaction.set_tenant_quota(tenant, 2**63)
    with catalog.write() as transaction:
        transaction.set_tenant_quota(tenant, 2**63 - 1)
        assert transaction.get_tenant_quota(tenant) == 2**63 - 1


def test_rows_that_contradict_each_other_are_a_conflict(
    catalog: Catalog, namespace: NamespaceId
) -> None:
    with catalog.write() as transaction:
        transaction.add_snapshot(snapshot_of(namespace, 1))
    for wrong in (
        snapshot_of(namespace, 2, "snap-0001"),
        snapshot_of(namespace, 1, "snap-other"),
        snapshot_of(NamespaceId(999), 1, "snap-nobody"),
    ):
        with pytest.raises(Conflict), catalog.write() as transaction:
            transaction.add_snapshot(wrong)


def test_use_after_close_is_unavailable(catalog: Catalog) -> None:
    catalog.close()
    catalog.close()
    uses: Sequence[Callable[[], object]] = [
        lambda: catalog.read().__enter__(),
        lambda: catalog.write().__enter__(),
        lambda: catalog.lock("collect-1").__enter__(),
        lambda: catalog.writer,
        lambda: catalog.is_alive("writer-a"),
        catalog.reclaim,
        catalog.tend_log,
    ]
    for use in uses:
        with pytest.raises(Unavailable):
            use()


# Promise 5: ids


def test_ids_are_never_given_again(catalog: Catalog, tenant: TenantId) -> None:
    namespaces, packs = list[NamespaceId](), list[PackId]()
    for turn in range(3):
        namespace = add_namespace(catalog, tenant, "alice").namespace_id
        with catalog.write() as transaction:
            transaction.delete_namespace(namespace, now=NOW)
            assert transaction.purge_namespace(namespace)
            pack = begin(transaction, tenant, f"pack-{turn}")
            assert transaction.withdraw_pack(pack)
        namespaces.append(namespace)
        packs.append(pack)
    assert len(set(namespaces)) == len(set(packs)) == 3


# Tenants


def test_a_tenant_is_added_once(catalog: Catalog) -> None:
    first = add_tenant(catalog, "täglich ✓")
    with catalog.write() as transaction:
        again = transaction.add_tenant("täglich ✓", public_id="ws-other", now=NOW)
        assert again == first == transaction.find_tenant("täglich ✓")
        assert transaction.find_tenant("Täglich ✓") is None
    assert first == Tenant(first.id, "täglich ✓", "ws-täglich ✓", None)


def test_two_first_users_of_a_tenant_get_the_same(
    place: Place, threads: ThreadPoolExecutor
) -> None:
    catalogs, barrier = [place.open() for _ in range(4)], Barrier(4)

    def add(public_id: str, catalog: Catalog) -> TenantId:
        barrier.wait()
        with catalog.write() as transaction:
            # Each draws an id of its own; the name is what they have in common.
            return transaction.add_tenant("new", public_id=public_id, now=NOW).id

    assert len(set(threads.map(add, ["ws-1", "ws-2", "ws-3", "ws-4"], catalogs))) == 1


def test_a_tenants_quota_is_set_and_lifted(catalog: Catalog, tenant: TenantId) -> None:
    other = add_tenant(catalog, "other").id
    for quota in (0, 5_000_000_000, None):
        with catalog.write() as transaction:
            transaction.set_tenant_quota(tenant, quota)
        with catalog.read() as transaction:
            assert transaction.get_tenant_quota(tenant) == quota
            assert [found.quota_bytes for found in transaction.iter_tenants()] == [quota, None]
            assert transaction.get_tenant_quota(other) is None


# Namespaces


def test_a_namespace_keeps_every_field(catalog: Catalog, tenant: TenantId) -> None:
    origin = add_namespace(catalog, tenant, "origin").namespace_id
    full = structs.replace(
        head_of(tenant, "voll 🗂 'quoted\" %_"),
        generation=3,
        sequence=2**40,
        root=object_id_of(b"root"),
        position=SnapshotId("snap-a"),
        redo=(SnapshotId("snap-b"), SnapshotId("snap-c")),
        size=Size(7, 2**50),
        created_at=datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        quota_bytes=0,
        retention='{"keep_last":3}',
        fork_of=origin,
        fork_root=object_id_of(b"fork"),
    )
    with catalog.write() as transaction:
        added = transaction.add_namespace(full)
        assert added is not None
        assert added == structs.replace(full, namespace_id=added.namespace_id)
    with catalog.read() as transaction:
        assert transaction.find_head(tenant, full.name) == added
        assert added in transaction.iter_heads(tenant)
        assert transaction.find_head(tenant, full.name.upper()) is None
    assert get_head(catalog, added.namespace_id) == added


def test_a_live_name_is_unique_and_free_again_after_deletion(
    catalog: Catalog, tenant: TenantId
) -> None:
    first = add_namespace(catalog, tenant, "alice")
    other = add_tenant(catalog, "other").id
    assert add_namespace(catalog, other, "alice").namespace_id != first.namespace_id
    later = NOW + timedelta(hours=1)
    with catalog.write() as transaction:
        assert transaction.add_namespace(head_of(tenant, "alice")) is None
        assert transaction.delete_namespace(first.namespace_id, now=later)
        assert not transaction.delete_namespace(first.namespace_id, now=NOW)
        assert transaction.find_head(tenant, "alice") is None
        second = transaction.add_namespace(head_of(tenant, "alice"))
    assert second is not None
    with catalog.read() as transaction:
        assert transaction.iter_heads(tenant) == [structs.replace(first, deleted_at=later), second]


def test_two_first_writers_of_a_namespace_find_the_same(
    place: Place, tenant: TenantId, threads: ThreadPoolExecutor
) -> None:
    catalogs, barrier = [place.open() for _ in range(4)], Barrier(4)

    def write(catalog: Catalog) -> NamespaceId:
        barrier.wait()
        with catalog.write() as transaction:
            added = transaction.add_namespace(head_of(tenant, "alice"))
            found = transaction.find_head(tenant, "alice")
            assert found is not None
            assert added in (None, found)
            return found.namespace_id

    assert len(set(threads.map(write, catalogs))) == 1


def test_a_deleted_namespace_is_recovered_unless_its_name_was_taken(
    catalog: Catalog, tenant: TenantId, namespace: NamespaceId
) -> None:
    with catalog.write() as transaction:
        assert not transaction.recover_namespace(namespace, name="alice")
        transaction.delete_namespace(namespace, now=NOW)
        assert transaction.recover_namespace(namespace, name="alice")
    assert get_head(catalog, namespace).deleted_at is None
    with catalog.write() as transaction:
        transaction.delete_namespace(namespace, now=NOW)
        transaction.add_namespace(head_of(tenant, "alice"))
        assert not transaction.recover_namespace(namespace, name="alice")
    assert get_head(catalog, namespace).deleted_at == NOW
    with catalog.write() as transaction:
        assert transaction.recover_namespace(namespace, name="alice again")
    assert get_head(catalog, namespace).name == "alice again"


def test_purging_removes_a_deleted_namespace_and_never_a_live_one(
    catalog: Catalog, tenant: TenantId, namespace: NamespaceId
) -> None:
    other = add_namespace(catalog, tenant, "bob").namespace_id
    with catalog.write() as transaction:
        for number, each in enumerate((namespace, other)):
            transaction.add_snapshot(snapshot_of(each, 1, f"snap-{number}"))
            transaction.put_pending(each, Plane.FILES, [(b"k", b"v")], sequence=1)
            transaction.set_log(each, LogPosition("log-a", 1))
        assert not transaction.purge_namespace(namespace)
        assert transaction.count_pending(namespace) == 1
        assert len(transaction.iter_snapshots(tenant)) == 2
        transaction.delete_namespace(namespace, now=NOW)
        assert transaction.purge_namespace(namespace)
        assert not transaction.purge_namespace(namespace)
    with catalog.read() as transaction:
        assert [head.name for head in transaction.iter_heads(tenant)] == ["bob"]
        assert [found.id for found in transaction.iter_snapshots(tenant)] == ["snap-1"]
        assert transaction.count_pending(namespace) == 0
        assert transaction.count_pending(other) == 1
        assert transaction.find_log(namespace) is None
        assert transaction.find_log(other) == LogPosition("log-a", 1)


def move(transaction: Transaction, head: Head, *, generation: int) -> None:
    transaction.move_head(
        head,
        root=object_id_of(b"%d" % generation),
        generation=generation,
        position=SnapshotId(f"snap-{generation}"),
        redo=[SnapshotId("snap-x"), SnapshotId("snap-y")],
        more=Size(2, -30),
    )


def test_a_head_moves_only_from_where_the_caller_saw_it(
    catalog: Catalog, namespace: NamespaceId
) -> None:
    start = get_head(catalog, namespace)
    with catalog.write() as transaction:
        transaction.advance_sequence(namespace, more=Size(5, 50))
        move(transaction, start, generation=1)
    moved = get_head(catalog, namespace)
    with pytest.raises(Busy), catalog.write() as transaction:
        move(transaction, start, generation=2)
    assert get_head(catalog, namespace) == moved
    assert moved == structs.replace(
        start,
        generation=1,
        sequence=1,
        root=object_id_of(b"1"),
        position=SnapshotId("snap-1"),
        redo=(SnapshotId("snap-x"), SnapshotId("snap-y")),
        size=Size(7, 20),
    )


def test_of_two_who_move_one_head_one_succeeds(
    place: Place, catalog: Catalog, namespace: NamespaceId, threads: ThreadPoolExecutor
) -> None:
    start, barrier = get_head(catalog, namespace), Barrier(4)

    def race(catalog: Catalog) -> bool:
        barrier.wait()
        try:
            with catalog.write() as transaction:
                move(transaction, start, generation=1)
        except Busy:
            return False
        return True

    assert sum(threads.map(race, [place.open() for _ in range(4)])) == 1


def test_a_namespaces_settings_are_changed_one_by_one(
    catalog: Catalog, namespace: NamespaceId
) -> None:
    start = get_head(catalog, namespace)
    with catalog.write() as transaction:
        transaction.set_namespace_quota(namespace, 1000)
        transaction.set_retention(namespace, "{}")
    changed = get_head(catalog, namespace)
    assert changed == structs.replace(start, quota_bytes=1000, retention="{}")
    with catalog.write() as transaction:
        transaction.set_namespace_quota(namespace, None)
        transaction.set_retention(namespace, None)
    assert get_head(catalog, namespace) == structs.replace(
        changed, quota_bytes=None, retention=None
    )


# Pending changes

KEYS = [b"", b"\0", b"\0\0", b"\0\xff", b"/", b"A", b"a", b"a\0", b"a/b", b"a0", b"a\xff", b"b"]
KEYS += ["ä".encode(), b"%", b"'", b"\x80", b"\xff", b"\xff\0", b"\xff\xff", b"k" * 900]


def test_pending_keys_are_any_bytes_in_the_order_of_bytes(
    catalog: Catalog, namespace: NamespaceId
) -> None:
    rows = {key: b"entry of " + key for key in reversed(KEYS)}
    with catalog.write() as transaction:
        transaction.put_pending(namespace, Plane.FILES, rows.items(), sequence=1)
    with catalog.read() as transaction:
        assert transaction.find_pending(namespace, Plane.FILES, KEYS) == rows
        for start, stop in product(KEYS, [*KEYS, None]):
            wanted = [
                (key, rows[key])
                for key in sorted(rows)
                if key >= start and (stop is None or key < stop)
            ]
            found = transaction.range_pending(namespace, Plane.FILES, start=start, stop=stop)
            assert found == wanted
        page = transaction.range_pending(namespace, Plane.FILES, start=b"", stop=None, most=3)
        assert [key for key, _ in page] == sorted(KEYS)[:3]


def test_planes_and_namespaces_do_not_see_each_other(
    catalog: Catalog, tenant: TenantId, namespace: NamespaceId
) -> None:
    other = add_namespace(catalog, tenant, "bob").namespace_id
    places = [(each, plane) for each in (namespace, other) for plane in Plane]
    with catalog.write() as transaction:
        for each, plane in places:
            entry = f"{each} {plane}".encode()
            transaction.put_pending(each, plane, [(b"key", entry)], sequence=1)
    with catalog.read() as transaction:
        for each, plane in places:
            entry = f"{each} {plane}".encode()
            assert transaction.find_pending(each, plane, [b"key", b"no"]) == {b"key": entry}
            found = transaction.range_pending(each, plane, start=b"", stop=None)
            assert found == [(b"key", entry)]
        assert sorted(transaction.all_pending(namespace)) == sorted(
            (plane, b"key", f"{namespace} {plane}".encode()) for plane in Plane
        )


def test_a_later_change_takes_the_place_of_an_earlier_one(
    catalog: Catalog, namespace: NamespaceId
) -> None:
    with catalog.write() as transaction:
        first = [(b"changed", b"1"), (b"gone", b"1"), (b"kept", b"1"), (b"empty", b"")]
        transaction.put_pending(namespace, Plane.STORE, first, sequence=1)
        second = [(b"changed", b"2"), (b"gone", None), (b"never", None)]
        transaction.put_pending(namespace, Plane.STORE, second, sequence=2)
        transaction.put_pending(namespace, Plane.STORE, [], sequence=3)
        assert transaction.count_pending(namespace) == 5
    with catalog.read() as transaction:
        assert dict(transaction.range_pending(namespace, Plane.STORE, start=b"", stop=None)) == {
            b"changed": b"2",
            b"empty": b"",
            b"gone": None,
            b"kept": b"1",
            b"never": None,
        }


def test_what_was_changed_after_the_fold_stays_pending(
    catalog: Catalog, tenant: TenantId, namespace: NamespaceId
) -> None:
    other = add_namespace(catalog, tenant, "bob").namespace_id
    with catalog.write() as transaction:
        for sequence, key in ((1, b"a"), (2, b"b"), (3, b"c"), (4, b"a")):
            transaction.put_pending(namespace, Plane.FILES, [(key, b"v")], sequence=sequence)
        transaction.put_pending(other, Plane.FILES, [(b"a", b"v")], sequence=1)
        transaction.drop_pending(namespace, upto=2)
        assert [key for _, key, _ in sorted(transaction.all_pending(namespace))] == [b"a", b"c"]
        transaction.drop_pending(namespace, upto=4)
        assert transaction.count_pending(namespace) == 0
        assert transaction.count_pending(other) == 1


def test_looking_for_no_keys_finds_none(catalog: Catalog, namespace: NamespaceId) -> None:
    with catalog.read() as transaction:
        assert transaction.find_pending(namespace, Plane.FILES, []) == {}
        assert transaction.all_pending(namespace) == []
        assert transaction.existing(TenantId(1), []) == set()
        assert transaction.locate(TenantId(1), []) == {}


def test_the_place_in_a_log_is_each_namespaces_own_and_the_last_that_was_set(
    catalog: Catalog, tenant: TenantId, namespace: NamespaceId
) -> None:
    other = add_namespace(catalog, tenant, "bob").namespace_id
    with catalog.write() as transaction:
        assert transaction.find_log(namespace) is None
        transaction.set_log(namespace, LogPosition("log-a", 64))
        transaction.set_log(other, LogPosition("log-b", 2**40))
        transaction.set_log(namespace, LogPosition("log-c", 128))
    with catalog.read() as transaction:
        assert transaction.find_log(namespace) == LogPosition("log-c", 128)
        assert transaction.find_log(other) == LogPosition("log-b", 2**40)


def test_the_place_in_a_log_moves_with_the_rows_or_not_at_all(
    catalog: Catalog, namespace: NamespaceId
) -> None:
    with suppress(PowerCut), catalog.write() as transaction:
        transaction.put_pending(namespace, Plane.STORE, [(b"k", b"v")], sequence=1)
        transaction.set_log(namespace, LogPosition("log-a", 64))
        raise PowerCut("here")
    with catalog.read() as transaction:
        assert transaction.count_pending(namespace) == 0
        assert transaction.find_log(namespace) is None


# Snapshots


def test_a_snapshot_keeps_every_field(catalog: Catalog, namespace: NamespaceId) -> None:
    bare = snapshot_of(namespace, 1)
    full = SnapshotInfo(
        id=SnapshotId("snap-full"),
        namespace_id=namespace,
        number=2,
        kind=Kind.RESTORE,
        root=object_id_of(b"root"),
        parent=bare.id,
        created_at=datetime(2025, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        size=Size(12, 2**45),
        target=bare.id,
        label="Übung — 削除の前 🧨 'quoted\" %_\n",
        reason="",
        actor="agent:7",
        task_id="task-1",
        trace_id="trace_1",
        pinned=True,
        expires_at=datetime(1970, 1, 1, tzinfo=UTC) - timedelta(microseconds=1),
        detail={"ü": [1, 2.5, None, True, {"deep": "\0\ud800"}], "big": 2**70},
    )
    with catalog.write() as transaction:
        transaction.add_snapshot(bare)
        transaction.add_snapshot(full)
    with catalog.read() as transaction:
        assert transaction.find_snapshot(namespace, bare.id) == bare
        assert transaction.find_snapshot(namespace, full.id) == full


def test_every_kind_of_snapshot_can_be_stored(catalog: Catalog, namespace: NamespaceId) -> None:
    with catalog.write() as transaction:
        for number, kind in enumerate(Kind, 1):
            snapshot = structs.replace(snapshot_of(namespace, number), kind=kind)
            transaction.add_snapshot(snapshot)
            assert transaction.find_snapshot(namespace, snapshot.id) == snapshot


def test_an_instant_of_another_zone_is_the_same_instant(
    catalog: Catalog, namespace: NamespaceId
) -> None:
    zone = datetime.fromisoformat("2025-03-01T23:00:00.000001+09:00")
    with catalog.write() as transaction:
        transaction.add_snapshot(structs.replace(snapshot_of(namespace, 1), created_at=zone))
        found = transaction.find_snapshot(namespace, SnapshotId("snap-0001"))
    assert found is not None
    assert found.created_at == zone
    assert found.created_at.tzinfo is UTC


def test_a_snapshot_is_found_only_on_its_own_timeline(
    catalog: Catalog, tenant: TenantId, namespace: NamespaceId
) -> None:
    other = add_namespace(catalog, tenant, "bob").namespace_id
    snapshot = snapshot_of(namespace, 1)
    with catalog.write() as transaction:
        transaction.add_snapshot(snapshot)
        assert transaction.find_snapshot(other, snapshot.id) is None
        assert transaction.find_snapshots_by_prefix(other, "snap") == []
        assert transaction.timeline(other, before=None, most=9) == []
        assert not transaction.set_label(other, snapshot.id, "mine")
        assert not transaction.set_pinned(other, snapshot.id, pinned=True, expires_at=None)
        assert not transaction.delete_snapshot(other, snapshot.id, now=NOW)
        assert not transaction.recover_snapshot(other, snapshot.id)
        assert not transaction.purge_snapshot(other, snapshot.id)
        assert transaction.find_snapshot(namespace, snapshot.id) == snapshot


def test_a_timeline_is_read_in_pages_from_the_newest(
    catalog: Catalog, namespace: NamespaceId
) -> None:
    wanted = [snapshot_of(namespace, number) for number in range(1, 12)]
    with catalog.write() as transaction:
        for snapshot in (*wanted[5:], *wanted[:5]):
            transaction.add_snapshot(snapshot)
        transaction.delete_snapshot(namespace, wanted[3].id, now=NOW)
    wanted[3] = structs.replace(wanted[3], deleted_at=NOW)
    found, before = list[SnapshotInfo](), None
    with catalog.read() as transaction:
        while page := transaction.timeline(namespace, before=before, most=4):
            assert len(page) <= 4
            found += page
            before = page[-1].number
        assert found == wanted[::-1]
        assert transaction.timeline(namespace, before=None, most=2**31) == found


def test_all_snapshots_of_a_tenant_are_listed_and_no_others(
    catalog: Catalog, tenant: TenantId
) -> None:
    other = add_tenant(catalog, "other").id
    mine = [add_namespace(catalog, tenant, name).namespace_id for name in ("a", "b")]
    theirs = add_namespace(catalog, other, "a").namespace_id
    with catalog.write() as transaction:
        for number, namespace in product((1, 2), (*mine, theirs)):
            name = f"snap-{namespace}-{number}"
            transaction.add_snapshot(snapshot_of(namespace, number, name))
        transaction.delete_namespace(mine[1], now=NOW)
        found = [(each.namespace_id, each.number) for each in transaction.iter_snapshots(tenant)]
    assert found == [(mine[0], 1), (mine[0], 2), (mine[1], 1), (mine[1], 2)]


def test_a_prefix_is_text_and_never_a_pattern(catalog: Catalog, namespace: NamespaceId) -> None:
    names = ["snap-ab", "snap-abc", "snap-b", "snap-b%", "snap-b_", "snap-b'", "snap-b~"]
    with catalog.write() as transaction:
        for number, name in enumerate(names, 1):
            transaction.add_snapshot(snapshot_of(namespace, number, name))

    def find(prefix: str) -> list[str]:
        with catalog.read() as transaction:
            found = transaction.find_snapshots_by_prefix(namespace, prefix)
            return [snapshot.id for snapshot in found]

    assert find("snap-abc") == ["snap-abc"]
    assert find("snap-a") == ["snap-ab", "snap-abc"]
    assert find("snap-b%") == ["snap-b%"]
    assert find("snap-b_") == ["snap-b_"]
    assert find("snap-b'") == ["snap-b'"]
    assert find("snap-b~") == ["snap-b~"]
    assert len(find("")) == len(find("snap")) == len(find("snap-b")) == 2
    for prefix in ("%", "_", "snap_", "SNAP-A", "snap-b\\", "snap-a\x7f", "\x7f", "snap-ä", "'"):
        assert find(prefix) == []


def test_a_deleted_snapshot_hides_from_prefixes_until_it_is_recovered(
    catalog: Catalog, namespace: NamespaceId
) -> None:
    snapshot = snapshot_of(namespace, 1)
    with catalog.write() as transaction:
        transaction.add_snapshot(snapshot)
        assert transaction.delete_snapshot(namespace, snapshot.id, now=NOW)
        assert not transaction.delete_snapshot(namespace, snapshot.id, now=NOW + timedelta(1))
    with catalog.read() as transaction:
        assert transaction.find_snapshots_by_prefix(namespace, "snap") == []
        deleted = structs.replace(snapshot, deleted_at=NOW)
        assert transaction.find_snapshot(namespace, snapshot.id) == deleted
    with catalog.write() as transaction:
        assert transaction.recover_snapshot(namespace, snapshot.id)
        assert transaction.find_snapshots_by_prefix(namespace, "snap") == [snapshot]
        assert transaction.purge_snapshot(namespace, snapshot.id)
        assert not transaction.purge_snapshot(namespace, snapshot.id)
        assert not transaction.recover_snapshot(namespace, snapshot.id)
        assert transaction.find_snapshot(namespace, snapshot.id) is None


def test_a_snapshot_is_labelled_pinned_and_let_go(catalog: Catalog, namespace: NamespaceId) -> None:
    snapshot, later = snapshot_of(namespace, 1), NOW + timedelta(days=30)
    with catalog.write() as transaction:
        transaction.add_snapshot(structs.replace(snapshot, expires_at=later))
        assert transaction.set_pinned(namespace, snapshot.id, pinned=True, expires_at=None)
        assert transaction.set_label(namespace, snapshot.id, "üben 🧨")
        found = transaction.find_snapshot(namespace, snapshot.id)
        assert found == structs.replace(snapshot, pinned=True, label="üben 🧨")
        assert transaction.set_pinned(namespace, snapshot.id, pinned=False, expires_at=later)
        assert transaction.set_label(namespace, snapshot.id, None)
        found = transaction.find_snapshot(namespace, snapshot.id)
        assert found == structs.replace(snapshot, expires_at=later)


# Packs


def begin(transaction: Transaction, tenant: TenantId, name: str, *, size: int = 100) -> PackId:
    return transaction.begin_pack(
        tenant, PackName(name), writer="writer-a", size_bytes=size, now=NOW
    )


def test_a_pack_is_announced_and_then_complete(catalog: Catalog, tenant: TenantId) -> None:
    with catalog.write() as transaction:
        pack = begin(transaction, tenant, "pack-a")
        (row,) = transaction.iter_packs(tenant)
        assert (row.id, row.name, row.size_bytes) == (pack, "pack-a", 100)
        assert (row.is_stored, row.is_inline, row.writer) == (False, False, "writer-a")
    with catalog.write() as transaction:
        assert transaction.finish_pack(pack)
        (row,) = transaction.iter_packs(tenant)
        assert (row.is_stored, row.is_inline, row.writer) == (True, False, None)
        assert not transaction.finish_pack(pack)
        assert not transaction.withdraw_pack(pack)
        assert transaction.iter_packs(tenant) == [row]


def test_a_pack_that_was_withdrawn_cannot_be_finished(catalog: Catalog, tenant: TenantId) -> None:
    with catalog.write() as transaction:
        pack = begin(transaction, tenant, "pack-a")
    with catalog.write() as transaction:
        assert transaction.withdraw_pack(pack)
        assert not transaction.withdraw_pack(pack)
    with catalog.write() as transaction:
        other = begin(transaction, tenant, "pack-b")
        assert not transaction.finish_pack(pack)
        assert not transaction.withdraw_pack(pack)
        assert [row.id for row in transaction.iter_packs(tenant)] == [other]


def test_finishing_and_withdrawing_at_once_has_one_winner(
    place: Place, catalog: Catalog, tenant: TenantId, threads: ThreadPoolExecutor
) -> None:
    other = place.open()
    for turn in range(5):
        with catalog.write() as transaction:
            pack = begin(transaction, tenant, f"pack-{turn}")
        barrier = Barrier(2)

        def race(catalog: Catalog, act: str, pack: PackId, barrier: Barrier) -> bool:
            barrier.wait()
            with catalog.write() as transaction:
                return getattr(transaction, act)(pack)

        finished = threads.submit(race, catalog, "finish_pack", pack, barrier)
        withdrawn = threads.submit(race, other, "withdraw_pack", pack, barrier)
        assert finished.result(timeout=20) != withdrawn.result(timeout=20)


def test_what_packs_take_follows_whatever_becomes_of_them(
    place: Place, catalog: Catalog, tenant: TenantId
) -> None:
    other = place.open()  # Counts for itself, and both are one sum.
    with catalog.write() as transaction:
        outside = begin(transaction, tenant, "pack-a", size=100)
        doomed = begin(transaction, tenant, "pack-b", size=30)
        transaction.add_inline_pack(tenant, PackName("pack-c"), b"12345", now=NOW)
        assert transaction.stored_bytes(tenant) == 135
    with other.write() as transaction:
        assert transaction.finish_pack(outside)
        assert transaction.withdraw_pack(doomed)
        assert not transaction.withdraw_pack(doomed)
        assert transaction.stored_bytes(tenant) == 105
    with suppress(PowerCut), other.write() as transaction:
        begin(transaction, tenant, "pack-d", size=1000)
        raise PowerCut
    with other.write() as transaction:
        transaction.delete_pack(outside)
        transaction.delete_pack(outside)
        assert transaction.stored_bytes(tenant) == 5
    with other.read() as transaction:
        assert transaction.stored_bytes(tenant) == 5
        assert transaction.stored_bytes(TenantId(tenant + 1)) == 0


def test_what_is_in_the_catalog_is_counted_whatever_becomes_of_it(
    place: Place, catalog: Catalog, tenant: TenantId
) -> None:
    def inside(catalog: Catalog) -> tuple[int, int]:
        with catalog.read() as transaction:
            found = transaction.measure(now=NOW, most=10)
            assert not transaction.has_wrong_pack_sums(tenant)
        return found["inline_packs"], found["inline_bytes"]

    other = place.open()
    with catalog.write() as transaction:
        outside = begin(transaction, tenant, "pack-a", size=100)
        transaction.finish_pack(outside)
        transaction.add_inline_pack(tenant, PackName("pack-b"), b"12345", now=NOW)
    with other.write() as transaction:
        transaction.add_inline_pack(tenant, PackName("pack-c"), b"123", now=NOW)
    assert inside(catalog) == inside(other) == (2, 8)
    with other.write() as transaction:
        transaction.delete_pack(outside)
        transaction.delete_pack(transaction.get_pack_id(PackName("pack-b")))
    assert inside(catalog) == (1, 3)
    with catalog.write() as transaction:
        (facts,) = transaction.iter_pack_facts(tenant)
        transaction.set_pack_facts(structs.replace(facts, is_inline=0))
        assert transaction.has_wrong_pack_sums(tenant)
        transaction.mend_pack_sums(tenant)
    assert inside(other) == (0, 0)


def test_what_packs_take_is_counted_anew_beside_whoever_writes(
    catalog: Catalog, tenant: TenantId
) -> None:
    with catalog.write() as transaction:
        pack = begin(transaction, tenant, "pack-a", size=100)
        transaction.finish_pack(pack)
        (facts,) = transaction.iter_pack_facts(tenant)
        transaction.set_pack_facts(structs.replace(facts, size_bytes=70))
        assert transaction.stored_bytes(tenant) == 100
        transaction.mend_pack_sums(tenant)
        assert transaction.stored_bytes(tenant) == 70
    with catalog.write() as transaction:
        transaction.mend_pack_sums(tenant)
        begin(transaction, tenant, "pack-b", size=1)
        assert transaction.stored_bytes(tenant) == 71


def test_packs_are_listed_by_where_they_are_and_how_far_they_are(
    catalog: Catalog, tenant: TenantId
) -> None:
    with catalog.write() as transaction:
        large = begin(transaction, tenant, "large", size=100)
        small = begin(transaction, tenant, "small", size=10)
        begin(transaction, tenant, "unfinished", size=1)
        for pack in (large, small):
            transaction.finish_pack(pack)
        data, name = b"12345", PackName("inline")
        transaction.add_inline_pack(tenant, name, data, plain_bytes=9, now=NOW)
        transaction.set_plain_bytes(small, 70)
        assert transaction.outside_packs(tenant) == {"large": 100, "small": 10}
        assert [row.name for row in transaction.unfinished_packs(tenant)] == ["unfinished"]
        found = transaction.small_packs(tenant, below=100, most=9)
        assert [(row.name, row.plain_bytes) for row in found] == [("inline", 9), ("small", 70)]
        (only,) = transaction.small_packs(tenant, below=100, most=1)
        assert only.name == "inline"


def test_what_is_asked_ahead_is_answered_as_if_it_were_asked_later(
    catalog: Catalog, tenant: TenantId
) -> None:
    with catalog.write() as transaction:
        put_objects(transaction, tenant, b"a", epoch=1)
        here, away = object_id_of(b"a"), object_id_of(b"b")
        transaction.ahead(Transaction.stamps_of, tenant, [here, away])
        transaction.ahead(Transaction.join_tenant, tenant)
        transaction.ahead(Transaction.find_tenant, "nobody")
        transaction.ahead(Transaction.iter_packs, tenant)
        assert transaction.stamps_of(tenant, [away]) == {}
        assert transaction.stamps_of(tenant, [here, away]) == {here: 1}
        assert transaction.find_tenant("nobody") is None
        assert transaction.join_tenant(tenant) == (1, None)
        # An answer is taken once: who asks again sees what was done since.
        transaction.set_tenant_quota(tenant, 7)
        assert transaction.join_tenant(tenant) == (1, 7)
        assert [pack.is_inline for pack in transaction.iter_packs(tenant)] == [True]


def test_an_inline_pack_is_complete_with_its_bytes(catalog: Catalog, tenant: TenantId) -> None:
    data = bytes(range(256)) * 300
    with catalog.write() as transaction:
        transaction.add_inline_pack(tenant, PackName("pack-a"), data, now=NOW)
        pack = transaction.get_pack_id(PackName("pack-a"))
        blob = begin(transaction, tenant, "pack-b")
    with catalog.read() as transaction:
        row = transaction.iter_packs(tenant)[0]
        assert (row.is_stored, row.is_inline, row.size_bytes) == (True, True, len(data))
        assert transaction.get_pack_data(pack) == data
        assert transaction.get_pack_data(blob) is None
        assert transaction.pack_names() == {"pack-b"}
    with catalog.write() as transaction:
        assert not transaction.withdraw_pack(pack)
        transaction.delete_pack(pack)
        transaction.delete_pack(blob)
        assert transaction.iter_packs(tenant) == []
        assert transaction.get_pack_data(pack) is None


def test_stored_bytes_are_summed_per_tenant(catalog: Catalog, tenant: TenantId) -> None:
    other = add_tenant(catalog, "other").id
    with catalog.write() as transaction:
        assert transaction.stored_bytes(tenant) == 0
        begin(transaction, tenant, "pack-a", size=2**40)
        transaction.add_inline_pack(tenant, PackName("pack-b"), b"12345", now=NOW)
        begin(transaction, other, "pack-c", size=7)
        assert transaction.stored_bytes(tenant) == 2**40 + 5
        assert transaction.pack_names() == {"pack-a", "pack-c"}
        assert [row.name for row in transaction.iter_packs(other)] == ["pack-c"]


# Objects


def test_locating_an_object_returns_the_block_of_an_inline_pack(
    catalog: Catalog, tenant: TenantId
) -> None:
    blocks = [b"\0first\xff", b"second", b"\xffthird\0"]
    placements = [placement_of(b, at=len(b"".join(blocks[:i]))) for i, b in enumerate(blocks)]
    with catalog.write() as transaction:
        data = b"".join(blocks) + b"index"
        transaction.add_inline_pack(tenant, PackName("pack-a"), data, now=NOW)
        transaction.add_objects(tenant, PackName("pack-a"), placements, epoch=1)
        inline = transaction.get_pack_id(PackName("pack-a"))
        stored = begin(transaction, tenant, "pack-b")
        far = Placement(object_id_of(b"far"), 2**31 - 2, 9, 3, 4)
        transaction.add_objects(tenant, stored, [far], epoch=1)
    ids = [placement.object_id for placement in (*placements, far)]
    with catalog.read() as transaction:
        found = transaction.locate(tenant, [*ids, object_id_of(b"nobody"), ids[0]])
    assert found == {
        **{
            place.object_id: Located(place, inline, PackName("pack-a"), block)
            for place, block in zip(placements, blocks, strict=True)
        },
        far.object_id: Located(far, stored, PackName("pack-b"), None),
    }


def add_objects(catalog: Catalog, tenant: TenantId, *contents: bytes, epoch: int) -> PackId:
    with catalog.write() as transaction:
        return put_objects(transaction, tenant, *contents, epoch=epoch)


def put_objects(transaction: Transaction, tenant: TenantId, *contents: bytes, epoch: int) -> PackId:
    name = PackName(f"pack-{object_id_of(b''.join(contents)).hex()[:16]}-{tenant}")
    transaction.add_inline_pack(tenant, name, b"".join(contents), now=NOW)
    placements = [placement_of(data) for data in contents]
    transaction.add_objects(tenant, name, placements, epoch=epoch)
    return transaction.get_pack_id(name)


def objects_of(catalog: Catalog, tenant: TenantId) -> dict[ObjectId, ObjectRow]:
    with catalog.read() as transaction:
        rows = [row for page in pages(transaction, tenant) for row in page]
    assert [row.id for row in rows] == sorted(row.id for row in rows)
    return {row.id: row for row in rows}


def test_adding_an_object_again_stamps_it_and_moves_nothing(
    catalog: Catalog, tenant: TenantId
) -> None:
    first = add_objects(catalog, tenant, b"a", b"b", epoch=1)
    second = add_objects(catalog, tenant, b"b", b"c", epoch=2)
    add_objects(catalog, tenant, b"a", b"b", b"c", b"late", epoch=1)
    found = objects_of(catalog, tenant)
    rows = {data: found[object_id_of(data)] for data in (b"a", b"b", b"c")}
    assert {data: (row.pack_id, row.touched) for data, row in rows.items()} == {
        b"a": (first, 1),
        b"b": (first, 2),
        b"c": (second, 2),
    }


def test_touching_says_how_many_are_left(catalog: Catalog, tenant: TenantId) -> None:
    add_objects(catalog, tenant, b"a", b"b", b"c", epoch=1)
    ids = [object_id_of(data) for data in (b"a", b"b", b"gone")]
    with catalog.write() as transaction:
        assert transaction.touch_objects(tenant, ids, epoch=2) == 2
        assert transaction.touch_objects(tenant, ids, epoch=2) == 2
        assert transaction.touch_objects(tenant, [ids[0], ids[0]], epoch=1) == 1
        assert transaction.touch_objects(tenant, [], epoch=2) == 0
    stamps = [
        objects_of(catalog, tenant)[object_id_of(data)].touched for data in (b"a", b"b", b"c")
    ]
    assert stamps == [2, 2, 1]


def test_deleting_spares_what_is_stamped_with_the_epoch(catalog: Catalog, tenant: TenantId) -> None:
    add_objects(catalog, tenant, b"old", b"touched", b"not asked", epoch=1)
    add_objects(catalog, tenant, b"new", epoch=2)
    touched = object_id_of(b"touched")
    ids = [object_id_of(data) for data in (b"old", b"touched", b"new", b"gone")]
    with catalog.write() as transaction:
        transaction.touch_objects(tenant, [touched], epoch=2)
        assert transaction.delete_objects(tenant, ids, before=2) == 1
        assert transaction.delete_objects(tenant, ids, before=2) == 0
        assert transaction.existing(tenant, ids) == {touched, object_id_of(b"new")}
    assert len(objects_of(catalog, tenant)) == 3


def test_counts_are_right_for_batches_of_any_size(catalog: Catalog, tenant: TenantId) -> None:
    contents = [b"%d" % number for number in range(10_001)]
    pack = add_objects(catalog, tenant, *contents, epoch=1)
    ids = [object_id_of(data) for data in contents]
    assert len(objects_of(catalog, tenant)) == 10_001
    with catalog.write() as transaction:
        assert transaction.existing(tenant, ids) == set(ids)
        assert transaction.touch_objects(tenant, ids, epoch=2) == 10_001
        assert transaction.delete_objects(tenant, ids, before=2) == 0
        assert transaction.delete_objects(tenant, ids, before=3) == 10_001
        assert transaction.existing(tenant, ids) == set()
        transaction.delete_pack(pack)


def test_tenants_never_see_each_others_objects(catalog: Catalog, tenant: TenantId) -> None:
    other = add_tenant(catalog, "other").id
    mine = add_objects(catalog, tenant, b"shared", b"mine", epoch=1)
    theirs = add_objects(catalog, other, b"shared", epoch=1)
    ids = [object_id_of(b"shared"), object_id_of(b"mine")]
    with catalog.write() as transaction:
        assert transaction.existing(other, ids) == {ids[0]}
        assert transaction.locate(other, ids)[ids[0]].pack_id == theirs
        assert transaction.locate(tenant, ids)[ids[0]].pack_id == mine
        assert transaction.touch_objects(other, ids, epoch=5) == 1
        assert transaction.delete_objects(other, ids, before=9) == 1
        assert transaction.existing(tenant, ids) == set(ids)
    assert [row.touched for row in objects_of(catalog, tenant).values()] == [1, 1]
    assert objects_of(catalog, other) == {}


def test_objects_move_only_out_of_the_pack_they_are_in(catalog: Catalog, tenant: TenantId) -> None:
    source = add_objects(catalog, tenant, b"a", b"b", epoch=1)
    elsewhere = add_objects(catalog, tenant, b"c", epoch=1)
    moved = [placement_of(data, at=50) for data in (b"a", b"b", b"c", b"gone")]
    with catalog.write() as transaction:
        target = begin(transaction, tenant, "pack-target")
        transaction.finish_pack(target)
        transaction.delete_objects(tenant, [object_id_of(b"b")], before=2)
        transaction.move_objects(tenant, moved, source=source, target=target)
        found = transaction.locate(tenant, [placement.object_id for placement in moved])
    assert {i: (each.pack_id, each.placement.block_offset) for i, each in found.items()} == {
        object_id_of(b"a"): (target, 50),
        object_id_of(b"c"): (elsewhere, 0),
    }


def test_relocating_names_objects_wherever_they_were(catalog: Catalog, tenant: TenantId) -> None:
    add_objects(catalog, tenant, b"a", epoch=4)
    with catalog.write() as transaction:
        target = begin(transaction, tenant, "pack-target")
        placements = [placement_of(data, at=50) for data in (b"a", b"lost")]
        transaction.relocate_objects(tenant, target, placements, epoch=3)
        transaction.relocate_objects(tenant, target, placements[1:], epoch=5)
        found = transaction.locate(tenant, [placement.object_id for placement in placements])
    assert [located.placement for located in found.values()] == placements
    assert {located.pack_id for located in found.values()} == {target}
    assert objects_of(catalog, tenant)[object_id_of(b"a")].touched == 4
    assert objects_of(catalog, tenant)[object_id_of(b"lost")].touched == 5


# Who is alive, and locks


def pass_five_minutes(place: Place, writer: str) -> None:
    """Makes it long ago that a writer was heard of, where others know it by that alone."""
    if place.kind == "postgres":
        query = "UPDATE holdfast.writers SET seen_at = seen_at - 300000000 WHERE name = %s"
        with psycopg.connect(place.where) as connection:
            connection.execute(query, (writer,))


def writers_in(place: Place) -> set[str]:
    if place.kind == "sqlite":
        return set()
    with psycopg.connect(place.where) as connection:
        return {row[0] for row in connection.execute("SELECT name FROM holdfast.writers")}


def test_a_writer_is_alive_until_it_closes(place: Place, catalog: Catalog) -> None:
    other = place.open()
    name = catalog.writer
    assert name == catalog.writer != other.writer
    assert catalog.is_alive(name)
    assert other.is_alive(name)
    catalog.close()
    assert eventually(lambda: not other.is_alive(name))
    assert other.is_alive(other.writer)


def test_nobody_is_not_alive(catalog: Catalog) -> None:
    assert not catalog.is_alive("writer-aaaaaaaaaaaaaaaa")


def test_a_killed_writer_is_dead_and_leaves_nothing_behind(place: Place, catalog: Catalog) -> None:
    process = place.start("say(catalog.writer); input()")
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    assert catalog.is_alive(name)
    process.kill()
    process.wait()
    pass_five_minutes(place, name)
    assert eventually(lambda: not catalog.is_alive(name))
    assert [path.name for path in Path(place.where).rglob(name)] == []


def test_reclaiming_clears_up_after_killed_writers_and_nobody_else(
    place: Place, catalog: Catalog
) -> None:
    processes = [place.start("say(catalog.writer); input()") for _ in range(3)]
    names = [process.stdout.readline().strip() for process in processes if process.stdout]
    killed, living = processes[:2], names[2]
    for process, name in zip(killed, names, strict=False):
        process.kill()
        process.wait()
        pass_five_minutes(place, name)
    mine = catalog.writer
    catalog.reclaim()
    assert writers_in(place) <= {living, mine}
    left = {path.name for path in Path(place.where).rglob("writer-*")}
    assert left <= {living, mine}
    assert catalog.is_alive(living)
    assert catalog.is_alive(mine)
    processes[2].kill()
    processes[2].wait()


def test_a_lock_excludes_other_threads_and_openers(
    place: Place, catalog: Catalog, threads: ThreadPoolExecutor
) -> None:
    def is_busy(catalog: Catalog, name: str) -> bool:
        try:
            with catalog.lock(name):
                return False
        except Busy:
            return True

    other = place.open()
    with catalog.lock("collect-1"):
        assert is_busy(catalog, "collect-1")
        assert is_busy(other, "collect-1")
        assert threads.submit(is_busy, catalog, "collect-1").result()
        assert not is_busy(other, "collect-2")
    assert not is_busy(other, "collect-1")
    with pytest.raises(PowerCut), catalog.lock("collect-1"):
        raise PowerCut
    assert not is_busy(other, "collect-1")


def test_a_lock_excludes_other_processes_and_ends_with_its_holder(
    place: Place, catalog: Catalog
) -> None:
    process = place.start("with catalog.lock('collect-1'): say('held'); input()")
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(Busy, match="collect-1"), catalog.lock("collect-1"):
        pass

    def is_free() -> bool:
        try:
            with catalog.lock("collect-1"):
                return True
        except Busy:
            return False

    process.kill()
    process.wait()
    assert eventually(is_free)


def test_a_killed_process_leaves_its_transaction_undone_and_nobody_waiting(
    place: Place, catalog: Catalog, tenant: TenantId, namespace: NamespaceId
) -> None:
    process = place.start(
        f"""
from holdfast.model.basics import Size
with catalog.write() as transaction:
    transaction.lock_head({namespace})
    transaction.join_epoch({tenant})
    transaction.advance_sequence({namespace}, more=Size(1, 1))
    say('written')
    input()
"""
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    process.kill()
    process.wait()
    assert get_head(catalog, namespace).sequence == 0
    assert advance(catalog, tenant) == 2


# Room


def test_free_bytes_are_known_where_the_disk_is_ours(place: Place, catalog: Catalog) -> None:
    free = catalog.free_bytes()
    assert (free is None) if place.kind == "postgres" else (free is not None and free > 0)


def test_reclaiming_loses_nothing_and_lets_readers_read(
    catalog: Catalog, tenant: TenantId, threads: ThreadPoolExecutor
) -> None:
    with catalog.write() as transaction:
        for name, data in (("big", bytes(1 << 20)), ("small", b"small")):
            transaction.add_inline_pack(tenant, PackName(name), data, now=NOW)
        big, small = (transaction.get_pack_id(PackName(name)) for name in ("big", "small"))

    def delete_and_reclaim() -> None:
        with catalog.write() as transaction:
            transaction.delete_pack(big)
        catalog.reclaim()

    with catalog.read() as transaction:
        assert transaction.get_pack_data(big) is not None
        threads.submit(delete_and_reclaim).result(timeout=20)
        assert transaction.get_pack_data(big) == bytes(1 << 20)
    catalog.reclaim()
    with catalog.read() as transaction:
        assert transaction.get_pack_data(small) == b"small"
        assert transaction.get_pack_data(big) is None


def test_the_log_is_tended_beside_whoever_writes_or_reads(
    catalog: Catalog, tenant: TenantId, threads: ThreadPoolExecutor
) -> None:
    catalog.tend_log()
    with catalog.write() as transaction:
        transaction.add_inline_pack(tenant, PackName("early"), b"early", now=NOW)
        threads.submit(catalog.tend_log).result(timeout=20)
    with catalog.read() as transaction:
        early = transaction.get_pack_id(PackName("early"))
        threads.submit(catalog.tend_log).result(timeout=20)
        assert transaction.get_pack_data(early) == b"early"


# What only one of them promises


def _fill(catalog: Catalog, tenant: TenantId, name: str, *, megabytes: int) -> None:
    with catalog.write() as transaction:
        transaction.add_inline_pack(tenant, PackName(name), os.urandom(megabytes << 20), now=NOW)


def test_a_log_that_is_tended_is_not_copied_by_whoever_commits(tmp_path: Path) -> None:
    with closing(SqliteCatalog(tmp_path)) as catalog:
        tenant = add_tenant(catalog, "default").id
        catalog.tend_log()
        before = (tmp_path / "catalog.sqlite").stat().st_size
        _fill(catalog, tenant, "long", megabytes=6)
        assert (tmp_path / "catalog.sqlite").stat().st_size == before
        catalog.tend_log()
        assert (tmp_path / "catalog.sqlite").stat().st_size > before + (6 << 20)


def test_a_log_that_is_tended_begins_anew_while_somebody_writes(tmp_path: Path) -> None:
    with closing(SqliteCatalog(tmp_path)) as catalog:
        tenant = add_tenant(catalog, "default").id
        for number in range(8):
            _fill(catalog, tenant, f"{number}", megabytes=5)
            catalog.tend_log()
        assert (tmp_path / "catalog.sqlite-wal").stat().st_size < 8 << 20


def test_a_catalog_is_scrubbed_whoever_tends_its_log(
    tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    with closing(SqliteCatalog(tmp_path)) as catalog:
        tenant = add_tenant(catalog, "default").id
        _fill(catalog, tenant, "some", megabytes=8)
        ended = threading.Event()

        def tend() -> None:
            while not ended.is_set():
                catalog.tend_log()

        tending = [threads.submit(tend) for _ in range(3)]
        try:
            for _ in range(10):
                catalog.scrub()
        finally:
            ended.set()
        for each in tending:
            each.result(timeout=20)


def test_a_log_that_nobody_tends_any_more_has_an_end(tmp_path: Path) -> None:
    with closing(SqliteCatalog(tmp_path)) as catalog:
        tenant = add_tenant(catalog, "default").id
        catalog.tend_log()
        before = (tmp_path / "catalog.sqlite").stat().st_size
        for number in range(7):
            _fill(catalog, tenant, f"{number}", megabytes=10)
        assert (tmp_path / "catalog.sqlite").stat().st_size > before + (60 << 20)


def test_a_catalog_on_our_disk_becomes_smaller(tmp_path: Path) -> None:
    with closing(SqliteCatalog(tmp_path)) as catalog:
        tenant = add_tenant(catalog, "default").id
        with catalog.write() as transaction:
            names = [PackName(f"{number}") for number in range(100)]
            for name in names:
                transaction.add_inline_pack(tenant, name, os.urandom(99_999), now=NOW)
            packs = [transaction.get_pack_id(name) for name in names]
        catalog.reclaim()
        full = (tmp_path / "catalog.sqlite").stat().st_size
        with catalog.write() as transaction:
            for pack in packs[:90]:
                transaction.delete_pack(pack)
        catalog.reclaim()
        assert (tmp_path / "catalog.sqlite").stat().st_size < full * 0.15
        assert (tmp_path / "catalog.sqlite-wal").stat().st_size == 0


def test_where_nothing_is_to_be_reclaimed_no_writer_is_waited_for(
    tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    with closing(SqliteCatalog(tmp_path)) as catalog:
        tenant = add_tenant(catalog, "default").id
        with catalog.write() as transaction:
            transaction.add_inline_pack(tenant, PackName("kept"), bytes(99_999), now=NOW)
        catalog.reclaim()
        with catalog.write():
            threads.submit(catalog.reclaim).result(timeout=10)


def test_a_lock_on_one_head_leaves_other_namespaces_alone(
    postgres_url: str, threads: ThreadPoolExecutor
) -> None:
    with closing(PostgresCatalog(postgres_url)) as catalog:
        tenant = add_tenant(catalog, "default").id
        first = add_namespace(catalog, tenant, "alice").namespace_id
        second = add_namespace(catalog, tenant, "bob").namespace_id
        with catalog.write() as transaction:
            transaction.lock_head(first)
            transaction.join_epoch(tenant)
            assert threads.submit(get_head, catalog, second).result(timeout=20)
            assert threads.submit(join, catalog, tenant).result(timeout=20) == 1
