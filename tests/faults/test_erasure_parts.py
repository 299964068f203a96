"""A session, or a user, that was erased is nowhere; what is beside it is as it was.

A word that stands nowhere else is put into everything that a session can hold, and into what tasks,
snapshots, traces and events keep of it. Afterwards every file of the vault is searched for it, and
every block of every pack that is still there.
"""

from collections.abc import Callable
from contextlib import closing
from itertools import count, pairwise
from pathlib import Path
from random import Random

import msgspec
import psycopg
import pytest

import holdfast
from holdfast.blobs.disk import DiskBlobStore
from holdfast.catalog.postgres import PostgresCatalog
from holdfast.catalog.sqlite import SqliteCatalog
from holdfast.engine.core.context import Context
from holdfast.engine.vault import Holdfast
from holdfast.errors import InvalidName, NamespaceNotFound, SessionNotFound
from holdfast.model.changes import tally, to_counts
from holdfast.testing.faults import Fuse, FusedBlobStore, FusedCatalog
from holdfast.testing.remains import Place
from holdfast.testing.visitors import Interloper

pytestmark = pytest.mark.in_memory

WORD = "xqzjerasedword"
USER, OTHER = "user-going", "user-staying"


@pytest.fixture
def place(searched: Place) -> Place:
    return searched


def talk(agent: holdfast.Namespace, session_id: str, user_id: str, word: str) -> None:
    """Puts a word into all that a session holds, and what is kept of it elsewhere."""
    noise = Random(word).randbytes(20_000).hex()
    sessions = agent.sessions
    sessions.create(
        "helper",
        session_id=session_id,
        user_id=user_id,
        initial_state={"note": word},
        metadata={"about": word},
    )
    sessions.add_turn(session_id, input=word, output=f"{word} indeed", reasoning=word)
    agent.memory.add(f"The {word} is secret", session_id=session_id, tags=[word])
    agent.entities.create(
        session_id, entity_type="thing", entity_id="one", attributes={"called": word}
    )
    agent.snapshot(f"with {session_id}")
    sessions.update_state(session_id, {"long": f"{word} {noise}"}, reasoning=f"for {word}")
    for number in range(20):
        sessions.update_state(session_id, {f"{word} {number}": number}, reasoning=f"for {word}")
    with agent.task("a task"):
        sessions.update_state(session_id, {"in a task": word})
        agent.memory.add(f"The {word} is known", session_id=session_id, user_id=user_id)
    agent.traces.add("looked.at", session_id=session_id, user_id=user_id, details={"what": word})
    sessions.rollback(session_id, version=2)
    agent.snapshot("after")
    sessions.add_turn(session_id, input=f"{word} again", output="yes")


def held(agent: holdfast.Namespace, session_id: str = "ses-kept") -> object:
    """Returns all that can be read beside what is erased."""
    return (
        {info.path: agent.files.read(info.path) for info in agent.files.list(recursive=True)},
        agent.sessions.get_state(session_id).state,
        [turn.output for turn in agent.sessions.list_turns(session_id)],
        [(v.number, v.state, v.reasoning) for v in agent.sessions.history(session_id)],
        sorted(memory.content for memory in agent.memory.list() if "kept" in memory.content),
        [(each.id, each.label, each.kind) for each in agent.timeline()],
    )


def begin(vault: Holdfast) -> holdfast.Namespace:
    agent = vault.namespace("alice")
    agent.files.write("plan.txt", "the plan")
    talk(agent, "ses-kept", OTHER, "kept")
    return agent


