"""A vault on each database whose rows a test damages."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.damaged import Kept, kept_on_postgres, kept_on_sqlite


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    if request.param == "sqlite":
        with kept_on_sqlite(tmp_path) as made:
            yield made
    else:
        with kept_on_postgres(request.getfixturevalue("postgres_url"), tmp_path) as made:
            yield made
