"""Lets a directory show another namespace than the one that it held, whose timeline stays.

What the directory holds is a snapshot of the namespace that it leaves: there it is kept, and none
of it belongs on the timeline that it comes to. That one stands where it stood, and an undo on it
takes back what was done there last. A crash on the way leaves the journal of a restore, by which
whoever comes next leads the directory to what that timeline shows (`recovery.py`).
"""

from holdfast.engine.capturing.capture import Rereading
from holdfast.engine.core.coverage import lacking_in
from holdfast.engine.directory.filling import fill
from holdfast.engine.directory.move import Attached
from holdfast.engine.directory.writer import Follower
from holdfast.engine.files.retrieval import Weighing
from holdfast.engine.planes.attached import Moving
from holdfast.engine.timeline.diff import collect_changes, iter_changes
from holdfast.errors import Damaged, DriftFound, HoldfastError
from holdfast.model.basics import Plane, Root, SnapshotInfo
from holdfast.model.changes import Restored
from holdfast.progress import Progress


def enter(
    attached: Attached,
    target: SnapshotInfo,
    *,
    left: SnapshotInfo,
    limit: int | None,
    progress: Progress,
) -> Restored | None:
    """Makes a directory that holds the snapshot it `left` what its timeline stands on: the target.

    None, with the directory as it was, if it holds anything else, if the timeline stands
    elsewhere, or if something is in the way that is in no snapshot: then that is kept first.
    """
    directory, source = attached.directory, attached.source()
    old, new = (source.get_root(each.root) for each in (left, target))
    held, files = old.plane(Plane.FILES), new.plane(Plane.FILES)
    # After a crash the way is from what the timeline shows: only what differs may be half-written.
    follower = Follower(directory, target=target, goal=held.hex(), progress=progress)
    with attached.handle.context.catalog.read() as transaction:
        head = attached.handle.get_head(transaction)
        if head.root != target.root or transaction.count_pending(head.namespace_id):
            return None
    with directory.going_back(attached.earlier_rules):
        captured = directory.look(Weighing(), rereading=Rereading.ALL, progress=progress)
        if fill(source, captured, files).own != held:
            return None
        # It is known to be what it left, and still counts as the target, changed by hand.
        seen = captured.settle(held, namespace=head.namespace_id)
        directory.last = seen.standing_at(directory.last.snapshot, files=files)
        mark = attached.handle.context.ids.snapshot()
        moving = Moving(Root().replacing(files=held), new, head.position, mark)
        try:
            became = follower.follow(None, source, moving)
        except (DriftFound, Damaged):
            directory.forget_to(files.hex(), files.hex())
            return None
        except HoldfastError:
            directory.forget_to(files.hex(), files.hex())
            raise
        if became is not None:
            directory.forget_to(files.hex(), files.hex())
    follower.arrive()
    lacking = lacking_in(target)
    found = iter_changes(source, old, new, planes=[Plane.FILES])
    done = Restored(
        target=target.id,
        snapshot=None,
        safety_id=None,
        root=target.root,
        changes=collect_changes(found, limit=limit, counts=True).without(follower.spared),
        verified=True,
        uncaptured=lacking.uncaptured,
        is_partial=lacking.is_partial,
        in_motion=lacking.in_motion,
    )
    return follower.outcome(done, None)
