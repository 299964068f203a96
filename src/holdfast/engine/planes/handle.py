"""One namespace, as every use case is given it: whose it is, what it is called, where to ask."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Final

from msgspec import structs

from holdfast.catalog.namespaces import Attaching
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes.attached import BeforeCommit, Shows
from holdfast.errors import (
    Conflict,
    InvalidName,
    NamespaceNotFound,
    ObjectMissing,
    PackMissing,
    SnapshotExpired,
    SnapshotNotFound,
)
from holdfast.ids import NamespaceId, SnapshotId, TenantId
from holdfast.model.basics import Head, SnapshotInfo
from holdfast.model.marks import Text
from holdfast.operations.checks import check_of, check_text
from holdfast.running import Door

MAX_NAME_CHARS = 128
PATH_CHARS: Final = frozenset("/\\")
"""What separates the parts of a path, here or elsewhere."""

_check_actor: Final = check_of(Annotated[str, Text(MAX_NAME_CHARS)])

_SEPARATOR: Final = re.compile(r"[/\\]")
_NO_PART: Final = frozenset({"", ".", ".."})
"""Parts that no name of a new namespace has: somebody may make a directory of it."""


@dataclass(frozen=True, slots=True)
class Handle:
    """A namespace by name. It need not exist yet: the first write makes it."""

    context: Context
    tenant_id: TenantId
    name: str
    shows: Shows | None = None
    """What stands for its files where they are looked at: the directory that is attached to it."""
    before_commit: BeforeCommit | None = None
    """What is done before its head moves: the directory goes there."""
    directory: Attaching | None = None
    """The directory that goes with its head: what it then holds is noted with the move."""
    door: Door = field(default_factory=Door, compare=False)
    """Which tasks are open through it."""
    around: Door = field(default_factory=Door, compare=False)
    """Which tasks of its directory are: they note nothing, but others are begun in them."""

    def begun_in(self) -> tuple[str, ...]:
        """Returns the tasks that one is begun in which is begun here and now."""
        return (*self.around.within(), *self.door.within())

    def acting_as(self, actor: str) -> "Handle":
        """Returns the same, whose changes are told as made by somebody else."""
        _check_actor("actor", actor)
        return replace(self, context=replace(self.context, actor=actor))

    @property
    def objects(self) -> Objects:
        """The tenant's objects, to read."""
        return Objects(self.context, self.tenant_id)

    def objects_in(self, transaction: Transaction) -> Objects:
        """The tenant's objects, looked up in this transaction."""
        return Objects(self.context, self.tenant_id, transaction)

    def find_head(self, transaction: Transaction) -> Head | None:
        """Returns the head, or None if the namespace does not exist."""
        return transaction.find_head(self.tenant_id, self.name)

    def get_head(self, transaction: Transaction) -> Head:
        """Returns the head; raises `NamespaceNotFound`."""
        head = self.find_head(transaction)
        if head is None:
            raise NamespaceNotFound(self.name)
        return head

    def head_or_empty(self, transaction: Transaction) -> Head:
        """Returns the head; of a namespace that does not exist yet, that of an empty one."""
        return self.find_head(transaction) or self.empty_head()

    def ensure(self) -> None:
        """Makes the namespace if it is not there yet."""
        with self.context.catalog.read() as transaction:
            is_there = self.find_head(transaction) is not None
        if not is_there:
            with self.context.catalog.write() as transaction:
                self.lock_or_create(transaction)

    def lock_or_create(self, transaction: Transaction) -> Head:
        """Returns the head, locked for this write transaction; makes the namespace if needed."""
        head = self.find_and_lock(transaction)
        if head is None:
            # Two first writers: one adds the row, the other finds it.
            transaction.add_namespace(self.empty_head())
            return self.lock(transaction)
        return head

    def lock(self, transaction: Transaction) -> Head:
        """Returns the head, locked for this write transaction; raises `NamespaceNotFound`."""
        head = self.find_and_lock(transaction)
        if head is None:
            raise NamespaceNotFound(self.name)
        return head

    def lock_ahead(self, transaction: Transaction) -> None:
        """Asks for the head as the methods that lock it do, which follow."""
        transaction.ahead(Transaction.lock_live_head, self.tenant_id, self.name)

    def find_and_lock(self, transaction: Transaction) -> Head | None:
        """Returns the head, locked for this write transaction; None if there is none."""
        return transaction.lock_live_head(self.tenant_id, self.name)

    def empty_head(self) -> Head:
        """Returns the head of a namespace that holds nothing and has no id yet."""
        return Head.of_nothing(self.tenant_id, self.name, now=self.context.clock())

    def get_snapshot(
        self, transaction: Transaction, head: Head, snapshot_id: SnapshotId
    ) -> SnapshotInfo:
        """Returns a snapshot that can be used; raises if it is unknown, deleted or expired."""
        snapshot = transaction.find_snapshot(head.namespace_id, snapshot_id)
        if snapshot is None:
            raise SnapshotNotFound(snapshot_id)
        return self.usable(head, snapshot)

    def usable(self, head: Head, snapshot: SnapshotInfo) -> SnapshotInfo:
        """Returns a snapshot if it can be used; raises if it is deleted or expired."""
        if snapshot.deleted_at is not None:
            raise SnapshotNotFound(snapshot.id)
        if is_expired(self.context, head, snapshot):
            raise SnapshotExpired(snapshot.id)
        return dated(self.context, head, snapshot)


