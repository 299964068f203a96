"""What a directory shows of itself beside its past: nothing here changes anything.

The lower half of `Workspace`: whoever holds the directory compares it, as it is now, with what is
on its timeline.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from holdfast.engine.capturing.capture import Rereading
from holdfast.engine.core.paths import PathLike
from holdfast.engine.directory.agreeing import Agreed
from holdfast.engine.directory.directory import Directory
from holdfast.engine.directory.present import Glance, Status
from holdfast.engine.namespace import Namespace
from holdfast.engine.planes.handle import Handle
from holdfast.engine.timeline.diff import collect_changes
from holdfast.model.basics import SnapshotLike
from holdfast.model.changes import Change, Changes, History, Patch
from holdfast.model.names import PathOrName
from holdfast.operations.checks import checked
from holdfast.operations.timeline import TextDiffs


@checked
class Looks(ABC):
    """An attached directory, to look at."""

    namespace: Namespace
    """The timeline and all that belongs to it; its files are those last captured."""
    _directory: Directory
    _plain: Handle
    _recovered: str | None
    _waiting: str | None
    """What is said of an interrupted restore that could not be put right just now."""
    _agreed: Agreed | None

    @abstractmethod
    def _exclusive(
        self, *, makes_anew: bool = False, only_looks: bool = False
    ) -> AbstractContextManager[None]:
        """Holds the directory."""

    @property
    @abstractmethod
    def path(self) -> Path:
        """Where the directory is."""

    def status(self, *, limit: int | None = None) -> Status:
        """Returns how the directory stands against the timeline; takes no snapshot."""
        glance = Glance(
            self._directory,
            only_names=True,
            keeps_unread=True,
            rereading=Rereading.NOT_IN_MOTION,
        )
        excluded: list[Change] = []
        with self._exclusive(only_looks=True), glance.drift(self._plain) as (head, found):
            there = glance.without_excluded(found, excluded)
            changes, position = collect_changes(there, limit=limit, counts=True), head.position
        return Status(
            path=self.path,
            namespace=self.namespace.name,
            head=None if position is None else self.namespace.get_snapshot(position),
            changes=changes,
            coverage=self._directory.coverage.excluding(len(excluded)),
            recovered=self._waiting or self._recovered,
            agreed=self._agreed,
        )

    def is_dirty(self) -> bool:
        """Says whether the directory differs from what the timeline stands on, or may."""
        with self._exclusive(only_looks=True):
            return bool(self._unkept(limit=1))

    def diff(
        self,
        old: SnapshotLike | None = None,
        new: SnapshotLike | None = None,
        *,
        paths: Sequence[PathLike] | None = None,
        limit: int | None = None,
    ) -> Changes:
        """Returns what leads from one snapshot to another, or to the directory as it is now."""
        with self._exclusive(only_looks=True):
            shown = self._shown(new, only_names=True)
            return shown.diff(old, new, paths=paths, limit=limit)

    def text_diff(
        self,
        path: PathLike,
        old: SnapshotLike | None = None,
        new: SnapshotLike | None = None,
        *,
        context_lines: int = 3,
    ) -> str:
        """Returns a unified diff of one file between two moments; empty if nothing differs."""
        with self._exclusive(only_looks=True):
            return self._shown(new).text_diff(path, old, new, context_lines=context_lines)

    def text_diffs(
        self,
        old: SnapshotLike | None = None,
        new: SnapshotLike | None = None,
        *,
        paths: Sequence[PathLike] | None = None,
        context_lines: int = 3,
    ) -> list[tuple[Change, str]]:
        """Returns what `diff` does, with the text of each change; the directory is read once."""
        with self._exclusive(only_looks=True):
            return self._shown(new).text_diffs(old, new, paths=paths, context_lines=context_lines)

    def patches(
        self,
        old: SnapshotLike | None = None,
        new: SnapshotLike | None = None,
        *,
        paths: Sequence[PathLike] | None = None,
        context_lines: int = 3,
    ) -> list[Patch]:
        """Returns what `diff` does, with what it takes to do each change again somewhere else.

        Of what is no text, that is the content: 16 MiB of a file and 64 MiB in all, at the most.
        """
        wanted = TextDiffs(old, new, paths=paths, context_lines=context_lines)
        with self._exclusive(only_looks=True):
            return self._shown(new).comparing.patches(wanted)

    def history(
        self, name: PathOrName, *, limit: int | None = None, before: int | None = None
    ) -> History:
        """Returns what happened to one thing, newest first; what is in no snapshot yet, too."""
        if before is not None:
            return self.namespace.history(name, limit=limit, before=before)
        with self._exclusive(only_looks=True):
            return self._shown(None, only_names=True).history(name, limit=limit)

    def _unkept(self, *, limit: int) -> Changes:
        """Returns changes that a snapshot taken now would show: what cannot be read is missing."""
        glance = Glance(self._directory, only_names=True)
        with glance.drift(self._plain) as (_, found):
            return collect_changes(found, limit=limit, counts=False)

    def _shown(self, new: SnapshotLike | None, *, only_names: bool = False) -> Namespace:
        """Returns the namespace with the directory for its head, where the head is looked at."""
        glance = Glance(self._directory, only_names=only_names, keeps_unread=True)
        return self.namespace if new is not None else Namespace(glance.at(self._plain))
