"""Google's Agent Development Kit in a namespace: sessions, artifacts, memories.

It brings packages of its own and holds others back, so that `dev` does without it:
`make frameworks` installs it, and runs this. Its sdist has no tests to run.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed: make frameworks does so")

from google.adk.agents import LlmAgent
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.tools import ToolContext
from google.genai import types

import holdfast
from holdfast.integrations.adk import (
    HoldfastArtifactService,
    HoldfastMemoryService,
    HoldfastSessionService,
    sessions,
)
from holdfast.integrations.adk import artifacts as kept

pytestmark = [pytest.mark.anyio, pytest.mark.in_memory]

Opens = Callable[[], Any]
ALICE = {"app_name": "app", "user_id": "alice"}
HOSTILE = ["a/b", "..", ".", "%2F", "ü ", "x" * 60, "user", "a\nb"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def said(text: str, **more: Any) -> Event:
    actions = EventActions(state_delta=more.pop("state", {}))
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", content=content, actions=actions, **more)


def texts_of(session: Session | None) -> list[str]:
    assert session is not None
    return [event.content.parts[0].text for event in session.events]


def tidied(session: Session | None) -> dict[str, Any]:
    assert session is not None
    return session.model_dump(exclude={"last_update_time"})


# Sessions


async def play(service: BaseSessionService) -> list[Any]:
    """Does what runners do to a session service; returns what it answered."""
    answers: list[Any] = []
    state = {"a": 1, "app:shared": [1], "user:name": "Alice", "temp:x": 1}
    session = await service.create_session(**ALICE, state=state, session_id=" s1 ")
    answers.append(tidied(session))
    await service.create_session(app_name="app", user_id="bob", session_id="s1")
    await service.create_session(app_name="other", user_id="alice", session_id="s1")
    for number in range(5):
        delta = {"a": number, f"k{number}": None, "user:n": number, "app:n": number, "temp:t": 9}
        event = said(str(number), id=f"e{number}", timestamp=100.0 + number, state=delta)
        await service.append_event(session, event)
    await service.append_event(session, said("partial", partial=True))
    answers.append(tidied(session))
    configs = [
        None,
        GetSessionConfig(num_recent_events=2),
        GetSessionConfig(num_recent_events=0),
        GetSessionConfig(num_recent_events=99),
        GetSessionConfig(after_timestamp=103.0),
        GetSessionConfig(after_timestamp=101.0, num_recent_events=2),
    ]
    for config in configs:
        found = await service.get_session(**ALICE, session_id="s1 ", config=config)
        answers.append(tidied(found))
    answers.append(await service.get_session(**ALICE, session_id="nothing"))
    for more in ({"user_id": "alice"}, {"user_id": None}, {"user_id": "carol"}):
        listed = await service.list_sessions(app_name="app", **more)
        answers.append([tidied(each) for each in listed.sessions])
    answers.append(await service.get_user_state(**ALICE))
    answers.append(await service.get_user_state(app_name="app", user_id="bob"))
    await service.delete_session(**ALICE, session_id="s1")
    await service.delete_session(**ALICE, session_id="s1")
    answers.append(await service.get_session(**ALICE, session_id="s1"))
    again = await service.create_session(**ALICE, session_id="s1")
    answers.append(tidied(again))
    return answers


async def test_a_session_of_any_length_is_deleted(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "TOGETHER", 2)
    service, events = HoldfastSessionService(opens()), sessions.Places.of("app").events
    for name in ("s1", "s2"):
        session = await service.create_session(**ALICE, session_id=name)
        for number in range(5):
            await service.append_event(session, said(str(number)))
    await service.delete_session(**ALICE, session_id="s1")
    assert await service.get_session(**ALICE, session_id="s1") is None
    assert len(opens().store.keys(events)) == 5
    assert len(texts_of(await service.get_session(**ALICE, session_id="s2"))) == 5


async def test_it_answers_as_the_service_in_memory_does(opens: Opens) -> None:
    assert await play(HoldfastSessionService(opens())) == await play(InMemorySessionService())


async def test_a_session_that_is_there_is_not_made_again(opens: Opens) -> None:
    service = HoldfastSessionService(opens())
    await service.create_session(**ALICE, session_id="s")
    with pytest.raises(AlreadyExistsError):
        await service.create_session(**ALICE, session_id="s", state={"app:x": 1})
    assert (await service.get_session(**ALICE, session_id="s")).state == {}  # pyright: ignore[reportOptionalMemberAccess]
    with pytest.raises(SessionNotFoundError):
        await service.append_event(Session(id="gone", **ALICE), said("x"))


async def test_of_two_who_append_the_second_is_told(opens: Opens) -> None:
    service = HoldfastSessionService(opens())
    first = await service.create_session(**ALICE, session_id="s")
    second = await service.get_session(**ALICE, session_id="s")
    assert second is not None
    at = first.last_update_time
    await service.append_event(first, said("first", timestamp=at, state={"app:x": 1}))
    with pytest.raises(StaleSessionError):
        await service.append_event(second, said("second", timestamp=at, state={"app:x": 2}))
    found = await service.get_session(**ALICE, session_id="s")
    assert (texts_of(found), found.state) == (["first"], {"app:x": 1})  # pyright: ignore[reportOptionalMemberAccess]


async def test_of_many_who_append_at_once_none_is_lost_and_none_stored_twice(opens: Opens) -> None:
    service = HoldfastSessionService(opens())
    await service.create_session(**ALICE, session_id="s")

    async def append(number: int) -> None:
        while True:
            session = await service.get_session(**ALICE, session_id="s")
            assert session is not None
            try:
                event = said(str(number), state={str(number): 1, f"app:{number}": 1})
                await service.append_event(session, event)
            except StaleSessionError:
                continue
            return

    await asyncio.gather(*map(append, range(6)))
    session = await service.get_session(**ALICE, session_id="s")
    assert sorted(texts_of(session)) == [*map(str, range(6))]
    assert session is not None
    assert set(session.state) == {*map(str, range(6)), *(f"app:{n}" for n in range(6))}


async def test_an_event_whose_answer_was_lost_is_stored_once(opens: Opens) -> None:
    service = HoldfastSessionService(opens())
    session = await service.create_session(**ALICE, session_id="s")
    event = said("once", state={"n": 1})
    before = session.model_copy(deep=True)
    await service.append_event(session, event.model_copy(deep=True))
    await service.append_event(before, event)  # As somebody does who has heard nothing.
    assert texts_of(await service.get_session(**ALICE, session_id="s")) == ["once"]
    assert (texts_of(before), before.state) == (["once"], {"n": 1})
    await service.append_event(before, said("goes on"))


@pytest.mark.parametrize("name", HOSTILE)
async def test_names_are_no_paths(opens: Opens, name: str) -> None:
    if name.strip() == "":
        return
    service = HoldfastSessionService(opens())
    whole = {"app_name": name, "user_id": name}
    made = await service.create_session(**whole, session_id=f"{name}x", state={f"user:{name}": 1})
    await service.create_session(app_name=name, user_id=f"{name}/{name}", session_id="x")
    listed = await service.list_sessions(**whole)
    assert [(each.id, each.user_id) for each in listed.sessions] == [(made.id, name)]
    assert await service.get_user_state(**whole) == {name: 1}


async def test_states_hold_what_json_does_not(opens: Opens) -> None:
    service = HoldfastSessionService(opens())
    odd = {"big": 2**80, "bytes": b"\xff", "function": len, "nan": float("inf"), "set": {1}}
    session = await service.create_session(**ALICE, state=odd)
    found = await service.get_session(**ALICE, session_id=session.id)
    assert found is not None
    assert found.state == session.state
    assert found.state["big"] == 2**80


# Artifacts


def blob(data: bytes, mime_type: str = "image/png") -> types.Part:
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type))


async def test_artifacts_have_versions_and_are_files(opens: Opens) -> None:
    service = HoldfastArtifactService(opens())
    whole = {**ALICE, "session_id": "s", "filename": "a/pic.png"}
    signed = blob(b"\xff0")
    signed.thought_signature = b"\xfe\xff"
    assert await service.load_artifact(**whole) is None
    assert await service.list_versions(**whole) == []
    assert await service.save_artifact(**whole, artifact=signed) == 0
    text = types.Part(text="text \u00fc")
    assert await service.save_artifact(**whole, artifact=text, custom_metadata={"k": 1}) == 1
    linked = types.Part(file_data=types.FileData(file_uri="gs://b/o", mime_type="a/b"))
    assert await service.save_artifact(**whole, artifact=linked) == 2

    other = HoldfastArtifactService(opens())
    loaded = [await other.load_artifact(**whole, version=number) for number in (0, 1, 2, None)]
    assert loaded == [signed, text, linked, linked]
    assert await other.list_versions(**whole) == [0, 1, 2]
    known = await other.list_artifact_versions(**whole)
    assert [(each.version, each.mime_type) for each in known] == [
        (0, "image/png"),
        (1, "text/plain"),
        (2, "a/b"),
    ]
    assert known[1].custom_metadata == {"k": 1}
    assert await other.get_artifact_version(**whole, version=1) == known[1]
    assert await other.get_artifact_version(**whole) == known[2]
    for nothing in (-1, 3):
        assert await other.load_artifact(**whole, version=nothing) is None
    content = f"{kept.FOLDER}/app/alice/sessions/s/a%2Fpic.png/0/{kept.CONTENT}"
    assert opens().files.read(content) == b"\xff0"

    await other.delete_artifact(**whole)
    await other.delete_artifact(**whole)
    assert await other.list_artifact_keys(**ALICE, session_id="s") == []


async def test_artifacts_are_of_a_session_or_of_a_user(opens: Opens) -> None:
    service = HoldfastArtifactService(opens())
    for session_id, name in (("s", "one"), ("t", "two"), (None, "user:all"), ("s", "user:more")):
        await service.save_artifact(
            **ALICE, session_id=session_id, filename=name, artifact={"text": name}
        )
    assert await service.list_artifact_keys(**ALICE, session_id="s") == [
        "one",
        "user:all",
        "user:more",
    ]
    assert await service.list_artifact_keys(**ALICE) == ["user:all", "user:more"]
    assert await service.list_artifact_keys(app_name="app", user_id="bob") == []
    with pytest.raises(InputValidationError):
        await service.save_artifact(**ALICE, filename="of nobody", artifact={"text": "x"})
    with pytest.raises(InputValidationError):
        await service.save_artifact(**ALICE, session_id="s", filename="x", artifact=types.Part())
    for hostile in ("../x", "/x", "", "a\0b"):
        with pytest.raises(InputValidationError):
            await service.load_artifact(app_name="app", user_id=hostile, filename="user:x")


async def test_a_name_has_as_many_bytes_as_that_of_a_file(opens: Opens) -> None:
    service, session = HoldfastArtifactService(opens()), {**ALICE, "session_id": "\u4f1a" * 80}
    name = "\u5831\u544a" * 39 + "/\u202e%.txt"
    assert await service.save_artifact(**session, filename=name, artifact={"text": "x"}) == 0
    assert await service.list_artifact_keys(**session) == [name]
    assert await service.load_artifact(**session, filename=name) == types.Part(text="x")
    for long in ({**session, "filename": "\u5831" * 86}, {**ALICE, "session_id": "s" * 256}):
        whole = {"filename": "f", **long}
        with pytest.raises(InputValidationError, match="not a usable path"):
            await service.save_artifact(**whole, artifact={"text": "x"})
        assert await service.load_artifact(**whole) is None
        assert await service.load_artifact(**whole, version=0) is None
        assert await service.list_versions(**whole) == []
        await service.delete_artifact(**whole)
    assert await service.list_artifact_keys(**ALICE, session_id="s" * 256) == []


async def test_of_many_who_save_at_once_each_has_a_version(opens: Opens) -> None:
    service = HoldfastArtifactService(opens())
    whole = {**ALICE, "session_id": "s", "filename": "f"}
    numbers = await asyncio.gather(
        *(service.save_artifact(**whole, artifact=blob(bytes([n]))) for n in range(6))
    )
    assert sorted(numbers) == [*range(6)]
    loaded = [await service.load_artifact(**whole, version=number) for number in numbers]
    assert loaded == [blob(bytes([n])) for n in range(6)]


async def test_a_large_artifact_counts_when_it_is_whole(
    opens: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "TOGETHER_BYTES", 1000)
    service, whole = HoldfastArtifactService(opens()), {**ALICE, "filename": "user:f"}
    place = f"{kept.FOLDER}/app/alice/user/user%3Af"
    opens().files.write(f"{place}/0/{kept.CONTENT}", "what a crash has left")
    assert await service.list_versions(**whole) == []
    assert await service.save_artifact(**whole, artifact=blob(bytes(2000))) == 1
    assert await service.load_artifact(**whole) == blob(bytes(2000))


async def test_references_stay_with_whom_they_belong_to_and_end(opens: Opens) -> None:
    service = HoldfastArtifactService(opens())

    def to(user: str, name: str) -> types.Part:
        uri = f"artifact://apps/app/users/{user}/artifacts/{name}/versions/0"
        return types.Part(file_data=types.FileData(file_uri=uri, mime_type="x/y"))

    await service.save_artifact(**ALICE, filename="user:real", artifact=blob(b"1"))
    await service.save_artifact(**ALICE, filename="user:ref", artifact=to("alice", "user:real"))
    assert await service.load_artifact(**ALICE, filename="user:ref") == blob(b"1")
    with pytest.raises(InputValidationError):
        await service.save_artifact(**ALICE, filename="user:x", artifact=to("bob", "user:real"))
    await service.save_artifact(**ALICE, filename="user:loop", artifact=to("alice", "user:loop"))
    with pytest.raises(InputValidationError):
        await service.load_artifact(**ALICE, filename="user:loop")


# Memories


async def test_what_was_said_is_remembered_once_and_found(opens: Opens) -> None:
    service = HoldfastMemoryService(opens())
    events = [
        said("My favourite colour is blue", id="e1"),
        said("The meeting is on Friday", id="e2"),
        Event(author="agent", id="e3"),
        said(" ", id="e4"),
    ]
    session = Session(id="s", **ALICE, events=events)
    await service.add_session_to_memory(session)
    await service.add_session_to_memory(session)
    await service.add_events_to_memory(**ALICE, events=events[:1], session_id="s")
    assert len(opens().memory.list(limit=None)) == 2

    found = await service.search_memory(**ALICE, query="Which colour does she like?")
    (memory,) = found.memories
    assert (memory.author, memory.content) == ("user", events[0].content)
    for other in ({"app_name": "app", "user_id": "bob"}, {"app_name": "b", "user_id": "alice"}):
        assert (await service.search_memory(**other, query="colour")).memories == []
        await service.delete_memory(**other, memory_id=memory.id)
    assert (await service.search_memory(**ALICE, query="")).memories == []

    await service.delete_memory(**ALICE, memory_id=memory.id)
    await service.delete_memory(**ALICE, memory_id=memory.id)
    await service.add_session_to_memory(session)  # What was forgotten is not remembered again.
    assert (await service.search_memory(**ALICE, query="colour")).memories == []


async def test_long_texts_and_given_memories_are_remembered(opens: Opens) -> None:
    service = HoldfastMemoryService(opens())
    long = "zebra " * 3000
    entry = MemoryEntry(content=types.Content(parts=[types.Part(text="likes tea\0")]))
    await service.add_events_to_memory(**ALICE, events=[said(long, id="e")])
    await service.add_memory(**ALICE, memories=[entry, entry], custom_metadata={"k": 1})
    assert len((await service.search_memory(**ALICE, query="zebra")).memories) == 2
    (found,) = (await service.search_memory(**ALICE, query="tea")).memories
    assert found.custom_metadata == {"k": 1}


# All of it


class Scripted(BaseLlm):
    """A model that calls a tool, and says what came of it."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002 - as ADK calls it
    ) -> AsyncIterator[LlmResponse]:
        last = llm_request.contents[-1].parts[0]
        if last.function_response is None:
            call = types.FunctionCall(name="tidy_up", args={"folder": "src"})
            part = types.Part(function_call=call)
        else:
            part = types.Part(text="I removed src.")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def runner_in(world: Any) -> Runner:
    async def tidy_up(folder: str, tool_context: ToolContext) -> str:
        """Removes a folder."""
        world.files.delete(folder, recursive=True)
        tool_context.state["tidied"] = folder
        await tool_context.save_artifact("report.txt", types.Part(text="all is gone"))
        return "removed"

    return Runner(
        app_name="app",
        agent=LlmAgent(name="helper", model=Scripted(model="scripted"), tools=[tidy_up]),
        session_service=HoldfastSessionService(world),
        artifact_service=HoldfastArtifactService(world),
        memory_service=HoldfastMemoryService(world),
    )


