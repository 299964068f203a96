"""What a namespace asks of a directory that is attached to it.

Use cases know nothing of directories. One that looks at "what is there now" asks the attached
directory for it; one that puts another state in place lets the directory follow, after the new
state's bytes are stored and before the catalog moves to it. The directory's own side of this is
`directory.py`.
"""

from typing import NamedTuple, Protocol

from holdfast.engine.stage import Stage, StagedObjects
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model import Root, Size


class Moving(NamedTuple):
    """The snapshots between which the head moves."""

    start: SnapshotId | None
    """The one that it stands on."""
    mark: SnapshotId
    """The one that will be appended, and show the goal."""


class Became(NamedTuple):
    """What a directory really is after it followed: a folder may have had to stay."""

    root: Root
    nodes: dict[ObjectId, bytes]
    more: Size
    """By how much it is larger than the goal."""


class Attached(Protocol):
    """A directory, as the use cases see it."""

    def show(self, stage: Stage, source: StagedObjects, root: Root) -> tuple[Root, Size]:
        """Returns the root with the directory as it is now for its files, and the growth.

        New nodes go to the stage; nothing is kept.
        """
        ...

    def follow(
        self, stage: Stage, source: StagedObjects, root: Root, goal: Root, *, move: Moving
    ) -> Became | None:
        """Makes the directory what the goal says; raises, with the directory as it was.

        `root` is what the head showed before. Returns what the directory became, if that is not
        quite the goal: content of it that no snapshot holds yet is in the stage.
        """
        ...
