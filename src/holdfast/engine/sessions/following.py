"""Brings the rows of sessions to where the plane has gone.

Restore, undo, merge and import move the root of a namespace. In the same transaction each session
that differs gets a new version with the state and the conversation that came back: its history
only grows. A session that the new root does not hold is set aside: nobody finds it any more, by
its id or in a list, until an undo brings it back with all of its history. Where the root holds
another session of the same id, that one has the id from then on (`bearers.py`).

Each of these versions is a part of a row of the journal, as all versions are. Those rows are of a
kind of their own, which no list shows: what moved the root has left a trace that tells of it.
"""

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from holdfast.catalog.rows import TURN, VERSION
from holdfast.catalog.transaction import Transaction
from holdfast.engine.journal import chain
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.view import View
from holdfast.engine.sessions.bearers import find_bearer, hand_over, is_same
from holdfast.entries import Session, decode_entry
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, ObjectId
from holdfast.instants import from_us
from holdfast.model.basics import Head, Plane
from holdfast.model.sessions import SessionRow, SessionRows, TurnRow, VersionKind, VersionRow
from holdfast.model.traces import Trace, TraceEnd, TraceKind, TraceRow
from holdfast.tree import NodeSource, diff


@dataclass(frozen=True, slots=True)
class Origin:
    """What the new versions say of where they come from."""

    reasoning: str | None = None
    actor: str | None = None
    trace_id: str | None = None


class Keeping:
    """Appends rows to the chain of a namespace for versions and turns that come with something.

    Its head is locked; `finish` has to follow.
    """

    def __init__(self, transaction: Transaction, handle: Handle, head: Head, now: datetime) -> None:
        self._transaction, self._handle, self._head = transaction, handle, head
        self._now = now
        self._end = transaction.lock_end(head.tenant_id, head.namespace_id)
        self._rows = list[TraceRow]()

    def add_version(self, session_id: str, version: VersionRow, told: Origin) -> None:
        """Adds a version of a session."""
        namespace_id, number = self._head.namespace_id, self._end.number + 1
        version = replace(version, journal=number, salt=self._handle.context.ids.salt())
        digest = VERSION.seal(version, namespace_id, session_id).digest
        self._transaction.add_version(namespace_id, session_id, version)
        details = {} if told.reasoning is None else {"reasoning": told.reasoning}
        trace = Trace(
            action="version.kept",
            resource_type="session",
            resource_id=session_id,
            version=version.number,
            actor=told.actor,
            details=details,
        )
        self._append(trace, version=digest)

    def add_turn(self, turn: TurnRow) -> None:
        """Adds a turn."""
        salt = self._handle.context.ids.salt()
        stream, number = self._head.namespace_id, self._end.number + 1
        turn = replace(turn, stream=stream, journal=number, salt=salt)
        self._transaction.add_turn(turn)
        trace = Trace(action="turn.kept", resource_type="turn", resource_id=turn.id)
        self._append(trace, turn=TURN.seal(turn).digest)

    def finish(self) -> TraceEnd:
        """Writes the rows; returns where the chain ends now."""
        self._transaction.add_traces(self._rows)
        return self._end

    def _append(
        self, trace: Trace, *, version: bytes | None = None, turn: bytes | None = None
    ) -> None:
        context = self._handle.context
        row = chain.row_after(
            self._end,
            context,
            self._head,
            trace,
            trace_id=chain.new_id(context, self._now),
            stream=self._head.namespace_id,
            kind=TraceKind.KEPT,
            version=version,
            turn=turn,
        )
        self._rows.append(row)
        self._end = TraceEnd(row.number, row.hash)


def follow(
    transaction: Transaction,
    handle: Handle,
    source: NodeSource,
    old: ObjectId,
    new: ObjectId,
    *,
    head: Head,
    now: datetime,
    told: Origin,
) -> None:
    """Gives each session that differs between two roots of the plane a new version."""
    if old == new:
        return
    keeping = Keeping(transaction, handle, head, now)
    for edit in diff(source, old, new):
        session_id = edit.key.decode()
        found = transaction.find_session(handle.tenant_id, handle.name, session_id)
        if found is None and edit.old is not None and transaction.is_lagging(head.namespace_id):
            # The row of what is set aside says how long it was to stay.
            found = _caught_up(transaction, keeping, session_id, edit.old, head=head, now=now)
        if edit.new is None:
            if found is not None:
                transaction.set_session(replace(found[0], is_present=False))
            continue
        entry = session_of(edit.new)
        if found is not None and handle.context.adds_only:
            found = keep_conversation(keeping, found, now=now)
        if found is None:
            session, version = rows_of(head.namespace_id, session_id, entry, now=now, told=told)
            transaction.add_session(session)
        elif not is_same(found[0], entry):
            session, version = _take_over(transaction, found[0], entry, now=now, told=told)
        else:
            session, version = _go_on(found[0], entry, now=now, told=told)
            transaction.set_session(session)
        keeping.add_version(session_id, version, told)
    keeping.finish()


