"""Everything that an exchange asks of one namespace.

`is_shared` says that the caller opens all of the tenant, and so may name any object of it.

Tells what leads from one snapshot's files to another's, and hands chunks out.

Chunks are asked for by the path that needs them, in a snapshot of the namespace: a hash alone
opens nothing. An answer is a pack of bounded size; whoever asked for more asks again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.engine.core.paths import to_key
from holdfast.engine.exchange import adopting, receiving
from holdfast.engine.exchange.adopting import Commit
from holdfast.engine.namespace import Namespace
from holdfast.engine.objects.content import READ_AHEAD, list_refs
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes.handle import Handle, looking_at
from holdfast.engine.timeline.restore import folded_head
from holdfast.engine.timeline.snapshots import SnapshotLike, resolve
from holdfast.entries import Blob, decode_entry
from holdfast.errors import InvalidValue, PathNotFound, TooLarge
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import EMPTY_MAP, Plane, SnapshotInfo
from holdfast.model.changes import Committed
from holdfast.packs import ObjectKind, PackBuilder
from holdfast.tree import diff, get_many

MAX_TOLD: Final = 20_000
MAX_TOLD_BYTES: Final = 4 << 20
"""Edits of one answer: what is exceeded first ends it."""

SENT_BYTES: Final = 4 << 20
"""Content of one answer. A connection that breaks loses so much at the most."""

MAX_WANTED: Final = 20_000
"""Objects that one question may name."""

MAX_LISTED: Final = 1_000_000
"""References of files that are looked through for one answer: what is beyond is asked for anew."""

Want = tuple[bytes, Sequence[ObjectId]]
"""A path, and those of its objects that somebody lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentChanges:
    """Edits that lead from one snapshot's files to another's, or the first of them."""

    root: ObjectId
    """The files map that all of them lead to."""
    edits: Sequence[tuple[bytes, bytes | None]]
    has_more: bool


def changes(
    handle: Handle, old: SnapshotInfo | None, new: SnapshotInfo, *, after: bytes = b""
) -> SentChanges:
    """Returns what leads from one snapshot's files, or from none, to another's; after a path."""
    edits: list[tuple[bytes, bytes | None]] = []
    size, has_more = 0, False
    with (
        looking_at(handle, new),
        looking_at(handle, old or new),
        handle.context.catalog.read() as transaction,
    ):
        source = handle.objects_in(transaction)
        goal = source.get_root(new.root).plane(Plane.FILES)
        start = EMPTY_MAP if old is None else source.get_root(old.root).plane(Plane.FILES)
        for edit in diff(source, start, goal, start=after + b"\0" if after else b""):
            if len(edits) == MAX_TOLD or size >= MAX_TOLD_BYTES:
                has_more = True
                break
            edits.append((edit.key, edit.new))
            size += len(edit.key) + len(edit.new or b"")
    return SentChanges(root=goal, edits=edits, has_more=has_more)


def collect_content(handle: Handle, snapshot: SnapshotInfo, wants: Sequence[Want]) -> bytes:
    """Returns a pack of objects that files of a snapshot need: those asked for, or the first."""
    if sum(len(object_ids) for _, object_ids in wants) > MAX_WANTED:
        message = f"{MAX_WANTED} objects can be asked for at a time"
        raise TooLarge(message)
    if len({key for key, _ in wants}) != len(wants) or not all(names for _, names in wants):
        raise InvalidValue("each path is named once, with the objects that are asked for")
    builder, size, listed = PackBuilder(), 0, 0
    with looking_at(handle, snapshot), handle.context.catalog.read() as transaction:
        source = handle.objects_in(transaction)
        files = source.get_root(snapshot.root).plane(Plane.FILES)
        entries = get_many(source, files, [to_key(key) for key, _ in wants])
        for key, object_ids in wants:
            if size >= SENT_BYTES or listed >= MAX_LISTED:
                break
            blob = decode_entry(entries[key]) if key in entries else None
            if not isinstance(blob, Blob):
                raise PathNotFound(key)
            needed = {*list_refs(source, blob)}
            listed += len(needed)
            if not {*object_ids} <= needed:
                raise InvalidValue("an object was asked for that its file does not need")
            for object_id, data in _iter_objects(source, object_ids):
                if size >= SENT_BYTES:
                    break
                builder.add(object_id, data, kind=ObjectKind.CHUNK)
                size += len(data)
    return builder.finish().data


def _iter_objects(
    source: Objects, object_ids: Sequence[ObjectId]
) -> Iterator[tuple[ObjectId, bytes]]:
    for at in range(0, len(object_ids), READ_AHEAD):
        yield from source.get_many(object_ids[at : at + READ_AHEAD]).items()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a namespace stands."""

    position: SnapshotId | None
    """The snapshot whose state the head shows, if nothing is pending."""
    root: ObjectId
    """The files map, with what is pending."""
    is_dirty: bool
    """Whether anything was written since that snapshot: nothing is compared."""


class Exchange:
    """One namespace, to exchange its files with another vault."""

    def __init__(self, handle: Handle, *, is_shared: bool) -> None:
        self._handle, self._is_shared = handle, is_shared

    @classmethod
    def of(cls, namespace: Namespace, *, is_shared: bool) -> "Exchange":
        """Returns the exchange of a namespace."""
        handle = namespace._handle  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - of the engine, as this is
        return cls(handle, is_shared=is_shared)

    def standing(self) -> Standing:
        """Returns where the namespace stands; one that is not there yet holds nothing."""
        with folded_head(self._handle) as (_, folded):
            return Standing(
                position=folded.head.position,
                root=folded.root.plane(Plane.FILES),
                is_dirty=folded.has_rows,
            )

    def missing(self, names: bytes) -> bytes:
        """Returns which of these objects would have to be sent; names stand back to back."""
        asked = receiving.split_ids(names)
        return b"".join(receiving.missing(self._handle, asked, is_shared=self._is_shared))

    def receive(self, pack: bytes) -> int:
        """Stores the objects of a pack; returns how many there are."""
        return len(receiving.receive(self._handle, pack))

    def commit(self, told: Commit) -> Committed:
        """Makes a snapshot of what a client tells of its directory."""
        return adopting.commit(self._handle, told, is_shared=self._is_shared)

    def changes(
        self, old: SnapshotLike | None, new: SnapshotLike, *, after: bytes = b""
    ) -> SentChanges:
        """Returns what leads from one snapshot's files, or from none, to another's."""
        start = None if old is None else resolve(self._handle, old)
        return changes(self._handle, start, resolve(self._handle, new), after=after)

    def content(self, snapshot: SnapshotLike, wants: Sequence[Want]) -> bytes:
        """Returns a pack of objects that files of a snapshot need."""
        return collect_content(self._handle, resolve(self._handle, snapshot), wants)
