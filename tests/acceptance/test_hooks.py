"""Hooks as agents run them: the installed command, their JSON on stdin, and exit code 0."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.hooks.agents import AGENTS
from holdfast.cli.hooks.process import LONGEST_S
from holdfast.testing.servers import COMMAND
from holdfast.testing.shells import environment

pytestmark = pytest.mark.in_memory

Said = dict[str, Any]


class Project:
    """A directory with hooks in it, and whoever works there."""

    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        self.command = command
        self.directory, self.vault = folder / "project", folder / "vault"
        self.directory.mkdir()
        (self.directory / "README").write_text("read me\n")
        self.environ = {**os.environ, "HOME": str(folder), "HOLDFAST_DATA": str(self.vault)}
        self.took: list[float] = []
        assert self.run("init").returncode == 0

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, *words],
            cwd=self.directory,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def json(self, *words: str) -> Said:
        done = self.run(*words, "--json")
        assert done.returncode == 0, done.stderr
        document: Said = json.loads(done.stdout)
        return document

    def install(self, agent: str) -> dict[str, str]:
        """Installs hooks; returns what the agent's settings say to run for each event."""
        assert self.run("hook", "install", agent).returncode == 0
        written = json.loads((self.directory / AGENTS[agent].local).read_text())
        found: dict[str, str] = {}
        for event, (entry,) in written["hooks"].items():
            found[event] = entry["command"] if "command" in entry else entry["hooks"][0]["command"]
        return found

    def tell(self, command: str, given: bytes) -> subprocess.CompletedProcess[bytes]:
        """Runs a hook as agents do: by a shell, from wherever they are."""
        start = time.perf_counter()
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=given,
            cwd="/",
            env=environment(Path(self.environ["HOME"])),
            capture_output=True,
            check=False,
            timeout=60,
        )
        self.took.append(time.perf_counter() - start)
        assert done.returncode == 0
        return done

    def shell(self, script: str) -> None:
        subprocess.run(["/bin/sh", "-ec", script], cwd=self.directory, check=True)

    def state(self) -> dict[str, bytes]:
        files = (each for each in self.directory.rglob("*") if each.is_file())
        return {str(each.relative_to(self.directory)): each.read_bytes() for each in files}

    def prompts(self) -> list[Said]:
        found: list[Said] = self.json("agent", "log", "--all", "-n", "0")["prompts"]
        return found

    def log(self) -> str:
        path = self.vault / "run" / "hooks.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def project(tmp_path: Path, warm: tuple[str, ...]) -> Iterator[Project]:
    made = Project(tmp_path, warm)
    yield made
    made.run("watch", "--stop")


def claude(project: Project, event: str, **more: object) -> Said:
    return {
        "session_id": "5d4103cb-1f0e-4a1c-9b1a-6f7f5d1b2a10",
        "prompt_id": "c0f3",
        "transcript_path": "/home/somebody/.claude/projects/x/5d41.jsonl",
        "cwd": str(project.directory),
        "permission_mode": "acceptEdits",
        "hook_event_name": event,
        **more,
    }


