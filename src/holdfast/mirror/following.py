"""Keeps a directory and a namespace of a server in step.

To the server goes what is in the directory (`send`), from it comes what the server shows
(`follow`). Where the two have parted, nothing is overwritten unseen: a commit on top of something
else is refused, and what is in the directory and nowhere else is put on the server's timeline,
beside what is there, before the directory becomes something else.

The order of a move: what is in the directory is on the server; a note says that the server is about
to move; the server moves; the directory follows, journalled and proven as any restore is. Whoever
is interrupted leaves the note, and the next one makes the directory what the server shows.

Sends a server what it lacks of a directory, and lets it make a snapshot.

What changed since both sides were last the same becomes a list of edits. Chunks that these need
and that were not there before are offered by name; the server says which it lacks, and gets those
as packs. Each pack that was answered for is durable over there: whoever is interrupted asks anew,
and goes on where it stopped. Few chunks are not asked about, they go along with the commit.
"""

import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.engine.core.paths import to_bytes
from holdfast.engine.directory.writer import Follower
from holdfast.engine.exchange.adopting import adopt
from holdfast.engine.exchange.coverage import lacking_of
from holdfast.engine.exchange.edits import encode_edits
from holdfast.engine.namespace import Namespace
from holdfast.engine.objects import content
from holdfast.engine.objects.content import FILES, list_refs
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.handle import Handle
from holdfast.entries import Blob, decode_entry
from holdfast.errors import (
    ContentMissing,
    DriftFound,
    HeadMoved,
    HoldfastError,
    InvalidValue,
    NotFound,
    ReplyNotKept,
    RequestRunning,
    Unavailable,
)
from holdfast.ids import OBJECT_ID_BYTES, ObjectId, SnapshotId, object_id_of
from holdfast.mirror.local import Local
from holdfast.mirror.memo import Memo, MemoFile
from holdfast.mirror.pulling import Pull, Server
from holdfast.model.basics import EMPTY_MAP, SnapshotInfo
from holdfast.model.changes import Committed
from holdfast.operations.snapshots import Note
from holdfast.packs import ObjectKind, PackBuilder
from holdfast.progress import Progress
from holdfast.tree import Edit, diff
from holdfast.wire.exchange import CommitRequest, ListedEdits, ReceivedAnswer

IN_THE_WAY: Final = (
    "Files that .holdfastignore leaves out are in the way, and are sent nowhere: move them, or "
    "pass force=True to give them up."
)
"""What to do where something stands in the way that is the directory's alone."""

FAULT: Final = 500
"""From here on a server failed, and may have done what it was asked to before."""

UNCERTAIN: Final = 8
"""Pushes without an answer that are remembered."""

PARTED: Final = (
    "Call pull() to bring the server's files into the directory, or snapshot(overwrite=True) to "
    "let the directory win; either way, what gives way is a snapshot first."
)
"""What to do where the server has moved on."""


class Answer(Protocol):
    """What a server says of a move."""

    @property
    def snapshot(self) -> SnapshotInfo | None:
        """The snapshot that shows where it went."""
        ...


A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class Moved:
    """What a move did to the directory."""

    before: ObjectId
    """The files that were there."""
    after: ObjectId
    kept_id: SnapshotId | None
    """The snapshot that keeps what was in the directory and nowhere else."""


