"""Commands that start at once: one process has loaded everything, and becomes each of them.

    with warm_process(folder) as warm:
        subprocess.run([*warm.command, "status"], cwd=project, env=environ)
        with running_server(folder, begin=warm.begin) as server:
            ...

Nine tenths of a command are Python loading what it needs, and tests type thousands of them. Here
that happens once. A small program, `holdfast` in `folder`, says what was typed, and the process
that has loaded everything forks: the copy has arguments, environment, directory, umask, streams
and exit code of its own, and ends as a process ends. A server is one that is not waited for.

What is copied is kept small, since every copy pays for it: frameworks, which no command loads, are
not there.

What is otherwise, and is for tests that start `holdfast.testing.servers.COMMAND`: what is loaded
when, what Python takes apart at its end, what kills the small program (SIGINT and SIGTERM it passes
on), a terminal of one's own, memory, the rights and limits of who asks, streams that are closed.
"""

import atexit
import gc
import os
import pkgutil
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import IO, Final, NoReturn

import holdfast
from holdfast.testing.servers import COMMAND

_SIZE: Final = struct.Struct("=Q")
_TOLD: Final = struct.Struct("=i")
_STREAMS: Final = 3
_ELSEWHERE: Final = (
    "holdfast.__main__",
    "holdfast.integrations",
    "holdfast.mcp",
    "holdfast.testing",
)
"""What few commands need, or none, and those load themselves."""

_CLIENT: Final = """\
import _signal, _socket, os, sys
words = [os.fsencode(word) for word in sys.argv[1:]]
umask = os.umask(0)
os.umask(umask)
here = os.open(".", os.O_PATH | os.O_DIRECTORY)
variables = [name + b"=" + value for name, value in os.environb.items()]
said = b"\\0".join([b"", b"%d" % umask, b"%d" % len(words), *words, *variables])
sent = b"".join(each.to_bytes(4, sys.byteorder) for each in (0, 1, 2, here))
asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
asked.connect(ADDRESS)
size = len(said).to_bytes(8, sys.byteorder)
asked.sendmsg([size], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, sent)])
asked.sendall(said)
process = int.from_bytes(asked.recv(4, _socket.MSG_WAITALL), sys.byteorder)
for number in (_signal.SIGINT, _signal.SIGTERM):
    _signal.signal(number, lambda number, frame: os.kill(process, number))
code = int.from_bytes(asked.recv(4, _socket.MSG_WAITALL), sys.byteorder, signed=True)
if code < 0:
    if -code in (_signal.SIGINT, _signal.SIGTERM):
        _signal.signal(-code, _signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""Without `site` and `socket`: it starts in the time that a bare interpreter takes."""


class Warm:
    """What to start commands by, for as long as the process is there that becomes them."""

    def __init__(self, address: str, program: Path, pid: int) -> None:
        self._address, self.pid = address, pid
        self.command: tuple[str, ...] = (str(program),)
        """What to type for `holdfast`; its directory may stand in a PATH."""

    def begin(
        self, words: Sequence[str], *, stderr: IO[bytes], env: Mapping[str, str], cwd: Path | None
    ) -> "Copy":
        """Starts `COMMAND` with more words, as `holdfast.testing.servers.begin` does."""
        typed = [os.fsencode(word) for word in words[len(COMMAND) :]]
        variables = [os.fsencode(f"{name}={value}") for name, value in env.items()]
        umask = os.umask(0)
        os.umask(umask)
        said = b"\0".join([b"alone", b"%d" % umask, b"%d" % len(typed), *typed, *variables])
        asked = socket.socket(socket.AF_UNIX)
        asked.connect(self._address)
        reading, writing = os.pipe()
        here = os.open(cwd or Path.cwd(), os.O_PATH | os.O_DIRECTORY)
        nothing = os.open(os.devnull, os.O_RDONLY)
        given = [nothing, writing, stderr.fileno(), here]
        socket.send_fds(asked, [_SIZE.pack(len(said))], given)
        asked.sendall(said)
        for each in (nothing, writing, here):
            os.close(each)
        return Copy(asked, os.fdopen(reading, "rb"))


