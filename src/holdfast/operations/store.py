"""The store: values under keys, and keys under namespaces.

Both are any text, so they come as parameters and not as parts of a path. Values come and go
several at a time, too: all that a batch does is one request.
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import Annotated, Any, Final

from holdfast.model.marks import Named, Shape
from holdfast.model.values import (
    BatchDone,
    StoreCount,
    StoreItems,
    StoreKey,
    StoreValue,
    from_json,
    to_sendable,
)
from holdfast.operations.operation import Arguments, Operation, Paged

PARTS: Final = Paged(cursor="after", last=None, usual=1000, most=10_000)
"""How keys are listed, and values."""


class ListStoreKeys(
    Operation[list[str]],
    get="/v1/store/keys",
    under="keys",
    repeats=("namespace",),
    paged=PARTS,
    of_moments=True,
):
    """Returns the keys of a namespace in order; with a prefix, those that begin with it.

    At most `limit` of them, and only those that come `after` a key.
    """

    namespace: str
    prefix: str | None = None
    _: KW_ONLY
    after: Annotated[str | None, Named("starting_after")] = None
    limit: int | None = None


class FindMaxKey(
    Operation[str | None],
    get="/v1/store/max_key",
    under="key",
    repeats=("namespace",),
    of_moments=True,
):
    """Returns the greatest key of a namespace, or None."""

    namespace: str


class ListStoreNamespaces(
    Operation[list[str]], get="/v1/store/namespaces", under="namespaces", of_moments=True
):
    """Returns the namespaces that hold something, in order."""

    prefix: str | None = None


class ListStoreItems(Operation[StoreItems], get="/v1/store/items", of_moments=True):
    """Lists values in the order of their keys; without `namespace`, of all namespaces.

    `starting_after` is the last key seen; without `namespace`, `starting_after_namespace` says
    whose. A page ends at 8 MiB of values, too.
    """

    namespace: str | None = None
    prefix: str | None = None
    _: KW_ONLY
    limit: int | None = None
    after: Annotated[str | None, Named("starting_after")] = None
    after_namespace: Annotated[str | None, Named("starting_after_namespace")] = None


class CountValues(Operation[StoreCount], get="/v1/store/count", of_moments=True):
    """Returns how many values there are; with `sizes`, how many bytes they take."""

    sizes: bool = False


# One value


class GetValue(Operation[StoreValue], get="/v1/store/value", of_moments=True):
    """Returns the value for a key."""

    namespace: str
    key: str


class SetValue(Operation[None], put="/v1/store/value", repeats=("namespace", "key")):
    """Puts a value under a key."""

    namespace: str
    key: str
    value: Annotated[Any, Shape(Any, to_sendable, from_json)]


class DeleteValue(Operation[bool], delete="/v1/store/value", under="deleted"):
    """Deletes a key; says whether it was there."""

    namespace: str
    key: str


class ClearStore(Operation[None], post="/v1/store/clear", done="cleared"):
    """Deletes every key of every namespace; snapshots stay."""


# Many of them


def _sent_values(items: Iterable[tuple[str, str, Any]]) -> list[StoreValue]:
    return [StoreValue(namespace=n, key=k, value=to_sendable(value)) for n, k, value in items]


def _sent_keys(pairs: Iterable[tuple[str, str]]) -> list[StoreKey]:
    return [StoreKey(namespace=namespace, key=key) for namespace, key in pairs]


def _read_values(sent: list[StoreValue]) -> list[tuple[str, str, Any]]:
    return [(each.namespace, each.key, from_json(each.value)) for each in sent]


def _read_keys(sent: list[StoreKey]) -> list[tuple[str, str]]:
    return [(each.namespace, each.key) for each in sent]


Items = Annotated[
    Iterable[tuple[str, str, Any]], Shape(list[StoreValue], _sent_values, _read_values)
]
Pairs = Annotated[Iterable[tuple[str, str]], Shape(list[StoreKey], _sent_keys, _read_keys)]


class BatchValues(Operation[BatchDone], post="/v1/store/batch", of_moments=True):
    """Puts values, all or none of them; then deletes, all or none; then reads."""

    set: Items | None = None
    get: Pairs | None = None
    delete: Pairs | None = None


class SetValues(Arguments):
    """Values to put, each with its namespace and key."""

    items: Items


class DeleteValues(Arguments):
    """Keys to delete, each with its namespace."""

    pairs: Pairs
