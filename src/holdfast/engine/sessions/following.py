"""Brings the rows of sessions to where the plane has gone.

Restore, undo, merge and import move the root of a namespace. In the same transaction each session
that differs gets a new version with the state and the conversation that came back: its history
only grows. A session that the new root does not hold is set aside: nobody finds it any more, by
its id or in a list, until an undo brings it back with all of its history.
"""

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.handle import Handle
from holdfast.engine.sessions.finding import Found
from holdfast.engine.view import View
from holdfast.entries import Session, decode_entry
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, ObjectId
from holdfast.instants import from_us
from holdfast.model import Head, Plane
from holdfast.model_sessions import SessionRow, VersionKind, VersionRow
from holdfast.tree import NodeSource, diff


@dataclass(frozen=True, slots=True)
class Told:
    """What the new versions say of where they come from."""

    reasoning: str | None = None
    actor: str | None = None
    trace_id: str | None = None


def follow(
    transaction: Transaction,
    handle: Handle,
    source: NodeSource,
    old: ObjectId,
    new: ObjectId,
    *,
    namespace_id: NamespaceId,
    now: datetime,
    told: Told,
) -> None:
    """Gives each session that differs between two roots of the plane a new version."""
    for edit in diff(source, old, new):
        session_id = edit.key.decode()
        found = transaction.find_session(handle.tenant_id, handle.name, session_id)
        if edit.new is None:
            if found is not None:
                transaction.set_session(replace(found[0], is_present=False))
            continue
        entry = session_of(edit.new)
        if found is None:
            _add(transaction, namespace_id, session_id, entry, now=now, told=told)
        else:
            _go_on(transaction, found[0], entry, now=now, told=told)


def catch_up(transaction: Transaction, handle: Handle, head: Head, *, now: datetime) -> None:
    """Writes the rows of the sessions that a fork was made with."""
    view = View.of_head(handle.objects, transaction, head, Plane.SESSIONS)
    for key, data in list(view.iterate()):
        session_id = key.decode()
        if transaction.find_session(handle.tenant_id, handle.name, session_id) is None:
            entry = session_of(data)
            _add(transaction, head.namespace_id, session_id, entry, now=now, told=Told())
    transaction.drop_lagging(head.namespace_id)


def rows_of(
    namespace_id: NamespaceId,
    session_id: str,
    entry: Session,
    *,
    now: datetime,
    told: Told | None = None,
) -> Found:
    """Returns the rows of a session of which an entry is all that is known."""
    session = SessionRow(
        namespace_id=namespace_id,
        id=session_id,
        agent_id=entry.agent_id,
        user_id=entry.user_id,
        metadata=entry.metadata,
        created_at=from_us(entry.created_us),
        updated_at=now,
        expires_at=None if entry.expires_us is None else from_us(entry.expires_us),
        version=0,
        branch=entry.branch,
        turns=entry.turns,
    )
    return session, _version_of(entry, 0, VersionKind.FORK, now=now, told=told or Told())


def _add(
    transaction: Transaction,
    namespace_id: NamespaceId,
    session_id: str,
    entry: Session,
    *,
    now: datetime,
    told: Told,
) -> None:
    session, version = rows_of(namespace_id, session_id, entry, now=now, told=told)
    transaction.add_session(session)
    transaction.add_version(namespace_id, session_id, version)


def _go_on(
    transaction: Transaction,
    session: SessionRow,
    entry: Session,
    *,
    now: datetime,
    told: Told,
) -> None:
    number = session.version + 1
    version = _version_of(entry, number, VersionKind.RESTORE, now=now, told=told)
    transaction.add_version(session.namespace_id, session.id, version)
    # All that the entry says: an archive may bring another session under an id of somebody's own
    # choosing.
    shown, _ = rows_of(session.namespace_id, session.id, entry, now=now)
    transaction.set_session(replace(shown, version=number))


def _version_of(
    entry: Session, number: int, kind: VersionKind, *, now: datetime, told: Told
) -> VersionRow:
    return VersionRow(
        number=number,
        kind=kind,
        state=entry.state,
        bytes=entry.bytes,
        branch=entry.branch,
        turns=entry.turns,
        created_at=now,
        reasoning=told.reasoning,
        actor=told.actor,
        trace_id=told.trace_id,
    )


def session_of(data: bytes) -> Session:
    """Returns an entry of the sessions plane; raises `Damaged` if it is no session."""
    entry = decode_entry(data)
    if not isinstance(entry, Session):
        raise Damaged("an entry of the sessions plane is not a session")
    return entry