def session_of(agent: str, project: Project) -> list[Said]:
    """Returns what an agent says while it does one thing, as its documentation has it."""
    where = str(project.directory)
    codex: Said = {
        "session_id": "019d036d-c7fa-72d2-b6fd-78878bfe34e4",
        "turn_id": "019d036d-turn",
        "transcript_path": None,
        "cwd": where,
        "model": "gpt",
        "permission_mode": "default",
    }
    gemini: Said = {
        "session_id": "g-1",
        "transcript_path": "/tmp/g.json",
        "cwd": where,
        "timestamp": "2026-11-16T10:00:00.000Z",
    }
    cursor: Said = {
        "conversation_id": "668320d2-2fd8",
        "generation_id": "490b90b7-a2ce",
        "model": "auto",
        "cursor_version": "2.0.77",
        "workspace_roots": [where],
        "user_email": None,
    }
    shell = {"command": "make", "description": "Build it", "timeout": 120000}
    sessions: dict[str, list[Said]] = {
        "claude-code": [
            claude(project, "UserPromptSubmit", prompt="add a file"),
            claude(
                project, "PreToolUse", tool_name="Bash", tool_input=shell, tool_use_id="toolu_01"
            ),
            claude(
                project,
                "PostToolUse",
                tool_name="Bash",
                tool_input=shell,
                tool_response={"stdout": "", "interrupted": False},
                tool_use_id="toolu_01",
            ),
            claude(project, "Stop", stop_hook_active=False),
        ],
        "codex": [
            {**codex, "hook_event_name": "UserPromptSubmit", "prompt": "add a file"},
            {
                **codex,
                "hook_event_name": "PreToolUse",
                "tool_name": "Bash",
                "tool_input": {"command": "make"},
                "tool_use_id": "call_1",
            },
            {
                **codex,
                "hook_event_name": "PostToolUse",
                "tool_name": "Bash",
                "tool_input": {"command": "make"},
                "tool_response": "made",
                "tool_use_id": "call_1",
            },
            {
                **codex,
                "hook_event_name": "Stop",
                "stop_hook_active": False,
                "last_assistant_message": "Done.",
            },
        ],
        "gemini": [
            {**gemini, "hook_event_name": "BeforeAgent", "prompt": "add a file"},
            {
                **gemini,
                "hook_event_name": "BeforeTool",
                "tool_name": "run_shell_command",
                "tool_input": {"command": "make"},
            },
            {
                **gemini,
                "hook_event_name": "AfterTool",
                "tool_name": "run_shell_command",
                "tool_input": {"command": "make"},
                "tool_response": {"llmContent": "made", "returnDisplay": "made", "error": None},
            },
            {
                **gemini,
                "hook_event_name": "AfterAgent",
                "prompt": "add a file",
                "prompt_response": "Done.",
                "stop_hook_active": False,
            },
        ],
        "cursor": [
            {
                **cursor,
                "hook_event_name": "beforeSubmitPrompt",
                "prompt": "add a file",
                "attachments": [],
            },
            {
                **cursor,
                "hook_event_name": "preToolUse",
                "tool_name": "Shell",
                "tool_input": {"command": "make"},
                "tool_use_id": "t1",
                "cwd": where,
            },
            {**cursor, "hook_event_name": "beforeShellExecution", "command": "make", "cwd": where},
            {
                **cursor,
                "hook_event_name": "afterShellExecution",
                "command": "make",
                "output": "made",
                "duration": 12,
            },
            {**cursor, "hook_event_name": "stop", "status": "completed", "loop_count": 0},
        ],
    }
    return sessions[agent]


@pytest.mark.parametrize("agent", AGENTS)
def test_what_an_agent_says_becomes_a_prompt_that_can_be_undone(
    project: Project, agent: str
) -> None:
    commands = project.install(agent)
    assert project.run("watch", "--background").returncode == 0
    project.run("snapshot", "-m", "with hooks")
    before = project.state()
    for number, said in enumerate(session_of(agent, project)):
        event = said["hook_event_name"]
        done = project.tell(commands[event], json.dumps(said).encode())
        assert (done.stdout, done.stderr) == (b"{}\n" if agent == "gemini" else b"", b"")
        if event in ("PreToolUse", "BeforeTool", "preToolUse"):
            project.shell(f"echo {number} > made; rm README")
    assert project.log() == ""
    (prompt,) = project.prompts()
    assert (prompt["agent"], prompt["name"], prompt["is_open"]) == (agent, "add a file", False)
    assert [each["path"] for each in prompt["changes"]] == ["README", "made"]
    log = project.run("agent", "log").stdout
    assert "add a file" in log
    assert "1 added, 1 removed" in log
    assert project.run("undo", "--prompt", "1").returncode == 0
    assert project.state() == before


