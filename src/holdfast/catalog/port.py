"""What the engine asks of a catalog, and what a catalog promises.

1. A write transaction happens wholly or not at all, and once it has returned it outlives a
   power cut. If one of its statements failed it does not happen, whoever swallows the error;
   only where the connection breaks during the commit itself can nobody say (`Unavailable`).
   A read transaction sees one moment, and changes nothing.
2. `lock_head` and `lock_live_head` make writers of one namespace take turns until their
   transactions end.
3. `join_epoch` is shared by writers; `advance_epoch` waits for every writer that joined the
   old epoch. An object stamped with the current epoch is out of the collector's reach.
4. Errors of the driver never leave an adapter. They are `Unavailable`, `Busy`, `StorageFull` or
   `Damaged`; `InvalidValue` for what no row can hold (a NUL in text, a number beyond 64 bits);
   `Conflict` for rows that contradict each other.
5. Ids are never given again, also when what they named is gone.

Any number of threads may use a catalog; a transaction belongs to one, and is over when its
block ends. A thread with an open transaction opens no second: it could wait for itself. A
forked child may go on with a catalog that was open before, under a writer's name of its own.

Methods are plain data in, plain data out. No SQL, no decisions: those are the engine's.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from holdfast.catalog.port_backup import BackupRows
from holdfast.catalog.port_entities import EntityRows
from holdfast.catalog.port_events import EventRows
from holdfast.catalog.port_keys import KeyRows
from holdfast.catalog.port_memories import MemoryRows
from holdfast.catalog.port_received import ReceivedRows
from holdfast.catalog.port_replies import ReplyRows
from holdfast.catalog.port_retired import RetiredRows
from holdfast.catalog.port_sessions import SessionRows
from holdfast.catalog.port_tasks import TaskRows
from holdfast.catalog.port_traces import TraceRows
from holdfast.catalog.port_upkeep import UpkeepRows
from holdfast.catalog.port_webhooks import WebhookRows
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, ObjectId, PackId, PackName, SnapshotId, TenantId
from holdfast.model import Head, Placement, Plane, Size, SnapshotInfo, Tenant
from holdfast.model_upkeep import Loss


class Located(msgspec.Struct, frozen=True):
    """An object's placement with its pack, and the block itself where the pack is inline."""

    placement: Placement
    pack_id: PackId
    pack: PackName
    block: bytes | None


class PackRow(msgspec.Struct, frozen=True):
    """A pack as the catalog knows it. While it is being written, `writer` says by whom."""

    id: PackId
    name: PackName
    is_stored: bool
    is_inline: bool
    writer: str | None
    size_bytes: int


class ObjectRow(msgspec.Struct, frozen=True):
    """An object as the collector sees it."""

    id: ObjectId
    pack_id: PackId
    size: int
    touched: int


class LogPosition(msgspec.Struct, frozen=True):
    """A place in a log: what stands before it is in the rows of the log's namespace."""

    name: str
    position: int


PendingRow = tuple[bytes, bytes | None]
"""A key and its encoded entry; None says that the key is gone."""


