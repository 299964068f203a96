"""Browsers at the door: what a person who is signed in to the console is known by, and when not.

A browser sends its cookie with whatever any page makes it ask for. So one counts only where the
request is called by a name that this server goes by (a name of somebody else's may lead here, too),
comes from a page of this server, and, where it changes something, bears a header that no form can
send. Who comes with a key of its own is no browser, and none of this is asked of it.

Which names are reached over TLS is said by who set the server up, not by the request: a proxy ends
TLS, and anybody can write a header. Its own machine comes as the server itself speaks.
"""

import re
from datetime import datetime
from threading import Lock
from typing import Final

from holdfast.engine.tenancy.signins import SignIns
from holdfast.engine.tenant import TenantVault
from holdfast.model.keys import LONGEST, SignIn
from holdfast.server.config import Config
from holdfast.server.problems import ForeignRequest, UnknownHost
from holdfast.server.requests import Request

COOKIE: Final = "holdfast"
MARK: Final = b"x-holdfast-console"
_PORT: Final = re.compile("[0-9]{1,5}")
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OURS: Final = (b"same-origin", b"none")
"""Where a request comes from that reads: a page of ours, or a person who typed an address."""


class Browsers:
    """The sign-ins of people who come to one worker."""

    def __init__(self, config: Config, sign_ins: SignIns[TenantVault]) -> None:
        self.sign_ins = sign_ins
        self._path = f"{config.prefix.rstrip('/')}/"
        hosts = (each.partition("://") for each in config.console_hosts)
        self._schemes = {name: scheme for scheme, _, name in hosts}
        self._own = "http" if config.tls_certificate is None else "https"
        """How this machine itself comes here, under names that nobody has listed."""
        self._seen, self._guard = dict[bytes, datetime](), Lock()

    def token_of(self, request: Request) -> str | None:
        """Returns what a browser is known by, if it may be by this request; None for no browser.

        Raises `UnknownHost` or `ForeignRequest` where it may not.
        """
        header = request.headers.get(b"cookie", b"")
        if COOKIE.encode() not in header:
            return None
        scheme, host = self._called(request)
        token = _cookie(header, self._name(scheme, host))
        if token is not None:
            _check_from_here(request, f"{scheme}://{host}")
        return token

    def check_from_here(self, request: Request) -> None:
        """Raises `UnknownHost` or `ForeignRequest` unless a page of this server asks."""
        scheme, host = self._called(request)
        _check_from_here(request, f"{scheme}://{host}")

    def address(self, request: Request) -> str:
        """Returns where a person finds this server, as whoever asks calls it.

        If that is a name under which nobody can sign in, another that is listed; `UnknownHost` is
        raised where there is none.
        """
        try:
            scheme, host = self._called(request)
        except UnknownHost:
            if not self._schemes:
                raise
            host, scheme = next(iter(self._schemes.items()))
        return f"{scheme}://{host}{self._path.rstrip('/')}"

    def cookie(self, request: Request, token: str | None) -> str:
        """Returns the header that gives a browser its token; with none, takes it away."""
        scheme, host = self._called(request)
        seconds = int(LONGEST.total_seconds()) if token else 0
        parts = [
            f"{self._name(scheme, host)}={token or ''}",
            f"Path={self._path}",
            f"Max-Age={seconds}",
            "HttpOnly",
            "SameSite=Strict",
        ]
        return "; ".join([*parts, "Secure"] if scheme == "https" else parts)

    def note(self, sign_in: SignIn) -> None:
        """Notes that a sign-in is used, for who writes that down now and then."""
        now = self.sign_ins.when_due(sign_in)
        if now is not None:
            with self._guard:
                self._seen[sign_in.token_hash] = now

    def write_down(self) -> None:
        """Writes down which sign-ins were used since this was last done."""
        with self._guard:
            seen, self._seen = self._seen, {}
        if seen:
            self.sign_ins.note(seen)

    def _name(self, scheme: str, host: str) -> str:
        """Returns what the cookie is called: over TLS, so that no other host can set it.

        Without, by its port: a browser sends a cookie to all ports of a host, and of two servers on
        one machine each would take the other's away.
        """
        if scheme != "https":
            port = host.rpartition("]")[2].partition(":")[2]
            return f"{COOKIE}-{port}" if _PORT.fullmatch(port) else COOKIE
        return f"__Host-{COOKIE}" if self._path == "/" else f"__Secure-{COOKIE}"

    def _called(self, request: Request) -> tuple[str, str]:
        """Returns the scheme and the host that a request is called by; raises `UnknownHost`."""
        hosts = {value for name, value in request.scope["headers"] if name == b"host"}
        host = hosts.pop().decode("latin-1").lower() if len(hosts) == 1 else ""
        name = _name_of(host)
        scheme = self._schemes.get(name) or (self._own if _is_loopback(name) else None)
        if scheme is None:
            raise UnknownHost(host)
        return scheme, host


def _name_of(host: str) -> str:
    """Returns a host without its port and the dot that may end it."""
    if host.startswith("["):
        return host.partition("]")[0][1:]
    return host.partition(":")[0].removesuffix(".")


def _is_loopback(name: str) -> bool:
    return name in ("127.0.0.1", "::1", "localhost") or name.endswith(".localhost")


def _cookie(header: bytes, name: str) -> str | None:
    """Returns a cookie's value; None if there is none, or two that differ: one is not ours."""
    pairs = (each.strip().partition("=") for each in header.decode("latin-1").split(";"))
    found = {value for each, _, value in pairs if each == name and value}
    return found.pop() if len(found) == 1 else None


def _check_from_here(request: Request, origin: str) -> None:
    """Raises `ForeignRequest` for a request that no page of this origin makes."""
    site, named = request.headers.get(b"sec-fetch-site"), request.header(b"origin")
    named = None if named is None else named.lower()
    if request.method in _SAFE:
        # To read, a page of ours need not say where it is.
        is_ours = named in (None, origin) if site is None else site in _OURS
        if not is_ours:
            raise ForeignRequest
        return
    # A browser says the site only where it trusts the connection.
    is_ours = named == origin if site is None else site == b"same-origin"
    if not is_ours or request.headers.get(MARK) != b"1":
        raise ForeignRequest
