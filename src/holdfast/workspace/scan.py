"""Finds out what has changed in a directory, reading no file.

What is known is checked, not walked (`statindex.py`): the answer names the files whose state
differs and the folders whose own times moved. Those folders alone are listed again; folders
that are new are listed with all that is in them. The result is a draft of every folder that is
not as it was known, with the names whose content has to be read.

Nothing is followed and nothing is opened but folders. What is neither file, link nor folder is
named as skipped; what the rules leave out, as excluded; what cannot be listed, as failed.

Folders are looked at one after the other, and names move meanwhile: something can leave a folder
before its turn, for one that had its turn. Then one of three things shows, none of which costs a
call: a name that was listed is gone, or stands for another, when its turn comes; or a folder has
changed since the look began. The scan says so, and whoever asked looks again (`captured.py`).
"""

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from holdfast.errors import Unavailable
from holdfast.model.files import MAX_PATH_BYTES
from holdfast.workspace.descent import Descent
from holdfast.workspace.drafts import (
    Draft,
    Identity,
    Omitted,
    find_lost,
    find_split,
    has_names,
    is_content,
    row_of,
)
from holdfast.workspace.guard import A_PACK, A_VAULT, describe_mount, is_pack, is_vault
from holdfast.workspace.ignoring import IGNORE_FILE, Rules
from holdfast.workspace.journal import A_LEFTOVER, is_litter
from holdfast.workspace.resting import floor_ns
from holdfast.workspace.statindex import Checked, Folder, Row, StatIndex, is_unsure, settled
from holdfast.workspace.steps import above, split_key

LOOKS: Final = 5
"""Times that a folder is listed in which a name changes what it is."""


BY_RULES: Final = os.fsdecode(IGNORE_FILE)
"""Why something is excluded that no other reason excludes."""

