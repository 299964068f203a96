"""`holdfast mcp` as agents start it: a process of its own, a client of the SDK, an attacker."""

import asyncio
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import Request, Result

import holdfast
from holdfast.mcp.binding import of_directory, of_namespace
from holdfast.testing.servers import ADMIN_KEY, COMMAND, Server
from holdfast.testing.shells import environment

pytestmark = pytest.mark.in_memory

TOKEN = "a-token-of-more-than-16"
TOOLS = {
    *("status", "timeline", "diff", "read_file", "list_files"),
    *("snapshot", "restore", "undo", "redo", "fork"),
}
Work = Callable[[Client], Awaitable[None]]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def environ(home: Path, **more: str) -> dict[str, str]:
    return environment(home, **more)


@pytest.fixture
def run(warm: tuple[str, ...]) -> Run:
    """What is over at once: it writes settings, or refuses."""

    def run_it(*argv: str, cwd: Path, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*warm, *argv],
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    return run_it


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory that is attached to a vault beside it."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\n")
    with holdfast.open(tmp_path / "vault") as vault, vault.workspace(project) as workspace:
        workspace.snapshot("first")
    return project


@asynccontextmanager
async def started(env: dict[str, str], *argv: str) -> AsyncIterator[Client]:
    server = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], *argv], env=env)
    async with Client(stdio_client(server)) as client:
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    text = "\n".join(block.text for block in result.content)
    assert not result.is_error, text
    return text


# Standard streams


