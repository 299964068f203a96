"""All namespaces at a glance, and how things were over time: the same on both databases."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast.catalog.transaction import Transaction
from holdfast.engine.audit import series
from holdfast.engine.namespace import Namespace
from holdfast.errors import InvalidValue, NamespaceNotFound
from holdfast.model.overviews import RunningTask
from holdfast.model.traces import Level
from holdfast.testing.clocks import Watch
from holdfast.testing.counting import asked

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

Open = Callable[[], holdfast.Holdfast]


@pytest.fixture
def clock() -> Watch:
    return Watch(NOON)


@pytest.fixture
def vault(opener: Open) -> holdfast.Holdfast:
    return opener()


def be_active(agent: Namespace, sessions: int, *, rollbacks: int = 0) -> None:
    """Makes so many sessions, of which the first is rolled back so often."""
    made = [agent.sessions.create("bot") for _ in range(sessions)]
    for _ in range(rollbacks):
        agent.sessions.rollback(made[0].id, 0)


# At a glance


def test_a_glance_says_what_the_namespaces_say_themselves(
    vault: holdfast.Holdfast, clock: Watch
) -> None:
    alice = vault.acting_as("key-1").namespace("alice")
    alice.files.write("plan", "one")
    first = alice.snapshot("first")
    alice.files.write("plan", "two")
    gone = alice.snapshot("gone")
    alice.delete_snapshot(gone.id)
    clock.wait(HOUR)
    task = alice.tasks.start("tidy up")
    alice.files.write("more", "four")
    alice.fork("bob", at=first)
    be_active(vault.namespace("carol"), 10, rollbacks=1)
    by_name = {each.namespace: each for each in vault.overview()}
    assert [*by_name] == ["alice", "bob", "carol"]
    seen, newest = by_name["alice"], alice.timeline(limit=1)[0]
    assert (seen.size, seen.snapshots) == (alice.size(), len(alice.timeline()))
    assert seen.latest is not None
    assert (seen.latest.id, seen.latest.number) == (newest.id, newest.number)
    assert (seen.latest.label, seen.latest.actor) == (newest.label, "key-1")
    assert seen.latest.created_at == newest.created_at
    running = RunningTask(
        id=task.id, namespace="alice", name="tidy up", actor="key-1", started_at=clock.now
    )
    assert (seen.running_tasks, seen.running) == (1, running)
    assert vault.running_tasks() == [running]
    for name, each in by_name.items():
        agent = vault.namespace(name)
        health = agent.health()
        assert each.dirty is agent.is_dirty()
        assert (each.rollbacks, each.rate, each.level) == (
            health.rollbacks,
            health.rate,
            health.level,
        )
    assert {name: each.forked_from for name, each in by_name.items()} == {
        "alice": None,
        "bob": "alice",
        "carol": None,
    }
    assert by_name["carol"].level is Level.CRITICAL
    assert by_name["carol"].latest is None


def test_pages_follow_on_each_other_and_deleted_namespaces_are_on_none(
    vault: holdfast.Holdfast,
) -> None:
    names = ["a", "shop", "shop-1", "shop-2", "shöp", "team/x", "z"]
    for name in names:
        vault.namespace(name).files.write("a", name)
    vault.delete_namespace("shop-2")
    names.remove("shop-2")
    seen, after = list[str](), None
    while page := vault.overview(limit=2, starting_after=after):
        seen += [each.namespace for each in page]
        after = seen[-1]
    assert seen == sorted(names, key=str.encode)
    assert [each.namespace for each in vault.overview(prefix="shop")] == ["shop", "shop-1"]
    assert vault.overview(prefix="nobody") == []


def test_a_page_takes_as_many_statements_however_many_namespaces_are_on_it(
    vault: holdfast.Holdfast,
) -> None:
    def statements(namespaces: int) -> list[str]:
        for number in range(namespaces):
            agent = vault.namespace(f"agent-{number}")
            be_active(agent, 2, rollbacks=1)
            agent.snapshot()
        with asked() as names:
            assert len(vault.overview()) == namespaces
        return names

    few = statements(1)
    assert len(few) < 8
    assert statements(6) == few


def test_running_tasks_of_all_namespaces_are_listed_newest_first(
    vault: holdfast.Holdfast, clock: Watch
) -> None:
    started = list[str]()
    for number in range(5):
        clock.wait(HOUR)
        started.insert(0, vault.namespace(f"agent-{number % 2}").tasks.start(f"{number}").id)
    vault.namespace("agent-1").tasks.complete(started.pop(1))
    first = vault.running_tasks(limit=2)
    rest = vault.running_tasks(starting_after=first[-1].id)
    assert [each.id for each in (*first, *rest)] == started
    vault.tenant("other").namespace("agent-0").tasks.start("theirs")
    [theirs] = vault.tenant("other").running_tasks()
    assert theirs.name == "theirs"
    with pytest.raises(InvalidValue):
        vault.running_tasks(starting_after=theirs.id)


# Over time


def test_rollbacks_are_counted_by_the_hour_and_by_the_day(
    vault: holdfast.Holdfast, clock: Watch
) -> None:
    alice, bob = vault.namespace("alice"), vault.namespace("bob")
    be_active(alice, 4, rollbacks=1)
    clock.wait(HOUR)
    be_active(bob, 6, rollbacks=2)
    clock.wait(2 * DAY)
    be_active(alice, 1)

    def counts(found: holdfast.RollbackSeries) -> dict[datetime, tuple[int, int, float]]:
        assert found.next_since is None
        assert [each.start for each in found.buckets] == sorted(e.start for e in found.buckets)
        return {
            each.start: (each.rollbacks, each.sessions, each.rate)
            for each in found.buckets
            if each.sessions
        }

    midnight = NOON - 12 * HOUR
    days = vault.rollback_series()
    assert len(days.buckets) == 15
    assert counts(days) == {midnight: (3, 10, 0.3), midnight + 2 * DAY: (0, 1, 0.0)}
    assert days.buckets[-3].level is Level.CRITICAL
    hours = vault.rollback_series(bucket="hour", since=NOON)
    assert len(hours.buckets) == 50
    assert counts(hours) == {
        NOON: (1, 4, 0.25),
        NOON + HOUR: (2, 6, 1 / 3),
        NOON + HOUR + 2 * DAY: (0, 1, 0.0),
    }
    assert counts(bob.rollback_series()) == counts(vault.rollback_series(namespace="bob"))
    assert counts(bob.rollback_series()) == {midnight: (2, 6, 1 / 3)}
    assert counts(vault.rollback_series(agent_id="nobody")) == {}
    assert counts(vault.namespace("nobody").rollback_series()) == {}
    assert vault.rollback_series(since=clock.now + DAY).buckets == []
    with pytest.raises(NamespaceNotFound):
        vault.rollback_series(namespace="nobody")
    for bucket, days_back in (("hour", 32), ("day", 367)):
        with pytest.raises(InvalidValue):
            vault.rollback_series(bucket=bucket, since=clock.now - timedelta(days=days_back))
    with pytest.raises(InvalidValue, match="time zone"):
        vault.rollback_series(since=clock.now.replace(tzinfo=None))
    with pytest.raises(InvalidValue, match="time zone"):
        vault.storage_series(since=clock.now.replace(tzinfo=None))


def test_counting_ends_in_time_and_says_where_it_goes_on(
    vault: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_active(vault.namespace("alice"), 2, rollbacks=1)
    whole = vault.rollback_series()
    monkeypatch.setattr(series, "BUDGET_S", -1.0)
    found, since = list[holdfast.RollbackBucket](), None
    while True:
        page = vault.rollback_series(since=since)
        assert page.buckets
        found += page.buckets
        if (since := page.next_since) is None:
            break
    assert found == whole.buckets


def test_upkeep_notes_once_a_day_how_much_there_is_and_for_ninety_days(
    vault: holdfast.Holdfast, clock: Watch
) -> None:
    alice = vault.namespace("alice")
    alice.files.write("a", "x" * 1000)
    assert vault.storage_series() == []
    vault.look_after()
    first = vault.storage_series()
    [of_alice] = vault.storage_series(namespace="alice")
    assert [(each.start, each.size) for each in first] == [(NOON - 12 * HOUR, alice.size())]
    assert (of_alice.size, of_alice.stored_bytes) == (alice.size(), None)
    assert first[0].stored_bytes == vault.totals().storage_bytes
    alice.files.write("b", "y" * 1000)
    vault.look_after()
    assert vault.storage_series() == first  # Once a day, by whoever is first.
    clock.wait(DAY)
    vault.look_after()
    later = vault.storage_series()
    assert [each.size for each in later] == [first[0].size, alice.size()]
    assert vault.storage_series(since=clock.now) == later[1:]
    clock.wait(timedelta(days=90))
    vault.look_after()
    assert len(vault.storage_series()) == 2
    assert len(vault.storage_series(namespace="alice")) == 2
    with pytest.raises(NamespaceNotFound):
        vault.storage_series(namespace="nobody")


def test_what_was_noted_of_a_namespace_goes_with_it(vault: holdfast.Holdfast, clock: Watch) -> None:
    vault.events.listen()
    be_active(vault.namespace("alice"), 1, rollbacks=1)
    vault.look_after()
    assert vault.watch_rollbacks() == 2
    vault.delete_namespace("alice")
    clock.wait(timedelta(days=30))
    vault.forget()
    with vault._context.catalog.read() as transaction:
        tenant = transaction.find_tenant("default")
        assert tenant is not None
        assert [*transaction.rollback_levels(tenant.id)] == [0]
        for number in range(1, 5):
            assert transaction.storage_days(tenant.id, number, since=0) == []


# Alarms


def alarms(vault: holdfast.Holdfast) -> list[tuple[str, str | None, str]]:
    """Returns what was told of rates, oldest first."""
    found, _ = vault.events.list(types=["rollbacks.*"], limit=200)
    return [
        (each.type.partition(".")[2], each.namespace, msgspec.json.decode(each.data)["level"])
        for each in reversed(found)
    ]


def test_a_rate_is_told_when_it_comes_to_a_level_and_when_it_leaves_it(
    vault: holdfast.Holdfast, clock: Watch
) -> None:
    vault.events.listen()
    alice = vault.namespace("alice")
    be_active(alice, 25, rollbacks=1)
    be_active(vault.namespace("bob"), 100)
    assert vault.watch_rollbacks() == 0  # 4 %: elevated, and no alarm.
    first = alice.sessions.list(limit=1)[0]
    alice.sessions.rollback(first.id, 0)
    assert vault.watch_rollbacks() == 1
    assert alarms(vault) == [("raised", "alice", "warning")]
    for _ in range(3):
        alice.sessions.rollback(first.id, 0)
        vault.watch_rollbacks()
    alice.sessions.rollback(first.id, 0)
    assert vault.watch_rollbacks() == 0
    worse = [("raised", "alice", "warning"), ("raised", "alice", "critical")]
    assert alarms(vault) == worse
    be_active(alice, 60)
    assert vault.watch_rollbacks() == 1
    better = [*worse, ("lowered", "alice", "warning")]
    assert alarms(vault) == better
    clock.wait(timedelta(hours=25))
    assert vault.watch_rollbacks() == 1
    assert vault.watch_rollbacks() == 0
    assert alarms(vault) == [*better, ("lowered", "alice", "healthy")]
    told, _ = vault.events.list(types=["rollbacks.raised"])
    assert msgspec.json.decode(told[-1].data) == {
        "level": "warning",
        "previous_level": None,
        "rate": 2 / 25,
        "rollbacks": 2,
        "sessions": 25,
        "window_seconds": 86_400,
    }


def test_an_alarm_of_all_together_is_of_no_namespace(vault: holdfast.Holdfast) -> None:
    vault.events.listen()
    be_active(vault.namespace("alice"), 10, rollbacks=1)
    vault.tenant("other").namespace("alice").files.write("a", "a")
    assert vault.watch_rollbacks() == 2
    assert {each[1] for each in alarms(vault)} == {None, "alice"}
    others, _ = vault.tenant("other").events.list(types=["rollbacks.*"])
    assert others == []


def test_a_webhook_of_the_namespace_hears_of_its_alarm_alone(vault: holdfast.Holdfast) -> None:
    hook = vault.webhooks.create("https://hooks.example/", ["rollbacks.raised"], namespace="alice")
    for name in ("alice", "bob"):
        be_active(vault.namespace(name), 10, rollbacks=1)
    assert vault.watch_rollbacks() == 3
    outbox = vault.outbox()
    outbox.expand()
    [parcel] = outbox.claim(10)
    body = msgspec.json.decode(parcel.body)
    assert (parcel.webhook.id, body["namespace"]) == (hook.id, "alice")
    assert body["data"]["level"] == "critical"


def test_of_many_servers_that_look_at_once_one_tells(opener: Open, clock: Watch) -> None:
    vaults = [opener() for _ in range(4)]
    vaults[0].events.listen()
    be_active(vaults[0].namespace("alice"), 10, rollbacks=1)
    for _ in range(3):
        with ThreadPoolExecutor(4) as pool:
            looks = [pool.submit(vault.watch_rollbacks) for vault in vaults for _ in range(2)]
            for look in looks:
                look.result(60)
    assert len(alarms(vaults[0])) == 2
    assert vaults[1].watch_rollbacks(every=HOUR) == 0
    clock.wait(2 * DAY)
    assert vaults[1].watch_rollbacks(every=HOUR) == 2


def test_who_saw_what_was_told_meanwhile_does_not_tell_it_again(
    vault: holdfast.Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the lock had been lost in the middle: the row alone decides."""
    vault.events.listen()
    be_active(vault.namespace("alice"), 10, rollbacks=1)
    assert vault.watch_rollbacks() == 2
    monkeypatch.setattr(Transaction, "rollback_levels", lambda *_: {})
    assert vault.watch_rollbacks() == 0
    assert len(alarms(vault)) == 2


def test_a_look_is_at_tenants_in_whom_something_happened_and_at_none_while_it_is_not_due(
    vault: holdfast.Holdfast, clock: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        vault.tenant(f"quiet-{number}").namespace("alice").files.write("a", "a")
    clock.wait(timedelta(hours=25))
    vault.events.listen()
    be_active(vault.namespace("alice"), 10, rollbacks=1)
    asked, count = list[int](), Transaction.rollback_counts

    def counting(self: Any, tenant_id: Any, *args: Any, **more: Any) -> Any:
        asked.append(tenant_id)
        return count(self, tenant_id, *args, **more)

    monkeypatch.setattr(Transaction, "rollback_counts", counting)
    assert vault.watch_rollbacks() == 2
    assert len(asked) == 1
    clock.wait(timedelta(hours=25))
    assert vault.watch_rollbacks() == 2  # What was told is looked at again until it is over.
    assert len(asked) == 2
    assert vault.watch_rollbacks() == 0
    assert len(asked) == 2

    def refuse(*_: Any) -> Any:
        raise AssertionError("all tenants are looked at")

    be_active(vault.namespace("alice"), 1)
    vault.watch_rollbacks()
    monkeypatch.setattr(Transaction, "sort_tenants", refuse)
    assert vault.watch_rollbacks(every=HOUR) == 0


def test_where_nobody_listens_nobody_looks(vault: holdfast.Holdfast) -> None:
    be_active(vault.namespace("alice"), 10, rollbacks=1)
    assert vault.watch_rollbacks() == 0
    vault.events.listen()
    assert vault.watch_rollbacks() == 2
