"""Many writers of one session, in several processes, on both catalogs: nobody's work is lost."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Barrier

import msgspec
import pytest

import holdfast
from holdfast.engine.namespace import Namespace
from holdfast.engine.sessions.writing import entry_of
from holdfast.engine.vault import Holdfast
from holdfast.errors import NothingToUndo
from holdfast.model.basics import Plane, Size
from holdfast.testing.faults import contents

pytestmark = pytest.mark.in_memory

SCRIPT = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
import holdfast
from holdfast.errors import StateMoved
where, objects, number, threads, each = sys.argv[1:]
vault = holdfast.open(where, objects=objects or None)
sessions = vault.namespace("agent").sessions
def work(thread):
    return [do(f"{number}-{thread}-{turn}") for turn in range(int(each))]
print("ready", flush=True)
sys.stdin.readline()
with ThreadPoolExecutor(int(threads)) as pool:
    said = [line for lines in pool.map(work, range(int(threads))) for line in lines]
vault.close()
print(json.dumps(said))
"""

UPDATE = """
def do(key):
    return [key, sessions.update_state("shared", {key: key}, reasoning=key).version]
"""

RACE = """
def do(key):
    try:
        return [key, sessions.update_state("shared", {"winner": key}, expected_version=0).version]
    except StateMoved as exc:
        assert exc.expected == 0 < exc.actual
        return [key, None]
"""

COUNT = """
def do(key):
    tries = 0
    while True:
        tries += 1
        seen = sessions.get_state("shared")
        try:
            more = {"count": seen.state["count"] + 1}
            made = sessions.update_state("shared", more, expected_version=seen.version)
            return [key, made.version]
        except StateMoved:
            assert tries < 1000
"""

TALK = """
def do(key):
    turn = sessions.add_turn("shared", key, "o", state_after={"last": key})
    return [key, turn.number]
"""

APART = """
def do(key):
    own = vault.namespace(key.rpartition("-")[0]).sessions
    session = own.create("agent").id
    return [key, [own.update_state(session, {key: turn}).version for turn in range(5)][-1]]
"""


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    if request.param == "sqlite":
        return str(tmp_path / "vault"), ""
    return request.getfixturevalue("postgres_url"), str(tmp_path / "packs")


@pytest.fixture
def vault(where: tuple[str, str]) -> Iterator[Holdfast]:
    with holdfast.open(where[0], objects=where[1] or None) as opened:
        opened.namespace("agent").sessions.create(
            "agent", session_id="shared", initial_state={"count": 0}
        )
        yield opened


