"""Reads again what was written into a directory, and compares it with what was asked for.

Read are the folders that were touched; the rest was checked a moment before. Two differences are
not faults, and the snapshot of a restore shows them as they are: names that are one file on one
side only (a restore of some paths cuts or joins hard links), and what the rules leave out now.
What they left out before stays out of this look: nothing was to become of it, and the next one
finds it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from holdfast.engine.capturing.capture import Capture
from holdfast.engine.capturing.captured import Captured
from holdfast.engine.capturing.lastlook import LastLook
from holdfast.engine.core.growth import size_of
from holdfast.engine.core.paths import ancestors
from holdfast.engine.directory.directory import Directory
from holdfast.engine.files.retrieval import Weighing
from holdfast.engine.objects.stage import StagedObjects
from holdfast.entries import Blob, Entry, Inline, decode_entry, with_twin
from holdfast.ids import ObjectId
from holdfast.model.basics import Size
from holdfast.progress import Progress
from holdfast.tree import Applied, apply, count, diff, get_many, iterate
from holdfast.workspace.ignoring import Rules
from holdfast.workspace.scan import Scanner


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and how it differs from what was asked for."""

    last: LastLook
    """What the directory is now."""
    nodes: dict[ObjectId, bytes]
    more: Size
    differing: set[bytes]
    twins: set[bytes]
    """Those that differ in which names are one file, and in nothing else."""
    hidden: set[bytes]
    """What is there as it shall be, and the rules that are there now leave out."""


def prove(
    directory: Directory,
    source: StagedObjects,
    goal: ObjectId,
    *,
    earlier: Rules,
    touched: Iterable[bytes],
    written: Sequence[bytes],
    differed: Collection[bytes] | None = None,
    progress: Progress,
) -> Proof:
    """Reads what was written, also where the rules would leave it out now.

    `earlier` are the rules by which the directory was looked at before, and `differed` all that the
    goal had otherwise than it was then, where that is known.
    """
    before, now = directory.last, directory.rules_there()
    rules = earlier.joined(now)
    # With all that is above: a link that has taken the place of a folder shows there alone.
    only = {b""}.union(*((folder, *ancestors(folder)) for folder in touched))
    # By other rules all is listed anew, also what nobody had to write.
    wanted = written if rules.digest == before.rules else [key for key, _ in iterate(source, goal)]
    left_out = frozenset(key for key in wanted if rules.excludes_within(key))
    captured = _read(directory, rules.including(left_out), only, progress)
    applied = _apply(source, before.root, captured.changes, goal=goal, differed=differed)
    edits = list(diff(source.with_nodes(applied.nodes), applied.root, goal))
    hidden = {key for key in left_out if now.excludes_within(key)}
    if hidden:
        # What the next look will see, and what the head has to show.
        captured = _read(directory, rules.including(left_out - hidden), only, progress)
        applied = apply(source, before.root, captured.changes)
    return Proof(
        last=captured.settle(applied.root, earlier=_beyond(rules, now)),
        nodes=applied.nodes,
        more=_growth(source, applied, goal),
        differing={edit.key for edit in edits},
        twins={edit.key for edit in edits if _plain(edit.old) == _plain(edit.new)},
        hidden=hidden,
    )


def _apply(
    source: StagedObjects,
    root: ObjectId,
    changes: Mapping[bytes, bytes | None],
    *,
    goal: ObjectId,
    differed: Collection[bytes] | None,
) -> Applied:
    """Returns a map with these changes.

    If the goal has each of them, and they are all in which it differed, it is that map: equal
    contents have equal roots. To look them up takes a quarter of what making its nodes anew does.
    """
    if differed is not None and changes.keys() >= {*differed}:
        put = {key: data for key, data in changes.items() if data is not None}
        if get_many(source, goal, changes) == put:
            return Applied(goal, {}, [], count(source, goal))
    return apply(source, root, changes)


def _read(directory: Directory, rules: Rules, only: set[bytes], progress: Progress) -> Captured:
    known = directory.last
    everything = rules.digest != known.rules
    scanner = Scanner(directory.root_fd, known.index, rules)
    scan = scanner.scan(only=None if everything else only, everything=everything)
    if not everything and scan.has_twins(known.index):
        scan = Scanner(directory.root_fd, known.index, rules).scan()
    limits = directory.context.limits
    capture = Capture(directory.root_fd, known, Weighing(), limits, progress, reads_twice=False)
    return capture.take(scan, rules=rules.digest)


def _beyond(rules: Rules, now: Rules) -> tuple[bytes, ...]:
    """Returns those of some rules that are no more."""
    return tuple(text for text in rules.texts if text not in now.texts)


def _growth(source: StagedObjects, applied: Applied, goal: ObjectId) -> Size:
    back = diff(source.with_nodes(applied.nodes), goal, applied.root)
    return size_of(list(back))


def _plain(data: bytes | None) -> Entry | None:
    entry = None if data is None else decode_entry(data)
    return with_twin(entry, b"") if isinstance(entry, Inline | Blob) else entry
