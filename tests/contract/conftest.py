"""What tests of the contract stand on: a vault on either database, with a clock that they set."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.testing.clocks import Watch

if os.environ.get("HOLDFAST_TEST_POOLED") == "1":
    # They change rows past the catalog, on connections that ask for what a pooler refuses.
    collect_ignore = ["test_reused_ids.py", "test_sealed_sessions.py", "test_traces.py"]


@pytest.fixture
def tmp_path(place_in_memory: Path) -> Path:
    """A directory of the test's own: what a port promises is not about disks."""
    return place_in_memory


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def opener(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Watch
) -> Iterator[Callable[..., holdfast.Holdfast]]:
    """Opens the same vault as often as it is asked to, by the clock of the module."""
    opened: list[holdfast.Holdfast] = []
    where = tmp_path / "vault" if request.param == "sqlite" else None
    url = None if where else request.getfixturevalue("postgres_url")
    packs = request.getfixturevalue("packs")

    def open_it(**more: Any) -> holdfast.Holdfast:
        vault = holdfast.open(where or url, objects=packs, clock=clock, **more)
        opened.append(vault)
        return vault

    yield open_it
    for vault in opened:
        vault.close()
