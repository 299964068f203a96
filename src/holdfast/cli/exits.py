"""How a command ends: which exit code an error has, and how the error is told.

One table from families of errors to exit codes; a test proves that every error of
`holdfast.errors` has one. People get `holdfast: message` and a hint, programs get one JSON
object; both on stderr. A traceback is for whoever asks for it with `-v`.
"""

import os
import shlex
from collections.abc import Sequence
from typing import Final

from holdfast.cli.console import Console
from holdfast.errors import (
    AlreadyAttached,
    Conflict,
    Damaged,
    Denied,
    DirectoryMissing,
    DirectoryReplaced,
    DriftFound,
    HoldfastError,
    Incompatible,
    Invalid,
    InvalidValue,
    LimitExceeded,
    MergeConflict,
    NameNotFound,
    NotFound,
    TooLarge,
    Unavailable,
)
from holdfast.escaping import escaped

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
CONFLICT: Final = 4
DAMAGED: Final = 5
PARTIAL: Final = 6
UNVERIFIED: Final = 7

EXIT_CODES: Final[dict[type[HoldfastError], int]] = {
    HoldfastError: FAILED,
    Invalid: USAGE,
    NotFound: NOT_FOUND,
    Conflict: CONFLICT,
    Denied: FAILED,
    LimitExceeded: FAILED,
    Damaged: DAMAGED,
    Unavailable: FAILED,
    Incompatible: FAILED,
}

DAMAGE_HINT: Final = (
    "`holdfast verify` names all that is damaged; `holdfast repair` rebuilds what can be rebuilt, "
    "and says which snapshots lack the rest."
)

_FROM_HERE: Final = "Names are from the directory that you are in; --path takes patterns, too."

HINTS: Final = {
    "snapshot_not_found": "`holdfast log` lists the snapshots.",
    "snapshot_expired": "`holdfast log` lists those that are left; `holdfast pin` keeps one.",
    "nothing_to_undo": "`holdfast log` shows the timeline; `holdfast restore ID` goes anywhere.",
    "head_moved": "Somebody else was first: look at `holdfast log`, then try again.",
    "merge_conflict": "Later changes touch the same files: `holdfast restore ID --path …` "
    "brings back some of them.",
    "others_changed": "`holdfast diff` shows what is there; `--keep-mine` leaves that alone and "
    "takes the rest back, and `holdfast restore` with the id of what was there before goes back "
    "all the same.",
    "task_not_found": "`holdfast log --json` names the task of each snapshot.",
    "task_running": "If its process died, `holdfast undo --task ID --end` ends it and takes it "
    "back.",
    "namespace_not_found": "`holdfast namespaces` lists them.",
    "key_not_found": "`holdfast keys list` lists them; a revoked one is not among them.",
    "path_exists": "Name a directory that is new or empty.",
    "quota_exceeded": "`holdfast forget`, then `holdfast gc` make room.",
    "storage_full": "Free disk space; `holdfast forget`, then `holdfast gc --now` make some.",
    "damaged": DAMAGE_HINT,
    "object_damaged": DAMAGE_HINT,
    "object_missing": DAMAGE_HINT,
    "pack_damaged": DAMAGE_HINT,
    "pack_missing": DAMAGE_HINT,
    "row_damaged": DAMAGE_HINT,
    "catalog_replaced": "Nothing of this was kept; try again: `holdfast log` shows what the vault "
    "holds now.",
    "unavailable": "`holdfast doctor` says what does not answer.",
    "git_backup_not_found": "`holdfast git set URL` says where the copy shall be.",
    "git_backup_paused": "`holdfast git resume` lets it go on, then `holdfast git push`.",
    "host_key_unconfirmed": "`holdfast git host-keys` shows what the host has: compare it with "
    "what that publishes, then `holdfast git confirm SHA256:…`.",
    "unsafe_archive": "Import only what `holdfast export` has made; nothing of this was used.",
}
"""Hints by error code where the next step on a command line is a command."""

TOO_LARGE_HINT: Final = (
    "Nothing was imported. A program may accept more: `holdfast.open(…, limits=holdfast.Limits(…))`"
    ", then `import_` of the namespace."
)

HINTS_OF: Final = {
    "import": TOO_LARGE_HINT,
    "merge": "`--prefer ours` or `--prefer theirs` says who wins where both changed the same.",
}
"""Hints for what only one command can answer."""

DRIFT_HINTS: Final[dict[str, str]] = {
    "refused": "Without --refuse-drift they are kept as a snapshot first; `holdfast snapshot` "
    "keeps them now.",
    "lost": "Move them elsewhere, or give them up with --force.",
    "unreadable": "Let them be read (`chmod -R u+rwX`) and say it again: then nothing is lost; or "
    "move them elsewhere, or give them up with --force.",
    "moving": "Something else writes there: try again when it has ended.",
    "behind": "Somebody writes through the namespace: try again.",
}
"""Hints by what is wrong with what is in no snapshot."""

UNVERIFIED_HINT: Final = (
    "If something else writes there, `holdfast status` shows what it did; if not, "
    "`holdfast verify` names what is damaged."
)

LISTED: Final = 20
"""Paths of an error that people are shown; JSON has them all."""


class Refused(Exception):
    """What the command line itself refuses, before or without asking the engine."""

    def __init__(self, message: str, *, code: str, exit_code: int, hint: str) -> None:
        super().__init__(message)
        self.code, self.exit_code, self.hint = code, exit_code, hint


def usage(message: str, *, hint: str) -> Refused:
    """Returns the error for a command that was not typed as it has to be."""
    return Refused(message, code="usage", exit_code=USAGE, hint=hint)


