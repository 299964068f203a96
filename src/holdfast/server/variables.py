"""The settings of a server: of each its variable, how that is read, and how it is written again.

A setting is written down once, here: what the environment says, what a TOML file says (under
`settingsfile.key_of` the variable's name), what a worker is told and what `holdfast serve --check`
shows are all made of this table. What a setting means, and what suits a laptop, is said where it is
a field, in `config.Config`; for who runs a server, in `docs/reference/serving.md`.
"""

import re
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final, NamedTuple

from holdfast import settings, settingsfile
from holdfast.engine.tenancy.outbox import RETRIES_S
from holdfast.settingstext import read_number
from holdfast.settingstext import read_switch as _switch

DATA, ADMIN_KEY, API_KEY = "HOLDFAST_DATA", "HOLDFAST_ADMIN_KEY", "HOLDFAST_API_KEY"
SECRETS_KEY: Final = settings.SECRETS_KEY

LOG_FORMS: Final = ("text", "json")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")

_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")


def _text(_name: str, given: str) -> str:
    return given


def _shown(value: object) -> str:
    return "" if value is None else str(value)


def _number(name: str, given: str) -> int:
    return read_number(name, given, least=0)


def _number_or_none(name: str, given: str) -> int | None:
    return _number(name, given) or None


def _shown_or_0(value: int | None) -> str:
    return str(value or 0)


def _shown_switch(value: object) -> str:
    return "1" if value else "0"


def _folder(_name: str, given: str) -> Path:
    return Path(given).expanduser().absolute()


def _one_of(*words: str) -> Callable[[str, str], str]:
    def read(name: str, given: str) -> str:
        if given.lower() not in words:
            message = f"{name} is {', '.join(words[:-1])} or {words[-1]}, not {given[:40]!r}"
            raise ValueError(message)
        return given.lower()

    return read


def _seconds(name: str, given: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in given.split(",") if part.strip()) or RETRIES_S
    except ValueError as exc:
        message = f"{name} is numbers of seconds with commas between them"
        raise ValueError(message) from exc


def _joined(value: tuple[object, ...]) -> str:
    return ",".join(str(each) for each in value)


def _networks(name: str, given: str) -> tuple[str, ...]:
    try:
        parts = (part.strip() for part in given.split(","))
        return tuple(str(ip_network(part)) for part in parts if part)
    except ValueError as exc:
        message = f"{name} are addresses or networks, with commas between them: {exc}"
        raise ValueError(message) from exc


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
        raise ValueError(message)
    return f"{scheme or 'https'}://{host}"


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


class Variable(NamedTuple):
    """A variable of the environment, and the setting that it is."""

    field: str
    name: str
    read: Callable[[str, str], object] = _text
    """Returns the setting, of the variable's name and text; raises `ValueError` for no such."""
    show: Callable[[Any], str] = _shown
    """Returns the text that `read` makes the setting of; empty for what is usual."""
    is_secret: bool = False


VARIABLES: Final = (
    Variable("host", "HOLDFAST_HOST"),
    Variable("port", "HOLDFAST_PORT", _number),
    Variable("workers", "HOLDFAST_WORKERS", _number),
    Variable("database_url", settings.DATABASE_URL),
    Variable("objects_url", settings.OBJECTS_URL),
    Variable("db_connections", settings.DB_CONNECTIONS, _number),
    Variable("db_prepare", settings.DB_PREPARE, _switch, _shown_switch),
    Variable("admin_key", ADMIN_KEY, is_secret=True),
    Variable("api_key", API_KEY, is_secret=True),
    Variable("spool", "HOLDFAST_SPOOL", _folder),
    Variable("default_namespace", "HOLDFAST_DEFAULT_NAMESPACE"),
    Variable("prefix", "HOLDFAST_PREFIX"),
    Variable("tls_certificate", "HOLDFAST_TLS_CERTIFICATE", _folder),
    Variable("tls_key", "HOLDFAST_TLS_KEY", _folder),
    Variable("proxies", "HOLDFAST_PROXIES", _networks, _joined),
    Variable("trusts_traces", "HOLDFAST_TRUST_TRACES", _switch, _shown_switch),
    Variable("max_snapshot_bytes", "HOLDFAST_MAX_SNAPSHOT_BYTES", _number),
    Variable("max_upload_bytes", "HOLDFAST_MAX_UPLOAD_BYTES", _number),
    Variable("session_ttl_seconds", "HOLDFAST_SESSION_TTL", _number_or_none, _shown_or_0),
    Variable("keep_deleted_seconds", "HOLDFAST_KEEP_DELETED", _number),
    Variable("keep_events_seconds", "HOLDFAST_KEEP_EVENTS", _number),
    Variable("keep_traces_seconds", "HOLDFAST_KEEP_TRACES", _number_or_none, _shown_or_0),
    Variable("validation_status", "HOLDFAST_VALIDATION_STATUS", _number),
    Variable("allow_private_webhooks", "HOLDFAST_ALLOW_PRIVATE_WEBHOOKS", _switch, _shown_switch),
    Variable("allow_private_remotes", "HOLDFAST_ALLOW_PRIVATE_REMOTES", _switch, _shown_switch),
    Variable("secrets_key", SECRETS_KEY, is_secret=True),
    Variable("git_certificates", settings.GIT_CERTIFICATES),
    Variable("retries_s", "HOLDFAST_WEBHOOK_RETRIES", _seconds, _joined),
    Variable("pause_s", "HOLDFAST_STOP_PAUSE", _number),
    Variable("grace_s", "HOLDFAST_STOP_SECONDS", _number),
    Variable("works", "HOLDFAST_WORKS", _switch, _shown_switch),
    Variable("console", "HOLDFAST_CONSOLE", _switch, _shown_switch),
    Variable("directories", "HOLDFAST_DIRECTORIES", _switch, _shown_switch),
    Variable("logs_requests", "HOLDFAST_LOG_REQUESTS", _switch, _shown_switch),
    Variable("log_form", "HOLDFAST_LOG_FORMAT", _one_of(*LOG_FORMS)),
    Variable("log_level", "HOLDFAST_LOG_LEVEL", _one_of(*LOG_LEVELS)),
    Variable("console_hosts", "HOLDFAST_CONSOLE_HOSTS", _hosts, _joined),
)
"""All that the environment says to a server, but for where its data are, and of commands."""

ELSEWHERE: Final = frozenset(
    {DATA, *settings.EXEC.values(), settings.CACHE, settings.CACHE_BYTES, "HOLDFAST_MCP_TOKEN"}
    | {settingsfile.BACKUP_KEY}
)
"""What else of ours may stand among them: read by others, or in another way."""
