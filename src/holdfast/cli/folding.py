"""Many changes on one screen: what people wrote first, what programs made together.

A screen is filled from the top of the tree: the folders with the fewest changes are opened, those
with the most stay closed and say how many there are. What programs make (`.git`, `node_modules`)
comes last and closed. Executable configuration is always named, wherever it lies: it is what an
attacker would like to be overlooked.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import groupby
from typing import Final

import holdfast

MADE: Final = frozenset(
    (
        *(".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", "venv", ".tox"),
        *(".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".cache", ".gradle", ".next"),
        *(
            ".idea",
            "target",
            "dist",
            "build",
            "coverage",
            "htmlcov",
            ".hypothesis",
            "site-packages",
        ),
    )
)
"""Folders that programs fill, and nobody reads."""

FEW: Final = 3
"""So many changes in one of them are listed."""


@dataclass(slots=True)
class Folder:
    """A folder, and what changed in it."""

    path: str
    """With its slash; empty for the root."""
    changes: "list[holdfast.Change]" = field(default_factory=list["holdfast.Change"])

    def counts(self) -> Counter[str]:
        """Returns how many were `added`, `removed` and `changed`."""
        return Counter(change.change for change in self.changes)


def folded(changes: "Iterable[holdfast.Change]", *, most: int) -> "list[holdfast.Change | Folder]":
    """Returns what is listed of some changes: so many rows at the most, if a fold can do it."""
    named, written, made = _sorted_out(changes)
    rows: list[holdfast.Change | Folder] = [*named]
    others = _by_made(made)
    rows += _opened(written, most=max(most - len(named) - len(others), 1))
    return rows + others


def in_order(changes: "Iterable[holdfast.Change]") -> "list[holdfast.Change]":
    """Returns changes with those last that programs made."""
    return sorted(changes, key=lambda change: _made_in(change) is not None)


def _sorted_out(
    changes: "Iterable[holdfast.Change]",
) -> "tuple[list[holdfast.Change], list[holdfast.Change], list[holdfast.Change]]":
    """Returns executable configuration, what people write, and what programs make."""
    named, written, made = (list["holdfast.Change"]() for _ in range(3))
    for change in changes:
        if change.is_executable_config:
            named.append(change)
        else:
            (written if _made_in(change) is None else made).append(change)
    return named, written, made


def _made_in(change: "holdfast.Change") -> str | None:
    """Returns the outermost folder around a file that programs fill; None if there is none."""
    if change.plane.value != "files":
        return None
    parts = change.name.split("/")
    for at, part in enumerate(parts[:-1]):
        if part in MADE:
            return "/".join(parts[: at + 1])
    return None


def _by_made(made: "Sequence[holdfast.Change]") -> "list[holdfast.Change | Folder]":
    rows = list["holdfast.Change | Folder"]()
    for path, group in groupby(made, key=_made_in):
        changes = list(group)
        rows += changes if len(changes) <= FEW else [Folder(f"{path}/", changes)]
    return rows


def _opened(changes: "Sequence[holdfast.Change]", *, most: int) -> "list[holdfast.Change | Folder]":
    """Returns rows for changes: folders are opened, those with the fewest first, as far as fits."""
    if len(changes) <= most:
        return [*changes]
    rows = _inside(Folder("", [*changes]))
    closed = [(len(row.changes), row.path, row) for row in rows if isinstance(row, Folder)]
    heapify(closed)
    lines = len(rows)
    opened: dict[str, list[holdfast.Change | Folder]] = {}
    while closed:
        _, _, folder = heappop(closed)
        inside = _inside(folder)
        if lines + len(inside) - 1 > most:
            continue
        opened[folder.path] = inside
        lines += len(inside) - 1
        for row in inside:
            if isinstance(row, Folder):
                heappush(closed, (len(row.changes), row.path, row))
    return _flat(rows, opened)


def _flat(
    rows: "Sequence[holdfast.Change | Folder]",
    opened: "dict[str, list[holdfast.Change | Folder]]",
) -> "list[holdfast.Change | Folder]":
    found, waiting = list["holdfast.Change | Folder"](), [*reversed(rows)]
    while waiting:
        row = waiting.pop()
        if isinstance(row, Folder) and row.path in opened:
            waiting += reversed(opened[row.path])
        else:
            found.append(row)
    return found


def _begin(changes: "Sequence[holdfast.Change]") -> int:
    """Returns how many characters all names begin with, up to the end of a folder."""
    first, last = min(change.name for change in changes), max(change.name for change in changes)
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first.rfind("/", 0, len(first) if same is None else same) + 1


def _inside(folder: Folder) -> "list[holdfast.Change | Folder]":
    """Returns what lies in a folder: changes, and folders with more than one of them.

    A folder with nothing but one folder in it is passed by: however deep a path is made, there
    are no more steps than rows.
    """
    is_mixed = any(change.plane.value != "files" for change in folder.changes)
    start = len(folder.path) if is_mixed else _begin(folder.changes)

    def child(change: "holdfast.Change") -> tuple[str, str]:
        if change.plane.value != "files":
            return change.plane.value, change.name
        end = change.name.find("/", start)
        return "files", change.name if end < 0 else change.name[: end + 1]

    rows = list["holdfast.Change | Folder"]()
    # Changes come by path: all that lies in one folder comes together.
    for (_, path), group in groupby(folder.changes, key=child):
        changes = list(group)
        is_folder = len(changes) > 1 and path.endswith("/")
        rows += [Folder(path, changes)] if is_folder else changes
    return rows
