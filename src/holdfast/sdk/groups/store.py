"""`client.store`: the names of `holdfast.Namespace.store`, which are those of the in-process store.

Values are what msgpack makes of them, as in every other form of the store; on the wire they are
JSON, which says the same (`wire.storevalues`).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from holdfast.model.basics import Kind, Plane, SnapshotInfo, SnapshotLike, id_of
from holdfast.model.changes import Restored
from holdfast.operations.operation import takes
from holdfast.operations.snapshots import RestoreSnapshot, TakeSnapshot
from holdfast.operations.store import (
    ClearStore,
    DeleteValue,
    FindMaxKey,
    ListStoreKeys,
    ListStoreNamespaces,
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
    call,
    collecting,
    flow,
    method,
    pages,
    paging,
)
from holdfast.sdk.groups import timeline
from holdfast.sdk.reading import nothing, reads
from holdfast.store.core import encode
from holdfast.wire.store import (
    BatchAnswer,
    BatchRequest,
    CountAnswer,
    ItemsAnswer,
    KeyPlace,
    ValueAnswer,
    ValueRequest,
    from_json,
    to_json,
)

PAGE: Final = 1000
BATCH: Final = 1000
"""Values that go together in one request."""

Pair = tuple[str, str]
"""A namespace and a key of the store."""


class StoreReader(Group[F]):
    """The store at one moment: now, or as a snapshot shows it."""

    def __init__(self, sender: Sender, *, at: str | None = None) -> None:
        super().__init__(sender)
        self.above = {} if at is None else {"at": at}

    @flow
    def get(
        self,
        namespace: str,
        key: str,
        default: Any = None,  # noqa: ANN401 - whatever the caller likes
    ) -> Steps[Any]:
        """Returns the value for a key, or the default."""
        found = yield from self._read([(namespace, key)])
        return default if found[0] is None else from_json(found[0].value)

    @flow
    def get_many(self, pairs: Iterable[Pair]) -> Steps[list[Any]]:
        """Returns the values in the order asked for; None for what is missing."""
        found = yield from self._read(list(pairs))
        return [None if each is None else from_json(each.value) for each in found]

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
    def items(self, namespace: str | None = None, prefix: str | None = None) -> Steps[list[Any]]:
        """Returns keys and values of a namespace in the order of the keys.

        Without a namespace, all pairs of namespace and key with their values.
        """
        found = yield from self._items(namespace, prefix).collect()
        if namespace is not None:
            return [(key, value) for (_, key), value in found]
        return found

    @pages
    def iter_items(
        self, namespace: str | None = None, prefix: str | None = None
    ) -> Pages[tuple[Pair, Any]]:
        """Goes through pairs of namespace and key with their values, in order."""
        return self._items(namespace, prefix)

    max_key = method(FindMaxKey)
    namespaces = method(ListStoreNamespaces)

    @call
    def count(self) -> Call[int]:
        """Returns how many values there are."""
        return _count(self.above, sizes=False)

    def _read(self, pairs: list[Pair]) -> Steps[list[ValueAnswer | None]]:
        found: list[ValueAnswer | None] = []
        for start in range(0, len(pairs), BATCH):
            wanted = [KeyPlace(namespace=n, key=k) for n, k in pairs[start : start + BATCH]]
            answer: BatchAnswer = yield Call(
                method="POST",
                path="/v1/store/batch",
                query=self.above,
                body=BatchRequest(get=wanted),
                read=_batch,
                is_reading=True,
            )
            found += answer.values
        return found

    def _items(self, namespace: str | None, prefix: str | None) -> Pages[tuple[Pair, Any]]:
        def read(answer: ItemsAnswer) -> Page[tuple[Pair, Any]]:
            found = [((each.namespace, each.key), from_json(each.value)) for each in answer.items]
            cursor = msgspec.json.encode(found[-1][0]).decode() if found else None
            return Page(found, cursor if answer.has_more else None)

        def ask(cursor: str | None, most: int) -> Call[Page[tuple[Pair, Any]]]:
            last = None if cursor is None else msgspec.json.decode(cursor, type=Pair)
            query = {
                "namespace": namespace,
                "prefix": prefix,
                "limit": most,
                "starting_after": None if last is None else last[1],
                "starting_after_namespace": None if last is None else last[0],
                **self.above,
            }
            path = "/v1/store/items"
            return Call(method="GET", path=path, query=query, read=reads(ItemsAnswer, read))

        return Pages(PAGE, ask)


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
        return (yield _count({"at": self.id}, sizes=True))

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


class Store(StoreReader[F]):
    """The store at the head of a namespace, to read and to change."""

    @call
    def set(self, namespace: str, key: str, value: Any) -> Call[None]:  # noqa: ANN401 - any value
        """Puts a value under a key."""
        body = _value(namespace, key, value)
        return Call(method="PUT", path="/v1/store/value", body=body, read=nothing)

    @call
    def set_many(self, items: Iterable[tuple[str, str, Any]]) -> Call[None]:
        """Puts many values, all or none of them."""
        body = BatchRequest(set=[_value(*item) for item in items])
        return Call(method="POST", path="/v1/store/batch", body=body, read=nothing)

    delete = method(DeleteValue)

    @call
    def delete_many(self, pairs: Iterable[Pair]) -> Call[int]:
        """Deletes many keys, all or none of them; returns how many were there."""
        wanted = [KeyPlace(namespace=namespace, key=key) for namespace, key in pairs]
        body, read = BatchRequest(delete=wanted), reads(BatchAnswer, lambda answer: answer.deleted)
        return Call(method="POST", path="/v1/store/batch", body=body, read=read)

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
        found = yield from collecting(ListTimeline())
        return [StoreSnapshot[F](self.sender, info) for info in reversed(found)]

    def at(self, snapshot: SnapshotLike) -> StoreReader[F]:
        """Returns the store as a snapshot shows it, to read."""
        return StoreReader[F](self.sender, at=id_of(snapshot))


_batch = msgspec.json.Decoder(BatchAnswer).decode


def _value(namespace: str, key: str, value: object) -> ValueRequest:
    # What msgpack makes of it, so that what comes back is what any other store would return.
    plain = msgspec.msgpack.decode(encode(value))
    return ValueRequest(namespace=namespace, key=key, value=to_json(plain))


def _count(above: Mapping[str, str], *, sizes: bool) -> Call[int]:
    def read(answer: CountAnswer) -> int:
        return (answer.size_bytes or 0) if sizes else answer.count

    query = {**above, "sizes": sizes or None}
    return Call(method="GET", path="/v1/store/count", query=query, read=reads(CountAnswer, read))
