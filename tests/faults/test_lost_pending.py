"""A pending row that is not found is not taken for one that was never written.

What is missing of it is the mark of its key: who asks for another one is not stopped.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.engine.planes.missing import MOST_ADDED
from holdfast.errors import Damaged, PendingDamaged
from holdfast.testing.damaged import Kept, kept_on_postgres, kept_on_sqlite

pytestmark = pytest.mark.in_memory

LONG = "as long as files are " * 100
MINE = "plane = '{0}' AND sequence = (SELECT MAX(sequence) FROM pending WHERE plane = '{0}')"


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    if request.param == "sqlite":
        with kept_on_sqlite(tmp_path / "vault") as found:
            yield found
        return
    with kept_on_postgres(request.getfixturevalue("postgres_url"), tmp_path / "objects") as found:
        yield found


@pytest.fixture(autouse=True)
def _written(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    agent.files.write("kept.txt", "in a snapshot")
    agent.files.write("x.txt", "an old one")
    agent.store.set("s", "kept", 1)
    agent.snapshot()
    agent.store.set("s", "y", 2)
    agent.files.write("x.txt", "a newer one")


def _damage(kept: Kept, how: str, plane: str) -> None:
    where = MINE.format(plane)
    if how == "key":
        kept.flip("pending", "key", where=where)
    elif how == "namespace":
        if kept.is_postgres:
            kept.sql("ALTER TABLE pending DROP CONSTRAINT IF EXISTS pending_namespace_id_fkey")
        kept.flip("pending", "namespace_id", bit=9, where=where)
    else:
        kept.sql(f"DELETE FROM pending WHERE {where}")


@pytest.mark.parametrize("how", ["key", "namespace", "gone"])
def test_a_missing_row_is_named_and_no_older_one_returned(kept: Kept, how: str) -> None:
    _damage(kept, how, "files")
    _damage(kept, how, "store")
    with kept.reopen() as vault:
        agent = vault.namespace("alice")
        for read in (
            lambda: agent.files.read("x.txt"),
            lambda: agent.store.get("s", "y"),
            lambda: agent.files.list(recursive=True),
            lambda: agent.store.keys("s"),
            lambda: agent.store.max_key("s"),
            agent.snapshot,
        ):
            with pytest.raises(Damaged):
                read()
        assert not vault.verify().ok


def test_a_value_that_is_put_over_a_damaged_one_is_there(kept: Kept) -> None:
    kept.flip("pending", "entry", where=MINE.format("store"))
    with kept.reopen() as vault:
        agent = vault.namespace("alice")
        with pytest.raises(Damaged):
            agent.store.get("s", "y")
        agent.store.set("s", "y", 3)
        assert agent.store.get("s", "y") == 3
        agent.snapshot()
        assert agent.store.get("s", "y") == 3


@pytest.mark.parametrize("how", ["key", "namespace", "gone"])
def test_who_asks_for_another_key_is_not_stopped(kept: Kept, how: str) -> None:
    _damage(kept, how, "files")
    with kept.reopen() as vault:
        agent = vault.namespace("alice")
        with pytest.raises(Damaged):
            agent.files.read("x.txt")
        assert agent.files.read("kept.txt") == b"in a snapshot"
        assert agent.store.get("s", "y") == 2
        assert agent.store.get_many([("s", "kept"), ("s", "none")]) == [1, None]


def test_a_flipped_key_is_put_back_and_what_is_gone_is_let_go_of(kept: Kept) -> None:
    _damage(kept, "key", "files")
    _damage(kept, "gone", "store")
    with kept.reopen() as vault:
        repaired = vault.repair()
        assert [each.what for each in repaired.lost] == ["something that was pending"]
        agent = vault.namespace("alice")
        assert agent.files.read("x.txt") == b"a newer one"
        assert agent.store.get("s", "y") is None
        agent.snapshot()
        assert vault.verify().ok


def test_a_file_that_lies_in_its_row_is_missed_and_nothing_older_takes_its_place(
    kept: Kept,
) -> None:
    kept.vault.namespace("alice").files.write("x.txt", LONG)
    _damage(kept, "gone", "files")
    with kept.reopen() as vault:
        agent = vault.namespace("alice")
        for read in (lambda: agent.files.read("x.txt"), lambda: agent.files.stat("x.txt")):
            with pytest.raises(Damaged):
                read()
        assert not vault.verify().ok
        assert [each.what for each in vault.repair().lost] == ["something that was pending"]
        assert agent.files.read("x.txt") == b"an old one"
        assert vault.verify().ok


@pytest.mark.parametrize("bits", [1, 3])
def test_a_flipped_bit_of_a_file_in_its_row_is_put_back_and_more_is_damage(
    kept: Kept, bits: int
) -> None:
    kept.vault.namespace("alice").files.write("x.txt", LONG)
    for bit in range(bits):
        kept.flip("pending", "entry", bit=bit, where=MINE.format("files"))
    with kept.reopen() as vault:
        agent = vault.namespace("alice")
        for read in (lambda: agent.files.read("x.txt"), agent.snapshot):
            with pytest.raises(PendingDamaged):
                read()
        assert not vault.verify().ok
        assert bool(vault.repair().lost) == (bits > 1)
        found = agent.files.read("x.txt")
        assert found == (LONG.encode() if bits == 1 else b"an old one")
        agent.files.write("x.txt", LONG)
        agent.snapshot()
        assert agent.files.read("x.txt") == LONG.encode()
        assert vault.verify().ok


def test_a_flipped_bit_of_the_sum_is_put_back(kept: Kept) -> None:
    kept.flip("namespaces", "unfolded", bit=3)
    with kept.reopen() as vault:
        agent = vault.namespace("alice")
        with pytest.raises(Damaged):
            agent.snapshot()
        assert not vault.repair().lost
        assert vault.verify().ok
        agent.snapshot()


def test_what_is_written_while_a_snapshot_is_taken_still_counts(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    for each in range(40):
        agent.store.set("s", f"more-{each % 7}", each)
        if each % 3 == 0:
            agent.files.delete("x.txt") if each % 2 else agent.files.write("x.txt", str(each))
        if each % 5 == 0:
            agent.snapshot()
    ((unfolded,),) = kept.sql("SELECT unfolded FROM namespaces")
    assert unfolded >> 32 >= 1
    assert kept.vault.verify().ok


def test_of_very_many_rows_one_that_is_missing_is_named_as_well(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    agent.store.set_many([("s", f"key {each}", each) for each in range(2 * MOST_ADDED)])
    agent.store.set("s", "y", 3)
    _damage(kept, "gone", "store")
    with kept.reopen() as vault:
        agent = vault.namespace("alice")
        with pytest.raises(Damaged):
            agent.store.get("s", "y")
        assert agent.store.get("s", "key 7") == 7
