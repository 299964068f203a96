"""Operations as requests, and what comes back as answers: for who sends and for who serves them."""

import re
from dataclasses import fields
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, Final, NamedTuple, get_args, get_type_hints

import msgspec

from holdfast.model.marks import Header, Shape
from holdfast.operations.operation import REQUIRED, Http, Operation
from holdfast.operations.shapes import mark, shape_of, wire_name

NAMES: Final = re.compile(r"{(\w+)(?::path)?}")
"""What stands for a part of a path; as `{name:path}`, for all that is left of it."""


class Place(StrEnum):
    """Where a field is."""

    PATH = "path"
    QUERY = "query"
    HEADER = "header"
    BODY = "body"


class Part(NamedTuple):
    """A field of an operation, in a request."""

    name: str
    wire: str
    place: Place
    shape: Shape
    default: Any
    takes_none: bool
    """Whether None is one of its values; if not, null says nothing."""


class Sent(NamedTuple):
    """What a request says."""

    place: dict[str, str]
    query: dict[str, Any]
    body: msgspec.Struct | None
    headers: dict[str, str]


class Form:
    """How one operation is asked and answered."""

    def __init__(self, operation: type[Operation[Any]]) -> None:
        self.operation, self.http = operation, operation.http
        self.parts = _parts(operation, self.http)
        self.body = _body(operation, self.parts)
        """What stands in the body; None if there is none."""
        self.answer = _answer(operation, self.http)
        """How what comes back is written."""
        self._decoder = msgspec.json.Decoder(self.answer.wire)

    def send(self, asked: Operation[Any]) -> Sent:
        """Returns what a request says: all that is not as if it had not been said."""
        sent: dict[Place, dict[str, Any]] = {place: {} for place in Place}
        for part in self.parts:
            value = getattr(asked, part.name)
            if value is None and part.default is None:
                continue
            convert = part.shape.send
            sent[part.place][part.wire] = value if convert is None else convert(value)
        body = None if self.body is None else self.body(**sent[Place.BODY])
        return Sent(sent[Place.PATH], sent[Place.QUERY], body, sent[Place.HEADER])

    def read(self, given: dict[str, Any]) -> Operation[Any]:
        """Returns the operation that a request asks for, whose fields say this on the wire."""
        asked = dict[str, Any]()
        for part in self.parts:
            value = given.get(part.wire, msgspec.UNSET)
            if value is msgspec.UNSET or (value is None and not part.takes_none):
                continue
            convert = part.shape.read
            asked[part.name] = value if convert is None else convert(value)
        return self.operation(**asked)

    def read_answer(self, body: bytes) -> Any:  # noqa: ANN401 - what the operation returns
        """Returns what an answer says."""
        return None if self.operation.returns is None else self._read(self._decoder.decode(body))

    def read_page(self, body: bytes) -> tuple[Any, bool]:
        """Returns the part of a list that an answer holds, and whether there is more."""
        sent = self._decoder.decode(body)
        return self._read(sent), sent.has_more

    def _read(self, sent: Any) -> Any:  # noqa: ANN401 - as above
        return sent if self.answer.read is None else self.answer.read(sent)


@cache
def form_of(operation: type[Operation[Any]]) -> Form:
    """Returns the form of an operation: made when somebody asks for it first."""
    return Form(operation)


def _parts(operation: type[Operation[Any]], http: Http) -> list[Part]:
    hints, plain = get_type_hints(operation, include_extras=True), get_type_hints(operation)
    named = frozenset(NAMES.findall(http.path))
    rest = Place.QUERY if http.method in ("GET", "DELETE") else Place.BODY
    found = list[Part]()
    for each in fields(operation):
        hint = hints[each.name]
        header = mark(hint, Header)
        wire = wire_name(each.name, hint) if header is None else header.name
        place = Place.PATH if wire in named else rest if header is None else Place.HEADER
        takes_none = NoneType in get_args(plain[each.name])
        found.append(Part(each.name, wire, place, shape_of(hint), each.default, takes_none))
    return found


def _body(operation: type[Operation[Any]], parts: list[Part]) -> Any:  # noqa: ANN401 - a struct
    if not (inside := [part for part in parts if part.place is Place.BODY]):
        return None
    asked = [
        (part.wire, part.shape.wire)
        if part.default is REQUIRED
        else (part.wire, part.shape.wire | None | msgspec.UnsetType, msgspec.UNSET)
        for part in inside
    ]
    about = {"__doc__": operation.__doc__}
    return msgspec.defstruct(operation.__name__, asked, namespace=about, kw_only=True)


def _answer(operation: type[Operation[Any]], http: Http) -> Shape:
    """Returns how an answer is written; under a name, if it has one there."""
    shape, under = shape_of(operation.returns), http.under
    if under is None:
        return shape
    told = [(under, shape.wire), *([("has_more", bool, False)] if http.paged else [])]
    wire = msgspec.defstruct(f"{operation.__name__}Answer", told, kw_only=True)
    send, read = shape.send, shape.read
    return Shape(
        wire,
        lambda value: wire(**{under: value if send is None else send(value)}),
        lambda sent: getattr(sent, under) if read is None else read(getattr(sent, under)),
    )
