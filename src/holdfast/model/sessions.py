"""Values of sessions: what a session is, its versions and its turns.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec

from holdfast.display import brief, counted, minute, quoted, shortened
from holdfast.ids import NamespaceId
from holdfast.model.basics import Head
from holdfast.model.marks import Named, Shape
from holdfast.model.memories import MemoryMatch

Salt = bytes


class VersionKind(enum.StrEnum):
    """What made a version of a session's state."""

    CREATED = "created"
    UPDATED = "updated"
    REPLACED = "replaced"
    TURN = "turn"
    ROLLBACK = "rollback"
    FORK = "fork"
    RESTORE = "restore"


class SessionRow(msgspec.Struct, frozen=True):
    """A session as its row says: what is true of it now, without its state."""

    namespace_id: NamespaceId
    id: str
    agent_id: str
    user_id: str | None
    metadata: str
    """A JSON object."""
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    version: int
    branch: str
    turns: int
    forked_from: str | None = None
    forked_version: int | None = None
    is_present: bool = True
    """Whether the plane holds it: not, if it was deleted, or is younger than what was restored."""
    deleted_at: datetime | None = None
    since: int | None = None
    """The first version since it has its id, if others had that before; earlier ones are theirs, or
    its own from when it had the id before them."""

    @property
    def first(self) -> int:
        """The first version since it has its id."""
        return self.since or 0


class VersionRow(msgspec.Struct, frozen=True):
    """A version as its row says; `state` is an entry.

    Why it was made, and by whom, stands in the journal.
    """

    number: int
    kind: VersionKind
    state: bytes
    bytes: int
    branch: str
    turns: int
    created_at: datetime
    target: int | None = None
    trace_id: str | None = None
    """What it names as its origin: for what a restore brought back, the restore."""
    journal: int = 0
    """The row of its namespace's chain that holds its hash."""
    salt: Salt | None = None
    """Random bytes that are hashed with it."""


SessionRows = tuple[SessionRow, VersionRow]
"""A session with its newest version."""


class OpenedSession(msgspec.Struct, frozen=True):
    """A session as a writer of its namespace finds it: the head is locked."""

    head: Head
    quota_bytes: int | None
    """The tenant's."""
    rows: SessionRows | None
    wanted: VersionRow | None
    """The version that was asked for."""
    is_unheard: bool
    """Whether nobody listens to events."""


class LeftHead(msgspec.Struct, frozen=True):
    """A head as a writer left it."""

    head: Head
    quota_bytes: int | None
    """The tenant's."""
    checksum: int
    """Of the head's row."""
    is_alone: bool
    """Whether nobody else had written since that writer's last look."""
    commit: tuple[int, ...] | None
    """The one that left it so, where it can be known again."""
    is_unheard: bool
    """Whether nobody listened to events when that writer looked."""


class LeftSession(msgspec.Struct, frozen=True):
    """A session with its newest version, as a writer left it."""

    session: SessionRow
    version: VersionRow
    row: Sequence[Any]
    """That of the session, and behind it that of the version if it was written, too."""
    seal: bytes
    """Of the session's row."""
    commit: tuple[int, ...] | None
    """Likewise."""


class TurnRow(msgspec.Struct, frozen=True):
    """A turn as its row says; `data` is JSON."""

    branch: str
    number: int
    id: str
    data: bytes
    created_at: datetime
    stream: int = 0
    """Whose chain has its hash: a namespace's, or the tenant's own."""
    journal: int = 0
    """The row of that chain."""
    salt: bytes | None = None
    """Random bytes that are hashed with it."""


class BranchRow(msgspec.Struct, frozen=True):
    """A run of turns that follows the first `parent_turns` turns of its parent.

    `turns` is the number of its last turn: it counts the parent's, too. `bytes` are those of its
    own turns alone.
    """

    id: str
    parent: str | None
    parent_turns: int
    turns: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class SessionInfo:
    """A session: a conversation with state, every change of which is a version."""

    id: str
    agent_id: str
    user_id: str | None
    metadata: dict[str, Any]
    state: dict[str, Any]
    version: int
    turn_count: int
    memory_count: int
    created_at: datetime
    updated_at: datetime
    expires_at: Annotated[datetime | None, Named("ttl_expires_at")]
    forked_from: str | None = None
    forked_version: int | None = None

    def __repr__(self) -> str:
        return brief(
            "SessionInfo",
            self.id,
            quoted(self.agent_id),
            f"version {self.version},",
            f"{counted(self.turn_count, 'turn')},",
            shortened(self.state),
        )

    @property
    def ttl_expires_at(self) -> datetime | None:
        """When its time is over, by the name that it has on the wire."""
        return self.expires_at


