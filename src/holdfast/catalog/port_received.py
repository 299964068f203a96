"""The part of a transaction that is about objects which arrive before what names them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from holdfast.ids import NamespaceId, ObjectId, TenantId


class ReceivedRows(Protocol):
    """Rows of objects that were sent for a namespace, and that no snapshot names yet."""

    def add_received(
        self, namespace_id: NamespaceId, object_ids: Sequence[ObjectId], *, now: datetime
    ) -> None:
        """Says that these were sent for a namespace; those that were before, are so anew."""
        ...

    def find_received(
        self, namespace_id: NamespaceId, object_ids: Sequence[ObjectId]
    ) -> set[ObjectId]:
        """Returns which of these were sent for a namespace."""
        ...

    def iter_received(self, tenant_id: TenantId) -> set[ObjectId]:
        """Returns what was sent for any namespace of a tenant."""
        ...

    def drop_received(self, namespace_id: NamespaceId, object_ids: Sequence[ObjectId]) -> None:
        """Forgets that these were sent: something names them from now on."""
        ...

    def expire_received(self, tenant_id: TenantId, *, before: datetime) -> int:
        """Forgets what was sent earlier than that; returns how many objects that were."""
        ...

    def measure_objects(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId]
    ) -> dict[ObjectId, int]:
        """Returns the sizes of those of a tenant's objects that are there."""
        ...
