"""Sessions whose time is over, on both catalogs: it is told, once, and soon."""

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import holdfast
from holdfast.engine.namespace import Namespace
from holdfast.engine.sessions import lapsing
from holdfast.errors import Damaged, NothingToUndo, SessionNotFound, StorageFull
from holdfast.testing.clocks import Watch

START = datetime(2025, 3, 1, 12, 30, tzinfo=UTC)


Open = Callable[[], holdfast.Holdfast]


@pytest.fixture
def clock() -> Watch:
    return Watch(START)


@pytest.fixture
def agent(opener: Open) -> Namespace:
    return opener().namespace("alice")


def told(agent: Namespace) -> list[str | None]:
    return [trace.session_id for trace in agent.traces.list(action="session.expired", limit=500)]


def test_whoever_looks_next_leaves_the_trace_of_a_session_that_lapsed(
    agent: Namespace, clock: Watch
) -> None:
    looks: list[Callable[[], object]] = [
        agent.sessions.list,
        agent.traces.list,
        lambda: agent.sessions.get("gone-2"),
        lambda: agent.sessions.get_state("gone-3"),
    ]
    for number, look in enumerate(looks):
        agent.sessions.create("bot", session_id=f"gone-{number}", ttl_seconds=60)
        agent.sessions.create("bot", session_id=f"stays-{number}", ttl_seconds=3600)
        clock.now += timedelta(seconds=60)
        try:
            look()
        except SessionNotFound:
            assert number >= 2
        with agent._handle.context.catalog.read() as transaction:
            assert transaction.sessions_to_end(None, now=clock.now, most=9) == []
    assert told(agent) == [f"gone-{number}" for number in (3, 2, 1, 0)]
    assert [each.id for each in agent.sessions.list()] == [f"stays-{n}" for n in (3, 2, 1, 0)]


def test_the_trace_says_when_it_was_over_and_what_there_was(agent: Namespace, clock: Watch) -> None:
    session = agent.sessions.create("bot", user_id="ann", ttl_seconds=60)
    agent.memory.add("kept", session_id=session.id)
    agent.sessions.add_turn(session.id, "i", "o")
    clock.now += timedelta(hours=1)
    (trace,) = agent.traces.list(action="session.expired")
    assert (trace.session_id, trace.agent_id, trace.user_id) == (session.id, "bot", "ann")
    assert trace.details == {
        "expired_at": (START + timedelta(seconds=60)).isoformat(),
        "ttl_seconds": 60,
        "last_activity": START.isoformat(),
        "turn_count": 1,
    }
    assert len(agent.memory.list()) == 1


def test_a_new_term_and_an_end_of_ones_own_are_no_lapse(agent: Namespace, clock: Watch) -> None:
    for name in ("longer", "deleted"):
        agent.sessions.create("bot", session_id=name, ttl_seconds=60)
    agent.sessions.update("longer", ttl_seconds=120)
    agent.sessions.delete("deleted")
    clock.now += timedelta(seconds=61)
    assert told(agent) == []
    assert agent.sessions.get("longer").id == "longer"
    clock.now += timedelta(seconds=60)
    assert told(agent) == ["longer"]


def test_many_who_look_at_once_tell_each_lapse_once(opener: Open, clock: Watch) -> None:
    vaults = [opener() for _ in range(3)]
    agents = [vaults[0].namespace(name) for name in ("alice", "bob")]
    for agent in agents:
        for number in range(20):
            agent.sessions.create("bot", session_id=f"s-{number}", ttl_seconds=60)
    clock.now += timedelta(seconds=60)
    with ThreadPoolExecutor(6) as pool:
        looking = [pool.submit(vaults[n % 3].end_lapsed_sessions) for n in range(6)]
        assert sum(look.result() for look in looking) == 40
    for agent in agents:
        assert sorted(map(str, told(agent))) == sorted(f"s-{number}" for number in range(20))
    assert vaults[0].verify_audit().is_sound


def test_on_a_full_disk_a_look_tries_a_few_of_them_and_is_answered(
    agent: Namespace, clock: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lapsing, "MOST", 3)
    for number in range(12):
        agent.sessions.create("bot", session_id=f"s-{number}", ttl_seconds=60)
    clock.now += timedelta(seconds=60)
    tried = list[str]()

    def on_a_full_disk(_: object, __: object, *, about: tuple[str, None]) -> int:
        tried.append(about[0])
        raise StorageFull("vault")

    with monkeypatch.context() as full:
        full.setattr(lapsing, "write", on_a_full_disk)
        assert agent.sessions.list() == []
    assert len(tried) == 1
    assert len(told(agent)) == 12


