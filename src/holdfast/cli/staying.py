"""The process that a command leaves behind, so that the next one is answered in milliseconds.

When a command has done its work and said so, nothing is left to load: a copy of it stays, which
answers for every directory of the same vault. `leave_behind` makes it, and lets go of whatever it
has inherited (`leaving`); `_Staying` is its loop. Who watches a directory because somebody asked
for it is `watch`.

What it promises to who has not asked for it:

1. Its answers are those of a process of one's own: it looks at everything each time, as that does,
   and has no watcher that a change could escape.
2. It holds nothing that anybody waits for: no pipe, no terminal, and no directory for longer than
   a moment. The vault it does hold.
3. It takes bounded memory, and ends by itself: when idle, with its vault, when its code was
   replaced, when the user has logged out (where the system has a directory for that long), or when
   it is asked to (`holdfast watch --stop`).
4. It is never there in CI, below PID 1, or where `HOLDFAST_STAY` says no, and never has the limits
   of a sandbox.

Whatever goes wrong with it, commands do their work themselves.
"""

import gc
import logging
import os
import select
import signal
import sys
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import holdfast
from holdfast.cli.installed import client_stamp
from holdfast.cli.resident import Answer, Door, OneVault, answer_with
from holdfast.cli.watch import end_signals
from holdfast.errors import Busy, CatalogReplaced, HoldfastError
from holdfast.settings import CATALOG_NAME

logger = logging.getLogger(__name__)

POLL_S: Final = 30.0
"""How often it looks whether its vault, its code and its user's session are still there."""

CODE_S: Final = 1.0
"""How often it looks at its code at most: 250 files take a third of a millisecond."""

MOST_DIRECTORIES: Final = 4
"""Which are kept open, with the index of their files in memory."""

LEISURE_S: Final = 2.0
"""How long they are: after that, somebody may want to unmount the disk that they are on."""

MOST_BYTES: Final = 512 << 20
"""Of memory: who has more after a command, be it the one that left it, makes room for a new one."""

GARBAGE: Final = 700
"""Objects until the next look for cycles: what Python itself has, and a command's start has not."""

LONGEST_LOG: Final = 1 << 20


def stay(location: str, *, catalog: tuple[int, int], idle_s: float, session: str | None) -> None:
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


class _Kept(NamedTuple):
    """A directory that is kept open, and which one it is."""

    workspace: "holdfast.Workspace"
    namespace: str
    inode: tuple[int, int]


class AllDirectories(OneVault):
    """The vault that is kept open, and those of its directories that were last used."""

    def __init__(self, location: str, vault: "holdfast.Holdfast") -> None:
        super().__init__(location, "/", vault)
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._passing: list[holdfast.Workspace] = []

    @property
    def directories(self) -> list[str]:
        """Those that are kept open."""
        return sorted(self._kept)

    def find_workspace(self, location: str, directory: str, /) -> "holdfast.Workspace | None":
        """Returns the attached directory that is, or holds, this one; None if there is none."""
        # Found anew each time: it may have been moved, swapped, detached or attached elsewhere.
        found = self.open(location).find_workspace(directory)
        if found is None:
            return None
        path, inode = str(found.path), _inode_of(found.path)
        kept = self._kept.get(path)
        if inode is None or found.moved_from is not None or found.is_half_way:
            # Of these, a process of one's own says something that the next one does not repeat.
            self._close(path)
            self._passing.append(found)
            return found
        if kept is None or (kept.namespace, kept.inode) != (found.namespace.name, inode):
            self._close(path)
            self._kept[path] = kept = _Kept(found, found.namespace.name, inode)
        self._kept.move_to_end(path)
        return kept.workspace

    def release(self) -> None:
        """Closes what was opened for one command, and what has not been used for longest."""
        super().release()
        while self._passing:
            self._passing.pop().close()
        while len(self._kept) > MOST_DIRECTORIES:
            self._close(next(iter(self._kept)))

    def close(self) -> None:
        """Lets go of every directory."""
        for path in list(self._kept):
            self._close(path)

    def _close(self, path: str) -> None:
        kept = self._kept.pop(path, None)
        if kept is not None:
            with suppress(HoldfastError, OSError):  # What is known is lost: it is read anew.
                kept.workspace.close()


