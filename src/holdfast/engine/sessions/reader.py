"""`namespace.at(snapshot).sessions`: sessions as a snapshot shows them, to read.

The state, the conversation and all that is known of a session are what they were then, also where
it was changed, deleted or past its time since. Its history is what rows say now: ask
`namespace.sessions` for that.
"""

import builtins
from collections.abc import Callable, Iterator
from itertools import dropwhile, islice
from typing import TypeVar

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.display import Part
from holdfast.engine.core.limits import check_limit
from holdfast.engine.planes.handle import Handle, looking_at
from holdfast.engine.planes.view import View
from holdfast.engine.sessions.bearers import find_bearer, version_numbers
from holdfast.engine.sessions.following import rows_of, session_of
from holdfast.engine.sessions.lifecycle import matches
from holdfast.engine.sessions.showing import check_infos, to_info, to_state
from holdfast.engine.sessions.turns import page, to_turn
from holdfast.entries import Session
from holdfast.errors import InvalidValue, SessionNotFound
from holdfast.fetching import fetched
from holdfast.instants import from_us, to_us
from holdfast.model.basics import Plane, SnapshotInfo
from holdfast.model.sessions import SessionInfo, SessionRow, SessionRows, State, Turn, VersionRow
from holdfast.operations.operation import does
from holdfast.operations.sessions import GetSession, GetState, ListSessions, ListTurns

T = TypeVar("T")


class SessionsReader(Part):
    """The sessions of a namespace as one snapshot shows them."""

    def __init__(self, handle: Handle, snapshot: SnapshotInfo) -> None:
        self._handle, self._snapshot = handle, snapshot

    @does(ListSessions)
    @fetched
    def list(self, wanted: ListSessions) -> list[SessionInfo]:
        check_limit(wanted.limit)
        if wanted.created_after is not None or wanted.created_before is not None:
            raise InvalidValue("at a snapshot, sessions are not found by when they were made")
        starting_after, metadata = wanted.starting_after, wanted.metadata

        def ask(transaction: Transaction, view: View) -> builtins.list[SessionRows]:
            rows = sorted(self._entries(view), key=lambda each: (each[1].created_us, each[0]))
            after = reversed(rows)
            if starting_after is not None:
                after = dropwhile(lambda each: each[0] != starting_after, after)
                if next(after, None) is None:
                    raise SessionNotFound(starting_after)
            chosen = (
                self._rows(session_id, entry)
                for session_id, entry in after
                if wanted.agent_id in (None, entry.agent_id)
                and wanted.user_id in (None, entry.user_id)
            )
            fitting = (each for each in chosen if metadata is None or matches(each[0], metadata))
            return [self._rows_of(transaction, *each) for each in islice(fitting, wanted.limit)]

        with looking_at(self._handle, self._snapshot):
            found = self._read(ask)
            check_infos(self._handle, found, include_state=wanted.include_state)
            return [
                to_info(self._handle, each, include_state=wanted.include_state) for each in found
            ]

    @does(GetSession)
    @fetched
    def get(self, wanted: GetSession) -> SessionInfo:
        with looking_at(self._handle, self._snapshot):
            return to_info(self._handle, self._get(wanted.session_id))

    @does(GetState)
    @fetched
    def get_state(self, wanted: GetState) -> State:
        if wanted.version is not None:
            raise InvalidValue("a snapshot shows one version of a state")
        with looking_at(self._handle, self._snapshot):
            return to_state(self._handle, *self._get(wanted.session_id))

    @does(ListTurns)
    @fetched
    def list_turns(self, wanted: ListTurns) -> builtins.list[Turn]:
        session_id = wanted.session_id

        def ask(transaction: Transaction, view: View) -> builtins.list[Turn]:
            session, _ = self._rows(session_id, self._entry(view, session_id))
            limits = self._handle.context.limits
            found = page(transaction, self._handle.tenant_id, session, wanted, limits=limits)
            return [to_turn(self._handle, row, session_id) for row in found]

        return self._read(ask)

    def _get(self, session_id: str) -> SessionRows:
        def ask(transaction: Transaction, view: View) -> SessionRows:
            entry = self._entry(view, session_id)
            return self._rows_of(transaction, *self._rows(session_id, entry))

        return self._read(ask)

    def _read(self, ask: Callable[[Transaction, View], T]) -> T:
        handle, snapshot = self._handle, self._snapshot
        with looking_at(handle, snapshot), handle.context.catalog.read() as transaction:
            objects = handle.objects_in(transaction)
            root = objects.get_root(snapshot.root).plane(Plane.SESSIONS)
            return ask(transaction, View(objects, root))

    def _entries(self, view: View) -> Iterator[tuple[str, Session]]:
        for key, data in view.iterate():
            entry = session_of(data)
            if self._is_there(entry):
                yield key.decode(), entry

    def _entry(self, view: View, session_id: str) -> Session:
        # As a key of the map: half a character has no bytes, and no session has such an id.
        data = view.get(session_id.encode("utf-8", "replace"))
        entry = None if data is None else session_of(data)
        if entry is None or not self._is_there(entry):
            raise SessionNotFound(session_id)
        return entry

    def _is_there(self, entry: Session) -> bool:
        return entry.expires_us is None or entry.expires_us > to_us(self._snapshot.created_at)

    def _rows_of(
        self, transaction: Transaction, session: SessionRow, version: VersionRow
    ) -> SessionRows:
        """Returns a session with what its rows know: which version it was, and its origin."""
        row = transaction.find_session(self._handle.tenant_id, self._handle.name, session.id)
        origin = None if row is None else find_bearer(transaction, row[0], session.created_at)
        at, known = self._snapshot.created_at, list[VersionRow]()
        for span in [] if origin is None else version_numbers(transaction, origin):
            place = session.namespace_id, session.id, span
            found = transaction.find_version_at(*place, state=version.state, at=at)
            known += [] if found is None else [found]
        then = [each for each in known if each.created_at <= at]
        version = (then[-1:] or known[:1] or [version])[0]
        session = replace(
            session,
            updated_at=version.created_at,
            version=version.number,
            forked_from=None if origin is None else origin.forked_from,
            forked_version=None if origin is None else origin.forked_version,
        )
        return session, version

    def _rows(self, session_id: str, entry: Session) -> SessionRows:
        """Returns what the snapshot alone says of a session."""
        now = from_us(entry.created_us)
        return rows_of(self._snapshot.namespace_id, session_id, entry, now=now)