@contextmanager
def looking_at(handle: Handle, snapshot: SnapshotInfo | SnapshotId) -> Generator[None]:
    """Makes what looks like damage `SnapshotNotFound`, if the snapshot went while it was used.

    Once it is off the timeline, the collector takes what it alone has held. `Conflict` says that
    something was erased from it meanwhile; by its id, it is used as it is.
    """
    is_known = not isinstance(snapshot, str)
    snapshot_id = snapshot.id if is_known else snapshot
    try:
        yield
    except NamespaceNotFound as exc:
        if is_known:
            raise
        raise SnapshotNotFound(snapshot_id) from exc
    except (ObjectMissing, PackMissing) as exc:
        with handle.context.catalog.read() as transaction:
            found = handle.get_snapshot(transaction, handle.get_head(transaction), snapshot_id)
        if not is_known or found.root == snapshot.root:
            raise
        message = f"something was erased from snapshot {snapshot_id}: look it up again"
        raise Conflict(message) from exc


def get_kept(
    transaction: Transaction, namespace_id: NamespaceId, snapshot_id: SnapshotId
) -> SnapshotInfo:
    """Returns a snapshot that was not deleted, however old it is; raises `SnapshotNotFound`."""
    found = transaction.find_snapshot(namespace_id, snapshot_id)
    if found is None or found.deleted_at is not None:
        raise SnapshotNotFound(snapshot_id)
    return found


def as_it_is(transaction: Transaction, snapshot: SnapshotInfo) -> SnapshotInfo:
    """Returns a snapshot with the root that it has now: another, if something was erased from it.

    Whoever moves a head asks in the transaction that shows the head: what an erasure has taken out
    would come back with a root that was looked up before.
    """
    found = transaction.find_snapshot(snapshot.namespace_id, snapshot.id)
    if found is None:
        return snapshot
    return structs.replace(snapshot, root=found.root, size=found.size)


def term_of(context: Context, head: Head, snapshot: SnapshotInfo) -> datetime | None:
    """Returns until when a snapshot is kept for its own sake; None if age does not decide.

    A pin keeps it, then its own term counts, then the namespace's policy, then the default.
    """
    if snapshot.pinned:
        return None
    if snapshot.expires_at is not None:
        return snapshot.expires_at
    if head.retention is not None:
        return None
    return snapshot.created_at + context.limits.retention


def is_over(context: Context, head: Head, snapshot: SnapshotInfo) -> bool:
    """Says whether a snapshot's term is over: it goes as soon as nothing stands on it."""
    term = term_of(context, head, snapshot)
    return term is not None and term <= context.clock()


def is_expired(context: Context, head: Head, snapshot: SnapshotInfo) -> bool:
    """Says whether a snapshot's time is over.

    Never that of the one that the head stands on: it is what there is, however old it may be.
    """
    return snapshot.id != head.position and is_over(context, head, snapshot)


def dated(context: Context, head: Head, snapshot: SnapshotInfo) -> SnapshotInfo:
    """Returns a snapshot as users see it, with the instant at which its time is over.

    There is none for one whose term is over, and that stays since the head stands on it.
    """
    term = term_of(context, head, snapshot)
    stays = snapshot.id == head.position and term is not None and term <= context.clock()
    return structs.replace(snapshot, expires_at=None if stays else term, namespace=head.name)


def check_name(kind: str, name: str) -> str:
    """Returns the name if it can be used; raises `InvalidName` otherwise."""
    reason = None
    if not name:
        reason = "it is empty"
    elif len(name) > MAX_NAME_CHARS:
        reason = f"it has {len(name)} characters, {MAX_NAME_CHARS} is the most"
    elif not name.isprintable():
        reason = "it holds a character that cannot be printed"
    elif name != name.strip():
        reason = "it begins or ends with a space"
    elif name in (".", ".."):
        reason = "it means a directory elsewhere"
    if reason:
        raise InvalidName(kind, name, reason=reason)
    return name


def check_namespace(context: Context, tenant_id: TenantId, name: str) -> str:
    """Returns the name of a namespace if it can be used; raises `InvalidName` otherwise.

    One that reads like a path is refused, but for those that are there: they were made when such
    names were allowed, and what is in them stays within reach.
    """
    check_name("namespace", name)
    if _reads_like_path(name):
        with context.catalog.read() as transaction:
            is_there = transaction.find_head(tenant_id, name) is not None
        if not is_there:
            raise _path_like(name)
    return name


def check_new_namespace(name: str) -> str:
    """Returns what a new namespace may be called; raises `InvalidName` otherwise."""
    check_name("namespace", name)
    if _reads_like_path(name):
        raise _path_like(name)
    return name


def _reads_like_path(name: str) -> bool:
    return not _NO_PART.isdisjoint(_SEPARATOR.split(name))


def _path_like(name: str) -> InvalidName:
    return InvalidName("namespace", name, reason="it reads like a path")


def check_title(kind: str, text: str, *, max_chars: int) -> str:
    """Returns what people call something; raises `InvalidName` if that is nothing."""
    if not text.strip():
        raise InvalidName(kind, text, reason="it is empty")
    check_text(kind, text, max_chars=max_chars)
    return text