def exit_code_of(error: Exception) -> int:
    """Returns the exit code for an error: that of the nearest family above it."""
    if isinstance(error, Refused):
        return error.exit_code
    codes = (EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)
    return next(codes, FAILED)


def report(error: Exception, console: Console) -> int:
    """Tells what went wrong, on stderr, and returns the exit code."""
    code, hint = _code_and_hint(error, console)
    message = _message(error)
    paths = [path for path in getattr(error, "paths", ()) if isinstance(path, str)]
    if console.is_json:
        told: dict[str, object] = {"code": code, "message": message, "hint": hint}
        if paths:
            told["paths"] = paths
        console.fail({"error": told})
    else:
        is_said = len(paths) == 1 and message.startswith(f"{paths[0]} ")
        _complain(console, message, [] if is_said else paths, hint)
    if console.is_verbose:
        import traceback  # noqa: PLC0415 - for whoever asks

        lines = "".join(traceback.format_exception(error)).splitlines()
        # A message that ends a line, to go on with one that looks like ours, stays within this.
        console.complain("\n".join(f"| {line}" for line in lines))
    return exit_code_of(error)


def code_of_proof(console: Console, *, is_verified: bool, differing: Sequence[str] = ()) -> int:
    """Returns how something ends that was carried out, and tells if it is not what was asked for.

    On stderr, quiet or not; who reads JSON has it in the document.
    """
    if is_verified:
        return DONE
    if not console.is_json:
        message = "it was carried out, and is NOT VERIFIED: it was read back, and is something else"
        _complain(console, message, differing, UNVERIFIED_HINT)
    return UNVERIFIED


def _complain(console: Console, message: str, paths: Sequence[str], hint: str) -> None:
    lines = [f"holdfast: {escaped(message)}"]
    lines += [f"    {escaped(path)}" for path in paths[:LISTED]]
    if len(paths) > LISTED:
        lines.append(f"    and {len(paths) - LISTED:,} more")
    lines += [f"  {escaped(hint)}"] if hint else []
    console.complain("\n".join(lines))


def hint_of(error: HoldfastError, console: Console) -> str:
    """Returns what to try next on a command line."""
    match error:
        case DirectoryMissing() | DirectoryReplaced():
            return _hint_of_absent(error, console)
        case AlreadyAttached():
            detach = f"`holdfast detach {shlex.quote(error.name)}`"
            return f"{detach} lets go of it; its history stays, and can be attached again."
        case DriftFound() | NameNotFound():
            return DRIFT_HINTS[error.cause] if isinstance(error, DriftFound) else _FROM_HERE
        case TooLarge() | MergeConflict() if console.command in HINTS_OF:
            return HINTS_OF[console.command]
        case InvalidValue() if console.command and "hint" not in vars(error):
            return f"`holdfast {console.command} --help` shows what it takes."
        case _:
            # What is said of this very error is truer than what is said of all of its kind.
            usual = HINTS.get(error.code, error.hint)
            return vars(error).get("hint") or f"{_how_to_get_the_rest(error)}{usual}"


def _how_to_get_the_rest(error: HoldfastError) -> str:
    """Returns how all is brought back but what is damaged; nothing where that is not known."""
    if not isinstance(error, Damaged) or error.target is None or not error.paths:
        return ""
    but = " ".join(shlex.quote(path) for path in error.paths)
    return f"`holdfast restore {error.target} --except {but}` brings back the rest. "


def how_to_bring_back(path: str, console: Console) -> str:
    """Returns what to type, where the command was typed, to get an attached directory back."""
    here = console.started_in or console.cwd
    is_near = here == os.path.dirname(path) or f"{here}/".startswith(f"{path}/")
    command = "holdfast undo" if is_near else f"holdfast -C {shlex.quote(path)} undo"
    return f"`{command}` brings it back"


def operand_of(directory: str, console: Console) -> str:
    """Returns a directory as the last word of a command; nothing, if the command is typed in it."""
    here = console.started_in or console.cwd
    return "" if directory == here else f" {shlex.quote(directory)}"


def _hint_of_absent(error: DirectoryMissing | DirectoryReplaced, console: Console) -> str:
    if error.now_at is not None:
        there = shlex.quote(error.now_at)
        return f"It was moved: `cd {there}`, or `holdfast -C {there} …`, goes on with it."
    if isinstance(error, DirectoryMissing):
        return f"{how_to_bring_back(error.path, console)}."
    here = console.started_in or console.cwd
    # Who stands in what is moved away is in it afterwards.
    stands_in = f"{here}/".startswith(f"{error.path}/")
    how = f"`holdfast -C {shlex.quote(error.path)} undo` brings it back"
    back = f"Move it away, and {how if stands_in else how_to_bring_back(error.path, console)}"
    if not os.path.isdir(error.path) or os.path.islink(error.path):
        return f"{back}."
    this = operand_of(error.path, console)
    take = f"`holdfast init --namespace {shlex.quote(error.namespace)}{this}`"
    return f"{back}; {take} takes this one for it, and nothing in it is lost."


def _code_and_hint(error: Exception, console: Console) -> tuple[str, str]:
    if isinstance(error, Refused):
        return error.code, error.hint
    if isinstance(error, HoldfastError):
        return error.code, hint_of(error, console)
    if isinstance(error, OSError):
        return "system", "The operating system said so; `holdfast doctor` may know why."
    return "unexpected", "This is a fault of holdfast: please report it with what -v shows."


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        name = error.filename
        text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name or "")
        return f"{text}: {error.strerror}" if text else error.strerror
    return str(error) or type(error).__name__
