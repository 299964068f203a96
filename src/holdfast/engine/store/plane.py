"""The store plane, to change: values by namespace and key.

Method names and answers are those of the in-process store. Every `set` is durable when it
returns; `set_many` is one transaction. Its snapshots are those of the whole namespace; what
one holds is read when it is asked, for as long as it is on the timeline. A restore here brings back
the store alone.
"""

from collections.abc import Callable, Iterator
from typing import Any, overload

from holdfast.engine.files.opening import opened_at, opened_head
from holdfast.engine.objects import content
from holdfast.engine.objects.stage import Stage
from holdfast.engine.pending.writing import Rows, change, change_rows
from holdfast.engine.planes.handle import Handle, looking_at
from holdfast.engine.planes.view import View
from holdfast.engine.store.reader import StoreReader, size_of
from holdfast.engine.timeline import listing, restore, snapshots
from holdfast.engine.timeline.selection import only
from holdfast.entries import Inline, encode_entry
from holdfast.errors import TooLarge
from holdfast.model.basics import Plane, Size, SnapshotInfo, SnapshotLike, fields_of
from holdfast.model.changes import Restored
from holdfast.operations.operation import does, takes
from holdfast.operations.snapshots import TakeSnapshot
from holdfast.operations.store import ClearStore, DeleteValue, DeleteValues, SetValue, SetValues
from holdfast.operations.timeline import ListTimeline
from holdfast.store.core import encode
from holdfast.storekeys import from_store_key, to_store_key
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
        return size_of(self._reader())

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


class Store(StoreReader):
    """The store at the head of a namespace, to read and to change."""

    def __init__(self, handle: Handle) -> None:
        super().__init__(opened_head(handle, Plane.STORE))
        self._handle = handle

    @property
    def codec(self) -> str:
        """What values are inside."""
        return "msgpack"

    @property
    def max_history(self) -> None:
        """How many snapshots are kept: None, as retention decides that and not a number."""
        return

    # Values

    @does(SetValue)
    def set(self, wanted: SetValue) -> None:
        self._put({to_store_key(wanted.namespace, wanted.key): encode(wanted.value)})

    @takes(SetValues)
    def set_many(self, wanted: SetValues) -> None:
        """Puts many values, all or none of them."""
        self._put({to_store_key(n, k): encode(value) for n, k, value in wanted.items})

    @does(DeleteValue)
    def delete(self, wanted: DeleteValue) -> bool:
        key, was_there = to_store_key(wanted.namespace, wanted.key), [False]
        # Looked at first: where there is nothing to delete, nobody has to wait for a turn.
        if not self.contains(wanted.namespace, wanted.key):
            return False

        def compute(view: View) -> Rows:
            was_there[:] = [view.get(key) is not None]
            return {key: None} if was_there[0] else {}

        change_rows(self._handle, Plane.STORE, compute, creates=False)
        return was_there[0]

    @takes(DeleteValues)
    def delete_many(self, wanted: DeleteValues) -> int:
        """Deletes many keys, all or none of them; returns how many were there."""
        keys, gone = {to_store_key(namespace, key) for namespace, key in wanted.pairs}, [0]

        def compute(view: View) -> Rows:
            found = view.get_many(list(keys))
            gone[:] = [len(found)]
            return dict.fromkeys(found)

        if keys:
            change_rows(self._handle, Plane.STORE, compute, creates=False)
        return gone[0]

    @does(ClearStore)
    def clear(self, _wanted: ClearStore) -> None:
        def compute(view: View) -> Rows:
            return dict.fromkeys(key for key, _ in view.iterate())

        change_rows(self._handle, Plane.STORE, compute, creates=False)

    # Snapshots

    @takes(TakeSnapshot)
    def snapshot(self, wanted: TakeSnapshot) -> StoreSnapshot:
        """Captures the whole namespace as it is now, in one atomic step.

        With `expected`, only if the head still shows that snapshot; else raises `HeadMoved`.
        """
        return StoreSnapshot.of(self._handle, snapshots.taken(self._handle, wanted))

    def restore(self, snapshot: SnapshotLike) -> Restored:
        """Brings the store of a snapshot back, and leaves the other planes as they are.

        What is there now is kept as a snapshot first.
        """
        target = snapshots.resolve(self._handle, snapshot)
        return restore.restore(self._handle, target, selection=only(Plane.STORE))

    def at(self, snapshot: SnapshotLike) -> StoreReader:
        """Returns the store as a snapshot shows it, to read."""
        target = snapshots.resolve(self._handle, snapshot)
        return StoreReader(opened_at(self._handle, target, Plane.STORE))

    def history(self) -> list[StoreSnapshot]:
        """Returns the snapshots of the namespace, oldest first."""
        found = reversed(listing.timeline(self._handle, ListTimeline()))
        return [StoreSnapshot.of(self._handle, snapshot) for snapshot in found]

    def clear_history(self) -> None:
        """Takes off the timeline what is not pinned and not what the head stands on.

        Each of them can be recovered until the grace period ends.
        """
        snapshots.delete_all(self._handle)

    def _put(self, encoded: dict[bytes, bytes]) -> None:
        if not encoded:
            return
        sizes = [len(data) for data in encoded.values()]
        held, largest = Size(len(sizes), sum(sizes)), max(sizes)
        most = self._handle.context.limits.value_bytes
        if largest > most:
            message = f"a value may have {most} bytes; this one has {largest}"
            raise TooLarge(message)
        if largest <= content.INLINE_BYTES:
            # No objects, so nothing to stage: 5 µs of 85, but for the disk.
            rows = {key: encode_entry(Inline(data)) for key, data in encoded.items()}
            change_rows(self._handle, Plane.STORE, lambda _view: rows, held=held, over=encoded)
            return

        def prepare(stage: Stage) -> Callable[[View], Rows]:
            rows = {
                key: encode_entry(content.as_value(stage, data)) for key, data in encoded.items()
            }
            return lambda _view: rows

        change(self._handle, Plane.STORE, prepare, held=held, over=encoded)
