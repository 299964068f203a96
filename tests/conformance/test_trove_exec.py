"""Commands of the unmodified client, its asynchronous one and its program, against a server."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from trove_sdk import AsyncTroveClient, TroveClient, TroveError, TroveExecError, TroveTimeoutError

from holdfast.testing.sandboxes import why_none
from holdfast.testing.servers import Begin, Server, running_server

TROVE = (sys.executable, "-c", "import sys; from trove_sdk.cli import main; sys.exit(main())")
"""The program, also where it was installed for another interpreter."""


@pytest.fixture(scope="module")
def server(home: Path, at_once: Begin) -> Iterator[Server]:
    """A server that runs commands."""
    if why_none() is not None:
        pytest.skip(why_none() or "")
    with running_server(home, environ={"HOLDFAST_EXEC": "1"}, begin=at_once) as started:
        yield started


def test_a_command_runs_beside_the_workspace(trove: TroveClient) -> None:
    assert trove.exec("ls workspace/") == ""
    trove.write("workspace/a.txt", "one\ntwo\n")
    assert trove.exec("wc -l < workspace/a.txt") == "2\n"
    done = trove.exec_detailed("tr a-z A-Z; echo no >&2", stdin="read")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "READ", "no\n")
    assert done.duration_ms >= 0
    assert trove.exec_detailed("kill -9 $$").exit_code == 137
    with pytest.raises(TroveExecError):
        trove.exec("exit 3")
    assert trove.exec_chain(["cd workspace", "echo x > b.txt", "ls"]).stdout == "a.txt\nb.txt\n"
    assert trove.read_text("workspace/b.txt") == "x\n"
    # Each in a shell of its own: files stay, and nothing else.
    assert trove.exec("export X=1; cd workspace; pwd").endswith("/workspace\n")
    assert trove.exec('echo "$X"; basename "$PWD"') == "\nagent\n"


def test_what_init_says_comes_before_every_command(trove: TroveClient) -> None:
    trove.set_init("export GREETING=hello; cd workspace; no-such-command; read -r eaten\n")
    done = trove.exec_detailed('echo "$GREETING"; ls .trove; cat', stdin="whole")
    assert (done.exit_code, done.stdout) == (0, "hello\ninit.sh\nwhole")
    assert "no-such-command" in done.stderr
    trove.set_init("if then\n")
    assert trove.exec("echo all the same") == "all the same\n"
    trove.clear_init()
    assert trove.exec('echo "[$GREETING]"') == "[]\n"


def test_snapshots_know_what_commands_did(trove: TroveClient) -> None:
    trove.write("workspace/kept.txt", "1")
    before = trove.create_snapshot("before")
    trove.exec("rm -rf workspace/*; echo 2 > workspace/new.txt")
    trove.restore_snapshot(before.snapshot_id)
    assert trove.exec("ls workspace") == "kept.txt\n"


def test_the_asynchronous_client_does_the_same(server: Server, namespace: str) -> None:
    async def use() -> None:
        async with AsyncTroveClient(server.api_key, namespace, base_url=server.url) as client:
            assert await client.exec("echo hi > workspace/x; cat workspace/x") == "hi\n"
            chained = await client.exec_chain(["false", "echo never"])
            assert (chained.exit_code, chained.stdout) == (1, "")

    asyncio.run(use())


def test_what_is_too_much_has_the_status_that_clients_know(
    server: Server, trove: TroveClient, wire: httpx.Client
) -> None:
    with pytest.raises(TroveError) as told:
        trove.exec("cat", stdin="x" * ((1 << 20) + 1))
    assert told.value.status_code == 422
    assert trove.exec("wc -c", stdin="x" * (1 << 20)).strip() == str(1 << 20)
    answer = wire.post("/v1/exec", json={"command": "yes | head -c 20000000"}).json()
    assert (answer["stopped"], answer["exit_code"]) == ("output", 137)
    assert wire.post("/v1/exec", json={"command": "printf '\\377\\376'"}).json()["stdout"] == "��"
    assert wire.post("/exec", json={"command": "echo a; echo b >&2; exit 4"}).text == (
        "[exit 4]\nb\na\n"
    )
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    assert wire.post("/v1/exec", json={"command": "ls"}, headers=headers).status_code == 403


@pytest.mark.slow
@pytest.mark.skipif(why_none() is not None, reason=why_none() or "")
def test_a_command_that_takes_too_long_is_a_timeout(
    tmp_path: Path, namespace: str, at_once: Begin
) -> None:
    environ = {"HOLDFAST_EXEC": "1", "HOLDFAST_EXEC_SECONDS": "3"}
    with (
        running_server(tmp_path, environ=environ, begin=at_once) as server,
        TroveClient(server.api_key, namespace, base_url=server.url) as trove,
    ):
        with pytest.raises(TroveTimeoutError):
            trove.exec("echo begun > workspace/f; sleep 33")
        assert trove.read_text("workspace/f") == "begun\n"


def test_the_program_runs_commands(server: Server, namespace: str, tmp_path: Path) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "HOME": str(tmp_path),
        "NO_PROXY": "127.0.0.1",
        "TROVE_API_KEY": server.api_key,
        "TROVE_WORKSPACE_ID": server.workspace_id,
        "TROVE_BASE_URL": server.url,
        "TROVE_NAMESPACE": namespace,
    }

    def run(*words: str, stdin: bytes = b"") -> tuple[int, bytes]:
        done = subprocess.run(
            [*TROVE, "run", *words], input=stdin, env=environ, capture_output=True, check=False
        )
        return done.returncode, done.stdout

    assert run("cat > workspace/f; echo done", stdin=b"piped") == (0, b"done\n")
    assert run("--no-stdin", "wc -c < workspace/f") == (0, b"5\n")
    assert run("--no-stdin", "exit 7")[0] == 7
