"""What operators see: a request id, a line in the log, metrics, spans and rate headers.

Stands around everything, also around what no route answers. A line of the log says who asked for
what and how it went; never a key, a body, a query or a file's content.

Where the log goes, and what of it: a line for each thing, on stderr.

Requests are JSON in a line of their own, for programs to read; the rest is for people. Nothing logs
a key, a body or a query.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, TextIO

import msgspec
from opentelemetry import trace
from prometheus_client import Counter, Histogram

from holdfast.server.asgi import Header
from holdfast.server.callers import CONSOLE
from holdfast.server.rates import Rates
from holdfast.server.requests import Request
from holdfast.server.responses import Response, Stream

access = logging.getLogger("holdfast.access")
tracer = trace.get_tracer("holdfast.server")

Kind = tuple[str, str, int]
"""Method, route and status of a request."""

_to_json = msgspec.json.Encoder().encode
_chance: Final = random.Random()  # noqa: S311 - tells requests apart, and nothing depends on it
"""Seeded by the system once. To ask it each time lets go of the interpreter's lock, for which the
loop then waits behind whoever computes: a tenth of all that it did beside a busy tenant."""

_LONGEST_ID: Final = 64
_SECOND_NS: Final = 1_000_000_000
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

REQUESTS: Final = Counter(
    "holdfast_requests_total", "Requests by route and status.", ("method", "route", "status")
)
SECONDS: Final = Histogram(
    "holdfast_request_seconds",
    "How long requests took.",
    ("method", "route"),
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)


GUARD: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
)
_GUARD_OF_STORED: Final = (*GUARD, (b"content-disposition", b"attachment"))
_OUR_OWN: Final = ("application/json", "text/")
"""Types of what we say ourselves; of any other type are bytes that somebody stored."""


def _nothing(_: int, /) -> Sequence[Header]:
    return ()


class Observer:
    """Watches the requests of one application; `beside` is what else every answer says."""

    def __init__(self, rates: Rates, beside: Callable[[int], Sequence[Header]] = _nothing) -> None:
        self._rates, self._beside = rates, beside
        # Spans cost time, and without a provider nobody ever sees one.
        provider = trace.get_tracer_provider()
        self.has_spans = not isinstance(provider, trace.ProxyTracerProvider)
        self._counted = dict[Kind, tuple[Counter, Histogram]]()
        """What counts requests of a kind: to look it up takes longer than to count."""

    def headers(self, request: Request, response: Response | Stream, begun: int) -> list[Header]:
        """Returns what every answer says, beside what the answer itself does."""
        usual = GUARD if response.media_type.startswith(_OUR_OWN) else _GUARD_OF_STORED
        return [
            *(response.guard or usual),
            (b"x-request-id", request.id.encode()),
            *self._beside(begun),
            *self._rates.headers(request.caller),
        ]

    def note(self, request: Request, status: int, begun: int) -> None:
        """Counts a request that is over, and writes its line."""
        seconds = (time.monotonic_ns() - begun) / _SECOND_NS
        # A method is any word that a client chose: unknown ones would fill the memory.
        method = request.method if request.method in _METHODS else "other"
        kind = (method, request.template or "unknown", status)
        if self.has_spans:
            span = trace.get_current_span()
            span.update_name(f"{kind[0]} {kind[1]}")
            span.set_attributes({"http.route": kind[1], "http.response.status_code": status})
        counted = self._counted.get(kind)
        if counted is None:
            counted = self._counted[kind] = (REQUESTS.labels(*kind), SECONDS.labels(*kind[:2]))
        counted[0].inc()
        counted[1].observe(seconds)
        if access.isEnabledFor(logging.INFO):
            tell(access, _line(request, kind, seconds))


def _line(request: Request, kind: Kind, seconds: float) -> str:
    caller, (method, route, status) = request.caller, kind
    told: dict[str, object] = {
        "request_id": request.id,
        "method": method,
        "route": route,
        "status": status,
        "ms": round(seconds * 1000, 2),
        "key": None if caller is None else caller.key.id,
        "workspace": None if caller is None else caller.vault.tenant_id,
    }
    if caller is not None and caller.is_signed_in is not None:
        told["via"] = CONSOLE
    return _to_json(told).decode()


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Returns the id that a client gave its request, if it is one; else a new one."""
    for name, value in headers:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            if 0 < len(text) <= _LONGEST_ID and text.isascii() and text.replace("-", "").isalnum():
                return text
    return f"req_{_chance.getrandbits(64):016x}"


FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"

TOGETHER_S: Final = 0.1
"""Lines of requests are written together, so often. Each by itself would let go of the
interpreter's lock, for which the loop then waits behind whoever computes: a fifth of all that it
did beside a busy tenant."""


class _Lines(logging.Formatter):
    """Writes a line of the log; the date and the second once for all lines of that second."""

    def __init__(self) -> None:
        super().__init__(FORMAT)
        self._second, self._shown = 0, ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - as its base has it
        """Returns when it was said."""
        return self.moment(record.created)

    def moment(self, now: float) -> str:
        """Returns an instant as it stands in a line."""
        second = int(now)
        if second != self._second:
            self._second = second
            self._shown = time.strftime(self.default_time_format, time.localtime(second))
        return f"{self._shown},{int((now - second) * 1000):03}"


class Together(logging.StreamHandler[TextIO]):
    """Writes what is said in a while together; warnings, and where no loop runs, at once."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.form = _Lines()
        self._lines = list[str]()
        self._is_coming = False

    def tell(self, name: str, text: str) -> None:
        """Keeps a line of a request for a moment, as `emit` would that of a record."""
        self.acquire()
        try:
            moment = self.form.moment(time.time())
            self._lines.append(f"{moment} INFO {name} {text}{self.terminator}")
        finally:
            self.release()
        if not self._comes_later():
            with suppress(OSError, ValueError):  # As with `emit`: a request does not fail for it.
                self.flush()

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a line for a moment, or writes it with those that were kept before it."""
        try:
            self._lines.append(self.format(record) + self.terminator)
            if record.levelno >= logging.WARNING or not self._comes_later():
                self.flush()
        except Exception:  # noqa: BLE001 - as all handlers do: what is logged must not fail for it
            self.handleError(record)

    def flush(self) -> None:
        """Writes what was kept."""
        self.acquire()
        try:
            lines, self._lines = self._lines, []
            if lines:
                self.stream.write("".join(lines))
            super().flush()
        finally:
            self.release()

    def _comes_later(self) -> bool:
        """Sees to it that the loop writes soon; says whether there is one to do so."""
        if self._is_coming:
            return True
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        loop.call_later(TOGETHER_S, self._come)
        self._is_coming = True
        return True

    def _come(self) -> None:
        self._is_coming = False
        self.flush()


def tell(logger: logging.Logger, text: str) -> None:
    """Says something, as `info` does; where only we listen, without making a record for it."""
    handlers = logging.root.handlers
    first = handlers[0] if len(handlers) == 1 else None
    above = logger.parent or logging.root
    is_ours = not (logger.handlers or logger.filters or (above.handlers and above.parent))
    if is_ours and isinstance(first, Together) and not first.filters:
        first.tell(logger.name, text)
    else:
        # As `info` does, but for looking up from where it was called.
        logger.handle(logging.LogRecord(logger.name, logging.INFO, "", 0, text, (), None))


def _is_news(record: logging.LogRecord) -> bool:
    """Says whether a line tells something: not where a request ended that a stop has given up.

    How many those are stands in a line of its own.
    """
    failure = None if record.exc_info is None else record.exc_info[1]
    return not isinstance(failure, asyncio.CancelledError)


def log_to(stream: TextIO, *, logs_requests: bool = True) -> None:
    """Lets the log of this process be written to a stream: all of it, or what went wrong."""
    handler = Together(stream)
    handler.setFormatter(handler.form)
    # Nothing of that stands in a line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    logging.getLogger("holdfast").setLevel(logging.INFO if logs_requests else logging.WARNING)
