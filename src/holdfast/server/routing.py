"""How a route is declared: a verb, a path, who may call it, and what kind of work it is.

A route is a plain function: it runs in a thread, its docstring describes it, and its annotations
say what it takes and answers (`parameters`). One that is a coroutine runs in the loop, and so does
one whose `work` is None: it takes no time. A route that reads its body itself says of what type
that is: `body="application/octet-stream"`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from holdfast.operations.forms import NAMES
from holdfast.operations.operation import Who, Work
from holdfast.server.parameters import Parameters
from holdfast.server.responses import JSON, NO_CONTENT, Response

Paths = str | list[str]


class Options(TypedDict, total=False):
    """What a declaration says where it is not as usual."""

    who: Who
    status: int
    work: Work | None
    at_once: Callable[..., object]
    """Answers what takes less time than to wake a thread, with the same parameters; None for what
    does not. It is asked first, in the loop, where the catalog is a file: it reads a few rows."""
    claims: bool
    """Whether the same request twice at once is done one after the other, if it bears a name:
    where the work is not undone with its transaction."""
    is_secret: bool
    """Whether the answer is shown once: it is not kept for who asks again."""
    body: str
    answer: Any
    """The value that it answers, where it returns that as it is written."""
    media_type: str
    headers: Mapping[str, str]
    """What the answer's own headers say."""
    is_spooled: bool
    """Whether it reads its body itself, piece by piece, and says when it is too large."""
    is_described: bool
    """Whether it is part of the description of all routes."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Route:
    """A function that answers requests, and all that is known of it before the first one."""

    method: str
    paths: list[str]
    function: Callable[..., Any]
    parameters: Parameters
    topic: str
    who: Who = Who.AGENT
    status: int = 200
    work: Work | None = Work.QUICK
    at_once: Callable[..., object] | None = None
    claims: bool = False
    is_secret: bool = False
    body: str | None = None
    answer: Any = None
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_spooled: bool = False
    is_described: bool = True
    is_async: bool = False
    is_bulky: bool = False
    """Whether its body holds as much as several files."""
    is_lenient: bool = False
    """Whether clients of others may say what nobody knows."""

    @property
    def name(self) -> str:
        """What it is called among all routes."""
        return f"{self.topic}_{self.function.__name__}"


Declare = Callable[[Callable[..., Any]], Route]


def get(path: Paths, **options: Unpack[Options]) -> Declare:
    """Declares a route that reads."""
    return _declared("GET", path, options)


def post(path: Paths, **options: Unpack[Options]) -> Declare:
    """Declares a route that makes or does something."""
    return _declared("POST", path, options)


def put(path: Paths, **options: Unpack[Options]) -> Declare:
    """Declares a route that replaces something."""
    return _declared("PUT", path, options)


def delete(path: Paths, **options: Unpack[Options]) -> Declare:
    """Declares a route that takes something away."""
    return _declared("DELETE", path, options)


def options(path: Paths, methods: list[str]) -> Route:
    """Returns the route that says which methods a path has."""
    allow = ", ".join(sorted([*methods, "OPTIONS"]))

    def allowed() -> Response:
        return Response(status=NO_CONTENT, headers={"Allow": allow})

    return _declared("OPTIONS", path, {"who": Who.KEY, "work": None, "is_described": False})(
        allowed
    )


def _declared(method: str, path: Paths, options: Options) -> Declare:
    def declare(function: Callable[..., Any]) -> Route:
        paths = [path] if isinstance(path, str) else path
        is_async = inspect.iscoroutinefunction(function)
        is_quick = options.get("work", Work.QUICK) is Work.QUICK and not is_async
        settled: Options = {"claims": not is_quick, **options}
        return Route(
            method=method,
            paths=paths,
            function=function,
            parameters=Parameters(function, NAMES.findall(paths[0])),
            topic=function.__module__.rpartition(".")[2],
            is_async=is_async,
            **settled,
        )

    return declare
