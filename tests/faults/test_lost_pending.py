"""A pending row that is not found is not taken for one that was never written.

What is missing of it is the mark of its key: who asks for another one is not stopped.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.catalog.pending import mark_of
from holdfast.engine.planes.missing import MOST_ADDED
from holdfast.errors import Damaged, PendingDamaged
from holdfast.model.basics import Plane
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


def test_one_of_more_than_a_thousand_is_missed_after_others_have_written_too(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    agent.store.set("s", "k7", 0)
    agent.snapshot()
    agent.store.set_many([("s", f"k{each}", 1) for each in range(1100)])
    with kept.reopen() as vault:
        agent = vault.namespace("alice")
        assert agent.store.get("s", "kept") == 1
        with kept.reopen() as other:
            other.namespace("alice").store.set("s", "another", 1)
        kept.sql("DELETE FROM pending WHERE plane = 'store' AND sequence > 0 AND key = ?", b"s\0k7")
        with pytest.raises(PendingDamaged):
            agent.store.get("s", "k7")
        assert agent.store.get("s", "kept") == 1


def _both_planes(kept: Kept) -> str:
    """Changes a session and a memory after a snapshot of both; returns the memory's id."""
    agent = kept.vault.namespace("alice")
    agent.sessions.create("bot", session_id="talk", initial_state={"x": 0})
    memory = agent.memory.add("an old one")
    agent.snapshot()
    agent.sessions.update_state("talk", {"x": 1})
    agent.memory.update(memory.id, content="a newer one")
    return memory.id


@pytest.mark.parametrize("plane", ["sessions", "memories"])
def test_a_missing_row_of_a_session_or_a_memory_is_named_and_made_anew(
    kept: Kept, plane: str
) -> None:
    memory_id = _both_planes(kept)
    name = "talk" if plane == "sessions" else memory_id
    kept.sql(f"DELETE FROM pending WHERE plane = '{plane}'")
    with kept.reopen() as vault:
        agent = vault.namespace("alice")
        with pytest.raises(PendingDamaged, match=name):
            agent.snapshot()
        assert agent.sessions.get_state("talk").state == {"x": 1}
        assert any(name in each.what for each in vault.verify().faults)
        assert vault.repair().ok
        assert vault.verify().ok
        done = agent.snapshot()
        agent.sessions.update_state("talk", {"x": 2})
        agent.memory.update(memory_id, content="the newest")
        agent.restore(done.id)
        assert agent.sessions.get_state("talk").state == {"x": 1}
        assert agent.memory.get(memory_id).content == "a newer one"
        assert vault.verify().ok


def test_rows_of_many_sessions_and_memories_that_are_missing_are_all_made_anew(kept: Kept) -> None:
    memory_id = _both_planes(kept)
    agent = kept.vault.namespace("alice")
    for each in range(5):
        agent.sessions.create("bot", session_id=f"new-{each}", initial_state={"n": each})
        agent.memory.add(f"new {each}")
    agent.sessions.delete("new-1")
    agent.sessions.delete("talk")
    agent.memory.delete(memory_id)
    kept.sql("DELETE FROM pending WHERE plane IN ('sessions', 'memories')")
    with kept.reopen() as vault:
        agent = vault.namespace("alice")
        with pytest.raises(Damaged):
            agent.snapshot()
        assert not vault.verify().ok
        vault.repair()
        assert vault.verify().ok
        done = agent.snapshot()
        agent.sessions.delete("new-3")
        agent.restore(done.id)
        assert [each.id for each in agent.sessions.list()] == [f"new-{n}" for n in (4, 3, 2, 0)]
        assert {each.content for each in agent.memory.list()} == {f"new {n}" for n in range(5)}
        assert vault.verify().ok


def test_what_cannot_be_had_from_its_own_row_is_named_as_lost(kept: Kept) -> None:
    _both_planes(kept)
    kept.sql("DELETE FROM pending WHERE plane = 'sessions'")
    for bit in (1, 2, 3):
        kept.flip("sessions", "metadata", bit=bit)
    with kept.reopen() as vault:
        repaired = vault.repair()
        assert "something that was pending" in [each.what for each in repaired.lost]
        vault.namespace("alice").snapshot()


def test_a_session_that_is_written_many_times_is_marked_once(kept: Kept) -> None:
    _both_planes(kept)
    agent = kept.vault.namespace("alice")
    for each in range(4):
        agent.sessions.update_state("talk", {"x": each})
        agent.sessions.add_turn("talk", f"{each}", "yes")
        agent.files.write(f"{each % 2}.txt", f"{each}")
        agent.memory.add(f"another {each}")
        assert agent.files.read("kept.txt") == b"in a snapshot"
    agent.sessions.update("talk", metadata={"a": 1})
    agent.sessions.delete("talk")
    ((unfolded,),) = kept.sql("SELECT unfolded FROM namespaces")
    rows = kept.sql("SELECT plane, key FROM pending")
    assert unfolded == sum(mark_of(Plane(plane), key) for plane, key in rows)
    agent.snapshot()
    assert kept.vault.verify().ok


def test_what_is_erased_is_not_missed(kept: Kept) -> None:
    _both_planes(kept)
    agent = kept.vault.namespace("alice")
    kept.vault.erasures.session("alice", "talk")
    agent.snapshot()
    assert kept.vault.verify().ok


def test_of_what_was_pending_before_there_were_marks_of_all_planes_nothing_is_missed(
    kept: Kept,
) -> None:
    _both_planes(kept)
    unmarked = [("store", b"s\0y"), ("files", b"x.txt")]
    rows = [(plane, bytes(key)) for plane, key in kept.sql("SELECT plane, key FROM pending")]
    marks = sum(mark_of(Plane(plane), key) for plane, key in rows if (plane, key) in unmarked)
    kept.sql(f"UPDATE namespaces SET unfolded = {marks}")
    kept.sql("DELETE FROM migrations WHERE number >= 54")
    with kept.reopen() as vault:
        agent = vault.namespace("alice")
        agent.sessions.update_state("talk", {"x": 2})
        done = agent.snapshot()
        agent.sessions.update_state("talk", {"x": 3})
        agent.restore(done.id)
        assert agent.sessions.get_state("talk").state == {"x": 2}
        assert vault.verify().ok
    ((unfolded,),) = kept.sql("SELECT unfolded FROM namespaces")
    assert unfolded == 0
