"""Files of deep agents in a namespace: what the tools of a model do, and what it cannot reach."""

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deepagents", reason="no deepagents here")

from deepagents import create_deep_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

import holdfast
from holdfast.integrations.deepagents import TRIES, HoldfastBackend, HoldfastSandbox
from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.testing.sandboxes import why_none
from holdfast.testing.servers import Begin, Server, running_server

pytestmark = pytest.mark.in_memory

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    with running_server(home, begin=at_once) as started:
        yield started


@pytest.fixture(params=["embedded", "http"])
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "http":
        server: Server = request.getfixturevalue("server")
        name = f"deep-{next(_NUMBERS)}"
        with holdfast.Client(server.api_key, url=server.url, namespace=name) as client:
            yield client
        return
    with holdfast.open(tmp_path / "vault") as vault:
        yield vault.namespace("deep")


def test_files_are_those_of_the_namespace(agent: Any) -> None:
    backend = HoldfastBackend(agent)
    assert backend.write("/src/app/main.py", "one\ntwo two\nthree\n").path == "/src/app/main.py"
    assert agent.files.read("src/app/main.py") == b"one\ntwo two\nthree\n"
    assert [each.error for each in backend.upload_files([("/a.bin", b"\xff"), ("x", b"")])] == [
        None,
        "invalid_path",
    ]
    assert [(each["path"], each["is_dir"]) for each in backend.ls("/").entries] == [
        ("/a.bin", False),
        ("/src/", True),
    ]
    part = backend.read("/src/app/main.py", offset=1, limit=1)
    assert (part.file_data["content"], part.next_offset) == ("two two\n", 2)
    assert backend.read("/a.bin").file_data == {"content": "/w==", "encoding": "base64"}
    assert backend.edit("/src/app/main.py", "two", "2").error is not None
    assert backend.edit("/src/app/main.py", "two", "2", replace_all=True).occurrences == 2
    assert backend.edit("/a.bin", "a", "b").error is not None
    [match] = backend.grep("2 2", "/src").matches
    assert match == {"path": "/src/app/main.py", "line": 2, "text": "2 2"}
    assert backend.grep("2", glob="*.md").matches == []
    assert len(backend.grep("e", glob="app/*.py", path="/src", max_count=1).matches) == 1
    assert [each["path"] for each in backend.glob("*.{py,md}").matches] == ["/src/app/main.py"]
    assert backend.glob("/*.py").matches == []
    assert [each["path"] for each in backend.glob("*.py", "/src/app").matches] == [
        "/src/app/main.py"
    ]
    answers = backend.download_files(["/a.bin", "/none", "/src"])
    assert [(each.content, each.error) for each in answers] == [
        (b"\xff", None),
        (None, "file_not_found"),
        (None, "is_directory"),
    ]
    before = agent.snapshot()
    assert backend.delete("/src").error is None
    assert backend.delete("/src").error is not None
    assert asyncio.run(backend.als("/")).entries[0]["path"] == "/a.bin"
    agent.restore(before)
    assert backend.read("/src/app/main.py").error is None


class Scripted(GenericFakeChatModel):
    """Says what it was written to say, whatever tools there are."""

    def bind_tools(self, tools: Any, **options: Any) -> Any:  # noqa: ARG002 - as LangChain has it
        return self


