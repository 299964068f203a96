"""Where HTTP is answered, and who is let in: checked before anything listens.

Whoever reaches the port can read and restore what the server is bound to, and on most machines that
is everybody who has an account there. So requests show a token, or somebody says aloud that they
need none; beyond this machine they always do.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from holdfast.errors import InvalidValue

PATH: Final = "/mcp"
USUAL_PORT: Final = 7434
_LAST_PORT: Final = 65_535
_SHORTEST_TOKEN: Final = 16
_NAME: Final = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?")
_EVERYWHERE: Final = ("", "0.0.0.0", "::")  # noqa: S104 - to be recognised


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where HTTP is answered, under which names, and to whom."""

    host: str
    port: int
    names: tuple[str, ...] = ()
    """What requests may call us beside `host`: names, with a port unless it is the usual one."""
    token: str | None
    """What requests have to show; None for nothing."""

    def __repr__(self) -> str:
        # Without the token: what is printed ends up in logs.
        return f"Place({self.host!r}, {self.port})"

    @property
    def host_in_url(self) -> str:
        """The host as it stands in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host


def checked_place(
    *, host: str, port: int, names: tuple[str, ...], token: str | None, is_open: bool
) -> Place:
    """Returns the place that is meant; raises `InvalidValue` for one that is not safe."""
    if not 0 <= port <= _LAST_PORT:
        raise InvalidValue(f"a port is 0 to {_LAST_PORT}")
    for name in names:
        if not _NAME.fullmatch(name):
            raise InvalidValue("a host is a name such as undo.example.com, or with :PORT")
    if is_open and token is None and not _is_loopback(host):
        raise InvalidValue("beyond this machine, requests have to show a token").with_hint(
            "Set HOLDFAST_MCP_TOKEN, or listen on 127.0.0.1."
        )
    if token is None and not is_open:
        raise InvalidValue("no token is set for requests to show").with_hint(
            "Set HOLDFAST_MCP_TOKEN to a secret of 16 characters or more, which clients send as a "
            "bearer token; or say --no-token, if nobody else uses this machine."
        )
    if token is not None and not _is_token(token):
        raise InvalidValue("HOLDFAST_MCP_TOKEN is no token").with_hint(
            "Use 16 printable ASCII characters or more, without spaces."
        )
    if host in _EVERYWHERE and not names:
        raise InvalidValue("who listens everywhere has to say by which name").with_hint(
            "Name it with --allow-host, as clients call it: undo.example.com:7434."
        )
    return Place(host=host, port=port, names=names, token=token)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_token(token: str) -> bool:
    is_plain = token.isascii() and token.isprintable() and " " not in token
    return is_plain and len(token) >= _SHORTEST_TOKEN
