"""What the store plane asks of a catalog, kept by every adapter."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from holdfast.catalog.port import Catalog
from holdfast.ids import NamespaceId, TenantId
from holdfast.model.basics import EMPTY_ROOT, Head, Plane, Size

NOW = datetime(2025, 3, 1, 12, 30, tzinfo=UTC)


@pytest.fixture
def tenant(catalog: Catalog) -> TenantId:
    with catalog.write() as transaction:
        return transaction.add_tenant("default", public_id="ws-1", now=NOW).id


@pytest.fixture
def head(catalog: Catalog, tenant: TenantId) -> Head:
    new = Head(NamespaceId(0), tenant, "alice", 0, 0, EMPTY_ROOT, None, (), Size(), NOW)
    with catalog.write() as transaction:
        transaction.add_namespace(structs.replace(new, name="bob"))
        added = transaction.add_namespace(new)
    assert added is not None
    return added


def put(catalog: Catalog, head: Head, rows: dict[bytes, bytes | None], sequence: int = 1) -> None:
    with catalog.write() as transaction:
        transaction.put_pending(head.namespace_id, Plane.STORE, rows.items(), sequence=sequence)


def test_a_head_is_locked_by_its_name_while_it_lives(catalog: Catalog, head: Head) -> None:
    with catalog.write() as transaction:
        assert transaction.lock_live_head(head.tenant_id, "alice") == head
        assert transaction.lock_live_head(head.tenant_id, "carol") is None
        assert transaction.lock_live_head(TenantId(head.tenant_id + 1), "alice") is None
        transaction.delete_namespace(head.namespace_id, now=NOW)
        assert transaction.lock_live_head(head.tenant_id, "alice") is None


def test_a_key_is_found_together_with_its_head(catalog: Catalog, head: Head) -> None:
    put(catalog, head, {b"there": b"entry", b"gone": None})
    with catalog.read() as transaction:

        def find(key: bytes, plane: Plane = Plane.STORE) -> object:
            return transaction.find_at_head(head.tenant_id, "alice", plane, key)

        base = (head.namespace_id, EMPTY_ROOT, 0)
        assert find(b"there") == (base, (b"there", b"entry"))
        assert find(b"gone") == (base, (b"gone", None))
        assert find(b"other") == find(b"there", Plane.FILES) == (base, None)
        bob = transaction.find_at_head(head.tenant_id, "bob", Plane.STORE, b"there")
        assert bob is not None
        assert (bob[0][1:], bob[1]) == ((EMPTY_ROOT, 0), None)
        assert transaction.find_at_head(head.tenant_id, "carol", Plane.STORE, b"there") is None


def test_nothing_is_found_at_the_head_of_a_deleted_namespace(catalog: Catalog, head: Head) -> None:
    put(catalog, head, {b"there": b"entry"})
    with catalog.write() as transaction:
        transaction.delete_namespace(head.namespace_id, now=NOW)
        assert transaction.find_at_head(head.tenant_id, "alice", Plane.STORE, b"there") is None


def test_the_last_rows_come_from_the_greatest_key_down(catalog: Catalog, head: Head) -> None:
    put(catalog, head, {b"a": b"1", b"b": None, b"c": b"3", b"d\xff": b"4"})
    with catalog.read() as transaction:

        def last(start: bytes, stop: bytes, most: int) -> list[bytes]:
            rows = transaction.last_pending(
                head.namespace_id, Plane.STORE, start=start, stop=stop, most=most
            )
            return [key for key, _ in rows]

        assert last(b"", b"\xff", 10) == [b"d\xff", b"c", b"b", b"a"]
        assert last(b"b", b"c", 10) == [b"b"]
        assert last(b"", b"d\xff", 2) == [b"c", b"b"]
        assert last(b"e", b"\xff", 2) == []


@pytest.mark.parametrize("count", [0, 1, 4, 9, 10, 11, 64, 99, 100, 101, 256, 345])
def test_any_number_of_rows_is_put_found_and_replaced(
    catalog: Catalog, head: Head, count: int
) -> None:
    rows: dict[bytes, bytes | None] = {
        f"{number}".encode(): None if number % 7 == 3 else b"entry" for number in range(count)
    }
    put(catalog, head, {b"kept": b"as it was"})
    put(catalog, head, rows, sequence=2)
    replaced = dict.fromkeys(list(rows)[::2], b"another")
    put(catalog, head, replaced, sequence=3)
    keys = [*rows, b"missing", b"kept"]
    with catalog.read() as transaction:
        found = transaction.find_pending(head.namespace_id, Plane.STORE, keys)
        some = transaction.find_pending(head.namespace_id, Plane.STORE, list(rows)[1::2])
    assert found == {**rows, **replaced, b"kept": b"as it was"}
    assert some == {key: rows[key] for key in list(rows)[1::2]}
    with catalog.write() as transaction:
        transaction.drop_pending(head.namespace_id, upto=2)
        left = transaction.find_pending(head.namespace_id, Plane.STORE, keys)
    assert left == replaced
