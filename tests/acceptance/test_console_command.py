"""`holdfast console`: the directory that one is in, in a browser, and the way back there."""

import os
import re
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.testing.servers import COMMAND
from holdfast.testing.shells import environment

pytestmark = pytest.mark.in_memory

OURS = {"Sec-Fetch-Site": "same-origin", "X-Holdfast-Console": "1", "X-Namespace": "shop"}
LINK = re.compile(r"http://(\S+\.localhost:(\d+))(/console/\S*)#link=(\S+)")


class Person:
    """Somebody at a shell, in a project with two files."""

    def __init__(self, folder: Path, command: tuple[str, ...]) -> None:
        self.command = command
        self.shop, self.home = folder / "shop", folder / "home"
        for each in (self.shop, self.home, folder / "run"):
            each.mkdir(mode=0o700)
        self.run = folder / "run"
        self.environ = environment(
            self.home, HOLDFAST_DATA=str(folder / "vault"), XDG_RUNTIME_DIR=str(self.run)
        )
        self.environ = {n: v for n, v in self.environ.items() if "DISPLAY" not in n}
        (self.shop / "orders.csv").write_text("id,total\n1,10\n")
        (self.shop / "x[1].py").write_text("x = 1\n")
        assert self.types("init").returncode == 0

    def types(self, *argv: str, **more: Any) -> subprocess.CompletedProcess[str]:
        options: dict[str, Any] = {"cwd": self.shop, "env": self.environ, **more}
        return subprocess.run(
            [*self.command, *argv], capture_output=True, text=True, check=False, **options
        )

    def files(self) -> dict[str, bytes]:
        return {each.name: each.read_bytes() for each in self.shop.iterdir()}

    def breaks_it(self) -> None:
        (self.shop / "orders.csv").unlink()
        (self.shop / "x[1].py").write_text("x = 2\n")
        (self.shop / "x1.py").write_text("mine\n")


@pytest.fixture
def person(tmp_path: Path, warm: tuple[str, ...]) -> Person:
    return Person(tmp_path, warm)


