"""One call as a conversation with a server: tried, tried again where that is safe, read.

A generator that never waits itself: it yields requests and is sent responses, and yields numbers
of seconds to let pass. Who drives it decides how (`sending.py` waits, `awaiting.py` awaits).

What may be repeated: whatever changes nothing, whatever bears an Idempotency-Key, since the
server answers a name that it knows without doing anything twice, and anything that never left.
"""

import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from functools import cache
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeVar, cast
from urllib.parse import quote

import httpx2
import msgspec

from holdfast.errors import (
    Incompatible,
    InvalidValue,
    RequestRunning,
    Unavailable,
    Unreachable,
    shorten,
)
from holdfast.jsontext import is_whole, to_json
from holdfast.sdk.calls import Call
from holdfast.sdk.content import Content
from holdfast.sdk.lines import Line
from holdfast.sdk.patience import Patience
from holdfast.sdk.problems import UNREADABLE, absence_of, error_of
from holdfast.wire import MAX_NAMED_BYTES

T = TypeVar("T")

CHANGING: Final = frozenset({"POST", "PATCH", "PUT", "DELETE"})
CONNECT_S: Final = 10.0
"""Who does not take a connection within that time is not there."""

BUSY: Final = 429
AGAIN: Final = frozenset({BUSY, 502, 503, 504})

Body = Callable[[Content], Iterator[bytes] | AsyncIterator[bytes]]


class Pause(NamedTuple):
    """Time to let pass before the next attempt."""

    seconds: float


Conversation = Generator[httpx2.Request | Pause, httpx2.Response, T]


def conversation(
    http: httpx2.Client | httpx2.AsyncClient, line: Line, call: Call[T], *, body_of: Body
) -> Conversation[httpx2.Response]:
    """Sends a call until it is answered well; raises what the server says otherwise.

    The driver throws what goes wrong on the way into it.
    """
    body = None if call.body is None else _encoded(call.body)
    name = _name_for(call, body)
    _check_characters(call)
    patience = Patience(line)
    while True:
        if http.is_closed:
            raise _closed()
        patience.begin()
        try:
            response = yield _request(http, line, call, name=name, body=body, body_of=body_of)
        except httpx2.RequestError as exc:
            pause_s = patience.pause() if _may_repeat(call, name, exc) else None
            if pause_s is None:
                # What the HTTP library went through says nothing more, on sixty lines.
                raise _unreachable(line, exc) from None
        else:
            line.answered.set()
            if response.is_success or not _is_passing(call, name, response):
                return response
            pause_s = patience.pause(asked_s=_asked_pause(response))
            if pause_s is None:
                return response
        yield Pause(pause_s)


def answer_of(call: Call[T], response: httpx2.Response) -> T:
    """Returns what an answer says; raises what went wrong."""
    if not response.is_success:
        raise refusal_of(response)
    is_part = response.status_code == HTTPStatus.PARTIAL_CONTENT
    read = call.read if is_part else call.read_all or call.read
    try:
        return read(response.content)
    except UNREADABLE as exc:
        message = f"{call.method} {call.path} was answered with something else: {exc}"
        raise Incompatible(message) from exc


def refusal_of(response: httpx2.Response) -> Exception:
    """Returns what went wrong, as an error."""
    request_id = response.headers.get("x-request-id")
    if response.has_redirect_location:
        # Never followed: whoever is there would be shown the key.
        elsewhere = shorten(response.headers["location"])
        status = response.status_code
        error = Unreachable(f"the server answered {status}, go to {elsewhere}: pass that as url=")
        error.http_status = status
        return error
    return error_of(response.status_code, response.content, request_id=request_id)


def _request(
    http: httpx2.Client | httpx2.AsyncClient,
    line: Line,
    call: Call[Any],
    *,
    name: str | None,
    body: bytes | None,
    body_of: Body,
) -> httpx2.Request:
    headers = {**line.headers, **call.headers}
    if call.method in CHANGING and (within := (*line.door.within(), *call.within)):
        headers["X-Task"] = " ".join(within)
    if name is not None:
        headers["Idempotency-Key"] = name
    if call.is_resumable:
        headers["Accept-Encoding"] = "identity"  # An offset is one of the content itself.
    content: Any = None
    if call.content is not None:
        headers.setdefault("Content-Type", "application/octet-stream")
        size = call.content.measure()
        if size is not None:
            headers["Content-Length"] = str(size)
        content = body_of(call.content)
    elif body is not None:
        headers["Content-Type"] = "application/json"
        content = body
    connect_s = min(line.timeout_s, CONNECT_S)
    patience_s = call.patience_s if call.is_slow else line.timeout_s
    timeout = httpx2.Timeout(patience_s, connect=connect_s)
    try:
        return http.build_request(
            call.method,
            line.url + _path(call),
            params=_query(call),
            # Names of namespaces and files may be in any script.
            headers={name.encode(): value.encode() for name, value in headers.items()},
            content=content,
            timeout=timeout,
        )
    except httpx2.InvalidURL as exc:
        message = f"{call.method} {call.path} cannot be asked: {exc}"
        raise InvalidValue(message) from exc


