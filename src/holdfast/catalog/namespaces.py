"""The part of a transaction that is about tenants, namespaces, and what is pending in them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import msgspec

from holdfast.catalog import rows
from holdfast.catalog.driver import Driver
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, ObjectId, SnapshotId, TenantId
from holdfast.instants import to_us
from holdfast.model import Head, Plane, Size, Tenant

_PURGES: Final = (
    "purge_pending",
    "purge_log",
    "purge_versions",
    "purge_sessions",
    "drop_lagging",
    "unindex_memories",
    "purge_memories",
    "purge_tasks",
    "purge_schedules",
    "purge_received",
    "purge_snapshots",
    "purge_namespace",
)
"""What goes with a namespace, in the order in which it can."""


class LogPosition(msgspec.Struct, frozen=True):
    """A place in a log: what stands before it is in the rows of the log's namespace."""

    name: str
    position: int


PendingRow = tuple[bytes, bytes | None]
"""A key and its encoded entry; None says that the key is gone."""


class NamespaceQueries:
    """Rows of tenants, of heads, of pending changes and of logs."""

    __slots__ = ()

    _db: Driver

    # Tenants

    def find_tenant(self, name: str) -> Tenant | None:
        row = self._db.one("find_tenant", name=name)
        return rows.TENANT.find(row)

    def iter_tenants(self) -> list[Tenant]:
        return [rows.TENANT.read(row) for row in self._db.all("iter_tenants")]

    def add_tenant(self, name: str, *, public_id: str, now: datetime) -> Tenant:
        self._db.run("add_tenant", name=name, public_id=public_id, now=to_us(now))
        return rows.TENANT.read(rows.get_row(self._db.one("find_tenant", name=name), "tenant"))

    def get_tenant_quota(self, tenant_id: TenantId) -> int | None:
        return rows.get_row(self._db.one("get_tenant_quota", tenant_id=tenant_id), "tenant")[0]

    def set_tenant_quota(self, tenant_id: TenantId, quota_bytes: int | None) -> None:
        self._db.run("set_tenant_quota", tenant_id=tenant_id, quota_bytes=quota_bytes)

    def join_epoch(self, tenant_id: TenantId) -> int:
        return self.join_tenant(tenant_id)[0]

    def join_tenant(self, tenant_id: TenantId) -> tuple[int, int | None]:
        """Joins the epoch, and returns it with the tenant's quota."""
        # Two statements: one alone would read what was there before it waited for the lock.
        self._db.lock("share_epoch", tenant_id=tenant_id)
        row = rows.get_row(self._db.one("get_epoch", tenant_id=tenant_id), "tenant")
        return row[0], row[1]

    def join_with(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId]
    ) -> tuple[tuple[int, int | None], dict[ObjectId, int]]:
        """Returns what `join_tenant` does, and of the objects that are there their stamps."""
        self._db.lock("share_epoch", tenant_id=tenant_id)
        ask = self._db.soon("get_epoch", tenant_id=tenant_id)
        found = self._db.by_keys("find_object", object_ids, tenant_id=tenant_id)
        row = rows.get_row(ask(), "tenant")
        return (row[0], row[1]), {ObjectId(each[0]): each[1] for each in found}

    def advance_epoch(self, tenant_id: TenantId) -> int:
        self._db.one("lock_epoch", tenant_id=tenant_id)
        return rows.get_row(self._db.one("advance_epoch", tenant_id=tenant_id), "tenant")[0]

    # Namespaces

    def find_head(self, tenant_id: TenantId, name: str) -> Head | None:
        row = self._db.one("find_head", tenant_id=tenant_id, name=name)
        return rows.HEAD.find(row)

    def find_head_by_id(self, namespace_id: NamespaceId) -> Head | None:
        row = self._db.one("find_head_by_id", namespace_id=namespace_id)
        return rows.HEAD.find(row)

    def lock_head(self, namespace_id: NamespaceId) -> Head | None:
        row = self._db.one("lock_head", namespace_id=namespace_id)
        return rows.HEAD.find(row)

    def lock_live_head(self, tenant_id: TenantId, name: str) -> Head | None:
        """Locks a namespace by its name; None if there is none, or it is deleted."""
        row = self._db.one("lock_live_head", tenant_id=tenant_id, name=name)
        return rows.HEAD.find(row)

    def find_at_head(
        self, tenant_id: TenantId, name: str, plane: Plane, key: bytes
    ) -> tuple[ObjectId, PendingRow | None] | None:
        """Returns a namespace's base root, and its pending row for one key if there is one.

        None if there is no such namespace.
        """
        row = self._db.one(
            "find_at_head", tenant_id=tenant_id, name=name, plane=plane.value, key=key
        )
        if row is None:
            return None
        return ObjectId(row[0]), None if row[1] is None else (row[1], row[2])

    def iter_heads(self, tenant_id: TenantId) -> list[Head]:
        """Returns every namespace by name, and those that were deleted."""
        return [rows.HEAD.read(row) for row in self._db.all("iter_heads", tenant_id=tenant_id)]

    def add_namespace(self, head: Head) -> Head | None:
        """Adds a namespace; its id is assigned here. Returns None if the name is taken."""
        row = self._db.one("add_namespace", **rows.HEAD.write(head))
        return None if row is None else replace(head, namespace_id=NamespaceId(row[0]))

    def move_head(
        self,
        head: Head,
        *,
        root: ObjectId,
        generation: int,
        position: SnapshotId | None,
        redo: Sequence[SnapshotId],
        more: Size,
    ) -> bool:
        """Moves the base root if the generation is still `head`'s; says whether it was."""
        moved = self._db.run(
            "move_head",
            namespace_id=head.namespace_id,
            expected=head.generation,
            root=root,
            generation=generation,
            position=position,
            redo=json.dumps(redo),
            more_entries=more.entries,
            more_bytes=more.bytes,
        )
        return moved == 1

    def set_writer(self, namespace_id: NamespaceId, writer: str) -> None:
        self._db.run("set_writer", namespace_id=namespace_id, writer=writer)

    def advance_sequence(self, namespace_id: NamespaceId, *, more: Size, writer: str = "") -> int:
        row = self._db.one(
            "advance_sequence",
            namespace_id=namespace_id,
            more_entries=more.entries,
            more_bytes=more.bytes,
            writer=writer,
        )
        return rows.get_row(row, "namespace")[0]

    def set_namespace_quota(self, namespace_id: NamespaceId, quota_bytes: int | None) -> None:
        self._db.run("set_namespace_quota", namespace_id=namespace_id, quota_bytes=quota_bytes)

    def set_retention(self, namespace_id: NamespaceId, retention: str | None) -> None:
        self._db.run("set_retention", namespace_id=namespace_id, retention=retention)

    def delete_namespace(self, namespace_id: NamespaceId, *, now: datetime) -> bool:
        return self._db.run("delete_namespace", namespace_id=namespace_id, now=to_us(now)) == 1

    def recover_namespace(self, namespace_id: NamespaceId, *, name: str) -> bool:
        """Takes a deletion back; False if it is not deleted, or its name has been taken."""
        return self._db.run("recover_namespace", namespace_id=namespace_id, name=name) == 1

    def purge_namespace(self, namespace_id: NamespaceId) -> bool:
        """Removes a deleted namespace with all its rows; False if it is not deleted."""
        head = self.lock_head(namespace_id)
        if head is None or head.deleted_at is None:
            return False
        for query in _PURGES:
            self._db.run(query, namespace_id=namespace_id)
        return True

    # Pending changes

    def find_pending(
        self, namespace_id: NamespaceId, plane: Plane, keys: Sequence[bytes]
    ) -> dict[bytes, bytes | None]:
        found = self._db.by_keys(
            "find_pending", keys, near=True, namespace_id=namespace_id, plane=plane.value
        )
        return {row[0]: row[1] for row in found}

    def range_pending(
        self,
        namespace_id: NamespaceId,
        plane: Plane,
        *,
        start: bytes,
        stop: bytes | None,
        most: int | None = None,
    ) -> list[PendingRow]:
        where: dict[str, object] = {"namespace_id": namespace_id, "plane": plane.value}
        where |= {"start": start, "most": rows.NO_LIMIT if most is None else most}
        if stop is None:
            found = self._db.all("range_pending", **where)
        else:
            found = self._db.all("range_pending_until", stop=stop, **where)
        return [(row[0], row[1]) for row in found]

    def last_pending(
        self, namespace_id: NamespaceId, plane: Plane, *, start: bytes, stop: bytes, most: int
    ) -> list[PendingRow]:
        """Returns rows from below `stop` down to `start`, the greatest key first."""
        found = self._db.all(
            "last_pending",
            namespace_id=namespace_id,
            plane=plane.value,
            start=start,
            stop=stop,
            most=most,
        )
        return [(row[0], row[1]) for row in found]

    def all_pending(self, namespace_id: NamespaceId) -> list[tuple[Plane, bytes, bytes | None]]:
        found = self._db.all("all_pending", namespace_id=namespace_id)
        return [_to_pending(row) for row in found]

    def count_pending(self, namespace_id: NamespaceId) -> int:
        return rows.get_row(self._db.one("count_pending", namespace_id=namespace_id), "count")[0]

    def put_pending(
        self,
        namespace_id: NamespaceId,
        plane: Plane,
        changes: Iterable[PendingRow],
        *,
        sequence: int,
    ) -> None:
        self._db.put_pairs(
            "put_pending",
            changes,
            namespace_id=namespace_id,
            plane=plane.value,
            sequence=sequence,
        )

    def drop_pending(self, namespace_id: NamespaceId, *, upto: int) -> None:
        """Drops what was written up to that sequence, and not what was overwritten since."""
        self._db.run("drop_pending", namespace_id=namespace_id, sequence=upto)

    # The log of a store that is kept in memory

    def find_log(self, namespace_id: NamespaceId) -> LogPosition | None:
        row = self._db.one("find_log", namespace_id=namespace_id)
        return None if row is None else LogPosition(*row)

    def set_log(self, namespace_id: NamespaceId, log: LogPosition) -> None:
        """Says up to where a log is in the rows, in the transaction that writes them."""
        self._db.run("set_log", namespace_id=namespace_id, name=log.name, position=log.position)


def _to_pending(row: rows.Row) -> tuple[Plane, bytes, bytes | None]:
    plane, key, entry = row
    try:
        return Plane(plane), key, entry
    except ValueError as exc:
        message = f"the row of a pending change cannot be read: {exc}"
        raise Damaged(message) from exc
