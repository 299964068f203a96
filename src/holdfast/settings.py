"""What the environment says, and where the vault therefore is: the only reader of it.

For vaults and commands, these matter: `HOLDFAST_DATA` names the vault, or `HOLDFAST_DATABASE_URL`
the database that it is in and `HOLDFAST_OBJECTS_URL` its packs, `HOLDFAST_DB_CONNECTIONS` and
`HOLDFAST_DB_PREPARE` how the database is used; `XDG_DATA_HOME` and `HOME` say
where a user's own vault lies, `NO_COLOR` and `TERM=dumb` ask for plain text, `TZ` is the time zone
of what is shown, `HOLDFAST_PAGER` or `PAGER` names what shows a long text. `HOLDFAST_STAY`, `CI`
and `SUDO_UID` say whether a command may leave a process behind, `XDG_RUNTIME_DIR` how long;
`DISPLAY` and `WAYLAND_DISPLAY` whether a browser can be opened. For clients of a server, those of
`ClientSettings`; for agents that come over HTTP, `HOLDFAST_MCP_TOKEN`; `HOLDFAST_EXEC` and its like
say whether commands are run, and how much one may take; for git backups, `HOLDFAST_SECRETS_KEY` and
`HOLDFAST_GIT_CERTIFICATES`; `HOLDFAST_BACKUP_KEY` is what backups are encrypted with.
`HOLDFAST_CACHE`, `HOLDFAST_CACHE_BYTES` and `XDG_CACHE_HOME` say where, and how much, of a bucket
is kept; what opens it (`AWS_*` and its like) is read by the bucket's own
client. `GIT_*` variables mean nothing here.

Everything is a function of the mapping that is passed in, so that a process that stays can
answer for callers with environments of their own. Imports next to nothing: whoever has to know
in a millisecond where the vault is may ask here.
"""

import os
import re
import stat
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.settingstext import read_number, read_switch

LOCAL_NAME = ".holdfast"
"""The directory of a vault that lies inside what it captures."""

DEFAULT_URL = "http://127.0.0.1:7433"
"""Where a server is that was started without saying where."""

DATA, DATABASE_URL, OBJECTS_URL = (
    "HOLDFAST_DATA",
    "HOLDFAST_DATABASE_URL",
    "HOLDFAST_OBJECTS_URL",
)
"""Variables that say where the vault is."""

DB_CONNECTIONS, DB_PREPARE = "HOLDFAST_DB_CONNECTIONS", "HOLDFAST_DB_PREPARE"
"""Variables that say how a database is used."""

CACHE, CACHE_BYTES = "HOLDFAST_CACHE", "HOLDFAST_CACHE_BYTES"
"""Variables that say where, and how much, of a bucket is kept on this machine."""

SECRETS_KEY = "HOLDFAST_SECRETS_KEY"
"""What the secrets of git backups are encrypted with."""

GIT_CERTIFICATES = "HOLDFAST_GIT_CERTIFICATES"
"""A file of the certificates by which git remotes are known over https."""

PAGER = "HOLDFAST_PAGER"
USUAL_PAGER = "less"
"""What shows long texts on a terminal, unless somebody says otherwise."""

CATALOG_NAME = "catalog.sqlite"
"""The file that makes a directory a vault."""


def process_environ() -> Mapping[str, str]:
    """Returns the environment that this process was started with."""
    return os.environ


def wants_colour(environ: Mapping[str, str]) -> bool:
    """Says whether colours are welcome; https://no-color.org: set and not empty means no."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def find_pager(environ: Mapping[str, str]) -> str | None:
    """Returns the command that shows long texts on a terminal; None for none."""
    named = environ.get(PAGER, environ.get("PAGER", USUAL_PAGER)).strip()
    return None if named in ("", "cat") or environ.get("TERM") == "dumb" else named


def find_opener(environ: Mapping[str, str], *, platform: str = sys.platform) -> str | None:
    """Returns the command that shows an address in the system's browser; None without a screen."""
    if platform == "darwin":
        return "open"
    return "xdg-open" if environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") else None


USUAL_STAY_S = 600
"""Longer than most people think, or agents work, between two commands."""

LONGEST_STAY_S = 86_400
_MOST_DIGITS = 9


def stay_s(environ: Mapping[str, str]) -> int:
    """Returns how many idle seconds a process that was left behind waits; 0 for no such process.

    `HOLDFAST_STAY` is a whole number of seconds, and whatever else it says means none: who does not
    get a process has lost some milliseconds. There is never one in CI, or for who works as another
    user (sudo); nor without a directory for it (`find_runtime_directory`).
    """
    if environ.get("CI", "") not in ("", "0", "false"):
        return 0
    if environ.get("SUDO_UID", str(os.geteuid())) != str(os.geteuid()):
        return 0
    said = environ.get("HOLDFAST_STAY", "") or str(USUAL_STAY_S)
    is_number = said.isascii() and said.isdecimal() and len(said) <= _MOST_DIGITS
    return min(int(said), LONGEST_STAY_S) if is_number else 0


