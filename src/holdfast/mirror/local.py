"""The near side of a remote directory: a vault on this machine, and the directory attached to it.

It looks, compares, writes and recovers exactly as the local form does, since it is that form. What
it holds is a cache: all of it can be had again, from the directory or from the server. So it keeps
the last few states alone, and forgets what came before.
"""

import hashlib
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from holdfast import settings
from holdfast.engine.capturing.capture import Rereading
from holdfast.engine.core.limits import Limits
from holdfast.engine.core.paths import PathLike
from holdfast.engine.directory.attachments import Attachment
from holdfast.engine.directory.directory import Directory
from holdfast.engine.directory.move import Attached
from holdfast.engine.directory.present import Glance
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.engine.timeline import snapshots
from holdfast.engine.timeline.diff import iter_changes
from holdfast.engine.timeline.history import find_drift
from holdfast.engine.timeline.restore import folded_head
from holdfast.engine.timeline.selection import path_filter
from holdfast.engine.vault import Holdfast
from holdfast.engine.workspace import Workspace
from holdfast.errors import Busy
from holdfast.ids import ObjectId
from holdfast.model.basics import Plane, Root, SnapshotInfo
from holdfast.model.changes import Change, Step
from holdfast.model.names import Name
from holdfast.wiring import open_vault

KEPT: Final = 8
"""States that stay: what the directory was lately is not sent again when it comes back."""

CROWDED: Final = 32
"""States from which on older ones are forgotten."""

ASIDE: Final = "aside"
"""The end of the name of what holds snapshots that were fetched to be looked at."""


def open_cache(location: str | os.PathLike[str]) -> Holdfast:
    """Opens the vault that keeps what is known on this machine."""
    # Nothing expires by itself: what is old is not what is needless. And what goes, goes at once:
    # what a cache lacks, the server has.
    limits = Limits(retention=timedelta(days=36_500), grace=timedelta(0), keep_deleted=timedelta(0))
    return open_vault(location, limits=limits)


def cache_of(url: str, workspace_id: str, namespace: str) -> Path:
    """Returns where that vault is, unless somebody says otherwise: one for each namespace."""
    named = "\0".join((url.rstrip("/"), workspace_id, namespace))
    digest = hashlib.blake2b(named.encode(), digest_size=12).hexdigest()
    return Path(settings.mirrors_of(settings.process_environ()), digest)


class Local(Workspace):
    """A directory that is attached to a vault of its own, in the hands of a remote one."""

    @classmethod
    def over(cls, workspace: Workspace) -> "Local":
        """Returns the same directory."""
        return cls(workspace._plain, workspace._attachment)  # noqa: SLF001 - of the same class

    def _take_in(self) -> None:
        """Has nothing to take in: nobody writes to the cache but who follows the server."""

    @property
    def was_made(self) -> bool:
        """Whether the directory was missing, and made anew by what is being done."""
        return self._was_made

    @property
    def handle(self) -> Handle:
        """The namespace of the cache that stands for the directory."""
        return self._plain

    @property
    def attachment(self) -> Attachment:
        """Where what is known of the directory is kept."""
        return self._attachment

    @property
    def directory(self) -> Directory:
        """What is known of the directory."""
        return self._directory

    @property
    def attached(self) -> Attached:
        """The directory and its namespace in the cache."""
        return self._attached

    @property
    def recovered(self) -> str | None:
        """What was put right on opening."""
        return self._waiting or self._recovered

    @property
    def aside(self) -> Handle:
        """Where snapshots are fetched to that do not become the directory."""
        return replace(self._plain, name=f"{self._plain.name[:100]} {ASIDE}")

    @contextmanager
    def exclusive(self, *, makes_anew: bool = False, only_looks: bool = False) -> Generator[None]:
        """Holds the directory's lock, with all that was interrupted put right, if that can be."""
        with self._exclusive(makes_anew=makes_anew, only_looks=only_looks):
            yield

    @contextmanager
    def compared(
        self,
        old: ObjectId,
        new: ObjectId | None,
        *,
        paths: Sequence[PathLike] | None = None,
        keeps_unread: bool = True,
        rereading: Rereading = Rereading.SOME,
    ) -> Generator[tuple[StagedObjects, Iterator[Change]]]:
        """Opens what leads from one files map to another, or to the directory as it is now.

        Unless it `keeps_unread`, what is there and cannot be read is missing.
        """
        glance = Glance(self._directory, keeps_unread=keeps_unread, rereading=rereading)
        handle = self._plain if new else glance.at(self._plain)
        with folded_head(handle) as (_, folded):
            goal = Root().replacing(files=new) if new else folded.root
            base = Root().replacing(files=old)
            found = iter_changes(folded.source, base, goal, planes=[Plane.FILES])
            if paths is not None:
                selects = path_filter(paths)
                found = (change for change in found if selects(change.key))
            yield folded.source, found

    def find_drift(self, name: Name, known: ObjectId, since: SnapshotInfo | None) -> Step | None:
        """Returns what the directory made of a file or directory since a snapshot."""
        seen = Glance(self._directory, only_names=True, keeps_unread=True).at(self._plain)
        with folded_head(seen) as (_, folded):
            there = folded.root.plane(Plane.FILES)
            return find_drift(folded.source, name, known, there, since)

    def forget_old(self, vault: Holdfast, needed: ObjectId, *, most: int = CROWDED) -> None:
        """Lets go of old states, if there are many; never of the one that the server has."""
        timeline = self.namespace.timeline()
        if len(timeline) <= most:
            return
        for snapshot in timeline[KEPT:]:
            if self._attached.files_of(snapshot) != needed:
                snapshots.delete(self._plain, snapshot.id)
        snapshots.delete_all(self.aside)
        # If another process is at it, that one does it.
        with suppress(Busy):
            vault.collect()
