"""The store plane, to read: any moment of a namespace, its head or a snapshot.

Method names and answers are those of the in-process store. Values are msgpack inside, so what
is returned is never what was put: the caller may change either.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice
from types import TracebackType
from typing import Any, Final, overload

from msgspec.structs import replace

from holdfast.display import Part
from holdfast.engine.core.limits import check_answer, check_limit
from holdfast.engine.files.reader import Opened
from holdfast.engine.objects import content
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes.storevalues import entry_of, iter_packed, packed_of, unpacked
from holdfast.engine.planes.view import FIRST_PAGE, LAST_PAGE, View
from holdfast.entries import decode_entry
from holdfast.errors import InvalidValue
from holdfast.fetching import fetched
from holdfast.model.values import BatchDone, StoreItems, StoreValue
from holdfast.operations.checks import checked
from holdfast.operations.operation import does, takes
from holdfast.operations.store import (
    BatchValues,
    FindMaxKey,
    ListStoreKeys,
    ListStoreNamespaces,
    ManyKeys,
    Pair,
    to_cursor,
)
from holdfast.storekeys import from_store_key, namespace_start, range_of, to_store_key

PAGE_BYTES: Final = 8 << 20
"""Once the values of a page have so many bytes, it ends."""

_EVERYTHING: Final = (b"", b"\xff")
"""From where to where all keys are: UTF-8 never holds the byte FF."""


@checked
class StoreReader(Part):
    """The store at one moment, to read."""

    def __init__(self, opened: Opened, *, is_raw: bool = False) -> None:
        self.opened = opened
        self._is_raw = is_raw
        self._made_of: Callable[[Objects, bytes, bytes], Any] = _as_it_is if is_raw else unpacked

    @property
    def raw(self) -> "StoreReader":
        """The same, whose values are the msgpack that they are stored as."""
        return StoreReader(self.opened, is_raw=True)

    def still(self) -> "_Still":
        """Opens the store as it is now: what is asked inside the block is of one moment."""
        return _Still(self.opened, is_raw=self._is_raw)

    @fetched
    def get(self, namespace: str, key: str, default: Any = None) -> Any:
        """Returns the value for a key, or the default."""
        wanted = to_store_key(namespace, key)
        with self.opened() as view:
            data = view.get(wanted)
            if data is None:
                return default
            return self._made_of(view.objects, wanted, packed_of(view.objects, wanted, data))

    @takes(ManyKeys)
    def get_many(self, wanted: ManyKeys) -> list[Any]:
        """Returns the values in the order asked for; None for what is missing."""
        return self._read(
            wanted, lambda objects, key, _, packed: self._made_of(objects, key, packed)
        )

    def find(self, namespace: str, key: str) -> StoreValue | None:
        """Returns the value for a key, and its tag; None if there is none."""
        return self.find_many([(namespace, key)])[0]

    @takes(ManyKeys)
    def find_many(self, wanted: ManyKeys) -> list[StoreValue | None]:
        """Returns values with their tags in the order asked for; None for what is missing."""
        return self._read(wanted, self._tagged)

    @does(BatchValues)
    def batch(self, wanted: BatchValues) -> BatchDone:
        if wanted.set or wanted.put or wanted.delete or wanted.expected:
            raise InvalidValue("a snapshot is read and never changed")
        reader = self.raw if wanted.raw else self
        return BatchDone(set=0, deleted=0, values=reader.find_many(wanted.get or ()))

    @fetched
    def contains(self, namespace: str, key: str) -> bool:
        """Says whether there is a value for a key."""
        wanted = to_store_key(namespace, key)
        with self.opened() as view:
            return view.get(wanted) is not None

    @does(ListStoreKeys)
    @fetched
    def keys(self, wanted: ListStoreKeys) -> list[str]:
        check_limit(wanted.limit)
        own = len(namespace_start(wanted.namespace))
        after = None if wanted.after is None else (wanted.namespace, wanted.after)
        with self.opened() as view:
            found = _iterate(
                view,
                wanted.namespace,
                wanted.prefix,
                after=after,
                reverse=wanted.reverse,
                most=wanted.limit,
            )
            return [key[own:].decode() for key, _ in islice(found, wanted.limit)]

    @overload
    def items(
        self,
        namespace: str,
        prefix: str | None = None,
        *,
        after: str | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[tuple[str, Any]]: ...
    @overload
    def items(
        self,
        namespace: None = None,
        prefix: str | None = None,
        *,
        after: Pair | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[tuple[Pair, Any]]: ...
    def items(
        self,
        namespace: str | None = None,
        prefix: str | None = None,
        *,
        after: str | Pair | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[Any]:
        """Returns keys and values of a namespace in the order of the keys, at most `limit`.

        Without a namespace, all pairs of namespace and key with their values. Only those that come
        `after` a key, or a pair. In `reverse`, the greatest comes first.
        """
        check_limit(limit)
        behind = to_cursor(namespace, after)
        with self.opened() as view:
            found = _iterate(view, namespace, prefix, after=behind, reverse=reverse, most=limit)
            rows = islice(found, limit)
            own, objects = len(namespace_start(namespace or "")), view.objects
            return [
                (
                    from_store_key(key) if namespace is None else key[own:].decode(),
                    self._made_of(objects, key, packed),
                )
                for key, packed in iter_packed(objects, rows)
            ]

    @does(FindMaxKey)
    @fetched
    def max_key(self, wanted: FindMaxKey) -> str | None:
        found = self.keys(wanted.namespace, wanted.prefix, limit=1, reverse=True)
        return found[0] if found else None

    @does(ListStoreNamespaces)
    @fetched
    def namespaces(self, wanted: ListStoreNamespaces) -> list[str]:
        with self.opened() as view:
            return [name for name in _names(view) if name.startswith(wanted.prefix or "")]

    @fetched
    def count(self) -> int:
        """Returns how many values there are."""
        with self.opened() as view:
            return view.count()

    def __len__(self) -> int:
        return self.count()

    def __contains__(self, namespace: object) -> bool:
        if not isinstance(namespace, str):
            return False
        with self.opened() as view:
            return next(_iterate(view, namespace), None) is not None

    @fetched
    def _read(
        self, asked: ManyKeys, make: Callable[[Objects, bytes, bytes, bytes], Any]
    ) -> list[Any]:
        wanted = [to_store_key(namespace, key) for namespace, key in asked.pairs]
        with self.opened() as view:
            found, objects = view.get_many(list(set(wanted))), view.objects
            sizes = {key: decode_entry(data).size for key, data in found.items()}
            check_answer(objects.limits, (sizes.get(key, 0) for key in wanted))
            packed = dict(iter_packed(objects, found.items()))
            return [
                None if (data := packed.get(key)) is None else make(objects, key, found[key], data)
                for key in wanted
            ]

    def _tagged(self, objects: Objects, key: bytes, data: bytes, packed: bytes) -> StoreValue:
        found = as_listed(objects, key, packed, is_raw=self._is_raw)
        return replace(found, tag=content.tag_of(entry_of(data), content.VALUES))


class _Still:
    """The store at the moment at which it is opened: a generator would take 4 µs more."""

    __slots__ = ("_is_raw", "_opened")

    def __init__(self, opened: Opened, *, is_raw: bool) -> None:
        self._opened, self._is_raw = opened(), is_raw

    def __enter__(self) -> StoreReader:
        view = self._opened.__enter__()
        return StoreReader(lambda: nullcontext(view), is_raw=self._is_raw)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return self._opened.__exit__(kind, error, traceback)


def items_page(
    store: StoreReader,
    namespace: str | None,
    prefix: str | None = None,
    *,
    after: Pair | None = None,
    most: int,
    reverse: bool = False,
    is_raw: bool = False,
) -> StoreItems:
    """Returns values by namespace and key: those that come `after` one.

    Of all namespaces, if none is named. A page holds `most` values at the most, and ends where
    they become too many bytes.
    """
    rows, size, has_more = list[tuple[bytes, bytes]](), 0, False
    with store.opened() as view:
        for key, data in _iterate(view, namespace, prefix, after=after, reverse=reverse):
            has_more = len(rows) >= most or size >= PAGE_BYTES
            if has_more:
                break
            size += decode_entry(data).size
            rows.append((key, data))
        found, objects = iter_packed(view.objects, rows), view.objects
        listed = [as_listed(objects, key, packed, is_raw=is_raw) for key, packed in found]
    return StoreItems(items=listed, has_more=has_more)


def as_listed(objects: Objects, key: bytes, packed: bytes, *, is_raw: bool) -> StoreValue:
    """Returns a value as a list has it, of the msgpack under a key."""
    namespace, name = from_store_key(key)
    if is_raw:
        return StoreValue(namespace=namespace, key=name, value=None, data=packed)
    return StoreValue(namespace=namespace, key=name, value=unpacked(objects, key, packed))


def _as_it_is(_objects: Objects, _key: bytes, packed: bytes) -> bytes:
    return packed


def size_of(store: StoreReader) -> int:
    """Returns how many bytes the values have as msgpack; every entry is looked at."""
    with store.opened() as view:
        return sum(decode_entry(data).size for _, data in view.iterate())


def _iterate(
    view: View,
    namespace: str | None,
    prefix: str | None = None,
    *,
    after: Pair | None = None,
    reverse: bool = False,
    most: int | None = None,
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the entries of a namespace, or of all, by the beginning of keys.

    In reverse, `most` are asked for at once.
    """
    start, stop = _EVERYTHING
    if namespace is not None:
        start, stop = range_of(namespace_start(namespace), prefix)
    if after is not None:
        behind = to_store_key(*after)
        start, stop = (start, min(stop, behind)) if reverse else (max(start, behind + b"\0"), stop)
    if start >= stop:
        return iter(())
    if reverse:
        found = view.iterate_down(start, stop, most=min(most or FIRST_PAGE, LAST_PAGE))
    else:
        found = view.iterate(start, stop)
    if namespace is not None or not prefix:
        return found
    return (each for each in found if from_store_key(each[0])[1].startswith(prefix))


def _names(view: View) -> Iterator[str]:
    at = b""
    while (found := next(view.iterate(at), None)) is not None:
        name, _ = from_store_key(found[0])
        yield name
        _, at = range_of(namespace_start(name), None)
