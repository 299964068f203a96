"""Lets go of sessions and conversations that nothing needs any more.

A session that was deleted, or whose time is over, keeps its rows through the grace period and for
as long as a snapshot on any timeline holds it; one that a restore has set aside keeps them for as
long as a snapshot holds it. Turns stay while anything shows them: a session or
a version of one, a branch that goes on from them, or what a snapshot or head holds, be it in
another namespace. Memories are not part of a session and stay.

1. A session past its time leaves the plane, if none was faster: see `lapsing.py`.
2. Rows of sessions that no plane holds go, a namespace at a time.
3. Branches that nothing needs go, with their turns.

What planes hold is looked up before, beside all writers, and once more in the transaction that
deletes, where only what is new since has to be looked at. Killed at any point, what is left over
is as spare as before, and the next collection takes it.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.catalog.upkeep import Ended
from holdfast.engine.core.context import Context
from holdfast.engine.journal.actions import trace_of_namespace
from holdfast.engine.journal.chain import append
from holdfast.engine.objects.reachable import iter_entries, root_ids
from holdfast.engine.objects.reader import Objects
from holdfast.engine.sessions.bearers import let_go
from holdfast.engine.sessions.following import session_of
from holdfast.engine.sessions.lapsing import MOST, end_lapsed
from holdfast.errors import Damaged
from holdfast.ids import NamespaceId, ObjectId, TenantId
from holdfast.model.basics import EMPTY_MAP, Plane
from holdfast.model.sessions import BranchRow

BATCH: Final = 1000
SESSIONS: Final = 100
"""Branches and sessions deleted in one transaction: a writer never waits long for its turn."""


def purge(context: Context, tenant_id: TenantId) -> list[str]:
    """Deletes what outlived the grace period and is held by nothing.

    Returns what is damaged of sessions that therefore stay.
    """
    damaged = list[str]()
    before, held = context.clock() - context.limits.grace, SessionsInUse(context, tenant_id)
    while end_lapsed(context, tenant_id) == MOST:
        pass
    with context.catalog.read() as transaction:
        ended = transaction.ended_sessions(tenant_id, before=before)
        roots = held.look_at_rows(transaction) if ended else set[ObjectId]()
    held.follow(roots)
    loose = [each for each in ended if not held.holds(each)]
    for namespace_id, group in groupby(loose, key=lambda each: each[0]):
        chosen = [*group]
        for at in range(0, len(chosen), SESSIONS):
            some = {*chosen[at : at + SESSIONS]}
            damaged += _purge_sessions(context, namespace_id, some, held, before=before)
    _purge_branches(context, tenant_id, held)
    return [*dict.fromkeys(damaged)]


class SessionsInUse:
    """What the planes of a tenant's snapshots and heads hold of sessions, and tasks had before.

    Each node is looked at once, however often one looks.
    """

    def __init__(self, context: Context, tenant_id: TenantId) -> None:
        self._context, self._tenant_id = context, tenant_id
        self._seen: set[ObjectId] = {EMPTY_MAP}
        self._sessions: set[tuple[bytes, int]] = set()
        self.branches: dict[str, int] = {}
        """With the most turns of each that anything shows."""

    def holds(self, session: Ended) -> bool:
        """Says whether something of what was seen holds a session."""
        _, session_id, began_us = session
        return (session_id.encode(), began_us) in self._sessions

    def beginnings(self, session_id: str) -> set[int]:
        """Returns when those of an id began that something of what was seen holds."""
        return {began_us for key, began_us in self._sessions if key == session_id.encode()}

    def look(self, transaction: Transaction) -> None:
        """Adds what this transaction sees: who has looked before finds little that is new."""
        self.follow(self.look_at_rows(transaction), transaction)

    def follow(self, roots: set[ObjectId], transaction: Transaction | None = None) -> None:
        """Adds what the planes of some roots hold; of a bucket, each node may be a request."""
        source = Objects(self._context, self._tenant_id, transaction)
        maps = [source.get_root(root_id).plane(Plane.SESSIONS) for root_id in roots]
        self._seen |= roots
        for key, data in iter_entries(source, maps, self._seen):
            self._hold(key, data)

    def look_at_rows(self, transaction: Transaction) -> set[ObjectId]:
        """Adds what the rows hold that this transaction sees; returns the roots to be followed."""
        roots = root_ids(transaction, self._tenant_id) - self._seen
        for head in transaction.iter_heads(self._tenant_id):
            pending = transaction.range_pending(
                head.namespace_id, Plane.SESSIONS, start=b"", stop=None
            )
            for key, entry in pending:
                if entry is not None:
                    self._hold(key, entry)
        for plane, key, entry in transaction.iter_task_entries(self._tenant_id):
            if plane is Plane.SESSIONS:
                self._hold(key, entry)
        return roots

    def _hold(self, key: bytes, data: bytes) -> None:
        entry = session_of(data)
        self._sessions.add((key, entry.created_us))
        if entry.turns:
            self.branches[entry.branch] = max(entry.turns, self.branches.get(entry.branch, 0))


def _purge_sessions(
    context: Context,
    namespace_id: NamespaceId,
    chosen: set[Ended],
    held: SessionsInUse,
    *,
    before: datetime,
) -> list[str]:
    """Deletes the rows of sessions of one namespace, if they are still held by nothing.

    Returns what is damaged: a session of which that is so stays, and all others go.
    """
    damaged, ids = list[str](), dict[str, None]()
    with context.catalog.write() as transaction:
        # Locked: a restore brings a session back, or it is gone, and never both.
        head = transaction.lock_head(namespace_id)
        if head is None or head.deleted_at is not None:
            return []
        held.look(transaction)
        still = transaction.ended_sessions(head.tenant_id, before=before)
        for each in still:
            if each not in chosen or held.holds(each):
                continue
            try:
                let_go(transaction, *each)
                ids[each[1]] = None
            except Damaged as exc:
                damaged.append(str(exc))
        if ids:
            told = trace_of_namespace("session.purged", head.name, sessions=[*ids])
            append(transaction, context, head, told)
    return damaged


def _purge_branches(context: Context, tenant_id: TenantId, held: SessionsInUse) -> None:
    """Deletes branches that nothing needs, with their turns."""
    with context.catalog.read() as transaction:
        spare = transaction.spare_branches(tenant_id)
        if not spare:
            return
        roots = held.look_at_rows(transaction)
    held.follow(roots)
    doomed = sorted(unneeded(spare, held.branches))
    for at in range(0, len(doomed), BATCH):
        with context.catalog.write() as transaction:
            # Waits for those who are about to name one, and makes others wait until we are done.
            transaction.advance_epoch(tenant_id)
            held.look(transaction)
            still = unneeded(transaction.spare_branches(tenant_id), held.branches)
            transaction.delete_branches(tenant_id, still.intersection(doomed[at : at + BATCH]))


def trim(context: Context, tenant_id: TenantId) -> None:
    """Deletes what was said on branches after the last turn that anything shows.

    Where a session goes that others were forked from, they need the beginning of its conversation
    alone. What was spare as a whole has to be gone before.
    """
    held = SessionsInUse(context, tenant_id)
    with context.catalog.read() as transaction:
        roots = held.look_at_rows(transaction)
    held.follow(roots)
    with context.catalog.write() as transaction:
        transaction.advance_epoch(tenant_id)
        held.look(transaction)
        branches = transaction.iter_branches(tenant_id)
        shown = [*held.branches.items(), *transaction.named_branches(tenant_id).items()]
        shown += [(each.parent, each.parent_turns) for each in branches if each.parent is not None]
        needed = dict[str, int]()
        for branch_id, turns in shown:
            needed[branch_id] = max(turns, needed.get(branch_id, 0))
        for branch in branches:
            turns = max(needed.get(branch.id, branch.turns), branch.parent_turns)
            if turns < branch.turns:
                transaction.trim_branch(tenant_id, branch.id, turns=turns)


def unneeded(spare: Sequence[BranchRow], named: dict[str, int]) -> set[str]:
    """Returns those of some branches that are not named, and that no named one goes on from."""
    parents = {branch.id: branch.parent for branch in spare}
    for branch_id in named:
        name: str | None = branch_id
        while name is not None and name in parents:
            name = parents.pop(name)
    return {*parents}
