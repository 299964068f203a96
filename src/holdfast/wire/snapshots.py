"""A snapshot, in answers that are put together by hand: as `SnapshotInfo` is written."""

from typing import Any

import msgspec

from holdfast.model.basics import Kind
from holdfast.wire.basics import Instant


class SnapshotAnswer(msgspec.Struct, kw_only=True):
    """A snapshot."""

    snapshot_id: str
    namespace: str | None
    label: str | None
    size_bytes: int
    created_at: Instant
    number: int
    kind: Kind
    parent: str | None
    target: str | None
    reason: str | None
    actor: str | None
    task_id: str | None
    root: str
    entries: int
    pinned: bool
    expires_at: Instant | None
    partial: bool
    trace_id: str | None
    detail: dict[str, Any]
    """What else is kept with it: what of a directory it covers, what a restore was limited to."""
