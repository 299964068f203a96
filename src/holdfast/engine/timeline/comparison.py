"""Opens what leads from one moment of a namespace to another, whole or page by page.

A moment is a snapshot, or what is there now: then what is pending is folded in to be looked at,
and nothing is stored.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import dropwhile
from typing import Final

from holdfast import tree
from holdfast.engine.core.paths import PathLike, to_key
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.engine.timeline import history, restore, snapshots
from holdfast.engine.timeline.diff import collect_changes, iter_changes, text_diff, to_changes
from holdfast.engine.timeline.selection import select
from holdfast.model.basics import Plane, Root, SnapshotLike
from holdfast.model.changes import Change, Changes
from holdfast.model.history import History
from holdfast.model.names import Name
from holdfast.tree import Edit

PAGE_CHARS: Final = 1 << 20
"""Once the texts of a page have so many characters, it ends."""

PAGE_TIME: Final = timedelta(seconds=0.5)
"""And once it took that long: with the last text, which has a bound of its own, two seconds."""

Place = tuple[Plane, bytes]
"""Where a change is: changes come in the order of planes and keys."""


class Comparing:
    """Two moments of a namespace, side by side."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @contextmanager
    def changes(
        self,
        old: SnapshotLike | None,
        new: SnapshotLike | None,
        *,
        planes: Sequence[Plane | str] | None = None,
        paths: Sequence[PathLike] | None = None,
        after: Place | None = None,
    ) -> Generator[tuple[StagedObjects, Iterator[Change]]]:
        """Opens the changes between two moments, in some planes or under some paths.

        With `after`, only those that come behind the one at that place.
        """
        parts = select(planes=planes, paths=paths).parts
        with self.roots(old, new) as (source, before, goal):
            found = iter_changes(source, before, goal, planes=parts)
            those = (c for c in found if (selects := parts[c.plane]) is None or selects(c.key))
            yield source, those if after is None else _behind(those, after)

    @contextmanager
    def roots(
        self, old: SnapshotLike | None, new: SnapshotLike | None
    ) -> Generator[tuple[StagedObjects, Root, Root]]:
        """Opens the roots of two moments, with what is needed to read below them."""
        before = None if old is None else snapshots.resolve(self._handle, old)
        after = None if new is None else snapshots.resolve(self._handle, new)
        with restore.folded_head(self._handle) as (_, folded):
            source = folded.source
            base = before.root if before else folded.head.root
            goal = after.root if after else folded.root_id
            yield source, source.get_root(base), source.get_root(goal)

    def page(
        self,
        old: SnapshotLike | None,
        new: SnapshotLike | None,
        *,
        planes: Sequence[Plane | str] | None,
        paths: Sequence[PathLike] | None,
        after: Place | None,
        most: int,
    ) -> Changes:
        """Returns a part of what leads from one moment to another."""
        opened = self.changes(old, new, planes=planes, paths=paths, after=after)
        with opened as (_, found):
            # Counted page by page, what follows would be counted again and again.
            return collect_changes(found, limit=most, counts=False)

    def text(
        self,
        path: PathLike,
        old: SnapshotLike | None,
        new: SnapshotLike | None,
        *,
        context_lines: int,
        is_over: Callable[[], bool] = lambda: False,
    ) -> str:
        """Returns the unified diff of one file; empty if nothing differs."""
        key = to_key(path)
        with self.roots(old, new) as (source, before, after):
            maps = before.plane(Plane.FILES), after.plane(Plane.FILES)
            edit = Edit(key, *(tree.get(source, each, key) for each in maps))
            change = next(to_changes(source, Plane.FILES, [edit], maps), None)
            if change is None:
                return ""
            return self._text(source, change, context_lines, is_over)

    def page_of_history(self, name: Name, *, limit: int, before: int | None) -> History:
        """Returns as much of what happened to one thing as can be told quickly."""
        return history.page(self._handle, name, limit=limit, before=before, time=history.PAGE_TIME)

    def page_of_texts(
        self,
        old: SnapshotLike | None,
        new: SnapshotLike | None,
        *,
        paths: Sequence[PathLike] | None,
        context_lines: int,
        after: Place | None,
        most: int,
        is_over: Callable[[], bool] = lambda: False,
    ) -> tuple[list[tuple[Change, str]], bool]:
        """Returns a part of the changes with their unified diffs, and whether more follows.

        It ends early if the one who asked is gone (`is_over`).
        """
        page: list[tuple[Change, str]] = []
        clock = self._handle.context.clock
        stop = clock() + PAGE_TIME
        with self.changes(old, new, paths=paths, after=after) as (source, found):
            size = 0
            for change in found:
                if len(page) >= most or size >= PAGE_CHARS or (page and clock() >= stop):
                    return page, True
                if is_over():
                    break
                text = self._text(source, change, context_lines, is_over)
                page.append((change, text))
                size += len(text)
        return page, False

    def _text(
        self,
        source: StagedObjects,
        change: Change,
        context_lines: int,
        is_over: Callable[[], bool],
    ) -> str:
        unify = self._handle.context.unify
        return text_diff(source, change, context_lines=context_lines, is_over=is_over, unify=unify)


def _behind(changes: Iterator[Change], after: Place) -> Iterator[Change]:
    order = {plane: number for number, plane in enumerate(Plane)}
    last = (order[after[0]], after[1])
    return dropwhile(lambda change: (order[change.plane], change.key) <= last, changes)
