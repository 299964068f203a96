"""Takes what was told of something out of the journal and out of the events.

Rows of the journal keep their place: their details go and the ids of who did it and to what, with
the random bytes that were hashed with both, and the hashes that stand for them in the chain stay.
Events keep their numbers, and say nothing any more.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from holdfast.catalog.hashing import REDACTED, erased
from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.journal.events import number_all
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, TenantId
from holdfast.model.basics import Head
from holdfast.model.events import EventRow
from holdfast.model.traces import TraceFilter, TraceRow

PAGE: Final = 1000


class _Purged(msgspec.Struct):
    """What a trace says of sessions whose rows went; one that somebody added may say anything."""

    sessions: Any = ()


Is = Callable[[EventRow, dict[str, Any]], bool]
"""Says whether an event, with what it says, is about what goes."""


def redact_namespace(transaction: Transaction, head: Head) -> int:
    """Takes details and ids out of all that was told of a namespace; returns of how many rows."""
    count, after = 0, 0
    # Its own chain whole, whatever kind its rows are of.
    while rows := transaction.page_traces(
        head.tenant_id, after=after, most=PAGE, stream=head.namespace_id
    ):
        count += _redact(transaction, rows)
        after = rows[-1].number
    # And what the tenant's chain says of it: old ones have all of it there.
    wanted = TraceFilter(namespace_id=head.namespace_id)
    for page in _pages(transaction, head.tenant_id, wanted):
        count += _redact(transaction, page)
    return count


def redact_part(
    transaction: Transaction,
    namespace_id: NamespaceId,
    session_id: str,
    *,
    user_id: str | None,
    numbers: tuple[int, int],
) -> int:
    """Takes details and ids out of what was told of a session while it was a user's.

    That is in some rows of its chain, and in none that is about another user. Returns of how many.
    """
    return _redact_all(
        transaction,
        lambda: transaction.traces_about(
            namespace_id, session_id, user_id=user_id, numbers=numbers
        ),
    )


def redact_session(
    transaction: Transaction,
    tenant_id: TenantId,
    namespace_id: NamespaceId,
    session_id: str,
    *,
    user_id: str | None = None,
) -> int:
    """Takes details and ids out of what was told of a session; returns of how many rows.

    With a user, not out of what is about another, who had its id.
    """
    count = _redact_all(
        transaction, lambda: transaction.traces_about(namespace_id, session_id, user_id=user_id)
    )
    # Those whose rows went together are named together.
    purges = TraceFilter(namespace_id=namespace_id, action="session.purged")
    for page in _pages(transaction, tenant_id, purges):
        count += _redact(transaction, [row for row in page if _lists(row, session_id)])
    return count


def redact_user(transaction: Transaction, tenant_id: TenantId, user_id: str) -> int:
    """Takes details and ids out of what was told of a user, also where it was done in what is gone.

    Returns of how many rows.
    """
    count = 0
    # First: afterwards nobody knows whose they were.
    for namespace_id, session_id in transaction.sessions_in_events(tenant_id, user_id):
        count += redact_session(transaction, tenant_id, namespace_id, session_id, user_id=user_id)
    return count + _redact_all(
        transaction, lambda: transaction.traces_about_user(tenant_id, user_id)
    )


def erase_events(
    transaction: Transaction, context: Context, tenant_id: TenantId, is_about: Is
) -> int:
    """Empties the events that are about something, and what was told and has no number yet.

    Returns how many.
    """
    number_all(transaction, context, tenant_id)
    count, after = 0, 0
    while page := transaction.page_events(tenant_id, after=after, most=PAGE):
        told = [(event, msgspec.json.decode(event.data, type=dict[str, Any])) for event in page]
        gone = [event for event, data in told if is_about(event, data)]
        transaction.erase_events(gone)
        count, after = count + len(gone), page[-1].number
    return count


def _pages(
    transaction: Transaction, tenant_id: TenantId, wanted: TraceFilter
) -> Iterator[list[TraceRow]]:
    while page := transaction.list_traces(tenant_id, wanted, most=PAGE):
        yield page
        last = page[-1]
        wanted = msgspec.structs.replace(wanted, until=(last.created_us, last.stream, last.number))


def _lists(row: TraceRow, session_id: str) -> bool:
    """Says whether a session is among those that a trace names."""
    if row.details.startswith(REDACTED):
        return False
    try:
        named = msgspec.json.decode(row.details, type=_Purged).sessions
    except msgspec.DecodeError as exc:
        raise Damaged(f"what trace {row.id} says cannot be read: {exc}") from exc
    return isinstance(named, list) and session_id in named


def _redact_all(transaction: Transaction, find: Callable[[], Sequence[TraceRow]]) -> int:
    """Takes details and ids out of rows until none is found; returns of how many."""
    count = 0
    while rows := find():
        changed = _redact(transaction, rows)
        if not changed:
            ids = ", ".join(row.id for row in rows[:3])
            raise Damaged(f"rows of the journal lost what they said, and still have ids: {ids}")
        count += changed
    return count


def _redact(transaction: Transaction, rows: Sequence[TraceRow]) -> int:
    changed = [(row, new) for row in rows if (new := erased(row)) != row]
    for row, new in changed:
        transaction.redact_trace(row, new)
    return len(changed)
