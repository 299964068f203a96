"""What the pages of other products promise and people who come from there rely on.

Each is asked for through the embedded door and through a server, on both databases: the same
test, the same answers.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import trove_sdk.models
from statebase.models import (  # pyright: ignore[reportMissingTypeStubs] - it has none
    ContextResponse,
    MemoryResponse,
    MemorySearchResult,
    SessionResponse,
    StateGetResponse,
    TurnResponse,
)

import holdfast
from holdfast import errors
from holdfast.engine.namespace import Namespace
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.servers import Begin, Server, running_server

pytestmark = pytest.mark.in_memory

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def on_sqlite(home: Path, at_once: Begin) -> Iterator[Server]:
    with running_server(home / "sqlite", begin=at_once) as started:
        yield started


@pytest.fixture(scope="module")
def on_postgres(home: Path, at_once: Begin, postgres: PostgresServer) -> Iterator[Server]:
    name = postgres.create_database()
    environ = {"HOLDFAST_DATABASE_URL": postgres.dsn(name)}
    with running_server(home / "postgres", environ=environ, begin=at_once) as started:
        yield started
    postgres.drop_database(name)


EMBEDDED, SERVED = ("sqlite", "postgres_url"), ("on_sqlite", "on_postgres")


@pytest.fixture(
    params=[
        each if each in ("sqlite", "on_sqlite") else pytest.param(each, marks=pytest.mark.postgres)
        for each in (*EMBEDDED, *SERVED)
    ]
)
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Namespace]:
    """A namespace of its own, behind one of four doors."""
    name = f"agent-{next(_NUMBERS)}"
    if request.param in EMBEDDED:
        where = (
            tmp_path / "vault"
            if request.param == "sqlite"
            else request.getfixturevalue("postgres_url")
        )
        with holdfast.open(where, objects=tmp_path / "packs") as vault:
            yield vault.namespace(name)
        return
    server: Server = request.getfixturevalue(request.param)
    with holdfast.Client(server.api_key, url=server.url, namespace=name) as client:
        yield cast("Namespace", client)


def told(agent: Namespace, action: str) -> list[dict[str, Any]]:
    return [trace.details for trace in agent.traces.list(action=action)]


# A context


def test_a_context_holds_as_many_memories_as_asked_for_whatever_their_score(
    agent: Namespace,
) -> None:
    session = agent.sessions.create("bot")
    for text in ("blue sky", "green grass", "red wine", "blue sea"):
        agent.memory.add(text, session_id=session.id)
    agent.memory.add("grey stone", session_id=session.id, embed=False)
    found = agent.sessions.get_context(session.id, "what is the blue sky", memory_limit=4)
    assert [each.memory.content for each in found.memories] == [
        "blue sky",
        "blue sea",
        "red wine",
        "green grass",
    ]
    scores = [each.score for each in found.memories]
    assert scores[0] > scores[1] > scores[2] == scores[3] == 0.0
    assert found.average_relevance == pytest.approx(sum(scores) / 4)
    assert not found.drift_warning, "what fills up is no sign of drift"
    few = agent.sessions.get_context(session.id, "what is the blue sky", memory_limit=3)
    assert few.memories == found.memories[:3]
    nothing = agent.sessions.get_context(session.id, "quantum chromodynamics", memory_limit=20)
    assert [each.score for each in nothing.memories] == [0.0] * 4
    assert nothing.drift_warning


def test_a_context_is_filled_from_what_the_session_sees_alone(agent: Namespace) -> None:
    ann, bob = (agent.sessions.create("bot", user_id=user) for user in ("ann", "bob"))
    agent.memory.add("the passport of ann", session_id=ann.id)
    agent.memory.add("for everybody")
    found = agent.sessions.get_context(bob.id, "quantum", memory_limit=20)
    assert [each.memory.content for each in found.memories] == ["for everybody"]


# Reasons


def test_the_trace_of_a_rollback_says_why_also_if_nobody_did(agent: Namespace) -> None:
    session = agent.sessions.create("bot", initial_state={"n": 0})
    agent.sessions.update_state(session.id, {"n": 1})
    agent.sessions.rollback(session.id, 0)
    agent.sessions.rollback(session.id, -1, reason="")
    agent.sessions.rollback(session.id, 0, reason="it was wrong")
    assert [each["reason"] for each in told(agent, "state.rolled_back")] == [
        "it was wrong",
        "rollback to version 1",
        "rollback to version 0",
    ]
    before = agent.snapshot("before")
    agent.files.write("a", "1")
    agent.restore(before)
    agent.undo()
    agent.redo()
    agent.restore(before, reason="it was wrong")
    assert [each["reason"] for each in told(agent, "snapshot.restored")] == [
        "it was wrong",
        f"restore {before.id}",
    ]
    assert all(each["reason"] for each in told(agent, "snapshot.undone"))
    assert all(each["reason"] for each in told(agent, "snapshot.redone"))


def test_the_first_version_has_a_reasoning(agent: Namespace) -> None:
    session = agent.sessions.create("bot", initial_state={"n": 0})
    agent.sessions.update_state(session.id, {"n": 1}, reasoning="one more")
    agent.sessions.update_state(session.id, {"n": 2})
    fork = agent.sessions.fork(session.id, 1)
    assert [each.reasoning for each in agent.sessions.history(session.id)] == [
        "initial state",
        "one more",
        None,
    ]
    (first,) = agent.sessions.history(fork.id)
    assert first.reasoning == f"forked from {session.id} at version 1"
    agent.snapshot("here")
    copy = agent.fork(f"copy-{next(_NUMBERS)}")
    first = copy.sessions.history(session.id)[0]
    assert first.reasoning == "came with the namespace, which was forked or imported"


# Turns


def test_a_turn_keeps_the_states_that_it_was_given(agent: Namespace) -> None:
    session = agent.sessions.create("bot", initial_state={"n": 0})
    add = agent.sessions.add_turn
    claimed = {"n": 7, "deep": {"list": [1, None, 2.5, "ü"]}}
    first = add(session.id, "a", "b", state_before=claimed, state_after={"n": 1})
    assert (first.state_before, first.state_after) == (claimed, {"n": 1})
    assert (first.version_before, first.version_after) == (0, 1)
    same = add(session.id, "c", "d", state_before={"n": 9}, state_after={"n": 9})
    assert (same.state_before, same.state_after) == ({"n": 9}, {"n": 9})
    assert (same.version_before, same.version_after) == (1, 1), "it says that nothing changed"
    alone = add(session.id, "e", "f", state_before={})
    assert alone.state_before == {}
    agent.sessions.update_state(session.id, {"n": 2})
    shown = agent.sessions.list_turns(session.id, include_state=True, order="asc")
    assert [turn.state_before for turn in shown] == [claimed, {"n": 9}, {}]
    assert [turn.state_after for turn in shown] == [{"n": 1}, {"n": 9}, {"n": 1}]
    read = agent.sessions.get_turn(session.id, first.id, include_state=True)
    assert read.state_before == claimed
    assert agent.sessions.get_state(session.id).state == {"n": 2}
    fork = agent.sessions.fork(session.id, include_turns=True)
    again = agent.sessions.list_turns(fork.id, include_state=True, order="asc")
    assert [turn.state_before for turn in again] == [claimed, {"n": 9}, {}]


# Values that cannot be kept


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


def containing_itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["list"] = [1, value]
    return value


ENDLESS = {
    "too deep": nested(100_000),
    "too deep for a body": nested(1_500),
    "itself": containing_itself(),
    "more digits than text has": {"n": 10**5000},
}
TOO_LARGE = {"2**64": {"n": 2**64}, "below": {"n": -(2**63) - 1}, "inside": {"n": [(1, {2**70})]}}


@pytest.mark.parametrize("value", ENDLESS.values(), ids=ENDLESS)
def test_what_has_no_end_is_a_value_error_of_ours_everywhere(
    agent: Namespace, value: dict[str, Any]
) -> None:
    session = agent.sessions.create("bot", initial_state={"n": 0}).id
    remembered = agent.memory.add("something").id
    refusals = [
        lambda: agent.store.set("n", "k", value),
        lambda: agent.store.set_many([("n", "k", value)]),
        lambda: agent.sessions.create("bot", initial_state=value),
        lambda: agent.sessions.create("bot", metadata=value),
        lambda: agent.sessions.update(session, metadata=value),
        lambda: agent.sessions.update_state(session, value),
        lambda: agent.sessions.replace_state(session, value),
        lambda: agent.sessions.add_turn(session, value, "said"),
        lambda: agent.sessions.add_turn(session, "asked", "said", metadata=value),
        lambda: agent.sessions.add_turn(session, "asked", "said", state_before=value),
        lambda: agent.sessions.add_tool_call(session, "tool", arguments=value),
        lambda: agent.sessions.add_tool_call(session, "tool", output=value),
        lambda: agent.memory.add("something else", metadata=value),
        lambda: agent.memory.update(remembered, metadata=value),
        lambda: agent.traces.add("mine", details=value),
    ]
    for refused in refusals:
        with pytest.raises(errors.InvalidValue) as caught:
            refused()
        assert isinstance(caught.value, ValueError)
    assert not agent.store.contains("n", "k")
    assert [each.id for each in agent.sessions.list()] == [session]
    assert agent.sessions.get(session).turn_count == 0
    assert len(agent.memory.list()) == 1


@pytest.mark.parametrize("value", TOO_LARGE.values(), ids=TOO_LARGE)
def test_an_integer_that_a_store_cannot_hold_is_a_value_error_of_ours(
    agent: Namespace, value: dict[str, Any], tmp_path: Path
) -> None:
    with holdfast.Store.open(tmp_path / "store") as durable:
        for store in (agent.store, holdfast.Store(), durable):
            store.set("n", "largest", [2**64 - 1, -(2**63)])
            for write in (
                lambda store=store: store.set("n", "k", value),
                lambda store=store: store.set_many([("n", "k", value)]),
            ):
                with pytest.raises(errors.Unencodable) as caught:
                    write()
                assert isinstance(caught.value, ValueError)
                assert isinstance(caught.value, TypeError)
            assert store.get("n", "largest") == [2**64 - 1, -(2**63)]
            assert not store.contains("n", "k")


@pytest.mark.parametrize("value", ENDLESS.values(), ids=ENDLESS)
def test_a_store_in_this_process_refuses_what_has_no_end(
    value: dict[str, Any], tmp_path: Path
) -> None:
    with holdfast.Store.open(tmp_path / "store") as durable:
        for store in (holdfast.Store(), durable):
            with pytest.raises(ValueError, match="cannot be stored"):
                store.set("n", "k", value)
            assert store.namespaces() == []
    with pytest.raises(ValueError, match="cannot be stored"):
        holdfast.dumps(value)


# Sessions that lapse


@contextmanager
def closing_after(server: Server) -> Generator[None]:
    try:
        yield
    finally:
        server.kill()


@pytest.mark.parametrize(
    "where", ["on_sqlite", pytest.param("on_postgres", marks=pytest.mark.postgres)]
)
def test_servers_tell_of_a_session_that_lapses_by_themselves_and_once(
    request: pytest.FixtureRequest, tmp_path: Path, where: str, at_once: Begin
) -> None:
    server: Server = request.getfixturevalue(where)
    name = f"agent-{next(_NUMBERS)}"
    other = Server(data=server.data, log=tmp_path / "log", environ=server.environ, begin=at_once)
    with (
        closing_after(other.start()),
        holdfast.AdminClient(other.admin_key, url=other.url) as admin,
        holdfast.Client(server.api_key, url=server.url, namespace=name) as agent,
    ):
        lapsing = [agent.sessions.create("bot", ttl_seconds=1).id for _ in range(5)]
        agent.sessions.create("bot", ttl_seconds=3600)
        heard: list[Any] = []
        deadline = time.monotonic() + 30
        while len(heard) < len(lapsing) and time.monotonic() < deadline:
            heard = admin.events.list(namespace=name, types=["session.expired"], limit=100)
            time.sleep(0.1)
        assert sorted(each.data["session_id"] for each in heard) == sorted(lapsing)
        assert {each.data["agent_id"] for each in heard} == {"bot"}
        assert len(told(cast("Namespace", agent), "session.expired")) == len(lapsing)
        assert len(agent.sessions.list()) == 1


# Directories


def test_a_directory_is_as_new_as_the_newest_of_what_lies_in_it(agent: Namespace) -> None:
    old, mid, new = (datetime(2020, month, 2, 3, 4, 5, tzinfo=UTC) for month in (1, 2, 3))
    agent.files.write("a/old.txt", "1", modified_at=old)
    agent.files.write("a/b/c/new.txt", "2", modified_at=new)
    agent.files.write("a/b-mid/mid.txt", "3", modified_at=mid)
    made = agent.files.mkdir("a/empty", mode=0o700)
    begun = agent.files.stat("a/empty").modified_at
    assert made.modified_at == begun
    assert begun is not None
    assert abs(datetime.now(UTC) - begun) < timedelta(minutes=5), "when the namespace was made"
    assert {each.name: each.modified_at for each in agent.files.list("a")} == {
        "b": new,
        "b-mid": mid,
        "empty": begun,
        "old.txt": old,
    }
    assert agent.files.stat("a").modified_at == agent.files.stat("a/b").modified_at == new
    before = agent.snapshot()
    assert agent.at(before).files.list("a") == agent.files.list("a")
    agent.files.delete("a/b/c/new.txt")
    assert agent.files.stat("a").modified_at == mid
    assert [each.modified_at for each in agent.at(before).files.list()] == [new]
    everything = agent.files.list(recursive=True)
    assert all(each.modified_at is not None for each in everything)


def test_how_old_a_large_directory_is_is_found_out_in_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engine.files.reader.MOST_LOOKED_AT", 10)
    with holdfast.open(tmp_path) as vault:
        files = vault.namespace("agent").files
        for number in range(30):
            at = datetime(2020, 1, 1 + number, tzinfo=UTC)
            files.write(f"large/{number:02}", "x", modified_at=at)
        assert files.stat("large").modified_at == datetime(2020, 1, 10, tzinfo=UTC)


# Restores


def shown(agent: Namespace) -> int:
    return sum(each.kind != "directory" for each in agent.files.list(recursive=True))


def test_a_restore_counts_the_files_that_a_listing_then_shows(agent: Namespace) -> None:
    empty = agent.snapshot("nothing yet")
    agent.files.write_many((f"many/{number}", b"x") for number in range(700))
    agent.files.symlink("link", "many/1")
    agent.files.mkdir("empty/deeper")
    agent.files.mkdir("private", mode=0o700)
    agent.files.write("private/notes", "mine")
    full = agent.snapshot("full")
    assert agent.restore_snapshot(full) == shown(agent) == 702, "also if nothing changed"
    assert agent.restore_snapshot(empty) == shown(agent) == 0
    agent.files.mkdir("only/directories")
    bare = agent.snapshot()
    agent.files.write("more", "x")
    assert agent.restore_snapshot(bare) == shown(agent) == 0
    assert agent.restore_snapshot(full) == shown(agent) == 702


def test_events_and_answers_count_alike_for_restore_undo_and_redo(on_sqlite: Server) -> None:
    name = f"agent-{next(_NUMBERS)}"
    headers = {"Authorization": f"Bearer {on_sqlite.api_key}", "X-Namespace": name}
    with (
        holdfast.Client(on_sqlite.api_key, url=on_sqlite.url, namespace=name) as agent,
        holdfast.AdminClient(on_sqlite.admin_key, url=on_sqlite.url) as admin,
        httpx.Client(base_url=on_sqlite.url, headers=headers, timeout=60) as wire,
    ):
        agent.files.write("a/1", "x")
        agent.files.mkdir("a/empty")
        one = agent.snapshot()
        agent.files.write("a/2", "x")
        agent.files.write("a/3", "x")
        agent.files.delete("a/1")
        place = f"/v1/snapshots/{one.id}/restore"
        planned = wire.post(place, json={"dry_run": True}).json()["files_restored"]
        moves: list[tuple[str, dict[str, str] | None]] = [
            (place, {}),
            ("/v1/undo", {}),
            ("/v1/redo", None),
        ]
        told = [wire.post(path, json=body).json()["files_restored"] for path, body in moves]
        assert (planned, told) == (1, [1, 2, 1])
        part = wire.post("/v1/undo", json={}).json()["snapshot"]["snapshot_id"]
        assert wire.post(place, json={"paths": ["a"]}).json()["files_restored"] == 1
        assert (
            wire.post(f"/v1/snapshots/{part}/restore", json={"planes": ["store"]}).json()[
                "files_restored"
            ]
            == 0
        )
        types = ["snapshot.restored", "snapshot.undone", "snapshot.redone"]
        heard = admin.events.list(namespace=name, types=types)
        assert [each.data["files_restored"] for each in heard] == [1, 1, 2, 1, 2, 1]


# Names


PATHS = ["../x", "/etc", "a/../b", "a/", "..", ".", "a\\..", "\\\\host\\share", "a\nb", "a\x7f", ""]


@pytest.mark.parametrize("name", PATHS)
def test_a_namespace_whose_name_reads_like_a_path_is_refused_wherever_it_comes_in(
    on_sqlite: Server, tmp_path: Path, name: str
) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("agent")
        agent.snapshot()
        (tmp_path / "project").mkdir()
        for refused in (
            lambda: vault.namespace(name),
            lambda: agent.fork(name),
            lambda: vault.keys.create("locked", namespace=name),
            lambda: vault.webhooks.create("https://hooks.example.com/", namespace=name),
            lambda: vault.workspace(tmp_path / "project", namespace=name),
            lambda: vault.delete_namespace(name),
        ):
            with pytest.raises(errors.InvalidName):
                refused()
        assert vault.namespaces() == ["agent"]
        assert vault.workspaces() == []
    with (
        holdfast.Client(on_sqlite.api_key, url=on_sqlite.url, namespace="named") as client,
        holdfast.AdminClient(on_sqlite.admin_key, url=on_sqlite.url) as admin,
    ):
        client.snapshot()
        for refused in (
            lambda: client.fork(name),
            lambda: admin.keys.create("locked", namespace=name),
            lambda: admin.webhooks.create("https://hooks.example.com/", namespace=name),
        ):
            with pytest.raises(errors.Invalid):
                refused()
        if name:
            with pytest.raises(errors.Invalid):
                client.namespace(name).files.write("a", "x")
            with pytest.raises(errors.Invalid):
                client.namespace(name).files.list()
        assert name not in admin.namespaces.list()


def test_what_was_named_like_a_path_before_stays_within_reach(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        for name in ("old//one", "../older"):
            # As it came about before such names were refused.
            handle = vault.namespace("x")._handle  # pyright: ignore[reportPrivateUsage] - for this
            Namespace(replace(handle, name=name)).files.write("a", name)
    with holdfast.open(tmp_path / "vault") as vault:
        assert vault.namespaces() == ["../older", "old//one"]
        old = vault.namespace("old//one")
        assert old.files.read_text("a") == "old//one"
        before = old.snapshot()
        old.files.write("a", "2")
        assert old.restore(before).verified
        key = vault.keys.create("locked", namespace="old//one")
        assert key.namespace == "old//one"
        vault.delete_namespace("../older")
        with pytest.raises(errors.InvalidName):
            vault.namespace("../older")
        assert vault.recover_namespace("../older").files.read_text("a") == "../older"
        with pytest.raises(errors.InvalidName):
            old.fork("new//one")


def test_a_directory_with_a_backslash_in_its_name_can_be_attached(tmp_path: Path) -> None:
    project = tmp_path / "back\\slash"
    project.mkdir()
    (project / "a").write_text("1")
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(project) as workspace:
        assert workspace.namespace.name == "back_slash"
        assert workspace.snapshot().size.entries == 1


# Names of attributes


def test_what_a_client_returns_has_the_names_that_others_know(agent: Namespace) -> None:
    session = agent.sessions.create("bot", user_id="ann", initial_state={"n": 0}, ttl_seconds=900)
    assert has(session, SessionResponse)
    assert session.ttl_expires_at == session.expires_at
    state = agent.sessions.get_state(session.id)
    assert has(state, StateGetResponse)
    turn = agent.sessions.add_turn(session.id, "Book it", {"type": "text", "content": "Done"})
    assert has(turn, TurnResponse)
    assert (turn.turn_number, turn.input.content, turn.output.type) == (1, "Book it", "text")
    assert turn.input == {"type": "text", "content": "Book it"}
    (listed,) = agent.sessions.list_turns(session.id)
    assert (listed.input.type, listed.output.content) == ("text", "Done")
    memory = agent.memory.add("The sky is blue", session_id=session.id, tags=["sky"])
    assert has(memory, MemoryResponse)
    assert (memory.vector_available, memory.embedding_id) == (True, None)
    assert not agent.memory.add("hidden", embed=False).vector_available
    (found,) = agent.memory.search("blue sky", session_id=session.id)
    assert has(found, MemorySearchResult)
    assert (found.id, found.content, found.type) == (memory.id, memory.content, memory.type)
    assert (found.session_id, found.tags) == (session.id, ("sky",))
    assert has(agent.sessions.get_context(session.id, "sky"), ContextResponse)
    written = agent.files.write("d/a.txt", "1")
    assert has(written, trove_sdk.models.FileResult)
    assert has(written, trove_sdk.models.FileInfo)
    assert [(each.name, each.is_dir) for each in agent.files.list()] == [("d", True)]
    assert not written.is_dir
    taken = agent.create_snapshot("first")
    for snapshot in (taken, agent.list_snapshots()[0], agent.get_snapshot(taken.id)):
        assert has(snapshot, trove_sdk.models.Snapshot)
        assert (snapshot.snapshot_id, snapshot.namespace) == (taken.id, agent.name)
        assert (snapshot.label, snapshot.size_bytes) == ("first", taken.size.bytes)


def test_what_an_admin_gets_has_the_names_that_others_know(on_sqlite: Server) -> None:
    models = trove_sdk.models
    with holdfast.AdminClient(on_sqlite.admin_key, url=on_sqlite.url) as admin:
        key = admin.create_key("another")
        assert has(key, models.KeyCreated)
        assert all(has(each, models.KeyMetadata) for each in admin.list_keys())
        hook = admin.create_webhook("https://hooks.example.com/", events=["snapshot.restored"])
        assert has(hook, models.WebhookCreated)
        assert all(has(each, models.WebhookMetadata) for each in admin.list_webhooks())
        assert all(has(each, models.WebhookEvent) for each in admin.events.list())
        admin.delete_webhook(hook.id)
        admin.revoke_key(key.id)


def has(value: object, model: Any) -> bool:
    """Says whether a value has every field of a vendor's; `object` only says what it is."""
    names = {*getattr(model, "model_fields", ()), *getattr(model, "__dataclass_fields__", ())}
    assert names
    missing = {name for name in names - {"object"} if not hasattr(value, name)}
    assert not missing, (type(value).__name__, missing)
    return True
