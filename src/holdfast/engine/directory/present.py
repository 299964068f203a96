"""Tells a head what is in the directory that is attached to it, as it is now; keeps nothing."""

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path

import msgspec

from holdfast.engine.capturing.capture import Rereading
from holdfast.engine.capturing.captured import Captured
from holdfast.engine.core.coverage import Coverage
from holdfast.engine.core.growth import size_of
from holdfast.engine.core.paths import to_bytes
from holdfast.engine.directory.agreeing import Agreed
from holdfast.engine.directory.directory import Directory
from holdfast.engine.directory.filling import fill
from holdfast.engine.files.retrieval import Weighing
from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.engine.timeline.diff import iter_changes
from holdfast.engine.timeline.restore import folded_head
from holdfast.entries import Directory as Folder
from holdfast.errors import Damaged
from holdfast.ids import ObjectId
from holdfast.model.basics import Head, Plane, Root, Size, SnapshotInfo
from holdfast.model.changes import Change, Changes
from holdfast.progress import Progress, no_progress
from holdfast.tree import NodeSource, apply, get_many, iterate, prefix_stop


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How a directory stands against the newest state on its timeline."""

    path: Path
    namespace: str
    head: SnapshotInfo | None
    """The snapshot that the timeline stands on."""
    changes: Changes
    coverage: Coverage
    recovered: str | None
    """What was put right on opening, if a restore had been interrupted."""
    agreed: Agreed | None = None
    """What this look took in of what was written through the namespace."""


@dataclass(frozen=True, slots=True)
class Glance:
    """One look at a directory."""

    directory: Directory
    _: KW_ONLY
    including: frozenset[bytes] = frozenset()
    """Paths that are shown although the rules leave them out."""
    litter: re.Pattern[bytes] | None = None
    """What is removed on the way."""
    only_names: bool = False
    """Whether nobody will read the content of what is shown."""
    keeps_unread: bool = False
    """Whether what is there and cannot be read is shown as it was."""
    rereading: Rereading = Rereading.SOME
    """What of the files that are unsure is read again for it."""
    progress: Progress = no_progress

    def at(self, handle: Handle) -> Handle:
        """Returns the namespace with the directory for its head, where that is looked at."""
        return replace(handle, shows=self.show)

    def show(self, stage: Stage, source: StagedObjects, root: Root) -> tuple[Root, Size]:
        """Returns the root with the directory as it is now for its files, and the growth."""
        files, captured = root.plane(Plane.FILES), self._look(stage)
        try:
            filled = fill(source, captured, files)
        except Damaged:
            # What the index stands for was collected, or went bad: all of it is read anew.
            self.directory.forget_index()
            filled = fill(source, self._look(stage), files)
        stage.add_nodes(filled.nodes)
        shown, more = filled.root, size_of(filled.edits or [])
        if self.keeps_unread and self.directory.coverage.failed:
            applied = apply(source, shown, self._unread(source, files, shown))
            stage.add_nodes(applied.nodes)
            shown, more = applied.root, more + size_of(applied.edits)
        return root.replacing(files=shown), more

    @contextmanager
    def drift(self, handle: Handle) -> Generator[tuple[Head, Iterator[Change]]]:
        """Opens what leads from what the timeline stands on to the directory as it is now."""
        with folded_head(self.at(handle)) as (_, folded):
            base = folded.source.get_root(folded.head.root)
            yield folded.head, iter_changes(folded.source, base, folded.root)

    def without_excluded(self, found: Iterator[Change], excluded: list[Change]) -> Iterator[Change]:
        """Yields changes, but for what the rules alone take out: of that, files go apart."""
        with self.directory.excluding() as is_excluded:
            for change in found:
                is_removed = change.plane is Plane.FILES and change.change == "removed"
                if not is_removed or not is_excluded(change.key):
                    yield change
                elif not isinstance(change.old, Folder):
                    excluded.append(change)

    def _unread(self, source: NodeSource, files: ObjectId, shown: ObjectId) -> dict[bytes, bytes]:
        """Returns the entries of what is there and could not be read, as a map has them."""
        failed = [each.path for each in self.directory.coverage.failed]
        keys = [b"" if path == "." else to_bytes(path) for path in failed]
        listed, known = get_many(source, shown, keys), get_many(source, files, keys)
        for key in keys:
            if key and key not in listed:
                continue  # a file
            within = key + b"/" if key else b""
            known |= dict(iterate(source, files, start=within, stop=prefix_stop(within)))
        held = get_many(source, shown, known)
        return {key: entry for key, entry in known.items() if key not in held}

    def _look(self, stage: Stage) -> Captured:
        return self.directory.look(
            Weighing() if self.only_names else stage,
            including=self.including,
            litter=self.litter,
            rereading=self.rereading,
            progress=self.progress,
        )
