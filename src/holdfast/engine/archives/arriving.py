"""Sessions on their way in: states are staged, turns become rows when the head moves.

A conversation gets a branch of its own, with a new name and new turns: whatever an archive says,
it cannot name, change or show what is in the vault already.
"""

from collections.abc import Iterable, Iterator

import msgspec
from blake3 import blake3

from holdfast.catalog.transaction import Transaction
from holdfast.engine.archives.archivefile import Source
from holdfast.engine.archives.sessionfile import (
    Conversation,
    SessionMember,
    TurnLine,
    measure,
    parts_of,
    read_session,
    read_turns,
    to_row,
)
from holdfast.engine.archives.survey import SurveyedSession
from holdfast.engine.archives.tarread import Member
from holdfast.engine.objects.stage import Stage
from holdfast.engine.pending.fold import Folded
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions import state as states
from holdfast.engine.sessions.following import Keeping
from holdfast.engine.sessions.state import StoredState
from holdfast.engine.sessions.terms import TERMS_KEPT, later_terms
from holdfast.entries import Session, encode_entry
from holdfast.errors import UnsafeArchive
from holdfast.instants import from_us
from holdfast.model.basics import Head, Plane, Root
from holdfast.model.sessions import BranchRow, TurnRow
from holdfast.tree import Edit, build, get_many


def named_by(entry: Session, branch: str) -> bytes:
    """Returns the entry of a session whose conversation has another name."""
    return encode_entry(msgspec.structs.replace(entry, branch=branch))


class Arriving:
    """The sessions of an archive."""

    def __init__(self, handle: Handle, file: Source) -> None:
        self._handle, self._file = handle, file
        self._turns: list[tuple[str, Member, Conversation]] = []
        self.rows: list[tuple[bytes, bytes]] = []
        """What the plane will hold."""
        self.row_bytes = 0
        """What rows of other planes will take: memories have some, too."""
        self.told: list[tuple[bytes, bytes]] = []
        """The same as the root in the manifest has it."""

    def take(self, stage: Stage, session: SurveyedSession) -> None:
        """Stages a session's state, and finds a name for its conversation."""
        context = self._handle.context
        told = read_session(self._file, session.member, context.limits)
        stored = states.store(stage, parts_of(told), max_bytes=context.limits.state_bytes)
        stage.spill()
        branch, found = "", Conversation()
        if session.turns is not None:
            lines = read_turns(self._file, session.turns, context.limits)
            branch, found = context.ids.branch(), measure(line for line, _ in lines)
            self._turns.append((branch, session.turns, found))
        entry, key = entry_of(told, stored), told.id.encode()
        self.rows.append((key, named_by(entry, branch)))
        self.told.append((key, named_by(entry, found.digest)))

    def with_later_terms(
        self, transaction: Transaction, folded: Folded, root: Root
    ) -> tuple[Root, dict[str, object]]:
        """Returns the root of an archive without a term that who only adds would shorten.

        And what a snapshot says of that. The nodes of the archive's maps are put away by now, and
        have no names yet: of sessions, the map is built anew.
        """
        if not self._handle.context.adds_only:
            return root, {}
        rows = dict(self.rows)
        old = get_many(folded.source, folded.root.plane(Plane.SESSIONS), sorted(rows))
        edits = (Edit(key, old.get(key), new) for key, new in rows.items())
        kept = later_terms(transaction, self._handle, edits)
        if not kept:
            return root, {}
        built = build(sorted((rows | kept).items()))
        folded.stage.add_nodes(built.nodes)
        return root.replacing(sessions=built.root), {TERMS_KEPT: len(kept)}

    def record(self, transaction: Transaction, head: Head) -> None:
        """Writes the turns, in the transaction that moves the head."""
        handle = self._handle
        needed = sum(found.bytes for _, _, found in self._turns) + self.row_bytes
        handle.context.check_room(transaction, handle.tenant_id, needed)
        keeping = Keeping(transaction, handle, head, handle.context.clock())
        for branch, member, found in self._turns:
            row = self._record(keeping, branch, member, found)
            transaction.add_branch(handle.tenant_id, row)
        keeping.finish()

    def _record(
        self, keeping: Keeping, branch: str, member: Member, found: Conversation
    ) -> BranchRow:
        hasher = blake3()

        def turns() -> Iterator[TurnLine]:
            for line, told in read_turns(self._file, member, self._handle.context.limits):
                hasher.update(line)
                yield told

        row = keep_turns(self._handle, keeping, branch, turns())
        if hasher.hexdigest() != found.digest:
            raise UnsafeArchive("it was changed while it was read", member=member.name)
        return row


def keep_turns(
    handle: Handle, keeping: Keeping, branch: str, turns: Iterable[TurnLine]
) -> BranchRow:
    """Writes the turns of a conversation that comes from elsewhere; returns its branch."""
    number = size = 0
    for number, told in enumerate(turns, start=1):
        data = to_row(told)
        size += len(data)
        turn = TurnRow(
            branch=branch,
            number=number,
            id=handle.context.ids.turn(),
            data=data,
            created_at=from_us(told.created_us),
        )
        keeping.add_turn(turn)
    return BranchRow(branch, None, 0, number, size)


def entry_of(told: SessionMember, stored: StoredState) -> Session:
    """Returns the entry of a session of which nobody has said yet where its conversation is."""
    return Session(
        state=stored.entry,
        bytes=stored.bytes,
        branch="",
        turns=told.turns,
        agent_id=told.agent_id,
        user_id=told.user_id,
        metadata=bytes(told.metadata).decode(),
        created_us=told.created_us,
        expires_us=told.expires_us,
    )
