"""Says what a restore of a directory would do, to the last path, and does nothing of it.

It has to foresee what the restore does on its own: what is in the way and left out by the rules
is kept first, so it shows as changed; what the goal knows nothing of is left alone.
"""

from dataclasses import replace

from holdfast.engine import restore as restoring
from holdfast.engine.follower import Follower
from holdfast.engine.mover import Mover
from holdfast.engine.retrieval import MapGoal
from holdfast.engine.selection import Selection
from holdfast.model import Plane, SnapshotInfo
from holdfast.model_changes import Restored
from holdfast.workspace.ignoring import IGNORE_FILE, Rules
from holdfast.workspace.steps import Step


def preview(
    mover: Mover, target: SnapshotInfo, *, selection: Selection, limit: int | None
) -> Restored:
    """Returns what a restore would answer."""
    with mover.directory.going_back(mover.earlier_rules):
        return _preview(mover, target, selection, limit)


def _preview(
    mover: Mover, target: SnapshotInfo, selection: Selection, limit: int | None
) -> Restored:
    directory = mover.directory
    follower = Follower(directory, target=target, only_names=True)
    seen = _dry_run(mover, follower, target, selection)
    files = [change for change in seen.changes if change.plane is Plane.FILES]
    steps = [Step(change.key, change.old, change.new) for change in files]
    in_the_way = frozenset(follower.find_obstacles(steps))
    if in_the_way:
        including = Follower(directory, including=in_the_way, only_names=True)
        seen = _dry_run(mover, including, target, selection)
    if selection.on(Plane.FILES)(IGNORE_FILE):
        rules = Rules.readable(MapGoal(mover.source(), mover.files_of(target)).read(IGNORE_FILE))
    else:
        rules = directory.rules()
    files = [change for change in seen.changes if change.plane is Plane.FILES]
    spared = {c.key: c.change for c in files if follower.is_spared(c.key, c.new, rules)}
    return replace(seen, changes=seen.changes.without(spared).first(limit))


def _dry_run(
    mover: Mover, follower: Follower, target: SnapshotInfo, selection: Selection
) -> Restored:
    handle = mover.attached(follower)
    return restoring.restore(handle, target, selection=selection, dry_run=True, limit=None)
