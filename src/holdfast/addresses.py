"""Addresses of names, and which of them are on the public internet.

For whoever connects to where users say: no name may lead to what is near this machine alone.
"""

import ipaddress
import queue
import socket
import threading
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_PUBLIC6: Final = ipaddress.IPv6Network("2000::/3")
"""All of IPv6 that is given to anybody."""

_REFUSED: Final = (
    ipaddress.ip_network("100.64.0.0/10"),  # Shared by a provider's customers.
    ipaddress.ip_network("192.0.0.0/24"),  # Protocols among routers.
    ipaddress.ip_network("192.88.99.0/24"),  # Relays into IPv6.
    ipaddress.ip_network("3fff::/20"),  # For documentation.
)
"""What `ipaddress` takes for public, in this or that version of Python."""


def resolve(host: str, port: int) -> list[str]:
    """Returns every address that a name has; raises what the system does."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def in_time(ask: Callable[[], T], seconds: float) -> T:
    """Returns what a question is answered with; raises `TimeoutError` if that takes too long.

    Nothing can stop the system from asking on: it does that in a thread of its own.
    """
    answers: queue.SimpleQueue[T | Exception] = queue.SimpleQueue()

    def wait() -> None:
        try:
            answers.put(ask())
        except Exception as exc:  # noqa: BLE001 - raised where it is waited for
            answers.put(exc)

    threading.Thread(target=wait, name="holdfast-resolve", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def is_public(address: Address) -> bool:
    """Says whether an address is on the public internet, in whatever form it is written."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = _inner(address)
        if inner is not None:
            return is_public(inner)
        if address not in _PUBLIC6:
            return False
    if any(address in network for network in _REFUSED):
        return False
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified
    )


def _inner(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Returns the address of the older kind that this one leads to."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour
