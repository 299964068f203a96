"""What only a client of a server has: operators' work, and lists that are gone through in parts.

Every test runs with the plain and with the asynchronous clients, against a real server.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from inspect import isawaitable
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

import holdfast
from holdfast import errors
from holdfast.testing.servers import Begin, Server, running_server

PATIENCE_S = 20.0
_NUMBERS = count(1)


@dataclass
class Side:
    """An operator and an agent, and how their answers are waited for."""

    ask: Callable[[Any], Any]
    admin: Any
    agent: Any
    name: str
    new_agent: Callable[[str], Any]

    def listed(self, iterated: Any) -> list[Any]:
        """Returns all that an iterator yields."""
        if not isinstance(iterated, AsyncIterator):
            return list(iterated)

        async def collect() -> list[Any]:
            return [each async for each in iterated]

        return self.ask(collect())


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    environ = {"HOLDFAST_ALLOW_PRIVATE_WEBHOOKS": "1"}
    with running_server(home, environ=environ, begin=at_once) as started:
        yield started


@pytest.fixture(params=["plain", "awaited"])
def side(request: pytest.FixtureRequest, server: Server) -> Iterator[Side]:
    name = f"agent?{next(_NUMBERS)} ü"
    if request.param == "plain":
        with (
            holdfast.AdminClient(server.admin_key, url=server.url) as admin,
            holdfast.Client(server.api_key, url=server.url, namespace=name) as agent,
        ):
            new = lambda key: holdfast.Client(key, url=server.url, retries=0)  # noqa: E731 - short
            yield Side(lambda found: found, admin, agent, name, new)
        return
    with asyncio.Runner() as runner:

        def ask(found: Any) -> Any:
            return runner.run(found) if isawaitable(found) else found

        admin = holdfast.AsyncAdminClient(server.admin_key, url=server.url)
        agent = holdfast.AsyncClient(server.api_key, url=server.url, namespace=name)
        new = lambda key: holdfast.AsyncClient(key, url=server.url, retries=0)  # noqa: E731 - short
        yield Side(ask, admin, agent, name, new)
        ask(agent.close())
        ask(admin.close())


def test_a_key_opens_its_namespace_until_it_is_revoked(side: Side) -> None:
    ask, admin = side.ask, side.admin
    made = ask(admin.create_key("helper", namespace=side.name, expires_in=timedelta(days=1)))
    assert (made.name, made.namespace, made.scope) == ("helper", side.name, "runtime")
    assert made.api_key.startswith(made.prefix)
    assert made.expires_at - made.created_at == timedelta(days=1)
    agent = side.new_agent(made.api_key)
    ask(agent.store.set("n", "k", 1))
    assert ask(side.agent.store.get("n", "k")) == 1
    me = ask(agent.me())
    assert me.namespace == side.name
    with pytest.raises(errors.Forbidden) as refused:
        ask(agent.namespace("another").store.count())
    assert refused.value.http_status == 403
    assert refused.value.hint
    listed = {each.id: each for each in ask(admin.list_keys())}
    assert listed[made.id].name == "helper"
    assert not hasattr(listed[made.id], "api_key")
    assert ask(admin.revoke_key(made.id)) is None
    with pytest.raises(errors.Unauthorized):
        ask(agent.store.count())
    with pytest.raises(errors.KeyNotFound) as missing:
        ask(admin.keys.revoke(made.id))
    assert missing.value.key_id == made.id
    ask(agent.close())


def test_all_namespaces_are_seen_at_a_glance_and_over_time(side: Side, server: Server) -> None:
    ask, agent, admin = side.ask, side.agent, side.admin
    ask(agent.files.write("plan", "one"))
    taken = ask(agent.snapshot("first", reason="nobody else's business"))
    session = ask(agent.sessions.create("bot"))
    ask(agent.sessions.rollback(session.id, 0))
    task = ask(agent.tasks.start("tidy up", metadata={"secret": "words"}))
    [seen] = [each for each in ask(admin.overview()) if each.namespace == side.name]
    with holdfast.open(server.data) as vault:
        [inside] = vault.overview(prefix=side.name)
        assert seen == inside
        assert ask(admin.overview(prefix=side.name)) == [inside]
    assert (seen.running_tasks, seen.running.id, seen.dirty) == (1, task.id, False)
    assert (seen.rollbacks, seen.level) == (1, holdfast.Level.CRITICAL)
    assert seen.latest.task_id == task.id  # What was there before it.
    assert seen.snapshots == 2
    assert taken.number == 1
    names = [each.namespace for each in ask(admin.overview())]
    assert names == ask(admin.namespaces.list())
    assert (
        ask(admin.overview(limit=1, starting_after=side.name))[:1]
        == [each for each in ask(admin.overview()) if each.namespace > side.name][:1]
    )
    assert task.id in [each.id for each in ask(admin.running_tasks(limit=1000))]
    lately = {"bucket": "hour", "since": datetime.now(tz=UTC) - timedelta(hours=2)}
    mine = ask(agent.rollback_series(**lately)).buckets
    theirs = ask(admin.rollback_series(**lately, namespace=side.name)).buckets
    assert theirs[: len(mine)] == mine
    assert sum(each.rollbacks for each in mine) == 1
    assert ask(admin.storage_series(namespace=side.name)) == []
    for refused in ({"bucket": "week"}, {"since": datetime(2020, 1, 1, tzinfo=UTC)}):
        with pytest.raises(errors.Invalid):
            ask(admin.rollback_series(**refused))
    ask(agent.tasks.complete(task.id))


def test_what_is_erased_is_gone_for_good_and_certified(side: Side) -> None:
    ask, admin, agent = side.ask, side.admin, side.agent
    user = f"user-of-{side.name}"
    first = ask(agent.sessions.create("helper", user_id=user)).id
    other = ask(agent.sessions.create("helper", user_id=user)).id
    done = ask(admin.erasures.session(side.name, first))
    assert (done.what, done.session_id, done.removed["sessions"]) == ("session", first, 1)
    with pytest.raises(errors.SessionNotFound):
        ask(agent.sessions.get(first))
    with pytest.raises(errors.SessionNotFound):
        ask(admin.erasures.session(side.name, first))
    done = ask(admin.erasures.user(user))
    assert (done.what, done.user_id, done.removed["sessions"]) == ("user", user, 1)
    with pytest.raises(errors.SessionNotFound):
        ask(agent.sessions.get(other))
    done = ask(admin.erasures.namespace(side.name))
    assert (done.what, done.namespace) == ("namespace", side.name)
    assert done in ask(admin.erasures.list())
    with pytest.raises(errors.NamespaceNotFound):
        ask(admin.erasures.namespace(side.name))


def test_a_key_that_asks_too_often_is_told_when_to_come_back(side: Side) -> None:
    made = side.ask(side.admin.keys.create("busy", namespace=side.name, rate_limit=2))
    agent = side.new_agent(made.api_key)
    for _ in range(2):
        side.ask(agent.store.count())
    with pytest.raises(errors.RateLimited) as limited:
        side.ask(agent.store.count())
    assert 0 < limited.value.retry_after <= 60
    side.ask(side.admin.keys.revoke(made.id))
    side.ask(agent.close())


def test_each_kind_of_key_has_its_own_doors(side: Side, server: Server) -> None:
    agent = side.new_agent(server.admin_key)
    with pytest.raises(errors.Denied):
        side.ask(agent.namespace(side.name).store.count())
    side.ask(agent.close())
    kind = holdfast.AdminClient if type(side.admin) is holdfast.AdminClient else None
    admin = (kind or holdfast.AsyncAdminClient)(server.api_key, url=server.url)
    with pytest.raises(errors.Forbidden):
        side.ask(admin.list_keys())
    side.ask(admin.close())
    assert side.ask(side.admin.me()).workspace_id == server.workspace_id


def test_webhooks_are_made_changed_and_taken_away(side: Side) -> None:
    ask, hooks = side.ask, side.admin.webhooks
    # Nobody listens at port 9: the delivery fails, and says so.
    made = ask(hooks.create("http://127.0.0.1:9/x", ["snapshot.created"], namespace=side.name))
    assert made.standard_secret.startswith("whsec_")
    assert ask(hooks.get(made.id)).url == "http://127.0.0.1:9/x"
    changed = ask(hooks.update(made.id, description="ours", events=["snapshot.restored"]))
    assert (changed.description, changed.events) == ("ours", ["snapshot.restored"])
    tested = ask(hooks.test(made.id))
    assert (tested.ok, tested.status) == (False, None)
    taken = ask(side.agent.snapshot())
    ask(side.agent.restore(taken))
    (delivery,) = until(lambda: ask(hooks.deliveries(made.id)))
    assert (delivery.event_type, delivery.webhook_id) == ("snapshot.restored", made.id)
    assert side.listed(hooks.iter_deliveries(made.id))[0].event_id == delivery.event_id
    again = ask(hooks.redeliver(made.id, delivery.id))
    assert again.event_id == delivery.event_id
    assert ask(hooks.rotate(made.id)).secret != made.secret
    assert ask(hooks.update(made.id, enabled=False)).enabled is False
    assert made.id in [each.id for each in ask(side.admin.list_webhooks())]
    assert ask(side.admin.delete_webhook(made.id)) is None
    with pytest.raises(errors.WebhookNotFound):
        ask(hooks.get(made.id))


def until(look: Callable[[], Any]) -> Any:
    """Looks until there is something: events are sent on by a process of their own."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def test_what_names_nothing_is_refused(side: Side) -> None:
    hooks = side.admin.webhooks
    for events in ([], ["file.wrote"], ["files.*"]):
        with pytest.raises(errors.InvalidValue):
            side.ask(hooks.create("http://127.0.0.1:9/x", events))
    made = side.ask(hooks.create("http://127.0.0.1:9/x"))
    other = side.ask(side.admin.create_webhook("http://127.0.0.1:9/x"))
    assert made.events == other.events == ["*"]
    side.ask(side.admin.delete_webhook(other.id))
    with pytest.raises(errors.InvalidValue):
        side.ask(hooks.update(made.id, events=[]))
    side.ask(hooks.delete(made.id))
    with pytest.raises(errors.InvalidName):
        side.ask(side.admin.create_key(" "))


