"""One tenant of a vault: its namespaces, and what is done to all of them at once.

Nothing here reaches what another tenant has.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from holdfast.catalog.transaction import Transaction
from holdfast.engine.attended import Attended
from holdfast.engine.audit import health
from holdfast.engine.audit.chains import verify_audit
from holdfast.engine.audit.export import export_audit
from holdfast.engine.audit.health import total_of
from holdfast.engine.audit.overview import list_running, look
from holdfast.engine.audit.series import count_series
from holdfast.engine.audit.storage import list_days
from holdfast.engine.audit.traces import WorkspaceTraces
from holdfast.engine.capturing.lastlook import LastLook
from holdfast.engine.core.context import Context
from holdfast.engine.core.replying import Replying
from holdfast.engine.directory.attachments import Attachment, Attachments
from holdfast.engine.directory.directory import forget as forget_index
from holdfast.engine.directory.lending import sweep
from holdfast.engine.erasing.door import Erasures
from holdfast.engine.journal.actions import trace_of_namespace
from holdfast.engine.journal.chain import append
from holdfast.engine.journal.events import Events
from holdfast.engine.journal.replies import Replies
from holdfast.engine.namespace import Namespace
from holdfast.engine.objects.trust import find_lost_packs
from holdfast.engine.planes.handle import Handle, check_name, check_namespace
from holdfast.engine.tenancy.keys import Keys
from holdfast.engine.tenancy.logins import Logins
from holdfast.engine.tenancy.webhooks import Webhooks
from holdfast.engine.timeline.retention import apply_all
from holdfast.engine.upkeep.collect import collect
from holdfast.engine.upkeep.repair import repair
from holdfast.engine.upkeep.verify import rebuild_index, verify
from holdfast.engine.workspace import Workspace
from holdfast.errors import (
    DirectoryMissing,
    DirectoryReplaced,
    HoldfastError,
    InvalidValue,
    NamespaceExists,
    NamespaceNotFound,
    NotADirectory,
)
from holdfast.ids import NamespaceId
from holdfast.model.basics import Head, Plane, SnapshotInfo, Tenant
from holdfast.model.entities import Totals
from holdfast.model.overviews import (
    NamespaceOverview,
    RollbackSeries,
    RunningTask,
    StorageDay,
)
from holdfast.model.traces import Health, Trace
from holdfast.model.upkeep import (
    AuditReport,
    Collected,
    DeletedNamespace,
    Repaired,
    Verified,
)
from holdfast.operations.audit import (
    GetStorageSeries,
    GetWorkspaceHealth,
    GetWorkspaceRollbackSeries,
    GetWorkspaceTotals,
)
from holdfast.operations.checks import checked
from holdfast.operations.namespaces import (
    DeleteNamespace,
    ListDeletedNamespaces,
    ListNamespaces,
    ListRunningTasks,
    Overview,
    QuotaBytes,
)
from holdfast.operations.operation import does
from holdfast.progress import Progress, no_progress
from holdfast.running import Door
from holdfast.workspace.guard import check_directory, find_home


@checked
class TenantVault:
    """What one tenant has. Nothing here reaches another tenant's objects or rows."""

    def __init__(self, context: Context, tenant: Tenant) -> None:
        self._context = context
        self._tenant = tenant

    traces = cached_property(lambda self: WorkspaceTraces(self._context, self._tenant.id))
    keys = cached_property(lambda self: Keys(self._context, self._tenant.id))
    logins = cached_property(lambda self: Logins(self._context, self._tenant))
    erasures = cached_property(lambda self: Erasures(self._context, self._tenant))
    events = cached_property(lambda self: Events(self._context, self._tenant.id))
    replies = cached_property(lambda self: Replies(self._context, self._tenant.id))
    webhooks = cached_property(lambda self: Webhooks(self._context, self._tenant))

    def __repr__(self) -> str:
        # A folder, and no URL: that of a database has a password in it.
        where = "".join(f" in {str(folder)!r}" for folder in self._context.folders[:1])
        return f"<{type(self).__name__} of tenant {self._tenant.name!r}{where}>"

    @property
    def tenant_id(self) -> str:
        """The tenant's id as it stands on the wire."""
        return self._tenant.public_id

    def now(self) -> datetime:
        """Returns the current instant, as the vault's clock has it."""
        return self._context.clock()

    def acting_as(self, actor: str) -> "TenantVault":
        """Returns the same, with somebody who did it wherever a call does not say who."""
        return TenantVault(replace(self._context, actor=actor), self._tenant)

    def adding_only(self) -> "TenantVault":
        """Returns the same, for somebody who adds to the history and takes nothing of it away."""
        return TenantVault(replace(self._context, adds_only=True), self._tenant)

    def replying(self, catalog: Replying) -> "TenantVault":
        """Returns the same, for a request whose answer is kept with what it does."""
        return TenantVault(replace(self._context, catalog=catalog), self._tenant)

    def namespace(self, name: str, *, door: Door | None = None) -> Namespace:
        """Returns a namespace by name; it need not exist yet.

        With a `door`, what is done to it is done in the tasks that this one names.
        """
        handle = self._handle(name)
        return Namespace(handle if door is None else replace(handle, door=door))

    @does(ListNamespaces)
    def namespaces(self, wanted: ListNamespaces) -> list[str]:
        after = wanted.starting_after or ""
        names = (head.name for head in self._heads() if head.deleted_at is None)
        meant = [name for name in names if name > after and name.startswith(wanted.prefix)]
        return meant[: wanted.limit]

    def workspace(
        self,
        directory: str | os.PathLike[str],
        *,
        namespace: str | None = None,
        force: bool = False,
        stands_on: SnapshotInfo | None = None,
    ) -> Workspace:
        """Attaches a real directory to a namespace, or opens one that is attached already.

        Raises `DirectoryRefused` for `/`, the home directory and network mounts, unless `force`,
        and for what lies in a vault. One that is attached and missing can be opened, too: `undo`
        makes it anew. With `stands_on`, one that is attached anew counts as that snapshot of the
        namespace, changed by hand: nothing comes into it before somebody restores something.
        """
        path = Path(directory).expanduser()
        attachments = Attachments(self._context, self._tenant.id)
        if not path.is_dir():
            missing = attachments.find_at(path)
            if missing is not None and namespace in (None, missing.namespace):
                return self._open_workspace(missing)
            error = NotADirectory(os.fsencode(path), blocked_by=os.fsencode(path))
            if not path.exists():
                error.hint = "There is nothing: make the directory first, or name another."
            raise error
        check_directory(path, home=find_home(), vault=self._context.own_folders, force=force)
        known = () if namespace is None else self.namespaces()
        last = None
        if namespace is not None and stands_on is not None:
            handle = self._handle(namespace)
            with self._context.catalog.read() as transaction:
                namespace_id = handle.get_head(transaction).namespace_id
            files = handle.objects.get_root(stands_on.root).plane(Plane.FILES)
            last = LastLook.standing_on(files, namespace_id)
        return self._open_workspace(
            attachments.get_or_add(path, namespace=namespace, known=known, stands_on=last)
        )

    def find_workspace(self, directory: str | os.PathLike[str]) -> Workspace | None:
        """Returns the attached directory that is, or holds, this one; None if none does.

        One that was moved within its file system is attached in its new place. One that is
        missing is returned as well: `undo` and `restore` make it anew.
        """
        path = Path(directory).expanduser()
        found = Attachments(self._context, self._tenant.id).find(path)
        return None if found is None else self._open_workspace(found)

    def attended(self, namespace: str) -> Attended | None:
        """Returns the directory that is attached to a namespace, to be asked through that."""
        found = (each for each in self.workspaces() if each.namespace == namespace)
        chosen = next(found, None)
        return None if chosen is None else Attended(self._handle(namespace), chosen)

    def workspaces(self) -> list[Attachment]:
        """Returns the directories that are attached, by path."""
        return Attachments(self._context, self._tenant.id).list()

    def find_origins(
        self, directory: str | os.PathLike[str], *, is_sure: bool = True
    ) -> list[Attachment]:
        """Returns attached directories that are missing and whose files this one holds."""
        path = Path(directory).expanduser()
        return Attachments(self._context, self._tenant.id).find_origins(path, is_sure=is_sure)

    def detach(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        namespace: str | None = None,
        on_recovery: Callable[[str], None] | None = None,
    ) -> Attachment:
        """Lets go of an attached directory, named by its path or by its namespace.

        Nothing in it is touched, and the history stays: attached again, it goes on. The
        directory need not be there any more. Where a restore of it had been interrupted, that is
        put right first, and `on_recovery` is told.
        """
        if directory is None and namespace is None:
            raise InvalidValue("name a directory, or a namespace")
        attachments = Attachments(self._context, self._tenant.id)
        path = None if directory is None else Path(directory).expanduser()
        found = attachments.get(path=path, namespace=namespace)
        with suppress(DirectoryMissing, DirectoryReplaced), self._open_workspace(found) as open_:
            open_.on_recovery = on_recovery
            open_.recover()
        with found.locked():
            attachments.detach(found)
        return found

    @does(DeleteNamespace)
    def delete_namespace(self, wanted: DeleteNamespace) -> None:
        name = wanted.name
        self._context.check_takes_away("delete a namespace")
        handle = self._handle(name)
        self._context.catalog.make_room()
        with self._context.work() as transaction:
            head = handle.lock(transaction)
            transaction.delete_namespace(head.namespace_id, now=self._context.clock())
            append(transaction, self._context, head, trace_of_namespace("namespace.deleted", name))

    @does(ListDeletedNamespaces)
    def deleted_namespaces(self, _: ListDeletedNamespaces) -> list[DeletedNamespace]:
        gone = [
            DeletedNamespace(head.namespace_id, head.name, head.deleted_at)
            for head in self._heads()
            if head.deleted_at is not None
        ]
        return sorted(gone, key=lambda deleted: deleted.deleted_at, reverse=True)

    def recover_namespace(
        self, name: str, *, number: int | None = None, as_name: str | None = None
    ) -> Namespace:
        """Brings a deleted namespace back during the grace period.

        Of several with this name the last deleted one, or that with the `number` that
        `deleted_namespaces` tells. `as_name` gives it another name, where its own is taken.
        """
        # Its own name it keeps, also if nobody could choose that any more.
        own = Handle(self._context, self._tenant.id, check_name("namespace", name))
        handle = self._handle(as_name) if as_name else own
        chosen = [d for d in self.deleted_namespaces() if d.name == name]
        chosen = [d for d in chosen if number in (None, d.number)]
        if not chosen:
            raise NamespaceNotFound(name)
        with self._context.work() as transaction:
            if handle.find_head(transaction) is not None:
                raise NamespaceExists(handle.name)
            if not transaction.recover_namespace(chosen[0].number, name=handle.name):
                raise NamespaceNotFound(name)
            told = trace_of_namespace("namespace.recovered", handle.name, recovered=name)
            append(transaction, self._context, handle.get_head(transaction), told)
        return Namespace(handle)

    def forget(self) -> list[SnapshotInfo]:
        """Applies every namespace's retention, and purges what outlived its grace period.

        Then finishes erasures that were interrupted; raises what keeps one from being finished.
        """
        gone = apply_all(self._context, self._tenant.id)
        self.erasures.finish()
        return gone

    def sweep_commands(self) -> int:
        """Removes directories that commands ran in and that nobody uses any more; says how many."""
        heads = [head for head in self._heads() if head.deleted_at is None]
        known = {(head.namespace_id, head.name) for head in heads}
        return sweep(self._context, self._tenant.id, known)

    def collect(self, *, now: bool = False, progress: Progress = no_progress) -> Collected:
        """Gives back the bytes that nothing needs any more, and has not for `keep_deleted`.

        With `now`, they go at once, and with them the way back to any older catalog, which may
        lack packs. Raises `Busy` if somebody needs them just then. Packs that no row names, as a
        kill leaves them, are found if there is no other tenant; else by `Holdfast.look_after`.
        """
        self._context.check_takes_away("collect")
        self._context.catalog.make_room()
        apply_all(self._context, self._tenant.id)
        with self._context.catalog.read() as transaction:
            # All of the blob store: for many tenants, it is listed once in a round.
            lists = not transaction.has_other_tenants(self._tenant.id)
        return collect(self._context, self._tenant.id, now=now, lists=lists, progress=progress)

    def verify(self, *, progress: Progress = no_progress) -> Verified:
        """Re-hashes everything and names what is damaged.

        Attached directories are read anew at their next snapshot if something is.
        """
        found = verify(self._context, self._tenant.id, progress=progress)
        if not found.ok:
            self._distrust()
        return found

    def find_index_faults(self) -> list[str]:
        """Returns where the catalog's indexes and rows do not agree, in all of the vault."""
        return self._context.catalog.find_index_faults()

    def rebuild_indexes(self) -> None:
        """Makes the catalog's indexes anew of its rows, in all of the vault."""
        self._context.catalog.rebuild_indexes()

    def lost_packs(self) -> list[str]:
        """Returns the packs that are not there, or too short: a look at each file, not into it."""
        return find_lost_packs(self._context, self._tenant.id)

    def repair(
        self,
        *,
        places: Sequence[str | os.PathLike[str]] = (),
        progress: Progress = no_progress,
    ) -> Repaired:
        """Rebuilds what can be rebuilt of what is damaged, and names what is lost.

        From other packs, from the attached directories, and from `places`: other vaults, copies
        of this one, or whatever packs somebody saved.
        """
        chosen = [Path(place).expanduser() for place in places]
        done = repair(self._context, self._tenant.id, places=chosen, progress=progress)
        if not done.ok:
            self._distrust()
        return done

    def verify_audit(
        self, *, anchor: str | None = None, progress: Progress = no_progress
    ) -> AuditReport:
        """Checks that no trace was edited, removed, inserted or moved since it was written.

        `anchor` is that of an earlier report: the chain has to go through it.
        """
        return verify_audit(self._context, self._tenant.id, anchor=anchor, progress=progress)

    def export_audit(
        self,
        target: str | os.PathLike[str],
        *,
        for_operators: bool = False,
        progress: Progress = no_progress,
    ) -> int:
        """Writes all traces to a file that `holdfast.verify_audit_file` checks without a vault."""
        return export_audit(
            self._context, self._tenant, target, for_operators=for_operators, progress=progress
        )

    @does(GetWorkspaceHealth)
    def health(self, wanted: GetWorkspaceHealth) -> Health:
        with self._context.catalog.read() as transaction:
            return health.measure(self._context, transaction, self._tenant.id, None, wanted)

    @does(Overview)
    def overview(self, wanted: Overview) -> list[NamespaceOverview]:
        with self._context.catalog.read() as transaction:
            return look(self._context, transaction, self._tenant.id, wanted)

    @does(ListRunningTasks)
    def running_tasks(self, wanted: ListRunningTasks) -> list[RunningTask]:
        with self._context.catalog.read() as transaction:
            return list_running(transaction, self._tenant.id, wanted)

    @does(GetWorkspaceRollbackSeries)
    def rollback_series(self, wanted: GetWorkspaceRollbackSeries) -> RollbackSeries:
        with self._context.catalog.read() as transaction:
            of = self._find_id(transaction, wanted.namespace)
            return count_series(self._context, transaction, self._tenant.id, of, wanted)

    @does(GetStorageSeries)
    def storage_series(self, wanted: GetStorageSeries) -> list[StorageDay]:
        with self._context.catalog.read() as transaction:
            of = self._find_id(transaction, wanted.namespace)
            return list_days(self._context, transaction, self._tenant.id, of, since=wanted.since)

    @does(GetWorkspaceTotals)
    def totals(self, _wanted: GetWorkspaceTotals) -> Totals:
        with self._context.catalog.read() as transaction:
            return total_of(self._context, transaction, self._tenant.id, None)

    def rebuild_index(self) -> int:
        """Writes the object index anew from the packs; returns how many objects it names."""
        return rebuild_index(self._context, self._tenant.id)

    def set_quota(self, quota_bytes: QuotaBytes) -> None:
        """Limits how many bytes the tenant's packs may take; None takes the limit away."""
        self._context.check_takes_away("set a quota")
        with self._context.work() as transaction:
            transaction.set_tenant_quota(self._tenant.id, quota_bytes)
            told = Trace(
                action="tenant.quota_set",
                resource_type="tenant",
                resource_id=self.tenant_id,
                details={"quota_bytes": quota_bytes},
            )
            append(transaction, self._context, self._tenant.id, told)

    def quota(self) -> int | None:
        """Returns how many bytes the tenant's packs may take; None for as many as fit."""
        with self._context.catalog.read() as transaction:
            return transaction.get_tenant_quota(self._tenant.id)

    def stored_bytes(self) -> int:
        """Returns how many bytes the tenant's packs take that are in use."""
        with self._context.catalog.read() as transaction:
            return transaction.stored_bytes(self._tenant.id)

    def retired_bytes(self) -> int:
        """Returns how many bytes wait to be given back: no quota counts them."""
        with self._context.catalog.read() as transaction:
            return transaction.retired_bytes(self._tenant.id)

    def _distrust(self) -> None:
        """Lets no attached directory rely on what is stored."""
        for attachment in self.workspaces():
            # On a disk that cannot be written to, no snapshot can be taken either.
            with suppress(OSError, HoldfastError), attachment.locked():
                forget_index(attachment.state)

    def _open_workspace(self, attachment: Attachment) -> Workspace:
        return Workspace(self._handle(attachment.namespace), attachment)

    def _find_id(self, transaction: Transaction, name: str | None) -> NamespaceId | None:
        """Returns which namespace is meant; None for all of them."""
        return None if name is None else self._handle(name).get_head(transaction).namespace_id

    def _handle(self, name: str) -> Handle:
        name = check_namespace(self._context, self._tenant.id, name)
        return Handle(self._context, self._tenant.id, name)

    def _heads(self) -> list[Head]:
        with self._context.catalog.read() as transaction:
            return transaction.list_heads(self._tenant.id)
