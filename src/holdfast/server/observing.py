"""What operators see: a request id, a line in the log, metrics, spans and rate headers.

Stands around everything, also around what no route answers. A line of the log says who asked for
what and how it went; never a key, a body, a query or a file's content.
"""

import logging
import random
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

import msgspec
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from opentelemetry import trace
from prometheus_client import Counter, Histogram

from holdfast.server.callers import Caller
from holdfast.server.rates import Rates

access = logging.getLogger("holdfast.access")
tracer = trace.get_tracer("holdfast.server")

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


_GUARD: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
)
_ATTACHED: Final = (b"content-disposition", b"attachment")
_OUR_OWN: Final = (b"application/json", b"text/")
"""Types of what we say ourselves; of any other type are bytes that somebody stored."""


class Observed:
    """An application with somebody who watches it."""

    def __init__(self, app: ASGIApp, rates: Rates) -> None:
        self._app, self._rates = app, rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.monotonic_ns(), 0
        request_id = request_id_of(scope["headers"])
        scope.setdefault("state", {})["request_id"] = request_id

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                taken_ms = (time.monotonic_ns() - begun) / 1e6
                message["headers"] = [
                    *message["headers"],
                    *_guarding(message["headers"]),
                    (b"x-request-id", request_id.encode()),
                    (b"x-statebase-latency", f"{taken_ms:.3f}".encode()),
                    *self._rates.headers(_caller_of(scope)),
                ]
            await send(message)

        with tracer.start_as_current_span("request") as span:
            try:
                await self._app(scope, receive, observed)
            finally:
                seconds = (time.monotonic_ns() - begun) / _SECOND_NS
                route = str(scope.get("path_template") or "unknown")
                # A method is any word that a client chose: unknown ones would fill the memory.
                method = scope["method"] if scope["method"] in _METHODS else "other"
                REQUESTS.labels(method, route, status).inc()
                SECONDS.labels(method, route).observe(seconds)
                span.update_name(f"{method} {route}")
                span.set_attributes({"http.route": route, "http.response.status_code": status})
                _tell(scope["state"], (method, route), status, seconds)


def _tell(state: dict[str, Any], asked: tuple[str, str], status: int, seconds: float) -> None:
    if not access.isEnabledFor(logging.INFO):
        return
    caller: Caller | None = state.get("caller")
    method, route = asked
    told = {
        "request_id": state["request_id"],
        "method": method,
        "route": route,
        "status": status,
        "ms": round(seconds * 1000, 2),
        "key": None if caller is None else caller.key.id,
        "workspace": None if caller is None else caller.vault.tenant_id,
    }
    access.info(_to_json(told).decode())


def _guarding(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Yields what keeps a browser from running what agents have stored."""
    yield from _GUARD
    for name, value in headers:
        if name.lower() == b"content-type" and not value.startswith(_OUR_OWN):
            yield _ATTACHED


def _caller_of(scope: Scope) -> Caller | None:
    return cast("Caller | None", scope["state"].get("caller"))


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Returns the id that a client gave its request, if it is one; else a new one."""
    for name, value in headers:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            if 0 < len(text) <= _LONGEST_ID and text.isascii() and text.replace("-", "").isalnum():
                return text
    return f"req_{_chance.getrandbits(64):016x}"
