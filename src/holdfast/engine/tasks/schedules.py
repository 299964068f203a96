"""Schedules: snapshots that nobody has to ask for.

After so much time, after so many writes, or when nothing was written for a while. A schedule and
the snapshot that it asks for change in one transaction: of several workers that find it due, one
takes the snapshot, and a crash leaves both or neither. What was missed while nobody worked is
made up for once. One that fails says why, and keeps no other from its turn. Where nothing has
changed, the snapshot that is there already is kept for longer instead.
"""

from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.display import Part
from holdfast.engine.core.context import Context
from holdfast.engine.core.rounds import set_aside, tell_damage
from holdfast.engine.journal.actions import place_of, trace_of_snapshot
from holdfast.engine.journal.chain import append
from holdfast.engine.planes.handle import Handle, check_text, term_of
from holdfast.engine.timeline import snapshots
from holdfast.engine.timeline.room import check_rows
from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidValue,
    NamespaceNotFound,
    ScheduleNotFound,
    Unavailable,
)
from holdfast.ids import SnapshotId
from holdfast.model.basics import Head, SnapshotInfo
from holdfast.model.tasks import Cadence, DueSchedule, Schedule
from holdfast.model.traces import Trace
from holdfast.operations.operation import does
from holdfast.operations.snapshots import MAX_LABEL_CHARS, Note
from holdfast.operations.tasks import (
    CreateSchedule,
    DeleteSchedule,
    GetSchedule,
    ListSchedules,
    UpdateSchedule,
)

ScheduleList = list[Schedule]
"""`list` is the name of a method below."""

SHORTEST: Final = timedelta(seconds=10)
LONGEST: Final = timedelta(days=366)
MOST_CHANGES: Final = 1_000_000
MOST_SCHEDULES: Final = 20

LOOKS: Final = timedelta(seconds=5)
"""How often writes are counted where they matter."""

PAUSE: Final = timedelta(minutes=1)
"""How long one that failed rests at least: it is likely to fail again."""

EXTENDS: Final = timedelta(days=1)
"""How much longer a snapshot is to be kept, at least, for its term to begin anew."""

MAX_ERROR_CHARS: Final = 500

_AT_ONCE: Final = 100
_INSTANT: Final = timedelta(microseconds=1)


