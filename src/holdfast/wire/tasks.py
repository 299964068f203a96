"""Requests and answers about tasks."""

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
