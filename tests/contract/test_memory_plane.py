"""Memories as a plane of the snapshot, on both catalogs: they go back with all the rest.

What a memory is, who sees it and how it is found is in `test_memory.py`.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import holdfast
from holdfast import Name, Plane
from holdfast.catalog.transaction import Transaction
from holdfast.errors import (
    InvalidValue,
    MemoryNotFound,
    MergeConflict,
    NameNotFound,
    QuotaExceeded,
)
from holdfast.testing.clocks import Watch

START = datetime(2025, 3, 1, 12, 30, tzinfo=UTC)
LONG = "A long story about the sea. " * 300
"""More than an entry holds itself."""

Open = Callable[..., holdfast.Holdfast]


@pytest.fixture
def clock() -> Watch:
    return Watch(START, step=timedelta(microseconds=1))


@pytest.fixture
def vault(opener: Open) -> Iterator[holdfast.Holdfast]:
    vault = opener()
    yield vault
    assert vault.verify().faults == []


@pytest.fixture
def ns(vault: holdfast.Holdfast) -> holdfast.Namespace:
    return vault.namespace("alice")


def contents(ns: holdfast.Namespace, **chosen: Any) -> list[str]:
    return [memory.content for memory in ns.memory.list(limit=1000, **chosen)]


def found(ns: holdfast.Namespace, query: str) -> list[str]:
    return sorted(each.content for each in ns.memory.search(query, limit=100))


# Back, and forth


def test_a_restore_brings_back_what_was_remembered_then(ns: holdfast.Namespace) -> None:
    tea = ns.memory.add("likes green tea", tags=["drink"], metadata={"sure": 0.5})
    story = ns.memory.add(LONG, type="story")
    gone = ns.memory.add("drives a red car")
    ns.files.write("a.txt", "1")
    before, then = ns.snapshot(), ns.memory.list()
    ns.memory.update(tea.id, content="likes black coffee", tags=[], metadata={"sure": 1})
    ns.memory.delete(gone.id)
    ns.memory.add("made since, with tea")
    ns.files.write("a.txt", "2")
    restored = ns.restore(before)
    assert restored.verified
    assert restored.left_alone == []
    assert ns.memory.list() == then
    assert ns.memory.get(tea.id) == tea
    assert ns.memory.get(story.id).content == LONG
    # The index of words has followed.
    assert found(ns, "tea") == ["likes green tea"]
    assert found(ns, "coffee") == []
    assert found(ns, "red car") == ["drives a red car"]


def test_memories_made_since_are_gone_until_an_undo(ns: holdfast.Namespace) -> None:
    before = ns.snapshot()
    since = ns.memory.add("made since")
    restored = ns.restore(before)
    assert restored.safety_id is not None
    assert restored.changes.of("removed", Plane.MEMORIES) == [since.id]
    with pytest.raises(MemoryNotFound):
        ns.memory.get(since.id)
    assert (contents(ns), found(ns, "since")) == ([], [])
    ns.undo()
    assert ns.memory.get(since.id) == since
    assert found(ns, "since") == ["made since"]
    ns.redo()
    assert contents(ns) == []


def test_what_a_restore_has_removed_can_be_recovered_by_itself(ns: holdfast.Namespace) -> None:
    before = ns.snapshot()
    one, _ = ns.memory.add("one"), ns.memory.add("two")
    ns.restore(before)
    assert ns.memory.recover(one.id) == one
    assert contents(ns) == ["one"]
    assert ns.diff(planes=["memories"]).of("added") == [one.id]


def test_a_dry_run_says_it_and_changes_nothing(ns: holdfast.Namespace) -> None:
    kept, changed = ns.memory.add("kept"), ns.memory.add("changed")
    before = ns.snapshot()
    ns.memory.update(changed.id, content="was changed")
    new = ns.memory.add("new")
    there, is_dirty = ns.memory.list(), ns.is_dirty()
    shown = ns.restore(before, dry_run=True)
    assert shown.changes.of("changed", Plane.MEMORIES) == [changed.id]
    assert shown.changes.of("removed", Plane.MEMORIES) == [new.id]
    assert kept.id not in {change.name for change in shown.changes}
    assert (ns.memory.list(), ns.is_dirty()) == (there, is_dirty)
    (sizes,) = ((c.old_bytes, c.new_bytes) for c in shown.changes if c.change == "changed")
    assert sizes == (len("was changed"), len("changed"))


def test_other_planes_leave_memories_alone_and_the_other_way_round(ns: holdfast.Namespace) -> None:
    ns.memory.add("then")
    ns.store.set("s", "k", 1)
    before = ns.snapshot()
    ns.memory.add("now")
    ns.store.set("s", "k", 2)
    ns.restore(before, planes=["files", "store", "sessions"])
    assert (contents(ns), ns.store.get("s", "k")) == (["now", "then"], 1)
    ns.store.set("s", "k", 3)
    ns.restore(before, planes=[Plane.MEMORIES])
    assert (contents(ns), ns.store.get("s", "k")) == (["then"], 3)


def test_single_memories_are_brought_back_by_name(ns: holdfast.Namespace) -> None:
    one, two = ns.memory.add("one"), ns.memory.add("two")
    before = ns.snapshot()
    for memory in (one, two):
        ns.memory.update(memory.id, content="changed")
    three = ns.memory.add("three")
    changes = {change.name: change.named for change in ns.diff(before)}
    assert changes[one.id] == Name.memory(one.id)
    ns.restore(before, names=[Name.memory(one.id)])
    assert contents(ns) == ["three", "changed", "one"]
    ns.restore(before, except_=[Name.memory(three.id)])
    assert contents(ns) == ["three", "two", "one"]
    with pytest.raises(NameNotFound):
        ns.restore(before, names=[Name.memory("mem_unknown")])
    with pytest.raises(InvalidValue):
        ns.restore(before, names=[Name("memories")])
    with pytest.raises(InvalidValue):
        ns.restore(before, names=[Name("memories", namespace="a", key="b")])


def test_rolling_a_session_back_leaves_memories_alone(ns: holdfast.Namespace) -> None:
    session = ns.sessions.create(agent_id="a", initial_state={"n": 0})
    ns.sessions.update_state(session.id, {"n": 1})
    ns.memory.add("of the session", session_id=session.id)
    ns.sessions.rollback(session.id, -1)
    assert contents(ns, session_id=session.id) == ["of the session"]
    assert ns.sessions.get(session.id).memory_count == 1


def test_memories_of_a_deleted_session_come_back_with_it(ns: holdfast.Namespace) -> None:
    session = ns.sessions.create(agent_id="a")
    other = ns.memory.add("of nobody")
    mine = ns.memory.add("of the session", session_id=session.id)
    before, held = ns.snapshot(), ns.size()
    ns.sessions.delete(session.id)
    assert contents(ns) == ["of nobody"]
    gone = ns.diff(planes=["memories"])
    assert [(c.name, c.change) for c in gone] == [(mine.id, "removed")]
    ns.snapshot()
    ns.restore(before)
    assert ns.memory.get(mine.id) == mine
    assert ns.memory.get(other.id) == other
    assert ns.sessions.get(session.id).memory_count == 1
    assert ns.size() == held


def test_a_memory_outlives_the_purge_of_its_row_in_a_snapshot(
    vault: holdfast.Holdfast, ns: holdfast.Namespace, clock: Watch
) -> None:
    first, second, third = (ns.memory.add(text) for text in ("first", LONG, "third"))
    before = ns.snapshot(pin=True)
    ns.memory.delete(second.id)
    ns.snapshot()
    clock.now += timedelta(days=60)
    vault.collect()
    with pytest.raises(MemoryNotFound):
        ns.memory.recover(second.id)
    ns.restore(before)
    # Where it was among the others, too.
    assert ns.memory.list() == [third, second, first]
    assert ns.memory.list(starting_after=third.id) == [second, first]
    assert found(ns, "sea") == [LONG]


def test_what_only_a_snapshot_remembers_is_not_collected(
    vault: holdfast.Holdfast, ns: holdfast.Namespace, clock: Watch
) -> None:
    memory = ns.memory.add(LONG)
    ns.snapshot(pin=True)
    clock.now += timedelta(days=60)
    vault.collect()
    assert vault.verify().ok
    assert ns.memory.get(memory.id).content == LONG


# Vectors


def turned(texts: list[str]) -> list[list[float]]:
    return [[1.0, float(len(text))] * 700 for text in texts]


def test_vectors_come_back_and_nobody_is_asked_for_them_again(opener: Open) -> None:
    asked: list[str] = []

    def embed(texts: Any) -> Any:
        asked.extend(texts)
        return turned(texts)

    vault = opener(embed=embed)
    ns = vault.namespace("alice")
    memory = ns.memory.add("blue")
    before = ns.snapshot()
    ns.memory.update(memory.id, content="a green one")
    ns.restore(before)
    fork = ns.fork("copy")
    assert ns.memory.get(memory.id).has_embedding
    assert fork.memory.get(memory.id).has_embedding
    assert asked == ["blue", "a green one"]
    # By its meaning: the words have nothing in common.
    assert [each.id for each in ns.memory.search("pink", threshold=0.0)] == [memory.id]
    assert vault.verify().ok


# Comparing


def test_the_text_of_a_change_says_what_was_remembered(ns: holdfast.Namespace) -> None:
    memory = ns.memory.add("likes tea", type="taste", tags=["a"], user_id="ann", embed=False)
    before = ns.snapshot()
    ns.memory.update(memory.id, content="likes coffee", metadata={"k": 1})
    ((_, text),) = ns.text_diffs(before)
    lines = text.splitlines()
    assert "-likes tea" in lines
    assert "+likes coffee" in lines
    assert '+metadata: {"k":1}' in lines
    assert {" type: taste", " user: ann", ' tags: ["a"]', " not searched"} <= {*lines}


def test_equal_memories_have_equal_roots(ns: holdfast.Namespace) -> None:
    memory = ns.memory.add("one")
    before = ns.snapshot()
    other = ns.memory.add("two")
    ns.memory.delete(other.id)
    assert ns.snapshot().root == before.root
    ns.memory.update(memory.id, content="other")
    assert ns.snapshot().root != before.root
    assert ns.restore(before).root == before.root


def test_the_history_of_a_memory_is_looked_up_as_any_other(ns: holdfast.Namespace) -> None:
    memory = ns.memory.add("one")
    first = ns.snapshot()
    ns.memory.update(memory.id, content="longer")
    second = ns.snapshot()
    ns.memory.delete(memory.id)
    told = ns.history(Name.memory(memory.id))
    steps = [(step.change, step.snapshot and step.snapshot.id) for step in told]
    assert steps == [("removed", None), ("changed", second.id), ("added", first.id)]
    assert [(step.old_bytes, step.new_bytes) for step in told] == [(6, None), (3, 6), (None, 3)]


# Forks and merges


def test_a_fork_has_the_memories_and_goes_its_own_way(
    vault: holdfast.Holdfast, ns: holdfast.Namespace
) -> None:
    session = ns.sessions.create(agent_id="a", user_id="ann")
    for number in range(5):
        ns.memory.add(f"number {number}", session_id=session.id)
    fork = ns.fork("copy")
    # Whoever looks first: a session's count, a search, a list.
    assert fork.sessions.get(session.id).memory_count == 5
    assert fork.memory.list() == ns.memory.list()
    assert fork.memory.search("number") == ns.memory.search("number")
    one = fork.memory.list()[0]
    fork.memory.update(one.id, content="changed in the fork")
    fork.memory.delete(fork.memory.list()[1].id)
    fork.memory.add("made in the fork")
    assert len(contents(ns)) == 5
    assert "changed in the fork" not in contents(ns)
    ns.memory.update(one.id, content="changed at home")
    assert fork.memory.get(one.id).content == "changed in the fork"
    assert vault.namespace("copy").totals().memories == 5


def test_a_fork_of_a_snapshot_remembers_what_it_held(ns: holdfast.Namespace) -> None:
    ns.memory.add("then")
    before = ns.snapshot()
    ns.memory.add("now")
    assert contents(ns.fork("copy", at=before)) == ["then"]


@pytest.mark.parametrize("first", ["add", "update", "delete", "restore", "delete_session", "fork"])
def test_whatever_is_done_first_in_a_fork_finds_its_memories(
    ns: holdfast.Namespace, first: str
) -> None:
    session = ns.sessions.create(agent_id="a")
    one = ns.memory.add("one", session_id=session.id)
    empty = ns.fork("empty")
    before = empty.snapshot()
    ns.memory.add("two")
    fork = ns.fork("copy")
    if first == "add":
        fork.memory.add("three")
        assert contents(fork) == ["three", "two", "one"]
    elif first == "update":
        fork.memory.update(one.id, content="other")
        assert contents(fork) == ["two", "other"]
    elif first == "delete":
        fork.memory.delete(one.id)
        assert contents(fork) == ["two"]
    elif first == "delete_session":
        fork.sessions.delete(session.id)
        assert contents(fork) == ["two"]
    elif first == "restore":
        fork.snapshot()
        empty.memory.delete(one.id)
        empty.restore(before)
        fork.restore(fork.timeline()[-1])
        assert contents(empty) == ["one"]
        assert contents(fork) == ["two", "one"]
    else:
        assert contents(fork.fork("again")) == ["two", "one"]
    assert contents(ns) == ["two", "one"]


def test_a_merge_brings_in_what_the_fork_has_learnt(ns: holdfast.Namespace) -> None:
    one, two, three = (ns.memory.add(text) for text in ("one", "two", "three"))
    fork = ns.fork("copy")
    fork.memory.add("four")
    fork.memory.update(one.id, content="one, better")
    fork.memory.delete(two.id)
    ns.memory.update(three.id, content="three, better")
    ns.memory.add("five")
    merged = ns.merge(fork)
    assert merged.changes.count(plane=Plane.MEMORIES) == 3
    assert sorted(contents(ns)) == ["five", "four", "one, better", "three, better"]
    assert found(ns, "better") == ["one, better", "three, better"]


def test_a_memory_that_both_changed_is_a_conflict(ns: holdfast.Namespace) -> None:
    memory = ns.memory.add("one")
    fork = ns.fork("copy")
    fork.memory.update(memory.id, content="theirs")
    ns.memory.update(memory.id, content="ours")
    with pytest.raises(MergeConflict) as caught:
        ns.merge(fork)
    assert caught.value.conflicts == [("memories", memory.id.encode())]
    assert contents(ns) == ["ours"]
    ns.merge(fork, prefer="theirs")
    assert contents(ns) == ["theirs"]


def test_undoing_one_operation_keeps_what_was_remembered_after_it(ns: holdfast.Namespace) -> None:
    ns.memory.add("kept")
    ns.snapshot()
    ns.memory.add("taken back")
    operation = ns.snapshot()
    ns.memory.add("after it")
    ns.snapshot()
    ns.undo(operation)
    assert contents(ns) == ["after it", "kept"]


# Archives


def test_an_archive_holds_what_is_remembered(
    ns: holdfast.Namespace, vault: holdfast.Holdfast, tmp_path: Path
) -> None:
    session = ns.sessions.create(agent_id="a")
    ns.memory.add("likes 'tea' ☕", session_id=session.id, tags=["b", "a"], metadata={"z": [1]})
    ns.memory.add(LONG, user_id="ann", embed=False)
    ns.export(tmp_path / "a.tar")
    other = vault.namespace("bob")
    other.memory.add("of bob")
    imported = other.import_(tmp_path / "a.tar")
    assert imported.verified
    assert imported.manifest.entries == 3
    assert other.memory.list() == ns.memory.list()
    assert found(other, "tea") == ["likes 'tea' ☕"]
    assert other.size() == ns.size()
    other.export(tmp_path / "b.tar")
    third = vault.namespace("carol").import_(tmp_path / "b.tar")
    assert third.manifest.root == imported.manifest.root
    other.undo()
    assert contents(other) == ["of bob"]


# Counts, quotas, rows


def test_memories_count_in_what_a_namespace_and_a_snapshot_hold(ns: holdfast.Namespace) -> None:
    memory = ns.memory.add("grün")
    assert (ns.size().entries, ns.size().bytes) == (1, 5)
    assert ns.snapshot().size == ns.size()
    ns.memory.update(memory.id, content="longer text")
    ns.memory.add("two")
    assert (ns.size().entries, ns.size().bytes) == (2, 14)
    ns.memory.delete(memory.id)
    assert (ns.size().entries, ns.size().bytes) == (1, 3)
    ns.memory.recover(memory.id)
    assert ns.snapshot().size == ns.size()
    ns.restore(ns.timeline()[-1])
    assert (ns.size().entries, ns.size().bytes) == (1, 5)


def test_a_namespace_over_its_quota_remembers_nothing_more(ns: holdfast.Namespace) -> None:
    memory = ns.memory.add("1234")
    ns.set_quota(6)
    with pytest.raises(QuotaExceeded):
        ns.memory.add("567")
    with pytest.raises(QuotaExceeded):
        ns.memory.update(memory.id, content="1234567")
    assert (contents(ns), ns.size().bytes) == (["1234"], 4)
    ns.memory.update(memory.id, content="123456")
    ns.memory.delete(memory.id)
    assert ns.size().bytes == 0


def test_a_snapshot_of_many_after_one_change_costs_what_one_change_costs(
    ns: holdfast.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    plain = Transaction.memories_by_id

    def counted(self: Transaction, *given: Any) -> Any:
        found = plain(self, *given)
        read.append(len(found))
        return found

    monkeypatch.setattr(Transaction, "memories_by_id", counted)
    for number in range(60):
        ns.memory.add(f"number {number}")
    ns.snapshot()
    ns.memory.update(ns.memory.list()[7].id, content="other")
    ns.snapshot()
    ns.snapshot()
    assert read == [60, 1]


def test_a_snapshot_beside_writers_never_holds_half_of_what_belongs_together(
    vault: holdfast.Holdfast, ns: holdfast.Namespace
) -> None:
    # Each writer first remembers a number and then stores it: no snapshot has one stored that it
    # does not remember.
    def write(name: str) -> None:
        agent = vault.namespace("alice")
        for number in range(12):
            agent.memory.add(f"{name} {number}")
            agent.store.set("seen", name, number)

    taken = [ns.snapshot()]
    with ThreadPoolExecutor(2) as pool:
        writing = [pool.submit(write, name) for name in ("ann", "bob")]
        while not all(each.done() for each in writing):
            taken.append(ns.snapshot())
        for each in writing:
            each.result()
    for snapshot in taken[:: max(1, len(taken) // 12)]:
        fork = ns.fork(f"look-{snapshot.number}", at=snapshot)
        remembered = {*contents(fork)}
        for name in ("ann", "bob"):
            last = fork.store.get("seen", name, default=-1)
            assert {f"{name} {n}" for n in range(last + 1)} <= remembered
    assert len(contents(ns)) == 24


def test_verify_says_where_rows_and_plane_differ(opener: Open) -> None:
    vault = opener()
    ns = vault.namespace("alice")
    memory = ns.memory.add("what it said")
    ns.snapshot()
    handle = ns._handle
    with handle.context.catalog.write() as transaction:
        (row,) = transaction.memories_by_id(handle.lock(transaction).namespace_id, [memory.id])
        transaction.set_memory(replace(row, content="what somebody made of it"))
    assert [fault.what for fault in vault.verify().faults] == [f"memories: {memory.id}"]