def test_a_crowd_is_ended_some_at_a_time(
    opener: Open, clock: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lapsing, "MOST", 3)
    vault = opener()
    agent = vault.namespace("alice")
    for number in range(7):
        agent.sessions.create("bot", session_id=f"s-{number}", ttl_seconds=60)
    clock.now += timedelta(seconds=60)
    assert [vault.end_lapsed_sessions() for _ in range(4)] == [3, 3, 1, 0]
    assert len(told(agent)) == 7


def test_a_session_that_comes_back_and_lapses_again_is_told_again(
    agent: Namespace, clock: Watch
) -> None:
    agent.sessions.create("bot", session_id="s", ttl_seconds=60)
    before = agent.snapshot()
    agent.sessions.delete("s")
    agent.restore(before)
    clock.now += timedelta(days=2)
    assert told(agent) == ["s"]
    agent.snapshot("without it")
    assert agent.at(agent.timeline()[0]).sessions.list() == []


def gone_back(agent: Namespace, clock: Watch, *, after: timedelta) -> list[bytes]:
    """Undoes all that can be; returns what a file said after each, and looks in between."""
    seen = list[bytes]()
    with suppress(NothingToUndo):
        while True:
            clock.now += after
            agent.sessions.list()
            would = agent.undo(dry_run=True)
            done = agent.undo()
            assert (would.target, would.root) == (done.target, done.root)
            seen.append(agent.files.read("f"))
            assert len(seen) < 9, "it leads nowhere"
    return seen


@pytest.mark.parametrize("after", [timedelta(0), timedelta(minutes=1), timedelta(days=2)])
@pytest.mark.parametrize("is_over", [True, False])
def test_an_undo_passes_over_a_session_that_is_over(
    opener: Open, agent: Namespace, clock: Watch, after: timedelta, *, is_over: bool
) -> None:
    """Whether it was when the snapshot was taken, or since, and however often it comes back."""
    agent.files.write("f", b"1")
    agent.snapshot("good")
    agent.sessions.create("bot", session_id="s", initial_state={"n": "x" * 5000}, ttl_seconds=60)
    agent.sessions.update_state("s", {"m": 1})
    agent.files.write("f", b"2")
    clock.now += timedelta(seconds=60 * is_over)
    agent.snapshot("bad")
    clock.now += timedelta(seconds=60)
    assert agent.sessions.list() == []
    before = len(agent.timeline(limit=None))
    assert gone_back(agent, clock, after=after) == [b"1"]
    assert len(agent.timeline(limit=None)) == before + 2
    agent.redo()
    assert agent.files.read("f") == b"2"
    assert [each.id for each in agent.sessions.list()] == ([] if is_over else ["s"])
    vault = opener()
    assert vault.verify().faults == []
    assert vault.verify_audit().is_sound


def test_an_undo_leads_out_of_forks_and_imports_whose_sessions_are_over(
    opener: Open, agent: Namespace, clock: Watch, tmp_path: Path
) -> None:
    agent.files.write("f", b"1")
    agent.sessions.create("bot", session_id="s", ttl_seconds=60)
    then = agent.snapshot("alive")
    agent.export(tmp_path / "archive.tar", snapshot=then)
    clock.now += timedelta(days=1)
    vault = opener()
    fork, other = agent.fork("fork", at=then), vault.namespace("other")
    for text in (b"2", b"3"):
        fork.files.write("f", text)
        fork.snapshot()
        other.files.write("f", text)
        other.snapshot()
    other.import_(tmp_path / "archive.tar")
    assert gone_back(fork, clock, after=timedelta(minutes=2)) == [b"2", b"1"]
    assert gone_back(other, clock, after=timedelta(minutes=2)) == [b"3", b"2"]
    assert vault.verify().faults == []


def test_an_undo_of_a_directory_passes_over_them_too(
    opener: Open, clock: Watch, tmp_path: Path
) -> None:
    (tree := tmp_path / "tree").mkdir()
    with opener().workspace(tree) as workspace:
        sessions = workspace.namespace.sessions
        (tree / "f").write_text("1")
        workspace.snapshot()
        sessions.create("bot", session_id="s", ttl_seconds=60)
        clock.now += timedelta(seconds=60)
        (tree / "f").write_text("2")
        workspace.snapshot()
        (tree / "f").write_text("3")
        for text in ("2", "1"):
            assert sessions.list() == []
            would = workspace.undo(dry_run=True)
            done = workspace.undo()
            assert (would.target, would.changes) == (done.target, done.changes)
            assert (tree / "f").read_text() == text
            clock.now += timedelta(days=1)
        assert sessions.list() == []
        with pytest.raises(NothingToUndo):
            workspace.undo()


