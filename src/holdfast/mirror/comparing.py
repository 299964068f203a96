"""Looks at a directory whose timeline is on a server, and compares it; changes neither.

What the directory was when both sides were last the same is known here. So how it stands, and what
has changed, needs no server; other snapshots are fetched first, and two of them are compared there.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.engine.capturing.capture import Rereading
from holdfast.engine.core.paths import PathLike, to_folder, to_key, to_text
from holdfast.engine.directory.present import Status
from holdfast.engine.timeline.diff import collect_changes, text_diff
from holdfast.engine.vault import Holdfast
from holdfast.errors import InvalidPath
from holdfast.ids import ObjectId
from holdfast.mirror.following import Pair, fetch
from holdfast.mirror.local import Local
from holdfast.mirror.memo import MemoFile
from holdfast.mirror.pulling import Server
from holdfast.model.basics import Plane, SnapshotInfo, SnapshotLike
from holdfast.model.changes import Change, Changes, History
from holdfast.model.names import PathOrName, to_name
from holdfast.operations.checks import checked
from holdfast.progress import no_progress
from holdfast.sdk.agent import Agent
from holdfast.sdk.calls import Sync


@checked
class Comparing:
    """The part of a remote directory that only looks."""

    def __init__(self, agent: Agent[Sync], name: str, vault: Holdfast, local: Local) -> None:
        self.namespace = agent
        """The client of the namespace: its timeline, and all that belongs to it."""
        self._name, self._vault, self._local = name, vault, local
        # Without who asks: what is kept beside it is shown to anybody who looks after this machine.
        url = urlsplit(agent.sender.line.url)
        where = f"{name} on {url.scheme}://{url.netloc.rpartition('@')[2]}"
        memo = MemoFile(local.attachment.state, where=where)
        self._pair = Pair(local, Server(agent), memo)

    @property
    def path(self) -> Path:
        """Where the directory is."""
        return self._local.path

    @property
    def moved_from(self) -> Path | None:
        """Where the directory was until it was opened here; None if it was not moved."""
        return self._local.moved_from

    @property
    def is_half_way(self) -> bool:
        """Whether a restore of the directory was interrupted, or is under way just now."""
        return self._local.is_half_way

    def __repr__(self) -> str:
        return f"RemoteWorkspace({str(self.path)!r}, namespace={self._name!r})"

    def find_current(self) -> SnapshotInfo | None:
        """Returns the snapshot that holds the directory as it is now, or None if none does."""
        return None if self.is_dirty() else self._pair.memo.now.snapshot

    def status(self, *, limit: int | None = None) -> Status:
        """Returns how the directory stands against what was last pushed or pulled."""
        with self._exclusive(only_looks=True):
            known = self._pair.memo.now
            unread = Rereading.NOT_IN_MOTION
            with self._local.compared(known.files, None, rereading=unread) as (_, found):
                changes = collect_changes(found, limit=limit, counts=True)
        return Status(
            path=self.path,
            namespace=self._name,
            head=known.snapshot,
            changes=changes,
            coverage=self._local.directory.coverage,
            recovered=self._local.recovered,
        )

    def is_dirty(self) -> bool:
        """Says whether the directory differs from what was last pushed or pulled, or may."""
        with self._exclusive(only_looks=True):
            known = self._pair.memo.now.files
            with self._local.compared(known, None, keeps_unread=False) as (_, found):
                return next(found, None) is not None

    def diff(
        self,
        old: SnapshotLike | None = None,
        new: SnapshotLike | None = None,
        *,
        paths: Sequence[PathLike] | None = None,
        limit: int | None = None,
    ) -> Changes:
        """Returns what leads from one snapshot to another, or to the directory as it is now."""
        if new is not None:
            return self.namespace.diff(old, new, paths=texts_of(paths), limit=limit)
        with (
            self._exclusive(only_looks=True),
            self._local.compared(self._files(old), None, paths=paths) as both,
        ):
            return collect_changes(both[1], limit=limit, counts=False)

    def text_diff(
        self,
        path: PathLike,
        old: SnapshotLike | None = None,
        new: SnapshotLike | None = None,
        *,
        context_lines: int = 3,
    ) -> str:
        """Returns a unified diff of one file between two moments; empty if nothing differs."""
        key = to_key(path)
        for change, text in self.text_diffs(old, new, paths=[path], context_lines=context_lines):
            if change.key == key:
                return text
        return ""

    def text_diffs(
        self,
        old: SnapshotLike | None = None,
        new: SnapshotLike | None = None,
        *,
        paths: Sequence[PathLike] | None = None,
        context_lines: int = 3,
    ) -> list[tuple[Change, str]]:
        """Returns what `diff` does of files, with the text of each change."""
        with self._exclusive(only_looks=True):
            first, last = self._files(old), None if new is None else self._files(new)
            with self._local.compared(first, last, paths=paths) as (source, found):
                return [(c, text_diff(source, c, context_lines=context_lines)) for c in found]

    def history(
        self, name: PathOrName, *, limit: int | None = None, before: int | None = None
    ) -> History:
        """Returns what happened to one thing, newest first; what is in no snapshot yet, too.

        That of the directory comes first: what is in it, and on no server yet.
        """
        named = to_name(name)
        found = self.namespace.history(named, limit=limit, before=before)
        if before is not None or named.plane != Plane.FILES or limit == 0:
            return found
        with self._exclusive(only_looks=True):
            known = self._pair.memo.now
            drift = self._local.find_drift(named, known.files, known.snapshot)
        if drift is None:
            return found
        if limit is None or len(found) < limit:
            return replace(found, steps=[drift, *found.steps])
        *steps, last = found.steps
        goes_on = found.before if last.snapshot is None else last.snapshot.number + 1
        return replace(found, steps=[drift, *steps], before=goes_on)

    # Inside

    @contextmanager
    def _exclusive(self, *, makes_anew: bool = False, only_looks: bool = False) -> Generator[None]:
        with self._local.exclusive(makes_anew=makes_anew, only_looks=only_looks):
            self._pair.memo.load()
            yield

    def _files(self, snapshot: SnapshotLike | None) -> ObjectId:
        """Returns the files map of a snapshot, all of which is here."""
        known = self._pair.memo.now
        if snapshot is None:
            return known.files
        chosen = self.namespace.get_snapshot(snapshot)
        if known.snapshot is not None and chosen.id == known.snapshot.id:
            return known.files
        return self._local.attached.files_of(fetch(self._pair, chosen, no_progress))


def texts_of(paths: Sequence[PathLike] | None) -> list[str] | None:
    """Returns paths as they go over the wire; raises `InvalidPath` for what is no text."""
    if paths is None:
        return None
    keys = [to_folder(path) for path in paths]
    for key in keys:
        if not to_text(key).isascii() and key.decode("utf-8", "replace").encode() != key:
            raise InvalidPath(key, reason="a server is told paths as UTF-8")
    return [to_text(key) for key in keys]
