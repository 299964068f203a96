"""The store of a namespace: values under keys, any JSON.

Namespaces inside the store and keys are any text, so they come as parameters and not as parts of
a path. Values that were put in process and that JSON does not know come as an object with one
name: `{"$bytes": "…base64…"}`, `{"$time": "…"}`; given back like that, they are stored as such.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from litestar.handlers import HTTPRouteHandler

from holdfast.engine.namespace import Namespace
from holdfast.errors import NotFound
from holdfast.server.callers import runtime_only
from holdfast.server.paging import page_size, paged
from holdfast.server.problems import Unfit
from holdfast.server.routing import delete, get, post, put
from holdfast.server.times import shown
from holdfast.wire.store import (
    BatchAnswer,
    BatchRequest,
    DeletedValueAnswer,
    KeysAnswer,
    StoreNamespacesAnswer,
    ValueAnswer,
    ValueRequest,
)

LISTED, MOST_LISTED = 1000, 10_000
MOST_OF_BATCH: Final = 10_000
_VALUE: Final = "/v1/store/value"
_MISSING: Final = object()


class ValueNotFound(NotFound):
    """There is no value for this key."""

    code = "value_not_found"
    hint = "List the keys of the store."


@put(_VALUE, guards=[runtime_only])
def set_(agent: Namespace, data: ValueRequest) -> ValueAnswer:
    """Puts a value under a key."""
    agent.store.set(data.namespace, data.key, _read_value(data.value))
    return ValueAnswer(namespace=data.namespace, key=data.key, value=data.value)


@get(_VALUE, guards=[runtime_only])
def read(agent: Namespace, namespace: str, key: str) -> ValueAnswer:
    """Returns the value for a key."""
    value = agent.store.get(namespace, key, _MISSING)
    if value is _MISSING:
        raise ValueNotFound("there is no value for this key")
    return ValueAnswer(namespace=namespace, key=key, value=to_json(value))


@delete(_VALUE, guards=[runtime_only])
def remove(agent: Namespace, namespace: str, key: str) -> DeletedValueAnswer:
    """Deletes a key; says whether it was there."""
    return DeletedValueAnswer(deleted=agent.store.delete(namespace, key))


@get("/v1/store/keys", guards=[runtime_only])
def keys(
    agent: Namespace,
    namespace: str,
    prefix: str | None = None,
    limit: int | None = None,
    starting_after: str | None = None,
) -> KeysAnswer:
    """Lists keys in order; `starting_after` is the last one seen."""

    def fetch(most: int) -> list[str]:
        return agent.store.keys(namespace, prefix, after=starting_after, limit=most)

    page, has_more = paged(fetch, page_size(limit, usual=LISTED, most=MOST_LISTED))
    return KeysAnswer(namespace=namespace, keys=page, has_more=has_more)


@get("/v1/store/namespaces", guards=[runtime_only])
def namespaces(agent: Namespace, prefix: str | None = None) -> StoreNamespacesAnswer:
    """Lists the namespaces inside the store that hold something."""
    return StoreNamespacesAnswer(namespaces=agent.store.namespaces(prefix))


@post("/v1/store/batch", guards=[runtime_only])
def batch(agent: Namespace, data: BatchRequest) -> BatchAnswer:
    """Puts values, all or none of them; then deletes, all or none; then reads."""
    if sum(len(part or ()) for part in (data.set, data.get, data.delete)) > MOST_OF_BATCH:
        message = f"a batch has {MOST_OF_BATCH} parts at the most"
        raise Unfit(message)
    if data.set:
        agent.store.set_many((v.namespace, v.key, _read_value(v.value)) for v in data.set)
    gone = agent.store.delete_many((each.namespace, each.key) for each in data.delete or ())
    return BatchAnswer(set=len(data.set or ()), deleted=gone, values=_read_many(agent, data))


def _read_many(agent: Namespace, data: BatchRequest) -> list[ValueAnswer | None]:
    wanted = [(each.namespace, each.key) for each in data.get or ()]
    found = zip(wanted, agent.store.get_many(wanted), strict=True)
    return [
        # A value may be null: then there is one.
        ValueAnswer(namespace=namespace, key=key, value=to_json(value))
        if value is not None or agent.store.contains(namespace, key)
        else None
        for (namespace, key), value in found
    ]


def _read_value(value: object) -> Any:  # noqa: ANN401 - any value of the store
    try:
        return from_json(value)
    except RecursionError as exc:
        raise Unfit("the value is nested too deeply", param="value") from exc


def to_json(value: object) -> Any:  # noqa: ANN401 - any JSON
    """Returns a value of the store as JSON can hold it."""
    match value:
        case bytes():
            return {"$bytes": b64encode(value).decode("ascii")}
        case datetime():
            return {"$time": shown(value)}
        case list() | tuple():
            return [to_json(part) for part in cast("list[object]", value)]
        case Mapping():
            known = cast("Mapping[object, object]", value)
            return {_name(key): to_json(part) for key, part in known.items()}
        case _:
            return value


def from_json(value: object) -> Any:  # noqa: ANN401 - any value of the store
    """Returns the value that `to_json` has made this of."""
    if isinstance(value, list):
        return [from_json(part) for part in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    known = cast("dict[str, object]", value)
    match list(known.items()):
        case [("$bytes", str(text))]:
            return _read_bytes(text)
        case [("$time", str(text))]:
            return _read_time(text)
        case _:
            return {key: from_json(part) for key, part in known.items()}


def _read_bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as exc:
        raise Unfit("what follows $bytes is not base64", param="value") from exc


def _read_time(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise Unfit("what follows $time is not an instant", param="value") from exc


def _name(key: object) -> str:
    return key if isinstance(key, str) else str(key)


ROUTES: Final[list[HTTPRouteHandler]] = [set_, read, remove, keys, namespaces, batch]
