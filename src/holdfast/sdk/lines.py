"""How a server is spoken to: where it is, what is shown there, how long is waited."""

from dataclasses import KW_ONLY
from threading import Event
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from holdfast.errors import InvalidValue, Unauthorized
from holdfast.operations.operation import Arguments
from holdfast.running import Door
from holdfast.settings import client_settings, process_environ
from holdfast.settingsfile import settle

TIMEOUT_S: Final = 60.0
LONGEST_TIMEOUT_S: Final = 86_400.0
BREAKS: Final = 3
NAMESPACE: Final = "X-Namespace"
KEYS: Final = ("HOLDFAST_API_KEY", "HOLDFAST_ADMIN_KEY")
"""Variables that hold a key, or behind which one in a file is named."""

_HERE: Final = ("127.0.0.1", "::1", "localhost")
"""Hosts to which no network leads: to compress an answer takes longer than to send it."""


class Reach(Arguments):
    """How a client gets to its server; what is not given, the environment says."""

    api_key: str | None = None
    _: KW_ONLY
    url: str | None = None
    timeout_s: float = TIMEOUT_S
    retries: int | None = None
    patience_s: float | None = None

    def __repr__(self) -> str:
        # Without the key, as a line is.
        return f"{type(self).__name__}(url={self.url!r})"


class ReachNamespace(Reach):
    """How a client gets to its namespace; without one, to that of the key."""

    _: KW_ONLY
    namespace: str | None = None


class ReachWorkspace(Reach):
    """How operators get to their workspace; without one, to that of the key."""

    _: KW_ONLY
    workspace_id: str | None = None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One way to one server."""

    url: str
    headers: dict[str, str]
    timeout_s: float
    retries: int | None = None
    """How often a call is repeated; None for as often as there is patience."""
    patience_s: float | None = None
    """For how long; None for what `patience.py` says."""
    answered: Event = msgspec.field(default_factory=Event)
    """Whether the server ever answered, to whichever namespace was spoken."""
    door: Door = msgspec.field(default_factory=Door)
    """Which tasks are open through the client of this line."""

    @property
    def most_breaks(self) -> int:
        """How often in a row an answer may break off before anything of it came."""
        return BREAKS if self.retries is None else self.retries

    @property
    def namespace(self) -> str | None:
        """The namespace that requests name; None where the key says it."""
        return self.headers.get(NAMESPACE)

    @property
    def is_encrypted(self) -> bool:
        """Whether the server has to show a certificate."""
        return self.url.startswith("https://")

    def __repr__(self) -> str:
        # Without the key: what is printed ends up in logs.
        return f"Line({self.url!r}, namespace={self.namespace!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # Structs tell every field to who prints tracebacks with what is in them.
        return [("url", self.url), ("namespace", self.namespace)]


def line_to(given: ReachNamespace | ReachWorkspace) -> Line:
    """Returns the way to a server; what is not given, the environment says."""
    has_key = given.api_key is not None
    # A client that is told its key looks for none.
    environ = settle(process_environ(), secrets=() if has_key else KEYS)
    if environ.problems:
        raise InvalidValue("; ".join(environ.problems))
    found = client_settings(environ, url=given.url, has_key=has_key)
    base = checked_url((found.url if given.url is None else given.url).rstrip("/"))
    if not 0 < given.timeout_s <= LONGEST_TIMEOUT_S or (given.retries or 0) < 0:
        message = f"timeout_s is above 0 and at most {LONGEST_TIMEOUT_S}, retries 0 or more"
        raise InvalidValue(message)
    if not 0 <= (given.patience_s or 0) <= LONGEST_TIMEOUT_S:
        message = f"patience_s is 0 or more and at most {LONGEST_TIMEOUT_S}"
        raise InvalidValue(message)
    is_admin = isinstance(given, ReachWorkspace)
    key = given.api_key
    if key is None:
        key = found.admin_key if is_admin else found.api_key
    if not key:
        variable = "HOLDFAST_ADMIN_KEY" if is_admin else "HOLDFAST_API_KEY"
        error = Unauthorized(f"a client needs an API key: pass api_key=, or set {variable}")
        error.hint = "A server prints its keys on its first start."
        raise error
    if not key.isascii() or not key.isprintable():
        raise InvalidValue("an API key is printable ASCII")
    headers = {"Authorization": f"Bearer {key}"}
    if urlsplit(base).hostname in _HERE:
        headers["Accept-Encoding"] = "identity"
    line = Line(
        url=base,
        headers=headers,
        timeout_s=given.timeout_s,
        retries=given.retries,
        patience_s=given.patience_s,
    )
    if isinstance(given, ReachWorkspace):
        return line
    # What is given and empty is a mistake: it must not lead to the namespace of somebody else.
    named = found.namespace if given.namespace is None else given.namespace
    return line if named is None else naming(line, named)


def checked_url(url: str) -> str:
    """Returns a server's URL; raises `InvalidValue` for what is none."""
    if not url.startswith(("http://", "https://")):
        message = f"a server's URL begins with http:// or https://, not {url[:20]!r}"
        raise InvalidValue(message)
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.hostname) and parts.port != 0 and url.isprintable()
    except ValueError as exc:
        raise InvalidValue("a server's URL is such as https://host:7433") from exc
    if not is_whole or " " in url or parts.query or parts.fragment:
        raise InvalidValue("a server's URL is such as https://host:7433, and nothing else")
    if "@" in parts.netloc:
        # It would be sent instead of the key, and stand in every message about the server.
        raise InvalidValue("a server's URL has no password in it: pass api_key=")
    return url


def naming(line: Line, namespace: str) -> Line:
    """Returns the same way, to another namespace."""
    if not namespace.isprintable() or namespace != namespace.strip() or not namespace:
        raise InvalidValue("the name of a namespace is printable text without spaces around it")
    return replace(line, headers={**line.headers, NAMESPACE: namespace}, door=Door())
