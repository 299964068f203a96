"""Memories and entities, as StateBase's clients know them.

They say `/v1/memory` for `/v1/memories`, and the same in several words: lists as text with commas,
`type` for one of `types`, `top_k` for `limit`. Where they list with a question, they search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from operator import attrgetter
from typing import Any, Final, get_type_hints

from holdfast.errors import InvalidValue
from holdfast.model.entities import Entity
from holdfast.model.memories import Memory, MemoryMatch
from holdfast.operations.memories import (
    AddMemory,
    DeleteMemory,
    GetMemory,
    ListEntities,
    ListMemories,
    SearchMemories,
    UpdateMemory,
)
from holdfast.operations.operation import Operation
from holdfast.server.dialects import Answered, Exchange, Speech, always
from holdfast.server.doors import sign
from holdfast.server.parameters import Parameters
from holdfast.server.problems import Refused
from holdfast.server.routing import Route

MAX_CHARS: Final = 10_000
_ALL: Final = ("/v1/memories", "/v1/memory")
_ONE: Final = tuple(f"{path}/{{memory_id}}" for path in _ALL)
_SEARCH: Final = tuple(f"{path}/search" for path in _ALL)
_BY_GET: Final = "search_memories_by_get"
_OF_SESSION: Final = "/v1/sessions/{session_id}/memories"


class ContentTooLarge(Refused):
    """A memory that is longer than memories are."""

    code = "content_too_large"
    hint = "Remember the gist of it, or several memories."
    http_status = 413

    def __init__(self) -> None:
        super().__init__(f"a memory has {MAX_CHARS} characters at the most")


def _hear_content(exchange: Exchange) -> None:
    said = exchange.said
    if len(said.get("content") or "") > MAX_CHARS:
        raise ContentTooLarge
    if isinstance(text := said.get("tags"), str):
        said["tags"] = _split([text])
    said["type"] = said.get("type") or said.get("memory_type")
    said["session_id"] = said.get("session_id") or None


def _hear_choice(exchange: Exchange) -> None:
    said = exchange.said
    for name in ("types", "tags"):
        if isinstance(text := said.get(name), str):
            said[name] = _split([text])
    if said.get("type") is not None:
        said["types"] = [*(said.get("types") or ()), *_split([said["type"]])]
    if said.get("limit") is None:
        said["limit"] = said.get("top_k")
    said["session_id"] = said.get("session_id") or None


def _hear_choice_of_query(exchange: Exchange) -> None:
    """Hears a list that is there as several words, as one with commas, or as both."""
    said = exchange.said
    said |= {name: _split(said[name]) for name in ("types", "tags") if said.get(name)}
    _hear_choice(exchange)


def _embedding_id(memory: Any) -> str | None:  # noqa: ANN401 - as it is sent
    return f"emb_{memory.id.removeprefix('mem_')}" if memory.has_embedding else None


def _split(texts: list[str]) -> list[str]:
    return [word.strip() for text in texts for word in text.split(",") if word.strip()]


_SAID: Final = {"memory_type": str, "tags": list[str] | str}
_TAKES: Final = {"type": str, "top_k": int}
_LISTS: Final = {"types": list[str] | str, "tags": list[str] | str}
_LISTED: Final[Mapping[str, Answered]] = {"object": always("list")}
_FOUND: Final[Mapping[str, Answered]] = {
    **_LISTED,
    "query": Answered(str, attrgetter("asked.query")),
}

OPERATIONS: Final[Mapping[type[Operation[Any]], Sequence[Speech]]] = {
    AddMemory: [
        Speech(paths=_ALL, takes=_SAID, hears=_hear_content),
        Speech(
            paths=[_OF_SESSION],
            name="add_memory_to_session",
            takes=_SAID,
            hears=_hear_content,
        ),
    ],
    GetMemory: [Speech(paths=_ONE)],
    UpdateMemory: [
        Speech(paths=_ONE, takes=_SAID, hears=_hear_content),
        Speech(
            method="PUT",
            paths=_ONE,
            name="replace_memory",
            takes=_SAID,
            hears=_hear_content,
        ),
    ],
    DeleteMemory: [Speech(paths=_ONE)],
    ListMemories: [Speech(paths=_ALL, takes=_TAKES, hears=_hear_choice_of_query, tells=_LISTED)],
    SearchMemories: [
        Speech(paths=_SEARCH, takes=_TAKES | _LISTS, hears=_hear_choice, tells=_FOUND),
        Speech(
            paths=[f"{_OF_SESSION}/search"],
            name="search_memories_of_session",
            takes=_TAKES | _LISTS,
            hears=_hear_choice,
            tells=_FOUND,
        ),
        Speech(
            method="GET",
            paths=_SEARCH,
            name=_BY_GET,
            takes=_TAKES,
            hears=_hear_choice_of_query,
            tells=_FOUND,
        ),
    ],
    ListEntities: [Speech(tells={"object": always("list")})],
}

_MEMORY: Final[Mapping[str, Answered]] = {
    "object": always("memory"),
    "memory_type": Answered(str, attrgetter("type")),
    "embedding_id": Answered(str | None, _embedding_id),
    "vector_available": Answered(bool, attrgetter("is_searchable")),
}
VALUES: Final[Mapping[type, Mapping[str, Answered]]] = {
    Memory: _MEMORY,
    MemoryMatch: _MEMORY,
    Entity: {"object": always("entity")},
}


def searching(routes: Sequence[Route]) -> list[Route]:
    """Returns routes, of which those that list memories search, where there is a question."""
    (search,) = (each for each in routes if each.function.__name__ == _BY_GET)
    return [
        _with_question(each, search) if each.function.__name__ == "list_memories" else each
        for each in routes
    ]


def _with_question(listing: Route, search: Route) -> Route:
    takes = {each: signature(each.function).parameters for each in (listing, search)}

    def answer(**given: Any) -> Any:  # noqa: ANN401 - as either route
        chosen = listing if given["query"] is None else search
        if chosen is search and given["at"] is not None:
            raise InvalidValue("memories are searched as they are now: leave out at, or query")
        known = {name: each for name, each in given.items() if name in takes[chosen]}
        return chosen.function(**known)

    both = {**takes[search], **takes[listing]}
    both["query"] = both["query"].replace(annotation=str | None, default=None)
    found, listed = (get_type_hints(each.function)["return"] for each in (search, listing))
    named: Any = answer
    named.__name__, named.__doc__ = listing.function.__name__, listing.function.__doc__
    sign(named, [*both.values()], found | listed)
    return replace(listing, function=answer, parameters=Parameters(answer, []))