def test_a_deep_agent_that_deletes_the_wrong_folder_goes_back(agent: Any) -> None:
    call = {"name": "delete", "args": {"file_path": "/reports"}, "id": "1"}
    says = [AIMessage("What?"), AIMessage("I will.", tool_calls=[call]), AIMessage("Done.")]
    saver, model = HoldfastSaver(agent, snapshots=True), Scripted(messages=iter(says))
    graph: Any = create_deep_agent(model, backend=HoldfastBackend(agent), checkpointer=saver)
    agent.files.write("reports/2026.md", "a year of work")
    thread: Any = {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": ["Hello"]}, thread, durability="sync")
    before = graph.get_state(thread)
    graph.invoke({"messages": ["Delete the drafts"]}, thread, durability="sync")
    assert agent.files.list() == []
    assert len(graph.get_state(thread).values["messages"]) == 6
    saver.restore(before.config)
    assert agent.files.read("reports/2026.md") == b"a year of work"
    assert len(graph.get_state(thread).values["messages"]) == 2


def test_lines_end_as_they_did(agent: Any) -> None:
    backend = HoldfastBackend(agent)

    def edited(data: bytes, old: str, new: str) -> bytes:
        agent.files.write("a.txt", data)
        assert backend.edit("/a.txt", old, new).error is None
        return agent.files.read("a.txt")

    whole = b"one\r\ntwo\r\n"
    for old, new in (("one\ntwo", "1\n2"), ("one\r\ntwo", "1\r\n2"), ("one", "0\none")):
        left = edited(whole, old, new)
        assert left.count(b"\n") == left.count(b"\r\n")
        assert left.startswith(
            new.splitlines()[0].encode() + b"\r\n" + new.splitlines()[1].encode()
        )
    mixed = b"one\r\ntwo\nthree\n"
    assert edited(mixed, "two\nthree", "2\n3") == b"one\r\n2\n3\n"
    assert edited(mixed, "one\ntwo", "1\n2") == b"1\r\n2\nthree\n"
    assert edited(b"one\ntwo\n", "one\ntwo", "1\n2") == b"1\n2\n"


def test_what_is_no_text_by_its_name_comes_in_base64(agent: Any) -> None:
    backend = HoldfastBackend(agent)
    for name in ("p.png", "v.mkv", "P.PDF"):
        agent.files.write(name, "abc\n")
        assert backend.read(f"/{name}", limit=1).file_data == {
            "content": "YWJjCg==",
            "encoding": "base64",
        }


@pytest.mark.parametrize("path", ["/../x", "relative", "/a/../../x", "/\0", "", "/a//b"])
def test_no_path_leads_out(tmp_path: Path, path: str) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        backend = HoldfastBackend(vault.namespace("deep"))
        assert backend.write(path, "x").error is not None
        assert backend.read(path).error is not None
        assert backend.download_files([path])[0].content is None
        assert vault.namespace("deep").files.list() == []


def test_an_edit_overwrites_nothing_that_was_not_seen(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("deep")
        backend = HoldfastBackend(agent)
        agent.files.write("a", "one two")

        class Quicker:
            """Files to which somebody else is quicker, so many times."""

            def __init__(self, times: int) -> None:
                self.times = times

            def __getattr__(self, name: str) -> Any:
                return getattr(agent.files, name)

            def read(self, path: str) -> bytes:
                data = agent.files.read(path)
                if self.times:
                    self.times -= 1
                    agent.files.write(path, f"one two {self.times}")
                return data

        backend.agent = type("Agent", (), {"files": Quicker(1)})()
        assert backend.edit("/a", "one", "1").error is None
        assert agent.files.read("a") == b"1 two 0"

        agent.files.write("a", "one two")
        backend.agent = type("Agent", (), {"files": Quicker(TRIES)})()
        given_up = backend.edit("/a", "one", "1")
        assert given_up.error.startswith("Error: /a was not edited: others changed it")
        assert "Read the file again" in given_up.error
        assert agent.files.read("a") == b"one two 0"


def test_what_is_no_agent_is_said_to_be_none(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        for none in ("deep", None, vault):
            with pytest.raises(holdfast.errors.InvalidValue, match=type(none).__name__):
                HoldfastBackend(none)


def test_commands_run_where_the_files_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with holdfast.open(tmp_path / "off") as vault:
        off = HoldfastSandbox(vault.namespace("deep")).execute("true")
        assert off.exit_code is None
        assert off.output
    if (reason := why_none()) is not None:
        pytest.skip(reason)
    monkeypatch.setenv("HOLDFAST_EXEC", "1")
    with holdfast.open(tmp_path / "vault") as vault:
        agent = vault.namespace("deep")
        backend = HoldfastSandbox(agent)
        backend.write("/a.txt", "b\na\n")
        done = backend.execute("sort a.txt | tee b.txt; echo oh >&2; exit 3", timeout=20)
        assert (done.output, done.exit_code) == ("a\nb\noh\n", 3)
        assert agent.files.read("b.txt") == b"a\nb\n"
