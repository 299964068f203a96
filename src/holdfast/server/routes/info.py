"""What a server says about itself."""

import math
import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    generate_latest,
    multiprocess,
)

from holdfast.instants import to_text
from holdfast.model.marks import Instant
from holdfast.server.readiness import Packs
from holdfast.server.requests import Request, Services
from holdfast.server.responses import Response
from holdfast.server.routing import Who, get
from holdfast.settings import process_environ

_ANEW_S: Final = 1.0
_STARTED: Final = time.monotonic()
_SEE_OTHER: Final = 303

HEALTHY: Final = "healthy"
DEGRADED: Final = "degraded"
"""Of a server that serves whom it can."""

AWAY: Final = "away"
VERSION: Final = version("holdfast")

SHARED_METRICS: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Names, for the library of metrics, the folder in which workers put theirs together."""


class ServiceHealth(msgspec.Struct, kw_only=True):
    """How one thing is that a server stands on, and how long its last answer took."""

    status: str
    latency_ms: float


class ServerHealth(msgspec.Struct, kw_only=True):
    """Whether a server is well."""

    status: str
    timestamp: Instant
    version: str
    uptime_seconds: float
    services: dict[str, ServiceHealth]


class Welcome(msgspec.Struct, kw_only=True):
    """What answers at the root."""

    name: str
    version: str
    openapi: str


@get(["/health", "/health/ready"], who=Who.ANYBODY, answer=ServerHealth)
async def health(services: Services) -> Response:
    """Says whether the server and what it stands on are well, within a second."""
    answered_s = await services.readiness.look()
    return Response(msgspec.json.encode(describe(answered_s, services.packs)))


def describe(catalog_s: float, packs: Packs | None) -> ServerHealth:
    """Returns how a server is whose catalog took so long to answer."""
    stands_on = {"catalog": _well(catalog_s)}
    if packs is not None:
        stands_on["packs"] = _well(packs.taken_s, is_away=packs.is_away)
    is_well = all(each.status == HEALTHY for each in stands_on.values())
    return ServerHealth(
        status=HEALTHY if is_well else DEGRADED,
        timestamp=to_text(datetime.now(UTC)),
        version=VERSION,
        uptime_seconds=round(time.monotonic() - _STARTED, 3),
        services=stands_on,
    )


def _well(taken_s: float, *, is_away: bool = False) -> ServiceHealth:
    return ServiceHealth(status=AWAY if is_away else HEALTHY, latency_ms=round(taken_s * 1000, 3))


@get("/health/live", who=Who.ANYBODY, work=None)
def live() -> dict[str, str]:
    """Says that the process answers."""
    return {"status": "alive"}


@get("/", who=Who.ANYBODY, work=None)
def welcome(request: Request, services: Services) -> Welcome | Response:
    """Says what this is, and where its description is; sends browsers to the console."""
    config = services.config
    if config.console and "text/html" in (request.header(b"accept") or ""):
        home = {"Location": f"{config.prefix.rstrip('/')}/console/", "Vary": "Accept"}
        return Response(status=_SEE_OTHER, media_type="text/plain", headers=home)
    return Welcome(name="holdfast", version=VERSION, openapi=f"{config.prefix}/openapi.json")


class _Counted:
    """The counters as text, made once a second at the most: anybody may ask, and it takes long."""

    def __init__(self) -> None:
        self._guard, self._made_at, self._text = Lock(), -math.inf, b""

    def text(self, *, is_shared: bool) -> bytes:
        with self._guard:
            if time.monotonic() > self._made_at + _ANEW_S:
                registry = REGISTRY
                if is_shared:
                    _forget_dead_workers()
                    registry = CollectorRegistry()
                    multiprocess.MultiProcessCollector(registry)
                self._text, self._made_at = generate_latest(registry), time.monotonic()
            return self._text


def _forget_dead_workers() -> None:
    """Drops what workers that ended had under way; what they counted stays."""
    folder = Path(process_environ()[SHARED_METRICS])
    for pid in {int(path.stem.rpartition("_")[2]) for path in folder.glob("gauge_live*_*.db")}:
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, PermissionError):  # One of another user has its number now.
            with suppress(FileNotFoundError):  # Another worker has done so.
                multiprocess.mark_process_dead(pid)  # pyright: ignore[reportUnknownMemberType] - untyped there


_COUNTED: Final = _Counted()


@get("/metrics", who=Who.ANYBODY, media_type=CONTENT_TYPE_LATEST)
def metrics(services: Services) -> Response:
    """Returns the counters, as Prometheus reads them: of a second ago at the most."""
    text = _COUNTED.text(is_shared=services.config.workers > 1)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


@get("/openapi.json", who=Who.ANYBODY, is_described=False)
def openapi(services: Services) -> Response:
    """Returns the description of every route."""
    return Response(services.document())


ROUTES: Final = [health, live, welcome, metrics, openapi]
