"""Who changes a namespace: enough to say whether others did since a task began.

A head carries a mark: how many changes there were, and for whoever made the last one since which of
them nobody else did: the actor, then the tasks that the change was made in, outermost first. Each
change writes the next mark with itself, so that it costs nothing. A task whose changes do not name
it finds in it whether everything since its beginning was its own; others note what they change
(`ownership.py`).

Where a caller was who only adds, the mark also says who wrote what is pending: see
`timeline/additions.py`.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.engine.planes.handle import Handle
from holdfast.errors import Damaged, shorten
from holdfast.model.basics import Head
from holdfast.model.tasks import TaskRun
from holdfast.running import Door

PLAIN: Final = "-"
"""Stands for the task of a change that was made in none."""

MOST_WITHIN: Final = 16

UPKEEP: Final = Door()
"""Through this one, nobody does anything: time has passed."""


class Mark(msgspec.Struct, array_like=True):
    """What a head says of its writers."""

    changes: int = 0
    levels: list[tuple[str, int]] = []
    authors: int = 0
    """Who wrote what is pending: the sum of the numbers below."""


ADDERS: Final = 1
"""Callers who only add have written some of it, or time has passed where they were."""

OTHERS: Final = 2
"""Others have written some of it, as far as that is known: where the next one is said, too."""

WERE_HERE: Final = 4
"""A caller who only adds has changed something here, at some time."""


_decode: Final = msgspec.json.Decoder(Mark).decode
_encode: Final = msgspec.json.Encoder().encode


def mark_of(head: Head) -> Mark:
    """Returns the mark of a head; raises `Damaged` for what is none."""
    if not head.writer:
        return Mark()
    try:
        return _decode(head.writer)
    except ValueError as exc:
        message = f"the row of namespace {shorten(head.name)} names no writer: {exc}"
        raise Damaged(message) from exc


def written(handle: Handle, head: Head) -> str:
    """Returns the mark of a head after one more change."""
    old = mark_of(head)
    if handle.door is UPKEEP:
        # Somebody who only adds may have said when: it is theirs as far as anybody knows.
        if not old.authors & WERE_HERE:
            return head.writer
        return _encode(Mark(old.changes, old.levels, old.authors | ADDERS)).decode()
    number, is_same = old.changes + 1, True
    levels: list[tuple[str, int]] = []
    for at, name in enumerate(path_of(handle)):
        is_same = is_same and at < len(old.levels) and old.levels[at][0] == name
        levels.append((name, old.levels[at][1] if is_same else number))
    return _encode(Mark(number, levels, _authors(handle, old))).decode()


def _authors(handle: Handle, old: Mark) -> int:
    if not handle.context.adds_only:
        return old.authors | OTHERS if old.authors & WERE_HERE else old.authors
    # Before the first of them nobody counted: others may have left something.
    before = old.authors or (OTHERS if old.changes else 0)
    return before | ADDERS | WERE_HERE


def came_here(origin: Head, new: Handle) -> str:
    """Returns the mark of a fork: what was written in its origin may show in it later."""
    if not (new.context.adds_only or mark_of(origin).authors):
        return ""
    return _encode(Mark(authors=WERE_HERE)).decode()


def all_folded(head: Head) -> str:
    """Returns the mark of a head of which nothing is pending any more."""
    mark = mark_of(head)
    if not mark.authors & ~WERE_HERE:
        return head.writer
    return _encode(Mark(mark.changes, mark.levels, WERE_HERE)).decode()


def path_of(handle: Handle) -> Sequence[str]:
    """Returns who writes through a handle: the actor, and the tasks that it is in."""
    within = handle.door.within()[:MOST_WITHIN]
    return (handle.context.actor or "", *(within or (PLAIN,)))


def is_own(head: Head, task: TaskRun) -> bool:
    """Says whether all changes since a task began were made in it.

    Of one whose changes do not name it, whether its own actor made them, in no other task.
    """
    mark = mark_of(head)
    if mark.changes == task.began:
        return True
    levels = dict(mark.levels)
    since = levels.get(task.id)
    by_actor = mark.levels[0][0] if mark.levels else None
    if not task.is_named and since is None and by_actor == (task.actor or ""):
        since = levels.get(PLAIN)
    return since is not None and since <= task.began + 1
