"""Sessions, sandboxes and traces of the OpenAI Agents SDK, at every door.

The SDK's own tests of sessions are run against ours by `make openai-agents`.
"""

import asyncio
import io
import tarfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, Session, SessionSettings, function_tool
from agents.sandbox import Manifest, RemoteSnapshotSpec
from agents.sandbox.errors import SnapshotRestoreError
from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient
from agents.sandbox.session import Dependencies
from agents.sandbox.snapshot import SnapshotBase
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tracing import custom_span, set_trace_processors, trace

import holdfast
from holdfast.integrations.openai_agents import (
    HoldfastSession,
    HoldfastSnapshots,
    HoldfastSnapshotSpec,
    HoldfastTracing,
)
from holdfast.testing.servers import Server

pytestmark = pytest.mark.in_memory

NUMBERS = count(1)
QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """One for all tests: an `AsyncClient` belongs to one."""
    with asyncio.Runner() as runner:
        yield runner.get_loop()


Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def run(loop: asyncio.AbstractEventLoop) -> Run:
    return loop.run_until_complete


@pytest.fixture(params=["vault", "client", "awaited"])
def agent(request: pytest.FixtureRequest, tmp_path: Path, run: Run) -> Iterator[Any]:
    name = f"agent-{next(NUMBERS)}"
    if request.param == "vault":
        with holdfast.open(tmp_path / "vault") as vault:
            yield vault.namespace(name)
        return
    server: Server = request.getfixturevalue("server")
    if request.param == "client":
        with holdfast.Client(server.api_key, url=server.url, namespace=name) as client:
            yield client
        return
    awaited = holdfast.AsyncClient(server.api_key, url=server.url, namespace=name)
    yield awaited
    run(awaited.close())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[holdfast.Namespace]:
    """A namespace of a vault in this process."""
    with holdfast.open(tmp_path / "vault") as vault:
        yield vault.namespace("alice")


def said(number: int) -> Any:
    return {"role": "user", "content": f"message {number}"}


# Sessions.


def test_a_conversation_is_kept_in_order_and_read_from_its_end(agent: Any, run: Run) -> None:
    async def talk() -> None:
        session = HoldfastSession("a", agent)
        assert isinstance(session, Session)
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items([])
        await session.add_items([said(number) for number in range(5)])
        await session.add_items([said(5)])
        assert await session.get_items() == [said(number) for number in range(6)]
        assert await session.get_items(2) == [said(4), said(5)]
        assert await session.get_items(0) == []
        assert await session.get_items(-1) == await session.get_items()
        assert await session.get_items(2**31) == await session.get_items()
        session.session_settings = SessionSettings(limit=1)
        assert await session.get_items() == [said(5)]
        assert await session.pop_item() == said(5)
        assert await session.get_items(9) == [said(number) for number in range(5)]
        await session.clear_session()
        assert await session.get_items() == []

    run(talk())


def test_no_conversation_reaches_another(agent: Any, run: Run) -> None:
    async def talk() -> None:
        names = ["a", "a/", "a/b", "a\0b", "a/0000000000000000", "", "ä" * 900]
        sessions = [HoldfastSession(name, agent) for name in names]
        for number, session in enumerate(sessions):
            await session.add_items([said(number)])
        await sessions[0].clear_session()
        assert [await session.get_items() for session in sessions[1:]] == [
            [said(number)] for number in range(1, len(names))
        ]
        with pytest.raises(holdfast.errors.InvalidValue):
            await HoldfastSession("a" * 5000, agent).add_items([said(0)])

    run(talk())


def test_what_a_model_may_say_comes_back_as_it_was(agent: Any, run: Run) -> None:
    async def talk() -> None:
        items: list[Any] = [
            {"role": "user", "content": "half a character: \ud83d"},
            {"type": "function_call", "arguments": "{}", "number": 2**80, "none": None},
            {"content": [{"text": "ü \0 \x1b[31m", "score": 0.1}], "role": "assistant"},
        ]
        session = HoldfastSession("a", agent)
        await session.add_items(items)
        await session.add_items([said(1)])
        assert await session.get_items() == [*items, said(1)]
        with pytest.raises(TypeError):
            await session.add_items([said(2), {"role": object()}])  # type: ignore[list-item]
        assert await session.pop_item() == said(1)

    run(talk())


