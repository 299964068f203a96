"""How a server is set up: flags first, then the environment, then what suits a laptop."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast import settings
from holdfast.engine.limits import GIB, MIB
from holdfast.engine.outbox import RETRIES_S
from holdfast.errors import InvalidValue
from holdfast.wiring import POSTGRES_SCHEMES

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 7433
LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One server's settings."""

    data: Path
    """Where credentials are kept, and the vault unless it is in a database."""
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    workers: int = 1
    database_url: str | None = None
    objects_url: str | None = None
    admin_key: str | None = None
    api_key: str | None = None
    """On the first start these become the tenant's keys."""
    default_namespace: str = "default"
    """Where sessions and memories live for clients that name no namespace."""
    prefix: str = ""
    """A path that comes before every route: `/holdfast` behind a proxy that keeps it."""
    max_upload_bytes: int = 100 * MIB
    max_import_bytes: int = 16 * GIB
    max_snapshot_bytes: int = 1 * GIB
    max_body_bytes: int = 8 * MIB
    """The largest JSON body, where nothing else is said."""
    max_state_bytes: int = 64 * MIB
    """The largest JSON body with state or values, and the most of them that an answer holds."""
    session_ttl_seconds: int | None = 86_400
    """How long a session lives that does not say; None for ever."""
    validation_status: int = 422
    """What a session's route answers for a body that does not fit; some expect 400."""
    allow_private_webhooks: bool = False
    retries_s: tuple[float, ...] = RETRIES_S
    """Seconds between attempts to deliver a webhook."""
    works: bool = True
    """Whether this server also delivers webhooks, keeps schedules and collects."""

    @property
    def location(self) -> str:
        """The vault, as `holdfast.open` takes it."""
        return self.database_url or str(self.data)

    @property
    def max_download_bytes(self) -> int:
        """How much of a file is sent: all of what can be uploaded, and no less than usual."""
        return max(100 * MIB, self.max_upload_bytes)

    @property
    def max_text_bytes(self) -> int:
        """The largest JSON body with a file: one of `max_upload_bytes`, escaped here and there."""
        return self.max_upload_bytes * 5 // 4 + MIB

    @property
    def objects(self) -> str | None:
        """Where packs are, if not beside the catalog."""
        if self.objects_url is None and self.database_url is not None:
            return str(self.data / "packs")
        return self.objects_url


def configure(environ: Mapping[str, str], **flags: object) -> Config:
    """Returns the settings of a server; raises `InvalidValue` for what is none."""
    given = {name: value for name, value in flags.items() if value is not None}
    data = str(given.pop("data", None) or environ.get("HOLDFAST_DATA") or "")
    folder = settings.expand(data, environ) if data else settings.user_vault(environ)
    values: dict[str, object] = {
        "host": environ.get("HOLDFAST_HOST") or DEFAULT_HOST,
        "port": _number(environ, "HOLDFAST_PORT", DEFAULT_PORT),
        "workers": _number(environ, "HOLDFAST_WORKERS", 1),
        "database_url": environ.get("HOLDFAST_DATABASE_URL") or None,
        "objects_url": environ.get("HOLDFAST_OBJECTS_URL") or None,
        "admin_key": environ.get("HOLDFAST_ADMIN_KEY") or None,
        "api_key": environ.get("HOLDFAST_API_KEY") or None,
        "default_namespace": environ.get("HOLDFAST_DEFAULT_NAMESPACE") or "default",
        "prefix": environ.get("HOLDFAST_PREFIX") or "",
        "max_snapshot_bytes": _number(environ, "HOLDFAST_MAX_SNAPSHOT_BYTES", GIB),
        "max_upload_bytes": _number(environ, "HOLDFAST_MAX_UPLOAD_BYTES", 100 * MIB),
        "session_ttl_seconds": _number(environ, "HOLDFAST_SESSION_TTL", 86_400) or None,
        "validation_status": _number(environ, "HOLDFAST_VALIDATION_STATUS", 422),
        "allow_private_webhooks": environ.get("HOLDFAST_ALLOW_PRIVATE_WEBHOOKS") == "1",
        "retries_s": _seconds(environ, "HOLDFAST_WEBHOOK_RETRIES") or RETRIES_S,
        "works": environ.get("HOLDFAST_WORKS") != "0",
        **given,
    }
    config = Config(data=Path(folder), **values)  # pyright: ignore[reportArgumentType] - checked below
    return _checked(config)


def to_environ(config: Config) -> dict[str, str]:
    """Returns the variables that tell a worker process what its parent was told."""
    told = {
        "HOLDFAST_DATA": str(config.data.absolute()),
        "HOLDFAST_HOST": config.host,
        "HOLDFAST_PORT": str(config.port),
        "HOLDFAST_WORKERS": str(config.workers),
        "HOLDFAST_DATABASE_URL": config.database_url or "",
        "HOLDFAST_OBJECTS_URL": config.objects_url or "",
        "HOLDFAST_DEFAULT_NAMESPACE": config.default_namespace,
        "HOLDFAST_PREFIX": config.prefix,
        "HOLDFAST_MAX_SNAPSHOT_BYTES": str(config.max_snapshot_bytes),
        "HOLDFAST_MAX_UPLOAD_BYTES": str(config.max_upload_bytes),
        "HOLDFAST_SESSION_TTL": str(config.session_ttl_seconds or 0),
        "HOLDFAST_VALIDATION_STATUS": str(config.validation_status),
        "HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1" if config.allow_private_webhooks else "",
        "HOLDFAST_WEBHOOK_RETRIES": ",".join(str(seconds) for seconds in config.retries_s),
        "HOLDFAST_WORKS": "1" if config.works else "0",
    }
    return {name: value for name, value in told.items() if value}


def _checked(config: Config) -> Config:
    if not 0 <= config.port <= LAST_PORT:
        message = f"a port is a number up to {LAST_PORT}, not {config.port}"
        raise InvalidValue(message)
    if config.database_url is not None and not config.database_url.startswith(POSTGRES_SCHEMES):
        raise InvalidValue("HOLDFAST_DATABASE_URL begins with postgresql://")
    if min(config.max_upload_bytes, config.max_snapshot_bytes) < 0:
        raise InvalidValue("a limit is 0 or more bytes")
    if config.session_ttl_seconds is not None and config.session_ttl_seconds < 0:
        raise InvalidValue("HOLDFAST_SESSION_TTL is 0 or more seconds")
    if not all(0 <= seconds < math.inf for seconds in config.retries_s):
        raise InvalidValue("HOLDFAST_WEBHOOK_RETRIES are numbers of seconds")
    if config.workers < 1:
        raise InvalidValue("a server has 1 or more workers")
    if config.validation_status not in (400, 422):
        raise InvalidValue("HOLDFAST_VALIDATION_STATUS is 400 or 422")
    if config.prefix and not config.prefix.startswith("/"):
        raise InvalidValue("a prefix begins with a slash: /holdfast")
    return config


def _seconds(environ: Mapping[str, str], name: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in environ.get(name, "").split(",") if part.strip())
    except ValueError as exc:
        message = f"{name} is numbers of seconds with commas between them"
        raise InvalidValue(message) from exc


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    given = environ.get(name)
    if not given:
        return default
    try:
        return int(given)
    except ValueError as exc:
        message = f"{name} is a number, not {given[:40]!r}"
        raise InvalidValue(message) from exc
