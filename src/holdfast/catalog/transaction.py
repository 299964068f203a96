"""The port's transaction, written once over named queries.

SQLite and PostgreSQL differ in how a query is run, not in what is asked. A driver runs named
queries; this asks them. Parameters and rows are made and read in `rows.py`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from holdfast.catalog import rows
from holdfast.catalog.backup import BackupQueries
from holdfast.catalog.driver import Driver
from holdfast.catalog.entities import EntityQueries
from holdfast.catalog.events import EventQueries
from holdfast.catalog.keys import KeyQueries
from holdfast.catalog.memories import MemoryQueries
from holdfast.catalog.port import Located, LogPosition, ObjectRow, PackRow, PendingRow
from holdfast.catalog.received import ReceivedQueries
from holdfast.catalog.replies import ReplyQueries
from holdfast.catalog.retired import RetiredQueries
from holdfast.catalog.rows import to_us
from holdfast.catalog.sessions import SessionQueries
from holdfast.catalog.tasks import TaskQueries
from holdfast.catalog.traces import TraceQueries
from holdfast.catalog.upkeep import UpkeepQueries
from holdfast.catalog.webhooks import WebhookQueries
from holdfast.ids import NamespaceId, ObjectId, PackId, PackName, SnapshotId, TenantId
from holdfast.model import Head, Placement, Plane, Size, SnapshotInfo, Tenant

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

NO_LIMIT: Final = 2**62
"""More rows than any table has: 'all of them' in a query that takes a limit."""


class SqlTransaction(
    SessionQueries,
    UpkeepQueries,
    TraceQueries,
    MemoryQueries,
    KeyQueries,
    EventQueries,
    WebhookQueries,
    TaskQueries,
    EntityQueries,
    ReplyQueries,
    ReceivedQueries,
    RetiredQueries,
    BackupQueries,
):
    """The rows of a catalog within one transaction."""

    __slots__ = ("_db",)

    def __init__(self, driver: Driver) -> None:
        self._db = driver

    # Tenants

    def find_tenant(self, name: str) -> Tenant | None:
        row = self._db.one("find_tenant", name=name)
        return None if row is None else rows.to_tenant(row)

    def iter_tenants(self) -> list[Tenant]:
        return [rows.to_tenant(row) for row in self._db.all("iter_tenants")]

    def add_tenant(self, name: str, *, public_id: str, now: datetime) -> Tenant:
        self._db.run("add_tenant", name=name, public_id=public_id, now=to_us(now))
        return rows.to_tenant(rows.get_row(self._db.one("find_tenant", name=name), "tenant"))

    def get_tenant_quota(self, tenant_id: TenantId) -> int | None:
        return rows.get_row(self._db.one("get_tenant_quota", tenant_id=tenant_id), "tenant")[0]

    def set_tenant_quota(self, tenant_id: TenantId, quota_bytes: int | None) -> None:
        self._db.run("set_tenant_quota", tenant_id=tenant_id, quota_bytes=quota_bytes)

    def join_epoch(self, tenant_id: TenantId) -> int:
        return self.join_tenant(tenant_id)[0]

    def join_tenant(self, tenant_id: TenantId) -> tuple[int, int | None]:
        # Two statements: one alone would read what was there before it waited for the lock.
        self._db.lock("share_epoch", tenant_id=tenant_id)
        row = rows.get_row(self._db.one("get_epoch", tenant_id=tenant_id), "tenant")
        return row[0], row[1]

    def join_with(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId]
    ) -> tuple[tuple[int, int | None], dict[ObjectId, int]]:
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
        return None if row is None else rows.to_head(row)

    def find_head_by_id(self, namespace_id: NamespaceId) -> Head | None:
        row = self._db.one("find_head_by_id", namespace_id=namespace_id)
        return None if row is None else rows.to_head(row)

    def lock_head(self, namespace_id: NamespaceId) -> Head | None:
        row = self._db.one("lock_head", namespace_id=namespace_id)
        return None if row is None else rows.to_head(row)

    def lock_live_head(self, tenant_id: TenantId, name: str) -> Head | None:
        row = self._db.one("lock_live_head", tenant_id=tenant_id, name=name)
        return None if row is None else rows.to_head(row)

    def find_at_head(
        self, tenant_id: TenantId, name: str, plane: Plane, key: bytes
    ) -> tuple[ObjectId, PendingRow | None] | None:
        row = self._db.one(
            "find_at_head", tenant_id=tenant_id, name=name, plane=plane.value, key=key
        )
        if row is None:
            return None
        return ObjectId(row[0]), None if row[1] is None else (row[1], row[2])

    def iter_heads(self, tenant_id: TenantId) -> list[Head]:
        return [rows.to_head(row) for row in self._db.all("iter_heads", tenant_id=tenant_id)]

    def add_namespace(self, head: Head) -> Head | None:
        row = self._db.one("add_namespace", **rows.from_head(head))
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
        moved = self._db.run(
            "move_head",
            namespace_id=head.namespace_id,
            expected=head.generation,
            root=root,
            generation=generation,
            position=position,
            redo=rows.to_redo(redo),
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
        return self._db.run("recover_namespace", namespace_id=namespace_id, name=name) == 1

    def purge_namespace(self, namespace_id: NamespaceId) -> bool:
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
        where |= {"start": start, "most": NO_LIMIT if most is None else most}
        if stop is None:
            found = self._db.all("range_pending", **where)
        else:
            found = self._db.all("range_pending_until", stop=stop, **where)
        return [(row[0], row[1]) for row in found]

    def last_pending(
        self, namespace_id: NamespaceId, plane: Plane, *, start: bytes, stop: bytes, most: int
    ) -> list[PendingRow]:
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
        return [rows.to_pending(row) for row in found]

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
        self._db.run("drop_pending", namespace_id=namespace_id, sequence=upto)

    # The log of a store that is kept in memory

    def find_log(self, namespace_id: NamespaceId) -> LogPosition | None:
        row = self._db.one("find_log", namespace_id=namespace_id)
        return None if row is None else rows.to_log(row)

    def set_log(self, namespace_id: NamespaceId, log: LogPosition) -> None:
        self._db.run("set_log", namespace_id=namespace_id, name=log.name, position=log.position)

    # Snapshots

    def add_snapshot(self, snapshot: SnapshotInfo) -> None:
        self._db.run("add_snapshot", **rows.from_snapshot(snapshot))

    def find_snapshot(
        self, namespace_id: NamespaceId, snapshot_id: SnapshotId
    ) -> SnapshotInfo | None:
        row = self._db.one("find_snapshot", namespace_id=namespace_id, id=snapshot_id)
        return None if row is None else rows.to_snapshot(row)

    def find_snapshots_by_prefix(
        self, namespace_id: NamespaceId, prefix: str
    ) -> list[SnapshotInfo]:
        # Ids are printable ASCII, so every id that begins with the prefix sorts below
        # prefix + DEL. No pattern: then nothing in a prefix has to be escaped.
        found = self._db.all(
            "find_snapshots_by_prefix",
            namespace_id=namespace_id,
            start=prefix,
            stop=prefix + "\x7f",
        )
        return [rows.to_snapshot(row) for row in found]

    def timeline(
        self, namespace_id: NamespaceId, *, before: int | None, most: int
    ) -> list[SnapshotInfo]:
        found = self._db.all(
            "timeline",
            namespace_id=namespace_id,
            before=NO_LIMIT if before is None else before,
            most=most,
        )
        return [rows.to_snapshot(row) for row in found]

    def iter_snapshots(self, tenant_id: TenantId) -> list[SnapshotInfo]:
        found = self._db.all("iter_snapshots", tenant_id=tenant_id)
        return [rows.to_snapshot(row) for row in found]

    def set_pinned(
        self,
        namespace_id: NamespaceId,
        snapshot_id: SnapshotId,
        *,
        pinned: bool,
        expires_at: datetime | None,
    ) -> bool:
        changed = self._db.run(
            "set_pinned",
            namespace_id=namespace_id,
            id=snapshot_id,
            pinned=int(pinned),
            expires_at=None if expires_at is None else to_us(expires_at),
        )
        return changed == 1

    def set_label(
        self, namespace_id: NamespaceId, snapshot_id: SnapshotId, label: str | None
    ) -> bool:
        changed = self._db.run("set_label", namespace_id=namespace_id, id=snapshot_id, label=label)
        return changed == 1

    def delete_snapshot(
        self, namespace_id: NamespaceId, snapshot_id: SnapshotId, *, now: datetime
    ) -> bool:
        changed = self._db.run(
            "delete_snapshot", namespace_id=namespace_id, id=snapshot_id, now=to_us(now)
        )
        return changed == 1

    def recover_snapshot(self, namespace_id: NamespaceId, snapshot_id: SnapshotId) -> bool:
        return self._db.run("recover_snapshot", namespace_id=namespace_id, id=snapshot_id) == 1

    def purge_snapshot(self, namespace_id: NamespaceId, snapshot_id: SnapshotId) -> bool:
        return self._db.run("purge_snapshot", namespace_id=namespace_id, id=snapshot_id) == 1

    # Packs and objects

    def begin_pack(
        self, tenant_id: TenantId, name: PackName, *, writer: str, size_bytes: int, now: datetime
    ) -> PackId:
        row = self._db.one(
            "begin_pack",
            tenant_id=tenant_id,
            name=name,
            writer=writer,
            size_bytes=size_bytes,
            now=to_us(now),
        )
        return PackId(rows.get_row(row, "pack")[0])

    def finish_pack(self, pack_id: PackId) -> bool:
        return self._db.run("finish_pack", pack_id=pack_id) == 1

    def withdraw_pack(self, pack_id: PackId) -> bool:
        return self._db.run("withdraw_pack", pack_id=pack_id) == 1

    def add_inline_pack(
        self, tenant_id: TenantId, name: PackName, data: bytes, *, now: datetime
    ) -> PackId:
        row = self._db.one(
            "add_inline_pack",
            tenant_id=tenant_id,
            name=name,
            size_bytes=len(data),
            now=to_us(now),
        )
        pack_id = PackId(rows.get_row(row, "pack")[0])
        self._db.say("add_pack_data", pack_id=pack_id, data=data)
        return pack_id

    def get_pack_data(self, pack_id: PackId) -> bytes | None:
        row = self._db.one("get_pack_data", pack_id=pack_id)
        return None if row is None else row[0]

    def delete_pack(self, pack_id: PackId) -> None:
        self._db.run("delete_pack_data", pack_id=pack_id)
        self._db.run("delete_pack", pack_id=pack_id)

    def iter_packs(self, tenant_id: TenantId) -> list[PackRow]:
        return [rows.to_pack(row) for row in self._db.all("iter_packs", tenant_id=tenant_id)]

    def pack_names(self) -> set[str]:
        return {row[0] for row in self._db.all("pack_names")}

    def pending_bytes(self, tenant_id: TenantId) -> int:
        row = self._db.one("pending_bytes", tenant_id=tenant_id)
        return int(rows.get_row(row, "sum")[0])

    def stored_bytes(self, tenant_id: TenantId) -> int:
        row = self._db.one("stored_bytes", tenant_id=tenant_id)
        return int(rows.get_row(row, "sum")[0])

    def locate(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId]
    ) -> dict[ObjectId, Located]:
        found = self._db.by_keys("locate_object", object_ids, tenant_id=tenant_id)
        return {ObjectId(row[0]): rows.to_located(row) for row in found}

    def existing(self, tenant_id: TenantId, object_ids: Sequence[ObjectId]) -> set[ObjectId]:
        found = self._db.by_keys("find_object", object_ids, tenant_id=tenant_id)
        return {ObjectId(row[0]) for row in found}

    def add_objects(
        self,
        tenant_id: TenantId,
        pack_id: PackId,
        placements: Iterable[Placement],
        *,
        epoch: int,
    ) -> None:
        where = rows.from_placements(
            placements, tenant_id=tenant_id, pack_id=pack_id, touched=epoch
        )
        self._db.say_many("add_object", where)

    def relocate_objects(
        self,
        tenant_id: TenantId,
        pack_id: PackId,
        placements: Iterable[Placement],
        *,
        epoch: int,
    ) -> None:
        where = rows.from_placements(
            placements, tenant_id=tenant_id, pack_id=pack_id, touched=epoch
        )
        self._db.run_many("relocate_object", where)

    def move_objects(
        self,
        tenant_id: TenantId,
        placements: Iterable[Placement],
        *,
        source: PackId,
        target: PackId,
    ) -> None:
        where = rows.from_placements(
            placements, tenant_id=tenant_id, pack_id=target, from_pack_id=source
        )
        self._db.run_many("move_object", where)

    def touch_objects(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId], *, epoch: int
    ) -> int:
        # What already has the stamp is safe without being written again: most of what is used
        # again and again is stamped once per epoch.
        stamps = dict[bytes, int](
            (row[0], row[1])
            for row in self._db.by_keys("find_object", object_ids, tenant_id=tenant_id)
        )
        stale = sorted(key for key, touched in stamps.items() if touched < epoch)
        stamp = ({"tenant_id": tenant_id, "id": key, "epoch": epoch} for key in stale)
        return len(stamps) - len(stale) + self._db.run_many("touch_object", stamp)

    def delete_objects(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId], *, before: int
    ) -> int:
        keys = sorted(object_ids)
        return self._db.run_many(
            "delete_object", ({"tenant_id": tenant_id, "id": key, "epoch": before} for key in keys)
        )

    def page_objects(self, tenant_id: TenantId, *, after: bytes, most: int) -> list[ObjectRow]:
        found = self._db.all("page_objects", tenant_id=tenant_id, after=after, most=most)
        return [rows.to_object(row) for row in found]
