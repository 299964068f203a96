"""Looking after a vault: often enough, by one of all workers, whatever fails on the way."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.blobs.memory import MemoryBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.rounds import LOCK
from holdfast.engine.vault import Holdfast
from holdfast.errors import Busy, Damaged, Unavailable
from holdfast.model.replies import ReplyPlace
from holdfast.server.work.upkeep import (
    AGAIN_S,
    COLLECTS,
    EVERY,
    FIRST_S,
    WATCHES,
    Caretaker,
    watching_rollbacks,
)
from holdfast.testing.clocks import Watch
from holdfast.testing.faults import Fuse, FusedCatalog

pytestmark = pytest.mark.in_memory

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def context(tmp_path: Path, watch: Watch) -> Iterator[Context]:
    with closing(SqliteCatalog(tmp_path)) as catalog:
        yield Context.of(catalog, MemoryBlobStore(), clock=watch)


@pytest.fixture
def vault(context: Context) -> Holdfast:
    return Holdfast(context)


def numbers(vault: Holdfast, tenant: str) -> list[int]:
    return [snapshot.number for snapshot in vault.tenant(tenant).namespace("alice").timeline()]


def fill(vault: Holdfast, *tenants: str) -> None:
    for tenant in tenants:
        agent = vault.tenant(tenant).namespace("alice")
        agent.set_retention(keep_last=1)
        for number in range(4):
            agent.files.write("notes.txt", f"{tenant} {number}".encode() * 50_000)
            agent.snapshot()


def test_a_round_applies_retention_for_every_tenant_and_gives_bytes_back(vault: Holdfast) -> None:
    fill(vault, "acme", "rivals")
    stored = {name: vault.tenant(name).stored_bytes() for name in ("acme", "rivals")}
    assert vault.look_after()
    for name, before in stored.items():
        assert len(numbers(vault, name)) < 4
        assert vault.tenant(name).stored_bytes() < before


def test_what_a_task_that_runs_has_changed_outlives_the_snapshot_before_it(
    vault: Holdfast, watch: Watch
) -> None:
    agent = vault.namespace("alice")
    agent.set_retention(keep_last=1)
    agent.files.write("theirs", "before")
    with agent.task("long") as run:
        agent.files.write("mine", "1")
        for number in range(4):
            vault.namespace("alice").files.write("theirs", f"{number}")
            agent.snapshot()
        watch.wait(2 * DAY)
        vault.collect()
        watch.wait(2 * DAY)
        vault.collect()
        assert agent.timeline()[-1].number > 1
        agent.files.write("mine", "2")
    agent.undo(task=run.id)
    assert [each.path for each in agent.files.list()] == ["theirs"]
    assert agent.files.read_text("theirs") == "3"


def test_what_a_merge_brought_in_is_there_for_the_next_one(vault: Holdfast, watch: Watch) -> None:
    agent = vault.namespace("alice")
    agent.files.write("theirs", "0" * 50_000)
    fork = agent.fork("fork")
    fork.files.write("theirs", "1" * 50_000)
    agent.files.write("own", "1")
    agent.merge(fork)
    fork.files.write("theirs", "2" * 50_000)
    fork.snapshot()
    for snapshot in fork.timeline()[1:]:
        fork.delete_snapshot(snapshot.id)
    watch.wait(9 * DAY)
    vault.collect()
    assert len(fork.timeline()) == 1
    agent.merge(fork)
    assert agent.files.read_text("theirs") == "2" * 50_000
    assert agent.files.read_text("own") == "1"
    assert vault.verify().ok


def test_a_round_is_done_once_however_many_workers_there_are(
    context: Context, watch: Watch
) -> None:
    first, second = Holdfast(context), Holdfast(replace(context))
    assert first.look_after(every=EVERY, collects=COLLECTS)
    watch.wait(EVERY - SECOND)
    assert not second.look_after(every=EVERY, collects=COLLECTS)
    watch.wait(SECOND)
    assert second.look_after(every=EVERY, collects=COLLECTS)
    assert not first.look_after(every=EVERY, collects=COLLECTS)


def test_bytes_are_given_back_once_a_day(vault: Holdfast, watch: Watch) -> None:
    assert vault.look_after(every=EVERY, collects=COLLECTS)
    fill(vault, "acme")
    stored = vault.tenant("acme").stored_bytes()
    watch.wait(EVERY)
    assert vault.look_after(every=EVERY, collects=COLLECTS)
    assert len(numbers(vault, "acme")) < 4
    assert vault.tenant("acme").stored_bytes() == stored
    watch.wait(DAY)
    assert vault.look_after(every=EVERY, collects=COLLECTS)
    assert vault.tenant("acme").stored_bytes() < stored


def test_a_clock_that_was_ahead_does_not_put_off_the_next_round(
    vault: Holdfast, watch: Watch
) -> None:
    watch.wait(1000 * DAY)
    assert vault.look_after(every=EVERY, collects=COLLECTS)
    watch.wait(-1000 * DAY)
    assert vault.look_after(every=EVERY, collects=COLLECTS)


def test_while_one_looks_after_the_vault_another_is_busy(context: Context, vault: Holdfast) -> None:
    with context.catalog.lock(LOCK), pytest.raises(Busy):
        vault.look_after()


def test_what_fails_for_one_tenant_is_raised_once_all_have_had_their_turn(
    vault: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(vault, "acme", "rivals")
    collected: list[str] = []

    def collect(_context: Context, tenant_id: int, **_: object) -> None:
        collected.append(str(tenant_id))
        if len(collected) == 1:
            raise Damaged("a pack is gone")

    monkeypatch.setattr("holdfast.engine.vault.collect", collect)
    with pytest.raises(Damaged):
        vault.look_after(every=EVERY, collects=COLLECTS)
    assert len(collected) == len(vault.tenants()) == 3
    assert len(numbers(vault, "rivals")) < 4
    assert not vault.look_after(every=EVERY, collects=COLLECTS)


def test_an_erasure_that_cannot_be_finished_stops_nothing_else(
    vault: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(vault, "acme")
    acme = vault.tenant("acme")
    acme.namespace("gone").files.write("a", "1")

    def scrub(_: object) -> None:
        raise Unavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteCatalog, "scrub", scrub)
        with pytest.raises(Unavailable):
            acme.erasures.namespace("gone")
        acme.namespace("alice").files.write("notes.txt", b"another" * 50_000)
        acme.namespace("alice").snapshot()
        fill(vault, "acme")
        stored = acme.stored_bytes()
        acme.collect()
        assert acme.stored_bytes() < stored
        with pytest.raises(Unavailable):
            vault.look_after()
        assert acme.erasures.list() == []
    assert vault.look_after()
    assert [each.namespace for each in acme.erasures.list()] == ["gone"]


def test_old_replies_go_with_a_round(vault: Holdfast, watch: Watch) -> None:
    vault.replies.claim(vault.replies.look(ReplyPlace("key-1", "POST", "/", "once"), b"asked"))
    watch.wait(2 * DAY)
    vault.look_after()
    assert vault.replies.purge() == 0


def test_a_caretaker_begins_late_and_comes_back_at_its_own_moment(vault: Holdfast) -> None:
    draws = iter([0.5, 0.0, 1.0])
    caretaker = Caretaker(vault, draw=lambda: next(draws))
    assert caretaker.look_after() == FIRST_S
    assert caretaker.look_after() == EVERY.total_seconds()
    assert caretaker.look_after() == pytest.approx(EVERY.total_seconds() * 1.1)


def test_a_caretaker_that_finds_another_at_work_comes_back_soon(
    context: Context, vault: Holdfast
) -> None:
    """The other may have been killed: then nobody would do this hour's round."""
    caretaker = Caretaker(vault, draw=lambda: 0.0)
    caretaker.look_after()
    with context.catalog.lock(LOCK):
        assert caretaker.look_after() == AGAIN_S
    assert caretaker.look_after() == EVERY.total_seconds()


