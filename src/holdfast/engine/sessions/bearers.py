"""An id is one session's at a time; when that is gone, another may get it.

A session is its id and when it began, which its entry in the plane says: so a restore knows which
of those that ever had an id it brings back. Versions are numbered by the id, and go on counting
when it gets to another: a number means one version for ever. Each session sees its own: those since
it got the id, and if it had it before, those of that time. What others had is out of its reach, be
it a version, a turn or what they knew of things (`docs/adr/0077-an-id-begins-anew.md`).
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from holdfast.catalog.sessions import to_traced
from holdfast.catalog.transaction import Transaction
from holdfast.engine.planes.handle import Handle
from holdfast.entries import Session
from holdfast.errors import Damaged, VersionNotFound
from holdfast.ids import NamespaceId, TenantId
from holdfast.instants import from_us, to_us
from holdfast.model.memories import Time
from holdfast.model.sessions import SessionRow

_TICK: Final = timedelta(microseconds=1)
_LAST: Final = 2**62
"""Above any number of a chain."""


def is_same(session: SessionRow, entry: Session) -> bool:
    """Says whether an entry of a session's id is one of this session."""
    return to_us(session.created_at) == entry.created_us


def version_numbers(transaction: Transaction, session: SessionRow) -> list[range]:
    """Returns the numbers of a session's versions, the oldest first."""
    now = _numbers(session)
    if session.since is None:
        return [now]
    earlier = transaction.former_sessions(session.namespace_id, session.id)
    # What was read before another got the id may be among them by now.
    own = [_numbers(each) for each in _of(earlier, session.created_at) if each.version < now.start]
    return [*own, now]


def number_of(session: SessionRow, wanted: int, own: Sequence[range]) -> int:
    """Returns the number of a version; a negative one counts from the newest.

    Raises `VersionNotFound`.
    """
    if wanted >= 0:
        if any(wanted in numbers for numbers in own):
            return wanted
        raise VersionNotFound(session.id, wanted)
    back = -wanted
    for numbers in reversed(own):
        if back < len(numbers):
            return numbers[-1 - back]
        back -= len(numbers)
    raise VersionNotFound(session.id, wanted)


def bearer_of(transaction: Transaction, session: SessionRow, number: int) -> SessionRow | None:
    """Returns the session whose version that is, of all that ever had an id; its last row."""
    if number in _numbers(session):
        return session
    if session.since is None:
        return None
    rows = transaction.former_sessions(session.namespace_id, session.id)
    return next((each for each in rows if number in _numbers(each)), None)


def rows_of_id(
    transaction: Transaction, namespace_id: NamespaceId, session_id: str
) -> list[SessionRow]:
    """Returns the rows of all that ever had an id, in the order in which they had it."""
    now = transaction.find_holder(namespace_id, session_id)
    earlier = transaction.former_sessions(namespace_id, session_id)
    return earlier if now is None else [*earlier, now]


def stretches(
    transaction: Transaction, tenant_id: TenantId, rows: Sequence[SessionRow]
) -> Iterator[tuple[SessionRow, range]]:
    """Yields such rows, each with the rows of the chain that were added while it had the id.

    Raises `Damaged` unless the chain itself says that the first version of each was made there.
    """
    begins = list[int]()
    for row in rows:
        place, at = (row.namespace_id, row.id), row.first
        found = transaction.list_traced_versions(
            tenant_id, *place, after=at - 1, before=at + 1, most=1
        )
        trace = to_traced(*place, found[0])[1] if found else None
        if trace is None:
            message = f"version {at} of session {row.id} is not what the journal says"
            raise Damaged(message)
        begins.append(trace.number)
    # Each ends where the next begins.
    for row, begin, end in zip(rows, begins, [*begins[1:], _LAST], strict=False):
        yield row, range(begin, end)


def find_bearer(
    transaction: Transaction, session: SessionRow, began_at: datetime
) -> SessionRow | None:
    """Returns what is known of the session that began then, of all that ever had an id."""
    if session.created_at == began_at:
        return session
    rows = transaction.former_sessions(session.namespace_id, session.id)
    return next(reversed(_of(rows, began_at)), None)


