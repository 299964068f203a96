"""How values are written: a rule for each type, from which the structs on the wire are made.

Instants are text of one width, spans of time are seconds, names of objects are hexadecimal digits;
a value is an object with its fields. What a value has beyond its fields and shall be told, it lists
in `ON_WIRE`, by the name it has there: it is sent, and not read.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from holdfast.errors import InvalidValue
from holdfast.ids import ObjectId
from holdfast.instants import from_text, to_text
from holdfast.model.basics import SnapshotLike, id_of
from holdfast.model.marks import (
    AsBytes,
    Flat,
    Here,
    Inside,
    Instant,
    Named,
    Shape,
    Unsaid,
    While,
    mark,
)
from holdfast.model.names import from_b64, to_b64

Kind = Any
"""A type, with what stands beside it."""

ASKED: ContextVar[str | None] = ContextVar("asked", default=None)
"""The namespace that was asked: whoever writes an answer says it."""


@cache
def shape_of(kind: Kind) -> Shape:
    """Returns how values of a type are written."""
    if (marked := mark(kind, Shape)) is not None:
        return marked
    if get_origin(kind) is Annotated:
        return _annotated(kind)
    if kind in _RULES:
        return _RULES[kind]
    if hasattr(kind, "__supertype__"):
        return shape_of(kind.__supertype__)
    make = _GENERIC.get(get_origin(kind), _class)
    return make(kind)


def _annotated(kind: Kind) -> Shape:
    shape = shape_of(kind.__origin__)
    send, read = shape.send or _as_it_is, shape.read or _as_it_is
    bounds = [each for each in kind.__metadata__ if isinstance(each, msgspec.Meta)]
    wire: Any = Annotated[shape.wire, *bounds] if bounds else shape.wire
    if (told := mark(kind, While)) is not None:
        otherwise = told.otherwise
        return Shape(wire | None, shape.send, lambda x: otherwise if x is None else read(x))
    if mark(kind, Unsaid):
        return Shape(
            wire | msgspec.UnsetType,
            lambda x: msgspec.UNSET if x is None else send(x),
            lambda x: None if x is msgspec.UNSET else read(x),
        )
    return Shape(wire, _or_asked if mark(kind, Here) else shape.send, shape.read)


def _class(kind: Any) -> Shape:  # noqa: ANN401 - a class, or what only a type checker knows
    if hasattr(kind, "wire_shape"):
        return kind.wire_shape()
    if not inspect.isclass(kind):
        return Shape(kind)
    if (
        issubclass(kind, msgspec.Struct)
        or dataclasses.is_dataclass(kind)
        or _has_named_places(kind)
    ):
        return _value(cast("type", kind))
    if issubclass(kind, list) and kind is not list:
        plain = shape_of(cast("Any", kind).__orig_bases__[0])
        read = plain.read or _as_it_is
        return Shape(plain.wire, plain.send, lambda items: cast("Any", kind)(read(items)))
    return Shape(kind)


def given(kind: type[msgspec.Struct]) -> Shape:
    """Returns how a value is written of which a request may say a part: the rest has defaults."""
    shape = shape_of(kind)
    types = {each.name: each.type for each in msgspec.structs.fields(shape.wire)}
    asked = [(each.name, types[each.name], each.default) for each in msgspec.structs.fields(kind)]
    wire = msgspec.defstruct(
        f"Given{kind.__name__}",
        asked,
        namespace={"__doc__": kind.__doc__},
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return Shape(wire, shape.send, shape.read)


def raw_name(wire: str) -> str:
    """Returns what a field is called that says as bytes what another does as text."""
    return f"{wire}_b64"


def wire_name(name: str, kind: Kind) -> str:
    """Returns what a field is called on the wire."""
    if (named := mark(kind, Named)) is not None:
        return named.name
    return f"{name}_seconds" if _is_span(kind) else name


def _is_span(kind: Kind) -> bool:
    if get_origin(kind) in (Annotated, Union, UnionType):
        return any(map(_is_span, get_args(kind)))
    return kind is timedelta


def _union(kind: Kind) -> Shape:
    parts = [each for each in get_args(kind) if each is not NoneType]
    if len(parts) == len(get_args(kind)):
        return Shape(kind)
    shape = shape_of(cast("Any", parts[0] if len(parts) == 1 else Union[*parts]))
    return Shape(shape.wire | None, _if_any(shape.send), _if_any(shape.read))


def _if_any(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    return convert and (lambda value: None if value is None else convert(value))


def _sequence(kind: Kind) -> Shape:
    shape = shape_of(get_args(kind)[0])
    make = cast("Any", tuple if get_origin(kind) is tuple else list)
    send, read = shape.send or _as_it_is, shape.read or _as_it_is
    return Shape(
        list[shape.wire],
        lambda items: [send(each) for each in items],
        lambda items: make(map(read, items)),
    )


def _mapping(kind: Kind) -> Shape:
    name, value = map(shape_of, get_args(kind))
    send, read = value.send, value.read
    return Shape(
        dict[name.wire, value.wire],
        send and (lambda items: {key: send(each) for key, each in items.items()}),
        read and (lambda items: {key: read(each) for key, each in items.items()}),
    )


class _Field(NamedTuple):
    """A field of a value, or of one that lies flat in it, or what it tells beyond its fields."""

    wire: str
    path: str
    """Where it is, from the value on: `size.bytes`."""
    shape: Shape
    told_while: str | None = None
    """The field without which it is not told."""
    is_raw: bool = False
    """Whether it is what another is, as bytes: null where that is text."""


def _value(kind: type) -> Shape:
    told = [*_fields(kind)]
    wire = msgspec.defstruct(
        kind.__name__,
        [part for each in told for part in _wire_fields(each)],
        module=kind.__module__,
        namespace={"__doc__": kind.__doc__},
        kw_only=True,
    )
    get = attrgetter(*(each.path for each in told))
    names = [each.wire for each in told]
    converts = [(each.wire, each.shape.send) for each in told if each.shape.send is not None]
    withheld = [(each.wire, each.told_while) for each in told if each.told_while is not None]
    spread = [name for name in names if name.startswith(_SPREAD)]

    def send(value: object) -> msgspec.Struct:
        parts: dict[str, Any] = dict(
            zip(names, get(value) if len(names) > 1 else (get(value),), strict=True)
        )
        for name, convert in converts:
            parts[name] = convert(parts[name])
        for name, field in withheld:
            if not getattr(value, field):
                parts[name] = None
        for name in spread:
            parts |= msgspec.structs.asdict(parts.pop(name))
        return wire(**parts)

    return Shape(wire, send, _reader(kind))


_SPREAD: Final = "*"
"""Begins the name of a part that lies flat in a value, and has a shape of its own."""


def _wire_fields(field: _Field) -> list[tuple[Any, ...]]:
    if field.is_raw:
        return [(field.wire, field.shape.wire, None)]
    if not field.wire.startswith(_SPREAD):
        is_unsaid = msgspec.UnsetType in get_args(field.shape.wire)
        return [(field.wire, field.shape.wire, *([msgspec.UNSET] if is_unsaid else []))]
    return [(each.name, each.type) for each in msgspec.structs.fields(field.shape.wire)]


def _fields(kind: type, prefix: str = "") -> list[_Field]:
    hints, found = get_type_hints(kind, include_extras=True), list[_Field]()
    for name, encoded in _names(kind):
        hint = hints[name]
        if mark(hint, Flat) and hasattr(hint.__origin__, "wire_shape"):
            found.append(_Field(_SPREAD + name, prefix + name, shape_of(hint.__origin__)))
        elif mark(hint, Flat):
            found += _fields(hint.__origin__, f"{prefix}{name}.")
        elif not mark(hint, Inside):
            wire = encoded if encoded != name else wire_name(name, hint)
            told = mark(hint, While)
            field = None if told is None else told.field
            found.append(_Field(wire, prefix + name, shape_of(hint), field))
            if mark(hint, AsBytes):
                found.append(_Field(raw_name(wire), prefix + name, _RAW, is_raw=True))
    for wire, path in getattr(kind, "ON_WIRE", {}).items():
        returned = get_type_hints(getattr(kind, path).fget, include_extras=True)["return"]
        found.append(_Field(wire, prefix + path, shape_of(returned)))
    return found


def _names(kind: type) -> list[tuple[str, str]]:
    """Returns the names of a value's fields, and what they are called when it is encoded."""
    if issubclass(kind, msgspec.Struct):
        return list(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    if _has_named_places(kind):
        return [(name, name) for name in cast("Any", kind)._fields]
    return [(each.name, each.name) for each in dataclasses.fields(cast("Any", kind))]


def _has_named_places(kind: Any) -> bool:  # noqa: ANN401 - a class
    """Says whether it is a tuple whose places have names."""
    return issubclass(kind, tuple) and hasattr(cast("Any", kind), "_fields")


def _reader(kind: type) -> Callable[[Any], Any]:
    """Returns what makes a value of the struct that stands for it on the wire."""
    hints, reads = get_type_hints(kind, include_extras=True), list[tuple[str, Any, Any]]()
    outside, raws = dict[str, Any](), list[tuple[str, str]]()
    for name, encoded in _names(kind):
        hint = hints[name]
        if (inside := mark(hint, Inside)) is not None:
            outside[name] = inside.outside
        elif mark(hint, Flat):
            part = hint.__origin__
            is_shaped = hasattr(part, "wire_shape")
            reads.append((name, None, shape_of(part).read if is_shaped else _reader(part)))
        else:
            wire = encoded if encoded != name else wire_name(name, hint)
            reads.append((name, wire, shape_of(hint).read))
            if mark(hint, AsBytes):
                raws.append((name, raw_name(wire)))

    def read(sent: object) -> Any:  # noqa: ANN401 - a value of the kind
        parts = {**outside}
        for name, wire, convert in reads:
            part = sent if wire is None else getattr(sent, wire)
            parts[name] = part if convert is None else convert(part)
        for name, wire in raws:
            if (raw := getattr(sent, wire)) is not None:
                parts[name] = from_b64(raw)
        return kind(**parts)

    return read


def _as_it_is(value: Any) -> Any:  # noqa: ANN401 - any value
    return value


def _or_asked(name: str | None) -> str | None:
    return ASKED.get() if name is None else name


def _span(seconds: int) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except OverflowError as exc:
        message = f"{seconds} seconds are longer than anything lasts"
        raise InvalidValue(message) from exc


_RAW: Final = Shape(str | None, lambda text: None if text is None else to_b64(text))

_RULES: Final[dict[Any, Shape]] = {
    datetime: Shape(Instant, to_text, from_text),
    timedelta: Shape(int, lambda span: int(span.total_seconds()), _span),
    ObjectId: Shape(str, bytes.hex, lambda digits: ObjectId(bytes.fromhex(digits))),
    SnapshotLike: Shape(str, id_of),
}

_GENERIC: Final = {
    Union: _union,
    UnionType: _union,
    list: _sequence,
    tuple: _sequence,
    Sequence: _sequence,
    Iterable: _sequence,
    dict: _mapping,
    Mapping: _mapping,
}