# What a collection costs


class Commits(Fuse):
    """Counts what has been committed."""

    def __init__(self) -> None:
        super().__init__(0)
        self.count = 0

    def step(self, name: str, /) -> None:
        self.count += name == "commit"


def test_a_collection_does_not_commit_for_every_snapshot_that_there_is(tmp_path: Path) -> None:
    commits, contents = Commits(), dict[str, str]()
    with closing(SqliteCatalog(tmp_path)) as catalog:
        context = Context.of(catalog, MemoryBlobStore())
        agent = Holdfast(context).namespace("alice")
        for number in range(100):
            agent.files.write("file", f"{number} " * 200)
            contents[agent.snapshot().id] = f"{number} " * 200
        counted = Context.of(FusedCatalog(catalog, commits), context.blobs)
        assert Holdfast(counted).collect().packs_deleted >= 100
        assert commits.count < 20
        for snapshot, text in contents.items():
            assert agent.at(snapshot).files.read_text("file") == text
        assert Holdfast(context).verify().ok


def test_a_server_tells_of_a_bad_rate_by_itself_and_comes_again(vault: Holdfast) -> None:
    vault.events.listen()
    agent = vault.namespace("alice")
    agent.sessions.rollback(agent.sessions.create("bot").id, 0)
    look = watching_rollbacks(vault)
    assert look() >= WATCHES.total_seconds()
    look()
    told, _ = vault.events.list(types=["rollbacks.*"])
    assert {each.namespace for each in told} == {"alice", None}
    assert len(told) == 2
