"""`client.memory` and `client.entities`: what agents remember, and what they know of things."""

from collections.abc import Iterable
from typing import Any, Final

from holdfast.model.entities import Entity
from holdfast.model.memories import FoundMemory, Memory
from holdfast.sdk.calls import Call, F, Group, Page, Pages, Steps, call, flow, page_of, pages
from holdfast.sdk.reading import (
    nothing,
    reads,
    texts,
    texts_or_none,
    to_entity,
    to_found,
    to_memory,
)
from holdfast.wire.entities import EntityAnswer, EntityList, EntityPatch, EntityRequest
from holdfast.wire.memories import (
    MemoryAnswer,
    MemoryList,
    MemoryPatch,
    MemoryRequest,
    SearchAnswer,
    SearchRequest,
)

PAGE: Final = 100
OBVIOUS: Final = 0.7
"""The score from which on a match is an obvious one."""

FoundList = list[FoundMemory]
"""`list` is the name of a method below."""

_memory = reads(MemoryAnswer, to_memory)
_entity = reads(EntityAnswer, to_entity)


class Memories(Group[F]):
    """The memories of a namespace."""

    @call
    def add(
        self,
        content: str,
        *,
        type: str = "general",  # noqa: A002 - the word that clients know it by
        session_id: str | None = None,
        tags: Iterable[str] = (),
        metadata: dict[str, Any] | None = None,
        embed: bool = True,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> Call[Memory]:
        """Remembers something; without a session, for all of them.

        What belongs to a session belongs to its user and agent. With `embed=False`, `search`
        does not find it.
        """
        body = MemoryRequest(
            content=content,
            type=type,
            session_id=session_id,
            tags=texts("tags", tags),
            metadata=metadata,
            embed=embed,
            user_id=user_id,
            agent_id=agent_id,
        )
        return Call(method="POST", path="/v1/memory", body=body, read=_memory)

    @call
    def get(self, memory_id: str) -> Call[Memory]:
        """Returns a memory by its id; raises `MemoryNotFound`."""
        return _one("GET", memory_id)

    @call
    def update(
        self,
        memory_id: str,
        *,
        content: str | None = None,
        type: str | None = None,  # noqa: A002 - as in `add`
        tags: Iterable[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Call[Memory]:
        """Changes what is given: tags replace the old ones, metadata is merged key by key."""
        marks = texts_or_none("tags", tags)
        body = MemoryPatch(content=content, type=type, tags=marks, metadata=metadata)
        return _one("PATCH", memory_id, body)

    @call
    def delete(self, memory_id: str) -> Call[None]:
        """Forgets a memory; an admin can bring it back for a while."""
        place = {"memory_id": memory_id}
        return Call(method="DELETE", path="/v1/memory/{memory_id}", place=place, read=nothing)

    @flow
    def list(
        self,
        *,
        session_id: str | None = None,
        scope: str | None = None,
        types: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        limit: int = 20,
        starting_after: str | None = None,
    ) -> Steps[list[Memory]]:
        """Returns memories, newest first; `starting_after` continues below one, by its id.

        Which ones a session sees is said at `search`.
        """
        query = _query(
            session_id=session_id,
            scope=scope,
            types=types,
            tags=tags,
            user_id=user_id,
            agent_id=agent_id,
        )
        return (yield from _memories(query, limit, starting_after).collect())

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
        return _memories(
            _query(
                session_id=session_id,
                scope=scope,
                types=types,
                tags=tags,
                user_id=user_id,
                agent_id=agent_id,
            ),
            None,
            None,
        )

    @call
    def search(
        self,
        query: str,
        *,
        session_id: str | None = None,
        scope: str | None = None,
        types: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        threshold: float = OBVIOUS,
        limit: int = 10,
        user_id: str | None = None,
    ) -> Call[FoundList]:
        """Returns what answers a question, best first: obvious matches, unless `threshold` is less.

        With a session: its own memories, those of its user, and what belongs to nobody; with
        `scope`, one of the three: `session`, `user`, `global`. `tags` and `types` ask for any of
        them, `user_id` for one user's alone.
        """
        body = SearchRequest(
            query=query,
            session_id=session_id,
            types=texts_or_none("types", types),
            tags=texts_or_none("tags", tags),
            threshold=threshold,
            limit=limit or 1,  # A server returns one at the least; who wants none is given none.
            user_id=user_id,
            scope=scope,
        )
        wanted = 0 if [] in (body.types, body.tags) else limit  # Any of none is nothing.
        found = reads(SearchAnswer, lambda answer: [to_found(x) for x in answer.data[:wanted]])
        path = "/v1/memory/search"
        return Call(method="POST", path=path, body=body, read=found, is_reading=True)


class Entities(Group[F]):
    """What sessions know of things."""

    @call
    def create(
        self,
        session_id: str,
        *,
        entity_type: str,
        entity_id: str,
        attributes: dict[str, Any] | None = None,
    ) -> Call[Entity]:
        """Notes a thing; raises `EntityExists` if the session knows it already."""
        body = EntityRequest(
            session_id=session_id,
            entity_type=entity_type,
            entity_id=entity_id,
            attributes=attributes,
        )
        return Call(method="POST", path="/v1/entities", body=body, read=_entity)

    @call
    def get(self, row_id: str) -> Call[Entity]:
        """Returns a thing by its id; raises `EntityNotFound`."""
        place = {"row_id": row_id}
        return Call(method="GET", path="/v1/entities/{row_id}", place=place, read=_entity)

    @flow
    def list(
        self,
        *,
        session_id: str | None = None,
        entity_type: str | None = None,
        limit: int = 20,
        starting_after: str | None = None,
    ) -> Steps[list[Entity]]:
        """Returns entities, newest first; `starting_after` continues below one, by its id."""
        found = _entities(session_id, entity_type, limit, starting_after)
        return (yield from found.collect())

    @pages
    def iter(
        self, *, session_id: str | None = None, entity_type: str | None = None
    ) -> Pages[Entity]:
        """Goes through all entities, newest first."""
        return _entities(session_id, entity_type, None, None)

    @call
    def update(self, row_id: str, attributes: dict[str, Any]) -> Call[Entity]:
        """Replaces all that is known of a thing."""
        place, body = {"row_id": row_id}, EntityPatch(attributes=attributes)
        path = "/v1/entities/{row_id}"
        return Call(method="PUT", path=path, place=place, body=body, read=_entity)

    @call
    def delete(self, row_id: str) -> Call[None]:
        """Forgets a thing."""
        place = {"row_id": row_id}
        return Call(method="DELETE", path="/v1/entities/{row_id}", place=place, read=nothing)


def _one(method: str, memory_id: str, body: object = None) -> Call[Memory]:
    place = {"memory_id": memory_id}
    path = "/v1/memory/{memory_id}"
    return Call(method=method, path=path, place=place, body=body, read=_memory)


def _query(
    *,
    session_id: str | None,
    scope: str | None,
    types: Iterable[str] | None,
    tags: Iterable[str] | None,
    user_id: str | None,
    agent_id: str | None,
) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "scope": scope,
        "types": texts_or_none("types", types),
        "tags": texts_or_none("tags", tags),
        "user_id": user_id,
        "agent_id": agent_id,
    }


def _memories(query: dict[str, Any], limit: int | None, after: str | None) -> Pages[Memory]:
    def ask(cursor: str | None, most: int) -> Call[Page[Memory]]:
        asked = {**query, "limit": most, "starting_after": cursor or after}
        return Call(method="GET", path="/v1/memory", query=asked, read=reads(MemoryList, _page))

    # Any of none is nothing; in a query it would look like no choice at all.
    return Pages(PAGE, ask, 0 if [] in (query["types"], query["tags"]) else limit)


def _page(answer: MemoryList) -> Page[Memory]:
    found = [to_memory(each) for each in answer.data]
    return page_of(found, has_more=answer.has_more, cursor=lambda last: last.id)


def _entities(
    session_id: str | None, entity_type: str | None, limit: int | None, after: str | None
) -> Pages[Entity]:
    def read(answer: EntityList) -> Page[Entity]:
        found = [to_entity(each) for each in answer.data]
        return page_of(found, has_more=answer.has_more, cursor=lambda last: last.id)

    def ask(cursor: str | None, most: int) -> Call[Page[Entity]]:
        query = {
            "session_id": session_id,
            "entity_type": entity_type,
            "limit": most,
            "starting_after": cursor or after,
        }
        return Call(method="GET", path="/v1/entities", query=query, read=reads(EntityList, read))

    return Pages(PAGE, ask, limit)
