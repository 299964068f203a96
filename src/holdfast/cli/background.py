"""`holdfast watch --background` and `--stop`: starts a process that watches, and ends it."""

import _socket
import fcntl
import os
import subprocess
import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.cli import thin
from holdfast.cli.console import Console
from holdfast.cli.escaping import escaped
from holdfast.cli.exits import DONE, NOT_FOUND, Refused

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
    """Asks the process to end that watches a directory, or the nearest above, and waits for it."""
    directory = _watched(folder, here)
    connection = thin.connect(folder, directory)
    try:
        if connection is None:
            raise ConnectionRefusedError
        process = _end(connection, folder, directory)
    except ConnectionError as exc:
        raise Refused(
            f"nobody watches {directory}",
            code="not_watched",
            exit_code=NOT_FOUND,
            hint="`holdfast watch` does. One whose vault was replaced or removed ends by itself.",
        ) from exc
    finally:
        if connection is not None:
            connection.close()
    console.answer(
        document=lambda: {"process": process},
        lines=lambda: [f"Process {process} no longer watches {escaped(directory)}."],
    )
    return DONE


def end_watcher(folder: str, directory: str) -> None:
    """Ends the process that watches a directory, if there is one."""
    connection = thin.connect(folder, directory)
    if connection is not None:
        try:
            _end(connection, folder, directory)
        except ConnectionError:
            pass  # It has ended by itself.
        finally:
            connection.close()


def _end(connection: "_socket.socket", folder: str, directory: str) -> int:
    """Asks for the end, waits for it, and returns which process it was."""
    # It may be in the middle of something, which it finishes first.
    connection.settimeout(STOP_TIMEOUT_S)
    process = int(thin.receive(connection)[4])
    connection.sendall(thin.pack([thin.STOP.encode()]))
    thin.receive(connection)
    _await_lock(Path(folder, f"{thin.name_of(directory)}.lock"))
    return process


def _await_lock(path: Path) -> None:
    """Waits until nobody holds a lock: its holder saves what it knows before it lets go."""
    # Not there: the vault was removed or replaced, and there is nothing to be saved to.
    with suppress(FileNotFoundError), path.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)


def _watched(folder: str, here: str) -> str:
    """Returns the nearest directory from here upwards that somebody watches; here, if none."""
    try:
        names = frozenset(os.listdir(folder))
    except OSError:
        return here
    around = thin.upwards(here)
    return next((each for each in around if f"{thin.name_of(each)}.sock" in names), here)
