"""`holdfast doctor` says which directories hold what their servers do not have yet."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import Unavailable
from holdfast.testing.servers import Begin, running_server

pytestmark = pytest.mark.in_memory


def lags(folder: Path, command: tuple[str, ...]) -> list[dict[str, str]]:
    environ = {**os.environ, "HOLDFAST_DATA": str(folder / "vault")}
    done = subprocess.run(
        [*command, "doctor", "--json"], cwd=folder, env=environ, capture_output=True, check=False
    )
    checks = json.loads(done.stdout)["checks"]
    return [check for check in checks if check["name"] == "mirrors"]


def test_what_was_captured_and_could_not_be_sent_is_told_until_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: tuple[str, ...], at_once: Begin
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.txt").write_text("1")
    assert lags(tmp_path, warm) == []
    with running_server(tmp_path / "server", begin=at_once) as server:
        client = holdfast.Client(server.api_key, namespace="alice", url=server.url, patience_s=0)
        with client, client.workspace(tree) as project:
            project.snapshot("first")
            (tree / "a.txt").write_text("2")
            (told,) = lags(tmp_path, warm)
            assert (told["state"], told["to_do"]) == ("ok", "")
            server.kill()
            for text in ("2", "3"):
                (tree / "a.txt").write_text(text)
                with pytest.raises(Unavailable):
                    project.snapshot("never arrives")
            (told,) = lags(tmp_path, warm)
            assert told["state"] == "warn"
            assert f"{tree}: 2 snapshots not on alice on {server.url}, since " in told["message"]
            assert "snapshot()" in told["to_do"]
            server.start()
            project.snapshot("arrives")
            (told,) = lags(tmp_path, warm)
            assert told["state"] == "ok"
