"""Says what a restore of a directory would do, to the last path, and does nothing of it.

It has to foresee what the restore does on its own: what is in the way and left out by the rules
is kept first, so it shows as changed; what the goal knows nothing of is left alone.
"""

from dataclasses import replace

from holdfast.engine.core.paths import to_text
from holdfast.engine.directory.move import Attached
from holdfast.engine.directory.present import Glance
from holdfast.engine.directory.writer import Follower
from holdfast.engine.files.retrieval import MapGoal
from holdfast.engine.timeline import restore as restoring
from holdfast.engine.timeline import undo
from holdfast.engine.timeline.selection import EVERYTHING, Selection
from holdfast.model.basics import Plane, SnapshotInfo
from holdfast.model.changes import Restored
from holdfast.workspace.ignoring import IGNORE_FILE, Rules
from holdfast.workspace.steps import Step


def preview(
    attached: Attached, target: SnapshotInfo, *, selection: Selection, limit: int | None
) -> Restored:
    """Returns what a restore would answer."""
    with attached.directory.going_back(attached.earlier_rules):
        return _preview(attached, target, selection, limit)


def preview_undo(attached: Attached, *, limit: int | None) -> Restored:
    """Returns what an undo of the last change would answer."""
    with attached.directory.going_back(attached.earlier_rules):
        seen = Glance(attached.directory, only_names=True).at(attached.handle)
        return _preview(attached, undo.find_target(seen), EVERYTHING, limit)


def _preview(
    attached: Attached, target: SnapshotInfo, selection: Selection, limit: int | None
) -> Restored:
    directory = attached.directory
    follower = Follower(directory, target=target)
    glance = Glance(directory, only_names=True)
    seen = _dry_run(attached, glance, target, selection)
    old_root = seen.old_root
    files = [change for change in seen.changes if change.plane is Plane.FILES]
    steps = [Step(change.key, change.old, change.new) for change in files]
    in_the_way = frozenset(follower.find_obstacles(steps))
    if in_the_way:
        seen = _dry_run(attached, replace(glance, including=in_the_way), target, selection)
    if selection.on(Plane.FILES)(IGNORE_FILE):
        goal = MapGoal(attached.source(), attached.files_of(target))
        rules = Rules(goal.read(IGNORE_FILE))
    else:
        rules = directory.rules_there()
    files = [change for change in seen.changes if change.plane is Plane.FILES]
    spared = {c.key: c.change for c in files if follower.is_spared(c.key, c.new, rules)}
    uncovered = [to_text(key) for key in follower.find_uncovered(rules)]
    changes = seen.changes.without(spared).first(limit)
    return replace(seen, old_root=old_root, changes=changes, uncovered=uncovered)


def _dry_run(
    attached: Attached, glance: Glance, target: SnapshotInfo, selection: Selection
) -> Restored:
    handle = glance.at(attached.handle)
    return restoring.restore(handle, target, selection=selection, dry_run=True, limit=None)