def test_a_namespace_is_looked_after_as_a_whole(side: Side) -> None:
    ask, spaces, name = side.ask, side.admin.namespaces, side.name
    ask(side.agent.files.write("a", "12345"))
    first = ask(side.agent.snapshot())
    found = ask(spaces.get(name))
    assert (found.namespace, found.entries, found.size_bytes) == (name, 1, 5)
    assert (found.dirty, found.latest_snapshot_id) == (False, first.id)
    assert name in ask(spaces.list())
    assert side.listed(spaces.iter()) == ask(spaces.list())
    assert ask(spaces.set_quota(name, 8)).quota_bytes == 8
    with pytest.raises(errors.QuotaExceeded) as full:
        ask(side.agent.files.write("b", "12345"))
    assert (full.value.used_bytes, full.value.quota_bytes) == (5, 8)
    assert ask(spaces.set_quota(name, None)).quota_bytes is None
    assert ask(spaces.quota(name)).used_bytes == 5
    policy = ask(spaces.set_retention(name, keep_last=1))
    assert (policy, ask(spaces.retention(name))) == (holdfast.Policy(keep_last=1), policy)
    for text in ("2", "3"):
        ask(side.agent.files.write("a", text))
        ask(side.agent.snapshot())
    gone = ask(spaces.forget(name, dry_run=True))
    assert first.id in [each.id for each in gone]
    assert ask(spaces.forget(name, policy=holdfast.Policy(keep_last=50), dry_run=True)) == []
    ask(spaces.forget(name))
    with pytest.raises(errors.SnapshotNotFound):
        ask(side.agent.get_snapshot(first))