def find_runtime_directory(environ: Mapping[str, str], *, makes: bool = False) -> str | None:
    """Returns the directory that lasts as long as the user is logged in, if it is theirs alone.

    Where the system names none, as in containers, one of our own, which who leaves a process behind
    `makes`. One that is somebody else's, or open to others, is none.
    """
    named = environ.get("XDG_RUNTIME_DIR", "")
    path = named or f"/tmp/holdfast-{os.geteuid()}"  # noqa: S108 - looked at before it is used
    if not os.path.isabs(path):
        return None
    try:
        if makes and not named and not os.path.lexists(path):
            os.mkdir(path, 0o700)
        # In a folder of everybody's, a link is another's.
        found = os.stat(path, follow_symlinks=bool(named))
    except (OSError, ValueError):
        return None
    is_private = found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return path if stat.S_ISDIR(found.st_mode) and is_private else None


def use_time_zone(environ: Mapping[str, str]) -> None:
    """Shows times as a process with this environment would, from here on."""
    wanted = environ.get("TZ")
    if wanted == os.environ.get("TZ"):
        return
    if wanted is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = wanted
    time.tzset()


def find_location(environ: Mapping[str, str], directory: str, *, named: str | None = None) -> str:
    """Returns where the vault is that a command in `directory` means.

    The one that is `named`, else that of the environment, else the nearest `.holdfast` that is
    a vault, from the directory upwards, else the user's own. It need not exist yet.
    """
    given = named or environ.get(DATABASE_URL) or environ.get(DATA)
    if given:
        if is_url(given):
            return given
        return os.path.normpath(os.path.join(directory, expand(given, environ)))
    folder = directory
    while True:
        local = os.path.join(folder, LOCAL_NAME)
        if _is_own_vault(local):
            return local
        above = os.path.dirname(folder)
        if above == folder:
            return user_vault(environ)
        folder = above


def find_objects(
    environ: Mapping[str, str], directory: str, location: str, *, named: str | None = None
) -> str | None:
    """Returns where the packs of a vault are, if that is not beside its catalog.

    Those of a database lie where somebody says; else, if it is the one that the environment names,
    where a server with that environment has them. None if nobody says. Those of a directory may be
    in a bucket, if somebody says so of it.
    """
    given = named or environ.get(OBJECTS_URL)
    if not is_url(location):
        is_meant = named or (environ.get(DATA) and location == find_location(environ, directory))
        return given if given and is_url(given) and is_meant else None
    if not given and location == environ.get(DATABASE_URL):
        data = environ.get(DATA) or user_vault(environ)
        given = None if is_url(data) else os.path.join(data, "packs")
    if not given or is_url(given):
        return given or None
    return os.path.normpath(os.path.join(directory, expand(given, environ)))


def user_vault(environ: Mapping[str, str], *, platform: str = sys.platform) -> str:
    """Returns where the user's own vault is, or would be."""
    named = environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(named):  # The specification says to ignore any other.
        return os.path.join(named, "holdfast")
    home = expand("~", environ)
    if platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "holdfast")
    return os.path.join(home, ".local", "share", "holdfast")


def mirrors_of(environ: Mapping[str, str]) -> str:
    """Returns where the user's caches of directories are whose timelines are on servers."""
    return os.path.join(user_vault(environ), "remote")


def expand(path: str, environ: Mapping[str, str]) -> str:
    """Returns a path with `~` replaced by the home directory that the environment names."""
    home = environ.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        return home + path[1:]
    return os.path.expanduser(path)


def holds_vault(location: str) -> bool:
    """Says whether there is a vault at a location, or what is left of one.

    A database is asked when it is opened.
    """
    return (
        is_url(location)
        or os.path.exists(os.path.join(location, CATALOG_NAME))
        or has_lost_catalog(location)
    )


def has_lost_catalog(location: str) -> bool:
    """Says whether a directory was a vault, and its catalog is gone or empty.

    Whoever writes to a catalog has its lock first, and packs are there for what it names.
    """
    try:
        if os.stat(os.path.join(location, CATALOG_NAME)).st_size:
            return False
    except FileNotFoundError:
        pass
    except OSError:
        return False  # It is there, and we may not look at it.
    return os.path.exists(os.path.join(location, "locks", "write")) or has_packs(location)