async def run(runner: Runner) -> None:
    asked = types.Content(role="user", parts=[types.Part(text="tidy up")])
    async for _ in runner.run_async(user_id="alice", session_id="s", new_message=asked):
        pass


async def test_a_rewind_of_adk_takes_state_and_artifacts_of_a_session_back(opens: Opens) -> None:
    world, runner = opens(), runner_in(opens())
    world.files.write("src/main.py", "print('hello')\n")
    await runner.session_service.create_session(**ALICE, session_id="s")
    await run(runner)
    session = await runner.session_service.get_session(**ALICE, session_id="s")
    assert session is not None
    await runner.rewind_async(
        user_id="alice",
        session_id="s",
        rewind_before_invocation_id=session.events[0].invocation_id,
    )
    session = await runner.session_service.get_session(**ALICE, session_id="s")
    assert session is not None
    assert session.state == {"tidied": None}
    whole = {**ALICE, "session_id": "s", "filename": "report.txt"}
    assert await HoldfastArtifactService(world).load_artifact(**whole) is None
    assert not world.files.exists("src")  # That is what a restore is for.


async def test_one_call_brings_files_state_and_conversation_back(opens: Opens) -> None:
    world, runner, sessions = opens(), runner_in(opens()), HoldfastSessionService(opens())
    world.files.write("src/main.py", "print('hello')\n")
    await sessions.create_session(**ALICE, session_id="s", state={"step": 1})
    before = world.snapshot("before the agent runs")

    await run(runner)
    changed = await sessions.get_session(**ALICE, session_id="s")
    assert changed is not None
    assert changed.state == {"step": 1, "tidied": "src"}
    assert len(changed.events) == 4
    assert not world.files.exists("src")
    assert world.files.exists(kept.FOLDER)

    world.restore(before)
    back = await sessions.get_session(**ALICE, session_id="s")
    assert back is not None
    assert (back.state, back.events) == ({"step": 1}, [])
    assert world.files.read_text("src/main.py") == "print('hello')\n"
    assert not world.files.exists(kept.FOLDER)
    with pytest.raises(StaleSessionError):
        await sessions.append_event(changed, said("goes on from what was taken back"))
    assert isinstance(world, holdfast.Namespace | holdfast.Client)
