"""Says what of a tenant's sessions and conversations is not as it has to be.

Every turn that anything shows is there, whole and in its place. Every session has all of its
versions. Both are what the journal has the hashes of. And what the rows say of a session is what
the plane of its namespace holds.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.objects.content import NamesOnly
from holdfast.engine.objects.reader import Objects
from holdfast.engine.planes.overlays import settle_session
from holdfast.engine.planes.view import View
from holdfast.engine.sessions.purging import SessionsInUse
from holdfast.engine.sessions.turns import data_of
from holdfast.engine.sessions.writing import entry_of
from holdfast.entries import encode_entry
from holdfast.errors import Damaged
from holdfast.ids import TenantId
from holdfast.model.basics import Head, Plane
from holdfast.model.sessions import BranchRow

PAGE: Final = 100
"""Turns that are looked at together."""

Defect = tuple[str, str]
"""What is not sound, and why."""


def find_faults(
    context: Context, transaction: Transaction, tenant_id: TenantId
) -> Iterator[Defect]:
    """Yields what is wrong; raises `Damaged` where a plane cannot be read at all."""
    held = SessionsInUse(context, tenant_id)
    held.look(transaction)
    needed = dict(held.branches)
    for branch, turns in transaction.named_branches(tenant_id).items():
        if turns:
            needed[branch] = max(turns, needed.get(branch, 0))
    yield from _find_in_branches(transaction, tenant_id, needed)
    for head in transaction.iter_heads(tenant_id):
        faults = list(_find_in_histories(transaction, head))
        yield from faults
        # The rows of a fork are written when somebody first asks for them.
        if transaction.is_lagging(head.namespace_id):
            continue
        try:
            yield from _find_in_plane(context, transaction, head)
        except Damaged as exc:
            # Of a version, it is said already.
            if not faults:
                yield f"sessions of {head.name}", f"not all could be checked: {exc}"


def _find_in_histories(transaction: Transaction, head: Head) -> Iterator[Defect]:
    # Also of those that have ended, which no plane holds.
    for row in transaction.damaged_sessions(head.namespace_id):
        yield f"sessions: {row.id}", "its row is not what was written"
    for session_id in transaction.damaged_formers(head.namespace_id):
        yield f"sessions: {session_id}", "the row of one that had its id before is damaged"
    for session_id in transaction.broken_histories(head.namespace_id):
        yield f"sessions: {session_id}", "its history is not whole"
    for session_id, number, is_whole in transaction.iter_versions(
        head.tenant_id, head.namespace_id
    ):
        if not is_whole:
            yield f"sessions: {session_id}", f"version {number} is not what the journal says"


def _find_in_branches(
    transaction: Transaction, tenant_id: TenantId, needed: dict[str, int]
) -> Iterator[Defect]:
    branches = {branch.id: branch for branch in transaction.iter_branches(tenant_id)}
    todo, seen = list(needed.items()), set[str]()
    while todo:
        name, turns = todo.pop()
        branch = branches.get(name)
        if branch is None or turns > branch.turns:
            yield f"conversation {name}", "a session shows turns of it that are not there"
        if branch is None or name in seen:
            continue
        seen.add(name)
        if branch.parent is not None and branch.parent_turns:
            todo.append((branch.parent, branch.parent_turns))
        yield from _find_in_turns(transaction, tenant_id, branch)


def _find_in_turns(
    transaction: Transaction, tenant_id: TenantId, branch: BranchRow
) -> Iterator[Defect]:
    after, size = branch.parent_turns, 0
    while page := transaction.page_turns(
        tenant_id, branch.id, after=after, before=branch.turns + 1, most=PAGE
    ):
        for turn, is_whole in page:
            after, size = after + 1, size + len(turn.data)
            if turn.number != after:
                yield f"conversation {branch.id}", f"turn {after} is missing"
                after = turn.number
            if not is_whole:
                reason = f"turn {turn.number} is not what the journal says"
                yield f"conversation {branch.id}", reason
            try:
                data_of(turn)
            except Damaged as exc:
                yield f"conversation {branch.id}", str(exc)
    if after != branch.turns:
        yield f"conversation {branch.id}", f"turn {after + 1} is missing"
    elif size != branch.bytes:
        reason = f"its turns have {size} bytes, not {branch.bytes}"
        yield f"conversation {branch.id}", reason


def _find_in_plane(context: Context, transaction: Transaction, head: Head) -> Iterator[Defect]:
    objects = Objects(context, head.tenant_id, transaction)
    shown = View.of_head(objects, transaction, head, Plane.SESSIONS).iterate()
    rows = (
        (session.id.encode(), encode_entry(entry_of(session, version)))
        for session, version in transaction.iter_present(head.namespace_id)
    )
    for entry, row in zip_longest(shown, rows):
        if entry != row and _settled(objects, entry) != _settled(objects, row):
            # From here on the two are out of step: one fault says it.
            name = min(key for key, _ in (each for each in (entry, row) if each)).decode()
            yield f"sessions: {name}", f"its row and the plane of {head.name!r} differ"
            return


def _settled(objects: Objects, row: tuple[bytes, bytes] | None) -> tuple[bytes, bytes] | None:
    """Returns what a row is in the plane, or will be: a snapshot since stores states as maps."""
    return None if row is None else (row[0], settle_session(NamesOnly(), objects, row[1]))
