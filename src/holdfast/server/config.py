"""How a server is set up: flags first, then the environment, then what suits a laptop."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final, NamedTuple

from holdfast import settings
from holdfast.engine.core.limits import GIB, MIB
from holdfast.engine.tenancy.outbox import RETRIES_S
from holdfast.errors import InvalidValue
from holdfast.wiring import POSTGRES_SCHEMES, said

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 7433
LAST_PORT: Final = 65535
MOST_TEXT_BYTES: Final = 256 * MIB
DAY_S: Final = 86_400
CENTURY_S: Final = 36_525 * DAY_S
LONGEST_GRACE_S: Final = 3600

DATABASE_S: Final = 5.0
"""How long a request waits for a connection to the database, before it is told to come later."""

MOST_CONNECTIONS: Final = 1000

_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")

DATA, ADMIN_KEY, API_KEY = "HOLDFAST_DATA", "HOLDFAST_ADMIN_KEY", "HOLDFAST_API_KEY"
SECRETS_KEY: Final = settings.SECRETS_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One server's settings."""

    data: Path
    """Where the vault is, unless it is in a database, and its credentials."""
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    workers: int = 1
    # What holds a secret is not shown: what is printed ends up in logs.
    database_url: str | None = field(default=None, repr=False)
    objects_url: str | None = field(default=None, repr=False)
    db_connections: int = settings.DatabaseSettings().connections
    """The most connections to the database that a worker has."""
    db_prepare: bool = True
    """Whether statements are prepared there."""
    admin_key: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    """On the first start these become the tenant's keys."""
    spool: Path | None = None
    """Where uploads and exports lie while they are under way."""
    default_namespace: str = "default"
    """Where sessions and memories live for clients that name no namespace."""
    prefix: str = ""
    """A path that comes before every route: `/holdfast` behind a proxy that keeps it."""
    max_upload_bytes: int = 100 * MIB
    max_import_bytes: int = 16 * GIB
    max_snapshot_bytes: int = 1 * GIB
    max_body_bytes: int = 8 * MIB
    """The largest JSON body, where nothing else is said."""
    max_state_bytes: int = 32 * MIB
    """The largest JSON body with state or values: what is decoded in a tenth of a second, in
    which nobody else is answered."""
    max_answer_bytes: int = 64 * MIB
    """The most states or values that an answer holds."""
    max_batch_bytes: int = 48 * MIB
    """The largest JSON body with several files: the 32 MiB of a batch, in base64."""
    session_ttl_seconds: int | None = 86_400
    """How long a session lives that does not say; None for ever."""
    keep_deleted_seconds: int | None = None
    """How long bytes outlive the rows that named them; None for what suits the database."""
    keep_events_seconds: int = 30 * DAY_S
    """How long events can be asked for."""
    validation_status: int = 422
    """What a session's route answers for a body that does not fit; some expect 400."""
    allow_private_webhooks: bool = False
    allow_private_remotes: bool = False
    """Whether a git backup may go to an address that is not public."""
    secrets_key: str | None = field(default=None, repr=False)
    """What the secrets of git backups are encrypted with."""
    git_certificates: str | None = None
    """A file of the certificates by which git remotes are known over https."""
    retries_s: tuple[float, ...] = RETRIES_S
    """Seconds between attempts to deliver a webhook."""
    grace_s: int = 30
    """Seconds that requests have to finish when the server is to stop."""
    works: bool = True
    """Whether this server also delivers webhooks, keeps schedules and collects."""
    console: bool = True
    """Whether it hands out the console, and lets people sign in to it."""
    directories: bool = False
    """Whether people in the console see attached directories as they are, and move them."""
    logs_requests: bool = True
    """Whether every request has its line in the log, or only what went wrong."""
    console_hosts: tuple[str, ...] = ()
    """By what other names than those of this machine itself: `https://holdfast.example.com`."""

    commands: settings.ExecSettings = settings.NO_COMMANDS
    """Whether it runs commands, in the sandbox, and how much one may take."""

    @property
    def database(self) -> settings.DatabaseSettings:
        """How the database is used."""
        return settings.DatabaseSettings(
            connections=self.db_connections, wait_s=DATABASE_S, prepares=self.db_prepare
        )

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
        """The largest JSON body with a file: one of `max_upload_bytes`, escaped here and there.

        It is held in memory: however large an upload may be, this has an end.
        """
        return min(self.max_upload_bytes * 5 // 4 + MIB, MOST_TEXT_BYTES)

    @property
    def uploads(self) -> Path:
        """Where what is about to be stored is spooled: beside the vault, unless that is elsewhere.

        That disk has the room, or nobody has.
        """
        return self.spool or (Path(gettempdir()) if self.database_url else self.data)

    @property
    def objects(self) -> str | None:
        """Where packs are, if not beside the catalog."""
        if self.objects_url is None and self.database_url is not None:
            return str(self.data / "packs")
        return self.objects_url


def configure(environ: Mapping[str, str], **flags: object) -> Config:
    """Returns the settings of a server; raises `InvalidValue` for what is none."""
    given = {name: value for name, value in flags.items() if value is not None}
    data = str(given.pop("data", None) or environ.get(DATA) or "")
    folder = settings.expand(data, environ) if data else settings.user_vault(environ)
    values = {
        each.field: each.read(each.name, environ[each.name])
        for each in VARIABLES
        if environ.get(each.name)
    }
    values["commands"] = said(settings.exec_settings, environ)
    config = Config(data=Path(folder), **{**values, **given})  # pyright: ignore[reportArgumentType] - checked below
    return _checked(config)


def to_environ(config: Config) -> dict[str, str]:
    """Returns the variables that tell a worker process what its parent was told.

    Those that were told nothing are empty, whatever this process was started with. But for the
    keys, which only the first start needs.
    """
    told = {
        each.name: each.show(getattr(config, each.field))
        for each in VARIABLES
        if each.name not in (ADMIN_KEY, API_KEY)
    }
    told |= settings.exec_environ(config.commands)
    told[DATA] = str(config.data.absolute())
    return told


def _checked(config: Config) -> Config:
    if not 0 <= config.port <= LAST_PORT:
        message = f"a port is a number up to {LAST_PORT}, not {config.port}"
        raise InvalidValue(message)
    _check_database(config)
    if min(config.max_upload_bytes, config.max_snapshot_bytes) < 0:
        raise InvalidValue("a limit is 0 or more bytes")
    for name, seconds, most in (
        ("HOLDFAST_SESSION_TTL", config.session_ttl_seconds, math.inf),
        ("HOLDFAST_KEEP_DELETED", config.keep_deleted_seconds, CENTURY_S),
        ("HOLDFAST_STOP_SECONDS", config.grace_s, LONGEST_GRACE_S),
    ):
        if not 0 <= (seconds or 0) <= most:
            bound = "or more" if most == math.inf else f"to {most}"
            message = f"{name} is 0 {bound} seconds"
            raise InvalidValue(message)
    if not 2 * DAY_S <= config.keep_events_seconds <= CENTURY_S:
        # Webhooks are sent what the events say, and that is tried for about a day.
        message = f"HOLDFAST_KEEP_EVENTS is {2 * DAY_S} to {CENTURY_S} seconds"
        raise InvalidValue(message)
    if not all(0 <= seconds < math.inf for seconds in config.retries_s):
        raise InvalidValue("HOLDFAST_WEBHOOK_RETRIES are numbers of seconds")
    if config.workers < 1:
        raise InvalidValue("a server has 1 or more workers")
    if config.validation_status not in (400, 422):
        raise InvalidValue("HOLDFAST_VALIDATION_STATUS is 400 or 422")
    if config.prefix and not config.prefix.startswith("/"):
        raise InvalidValue("a prefix begins with a slash: /holdfast")
    return config


def _check_database(config: Config) -> None:
    if config.database_url is not None and not config.database_url.startswith(POSTGRES_SCHEMES):
        raise InvalidValue("HOLDFAST_DATABASE_URL begins with postgresql://")
    if not 1 <= config.db_connections <= MOST_CONNECTIONS:
        message = f"{settings.DB_CONNECTIONS} is 1 to {MOST_CONNECTIONS}"
        raise InvalidValue(message)


def _seconds(name: str, given: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in given.split(",") if part.strip()) or RETRIES_S
    except ValueError as exc:
        message = f"{name} is numbers of seconds with commas between them"
        raise InvalidValue(message) from exc


def _hosts(name: str, given: str) -> tuple[str, ...]:
    return tuple(_host(name, part.strip().lower()) for part in given.split(",") if part.strip())


def _host(name: str, given: str) -> str:
    """Returns where a browser finds a host that is listed: over TLS unless it says otherwise."""
    scheme, mark, host = given.rpartition("://")
    host = host.removesuffix("/").removesuffix(".").strip("[]")
    is_known = not mark or scheme in ("http", "https")
    if not is_known or not (_HOST.fullmatch(host) or _is_address(host)):
        message = (
            f"{name} are names of hosts, without ports, with commas between them, and http:// "
            f"before those that are reached without TLS; not {given[:80]!r}"
        )
        raise InvalidValue(message)
    return f"{scheme or 'https'}://{host}"


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _shown_hosts(value: tuple[str, ...]) -> str:
    return ",".join(value)


def _number(name: str, given: str) -> int:
    try:
        return int(given)
    except ValueError as exc:
        message = f"{name} is a number, not {given[:40]!r}"
        raise InvalidValue(message) from exc


def _folder(_name: str, given: str) -> Path:
    return Path(given).expanduser().absolute()


def _text(_name: str, given: str) -> str:
    return given


def _shown(value: object) -> str:
    return "" if value is None else str(value)


def _is_on(_name: str, given: str) -> bool:
    return given == "1"


def _is_not_off(_name: str, given: str) -> bool:
    return given != "0"


def _number_or_none(name: str, given: str) -> int | None:
    return _number(name, given) or None


def _shown_or_0(value: int | None) -> str:
    return str(value or 0)


def _shown_if_on(value: object) -> str:
    return "1" if value else ""


def _shown_switch(value: object) -> str:
    return "1" if value else "0"


def _shown_seconds(value: tuple[float, ...]) -> str:
    return ",".join(str(seconds) for seconds in value)


class Variable(NamedTuple):
    """A variable of the environment, and the setting that it is."""

    field: str
    name: str
    read: Callable[[str, str], object] = _text
    """Returns the setting, of the variable's name and text."""
    show: Callable[[Any], str] = _shown
    """Returns the text that `read` makes the setting of; empty for what is usual."""


VARIABLES: Final = (
    Variable("host", "HOLDFAST_HOST"),
    Variable("port", "HOLDFAST_PORT", _number),
    Variable("workers", "HOLDFAST_WORKERS", _number),
    Variable("database_url", "HOLDFAST_DATABASE_URL"),
    Variable("objects_url", "HOLDFAST_OBJECTS_URL"),
    Variable("db_connections", settings.DB_CONNECTIONS, _number),
    Variable("db_prepare", settings.DB_PREPARE, _is_not_off, _shown_switch),
    Variable("admin_key", ADMIN_KEY),
    Variable("api_key", API_KEY),
    Variable("spool", "HOLDFAST_SPOOL", _folder),
    Variable("default_namespace", "HOLDFAST_DEFAULT_NAMESPACE"),
    Variable("prefix", "HOLDFAST_PREFIX"),
    Variable("max_snapshot_bytes", "HOLDFAST_MAX_SNAPSHOT_BYTES", _number),
    Variable("max_upload_bytes", "HOLDFAST_MAX_UPLOAD_BYTES", _number),
    Variable(
        "session_ttl_seconds",
        "HOLDFAST_SESSION_TTL",
        _number_or_none,
        _shown_or_0,
    ),
    Variable("keep_deleted_seconds", "HOLDFAST_KEEP_DELETED", _number),
    Variable("keep_events_seconds", "HOLDFAST_KEEP_EVENTS", _number),
    Variable("validation_status", "HOLDFAST_VALIDATION_STATUS", _number),
    Variable(
        "allow_private_webhooks",
        "HOLDFAST_ALLOW_PRIVATE_WEBHOOKS",
        _is_on,
        _shown_if_on,
    ),
    Variable(
        "allow_private_remotes",
        "HOLDFAST_ALLOW_PRIVATE_REMOTES",
        _is_on,
        _shown_if_on,
    ),
    Variable("secrets_key", SECRETS_KEY),
    Variable("git_certificates", settings.GIT_CERTIFICATES),
    Variable(
        "retries_s",
        "HOLDFAST_WEBHOOK_RETRIES",
        _seconds,
        _shown_seconds,
    ),
    Variable("grace_s", "HOLDFAST_STOP_SECONDS", _number),
    Variable("works", "HOLDFAST_WORKS", _is_not_off, _shown_switch),
    Variable("console", "HOLDFAST_CONSOLE", _is_not_off, _shown_switch),
    Variable("directories", "HOLDFAST_DIRECTORIES", _is_on, _shown_if_on),
    Variable("logs_requests", "HOLDFAST_LOG_REQUESTS", _is_not_off, _shown_switch),
    Variable("console_hosts", "HOLDFAST_CONSOLE_HOSTS", _hosts, _shown_hosts),
)
"""All that the environment says to a server, but for where its data are, and of commands."""
