"""`verify` compares the journal with what there is, a repair counts anew, and lags are counted."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.errors import Damaged
from holdfast.testing.clocks import Watch
from holdfast.testing.damaged import Kept

pytestmark = pytest.mark.in_memory


def reasons(kept: Kept) -> str:
    return "; ".join(f"{fault.what}: {fault.reason}" for fault in kept.vault.verify().faults)


def test_what_the_journal_does_not_tell_of_is_a_fault(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    agent.files.write("a.txt", "1")
    first = agent.snapshot("first")
    agent.files.write("a.txt", "2")
    agent.restore(first)
    with agent.task("work") as task:
        agent.files.write("b.txt", "3")
    agent.undo(task=task.id)
    fork = agent.fork("copy")
    fork.files.write("c.txt", "4")
    agent.merge("copy")
    assert reasons(kept) == ""
    kept.sql("UPDATE tasks SET status = 'failed', checksum = NULL")
    assert f"task: {task.id}: it is failed, and the journal says completed" in reasons(kept)
    kept.sql("UPDATE tasks SET status = 'completed'")
    kept.sql("UPDATE journal SET actor = 'somebody else' WHERE action = 'snapshot.restored'")
    assert "journal of alice: trace 2: it was changed" in reasons(kept)
    kept.sql("UPDATE journal SET actor = NULL WHERE action = 'snapshot.restored'")
    assert reasons(kept) == ""
    # A snapshot that somebody wrote into the catalog, with all that a row of one needs.
    kept.sql("UPDATE snapshots SET id = 'snap-forged', checksum = NULL WHERE id = ?", first.id)
    assert "snapshot: snap-forged: the journal does not tell of it" in reasons(kept)


def test_what_somebody_only_added_to_the_journal_says_nothing_of_what_was_done(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    with agent.task("work") as task:
        agent.files.write("a.txt", "1")
    agent.traces.add("task.failed", resource_id=task.id)
    assert reasons(kept) == ""
    first = agent.timeline()[-1]
    kept.sql("UPDATE snapshots SET id = 'snap-forged', checksum = NULL WHERE id = ?", first.id)
    agent.traces.add("snapshot.created", resource_type="snapshot", resource_id="snap-forged")
    assert "snapshot: snap-forged: the journal does not tell of it" in reasons(kept)


def test_what_a_head_counts_is_compared_and_counted_anew(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    agent.files.write("a.txt", "1")
    agent.sessions.create("planner", initial_state={"step": 1})
    agent.memory.add("blue")
    agent.snapshot()
    agent.store.set("state", "plan", "b")
    size = agent.size()
    kept.sql("UPDATE namespaces SET entries = entries + 64, bytes = bytes + 7")
    assert "head of alice: it counts" in reasons(kept)
    assert kept.vault.repair().mended == 1
    assert (agent.size(), reasons(kept)) == (size, "")


def test_a_head_shows_what_its_newest_snapshot_does(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    agent.sessions.create("planner", session_id="brief", ttl_seconds=60)
    first = agent.snapshot()
    agent.sessions.delete("brief")
    agent.snapshot()
    # It comes back alive, and so not quite as the snapshot has it that the head stands on then.
    with kept.reopen(clock=Watch(datetime.now(tz=UTC) + timedelta(hours=1))) as later:
        later.namespace("alice").undo()
    assert agent.status().position == first.id
    assert reasons(kept) == ""
    kept.sql("UPDATE namespaces SET root = ?, checksum = NULL", first.root)
    assert "head of alice: it does not show what snap-" in reasons(kept)


def test_what_waits_to_be_done_is_counted(kept: Kept) -> None:
    vault = kept.vault
    assert vault.lags().unnumbered == vault.lags().pending == 0
    vault.webhooks.create("https://hooks.example/in")
    agent = vault.namespace("alice")
    agent.files.write("a.txt", "1")
    agent.snapshot()
    agent.files.write("b.txt", "2")
    agent.schedules.create(every=timedelta(hours=1))
    lags = vault.lags()
    assert (lags.pending, lags.namespaces, lags.anchors, lags.deliveries) == (1, 1, 1, 0)
    assert lags.unnumbered == 4
    assert lags.unnumbered_since is not None
    vault.outbox().expand()
    lags = vault.lags()
    assert (lags.unnumbered, lags.webhooks, lags.deliveries) == (0, 0, 4)
    assert lags.deliveries_since is not None
    assert (lags.looked_after_at, lags.collected_at) == (None, None)
    measures = vault.measure()
    assert (measures.deliveries, measures.deliveries_since) == (4, lags.deliveries_since)
    assert measures.inline_packs > 0
    assert measures.inline_bytes > 100
    assert measures.collected_at is None
    vault.look_after()
    lags = vault.lags()
    assert vault.measure().collected_at == lags.collected_at
    assert lags.anchors == 0
    assert None not in (lags.looked_after_at, lags.collected_at)


def test_a_list_of_traces_that_lacks_one_dated_earlier_says_so(kept: Kept) -> None:
    agent = kept.vault.namespace("alice")
    with agent.task("work"):
        agent.files.write("a.txt", "1")
    agent.snapshot()
    # The end of a task is told before the snapshot that it takes, and dated after it.
    ((number,),) = kept.sql("SELECT number FROM journal WHERE action = 'task.completed'")
    assert number < len(agent.traces.list())
    kept.sql("UPDATE journal SET namespace_id = 77 WHERE number = ?", number)
    with pytest.raises(Damaged, match="missing"):
        agent.traces.list()
