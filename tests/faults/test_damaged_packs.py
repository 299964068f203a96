"""What the catalog says of packs follows from the packs: a row that says else is put right."""

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

import holdfast
from holdfast import Holdfast
from holdfast.testing.damaged import Kept

pytestmark = pytest.mark.in_memory

LARGE = Random(5).randbytes(600_000)
SMALL = Random(6).randbytes(2_000)
"""One lies in a pack of its own, the other inside the catalog."""

PLACES = [
    "is_inline = 0",
    "is_inline = 1 AND id IN (SELECT MIN(id) FROM packs WHERE is_inline = 1)",
]


def fill(vault: Holdfast) -> None:
    agent = vault.namespace("alice")
    agent.files.write("large.bin", LARGE)
    agent.files.write("small.bin", SMALL)
    agent.snapshot("all of it")


def reads(vault: Holdfast) -> bool:
    files = vault.namespace("alice").files
    return files.read("large.bin") == LARGE and files.read("small.bin") == SMALL


def check_repair(kept: Kept) -> None:
    """Checks that all of it is there again, and that nothing else is said."""
    with kept.reopen() as vault:
        done = vault.repair()
        assert (done.lost, done.replaced) == ([], ())
        assert vault.verify().ok
        vault.collect(now=True)
        assert vault.verify().ok
    with kept.reopen() as vault:
        assert reads(vault)


@pytest.mark.parametrize(
    ("column", "bit"),
    [
        ("name", 1),
        ("name", 6),
        ("state", 1),
        ("is_inline", 0),
        ("is_inline", 1),
        ("size_bytes", 40),
    ],
)
@pytest.mark.parametrize("where", PLACES, ids=["outside", "inside"])
def test_what_a_row_says_of_a_pack_is_put_right(
    kept: Kept, where: str, column: str, bit: int
) -> None:
    fill(kept.vault)
    ((pack_id,),) = kept.sql(f"SELECT id FROM packs WHERE {where}")
    kept.flip("packs", column, bit=bit, where=f"id = {pack_id}")
    check_repair(kept)


def test_bytes_inside_the_catalog_that_no_row_names_get_one(kept: Kept) -> None:
    fill(kept.vault)
    kept.sql(f"DELETE FROM packs WHERE {PLACES[1]}")
    check_repair(kept)


@pytest.mark.parametrize("bit", [3, 41])
def test_bytes_inside_the_catalog_under_another_id_go_to_the_row_that_lacks_them(
    kept: Kept, bit: int
) -> None:
    fill(kept.vault)
    kept.sql(
        f"UPDATE pack_data SET pack_id = pack_id + {1 << bit}"
        f" WHERE pack_id IN (SELECT id FROM packs WHERE {PLACES[1]})",
    )
    check_repair(kept)


@pytest.mark.parametrize("bit", [1, 6])
def test_a_pack_whose_name_is_damaged_is_nobodys_garbage(kept: Kept, bit: int) -> None:
    fill(kept.vault)
    kept.flip("packs", "name", bit=bit, where=PLACES[0])
    for _ in range(2):
        with kept.reopen() as vault:
            vault.collect(now=True)
    check_repair(kept)


def test_a_pack_whose_row_is_gone_is_nobodys_garbage(kept: Kept) -> None:
    fill(kept.vault)
    other = kept.vault.tenant("other")
    other.namespace("bob").files.write("x.bin", LARGE[::-1])
    kept.sql(f"DELETE FROM packs WHERE {PLACES[0]} AND tenant_id = 1")
    for _ in range(2):
        with kept.reopen() as vault:
            vault.tenant("other").collect(now=True)
    assert kept.sql("SELECT name FROM retired") == []
    with kept.reopen() as vault:
        assert vault.repair().ok
        assert reads(vault)


def test_a_pack_that_was_cut_short_is_not_believed_to_be_whole(tmp_path: Path) -> None:
    with holdfast.open(tmp_path) as vault:
        fill(vault)
    (pack,) = tmp_path.rglob("*.pack")
    pack.write_bytes(pack.read_bytes()[:-100])
    with holdfast.open(tmp_path) as vault:
        assert not vault.repair().ok
        assert any("not 6" in each.reason for each in vault.verify().faults)


@pytest.mark.parametrize("column", ["size_bytes INTEGER", "name TEXT", "state TEXT"])
def test_a_row_that_lacks_a_value_is_no_row_to_do_without(tmp_path: Path, column: str) -> None:
    with holdfast.open(tmp_path) as vault:
        fill(vault)
    name = column.split(maxsplit=1)[0]
    for change, value in ((f"{column} NOT NULL", column), (column, f"{column} NOT NULL")):
        with closing(
            sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)
        ) as connection:
            connection.execute("PRAGMA writable_schema=ON")
            query = "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = 'packs'"
            connection.execute(query, (change, value))
        if value == column:
            with closing(
                sqlite3.connect(tmp_path / "catalog.sqlite", isolation_level=None)
            ) as connection:
                connection.execute(f"UPDATE packs SET {name} = NULL WHERE {PLACES[1]}")
    with holdfast.open(tmp_path) as vault:
        done = vault.repair()
        assert (done.lost, done.replaced) == ([], ())
        assert vault.verify().ok
        assert reads(vault)
