"""How far replicas are behind: what the database says of them, and where it says nothing."""

from pathlib import Path

import psycopg
import pytest

import holdfast
from holdfast.catalog.port import Catalog
from holdfast.testing.postgres import PostgresServer

STUB = """
CREATE SCHEMA stubs;
CREATE VIEW stubs.pg_stat_replication AS
SELECT pg_catalog.pg_current_wal_lsn() - behind AS flush_lsn
FROM (VALUES (CAST({first} AS NUMERIC)), ({second})) AS replicas (behind);
GRANT USAGE ON SCHEMA stubs TO PUBLIC;
GRANT SELECT ON stubs.pg_stat_replication TO PUBLIC;
"""


def test_a_catalog_without_replicas_has_none_that_is_behind(catalog: Catalog) -> None:
    with catalog.ask() as transaction:
        assert transaction.find_replicas() == (0, None)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("first", "second", "lag"),
    [("100", "3000", 3000), ("0", "-5000", 0), ("NULL", "NULL", None), ("NULL", "70", 70)],
)
def test_the_last_of_several_replicas_says_how_far_they_are_behind(
    postgres: PostgresServer, tmp_path: Path, first: str, second: str, lag: int | None
) -> None:
    url = postgres.dsn(postgres.create_database())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(STUB.format(first=first, second=second).encode())
    place = f"{url}?options=-c%20search_path%3Dstubs,pg_catalog"
    with holdfast.open(place, objects=tmp_path / "packs") as vault:
        measures = vault.measure()
        assert measures.replicas == 2
        if lag is None or not lag:
            assert measures.replica_lag_bytes == lag
        else:  # The log goes on meanwhile, by whatever is written there.
            assert measures.replica_lag_bytes is not None
            assert lag <= measures.replica_lag_bytes < lag + (1 << 20)


@pytest.mark.postgres
def test_a_database_that_does_not_say_it_is_measured_otherwise(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.dsn(postgres.create_database())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA stubs")
        connection.execute("CREATE TABLE stubs.pg_stat_replication (nothing INT)")
    place = f"{url}?options=-c%20search_path%3Dstubs,pg_catalog"
    with holdfast.open(place, objects=tmp_path / "packs") as vault:
        measures = vault.measure()
        assert (measures.replicas, measures.replica_lag_bytes) == (0, None)
        assert measures.deliveries == 0
