"""What a server says about itself."""

import msgspec

from holdfast.wire.basics import Instant


class ServiceHealth(msgspec.Struct, kw_only=True):
    """How one thing is that a server stands on."""

    status: str
    latency_ms: float


class Health(msgspec.Struct, kw_only=True):
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