def _path(call: Call[Any]) -> str:
    """Returns the path with its names filled in, none of which reaches beyond its own part."""
    for key, value in call.place.items():
        if not value or "/" in value or value in {".", ".."}:
            raise absence_of(key, value)
    return call.path.format_map({key: quote(value, safe="") for key, value in call.place.items()})


def _query(call: Call[Any]) -> dict[str, Any] | None:
    given = {name: value for name, value in call.query.items() if value is not None}
    return given or None


def _encoded(body: object) -> bytes:
    """Returns a body as JSON; raises `Unencodable` where it would say something else.

    Parts that are anybody's (a state, metadata) come back as they are or do not leave at all, as
    in process: JSON of its own accord makes null of NaN, and text of a number that is a key.
    """
    if not isinstance(body, msgspec.Struct):
        return to_json(body)
    parts, anybodys = list[bytes](), _anybodys(type(body))
    for name, shown in zip(body.__struct_fields__, body.__struct_encode_fields__, strict=True):
        value: Any = getattr(body, name)
        if value is msgspec.UNSET:
            continue
        is_anybodys = type(value) is dict or name in anybodys
        try:
            text = to_json(cast("object", value)) if is_anybodys else msgspec.json.encode(value)
        except UnicodeEncodeError as exc:
            raise _half_a_character(shown) from exc
        parts.append(msgspec.json.encode(shown) + b":" + text)
    return b"{" + b",".join(parts) + b"}"


@cache
def _anybodys(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Returns the fields that hold any JSON, and not only objects."""
    return frozenset(each.name for each in msgspec.structs.fields(kind) if each.type is Any)


def _check_characters(call: Call[Any]) -> None:
    """Raises `InvalidValue` for text that has no bytes on the wire."""
    for part in (call.place, call.query, call.headers):
        for name, value in part.items():
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str) and not is_whole(text):
                    raise _half_a_character(name)
    for name, value in call.headers.items():
        if not value.isprintable() or value != value.strip():
            message = f"{name} is printable text without spaces around it"
            raise InvalidValue(message)


def _half_a_character(name: str) -> InvalidValue:
    return InvalidValue(f"{name} holds half a character, or a name that is not UTF-8")


def _name_for(call: Call[Any], body: bytes | None) -> str | None:
    """Returns the name under which the server knows a request again; None if it takes none."""
    if call.method not in CHANGING or call.is_reading or call.is_harmless or call.is_single:
        return None  # What is read is not kept for who asks again.
    size: int | None = 0 if body is None else len(body)
    if call.content is not None:
        # Compared with what comes under the same name again: it has to be the same then.
        size = call.content.measure() if call.content.is_fixed else None
    return None if size is None or size > MAX_NAMED_BYTES else uuid.uuid4().hex


def _may_repeat(call: Call[Any], name: str | None, error: httpx2.RequestError) -> bool:
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
        return False  # Of our own making: it would be the same again.
    if call.content is not None and not call.content.is_repeatable:
        return False
    never_left = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
    return never_left or name is not None or _is_harmless(call)


def _is_harmless(call: Call[Any]) -> bool:
    """Says whether doing it twice is as doing it once: it reads, or puts the same file again."""
    is_reading = call.is_reading or call.method == "GET"
    is_same_file = call.method == "PUT" and call.content is not None and not call.is_conditional
    return is_reading or is_same_file or call.is_harmless


def _is_passing(call: Call[Any], name: str | None, response: httpx2.Response) -> bool:
    """Says whether a refusal may be gone the next time."""
    if call.content is not None and not call.content.is_repeatable:
        return False
    if response.status_code in AGAIN:
        return response.status_code == BUSY or name is not None or _is_harmless(call)
    said = error_of(response.status_code, response.content)
    return name is not None and isinstance(said, RequestRunning)


def _asked_pause(response: httpx2.Response) -> float | None:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


def _closed() -> Unavailable:
    error = Unavailable("the client is closed")
    error.hint = "Make another client; those for other namespaces close with the one they are of."
    return error


def _unreachable(line: Line, error: httpx2.RequestError) -> Unreachable:
    what = "did not answer in time" if isinstance(error, httpx2.TimeoutException) else str(error)
    return Unreachable(f"{line.url}: {what or type(error).__name__}")
