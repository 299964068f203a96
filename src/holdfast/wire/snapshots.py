"""Requests and answers about snapshots."""

from typing import Annotated, Any, Final

import msgspec

from holdfast.model.names import Name
from holdfast.wire.basics import Instant
from holdfast.wire.changes import ChangeAnswer, Counts

MAX_LABEL_CHARS: Final = 128

Label = Annotated[str, msgspec.Meta(max_length=MAX_LABEL_CHARS)]


class SnapshotRequest(msgspec.Struct, kw_only=True):
    """A snapshot to take."""

    label: Label | None = None
    reason: str | None = None
    pin: bool | None = None
    expected: str | None = None
    """The snapshot that the head has to show still."""
    expires_in_seconds: int | None = None
    """How long it is kept without a pin; else as long as retention says."""
    task_id: str | None = None
    trace_id: str | None = None


class SnapshotAnswer(msgspec.Struct, kw_only=True):
    """A snapshot."""

    snapshot_id: str
    namespace: str
    label: str | None
    size_bytes: int
    created_at: Instant
    number: int
    kind: str
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


class RestoreRequest(msgspec.Struct, kw_only=True):
    """How a snapshot is to be brought back; without any of it, wholly."""

    planes: list[str] | None = None
    paths: list[str] | None = None
    """Files and directories, with or without `workspace/`; `*`, `?` and `[` make a pattern."""
    names: list[Name] | None = None
    """Single entries of any plane, to the letter; each item of `changes` is one."""
    except_: list[Name] | None = msgspec.field(default=None, name="except")
    """Entries that are left as they are, whatever else is selected."""
    dry_run: bool | None = None
    reason: str | None = None
    expected: str | None = None
    limit: int | None = None
    """How many changes the answer lists at the most: 1,000 if it does not say, 0 for none."""


class RestoreAnswer(msgspec.Struct, kw_only=True):
    """What a restore did, or with `dry_run` would do."""

    snapshot_id: str
    """What was brought back."""
    files_restored: int
    """How many files and links a listing shows now; of a part, those that were put in place."""
    changed: dict[str, int]
    """How many entries of each plane changed, listed or not."""
    truncated: bool
    """Whether there are more changes than are listed."""
    snapshot: SnapshotAnswer | None
    """The new snapshot on the timeline; null after a dry run."""
    safety_snapshot_id: str | None
    """The snapshot that keeps what was there before."""
    verified: bool
    dry_run: bool
    changes: list[ChangeAnswer]
    """What changed, as far as it is listed."""
    root: str
    """The hash over all that is there now."""
    files: int | None
    """How many files, links and empty directories were brought back; null if not all were."""
    kept: list[str]
    """Directories that had to stay, as something lies in them that is not captured."""
    uncovered: list[str] = []
    """What a directory's rules had excluded until now: it was left alone."""
    uncaptured: list[str] = []
    """Paths that the snapshot should hold and could not capture: it is partial."""
    partial: bool = False
    """Whether there are such paths; what was imported may be without having their names."""
    in_motion: list[str] = []
    """Files that somebody could write to when they were captured: each may be a mixture."""
    left_alone: list[str] = []
    """Planes that were asked for and are as they were: the snapshot is older than they are."""
    counts: Counts | None = None
    """How many entries of each plane were `added`, `removed` and `changed`, listed or not."""
    left: list[str] = []
    """What stays as others made it after the task that was taken back, each with its plane."""
    by_snapshots: bool = False
    """Whether all that lies between a task's two snapshots counted as the task's own."""


class SnapshotList(msgspec.Struct, kw_only=True):
    """Snapshots, newest first; with `has_more`, older ones follow."""

    snapshots: list[SnapshotAnswer]
    has_more: bool


class SnapshotDeletedAnswer(msgspec.Struct, kw_only=True):
    """A snapshot that is off the timeline."""

    snapshot_id: str
    deleted: bool


class LabelRequest(msgspec.Struct, kw_only=True):
    """Another label for a snapshot; null takes it away."""

    label: Label | None = None