def test_a_session_that_was_erased_is_nowhere_and_the_rest_is_whole(place: Place) -> None:
    with place.open() as vault:
        vault.events.listen()
        agent = begin(vault)
        before_id = agent.snapshot("before")
        size, root = agent.size(), agent.timeline(limit=1)[0].root
        talk(agent, "ses-gone", USER, WORD)
        vault.events.list()
        before, old = held(agent), {each.id: each.root for each in agent.timeline()}
        assert len(place.holding(WORD)) > 1, "the word is looked for where it is"
        done = vault.erasures.session("alice", "ses-gone")
        assert held(agent) == before
        assert agent.size() == size
        assert agent.snapshot("now").root == root, "as if it had never been there"
        with pytest.raises(SessionNotFound):
            agent.sessions.get("ses-gone")
        assert (done.what, done.session_id, done.copies) == ("session", "ses-gone", [])
        assert done.removed == {"sessions": 1, "versions": 24, "entities": 1, "memories": 2}
        changed = [each.id for each in agent.timeline()[1:] if each.root != old[each.id]]
        assert done.rewritten_snapshots == len(changed) >= 3
        assert before_id.id not in changed
        rows = agent.timeline(with_=["changes"])
        for new, old in pairwise(rows[1:]):
            assert new.changes == to_counts(tally(agent.diff(old, new))), "what is left counts"
        row = next(t for t in vault.traces.list() if t.action == "session.erased")
        assert (row.number, row.hash) == (done.number, done.hash)
        assert vault.verify().faults == []
        assert vault.verify_audit().problems == []
        for snapshot in agent.timeline():
            agent.restore(snapshot.id)
            assert "ses-gone" not in [each.id for each in agent.sessions.list()]
        with pytest.raises(SessionNotFound):
            vault.erasures.session("alice", "ses-gone")
        assert vault.erasures.list() == [done]
    assert place.holding(WORD) == []


def test_a_user_that_was_erased_is_nowhere_and_others_are_whole(place: Place) -> None:
    with place.open() as vault:
        vault.events.listen()
        agent = begin(vault)
        talk(agent, "ses-gone", USER, WORD)
        fork = agent.fork("fork")
        agent.memory.add(f"{WORD} likes tea", user_id=USER)
        agent.memory.add("kept likes tea", user_id=OTHER)
        agent.sessions.delete("ses-gone")
        agent.traces.add(  # Who only tells of something may name anybody's session.
            "session.updated", session_id="ses-kept", user_id=USER, resource_type="session"
        )
        talk(vault.namespace("bob"), "ses-1", USER, WORD)
        talk(vault.namespace("left"), "ses-2", USER, WORD)
        vault.delete_namespace("left")
        other = vault.tenant("another")
        talk(other.namespace("alice"), "ses-kept", USER, "kept")
        before = [held(agent), held(fork), held(other.namespace("alice"))]
        done = vault.erasures.user(USER)
        assert [held(agent), held(fork), held(other.namespace("alice"))] == before
        assert vault.namespace("bob").sessions.list() == []
        assert vault.recover_namespace("left").sessions.list() == []
        assert (done.what, done.user_id, done.namespace) == ("user", USER, None)
        assert done.removed["sessions"] == 4
        assert done.removed["memories"] == 9
        assert vault.verify().faults == []
        assert vault.verify_audit().problems == []
        assert other.verify().faults == []
        assert vault.erasures.user("nobody").removed == {}
        with pytest.raises(InvalidName):
            vault.erasures.user("")
        assert [each.user_id for each in vault.erasures.list()] == [None, None]
        other.erasures.user(USER)
    assert place.holding(WORD) == []
    assert place.holding(USER) == [], "the vault forgets whom it has erased"


def test_a_session_that_was_forked_from_it_keeps_what_it_shows_and_no_more(place: Place) -> None:
    with place.open() as vault:
        agent = begin(vault)
        agent.sessions.create("helper", session_id="ses-gone", user_id=USER)
        agent.sessions.add_turn("ses-gone", input="one", output="yes")
        other = agent.sessions.fork("ses-gone", include_turns=True).id
        fork = agent.fork("fork")
        agent.sessions.add_turn("ses-gone", input=WORD, output=WORD)
        done = vault.erasures.session("alice", "ses-gone")
        assert done.copies == sorted([f"alice/{other}", "fork/ses-gone"])
        assert [turn.output.content for turn in agent.sessions.list_turns(other)] == ["yes"]
        assert [turn.number for turn in fork.sessions.list_turns("ses-gone")] == [1]
        agent.sessions.add_turn(other, input="two", output="no")
        assert [turn.number for turn in agent.sessions.list_turns(other)] == [2, 1]
        assert vault.verify().faults == []
    assert place.holding(WORD) == []


Erase = Callable[[Holdfast], object]
ERASE: dict[str, Erase] = {
    "session": lambda vault: vault.erasures.session("alice", "ses-gone"),
    "user": lambda vault: vault.erasures.user(USER),
}


def is_cut_at(place: Place, step: int, erase: Erase) -> bool:
    """Erases it, and cuts the power after so many steps; False if there were fewer."""
    catalog = PostgresCatalog(place.location) if place.is_database else SqliteCatalog(place.folder)
    with closing(catalog), Fuse(step) as fuse:
        blobs = FusedBlobStore(DiskBlobStore(place.packs), fuse)
        erase(Holdfast(Context.of(FusedCatalog(catalog, fuse), blobs)))
    return fuse.blown


