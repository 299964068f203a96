"""What a namespace asks of a directory that is attached to it.

Use cases know nothing of directories. One that looks at "what is there now" asks what its handle
`shows`; one that puts another state in place calls what is to happen `before_commit`: after the new
state's bytes are stored, and before the catalog moves to it. The directory's own side of this is
`directory/present.py` and `directory/move.py`.
"""

from collections.abc import Callable
from typing import NamedTuple

from holdfast.engine.objects.stage import Stage, StagedObjects
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import Root, Size


class Moving(NamedTuple):
    """A move of the head that is about to be committed."""

    root: Root
    """What it shows."""
    goal: Root
    """What it will show."""
    start: SnapshotId | None
    """The snapshot that it stands on."""
    mark: SnapshotId
    """The one that will be appended, and show the goal."""


class Became(NamedTuple):
    """What a directory really is after it followed: a folder may have had to stay."""

    root: Root
    nodes: dict[ObjectId, bytes]
    more: Size
    """By how much it is larger than the goal."""


Shows = Callable[[Stage, StagedObjects, Root], tuple[Root, Size]]
"""Returns the root with what is there now for its files, and the growth.

New nodes go to the stage; nothing is kept.
"""

BeforeCommit = Callable[[Stage, StagedObjects, Moving], Became | None]
"""Makes the directory what the goal says; raises, with the directory as it was.

Returns what it became, if that is not quite the goal: content of it that no snapshot holds yet is
in the stage.
"""
