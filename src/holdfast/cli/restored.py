"""Tells what a restore, an undo or a redo did: three commands, one answer."""

import os
import shlex
from collections.abc import Iterator
from typing import Final

import holdfast
from holdfast.cli import words
from holdfast.cli.console import Console
from holdfast.cli.exits import code_of_proof
from holdfast.cli.views import path_view, restored_view
from holdfast.escaping import escaped

_MOST_LISTED: Final = 1000
"""Changes that an answer lists, all of which it counts."""


_MOST_UNCOVERED: Final = 10
"""Paths that were excluded until now, and are named one by one."""


def most_listed(console: Console) -> int | None:
    """Returns how many changes are listed at the most; None for all, when asked for more."""
    return None if console.is_verbose else _MOST_LISTED


def tell(
    console: Console,
    restored: "holdfast.Restored",
    *,
    verb: str,
    dry_verb: str = "",
    what: str | None = None,
    to: str | None = None,
    directory: "str | os.PathLike[str]" = "",
    way_back: str = "",
) -> int:
    """Writes what was done, what changed, and how to get back; returns the exit code.

    `what` stands in place of the snapshot that it was done with.
    """

    def document() -> dict[str, object]:
        where = {} if to is None else {"to": path_view(to)}
        return {**restored_view(restored), **where}

    def lines() -> Iterator[str]:
        if restored.dry_run or not console.is_quiet:
            did = f"{dry_verb if restored.dry_run else verb} {what or words.short(restored.target)}"
            yield from _lines(console, restored, did, to, directory)

    console.answer(document=document, lines=lines)
    if way_back and restored.changes and not (restored.dry_run or console.is_quiet):
        console.say(f"`{way_back}` takes this back.")
    is_verified = restored.verified or restored.dry_run
    return code_of_proof(console, is_verified=is_verified, differing=restored.differing)


def _lines(
    console: Console,
    restored: "holdfast.Restored",
    did: str,
    to: str | None,
    directory: "str | os.PathLike[str]",
) -> Iterator[str]:
    counts = restored.changes.summary()
    where = "" if to is None else f" into {escaped(to)}"
    lacking = words.lacking(
        is_partial=restored.is_partial,
        uncaptured=len(restored.uncaptured),
        in_motion=len(restored.in_motion),
    )
    if restored.dry_run:
        yield f"{did} would change: {counts}"
        yield from words.change_lines(console, restored.changes)
        yield from _left_alone(restored)
        yield from _lines_of_task(restored)
        yield from _uncovered(restored)
        if lacking:
            yield console.paint(f"But {lacking}:", "red")
            yield from words.lacking_lines(console, restored)
        return
    proof = words.proof(console, is_verified=restored.verified, lacking=lacking)
    beside = f", {len(restored.uncovered):,} left alone" if restored.uncovered else ""
    yield f"{did}{where}: {counts}, {proof}{beside}"
    yield from words.lacking_lines(console, restored)
    if to is not None:
        return
    yield from words.change_lines(console, restored.changes)
    yield from _left_alone(restored)
    yield from _lines_of_task(restored)
    yield from _uncovered(restored)
    for path in restored.kept:
        yield f"  {escaped(path)} stays: something lies in it that is not captured"
    if restored.was_missing:
        yield _made_anew(console, str(directory))
    if restored.safety_id is not None:
        yield f"What was there before is kept as {words.short(restored.safety_id)}."


def _left_alone(restored: "holdfast.Restored") -> Iterator[str]:
    for plane in restored.left_alone:
        is_to_come = "stay" if restored.dry_run else "are"
        yield f"  {plane.value} {is_to_come} as they were: the snapshot is older than that plane"


def _uncovered(restored: "holdfast.Restored") -> Iterator[str]:
    for path in restored.uncovered[:_MOST_UNCOVERED]:
        yield f"  left alone: {escaped(path)}, which was excluded until now"
    if more := len(restored.uncovered[_MOST_UNCOVERED:]):
        yield f"  left alone: {more:,} more"


def _lines_of_task(restored: "holdfast.Restored") -> Iterator[str]:
    """Yields what is said of a task that was taken back."""
    if restored.by_snapshots:
        yield "What lies between its two snapshots counts as the task's, unless another noted it."
    for name in restored.left:
        yield f"  {escaped(name)} stays: it was changed since"


def _made_anew(console: Console, directory: str) -> str:
    """Says that the directory is there again, and how to get into it for whoever is not."""
    said = f"The directory {escaped(directory)} was missing, and was made anew."
    was_in = os.path.realpath(console.environ.get("PWD") or "/")
    if not f"{was_in}/".startswith(f"{directory}/"):
        return said
    return (
        f"{said} `cd {escaped(shlex.quote(directory))}` again: this shell is still in the old one."
    )
