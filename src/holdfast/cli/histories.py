"""What happened to one thing, for people and for programs."""

from collections.abc import Iterator

import msgspec

import holdfast
from holdfast.cli import words
from holdfast.cli.console import Console
from holdfast.cli.escaping import escaped
from holdfast.cli.snapshots import snapshot_view

MANY = 1000
"""Entries of a directory that are counted; there may be more."""


def history_view(history: "holdfast.History") -> dict[str, object]:
    """Returns a history as JSON members."""
    return {
        "name": msgspec.to_builtins(history.name),
        "steps": [_step_view(step) for step in history],
        "searched_to": history.searched_to,
        "next_before": history.before,
    }


def history_lines(console: Console, history: "holdfast.History") -> Iterator[str]:
    """Yields a line for each step."""
    if not history.steps:
        yield "No snapshot holds it, and nothing happened to it."
    for step in history:
        yield _line(console, step)
        if step.gone and step.snapshot is not None:
            many = words.number(step.gone, "snapshot")
            yield f"    at the latest: {many} before it that could tell are gone"


def _line(console: Console, step: "holdfast.Step") -> str:
    mark = console.paint(words.MARKS[step.change], words.COLOURS[step.change])
    what = words.sizes(step.old_bytes, step.new_bytes)
    if not what:
        more = "or more " if step.entries >= MANY else ""
        what = f"{step.entries:,} {more}changed"
    if step.snapshot is None:
        return f"{mark} {'now':<{words.SHORT_ID}}  {'':<16}  {what:<18}  in no snapshot yet"
    name = console.paint(words.short(step.snapshot.id), "cyan")
    about = step.snapshot.label or step.snapshot.reason or step.snapshot.kind.value
    when = words.local(step.snapshot.created_at)
    return f"{mark} {name}  {when}  {what:<18}  {escaped(about)}".rstrip()


def _step_view(step: "holdfast.Step") -> dict[str, object]:
    return {
        "change": step.change,
        "old_bytes": step.old_bytes,
        "new_bytes": step.new_bytes,
        "entries": step.entries,
        "previous_id": step.previous,
        "gone": step.gone,
        "snapshot": None if step.snapshot is None else snapshot_view(step.snapshot),
    }
