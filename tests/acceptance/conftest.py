"""What acceptance tests of all doors stand on: a module may have a `server` of its own instead."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.testing.servers import Server, running_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on an empty vault, for the tests of one module."""
    with running_server(tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres), "served"])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Returns one more object for the same namespace each time."""
    if request.param == "served":
        server: Server = request.getfixturevalue("server")
        with holdfast.Client(server.api_key, url=server.url) as client:
            yield lambda: client.namespace(request.node.name)
        return
    is_postgres = request.param == "postgres"
    place = request.getfixturevalue("postgres_url") if is_postgres else tmp_path / "vault"
    with holdfast.open(place, objects=tmp_path / "packs" if is_postgres else None) as vault:
        yield lambda: vault.namespace("agent")
