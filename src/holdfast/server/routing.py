"""How a route is declared: a verb, a path, and what is the same for all of them.

A route is a plain function: it runs in a thread, its docstring describes it, its annotations are
its part of the OpenAPI document, and every problem that it can answer with is in there, too. A
route that reads its body itself says of what type that is: `body="application/octet-stream"`. One
that is not quick says what kind of `work` it is.
"""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, Final, cast

import msgspec
from litestar import delete as _delete
from litestar import get as _get
from litestar import patch as _patch
from litestar import post as _post
from litestar import put as _put
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import ResponseSpec

from holdfast.server import answers
from holdfast.server.idempotency import kept_with_work
from holdfast.server.threads import Work, in_thread
from holdfast.wire.basics import ProblemAnswer

Paths = str | list[str]
Declare = Callable[[Callable[..., Any]], HTTPRouteHandler]

_PROBLEMS: Final = {
    400: "The request is wrong.",
    401: "There is no key, or it opens nothing.",
    403: "The key is not for this.",
    404: "There is no such thing.",
    405: "There is no such method here.",
    409: "The world moved, or disagrees.",
    413: "It is too large, or there is no room for it.",
    416: "The file has no such part.",
    422: "A part of the request does not fit.",
    429: "The key made too many requests.",
    500: "The server failed.",
    501: "This server does not do that.",
    503: "Something that the server stands on is not there.",
    507: "The disk is full.",
}

_RESPONSES: Final = {
    status: ResponseSpec(ProblemAnswer, description=description, generate_examples=False)
    for status, description in _PROBLEMS.items()
}


def get(path: Paths, *, status: int = 200, **options: object) -> Declare:
    """Declares a route that reads."""
    return _declared(_get, path, status, options)


def post(path: Paths, *, status: int = 200, **options: object) -> Declare:
    """Declares a route that makes or does something."""
    return _declared(_post, path, status, options)


def put(path: Paths, *, status: int = 200, **options: object) -> Declare:
    """Declares a route that replaces something."""
    return _declared(_put, path, status, options)


def patch(path: Paths, *, status: int = 200, **options: object) -> Declare:
    """Declares a route that changes a part of something."""
    return _declared(_patch, path, status, options)


def delete(path: Paths, *, status: int = 200, **options: object) -> Declare:
    """Declares a route that takes something away."""
    return _declared(_delete, path, status, options)


def _declared(
    verb: Callable[..., Any], path: Paths, status: int, options: dict[str, Any]
) -> Declare:
    def declare(function: Callable[..., Any]) -> HTTPRouteHandler:
        summary, _, more = (function.__doc__ or "").partition("\n")
        topic = function.__module__.rpartition(".")[2]
        threads, is_async = dict[str, Any](), options.pop("is_async", False)
        opt = {**options.pop("opt", {})}
        if not is_async:
            function = _encoded(function, status, is_secret=bool(opt.get("secret")))
        if not options.pop("in_thread", True):
            threads["sync_to_thread"] = False
        elif not is_async:
            work = options.pop("work", Work.QUICK)
            opt.setdefault("claimed", work is not Work.QUICK)
            function = _in_thread(function, work)
        responses = {key: told for key, told in _RESPONSES.items() if key != status}
        if "body" in options:
            opt["body"] = options.pop("body")
        handler = verb(
            path,
            status_code=status,
            summary=summary.strip(),
            description=_dedented(more) or None,
            operation_id=_operation_ids(path, f"{topic}_{function.__name__}"),
            tags=[topic],
            responses=responses,
            opt=opt,
            **threads,
            **options,
        )
        return handler(function)

    return declare


def encoded(make: Callable[[], object], *, status: int = 200, is_secret: bool = False) -> Any:  # noqa: ANN401 - as any route
    """Returns an answer as JSON, in the thread that made it, and not by who answers all.

    Of a request that bears a name, it is kept together with what was done.
    """

    def run() -> object:
        answer = make()
        is_json = isinstance(answer, msgspec.Struct | list)
        return answers.encode(cast("object", answer)) if is_json else answer

    return kept_with_work(run, status=status, is_secret=is_secret)


def _encoded(function: Callable[..., Any], status: int, *, is_secret: bool) -> Callable[..., Any]:
    """Returns a route whose answer is encoded where it is made."""

    @wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - any route
        make = partial(function, *arguments, **named)
        return encoded(make, status=status, is_secret=is_secret)

    return run


def _in_thread(function: Callable[..., Any], work: Work) -> Callable[..., Any]:
    """Returns a route that runs in a thread that its caller's tenant has for such work."""

    @wraps(function)
    async def run(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - any route
        return await in_thread(partial(function, *arguments, **named), work=work)

    return run


def _operation_ids(path: Paths, name: str) -> Any:  # noqa: ANN401 - Litestar's own type
    """Returns the id of a route's operation; each of several paths has its own."""
    if isinstance(path, str) or len(path) == 1:
        return name

    def of(_handler: HTTPRouteHandler, _method: object, components: Sequence[object]) -> str:
        words = [str(getattr(part, "name", part)) for part in components]
        return "_".join([name, *words])

    return of


def _dedented(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())
