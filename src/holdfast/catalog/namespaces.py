"""The part of a transaction that is about tenants and namespaces."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

import msgspec

from holdfast.catalog import rows
from holdfast.catalog.absence import AbsenceQueries
from holdfast.catalog.counting import in_order
from holdfast.catalog.driver import Driver
from holdfast.catalog.mending import mended
from holdfast.errors import RowDamaged
from holdfast.ids import NamespaceId, ObjectId, SnapshotId, TenantId
from holdfast.instants import to_us
from holdfast.model.basics import Head, Size, Tenant
from holdfast.model.traces import NO_HASH, TraceEnd

_PURGES: Final = (
    "purge_pending",
    "purge_log",
    "purge_versions",
    "purge_former_entities",
    "purge_former_sessions",
    "purge_sessions",
    "drop_lagging",
    "drop_lagging_memories",
    "unindex_memories",
    "purge_memories",
    "purge_task_changes",
    "purge_tasks",
    "purge_schedules",
    "purge_git_backups",
    "purge_received",
    "purge_agreements",
    "purge_snapshots",
    "purge_rollback_level",
    "purge_storage_days",
    "purge_namespace",
)
"""What goes with a namespace, in the order in which it can."""


class LogPosition(msgspec.Struct, frozen=True):
    """A place in a log: what stands before it is in the rows of the log's namespace."""

    name: str
    position: int


class Attaching(msgspec.Struct, frozen=True):
    """Which directory is attached to a namespace, and which time that it is."""

    directory: str
    attached: int


class Agreement(msgspec.Struct, frozen=True):
    """What an attached directory held when the timeline last moved with it."""

    snapshot: SnapshotId
    files: ObjectId


