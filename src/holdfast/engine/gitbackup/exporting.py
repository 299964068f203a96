"""Brings a repository of ours to where a namespace's timeline is: a commit for each snapshot.

Only what differs between two roots is read and written. What was done last is known from the
last commit itself, and nothing else has to be remembered: a stream that broke off is begun again
where the branch stands. A repository that is lost is made again, and the commits are the same.

What stays here (`rules.py`) is listed in each tree, so that a clone says what it lacks. Other
planes than files are written if that is wanted (`planesout.py`).
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Final

import msgspec

from holdfast.engine.core.paths import ancestors, legible, to_text
from holdfast.engine.gitbackup.messages import (
    Trailers,
    author_of,
    read_message,
    write_message,
)
from holdfast.engine.gitbackup.planesout import PlanesOut
from holdfast.engine.gitbackup.rules import BY_SIZE, Rules
from holdfast.engine.gitbackup.tokens import without_tokens
from holdfast.engine.objects import content
from holdfast.engine.planes.handle import Handle, is_expired, looking_at
from holdfast.engine.timeline.listing import with_names
from holdfast.engine.timeline.snapshots import iter_rows
from holdfast.entries import Blob, Directory, Entry, Inline, Link, decode_entry
from holdfast.errors import GitFailed, ObjectMissing, PackMissing
from holdfast.git.names import KEEP, OWN, to_git
from holdfast.git.repository import EXECUTABLE, FILE, LINK, Repository, Writer
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import EMPTY_MAP, Plane, Root, SnapshotInfo
from holdfast.tree import diff, get, iterate, prefix_stop

WITHHELD: Final = OWN + b"/withheld.json"
"""Where a tree says what it lacks, and why."""

AT_ONCE: Final = 100
"""Commits of one stream: what breaks off is begun again from the last stream's end."""

_MOST_BACK: Final = 5000
_MAX_LIST_BYTES: Final = 256 << 20
_WHOLE_BYTES: Final = 4 << 20
"""Up to here a file is read once, to look for secrets in it and to write it."""

_X: Final = 0o100


class Exported(msgspec.Struct, frozen=True):
    """How far a repository has come."""

    commits: int
    """How many are new."""
    tip: str | None
    number: int
    """Of the last snapshot that was looked at: it has a commit, or cannot be used any more."""
    withheld: int


def export(handle: Handle, repository: Repository, *, branch: str, rules: Rules) -> Exported:
    """Makes commits of all snapshots that have none yet, some at a time."""
    repository.make()
    ref = f"refs/heads/{branch}"
    tip = repository.find(ref)
    last = None if tip is None else read_message(tip)
    if tip is not None and last is None:
        # To begin anew on top of it would say everything twice.
        raise GitFailed("export", said="the last commit here is of no snapshot")
    number = 0 if last is None else _reached(handle, repository, ref, last)
    lacks = dict[str, str]()
    if tip is not None and last is not None:
        lacks = _read_list(repository.read(tip.id, WITHHELD, most_bytes=_MAX_LIST_BYTES))
    base, done = _base_of(handle, last, rules), 0
    fresh, number = _later(handle, number)
    for at in range(0, len(fresh), AT_ONCE):
        snapshots = _snapshots(handle, fresh[at : at + AT_ONCE])
        if snapshots:
            with repository.writing(branch) as writer:
                base = _Exporting(handle, writer, rules, lacks).write(snapshots, base)
            done += len(snapshots)
    tip = repository.find(ref) if done else tip
    return Exported(done, None if tip is None else tip.id, number, len(lacks))


def _reached(handle: Handle, repository: Repository, ref: str, last: Trailers) -> int:
    """Returns the number of the last snapshot of the timeline that has a commit.

    That of the last commit, unless the vault was made of a backup that is older: then the newest
    that both have.
    """
    with handle.context.catalog.read() as transaction:
        head = handle.get_head(transaction)

        def is_there(said: Trailers) -> bool:
            row = transaction.find_snapshot(head.namespace_id, SnapshotId(said.snapshot))
            return row is not None and row.number == said.number

        rows = transaction.timeline(head.namespace_id, before=last.number + 1, most=1)
        is_another = bool(rows) and rows[0].number == last.number and rows[0].id != last.snapshot
        if head.generation >= last.number and not is_another:
            return last.number  # Its row may have expired.
        said = map(read_message, reversed(repository.commits(ref, most=_MOST_BACK)))
        return next((each.number for each in said if each is not None and is_there(each)), 0)


def _later(handle: Handle, number: int) -> tuple[list[int], int]:
    """Returns the numbers of the snapshots above one, the first of them first, and the last given.

    That one's row may be gone.
    """
    with handle.context.catalog.read() as transaction:
        head = handle.get_head(transaction)
        rows = takewhile(lambda row: row.number > number, iter_rows(transaction, head))
        return [row.number for row in rows][::-1], head.generation


def _snapshots(handle: Handle, numbers: Sequence[int]) -> list[SnapshotInfo]:
    """Returns those of some snapshots that can be used, with the names of tasks and actors."""
    first, last = numbers[0], numbers[-1]
    with handle.context.catalog.read() as transaction:
        head = handle.get_head(transaction)
        rows = transaction.timeline(head.namespace_id, before=last + 1, most=len(numbers))
        usable = [
            row
            for row in reversed(rows)
            if row.number >= first
            and row.deleted_at is None
            and not is_expired(handle.context, head, row)
        ]
        return with_names(transaction, head, usable)


