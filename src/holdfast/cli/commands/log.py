"""`holdfast log`: the snapshots, newest first; with a path, what happened to it."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import get_workspace, is_gone, note_if_missing
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE, NOT_FOUND, Refused, usage
from holdfast.cli.graph import drawn
from holdfast.cli.snapshots import add_choice, choice_of, snapshot_view
from holdfast.errors import NotFound
from holdfast.escaping import escaped
from holdfast.model.basics import line_of_pairs

EXAMPLES = """\
examples:
  holdfast log                     the last 20
  holdfast log -n 5                the last 5
  holdfast log -n 0                all of them
  holdfast log src/cart.py         what happened to a file
  holdfast log src                 or in a directory
  holdfast log --graph             what goes on from what
  holdfast log --stat              how much each of them changed
  holdfast log --grep refund       those that say so, in whatever words
  holdfast log --since yesterday --kind restore -- src
                                   those of a kind, since then, that changed something there
  holdfast log --session ses-1     or to a session

@ marks the snapshot whose state the directory last showed.
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Lists the snapshots, or what happened to one thing, newest first."
    parser.epilog = EXAMPLES
    add_choice(parser)
    about = parser.add_mutually_exclusive_group()
    about.add_argument("path", nargs="?", metavar="PATH", help="what happened to this, from here")
    about.add_argument("--path", metavar="PATH", dest="named_path", help="the same")
    about.add_argument(
        "--value", nargs=2, metavar=("NAMESPACE", "KEY"), help="what happened to this in the store"
    )
    about.add_argument("--session", metavar="ID", help="what happened to this session")
    about.add_argument(
        "--graph", action="store_true", help="draw what goes on from what, undone work beside it"
    )
    parser.add_argument("--stat", action="store_true", help="tell how much each of them changed")


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    choice, limit = choice_of(arguments, now=console.clock()), arguments.number or None
    workspace = get_workspace(console)
    note_if_missing(console, workspace)
    path = _find_path(arguments, console, workspace)
    name = _find_name(arguments, path)
    if name is not None and not (choice or arguments.stat):
        found = _get_history(arguments, workspace, name, limit=limit)
        console.answer(
            document=lambda: {"namespace": workspace.namespace.name, **history_view(found)},
            lines=lambda: history_lines(console, found),
        )
        return DONE
    if name is not None and path is None:
        raise usage(
            "snapshots are chosen, and counted, of all that there is or of a path",
            hint="Leave --value and --session out, or the rest.",
        )
    if path is not None:
        choice["path"] = path
    namespace = workspace.namespace
    beside = ["changes"] if arguments.stat else None
    timeline = namespace.timeline(**choice, with_=beside, limit=limit)
    if name is not None and not timeline:
        _get_history(arguments, workspace, name, limit=1)
    position = _position(namespace)
    console.answer(
        document=lambda: {
            "namespace": namespace.name,
            "position_id": position,
            "snapshots": [snapshot_view(snapshot) for snapshot in timeline],
        },
        lines=lambda: (),
    )
    if not console.is_json:
        lines = _lines(console, namespace, timeline, position, is_graph=arguments.graph)
        # Of some snapshots alone, it says nothing that the one that is shown is not among them.
        console.page(lines if choice else chain(lines, _further(timeline, position)))
    return DONE


def _find_name(arguments: Namespace, path: str | None) -> "holdfast.Name | None":
    """Returns what is asked about; None for all that there is."""
    if arguments.value is not None:
        return holdfast.Name.value(*arguments.value)
    if arguments.session is not None:
        return holdfast.Name.session(arguments.session)
    return None if path is None else holdfast.Name.file(path)


def _find_path(
    arguments: Namespace, console: Console, workspace: "holdfast.Workspace"
) -> str | None:
    """Returns the path that is asked about, from the root of the directory; None if none is."""
    asked = arguments.path or arguments.named_path
    if asked is None:
        return None
    folder, name = os.path.split(console.resolve(asked))
    # A link on the way leads where it leads; at its end it is what is asked about.
    place = os.path.join(os.path.realpath(folder), name)
    path = os.path.relpath(place, workspace.path)
    return None if path == os.curdir else path


