"""Errors as answers: which status, and a body that both kinds of clients understand.

Every body has an `error` object. For clients of files and snapshots there is a sentence in
`detail`, first and short, since some print the beginning of the body. Clients of sessions expect
a list there, and only where a request did not fit. No traceback ever leaves the server.
"""

import logging
from collections.abc import Sized
from typing import Any, Final, cast

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, InternalServerException, ValidationException
from litestar.types import Scope

from holdfast.errors import (
    Busy,
    Conflict,
    Denied,
    DirectoryRefused,
    HoldfastError,
    Incompatible,
    Invalid,
    LimitExceeded,
    MergeConflict,
    NotFound,
    QuotaExceeded,
    StorageFull,
    TooLarge,
    Unavailable,
    shorten,
)
from holdfast.wire.basics import Problem, ProblemAnswer
from holdfast.wire.storevalues import to_json

logger = logging.getLogger("holdfast.server")

SESSION_GROUPS: Final = ("sessions", "memories", "memory", "traces", "entities", "dashboard")
"""The first words of routes whose clients expect the other shape of errors."""

_STATUSES: Final[tuple[tuple[type[HoldfastError], int], ...]] = (
    (QuotaExceeded, 413),
    (TooLarge, 413),
    (StorageFull, 507),
    (LimitExceeded, 413),
    (NotFound, 404),
    (Denied, 403),
    (Busy, 409),
    (DirectoryRefused, 400),
    (Conflict, 409),
    (Invalid, 400),
    (Unavailable, 503),
    (Incompatible, 500),
)
"""The first that an error is one of counts."""

FAULT: Final = 500
"""From here on it is the server's own fault."""

_GONE: Final = "client disconnected"
"""What the framework says of a client that went away in the middle of its body."""

_DATABASES: Final = frozenset({"sqlite3", "psycopg", "psycopg_pool"})

_MEANT: Final[dict[type[HoldfastError], str]] = {
    Invalid: "a value is one that no database holds",
    Conflict: "somebody else changed the same at the same time",
    HoldfastError: "the database did not do it; the server's log says why",
}

_PLAIN: Final = (str, bytes, list, tuple)
LONGEST_VALUE: Final = 4096
"""Characters, bytes or items of a value that an answer repeats: what the longest path has."""

_NO_BODY: Final = "'data'"
"""What the framework says where a body is missing."""

CODES_OF_FRAMEWORK: Final = {
    404: "resource_not_found",
    405: "method_not_allowed",
    413: "payload_too_large",
    500: "internal_error",
}
"""What is answered where no error of ours was raised."""

_CODES_OF_SESSIONS: Final = {400: "invalid_request", 413: "payload_too_large"}
"""What clients of sessions know some answers by, whatever went wrong in detail."""

_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    409: "conflict_error",
    429: "rate_limit_error",
}


class Refused(HoldfastError):
    """What the server itself refuses, before an engine is asked."""

    http_status = 400


class Unauthorized(Refused):
    """There is no key, or it opens nothing."""

    code = "authentication_failed"
    hint = "Send a key that is valid: `Authorization: Bearer KEY` or `X-API-Key: KEY`."
    http_status = 401


class Forbidden(Refused):
    """The key is valid, and not for this."""

    code = "permission_denied"
    hint = "Use a key of the scope that this needs."
    http_status = 403


class UnknownWorkspace(Refused):
    """There is no such workspace, or the key is not of it."""

    code = "workspace_not_found"
    hint = "GET /v1/me says which workspace a key belongs to."
    http_status = 404

    def __init__(self, workspace_id: str) -> None:
        super().__init__(f"there is no workspace {shorten(workspace_id)}")


class MissingNamespace(Refused):
    """A request of an unlocked key that does not say which namespace it means."""

    code = "missing_namespace"
    hint = "Send the header X-Namespace (a client's namespace=), or use a key for one namespace."

    def __init__(self) -> None:
        super().__init__("the header X-Namespace is missing: it says which namespace is meant")


class Unfit(Refused):
    """A request whose parts are not what they should be."""

    code = "invalid_request"
    hint = "Change the request: the message says what is wrong with it."
    http_status = 422

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class RangeUnfit(Refused):
    """A part of a file is asked for that it does not have."""

    code = "range_not_satisfiable"
    hint = "Ask for all of it, or from an offset below its size."
    http_status = 416

    def __init__(self, size: int) -> None:
        super().__init__(f"the file has {size} bytes: there is nothing at that offset")


class ContentTooLarge(Refused):
    """A memory that is longer than memories are."""

    code = "content_too_large"
    hint = "Remember the gist of it, or several memories."
    http_status = 413

    def __init__(self, most: int) -> None:
        super().__init__(f"a memory has {most} characters at the most")


class NotBuilt(Refused):
    """Something that this server does not do."""

    code = "not_implemented"
    hint = "Leave it out, or use a server that does it."
    http_status = 501


class RateLimited(Refused):
    """A key that made more requests than it may."""

    code = "rate_limit_exceeded"
    hint = "Wait for as many seconds as `retry_after` says, then go on."
    http_status = 429

    def __init__(self, *, limit: int, retry_after: int) -> None:
        super().__init__(f"this key may make {limit} requests a minute")
        self.retry_after = retry_after


