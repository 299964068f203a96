"""What is damaged beyond repair of one tenant stops nobody else, and a repair ends it."""

import logging
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Thread

import pytest

import holdfast
from holdfast.engine.core.rounds import tell_damage
from holdfast.engine.tenancy.webhooks import Outcome, Parcel
from holdfast.errors import Damaged, OthersChanged, RowDamaged
from holdfast.testing.damaged import Kept

pytestmark = pytest.mark.in_memory

HOOK = "https://hooks.example/in"


def deliver(vault: holdfast.Holdfast) -> list[Parcel]:
    """Does one round of what a server does, and says that all arrived."""
    outbox, sent = vault.outbox(), list[Parcel]()
    outbox.expand()
    while parcels := outbox.claim(100):
        for parcel in parcels:
            outbox.record(parcel, Outcome(ok=True, status=200))
        sent += parcels
    return sent


def tenants(kept: Kept) -> tuple[holdfast.TenantVault, holdfast.TenantVault]:
    """Returns two tenants with a webhook each, of which the first will be damaged."""
    one, other = kept.vault.tenant("one"), kept.vault.tenant("other")
    for each in (one, other):
        each.webhooks.create(f"{HOOK}/{each.tenant_id}")
        each.namespace("agent").files.write("a.txt", "1")
        each.namespace("agent").snapshot("first")
    deliver(kept.vault)
    return one, other


def of(kept: Kept, tenant: holdfast.TenantVault) -> str:
    """Returns which rows are a tenant's."""
    ((number,),) = kept.sql("SELECT id FROM tenants WHERE public_id = ?", tenant.tenant_id)
    return f"tenant_id = {number}"


def arrived(sent: list[Parcel]) -> set[tuple[str, str]]:
    return {(parcel.webhook.url.rpartition("/")[2], parcel.delivery.event_type) for parcel in sent}


