"""Operations as requests, and what comes back as answers: for who sends and for who serves them."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from types import NoneType
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from holdfast.errors import InvalidName
from holdfast.instants import from_text
from holdfast.jsontext import legible, to_json
from holdfast.model.marks import AsBytes, AtMost, Flat, Header, Instead, Query, Shape, mark
from holdfast.model.names import from_b64, to_b64
from holdfast.operations.operation import REQUIRED, Http, Operation
from holdfast.operations.shapes import raw_name, shape_of, wire_name

NAMES: Final = re.compile(r"{(\w+)(?::path)?}")
"""What stands for a part of a path; as `{name:path}`, for all that is left of it."""

ELSEWHERE: Final = "-"
"""Stands in a path for what a header says."""


_NONE: Final = [""]
"""An empty list in a query, where one without items would not be there."""


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
    header: str | None = None
    """The header that it may stand in instead, though it has a place in the path."""
    none_as: str | None = None
    """The field that says None."""
    most: int | None = None
    """What is above this, a server takes for this."""
    whole: tuple[str, type] | None = None
    """The field of the operation that it is a part of, and what is made of such parts."""
    raw: str | None = None
    """The field that says it as bytes, where it is no text."""


class Sent(NamedTuple):
    """What a request says."""

    place: dict[str, str]
    query: dict[str, Any]
    body: msgspec.Struct | None
    headers: dict[str, str]


class Form:
    """How one operation is asked and answered."""

    def __init__(
        self,
        operation: type[Operation[Any]],
        http: Http | None = None,
        *,
        reads: Mapping[str, Callable[[Any], Any]] | None = None,
        is_lenient: bool = False,
    ) -> None:
        """Makes one; `reads` is how some of the fields are read, if not as they say.

        If it `is_lenient`, a body may have names in it that are not known.
        """
        self.operation, self.http = operation, http or operation.http
        self.parts = [_reading(part, reads or {}) for part in _parts(operation, self.http)]
        self.body = _body(operation, self.http, self.parts, is_lenient=is_lenient)
        """What stands in the body; None if there is none."""
        self._repeated = [part for part in self.parts if part.name in self.http.repeats]
        self.answer = _answer(operation, self.http, self._repeated)
        """How what comes back is written; `send` writes what is under a name, `write` all."""
        self._decoder = msgspec.json.Decoder(self.answer.wire)

    def send(self, asked: Operation[Any]) -> Sent:
        """Returns what a request says: all that is not as if it had not been said."""
        sent: dict[Place, dict[str, Any]] = {place: {} for place in Place}
        for part in self.parts:
            value = asked if part.whole is None else getattr(asked, part.whole[0])
            value = None if value is None else getattr(value, part.name)
            if value is None and part.default is None:
                if part.none_as is not None:
                    sent[part.place][part.none_as] = True
                continue
            raw = None if part.raw is None or value is None else to_b64(value)
            if part.raw is not None and raw is not None:
                sent[part.place][part.raw] = raw
                continue
            convert = part.shape.send
            told = value if convert is None else convert(value)
            if part.header is not None:
                sent[Place.HEADER][part.header], told = _not_empty(part, told), ELSEWHERE
            sent[part.place][part.wire] = (
                _NONE if part.place is Place.QUERY and told == [] else told
            )
        body = None if self.body is None else self.body(**sent[Place.BODY])
        return Sent(sent[Place.PATH], sent[Place.QUERY], body, sent[Place.HEADER])

    def read(self, given: dict[str, Any]) -> Operation[Any]:
        """Returns the operation that a request asks for, whose fields say this on the wire."""
        asked: dict[str, Any] = {}
        wholes: dict[tuple[str, type], dict[str, Any]] = {}
        for part in self.parts:
            value = given.get(part.wire, msgspec.UNSET)
            if part.raw is not None and given.get(part.raw) is not None:
                asked[part.name] = from_b64(given[part.raw])
                continue
            if value is msgspec.UNSET or (value is None and not part.takes_none):
                continue
            if part.place is Place.QUERY and value == _NONE:
                value = list[str]()
            convert, most = part.shape.read, part.most
            if most is not None and value is not None:
                value = min(value, most)
            of = asked if part.whole is None else wholes.setdefault(part.whole, {})
            of[part.name] = value if convert is None else convert(value)
        for (name, make), said in wholes.items():
            asked[name] = make(**said)
        return self.operation(**asked)

    def write(self, asked: Operation[Any], made: Any, *, has_more: bool = False) -> Any:  # noqa: ANN401 - what the operation returns
        """Returns an answer: a struct, or None if there is nothing to say."""
        send, http = self.answer.send, self.http
        sent = made if send is None or made is None else send(made)
        name = http.under or http.done
        if name is None and not self._repeated:
            return sent
        if name is None:
            said: dict[str, Any] = {} if sent is None else msgspec.structs.asdict(sent)
        else:
            said = {name: True if http.done else sent}
        for part in self._repeated:
            value, convert = getattr(asked, part.name), part.shape.send
            if part.raw is not None:
                said[part.raw] = to_b64(value)
                value = legible(value)
            said[part.wire] = value if convert is None else convert(value)
        if http.paged is not None:
            said["has_more"] = has_more
        return self.answer.wire(**said)

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


def _reading(part: Part, reads: Mapping[str, Callable[[Any], Any]]) -> Part:
    """Returns a part that is read as is said here, if anything is."""
    read = reads.get(part.name, part.shape.read)
    return part._replace(shape=msgspec.structs.replace(part.shape, read=read))


def _parts(operation: type[Operation[Any]], http: Http) -> list[Part]:
    hints, plain = get_type_hints(operation, include_extras=True), get_type_hints(operation)
    named = frozenset(NAMES.findall(http.path))
    rest = Place.QUERY if http.method in ("GET", "DELETE") else Place.BODY
    found = list[Part]()
    for each in fields(operation):
        hint = hints[each.name]
        if mark(hint, Flat):
            found += _parts_of(each.name, plain[each.name], rest)
            continue
        header = mark(hint, Header)
        wire, instead = wire_name(each.name, hint), None
        place = Place.PATH if wire in named else Place.QUERY if mark(hint, Query) else rest
        if header is not None and place is Place.PATH:
            instead = header.name
        elif header is not None:
            wire, place = header.name, Place.HEADER
        bare, shape = plain[each.name], shape_of(hint)
        none = bare is Any or NoneType in get_args(bare)
        if place is Place.QUERY and _is_object(bare):
            shape = Shape(shape.wire, lambda value: to_json(value).decode(), shape.read)
        if datetime in (bare, *get_args(bare)):
            shape = msgspec.structs.replace(shape, read=partial(_instant, wire))
        part = Part(each.name, wire, place, shape, each.default, none, instead)
        word, most = mark(hint, Instead), mark(hint, AtMost)
        is_raw = place is Place.QUERY and mark(hint, AsBytes)
        part = part._replace(raw=raw_name(wire) if is_raw else None)
        found.append(part._replace(none_as=word and word.name, most=most and most.number))
    return found


def _parts_of(name: str, kind: Any, place: Place) -> Iterator[Part]:  # noqa: ANN401 - a value, or None
    """Yields the fields of a value that stand beside the operation's own; none has to be said."""
    (make,) = (each for each in (get_args(kind) or (kind,)) if each is not NoneType)
    for field, hint in get_type_hints(make, include_extras=True).items():
        wire = wire_name(field, hint)
        yield Part(field, wire, place, shape_of(hint), None, takes_none=False, whole=(name, make))


