"""What operators see: a request id, a line in the log, metrics, spans and rate headers.

Stands around everything, also around what no route answers. A line of the log says who asked for
what and how it went; never a key, a body, a query or a file's content.
"""

import logging
import random
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Final, NamedTuple, Self

import msgspec
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from prometheus_client import Counter, Histogram

from holdfast.instruments import SPANS
from holdfast.server.asgi import Header
from holdfast.server.callers import CONSOLE
from holdfast.server.logs import tell
from holdfast.server.problems import FAULT
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
_LAST: Final[tuple[Header, ...]] = ((b"connection", b"close"),)
_OUR_OWN: Final = ("application/json", "text/")
"""Types of what we say ourselves; of any other type are bytes that somebody stored."""


def _nothing(_path: str, _begun: int, /) -> Sequence[Header]:
    return ()


class Observer:
    """Watches the requests of one application; `beside` is what else an answer at a path says."""

    def __init__(
        self,
        rates: Rates,
        beside: Callable[[str, int], Sequence[Header]] = _nothing,
        *,
        is_leaving: Callable[[], bool] = lambda: False,
        trusts_traces: bool = False,
    ) -> None:
        self._rates, self._beside, self._is_leaving = rates, beside, is_leaving
        self._trusts_traces = trusts_traces
        # Spans cost time, and without a provider nobody ever sees one.
        provider = trace.get_tracer_provider()
        self.has_spans = not isinstance(provider, trace.ProxyTracerProvider)
        SPANS.draw(_span if self.has_spans else None)
        self._counted = dict[Kind, tuple[Counter, Histogram]]()
        """What counts requests of a kind: to look it up takes longer than to count."""

    def drawing(self, headers: Iterable[tuple[bytes, bytes]]) -> AbstractContextManager[object]:
        """Draws the span of a request, if there is somebody to see it."""
        return _RequestSpan(headers) if self.has_spans else _NOTHING_DRAWN

    def note_sender(self, request: Request) -> None:
        """Notes that it is known by now who sends a request, or that nobody knows."""
        if self.has_spans and (span := _REQUEST.get()) is not None:
            span.begin(believed=self._trusts_traces or request.caller is not None)

    def headers(self, request: Request, response: Response | Stream, begun: int) -> list[Header]:
        """Returns what every answer says, beside what the answer itself does."""
        usual = GUARD if response.media_type.startswith(_OUR_OWN) else _GUARD_OF_STORED
        return [
            *(response.guard or usual),
            (b"x-request-id", request.id.encode()),
            *self._beside(request.path, begun),
            *self._rates.headers(request.caller),
            # A connection that is kept would be closed while something is on its way here.
            *(_LAST if self._is_leaving() else ()),
        ]

    def note(self, request: Request, status: int, begun: int) -> None:
        """Counts a request that is over, and writes its line."""
        seconds = (time.monotonic_ns() - begun) / _SECOND_NS
        # A method is any word that a client chose: unknown ones would fill the memory.
        method = request.method if request.method in _METHODS else "other"
        kind = (method, request.template or "unknown", status)
        if self.has_spans:
            self.note_sender(request)
            span = trace.get_current_span()
            span.update_name(f"{kind[0]} {kind[1]}")
            span.set_attributes(
                {
                    "http.request.method": method,
                    "http.route": kind[1],
                    "http.response.status_code": status,
                }
            )
            if status >= FAULT:
                span.set_status(trace.StatusCode.ERROR)
        counted = self._counted.get(kind)
        if counted is None:
            counted = self._counted[kind] = (REQUESTS.labels(*kind), SECONDS.labels(*kind[:2]))
        counted[0].inc()
        counted[1].observe(seconds)
        if access.isEnabledFor(logging.INFO):
            tell(access, _line(request, kind, seconds))


class _RequestSpan(ExitStack):
    """The span of a request: below one of its client's, or the first of a trace of its own.

    A client that is known says in `traceparent` which of its spans is above, and whether to draw
    any of it. What a stranger says there becomes a link, as OpenTelemetry advises for what anybody
    can reach: it chooses neither the trace nor whether that is drawn. Who sends a request is found
    out on the way, and what is above a span has to be said when it begins: so what takes time until
    then is noted, and drawn as soon as that is known.
    """

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        super().__init__()
        self._headers, self._began_ns = headers, time.time_ns()
        self.early: list[_Part] | None = []
        """What has taken time so far; None once it is drawn."""

    def __enter__(self) -> Self:
        self.callback(_REQUEST.reset, _REQUEST.set(self))
        return super().__enter__()

    def begin(self, *, believed: bool) -> None:
        """Draws the request and what was noted of it; once."""
        early, self.early = self.early, None
        if early is None:
            return
        said = {name.decode("latin-1"): value.decode("latin-1") for name, value in self._headers}
        context, links = propagate.extract(said), list[trace.Link]()
        if not believed:
            links, context = _links_to(context), Context()
        # Whatever is raised says what somebody has named or written: that is no operator's.
        span = tracer.start_span(
            "request",
            context=context,
            kind=trace.SpanKind.SERVER,
            links=links,
            start_time=self._began_ns,
            record_exception=False,
            set_status_on_exception=False,
        )
        self.enter_context(
            trace.use_span(
                span, end_on_exit=True, record_exception=False, set_status_on_exception=False
            )
        )
        for part in early:
            drawn = tracer.start_span(part.name, start_time=part.began_ns)
            if part.failed is not None:
                drawn.set_attribute("error.type", part.failed)
            drawn.end(part.ended_ns)


_REQUEST: Final[ContextVar[_RequestSpan | None]] = ContextVar("request_span", default=None)
_NOTHING_DRAWN: Final = nullcontext()


class _Part(NamedTuple):
    """What took time in a request before its span began."""

    name: str
    began_ns: int
    ended_ns: int
    failed: str | None


def _links_to(context: Context) -> list[trace.Link]:
    """Returns the link to the span that somebody names, without what else they say of it."""
    said = trace.get_current_span(context).get_span_context()
    if not said.is_valid:
        return []
    bare = trace.SpanContext(
        said.trace_id, said.span_id, is_remote=True, trace_flags=said.trace_flags
    )
    return [trace.Link(bare)]


@contextmanager
def _span(name: str) -> Generator[None]:
    """Draws a part of a request; what nobody has asked for is in no span."""
    request = _REQUEST.get()
    early = None if request is None else request.early
    if early is not None:
        with _noted(name, early):
            yield
    elif trace.get_current_span().get_span_context().is_valid:
        with tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except Exception as exc:
                span.set_attribute("error.type", type(exc).__name__)
                raise
    else:
        yield


@contextmanager
def _noted(name: str, early: list[_Part]) -> Generator[None]:
    began_ns, failed = time.time_ns(), None
    try:
        yield
    except Exception as exc:
        failed = type(exc).__name__
        raise
    finally:
        early.append(_Part(name, began_ns, time.time_ns(), failed))


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
