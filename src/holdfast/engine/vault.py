"""The vault: tenants and their namespaces, and what is done to all of them at once."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Self

from holdfast.catalog.rows import Sorted
from holdfast.engine import health, upkeep
from holdfast.engine.actions import told_of_namespace
from holdfast.engine.anchors import anchor_all
from holdfast.engine.attachments import Attachment, Attachments
from holdfast.engine.audit import verify_audit
from holdfast.engine.auditfile import export_audit
from holdfast.engine.backups.making import back_up
from holdfast.engine.bearers import Bearers
from holdfast.engine.chain import append
from holdfast.engine.collect import collect
from holdfast.engine.context import Context
from holdfast.engine.directory import forget as forget_index
from holdfast.engine.erasing.door import Erasures
from holdfast.engine.events import Events
from holdfast.engine.handle import Handle, check_name, check_namespace
from holdfast.engine.keys import Keys, record_uses
from holdfast.engine.lags import find_lags
from holdfast.engine.namespace import Namespace
from holdfast.engine.outbox import RETRIES_S, Outbox
from holdfast.engine.repair import repair
from holdfast.engine.replies import Replies
from holdfast.engine.replying import Replying
from holdfast.engine.retention import apply_all
from holdfast.engine.retiring import retired_bytes
from holdfast.engine.schedules import run_due
from holdfast.engine.sessions.lapsing import end_lapsed
from holdfast.engine.tenants import DEFAULT_TENANT, get_or_add
from holdfast.engine.totals import total_of
from holdfast.engine.traces import Traces
from holdfast.engine.trust import find_lost_packs
from holdfast.engine.verify import rebuild_index, verify
from holdfast.engine.webhooks import Webhooks
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
from holdfast.model import Head, SnapshotInfo, Tenant
from holdfast.model_entities import Totals
from holdfast.model_health import Health, Thresholds
from holdfast.model_keys import KeyInfo, KeyUse
from holdfast.model_traces import Trace
from holdfast.model_upkeep import (
    AuditReport,
    BackedUp,
    Collected,
    DeletedNamespace,
    Lags,
    Loss,
    Repaired,
    Verified,
)
from holdfast.progress import Progress, no_progress
from holdfast.running import Door
from holdfast.workspace.guard import check_directory, find_home


class TenantVault:
    """What one tenant has. Nothing here reaches another tenant's objects or rows."""

    def __init__(self, context: Context, tenant: Tenant) -> None:
        self._context = context
        self._tenant = tenant

    traces = cached_property(lambda self: Traces(self._context, self._tenant.id))
    keys = cached_property(lambda self: Keys(self._context, self._tenant.id))
    erasures = cached_property(lambda self: Erasures(self._context, self._tenant))
    events = cached_property(lambda self: Events(self._context, self._tenant.id))
    replies = cached_property(lambda self: Replies(self._context))
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

    def asked_by(self, request_id: str) -> "TenantVault":
        """Returns the same, for a request of a server: what it does says by which."""
        return TenantVault(replace(self._context, request_id=request_id), self._tenant)

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

    def namespaces(self) -> list[str]:
        """Returns the names of the namespaces that exist, in order."""
        return [head.name for head in self._heads() if head.deleted_at is None]

    def workspace(
        self,
        directory: str | os.PathLike[str],
        *,
        namespace: str | None = None,
        force: bool = False,
    ) -> Workspace:
        """Attaches a real directory to a namespace, or opens one that is attached already.

        Raises `DirectoryRefused` for `/`, the home directory and network mounts, unless `force`,
        and for what lies in a vault. One that is attached and missing can be opened, too: `undo`
        makes it anew.
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
        return self._open_workspace(attachments.get_or_add(path, namespace=namespace, known=known))

    def find_workspace(self, directory: str | os.PathLike[str]) -> Workspace | None:
        """Returns the attached directory that is, or holds, this one; None if none does.

        One that was moved within its file system is attached in its new place. One that is
        missing is returned as well: `undo` and `restore` make it anew.
        """
        path = Path(directory).expanduser()
        found = Attachments(self._context, self._tenant.id).find(path)
        return None if found is None else self._open_workspace(found)

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
        self, directory: str | os.PathLike[str] | None = None, *, namespace: str | None = None
    ) -> Attachment:
        """Lets go of an attached directory, named by its path or by its namespace.

        Nothing in it is touched, and the history stays: attached again, it goes on. The
        directory need not be there any more.
        """
        if directory is None and namespace is None:
            raise InvalidValue("name a directory, or a namespace")
        attachments = Attachments(self._context, self._tenant.id)
        path = None if directory is None else Path(directory).expanduser()
        found = attachments.get(path=path, namespace=namespace)
        with suppress(DirectoryMissing, DirectoryReplaced), self._open_workspace(found) as open_:
            open_.recover()
        with found.locked():
            attachments.detach(found)
        return found

    def delete_namespace(self, name: str) -> None:
        """Deletes a namespace with its timeline; recoverable until the grace period ends."""
        self._context.check_takes_away("delete a namespace")
        handle = self._handle(name)
        self._context.catalog.make_room()
        with self._context.work() as transaction:
            head = handle.lock(transaction)
            transaction.delete_namespace(head.namespace_id, now=self._context.clock())
            append(transaction, self._context, head, told_of_namespace("namespace.deleted", name))

    def deleted_namespaces(self) -> list["DeletedNamespace"]:
        """Returns the deleted namespaces that can still be recovered, newest first."""
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
            told = told_of_namespace("namespace.recovered", handle.name, recovered=name)
            append(transaction, self._context, handle.get_head(transaction), told)
        return Namespace(handle)

    def forget(self) -> list[SnapshotInfo]:
        """Applies every namespace's retention, and purges what outlived its grace period.

        Then finishes erasures that were interrupted; raises what keeps one from being finished.
        """
        gone = apply_all(self._context, self._tenant.id)
        self.erasures.finish()
        return gone

    def collect(self, *, now: bool = False, progress: Progress = no_progress) -> Collected:
        """Gives back the bytes that nothing needs any more, and has not for `keep_deleted`.

        With `now`, they go at once, and with them the way back to any older catalog, which may
        lack packs. Raises `Busy` if somebody needs them just then.
        """
        self._context.check_takes_away("collect")
        self._context.catalog.make_room()
        apply_all(self._context, self._tenant.id)
        return collect(self._context, self._tenant.id, now=now, progress=progress)

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

    def health(
        self,
        *,
        window: timedelta = health.DAY,
        agent_id: str | None = None,
        thresholds: Thresholds | None = None,
    ) -> Health:
        """Returns how often sessions of all namespaces were rolled back lately."""
        with self._context.catalog.read() as transaction:
            return health.measure(
                self._context,
                transaction,
                self._tenant.id,
                None,
                window=window,
                agent_id=agent_id,
                thresholds=thresholds,
            )

    def totals(self) -> Totals:
        """Returns how much there is in all namespaces together."""
        with self._context.catalog.read() as transaction:
            return total_of(self._context, transaction, self._tenant.id, None)

    def rebuild_index(self) -> int:
        """Writes the object index anew from the packs; returns how many objects it names."""
        return rebuild_index(self._context, self._tenant.id)

    def set_quota(self, quota_bytes: int | None) -> None:
        """Limits how many bytes the tenant's packs may take; None takes the limit away."""
        if quota_bytes is not None and quota_bytes < 0:
            raise InvalidValue("a quota is 0 or more bytes")
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
            return retired_bytes(transaction, self._tenant.id)

    def _distrust(self) -> None:
        """Lets no attached directory rely on what is stored."""
        for attachment in self.workspaces():
            # On a disk that cannot be written to, no snapshot can be taken either.
            with suppress(OSError, HoldfastError), attachment.locked():
                forget_index(attachment.state)

    def _open_workspace(self, attachment: Attachment) -> Workspace:
        return Workspace(self._handle(attachment.namespace), attachment)

    def _handle(self, name: str) -> Handle:
        name = check_namespace(self._context, self._tenant.id, name)
        return Handle(self._context, self._tenant.id, name)

    def _heads(self) -> list[Head]:
        with self._context.catalog.read() as transaction:
            return transaction.list_heads(self._tenant.id)


