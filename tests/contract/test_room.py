"""What rows count against a tenant's quota, on both catalogs: a flood of any of them ends there."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast.errors import QuotaExceeded
from holdfast.model.basics import Kind
from holdfast.testing.clocks import Watch

QUOTA = 100_000
LONG = {f"key {number}": "ü" * 200 for number in range(10)}
"""About 12 KB, as a row has it."""
SAID = {"text": "ü" * 5_000}


@pytest.fixture
def clock() -> Watch:
    return Watch(datetime(2026, 3, 1, 12, tzinfo=UTC), step=timedelta(microseconds=1))


@pytest.fixture
def vault(opener: Callable[..., holdfast.Holdfast]) -> holdfast.Holdfast:
    return opener()


@pytest.fixture
def agent(vault: holdfast.Holdfast) -> holdfast.Namespace:
    agent = vault.namespace("alice")
    agent.files.write("a.txt", "one")
    agent.snapshot("first")
    agent.sessions.create("agent", session_id="s")
    return agent


def used(vault: holdfast.Holdfast) -> int:
    return vault.totals().storage_bytes


Add = Callable[[holdfast.Holdfast, int], object]


def snapshot(vault: holdfast.Holdfast, _: int) -> object:
    return vault.namespace("alice").snapshot("flood", metadata=LONG)


def task(vault: holdfast.Holdfast, number: int) -> object:
    return vault.namespace("alice").tasks.start(f"task {number}", metadata=SAID)


def entity(vault: holdfast.Holdfast, number: int) -> object:
    entities = vault.namespace("alice").entities
    return entities.create("s", entity_type="x", entity_id=str(number), attributes=SAID)


def fork(vault: holdfast.Holdfast, number: int) -> object:
    return vault.namespace("alice").fork(f"fork-{number}")


def restore(vault: holdfast.Holdfast, _: int) -> object:
    agent = vault.namespace("alice")
    return agent.restore(agent.timeline()[-1], reason="ü" * 4_000)


def flood(vault: holdfast.Holdfast, add: Add) -> int:
    """Adds until the quota refuses; returns how many were let in."""
    for done in range(30):
        try:
            add(vault, done)
        except QuotaExceeded:
            return done
    pytest.fail("nothing has refused it")


def reasoned(vault: holdfast.Holdfast, number: int) -> object:
    sessions = vault.namespace("alice").sessions
    return sessions.update_state("s", {"step": number}, reasoning="ü" * 5_000)


FLOODS = {
    "reasons": reasoned,
    "snapshots": snapshot,
    "tasks": task,
    "entities": entity,
    "restores": restore,
}


@pytest.mark.parametrize("add", FLOODS.values(), ids=FLOODS.keys())
def test_a_flood_of_long_rows_ends_at_the_quota(
    vault: holdfast.Holdfast, agent: holdfast.Namespace, add: Add
) -> None:
    vault.set_quota(QUOTA)
    before = used(vault)
    done = flood(vault, add)
    # What was let in counts, and with one more it would have been too much.
    assert QUOTA - 14_000 < used(vault) <= QUOTA
    assert (used(vault) - before) / done > 5_000
    assert agent.files.read_text("a.txt") == "one"


def test_a_fork_counts_with_what_its_snapshot_says(
    vault: holdfast.Holdfast, agent: holdfast.Namespace
) -> None:
    agent.snapshot("long", metadata=LONG)
    vault.set_quota(QUOTA)
    done = flood(vault, fork)
    assert QUOTA - 14_000 < used(vault) <= QUOTA
    assert len(vault.namespaces()) == 1 + done


def test_a_full_quota_takes_no_more_rows_and_lets_everything_go_back(
    vault: holdfast.Holdfast, agent: holdfast.Namespace
) -> None:
    first = agent.timeline()[-1]
    begun = agent.tasks.start("begun before")
    agent.files.write("a.txt", "two")
    second = agent.snapshot("second")
    vault.set_quota(used(vault))
    for refused in (
        agent.snapshot,
        lambda: agent.fork("another"),
        lambda: agent.tasks.start("one more"),
        lambda: agent.schedules.create(every=timedelta(hours=1)),
        lambda: vault.keys.create("one more"),
        lambda: vault.webhooks.create("https://example.com/"),
        lambda: entity(vault, 1),
    ):
        with pytest.raises(QuotaExceeded):
            refused()
    assert "another" not in vault.namespaces()
    assert agent.timeline()[0].id == second.id
    assert agent.restore(first).snapshot is not None
    assert agent.files.read_text("a.txt") == "one"
    agent.undo()
    assert agent.files.read_text("a.txt") == "two"
    assert agent.timeline()[0].kind is Kind.UNDO
    # What was let begin comes to its end.
    assert agent.tasks.complete(begun.id).after is not None


def test_with_a_full_quota_what_is_in_no_snapshot_is_kept_and_gone_back_from(
    vault: holdfast.Holdfast, agent: holdfast.Namespace
) -> None:
    first, begun = agent.timeline()[-1], agent.tasks.start("begun before")
    other = vault.namespace("other")
    other.files.write("b.txt", "one")
    other.snapshot()
    agent.sessions.update_state("s", {"step": 1})
    agent.sessions.update_state("s", {"step": 2})
    for each, path in ((agent, "a.txt"), (other, "b.txt")):
        each.files.write(path, "two")
        each.store.set("notes", "key", {"value": "two"})
    vault.set_quota(1)
    kept = agent.restore(first).safety_id
    assert kept is not None
    assert agent.at(kept).files.read_text("a.txt") == "two"
    agent.undo()
    assert agent.files.read_text("a.txt") == "two"
    assert agent.store.get("notes", "key") == {"value": "two"}
    other.files.delete("b.txt")
    other.undo()
    assert other.files.read_text("b.txt") == "one"
    assert agent.sessions.rollback("s", 1).state == {"step": 1}
    with pytest.raises(QuotaExceeded):
        agent.sessions.rollback("s", 1, reason="ü" * 5_000)
    agent.files.delete("a.txt")
    assert agent.tasks.fail(begun.id, rollback=True) is not None
    with pytest.raises(QuotaExceeded):
        agent.files.write("c.txt", "three")


def test_what_is_gone_counts_no_more_after_a_collection(
    vault: holdfast.Holdfast, agent: holdfast.Namespace, clock: Watch
) -> None:
    vault.collect()
    before = used(vault)
    made = [agent.snapshot("long", metadata=LONG) for _ in range(3)]
    agent.snapshot("last")
    noted = agent.entities.create("s", entity_type="x", entity_id="1", attributes=SAID)
    assert used(vault) > before + 45_000
    for each in made:
        agent.delete_snapshot(each)
    agent.entities.delete(noted.id)
    clock.wait(timedelta(days=8))
    vault.collect()
    assert used(vault) < before + 6_000


def test_what_is_counted_as_it_comes_is_what_a_collection_counts(
    vault: holdfast.Holdfast, agent: holdfast.Namespace
) -> None:
    snapshot(vault, 1)
    agent.snapshot("ü", reason="ü" * 99, task_id="ü", trace_id="ü", metadata={"ü": "\x7f€"})
    begun = agent.tasks.start("ü", metadata=SAID)
    agent.tasks.fail(begun.id, error="ü" * 50)
    noted = agent.entities.create("s", entity_type="ü", entity_id="1", attributes=SAID)
    agent.entities.update(noted.id, attributes={"ü": 1})
    fork(vault, 1)
    context = vault._context
    with context.catalog.read() as transaction:
        (tenant,) = transaction.iter_tenants()
        assert transaction.row_bytes(tenant.id) > 12_000
        assert transaction.miscounted_row_bytes(tenant.id) == []
