"""Snapshots: take one, find one, bring one back, keep it, take it off the timeline."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, fields
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

import msgspec

from holdfast.errors import InvalidValue, SnapshotNotFound
from holdfast.ids import is_snapshot_id
from holdfast.model.basics import (
    Kind,
    Metadata,
    SnapshotInfo,
    SnapshotLike,
    checked_metadata,
    id_of,
)
from holdfast.model.changes import Restored
from holdfast.model.marks import Named, Shape, Text
from holdfast.model.names import Name, check_names
from holdfast.model.timelines import SnapshotsPage
from holdfast.operations.choices import (
    SHOWN,
    Listed,
    Number,
    Paths,
    Planes,
    RootId,
    check_chosen,
)
from holdfast.operations.operation import Arguments, Operation, Paged
from holdfast.progress import Progress, no_progress

MAX_LABEL_CHARS: Final = 128
MAX_TEXT_CHARS: Final = 4096
NEWEST: Final = "latest"
LONGEST: Final = timedelta(days=365_000)
"""How long a snapshot may be kept without a pin: calendars end in the year 9999."""

Label = Annotated[str, Text(MAX_LABEL_CHARS), msgspec.Meta(max_length=MAX_LABEL_CHARS)]
Said = Annotated[str, Text(MAX_TEXT_CHARS)]


class Note(Arguments):
    """What a snapshot is called, why there is one, and how long it shall stay."""

    label: Label | None = None
    _: KW_ONLY
    reason: Said | None = None
    task_id: Said | None = None
    trace_id: Said | None = None
    pin: bool = False
    expires_in: timedelta | None = None
    metadata: Metadata | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metadata is not None:
            object.__setattr__(self, "metadata", checked_metadata(self.metadata))
        if self.expires_in is not None and not timedelta(0) < self.expires_in <= LONGEST:
            raise InvalidValue("expires_in is longer than no time at all, and at most 1000 years")


NOTHING_SAID: Final = Note()


class TakeSnapshot(
    Note, Operation[SnapshotInfo], post="/v1/snapshots", status=201, needs_body=False
):
    """Captures everything as it is now, in one atomic step.

    With `expected`, only if the head still shows that snapshot; else raises `HeadMoved`.
    """

    _: KW_ONLY
    expected: SnapshotLike | None = None


class TakeOfDirectory(Note):
    """How a directory becomes a snapshot: by `rules`, or by what `.holdfastignore` says."""

    _: KW_ONLY
    rules: bytes | None = None
    progress: Progress = no_progress


class PushOfDirectory(TakeOfDirectory):
    """How a directory becomes a snapshot of a server: with `overwrite`, whatever that has."""

    _: KW_ONLY
    overwrite: bool = False


def note_of(given: Note) -> Note:
    """Returns what is said of a snapshot, without the rest that was asked for."""
    return Note(**{each.name: getattr(given, each.name) for each in fields(Note)})


def said_of(note: Note) -> dict[str, Any]:
    """Returns what a note says that a snapshot has as a field of its own."""
    return {name: value for name in _SAID if (value := getattr(note, name)) is not None}


_SAID: Final = [each.name for each in fields(Note) if each.name in SnapshotInfo.__annotations__]


# Finding them


def _whole(name: str) -> str:
    # What is brought back or taken off is named in full: tomorrow, two may begin like that.
    if name != NEWEST and not is_snapshot_id(name):
        raise SnapshotNotFound(name)
    return name


AnySnapshot = Annotated[SnapshotLike, Named("snapshot_id")]
WholeId = Annotated[SnapshotLike, Named("snapshot_id"), Shape(str, id_of, _whole)]
"""A snapshot that a request names by its whole id, or as the newest."""


class Choice(Arguments):
    """Which snapshots of a timeline are meant."""

    _: KW_ONLY
    limit: int | None = None
    metadata: Metadata | None = None
    label: Label | None = None
    task_id: Said | None = None
    trace_id: Said | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metadata is not None:
            object.__setattr__(self, "metadata", checked_metadata(self.metadata))

    def means(self, snapshot: SnapshotInfo) -> bool:
        """Says whether one is among them: it is called so, and has all of the `metadata`."""
        return (
            self.label in (None, snapshot.label)
            and self.task_id in (None, snapshot.task_id)
            and self.trace_id in (None, snapshot.trace_id)
            and (self.metadata or {}).items() <= snapshot.metadata.items()
        )


class ListSnapshots(Choice):
    """Which of the snapshots that were taken on purpose are listed; or of `all`."""

    _: KW_ONLY
    before: Number | None = None
    all: bool = False

    def means(self, snapshot: SnapshotInfo) -> bool:
        """Says whether one was taken on purpose, and is among them."""
        return (self.all or snapshot.kind is Kind.SNAPSHOT) and super().means(snapshot)


class GetSnapshots(
    ListSnapshots,
    Operation[SnapshotsPage],
    get="/v1/snapshots",
    part=Paged("before", "number", usual=200, most=200),
):
    """Returns the snapshots that were taken on purpose, newest first.

    `before` continues below a `number`. With `all`, those that undo and restore left are listed,
    too; with `metadata`, only those that have all of these pairs, and with `label`, `task_id` or
    `trace_id` those that have exactly that. A search ends after a third of a second, too: it may
    be without snapshots then, and `next_before` goes on.
    """


class GetSnapshot(Operation[SnapshotInfo], get="/v1/timeline/{snapshot_id}"):
    """Returns one snapshot as it is on the timeline now.

    By whatever means it: its id, a unique beginning of it, `latest`, `@` or `@-2`.
    """

    snapshot: AnySnapshot


class ShowSnapshot(Operation[SnapshotInfo], get="/v1/snapshots/{snapshot_id}"):
    """Returns one snapshot, by its whole id."""

    snapshot: WholeId


# Keeping and forgetting


class PinSnapshot(Operation[SnapshotInfo], post="/v1/snapshots/{snapshot_id}/pin"):
    """Keeps a snapshot until it is unpinned."""

    snapshot: WholeId


class UnpinSnapshot(Operation[SnapshotInfo], delete="/v1/snapshots/{snapshot_id}/pin"):
    """Lets a snapshot expire again, a full term from now."""

    snapshot: WholeId


class LabelSnapshot(Operation[SnapshotInfo], patch="/v1/snapshots/{snapshot_id}"):
    """Gives a snapshot another label, or none."""

    snapshot: WholeId
    label: Label | None


class DeleteSnapshot(
    Operation[None],
    delete="/v1/snapshots/{snapshot_id}",
    done="deleted",
    repeats=("snapshot",),
):
    """Takes a snapshot off the timeline; `recover_snapshot` brings it back for a while.

    On a server, that is for an operator to do.
    """

    snapshot: WholeId


# Going back


Keep = Literal["mine"]
"""What stays in a restore: `mine` is what was changed since, and by no task."""


class Restore(Arguments):
    """How a snapshot is brought back: all of it, or what matches some paths or is named."""

    snapshot: WholeId
    _: KW_ONLY
    paths: Paths | None = None
    names: Sequence[Name] | None = None
    except_: Annotated[Sequence[Name] | None, Named("except")] = None
    dry_run: bool = False
    limit: Listed = SHOWN
    reason: Said | None = None
    keep: Keep | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        is_part = self.paths is not None or self.names is not None or self.except_ is not None
        if self.keep is not None and is_part:
            raise InvalidValue("keep is for a whole restore: leave paths, names and except_ out")
        check_chosen("path", self.paths)
        for kind, names in (("names", self.names), ("except_", self.except_)):
            check_names(kind, names or ())


class RestoreSnapshot(
    Restore,
    Operation[Restored],
    post="/v1/snapshots/{snapshot_id}/restore",
    needs_body=False,
):
    """Brings a snapshot back: all planes, some, or what matches some paths or is named.

    Of all that, nothing that is in `except_`. What is there now is kept as a snapshot first.
    `dry_run` says what would change and changes nothing. At most `limit` changes are listed;
    None lists all, a server as many as fit into an answer. With `keep="mine"`, what tasks changed
    since goes back, and what anybody else did stays: `left` names what both have changed. With
    `expected`, only if the head still shows that snapshot, and with `expected_root`, the
    `old_root` that a look answered, only if nothing else is there, pending included; else raises
    `HeadMoved`.
    """

    _: KW_ONLY
    planes: Planes | None = None
    expected: SnapshotLike | None = None
    expected_root: RootId | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep is not None and self.planes is not None:
            raise InvalidValue("keep is for a whole restore: leave planes out")
        check_chosen("plane", self.planes)


Drift = Literal["capture", "refuse"]
"""What to do with what is in the directory and in no snapshot: take one first, or refuse."""


class RestoreOfDirectory(Restore):
    """How a snapshot is brought back into a directory."""

    _: KW_ONLY
    force: bool = False
    drift: Drift = "capture"
    rules: bytes | None = None
    progress: Progress = no_progress
