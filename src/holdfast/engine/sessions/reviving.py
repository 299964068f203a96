"""Sessions that a restore, an undo or a redo brings back are alive, however long that took.

A session with a term lapses when it is over, also in what snapshots hold. Who brings a moment back
wants the conversations that were alive then: each of them that has lapsed since gets a full term
from now. Those that had lapsed by then already stay so.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions.following import session_of
from holdfast.entries import Session, encode_entry
from holdfast.instants import from_us, to_us
from holdfast.model.basics import EMPTY_MAP, Head, Plane, Root
from holdfast.tree import apply, diff, get_many, iterate

LONGEST: Final = timedelta(days=30)


def revive(
    transaction: Transaction,
    handle: Handle,
    stage: Stage,
    source: StagedObjects,
    *,
    head: Head,
    shown: Root,
    goal: Root,
    then: datetime,
) -> Root:
    """Returns what is to be shown, with a new term for the sessions that were alive `then`.

    Its cost follows what differs from what is shown now, and what has lapsed and is still there.
    """
    now = handle.context.clock()
    changes: dict[bytes, bytes | None] = {}
    for key, data in _may_have_lapsed(transaction, source, head, shown, goal, now=now):
        entry = session_of(data)
        if entry.expires_us is not None and to_us(then) < entry.expires_us <= to_us(now):
            changes[key] = encode_entry(_renewed(entry, now))
    if not changes:
        return goal
    applied = apply(source, goal.plane(Plane.SESSIONS), changes)
    stage.add_nodes(applied.nodes)
    return goal.replacing(sessions=applied.root)


def _may_have_lapsed(
    transaction: Transaction,
    source: StagedObjects,
    head: Head,
    shown: Root,
    goal: Root,
    *,
    now: datetime,
) -> Iterator[tuple[bytes, bytes]]:
    """Yields entries of the goal, those that have lapsed by now among them."""
    old, new = shown.plane(Plane.SESSIONS), goal.plane(Plane.SESSIONS)
    if new == EMPTY_MAP:
        return
    transaction.ahead(Transaction.lapsed_sessions, head.namespace_id, now=now)
    if transaction.is_lagging(head.namespace_id):
        yield from iterate(source, new)
        return
    for edit in diff(source, old, new):
        if edit.new is not None:
            yield edit.key, edit.new
    # What is equal in both is as its row says.
    lapsed = [each.encode() for each in transaction.lapsed_sessions(head.namespace_id, now=now)]
    yield from get_many(source, new, lapsed).items()


def _renewed(entry: Session, now: datetime) -> Session:
    """Returns a session with as long a term as it had, from now."""
    term = from_us(entry.expires_us or 0) - from_us(entry.created_us)
    return replace(entry, expires_us=to_us(now + min(term, LONGEST)))