def _is_object(kind: Any) -> bool:  # noqa: ANN401 - any type
    """Says whether a query has it as the text of an object."""
    return any(get_origin(each) is dict for each in (kind, *get_args(kind)))


def _instant(name: str, text: str | None) -> datetime | None:
    """Returns the instant that a request says, or refuses it by the name that it has there."""
    return None if text is None else from_text(text, name)


def _not_empty(part: Part, value: Any) -> Any:  # noqa: ANN401 - what a query says
    # Without a value it would be what really is called as the sign that stands for it.
    if not value:
        raise InvalidName(part.name, value, reason="it is empty")
    return value


def bounds_of(part: Part, http: Http) -> dict[str, int]:
    """Returns how many of a list a request may ask for, if it says that; for its description."""
    paged = http.paged or http.part
    if paged is None or part.name != "limit":
        return {}
    return {"default": paged.usual, "minimum": 1, "maximum": paged.most}


def _in_body(part: Part, http: Http) -> tuple[Any, ...]:
    if said := bounds_of(part, http):
        wire = Annotated[part.shape.wire, msgspec.Meta(extra_json_schema=said)]
        part = part._replace(shape=msgspec.structs.replace(part.shape, wire=wire))
    if part.default is not REQUIRED:
        return part.wire, part.shape.wire | None | msgspec.UnsetType, msgspec.UNSET
    # Who writes by hand need not write null; but what may be anything has to be said.
    is_null = part.takes_none and part.shape.wire is not Any
    return (part.wire, part.shape.wire, *([None] if is_null else []))


def _body(
    operation: type[Operation[Any]], http: Http, parts: list[Part], *, is_lenient: bool
) -> Any:  # noqa: ANN401 - a struct
    if not (inside := [part for part in parts if part.place is Place.BODY]):
        return None
    asked = [_in_body(part, http) for part in inside]
    words = [part.none_as for part in inside if part.none_as is not None]
    asked += [(word, bool | None | msgspec.UnsetType, msgspec.UNSET) for word in words]
    # What the path says, the body does not: it is another one than the operation's own.
    apart = [each for each in NAMES.findall(http.path) if each not in operation.http.path]
    name = "_".join([operation.__name__, *apart])
    return _struct(operation, name, tuple(asked), is_strict=not is_lenient)


def _answer(operation: type[Operation[Any]], http: Http, repeated: list[Part]) -> Shape:
    """Returns how an answer is written; in an object, if it has a name there."""
    shape, name = shape_of(operation.returns), http.under or http.done
    if name is None and not repeated:
        return shape
    said = [] if name is None else [(name, bool if http.done else shape.wire)]
    said += [(part.wire, part.shape.wire) for part in repeated]
    said += [(part.raw, str | None) for part in repeated if part.raw is not None]
    said += [("has_more", bool)] if http.paged else []
    # Without a name of its own, what comes back stands beside what is said again.
    bases = () if name is not None or operation.returns is None else (shape.wire,)
    wire = _struct(operation, f"{operation.__name__}Answer", tuple(said), bases=bases)
    read = shape.read
    if name is None:
        return Shape(wire, shape.send, read if bases else None)
    return Shape(
        wire,
        shape.send,
        lambda sent: getattr(sent, name) if read is None else read(getattr(sent, name)),
    )


@cache
def _struct(
    operation: type[Operation[Any]],
    name: str,
    parts: tuple[tuple[Any, ...], ...],
    *,
    bases: tuple[type, ...] = (),
    is_strict: bool = False,
) -> Any:  # noqa: ANN401 - a struct
    """Returns a struct: the same one for all who ask for the same."""
    return msgspec.defstruct(
        name,
        parts,
        bases=bases or None,
        # Where it is from tells it apart from another one that is called so.
        module=operation.__module__,
        namespace={"__doc__": operation.__doc__},
        kw_only=True,
        forbid_unknown_fields=is_strict,
    )
