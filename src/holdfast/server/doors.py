"""Routes for operations: what the doors of a vault do is served as the operations say.

A route decodes the operation, has the door do it, and writes what it returns: nothing is said here
of any one of them. A
request reads what is there now, or what a snapshot shows.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from inspect import Parameter, Signature, signature
from keyword import iskeyword
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import Meta

from holdfast.engine.namespace import Moment, Namespace
from holdfast.errors import InvalidName
from holdfast.model.marks import Header, mark
from holdfast.operations.forms import ELSEWHERE, NAMES, Form, Part, Place, bounds_of
from holdfast.operations.operation import REQUIRED, Http, Who, Work, operations_of
from holdfast.operations.shapes import ASKED, shape_of
from holdfast.server.callers import name_in
from holdfast.server.dialects import OURS, PLAIN, Dialect, Exchange, Speech, body_of
from holdfast.server.paging import part_of
from holdfast.server.parameters import DATA, Made, Parameters, Query
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller, Request
from holdfast.server.routing import Route

Find = Callable[[Any], Any]
"""Returns the door of a namespace; of an operation that is no agent's, that of a caller."""

_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")
_WHOSE, _INSTEAD, _AT, _REQUEST = "whose", "instead", "at", "request"


def routes_of(
    door: type, find: Find, *, dialect: Dialect = OURS, without: Collection[type] = ()
) -> list[Route]:
    """Returns a route for each operation that a door does, and where a dialect has more of it.

    Those that are done `without` the door have routes of their own.
    """
    return [
        _served(found.operation, _doing(name, find), (), dialect, speech)
        for name, found in operations_of(door).items()
        if found.operation not in without
        for speech in dialect.speeches(found.operation)
    ]


def _doing(name: str, find: Find) -> Callable[[Any, Any], Any]:
    """Returns what does an operation; at a snapshot it is another door, which does the same."""

    def call(whose: Any, asked: Any) -> Any:  # noqa: ANN401 - as the form says
        door: Any = find(whose)
        return getattr(cast("type[object]", type(door)), name).run(door, asked)

    return call


def answers(
    operation: Any,  # noqa: ANN401 - as above
    dialect: Dialect = OURS,
) -> Callable[[Callable[..., Any]], Route]:
    """Makes a route of a function that does an operation, with more than a door has.

    It is called with whoever asks and the operation, and what else of a request it names by type:
    `Services`, `Caller`, `IsGone`.
    """

    def declare(function: Callable[..., Any]) -> Route:
        _, _, *others = signature(function).parameters.values()
        parameters = [_parameter(each.name, each.annotation) for each in others]
        (speech,) = dialect.speeches(operation)
        return _served(operation, function, parameters, dialect, speech)

    return declare


def _served(
    operation: Any,  # noqa: ANN401 - as above
    run: Callable[..., Any],
    others: Iterable[Parameter] = (),
    dialect: Dialect = OURS,
    speech: Speech = PLAIN,
) -> Route:
    own, paths = operation.http, [*speech.paths] or [operation.http.path]
    travel = replace(own, method=speech.method or own.method, path=paths[0])
    form = Form(operation, travel, reads=speech.reads, is_lenient=dialect.is_lenient)
    http, apart, wires = form.http, [each.name for each in others], _wires(form)
    wire, tell = dialect.telling(form, speech)

    def answer(**given: Any) -> Any:  # noqa: ANN401 - as the form says
        whose, data = given.pop(_WHOSE), given.pop(DATA, None)
        more = {name: given.pop(name) for name in apart}
        moment = given.pop(_AT) if http.of_moments else None
        request = given.pop(_REQUEST)
        said = dict(speech.usual)
        said |= {wires.get(name, name): each for name, each in given.items() if each is not None}
        if data is not None:
            told = zip(data.__struct_fields__, msgspec.structs.astuple(data), strict=True)
            said |= {name: each for name, each in told if each is not msgspec.UNSET}
        if isinstance(whose, Namespace):
            ASKED.set(whose.name)
            whose = seen(whose, moment)
        exchange = Exchange(request, whose, said)
        if speech.hears is not None:
            speech.hears(exchange)
        _check_said(form, said)
        exchange.asked = asked = form.read(said)
        if http.paged is not None:
            part = part_of(http.paged, asked, lambda wanted: run(whose, wanted, **more))
            exchange.made, has_more = part
        else:
            exchange.made, has_more = run(whose, asked, **more), False
        if speech.shows is not None:
            exchange.made = speech.shows(exchange)
        exchange.sent = form.write(asked, exchange.made, has_more=has_more)
        return exchange.sent if tell is None else tell(exchange)

    named: Any = answer
    word = speech.name or _WORD.sub("_", operation.__name__).lower()
    named.__name__ = named.__qualname__ = word
    named.__doc__, named.__module__ = operation.__doc__, operation.__module__
    sign(named, [*_parameters(form, speech), *others], wire)
    return Route(
        method=http.method,
        paths=paths,
        function=answer,
        parameters=Parameters(answer, NAMES.findall(http.path)),
        topic=operation.__module__.rpartition(".")[2],
        who=http.who,
        status=http.status,
        work=http.work,
        claims=http.work is not Work.QUICK,
        is_secret=http.is_secret,
        is_bulky=http.is_bulky,
        is_lenient=dialect.is_lenient,
    )