class Pair:
    """A directory and its server, in the hands of whoever holds the directory's lock."""

    def __init__(self, local: Local, server: Server, memo: MemoFile) -> None:
        self.local, self.server, self.memo = local, server, memo

    @property
    def here(self) -> ObjectId:
        """The files map of the directory, as it was last looked at."""
        return self.local.directory.last.root

    def send(self, told: CommitRequest, *, overwrite: bool, progress: Progress) -> SnapshotInfo:
        """Lets the server make a snapshot of the directory as it was last looked at."""
        known, root = self.memo.now, self.here
        seen = None if known.snapshot is None else known.snapshot.id
        told = replace(told, seen=seen, coverage=self._coverage())
        push = Push(self.server, self.local.attached.source(), progress)
        under_way = (*known.pushing, root)[-UNCERTAIN:]
        self.memo.note(replace(known, pushing=under_way), durably=False)
        try:
            pushed = push.push(known.files, root, told)
        except HeadMoved as exc:
            arrived = self._find_arrived(known)
            if arrived is None and not overwrite:
                self.memo.note(known)
                exc.hint = PARTED
                raise
            told = replace(told, overwrite=arrived is None)
            pushed = push.push(arrived or EMPTY_MAP, root, told)
        self.memo.note(Memo(snapshot=pushed.snapshot, root=root))
        return pushed.snapshot

    def keep(
        self,
        reason: str,
        follower: Follower,
        *,
        keeps_redo: bool = False,
        overwrite: bool = True,
    ) -> SnapshotInfo | None:
        """Sends what is in the directory and nowhere else; None if all of it is there."""
        self.local.attached.keep_drift(reason, progress=follower.progress, keeps_redo=keeps_redo)
        if self.here == self.memo.now.files:
            return None
        return self.send(
            _safety(reason, keeps_redo=keeps_redo),
            # Mostly something else is about to take its place in any case.
            overwrite=overwrite,
            progress=follower.progress,
        )

    def move(
        self,
        act: Callable[[], A],
        *,
        back: Callable[[], object],
        follower: Follower,
        reason: str,
        keeps_redo: bool = False,
        overwrite: bool = True,
    ) -> tuple[A, Moved]:
        """Lets the server move, and the directory follow; if it cannot, the server goes back.

        Unless it may `overwrite`, raises `HeadMoved` if others changed files on the server, and the
        directory has changes of its own.
        """
        kept = self.keep(reason, follower, keeps_redo=keeps_redo, overwrite=overwrite)
        before = self.here
        self.memo.note(replace(self.memo.now, is_following=True))
        try:
            done = act()
        except HoldfastError as exc:
            # What was refused was not done. Else nobody knows, and the note stays.
            is_refused = exc.http_status is not None and exc.http_status < FAULT
            if is_refused and not isinstance(exc, RequestRunning | ReplyNotKept):
                self.memo.note(replace(self.memo.now, is_following=False))
            raise
        try:
            self.follow(_get(done.snapshot), follower, reason=reason)
        except DriftFound:
            back()
            self.memo.note(replace(self.memo.now, is_following=False))
            raise
        return done, Moved(before, self.memo.now.files, kept.id if kept else None)

    def has_to_follow(self) -> bool:
        """Says whether the server has moved since it was told to, and the directory has not."""
        known = self.memo.now
        if known.is_following and self.server.standing().root == known.root.hex():
            # It never came to that: what is in the directory is what its user made of it.
            self.memo.note(replace(known, is_following=False))
        return self.memo.now.is_following

    def catch_up(self, follower: Follower, *, reason: str) -> SnapshotInfo | None:
        """Makes the directory what the server shows; returns what of it had to be set aside."""
        self.local.attached.keep_drift(reason, progress=follower.progress)
        aside = None if self.here == self.memo.now.files else self._set_aside(reason, follower)
        self.follow(self.position(), follower, reason=reason)
        return aside

    def follow(self, goal: SnapshotInfo, follower: Follower, *, reason: str) -> None:
        """Makes the directory what a snapshot of the server's holds.

        What the rules leave out and is in the way is nobody's to send: it raises `DriftFound`, or
        with `force` gives way, and is a snapshot of the cache alone.
        """
        attached = self.local.attached
        pull = Pull(self.server, self.local.handle, follower.progress)
        pulled = pull.pull(self.memo.now, goal.id)
        note, lacking = Note(reason=f"followed {goal.id}"), lacking_of(goal)

        def become(handle: Handle, _: SnapshotId | None) -> None:
            adopt(
                handle,
                pulled.edits,
                base=pulled.base,
                root=pulled.root,
                note=note,
                lacking=lacking,
            )

        try:
            attached.move(become, follower)
        except DriftFound as exc:
            if not follower.force:
                exc.hint = IN_THE_WAY
                raise
            # Who can write to the namespace chooses what is in the way: it must not thereby get
            # to see a file that the rules keep here.
            including = frozenset(to_bytes(path) for path in exc.paths)
            attached.keep_drift(reason, progress=follower.progress, including=including)
            follower.gives_up = True
            attached.move(become, follower)
        self.memo.note(Memo(snapshot=goal, root=pulled.root))

    def position(self) -> SnapshotInfo:
        """Returns a snapshot of what the server shows now; takes one, if none does."""
        standing, agent = self.server.standing(), self.server.agent
        if not standing.dirty and standing.position is not None:
            # It may be off the timeline, and shown all the same.
            with suppress(NotFound):
                return agent.get_snapshot(standing.position)
        return agent.snapshot(reason="before a directory follows")

    def _set_aside(self, reason: str, follower: Follower) -> SnapshotInfo:
        """Puts the directory on the server's timeline; what the server shows stays as it is."""
        push = Push(self.server, self.local.attached.source(), follower.progress)
        told = replace(_safety(reason), aside=True, coverage=self._coverage())
        return push.push(EMPTY_MAP, self.here, told).snapshot

    def _coverage(self) -> bytes:
        return msgspec.json.encode(self.local.directory.coverage.to_detail()["coverage"])

    def _find_arrived(self, known: Memo) -> ObjectId | None:
        """Returns what the server shows, if it was pushed from here and the answer was lost."""
        if not known.pushing:
            return None
        shown = bytes.fromhex(self.server.standing().root)
        return ObjectId(shown) if shown in known.pushing else None


