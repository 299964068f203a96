"""Snapshots and the timeline, where a server says more than a namespace, or sets bounds."""

from dataclasses import replace
from typing import Final

from msgspec import structs

from holdfast.engine.files.browsing import count_files
from holdfast.engine.namespace import Namespace
from holdfast.engine.timeline.comparison import COUNT_TIME, Place, read_cursor
from holdfast.entries import Directory
from holdfast.jsontext import legible
from holdfast.model.basics import Plane, SnapshotInfo
from holdfast.model.changes import ChangesPage, Forked, History, MergeResult, TextsPage
from holdfast.model.names import Name
from holdfast.model.timelines import FolderCounts, SnapshotsPage, TimelinePage
from holdfast.operations.snapshots import (
    NEWEST,
    DeleteSnapshot,
    GetSnapshots,
    RestoreSnapshot,
    ShowSnapshot,
)
from holdfast.operations.timeline import (
    CountFolders,
    ForkNamespace,
    GetChanges,
    GetHistory,
    GetTextDiff,
    GetTextDiffs,
    GetTimeline,
    MergeNamespace,
    RedoChange,
    UndoChange,
    called,
)
from holdfast.server.dialects import Answered, Dialect, Exchange, Speech
from holdfast.server.doors import answers, routes_of
from holdfast.server.paging import page_size
from holdfast.server.problems import Unfit
from holdfast.server.requests import Caller
from holdfast.server.routing import Route
from holdfast.server.stopping import IsGone


@answers(ShowSnapshot)
def show(agent: Namespace, asked: ShowSnapshot) -> SnapshotInfo:
    """Returns one snapshot."""
    return agent.get_snapshot(asked.snapshot)


@answers(GetSnapshots)
def list_(agent: Namespace, asked: GetSnapshots) -> SnapshotsPage:
    """Returns as many of those taken on purpose as can be searched for quickly."""
    most = page_size(asked)
    # One more than are wanted, which says that they are not all.
    found = agent.comparing.page_of_snapshots(replace(asked, limit=most + 1))
    shown = found[:most]
    goes_on = shown[-1].number if len(found) > most else found.before
    return SnapshotsPage(snapshots=shown, has_more=goes_on is not None, next_before=goes_on)


@answers(GetTimeline)
def timeline(agent: Namespace, asked: GetTimeline, *, caller: Caller) -> TimelinePage:
    """Returns as much of a timeline as can be searched quickly."""
    most = page_size(asked)
    found = agent.comparing.page_of_timeline(replace(asked, limit=most))
    standing = agent.status()
    return TimelinePage(
        snapshots=[_within_reach(caller, each) for each in found],
        has_more=found.before is not None,
        next_before=found.before,
        searched_to=found.searched_to,
        dirty=standing.dirty,
        size=standing.size,
        total=found.total,
    )


def _within_reach(caller: Caller, snapshot: SnapshotInfo) -> SnapshotInfo:
    """Returns a snapshot without the names of forks that a locked key does not open."""
    if caller.key.namespace is None or not snapshot.forks:
        return snapshot
    return structs.replace(snapshot, forks=[])


@answers(GetHistory)
def history(agent: Namespace, asked: GetHistory) -> History:
    """Returns as much of a history as can be told quickly."""
    return agent.comparing.page_of_history(
        Name(asked.plane, asked.name, asked.namespace, asked.key, asked.name_b64),
        limit=page_size(asked),
        before=asked.before,
    )


@answers(GetChanges)
def diff(agent: Namespace, asked: GetChanges) -> ChangesPage:
    """Returns a part of what differs."""
    most = page_size(asked)
    after = _after(asked.cursor)
    return agent.comparing.page(asked, after=after, most=most, time=COUNT_TIME)


@answers(CountFolders)
def diff_folders(agent: Namespace, asked: CountFolders) -> FolderCounts:
    """Returns how much differs, folder by folder."""
    return agent.comparing.folders(asked, time=COUNT_TIME)


@answers(GetTextDiff)
def text_diff(agent: Namespace, asked: GetTextDiff, *, is_gone: IsGone) -> str:
    """Returns how one file differs."""
    return legible(agent.comparing.text(asked, is_over=is_gone))


@answers(GetTextDiffs)
def text_diffs(agent: Namespace, asked: GetTextDiffs, *, is_gone: IsGone) -> TextsPage:
    """Returns a part of what differs, and how."""
    most = page_size(asked)
    after = _after(asked.cursor)
    return agent.comparing.page_of_texts(asked, after=after, most=most, is_over=is_gone)


@answers(ForkNamespace)
def fork(agent: Namespace, asked: ForkNamespace, *, caller: Caller) -> Forked:
    """Forks a namespace into another that the key reaches."""
    caller.check_namespace(asked.name)
    made = agent.fork(asked.name, at=asked.at)
    newest = made.timeline(limit=1)
    return Forked(
        namespace=made.name,
        forked_from=agent.name,
        snapshot=structs.replace(newest[0], namespace=made.name) if newest else None,
    )


@answers(MergeNamespace)
def merge(agent: Namespace, asked: MergeNamespace, *, caller: Caller) -> MergeResult:
    """Merges another namespace that the key reaches."""
    source = called(asked.other)
    caller.check_namespace(source)
    most = page_size(asked)  # Refused before it is done.
    merged = agent.merge(source, prefer=asked.prefer)
    return MergeResult(snapshot=merged.snapshot, changes=merged.changes.first(most))


def _after(cursor: str | None) -> Place | None:
    try:
        return None if cursor is None else read_cursor(cursor)
    except ValueError as exc:
        raise Unfit("cursor is the next_cursor of an answer", param="cursor") from exc


def _files_restored(exchange: Exchange) -> int:
    """Returns how many files and links there are now; of a part, those that were put in place."""
    agent, asked, made = exchange.agent, exchange.asked, exchange.made
    is_part = isinstance(asked, RestoreSnapshot) and made.files is None
    if is_part or (isinstance(asked, UndoChange) and asked.task is not None):
        return sum(
            change.plane is Plane.FILES and not isinstance(change.new, Directory | None)
            for change in made.changes
        )
    if made.snapshot is not None:
        return agent.comparing.count_files(made.snapshot)
    return count_files(agent.at(made.target).files)


def _hear_newest(exchange: Exchange) -> None:
    """Who deletes the newest one is told which it was."""
    if exchange.said["snapshot_id"] == NEWEST:
        exchange.said["snapshot_id"] = exchange.agent.get_snapshot(NEWEST).id


_COUNTED: Final = [Speech(tells={"files_restored": Answered(int, _files_restored)})]
_BESIDE: Final = Dialect(
    operations={
        DeleteSnapshot: [Speech(hears=_hear_newest)],
        RestoreSnapshot: _COUNTED,
        UndoChange: _COUNTED,
        RedoChange: _COUNTED,
    }
)
"""What only a server says, in the same object."""

ROUTES: Final[list[Route]] = [
    *routes_of(Namespace, lambda agent: agent, dialect=_BESIDE, without=[CountFolders]),
    show,
    list_,
    timeline,
    history,
    diff,
    diff_folders,
    text_diff,
    text_diffs,
    fork,
    merge,
]
