"""What agents remember: added, found again, changed, forgotten.

Clients in use know two names for most of these routes; both lead to the same function.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from msgspec import Meta

from holdfast.engine.namespace import Namespace
from holdfast.errors import MemoryNotFound
from holdfast.model.memories import FoundMemory, Memory
from holdfast.server.paging import page_size, paged
from holdfast.server.problems import ContentTooLarge
from holdfast.server.routing import Route, delete, get, patch, post, put
from holdfast.server.times import shown
from holdfast.wire.memories import (
    FoundAnswer,
    MemoryAnswer,
    MemoryList,
    MemoryPatch,
    MemoryRequest,
    SearchAnswer,
    SearchRequest,
)

LISTED, MOST_LISTED = 20, 100
FOUND, MOST_FOUND = 10, 1000
OBVIOUS: Final = 0.7
MAX_CHARS: Final = 10_000
_ONE: Final = ["/v1/memories/{memory_id}", "/v1/memory/{memory_id}"]

Words = Annotated[list[str] | None, Meta(description="One, several, or joined by commas.")]


@post(["/v1/memories", "/v1/memory"], status=201)
def add(agent: Namespace, data: MemoryRequest) -> MemoryAnswer:
    """Remembers something; it is found from now on."""
    return _added(agent, data, data.session_id)


@post("/v1/sessions/{session_id}/memories", status=201)
def add_to_session(agent: Namespace, session_id: str, data: MemoryRequest) -> MemoryAnswer:
    """Remembers something that belongs to a session."""
    return _added(agent, data, session_id)


@get(["/v1/memories", "/v1/memory"])
def list_or_search(
    agent: Namespace,
    query: str | None = None,
    session_id: str | None = None,
    types: Words = None,
    type: str | None = None,
    tags: Words = None,
    threshold: float | None = None,
    limit: int | None = None,
    top_k: int | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    scope: str | None = None,
    starting_after: str | None = None,
) -> SearchAnswer | MemoryList:
    """Searches, where there is a question; else lists memories, newest first."""
    wanted = SearchRequest(
        query=query or "",
        session_id=session_id,
        types=_words(types, type),
        tags=_words(tags),
        threshold=threshold,
        limit=limit,
        top_k=top_k,
        user_id=user_id,
        scope=scope,
    )
    if query is not None:
        return _found(agent, wanted)
    return _newest(agent, wanted, agent_id=agent_id, starting_after=starting_after)


@get(["/v1/memories/search", "/v1/memory/search"])
def search_by_get(
    agent: Namespace,
    query: str,
    session_id: str | None = None,
    types: Words = None,
    type: str | None = None,
    tags: Words = None,
    threshold: float | None = None,
    limit: int | None = None,
    top_k: int | None = None,
    user_id: str | None = None,
    scope: str | None = None,
) -> SearchAnswer:
    """Searches, by the route that the first clients knew."""
    wanted = SearchRequest(
        query=query,
        session_id=session_id,
        types=_words(types, type),
        tags=_words(tags),
        threshold=threshold,
        limit=limit,
        top_k=top_k,
        user_id=user_id,
        scope=scope,
    )
    return _found(agent, wanted)


@post(["/v1/memory/search", "/v1/memories/search"])
def search(agent: Namespace, data: SearchRequest) -> SearchAnswer:
    """Returns what answers a question, best first."""
    return _found(agent, data)


@post("/v1/sessions/{session_id}/memories/search")
def search_in_session(agent: Namespace, session_id: str, data: SearchRequest) -> SearchAnswer:
    """Returns what answers a question, as a session sees it."""
    data.session_id = session_id
    return _found(agent, data)


@get(_ONE)
def show(agent: Namespace, memory_id: str) -> MemoryAnswer:
    """Returns one memory."""
    return to_answer(agent.memory.get(memory_id))


@put(_ONE)
def replace(agent: Namespace, memory_id: str, data: MemoryPatch) -> MemoryAnswer:
    """Changes what is given, as PATCH does."""
    return _changed(agent, memory_id, data)


@patch(_ONE)
def update(agent: Namespace, memory_id: str, data: MemoryPatch) -> MemoryAnswer:
    """Changes what is given: tags replace the old ones, metadata is merged."""
    return _changed(agent, memory_id, data)


@delete(_ONE, status=204)
def forget(agent: Namespace, memory_id: str) -> None:
    """Forgets a memory."""
    agent.memory.delete(memory_id)


def to_answer(memory: Memory) -> MemoryAnswer:
    """Returns a memory as it stands on the wire."""
    return MemoryAnswer(**fields_of(memory))


def _added(agent: Namespace, data: MemoryRequest, session_id: str | None) -> MemoryAnswer:
    _check_length(data.content)
    made = agent.memory.add(
        data.content,
        type=data.type or data.memory_type or "general",
        session_id=session_id or None,
        tags=data.tags or (),
        metadata=data.metadata,
        embed=data.embed is not False,
        user_id=data.user_id,
        agent_id=data.agent_id,
    )
    return to_answer(made)


def _changed(agent: Namespace, memory_id: str, data: MemoryPatch) -> MemoryAnswer:
    _check_length(data.content or "")
    changed = agent.memory.update(
        memory_id,
        content=data.content,
        type=data.type or data.memory_type,
        tags=data.tags,
        metadata=data.metadata,
    )
    return to_answer(changed)


def _found(agent: Namespace, wanted: SearchRequest) -> SearchAnswer:
    given = wanted.top_k if wanted.limit is None else wanted.limit
    kinds = [*_listed(wanted.types), *_listed(wanted.type)]
    marks = _listed(wanted.tags)

    def fetch(most: int) -> list[FoundMemory]:
        return agent.memory.search(
            wanted.query,
            session_id=wanted.session_id or None,
            scope=wanted.scope,
            types=kinds or None,
            tags=marks or None,
            threshold=OBVIOUS if wanted.threshold is None else wanted.threshold,
            limit=most,
            user_id=wanted.user_id,
        )

    found, has_more = paged(fetch, page_size(given, usual=FOUND, most=MOST_FOUND))
    data = [FoundAnswer(**fields_of(each.memory), score=each.score) for each in found]
    return SearchAnswer(data=data, query=wanted.query, has_more=has_more)


def _newest(
    agent: Namespace, wanted: SearchRequest, *, agent_id: str | None, starting_after: str | None
) -> MemoryList:
    given = wanted.top_k if wanted.limit is None else wanted.limit

    def fetch(most: int) -> list[Memory]:
        return agent.memory.list(
            session_id=wanted.session_id or None,
            scope=wanted.scope,
            types=_listed(wanted.types) or None,
            tags=_listed(wanted.tags) or None,
            user_id=wanted.user_id,
            agent_id=agent_id,
            limit=most,
            starting_after=starting_after or None,
        )

    size = page_size(given, usual=LISTED, most=MOST_LISTED)
    found, has_more = paged(fetch, size, cursor=starting_after, unknown=MemoryNotFound)
    return MemoryList(data=[to_answer(memory) for memory in found], has_more=has_more)


def fields_of(memory: Memory) -> dict[str, Any]:
    """Returns what every answer says of a memory."""
    return {
        "id": memory.id,
        "session_id": memory.session_id or "",
        "user_id": memory.user_id,
        "agent_id": memory.agent_id,
        "content": memory.content,
        "type": memory.type,
        "memory_type": memory.type,
        "tags": list(memory.tags),
        "metadata": memory.metadata,
        "embedding_id": memory.embedding_id,
        "vector_available": memory.vector_available,
        "version": memory.version,
        "created_at": shown(memory.created_at),
        "updated_at": shown(memory.updated_at),
    }


def _words(given: Sequence[str] | None, one: str | None = None) -> list[str] | None:
    """Returns a list that came as several parameters, as one with commas, or both."""
    words = [word for part in (*(given or ()), one) for word in _listed(part)]
    return words or None


def _listed(given: list[str] | str | None) -> list[str]:
    """Returns a list that came as one, or as text with commas."""
    if isinstance(given, str):
        return [word.strip() for word in given.split(",") if word.strip()]
    return given or []


def _check_length(content: str) -> None:
    if len(content) > MAX_CHARS:
        raise ContentTooLarge(MAX_CHARS)


ROUTES: Final[list[Route]] = [
    add,
    add_to_session,
    list_or_search,
    search_by_get,
    search,
    search_in_session,
    show,
    replace,
    update,
    forget,
]
