"""`holdfast watch`: takes a snapshot whenever the directory falls quiet, and answers commands.

One process per directory, and one thread in it: it sleeps until something happens in the
directory, somebody sends a command (`resident`), a signal comes, or something is due. What is
due when is `Keeper`'s to say, which neither sleeps nor captures. Once nobody has wanted anything
for a moment, it does some of the next look's work.

What the kernel tells of changes is a hint. At the start and every ten minutes the directory is
opened anew and looked at from top to bottom.

When `holdfast watch` takes its next snapshot: after a while of quiet, or of no quiet at all.

Neither sleeps nor captures: it is told what happened, and says what is due. A capture that
fails is tried again, less and less often; that is said once, and so is that it works again.
"""

import os
import select
import signal
import time
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import holdfast
from holdfast.cli import thin, words
from holdfast.cli.attached import get_workspace, is_gone
from holdfast.cli.background import show, start, stop
from holdfast.cli.console import Console
from holdfast.cli.exits import CONFLICT, DONE, NOT_FOUND, Refused
from holdfast.cli.installed import client_stamp
from holdfast.cli.resident import Door, OpenVault, answer_with
from holdfast.cli.snapshots import snapshot_view
from holdfast.errors import (
    Busy,
    CatalogReplaced,
    DirectoryMissing,
    HoldfastError,
    Unavailable,
)
from holdfast.escaping import escaped
from holdfast.workspace.watching import Watcher

QUIET_S: Final = 2.0
MAX_INTERVAL_S: Final = 60.0
CHECK_S: Final = 600.0
"""How often everything is checked, hints or none."""

POLL_S: Final = 30.0
"""How often everything is checked where there are no hints at all, and whether the vault is
still there."""

PAUSE_S: Final = 0.1
"""While a directory is busy it is listened to ten times a second, not at every event."""

LEISURE_S: Final = 0.05
"""How long nobody may want anything before work is done that nobody waits for."""

EXAMPLES = """\
examples:
  holdfast watch                     until Ctrl-C
  holdfast watch --background        until `holdfast watch --stop`
  holdfast watch --no-snapshots      only make the other commands fast
"""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = (
        "Takes a snapshot whenever the directory has changed and then been quiet for a while.\n"
        "Meanwhile it answers other commands in this directory, which makes them fast."
    )
    parser.epilog = EXAMPLES
    option = parser.add_argument
    option("--quiet-for", type=float, default=QUIET_S, metavar="SECONDS", help="2 by default")
    option(
        "--max-interval",
        type=float,
        default=MAX_INTERVAL_S,
        metavar="SECONDS",
        help="take one at least this often while it never is quiet; 60 by default",
    )
    option("--no-snapshots", action="store_true", help="answer commands, and nothing else")
    option("--background", action="store_true", help="return at once, and go on")
    option("--stop", action="store_true", help="end the process that watches this directory")
    option("--status", action="store_true", help="say which processes answer commands here")
    option("--ready-fd", type=int, help=SUPPRESS)


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    location = console.location()
    folder = thin.run_folder(location)
    if folder is not None and arguments.stop:
        # Without the vault: it may be what is no longer there.
        return stop(folder, console.cwd, console)
    if folder is not None and arguments.status:
        return show(folder, console.cwd, console)
    directory = str(get_workspace(console).path)
    if folder is None:
        raise Refused(
            "only directories of a vault on this machine can be watched",
            code="not_local",
            exit_code=NOT_FOUND,
            hint="Name another vault with --data.",
        )
    if is_gone(directory):
        raise DirectoryMissing(directory)
    if arguments.background:
        return start(folder, directory, location, arguments, console)
    try:
        door = Door(Path(folder), directory, client=client_stamp())
    except Busy as exc:
        raise Refused(
            str(exc),
            code=exc.code,
            exit_code=CONFLICT,
            hint="`holdfast watch --stop` ends that one.",
        ) from exc
    try:
        # What was opened to find the directory is let go: the loop opens it as it needs it.
        console.vaults.release()
        vaults = OpenVault(location, directory, console.open_vault(location))
        _Watch(vaults, directory, door, arguments, console).run()
    finally:
        door.close()
    return DONE


