"""`client.store`: the names of `holdfast.Namespace.store`, which are those of the in-process store.

Values are what msgpack makes of them, as in every other form of the store; on the wire they are
JSON, which says the same (`model.values`).
"""

from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from holdfast.model.basics import Kind, Plane, SnapshotInfo, SnapshotLike, id_of
from holdfast.model.changes import Restored
from holdfast.model.values import BatchDone, StoreCount, StoreItems, StoreValue
from holdfast.operations.checks import checked
from holdfast.operations.forms import form_of
from holdfast.operations.operation import takes
from holdfast.operations.snapshots import RestoreSnapshot, TakeSnapshot
from holdfast.operations.store import (
    AppendValues,
    BatchValues,
    ClearStore,
    CountValues,
    DeletePrefix,
    DeleteValue,
    FindMaxKey,
    ListStoreItems,
    ListStoreKeys,
    ListStoreNamespaces,
    ManyKeys,
    Pair,
    PopValue,
    PutValue,
    PutValues,
    SetValue,
    SetValues,
    Writing,
    to_cursor,
)
from holdfast.operations.timeline import Diff, ListTimeline
from holdfast.sdk.calls import (
    Call,
    F,
    Group,
    Page,
    Pages,
    Sender,
    Steps,
    asked,
    asking,
    collecting,
    flow,
    method,
    page_of,
    pages,
    paging,
)
from holdfast.sdk.groups import timeline

PAGE: Final = 1000
BATCH: Final = 1000
"""Values that go together in one request."""


