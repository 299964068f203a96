"""The server's side of `thin`: one socket, and answers to the commands that come through it.

Commands run one after the other, in the thread that also takes snapshots: `serve` is called
when the socket has somebody waiting. They run as `app.run` runs them anywhere, with a console
that is the client's in all but name, and with vaults that are open already.

Only this user's processes are listened to: the folder is 0700, the socket 0600, and the kernel
is asked who is on the other side, and on Linux whether it may do the same (`confinement`). What
they send is checked field by field all the same, and a request that goes wrong ends alone:
snapshots are taken as before. One process holds the lock of a directory, or that of the whole
vault, for as long as it lives; a socket that a dead one left behind is replaced.
"""

import fcntl
import io
import logging
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, redirect_stderr, suppress
from pathlib import Path
from typing import Final, cast

import holdfast
from holdfast.cli import thin
from holdfast.cli.app import run
from holdfast.cli.confinement import is_alike
from holdfast.cli.console import Console
from holdfast.cli.exits import FAILED, Refused
from holdfast.cli.vaults import FindObjects, OwnVaults, Vaults
from holdfast.errors import Busy, Unavailable
from holdfast.escaping import RAW
from holdfast.settings import find_pager, process_environ, use_time_zone

logger = logging.getLogger(__name__)

REQUEST_TIMEOUT_S: Final = 1.0
"""A client sends all of it at once. Everybody else waits while this one is waited for."""

ANSWER_TIMEOUT_S: Final = 10.0
"""A client that was stopped does not hold up the others for longer."""

LONGEST_REQUEST: Final = 1 << 20
_BACKLOG: Final = 64
_WIDEST: Final = 10_000
"""Columns of a terminal: far more than there are, and few enough to be filled."""
_PAGED: Final = frozenset(("diff", "log"))
"""Commands whose answers go through a pager, on a terminal."""
_PEER: Final = struct.Struct("3i")  # pid, uid, gid


class Door:
    """A lock and a socket: those of a directory, or of a vault with all that are attached."""

    def __init__(
        self, folder: Path, place: str, *, is_vault: bool = False, client: bytes = b""
    ) -> None:
        """Takes the lock and opens the socket; raises `Busy` if somebody else has them.

        `client` is what a client in C knows us by.
        """
        self._place, self._client = place, client
        self._greeting = thin.greeting_of_all if is_vault else thin.greeting
        self.status: Callable[[], list[str]] = list
        """What is said of the process to who asks: pairs of a word and its value."""
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        if not thin.is_ours(str(folder)):
            message = f"{folder} belongs to somebody else"
            raise Unavailable(message)
        folder.chmod(0o700)
        self._folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        name = thin.name_of(place)
        try:
            self._lock_fd = _lock(folder / f"{name}.lock", place)
        except Busy:
            os.close(self._folder_fd)
            raise
        self._name = f"{name}.sock"
        self._listener = self._listen(name)

    def _listen(self, name: str) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        address = thin.address_of(str(self._folder), self._folder_fd, name)
        with suppress(FileNotFoundError):
            os.unlink(self._name, dir_fd=self._folder_fd)
        listener.bind(address)
        self._inode = os.stat(self._name, dir_fd=self._folder_fd).st_ino
        # Nobody can connect before `listen`, and nobody else may enter the folder at all.
        os.chmod(self._name, 0o600, dir_fd=self._folder_fd)
        listener.listen(_BACKLOG)
        listener.settimeout(0)
        return listener

    def log_to(self, number: int) -> None:
        """Makes a descriptor that of a new file beside the socket."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        name = self._name.replace(".sock", ".log")
        log = os.open(name, flags, 0o600, dir_fd=self._folder_fd)
        os.dup2(log, number, inheritable=False)
        os.close(log)

    @property
    def path(self) -> str:
        """Where others find the socket."""
        return str(self._folder / self._name)

    def fileno(self) -> int:
        """Returns a descriptor that is readable while somebody waits."""
        return self._listener.fileno()

    def serve(self, answer: "Answer") -> bool:
        """Lets one client's command be answered; returns False if it asked for the end."""
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return True  # It has gone again.
        with connection:
            try:
                return self._converse(connection, answer)
            except OSError:
                return True  # Gone, or too slow: there is nobody to tell.
            except Exception:
                # Who waits finds the connection closed, and does it without us.
                logger.exception("a request failed")
                return True

    def _converse(self, connection: socket.socket, answer: "Answer") -> bool:
        if not _may_ask(connection):
            return True
        connection.settimeout(REQUEST_TIMEOUT_S)
        greeting = [*self._greeting(self._place), b"%d" % os.getpid(), self._client]
        connection.sendall(thin.pack(greeting))
        hurried = cast("socket.socket", _Hurried(connection, REQUEST_TIMEOUT_S))
        fields = thin.receive(hurried, longest=LONGEST_REQUEST)
        connection.settimeout(ANSWER_TIMEOUT_S)
        if fields == [thin.STOP.encode()]:
            connection.sendall(thin.pack([b"exit", b"0", b"", b""]))
            return False
        if fields == [thin.STATUS.encode()]:
            connection.sendall(thin.pack([os.fsencode(each) for each in self.status()]))
            return True
        try:
            request = Request(fields, connection)
        except (ValueError, LookupError):
            connection.sendall(thin.pack([b"no"]))
            return True
        code = answer(request)
        if code is None:
            connection.sendall(thin.pack([b"no"]))
        else:
            request.finish(code)
        return True

    def close(self) -> None:
        """Takes the socket away and lets go of the lock."""
        self._listener.close()
        self._unlink()
        os.close(self._folder_fd)
        os.close(self._lock_fd)

    def _unlink(self) -> None:
        # By descriptor: the vault may have been moved since. And ours alone: somebody may have
        # cleared the folder, and another process be there.
        with suppress(FileNotFoundError):
            if os.stat(self._name, dir_fd=self._folder_fd).st_ino == self._inode:
                os.unlink(self._name, dir_fd=self._folder_fd)


