"""The timeline: look at it, compare moments, go back and forth, branch and join."""

from dataclasses import KW_ONLY
from typing import Annotated, Final, Literal, Protocol, runtime_checkable

import msgspec

from holdfast.model.basics import SnapshotLike, Standing, Timeline
from holdfast.model.changes import ChangesPage, Forked, History, MergeResult, Restored, TextsPage
from holdfast.model.marks import Named, Shape
from holdfast.model.names import FilePath, PathOrName
from holdfast.operations.choices import (
    LAST_NUMBER,
    SHOWN,
    Listed,
    Paths,
    Planes,
    check_chosen,
)
from holdfast.operations.operation import Arguments, Operation, Paged, Work
from holdfast.operations.snapshots import Choice
from holdfast.progress import Progress, no_progress

MOST_LINES: Final = 1_000_000
Prefer = Literal["ours", "theirs"]
"""Who wins where both sides of a merge changed the same thing."""

_NUMBER: Final = Shape(int | None, None, lambda number: number and min(max(number, 0), LAST_NUMBER))
Old = Annotated[SnapshotLike | None, Named("from")]
New = Annotated[SnapshotLike | None, Named("to")]
Lines = Annotated[int, msgspec.Meta(ge=0, le=MOST_LINES)]

PARTS: Final = Paged("before", "number", usual=50, most=200)
"""How snapshots are listed, and what happened to one name."""


class ListTimeline(
    Choice,
    Operation[Timeline],
    get="/v1/timeline",
    under="snapshots",
    paged=PARTS,
):
    """Returns the snapshots, newest first; `before` continues below a `number`.

    With `metadata`, only those that have all of these pairs.
    """

    _: KW_ONLY
    before: Annotated[int | None, _NUMBER] = None


class GetStatus(Operation[Standing], get="/v1/status"):
    """Says where the namespace stands, without listing anything."""


class Historic(Arguments):
    """One thing, a path or what a `Name` names, and how much of what happened to it."""

    name: PathOrName
    _: KW_ONLY
    limit: int | None = None
    before: int | None = None


class GetHistory(Operation[History], get="/v1/history", work=Work.COSTLY):
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
    before: Annotated[int, msgspec.Meta(ge=0, le=LAST_NUMBER)] | None = None


# Comparing


class Compare(Arguments):
    """Two moments: without `old` the snapshot that the head stands on, without `new` now."""

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

    def __post_init__(self) -> None:
        super().__post_init__()
        check_chosen("plane", self.planes)


class GetChanges(Diff, Operation[ChangesPage], get="/v1/diff"):
    """Returns what leads from one moment to another; `plane` and `path` narrow it down.

    `cursor` is the `next_cursor` of the answer before.
    """

    _: KW_ONLY
    cursor: str | None = None


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
    back; with `keep_mine`, that stays and the rest goes back. `dry_run` says what taking a
    task back would change, and changes nothing.
    """


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


class MergeNamespace(Merge, Operation[MergeResult], post="/v1/merge"):
    """Brings in what a fork of this namespace (or its origin) has changed.

    Raises `MergeConflict`, with nothing applied, where both changed the same thing; with
    `prefer`, that side wins.
    """

    _: KW_ONLY
    limit: int | None = SHOWN