class Holdfast(TenantVault):
    """An open vault; by itself it is its default tenant."""

    def __init__(self, context: Context) -> None:
        try:
            tenant = get_or_add(context, DEFAULT_TENANT, is_first=True)
            # Drawn at random when the vault was made: no other vault has it.
            super().__init__(replace(context, vault=tenant.public_id.removeprefix("ws-")), tenant)
            self._bearers = Bearers(self._context, TenantVault)
        except HoldfastError:
            context.catalog.close()
            raise

    def tenant(self, name: str) -> TenantVault:
        """Returns a tenant's part of the vault; makes it on first use."""
        return TenantVault(self._context, get_or_add(self._context, check_name("tenant", name)))

    def tenants(self) -> list[str]:
        """Returns the names of the tenants."""
        with self._context.catalog.read() as transaction:
            return [tenant.name for tenant in transaction.iter_tenants()]

    def admit(self, secret: str) -> tuple[TenantVault, KeyInfo] | None:
        """Returns what an API key opens, with whoever holds it as the actor; None for none."""
        return self._bearers.admit(secret)

    def outbox(self, *, retries_s: Sequence[float] = RETRIES_S) -> Outbox:
        """Returns what is on its way to webhooks, of all tenants."""
        return Outbox(self._context, retries_s=retries_s)

    def end_lapsed_sessions(self) -> int:
        """Ends sessions whose time is over, some at a time; returns how many."""
        return end_lapsed(self._context)

    def run_schedules(self) -> int:
        """Takes the snapshots that schedules ask for by now; returns how many."""
        return run_due(self._context)

    def look_after(
        self, *, every: timedelta = timedelta(0), collects: timedelta = timedelta(0)
    ) -> bool:
        """Applies retention to all tenants, and gives bytes back; raises `Busy` if another does.

        Not if anybody did so less than `every` ago: then returns False. Bytes are given back where
        that is longer ago than `collects`. What fails for one tenant is raised after all others.
        """
        return upkeep.look_after(self._context, self._chores, every=every, collects=collects)

    def _chores(self, found: Sorted[Tenant], *, collects: bool) -> list[Callable[[], object]]:
        chores: list[Callable[[], object]] = [
            partial(anchor_all, self._context),
            self.outbox().purge,
            self.replies.purge,
        ]
        for each in found.sound:
            tenant = TenantVault(self._context, each)
            retain = partial(apply_all, self._context, each.id)
            # Apart from the rest: an erasure that cannot be finished keeps nothing else waiting.
            chores += [tenant.collect if collects else retain, tenant.erasures.finish]
        return chores

    def check_current(self) -> None:
        """Raises `CatalogReplaced` if other files lie where this process has the vault open.

        Whatever writes does so by itself; for who only reads, and stays.
        """
        self._context.catalog.check_current()

    def lags(self) -> Lags:
        """Counts what waits to be done by itself, over all tenants."""
        return find_lags(self._context)

    def find_loss(self) -> Loss | None:
        """Returns the changes that were acknowledged and are missing; None if all are there."""
        return self._context.catalog.find_loss()

    def accept_loss(self) -> None:
        """Takes note that somebody knows what is missing: it is not told any more.

        Packs that only the missing changes named may then be collected.
        """
        self._context.catalog.accept_loss()

    def backup(
        self, target: str | os.PathLike[str], *, progress: Progress = no_progress
    ) -> BackedUp:
        """Makes a backup of the whole vault in a directory, or brings the one there up to date.

        Beside writers and collections. Every object is hashed, and every head and snapshot
        followed to its last chunk; a vault that is damaged raises `Damaged`, and the backup
        before stays as it was. `holdfast.reinstate` makes a vault of it.
        """
        return back_up(self._context, Path(target).expanduser(), progress=progress)

    def record_uses(self, uses: Iterable[KeyUse]) -> None:
        """Remembers when API keys were last used, and how often."""
        record_uses(self._context, uses)

    def close(self) -> None:
        """Closes the vault; everything that was acknowledged is on disk already."""
        self._context.catalog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
