"""Memories: what an agent remembers, and finds again."""

from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import Any

from holdfast.errors import MemoryNotFound
from holdfast.model.memories import OBVIOUS, FoundMemory, Memory
from holdfast.operations.operation import Operation, Paged


class AddMemory(Operation[Memory], post="/v1/memories", status=201):
    """Remembers something; without a session, for all of them.

    What belongs to a session belongs to its user and agent. With `embed=False`, `search` does not
    find it.
    """

    content: str
    _: KW_ONLY
    type: str = "general"
    session_id: str | None = None
    tags: Iterable[str] = ()
    metadata: dict[str, Any] | None = None
    embed: bool = True
    user_id: str | None = None
    agent_id: str | None = None


class GetMemory(Operation[Memory], get="/v1/memories/{memory_id}"):
    """Returns a memory by its id; raises `MemoryNotFound`."""

    memory_id: str


class UpdateMemory(Operation[Memory], patch="/v1/memories/{memory_id}"):
    """Changes what is given: tags replace the old ones, metadata is merged key by key."""

    memory_id: str
    _: KW_ONLY
    content: str | None = None
    type: str | None = None
    tags: Iterable[str] | None = None
    metadata: dict[str, Any] | None = None


class DeleteMemory(Operation[None], delete="/v1/memories/{memory_id}", status=204):
    """Forgets a memory; `recover` brings it back for a while, and over HTTP an admin does."""

    memory_id: str


class ListMemories(
    Operation[list[Memory]],
    get="/v1/memories",
    under="data",
    paged=Paged("starting_after", "id", usual=20, most=100, unknown=(MemoryNotFound,)),
):
    """Returns memories, newest first; `starting_after` continues below one, by its id.

    Which ones a session sees is said at `search`.
    """

    _: KW_ONLY
    session_id: str | None = None
    scope: str | None = None
    types: Iterable[str] | None = None
    tags: Iterable[str] | None = None
    user_id: str | None = None
    agent_id: str | None = None
    limit: int = 20
    starting_after: str | None = None


class SearchMemories(
    Operation[list[FoundMemory]],
    post="/v1/memories/search",
    under="data",
    paged=Paged(None, None, usual=10, most=1000),
    is_reading=True,
):
    """Returns what answers a question, best first: obvious matches, unless `threshold` is less.

    With a session: its own memories, those of its user, and what belongs to nobody; with `scope`,
    one of the three: `session`, `user`, `global`. `tags` and `types` ask for any of them, `user_id`
    for one user's alone.
    """

    query: str
    _: KW_ONLY
    session_id: str | None = None
    scope: str | None = None
    types: Iterable[str] | None = None
    tags: Iterable[str] | None = None
    threshold: float = OBVIOUS
    limit: int = 10
    user_id: str | None = None
