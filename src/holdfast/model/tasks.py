"""Values of tasks and schedules: what asks for snapshots by itself.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

import enum
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from holdfast.display import line, quoted
from holdfast.ids import NamespaceId, SnapshotId, TenantId
from holdfast.instants import EPOCH
from holdfast.model.basics import Plane
from holdfast.model.marks import HERE, Inside, Named, Shape, While

_OBJECT: Final = Shape(
    dict[str, Any], msgspec.json.decode, lambda value: msgspec.json.encode(value).decode()
)
"""Text here, and the object that it is of on the wire."""


class TaskStatus(enum.StrEnum):
    """How far a task is."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class TaskRun(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of an agent's work that lasts longer than a call."""

    id: Annotated[str, Named("task_id")]
    namespace_id: Annotated[NamespaceId, Inside(0)]
    namespace: Annotated[str | None, HERE] = None
    name: str
    status: TaskStatus = TaskStatus.RUNNING
    rolls_back: Annotated[bool, Named("rollback_on_failure")] = False
    """Whether a failure brings back what was there before: once it failed, whether it shall."""
    metadata: Annotated[str, _OBJECT] = "{}"
    """A JSON object."""
    actor: str | None = None
    reason: str | None = None
    """What was said of its end."""
    before: Annotated[SnapshotId, Named("before_snapshot_id")]
    after: Annotated[SnapshotId | None, Named("snapshot_id")] = None
    """What was there when it ended, well or not."""
    restored: Annotated[SnapshotId | None, Named("restored_snapshot_id")] = None
    """The snapshot that the way back appended, if there was one."""
    started_at: datetime
    ended_at: datetime | None = None
    began: Annotated[int, Inside(0)] = 0
    """How many changes of the namespace there had been when it began."""
    is_named: Annotated[bool, Inside(outside=False)] = False
    """Whether whoever works on it says so with every change."""
    within: Annotated[tuple[str, ...], Inside(())] = ()
    """The tasks that it was begun in, those of a directory first, each outermost first."""
    beside_others: Annotated[bool, Inside(outside=False)] = False
    """Whether others changed the namespace while it ran, where its changes do not name it."""

    def __repr__(self) -> str:
        return line("TaskRun", self.id, self.status, quoted(self.name))


UNKNOWN: Final = b"/what is no longer known"
"""The key of a change that was noted, and of which nothing is known any more. No path begins so."""


class TaskChange(msgspec.Struct, frozen=True, kw_only=True):
    """One entry that a task changed."""

    plane: Plane
    key: bytes
    old_entry: bytes | None
    """As it was before the task's first change of it; None if it was not there."""
    new_entry: bytes | None
    """As the task's last change has left it; None if it is gone."""
    is_shared: bool = False
    """Whether somebody else changed it between two changes of the task's own."""


class Cadence(enum.StrEnum):
    """When a schedule takes a snapshot."""

    EVERY = "every"
    """So many seconds after the last time."""
    CHANGES = "changes"
    """After so many writes."""
    QUIET = "quiet"
    """When nothing was written for so many seconds."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Snapshots that nobody has to ask for."""

    id: Annotated[str, Named("schedule_id")]
    namespace_id: Annotated[NamespaceId, Inside(0)]
    namespace: Annotated[str | None, HERE] = None
    cadence: Cadence
    amount: int
    """Seconds or writes, as the cadence says."""
    label: str | None = None
    enabled: bool = True
    only_if_changed: bool = True
    created_at: datetime
    next_at: Annotated[datetime, While("enabled", EPOCH)]
    """When it is looked at next; nothing looks at one that is stopped."""
    seen_sequence: Annotated[int, Inside(0)] = 0
    seen_at: Annotated[datetime, Inside(EPOCH)]
    """How many writes there had been when it was looked at, and since when."""
    last_run_at: datetime | None = None
    last_snapshot_id: SnapshotId | None = None
    last_error: str | None = None
    """Why the last attempt came to nothing; None once one went well."""


class DueSchedule(msgspec.Struct, frozen=True):
    """A schedule with where it belongs."""

    schedule: Schedule
    tenant_id: TenantId
    namespace: str
