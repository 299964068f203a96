"""Directories that lie in each other and are both attached: said when the second one is.

It works: each has its own timeline, and vaults are left out of what is around them. But a
restore of the outer one also brings back files of the inner one, which may surprise.
"""

import os
from collections.abc import Iterator

import holdfast
from holdfast.cli.console import Console
from holdfast.cli.escaping import escaped
from holdfast.cli.thin import is_ours
from holdfast.errors import HoldfastError
from holdfast.settings import LOCAL_NAME, holds_vault, user_vault


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
