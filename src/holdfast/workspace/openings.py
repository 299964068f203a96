"""Says which known files of a watched directory somebody may have open for writing.

Who has mapped a file writes to memory, and the kernel tells nobody. But a file is opened before it
is mapped, which is told (`watching.py`), and while it is mapped a lease is refused (`resting.py`).
So a file that was opened, by whomever, is *in question*: it is looked at each time, as if something
had happened to it, until a lease was granted. The argument, with the moments in their order:

    opening it here <= listening <= lease <= its state is compared

1. At the lease nobody had it open for writing. Whoever wrote before has left, and what they wrote
   is stamped: the state that is compared afterwards shows it.
2. Whoever opens it later is heard later. The kernel drops an event that equals the one before it in
   the queue; so ours is taken out before the lease, and can hide nobody's.

Files in folders that were not listened to before are in question as well: all of them, when the
watch begins, whenever the queue was too short, and after a folder was away.

What is in question costs a look at its state. Asking costs some microseconds for each file, and is
done for some of them at a time: a program that reads everything makes the next looks as slow as
without a watch, not slower. Where nobody says who writes (an overlay, a network, files of others),
what was opened stays in question until it is read; what is mapped from before that, or from before
the watch began, is not seen there.

Where a mapping may be written without a stamp (tmpfs), 1 fails. There all is asked at once, and a
file that somebody could write to, or has closed after writing, is to be read again.
"""

import errno
import os
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from holdfast.workspace.descent import Descent
from holdfast.workspace.reading import OPEN_FILE
from holdfast.workspace.resting import Rest, Resting
from holdfast.workspace.statindex import StatIndex
from holdfast.workspace.steps import above, split_key

ASKED: Final = 500
"""Files that are asked about in one go: some milliseconds."""

_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES})

_TOGETHER: Final = 256
"""Files that are open at once, so that the queue is emptied once for all of them."""


class Watching(Protocol):
    """Who hears what happens in a directory (`holdfast.workspace.watching`)."""

    opened: dict[bytes, int]
    """Files that were opened, with the number of the listening that heard of it."""
    unheard: dict[bytes, int]
    """Folders, with the number of the listening before which nothing was heard there."""
    closed: set[bytes]
    """Files that were closed by somebody who could write to them."""

    def listen(self) -> int:
        """Takes in what has happened up to now; returns a number that grows with each call."""
        ...

    def take(self) -> frozenset[bytes] | None:
        """Returns folders in which something has happened; None if it cannot say."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Waits until something happens; says whether it did."""
        ...

    def close(self) -> None:
        """Lets go of the directory."""
        ...


class Asked(NamedTuple):
    """What came of asking."""

    folders: frozenset[bytes]
    """Where to look, since nothing may be in question there any more."""
    doubtful: frozenset[bytes]
    """Files whose state proves nothing: they have to be read."""
    is_worth_more: bool
    """Not all that is in question was asked about, and some of what was is so no more."""