def test_what_was_deleted_can_be_recovered(side: Side) -> None:
    ask, spaces, name = side.ask, side.admin.namespaces, side.name
    session = ask(side.agent.sessions.create("helper"))
    memory = ask(side.agent.memory.add("remember me"))
    entity = ask(side.agent.entities.create(session.id, entity_type="t", entity_id="i"))
    taken = ask(side.agent.snapshot("wanted", metadata={"why": "for its agents alone"}))
    ask(side.agent.files.write("a", "1"))
    ask(side.agent.snapshot())
    ask(side.agent.delete_snapshot(taken))
    (gone,) = ask(spaces.deleted_snapshots(name))
    assert (gone.id, gone.label, gone.metadata) == (taken.id, "wanted", {})
    back = ask(spaces.recover_snapshot(name, taken.id))
    assert (back.id, back.metadata) == (taken.id, {})
    assert ask(side.agent.get_snapshot(taken)).metadata == {"why": "for its agents alone"}
    assert ask(side.agent.get_snapshot(taken)).label == "wanted"
    ask(side.agent.memory.delete(memory.id))
    ask(side.agent.entities.delete(entity.id))
    # What it says is for its agents: an operator brings it back unread.
    assert ask(spaces.recover_memory(name, memory.id)).content == ""
    assert ask(spaces.recover_entity(name, entity.id)).entity_id == "i"
    assert ask(spaces.delete(name)) is None
    with pytest.raises(errors.NamespaceNotFound):
        ask(spaces.get(name))
    deleted = next(each for each in ask(spaces.deleted()) if each.name == name)
    ask(side.agent.files.write("another", "of the same name"))
    back = ask(spaces.recover(name, number=deleted.number, as_name=f"{name} again"))
    assert back.namespace == f"{name} again"
    assert ask(side.agent.namespace(f"{name} again").memory.get(memory.id)) == memory


