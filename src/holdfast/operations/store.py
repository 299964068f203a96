"""The store: values under keys, and keys under namespaces.

Both are any text, so they come as parameters and not as parts of a path. Values come and go
several at a time, too: all that a batch does is one request.
"""

from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import Annotated, Any, Final

from holdfast.errors import InvalidValue
from holdfast.model.marks import Named, Shape
from holdfast.model.values import (
    BatchDone,
    GivenValue,
    StoreCount,
    StoreData,
    StoreExpectation,
    StoreItems,
    StoreKey,
    StoreValue,
    from_json,
    to_sendable,
)
from holdfast.operations.choices import Tag
from holdfast.operations.operation import Arguments, Operation, Paged

PARTS: Final = Paged(cursor="after", last=None, usual=1000, most=10_000, has_empty=True)
"""How keys are listed, and values. A key may be empty."""

Pair = tuple[str, str]
"""A namespace and a key of the store."""


class ListStoreKeys(
    Operation[list[str]],
    get="/v1/store/keys",
    under="keys",
    repeats=("namespace",),
    paged=PARTS,
    of_moments=True,
):
    """Returns the keys of a namespace in order; with a prefix, those that begin with it.

    At most `limit` of them, and only those that come `after` a key. In `reverse`, the greatest
    comes first, and `after` a key come those below it.
    """

    namespace: str
    prefix: str | None = None
    _: KW_ONLY
    after: Annotated[str | None, Named("starting_after")] = None
    limit: int | None = None
    reverse: bool = False


class FindMaxKey(
    Operation[str | None],
    get="/v1/store/max_key",
    under="key",
    repeats=("namespace",),
    of_moments=True,
):
    """Returns the greatest key of a namespace, or None; with a prefix, of those that begin so."""

    namespace: str
    prefix: str | None = None


class ListStoreNamespaces(
    Operation[list[str]], get="/v1/store/namespaces", under="namespaces", of_moments=True
):
    """Returns the namespaces that hold something, in order."""

    prefix: str | None = None


class ListStoreItems(Operation[StoreItems], get="/v1/store/items", part=PARTS, of_moments=True):
    """Lists values in the order of their keys; without `namespace`, of all namespaces.

    `starting_after` is the last key seen; without `namespace`, `starting_after_namespace` says
    whose. In `reverse`, the greatest key comes first. With `raw`, `data` has each as msgpack. A
    page ends at 8 MiB of values, too.
    """

    namespace: str | None = None
    prefix: str | None = None
    _: KW_ONLY
    limit: int | None = None
    after: Annotated[str | None, Named("starting_after")] = None
    after_namespace: Annotated[str | None, Named("starting_after_namespace")] = None
    reverse: bool = False
    raw: bool = False


def to_cursor(namespace: str | None, after: str | Pair | None) -> Pair | None:
    """Returns behind which pair a list goes on; raises `InvalidValue` for what is none."""
    match after:
        case None:
            return None
        case str() if namespace is not None:
            return namespace, after
        case (str(whose), str(key)) if namespace is None:
            return whose, key
        case _:
            raise InvalidValue("after is a key, or without a namespace a pair of one and a key")


class CountValues(Operation[StoreCount], get="/v1/store/count", of_moments=True):
    """Returns how many values there are; with `sizes`, how many bytes they take."""

    sizes: bool = False


# One value


class GetValue(Operation[StoreValue], get="/v1/store/value", of_moments=True):
    """Returns the value for a key, and its tag; with `raw`, `data` has it as msgpack."""

    namespace: str
    key: str
    _: KW_ONLY
    raw: bool = False


class SetValue(Operation[None], put="/v1/store/value", repeats=("namespace", "key")):
    """Puts a value under a key; with `expected`, only while what is there has that tag.

    `absent` is expected of a key that has no value yet. Else raises `NotAsExpected`.
    """

    namespace: str
    key: str
    value: Annotated[Any, Shape(Any, to_sendable, from_json)]
    _: KW_ONLY
    expected: Tag | None = None


class DeleteValue(Operation[bool], delete="/v1/store/value", under="deleted"):
    """Deletes a key; says whether it was there."""

    namespace: str
    key: str


class ClearStore(Operation[None], post="/v1/store/clear", done="cleared"):
    """Deletes every key of every namespace; snapshots stay."""


