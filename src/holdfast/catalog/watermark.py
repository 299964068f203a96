"""Remembers outside of the catalog how many changes it has acknowledged.

SQLite ends its log at the first frame that does not match its checksum: a flipped bit, or a cut,
takes every later commit with it, and what is left looks like a sound, older catalog. So each
commit counts one up inside (`sqlite_transaction.py`), and after it the count is written here. At
the next opening the catalog has to have come as far as this says.

1. Written after the commit, never synced. A kill -9 keeps it; a power cut may leave an older
   one, which asks for less: no alarm is false, whatever the disk wrote first.
2. Written while the writers' lock is held: counts never go back.
3. It names the file that it speaks of, by inode. In a copy of the vault, or beside a catalog
   that was brought back from one, it says nothing.
4. It is written before the commit, too: which count is under way. Where that is not the one that
   was acknowledged last, a writer was killed, and nobody can say by this how far the catalog came.
   A commit whose count takes the place of the last one need not say so: where that stood, it does
   not stand any more.

A loss that was found is kept in a file beside, until somebody says that it is known, and so is
the log as it was found: the next checkpoint drops what SQLite does not read of it. Why it is done
this way is in `docs/adr/0023-a-count-outside-of-the-log.md`.
"""

import filecmp
import json
import os
import shutil
import struct
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from holdfast.model.upkeep import Loss
from holdfast.ownfiles import create, sync_folder

