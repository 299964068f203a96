"""Namespaces, as operators see them: retention, quotas, deletion and recovery.

What an agent's key takes away is brought back here, for as long as the grace period lasts. A name
with a slash in it cannot be a part of a path: it stands in the header X-Namespace, with `-` in
its place.
"""

from typing import Final

from msgspec.structs import replace

from holdfast.engine.namespace import Namespace
from holdfast.engine.tenant import TenantVault
from holdfast.errors import NamespaceNotFound
from holdfast.model.basics import SnapshotInfo, without_words
from holdfast.model.entities import Entity
from holdfast.model.memories import Memory
from holdfast.model.upkeep import NamespaceInfo, Policy, Quota
from holdfast.operations.namespaces import (
    ForgetSnapshots,
    GetNamespace,
    GetNamespaceQuota,
    GetQuota,
    GetRetention,
    ListDeletedSnapshots,
    RecoverEntity,
    RecoverMemory,
    RecoverNamespace,
    RecoverSnapshot,
    SetNamespaceQuota,
    SetQuota,
    SetRetention,
)
from holdfast.server.doors import answers, routes_of
from holdfast.server.requests import Caller
from holdfast.server.routing import Route


@answers(GetNamespace)
def show(caller: Caller, wanted: GetNamespace) -> NamespaceInfo:
    """Returns how much a namespace holds."""
    return _info(caller, wanted.name)


@answers(RecoverNamespace)
def recover(caller: Caller, wanted: RecoverNamespace) -> NamespaceInfo:
    """Brings a deleted namespace back, under its name or another."""
    return _info(caller, caller.vault.recover_namespace(**vars(wanted)).name)


@answers(GetRetention)
def read_retention(caller: Caller, wanted: GetRetention) -> Policy:
    """Returns which snapshots are kept."""
    return caller.vault.namespace(wanted.name).retention()


@answers(SetRetention)
def set_retention(caller: Caller, wanted: SetRetention) -> Policy:
    """Says which snapshots are kept."""
    return _existing(caller, wanted.name).set_retention(
        keep_last=wanted.keep_last,
        keep_daily=wanted.keep_daily,
        keep_weekly=wanted.keep_weekly,
        keep_traces_days=wanted.keep_traces_days,
    )


@answers(GetNamespaceQuota)
def read_quota(caller: Caller, wanted: GetNamespaceQuota) -> Quota:
    """Returns how many bytes a namespace may hold, and how many it does."""
    return _quota(caller.vault.namespace(wanted.name))


@answers(SetNamespaceQuota)
def set_quota(caller: Caller, wanted: SetNamespaceQuota) -> Quota:
    """Limits how many bytes a namespace may hold."""
    agent = _existing(caller, wanted.name)
    agent.set_quota(wanted.quota_bytes)
    return _quota(agent)


@answers(GetQuota)
def read_workspace_quota(caller: Caller, _: GetQuota) -> Quota:
    """Returns how many bytes a workspace may store, and how many it does."""
    return Quota(quota_bytes=caller.vault.quota(), used_bytes=caller.vault.totals().storage_bytes)


@answers(SetQuota)
def set_workspace_quota(caller: Caller, wanted: SetQuota) -> Quota:
    """Limits how many bytes a workspace may store."""
    caller.vault.set_quota(wanted.quota_bytes)
    return Quota(quota_bytes=caller.vault.quota(), used_bytes=caller.vault.totals().storage_bytes)


@answers(ForgetSnapshots)
def forget(caller: Caller, wanted: ForgetSnapshots) -> list[SnapshotInfo]:
    """Takes snapshots off the timeline that nothing keeps."""
    agent = caller.vault.namespace(wanted.name)
    gone = agent.forget(policy=wanted.policy, dry_run=wanted.dry_run)
    return [without_words(snapshot, agent.name) for snapshot in gone]


@answers(ListDeletedSnapshots)
def list_deleted_snapshots(caller: Caller, wanted: ListDeletedSnapshots) -> list[SnapshotInfo]:
    """Lists the snapshots that were taken off the timeline and can be recovered."""
    agent = caller.vault.namespace(wanted.name)
    return [without_words(snapshot, agent.name) for snapshot in agent.deleted_snapshots()]


@answers(RecoverSnapshot)
def recover_snapshot(caller: Caller, wanted: RecoverSnapshot) -> SnapshotInfo:
    """Brings a snapshot back that was taken off the timeline."""
    agent = caller.vault.namespace(wanted.name)
    return without_words(agent.recover_snapshot(wanted.snapshot_id), agent.name)


@answers(RecoverMemory)
def recover_memory(caller: Caller, wanted: RecoverMemory) -> Memory:
    """Brings a memory back that was forgotten; what it says is for its agents alone."""
    found = caller.vault.namespace(wanted.name).memory.recover(wanted.memory_id)
    return replace(found, content="", tags=(), metadata={})


@answers(RecoverEntity)
def recover_entity(caller: Caller, wanted: RecoverEntity) -> Entity:
    """Brings an entity back that was deleted; what is known of it is for its agents alone."""
    found = caller.vault.namespace(wanted.name).entities.recover(wanted.row_id)
    return replace(found, attributes={})


def _info(caller: Caller, name: str) -> NamespaceInfo:
    agent = caller.vault.namespace(name)
    quota, size, newest = agent.quota(), agent.size(), agent.timeline(limit=1)
    return NamespaceInfo(
        namespace=agent.name,
        entries=size.entries,
        size_bytes=size.bytes,
        dirty=agent.is_dirty(),
        quota_bytes=quota,
        latest_snapshot_id=newest[0].id if newest else None,
    )


def _quota(agent: Namespace) -> Quota:
    return Quota(quota_bytes=agent.quota(), used_bytes=agent.size().bytes)


def _existing(caller: Caller, name: str) -> Namespace:
    """Returns a namespace that is there: an operator's typing error makes none."""
    if name not in caller.vault.namespaces():
        raise NamespaceNotFound(name)
    return caller.vault.namespace(name)


ROUTES: Final[list[Route]] = [
    *routes_of(TenantVault, lambda caller: caller.vault),
    show,
    recover,
    read_retention,
    set_retention,
    forget,
    read_quota,
    set_quota,
    list_deleted_snapshots,
    recover_snapshot,
    recover_memory,
    recover_entity,
    read_workspace_quota,
    set_workspace_quota,
]