def test_snapshots_are_found_by_what_is_kept_with_them(side: Side, server: Server) -> None:
    ask, agent = side.ask, side.agent
    first = ask(agent.snapshot("first", metadata={"run": "1", "of": "ü & =?"}))
    for _ in range(260):  # More than a page of either list holds.
        ask(agent.snapshot(metadata={"run": "2"}))
    last = ask(agent.snapshots.create("last", metadata={"run": "1"}))
    assert (first.metadata, last.metadata) == ({"run": "1", "of": "ü & =?"}, {"run": "1"})
    wanted = {"run": "1"}
    for found in (
        ask(agent.timeline(metadata=wanted)),
        ask(agent.list_snapshots(metadata=wanted)),
        side.listed(agent.snapshots.iter(metadata=wanted)),
    ):
        assert found == [last, first]
    assert ask(agent.timeline(metadata=wanted, before=last.number)) == [first]
    assert ask(agent.timeline(metadata=first.metadata)) == [first]
    assert ask(agent.timeline(metadata={"run": "3"})) == []
    assert len(ask(agent.timeline(metadata={"run": "2"}))) == 260
    for wrong in ({"run": 1}, {"": "1"}, {"run": "1" * 1025}, "run=1"):
        for refused in (agent.snapshot, agent.timeline):
            with pytest.raises(errors.InvalidValue, match="metadata"):
                ask(refused(metadata=wrong))
    headers = {
        "Authorization": f"Bearer {server.api_key}",
        "X-Namespace": f"by hand {next(_NUMBERS)}",
    }
    with httpx.Client(base_url=server.url, headers=headers) as plain:
        made = plain.post("/v1/snapshots", json={"metadata": {"a": "1"}})
        assert (made.status_code, made.json()["metadata"]) == (201, {"a": "1"})
        assert plain.post("/v1/snapshots", json={"label": "none"}).json()["metadata"] == {}
        for path in ("/v1/timeline", "/v1/snapshots"):
            asked = plain.get(path, params={"metadata": '{"a": "1"}'}).json()
            assert [each["metadata"] for each in asked["snapshots"]] == [{"a": "1"}]
            for text in ("{", "[]", '"a"', '{"a": 1}'):
                assert plain.get(path, params={"metadata": text}).status_code in (400, 422)
        for body in ({"a": 1}, ["a"], {"a": "b" * 1025}, {"": "b"}):
            assert plain.post("/v1/snapshots", json={"metadata": body}).status_code in (400, 422)


def test_a_workspace_is_looked_after(side: Side, tmp_path: Path) -> None:
    ask, admin = side.ask, side.admin
    session = ask(side.agent.sessions.create("helper"))
    ask(side.agent.sessions.update_state(session.id, {"n": 1}))
    ask(side.agent.sessions.rollback(session.id, 0))
    ask(side.agent.files.write("a", os.urandom(1000)))
    ask(side.agent.snapshot())
    assert ask(admin.verify()).ok
    assert ask(admin.collect()).bytes_freed >= 0
    report = ask(admin.verify_audit())
    assert report.is_sound
    assert ask(admin.verify_audit(anchor=report.anchor)).is_sound
    assert ask(admin.export_audit(tmp_path / "audit")) == (tmp_path / "audit").stat().st_size
    assert holdfast.verify_audit_file(tmp_path / "audit").is_sound
    assert ask(admin.health(agent_id="helper")).rollbacks >= 1
    assert ask(admin.totals()).sessions >= 1
    assert ask(admin.quota()).used_bytes > 0
    assert ask(admin.set_quota(1 << 40)).quota_bytes == 1 << 40
    assert ask(admin.set_quota(None)).quota_bytes is None
    newest = ask(admin.traces.list(session_id=session.id, limit=1))[0]
    assert (newest.action, newest.namespace) == ("state.rolled_back", side.name)
    assert ask(admin.traces.get(newest.id)) == newest
    assert len(side.listed(admin.traces.iter(session_id=session.id))) == 3


def test_events_tell_an_agent_of_its_namespace_and_an_operator_of_all(side: Side) -> None:
    ask = side.ask
    begun = datetime.now(UTC) - timedelta(minutes=1)
    ask(side.agent.snapshot("seen"))
    ask(side.agent.namespace(f"{side.name} 2").snapshot("elsewhere"))
    (mine,) = ask(side.agent.events.list(types=["snapshot.created"], since=begun))
    assert (mine.type, mine.namespace, mine.data["label"]) == (
        "snapshot.created",
        side.name,
        "seen",
    )
    assert mine.created_at.tzinfo is not None
    both = {each.namespace for each in ask(side.admin.events.list(limit=2))}
    assert both == {side.name, f"{side.name} 2"}
    assert side.listed(side.admin.events.iter(namespace=side.name))[0] == mine


