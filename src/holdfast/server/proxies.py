"""Where a request comes from, behind proxies that are named.

Anybody can send `X-Forwarded-For`. With proxies named (`HOLDFAST_PROXIES`), it counts if a proxy
sends it, and is then where the request comes from: the last address in it that is no proxy's own.
From everybody else it is dropped. Where none is named, nobody is believed, and nobody ignored:
whoever sends it shares what it has among those whom it names (`strangers`, `tries`).

`Forwarded` is not looked at: a proxy that knows one of the two passes the other on as it came.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from holdfast.server.asgi import App, Receive, Scope, Send

SAID: Final = b"x-forwarded-for"
_WITH_PORT: Final = re.compile(r"(\d+\.\d+\.\d+\.\d+|\[.*\]):\d{1,5}", re.ASCII)
"""Some proxies name the port as well. Of an IPv6 address it is told apart by brackets alone."""
_REMEMBERED: Final = 4096
_HOPS: Final = 16
"""Addresses that are looked at: chains of proxies are shorter, and a header holds thousands."""


class Behind:
    """An application behind proxies."""

    def __init__(self, app: App, proxies: Sequence[str]) -> None:
        self.app = app
        self._networks = tuple(ip_network(each) for each in proxies)
        self._is_proxy = lru_cache(_REMEMBERED)(self._looked_up)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on as one of whom it comes from."""
        if scope["type"] == "http":
            peer, port = scope.get("client") or ("", 0)
            said = [value for name, value in scope["headers"] if name == SAID]
            if said:
                scope["headers"] = [pair for pair in scope["headers"] if pair[0] != SAID]
                if self._is_proxy(peer):
                    scope["client"] = (self._origin(peer, b",".join(said)), port)
        await self.app(scope, receive, send)

    def _origin(self, peer: str, said: bytes) -> str:
        """Returns the last address that is no proxy's; that of the farthest proxy if all are."""
        found = peer
        for part in reversed(said.decode("latin-1").rsplit(",", _HOPS)):
            address = _address(part.strip())
            if address is None:
                break  # Whoever wrote that, whatever stands before it is no better.
            found = str(address)
            if not self._is_proxy(found):
                break
        return found

    def _looked_up(self, peer: str) -> bool:
        address = _address(peer)
        return address is not None and any(address in network for network in self._networks)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    if with_port := _WITH_PORT.fullmatch(text):
        text = with_port[1]
    try:
        found = ip_address(text.strip("[]"))
    except ValueError:
        return None
    # An IPv4 client of a server that listens on both.
    return getattr(found, "ipv4_mapped", None) or found
