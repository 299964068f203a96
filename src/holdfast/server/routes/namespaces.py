"""Namespaces, as operators see them: retention, quotas, deletion and recovery.

What an agent's key takes away is brought back here, for as long as the grace period lasts. A name
with a slash in it cannot be a part of a path: it stands in the header X-Namespace, with `-` in
its place.
"""

from typing import Annotated, Final, TypeVar

from msgspec import convert
from msgspec.structs import replace

from holdfast.engine.namespace import Namespace
from holdfast.errors import InvalidName, NamespaceNotFound
from holdfast.model.basics import SnapshotInfo
from holdfast.model.upkeep import Policy
from holdfast.operations.shapes import shape_of
from holdfast.server.callers import name_in
from holdfast.server.paging import page_size
from holdfast.server.parameters import Header, Made
from holdfast.server.requests import Caller
from holdfast.server.routes.snapshots import to_answer
from holdfast.server.routing import Route, Who, delete, get, post, put
from holdfast.server.times import shown
from holdfast.wire.entities import EntityAnswer
from holdfast.wire.memories import MemoryAnswer
from holdfast.wire.namespaces import (
    DeletedNamespaceAnswer,
    DeletedNamespaceList,
    DeletedSnapshotList,
    ForgetRequest,
    ForgottenAnswer,
    NamespaceAnswer,
    NamespaceList,
    QuotaAnswer,
    QuotaRequest,
    RecoverRequest,
    RetentionBody,
)
from holdfast.wire.snapshots import SnapshotAnswer

A = TypeVar("A")

LISTED, MOST_LISTED = 100, 1000
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


@get(_ALL, who=Who.OPERATOR)
def list_(
    caller: Caller, workspace_id: str, limit: int | None = None, starting_after: str = ""
) -> NamespaceList:
    """Lists the namespaces by name; `starting_after` is the last one seen."""
    size = page_size(limit, usual=LISTED, most=MOST_LISTED)
    names = [name for name in caller.vault.namespaces() if name > starting_after]
    return NamespaceList(namespaces=names[:size], has_more=len(names) > size)


@get(f"{_WORKSPACE}/deleted-namespaces", who=Who.OPERATOR)
def list_deleted(caller: Caller, workspace_id: str) -> DeletedNamespaceList:
    """Lists the deleted namespaces that can be recovered, newest first."""
    found = caller.vault.deleted_namespaces()
    return DeletedNamespaceList(
        deleted=[
            DeletedNamespaceAnswer(
                number=each.number, namespace=each.name, deleted_at=shown(each.deleted_at)
            )
            for each in found
        ]
    )


@get(_ONE, who=Who.OPERATOR)
def show(caller: Caller, workspace_id: str, place: Place) -> NamespaceAnswer:
    """Returns how much a namespace holds."""
    return _answer(caller, place)


@delete(_ONE, status=204, who=Who.OPERATOR)
def remove(caller: Caller, workspace_id: str, place: Place) -> None:
    """Deletes a namespace with its timeline; it can be recovered for a while."""
    caller.vault.delete_namespace(place)


@post(f"{_ONE}/recover", who=Who.OPERATOR)
def recover(
    caller: Caller, workspace_id: str, place: Place, data: RecoverRequest | None = None
) -> NamespaceAnswer:
    """Brings a deleted namespace back, under its name or another."""
    wanted = data or RecoverRequest()
    back = caller.vault.recover_namespace(place, number=wanted.number, as_name=wanted.as_name)
    return _answer(caller, back.name)


@get(f"{_ONE}/retention", who=Who.OPERATOR)
def read_retention(caller: Caller, workspace_id: str, place: Place) -> RetentionBody:
    """Returns which snapshots are kept."""
    return _retention(caller.vault.namespace(place).retention())


@put(f"{_ONE}/retention", who=Who.OPERATOR)
def set_retention(
    caller: Caller, workspace_id: str, place: Place, data: RetentionBody
) -> RetentionBody:
    """Says which snapshots are kept; all at 0 means that only age decides."""
    _check_there(caller, place)
    policy = caller.vault.namespace(place).set_retention(
        keep_last=data.keep_last, keep_daily=data.keep_daily, keep_weekly=data.keep_weekly
    )
    return _retention(policy)


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


