"""Namespaces, as operators see them: retention, quotas, deletion and recovery.

What an agent's key takes away is brought back here, for as long as the grace period lasts. A name
with a slash in it cannot be a part of a path: it stands in the header X-Namespace, with `-` in
its place.
"""

from typing import Annotated, Final

from msgspec.structs import replace

from holdfast.engine.namespace import Namespace
from holdfast.engine.tenant import TenantVault
from holdfast.errors import InvalidName, NamespaceNotFound
from holdfast.model.basics import SnapshotInfo
from holdfast.model.entities import Entity
from holdfast.model.marks import Header
from holdfast.model.memories import Memory
from holdfast.model.upkeep import NamespaceInfo, Policy, Quota
from holdfast.operations.namespaces import (
    GetNamespace,
    GetNamespaceQuota,
    GetQuota,
    GetRetention,
    RecoverEntity,
    RecoverMemory,
    RecoverNamespace,
    SetNamespaceQuota,
    SetQuota,
    SetRetention,
)
from holdfast.server.callers import name_in
from holdfast.server.doors import answers, routes_of
from holdfast.server.parameters import Made
from holdfast.server.requests import Caller
from holdfast.server.routes.snapshots import to_answer
from holdfast.server.routing import Route, Who, get, post
from holdfast.wire.namespaces import (
    DeletedSnapshotList,
    ForgetRequest,
    ForgottenAnswer,
)
from holdfast.wire.snapshots import SnapshotAnswer

_WORKSPACE: Final = "/v1/workspaces/{workspace_id}"
_ALL: Final = f"{_WORKSPACE}/namespaces"
_ONE: Final = f"{_ALL}/{{name}}"
_ELSEWHERE: Final = "-"
"""Stands for a name in a path that is in the header."""


def provide_name(name: str, named: Annotated[str | None, Header("X-Namespace")] = None) -> str:
    """Returns the namespace that a request is about."""
    if name != _ELSEWHERE or named is None:
        return name
    if not named:
        # Not the one that really is called so: nobody means that who says nothing.
        raise InvalidName("namespace", named, reason="the header X-Namespace is empty")
    return name_in(named)


Place = Annotated[str, Made(provide_name)]


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
        keep_last=wanted.keep_last, keep_daily=wanted.keep_daily, keep_weekly=wanted.keep_weekly
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
    return Quota(quota_bytes=caller.vault.quota(), used_bytes=caller.vault.stored_bytes())


@answers(SetQuota)
def set_workspace_quota(caller: Caller, wanted: SetQuota) -> Quota:
    """Limits how many bytes a workspace may store."""
    caller.vault.set_quota(wanted.quota_bytes)
    return Quota(quota_bytes=caller.vault.quota(), used_bytes=caller.vault.stored_bytes())


@post(f"{_ONE}/forget", who=Who.OPERATOR)
def forget(
    caller: Caller, workspace_id: str, place: Place, data: ForgetRequest | None = None
) -> ForgottenAnswer:
    """Takes expired snapshots, and those that the policy does not keep, off the timeline."""
    wanted, agent = data or ForgetRequest(), caller.vault.namespace(place)
    rules = wanted.policy
    policy = rules and Policy(
        keep_last=rules.keep_last, keep_daily=rules.keep_daily, keep_weekly=rules.keep_weekly
    )
    gone = agent.forget(policy=policy, dry_run=bool(wanted.dry_run))
    return ForgottenAnswer(
        snapshots=[_told(agent, each) for each in gone], dry_run=bool(wanted.dry_run)
    )


@get(f"{_ONE}/deleted-snapshots", who=Who.OPERATOR)
def list_deleted_snapshots(caller: Caller, workspace_id: str, place: Place) -> DeletedSnapshotList:
    """Lists the snapshots that were taken off the timeline and can be recovered."""
    agent = caller.vault.namespace(place)
    found = agent.deleted_snapshots()
    return DeletedSnapshotList(snapshots=[_told(agent, snapshot) for snapshot in found])


@post(f"{_ONE}/snapshots/{{snapshot_id}}/recover", who=Who.OPERATOR)
def recover_snapshot(
    caller: Caller, workspace_id: str, place: Place, snapshot_id: str
) -> SnapshotAnswer:
    """Brings a snapshot back that was taken off the timeline."""
    agent = caller.vault.namespace(place)
    return _told(agent, agent.recover_snapshot(snapshot_id))


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


def _told(agent: Namespace, snapshot: SnapshotInfo) -> SnapshotAnswer:
    """Returns a snapshot as operators see it: not why an agent took it, in its own words."""
    return replace(to_answer(agent, snapshot), reason=None)


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
