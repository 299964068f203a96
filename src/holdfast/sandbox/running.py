"""Runs one command in the sandbox, to its end or to the end of what it may take.

Promises:

1. Nothing outlives the command. Its processes are in a namespace whose first process ends them all
   when it ends, and this returns only when that is over. Nor does anything outlive this process:
   until it has said so, the command does not begin (`_GATE`), and from then on a keeper beside the
   sandbox hears that this process is gone, and ends it (`_KEEPER`).
2. Nothing runs outside of the sandbox: what did not say from within that it is ready was not run,
   and `SandboxUnavailable` says why.
3. What it says is bounded, and so is what it takes: it is looked at every `LOOK_S` seconds, and
   where there is a place for control groups, the kernel bounds it.
"""

import fcntl
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast.errors import SandboxUnavailable
from holdfast.model.commands import Stopped
from holdfast.sandbox.cgroups import Groups
from holdfast.sandbox.confining import USUAL_ID, Become, arguments, groups, users
from holdfast.sandbox.limits import Allowance, find_user
from holdfast.sandbox.tallying import Growth, Processes, find_children

LOOK_S: Final = 0.05
"""A bomb of processes has made some hundreds in this time."""

_NICENESS: Final = 15
_NO_CORE: Final = (1, 1)
"""One byte, which bash calls none: with 0, the kernel would still start a handler of the machine's
that cores are piped to, outside of the sandbox."""
_START_S: Final = 30.0
_READ_BYTES: Final = 65536
_SIGNALLED: Final = 128
_KIBIBYTE: Final = 1024
_SEALED: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL

_GATE: Final = """
hf_ready=$1 hf_gate=$2; cd -- "$3" || exit 1; shift 3
echo ready >&"$hf_ready" && read -r hf_go <&"$hf_gate" || exit 1
exec {hf_ready}>&- {hf_gate}<&-
[ "$(ulimit -Hc)" = 0 ] || ulimit -c 0 || exit 1
ulimit -d "$1" && ulimit -f "$2" && ulimit -n "$3" && ulimit -u "$4" || exit 1
shift 4
unset hf_ready hf_gate hf_go OLDPWD
exec "$@"
"""
"""Says that it is there, waits until it is told to go on, and takes no more than it may. Whoever
would tell it is gone if there is nothing to be read. It goes to where the command begins itself:
what made the sandbox may not, if that is somebody else's."""

_KEEPER: Final = """
hf_life=$1; shift
read -r hf_limited <&"$hf_life" || exit 1
(
  read -r hf_go && read -r hf_end
  [ "$hf_go" = go ] && kill -KILL $$
) <&"$hf_life" >/dev/null 2>&1 &
exec {hf_life}<&-
"$@"
hf_code=$?
kill $! 2>/dev/null
exit $hf_code
"""
"""Runs bubblewrap, which ends with its parent: with this one, when nobody has hold of the other end
of a pipe any more. Not before the command has begun: a bubblewrap that is ended while it makes a
sandbox leaves a process that waits for ever, and one that nobody tells to begin ends by itself."""

Hear = Callable[[str, bytes], None]
"""Is given what a command says, piece by piece: `stdout` or `stderr`, and bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be run, and where."""

    command: Sequence[str]
    folder: str
    cwd: str
    allowance: Allowance
    stdin: bytes = b""
    has_network: bool = False
    folder_bytes: int = 0
    folder_files: int = 0
    """What the folder holds before: it may grow by what is allowed."""
    number: int = 0
    """Where the server is root, the folder belongs to the user of this number (`limits.py`)."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What a sandbox is made with."""

    bwrap: str
    filter_: bytes
    setpriv: str | None
    """What gives up being root; None for whoever is not."""
    groups: Groups | None = None
    """Where the kernel bounds all processes of a command together; None without such a place."""


@dataclass(frozen=True, slots=True)
class End:
    """How a command ended."""

    exit_code: int
    """128 and the number of the signal, if one ended it."""
    seconds: float
    stopped: Stopped | None


class _Info(msgspec.Struct):
    """What bubblewrap says of what it has made."""

    child_pid: int = msgspec.field(name="child-pid")


def run(tools: Tools, order: Order, hear: Hear, *, is_wanted: Callable[[], bool]) -> End:
    """Runs a command; raises `SandboxUnavailable` if there is no sandbox for it."""
    with ExitStack() as stack:
        started = _Started(tools, order, stack)
        started.wait_until_ready()
        began = time.monotonic()
        started.let_go()
        stopped = started.listen(hear, began + order.allowance.seconds, is_wanted)
        code = started.end()
        # What it left counts first, whatever ended it: that must not come into the head.
        stopped = started.find_left() or stopped
        seconds = time.monotonic() - began
    if stopped is not None:
        code = _SIGNALLED + signal.SIGKILL
    return End(code if code >= 0 else _SIGNALLED - code, seconds, stopped)


