"""The part of a transaction that looks at all namespaces of a tenant at a glance.

Each question is one statement for a whole page of them, which is a range of names: however many
there are, as many statements are made.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import attrgetter

from holdfast.catalog.counting import CountQueries, in_order
from holdfast.catalog.driver import Driver
from holdfast.catalog.rows import HEAD, NO_LIMIT, SNAPSHOT, TASK, get_row
from holdfast.ids import LAST_ID, NamespaceId, TenantId
from holdfast.instants import to_us
from holdfast.model.basics import Head, Size, SnapshotInfo
from holdfast.model.overviews import Glance, Range, RollbackCount, RollbackLevel, StorageRow
from holdfast.model.tasks import TaskRun
from holdfast.model.traces import OWN, Level


class OverviewQueries(CountQueries):
    """What is known of namespaces beside each other, and what was known of them on other days."""

    __slots__ = ()

    _db: Driver

    def page_heads(self, tenant_id: TenantId, *, prefix: str, after: str, most: int) -> list[Head]:
        """Returns namespaces that are there, by name; raises `Damaged` if one of all is missing."""
        compare = self.comparing_tenants(tenant_id, "namespaces")
        found = self._db.all(
            "page_heads",
            tenant_id=tenant_id,
            prefix=prefix,
            after=after,
            most=most,
        )
        compare()
        return in_order(map(HEAD.read, found), attrgetter("name"), rising=True)

    def glances(self, tenant_id: TenantId, names: Range) -> dict[NamespaceId, Glance]:
        """Returns what is counted of namespaces."""
        found = self._db.all("overviews", tenant_id=tenant_id, **names._asdict())
        return {NamespaceId(row[0]): Glance(row[1], bool(row[2]), row[3], row[4]) for row in found}

    def newest_snapshots(
        self, tenant_id: TenantId, names: Range
    ) -> dict[NamespaceId, SnapshotInfo]:
        """Returns the newest snapshot of each namespace that has one."""
        found = self._db.all("newest_snapshots", tenant_id=tenant_id, **names._asdict())
        return {each.namespace_id: each for each in map(SNAPSHOT.read, found)}

    def newest_tasks(self, tenant_id: TenantId, names: Range) -> dict[NamespaceId, TaskRun]:
        """Returns the task of each namespace that runs, and began last."""
        found = self._db.all("newest_tasks", tenant_id=tenant_id, **names._asdict())
        return {each.namespace_id: each for each in map(TASK.read, found)}

    def find_task_start(self, tenant_id: TenantId, task_id: str) -> int | None:
        """Returns when a task of any namespace began; None if there is none of this id."""
        row = self._db.one("find_task_start", tenant_id=tenant_id, id=task_id)
        return None if row is None else row[0]

    def running_tasks(
        self, tenant_id: TenantId, *, before: tuple[int, str] | None, most: int
    ) -> list[tuple[str, TaskRun]]:
        """Returns tasks of all namespaces that run, newest first, with what these are called."""
        instant, task_id = before or (NO_LIMIT, LAST_ID)
        found = self._db.all(
            "running_tasks",
            tenant_id=tenant_id,
            before_at=instant,
            before_id=task_id,
            most=most,
        )
        return [(row[-1], TASK.read(row[:-1])) for row in found]

    # Rollbacks

    def rollback_counts(
        self, tenant_id: TenantId, names: Range, *, since_us: int
    ) -> list[RollbackCount]:
        """Returns how often sessions were rolled back, of the namespaces where any were."""
        found = self._db.all(
            "rollback_counts", tenant_id=tenant_id, since=since_us, **names._asdict()
        )
        return [RollbackCount(*row) for row in found]

    def find_active_tenants(self, *, since_us: int) -> set[TenantId]:
        """Returns the tenants that have traces since then, or of whose rates something was told."""
        return {TenantId(row[0]) for row in self._db.all("active_tenants", since=since_us)}

    def rollback_total(self, tenant_id: TenantId, *, since_us: int) -> RollbackCount:
        """Returns the same for all namespaces together, deleted ones too."""
        row = self._db.one("rollback_total", tenant_id=tenant_id, since=since_us)
        rollbacks, sessions = get_row(row, "sum")
        return RollbackCount(NamespaceId(OWN), int(rollbacks), int(sessions))

    def rollback_series(
        self,
        tenant_id: TenantId,
        namespace_id: NamespaceId | None,
        *,
        since_us: int,
        until_us: int,
        width_us: int,
        agent_id: str | None,
    ) -> list[tuple[int, int, int]]:
        """Returns which parts of some time had any traces, with rollbacks and active sessions."""
        found = self._db.all(
            "rollback_series",
            tenant_id=tenant_id,
            namespace_id=namespace_id,
            since=since_us,
            until=until_us,
            width=width_us,
            agent_id=agent_id,
        )
        return [(int(row[0]), int(row[1]), int(row[2])) for row in found]

    def rollback_levels(self, tenant_id: TenantId) -> dict[int, Level]:
        """Returns what was last told of the rates of namespaces, and of all together."""
        found = self._db.all("list_rollback_levels", tenant_id=tenant_id)
        return {row[0]: Level(row[1]) for row in found}

    def move_rollback_level(
        self, told: RollbackLevel, *, seen: Level | None, level: Level | None, now: datetime
    ) -> bool:
        """Writes down what is told of a rate; False if another was told since it was seen.

        None stands for what is not told.
        """
        known: dict[str, object] = {**told._asdict()}
        if seen is not None:
            known["seen"] = seen.value
        if level is None:
            return self._db.run("leave_rollback_level", **known) > 0
        known |= {"level": level.value, "since": to_us(now)}
        query = "enter_rollback_level" if seen is None else "move_rollback_level"
        return self._db.run(query, **known) > 0

    # Storage

    def has_storage_day(self, tenant_id: TenantId, day: int) -> bool:
        """Says whether it was noted on a day how much all namespaces hold together."""
        return self._db.one("has_storage_day", tenant_id=tenant_id, day=day) is not None

    def add_storage_days(self, tenant_id: TenantId, day: int, heads: Iterable[Head]) -> None:
        """Notes how much namespaces hold on a day; what was noted of it already stays."""
        self._db.run_many(
            "add_storage_day",
            [
                {
                    "tenant_id": tenant_id,
                    "namespace_id": head.namespace_id,
                    "day": day,
                    "entries": head.size.entries,
                    "bytes": head.size.bytes,
                    "stored_bytes": None,
                }
                for head in heads
            ],
        )

    def add_own_storage_day(self, tenant_id: TenantId, day: int, *, stored_bytes: int) -> None:
        """Notes how much they hold together, and what that takes."""
        total = get_row(self._db.one("total_storage", tenant_id=tenant_id), "sum")
        self._db.run(
            "add_storage_day",
            tenant_id=tenant_id,
            namespace_id=OWN,
            day=day,
            entries=int(total[0]),
            bytes=int(total[1]),
            stored_bytes=stored_bytes,
        )

    def storage_days(
        self, tenant_id: TenantId, namespace_id: NamespaceId | None, *, since: int
    ) -> list[StorageRow]:
        """Returns what was noted from a day on, oldest first: of a namespace, or of all."""
        found = self._db.all(
            "list_storage_days",
            tenant_id=tenant_id,
            namespace_id=OWN if namespace_id is None else namespace_id,
            since=since,
        )
        return [StorageRow(row[0], Size(row[1], row[2]), row[3]) for row in found]

    def age_storage_days(self, tenant_id: TenantId, heads: Sequence[Head], *, before: int) -> None:
        """Lets go of what was noted of namespaces, which lie beside each other, before a day."""
        if heads:
            names = Range(heads[0].name, heads[-1].name)
            self._db.say("age_storage_days", tenant_id=tenant_id, before=before, **names._asdict())

    def age_own_storage_days(self, tenant_id: TenantId, *, before: int) -> None:
        """Lets go of what was noted of all together before a day."""
        self._db.say("age_own_storage_days", tenant_id=tenant_id, before=before)
