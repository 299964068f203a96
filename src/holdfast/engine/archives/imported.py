"""The answer of an import; apart, so that who only names its type need not load the rest."""

from dataclasses import dataclass

from holdfast.engine.archives.manifest import Manifest
from holdfast.ids import SnapshotId
from holdfast.model.basics import SnapshotInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import did."""

    snapshot: SnapshotInfo
    """The new snapshot on the timeline."""
    safety_id: SnapshotId | None
    """The snapshot that keeps what was there before; None if an older one does."""
    manifest: Manifest
    """What the archive says of itself: where it comes from, and how much it holds."""
    verified: bool
    """Whether the stored result was read back and has the root that the manifest names."""
