"""A real directory that is attached to a namespace, and what is known of it.

LastLook are the states of its files when they were last read, and the map that holds what was read
(`LastLook`), so that a look costs what has changed since. Nothing here changes the directory: that
is `writer.py`. All of it happens under the directory's lock (`attachments.py`).
"""

import errno
import os
import re
import shlex
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Final

import msgspec

from holdfast.catalog.namespaces import Attaching
from holdfast.catalog.transaction import Transaction
from holdfast.engine.capturing.capture import Capture, Rereading
from holdfast.engine.capturing.captured import Captured, take_until_still
from holdfast.engine.capturing.folder import check_fits, identities
from holdfast.engine.capturing.lastlook import LastLook
from holdfast.engine.core.context import Context
from holdfast.engine.core.coverage import Coverage
from holdfast.engine.core.paths import is_within, parent_of, to_bytes
from holdfast.engine.directory.attachments import INDEX_NAME, JOURNAL_NAME
from holdfast.engine.objects.content import Sink
from holdfast.errors import DirectoryMissing, InvalidValue, Unavailable
from holdfast.errors.system import NO_ROOM
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import Head
from holdfast.progress import Progress, no_progress
from holdfast.workspace.descent import Descent, open_root, open_up
from holdfast.workspace.ignoring import IGNORE_FILE, MAX_RULES_BYTES, Rules
from holdfast.workspace.journal import Journal
from holdfast.workspace.openings import Openings, Watching
from holdfast.workspace.reading import TORN, Unreadable, Vanished, read_all, read_still
from holdfast.workspace.resting import Resting
from holdfast.workspace.scan import Scan, Scanner
from holdfast.workspace.statindex import StatIndex, adopt_temporary, remove_temporaries

_UNREAD: Final = ".holdfastignore leaves nothing out: {}"

_TAKES_NO_WRITES: Final = NO_ROOM | {errno.EROFS}
"""Whoever writes is told of these, and whoever reads need not be."""


