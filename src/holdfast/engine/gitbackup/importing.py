"""The way back: a namespace is made of a git repository, with its timeline.

Each commit becomes a snapshot, all of them in one transaction: the namespace is there with its
whole past, or not at all. Repositories of others are taken as well; whoever made one is not
trusted. What git holds no namespace can (a commit of another repository) is passed over and named.
Planes other than files come back where a commit has them (`planesback.py`).
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final, cast

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.growth import size_of
from holdfast.engine.core.limits import check_quota
from holdfast.engine.core.paths import legible, to_key, to_text
from holdfast.engine.files.editing import USUAL_FILE_MODE
from holdfast.engine.files.fitting import check_tree, settle
from holdfast.engine.gitbackup.messages import read_message
from holdfast.engine.gitbackup.planesback import MOST_FILE_BYTES, PlanesBack
from holdfast.engine.gitbackup.secrets import read_key
from holdfast.engine.objects import content
from holdfast.engine.objects.stage import Stage
from holdfast.engine.pending.fold import Folded
from holdfast.engine.planes.handle import Handle
from holdfast.engine.planes.unit import carry_out
from holdfast.engine.timeline.head import Mark, Move, advance
from holdfast.entries import Directory, Entry, Link, encode_entry
from holdfast.errors import (
    HostKeyUnconfirmed,
    InvalidPath,
    InvalidValue,
    NamespaceExists,
    NotADirectory,
    TooLarge,
    UnsafeArchive,
)
from holdfast.errors.families import shorten
from holdfast.git.names import KEEP, OWN, from_git
from holdfast.git.program import Program, find_git
from holdfast.git.remotes import Credentials, address_of, fetch, fetch_path, scan
from holdfast.git.repository import (
    EXECUTABLE,
    LINK,
    MODULE,
    Commit,
    Parts,
    Reader,
    Repository,
    Step,
)
from holdfast.git.urls import HostKey, check_branch, to_remote
from holdfast.ids import ObjectId, SnapshotId
from holdfast.model.basics import EMPTY_MAP, Head, Kind, Size, SnapshotInfo
from holdfast.model.files import MAX_PATH_BYTES, USUAL_DIRECTORY_MODE
from holdfast.model.gitbackups import GitImported
from holdfast.operations.snapshots import MAX_LABEL_CHARS, MAX_TEXT_CHARS, Note
from holdfast.packs import ObjectKind
from holdfast.progress import Progress, no_progress
from holdfast.tree import apply

MOST_COMMITS: Final = 5000
"""Of the newest; what is older is in the first of them. One transaction has to hold them."""

MOST_NAMED: Final = 100
_TARGET: Final = "refs/heads/import"
_REFUSED: Final = "Nothing of it was imported: mend what is named, or choose another branch."
_UNCONFIRMED: Final = (
    "Compare that with what the host publishes, then name it: `fingerprint` of `git.import_`, or "
    "`holdfast git import --fingerprint SHA256:…`."
)
_EXECUTABLE_MODE: Final = USUAL_FILE_MODE | 0o111


@dataclass(frozen=True, slots=True)
class _Point:
    """What a commit shows: its files, other planes, how much that is, and what is said of it."""

    files: ObjectId
    planes: dict[str, ObjectId]
    size: Size
    note: Note
    detail: dict[str, object]


def import_history(
    handle: Handle,
    repository: Repository,
    name: str,
    *,
    origin: str,
    progress: Progress = no_progress,
) -> GitImported:
    """Makes a namespace of what leads to a commit; raises `NamespaceExists` if there is one."""
    with handle.context.catalog.read() as transaction:
        if handle.find_head(transaction) is not None:
            raise NamespaceExists(handle.name)
    commits = repository.commits(name, most=MOST_COMMITS)

    def attempt(stage: Stage) -> tuple[list[SnapshotInfo], _Arriving]:
        arriving = _Arriving(handle, stage, repository, origin, PlanesBack(handle, stage))
        points = [*arriving.read(commits, progress)]
        stage.seal()
        done, _ = advance(handle, _plan(handle, points, arriving), creates=True, ahead=stage)
        return done, arriving

    done, arriving = carry_out(handle, attempt, is_around=True)
    last = done[-1]
    return GitImported(
        snapshot=last,
        commits=len(commits),
        entries=last.size.entries,
        content_bytes=last.size.bytes,
        left_out=sorted(arriving.left_out)[:MOST_NAMED],
        is_cut=bool(commits) and commits[0].parent is not None,
    )


def _plan(handle: Handle, points: list[_Point], arriving: "_Arriving"):  # noqa: ANN202 - a plan, as `advance` has it
    def plan(_transaction: Transaction, folded: Folded) -> Move[None]:
        if folded.head.generation or folded.is_changed:
            raise NamespaceExists(handle.name)
        check_quota(folded.head, points[-1].size)
        marks, parent = list[Mark](), cast("SnapshotId | None", None)
        for point in points:
            root = folded.root.replacing(files=point.files, **point.planes)
            mark = Mark(
                id=handle.context.ids.snapshot(),
                kind=Kind.IMPORT,
                root=folded.stage.add(root.encode(), ObjectKind.NODE),
                size=point.size,
                parent=parent,
                note=point.note,
                detail=point.detail,
            )
            marks.append(mark)
            parent = mark.id
        also = arriving.record
        return Move(marks=marks, position=parent, result=None, exact=True, also=also)

    return plan


@dataclass(slots=True)
class _Arriving:
    """One repository on its way in."""

    handle: Handle
    stage: Stage
    repository: Repository
    origin: str
    planes: PlanesBack
    left_out: set[str] = field(default_factory=set[str])
    _blobs: dict[tuple[bytes, str], bytes] = field(default_factory=dict[tuple[bytes, str], bytes])
    """The entries of blobs that came before: a file that moves is read once."""
    _steps: int = 0
    _bytes: int = 0

    def read(self, commits: list[Commit], progress: Progress) -> Iterator[_Point]:
        """Stages what each commit shows; yields it."""
        source = self.stage.source(self.handle.objects)
        files, size, planes = EMPTY_MAP, Size(), list[str]()
        with self.repository.reading() as reader:
            for number, commit in enumerate(commits, start=1):
                steps = self.repository.steps(commit, is_first=number == 1)
                said = read_message(commit)
                if said is not None:  # What others commit on top is of what was there.
                    planes = said.planes or []
                changes = dict(self._changes(steps, reader, planes))
                try:
                    check_tree(source, files, changes)
                except NotADirectory as exc:
                    raise UnsafeArchive("one name stands for two paths", member=exc.path) from exc
                applied = apply(source, files, settle(source, files, changes))
                self.stage.add_nodes(applied.nodes)
                self.stage.spill()
                files, size = applied.root, size + size_of(applied.edits)
                size += self.planes.settle(source)
                others = {plane.value: root for plane, root in self.planes.roots.items()}
                yield _Point(files, others, size, _note(commit), self._detail(commit))
                progress("import", number, len(commits))
        if not commits:
            raise UnsafeArchive("the repository has no commit on this branch")

    def record(self, transaction: Transaction, head: Head) -> None:
        """Writes what is in rows alone, in the transaction that moves the head."""
        with self.repository.reading() as reader:
            self.planes.record(transaction, head, reader)

    def _changes(
        self, steps: Iterator[Step], reader: Reader, planes: list[str]
    ) -> Iterator[tuple[bytes, bytes | None]]:
        limits, puts = self.handle.context.limits, dict[bytes, bytes]()
        for step in steps:
            self._steps += 1
            if self._steps > limits.archive_members:
                raise TooLarge(f"a repository may have {limits.archive_members} changes of files")
            if step.path.startswith(OWN + b"/"):
                self.planes.take(step, planes, partial(self._text, reader))
                continue
            key, is_folder = _key_of(step.path)
            if step.mode == MODULE:
                self.left_out.add(legible(to_text(step.path)))
            if step.mode is None or step.mode == MODULE:
                yield key, None  # A file may have been there.
            elif is_folder:
                puts[key] = encode_entry(Directory(USUAL_DIRECTORY_MODE))
            else:
                puts[key] = self._entry(step, step.mode, reader)
        # What is put comes last: a name may have gone in one form, and come in another.
        yield from puts.items()

    def _entry(self, step: Step, mode: bytes, reader: Reader) -> bytes:
        known = self._blobs.get((mode, step.blob))
        if known is None:
            known = self._blobs[mode, step.blob] = encode_entry(self._read(step, mode, reader))
        return known

    def _text(self, reader: Reader, step: Step) -> bytes:
        with self._opened(step, reader) as parts:
            if parts.size > MOST_FILE_BYTES:
                raise TooLarge(f"{legible(to_text(step.path))} has more than we ever write there")
            return parts.read()

    @contextmanager
    def _opened(self, step: Step, reader: Reader) -> Generator[Parts]:
        """Opens a file; raises if that is not there, or there are too many bytes by now."""
        most = self.handle.context.limits.archive_bytes
        with reader.opened(step.blob.encode()) as parts:
            if parts is None:
                raise UnsafeArchive("the repository lacks a file", member=step.path)
            self._bytes += parts.size
            if self._bytes > most:
                raise TooLarge(f"a repository may hold {most} bytes")
            yield parts

    def _read(self, step: Step, mode: bytes, reader: Reader) -> Entry:
        limits = self.handle.context.limits
        with self._opened(step, reader) as parts:
            if mode == LINK:
                target = parts.read(MAX_PATH_BYTES + 1)
                if not target or b"\0" in target or len(target) > MAX_PATH_BYTES:
                    raise UnsafeArchive("a link leads nowhere", member=step.path)
                return Link(target)
            stream = cast("BinaryIO", parts)  # All that is asked of it is `read`.
            stored = content.store_stream(self.stage, stream, max_bytes=limits.file_bytes)
        bits = _EXECUTABLE_MODE if mode == EXECUTABLE else USUAL_FILE_MODE
        return msgspec.structs.replace(stored, mode=bits)

    def _detail(self, commit: Commit) -> dict[str, object]:
        said = read_message(commit)
        detail: dict[str, object] = {
            "imported_from": self.origin,
            "imported_commit": commit.id,
            "imported_snapshot": None if said is None else said.snapshot,
        }
        return detail


def _key_of(path: bytes) -> tuple[bytes, bool]:
    """Returns the key that a path in a tree stands for, and whether it keeps a folder."""
    folder, _, name = path.rpartition(b"/")
    try:
        if name == KEEP and folder:
            return to_key(from_git(folder)), True
        return to_key(from_git(path)), False
    except InvalidPath as exc:
        raise UnsafeArchive(str(exc), member=path) from exc


def _note(commit: Commit) -> Note:
    """Returns what is said of a commit's snapshot: by our own last lines, or by the first one."""
    said = read_message(commit)
    if said is not None:
        # Somebody else may have written them: what no snapshot can have is passed over.
        with suppress(InvalidValue):
            return Note(label=said.label, reason=said.reason, metadata=said.metadata)
    subject = " ".join(commit.message.strip().partition("\n")[0].split())
    text = "".join(c for c in subject if c.isprintable())
    return Note(label=text[:MAX_LABEL_CHARS] or None, reason=_reason(commit))


