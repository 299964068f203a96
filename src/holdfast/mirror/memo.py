"""What is known of a directory and its server, in a file beside the directory's index.

Three things: the snapshot of the server's that the directory was last brought in line with, and
the root of its files; roots that are on their way to the server, for the case that its answer
never comes; and whether the server was told to move while the directory has not followed yet. The
file is replaced whole. Without it nothing is lost: the next exchange is a longer one.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.errors import Unavailable
from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP, SnapshotInfo
from holdfast.private import create
from holdfast.syncing import sync_folder


class Memo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known."""

    snapshot: SnapshotInfo | None = None
    """The server's snapshot that was last pushed or pulled."""
    root: bytes = EMPTY_MAP
    """The files that it shows."""
    pushing: tuple[bytes, ...] = ()
    """Files that were sent since, of which it is not certain whether they arrived."""
    is_following: bool = False
    """Whether the server may have moved while the directory has not."""
    where: str = ""
    """The namespace, and on which server: for people, who ask no server."""

    @property
    def files(self) -> ObjectId:
        """The files map that both sides had last."""
        return ObjectId(self.root)


class MemoFile:
    """Where it is written down; used by whoever holds the directory's lock."""

    def __init__(self, folder: Path, *, where: str = "") -> None:
        self._path, self._where = folder / "remote.json", where
        self.now = Memo()

    def load(self) -> Memo:
        """Reads it again: another process may have been here since."""
        try:
            self.now = msgspec.json.decode(self._path.read_bytes(), type=Memo)
        except (OSError, msgspec.DecodeError):
            self.now = Memo()
        return self.now

    def note(self, memo: Memo, *, durably: bool = True) -> None:
        """Writes it down. What is told before a request need not outlive a power cut."""
        self.now = memo = msgspec.structs.replace(memo, where=self._where or memo.where)
        temporary = self._path.with_suffix(".tmp")
        try:
            with create(temporary) as file:
                file.write(msgspec.json.encode(memo))
                file.flush()
                if durably:
                    os.fsync(file.fileno())
            temporary.rename(self._path)
            if durably:
                sync_folder(self._path.parent)
        except OSError as exc:
            with suppress(OSError):
                temporary.unlink()
            message = f"{self._path} cannot be written: {exc.strerror}"
            raise Unavailable(message) from exc
