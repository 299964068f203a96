"""Snapshots as people call them: by id, by label, by task, or by when it was.

What only the engine can mean (`latest`, `@`, `@-n`, whatever begins with `snap-`, a whole id) goes
first and unchanged. A label is one only to the letter, and only if one snapshot has it: nothing is
guessed. It goes before the beginning of an id, which fits by chance if it is short.
"""

import re
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import datetime, time, timedelta
from typing import Final

import holdfast
from holdfast.cli.exits import CONFLICT, NOT_FOUND, Refused, usage

HELP: Final = "an id or its beginning, a label, a task, latest, @, @-n or @{yesterday}"

_PLAIN: Final = re.compile(r"latest|@|@-\d+|snap-\w*")
_WHEN: Final = re.compile(r"@\{(.*)\}", re.DOTALL)
_AGO: Final = re.compile(r"(\d{1,6}) ?(minute|hour|day|week)s?(?: ago)?")
_NAMED: Final = 3
"""Ids that are named where a label has several."""

_PAGE: Final = 500

WHEN_HINT: Final = (
    "Say @{yesterday}, @{2 hours ago}, @{2026-03-01}, or @{2026-03-01 14:30}, in your own time."
)


def add_moment(parser: ArgumentParser, *, default: str | None = None) -> None:
    """Adds an argument that names a snapshot; with a default it may be left out."""
    if default is None:
        parser.add_argument("id", metavar="ID", help=HELP)
    else:
        said = f"{HELP} (default: {default})"
        parser.add_argument("id", nargs="?", metavar="ID", help=said)


def id_of(namespace: "holdfast.Namespace", text: str, *, now: datetime) -> str:
    """Returns what the engine calls the snapshot that somebody names; refuses if there is none."""
    if _PLAIN.fullmatch(text):
        return text
    if _WHEN.fullmatch(text):
        return _at(namespace, instant_of(text, now=now), text).id
    from holdfast.errors import Conflict, SnapshotNotFound  # noqa: PLC0415 - see `_PLAIN`
    from holdfast.ids import is_snapshot_id  # noqa: PLC0415 - as above

    is_whole = is_snapshot_id(f"snap-{text}")
    found = None if is_whole else _find_labelled(namespace, text)
    if found is not None:
        return found.id
    try:
        return namespace.get_snapshot(text).id
    except (SnapshotNotFound, Conflict):
        found = _find_labelled(namespace, text) if is_whole else None
        found = found or _find_last_of(namespace, text)
        if found is None:
            raise
        return found.id


def find_id(namespace: "holdfast.Namespace", text: str | None, *, now: datetime) -> str | None:
    """Returns the same, or None where nobody named one."""
    return None if text is None else id_of(namespace, text, now=now)


def _find_labelled(namespace: "holdfast.Namespace", text: str) -> "holdfast.SnapshotInfo | None":
    """Returns the snapshot with a label; refuses if several have it."""
    if not text:
        return None
    labelled = namespace.timeline(label=text, limit=_NAMED)
    if len(labelled) > 1:
        some = " and ".join(each.id for each in labelled)
        raise Refused(
            f"more than one snapshot is called {text!r}, such as {some}",
            code="conflict",
            exit_code=CONFLICT,
            hint="Give the id of the one that you mean.",
        )
    return next(iter(labelled), None)


def _find_last_of(namespace: "holdfast.Namespace", task: str) -> "holdfast.SnapshotInfo | None":
    """Returns the last snapshot of a task."""
    return next(iter(namespace.timeline(task_id=task, limit=1)), None) if task else None


def _at(namespace: "holdfast.Namespace", when: datetime, text: str) -> "holdfast.SnapshotInfo":
    """Returns the newest snapshot that there was at a time."""
    for snapshot in _iter_timeline(namespace):
        if snapshot.created_at <= when:
            return snapshot
    raise Refused(
        f"there is no snapshot as old as {text}",
        code="snapshot_not_found",
        exit_code=NOT_FOUND,
        hint="`holdfast log -n 0` lists all that there are.",
    )


def _iter_timeline(namespace: "holdfast.Namespace") -> "Iterator[holdfast.SnapshotInfo]":
    """Yields the snapshots, newest first, and reads no further than is looked at."""
    before = None
    while page := namespace.timeline(limit=_PAGE, before=before):
        yield from page
        before = page[-1].number


def instant_of(text: str, *, now: datetime, is_begin: bool = False) -> datetime:
    """Returns the time that somebody means; a day means its end, or its beginning."""
    if (when := _WHEN.fullmatch(text)) is not None:
        text = when[1].strip()
    try:
        return _read_instant(text, now=now, of_day=time.min if is_begin else time.max)
    except (ValueError, OverflowError, OSError):
        # No time, or one that no calendar of ours reaches.
        raise usage(f"{text!r} is no time", hint=WHEN_HINT) from None


def _read_instant(text: str, *, now: datetime, of_day: time) -> datetime:
    local = now.astimezone()
    if text == "now" or (text == "today" and of_day == time.max):
        return now
    if text in ("today", "yesterday"):
        day = local - timedelta(days=int(text == "yesterday"))
        return day if of_day == time.max else datetime.combine(day.date(), time.min).astimezone()
    if (ago := _AGO.fullmatch(text)) is not None:
        return now - timedelta(**{f"{ago[2]}s": int(ago[1])})
    found = datetime.fromisoformat(text)
    if re.fullmatch(r"[\d-]+", text):
        found = datetime.combine(found, of_day)
    return found if found.tzinfo is not None else found.astimezone()