def test_all_who_add_at_once_get_in(agent: Any, run: Run) -> None:
    async def talk() -> None:
        session = HoldfastSession("a", agent)
        pairs = [[said(number), said(number)] for number in range(0, 16, 2)]
        await asyncio.gather(*(session.add_items(pair) for pair in pairs))
        items = await session.get_items()
        assert sorted(zip(items[::2], items[1::2], strict=True), key=str) == sorted(
            ((first, second) for first, second in pairs), key=str
        )

    run(talk())


def test_what_was_begun_is_done_when_a_run_is_cancelled(agent: Any, run: Run) -> None:
    async def talk() -> None:
        session = HoldfastSession("a", agent)
        adding = asyncio.create_task(session.add_items([said(1)]))
        await asyncio.sleep(0)
        adding.cancel()
        await asyncio.sleep(0)
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert await session.get_items() == [said(1)]

    run(talk())


def test_a_vault_that_is_slow_keeps_nobody_else_waiting(
    world: holdfast.Namespace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, items, threads = HoldfastSession("a", world), world.store.items, set[int]()

    def read_slowly(*args: Any, **named: Any) -> Any:
        threads.add(threading.get_ident())
        time.sleep(0.002)
        return items(*args, **named)

    monkeypatch.setattr(world.store, "items", read_slowly)
    run(session.add_items([said(number) for number in range(5)]))
    for _ in range(3):
        assert run(session.get_items(2)) == [said(3), said(4)]
    assert threading.get_ident() not in threads


def test_a_conversation_goes_back_with_files_and_state(world: holdfast.Namespace, run: Run) -> None:
    @function_tool
    def delete_folder(name: str) -> str:
        """Deletes a folder."""
        world.files.delete(name, recursive=True)
        world.store.set("plan", "step", "tidy")
        return "gone"

    model = ScriptedModel(
        [
            [assistant_message("Hello.")],
            [function_call("delete_folder", {"name": "reports"}, call_id="1")],
            [assistant_message("Gone.")],
        ]
    )
    tidier = Agent(name="tidier", model=model, tools=[delete_folder])
    session = HoldfastSession("chat", world)
    world.files.write("reports/may.csv", "1,10\n")
    run(Runner.run(tidier, "Hello?", session=session, run_config=QUIET))
    before, items = world.snapshot("before"), run(session.get_items())
    run(Runner.run(tidier, "Delete the drafts.", session=session, run_config=QUIET))
    assert len(run(session.get_items())) == len(items) + 4

    world.restore(before)
    assert world.files.exists("reports/may.csv")
    assert world.store.get("plan", "step") is None
    assert run(session.get_items()) == items
    run(HoldfastSession("chat", world.fork("bob")).add_items([said(1)]))
    assert run(session.get_items()) == items


def test_a_directory_has_its_conversation_beside_it(tmp_path: Path, run: Run) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "cart.py").write_text("1")
    with holdfast.open(tmp_path / "vault") as vault:
        shop = vault.workspace(tmp_path / "shop")
        session = HoldfastSession("chat", shop)
        run(session.add_items([said(1)]))
        before = shop.snapshot("before")
        (tmp_path / "shop" / "cart.py").unlink()
        run(session.add_items([said(2)]))
        shop.restore(before)
        assert (tmp_path / "shop" / "cart.py").read_text() == "1"
        assert run(session.get_items()) == [said(1)]


# Sandboxes.


async def live(client: UnixLocalSandboxClient, session: Any, command: str) -> Any:
    """Runs a command in a sandbox, stops it, and lets go of it; returns its state."""
    async with session:
        done = await session.exec("sh", "-c", command, shell=False)
        assert done.ok(), done.stderr
    await client.delete(session)
    return client.serialize_session_state(session.state)