class Copy:
    """A copy that goes on by itself, with what tests ask of a `subprocess.Popen`."""

    def __init__(self, asked: socket.socket, stdout: IO[bytes]) -> None:
        self._asked, self.stdout = asked, stdout
        self.returncode: int | None = None
        self.pid: int = _TOLD.unpack(asked.recv(_TOLD.size, socket.MSG_WAITALL))[0]

    def poll(self) -> int | None:
        """Returns how it has ended; None while it goes on."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end, and returns how that was."""
        if self.returncode is not None:
            return self.returncode
        if not select.select([self._asked], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("holdfast", timeout or 0)
        with self._asked:
            told = self._asked.recv(_TOLD.size, socket.MSG_WAITALL)
        code: int = _TOLD.unpack(told)[0]
        self.returncode = code
        return code

    def send_signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it."""
        self.send_signal(signal.SIGKILL)


@contextmanager
def warm_process(folder: Path) -> Generator[Warm]:
    """Loads everything in a process that is there for as long as the block lasts: Linux only."""
    address, program = str(folder / "sock"), folder / "holdfast"
    # Not by way of a shell, which has ideas of its own of a directory that is gone.
    program.write_text(f"#!{sys.executable} -IS\n{_CLIENT.replace('ADDRESS', repr(address))}")
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(listening.fileno())],
            stdin=subprocess.PIPE,  # It ends when we do.
            pass_fds=[listening.fileno()],
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
    try:
        yield Warm(address, program, process.pid)
    finally:
        process.communicate()


def serve(listening: socket.socket) -> None:
    """Becomes, in a copy, each command that is asked for, until nobody can ask any more."""
    _load(holdfast)
    _use(Path(listening.getsockname()).parent)
    gc.collect()
    gc.freeze()  # Otherwise each copy would look through all of it, and so make it its own.
    running = dict[int, tuple[int, socket.socket]]()
    while True:
        ready = select.select([listening, sys.stdin, *running], [], [])[0]
        for ended in running.keys() & ready:
            os.close(ended)
            _tell_end(*running.pop(ended))
        if sys.stdin in ready:
            return
        if listening in ready:
            asked, _ = listening.accept()
            process = os.fork()
            if process == 0:
                listening.close()
                for each, (_, other) in running.items():
                    os.close(each)
                    other.close()
                _answer(asked)
            with suppress(OSError):  # Whoever asked may have gone.
                asked.sendall(_TOLD.pack(process))
            running[os.pidfd_open(process)] = process, asked


def _load(package: ModuleType) -> None:
    """Imports all that is below a package, but for what is elsewhere."""
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if module.name not in _ELSEWHERE:
            with suppress(ImportError):  # Of what is not installed here.
                loaded = import_module(module.name)
                if module.ispkg:
                    _load(loaded)


def _use(folder: Path) -> None:
    """Uses a vault once, so that what a process makes for its first one is there: statements."""
    with TemporaryDirectory(dir=folder) as place, holdfast.open(Path(place, "vault")) as vault:
        agent = vault.namespace("agent")
        agent.snapshot()
        agent.files.write("a", "b")
        agent.snapshot()
        agent.undo()
    assert threading.active_count() == 1, "no copy would have the others"


def _tell_end(process: int, asked: socket.socket) -> None:
    _, status = os.waitpid(process, 0)
    with asked, suppress(OSError):  # Whoever asked may have gone.
        asked.sendall(_TOLD.pack(os.waitstatus_to_exitcode(status)))


def _answer(asked: socket.socket) -> NoReturn:
    """Is what is asked for from here on."""
    data, descriptors, _, _ = socket.recv_fds(asked, _SIZE.size, _STREAMS + 1)
    (size,) = _SIZE.unpack(data)
    with asked:
        said = asked.recv(size, socket.MSG_WAITALL).split(b"\0")
    _become(said, descriptors)


def _become(said: list[bytes], descriptors: list[int]) -> NoReturn:
    """Is the command from here on."""
    alone, umask, count, *rest = said
    words, variables = rest[: int(count)], rest[int(count) :]
    if alone:
        os.setsid()
    os.umask(int(umask))
    os.fchdir(descriptors[_STREAMS])
    for stream, each in enumerate(descriptors[:_STREAMS]):
        os.dup2(each, stream)
    for each in descriptors:
        os.close(each)
    os.environ.clear()
    os.environb.update(dict(_pair(each) for each in variables))
    time.tzset()
    sys.argv = [COMMAND[0], *map(os.fsdecode, words)]
    _open_streams()
    from holdfast.cli.main import start  # noqa: PLC0415 - it is the command's to load

    try:
        start()
    except SystemExit as ended:
        _end(ended)
    raise AssertionError("a command has not ended its process")


def _end(ended: SystemExit) -> NoReturn:
    """Does what Python does at its end, but for taking apart all that was loaded.

    A copy would make each page of it its own for that, which is 45 ms of work, and then be gone.
    """
    threading._shutdown()  # noqa: SLF001 # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - as Python does
    atexit._run_exitfuncs()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - as above
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        raise ended from None  # Python has its own way of saying so.
    assert isinstance(ended.code, int)
    os._exit(ended.code)


def _pair(variable: bytes) -> tuple[bytes, bytes]:
    name, _, value = variable.partition(b"=")
    return name, value


def _open_streams() -> None:
    """Makes the streams that Python makes when it starts."""
    like = sys.stdout.encoding, sys.stdout.errors
    sys.stdin = os.fdopen(0, encoding=like[0], errors=like[1])
    sys.stdout = os.fdopen(1, "w", encoding=like[0], errors=like[1])
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding=like[0], errors="backslashreplace")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        serve(given)
