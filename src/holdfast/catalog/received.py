"""The queries about objects that arrive before what names them, once for both databases."""

from collections.abc import Sequence
from datetime import datetime

from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import to_us
from holdfast.ids import NamespaceId, ObjectId, TenantId


class ReceivedQueries:
    """Rows of objects that were sent for a namespace."""

    __slots__ = ()

    _db: Driver

    def add_received(
        self, namespace_id: NamespaceId, object_ids: Sequence[ObjectId], *, now: datetime
    ) -> None:
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
        found = self._db.by_keys("find_received", object_ids, namespace_id=namespace_id)
        return {ObjectId(row[0]) for row in found}

    def iter_received(self, tenant_id: TenantId) -> set[ObjectId]:
        return {ObjectId(row[0]) for row in self._db.all("iter_received", tenant_id=tenant_id)}

    def drop_received(self, namespace_id: NamespaceId, object_ids: Sequence[ObjectId]) -> None:
        rows = [{"namespace_id": namespace_id, "id": object_id} for object_id in sorted(object_ids)]
        self._db.run_many("drop_received", rows)

    def expire_received(self, tenant_id: TenantId, *, before: datetime) -> int:
        return self._db.run("expire_received", tenant_id=tenant_id, before=to_us(before))

    def measure_objects(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId]
    ) -> dict[ObjectId, int]:
        found = self._db.by_keys("measure_object", object_ids, tenant_id=tenant_id)
        return {ObjectId(row[0]): row[1] for row in found}
