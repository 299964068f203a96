"""An add-only caller in an engine: what it does, what it is refused, and what stays."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast.engine.core.limits import Limits
from holdfast.engine.tenant import TenantVault
from holdfast.engine.timeline import additions as adding
from holdfast.errors import AddOnly, Busy, InvalidValue, QuotaExceeded
from holdfast.model.basics import EMPTY_ROOT
from holdfast.model.upkeep import Policy
from holdfast.server.app import VERDICTS, _groups
from holdfast.server.config import configure
from holdfast.server.routing import Route, Who
from holdfast.server.verdicts import READS
from holdfast.testing.clocks import Watch

pytestmark = pytest.mark.in_memory

DAY = timedelta(days=1)
MONTH = 30 * DAY


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def vault(
    request: pytest.FixtureRequest, tmp_path: Path, watch: Watch
) -> Iterator[holdfast.Holdfast]:
    place, is_postgres = tmp_path / "vault", request.param == "postgres"
    with holdfast.open(
        request.getfixturevalue("postgres_url") if is_postgres else place,
        objects=place if is_postgres else None,
        clock=watch,
        limits=Limits(free_floor_bytes=0),
    ) as opened:
        opened.events.listen()
        yield opened


@pytest.fixture
def owner(vault: holdfast.Holdfast) -> holdfast.Namespace:
    return vault.namespace("alice")


@pytest.fixture
def adder(vault: holdfast.Holdfast) -> holdfast.Namespace:
    return vault.adding_only().namespace("alice")


def labels(agent: holdfast.Namespace) -> list[str | None]:
    return [snapshot.label for snapshot in agent.timeline()]


def test_a_key_of_that_scope_opens_a_vault_that_only_adds(vault: holdfast.Holdfast) -> None:
    key = vault.keys.create("agent", add_only=True, namespace="alice")
    secret = key.api_key
    assert (key.scope.value, key.namespace) == ("add-only", "alice")
    admitted = vault.admit(secret)
    assert admitted is not None
    opened = admitted[0].namespace("alice")
    opened.files.write("a", "1")
    taken = opened.snapshot("mine")
    assert taken.actor == key.id
    with pytest.raises(AddOnly, match="delete a snapshot"):
        opened.delete_snapshot(taken)
    with pytest.raises(InvalidValue):
        vault.keys.create("boss", admin=True, namespace="alice")


def test_it_writes_takes_restores_undoes_forks_and_merges(
    vault: holdfast.Holdfast, adder: holdfast.Namespace
) -> None:
    adder.files.write("a", "1")
    first = adder.snapshot("first", pin=True)
    adder.files.write("a", "2")
    adder.store.set("n", "k", 1)
    adder.snapshot("second")
    adder.files.delete("a")
    adder.store.clear()
    adder.restore(first)
    assert adder.files.read_text("a") == "1"
    adder.undo()
    assert not adder.files.exists("a")
    adder.undo()
    assert (adder.files.read_text("a"), adder.store.get("n", "k")) == ("2", 1)
    adder.redo()
    adder.pin(adder.snapshot("kept"))
    fork = adder.fork("a fork")
    fork.files.write("b", "3")
    adder.merge(fork)
    assert adder.files.read_text("b") == "3"
    assert vault.verify().ok


Refused = Callable[[TenantVault, holdfast.Namespace, dict[str, Any]], object]
REFUSED: dict[str, Refused] = {
    "delete a snapshot": lambda _, agent, at: agent.delete_snapshot(at["snapshot"]),
    "unpin one": lambda _, agent, at: agent.unpin(at["snapshot"]),
    "relabel one": lambda _, agent, at: agent.set_label(at["snapshot"], None),
    "delete all": lambda _, agent, __: agent.store.clear_history(),
    "set retention": lambda _, agent, __: agent.set_retention(keep_last=1),
    "forget": lambda _, agent, __: agent.forget(policy=Policy(keep_last=1)),
    "set a quota": lambda _, agent, __: agent.set_quota(1),
    "set the tenant's quota": lambda vault, *_: vault.set_quota(1),
    "delete the namespace": lambda vault, *_: vault.delete_namespace("alice"),
    "erase the namespace": lambda vault, *_: vault.erasures.namespace("alice"),
    "erase a session": lambda vault, _, at: vault.erasures.session("alice", at["session"]),
    "erase a user": lambda vault, *_: vault.erasures.user("ann"),
    "apply all retention": lambda vault, *_: vault.forget(),
    "collect": lambda vault, *_: vault.collect(now=True),
    "make a key": lambda vault, *_: vault.keys.create("more", admin=True),
    "revoke a key": lambda vault, _, at: vault.keys.revoke(at["key"]),
    "make a webhook": lambda vault, *_: vault.webhooks.create("https://example.com"),
    "stop a webhook": lambda vault, _, at: vault.webhooks.update(at["webhook"], enabled=False),
    "rotate a webhook": lambda vault, _, at: vault.webhooks.rotate(at["webhook"]),
    "delete a webhook": lambda vault, _, at: vault.webhooks.delete(at["webhook"]),
    "make a schedule": lambda _, agent, __: agent.schedules.create(every=DAY),
    "stop a schedule": lambda _, agent, at: agent.schedules.update(at["schedule"], enabled=False),
    "delete a schedule": lambda _, agent, at: agent.schedules.delete(at["schedule"]),
    "say where a copy goes": lambda _, agent, __: agent.git.configure("git@host.invalid:x"),
    "pause a copy": lambda _, agent, __: agent.git.update(paused=True),
    "forget a copy": lambda _, agent, __: agent.git.delete(),
    "confirm a host": lambda _, agent, __: agent.git.confirm_host("SHA256:x"),
    "change a memory": lambda _, agent, at: agent.memory.update(at["memory"], content="other"),
    "forget a memory": lambda _, agent, at: agent.memory.delete(at["memory"]),
    "change an entity": lambda _, agent, at: agent.entities.update(at["entity"], {}),
    "forget an entity": lambda _, agent, at: agent.entities.delete(at["entity"]),
    "delete a session": lambda _, agent, at: agent.sessions.delete(at["session"]),
    "end a session": lambda _, agent, at: agent.sessions.update(at["session"], ttl_seconds=1),
}


def test_whatever_takes_away_for_good_is_refused_and_changes_nothing(
    vault: holdfast.Holdfast, owner: holdfast.Namespace, adder: holdfast.Namespace
) -> None:
    owner.files.write("a", "1")
    session = owner.sessions.create("agent").id
    at = {
        "session": session,
        "snapshot": owner.snapshot("good", pin=True),
        "key": vault.keys.create("other").id,
        "webhook": vault.webhooks.create("https://example.com/hook").id,
        "schedule": owner.schedules.create(every=DAY).id,
        "memory": owner.memory.add("the door is blue").id,
        "entity": owner.entities.create(session, entity_type="t", entity_id="e").id,
    }

    def seen() -> tuple[object, ...]:
        return (
            vault.traces.list(limit=100),
            owner.timeline(),
            owner.memory.list(),
            owner.entities.list(),
            owner.sessions.list(),
            vault.keys.list(),
            vault.webhooks.list(),
            owner.schedules.list(),
        )

    before = seen()
    for what, attempt in REFUSED.items():
        with pytest.raises(AddOnly) as refused:
            attempt(vault.adding_only(), adder, at)
        assert refused.value.code == "add_only", what
        assert seen() == before, what


def test_a_session_gets_a_longer_term_from_it_and_no_shorter_one(
    owner: holdfast.Namespace, adder: holdfast.Namespace
) -> None:
    brief, endless = owner.sessions.create("a", ttl_seconds=100), owner.sessions.create("a")
    adder.sessions.update(brief.id, metadata={"seen": True}, ttl_seconds=200)
    for session, seconds in ((brief, 199), (endless, 10_000)):
        with pytest.raises(AddOnly):
            adder.sessions.update(session.id, ttl_seconds=seconds)
    adder.sessions.update(endless.id, metadata={"seen": True})
    assert owner.sessions.get(endless.id).expires_at is None


def test_a_session_gets_more_metadata_from_it_and_none_is_changed(
    owner: holdfast.Namespace, adder: holdfast.Namespace
) -> None:
    session = owner.sessions.create("a", metadata={"of": "alice", "on": True, "at": {"b": None}})
    adder.sessions.update(session.id, metadata={"of": "alice", "more": 1})
    for other in ({"of": "bob"}, {"on": 1}, {"at": {}}, {"of": None}, {"new": 1, "more": 2}):
        with pytest.raises(AddOnly, match="change the metadata"):
            adder.sessions.update(session.id, metadata=other)
    kept = {"of": "alice", "on": True, "at": {"b": None}, "more": 1}
    assert owner.sessions.get(session.id).metadata == kept
    owner.sessions.update(session.id, metadata={"of": "bob"})


def test_flooding_pushes_nothing_out_where_a_policy_counts(
    vault: holdfast.Holdfast, owner: holdfast.Namespace, adder: holdfast.Namespace, watch: Watch
) -> None:
    owner.set_retention(keep_last=3, keep_daily=2)
    for number in range(3):
        owner.files.write("a", f"good {number}")
        owner.snapshot(f"good {number}")
    for number in range(30):
        adder.files.write("a", f"bad {number}")
        adder.snapshot(f"bad {number}", expires_in=timedelta(seconds=1))
        watch.wait(timedelta(minutes=1))
        vault.collect(now=True)
    watch.wait(MONTH - DAY)
    adder.snapshot("the last")
    vault.collect(now=True)
    watch.wait(2 * MONTH)
    vault.collect(now=True)
    assert labels(owner)[-3:] == ["good 2", "good 1", "good 0"]
    for number in range(3):
        found = next(each for each in owner.timeline() if each.label == f"good {number}")
        owner.restore(found)
        assert owner.files.read_text("a") == f"good {number}"


def test_what_a_schedule_takes_since_it_wrote_pushes_nothing_out(
    vault: holdfast.Holdfast, owner: holdfast.Namespace, adder: holdfast.Namespace, watch: Watch
) -> None:
    owner.set_retention(keep_last=3)
    for number in range(3):
        owner.files.write("a", f"good {number}")
        owner.snapshot(f"good {number}")
    owner.schedules.create(after_changes=1, label="auto")
    for number in range(10):
        adder.files.write("a", f"bad {number}")
        watch.wait(timedelta(minutes=1))
        vault.run_schedules()
        vault.collect(now=True)
    assert labels(owner) == ["auto"] * 10 + ["good 2", "good 1", "good 0"]


def test_what_is_kept_before_a_task_or_a_restore_since_it_wrote_pushes_nothing_out(
    vault: holdfast.Holdfast, owner: holdfast.Namespace, adder: holdfast.Namespace
) -> None:
    owner.set_retention(keep_last=5)
    good = [_good(owner, number) for number in range(3)]
    for number in range(4):
        adder.files.write("a", f"before a task {number}")
        owner.tasks.start(f"task {number}")
    for number in range(2):
        adder.files.write("a", f"before a restore {number}")
        # What an owner asks for counts among the owner's: with those of before, five.
        owner.restore(good[0])
    vault.collect(now=True)
    assert [each for each in labels(owner) if each] == [
        *(f"before task {number}" for number in (3, 2, 1, 0)),
        *("good 2", "good 1", "good 0"),
    ]
    kept = [each for each in owner.timeline() if each.kind.value == "safety"]
    assert [adding.ADDED in each.detail for each in kept] == [True, True]


def test_what_a_schedule_takes_as_its_sessions_lapse_pushes_nothing_out(
    vault: holdfast.Holdfast, owner: holdfast.Namespace, adder: holdfast.Namespace, watch: Watch
) -> None:
    owner.set_retention(keep_last=3)
    for number in range(3):
        _good(owner, number)
    for number in range(5):
        adder.sessions.create("a", ttl_seconds=60 * (number + 1))
    owner.schedules.create(after_changes=1, label="auto")
    for _ in range(5):
        watch.wait(timedelta(minutes=1))
        assert vault.end_lapsed_sessions() == 1
        vault.run_schedules()
        vault.collect(now=True)
    assert labels(owner) == ["auto"] * 5 + ["good 2", "good 1", "good 0"]
    assert all(adding.ADDED in each.detail for each in owner.timeline()[:5])


def test_what_holds_work_of_others_too_is_counted_among_such(
    vault: holdfast.Holdfast, owner: holdfast.Namespace, adder: holdfast.Namespace, watch: Watch
) -> None:
    owner.set_retention(keep_last=2)
    for number in range(2):
        _good(owner, number)
    owner.schedules.create(after_changes=1, label="auto")

    def runs(who: str) -> bool:
        watch.wait(timedelta(minutes=1))
        assert vault.run_schedules() == 1, who
        return adding.is_shared(owner.timeline()[0])

    for number in range(2):
        owner.files.write("good", f"{number}")
        adder.files.write("a", "beside it")
        assert runs("both"), "the owner's work is in no other snapshot"
    shared = [each.id for each in owner.timeline()[:2]]
    for number in range(5):
        adder.files.write("a", f"bad {number}")
        assert not runs("the adder alone")
    watch.wait(2 * MONTH)
    vault.collect(now=True)
    left = owner.timeline()
    assert [each.id for each in left if adding.is_shared(each)] == shared
    assert [each.label for each in left] == ["auto"] * 4 + ["good 1", "good 0"]
    owner.files.write("good", "alone")
    watch.wait(timedelta(minutes=1))
    assert vault.run_schedules() == 1
    assert not adding.is_added(owner.timeline()[0]), "nobody else had written"


def _good(owner: holdfast.Namespace, number: int) -> holdfast.SnapshotInfo:
    owner.files.write("a", f"good {number}")
    return owner.snapshot(f"good {number}")


def test_what_it_made_stays_for_a_full_term_and_then_the_policy_counts(
    vault: holdfast.Holdfast, owner: holdfast.Namespace, adder: holdfast.Namespace, watch: Watch
) -> None:
    owner.set_retention(keep_last=2)
    for number in range(6):
        adder.files.write("a", f"{number}")
        adder.snapshot(f"mine {number}")
        watch.wait(timedelta(hours=1))
    vault.collect()
    assert len(labels(owner)) == 6, "not even its own earlier ones does it push out"
    watch.wait(MONTH)
    vault.collect()
    assert labels(owner) == ["mine 5", "mine 4"]


def test_what_only_the_head_kept_gets_a_full_term_when_it_moves_the_head(
    vault: holdfast.Holdfast, owner: holdfast.Namespace, adder: holdfast.Namespace, watch: Watch
) -> None:
    owner.files.write("a", "all that there is")
    only = owner.snapshot("only")
    watch.wait(400 * DAY)
    adder.files.delete("a")
    for _ in range(3):
        adder.files.write("b", watch.now.isoformat())
        adder.snapshot(expires_in=timedelta(seconds=1))
        watch.wait(DAY)
        vault.collect(now=True)
    watch.wait(20 * DAY)
    vault.collect(now=True)
    owner.restore(only)
    assert owner.files.read_text("a") == "all that there is"


def test_what_one_undo_led_to_stays_where_it_restores_what_is_there(
    vault: holdfast.Holdfast, owner: holdfast.Namespace, adder: holdfast.Namespace
) -> None:
    owner.files.write("a", "one")
    owner.snapshot("back")
    owner.files.write("a", "two")
    last = owner.snapshot("last", pin=True)
    owner.set_retention(keep_last=1)
    adder.files.write("a", "three")
    adder.restore(last)  # Now one undo leads to what it had written.
    vault.collect(now=True)
    assert "back" in labels(owner)


def test_what_lies_behind_many_equal_snapshots_is_looked_for_while_nobody_waits(
    owner: holdfast.Namespace, adder: holdfast.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.files.write("a", "one")
    back = owner.snapshot("back")
    owner.files.write("a", "two")
    for _ in range(10):
        adder.snapshot(expires_in=timedelta(seconds=1))
    monkeypatch.setattr(adding._Near, "_left", 5)
    # Those that are equal lead to where the one before them does.
    assert adding.ADDED in adder.snapshot().detail
    adder.files.write("a", "three")
    assert back.id in adder.snapshot().detail[adding.ADDED]


def test_what_is_far_to_find_while_others_wait_is_not_looked_for(
    owner: holdfast.Namespace, adder: holdfast.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner.files.write("a", "one")
    owner.snapshot("back")
    owner.files.write("a", "two")
    before = [owner.snapshot() for _ in range(10)]
    monkeypatch.setattr(adding._Near, "_left", 5)
    handle = adder._handle
    with handle.context.catalog.write() as transaction:
        head = handle.lock(transaction)
        stale = adding.Look(before[0].id, head.root, before[0].id)
        for look in (None, stale):
            with pytest.raises(Busy):
                adding.let_go(transaction, handle, head, roots=[EMPTY_ROOT], still=(), look=look)


def test_the_way_forward_that_it_closes_stays_on_the_timeline(
    vault: holdfast.Holdfast, owner: holdfast.Namespace, adder: holdfast.Namespace, watch: Watch
) -> None:
    owner.set_retention(keep_last=1)
    taken: list[holdfast.SnapshotInfo] = []
    for number in range(4):
        owner.files.write("a", f"{number}")
        taken.append(owner.snapshot(f"{number}"))
    for _ in range(3):
        owner.undo()
    vault.collect(now=True)
    adder.files.write("a", "elsewhere")
    for _ in range(3):
        adder.snapshot(expires_in=timedelta(seconds=1))
        adder.files.write("b", watch.now.isoformat())
        watch.wait(DAY)
        vault.collect(now=True)
    for number, snapshot in enumerate(taken):
        assert owner.at(snapshot).files.read_text("a") == f"{number}"


def test_a_full_quota_refuses_it_and_loses_nothing(
    vault: holdfast.Holdfast, owner: holdfast.Namespace, adder: holdfast.Namespace
) -> None:
    owner.files.write("a", "good")
    good = owner.snapshot("good")
    vault.set_quota(50_000)

    def flood() -> None:
        for number in range(1000):
            adder.files.write("noise", Random(number).randbytes(9000))
            adder.snapshot(f"{number}")

    with pytest.raises(QuotaExceeded):
        flood()
    vault.collect(now=True)
    owner.restore(good)
    assert owner.files.read_text("a") == "good"


# The table of routes.


def changing_routes() -> dict[str, Route]:
    groups = [group.routes for group in _groups(configure({}))]
    return {
        f"{route.method} {re.sub(r':[a-z]+}', '}', path)}": route
        for group in groups
        for route in group
        for path in route.paths
        if route.method not in READS
    }


def test_every_route_that_changes_something_has_a_verdict() -> None:
    ours = {
        name
        for name, route in changing_routes().items()
        if route.who not in (Who.OPERATOR, Who.ANYBODY)
    }
    assert ours == {*VERDICTS}, "decide what an add-only key may do with it"
