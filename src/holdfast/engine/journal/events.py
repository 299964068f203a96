"""Events: what happened, told in the transaction in which it happens.

Whatever leaves a trace becomes an event, too, and so does every file that is written or deleted.
An event is there if and only if what it tells of is. Whoever tells something waits for nobody;
whoever asks for events numbers what was told since (`follow`). No two of a tenant have the same
instant, and they are seen in the order of their numbers: whoever follows them by instant or by
number misses none. Nothing is told where nobody has ever listened: that somebody does is written
down by who does, in the catalog (`listen`), and counts for whoever writes to it from then on.

What events say is in `occurrences.py`. What a key that is for one namespace hears of is its
namespace, by the name that it had then.

Events as they leave: in feeds, in live streams and in webhooks, always the same object.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.display import Part
from holdfast.engine.core.context import Context
from holdfast.engine.core.rounds import set_aside
from holdfast.engine.journal.occurrences import kinds_of
from holdfast.errors import (
    Damaged,
    InvalidValue,
    NoLongerKept,
    StorageFull,
    StorageReadOnly,
    shorten,
)
from holdfast.ids import TenantId, instant_of_event
from holdfast.instants import from_us, to_text, to_us
from holdfast.model.basics import Head
from holdfast.model.events import (
    ERA,
    REINSTATED,
    EventEnd,
    EventFilter,
    EventRow,
    Occurrence,
    UnnumberedRow,
)
from holdfast.operations.checks import checked
from holdfast.operations.choices import check_zone
from holdfast.operations.webhooks import LISTED

EventList = list[EventRow]
"""`list` is the name of a method below."""

PURGED: Final = 1000
"""Events that go in one transaction, for which writers wait."""

MAX_LISTED: Final = LISTED.most

_BATCH: Final = 200
"""Events that are numbered at once, while writers wait: 10 ms."""

_FIRST: Final = -1
"""Stands before all that was told."""

_CURSOR: Final = re.compile("c[0-9a-f]{1,15}")
_WRONG_US: Final = 86_400_000_000
"""A day: clocks of servers differ, and are set."""
_to_json = msgspec.json.Encoder().encode


@checked
class Events(Part):
    """What happened to all that a tenant has."""

    def __init__(self, context: Context, tenant_id: TenantId) -> None:
        self._context, self._tenant_id = context, tenant_id

    def listen(self) -> None:
        """Has all that is done from now on told, in all of the vault and whoever does it.

        Asking for events does so, too: what was done before nobody was told of.
        """
        with self._context.catalog.ask() as transaction:
            is_heard = transaction.is_heard()
        if not is_heard:
            with suppress(StorageReadOnly, StorageFull), self._context.catalog.write() as writing:
                writing.listen(now=self._context.clock())

    def list(
        self,
        *,
        namespace: str | None = None,
        types: Iterable[str] = (),
        since: datetime | None = None,
        limit: int = LISTED.usual,
        cursor: str | None = None,
    ) -> tuple[EventList, str | None]:
        """Returns events, newest first, and where the list goes on; None if it does not.

        A cursor of events that are no longer kept ends the list: older ones are gone, too.
        With `since` later ones alone. A follower, who asks since what it saw last and for as many
        as there can be, gets the oldest of them if there are more, so that it misses none.
        """
        check_zone("since", since)
        most = max(1, min(limit, MAX_LISTED))
        follows = since is not None and cursor is None and limit >= MAX_LISTED
        kinds = kinds_of(types)
        wanted = EventFilter(namespace=namespace, types=kinds, oldest_first=follows)
        if since is not None:
            wanted = msgspec.structs.replace(wanted, since_us=to_us(since))
        if cursor is not None:
            wanted = msgspec.structs.replace(wanted, below_us=_instant_of(cursor))
        self._follow()
        with self._context.catalog.read() as transaction:
            seen = [] if cursor is None else self._find_seen(transaction, cursor)
            found = transaction.list_events(self._tenant_id, wanted, most=most + 1)
            if not kinds and namespace is None:
                is_to_end = cursor is None and not (follows and len(found) > most)
                self._check_gaps(transaction, [*seen, *found], is_to_end=is_to_end)
                if since is None and len(found) <= most:
                    last = found or seen
                    self._check_oldest(transaction, last[-1] if last else None)
        has_more, found = len(found) > most, found[:most]
        if follows:
            return found[::-1], None
        return found, f"c{found[-1].created_us:x}" if has_more else None

    def page(self, *, after: int, limit: int = MAX_LISTED) -> EventList:
        """Returns the events numbered above `after`, oldest first."""
        self._follow()
        with self._context.catalog.read() as transaction:
            found = transaction.page_events(self._tenant_id, after=after, most=limit)
            self._check_gaps(transaction, found, is_to_end=len(found) < limit)
            # What is no longer kept goes from the oldest on.
            if not found:
                if transaction.last_event(self._tenant_id) > max(after, 0):
                    self._check_oldest(transaction, None)
            elif not _follows(max(after, 0), found[0]):
                self._check_oldest(transaction, found[0])
            return found

    def last(self) -> int:
        """Returns the number of the newest event; 0 if there was none yet."""
        self._follow()
        with self._context.catalog.read() as transaction:
            return transaction.last_event(self._tenant_id)

    def find(self, event_id: str) -> EventRow | None:
        """Returns an event by its id."""
        with self._context.catalog.read() as transaction:
            return transaction.find_event(self._tenant_id, event_id)

    def check_kept(self, event_id: str, *, says_number: bool) -> None:
        """Raises `NoLongerKept` for the id of an event from before those that are kept.

        `says_number`, with the number at which they begin, which counts those of all namespaces.
        """
        at_us = instant_of_event(event_id)
        with self._context.catalog.read() as transaction:
            purged = transaction.last_purged_event(self._tenant_id)
            first = transaction.page_events(self._tenant_id, after=purged, most=1)
        if at_us is not None and purged and all(at_us < each.created_us for each in first):
            raise NoLongerKept("events", begins=purged + 1 if says_number else None)

    def find_place(self, event_id: str) -> int | None:
        """Returns after which number one goes on who saw an event that is gone; None if none is.

        What the catalog lacks since it was set back was told before the era that began then: all
        that came later is later than the event, and all that is earlier was seen before it.
        """
        at_us = instant_of_event(event_id)
        with suppress(StorageReadOnly, StorageFull), self._context.catalog.write() as transaction:
            number_all(transaction, self._context, self._tenant_id)
        with self._context.catalog.read() as transaction:
            era = transaction.last_event(self._tenant_id) // ERA * ERA
            begun = transaction.page_events(self._tenant_id, after=era - 1, most=1) if era else []
            if at_us is None or not begun or begun[0].number != era or at_us >= begun[0].created_us:
                return None
            wanted = EventFilter(below_us=at_us + 1)
            before = transaction.list_events(self._tenant_id, wanted, most=1)
            return max((each.number for each in before), default=_FIRST)

    def begin_era(self) -> None:
        """Goes on with numbers that nobody has seen: the catalog was set back.

        Whoever saw events that are gone with what came after the backup goes on behind them.
        """
        with self._context.catalog.write() as transaction:
            number_all(transaction, self._context, self._tenant_id)
            end = transaction.lock_event_end(self._tenant_id)
            first = _first_of_era(self._context, self._tenant_id, end)
            transaction.add_events([first])
            transaction.move_event_end(first, timeline=end.timeline_now)

    def _check_gaps(
        self, transaction: Transaction, found: Sequence[EventRow], *, is_to_end: bool
    ) -> None:
        """Raises `Damaged` if a list of all events leaves one out that has to be there."""
        rows = sorted(found, key=lambda row: row.number)
        for older, newer in pairwise(rows):
            if not _follows(older.number, newer):
                raise _missing(older.number + 1)
        if is_to_end and rows:
            last = transaction.last_event(self._tenant_id)
            if rows[-1].number != last:
                raise _missing(last)

    def _find_seen(self, transaction: Transaction, cursor: str) -> EventList:
        """Returns the last event of the page before, or if it is gone the next that is there.

        Raises `InvalidValue` if no page has ended then. One whose event is not there may have: what
        is no longer kept goes, and whoever has its cursor did nothing wrong.
        """
        at_us = _instant_of(cursor)
        found = transaction.events_since(self._tenant_id, since_us=at_us - 1, most=1)
        if not found or found[0].created_us != at_us:
            since = transaction.heard_since()
            if since is None or not _is_between(at_us, since, self._context.clock()):
                raise _no_cursor(cursor)
        return found

    def _check_oldest(self, transaction: Transaction, first: EventRow | None) -> None:
        """Raises `Damaged` unless this is the oldest event that is kept; None for none."""
        purged = transaction.last_purged_event(self._tenant_id)
        if first is None:
            is_oldest = transaction.last_event(self._tenant_id) == purged
        else:
            is_oldest = _follows(purged, first)
        if not is_oldest:
            raise _missing(purged + 1)

    def _follow(self) -> None:
        self.listen()
        follow(self._context, self._tenant_id)


def _follows(older: int, newer: EventRow) -> bool:
    """Says whether nothing is missing between a number and an event."""
    if newer.number % ERA:
        return newer.number == older + 1
    # The first of an era says what was before it; where it is lost, nobody knows.
    return newer.type != REINSTATED or msgspec.json.decode(newer.data)["after"] <= older


def _first_of_era(context: Context, tenant_id: TenantId, end: EventEnd) -> EventRow:
    """Returns the event with which the next era begins.

    It is no earlier one than that of the timeline: a replica that was promoted before it had heard
    of the last promotion begins no era that somebody has seen.
    """
    created_us = max(to_us(context.clock()), end.created_us + 1)
    return EventRow(
        tenant_id=tenant_id,
        number=max(end.number // ERA + 1, end.timeline_now or 0) * ERA,
        id=context.ids.event(created_us),
        created_us=created_us,
        type=REINSTATED,
        namespace_id=None,
        namespace=None,
        data=_to_json({"after": end.number}).decode(),
    )


def _missing(number: int) -> Damaged:
    return Damaged(f"events are missing at number {number}")


def tell(
    transaction: Transaction,
    context: Context,
    of: Head | TenantId,
    made: Callable[[], Sequence[Occurrence]],
) -> None:
    """Tells what is being done, in the transaction that does it; waits for nobody.

    `made` returns the events, and is called if somebody may listen.
    """
    transaction.add_unnumbered(unnumbered_of(transaction, context, of, made))


def unnumbered_of(
    transaction: Transaction,
    context: Context,
    of: Head | TenantId,
    made: Callable[[], Sequence[Occurrence]],
) -> list[UnnumberedRow]:
    """Returns what is to be told, as `tell` does."""
    if transaction.is_unheard():
        return []
    events = made()
    if len(events) > 1 and not transaction.is_heard():
        return []  # Of a single one it is found out where it is put down.
    head = of if isinstance(of, Head) else None
    return [
        UnnumberedRow(
            tenant_id=of.tenant_id if isinstance(of, Head) else of,
            created_us=to_us(context.clock()),
            type=event.type,
            namespace_id=None if head is None else head.namespace_id,
            namespace=None if head is None else head.name,
            data=_to_json(event.data).decode(),
        )
        for event in events
    ]


def follow(context: Context, tenant_id: TenantId) -> None:
    """Numbers what was told; where nothing can be written, it waits.

    Raises `Damaged` for what is not what was told, once all the rest has its number.
    """
    with context.catalog.read() as transaction:
        has_unnumbered = transaction.has_unnumbered(tenant_id)
    damaged, after = list[Damaged](), _FIRST if has_unnumbered else None
    with suppress(StorageReadOnly, StorageFull):
        while after is not None:
            with context.catalog.write() as transaction:
                after = number_events(transaction, context, tenant_id, after=after, aside=damaged)
    if damaged:
        raise damaged[0]


def number_all(transaction: Transaction, context: Context, tenant_id: TenantId) -> None:
    """Numbers all that was told so far, in a transaction that asks which event is the last."""
    after: int | None = _FIRST
    while after is not None:
        after = number_events(transaction, context, tenant_id, after=after, aside=[])


def number_events(
    transaction: Transaction,
    context: Context,
    tenant_id: TenantId,
    *,
    after: int,
    aside: list[Damaged],
) -> int | None:
    """Gives what was told behind a place its numbers, in the order of telling.

    Returns the place where it goes on; None if that was all. What others tell and have not
    committed yet comes later, and gets higher numbers and instants. What is damaged is put
    `aside`, and stays where it is until somebody repairs it. Where the database is on another
    timeline than it was, they begin an era: it may lack events that somebody has seen.
    """
    end = transaction.lock_event_end(tenant_id)
    found = transaction.list_unnumbered(tenant_id, after=after, most=_BATCH)
    aside += [error for _, row in found for error in row.damaged]
    sound = [(position, told) for position, row in found for told in row.sound]
    rows = [_first_of_era(context, tenant_id, end)] if end.was_set_back else []
    last, last_us = end.number, end.created_us
    if rows:
        last, last_us = rows[0].number, rows[0].created_us
    for number, (_, told) in enumerate(sound, last + 1):
        last_us = max(told.created_us, last_us + 1)
        rows.append(
            EventRow(
                tenant_id=tenant_id,
                number=number,
                id=context.ids.event(last_us),
                created_us=last_us,
                type=told.type,
                namespace_id=told.namespace_id,
                namespace=told.namespace,
                data=told.data,
            )
        )
    if rows:
        transaction.add_events(rows)
        transaction.move_event_end(rows[-1], timeline=end.timeline_now)
        transaction.drop_unnumbered(position for position, _ in sound)
    return found[-1][0] if len(found) == _BATCH else None


def purge_events(context: Context, tenant_id: TenantId) -> int:
    """Removes the events that are older than they are kept; returns how many."""
    with set_aside():
        follow(context, tenant_id)
    before_us, count = to_us(context.clock() - context.limits.keep_events), 0
    while True:
        with context.catalog.write() as transaction:
            gone = transaction.purge_events(tenant_id, before_us=before_us, most=PURGED)
        count += gone
        if not gone:
            return count


def _instant_of(cursor: str) -> int:
    if _CURSOR.fullmatch(cursor) is None:
        raise _no_cursor(cursor)
    return int(cursor[1:], 16)


def _is_between(at_us: int, begin: datetime, end: datetime) -> bool:
    """Says whether an instant is between two, by clocks that may be wrong by as much as a day."""
    return to_us(begin) - _WRONG_US <= at_us <= to_us(end) + _WRONG_US


def _no_cursor(cursor: str) -> InvalidValue:
    message = f"{shorten(cursor)} is not a cursor: pass next_cursor of the page before"
    return InvalidValue(message)


API_VERSION: Final = "2026-04-30"
"""The form of the envelope; clients are written against it."""


def envelope(event: EventRow, *, workspace_id: str) -> dict[str, Any]:
    """Returns what is sent of an event."""
    return {
        "id": event.id,
        "event_id": event.id,
        "type": event.type,
        "api_version": API_VERSION,
        "workspace_id": workspace_id,
        "namespace": event.namespace,
        "created_at": to_text(from_us(event.created_us)),
        "data": msgspec.json.decode(event.data),
    }
