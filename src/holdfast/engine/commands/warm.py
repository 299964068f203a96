"""The directories that commands run in: one for each namespace, kept for the next command.

A directory is attached to its namespace as any other (`directory`): it catches up with what was
written through the namespace before a command begins, and what the command has left is captured
when it ends. So a call costs what has changed, and not what there is.

One command at a time: whoever holds the place (`directory/lending.py`). What one that was
interrupted has left is set aside before the next one begins.

What took more room than a command may is set aside, too: a snapshot has it, and the head goes on
with what was there before, so that nothing is lost and no namespace is filled by what was stopped.
Of what is far too much, or too much for a quota or a limit, nothing is kept; the caller is told.

Where the server is root, commands run as somebody else, to whom all that is in the directory is
handed over before each of them. What was brought into it is; all else belongs to that user already,
which is noted beside it, but for while somebody works on it.
"""

import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from holdfast.engine.core.paths import legible
from holdfast.engine.directory.agreeing import Agreed
from holdfast.engine.directory.attachments import Attachment, Attachments
from holdfast.engine.directory.lending import Place, place_for
from holdfast.engine.directory.snapshot import Lent, keep
from holdfast.engine.planes.commanding import USUAL, Manner
from holdfast.engine.planes.handle import Handle
from holdfast.engine.workspace import Workspace
from holdfast.errors import LimitExceeded, NamespaceNotFound, TooLarge, Unavailable
from holdfast.errors.system import from_system
from holdfast.ids import NamespaceId
from holdfast.model.basics import Head, SnapshotInfo
from holdfast.operations.snapshots import Note
from holdfast.progress import no_progress
from holdfast.sandbox.limits import Allowance, find_user
from holdfast.sandbox.tallying import MOST_DEEP, Growth
from holdfast.workspace.owning import hand_over

BEFORE: Final = "before a command"
INTERRUPTED: Final = "what a command that was interrupted has left"
BEFORE_INTERRUPTED: Final = "what was there before a command that was interrupted"
ASIDE: Final = "what was there before a command that took too much room"

_NOTHING_LEFT_OUT: Final = b""
_MOST_NAMED: Final = 100


class _Copy(Workspace):
    """A directory of our own: all that is in it counts, and what was there before is kept."""

    def __init__(self, handle: Handle, attachment: Attachment, whose: NamespaceId) -> None:
        # Whatever `.holdfastignore` says: commands see what the namespace has.
        super().__init__(handle, attachment, _NOTHING_LEFT_OUT)
        self._whose = whose

    @property
    def touched(self) -> set[bytes]:
        """The folders into which something was brought that is not the command's yet."""
        return self._directory.touched

    @property
    def skipped(self) -> list[str]:
        """What the last look found that no snapshot holds: some of the paths."""
        return [legible(each.path) for each in self._directory.coverage.skipped[:_MOST_NAMED]]

    def capture(self, reason: str, *, aside: str | None = None) -> SnapshotInfo | None:
        """Captures what differs; what the namespace had and no snapshot did is one before it.

        With `aside`, a reason, the head does not go there: returns the snapshot after it.
        """
        note = Note(reason=reason)
        with self._exclusive():
            taken, _ = keep(
                self._plain,
                self._directory,
                note,
                only_if_changed=True,
                lent=Lent(whose=self._whose, before=BEFORE, aside=aside),
                progress=no_progress,
            )
        return taken


