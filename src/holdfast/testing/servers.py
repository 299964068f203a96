"""Real servers for tests: a process of their own, on a free port, over a vault of their own.

    with running_server(tmp_path) as server:
        client = holdfast.Client(server.api_key, url=server.url, namespace="alice")

It is started by the command that users type, as it lies in this environment, or by `command`.
What a server writes to its log is in `server.log`; one that dies, or does not come up in time,
raises with the end of it. `kill` is a power cut's nearest relative, `stop` is Ctrl-C's.
"""

import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Protocol
from urllib.error import URLError
from urllib.request import Request, urlopen

ADMIN_KEY: Final = "holdfast-admin-0123456789abcdefghijklmnopqrstuvwxyz"
API_KEY: Final = "holdfast-sk-0123456789abcdefghijklmnopqrstuvwxyz"

_SCRIPT: Final = Path(sys.executable).with_name("holdfast")

COMMAND: Final = (
    # Where nothing was installed there is the module that the script calls.
    (str(_SCRIPT),) if _SCRIPT.exists() else (sys.executable, "-P", "-m", "holdfast.cli.main")
)
"""What people start: `holdfast`, as it was installed into this environment."""

_COMES_UP_S: Final = 30.0
_STOPS_S: Final = 40.0
_PAUSE_S: Final = 0.02
_TOLD: Final = 4000
"""Characters of a log that an error repeats."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Process(Protocol):
    """What tests ask of a server's process."""

    pid: int
    stdout: IO[bytes] | None

    def poll(self) -> int | None:
        """Returns how it has ended; None while it goes on."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end, and returns how that was."""
        ...

    def send_signal(self, sig: int, /) -> None:
        """Sends it a signal, unless it has ended."""
        ...

    def terminate(self) -> None:
        """Asks it to end."""
        ...

    def kill(self) -> None:
        """Ends it."""
        ...


Begin = Callable[..., Process]
"""Starts a process of its own, whose output can be read: `begin`, or what does so at once."""


def begin(
    words: Sequence[str], *, stderr: IO[bytes], env: Mapping[str, str], cwd: Path | None
) -> Process:
    """Starts a process in a session of its own, whose output can be read."""
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=stderr, cwd=cwd, env=env, start_new_session=True
    )


