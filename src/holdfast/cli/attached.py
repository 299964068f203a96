"""Finds what a command is about: the attached directory around it, and its vault."""

import holdfast
from holdfast.cli.console import Console
from holdfast.cli.exits import NOT_FOUND, Refused
from holdfast.settings import holds_vault


def get_workspace(console: Console) -> "holdfast.Workspace":
    """Returns the attached directory that is, or holds, the console's; refuses if none does."""
    location = console.location()
    # Looked for before it is opened: opening would make a vault for somebody who has none.
    found = console.vaults.find_workspace(location, console.cwd) if holds_vault(location) else None
    if found is None:
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
    return console.open_vault(location)
