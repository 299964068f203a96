"""Addresses of git remotes, branches and host keys: what may be one, and nothing else.

An address is one of two kinds, ssh or https, of plain parts: nothing in it can be an option, a
command, or another kind of transport.
"""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass
from typing import Final

from holdfast.errors import InvalidValue, shorten

MAX_URL_CHARS: Final = 1024

_HOST: Final = r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])"
_USER: Final = r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})@)?"
_PORT: Final = r"(?::(?P<port>[0-9]{1,5}))?"
_PATH: Final = r"(?P<path>/(?!-)[A-Za-z0-9._~/@+%-]+)"
_URL: Final = re.compile(rf"(?P<scheme>ssh|https)://{_USER}{_HOST}{_PORT}{_PATH}")
_SHORT: Final = re.compile(rf"{_USER}{_HOST}:(?P<path>(?!-|:|//)[A-Za-z0-9._~/@+%-]+)")
_BRANCH: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_HOST_KEY: Final = re.compile(
    r"(?P<kind>ssh-ed25519|ecdsa-sha2-nistp(?:256|384|521)|ssh-rsa) "
    r"(?P<key>[A-Za-z0-9+/]{40,2000}={0,2})"
)

_ADVICE: Final = "An address is ssh://git@host/path, git@host:path or https://host/path."
_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Remote:
    """An address that was looked at."""

    url: str
    is_ssh: bool
    host: str
    port: int
    user: str | None


@dataclass(frozen=True, slots=True)
class HostKey:
    """A key by which a host is known."""

    kind: str
    key: str

    @property
    def fingerprint(self) -> str:
        """What people compare: as `ssh-keygen -l` prints it."""
        digest = hashlib.sha256(base64.b64decode(self.key)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")

    @property
    def line(self) -> str:
        """How it is kept."""
        return f"{self.kind} {self.key}"


def to_remote(url: str) -> Remote:
    """Returns an address that a copy can go to; raises `InvalidValue` for any other."""
    if len(url) <= MAX_URL_CHARS and ".." not in url and "//" not in url.partition("://")[2]:
        found = _URL.fullmatch(url) or _SHORT.fullmatch(url)
        if found is not None:
            parts = found.groupdict()
            is_ssh = parts.get("scheme", "ssh") == "ssh"
            port = int(parts.get("port") or (22 if is_ssh else 443))
            if not is_ssh and parts["user"]:
                raise InvalidValue("an https address holds no user: give user and password apart")
            if 0 < port <= _LAST_PORT:
                return Remote(url, is_ssh, parts["host"].strip("[]"), port, parts["user"])
    # Without the address: whoever mistakes one may have put a password into it.
    raise InvalidValue("this is no address of a git remote").with_hint(_ADVICE)


def check_branch(branch: str) -> str:
    """Returns the name of a branch; raises `InvalidValue` for what is none."""
    is_plain = len(branch) <= 200 and _BRANCH.fullmatch(branch) is not None  # noqa: PLR2004 - as hosts do
    parts = branch.split("/")
    # Git itself makes no branch of that name: it stands for whichever is looked at.
    is_plain = is_plain and branch != "HEAD"
    if not is_plain or ".." in branch or any(p.endswith((".lock", ".")) for p in parts):
        message = f"{shorten(branch)} is no name of a branch: letters, digits, and _ . - / between"
        raise InvalidValue(message)
    return branch


def to_host_key(line: str) -> HostKey:
    """Returns a host key that was kept, or that somebody brings; raises `InvalidValue`."""
    found = find_host_key(line)
    if found is None:
        raise InvalidValue("a host key is its kind and its base64 text, as in known_hosts")
    return found


def find_host_key(line: str) -> HostKey | None:
    """Returns the host key of a line without names before it; None for any other."""
    found = _HOST_KEY.fullmatch(" ".join(line.split()[:2]))
    if found is None:
        return None
    try:
        base64.b64decode(found["key"], validate=True)
    except binascii.Error:
        return None
    return HostKey(found["kind"], found["key"])
