"""How things look to people: sizes, times, snapshots, changes and coverage, in a few words.

Every string that somebody else chose goes through `escaped` here, so that a command only puts
lines together.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import holdfast
from holdfast.cli.console import Console
from holdfast.cli.folding import FEW, Folder, folded, in_order
from holdfast.cli.places import name_here
from holdfast.escaping import escaped

SHORT_ID: Final = 13
"""Characters of an id that people see: `snap-` and 40 of its 80 random bits."""

LISTED: Final = 40
"""Changes that are listed before `and so many more`: about what a screen holds."""

OMITTED_LISTED: Final = 10

SOME_NAMES: Final = 5
"""Paths that a sentence names."""

MARKS: Final = {"added": "+", "removed": "-", "changed": "~"}
COLOURS: Final = {"added": "green", "removed": "red", "changed": "yellow"}
_STEP: Final = 1000
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400

EXECUTABLE_NOTE: Final = (
    "! marks executable configuration: other programs run what stands there. Look before you trust."
)


def size(count: int | None) -> str:
    """Returns a number of bytes as people say it."""
    if count is None:
        return ""
    if count < _STEP:
        return f"{count} B"
    amount = float(count)
    for unit in ("kB", "MB", "GB"):
        amount /= _STEP
        if amount < _STEP:
            return f"{amount:.1f} {unit}"
    return f"{amount / _STEP:.1f} TB"


def sizes(old_bytes: int | None, new_bytes: int | None) -> str:
    """Returns a size before and after, or the one that there is."""
    old, new = size(old_bytes), size(new_bytes)
    return f"{old} → {new}" if old and new and old != new else new or old


def number(count: int, word: str, plural: str | None = None) -> str:
    """Returns `1 file`, `1,234 files`."""
    return f"{count:,} {word if count == 1 else plural or word + 's'}"


def ago(when: datetime, now: datetime) -> str:
    """Returns how long ago something was."""
    seconds = int((now - when).total_seconds())
    if seconds < _MINUTE_S:
        return "just now"
    if seconds < _HOUR_S:
        return f"{number(seconds // _MINUTE_S, 'minute')} ago"
    if seconds < _DAY_S:
        return f"{number(seconds // _HOUR_S, 'hour')} ago"
    return f"{number(seconds // _DAY_S, 'day')} ago"


def local(when: datetime) -> str:
    """Returns an instant in the reader's own time."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M")


def short(snapshot_id: str) -> str:
    """Returns enough of an id to name it."""
    return escaped(snapshot_id[:SHORT_ID])


def titled(snapshot: "holdfast.SnapshotInfo") -> str:
    """Returns a snapshot by its id and label."""
    label = f' "{escaped(snapshot.label)}"' if snapshot.label else ""
    return short(snapshot.id) + label


def change_lines(
    console: Console, changes: "holdfast.Changes", *, most: int | None = LISTED
) -> Iterator[str]:
    """Yields a line for each change, and one that says what `!` means if there is any.

    Of more than a screen holds, folders with many of them get one line each.
    """
    rows: Sequence[holdfast.Change | Folder] = list(changes)
    if most is None or console.is_verbose:
        rows = in_order(changes)
    else:
        # Few are few: nothing has to be put away for a screen to hold them.
        rows = folded(changes, most=most) if len(rows) > FEW else rows
        rows = rows[:most] if len(rows) > most else rows
    width = min(max((len(_row_name(console, each)) for each in rows), default=0), 60)
    for row in rows:
        yield _row_line(console, row, width)
    total = changes.count()
    told = sum(len(row.changes) if isinstance(row, Folder) else 1 for row in rows)
    if total is None:
        yield "  … and more"
    elif total > told:
        yield f"  … and {total - told:,} more"
    yield from executable_note(console, changes)


def folder_text(console: Console, folder: Folder) -> str:
    """Returns a folder with how many changes there are in it."""
    numbers = ", ".join(f"{count:,} {word}" for word, count in folder.counts().items())
    return f"{escaped(name_here(console, folder.path.rstrip('/')))}/  {numbers}"


