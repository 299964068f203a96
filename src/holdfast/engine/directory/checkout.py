"""Puts a whole snapshot into a directory that is new or empty, without attaching it."""

import os
from pathlib import Path
from typing import Final

from holdfast.engine.core.coverage import lacking_in
from holdfast.engine.core.paths import check_key
from holdfast.engine.directory.comparison import is_as_written
from holdfast.engine.directory.retrieval import MapGoal, Retrieval, check_entry
from holdfast.engine.objects.stage import StagedObjects
from holdfast.engine.planes.handle import Handle, looking_at
from holdfast.engine.timeline.diff import collect_changes, iter_changes
from holdfast.entries import decode_entry
from holdfast.errors import Damaged, DirectoryRefused, PathExists, Unavailable
from holdfast.model.basics import Plane, Root, SnapshotInfo
from holdfast.model.changes import Restored
from holdfast.operations.choices import SHOWN
from holdfast.progress import Progress
from holdfast.tree import iterate
from holdfast.workspace.descent import open_target
from holdfast.workspace.statindex import StatIndex
from holdfast.workspace.steps import Drifted, Step
from holdfast.workspace.writing import Writer

LITTER = b".holdfast-checkout"

_ELSEWHERE: Final = "Name a directory that is new or empty, where you may write."


def checkout(
    handle: Handle, snapshot: SnapshotInfo, target: Path, *, progress: Progress
) -> Restored:
    """Writes a snapshot's files into a directory, and proves what it wrote.

    Raises `PathExists` if something is there. A failure leaves what was written so far.
    """
    _check_apart(handle, target)
    fd = _open_empty(target)
    try:
        with looking_at(handle, snapshot):
            source = StagedObjects(handle.objects)
            root = source.get_root(snapshot.root)
            files = root.plane(Plane.FILES)
            steps = [
                Step(check_key(key), None, check_entry(decode_entry(data)))
                for key, data in iterate(source, files)
            ]
            contents = Retrieval(source)
            writer = Writer(
                fd,
                StatIndex.empty(),
                contents,
                litter=LITTER,
                goal=MapGoal(source, files),
                checks=False,
                proves=True,
                progress=lambda done, total: progress("writing", done, total),
            )
            writer.carry_out(steps)
            is_proven = is_as_written(fd, contents, steps, proven=writer.proven, progress=progress)
            only_files = Root().replacing(files=files)
            found = iter_changes(source, Root(), only_files)
            changes = collect_changes(found, limit=SHOWN, counts=True)
        lacking = lacking_in(snapshot)
        return Restored(
            target=snapshot.id,
            snapshot=None,
            safety_id=None,
            root=snapshot.root,
            changes=changes,
            verified=is_proven,
            uncaptured=lacking.uncaptured,
            is_partial=lacking.is_partial,
            in_motion=lacking.in_motion,
        )
    except Drifted as exc:
        message = f"the snapshot contradicts itself, or {target} is changed by somebody else"
        raise Damaged(message) from exc
    except OSError as exc:
        message = f"{target} could not be written: {exc.strerror or exc}"
        raise Unavailable(message).with_hint(_ELSEWHERE) from exc
    finally:
        os.close(fd)


def _check_apart(handle: Handle, target: Path) -> None:
    """Raises `DirectoryRefused` for a place in the vault's own folders."""
    real = Path(os.path.realpath(target))
    if any(real.is_relative_to(os.path.realpath(own)) for own in handle.context.own_folders):
        raise DirectoryRefused(str(target), reason="it lies in the vault").with_hint(_ELSEWHERE)


def _open_empty(target: Path) -> int:
    try:
        target.mkdir(parents=True, exist_ok=True)
        fd = open_target(str(target))
    except OSError as exc:
        message = f"{target} cannot be made: {exc.strerror or exc}"
        raise Unavailable(message).with_hint(_ELSEWHERE) from exc
    with os.scandir(fd) as entries:
        if next(entries, None) is not None:
            os.close(fd)
            raise PathExists(os.fsencode(target))
    return fd
