"""Errors as answers: a body that both kinds of clients understand.

Every body has an `error` object. For clients of files and snapshots there is a sentence in
`detail`, first and short, since some print the beginning of the body. Clients of sessions expect
a list there, and only where a request did not fit. No traceback ever leaves the server.
"""

import logging
from collections.abc import Sized
from typing import Any, Final

import msgspec

from holdfast.errors import Conflict, HoldfastError, Invalid, MergeConflict
from holdfast.server.problems import (
    FAULT,
    NoMethod,
    NotBuilt,
    Refused,
    Unauthorized,
    Unfit,
    is_for_sessions,
    status_of,
    type_of,
)
from holdfast.server.requests import Request
from holdfast.server.responses import Response
from holdfast.wire.basics import Problem, ProblemAnswer
from holdfast.wire.storevalues import to_json

logger = logging.getLogger("holdfast.server")

INTERNAL: Final = "internal_error"
"""The code of what is answered where no error of ours was raised."""

_DATABASES: Final = frozenset({"sqlite3", "psycopg", "psycopg_pool"})

_MEANT: Final[dict[type[HoldfastError], str]] = {
    Invalid: "a value is one that no database holds",
    Conflict: "somebody else changed the same at the same time",
    HoldfastError: "the database did not do it; the server's log says why",
}

_PLAIN: Final = (str, bytes, list, tuple)
LONGEST_VALUE: Final = 4096
"""Characters, bytes or items of a value that an answer repeats: what the longest path has."""

_CODES_OF_SESSIONS: Final = {400: "invalid_request", 413: "payload_too_large"}
"""What clients of sessions know some answers by, whatever went wrong in detail."""


def answer_to(request: Request, error: Exception) -> Response:
    """Returns what a request is answered that has failed."""
    return _known(request, error) if isinstance(error, HoldfastError) else _fault(request, error)


def _known(request: Request, error: HoldfastError) -> Response:
    """Answers an error that was raised on purpose."""
    status = status_of(error)
    # The server's own fault, which its operator has to know; what it does not do is none.
    if status >= FAULT and not isinstance(error, NotBuilt):
        logger.error("%s: %s (request %s)", error.code, error, request.id, exc_info=error)
    problem = _problem_of(error)
    if is_for_sessions(request.path):
        if not isinstance(error, Refused) and status in _CODES_OF_SESSIONS:
            problem.cause, problem.code = problem.code, _CODES_OF_SESSIONS[status]
        if status == Unfit.http_status:
            status = request.services.config.validation_status
    headers = error.headers if isinstance(error, NoMethod) else {}
    return _answer(request, status, problem, headers, param=getattr(error, "param", None))


def _fault(request: Request, error: Exception) -> Response:
    """Answers a fault of ours: the log has it whole, the client an id to ask about."""
    logger.error("a request failed (request %s)", request.id, exc_info=error)
    problem = Problem(
        code=INTERNAL,
        message="the server failed; its log says why",
        suggestion="Retry; if it stays, give the request id to the server's operator.",
    )
    return _answer(request, FAULT, problem, {})


def _answer(
    request: Request,
    status: int,
    problem: Problem,
    headers: dict[str, str],
    *,
    param: str | None = None,
) -> Response:
    problem.type = type_of(status)
    problem.param = param
    problem.request_id = request.id
    detail: str | list[dict[str, Any]] | None = problem.message
    if is_for_sessions(request.path):
        is_unfit = problem.code == Unfit.code and status in (400, Unfit.http_status)
        place = [_place_of(request, param), *([param] if param else [])]
        detail = (
            [{"loc": place, "msg": problem.message, "type": "value_error"}] if is_unfit else None
        )
    if problem.retry_after is not None:
        headers["Retry-After"] = str(problem.retry_after)
    if status == Unauthorized.http_status:
        headers["WWW-Authenticate"] = "Bearer"
    body = msgspec.json.encode(ProblemAnswer(detail=detail, error=problem))
    return Response(body, status=status, headers=headers)


def _place_of(request: Request, param: str | None) -> str:
    """Returns where the part of a request is that did not fit."""
    return "query" if param in dict(request.query) else "body"


def _message_of(error: HoldfastError) -> str:
    """Returns what is said of an error: not what a database says, which names its tables."""
    cause = type(error.__cause__).__module__.partition(".")[0]
    if cause in _DATABASES:
        logger.warning("%s: %s", error.code, error)
        return _MEANT[next((kind for kind in _MEANT if isinstance(error, kind)), HoldfastError)]
    return str(error)


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
        suggestion=error.hint or None,
        retry_after=getattr(error, "retry_after", None),
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
