"""What a route takes, and where of a request that is found: all of it known before the first one.

A parameter says by its annotation what it is. A `Caller`, a `Namespace`, a `Request` is what it is
called; `data` is the body, decoded into the annotated type, and `body` its bytes. Of the others,
those that the path names are in the path, and the rest in the query, under their own name or that
of a `Query`; with a `Header`, they are a header. `Made` is what a function makes of parameters of
its own.
"""

import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import msgspec

from holdfast.engine.namespace import Namespace
from holdfast.errors import shorten
from holdfast.model.marks import Header, mark
from holdfast.server.bodies import Decoder, decoder_of
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller, Request, Services
from holdfast.server.stopping import IsGone

Annotation = Any
"""A type, with what stands beside it."""

DATA, BYTES = "data", "body"
MOST_TOLD: Final = 3
"""Of parts that do not fit."""

_TEXTS: Final = (str, str | None)
_OBJECT: Final = Annotated[str, msgspec.Meta(description="A JSON object.")]


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter of the query by another name than the function's."""

    name: str


@dataclass(frozen=True, slots=True)
class Made:
    """A parameter that a function makes of parameters of its own."""

    by: Callable[..., Any]


class Place(StrEnum):
    """Where a parameter is found."""

    PATH = "path"
    QUERY = "query"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value of a request."""

    name: str
    """As the function has it."""
    wire: str
    """As requests have it."""
    place: Place
    kind: Any
    """What it is converted into."""
    default: Any
    is_required: bool
    is_text: bool
    """Whether it is taken as it comes."""
    is_list: bool
    """Whether it may be there several times."""
    is_object: bool
    """Whether it is the text of a JSON object."""


class Parameters:
    """What one function takes."""

    def __init__(self, function: Callable[..., Any], path: Collection[str]) -> None:
        hints = get_type_hints(function, include_extras=True)
        self.own = list[Parameter]()
        """Of path, query and headers."""
        self.made = dict[str, tuple[Callable[..., Any], Parameters]]()
        self.data: Any = None
        """What the body is decoded into; None if it is not."""
        self.decoder: Decoder | None = None
        self.needs_data = self.takes_bytes = False
        names = dict[Any, str]()
        for name, signed in inspect.signature(function).parameters.items():
            kind = hints[name]
            is_required = signed.default is inspect.Parameter.empty
            if kind in (Caller, Namespace, Request, Services, IsGone):
                names[kind] = name
            elif name == DATA:
                self.data, self.decoder, self.needs_data = kind, decoder_of(kind), is_required
            elif name == BYTES:
                self.takes_bytes = True
            elif (maker := mark(kind, Made)) is not None:
                self.made[name] = (maker.by, Parameters(maker.by, path))
            else:
                self.own.append(_parameter(kind, signed, path))
        self.caller, self.agent = names.get(Caller), names.get(Namespace)
        self.request, self.services = names.get(Request), names.get(Services)
        self.is_gone = names.get(IsGone)
        self._defaults = {each.name: each.default for each in self.own if not each.is_required}
        self._path = [each for each in self.own if each.place is Place.PATH]
        self._headers = [
            (each.wire.lower().encode(), each) for each in self.own if each.place is Place.HEADER
        ]
        self._query = {each.wire: each for each in self.own if each.place is Place.QUERY}
        self._required = [each for each in self.own if each.is_required]
        self._names = frozenset(each.wire for each in self if each.place is Place.QUERY)

    def check_query(self, request: Request, *others: str) -> None:
        """Raises `Unfit` for a query with a name in it that is none of these, and no other's."""
        for name, _ in request.query:
            if name not in self._names and name not in others:
                message = f"{shorten(name)} is no parameter of this route's query"
                raise Unfit(message, param=name)

    def __iter__(self) -> Iterator[Parameter]:
        """Iterates over all of path, query and headers, also of what is made of them."""
        yield from self.own
        for _, parameters in self.made.values():
            yield from parameters

    def values(self, request: Request) -> dict[str, Any]:
        """Returns what path, query and headers say, by the function's names; raises `Unfit`."""
        found = {**self._defaults}
        for each in self._path:
            found[each.name] = request.places[each.wire]
        if self._query or self._headers:
            self._read(request, found)
            for each in self._required:
                if each.name not in found:
                    raise Unfit(_missing(each, request), param=each.wire)
        for name, (make, parameters) in self.made.items():
            found[name] = make(**parameters.values(request))
        return found

    def _read(self, request: Request, found: dict[str, Any]) -> None:
        given: dict[str, Any] = {}
        for name, text in request.query if self._query else ():
            each = self._query.get(name)
            if each is None:
                continue
            if each.is_text:
                found[each.name] = text
            elif each.is_list:
                given.setdefault(each.name, []).append(text)
            else:
                given[each.name] = text
        for header, each in self._headers:
            if (value := request.header(header)) is not None:
                found[each.name] = value
        if given:
            self._convert(given, found)

    def _convert(self, given: dict[str, Any], found: dict[str, Any]) -> None:
        unfit = dict[str, str]()
        for each in self.own:
            if each.name in given:
                try:
                    found[each.name] = _value(given[each.name], each)
                except msgspec.ValidationError as exc:
                    unfit[each.wire] = str(exc).partition(" - at `")[0]
        if unfit:
            said = [f"{name}: {what}" for name, what in unfit.items()]
            raise Unfit("; ".join(said[:MOST_TOLD]), param=next(iter(unfit)))


def _value(text: Annotation, parameter: Parameter) -> Annotation:
    if not parameter.is_object:
        return msgspec.convert(text, parameter.kind, strict=False)
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
        message = f"{parameter.wire} is a JSON object"
        raise Unfit(message, param=parameter.wire) from exc


def _parameter(kind: Annotation, signed: inspect.Parameter, path: Collection[str]) -> Parameter:
    name = signed.name
    place, wire = Place.PATH if name in path else Place.QUERY, name
    if (header := mark(kind, Header)) is not None:
        place, wire = Place.HEADER, header.name
    elif (query := mark(kind, Query)) is not None:
        wire = query.name
    bare = _bare(kind)
    is_object = any(get_origin(_bare(part)) is dict for part in (bare, *get_args(bare)))
    return Parameter(
        name,
        wire,
        place,
        _OBJECT if is_object else _read_by_msgspec(kind),
        signed.default,
        is_required=signed.default is inspect.Parameter.empty,
        is_text=bare in _TEXTS,
        is_list=any(get_origin(part) is list for part in (bare, *get_args(bare))),
        is_object=is_object,
    )


def _bare(kind: Annotation) -> Annotation:
    """Returns a type without what stands beside it."""
    return kind.__origin__ if get_origin(kind) is Annotated else kind


def _read_by_msgspec(kind: Annotation) -> Annotation:
    """Returns a type with only that beside it which is for msgspec."""
    if get_origin(kind) is not Annotated:
        return kind
    kept = [each for each in kind.__metadata__ if isinstance(each, msgspec.Meta)]
    return Annotated[kind.__origin__, *kept] if kept else kind.__origin__


def _missing(parameter: Parameter, request: Request) -> str:
    query = request.scope["query_string"].decode("latin-1")
    asked = f"{request.path}?{query}" if query else request.path
    return f"Missing required {parameter.place} parameter {parameter.wire!r} for path {asked}"