async def resumed(client: UnixLocalSandboxClient, state: Any, command: str) -> Any:
    return await live(client, await client.resume(client.deserialize_session_state(state)), command)


MADE = "mkdir -p a/b empty; echo 1 > a/b/c; chmod 700 a/b/c; ln -s a/b/c link; : > gone"
LOOK = 'test "$(cat link)" = 1 && test -x a/b/c && test -d empty && test -L link'


def test_a_sandbox_is_created_stopped_and_resumed(agent: Any, run: Run) -> None:
    async def play() -> None:
        bound = Dependencies.with_values({"snapshots": HoldfastSnapshots(agent)})
        client = UnixLocalSandboxClient(dependencies=bound)
        spec = RemoteSnapshotSpec(client_dependency_key="snapshots")
        state = await live(client, await client.create(snapshot=spec, manifest=Manifest()), MADE)
        state = await resumed(client, state, f"{LOOK} && rm gone && echo 2 >> a/b/c")
        await resumed(client, state, 'test ! -e gone && test "$(wc -l < a/b/c)" = 2')
        with pytest.raises(holdfast.errors.NotFound):
            await HoldfastSnapshots(agent).download("nobody")
        assert not await HoldfastSnapshots(agent).exists("nobody")

    run(play())


def test_a_sandbox_begins_with_what_was_restored_or_edited(
    tmp_path: Path, world: holdfast.Namespace, run: Run
) -> None:
    async def play() -> None:
        client = UnixLocalSandboxClient()
        spec = HoldfastSnapshotSpec(vault=str(tmp_path / "vault"), namespace="alice")
        state = await live(client, await client.create(snapshot=spec, manifest=Manifest()), MADE)
        good = world.snapshot("good")
        state = await resumed(client, state, "rm -r a link; echo 3 > later")
        assert not world.files.exists("a/b/c")

        world.restore(good, paths=["a/**", "link"])
        world.files.write("note", "by a person")
        state = await resumed(client, state, f"{LOOK} && test -e later && test -e note")
        world.restore(good)
        state = await resumed(client, state, f"{LOOK} && test ! -e later && test ! -e note")

        lost = spec.build("nobody")
        assert not await lost.restorable()
        with pytest.raises(SnapshotRestoreError):
            await lost.restore()

    run(play())


