"""Values that the layers hand each other: planes, snapshots, heads, changes.

Frozen, without behaviour beyond what follows from their fields, importing only ids and
entries. The words are those of `docs/glossary.md`.
"""

import enum
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import msgspec

from holdfast.display import LINE_CHARS, MOST_ROWS, brief, counted, line, minute, quoted, table
from holdfast.errors import Damaged, InvalidValue, VaultTooNew
from holdfast.ids import NamespaceId, ObjectId, SnapshotId, TenantId, object_id_of
from holdfast.jsontext import legible
from holdfast.model.marks import FLAT, HERE, UNSAID, Inside, Named, Shape

LEGIBLE: Final = Shape(dict[str, Any], legible)


class Plane(enum.StrEnum):
    """One of the four maps of a namespace."""

    FILES = "files"
    STORE = "store"
    SESSIONS = "sessions"
    MEMORIES = "memories"


class Kind(enum.StrEnum):
    """Why a snapshot stands on the timeline."""

    SNAPSHOT = "snapshot"
    SAFETY = "safety"
    RESTORE = "restore"
    UNDO = "undo"
    REDO = "redo"
    FORK = "fork"
    MERGE = "merge"
    IMPORT = "import"


EMPTY_MAP: Final = object_id_of(msgspec.msgpack.encode((0, (), (), ())))
"""The root of the map without entries: the id of the leaf node that holds none."""


ROOT_FORMAT: Final = 2
_FIRST_FORMAT: Final = 1
"""Of roots from before memories were a plane: they say nothing of them."""

_MAX_FIXINT: Final = 0x7F
"""The largest number that msgpack writes as one byte."""


class Root(msgspec.Struct, frozen=True):
    """The one object that names everything a namespace holds at one moment."""

    files: bytes = EMPTY_MAP
    store: bytes = EMPTY_MAP
    sessions: bytes = EMPTY_MAP
    memories: bytes | None = EMPTY_MAP
    """None for a root that was made before memories were a plane."""

    def plane(self, plane: Plane) -> ObjectId:
        """Returns the root of one plane's map; the empty one for a plane that it does not hold."""
        return ObjectId(getattr(self, plane) or EMPTY_MAP)

    def holds(self, plane: Plane) -> bool:
        """Says whether it knows what a plane was: not, if the plane is younger than the root."""
        return getattr(self, plane) is not None

    def replacing(self, **planes: bytes | None) -> "Root":
        """Returns the same root with some planes changed."""
        return msgspec.structs.replace(self, **planes)

    def encode(self) -> bytes:
        """Returns the canonical bytes, whose hash is the root's id."""
        maps = (self.files, self.store, self.sessions)
        if self.memories is None:
            return msgspec.msgpack.encode((_FIRST_FORMAT, *maps))
        return msgspec.msgpack.encode((ROOT_FORMAT, *maps, self.memories))

    @classmethod
    def decode(cls, data: bytes) -> "Root":
        """Returns the root that these bytes stand for; raises `Damaged` if they are none."""
        # The format is the first item: a newer one may have any fields after it.
        if len(data) > 1 and ROOT_FORMAT < data[1] <= _MAX_FIXINT:
            raise VaultTooNew("a snapshot's root", found=data[1], known=ROOT_FORMAT)
        try:
            if len(data) > 1 and data[1] == _FIRST_FORMAT:
                return cls(*_first_decoder.decode(data)[1:], memories=None)
            return cls(*_decoder.decode(data)[1:])
        except (msgspec.DecodeError, msgspec.ValidationError) as exc:
            message = f"a root of {len(data)} bytes cannot be decoded: {exc}"
            raise Damaged(message) from exc


_decoder: Final = msgspec.msgpack.Decoder(
    tuple[Literal[2], bytes, bytes, bytes, bytes]  # The number is `ROOT_FORMAT`.
)
_first_decoder: Final = msgspec.msgpack.Decoder(tuple[Literal[1], bytes, bytes, bytes])

EMPTY_ROOT: Final = object_id_of(Root().encode())
"""The root of a namespace that holds nothing."""

UNSTORED_ROOTS: Final = {
    object_id_of(root.encode()): root for root in (Root(), Root(memories=None))
}
"""Roots that are known without being stored: of a namespace that holds nothing, now and before
memories were a plane."""


class Size(msgspec.Struct, frozen=True):
    """How much a namespace holds: entries over all planes, and their content bytes."""

    entries: int = 0
    bytes: Annotated[int, Named("size_bytes")] = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.entries + other.entries, self.bytes + other.bytes)