class Schedules(Part):
    """The schedules of a namespace."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @does(CreateSchedule)
    def create(self, wanted: CreateSchedule) -> Schedule:
        cadence, amount = _cadence(wanted)
        check_text("label", wanted.label, max_chars=MAX_LABEL_CHARS)
        context, now = self._handle.context, self._handle.context.clock()
        context.check_takes_away("make a schedule")
        with context.work() as transaction:
            head = self._handle.lock_or_create(transaction)
            if len(transaction.list_schedules(head.namespace_id)) >= MOST_SCHEDULES:
                message = f"a namespace has {MOST_SCHEDULES} schedules at the most"
                raise InvalidValue(message)
            schedule = Schedule(
                id=context.ids.schedule(),
                namespace_id=head.namespace_id,
                namespace=self._handle.name,
                cadence=cadence,
                amount=amount,
                label=wanted.label,
                only_if_changed=wanted.only_if_changed,
                created_at=now,
                next_at=_next_look(cadence, amount, now),
                seen_sequence=head.sequence,
                seen_at=now,
            )
            check_rows(transaction, self._handle)
            transaction.add_schedule(schedule)
            told = _told("schedule.created", schedule)
            append(transaction, context, head, told, door=self._handle.door)
        return schedule

    @does(ListSchedules)
    def list(self, _: ListSchedules) -> ScheduleList:
        with self._handle.context.catalog.read() as transaction:
            head = self._handle.find_head(transaction)
            found = [] if head is None else transaction.list_schedules(head.namespace_id)
        return [self._named(each) for each in found]

    @does(GetSchedule)
    def get(self, wanted: GetSchedule) -> Schedule:
        with self._handle.context.catalog.read() as transaction:
            found = _get(transaction, self._handle.find_head(transaction), wanted.schedule_id)
        return self._named(found)

    @does(UpdateSchedule)
    def update(self, wanted: UpdateSchedule) -> Schedule:
        check_text("label", wanted.label, max_chars=MAX_LABEL_CHARS)
        context, now = self._handle.context, self._handle.context.clock()
        context.check_takes_away("change a schedule")
        with context.work() as transaction:
            head = self._locked(transaction, wanted.schedule_id)
            # Locked, since a worker may be at it: what either of us writes is not lost.
            old = transaction.lock_schedule(head.namespace_id, wanted.schedule_id)
            if old is None:
                raise ScheduleNotFound(wanted.schedule_id)
            new = replace(
                old,
                enabled=old.enabled if wanted.enabled is None else wanted.enabled,
                label=old.label if wanted.label is None else wanted.label,
            )
            if new.enabled and not old.enabled:
                look = _next_look(old.cadence, old.amount, now)
                new = replace(new, next_at=look, seen_sequence=head.sequence, seen_at=now)
            if new != old:
                transaction.change_schedule(new)
                told = _told("schedule.updated", new)
                append(transaction, context, head, told, door=self._handle.door)
        return self._named(new)

    @does(DeleteSchedule)
    def delete(self, wanted: DeleteSchedule) -> None:
        context = self._handle.context
        context.check_takes_away("delete a schedule")
        with context.work() as transaction:
            head = self._locked(transaction, wanted.schedule_id)
            schedule = _get(transaction, head, wanted.schedule_id)
            transaction.delete_schedule(schedule.namespace_id, schedule.id)
            told = _told("schedule.deleted", schedule)
            append(transaction, context, head, told, door=self._handle.door)

    def _named(self, schedule: Schedule) -> Schedule:
        return replace(schedule, namespace=self._handle.name)

    def _locked(self, transaction: Transaction, schedule_id: str) -> Head:
        head = self._handle.find_and_lock(transaction)
        if head is None:
            raise ScheduleNotFound(schedule_id)
        return head


class _Missed(Conflict):
    """Another worker was faster, or the schedule is no longer wanted."""


def run_due(context: Context) -> int:
    """Looks at every schedule that is due, of all tenants; returns how many snapshots it took."""
    taken, skip, is_more = 0, 0, True
    while is_more:
        with context.catalog.read() as transaction:
            due = transaction.due_schedules(now=context.clock(), most=_AT_ONCE, skip=skip)
        for damaged in due.damaged:
            tell_damage(str(damaged))
        for each in due.sound:
            with set_aside():
                taken += _look(context, each)
        # Those that are damaged stay due, and stand before all others.
        skip += len(due.damaged)
        is_more = bool(due.damaged) and len(due) == _AT_ONCE
    return taken


def _look(context: Context, due: DueSchedule) -> bool:
    """Takes the snapshot of one schedule, if its time has come; says whether it did."""
    schedule, now = due.schedule, context.clock()
    try:
        return _try(context, due, now)
    except Unavailable:
        # The database, not this schedule: whoever called us knows how to wait.
        raise
    except HoldfastError as exc:
        later = max(_next_after(schedule, now), now + PAUSE)
        error = f"{exc.code}: {exc}"[:MAX_ERROR_CHARS].encode("utf-8", "replace").decode()
        error = error.replace("\0", " ")
        return _put_off(context, schedule, replace(schedule, next_at=later, last_error=error))


def _try(context: Context, due: DueSchedule, now: datetime) -> bool:
    schedule = due.schedule
    handle = Handle(context, due.tenant_id, due.namespace)
    with context.catalog.read() as transaction:
        head = transaction.find_head_by_id(schedule.namespace_id)
        if head is None or head.deleted_at is not None:
            return False
        is_dirty = transaction.count_pending(head.namespace_id) > 0
        held = _held(transaction, head)
    if schedule.cadence is Cadence.EVERY and held is None and head.position is not None:
        # What held it was deleted: it is wanted again.
        is_dirty = True
    is_due, after = _judge(schedule, head, now, is_dirty=is_dirty)
    if not is_due and held is not None and _may_extend(context, schedule, head, held):
        return _extend(handle, schedule, after, head)
    if not is_due:
        return _put_off(context, schedule, after)
    return _take(handle, schedule, after, head)


def _judge(
    schedule: Schedule, head: Head, now: datetime, *, is_dirty: bool
) -> tuple[bool, Schedule]:
    """Says whether a schedule's time has come, and how it stands after this look."""
    after = replace(schedule, next_at=_next_after(schedule, now))
    match schedule.cadence:
        case Cadence.EVERY:
            return is_dirty or not schedule.only_if_changed, after
        case Cadence.CHANGES:
            if not is_dirty:
                # A snapshot holds all that was written so far: it counts from here.
                after = replace(after, seen_sequence=head.sequence, seen_at=now)
            return is_dirty and head.sequence - schedule.seen_sequence >= schedule.amount, after
        case Cadence.QUIET:
            seen_at = schedule.seen_at if head.sequence == schedule.seen_sequence else now
            after = replace(after, seen_sequence=head.sequence, seen_at=seen_at)
            return is_dirty and now - seen_at >= timedelta(seconds=schedule.amount), after


def _held(transaction: Transaction, head: Head) -> SnapshotInfo | None:
    """Returns the snapshot that the head stands on; None if there is none, or it was deleted."""
    position = head.position
    found = None if position is None else transaction.find_snapshot(head.namespace_id, position)
    return None if found is None or found.deleted_at is not None else found


def _may_extend(context: Context, schedule: Schedule, head: Head, held: SnapshotInfo) -> bool:
    """Says whether a snapshot that holds what has not changed is to be kept for longer.

    A schedule that comes every so often promises a snapshot of what is there. If nothing has
    changed the one before is it: its term begins anew, as that of a new one would.
    """
    term, full = term_of(context, head, held), context.limits.retention
    if schedule.cadence is not Cadence.EVERY or term is None:
        return False
    # Not at every look: each time is told, and some come every ten seconds.
    return context.clock() + full - term >= min(EXTENDS, full / 4)


