"""`client.sessions`: the names of `holdfast.Namespace.sessions`."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypeVar

from holdfast.jsontext import to_json, to_text
from holdfast.model.sessions import (
    Lineage,
    SessionContext,
    SessionInfo,
    State,
    StateDiff,
    Turn,
    Version,
)
from holdfast.sdk.calls import (
    Call,
    F,
    Group,
    Page,
    Pages,
    Query,
    Sender,
    Steps,
    call,
    flow,
    page_of,
    pages,
)
from holdfast.sdk.reading import nothing, reads, sent
from holdfast.sdk.reading_sessions import (
    to_context,
    to_diff,
    to_lineage,
    to_session,
    to_state,
    to_turn,
    to_version,
)
from holdfast.wire.sessions import (
    DiffAnswer,
    ForkRequest,
    LineageAnswer,
    RollbackAnswer,
    RollbackRequest,
    SessionAnswer,
    SessionList,
    SessionPatch,
    SessionRequest,
    StateAnswer,
    StateRequest,
    VersionList,
)
from holdfast.wire.turns import ContextAnswer, ContextRequest, TurnAnswer, TurnList, TurnRequest

PAGE: Final = 100
MOST_VERSIONS: Final = 1000
_ONE: Final = "/v1/sessions/{session_id}"
_STATE: Final = _ONE + "/state"
_TURNS: Final = _ONE + "/turns"

T = TypeVar("T")

TurnsFound = list[Turn]
VersionsFound = list[Version]
"""`list` is the name of a method below."""

_session = reads(SessionAnswer, to_session)
_state = reads(StateAnswer, to_state)
_turn = reads(TurnAnswer, to_turn)


class SessionsReader(Group[F]):
    """Sessions at one moment: now, or as a snapshot shows them."""

    def __init__(self, sender: Sender, *, at: str | None = None) -> None:
        super().__init__(sender)
        self._at = at

    @call
    def get(self, session_id: str) -> Call[SessionInfo]:
        """Returns a session; raises `SessionNotFound`, also if its time is over."""
        return _of("GET", _ONE, session_id, _session, query={"at": self._at})

    @flow
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
    ) -> Steps[list[SessionInfo]]:
        """Returns sessions, newest first; `starting_after` is the id of the last one seen."""
        filters = _filters(agent_id, user_id, metadata, created_after, created_before)
        return (yield from self._pages(filters, limit, starting_after).collect())

    @pages
    def iter(
        self,
        *,
        agent_id: str | None = None,
        user_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
    ) -> Pages[SessionInfo]:
        """Goes through all sessions that `list` would return, newest first."""
        filters = _filters(agent_id, user_id, metadata, created_after, created_before)
        return self._pages(filters, None, None)

    @call
    def get_state(self, session_id: str, *, version: int | None = None) -> Call[State]:
        """Returns the state: the newest, or that of a version (a negative one counts back)."""
        query = {"version": version, "at": self._at}
        return _of("GET", _STATE, session_id, _state, query=query)

    @flow
    def list_turns(
        self,
        session_id: str,
        *,
        limit: int | None = 20,
        starting_after: str | None = None,
        order: str = "desc",
        include_state: bool = False,
    ) -> Steps[TurnsFound]:
        """Returns turns, newest first, or with `order="asc"` oldest first."""
        found = self._turns(session_id, limit, starting_after, order, include_state=include_state)
        return (yield from found.collect())

    @pages
    def iter_turns(
        self, session_id: str, *, order: str = "desc", include_state: bool = False
    ) -> Pages[Turn]:
        """Goes through all turns of a conversation."""
        return self._turns(session_id, None, None, order, include_state=include_state)

    def _pages(self, filters: Query, limit: int | None, after: str | None) -> Pages[SessionInfo]:
        def ask(cursor: str | None, most: int) -> Call[Page[SessionInfo]]:
            query = {
                **filters,
                "limit": most,
                "starting_after": cursor or after,
                "at": self._at,
            }
            return Call(method="GET", path="/v1/sessions", query=query, read=_page_of_sessions)

        return Pages(PAGE, ask, limit)

    def _turns(
        self,
        session_id: str,
        limit: int | None,
        after: str | None,
        order: str,
        *,
        include_state: bool,
    ) -> Pages[Turn]:
        def ask(cursor: str | None, most: int) -> Call[Page[Turn]]:
            query = {
                "limit": most,
                "starting_after": cursor or after,
                "order": order,
                "include_state": include_state,
                "at": self._at,
            }
            return _of("GET", _TURNS, session_id, _page_of_turns, query=query)

        return Pages(PAGE, ask, limit)


class Sessions(SessionsReader[F]):
    """The sessions of a namespace, to read and to change."""

    @call
    def create(
        self,
        agent_id: str,
        *,
        session_id: str | None = None,
        user_id: str | None = None,
        initial_state: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        ttl_seconds: int | None = None,
    ) -> Call[SessionInfo]:
        """Makes a session, with version 0 of its state.

        A `session_id` of your own makes creating it twice an error. With `ttl_seconds` it is gone
        after that time, at most 30 days; without, it stays until somebody ends it.
        """
        body = SessionRequest(
            agent_id=agent_id,
            session_id=session_id,
            user_id=user_id,
            initial_state=initial_state,
            metadata=metadata,
            ttl_seconds=ttl_seconds,
            # Said, since other clients of this route mean a day if they say nothing.
            never_expires=True if ttl_seconds is None else None,
        )
        return Call(method="POST", path="/v1/sessions", body=body, read=_session)

    @call
    def update(
        self,
        session_id: str,
        *,
        metadata: dict[str, Any] | None = None,
        ttl_seconds: int | None = None,
    ) -> Call[SessionInfo]:
        """Merges metadata at the top level, or starts a new term; the state stays as it is."""
        body = SessionPatch(metadata=metadata, ttl_seconds=ttl_seconds)
        return _of("PATCH", _ONE, session_id, _session, body=body)

    @call
    def delete(self, session_id: str, *, reason: str | None = None) -> Call[None]:
        """Takes a session away; a restore of a snapshot that holds it brings it back."""
        return _of("DELETE", _ONE, session_id, nothing, query={"reason": reason})

    @call
    def fork(
        self,
        session_id: str,
        version: int | None = None,
        *,
        agent_id: str | None = None,
        include_turns: bool = False,
        metadata: dict[str, Any] | None = None,
        ttl_seconds: int | None = None,
    ) -> Call[SessionInfo]:
        """Makes a session that goes on from a version of this one, which stays as it is."""
        body = ForkRequest(
            version=version,
            agent_id=agent_id,
            include_turns=include_turns,
            metadata=metadata,
            ttl_seconds=ttl_seconds,
        )
        return _of("POST", _ONE + "/fork", session_id, _session, body=body)

    @call
    def lineage(self, session_id: str) -> Call[Lineage]:
        """Returns a session with what it was forked from, and what was forked from it."""
        return _of("GET", _ONE + "/lineage", session_id, reads(LineageAnswer, to_lineage))

    @call
    def update_state(
        self,
        session_id: str,
        state: dict[str, Any],
        *,
        reasoning: str | None = None,
        expected_version: int | None = None,
    ) -> Call[State]:
        """Makes a version in which these keys have these values; other keys stay.

        With `expected_version`, only if that is still the newest; else raises `StateMoved`.
        """
        body = StateRequest(state=state, reasoning=reasoning, expected_version=expected_version)
        return _of("PATCH", _STATE, session_id, _state, body=body)

    @call
    def replace_state(
        self,
        session_id: str,
        state: dict[str, Any],
        *,
        reasoning: str | None = None,
        expected_version: int | None = None,
    ) -> Call[State]:
        """Makes a version with this state and nothing else; `expected_version` as above."""
        body = StateRequest(state=state, reasoning=reasoning, expected_version=expected_version)
        return _of("PUT", _STATE, session_id, _state, body=body)

    @flow
    def history(
        self,
        session_id: str,
        *,
        since_version: int = -1,
        limit: int | None = 50,
        include_state: bool = True,
    ) -> Steps[VersionsFound]:
        """Returns the versions above `since_version`, oldest first; with None, all of them."""
        found = _versions(session_id, since_version, limit, include_state=include_state)
        return (yield from found.collect())

    @pages
    def iter_history(
        self, session_id: str, *, since_version: int = -1, include_state: bool = True
    ) -> Pages[Version]:
        """Goes through the versions above `since_version`, oldest first."""
        return _versions(session_id, since_version, None, include_state=include_state)

    @call
    def diff(self, session_id: str, old: int, new: int) -> Call[StateDiff]:
        """Returns what leads from one version to another."""
        query = {"from": old, "to": new}
        return _of("GET", _ONE + "/diff", session_id, reads(DiffAnswer, to_diff), query=query)

    @call
    def rollback(
        self,
        session_id: str,
        version: int,
        *,
        reason: str | None = None,
        conversation: bool = False,
        expected_version: int | None = None,
    ) -> Call[State]:
        """Makes a version with the state of an earlier one; those between stay in the history.

        A negative version counts from the newest. With `conversation`, the turns go back to
        where they were then.
        """
        body = RollbackRequest(
            version=version,
            reason=reason,
            conversation=conversation,
            expected_version=expected_version,
        )
        read = reads(RollbackAnswer, to_state)
        return _of("POST", _STATE + "/rollback", session_id, read, body=body)

    @call
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
    ) -> Call[Turn]:
        """Adds an exchange to the conversation.

        It makes a version only if `state_after` is given and differs from the state now, and from
        `state_before` if that is given.
        """
        body = TurnRequest(
            input=input,
            output=output,
            metadata=metadata,
            reasoning=reasoning,
            state_before=state_before,
            state_after=state_after,
        )
        return _of("POST", _TURNS, session_id, _turn, body=body)

    @call
    def add_tool_call(
        self,
        session_id: str,
        name: str,
        *,
        arguments: dict[str, Any] | None = None,
        output: Any = None,  # noqa: ANN401 - whatever a tool returns
        call_id: str | None = None,
        reasoning: str | None = None,
    ) -> Call[Turn]:
        """Adds a call of a tool, with what it returned, as a turn."""
        about = {"name": name, "arguments": arguments or {}, "id": call_id}
        body = TurnRequest(
            input={"type": "tool_call", "content": name, "tool_metadata": about},
            output={"type": "tool_response", "content": to_text(output), "output": output},
            reasoning=reasoning,
        )
        return _of("POST", _TURNS, session_id, _turn, body=body)

    @call
    def get_turn(self, session_id: str, turn_id: str, *, include_state: bool = False) -> Call[Turn]:
        """Returns a turn of the conversation as it stands; raises `TurnNotFound`."""
        place = {"session_id": session_id, "turn_id": turn_id}
        query = {"include_state": include_state}
        return Call(method="GET", path=_TURNS + "/{turn_id}", place=place, query=query, read=_turn)

    @call
    def get_context(
        self,
        session_id: str,
        query: str | None = None,
        *,
        memory_limit: int = 5,
        turn_limit: int = 5,
    ) -> Call[SessionContext]:
        """Returns the state, the memories that have to do with a question, and the last turns.

        Without a question, the newest memories. Turns come newest first.
        """
        body = ContextRequest(query=query, memory_limit=memory_limit, turn_limit=turn_limit)
        return Call(
            method="POST",
            path=_ONE + "/context",
            place={"session_id": session_id},
            body=body,
            read=reads(ContextAnswer, to_context),
            is_reading=True,
        )


def _of(
    method: str,
    path: str,
    session_id: str,
    read: Callable[[bytes], T],
    *,
    query: Query | None = None,
    body: object = None,
) -> Call[T]:
    place = {"session_id": session_id}
    return Call(method=method, path=path, place=place, query=query or {}, body=body, read=read)


def _filters(
    agent_id: str | None,
    user_id: str | None,
    metadata: dict[str, Any] | None,
    created_after: datetime | None,
    created_before: datetime | None,
) -> Query:
    return {
        "agent_id": agent_id,
        "user_id": user_id,
        "metadata": None if metadata is None else to_json(metadata, place="metadata").decode(),
        "created_after": sent(created_after),
        "created_before": sent(created_before),
    }


def _versions(
    session_id: str, since: int, limit: int | None, *, include_state: bool
) -> Pages[Version]:
    def ask(cursor: str | None, most: int) -> Call[Page[Version]]:
        query = {
            "since_version": since if cursor is None else int(cursor),
            "limit": most,
            "include_state": include_state,
        }
        return _of("GET", _STATE + "/history", session_id, _page_of_versions, query=query)

    return Pages(MOST_VERSIONS, ask, limit)


def _to_sessions(answer: SessionList) -> Page[SessionInfo]:
    found = [to_session(each) for each in answer.data]
    return page_of(found, has_more=answer.has_more, cursor=lambda last: last.id)


def _to_turns(answer: TurnList) -> Page[Turn]:
    found = [to_turn(each) for each in answer.data]
    return page_of(found, has_more=answer.has_more, cursor=lambda last: last.id)


def _to_versions(answer: VersionList) -> Page[Version]:
    found = [to_version(each) for each in answer.data]
    return page_of(found, has_more=answer.has_more, cursor=lambda last: str(last.number))


_page_of_sessions = reads(SessionList, _to_sessions)
_page_of_turns = reads(TurnList, _to_turns)
_page_of_versions = reads(VersionList, _to_versions)
