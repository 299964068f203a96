"""Errors as answers, in a body that every client understands.

Every body has an `error` object, and a sentence in `detail`, first and short: who prints the
beginning of it prints that. Whoever serves clients that expect something else there passes what
says it their way. No traceback ever leaves the server.
"""

import logging
import time
from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from holdfast.errors import (
    Conflict,
    HoldfastError,
    Invalid,
    MergeConflict,
    NotBuilt,
    StorageFull,
    Unavailable,
)
from holdfast.model.values import to_json
from holdfast.operations.forms import Place
from holdfast.server.problems import (
    FAULT,
    NoMethod,
    Refused,
    Unauthorized,
    status_of,
    type_of,
)
from holdfast.server.requests import Request
from holdfast.server.responses import Response
from holdfast.wire import Problem, ProblemAnswer

logger = logging.getLogger("holdfast.server")

INTERNAL: Final = "internal_error"
"""The code of what is answered where no error of ours was raised."""

_DATABASES: Final = frozenset({"sqlite3", "psycopg"})

_MEANT: Final[dict[type[HoldfastError], str]] = {
    Invalid: "a value is one that no database holds",
    Conflict: "somebody else changed the same at the same time",
    HoldfastError: "the database did not do it; the server's log says why",
}

_STORE: Final = "obstore"
_AWAY: Final = "the place of large contents did not do it; the server's log says why"

_SOON: Final[dict[type[HoldfastError], int]] = {Unavailable: 1}
"""After how many seconds it is worth another attempt. Not what may have happened, nor what waits
for somebody."""

_QUIET_S: Final = 1.0
"""How often it is said that something is away: of a thousand refused requests, once is enough."""

_told = dict[str, float]()
"""When each was said last, by its code."""

_FULL: Final = "the server has no room on its disk for this; its log says how much there is"

_PLAIN: Final = (str, bytes, list, tuple)
LONGEST_VALUE: Final = 4096
"""Characters, bytes or items of a value that an answer repeats: what the longest path has."""


@dataclass(slots=True)
class Failure:
    """What a request is told that has failed."""

    path: str
    status: int
    problem: Problem
    detail: str | list[dict[str, Any]] | None
    error: Exception | None = None
    """What was raised; None where nothing was, since the request could not even be read."""
    place: str = Place.BODY
    """Where the part is that did not fit: in the query, a header, or the body."""

    def encode(self) -> bytes:
        """Returns the body that tells it."""
        self.problem.type = type_of(self.status)
        return msgspec.json.encode(ProblemAnswer(detail=self.detail, error=self.problem))


Rephrase = Callable[[Failure], None]
"""Says it as other clients expect it, where those ask."""


def say_plainly(_: Failure, /) -> None:
    """Leaves it as it is said."""


def answer_to(request: Request, error: Exception, rephrase: Rephrase = say_plainly) -> Response:
    """Returns what a request is answered that has failed."""
    if isinstance(error, HoldfastError):
        status, problem = status_of(error), _problem_of(error)
        # The server's own fault, which its operator has to know; what it does not do is none, nor
        # what it refuses of its own accord.
        if status >= FAULT and not isinstance(error, NotBuilt | Refused):
            _tell_operator(error, request)
    else:
        status, problem = FAULT, _fault()
        logger.error("a request failed (request %s)", request.id, exc_info=error)
    problem.request_id = request.id
    failure = Failure(request.path, status, problem, problem.message, error)
    failure.place = _place_of(request, problem.param)
    rephrase(failure)
    return Response(failure.encode(), status=failure.status, headers=_headers(failure))


def _place_of(request: Request, param: str | None) -> str:
    """Returns where a part of a request is: of one that has no body, in the query."""
    if param is not None and param in dict(request.query):
        return Place.QUERY
    if param is not None and param.lower().encode() in request.headers:
        return Place.HEADER
    return Place.QUERY if request.method in ("GET", "DELETE") else Place.BODY


def _tell_operator(error: HoldfastError, request: Request) -> None:
    """Says what went wrong; what is away, and will be for every request, once in a while."""
    if not isinstance(error, Unavailable):
        logger.error("%s: %s (request %s)", error.code, error, request.id, exc_info=error)
        return
    now = time.monotonic()
    if now - _told.get(error.code, -_QUIET_S) >= _QUIET_S:
        _told[error.code] = now
        # Where it was raised says no more than that: it is the same for each.
        logger.error("%s: %s (request %s)", error.code, error, request.id)


def _headers(failure: Failure) -> dict[str, str]:
    headers = failure.error.headers if isinstance(failure.error, NoMethod) else {}
    if failure.problem.retry_after is not None:
        headers["Retry-After"] = str(failure.problem.retry_after)
    if failure.status == Unauthorized.http_status:
        headers["WWW-Authenticate"] = "Bearer"
    return headers


def _fault() -> Problem:
    """Tells a fault of ours: the log has it whole, the client an id to ask about."""
    return Problem(
        code=INTERNAL,
        message="the server failed; its log says why",
        suggestion="Retry; if it stays, give the request id to the server's operator.",
    )


def _message_of(error: HoldfastError) -> str:
    """Returns what is said of an error.

    Not what a database says, which names its tables; nor where our disks and our bucket are, and
    how full.
    """
    if isinstance(error, StorageFull):
        return _FULL
    cause = type(error.__cause__).__module__.partition(".")[0]
    if cause not in (*_DATABASES, _STORE):
        return str(error)
    logger.warning("%s: %s", error.code, error)
    if cause == _STORE:
        return _AWAY
    return _MEANT[next((kind for kind in _MEANT if isinstance(error, kind)), HoldfastError)]


def _problem_of(error: HoldfastError) -> Problem:
    conflicts = None
    if isinstance(error, MergeConflict):
        conflicts = [
            {"plane": plane, "key": key.decode("utf-8", "replace")}
            for plane, key in error.conflicts
        ]
    return Problem(
        code=error.code,
        message=_message_of(error),
        param=getattr(error, "param", None),
        suggestion=error.hint or None,
        retry_after=_SOON.get(type(error)) if error.retry_after is None else error.retry_after,
        conflicts=conflicts,
        values=_values_of(error) or None,
    )


def _values_of(error: HoldfastError) -> dict[str, Any]:
    """Returns what an error carries, as far as it is plain: another program can read it, too."""
    told: dict[str, object] = {
        name: value for name, value in vars(error).items() if not name.startswith("_")
    }
    return {name: to_json(value) for name, value in told.items() if _is_told(value)}


def _is_told(value: object) -> bool:
    """Says whether a value is plain, and not so long that repeating it helps nobody."""
    if isinstance(value, Sized):
        return len(value) <= LONGEST_VALUE and isinstance(value, _PLAIN)
    return isinstance(value, int)