def run(
    where: tuple[str, str],
    script: str,
    *,
    processes: int = 3,
    threads: int = 2,
    each: int = 3,
) -> dict[str, int | None]:
    """Runs a script in several processes that begin at once; returns all that they have said."""
    begin, end = SCRIPT.split('print("ready"')
    source = f'{begin}{script}\nprint("ready"{end}'
    with ExitStack() as cleanup:
        children = []
        for number in range(processes):
            arguments = [*where, str(number), str(threads), str(each)]
            child = subprocess.Popen(
                [sys.executable, "-c", source, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            cleanup.enter_context(child)
            cleanup.callback(child.kill)
            children.append(child)
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n", child.communicate()[1]
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        said = list[tuple[str, int | None]]()
        for child in children:
            answer, complaint = child.communicate(timeout=60)
            assert complaint == ""
            said += msgspec.json.decode(answer, type=list[tuple[str, int | None]])
    assert len(said) == processes * threads * each
    return dict(said)


def check_sound(vault: Holdfast) -> None:
    assert vault.verify().faults == []
    assert vault.verify_audit().is_sound


def test_fifty_updates_at_once_are_fifty_versions_with_all_keys(
    where: tuple[str, str], vault: Holdfast
) -> None:
    said = run(where, UPDATE, processes=5, threads=2, each=5)
    assert sorted(version or 0 for version in said.values()) == list(range(1, 51))
    sessions = vault.namespace("agent").sessions
    found = sessions.get_state("shared")
    assert found.version == 50
    assert found.state == {"count": 0, **{key: key for key in said}}
    history = sessions.history("shared", limit=100)
    assert [version.number for version in history] == list(range(51))
    by_number = {version: key for key, version in said.items()}
    for before, after in pairwise(history):
        key = by_number[after.number]
        assert after.reasoning == key
        assert after.state == {**(before.state or {}), key: key}, "one key more, each time"
    assert len({version.trace_id for version in history}) == 51
    check_sound(vault)


def test_writers_of_namespaces_of_their_own_share_one_chain_of_traces(
    where: tuple[str, str], vault: Holdfast
) -> None:
    said = run(where, APART, processes=4, threads=2, each=3)
    assert set(said.values()) == {5}
    found = Counter(trace.action for trace in vault.traces.list(action="state.updated", limit=1000))
    assert found == {"state.updated": 5 * len(said)}
    check_sound(vault)


def test_of_many_who_expect_the_same_version_one_wins(
    where: tuple[str, str], vault: Holdfast
) -> None:
    said = run(where, RACE, threads=4, each=1)
    [(winner, version)] = [(key, version) for key, version in said.items() if version is not None]
    assert version == 1
    found = vault.namespace("agent").sessions.get_state("shared")
    assert (found.version, found.state) == (1, {"count": 0, "winner": winner})
    check_sound(vault)


def test_a_counter_that_is_compared_and_set_counts_everybody(
    where: tuple[str, str], vault: Holdfast
) -> None:
    said = run(where, COUNT, threads=1, each=5)
    assert sorted(version or 0 for version in said.values()) == list(range(1, len(said) + 1))
    found = vault.namespace("agent").sessions.get_state("shared")
    assert (found.version, found.state) == (len(said), {"count": len(said)})


def test_turns_of_many_are_one_conversation(where: tuple[str, str], vault: Holdfast) -> None:
    said = run(where, TALK)
    assert sorted(number or 0 for number in said.values()) == list(range(1, len(said) + 1))
    sessions = vault.namespace("agent").sessions
    turns = sessions.list_turns("shared", limit=100, order="asc", include_state=True)
    assert [turn.number for turn in turns] == list(range(1, len(said) + 1))
    for turn in turns:
        key = turn.input["content"]
        assert said[key] == turn.number
        assert turn.state_after == {"last": key}
    assert sessions.get("shared").turn_count == len(said)
    check_sound(vault)


def test_a_session_of_one_id_is_created_once(where: tuple[str, str], vault: Holdfast) -> None:
    create = """
from holdfast.errors import SessionExists
def do(key):
    try:
        sessions.create("agent", session_id=f"new{key[-1]}", initial_state={"by": key})
        return [key, 1]
    except SessionExists:
        return [key, 0]
"""
    said = run(where, create, each=3)
    made = {key for key, is_made in said.items() if is_made}
    assert sorted(key[-1] for key in made) == ["0", "1", "2"]
    sessions = vault.namespace("agent").sessions
    assert {sessions.get(f"new{key[-1]}").state["by"] for key in made} == made
    assert vault.namespace("agent").size().entries == 4


def test_a_namespace_and_its_fork_go_on_from_the_same_turn(vault: Holdfast) -> None:
    """Each holds its own head; what they share is the branch."""
    agent = vault.namespace("agent")
    for number in range(8):
        name = agent.sessions.create("agent").id
        agent.sessions.add_turn(name, "Hello", "Hi")
        fork = agent.fork(f"fork {number}")
        fork.sessions.get(name)
        barrier = Barrier(2)

        def go_on(who: str, *, name: str = name, barrier: Barrier = barrier) -> list[str]:
            sessions = vault.namespace(who).sessions
            barrier.wait()
            sessions.add_turn(name, who, "o")
            turns = sessions.list_turns(name, order="asc")
            return [turn.input["content"] for turn in turns]

        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(go_on, ["agent", fork.name]))
        assert found == [["Hello", "agent"], ["Hello", fork.name]]
    check_sound(vault)


def test_many_who_look_at_a_new_fork_at_once_see_the_same(vault: Holdfast) -> None:
    agent = vault.namespace("agent")
    agent.sessions.update_state("shared", {"count": 1})
    for number in range(5):
        fork, barrier = agent.fork(f"fork {number}"), Barrier(4)

        def look(_: int, *, name: str = fork.name, barrier: Barrier = barrier) -> tuple[str, int]:
            sessions = vault.namespace(name).sessions
            barrier.wait()
            [session] = sessions.list()
            return session.id, session.version

        with ThreadPoolExecutor(4) as threads:
            assert Counter(threads.map(look, range(4))) == {("shared", 0): 4}
        assert [version.number for version in fork.sessions.history("shared")] == [0]


def talk(agent: Namespace, seed: int) -> None:
    """Changes a session in every way."""
    rng, sessions = Random(seed), agent.sessions
    for number in range(15):
        match rng.randrange(5):
            case 0:
                sessions.add_turn("shared", "i", "o", state_after={"said": number})
            case 1:
                sessions.rollback("shared", 0, conversation=True)
            case 2:
                sessions.update("shared", metadata={"by": seed})
            case 3:
                sessions.fork("shared", include_turns=True)
            case _:
                sessions.update_state("shared", {f"key {seed}": number})


def move(agent: Namespace, seed: int) -> None:
    """Moves the whole namespace, back and forth."""
    rng, snapshots = Random(seed), [agent.snapshot()]
    for _ in range(8):
        with suppress(NothingToUndo):
            match rng.randrange(4):
                case 0:
                    snapshots.append(agent.snapshot())
                case 1:
                    agent.restore(rng.choice(snapshots))
                case 2:
                    agent.undo()
                case _:
                    agent.redo()


def test_sessions_that_change_while_their_namespace_moves_stay_whole(vault: Holdfast) -> None:
    agent = vault.namespace("agent")
    with ThreadPoolExecutor(5) as threads:
        moves = [threads.submit(move, agent, seed) for seed in range(2)]
        talks = [threads.submit(talk, agent, seed) for seed in range(3)]
        for done in (*moves, *talks):
            done.result(timeout=60)
    check_rows_are_what_the_plane_holds(vault)
    numbers = [version.number for version in agent.sessions.history("shared", limit=None)]
    assert numbers == list(range(len(numbers)))
    check_sound(vault)


def check_rows_are_what_the_plane_holds(vault: Holdfast) -> None:
    context = vault._context
    with context.catalog.read() as transaction:
        tenant = transaction.find_tenant("default")
        assert tenant is not None
        head = transaction.find_head(tenant.id, "agent")
        assert head is not None
        held = contents(context, head)
        for (plane, key), (entry, _) in held.items():
            assert plane is Plane.SESSIONS
            found = transaction.find_session(tenant.id, "agent", key.decode())
            assert found is not None
            assert found[0].is_present
            assert entry_of(*found) == entry
    listed = vault.namespace("agent").sessions.list(limit=None)
    assert {session.id.encode() for session in listed} == {key for _, key in held}
    assert head.size == Size(len(held), sum(entry.size for entry, _ in held.values()))
