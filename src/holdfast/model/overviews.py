"""Values of overviews: all namespaces at a glance, and how things were over time.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

from datetime import datetime
from typing import Annotated, Final, NamedTuple

import msgspec

from holdfast.ids import NamespaceId, SnapshotId, TenantId
from holdfast.model.basics import Kind, Size
from holdfast.model.marks import FLAT, Named
from holdfast.model.traces import Level, Thresholds


class RunningTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that runs, as operators see it: not what an agent keeps with it."""

    id: Annotated[str, Named("task_id")]
    namespace: str
    name: str
    actor: str | None
    started_at: datetime


class LatestSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The newest snapshot of a namespace, as operators see it: not why it was taken."""

    id: Annotated[SnapshotId, Named("snapshot_id")]
    number: int
    kind: Kind
    label: str | None
    actor: str | None
    task_id: str | None
    created_at: datetime


class NamespaceOverview(msgspec.Struct, frozen=True, kw_only=True):
    """One namespace at a glance."""

    namespace: str
    created_at: datetime
    forked_from: str | None
    """What it was forked from; None for nothing, and for what is gone."""
    size: Annotated[Size, FLAT]
    quota_bytes: int | None
    snapshots: int
    """How many are on its timeline."""
    latest: LatestSnapshot | None
    dirty: bool
    """Whether anything was written since the snapshot that the head stands on."""
    running_tasks: int
    running: RunningTask | None
    """The one of them that began last."""
    rollbacks: int
    """How often its sessions were rolled back in the last 24 hours."""
    rate: float
    """The same, per session that was active then; 0 without any."""
    level: Level


class RollbackBucket(msgspec.Struct, frozen=True, kw_only=True):
    """How sessions fared in an hour or a day."""

    start: datetime
    """When it begins, in UTC; the last one may not be over yet."""
    rollbacks: int
    sessions: int
    """Those that left a trace in it."""
    rate: float
    level: Level


class RollbackSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Hours or days one after the other, without a gap."""

    buckets: list[RollbackBucket]
    next_since: datetime | None
    """Where it goes on: `since` of the next request; None if that was all."""
    thresholds: Thresholds = Thresholds()
    """From which rate on each level begins."""


class StorageDay(msgspec.Struct, frozen=True, kw_only=True):
    """How much there was on a day, when that was noted."""

    start: datetime
    """When the day begins, in UTC."""
    size: Annotated[Size, FLAT]
    """What namespaces hold, before compression and sharing."""
    stored_bytes: int | None
    """What counts against the workspace's quota; None for a single namespace."""


# As the catalog tells them


class Range(NamedTuple):
    """Names from one to another, both among them."""

    first: str
    last: str


ALL_NAMES: Final = Range("", "\U0010ffff")
"""From the first to behind the last: a name has no such character."""


class Glance(NamedTuple):
    """What is counted of a namespace."""

    snapshots: int
    is_dirty: bool
    running: int
    fork_of: str | None


class RollbackCount(NamedTuple):
    """How often sessions of a namespace were rolled back, and how many were active."""

    namespace_id: NamespaceId
    rollbacks: int
    sessions: int


class RollbackLevel(NamedTuple):
    """Whose rate it is: that of a namespace, or with 0 of all of a tenant's together."""

    tenant_id: TenantId
    namespace_id: int


class StorageRow(NamedTuple):
    """How much there was on a day, counted from 1970 on."""

    day: int
    size: Size
    stored_bytes: int | None