@dataclass(frozen=True, kw_only=True)
class State:
    """A session's state at one version."""

    session_id: str
    version: int
    state: dict[str, Any]
    created_at: datetime
    """When the session was created."""
    updated_at: datetime
    """When the version was made."""
    trace_id: str | None = None

    def __repr__(self) -> str:
        return brief("State", self.session_id, f"version {self.version},", shortened(self.state))


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a session's history."""

    number: Annotated[int, Named("version")]
    kind: VersionKind
    state: dict[str, Any] | None
    """None where only the history was asked for."""
    created_at: datetime
    turn_count: int
    target: Annotated[int | None, Named("restored_from_version")] = None
    """The version whose state came back."""
    reasoning: str | None = None
    actor: Annotated[str | None, Named("updated_by")] = None
    trace_id: str | None = None

    def __repr__(self) -> str:
        return brief(
            "Version",
            self.number,
            f"{self.kind.value},",
            f"{counted(self.turn_count, 'turn')},",
            minute(self.created_at),
            quoted(self.reasoning),
            None if self.state is None else shortened(self.state),
        )


class Message(dict[str, Any]):
    """One side of a turn: a dict whose type and content can be asked for by name, too."""

    @classmethod
    def wire_shape(cls) -> Shape:
        """Returns how it is written: as the object that it is."""
        return Shape(dict[str, Any], None, cls)

    @property
    def type(self) -> str:
        """What it is: `text`, for one."""
        return self["type"]

    @property
    def content(self) -> str:
        """What was said."""
        return self["content"]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange of a conversation."""

    id: str
    session_id: str
    number: Annotated[int, Named("turn_number")]
    input: Message
    output: Message
    created_at: datetime
    metadata: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    reasoning: str | None = None
    version_before: int | None = None
    version_after: int | None = None
    """The versions of the state before and after it; the same if it changed nothing."""
    state_before: dict[str, Any] | None = None
    state_after: dict[str, Any] | None = None
    """The states that it was given; else those of the versions, where they were asked for."""

    def __repr__(self) -> str:
        return brief(
            "Turn",
            self.id,
            f"#{self.number}",
            minute(self.created_at),
            f"{shortened(self.input)} -> {shortened(self.output)}",
        )

    @property
    def turn_number(self) -> int:
        """Its number once more, by the name that it has on the wire."""
        return self.number


class StateDiff(msgspec.Struct, frozen=True):
    """What leads from one version of a state to another."""

    patch: list[dict[str, Any]]
    """JSON Patch, RFC 6902."""
    text: str
    """The same for people: a line for each thing that went, came or changed."""
    session_id: str
    old: Annotated[int, Named("from_version")]
    new: Annotated[int, Named("to_version")]
    """The numbers of the two versions."""

    def __repr__(self) -> str:
        return brief(
            "StateDiff",
            self.session_id,
            f"version {self.old} to {self.new},",
            f"{counted(len(self.patch), 'change')}:",
            quoted(self.text),
        )


class Lineage(msgspec.Struct, frozen=True):
    """Where a session comes from, and what came from it."""

    session_id: str
    forked_from: str | None
    forked_version: int | None
    ancestors: list[str]
    """From the one that it was forked from to the first."""
    forks: list["Lineage"]

    @classmethod
    def wire_shape(cls) -> Shape:
        """Returns how it is written: as it is, with all that it holds."""
        return Shape(cls)


class SessionContext(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent needs to go on: state, what is relevant, and what was said last."""

    session_id: str
    version: int
    """That of the state."""
    state: dict[str, Any]
    memories: list[MemoryMatch]
    recent_turns: list[Turn]
    average_relevance: float = 0.0
    drift_warning: bool = False

    def __repr__(self) -> str:
        return brief(
            "SessionContext",
            self.session_id,
            f"version {self.version},",
            f"{counted(len(self.memories), 'memory')},",
            f"{counted(len(self.recent_turns), 'turn')},",
            shortened(self.state),
            "DRIFT" if self.drift_warning else None,
        )
