"""The part of a transaction that is about tasks and schedules.

Both change together with the snapshot that they ask for, in its transaction, and only if they
are still as they were seen: of several workers that want to do the same, one does.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

from msgspec.structs import replace

from holdfast.catalog.absence import AbsenceQueries
from holdfast.catalog.counting import all_of, text_bytes
from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import NO_LIMIT, SCHEDULE, TASK, Sorted
from holdfast.errors import Damaged
from holdfast.ids import LAST_ID, NamespaceId, TenantId
from holdfast.instants import from_us, to_us
from holdfast.model.basics import SnapshotInfo
from holdfast.model.tasks import DueSchedule, Schedule, TaskRun, TaskStatus


class TaskQueries(AbsenceQueries):
    """Rows of tasks and schedules, and of what is done now and then."""

    __slots__ = ()

    _db: Driver

    def add_task(self, task: TaskRun) -> None:
        row = TASK.write(task)
        self._db.say("add_task", **row)
        self.count_in(task.namespace_id, tasks=1, row_bytes=text_bytes("task", row))

    def find_task(self, namespace_id: NamespaceId, task_id: str) -> TaskRun | None:
        query, asked = "find_task", {"namespace_id": namespace_id, "id": task_id}
        return TASK.find(self._db.one(query, **asked) or self.look_again(TASK, query, asked))

    def find_tasks(self, namespace_id: NamespaceId, task_ids: Sequence[str]) -> list[TaskRun]:
        """Returns those of some ids that are tasks."""
        ids = json.dumps([*task_ids])
        return [*map(TASK.read, self._db.all("find_tasks", namespace_id=namespace_id, ids=ids))]

    def end_task(self, task: TaskRun, *, seen: TaskStatus) -> bool:
        """Writes how a task ended; False if it has another status than was seen."""
        if self._db.run("end_task", seen=seen.value, **TASK.write(task)) == 0:
            return False
        if seen is TaskStatus.RUNNING and task.reason:
            self.count_in(task.namespace_id, row_bytes=len(task.reason.encode()))
        return True

    def list_tasks(
        self,
        namespace_id: NamespaceId,
        *,
        status: TaskStatus | None,
        before: tuple[datetime, str] | None,
        most: int,
    ) -> Sequence[TaskRun]:
        """Returns tasks, newest first; raises `Damaged` if one is missing."""
        compare = self.comparing(namespace_id, "tasks")
        instant, task_id = (NO_LIMIT, LAST_ID) if before is None else (to_us(before[0]), before[1])
        rows = self._db.all(
            "list_tasks",
            namespace_id=namespace_id,
            status="" if status is None else status.value,
            before_at=instant,
            before_id=task_id,
            most=most,
        )
        is_all = status is None and before is None and len(rows) < most
        compare(len(rows) if is_all else None)
        return all_of(namespace_id, map(TASK.read, rows), attrgetter("started_at", "id"))

    def list_tasks_since(self, namespace_id: NamespaceId, then: SnapshotInfo) -> list[TaskRun]:
        """Returns tasks that ran at a snapshot or after it, newest first.

        By their times, or by their own snapshots: clocks differ. Raises `Damaged` if one is
        missing.
        """
        compare = self.comparing(namespace_id, "tasks")
        rows = self._db.all(
            "list_tasks_since",
            namespace_id=namespace_id,
            then_at=to_us(then.created_at),
            number=then.number,
        )
        compare()
        found = map(TASK.read, rows)
        return all_of(namespace_id, found, attrgetter("started_at", "id"))

    def add_schedule(self, schedule: Schedule) -> None:
        self._db.say("add_schedule", **SCHEDULE.write(schedule))
        self.count_in(schedule.namespace_id, schedules=1)

    def find_schedule(self, namespace_id: NamespaceId, schedule_id: str) -> Schedule | None:
        query, asked = "find_schedule", {"namespace_id": namespace_id, "id": schedule_id}
        row = self._db.one(query, **asked) or self.look_again(SCHEDULE, query, asked)
        return SCHEDULE.find(row)

    def list_schedules(self, namespace_id: NamespaceId) -> list[Schedule]:
        """Returns schedules, oldest first; raises `Damaged` if one is missing."""
        compare = self.comparing(namespace_id, "schedules")
        rows = self._db.all("list_schedules", namespace_id=namespace_id)
        compare(len(rows))
        found = map(SCHEDULE.read, rows)
        return all_of(namespace_id, found, attrgetter("created_at", "id"), rising=True)

    def lock_schedule(self, namespace_id: NamespaceId, schedule_id: str) -> Schedule | None:
        """Returns a schedule that nobody else changes until the transaction ends."""
        # To write a row is what locks it, on both databases.
        self._db.say("lock_schedule", namespace_id=namespace_id, id=schedule_id)
        return self.find_schedule(namespace_id, schedule_id)

    def change_schedule(self, schedule: Schedule) -> None:
        """Writes what its owner says of a schedule that is locked."""
        self._db.say("set_schedule", **SCHEDULE.write(schedule))

    def advance_schedule(self, schedule: Schedule, *, seen: datetime) -> bool:
        """Writes how far a schedule is, and when it is looked at next.

        False if it is no longer due when it was seen to be, or was stopped or deleted since.
        """
        now = self.lock_schedule(schedule.namespace_id, schedule.id)
        if now is None or now.next_at != seen or not now.enabled:
            return False
        # What its owner says of it is as it is by now.
        self.change_schedule(replace(schedule, label=now.label, enabled=now.enabled))
        return True

    def delete_schedule(self, namespace_id: NamespaceId, schedule_id: str) -> bool:
        if self._db.run("delete_schedule", namespace_id=namespace_id, id=schedule_id) == 0:
            return False
        self.count_in(namespace_id, schedules=-1)
        return True

    def due_schedules(self, *, now: datetime, most: int, skip: int = 0) -> Sorted[DueSchedule]:
        """Returns what is to be looked at, of namespaces that are not deleted.

        What waits for writes is among them only if there are some. `skip` of them are left out:
        those that are damaged stand before all others.
        """
        found = Sorted(list[DueSchedule](), list[Damaged]())
        for row in self._db.all("due_schedules", now=to_us(now), most=most, skip=skip):
            each = SCHEDULE.sort([row[:-2]])
            found.damaged.extend(each.damaged)
            found.sound.extend(DueSchedule(one, TenantId(row[-2]), row[-1]) for one in each.sound)
        return found

    def find_chore(self, name: str) -> datetime | None:
        """Returns when something was last done, whoever did it."""
        row = self._db.one("find_chore", name=name)
        return None if row is None else from_us(row[0])

    def set_chore(self, name: str, *, done_at: datetime) -> None:
        self._db.say("set_chore", name=name, done_at=to_us(done_at))

    def drop_chore(self, name: str) -> None:
        self._db.say("drop_chore", name=name)
