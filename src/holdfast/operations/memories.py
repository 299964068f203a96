"""Memories, what an agent remembers and finds again; entities, what a session knows of things."""

from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import Any

from holdfast.errors import EntityNotFound, InvalidValue, MemoryNotFound
from holdfast.model.entities import Entity
from holdfast.model.memories import OBVIOUS, Memory, MemoryMatch
from holdfast.operations.operation import Arguments, Operation, Paged


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


class GetMemory(Operation[Memory], get="/v1/memories/{memory_id}", of_moments=True):
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


class MemoryChoice(Arguments):
    """Which memories are meant: with all of this, any of the `types`, any of the `tags`."""

    _: KW_ONLY
    session_id: str | None = None
    scope: str | None = None
    types: Iterable[str] | None = None
    tags: Iterable[str] | None = None
    user_id: str | None = None
    agent_id: str | None = None


class ListMemories(
    MemoryChoice,
    Operation[list[Memory]],
    get="/v1/memories",
    under="data",
    paged=Paged("starting_after", "id", usual=20, most=100, unknown=(MemoryNotFound,)),
    of_moments=True,
):
    """Returns memories, newest first; `starting_after` continues below one, by its id.

    Which ones a session sees is said at `search`.
    """

    _: KW_ONLY
    limit: int | None = 20
    starting_after: str | None = None


class SearchMemories(
    Operation[list[MemoryMatch]],
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

    def __post_init__(self) -> None:
        super().__post_init__()
        # Not a number is in no range; as JSON it would be null, and as if it had not been said.
        if not 0 <= self.threshold <= 1:
            raise InvalidValue("threshold is a number from 0 to 1")


class CreateEntity(Operation[Entity], post="/v1/entities", status=201):
    """Notes a thing; raises `EntityExists` if the session knows it already."""

    session_id: str
    _: KW_ONLY
    entity_type: str
    entity_id: str
    """What its own system calls it."""
    attributes: dict[str, Any] | None = None


class GetEntity(Operation[Entity], get="/v1/entities/{row_id}"):
    """Returns an entity by the id that `create` gave it; raises `EntityNotFound`."""

    row_id: str


class ListEntities(
    Operation[list[Entity]],
    get="/v1/entities",
    under="data",
    paged=Paged("starting_after", "id", usual=20, most=100, unknown=(EntityNotFound,)),
):
    """Returns entities, newest first; `starting_after` continues below one, by its id."""

    _: KW_ONLY
    session_id: str | None = None
    entity_type: str | None = None
    limit: int | None = 20
    starting_after: str | None = None


class UpdateEntity(Operation[Entity], put="/v1/entities/{row_id}"):
    """Replaces all that is known of a thing."""

    row_id: str
    attributes: dict[str, Any]


class DeleteEntity(Operation[None], delete="/v1/entities/{row_id}", status=204):
    """Forgets a thing; `recover` brings it back for a while."""

    row_id: str
