"""Which snapshot goes on from which, drawn beside a list of them, newest first.

A snapshot goes on from the one before it; an undo, redo or restore goes on from what it brought
back. So work that was undone stands in a column of its own beside what came after.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import holdfast

WIDEST: Final = 12
"""Columns that are drawn; what would stand further right is left out."""


def drawn(timeline: "Sequence[holdfast.SnapshotInfo]") -> Iterator[tuple[str, str | None]]:
    """Yields what stands before each snapshot, and the line below it where columns meet."""
    lanes = list[str | None]()
    for snapshot in timeline:
        if snapshot.id not in lanes:
            _take(lanes, snapshot.id)
        at = lanes.index(snapshot.id)
        row = _row(lanes, at)
        lanes[at] = snapshot.target or snapshot.parent
        # A lane that waits for what another one waits for joins it.
        twin = lanes.index(lanes[at]) if lanes[at] is not None else at
        below = None
        if twin != at:
            below = _joint(lanes, twin, at)
            lanes[at] = None
        elif lanes[at] in lanes[at + 1 :]:
            other = lanes.index(lanes[at], at + 1)
            below = _joint(lanes, at, other)
            lanes[other] = None
        while lanes and lanes[-1] is None:
            lanes.pop()
        yield row, below


def _take(lanes: list[str | None], snapshot_id: str) -> None:
    if None in lanes:
        lanes[lanes.index(None)] = snapshot_id
    else:
        lanes.append(snapshot_id)


def _row(lanes: Sequence[str | None], at: int) -> str:
    marks = ["*" if each == at else " " if lane is None else "|" for each, lane in enumerate(lanes)]
    return " ".join(marks[:WIDEST]) + " "


def _joint(lanes: Sequence[str | None], left: int, right: int) -> str:
    """Returns the line in which one column ends in another one."""
    marks = [" " if lane is None else "|" for lane in lanes]
    marks[right] = " "
    line = [*" ".join(marks)]
    for place in range(2 * left + 1, 2 * right):
        line[place] = "_" if place < 2 * right - 1 and line[place] == " " else line[place]
    line[2 * right - 1] = "/"
    return "".join(line)[: 2 * WIDEST].rstrip()