class Transaction(
    SessionRows,
    UpkeepRows,
    TraceRows,
    MemoryRows,
    KeyRows,
    EventRows,
    WebhookRows,
    TaskRows,
    EntityRows,
    ReplyRows,
    ReceivedRows,
    RetiredRows,
    BackupRows,
    Protocol,
):
    """One transaction: a view of the rows, and in a write transaction the way to change them."""

    # Tenants
    def find_tenant(self, name: str) -> Tenant | None: ...
    def iter_tenants(self) -> list[Tenant]: ...
    def add_tenant(self, name: str, *, public_id: str, now: datetime) -> Tenant: ...
    def get_tenant_quota(self, tenant_id: TenantId) -> int | None: ...
    def set_tenant_quota(self, tenant_id: TenantId, quota_bytes: int | None) -> None: ...
    def join_epoch(self, tenant_id: TenantId) -> int: ...
    def join_tenant(self, tenant_id: TenantId) -> tuple[int, int | None]:
        """Joins the epoch, and returns it with the tenant's quota."""
        ...

    def join_with(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId]
    ) -> tuple[tuple[int, int | None], dict[ObjectId, int]]:
        """Returns what `join_tenant` does, and of the objects that are there their stamps."""
        ...

    def advance_epoch(self, tenant_id: TenantId) -> int: ...

    # Namespaces
    def find_head(self, tenant_id: TenantId, name: str) -> Head | None: ...
    def find_head_by_id(self, namespace_id: NamespaceId) -> Head | None: ...
    def lock_head(self, namespace_id: NamespaceId) -> Head | None: ...
    def lock_live_head(self, tenant_id: TenantId, name: str) -> Head | None:
        """Locks a namespace by its name; None if there is none, or it is deleted."""
        ...

    def find_at_head(
        self, tenant_id: TenantId, name: str, plane: Plane, key: bytes
    ) -> tuple[ObjectId, PendingRow | None] | None:
        """Returns a namespace's base root, and its pending row for one key if there is one.

        None if there is no such namespace.
        """
        ...

    def iter_heads(self, tenant_id: TenantId) -> list[Head]:
        """Returns every namespace by name, and those that were deleted."""
        ...

    def add_namespace(self, head: Head) -> Head | None:
        """Adds a namespace; its id is assigned here. Returns None if the name is taken."""
        ...

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
        ...

    def advance_sequence(
        self, namespace_id: NamespaceId, *, more: Size, writer: str = ""
    ) -> int: ...
    def set_writer(self, namespace_id: NamespaceId, writer: str) -> None: ...
    def set_namespace_quota(self, namespace_id: NamespaceId, quota_bytes: int | None) -> None: ...
    def set_retention(self, namespace_id: NamespaceId, retention: str | None) -> None: ...
    def delete_namespace(self, namespace_id: NamespaceId, *, now: datetime) -> bool: ...
    def recover_namespace(self, namespace_id: NamespaceId, *, name: str) -> bool:
        """Takes a deletion back; False if it is not deleted, or its name has been taken."""
        ...

    def purge_namespace(self, namespace_id: NamespaceId) -> bool:
        """Removes a deleted namespace with all its rows; False if it is not deleted."""
        ...

    # Pending changes
    def find_pending(
        self, namespace_id: NamespaceId, plane: Plane, keys: Sequence[bytes]
    ) -> dict[bytes, bytes | None]: ...
    def range_pending(
        self,
        namespace_id: NamespaceId,
        plane: Plane,
        *,
        start: bytes,
        stop: bytes | None,
        most: int | None = None,
    ) -> list[PendingRow]: ...
    def last_pending(
        self, namespace_id: NamespaceId, plane: Plane, *, start: bytes, stop: bytes, most: int
    ) -> list[PendingRow]:
        """Returns rows from below `stop` down to `start`, the greatest key first."""
        ...

    def all_pending(self, namespace_id: NamespaceId) -> list[tuple[Plane, bytes, bytes | None]]: ...
    def count_pending(self, namespace_id: NamespaceId) -> int: ...
    def put_pending(
        self,
        namespace_id: NamespaceId,
        plane: Plane,
        changes: Iterable[PendingRow],
        *,
        sequence: int,
    ) -> None: ...
    def drop_pending(self, namespace_id: NamespaceId, *, upto: int) -> None:
        """Drops what was written up to that sequence, and not what was overwritten since."""
        ...

    # The log of a store that is kept in memory
    def find_log(self, namespace_id: NamespaceId) -> LogPosition | None: ...
    def set_log(self, namespace_id: NamespaceId, log: LogPosition) -> None:
        """Says up to where a log is in the rows, in the transaction that writes them."""
        ...

    # Snapshots
    def add_snapshot(self, snapshot: SnapshotInfo) -> None: ...
    def find_snapshot(
        self, namespace_id: NamespaceId, snapshot_id: SnapshotId
    ) -> SnapshotInfo | None: ...
    def find_snapshots_by_prefix(
        self, namespace_id: NamespaceId, prefix: str
    ) -> list[SnapshotInfo]:
        """Returns two at the most: enough to know whether the prefix is unique."""
        ...

    def timeline(
        self, namespace_id: NamespaceId, *, before: int | None, most: int
    ) -> list[SnapshotInfo]:
        """Returns snapshots numbered below `before`, newest first, also deleted ones."""
        ...

    def iter_snapshots(self, tenant_id: TenantId) -> list[SnapshotInfo]:
        """Returns every snapshot of every namespace, also deleted ones."""
        ...

    def set_pinned(
        self,
        namespace_id: NamespaceId,
        snapshot_id: SnapshotId,
        *,
        pinned: bool,
        expires_at: datetime | None,
    ) -> bool: ...
    def set_label(
        self, namespace_id: NamespaceId, snapshot_id: SnapshotId, label: str | None
    ) -> bool: ...
    def delete_snapshot(
        self, namespace_id: NamespaceId, snapshot_id: SnapshotId, *, now: datetime
    ) -> bool: ...
    def recover_snapshot(self, namespace_id: NamespaceId, snapshot_id: SnapshotId) -> bool: ...
    def purge_snapshot(self, namespace_id: NamespaceId, snapshot_id: SnapshotId) -> bool: ...

    # Packs and objects
    def begin_pack(
        self, tenant_id: TenantId, name: PackName, *, writer: str, size_bytes: int, now: datetime
    ) -> PackId: ...
    def finish_pack(self, pack_id: PackId) -> bool:
        """Names a pack's bytes as complete; False if the announcement was withdrawn."""
        ...

    def withdraw_pack(self, pack_id: PackId) -> bool:
        """Forgets an announced pack; False if it is complete, or not there."""
        ...

    def add_inline_pack(
        self, tenant_id: TenantId, name: PackName, data: bytes, *, now: datetime
    ) -> PackId: ...
    def get_pack_data(self, pack_id: PackId) -> bytes | None: ...
    def delete_pack(self, pack_id: PackId) -> None:
        """Removes a pack's row, and its bytes if they lie inside; others are to be retired."""
        ...

    def iter_packs(self, tenant_id: TenantId) -> list[PackRow]: ...
    def pack_names(self) -> set[str]:
        """Returns what may be in the blob store: all packs of all tenants, announced ones too."""
        ...

    def pending_bytes(self, tenant_id: TenantId) -> int: ...
    def stored_bytes(self, tenant_id: TenantId) -> int:
        """Returns the size of a tenant's packs, announced ones too."""
        ...

    def locate(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId]
    ) -> dict[ObjectId, Located]: ...
    def existing(self, tenant_id: TenantId, object_ids: Sequence[ObjectId]) -> set[ObjectId]: ...
    def add_objects(
        self,
        tenant_id: TenantId,
        pack_id: PackId,
        placements: Iterable[Placement],
        *,
        epoch: int,
    ) -> None:
        """Names objects in a pack. One that has a name already keeps it, and is stamped."""
        ...

    def touch_objects(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId], *, epoch: int
    ) -> int:
        """Stamps objects with the epoch; returns how many are still there."""
        ...

    def delete_objects(
        self, tenant_id: TenantId, object_ids: Sequence[ObjectId], *, before: int
    ) -> int:
        """Deletes those whose stamp is older than the epoch `before`; returns how many."""
        ...

    def move_objects(
        self,
        tenant_id: TenantId,
        placements: Iterable[Placement],
        *,
        source: PackId,
        target: PackId,
    ) -> None:
        """Gives objects their place in another pack, if they are still in the first."""
        ...

    def relocate_objects(
        self,
        tenant_id: TenantId,
        pack_id: PackId,
        placements: Iterable[Placement],
        *,
        epoch: int,
    ) -> None:
        """Names objects in a pack, wherever they were before, and stamps them."""
        ...

    def page_objects(self, tenant_id: TenantId, *, after: bytes, most: int) -> list[ObjectRow]: ...