class TooManyAtOnce(Refused):
    """A tenant or a key that has as much under way as it may."""

    code = "too_many_at_once"
    hint = "Let what is under way end, or wait for as many seconds as `retry_after` says."
    http_status = 429

    def __init__(self, message: str, *, retry_after: int = 5) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def answer_known(request: "Request[Any, Any, Any]", error: HoldfastError) -> Response[bytes]:
    """Answers an error that was raised on purpose."""
    status = status_of(error)
    # The server's own fault, which its operator has to know; what it does not do is none.
    if status >= FAULT and not isinstance(error, NotBuilt):
        logger.error("%s: %s", error.code, error, exc_info=error)
    problem = _problem_of(error)
    if is_for_sessions(request.scope["path"]):
        if not isinstance(error, Refused) and status in _CODES_OF_SESSIONS:
            problem.cause, problem.code = problem.code, _CODES_OF_SESSIONS[status]
        if status == Unfit.http_status:
            status = request.app.state.config.validation_status
    return _answer(request, status, problem, param=getattr(error, "param", None))


def refusal(scope: Scope, error: Refused) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Returns how a request is answered that is refused before there is a route for it."""
    status, problem = status_of(error), _problem_of(error)
    problem.type, problem.request_id = type_of(status), scope["state"]["request_id"]
    detail = None if is_for_sessions(scope["path"]) else problem.message
    body = msgspec.json.encode(ProblemAnswer(detail=detail, error=problem))
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if problem.retry_after is not None:
        headers.append((b"retry-after", b"%d" % problem.retry_after))
    return status, headers, body


def answer_http(request: "Request[Any, Any, Any]", error: HTTPException) -> Response[bytes]:
    """Answers what the framework refuses: an unknown route, a body that does not fit."""
    if isinstance(error, ValidationException) or error.status_code == Refused.http_status:
        return answer_known(request, Unfit(_sentence(error)))
    if isinstance(error, InternalServerException) and _GONE in error.detail:
        # Nobody reads this answer; it is a number in the log, and no fault of the server's.
        return answer_known(request, Unfit("the body ended before it was complete"))
    problem = Problem(
        code=CODES_OF_FRAMEWORK.get(error.status_code, "invalid_request"),
        message=error.detail or "the request was refused",
    )
    if error.status_code >= FAULT:
        return answer_unknown(request, error)
    response = _answer(request, error.status_code, problem)
    for name, value in (error.headers or {}).items():
        response.set_header(name, value)
    return response


def answer_unknown(request: "Request[Any, Any, Any]", error: Exception) -> Response[bytes]:
    """Answers a fault of ours: the log has it whole, the client an id to ask about."""
    logger.error("a request failed", exc_info=error)
    problem = Problem(
        code=CODES_OF_FRAMEWORK[FAULT],
        message="the server failed; its log says why",
        suggestion="Retry; if it stays, give the request id to the server's operator.",
    )
    return _answer(request, 500, problem)


def status_of(error: HoldfastError) -> int:
    """Returns the status that an error is answered with."""
    if isinstance(error, Refused):
        return error.http_status or 400
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def is_for_sessions(path: str) -> bool:
    """Says whether a route is one whose clients expect a list in `detail`."""
    words = path.strip("/").split("/")
    return words[:1] == ["v1"] and len(words) > 1 and words[1] in SESSION_GROUPS


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


def _answer(
    request: "Request[Any, Any, Any]", status: int, problem: Problem, *, param: str | None = None
) -> Response[bytes]:
    problem.type = type_of(status)
    problem.param = param
    problem.request_id = request.scope["state"].get("request_id")
    detail: str | list[dict[str, Any]] | None = problem.message
    if is_for_sessions(request.scope["path"]):
        is_unfit = problem.code == Unfit.code and status in (400, 422)
        place = [_place_of(request, param), *([param] if param else [])]
        detail = (
            [{"loc": place, "msg": problem.message, "type": "value_error"}] if is_unfit else None
        )
    body = msgspec.json.encode(ProblemAnswer(detail=detail, error=problem))
    response = Response(body, status_code=status, media_type="application/json")
    if problem.retry_after is not None:
        response.set_header("Retry-After", str(problem.retry_after))
    if status == Unauthorized.http_status:
        response.set_header("WWW-Authenticate", "Bearer")
    return response


def type_of(status: int) -> str:
    """Returns the family of what went wrong, by which clients tell whose fault it was."""
    return _TYPES.get(status, "api_error" if status >= FAULT else "invalid_request_error")


def _place_of(request: "Request[Any, Any, Any]", param: str | None) -> str:
    """Returns where the part of a request is that did not fit."""
    return "query" if param is not None and param in request.query_params else "body"


def _sentence(error: HTTPException) -> str:
    """Returns what is wrong, with the places that the framework names."""
    extra = error.extra if isinstance(error, ValidationException) else None
    if isinstance(extra, list) and extra:
        named = [cast("dict[str, object]", part) for part in extra if isinstance(part, dict)]
        if any(part.get("message") == _NO_BODY for part in named):
            return "the request needs a JSON body"
        parts = [f"{part.get('key', '')}: {part.get('message', '')}".strip(": ") for part in named]
        if parts:
            return "; ".join(parts[:3])
    return error.detail or "the request does not fit"
