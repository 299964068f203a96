"""Answers that are none: the server's `code` chooses the class, its words become the error.

The classes are those that an engine in the same process would raise, so that a program catches
the same errors whichever door it uses. What a newer server calls by a code that is not known
here is the family that its status stands for.
"""

from typing import Any, Final

import msgspec

from holdfast import errors
from holdfast.errors import HoldfastError
from holdfast.model.values import from_json
from holdfast.wire import ProblemAnswer

_BY_STATUS: Final[dict[int, type[HoldfastError]]] = {
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.NotBuilt,
    409: errors.Conflict,
    413: errors.TooLarge,
    429: errors.RateLimited,
    501: errors.NotBuilt,
    503: errors.Unavailable,
    507: errors.StorageFull,
}
_FAULT: Final = 500
UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding raises for an answer that is none of ours: also for half characters, unknown
words and instants, and for what is nested without end."""

_LONGEST: Final = 300
"""Characters of a body that is no problem of ours which a message repeats."""


def error_of(status: int, body: bytes, *, request_id: str | None = None) -> HoldfastError:
    """Returns what went wrong; `request_id` is what the headers say."""
    try:
        problem = msgspec.json.decode(body, type=ProblemAnswer).error
    except UNREADABLE:
        text = _printable(body[: 4 * _LONGEST].decode("utf-8", "replace")[:_LONGEST].strip())
        message = f"the server answered {status}" + (f": {text}" if text else "")
        return _made(_family_of(status), message, status=status, request_id=request_id)
    kind = _BY_CODE.get(problem.cause or problem.code) or _family_of(status)
    message = _printable(problem.message)
    error = _made(kind, message, status=status, request_id=problem.request_id or request_id)
    hint = _HINTS.get(problem.code, problem.suggestion)
    if hint:
        error.hint = _printable(hint)
    error.retry_after = problem.retry_after
    for name, value in (problem.values or {}).items():
        # The error's own fields, as whoever raised it has set them; never what makes it an error.
        if not name.startswith("_") and not hasattr(HoldfastError, name):
            setattr(error, name, _value(value))
    if isinstance(error, errors.MergeConflict):
        error.conflicts = _conflicts(getattr(error, "conflicts", None), problem.conflicts)
    return error


def absence_of(name: str, value: str) -> HoldfastError:
    """Returns what is raised for an id that cannot be one: it would not be a part of a path."""
    thing = name.removesuffix("_id")
    code = f"{_THINGS.get(thing, thing)}_not_found"
    kind: Any = _BY_CODE.get(code, errors.NotFound) if thing != name else errors.NotFound
    return kind(value)


def _printable(text: str) -> str:
    """Returns what a server says, without what a terminal would take for an order."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def _value(value: object) -> Any:  # noqa: ANN401 - whatever an error carries
    """Returns a value as whoever raised the error knew it; as it came, if it is none."""
    try:
        return from_json(value)
    except UNREADABLE:
        return value


def _conflicts(told: object, legible: list[dict[str, Any]] | None) -> list[tuple[str, bytes]]:
    """Returns what a merge could not decide, as an embedded one names it."""
    try:
        if told is None:  # Where they are too many to be told as they are.
            told = [(each["plane"], each["key"].encode()) for each in legible or ()]
        return msgspec.convert(told, list[tuple[str, bytes]])
    except (*UNREADABLE, KeyError, AttributeError):
        return []


def _made(
    kind: type[HoldfastError], message: str, *, status: int, request_id: str | None
) -> HoldfastError:
    # The sentence is there already: what would write it from values is not asked.
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.http_status, error.request_id = status, request_id
    return error


def _family_of(status: int) -> type[HoldfastError]:
    usual = errors.ServerFault if status >= _FAULT else errors.Invalid
    return _BY_STATUS.get(status, usual)


def _codes() -> dict[str, type[HoldfastError]]:
    found: dict[str, type[HoldfastError]] = {}
    for name in errors.__all__:
        kind: Any = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, HoldfastError):
            found[kind.code] = kind
    return found


_THINGS: Final = {"row": "entity", "delivery": "webhook"}
"""What ids are of that are called otherwise."""

_HINTS: Final = {
    "authentication_failed": errors.Unauthorized.hint,
    "missing_namespace": "Pass namespace=, or set HOLDFAST_NAMESPACE, or use a key for one.",
}
"""What to do in Python, where a server names the headers of a request."""

_BY_CODE: Final = _codes() | {
    # Names that clients of sessions know some answers by.
    "invalid_request": errors.InvalidValue,
    "missing_namespace": errors.InvalidName,
    "payload_too_large": errors.TooLarge,
    "content_too_large": errors.TooLarge,
    "resource_not_found": errors.NotFound,
    "workspace_not_found": errors.NotFound,
    "method_not_allowed": errors.NotBuilt,
}
