"""Requests and answers about the timeline: comparing, going back and forth, branching."""

import msgspec

from holdfast.model.names import Name
from holdfast.wire.changes import ChangeAnswer, Counts
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


class ChangesAnswer(msgspec.Struct, kw_only=True):
    """What leads from one moment to another."""

    namespace: str
    old: str | None
    new: str | None
    changes: list[ChangeAnswer]
    truncated: bool
    next_cursor: str | None
    """Where it goes on: `cursor` of the next request; null if nothing follows."""


class StepAnswer(msgspec.Struct, kw_only=True):
    """Something that happened to one thing."""

    change: str
    """`added`, `removed` or `changed`."""
    snapshot: SnapshotAnswer | None
    """The first that shows it; null for what is in none yet."""
    previous: str | None
    """The snapshot before that one, which still shows it as it was; null if there is none."""
    gone: int
    """How many snapshots between the two are no longer there: it may be older than `snapshot`."""
    old_bytes: int | None
    """The size before; null if it was not there, or was a directory."""
    new_bytes: int | None
    """The size after; null if it is not there, or is a directory."""
    entries: int
    """How many entries changed: 1, but in a directory. 1,000 stands for that many or more."""


class HistoryAnswer(msgspec.Struct, kw_only=True):
    """What happened to one thing, newest first."""

    namespace: str
    name: Name
    steps: list[StepAnswer]
    searched_to: int | None
    """The number of the oldest snapshot that was looked at; null if there was none."""
    next_before: int | None
    """Where it goes on: `before` of the next request; null if nothing older is there.

    There may be more behind a page without steps: none is looked for at any length."""


class StatusAnswer(msgspec.Struct, kw_only=True):
    """Where a namespace stands."""

    namespace: str
    exists: bool
    """Whether anything was ever written to it; if not, it is empty."""
    dirty: bool
    """Whether there are changes that no snapshot holds yet."""
    entries: int
    size_bytes: int
    position: str | None
    """The snapshot that the head stands on; null if there is none, or it is gone."""


class TextDiffAnswer(msgspec.Struct, kw_only=True):
    """A unified diff of one file."""

    path: str
    diff: str


class ChangeTextAnswer(msgspec.Struct, kw_only=True):
    """One entry that differs, and how."""

    change: ChangeAnswer
    diff: str


class TextDiffsAnswer(msgspec.Struct, kw_only=True):
    """Unified diffs of all that leads from one moment to another."""

    namespace: str
    diffs: list[ChangeTextAnswer]
    next_cursor: str | None
    """Where it goes on: `cursor` of the next request; null if nothing follows."""


class UndoRequest(msgspec.Struct, kw_only=True):
    """What to take back: the last change, or what one operation or one task changed."""

    operation: str | None = None
    task: str | None = None
    """The id of a task: what it changed goes back, and nothing else."""
    keep_mine: bool = False
    """Of a task: what others changed since stays, and the rest goes back."""
    dry_run: bool = False
    """Of a task: says what would change, and changes nothing."""
    limit: int | None = None
    """How many changes the answer lists at the most: 1,000 if it does not say, 0 for none."""


class RedoRequest(msgspec.Struct, kw_only=True):
    """How the last undo is taken back."""

    limit: int | None = None
    """How many changes the answer lists at the most: 1,000 if it does not say, 0 for none."""


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
    limit: int | None = None
    """How many changes the answer lists at the most: 1,000 if it does not say."""


class MergeAnswer(msgspec.Struct, kw_only=True):
    """What a merge did."""

    snapshot: SnapshotAnswer
    changes: list[ChangeAnswer]
    truncated: bool
    """Whether there are more changes than are listed."""
    counts: Counts | None = None
    """How many entries of each plane were `added`, `removed` and `changed`, listed or not."""