@dataclass(kw_only=True)
class Server:
    """A server that a test started."""

    data: Path
    log: Path
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    arguments: tuple[str, ...] = ()
    command: Sequence[str] = COMMAND
    directory: Path | None = None
    """Where it is started; where the test runs unless said otherwise."""
    begin: Begin = begin
    """What starts a process; `holdfast.testing.warm` has one that does at once."""
    admin_key: str = ADMIN_KEY
    api_key: str = API_KEY
    url: str = ""
    workspace_id: str = ""
    process: Process | None = None
    port: int = 0

    def start(self) -> "Server":
        """Starts the process, and returns once it answers; a second start keeps the port."""
        options = ["--json", "--data", str(self.data), "--port", str(self.port)]
        environ = {
            **os.environ,
            "HOLDFAST_ADMIN_KEY": self.admin_key,
            "HOLDFAST_API_KEY": self.api_key,
            "NO_PROXY": "127.0.0.1,localhost",
            **self.environ,
        }
        with self.log.open("ab") as log:
            self.process = self.begin(
                [*self.command, "serve", *options, *self.arguments],
                stderr=log,
                cwd=self.directory,
                env=environ,
            )
        self._read_address()
        self._wait_for_health()
        return self

    def kill(self) -> None:
        """Ends the process and its workers at once, whatever they are doing."""
        self._signal(signal.SIGKILL)

    def stop(self) -> int:
        """Asks the process to stop, waits for it, and returns its exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(_STOPS_S)
        except subprocess.TimeoutExpired:
            self.kill()
            message = f"the server did not stop in {_STOPS_S} s:\n{self.read_log()}"
            raise AssertionError(message) from None
        self._forget()
        return code

    def cpu_s(self) -> float:
        """Returns how many seconds the process has computed, without its workers: Linux only.

        What takes too long is measured by it: it is the same however busy a machine is.
        """
        assert self.process is not None
        return cpu_s(self.process.pid)

    def read_log(self) -> str:
        """Returns the end of what the server has written to its log."""
        return self.log.read_text("utf-8", "replace")[-_TOLD:]

    def _signal(self, number: int) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)  # A group of its own: its workers go with it.
        self.process.wait(_STOPS_S)
        self._forget()

    def _forget(self) -> None:
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None

    def _read_address(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        told, depth = b"", 0
        for line in self.process.stdout:
            told += line
            depth += line.count(b"{") - line.count(b"}")
            if depth == 0:
                break
        if not told.strip():
            code = self.process.wait(_STOPS_S)
            message = f"the server ended with {code}:\n{self.read_log()}"
            raise AssertionError(message)
        document = json.loads(told)
        self.url, self.workspace_id = document["url"], document["workspace_id"]
        self.port = int(self.url.rpartition(":")[2].partition("/")[0])

    def _wait_for_health(self) -> None:
        deadline = time.monotonic() + _COMES_UP_S
        while time.monotonic() < deadline:
            assert self.process is not None
            if self.process.poll() is not None:
                break
            try:
                # Whether it is known by its certificate, a test asks itself.
                trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
                with urlopen(f"{self.url}/health", timeout=5, context=trusting):  # noqa: S310 - our own address
                    return
            except (URLError, OSError):
                time.sleep(_PAUSE_S)
        message = f"the server does not answer:\n{self.read_log()}"
        self.kill()
        raise AssertionError(message)


def most_awaited_s(server: Server, is_busy: Callable[[], bool], *, paths: Sequence[str]) -> float:
    """Asks for paths until nobody is busy, and returns the most that an answer waited for.

    It is what the server computed meanwhile: whoever waits for more waits for somebody else's
    work. A clock would also show what others do on the machine.
    """
    worst = 0.0
    while is_busy():
        before = server.cpu_s()
        for path in paths:
            headers = {"Authorization": f"Bearer {server.api_key}", "X-Namespace": "alice"}
            asked = Request(server.url + path, headers=headers)  # noqa: S310 - our own address
            with urlopen(asked, timeout=60):  # noqa: S310 - our own address
                pass
        worst = max(worst, server.cpu_s() - before)
    return worst


@contextmanager
def running_server(
    folder: Path,
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    command: Sequence[str] = COMMAND,
    directory: Path | None = None,
    begin: Begin = begin,
) -> Generator[Server]:
    """Runs a server over a vault in `folder` for as long as the block lasts.

    `arguments` are more of `holdfast serve`; `environ` adds variables, such as
    HOLDFAST_DATABASE_URL. It is started by `command` in `directory`, or by `begin` at once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    server = Server(
        data=folder / "vault",
        log=folder / "server.log",
        arguments=arguments,
        environ=dict(environ or {}),
        command=command,
        directory=directory,
        begin=begin,
    )
    try:
        yield server.start()
    finally:
        server.kill()


def cpu_s(pid: int, *, children: bool = False) -> float:
    """Returns how many seconds a process has computed, with its children also what these have.

    Those that have ended count as well, once their end was noticed.
    """
    fields = _fields(pid)
    if not children:
        return sum(map(int, fields[11:13])) / _TICKS
    return sum(map(int, fields[11:15])) / _TICKS + sum(map(cpu_s, _children(pid)))


def _fields(pid: int) -> list[str]:
    """Returns what stands of a process behind its name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()


def _children(pid: int) -> list[int]:
    found = list[int]()
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                if int(_fields(int(each.name))[1]) == pid:
                    found.append(int(each.name))
            except OSError:
                continue  # It has ended meanwhile.
    return found
