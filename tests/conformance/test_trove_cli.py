"""Every command of the `trove` program works against the server, in a process of its own.

As with the SDK's methods: a command that has no use below fails here by its name. Those of `mcp`
write other programs' settings and ask no server anything.
"""

import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import click
import pytest
from trove_sdk import TroveAdminClient, TroveClient, WebhookEvent, verify_webhook
from trove_sdk.cli import _build_root as build_root

import holdfast
from holdfast.testing.receivers import Receiver, receiver
from holdfast.testing.servers import Server

pytestmark = pytest.mark.in_memory

TROVE = Path(sys.executable).with_name("trove")
PATIENCE_S = 30


@dataclass
class Shell:
    """A home of its own, in which commands are run with a key."""

    server: Server
    home: Path
    namespace: str
    environ: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir(exist_ok=True)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "NO_PROXY": "127.0.0.1",
            "PYTHONUNBUFFERED": "1",
        }

    def using(self, key: str) -> "Shell":
        """Lets the commands use a key that the environment names."""
        self.environ |= {
            "TROVE_API_KEY": key,
            "TROVE_WORKSPACE_ID": self.server.workspace_id,
            "TROVE_BASE_URL": self.server.url,
            "TROVE_NAMESPACE": self.namespace,
        }
        return self

    def run(self, *words: str, stdin: bytes = b"", code: int = 0) -> str:
        """Runs a command and returns what it says."""
        done = subprocess.run(
            [TROVE, *words],
            input=stdin,
            env=self.environ,
            cwd=self.home,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        said = done.stdout.decode() + done.stderr.decode()
        assert done.returncode == code, said
        return said

    @contextmanager
    def running(self, *words: str) -> Iterator[IO[bytes]]:
        """Runs a command until the block ends, which interrupts it; gives its output."""
        with subprocess.Popen(
            [TROVE, *words],
            env=self.environ,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            assert process.stdout is not None
            try:
                yield process.stdout
            finally:
                process.terminate()
                process.wait(PATIENCE_S)


@pytest.fixture
def shell(server: Server, tmp_path: Path, namespace: str) -> Shell:
    return Shell(server, tmp_path / "home", namespace)


def agent(shell: Shell) -> Shell:
    return shell.using(shell.server.api_key)


def admin(shell: Shell) -> Shell:
    shell = shell.using(shell.server.admin_key)
    del shell.environ["TROVE_NAMESPACE"]
    return shell


def sdk(shell: Shell) -> TroveClient:
    return TroveClient(shell.server.api_key, shell.namespace, base_url=shell.server.url)


# Credentials


def use_login(shell: Shell) -> None:
    place = ("--base-url", shell.server.url)
    said = shell.run("login", *place, "--namespace", "alice", stdin=shell.server.api_key.encode())
    assert f"workspace={shell.server.workspace_id}  namespace=alice  scope=workspace" in said
    profile = shell.home / ".trove" / "config.json"
    assert json.loads(profile.read_text())["profiles"]["default"]["namespace"] == "alice"
    shell.run("login", *place, "--save-as", "boss", "--api-key", shell.server.admin_key)
    assert "first" in shell.run("--profile", "boss", "keys", "list")
    assert "auth failed (401)" in shell.run("login", *place, "--api-key", "wrong", code=1)
    with TroveAdminClient.from_api_key(shell.server.admin_key, base_url=shell.server.url) as client:
        locked = client.create_key("locked", namespace="bob").api_key
    assert "namespace=bob" in shell.run("login", *place, "--api-key", locked)


def use_logout(shell: Shell) -> None:
    shell.run("login", "--base-url", shell.server.url, "--api-key", shell.server.api_key)
    assert "removed profile" in shell.run("logout")
    shell.run("whoami", code=3)


def use_whoami(shell: Shell) -> None:
    said = agent(shell).run("whoami")
    assert "scope           : workspace" in said
    assert "key name        : first" in said
    assert "unreachable" in shell.using("wrong").run("whoami")


def use_doctor(shell: Shell) -> None:
    assert "✓ /v1/me OK — scope=workspace" in agent(shell).run("doctor")
    assert "auth rejected (401)" in shell.using("wrong").run("doctor")


# Files


def use_run(shell: Shell) -> None:
    said = agent(shell).run("run", "--no-stdin", "ls", "workspace/", code=1)
    assert "HTTP 501" in said
    assert "runs no commands" in said


def use_ls(shell: Shell) -> None:
    assert "(empty)" in agent(shell).run("ls")
    with sdk(shell) as client:
        client.write("d/x", "12345")
        client.write("a", "")
    assert shell.run("ls").split() == ["d/", "a"]
    assert "5B" in shell.run("ls", "-l", "workspace/d")
    assert json.loads(shell.run("ls", "--json"))["truncated"] is False
    shell.run("ls", "nowhere", code=1)


def use_cat(shell: Shell) -> None:
    with sdk(shell) as client:
        client.write("t", "grüße\n")
        client.upload("b", b"\xff")
    assert agent(shell).run("cat", "workspace/t") == "grüße\n"
    assert "is binary" in shell.run("cat", "b", code=1)


def use_put(shell: Shell) -> None:
    (shell.home / "r.bin").write_bytes(b"\x00\xff")
    assert "uploaded workspace/docs/r.bin" in agent(shell).run("put", "r.bin", "workspace/docs/")
    with sdk(shell) as client:
        assert client.read_bytes("docs/r.bin") == b"\x00\xff"


def use_get(shell: Shell) -> None:
    with sdk(shell) as client:
        client.upload("d/r.bin", b"\x00\xff")
    agent(shell).run("get", "workspace/d/r.bin")
    assert (shell.home / "r.bin").read_bytes() == b"\x00\xff"
    assert "not found" in shell.run("get", "nothing", code=1)


def use_write(shell: Shell) -> None:
    assert "wrote workspace/n.txt  (5B)" in agent(shell).run("write", "n.txt", "hello")
    shell.run("write", "workspace/p", "--stdin", stdin=b"from a pipe\n")
    with sdk(shell) as client:
        assert (client.read_text("n.txt"), client.read_text("p")) == ("hello", "from a pipe\n")


def use_rm(shell: Shell) -> None:
    with sdk(shell) as client:
        client.write("d/x", "")
        client.write("kept", "")
        assert "not found: gone" in agent(shell).run("rm", "-y", "gone", "workspace/d")
        assert "HTTP 400" in shell.run("rm", "-y", "workspace", code=1)
        assert [entry.name for entry in client.list_dir()] == ["kept"]


# Snapshots


def use_snapshot_create(shell: Shell) -> None:
    assert "✓ snapshot snap-" in agent(shell).run("snapshot", "create", "--label", "l")
    assert json.loads(shell.run("snapshot", "create", "--json"))["label"] is None


def use_snapshot_list(shell: Shell) -> None:
    assert "no snapshots" in agent(shell).run("snapshot", "list")
    with sdk(shell) as client:
        taken = client.create_snapshot("before it")
    line = shell.run("snapshot", "list").splitlines()[1]
    assert line.startswith(f"{taken.snapshot_id:<26}  ")
    assert line.endswith("before it")


def use_snapshot_restore(shell: Shell) -> None:
    with sdk(shell) as client:
        client.write("a", "old")
        taken = client.create_snapshot()
        client.write("a", "new")
        said = agent(shell).run("snapshot", "restore", "-y", taken.snapshot_id)
        assert "files_restored=1" in said
        assert client.read_text("a") == "old"
    assert "snapshot not found" in shell.run("snapshot", "restore", "-y", "snap-none", code=1)


def use_snapshot_delete(shell: Shell) -> None:
    with sdk(shell) as client:
        taken = client.create_snapshot()
        agent(shell).run("snapshot", "delete", "-y", taken.snapshot_id)
        assert client.list_snapshots() == []
    assert "snapshot not found" in shell.run("snapshot", "delete", "-y", "snap-none", code=1)


# Keys


def use_keys_create(shell: Shell) -> None:
    made = json.loads(admin(shell).run("keys", "create", "robot", "--json"))
    assert made["api_key"].startswith(made["prefix"])
    boss = json.loads(shell.run("keys", "create", "boss", "--admin", "--json"))
    assert (boss["scope"], boss["namespace"]) == ("admin", None)
    assert "HTTP 403" in agent(shell).run("keys", "create", "x", code=2)


def use_keys_list(shell: Shell) -> None:
    said = admin(shell).run("keys", "list")
    assert "KEY ID" in said
    assert "first" in said
    agent(shell).run("keys", "list", code=2)


def use_keys_revoke(shell: Shell) -> None:
    made = json.loads(admin(shell).run("keys", "create", "gone", "--json"))
    assert "revoked" in shell.run("keys", "revoke", "-y", made["key_id"])
    assert "key not found" in shell.run("keys", "revoke", "-y", made["key_id"], code=1)
    shell.using(made["api_key"]).run("ls", code=2)


# Events and webhooks


def use_events_list(shell: Shell) -> None:
    with sdk(shell) as client:
        client.write("a", "")
        client.write("b", "")
    lines = agent(shell).run("events", "list", "--json", "-t", "file.written").splitlines()
    paths = [json.loads(line)["data"]["path"] for line in lines]
    assert paths == ["workspace/b", "workspace/a"]
    said = shell.run("events", "list", "--limit", "1")
    cursor = said.split("--cursor ")[1].strip()
    assert "workspace/a" in shell.run("events", "list", "--limit", "1", "--cursor", cursor)


def use_events_tail(shell: Shell, *, words: tuple[str, ...] = ("events", "tail")) -> None:
    with sdk(shell) as client:
        client.write("before", "")
        with agent(shell).running(*words, "--json", "--since", "5m", "--interval", "0.1") as said:
            assert json.loads(said.readline())["data"]["path"] == "workspace/before"
            for name in ("one", "two"):
                client.write(name, "")
            for name in ("one", "two"):
                assert json.loads(said.readline())["data"]["path"] == f"workspace/{name}"


def use_tail(shell: Shell) -> None:
    use_events_tail(shell, words=("tail",))


def use_webhooks_create(shell: Shell) -> None:
    said = admin(shell).run("webhooks", "create", "http://127.0.0.1:9/", "--events", "file.written")
    assert "signing_secret : " in said
    assert "HTTP 403" in agent(shell).run("webhooks", "create", "http://127.0.0.1:9/", code=2)


def use_webhooks_list(shell: Shell) -> None:
    place = f"http://127.0.0.1:9/{shell.namespace}"
    admin(shell).run("webhooks", "create", place)
    assert place in shell.run("webhooks", "list")


def use_webhooks_delete(shell: Shell) -> None:
    made = json.loads(admin(shell).run("webhooks", "create", "http://127.0.0.1:9/", "--json"))
    shell.run("webhooks", "delete", "-y", made["webhook_id"])
    said = shell.run("webhooks", "delete", "-y", made["webhook_id"], code=1)
    assert "webhook not found" in said


def use_webhooks_test(shell: Shell) -> None:
    with receiver() as there:
        made = json.loads(admin(shell).run("webhooks", "create", there.url, "--json"))
        assert "✓ delivered  status=200" in shell.run("webhooks", "test", made["webhook_id"])
        event = verified(there, made["signing_secret"])
        assert event.type == "webhook.test"
    assert "✗ failed" in shell.run("webhooks", "test", made["webhook_id"])


def use_webhooks_listen(shell: Shell) -> None:
    secret = "trove-whsec-0123456789abcdef"
    with (
        receiver() as there,
        admin(shell).running(
            "webhooks", "listen", "--forward-to", there.url, "--secret", secret
        ) as said,
        sdk(shell) as client,
    ):
        assert b"connected" in said.readline()
        # It says so before it is: the first that arrives tells that it listens.
        stop = threading.Event()
        writer = threading.Thread(target=write_until, args=(client, stop))
        writer.start()
        try:
            event = verified(there, secret)
        finally:
            stop.set()
            writer.join()
    assert (event.type, event.namespace) == ("file.written", shell.namespace)
    assert event.data["path"] == "workspace/séen\u2028"


def write_until(client: TroveClient, stop: threading.Event) -> None:
    while not stop.is_set():
        client.write("séen\u2028", "")
        stop.wait(0.1)


def verified(there: Receiver, secret: str) -> WebhookEvent:
    first = there.wait_for(1)[0]
    signature = first.headers["X-Trove-Signature"]
    return verify_webhook(secret=secret, body=first.body, signature_header=signature)


def commands(group: click.Command, *above: str) -> Iterator[str]:
    for name, command in getattr(group, "commands", {}).items():
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)
        else:
            yield " ".join([*above, name])


USES: dict[str, Callable[[Shell], None]] = {
    name.removeprefix("use_").replace("_", " "): use
    for name, use in globals().items()
    if name.startswith("use_")
}


@pytest.mark.parametrize("command", [c for c in commands(build_root()) if c[:4] != "mcp "])
def test_every_command_works(shell: Shell, command: str) -> None:
    assert command in USES, f"nobody tries trove {command}"
    USES[command](shell)


@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_a_person_signs_the_program_in_through_a_browser(shell: Shell, decision: str) -> None:
    leader, follower = pty.openpty()
    # No browser: a person reads the code, and opens the address.
    environ = {**shell.environ, "BROWSER": "/bin/true"}
    with subprocess.Popen(
        [TROVE, "login", "--base-url", shell.server.url],
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            said = ""
            while (code := re.search(r"Code: (\S+)\s+URL:  (\S+)\n", said)) is None:
                said += (line := process.stdout.readline())
                assert line, said
            assert code[2] == f"{shell.server.url}/console/device#code={code[1]}"
            with holdfast.AdminClient(shell.server.admin_key, url=shell.server.url) as boss:
                assert boss.logins.find(code[1]).client.startswith("python-httpx/")
                if decision == "approve":
                    boss.logins.approve(code[1], "trove on a laptop", namespace=shell.namespace)
                else:
                    boss.logins.deny(code[1])
            out, err = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            os.close(leader)
            os.close(follower)
    if decision == "deny":
        assert (process.returncode, "denied" in err) == (1, True)
        return
    assert (process.returncode, f"namespace={shell.namespace}" in out) == (0, True)
    assert "trove on a laptop" in shell.run("whoami")
    assert "(empty)" in shell.run("ls")
