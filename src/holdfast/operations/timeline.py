"""The timeline: look at it, compare moments, go back and forth, branch and join."""

from collections.abc import Sequence
from dataclasses import KW_ONLY
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, Literal, Protocol, runtime_checkable

import msgspec

from holdfast.errors import InvalidValue, shorten
from holdfast.model.basics import Kind, SnapshotInfo, SnapshotLike, Standing
from holdfast.model.changes import ChangesPage, Forked, History, MergeResult, Restored, TextsPage
from holdfast.model.marks import Named, Shape, Text
from holdfast.model.names import FilePath, PathOrName
from holdfast.model.tasks import TaskStatus
from holdfast.model.timelines import FolderCounts, TimelinePage
from holdfast.operations.choices import (
    LAST_NUMBER,
    MOST_CHANGES,
    SHOWN,
    Listed,
    Number,
    Paths,
    Planes,
    RootId,
    check_chosen,
    check_zone,
)
from holdfast.operations.operation import Arguments, Operation, Paged, Work
from holdfast.operations.snapshots import Choice
from holdfast.progress import Progress, no_progress

MOST_LINES: Final = 1_000_000
MOST_FOLDERS: Final = 1000
MOST_DEPTH: Final = 1000
Prefer = Literal["ours", "theirs"]
"""Who wins where both sides of a merge changed the same thing."""

Old = Annotated[SnapshotLike | None, Named("from")]
New = Annotated[SnapshotLike | None, Named("to")]
Lines = Annotated[int, msgspec.Meta(ge=0, le=MOST_LINES)]

NOTHING: Final = "nothing"
"""What a comparison calls the state before the first snapshot: all that is there was added."""

PARTS: Final = Paged("before", "number", usual=50, most=200)
"""How snapshots are listed, and what happened to one name."""


CHANGES: Final = Paged("cursor", None, usual=SHOWN, most=MOST_CHANGES)
TEXTS: Final = Paged("cursor", None, usual=100, most=1000)
"""How changes are listed, and those with their text diffs: a page ends earlier where these become
long."""

MAX_SOUGHT_CHARS: Final = 256
BESIDE: Final = ("changes", "task", "actor")
"""What a timeline tells beside its snapshots."""

_Words = Annotated[str, Text(MAX_SOUGHT_CHARS)]
_MEMBER: Final = Shape(str | None, str)


def _read_words(text: str | None) -> list[str] | None:
    return None if text is None else [word for word in text.split(",") if word]


_BESIDE: Final = Shape(str | None, ",".join, _read_words)


class ListTimeline(Choice):
    """Which snapshots of a timeline are listed, and what is told beside them."""

    _: KW_ONLY
    before: int | None = None
    q: _Words | None = None
    kind: Annotated[Kind | str | None, _MEMBER] = None
    actor: _Words | None = None
    task_status: Annotated[TaskStatus | str | None, _MEMBER] = None
    pinned: bool | None = None
    since: datetime | None = None
    until: datetime | None = None
    path: FilePath | None = None
    with_: Annotated[Sequence[str] | None, Named("with"), _BESIDE] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_member("kind", self.kind, Kind)
        _check_member("task_status", self.task_status, TaskStatus)
        if self.before is not None:
            object.__setattr__(self, "before", min(max(self.before, 0), LAST_NUMBER))
        check_zone("since", self.since)
        check_zone("until", self.until)
        if self.with_ is not None:
            object.__setattr__(self, "with_", tuple(self.with_))
        for word in self.with_ or ():
            if word not in BESIDE:
                message = f"with is some of {', '.join(BESIDE)}, not {shorten(str(word))}"
                raise InvalidValue(message)

    @property
    def words(self) -> list[str]:
        """What has to stand somewhere in what is said of a snapshot, in whatever case."""
        return (self.q or "").casefold().split()

    @property
    def names_others(self) -> bool:
        """Whether it takes more than the snapshots themselves: what their tasks and actors are."""
        return bool(self.q) or self.actor is not None or self.task_status is not None

    def means(self, snapshot: SnapshotInfo) -> bool:
        """Says whether one is among them, as far as the snapshot alone tells."""
        return (
            super().means(snapshot)
            and self.kind in (None, snapshot.kind)
            and self.pinned in (None, snapshot.pinned)
            and (self.since is None or snapshot.created_at >= self.since)
            and (self.until is None or snapshot.created_at < self.until)
        )


def _check_member(name: str, given: str | None, kind: type[StrEnum]) -> None:
    if given is not None and given not in {each.value for each in kind}:
        known = ", ".join(each.value for each in kind)
        message = f"{name} is one of {known}, not {shorten(given)}"
        raise InvalidValue(message)


class GetTimeline(ListTimeline, Operation[TimelinePage], get="/v1/timeline", part=PARTS):
    """Returns snapshots, newest first; `before` continues below a `number`.

    With `metadata`, only those that have all of these pairs; with `label`, `task_id` or `trace_id`,
    those that have exactly that, which are found by an index. Every word of `q` has to stand in
    their label, reason, task or actor; `kind`, `actor` (its id or name), `task_status`, `pinned`,
    `since`, `until` and `path`, which they have changed, choose further. Such a search ends after
    a third of a second, too: `searched_to` is how far it came, and `next_before` goes on. `with` is
    some of `changes`, `task` and `actor`: how much each changed, the task's name and status, the
    actor's name, and beside any of these the `forks` of each and the `total` of all.
    """


class GetStatus(Operation[Standing], get="/v1/status"):
    """Says where the namespace stands, without listing anything."""


class Historic(Arguments):
    """One thing, a path or what a `Name` names, and how much of what happened to it."""

    name: PathOrName
    _: KW_ONLY
    limit: int | None = None
    before: Number | None = None


