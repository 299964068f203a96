"""`client.sessions`, `client.memory`, `client.entities`: the names of those of a `Namespace`."""

from typing import Any

from holdfast.model.entities import Entity
from holdfast.model.memories import Memory
from holdfast.model.sessions import SessionInfo, Turn, Version
from holdfast.operations.memories import (
    AddMemory,
    CreateEntity,
    DeleteEntity,
    DeleteMemory,
    GetEntity,
    GetMemory,
    ListEntities,
    ListMemories,
    MemoryChoice,
    SearchMemories,
    UpdateEntity,
    UpdateMemory,
)
from holdfast.operations.operation import takes
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
    Order,
    ReplaceState,
    RollbackState,
    SessionChoice,
    ToolCall,
    UpdateSession,
    UpdateState,
)
from holdfast.sdk.calls import (
    Call,
    F,
    Group,
    Pages,
    Sender,
    all_of,
    asking,
    call,
    method,
    pages,
    paging,
)


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
    @takes(SessionChoice)
    def iter(self, wanted: SessionChoice) -> Pages[SessionInfo]:
        """Goes through all sessions that `list` would return, newest first."""
        return all_of(ListSessions(**vars(wanted)), self.above)

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
    get_context = method(GetContext)

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


class MemoriesReader(Group[F]):
    """Memories at one moment: now, or as a snapshot shows them."""

    def __init__(self, sender: Sender, *, at: str | None = None) -> None:
        super().__init__(sender)
        self.above = {} if at is None else {"at": at}

    get = method(GetMemory)
    list = method(ListMemories)

    @pages
    @takes(MemoryChoice)
    def iter(self, wanted: MemoryChoice) -> Pages[Memory]:
        """Goes through all memories that `list` would return, newest first."""
        return all_of(ListMemories(**vars(wanted)), self.above)


class Memories(MemoriesReader[F]):
    """The memories of a namespace, to read and to change."""

    add = method(AddMemory)
    update = method(UpdateMemory)
    delete = method(DeleteMemory)
    search = method(SearchMemories)


class Entities(Group[F]):
    """What sessions know of things."""

    create = method(CreateEntity)
    get = method(GetEntity)
    list = method(ListEntities)
    update = method(UpdateEntity)
    delete = method(DeleteEntity)

    @pages
    def iter(
        self, *, session_id: str | None = None, entity_type: str | None = None
    ) -> Pages[Entity]:
        """Goes through all entities, newest first."""
        return all_of(ListEntities(session_id=session_id, entity_type=entity_type))
