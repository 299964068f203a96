"""Requests and answers about the timeline: comparing, going back and forth, branching."""

import msgspec

from holdfast.wire.snapshots import SnapshotAnswer


class TimelineAnswer(msgspec.Struct, kw_only=True):
    """A namespace's snapshots, newest first, and where it stands."""

    namespace: str
    snapshots: list[SnapshotAnswer]
    has_more: bool
    dirty: bool
    """Whether there are changes that no snapshot holds yet."""
    entries: int
    size_bytes: int


class ChangeAnswer(msgspec.Struct, kw_only=True):
    """One entry that differs between two moments."""

    plane: str
    name: str
    change: str
    """`added`, `removed` or `changed`."""
    old_bytes: int | None
    new_bytes: int | None
    is_executable_config: bool
    """Whether programs run what this file says, without being asked to."""


class ChangesAnswer(msgspec.Struct, kw_only=True):
    """What leads from one moment to another."""

    namespace: str
    old: str | None
    new: str | None
    changes: list[ChangeAnswer]
    truncated: bool


class TextDiffAnswer(msgspec.Struct, kw_only=True):
    """A unified diff of one file."""

    path: str
    diff: str


class UndoRequest(msgspec.Struct, kw_only=True):
    """What to take back: the last change, or what one operation changed."""

    operation: str | None = None


class NamespaceForkRequest(msgspec.Struct, kw_only=True):
    """A namespace to make with the same content, as it is now or was at a snapshot."""

    name: str
    at: str | None = None


class NamespaceForkAnswer(msgspec.Struct, kw_only=True):
    """A namespace that was forked."""

    namespace: str
    forked_from: str
    snapshot: SnapshotAnswer | None


class MergeRequest(msgspec.Struct, kw_only=True):
    """Another namespace to bring in; `prefer` says who wins where both changed the same."""

    source: str
    prefer: str | None = None


class MergeAnswer(msgspec.Struct, kw_only=True):
    """What a merge did."""

    snapshot: SnapshotAnswer
    changes: list[ChangeAnswer]
    truncated: bool
