"""Puts another state into a directory: touches what differs, and nothing else.

The caller says which entries change (`Step`) and what a folder is in the state to come. In
order: what goes is unlinked, folders that are no more are removed, new ones are made, files and
links are put, modes are set. Four promises:

1. Nothing outside is touched. Every step is relative to a folder opened without following a
   link (`descent.py`); names are single parts; a hard link that leads out is cut, not written
   through.
2. Nothing is overwritten unseen. Before each step the thing in its place has to be as the index
   knows it; if it is not, `Drifted` is raised and the caller takes back what was done.
3. What a crash leaves half-done, the caller's journal puts right. Small files are rewritten where
   they are, with one call, or cut while nobody can open them, and large ones are patched
   (`amending.py`); all else is written beside its place and renamed over it, and so is everything
   that programs run from or that has several names.
4. No bit of privilege comes back: modes carry permissions and the sticky bit alone.
"""

import errno
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import cached_property, partial
from typing import Final, TypeVar

from holdfast.entries import Blob, Directory, Entry, Inline, Link, twin_of
from holdfast.model.files import PERMISSIONS
from holdfast.workspace.amending import Amending
from holdfast.workspace.creating import (
    BROKEN,
    LEFT,
    MADE,
    WORTH_IT,
    Creator,
    NewFile,
    Stamp,
    load_creator,
    open_together,
)
from holdfast.workspace.descent import Descent, set_mode
from holdfast.workspace.library import is_near
from holdfast.workspace.placing import Expected, check_lets_go, is_there, removing, umask
from holdfast.workspace.pouring import has_hole, write_at, write_sparse
from holdfast.workspace.statindex import StatIndex
from holdfast.workspace.steps import (
    Contents,
    Drifted,
    Goal,
    Loaded,
    State,
    Step,
    above,
    batches_of,
    bytes_of,
    is_file,
    split_key,
)

FOLDER_MODE: Final = 0o755
"""Of a folder that has no entry of its own."""

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TOO_MANY_OPEN: Final = frozenset({errno.EMFILE, errno.ENFILE})
_NOT_EMPTY: Final = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY})


T = TypeVar("T")

At = tuple[bytes, str]
"""A path, and what is done to it, as a message says it."""

REMOVED: Final = "removed"
MADE_ANEW: Final = "made"
WRITTEN: Final = "written"
GIVEN_MODE: Final = "given its mode"


