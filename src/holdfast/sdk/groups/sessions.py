"""`client.sessions`: the names of `holdfast.Namespace.sessions`."""

from datetime import datetime
from typing import Any

from holdfast.model.sessions import SessionContext, SessionInfo, Turn, Version
from holdfast.operations.sessions import (
    AddTurn,
    CompareVersions,
    CreateSession,
    DeleteSession,
    ForkSession,
    GetLineage,
    GetSession,
    GetState,
    GetTurn,
    ListSessions,
    ListTurns,
    ListVersions,
    Order,
    ReplaceState,
    RollbackState,
    ToolCall,
    UpdateSession,
    UpdateState,
)
from holdfast.sdk.calls import Call, F, Group, Pages, Sender, asking, call, method, pages, paging
from holdfast.sdk.reading import reads
from holdfast.sdk.reading_sessions import to_context
from holdfast.wire.turns import ContextAnswer, ContextRequest


class SessionsReader(Group[F]):
    """Sessions at one moment: now, or as a snapshot shows them."""

    def __init__(self, sender: Sender, *, at: str | None = None) -> None:
        super().__init__(sender)
        self.above = {} if at is None else {"at": at}

    get = method(GetSession)
    list = method(ListSessions)
    get_state = method(GetState)
    list_turns = method(ListTurns)

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
        wanted = ListSessions(
            agent_id=agent_id,
            user_id=user_id,
            metadata=metadata,
            created_after=created_after,
            created_before=created_before,
            limit=None,
        )
        return paging(wanted, self.above)

    @pages
    def iter_turns(
        self, session_id: str, *, order: Order = "desc", include_state: bool = False
    ) -> Pages[Turn]:
        """Goes through all turns of a conversation."""
        wanted = ListTurns(session_id, limit=None, order=order, include_state=include_state)
        return paging(wanted, self.above)


class Sessions(SessionsReader[F]):
    """The sessions of a namespace, to read and to change."""

    create = method(CreateSession)
    update = method(UpdateSession)
    delete = method(DeleteSession)
    fork = method(ForkSession)
    lineage = method(GetLineage)
    update_state = method(UpdateState)
    replace_state = method(ReplaceState)
    history = method(ListVersions)
    diff = method(CompareVersions)
    rollback = method(RollbackState)
    add_turn = method(AddTurn)
    get_turn = method(GetTurn)

    @pages
    def iter_history(
        self, session_id: str, *, since_version: int = -1, include_state: bool = True
    ) -> Pages[Version]:
        """Goes through the versions above `since_version`, oldest first."""
        wanted = ListVersions(
            session_id, since_version=since_version, limit=None, include_state=include_state
        )
        return paging(wanted)

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
        made = ToolCall(
            session_id,
            name,
            arguments=arguments,
            output=output,
            call_id=call_id,
            reasoning=reasoning,
        )
        return asking(made.turn())

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
            path="/v1/sessions/{session_id}/context",
            place={"session_id": session_id},
            body=body,
            read=reads(ContextAnswer, to_context),
            is_reading=True,
        )
