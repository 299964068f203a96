"""Sends bytes to addresses that users chose, and to no address that they should not reach.

A name is resolved once for each request; every address that it has must be a public one, and the
connection goes to one of those that were checked, so that a name which answers differently the
next time changes nothing. No redirects are followed, no proxy of the environment is asked, and the
whole exchange has a deadline, however slowly a name is found or an answer drips in.
"""

import ipaddress
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore2
from httpcore2 import NetworkBackend, NetworkStream, SyncBackend

from holdfast.addresses import in_time, is_public, resolve
from holdfast.errors import HoldfastError

RESOLVE_S: Final = 5.0
CONNECT_S: Final = 5.0
TOTAL_S: Final = 10.0
MAX_ANSWER_BYTES: Final = 4096
"""What is read of an answer: it is looked at by people, in a log."""

Resolve = Callable[[str, int], Sequence[str]]
SocketOptions = Iterable[Any] | None


class Unreachable(HoldfastError):
    """An address that cannot be told anything, or must not be."""

    code = "webhook_unreachable"
    hint = "Give an address that is public; HOLDFAST_ALLOW_PRIVATE_WEBHOOKS=1 allows others."


class NotPublic(Unreachable):
    """An address that must not be told anything."""

    code = "webhook_not_public"

    def __init__(self) -> None:
        super().__init__("the address is not a public one")


def system_resolve(host: str, port: int) -> list[str]:
    """Returns every address that a name has."""
    try:
        return resolve(host, port)
    except (OSError, UnicodeError) as exc:
        message = f"the name {host!r} has no address: {exc}"
        raise Unreachable(message) from exc


class Sender:
    """Sends requests, each on a connection of its own."""

    def __init__(
        self,
        *,
        allow_private: bool = False,
        resolve: Resolve = system_resolve,
        total_s: float = TOTAL_S,
    ) -> None:
        self._allow_private, self._resolve, self._total_s = allow_private, resolve, total_s
        self._tls = ssl.create_default_context()

    def check(self, url: str) -> list[str]:
        """Returns the addresses of a URL; raises `Unreachable` if one of them is private."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        found = _in_time(lambda: self._resolve(host, port), host)
        addresses = [text.partition("%")[0] for text in found]
        if not addresses:
            message = f"the name {host!r} has no address"
            raise Unreachable(message)
        for text in addresses:
            if not self._allow_private and not is_public(ipaddress.ip_address(text)):
                raise NotPublic
        return addresses

    def post(self, url: str, body: bytes, headers: dict[str, str]) -> int:
        """Sends a body, and returns the status of the answer; raises `Unreachable`."""
        deadline = time.monotonic() + self._total_s
        backend = _Pinned(self.check(url), deadline)
        try:
            with (
                httpcore2.ConnectionPool(
                    ssl_context=self._tls, network_backend=backend, max_connections=1, retries=0
                ) as pool,
                pool.stream(
                    "POST",
                    url,
                    headers={**headers, "Connection": "close"},
                    content=body,
                    extensions={"timeout": _timeouts(self._total_s)},
                ) as response,
            ):
                _drain(response.iter_stream())
                return response.status
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as exc:
            message = f"the address could not be told: {type(exc).__name__} {exc}".strip()
            raise Unreachable(message) from exc
        except (OSError, ValueError) as exc:  # What a connection raises by itself, TLS included.
            message = f"the address could not be told: {exc}"
            raise Unreachable(message) from exc


def _in_time(resolve: Callable[[], Sequence[str]], host: str) -> Sequence[str]:
    """Returns the addresses of a name; raises `Unreachable` if that takes too long."""
    try:
        return in_time(resolve, RESOLVE_S)
    except TimeoutError:
        message = f"the name {host!r} was not found in {RESOLVE_S:.0f} s"
        raise Unreachable(message) from None


class _Pinned(NetworkBackend):
    """Connects to addresses that were checked, whatever name is asked for."""

    def __init__(self, addresses: Sequence[str], deadline: float) -> None:
        self._addresses, self._deadline = addresses, deadline
        self._real = SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: SocketOptions = None,
    ) -> NetworkStream:
        """Connects to the first address that answers."""
        del host, timeout
        failure: Exception | None = None
        for address in self._addresses:
            left = min(CONNECT_S, self._deadline - time.monotonic())
            if left <= 0:
                break
            try:
                stream = self._real.connect_tcp(
                    address,
                    port,
                    timeout=left,
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as exc:
                failure = exc
                continue
            return _Hurried(stream, self._deadline)
        raise failure or httpcore2.ConnectTimeout("there was no time left to connect")

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: SocketOptions = None
    ) -> NetworkStream:
        """Refuses: webhooks have no business with sockets of this machine."""
        del timeout, socket_options
        message = f"no webhook leads to {path!r}"
        raise httpcore2.ConnectError(message)


class _Hurried(NetworkStream):
    """A connection whose every step ends at one deadline."""

    def __init__(self, stream: NetworkStream, deadline: float) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Reads what has arrived."""
        return self._stream.read(max_bytes, self._left(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Writes all of it."""
        self._stream.write(buffer, self._left(timeout, httpcore2.WriteTimeout))

    def close(self) -> None:
        """Closes the connection."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> NetworkStream:
        """Goes on encrypted, with whoever can prove to have the name."""
        left = self._left(timeout, httpcore2.ConnectTimeout)
        return _Hurried(self._stream.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - the interface's
        """Returns what the connection knows of itself."""
        return self._stream.get_extra_info(info)

    def _left(self, timeout: float | None, late: type[Exception]) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise late("the exchange took too long")
        return left if timeout is None else min(left, timeout)


def _drain(pieces: Iterable[bytes]) -> None:
    """Reads the beginning of an answer; the rest nobody needs."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size >= MAX_ANSWER_BYTES:
            return


def _timeouts(total_s: float) -> dict[str, float]:
    return {"connect": CONNECT_S, "read": total_s, "write": total_s, "pool": total_s}
