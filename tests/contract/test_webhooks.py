"""Webhooks and their outbox on both catalogs: each event arrives, once claimed by one worker."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.namespace import Namespace
from holdfast.engine.tenancy import outbox as outboxes
from holdfast.engine.tenancy.outbox import LEASE, RETRIES_S, Outbox
from holdfast.engine.tenancy.webhooks import MAX_URL_CHARS, Outcome, Parcel, Webhooks
from holdfast.engine.vault import Holdfast
from holdfast.errors import InvalidName, InvalidValue, WebhookNotFound
from holdfast.model.webhooks import Delivery, DeliveryState, NewWebhook, Webhook
from holdfast.testing.clocks import Watch

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
URL = "https://hooks.example.com/in"
OK = Outcome(ok=True, status=200)
DOWN = Outcome(ok=False, error="nobody is there")
GONE = Outcome(ok=False, status=410, error="it answered 410")


@dataclass
class Place:
    """A vault that tells what is done, with its outbox."""

    where: str
    folder: Path
    context: Context
    vault: Holdfast
    clock: Watch

    @property
    def hooks(self) -> Webhooks:
        return self.vault.webhooks

    def outbox(self) -> Outbox:
        return Outbox(self.context, jitter=lambda: 0.5)

    def claim(self, most: int = 1000) -> list[Parcel]:
        outbox = self.outbox()
        outbox.expand()
        return outbox.claim(most)

    def log(self, webhook: Webhook) -> list[Delivery]:
        return [*self.hooks.deliveries(webhook.id, limit=1000)]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    where = "" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    clock = Watch(NOON)
    opened = PostgresCatalog(where) if where else SqliteCatalog(tmp_path)
    with closing(opened) as catalog:
        context = Context.of(
            catalog,
            DiskBlobStore(tmp_path / "packs"),
            clock=clock,
            limits=Limits(free_floor_bytes=0),
        )
        yield Place(where, tmp_path, context, Holdfast(context), clock)


@pytest.fixture
def agent(place: Place) -> Namespace:
    return place.vault.namespace("alice")


def types(parcels: list[Parcel]) -> list[str]:
    return [msgspec.json.decode(parcel.body)["type"] for parcel in parcels]


def stored(made: NewWebhook) -> Webhook:
    return Webhook(**msgspec.structs.asdict(made))


# Webhooks


def test_a_webhook_is_made_shown_changed_and_removed(place: Place) -> None:
    made = place.hooks.create(URL, namespace="alice", description="to the log")
    assert made.events == ["*"]
    assert made.secret.startswith("holdfast-whsec-")
    assert place.hooks.get(made.id) == place.hooks.list()[0]
    assert place.hooks.get(made.id).secret == made.secret
    changed = place.hooks.update(made.id, events=["file.written"], url="http://b.example/")
    assert changed == place.hooks.get(made.id)
    assert (changed.events, changed.description) == (["file.written"], "to the log")
    assert place.hooks.rotate(made.id).secret != made.secret
    off = place.hooks.update(made.id, enabled=False)
    assert (off.enabled, off.disabled_reason) == (False, "it was disabled")
    on = place.hooks.update(made.id, enabled=True)
    assert (on.enabled, on.disabled_reason) == (True, None)
    place.hooks.delete(made.id)
    assert place.hooks.list() == []
    with pytest.raises(WebhookNotFound):
        place.hooks.get(made.id)


def test_what_is_done_to_a_webhook_is_told_without_its_secret(place: Place) -> None:
    made = place.hooks.create(URL + "?token=not-a-hash")
    place.hooks.rotate(made.id)
    place.hooks.delete(made.id)
    events, _ = place.vault.events.list()
    assert [event.type for event in events] == [
        "webhook.deleted",
        "webhook.updated",
        "webhook.created",
    ]
    for event in events:
        assert msgspec.json.decode(event.data)["webhook_id"] == made.id
        assert msgspec.json.decode(event.data)["host"] == "hooks.example.com"
        assert made.secret not in event.data
        assert "not-a-hash" not in event.data


NO_ADDRESSES = [
    "",
    "hooks.example.com",
    "ftp://example.com/",
    "file:///etc/passwd",
    "http://",
    "http:///path",
    "http://user:pass@example.com/",
    "http://user@example.com/",
    "http://example.com:99999/",
    "http://example.com:0/",
    "http://exa mple.com/",
    "http://example.com/\r\nX: y",
    "http://[::1/",
    "http://bücher.example/",
    "http://example.com/" + "x" * MAX_URL_CHARS,
]


def test_what_is_no_address_is_refused(place: Place) -> None:
    made = place.hooks.create(URL)
    for url in NO_ADDRESSES:
        with pytest.raises(InvalidValue):
            place.hooks.create(url)
        with pytest.raises(InvalidValue):
            place.hooks.update(made.id, url=url)
    assert place.hooks.list() == [stored(made)]


NO_TYPES = {
    "none": [],
    "empty": [""],
    "long": ["x" * 200],
    "two lines": ["file.written\n"],
    "too many": ["file.written"] * 101,
    "unknown": ["file.written", "file.wrote"],
    "an unknown group": ["files.*"],
    "half a pattern": ["file.w*"],
    "one text": "file.written",
}


@pytest.mark.parametrize("events", NO_TYPES)
def test_what_are_no_types_is_refused(place: Place, events: str) -> None:
    with pytest.raises(InvalidValue):
        place.hooks.create(URL, events=NO_TYPES[events])
    made = place.hooks.create(URL, events=["file.*"])
    with pytest.raises(InvalidValue):
        place.hooks.update(made.id, events=NO_TYPES[events])
    assert place.hooks.list() == [stored(made)]


def test_who_asks_for_a_type_that_is_none_is_told_which_there_are(place: Place) -> None:
    with pytest.raises(InvalidValue) as refused:
        place.hooks.create(URL, events=["file.wrote"])
    for known in ("'file.wrote'", "file.written", "snapshot.restored", "webhook.test", "file.*"):
        assert known in str(refused.value)


def test_every_type_that_clients_know_can_be_asked_for(place: Place) -> None:
    kinds = ["*", "file.written", "exec.completed", "workspace.created", "webhook.test", "exec.*"]
    assert place.hooks.create(URL, events=kinds).events == kinds


def test_what_is_no_namespace_is_refused(place: Place) -> None:
    with pytest.raises(InvalidName):
        place.hooks.create(URL, namespace="a\nb")


def test_another_tenants_webhook_is_not_there(place: Place) -> None:
    made = place.hooks.create(URL)
    other = place.vault.tenant("other").webhooks
    assert other.list() == []
    for act in (
        lambda: other.get(made.id),
        lambda: other.update(made.id, url=URL),
        lambda: other.rotate(made.id),
        lambda: other.delete(made.id),
        lambda: other.deliveries(made.id, limit=1),
        lambda: other.redeliver(made.id, "dlv-1"),
    ):
        with pytest.raises(WebhookNotFound):
            act()
    assert place.hooks.get(made.id) == stored(made)


def test_two_changes_at_once_are_both_kept(place: Place) -> None:
    made = place.hooks.create(URL)
    start = threading.Barrier(2)

    def rotate() -> str:
        start.wait(10)
        return place.hooks.rotate(made.id).secret

    def describe() -> None:
        start.wait(10)
        place.hooks.update(made.id, description="new")

    for _ in range(10):
        with ThreadPoolExecutor(2) as pool:
            rotated, described = pool.submit(rotate), pool.submit(describe)
            described.result(30)
            secret = rotated.result(30)
            assert place.hooks.get(made.id).secret == secret


# Which events


def test_a_webhook_is_told_of_what_happens_after_it_was_made(
    place: Place, agent: Namespace
) -> None:
    agent.files.write("before", "x")
    made = place.hooks.create(URL)
    agent.files.write("after", "x")
    parcels = place.claim()
    assert types(parcels) == ["file.written"]
    body = msgspec.json.decode(parcels[0].body)
    assert body["data"]["path"] == "workspace/after"
    assert body["workspace_id"] == place.vault.tenant_id
    assert body["id"] == parcels[0].delivery.event_id
    assert parcels[0].webhook == place.hooks.get(made.id)


def test_a_webhook_gets_what_it_asked_for_and_no_more(place: Place, agent: Namespace) -> None:
    wanted = {
        "all": ["*"],
        "files": ["file.*"],
        "written": ["file.written"],
        "rolled back": ["trace.rollback"],
        "taken": ["snapshot.taken"],
        "own": ["trace.created"],
        "nothing": ["exec.completed"],
    }
    hooks = {name: place.hooks.create(URL, events=events) for name, events in wanted.items()}
    hooks["of bob"] = place.hooks.create(URL, namespace="bob")
    place.outbox().expand()  # They heard of each other; that is not what this is about.
    before = {name: len(place.log(hook)) for name, hook in hooks.items()}
    session = agent.sessions.create("bot")
    agent.sessions.rollback(session.id, 0)
    agent.files.write("a", "a")
    agent.files.delete("a")
    agent.snapshot()
    agent.traces.add("deploy")
    place.vault.keys.create("ci")
    place.vault.namespace("bob").files.write("b", "b")
    place.outbox().expand()
    got = {
        name: [each.event_type for each in place.log(hook)][::-1][before[name] :]
        for name, hook in hooks.items()
    }
    assert got == {
        "all": [
            "session.created",
            "state.rolled_back",
            "file.written",
            "file.deleted",
            "snapshot.created",
            "trace.created",
            "key.created",
            "file.written",
        ],
        "files": ["file.written", "file.deleted", "file.written"],
        "written": ["file.written", "file.written"],
        "rolled back": ["state.rolled_back"],
        "taken": ["snapshot.created"],
        "own": ["trace.created"],
        "nothing": [],
        "of bob": ["file.written"],
    }


def test_every_way_back_is_heard_by_who_asks_for_restores(place: Place, agent: Namespace) -> None:
    asks = {
        "restores": ["snapshot.restored"],
        "by another name": ["snapshot.restore"],
        "undos": ["snapshot.undone"],
        "restores and undos": ["snapshot.restored", "snapshot.undone"],
        "all": ["*"],
        "snapshots": ["snapshot.*"],
        "new ones": ["snapshot.created"],
    }
    agent.files.write("a", "1")
    first = agent.snapshot("first")
    agent.files.write("a", "2")
    hooks = {place.hooks.create(URL, events=kinds).id: who for who, kinds in asks.items()}
    agent.restore(first)
    agent.undo()
    agent.redo()
    heard: dict[str, list[str]] = {who: [] for who in asks}
    for parcel in place.claim():
        body = msgspec.json.decode(parcel.body)
        if body["type"].startswith("snapshot."):
            assert parcel.delivery.event_type == body["type"]
            assert body["data"]["snapshot_id"].startswith("snap-")
            kind = f"{body['type'].partition('.')[2]} {body['data']['kind']}"
            heard[hooks[parcel.webhook.id]].append(kind)
    restores = ["restored restore", "restored undo", "restored redo"]
    as_they_are = ["restored restore", "undone undo", "redone redo"]
    assert heard == {
        "restores": restores,
        "by another name": restores,
        "undos": ["undone undo"],
        "restores and undos": ["restored restore", "undone undo", "restored redo"],
        "all": as_they_are,
        "snapshots": as_they_are,
        "new ones": [],
    }


def test_each_event_becomes_one_delivery_however_many_look(place: Place, agent: Namespace) -> None:
    hooks = [place.hooks.create(URL, events=["file.*"]) for _ in range(3)]
    agent.files.write_many((f"{number}.txt", "x") for number in range(120))
    start = threading.Barrier(4)

    def look() -> None:
        start.wait(10)
        while place.outbox().expand():
            pass

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(look) for _ in range(4)]:
            future.result(60)
    for hook in hooks:
        seen = [each.event_number for each in place.log(hook)]
        assert len(seen) == len(set(seen)) == 120


def test_a_long_backlog_is_worked_off_page_by_page(
    place: Place, agent: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outboxes, "_PAGE", 10)
    monkeypatch.setattr(outboxes, "_HOOKS", 2)
    hooks = [place.hooks.create(URL, events=["file.*"]) for _ in range(5)]
    agent.files.write_many((f"{number}.txt", "x") for number in range(35))
    outbox = place.outbox()
    while outbox.expand():
        pass
    assert [len(place.log(hook)) for hook in hooks] == [35] * 5


def test_events_that_are_gone_are_passed_over(place: Place, agent: Namespace) -> None:
    hook = place.hooks.create(URL)
    agent.files.write("old", "x")
    place.clock.wait(timedelta(days=40))
    place.vault.forget()
    assert place.outbox().expand()
    assert not place.outbox().expand()
    assert place.log(hook) == []
    agent.files.write("new", "x")
    assert types(place.claim()) == ["file.written"]


# Claims


def test_what_is_claimed_is_nobody_elses_until_the_lease_ends(
    place: Place, agent: Namespace
) -> None:
    place.hooks.create(URL)
    agent.files.write("a", "a")
    first = place.claim()
    assert len(first) == 1
    assert place.claim() == []
    place.clock.wait(LEASE - timedelta(seconds=1))
    assert place.claim() == []
    place.clock.wait(timedelta(seconds=1))
    again = place.claim()
    assert [parcel.delivery.event_id for parcel in again] == [first[0].delivery.event_id]
    # The one that came too late has nothing more to say.
    place.outbox().record(first[0], DOWN)
    place.outbox().record(again[0], OK)
    place.outbox().record(first[0], DOWN)
    place.clock.wait(timedelta(days=2))
    assert place.claim() == []
    delivery = place.log(again[0].webhook)[0]
    assert (delivery.state, delivery.attempts) == (DeliveryState.DELIVERED, 1)


def test_many_workers_never_claim_the_same(place: Place, agent: Namespace) -> None:
    for _ in range(3):
        place.hooks.create(URL, events=["file.*"])
    agent.files.write_many((f"{number}.txt", "x") for number in range(40))
    place.outbox().expand()
    start = threading.Barrier(4)

    def work() -> list[str]:
        outbox, mine = place.outbox(), list[str]()
        start.wait(10)
        while len(mine) < 500 and (parcels := outbox.claim(5, of_one=2)):
            mine += [parcel.delivery.id for parcel in parcels]
        return mine

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work) for _ in range(4)]
        claimed = [each for future in futures for each in future.result(60)]
    # A worker may find nothing free while another is claiming: what is left is there still.
    claimed += [parcel.delivery.id for parcel in place.claim()]
    assert len(claimed) == len(set(claimed)) == 120


def test_webhooks_take_turns_and_none_takes_all(place: Place, agent: Namespace) -> None:
    hooks = [place.hooks.create(URL, events=["file.*"]) for _ in range(3)]
    agent.files.write_many((f"{number}.txt", "x") for number in range(10))
    outbox = place.outbox()
    outbox.expand()
    first = outbox.claim(4, of_one=2)
    second = outbox.claim(2, of_one=2)
    served = [parcel.webhook.id for parcel in (*first, *second)]
    assert {served.count(hook.id) for hook in hooks} == {2}
    busy = {hook.id: 2 for hook in hooks[:2]}
    third = outbox.claim(10, of_one=2, busy=busy)
    assert {parcel.webhook.id for parcel in third} == {hooks[2].id}
    assert outbox.claim(10, of_one=2, busy={hook.id: 2 for hook in hooks}) == []


def test_of_one_webhook_the_oldest_comes_first(place: Place, agent: Namespace) -> None:
    place.hooks.create(URL)
    agent.files.write_many((f"{number}.txt", "x") for number in range(9))
    outbox = place.outbox()
    outbox.expand()
    numbers = [
        parcel.delivery.event_number for _ in range(3) for parcel in outbox.claim(3, of_one=3)
    ]
    assert numbers == sorted(numbers)
    assert len(numbers) == 9


def test_what_a_worker_had_claimed_when_it_died_is_claimed_by_the_next(
    place: Place, agent: Namespace
) -> None:
    place.hooks.create(URL)
    agent.files.write("a", "a")
    location = place.where or str(place.folder)
    dies = (
        "import os, sys\n"
        "from datetime import datetime\n"
        "from holdfast.wiring import open_vault\n"
        "now = datetime.fromisoformat(sys.argv[3])\n"
        "vault = open_vault(sys.argv[1], objects=sys.argv[2], clock=lambda: now)\n"
        "outbox = vault.outbox()\n"
        "outbox.expand()\n"
        "print(outbox.claim(10)[0].delivery.event_id, flush=True)\n"
        "os._exit(9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", dies, location, str(place.folder / "packs"), NOON.isoformat()],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 9, done.stderr
    assert place.claim() == []
    place.clock.wait(LEASE)
    assert [parcel.delivery.event_id for parcel in place.claim()] == [done.stdout.strip()]


# How it went


def test_a_delivery_that_arrived_is_over(place: Place, agent: Namespace) -> None:
    hook = place.hooks.create(URL)
    agent.files.write("a", "a")
    parcel = place.claim()[0]
    place.outbox().record(parcel, OK)
    delivery = place.log(hook)[0]
    assert delivery.state is DeliveryState.DELIVERED
    assert (delivery.attempts, delivery.status, delivery.error) == (1, 200, None)
    shown = place.hooks.get(hook.id)
    assert (shown.last_delivery_ok, shown.last_delivery_status) == (True, 200)
    assert shown.last_delivery_at == NOON
    place.clock.wait(timedelta(days=2))
    assert place.claim() == []


def test_a_delivery_is_tried_again_over_a_day_and_then_the_webhook_is_disabled(
    place: Place, agent: Namespace
) -> None:
    hook = place.hooks.create(URL)
    agent.files.write("a", "a")
    waits, ids = list[float](), set[str]()
    delivery: Delivery | None = None
    for _ in range(len(RETRIES_S) + 1):
        parcel = place.claim()[0]
        ids.add(parcel.delivery.event_id)
        place.outbox().record(parcel, DOWN)
        delivery = place.log(hook)[0]
        if delivery.state is DeliveryState.PENDING:
            assert place.claim() == []
            waits.append((delivery.next_at - place.clock.now).total_seconds())
            place.clock.now = delivery.next_at
    assert waits == list(RETRIES_S)
    assert 0.8 < sum(waits) / 86_400 < 1.2
    assert len(ids) == 1
    assert delivery is not None
    assert (delivery.state, delivery.attempts) == (DeliveryState.FAILED, len(RETRIES_S) + 1)
    shown = place.hooks.get(hook.id)
    assert not shown.enabled
    assert shown.disabled_reason == "11 attempts failed; the last: nobody is there"
    told, _ = place.vault.events.list(types=["webhook.disabled"])
    assert len(told) == 1
    assert told[0].namespace is None
    agent.files.write("b", "b")
    assert place.claim() == []
    place.hooks.update(hook.id, enabled=True)  # Told what it missed, its own misfortune included.
    assert set(types(place.claim())) == {"webhook.disabled", "file.written", "webhook.updated"}


def test_chance_spreads_the_next_attempt(place: Place, agent: Namespace) -> None:
    hook = place.hooks.create(URL)
    for chance, factor in ((0.0, 0.75), (1.0, 1.25)):
        agent.files.write("a", "a")
        outbox = Outbox(place.context, jitter=lambda chance=chance: chance)
        outbox.expand()
        parcel = outbox.claim(1)[0]
        outbox.record(parcel, DOWN)
        wait = place.log(hook)[0].next_at - place.clock.now
        assert wait.total_seconds() == RETRIES_S[0] * factor


def test_an_address_that_took_others_is_not_disabled_for_one(
    place: Place, agent: Namespace
) -> None:
    hook = place.hooks.create(URL)
    agent.files.write("poison", "a")
    bad = place.claim()[0]
    for _ in RETRIES_S:
        place.outbox().record(bad, DOWN)
        place.clock.wait(timedelta(hours=9))
        agent.files.write("fine", "a")
        parcels = place.claim()
        for parcel in parcels:
            if parcel.delivery.id == bad.delivery.id:
                bad = parcel
            else:
                place.outbox().record(parcel, OK)
    place.outbox().record(bad, DOWN)
    failed = [each for each in place.log(hook) if each.state is DeliveryState.FAILED]
    assert [each.id for each in failed] == [bad.delivery.id]
    assert place.hooks.get(hook.id).enabled


def test_an_address_that_is_gone_is_believed_at_once(place: Place, agent: Namespace) -> None:
    hook = place.hooks.create(URL)
    agent.files.write("a", "a")
    place.outbox().record(place.claim()[0], GONE)
    shown = place.hooks.get(hook.id)
    assert (shown.enabled, shown.last_delivery_status) == (False, 410)
    assert "410" in (shown.disabled_reason or "")


def test_an_event_that_is_no_longer_kept_is_not_sent(place: Place, agent: Namespace) -> None:
    hook = place.hooks.create(URL)
    agent.files.write("a", "a")
    place.outbox().expand()
    place.clock.wait(timedelta(days=31))
    place.vault.forget()
    assert place.claim() == []
    assert place.log(hook)[0].error == "the event is no longer kept"
    assert place.hooks.delivery(hook.id, place.log(hook)[0].id).body is None
    assert place.hooks.get(hook.id).enabled


def test_a_webhook_that_is_deleted_takes_what_is_on_its_way_with_it(
    place: Place, agent: Namespace
) -> None:
    hook = place.hooks.create(URL)
    agent.files.write_many([("a", "a"), ("b", "b")])
    outbox = place.outbox()
    outbox.expand()
    parcel = outbox.claim(1)[0]
    place.hooks.delete(hook.id)
    for outcome in (OK, DOWN, GONE):
        outbox.record(parcel, outcome)
    assert place.claim() == []


def test_what_is_deleted_while_it_is_looked_at_is_gone_all_the_same(
    place: Place, agent: Namespace
) -> None:
    for round_ in range(5):
        hook = place.hooks.create(URL)
        agent.files.write_many((f"{round_}-{number}", "x") for number in range(20))
        start = threading.Barrier(2)

        def look(start: threading.Barrier = start) -> None:
            start.wait(10)
            place.outbox().expand()

        def delete(start: threading.Barrier = start, webhook_id: str = hook.id) -> None:
            start.wait(10)
            place.hooks.delete(webhook_id)

        with ThreadPoolExecutor(2) as pool:
            for future in (pool.submit(look), pool.submit(delete)):
                future.result(30)
    assert place.hooks.list() == []
    assert place.claim() == []


def test_an_event_is_sent_once_more_on_request(place: Place, agent: Namespace) -> None:
    hook, other = place.hooks.create(URL), place.hooks.create(URL, events=["exec.completed"])
    agent.files.write("a", "a")
    sent = next(parcel for parcel in place.claim() if parcel.delivery.event_type == "file.written")
    on_its_way = place.hooks.redeliver(hook.id, sent.delivery.id)
    assert on_its_way.claimed_until == sent.delivery.claimed_until
    place.outbox().record(sent, OK)
    again = place.hooks.redeliver(hook.id, sent.delivery.id)
    assert (again.state, again.attempts) == (DeliveryState.PENDING, 0)
    parcels = place.claim()
    assert [parcel.delivery.event_id for parcel in parcels] == [sent.delivery.event_id]
    assert parcels[0].body == sent.body
    for hook_id, delivery_id in ((other.id, sent.delivery.id), (hook.id, "dlv-x")):
        with pytest.raises(WebhookNotFound):
            place.hooks.redeliver(hook_id, delivery_id)


def test_what_was_sent_is_shown_to_the_letter_and_without_the_secret(
    place: Place, agent: Namespace
) -> None:
    hook, other = place.hooks.create(URL, events=["snapshot.restored"]), place.hooks.create(URL)
    for content in "ab":
        agent.files.write("a", content)
        agent.snapshot()
    agent.undo()  # Which is told as a restore to who asks for those.
    [sent] = [parcel for parcel in place.claim() if parcel.webhook.id == hook.id]
    before = place.hooks.delivery(hook.id, sent.delivery.id)
    assert before.body == sent.body.decode()
    assert msgspec.json.decode(before.body)["type"] == "snapshot.restored"
    assert hook.secret not in before.body
    place.outbox().record(sent, OK)
    after = place.hooks.delivery(hook.id, sent.delivery.id)
    assert (after.body, after.state) == (before.body, DeliveryState.DELIVERED)
    for hook_id, delivery_id in ((other.id, sent.delivery.id), (hook.id, "dlv-x")):
        with pytest.raises(WebhookNotFound):
            place.hooks.delivery(hook_id, delivery_id)


def test_the_log_is_paged_and_ages_out(place: Place, agent: Namespace) -> None:
    hook = place.hooks.create(URL)
    agent.files.write_many((f"{number}.txt", "x") for number in range(7))
    for parcel in place.claim()[:5]:
        place.outbox().record(parcel, OK)
    first = place.hooks.deliveries(hook.id, limit=4)
    rest = place.hooks.deliveries(hook.id, limit=4, below=first[-1].event_number)
    numbers = [each.event_number for each in (*first, *rest)]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == 7
    place.clock.wait(timedelta(days=7, seconds=1))
    assert place.outbox().purge() == 5
    assert {each.state for each in place.log(hook)} == {DeliveryState.PENDING}


def test_a_test_is_told_to_its_webhook_alone_and_kept_nowhere(place: Place) -> None:
    hook = place.hooks.create(URL, namespace="alice")
    parcel = place.hooks.make_test(hook)
    body = msgspec.json.decode(parcel.body)
    assert (body["type"], body["namespace"]) == ("webhook.test", "alice")
    assert body["data"]["message"]
    place.hooks.note(hook.id, DOWN)
    assert place.hooks.get(hook.id).last_delivery_ok is False
    assert place.claim() == []
    assert place.vault.events.find(body["id"]) is None