def local_name(console: Console, change: "holdfast.Change") -> str:
    """Returns what a change is about, from where somebody stands."""
    if change.plane.value != "files":
        return plane_name(change)
    return escaped(name_here(console, change.name))


def executable_note(console: Console, changes: Iterable["holdfast.Change"]) -> Iterator[str]:
    """Yields what `!` means, if something is marked with it."""
    if any(change.is_executable_config for change in changes):
        yield console.paint(EXECUTABLE_NOTE, "yellow")


def plane_name(change: "holdfast.Change") -> str:
    """Returns what a change is about; what is no file says so."""
    name = escaped(change.name)
    return name if change.plane.value == "files" else f"{change.plane.value}: {name}"


def is_folder(change: "holdfast.Change") -> bool:
    """Says whether a change is about a directory itself: one that is empty, or its mode."""
    entry = change.old if change.new is None else change.new
    # Asked without the engine's classes: of all entries only a directory has a mode alone.
    return hasattr(entry, "mode") and not hasattr(entry, "mtime_ns")


def coverage_line(coverage: "holdfast.Coverage") -> str:
    """Returns what was captured and what was not, in one line."""
    parts = [f"captured {coverage.captured:,} ({size(coverage.captured_bytes)})"]
    for count, word in (
        (coverage.skipped_count, "skipped"),
        (coverage.excluded_count, "excluded"),
        (len(coverage.failed), "failed"),
        (len(coverage.in_motion), "in motion"),
    ):
        if count:
            parts.append(f"{count:,} {word}")
    return ", ".join(parts)


def excluded_lines(coverage: "holdfast.Coverage") -> Iterator[str]:
    """Yields how many files are there and the rules have taken out, if there are any."""
    if coverage.newly_excluded:
        files = number(coverage.newly_excluded, "file")
        are = "is" if coverage.newly_excluded == 1 else "are"
        yield f"{files} of the snapshot before {are} there, and excluded by .holdfastignore now."


def unread_lines(coverage: "holdfast.Coverage | None") -> Iterator[str]:
    """Yields what of the rules leaves nothing out since it cannot be read."""
    yield from map(escaped, () if coverage is None else coverage.unread_rules)


def agreed_lines(agreed: "holdfast.Agreed") -> Iterator[str]:
    """Yields what a directory took in of what was done through its namespace."""
    count = agreed.brought.count()
    if count:
        names = some((change.name for change in agreed.brought), count)
        yield f"took in {number(count, 'change')} made through the namespace: {names}"


def disagreed_lines(agreed: "holdfast.Agreed") -> Iterator[str]:
    """Yields what did not come in of it."""
    if agreed.failed is not None:
        yield f"nothing that was done through the namespace came in: {escaped(agreed.failed)}"
    if agreed.gave_way:
        names = some(agreed.gave_way)
        yield f"what the directory has stays, and the namespace's own gives way: {names}"


def gave_way_lines(snapshot: "holdfast.SnapshotInfo") -> Iterator[str]:
    """Yields what was changed on both sides, and where the namespace's version is."""
    if names := snapshot.detail.get("gave_way"):
        where = short(str(snapshot.detail.get("gave_way_in")))
        said = some(names, int(snapshot.detail.get("gave_way_count", 0)))
        yield f"What the namespace had of {said} is in {where}: the directory's took its place."
    elif snapshot.detail.get("gave_way_unread"):
        where = short(str(snapshot.detail.get("gave_way_in")))
        yield f"What the namespace had is damaged, and in {where}: the directory's took its place."


def some(names: Iterable[str], count: int = 0) -> str:
    """Returns the first of some names, and how many more there are: of `count`, named or not."""
    every = [*names]
    shown = every[:SOME_NAMES]
    said = ", ".join(map(escaped, shown))
    more = max(count, len(every)) - len(shown)
    return f"{said} and {more:,} more" if more else said