class _Started:
    """A sandbox that was started, and in which nothing of the command has happened yet."""

    def __init__(self, tools: Tools, order: Order, stack: ExitStack) -> None:
        self._order = order
        self._growth = _growth(order)
        become = _become(tools, order)
        user = USUAL_ID if become is None else become.user
        allowance = order.allowance
        lend = stack.enter_context
        self._group = None if tools.groups is None else lend(tools.groups.lend(allowance))
        ready, ready_in = lend(_pipe())
        gate_out, gate = lend(_pipe())
        life_out, life = lend(_pipe())
        # A file, and no pipe: bubblewrap would not survive that nobody reads there any more, and
        # leave what it has begun.
        info = lend(_file())
        out, out_in = lend(_pipe())
        err, err_in = lend(_pipe())
        data = [lend(_file(each)) for each in (tools.filter_, users(user), groups(user))]
        line = arguments(
            tools.bwrap,
            order.folder,
            ["/bin/bash", "-c", _GATE, "bash", str(ready_in.fd), str(gate_out.fd), order.cwd]
            + [str(limit) for limit in _limits(allowance)]
            + [*order.command],
            become=become,
            filter_fd=data[0].fd,
            users_fd=data[1].fd,
            groups_fd=data[2].fd,
            info_fd=info.fd,
            scratch_bytes=allowance.scratch_bytes,
            has_network=order.has_network,
        )
        given = (ready_in, gate_out, life_out, *data)
        stdin = lend(_file(order.stdin))
        if become is not None:
            # So that `/dev/stdout` can be opened, which is this very pipe.
            for stream in (stdin, out_in, err_in):
                os.fchown(stream.fd, user, user)
        try:
            self._process = _start(
                life_out.fd,
                line,
                streams=(stdin.fd, out_in.fd, err_in.fd),
                passed=[each.fd for each in (*given, info)],
            )
        except OSError as exc:
            message = f"{tools.bwrap} cannot be started: {exc.strerror}"
            raise SandboxUnavailable(message) from exc
        self._ready, self._gate, self._life, self._info = ready, gate, life, info
        self._limit()
        self._streams = {out.fd: "stdout", err.fd: "stderr"}
        self._err = err.fd
        self._first: int | None = None
        self._first_pid = 0
        stack.callback(self._close_first)
        stack.callback(self._kill)
        for each in (*given, out_in, err_in, stdin):
            each.close()

    def _limit(self) -> None:
        """Has the keeper begin, with what all that it starts inherits."""
        # Of the keeper, which is ours: of somebody else's process it takes a capability that root
        # does not have in most containers. What was at 0 before stays there.
        with suppress(OSError):
            resource.prlimit(self._process.pid, resource.RLIMIT_CORE, _NO_CORE)
        if self._group is not None:
            try:
                self._group.add(self._process.pid)
            except OSError as exc:
                self._give_up()
                message = f"no command can be put into its control group: {exc.strerror}"
                raise SandboxUnavailable(message) from exc
        os.write(self._life.fd, b"limited\n")

    def wait_until_ready(self) -> None:
        """Waits until the sandbox is there; raises `SandboxUnavailable` if it will not be."""
        os.set_blocking(self._ready.fd, False)
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._ready.fd, selectors.EVENT_READ)
            is_there = bool(waiting.select(_START_S)) and os.read(self._ready.fd, 16)
        if not is_there:
            self._give_up()
            said = os.read(self._err, _READ_BYTES) if self._has_said() else b""
            why = said.decode("utf-8", "replace").strip()[:500] or "it does not answer"
            raise SandboxUnavailable(f"no sandbox can be had here: {why}")
        try:
            told = msgspec.json.decode(os.pread(self._info.fd, _READ_BYTES, 0), type=_Info)
            self._first_pid = told.child_pid
            self._first = os.pidfd_open(told.child_pid)
        except (OSError, msgspec.DecodeError) as exc:
            self._give_up()
            raise SandboxUnavailable("the sandbox does not say which its processes are") from exc
        # Whoever answers others comes first, and whoever ends a command before all that it has
        # started: the first process of the namespace stays as it is.
        with suppress(OSError):
            for command in find_children(self._first_pid):
                os.setpriority(os.PRIO_PROCESS, command, _NICENESS)

    def let_go(self) -> None:
        """Has the command begin."""
        try:
            os.write(self._life.fd, b"go\n")
            os.write(self._gate.fd, b"go\n")
        except BrokenPipeError as exc:
            raise SandboxUnavailable("the sandbox ended before the command began") from exc
        self._gate.close()

    def find_left(self) -> Stopped | None:
        """Returns what a command that has ended took or left too much of, if it did."""
        found = self._growth.find_left()
        if found is None and self._group is not None and self._group.ran_out_of_memory:
            return Stopped.MEMORY
        return found

    def listen(self, hear: Hear, until: float, is_wanted: Callable[[], bool]) -> Stopped | None:
        """Hands on what it says until it ends; ends it when it takes too much, and says of what."""
        processes = Processes(self._first_pid, self._order.allowance)

        def look() -> Stopped | None:
            found = processes.find_excess() or self._growth.find_excess()
            return found or (None if is_wanted() else Stopped.CALLER)

        found = self._hear_out(hear, until, look) or self._outlast(until, look)
        if found is not None:
            self._kill()
        return found

    def _hear_out(
        self, hear: Hear, until: float, look: Callable[[], Stopped | None]
    ) -> Stopped | None:
        """Hands on what it says until it says no more; returns what there is too much of."""
        left, look_at = self._order.allowance.output_bytes, time.monotonic() + LOOK_S
        with selectors.DefaultSelector() as waiting:
            for fd in self._streams:
                waiting.register(fd, selectors.EVENT_READ)
            while waiting.get_map():
                for key, _ in waiting.select(max(0.0, min(look_at, until) - time.monotonic())):
                    said = os.read(key.fd, _READ_BYTES)
                    if not said:
                        waiting.unregister(key.fd)
                        continue
                    hear(self._streams[key.fd], said[:left])
                    if len(said) > left:
                        return Stopped.OUTPUT
                    left -= len(said)
                now = time.monotonic()
                if now >= until:
                    return Stopped.TIME
                if now >= look_at:
                    if (found := look()) is not None:
                        return found
                    look_at = now + LOOK_S
        return None

    def _outlast(self, until: float, look: Callable[[], Stopped | None]) -> Stopped | None:
        """Waits for a command that has closed what it says; the same bounds hold."""
        while True:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LOOK_S)
                return None
            found = look() or (Stopped.TIME if time.monotonic() >= until else None)
            if found is not None:
                return found

    def end(self) -> int:
        """Returns the exit code once nothing of it runs any more."""
        code = self._process.wait()
        self._wait_for_first()
        return code

    def _kill(self) -> None:
        """Ends all of it, and waits until it is over."""
        if self._first is None:
            self._give_up()
            return
        with suppress(OSError):
            signal.pidfd_send_signal(self._first, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._wait_for_first()

    def _give_up(self) -> None:
        """Waits for a sandbox to end in which nothing has begun: nobody will tell it to."""
        self._gate.close()
        self._life.close()
        try:
            self._process.wait(_START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_for_first(self) -> None:
        """Waits for the first process of the namespace: it ends when all others have."""
        if self._first is None:
            return
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._first, selectors.EVENT_READ)
            waiting.select()

    def _close_first(self) -> None:
        if self._first is not None:
            os.close(self._first)
            self._first = None

    def _has_said(self) -> bool:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._err, selectors.EVENT_READ)
            return bool(waiting.select(0))


