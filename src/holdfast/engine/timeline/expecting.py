"""What somebody who looked expects to be there: whatever they do is done to that, or not at all."""

from typing import Final

import msgspec

from holdfast.engine.pending.fold import Folded
from holdfast.errors import HeadMoved
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import Head


class Expected(msgspec.Struct, frozen=True):
    """Where a head stands, and all that is there, as it was seen; None for whatever it is."""

    position: SnapshotId | None = None
    root: ObjectId | None = None

    def check_head(self, head: Head) -> None:
        """Raises `HeadMoved` if the head shows another snapshot."""
        if self.position is not None and head.position != self.position:
            raise HeadMoved(head.name, expected=self.position, actual=head.position)

    def check_folded(self, folded: Folded) -> None:
        """Raises `HeadMoved` if something else is there, pending included."""
        if self.root is not None and folded.root_id != self.root:
            name, actual = folded.head.name, folded.root_id.hex()
            raise HeadMoved(name, expected=self.root.hex(), actual=actual)


ANYTHING: Final = Expected()