@get(f"{_ONE}/quota", who=Who.OPERATOR)
def read_quota(caller: Caller, workspace_id: str, place: Place) -> QuotaAnswer:
    """Returns how many bytes a namespace may hold, and how many it does."""
    agent = caller.vault.namespace(place)
    return QuotaAnswer(quota_bytes=agent.quota(), used_bytes=agent.size().bytes)


@put(f"{_ONE}/quota", who=Who.OPERATOR)
def set_quota(caller: Caller, workspace_id: str, place: Place, data: QuotaRequest) -> QuotaAnswer:
    """Limits how many bytes a namespace may hold."""
    _check_there(caller, place)
    agent = caller.vault.namespace(place)
    agent.set_quota(data.quota_bytes)
    return QuotaAnswer(quota_bytes=agent.quota(), used_bytes=agent.size().bytes)


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


@post(f"{_ONE}/memories/{{memory_id}}/recover", who=Who.OPERATOR)
def recover_memory(caller: Caller, workspace_id: str, place: Place, memory_id: str) -> MemoryAnswer:
    """Brings a memory back that was forgotten; what it says is for its agents alone."""
    found = caller.vault.namespace(place).memory.recover(memory_id)
    return _written(replace(found, content="", tags=(), metadata={}), MemoryAnswer)


@post(f"{_ONE}/entities/{{row_id}}/recover", who=Who.OPERATOR)
def recover_entity(caller: Caller, workspace_id: str, place: Place, row_id: str) -> EntityAnswer:
    """Brings an entity back that was deleted; what is known of it is for its agents alone."""
    found = caller.vault.namespace(place).entities.recover(row_id)
    return _written(replace(found, attributes={}), EntityAnswer)


@get(f"{_WORKSPACE}/quota", who=Who.OPERATOR)
def read_workspace_quota(caller: Caller, workspace_id: str) -> QuotaAnswer:
    """Returns how many bytes a workspace may store, and how many it does."""
    return QuotaAnswer(quota_bytes=caller.vault.quota(), used_bytes=caller.vault.stored_bytes())


@put(f"{_WORKSPACE}/quota", who=Who.OPERATOR)
def set_workspace_quota(caller: Caller, workspace_id: str, data: QuotaRequest) -> QuotaAnswer:
    """Limits how many bytes a workspace may store."""
    caller.vault.set_quota(data.quota_bytes)
    return QuotaAnswer(quota_bytes=caller.vault.quota(), used_bytes=caller.vault.stored_bytes())


def _told(agent: Namespace, snapshot: SnapshotInfo) -> SnapshotAnswer:
    """Returns a snapshot as operators see it: not why an agent took it, in its own words."""
    return replace(to_answer(agent, snapshot), reason=None)


def _answer(caller: Caller, name: str) -> NamespaceAnswer:
    agent = caller.vault.namespace(name)
    quota, size, newest = agent.quota(), agent.size(), agent.timeline(limit=1)
    return NamespaceAnswer(
        namespace=agent.name,
        entries=size.entries,
        size_bytes=size.bytes,
        dirty=agent.is_dirty(),
        quota_bytes=quota,
        latest_snapshot_id=newest[0].id if newest else None,
    )


def _check_there(caller: Caller, name: str) -> None:
    """Raises for a namespace that is not there: an operator's typing error makes none."""
    if name not in caller.vault.namespaces():
        raise NamespaceNotFound(name)


def _written(value: object, kind: type[A]) -> A:
    write = shape_of(type(value)).send
    return convert(value if write is None else write(value), kind, from_attributes=True)


def _retention(policy: Policy) -> RetentionBody:
    return RetentionBody(
        keep_last=policy.keep_last, keep_daily=policy.keep_daily, keep_weekly=policy.keep_weekly
    )


ROUTES: Final[list[Route]] = [
    list_,
    list_deleted,
    show,
    remove,
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
