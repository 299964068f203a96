"""Finds what a command is about: the attached directory around it, and its vault."""

import os
import shlex
from argparse import ArgumentParser

import holdfast
from holdfast.cli.console import Console
from holdfast.cli.exits import NOT_FOUND, Refused, how_to_bring_back, operand_of
from holdfast.cli.places import stand_in
from holdfast.cli.words import agreed_lines, disagreed_lines
from holdfast.settings import holds_vault, is_url

NAMED = 3
"""Directories that a hint names."""

LOSS_HINT = (
    "Look at `holdfast log`; `holdfast verify --accept-loss` goes on with what is there. A copy "
    "of the vault may have the rest: keep the packs until you know."
)


def get_workspace(console: Console, *, brings_back: bool = False) -> "holdfast.Workspace":
    """Returns the attached directory that is, or holds, the console's; refuses if none does.

    With `brings_back` also the one that was in it and is missing, if it is the only one.
    """
    location = console.location()
    # Looked for before it is opened: opening would make a vault for somebody who has none.
    found = console.vaults.find_workspace(location, console.cwd) if holds_vault(location) else None
    meant = _find_meant(console, location, found)
    if meant is not None:
        console.note(
            f"{console.cwd} is what is here now; the shell still calls it {meant}, which is "
            "attached, missing, and meant"
        )
        found = console.vaults.find_workspace(location, meant)
    if found is None and (linked := _find_linked(console, location)) is not None:
        found = console.vaults.find_workspace(location, linked)
    if found is None and brings_back:
        missing = [path for path in _missing_in(console, location) if _is_in(path, console.cwd)]
        if len(missing) == 1:
            found = console.vaults.find_workspace(location, missing[0])
    if found is None:
        raise Refused(
            f"{console.cwd} is not in an attached directory "
            f"(looked in the vault {console.location_text(location)})",
            code="not_attached",
            exit_code=NOT_FOUND,
            hint=_way_out(console, location),
        )
    _tell_of_loss(console, location)
    found.on_recovery = console.tell_of_recovery
    found.on_agreement = lambda agreed: _tell_of_agreement(console, agreed)
    console.workspaces.append(found)
    stand_in(console, found)
    if found.moved_from is not None:
        console.note(f"{found.path} was {found.moved_from} before: its history came along")
    return found


def note_if_missing(console: Console, workspace: "holdfast.Workspace") -> None:
    """Says so if the directory itself is gone, beside an answer that does not need it."""
    if is_gone(workspace.path):
        how = how_to_bring_back(str(workspace.path), console)
        console.note(f"the directory {workspace.path} is missing; {how}")


def is_gone(path: "str | os.PathLike[str]") -> bool:
    """Says whether there is no directory at a path any more; a link to one is none."""
    return os.path.islink(path) or not os.path.isdir(path)


def how_to_go_on(
    console: Console, origins: "list[holdfast.Attachment]", directory: str | None = None
) -> str:
    """Returns what to type to go on, in a directory, with the history of one that was moved."""
    where = operand_of(directory or console.cwd, console)
    return " ".join(
        f"`holdfast init --namespace {shlex.quote(each.namespace)}{where}` goes on with the "
        f"history of {each.path}, which is missing."
        for each in origins[:NAMED]
    )


def get_vault(console: Console) -> "holdfast.Holdfast":
    """Returns the vault that the console's directory means; refuses if there is none."""
    location = console.location()
    if not holds_vault(location):
        raise Refused(
            f"there is no vault at {location}",
            code="no_vault",
            exit_code=NOT_FOUND,
            hint="`holdfast init` makes one and attaches the directory that you are in.",
        )
    _tell_of_loss(console, location)
    return console.open_vault(location)


def add_config(parser: ArgumentParser) -> None:
    """Adds what names a server's settings, for commands that are about its vault."""
    parser.add_argument(
        "--config", metavar="FILE", help="settings in TOML, instead of those of HOLDFAST_CONFIG"
    )


