"""Paths as people type them, from where they stand, and names as they are shown there.

A vault names files from the root of the attached directory. Somebody in a folder of it means
what lies there: `a.txt` in `src` is `src/a.txt`. What leads out of the directory names nothing.
"""

import os
import re
from collections.abc import Sequence
from typing import Final

import holdfast
from holdfast.cli.console import Console
from holdfast.cli.exits import NOT_FOUND, Refused
from holdfast.errors import InvalidPath

_MAGIC: Final = re.compile(r"[*?\[]")


def stand_in(console: Console, workspace: "holdfast.Workspace") -> None:
    """Notes in which folder of an attached directory the console is; its root is the empty one."""
    below = os.path.relpath(console.cwd, workspace.path)
    # One that was found by a link, or is missing, need not lie around us.
    console.below = "" if below == os.curdir or _leads_out(below) else below


def path_from_here(console: Console, workspace: "holdfast.Workspace", path: str) -> str:
    """Returns a path from the root of the attached directory; the root itself is `.`."""
    if os.path.isabs(path):
        # By its real name, as the vault knows the directory; at its end a link is what is meant.
        folder, name = os.path.split(os.path.normpath(path))
        place = os.path.join(os.path.realpath(folder), name)
        found = os.path.relpath(place, workspace.path)
    else:
        found = os.path.normpath(os.path.join(console.below, path))
    if not path or _leads_out(found):
        reason = "it is empty" if not path else "it leads out of the attached directory"
        raise InvalidPath(path, reason=reason)
    return found


def paths_from_here(
    console: Console, workspace: "holdfast.Workspace", paths: Sequence[str] | None
) -> list[str] | None:
    """Returns paths and patterns from the root of the attached directory; None if none are named.

    The root is a path, too: it means all files, and not what else a namespace holds.
    """
    if paths is None:
        return None
    return [_pattern_from_here(console, workspace, path) for path in paths]


def names_from_here(
    console: Console, workspace: "holdfast.Workspace", paths: Sequence[str] | None
) -> "list[holdfast.Name] | None":
    """Returns files as they are named to the letter; None for all of them."""
    if paths is None:
        return None
    return [holdfast.Name.file(path_from_here(console, workspace, path)) for path in paths]


def check_there(
    console: Console,
    workspace: "holdfast.Workspace",
    paths: Sequence[str] | None,
    moments: Sequence[str | None],
) -> None:
    """Refuses a path that names nothing: neither in the directory nor at one of some moments."""
    for path in paths or ():
        place = path_from_here(console, workspace, path)
        if place == "." or _MAGIC.search(path) or os.path.lexists(workspace.path / place):
            continue
        if not any(_is_at(workspace, place, moment or "@") for moment in moments):
            raise Refused(
                f"there is nothing called {path}, now or then",
                code="path_not_found",
                exit_code=NOT_FOUND,
                hint="Paths are from the directory that you are in.",
            )


def _is_at(workspace: "holdfast.Workspace", place: str, moment: str) -> bool:
    from holdfast.errors import NotFound  # noqa: PLC0415 - for mistakes alone

    try:
        return workspace.namespace.at(moment).files.exists(place)
    except NotFound:
        return False


def name_here(console: Console, name: str) -> str:
    """Returns a path of the attached directory as it is typed from here."""
    # As if from the root: who asks may stand where nothing is any more.
    return os.path.relpath(f"/{name}", f"/{console.below}") if console.below else name


def _pattern_from_here(console: Console, workspace: "holdfast.Workspace", path: str) -> str:
    found = path_from_here(console, workspace, path)
    if not (console.below and _MAGIC.search(path)) or os.path.isabs(path):
        return found
    # Only what was typed is a pattern: the folder that we are in may be called `[id]`.
    here = _MAGIC.sub(lambda match: f"[{match[0]}]", console.below)
    return os.path.normpath(os.path.join(here, path))


def _leads_out(path: str) -> bool:
    return path == os.pardir or path.startswith(os.pardir + os.sep)
