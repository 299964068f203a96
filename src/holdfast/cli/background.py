"""`holdfast watch --background`, `--status` and `--stop`: processes that stay, from outside."""

import _socket
import fcntl
import os
import subprocess
import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.cli import thin
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, NOT_FOUND, Refused
from holdfast.cli.views import path_view
from holdfast.cli.words import size
from holdfast.escaping import escaped
from holdfast.instants import from_us, to_text
from holdfast.settings import find_runtime_directory

STOP_TIMEOUT_S: Final = 60.0
"""What it is in the middle of is finished first."""


def start(
    folder: str, directory: str, location: str, arguments: Namespace, console: Console
) -> int:
    """Starts the same in a process of its own, and returns when that is ready."""
    Path(folder).mkdir(mode=0o700, exist_ok=True)
    log = Path(folder, f"{thin.name_of(directory)}.log")
    reading, writing = os.pipe()
    # -P: nothing in the directory that we happen to be in is ever imported.
    command = [sys.executable, "-P", "-m", "holdfast.cli.main", "watch", "-C", directory]
    command += ["--data", location, "--ready-fd", str(writing)]
    command += ["--quiet-for", str(arguments.quiet_for)]
    command += ["--max-interval", str(arguments.max_interval)]
    command += ["--no-snapshots"] * arguments.no_snapshots
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    output = os.open(log, flags, 0o600)
    try:
        child = subprocess.Popen(  # noqa: S603 - it is this program again
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[writing],
            start_new_session=True,
            cwd="/",
        )
    finally:
        os.close(output)
        os.close(writing)
    with os.fdopen(reading, "rb") as ready:
        if not ready.read(1):  # It ended before it was ready, and has said why.
            console.complain(log.read_text("utf-8", "replace").rstrip("\n"))
            return child.wait()
    console.answer(
        document=lambda: {"process": child.pid, "log": str(log)},
        lines=lambda: [
            f"Watching {escaped(directory)} in process {child.pid}.",
            "`holdfast watch --stop` ends it.",
        ],
    )
    child.returncode = 0  # It goes on without us: there is nothing to wait for.
    return DONE


def stop(folder: str, here: str, console: Console) -> int:
    """Asks the process to end that watches a directory, or the nearest above, and waits for it.

    If nobody does, that which a command has left behind.
    """
    directory = find_watched(folder, here)
    name = thin.name_of(directory or console.location())
    if directory is None:
        folder = _left_folder(console)
    connection = thin.connect(folder, name)
    try:
        if connection is None:
            raise ConnectionRefusedError
        process = _end(connection, folder, name)
    except ConnectionError as exc:
        raise Refused(
            f"nobody watches {directory or here}",
            code="not_watched",
            exit_code=NOT_FOUND,
            hint="`holdfast watch` does. One whose vault was replaced or removed ends by itself.",
        ) from exc
    finally:
        if connection is not None:
            connection.close()
    ended = (
        f"Process {process}, which was left behind, has ended."
        if directory is None
        else f"Process {process} no longer watches {escaped(directory)}."
    )
    console.answer(document=lambda: {"process": process}, lines=lambda: [ended])
    return DONE


def show(folder: str, here: str, console: Console) -> int:
    """Says which processes answer commands here: who watches, and who was left behind."""
    directory = find_watched(folder, here)
    watching = None if directory is None else _ask(folder, thin.name_of(directory))
    left = _ask(_left_folder(console), thin.name_of(console.location()))
    console.answer(
        document=lambda: {
            "watching": watching and {"process": watching.process, **path_view(directory or here)},
            "left_behind": left
            and {
                "process": left.process,
                "since": to_text(from_us(int(left.values.get("since", "0")) * 1_000_000)),
                "ends_in_s": int(left.values.get("ends_in_s", "0")),
                "memory_bytes": int(left.values.get("memory_bytes", "0")),
            },
        },
        lines=lambda: [
            f"Process {watching.process} watches {escaped(directory or here)}."
            if watching
            else f"Nobody watches {escaped(directory or here)}.",
            *(_lines_of(left) if left else ["No command has left a process behind."]),
        ],
    )
    return DONE


def _left_folder(console: Console) -> str:
    """Returns where the sockets are of processes that this user's commands have left behind."""
    return thin.left_folder(find_runtime_directory(console.environ) or "")


class _Told(NamedTuple):
    """What a process that stays says of itself."""

    process: int
    values: dict[str, str]


def _ask(folder: str, name: str) -> _Told | None:
    """Asks a process what it is; None if there is none, or it has no time."""
    connection = thin.connect(folder, name)
    if connection is None:
        return None
    try:
        process = int(thin.receive(connection)[4])
        connection.sendall(thin.pack([thin.STATUS.encode()]))
        pairs = [each.decode().partition("=") for each in thin.receive(connection)]
    except (OSError, ValueError, IndexError):
        return None
    finally:
        connection.close()
    return _Told(process, {word: value for word, _, value in pairs})


def _lines_of(told: _Told) -> list[str]:
    memory = size(int(told.values.get("memory_bytes", "0")))
    ends_in = told.values.get("ends_in_s", "?")
    return [
        f"Process {told.process} was left behind, and answers for all directories of this vault.",
        f"  It has {memory} of memory, and ends after {ends_in} s without a command.",
    ]


def end_watcher(folder: str, directory: str) -> None:
    """Ends the process that watches a directory, if there is one."""
    name = thin.name_of(directory)
    connection = thin.connect(folder, name)
    if connection is not None:
        try:
            _end(connection, folder, name)
        except ConnectionError:
            pass  # It has ended by itself.
        finally:
            connection.close()


def _end(connection: "_socket.socket", folder: str, name: str) -> int:
    """Asks for the end, waits for it, and returns which process it was."""
    # It may be in the middle of something, which it finishes first.
    connection.settimeout(STOP_TIMEOUT_S)
    process = int(thin.receive(connection)[4])
    connection.sendall(thin.pack([thin.STOP.encode()]))
    thin.receive(connection)
    _await_lock(Path(folder, f"{name}.lock"))
    return process


def _await_lock(path: Path) -> None:
    """Waits until nobody holds a lock: its holder saves what it knows before it lets go."""
    # Not there: the vault was removed or replaced, and there is nothing to be saved to.
    with suppress(FileNotFoundError), path.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)


def find_watched(folder: str, here: str) -> str | None:
    """Returns the nearest directory from here upwards that somebody watches."""
    try:
        names = frozenset(os.listdir(folder))
    except OSError:
        return None
    around = thin.upwards(here)
    return next((each for each in around if f"{thin.name_of(each)}.sock" in names), None)