def served_place(console: Console) -> dict[str, str | None]:
    """Returns what the command line says of where a server's vault is, as its settings have it."""
    data, objects = console.data, console.objects
    is_database = data is not None and is_url(data)
    if objects is not None and not is_url(objects):
        objects = console.resolve(objects)
    return {
        "data": None if data is None or is_database else console.resolve(data),
        "database_url": data if is_database else None,
        "objects_url": objects,
    }


def _tell_of_agreement(console: Console, agreed: "holdfast.Agreed") -> None:
    """Says what came into the directory of what was done through its namespace, and what not."""
    for line in agreed_lines(agreed):
        console.note(line)
    for line in disagreed_lines(agreed):
        console.warn(line)


def _tell_of_loss(console: Console, location: str) -> None:
    """Says that something is missing, with every command until somebody has accepted it."""
    loss = console.open_vault(location).find_loss()
    if loss is not None:
        console.note(f"the catalog is damaged: {loss}", f"  {LOSS_HINT}")


def _find_meant(console: Console, location: str, found: "holdfast.Workspace | None") -> str | None:
    """Returns the missing directory in which the shell believes to be, if there is one.

    So it is when what stood in its place was moved away with the shell in it.
    """
    named = console.environ.get("PWD", "")
    is_typed_here = console.started_in in (None, console.cwd)
    if not (is_typed_here and os.path.isabs(named) and holds_vault(location)):
        return None
    place = os.path.normpath(named)
    if os.path.lexists(place) or place == console.cwd:
        return None
    around = "" if found is None else str(found.path)
    attached = (str(each.path) for each in console.open_vault(location).workspaces())
    meant = [
        path
        for path in attached
        if _is_at_or_below(place, path) and len(path) > len(around) and is_gone(path)
    ]
    return max(meant, key=len, default=None)


def _find_linked(console: Console, location: str) -> str | None:
    """Returns the attached directory in whose place a link stands by which somebody came here."""
    named = console.called or console.environ.get("PWD", "")
    if not (os.path.isabs(named) and holds_vault(location)):
        return None
    attached = {str(each.path) for each in console.open_vault(location).workspaces()}
    place = os.path.normpath(named)
    while (above := os.path.dirname(place)) != place:
        real = os.path.join(os.path.realpath(above), os.path.basename(place))
        if os.path.islink(real) and real in attached:
            return real
        place = above
    return None


def _missing_in(console: Console, location: str) -> list[str]:
    """Returns the attached directories that were below the console's and are missing."""
    if not holds_vault(location):
        return []
    paths = [str(each.path) for each in console.open_vault(location).workspaces()]
    below = [p for p in paths if p != console.cwd and _is_at_or_below(p, console.cwd)]
    # The nearest first: it is most likely to be the one that is missed.
    return sorted((p for p in below if is_gone(p)), key=lambda p: (p.count("/"), p))


def _is_in(path: str, folder: str) -> bool:
    return os.path.dirname(path) == folder


def _is_at_or_below(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")


def _way_out(console: Console, location: str) -> str:
    """Returns the hint for somebody who is in no attached directory."""
    this = operand_of(console.cwd, console)
    which = console.cwd if this else "the directory that you are in"
    begin = f"`holdfast init{this}` attaches {which}."
    if not holds_vault(location):
        return begin
    vault = console.open_vault(location)
    gone = _missing_in(console, location)
    origins = vault.find_origins(console.cwd)
    if gone:
        back = _how_to_bring_back_one(gone, console)
        return f"{back} Moved? {how_to_go_on(console, origins)}" if origins else back
    if origins:
        return how_to_go_on(console, origins)
    alike = vault.find_origins(console.cwd, is_sure=False)
    return f"{begin} Moved? {how_to_go_on(console, alike)}" if alike else begin


def _how_to_bring_back_one(gone: list[str], console: Console) -> str:
    many = ", ".join(gone[:NAMED])
    if gone[1:]:
        return f"{many} are missing: `holdfast -C {shlex.quote(gone[0])} undo` brings one back."
    return f"{many} is missing: {how_to_bring_back(gone[0], console)}."
