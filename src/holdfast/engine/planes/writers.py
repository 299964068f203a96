"""Who changes a namespace: enough to say whether others did since a task began.

A head carries a mark: how many changes there were, and for whoever made the last one since which of
them nobody else did: the actor, then the tasks that the change was made in, outermost first. Each
change writes the next mark with itself, so that it costs nothing. A task whose changes do not name
it finds in it whether everything since its beginning was its own; others note what they change
(`ownership.py`).
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
    if handle.door is UPKEEP:
        return head.writer
    old = mark_of(head)
    number, is_same = old.changes + 1, True
    levels: list[tuple[str, int]] = []
    for at, name in enumerate(path_of(handle)):
        is_same = is_same and at < len(old.levels) and old.levels[at][0] == name
        levels.append((name, old.levels[at][1] if is_same else number))
    return _encode(Mark(number, levels)).decode()


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


def others_of(head: Head, task: TaskRun) -> list[str]:
    """Returns what is known of who else made changes: the last is, unless the task itself did."""
    names = [name for name, _ in mark_of(head).levels]
    by_actor, within = names[:1], names[1:]
    by_task = [] if task.id in within else within[-1:]
    return [name for name in (*by_actor, *by_task) if name not in ("", PLAIN, task.actor)]
