"""Opens vaults and attached directories for commands, and decides who closes them.

A command asks and never closes. In a process that ends after one command `OwnVaults` closes
what it opened; a process that stays passes its own `Vaults`, and decides what stays open.
"""

from collections.abc import Callable
from typing import Protocol

import holdfast

FindObjects = Callable[[str], str | None]
"""Returns where the packs of the vault at a location are; None for beside its catalog."""


class Vaults(Protocol):
    """Open vaults, and the attached directories in them."""

    def admit(
        self, directory: str, find_location: Callable[[], str], find_objects: FindObjects, /
    ) -> None:
        """Called before anything is looked at; raises where another process has to do that."""
        ...

    def open(self, location: str, /) -> "holdfast.Holdfast":
        """Returns the vault at a location; makes it if it is not there."""
        ...

    def find_workspace(self, location: str, directory: str, /) -> "holdfast.Workspace | None":
        """Returns the attached directory that is, or holds, this one; None if there is none."""
        ...

    def attach(
        self,
        location: str,
        directory: str,
        /,
        *,
        namespace: str | None,
        force: bool,
        stands_on: "holdfast.SnapshotInfo | None" = None,
    ) -> "holdfast.Workspace":
        """Attaches a directory to a namespace, or opens what is attached already."""
        ...

    def release(self) -> None:
        """Called once at the end of each command, whatever came of it."""
        ...


class OwnVaults:
    """Vaults that are opened for one command, and closed after it."""

    def __init__(self) -> None:
        self._find_objects: FindObjects = lambda _location: None
        self._opened: dict[str, holdfast.Holdfast] = {}
        self._workspaces: list[holdfast.Workspace] = []

    def admit(
        self, directory: str, find_location: Callable[[], str], find_objects: FindObjects, /
    ) -> None:
        """Takes all there is."""
        del directory, find_location
        self._find_objects = find_objects

    def open(self, location: str, /) -> "holdfast.Holdfast":
        """Opens a vault, or returns it if this command has done so already."""
        if location not in self._opened:
            objects = self._find_objects(location)
            self._opened[location] = holdfast.open(location, objects=objects)
        return self._opened[location]

    def find_workspace(self, location: str, directory: str, /) -> "holdfast.Workspace | None":
        """Returns the attached directory that is, or holds, this one; None if there is none."""
        found = self.open(location).find_workspace(directory)
        if found is not None:
            self._workspaces.append(found)
        return found

    def attach(
        self,
        location: str,
        directory: str,
        /,
        *,
        namespace: str | None,
        force: bool,
        stands_on: "holdfast.SnapshotInfo | None" = None,
    ) -> "holdfast.Workspace":
        """Attaches a directory to a namespace, or opens what is attached already."""
        made = self.open(location).workspace(
            directory, namespace=namespace, force=force, stands_on=stands_on
        )
        self._workspaces.append(made)
        return made

    def release(self) -> None:
        """Closes everything, the last opened first."""
        while self._workspaces:
            self._workspaces.pop().close()
        while self._opened:
            self._opened.popitem()[1].close()
