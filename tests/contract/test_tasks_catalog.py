"""What a catalog says about tasks, schedules and replies: the same on both databases."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.catalog.port import Catalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.catalog.transaction import Transaction
from holdfast.errors import RowDamaged
from holdfast.ids import NamespaceId, SnapshotId
from holdfast.model.basics import Head, Kind, Plane, Size, SnapshotInfo
from holdfast.model.replies import Reply, ReplyPlace
from holdfast.model.tasks import Cadence, Schedule, TaskRun, TaskStatus

NOW = datetime(2031, 5, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
PLACE = ReplyPlace("key-1", "POST", "/v1/tasks", "once")
MINE = Reply(fingerprint=b"\x00\xff", created_at=NOW, leased_until=NOW + SECOND)


def add_namespace(transaction: Transaction, name: str = "alice") -> Head:
    tenant = transaction.find_tenant("acme") or transaction.add_tenant(
        "acme", public_id="ws-acme", now=NOW
    )
    head = Head.of_nothing(tenant.id, name, now=NOW)
    added = transaction.add_namespace(head)
    assert added is not None
    return added


def task(namespace_id: NamespaceId, number: int, *, at: datetime = NOW) -> TaskRun:
    return TaskRun(
        id=f"task-{number}",
        namespace_id=namespace_id,
        name="tidy up",
        rolls_back=True,
        metadata='{"why":"\\u0000"}',
        actor="key-1",
        before=SnapshotId("snap-before"),
        started_at=at,
    )


def schedule(namespace_id: NamespaceId, name: str, cadence: Cadence, amount: int) -> Schedule:
    return Schedule(
        id=f"sched-{name}",
        namespace_id=namespace_id,
        cadence=cadence,
        amount=amount,
        label="now and then",
        created_at=NOW,
        next_at=NOW,
        seen_at=NOW,
    )


def due(catalog: Catalog, now: datetime = NOW, most: int = 10) -> list[str]:
    with catalog.read() as transaction:
        return [d.schedule.id for d in transaction.due_schedules(now=now, most=most).sound]


# Tasks


def test_a_task_is_read_as_it_was_written(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        begun = task(head.namespace_id, 1)
        transaction.add_task(begun)
    with catalog.read() as transaction:
        assert transaction.find_task(head.namespace_id, "task-1") == begun
        assert transaction.find_task(head.namespace_id, "task-2") is None
        assert transaction.find_task(NamespaceId(head.namespace_id + 1), "task-1") is None


def test_a_task_ends_once(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        begun = task(head.namespace_id, 1)
        transaction.add_task(begun)
    ended = replace(
        begun,
        status=TaskStatus.FAILED,
        rolls_back=False,
        reason="no",
        after=SnapshotId("snap-after"),
        ended_at=NOW + SECOND,
    )
    elsewhere = replace(ended, namespace_id=NamespaceId(head.namespace_id + 1))
    with catalog.write() as transaction:
        assert not transaction.end_task(elsewhere, seen=TaskStatus.RUNNING)
        assert transaction.end_task(ended, seen=TaskStatus.RUNNING)
        again = replace(ended, status=TaskStatus.COMPLETED)
        assert not transaction.end_task(again, seen=TaskStatus.RUNNING)
        assert transaction.find_task(head.namespace_id, "task-1") == ended


def test_tasks_are_listed_newest_first_and_page_through_equal_instants(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head, other = add_namespace(transaction), add_namespace(transaction, "bob")
        for number, at in ((1, NOW), (2, NOW), (3, NOW + SECOND), (4, NOW - SECOND)):
            transaction.add_task(task(head.namespace_id, number, at=at))
        transaction.add_task(task(other.namespace_id, 5))
        found: list[str] = []
        before = None
        while page := transaction.list_tasks(head.namespace_id, status=None, before=before, most=1):
            found += [each.id for each in page]
            before = page[-1].started_at, page[-1].id
        assert found == ["task-3", "task-2", "task-1", "task-4"]
        assert not transaction.list_tasks(
            head.namespace_id, status=TaskStatus.FAILED, before=None, most=9
        )


# What tasks changed


def noted(transaction: Transaction, head: Head, task_id: str) -> list[tuple[object, ...]]:
    found = transaction.list_task_changes(head.namespace_id, task_id)
    return [(c.plane, c.key, c.old_entry, c.new_entry, c.is_shared) for c in found]


def test_of_what_a_task_changes_the_first_and_the_last_are_noted(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        for number in (1, 2):
            transaction.add_task(task(head.namespace_id, number))
        both, first = ["task-1", "task-2"], ["task-1"]
        changes = [(b"b", None, b"1"), (b"a", b"0", None)]
        transaction.put_task_changes(head.namespace_id, both, Plane.STORE, changes)
        transaction.put_task_changes(head.namespace_id, first, Plane.STORE, [(b"b", b"1", b"2")])
        transaction.put_task_changes(head.namespace_id, first, Plane.STORE, [(b"a", None, b"3")])
        transaction.put_task_changes(head.namespace_id, first, Plane.FILES, [(b"b", b"f", b"g")])
    with catalog.read() as transaction:
        assert noted(transaction, head, "task-1") == [
            (Plane.FILES, b"b", b"f", b"g", False),
            (Plane.STORE, b"a", b"0", b"3", False),
            (Plane.STORE, b"b", None, b"2", False),
        ]
        assert noted(transaction, head, "task-2") == [
            (Plane.STORE, b"a", b"0", None, False),
            (Plane.STORE, b"b", None, b"1", False),
        ]
        assert transaction.has_task_changes(head.namespace_id, "task-1")
        assert not transaction.has_task_changes(head.namespace_id, "task-3")
        kept = sorted(entry for _, _, entry in transaction.iter_task_entries(head.tenant_id))
        assert kept == [b"0", b"0", b"f"]


@pytest.mark.parametrize(("found", "is_shared"), [(b"1", False), (b"2", True), (None, True)])
def test_whoever_changes_it_in_between_is_remembered(
    catalog: Catalog, found: bytes | None, is_shared: bool
) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        transaction.add_task(task(head.namespace_id, 1))
        for old, new in ((b"0", b"1"), (found, b"3"), (b"3", b"4")):
            transaction.put_task_changes(
                head.namespace_id, ["task-1"], Plane.STORE, [(b"k", old, new)]
            )
    with catalog.read() as transaction:
        change = (Plane.STORE, b"k", b"0", b"4", is_shared)
        assert noted(transaction, head, "task-1") == [change]


def test_nothing_is_noted_of_a_task_that_is_not_there(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head, other = add_namespace(transaction), add_namespace(transaction, "bob")
        transaction.add_task(task(head.namespace_id, 1))
        names = ["task-1", "task-2", "'; --"]
        transaction.put_task_changes(other.namespace_id, names, Plane.STORE, [(b"k", b"0", b"1")])
        for name in names:
            assert not transaction.has_task_changes(other.namespace_id, name)
        assert transaction.iter_task_entries(head.tenant_id) == []


OTHER = {"plane": "files", "task_id": "task-2", "namespace_id": 1025, "new_sum": 1, "is_shared": 0}


@pytest.mark.parametrize("column", ["old_entry", "new_entry", "key", *OTHER])
def test_a_flipped_bit_in_what_a_task_changed_is_damage(tmp_path: Path, column: str) -> None:
    with closing(SqliteCatalog(tmp_path)) as catalog, catalog.write() as transaction:
        head = add_namespace(transaction)
        transaction.add_task(task(head.namespace_id, 1))
        changes = [(b"k", b"0", b"1")]
        transaction.put_task_changes(head.namespace_id, ["task-1"], Plane.STORE, changes)
    other = OTHER.get(column, b"flipped")
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as connection, connection:
        connection.execute(f"UPDATE task_changes SET {column} = ?", (other,))
    with closing(SqliteCatalog(tmp_path)) as catalog, catalog.read() as transaction:
        with pytest.raises(RowDamaged, match="task-1"):
            transaction.list_task_changes(head.namespace_id, "task-1")
        if column not in ("new_entry", "new_sum", "is_shared"):
            # What that one needs would be let go of.
            with pytest.raises(RowDamaged, match="task-1"):
                transaction.iter_task_entries(head.tenant_id)
        with pytest.raises(RowDamaged):
            transaction.all_task_changes(head.namespace_id)
        damaged = transaction.sort_task_changes(head.tenant_id).damaged
        assert any("task-1" in str(each) for each in damaged)


@pytest.mark.parametrize("count", [1, 40])
def test_a_change_that_is_missing_is_missed(catalog: Catalog, count: int) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        for number in (1, 2):
            transaction.add_task(task(head.namespace_id, number))
        changes = [(b"%d" % number, b"0", b"1") for number in range(count)]
        ids = ["task-1", "task-2"]
        transaction.put_task_changes(head.namespace_id, ids[:1], Plane.STORE, changes)
        # Those of before count once, however many come with them.
        again = [(key, b"1", b"2") for key, _, _ in changes] + [(b"new", None, b"1")]
        transaction.put_task_changes(head.namespace_id, ids, Plane.STORE, again)
        for name in ids:
            assert len(noted(transaction, head, name)) == count + 1
        assert transaction.sort_task_changes(head.tenant_id).damaged == []
        transaction.erase_keys(head.namespace_id, Plane.STORE, [b"0"])
        pairs = [(b"new", b"1"), (b"new", b"2")]
        transaction.erase_noted(head.namespace_id, Plane.STORE, pairs)
        for name in ids:
            assert len(noted(transaction, head, name)) == count - 1
        assert transaction.sort_task_changes(head.tenant_id).damaged == []


def test_what_nested_tasks_changed_is_found(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        inside = replace(task(head.namespace_id, 2), within=("task-0", "task-1"))
        for each in (task(head.namespace_id, 1), inside):
            transaction.add_task(each)
        transaction.put_task_changes(
            head.namespace_id, ["task-2"], Plane.STORE, [(b"k", b"0", b"1")]
        )
        assert transaction.find_task(head.namespace_id, "task-2") == inside
        for name, expected in (
            ("task-1", [b"k"]),
            ("task-0", [b"k"]),
            ("task-2", []),
            ("task", []),
        ):
            found = transaction.list_nested_changes(head.namespace_id, name)
            assert [change.key for change in found] == expected


def test_what_others_changed_while_a_task_ran_is_found(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        mine = replace(
            task(head.namespace_id, 1, at=NOW),
            within=("task-6",),
            status=TaskStatus.COMPLETED,
            ended_at=NOW + SECOND,
        )
        spans = {2: (-3, -1), 3: (-3, 0), 4: (1, 3), 5: (2, 3), 6: (-3, None), 7: (-3, None)}
        for number, (began, ended) in spans.items():
            each = task(head.namespace_id, number, at=NOW + began * SECOND)
            transaction.add_task(each)
            if ended is not None:
                status, at = TaskStatus.COMPLETED, NOW + ended * SECOND
                done = replace(each, status=status, ended_at=at)
                transaction.end_task(done, seen=TaskStatus.RUNNING)
        transaction.add_task(mine)
        for number in (1, *spans):
            key = f"{number}".encode()
            transaction.put_task_changes(
                head.namespace_id, [f"task-{number}"], Plane.STORE, [(key, None, b"1")]
            )
        found = [change.key for change in transaction.list_changes_beside(mine)]
        assert found == [b"3", b"4", b"7"]
        still = replace(mine, ended_at=None)
        found = [change.key for change in transaction.list_changes_beside(still)]
        assert found == [b"3", b"4", b"5", b"7"]


def test_tasks_that_ran_at_a_snapshot_or_after_it_are_listed(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        taken = [
            SnapshotInfo(
                id=SnapshotId(f"snap-{number}"),
                namespace_id=head.namespace_id,
                number=number,
                kind=Kind.SNAPSHOT,
                root=head.root,
                parent=None,
                created_at=NOW + (number - 2) * SECOND,
                size=Size(0, 0),
            )
            for number in (1, 2, 3)
        ]
        for each in taken:
            transaction.add_snapshot(each)
        spans = {1: (-3, -1), 2: (-3, 0), 3: (-3, None), 4: (0, 1), 5: (-4, -2)}
        for number, (began, ended) in spans.items():
            each = task(head.namespace_id, number, at=NOW + began * SECOND)
            if number == 5:
                # By another clock: its own snapshots tell.
                each = replace(each, before=taken[1].id)
            transaction.add_task(each)
            if ended is not None:
                status, at = TaskStatus.COMPLETED, NOW + ended * SECOND
                done = replace(each, status=status, ended_at=at)
                transaction.end_task(done, seen=TaskStatus.RUNNING)
        found = transaction.list_tasks_since(head.namespace_id, taken[1])
        assert [each.id for each in found] == ["task-4", "task-3", "task-2", "task-5"]


def test_what_a_task_changed_goes_once_nothing_is_before_it(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        ids = ["task-1", "task-2", "task-3"]
        for number, at in ((1, NOW), (2, NOW), (3, NOW - SECOND)):
            transaction.add_task(task(head.namespace_id, number, at=at))
        ended = replace(task(head.namespace_id, 1), status=TaskStatus.COMPLETED)
        transaction.end_task(ended, seen=TaskStatus.RUNNING)
        transaction.put_task_changes(head.namespace_id, ids, Plane.STORE, [(b"k", b"0", b"1")])
        transaction.drop_task_changes(head.namespace_id, before=NOW - SECOND)
        left = [name for name in ids if transaction.has_task_changes(head.namespace_id, name)]
        assert left == ["task-2"]
        transaction.delete_namespace(head.namespace_id, now=NOW)
        assert transaction.purge_namespace(head.namespace_id)
        assert not transaction.has_task_changes(head.namespace_id, "task-2")


# Schedules


def test_a_schedule_is_read_as_it_was_written(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        wanted = replace(
            schedule(head.namespace_id, "a", Cadence.QUIET, 60),
            only_if_changed=False,
            enabled=False,
            last_run_at=NOW,
            last_snapshot_id=SnapshotId("snap-1"),
            last_error="busy: it was",
        )
        transaction.add_schedule(wanted)
    with catalog.read() as transaction:
        assert transaction.find_schedule(head.namespace_id, wanted.id) == wanted
        assert transaction.list_schedules(head.namespace_id) == [wanted]
        assert transaction.find_schedule(NamespaceId(head.namespace_id + 1), wanted.id) is None


def test_time_is_due_at_its_instant_and_not_before(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        transaction.add_schedule(schedule(head.namespace_id, "a", Cadence.EVERY, 60))
    assert due(catalog, NOW - timedelta(microseconds=1)) == []
    assert due(catalog) == ["sched-a"]


def test_counting_writes_is_due_only_once_there_are_enough(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        transaction.add_schedule(schedule(head.namespace_id, "a", Cadence.CHANGES, 2))
    for expected in ([], ["sched-a"]):
        with catalog.write() as transaction:
            transaction.advance_sequence(head.namespace_id, more=Size())
        assert due(catalog) == expected


def test_waiting_for_quiet_is_due_while_something_was_written(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        idle = schedule(head.namespace_id, "a", Cadence.QUIET, 60)
        transaction.add_schedule(idle)
    assert due(catalog) == []
    with catalog.write() as transaction:
        sequence = transaction.advance_sequence(head.namespace_id, more=Size(1, 1))
        transaction.put_pending(
            head.namespace_id, Plane.STORE, [(b"key", b"entry")], sequence=sequence
        )
    assert due(catalog) == ["sched-a"]
    with catalog.write() as transaction:
        seen = replace(idle, seen_sequence=sequence, next_at=NOW + SECOND)
        assert transaction.advance_schedule(seen, seen=NOW)
    assert due(catalog) == []
    assert due(catalog, NOW + SECOND) == ["sched-a"]


def test_what_is_stopped_or_of_a_deleted_namespace_is_never_due(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head, other = add_namespace(transaction), add_namespace(transaction, "bob")
        stopped = schedule(head.namespace_id, "a", Cadence.EVERY, 60)
        transaction.add_schedule(replace(stopped, enabled=False))
        transaction.add_schedule(schedule(other.namespace_id, "b", Cadence.EVERY, 60))
        transaction.delete_namespace(other.namespace_id, now=NOW)
    assert due(catalog, NOW + timedelta(days=1)) == []


def test_the_longest_waiting_come_first_and_only_so_many(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        for number in range(3):
            late = schedule(head.namespace_id, str(number), Cadence.EVERY, 60)
            transaction.add_schedule(replace(late, next_at=NOW - number * SECOND))
    assert due(catalog, most=2) == ["sched-2", "sched-1"]


def test_a_schedule_advances_only_from_where_it_was_seen(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        old = schedule(head.namespace_id, "a", Cadence.EVERY, 60)
        transaction.add_schedule(old)
        new = replace(old, next_at=NOW + SECOND, last_run_at=NOW, last_error="no")
        assert transaction.advance_schedule(new, seen=NOW)
        assert not transaction.advance_schedule(replace(new, last_error=None), seen=NOW)
        assert transaction.find_schedule(head.namespace_id, old.id) == new


def test_advancing_neither_starts_nor_renames_what_its_owner_changed(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        old = schedule(head.namespace_id, "a", Cadence.EVERY, 60)
        transaction.add_schedule(old)
        changed = replace(old, label="another")
        assert transaction.lock_schedule(head.namespace_id, old.id) == old
        transaction.change_schedule(changed)
        assert transaction.advance_schedule(replace(old, next_at=NOW + SECOND), seen=NOW)
        after = transaction.find_schedule(head.namespace_id, old.id)
        assert after == replace(changed, next_at=NOW + SECOND)
        transaction.change_schedule(replace(changed, enabled=False, next_at=NOW + SECOND))
        assert not transaction.advance_schedule(old, seen=NOW + SECOND)
        assert transaction.lock_schedule(head.namespace_id, "sched-none") is None


def test_tasks_and_schedules_go_with_their_namespace(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        transaction.add_task(task(head.namespace_id, 1))
        transaction.add_schedule(schedule(head.namespace_id, "a", Cadence.EVERY, 60))
        transaction.delete_namespace(head.namespace_id, now=NOW)
        assert transaction.purge_namespace(head.namespace_id)
        assert transaction.find_task(head.namespace_id, "task-1") is None
        assert transaction.list_schedules(head.namespace_id) == []


def test_a_schedule_of_another_namespace_is_not_deleted(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        head = add_namespace(transaction)
        transaction.add_schedule(schedule(head.namespace_id, "a", Cadence.EVERY, 60))
        assert not transaction.delete_schedule(NamespaceId(head.namespace_id + 1), "sched-a")
        assert transaction.delete_schedule(head.namespace_id, "sched-a")
        assert not transaction.delete_schedule(head.namespace_id, "sched-a")


# What is done now and then


def test_the_last_time_that_something_was_done_replaces_the_one_before(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        assert transaction.find_chore("dusting") is None
        transaction.set_chore("dusting", done_at=NOW)
        transaction.set_chore("dusting", done_at=NOW + SECOND)
    with catalog.read() as transaction:
        assert transaction.find_chore("dusting") == NOW + SECOND
        assert transaction.find_chore("baking") is None


# Replies


def test_a_request_is_seen_for_the_first_time_once(catalog: Catalog) -> None:
    with catalog.write() as transaction:
        assert transaction.add_reply(PLACE, MINE)
        assert not transaction.add_reply(PLACE, replace(MINE, fingerprint=b"other"))
        for other in (
            replace(PLACE, key_id="key-2"),
            replace(PLACE, method="PATCH"),
            replace(PLACE, path="/v1/fork"),
            replace(PLACE, name="twice"),
        ):
            assert transaction.find_reply(other) is None
            assert transaction.add_reply(other, MINE)
    with catalog.read() as transaction:
        assert transaction.find_reply(PLACE) == MINE


def test_a_reply_changes_only_for_whoever_has_claimed_it(catalog: Catalog) -> None:
    done = replace(MINE, status=201, media_type="application/json", body=b"\x00{}\xff")
    late, until = NOW + SECOND, NOW + 5 * SECOND
    with catalog.write() as transaction:
        transaction.add_reply(PLACE, MINE)
        assert not transaction.settle_reply(PLACE, done, claimed_at=late)
        assert not transaction.renew_reply(PLACE, claimed_at=late, until=until)
        assert not transaction.delete_reply(PLACE, claimed_at=late)
        assert transaction.find_reply(PLACE) == MINE
        assert transaction.renew_reply(PLACE, claimed_at=NOW, until=until)
        assert transaction.find_reply(PLACE) == replace(MINE, leased_until=until)
        assert transaction.delete_reply(PLACE, claimed_at=NOW)
        assert transaction.find_reply(PLACE) is None


def test_an_answer_that_is_kept_stays_as_it_is(catalog: Catalog) -> None:
    done = replace(MINE, status=201, media_type="application/json", body=b"\x00{}\xff")
    with catalog.write() as transaction:
        transaction.add_reply(PLACE, MINE)
        assert transaction.settle_reply(PLACE, done, claimed_at=NOW)
        assert not transaction.settle_reply(PLACE, replace(done, status=200), claimed_at=NOW)
        assert not transaction.renew_reply(PLACE, claimed_at=NOW, until=NOW)
        assert not transaction.delete_reply(PLACE, claimed_at=NOW)
        # Who saw it before it was answered comes too late to take it over.
        assert not transaction.take_reply(PLACE, replace(MINE, created_at=NOW), seen=MINE)
        assert transaction.find_reply(PLACE) == done
        assert transaction.take_reply(PLACE, MINE, seen=done)
        assert transaction.find_reply(PLACE) == MINE


def test_replies_are_purged_by_age(catalog: Catalog) -> None:
    old = replace(PLACE, name="old")
    with catalog.write() as transaction:
        transaction.add_reply(PLACE, MINE)
        transaction.add_reply(old, replace(MINE, created_at=NOW - SECOND))
        assert transaction.purge_replies(before=NOW) == 1
        assert transaction.find_reply(old) is None
        assert transaction.find_reply(PLACE) == MINE
