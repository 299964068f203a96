"""How clients of others speak to our routes: what they say otherwise, and are told beside.

A dialect is a table over operations and values. Our own routes are made of operations alone
(`doors`); whoever serves them in a dialect, too, passes it there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from inspect import isclass
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin

import msgspec
from msgspec.structs import fields

from holdfast.model.marks import Shape
from holdfast.operations.forms import Form
from holdfast.operations.operation import Operation
from holdfast.operations.shapes import shape_of
from holdfast.server.requests import Request

Kind = Any
Convert = Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class Answered:
    """A field of an answer: its type, and how it is had."""

    kind: Any
    get: Callable[[Any], Any]


def always(word: str) -> Answered:
    """Returns a field that says the same of everything."""

    def say(_: object) -> str:
        return word

    return Answered(str, say)


@dataclass(slots=True)
class Exchange:
    """One request, and what becomes of it."""

    request: Request
    agent: Any
    """The namespace that was asked, or what a snapshot shows of it."""
    said: dict[str, Any]
    """What it says, by the names of the wire."""
    asked: Any = None
    """The operation that it was taken for."""
    made: Any = None
    """What the door returned."""
    sent: Any = None
    """The same as it stands on the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """How one operation is spoken of."""

    method: str | None = None
    """None for the operation's own."""
    paths: Sequence[str] = ()
    """Where it is served; nowhere but where the operation says, if there are none."""
    name: str | None = None
    """What a route is called that is not the operation's own."""
    takes: Mapping[str, Kind] = field(default_factory=dict[str, Kind])
    """What may be said beside the operation's fields; a `Header` is marked so."""
    optional: frozenset[str] = frozenset()
    """Fields that an operation needs, and that may be said otherwise."""
    usual: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What is taken as said where nothing is, if not as the operation has it."""
    hears: Callable[[Exchange], None] | None = None
    """Makes of what was said (`said`) what the operation takes."""
    reads: Mapping[str, Callable[[Any], Any]] = field(
        default_factory=dict[str, Callable[[Any], Any]]
    )
    """How fields of the operation are read, where a server is more careful than the operation."""
    shows: Callable[[Exchange], Any] | None = None
    """Returns what is answered instead of what was made."""
    tells: Mapping[str, Answered] = field(default_factory=dict[str, Answered])
    """What an answer says beside its own, of the exchange."""


PLAIN = Speech()
"""As the operation says, and nothing else."""


@dataclass(frozen=True)
class Dialect:
    """How some clients speak."""

    values: Mapping[type, Mapping[str, Answered]] = field(
        default_factory=dict[type, Mapping[str, Answered]]
    )
    """What is told of a value beside its fields, wherever it stands; had of it as it is sent."""
    operations: Mapping[type[Operation[Any]], Sequence[Speech]] = field(
        default_factory=dict[type[Operation[Any]], Sequence[Speech]]
    )
    """How operations are spoken of: the first at their own routes, the others at more of them."""
    is_lenient: bool = False
    """Whether clients of others may say what nobody knows, and numbers as text."""

    def speeches(self, operation: type[Operation[Any]]) -> Sequence[Speech]:
        """Returns how an operation is spoken of, at all its routes."""
        return self.operations.get(operation, (PLAIN,))

    def telling(self, form: Form, speech: Speech) -> tuple[Kind, Callable[[Exchange], Any] | None]:
        """Returns of what type answers are, and how they are made of those that the form writes.

        None for as they are.
        """
        wide, widen = self._widening.of(form.answer.wire)
        if not speech.tells:
            return wide, None if widen is None else lambda exchange: widen(exchange.sent)
        name = f"{name_of(form, speech)}Answer"
        wire, tells = _wider(wide, speech.tells, name), [*speech.tells.items()]

        def tell(exchange: Exchange) -> Any:  # noqa: ANN401 - of the type
            sent = exchange.sent if widen is None else widen(exchange.sent)
            exchange.sent = sent
            return wire(**{**_parts(sent), **{name: told.get(exchange) for name, told in tells}})

        return wire, tell

    def shape_of(self, kind: type) -> Shape:
        """Returns how a value is told, where it stands in no answer of its own."""
        plain = shape_of(kind)
        wide, widen = self._widening.of(plain.wire)
        send: Any = plain.send
        return Shape(wide, send if widen is None else lambda value: widen(send(value)))

    @cached_property
    def _widening(self) -> "_Widening":
        return _Widening({shape_of(kind).wire: told for kind, told in self.values.items()})


OURS = Dialect()
"""What our own clients speak: operations, as they are."""


def name_of(form: Form, speech: Speech) -> str:
    """Returns what types of a route are called: as the operation, if it is that one's own."""
    return "".join(map(str.title, (speech.name or "").split("_"))) or form.operation.__name__