def _safety(reason: str, *, keeps_redo: bool = False) -> CommitRequest:
    return CommitRequest(
        name="", base=b"", root=b"", kind="safety", note=Note(reason=reason), keeps_redo=keeps_redo
    )


def _get(snapshot: SnapshotInfo | None) -> SnapshotInfo:
    if snapshot is None:
        raise InvalidValue("the server does not say where it went")
    return snapshot


ALONG_BYTES: Final = 256 << 10
"""Chunks up to here go along with the commit: asking about them would take longer."""

PACK_BYTES: Final = 4 << 20
"""Content of one pack: what a broken connection costs at the most."""

SENDERS: Final = 2
"""Packs on their way: while the server stores one, the next is made and sent."""

ASKED: Final = 50_000
"""Objects that are asked about together."""

TOLD_BYTES: Final = 1 << 20
"""Edits beyond that are sent as content, before the commit: it stays small, and can be repeated."""

_ATTEMPTS: Final = 3


class Push:
    """One state of a directory on its way to the server."""

    def __init__(self, server: Server, source: StagedObjects, progress: Progress) -> None:
        self._server, self._source, self._progress = server, source, progress
        self._made: dict[ObjectId, bytes] = {}

    def push(self, base: ObjectId, root: ObjectId, told: CommitRequest) -> Committed:
        """Sends what leads from one files map to another; raises `HeadMoved` if it is not there."""
        edits = list(diff(self._source, base, root))
        offered = _offered(self._source, edits)
        data = encode_edits((edit.key, edit.new) for edit in edits)
        told = msgspec.structs.replace(told, name=uuid.uuid4().hex, base=base, root=root)
        if len(data) > TOLD_BYTES:
            told = msgspec.structs.replace(told, listed=self._listed(data))
            offered |= {object_id: len(part) for object_id, part in self._made.items()}
        else:
            told = msgspec.structs.replace(told, edits=data)
        if told.listed is None and sum(offered.values()) <= ALONG_BYTES:
            along = msgspec.structs.replace(told, pack=self._pack(list(offered)))
            return self._server.commit(along)
        return self._commit(told, offered)

    def _commit(self, told: CommitRequest, offered: dict[ObjectId, int]) -> Committed:
        for attempt in range(_ATTEMPTS):
            self._send_missing(offered)
            try:
                return self._server.commit(told)
            except ContentMissing:
                # Collected since it was asked about: it is told so this time.
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _listed(self, data: bytes) -> ListedEdits:
        """Makes content of many edits, to be sent like any other."""
        _, blob = content.store(_Collecting(self._made), data, FILES)
        if blob is None:
            raise AssertionError("so much is never kept in an entry")
        return ListedEdits(size=blob.size, depth=blob.depth, refs=blob.refs)

    def _send_missing(self, offered: dict[ObjectId, int]) -> None:
        missing: list[ObjectId] = []
        names = list(offered)
        for at in range(0, len(names), ASKED):
            missing += _split(self._server.missing(b"".join(names[at : at + ASKED])))
        if not offered.keys() >= {*missing}:
            raise Unavailable("the server asks for what was not offered to it")
        total = sum(offered[object_id] for object_id in missing)
        done, under_way = 0, deque[tuple[Future[ReceivedAnswer], int]]()
        with ThreadPoolExecutor(SENDERS, thread_name_prefix="holdfast-push") as pool:
            for group in [*_groups(missing, offered), None]:
                if group is not None:
                    size = sum(offered[object_id] for object_id in group)
                    under_way.append((pool.submit(self._server.send, self._pack(group)), size))
                while under_way and (group is None or len(under_way) > SENDERS):
                    sent, size = under_way.popleft()
                    sent.result()
                    done += size
                    self._progress("sending", done, total)

    def _pack(self, object_ids: Sequence[ObjectId]) -> bytes:
        if not object_ids:
            return b""
        builder = PackBuilder()
        stored = [object_id for object_id in object_ids if object_id not in self._made]
        found = self._source.get_many(stored) | self._made
        for object_id in object_ids:
            builder.add(object_id, found[object_id], kind=ObjectKind.CHUNK)
        return builder.finish().data


