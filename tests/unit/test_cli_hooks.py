"""What agents say is read in bounded time, and their settings keep what is not ours."""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import installed
from holdfast.cli.exits import Refused
from holdfast.cli.hooks import problems, process, settings
from holdfast.cli.hooks.agents import AGENTS, CLAUDE_CODE, CODEX, CURSOR, GEMINI, Agent, Moment
from holdfast.cli.hooks.hearing import LONGEST_NAME, MOST_ROOTS, clean, hear
from holdfast.operations.checks import check_text
from holdfast.testing.shells import environment

pytestmark = pytest.mark.in_memory

EVERY = [pytest.param(agent, id=agent.name) for agent in AGENTS.values()]


def said(**members: object) -> bytes:
    return json.dumps(members).encode()


# What they say


def test_what_an_agent_wants_to_read_is_the_same_in_both_places() -> None:
    wanted = {name: f"{agent.answer}\n".encode() for name, agent in AGENTS.items() if agent.answer}
    assert wanted == process.ANSWERS


@pytest.mark.parametrize("agent", EVERY)
def test_every_event_that_is_installed_means_something(agent: Agent) -> None:
    assert all(agent.moments[event] is not Moment.NOTHING for event in agent.installed)
    heard = {agent.moments[event] for event in agent.installed}
    assert {Moment.PROMPT, Moment.BEFORE, Moment.AFTER, Moment.END} <= heard


def test_a_prompt_is_heard_with_its_conversation() -> None:
    heard = hear(
        CLAUDE_CODE,
        said(
            session_id="s1",
            prompt_id="p7",
            transcript_path="/t.jsonl",
            cwd="/project",
            permission_mode="default",
            hook_event_name="UserPromptSubmit",
            prompt="  fix the\nparser  ",
        ),
    )
    assert (heard.moment, heard.session, heard.prompt_id) == (Moment.PROMPT, "s1", "p7")
    assert (heard.prompt, heard.directory, heard.fault) == ("fix the parser", "/project", "")


def test_what_is_open_is_heard_where_an_agent_says_it() -> None:
    heard = hear(CURSOR, said(conversation_id="c", workspace_roots=["/a", "/b"]))
    assert (heard.directory, heard.roots) == ("", ("/a", "/b"))
    many = hear(CURSOR, said(conversation_id="c", workspace_roots=["/a"] * 10_000))
    assert len(many.roots) == MOST_ROOTS
    for odd in ("/a", {"x": "/a"}, ["/a", 7], [["/a"]], None):
        assert hear(CURSOR, said(conversation_id="c", workspace_roots=odd)).roots == ()
    assert hear(CLAUDE_CODE, said(session_id="s", workspace_roots=["/a"])).roots == ()


def test_tools_that_only_read_are_nothing_to_keep() -> None:
    for tool, moment in (("Read", Moment.NOTHING), ("Bash", Moment.BEFORE), ("new", Moment.BEFORE)):
        heard = hear(CODEX, said(session_id="s", hook_event_name="PreToolUse", tool_name=tool))
        assert heard.moment is moment


def test_an_event_that_nobody_knows_may_have_changed_something() -> None:
    assert hear(CLAUDE_CODE, said(session_id="s", hook_event_name="New")).moment is Moment.AFTER


def test_what_is_cut_off_is_heard_as_far_as_it_goes() -> None:
    whole = said(
        session_id="s1",
        tool_input={"session_id": "forged", "text": "x" * 1000},
        hook_event_name="UserPromptSubmit",
        prompt="a long " + "prompt " * 1000,
    )
    heard = hear(CLAUDE_CODE, whole[:3000])
    assert (heard.moment, heard.session) == (Moment.PROMPT, "s1")
    assert heard.prompt.startswith("a long prompt")
    assert "no JSON object" in heard.fault


def test_what_lies_deeper_is_not_what_the_agent_says() -> None:
    broken = b'{"tool_input": {"session_id": "forged", "cwd": "/etc"}, "n": [1, {"prompt": "no"}], '
    heard = hear(CLAUDE_CODE, broken)
    assert (heard.session, heard.directory, heard.prompt) == ("", "", "")


