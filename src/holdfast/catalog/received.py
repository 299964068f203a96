"""The part of a transaction that is about objects which arrive before what names them."""

from collections.abc import Sequence
from datetime import datetime

from holdfast.catalog.driver import Driver
from holdfast.ids import NamespaceId, ObjectId, TenantId
from holdfast.instants import to_us


class ReceivedQueries:
    """Rows of objects that were sent for a namespace, and that no snapshot names yet."""

    __slots__ = ()

    _db: Driver

    def add_received(
        self, namespace_id: NamespaceId, object_ids: Sequence[ObjectId], *, now: datetime
    ) -> None:
        """Says that these were sent for a namespace; those that were before, are so anew."""
        at = to_us(now)
        # In order: two writers that add the same wait for each other, and never in a ring.
        rows = [
            {"namespace_id": namespace_id, "id": object_id, "received_at": at}
            for object_id in sorted(object_ids)
        ]
        self._db.run_many("add_received", rows)

    def find_received(
        self, namespace_id: NamespaceId, object_ids: Sequence[ObjectId]
    ) -> set[ObjectId]:
        """Returns which of these were sent for a namespace."""
        found = self._db.by_keys("find_received", object_ids, namespace_id=namespace_id)
        return {ObjectId(row[0]) for row in found}

    def iter_received(self, tenant_id: TenantId) -> set[ObjectId]:
        """Returns what was sent for any namespace of a tenant."""
        return {ObjectId(row[0]) for row in self._db.all("iter_received", tenant_id=tenant_id)}

    def drop_received(self, namespace_id: NamespaceId, object_ids: Sequence[ObjectId]) -> None:
        """Forgets that these were sent: something names them from now on."""
        rows = [{"namespace_id": namespace_id, "id": object_id} for object_id in sorted(object_ids)]
        self._db.run_many("drop_received", rows)

    def expire_received(self, tenant_id: TenantId, *, before: datetime) -> int:
        """Forgets what was sent earlier than that; returns how many objects that were."""
        return self._db.run("expire_received", tenant_id=tenant_id, before=to_us(before))

    def measure_objects(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId]
    ) -> dict[ObjectId, int]:
        """Returns the sizes of those of a tenant's objects that are there."""
        found = self._db.by_keys("measure_object", object_ids, tenant_id=tenant_id)
        return {ObjectId(row[0]): row[1] for row in found}
