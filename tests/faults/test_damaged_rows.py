"""Rows of the catalog that are not what was written: named, never shown, and nobody is stuck."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import holdfast
from holdfast.catalog.pending import PendingQueries, seal
from holdfast.catalog.rows import HEAD
from holdfast.errors import Damaged, PendingDamaged, RowDamaged
from holdfast.ids import NamespaceId, ObjectId, TenantId
from holdfast.model.basics import Head, Plane, Size
from holdfast.testing.damaged import Kept
from holdfast.testing.flips import flip_in_index

pytestmark = pytest.mark.in_memory


def pending(kept: Kept) -> holdfast.Namespace:
    """Returns a namespace with one file in a snapshot and another content of it since."""
    agent = kept.vault.namespace("alice")
    agent.files.write("x.txt", "before")
    agent.files.write("other.txt", "other")
    agent.snapshot("first")
    agent.files.write("x.txt", "and after it")
    return agent


def a_head() -> Head:
    root, now = ObjectId(b"r" * 32), datetime(2031, 1, 1, tzinfo=UTC)
    return Head(NamespaceId(1), TenantId(1), "alice", 0, 0, root, None, (), Size(), now)


def test_a_pending_file_that_is_damaged_is_named_and_neither_shown_nor_kept(
    kept: Kept, tmp_path: Path
) -> None:
    agent = pending(kept)
    (first,) = agent.timeline()
    kept.flip("pending", "entry")
    for use in (
        lambda: agent.files.read("x.txt"),
        agent.files.list,
        lambda: agent.files.stat("x.txt"),
        agent.snapshot,
        lambda: agent.restore(first),
        lambda: agent.export(tmp_path / "never.tar"),
    ):
        with pytest.raises(PendingDamaged, match=r"x\.txt") as caught:
            use()
        assert (caught.value.plane, caught.value.key) == ("files", b"x.txt")
    assert agent.files.read("other.txt") == b"other"
    assert len(agent.timeline()) == 1
    (fault,) = kept.vault.verify().faults
    assert (fault.what, fault.snapshots) == ("files: x.txt", ("head of alice",))


@pytest.mark.parametrize("column", ["entry", "sequence", "checksum"])
def test_a_flipped_bit_of_a_pending_row_is_put_back(kept: Kept, column: str) -> None:
    agent = pending(kept)
    kept.flip("pending", column, bit=4)
    with pytest.raises(PendingDamaged):
        agent.files.read("x.txt")
    done = kept.vault.repair()
    assert (done.ok, done.mended) == (True, 1)
    assert agent.files.read("x.txt") == b"and after it"
    assert kept.vault.verify().ok


def test_a_sound_row_of_another_key_is_no_answer() -> None:
    key, entry, checksum = seal(NamespaceId(1), Plane.FILES, b"b.txt", b"entry", sequence=5)
    row = (*HEAD.row(a_head()), key, entry, 5, checksum)

    class Led(PendingQueries):
        _db = cast("Any", SimpleNamespace(one=lambda *_, **__: row))

    pages = Led()
    found = pages.find_at_head(TenantId(1), "alice", Plane.FILES, b"b.txt")
    assert found is not None
    assert found[1] == (b"b.txt", b"entry")
    with pytest.raises(PendingDamaged, match=r"a\.txt"):
        pages.find_at_head(TenantId(1), "alice", Plane.FILES, b"a.txt")


def test_what_was_written_anew_stays_where_a_flipped_name_is_put_back(kept: Kept) -> None:
    agent = pending(kept)
    kept.flip("pending", "key", bit=4)
    agent.files.write("x.txt", "anew")
    assert kept.vault.repair().ok
    assert agent.files.read("x.txt") == b"anew"
    assert {info.path for info in agent.files.list()} == {"x.txt", "other.txt"}
    assert kept.vault.verify().ok


def test_what_is_damaged_beyond_that_is_let_go_of_and_named(kept: Kept) -> None:
    agent = pending(kept)
    kept.flip("pending", "entry", bit=1)
    kept.flip("pending", "entry", bit=5)
    done = kept.vault.repair()
    assert [(lost.what, lost.snapshots) for lost in done.lost] == [
        ("files: x.txt", ("head of alice",))
    ]
    assert agent.files.read("x.txt") == b"before"
    assert kept.vault.repair().ok
    assert kept.vault.verify().ok
    assert agent.snapshot("second").size == holdfast.Size(2, len(b"beforeother"))


def test_a_damaged_file_or_value_can_be_written_once_more(kept: Kept) -> None:
    agent = pending(kept)
    kept.flip("pending", "entry")
    agent.files.write("x.txt", "anew")
    assert agent.files.read("x.txt") == b"anew"
    agent.snapshot()
    agent.store.set("state", "plan", "a")
    kept.flip("pending", "entry")
    with pytest.raises(PendingDamaged, match="state/plan"):
        agent.store.get("state", "plan")
    agent.store.set("state", "plan", "b")
    assert agent.store.get("state", "plan") == "b"
    assert agent.snapshot().size == holdfast.Size(3, len(b"anewother") + 2)
    assert kept.vault.verify().ok


def test_what_is_not_written_over_is_not_lost_by_a_write(kept: Kept) -> None:
    agent = pending(kept)
    kept.flip("pending", "entry")
    agent.files.write("third.txt", "3")
    for use in (
        lambda: agent.files.move("x.txt", "y.txt"),
        lambda: agent.files.chmod("x.txt", 0o600),
        lambda: agent.files.delete("x.txt"),
    ):
        with pytest.raises(PendingDamaged):
            use()
    assert kept.vault.repair().mended == 1
    assert agent.files.read("x.txt") == b"and after it"


def test_a_session_whose_entry_is_damaged_comes_back_from_its_rows(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    session = agent.sessions.create("planner", initial_state={"step": 1})
    agent.sessions.update_state(session.id, {"step": 2})
    kept.flip("pending", "entry", bit=1)
    kept.flip("pending", "entry", bit=6)
    with pytest.raises(PendingDamaged):
        agent.snapshot()
    assert kept.vault.repair().ok
    assert agent.sessions.get(session.id).state == {"step": 2}
    agent.snapshot()
    assert kept.vault.verify().ok


ROWS = {
    "snapshots": ("label", lambda v: v.namespace("alice").timeline()),
    "snapshots, in their metadata": ("metadata", lambda v: v.namespace("alice").timeline()),
    "snapshots, in their counts": ("counts", lambda v: v.namespace("alice").timeline()),
    "namespaces": ("name", lambda v: v.namespaces()),
    "tasks": ("name", lambda v: v.namespace("alice").tasks.list()),
    "schedules": ("amount", lambda v: v.namespace("alice").schedules.list()),
    "keys": ("scope", lambda v: v.keys.list()),
    "webhooks": ("url", lambda v: v.webhooks.list()),
    "entities": ("attributes", lambda v: v.namespace("alice").entities.list()),
    "memories": ("content", lambda v: v.namespace("alice").memory.search("blue")),
}


@pytest.mark.parametrize("table", ROWS)
def test_a_row_that_is_not_what_was_written_is_named_and_mended(kept: Kept, table: str) -> None:
    vault, (column, look) = kept.vault, ROWS[table]
    table = table.partition(",")[0]
    agent = vault.namespace("alice")
    agent.files.write("a", "1")
    agent.snapshot("label", metadata={"run": "a number"})
    agent.tasks.start("a task")
    agent.schedules.create(every=timedelta(hours=1))
    vault.keys.create("ops")
    vault.webhooks.create("https://example.com/hook")
    session = agent.sessions.create("planner")
    agent.entities.create(session.id, entity_type="order", entity_id="o-1", attributes={"total": 3})
    agent.memory.add("blue is the colour")
    before = look(vault)
    kept.flip(table, column, bit=1, where=f"checksum IN (SELECT MIN(checksum) FROM {table})")
    with pytest.raises(RowDamaged):
        look(vault)
    assert any(fault.what.startswith(table[:3]) for fault in vault.verify().faults)
    done = vault.repair()
    assert (done.ok, done.mended) == (True, 1)
    assert look(vault) == before
    assert vault.verify().ok


def test_metadata_is_nothing_else_than_what_was_given(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    agent.snapshot("with", metadata={"run": "7"})
    agent.snapshot("without")
    for changed, label in (("NULL", "with"), ("'{}'", "with"), ('\'{"run": "7"}\'', "without")):
        ((was,),) = kept.sql("SELECT metadata FROM snapshots WHERE label = ?", label)
        kept.sql(f"UPDATE snapshots SET metadata = {changed} WHERE label = ?", label)
        with pytest.raises(RowDamaged):
            agent.timeline(metadata={"run": "7"})
        assert not kept.vault.verify().ok
        kept.sql("UPDATE snapshots SET metadata = ? WHERE label = ?", was, label)
    assert [each.metadata for each in agent.timeline()] == [{}, {"run": "7"}]
    assert kept.vault.verify().ok


def test_what_is_damaged_beyond_one_bit_stays_named(kept: Kept) -> None:
    agent = pending(kept)
    kept.flip("snapshots", "label", bit=0)
    kept.flip("snapshots", "label", bit=1)
    with pytest.raises(Damaged, match="snapshot"):
        agent.timeline()
    done = kept.vault.repair()
    assert any("snapshot" in each.what for each in done.lost)
    with pytest.raises(Damaged):
        agent.timeline()
    assert kept.vault.verify().is_noted


def test_of_a_memory_nothing_is_lost_with_its_pending_row(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    kept_one, gone = agent.memory.add("before"), agent.memory.add("deleted since")
    before = agent.snapshot()
    agent.memory.update(kept_one.id, content="and after it")
    agent.memory.delete(gone.id)
    new = agent.memory.add("new")
    for bit in (1, 4, 6):
        kept.flip("pending", "sequence", bit=bit, where="entry IS NULL")
    held = agent.size()
    with pytest.raises(PendingDamaged):
        agent.snapshot()
    assert agent.memory.get(new.id) == new
    kept.vault.repair()
    assert agent.size() == held
    assert [memory.content for memory in agent.memory.list()] == ["new", "and after it"]
    agent.snapshot()
    agent.restore(before)
    assert [memory.content for memory in agent.memory.list()] == ["deleted since", "before"]
    assert kept.vault.verify().faults == []


def test_where_a_webhook_is_stands_under_its_checksum(kept: Kept) -> None:
    hook = kept.vault.webhooks.create("https://hooks.example/in")
    agent = kept.vault.namespace("alice")
    agent.files.write("a.txt", "1")
    kept.vault.outbox().expand()
    kept.vault.webhooks.update(hook.id, description="moved")
    assert kept.vault.webhooks.get(hook.id).description == "moved"
    kept.flip("webhooks", "cursor")
    with pytest.raises(RowDamaged):
        kept.vault.webhooks.list()
    assert (kept.vault.repair().mended, len(kept.vault.webhooks.list())) == (1, 1)


@pytest.mark.parametrize("flipped", [1 << 40, 1 << 43 | 1 << 4], ids=["one bit", "two bits"])
def test_a_tenant_under_another_id_has_all_that_is_known_by_its_own(
    kept: Kept, flipped: int
) -> None:
    pending(kept)
    if kept.is_postgres:
        kept.sql("ALTER TABLE tenants ALTER COLUMN id SET GENERATED BY DEFAULT")
    kept.sql(f"UPDATE tenants SET id = {1 ^ flipped}")
    with kept.reopen() as vault:
        assert vault.namespaces() == ["alice"]
        with pytest.raises(Damaged, match="tenant"):
            vault.quota()
    kept.sql("UPDATE tenants SET created_at = 7, public_id = 'another'")
    with pytest.raises(RowDamaged, match="tenant"), kept.reopen() as vault:
        vault.namespaces()


def test_traces_are_called_by_the_name_that_they_are_asked_for(tmp_path: Path) -> None:
    with holdfast.open(tmp_path) as vault:
        agent = vault.namespace("zeppelin")
        agent.files.write("x.txt", "of no matter")
        agent.snapshot("first")
    # Found by an index, which still has it; the row is another's.
    flip_in_index(tmp_path / "catalog.sqlite", b"zeppelin", index="namespaces")
    with holdfast.open(tmp_path) as vault:
        assert {each.namespace for each in vault.namespace("zeppelin").traces.list()} == {
            "zeppelin"
        }
        with pytest.raises(RowDamaged, match="namespace"):
            vault.traces.list()


def test_a_row_that_has_lost_its_checksum_holds_what_its_columns_can() -> None:
    row = [*HEAD.row(a_head())[:-1], None]
    assert HEAD.read(row) == a_head()
    row[HEAD.columns.index("retention")] = 5
    with pytest.raises(RowDamaged, match="namespace"):
        HEAD.read(row)
