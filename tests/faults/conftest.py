"""Vaults on each database: to die in, to damage the rows of, to search every byte of."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import holdfast
from holdfast import Holdfast
from holdfast.testing.damaged import Kept, Reinstate, kept_on_postgres, kept_on_sqlite
from holdfast.testing.places import Admin, PostgresPlace, SqlitePlace
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.remains import Place


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    if request.param == "sqlite":
        with kept_on_sqlite(tmp_path) as made:
            yield made
    else:
        with kept_on_postgres(request.getfixturevalue("postgres_url"), tmp_path) as made:
            yield made


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def searched(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Returns a place for a vault of which every byte can be searched."""
    if request.param == "sqlite":
        yield Place(str(tmp_path / "vault"), tmp_path / "packs", tmp_path / "vault")
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = server.create_database()
    yield Place(server.dsn(name), tmp_path / "packs", tmp_path / "vault")
    server.drop_database(name)


@pytest.fixture
def place(place_in_memory: Path) -> SqlitePlace:
    """A vault to die in; what is played there needs no real disk."""
    return SqlitePlace(place_in_memory)


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[tuple[str, Admin]]:
    """One database for all tests of a module, which empty it: making one takes longer."""
    name = postgres.create_database()
    options = "-c search_path=holdfast"
    with psycopg.connect(postgres.dsn(name), autocommit=True, options=options) as admin:
        yield postgres.dsn(name), admin
    postgres.drop_database(name)


@pytest.fixture
def postgres_place(place_in_memory: Path, database: tuple[str, Admin]) -> PostgresPlace:
    return PostgresPlace(place_in_memory, *database)


@pytest.fixture
def bring_back(
    request: pytest.FixtureRequest, kept: Kept, tmp_path_factory: pytest.TempPathFactory
) -> Reinstate:
    """Makes a vault of a backup, in the kind of database that it is of, and opens it."""

    elsewhere = tmp_path_factory.mktemp("brought back")

    def reinstate(backup: Path, name: str) -> Holdfast:
        if not kept.is_postgres:
            holdfast.reinstate(backup, elsewhere / name)
            return holdfast.open(elsewhere / name)
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.dsn(server.create_database())
        holdfast.reinstate(backup, url, objects=elsewhere / name)
        return holdfast.open(url, objects=elsewhere / name)

    return reinstate
