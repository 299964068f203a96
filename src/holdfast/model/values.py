"""Values of the store as JSON, and back: exactly, also where JSON has no word for them.

Bytes are `{"$bytes": base64}`, instants `{"$time": ISO-8601}`. A mapping whose keys are not all
text, or that looks like one of these, is `{"$msgpack": base64}` of the whole, and so is a number
that is none, or has no end.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from holdfast.model.marks import Shape
from holdfast.store.core import encode


class StoreKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a value is."""

    namespace: str
    key: str


ABSENT: Final = "absent"
"""What is expected of a value or file that shall not be there; no tag reads so."""


class GivenValue(StoreKey, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that somebody sends."""

    value: Any


class StoreValue(
    StoreKey, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=False
):
    """A value. What JSON does not know comes as an object with a name that begins with `$`."""

    value: Any
    data: bytes | None = None
    """It as msgpack, where that was asked for; then `value` is None."""
    tag: str | None = None
    """A name for its bytes, where one value was asked for: another value has another."""

    @classmethod
    def wire_shape(cls) -> Shape:
        """Returns how it is sent: as it is, but for what JSON does not know."""
        return Shape(
            cls,
            lambda known: replace(known, value=to_json(known.value)),
            lambda sent: replace(sent, value=from_json(sent.value)),
        )


class StoreData(StoreKey, frozen=True, kw_only=True):
    """A value to put as msgpack, in base64; null deletes what is there."""

    data: bytes | None


class StoreExpectation(StoreKey, frozen=True, kw_only=True):
    """What has to be under a key: what has this tag, or with `absent` nothing."""

    expected: str


class StoreItems(msgspec.Struct, frozen=True, kw_only=True):
    """Values by namespace and key; with `has_more`, more follows the last of them."""

    items: list[StoreValue]
    has_more: bool


class StoreCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many values there are."""

    count: int
    size_bytes: int | None
    """How much they take as msgpack, if that was asked for."""


class BatchDone(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch did: how many were put and deleted, and the values in the order asked for."""

    set: int
    deleted: int
    values: list[StoreValue | None]


Check = Callable[[bytes], None]

BYTES: Final = "$bytes"
TIME: Final = "$time"
PACKED: Final = "$msgpack"
_MARKS: Final = (BYTES, TIME, PACKED)


def to_json(value: object) -> Any:  # noqa: ANN401 - any JSON
    """Returns a value of the store as JSON can hold it."""
    match value:
        case bytes() | bytearray():
            return {BYTES: b64encode(value).decode("ascii")}
        case datetime():
            return {TIME: _shown(value)}
        case float() if not isfinite(value):
            return _packed(value)
        case list() | tuple():
            return [to_json(part) for part in cast("list[object]", value)]
        case Mapping():
            known = cast("Mapping[object, object]", value)
            plain = {key: to_json(part) for key, part in known.items()}
            return plain if _is_plain(known) else _packed(dict(known))
        case _:
            return value


def to_sendable(value: object) -> Any:  # noqa: ANN401 - any JSON
    """Returns a value that somebody puts, as JSON can hold it; raises `Unencodable`.

    What msgpack makes of it is sent, so that what comes back is what any other store would return.
    """
    return to_json(msgspec.msgpack.decode(encode(value)))


def from_json(value: object, *, check: Check | None = None) -> Any:  # noqa: ANN401 - any value of the store
    """Returns the value that `to_json` has made this of; raises `ValueError` for what is none.

    What is msgpack is shown to `check` before anything is made of it.
    """
    if isinstance(value, list):
        return [from_json(part, check=check) for part in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    known = cast("dict[str, object]", value)
    match list(known.items()):
        case [("$bytes", str(text))]:
            return b64decode(text, validate=True)
        case [("$time", str(text))]:
            return _instant(text)
        case [("$msgpack", str(text))]:
            return _unpacked(text, check)
        case _:
            return {key: from_json(part, check=check) for key, part in known.items()}


def _is_plain(known: Mapping[object, object]) -> bool:
    if len(known) == 1 and next(iter(known)) in _MARKS:
        return False
    return all(isinstance(key, str) for key in known)


def _packed(value: object) -> dict[str, str]:
    return {PACKED: b64encode(msgspec.msgpack.encode(value)).decode("ascii")}


def _unpacked(text: str, check: Check | None) -> Any:  # noqa: ANN401 - any value of the store
    data = b64decode(text, validate=True)
    if check is not None:
        check(data)
    try:
        return msgspec.msgpack.decode(data, strict=True)
    except (msgspec.DecodeError, RecursionError) as exc:
        message = f"what follows {PACKED} is not msgpack"
        raise ValueError(message) from exc


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError as exc:
        message = f"what follows {TIME} is not an instant"
        raise ValueError(message) from exc


def _shown(instant: datetime) -> str:
    whole = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return whole.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