def keep_conversation(keeping: Keeping, found: SessionRows, *, now: datetime) -> SessionRows:
    """Returns a session with a version that shows all of its conversation; makes it, if need be.

    For who only adds: the conversation is about to go elsewhere, and what was said since the
    newest version would be shown by nothing any more.
    """
    session, version = found
    if (session.branch, session.turns) == (version.branch, version.turns):
        return found
    version = replace(
        version,
        number=session.version + 1,
        kind=VersionKind.TURN,
        branch=session.branch,
        turns=session.turns,
        created_at=now,
        target=None,
        trace_id=None,
    )
    keeping.add_version(session.id, version, Origin("kept before the conversation went elsewhere"))
    return replace(session, version=version.number), version


def catch_up(transaction: Transaction, handle: Handle, head: Head, *, now: datetime) -> TraceEnd:
    """Writes the rows of the sessions that a fork was made with; returns where its chain ends."""
    keeping = Keeping(transaction, handle, head, now)
    view = View.of_head(handle.objects, transaction, head, Plane.SESSIONS)
    for key, data in list(view.iterate()):
        session_id = key.decode()
        if transaction.find_session(handle.tenant_id, handle.name, session_id) is None:
            _caught_up(transaction, keeping, session_id, data, head=head, now=now)
    transaction.drop_lagging(head.namespace_id)
    return keeping.finish()


def _caught_up(
    transaction: Transaction,
    keeping: Keeping,
    session_id: str,
    data: bytes,
    *,
    head: Head,
    now: datetime,
) -> SessionRows:
    """Writes the rows of a session that a fork was made with."""
    session, version = rows_of(head.namespace_id, session_id, session_of(data), now=now)
    transaction.add_session(session)
    keeping.add_version(session_id, version, Origin())
    return session, version


def rows_of(
    namespace_id: NamespaceId,
    session_id: str,
    entry: Session,
    *,
    now: datetime,
    told: Origin | None = None,
) -> SessionRows:
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
    return session, _version_of(entry, 0, VersionKind.FORK, now=now, told=told or Origin())


def _go_on(session: SessionRow, entry: Session, *, now: datetime, told: Origin) -> SessionRows:
    number = session.version + 1
    version = _version_of(entry, number, VersionKind.RESTORE, now=now, told=told)
    # All that the entry says: an archive may bring anything under an id of somebody's own choosing.
    shown, _ = rows_of(session.namespace_id, session.id, entry, now=now)
    origin = {"forked_from": session.forked_from, "forked_version": session.forked_version}
    return replace(shown, version=number, since=session.since, **origin), version


def _take_over(
    transaction: Transaction, present: SessionRow, entry: Session, *, now: datetime, told: Origin
) -> SessionRows:
    """Gives an id to the session of an entry, which had it before or is new; returns its rows."""
    known = find_bearer(transaction, present, from_us(entry.created_us))
    number = present.version + 1
    if known is not None:
        session, version = _go_on(
            replace(known, version=present.version), entry, now=now, told=told
        )
    else:
        session, _ = rows_of(present.namespace_id, present.id, entry, now=now)
        session = replace(session, version=number)
        version = _version_of(entry, number, VersionKind.FORK, now=now, told=told)
    return hand_over(transaction, present, session), version


def _version_of(
    entry: Session, number: int, kind: VersionKind, *, now: datetime, told: Origin
) -> VersionRow:
    return VersionRow(
        number=number,
        kind=kind,
        state=entry.state,
        bytes=entry.bytes,
        branch=entry.branch,
        turns=entry.turns,
        created_at=now,
        trace_id=told.trace_id,
    )


def session_of(data: bytes) -> Session:
    """Returns an entry of the sessions plane; raises `Damaged` if it is no session."""
    entry = decode_entry(data)
    if not isinstance(entry, Session):
        raise Damaged("an entry of the sessions plane is not a session")
    return entry
