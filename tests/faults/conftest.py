"""Vaults on each database whose rows a test damages, or whose bytes it searches."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.damaged import Kept, kept_on_postgres, kept_on_sqlite
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
