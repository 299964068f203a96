"""The directories that commands run in: one for each namespace, kept for the next command.

A directory is attached to its namespace as any other (`directory`): it catches up with what was
written through the namespace before a command begins, and what the command has left is captured
when it ends. So a call costs what has changed, and not what there is.

One command at a time: whoever holds the place (`directory/lending.py`). What one that was
interrupted has left is kept as a snapshot of its own before the next one begins.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from holdfast.engine.directory.attachments import Attachment, Attachments
from holdfast.engine.directory.lending import Place, place_for
from holdfast.engine.directory.snapshot import keep
from holdfast.engine.planes.handle import Handle
from holdfast.engine.workspace import Workspace
from holdfast.errors import LimitExceeded, NamespaceNotFound, Unavailable
from holdfast.errors.system import from_system
from holdfast.ids import NamespaceId
from holdfast.model.basics import SnapshotInfo
from holdfast.operations.snapshots import Note
from holdfast.progress import no_progress

BEFORE: Final = "before a command"
INTERRUPTED: Final = "what a command that was interrupted has left"

_NOTHING_LEFT_OUT: Final = b""


class _Copy(Workspace):
    """A directory of our own: all that is in it counts, and what was there before is kept."""

    def __init__(self, handle: Handle, attachment: Attachment, whose: NamespaceId) -> None:
        # Whatever `.holdfastignore` says: commands see what the namespace has.
        super().__init__(handle, attachment, _NOTHING_LEFT_OUT)
        self._whose = whose

    def capture(self, reason: str) -> SnapshotInfo | None:
        """Captures what differs; what the namespace had and no snapshot did is one before it."""
        note = Note(reason=reason)
        with self._exclusive():
            taken, _ = keep(
                self._plain,
                self._directory,
                note,
                only_if_changed=True,
                before=BEFORE,
                only_in=self._whose,
                progress=no_progress,
            )
        return taken


class Warm:
    """The directory of one namespace, in the hands of whoever runs a command in it."""

    def __init__(self, handle: Handle, place: Place, whose: NamespaceId) -> None:
        self.place, self._handle, self._whose = place, handle, whose
        self._workspace = self._open()

    def _open(self) -> _Copy:
        handle, place = self._handle, self.place
        place.prepare()
        context = replace(handle.context, state=place.state)
        found = Attachments(context, handle.tenant_id).get_or_add(
            place.files, namespace=handle.name
        )
        return _Copy(handle, found, self._whose)

    def close(self) -> None:
        """Keeps what is known of it for the next command."""
        self._workspace.close()

    def catch_up(self) -> None:
        """Brings in what was written through the namespace; keeps what was interrupted first."""
        if self.place.was_interrupted:
            self.keep(INTERRUPTED)
        try:
            self._workspace.agree()
        except Unavailable:
            # A folder that a command has closed, for one: all that is in it is in the namespace,
            # of which another is made.
            self._begin_anew()
            self._workspace.agree()

    def _begin_anew(self) -> None:
        self._workspace.close()
        self.place.clear()
        self._workspace = self._open()

    def keep(self, reason: str) -> SnapshotInfo | None:
        """Keeps what a command has left; None if that is what was there before.

        What there is no room for is not kept, and is gone: no other command could clear it away.
        Nor is anything of a namespace that is gone: raises `NamespaceNotFound`.
        """
        self.place.open_up()
        try:
            taken = self._workspace.capture(reason)
            if taken is not None and taken.is_partial:
                # What it has closed to everybody is its own, and so are the modes.
                self.place.open_all()
                taken = self._workspace.capture(reason) or taken
        except NamespaceNotFound:
            self._workspace.close()
            self.place.clear()
            raise
        except LimitExceeded as exc:
            self._begin_anew()
            exc.add_note("Nothing of what the command did was kept.")
            raise
        return taken


@contextmanager
def lend(handle: Handle, namespace_id: NamespaceId) -> Generator[Warm]:
    """Lends the directory of a namespace to one command at a time; raises `Busy`."""
    try:
        place = place_for(handle.context, handle.tenant_id, namespace_id, handle.name)
        with place.hold():
            warm = Warm(handle, place, namespace_id)
            try:
                yield warm
            finally:
                warm.close()
            os.utime(place.folder)
    except OSError as exc:
        raise from_system(exc, f"the directory for commands in {handle.name!r}") from exc
