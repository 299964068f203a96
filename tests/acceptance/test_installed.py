"""What people get who install it: a wheel in an environment of its own, and the command in it."""

import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import venv
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import pytest
from hatchling.builders.wheel import WheelBuilder

from holdfast import Client
from holdfast.testing.servers import Server, running_server

ROOT = Path(__file__).resolve().parents[2]
SHADOWING = ("multiprocessing", "pickle", "random", "signal", "socket", "tokenize", "uvicorn")
"""Names that a user's own files may have, and that a worker needs of others."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with our wheel in it; what we depend on is lent by the one of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    environment = folder / "environment"
    has_pip = find_spec("pip") is not None
    venv.EnvBuilder(symlinks=True, with_pip=not has_pip).create(environment)
    python = str(environment / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python] if has_pip else [python, "-m", "pip"]
    options = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *options, wheel], check=True, timeout=120)
    library = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    # A path that is named so brings its packages, and not what was installed there to be edited.
    (library / "lent.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return environment


def client_of(server: Server) -> Client:
    return Client(server.api_key, url=server.url, namespace="alice")


def workers_of(server: Server) -> list[int]:
    assert server.process is not None
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    pids = [int(pid) for pid in children.read_text().split()]
    return [pid for pid in pids if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def wait_until(condition: Callable[[], bool], server: Server) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, server.read_log()
        time.sleep(0.01)


class Load:
    """Clients that write one file after another for as long as the block lasts."""

    def __init__(self, server: Server, *, clients: int) -> None:
        self.server = server
        self.acknowledged: list[str] = []
        self.problems: list[Exception] = []
        self._stop = threading.Event()
        self._progress = threading.Condition()
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, count: int) -> None:
        with self._progress:
            wanted = len(self.acknowledged) + count
            is_reached = self._progress.wait_for(
                lambda: len(self.acknowledged) >= wanted or self.problems, timeout=60
            )
        assert not self.problems, self.server.read_log()
        assert is_reached, self.server.read_log()

    def _run(self, number: int) -> None:
        with client_of(self.server) as client:
            turn = 0
            while not self._stop.is_set():
                path = f"{number}/{turn}.txt"
                try:
                    client.files.write(path, path)
                except Exception as exc:  # noqa: BLE001 - whatever it is, the test shows it
                    with self._progress:
                        self.problems.append(exc)
                        self._progress.notify_all()
                    return
                with self._progress:
                    self.acknowledged.append(path)
                    self._progress.notify_all()
                turn += 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_installed_command_serves_with_two_workers_under_load_and_outlives_one(
    environment: Path, tmp_path: Path
):
    command = [str(environment / "bin" / "holdfast")]
    with (
        running_server(tmp_path, "--workers", "2", command=command) as server,
        Load(server, clients=4) as load,
    ):
        load.wait_for_more(20)
        wait_until(lambda: len(workers_of(server)) == 2, server)
        os.kill(workers_of(server)[0], signal.SIGKILL)
        load.wait_for_more(40)
    with running_server(tmp_path, command=command) as server, client_of(server) as client:
        assert [client.files.read_text(path) for path in load.acknowledged] == load.acknowledged


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_need_neither_the_script_nor_the_directory_that_they_are_started_from(
    tmp_path: Path,
):
    script = tmp_path / "scripts" / "serve"
    here = tmp_path / "here"
    for folder in (script.parent, here):
        folder.mkdir()
    # As somebody may write it, and as environments have it in which ours was installed once.
    script.write_text("import sys\nfrom holdfast.cli.main import main\nsys.exit(main())\n")
    for name in SHADOWING:
        (here / f"{name}.py").write_text("raise SystemExit('this is somebody else\\'s')\n")
    command = [sys.executable, str(script)]
    with running_server(tmp_path, "--workers", "2", command=command, directory=here) as server:
        script.unlink()  # as an upgrade does
        wait_until(lambda: len(workers_of(server)) == 2, server)
        with client_of(server) as client:
            client.files.write("a.txt", "a")
            for gone in workers_of(server):
                os.kill(gone, signal.SIGKILL)
            assert client.files.read_text("a.txt") == "a"


def test_the_package_is_the_command_where_that_is_not_on_the_path(environment: Path):
    def version(*command: str) -> str:
        python = str(environment / "bin" / command[0])
        done = subprocess.run([python, *command[1:], "--version"], capture_output=True, check=True)
        return done.stdout.decode()

    assert version("python", "-m", "holdfast") == version("holdfast")