def test_what_install_writes_is_what_an_agent_starts(
    run: Run, project: Path, tmp_path: Path
) -> None:
    env = environ(tmp_path, HOLDFAST_DATA=str(tmp_path / "vault"))
    settings = project / ".mcp.json"
    settings.write_text('{"mcpServers": {"theirs": {"command": "x"}}}')
    done = run("mcp", "install", "claude-code", cwd=project, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    again = json.loads(run("mcp", "install", "claude-code", "--json", cwd=project, env=env).stdout)
    assert again == {"agent": "claude-code", "path": str(settings), "has_changed": False}
    servers = json.loads(settings.read_text())["mcpServers"]
    assert servers["theirs"] == {"command": "x"}
    entry = servers["holdfast"]
    assert os.path.isabs(entry["command"])

    async def work() -> None:
        # Elsewhere, and without any variable that the person had who installed it.
        server = StdioServerParameters(
            command=entry["command"], args=entry["args"], env=environ(tmp_path), cwd=tmp_path
        )
        for mode in ("legacy", "auto"):
            async with Client(stdio_client(server), mode=mode) as client:
                tools = (await client.list_tools()).tools
                assert {tool.name for tool in tools} == TOOLS
                assert "An undo button" in (client.instructions or "")
                (project / "a.txt").write_text("two\n")
                assert "a.txt" in await call(client, "status")
                await call(client, "undo")
                assert (project / "a.txt").read_text() == "one\n"
                found = (await client.read_resource("holdfast://timeline")).contents
                assert '"first"' in found[0].text

    asyncio.run(work())
    (project / "src").mkdir()
    gone = run("mcp", "uninstall", "claude-code", cwd=project / "src", env=env)
    assert gone.returncode == 0
    assert settings.read_text() == '{"mcpServers": {"theirs": {"command": "x"}}}'


def test_two_agents_at_once_lose_nothing(project: Path, tmp_path: Path) -> None:
    env = environ(tmp_path)
    argv = ("mcp", "-C", str(project), "--data", str(tmp_path / "vault"))

    async def take(client: Client, who: str) -> None:
        for number in range(8):
            (project / f"{who}.txt").write_text(f"{number}\n")
            await call(client, "snapshot", label=f"{who}{number}")
            await call(client, "status")

    async def work() -> None:
        async with started(env, *argv) as one, started(env, *argv) as other:
            await asyncio.gather(take(one, "x"), take(other, "y"), take(one, "z"))

    asyncio.run(work())
    with holdfast.open(tmp_path / "vault") as vault:
        labels = {each.label for each in vault.namespace("project").timeline()}
        assert {f"{who}{number}" for who in "xyz" for number in range(8)} <= labels
        assert vault.verify().ok


def test_lines_that_are_nonsense_end_nothing(project: Path, tmp_path: Path) -> None:
    argv = (*COMMAND, "mcp", "-C", str(project), "--data", str(tmp_path / "vault"))
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        },
    }
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    deep = "[" * 5000 + "]" * 5000
    lines = [
        "",
        "nonsense",
        "{}",
        "[]",
        deep,
        '"\\ud800"',
        json.dumps(hello),
        "{",
        '{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"label": "\\ud800"}}',
        '{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": {"x": "\\udc00"}}',
        '{"jsonrpc": "2.0", "id": 8, "result": {"x": "\\udc00"}}',
        json.dumps(ping),
    ]
    process = subprocess.Popen(
        argv,
        env=environ(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\xff\xfe\n" + "".join(f"{line}\n" for line in lines).encode())
    process.stdin.flush()
    answered, refused = set[int](), list[tuple[object, int]]()
    for line in process.stdout:
        answer = json.loads(line)
        answered |= {answer["id"]} if "result" in answer else set()
        refused += [(answer["id"], answer["error"]["code"])] if "error" in answer else []
        if 2 in answered:
            break
    _, err = process.communicate(timeout=60)
    assert answered == {1, 2}
    # Nobody waits for ever: what is no message is answered, with the id of what looks like one.
    assert sorted(refused, key=str) == sorted(
        [*[(None, -32700)] * 7, *[(None, -32600)] * 2, (7, -32700), ("a", -32700)], key=str
    )
    assert process.returncode == 0
    assert b"Traceback" not in err


# HTTP


@contextmanager
def listening(project: Path, tmp_path: Path, *argv: str, **env: str) -> Iterator[str]:
    options = ("mcp", "--http", "--port", "0", "--json")
    process = subprocess.Popen(
        [*COMMAND, "-C", str(project), "--data", str(tmp_path / "vault"), *options, *argv],
        env=environ(tmp_path, **env),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        process.stdout.close()


def test_over_http_the_same_tools_answer_many_at_once(project: Path, tmp_path: Path) -> None:
    async def work(url: str) -> None:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        for mode in ("legacy", "auto"):
            async with httpx2.AsyncClient(headers=bearer, trust_env=False) as http:
                transport = streamable_http_client(url, http_client=http)
                async with Client(transport, mode=mode) as client:
                    assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
                    said = await asyncio.gather(*(call(client, "status") for _ in range(10)))
                    assert len(said) == 10
                    (project / "a.txt").write_text("two\n")
                    await call(client, "restore", snapshot="@", confirm=True)
                    assert (project / "a.txt").read_text() == "one\n"

    with listening(project, tmp_path, HOLDFAST_MCP_TOKEN=TOKEN) as url:
        assert url.startswith("http://127.0.0.1:")
        asyncio.run(work(url))


def test_over_http_nobody_else_is_let_in(project: Path, tmp_path: Path) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    right = {"Authorization": f"Bearer {TOKEN}"}
    with (
        listening(
            project, tmp_path, "--allow-host", "undo.example", HOLDFAST_MCP_TOKEN=TOKEN
        ) as url,
        httpx2.Client(trust_env=False) as http,
    ):
        host = url.split("/")[2]

        def status(**headers: str) -> int:
            sent = {"Accept": "application/json, text/event-stream", **headers}
            return http.post(url, json=body, headers=sent).status_code

        assert status() == 401
        assert status(Authorization="Bearer wrong-token-of-16-letters") == 401
        assert status(Authorization=f"Basic {TOKEN}") == 401
        assert http.get(url).status_code == 401
        assert http.get(f"http://{host}/").status_code == 401
        for name in (
            "evil.example",
            f"evil.example:{host.split(':')[1]}",
            "localhost",
            "127.0.0.1.evil",
        ):
            assert status(**right, Host=name) == 421, name
        for origin in ("http://evil.example", "null", f"http://{host}.evil.example", "https://x"):
            assert status(**right, Origin=origin) == 403, origin
        assert status(**right, Origin=f"http://{host}") < 401
        assert status(**right, Host="undo.example", Origin="https://undo.example") < 401
        large = http.post(
            url, content=b" " * (2 << 20), headers={**right, "Content-Type": "application/json"}
        )
        assert large.status_code == 413


@pytest.mark.parametrize(
    ("argv", "env", "said"),
    [
        ((), {}, "HOLDFAST_MCP_TOKEN"),
        ((), {"HOLDFAST_MCP_TOKEN": "short"}, "16 printable"),
        (("--no-token", "--host", "0.0.0.0"), {}, "beyond this machine"),
        (("--host", "0.0.0.0"), {"HOLDFAST_MCP_TOKEN": TOKEN}, "--allow-host"),
        (("--port", "65536"), {"HOLDFAST_MCP_TOKEN": TOKEN}, "a port is"),
        (("--allow-host", "a b"), {"HOLDFAST_MCP_TOKEN": TOKEN}, "a host is"),
    ],
)
def test_a_place_that_is_not_safe_is_refused(
    run: Run, project: Path, argv: tuple[str, ...], env: dict[str, str], said: str
) -> None:
    home = project.parent
    env = environ(home, HOLDFAST_DATA=str(home / "vault"), **env)
    done = run("mcp", "--http", *argv, cwd=project, env=env)
    assert done.returncode == 2
    assert said in done.stderr
    assert TOKEN not in done.stderr


# What is typed wrong


def test_a_command_that_cannot_be_is_refused_with_a_hint(
    run: Run, project: Path, tmp_path: Path
) -> None:
    env = environ(tmp_path, HOLDFAST_DATA=str(tmp_path / "vault"))

    def refused(*argv: str, cwd: Path = project, **more: str) -> tuple[int, str]:
        done = run("mcp", *argv, cwd=cwd, env={**env, **more})
        assert done.stdout == ""
        return done.returncode, done.stderr

    assert refused("install") == refused("install", "emacs")
    assert refused("install")[0] == 2
    assert refused("serve", "cursor")[0] == 2
    code, said = refused("install", "codex")
    (typed,) = re.findall("`(codex [^`]*)`", said)
    assert (code, typed.startswith("codex mcp add holdfast -- ")) == (2, True)
    assert shlex.split(typed)[-5:-2] == ["mcp", "-C", str(project)]
    assert "`codex mcp remove holdfast`" in refused("uninstall", "codex")[1]
    assert refused("install", "codex", cwd=tmp_path)[0] == 3
    code, said = refused("install", "cursor", cwd=tmp_path)
    assert (code, "holdfast init" in said) == (3, True)
    assert refused(cwd=tmp_path)[0] == 3
    assert refused("--namespace", "typo")[0] == 3
    assert refused("install", "cursor", "--namespace", "typo")[0] == 3
    assert not (project / ".cursor").exists()
    code, said = refused("--server")
    assert (code, "HOLDFAST_API_KEY" in said) == (1, True)
    (project / ".mcp.json").write_text("{ // mine\n}")
    code, said = refused("install", "claude-code")
    assert (code, "Nothing was changed" in said) == (2, True)
    assert (project / ".mcp.json").read_text() == "{ // mine\n}"


def test_without_the_extra_it_says_what_to_install(project: Path, tmp_path: Path) -> None:
    lines = (
        "import sys; sys.modules['mcp'] = None",
        "from holdfast.cli.main import main; sys.exit(main(['mcp']))",
    )
    python = Path(COMMAND[0]).with_name("python")
    done = subprocess.run(
        [python, "-c", "\n".join(lines)],
        cwd=project,
        env=environ(tmp_path, HOLDFAST_DATA=str(tmp_path / "vault")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "holdfast[mcp]" in done.stderr


# An attacker

GUESSES = (
    *("delete", "delete_snapshot", "purge", "purge_snapshot", "forget", "collect", "gc", "unpin"),
    *("pin", "set_label", "set_retention", "set_quota", "erase", "erase_namespace", "import"),
    *("import_", "export", "clear_history", "delete_namespace", "create_key", "keys", "revoke"),
    *("detach", "write_file", "delete_file", "exec", "run", "merge", "checkout", "namespaces"),
    "import_files",
)
METHODS = (
    *("resources/subscribe", "completion/complete", "logging/setLevel", "tasks/cancel"),
    *("snapshots/delete", "tools/delete", "namespaces/list", "admin/collect", "prompts/get"),
)
SMUGGLED: tuple[dict[str, Any], ...] = (
    *({"namespace": "other"}, {"force": True}, {"data": "/"}, {"pin": False}, {"dry_run": False}),
    *({"keep_last": 1}, {"expires_in": 1}, {"planes": ["files"]}, {"tenant": "other"}),
)
KEPT = 4


USUAL: dict[str, dict[str, Any]] = {
    "restore": {"snapshot": "@"},
    "read_file": {"path": "a.txt"},
    "fork": {"name": "x"},
}


async def attack(client: Client, foreign: list[str]) -> int:
    """Tries whatever could destroy a history or reach another; returns how much was refused."""
    more = ({}, {"snapshot": "latest", "confirm": True})
    unknown = [*itertools.product(GUESSES, more)]
    for name, arguments in unknown:
        with pytest.raises(MCPError):
            await client.call_tool(name, arguments)
    for method in METHODS:
        with pytest.raises((MCPError, ValueError)):
            await client.session.send_request(Request(method=method, params=None), Result)
    wrong = [*wrong_calls(foreign)]
    for tool, arguments in wrong:
        done = await client.call_tool(tool, arguments)
        assert done.is_error, (tool, arguments, done)
    # What it may do, more often than anybody would.
    for number in range(30):
        await client.call_tool("snapshot", {"label": f"flood {number}"})
    for _ in range(6):
        await client.call_tool("undo", {})
    await client.call_tool("redo", {})
    for number in range(4):
        await client.call_tool("restore", {"snapshot": f"@-{number}", "confirm": True})
    return len(unknown) + len(METHODS) + len(wrong)


def wrong_calls(foreign: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields calls of tools that are there, each of which has to be refused."""
    for tool, more in itertools.product(sorted(TOOLS), SMUGGLED):
        yield tool, {**USUAL.get(tool, {}), **more}
    for snapshot_id in foreign:
        yield "restore", {"snapshot": snapshot_id, "confirm": True}
        yield "read_file", {"path": "secret.txt", "at": snapshot_id}
        yield "list_files", {"at": snapshot_id}
        yield "diff", {"old": snapshot_id}
        yield "undo", {"operation": snapshot_id}
        yield "fork", {"name": "stolen", "at": snapshot_id}
    for path in ("../other/secret.txt", "/etc/passwd", "a/../../x", "\0", "other/secret.txt"):
        yield "read_file", {"path": path}
        yield "list_files", {"path": path}
        yield "restore", {"snapshot": "@", "paths": [path], "confirm": True}
    for name in ("other", "project", "../other"):
        yield "fork", {"name": name}


def owned(tmp_path: Path, project: Path) -> dict[str, bytes]:
    """Makes a history of four snapshots with a policy that keeps four; returns what each holds."""
    held = dict[str, bytes]()
    with holdfast.open(tmp_path / "vault") as vault:
        vault.namespace("other").files.write("secret.txt", "nobody's business")
        vault.namespace("other").snapshot("theirs")
        with vault.workspace(project) as workspace:
            for number in range(KEPT):
                (project / "a.txt").write_text(f"good {number}\n")
                taken = workspace.snapshot(f"good {number}", pin=number == 0)
                held[taken.id] = (project / "a.txt").read_bytes()
            workspace.namespace.set_retention(keep_last=KEPT)
            workspace.namespace.set_quota(50_000_000)
    return held


def check_all_is_there(vault: holdfast.Holdfast, held: dict[str, bytes], name: str) -> None:
    """Does what an operator does any day; then everything has to be there still."""
    vault.forget()
    vault.collect(now=True)
    agent = vault.namespace(name)
    found = {each.id: each for each in agent.timeline()}
    assert set(held) <= set(found)
    first = next(iter(held))
    assert found[first].pinned
    assert [found[each].label for each in held] == [f"good {n}" for n in range(KEPT)]
    for snapshot_id, content in held.items():
        assert agent.at(snapshot_id).files.read("a.txt") == content
    assert agent.retention().keep_last == KEPT
    assert agent.quota() == 50_000_000
    assert vault.namespace("other").files.read_text("secret.txt") == "nobody's business"
    assert len(vault.namespace("other").timeline()) == 1
    assert vault.verify().ok


def test_an_attacker_with_all_tools_destroys_nothing(project: Path, tmp_path: Path) -> None:
    held = owned(tmp_path, project)
    with holdfast.open(tmp_path / "vault") as vault:
        foreign = [each.id for each in vault.namespace("other").timeline()]
    argv = ("mcp", "-C", str(project), "--data", str(tmp_path / "vault"))

    async def work() -> None:
        async with started(environ(tmp_path), *argv) as client:
            assert await attack(client, foreign) > 150

    asyncio.run(work())
    with holdfast.open(tmp_path / "vault") as vault:
        check_all_is_there(vault, held, "project")
        with vault.workspace(project) as workspace:
            assert workspace.restore(next(reversed(held))).verified
    assert (project / "a.txt").read_text() == f"good {KEPT - 1}\n"


def test_beneath_the_tools_the_engine_refuses_as_well(project: Path, tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        vault.namespace("plain").snapshot("x")
        for bound in (of_directory(vault, project), of_namespace(vault, "plain")):
            with bound as subject:
                agent = subject._agent
                for destroy in (
                    lambda agent=agent: agent.delete_snapshot("latest"),
                    lambda agent=agent: agent.set_retention(keep_last=1),
                    lambda agent=agent: agent.set_quota(1),
                    agent.forget,
                    agent.store.clear_history,
                ):
                    with pytest.raises(holdfast.errors.AddOnly):
                        destroy()


def test_over_a_server_with_an_add_only_key_it_is_the_same(server: Server, tmp_path: Path) -> None:
    held = dict[str, bytes]()
    with holdfast.AdminClient(ADMIN_KEY, url=server.url) as admin:
        key = admin.keys.create("agent", add_only=True, namespace="project").api_key
        with holdfast.Client(server.api_key, url=server.url, namespace="other") as other:
            other.files.write("secret.txt", "nobody's business")
            foreign = [other.snapshot("theirs").id]
        with holdfast.Client(server.api_key, url=server.url, namespace="project") as owner:
            for number in range(KEPT):
                owner.files.write("a.txt", f"good {number}\n")
                held[owner.snapshot(f"good {number}", pin=number == 0).id] = b"good %d\n" % number
        admin.namespaces.set_retention("project", keep_last=KEPT)
        admin.namespaces.set_quota("project", 50_000_000)
    env = environ(tmp_path, HOLDFAST_URL=server.url, HOLDFAST_API_KEY=key)

    async def work() -> None:
        async with started(env, "mcp", "--server") as client:
            said = await call(client, "status")
            assert "the namespace project on http://127.0.0.1" in said
            assert "good 3" in await call(client, "read_file", path="a.txt")
            assert "good 0" in await call(client, "read_file", path="a.txt", at=next(iter(held)))
            assert "a.txt" in await call(client, "list_files")
            assert "-good 2\n+good 3" in await call(client, "diff", old="@-1", new="@")
            assert await attack(client, foreign) > 150

    asyncio.run(work())
    server.stop()
    try:
        with holdfast.open(server.data) as vault:
            check_all_is_there(vault, held, "project")
    finally:
        server.start()


def test_a_key_that_could_do_more_is_remarked_on_and_an_operators_refused(
    run: Run, server: Server, tmp_path: Path
) -> None:
    def said(key: str) -> tuple[int, str]:
        env = environ(tmp_path, HOLDFAST_URL=server.url, HOLDFAST_API_KEY=key)
        done = run("mcp", "--server", "--namespace", "x", cwd=tmp_path, env=env)
        assert key not in done.stderr
        return done.returncode, done.stderr

    code, remark = said(server.api_key)
    assert (code, bool(re.search("--add-only", remark))) == (0, True)
    code, refusal = said(ADMIN_KEY)
    assert (code, "operator's key" in refusal) == (1, True)
    code, refusal = said("holdfast-sk-nonsense")
    assert code == 1