def body_of(form: Form, speech: Speech, names: Sequence[str]) -> Any:  # noqa: ANN401 - a struct
    """Returns what a body holds in which these may stand beside the form's own; None for none."""
    more = [(name, speech.takes[name] | None | msgspec.UnsetType, msgspec.UNSET) for name in names]
    if form.body is None:
        return msgspec.defstruct(name_of(form, speech), more, kw_only=True) if more else None
    more += [
        (each.name, each.type | None | msgspec.UnsetType, msgspec.UNSET)
        for each in fields(form.body)
        if each.name in speech.optional
    ]
    if not more:
        return form.body
    return _with(form.body, tuple(more), name_of(form, speech))


class _Widening:
    """Types of answers with all that is told beside: each made once."""

    def __init__(self, more: Mapping[Any, Mapping[str, Answered]]) -> None:
        self._more, self._known = more, dict[Any, tuple[Kind, Convert]]()

    def of(self, kind: Kind) -> tuple[Kind, Convert]:
        """Returns a type with what is told beside, and how it is made of one without."""
        if kind not in self._known:
            # Of a type that holds itself, the one inside is as it is.
            self._known[kind] = kind, None
            self._known[kind] = self._make(kind)
        return self._known[kind]

    def _make(self, kind: Kind) -> tuple[Kind, Convert]:
        if isclass(kind) and issubclass(kind, msgspec.Struct):
            return self._struct(kind)
        if get_origin(kind) is list:
            wide, widen = self.of(get_args(kind)[0])
            return (kind, None) if widen is None else (_list_of(wide), _each(widen))
        if get_origin(kind) in (Union, UnionType):
            parts = [self.of(each) for each in get_args(kind)]
            widens = [widen for _, widen in parts if widen is not None]
            if len(widens) == 1:
                return _any_of([wide for wide, _ in parts]), _if_any(widens[0])
        return kind, None

    def _struct(self, kind: type[msgspec.Struct]) -> tuple[Kind, Convert]:
        beside = self._more.get(kind, {})
        inner = {each.name: self.of(each.type) for each in fields(kind)}
        converts = [(name, widen) for name, (_, widen) in inner.items() if widen is not None]
        if not beside and not converts:
            return kind, None
        nested = {name: Answered(inner[name][0], _same) for name, _ in converts}
        wide, tells = _wider(kind, {**nested, **beside}), [*beside.items()]

        def widen(sent: Any) -> Any:  # noqa: ANN401 - of the kind
            parts = _parts(sent)
            for name, convert in converts:
                parts[name] = convert(parts[name])
            for name, told in tells:
                parts[name] = told.get(sent)
            return wide(**parts)

        return wide, widen


def _wider(kind: Any, more: Mapping[str, Answered], name: str = "") -> Any:  # noqa: ANN401 - a struct
    told = tuple((name, each.kind) for name, each in more.items())
    # By another name than what it is made of: a value may be told in both ways.
    return _with(kind, told, name or f"Extended{kind.__name__}")


@cache
def _with(kind: Any, more: tuple[tuple[Any, ...], ...], name: str) -> Any:  # noqa: ANN401 - a struct
    """Returns a struct with more in it: the same one for all who ask for the same."""
    about = {"__doc__": kind.__doc__}
    return msgspec.defstruct(name, more, bases=(kind,), namespace=about, kw_only=True)


def _parts(sent: Any) -> dict[str, Any]:  # noqa: ANN401 - a struct
    return {name: getattr(sent, name) for name in sent.__struct_fields__}


def _list_of(kind: Kind) -> Kind:
    return list[kind]


def _any_of(kinds: Sequence[Kind]) -> Kind:
    return cast("Any", Union)[tuple(kinds)]


def _each(widen: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda items: [widen(each) for each in items]


def _if_any(widen: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else widen(value)


def _same(value: Any) -> Any:  # noqa: ANN401 - any value
    return value