def has_packs(location: str) -> bool:
    """Says whether packs lie in a directory that is a vault, or was one."""
    packs = os.path.join(location, "packs")
    try:
        shards = os.listdir(packs)
        found = (os.listdir(os.path.join(packs, shard)) for shard in shards if len(shard) == 2)  # noqa: PLR2004 - the end of a pack's name
        return any(name.endswith(".pack") for names in found for name in names)
    except OSError:
        return False


def is_url(location: str) -> bool:
    """Says whether a location is no directory, but the URL of a database or of a bucket."""
    return "://" in location


def without_password(location: str) -> str:
    """Returns a location as it may be shown: what is printed ends up in logs."""
    # Up to the last one: a password may hold what it should not without being escaped.
    shown = re.sub(r"(://[^/@:]*):.*@", r"\1:…@", location)
    return re.sub(r"([?&]\w*password=)[^&]*", r"\1…", shown)


def client_settings(
    environ: Mapping[str, str], *, url: str | None = None, has_key: bool = False
) -> "ClientSettings":
    """Returns what the environment says to a client of a server; else, what `login` has kept.

    A key that was kept is for the one server that it is of, and that server for this key alone:
    who `has_key`, or is told one, and says no `url`, means the server of this machine.
    """
    kept = read_logins(environ)
    has_key |= bool(environ.get("HOLDFAST_API_KEY") or environ.get("HOLDFAST_ADMIN_KEY"))
    last = None if has_key else kept.current
    url = url or environ.get("HOLDFAST_URL") or last or DEFAULT_URL
    found = {} if has_key else kept.servers.get(url.rstrip("/"), {})
    return ClientSettings(
        url=url,
        api_key=environ.get("HOLDFAST_API_KEY") or found.get("api_key"),
        admin_key=environ.get("HOLDFAST_ADMIN_KEY") or found.get("admin_key"),
        namespace=environ.get("HOLDFAST_NAMESPACE") or found.get("namespace"),
    )


class Logins(NamedTuple):
    """What `login` has kept."""

    current: str | None
    """The server that somebody has signed in to last."""
    servers: dict[str, dict[str, str]]
    """By server: `api_key`, `admin_key`, `namespace`, and whose they are."""
    is_readable: bool = True
    """Whether that is all there is: a file that cannot be used is not written over."""

    def __repr__(self) -> str:
        # Without the keys: what is printed ends up in logs.
        return f"Logins(current={self.current!r}, servers={[*self.servers]})"


def logins_file(environ: Mapping[str, str], *, platform: str = sys.platform) -> str:
    """Returns where `login` keeps the keys of servers."""
    named = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(named):
        library = os.path.join("Library", "Application Support")
        named = os.path.join(expand("~", environ), library if platform == "darwin" else ".config")
    return os.path.join(named, "holdfast", "logins.json")