_RECORD: Final = struct.Struct("<8sQQQq")
"""What it is, of which file; the counts that were acknowledged and begun, and where the first of
them stands in the catalog."""
_NOWHERE: Final = -1
_MAGIC: Final = b"holdfast"
_CHECKED: Final = struct.Struct("<I")
_BYTES: Final = _RECORD.size + _CHECKED.size
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_KEPT_LOGS: Final = 4
"""How many damaged logs are kept, the newest: each is evidence, and takes a few megabytes."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """How many changes were acknowledged, and when the last was."""

    count: int
    last_at: datetime

    def missing_from(self, count: int) -> Loss | None:
        """Returns what is missing from a catalog that has come so far; None if nothing is."""
        missing = self.count - count
        return Loss(missing=missing, last_at=self.last_at) if missing > 0 else None


class Watermark:
    """The count of one catalog, and what was found missing."""

    def __init__(self, catalog: Path) -> None:
        self._catalog = catalog
        self._path = catalog.with_name("catalog.mark")
        self._loss_path = catalog.with_name("catalog.loss")
        self._log_path = catalog.with_name(f"{catalog.name}-wal")
        self._fd: int | None = None
        self._inode = 0
        self._reached: int | None = None
        self._written = (0, _NOWHERE)
        self._stands = _NOWHERE
        """Where the count stands that the mark says is the last, and nothing is under way."""

    def is_behind(self, count: int) -> bool:
        """Says whether a catalog has come less far than this process has seen it come."""
        return self._reached is not None and self._reached > count

    def note(self, count: int) -> None:
        """Remembers how far the catalog had come when it was opened: the mark may be older."""
        self._reached = count

    def begin(self, count: int, place: int) -> None:
        """Says which change is about to be committed, if where it will stand does not; 2 µs."""
        if place != self._stands:
            self._put(count, *self._written)

    def write(self, count: int, place: int = _NOWHERE) -> None:
        """Says that so many changes are acknowledged, and where that stands; 2 µs."""
        self._reached, self._written = count, (count, place)
        self._put(count, count, place)

    def find_last(self) -> tuple[int, int] | None:
        """Returns the count of the last change, and where that stands; None if nobody can say.

        To be called by who holds the writers' lock.
        """
        known, self._stands = self._load(), _NOWHERE
        if known is None:
            return None
        count, begun, place = known
        # What stays while a change of ours is under way is what others have acknowledged.
        self._written = (count, place)
        if count != begun:
            return None
        self._stands = place
        return count, place

    def _put(self, begun: int, count: int, place: int) -> None:
        self._stands = _NOWHERE
        try:
            if self._fd is None:
                self._fd = os.open(self._path, _FLAGS, 0o600)
                self._inode = self._catalog.stat().st_ino
            body = _RECORD.pack(_MAGIC, self._inode, count, begun, place)
            os.pwrite(self._fd, body + _CHECKED.pack(zlib.crc32(body)), 0)
            self._stands = place if count == begun else _NOWHERE
        except OSError:
            # The change itself is kept: at worst, a loss of it would not be noticed.
            return

    def _load(self) -> tuple[int, int, int] | None:
        """Returns the counts that were acknowledged and begun, and where the first of them stands.

        None if nothing here speaks of this catalog.
        """
        try:
            if self._fd is not None:
                data, inode = os.pread(self._fd, _BYTES + 1, 0), self._inode
            else:
                data, inode = self._path.read_bytes(), self._catalog.stat().st_ino
        except OSError:
            return None
        body = data[: _RECORD.size]
        if data[_RECORD.size :] != _CHECKED.pack(zlib.crc32(body)) or len(body) != _RECORD.size:
            return None  # Torn, or not ours: it is written anew with the next change.
        magic, of, count, begun, place = _RECORD.unpack(body)
        return (count, begun, place) if magic == _MAGIC and of == inode else None

    def read(self) -> "Acknowledged | None":
        """Returns how far the catalog had come; None if nothing here speaks of this one.

        To be called before the catalog is asked: another process may go on between the two.
        """
        known = self._load()
        if known is None:
            return None
        try:
            last_at = self._path.stat().st_mtime
        except OSError:
            return None
        return Acknowledged(known[0], datetime.fromtimestamp(last_at, UTC))

    def find_loss(self) -> Loss | None:
        """Returns the loss that was found and not yet accepted."""
        kept = self._kept_loss()
        return None if kept is None else kept[0]

    @property
    def has_log(self) -> bool:
        """Says whether there is a log with something in it."""
        return self._log_path.exists() and self._log_path.stat().st_size > 0

    def keep_log(self) -> str | None:
        """Copies the log aside as it is, durably, and returns where to; None if there is none.

        To be called before a connection that writes is opened.
        """
        if not self.has_log:
            return None
        kept = sorted(self._log_path.parent.glob(f"{self._log_path.name}.damaged-*"))
        # An opening that failed after this was done finds the same log again.
        if kept and filecmp.cmp(kept[-1], self._log_path, shallow=False):
            return str(kept[-1])
        temporary = self._log_path.with_name(f"{self._log_path.name}.damaged.tmp")
        fd = os.open(temporary, _FLAGS | os.O_TRUNC, 0o600)
        try:
            with open(fd, "wb") as target, self._log_path.open("rb") as log:  # noqa: PTH123 - of a descriptor
                shutil.copyfileobj(log, target)
                target.flush()
                os.fsync(fd)
        except OSError:
            temporary.unlink()  # Half a copy takes the room that others have to do without.
            raise
        found_at = f"{datetime.now(tz=UTC):%Y%m%dT%H%M%S.%fZ}"
        place = self._log_path.with_name(f"{self._log_path.name}.damaged-{found_at}")
        temporary.rename(place)
        sync_folder(place.parent)
        for old in kept[: 1 - _KEPT_LOGS]:
            old.unlink(missing_ok=True)
        return str(place)

    def keep_loss(self, loss: Loss, count: int) -> None:
        """Remembers a loss, durably, and goes on from what is there."""
        before, reached = self._kept_loss(), count + loss.missing
        missing = loss.missing
        if before is not None:
            # Whoever was killed before the count was written here has kept this very loss.
            is_same = before[1] == (reached, loss.last_at)
            missing = before[0].missing if is_same else missing + before[0].missing
        last_at = None if loss.last_at is None else loss.last_at.isoformat()
        temporary = self._loss_path.with_suffix(".loss.tmp")
        with create(temporary) as file:
            told = {"missing": missing, "last_at": last_at, "log": loss.log, "reached": reached}
            file.write(json.dumps(told).encode())
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self._loss_path)
        sync_folder(self._loss_path.parent)
        self.write(count)

    def _kept_loss(self) -> tuple[Loss, tuple[int | None, datetime | None]] | None:
        """Returns the loss that is kept, and where the count had been when it was found."""
        try:
            fields = json.loads(self._loss_path.read_bytes())
            last_at = datetime.fromisoformat(fields["last_at"])
            loss = Loss(fields["missing"], last_at, fields.get("log"))
            return loss, (fields.get("reached"), last_at)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            return Loss(missing=1, last_at=None), (None, None)

    def accept_loss(self) -> None:
        """Takes note that somebody knows of the loss."""
        self._loss_path.unlink(missing_ok=True)
        sync_folder(self._loss_path.parent)

    def close(self) -> None:
        """Lets go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