def _reason(commit: Commit) -> str:
    author = "".join(c for c in commit.author if c.isprintable())
    return f"commit {commit.id} by {author}"[:MAX_TEXT_CHARS]


def import_from(
    handle: Handle,
    source: str,
    *,
    branch: str | None = None,
    private_key: str | None = None,
    fingerprint: str | None = None,
    login: str | None = None,
    progress: Progress = no_progress,
) -> GitImported:
    """Makes a namespace of a repository on this disk, or at a remote.

    Over ssh, `private_key` is shown, and the host has to have the key with this `fingerprint`; over
    https, `login`, a user, a colon and a password.
    """
    name = "HEAD" if branch is None else f"refs/heads/{check_branch(branch)}"
    most = handle.context.limits.archive_bytes
    with TemporaryDirectory(prefix="holdfast-git-") as place:
        repository = Repository(Program(Path(place)), Path(place) / "import.git")
        repository.make()
        if Path(source).is_dir():
            fetch_path(repository, Path(source), source=name, target=_TARGET, most_bytes=most)
            origin = Path(source).name
        else:
            remote = to_remote(source)
            find_git(over_https=not remote.is_ssh)
            address = address_of(remote, "fetch", allows_private=handle.context.private_remotes)
            shown = Credentials(login=login, certificates=handle.context.git_certificates)
            if remote.is_ssh:
                if private_key is None:
                    raise InvalidValue("an ssh remote has to be shown a private key")
                key = _confirmed(scan(remote, address), fingerprint, remote.host)
                shown = Credentials(private_key=read_key(private_key)[0], host_key=key)
            fetch(
                repository,
                remote,
                shown,
                source=name,
                target=_TARGET,
                address=address,
                most_bytes=most,
            )
            origin = remote.host
        try:
            return import_history(handle, repository, _TARGET, origin=origin, progress=progress)
        except UnsafeArchive as exc:
            error = UnsafeArchive(exc.reason, member=exc.member, noun="repository")
            raise error.with_hint(_REFUSED) from exc


def _confirmed(offered: list[HostKey], fingerprint: str | None, host: str) -> HostKey:
    named = None if fingerprint is None else fingerprint.strip()
    for each in offered:
        if each.fingerprint == named:
            return each
    prints = ", ".join(f"{each.kind} {each.fingerprint}" for each in offered)
    before = "" if named is None else f"you named {shorten(named)}, and "
    message = f"{before}{host} shows {prints}"
    raise HostKeyUnconfirmed(message).with_hint(_UNCONFIRMED)
