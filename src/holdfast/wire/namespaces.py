"""Requests and answers about namespaces, as operators see them."""

import msgspec

from holdfast.wire.basics import Instant
from holdfast.wire.snapshots import SnapshotAnswer


class NamespaceAnswer(msgspec.Struct, kw_only=True):
    """A namespace."""

    namespace: str
    entries: int
    size_bytes: int
    dirty: bool
    """Whether there are changes that no snapshot holds yet."""
    quota_bytes: int | None
    latest_snapshot_id: str | None


class NamespaceList(msgspec.Struct, kw_only=True):
    """The namespaces of a workspace, by name."""

    namespaces: list[str]
    has_more: bool


class DeletedNamespaceAnswer(msgspec.Struct, kw_only=True):
    """A namespace that was deleted, and can be recovered."""

    number: int
    namespace: str
    deleted_at: Instant


class DeletedNamespaceList(msgspec.Struct, kw_only=True):
    """Deleted namespaces, newest first."""

    deleted: list[DeletedNamespaceAnswer]


class RecoverRequest(msgspec.Struct, kw_only=True):
    """Which of several deleted ones to recover, and under what name."""

    number: int | None = None
    as_name: str | None = None


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


class QuotaRequest(msgspec.Struct, kw_only=True):
    """How many bytes there may be; null takes the limit away."""

    quota_bytes: int | None = None


class QuotaAnswer(msgspec.Struct, kw_only=True):
    """How many bytes there may be, and how many there are."""

    quota_bytes: int | None
    used_bytes: int


class DeletedSnapshotList(msgspec.Struct, kw_only=True):
    """Deleted snapshots that can be recovered, newest first."""

    snapshots: list[SnapshotAnswer]
