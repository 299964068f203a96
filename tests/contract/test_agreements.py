"""What a catalog says of attached directories: the same on both databases."""

from datetime import UTC, datetime

from holdfast.catalog.namespaces import Agreement, Attaching
from holdfast.catalog.port import Catalog
from holdfast.ids import NamespaceId, SnapshotId, object_id_of
from holdfast.model.basics import Head

NOW = datetime(2025, 3, 1, tzinfo=UTC)
ONE, TWO = (
    Agreement(SnapshotId(f"snap-{name}"), object_id_of(name.encode())) for name in ("one", "two")
)


def test_a_directory_has_one_agreement_for_each_namespace_and_time(catalog: Catalog) -> None:
    here, elsewhere = Attaching("dir-here", 1), Attaching("dir-elsewhere", 1)
    with catalog.write() as transaction:
        tenant = transaction.add_tenant("ours", public_id="ws-ours", now=NOW).id
        ids = list[NamespaceId]()
        for name in ("first", "second"):
            head = Head.of_nothing(tenant, name, now=NOW)
            added = transaction.add_namespace(head)
            assert added is not None
            ids.append(added.namespace_id)
        first, second = ids
        transaction.set_agreement(first, here, ONE)
        transaction.set_agreement(first, here, TWO)
        transaction.set_agreement(second, here, ONE)
    with catalog.read() as transaction:
        assert transaction.find_agreement(first, here) == TWO
        assert transaction.find_agreement(second, here) == ONE
        assert transaction.find_agreement(first, elsewhere) is None
        assert transaction.find_agreement(first, Attaching("dir-here", 2)) is None
    with catalog.write() as transaction:
        transaction.delete_namespace(first, now=NOW)
        assert transaction.purge_namespace(first)
    with catalog.read() as transaction:
        assert transaction.find_agreement(first, here) is None
        assert transaction.find_agreement(second, here) == ONE
