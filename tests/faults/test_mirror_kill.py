"""A directory on its way to a server, with everything going wrong: connections, client, server.

A proxy stands between the two, counts what goes through it, and does the harm at a chosen byte.
What arrived before is not sent again.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import holdfast
from holdfast import errors
from holdfast.mirror.following import PACK_BYTES
from holdfast.testing.servers import Begin, Server, running_server

pytestmark = pytest.mark.in_memory

FILES = 40
FILE_BYTES = 512 << 10
TOTAL = FILES * FILE_BYTES

PUSH = """
import sys, holdfast
url, key, tree, cache = sys.argv[1:]
with holdfast.Client(key, namespace="agent", url=url) as client:
    with client.workspace(tree, cache=cache) as workspace:
        workspace.snapshot("pushed")
"""


class Proxy:
    """Forwards connections to a server, counts the bytes sent to it, and breaks on demand."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.sent = self.received = 0
        self.at: int | None = None
        """After so many bytes to the server the harm is done, once."""
        self.harm: Callable[[], object] = lambda: None
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        """Breaks all connections."""
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(near,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._server.port))
        except OSError:
            near.close()
            return
        with near, far, suppress(OSError):
            self._open += [near, far]
            while True:
                ready, _, _ = select.select([near, far], [], [])
                for each in ready:
                    data = each.recv(1 << 16)
                    if not data:
                        return
                    (far if each is near else near).sendall(data)
                    self._count(len(data), is_out=each is near)

    def _count(self, size: int, *, is_out: bool) -> None:
        if not is_out:
            self.received += size
            return
        self.sent += size
        if self.at is not None and self.sent >= self.at:
            self.at = None
            self.harm()


@pytest.fixture
def server(tmp_path: Path, at_once: Begin) -> Iterator[Server]:
    with running_server(tmp_path / "server", begin=at_once) as running:
        yield running


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    made = Proxy(server)
    yield made
    made.close()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number:02}.bin").write_bytes(os.urandom(FILE_BYTES))
    return folder


def start(proxy: Proxy, server: Server, tree: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-c", PUSH, proxy.url, server.api_key]
    command += [str(tree), str(tree.with_name("cache"))]
    return subprocess.Popen(command, env={**os.environ, "NO_PROXY": "127.0.0.1"})


def check_arrived(server: Server, tree: Path) -> None:
    with holdfast.Client(server.api_key, namespace="agent", url=server.url) as client:
        newest = client.timeline(limit=1)[0]
        assert newest.label == "pushed"
        for path in tree.iterdir():
            assert client.at(newest).files.read(path.name) == path.read_bytes()


def test_a_client_that_is_killed_goes_on_where_it_was(
    proxy: Proxy, server: Server, tree: Path
) -> None:
    first = start(proxy, server, tree)
    proxy.harm = lambda: first.send_signal(signal.SIGKILL)
    proxy.at = 3 * PACK_BYTES + PACK_BYTES // 2
    assert first.wait() == -signal.SIGKILL
    with holdfast.Client(server.api_key, namespace="agent", url=server.url) as client:
        assert client.timeline() == []
    proxy.sent = 0
    assert start(proxy, server, tree).wait() == 0
    check_arrived(server, tree)
    # At least the first of those that were sent was answered for.
    assert proxy.sent < TOTAL - PACK_BYTES


def test_a_broken_connection_costs_what_was_on_its_way(
    proxy: Proxy, server: Server, tree: Path
) -> None:
    proxy.harm, proxy.at = proxy.cut, 3 * PACK_BYTES + PACK_BYTES // 2
    assert start(proxy, server, tree).wait() == 0
    check_arrived(server, tree)
    assert proxy.at is None
    assert proxy.sent < TOTAL + 3 * PACK_BYTES


def test_a_server_that_is_killed_keeps_what_it_answered_for(
    proxy: Proxy, server: Server, tree: Path
) -> None:
    def harm() -> None:
        server.kill()
        proxy.cut()

    proxy.harm, proxy.at = harm, 3 * PACK_BYTES + PACK_BYTES // 2
    with (
        holdfast.Client(server.api_key, namespace="agent", url=proxy.url, retries=1) as client,
        client.workspace(tree, cache=tree.with_name("cache")) as workspace,
    ):
        with pytest.raises(errors.Unreachable):
            workspace.snapshot("pushed")
        server.start()
        proxy.sent = 0
        workspace.snapshot("pushed")
    check_arrived(server, tree)
    assert proxy.sent < TOTAL - PACK_BYTES


def test_an_answer_that_never_came_is_no_conflict(server: Server, tree: Path) -> None:
    with (
        holdfast.Client(server.api_key, namespace="agent", url=server.url) as client,
        client.workspace(tree, cache=tree.with_name("cache")) as workspace,
    ):
        workspace.snapshot("first")
        (tree / "more.txt").write_text("more")
        commit = workspace._pair.server.commit

        def dies(told: object) -> object:
            commit(told)  # type: ignore[arg-type]
            raise KeyboardInterrupt

        workspace._pair.server.commit = dies  # type: ignore[assignment,method-assign]
        with pytest.raises(KeyboardInterrupt):
            workspace.snapshot("pushed, and nobody heard of it")

        def never_comes_to_it(_: object) -> object:
            raise KeyboardInterrupt

        workspace._pair.server.commit = never_comes_to_it  # type: ignore[assignment,method-assign]
        (tree / "even-more.txt").write_text("more")
        with pytest.raises(KeyboardInterrupt):
            workspace.snapshot("never pushed")
        workspace._pair.server.commit = commit  # type: ignore[method-assign]
        (tree / "most.txt").write_text("most")
        workspace.snapshot("pushed")
    check_arrived(server, tree)


def test_ten_of_many_files_take_few_bytes(proxy: Proxy, server: Server, tmp_path: Path) -> None:
    tree = tmp_path / "many"
    for number in range(2000):
        path = tree / f"{number % 40:02}" / f"{number:04}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(20).hex().encode() * 50)
    with (
        holdfast.Client(server.api_key, namespace="agent", url=proxy.url) as client,
        client.workspace(tree, cache=tmp_path / "cache") as workspace,
    ):
        workspace.snapshot()
        for number in range(10):
            (tree / f"{number:02}" / f"{number:04}.txt").write_bytes(
                os.urandom(1000).hex().encode()
            )
        proxy.sent = 0
        before = workspace.snapshot()
        assert proxy.sent < 100_000
        (tree / "00" / "0000.txt").write_text("x")
        proxy.sent = proxy.received = 0
        workspace.restore(before)
        assert proxy.sent + proxy.received < 100_000