def test_a_session_of_fifty_tool_calls_in_which_every_prompt_is_undone_alone(
    project: Project,
) -> None:
    """The edits are the shell's: no editor and no agent tells which files they are about."""
    commands = project.install("claude-code")
    assert project.run("watch", "--background").returncode == 0
    states = list[tuple[dict[str, bytes], dict[str, bytes]]]()

    def tell(event: str, number: int, **more: object) -> None:
        said = claude(project, event, prompt_id=f"prompt-{number}", **more)
        done = project.tell(commands[event], json.dumps(said).encode())
        assert (done.stdout, done.stderr) == (b"", b"")

    for number in range(1, 11):
        tell("UserPromptSubmit", number, prompt=f"do thing {number}")
        before = project.state()
        for step in range(5):
            tell("PreToolUse", number, tool_name="Bash", tool_input={"command": "…"})
            project.shell(SCRIPTS[step].format(n=number, before=number - 1))
            tell("PostToolUse", number, tool_name="Bash", tool_response={})
        tell("Stop", number)
        states.append((before, project.state()))
        project.shell(f"echo 'by hand' > mine-{number}")
    assert project.log() == ""
    assert [each["number"] for each in project.prompts()] == list(range(10, 0, -1))

    final = project.state()
    for number, (before, after) in enumerate(states, 1):
        done = project.run("undo", "--prompt", str(number))
        assert done.returncode == 0, done.stderr
        assert project.state() == without(final, before, after)
        assert project.run("undo").returncode == 0
        assert project.state() == final


SCRIPTS = (
    "mkdir -p src/{n}; for i in 1 2 3; do echo {n} > src/{n}/$i; done",
    "printf 'x%.0s' $(seq 1 300) > big-{n}; ln -s big-{n} link-{n}",
    "mv src/{n}/1 src/{n}/renamed; chmod +x src/{n}/2",
    "rm src/{n}/3; rm -f mine-{before}",
    "sed -i 's/x/y/g' big-{n}; echo end >> src/{n}/2",
)


def without(
    final: dict[str, bytes], before: dict[str, bytes], after: dict[str, bytes]
) -> dict[str, bytes]:
    """Returns the final state, in which one prompt has not been."""
    state = dict(final)
    for path in before.keys() | after.keys():
        if before.get(path) != after.get(path):
            state.pop(path, None)
            if path in before:
                state[path] = before[path]
    return state


def test_what_two_prompts_changed_is_a_conflict_and_nothing_is_touched(project: Project) -> None:
    commands = project.install("claude-code")
    assert project.run("watch", "--background").returncode == 0
    for number in (1, 2):
        said = claude(project, "UserPromptSubmit", prompt_id=f"p{number}", prompt=f"thing {number}")
        project.tell(commands["UserPromptSubmit"], json.dumps(said).encode())
        project.shell(f"echo {number} >> README; echo {number} > only-{number}")
        said = claude(project, "Stop", prompt_id=f"p{number}")
        project.tell(commands["Stop"], json.dumps(said).encode())
    whole = project.state()
    refused = project.run("undo", "--prompt", "1", "--json")
    error = json.loads(refused.stderr)["error"]
    assert (refused.returncode, error["code"]) == (4, "others_changed")
    assert "README" in error["message"]
    assert project.state() == whole
    shown = project.json("undo", "--prompt", "1", "--keep-mine", "--dry-run")
    assert [each["path"] for each in shown["changes"]] == ["only-1"]
    assert project.state() == whole
    assert project.run("undo", "--prompt", "1", "--keep-mine").returncode == 0
    assert project.state() == {path: data for path, data in whole.items() if path != "only-1"}


def test_what_is_changed_by_hand_after_a_prompt_is_not_its_own_when_the_talk_ends(
    project: Project,
) -> None:
    commands = project.install("claude-code")
    assert project.run("watch", "--background").returncode == 0

    def tell(event: str, prompt: str) -> None:
        said = claude(project, event, prompt_id=prompt, prompt=prompt)
        project.tell(commands[event], json.dumps(said).encode())

    tell("UserPromptSubmit", "one")
    project.shell("echo 1 > one")
    tell("Stop", "one")
    project.shell("echo 1 > by-hand")
    tell("SessionEnd", "one")
    tell("UserPromptSubmit", "two")
    project.shell("echo 2 > two")
    tell("SessionEnd", "two")
    changed = {each["name"]: [e["path"] for e in each["changes"]] for each in project.prompts()}
    assert changed == {"one": ["one"], "two": ["two"]}
    assert not any(each["is_open"] for each in project.prompts())