def test_what_somebody_did_with_a_session_that_is_over_now_is_undone(
    agent: Namespace, clock: Watch
) -> None:
    agent.sessions.create("bot", session_id="changed", initial_state={"v": 1}, ttl_seconds=60)
    agent.sessions.create("bot", session_id="deleted", initial_state={"v": 1}, ttl_seconds=60)
    agent.files.write("f", b"1")
    agent.snapshot()
    for act in (
        lambda: agent.sessions.delete("deleted"),
        lambda: agent.sessions.update_state("changed", {"v": 2}),
        lambda: agent.sessions.update("changed", ttl_seconds=90),
        lambda: agent.files.write("f", b"2"),
    ):
        act()
        clock.now += timedelta(hours=1)
        assert agent.sessions.list() == []
        agent.undo()
        found = {each.id: each.state for each in agent.sessions.list()}
        assert found == {"changed": {"v": 1}, "deleted": {"v": 1}}
    assert agent.files.read("f") == b"1"


def test_a_damaged_session_keeps_nobody_from_the_others(tmp_path: Path, clock: Watch) -> None:
    with holdfast.open(tmp_path / "vault", clock=clock) as vault:
        vault.namespace("broken").sessions.create("bot", session_id="gone", ttl_seconds=60)
        vault.namespace("sound").sessions.create("bot", session_id="here")
    with closing(sqlite3.connect(tmp_path / "vault" / "catalog.sqlite")) as connection, connection:
        connection.execute("UPDATE versions SET kind = 'none' WHERE session_id = 'gone'")
    clock.now += timedelta(hours=1)
    with holdfast.open(tmp_path / "vault", clock=clock) as vault:
        assert [each.id for each in vault.namespace("sound").sessions.list()] == ["here"]
        assert vault.namespace("sound").traces.list()
        with pytest.raises(Damaged):
            vault.end_lapsed_sessions()


@pytest.mark.parametrize("bad", [2, 3, 7])
def test_what_cannot_be_ended_is_in_nobodys_way(
    tmp_path: Path, clock: Watch, monkeypatch: pytest.MonkeyPatch, bad: int
) -> None:
    """Of the same namespace and of another, however many stand before the others."""
    monkeypatch.setattr(lapsing, "MOST", 3)
    with holdfast.open(tmp_path / "vault", clock=clock) as vault:
        for number in range(bad):
            vault.namespace("a").sessions.create("bot", session_id=f"bad-{number}", ttl_seconds=60)
        for name in ("a", "b"):
            for number in range(2):
                vault.namespace(name).sessions.create(
                    "bot", session_id=f"{name}-{number}", ttl_seconds=61
                )
    with closing(sqlite3.connect(tmp_path / "vault" / "catalog.sqlite")) as connection, connection:
        connection.execute("UPDATE versions SET kind = 'none' WHERE session_id LIKE 'bad-%'")
    clock.now += timedelta(hours=1)
    with holdfast.open(tmp_path / "vault", clock=clock) as vault:
        for _ in range(2):
            with pytest.raises(Damaged):
                vault.end_lapsed_sessions()
        for name in ("a", "b"):
            assert sorted(map(str, told(vault.namespace(name)))) == [f"{name}-0", f"{name}-1"]


@pytest.mark.parametrize("us", [2**62, -(2**62)])
def test_an_instant_that_no_calendar_has_is_damage(tmp_path: Path, clock: Watch, us: int) -> None:
    with holdfast.open(tmp_path / "vault", clock=clock) as vault:
        vault.namespace("a").sessions.create("bot", session_id="s")
        vault.namespace("a").sessions.add_turn("s", "i", "o")
    for table, column in (("turns", "created_at"), ("versions", "created_at")):
        catalog = tmp_path / "vault" / "catalog.sqlite"
        with closing(sqlite3.connect(catalog)) as connection, connection:
            connection.execute(f"UPDATE {table} SET {column} = {us}")
        with holdfast.open(tmp_path / "vault", clock=clock) as vault:
            sessions = vault.namespace("a").sessions
            with pytest.raises(Damaged, match="not what was written"):
                list(sessions.list_turns("s")) + list(sessions.history("s"))


def test_another_tenant_hears_nothing(opener: Open, clock: Watch) -> None:
    vault = opener()
    mine, theirs = vault.namespace("n"), vault.tenant("other").namespace("n")
    theirs.sessions.create("bot", session_id="s", ttl_seconds=60)
    clock.now += timedelta(seconds=60)
    assert (told(mine), told(theirs)) == ([], ["s"])
