"""The part of a transaction that is about what a session knows of things, and about totals.

An entity is there for as long as its session is: of one that was deleted, or whose time is over,
no row is found; it is found again when a restore brings the session back, and goes for good when
the session's row does.
"""

from datetime import datetime
from typing import Protocol

from holdfast.ids import NamespaceId, TenantId
from holdfast.model_entities import EntityRow


class EntityRows(Protocol):
    """Rows of entities; totals are of one namespace, or with None of all that a tenant has."""

    def add_entity(self, entity: EntityRow) -> bool:
        """Adds an entity; False if its session knows one of this type and id already."""
        ...

    def find_entity(
        self, namespace_id: NamespaceId, row_id: str, *, now: datetime
    ) -> EntityRow | None: ...

    def list_entities(
        self,
        namespace_id: NamespaceId,
        *,
        now: datetime,
        session_id: str | None,
        entity_type: str | None,
        before: tuple[datetime, str] | None,
        most: int,
    ) -> list[EntityRow]:
        """Returns entities, newest first, below `before`."""
        ...

    def count_entities(self, namespace_id: NamespaceId, session_id: str) -> int: ...
    def set_entity(self, entity: EntityRow) -> None:
        """Replaces what can change in an entity's row."""
        ...

    def delete_entity(self, namespace_id: NamespaceId, row_id: str, *, now: datetime) -> None:
        """Takes an entity away; its row stays until `purge_deleted_entities`."""
        ...

    def recover_entity(self, namespace_id: NamespaceId, row_id: str) -> bool:
        """Brings a deleted entity back; False if there is none, or its place is taken."""
        ...

    def purge_deleted_entities(self, tenant_id: TenantId, *, before: datetime) -> int: ...
    def total_sessions(
        self, tenant_id: TenantId, namespace_id: NamespaceId | None, *, now: datetime
    ) -> tuple[int, int]:
        """Returns how many sessions there are, and how many turns their conversations have."""
        ...

    def total_memories(self, tenant_id: TenantId, namespace_id: NamespaceId | None) -> int: ...
    def total_entities(
        self, tenant_id: TenantId, namespace_id: NamespaceId | None, *, now: datetime
    ) -> int: ...
    def count_by_hour(
        self, tenant_id: TenantId, namespace_id: NamespaceId | None, *, since: datetime
    ) -> list[tuple[datetime, int]]:
        """Returns how many traces each hour has, oldest first; hours without any are left out."""
        ...
