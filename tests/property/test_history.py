"""A history is what somebody would find who looked into every snapshot, one after the other.

The model keeps what each snapshot held in plain dicts. Snapshots are deleted at random, some things
are restored, some are pending, and pages are so small that every history has several. Names sort
before and after a slash, so that what lies in a directory has strangers for neighbours.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.engine.timeline import history as histories
from holdfast.errors import HoldfastError
from holdfast.model.names import Name
from holdfast.testing.postgres import PostgresServer

_NUMBERS = count(1)
PATHS = ["a", "a/b", "a/b/c", "a-", "a.b", "a0", "b"]
KEYS = [("n", "a"), ("n", "b"), ("", "a")]
SESSIONS = ["s", "t"]

acts = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(PATHS), st.integers(0, 2)),
    st.tuples(st.just("remove"), st.sampled_from(PATHS), st.just(0)),
    st.tuples(st.just("set"), st.sampled_from(KEYS), st.integers(0, 2)),
    st.tuples(st.just("unset"), st.sampled_from(KEYS), st.just(0)),
    st.tuples(st.just("state"), st.sampled_from(SESSIONS), st.integers(0, 2)),
    st.tuples(st.just("snapshot"), st.just(""), st.just(0)),
    st.tuples(st.just("snapshot"), st.just(""), st.just(1)),
    st.tuples(st.just("delete"), st.just(""), st.integers(0, 5)),
    st.tuples(st.just("restore"), st.just(""), st.integers(0, 5)),
)


@dataclass(frozen=True)
class World:
    """All that there is at one moment, as text by name."""

    held: dict[tuple[str, object], object]

    def of(self, name: Name) -> dict[tuple[str, object], object]:
        """Returns what is meant by a name, and what lies in it."""
        if name.plane == "store":
            mine = {("store", (name.namespace, name.key))}
        elif name.plane == "sessions":
            mine = {("sessions", name.name)}
        else:
            folder = f"{name.name}/"
            mine = {
                (plane, path)
                for plane, path in self.held
                if plane == "files" and (path == name.name or str(path).startswith(folder))
            }
        return {key: value for key, value in self.held.items() if key in mine}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def vault(request: pytest.FixtureRequest, home: Path) -> Iterator[holdfast.Holdfast]:
    folder = home / request.param
    if request.param == "sqlite":
        with holdfast.open(folder) as opened:
            yield opened
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = server.create_database()
    with holdfast.open(server.dsn(name), objects=folder) as opened:
        yield opened
    server.drop_database(name)


def remove(agent: holdfast.Namespace, path: str) -> None:
    """Removes a file, and directories that are emptied by that: they would stay."""
    agent.files.delete(path)
    for above in [str(each) for each in PurePosixPath(path).parents][:-1]:
        if not agent.files.list(above):
            agent.files.delete(above)


def do(agent: holdfast.Namespace, act: str, what: object, number: int) -> None:
    match act, what:
        case "write", str():
            agent.files.write(what, f"{number}" * (number + 1))
        case "remove", str():
            remove(agent, what)
        case "set", (namespace, key):
            agent.store.set(namespace, key, number)
        case "unset", (namespace, key):
            agent.store.delete(namespace, key)
        case "state", str():
            if what not in {each.id for each in agent.sessions.list()}:
                agent.sessions.create("a", session_id=what)
            agent.sessions.replace_state(what, {"n": number})
        case "snapshot", _:
            agent.snapshot(f"label {number}", task_id=f"task {number}")
        case _:
            usable = agent.timeline()
            if usable and act == "restore":
                agent.restore(usable[number % len(usable)])
            elif usable:
                agent.delete_snapshot(usable[number % len(usable)])


def look(agent: holdfast.Namespace | holdfast.Moment) -> World:
    held: dict[tuple[str, object], object] = {
        ("files", info.path): (info.kind, agent.files.read(info.path))
        for info in agent.files.list(recursive=True)
        if info.kind != "directory"
    }
    held |= {("store", pair): value for pair, value in agent.store.items()}
    for session in agent.sessions.list():
        state = agent.sessions.get_state(session.id)
        # One that was made anew is another, whatever its state is.
        held["sessions", session.id] = session.created_at, state.state
    return World(held)


def model(worlds: list[tuple[holdfast.SnapshotInfo | None, World]], name: Name) -> list[object]:
    """Returns the steps of a thing, of moments newest first."""
    steps: list[object] = []
    for (snapshot, new), (older, old) in pairwise([*worlds, (None, World({}))]):
        before, after = old.of(name), new.of(name)
        if before != after:
            word = "changed" if before and after else "added" if after else "removed"
            changed = {k for k in before | after if before.get(k) != after.get(k)}
            ids = [None if each is None else each.id for each in (snapshot, older)]
            steps.append((word, *ids, len(changed)))
    return steps


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(done=st.lists(acts, max_size=25), most=st.integers(1, 4), batch=st.integers(1, 3))
def test_a_history_is_what_a_look_into_every_snapshot_finds(
    vault: holdfast.Holdfast,
    monkeypatch: pytest.MonkeyPatch,
    done: list[tuple[str, object, int]],
    most: int,
    batch: int,
) -> None:
    monkeypatch.setattr(histories, "BATCH", batch)
    monkeypatch.setattr(histories, "PAGE_SNAPSHOTS", 2)
    agent = vault.namespace(f"agent-{next(_NUMBERS)}")
    for act, what, number in done:
        try:
            do(agent, act, what, number)
        except HoldfastError:
            continue  # It is not there, or something is in the way.
    timeline = agent.timeline()
    moments = [(each, look(agent.at(each))) for each in timeline]
    worlds = [(None, look(agent)), *moments]
    names = [Name.file(path) for path in PATHS]
    names += [Name.value(*key) for key in KEYS] + [Name.session(each) for each in SESSIONS]
    for name in names:
        found = agent.history(name)
        told = [
            (s.change, None if s.snapshot is None else s.snapshot.id, s.previous, s.entries)
            for s in found
        ]
        assert told == model(worlds, name), name
        assert found.before is None
        paged: list[holdfast.Step] = []
        before: int | None = None
        while True:
            page = agent.history(name, limit=most, before=before)
            paged += page
            assert len(page) <= most
            assert before is None or page.before is None or page.before < before
            before = page.before
            if before is None:
                break
        assert paged == list(found)
