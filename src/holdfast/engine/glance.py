"""Tells a head what is in the directory that is attached to it, as it is now; keeps nothing."""

import re
from dataclasses import KW_ONLY, dataclass, replace

from holdfast.engine.capture import Captured, Rereading
from holdfast.engine.collect import Progress, no_progress
from holdfast.engine.directory import Directory, fill
from holdfast.engine.growth import size_of
from holdfast.engine.handle import Handle
from holdfast.engine.retrieval import Weighing
from holdfast.engine.stage import Stage, StagedObjects
from holdfast.errors import Damaged
from holdfast.model import Plane, Root, Size


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
        return root.replacing(files=filled.root), size_of(filled.edits or [])

    def _look(self, stage: Stage) -> Captured:
        return self.directory.look(
            Weighing() if self.only_names else stage,
            including=self.including,
            litter=self.litter,
            rereading=self.rereading,
            progress=self.progress,
        )
