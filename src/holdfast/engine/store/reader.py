"""The store plane, to read: any moment of a namespace, its head or a snapshot.

Method names and answers are those of the in-process store. Values are msgpack inside, so what
is returned is never what was put: the caller may change either.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, overload

from holdfast.display import Part
from holdfast.engine.core.limits import check_answer, check_limit
from holdfast.engine.files.reader import Opened
from holdfast.engine.planes.storevalues import value_of
from holdfast.engine.planes.view import View
from holdfast.entries import decode_entry
from holdfast.model.values import StoreItems, StoreValue
from holdfast.operations.operation import does
from holdfast.operations.store import FindMaxKey, ListStoreKeys, ListStoreNamespaces
from holdfast.storekeys import (
    encode_text,
    from_store_key,
    namespace_start,
    namespace_stop,
    to_store_key,
)
from holdfast.tree import prefix_stop

PAGE_BYTES: Final = 8 << 20
"""Once the values of a page have so many bytes, it ends."""


class StoreReader(Part):
    """The store at one moment, to read."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened

    def get(self, namespace: str, key: str, default: Any = None) -> Any:
        """Returns the value for a key, or the default."""
        wanted = to_store_key(namespace, key)
        with self.opened() as view:
            data = view.get(wanted)
            return default if data is None else value_of(view.objects, wanted, data)

    def get_many(self, pairs: Iterable[tuple[str, str]]) -> list[Any]:
        """Returns the values in the order asked for; None for what is missing."""
        wanted = [to_store_key(namespace, key) for namespace, key in pairs]
        with self.opened() as view:
            found, objects = view.get_many(list(set(wanted))), view.objects
            sizes = {key: decode_entry(data).size for key, data in found.items()}
            check_answer(objects.limits, (sizes.get(key, 0) for key in wanted))
            return [value_of(objects, key, found[key]) if key in found else None for key in wanted]

    def contains(self, namespace: str, key: str) -> bool:
        """Says whether there is a value for a key."""
        wanted = to_store_key(namespace, key)
        with self.opened() as view:
            return view.get(wanted) is not None

    @does(ListStoreKeys)
    def keys(self, wanted: ListStoreKeys) -> list[str]:
        check_limit(wanted.limit)
        start = namespace_start(wanted.namespace)
        with self.opened() as view:
            found = _iterate(view, start, wanted.prefix, after=wanted.after)
            return [key[len(start) :].decode() for key, _ in islice(found, wanted.limit)]

    @overload
    def items(self, namespace: str, prefix: str | None = None) -> list[tuple[str, Any]]: ...
    @overload
    def items(
        self, namespace: None = None, prefix: str | None = None
    ) -> list[tuple[tuple[str, str], Any]]: ...
    def items(self, namespace: str | None = None, prefix: str | None = None) -> list[Any]:
        """Returns keys and values of a namespace in the order of the keys.

        Without a namespace, all pairs of namespace and key with their values.
        """
        with self.opened() as view:
            objects = view.objects
            if namespace is not None:
                start = namespace_start(namespace)
                found = _iterate(view, start, prefix)
                return [
                    (key[len(start) :].decode(), value_of(objects, key, data))
                    for key, data in found
                ]
            beginning, every = prefix or "", view.iterate()
            pairs = ((from_store_key(key), key, data) for key, data in every)
            return [
                (pair, value_of(objects, key, data))
                for pair, key, data in pairs
                if pair[1].startswith(beginning)
            ]

    @does(FindMaxKey)
    def max_key(self, wanted: FindMaxKey) -> str | None:
        start = namespace_start(wanted.namespace)
        with self.opened() as view:
            found = view.last(start, namespace_stop(start))
            return None if found is None else found[0][len(start) :].decode()

    @does(ListStoreNamespaces)
    def namespaces(self, wanted: ListStoreNamespaces) -> list[str]:
        with self.opened() as view:
            return [name for name in _names(view) if name.startswith(wanted.prefix or "")]

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
            return next(_iterate(view, namespace_start(namespace)), None) is not None


def items_page(
    store: StoreReader,
    namespace: str | None,
    prefix: str | None = None,
    *,
    after: tuple[str, str] | None = None,
    most: int,
) -> StoreItems:
    """Returns values by namespace and key: those that come `after` one.

    Of all namespaces, if none is named. A page holds `most` values at the most, and ends where
    they become too many bytes.
    """
    page: list[StoreValue] = []
    with store.opened() as view:
        size = 0
        for key, data in _entries(view, namespace, prefix, after):
            if len(page) >= most or size >= PAGE_BYTES:
                return StoreItems(items=page, has_more=True)
            size += decode_entry(data).size
            whose, name = from_store_key(key)
            value = value_of(view.objects, key, data)
            page.append(StoreValue(namespace=whose, key=name, value=value))
    return StoreItems(items=page, has_more=False)


def size_of(store: StoreReader) -> int:
    """Returns how many bytes the values have as msgpack; every entry is looked at."""
    with store.opened() as view:
        return sum(decode_entry(data).size for _, data in view.iterate())


def _entries(
    view: View, namespace: str | None, prefix: str | None, after: tuple[str, str] | None
) -> Iterator[tuple[bytes, bytes]]:
    start = b"" if after is None else to_store_key(*after) + b"\0"
    if namespace is None:
        for key, data in view.iterate(start):
            if from_store_key(key)[1].startswith(prefix or ""):
                yield key, data
        return
    own = namespace_start(namespace)
    beginning = own + encode_text(prefix or "")
    stop = prefix_stop(beginning) if prefix else namespace_stop(own)
    if stop is None or start < stop:
        yield from view.iterate(max(start, beginning), stop)


def _iterate(
    view: View, start: bytes, prefix: str | None = None, *, after: str | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """Yields the entries of the namespace that `start` stands for, by the beginning of keys."""
    beginning = start + encode_text(prefix or "")
    stop = prefix_stop(beginning) if prefix else namespace_stop(start)
    if after is not None:
        beginning = max(beginning, start + encode_text(after) + b"\0")
    return view.iterate(beginning, stop)


def _names(view: View) -> Iterator[str]:
    at = b""
    while (found := next(view.iterate(at), None)) is not None:
        name, _ = from_store_key(found[0])
        yield name
        at = namespace_stop(namespace_start(name))