HOSTILE = {
    "nothing": b"",
    "no object": b"[1, 2]",
    "a number": b"7",
    "half": b'{"session_id": "s1", "prompt": "abc',
    "deep lists": b'{"session_id": "s1", "x": ' + b"[" * 400_000,
    "deep objects": b'{"a":' * 80_000,
    "closing": b"}" * 500_000,
    "quotes": b'"' * 500_000,
    "backslashes": b'{"session_id": "' + b"\\" * 500_000,
    "no text": bytes(range(256)) * 2000,
    "members of other types": said(session_id=7, prompt=["x"], hook_event_name=None, cwd={}),
    "half a character": b'{"session_id": "\\ud800", "prompt": "\\udfff x"}',
    "controls": said(session_id="s\x1b[2J\x00\x07", prompt="\x1b]0;x\x07\u202eevil\r\n" * 100),
}


@pytest.mark.parametrize("agent", EVERY)
@pytest.mark.parametrize("given", HOSTILE.values(), ids=HOSTILE)
def test_whatever_is_said_is_heard_in_bounded_time_as_text_that_can_be_kept(
    agent: Agent, given: bytes
) -> None:
    start = time.process_time()
    heard = hear(agent, given, event="x" * 1000)
    assert time.process_time() - start < 5
    for text in (heard.name, heard.session, heard.prompt, heard.tool, heard.prompt_id or ""):
        check_text("text", text, max_chars=256)
        assert text.isprintable()
    assert heard.session or heard.fault


def test_a_prompt_is_known_by_its_beginning() -> None:
    assert clean("é" * 500, most=LONGEST_NAME) == "é" * (LONGEST_NAME - 1) + "…"
    assert clean(" \n\t ", most=9) == ""


def test_agents_start_the_command_and_never_what_lies_in_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("holdfast", "holdfast-python", "other"):
        (tmp_path / name).touch(mode=0o755)
    for name in ("holdfast", "holdfast-python"):
        monkeypatch.setattr("sys.argv", [str(tmp_path / name)])
        assert installed.program() == [str(tmp_path / "holdfast")]
    (tmp_path / "holdfast").unlink()
    assert installed.program() == [str(tmp_path / "holdfast-python")]
    for name in ("other", "holdfast", "main.py"):
        monkeypatch.setattr("sys.argv", [str(tmp_path / name)])
        assert installed.program() == [sys.executable, "-P", "-m", "holdfast.cli.main"]


def test_both_kinds_of_settings_name_the_same_program(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    script = "import sys; from holdfast.cli.main import main; sys.exit(main(sys.argv[1:]))"
    environ = environment(tmp_path, HOLDFAST_DATA=str(tmp_path / "vault"))
    for words in (["init"], ["mcp", "install", "gemini"], ["hook", "install", "gemini"]):
        command = [sys.executable, "-P", "-c", script, *words]
        subprocess.run(
            command, cwd=tmp_path / "project", env=environ, check=True, capture_output=True
        )
    written = json.loads((tmp_path / "project/.gemini/settings.json").read_text())
    server = written["mcpServers"]["holdfast"]
    hook = shlex.split(written["hooks"]["BeforeAgent"][0]["hooks"][0]["command"])
    assert (
        [server["command"], *server["args"]][:4]
        == hook[:4]
        == [sys.executable, "-P", "-m", "holdfast.cli.main"]
    )


def test_only_hook_run_is_a_hook() -> None:
    assert process.is_hook(["-C", "run", "hook", "run", "claude-code"])
    assert process.is_hook(["hook", "--data", "x", "run"])
    assert not process.is_hook(["hook", "install", "run"])
    assert not process.is_hook(["run", "--", "hook", "run"])
    assert not process.is_hook(["snapshot", "-m", "hook"])


# Their settings

FOREIGN: dict[str, dict[str, Any]] = {
    "claude-code": {
        "permissions": {"allow": ["Bash(ls:*)"], "deny": []},
        "hooks": {
            "PreToolUse": [
                {"matcher": "Bash", "hooks": [{"type": "command", "command": "audit 'é'"}]},
                {"matcher": "x", "hooks": [{"type": "http", "url": "http://localhost"}]},
            ],
            "Notification": [],
        },
    },
    "codex": {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "holdfast log"}]}]}},
    "gemini": {"theme": "dark", "hooks": {"BeforeTool": [{"matcher": ".*", "hooks": []}]}},
    "cursor": {"version": 1, "hooks": {"stop": [{"command": "notify"}]}},
}


