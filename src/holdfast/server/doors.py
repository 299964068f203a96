"""Routes for operations: what the doors of a vault do is served as the operations say.

A route decodes the operation, has the door do it, and writes what it returns: nothing is said here
of any one of them.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Final

from holdfast.engine.namespace import Namespace
from holdfast.errors import InvalidName
from holdfast.operations.forms import ELSEWHERE, NAMES, Form, Part, Place, form_of
from holdfast.operations.operation import REQUIRED, Paged, Who, Work, operations_of
from holdfast.operations.shapes import ASKED
from holdfast.server.callers import name_in
from holdfast.server.moments import At, seen
from holdfast.server.paging import UnknownCursor, page_size
from holdfast.server.parameters import DATA, Header, Made, Parameters
from holdfast.server.requests import Caller
from holdfast.server.routing import Route

Find = Callable[[Any], Any]
"""Returns the door of a namespace; of an operation that is no agent's, that of a caller."""

_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")
_WHOSE, _INSTEAD, _AT = "whose", "instead", "at"


def routes_of(door: type, find: Find) -> list[Route]:
    """Returns a route for each operation that a door does."""
    return [_route(found.operation, found.run, find) for found in operations_of(door).values()]


def _route(operation: Any, run: Callable[[Any, Any], Any], find: Find) -> Route:  # noqa: ANN401 - a class of operations
    def call(whose: Any, asked: Any) -> Any:  # noqa: ANN401 - as the form says
        return run(find(whose), asked)

    return _served(operation, call)


def answers(operation: Any) -> Callable[[Callable[..., Any]], Route]:  # noqa: ANN401 - as above
    """Makes a route of a function that does an operation, with more than a door has.

    It is called with whoever asks and the operation, and what else of a request it names by type:
    `Request`, `Services`.
    """

    def declare(function: Callable[..., Any]) -> Route:
        _, _, *others = signature(function).parameters.values()
        return _served(operation, function, others)

    return declare


def _served(operation: Any, run: Callable[..., Any], others: Iterable[Parameter] = ()) -> Route:  # noqa: ANN401 - as above
    form = form_of(operation)
    http, apart = form.http, [each.name for each in others]

    def answer(**given: Any) -> Any:  # noqa: ANN401 - as the form says
        whose, data = given.pop(_WHOSE), given.pop(DATA, None)
        more = {name: given.pop(name) for name in apart}
        moment = given.pop(_AT) if http.of_moments else None
        said = {name: each for name, each in given.items() if each is not None}
        if data is not None:
            said |= {name: getattr(data, name) for name in data.__struct_fields__}
        asked = form.read(said)
        if isinstance(whose, Namespace):
            ASKED.set(whose.name)
            whose = seen(whose, moment)
        if http.paged is not None:
            return _page(form, http.paged, asked, lambda page: run(whose, page, **more))
        return form.write(asked, run(whose, asked, **more))

    named: Any = answer
    named.__name__ = named.__qualname__ = _WORD.sub("_", operation.__name__).lower()
    named.__doc__, named.__module__ = operation.__doc__, operation.__module__
    _sign(named, [*_parameters(form), *others], form.answer.wire)
    return Route(
        method=http.method,
        paths=[http.path],
        function=answer,
        parameters=Parameters(answer, NAMES.findall(http.path)),
        topic=operation.__module__.rpartition(".")[2],
        who=http.who,
        status=http.status,
        work=http.work,
        claims=http.work is not Work.QUICK,
        is_secret=http.is_secret,
        is_bulky=http.is_bulky,
    )


def _sign(function: Any, parameters: list[Parameter], returned: Any) -> None:  # noqa: ANN401 - a function, any type
    """Lets a function say what it takes, as `Parameters` reads it."""
    function.__signature__ = Signature(parameters)
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    function.__annotations__["return"] = returned


def _page(form: Form, paged: Paged, asked: Any, fetch: Callable[[Any], list[Any]]) -> Any:  # noqa: ANN401 - as the form says
    """Returns a part of a list, as it is answered: one too many is asked for."""
    size = page_size(asked.limit, usual=paged.usual, most=paged.most)
    cursor = getattr(asked, paged.cursor)
    try:
        found = fetch(replace(asked, limit=size + 1))
    except paged.unknown as exc:
        if cursor is None:
            raise
        raise UnknownCursor(cursor) from exc
    while paged.may_end and len(found) > size and not paged.may_end(found[size - 1]):
        size += 1
        if size == len(found):
            found = fetch(replace(asked, limit=2 * size))
    return form.write(asked, found[:size], has_more=len(found) > size)


def _parameters(form: Form) -> Iterator[Parameter]:
    """Yields what a route takes, as `Parameters` reads it."""
    yield _parameter(_WHOSE, Namespace if form.http.who is Who.AGENT else Caller)
    yield from (_of_part(part) for part in form.parts if part.place is not Place.BODY)
    if form.http.of_moments:
        yield _parameter(_AT, At, None)
    own = {part.wire for part in form.parts}
    yield from (_parameter(each, str) for each in NAMES.findall(form.http.path) if each not in own)
    if form.body is not None:
        needed = any(each.place is Place.BODY and each.default is REQUIRED for each in form.parts)
        yield _parameter(DATA, form.body) if needed else _parameter(DATA, form.body | None, None)


def _of_part(part: Part) -> Parameter:
    is_needed = part.default is REQUIRED
    kind = part.shape.wire if is_needed else part.shape.wire | None
    if part.header is not None:
        kind = Annotated[kind, Made(_either(part.wire, part.header))]
    elif part.place is Place.HEADER:
        kind = Annotated[kind, Header(part.wire)]
    return _parameter(part.wire, kind, Parameter.empty if is_needed else None)


def _either(name: str, header: str) -> Callable[..., str]:
    """Returns what finds a value in the path, or where that says so, in a header."""

    def choose(**given: Any) -> str:  # noqa: ANN401 - text
        said = given[_INSTEAD]
        if given[name] != ELSEWHERE or said is None:
            return given[name]
        if not said:
            # Not the one that really is called so: nobody means that who says nothing.
            raise InvalidName(name, said, reason=f"the header {header} is empty")
        return name_in(said)

    named: Any = choose
    instead = _parameter(_INSTEAD, Annotated[str | None, Header(header)], None)
    _sign(named, [_parameter(name, str), instead], str)
    return choose


def _parameter(name: str, kind: Any, default: Any = Parameter.empty) -> Parameter:  # noqa: ANN401 - any type, any value
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
