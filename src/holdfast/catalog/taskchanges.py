"""The part of a transaction that is about what tasks changed, and that none of it is missing.

Each row has a checksum for what was there before and one for what was left. A row that is not there
has none: so the row of the task counts what was noted. It does so in threes, since no flipped bit
makes another multiple of three: what damages the count is told from a change that is lost. Whether
somebody else changed it between two changes of the task's own is found out inside a statement, and
no checksum is made there: that of the row says no, and the same with all its bits turned says yes.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from holdfast.catalog.driver import Driver
from holdfast.catalog.mending import mended
from holdfast.catalog.rows import NO_LIMIT, Row, Sorted, sum_of
from holdfast.errors import Damaged, RowDamaged
from holdfast.ids import NamespaceId, TenantId
from holdfast.instants import to_us
from holdfast.model.basics import Plane
from holdfast.model.tasks import UNKNOWN, TaskChange, TaskRun

_STEP: Final = 3
"""What each change counts."""

_FEW: Final = 16
"""Of more changes, those that are noted already are looked up together: a row that is written again
for each of a thousand takes PostgreSQL longer every time."""

_PAGE: Final = 500

_BITS: Final = (1 << 64) - 1

_PLACE: Final = ("namespace_id", "task_id", "plane", "key")
"""What a row is found by."""

_NAMES: Final = (*_PLACE, "old_entry", "old_sum", "new_entry", "new_sum", "is_shared")

Noted = tuple[Plane, bytes, bytes]
"""A plane, a key, and what was there before a task changed it."""


class TaskChangeQueries:
    """Rows of what tasks changed."""

    __slots__ = ()

    _db: Driver

    def put_task_changes(
        self,
        namespace_id: NamespaceId,
        task_ids: Sequence[str],
        plane: Plane,
        changes: Iterable[tuple[bytes, bytes | None, bytes | None]],
    ) -> None:
        """Notes what is being changed in some tasks: keys, with what was there and what will be.

        Of a key that a task has changed before, what was there first stays noted. Ids that are
        no task's are passed over. Each key is there once.
        """
        changes = [*changes]
        for task_id in task_ids:
            place = {"namespace_id": namespace_id, "task_id": task_id, "plane": plane.value}
            self._count(place, [key for key, _, _ in changes])
            self._db.say_many(
                "put_task_change",
                [
                    {
                        **place,
                        "key": key,
                        "old_entry": old,
                        "old_sum": _sum_of(task_id, plane, key, old),
                        "new_entry": new,
                        "new_sum": _sum_of(task_id, plane, key, new),
                    }
                    for key, old, new in changes
                ],
            )

    def _count(self, place: dict[str, Any], keys: Sequence[bytes]) -> None:
        """Counts those of some keys that a task has not changed before."""
        if len(keys) <= _FEW:
            self._db.say_many("count_task_change", [{**place, "key": key} for key in keys])
            return
        more = len(keys) - len(self._db.by_keys("noted_keys", keys, near=True, **place))
        of_task = {name: place[name] for name in ("namespace_id", "task_id")}
        self._db.say("count_task_changes", **of_task, more=more)

    def list_task_changes(self, namespace_id: NamespaceId, task_id: str) -> list[TaskChange]:
        """Returns what a task changed, by plane and key; raises `RowDamaged` unless that is all."""
        rows = self._db.all("list_task_changes", namespace_id=namespace_id, task_id=task_id)
        return [*_all_of(rows)]

    def list_nested_changes(self, namespace_id: NamespaceId, task_id: str) -> list[TaskChange]:
        """Returns what tasks changed that were begun in another one."""
        # Ids have no character that a pattern would take for more than itself.
        pattern = f'%"{task_id}"%'
        rows = self._db.all("list_nested_changes", namespace_id=namespace_id, within=pattern)
        return [*_all_of(rows)]

    def list_changes_beside(self, task: TaskRun) -> list[TaskChange]:
        """Returns what other tasks changed that ran while one did, by task.

        Not those that it was begun in: what is done in it is theirs as well.
        """
        rows = self._db.all(
            "list_changes_beside",
            namespace_id=task.namespace_id,
            task_id=task.id,
            started_at=to_us(task.started_at),
            ended_at=NO_LIMIT if task.ended_at is None else to_us(task.ended_at),
        )
        return [*_all_of([row for row in rows if row[0] not in task.within])]

    def all_task_changes(self, namespace_id: NamespaceId) -> list[TaskChange]:
        """Returns what tasks changed in a namespace; raises `RowDamaged` unless that is all."""
        for task_id, _, _ in self._db.all("miscounted_changes_in", namespace_id=namespace_id):
            raise _lost(task_id)
        rows = self._db.all("all_task_changes", namespace_id=namespace_id)
        return [*map(_to_change, rows)]

    def has_task_changes(self, namespace_id: NamespaceId, task_id: str) -> bool:
        row = self._db.one("has_task_changes", namespace_id=namespace_id, task_id=task_id)
        return row is not None

    def iter_task_entries(self, tenant_id: TenantId) -> list[Noted]:
        """Returns what tasks of a tenant have changed, with what was there before.

        Raises `RowDamaged` unless that is all: what one that is missing needs would be let go of.
        """
        for (task_id,) in self._db.all("miscounted_changes", tenant_id=tenant_id):
            raise _lost(task_id)
        rows = self._db.all("iter_task_entries", tenant_id=tenant_id)
        return [(_checked(*row), row[2], row[3]) for row in rows]

    def sort_task_changes(self, tenant_id: TenantId) -> Sorted[Noted]:
        """Returns the same of all rows that are what was written, and an error for each other.

        And one for each task that has another number of changes than it counts.
        """
        found = Sorted(list[Noted](), list[Damaged]())
        for *row, is_known in self._db.all_as_stored("sort_task_changes", tenant_id=tenant_id):
            try:
                change = _to_change(row)
            except RowDamaged as exc:
                found.damaged.append(exc)
                continue
            if not is_known:
                found.damaged.append(_lost(row[0]))
            if change.old_entry is not None:
                found.sound.append((change.plane, change.key, change.old_entry))
        for (task_id,) in self._db.all_as_stored("miscounted_changes", tenant_id=tenant_id):
            found.damaged.append(_lost(task_id))
        return found

    def drop_task_changes(self, namespace_id: NamespaceId, *, before: datetime) -> None:
        """Lets go of what tasks changed whose snapshot from before them is gone.

        Of one that runs, only if it began before some instant: it may still be at work.
        """
        for query in ("drop_task_changes", "forget_task_changes"):
            self._db.say(query, namespace_id=namespace_id, before_at=to_us(before))

    # What is damaged

    def mend_stray_changes(self) -> int:
        """Puts changes back into the namespace of their task; returns how many."""
        rows = self._db.all("stray_task_changes")
        rows = [row for row in rows if _sound_change(row[1:]) == [*row[1:]]]
        for whose, *row in rows:
            self._db.run("drop_task_change", **dict(zip(_PLACE, row, strict=False)))
            self._db.run("set_task_change", **dict(zip(_NAMES, [whose, *row[1:]], strict=True)))
        return len(rows)

    def mend_task_changes(self, namespace_id: NamespaceId) -> tuple[int, list[str]]:
        """Puts right what is noted of what tasks changed; the head has to be locked.

        Returns in how many rows a flipped bit was put back, and the ids of tasks of which it is
        no longer known what some change was. That is noted as changed by others, too: so who takes
        the task back is told, and nothing is taken back that was not the task's.
        """
        count, lost = 0, list[str]()
        after: tuple[Any, ...] = ("", "", b"")
        while True:
            where = dict(zip(_PLACE[1:], after, strict=True))
            page = self._db.all("page_task_changes", namespace_id=namespace_id, most=_PAGE, **where)
            for row in page:
                is_mended, task_id = self._mend_change(row)
                count += is_mended
                lost += [task_id] if task_id else []
            if len(page) < _PAGE or tuple(page[-1][1:4]) == after:
                break
            after = tuple(page[-1][1:4])
        recounted, short = self._mend_counts_of_changes(namespace_id)
        return count + recounted, lost + short

    def _mend_change(self, row: Row) -> tuple[bool, str]:
        """Puts one row right; says if a bit was put back, and of which task something is lost."""
        *row, is_known = row
        values = _sound_change(row)
        if values == row:
            if is_known:
                return False, ""
            values = None
        self._db.run("drop_task_change", **dict(zip(_PLACE, row, strict=False)))
        if values is None:
            return False, str(row[1])
        self._db.run("set_task_change", **dict(zip(_NAMES, values, strict=True)))
        is_lost = values[-1] < 0 and not _was_shared(row)
        return not is_lost, str(values[1]) if is_lost else ""

    def _mend_counts_of_changes(self, namespace_id: NamespaceId) -> tuple[int, list[str]]:
        """Has tasks count what there is; the same is returned.

        In the place of changes that are lost stands one of which nothing is known.
        """
        count, lost = 0, list[str]()
        for task_id, counted, found in self._db.all(
            "miscounted_changes_in", namespace_id=namespace_id
        ):
            if counted % _STEP == 0 and counted > _STEP * found:
                known = sum_of([task_id, Plane.FILES.value, UNKNOWN, None])
                values = (namespace_id, task_id, Plane.FILES.value, UNKNOWN, None, known)
                names = dict(zip(_NAMES, (*values, None, known, ~known), strict=True))
                self._db.run("set_task_change", **names)
                lost.append(task_id)
            else:
                count += 1
            self._db.run("recount_task_changes", namespace_id=namespace_id, task_id=task_id)
        return count, lost


def _all_of(rows: Sequence[Row]) -> Iterator[TaskChange]:
    """Yields the changes of tasks; raises `RowDamaged` for one that counts another number."""
    for (task_id, counted), group in groupby(rows, itemgetter(0, 1)):
        changes = [_to_change([row[0], *row[2:]]) for row in group if row[2] is not None]
        if counted != _STEP * len(changes):
            raise _lost(task_id)
        yield from changes


def _to_change(row: Row) -> TaskChange:
    """Returns what a task changed; raises `RowDamaged` for what was not written so."""
    task_id, plane, key, old, old_sum, new, new_sum, is_shared = row
    _checked(task_id, plane, key, old, old_sum)
    if is_shared not in (old_sum, ~old_sum):
        raise _lost(task_id)
    return TaskChange(
        plane=_checked(task_id, plane, key, new, new_sum),
        key=key,
        old_entry=old,
        new_entry=new,
        is_shared=is_shared != old_sum,
    )


def _checked(task_id: str, plane: str, key: bytes, entry: bytes | None, checksum: int) -> Plane:
    """Returns the plane of what a task changed; raises `RowDamaged` if it was not written so."""
    try:
        found = Plane(plane)
        if _sum_of(task_id, found, key, entry) == checksum:
            return found
    except ValueError:
        pass
    raise _lost(task_id)


def _lost(task_id: object) -> RowDamaged:
    name = str(task_id).encode("utf-8", "backslashreplace").decode()
    return RowDamaged("what was changed in", name=name)


def _sum_of(task_id: str, plane: Plane, key: bytes, entry: bytes | None) -> int:
    return sum_of([task_id, plane.value, key, entry])


def _sound_change(row: Sequence[Any]) -> list[Any] | None:
    """Returns what has to stand in place of a row; None if nothing is known of it any more."""
    namespace_id, *place, old, old_sum, new, new_sum, is_shared = row
    known = [(old, old_sum), (new, new_sum)]
    is_sound = [sum_of([*place, entry]) == checksum for entry, checksum in known]
    entries = [old, new]
    if not all(is_sound):
        found = [mended([*place, entry], checksum) for entry, checksum in known]
        places = [each[:-1] for each in found if each is not None]
        if len(places) == len(found) and places[0] == places[1]:
            place, entries = places[0], [each[-1] for each in found if each is not None]
        elif any(is_sound):
            # What is still known of it stands for both: then it is nobody's to take back.
            entries = [old if is_sound[0] else new] * 2
            is_shared = None
        else:
            return None
    sums = [sum_of([*place, entry]) for entry in entries]
    is_own = is_shared is not None and (
        _is_near(is_shared, sums[0]) or _is_near(is_shared, old_sum)
    )
    return [
        *(namespace_id, *place, entries[0], sums[0], entries[1], sums[1]),
        sums[0] if is_own else ~sums[0],
    ]


def _was_shared(row: Row) -> bool:
    """Says whether a row that may be damaged says that it is shared."""
    old_sum, is_shared = row[-4], row[-1]
    return _is_near(is_shared, ~old_sum)


def _is_near(number: int, other: int) -> bool:
    """Says whether two numbers differ by no more than one bit."""
    return ((number ^ other) & _BITS).bit_count() <= 1
