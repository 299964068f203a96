"""`namespace.sessions`: conversations with state, every change of which can be taken back.

    session = agent.sessions.create(agent_id="travel-agent", initial_state={"step": "asking"})
    agent.sessions.update_state(session.id, {"step": "booking"}, reasoning="dates are known")
    agent.sessions.rollback(session.id, version=0)

State and conversation are part of what the namespace's snapshots hold.
"""

import builtins
from typing import Any

from msgspec import Raw

from holdfast.catalog.transaction import Transaction
from holdfast.display import Part
from holdfast.engine.core.limits import MOST, check_items, check_limit
from holdfast.engine.memory.recall import Query, relevant, seen_by
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions import lifecycle, versioning
from holdfast.engine.sessions import state as states
from holdfast.engine.sessions.bearers import times_of_others
from holdfast.engine.sessions.finding import check_gone, get_version
from holdfast.engine.sessions.showing import check_infos, to_info, to_state
from holdfast.engine.sessions.turns import (
    NOT_KEPT,
    TurnData,
    data_of,
    find_visible,
    page,
    to_turn,
)
from holdfast.errors import TurnNotFound, VersionNotFound
from holdfast.ids import NamespaceId
from holdfast.model.memories import Relevant
from holdfast.model.sessions import (
    Lineage,
    SessionContext,
    SessionInfo,
    SessionRow,
    State,
    StateDiff,
    Turn,
    TurnRow,
    Version,
    VersionKind,
    VersionRow,
)
from holdfast.operations.operation import does, takes
from holdfast.operations.sessions import (
    AddTurn,
    CompareVersions,
    CreateSession,
    DeleteSession,
    ForkSession,
    GetContext,
    GetLineage,
    GetSession,
    GetState,
    GetTurn,
    ListSessions,
    ListTurns,
    ListVersions,
    ReplaceState,
    RollbackState,
    ToolCall,
    UpdateSession,
    UpdateState,
)