def omission_lines(console: Console, coverage: "holdfast.Coverage") -> Iterator[str]:
    """Yields what was left out or in motion, and why; all of it when asked for more."""
    yield from _omitted(console, "failed", coverage.failed, len(coverage.failed))
    yield from _omitted(console, "in motion", coverage.in_motion, len(coverage.in_motion))
    yield from _omitted(console, "skipped", coverage.skipped, coverage.skipped_count)
    if console.is_verbose:
        yield from _omitted(console, "excluded", coverage.excluded, coverage.excluded_count)


class Lacks(NamedTuple):
    """What a snapshot does not vouch for."""

    uncaptured: Sequence[str]
    in_motion: Sequence[str]
    is_unnamed: bool
    """Whether it lacks paths that nobody has named."""


UNNAMED = "paths whose names are not known"
"""What is lacking in what was imported of an archive that does not say."""


def partial_lines(console: Console, coverage: "holdfast.Coverage | None") -> Iterator[str]:
    """Yields what makes a snapshot partial, if it is."""
    if coverage is None or not coverage.is_partial:
        return
    what = number(len(coverage.failed), "path")
    yield console.paint(f"PARTIAL: {what} could not be captured, and it stays marked so.", "red")


def proof(console: Console, *, is_verified: bool, lacking: str) -> str:
    """Returns how far what was brought back is proven: never `verified` alone if it lacks some."""
    if not is_verified:
        return console.paint("NOT VERIFIED", "red")
    return f"verified, but {console.paint(lacking, 'red')}" if lacking else "verified"


def lacking(*, is_partial: bool, uncaptured: int, in_motion: int) -> str:
    """Returns what a snapshot that is brought back does not vouch for; empty if it does for all."""
    parts: list[str] = []
    if is_partial:
        paths = number(uncaptured, "path") if uncaptured else UNNAMED
        parts.append(f"the snapshot is PARTIAL, {paths} could not be captured")
    if in_motion:
        were = "was" if in_motion == 1 else "were"
        parts.append(f"{number(in_motion, 'file')} {were} in motion and may be a mixture")
    return "; ".join(parts)


def lacking_lines(
    console: Console, found: "holdfast.Restored | Lacks", *, is_kept: bool = False
) -> Iterator[str]:
    """Yields the names of what a snapshot does not vouch for."""
    missing = "not captured" if is_kept else "not captured, left as it is"
    yield from listed(console, missing, found.uncaptured)
    yield from listed(console, "in motion", found.in_motion)


def listed(console: Console, word: str, paths: Sequence[str]) -> Iterator[str]:
    """Yields paths, each with a word for what they have in common; some of many."""
    some = paths if console.is_verbose else paths[:OMITTED_LISTED]
    yield from (console.paint(f"  {word}: {escaped(path)}", "red") for path in some)
    if len(paths) > len(some):
        yield f"  … and {len(paths) - len(some):,} more {word}"


def _omitted(
    console: Console, word: str, omitted: Sequence["holdfast.Omission"], count: int
) -> Iterator[str]:
    listed = omitted if console.is_verbose else omitted[:OMITTED_LISTED]
    style = "red" if word == "failed" else "dim"
    for each in listed:
        yield console.paint(f"  {word}: {escaped(each.path)} ({escaped(each.reason)})", style)
    if count > len(listed):
        yield f"  … and {count - len(listed):,} more {word}"


def _row_name(console: Console, row: "holdfast.Change | Folder") -> str:
    return "" if isinstance(row, Folder) else local_name(console, row)


def _row_line(console: Console, row: "holdfast.Change | Folder", width: int) -> str:
    if isinstance(row, Folder):
        words = row.counts()
        word = next(iter(words)) if len(words) == 1 else "changed"
        return "  " + console.paint(f"{MARKS[word]} {folder_text(console, row)}", COLOURS[word])
    mark = MARKS[row.change] + ("!" if row.is_executable_config else " ")
    name = local_name(console, row)
    if is_folder(row):
        return "  " + console.paint(f"{mark}{name}/", COLOURS[row.change])
    line = f"{mark}{name:<{width}}  {sizes(row.old_bytes, row.new_bytes)}".rstrip()
    return "  " + console.paint(line, COLOURS[row.change])