class Placement(msgspec.Struct, frozen=True):
    """Where one object is: all that it takes to read it with one ranged read.

    `block_offset` and `block_size` are the stored block's place in the file; `offset` and
    `size` are the object's place in that block's plain bytes.
    """

    object_id: ObjectId
    block_offset: int
    block_size: int
    offset: int
    size: int


class Head(msgspec.Struct, frozen=True):
    """Where a namespace stands: its base root, and what is needed to move it safely.

    `generation` counts the snapshots on the timeline and is what compare-and-set compares;
    `sequence` counts writes of pending rows. `position` is the snapshot whose state the base
    root shows, `redo` the snapshots that `redo()` would go to, nearest last. `fork_of` and
    `fork_root` are the namespace this one was forked from and the root it started with.
    """

    namespace_id: NamespaceId
    tenant_id: TenantId
    name: str
    generation: int
    sequence: int
    root: ObjectId
    position: SnapshotId | None
    redo: tuple[SnapshotId, ...]
    size: Size
    created_at: datetime
    deleted_at: datetime | None = None
    quota_bytes: int | None = None
    retention: str | None = None
    fork_of: NamespaceId | None = None
    fork_root: ObjectId | None = None
    writer: str = ""
    """Who has changed it last, and since when nobody else has: see `engine/planes/writers.py`."""
    journal_number: int = 0
    """How many traces its chain has."""
    journal_hash: bytes | None = None
    """The hash of the newest of them."""
    unfolded: int | None = 0
    """The sum of the marks of all keys that are pending: what is missing of them is noticed by it
    (`catalog/pending.py`). None if nobody has kept it since the last fold."""

    @classmethod
    def of_nothing(cls, tenant_id: TenantId, name: str, *, now: datetime) -> "Head":
        """Returns the head of a namespace that holds nothing, and has no id yet."""
        none = NamespaceId(0)
        return cls(none, tenant_id, name, 0, 0, EMPTY_ROOT, None, (), Size(), created_at=now)


class Tenant(msgspec.Struct, frozen=True):
    """An account: what keys, quotas and objects belong to."""

    id: TenantId
    name: str
    public_id: str
    quota_bytes: int | None


_PLAIN: Final = r"^[^\x00\ud800-\udfff]*$"
"""Text that a row can hold: without a NUL, and without half a character."""

Metadata = Annotated[
    dict[
        Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=_PLAIN)],
        Annotated[str, msgspec.Meta(max_length=1024, pattern=_PLAIN)],
    ],
    msgspec.Meta(max_length=50),
]
"""What people keep with a snapshot, in words of their own."""


def checked_metadata(given: Mapping[str, str]) -> dict[str, str]:
    """Returns a copy; raises `InvalidValue` for what is not text, too much or too long."""
    try:
        return msgspec.convert({**given}, Metadata)
    except (msgspec.ValidationError, TypeError) as exc:
        bounds = "keys of 1 to 64 characters, values of up to 1,024"
        message = f"metadata is up to 50 pairs of text, {bounds}: {exc}"
        raise InvalidValue(message) from exc


Counts = dict[str, dict[str, int]]
"""How many entries of each plane were `added`, `removed` and `changed`."""


class TaskBrief(msgspec.Struct, frozen=True):
    """What a task is called, and how far it is."""

    name: str
    status: str
    """`running`, `completed` or `failed`."""