def _become(tools: Tools, order: Order) -> Become | None:
    user = find_user(order.number)
    if user is None:
        return None
    if tools.setpriv is None:
        raise SandboxUnavailable("this process was not root's when it looked for a sandbox")
    return Become(tools.setpriv, user)


def _growth(order: Order) -> Growth:
    return Growth(order.folder, order.allowance, size=order.folder_bytes, files=order.folder_files)


def _start(
    life: int, line: Sequence[str], *, streams: tuple[int, int, int], passed: Sequence[int]
) -> "subprocess.Popen[bytes]":
    """Starts the keeper, which starts bubblewrap."""
    stdin, stdout, stderr = streams
    return subprocess.Popen(  # noqa: S603 - in the sandbox, and nowhere else
        ["/bin/bash", "-c", _KEEPER, "keeper", str(life), *line],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=passed,
        env={},
        cwd="/",
        start_new_session=True,
    )


def _limits(allowance: Allowance) -> Sequence[int]:
    return (
        allowance.memory_bytes // _KIBIBYTE,
        allowance.disk_bytes // _KIBIBYTE,
        allowance.open_files,
        allowance.processes,
    )


class _Fd:
    """A descriptor that is closed once."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@contextmanager
def _pipe() -> Generator[tuple[_Fd, _Fd]]:
    out, in_ = map(_Fd, os.pipe())
    try:
        yield out, in_
    finally:
        out.close()
        in_.close()


@contextmanager
def _file(content: bytes | None = None) -> Generator[_Fd]:
    """Lends a file without a name, from whose beginning something can be read.

    What has a content keeps it: whoever could write to it had memory that is counted nowhere.
    """
    file = _Fd(os.memfd_create("holdfast-sandbox", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
    try:
        view = memoryview(content or b"")
        while view:
            view = view[os.write(file.fd, view) :]
        os.lseek(file.fd, 0, os.SEEK_SET)
        if content is not None:
            fcntl.fcntl(file.fd, fcntl.F_ADD_SEALS, _SEALED)
        yield file
    finally:
        file.close()