# Lists in parts.


def test_long_lists_are_gone_through_in_parts(side: Side) -> None:
    ask, agent = side.ask, side.agent
    ask(agent.files.write_many([(f"d/{n:04}", b"") for n in range(1005)]))
    ask(agent.store.set_many([("n", f"{n:04}", n) for n in range(1005)]))
    files = side.listed(agent.files.iter("d"))
    assert [each.name for each in files] == [f"{n:04}" for n in range(1005)]
    assert ask(agent.files.list("d")) == files
    assert len(side.listed(agent.files.iter("d", limit=1003))) == 1003
    assert side.listed(agent.store.iter_keys("n")) == [f"{n:04}" for n in range(1005)]
    assert side.listed(agent.store.iter_items("n"))[-1] == (("n", "1004"), 1004)
    assert len(side.listed(agent.store.iter_items())) == 1005


def test_every_list_can_be_gone_through(side: Side) -> None:
    ask, agent = side.ask, side.agent
    session = ask(agent.sessions.create("helper"))
    for number in range(3):
        ask(agent.sessions.update_state(session.id, {"n": number}))
        ask(agent.sessions.add_turn(session.id, "a", "b"))
        ask(agent.memory.add(f"memory {number}", tags=["t"]))
        ask(agent.entities.create(session.id, entity_type="t", entity_id=str(number)))
        ask(agent.tasks.complete(ask(agent.tasks.start(f"task {number}")).id))
        ask(agent.snapshots.create(f"snapshot {number}", reason="why"))
    assert side.listed(agent.sessions.iter(agent_id="helper")) == ask(agent.sessions.list())
    turns = side.listed(agent.sessions.iter_turns(session.id, order="asc"))
    assert [each.number for each in turns] == [1, 2, 3]
    versions = side.listed(agent.sessions.iter_history(session.id))
    assert [each.number for each in versions] == [0, 1, 2, 3]
    assert side.listed(agent.memory.iter(tags=["t"])) == ask(agent.memory.list())
    assert side.listed(agent.entities.iter()) == ask(agent.entities.list())
    assert len(side.listed(agent.traces.iter())) > 10
    assert [each.name for each in side.listed(agent.tasks.iter(status="completed"))] == [
        "task 2",
        "task 1",
        "task 0",
    ]
    taken = side.listed(agent.snapshots.iter())
    assert taken == ask(agent.snapshots.list())
    assert taken[0].label == "snapshot 2"


# By other names.


def test_snapshots_have_a_group_of_their_own(side: Side) -> None:
    ask, snapshots = side.ask, side.agent.snapshots
    ask(side.agent.files.write("a", "1"))
    made = ask(snapshots.create("first", pin=True))
    assert ask(snapshots.get("latest")) == made
    assert ask(snapshots.set_label(made, "called")).label == "called"
    assert (ask(snapshots.unpin(made)).pinned, ask(snapshots.pin(made)).pinned) == (False, True)
    ask(side.agent.files.write("a", "2"))
    assert ask(snapshots.restore(made, paths=["a"])).target == made.id
    assert ask(side.agent.files.read("a")) == b"1"
    other = ask(side.agent.create_snapshot("other"))
    assert [each.id for each in ask(side.agent.list_snapshots())] == [other.id, made.id]
    assert ask(side.agent.restore_snapshot(made.id)) == 1
    ask(snapshots.unpin(made))
    assert ask(snapshots.delete(other)) is None
    assert [each.id for each in ask(snapshots.list())] == [made.id]


def test_files_go_to_and_fro(side: Side, tmp_path: Path) -> None:
    told = list[tuple[str, int, int]]()
    data = os.urandom(600_000)
    (tmp_path / "here").write_bytes(data)
    sent = side.ask(
        side.agent.files.upload(
            tmp_path / "here", "there", mode=0o600, progress=lambda *step: told.append(step)
        )
    )
    assert (sent.size_bytes, sent.mode) == (600_000, 0o600)
    assert told[-1] == ("sending", 600_000, 600_000)
    assert side.ask(side.agent.files.download("there", tmp_path / "back")) == 600_000
    assert (tmp_path / "back").read_bytes() == data
    with pytest.raises(errors.NotFound):
        side.ask(side.agent.files.upload(tmp_path / "none", "there"))