_SPECIAL: Final = {
    stat.S_IFSOCK: "a socket",
    stat.S_IFIFO: "a fifo",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


class Scan(NamedTuple):
    """What is not as it was known."""

    drafts: dict[bytes, Draft]
    gone: list[bytes]
    """Known folders that are no more; with each, all that was below it."""
    relisted: set[bytes]
    """Drafts whose names were listed anew: what they omit replaces what was known of that."""
    missed: dict[Identity, bytes]
    """What was seen or known under a path and was not there any more when its turn came."""
    is_disturbed: bool
    """Whether names changed while we looked: something may be missing that is there."""

    def has_twins(self, index: StatIndex) -> bool:
        """Says whether a file with several names is, or was, among what was found.

        Its other names may lie in folders that nobody asked about.
        """
        for path in self.gone:
            if any(row.nlink > 1 for folder in index.iter_folders(path) for row in folder.rows):
                return True
        for path, draft in self.drafts.items():
            if any(draft.rows[name].nlink > 1 for name in draft.wanted):
                return True
            before = index.find(path)
            for row in before.rows if before else ():
                if row.nlink > 1 and (row.name in draft.wanted or row.name not in draft.rows):
                    return True
        return False


class Scanner:
    """One look at a directory."""

    def __init__(
        self,
        root_fd: int,
        index: StatIndex,
        rules: Rules,
        *,
        litter: re.Pattern[bytes] | None = None,
        doubtful: frozenset[bytes] = frozenset(),
        is_wary: bool = False,
    ) -> None:
        """Files that are `doubtful` are to be read, whatever their state says.

        Who `is_wary` is disturbed by a folder that may as well have changed just before.
        """
        self._root_fd = root_fd
        self._doubtful = doubtful
        self._is_wary = is_wary
        self._index = index
        self._rules = rules
        self._litter = litter
        self._drafts: dict[bytes, Draft] = {}
        self._relisted: set[bytes] = set()
        self._gone: set[bytes] = set()
        self._todo: list[bytes] = []
        self._differing: dict[bytes, set[bytes]] = {}
        """Of known folders with other times: the rows that are not as they were a moment ago."""
        self._tries: dict[bytes, int] = {}
        self._floor_ns, self._begun_ns = floor_ns(), time.time_ns()
        """Stamps of what changed since are no earlier than the first, of before no later than the
        second."""
        self._listed: dict[bytes, Identity] = {}
        """Of folders that were listed and not looked into yet."""
        self._missed: dict[Identity, bytes] = {}
        self._is_fresh = False
        """Whether a folder may have changed since we look, or just before."""
        self._is_disturbed = False

    def scan(self, *, only: Iterable[bytes] | None = None, everything: bool = False) -> Scan:
        """Looks at what is known, or at some folders of it, or lists everything anew."""
        with Descent(self._root_fd) as descent:
            if everything or len(self._index) == 0:
                everything = self._is_wary = True
                self._todo = [b""]
            else:
                checked = self._index.check(self._root_fd, only=only)
                folders = {*checked.folders, *self._around(checked)}
                self._todo = sorted(folders, reverse=True)
                self._differing = {p: set() for p in checked.folders if p not in checked.lost}
                for path, name in checked.rows:
                    if path in self._differing:
                        self._differing[path].add(name)
                rows = {*checked.rows, *map(split_key, self._doubtful)}
                self._take_rows(descent, sorted(rows), listed=folders)
            while self._todo:
                self._list(descent, self._todo.pop(), everything=everything)
        self._settle_gone()
        self._want_names()
        if self._is_fresh:
            # Stamps of the tick in which we began are of just before, most of the time: where all
            # that was known is somewhere, nothing is taken to have left, unless we are wary.
            self._missed |= find_lost(self._index, self._drafts, self._gone)
        is_disturbed = self._is_disturbed or bool(self._missed)
        return Scan(self._drafts, sorted(self._gone), self._relisted, self._missed, is_disturbed)

    def _around(self, checked: Checked) -> Iterator[bytes]:
        """Yields folders that were as they were known until something in them was replaced."""
        changed = set(checked.folders)
        for path in checked.lost - {b""}:
            folder = self._index.find(path)
            if folder is not None and above(path) not in changed:
                self._missed[folder.dev, folder.ino] = path
                yield above(path)

    def _take_rows(
        self, descent: Descent, rows: list[tuple[bytes, bytes]], *, listed: set[bytes]
    ) -> None:
        for path, name in rows:
            if path in listed:
                continue  # listing it finds the row as well
            draft = self._drafts.get(path)
            if draft is None:
                folder = self._index.find(path)
                if folder is None:
                    continue
                draft = self._drafts[path] = Draft.of(folder)
            if name not in draft.rows:
                continue
            before = draft.rows[name]
            try:
                state = os.stat(name, dir_fd=descent.open(path), follow_symlinks=False)
            except OSError:
                state = None
            if state is None or state.st_ino != before.ino:
                # Changed since it was checked: its folder has changed with it.
                self._missed[before.dev, before.ino] = draft.key(name)
                listed.add(path)
                self._todo.append(path)
                continue
            if stat.S_ISDIR(state.st_mode):
                listed.add(path)
                self._todo.append(path)
                continue
            self._take_row(draft, name, state)

    def _list(self, descent: Descent, path: bytes, *, everything: bool) -> None:
        if path in self._relisted or self._is_gone(path):
            return
        known = self._index.find(path)
        same = self._take_same(path, known)
        listed_at_ns, state = time.time_ns(), None
        try:
            fd = descent.open(path)
            with os.scandir(fd) as entries:
                listed = list(entries)
            # Afterwards: so it tells of what was done to its names while they were listed.
            state = os.fstat(fd)
            draft = Draft(path, state, listed_at_ns=listed_at_ns)
            for entry in listed:
                name = os.fsencode(entry.name)
                # By its number, too: what was renamed since is another under that name.
                if name in same and same[name].ino == entry.inode():
                    draft.rows[name] = same[name]
                else:
                    self._take(draft, name, entry, (fd, state.st_dev))
        except (FileNotFoundError, NotADirectoryError):
            if not path:
                raise Unavailable("the directory is not there any more") from None
            self._miss(path)
            return
        except OSError as exc:
            draft, state = self._unlistable(descent, path, exc.strerror or str(exc)), None
            if draft is None:
                return
        is_new_vault = path and b"locks" in draft.folders and is_vault(path, self._root_fd)
        # It has become one since it was listed: the folder above has to say so.
        if is_new_vault and self._look_again(above(path)):
            return
        self._relisted.add(path)
        self._drafts[path] = draft
        if state is not None:
            self._notice(draft, state)
        self._compare(draft, known, everything=everything)

    def _notice(self, draft: Draft, state: os.stat_result) -> None:
        """Takes in whether a folder is the one that was listed, and as it was since we look."""
        expected = self._listed.pop(draft.path, draft.identity)
        if expected != draft.identity:
            self._missed[expected] = draft.path
        is_older = not is_unsure(settled(state.st_ctime_ns, read_at_ns=self._floor_ns, margin_ns=0))
        if is_older or state.st_ctime_ns > time.time_ns():
            return  # also if a clock that was set back has stamped it, or another machine's
        self._is_fresh = True
        if self._is_wary or state.st_ctime_ns > self._begun_ns:
            self._is_disturbed = True

    def _take_same(self, path: bytes, known: Folder | None) -> dict[bytes, Row]:
        """Returns the rows of a folder that were looked at a moment ago, and are as they were.

        By the same rules as then: whether they are left out need not be asked again. Once: if the
        folder is listed another time, something goes on in it.
        """
        differing = self._differing.pop(path, None)
        if differing is None or known is None or self._litter is not None:
            return {}
        return {row.name: row for row in known.rows if row.name not in differing}

    def _miss(self, path: bytes) -> None:
        """Takes in that a folder is not there, or has become something else since it was listed.

        Then the folder above is listed again, a few times: a name that is there all the time
        must not be missing from what is found.
        """
        parent, name = above(path), path.rpartition(b"/")[2]
        if path in self._listed:
            self._missed[self._listed.pop(path)] = path
        if parent in self._relisted and name not in self._drafts[parent].folders:
            self._gone.add(path)
            return
        self._is_disturbed = True
        # Its own turn comes after that of the folder above.
        self._todo.append(path)
        if not self._look_again(parent):
            self._todo.pop()
            self._gone.add(path)
            if parent in self._drafts:
                reason = "it was something else each time it was looked at"
                self._drafts[parent].omitted.append(Omitted(name, "failed", reason))

    def _look_again(self, path: bytes) -> bool:
        """Lists a folder once more; says whether that is worth another try."""
        tries = self._tries[path] = self._tries.get(path, 0) + 1
        if tries > LOOKS:
            return False
        self._relisted.discard(path)
        self._gone.discard(path)
        self._todo.append(path)
        return True

    def _pass_over(self, name: bytes, draft: Draft) -> None:
        """Leaves out what a restore of ours left behind; removes it, after an interrupted one."""
        is_ours = self._litter is not None and self._litter.fullmatch(name)
        if not is_ours or not _remove_litter(name, draft, self._root_fd):
            draft.omitted.append(Omitted(name, "excluded", A_LEFTOVER))

    def _take(
        self, draft: Draft, name: bytes, entry: "os.DirEntry[str]", folder: tuple[int, int]
    ) -> None:
        """Takes something in from a folder, of which the descriptor and the device are known."""
        fd, device = folder
        try:
            state = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            draft.doubt()
            self._missed[device, entry.inode()] = draft.key(name)
            return
        key, is_folder = draft.key(name), stat.S_ISDIR(state.st_mode)
        if is_litter(name):
            self._pass_over(name, draft)
        elif (state.st_dev, state.st_ino) in self._rules.apart:
            draft.omitted.append(Omitted(name, "excluded", "the vault's own folder"))
        elif is_folder and is_vault(name, fd):
            draft.omitted.append(Omitted(name, "excluded", A_VAULT))
        elif is_pack(key):
            draft.omitted.append(Omitted(name, "excluded", A_PACK))
        elif self._rules.excludes(key, is_folder=is_folder):
            draft.omitted.append(Omitted(name, "excluded", BY_RULES))
        elif len(key) > MAX_PATH_BYTES:
            draft.omitted.append(Omitted(name, "failed", "its path is too long"))
        elif is_folder:
            foreign = describe_mount(state.st_dev) if state.st_dev != device else None
            if foreign:
                draft.omitted.append(Omitted(name, "skipped", foreign))
            else:
                draft.folders.add(name)
                self._listed[key] = state.st_dev, state.st_ino
        else:
            draft.rows[name] = row_of(name, state)

    def _take_row(self, draft: Draft, name: bytes, state: os.stat_result) -> None:
        before, draft.rows[name] = draft.rows.get(name), row_of(name, state)
        if is_content(state.st_mode):
            draft.want(draft.rows[name], before)
        else:
            # From a file to a socket under the same name: its folder has to say so.
            draft.doubt()

    def _compare(self, draft: Draft, known: Folder | None, *, everything: bool) -> None:
        """Finds out which rows have to be read, and which folders to list next."""
        before = {row.name: row for row in known.rows} if known else {}
        for name, row in draft.rows.items():
            if not is_content(row.mode):
                reason = _SPECIAL.get(stat.S_IFMT(row.mode), "no file, link or folder")
                draft.omitted.append(Omitted(name, "skipped", reason))
            elif (
                row != before.get(name)
                or (everything and row.nlink > 1)
                or draft.key(name) in self._doubtful
            ):
                draft.want(row, before.get(name))
        known_folders = set(known.folders) if known else set[bytes]()
        for name in known_folders - draft.folders:
            self._gone.add(draft.key(name))
        fresh = draft.folders if everything else draft.folders - known_folders
        self._todo += [draft.key(name) for name in sorted(fresh, reverse=True)]

    def _unlistable(self, descent: Descent, path: bytes, reason: str) -> Draft | None:
        """Returns the draft of a folder that we may not look into."""
        parent, _, name = path.rpartition(b"/")
        try:
            if path:
                fd = descent.open(parent)
                state = os.stat(name, dir_fd=fd, follow_symlinks=False)
            else:
                state = os.fstat(self._root_fd)
        except OSError:
            self._gone.add(path)
            return None
        draft = Draft(path, state, listed_at_ns=None)
        draft.omitted.append(Omitted(b"", "failed", reason))
        return draft

    def _settle_gone(self) -> None:
        """Takes folders that went while we looked out of the folders that listed them."""
        if self._is_disturbed or self._missed:
            listed = [path for path in self._drafts if path and above(path) in self._relisted]
            for path in listed:
                if path.rpartition(b"/")[2] not in self._drafts[above(path)].folders:
                    self._gone.add(path)
        self._gone = {path for path in self._gone if not self._is_gone(above(path))}
        for path in self._gone:
            parent, _, name = path.rpartition(b"/")
            draft = self._drafts.get(parent)
            if draft is not None and name in draft.folders:
                draft.folders.discard(name)
                draft.doubt()
        for path in [path for path in self._drafts if self._is_gone(path)]:
            del self._drafts[path]

    def _want_names(self) -> None:
        """Asks for all names of a file to be read if one of them is read, or is no more.

        Who renames a folder leaves the times of its files alone: a name elsewhere looks as it did,
        and is one of others now. Only all of them together say which is the first.
        """
        split = find_split(self._index, self._drafts, self._gone)
        if not split:
            return
        for folder in self._index.iter_holding({ino for _, ino in split}):
            if folder.path not in self._drafts and not self._is_gone(folder.path):
                self._drafts[folder.path] = Draft.of(folder)
        for draft in self._drafts.values():
            for row in draft.rows.values():
                if has_names(row) and (row.dev, row.ino) in split:
                    draft.want_surely(row)

    def _is_gone(self, path: bytes) -> bool:
        """Says whether a folder, or one above it, is no more."""
        while path:
            if path in self._gone:
                return True
            path = above(path)
        return False


def _remove_litter(name: bytes, draft: Draft, root_fd: int) -> bool:
    """Removes what an interrupted restore of ours left behind, if its folder lets it go."""
    try:
        with Descent(root_fd) as descent:
            os.unlink(name, dir_fd=descent.open(draft.path))
    except OSError:
        return False
    draft.doubt()
    return True
