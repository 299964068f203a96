"""A load of HTTP requests, from as many connections as one asks for.

The requests are bytes made beforehand, and answers are read as far as their length says: a
client that did more would be what is measured.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

OK = range(200, 300)


@dataclass(frozen=True)
class Asked:
    """One request: method, path, body."""

    method: str
    path: str
    body: dict[str, object] | None = None


@dataclass(frozen=True)
class Load:
    """What a load of requests came to."""

    connections: int
    requests: int
    seconds: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def p50(self) -> float:
        return statistics.median(self.latencies)

    @property
    def p99(self) -> float:
        return sorted(self.latencies)[int(len(self.latencies) * 0.99)]


def encode(asked: Asked, *, host: str, key: str, namespace: str) -> bytes:
    """Returns a request as it goes over the wire."""
    body = b"" if asked.body is None else json.dumps(asked.body).encode()
    head = [
        f"{asked.method} {asked.path} HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {key}",
        f"X-Namespace: {namespace}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


@dataclass
class _Client:
    """Some connections to a server, and what their requests took."""

    url: str
    key: str
    ask: Callable[[int, int], tuple[str, Asked]]
    latencies: list[float] = field(default_factory=list[float])

    async def run(self, connections: int, seconds: float) -> Load:
        begun = time.perf_counter()
        await asyncio.gather(*(self.send(each, begun + seconds) for each in range(connections)))
        taken = time.perf_counter() - begun
        return Load(connections, len(self.latencies), taken, self.latencies)

    async def send(self, connection: int, end: float) -> None:
        """Sends one request after the other, until it is time."""
        parts, n = urlsplit(self.url), 0
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            while (begun := time.perf_counter()) < end:
                namespace, asked = self.ask(connection, n)
                writer.write(encode(asked, host=parts.netloc, key=self.key, namespace=namespace))
                status, body = await _answer(reader)
                if status not in OK:
                    raise RuntimeError(f"{asked.method} {asked.path}: {status} {body[:300]!r}")
                self.latencies.append(time.perf_counter() - begun)
                n += 1
        finally:
            writer.close()


def run_load(
    url: str,
    key: str,
    ask: Callable[[int, int], tuple[str, Asked]],
    *,
    connections: int,
    seconds: float,
) -> Load:
    """Sends requests for so long; `ask(connection, n)` returns a namespace and the nth request."""
    return asyncio.run(_Client(url, key, ask).run(connections, seconds))


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status = int(head.split(" ", 2)[1])
    length = 0
    for line in head.split("\r\n"):
        if line.startswith("content-length:"):
            length = int(line.partition(":")[2])
    return status, await reader.readexactly(length)