class _Watch:
    """The loop, and what it holds open."""

    def __init__(
        self,
        vaults: OpenVault,
        directory: str,
        door: Door,
        arguments: Namespace,
        console: Console,
    ) -> None:
        self._vaults, self._directory, self._door = vaults, directory, door
        self._console = console
        self._answer = answer_with(vaults)
        self._ready_fd: int | None = arguments.ready_fd
        self._takes_snapshots = not arguments.no_snapshots
        self._activity = self._watch_activity() if self._takes_snapshots else None
        self._keeper = Keeper(
            self._keep,
            lambda text: console.complain(f"holdfast: {text}"),
            quiet_s=arguments.quiet_for,
            max_interval_s=arguments.max_interval,
        )
        self._listen_at = 0.0
        self._check_s = CHECK_S if self._activity or not self._takes_snapshots else POLL_S
        self._check_at = time.monotonic()
        self._is_ahead = False

    def run(self) -> None:
        """Goes on until a signal, or a command, ends it."""
        with end_signals() as signals:
            try:
                self._say_ready()
                while self._step(signals):
                    pass
            finally:
                with suppress(HoldfastError, OSError):  # What is known is lost: it is read anew.
                    self._close()

    def _step(self, signals: int) -> bool:
        """Waits for the next thing and does it; returns False if it is the end."""
        if time.monotonic() >= self._check_at:
            self._check_at = time.monotonic() + self._check_s
            with suppress(HoldfastError, OSError):  # If it matters, `_keep` meets it again.
                self._reopen()
            if self._takes_snapshots:
                self._keeper.suspect()
        ready = self._wait(signals)
        if signals in ready or not self._is_current():
            return False
        if self._door.fileno() in ready and not self._door.serve(self._answer):
            return False
        if self._activity is not None and self._activity.is_in(ready):
            self._listen_at = time.monotonic() + PAUSE_S
            # None: it cannot say, so everything is suspect.
            if self._activity.take() != frozenset():
                self._keeper.suspect()
        self._keeper.run_due()
        self._is_ahead = not ready and (self._is_ahead or not self._look_ahead())
        return True

    def _is_current(self) -> bool:
        """Says whether the vault is still the one that was opened: else there is no more to do.

        Whoever asks for something gets no answer, and does it without us.
        """
        try:
            self._vaults.open(self._vaults.location).check_current()
        except CatalogReplaced as exc:
            if exc.may_return:
                return True
            self._console.complain(f"holdfast: {escaped(str(exc))}: nobody watches any more")
            return False
        except HoldfastError:
            return True  # If it matters, `_keep` meets it again.
        return True

    def _wait(self, signals: int) -> set[int]:
        """Returns the descriptors that have something to say, or none when something is due."""
        now = time.monotonic()
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        poll.register(self._door.fileno(), select.POLLIN)
        due = [self._check_at - now, POLL_S]
        if self._activity is not None and now >= self._listen_at:
            self._activity.wake(poll)
        elif self._activity is not None:
            due.append(self._listen_at - now)
        if not self._is_ahead:
            due.append(LEISURE_S)
        in_s = self._keeper.due_in()
        if in_s is not None:
            due.append(in_s)
        # Rounded up: a wait that ends too soon would be repeated until it does not.
        return {fd for fd, _ in poll.poll(max(0.0, min(due)) * 1000 + 1)}

    def _watch_activity(self) -> Watcher | None:
        """Returns who tells of changes; None where nobody can."""
        root, vault = os.fsencode(self._directory), os.fsencode(self._vaults.location)
        try:
            return Watcher(self._directory, skips=lambda path: root + b"/" + path == vault)
        except Unavailable as exc:
            self._console.note(f"{exc}; everything is checked every {POLL_S:.0f} s instead")
            self._console.note(exc.hint)
            return None

    def _keep(self) -> None:
        """Takes a snapshot if there is something to keep."""
        workspace = self._vaults.workspace or self._reopen()
        snapshot = workspace.snapshot_if_changed(reason="watch")
        if self._activity is not None:
            # Had the directory been missing, what was made in its place is watched from here on.
            self._activity.take()
        if snapshot is None:
            return
        self._console.answer(
            document=lambda: snapshot_view(snapshot),
            lines=lambda: [f"{words.local(snapshot.created_at)}  {words.titled(snapshot)}"],
        )
        self._console.out.flush()

    def _look_ahead(self) -> bool:
        """Does some of the next look's work while nobody waits; says whether there is more."""
        workspace = self._vaults.workspace
        with suppress(HoldfastError, OSError):  # If it matters, `_keep` meets it again.
            return workspace is not None and workspace.look_ahead()
        return False

    def _reopen(self) -> "holdfast.Workspace":
        """Opens the directory anew, which keeps what is known and then checks everything."""
        self._close()
        found = self._vaults.open(self._vaults.location).find_workspace(self._directory)
        if found is None or str(found.path) != self._directory:
            message = f"{self._directory} is no longer attached"
            raise Unavailable(message)
        with suppress(Unavailable):  # Then it looks everywhere, each time.
            found.watch()
        self._vaults.workspace = found
        return found

    def _close(self) -> None:
        if self._vaults.workspace is not None:
            held, self._vaults.workspace = self._vaults.workspace, None
            held.close()

    def _say_ready(self) -> None:
        self._console.say(f"Watching {escaped(self._directory)}")
        self._console.out.flush()
        if self._ready_fd is not None:
            os.write(self._ready_fd, b"1")
            os.close(self._ready_fd)


