"""Leaves a process behind when a command is done: `staying` says what it promises.

Whoever typed the command waits until this is over, so nothing is loaded here that is not there
already, and all that it costs is a fork.
"""

import fcntl
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from holdfast.cli import thin
from holdfast.cli.confinement import is_confined
from holdfast.settings import CATALOG_NAME, find_location, find_runtime_directory, is_url, stay_s

LEAVING: Final = frozenset((*thin.HOT, thin.HOOK, "init", "run"))
"""Commands after which more are likely to come."""


def leave_behind(argv: list[str], environ: Mapping[str, str]) -> None:
    """Leaves a process behind that answers the next commands, where that is wanted.

    To be called last: it is a copy of this process, and whatever is open here is closed there.
    """
    idle_s = stay_s(environ)
    command, directory, data = thin.read_command_line(argv)
    if command not in LEAVING or not idle_s or not _makes_sense():
        return
    session = find_runtime_directory(environ, makes=True)
    if session is None:
        return
    with suppress(OSError):
        here = os.path.realpath(os.path.expanduser(directory) or os.getcwd())
        location = find_location(environ, here, named=data)
        if is_url(location) or os.stat(location).st_uid != os.geteuid():
            return  # What root makes in a vault, its owner could neither use nor remove.
        found = os.stat(os.path.join(location, CATALOG_NAME))
        catalog = (found.st_dev, found.st_ino)
        lock = f"{thin.left_folder(session)}/{thin.name_of(location)}.lock"
        if _is_free(lock) and not os.fork():
            try:
                _let_go()
                from holdfast.cli.staying import stay  # noqa: PLC0415 - nobody waits for it any more

                stay(location, catalog=catalog, idle_s=idle_s, session=session)
            finally:
                # Not as others end: whatever the command had planned for its end is not ours to do.
                os._exit(0)


def _makes_sense() -> bool:
    """Says whether a process can be left behind: not by several threads, nor to nobody.

    What PID 1 has started ends with it: a container's command, a service. To be PID 1 is to end
    the whole container. And whoever is held back, or reads names in another encoding, would leave
    one that does, for all the others.
    """
    if sys.platform != "linux" or threading.active_count() > 1 or 1 in (os.getpid(), os.getppid()):
        return False
    return sys.getfilesystemencoding() == thin.ENCODING and not is_confined()


def _let_go() -> None:
    """Leaves the terminal, and closes what was inherited.

    Somebody may wait for a pipe, or want to unmount a disk, while all the rest is being loaded.
    """
    os.setsid()
    os.chdir("/")
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/proc/self/fd"):
        # Not closed but replaced: an object that closes its number later closes nothing of ours.
        with suppress(OSError):  # That of this listing.
            os.fstat(int(name))
            os.dup2(nowhere, int(name), inheritable=False)


def _is_free(lock: str) -> bool:
    """Says whether nobody holds a lock, or nobody ever has."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
