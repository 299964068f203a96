"""Kills the engine at every step of what is told and delivered.

After each death the vault is opened anew. An event must be there if and only if what it tells of
is; each event must become one delivery of each webhook, and reach it at least once.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.tenancy.outbox import LEASE, Outbox
from holdfast.engine.tenancy.webhooks import Outcome
from holdfast.engine.vault import Holdfast
from holdfast.model.basics import Kind
from holdfast.model.webhooks import DeliveryState
from holdfast.testing.faults import Fuse, FusedBlobStore, FusedCatalog, fuses

pytestmark = pytest.mark.in_memory

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOON + LEASE + timedelta(days=3)
LIMITS = Limits(free_floor_bytes=0)
URL = "https://hooks.example.com/"

Act = Callable[[Holdfast], object]
Done = Callable[[Holdfast], int]
"""Says how often something was done, as the rows of the thing itself have it."""


def write(vault: Holdfast) -> None:
    vault.namespace("alice").files.write("new", "x" * 100_000)


def written(vault: Holdfast) -> int:
    return int(vault.namespace("alice").files.exists("new"))


def snapshot(vault: Holdfast) -> None:
    vault.namespace("alice").snapshot("new")


def snapshots(vault: Holdfast) -> int:
    return len([each for each in vault.namespace("alice").timeline() if each.label == "new"])


def restore(vault: Holdfast) -> None:
    agent = vault.namespace("alice")
    agent.restore(next(each for each in agent.timeline() if each.label == "old"))


def restores(vault: Holdfast) -> int:
    return len([each for each in vault.namespace("alice").timeline() if each.kind is Kind.RESTORE])


def update(vault: Holdfast) -> None:
    vault.namespace("alice").sessions.update_state("sess_1", {"step": 1})


def updates(vault: Holdfast) -> int:
    return vault.namespace("alice").sessions.get_state("sess_1").version


def make_key(vault: Holdfast) -> None:
    vault.keys.create("new")


def keys(vault: Holdfast) -> int:
    return len(vault.keys.list())


def make_hook(vault: Holdfast) -> None:
    vault.webhooks.create(URL, description="new")


def hooks(vault: Holdfast) -> int:
    return len([each for each in vault.webhooks.list() if each.description == "new"])


@pytest.fixture
def template(tmp_path: Path) -> Path:
    folder = tmp_path / "template"
    with closing(SqliteCatalog(folder / "vault")) as catalog:
        blobs = DiskBlobStore(folder / "packs")
        vault = Holdfast(Context.of(catalog, blobs, clock=lambda: NOON, limits=LIMITS))
        vault.events.listen()
        agent = vault.namespace("alice")
        agent.sessions.create("bot", session_id="sess_1")
        agent.files.write("a", "a")
        agent.snapshot("old")
        agent.files.write("a", "b")
        vault.webhooks.create(URL, events=["file.*"])
        agent.files.write_many([("b", "b"), ("c", "c")])
    return folder


def copies(template: Path) -> Iterator[tuple[Path, Fuse]]:
    """Yields a vault to die in for each step that there is to die at."""
    for fuse in fuses():
        folder = template.parent / "now"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder)
        yield folder, fuse


def die(folder: Path, fuse: Fuse, act: Callable[[Context], object]) -> None:
    with closing(SqliteCatalog(folder / "vault")) as catalog, fuse:
        context = Context.of(
            FusedCatalog(catalog, fuse),
            FusedBlobStore(DiskBlobStore(folder / "packs"), fuse),
            clock=lambda: NOON,
            limits=LIMITS,
        )
        act(context)


def survive(folder: Path, look: Callable[[Context], None], *, now: datetime = NOON) -> None:
    with closing(SqliteCatalog(folder / "vault")) as catalog:
        blobs = DiskBlobStore(folder / "packs")
        look(Context.of(catalog, blobs, clock=lambda: now, limits=LIMITS))


@pytest.mark.parametrize(
    ("act", "done", "kind"),
    [
        (write, written, "file.written"),
        (snapshot, snapshots, "snapshot.created"),
        (restore, restores, "snapshot.restored"),
        (update, updates, "state.updated"),
        (make_key, keys, "key.created"),
        (make_hook, hooks, "webhook.created"),
    ],
)
def test_an_event_is_there_if_and_only_if_what_it_tells_of_is(
    template: Path, act: Act, done: Done, kind: str
) -> None:
    told_before = list[int]()

    def count(context: Context) -> None:
        vault = Holdfast(context)
        told_before.append(len(vault.events.list(types=[kind], limit=200)[0]))

    survive(template, count)
    outcomes = set[int]()
    for folder, fuse in copies(template):
        die(folder, fuse, lambda context: act(Holdfast(context)))

        def look(context: Context, fuse: Fuse = fuse) -> None:
            vault = Holdfast(context)
            events, _ = vault.events.list(limit=200)
            told = len([event for event in events if event.type == kind])
            assert told - told_before[0] == done(vault), fuse
            outcomes.add(done(vault))
            numbers = [event.number for event in events]
            assert numbers == list(range(len(numbers), 0, -1)), fuse
            assert vault.events.last() == numbers[0]

        survive(folder, look)
    assert outcomes == {0, 1}


def test_each_event_reaches_its_webhook_wherever_the_worker_dies(template: Path) -> None:
    for folder, fuse in copies(template):
        sent = list[str]()

        def work(context: Context, sent: list[str] = sent) -> None:
            outbox = Outbox(context)
            outbox.expand()
            for parcel in outbox.claim(10):
                sent.append(parcel.delivery.event_id)
                outbox.record(parcel, Outcome(ok=True, status=200))

        die(folder, fuse, work)
        # Another comes when the claims of the dead have ended.
        survive(folder, work, now=LATER)

        def look(context: Context, sent: list[str] = sent) -> None:
            vault = Holdfast(context)
            hook = vault.webhooks.list()[0]
            log = vault.webhooks.deliveries(hook.id, limit=100)
            events, _ = vault.events.list(types=["file.*"], limit=2)
            wanted = {event.id for event in events}
            assert {each.event_id for each in log} == set(sent) == wanted
            assert len(log) == 2
            assert {each.state for each in log} == {DeliveryState.DELIVERED}

        survive(folder, look, now=LATER)