def _base_of(handle: Handle, last: Trailers | None, rules: Rules) -> Root | None:
    """Returns what the last commit shows; None if the next is to be written whole.

    Only what the timeline itself says is believed: a repository may have come back from a remote.
    """
    if last is None or last.rules != rules.digest:
        return None
    with handle.context.catalog.read() as transaction:
        head = handle.get_head(transaction)
        rows = transaction.timeline(head.namespace_id, before=last.number + 1, most=1)
    row = rows[0] if rows else None
    if row is None or row.id != last.snapshot or row.root.hex() != last.root:
        return None
    with suppress(ObjectMissing, PackMissing):
        return handle.objects.get_root(row.root)
    return None


class _Exporting:
    """One stream of commits."""

    def __init__(self, handle: Handle, writer: Writer, rules: Rules, lacks: dict[str, str]) -> None:
        self._handle, self._writer, self._rules = handle, writer, rules
        self._objects, self._lacks = handle.objects, lacks
        self._planes = PlanesOut(handle, writer, rules, lacks)

    def write(self, snapshots: list[SnapshotInfo], base: Root | None) -> Root | None:
        """Writes a commit for each of some snapshots; returns what the last one shows."""
        for snapshot in snapshots:
            with looking_at(self._handle, snapshot):
                base = self._commit(snapshot, base)
        return base

    def _commit(self, snapshot: SnapshotInfo, base: Root | None) -> Root:
        root = self._objects.get_root(snapshot.root)
        files = root.plane(Plane.FILES)
        seconds = max(0, int(snapshot.created_at.timestamp()))
        message = write_message(snapshot, self._rules)
        self._writer.begin(message, author=author_of(snapshot), seconds=seconds)
        before = dict(self._lacks)
        if base is None:
            self._writer.clear()
            self._lacks.clear()
        old = EMPTY_MAP if base is None else base.plane(Plane.FILES)
        # First what goes, so that it is in the way of nothing.
        self._keep_folders(self._take_away(old, files), files)
        for edit in diff(self._objects, old, files):
            if edit.new is not None:
                self._bring(edit.key, decode_entry(edit.new), is_there=edit.old is not None)
        self._planes.write(Root() if base is None else base, root)
        if base is None or self._lacks != before:
            self._write_list()
        return root

    def _take_away(self, old: ObjectId, new: ObjectId) -> list[bytes]:
        """Takes away what is no file any more; returns the folders to look at.

        A folder has an entry if it is empty, or of an unusual mode. Those above what differs may
        have become one or the other.
        """
        folders, above = list[bytes](), list[bytes]()
        for edit in diff(self._objects, old, new):
            if self._lacks:
                self._lacks.pop(self._name(edit.key), None)
            was, becomes = (
                None if data is None else decode_entry(data) for data in (edit.old, edit.new)
            )
            if isinstance(was, Directory) or isinstance(becomes, Directory):
                folders.append(edit.key)
            if was is not None and (becomes is None or isinstance(becomes, Directory)):
                self._writer.delete(to_git(edit.key))
            # What lies in one folder comes together: each is looked up once.
            now = [*ancestors(edit.key)]
            last = above[-1] + b"/" if above else b""
            new_here = [each for each in now if not last.startswith(each + b"/")]
            folders += [each for each in new_here if get(self._objects, new, each) is not None]
            above = now
        return folders

    def _keep_folders(self, folders: list[bytes], new: ObjectId) -> None:
        """Puts a file into each folder that has become empty, and takes it out of the others."""
        for folder in folders:
            place, below = to_git(folder) + b"/" + KEEP, folder + b"/"
            entry = get(self._objects, new, folder)
            inside = iterate(self._objects, new, start=below, stop=prefix_stop(below))
            is_folder = entry is not None and isinstance(decode_entry(entry), Directory)
            if is_folder and next(inside, None) is None:
                self._writer.put(place, FILE, 0, [])
            else:
                self._writer.delete(place)

    def _bring(self, key: bytes, entry: Entry, *, is_there: bool) -> None:
        """Puts a file or a link, or notes why it stays here."""
        match entry:
            case Inline() | Blob() if entry.size <= _WHOLE_BYTES:
                data = content.read(self._objects, entry)
                reason, parts = self._reason(key, entry.size, [data]), [data]
            case Inline() | Blob():
                stream = content.stream(self._objects, entry)
                reason = self._reason(key, entry.size, stream)
                parts = content.stream(self._objects, entry)
            case Link():
                reason, parts = self._reason(key, entry.size, [entry.target]), [entry.target]
            case _:
                return  # A folder is there with what is in it.
        if reason is None:
            self._writer.put(to_git(key), _mode_of(entry), entry.size, parts)
        else:
            self._lacks[self._name(key)] = reason
            if is_there:
                self._writer.delete(to_git(key))

    def _reason(self, key: bytes, size: int, parts: Iterable[bytes]) -> str | None:
        if (reason := self._rules.by_name(key)) is not None:
            return reason
        return BY_SIZE if size > self._rules.file_bytes else self._rules.by_content(parts)

    def _name(self, key: bytes) -> str:
        """Returns a path as the list of what stays here has it, which is no secret."""
        path = legible(to_text(key))
        return without_tokens(path) if self._rules.finds_tokens else path

    def _write_list(self) -> None:
        if not self._lacks:
            self._writer.delete(WITHHELD)
            return
        lines = [
            f"{msgspec.json.encode(path).decode()}: {msgspec.json.encode(reason).decode()}"
            for path, reason in sorted(self._lacks.items())
        ]
        text = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
        self._writer.put(WITHHELD, FILE, len(text), [text])


def _mode_of(entry: Inline | Blob | Link) -> bytes:
    if isinstance(entry, Link):
        return LINK
    return EXECUTABLE if entry.mode & _X else FILE


def _read_list(data: bytes | None) -> dict[str, str]:
    if data is None:
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, str])
    except msgspec.DecodeError:
        return {}