class Openings:
    """What is in question in a watched directory, for one thread at a time; others may listen."""

    def __init__(self, watcher: Watching) -> None:
        self._watcher = watcher
        self._resting = Resting()

    def listen(self) -> int:
        """Takes in what was opened up to now; returns a number that grows with each call."""
        return self._watcher.listen()

    def find_folders(self) -> frozenset[bytes] | None:
        """Returns the folders with something in question; None for any."""
        if self._watcher.unheard:
            return None
        return frozenset(map(above, [*self._watcher.opened]))

    def ask(self, root_fd: int, index: StatIndex) -> Asked:
        """Asks about some of the files in question: those at rest are so no more."""
        known = self._resting.about(root_fd, os.fstat(root_fd).st_dev)
        if not known.sees_all:
            self._watcher.unheard.clear()
        limit = ASKED if known.stamps_all or not known.sees_all else None
        self.listen()
        self._take_unheard(index, limit)
        keys = [*self._watcher.opened][:limit]
        before = len(self._watcher.opened)
        is_all = not self._watcher.unheard and len(keys) == before
        asked, doubtful = self._known_files(sorted(keys), index), set[bytes]()
        with Descent(root_fd) as descent:
            for start in range(0, len(asked), _TOGETHER):
                doubtful |= self._ask(asked[start : start + _TOGETHER], descent)
        closed = self._watcher.closed
        if known.sees_all and not known.stamps_all:
            doubtful |= closed
        closed.clear()
        return Asked(
            folders=frozenset(map(above, asked)),
            doubtful=_with_twins(doubtful, index),
            is_worth_more=not is_all and len(self._watcher.opened) < before,
        )

    def settle(self, key: bytes, heard: int) -> None:
        """Takes in that nobody could write to a file after so much had been heard."""
        opened = self._watcher.opened
        if opened.get(key, heard + 1) <= heard:
            del opened[key]

    def settle_all(self, heard: int) -> None:
        """Takes in that everything was read after so much had been heard."""
        unheard = self._watcher.unheard
        for path in [path for path, at in [*unheard.items()] if at <= heard]:
            del unheard[path]

    def _take_unheard(self, index: StatIndex, limit: int | None) -> None:
        """Puts the files of folders that were not listened to in question, as many as are asked."""
        opened, unheard = self._watcher.opened, self._watcher.unheard
        taken = 0
        while unheard and (limit is None or taken < limit):
            path, heard = unheard.popitem()
            names = index.find_files(path)
            taken += len(names)
            for name in names:
                opened.setdefault(_join(path, name), heard)

    def _known_files(self, keys: Iterable[bytes], index: StatIndex) -> list[bytes]:
        """Returns those that are known; others are read before they are believed."""
        asked, folder, names = list[bytes](), None, frozenset[bytes]()
        for key in keys:
            path, name = split_key(key)
            if path != folder:
                folder, names = path, index.find_files(path)
            if name in names:
                asked.append(key)
            else:
                del self._watcher.opened[key]
        return asked

    def _ask(self, keys: list[bytes], descent: Descent) -> set[bytes]:
        """Asks about files that are open together; returns those that have to be read."""
        opened, doubtful = self._watcher.opened, set[bytes]()
        files = list[tuple[bytes, int]]()
        try:
            for key in keys:
                path, name = split_key(key)
                try:
                    fd = os.open(name, OPEN_FILE, dir_fd=descent.open(path))
                except OSError as exc:
                    if exc.errno in _NOT_THERE:
                        del opened[key]  # gone, or not for us: looking there says so
                    else:
                        opened[key] = opened.pop(key)
                else:
                    files.append((key, fd))
            heard = self.listen()
            for key, fd in files:
                device = os.fstat(fd).st_dev
                rest = self._resting.ask(fd, device)
                if rest is Rest.PROVEN:
                    self.settle(key, heard)
                    continue
                opened[key] = opened.pop(key)  # at the end: it is the others' turn
                if rest is Rest.REFUSED and not self._resting.about(fd, device).stamps_all:
                    doubtful.add(key)
        finally:
            for _, fd in files:
                os.close(fd)
        return doubtful


def _with_twins(keys: set[bytes], index: StatIndex) -> frozenset[bytes]:
    """Adds the other names of files: read without those, one would look like the only."""
    known = map(index.find, {above(key) for key in keys})
    same = {
        (row.dev, row.ino)
        for folder in filter(None, known)
        for row in folder.rows
        if row.nlink > 1 and _join(folder.path, row.name) in keys
    }
    if not same:
        return frozenset(keys)
    return frozenset(keys).union(
        _join(folder.path, row.name)
        for folder in index.iter_folders()
        for row in folder.rows
        if (row.dev, row.ino) in same
    )


def _join(path: bytes, name: bytes) -> bytes:
    return path + b"/" + name if path else name
