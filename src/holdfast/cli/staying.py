"""The process that a command leaves behind, so that the next one is answered in milliseconds.

When a command has done its work and said so, nothing is left to load: a copy of it stays, which
answers for every directory of the same vault. `leave_behind` makes it, and lets go of whatever it
has inherited (`leaving`); `_Staying` is its loop. Who watches a directory because somebody asked
for it is `watch`.

What it promises to who has not asked for it:

1. Its answers are those of a process of one's own: it looks at everything each time, as that does,
   and has no watcher that a change could escape. Whoever is not its equal (`confinement`) is not
   answered.
2. It holds nothing that anybody waits for: no pipe, no terminal, and neither a vault nor a
   directory for longer than a moment after a command. One that comes later opens them anew, and
   meets whatever was damaged, replaced or removed meanwhile. Its socket, its lock and its log are
   in the user's runtime directory.
3. It takes bounded memory, and ends by itself: when idle, with its vault, when its code was
   replaced, when the user has logged out (where the system has a directory for that long), or when
   it is asked to (`holdfast watch --stop`).
4. It is never there in CI, below PID 1, for who works as another user, without a directory of the
   user's alone, or where `HOLDFAST_STAY` says no, and never has the limits of a sandbox.

Whatever goes wrong with it, commands do their work themselves.
"""

import gc
import logging
import os
import select
import signal
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import holdfast
from holdfast.cli import thin
from holdfast.cli.exits import DONE
from holdfast.cli.installed import client_stamp
from holdfast.cli.owncode import OwnCode
from holdfast.cli.resident import Answer, Door, OneVault, Request, answer_with
from holdfast.cli.watch import end_signals
from holdfast.errors import Busy, HoldfastError
from holdfast.ownfiles import read_small
from holdfast.settings import CATALOG_NAME

logger = logging.getLogger(__name__)

POLL_S: Final = 5.0
"""How often it looks whether its vault, its code and its user's session are still there, beside
before each command."""

MOST_DIRECTORIES: Final = 4
"""Which are kept open, with the index of their files in memory."""

LEISURE_S: Final = 2.0
"""How long a vault is: agents send several commands in a row. After that, somebody may want to
unmount the disk that it is on, or to know whether it is sound."""

MOST_BYTES: Final = 512 << 20
"""Of memory: who has more after a command, be it the one that left it, makes room for a new one."""

GARBAGE: Final = 700
"""Objects until the next look for cycles: what Python itself has, and a command's start has not."""

LONGEST_LOG: Final = 1 << 20


def stay(location: str, *, catalog: tuple[int, int], idle_s: float, session: str) -> None:
    """Is the process that was left behind, until its end.

    `catalog` is the file that the command had open, by device and inode: of no other vault.
    """
    try:
        if _memory_bytes() <= MOST_BYTES:
            _settle()
            # Before anything is made: who is ended meanwhile leaves no socket.
            with end_signals() as signals:
                _Staying(location, catalog=catalog, idle_s=idle_s, session=session).run(signals)
    except (Busy, FileNotFoundError):
        pass  # Somebody else was faster, or the vault is gone.
    except Exception:
        logger.exception("the process that was left behind ends")


