"""`namespace.sessions`: conversations with state, every change of which can be taken back.

    session = agent.sessions.create(agent_id="travel-agent", initial_state={"step": "asking"})
    agent.sessions.update_state(session.id, {"step": "booking"}, reasoning="dates are known")
    agent.sessions.rollback(session.id, version=0)

State and conversation are part of what the namespace's snapshots hold.
"""

import builtins
from datetime import datetime
from itertools import islice
from typing import Any

from msgspec import Raw

from holdfast.display import Part
from holdfast.engine.core.limits import MOST, check_answer, check_limit
from holdfast.engine.memory.plane import looking
from holdfast.engine.memory.recall import relevant, seen_by
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions import lifecycle, versioning
from holdfast.engine.sessions import state as states
from holdfast.engine.sessions.finding import check_gone, get_version
from holdfast.engine.sessions.showing import to_info, to_state
from holdfast.engine.sessions.turns import NOT_KEPT, TurnData, find_visible, page, to_turn
from holdfast.errors import TurnNotFound, VersionNotFound
from holdfast.ids import NamespaceId
from holdfast.jsontext import to_text
from holdfast.model.sessions import (
    Found,
    Lineage,
    SessionContext,
    SessionInfo,
    State,
    StateDiff,
    Turn,
    TurnRow,
    Version,
    VersionKind,
)


