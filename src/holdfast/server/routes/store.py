"""The store of a namespace: values under keys, any JSON.

Values that were put in process and that JSON does not know come as an object with one
name: `{"$bytes": "…base64…"}`, `{"$time": "…"}`, `{"$msgpack": "…base64…"}`; given back like that,
they are stored as such.
"""

from typing import Any, Final, cast

from holdfast.engine.core.wellformed import walk
from holdfast.engine.namespace import Moment, Namespace
from holdfast.engine.store.plane import Store
from holdfast.engine.store.reader import items_page, size_of
from holdfast.errors import NotFound, UnsafeArchive
from holdfast.model.values import GivenValue, StoreCount, StoreItems, StoreValue, from_json
from holdfast.operations.store import (
    AppendValues,
    BatchValues,
    CountValues,
    GetValue,
    ListStoreItems,
    SetValue,
)
from holdfast.server.counting import MOST_VALUES
from holdfast.server.dialects import Answered, Dialect, Exchange, Speech
from holdfast.server.doors import answers, routes_of
from holdfast.server.paging import page_size
from holdfast.server.problems import Unfit
from holdfast.server.routing import Route
from holdfast.store.core import encode

MOST_OF_BATCH: Final = 10_000


class ValueNotFound(NotFound):
    """There is no value for this key."""

    code = "value_not_found"
    hint = "List the keys of the store."


def _check_batch(exchange: Exchange) -> None:
    changes = [exchange.said.get(name) for name in ("set", "put", "delete", "expected")]
    _check_parts(*changes, exchange.said.get("get"))
    if isinstance(exchange.agent, Moment) and any(changes):
        raise Unfit(
            "a snapshot is read and never changed: leave out at, or all but get", param="at"
        )


def _check_appended(exchange: Exchange) -> None:
    _check_parts(exchange.said.get("values"))


def _check_parts(*said: object) -> None:
    # As it came: what is no list is refused when it is read.
    if sum(len(cast("list[Any]", each)) for each in said if isinstance(each, list)) > MOST_OF_BATCH:
        message = f"a batch has {MOST_OF_BATCH} parts at the most"
        raise Unfit(message)


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


def _read_values(sent: list[GivenValue] | None) -> list[tuple[str, str, Any]]:
    return [(each.namespace, each.key, _read_value(each.value)) for each in sent or ()]


def _read_all(sent: list[Any]) -> list[Any]:
    return [_read_value(value) for value in sent]


_CAREFUL: Final = Dialect(
    operations={
        SetValue: [
            Speech(
                reads={"value": _read_value},
                tells={"value": Answered(Any, lambda exchange: exchange.said["value"])},
            )
        ],
        BatchValues: [Speech(hears=_check_batch, reads={"set": _read_values})],
        AppendValues: [Speech(hears=_check_appended, reads={"values": _read_all})],
    }
)
"""What a value may hold that somebody sends, and what a server says of it then: as it came."""


@answers(GetValue)
def read(agent: Namespace, asked: GetValue) -> StoreValue:
    """Returns the value for a key."""
    store = agent.store.raw if asked.raw else agent.store
    found = store.find(asked.namespace, asked.key)
    if found is None:
        raise ValueNotFound("there is no value for this key")
    return found


@answers(ListStoreItems)
def items(agent: Namespace, asked: ListStoreItems) -> StoreItems:
    """Returns a part of the values."""
    where = asked.namespace if asked.after_namespace is None else asked.after_namespace
    if asked.after is not None and where is None:
        raise Unfit("say whose key that is", param="starting_after_namespace")
    return items_page(
        agent.store,
        asked.namespace,
        asked.prefix,
        after=None if asked.after is None or where is None else (where, asked.after),
        most=page_size(asked),
        reverse=asked.reverse,
        is_raw=asked.raw,
    )


@answers(CountValues)
def count(agent: Namespace, asked: CountValues) -> StoreCount:
    """Returns how many values there are, and what they take."""
    store = agent.store
    return StoreCount(count=len(store), size_bytes=size_of(store) if asked.sizes else None)


ROUTES: Final[list[Route]] = [
    *routes_of(Store, lambda agent: agent.store, dialect=_CAREFUL),
    read,
    items,
    count,
]