def test_what_was_told_and_is_damaged_is_set_aside_and_told_again_by_a_repair(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = tenants(kept)
    session = one.namespace("agent").sessions.create("planner")
    where = f"{of(kept, one)} AND data LIKE '%{session.id}%'"
    one.namespace("agent").files.write("b.txt", "2")
    other.namespace("agent").files.write("b.txt", "2")
    kept.break_row("told", "type", where=where)
    tell_damage.cache_clear()
    with caplog.at_level(logging.ERROR, "holdfast.work"):
        assert arrived(deliver(kept.vault)) == {
            (one.tenant_id, "file.written"),
            (other.tenant_id, "file.written"),
        }
    assert "set aside" in caplog.text
    with pytest.raises(RowDamaged, match="telling"):
        one.events.list()
    assert other.events.list()[0][0].type == "file.written"
    assert any(fault.what.startswith("telling") for fault in one.verify().faults)
    assert one.repair().lost == []
    assert one.verify().ok
    newest = one.events.list()[0][0]
    assert (newest.type, session.id in newest.data) == ("session.created", True)
    assert arrived(deliver(kept.vault)) == {(one.tenant_id, "session.created")}


def test_what_only_an_event_told_is_named_as_lost(kept: Kept) -> None:
    one, _ = tenants(kept)
    one.namespace("agent").files.write("b.txt", "2")
    kept.break_row("told", "type", where=of(kept, one))
    (lost,) = one.repair().lost
    assert lost.what.startswith("telling")
    assert one.verify().ok
    one.events.list()


@pytest.mark.parametrize("table", ["webhooks", "deliveries"])
def test_a_webhook_or_delivery_that_is_damaged_keeps_no_other_waiting(
    kept: Kept, table: str
) -> None:
    one, other = tenants(kept)
    for each in (one, other):
        each.namespace("agent").files.write("b.txt", "2")
    kept.vault.outbox().expand()
    column = "url" if table == "webhooks" else "event_type"
    pending = "" if table == "webhooks" else " AND state = 'pending'"
    kept.break_row(table, column, where=of(kept, one) + pending)
    assert arrived(deliver(kept.vault)) == {(other.tenant_id, "file.written")}
    other.namespace("agent").files.write("c.txt", "3")
    assert arrived(deliver(kept.vault)) == {(other.tenant_id, "file.written")}
    (lost,) = one.repair().lost
    assert lost.what.startswith(table[:7])
    assert one.verify().ok
    assert one.webhooks.list() == [] if table == "webhooks" else one.webhooks.list()


def test_a_schedule_that_is_damaged_keeps_no_other_waiting(kept: Kept) -> None:
    one, other = tenants(kept)
    for each in (one, other):
        each.namespace("agent").schedules.create(every=timedelta(seconds=10))
        each.namespace("agent").files.write("new.txt", "since the snapshot")
    past = int((datetime.now(tz=UTC) - timedelta(days=1)).timestamp() * 1_000_000)
    kept.break_row("schedules", "amount", where="id = (SELECT MIN(id) FROM schedules)")
    # Both are due, and the damaged one has been for longest.
    kept.sql("UPDATE schedules SET next_at = ?, checksum = NULL", past)
    kept.sql(
        "UPDATE schedules SET next_at = ?, checksum = 1 WHERE id = (SELECT MIN(id) FROM schedules)",
        past - 1,
    )
    assert kept.vault.run_schedules() == 1
    assert sum(len(each.namespace("agent").timeline()) for each in (one, other)) == 3
    assert len(one.repair().lost) + len(other.repair().lost) == 1
    assert one.verify().ok
    assert other.verify().ok


def test_a_namespace_that_is_damaged_keeps_no_others_schedule_waiting(kept: Kept) -> None:
    one, other = tenants(kept)
    for each in (one, other):
        each.namespace("agent").schedules.create(every=timedelta(seconds=10))
        each.namespace("agent").files.write("new.txt", "since the snapshot")
    past = int((datetime.now(tz=UTC) - timedelta(days=1)).timestamp() * 1_000_000)
    kept.sql("UPDATE schedules SET next_at = ?, checksum = NULL", past)
    kept.break_row("namespaces", "generation", where=of(kept, one))
    assert kept.vault.run_schedules() == 1
    (told,) = kept.sql("SELECT last_error FROM schedules WHERE last_error IS NOT NULL")
    assert told[0].startswith("row_damaged")


def test_a_tenant_that_is_damaged_keeps_no_other_from_its_upkeep_and_deliveries(
    kept: Kept,
) -> None:
    one, other = tenants(kept)
    one.set_quota(1 << 30)
    for each in (one, other):
        each.namespace("agent").files.write("b.txt", "2")
    whose = f"public_id = '{one.tenant_id}'"
    kept.break_row("tenants", "quota_bytes", where=whose)
    assert (other.tenant_id, "file.written") in arrived(deliver(kept.vault))
    with pytest.raises(RowDamaged, match="tenant"):
        kept.vault.look_after()
    ((anchored,),) = kept.sql(f"SELECT COUNT(*) FROM anchored WHERE {of(kept, other)}")
    assert anchored == 1
    kept.vault.tenant("third").namespace("new").files.write("a", "1")
    assert other.collect() is not None
    assert one.repair().ok
    assert one.quota() == 1 << 30
    assert one.verify().ok


def test_a_vault_opens_though_its_own_tenant_is_damaged(kept: Kept) -> None:
    other = kept.vault.tenant("other")
    for each in (kept.vault, other):
        each.namespace("agent").files.write("a.txt", "1")
    public_id, mine = kept.vault.tenant_id, "name = 'default'"
    kept.flip("tenants", "public_id", where=mine)
    with kept.reopen() as vault:
        assert vault.tenant_id == public_id, "a checksum says which bit it was"
        assert vault.tenant("other").namespace("agent").files.read("a.txt") == b"1"
        with pytest.raises(RowDamaged, match="tenant"):
            vault.quota()
        assert vault.repair().mended == 1
        assert vault.quota() is None
    kept.flip("tenants", "name", where=mine)
    with kept.reopen() as vault:
        assert vault.namespace("agent").files.read("a.txt") == b"1", "no other is begun beside it"
        assert vault.repair().mended == 1
    kept.break_row("tenants", "name", where="id = 1")
    with pytest.raises(RowDamaged, match="tenant"):
        kept.reopen()
    kept.break_row("tenants", "name", where="id = 1")
    kept.break_row("tenants", "public_id", where=mine)
    with kept.reopen() as vault:
        assert vault.tenant("other").namespace("agent").files.read("a.txt") == b"1"
        assert not vault.verify().ok
        assert [lost.what for lost in vault.repair().lost] == ["tenant: 1"]
        assert vault.quota() is None
        assert vault.verify().ok


def test_a_memory_that_is_damaged_stops_no_snapshot_once_it_was_let_go_of(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    kept_one = agent.memory.add("blue, as it was before")
    agent.snapshot("first")
    agent.memory.update(kept_one.id, content="green, and after it")
    new = agent.memory.add("yellow, in no snapshot yet")
    other = agent.memory.add("red, and sound")
    for each in (kept_one, new):
        kept.break_row("memories", "content", where=f"id = '{each.id}'")
    with pytest.raises(Damaged):
        agent.snapshot()
    done = kept.vault.repair()
    assert {lost.what for lost in done.lost} == {f"memories: {kept_one.id}", f"memories: {new.id}"}
    assert {lost.snapshots for lost in done.lost} == {("head of alice",)}
    assert kept.vault.verify().faults == []
    texts = {"blue, as it was before", "red, and sound"}
    assert {memory.content for memory in agent.memory.list()} == texts
    assert [memory.id for memory in agent.memory.search("blue")] == [kept_one.id]
    assert agent.memory.search("yellow") == []
    assert agent.snapshot().size == agent.size()
    assert [memory.id for memory in agent.memory.search("red")] == [other.id]


def test_of_a_task_whose_changes_are_damaged_nothing_is_taken_back_unseen(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    agent.files.write("a.txt", "before")
    agent.files.write("b.txt", "before")
    with agent.task("work") as task:
        agent.files.write("a.txt", "after")
        agent.files.write("b.txt", "after")
    kept.break_row("task_changes", "old_entry", where=f"key = {literal(kept, b'a.txt')}")
    with pytest.raises(RowDamaged):
        agent.undo(task=task.id)
    done = kept.vault.repair()
    assert [lost.what for lost in done.lost] == [f"what was changed in: {task.id}"]
    assert kept.vault.verify().ok
    kept.vault.collect()
    with pytest.raises(OthersChanged, match=r"a\.txt"):
        agent.undo(task=task.id)
    assert agent.files.read("b.txt") == b"after"
    agent.undo(task=task.id, keep_mine=True)
    assert (agent.files.read("a.txt"), agent.files.read("b.txt")) == (b"after", b"before")


def test_a_change_of_a_task_that_is_gone_is_missed(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    for name in ("a.txt", "b.txt"):
        agent.files.write(name, "before")
    with agent.task("work") as task:
        for name in ("a.txt", "b.txt"):
            agent.files.write(name, "after")
    kept.sql(f"DELETE FROM task_changes WHERE key = {literal(kept, b'a.txt')}")
    for attempt in (agent.undo, partial(agent.undo, dry_run=True)):
        with pytest.raises(RowDamaged, match=task.id):
            attempt(task=task.id)
    assert any(task.id in fault.reason for fault in kept.vault.verify().faults)
    done = kept.vault.repair()
    assert [lost.what for lost in done.lost] == [f"what was changed in: {task.id}"]
    assert kept.vault.verify().ok
    assert kept.vault.repair().ok
    with pytest.raises(OthersChanged, match="what is no longer known"):
        agent.undo(task=task.id)
    agent.undo(task=task.id, keep_mine=True)
    assert (agent.files.read("a.txt"), agent.files.read("b.txt")) == (b"after", b"before")


def test_a_shared_change_is_never_taken_for_the_tasks_own(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    agent.files.write("a.txt", "before")
    with agent.task("work") as task:
        agent.files.write("a.txt", "after")
        other = Thread(target=lambda: kept.vault.namespace("alice").files.write("a.txt", "theirs"))
        other.start()
        other.join()
        agent.files.write("a.txt", "once more")
    for value in ("0", "1", "old_sum + 1", "1 - is_shared"):
        (was,) = kept.sql("SELECT is_shared FROM task_changes")[0]
        kept.sql(f"UPDATE task_changes SET is_shared = {value}")
        with pytest.raises(RowDamaged, match=task.id):
            agent.undo(task=task.id)
        assert not kept.vault.verify().ok
        kept.sql(f"UPDATE task_changes SET is_shared = {was}")
    kept.flip("task_changes", "is_shared", bit=3)
    assert kept.vault.repair().mended == 1
    with pytest.raises(OthersChanged, match=r"a\.txt"):
        agent.undo(task=task.id)


def test_a_flipped_bit_of_how_many_changes_there_are_is_put_back(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    agent.files.write("a.txt", "before")
    with agent.task("work") as task:
        agent.files.write("a.txt", "after")
    for bit in (0, 1, 2, 20):
        kept.flip("tasks", "noted", bit=bit)
        with pytest.raises(RowDamaged, match=task.id):
            agent.undo(task=task.id)
        assert not kept.vault.verify().ok
        assert kept.vault.repair().mended == 1
        assert kept.vault.verify().ok
    agent.undo(task=task.id)
    assert agent.files.read("a.txt") == b"before"


@pytest.mark.parametrize("column", ["old_entry", "new_entry", "old_sum", "new_sum", "key"])
@pytest.mark.parametrize("is_new", [False, True])
def test_verify_names_each_damaged_row_of_what_tasks_changed(
    kept: Kept, column: str, *, is_new: bool
) -> None:
    agent = kept.vault.namespace("alice")
    if not is_new:
        agent.files.write("a.txt", "before")
    elif column == "old_entry":
        pytest.skip("nothing was there")
    with agent.task("work") as task:
        agent.files.write("a.txt", "after")
    kept.flip("task_changes", column, bit=1)
    assert any(task.id in fault.reason for fault in kept.vault.verify().faults)


@pytest.mark.parametrize(
    "column", ["old_entry", "new_entry", "old_sum", "key", "task_id", "new_sum", "is_shared"]
)
def test_a_flipped_bit_of_what_a_task_changed_is_put_back(kept: Kept, column: str) -> None:
    agent = kept.vault.namespace("alice")
    agent.files.write("a.txt", "before")
    with agent.task("work") as task:
        agent.files.write("a.txt", "after")
    kept.flip("task_changes", column, bit=1)
    assert kept.vault.repair().mended == 1
    agent.undo(task=task.id)
    assert agent.files.read("a.txt") == b"before"
    assert kept.vault.verify().ok


def literal(kept: Kept, data: bytes) -> str:
    """Returns how a database writes bytes."""
    try:
        kept.sql("SELECT typeof(x'00')")
    except Exception:  # noqa: BLE001 - PostgreSQL has other words for it
        return f"'\\x{data.hex()}'::bytea"
    return f"x'{data.hex()}'"


def test_rows_are_read_a_page_at_a_time(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.catalog.mending._PAGE", 2)
    agent = kept.vault.namespace("alice")
    snapshots = list[holdfast.SnapshotInfo]()
    for number in range(7):
        agent.files.write("a.txt", str(number))
        snapshots.append(agent.snapshot(f"label {number}"))
    for each in snapshots[::3]:
        kept.flip("snapshots", "label", where=f"id = '{each.id}'")
    assert len([f for f in kept.vault.verify().faults if f.what.startswith("snapshot")]) == 3
    assert kept.vault.repair().mended == 3
    assert kept.vault.verify().ok
