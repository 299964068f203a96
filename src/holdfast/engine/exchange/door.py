"""Everything that an exchange asks of one namespace.

`is_shared` says that the caller opens all of the tenant, and so may name any object of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.engine.exchange import adopting, receiving, sending
from holdfast.engine.exchange.adopting import Commit
from holdfast.engine.exchange.sending import SentChanges, Want
from holdfast.engine.namespace import Namespace
from holdfast.engine.planes.handle import Handle
from holdfast.engine.timeline.restore import folded_head
from holdfast.engine.timeline.snapshots import SnapshotLike, resolve
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import Plane
from holdfast.model.changes import Committed


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a namespace stands."""

    position: SnapshotId | None
    """The snapshot whose state the head shows, if nothing is pending."""
    root: ObjectId
    """The files map, with what is pending."""
    is_dirty: bool


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
                is_dirty=folded.is_dirty,
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
        return sending.changes(self._handle, start, resolve(self._handle, new), after=after)

    def content(self, snapshot: SnapshotLike, wants: Sequence[Want]) -> bytes:
        """Returns a pack of objects that files of a snapshot need."""
        return sending.collect_content(self._handle, resolve(self._handle, snapshot), wants)
