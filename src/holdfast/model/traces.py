"""Values of traces, told once and never changed, and of the health that they are counted for.

As in `model`: frozen, without behaviour beyond what follows from their fields. Structs where one
is made for every change of state: a dataclass of fifteen frozen fields takes 4 µs, a struct 0.1.
"""

import enum
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from holdfast.display import line, minute, quoted
from holdfast.errors import InvalidValue
from holdfast.ids import NamespaceId, TenantId, TraceId

NO_HASH: Final = bytes(32)
"""What the first trace of a chain has for the hash of the one before it."""


LONG_BYTES: Final = 1024
"""What an operation may note of itself, reasons and all, before that counts against a quota."""

OWN: Final = 0
"""The stream of what is done to a tenant itself; a namespace's has the namespace's id."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody did, as the use case tells it."""

    action: str
    session_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    version: int | None = None
    """The number of the version that it makes."""
    task_id: str | None = None
    actor: str | None = None
    details: dict[str, Any] = {}
    roots: tuple[bytes, ...] = ()
    """Of the snapshots that it tells of: of the one in `resource_id`, then of `safety`."""


class TraceKind(enum.Enum):
    """What a row of the journal tells."""

    DONE = "done"
    """What one of our operations did."""
    ADDED = "added"
    """What somebody adds, who is only telling."""
    ANCHOR = "anchor"
    """Where the chains of namespaces ended."""
    KEPT = "kept"
    """A version or a turn that came with something else, which has a trace of its own; or what
    roots snapshots have since something was erased of them."""


_ADDED: Final = TraceKind.ADDED.value


class TraceRow(msgspec.Struct, frozen=True):
    """A trace as its row says. The fields up to `created_us` are hashed, its ids apart."""

    format: int
    """How it is hashed: see `chain.py`."""
    previous: bytes
    """The hash of the trace before it."""
    tenant_id: TenantId
    stream: int
    """Whose chain it is in: a namespace's, or the tenant's own."""
    number: int
    kind: str
    """The value of a `TraceKind`."""
    id: TraceId
    namespace_id: NamespaceId | None
    session_id: str | None
    user_id: str | None
    agent_id: str | None
    action: str
    resource_type: str | None
    resource_id: str | None
    version: int | None
    task_id: str | None
    actor: str | None
    created_us: int
    """Microseconds since 1970."""
    details: str
    """A JSON object; or, once it is redacted, the hash that it had, and that of the ids."""
    salt: bytes | None
    """Random bytes that are hashed with the details, or once these are gone with the ids."""
    hash: bytes
    version_hash: bytes | None = None
    turn_hash: bytes | None = None
    """Of the version and of the turn that it made, which lie in tables of their own."""
    roots: bytes | None = None
    """Those of the snapshots that it tells of, behind random bytes; or the hash of all that."""

    @property
    def added_bytes(self) -> int:
        """What it counts against a quota: what somebody has added, or said of a session at length.

        What is said of snapshots and tasks counts with their own rows.
        """
        if self.kind != _ADDED:
            length = 0 if self.session_id is None else len(self.details.encode())
            return length if length > LONG_BYTES else 0
        ids = (self.session_id, self.user_id, self.agent_id, self.resource_id)
        texts = (self.action, self.resource_type, self.details, *ids)
        return sum(len(text.encode()) for text in texts if text is not None)


class TraceEnd(msgspec.Struct, frozen=True):
    """Where a chain ends: the number and the hash of its newest trace."""

    number: int = 0
    hash: bytes = NO_HASH


class StreamEnd(msgspec.Struct, frozen=True):
    """Where the chain of a namespace ends."""

    namespace_id: NamespaceId
    namespace: str
    end: TraceEnd


class Section(msgspec.Struct, frozen=True):
    """A part of a chain that retention has let go of, but for the rows that something needs."""

    first: int
    last: int
    """The numbers of its first and of its last row."""
    hash: bytes
    """Of the last one: the row after it follows on that."""
    at_us: int
    """The latest instant of its rows, in microseconds since 1970."""
    kept: int
    """How many of them stay."""
    digest: bytes
    """The hash of those that stay."""

    @property
    def count(self) -> int:
        """How many rows are gone."""
        return self.last - self.first + 1 - self.kept


class TraceGap(msgspec.Struct, frozen=True):
    """What of a chain stands between two of its rows."""

    count: int
    listed: list[tuple[int, int]]
    """Numbers and instants of those that lists show."""


class TraceFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which traces are asked for: those that match everything that is given."""

    namespace_id: NamespaceId | None = None
    session_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    action: str | None = None
    actor: str | None = None
    task_id: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    since_us: int = -(2**62)
    """The earliest that counts."""
    until: tuple[int, int, int] = (2**62, 0, 0)
    """Only what is before this instant, or at it in a lower stream or with a lower number."""


class Rollback(msgspec.Struct, frozen=True):
    """One time that a session was rolled back."""

    namespace_id: NamespaceId
    namespace: str
    session_id: str | None
    details: str


class TraceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened: who did what to what, and when."""

    id: TraceId
    number: int
    """Its place in the chain of its namespace, or of the tenant, from 1 on."""
    action: str
    created_at: datetime
    namespace: str | None = None
    """What its namespace is called; None for none, and for one that is gone."""
    session_id: str | None = None
    user_id: str | None = None
    agent_id: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    actor: str | None = None
    task_id: str | None = None
    """The innermost task that it was done in; None for none."""
    request_id: str | None = None
    """By which request of a server it was done; None for none, and for what an agent adds."""
    via: str | None = None
    """`console` if a person did it there; else None."""
    details: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    is_redacted: bool = False
    """Whether the details were taken out; the chain still proves that there were some."""
    hash: str = ""
    """What stands for this trace and all before it in its chain, in hexadecimal."""

    def __repr__(self) -> str:
        return line("TraceInfo", self.id, quoted(self.action), minute(self.created_at))


class Level(enum.StrEnum):
    """How bad a rate is."""

    HEALTHY = "healthy"
    ELEVATED = "elevated"
    WARNING = "warning"
    CRITICAL = "critical"


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """From which rate on each level begins, and how many times make a loop."""

    elevated: float = 0.02
    warning: float = 0.05
    critical: float = 0.10
    loop: Annotated[int, msgspec.Meta(le=2**53)] = 3

    def __post_init__(self) -> None:
        if not 0 <= self.elevated <= self.warning <= self.critical:
            raise InvalidValue("thresholds ascend: elevated, warning, critical, from 0 on")
        if self.loop < 1:
            raise InvalidValue("a loop is at least one rollback")

    def level_of(self, rate: float) -> Level:
        """Returns how bad a rate is."""
        if rate >= self.critical:
            return Level.CRITICAL
        if rate >= self.warning:
            return Level.WARNING
        return Level.ELEVATED if rate >= self.elevated else Level.HEALTHY


class Loop(msgspec.Struct, frozen=True):
    """A session that was rolled back to the same version again and again."""

    namespace: str
    session_id: str
    version: int
    rollbacks: int


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How sessions fared in a window of time."""

    rollbacks: int
    sessions: int
    """Those that left a trace."""
    rate: float
    """Rollbacks per session; 0 without sessions. Above 1 where some were rolled back often."""
    level: Level
    loops: list[Loop]
    """The longest first."""
