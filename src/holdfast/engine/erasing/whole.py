"""Takes a whole namespace away, with all that only it needs."""

import os

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.core.tenants import DEFAULT_TENANT
from holdfast.engine.directory.attachments import Attachments
from holdfast.engine.directory.lending import let_go_of
from holdfast.engine.erasing.parts import Counts
from holdfast.engine.erasing.rewriting import ALL
from holdfast.engine.erasing.telling import erase_events, redact_namespace
from holdfast.engine.journal.anchors import anchor_last
from holdfast.engine.journal.chain import append
from holdfast.engine.timeline.retention import trace_of_purge
from holdfast.errors.system import translated
from holdfast.ids import NamespaceId
from holdfast.model.basics import Head, Tenant
from holdfast.model.traces import OWN
from holdfast.ownfiles import sync_folder
from holdfast.storekeys import LOG, NEW_LOG, log_stem


def find_namespace(
    transaction: Transaction, tenant: Tenant, name: str, number: NamespaceId | None
) -> Head | None:
    """Returns the head that is meant, locked.

    Of several with this name the live one, else that which was deleted last, or that with the
    number.
    """
    heads = [each for each in transaction.iter_heads(tenant.id) if each.name == name]
    if number is not None:
        heads = [each for each in heads if each.namespace_id == number]
    if not heads:
        return None
    live = [each for each in heads if each.deleted_at is None]
    last = max(heads, key=lambda each: (each.deleted_at or each.created_at, each.namespace_id))
    return transaction.lock_head((live or [last])[0].namespace_id)


def take_away(transaction: Transaction, context: Context, head: Head) -> Counts:
    """Removes the rows of a namespace, whose head is locked; returns what went."""
    removed = {
        "snapshots": len(transaction.timeline(head.namespace_id, before=None, most=ALL)),
        "entries": head.size.entries,
        "bytes": head.size.bytes,
    }
    redacted = redact_namespace(transaction, head)
    namespace_id = head.namespace_id
    erase_events(
        transaction, context, head.tenant_id, lambda event, _: event.namespace_id == namespace_id
    )
    if head.deleted_at is None:
        transaction.delete_namespace(head.namespace_id, now=context.clock())
    anchor_last(transaction, context, head)
    transaction.purge_namespace(head.namespace_id)
    append(transaction, context, head, trace_of_purge(head), stream=OWN)
    return Counts(removed, redacted_rows=redacted)


def forks_of(transaction: Transaction, head: Head) -> list[str]:
    """Returns the namespaces that were forked from one."""
    heads = transaction.iter_heads(head.tenant_id)
    return sorted(each.name for each in heads if each.fork_of == head.namespace_id)


def let_go(context: Context, tenant: Tenant, name: str) -> None:
    """Forgets what lies beside the catalog for a namespace that is gone.

    That is the directory that commands ran in, what is known of a directory that was attached, and
    the log of a store that was kept in memory; raises `Busy` while that is open. The last two go by
    name: if another namespace has that by now, they are its own.
    """
    with context.catalog.read() as transaction:
        now = transaction.find_head(tenant.id, name)
    let_go_of(context, tenant.id, name, but=None if now is None else now.namespace_id)
    if now is not None:
        return
    attachments = Attachments(context, tenant.id)
    for each in attachments.list():
        if each.namespace == name:
            with each.locked():
                if not _is_taken(context, tenant, name):
                    attachments.detach(each)
    # Stores are kept for one tenant alone.
    if tenant.name == DEFAULT_TENANT:
        _remove_log(context, tenant, name)


def let_go_of_copies(context: Context) -> None:
    """Removes the repositories that copies in git were pushed from, of what is erased."""
    # What runs programs is loaded by those who do.
    from holdfast.engine.gitbackup.places import sweep  # noqa: PLC0415 - see above

    sweep(context)


def _is_taken(context: Context, tenant: Tenant, name: str) -> bool:
    with context.catalog.read() as transaction:
        return transaction.find_head(tenant.id, name) is not None


def _remove_log(context: Context, tenant: Tenant, name: str) -> None:
    stem = log_stem(name)
    names = [folder / f"{stem}{end}" for folder in context.folders for end in (LOG, NEW_LOG)]
    found = [path for path in names if os.path.lexists(path)]
    if not found:
        return
    with context.catalog.lock(stem):
        # Once more: nobody opens a store of this name while we have its lock.
        if _is_taken(context, tenant, name):
            return
        with translated("the log of a store cannot be removed"):
            for path in found:
                path.unlink(missing_ok=True)
                sync_folder(path.parent)
