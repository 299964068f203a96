"""What the conformance tests share: a real server in a process of its own, and clean namespaces.

The clients that are tested against it are those of the package index, unmodified.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest
from trove_sdk import TroveClient

from holdfast.testing.servers import Begin, Server, running_server

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    """A running server, shared by the tests of a module; receivers on loopback are allowed."""
    environ = {"HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1"}
    with running_server(home, environ=environ, begin=at_once) as started:
        yield started


@pytest.fixture
def namespace() -> str:
    """The name of a namespace that no other test of this process has used."""
    return f"agent-{next(_NUMBERS)}"


@pytest.fixture
def trove(server: Server, namespace: str) -> Iterator[TroveClient]:
    """The SDK's client of files and snapshots, in a namespace of its own."""
    with TroveClient(server.api_key, namespace, base_url=server.url) as client:
        yield client


@pytest.fixture
def wire(server: Server, namespace: str) -> Iterator[httpx.Client]:
    """The same without the SDK, for what it would not send or does not show."""
    headers = {"Authorization": f"Bearer {server.api_key}", "X-Namespace": namespace}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
        yield client
