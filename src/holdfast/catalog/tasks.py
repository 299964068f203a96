"""The part of a transaction that is about tasks and schedules.

Both change together with the snapshot that they ask for, in its transaction, and only if they
are still as they were seen: of several workers that want to do the same, one does.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import Row
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, TenantId
from holdfast.instants import from_us, to_us
from holdfast.model_tasks import Cadence, DueSchedule, Schedule, TaskRun, TaskStatus

_SCHEDULE_COLUMNS: Final = 14
_LATEST: Final = 2**62
_LAST_ID: Final = "\U0010ffff"
"""Sorts behind every id."""


class TaskQueries:
    """Rows of tasks and schedules, and of what is done now and then."""

    __slots__ = ()

    _db: Driver

    def add_task(self, task: TaskRun) -> None:
        self._db.run(
            "add_task",
            name=task.name,
            metadata=task.metadata,
            actor=task.actor,
            before=task.before,
            started_at=to_us(task.started_at),
            began=task.began,
            is_named=int(task.is_named),
            **_ended(task),
        )

    def find_task(self, namespace_id: NamespaceId, task_id: str) -> TaskRun | None:
        row = self._db.one("find_task", namespace_id=namespace_id, id=task_id)
        return None if row is None else _to_task(row)

    def end_task(self, task: TaskRun, *, seen: TaskStatus) -> bool:
        """Writes how a task ended; False if it has another status than was seen."""
        return self._db.run("end_task", seen=seen.value, **_ended(task)) > 0

    def list_tasks(
        self,
        namespace_id: NamespaceId,
        *,
        status: TaskStatus | None,
        before: tuple[datetime, str] | None,
        most: int,
    ) -> Sequence[TaskRun]:
        """Returns tasks, newest first."""
        instant, task_id = (_LATEST, _LAST_ID) if before is None else (to_us(before[0]), before[1])
        rows = self._db.all(
            "list_tasks",
            namespace_id=namespace_id,
            status="" if status is None else status.value,
            before_at=instant,
            before_id=task_id,
            most=most,
        )
        return [_to_task(row) for row in rows]

    def add_schedule(self, schedule: Schedule) -> None:
        self._db.run(
            "add_schedule",
            cadence=schedule.cadence.value,
            amount=schedule.amount,
            only_if_changed=int(schedule.only_if_changed),
            created_at=to_us(schedule.created_at),
            **_said(schedule),
            **_run(schedule),
            **_seen(schedule),
        )

    def find_schedule(self, namespace_id: NamespaceId, schedule_id: str) -> Schedule | None:
        row = self._db.one("find_schedule", namespace_id=namespace_id, id=schedule_id)
        return None if row is None else _to_schedule(row)

    def list_schedules(self, namespace_id: NamespaceId) -> list[Schedule]:
        rows = self._db.all("list_schedules", namespace_id=namespace_id)
        return [_to_schedule(row) for row in rows]

    def lock_schedule(self, namespace_id: NamespaceId, schedule_id: str) -> Schedule | None:
        """Returns a schedule that nobody else changes until the transaction ends."""
        # To write a row is what locks it, on both databases.
        self._db.run("lock_schedule", namespace_id=namespace_id, id=schedule_id)
        return self.find_schedule(namespace_id, schedule_id)

    def change_schedule(self, schedule: Schedule) -> None:
        """Writes what its owner says of a schedule that is locked."""
        self._db.run("change_schedule", **_said(schedule), **_seen(schedule))

    def advance_schedule(self, schedule: Schedule, *, seen: datetime) -> bool:
        """Writes how far a schedule is, and when it is looked at next.

        False if it is no longer due when it was seen to be, or was stopped or deleted since.
        """
        return (
            self._db.run(
                "advance_schedule",
                namespace_id=schedule.namespace_id,
                id=schedule.id,
                seen=to_us(seen),
                **_run(schedule),
                **_seen(schedule),
            )
            > 0
        )

    def delete_schedule(self, namespace_id: NamespaceId, schedule_id: str) -> bool:
        return self._db.run("delete_schedule", namespace_id=namespace_id, id=schedule_id) > 0

    def due_schedules(self, *, now: datetime, most: int) -> list[DueSchedule]:
        """Returns what is to be looked at, of namespaces that are not deleted.

        What waits for writes is among them only if there are some.
        """
        rows = self._db.all("due_schedules", now=to_us(now), most=most)
        return [
            DueSchedule(
                _to_schedule(row), TenantId(row[_SCHEDULE_COLUMNS]), row[_SCHEDULE_COLUMNS + 1]
            )
            for row in rows
        ]

    def find_chore(self, name: str) -> datetime | None:
        """Returns when something was last done, whoever did it."""
        row = self._db.one("find_chore", name=name)
        return None if row is None else from_us(row[0])

    def set_chore(self, name: str, *, done_at: datetime) -> None:
        self._db.run("set_chore", name=name, done_at=to_us(done_at))


def _ended(task: TaskRun) -> dict[str, Any]:
    return {
        "id": task.id,
        "namespace_id": task.namespace_id,
        "status": task.status.value,
        "rolls_back": int(task.rolls_back),
        "reason": task.reason,
        "after": task.after,
        "restored": task.restored,
        "ended_at": None if task.ended_at is None else to_us(task.ended_at),
    }


def _said(schedule: Schedule) -> dict[str, Any]:
    """Returns what its owner says of a schedule."""
    return {
        "id": schedule.id,
        "namespace_id": schedule.namespace_id,
        "label": schedule.label,
        "enabled": int(schedule.enabled),
    }


def _seen(schedule: Schedule) -> dict[str, Any]:
    """Returns what was seen when a schedule was looked at."""
    return {
        "next_at": to_us(schedule.next_at),
        "seen_sequence": schedule.seen_sequence,
        "seen_at": to_us(schedule.seen_at),
    }


def _run(schedule: Schedule) -> dict[str, Any]:
    """Returns what came of a schedule so far."""
    return {
        "last_run_at": None if schedule.last_run_at is None else to_us(schedule.last_run_at),
        "last_snapshot_id": schedule.last_snapshot_id,
        "last_error": schedule.last_error,
    }


def _to_task(row: Row) -> TaskRun:
    try:
        return TaskRun(
            id=row[0],
            namespace_id=NamespaceId(row[1]),
            name=row[2],
            status=TaskStatus(row[3]),
            rolls_back=bool(row[4]),
            metadata=row[5],
            actor=row[6],
            reason=row[7],
            before=row[8],
            after=row[9],
            restored=row[10],
            started_at=from_us(row[11]),
            ended_at=None if row[12] is None else from_us(row[12]),
            began=row[13],
            is_named=bool(row[14]),
        )
    except (ValueError, OverflowError) as exc:
        message = f"the row of task {row[0]} cannot be read: {exc}"
        raise Damaged(message) from exc


def _to_schedule(row: Row) -> Schedule:
    try:
        return Schedule(
            id=row[0],
            namespace_id=NamespaceId(row[1]),
            cadence=Cadence(row[2]),
            amount=row[3],
            label=row[4],
            enabled=bool(row[5]),
            only_if_changed=bool(row[6]),
            created_at=from_us(row[7]),
            next_at=from_us(row[8]),
            seen_sequence=row[9],
            seen_at=from_us(row[10]),
            last_run_at=None if row[11] is None else from_us(row[11]),
            last_snapshot_id=row[12],
            last_error=row[13],
        )
    except (ValueError, OverflowError) as exc:
        message = f"the row of schedule {row[0]} cannot be read: {exc}"
        raise Damaged(message) from exc