class NamespaceQueries(AbsenceQueries):
    """Rows of tenants, of heads, of logs, and of what attached directories held."""

    __slots__ = ()

    _db: Driver
    _ends: dict[int, TraceEnd]
    _sequences: dict[int, int]

    # Tenants

    def find_tenant(self, name: str) -> Tenant | None:
        row = self._db.one("find_tenant", name=name)
        return rows.TENANT.find(row)

    def guess_tenant(self, name: str) -> Tenant | None:
        """Returns a tenant whose row is damaged, with a flipped bit put back if it is that.

        Or under the id that other rows know it by. Raises `RowDamaged` if none does: it would
        seem to have nothing.
        """
        known = [row[0] for row in self._db.all("counted_tenants")]
        for *found, checksum in self._db.all("iter_tenants"):
            told = ([each, *found[1:]] for each in known)
            is_it = (values for values in told if rows.sum_of(values) == checksum)
            tenant = Tenant(*(mended(found, checksum) or next(is_it, found)))
            if tenant.name == name:
                if tenant.id not in known:
                    raise RowDamaged("the tenant", name=name)
                return tenant
        return None

    def iter_tenants(self) -> list[Tenant]:
        return [rows.TENANT.read(row) for row in self._db.all("iter_tenants")]

    def sort_tenants(self) -> rows.Sorted[Tenant]:
        """Returns the tenants whose rows are what was written, and an error for each other."""
        return rows.TENANT.sort(self._db.all("iter_tenants"))

    def has_other_tenants(self, tenant_id: TenantId) -> bool:
        """Says whether a tenant is not the only one."""
        row = self._db.one("has_other_tenants", tenant_id=tenant_id)
        return bool(rows.get_row(row, "answer")[0])

    def get_tenant(self, tenant_id: TenantId) -> Tenant:
        row = self._db.one("get_tenant", tenant_id=tenant_id)
        return rows.TENANT.read(rows.get_row(row, "tenant"))

    def add_tenant(self, name: str, *, public_id: str, now: datetime) -> Tenant:
        self._db.say("add_tenant", name=name, public_id=public_id, now=to_us(now))
        row = rows.get_row(self._db.one("find_tenant", name=name), "tenant")
        tenant = rows.TENANT.read(row)
        self._db.say("seal_tenant", **rows.TENANT.write(tenant))
        return tenant

    def get_tenant_quota(self, tenant_id: TenantId) -> int | None:
        return self.get_tenant(tenant_id).quota_bytes

    def set_tenant_quota(self, tenant_id: TenantId, quota_bytes: int | None) -> None:
        row = self._db.one("get_tenant", tenant_id=tenant_id)
        if row is not None:
            tenant = msgspec.structs.replace(rows.TENANT.read(row), quota_bytes=quota_bytes)
            self._db.run("set_tenant_quota", **rows.TENANT.write(tenant))

    def join_epoch(self, tenant_id: TenantId) -> int:
        return self.join_tenant(tenant_id)[0]

    def join_tenant(self, tenant_id: TenantId) -> tuple[int, int | None]:
        """Joins the epoch, and returns it with the tenant's quota."""
        # Two statements: one alone would read what was there before it waited for the lock.
        self._db.lock("share_epoch", tenant_id=tenant_id)
        row = rows.get_row(self._db.one("get_epoch", tenant_id=tenant_id), "tenant")
        return row[0], row[1]

    def advance_epoch(self, tenant_id: TenantId) -> int:
        self._db.one("lock_epoch", tenant_id=tenant_id)
        return rows.get_row(self._db.one("advance_epoch", tenant_id=tenant_id), "tenant")[0]

    # Namespaces

    def find_head(self, tenant_id: TenantId, name: str) -> Head | None:
        asked = {"tenant_id": tenant_id, "name": name}
        row = self._db.one("find_head", **asked) or self.look_again(rows.HEAD, "find_head", asked)
        return rows.HEAD.find(row)

    def find_head_by_id(self, namespace_id: NamespaceId) -> Head | None:
        row = self._db.one("find_head_by_id", namespace_id=namespace_id)
        return rows.HEAD.find(row)

    def lock_head(self, namespace_id: NamespaceId) -> Head | None:
        row = self._db.one("lock_head", namespace_id=namespace_id)
        return self._note(rows.HEAD.find(row))

    def lock_live_head(self, tenant_id: TenantId, name: str) -> Head | None:
        """Locks a namespace by its name; None if there is none, or it is deleted."""
        query, asked = "lock_live_head", {"tenant_id": tenant_id, "name": name}
        row = self._db.one(query, **asked) or self.look_again(rows.HEAD, query, asked)
        return self._note(rows.HEAD.find(row))

    def take_head(self, head: Head) -> Head:
        """Takes a head as locked that is known to be as it was left: see `follows`."""
        self._note(head)
        return head

    def _note(self, head: Head | None) -> Head | None:
        """Remembers what nobody else can move on any more."""
        if head is not None:
            self._ends[head.namespace_id] = TraceEnd(
                head.journal_number, head.journal_hash or NO_HASH
            )
            self._sequences[head.namespace_id] = head.sequence
        return head

    def iter_heads(self, tenant_id: TenantId) -> list[Head]:
        """Returns every namespace by name, and those that were deleted."""
        return [rows.HEAD.read(row) for row in self._db.all("iter_heads", tenant_id=tenant_id)]

    def list_heads(self, tenant_id: TenantId) -> list[Head]:
        """Returns the same; raises `Damaged` if one is missing."""
        compare = self.comparing_tenants(tenant_id, "namespaces")
        heads = self.iter_heads(tenant_id)
        compare(len(heads))
        return in_order(heads, attrgetter("name", "namespace_id"), rising=True)

    def sort_heads(self, tenant_id: TenantId) -> rows.Sorted[Head]:
        """Returns the same, as far as their rows are what was written."""
        return rows.HEAD.sort(self._db.all_as_stored("iter_heads", tenant_id=tenant_id))

    def add_namespace(self, head: Head) -> Head | None:
        """Adds a namespace; its id is assigned here. Returns None if the name is taken."""
        row = self._db.one("add_namespace", **rows.HEAD.write(head))
        if row is None:
            return None
        added = msgspec.structs.replace(head, namespace_id=NamespaceId(row[0]))
        self._db.say("seal_namespace", **rows.HEAD.write(added))
        self.count_in_tenant(head.tenant_id, namespaces=1)
        return self._note(added)

    def move_head(
        self,
        head: Head,
        *,
        root: ObjectId,
        generation: int,
        position: SnapshotId | None,
        redo: Sequence[SnapshotId],
        more: Size,
        row_bytes: int = 0,
    ) -> None:
        """Moves the base root of a head that is locked.

        `row_bytes` is what the texts of the snapshots take that were added for it.
        If the generation is not `head`'s after all, that is `Busy` with the next answer.
        """
        self._db.insist(
            "move_head",
            **rows.HEAD.write(
                msgspec.structs.replace(
                    head, root=root, generation=generation, position=position, redo=tuple(redo)
                )
            ),
            expected=head.generation,
            more_entries=more.entries,
            more_bytes=more.bytes,
            row_bytes=row_bytes,
        )

    def set_writer(self, namespace_id: NamespaceId, writer: str) -> None:
        self._db.say("set_writer", namespace_id=namespace_id, writer=writer)

    def advance_sequence(
        self, namespace_id: NamespaceId, *, more: Size, writer: str = "", unfolded: int | None = 0
    ) -> int:
        """Counts one more write, and adds to the size; returns the sequence.

        `unfolded` is the sum of the marks of keys that become pending by it; None says that nobody
        knows it any more.
        """
        sequence = self._sequences.get(namespace_id)
        if sequence is None:
            row = self._db.one(
                "advance_sequence",
                namespace_id=namespace_id,
                more_entries=more.entries,
                more_bytes=more.bytes,
                writer=writer,
                unfolded=unfolded,
            )
            return rows.get_row(row, "namespace")[0]
        self.advance_head(namespace_id, sequence + 1, more=more, writer=writer, unfolded=unfolded)
        return sequence + 1

    def advance_head(
        self,
        namespace_id: NamespaceId,
        sequence: int,
        *,
        more: Size,
        writer: str,
        unfolded: int | None,
    ) -> None:
        """Does what `advance_sequence` does to a head of which the sequence is known."""
        self._db.say(
            "advance_head",
            namespace_id=namespace_id,
            sequence=sequence,
            more_entries=more.entries,
            more_bytes=more.bytes,
            writer=writer,
            unfolded=unfolded,
        )
        self._sequences[namespace_id] = sequence

    def set_namespace_quota(self, namespace_id: NamespaceId, quota_bytes: int | None) -> None:
        self._set_head(namespace_id, quota_bytes=quota_bytes)

    def set_retention(self, namespace_id: NamespaceId, retention: str | None) -> None:
        self._set_head(namespace_id, retention=retention)

    def delete_namespace(self, namespace_id: NamespaceId, *, now: datetime) -> bool:
        head = self.lock_head(namespace_id)
        if head is None or head.deleted_at is not None:
            return False
        self._set_head(namespace_id, deleted_at=now)
        return True

    def recover_namespace(self, namespace_id: NamespaceId, *, name: str) -> bool:
        """Takes a deletion back; False if it is not deleted, or its name has been taken."""
        head = self.lock_head(namespace_id)
        if head is None:
            return False
        found = rows.HEAD.write(msgspec.structs.replace(head, name=name, deleted_at=None))
        return self._db.run("recover_namespace", **found) == 1

    def _set_head(self, namespace_id: NamespaceId, **changes: Any) -> None:  # noqa: ANN401 - any field
        """Changes what is rarely changed in a namespace's row."""
        head = self.lock_head(namespace_id)
        if head is not None:
            self._db.run("set_head", **rows.HEAD.write(msgspec.structs.replace(head, **changes)))

    def purge_namespace(self, namespace_id: NamespaceId) -> bool:
        """Removes a deleted namespace with all its rows; False if it is not deleted."""
        head = self.lock_head(namespace_id)
        if head is None or head.deleted_at is None:
            return False
        for query in _PURGES:
            self._db.run(query, namespace_id=namespace_id)
        self.count_in_tenant(head.tenant_id, namespaces=-1)
        return True

    # The log of a store that is kept in memory

    def find_log(self, namespace_id: NamespaceId) -> LogPosition | None:
        row = self._db.one("find_log", namespace_id=namespace_id)
        return None if row is None else LogPosition(*row)

    def set_log(self, namespace_id: NamespaceId, log: LogPosition) -> None:
        """Says up to where a log is in the rows, in the transaction that writes them."""
        self._db.say("set_log", namespace_id=namespace_id, name=log.name, position=log.position)

    # What an attached directory held

    def find_agreement(self, namespace_id: NamespaceId, which: Attaching) -> Agreement | None:
        """Returns what it held when it was last captured or led; None if it was not, this time."""
        row = self._db.one("find_agreement", namespace_id=namespace_id, directory=which.directory)
        if row is None or row[0] != which.attached:
            return None
        return Agreement(SnapshotId(row[1]), ObjectId(row[2]))

    def set_agreement(
        self, namespace_id: NamespaceId, which: Attaching, agreement: Agreement
    ) -> None:
        """Says what it holds, in the transaction that appends the snapshot."""
        self._db.say(
            "set_agreement",
            namespace_id=namespace_id,
            directory=which.directory,
            attached=which.attached,
            snapshot=agreement.snapshot,
            files=agreement.files,
        )
