"""Answers about collecting, verifying and moving a namespace in."""

import msgspec

from holdfast.wire.basics import Instant
from holdfast.wire.snapshots import SnapshotAnswer


class CollectedAnswer(msgspec.Struct, kw_only=True):
    """What a collection gave back."""

    objects_deleted: int
    packs_deleted: int
    bytes_before: int
    bytes_after: int
    bytes_freed: int
    bytes_retired: int
    """What nothing needs any more, and is given back when its period ends."""
    damaged: list[str]


class FaultAnswer(msgspec.Struct, kw_only=True):
    """Something that is not as it should be."""

    what: str
    reason: str
    snapshots: list[str]
    object_id: str | None
    """The hash of the object that is damaged or missing, if it is one."""


class VerifiedAnswer(msgspec.Struct, kw_only=True):
    """What was looked at, and what was found."""

    ok: bool
    packs: int
    objects: int
    bytes: int
    roots: int
    faults: list[FaultAnswer]


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
