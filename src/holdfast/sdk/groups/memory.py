"""`client.memory` and `client.entities`: what agents remember, and what they know of things."""

from collections.abc import Iterable

from holdfast.model.entities import Entity
from holdfast.model.memories import Memory
from holdfast.operations.entities import (
    CreateEntity,
    DeleteEntity,
    GetEntity,
    ListEntities,
    UpdateEntity,
)
from holdfast.operations.memories import (
    AddMemory,
    DeleteMemory,
    GetMemory,
    ListMemories,
    SearchMemories,
    UpdateMemory,
)
from holdfast.sdk.calls import F, Group, Pages, all_of, method, pages


class Memories(Group[F]):
    """The memories of a namespace."""

    add = method(AddMemory)
    get = method(GetMemory)
    update = method(UpdateMemory)
    delete = method(DeleteMemory)
    list = method(ListMemories)
    search = method(SearchMemories)

    @pages
    def iter(
        self,
        *,
        session_id: str | None = None,
        scope: str | None = None,
        types: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Pages[Memory]:
        """Goes through all memories that `list` would return, newest first."""
        wanted = ListMemories(
            session_id=session_id,
            scope=scope,
            types=types,
            tags=tags,
            user_id=user_id,
            agent_id=agent_id,
        )
        return all_of(wanted)


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
