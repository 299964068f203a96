"""The part of a transaction that is about snapshots."""

from datetime import datetime

from holdfast.catalog import rows
from holdfast.catalog.driver import Driver
from holdfast.ids import NamespaceId, SnapshotId, TenantId
from holdfast.instants import to_us
from holdfast.model import SnapshotInfo


class SnapshotQueries:
    """Rows of snapshots; what a timeline holds is never changed, but for its label and its end."""

    __slots__ = ()

    _db: Driver

    def add_snapshot(self, snapshot: SnapshotInfo) -> None:
        self._db.run("add_snapshot", **rows.SNAPSHOT.write(snapshot))

    def find_snapshot(
        self, namespace_id: NamespaceId, snapshot_id: SnapshotId
    ) -> SnapshotInfo | None:
        row = self._db.one("find_snapshot", namespace_id=namespace_id, id=snapshot_id)
        return rows.SNAPSHOT.find(row)

    def find_snapshots_by_prefix(
        self, namespace_id: NamespaceId, prefix: str
    ) -> list[SnapshotInfo]:
        """Returns two at the most: enough to know whether the prefix is unique."""
        # Ids are printable ASCII, so every id that begins with the prefix sorts below
        # prefix + DEL. No pattern: then nothing in a prefix has to be escaped.
        found = self._db.all(
            "find_snapshots_by_prefix",
            namespace_id=namespace_id,
            start=prefix,
            stop=prefix + "\x7f",
        )
        return [rows.SNAPSHOT.read(row) for row in found]

    def timeline(
        self, namespace_id: NamespaceId, *, before: int | None, most: int
    ) -> list[SnapshotInfo]:
        """Returns snapshots numbered below `before`, newest first, also deleted ones."""
        found = self._db.all(
            "timeline",
            namespace_id=namespace_id,
            before=rows.NO_LIMIT if before is None else before,
            most=most,
        )
        return [rows.SNAPSHOT.read(row) for row in found]

    def iter_snapshots(self, tenant_id: TenantId) -> list[SnapshotInfo]:
        """Returns every snapshot of every namespace, also deleted ones."""
        found = self._db.all("iter_snapshots", tenant_id=tenant_id)
        return [rows.SNAPSHOT.read(row) for row in found]

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
