"""What a catalog says about objects that were sent ahead: the same on both databases."""

from datetime import UTC, datetime, timedelta

from holdfast.catalog.port import Catalog
from holdfast.catalog.transaction import Transaction
from holdfast.ids import NamespaceId, PackName, TenantId, object_id_of
from holdfast.model.basics import Head, Placement

NOW = datetime(2025, 3, 1, tzinfo=UTC)
A, B, C = (object_id_of(name) for name in (b"a", b"b", b"c"))


def add_tenant(transaction: Transaction, name: str) -> TenantId:
    return transaction.add_tenant(name, public_id=f"ws-{name}", now=NOW).id


def add_namespace(transaction: Transaction, tenant_id: TenantId, name: str) -> NamespaceId:
    head = Head.of_nothing(tenant_id, name, now=NOW)
    added = transaction.add_namespace(head)
    assert added is not None
    return added.namespace_id


def test_what_was_received_belongs_to_its_namespace(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        ours = add_tenant(transaction, "ours")
        theirs = add_namespace(transaction, add_tenant(transaction, "theirs"), "x")
        first = add_namespace(transaction, ours, "first")
        second = add_namespace(transaction, ours, "second")
        transaction.add_received(first, [A, B], now=NOW)
        transaction.add_received(second, [B], now=NOW)
        transaction.add_received(theirs, [C], now=NOW)
    with catalog.read() as transaction:
        assert transaction.find_received(first, [A, B, C]) == {A, B}
        assert transaction.find_received(second, [A, B, C]) == {B}
        assert transaction.find_received(first, []) == set()
        assert transaction.iter_received(ours) == {A, B}


def test_what_was_received_goes_when_it_is_named_when_it_is_old_and_with_its_namespace(
    catalog: Catalog,
) -> None:
    later = NOW + timedelta(hours=1)
    with catalog.write() as transaction:
        ours = add_tenant(transaction, "ours")
        first = add_namespace(transaction, ours, "first")
        second = add_namespace(transaction, ours, "second")
        transaction.add_received(first, [A, B, C], now=NOW)
        transaction.add_received(second, [A], now=NOW)
        transaction.drop_received(first, [A])
        assert transaction.iter_received(ours) == {A, B, C}
        assert transaction.find_received(first, [A]) == set()
        # Sent once more: it counts from then on.
        transaction.add_received(first, [B], now=later)
        assert transaction.expire_received(ours, before=later) == 2
        assert transaction.iter_received(ours) == {B}
        transaction.delete_namespace(first, now=later)
        assert transaction.purge_namespace(first)
        assert transaction.find_received(first, [B]) == set()


def test_the_sizes_of_objects_are_those_of_the_tenant(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        ours, theirs = add_tenant(transaction, "ours"), add_tenant(transaction, "theirs")
        pack = PackName("pack-1")
        transaction.add_inline_pack(ours, pack, b"bytes", now=NOW)
        places = [Placement(object_id=A, block_offset=0, block_size=5, offset=0, size=3)]
        transaction.add_objects(ours, pack, places, epoch=1)
    with catalog.read() as transaction:
        assert transaction.measure_objects(ours, [A, B]) == {A: 3}
        assert transaction.measure_objects(theirs, [A]) == {}
