"""Answers about moving a namespace in."""

import msgspec

from holdfast.wire.basics import Instant
from holdfast.wire.snapshots import SnapshotAnswer


class ManifestAnswer(msgspec.Struct, kw_only=True):
    """What an archive says of itself: where it comes from, and how much it holds."""

    format: int
    namespace: str
    snapshot: str | None
    label: str | None
    created_at: Instant | None
    root: str
    entries: int
    content_bytes: int
    uncaptured: int = 0
    """Paths that should be in it and could not be captured: what was exported is partial."""
    in_motion: int = 0
    """Files in it that may be mixtures: somebody could write to them when they were captured."""


class ImportedAnswer(msgspec.Struct, kw_only=True):
    """What an import did."""

    snapshot: SnapshotAnswer
    safety_snapshot_id: str | None
    verified: bool
    manifest: ManifestAnswer