def free_instant(transaction: Transaction, session: SessionRow, now: datetime) -> datetime:
    """Returns when another session of this id begins: as no other did."""
    rows = [session, *transaction.former_sessions(session.namespace_id, session.id)]
    taken = {each.created_at for each in rows}
    while now in taken:
        now -= _TICK
    return now


def hand_over(transaction: Transaction, old: SessionRow, new: SessionRow) -> SessionRow:
    """Gives the id of a session to another, whose version is the next; returns that one's row."""
    transaction.add_former(replace(old, is_present=False))
    new = replace(new, since=new.version)
    transaction.set_session(new)
    transaction.bring_entities_back(new)
    return new


def let_go(
    transaction: Transaction, namespace_id: NamespaceId, session_id: str, began_us: int
) -> tuple[int, int]:
    """Removes a session with its history; whoever else had its id stays as it is.

    Returns how many versions and entities went. Raises `Damaged`, and then nothing is removed.
    """
    # Before anything goes: where one of them is damaged, nobody knows which versions are whose.
    rows = transaction.former_sessions(namespace_id, session_id)
    session = transaction.find_holder(namespace_id, session_id)
    began_at = from_us(began_us)
    versions = 0
    for each in _of(rows, began_at):
        versions += len(_numbers(each))
        transaction.drop_versions(each)
        transaction.drop_former(each)
    entities = transaction.drop_former_entities(namespace_id, session_id, began_at)
    left = [each for each in rows if each.created_at != began_at]
    if session is None or session.created_at != began_at:
        return versions, entities
    if not left:
        counted = transaction.count_history(namespace_id, session_id)
        transaction.purge_session(namespace_id, session_id)
        return versions + counted[0], entities + counted[1]
    # The last who had it before has it again, set aside: numbers go on from there.
    last = left[-1]
    entities += transaction.count_history(namespace_id, session_id)[1]
    transaction.drop_versions(session)
    transaction.drop_entities(session)
    transaction.drop_former(last)
    transaction.set_session(last)
    transaction.bring_entities_back(last)
    return versions + len(_numbers(session)), entities


def let_go_of_all(
    transaction: Transaction, namespace_id: NamespaceId, session_id: str
) -> tuple[int, int]:
    """Removes all that ever had an id, whatever their rows say; returns what `let_go` does."""
    versions, entities = transaction.count_history(namespace_id, session_id)
    transaction.purge_session(namespace_id, session_id)
    return versions, entities + transaction.drop_formers(namespace_id, session_id)


def times_of_others(transaction: Transaction, session: SessionRow) -> tuple[Time, ...]:
    """Returns when others had the id of a session: what was remembered then is not its own.

    Where one of their rows is damaged, that is all of the time until the session has it now.
    """
    if session.since is None:
        return ()
    try:
        earlier = transaction.former_sessions(session.namespace_id, session.id)
    except Damaged:
        return ((-_LAST, _got_at(transaction, session)),)
    rows = [*(each for each in earlier if each.version < session.first), session]
    times, got_at = list[Time](), -_LAST
    for row, after in pairwise(rows):
        lost_at = _got_at(transaction, after)
        if row.created_at != session.created_at:
            times.append((got_at, lost_at))
        elif row.version + 1 < after.first:
            # Whoever had it in between is gone for good: nobody knows when that one got it.
            times.append((to_us(row.deleted_at or row.updated_at) + 1, lost_at))
        got_at = lost_at
    return tuple(times)


def find_times_of_others(handle: Handle, session: SessionRow) -> tuple[Time, ...]:
    """Returns the same for whoever has no transaction; asks nobody if no other had the id."""
    if session.since is None:
        return ()
    with handle.context.catalog.read() as transaction:
        return times_of_others(transaction, session)


def _got_at(transaction: Transaction, session: SessionRow) -> int:
    version = transaction.find_version(session.namespace_id, session.id, session.first)
    if version is None:
        message = f"version {session.first} of session {session.id} is not there"
        raise Damaged(message)
    return to_us(version.created_at)


def _of(rows: Sequence[SessionRow], began_at: datetime) -> list[SessionRow]:
    return [each for each in rows if each.created_at == began_at]


def _numbers(session: SessionRow) -> range:
    return range(session.first, session.version + 1)
