"""Commands on a command line, and as a tool of an agent."""

import asyncio
import json
import os
import pty
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from holdfast.testing.sandboxes import why_none
from holdfast.testing.servers import COMMAND
from holdfast.testing.shells import read_terminal

pytestmark = pytest.mark.skipif(why_none() is not None, reason=why_none() or "")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    return {
        **kept,
        "HOME": str(tmp_path),
        "HOLDFAST_DATA": str(tmp_path / "vault"),
        "HOLDFAST_STAY": "0",
        "HOLDFAST_EXEC": "1",
    }


@pytest.fixture
def project(tmp_path: Path, environ: dict[str, str]) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "a.txt").write_text("one\n")
    run("init", "-q", cwd=made, environ=environ)
    return made


def run(
    *words: str, cwd: Path, environ: Mapping[str, str], stdin: bytes = b"", code: int = 0
) -> tuple[str, str]:
    done = subprocess.run(
        [*COMMAND, *words], cwd=cwd, env=environ, input=stdin, capture_output=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout.decode(), done.stderr.decode()


def test_a_command_line_runs_it_on_a_copy_of_the_directory(
    project: Path, environ: dict[str, str]
) -> None:
    (project / "new.txt").write_text("in no snapshot yet\n")
    out, err = run(
        "exec", "-i", "cat new.txt; cat >&2; echo two > a.txt; rm new.txt; exit 4",
        cwd=project, environ=environ, stdin=b"typed\n", code=4,
    )  # fmt: skip
    assert out == "in no snapshot yet\n"
    assert "typed\n" in err
    assert (project / "a.txt").read_text() == "two\n"
    assert not (project / "new.txt").exists()
    run("undo", cwd=project, environ=environ)
    assert (project / "new.txt").exists()
    # Several words are a command and its arguments.
    assert run("exec", "--", "echo", "a  b", "$HOME", cwd=project, environ=environ)[0] == (
        "a  b $HOME\n"
    )
    told = json.loads(
        run("exec", "--json", "--rollback-on-failure", "rm *; false", cwd=project, environ=environ,
            code=1)[0]
    )  # fmt: skip
    assert (told["exit_code"], told["stopped"]) == (1, None)
    assert told["restored_id"] is not None
    assert (project / "a.txt").exists()
    told = json.loads(
        run("exec", "--json", "-n", "other", "-t", "0.3", "sleep 60", cwd=project, environ=environ,
            code=137)[0]
    )  # fmt: skip
    assert told["stopped"] == "time"
    refused = run("exec", "-i", "wc -c", cwd=project, environ=environ, stdin=b"\xff\xfe", code=2)
    assert "file of the namespace" in refused[1]
    without = {**environ, "HOLDFAST_EXEC": ""}
    assert "HOLDFAST_EXEC=1" in run("exec", "true", cwd=project, environ=without, code=1)[1]


def test_who_does_not_read_what_it_says_does_not_keep_it_running(
    project: Path, environ: dict[str, str]
) -> None:
    marker = f"unread-{os.getpid()}"
    command = f"seq 200000; exec -a {marker} sleep 60"

    def await_(*, runs: bool) -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            found = subprocess.run(["pgrep", "-f", f"^{marker} "], capture_output=True, check=False)
            if bool(found.stdout) is runs:
                return
            time.sleep(0.02)
        raise AssertionError(runs)

    line = [*COMMAND, "exec", "-t", "2", command]
    with subprocess.Popen(line, cwd=project, env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        await_(runs=True)
        await_(runs=False)
        # It is over, and what it said waits to be read.
        assert process.poll() is None
        assert process.stdout.read().count(b"\n") == 200_000
    assert process.returncode == 137


def test_a_terminal_does_not_obey_what_a_command_says(
    project: Path, environ: dict[str, str]
) -> None:
    ours, theirs = pty.openpty()
    said = r"printf 'a\tb\n\033]0;x\007'; printf '\033[2J' >&2"
    line = [*COMMAND, "exec", said]
    subprocess.run(line, cwd=project, env=environ, stdout=theirs, stderr=theirs, check=True)
    os.close(theirs)
    shown = read_terminal(ours)
    assert b"\x1b" not in shown
    assert b"a\tb\r\n" in shown
    assert rb"\x1b]0;x\x07" in shown
    assert rb"\x1b[2J" in shown
    assert run("exec", said, cwd=project, environ=environ)[0] == "a\tb\n\x1b]0;x\x07"


def test_an_agent_has_the_tool_where_it_is_turned_on(
    project: Path, environ: dict[str, str]
) -> None:
    async def talk(environ: dict[str, str]) -> set[str]:
        server = StdioServerParameters(
            command=COMMAND[0], args=[*COMMAND[1:], "mcp"], env=environ, cwd=project
        )
        async with Client(stdio_client(server)) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            if "exec" in names:
                done = await client.call_tool("exec", {"command": "cat a.txt; echo 2 > b.txt"})
                said = [part.text for part in done.content]
                assert "It ended with 0" in said[0]
                assert "one" in said[1]
                more = await client.call_tool("exec", {"command": "true", "network": True})
                assert more.is_error
            return names

    assert "exec" in asyncio.run(talk(environ))
    assert (project / "b.txt").read_text() == "2\n"
    assert "exec" not in asyncio.run(talk({**environ, "HOLDFAST_EXEC": ""}))
