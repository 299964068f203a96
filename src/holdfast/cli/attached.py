"""Finds what a command is about: the attached directory around it, and its vault."""

import holdfast
from holdfast.cli.console import Console
from holdfast.cli.exits import NOT_FOUND, Refused
from holdfast.cli.shown import shown
from holdfast.settings import holds_vault

LOSS_HINT = (
    "Look at `holdfast log`; `holdfast verify --accept-loss` goes on with what is there. A copy "
    "of the vault may have the rest: keep the packs until you know."
)


def get_workspace(console: Console) -> "holdfast.Workspace":
    """Returns the attached directory that is, or holds, the console's; refuses if none does."""
    location = console.location()
    # Looked for before it is opened: opening would make a vault for somebody who has none.
    found = console.vaults.find_workspace(location, console.cwd) if holds_vault(location) else None
    if found is not None:
        _tell_of_loss(console, location)
    else:
        raise Refused(
            f"{console.cwd} is not in an attached directory (looked in the vault {location})",
            code="not_attached",
            exit_code=NOT_FOUND,
            hint="`holdfast init` attaches the directory that you are in.",
        )
    return found


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


def _tell_of_loss(console: Console, location: str) -> None:
    """Says that something is missing, with every command until somebody has accepted it."""
    loss = console.open_vault(location).find_loss()
    if loss is not None:
        console.note(f"the catalog is damaged: {shown(str(loss))}\n  {LOSS_HINT}")
