"""What tools say: a few lines for a model to read, bounded, with nothing in them that could act.

Names, labels and content are somebody else's to choose. They are escaped, so that they can neither
forge a line of ours nor command the terminal of whoever looks on, and cut where they are long. File
content and diffs come in a block of their own: what stands in ours was said by us.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from holdfast.engine.core.coverage import Coverage, Omission
from holdfast.escaping import escaped, escaped_lines
from holdfast.mcp.subjects import Situation
from holdfast.model.basics import Plane, SnapshotInfo, line_of_pairs
from holdfast.model.changes import SIGNS, Change, Changes, Restored
from holdfast.model.files import FileInfo

LISTED: Final = 100
"""Changes that an answer lists; all are counted."""

NAMED: Final = 10
"""Paths that were left out or alone, and are named one by one."""

LONGEST_NAME: Final = 300
LONGEST_ANSWER: Final = 60_000
"""Characters of one block, whatever it holds: some 15,000 tokens."""

EXECUTABLE_NOTE: Final = (
    "! marks executable configuration: other programs run what stands there. A person should look."
)


@dataclass(frozen=True)
class Answer:
    """What a tool says, and the content that it shows, if it shows any."""

    said: str
    content: str | None = None
    is_error: bool = False


def answer(lines: Iterable[str], content: str | None = None) -> Answer:
    """Returns lines as an answer that is not longer than one may be."""
    return Answer(bounded("\n".join(lines)), None if content is None else bounded(content))


def bounded(text: str) -> str:
    """Returns a text, without its end if it is too long."""
    if len(text) <= LONGEST_ANSWER:
        return text
    return f"{text[:LONGEST_ANSWER]}\n… and more that is not shown"


def safe(text: str, *, most: int = LONGEST_NAME) -> str:
    """Returns what somebody else chose, on one line, escaped, and not all of it if it is long."""
    shown = escaped(text[: most + 1])
    return shown if len(shown) <= most else f"{shown[:most]}…"


def safe_content(text: str) -> tuple[str, bool]:
    """Returns the lines of a file with their control characters escaped; says if any were."""
    shown = escaped_lines(text)
    return shown, shown != text


def snapshot_line(snapshot: SnapshotInfo, *, position: str | None = None) -> str:
    """Returns one snapshot on one line; `@` marks the one that the timeline stands on."""
    said = snapshot.label or snapshot.reason
    marks = [
        *([_quoted(said)] if said else []),
        *(["pinned"] if snapshot.pinned else []),
        *(["PARTIAL"] if snapshot.is_partial else []),
        *([_quoted(told)] if (told := line_of_pairs(snapshot.metadata)) else []),
    ]
    mark = "@" if snapshot.id == position else " "
    words = [mark, str(snapshot.number), safe(snapshot.id), instant(snapshot.created_at)]
    return " ".join([*words, snapshot.kind.value, *marks])


def instant(when: datetime) -> str:
    """Returns an instant in UTC, to the second."""
    return f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def size(count: int | None) -> str:
    """Returns a number of bytes; empty for what has none."""
    return "" if count is None else f"{count:,} B"


def snapshot_lines(snapshot: SnapshotInfo, coverage: Coverage | None) -> Iterator[str]:
    """Yields what is said of a snapshot that was taken."""
    holds = f"{snapshot.size.entries:,} entries, {size(snapshot.size.bytes)}"
    yield f"Took {safe(snapshot.id)}: {holds}."
    if coverage is not None:
        yield from coverage_lines(coverage)


def status_lines(title: str, found: Situation) -> Iterator[str]:
    """Yields how things stand."""
    yield safe(title)
    if found.head is None:
        yield "There is no snapshot yet: `snapshot` takes the first."
    else:
        yield f"stands on {snapshot_line(found.head, position=found.head.id)}"
    excluded = 0 if found.coverage is None else found.coverage.newly_excluded
    if not len(found.changes) and not excluded:
        yield "Nothing has changed since."
    else:
        yield f"In no snapshot yet: {found.changes.summary()}"
        yield from change_lines(found.changes)
    if excluded:
        yield f"{excluded:,} files of that snapshot are there, and excluded by .holdfastignore now."
    if found.coverage is not None:
        yield from coverage_lines(found.coverage)
    if found.recovered is not None:
        yield safe(found.recovered)


def change_lines(changes: Changes) -> Iterator[str]:
    """Yields a line for each change, as many as are listed, and how many more there are."""
    items = list(changes)[:LISTED]
    yield from map(_change_line, items)
    total = changes.count()
    if total is None:
        yield "  … and more"
    elif total > len(items):
        yield f"  … and {total - len(items):,} more"
    if any(each.is_executable_config for each in items):
        yield EXECUTABLE_NOTE


def restored_lines(restored: Restored, *, did: str, way_back: str) -> Iterator[str]:
    """Yields what a restore, an undo or a redo did, or would do."""
    counts, target = restored.changes.summary(), safe(restored.target)
    if restored.dry_run:
        yield f"{did} {target} would change: {counts}"
    else:
        yield f"{did} {target}: {counts}, {'verified' if restored.verified else 'NOT VERIFIED'}"
    yield from _named("not what was asked for", restored.differing)
    yield from _doubts(restored)
    yield from change_lines(restored.changes)
    for plane in restored.left_alone:
        yield f"  {plane.value} stay as they are: the snapshot is older than that plane"
    yield from _named("stays, something in it is not captured", restored.kept)
    yield from _named("left alone, it was excluded until now", restored.uncovered)
    if restored.was_missing:
        yield "The directory was missing, and was made anew."
    if restored.dry_run:
        return
    if restored.safety_id is not None:
        yield f"What was there before is kept as {safe(restored.safety_id)}."
    if restored.changes:
        yield f"`{way_back}` takes this back."


def listing_lines(files: Sequence[FileInfo]) -> Iterator[str]:
    """Yields a line for each file, link or directory."""
    for each in files:
        match each.kind:
            case "directory":
                yield f"{safe(each.path)}/"
            case "link":
                yield f"{safe(each.path)} -> {safe(each.target or '')}"
            case _:
                yield f"{safe(each.path)}  {size(each.size_bytes)}"


def coverage_lines(coverage: Coverage) -> Iterator[str]:
    """Yields what of a directory is captured, and what is not."""
    yield f"captured {coverage.captured:,} ({size(coverage.captured_bytes)})"
    yield from _omitted("FAILED", coverage.failed, len(coverage.failed))
    yield from _omitted("in motion", coverage.in_motion, len(coverage.in_motion))
    yield from _omitted("skipped", coverage.skipped, coverage.skipped_count)
    for line in coverage.unread_rules:
        yield f"  {safe(line)}"
    if coverage.excluded_count:
        yield f"  excluded: {coverage.excluded_count:,}"
    if coverage.is_partial:
        yield "PARTIAL: what failed could not be captured, and is in no snapshot."


def _quoted(text: str) -> str:
    """Returns text in quotes, which it cannot leave."""
    inside = safe(text, most=128).replace('"', "'")
    return f'"{inside}"'


def _change_line(change: Change) -> str:
    mark = SIGNS.get(change.change, "?") + ("!" if change.is_executable_config else " ")
    name = safe(change.name)
    if change.plane is not Plane.FILES:
        name = f"{change.plane.value}: {name}"
    old, new = size(change.old_bytes), size(change.new_bytes)
    sizes = f"{old} → {new}" if old and new and old != new else new or old
    return f"  {mark} {name}  {sizes}".rstrip()


def _doubts(restored: Restored) -> Iterator[str]:
    """Yields what the snapshot that is brought back does not vouch for."""
    if restored.is_partial:
        yield "That snapshot is PARTIAL: what it could not capture is left as it is."
        yield from _named("not captured", restored.uncaptured)
    yield from _named("in motion when captured, may be a mixture", restored.in_motion)


def _named(what: str, paths: Sequence[str]) -> Iterator[str]:
    yield from (f"  {what}: {safe(path)}" for path in paths[:NAMED])
    if len(paths) > NAMED:
        yield f"  {what}: {len(paths) - NAMED:,} more"


def _omitted(word: str, omitted: Sequence[Omission], count: int) -> Iterator[str]:
    for each in omitted[:NAMED]:
        yield f"  {word}: {safe(each.path)} ({safe(each.reason)})"
    if count > NAMED:
        yield f"  {word}: {count - NAMED:,} more"