@contextmanager
def end_signals() -> Generator[int]:
    """Yields a descriptor that is readable once somebody wants this process to end.

    What is being done is finished first; a second Ctrl-C does not wait for that.
    """
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)

    def note(number: int, _frame: object) -> None:
        os.write(writing, b"1")
        signal.signal(number, signal.default_int_handler)

    before = {each: signal.signal(each, note) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield reading
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


FIRST_DELAY_S: Final = 1.0
LONGEST_DELAY_S: Final = 300.0
"""How long a capture that failed waits for its next try: from the first to this, doubled."""


class Keeper:
    """Knows when the next snapshot is due, and how long to wait after one that failed."""

    def __init__(
        self,
        keep: Callable[[], None],
        complain: Callable[[str], None],
        *,
        quiet_s: float,
        max_interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keep, self._complain, self._clock = keep, complain, clock
        self._quiet_s, self._max_interval_s = quiet_s, max_interval_s
        self._changed_at: float | None = None
        self._last_at = self._not_before = clock()
        self._delay_s = 0.0

    def suspect(self) -> None:
        """Notes that something may have changed."""
        self._last_at = self._clock()
        if self._changed_at is None:
            self._changed_at = self._last_at

    def due_in(self) -> float | None:
        """Returns in how many seconds there is something to do; None if nothing has changed."""
        if self._changed_at is None:
            return None
        due = min(self._last_at + self._quiet_s, self._changed_at + self._max_interval_s)
        return max(0.0, max(due, self._not_before) - self._clock())

    def run_due(self) -> None:
        """Keeps what has changed, if it is time to."""
        if self.due_in() != 0.0:
            return
        changed_at, self._changed_at = self._changed_at, None
        try:
            self._keep()
        except Exception as exc:  # noqa: BLE001 - whatever it is: a watcher that died protects nobody
            self._changed_at = changed_at
            self._back_off(exc)
            return
        if self._delay_s:
            self._complain("snapshots can be taken again")
        self._delay_s = 0.0

    def _back_off(self, exc: Exception) -> None:
        if not self._delay_s:
            self._complain(
                f"no snapshot could be taken: {escaped(str(exc))}\n"
                "  It is tried again, less and less often, until it works."
            )
        self._delay_s = min(LONGEST_DELAY_S, self._delay_s * 2 or FIRST_DELAY_S)
        self._not_before = self._clock() + self._delay_s
