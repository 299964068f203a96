"""Brings rows to where the planes have gone, in the transaction that moves the root.

Of sessions and of memories there are rows beside the plane, by which they are found. A snapshot
leaves both as they are; whatever else moves a root may move these planes.
"""

from holdfast.catalog.transaction import Transaction
from holdfast.engine.journal.actions import named
from holdfast.engine.memory import plane as memoryplane
from holdfast.engine.planes.handle import Handle
from holdfast.engine.sessions import following as sessions
from holdfast.ids import ObjectId, TraceId
from holdfast.model.basics import Head, Plane, Root, SnapshotInfo


def follow(
    transaction: Transaction,
    handle: Handle,
    head: Head,
    shown: tuple[ObjectId, Root],
    last: SnapshotInfo,
    *,
    trace_id: TraceId,
) -> None:
    """Makes the rows of a namespace those of a snapshot that was just put on its timeline.

    `shown` is the root that they are the rows of. Sessions that are not as they were get a new
    version each, which names this trace.
    """
    old_id, old = shown
    if last.root == old_id:
        return
    source = handle.objects_in(transaction)
    new = source.get_root(last.root)
    memoryplane.follow(
        transaction,
        source,
        old.plane(Plane.MEMORIES),
        new.plane(Plane.MEMORIES),
        namespace_id=last.namespace_id,
        now=last.created_at,
    )
    sessions.follow(
        transaction,
        handle,
        source,
        old.plane(Plane.SESSIONS),
        new.plane(Plane.SESSIONS),
        head=head,
        now=last.created_at,
        told=sessions.Origin(named(last), last.actor, trace_id),
    )