class Warm:
    """The directory of one namespace, in the hands of whoever runs a command in it."""

    def __init__(self, handle: Handle, place: Place, head: Head, allowance: Allowance) -> None:
        self.place, self._handle, self._whose = place, handle, head.namespace_id
        self.number = _number_of(handle, head.namespace_id)
        self._user = find_user(self.number)
        self._workspace = self._open()
        self._growth = Growth(
            str(place.files), allowance, size=head.size.bytes, files=head.size.entries
        )

    def measure_from_now(self, allowance: Allowance) -> Head:
        """Counts from what the namespace holds now; returns its head."""
        with self._handle.context.catalog.read() as transaction:
            head = self._handle.get_head(transaction)
        if head.namespace_id != self._whose:
            raise NamespaceNotFound(self._handle.name)
        size = head.size
        self._growth = Growth(str(self.place.files), allowance, size=size.bytes, files=size.entries)
        return head

    def _open(self) -> _Copy:
        handle, place = self._handle, self.place
        place.prepare()
        # Until it is closed: nobody knows any more if this is interrupted.
        self._is_users = place.take_owner() == self._user
        context = replace(handle.context, state=place.state)
        found = Attachments(context, handle.tenant_id).get_or_add(
            place.files, namespace=handle.name
        )
        opened = _Copy(handle, found, self._whose)
        opened.on_agreement = self._hear_of
        return opened

    def _hear_of(self, agreed: Agreed) -> None:
        if agreed.failed is not None:
            # Something may have been written, and taken back.
            self._is_users = False

    def close(self) -> None:
        """Keeps what is known of it for the next command."""
        if self._user is not None and self._is_users:
            # What the command did is kept: the next one only has more to look at.
            with suppress(OSError):
                self.hand_over()
                self.place.note_owner(self._user)
        self._workspace.close()

    def catch_up(self) -> None:
        """Brings in what was written through the namespace; keeps what was interrupted first.

        Aside: nobody waited for its end, and what was done since then, a rollback for one, stands.
        """
        if self.place.was_interrupted:
            self.set_aside(INTERRUPTED, aside=BEFORE_INTERRUPTED)
        try:
            self._workspace.agree()
            self.hand_over()
        except (Unavailable, OSError):
            # A folder that a command has closed, for one: all that is in it is in the namespace,
            # of which another is made.
            self._begin_anew()
            self._workspace.agree()
            self.hand_over()

    def hand_over(self) -> None:
        """Gives what was brought into it to whoever runs commands there."""
        if self._user is None:
            return
        touched = self._workspace.touched
        if touched or not self._is_users:
            within = touched if self._is_users else None
            hand_over(str(self.place.files), self._user, within=within)
        self._is_users = True
        touched.clear()

    def _begin_anew(self) -> None:
        self._workspace.close()
        self.place.clear()
        self._workspace = self._open()

    @property
    def skipped(self) -> list[str]:
        """What a command has left that no snapshot holds: some of the paths."""
        return self._workspace.skipped

    def keep(self, reason: str) -> SnapshotInfo | None:
        """Keeps what a command has left; None if that is what was there before.

        What there is no room for is not kept, and is gone: no other command could clear it away.
        Nor is anything of a namespace that is gone: raises `NamespaceNotFound`.
        """
        self.place.open_up()
        with self._keeping():
            taken = self._workspace.capture(reason)
            if taken is not None and taken.is_partial:
                # What it has closed to everybody is its own, and so are the modes. Nobody could
                # measure it before.
                self.place.open_all()
                if self._growth.find_left() is None:
                    taken = self._workspace.capture(reason) or taken
                else:
                    self._begin_anew()
        return taken

    def set_aside(self, reason: str, *, aside: str = ASIDE) -> SnapshotInfo | None:
        """Keeps what is there in a snapshot, and has the head go on without it.

        Returns the snapshot after it, which shows what was there before; None if nothing differed.
        Far too much is not kept, nor what there is no room for: raises `LimitExceeded`.
        """
        self.place.open_up()
        self.place.open_all()
        with self._keeping():
            if self._growth.is_far_over():
                raise TooLarge(
                    "the command left more than twice what one may add, or folders that lie too "
                    f"deep: {MOST_DEEP} within each other are enough"
                )
            back = self._workspace.capture(reason, aside=aside)
        # The next one finds the namespace as it is, and the disk is free of what was too much.
        self._begin_anew()
        return back

    @contextmanager
    def _keeping(self) -> Generator[None]:
        try:
            yield
        except NamespaceNotFound:
            self._workspace.close()
            self.place.clear()
            raise
        except LimitExceeded as exc:
            self._begin_anew()
            exc.hint = f"Nothing of what the command did was kept. {exc.hint}"
            raise


@contextmanager
def lend(
    handle: Handle, head: Head, allowance: Allowance, manner: Manner = USUAL
) -> Generator[Warm]:
    """Lends the directory of a namespace to one command at a time; raises `Busy`.

    Another process may have it for long: who leaves meanwhile is not waited for.
    """
    try:
        place = place_for(handle.context, handle.tenant_id, head.namespace_id, handle.name)
        with place.hold(waiting=manner.check_wanted):
            warm = Warm(handle, place, head, allowance)
            try:
                yield warm
            finally:
                warm.close()
            os.utime(place.folder)
    except OSError as exc:
        raise from_system(exc, f"the directory for commands in {handle.name!r}") from exc


def _number_of(handle: Handle, namespace_id: NamespaceId) -> int:
    """Returns the number whose user runs commands: of one vault's namespaces, each has another."""
    vault = hashlib.blake2b(handle.context.vault.encode(), digest_size=4).digest()
    return int.from_bytes(vault, "big") + namespace_id
