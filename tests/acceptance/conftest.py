"""What acceptance tests of all doors stand on: a module may have a `server` of its own instead."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.servers import Begin, Server, running_server

Either = tuple[Path, dict[str, str]]
"""A server's directory, and what its environment says of the database."""


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    """A server on an empty vault, for the tests of one module."""
    with running_server(home, begin=at_once) as started:
        yield started


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def either(request: pytest.FixtureRequest, home: Path) -> Iterator[Either]:
    """A place for a server with its rows in SQLite, and then one with them in PostgreSQL."""
    folder = home / request.param
    if request.param == "sqlite":
        yield folder, {}
        return
    postgres: PostgresServer = request.getfixturevalue("postgres")
    name = postgres.create_database()
    yield folder, {"HOLDFAST_DATABASE_URL": postgres.dsn(name)}
    postgres.drop_database(name)


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
    packs = request.getfixturevalue("packs") if is_postgres else None
    with holdfast.open(place, objects=packs) as vault:
        yield lambda: vault.namespace("agent")
