"""Says what directories hold that their servers do not have yet; asks no server.

A snapshot of a remote directory is taken here first, and sent then. Where it could not be sent, it
stays in the cache, and goes with the next one: what is newer here than what both sides had last is
what the server lacks.
"""

from datetime import datetime
from itertools import takewhile
from pathlib import Path

import msgspec

from holdfast.engine.directory.attachments import Attachment
from holdfast.engine.namespace import Namespace
from holdfast.ids import SnapshotId, object_id_of
from holdfast.mirror.local import open_cache
from holdfast.mirror.memo import MemoFile
from holdfast.model.basics import Root
from holdfast.settings import holds_vault


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