def _settle() -> None:
    """Takes back what the command had set up for itself: its start, and how it may be ended."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    gc.collect()
    gc.freeze()  # What was loaded stays; looks at the rest are cheap, and are as usual again.
    gc.set_threshold(GARBAGE)


def _inode_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class _Kept(NamedTuple):
    """A directory that is kept open, and which one it is."""

    workspace: "holdfast.Workspace"
    namespace: str
    inode: tuple[int, int]


class KeptVault(OneVault):
    """One vault, and those of its directories that were last used, open until it is let go of."""

    def __init__(self, location: str) -> None:
        super().__init__(location, "/")
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    @property
    def is_open(self) -> bool:
        """Says whether anything is held."""
        return bool(self._opened)

    def find_workspace(self, location: str, directory: str, /) -> "holdfast.Workspace | None":
        """Returns the attached directory that is, or holds, this one; None if there is none."""
        # Found anew each time: it may have been moved, swapped, detached or attached elsewhere.
        found = super().find_workspace(location, directory)
        if found is None:
            return None
        path, inode = str(found.path), _inode_of(str(found.path))
        kept = self._kept.get(path)
        if inode is None or found.moved_from is not None or found.is_half_way:
            # Of these, a process of one's own says something that the next one does not repeat.
            self._close(path)
            return found
        if kept is None or (kept.namespace, kept.inode) != (found.namespace.name, inode):
            self._close(path)
            self._workspaces.remove(found)
            self._kept[path] = kept = _Kept(found, found.namespace.name, inode)
        self._kept.move_to_end(path)
        return kept.workspace

    def release(self) -> None:
        """Closes what one command has opened for itself, and what was not used for longest."""
        while self._workspaces:
            self._workspaces.pop().close()
        while len(self._kept) > MOST_DIRECTORIES:
            self._close(next(iter(self._kept)))

    def let_go(self) -> None:
        """Closes everything."""
        for path in list(self._kept):
            self._close(path)
        super().release()

    def check_current(self) -> None:
        """Lets go of a vault whose files are others by now."""
        try:
            for vault in self._opened.values():
                vault.check_current()
        except HoldfastError:
            self.let_go()

    def _close(self, path: str) -> None:
        kept = self._kept.pop(path, None)
        if kept is not None:
            with suppress(HoldfastError, OSError):  # What is known is lost: it is read anew.
                kept.workspace.close()


class _Staying:
    """The loop, and what it holds open."""

    def __init__(
        self, location: str, *, catalog: tuple[int, int], idle_s: float, session: str
    ) -> None:
        self._places = {session: _inode_of(session), f"{location}/{CATALOG_NAME}": catalog}
        self._check_there()
        folder = Path(thin.left_folder(session))
        self._door = Door(folder, location, is_vault=True, client=client_stamp())
        try:
            self._door.log_to(2)
            # Whom nobody finds any more is not waited for either.
            self._places[self._door.path] = _inode_of(self._door.path)
            self._check_there()
        except BaseException:
            self._door.close()
            raise
        self._vault = KeptVault(location)
        self._do = _without_paging(answer_with(self._vault))
        self._idle_s = idle_s
        self._since, self._used_at = time.time(), time.monotonic()
        self._code = OwnCode()
        self._has_current_code = self._code.is_current
        self._door.status = self._status

    def run(self, signals: int) -> None:
        """Goes on until there is no more reason to."""
        try:
            while self._step(signals):
                pass
        finally:
            self._door.close()
            self._vault.let_go()

    def _check_there(self) -> None:
        """Raises FileNotFoundError if the catalog or the user's session is another, or gone."""
        for path, inode in self._places.items():
            if inode is None or _inode_of(path) != inode:
                raise FileNotFoundError(path)

    def _step(self, signals: int) -> bool:
        """Waits for the next command and does it; returns False if it is the end."""
        ready = self._wait(signals)
        # Before anybody is greeted: who finds nobody behind the socket does it without us, as does
        # who is told that our code is not what there is now.
        if signals in ready or not self._is_wanted():
            return False
        if time.monotonic() >= self._used_at + LEISURE_S:
            self._vault.let_go()
        if self._door.fileno() not in ready:
            return self._code.is_current()
        # Beside the greeting: it is known before anything is done for whoever asks.
        self._has_current_code = self._code.looking()
        self._vault.check_current()
        goes_on = self._door.serve(self._answer)
        # Whatever was asked for: what the look reads is not replaced before it has ended.
        is_current = self._has_current_code()
        self._code.note()
        if os.fstat(2).st_size > LONGEST_LOG:
            os.ftruncate(2, 0)
        return goes_on and is_current and _memory_bytes() <= MOST_BYTES

    def _answer(self, request: Request) -> int | None:
        if not self._has_current_code():
            return None
        code = self._do(request)
        if code is not None:
            self._used_at = time.monotonic()
        if code != DONE:
            # What it met may be of the disk: the next one opens everything anew.
            self._vault.let_go()
        return code

    def _wait(self, signals: int) -> set[int]:
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        poll.register(self._door.fileno(), select.POLLIN)
        used_s = time.monotonic() - self._used_at
        soon = LEISURE_S - used_s if self._vault.is_open else POLL_S
        # Rounded up: a wait that ends too soon would be repeated until it does not.
        return {fd for fd, _ in poll.poll(max(0.0, min(self._idle_s - used_s, soon)) * 1000 + 1)}

    def _is_wanted(self) -> bool:
        """Says whether it is used, and all that it stands on but its code is as it was."""
        if time.monotonic() >= self._used_at + self._idle_s:
            return False
        try:
            self._check_there()
        except FileNotFoundError:
            return False
        return True

    def _status(self) -> list[str]:
        if not self._has_current_code():
            raise ConnectionError("who asks finds nobody, as after an upgrade")
        idle_s = time.monotonic() - self._used_at
        pairs = {
            "since": f"{self._since:.0f}",
            "ends_in_s": f"{max(0.0, self._idle_s - idle_s):.0f}",
            "memory_bytes": f"{_memory_bytes()}",
        }
        return [f"{word}={value}" for word, value in pairs.items()]


def _without_paging(answer: Answer) -> Answer:
    """Leaves to a process of its own what a pager shows: nobody has asked for us to be there."""
    return lambda request: None if request.is_paged else answer(request)


def _memory_bytes() -> int:
    """Returns how much memory this process has that no file stands for."""
    try:
        _, resident, shared, *_ = map(int, read_small("/proc/self/statm").split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
