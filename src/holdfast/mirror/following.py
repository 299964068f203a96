"""Keeps a directory and a namespace of a server in step.

To the server goes what is in the directory (`send`), from it comes what the server shows
(`follow`). Where the two have parted, nothing is overwritten unseen: a commit on top of something
else is refused, and what is in the directory and nowhere else is put on the server's timeline,
beside what is there, before the directory becomes something else.

The order of a move: what is in the directory is on the server; a note says that the server is about
to move; the server moves; the directory follows, journalled and proven as any restore is. Whoever
is interrupted leaves the note, and the next one makes the directory what the server shows.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.engine.core.paths import to_bytes
from holdfast.engine.directory.writer import Follower
from holdfast.engine.exchange.adopting import adopt
from holdfast.engine.exchange.coverage import lacking_of
from holdfast.engine.planes.handle import Handle
from holdfast.errors import (
    DriftFound,
    HeadMoved,
    HoldfastError,
    InvalidValue,
    NotFound,
    ReplyNotKept,
    RequestRunning,
)
from holdfast.ids import ObjectId, SnapshotId
from holdfast.mirror.local import Local
from holdfast.mirror.memo import Memo, MemoFile
from holdfast.mirror.pulling import Pull
from holdfast.mirror.pushing import Push
from holdfast.mirror.server import Server
from holdfast.model.basics import EMPTY_MAP, SnapshotInfo
from holdfast.operations.snapshots import Note
from holdfast.progress import Progress
from holdfast.wire.exchange import CommitRequest

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
        self, reason: str, follower: Follower, *, keeps_redo: bool = False
    ) -> SnapshotInfo | None:
        """Sends what is in the directory and nowhere else; None if all of it is there."""
        self.local.attached.keep_drift(reason, progress=follower.progress, keeps_redo=keeps_redo)
        if self.here == self.memo.now.files:
            return None
        return self.send(
            _safety(reason, keeps_redo=keeps_redo),
            # Something else is about to take its place in any case.
            overwrite=True,
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
    ) -> tuple[A, Moved]:
        """Lets the server move, and the directory follow; if it cannot, the server goes back."""
        kept, before = self.keep(reason, follower, keeps_redo=keeps_redo), self.here
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