class Catalog(Protocol):
    """Opens transactions, and knows which of its users are still alive."""

    @property
    def writer(self) -> str:
        """This opener's name, known to be alive until `close`, or until the process dies.

        To be asked for each time: after a lost connection it is another one.
        """
        ...

    @property
    def kind(self) -> str:
        """What the rows are in: only the same kind takes what `dump` wrote."""
        ...

    @property
    def keep_deleted(self) -> timedelta:
        """How long bytes outlive their rows here, where the limits say nothing else.

        As long as an older copy of the rows may ordinarily be brought back.
        """
        ...

    def read(self) -> AbstractContextManager[Transaction]: ...
    def ask(self) -> AbstractContextManager[Transaction]:
        """Opens a read transaction for a single question: each query has a moment of its own."""
        ...

    def write(self) -> AbstractContextManager[Transaction]: ...
    def is_alive(self, writer: str) -> bool: ...
    def lock(self, name: str) -> AbstractContextManager[None]:
        """Holds a lock between all users of the catalog; raises `Busy` if it is taken."""
        ...

    def free_bytes(self) -> int | None: ...
    def reclaim(self) -> None:
        """Gives back what deleted rows and dead writers left, where that needs asking."""
        ...

    def make_room(self) -> None:
        """Gives up what is kept aside for collecting on a full disk, if there is no other room."""
        ...

    def check_current(self) -> None:
        """Raises `CatalogReplaced` if other files lie where this process has the catalog open.

        A write does so by itself, before it is acknowledged.
        """
        ...

    def find_loss(self) -> Loss | None:
        """Returns what was acknowledged and is found missing, until somebody accepts it."""
        ...

    def accept_loss(self) -> None:
        """Takes note that somebody knows what is missing."""
        ...

    def close(self) -> None: ...


def pages(transaction: Transaction, tenant_id: TenantId) -> Iterator[list[ObjectRow]]:
    """Yields a tenant's object rows a page at a time."""
    after = b""
    while page := transaction.page_objects(tenant_id, after=after, most=10_000):
        if page[-1].id <= after:
            # A damaged table: it would be paged through for ever.
            raise Damaged("the catalog's index of objects is out of order")
        yield page
        after = page[-1].id
