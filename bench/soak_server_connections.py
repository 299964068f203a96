"""Holds 2,000 connections of a server without ever finishing a request, and asks it meanwhile.

A third says nothing, a third stops in the middle of a head, a third drips one. The server has to
answer others all the while, and to have ended every one of them within a minute.

    python bench/soak_server_connections.py [--connections 2000]
"""

import argparse
import selectors
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.request import urlopen

from holdfast.testing.servers import running_server

DEADLINE_S = 60.0
BEGUN = (b"", b"GET /health HTTP/1.1\r\nHost: x\r\nX-A: ", b"GET /health HTTP/1.1\r\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the soak; returns 0 if every connection was ended and nobody else waited."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=2000)
    wanted = parser.parse_args(arguments).connections
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as server:
        begun = time.monotonic()
        held = hold(server.port, wanted)
        opened_s = time.monotonic() - begun
        probes, last = list[float](), time.monotonic()
        while held and time.monotonic() - last < DEADLINE_S + 10:
            asked = time.monotonic()
            with urlopen(f"{server.url}/health/live", timeout=30):
                probes.append(time.monotonic() - asked)
            held = still_open(held)
        took = time.monotonic() - last
    probes.sort()
    print(f"{wanted} connections opened in {opened_s:.1f} s, {len(held)} open after {took:.1f} s")
    print(f"{len(probes)} probes: median {probes[len(probes) // 2] * 1e3:.1f} ms,", end=" ")
    print(f"p99 {probes[len(probes) * 99 // 100] * 1e3:.1f} ms, worst {probes[-1] * 1e3:.1f} ms")
    return 1 if held or took > DEADLINE_S else 0


def hold(port: int, wanted: int) -> list[tuple[socket.socket, bool]]:
    """Opens connections that each begin something; says of each whether it drips."""
    held = list[tuple[socket.socket, bool]]()
    for number in range(wanted):
        connection = socket.create_connection(("127.0.0.1", port), timeout=30)
        connection.sendall(BEGUN[number % 3])
        connection.settimeout(0)
        held.append((connection, number % 3 == 1))
    return held


def still_open(held: list[tuple[socket.socket, bool]]) -> list[tuple[socket.socket, bool]]:
    """Drips where that is to be, and returns the connections that the server has not ended."""
    ended = set[int]()
    with selectors.DefaultSelector() as selector:
        for connection, _ in held:
            selector.register(connection, selectors.EVENT_READ)
        for key, _ in selector.select(0.5):
            if is_ended(selector.get_map()[key.fd].fileobj):
                ended.add(key.fd)
    kept = list[tuple[socket.socket, bool]]()
    for connection, drips in held:
        if connection.fileno() in ended:
            connection.close()
            continue
        kept.append((connection, drips))
        if drips:
            try:
                connection.send(b"a")
            except OSError:
                kept.pop()
                connection.close()
    return kept


def is_ended(connection: object) -> bool:
    """Says whether the other side has ended a connection that can be read."""
    assert isinstance(connection, socket.socket)
    try:
        return connection.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


if __name__ == "__main__":
    sys.exit(main())
