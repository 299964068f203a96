"""What a restore is about to do to a directory, on disk before it is done.

A restore of a directory is many system calls. The journal says, from before the first until
after the last, that one is under way; whoever opens the directory next and finds it brings the
directory back to what the catalog says. It has two states for a restore:

- `applying`: files are being changed. If the process dies, the directory is a mixture.
- `applied`: all is done, and perhaps still in the kernel's memory alone. As long as the machine
  has not been restarted since, that memory is what everybody reads; the journal is removed once
  the kernel has had time to write. After a power cut it says: look again, every byte.

And two for what is brought into the directory since somebody wrote it through the namespace, for
which the catalog has moved already: `bringing` and `brought`.

So nothing has to be synced file by file, which for 50,000 files would take a minute.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.ownfiles import read_small, sync_folder

SETTLED_S: Final = 120.0
"""By then Linux has written what was dirty: it does so after 30 s, and file systems commit
after 5 more."""

BLOCK_BYTES: Final = 4096
MOST_MARKED: Final = 250
"""Paths that a block has room for, 12 bytes for each."""

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


_ANY: Final = rb"\.holdfast-[0-9a-f]{16}"
_END: Final = rb"(?:-back)?-[0-9]+\.tmp"
_LITTER: Final = re.compile(_ANY + _END)

A_LEFTOVER: Final = "a temporary file of a restore"
"""Why such a file is left out of a snapshot."""


def litter_of(mark: str) -> str:
    """Returns how the temporary files of a restore begin, which is that snapshot's doing."""
    return f".holdfast-{hashlib.blake2b(mark.encode(), digest_size=8).hexdigest()}"


def is_litter(name: bytes) -> bool:
    """Says whether a name is that of a temporary file of ours: no snapshot holds one."""
    return name.startswith(b".holdfast-") and _LITTER.fullmatch(name) is not None


def litter_pattern(record: "Record") -> re.Pattern[bytes]:
    """Returns what the names of an interrupted restore's temporary files look like.

    Those of others too, which could not be removed when they were interrupted.
    """
    begin = b"(?:" + re.escape(record.litter.encode()) + b"|" + _ANY + b")"
    return re.compile((begin if record.litter else _ANY) + _END)


class Record(NamedTuple):
    """What the journal says."""

    state: str
    litter: str
    """How the names of temporary files begin; empty if that is not known."""
    back: str
    """The snapshot that the directory was, and goes back to; where something is brought into it,
    the files map that it was."""
    mark: str
    """The snapshot that it will be on the timeline: if it is there, so is all of the restore."""
    at: float
    boot: str
    goal: str = ""
    """The files map that it leads to, or takes some files from; empty if that is not known. Where
    something is brought, what the namespace's files were when the directory last took them in."""

    left: Sequence[str] = ()
    """Where something is brought, marks of paths that were changed in the directory as well, and
    that nobody was to touch."""
    stood: str = ""
    """The snapshot with which the directory was last captured, or led, before a restore of it;
    empty if there was none, or that is not known."""

    @property
    def is_cut(self) -> bool:
        """Whether there may have been more of those than the block has room for."""
        return len(self.left) >= MOST_MARKED

    @property
    def is_of_restore(self) -> bool:
        """Whether it tells of a restore: else, of what was brought into the directory."""
        return self.state in ("applying", "applied")


class Journal:
    """The journal of one directory; its lock is held by whoever uses it.

    One file of one block, written in place: what a torn write leaves cannot be read, and then
    the directory is looked at, which is always right.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self) -> Record | None:
        """Returns what it says; None if nothing is under way."""
        try:
            data = read_small(self._path).strip()
        except FileNotFoundError:
            return None
        if not data:
            return None
        try:
            fields = json.loads(data)
            return Record(**fields)
        except (ValueError, KeyError, TypeError):
            return Record("applying", "", "", "", 0.0, "")

    def begin(self, *, litter: str, back: str, mark: str, goal: str = "", stood: str = "") -> None:
        """Says that the directory is about to change; durable when it returns."""
        self._begin(Record("applying", litter, back, mark, 0.0, boot_id(), goal, stood=stood))

    def begin_bringing(self, *, litter: str, base: str, agreed: str, left: Sequence[bytes]) -> None:
        """Says that something is about to be brought in; durable when it returns.

        `left` are paths that are not touched: as many are marked as the block has room for.
        """
        marks = [mark_of(key) for key in left[:MOST_MARKED]]
        self._begin(Record("bringing", litter, base, "", 0.0, boot_id(), agreed, marks))

    def applied(self) -> None:
        """Says that all is done."""
        record = self.find()
        if record is not None:
            state = "applied" if record.is_of_restore else "brought"
            done = record._replace(state=state, at=time.time())
            self._write(json.dumps(done._asdict()), durable=False)

    def clear(self) -> None:
        """Forgets what was under way."""
        self._write("", durable=False)

    def _begin(self, record: Record) -> None:
        try:
            self._make_way(record)
            self._write(json.dumps(record._replace(at=time.time())._asdict()), durable=True)
        except OSError:
            # Nothing was touched yet, whatever it says now.
            with suppress(OSError):
                self.clear()
            raise

    def _make_way(self, new: Record) -> None:
        """Has the kernel write all that a record of the other kind watches over, if it has not."""
        old = self.find()
        if old is not None and old.is_of_restore != new.is_of_restore and not is_settled(old):
            os.sync()

    def _write(self, text: str, *, durable: bool) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        is_new = durable and not self._path.exists()
        fd = os.open(self._path, flags, 0o600)
        try:
            os.pwrite(fd, text.encode().ljust(BLOCK_BYTES), 0)
            if durable:
                # macOS has the one that also writes the file's times.
                getattr(os, "fdatasync", os.fsync)(fd)
        finally:
            os.close(fd)
        if is_new:
            sync_folder(self._path.parent)


def mark_of(key: bytes) -> str:
    """Returns what stands for a path in the journal."""
    return hashlib.blake2b(key, digest_size=4).hexdigest()


def boot_id() -> str:
    """Returns what is another one after each restart; empty where the system does not say."""
    try:
        return read_small(_BOOT_ID).decode("ascii").strip()
    except OSError:
        return ""


def was_restarted(record: Record) -> bool:
    """Says whether the machine has been restarted since, or may have been."""
    return not record.boot or record.boot != boot_id()


def is_settled(record: Record) -> bool:
    """Says whether the kernel has had time to write what was done."""
    return record.state in ("applied", "brought") and time.time() - record.at > SETTLED_S