class Directory:
    """One attached directory, in the hands of whoever holds its lock."""

    def __init__(
        self, context: Context, path: Path, state: Path, *, rules: bytes | None = None
    ) -> None:
        self.context = context
        self.path = path
        self.journal = Journal(state / JOURNAL_NAME)
        self.last = LastLook.of(None)
        self.coverage = Coverage(captured=0, captured_bytes=0)
        self.attaching: Attaching | None = None
        """As what its namespaces know it, as long as somebody has hold of it."""
        self._index_path = state / INDEX_NAME
        self._root_fd: int | None = None
        self._apart = identities((state, *context.folders))
        self._saved = self.last
        self._stamp: tuple[int, int] | None = None
        self._watcher: Watching | None = None
        self._openings: Openings | None = None
        self._hints: frozenset[bytes] | None = None
        self._doubtful: frozenset[bytes] = frozenset()
        self._heard = 0
        self._earlier_rules: Callable[[], bytes] | None = None
        self._own_rules = self._told_rules = rules
        self._excluded: Callable[[], frozenset[bytes]] = frozenset
        self.touched: set[bytes] = set()
        """Folders into which something was brought, until somebody has seen to them."""
        self.is_sound = False
        """Whether every byte was read, and kept, since somebody took hold of it."""

    @property
    def root_fd(self) -> int:
        """The directory itself, open; raises `Unavailable` if it is not there."""
        if self._root_fd is None:
            try:
                self._root_fd = open_root(str(self.path))
            except OSError as exc:
                error = Unavailable(f"the directory {self.path} cannot be opened: {exc.strerror}")
                if exc.errno == errno.EACCES:
                    path = shlex.quote(str(self.path))
                    error = error.with_hint(f"`chmod u+rwx {path}` lets it be.")
                raise error from exc
        return self._root_fd

    def refresh(self) -> None:
        """Takes over what another process has learned meanwhile, and a directory made anew."""
        self.is_sound = False
        adopt_temporary(self._index_path)
        stamp = _stamp(self._index_path)
        if stamp != self._stamp or self._root_fd is None:
            remove_temporaries(self._index_path)
            self.last = self._saved = LastLook.of(StatIndex.load(self._index_path))
            self._stamp, self._hints = stamp, None
        here = os.fstat(self.root_fd)
        try:
            there = self.path.lstat()
        except (FileNotFoundError, NotADirectoryError) as exc:
            raise DirectoryMissing(str(self.path)) from exc
        except OSError as exc:
            message = f"the directory {self.path} cannot be looked at: {exc.strerror or exc}"
            raise Unavailable(message) from exc
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            self.let_go()
            self._hints = None

    def forget_index(self) -> None:
        """Makes the next look read every byte again."""
        self.last, self._hints = self.last.forgotten(), None

    def forget_all(self) -> None:
        """Knows nothing any more, nor what was agreed on with a namespace."""
        if self.last.namespace or len(self.last.index) or self.last.former:
            self.last, self._hints = LastLook.of(None), None

    def catch_up(self, transaction: Transaction, head: Head) -> None:
        """Learns what it held when it was last captured, or led, whoever did that.

        So says the catalog, which cannot lag behind the timeline; what was saved here may.
        """
        whose = head.namespace_id
        if 0 != self.last.namespace != whose:
            # Another timeline: nothing was agreed on with that one.
            self.forget_all()
        if self.attaching is None:
            return
        found = transaction.find_agreement(whose, self.attaching)
        if found is not None and found.snapshot != self.last.snapshot:
            self.last = self.last.standing_at(found.snapshot, files=found.files, namespace=whose)

    def forget_to(self, base: str, agreed: str, *, namespace: int | None = None) -> None:
        """Makes the next look read every byte, and compare that with these two maps."""
        self.last = self.last.forgotten().believing(base, agreed, namespace)
        self._hints = None

    def distrust(self, lost: Sequence[str]) -> None:
        """Makes the next look read every byte if packs are lost that were not when it last did."""
        if not {*lost} <= {*self.last.lost}:
            self.last, self._hints = self.last.forgotten(lost), None

    @property
    def is_saved(self) -> bool:
        """Whether the next process knows all that this one does."""
        return self.last is self._saved

    def save(self) -> None:
        """Keeps what is known for the next process, if that can be."""
        if not self.is_saved:
            try:
                self.last.index.save(self._index_path)
            except OSError as exc:
                # The work itself is done; without the index the next look takes longer.
                if exc.errno not in _TAKES_NO_WRITES:
                    import logging  # noqa: PLC0415 - takes longer to load than a look at a directory

                    logging.getLogger(__name__).warning(
                        "%s was not written (%s): the next look takes longer.",
                        self._index_path,
                        exc.strerror or exc,
                    )
            self._saved, self._stamp = self.last, _stamp(self._index_path)

    def watch(self) -> None:
        """Looks, from now on, only where something has happened."""
        if self._watcher is None:
            from holdfast.workspace.watching import Watcher  # noqa: PLC0415 - needed by few

            rules = self.rules()
            self._watcher = Watcher(
                str(self.path),
                skips=lambda path: rules.excludes(path, is_folder=True),
                hears_opening=True,
            )
            self._openings = Openings(self._watcher)
            self._hints = None

    def wait(self, timeout_s: float) -> bool:
        """Waits until something happens in a directory that is watched; says whether it did."""
        if self._watcher is None:
            raise InvalidValue("the directory is not watched")
        return self._watcher.wait(timeout_s)

    def ask(self) -> bool:
        """Asks who has files open, in a directory that is watched; says whether there are more.

        For a moment of leisure: the next look has that much less to do.
        """
        if self._openings is None:
            return False
        asked = self._openings.ask(self.root_fd, self.last.index)
        self._hints = None if self._hints is None else self._hints | asked.folders
        self._doubtful |= asked.doubtful
        return asked.is_worth_more

    def close(self) -> None:
        """Keeps what is known, unless another process knows more, and lets go of the directory."""
        if _stamp(self._index_path) == self._stamp:
            self.save()
        self.forget()

    def forget(self) -> None:
        """Lets go of the directory, and keeps nothing."""
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = self._openings = None
        self.let_go()

    def look(
        self,
        sink: Sink,
        *,
        including: frozenset[bytes] = frozenset(),
        litter: re.Pattern[bytes] | None = None,
        stores: bool = False,
        rereading: Rereading = Rereading.SOME,
        progress: Progress = no_progress,
    ) -> Captured:
        """Returns the directory as it is now; its new content goes to the sink.

        With `stores` that needs room, which is looked for before anything is read. `including`
        names paths that are captured although the rules leave them out; names like
        `litter` are what an interrupted restore has left, and are removed; `rereading` says what
        is read of what is unsure.
        """
        if self._openings is not None:
            self._heard = self._openings.listen()
        rules = self.rules(including)

        def take(known: LastLook) -> Captured:
            is_first = known is self.last
            scan = self._scan(known, rules, litter if is_first else None)
            if stores:
                check_fits(self.context, scan)
            capture = Capture(
                self.root_fd,
                known,
                sink,
                self.context.limits,
                progress,
                rereading=rereading if is_first else Rereading.NONE,
                openings=self._openings,
            )
            return capture.take(scan, rules=rules.digest)

        def scan(known: LastLook, only: frozenset[bytes] | None) -> Scan:
            return self._scan(known, rules, None, only=only)

        captured = take_until_still(self.last, take, scan)
        if rules.unread:
            coverage = msgspec.structs.replace(captured.coverage, unread_rules=rules.unread)
            captured = msgspec.structs.replace(captured, coverage=coverage)
        self.coverage, self._excluded = captured.coverage, cache(captured.find_excluded)
        return captured

    @contextmanager
    def excluding(self) -> Generator[Callable[[bytes], bool]]:
        """Opens what says whether something is there, and left out of the last look."""
        excluded = self._excluded()
        with Descent(self.root_fd) as descent:
            # A folder is left out as a whole: what is in it, only the folder itself can say.
            yield lambda key: is_within(key, excluded) and descent.is_there(key)

    def learn(
        self,
        captured: Captured,
        root: ObjectId,
        *,
        namespace: int | None = None,
        snapshot: SnapshotId | None = None,
    ) -> None:
        """Knows from now on what was captured: a map of that root, of that namespace, holds it.

        Without a `snapshot` that it was committed with, the next process is told by the index.
        """
        before = (captured.last.base, captured.last.agreed)
        self.last = captured.settle(
            root, earlier=self._remembered(), namespace=namespace, snapshot=snapshot
        )
        self.is_sound |= captured.is_whole
        self._hints = self._doubtful = frozenset()
        if self._openings is not None and captured.is_whole:
            self._openings.settle_all(self._heard)
        if snapshot is None and before != (root, root):
            self.save()

    def settle(self) -> None:
        """Ends an operation: what is known is kept for the next process, unless this one stays."""
        if self._watcher is None:
            self.save()

    def rules(self, including: frozenset[bytes] = frozenset()) -> Rules:
        """Returns what is left out, as the directory's own file says now, or as was told.

        One that cannot be read leaves nothing out, except on the way back: what the earlier rules
        left out is left out. So it is with what a restore has taken away; but what that has written
        is in a snapshot.
        """
        earlier = Rules(*self._remembered(), apart=self._apart)
        if earlier.texts:
            including |= self._known_paths()
        return earlier.joined(self.rules_there()).including(including)

    def _known_paths(self) -> frozenset[bytes]:
        """Returns what was captured when the directory was last looked at, but for folders."""
        return frozenset(
            b"/".join((folder.path, row.name)) if folder.path else row.name
            for folder in self.last.index.iter_folders()
            for row in folder.rows
        )

    def rules_there(self) -> Rules:
        """Returns the same, without what a restore has taken away."""
        if self._told_rules is not None:
            return Rules(self._told_rules, apart=self._apart)
        text, unread = self._read_rules()
        if unread and self._earlier_rules is not None:
            return Rules(self._earlier_rules(), apart=self._apart)
        return Rules(text, apart=self._apart, unread=unread)

    def forget_rules(self) -> None:
        """Lets what a restore has left alone be captured like everything else."""
        self.last = msgspec.structs.replace(self.last, earlier=())

    def _remembered(self) -> tuple[bytes, ...]:
        """Returns the rules that a restore has taken away, if they hold here."""
        is_way_back = self._earlier_rules is not None and self._told_rules is None
        return self.last.earlier if is_way_back else ()

    @contextmanager
    def going_back(self, earlier_rules: Callable[[], bytes]) -> Generator[None]:
        """Needs no rules of the directory's own, which may be what went wrong."""
        self._earlier_rules = earlier_rules
        try:
            yield
        finally:
            self._earlier_rules = None

    def open_up(self, paths: Sequence[str]) -> None:
        """Lets these paths, and what is in them, be read and changed, as far as they are ours."""
        for path in paths:
            open_up(self.root_fd, to_bytes(path))

    @contextmanager
    def judged_by(self, rules: bytes | None) -> Generator[None]:
        """Leaves out what these rules do, whatever the directory's own file says; None for that."""
        self._told_rules = self._own_rules if rules is None else rules
        try:
            yield
        finally:
            self._told_rules = self._own_rules

    def rules_text(self) -> bytes:
        """Returns what the directory's own file says; nothing if it cannot be read."""
        return self._read_rules()[0]

    def _read_rules(self) -> tuple[bytes, tuple[str, ...]]:
        """Returns the same, and why it cannot be read if it is there and cannot be."""
        try:
            listening = Resting() if self._openings is None else Resting(self._openings.listen)
            reading = read_still(IGNORE_FILE, self.root_fd, _read_text, resting=listening)
        except Vanished as exc:
            is_there = not isinstance(exc.__cause__, FileNotFoundError)
            return b"", (_UNREAD.format("it is a link, or no file"),) if is_there else ()
        except Unreadable as exc:
            return b"", (_UNREAD.format(exc),)
        if reading.motion == TORN:
            return b"", (_UNREAD.format(TORN),)
        if self._openings is not None and reading.heard is not None:
            self._openings.settle(IGNORE_FILE, reading.heard)
        return reading.value, ()

    def _scan(
        self,
        known: LastLook,
        rules: Rules,
        litter: re.Pattern[bytes] | None,
        *,
        only: frozenset[bytes] | None = None,
    ) -> Scan:
        index = known.index
        if known.rules != rules.digest or len(index) == 0:
            return Scanner(self.root_fd, index, rules, litter=litter).scan(everything=True)
        if only is None and litter is None:
            only = self._hinted()
        scanner = partial(
            Scanner,
            self.root_fd,
            index,
            rules,
            doubtful=self._doubtful,
            is_wary=known is not self.last or bool(known.missed),
        )
        scan = scanner(litter=litter).scan(only=only)
        return scanner().scan() if only is not None and scan.has_twins(index) else scan

    def _hinted(self) -> frozenset[bytes] | None:
        """Returns where something has happened since the last `learn`; None for anywhere."""
        if self._watcher is None or self._openings is None:
            return None
        fresh = self._watcher.take()
        self._hints = None if fresh is None or self._hints is None else self._hints | fresh
        self.ask()
        # Nobody tells of what is written through a mapping, nor that a writer has left, nor what
        # is written through a name that lies elsewhere.
        opened = self._openings.find_folders()
        self._hints = None if self._hints is None or opened is None else self._hints | opened
        if self._hints is None:
            return None
        moving = {parent_of(key) for key in self.last.moving}
        return self._hints | moving | self.last.index.find_linked()

    def let_go(self) -> None:
        """Closes the directory; what was learned of it since the last `save` is forgotten."""
        if self._root_fd is not None:
            os.close(self._root_fd)
            self._root_fd = None


def forget(state: Path) -> None:
    """Makes the next look at a directory read every byte, given where what is known is kept."""
    index = state / INDEX_NAME
    try:
        LastLook.of(StatIndex.load(index)).forgotten().index.save(index)
    except OSError:
        # On a disk that is full: without any, the same is read.
        index.unlink(missing_ok=True)


def _read_text(fd: int, state: os.stat_result) -> bytes:
    if state.st_size > MAX_RULES_BYTES:
        return os.read(fd, MAX_RULES_BYTES + 1)
    return read_all(fd, state.st_size)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns
