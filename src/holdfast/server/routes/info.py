"""What a server says about itself, and to a key about itself."""

import time
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

from litestar import Request, Response
from litestar.datastructures import State
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    generate_latest,
    multiprocess,
)

from holdfast.server.callers import PUBLIC, Caller
from holdfast.server.openapi import describe
from holdfast.server.routes.keys import SHOWN
from holdfast.server.routing import get
from holdfast.server.threads import Work
from holdfast.server.times import shown
from holdfast.wire.info import Health, Me, ServiceHealth, Welcome

_STARTED: Final = time.monotonic()
VERSION: Final = version("holdfast")


@get(["/health", "/health/ready"], opt=PUBLIC, work=Work.SLOW)
def health(state: State) -> Health:
    """Says whether the server and what it stands on are well."""
    begun = time.monotonic()
    state.ping()
    taken_ms = (time.monotonic() - begun) * 1000
    return Health(
        status="healthy",
        timestamp=shown(datetime.now(UTC)),
        version=VERSION,
        uptime_seconds=round(time.monotonic() - _STARTED, 3),
        services={"catalog": ServiceHealth(status="healthy", latency_ms=round(taken_ms, 3))},
    )


@get("/health/live", opt=PUBLIC, in_thread=False)
def live() -> dict[str, str]:
    """Says that the process answers."""
    return {"status": "alive"}


@get("/", opt=PUBLIC, in_thread=False)
def welcome(state: State) -> Welcome:
    """Says what this is, and where its description is."""
    return Welcome(name="holdfast", version=VERSION, openapi=f"{state.config.prefix}/openapi.json")


@get("/metrics", opt=PUBLIC, media_type=CONTENT_TYPE_LATEST)
def metrics(state: State) -> Response[bytes]:
    """Returns the counters, as Prometheus reads them."""
    registry = REGISTRY
    if state.config.workers > 1:
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


@get("/openapi.json", opt=PUBLIC, include_in_schema=False)
def openapi(request: "Request[Any, Any, Any]") -> Response[bytes]:
    """Returns the description of every route."""
    return Response(describe(request.app), media_type="application/json")


@get("/v1/me", in_thread=False)
def me(caller: Caller) -> Me:
    """Says whose key this is, and what it opens."""
    key = caller.key
    return Me(
        workspace_id=caller.vault.tenant_id,
        key_id=key.id,
        key_name=key.name,
        scope=SHOWN[key.scope],
        namespace=key.namespace,
        capabilities=["files", "snapshots", "sessions", "store", "events", "webhooks"],
    )


ROUTES: Final = [health, live, welcome, metrics, openapi, me]
