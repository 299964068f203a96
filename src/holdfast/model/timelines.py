"""Answers about a timeline: a part of it, and what differs between two of its moments in numbers.

As in `model`: frozen, without behaviour beyond what follows from their fields.
"""

from typing import Annotated

import msgspec

from holdfast.jsontext import legible
from holdfast.model.basics import Counts, Size, SnapshotInfo
from holdfast.model.marks import FLAT, HERE, UNSAID, Shape


class TimelinePage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a timeline, and where its namespace stands."""

    namespace: Annotated[str | None, HERE] = None
    snapshots: list[SnapshotInfo]
    """Newest first."""
    has_more: bool
    """Whether there is more to look at."""
    next_before: int | None
    """Where it goes on: `before` of the next request; None if nothing follows."""
    searched_to: int | None
    """The number of the oldest snapshot that was looked at; None if there was none."""
    dirty: bool
    """Whether anything was written since the snapshot that the head stands on."""
    size: Annotated[Size, FLAT]
    total: Annotated[int | None, UNSAID] = None
    """How many snapshots there are, whichever were asked for."""


class SnapshotsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of those snapshots that were taken on purpose."""

    snapshots: list[SnapshotInfo]
    """Newest first."""
    has_more: bool
    """Whether there is more to look at."""
    next_before: int | None
    """Where it goes on: `before` of the next request; None if nothing follows."""


class FolderCount(msgspec.Struct, frozen=True, kw_only=True):
    """How much differs in one folder."""

    path: Annotated[str, Shape(str, legible)]
    """From the root of the namespace; empty for the root itself."""
    added: int
    removed: int
    changed: int


class FolderCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much differs between two moments, folder by folder."""

    namespace: Annotated[str | None, HERE] = None
    folders: list[FolderCount]
    """Those in which files differ, in the order of their paths."""
    truncated: bool
    """Whether there are more of them, or it would have taken too long to count all."""
    counts: Annotated[Counts | None, UNSAID] = None
    """How many entries of each plane were `added`, `removed` and `changed`, also where folders are
    left out; None if it would have taken too long."""
