"""A snapshot of a namespace, as its store sees it.

It is the snapshot itself, and can be given wherever one is asked for; and it answers as a
snapshot of the in-process store does. What it holds is read when it is asked: that works for
as long as the snapshot is on the timeline.
"""

from collections.abc import Iterator
from typing import Any, overload

from holdfast.engine.files.opening import opened_at
from holdfast.engine.planes.handle import Handle, looking_at
from holdfast.engine.store.reader import StoreReader
from holdfast.engine.timeline import snapshots
from holdfast.entries import decode_entry
from holdfast.model.basics import Plane, SnapshotInfo, SnapshotLike, fields_of
from holdfast.storekeys import from_store_key
from holdfast.tree import Edit, diff

Pair = tuple[str, str]
"""A namespace and a key of the store."""


class StoreSnapshot(SnapshotInfo, frozen=True, kw_only=True, eq=False):
    """A point on a timeline, with what the store held there."""

    _handle: Handle

    @classmethod
    def of(cls, handle: Handle, snapshot: SnapshotInfo) -> "StoreSnapshot":
        """Returns a snapshot of a namespace as its store sees it."""
        return cls(**fields_of(snapshot), _handle=handle)

    @property
    def timestamp(self) -> float:
        """When it was taken, in seconds since 1970."""
        return self.created_at.timestamp()

    @property
    def size_bytes(self) -> int:
        """How much the values take as msgpack; every entry is looked at."""
        with opened_at(self._handle, self, Plane.STORE)() as view:
            return sum(decode_entry(data).size for _, data in view.iterate())

    @property
    def keys(self) -> list[Pair]:
        """Every namespace with every key, in order."""
        with opened_at(self._handle, self, Plane.STORE)() as view:
            return [from_store_key(key) for key, _ in view.iterate()]

    def diff(self, base: SnapshotLike) -> dict[str, list[Pair]]:
        """Returns what leads from `base` to this one, at the cost of what differs."""
        kinds = {"added": list[Pair](), "removed": list[Pair](), "changed": list[Pair]()}
        for edit in self._edits(snapshots.resolve(self._handle, base)):
            kind = "added" if edit.old is None else "removed" if edit.new is None else "changed"
            kinds[kind].append(from_store_key(edit.key))
        return kinds

    def get(self, namespace: str, key: str, default: Any = None) -> Any:
        """Returns the value that a key had, or the default."""
        return self._reader().get(namespace, key, default)

    @overload
    def items(self, namespace: str, prefix: str | None = None) -> list[tuple[str, Any]]: ...
    @overload
    def items(
        self, namespace: None = None, prefix: str | None = None
    ) -> list[tuple[Pair, Any]]: ...
    def items(self, namespace: str | None = None, prefix: str | None = None) -> list[Any]:
        """Returns keys with their values; without a namespace, pairs with theirs."""
        return self._reader().items(namespace, prefix)

    def _reader(self) -> StoreReader:
        return StoreReader(opened_at(self._handle, self, Plane.STORE))

    def _edits(self, base: SnapshotInfo) -> Iterator[Edit]:
        handle = self._handle
        with (
            looking_at(handle, self),
            looking_at(handle, base),
            handle.context.catalog.read() as transaction,
        ):
            objects = handle.objects_in(transaction)
            old, new = objects.get_root(base.root), objects.get_root(self.root)
            yield from diff(objects, old.plane(Plane.STORE), new.plane(Plane.STORE))
