"""What only a server tells: keys, webhooks, events, and how an import went.

Decoded as they stand on the wire, with instants as `datetime`. A test compares their fields with
the server's own.
"""

from datetime import datetime

import msgspec

from holdfast.ids import SnapshotId
from holdfast.model.basics import Size, SnapshotInfo
from holdfast.model.entities import Totals
from holdfast.model.upkeep import AuditProblem, AuditReport
from holdfast.sdk.reading import instant, instant_or_none, reads, to_snapshot
from holdfast.wire.audit import AuditAnswer
from holdfast.wire.dashboard import StatsAnswer
from holdfast.wire.upkeep import ImportedAnswer, ManifestAnswer


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive says of itself."""

    format: int
    namespace: str
    snapshot: str | None
    """The snapshot that was exported; None if it was what the head then showed."""
    label: str | None
    created_at: datetime | None
    root: str
    entries: int
    content_bytes: int
    uncaptured: int = 0
    """Paths that should be in it and could not be captured: what was exported is partial."""
    in_motion: int = 0
    """Files in it that may be mixtures: somebody could write to them when they were captured."""

    @property
    def size(self) -> Size:
        """How much the archive says to hold."""
        return Size(self.entries, self.content_bytes)


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did."""

    snapshot: SnapshotInfo
    """The new snapshot on the timeline."""
    safety_id: SnapshotId | None
    """The snapshot that keeps what was there before; None if an older one does."""
    manifest: Manifest
    """What the archive says of itself: where it comes from, and how much it holds."""
    verified: bool
    """Whether the stored result was read back and has the root that the manifest names."""


def _imported(answer: ImportedAnswer) -> Imported:
    kept = answer.safety_snapshot_id
    return Imported(
        snapshot=to_snapshot(answer.snapshot),
        safety_id=None if kept is None else SnapshotId(kept),
        manifest=_manifest(answer.manifest),
        verified=answer.verified,
    )


def _manifest(answer: ManifestAnswer) -> Manifest:
    return Manifest(
        format=answer.format,
        namespace=answer.namespace,
        snapshot=answer.snapshot,
        label=answer.label,
        created_at=instant_or_none(answer.created_at),
        root=answer.root,
        entries=answer.entries,
        content_bytes=answer.content_bytes,
        uncaptured=answer.uncaptured,
        in_motion=answer.in_motion,
    )


def _totals(answer: StatsAnswer) -> Totals:
    found = answer.stats
    return Totals(
        sessions=found.total_sessions,
        turns=found.total_turns,
        memories=found.total_memories,
        entities=found.total_entities,
        active_sessions=found.active_sessions_24h,
        storage_bytes=found.storage_usage_bytes,
        by_hour=tuple((instant(each.timestamp), each.count) for each in answer.recent_activity),
    )


def _report(answer: AuditAnswer) -> AuditReport:
    problems = [AuditProblem(each.number, each.reason, each.namespace) for each in answer.problems]
    return AuditReport(answer.checked, answer.anchor, problems)


read_imported = reads(ImportedAnswer, _imported)
read_totals = reads(StatsAnswer, _totals)
read_report = reads(AuditAnswer, _report)
