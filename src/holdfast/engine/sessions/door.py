"""`namespace.sessions`: conversations with state, every change of which can be taken back.

    session = agent.sessions.create(agent_id="travel-agent", initial_state={"step": "asking"})
    agent.sessions.update_state(session.id, {"step": "booking"}, reasoning="dates are known")
    agent.sessions.rollback(session.id, version=0)

State and conversation are part of what the namespace's snapshots hold.
"""

import builtins
from itertools import islice
from typing import Any

from msgspec import Raw

from holdfast.catalog.transaction import Transaction
from holdfast.display import Part
from holdfast.engine.core.limits import MOST, check_answer, check_limit
from holdfast.engine.memory.plane import looking
from holdfast.engine.memory.recall import relevant, seen_by
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions import lifecycle, versioning
from holdfast.engine.sessions import state as states
from holdfast.engine.sessions.bearers import find_times_of_others, times_of_others
from holdfast.engine.sessions.finding import check_gone, get_version
from holdfast.engine.sessions.showing import to_info, to_state
from holdfast.engine.sessions.turns import NOT_KEPT, TurnData, find_visible, page, to_turn
from holdfast.errors import TurnNotFound, VersionNotFound
from holdfast.ids import NamespaceId
from holdfast.model.sessions import (
    Lineage,
    SessionContext,
    SessionInfo,
    SessionRows,
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
        return self._info(lifecycle.get(self._handle, wanted.session_id))

    @does(ListSessions)
    def list(self, wanted: ListSessions) -> list[SessionInfo]:
        check_limit(wanted.limit)
        found = list(islice(lifecycle.iterate(self._handle, wanted), wanted.limit))
        return self._infos(found, include_state=wanted.include_state)

    @does(UpdateSession)
    def update(self, wanted: UpdateSession) -> SessionInfo:
        return self._info(lifecycle.update(self._handle, wanted))

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
        session, _ = lifecycle.get(self._handle, wanted.session_id)
        with self._handle.context.catalog.read() as transaction:
            row = find_visible(transaction, self._handle.tenant_id, session, wanted.turn_id)
        if row is None:
            raise TurnNotFound(wanted.turn_id)
        return self._shown(wanted.session_id, [row], include_state=wanted.include_state)[0]

    @does(ListTurns)
    def list_turns(self, wanted: ListTurns) -> builtins.list[Turn]:
        session, _ = lifecycle.get(self._handle, wanted.session_id)
        with self._handle.context.catalog.read() as transaction:
            rows = page(transaction, self._handle.tenant_id, session, wanted)
        return self._shown(wanted.session_id, rows, include_state=wanted.include_state)

    # What an agent needs to go on

    @does(GetContext)
    def get_context(self, wanted: GetContext) -> SessionContext:
        check_limit(wanted.memory_limit, takes_none=False)
        session, version = lifecycle.get(self._handle, wanted.session_id)
        seen = seen_by(session, find_times_of_others(self._handle, session))
        found = relevant(self._handle, seen, query=wanted.query, most=wanted.memory_limit)
        return SessionContext(
            session_id=session.id,
            version=version.number,
            state=states.show(self._handle, version.state),
            memories=list(found.memories),
            recent_turns=self.list_turns(session.id, limit=wanted.turn_limit),
            average_relevance=found.average_relevance,
            drift_warning=found.drift_warning,
        )

    def _info(self, found: SessionRows) -> SessionInfo:
        return self._infos([found])[0]

    def _infos(
        self, found: builtins.list[SessionRows], *, include_state: bool = True
    ) -> builtins.list[SessionInfo]:
        if include_state:
            check_answer(self._handle.context.limits, (version.bytes for _, version in found))
        counts = self._count_memories(found)
        return [
            to_info(self._handle, each, memory_count=count, include_state=include_state)
            for each, count in zip(found, counts, strict=True)
        ]

    def _count_memories(self, found: builtins.list[SessionRows]) -> builtins.list[int]:
        """Returns how many memories belong to each of some sessions."""

        def count(transaction: Transaction) -> builtins.list[int | None]:
            return [
                transaction.count_memories(
                    *(each.namespace_id, each.id),
                    since=each.created_at,
                    others=times_of_others(transaction, each),
                )
                for each, _ in found
            ]

        with self._handle.context.catalog.read() as transaction:
            counts = count(transaction)
        if None not in counts:
            return [each for each in counts if each is not None]
        # A fork whose memories had no rows yet.
        with looking(self._handle) as (transaction, _):
            return [each or 0 for each in count(transaction)]

    def _shown(
        self, session_id: str, rows: builtins.list[TurnRow], *, include_state: bool
    ) -> builtins.list[Turn]:
        if not include_state:
            return [to_turn(self._handle, row, session_id) for row in rows]
        known = dict[tuple[int, str, int], tuple[int, dict[str, Any] | None]]()
        sizes = list[int]()
        with self._handle.context.catalog.read() as transaction:
            objects = self._handle.objects_in(transaction)

            def find_state(
                turn: TurnRow, data: TurnData, number: int, given: Raw
            ) -> dict[str, Any] | None:
                if given != NOT_KEPT:
                    sizes.append(len(given))
                    check_answer(self._handle.context.limits, sizes)
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
                sizes.append(known[place][0])
                check_answer(self._handle.context.limits, sizes)
                return known[place][1]

            return [to_turn(self._handle, row, session_id, find_state=find_state) for row in rows]


def _is_of(turn: TurnRow, version: VersionRow, data: TurnData) -> bool:
    """Says whether a version is what a turn means by its number.

    One that came later is of a session that got the id once the other was gone for good. It did if
    both say so: a clock may be set back, and what says where in the journal it is may be damaged.
    """
    is_here = turn.stream == data.namespace_id
    return not is_here or version.journal <= turn.journal or version.created_at <= turn.created_at