class Request:
    """A command that somebody sent, and the console that they would have had."""

    def __init__(self, fields: list[bytes], connection: socket.socket) -> None:
        if any(b"\0" in field for field in fields):
            raise ValueError("no argument, path or variable holds a NUL")
        terminal, self._cwd, count, *rest = [os.fsdecode(field) for field in fields]
        is_terminal, has_progress, width, self._encoding, mask = terminal.split(" ")
        self._is_terminal = bool(_number(is_terminal, most=1))
        self._has_progress = bool(_number(has_progress, most=1))
        self._width = _number(width, most=_WIDEST)
        self._mask = _number(mask, most=0o777)
        "".encode(self._encoding)  # Raises LookupError where we do not know it.
        if not self._width or not self._cwd.startswith("/"):
            raise ValueError("this is no terminal in a directory")
        variables = _number(count, most=len(rest))
        self._environ: Mapping[str, str] = dict(pair.split("=", 1) for pair in rest[:variables])
        ours = process_environ()
        if any(self._environ.get(name) != ours.get(name) for name in thin.OF_A_PROCESS):
            raise ValueError("libraries would look at another environment")
        if sys.getfilesystemencoding() != thin.ENCODING:
            raise ValueError("names would be read in another encoding")
        self.argv: Final = rest[variables:]
        if thin.read_command_line(self.argv)[0] not in {*thin.HOT, thin.HOOK}:
            raise ValueError("only commands that thin sends are answered")
        self._connection: socket.socket | None = connection
        self._out = io.StringIO()
        self._err = _Err(self._send_err)

    @property
    def is_paged(self) -> bool:
        """Whether a pager shows the answer, which only a process on the same terminal can start."""
        is_long = thin.read_command_line(self.argv)[0] in _PAGED and "--json" not in self.argv
        return is_long and self._is_terminal and find_pager(self._environ) is not None

    def console(self, vaults: Vaults) -> Console:
        """Returns a console that speaks to the client."""
        return Console(
            out=self._out,
            err=self._err,
            is_terminal=self._is_terminal,
            has_progress=self._has_progress,
            width=self._width,
            cwd=self._cwd,
            environ=self._environ,
            vaults=vaults,
        )

    @contextmanager
    def as_caller(self) -> Generator[None]:
        """Is to the system what the client is, as far as a command's work depends on that."""
        before = os.umask(self._mask)
        try:
            use_time_zone(self._environ)
            # What is logged is said to whoever asked: what was damaged, or could not be kept.
            with redirect_stderr(self._err):
                yield
        finally:
            os.umask(before)

    def finish(self, code: int) -> None:
        """Sends what is left to say, and how it ended."""
        texts = (self._out.getvalue(), self._err.getvalue())
        self._send([b"exit", b"%d" % code, *(self._encoded(text) for text in texts)])

    def _send_err(self, text: str) -> None:
        self._send([b"err", self._encoded(text)])

    def _encoded(self, text: str) -> bytes:
        # As `system_console` has it: a name that the encoding lacks is no reason to fail.
        try:
            return text.encode(self._encoding, RAW)
        except UnicodeError:
            # One that takes some texts alone (idna). The command is done: to tell of it is all
            # that is left.
            return text.encode("ascii", RAW)

    def _send(self, fields: list[bytes]) -> None:
        """Sends if somebody is there: a command is finished all the same if not."""
        if self._connection is None:
            return
        try:
            self._connection.sendall(thin.pack(fields))
        except OSError:
            self._connection = None


