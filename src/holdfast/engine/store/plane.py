"""The store plane, to change: values by namespace and key.

Method names and answers are those of the in-process store. Every `set` is durable when it
returns; `set_many` is one transaction. Its snapshots are those of the whole namespace; what
one holds is read when it is asked, for as long as it is on the timeline. A restore here brings back
the store alone.
"""

from collections.abc import Iterator
from typing import Any, overload

from msgspec.structs import replace

from holdfast.engine.files.opening import opened_at, opened_head
from holdfast.engine.pending.writing import Rows, change_rows
from holdfast.engine.planes.handle import Handle, looking_at
from holdfast.engine.planes.view import View
from holdfast.engine.store.reader import StoreReader, as_listed, size_of
from holdfast.engine.store.writing import (
    Draft,
    append,
    delete_under,
    drafted,
    pop,
    to_data,
    write,
)
from holdfast.engine.timeline import listing, restore, snapshots
from holdfast.engine.timeline.selection import only
from holdfast.model.basics import Plane, SnapshotInfo, SnapshotLike, fields_of
from holdfast.model.changes import Restored
from holdfast.model.values import BatchDone, StoreValue
from holdfast.operations.checks import checked
from holdfast.operations.operation import does, takes
from holdfast.operations.snapshots import TakeSnapshot
from holdfast.operations.store import (
    AppendValues,
    BatchValues,
    ClearStore,
    DeletePrefix,
    DeleteValue,
    ManyKeys,
    Pair,
    PopValue,
    PutValue,
    PutValues,
    SetValue,
    SetValues,
)
from holdfast.operations.timeline import ListTimeline
from holdfast.store.core import encode
from holdfast.storekeys import from_store_key, to_store_key
from holdfast.tree import Edit, diff


@checked
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


@checked
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
        key = to_store_key(wanted.namespace, wanted.key)
        write(self._handle, Draft({key: encode(wanted.value)}, expected=_of(key, wanted)))

    @takes(SetValues)
    def set_many(self, wanted: SetValues) -> None:
        """Puts many values and deletes others, all or none of it, in one transaction.

        Nothing unless all that is `expected` is so: tags behind namespaces and keys, or `absent`;
        else raises `NotAsExpected`. With `keep`, a value that is there stays as it is.
        """
        write(self._handle, drafted(self._handle, wanted, values=wanted.items))

    @takes(PutValue)
    def put(self, wanted: PutValue) -> None:
        """Puts a value that is msgpack already, as `dumps` returns it; otherwise as `set`."""
        key, data = to_store_key(wanted.namespace, wanted.key), to_data(self._handle, wanted.data)
        write(self._handle, Draft({key: data}, expected=_of(key, wanted)))

    @takes(PutValues)
    def put_many(self, wanted: PutValues) -> None:
        """Does what `set_many` does, with values that are msgpack already; None deletes one."""
        write(self._handle, drafted(self._handle, wanted, packed=wanted.items))

    @does(BatchValues)
    def batch(self, wanted: BatchValues) -> BatchDone:
        draft = drafted(self._handle, wanted, values=wanted.set or (), packed=wanted.put or ())
        read = [to_store_key(namespace, key) for namespace, key in wanted.get or ()]
        is_known = bool(read) and draft.tag(read)
        write(self._handle, draft)
        done = BatchDone(set=draft.added, deleted=draft.gone, values=[])
        if not read:
            return done
        if is_known:
            objects, put, tags = self._handle.objects, draft.put, draft.tags
            known = [(key, as_listed(objects, key, put[key], is_raw=wanted.raw)) for key in read]
            return replace(done, values=[replace(each, tag=tags[key]) for key, each in known])
        return replace(done, values=StoreReader.batch(self, get=wanted.get, raw=wanted.raw).values)

    @does(AppendValues)
    def append(self, wanted: AppendValues) -> list[str]:
        return append(self._handle, wanted.namespace, wanted.prefix, wanted.values)

    @does(PopValue)
    def pop(self, wanted: PopValue) -> StoreValue | None:
        return pop(self._handle, wanted.namespace, wanted.prefix)

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

    @takes(ManyKeys)
    def delete_many(self, wanted: ManyKeys) -> int:
        """Deletes many keys, all or none of them; returns how many were there."""
        draft = Draft(delete={to_store_key(namespace, key) for namespace, key in wanted.pairs})
        write(self._handle, draft)
        return draft.gone

    @does(DeletePrefix)
    def delete_prefix(self, wanted: DeletePrefix) -> int:
        return delete_under(self._handle, wanted.namespace, wanted.prefix)

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


def _of(key: bytes, wanted: SetValue | PutValue) -> dict[bytes, str]:
    return {} if wanted.expected is None else {key: wanted.expected}