def _get_history(
    arguments: Namespace,
    workspace: "holdfast.Workspace",
    name: "holdfast.Name",
    *,
    limit: int | None,
) -> "holdfast.History":
    """Returns what happened to something; refuses what was never there."""
    door = workspace.namespace if is_gone(workspace.path) else workspace
    found = door.history(name, limit=limit)
    if found.steps:
        return found
    hint = "Names are meant to the letter; `holdfast log` lists the snapshots."
    if arguments.session is not None:
        what = f"a session {arguments.session}"
    elif arguments.value is not None:
        what = "a value {} {}".format(*arguments.value)
    else:
        what = f"anything called {arguments.path or arguments.named_path}"
        hint = "Paths are from the directory that you are in; what .holdfastignore leaves out has "
        hint += "no history."
    message = f"no snapshot has {what}, and it is not there now"
    raise Refused(message, code="name_not_found", exit_code=NOT_FOUND, hint=hint)


def _position(namespace: "holdfast.Namespace") -> str | None:
    try:
        return namespace.get_snapshot("@").id
    except NotFound:
        return None


def _lines(
    console: Console,
    namespace: "holdfast.Namespace",
    timeline: Sequence["holdfast.SnapshotInfo"],
    position: str | None,
    *,
    is_graph: bool,
) -> Iterator[str]:
    if not timeline:
        yield "No snapshot yet." if position is None else "None of the snapshots is meant."
    labels = {snapshot.id: snapshot.label for snapshot in timeline}
    columns = drawn(timeline) if is_graph else (("", None) for _ in timeline)
    for snapshot, (column, below) in zip(timeline, columns, strict=True):
        mark = "@" if snapshot.id == position else " "
        name = console.paint(words.short(snapshot.id), "cyan")
        marks = "".join(
            word
            for word, is_so in ((" PARTIAL", snapshot.is_partial), (" pinned", snapshot.pinned))
            if is_so
        )
        line = f"{mark} {name}  {words.local(snapshot.created_at)}  {snapshot.kind.value:<8}  "
        pairs = f"  {escaped(told)}" if (told := line_of_pairs(snapshot.metadata)) else ""
        about = f"{_about(namespace, snapshot, labels)}{marks}{pairs}{_counted(snapshot)}"
        yield f"{column}{line}{about}".rstrip()
        if below is not None:
            yield below


def _counted(snapshot: "holdfast.SnapshotInfo") -> str:
    """Returns how much a snapshot changed, if that was asked for and is known."""
    if snapshot.changes is None:
        return ""
    planes = (
        " ".join([plane, *(f"{words.MARKS[word]}{n:,}" for word, n in counts.items() if n)])
        for plane, counts in snapshot.changes.items()
        if any(counts.values())
    )
    return f"  ({', '.join(planes) or 'nothing changed'})"


def _further(timeline: Sequence["holdfast.SnapshotInfo"], position: str | None) -> Iterator[str]:
    """Yields where the directory stands, if that is further down than the list goes."""
    if position is not None and timeline and all(each.id != position for each in timeline):
        yield f"@ is {words.short(position)}: the directory last showed an older one than these."


def _about(
    namespace: "holdfast.Namespace",
    snapshot: "holdfast.SnapshotInfo",
    labels: MutableMapping[Any, str | None],
) -> str:
    """Returns what a snapshot is called, or where it went to with what that is called."""
    said = snapshot.label or snapshot.reason
    if said or snapshot.target is None:
        return escaped(said or "")
    if snapshot.target not in labels:
        with suppress(NotFound):
            labels[snapshot.target] = namespace.get_snapshot(snapshot.target).label
    label = labels.get(snapshot.target)
    return f"to {words.short(snapshot.target)}" + (f' "{escaped(label)}"' if label else "")


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
