"""Requests and answers about tasks and schedules."""

from typing import Any

import msgspec

from holdfast.wire.basics import Instant


class TaskRequest(msgspec.Struct, kw_only=True):
    """A task to start."""

    name: str
    rollback_on_failure: bool | None = None
    metadata: dict[str, Any] | None = None


class TaskEndRequest(msgspec.Struct, kw_only=True):
    """What is said of a task that went well."""

    reason: str | None = None


class TaskFailureRequest(msgspec.Struct, kw_only=True):
    """What is said of a task that went wrong, and whether to go back."""

    error: str | None = None
    rollback: bool | None = None


class TaskAnswer(msgspec.Struct, kw_only=True):
    """A task. Its snapshots are named by their ids."""

    task_id: str
    namespace: str
    name: str
    status: str
    rollback_on_failure: bool
    metadata: dict[str, Any]
    actor: str | None
    reason: str | None
    before_snapshot_id: str
    snapshot_id: str | None
    """What was there when it ended, well or not."""
    restored_snapshot_id: str | None
    """The snapshot that shows what came back, if it went back."""
    started_at: Instant
    ended_at: Instant | None


class TaskList(msgspec.Struct, kw_only=True):
    """Tasks, newest first."""

    tasks: list[TaskAnswer]
    has_more: bool


class ScheduleRequest(msgspec.Struct, kw_only=True):
    """A schedule: one of the first three says when."""

    every_seconds: int | None = None
    after_changes: int | None = None
    when_quiet_seconds: int | None = None
    label: str | None = None
    only_if_changed: bool | None = None


class SchedulePatch(msgspec.Struct, kw_only=True):
    """What is to change in a schedule."""

    enabled: bool | None = None
    label: str | None = None


class ScheduleAnswer(msgspec.Struct, kw_only=True):
    """A schedule."""

    schedule_id: str
    namespace: str
    cadence: str
    """`every`, `changes` or `quiet`."""
    amount: int
    label: str | None
    enabled: bool
    only_if_changed: bool
    created_at: Instant
    next_at: Instant | None
    last_run_at: Instant | None
    last_snapshot_id: str | None
    last_error: str | None
    """Why the last attempt came to nothing; null once one went well."""


class ScheduleList(msgspec.Struct, kw_only=True):
    """The schedules of a namespace."""

    schedules: list[ScheduleAnswer]