class DeletePrefix(Operation[int], post="/v1/store/delete_prefix", under="deleted"):
    """Deletes the keys of a namespace, or with a prefix those that begin with it; returns how many.

    All or none of them.
    """

    namespace: str
    prefix: str | None = None


# Values under numbers


def _send_all(values: Iterable[Any]) -> list[Any]:
    return [to_sendable(value) for value in values]


def _read_all(sent: list[Any]) -> list[Any]:
    return [from_json(value) for value in sent]


class AppendValues(Operation[list[str]], post="/v1/store/append", under="keys"):
    """Puts values behind the last one, all or none of them; returns the keys that they get.

    These are numbers of 16 digits behind a prefix, one above the other: of all who append at the
    same time, no two get the same.
    """

    namespace: str
    values: Annotated[Iterable[Any], Shape(list[Any], _send_all, _read_all)]
    _: KW_ONLY
    prefix: str = ""


class PopValue(Operation[StoreValue | None], post="/v1/store/pop", under="popped"):
    """Takes the value out that has the greatest key, or with a prefix of those that begin so.

    Returns it with its key; None if there is none.
    """

    namespace: str
    _: KW_ONLY
    prefix: str = ""


# Many of them


def _sent_values(items: Iterable[tuple[str, str, Any]]) -> list[GivenValue]:
    return [GivenValue(namespace=n, key=k, value=to_sendable(value)) for n, k, value in items]


def _sent_keys(pairs: Iterable[Pair]) -> list[StoreKey]:
    return [StoreKey(namespace=namespace, key=key) for namespace, key in pairs]


def _read_values(sent: list[GivenValue]) -> list[tuple[str, str, Any]]:
    return [(each.namespace, each.key, from_json(each.value)) for each in sent]


def _read_keys(sent: list[StoreKey]) -> list[Pair]:
    return [(each.namespace, each.key) for each in sent]


def _sent_data(items: Iterable[tuple[str, str, bytes | None]]) -> list[StoreData]:
    return [StoreData(namespace=n, key=k, data=data) for n, k, data in items]


def _read_data(sent: list[StoreData]) -> list[tuple[str, str, bytes | None]]:
    return [(each.namespace, each.key, each.data) for each in sent]


def _sent_expected(expected: Iterable[tuple[str, str, str]]) -> list[StoreExpectation]:
    return [StoreExpectation(namespace=n, key=k, expected=tag) for n, k, tag in expected]


def _read_expected(sent: list[StoreExpectation]) -> list[tuple[str, str, str]]:
    return [(each.namespace, each.key, each.expected) for each in sent]


Items = Annotated[
    Iterable[tuple[str, str, Any]], Shape(list[GivenValue], _sent_values, _read_values)
]
Pairs = Annotated[Iterable[Pair], Shape(list[StoreKey], _sent_keys, _read_keys)]
Packed = Annotated[
    Iterable[tuple[str, str, bytes | None]], Shape(list[StoreData], _sent_data, _read_data)
]
"""Values as msgpack, each behind its namespace and key; None deletes what is there."""
Expectations = Annotated[
    Iterable[tuple[str, str, str]],
    Shape(list[StoreExpectation], _sent_expected, _read_expected),
]
"""Behind a namespace and key, the tag of what has to be there, or `absent`."""


class BatchValues(Operation[BatchDone], post="/v1/store/batch", of_moments=True):
    """Puts and deletes values, all or none of it; then reads.

    Nothing of it unless all that is `expected` is so: else raises `NotAsExpected`. `put` has values
    as msgpack, and with `raw` those that are read are told so, too. With `keep`, a value that is
    there stays as it is.
    """

    set: Items | None = None
    get: Pairs | None = None
    delete: Pairs | None = None
    put: Packed | None = None
    expected: Expectations | None = None
    keep: bool = False
    raw: bool = False


class Writing(Arguments):
    """What else is done in the same transaction, and what has to be so."""

    _: KW_ONLY
    delete: Pairs = ()
    expected: Expectations = ()
    keep: bool = False


class SetValues(Writing):
    """Values to put, each with its namespace and key."""

    items: Items


class PutValue(Arguments):
    """A value to put, as msgpack."""

    namespace: str
    key: str
    data: bytes
    _: KW_ONLY
    expected: Tag | None = None


class PutValues(Writing):
    """Values to put as msgpack, each with its namespace and key; None deletes."""

    items: Packed


class ManyKeys(Arguments):
    """Keys, each with its namespace."""

    pairs: Pairs
