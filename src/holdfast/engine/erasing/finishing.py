"""Finishes erasures: what is under way, and what was interrupted. All of it may be done twice."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.erasing.certifying import certify, encode, read_unfinished
from holdfast.engine.erasing.parts import Counts, Wanted, take_out
from holdfast.engine.erasing.telling import erase_events, redact_user
from holdfast.engine.erasing.whole import let_go
from holdfast.engine.journal.events import shortened
from holdfast.engine.objects.stage import Stage
from holdfast.engine.sessions.purging import trim
from holdfast.engine.upkeep.collect import collect
from holdfast.errors import Damaged, Unavailable
from holdfast.ids import NamespaceId
from holdfast.model.basics import Tenant
from holdfast.model.erasures import Certificate, Erased, ErasureRow
from holdfast.model.events import EventRow
from holdfast.progress import Progress, no_progress


def finish_all(
    context: Context, tenant: Tenant, *, progress: Progress = no_progress
) -> list[Certificate]:
    """Finishes a tenant's erasures that are under way or were interrupted, newest first.

    Raises `Busy` while others collect, or make a backup, or read for long; `Damaged` if something
    cannot be read. Then nothing is finished, and whoever comes next goes on.
    """
    with context.catalog.read() as transaction:
        rows = [row for row in transaction.list_erasures(tenant.id) if row.finished_at is None]
    if not rows:
        return []
    for row in rows:
        if row.what is Erased.USER and row.subject is not None:
            _take_user(context, tenant, row, row.subject)
        elif row.what is Erased.NAMESPACE:
            let_go(context, tenant, row.namespace or "")
    with context.catalog.write() as transaction:
        transaction.erase_replies(tenant.id)
    collected = collect(context, tenant.id, now=True, waste=0, progress=progress)
    if collected.damaged:
        raise Damaged(f"what is damaged could not be rewritten: {', '.join(collected.damaged[:3])}")
    if collected.bytes_retired:
        raise Unavailable("bytes that nothing needs could not be given back: see `holdfast doctor`")
    trim(context, tenant.id)
    context.forget_caches()
    context.catalog.scrub()
    done = list[Certificate]()
    for row in rows:
        with context.catalog.write() as transaction:
            done.append(certify(transaction, context, tenant, row))
    return done


def _take_user(context: Context, tenant: Tenant, row: ErasureRow, user_id: str) -> None:
    """Takes a user out of every namespace, and out of what was told of those that are gone.

    With the last of it the row forgets who it was.
    """
    told = dict[NamespaceId, list[str]]()
    with context.catalog.read() as transaction:
        for namespace_id, session_id in transaction.sessions_told_of(tenant.id, user_id):
            told.setdefault(namespace_id, []).append(session_id)
    seen = set[NamespaceId]()
    # Until there are no more: one may be forked from another that still had to be looked at.
    while left := _namespaces(context, tenant, seen):
        for namespace_id in left:
            _take_user_from(context, tenant, row, namespace_id, told)
        seen.update(left)
    with context.catalog.write() as transaction:
        redacted = redact_user(transaction, tenant.id, user_id)
        known = shortened(user_id)

        def is_theirs(event: EventRow, data: dict[str, Any]) -> bool:
            # What was told of a namespace that is gone has its id all the same.
            sessions = told.get(event.namespace_id, ()) if event.namespace_id is not None else ()
            return data.get("user_id") == known or data.get("session_id") in sessions

        erase_events(transaction, context, tenant.id, is_theirs)
        _note(transaction, tenant, row, Counts(redacted_rows=redacted), subject=None)


def _namespaces(context: Context, tenant: Tenant, seen: set[NamespaceId]) -> list[NamespaceId]:
    with context.catalog.read() as transaction:
        heads = transaction.iter_heads(tenant.id)
    return [head.namespace_id for head in heads if head.namespace_id not in seen]


def _take_user_from(
    context: Context,
    tenant: Tenant,
    row: ErasureRow,
    namespace_id: NamespaceId,
    told: Mapping[NamespaceId, Sequence[str]],
) -> None:
    wanted = Wanted(user_id=row.subject, sessions=tuple(told.get(namespace_id, ())))
    stage = Stage(context, tenant.id, counts=False)
    with stage, context.catalog.write() as transaction:
        head = transaction.lock_head(namespace_id)
        if head is not None:
            counts = take_out(transaction, context, stage, head, wanted)
            _note(transaction, tenant, row, counts, subject=row.subject)


def _note(
    transaction: Transaction,
    tenant: Tenant,
    row: ErasureRow,
    counts: Counts,
    *,
    subject: str | None,
) -> None:
    """Adds to what is known of an erasure, in the transaction that did it."""
    now = next(each for each in transaction.list_erasures(tenant.id) if each.id == row.id)
    if now.finished_at is None:
        told = encode(read_unfinished(now).adding(counts))
        transaction.set_erasure(msgspec.structs.replace(now, subject=subject, told=told))