class _Collecting:
    """A sink that keeps what it is given."""

    def __init__(self, objects: dict[ObjectId, bytes]) -> None:
        self._objects = objects

    def add(self, data: bytes, kind: ObjectKind) -> ObjectId:  # noqa: ARG002 - the sink's form
        """Takes an object in, and returns its name."""
        object_id = object_id_of(data)
        self._objects[object_id] = data
        return object_id

    def spill(self) -> None:
        """Has no other room."""


def _offered(source: StagedObjects, edits: Sequence[Edit]) -> dict[ObjectId, int]:
    """Returns the objects that edits need and what they replace did not, with their sizes."""
    before = {object_id for edit in edits for object_id, _ in _objects(source, edit.old)}
    return {
        object_id: size
        for edit in edits
        for object_id, size in _objects(source, edit.new)
        if object_id not in before
    }


def _objects(source: StagedObjects, data: bytes | None) -> Iterator[tuple[ObjectId, int]]:
    entry = None if data is None else decode_entry(data)
    if isinstance(entry, Blob):
        if not entry.depth:
            yield from content.content_refs(source, entry)
            return
        # Of lists, the size does not matter much: they are a thousandth of what they list.
        sizes = dict(content.content_refs(source, entry))
        for object_id in list_refs(source, entry):
            yield object_id, sizes.get(object_id, content.VALUES.mean_bytes)


def _groups(object_ids: Sequence[ObjectId], sizes: dict[ObjectId, int]) -> Iterator[list[ObjectId]]:
    group, size = list[ObjectId](), 0
    for object_id in object_ids:
        group.append(object_id)
        size += sizes[object_id]
        if size >= PACK_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _split(names: bytes) -> list[ObjectId]:
    starts = range(0, len(names), OBJECT_ID_BYTES)
    return [ObjectId(names[at : at + OBJECT_ID_BYTES]) for at in starts]


def fetch(pair: Pair, snapshot: SnapshotInfo, progress: Progress) -> SnapshotInfo:
    """Returns a snapshot of the cache that holds the files of one of the server's.

    It is beside the directory's own timeline, which stays as it is.
    """
    aside = pair.local.aside
    pulled = Pull(pair.server, aside, progress).pull(pair.memo.now, snapshot.id)
    note, lacking = Note(reason=f"fetched {snapshot.id}"), lacking_of(snapshot)
    adopt(aside, pulled.edits, base=pulled.base, root=pulled.root, note=note, lacking=lacking)
    return replace(Namespace(aside).snapshot(reason=note.reason), detail=snapshot.detail)
