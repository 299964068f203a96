"""Whoever writes, the feed tells it: who listens to a server hears what is done beside it."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast.testing.servers import Begin, Server, running_server


@pytest.fixture(scope="module")
def server(either: tuple[Path, dict[str, str]], at_once: Begin) -> Iterator[Server]:
    folder, environ = either
    with running_server(folder, environ=environ, begin=at_once) as started:
        yield started


def types(server: Server, namespace: str) -> list[str]:
    with holdfast.Client(server.api_key, namespace=namespace, url=server.url) as client:
        return [event.type for event in client.events.list(limit=200)][::-1]


def test_what_a_process_writes_to_the_vault_of_a_server_is_told(server: Server) -> None:
    url = server.environ.get("HOLDFAST_DATABASE_URL")
    objects = str(server.data / "packs") if url else None
    with holdfast.open(url or server.data, objects=objects) as vault:
        agent = vault.namespace("embedded")
        agent.files.write("notes.md", "first thoughts")
        agent.sessions.create("bot", session_id="sess_1")
        agent.sessions.add_turn("sess_1", input="hello", output="hi")
        before = agent.snapshot("before")
        agent.files.delete("notes.md")
        agent.restore(before)
    assert types(server, "embedded") == [
        "file.written",
        "session.created",
        "turn.added",
        "snapshot.created",
        "file.deleted",
        "snapshot.restored",
    ]


def test_what_the_command_line_does_to_the_vault_of_a_server_is_told(
    server: Server, tmp_path: Path, warm: tuple[str, ...]
) -> None:
    if "HOLDFAST_DATABASE_URL" in server.environ:
        pytest.skip("commands work on vaults in directories")
    project = tmp_path / "project"
    project.mkdir()
    (project / "notes.md").write_text("first thoughts")

    def run(*arguments: str) -> None:
        environ = {**os.environ, "HOLDFAST_DATA": str(server.data)}
        subprocess.run([*warm, *arguments], cwd=project, env=environ, check=True)

    run("init", "--namespace", "commands")
    run("snapshot", "-m", "before")
    (project / "notes.md").write_text("second thoughts")
    run("restore", "latest")
    assert (project / "notes.md").read_text() == "first thoughts"
    told = types(server, "commands")
    assert told.count("snapshot.created") >= 1
    assert told[-1] == "snapshot.restored"


def test_a_vault_that_no_server_has_served_tells_nobody(tmp_path: Path, at_once: Begin) -> None:
    with holdfast.open(tmp_path / "vault") as vault:
        vault.namespace("alice").files.write("notes.md", "first thoughts")
    with running_server(tmp_path, begin=at_once) as server:
        assert types(server, "alice") == []
        with holdfast.open(server.data) as vault:
            vault.namespace("alice").files.write("notes.md", "second thoughts")
        assert types(server, "alice") == ["file.written"]
