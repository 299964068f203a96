"""`holdfast init`: attaches a directory and takes its first snapshot.

Where directories lie in each other and both are attached, that is said when the second one is.
It works: each has its own timeline, and vaults are left out of what is around them. But a
restore of the outer one also brings back files of the inner one, which may surprise.
"""

import os
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import holdfast
from holdfast.cli import words
from holdfast.cli.attached import how_to_go_on
from holdfast.cli.console import Console
from holdfast.cli.exits import CONFLICT, DONE, PARTIAL, Refused, operand_of, usage
from holdfast.cli.snapshots import snapshot_view
from holdfast.cli.thin import is_ours
from holdfast.cli.views import coverage_view, find_coverage, path_view
from holdfast.errors import HoldfastError
from holdfast.escaping import escaped
from holdfast.settings import DATA, DATABASE_URL, LOCAL_NAME, holds_vault, is_url, user_vault

EXAMPLES = """\
examples:
  holdfast init                    attach the directory that you are in
  holdfast init ~/project          attach another one
  holdfast init --local            keep the vault beside the files, in .holdfast/
"""

NEXT = """
What to do next:
  holdfast status            see what has changed since
  holdfast snapshot -m TEXT  keep a moment
  holdfast run -- COMMAND    keep what is there before and after a command
  holdfast undo              take the last change back"""


