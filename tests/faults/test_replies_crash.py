"""Kills the engine at every step of a request under a name, on both catalogs.

After each death the same request comes again. There must be an answer if and only if the thing was
done, and in the end it was done once.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.port import Catalog
from holdfast.engine.core.context import Context
from holdfast.engine.core.limits import Limits
from holdfast.engine.journal.replies import reply_of
from holdfast.engine.namespace import Namespace
from holdfast.engine.vault import Holdfast
from holdfast.errors import PathNotFound, RequestRunning
from holdfast.model.replies import Asked, ReplyPlace
from holdfast.testing.clocks import Watch
from holdfast.testing.faults import (
    Fuse,
    FusedBlobStore,
    FusedCatalog,
    every_step,
    fuses,
    leaves_traces,
)

pytestmark = pytest.mark.in_memory

LIMITS = Limits(free_floor_bytes=0)

Act = Callable[[Namespace], object]
Done = Callable[[Namespace], int]
"""Says how often something was done."""


def add_turn(agent: Namespace) -> str:
    made = agent.sessions.add_turn("sess_1", input="hello", output="hi")
    # As the route does: what was added is read before it is committed.
    return agent.sessions.get_turn("sess_1", made.id, include_state=True).id


def turns(agent: Namespace) -> int:
    return len(agent.sessions.list_turns("sess_1"))


def update(agent: Namespace) -> int:
    return agent.sessions.update_state("sess_1", {"step": 1}).version


def updates(agent: Namespace) -> int:
    return agent.sessions.get_state("sess_1").version


def snapshot(agent: Namespace) -> str:
    return agent.snapshot("new").id


def snapshots(agent: Namespace) -> int:
    return len([each for each in agent.timeline() if each.label == "new"])


def restore(agent: Namespace) -> bool:
    return agent.restore(next(each for each in agent.timeline() if each.label == "old")).verified


def restores(agent: Namespace) -> int:
    return len([each for each in agent.timeline() if each.target is not None])


def write(agent: Namespace) -> int:
    return agent.files.write("new", "x" * 100_000).size_bytes


def writes(agent: Namespace) -> int:
    return int(agent.files.exists("new"))


def remember(agent: Namespace) -> str:
    return agent.memory.add("they like tea", type="semantic").id


def memories(agent: Namespace) -> int:
    return len(agent.memory.list())


def delete(agent: Namespace) -> int:
    return agent.files.delete("a")


def deletes(agent: Namespace) -> int:
    return int(not agent.files.exists("a"))


def set_many(agent: Namespace) -> int:
    agent.store.set_many([("ns", "k", 1)])
    return agent.store.delete_many([("ns", "old")])


def sets(agent: Namespace) -> int:
    return int(agent.store.get("ns", "k", 0) == 1 and not agent.store.contains("ns", "old"))


@pytest.fixture
def context(catalog: Catalog, tmp_path: Path, watch: Watch) -> Context:
    blobs = DiskBlobStore(tmp_path / "packs")
    return Context.of(catalog, blobs, clock=watch, limits=LIMITS)


@pytest.fixture
def announcing(context: Context) -> Context:
    """Makes a pack of every batch, however small, that is announced and put before it is named."""
    return replace(context, limits=replace(LIMITS, inline_bytes=0))


def look(context: Context, name: str) -> Asked:
    return Holdfast(context).replies.look(ReplyPlace("key", "POST", "/", name), b"body")


def ask(context: Context, asked: Asked, name: str, act: Act) -> None:
    """Does what a server does for a request."""
    vault = Holdfast(context)
    catalog = vault.replies.begin(asked)
    with catalog.answering():
        made = act(vault.replying(catalog).namespace(name))
        body = str(made).encode()
        catalog.keep(reply_of(asked.mine, status=200, media_type="text/plain", body=body))
    assert catalog.is_kept


def deaths(context: Context) -> Iterator[Fuse]:
    """Yields where to die: at every step; on PostgreSQL, where those take long, around commits."""
    return fuses(counts=every_step if context.catalog.kind == "sqlite" else leaves_traces)


def begin(context: Context, name: str) -> Namespace:
    agent = Holdfast(context).namespace(name)
    agent.sessions.create("bot", session_id="sess_1")
    agent.store.set("ns", "old", 1)
    agent.files.write("a", "a")
    agent.snapshot("old")
    agent.files.write("a", "b")
    return agent


def dying(context: Context, fuse: Fuse) -> Context:
    return replace(
        context,
        catalog=FusedCatalog(context.catalog, fuse),
        blobs=FusedBlobStore(context.blobs, fuse),
    )


@pytest.mark.parametrize(
    ("act", "done"),
    [
        (add_turn, turns),
        (update, updates),
        (snapshot, snapshots),
        (restore, restores),
        (write, writes),
        (remember, memories),
        (delete, deletes),
    ],
)
def test_an_answer_is_there_if_and_only_if_the_thing_was_done(
    context: Context, act: Act, done: Done
) -> None:
    outcomes = set[int]()
    for fuse in deaths(context):
        name = f"agent-{fuse.steps}"
        agent = begin(context, name)
        asked = look(context, name)
        with fuse:
            ask(dying(context, fuse), asked, name, act)
        again = look(context, name)
        assert (again.answer is not None) == bool(done(agent)), fuse
        outcomes.add(done(agent))
        if again.answer is None:
            ask(context, again, name, act)
        assert look(context, name).answer is not None
        assert done(agent) == 1, fuse
    assert outcomes == {0, 1}


def write_much(agent: Namespace) -> int:
    return agent.files.write("new", Random(1).randbytes(300_000)).size_bytes


def set_much(agent: Namespace) -> str:
    agent.store.set("ns", "new", Random(2).randbytes(300_000).hex())
    return "done"


def update_much(agent: Namespace) -> int:
    state = {"much": Random(3).randbytes(300_000).hex()}
    return agent.sessions.update_state("sess_1", state).version


def packs(context: Context) -> set[str]:
    with context.catalog.read() as transaction:
        tenants = transaction.iter_tenants()
        named = {pack.name for each in tenants for pack in transaction.iter_packs(each.id)}
    return named | {name for name, _ in context.blobs.iter_names()}


def undo(context: Context, act: Act) -> None:
    """Does something whose request somebody else has answered meanwhile."""
    before, asked = packs(context), look(context, "once")
    done = reply_of(asked.mine, status=200, media_type="text/plain", body=b"theirs")
    Holdfast(context).replies.keep(asked, done)
    with pytest.raises(RequestRunning):
        ask(context, asked, "agent", act)
    assert packs(context) == before


@pytest.mark.parametrize("act", [write_much, set_much, update_much, snapshot])
def test_what_is_undone_since_another_has_answered_takes_no_room(
    announcing: Context, act: Act
) -> None:
    agent = begin(announcing, "agent")
    undo(announcing, act)
    assert not agent.files.exists("new")


@pytest.mark.parametrize("kind", ["", "_files"])
def test_an_import_that_is_undone_takes_no_room(
    announcing: Context, tmp_path: Path, kind: str
) -> None:
    other = Holdfast(announcing).namespace("other")
    other.files.write("new", Random(4).randbytes(300_000))
    getattr(other, f"export{kind}")(tmp_path / "new.tar")
    agent = begin(announcing, "agent")
    bring = f"import{kind or '_'}"
    undo(announcing, lambda agent: getattr(agent, bring)(tmp_path / "new.tar").verified)
    assert not agent.files.exists("new")


def test_of_several_changes_the_last_is_kept_with_the_answer(context: Context) -> None:
    for fuse in deaths(context):
        name = f"agent-{fuse.steps}"
        agent = begin(context, name)
        asked = look(context, name)
        with fuse:
            ask(dying(context, fuse), asked, name, set_many)
        again = look(context, name)
        assert (again.answer is not None) == bool(sets(agent)), fuse
        if again.answer is None:
            ask(context, again, name, set_many)
        assert sets(agent) == 1


def test_of_a_request_that_is_worked_on_twice_one_is_done(context: Context) -> None:
    agent = begin(context, "alice")
    first, second = look(context, "alice"), look(context, "alice")
    ask(context, first, "alice", add_turn)
    with pytest.raises(RequestRunning):
        ask(context, second, "alice", add_turn)
    assert turns(agent) == 1
    # Nothing of it is left open, either.
    agent.sessions.add_turn("sess_1", input="and on", output="it goes")


def test_a_claim_that_was_lost_does_nothing(context: Context, watch: Watch) -> None:
    agent, replies = begin(context, "alice"), Holdfast(context).replies
    slow = replies.claim(look(context, "alice"))
    watch.wait(slow.mine.leased_until - slow.mine.created_at)
    theirs = replies.claim(look(context, "alice"))
    with pytest.raises(RequestRunning):
        ask(context, slow, "alice", add_turn)
    assert turns(agent) == 0
    ask(context, theirs, "alice", add_turn)
    assert turns(agent) == 1


def test_what_fails_after_it_was_done_was_not_done(context: Context) -> None:
    agent = begin(context, "alice")

    def break_off(agent: Namespace) -> None:
        agent.files.write("new", "x")
        agent.files.read("nothing")

    with pytest.raises(PathNotFound):
        ask(context, look(context, "alice"), "alice", break_off)
    assert not agent.files.exists("new")
    assert look(context, "alice").answer is None
