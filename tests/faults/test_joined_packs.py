"""Small packs are joined without looking at what is needed: what no row names goes along."""

import os
import sqlite3
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.upkeep import repacking


def test_what_a_lost_row_named_can_be_brought_back_from_a_joined_pack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repacking, "SMALL_BYTES", 20_000)
    contents = [os.urandom(6000) for _ in range(6)]
    with holdfast.open(tmp_path / "vault") as vault:
        for number, content in enumerate(contents):
            vault.namespace("a").files.write(f"{number}.bin", content)
            vault.namespace("a").snapshot()
    catalog = sqlite3.connect(tmp_path / "vault" / "catalog.sqlite")
    with catalog:
        (lost, *_) = catalog.execute("SELECT id FROM objects WHERE size = 6000").fetchall()
        catalog.execute("DELETE FROM objects WHERE id = ?", lost)
        (before,) = catalog.execute("SELECT count(*) FROM packs").fetchone()
    catalog.close()
    with holdfast.open(tmp_path / "vault") as vault:
        repacking.join_packs(vault._context, vault._tenant.id)
        with vault._context.catalog.read() as transaction:
            assert len(transaction.iter_packs(vault._tenant.id)) < before
        assert vault.repair().misplaced == 1
        read = [vault.namespace("a").files.read(f"{number}.bin") for number in range(6)]
        assert read == contents
        assert vault.verify().ok
