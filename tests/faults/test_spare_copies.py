"""Of what two writers have stored, one copy may go: not while the other one is damaged."""

import os
import sqlite3
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.core.limits import Limits

KEPT = os.urandom(6000)


def packs(place: Path) -> set[Path]:
    """Returns the packs that hold it."""
    found = {each for each in (place / "packs").rglob("*") if each.is_file()}
    return {each for each in found if KEPT[:64] in each.read_bytes()}


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_spare_copy_goes_only_if_the_one_that_is_named_is_good(
    tmp_path: Path, is_damaged: bool
) -> None:
    place, limits = tmp_path / "vault", Limits(inline_bytes=0)
    with holdfast.open(place, limits=limits) as vault:
        vault.namespace("a").store.set("t", "k", KEPT)
        vault.namespace("a").snapshot()
    (first,) = packs(place)
    # Another writer did not see these rows yet, and stored the same.
    catalog = sqlite3.connect(place / "catalog.sqlite")
    with catalog:
        catalog.execute("DELETE FROM objects")
    catalog.close()
    with holdfast.open(place, limits=limits) as vault:
        vault.namespace("b").store.set("t", "k", KEPT)
        vault.namespace("b").snapshot()
    (second,) = packs(place) - {first}
    if is_damaged:
        data = bytearray(second.read_bytes())
        data[data.index(KEPT[:64]) + 100] ^= 1
        second.chmod(0o600)
        second.write_bytes(data)
    with holdfast.open(place, limits=limits) as vault:
        damaged = vault.collect(now=True).damaged
        assert damaged == ((first.stem,) if is_damaged else ())
        assert packs(place) == ({first, second} if is_damaged else {second})
        vault.repair()
        assert vault.namespace("a").store.get("t", "k") == KEPT
        assert vault.verify().ok
