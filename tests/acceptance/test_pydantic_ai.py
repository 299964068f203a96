"""pydantic-ai in a namespace: conversations, and workspaces by its own conformance suite."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from pydantic_ai import Agent, RunContext
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationEntry
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RunUsage
from pydantic_ai.workspaces import (
    SupportsCommands,
    Workspace,
    WorkspaceBackend,
    WorkspaceRef,
    WorkspaceUnavailableError,
)
from pydantic_ai.workspaces.conformance import WorkspaceBackendSuite

import holdfast
from holdfast.errors import InvalidValue
from holdfast.integrations.calling import aside
from holdfast.integrations.pydantic_ai import (
    HoldfastCommandWorkspace,
    HoldfastConversationStore,
    HoldfastWorkspace,
)
from holdfast.integrations.pydantic_ai import conversations as kept
from holdfast.settings import ExecSettings
from holdfast.testing.sandboxes import why_none
from holdfast.testing.servers import Begin, Server, running_server

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Opens = Callable[[], Any]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# Conversations


def asked(text: str) -> ModelMessage:
    return ModelRequest(parts=[UserPromptPart(text)])


def answered(text: str) -> ModelMessage:
    return ModelResponse(parts=[TextPart(text)])


def texts_of(conversation: Conversation | None) -> list[Any]:
    assert conversation is not None
    return [message.parts[0].content for message in conversation.messages]


def in_store(agent: Any) -> int:
    names = (kept.RECORDS, kept.ENTRIES, kept.PLACES, kept.FAMILIES)
    return sum(len(agent.store.keys(name)) for name in names)


async def test_a_conversation_comes_back_as_it_was(opens: Opens) -> None:
    odd = ModelResponse(
        parts=[ToolCallPart("add", {"big": 2**80, "nested": {"$bytes": [None, 1.5]}})]
    )
    picture = ModelRequest(
        parts=[
            UserPromptPart(["look", BinaryContent(b"\xff\x00\xfe", media_type="application/pdf")])
        ]
    )
    said = Conversation(messages=[picture, odd], usage=RunUsage(requests=2, input_tokens=7))
    entries = await HoldfastConversationStore(opens()).save(said, scope="alice")

    other = HoldfastConversationStore(opens())
    loaded = await other.load(said.conversation_id)
    assert loaded == said
    assert [entry.id for entry in entries] == [
        entry.id for entry in await other.load_entries(said.conversation_id) or []
    ]
    assert await other.load(said.conversation_id, scope="bob") is None
    assert await other.read_entry(entries[1].id) == entries[1]
    for nothing in ("", "nothing", "a/b"):
        with pytest.raises(LookupError):
            await other.read_entry(nothing)


async def test_long_histories_are_read_in_order_and_from_the_end(opens: Opens) -> None:
    store = HoldfastConversationStore(opens())
    many = 2 * kept.PAGE + 10
    said = Conversation(messages=[asked(str(number)) for number in range(many)])
    await store.save(said)
    said.messages.append(answered("the end"))
    assert len(await store.save(said)) == 1  # Only what is new is stored.

    loaded = await store.load(said.conversation_id)
    assert texts_of(loaded) == [*map(str, range(many)), "the end"]
    last = await store.load(said.conversation_id, limit=kept.PAGE + 2)
    assert texts_of(last) == texts_of(loaded)[-kept.PAGE - 2 :]
    assert texts_of(await store.load(said.conversation_id, limit=0)) == []


async def test_ids_that_do_not_rise_with_time_are_found_all_the_same(opens: Opens) -> None:
    store = HoldfastConversationStore(opens())
    ids = ["m", "z", "a", "z!", "n"]
    above: list[str | None] = [None, *ids]
    entries = [
        ConversationEntry(id=name, parent_id=parent, message=asked(name))
        for name, parent in zip(ids, above, strict=False)
    ]
    record = kept.ConversationRecord(conversation_id="c", head_id="n")
    await store.write_record(record, new_entries=entries, expected_revision=None)
    assert await store.read_history("n") == entries
    assert await store.read_history("n", limit=2) == entries[-2:]


async def test_of_two_who_save_the_second_is_told(opens: Opens) -> None:
    store = HoldfastConversationStore(opens())
    said = Conversation(messages=[asked("one")])
    await store.save(said)
    first, second = [await store.load(said.conversation_id) for _ in range(2)]
    assert first is not None
    assert second is not None
    first.messages.append(answered("first"))
    second.messages.append(answered("second"))
    await store.save(first)
    before = in_store(opens())
    with pytest.raises(ConversationConflict):
        await store.save(second)
    with pytest.raises(ConversationConflict):
        await store.save(Conversation(conversation_id=said.conversation_id, messages=[asked("x")]))
    assert in_store(opens()) == before
    assert texts_of(await store.load(said.conversation_id)) == ["one", "first"]


async def test_forks_share_messages_and_outlive_each_other(opens: Opens) -> None:
    store = HoldfastConversationStore(opens())
    said = Conversation(messages=[asked("one"), answered("two"), asked("three")])
    await store.save(said)
    left = await store.branch(said.conversation_id, at=1, expected_revision=said.revision)
    left.messages.append(answered("another two"))
    await store.save(left)
    fork = await store.fork(said.conversation_id, new_conversation_id="fork")
    fork.messages.append(asked("four"))
    await store.save(fork)
    assert len(opens().store.keys(kept.ENTRIES)) == 5

    await store.delete(said.conversation_id)
    assert await store.load(said.conversation_id) is None
    assert texts_of(await store.load("fork")) == ["one", "another two", "four"]
    assert len(opens().store.keys(kept.ENTRIES)) == 3  # What the fork does not reach is gone.
    await store.delete("fork")
    assert in_store(opens()) == 0


async def test_forks_that_race_a_delete_are_whole_or_refused(opens: Opens) -> None:
    store = HoldfastConversationStore(opens())
    for round_number in range(3):
        name = f"c{round_number}"
        await store.save(Conversation(conversation_id=name, messages=[asked("1"), answered("2")]))
        steps: list[Awaitable[Any]] = [store.fork(name) for _ in range(4)]
        done = await asyncio.gather(
            *steps[:2], store.delete(name), *steps[2:], return_exceptions=True
        )
        for each in done:
            if isinstance(each, Conversation):
                assert texts_of(await store.load(each.conversation_id)) == ["1", "2"]
                await store.delete(each.conversation_id)
            else:
                assert each is None or isinstance(each, UserError)
    assert in_store(opens()) == 0


@pytest.mark.parametrize("opens", ["served"], indirect=True)
async def test_a_conversation_of_any_length_is_saved_and_deleted(opens: Opens) -> None:
    store = HoldfastConversationStore(opens())
    said = Conversation(messages=[asked(str(number)) for number in range(6_000)])
    await store.save(said)
    fork = await store.fork(said.conversation_id, at=10, new_conversation_id="fork")
    # Some MiB each, and together more than a request takes.
    fork.messages += [asked("x" * (6 << 20)) for _ in range(6)]
    await store.save(fork)
    assert len(texts_of(await store.load(said.conversation_id))) == 6_000
    await store.delete(said.conversation_id)
    whole = await store.load("fork")
    assert [len(text) for text in texts_of(whole)] == [1] * 10 + [6 << 20] * 6
    assert len(opens().store.keys(kept.ENTRIES)) == 16
    await store.delete("fork")
    assert in_store(opens()) == 0


@pytest.mark.parametrize("opens", ["sqlite"], indirect=True)
@pytest.mark.parametrize("act", ["save", "delete"])
async def test_what_goes_in_portions_is_whole_whoever_comes_in_between(
    opens: Opens, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "TOGETHER", 2)
    store, agent, came = HoldfastConversationStore(opens()), opens(), list[bool]()
    said = Conversation(messages=[asked(str(number)) for number in range(3)])
    await store.save(said)
    long = await store.fork(said.conversation_id, new_conversation_id="long")
    long.messages += [asked(str(number)) for number in range(3, 10)]
    set_many = type(agent.store).set_many

    async def between() -> None:
        other = HoldfastConversationStore(opens())
        fork = await other.fork(said.conversation_id)
        if act == "save":  # Then the family is as it was, and what nobody reaches is gone.
            await other.delete(fork.conversation_id)

    def comes(plane: Any, items: Any, **named: Any) -> Any:
        done = set_many(plane, items, **named)
        if not came:
            came.append(True)
            with asyncio.Runner() as runner:
                runner.run(between())
        return done

    if act == "save":
        monkeypatch.setattr(type(agent.store), "set_many", comes)
        await store.save(long)
    else:
        await store.save(long)
        monkeypatch.setattr(type(agent.store), "set_many", comes)
        await store.delete("long")
    names = [each.conversation_id for each in await store.list_conversations()]
    assert (len(names), "long" in names) == (2, act == "save")
    for name in names:
        whole = texts_of(await store.load(name))
        assert whole == [str(number) for number in range(10 if name == "long" else 3)]
    assert len(agent.store.keys(kept.ENTRIES)) == (10 if act == "save" else 3)
    for name in names:
        await store.delete(name)
    assert in_store(agent) == 0


def entries_of(many: int) -> list[ConversationEntry]:
    """Makes messages that follow one another, from `e0` on."""
    above = [None, *(f"e{number}" for number in range(many))]
    return [
        ConversationEntry(id=f"e{number}", parent_id=above[number], message=asked(str(number)))
        for number in range(many)
    ]


@pytest.mark.parametrize("opens", ["sqlite"], indirect=True)
@pytest.mark.parametrize("again", ["the same", "as another", "a fork of it"])
async def test_a_first_save_that_was_broken_off_leaves_nothing_once_it_is_repeated(
    opens: Opens, again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "TOGETHER", 2)
    store, agent = HoldfastConversationStore(opens()), opens()
    set_many = type(agent.store).set_many

    async def save(name: str) -> None:
        record = kept.ConversationRecord(conversation_id=name, head_id="e4")
        await store.write_record(record, new_entries=entries_of(5), expected_revision=None)

    def breaks(plane: Any, items: Any, **named: Any) -> Any:
        if agent.store.keys(kept.ENTRIES):  # Once a portion is there.
            raise OSError(errno.ENETDOWN, "gone")
        return set_many(plane, items, **named)

    with monkeypatch.context() as broken:
        broken.setattr(type(agent.store), "set_many", breaks)
        with pytest.raises(OSError, match="gone"):
            await save("c")
    assert len(agent.store.keys(kept.ENTRIES)) == 2
    await save("c")
    names = ["c"]
    if again == "as another":
        await save("d")
        names.append("d")
    elif again == "a fork of it":
        names.append((await store.fork("c")).conversation_id)
    for name in names:
        assert texts_of(await store.load(name)) == ["0", "1", "2", "3", "4"]
        await store.delete(name)
    assert in_store(agent) == 0


@pytest.mark.parametrize("opens", ["sqlite"], indirect=True)
@pytest.mark.parametrize("other", ["saves", "saves and deletes", "sweeps"])
async def test_a_first_save_is_whole_whoever_has_the_same_messages_meanwhile(
    opens: Opens, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "TOGETHER", 2)
    store, elsewhere = HoldfastConversationStore(opens()), HoldfastConversationStore(opens())
    agent = opens()
    entries, came, set_many = entries_of(7), list[bool](), type(agent.store).set_many
    records = [kept.ConversationRecord(conversation_id=name, head_id="e6") for name in "cd"]

    async def save(by: HoldfastConversationStore, record: kept.ConversationRecord) -> None:
        await by.write_record(record, new_entries=entries, expected_revision=None)

    async def delete(record: kept.ConversationRecord) -> None:
        await store.delete_record(record.conversation_id, expected_revision=record.revision)

    rest = list[str]()
    if other == "sweeps":  # Somebody has deleted the same, and some of it is left to go.
        await save(elsewhere, records[1])
        family, rest = elsewhere._delete("d", records[1].revision)
        assert len(rest) == 5

    async def between() -> None:
        if other == "sweeps":
            elsewhere._sweep(family, rest)
            return
        await save(elsewhere, records[1])
        if other == "saves and deletes":
            await delete(records[1])

    def comes(plane: Any, items: Any, **named: Any) -> Any:
        done = set_many(plane, items, **named)
        if not came and len(items) > 1:  # Once a portion is there.
            came.append(True)
            with asyncio.Runner() as runner:
                runner.run(between())
        return done

    monkeypatch.setattr(type(agent.store), "set_many", comes)
    await save(store, records[0])
    assert came
    assert await store.read_history("e6") == entries
    for record in records[: 2 if other == "saves" else 1]:
        assert texts_of(await store.load(record.conversation_id)) == list("0123456")
        await delete(record)
    assert in_store(agent) == 0


async def test_conversations_are_listed_by_scope_newest_first(opens: Opens) -> None:
    store = HoldfastConversationStore(opens())
    for name, scope in (("a", "alice"), ("b", "bob"), ("c", "alice")):
        said = Conversation(conversation_id=name, messages=[asked(name)])
        await store.save(said, scope=scope)
    said.messages.append(answered("more"))
    listed = await store.list_conversations(scope="alice")
    assert [record.conversation_id for record in listed] == ["c", "a"]
    assert [each.conversation_id for each in await store.list_conversations(limit=1)] == ["c"]


async def test_what_is_no_namespace_is_refused() -> None:
    with pytest.raises(InvalidValue):
        HoldfastConversationStore("alice")  # pyright: ignore[reportArgumentType]


async def test_one_call_brings_files_and_conversation_back(opens: Opens) -> None:
    world, store = opens(), HoldfastConversationStore(opens())

    def model(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        if isinstance(messages[-1].parts[0], UserPromptPart):
            return ModelResponse(parts=[ToolCallPart("remove", {"path": "src"})])
        return ModelResponse(parts=[TextPart("I removed src.")])

    agent = Agent(FunctionModel(model))

    @agent.tool
    async def remove(ctx: RunContext[None], path: str) -> str:
        await ctx.workspace.remove(path)
        return "removed"

    workspace = Workspace(HoldfastWorkspace(world))
    await workspace.write_text("src/main.py", "print('hello')\n")
    said = Conversation(conversation_id="c", messages=[asked("hello"), answered("hi")])
    await store.save(said)
    before = world.snapshot("before the agent runs")

    loaded = await store.load("c")
    result = await agent.run("tidy up", conversation=loaded, workspace=HoldfastWorkspace(world))
    await store.save(result)
    assert not await workspace.exists("src")
    changed = await store.load("c")
    assert changed is not None
    assert len(changed.messages) == 6

    world.restore(before)
    assert await workspace.read_text("src/main.py") == "print('hello')\n"
    assert texts_of(await store.load("c")) == ["hello", "hi"]
    with pytest.raises(ConversationConflict):
        await store.save(result.conversation)  # It goes on from what was taken back.


# Workspaces


@dataclass
class World:
    """Where namespaces are, and what deletes one."""

    reach: Callable[[str], Any]
    delete: Callable[[str], Any]


@pytest.fixture(params=["embedded", "served"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "embedded":
        with holdfast.open(tmp_path / "vault") as vault:
            yield World(vault.namespace, vault.delete_namespace)
        return
    server: Server = request.getfixturevalue("server")
    with (
        holdfast.Client(server.api_key, url=server.url) as client,
        holdfast.AdminClient(server.admin_key, url=server.url) as admin,
    ):
        yield World(client.namespace, admin.namespaces.delete)


class Conformance(WorkspaceBackendSuite):
    """What both kinds of workspaces are held to."""

    made: type[HoldfastWorkspace] = HoldfastWorkspace

    @pytest.fixture
    def backend(self, world: World) -> WorkspaceBackend:
        return self.made(world.reach("agent"))

    @pytest.fixture
    def fresh_backend(self, world: World) -> Callable[[], WorkspaceBackend]:
        return lambda: self.made(world.reach)

    @pytest.fixture
    def attach_backend(self, world: World) -> Callable[[WorkspaceRef], WorkspaceBackend]:
        return lambda ref: self.made(world.reach, ref=ref)

    @pytest.fixture
    def destroy_environment(self, world: World) -> Callable[[WorkspaceBackend], Awaitable[None]]:
        async def destroy(backend: WorkspaceBackend) -> None:
            assert backend.ref is not None
            await asyncio.to_thread(world.delete, backend.ref.id)

        return destroy

    @pytest.fixture
    def can_detect_exit_with_inherited_output_pipes(self) -> bool:
        return False  # What is left in the background ends with its command.


class TestFilesConform(Conformance):
    """Files of a namespace, in process and on a server."""


@pytest.mark.skipif(why_none() is not None, reason=why_none() or "")
class TestCommandsConform(Conformance):
    """Files and commands of a namespace."""

    made = HoldfastCommandWorkspace

    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[World]:
        with holdfast.open(tmp_path / "vault", commands=ExecSettings(is_on=True)) as vault:
            yield World(vault.namespace, vault.delete_namespace)

    @pytest.fixture
    def filesystem_honors_shell_permissions(self) -> bool:
        return False  # Modes are kept, and bind commands alone.

    async def test_cancellation_stops_foreground_work(self) -> None:
        pytest.skip("what a command writes is seen when it has ended; the test below is ours")

    async def test_destroying_environment_during_command_raises_unavailable(self) -> None:
        pytest.skip("what a command writes is seen when it has ended")

    async def test_a_backend_attached_by_ref_reaches_a_detached_process(self) -> None:
        pytest.skip("what a command leaves running ends with it; the test below is ours")

    async def test_what_a_command_leaves_running_ends_with_it(self, backend: Any) -> None:
        left = "setsid sh -c ': > begun; while [ ! -f go ]; do sleep 0.1; done; : > went' &"
        wait = "until [ -f begun ]; do sleep 0.1; done"
        assert (await backend.run(f"{left} {wait}", shell=True)).exit_code == 0
        root = await backend.working_dir()
        assert await backend.exists(f"{root}/begun")
        await backend.write_bytes(f"{root}/go", b"")
        assert (await backend.run(["sleep", "1"])).exit_code == 0
        assert not await backend.exists(f"{root}/went")

    async def test_a_command_ends_with_whoever_waited_for_it(self, backend: Any) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(backend.run(["sleep", "25"]), 1)
        async with asyncio.timeout(15):  # Commands of a namespace run one after the other.
            assert (await backend.run(["true"])).exit_code == 0

    async def test_a_name_of_a_variable_is_no_place_for_a_command(self, backend: Any) -> None:
        with pytest.raises(ValueError, match="no name of a variable"):
            await backend.run(["true"], env={"X=1; touch pwned; Y": "1"})
        said = "a'; touch pwned; '"
        assert (await backend.run('printf %s "$X"', shell=True, env={"X": said})).stdout == said
        assert not await backend.exists(f"{await backend.working_dir()}/pwned")


@pytest.mark.skipif(why_none() is not None, reason=why_none() or "")
async def test_commands_of_a_server_run_and_end_with_whoever_waited(
    home: Path, at_once: Begin
) -> None:
    with (
        running_server(home / "commands", environ={"HOLDFAST_EXEC": "1"}, begin=at_once) as server,
        holdfast.Client(server.api_key, url=server.url, namespace="agent") as client,
    ):
        backend = HoldfastCommandWorkspace(client)
        root = await backend.working_dir()
        await backend.write_bytes(f"{root}/in", b"in")
        done = await backend.run("cat in > out; exit 3", shell=True)
        assert (done.exit_code, await backend.read_bytes(f"{root}/out")) == (3, b"in")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(backend.run(["sleep", "25"]), 1)
        async with asyncio.timeout(20):
            assert (await backend.run(["true"])).exit_code == 0


async def test_where_commands_are_off_a_workspace_says_so(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        backend = HoldfastCommandWorkspace(vault.namespace("agent"))
        assert isinstance(backend, SupportsCommands)
        with pytest.raises(WorkspaceUnavailableError):
            await backend.run(["true"])
        assert not isinstance(HoldfastWorkspace(vault.namespace("agent")), SupportsCommands)


async def test_links_lead_inside_of_the_workspace_and_nowhere_else(world: World) -> None:
    agent = world.reach("links")
    agent.files.write("real/file", "inside")
    root = await (backend := HoldfastWorkspace(agent)).working_dir()
    for name, target in {
        "folder": "real",
        "absolute": f"{root}/real/file",
        "up": "../../../../../../etc/passwd",
        "loop": "loop",
        "broken": "nothing",
        "through": "folder/file",
    }.items():
        agent.files.symlink(name, target)

    for path in ("folder/file", "absolute", "through", "folder/../folder/file"):
        assert await Workspace(backend).read_bytes(path) == b"inside"
    await backend.write_bytes(f"{root}/through", b"changed")
    assert agent.files.read("real/file") == b"changed"
    assert agent.files.stat("through").kind == "link"
    assert await backend.realpath(f"{root}/folder/../up") == "/etc/passwd"
    for path in ("up", "broken"):
        assert not await backend.exists(f"{root}/{path}")
        with pytest.raises(FileNotFoundError):
            await backend.read_bytes(f"{root}/{path}")
    with pytest.raises(PermissionError):
        await backend.write_bytes(f"{root}/up", b"x")
    with pytest.raises(OSError, match="symbolic") as circle:
        await backend.read_bytes(f"{root}/loop")
    assert circle.value.errno == errno.ELOOP
    listed = {entry.name: entry.is_dir for entry in await backend.list_dir(root)}
    assert listed == {
        "absolute": False,
        "broken": False,
        "folder": True,
        "loop": False,
        "real": True,
        "through": False,
        "up": False,
    }
    await backend.remove(f"{root}/folder")  # The link, and not what it leads to.
    assert agent.files.exists("real/file")


async def test_nothing_outside_of_a_workspace_is_read_written_or_removed(world: World) -> None:
    backend = HoldfastWorkspace(world.reach("bounds"))
    root = await backend.working_dir()
    for path in ("/etc/passwd", f"{root}/../../../etc/passwd", f"{root}x/file"):
        assert not await backend.exists(path)
        with pytest.raises(FileNotFoundError):
            await backend.read_bytes(path)
        with pytest.raises(PermissionError):
            await backend.write_bytes(path, b"x")
        with pytest.raises(PermissionError):
            await backend.make_dir(path)
        with pytest.raises(FileNotFoundError):
            await backend.remove(path)
    for path in ("", "../../x", "a\0b", f"{root}/a\0b", f"{root}/{'x' * 300}"):
        with pytest.raises((ValueError, OSError)):
            await backend.write_bytes(path, b"x")
    assert [entry.path for entry in await backend.list_dir(root)] == []
    await backend.write_bytes("folder/../relative", b"x")
    assert await backend.realpath("./relative") == f"{root}/relative"
    assert await backend.read_bytes("relative") == b"x"
    assert [entry.path for entry in await backend.list_dir(".")] == [f"{root}/relative"]
    await backend.remove("relative")
    with pytest.raises(ValueError, match="not removed"):
        await backend.remove(".")
    with pytest.raises(InvalidValue):
        HoldfastWorkspace(world.reach, ref=WorkspaceRef(provider="local", id="bounds"))
    with pytest.raises(InvalidValue):
        HoldfastWorkspace(world.reach("a"), ref=WorkspaceRef(provider="holdfast", id="b"))


async def test_a_workspace_that_is_full_says_so(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("agent")
        root = await (backend := HoldfastWorkspace(agent)).working_dir()
        agent.set_quota(100)
        with pytest.raises(OSError, match="quota") as full:
            await backend.write_bytes(f"{root}/file", bytes(1000))
        assert full.value.errno == errno.EDQUOT
        assert await backend.list_dir(root) == []


async def test_a_directory_that_is_there_keeps_its_mode(world: World) -> None:
    agent = world.reach("modes")
    agent.files.mkdir("private", mode=0o700)
    backend = HoldfastWorkspace(agent)
    await backend.make_dir(f"{await backend.working_dir()}/private")
    assert agent.files.stat("private").mode == 0o700


async def test_what_is_cancelled_is_over_before_anybody_goes_on() -> None:
    begun, goes_on, done = Event(), Event(), list[str]()

    def work() -> None:
        begun.set()
        goes_on.wait(30)
        done.append("written")

    task = asyncio.create_task(aside(work))
    await asyncio.to_thread(begun.wait, 30)
    for _ in range(3):  # Whoever is impatient cancels again.
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["written"]