def test_a_prompt_that_runs_is_undone_as_far_as_it_has_come(project: Project) -> None:
    commands = project.install("codex")
    project.run("snapshot")
    before = project.state()
    said = session_of("codex", project)
    project.tell(commands["UserPromptSubmit"], json.dumps(said[0]).encode())
    project.shell("rm README; echo new > new")
    there, taken = project.state(), project.json("log")["snapshots"]
    seen = project.json("undo", "--prompt", "1", "--dry-run")
    assert {each["path"] for each in seen["changes"]} == {"README", "new"}
    assert (project.state(), project.json("log")["snapshots"]) == (there, taken)
    assert "(open)" in project.run("agent", "log").stdout
    assert project.run("undo", "--prompt", "1").returncode == 0
    assert project.state() == before


CANNOT_BE = {
    ("undo", "--prompt", "9"): 3,
    ("undo", "--prompt", "1", "--session", "nobody"): 3,
    ("undo", "--prompt", "1", "--task", "task-x"): 2,
    ("undo", "--session", "x"): 2,
    ("undo", "--prompt", "x"): 2,
    ("agent", "log", "--session", "nobody"): 3,
    ("agent", "log", "-n", "-1"): 2,
    ("agent",): 2,
    ("hook", "install"): 2,
    ("hook", "install", "nobody"): 2,
}


def test_what_cannot_be_is_refused(project: Project) -> None:
    for words, code in CANNOT_BE.items():
        done = project.run(*words, "--json")
        assert done.returncode == code, words
        assert json.loads(done.stderr)["error"]["hint"]


HOSTILE = {
    "nothing": b"",
    "no JSON": b"hello",
    "cut off": b'{"session_id": "s1", "hook_event_name": "PreToo',
    "deep": b'{"session_id": "s1", "tool_input": ' + b"[" * 300_000,
    "huge": b'{"session_id": "s1", "prompt": "' + b"x" * 100_000_000 + b'"}',
    "huge behind": b'{"tool_input": "' + b"x" * 2_000_000 + b'", "session_id": "s1"}',
    "no text": bytes(range(256)) * 1000,
    "controls": json.dumps({"session_id": "s\x00\x1b[2J", "prompt": "\x1b]0;\x07\r\n"}).encode(),
    "options": b"-C / --data=/ --help",
}


@pytest.mark.parametrize("is_watched", [False, True], ids=["alone", "watched"])
def test_whatever_is_said_the_agent_goes_on_and_the_directory_is_kept(
    project: Project, *, is_watched: bool
) -> None:
    commands = project.install("claude-code")
    if is_watched:
        assert project.run("watch", "--background", "--no-snapshots").returncode == 0
    # Without the process that stays, what differs is who reads it.
    names = HOSTILE if is_watched else ("no JSON", "deep", "huge")
    for number, name in enumerate(names):
        (project.directory / "file").write_text(f"{number}")
        done = project.tell(commands["PreToolUse"], HOSTILE[name])
        assert (done.stdout, done.stderr) == (b"", b""), name
        assert project.took[-1] < LONGEST_S / 2
        assert project.json("status")["changes"] == [], name
    assert all(each["name"].isprintable() for each in project.prompts())
    assert project.log().isascii()
    assert "no JSON object" in project.run("hook", "status").stdout
    assert "hooks" in project.run("doctor").stdout


def test_hooks_exit_with_0_where_nothing_can_be_kept(project: Project, tmp_path: Path) -> None:
    words = [*COMMAND, "hook", "run"]
    said = json.dumps(claude(project, "PreToolUse", tool_name="Bash")).encode()

    def code(*more: str) -> int:
        return subprocess.run(
            [*words, *more],
            input=said,
            cwd=tmp_path,
            env=project.environ,
            capture_output=True,
            check=False,
            timeout=60,
        ).returncode

    assert code() == 0
    assert code("nobody") == 0
    assert code("claude-code", "--nonsense") == 0
    assert code("claude-code", "-C", str(tmp_path / "none")) == 0
    assert code("claude-code", "-C", str(tmp_path)) == 0
    assert code("claude-code", "--data", str(tmp_path / "none")) == 0
    assert code("claude-code", "--data", "postgresql://127.0.0.1:9/none") == 0
    assert not (tmp_path / "none").exists()
    assert "not_attached" in project.log()
    (project.vault / "catalog.sqlite").write_bytes(b"no catalog")
    assert code("claude-code", "-C", str(project.directory)) == 0