class Sessions(Part):
    """The sessions of a namespace."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    # Sessions

    def create(
        self,
        agent_id: str,
        *,
        initial_state: dict[str, Any] | None = None,
        user_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        ttl_seconds: int | None = None,
        session_id: str | None = None,
    ) -> SessionInfo:
        """Makes a session, with version 0 of its state; the namespace too, if need be.

        With `ttl_seconds` it is gone after that time, at most 30 days. An id of your own makes
        creating it twice an error.
        """
        found = lifecycle.create(
            self._handle,
            agent_id=agent_id,
            session_id=session_id,
            user_id=user_id,
            initial_state=initial_state,
            metadata=metadata,
            ttl_seconds=ttl_seconds,
        )
        return to_info(self._handle, found, later=True)

    def get(self, session_id: str) -> SessionInfo:
        """Returns a session; raises `SessionNotFound`, also if its time is over."""
        return self._info(lifecycle.get(self._handle, session_id))

    def list(
        self,
        *,
        agent_id: str | None = None,
        user_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        starting_after: str | None = None,
        limit: int | None = 20,
    ) -> list[SessionInfo]:
        """Returns sessions, newest first; `starting_after` is the id of the last one seen."""
        check_limit(limit)
        found = lifecycle.iterate(
            self._handle,
            agent_id=agent_id,
            user_id=user_id,
            metadata=metadata,
            created_after=created_after,
            created_before=created_before,
            starting_after=starting_after,
        )
        return self._infos(list(islice(found, limit)))

    def update(
        self,
        session_id: str,
        *,
        metadata: dict[str, Any] | None = None,
        ttl_seconds: int | None = None,
    ) -> SessionInfo:
        """Merges metadata at the top level, or starts a new term; the state stays as it is."""
        found = lifecycle.set_metadata(
            self._handle, session_id, metadata=metadata, ttl_seconds=ttl_seconds
        )
        return self._info(found)

    def delete(self, session_id: str, *, reason: str | None = None) -> None:
        """Takes a session away; a restore of a snapshot that holds it brings it back."""
        # Its entities go with it, and they are in no snapshot.
        self._handle.context.check_takes_away("delete a session")
        lifecycle.delete(self._handle, session_id, reason=reason)

    def fork(
        self,
        session_id: str,
        version: int | None = None,
        *,
        agent_id: str | None = None,
        include_turns: bool = False,
        metadata: dict[str, Any] | None = None,
        ttl_seconds: int | None = None,
    ) -> SessionInfo:
        """Makes a session that goes on from a version of this one, which stays as it is."""
        found = lifecycle.fork(
            self._handle,
            session_id,
            version=version,
            agent_id=agent_id,
            include_turns=include_turns,
            metadata=metadata,
            ttl_seconds=ttl_seconds,
        )
        return to_info(self._handle, found, later=True)

    def lineage(self, session_id: str) -> Lineage:
        """Returns a session with what it was forked from, and what was forked from it."""
        return lifecycle.lineage(self._handle, session_id)

    # State

    def get_state(self, session_id: str, *, version: int | None = None) -> State:
        """Returns the state: the newest, or that of a version (a negative one counts back)."""
        session, newest = lifecycle.get(self._handle, session_id)
        if version is None:
            return to_state(self._handle, session, newest)
        found = lifecycle.read(
            self._handle,
            lambda transaction, _: get_version(transaction, session, version),
        )
        if found is None:
            raise VersionNotFound(session_id, version)
        return to_state(self._handle, session, found)

    def update_state(
        self,
        session_id: str,
        state: dict[str, Any],
        *,
        reasoning: str | None = None,
        expected_version: int | None = None,
    ) -> State:
        """Makes a version in which these keys have these values; other keys stay.

        With `expected_version`, only if that is still the newest; else raises `StateMoved`.
        """
        return self._update(
            session_id,
            state,
            VersionKind.UPDATED,
            reasoning=reasoning,
            expected=expected_version,
        )

    def replace_state(
        self,
        session_id: str,
        state: dict[str, Any],
        *,
        reasoning: str | None = None,
        expected_version: int | None = None,
    ) -> State:
        """Makes a version with this state and nothing else; `expected_version` as above."""
        return self._update(
            session_id,
            state,
            VersionKind.REPLACED,
            reasoning=reasoning,
            expected=expected_version,
        )

    def history(
        self,
        session_id: str,
        *,
        since_version: int = -1,
        limit: int | None = 50,
        include_state: bool = True,
    ) -> builtins.list[Version]:
        """Returns the versions above `since_version`, oldest first; with None, all of them."""
        check_limit(limit)
        return versioning.history(
            self._handle,
            session_id,
            since=since_version,
            limit=MOST if limit is None else limit,
            include_state=include_state,
        )

    def diff(self, session_id: str, old: int, new: int) -> StateDiff:
        """Returns what leads from one version to another."""
        patch, text = versioning.compare(self._handle, session_id, old, new)
        return StateDiff(patch=patch, text=text)

    def rollback(
        self,
        session_id: str,
        version: int,
        *,
        reason: str | None = None,
        conversation: bool = False,
        expected_version: int | None = None,
    ) -> State:
        """Makes a version with the state of an earlier one; those between stay in the history.

        A negative version counts from the newest. With `conversation`, the turns go back to
        where they were then.
        """
        session, made = versioning.rollback(
            self._handle,
            session_id,
            version,
            reason=reason,
            conversation=conversation,
            expected=expected_version,
        )
        return to_state(self._handle, session, made, later=True)

    # Turns

    def add_turn(
        self,
        session_id: str,
        input: str | dict[str, Any],  # noqa: A002 - the word of the clients that speak to us
        output: str | dict[str, Any],
        *,
        metadata: dict[str, Any] | None = None,
        reasoning: str | None = None,
        state_before: dict[str, Any] | None = None,
        state_after: dict[str, Any] | None = None,
    ) -> Turn:
        """Adds an exchange to the conversation.

        It makes a version only if `state_after` is given and differs from the state now, and from
        `state_before` if that is given. The turn keeps both as they are given.
        """
        row, _ = versioning.add_turn(
            self._handle,
            session_id,
            given_input=input,
            given_output=output,
            metadata=metadata,
            reasoning=reasoning,
            state_before=state_before,
            state_after=state_after,
        )
        # Whoever says what the states were wants to see that they are kept.
        is_told = state_before is not None or state_after is not None
        return self._shown(session_id, [row], include_state=is_told)[0]

    def add_tool_call(
        self,
        session_id: str,
        name: str,
        *,
        arguments: dict[str, Any] | None = None,
        output: Any = None,
        call_id: str | None = None,
        reasoning: str | None = None,
    ) -> Turn:
        """Adds a call of a tool, with what it returned, as a turn."""
        about = {"name": name, "arguments": arguments or {}, "id": call_id}
        return self.add_turn(
            session_id,
            {"type": "tool_call", "content": name, "tool_metadata": about},
            {"type": "tool_response", "content": to_text(output), "output": output},
            reasoning=reasoning,
        )

    def get_turn(self, session_id: str, turn_id: str, *, include_state: bool = False) -> Turn:
        """Returns a turn of the conversation as it stands; raises `TurnNotFound`."""
        session, _ = lifecycle.get(self._handle, session_id)
        with self._handle.context.catalog.read() as transaction:
            row = find_visible(transaction, self._handle.tenant_id, session, turn_id)
        if row is None:
            raise TurnNotFound(turn_id)
        return self._shown(session_id, [row], include_state=include_state)[0]

    def list_turns(
        self,
        session_id: str,
        *,
        limit: int | None = 20,
        starting_after: str | None = None,
        order: str = "desc",
        include_state: bool = False,
    ) -> builtins.list[Turn]:
        """Returns turns, newest first, or with `order="asc"` oldest first."""
        session, _ = lifecycle.get(self._handle, session_id)
        with self._handle.context.catalog.read() as transaction:
            rows = page(
                transaction,
                self._handle.tenant_id,
                session,
                limit=limit,
                starting_after=starting_after,
                order=order,
            )
        return self._shown(session_id, rows, include_state=include_state)

    # What an agent needs to go on

    def get_context(
        self,
        session_id: str,
        query: str | None = None,
        *,
        memory_limit: int = 5,
        turn_limit: int = 5,
    ) -> SessionContext:
        """Returns the state, the memories that have to do with a question, and the last turns.

        Without a question, the newest memories. Turns come newest first.
        """
        check_limit(memory_limit)
        session, version = lifecycle.get(self._handle, session_id)
        seen = seen_by(session.id, session.user_id)
        found = relevant(self._handle, seen, query=query, most=memory_limit)
        return SessionContext(
            state=states.show(self._handle, version.state),
            memories=list(found.memories),
            recent_turns=self.list_turns(session_id, limit=turn_limit),
            average_relevance=found.average_relevance,
            drift_warning=found.drift_warning,
        )

    def _info(self, found: Found) -> SessionInfo:
        return self._infos([found])[0]

    def _infos(self, found: builtins.list[Found]) -> builtins.list[SessionInfo]:
        check_answer(self._handle.context.limits, (version.bytes for _, version in found))
        counts = self._count_memories(found)
        return [
            to_info(self._handle, each, memory_count=count)
            for each, count in zip(found, counts, strict=True)
        ]

    def _count_memories(self, found: builtins.list[Found]) -> builtins.list[int]:
        """Returns how many memories belong to each of some sessions."""
        with self._handle.context.catalog.read() as transaction:
            counts = [transaction.count_memories(s.namespace_id, s.id) for s, _ in found]
        if None not in counts:
            return [count for count in counts if count is not None]
        # A fork whose memories had no rows yet.
        with looking(self._handle) as (transaction, _):
            again = [transaction.count_memories(s.namespace_id, s.id) for s, _ in found]
        return [count or 0 for count in again]

    def _update(
        self,
        session_id: str,
        state: dict[str, Any],
        kind: VersionKind,
        *,
        reasoning: str | None,
        expected: int | None,
    ) -> State:
        session, made = versioning.update(
            self._handle,
            session_id,
            state,
            kind=kind,
            reasoning=reasoning,
            expected=expected,
        )
        return to_state(self._handle, session, made, later=True)

    def _shown(
        self, session_id: str, rows: builtins.list[TurnRow], *, include_state: bool
    ) -> builtins.list[Turn]:
        if not include_state:
            return [to_turn(self._handle, row, session_id) for row in rows]
        known = dict[tuple[int, str, int], tuple[int, dict[str, Any] | None]]()
        sizes = list[int]()
        with self._handle.context.catalog.read() as transaction:
            objects = self._handle.objects_in(transaction)

            def find_state(data: TurnData, number: int, given: Raw) -> dict[str, Any] | None:
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
                    if found is not None:
                        state = states.show(self._handle, found.state, objects)
                        known[place] = (found.bytes, state)
                sizes.append(known[place][0])
                check_answer(self._handle.context.limits, sizes)
                return known[place][1]

            return [to_turn(self._handle, row, session_id, find_state=find_state) for row in rows]