def missing(wire: str, raw: str) -> Unfit:
    """Returns what is wrong with a request that says something neither as text nor as bytes."""
    return Unfit(f"Missing required query parameter {wire!r}, or {raw!r}", param=wire)


def _check_said(form: Form, said: dict[str, Any]) -> None:
    for part in form.parts:
        if (
            part.raw is not None
            and part.default is REQUIRED
            and said.keys().isdisjoint((part.wire, part.raw))
        ):
            raise missing(part.wire, part.raw)


def written(agent: Namespace, made: object) -> Any:  # noqa: ANN401 - a struct
    """Returns a value as it stands on the wire, for a route that is code and names it `answer`."""
    ASKED.set(agent.name)
    send: Any = shape_of(type(made)).send
    return send(made)


def sign(function: Any, parameters: list[Parameter], returned: Any) -> None:  # noqa: ANN401 - a function, any type
    """Lets a function say what it takes, as `Parameters` reads it."""
    function.__signature__ = Signature(parameters)
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    function.__annotations__["return"] = returned


def _parameters(form: Form, speech: Speech) -> Iterator[Parameter]:
    """Yields what a route takes, as `Parameters` reads it."""
    yield _parameter(_WHOSE, Namespace if form.http.who is Who.AGENT else Caller)
    yield _parameter(_REQUEST, Request)
    apart = [part for part in form.parts if part.place is not Place.BODY]
    yield from (_of_part(part, form.http, speech.usual) for part in apart)
    yield from (_parameter(part.raw, RawPath, None) for part in form.parts if part.raw is not None)
    if form.http.of_moments:
        yield _parameter(_AT, At, None)
    own = {part.wire for part in form.parts}
    yield from (_parameter(each, str) for each in NAMES.findall(form.http.path) if each not in own)
    inside, has_body = list[str](), form.http.method not in ("GET", "DELETE")
    for name, kind in speech.takes.items():
        if (header := mark(kind, Header)) is not None:
            yield _parameter(name, Annotated[str | None, header], None)
        elif has_body:
            inside.append(name)
        else:
            yield _parameter(name, kind | None, None)
    if (body := body_of(form, speech, inside)) is not None:
        is_needed = form.http.needs_body
        yield _parameter(DATA, body) if is_needed else _parameter(DATA, body | None, None)


def _of_part(part: Part, http: Http, usual: Mapping[str, Any]) -> Parameter:
    is_needed = (part.default is REQUIRED and part.raw is None) or part.place is Place.PATH
    kind = part.shape.wire if is_needed else part.shape.wire | None
    if not is_needed and (said := _described(part, http, usual.get(part.wire))):
        kind = Annotated[kind, Meta(extra_json_schema=said)]
    if part.header is not None:
        kind = Annotated[kind, Made(_either(part.wire, part.header))]
    elif part.place is Place.HEADER:
        kind = Annotated[kind, Header(part.wire)]
    elif not _is_name(part.wire):
        kind = Annotated[kind, Query(part.wire)]
    name = part.wire if _is_name(part.wire) else part.name
    return _parameter(name, kind, Parameter.empty if is_needed else None)


def _described(part: Part, http: Http, usual: object) -> dict[str, Any]:
    """Returns what is known of a value beside its type: what it is unsaid, and how large it is."""
    said, send = dict[str, Any](bounds_of(part, http)), part.shape.send
    usually = said.pop("default", None)
    default = usually if part.default in (REQUIRED, None) else part.default
    if part.most is not None:
        said["maximum"] = part.most
    if default is not None and send is not None:
        default = send(default)
    unsaid = default if usual is None else usual
    return {**said, "default": unsaid} if isinstance(unsaid, str | int | float) else said


def _wires(form: Form) -> dict[str, str]:
    """Returns what stands on the wire under a name that no parameter can have."""
    return {part.name: part.wire for part in form.parts if not _is_name(part.wire)}


def _is_name(word: str) -> bool:
    """Says whether a parameter of a function can be called so: `from` and `X-Place` cannot."""
    return word.isidentifier() and not iskeyword(word)


def _either(name: str, header: str) -> Callable[..., str]:
    """Returns what finds a value in the path, or where that says so, in a header."""

    def choose(**given: Any) -> str:  # noqa: ANN401 - what the path says
        said = given[_INSTEAD]
        if given[name] != ELSEWHERE or said is None:
            return given[name]
        if not said:
            # Not the one that really is called so: nobody means that who says nothing.
            raise InvalidName(name, said, reason=f"the header {header} is empty")
        return name_in(said)

    named: Any = choose
    instead = _parameter(_INSTEAD, Annotated[str | None, Header(header)], None)
    sign(named, [_parameter(name, str), instead], str)
    return choose


def _parameter(name: str, kind: Any, default: Any = Parameter.empty) -> Parameter:  # noqa: ANN401 - any type, any value
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


RawPath = Annotated[
    str | None,
    Meta(description="The same as bytes in base64: for what is not UTF-8."),
]

At = Annotated[
    str | None,
    Meta(description="A snapshot: what is read is as it was then, and not as it is now."),
]


def seen(agent: Namespace, at: str | None) -> Namespace | Moment:
    """Returns the namespace as it is now, or as a snapshot shows it."""
    return agent if at is None else agent.at(at)