def test_a_hook_does_not_wait_for_an_input_that_does_not_end(project: Project) -> None:
    command = project.install("claude-code")["PreToolUse"]
    (project.directory / "file").write_text("new")
    reading, writing = os.pipe()
    os.write(writing, json.dumps(claude(project, "PreToolUse", tool_name="Bash")).encode())
    start = time.monotonic()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "w"):
        done = subprocess.run(["/bin/sh", "-c", command], stdin=stdin, check=False, timeout=60)
    assert done.returncode == 0
    assert time.monotonic() - start < LONGEST_S
    assert project.json("status")["changes"] == []


@pytest.mark.parametrize("is_watched", [False, True], ids=["alone", "watched"])
def test_hooks_that_run_at_once_lose_nothing(project: Project, *, is_watched: bool) -> None:
    commands = project.install("claude-code")
    if is_watched:
        assert project.run("watch", "--background").returncode == 0

    def tell(event: str, **more: object) -> None:
        said = claude(project, event, **more)
        project.tell(commands[event], json.dumps(said).encode())

    def both(number: int) -> None:
        tell("UserPromptSubmit", prompt="the same", prompt_id="p1")
        (project.directory / f"file-{number}").write_text(f"{number}")
        tell("PostToolUse", tool_name="Bash", prompt_id="p1")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(both, range(6)))
    tell("Stop", prompt_id="p1")
    assert project.log() == ""
    (prompt,) = project.prompts()
    assert prompt["number"] == 1
    assert project.json("status")["changes"] == []


def test_hooks_of_a_user_work_in_every_attached_directory(project: Project) -> None:
    assert project.run("hook", "install", "claude-code", "--user").returncode == 0
    home = Path(project.environ["HOME"])
    written = json.loads((home / ".claude" / "settings.json").read_text())
    command: str = written["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"]
    assert str(project.directory) not in command
    elsewhere = claude(project, "UserPromptSubmit", prompt="x", cwd=str(home))
    project.tell(command, json.dumps(elsewhere).encode())
    assert project.prompts() == []
    assert project.log() == ""
    said = claude(project, "UserPromptSubmit", prompt="here")
    project.tell(command, json.dumps(said).encode())
    assert [each["name"] for each in project.prompts()] == ["here"]
    assert str(home / ".claude") in project.run("hook", "status").stdout
    assert project.run("hook", "uninstall", "claude-code", "--user").returncode == 0
    assert not (home / ".claude").exists()


def of_user(project: Project, agent: str) -> dict[str, str]:
    """Installs hooks for all directories of a user; returns what runs for each event."""
    assert project.run("hook", "install", agent, "--user").returncode == 0
    home = Path(project.environ["HOME"])
    written = json.loads((home / AGENTS[agent].personal).read_text())
    return {event: entry["command"] for event, (entry,) in written["hooks"].items()}


@pytest.mark.parametrize("agent", AGENTS)
def test_what_a_tool_wrote_is_of_its_prompt_when_it_ends(project: Project, agent: str) -> None:
    commands = project.install(agent)
    project.run("snapshot", "-m", "with hooks")
    *_, after, _ = session = session_of(agent, project)
    for said in session[:-1]:
        if said is after:
            project.shell("echo mine > made")
        project.tell(commands[said["hook_event_name"]], json.dumps(said).encode())
    # So what another conversation writes from here on is not taken for this one's.
    (taken,) = project.json("log", "--json", "-n", "1")["snapshots"]
    assert taken["task_id"] == project.prompts()[0]["task_id"]
    assert project.json("status")["changes"] == []


