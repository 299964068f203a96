"""Opens what leads from one moment of a namespace to another, whole or page by page.

A moment is a snapshot, or what is there now: then what is pending is folded in to be looked at,
and nothing is stored.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import dropwhile, islice
from typing import Final

from holdfast import tree
from holdfast.engine.core.paths import to_key, to_text
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.handle import Handle, looking_at
from holdfast.engine.timeline import history, listing, restore, snapshots
from holdfast.engine.timeline.counting import BATCH, Words, words_between
from holdfast.engine.timeline.diff import (
    collect_changes,
    is_folder_in,
    iter_changes,
    text_diff,
    to_changes,
)
from holdfast.engine.timeline.patches import make_patches
from holdfast.engine.timeline.selection import select
from holdfast.errors import PathNotFound
from holdfast.fetching import fetched
from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_ROOT, Plane, Root, SnapshotInfo, SnapshotLike, Timeline
from holdfast.model.changes import (
    WORDS,
    Change,
    ChangesPage,
    ChangeText,
    History,
    Patch,
    Tally,
    TextsPage,
    tally,
    to_counts,
)
from holdfast.model.names import Name
from holdfast.model.timelines import FolderCount, FolderCounts
from holdfast.operations.snapshots import ListSnapshots
from holdfast.operations.timeline import (
    NOTHING,
    Compare,
    CountFolders,
    Diff,
    GetChanges,
    GetTextDiff,
    GetTextDiffs,
    ListTimeline,
    TextDiffs,
)
from holdfast.tree import Edit

PAGE_CHARS: Final = 1 << 20
"""Once the texts of a page have so many characters, it ends."""

PAGE_TIME: Final = timedelta(seconds=0.5)
"""And once it took that long: with the last text, which has a bound of its own, two seconds."""

COUNT_TIME: Final = timedelta(seconds=1)
"""How long somebody who waits with others has all that differs counted."""

Place = tuple[Plane, bytes]
"""Where a change is: changes come in the order of planes and keys."""


class Comparing:
    """Two moments of a namespace, side by side."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def count_files(self, made: SnapshotInfo) -> int:
        """Returns how many files and links a snapshot shows that was made just now.

        It is not looked up again: nothing has been erased from it yet.
        """
        objects = self._handle.objects
        with looking_at(self._handle, made):
            return objects.count_files(objects.get_root(made.root).plane(Plane.FILES))

    @contextmanager
    def changes(
        self,
        wanted: Compare,
        *,
        planes: Sequence[Plane | str] | None = None,
        after: Place | None = None,
    ) -> Generator[tuple[StagedObjects, Iterator[Change]]]:
        """Opens the changes between two moments, in some planes or under some paths.

        With `after`, only those that come behind the one at that place.
        """
        parts = select(planes=planes, paths=wanted.paths).parts
        with self.roots(wanted.old, wanted.new) as (source, before, goal):
            found = iter_changes(source, before, goal, planes=parts)
            those = (c for c in found if (selects := parts[c.plane]) is None or selects(c.key))
            yield source, those if after is None else _behind(those, after)

    @contextmanager
    def roots(
        self, old: SnapshotLike | None, new: SnapshotLike | None
    ) -> Generator[tuple[StagedObjects, Root, Root]]:
        """Opens the roots of two moments, with what is needed to read below them."""
        before, after = self._chosen(old), self._chosen(new)
        with restore.folded_head(self._handle) as (_, folded):
            source = folded.source
            base = _root(old, before, now=folded.head.root)
            goal = _root(new, after, now=folded.root_id)
            yield source, source.get_root(base), source.get_root(goal)

    @contextmanager
    def words(
        self, wanted: Compare, *, planes: Sequence[Plane | str] | None = None
    ) -> Generator[Words]:
        """Opens what happened to which keys between two moments, for who counts."""
        parts = select(planes=planes, paths=wanted.paths).parts
        with self.roots(wanted.old, wanted.new) as (source, before, goal):
            yield (
                (plane, key, word if (selects := parts[plane]) is None or selects(key) else None)
                for plane, key, word in words_between(source, before, goal, parts)
            )

    @fetched
    def count(self, wanted: Diff, *, time: timedelta | None = None) -> Tally | None:
        """Returns how much differs in all; None if it takes longer than that."""
        every, is_over = Counter[tuple[Plane, str]](), self._ending(time)
        with self.words(wanted, planes=wanted.planes) as found:
            while batch := [*islice(found, BATCH)]:
                every.update((plane, word) for plane, _, word in batch if word is not None)
                if is_over():
                    return None
        return every

    @fetched
    def folders(self, wanted: CountFolders, *, time: timedelta | None = None) -> FolderCounts:
        """Returns how much differs in each folder, as far as that can be told in a time."""
        every, is_over = Counter[tuple[Plane, str]](), self._ending(time)
        folders, is_cut, is_late = defaultdict[bytes, Counter[str]](Counter), False, False
        with self.words(wanted) as found:
            while not is_late and (batch := [*islice(found, BATCH)]):
                for plane, key, word in batch:
                    if word is not None:
                        every[plane, word] += 1
                    if word is None or plane is not Plane.FILES:
                        continue
                    folder = _folder(key, wanted.depth)
                    if folder in folders or len(folders) < wanted.limit:
                        folders[folder][word] += 1
                    else:
                        is_cut = True
                is_late = is_over()
        counts = [
            FolderCount(path=to_text(folder), **{word: words[word] for word in WORDS})
            for folder, words in sorted(folders.items())
        ]
        return FolderCounts(
            folders=counts,
            truncated=is_cut or is_late,
            counts=None if is_late else to_counts(every),
        )

    def _ending(self, time: timedelta | None) -> Callable[[], bool]:
        clock = self._handle.context.clock
        stop = None if time is None else clock() + time
        return lambda: stop is not None and clock() >= stop

    def page_of_timeline(self, wanted: ListTimeline) -> Timeline:
        """Returns as much of a timeline as can be searched quickly."""
        return listing.timeline(self._handle, wanted, time=listing.PAGE_TIME)

    def page_of_snapshots(self, wanted: ListSnapshots) -> Timeline:
        """Returns as many of those taken on purpose as can be searched for quickly."""
        return listing.snapshots(self._handle, wanted, time=listing.PAGE_TIME)

    @fetched
    def page(
        self, wanted: GetChanges, *, after: Place | None, most: int, time: timedelta | None = None
    ) -> ChangesPage:
        """Returns a part of what leads from one moment to another.

        Of that, also how much it is in all, if that was asked for and can be counted in a time.
        """
        # First, so that what means a snapshot means the same all the while.
        old, new = self._chosen(wanted.old), self._chosen(wanted.new)
        wanted = replace(wanted, old=old or wanted.old, new=new or wanted.new)
        with self.changes(wanted, planes=wanted.planes, after=after) as (_, found):
            # Counted page by page, what follows would be counted again and again.
            part = collect_changes(found, limit=most, counts=False)
        every: Tally | None = None
        if wanted.counts:
            is_all = after is None and not part.truncated
            every = tally(part) if is_all else self.count(wanted, time=time)
        return ChangesPage(
            old=old and old.id,
            new=new and new.id,
            changes=[*part],
            truncated=part.truncated,
            next_cursor=_cursor(part.items[-1]) if part.truncated else None,
            counts=None if every is None else to_counts(every),
        )

    def _chosen(self, snapshot: SnapshotLike | None) -> SnapshotInfo | None:
        if snapshot is None or snapshot == NOTHING:
            return None
        return snapshots.resolve(self._handle, snapshot)

    @fetched
    def text(self, wanted: GetTextDiff, *, is_over: Callable[[], bool] = lambda: False) -> str:
        """Returns the unified diff of one file; empty if nothing differs.

        Raises `PathNotFound` if neither moment has anything there.
        """
        key = to_key(wanted.path)
        with self.roots(wanted.old, wanted.new) as (source, before, after):
            maps = before.plane(Plane.FILES), after.plane(Plane.FILES)
            edit = Edit(key, *(tree.get(source, each, key) for each in maps))
            if edit.old is None and edit.new is None:
                if not any(is_folder_in(source, each, key) for each in maps):
                    raise PathNotFound(key)
                return ""
            change = next(to_changes(source, Plane.FILES, [edit], maps), None)
            if change is None:
                return ""
            return self._text(source, change, wanted.context_lines, is_over)

    @fetched
    def patches(self, wanted: TextDiffs) -> list[Patch]:
        """Returns every change between two moments with what it takes to do it again."""
        unify, lines = self._handle.context.unify, wanted.context_lines
        with self.changes(wanted) as (source, found):
            return make_patches(source, found, context_lines=lines, unify=unify)

    def page_of_history(self, name: Name, *, limit: int, before: int | None) -> History:
        """Returns as much of what happened to one thing as can be told quickly."""
        return history.page(self._handle, name, limit=limit, before=before, time=history.PAGE_TIME)

    @fetched
    def page_of_texts(
        self,
        wanted: GetTextDiffs,
        *,
        after: Place | None,
        most: int,
        is_over: Callable[[], bool] = lambda: False,
    ) -> TextsPage:
        """Returns a part of the changes with their unified diffs.

        It ends early if the one who asked is gone (`is_over`).
        """
        page, size, cursor = list[ChangeText](), 0, None
        clock = self._handle.context.clock
        stop = clock() + PAGE_TIME
        with self.changes(wanted, after=after) as (source, found):
            for change in found:
                if len(page) >= most or size >= PAGE_CHARS or (page and clock() >= stop):
                    cursor = _cursor(page[-1].change)
                    break
                if is_over():
                    break
                text = self._text(source, change, wanted.context_lines, is_over)
                page.append(ChangeText(change=change, diff=text))
                size += len(text)
        return TextsPage(diffs=page, next_cursor=cursor)

    def _text(
        self,
        source: StagedObjects,
        change: Change,
        context_lines: int,
        is_over: Callable[[], bool],
    ) -> str:
        unify = self._handle.context.unify
        return text_diff(source, change, context_lines=context_lines, is_over=is_over, unify=unify)


def _root(called: SnapshotLike | None, found: SnapshotInfo | None, *, now: ObjectId) -> ObjectId:
    if found is not None:
        return found.root
    return EMPTY_ROOT if called == NOTHING else now


def _behind(changes: Iterator[Change], after: Place) -> Iterator[Change]:
    order = {plane: number for number, plane in enumerate(Plane)}
    last = (order[after[0]], after[1])
    return dropwhile(lambda change: (order[change.plane], change.key) <= last, changes)


def _folder(key: bytes, depth: int | None) -> bytes:
    """Returns the folder that a file counts for: at most so many levels below the root."""
    above = key.rpartition(b"/")[0]
    return above if depth is None else b"/".join(above.split(b"/", depth)[:depth])


def _cursor(change: Change) -> str:
    """Returns where a list of changes goes on behind this one."""
    return f"{change.plane.value}.{urlsafe_b64encode(change.key).decode('ascii')}"


def read_cursor(cursor: str) -> Place:
    """Returns where a list of changes goes on; raises `ValueError` for what no page has said."""
    plane, _, key = cursor.partition(".")
    return Plane(plane), urlsafe_b64decode(key)