@dataclass(frozen=True, slots=True)
class _How:
    """What came of it."""

    first: "holdfast.SnapshotInfo | None"
    was_attached: bool
    moved_from: "Path | None"


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Attaches a directory to the vault and takes its first snapshot."
    parser.epilog = EXAMPLES
    parser.add_argument("dir", nargs="?", metavar="DIR", help="the directory (default: this one)")
    parser.add_argument("--local", action="store_true", help="put the vault into DIR/.holdfast")
    parser.add_argument("--namespace", metavar="NAME", help="the namespace's name")
    parser.add_argument(
        "--force", action="store_true", help="also the home directory, / or a network mount"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    directory = os.path.realpath(console.resolve(arguments.dir or "."))
    if not os.path.isdir(directory):
        raise usage(f"{directory} is not a directory", hint="Make it first, or name another.")
    if arguments.local and console.data is not None:
        raise usage("--local and --data both say where the vault is", hint="Leave one out.")
    location = (
        os.path.join(directory, LOCAL_NAME) if arguments.local else console.location(directory)
    )
    if arguments.local or not holds_vault(location):
        _check_before(console, location, directory, force=arguments.force)
    named = next((each for each in (DATABASE_URL, DATA) if console.environ.get(each)), None)
    if arguments.local and named:
        # Later commands would look there, and find nothing.
        hint = f"Unset {named} for this directory, or leave --local out."
        raise usage(f"--local and {named} both say where the vault is", hint=hint)
    was_attached, moved_from = _find_before(console, location, directory, arguments.namespace)
    alike = [] if was_attached else _find_alike(console, location, directory, arguments.namespace)
    workspace = console.vaults.attach(
        location, directory, namespace=arguments.namespace, force=arguments.force
    )
    first = _first_snapshot(console, workspace)
    how = _How(first, was_attached=was_attached, moved_from=moved_from or workspace.moved_from)
    coverage = None if first is None else find_coverage(first)
    for remark in (*words.unread_lines(coverage), *remarks(console, location, directory, coverage)):
        console.note(remark)
    if alike and first is not None:
        # Typed elsewhere, both might mean another vault, or another directory.
        at = f" -C {shlex.quote(directory)}" if operand_of(directory, console) else ""
        console.note(
            f"it has some files like those of {alike[0].path}, which is missing. If that was moved "
            f"here: `holdfast{at} detach {shlex.quote(workspace.namespace.name)}`, then "
            f"{how_to_go_on(console, alike[:1], directory)}"
        )
    console.answer(
        document=lambda: {
            **path_view(str(workspace.path)),
            "namespace": workspace.namespace.name,
            "vault": console.location_text(location),
            "is_new": first is not None,
            "moved_from": None if how.moved_from is None else str(how.moved_from),
            "snapshot_id": None if first is None else first.id,
            "snapshot": None if first is None else snapshot_view(first),
            "coverage": coverage_view(coverage),
        },
        lines=lambda: [] if console.is_quiet else _lines(console, workspace, how, location),
    )
    return PARTIAL if first is not None and first.is_partial else DONE


def _find_before(
    console: Console, location: str, directory: str, namespace: str | None
) -> "tuple[bool, Path | None]":
    """Returns whether the directory is attached, and where it was before it was moved.

    Refuses to begin anew in one that looks like another that is missing.
    """
    if not holds_vault(location):
        return False, None
    found = console.vaults.find_workspace(location, directory)
    if found is not None and str(found.path) == directory:
        is_same = namespace in (None, found.namespace.name)
        return is_same and found.moved_from is None, found.moved_from
    origins = console.open_vault(location).find_origins(directory) if namespace is None else []
    if origins:
        raise Refused(
            f"{directory} holds the files of {origins[0].path}, which is missing: was it moved?",
            code="directory_moved",
            exit_code=CONFLICT,
            hint=how_to_go_on(console, origins, directory)
            + " With any other name, a new one begins.",
        )
    return False, None


def _find_alike(
    console: Console, location: str, directory: str, namespace: str | None
) -> "list[holdfast.Attachment]":
    """Returns missing directories that this one may have been: a reason to say so, no more."""
    if namespace is not None or not holds_vault(location):
        return []
    return console.open_vault(location).find_origins(directory, is_sure=False)


def _check_before(console: Console, location: str, directory: str, *, force: bool) -> None:
    """Refuses what attaching would refuse, before a vault is made for it, maybe among its files.

    One that was left in the home directory would be the nearest vault of everything below.
    """
    from holdfast.workspace.guard import check_directory, find_home  # noqa: PLC0415 - loads the engine

    places = (location, console.find_objects(location))
    vault = [Path(place) for place in places if place is not None and not is_url(place)]
    check_directory(Path(directory), home=find_home(), vault=vault, force=force)


def _first_snapshot(
    console: Console, workspace: "holdfast.Workspace"
) -> "holdfast.SnapshotInfo | None":
    """Takes the first snapshot; None if the directory was attached before and has one."""
    if workspace.namespace.timeline(limit=1):
        return None
    with console.progress() as progress:
        return workspace.snapshot("first snapshot", reason="holdfast init", progress=progress)


def _lines(
    console: Console,
    workspace: "holdfast.Workspace",
    how: "_How",
    location: str,
) -> Iterator[str]:
    first, name = how.first, escaped(workspace.namespace.name)
    if first is None:
        path = escaped(str(workspace.path))
        if how.was_attached:
            yield f"{path} is attached already, as namespace {name}."
        else:
            was = (
                "" if how.moved_from is None else f" It was {escaped(str(how.moved_from))} before."
            )
            yield f"Attached {path} as namespace {name}, and its history goes on.{was}"
            yield "`holdfast status` shows how the directory differs from its newest snapshot."
        yield f"The vault is {escaped(console.location_text(location))}."
        return
    yield f"Attached {escaped(str(workspace.path))} as namespace {name}."
    yield f"The vault is {escaped(console.location_text(location))}."
    coverage = find_coverage(first)
    if coverage is not None:
        yield f"First snapshot {words.short(first.id)}: {words.coverage_line(coverage)}."
        yield from words.omission_lines(console, coverage)
        yield from words.partial_lines(console, coverage)
    yield NEXT


def remarks(
    console: Console, location: str, directory: str, coverage: "holdfast.Coverage | None"
) -> Iterator[str]:
    """Yields what is to be said of a directory that was just attached."""
    from holdfast.workspace.guard import A_VAULT  # noqa: PLC0415 - a help text needs no engine

    attached = [*_attached(console, location, directory)]
    for place in {place for place, path in attached if path == directory and place != location}:
        yield (
            f"{escaped(directory)} is attached in {escaped(console.location_text(place))} as well: "
            f"from here commands use {escaped(console.location_text(location))}"
        )
    others = {path for _, path in attached if path != directory}
    above = [path for path in others if _is_in(directory, path)]
    if above:
        yield (
            f"{escaped(directory)} lies in {escaped(max(above, key=len))}, which is attached, too: "
            "a restore there brings back these files as well"
        )
    for path in sorted(path for path in others if _is_in(path, directory)):
        yield f"{escaped(path)} is attached, too: a restore here brings back its files as well"
    for omission in () if coverage is None else coverage.excluded:
        if omission.reason == A_VAULT:
            yield f"{escaped(omission.path)} is left out: {escaped(omission.reason)}"


def _attached(console: Console, location: str, directory: str) -> Iterator[tuple[str, str]]:
    """Yields what is attached in this vault, the user's own, and those above, with the vault."""
    places = {location, user_vault(console.environ)}
    folder = os.path.dirname(directory)
    while folder != os.path.dirname(folder):
        places.add(os.path.join(folder, LOCAL_NAME))
        folder = os.path.dirname(folder)
    for place in places:
        if not (is_ours(place) and holds_vault(place)):
            continue
        try:
            attached = console.open_vault(place).workspaces()
        except HoldfastError:
            continue  # What is wrong with it is no matter of this directory.
        yield from ((place, str(each.path)) for each in attached)


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