@pytest.mark.parametrize("roots", [1, 2])
def test_a_users_hooks_keep_what_is_open_where_an_event_has_no_directory(
    project: Project, tmp_path: Path, roots: int
) -> None:
    commands = of_user(project, "cursor")
    before, elsewhere = project.state(), tmp_path / "elsewhere"
    elsewhere.mkdir()
    for said in session_of("cursor", project):
        event = said["hook_event_name"]
        given = {**said, "workspace_roots": [str(elsewhere), str(project.directory)][-roots:]}
        project.tell(commands[event], json.dumps(given).encode())
        if event == "preToolUse":
            project.shell("echo made > made")
    assert project.log() == ""
    (prompt,) = project.prompts()
    assert (prompt["name"], prompt["is_open"]) == ("add a file", False)
    assert project.run("undo", "--prompt", "1").returncode == 0
    assert project.state() == before


def test_an_event_that_names_no_directory_is_noted_where_nothing_is_attached(
    project: Project,
) -> None:
    commands = of_user(project, "cursor")
    first, *_ = session_of("cursor", project)
    project.tell(
        commands["beforeSubmitPrompt"], json.dumps(first | {"workspace_roots": []}).encode()
    )
    assert "beforeSubmitPrompt not_attached" in project.log()
    assert project.prompts() == []


def test_a_number_means_no_prompt_while_several_conversations_are_at_work(
    project: Project,
) -> None:
    commands = project.install("claude-code")

    def tell(event: str, session: str) -> None:
        said = claude(project, event, session_id=session, prompt_id=session, prompt="do it")
        project.tell(commands[event], json.dumps(said).encode())

    tell("UserPromptSubmit", "first")
    project.shell("echo 1 > one")
    tell("UserPromptSubmit", "second")
    project.shell("echo 2 > two")
    tell("Stop", "second")
    for words in ((), ("--dry-run",)):
        refused = project.run("undo", "--prompt", "1", *words, "--json")
        error = json.loads(refused.stderr)["error"]
        assert (refused.returncode, error["code"]) == (4, "several_conversations")
        assert "first" in error["message"]
        assert "second" in error["message"]
    assert {"one", "two"} <= {*project.state()}
    assert project.run("undo", "--prompt", "1", "--session", "first").returncode == 0
    assert "one" not in project.state()
    # It has ended with that: the last one is meant again.
    assert project.run("undo", "--prompt", "1").returncode == 0
    assert "two" not in project.state()


def test_the_next_undo_leaves_the_hooks(project: Project) -> None:
    project.run("snapshot", "-m", "before")
    project.shell("echo mine > mine")
    project.install("claude-code")
    hooks = (project.directory / AGENTS["claude-code"].local).read_bytes()
    project.shell("echo changed > mine")
    assert project.run("undo").returncode == 0
    assert project.state()["mine"] == b"mine\n"
    assert project.state()[AGENTS["claude-code"].local] == hooks


def test_settings_that_are_not_valid_are_named_and_left_alone(project: Project) -> None:
    path = project.directory / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text("{ // mine\n}")
    done = project.run("hook", "install", "gemini", "--json")
    error = json.loads(done.stderr)["error"]
    assert (done.returncode, error["code"]) == (4, "settings_refused")
    assert path.read_text() == "{ // mine\n}"
    shown = json.loads(project.run("hook", "install", "gemini", "--print").stdout)
    assert "BeforeTool" in shown["hooks"]
    assert path.read_text() == "{ // mine\n}"


def test_the_agent_is_told_how_to_go_back(project: Project) -> None:
    page = project.run("hook", "instructions").stdout
    assert "holdfast undo --prompt N" in page
    assert "holdfast agent log" in page
    assert "--session ID" in page


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_no_reason_to_keep_nothing(
    project: Project, closed: str
) -> None:
    command = project.install("gemini")["BeforeAgent"]
    before, *_ = session_of("gemini", project)
    project.tell(f"{command} --event BeforeAgent {closed}", json.dumps(before).encode())
    is_read = "<&-" not in closed
    assert [each["number"] for each in project.prompts()] == ([1] if is_read else [])
    assert "unexpected" not in project.log()
    done = subprocess.run(
        ["/bin/sh", "-c", f"{' '.join(COMMAND)} status {closed}"],
        cwd=project.directory,
        env=project.environ | {"HOLDFAST_STAY": "0"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert project.run("verify").returncode == 0
