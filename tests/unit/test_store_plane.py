"""The store of a namespace: it answers as the in-process store does, and outlives the process."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.planes.storevalues import decode_value
from holdfast.engine.store.plane import StoreSnapshot
from holdfast.errors import (
    Damaged,
    HeadMoved,
    InvalidValue,
    OthersChanged,
    SnapshotExpired,
    SnapshotNotFound,
    TooLarge,
    Unencodable,
)
from holdfast.model.basics import fields_of
from holdfast.testing.clocks import Watch

pytestmark = pytest.mark.in_memory

START = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)
LONG = "long " * 300
"""Stored as a chunk, not inside its entry."""


@pytest.fixture
def clock() -> Watch:
    return Watch(START)


@pytest.fixture
def vault(tmp_path: Path, clock: Watch) -> Iterator[holdfast.Holdfast]:
    with holdfast.open(tmp_path / "vault", clock=clock) as opened:
        yield opened


@pytest.fixture
def agent(vault: holdfast.Holdfast) -> holdfast.Namespace:
    return vault.namespace("alice")


# Snapshots


def test_a_snapshot_of_the_store_is_one_of_the_namespace(agent: holdfast.Namespace) -> None:
    agent.store.set("n", "k", 1)
    store = agent.acting_as("me").store
    taken = store.snapshot("first", reason="why", task_id="t", trace_id="r", pin=True)
    (stored,) = agent.timeline()
    assert isinstance(taken, holdfast.SnapshotInfo)
    assert holdfast.SnapshotInfo(**fields_of(taken)) == stored
    assert (taken.label, taken.reason, taken.actor) == ("first", "why", "me")
    assert (taken.task_id, taken.trace_id, taken.pinned) == ("t", "r", True)


def test_a_snapshot_knows_when_it_was_taken_and_after_which(
    agent: holdfast.Namespace, clock: Watch
) -> None:
    first = agent.store.snapshot()
    clock.now += timedelta(seconds=1.5)
    second = agent.store.snapshot()
    assert (first.timestamp, first.parent) == (START.timestamp(), None)
    assert (second.timestamp, second.parent) == (START.timestamp() + 1.5, first.id)


def test_a_snapshot_holds_what_was_there_whatever_comes_after(agent: holdfast.Namespace) -> None:
    agent.store.set_many([("b", "1", "x"), ("a", "2", LONG), ("a", "1", [1, 2])])
    taken = agent.store.snapshot()
    agent.store.clear()
    assert taken.keys == [("a", "1"), ("a", "2"), ("b", "1")]
    sizes = [len(holdfast.dumps(value)) for value in ("x", LONG, [1, 2])]
    assert taken.size_bytes == sum(sizes)
    assert taken.get("a", "2") == LONG
    assert taken.get("a", "3", "default") == "default"
    assert taken.items("a") == [("1", [1, 2]), ("2", LONG)]
    assert taken.items("a", "2") == [("2", LONG)]
    assert taken.items() == [(("a", "1"), [1, 2]), (("a", "2"), LONG), (("b", "1"), "x")]
    assert taken.items(prefix="1") == [(("a", "1"), [1, 2]), (("b", "1"), "x")]


def test_files_are_no_part_of_what_a_snapshot_of_the_store_shows(
    agent: holdfast.Namespace,
) -> None:
    agent.files.write("a.txt", "text")
    before = agent.store.snapshot()
    agent.files.write("b.txt", "text")
    after = agent.store.snapshot()
    assert (after.keys, after.size_bytes, after.items()) == ([], 0, [])
    assert after.diff(before) == {"added": [], "removed": [], "changed": []}


def test_a_diff_leads_from_the_base_to_the_snapshot(agent: holdfast.Namespace) -> None:
    agent.store.set_many([("n", "stays", 1), ("n", "changes", 1), ("m", "goes", 1)])
    base = agent.store.snapshot()
    agent.store.set_many([("n", "stays", 1), ("n", "changes", 2), ("o", "comes", 1)])
    agent.store.delete("m", "goes")
    taken = agent.store.snapshot()
    forth = {"added": [("o", "comes")], "removed": [("m", "goes")], "changed": [("n", "changes")]}
    assert taken.diff(base) == taken.diff(base.id) == taken.diff("@-1") == forth
    assert base.diff(taken) == {**forth, "added": forth["removed"], "removed": forth["added"]}


@pytest.mark.parametrize(
    "use",
    [
        lambda ns, s: ns.restore(s),
        lambda ns, s: ns.at(s).store.get("n", "k") == 1,
        lambda ns, s: ns.diff(s),
        lambda ns, s: ns.pin(s),
        lambda ns, s: ns.fork("other", at=s),
        lambda ns, s: ns.snapshot(expected=s),
        lambda ns, s: ns.get_snapshot(s),
        lambda ns, s: ns.delete_snapshot(s),
    ],
)
def test_a_snapshot_of_the_store_is_taken_wherever_one_is_asked_for(
    agent: holdfast.Namespace, use
) -> None:
    agent.store.set("n", "k", 1)
    assert use(agent, agent.store.snapshot()) is not False


def test_snapshots_of_the_store_can_be_keys_and_compared(agent: holdfast.Namespace) -> None:
    taken, other = agent.store.snapshot(), agent.store.snapshot()
    again = agent.store.history()[0]
    assert again == taken != other
    assert {taken: "a", other: "b"}[again] == "a"


def test_a_snapshot_that_is_expected_has_to_be_shown(agent: holdfast.Namespace) -> None:
    first = agent.store.snapshot()
    second = agent.store.snapshot(expected=first)
    agent.store.snapshot(expected=second.id)
    with pytest.raises(HeadMoved):
        agent.store.snapshot(expected=first)


def test_what_a_forgotten_snapshot_held_is_not_found(vault: holdfast.Holdfast) -> None:
    agent = vault.namespace("alice")
    agent.store.set("n", "k", LONG)
    taken = agent.store.snapshot()
    agent.store.set("n", "k", "other")
    agent.store.snapshot()
    agent.delete_snapshot(taken)
    with pytest.raises(SnapshotNotFound):
        agent.store.at(taken)
    with pytest.raises(SnapshotNotFound):
        agent.store.history()[0].diff(taken)


# Going back


def test_a_restore_of_the_store_leaves_files_alone(agent: holdfast.Namespace) -> None:
    agent.store.set("n", "k", "old")
    before = agent.store.snapshot()
    agent.store.set("n", "k", "new")
    agent.files.write("a.txt", "kept")
    done = agent.store.restore(before)
    assert (done.target, done.verified) == (before.id, True)
    assert agent.store.get("n", "k") == "old"
    assert agent.files.read_text("a.txt") == "kept"
    agent.undo()
    assert agent.store.get("n", "k") == "new"


def test_a_snapshot_is_restored_by_its_id_too(agent: holdfast.Namespace) -> None:
    agent.store.set("n", "k", "old")
    before = agent.store.snapshot()
    agent.store.clear()
    agent.store.restore(before.id)
    assert agent.store.get("n", "k") == "old"


@pytest.mark.parametrize("what", [None, 5, object(), holdfast.Store().snapshot()])
def test_what_is_no_snapshot_cannot_be_restored(agent: holdfast.Namespace, what) -> None:
    agent.store.snapshot()
    for use in (agent.store.restore, agent.store.at, agent.store.history()[0].diff):
        with pytest.raises(TypeError):
            use(what)


def test_a_snapshot_of_another_namespace_is_not_found(vault: holdfast.Holdfast) -> None:
    ours, theirs = vault.namespace("a").store, vault.namespace("b").store
    ours.set("n", "k", 1)
    taken = ours.snapshot()
    theirs.set("n", "k", 2)
    for use in (theirs.restore, theirs.at, theirs.snapshot().diff):
        with pytest.raises(SnapshotNotFound):
            use(taken)


def test_a_reader_shows_one_moment(agent: holdfast.Namespace) -> None:
    agent.store.set_many([("n", "a", 1), ("n", "b", 2), ("m", "a", 3)])
    reader = agent.store.at(agent.store.snapshot())
    agent.store.clear()
    assert reader.get("n", "a") == 1
    assert reader.get_many([("m", "a"), ("n", "c")]) == [3, None]
    assert (reader.keys("n"), reader.max_key("n"), reader.max_key("o")) == (["a", "b"], "b", None)
    assert (reader.namespaces(), len(reader)) == (["m", "n"], 3)
    assert "n" in reader
    assert not agent.store


# History


def test_history_is_the_timeline_oldest_first(agent: holdfast.Namespace) -> None:
    assert agent.store.history() == []
    taken = [agent.store.snapshot(), agent.store.snapshot()]
    assert agent.store.history() == taken
    assert all(isinstance(snapshot, StoreSnapshot) for snapshot in agent.store.history())
    assert [s.id for s in agent.store.history()] == [s.id for s in agent.timeline()][::-1]


def test_clearing_history_leaves_what_is_pinned_and_what_the_head_stands_on(
    agent: holdfast.Namespace,
) -> None:
    agent.store.set("n", "k", 1)
    pinned, gone = agent.store.snapshot(pin=True), agent.store.snapshot()
    agent.store.set("n", "k", 2)
    head = agent.store.snapshot()
    agent.store.clear_history()
    assert agent.store.history() == [pinned, head]
    assert agent.store.get("n", "k") == 2
    agent.recover_snapshot(gone.id)
    assert [snapshot.id for snapshot in agent.store.history()] == [pinned.id, gone.id, head.id]


def test_clearing_history_again_does_not_begin_the_grace_period_anew(
    agent: holdfast.Namespace, clock: Watch
) -> None:
    gone = agent.store.snapshot()
    agent.store.set("n", "k", 1)
    agent.store.snapshot()
    agent.store.set("n", "k", 2)
    agent.store.snapshot()
    agent.store.clear_history()
    clock.now += timedelta(days=4)
    agent.store.clear_history()
    clock.now += timedelta(days=4)
    agent.forget()
    with pytest.raises(SnapshotNotFound):
        agent.recover_snapshot(gone.id)


def test_what_expired_is_not_in_history(agent: holdfast.Namespace, clock: Watch) -> None:
    gone = agent.store.snapshot(expires_in=timedelta(hours=1))
    kept = agent.store.snapshot()
    clock.now += timedelta(hours=2)
    assert agent.store.history() == [kept]
    with pytest.raises(SnapshotExpired):
        agent.store.restore(gone)


def test_the_store_says_what_values_are_and_that_no_number_bounds_its_history(
    agent: holdfast.Namespace,
) -> None:
    assert (agent.store.codec, agent.store.max_history) == ("msgpack", None)


# Namespaces that are not there


def test_nothing_but_a_write_makes_a_namespace(vault: holdfast.Holdfast) -> None:
    store = vault.namespace("nobody").store
    assert store.delete("n", "k") is False
    store.clear()
    store.clear_history()
    assert store.get("n", "k", 7) == 7
    assert store.get_many([("n", "k")] * 3) == [None] * 3
    assert (store.keys("n"), store.items(), store.max_key("n"), len(store)) == ([], [], None, 0)
    store.set_many([])
    assert vault.namespaces() == []
    store.set("n", "k", 1)
    assert vault.namespaces() == ["nobody"]


# Keys and values


def test_the_greatest_key_is_found_among_what_is_pending_and_what_is_stored(
    agent: holdfast.Namespace,
) -> None:
    store = agent.store
    store.set_many([("n", f"{number:04}", number) for number in range(2000)])
    store.set("n\0", "z", "in another namespace")
    store.set("o", "z", "in another namespace")
    agent.snapshot()
    assert store.max_key("n") == "1999"
    store.set("n", "2000", 1)
    assert store.max_key("n") == "2000"
    for number in range(2000, 1900, -1):
        assert store.delete("n", f"{number:04}")
        assert store.max_key("n") == f"{number - 1:04}"
    store.set("n", "1950", 1)
    assert (store.max_key("n"), store.max_key("n\0"), store.max_key("m")) == ("1950", "z", None)


@pytest.mark.parametrize("pair", [(1, "k"), ("n", None), (b"n", "k"), ("n", 2.5)])
def test_what_is_no_text_is_no_key(agent: holdfast.Namespace, pair) -> None:
    for use in (
        lambda: agent.store.set(*pair, 1),
        lambda: agent.store.set_many([(*pair, 1)]),
        lambda: agent.store.get(*pair),
        lambda: agent.store.get_many([pair]),
        lambda: agent.store.contains(*pair),
        lambda: agent.store.delete(*pair),
        lambda: agent.store.keys(*pair) if pair[1] is not None else agent.store.set(*pair, 1),
    ):
        with pytest.raises(TypeError):
            use()
    assert len(agent.store) == 0


def test_half_a_character_is_refused_everywhere(agent: holdfast.Namespace) -> None:
    for use in (agent.store.keys, agent.store.items, agent.store.max_key):
        with pytest.raises(InvalidValue):
            use("\ud800")
    with pytest.raises(InvalidValue):
        agent.store.keys("n", "\ud800")


def test_values_come_back_as_those_of_the_in_process_store_do(agent: holdfast.Namespace) -> None:
    values = [None, True, 2**63, -1.5, "text", b"bytes", (1, 2), {3}, {"a": {1: [START]}}, LONG]
    memory = holdfast.Store()
    for number, value in enumerate(values):
        agent.store.set("n", str(number), value)
        memory.set("n", str(number), value)
    for _ in range(2):  # pending, then stored
        assert agent.store.items("n") == sorted(memory.items("n"))
        agent.snapshot()


def test_what_cannot_be_stored_is_refused_as_in_the_in_process_store(
    agent: holdfast.Namespace,
) -> None:
    for value in (object(), {"a": [1, object()]}, 2**64, "\ud800", {"a": {1: {2, object()}}}):
        with pytest.raises(Unencodable) as ours:
            agent.store.set_many([("n", "fine", 1), ("n", "k", value)])
        with pytest.raises(Unencodable) as theirs:
            holdfast.Store().set("n", "k", value)
        assert str(ours.value) == str(theirs.value)
    assert len(agent.store) == 0


def test_a_value_that_is_too_large_is_refused(tmp_path: Path) -> None:
    limits = holdfast.Limits(value_bytes=100)
    with holdfast.open(tmp_path / "small", limits=limits) as vault:
        store = vault.namespace("alice").store
        with pytest.raises(TooLarge):
            store.set_many([("n", "a", 1), ("n", "b", "x" * 100)])
        assert len(store) == 0


def test_bytes_that_are_no_value_are_damage() -> None:
    with pytest.raises(Damaged):
        decode_value(b"\xc1")


@pytest.mark.parametrize("count", [1, 3, 4, 15, 65, 99, 101, 257, 1111])
def test_any_number_of_values_is_written_and_read_at_once(
    agent: holdfast.Namespace, count: int
) -> None:
    values = {("n", str(number)): number for number in range(count)}
    agent.store.set_many((*pair, number) for pair, number in values.items())
    pairs = [*values, ("n", "missing"), ("n", "0")]
    for _ in range(2):  # pending, then stored
        assert agent.store.get_many(pairs) == [*values.values(), None, 0]
        assert (len(agent.store), agent.size().entries) == (count, count)
        agent.snapshot()
    agent.store.set_many((*pair, -1) for pair in values)
    assert agent.store.get_many(pairs) == [-1] * count + [None, -1]
    assert agent.size().entries == count


def test_only_what_is_replaced_counts_as_replaced(agent: holdfast.Namespace) -> None:
    agent.store.set_many(("n", f"{number:03}", 1) for number in range(200))
    agent.store.set_many(("n", f"{number:03}", 2) for number in range(0, 200, 2))
    assert (agent.size().entries, agent.size().bytes) == (200, 200)
    agent.store.set_many(("n", f"{number:03}5", 2) for number in range(199))
    assert (agent.size().entries, agent.size().bytes) == (399, 399)


def test_small_and_large_values_go_together(agent: holdfast.Namespace) -> None:
    agent.store.set_many([("n", "small", 1), ("n", "large", LONG)])
    assert agent.store.get_many([("n", "large"), ("n", "small")]) == [LONG, 1]
    size = sum(len(holdfast.dumps(value)) for value in (1, LONG))
    assert agent.size() == type(agent.size())(2, size)
    agent.store.set("n", "large", 2)
    assert agent.size() == type(agent.size())(2, 2)


# Values that lie in their rows until a snapshot


def put_all(agent: holdfast.Namespace, sizes: list[int]) -> None:
    for size in sizes:
        agent.store.set("n", f"{size:06}", "x" * size)


def test_a_snapshot_holds_the_same_wherever_values_were_before(vault: holdfast.Holdfast) -> None:
    sizes = [200, 256, 257, 4000, 4096, 5000, 16_000, 20_000]
    one, other, many = (vault.namespace(name) for name in ("one", "other", "many"))
    put_all(one, sizes)
    with other.task("in a task they are cut at once"):
        put_all(other, sizes)
    many.store.set_many([("m", f"{number:05}", number) for number in range(1100)])
    put_all(many, sizes)
    assert one.store.items("n") == other.store.items("n") == many.store.items("n")
    many.store.delete_prefix("m")
    roots = {each.snapshot().root for each in (one, other, many)}
    assert len(roots) == 1
    put_all(one, sizes)  # The same again: pending, and no change.
    assert list(one.diff()) == []
    assert one.snapshot().root in roots


def test_a_task_that_changed_a_value_in_its_row_is_taken_back(agent: holdfast.Namespace) -> None:
    agent.store.set("n", "k", LONG)
    with agent.task("first") as first:
        agent.store.set("n", "k", LONG + "first")
        agent.snapshot()
        agent.store.set("n", "k", LONG + "second")
    agent.undo(task=first.id)
    assert agent.store.get("n", "k") == LONG
    with agent.task("second") as second:
        agent.store.set("n", "other", LONG)
    agent.store.set("n", "other", LONG + "by others")
    with pytest.raises(OthersChanged):
        agent.undo(task=second.id)
