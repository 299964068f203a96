"""A flipped bit in a row of the catalog is never returned as data, nor as an error of Python's.

Some dozens, of every table that has rows; `bench/soak_bit_flips.py` flips thousands, all over the
catalog.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from holdfast.testing.flips import (
    NAMED,
    RAW,
    WRONG,
    PostgresFlips,
    SqliteFlips,
    examine,
    fill,
    look,
    open_at,
)

pytestmark = pytest.mark.in_memory

FLIPS = {"sqlite": 2, "postgres": 1}
"""Of each table: to open a vault in a database takes longer."""


@pytest.fixture(params=["sqlite", "postgres"])
def flips(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteFlips | PostgresFlips]:
    random = Random(20)
    if request.param == "sqlite":
        with open_at(str(tmp_path / "vault"), tmp_path) as vault:
            fill(vault)
        yield SqliteFlips(tmp_path / "vault", random)
        return
    url: str = request.getfixturevalue("postgres_url")
    with open_at(url, tmp_path) as vault:
        fill(vault)
    with closing(PostgresFlips(url, tmp_path, random)) as found:
        yield found


def test_a_flipped_bit_is_neither_returned_nor_an_error_of_pythons(
    flips: SqliteFlips | PostgresFlips,
) -> None:
    with open_at(flips.location, flips.objects) as vault:
        before = look(vault)
    assert not [name for name, value in before.items() if isinstance(value, Exception)]
    seen = [
        examine(before, flips.flip(table), flips.location, flips.objects)
        for table in flips.tables
        for _ in range(FLIPS["postgres" if isinstance(flips, PostgresFlips) else "sqlite"])
    ]
    assert [each for each in seen if each.outcome in (WRONG, RAW)] == []
    # Most of them are noticed: the others hit an index, or what nothing shows.
    assert sum(each.outcome == NAMED for each in seen) > len(seen) // 4