def read_logins(environ: Mapping[str, str]) -> Logins:
    """Returns what `login` has kept.

    Nothing, if the file is not its reader's alone: whoever else can write to it could have a key
    sent elsewhere. Nor if it cannot be read: `is_readable` is False then.
    """
    import json  # noqa: PLC0415 - for clients of servers alone

    try:
        with open(logins_file(environ), "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid != os.geteuid() or found.st_mode & 0o077:
                return Logins(None, {}, is_readable=False)
            kept = json.load(file)
        servers = {
            str(url): {str(name): str(each) for name, each in own.items()}
            for url, own in kept["servers"].items()
        }
        return Logins(kept.get("current") and str(kept["current"]), servers)
    except FileNotFoundError:
        return Logins(None, {})
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return Logins(None, {}, is_readable=False)


LONGEST_COMMAND_S = 3600
"""No command may be allowed to run for longer."""

EXEC = {
    "is_on": "HOLDFAST_EXEC",
    "has_network": "HOLDFAST_EXEC_NETWORK",
    "seconds": "HOLDFAST_EXEC_SECONDS",
    "memory_bytes": "HOLDFAST_EXEC_MEMORY_BYTES",
    "processes": "HOLDFAST_EXEC_PROCESSES",
    "disk_bytes": "HOLDFAST_EXEC_DISK_BYTES",
    "cgroup": "HOLDFAST_EXEC_CGROUP",
}
"""Variables that say whether commands are run, and how much one may take."""


class ExecSettings(NamedTuple):
    """Whether commands are run, and how much one may take."""

    is_on: bool = False
    has_network: bool = False
    """Whether a command that asks for it has this machine's network."""
    seconds: int = 600
    """How long one may run whose caller says so; others run for half a minute."""
    memory_bytes: int = 1 << 30
    processes: int = 256
    disk_bytes: int = 2 << 30
    cgroup: str | None = None
    """A control group (cgroup v2) in which each command has one of its own."""


NO_COMMANDS = ExecSettings()


def runs_commands(environ: Mapping[str, str]) -> bool:
    """Says whether commands are turned on; raises `ValueError` for what says neither."""
    return _is_on(environ, EXEC["is_on"])


def exec_settings(environ: Mapping[str, str]) -> ExecSettings:
    """Returns what the environment says of commands; raises `ValueError` for what makes no sense.

    Where they are not turned on, nothing else of it is looked at: who runs none is not kept from
    anything by a bound that is misspelt, and who does is not let run with another in silence.
    """
    if not runs_commands(environ):
        return NO_COMMANDS

    def number(field: str) -> int:
        said = environ.get(EXEC[field])
        return read_number(EXEC[field], said) if said else getattr(NO_COMMANDS, field)

    found = ExecSettings(
        is_on=True,
        has_network=_is_on(environ, EXEC["has_network"]),
        seconds=number("seconds"),
        memory_bytes=number("memory_bytes"),
        processes=number("processes"),
        disk_bytes=number("disk_bytes"),
        cgroup=environ.get(EXEC["cgroup"]) or None,
    )
    if found.seconds > LONGEST_COMMAND_S:
        message = f"{EXEC['seconds']} is at most {LONGEST_COMMAND_S}, not {found.seconds}"
        raise ValueError(message)
    return found


def exec_environ(told: ExecSettings) -> dict[str, str]:
    """Returns the variables that say of commands what is `told`."""
    values = ((name, getattr(told, field)) for field, name in EXEC.items())
    return {name: str(int(v) if isinstance(v, bool) else v or "") for name, v in values}


def _is_on(environ: Mapping[str, str], name: str, usual: str = "0") -> bool:
    return read_switch(name, environ.get(name) or usual)


class DatabaseSettings(NamedTuple):
    """How a process uses the database that its vault is in."""

    connections: int = 16
    """The most that it has at once."""
    wait_s: float = 30.0
    """How long it waits for one of them."""
    prepares: bool = True
    """Whether statements are prepared."""


def database_settings(environ: Mapping[str, str]) -> DatabaseSettings:
    """Returns what the environment says of databases; `ValueError` if that makes no sense."""
    usual, said = DatabaseSettings(), environ.get(DB_CONNECTIONS)
    return usual._replace(
        connections=read_number(DB_CONNECTIONS, said) if said else usual.connections,
        prepares=_is_on(environ, DB_PREPARE, "1"),
    )


class CacheSettings(NamedTuple):
    """Where parts of a bucket are kept on this machine, and how many bytes of them."""

    folder: str
    max_bytes: int


USUAL_CACHE_BYTES = 1 << 30
"""A cache that holds less than what is used in turn is worse than none."""


def cache_settings(
    environ: Mapping[str, str], *, platform: str = sys.platform
) -> CacheSettings | None:
    """Returns what the environment says of the cache; None for none, `ValueError` for no number."""
    said = environ.get(CACHE_BYTES) or str(USUAL_CACHE_BYTES)
    most = read_number(CACHE_BYTES, said, least=0)
    if not most:
        return None
    named = environ.get(CACHE, "")
    if named:
        return CacheSettings(os.path.abspath(expand(named, environ)), most)
    home = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(home):
        caches = os.path.join("Library", "Caches") if platform == "darwin" else ".cache"
        home = os.path.join(expand("~", environ), caches)
    return CacheSettings(os.path.join(home, "holdfast"), most)


def secrets_key(environ: Mapping[str, str]) -> str | None:
    """Returns what the secrets of git backups are encrypted with."""
    return environ.get(SECRETS_KEY) or None


def git_certificates(environ: Mapping[str, str]) -> str | None:
    """Returns the file of certificates by which git remotes are known; None for the system's."""
    return environ.get(GIT_CERTIFICATES) or None


def mcp_token(environ: Mapping[str, str]) -> str | None:
    """Returns what requests to `holdfast mcp --http` have to show."""
    return environ.get("HOLDFAST_MCP_TOKEN") or None


class ClientSettings(NamedTuple):
    """Where a client finds its server, and what it shows there."""

    url: str
    api_key: str | None
    admin_key: str | None
    namespace: str | None

    def __repr__(self) -> str:
        # Without the keys: what is printed ends up in logs.
        return f"ClientSettings(url={self.url!r}, namespace={self.namespace!r})"


def _is_own_vault(folder: str) -> bool:
    """Says whether a directory is a vault that nobody else has put there.

    Who can write to `/tmp` could otherwise leave a vault there for everyone below it to use.
    """
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return is_ours and holds_vault(folder)
