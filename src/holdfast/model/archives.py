"""Values of archives: what one says of itself, and what came of an import.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

from datetime import datetime
from typing import Annotated, Final

import msgspec

from holdfast.display import counted, line, quoted
from holdfast.ids import SnapshotId
from holdfast.instants import from_text, to_text
from holdfast.model.basics import Metadata, Size, SnapshotInfo
from holdfast.model.marks import Instant, Named, Shape


def _told(instant: datetime | None) -> str | None:
    """Returns an instant that an archive names, which may be one that no calendar has in UTC."""
    try:
        return None if instant is None else to_text(instant)
    except OverflowError:
        return None


def _read(text: str | None) -> datetime | None:
    return None if text is None else from_text(text)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive says of itself."""

    format: int
    namespace: str
    snapshot: str | None
    """The snapshot that was exported; None if it was what the head then showed."""
    label: str | None
    created_at: Annotated[datetime | None, Shape(Instant | None, _told, _read)]
    root: str
    entries: int
    content_bytes: int
    uncaptured: int = 0
    """Paths that should be in it and could not be captured: what was exported is partial."""
    in_motion: int = 0
    """Files in it that may be mixtures: somebody could write to them when they were captured."""
    metadata: Metadata | None = None
    """What was kept with the snapshot in words of its owner; None if there was nothing."""

    @property
    def size(self) -> Size:
        """How much the archive says to hold."""
        return Size(self.entries, self.content_bytes)


OF_SNAPSHOT: Final = ("label", "created_at", "metadata")
"""What a manifest says of the snapshot that was exported, by the names that it has there."""


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did."""

    snapshot: SnapshotInfo
    """The new snapshot on the timeline."""
    safety_id: Annotated[SnapshotId | None, Named("safety_snapshot_id")]
    """The snapshot that keeps what was there before; None if an older one does."""
    manifest: Manifest
    """What the archive says of itself: where it comes from, and how much it holds."""
    verified: bool
    """Whether the stored result was read back and has the root that the manifest names."""

    def __repr__(self) -> str:
        held = counted(self.manifest.entries, "entry") + (", verified" if self.verified else "")
        return line("Imported", self.snapshot.id, f"{held}, of {quoted(self.manifest.namespace)}")


class ImportedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What an import of files alone did."""

    snapshot: SnapshotInfo
    """The new snapshot on the timeline."""
    safety_id: Annotated[SnapshotId | None, Named("safety_snapshot_id")]
    """The snapshot that keeps what was there before; None if an older one does."""
    entries: int
    """Files, links and directories that there are now."""
    content_bytes: int
    verified: bool
    """Whether the stored result was read back and is what was brought in."""
    left_out: list[str] = []
    """What lies in the directory and, by the rules that came with it, in no snapshot."""