def _inode_of(path: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _check_there(location: str, catalog: tuple[int, int]) -> None:
    """Raises FileNotFoundError if a vault has another catalog by now, or none."""
    path = Path(location, CATALOG_NAME)
    if _inode_of(path) != catalog:
        raise FileNotFoundError(path)


class _Staying:
    """The loop, and what it holds open."""

    def __init__(
        self, location: str, *, catalog: tuple[int, int], idle_s: float, session: str | None
    ) -> None:
        # Each time before something is made there: whoever removes a vault wants to see it gone.
        _check_there(location, catalog)
        self._door = Door(Path(location, "run"), None, client=client_stamp())
        try:
            self._door.log_to(2)
            _check_there(location, catalog)
            self._vault = holdfast.open(location)
            _check_there(location, catalog)
        except BaseException:
            self._door.close()
            raise
        self._vaults = AllDirectories(location, self._vault)
        self._answer = _without_paging(answer_with(self._vaults))
        self._idle_s, self._session = idle_s, session
        self._since, self._used_at = time.time(), time.monotonic()
        self._code = _loaded_code()
        self._code_checked_at = 0.0
        self._door.status = self._status

    def run(self, signals: int) -> None:
        """Goes on until there is no more reason to."""
        try:
            while self._step(signals):
                pass
        finally:
            self._door.close()
            self._vaults.close()
            self._vault.close()

    def _step(self, signals: int) -> bool:
        """Waits for the next command and does it; returns False if it is the end."""
        ready = self._wait(signals)
        # Before anybody is greeted: who finds nobody behind the socket does it without us.
        if signals in ready or not self._is_wanted():
            return False
        if self._door.fileno() not in ready:
            self._vaults.close()
            return True
        goes_on = self._door.serve(self._answer)
        self._used_at = time.monotonic()
        if os.fstat(2).st_size > LONGEST_LOG:
            os.ftruncate(2, 0)
        return goes_on and _memory_bytes() <= MOST_BYTES

    def _wait(self, signals: int) -> set[int]:
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        poll.register(self._door.fileno(), select.POLLIN)
        left = self._used_at + self._idle_s - time.monotonic()
        soon = LEISURE_S if self._vaults.directories else POLL_S
        # Rounded up: a wait that ends too soon would be repeated until it does not.
        return {fd for fd, _ in poll.poll(max(0.0, min(left, soon)) * 1000 + 1)}

    def _is_wanted(self) -> bool:
        """Says whether it is used, and all that it stands on is as it was."""
        now = time.monotonic()
        if now >= self._used_at + self._idle_s:
            return False
        if self._session is not None and not os.path.isdir(self._session):
            return False
        if now >= self._code_checked_at + CODE_S:
            self._code_checked_at = now
            if any(_state_of(path) != state for path, state in self._code.items()):
                return False
        try:
            self._vault.check_current()
        except CatalogReplaced as exc:
            return exc.may_return
        except HoldfastError:
            return True  # If it matters, a command meets it again.
        return True

    def _status(self) -> list[str]:
        idle_s = time.monotonic() - self._used_at
        pairs = {
            "since": f"{self._since:.0f}",
            "ends_in_s": f"{max(0.0, self._idle_s - idle_s):.0f}",
            "memory_bytes": f"{_memory_bytes()}",
        }
        said = [f"{word}={value}" for word, value in pairs.items()]
        return said + [f"directory={path}" for path in self._vaults.directories]


def _without_paging(answer: Answer) -> Answer:
    """Leaves to a process of its own what a pager shows: nobody has asked for us to be there."""
    return lambda request: None if request.is_paged else answer(request)


def _loaded_code() -> dict[str, tuple[int, int] | None]:
    """Returns the files of ours that were loaded, and what they look like."""
    files = (
        getattr(module, "__file__", None)
        for name, module in sys.modules.items()
        if name.partition(".")[0] == "holdfast"
    )
    return {path: _state_of(path) for path in files if path}


def _state_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _memory_bytes() -> int:
    """Returns how much memory this process has that no file stands for."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