class SnapshotInfo(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A point on a timeline."""

    id: Annotated[SnapshotId, Named("snapshot_id")]
    namespace_id: Annotated[NamespaceId, Inside(0)]
    number: int
    kind: Kind
    root: ObjectId
    parent: SnapshotId | None
    created_at: datetime
    size: Annotated[Size, FLAT]
    target: SnapshotId | None = None
    label: str | None = None
    reason: str | None = None
    actor: str | None = None
    task_id: str | None = None
    trace_id: str | None = None
    pinned: bool = False
    expires_at: datetime | None = None
    deleted_at: Annotated[datetime | None, Inside()] = None
    detail: Annotated[dict[str, Any], LEGIBLE] = msgspec.field(default_factory=dict[str, Any])
    """What else is kept with it: what of a directory it covers, what a restore was limited to."""
    metadata: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """What whoever took it keeps with it, in words of their own."""
    counts: Annotated[str | None, Inside()] = None
    """What differs from the state before it, counted when it was taken: the JSON text of `Counts`,
    without planes in which nothing does. None if it was not counted then."""
    namespace: Annotated[str | None, HERE] = None
    """The name of its namespace, where somebody has asked for it by that: no part of what it is,
    nor is what follows, which a timeline tells where it is asked for."""
    changes: Annotated[Counts | None, UNSAID] = None
    """How much it changed, against the state that it follows; None where that is not known."""
    task: Annotated[TaskBrief | None, UNSAID] = None
    """The task that `task_id` names."""
    actor_name: Annotated[str | None, UNSAID] = None
    """What the key is called that `actor` names."""
    forks: Annotated[list[str] | None, UNSAID] = None
    """The namespaces that were forked from it and are still there."""
    ON_WIRE = MappingProxyType({"partial": "is_partial"})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SnapshotInfo) or type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _COMPARED)

    def __ne__(self, other: object) -> bool:  # A struct has one of its own.
        return not self == other

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return brief(
            type(self).__name__,
            self.id,
            quoted(self.label),
            f"#{self.number}",
            self.kind.value,
            minute(self.created_at),
            f"({counted(self.size.entries, 'entry')}, {counted(self.size.bytes, 'byte')})",
            "pinned" if self.pinned else None,
            "PARTIAL" if self.is_partial else None,
        )

    def _repr_html_(self) -> str:
        return _as_table([self])

    @property
    def snapshot_id(self) -> SnapshotId:
        """Its id once more, by the name that it has on the wire."""
        return self.id

    @property
    def size_bytes(self) -> int:
        """How many bytes of content it holds."""
        return self.size.bytes

    @property
    def is_partial(self) -> bool:
        """Whether something that should have been captured could not be; stays so for ever."""
        return bool(self.detail.get("partial"))


BESIDE: Final = ("namespace", "changes", "task", "actor_name", "forks")
"""Fields of a snapshot that are told beside what it is."""

_COMPARED: Final = [
    name for name in SnapshotInfo.__struct_fields__ if name not in (*BESIDE, "counts")
]


def without_words(snapshot: SnapshotInfo, namespace: str) -> SnapshotInfo:
    """Returns a snapshot as operators see it: not why an agent took it, in its own words."""
    return msgspec.structs.replace(snapshot, namespace=namespace, reason=None, metadata={})


SnapshotLike = SnapshotInfo | str
"""A snapshot, or what means one: its id or a unique beginning, `latest`, `@`, `@-2`."""


def fields_of(snapshot: SnapshotInfo) -> dict[str, Any]:
    """Returns what is known of a snapshot, by the names of its fields."""
    return {name: getattr(snapshot, name) for name in SnapshotInfo.__struct_fields__}


def id_of(snapshot: SnapshotLike) -> str:
    """Returns what a snapshot is called on the wire."""
    return snapshot if isinstance(snapshot, str) else snapshot.id


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a namespace stands."""

    namespace: Annotated[str | None, HERE] = None
    exists: bool
    """Whether anything was ever written to it; if not, it is empty."""
    dirty: bool
    """Whether anything was written since the snapshot that the head stands on."""
    size: Annotated[Size, FLAT]
    position: SnapshotId | None
    """The snapshot that the head stands on; None if there is none, or it is gone."""
    directory: str | None = None
    """The attached directory that is looked at, and moves with it; None for the files alone."""

    def __repr__(self) -> str:
        return line(
            type(self).__name__,
            quoted(self.namespace),
            None if self.exists else "nothing yet",
            self.position,
            f"({counted(self.size.entries, 'entry')}, {counted(self.size.bytes, 'byte')})",
            "dirty" if self.dirty else None,
        )


class Timeline(list[SnapshotInfo]):
    """Snapshots, newest first: a list, which a notebook shows as a table."""

    searched_to: int | None = None
    """The number of the oldest snapshot that was looked at; None if there was none."""
    before: int | None = None
    """Where it goes on, for `before`; None if nothing older is there to be looked at."""
    total: int | None = None
    """How many snapshots there are, whichever were asked for; None where nobody asked."""

    def _repr_html_(self) -> str:
        return _as_table(self)


def line_of_pairs(metadata: Mapping[str, str]) -> str:
    """Returns metadata in one line, and of very much the beginning; nothing in it is escaped."""
    text = " ".join(f"{key}={value}" for key, value in metadata.items())
    return text if len(text) <= LINE_CHARS else f"{text[: LINE_CHARS - 1]}…"


def _as_table(snapshots: Sequence[SnapshotInfo]) -> str:
    rows = (
        (
            each.number,
            each.id,
            each.kind.value,
            each.label or each.reason,
            minute(each.created_at),
            f"{each.size.entries:,}",
            f"{each.size.bytes:,}",
            line_of_pairs(each.metadata),
            " ".join(("pinned",) * each.pinned + ("partial",) * each.is_partial),
        )
        for each in snapshots[:MOST_ROWS]
    )
    titles = ("#", "snapshot", "kind", "label", "taken", "entries", "bytes", "metadata", "")
    left = len(snapshots) - MOST_ROWS
    return table(titles, rows, more=f"and {left:,} more" if left > 0 else "")
