"""Requests and answers about namespaces, as operators see them."""

import msgspec

from holdfast.wire.snapshots import SnapshotAnswer


class RetentionBody(msgspec.Struct, kw_only=True):
    """How many snapshots to keep: the newest, and the newest of each day or week."""

    keep_last: int = 0
    keep_daily: int = 0
    keep_weekly: int = 0


class ForgetRequest(msgspec.Struct, kw_only=True):
    """How snapshots are taken off the timeline; without `policy`, as the namespace's own says."""

    dry_run: bool | None = None
    policy: RetentionBody | None = None


class ForgottenAnswer(msgspec.Struct, kw_only=True):
    """Snapshots that were taken off the timeline, or after a dry run would be."""

    snapshots: list[SnapshotAnswer]
    dry_run: bool


class DeletedSnapshotList(msgspec.Struct, kw_only=True):
    """Deleted snapshots that can be recovered, newest first."""

    snapshots: list[SnapshotAnswer]
