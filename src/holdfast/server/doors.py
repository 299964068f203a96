"""Routes for operations: what the doors of a vault do is served as the operations say.

A route decodes the operation, has the door do it, and writes what it returns: nothing is said here
of any one of them.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from inspect import Parameter, Signature
from typing import Annotated, Any, Final

from holdfast.engine.namespace import Namespace
from holdfast.operations.forms import NAMES, Form, Part, Place, form_of
from holdfast.operations.operation import REQUIRED, Paged, Who, Work, operations_of
from holdfast.operations.shapes import ASKED
from holdfast.server.paging import page_size
from holdfast.server.parameters import DATA, Header, Parameters
from holdfast.server.requests import Caller
from holdfast.server.routing import Route

Find = Callable[[Any], Any]
"""Returns the door of a namespace; of an operator's operation, that of a caller."""

_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")
_WHOSE: Final = "whose"


def routes_of(door: type, find: Find) -> list[Route]:
    """Returns a route for each operation that a door does."""
    return [_route(found.operation, found.run, find) for found in operations_of(door).values()]


def _route(operation: Any, run: Callable[[Any, Any], Any], find: Find) -> Route:  # noqa: ANN401 - a class of operations
    form = form_of(operation)
    http, write = form.http, form.answer.send

    def answer(**given: Any) -> Any:  # noqa: ANN401 - as the form says
        whose, data = given.pop(_WHOSE), given.pop(DATA, None)
        said = {name: each for name, each in given.items() if each is not None}
        if data is not None:
            said |= {name: getattr(data, name) for name in data.__struct_fields__}
        asked = form.read(said)
        if isinstance(whose, Namespace):
            ASKED.set(whose.name)
        if http.paged is not None:
            return _page(form, http.paged, asked, lambda page: run(find(whose), page))
        made = run(find(whose), asked)
        return made if write is None or made is None else write(made)

    named: Any = answer
    named.__name__ = named.__qualname__ = _WORD.sub("_", operation.__name__).lower()
    named.__doc__, named.__module__ = operation.__doc__, operation.__module__
    named.__signature__ = signature = Signature([*_parameters(form)])
    annotations = {name: each.annotation for name, each in signature.parameters.items()}
    named.__annotations__ = {**annotations, "return": form.answer.wire}
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
    )


def _page(form: Form, paged: Paged, asked: Any, fetch: Callable[[Any], list[Any]]) -> Any:  # noqa: ANN401 - as the form says
    """Returns a part of a list, as it is answered: one too many is asked for."""
    size = page_size(asked.limit, usual=paged.usual, most=paged.most)
    found = fetch(replace(asked, limit=size + 1))
    write: Any = form.answer.send
    answer = write(found[:size])
    answer.has_more = len(found) > size
    return answer


def _parameters(form: Form) -> Iterator[Parameter]:
    """Yields what a route takes, as `Parameters` reads it."""
    is_operators = form.http.who is Who.OPERATOR
    yield _parameter(_WHOSE, Caller if is_operators else Namespace)
    yield from (_of_part(part) for part in form.parts if part.place is not Place.BODY)
    own = {part.wire for part in form.parts}
    yield from (_parameter(each, str) for each in NAMES.findall(form.http.path) if each not in own)
    if form.body is not None:
        needed = any(each.place is Place.BODY and each.default is REQUIRED for each in form.parts)
        yield _parameter(DATA, form.body) if needed else _parameter(DATA, form.body | None, None)


def _of_part(part: Part) -> Parameter:
    is_needed = part.default is REQUIRED
    kind = part.shape.wire if is_needed else part.shape.wire | None
    if part.place is Place.HEADER:
        kind = Annotated[kind, Header(part.wire)]
    return _parameter(part.wire, kind, Parameter.empty if is_needed else None)


def _parameter(name: str, kind: Any, default: Any = Parameter.empty) -> Parameter:  # noqa: ANN401 - any type, any value
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