def commands(agent: Agent, *, where: str = "/p q") -> dict[str, str]:
    words = ["/x y/bin/holdfast", "hook", "run", agent.name, "-C", where]
    return {event: shlex.join([*words, "--event", event]) for event in agent.installed}


def install(path: Path, agent: Agent, **options: str) -> bool:
    edit = settings.with_ours(agent, commands(agent, **options))
    return settings.change(str(path), edit, within=str(path.parent))


def uninstall(path: Path, agent: Agent) -> bool:
    return settings.change(str(path), settings.without_ours(agent), within=str(path.parent))


@pytest.mark.parametrize("agent", EVERY)
def test_installing_and_uninstalling_leaves_what_was_there(tmp_path: Path, agent: Agent) -> None:
    path = tmp_path / "settings.json"
    before = json.dumps(FOREIGN[agent.name], indent=4, ensure_ascii=False) + "\n"
    path.write_text(before, encoding="utf-8")
    path.chmod(0o640)
    assert install(path, agent)
    once = path.read_bytes()
    assert not install(path, agent)
    assert path.read_bytes() == once
    assert path.stat().st_mode & 0o777 == 0o640
    assert set(settings.events_of(str(path), agent)) == set(agent.installed)
    assert install(path, agent, where="/elsewhere")
    assert b"/p q" not in path.read_bytes()
    assert uninstall(path, agent)
    assert path.read_text("utf-8") == before
    assert not uninstall(path, agent)
    assert os.listdir(tmp_path) == ["settings.json"]


ODD = {
    "numbers": b'{"a": 1.10, "b": 1e400,\n "c": -0.0}\n',
    "layout": b'{\n\t"a" : [1,2,\n 3],\n\n\t"b":{}}',
    "line ends": b'{\r\n  "a": 1,\r\n  "b": 2\r\n}\r\n',
    "half a character": b'{"a": "\\ud800", "b": "\\u00e9"}',
    "other hooks": b'{"hooks": {"Other": []}, "a": 2.50}',
}


@pytest.mark.parametrize("given", ODD.values(), ids=ODD)
def test_every_byte_of_what_others_wrote_stays(tmp_path: Path, given: bytes) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(given)
    assert install(path, CLAUDE_CODE)
    made = path.read_bytes()
    assert set(settings.events_of(str(path), CLAUDE_CODE)) == set(CLAUDE_CODE.installed)
    assert made.count(b"\r\n") in (0, made.count(b"\n"))
    assert uninstall(path, CLAUDE_CODE)
    assert path.read_bytes() == given


def test_hooks_that_cannot_be_written_again_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    for odd in (b'{"hooks": {"Other": [1e400]}}', b'{"hooks": {"Other": ["\\ud800"]}}'):
        path.write_bytes(odd)
        with pytest.raises(Refused):
            install(path, CLAUDE_CODE)
        assert path.read_bytes() == odd


@pytest.mark.parametrize("agent", EVERY)
def test_where_there_was_nothing_nothing_is_left(tmp_path: Path, agent: Agent) -> None:
    path = tmp_path / "folder" / "settings.json"
    assert install(path, agent)
    written = json.loads(path.read_text())
    assert set(written["hooks"]) == set(agent.installed)
    assert {**written, "hooks": None} == {**agent.fresh, "hooks": None}
    assert uninstall(path, agent)
    assert not path.parent.exists()


