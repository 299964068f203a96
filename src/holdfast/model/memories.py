"""Values of memories: what was remembered, and how well it answers a question.

As in `model`: frozen, without behaviour beyond what follows from their fields. Those that users
do not meet are structs: to define a dataclass takes a millisecond, which every start would pay.
"""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from holdfast.display import line, quoted
from holdfast.ids import NamespaceId
from holdfast.model.marks import FLAT, Shape

OBVIOUS: Final = 0.7
"""The score from which on a match is an obvious one."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was remembered: a sentence or two, and whom it is about."""

    id: str
    content: str
    type: str
    tags: tuple[str, ...]
    metadata: dict[str, Any]
    session_id: Annotated[
        str | None, Shape(str, lambda name: name or "", lambda name: name or None)
    ]
    """None, and empty on the wire, for what belongs to no session."""
    user_id: str | None
    agent_id: str | None
    is_searchable: bool
    """Whether `search` may find it: not, if it was added with `embed=False`."""
    has_embedding: bool
    """Whether it can be found by its meaning, and not by its words alone."""
    version: int
    created_at: datetime
    updated_at: datetime

    def __repr__(self) -> str:
        return line("Memory", self.id, quoted(self.content))

    @property
    def vector_available(self) -> bool:
        """Whether `search` may find it, as other clients call that."""
        return self.is_searchable

    @property
    def embedding_id(self) -> str | None:
        """What other clients call its embedding; None if it has none."""
        return f"emb_{self.id.removeprefix('mem_')}" if self.has_embedding else None


class MemoryMatch(msgspec.Struct, frozen=True):
    """A memory with its relevance: 0 is none, from 0.7 on it is an obvious match.

    What is known of the memory can be asked of this as well.
    """

    memory: Annotated[Memory, FLAT]
    score: float

    def __repr__(self) -> str:
        return line("MemoryMatch", f"{self.score:.2f}", self.id, quoted(self.content))

    @property
    def id(self) -> str:
        """The memory's id."""
        return self.memory.id

    @property
    def content(self) -> str:
        """What was remembered."""
        return self.memory.content

    @property
    def type(self) -> str:
        """What kind of memory it is."""
        return self.memory.type

    @property
    def session_id(self) -> str | None:
        """The session that it belongs to."""
        return self.memory.session_id

    @property
    def tags(self) -> tuple[str, ...]:
        """The memory's tags."""
        return self.memory.tags

    @property
    def created_at(self) -> datetime:
        """When it was remembered."""
        return self.memory.created_at


class Relevant(msgspec.Struct, frozen=True):
    """The memories that belong to a context, best first."""

    memories: tuple[MemoryMatch, ...]
    average_relevance: float
    drift_warning: bool
    """Whether a question was asked to which what is remembered has little to say."""


class MemoryRow(msgspec.Struct, frozen=True):
    """A memory as its row holds it."""

    namespace_id: NamespaceId
    id: str
    session_id: str | None
    user_id: str | None
    agent_id: str | None
    type: str
    tags: str
    """A JSON array of text."""
    metadata: str
    """A JSON object."""
    is_searchable: bool
    version: int
    created_at: datetime
    updated_at: datetime
    terms: str
    """Its words as they are looked for, one space between two."""
    content: str
    number: int = 0
    """In the order of their making; assigned by the catalog."""
    embedding: bytes | None = None
    """Little-endian float32, of length 1."""

    @property
    def size_bytes(self) -> int:
        """How much it counts against a quota."""
        texts = (self.content, self.terms, self.tags, self.metadata)
        return sum(len(text.encode()) for text in texts) + len(self.embedding or b"")


MemoryPlace = tuple[int, str, int]
"""Where a memory stands among others, by its instant, then by its id; and its number last, which
no checksum is over: it decides nothing."""


Time = tuple[int, int]
"""From one instant to before another, in microseconds."""


class MemoryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which memories are looked at; what is None does not matter."""

    scope: str = "all"
    """`all`; or as a session sees them: `visible`, `session`, `user`, `global`."""
    session_id: str | None = None
    since: datetime | None = None
    """When the session began: what is older is of another, which had its id before."""
    others: tuple[Time, ...] = ()
    """When another had the session's id: what was remembered then is that one's."""
    owner_id: str | None = None
    """The user whose memories the scopes `visible` and `user` mean."""
    user_id: str | None = None
    agent_id: str | None = None
    types: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    is_searchable: bool = False
    """Whether those that `search` may not find are left out; it never asks for them itself."""