@pytest.mark.parametrize("what", ERASE)
def test_one_that_was_cut_off_at_any_step_is_finished_by_the_next(place: Place, what: str) -> None:
    erase, step = ERASE[what], 0
    for step in count(3, 67 if place.is_database else 37):
        with place.open() as vault:
            agent = vault.namespace("alice")
            talk(agent, "ses-gone", USER, WORD)
        if not is_cut_at(place, step, erase):
            break
        with place.open() as vault:
            vault.forget()  # As upkeep does.
            agent = vault.namespace("alice")
            if "ses-gone" in [each.id for each in agent.sessions.list()]:
                erase(vault)  # It had not begun.
            assert vault.verify().faults == []
            assert vault.verify_audit().problems == []
            assert vault.erasures.list()[0].what == what
        assert place.holding(WORD) == []
    assert step > 60


def test_a_backup_that_is_brought_back_has_it_erased_again(place: Place, tmp_path: Path) -> None:
    backup, files = tmp_path / "backup", [tmp_path / "session.json", tmp_path / "user.json"]
    with place.open() as vault:
        agent = begin(vault)
        talk(agent, "ses-gone", "somebody", WORD)
        talk(vault.namespace("bob"), "ses-1", USER, WORD)
        vault.backup(backup)
        certificates = [vault.erasures.session("alice", "ses-gone"), vault.erasures.user(USER)]
        for file, certificate in zip(files, certificates, strict=True):
            file.write_bytes(msgspec.json.encode(certificate))
            assert vault.erasures.again(certificate) is None, "it was erased here already"
        before = held(agent)
    if place.is_database:
        with psycopg.connect(place.location) as connection:
            connection.execute("DROP SCHEMA holdfast CASCADE")
        again = Place(place.location, tmp_path / "again-packs", tmp_path / "again")
    else:
        again = Place(str(tmp_path / "again"), tmp_path / "again-packs", tmp_path / "again")
    holdfast.reinstate(backup, again.location, objects=again.packs, erased=files)
    assert again.holding(WORD) == []
    with again.open() as vault:
        assert held(vault.namespace("alice")) == before
        assert vault.verify_audit().problems == []
        assert {each.what for each in vault.erasures.list()} == {"session", "user"}


OPERATIONS: dict[str, Callable[[holdfast.Namespace, str], object]] = {
    "snapshot": lambda agent, _: agent.snapshot("meanwhile"),
    "restore": lambda agent, target: agent.restore(target),
    "fork": lambda agent, target: agent.fork(f"fork-{target}"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_who_was_at_work_meanwhile_does_not_bring_it_back(tmp_path: Path, operation: str) -> None:
    place = Place(str(tmp_path / "vault"), tmp_path / "packs", tmp_path / "vault")
    with place.open() as vault, closing(SqliteCatalog(place.folder)) as catalog:
        agent = vault.namespace("alice")
        for number in count():
            agent.files.write("file", str(number))
            agent.sessions.create("helper", session_id="ses-gone", initial_state={"a": WORD})
            target = agent.snapshot("with it")
            agent.sessions.update_state("ses-gone", {"b": WORD})
            done = list[holdfast.Certificate]()

            def erase(done: list[holdfast.Certificate] = done) -> None:
                done.append(vault.erasures.session("alice", "ses-gone"))

            act = Interloper(number, erase)
            context = Context.of(FusedCatalog(catalog, act), DiskBlobStore(place.packs))
            OPERATIONS[operation](Holdfast(context).namespace("alice"), target.id)
            if not act.has_acted:
                break
            assert "ses-gone" not in [each.id for each in agent.sessions.list()]
            for copy in done[0].copies:  # A fork that was there before.
                vault.erasures.session(*copy.split("/"))
            vault.collect(now=True)
            assert vault.verify().faults == []
            assert place.holding(WORD) == []


def test_only_what_is_there_is_erased(place: Place) -> None:
    with place.open() as vault:
        begin(vault)
        with pytest.raises(NamespaceNotFound):
            vault.erasures.session("nowhere", "ses-kept")
        with pytest.raises(SessionNotFound):
            vault.erasures.session("alice", "ses-other")
        with pytest.raises(InvalidName):
            vault.erasures.session("alice", "")
        assert vault.erasures.list() == []