Answer = Callable[[Request], int | None]
"""Does a command, and returns its exit code; None for what it has not begun, and does not do."""


class _Hurried:
    """A connection on which everything has to have come in some seconds, however it drips."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._until = connection, time.monotonic() + seconds

    def recv(self, size: int) -> bytes:
        """Returns what has come; raises OSError if that takes too long."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv(size)


class _Err(io.StringIO):
    """Collects text, and passes it on at once when it is flushed: a progress bar."""

    def __init__(self, passes_on: Callable[[str], None]) -> None:
        super().__init__()
        self._passes_on = passes_on

    def flush(self) -> None:
        """Passes on what has been written since the last time."""
        text = self.getvalue()
        if text:
            self._passes_on(text)
            self.seek(0)
            self.truncate()


class OneVault(OwnVaults):
    """One vault and no other, for directories below one; opened anew for each command.

    Whatever else a command means may be slow to look at, or never answer; others would wait.
    So it is recognised by its name alone, and left to the process of whoever asks.
    """

    def __init__(self, location: str, directory: str) -> None:
        super().__init__()
        self.location, self._directory = location, directory
        self._is_elsewhere = False

    def admit(
        self, directory: str, find_location: Callable[[], str], find_objects: FindObjects, /
    ) -> None:
        """Raises for what is not below that directory, or means another vault."""
        # Who stays has a vault whose packs lie beside its catalog.
        is_apart = find_objects(self.location) is not None
        if is_apart or os.path.commonpath((directory, self._directory)) != self._directory:
            raise self._refusal()
        self._check(find_location())

    def _check(self, location: str) -> None:
        if location != self.location:
            raise self._refusal()

    def _refusal(self) -> Refused:
        self._is_elsewhere = True
        message = "another vault or directory is meant"
        return Refused(message, code="elsewhere", exit_code=FAILED, hint="")

    def take_elsewhere(self) -> bool:
        """Says whether the last command was not admitted."""
        was, self._is_elsewhere = self._is_elsewhere, False
        return was

    def open(self, location: str, /) -> "holdfast.Holdfast":
        """Opens the vault, or returns it if this command has done so already."""
        self._check(location)
        return super().open(location)


class OpenVault(OneVault):
    """Hands out the vault and the directory that are kept open."""

    def __init__(self, location: str, directory: str, vault: "holdfast.Holdfast") -> None:
        super().__init__(location, directory)
        self._vault = vault
        self.workspace: holdfast.Workspace | None = None
        """The directory that is kept open; its keeper replaces it now and then."""

    def open(self, location: str, /) -> "holdfast.Holdfast":
        """Returns the vault, if it is this one."""
        self._check(location)
        return self._vault

    def find_workspace(self, location: str, directory: str, /) -> "holdfast.Workspace | None":
        """Returns the attached directory that is, or holds, this one; None if there is none."""
        self._check(location)
        if self.workspace is not None:
            # The vault says which one it is: a directory may have been attached inside of
            # ours, or ours to another namespace.
            ours = (self.workspace.path, self.workspace.namespace.name)
            if self._nearest(Path(directory)) == ours:
                return self.workspace
        return super().find_workspace(location, directory)

    def _nearest(self, directory: Path) -> tuple[Path, str] | None:
        attached = {each.path: each.namespace for each in self._vault.workspaces()}
        for folder in (directory, *directory.parents):
            if folder in attached:
                return folder, attached[folder]
        return None


def answer_with(vaults: OneVault) -> Answer:
    """Returns what answers requests from one vault."""

    def answer(request: Request) -> int | None:
        with request.as_caller():
            code = run(request.argv, request.console(vaults))
        return None if vaults.take_elsewhere() else code

    return answer


def _number(text: str, *, most: int) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > most:
        raise ValueError("this is no number, or too large")
    return int(text)


def _lock(path: Path, directory: str) -> int:
    """Returns a descriptor that holds the lock until it is closed, or the process ends."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        message = f"{directory} is being watched already, by process {holder}"
        raise Busy(message) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
    return descriptor


def _may_ask(connection: socket.socket) -> bool:
    """Asks the kernel who connected; where it cannot say, the folder's mode has to do."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    process, uid, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _PEER.size))
    return uid == os.geteuid() and is_alike(process)