def test_a_command_of_ours_is_taken_out_of_a_group_that_has_others(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    ours = commands(CODEX)["Stop"]
    both = [{"type": "command", "command": ours}, {"type": "command", "command": "theirs"}]
    path.write_text(json.dumps({"hooks": {"Stop": [{"hooks": both}]}}))
    assert uninstall(path, CODEX)
    assert json.loads(path.read_text()) == {"hooks": {"Stop": [{"hooks": both[1:]}]}}


REFUSED = {
    "no JSON": b"{ // a comment\n}",
    "cut off": b'{"hooks": {',
    "no object": b"[]",
    "twice": b'{"a": 1, "a": 2}',
    "no number": b'{"a": NaN}',
    "no text": b'{"a": "\xff"}',
    "hooks is a list": b'{"hooks": []}',
    "an event is an object": b'{"hooks": {"Stop": {}}}',
    "deep": b'{"a":' * 100_000,
    "too large": b" " * (settings.LONGEST + 1),
}


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED)
def test_settings_that_are_not_valid_are_refused_and_left_as_they_are(
    tmp_path: Path, given: bytes
) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(given)
    for change in (install, uninstall):
        with pytest.raises(Refused) as refused:
            change(path, CLAUDE_CODE)
        assert refused.value.code == "settings_refused"
        assert refused.value.hint
    assert path.read_bytes() == given
    assert os.listdir(tmp_path) == ["settings.json"]


def test_a_link_that_leads_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    target = tmp_path / "target.json"
    target.write_text("{}")
    (tmp_path / "project" / "settings.json").symlink_to(target)
    with pytest.raises(Refused, match="outside"):
        install(tmp_path / "project" / "settings.json", GEMINI)
    (tmp_path / "project" / ".cursor").symlink_to(tmp_path)
    edit = settings.with_ours(CURSOR, commands(CURSOR))
    path = tmp_path / "project" / ".cursor" / "hooks.json"
    with pytest.raises(Refused, match="outside"):
        settings.change(str(path), edit, within=str(tmp_path / "project"))
    assert target.read_text() == "{}"
    assert not (tmp_path / "hooks.json").exists()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "settings.json")
    with pytest.raises(Refused, match="no file"):
        install(tmp_path / "settings.json", GEMINI)


@pytest.mark.parametrize("agent", [CLAUDE_CODE, GEMINI, CURSOR], ids=lambda agent: agent.name)
def test_a_directory_in_the_place_of_settings_is_refused_by_its_name(
    agent: Agent, tmp_path: Path
) -> None:
    path = tmp_path / "settings.json"
    path.mkdir()
    for act in (
        lambda: install(path, agent),
        lambda: settings.change(str(path), settings.without_ours(agent), within=None),
        lambda: settings.events_of(str(path), agent),
    ):
        with pytest.raises(Refused, match=r"settings\.json is no file") as refused:
            act()
        assert (refused.value.code, refused.value.exit_code) == ("settings_refused", 4)
    assert os.listdir(tmp_path) == ["settings.json"]


def test_what_somebody_else_writes_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    edit, seen = settings.with_ours(CLAUDE_CODE, commands(CLAUDE_CODE)), list[int]()

    def slow(document: dict[str, Any]) -> dict[str, Any]:
        seen.append(len(seen))
        if len(seen) == 1:
            path.write_text('{"theirs": 1}')
        return edit(document)

    assert settings.change(str(path), slow, within=None)
    assert json.loads(path.read_text())["theirs"] == 1
    assert len(seen) == 2


# What went wrong


def test_problems_are_lines_of_plain_text_in_a_file_of_bounded_size(tmp_path: Path) -> None:
    problems.note(str(tmp_path), "claude-code", "a\nb\x1b[2Jé")
    (line,) = problems.last(str(tmp_path), most=9)
    assert line.endswith(r"claude-code a\nb\x1b[2J\xe9")
    for _ in range(1000):
        problems.note(str(tmp_path), "x" * 5000)
    sizes = [each.stat().st_size for each in (tmp_path / "run").iterdir()]
    assert len(sizes) == 2
    assert max(sizes) <= problems.LONGEST_FILE + 2 * problems.LONGEST_LINE
    assert len(problems.last(str(tmp_path), most=9)) == 9
    assert (tmp_path / "run" / problems.NAME).stat().st_mode & 0o077 == 0


def test_no_vault_is_made_to_say_what_went_wrong(tmp_path: Path) -> None:
    problems.note(str(tmp_path / "none"), "x")
    problems.note("postgresql://host/db", "x")
    assert os.listdir(tmp_path) == []
    assert problems.last(str(tmp_path / "none"), most=1) == []