@contextmanager
def console(person: Person, *argv: str, **environ: str) -> Iterator[tuple[re.Match[str], Any]]:
    """Starts it, and hands out where it is; it ends as Ctrl-C ends it, and leaves nothing."""
    with subprocess.Popen(
        [*COMMAND, "console", *argv],
        cwd=person.shop,
        env={**person.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            told = process.stdout.readline() + process.stdout.readline()
            found = LINK.search(told)
            assert found is not None, told + process.stderr.read()
            yield found, process
            os.killpg(process.pid, signal.SIGINT)
            assert process.wait(40) == 0
            assert process.stderr.read() == ""
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert not [*(Path(person.environ["HOLDFAST_DATA"]) / "servers").iterdir()]


@contextmanager
def browser(link: re.Match[str]) -> Iterator[httpx.Client]:
    """Somebody who has opened the address."""
    headers = {**OURS, "Host": link[1]}
    base = f"http://127.0.0.1:{link[2]}"
    with httpx.Client(base_url=base, trust_env=False, timeout=60, headers=headers) as http:
        answer = http.post("/console/session", json={"link": link[4]})
        assert answer.json()["scopes"] == ["workspace", "admin"]
        # What a cookie is for is the host's name, which this client does not go by.
        http.headers["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]
        yield http


def test_what_is_in_the_directory_is_pending_and_going_back_moves_it(person: Person):
    before = person.files()
    person.breaks_it()
    broken = person.files()
    with console(person) as (link, _), browser(link) as http:
        assert link[3] == "/console/n/shop/timeline"
        standing = http.get("/v1/status").json()
        assert (standing["dirty"], standing["directory"]) == (True, str(person.shop))
        found = http.get("/v1/diff", params={"counts": True}).json()
        assert {each["name"]: each["change"] for each in found["changes"]} == {
            "orders.csv": "removed",
            "x1.py": "added",
            "x[1].py": "changed",
        }
        text = http.get("/v1/diff/text", params={"path": "x[1].py"}).json()["diff"]
        assert "-x = 1\n+x = 2" in text
        assert http.get("/v1/files/raw", params={"path": "x1.py"}).content == b"mine\n"
        assert http.get("/v1/history", params={"name": "x1.py"}).json()["steps"][0]["change"]
        first = http.get("/v1/timeline").json()["snapshots"][0]["snapshot_id"]

        def go_back(**body: Any) -> httpx.Response:
            return http.post(f"/v1/snapshots/{first}/restore", json=body)

        # By ticks: literally these, and nothing that they would match.
        names = [{"plane": "files", "name": "x[1].py"}]
        assert go_back(names=names, dry_run=True).json()["counts"]["files"]["changed"] == 1
        assert person.files() == broken
        part = go_back(names=names, expected=standing["position"]).json()
        assert part["verified"]
        assert part["safety_snapshot_id"]
        assert person.files() == {**broken, "x[1].py": before["x[1].py"]}
        # Who looked before that is told.
        assert go_back(expected=standing["position"]).json()["error"]["code"] == "head_moved"
        undone = {"operation": part["snapshot"]["snapshot_id"]}
        assert http.post("/v1/undo", json=undone).json()["verified"]
        assert person.files() == broken
        assert go_back().json()["verified"]
        assert person.files() == before
        # Somebody writes as much again between a look and an undo: that is not what was seen.
        written = person.shop / "x[1].py"
        written.write_text("x = 3\n")
        look = {"dry_run": True}
        seen = {"expected_root": http.post("/v1/undo", json=look).json()["old_root"]}
        written.write_text("x = 4\n")
        assert http.post("/v1/undo", json=seen).json()["error"]["code"] == "head_moved"
        assert written.read_text() == "x = 4\n"
        seen = {"expected_root": http.post("/v1/undo", json=look).json()["old_root"]}
        assert http.post("/v1/undo", json=seen).json()["verified"]
        assert person.files() == before
        assert http.post("/v1/undo", json={}).json()["verified"]
        assert person.files() == broken
        kept = http.post("/v1/snapshots", json={"label": "as it is"})
        assert kept.json()["label"] == "as it is"
        assert not http.get("/v1/status").json()["dirty"]
    assert "Nothing has changed" in person.types("status").stdout


def test_a_directory_that_is_gone_is_shown_as_it_was_and_brought_back(person: Person):
    before = person.files()
    for each in person.shop.iterdir():
        each.unlink()
    with console(person) as (link, _), browser(link) as http:
        person.shop.rmdir()
        first = http.get("/v1/timeline").json()["snapshots"][0]["snapshot_id"]
        assert not http.get("/v1/status").json()["dirty"]
        assert len(http.get("/v1/files/list").json()["files"]) == 2
        assert http.post(f"/v1/snapshots/{first}/restore", json={}).json()["verified"]
    assert person.files() == before


def test_a_server_that_runs_is_used_and_the_browser_is_handed_a_file(person: Person):
    opener = person.home / "xdg-open"
    os.mkfifo(handed := person.home / "handed")
    opener.write_text(f'#!/bin/sh\nenv > {person.home}/opened\necho "$@" > {handed}\n')
    opener.chmod(0o700)
    path = f"{person.home}{os.pathsep}{os.environ['PATH']}"
    with console(person, "--no-browser", DISPLAY=":0", PATH=path) as (link, _):
        assert not (person.home / "opened").exists()
        (key := person.home / "key").write_text("hidden-from-browsers")
        secret = {"HOLDFAST_ADMIN_KEY_FILE": str(key)}
        screen = {**person.environ, **secret, "DISPLAY": ":0", "PATH": path}
        again = person.types("console", env=screen)
        assert "opens in your browser" in again.stdout
        second = LINK.search(again.stdout)
        assert second is not None
        # Another name each time, the same server, and somebody else's link.
        assert (second[2], second[4] == link[4]) == (link[2], False)
        assert second[1] != link[1]
        page = Path(handed.read_text().strip())
        assert second[4] not in str(page)
        assert "hidden-from-browsers" not in (person.home / "opened").read_text()
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert f"url={second[0]}" in page.read_text()
        with browser(second) as http:
            assert http.get("/v1/status").json()["directory"]
        elsewhere = person.types("console", "--json", cwd=person.home)
        assert "/console/#link=" in elsewhere.stdout


def test_a_server_without_directories_is_used_for_all_but_a_project(person: Person):
    serving = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", "--json"],
        cwd=person.home,
        env=person.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert serving.stdout is not None
        serving.stdout.readline()
        done = person.types("console", "--no-browser", cwd=person.home)
        assert LINK.search(done.stdout) is not None, done.stderr
    finally:
        os.killpg(serving.pid, signal.SIGKILL)
        serving.wait()
        serving.stdout.close()
    # It was killed: what it left says nothing.
    with console(person) as (link, _), browser(link) as http:
        assert http.get("/v1/status").json()["directory"]


def test_what_is_not_attached_is_refused(person: Person):
    done = person.types("console", str(person.home))
    assert (done.returncode, "is not in an attached directory" in done.stderr) == (3, True)
