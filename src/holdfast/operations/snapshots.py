"""Snapshots: take one, find one, bring one back, keep it, take it off the timeline."""

from dataclasses import KW_ONLY, fields
from datetime import timedelta
from typing import Annotated, Final

import msgspec

from holdfast.errors import InvalidValue
from holdfast.model.basics import SnapshotInfo, SnapshotLike
from holdfast.model.marks import Text
from holdfast.operations.operation import Arguments, Operation
from holdfast.progress import Progress, no_progress

MAX_LABEL_CHARS: Final = 128
MAX_TEXT_CHARS: Final = 4096
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.expires_in is not None and not timedelta(0) < self.expires_in <= LONGEST:
            raise InvalidValue("expires_in is longer than no time at all, and at most 1000 years")


NOTHING_SAID: Final = Note()


class TakeSnapshot(Note, Operation[SnapshotInfo], post="/v1/snapshots", status=201):
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
