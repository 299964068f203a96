"""Says who else holds a session that is erased: forks of it, and forks of its namespace."""

from holdfast.catalog.transaction import Transaction
from holdfast.engine.core.context import Context
from holdfast.engine.erasing.rewriting import Timeline
from holdfast.engine.objects.reader import Objects
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.view import View
from holdfast.model.basics import Head, Plane
from holdfast.tree import get


def copies_of(transaction: Transaction, context: Context, head: Head, session_id: str) -> list[str]:
    """Returns the sessions that may hold the same, each behind its namespace and a slash."""
    objects, key = Objects(context, head.tenant_id, transaction), session_id.encode()
    family = _family(transaction.iter_heads(head.tenant_id), head)
    forks = transaction.forks_of(head.namespace_id, session_id)
    copies = [f"{head.name}/{each}" for each in forks]
    copies += [
        f"{each.name}/{session_id}" for each in family if _holds(transaction, objects, each, key)
    ]
    return sorted(copies)


def _family(heads: list[Head], head: Head) -> list[Head]:
    """Returns the other namespaces that one was forked from, or that were forked from it."""
    known, size = {head.namespace_id}, 0
    while len(known) > size:
        size = len(known)
        for each in heads:
            if each.fork_of is not None and not known.isdisjoint({each.namespace_id, each.fork_of}):
                known |= {each.namespace_id, each.fork_of}
    return [each for each in heads if each.namespace_id in known - {head.namespace_id}]


def _holds(transaction: Transaction, objects: Objects, head: Head, key: bytes) -> bool:
    """Says whether a namespace has a session of this id, now or in a snapshot."""
    if View.of_head(objects, transaction, head, Plane.SESSIONS).get(key) is not None:
        return True
    maps = Timeline(transaction, head).maps(StagedObjects(objects), Plane.SESSIONS)
    return any(get(objects, at, key) is not None for at in maps)