class GetHistory(Operation[History], get="/v1/history", part=PARTS, work=Work.COSTLY):
    """Returns what happened to a file or directory, a value of the store, a session or memory.

    Newest first, and before that what is in no snapshot yet. `before` is the `next_before` of the
    answer before, which may be without steps and yet not the last.
    """

    plane: str = "files"
    name: str | None = None
    namespace: str | None = None
    key: str | None = None
    name_b64: str | None = None
    _: KW_ONLY
    limit: int | None = None
    before: Number | None = None


# Comparing


class Compare(Arguments):
    """Two moments: without `old` the snapshot that the head stands on, without `new` now.

    `nothing` is the one before the first snapshot.
    """

    old: Old = None
    new: New = None
    _: KW_ONLY
    paths: Annotated[Paths | None, Named("path")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_chosen("path", self.paths)


class Diff(Compare):
    """What leads from one moment to another: all of it, or in some planes or under some paths."""

    _: KW_ONLY
    planes: Annotated[Planes | None, Named("plane")] = None
    limit: int | None = None
    counts: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_chosen("plane", self.planes)


class GetChanges(Diff, Operation[ChangesPage], get="/v1/diff", part=CHANGES):
    """Returns what leads from one moment to another; `plane` and `path` narrow it down.

    From `nothing`, everything was added. `cursor` is the `next_cursor` of the answer before. With
    `counts`, an answer says how much there is in all, unless that takes more than a second to
    count.
    """

    _: KW_ONLY
    cursor: str | None = None


class CountFolders(Compare, Operation[FolderCounts], get="/v1/diff/folders", work=Work.COSTLY):
    """Returns how much differs between two moments, folder by folder; `path` narrows it down.

    A file counts for the folder that it lies in; with `depth`, for the one so many levels below the
    root. At most `limit` folders are told; a server counts for a second at the most.
    """

    _: KW_ONLY
    depth: Annotated[int, msgspec.Meta(ge=0, le=MOST_DEPTH)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_FOLDERS)] = MOST_FOLDERS


class GetTextDiff(
    Operation[str],
    get="/v1/diff/text",
    under="diff",
    repeats=("path",),
    work=Work.COSTLY,
):
    """Returns a unified diff of one file between two moments; empty if nothing differs.

    What is larger than 1 MiB, or no text, gets a line that says so. On a server, texts that would
    take more than two seconds to compare get a coarse one, which says so.
    """

    path: FilePath
    old: Old = None
    new: New = None
    _: KW_ONLY
    context_lines: Lines = 3


class TextDiffs(Compare):
    """Every change between two moments, with its unified diff."""

    _: KW_ONLY
    context_lines: Lines = 3


class GetTextDiffs(
    TextDiffs,
    Operation[TextsPage],
    get="/v1/diff/texts",
    part=TEXTS,
    work=Work.COSTLY,
    is_slow=True,
):
    """Returns every change between two moments with its unified diff; `path` narrows it down.

    A page ends at 1 MiB of text and after 2 seconds, too; `cursor` is the `next_cursor` of the
    answer before.
    """

    _: KW_ONLY
    limit: int | None = None
    cursor: str | None = None


# Going back, and forth


class Undo(Arguments):
    """What to take back: the last change, or what one operation or one task changed."""

    operation: SnapshotLike | None = None
    _: KW_ONLY
    task: str | None = None
    keep_mine: bool = False
    dry_run: bool = False
    limit: Listed = SHOWN


class UndoChange(Undo, Operation[Restored], post="/v1/undo", needs_body=False):
    """Takes the last change back; with an operation or a task, what that one changed.

    Where others changed the same as a task since, raises `OthersChanged`, with nothing taken
    back; with `keep_mine`, that stays and the rest goes back. `dry_run` says what taking the
    last change or a task back would change, and changes nothing. With `expected`, only if the
    head still shows that snapshot, and with `expected_root`, the `old_root` that a look answered,
    only if nothing else is there, pending included; else raises `HeadMoved`.
    """

    _: KW_ONLY
    expected: SnapshotLike | None = None
    expected_root: RootId | None = None


class RedoChange(Operation[Restored], post="/v1/redo", needs_body=False):
    """Takes the last undo back."""

    _: KW_ONLY
    limit: Listed = SHOWN


class UndoOfDirectory(Undo):
    """What to take back in a directory."""

    _: KW_ONLY
    force: bool = False
    progress: Progress = no_progress


# Branching


class ForkNamespace(Operation[Forked], post="/v1/fork", status=201):
    """Makes a new namespace with the same content, as it is now or was at a snapshot."""

    name: str
    _: KW_ONLY
    at: SnapshotLike | None = None


@runtime_checkable
class NamespaceLike(Protocol):
    """A namespace, embedded or on a server."""

    @property
    def name(self) -> str | None:
        """What it is called; None where a key says it."""
        ...


def called(other: NamespaceLike | str) -> str:
    """Returns what a namespace is called."""
    return other if isinstance(other, str) else other.name or ""


class Merge(Arguments):
    """What to bring in, and who wins where both sides changed the same thing."""

    other: Annotated[NamespaceLike | str, Named("source"), Shape(str, called)]
    _: KW_ONLY
    prefer: Prefer | None = None


class MergeNamespace(Merge, Operation[MergeResult], post="/v1/merge", part=CHANGES):
    """Brings in what a fork of this namespace (or its origin) has changed.

    Raises `MergeConflict`, with nothing applied, where both changed the same thing; with
    `prefer`, that side wins.
    """

    _: KW_ONLY
    limit: int | None = SHOWN