class Writer:
    """Carries steps out in one directory. Belongs to one thread at a time."""

    def __init__(
        self,
        root_fd: int,
        index: StatIndex,
        contents: Contents,
        *,
        litter: bytes,
        goal: Goal,
        checks: bool = True,
        proves: bool = False,
        written: Mapping[bytes, State] | None = None,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        """Is told what to expect.

        `proves` asks for new files to be read back at once, where that costs little. `written` is
        what another writer put, on the way back: what is that no more is left.
        """
        self._root_fd = root_fd
        self._descent = Descent(root_fd)
        self._contents = contents
        self._litter = litter
        self._goal = goal
        self._expected = Expected(index, checks=checks, written=written or {})
        self._amending = Amending(self._expected, contents)
        self._proves = proves
        self.proven: dict[bytes, Stamp] = {}
        """Files that were read back and are what they shall be, as they were then."""
        self._progress = progress
        self._is_way_back = written is not None
        self.written: dict[bytes, State] = {}
        """What was put, as it was a moment later."""
        self._made = 0
        self._opened: dict[bytes, int] = {}
        self.done: list[Step] = []
        self.at: At = (b"", WRITTEN)
        """What was last begun: where, and what was to become of it."""
        self.touched: set[bytes] = set()
        """Folders in which something was done: all that has to be looked at afterwards."""
        self.kept: list[bytes] = []
        """Folders that had to stay: something lies in them that is not captured."""

    @cached_property
    def _umask(self) -> int:
        return umask()

    def carry_out(self, steps: Sequence[Step]) -> None:
        """Does all of it, or raises `Drifted` or an `OSError` half-way: see `done`."""
        try:
            self._unlink([s for s in steps if is_file(s.old) and not is_file(s.new)])
            self._remove_folders(steps)
            self._make_folders(steps)
            self._put([s for s in steps if is_file(s.new)])
            self._set_modes(steps)
        finally:
            self._close_folders()
            self._descent.forget()

    # What goes

    def _unlink(self, steps: Sequence[Step]) -> None:
        for step in steps:
            folder, name = split_key(step.key)
            self.at = step.key, REMOVED
            fd = self._folder(folder)
            row = self._expected.check(step.key, fd)
            if self._expected.is_theirs(step.key, fd):
                continue
            self.done.append(step)
            go = partial(os.unlink, name, dir_fd=fd)
            if row is not None:
                go = partial(self._expected.remove, step.key, fd, row, aside=self._temporary())
            # On the way back it may not be there yet, or be a folder still.
            with suppress(FileNotFoundError, IsADirectoryError):
                try:
                    self._permitted(folder, fd, go)
                except (Drifted, OSError) as exc:
                    # It stays as it is: the way back has nothing to do here, and could do it no
                    # better.
                    if isinstance(exc, Drifted) or is_there(name, fd):
                        self.done.pop()
                    raise

    def _remove_folders(self, steps: Sequence[Step]) -> None:
        gone: set[bytes] = set()
        self.done += [
            s for s in steps if isinstance(s.old, Directory) or isinstance(s.new, Directory)
        ]
        for step in steps:
            path = step.key if isinstance(step.old, Directory) else above(step.key)
            # What is put into a folder keeps it: only what goes may leave one empty.
            stays = step.old is None or (step.new is not None and path != step.key)
            while not stays and path and path not in gone and not self._goal.is_folder(path):
                gone.add(path)
                path = above(path)
        for path in sorted(gone, key=lambda path: (-path.count(b"/"), path)):
            folder, name = split_key(path)
            self.at = path, REMOVED
            fd = self._folder(folder)
            self.touched.add(path)
            try:
                self._permitted(folder, fd, lambda fd=fd, name=name: os.rmdir(name, dir_fd=fd))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as exc:
                if exc.errno not in _NOT_EMPTY:
                    raise
                if is_file(self._goal.find(path)):
                    raise Drifted(path) from exc
                self.kept.append(path)
        self._descent.forget()

    # What comes

    def _make_folders(self, steps: Sequence[Step]) -> None:
        wanted: set[bytes] = set()
        for step in steps:
            if step.new is not None and not self._is_around(step):
                path = step.key if isinstance(step.new, Directory) else above(step.key)
                while path and path not in wanted:
                    wanted.add(path)
                    path = above(path)
        for path in sorted(wanted):
            folder, name = split_key(path)
            self.at = path, MADE_ANEW
            fd = self._folder(folder)
            with suppress(FileExistsError):
                self._permitted(
                    folder, fd, lambda fd=fd, name=name: os.mkdir(name, 0o700, dir_fd=fd)
                )
                self._opened[path] = FOLDER_MODE
                self.done.append(Step(path, None, Directory(FOLDER_MODE)))

    def _is_around(self, step: Step) -> bool:
        """Says whether the folder that a step puts something into was there a moment ago."""
        return self._expected.checks and is_file(step.old) and is_file(step.new)

    def _put(self, steps: Sequence[Step]) -> None:
        # The first of several names before the others, which become links to it.
        twins = [s for s in steps if twin_of(s.new) not in (b"", s.key)]
        plain = [s for s in steps if twin_of(s.new) in (b"", s.key)]
        total, done = bytes_of(steps), 0
        batches = list(batches_of(plain))
        files = [[s.new for s in batch if isinstance(s.new, Inline | Blob)] for batch in batches]
        with closing(self._contents.load(files)) as loading:
            for batch, loaded in zip(batches, loading, strict=True):
                data = iter(loaded)
                self._put_batch(
                    [(s, next(data) if isinstance(s.new, Inline | Blob) else None) for s in batch]
                )
                done += bytes_of(batch)
                self._progress(done, total)
        leaders = {s.key: s.new for s in plain}
        for step in twins:
            self._put_twin(step, leaders)
        self._progress(total, total)

    def _put_batch(self, batch: Sequence[Loaded]) -> None:
        left, chosen, files = list[Loaded](), list[Step](), list[NewFile]()
        for step, data in batch:
            entry = step.new if step.old is None else None
            if data is None or not isinstance(entry, Inline | Blob) or not is_near(entry.mtime_ns):
                left.append((step, data))
                continue
            mode = entry.mode & PERMISSIONS
            files.append(NewFile(*split_key(step.key), data, mode, entry.mtime_ns))
            chosen.append(step)
        create = load_creator() if len(files) >= WORTH_IT else None
        left = batch if create is None else left + self._create_many(create, chosen, files)
        for step, data in left:
            self._put_one(step, data)

    def _create_many(
        self, create: Creator, steps: list[Step], files: list[NewFile]
    ) -> list[Loaded]:
        """Puts files where nothing is, all with one call; returns what is left to be put."""
        left = list[Loaded]()
        try:
            with open_together(files, self._folder) as fds:
                made = create(files, fds, umask=self._umask, reads_back=self._proves)
        except OSError as exc:
            if exc.errno not in _TOO_MANY_OPEN:
                raise
            return [(step, file.data) for step, file in zip(steps, files, strict=True)]
        for at, (step, file, outcome) in enumerate(zip(steps, files, made.outcomes, strict=True)):
            if outcome == LEFT:
                left.append((step, file.data))
                continue
            self.done.append(step)
            if outcome != BROKEN:
                self._note(step)
            else:
                self.at = step.key, WRITTEN
            # One of several names gets its others later, which moves its time of change.
            if outcome == MADE and self._proves and not twin_of(step.new):
                self.proven[step.key] = made.stamps[at]
        if made.problem:
            raise OSError(made.problem, os.strerror(made.problem))
        return left

    def _put_one(self, step: Step, data: bytes | None) -> None:
        self.at = step.key, WRITTEN
        fd = self._folder_of(step)
        if step.old is None and self._create(fd, step, data):
            return
        row = self._expected.check(step.key, fd)
        if self._expected.is_theirs(step.key, fd):
            return
        if isinstance(step.new, Link):
            self._put_link(fd, step, step.new)
        elif isinstance(step.new, Inline | Blob):
            if self._amending.amend(step, row, fd, data, self.done):
                self._note(step)
            else:
                self._put_file(fd, step, step.new, data)

    def _create(self, fd: int, step: Step, data: bytes | None) -> bool:
        """Puts something where nothing is; says whether it could.

        Nothing can be overwritten, so it needs no look before and no second name: half of the
        system calls.
        """
        folder, name = split_key(step.key)
        try:
            if isinstance(step.new, Link):
                target = step.new.target
                self._permitted(folder, fd, lambda: os.symlink(target, name, dir_fd=fd))
                self.done.append(step)
                times = (step.new.mtime_ns, step.new.mtime_ns)
                os.utime(name, ns=times, dir_fd=fd, follow_symlinks=False)
            elif isinstance(step.new, Inline | Blob):
                mode = step.new.mode & PERMISSIONS
                try:
                    file = os.open(name, _CREATE, mode, dir_fd=fd)
                except PermissionError:
                    create = partial(os.open, name, _CREATE, mode, dir_fd=fd)
                    file = self._permitted(folder, fd, create)
                self.done.append(step)
                self._fill(file, step.new, data, created_as=mode)
        except FileExistsError:
            return False
        self._note(step)
        return True

    def _fill(
        self, file: int, entry: Inline | Blob, data: bytes | None, *, created_as: int
    ) -> None:
        """Gives a new file its content, mode and time, and closes it."""
        try:
            if data is not None and not has_hole(data):
                write_at(file, data, 0)
            else:
                self._pour(file, entry, data)
            mode = entry.mode & PERMISSIONS
            if created_as & ~self._umask != mode:
                os.fchmod(file, mode)
            os.utime(file, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(file)

    def _pour(self, file: int, entry: Inline | Blob, data: bytes | None) -> None:
        if data is not None:
            write_sparse(file, iter((data,)), entry.size)
            return
        with closing(self._contents.stream(entry)) as parts:
            write_sparse(file, parts, entry.size)

    def _note(self, step: Step) -> None:
        if isinstance(step.new, Inline | Blob | Link):
            self.written[step.key] = (step.new.size, step.new.mtime_ns)

    def _put_file(self, fd: int, step: Step, entry: Inline | Blob, data: bytes | None) -> None:
        temporary, (folder, _) = self._beside(fd), split_key(step.key)
        file = self._permitted(folder, fd, lambda: os.open(temporary, _CREATE, 0o600, dir_fd=fd))
        with removing(temporary, fd):
            self._fill(file, entry, data, created_as=0o600)
            self._replace(fd, temporary, step)

    def _put_link(self, fd: int, step: Step, entry: Link) -> None:
        temporary, times = self._beside(fd), (entry.mtime_ns, entry.mtime_ns)
        folder, _ = split_key(step.key)
        self._permitted(folder, fd, lambda: os.symlink(entry.target, temporary, dir_fd=fd))
        with removing(temporary, fd):
            os.utime(temporary, ns=times, dir_fd=fd, follow_symlinks=False)
            self._replace(fd, temporary, step)

    def _replace(self, fd: int, temporary: bytes, step: Step) -> None:
        """Puts what was written in its place, if what is there is still what is known."""
        # Again: writing a large file takes long enough for somebody to change the old one.
        self._expected.check(step.key, fd)
        is_theirs = self._expected.is_theirs(step.key, fd)
        if not is_theirs:
            try:
                os.rename(temporary, split_key(step.key)[1], src_dir_fd=fd, dst_dir_fd=fd)
            except IsADirectoryError as exc:
                if not self._is_way_back:
                    raise Drifted(step.key) from exc
                is_theirs = True
        if is_theirs:
            os.unlink(temporary, dir_fd=fd)
            return
        self.done.append(step)
        self._note(step)

    def _put_twin(self, step: Step, leaders: dict[bytes, Entry | None]) -> None:
        """Makes one more name of a file, or a file of its own if the first name is another's."""
        first = twin_of(step.new)
        leader = leaders[first] if first in leaders else self._goal.find(first)
        if leader != step.new:
            self._put_one(step, None)
            return
        folder, name = split_key(step.key)
        first_folder, first_name = split_key(first)
        self.at = step.key, WRITTEN
        fd = self._folder_of(step)
        self._expected.check(step.key, fd)
        temporary = self._beside(fd)
        with Descent(self._root_fd) as beside:
            first_fd = beside.open(first_folder)
            self._permitted(
                folder,
                fd,
                lambda: os.link(
                    first_name,
                    temporary,
                    src_dir_fd=first_fd,
                    dst_dir_fd=fd,
                    follow_symlinks=False,
                ),
            )
        with removing(temporary, fd):
            # If both are one file already, a rename does nothing and leaves the other name.
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=fd)
            self.done.append(step)
            os.rename(temporary, name, src_dir_fd=fd, dst_dir_fd=fd)

    # Modes, last: a folder may become one that nothing can be written to

    def _set_modes(self, steps: Sequence[Step]) -> None:
        modes = dict(self._opened)
        for step in steps:
            if isinstance(step.new, Directory):
                modes[step.key] = step.new.mode & PERMISSIONS
            elif isinstance(step.old, Directory) and self._goal.is_folder(step.key):
                modes[step.key] = FOLDER_MODE
        self._opened = {}
        # What lies in a folder before it: it may become one that nobody may enter.
        for path in sorted(modes, reverse=True):
            self.touched.add(path)
            self.at = path, GIVEN_MODE
            with suppress(FileNotFoundError, NotADirectoryError):
                self._set_mode(path, modes[path])

    def _close_folders(self) -> None:
        """Gives folders that were opened for writing their mode back, also after an error."""
        for path, mode in sorted(self._opened.items(), reverse=True):
            with suppress(OSError):
                self._set_mode(path, mode)
        self._opened = {}

    def _set_mode(self, path: bytes, mode: int) -> None:
        if path:
            folder, name = split_key(path)
            set_mode(name, self._folder(folder), mode)
        else:
            os.fchmod(self._root_fd, mode)

    # Inside

    def _folder(self, path: bytes) -> int:
        self.touched.add(path)
        return self._descent.open(path)

    def _folder_of(self, step: Step) -> int:
        """Opens the folder that a step puts something into; one that has gone is a drift."""
        try:
            return self._folder(above(step.key))
        except FileNotFoundError as exc:
            if self._is_around(step):
                raise Drifted(step.key) from exc
            raise

    def _permitted(self, path: bytes, fd: int, call: Callable[[], T]) -> T:
        """Does something in a folder, after making it writable if its owner has to be asked."""
        try:
            return call()
        except PermissionError:
            mode = stat.S_IMODE(os.fstat(fd).st_mode)
            if mode & 0o300 == 0o300:  # noqa: PLR2004 - the owner's bits to write and to enter
                raise
            os.fchmod(fd, mode | 0o700)
            self._opened.setdefault(path, mode)
            return call()

    def _beside(self, fd: int) -> bytes:
        """Returns a name for what is written beside its place, in a folder that lets it go."""
        check_lets_go(fd)
        return self._temporary()

    def _temporary(self) -> bytes:
        self._made += 1
        return self._litter + b"-%d.tmp" % self._made
