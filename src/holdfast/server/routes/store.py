"""The store of a namespace: values under keys, any JSON.

Namespaces inside the store and keys are any text, so they come as parameters and not as parts of
a path. Values that were put in process and that JSON does not know come as an object with one
name: `{"$bytes": "…base64…"}`, `{"$time": "…"}`, `{"$msgpack": "…base64…"}`; given back like that,
they are stored as such.
"""

from typing import Any, Final

from holdfast.engine.core.wellformed import walk
from holdfast.engine.namespace import Namespace
from holdfast.engine.store.plane import Store
from holdfast.engine.store.reader import StoreReader, items_page, size_of
from holdfast.errors import NotFound, UnsafeArchive
from holdfast.operations.store import PARTS
from holdfast.server import doors
from holdfast.server.counting import MOST_VALUES
from holdfast.server.doors import At, seen
from holdfast.server.paging import page_size
from holdfast.server.problems import Unfit
from holdfast.server.routing import Route, get, post, put
from holdfast.store.core import encode
from holdfast.wire.store import (
    BatchAnswer,
    BatchRequest,
    CountAnswer,
    ItemsAnswer,
    ValueAnswer,
    ValueRequest,
    from_json,
    to_json,
)

MOST_OF_BATCH: Final = 10_000
_VALUE: Final = "/v1/store/value"
_MISSING: Final = object()


class ValueNotFound(NotFound):
    """There is no value for this key."""

    code = "value_not_found"
    hint = "List the keys of the store."


@put(_VALUE)
def set_(agent: Namespace, data: ValueRequest) -> ValueAnswer:
    """Puts a value under a key."""
    agent.store.set(data.namespace, data.key, _read_value(data.value))
    return ValueAnswer(namespace=data.namespace, key=data.key, value=data.value)


@get(_VALUE)
def read(agent: Namespace, namespace: str, key: str, at: At = None) -> ValueAnswer:
    """Returns the value for a key."""
    value = seen(agent, at).store.get(namespace, key, _MISSING)
    if value is _MISSING:
        raise ValueNotFound("there is no value for this key")
    return ValueAnswer(namespace=namespace, key=key, value=to_json(value))


@get("/v1/store/items")
def items(
    agent: Namespace,
    namespace: str | None = None,
    prefix: str | None = None,
    limit: int | None = None,
    starting_after: str | None = None,
    starting_after_namespace: str | None = None,
    at: At = None,
) -> ItemsAnswer:
    """Lists values in the order of their keys; without `namespace`, of all namespaces.

    `starting_after` is the last key seen; without `namespace`, `starting_after_namespace` says
    whose. A page ends at 8 MiB of values, too.
    """
    where = namespace if starting_after_namespace is None else starting_after_namespace
    if starting_after is not None and where is None:
        raise Unfit("say whose key that is", param="starting_after_namespace")
    found, has_more = items_page(
        seen(agent, at).store,
        namespace,
        prefix,
        after=None if starting_after is None or where is None else (where, starting_after),
        most=page_size(limit, usual=PARTS.usual, most=PARTS.most),
    )
    answers = [ValueAnswer(namespace=n, key=k, value=to_json(value)) for n, k, value in found]
    return ItemsAnswer(items=answers, has_more=has_more)


@get("/v1/store/count")
def count(agent: Namespace, sizes: bool = False, at: At = None) -> CountAnswer:
    """Returns how many values there are; with `sizes`, how many bytes they take."""
    store = seen(agent, at).store
    return CountAnswer(count=len(store), size_bytes=size_of(store) if sizes else None)


@post("/v1/store/batch")
def batch(agent: Namespace, data: BatchRequest, at: At = None) -> BatchAnswer:
    """Puts values, all or none of them; then deletes, all or none; then reads."""
    if sum(len(part or ()) for part in (data.set, data.get, data.delete)) > MOST_OF_BATCH:
        message = f"a batch has {MOST_OF_BATCH} parts at the most"
        raise Unfit(message)
    if at is not None and (data.set or data.delete):
        raise Unfit("a snapshot is read and never changed: leave out at, set or delete", param="at")
    gone = 0
    if data.set:
        agent.store.set_many([(v.namespace, v.key, _read_value(v.value)) for v in data.set])
    if data.delete:
        gone = agent.store.delete_many([(each.namespace, each.key) for each in data.delete])
    values = _read_many(seen(agent, at).store, data)
    return BatchAnswer(set=len(data.set or ()), deleted=gone, values=values)


def _read_many(store: StoreReader, data: BatchRequest) -> list[ValueAnswer | None]:
    wanted = [(each.namespace, each.key) for each in data.get or ()]
    found = zip(wanted, store.get_many(wanted), strict=True)
    return [
        # A value may be null: then there is one.
        ValueAnswer(namespace=namespace, key=key, value=to_json(value))
        if value is not None or store.contains(namespace, key)
        else None
        for (namespace, key), value in found
    ]


def _read_value(value: object) -> Any:  # noqa: ANN401 - any value of the store
    packed = _Packed()
    try:
        made = from_json(value, check=packed.check)
        if packed.values:
            # With what stands around it: the value as it is stored has to be readable, too.
            walk(encode(made), most=MOST_VALUES)
    except RecursionError as exc:
        raise Unfit("the value is nested too deeply", param="value") from exc
    except (UnsafeArchive, ValueError) as exc:
        raise Unfit("what follows $bytes, $time or $msgpack is none", param="value") from exc
    return made


class _Packed:
    """The msgpack of one value. As with JSON, nobody is answered while it is made."""

    def __init__(self) -> None:
        self.values = 0

    def check(self, data: bytes) -> None:
        """Raises for what is none, and `TooLarge` for what is too much with all before it."""
        self.values += walk(data, most=MOST_VALUES - self.values)


ROUTES: Final[list[Route]] = [
    *doors.routes_of(Store, lambda agent: agent.store),
    set_,
    read,
    items,
    count,
    batch,
]
