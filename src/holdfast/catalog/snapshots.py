"""The part of a transaction that is about snapshots."""

from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, Literal

from msgspec.structs import replace

from holdfast.catalog import rows
from holdfast.catalog.absence import AbsenceQueries
from holdfast.catalog.counting import all_of, text_bytes
from holdfast.catalog.driver import Driver
from holdfast.ids import NamespaceId, SnapshotId, TenantId
from holdfast.instants import to_us
from holdfast.model.basics import SnapshotInfo

Called = Literal["label", "task_id", "trace_id"]
"""What somebody calls snapshots by."""

_BY_NAME: Final[Mapping[Called, str]] = {
    "label": "timeline_of_label",
    "task_id": "timeline_of_task",
    "trace_id": "timeline_of_trace",
}


class SnapshotQueries(AbsenceQueries):
    """Rows of snapshots; what a timeline holds is never changed, but for its label and its end.

    Who changes that has the head locked.
    """

    __slots__ = ()

    _db: Driver

    def add_snapshot(self, snapshot: SnapshotInfo) -> int:
        """Adds a snapshot; returns what its texts take, to be counted as the head moves to it."""
        row = rows.SNAPSHOT.write(snapshot)
        self._db.say("add_snapshot", **row)
        return text_bytes("snapshot", row)

    def find_snapshot(
        self, namespace_id: NamespaceId, snapshot_id: SnapshotId
    ) -> SnapshotInfo | None:
        query, asked = "find_snapshot", {"namespace_id": namespace_id, "id": snapshot_id}
        row = self._db.one(query, **asked) or self.look_again(rows.SNAPSHOT, query, asked)
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
        self,
        namespace_id: NamespaceId,
        *,
        before: int | None,
        most: int,
        called: tuple[Called, str] | None = None,
    ) -> list[SnapshotInfo]:
        """Returns snapshots numbered below `before`, newest first, also deleted ones.

        Those alone that are `called` something: that has an index.
        """
        asked: dict[str, object] = {"namespace_id": namespace_id, "most": most}
        asked["before"] = rows.NO_LIMIT if before is None else before
        if called is None:
            found = self._db.all("timeline", **asked)
        else:
            found = self._db.all(_BY_NAME[called[0]], name=called[1], **asked)
        return all_of(namespace_id, map(rows.SNAPSHOT.read, found), attrgetter("number"))

    def count_usable_snapshots(
        self,
        namespace_id: NamespaceId,
        *,
        position: SnapshotId | None,
        now: datetime,
        oldest: datetime | None,
    ) -> int:
        """Returns how many are neither deleted nor past their time.

        One without a term of its own is that if it was not taken after `oldest`; None for never.
        The one at the `position` of the head never is.
        """
        row = self._db.one(
            "count_usable_snapshots",
            namespace_id=namespace_id,
            position=position or "",
            now=to_us(now),
            oldest=-rows.NO_LIMIT if oldest is None else to_us(oldest),
        )
        return rows.get_row(row, "how many snapshots there are")[0]

    def list_forks(
        self, tenant_id: TenantId, namespace_id: NamespaceId, *, most: int
    ) -> list[tuple[SnapshotId, str]]:
        """Returns which namespaces were forked from this one, by name, each behind its snapshot."""
        found = self._db.all(
            "list_forks", tenant_id=tenant_id, namespace_id=namespace_id, most=most
        )
        return [(SnapshotId(target), name) for target, name in found]

    def iter_snapshots(self, tenant_id: TenantId) -> list[SnapshotInfo]:
        """Returns every snapshot of every namespace, also deleted ones."""
        found = self._db.all("iter_snapshots", tenant_id=tenant_id)
        return [rows.SNAPSHOT.read(row) for row in found]

    def sort_snapshots(self, tenant_id: TenantId) -> rows.Sorted[SnapshotInfo]:
        """Returns the same, as far as their rows are what was written."""
        return rows.SNAPSHOT.sort(self._db.all_as_stored("iter_snapshots", tenant_id=tenant_id))

    def set_pinned(
        self,
        namespace_id: NamespaceId,
        snapshot_id: SnapshotId,
        *,
        pinned: bool,
        expires_at: datetime | None,
    ) -> bool:
        return self._change(namespace_id, snapshot_id, pinned=pinned, expires_at=expires_at)

    def set_label(
        self, namespace_id: NamespaceId, snapshot_id: SnapshotId, label: str | None
    ) -> bool:
        return self._change(namespace_id, snapshot_id, label=label)

    def delete_snapshot(
        self, namespace_id: NamespaceId, snapshot_id: SnapshotId, *, now: datetime
    ) -> bool:
        found = self.find_snapshot(namespace_id, snapshot_id)
        if found is None or found.deleted_at is not None:
            return False
        return self._change(namespace_id, snapshot_id, deleted_at=now)

    def recover_snapshot(self, namespace_id: NamespaceId, snapshot_id: SnapshotId) -> bool:
        return self._change(namespace_id, snapshot_id, deleted_at=None)

    def _change(
        self,
        namespace_id: NamespaceId,
        snapshot_id: SnapshotId,
        **changes: Any,  # noqa: ANN401 - any field
    ) -> bool:
        found = self.find_snapshot(namespace_id, snapshot_id)
        if found is None:
            return False
        self._db.say("set_snapshot", **rows.SNAPSHOT.write(replace(found, **changes)))
        return True

    def purge_snapshot(self, namespace_id: NamespaceId, snapshot_id: SnapshotId) -> bool:
        if self._db.run("purge_snapshot", namespace_id=namespace_id, id=snapshot_id) == 0:
            return False
        self.count_in(namespace_id, purged=1)
        return True
