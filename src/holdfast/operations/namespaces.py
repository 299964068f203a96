"""Namespaces, as operators see them: retention, quotas, deletion and recovery."""

from dataclasses import KW_ONLY
from typing import Annotated, Final

import msgspec

from holdfast.errors import TaskNotFound
from holdfast.model.basics import SnapshotInfo
from holdfast.model.entities import Entity
from holdfast.model.marks import Header
from holdfast.model.memories import Memory
from holdfast.model.overviews import NamespaceOverview, RunningTask
from holdfast.model.upkeep import DeletedNamespace, NamespaceInfo, Policy, Quota
from holdfast.operations.operation import WORKSPACE, Arguments, Operation, Paged, Who, Work
from holdfast.operations.shapes import given

_ALL: Final = f"{WORKSPACE}/namespaces"
_ONE: Final = f"{_ALL}/{{name}}"

_Name = Annotated[str, Header("X-Namespace")]

QuotaBytes = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None
"""How many bytes something may take; None for as many as fit."""


class ListNamespaces(
    Operation[list[str]],
    get=_ALL,
    who=Who.OPERATOR,
    under="namespaces",
    paged=Paged(cursor="starting_after", last=None, usual=100, most=1000),
):
    """Returns the names of the namespaces that exist, in order; those after one, or all.

    With `prefix`, only those that begin so.
    """

    _: KW_ONLY
    prefix: str = ""
    limit: int | None = None
    starting_after: str | None = None


class Overview(
    Operation[list[NamespaceOverview]],
    get=f"{WORKSPACE}/overview",
    who=Who.OPERATOR,
    work=Work.SLOW,
    under="namespaces",
    paged=Paged(cursor="starting_after", last="namespace", usual=100, most=1000),
):
    """Returns what is known of each namespace at a glance, in the order of their names.

    Those after one, or all; with `prefix`, only those that begin so. How often sessions are rolled
    back is of the last 24 hours.
    """

    _: KW_ONLY
    prefix: str = ""
    limit: int | None = None
    starting_after: str | None = None


class ListRunningTasks(
    Operation[list[RunningTask]],
    get=f"{WORKSPACE}/running-tasks",
    who=Who.OPERATOR,
    under="tasks",
    paged=Paged("starting_after", "id", usual=100, most=1000, unknown=(TaskNotFound,)),
):
    """Returns the tasks of all namespaces that run, newest first.

    `starting_after` is the id of the last one seen.
    """

    _: KW_ONLY
    limit: int | None = None
    starting_after: str | None = None


class ListDeletedNamespaces(
    Operation[list[DeletedNamespace]],
    get=f"{WORKSPACE}/deleted-namespaces",
    who=Who.OPERATOR,
    under="deleted",
):
    """Returns the deleted namespaces that can still be recovered, newest first."""


class GetNamespace(Operation[NamespaceInfo], get=_ONE, who=Who.OPERATOR):
    """Returns how much a namespace holds; raises `NamespaceNotFound`."""

    name: _Name


class DeleteNamespace(Operation[None], delete=_ONE, status=204, who=Who.OPERATOR):
    """Deletes a namespace with its timeline; recoverable until the grace period ends."""

    name: _Name


class RecoverNamespace(
    Operation[NamespaceInfo], post=f"{_ONE}/recover", who=Who.OPERATOR, needs_body=False
):
    """Brings a deleted namespace back during the grace period.

    Of several with this name the last deleted one, or that with the `number` that the list of
    deleted ones tells. `as_name` gives it another name, where its own is taken.
    """

    name: _Name
    _: KW_ONLY
    number: int | None = None
    as_name: str | None = None


class GetRetention(Operation[Policy], get=f"{_ONE}/retention", who=Who.OPERATOR):
    """Returns which snapshots are kept."""

    name: _Name


class Keep(Arguments):
    """Which snapshots are kept, and for how many days traces that nothing needs."""

    _: KW_ONLY
    keep_last: int = 0
    keep_daily: int = 0
    keep_weekly: int = 0
    keep_traces_days: int = 0

    @property
    def policy(self) -> Policy:
        """The same as a policy; raises `InvalidValue`."""
        return Policy(
            keep_last=self.keep_last,
            keep_daily=self.keep_daily,
            keep_weekly=self.keep_weekly,
            keep_traces_days=self.keep_traces_days,
        )


class SetRetention(Keep, Operation[Policy], put=f"{_ONE}/retention", who=Who.OPERATOR):
    """Sets which snapshots are kept; all at 0 means that only age decides.

    And for how many days traces are, if nothing needs them; 0 for as long as the server says.
    """

    name: _Name


class GetNamespaceQuota(Operation[Quota], get=f"{_ONE}/quota", who=Who.OPERATOR):
    """Returns how many bytes a namespace may hold, and holds."""

    name: _Name


class SetNamespaceQuota(Operation[Quota], put=f"{_ONE}/quota", who=Who.OPERATOR):
    """Limits how many bytes a namespace may hold; None takes the limit away."""

    name: _Name
    quota_bytes: QuotaBytes


class GetQuota(Operation[Quota], get=f"{WORKSPACE}/quota", who=Who.OPERATOR):
    """Returns how many bytes the workspace may take, and takes."""


class SetQuota(Operation[Quota], put=f"{WORKSPACE}/quota", who=Who.OPERATOR):
    """Limits how many bytes the workspace may take; None takes the limit away."""

    quota_bytes: QuotaBytes


class Forget(Arguments):
    """Which snapshots to take off the timeline; without `policy`, as the namespace's own says."""

    _: KW_ONLY
    policy: Annotated[Policy, given(Policy)] | None = None
    dry_run: bool = False


class ForgetSnapshots(
    Forget,
    Operation[list[SnapshotInfo]],
    post=f"{_ONE}/forget",
    who=Who.OPERATOR,
    under="snapshots",
    repeats=("dry_run",),
    needs_body=False,
):
    """Takes expired snapshots, and those that the policy does not keep, off the timeline.

    With `policy`, as that says, and not as the namespace's own does. With `dry_run`, says which
    they are, and takes none.
    """

    name: _Name


class ListDeletedSnapshots(
    Operation[list[SnapshotInfo]],
    get=f"{_ONE}/deleted-snapshots",
    who=Who.OPERATOR,
    under="snapshots",
):
    """Returns the deleted snapshots that can still be recovered, newest first."""

    name: _Name


class RecoverSnapshot(
    Operation[SnapshotInfo], post=f"{_ONE}/snapshots/{{snapshot_id}}/recover", who=Who.OPERATOR
):
    """Brings a deleted snapshot back during the grace period."""

    name: _Name
    snapshot_id: str


class RecoverMemory(
    Operation[Memory], post=f"{_ONE}/memories/{{memory_id}}/recover", who=Who.OPERATOR
):
    """Brings a deleted memory back during the grace period."""

    name: _Name
    memory_id: str


class RecoverEntity(
    Operation[Entity], post=f"{_ONE}/entities/{{row_id}}/recover", who=Who.OPERATOR
):
    """Brings a deleted entity back during the grace period."""

    name: _Name
    row_id: str
