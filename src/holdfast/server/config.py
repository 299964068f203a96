"""How a server is set up: flags first, then the environment, then files, then what suits a laptop.

Which variable is which setting says `variables`; how files become part of the environment,
`settingsfile`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from holdfast import settings
from holdfast.engine.core.limits import GIB, MIB
from holdfast.engine.gitbackup.secrets import LEAST_CHARS
from holdfast.engine.planes.handle import check_new_namespace
from holdfast.engine.tenancy.keys import check_secret
from holdfast.engine.tenancy.outbox import RETRIES_S
from holdfast.errors import HoldfastError, InvalidValue
from holdfast.server.variables import ADMIN_KEY, API_KEY, DATA, ELSEWHERE, VARIABLES
from holdfast.settingsfile import Settled, key_of, settle
from holdfast.wiring import POSTGRES_SCHEMES

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
MOST_WORKERS: Final = 1000

_PREFIX: Final = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")


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
    tls_certificate: Path | None = None
    """A file with the certificate by which clients know this server, and those that lead to it."""
    tls_key: Path | None = None
    """The file with its key; None if the same file has it."""
    proxies: tuple[str, ...] = ()
    """Networks of proxies: what these say of where a request comes from is believed."""
    trusts_traces: bool = False
    """Whether a stranger says of which trace its request is: for what a proxy sees to."""
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
    keep_traces_seconds: int | None = None
    """How long traces stay that nothing needs; None for ever."""
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
    pause_s: int = 0
    """Seconds that it goes on answering when it is to stop, and says that it is not ready."""
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
    log_form: str = "text"
    """Whether all lines of the log are JSON, or only those of requests."""
    log_level: str = "info"
    """The least of what is logged."""
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
    """Returns the settings of a server; raises `InvalidValue` that names all that is wrong."""
    settled = settle(environ)
    problems = [*settled.problems, *_unknown(settled)]
    given = {name: value for name, value in flags.items() if value is not None}
    data = str(given.pop("data", None) or settled.get(DATA) or "")
    folder = settings.expand(data, settled) if data else settings.user_vault(settled)
    values = dict[str, object]()
    for each in VARIABLES:
        name, text = each.name, settled.get(each.name)
        is_option = isinstance(given.get(each.field), str)
        if is_option:
            name, text = f"--{each.field}", str(given.pop(each.field))
        if text or is_option:
            try:
                values[each.field] = each.read(name, text or "")
            except ValueError as exc:
                problems.append(str(exc))
    try:
        values["commands"] = settings.exec_settings(settled)
    except ValueError as exc:
        problems.append(str(exc))
    try:
        settings.cache_settings(settled)  # Who opens a bucket asks for it again.
    except ValueError as exc:
        problems.append(str(exc))
    config = Config(data=Path(folder), **{**values, **given})  # pyright: ignore[reportArgumentType] - checked below
    problems += [*_wrong(config), *_unusable(config)]
    if problems:
        raise InvalidValue("; ".join(problems))
    return config


def to_environ(config: Config) -> dict[str, str]:
    """Returns the variables that tell a worker process what its parent was told.

    Those that were told nothing are empty, whatever this process was started with; so are the
    keys, which only the first start needs.
    """
    told = {each.name: each.show(getattr(config, each.field)) for each in VARIABLES}
    told |= {ADMIN_KEY: "", API_KEY: ""}
    told |= settings.exec_environ(config.commands)
    told[DATA] = str(config.data.absolute())
    return told


def _unknown(settled: Settled) -> Iterator[str]:
    """Yields what is wrong with names in a file: of the environment, others may have any."""
    known = {each.name for each in VARIABLES} | ELSEWHERE
    for name, origin in settled.origins.items():
        if name.startswith("HOLDFAST_") and name not in known:
            key = key_of(name)
            near = get_close_matches(key, map(key_of, known), n=1)
            meant = f": {near[0]} is one" if near else ""
            yield f"{origin}: there is no setting {key}{meant}"


def _wrong(config: Config) -> list[str]:
    """Returns what is wrong with settings that could be read."""
    url, certificate, key = config.database_url, config.tls_certificate, config.tls_key
    kept = config.keep_deleted_seconds or 0
    rules = (
        (0 <= config.port <= LAST_PORT, f"a port is up to {LAST_PORT}"),
        (1 <= config.workers <= MOST_WORKERS, f"a server has 1 to {MOST_WORKERS} workers"),
        (
            config.admin_key is None or config.admin_key != config.api_key,
            f"{ADMIN_KEY} and {API_KEY} are two keys",
        ),
        (
            url is None or url.startswith(POSTGRES_SCHEMES),
            "HOLDFAST_DATABASE_URL begins with postgresql://",
        ),
        (
            1 <= config.db_connections <= MOST_CONNECTIONS,
            f"{settings.DB_CONNECTIONS} is 1 to {MOST_CONNECTIONS}",
        ),
        (
            (config.session_ttl_seconds or 0) <= CENTURY_S,
            f"HOLDFAST_SESSION_TTL is 0 to {CENTURY_S} seconds",
        ),
        (kept <= CENTURY_S, f"HOLDFAST_KEEP_DELETED is 0 to {CENTURY_S} seconds"),
        (
            # Webhooks are sent what the events say, and that is tried for about a day.
            2 * DAY_S <= config.keep_events_seconds <= CENTURY_S,
            f"HOLDFAST_KEEP_EVENTS is {2 * DAY_S} to {CENTURY_S} seconds",
        ),
        (
            DAY_S <= (config.keep_traces_seconds or DAY_S) <= CENTURY_S,
            f"HOLDFAST_KEEP_TRACES is {DAY_S} to {CENTURY_S} seconds, or 0 for ever",
        ),
        (
            max(config.grace_s, config.pause_s) <= LONGEST_GRACE_S,
            f"HOLDFAST_STOP_SECONDS and HOLDFAST_STOP_PAUSE are 0 to {LONGEST_GRACE_S} seconds",
        ),
        (
            all(0 <= seconds <= CENTURY_S for seconds in config.retries_s),
            "HOLDFAST_WEBHOOK_RETRIES are numbers of seconds, none of them longer than a century",
        ),
        (config.validation_status in (400, 422), "HOLDFAST_VALIDATION_STATUS is 400 or 422"),
        (
            _PREFIX.fullmatch(config.prefix) is not None,
            "a prefix is a path of letters, digits and . _ ~ -, after a slash: /holdfast",
        ),
        (
            key is None or certificate is not None,
            "HOLDFAST_TLS_KEY is the key of a certificate: HOLDFAST_TLS_CERTIFICATE names it",
        ),
    )
    return [message for is_right, message in rules if not is_right]


def _unusable(config: Config) -> Iterator[str]:
    """Yields what the engine would refuse of keys and names, by the engine's own rules."""
    secret = config.secrets_key
    if secret is not None and len(secret) < LEAST_CHARS:
        yield f"{settings.SECRETS_KEY} has {LEAST_CHARS} or more characters"
    checks = (
        (ADMIN_KEY, config.admin_key, check_secret),
        (API_KEY, config.api_key, check_secret),
        ("HOLDFAST_DEFAULT_NAMESPACE", config.default_namespace, check_new_namespace),
    )
    for name, value, check in checks:
        try:
            if value is not None:
                check(value)
        except HoldfastError as exc:
            yield f"{name}: {exc}"
