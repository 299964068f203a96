"""Lets go of traces whose time is over, and keeps a chain that can still be followed.

What goes of a chain goes from its first row on: its *sections*, each up to a number. What is left
of a section is the hash of its last row, which the chain goes on from, and the rows that something
needs which is still there: those that made a version or a turn, gave a snapshot its root, or tell
of a session that has versions, and the last that says how long traces stay. They are hashed
together; and the trace that says what was let go has a hash of all sections, in the place of what
it made, where no erasure takes it out. It is appended to the chain itself, or for a namespace that
is gone for good to the tenant's own. So the chain still proves every row that is left, and that
nothing else is missing. The tenant's own chain stays whole: anchors are in it, and whatever proves
the others.

1. What is needed is looked up beside all writers. Nothing that is new needs an old row: what was
   found spare stays spare.
2. One transaction deletes rows, notes the section and appends the trace, up to a thousand rows at a
   time. Killed at any point, the last piece is there or gone as a whole.

Every row is checked before it goes. A chain that is damaged stays as it is, as evidence.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Final

import msgspec
from blake3 import blake3

from holdfast.catalog.hashing import digest_of
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.journal.actions import is_mark, trace_of_namespace
from holdfast.engine.journal.chain import is_whole, new_id, row_after
from holdfast.engine.journal.events import tell
from holdfast.engine.journal.occurrences import events_of
from holdfast.engine.journal.roots import Named, named_in
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, TenantId
from holdfast.instants import to_us
from holdfast.model.basics import Head
from holdfast.model.traces import NO_HASH, OWN, Section, TraceEnd, TraceKind, TraceRow

ACTION: Final = "traces.forgotten"

SETTING: Final = "namespace.retention_set"
"""What tells of how long traces of a namespace are kept: the last one stays with it."""

PIECE: Final = 1000
"""Rows that go in one transaction, for which writers of the namespace wait."""

LATE: Final = timedelta(days=1)
"""How much longer a trace may stay: each time is a trace more, and all that stays is looked at."""

_OF_SESSIONS: Final = "session."
_NUMBER_BYTES: Final = 8
_ALL: Final = 2**31


class Chain(msgspec.Struct, frozen=True):
    """A chain of which something may go: that of a namespace, or of one that is gone."""

    tenant_id: TenantId
    stream: NamespaceId
    name: str
    """What its namespace is called, or was."""
    is_gone: bool = False


class _Moved(Exception):
    """Somebody else lets go of the same rows: nothing of ours is to stay."""


class _Told(Named):
    """What the details of a trace name; one that somebody added may say anything."""

    turn_id: str | None = None


def forget_traces(context: Context, chain: Chain, *, keep: timedelta) -> int:
    """Lets go of what is older in one chain; returns how many rows went.

    Raises `Damaged`, and lets go of nothing more, if a row is not what was written.
    """
    before_us = to_us(context.clock() - keep)
    if not _is_due(context, chain, before_us - LATE // timedelta(microseconds=1)):
        return 0
    count = 0
    try:
        # What stayed before may be spare by now.
        for at, first in enumerate(_firsts(context, chain)):
            choice = _find_spare(context, chain, first)
            # Of one that is gone no other trace says that it was looked at.
            if choice.going or (chain.is_gone and not at):
                count += _let_go(context, chain, choice)
        while (more := _find_next(context, chain, before_us)) is not None:
            count += _let_go(context, chain, more)
    except _Moved:
        pass
    return count


def claim_of(sections: Sequence[Section]) -> bytes | None:
    """Returns the hash of all that was let go of a chain; None if nothing was."""
    return digest_of([msgspec.structs.astuple(each) for each in sections]) if sections else None


class Stays:
    """The hash of the rows of a section that stay, in their order."""

    def __init__(self) -> None:
        self.count, self._hasher = 0, blake3()

    def add(self, row: TraceRow) -> None:
        """Adds the next one."""
        self.count += 1
        self._hasher.update(row.number.to_bytes(_NUMBER_BYTES, "big", signed=True) + row.hash)

    def digest(self) -> bytes:
        """Returns the hash of those that were added."""
        return self._hasher.digest()


def claim_in(row: TraceRow) -> bytes | None:
    """Returns the hash of sections that a trace has; None if it does not tell of any."""
    is_claim = row.action == ACTION and row.kind == TraceKind.DONE.value
    return row.version_hash if is_claim else None


class _Choice(msgspec.Struct):
    """A section as it will be, and the rows of it that are there now."""

    sections: list[Section]
    """What was noted when the rows were looked at."""
    section: Section
    rows: list[TraceRow]
    going: list[TraceRow]


def _is_due(context: Context, chain: Chain, before_us: int) -> bool:
    """Says whether the first row that is there, beyond what was let go, is as old.

    Of a namespace that is gone, nothing may be there beyond: then, whether that is as long ago.
    """
    with context.catalog.read() as transaction:
        section = transaction.find_last_section(chain.tenant_id, chain.stream)
        rows = transaction.page_traces(
            chain.tenant_id, stream=chain.stream, after=section.last if section else 0, most=2
        )
        if not rows and chain.is_gone:
            last = transaction.find_last_done(chain.tenant_id, chain.stream, action=ACTION)
            return last is not None and last.created_us < before_us
    # A trace of letting go that is the only one left is what proves the others.
    return bool(rows) and rows[0].created_us < before_us and (len(rows) > 1 or not _is_last(rows))


def _is_last(rows: Sequence[TraceRow]) -> bool:
    return claim_in(rows[0]) is not None


def _firsts(context: Context, chain: Chain) -> list[int]:
    """Returns where the sections begin of which something stayed."""
    with context.catalog.read() as transaction:
        return [section.first for section in _sections(transaction, chain) if section.kept]


def _find_spare(context: Context, chain: Chain, first: int) -> _Choice:
    """Returns what can go by now of the rows that stayed of a section."""
    # A transaction for each: one over all of them would keep others from tidying up.
    with context.catalog.read() as transaction:
        sections = _sections(transaction, chain)
        for section in sections:
            if section.first == first:
                rows = _rows(transaction, chain, section)
                return _choose(transaction, chain, sections, section, rows)
    raise _Moved


def _find_next(context: Context, chain: Chain, before_us: int) -> _Choice | None:
    """Returns what is next to go; as a part of the last section, where that stays short."""
    with context.catalog.read() as transaction:
        sections = _sections(transaction, chain)
        last = sections[-1] if sections else Section(1, 0, NO_HASH, 0, 0, b"")
        end = TraceEnd(last.last, last.hash)
        page = transaction.page_traces(
            chain.tenant_id, stream=chain.stream, after=end.number, most=PIECE
        )
        older = [*_older(page, before_us)]
        if not older or (len(page) == 1 and _is_last(page)):
            return None
        _check(chain, end, older)
        first, rows = end.number + 1, list[TraceRow]()
        if last.kept < PIECE // 2:
            first, rows = last.first, _rows(transaction, chain, last)
        at_us = max(last.at_us, *(row.created_us for row in older))
        section = Section(first, older[-1].number, older[-1].hash, at_us, 0, b"")
        return _choose(transaction, chain, sections, section, [*rows, *older])


def _older(rows: Sequence[TraceRow], before_us: int) -> Iterable[TraceRow]:
    for row in rows:
        if row.created_us >= before_us:
            return
        yield row


def _check(chain: Chain, end: TraceEnd, rows: Sequence[TraceRow]) -> None:
    """Raises `Damaged` unless rows are what was written, and follow on each other and on an end."""
    for row in rows:
        follows = (row.number, row.previous) == (end.number + 1, end.hash)
        if not follows or not is_whole(row):
            message = f"trace {end.number + 1} of {chain.name} is missing or not what was written"
            raise Damaged(message)
        end = TraceEnd(row.number, row.hash)


def _rows(transaction: Transaction, chain: Chain, section: Section) -> list[TraceRow]:
    """Returns the rows of a section that stayed, never more than a few pieces; raises `Damaged`."""
    rows, after = list[TraceRow](), section.first - 1
    while section.kept and after < section.last:
        page = transaction.page_traces(
            chain.tenant_id, stream=chain.stream, after=after, most=PIECE
        )
        rows += [row for row in page if row.number <= section.last]
        after = page[-1].number if page else section.last
    stays = _stays_of(rows)
    is_same = not rows or (stays.count, stays.digest()) == (section.kept, section.digest)
    if len(rows) != section.kept or not is_same or not all(map(is_whole, rows)):
        numbers = f"{section.first} to {section.last}"
        message = f"what stayed of traces {numbers} of {chain.name} is another"
        raise Damaged(message)
    return rows


def _stays_of(rows: Iterable[TraceRow]) -> Stays:
    stays = Stays()
    for row in rows:
        stays.add(row)
    return stays


def _choose(
    transaction: Transaction,
    chain: Chain,
    sections: list[Section],
    section: Section,
    rows: list[TraceRow],
) -> _Choice:
    needed = _needed(transaction, rows)
    if not chain.is_gone:  # What is noted of its purge says how long the rest of it stays.
        needed |= _of_setting(transaction, chain, rows)
    stays = _stays_of(row for row in rows if row.number in needed)
    section = msgspec.structs.replace(section, kept=stays.count, digest=stays.digest())
    return _Choice(sections, section, rows, [row for row in rows if row.number not in needed])


def _let_go(context: Context, chain: Chain, choice: _Choice) -> int:
    """Deletes what was chosen, if all is still as it was; returns how many rows went."""
    tenant_id, stream, section = chain.tenant_id, chain.stream, choice.section
    with context.catalog.write() as transaction:
        head = None if chain.is_gone else transaction.lock_head(stream)
        if head is None and not chain.is_gone:
            raise _Moved  # Purged since: the next round finds it so.
        gone = transaction.drop_traces(tenant_id, stream, _runs(choice))
        # The tenant's end last: who erases has rows locked, and waits for it in turn.
        end = transaction.lock_end(tenant_id, OWN if head is None else stream)
        now = transaction.list_sections(tenant_id, stream)
        if now != choice.sections or gone != len(choice.going):
            raise _Moved
        if choice.going:
            transaction.count_less(choice.going[0], sum(row.added_bytes for row in choice.going))
        transaction.set_section(tenant_id, stream, section)
        sections = [each for each in choice.sections if each.first != section.first] + [section]
        sections.sort(key=lambda each: each.first)
        _append(transaction, context, chain, head=head, end=end, sections=sections, gone=gone)
    return gone


def _sections(transaction: Transaction, chain: Chain) -> list[Section]:
    """Returns what was let go of a chain; raises `Damaged` unless the chain says the same."""
    sections = transaction.list_sections(chain.tenant_id, chain.stream)
    claim = transaction.find_last_done(chain.tenant_id, chain.stream, action=ACTION)
    is_said = claim is not None and is_whole(claim)
    if (claim_in(claim) if claim and is_said else None) != claim_of(sections):
        raise Damaged(f"what was let go of the traces of {chain.name} is not what they say")
    return sections


def _runs(choice: _Choice) -> list[tuple[int, int]]:
    """Returns from which number to which all goes."""
    going = {row.number for row in choice.going}
    runs = groupby(choice.rows, key=lambda row: row.number in going)
    found = [[*rows] for is_going, rows in runs if is_going]
    return [(rows[0].number, rows[-1].number) for rows in found]


def _append(
    transaction: Transaction,
    context: Context,
    chain: Chain,
    *,
    head: Head | None,
    end: TraceEnd,
    sections: list[Section],
    gone: int,
) -> None:
    """Appends the trace of what was let go, with a hash of all sections as what it made."""
    of = chain.tenant_id if head is None else head
    trace = trace_of_namespace(
        ACTION,
        chain.name,
        number=sections[-1].last,
        count=gone,
        kept=sum(section.kept for section in sections),
    )
    row = row_after(
        end,
        context,
        of,
        trace,
        trace_id=new_id(context, context.clock()),
        stream=OWN if head is None else chain.stream,
        version=claim_of(sections),
        gone=chain.stream,
    )
    transaction.add_trace(row)
    tell(transaction, context, of, lambda: events_of(trace, trace_id=row.id))


# What is needed


def _needed(transaction: Transaction, rows: Sequence[TraceRow]) -> set[int]:
    """Returns the numbers of the rows that something needs which is there.

    Of what a row says no more, nobody knows whether something does: such a row stays.
    """
    return {
        *_of_versions(transaction, [row for row in rows if _made_version(row)]),
        *(row.number for row in rows if row.turn_hash and _has_turn(transaction, row)),
        *_of_snapshots(transaction, [row for row in rows if row.roots is not None or is_mark(row)]),
        *_of_sessions(transaction, rows),
    }


def _of_setting(transaction: Transaction, chain: Chain, rows: Sequence[TraceRow]) -> set[int]:
    """Returns the trace by which traces go now: who said so, and when, is not to go by that."""
    if not any(row.action == SETTING and row.kind == TraceKind.DONE.value for row in rows):
        return set()
    last = transaction.find_last_done(chain.tenant_id, chain.stream, action=SETTING)
    return set() if last is None else {last.number}


def _made_version(row: TraceRow) -> bool:
    return row.version_hash is not None and claim_in(row) is None


def _session_of(row: TraceRow) -> str | None:
    return row.resource_id if row.kind == TraceKind.KEPT.value else row.session_id


def _of_versions(transaction: Transaction, rows: Sequence[TraceRow]) -> set[int]:
    found, asked = set[int](), dict[str, list[TraceRow]]()
    for row in rows:
        session_id = _session_of(row)
        if session_id is None or row.version is None:
            found.add(row.number)
        else:
            asked.setdefault(session_id, []).append(row)
    for session_id, some in asked.items():
        versions = [row.version for row in some if row.version is not None]
        there = transaction.rows_of_versions(
            NamespaceId(some[0].stream), session_id, first=min(versions), last=max(versions)
        )
        found |= there & {row.number for row in some}
    return found


def _has_turn(transaction: Transaction, row: TraceRow) -> bool:
    is_kept = row.kind == TraceKind.KEPT.value
    turn_id = row.resource_id if is_kept else named_in(row, _Told).turn_id
    if turn_id is None:
        return True
    return transaction.find_row_of_turn(turn_id) == (row.stream, row.number)


def _of_snapshots(transaction: Transaction, rows: Sequence[TraceRow]) -> Iterable[int]:
    if not rows:
        return
    # All at once: one that is not there would be looked for once more under each id like it.
    there = transaction.timeline(NamespaceId(rows[0].stream), before=None, most=_ALL)
    ids = {snapshot.id for snapshot in there}
    for row in rows:
        told = named_in(row, Named)
        if not ids.isdisjoint((row.resource_id, told.safety, *(told.snapshots or ()))):
            yield row.number


def _of_sessions(transaction: Transaction, rows: Sequence[TraceRow]) -> Iterable[int]:
    """Yields what was done to sessions themselves that have a history: it mends their rows."""
    known = dict[str, bool]()
    for row in rows:
        if row.kind != TraceKind.DONE.value or not row.action.startswith(_OF_SESSIONS):
            continue
        if row.session_id is not None:
            if row.session_id not in known:
                place = NamespaceId(row.stream), row.session_id
                known[row.session_id] = transaction.has_versions(*place)
            if known[row.session_id]:
                yield row.number