def test_what_a_state_names_is_sent_no_key(
    server: Server, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_URL", server.url)
    monkeypatch.setenv("HOLDFAST_API_KEY", server.api_key)
    spec = HoldfastSnapshotSpec(namespace=f"agent-{next(NUMBERS)}")
    run(spec.build("one").persist(packed(b"1")))
    # Whoever asks there instead has an error.
    state = spec.build("one").model_dump() | {"url": "http://127.0.0.1:1"}
    assert run(SnapshotBase.parse(state).restorable())


def packed(content: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        member = tarfile.TarInfo("file")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    file.seek(0)
    return file


def unpacked(file: Any) -> bytes:
    with file, tarfile.open(fileobj=file) as tar:
        found = tar.extractfile("./file")
        assert found is not None
        return found.read()


def test_each_of_two_sandboxes_gets_what_it_left(world: holdfast.Namespace, run: Run) -> None:
    async def play() -> None:
        snapshots = HoldfastSnapshots(world)
        await asyncio.gather(
            *(snapshots.upload(name, packed(name.encode())) for name in ("one", "two"))
        )
        for name in ("one", "two"):
            assert unpacked(await snapshots.download(name)) == name.encode()
        before = world.snapshot()
        await snapshots.upload("one", packed(b"newer"))
        assert unpacked(await snapshots.download("one")) == b"newer"
        assert unpacked(await snapshots.download("two")) == b"two"
        world.restore(before)
        assert unpacked(await snapshots.download("two")) == b"two"

    run(play())


def test_a_stop_that_is_cut_short_leaves_the_old_or_the_new(
    world: holdfast.Namespace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cut(BaseException):
        pass

    def cut(*_: object, **__: object) -> None:
        raise Cut

    snapshots = HoldfastSnapshots(world)
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "set", cut)
        with pytest.raises(Cut):
            run(snapshots.upload("one", packed(b"1")))
    assert not run(snapshots.exists("one"))
    run(snapshots.upload("one", packed(b"1")))
    run(snapshots.upload("two", packed(b"other")))
    for number, (owner, name) in enumerate(((world.store, "set"), (world, "snapshot")), start=2):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, cut)
            with pytest.raises(Cut):
                run(snapshots.upload("one", packed(b"%d" % number)))
        assert unpacked(run(snapshots.download("one"))) in {b"1", b"%d" % number}
        assert unpacked(run(snapshots.download("two"))) == b"other"


def test_a_workspace_that_cannot_be_used_changes_nothing(
    world: holdfast.Namespace, run: Run
) -> None:
    world.files.write("file", b"here")
    hostile = io.BytesIO()
    with tarfile.open(fileobj=hostile, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../outside"))
    hostile.seek(0)
    snapshots = HoldfastSnapshots(world)
    with pytest.raises(holdfast.errors.UnsafeArchive):
        run(snapshots.upload("one", hostile))
    assert not run(snapshots.exists("one"))
    assert world.files.read("file") == b"here"


# Traces.


def test_what_happened_is_in_the_chain_and_what_was_said_is_not(world: holdfast.Namespace) -> None:
    tracing = HoldfastTracing(world)
    set_trace_processors([tracing])
    try:
        with (
            trace("tidying", group_id="chat-1"),
            custom_span("look", {"secret": "hunter2"}) as span,
        ):
            span.set_error({"message": "it broke", "data": None})
        tracing.force_flush()
        told = world.traces.list(resource_type="openai.trace")
        assert [each.action for each in told] == ["openai.run", "openai.custom"]
        details = told[1].details or {}
        assert (details["name"], details["error"]) == ("look", "it broke")
        assert "hunter2" not in str(told)
        tracing.shutdown()
        with trace("later"):
            pass
        tracing.shutdown()
        tracing.force_flush()
        assert len(world.traces.list(action="openai.run")) == 2
        assert tracing.lost == 0
    finally:
        set_trace_processors([])


def test_a_journal_that_cannot_be_written_stops_nobody(tmp_path: Path) -> None:
    vault = holdfast.open(tmp_path / "vault")
    tracing = HoldfastTracing(vault.namespace("alice"))
    vault.close()
    set_trace_processors([tracing])
    try:
        with trace("tidying"):
            pass
        tracing.shutdown()
        assert tracing.lost == 1
    finally:
        set_trace_processors([])


def test_what_has_to_be_awaited_and_what_is_no_agent_is_refused(server: Server) -> None:
    client = holdfast.AsyncClient(server.api_key, url=server.url, namespace="alice")
    for none in (client, "alice", None):
        with pytest.raises(holdfast.errors.InvalidValue, match=type(none).__name__):
            HoldfastTracing(none)  # pyright: ignore[reportArgumentType]


def test_no_agent_waits_for_whoever_waits_for_what_is_written(
    world: holdfast.Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.integrations.openai_agents.tracing.MOST_WAITING", 2)
    begun, goes_on = threading.Event(), threading.Event()
    tracing = HoldfastTracing(world)
    add = type(world.traces).add

    def slowly(traces: Any, *args: Any, **named: Any) -> Any:
        begun.set()
        goes_on.wait()
        return add(traces, *args, **named)

    monkeypatch.setattr(type(world.traces), "add", slowly)
    set_trace_processors([tracing])
    try:
        with trace("first"):
            pass
        begun.wait()
        for _ in range(2):
            with trace("waits"):
                pass
        flushing = threading.Thread(target=tracing.force_flush)
        flushing.start()
        ended = threading.Thread(target=tracing.on_trace_end, args=[trace("lost")])
        ended.start()
        ended.join(timeout=20)
        assert not ended.is_alive()
        goes_on.set()
        flushing.join()
        assert tracing.lost == 1
        assert len(world.traces.list(action="openai.run")) == 3
    finally:
        goes_on.set()
        set_trace_processors([])