class StoreReader(Group[F]):
    """The store at one moment: now, or as a snapshot shows it."""

    def __init__(self, sender: Sender, *, at: str | None = None, is_raw: bool = False) -> None:
        super().__init__(sender)
        self.above = {} if at is None else {"at": at}
        self._is_raw = is_raw

    @property
    def raw(self) -> "StoreReader[F]":
        """The same, whose values are the msgpack that they are stored as."""
        return StoreReader[F](self.sender, at=self.above.get("at"), is_raw=True)

    @flow
    def get(
        self,
        namespace: str,
        key: str,
        default: Any = None,  # noqa: ANN401 - whatever the caller likes
    ) -> Steps[Any]:
        """Returns the value for a key, or the default."""
        found = yield from self._read([(namespace, key)])
        return default if found[0] is None else self._value_of(found[0])

    @flow
    @takes(ManyKeys)
    def get_many(self, wanted: ManyKeys) -> Steps[list[Any]]:
        """Returns the values in the order asked for; None for what is missing."""
        found = yield from self._read([*wanted.pairs])
        return [None if each is None else self._value_of(each) for each in found]

    @flow
    def find(self, namespace: str, key: str) -> Steps[StoreValue | None]:
        """Returns the value for a key, and its tag; None if there is none."""
        found = yield from self._read([(namespace, key)])
        return found[0]

    @flow
    @takes(ManyKeys)
    def find_many(self, wanted: ManyKeys) -> Steps[list[StoreValue | None]]:
        """Returns values with their tags in the order asked for; None for what is missing."""
        return (yield from self._read([*wanted.pairs]))

    batch = method(BatchValues)

    @flow
    def contains(self, namespace: str, key: str) -> Steps[bool]:
        """Says whether there is a value for a key."""
        found = yield from self._read([(namespace, key)])
        return found[0] is not None

    keys = method(ListStoreKeys)

    @pages
    def iter_keys(self, namespace: str, prefix: str | None = None) -> Pages[str]:
        """Goes through the keys of a namespace in order."""
        return paging(ListStoreKeys(namespace, prefix), self.above)

    @flow
    def items(
        self,
        namespace: str | None = None,
        prefix: str | None = None,
        *,
        after: str | Pair | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> Steps[list[Any]]:
        """Returns keys and values of a namespace in the order of the keys, at most `limit`.

        Without a namespace, all pairs of namespace and key with their values. Only those that come
        `after` a key, or a pair. In `reverse`, the greatest comes first.
        """
        listed = self._items(namespace, prefix, after=after, limit=limit, reverse=reverse)
        found = yield from listed.collect()
        if namespace is not None:
            return [(key, value) for (_, key), value in found]
        return found

    @pages
    def iter_items(
        self, namespace: str | None = None, prefix: str | None = None, *, reverse: bool = False
    ) -> Pages[tuple[Pair, Any]]:
        """Goes through pairs of namespace and key with their values, in order."""
        return self._items(namespace, prefix, reverse=reverse)

    max_key = method(FindMaxKey)
    namespaces = method(ListStoreNamespaces)

    @flow
    def count(self) -> Steps[int]:
        """Returns how many values there are."""
        counted: StoreCount = yield asking(CountValues(), self.above)
        return counted.count

    def _read(self, pairs: list[Pair]) -> Steps[list[StoreValue | None]]:
        found: list[StoreValue | None] = []
        for start in range(0, len(pairs), BATCH):
            some = BatchValues(get=pairs[start : start + BATCH], raw=self._is_raw)
            answer: BatchDone = yield replace(asking(some, self.above), is_reading=True)
            found += answer.values
        return found

    def _value_of(self, found: StoreValue) -> Any:  # noqa: ANN401 - any value of the store
        return found.data if self._is_raw else found.value

    def _items(
        self,
        namespace: str | None,
        prefix: str | None,
        *,
        after: str | Pair | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> Pages[tuple[Pair, Any]]:
        form, begins = form_of(ListStoreItems), to_cursor(namespace, after)

        def read(body: bytes) -> Page[tuple[Pair, Any]]:
            page: StoreItems = form.read_answer(body)
            found = [((each.namespace, each.key), self._value_of(each)) for each in page.items]
            return page_of(found, has_more=page.has_more, cursor=lambda last: last[0])

        def ask(cursor: Any, most: int) -> Call[Page[tuple[Pair, Any]]]:  # noqa: ANN401 - a pair
            whose, after = cursor or begins or (None, None)
            wanted = ListStoreItems(
                namespace,
                prefix,
                limit=most,
                after=after,
                after_namespace=whose,
                reverse=reverse,
                raw=self._is_raw,
            )
            told: Any = asking(wanted, self.above)
            return replace(told, read=read)

        return Pages(PAGE, ask, limit)


class StoreSnapshot(Group[F]):
    """A snapshot of the namespace, as its store sees it; can be given wherever one is asked for.

    What it holds is asked for when somebody looks: over an `AsyncClient`, `keys` and
    `size_bytes` are awaited.
    """

    stands_for = SnapshotInfo

    def __init__(self, sender: Sender, info: SnapshotInfo) -> None:
        super().__init__(sender)
        self.info = info
        """The snapshot itself."""

    @property
    def id(self) -> str:
        """The snapshot's id."""
        return self.info.id

    @property
    def parent(self) -> str | None:
        """The id of the snapshot before it, or None."""
        return self.info.parent

    @property
    def snapshot_id(self) -> str:
        """Its id once more, by the name that it has on the wire."""
        return self.info.id

    @property
    def number(self) -> int:
        """Its place on the timeline."""
        return self.info.number

    @property
    def kind(self) -> Kind:
        """Why it stands there."""
        return self.info.kind

    @property
    def label(self) -> str | None:
        """What it is called."""
        return self.info.label

    @property
    def reason(self) -> str | None:
        """Why it was taken."""
        return self.info.reason

    @property
    def pinned(self) -> bool:
        """Whether it is kept until it is unpinned."""
        return self.info.pinned

    @property
    def created_at(self) -> datetime:
        """When it was taken."""
        return self.info.created_at

    @property
    def timestamp(self) -> float:
        """When it was taken, in seconds since 1970."""
        return self.info.created_at.timestamp()

    @asked
    def size_bytes(self) -> Steps[int]:
        """How much the values take as msgpack; every entry is looked at."""
        counted: StoreCount = yield asking(CountValues(sizes=True), {"at": self.id})
        return counted.size_bytes or 0

    @asked
    def keys(self) -> Steps[list[Pair]]:
        """Every namespace with every key, in order."""
        found: list[Pair] = []
        then = {"at": self.id}
        names: list[str] = yield asking(ListStoreNamespaces(), then)
        for name in names:
            keys: list[str] = yield from collecting(ListStoreKeys(name), then)
            found += [(name, key) for key in keys]
        return found

    @flow
    def diff(self, base: SnapshotLike) -> Steps[dict[str, list[Pair]]]:
        """Returns what leads from `base` to this one, at the cost of what differs."""
        kinds = {"added": list[Pair](), "removed": list[Pair](), "changed": list[Pair]()}
        wanted = Diff(id_of(base), self.id, planes=[Plane.STORE])
        for each in (yield from timeline.diff_steps(wanted)):
            kinds[each.change].append((each.named.namespace or "", each.named.key or ""))
        return kinds

    @flow
    def get(
        self,
        namespace: str,
        key: str,
        default: Any = None,  # noqa: ANN401 - whatever the caller likes
    ) -> Steps[Any]:
        """Returns the value that a key had, or the default."""
        then = StoreReader[Any](self.sender, at=self.id)
        value: Steps[Any] = StoreReader.get.describe(then, namespace, key, default)
        return (yield from value)

    @flow
    def items(self, namespace: str | None = None, prefix: str | None = None) -> Steps[list[Any]]:
        """Returns keys with their values; without a namespace, pairs with theirs."""
        then = StoreReader[Any](self.sender, at=self.id)
        found: Steps[list[Any]] = StoreReader.items.describe(then, namespace, prefix)
        return (yield from found)


@checked
class Store(StoreReader[F]):
    """The store at the head of a namespace, to read and to change."""

    set = method(SetValue)
    delete = method(DeleteValue)

    @flow
    @takes(SetValues)
    def set_many(self, wanted: SetValues) -> Steps[None]:
        """Puts many values and deletes others, all or none of it, in one transaction.

        Nothing unless all that is `expected` is so: tags behind namespaces and keys, or `absent`;
        else raises `NotAsExpected`. With `keep`, a value that is there stays as it is.
        """
        yield asking(_batch(wanted, set=wanted.items))

    @flow
    @takes(PutValue)
    def put(self, wanted: PutValue) -> Steps[None]:
        """Puts a value that is msgpack already, as `dumps` returns it; otherwise as `set`."""
        place, expected = (wanted.namespace, wanted.key), wanted.expected
        only = None if expected is None else [(*place, expected)]
        yield asking(BatchValues(put=[(*place, wanted.data)], expected=only))

    @flow
    @takes(PutValues)
    def put_many(self, wanted: PutValues) -> Steps[None]:
        """Does what `set_many` does, with values that are msgpack already; None deletes one."""
        yield asking(_batch(wanted, put=wanted.items))

    append = method(AppendValues)
    pop = method(PopValue)
    delete_prefix = method(DeletePrefix)

    @flow
    @takes(ManyKeys)
    def delete_many(self, wanted: ManyKeys) -> Steps[int]:
        """Deletes many keys, all or none of them; returns how many were there."""
        done: BatchDone = yield asking(BatchValues(delete=wanted.pairs))
        return done.deleted

    clear = method(ClearStore)

    @flow
    @takes(TakeSnapshot)
    def snapshot(self, wanted: TakeSnapshot) -> Steps[StoreSnapshot[F]]:
        """Captures the whole namespace as it is now, in one atomic step.

        With `expected`, only if the head still shows that snapshot; else raises `HeadMoved`.
        """
        return StoreSnapshot[F](self.sender, (yield asking(wanted)))

    @flow
    def restore(self, snapshot: "SnapshotLike | StoreSnapshot[F]") -> Steps[Restored]:
        """Brings the store of a snapshot back, and leaves the other planes as they are.

        What is there now is kept as a snapshot first.
        """
        wanted = snapshot.info if isinstance(snapshot, StoreSnapshot) else snapshot
        asked = RestoreSnapshot(wanted, planes=[Plane.STORE])
        return (yield asking((yield from timeline.with_whole_id(asked))))

    @flow
    def history(self) -> Steps[list[StoreSnapshot[F]]]:
        """Returns the snapshots of the namespace, oldest first."""
        found = yield from timeline.timeline_steps(ListTimeline())
        return [StoreSnapshot[F](self.sender, info) for info in reversed(found)]

    def at(self, snapshot: SnapshotLike) -> StoreReader[F]:
        """Returns the store as a snapshot shows it, to read."""
        return StoreReader[F](self.sender, at=id_of(snapshot))


def _batch(wanted: Writing, **more: Any) -> BatchValues:  # noqa: ANN401 - what is put
    given = {"delete": wanted.delete, "expected": wanted.expected}
    said = {name: value for name, value in given.items() if value}
    return BatchValues(keep=wanted.keep, **said, **more)
