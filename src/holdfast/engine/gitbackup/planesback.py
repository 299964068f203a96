"""The store, sessions and memories of a repository on their way back into a namespace.

Whoever made the repository is not trusted: a file is what we would have written under its name, or
the import is refused. Values come back to the last bit. A session comes back with its state and its
conversation, as far as no turn of that stayed elsewhere, on a branch of its own; the versions that
led there are not in a repository, nor is what a memory means to somebody's model.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from holdfast.catalog.transaction import Transaction
from holdfast.engine.archives.arriving import entry_of, keep_turns
from holdfast.engine.archives.memoryfile import parse_memory
from holdfast.engine.archives.sessionfile import (
    SessionMember,
    TurnLine,
    parse_session,
    parse_turn,
    parts_of,
)
from holdfast.engine.core.growth import size_of
from holdfast.engine.gitbackup.planefiles import (
    FOLDERS,
    SESSION,
    compact,
    memory_path,
    number_of,
    read_value,
    session_folder,
    value_path,
)
from holdfast.engine.memory.plane import entry_of as entry_of_memory
from holdfast.engine.objects import content
from holdfast.engine.objects.stage import Stage
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions import state as states
from holdfast.engine.sessions.following import Keeping, session_of
from holdfast.entries import encode_entry
from holdfast.errors import TooLarge, UnsafeArchive
from holdfast.git.repository import FILE, Reader, Step
from holdfast.ids import ObjectId
from holdfast.model.basics import EMPTY_MAP, Head, Plane, Size
from holdfast.tree import NodeSource, apply

Changes = dict[bytes, bytes | None]
Read = Callable[[Step], bytes]
"""Returns what the file of a step holds."""

MOST_FILE_BYTES: Final = 128 << 20
"""Of one file: what we write has 8 MiB as it is stored, and takes a few times that as text."""


@dataclass(slots=True)
class _Session:
    """A session as the files of a commit have it."""

    told: SessionMember | None = None
    entry: bytes = b""
    turns: dict[int, str] = field(default_factory=dict[int, str])
    """The names of the blobs that they are in."""
    branches: list[tuple[str, list[str]]] = field(default_factory=list[tuple[str, list[str]]])
    """Conversations that some commit shows, each with its blobs."""


class PlanesBack:
    """The planes beside files, one commit after the other."""

    def __init__(self, handle: Handle, stage: Stage) -> None:
        self._handle, self._stage = handle, stage
        self._keys: dict[bytes, tuple[Plane, bytes]] = {}
        """What files that are there are of: of one that is gone, the name alone is known."""
        self._sessions: dict[bytes, _Session] = {}
        self._touched: set[bytes] = set()
        self._changes: dict[Plane, Changes] = {plane: {} for plane in FOLDERS}
        self._turn_bytes: dict[str, int] = {}
        self._row_bytes: dict[bytes, int] = {}
        self._kept_turns = 0
        """What the rows of memories take that the last commit has."""
        self.roots: dict[Plane, ObjectId] = dict.fromkeys(FOLDERS, EMPTY_MAP)

    def take(self, step: Step, planes: Sequence[str], read: Read) -> None:
        """Takes in what became of a file of ours, in a commit that says which planes it has."""
        plane = next((p for p, f in FOLDERS.items() if step.path.startswith(f + b"/")), None)
        if plane is None:
            return
        if step.mode is None or step.mode != FILE or plane not in planes:
            self._drop(step.path)
            return
        match plane:
            case Plane.STORE:
                self._take_value(step, read(step))
            case Plane.MEMORIES:
                self._take_memory(step, read(step))
            case _:
                self._take_of_session(step, read)

    def settle(self, source: NodeSource) -> Size:
        """Stages the maps that a commit shows; returns how much larger they are than before."""
        for folder in sorted(self._touched):
            self._settle_session(folder)
        self._touched.clear()
        grown = Size()
        for plane, changes in self._changes.items():
            if changes:
                applied = apply(source, self.roots[plane], changes)
                self._stage.add_nodes(applied.nodes)
                self.roots[plane], grown = applied.root, grown + size_of(applied.edits)
                changes.clear()
        self._stage.spill()
        return grown

    def record(self, transaction: Transaction, head: Head, reader: Reader) -> None:
        """Writes all conversations, in the transaction that moves the head."""
        handle = self._handle
        branches = [each for session in self._sessions.values() for each in session.branches]
        needed = sum(self._turn_bytes[blob] for _, blobs in branches for blob in blobs)
        needed += sum(self._row_bytes.values())
        handle.context.check_room(transaction, handle.tenant_id, needed)
        keeping = Keeping(transaction, handle, head, handle.context.clock())
        for branch, blobs in branches:
            row = keep_turns(handle, keeping, branch, self._turns(blobs, reader))
            transaction.add_branch(handle.tenant_id, row)
        keeping.finish()

    def _turns(self, blobs: list[str], reader: Reader) -> Iterator[TurnLine]:
        for blob in blobs:
            data = reader.get(blob.encode(), most_bytes=MOST_FILE_BYTES)
            if data is None:
                raise UnsafeArchive("the repository lacks a turn")
            yield self._parsed(data, blob.encode())

    def _parsed(self, data: bytes, name: bytes) -> TurnLine:
        return parse_turn(_compact(data, name) + b"\n", self._handle.context.limits, name=name)

    def _take_value(self, step: Step, data: bytes) -> None:
        key, packed = read_value(data, self._handle.context.limits, name=step.path)
        _check_name(step.path, value_path(key))
        self._keys[step.path] = Plane.STORE, key
        entry = encode_entry(content.as_value(self._stage, packed))
        self._changes[Plane.STORE][key] = entry

    def _take_memory(self, step: Step, data: bytes) -> None:
        limits = self._handle.context.limits
        row = parse_memory(_compact(data, step.path), limits, name=step.path)
        _check_name(step.path, memory_path(row.id))
        key = row.id.encode()
        self._keys[step.path] = Plane.MEMORIES, key
        self._row_bytes[key] = row.size_bytes
        self._changes[Plane.MEMORIES][key] = entry_of_memory(self._stage, row)

    def _take_of_session(self, step: Step, read: Read) -> None:
        folder = _folder_of(step.path)
        session = self._sessions.setdefault(folder, _Session())
        limits, number = self._handle.context.limits, number_of(step.path)
        if number is not None:
            if step.blob not in self._turn_bytes:
                data = read(step)
                self._parsed(data, step.path)
                self._turn_bytes[step.blob] = len(data)
            session.turns[number] = step.blob
        elif step.path == folder + b"/" + SESSION:
            told = parse_session(_compact(read(step), step.path), limits, name=step.path)
            _check_name(folder, session_folder(told.id))
            session.told = told
            stored = states.store(self._stage, parts_of(told), max_bytes=limits.state_bytes)
            session.entry = encode_entry(entry_of(told, stored))
        else:
            return  # Nothing of ours.
        self._touched.add(folder)

    def _drop(self, path: bytes) -> None:
        """Takes what a file was of away, if it was of anything."""
        known = self._keys.pop(path, None)
        if known is not None:
            plane, key = known
            # A name stands for one key: nothing else in this commit is of it.
            self._changes[plane][key] = None
            if plane is Plane.MEMORIES:
                del self._row_bytes[key]
        elif path.startswith(FOLDERS[Plane.SESSIONS] + b"/"):
            folder = _folder_of(path)
            session, number = self._sessions.get(folder), number_of(path)
            if session is None:
                return
            if number is not None:
                session.turns.pop(number, None)
            elif path == folder + b"/" + SESSION and session.told is not None:
                self._changes[Plane.SESSIONS][session.told.id.encode()] = None
                session.told = None
            self._touched.add(folder)

    def _settle_session(self, folder: bytes) -> None:
        """Says what became of a session, of which some files have changed."""
        session = self._sessions[folder]
        if session.told is None:
            return
        blobs = list[str]()
        while len(blobs) < session.told.turns and len(blobs) + 1 in session.turns:
            blobs.append(session.turns[len(blobs) + 1])
        branch = self._branch_of(session, blobs)
        entry = replace(session_of(session.entry), branch=branch, turns=len(blobs))
        self._changes[Plane.SESSIONS][session.told.id.encode()] = encode_entry(entry)

    def _branch_of(self, session: _Session, blobs: list[str]) -> str:
        """Returns the branch whose first turns are these; makes one, if need be."""
        if not blobs:
            return ""
        for place, (branch, known) in enumerate(session.branches):
            if known[: len(blobs)] == blobs:
                return branch
            if blobs[: len(known)] == known:
                self._count_turns(len(blobs) - len(known))
                session.branches[place] = branch, blobs
                return branch
        self._count_turns(len(blobs))
        branch = self._handle.context.ids.branch()
        session.branches.append((branch, blobs))
        return branch

    def _count_turns(self, more: int) -> None:
        """Raises `TooLarge` before conversations take more than an archive's members may."""
        most = self._handle.context.limits.archive_members
        self._kept_turns += more
        if self._kept_turns > most:
            message = f"a repository may have {most} turns in all of its conversations"
            raise TooLarge(message)


def _folder_of(path: bytes) -> bytes:
    """Returns the folder of the session that a path below the folder of all is of."""
    start = FOLDERS[Plane.SESSIONS] + b"/"
    return start + path.removeprefix(start).partition(b"/")[0]


def _check_name(path: bytes, wanted: bytes) -> None:
    """Raises unless a file is called as its content says: else two could be of the same."""
    if path != wanted:
        raise UnsafeArchive("it is not called as what it holds is", member=path)


def _compact(data: bytes, name: bytes) -> bytes:
    try:
        return compact(data)
    except (ValueError, RecursionError) as exc:
        raise UnsafeArchive(f"it is no JSON: {exc}", member=name) from exc