def _extend(handle: Handle, old: Schedule, new: Schedule, judged: Head) -> bool:
    """Gives what the head stands on a full term from now; takes no snapshot."""
    context, now = handle.context, handle.context.clock()
    with context.catalog.write() as transaction:
        head = handle.find_and_lock(transaction)
        held = None if head is None else _held(transaction, head)
        if head is None or held is None or _moment(head) != _moment(judged) or held.pinned:
            return False
        done = replace(new, last_run_at=now, last_snapshot_id=held.id, last_error=None)
        if transaction.advance_schedule(done, seen=old.next_at):
            until = now + context.limits.retention
            transaction.set_pinned(head.namespace_id, held.id, pinned=False, expires_at=until)
            told = trace_of_snapshot(
                "snapshot.extended", held, expires_at=until.isoformat(), reason=_reason(old)
            )
            append(transaction, context, head, replace(told, actor=old.id), told=place_of(held))
    return False


def _moment(head: Head) -> tuple[int, int]:
    return head.namespace_id, head.generation


def _put_off(context: Context, old: Schedule, new: Schedule) -> bool:
    with context.catalog.write() as transaction:
        transaction.advance_schedule(new, seen=old.next_at)
    return False


def _take(handle: Handle, old: Schedule, new: Schedule, judged: Head) -> bool:
    now = handle.context.clock()

    def mark(snapshot_id: SnapshotId, transaction: Transaction, head: Head) -> None:
        if _moment(head) != _moment(judged):
            # Another snapshot was faster: there may be nothing left to do. The next look tells.
            raise _Missed("the timeline has moved")
        done = replace(
            new,
            seen_sequence=head.sequence,
            seen_at=now,
            last_run_at=now,
            last_snapshot_id=snapshot_id,
            last_error=None,
        )
        if not transaction.advance_schedule(done, seen=old.next_at):
            raise _Missed("another worker has done it")

    note = Note(label=old.label, reason=_reason(old))
    try:
        # Without a namespace to go with, it was deleted a moment ago: none is made for it.
        taker = handle.acting_as(old.id)
        snapshots.take(taker, note, creates=False, is_asked=False, also=mark)
    except (_Missed, NamespaceNotFound):
        return False
    return True


def _next_after(schedule: Schedule, now: datetime) -> datetime:
    """Returns when a schedule is looked at next, after now: never the instant that it had."""
    if schedule.cadence is not Cadence.EVERY:
        return max(schedule.next_at + _INSTANT, _next_look(schedule.cadence, schedule.amount, now))
    # In step with its own beginning, however late a worker came; what was missed is left out.
    span = timedelta(seconds=schedule.amount)
    return schedule.next_at + span * (max(0, (now - schedule.next_at) // span) + 1)


def _next_look(cadence: Cadence, amount: int, now: datetime) -> datetime:
    match cadence:
        case Cadence.EVERY:
            return now + timedelta(seconds=amount)
        case Cadence.CHANGES:
            return now + LOOKS
        case Cadence.QUIET:
            return now + min(LOOKS, timedelta(seconds=max(1, amount // 4)))


def _cadence(wanted: CreateSchedule) -> tuple[Cadence, int]:
    every, after_changes, when_quiet = wanted.every, wanted.after_changes, wanted.when_quiet
    if sum(each is not None for each in (every, after_changes, when_quiet)) != 1:
        raise InvalidValue("a schedule says one of: every, after_changes, when_quiet")
    if after_changes is not None:
        if not 1 <= after_changes <= MOST_CHANGES:
            message = f"after_changes is 1 to {MOST_CHANGES} writes"
            raise InvalidValue(message)
        return Cadence.CHANGES, after_changes
    span = every if every is not None else when_quiet
    if span is None or not SHORTEST <= span <= LONGEST:
        message = f"a schedule waits at least {SHORTEST.seconds} seconds, and at most a year"
        raise InvalidValue(message)
    return Cadence.EVERY if every is not None else Cadence.QUIET, int(span.total_seconds())


def _reason(schedule: Schedule) -> str:
    unit = "writes" if schedule.cadence is Cadence.CHANGES else "seconds"
    return f"schedule {schedule.id}: {schedule.cadence} {schedule.amount} {unit}"


def _get(transaction: Transaction, head: Head | None, schedule_id: str) -> Schedule:
    found = None if head is None else transaction.find_schedule(head.namespace_id, schedule_id)
    if found is None:
        raise ScheduleNotFound(schedule_id)
    return found


def _told(action: str, schedule: Schedule) -> Trace:
    details = {"cadence": schedule.cadence.value, "amount": schedule.amount}
    return Trace(action=action, resource_type="schedule", resource_id=schedule.id, details=details)