class Sessions(Part):
    """The sessions of a namespace."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    # Sessions

    @does(CreateSession)
    def create(self, wanted: CreateSession) -> SessionInfo:
        return to_info(self._handle, lifecycle.create(self._handle, wanted), later=True)

    @does(GetSession)
    def get(self, wanted: GetSession) -> SessionInfo:
        return self._infos([lifecycle.look(self._handle, wanted.session_id, _counted)])[0]

    @does(ListSessions)
    def list(self, wanted: ListSessions) -> list[SessionInfo]:
        check_limit(wanted.limit)
        found = list(lifecycle.iterate(self._handle, wanted))
        return self._infos(found, include_state=wanted.include_state)

    @does(UpdateSession)
    def update(self, wanted: UpdateSession) -> SessionInfo:
        return self._infos([lifecycle.update(self._handle, wanted)])[0]

    @does(DeleteSession)
    def delete(self, wanted: DeleteSession) -> None:
        # Its entities go with it, and they are in no snapshot.
        self._handle.context.check_takes_away("delete a session")
        lifecycle.delete(self._handle, wanted)

    @does(ForkSession)
    def fork(self, wanted: ForkSession) -> SessionInfo:
        return to_info(self._handle, lifecycle.fork(self._handle, wanted), later=True)

    @does(GetLineage)
    def lineage(self, wanted: GetLineage) -> Lineage:
        return lifecycle.lineage(self._handle, wanted.session_id)

    # State

    @does(GetState)
    def get_state(self, wanted: GetState) -> State:
        session, newest = lifecycle.get(self._handle, wanted.session_id)
        number = wanted.version
        if number is None:
            return to_state(self._handle, session, newest)
        found = lifecycle.read(
            self._handle,
            lambda transaction, _: get_version(transaction, session, number),
        )
        if found is None:
            raise VersionNotFound(session.id, number)
        return to_state(self._handle, session, found)

    @does(UpdateState)
    def update_state(self, wanted: UpdateState) -> State:
        return self._change(wanted, VersionKind.UPDATED)

    @does(ReplaceState)
    def replace_state(self, wanted: ReplaceState) -> State:
        return self._change(wanted, VersionKind.REPLACED)

    def _change(self, wanted: UpdateState | ReplaceState, kind: VersionKind) -> State:
        session, made = versioning.update(
            self._handle,
            wanted.session_id,
            wanted.state,
            kind=kind,
            reasoning=wanted.reasoning,
            expected=wanted.expected_version,
        )
        return to_state(self._handle, session, made, later=True)

    @does(ListVersions)
    def history(self, wanted: ListVersions) -> builtins.list[Version]:
        check_limit(wanted.limit)
        return versioning.history(
            self._handle,
            wanted.session_id,
            since=max(-1, min(wanted.since_version, MOST)),
            limit=MOST if wanted.limit is None else wanted.limit,
            include_state=wanted.include_state,
        )

    @does(CompareVersions)
    def diff(self, wanted: CompareVersions) -> StateDiff:
        found = versioning.compare(self._handle, wanted.session_id, wanted.old, wanted.new)
        return StateDiff(found.patch, found.text, wanted.session_id, found.old, found.new)

    @does(RollbackState)
    def rollback(self, wanted: RollbackState) -> State:
        session, made = versioning.rollback(
            self._handle,
            wanted.session_id,
            wanted.version,
            reason=wanted.reason,
            conversation=wanted.conversation,
            expected=wanted.expected_version,
            expected_turns=wanted.expected_turns,
        )
        return to_state(self._handle, session, made, later=True)

    # Turns

    @does(AddTurn)
    def add_turn(self, wanted: AddTurn) -> Turn:
        return self._add(wanted)

    def _add(self, wanted: AddTurn) -> Turn:
        row, _ = versioning.add_turn(
            self._handle,
            wanted.session_id,
            given_input=wanted.input,
            given_output=wanted.output,
            metadata=wanted.metadata,
            reasoning=wanted.reasoning,
            state_before=wanted.state_before,
            state_after=wanted.state_after,
        )
        # Whoever says what the states were wants to see that they are kept.
        is_told = wanted.state_before is not None or wanted.state_after is not None
        return self._shown(wanted.session_id, [row], include_state=is_told)[0]

    @takes(ToolCall)
    def add_tool_call(self, wanted: ToolCall) -> Turn:
        """Adds a call of a tool, with what it returned, as a turn."""
        return self._add(wanted.turn())

    @does(GetTurn)
    def get_turn(self, wanted: GetTurn) -> Turn:
        tenant_id = self._handle.tenant_id

        def ask(transaction: Transaction, session: SessionRow, _: VersionRow) -> TurnRow:
            row = find_visible(transaction, tenant_id, session, wanted.turn_id)
            if row is None:
                raise TurnNotFound(wanted.turn_id)
            return row

        row = lifecycle.look(self._handle, wanted.session_id, ask)
        return self._shown(wanted.session_id, [row], include_state=wanted.include_state)[0]

    @does(ListTurns)
    def list_turns(self, wanted: ListTurns) -> builtins.list[Turn]:
        rows = lifecycle.look(
            self._handle,
            wanted.session_id,
            lambda transaction, session, _: self._page(transaction, session, wanted),
        )
        return self._shown(wanted.session_id, rows, include_state=wanted.include_state)

    # What an agent needs to go on

    @does(GetContext)
    def get_context(self, wanted: GetContext) -> SessionContext:
        check_limit(wanted.memory_limit, takes_none=False)
        query = Query.of_context(self._handle, wanted.query)
        last = ListTurns(wanted.session_id, limit=wanted.turn_limit)

        def ask(
            transaction: Transaction, session: SessionRow, version: VersionRow
        ) -> tuple[VersionRow, Relevant, builtins.list[TurnRow]] | None:
            if transaction.is_lagging_memories(session.namespace_id):
                return None
            seen = seen_by(session, times_of_others(transaction, session))
            found = relevant(
                transaction, session.namespace_id, seen, query=query, most=wanted.memory_limit
            )
            return version, found, self._page(transaction, session, last)

        version, found, turns = lifecycle.look(self._handle, wanted.session_id, ask)
        return SessionContext(
            session_id=wanted.session_id,
            version=version.number,
            # What a version stands for never changes: it is read when the moment is over.
            state=states.show(self._handle, version.state),
            memories=list(found.memories),
            recent_turns=self._shown(wanted.session_id, turns, include_state=False),
            average_relevance=found.average_relevance,
            drift_warning=found.drift_warning,
        )

    def _page(
        self, transaction: Transaction, session: SessionRow, wanted: ListTurns
    ) -> builtins.list[TurnRow]:
        limits = self._handle.context.limits
        return page(transaction, self._handle.tenant_id, session, wanted, limits=limits)

    def _infos(
        self, found: builtins.list[lifecycle.Counted], *, include_state: bool = True
    ) -> builtins.list[SessionInfo]:
        check_infos(self._handle, [each for each, _ in found], include_state=include_state)
        return [
            to_info(self._handle, each, memory_count=count, include_state=include_state)
            for each, count in found
        ]

    def _shown(
        self, session_id: str, rows: builtins.list[TurnRow], *, include_state: bool
    ) -> builtins.list[Turn]:
        if not include_state:
            return [to_turn(self._handle, row, session_id) for row in rows]
        known = dict[tuple[int, str, int], tuple[int, dict[str, Any] | None]]()
        sizes = {row.number: len(row.data) for row in rows}
        with self._handle.context.catalog.read() as transaction:
            objects = self._handle.objects_in(transaction)

            def find_state(
                turn: TurnRow, data: TurnData, number: int, given: Raw
            ) -> dict[str, Any] | None:
                if given != NOT_KEPT:  # What the row holds counts already.
                    return states.show_given(self._handle, given)
                place = (data.namespace_id, data.session_id, number)
                if place not in known:
                    where = NamespaceId(data.namespace_id), data.session_id
                    found = transaction.find_version(*where, number)
                    if found is None:
                        check_gone(transaction, self._handle, *where, number)
                    known[place] = (0, None)
                    if found is not None and _is_of(turn, found, data):
                        state = states.show(self._handle, found.state, objects)
                        known[place] = (found.bytes, state)
                sizes[turn.number] += known[place][0]
                check_items(self._handle.context.limits, sizes.values())
                return known[place][1]

            return [to_turn(self._handle, row, session_id, find_state=find_state) for row in rows]


def version_of(sessions: Sessions, session_id: str, turn_id: str, *, before: bool = False) -> int:
    """Returns the version that the state of a session had after a turn, or `before` it.

    A turn may have been given other states than the session's. Raises `TurnNotFound`, and
    `VersionNotFound` if it was said elsewhere, and the version there is not the one here.
    """
    handle = sessions._handle  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - of this door

    def ask(transaction: Transaction, session: SessionRow, _: VersionRow) -> int:
        turn = find_visible(transaction, handle.tenant_id, session, turn_id)
        if turn is None:
            raise TurnNotFound(turn_id)
        data = data_of(turn)
        number = data.before if before else data.after
        found = get_version(transaction, session, number)
        place = NamespaceId(data.namespace_id), data.session_id
        if place != (session.namespace_id, session.id):
            meant = transaction.find_version(*place, number)
        else:
            meant = found
        if meant is None or not _is_of(turn, meant, data) or meant.state != found.state:
            raise VersionNotFound(session_id, number)
        return number

    return lifecycle.look(handle, session_id, ask)


def _counted(
    transaction: Transaction, session: SessionRow, version: VersionRow
) -> lifecycle.Counted | None:
    """Returns a session with how many memories it has; None if they have no rows yet."""
    count = lifecycle.count_memories(transaction, session)
    return None if count is None else ((session, version), count)


def _is_of(turn: TurnRow, version: VersionRow, data: TurnData) -> bool:
    """Says whether a version is what a turn means by its number.

    One that came later is of a session that got the id once the other was gone for good. It did if
    both say so: a clock may be set back, and what says where in the journal it is may be damaged.
    """
    is_here = turn.stream == data.namespace_id
    return not is_here or version.journal <= turn.journal or version.created_at <= turn.created_at
