"""What is known of a directory and its server, in a file beside the directory's index.

Three things: the snapshot of the server's that the directory was last brought in line with, and
the root of its files; roots that are on their way to the server, for the case that its answer
never comes; and whether the server was told to move while the directory has not followed yet. The
file is replaced whole. Without it nothing is lost: the next exchange is a longer one.

It also says what a directory holds that its server does not have yet, without asking it. A
snapshot is taken here first, and sent then. Where it could not be sent, it stays in the cache, and
goes with the next one: what is newer here than what both sides had last is what the server lacks.
"""

import os
from contextlib import suppress
from datetime import datetime
from itertools import takewhile
from pathlib import Path

import msgspec

from holdfast.engine.directory.attachments import Attachment
from holdfast.engine.namespace import Namespace
from holdfast.errors import Unavailable
from holdfast.ids import ObjectId, SnapshotId, object_id_of
from holdfast.mirror.local import open_cache
from holdfast.model.basics import EMPTY_MAP, Root, SnapshotInfo
from holdfast.ownfiles import create, sync_folder
from holdfast.settings import holds_vault


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


class Lagging(msgspec.Struct, frozen=True, kw_only=True):
    """A directory, and how far its server is behind it, or it behind its server."""

    path: Path
    where: str
    """The namespace, and on which server; empty if nothing was ever sent there."""
    snapshots: list[SnapshotId]
    """Those of the cache that the server lacks, newest first."""
    since: datetime | None
    """When the oldest of them was taken."""
    is_following: bool
    """Whether the server may have moved while the directory has not."""


def find_caches(folder: str) -> list[Path]:
    """Returns the caches of a user, by where they are."""
    return [place for place in sorted(Path(folder).iterdir()) if holds_vault(str(place))]


def find_lagging(cache: Path) -> list[Lagging]:
    """Returns the directories of a cache, each with what its server lacks."""
    with open_cache(cache) as vault:
        return [_look_at(vault.namespace(each.namespace), each) for each in vault.workspaces()]


def _look_at(namespace: Namespace, attachment: Attachment) -> Lagging:
    known = MemoFile(attachment.state).load()
    # There is nothing but files in a cache.
    held = object_id_of(Root().replacing(files=known.files).encode())
    newer = [*takewhile(lambda snapshot: snapshot.root != held, namespace.timeline())]
    return Lagging(
        path=attachment.path,
        where=known.where,
        snapshots=[snapshot.id for snapshot in newer],
        since=newer[-1].created_at if newer else None,
        is_following=known.is_following,
    )
