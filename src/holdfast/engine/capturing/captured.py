"""What one look at a directory, or several in a row, have captured of it.

Folders are looked at one after the other. What is renamed meanwhile can be missing under both of
its names, so a look that was disturbed is followed by another, which costs what has changed since:
until one is left alone, which settles it, or enough were made. Then what was missed, is there and
is in none of them has failed, and is named. What was removed is simply gone.

What was named so is in no index: the next look would not know that it lacks something. So it is
handed on by device and inode, and missed from the start.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from holdfast.engine.capturing.lastlook import LastLook
from holdfast.engine.core.coverage import Coverage, Omission, Omissions
from holdfast.engine.core.paths import to_text
from holdfast.ids import ObjectId
from holdfast.workspace.drafts import Identity, Omitted
from holdfast.workspace.resting import tick_s
from holdfast.workspace.scan import Scan
from holdfast.workspace.statindex import UNSURE, Folder, StatIndex
from holdfast.workspace.steps import above

LOOKS: Final = 5
"""Times that a directory is looked at again while something is missed in it."""

BUSY_LOOKS: Final = 2
"""The same, while names change and nothing that was seen is missed."""

GLANCES: Final = 5
"""Times that folders are listed in which something goes on, for each scan of all of them: what is
moved between two is in neither in every second of these at worst, and hardly in all."""

MOVED: Final = "it was moved each time it was looked at"


class Captured(msgspec.Struct, frozen=True):
    """A directory as it is now, relative to what was known."""

    last: LastLook
    changes: Mapping[bytes, bytes | None]
    folders: Mapping[bytes, Folder | None]
    omitted: Omissions
    moving: Mapping[bytes, str]
    rules: bytes
    coverage: Coverage
    missed: Mapping[Identity, bytes] = {}
    """What was seen or known under a path and not there any more when its turn came; once all looks
    are made, what has failed since it moved."""
    is_disturbed: bool = False
    """Whether names changed meanwhile: something may be missing that is there."""

    @property
    def is_whole(self) -> bool:
        """Says whether everything was read: the changes are all that the directory holds."""
        return len(self.last.index) == 0

    def find_excluded(self) -> frozenset[bytes]:
        """Returns what is in the directory and excluded: files, and folders as a whole."""
        return frozenset(
            folder + b"/" + each.name if folder else each.name
            for folder, found in self.omitted.items()
            for each in found
            if each.kind == "excluded"
        )

    def settle(
        self,
        root: ObjectId,
        *,
        earlier: tuple[bytes, ...] = (),
        namespace: int | None = None,
        snapshot: str | None = None,
    ) -> LastLook:
        """Returns what is known once a map with that root holds these changes."""
        return self.last.replacing(
            self.folders,
            root=root,
            rules=self.rules,
            omitted=self.omitted,
            moving=self.moving,
            earlier=earlier,
            namespace=namespace,
            snapshot=snapshot,
            missed=self.missed,
        )

    def followed_by(self, later: "Captured") -> "Captured":
        """Returns both as one, where the later one started from what this one knew."""
        folders = dict[bytes, Folder | None]()
        for part in (self, later):
            for path in part.folders:
                if part.folders[path] is None:
                    # One by one: some of them may be there again.
                    below = part.last.index.iter_folders(path)
                    folders |= dict.fromkeys(folder.path for folder in below)
            folders |= {path: folder for path, folder in part.folders.items() if folder}
        return msgspec.structs.replace(
            later, last=self.last, changes={**self.changes, **later.changes}, folders=folders
        )

    def failing(self, moved: Mapping[Identity, bytes]) -> "Captured":
        """Returns the same where this could not be captured, under the paths at which it was."""
        folders, omitted = dict(self.folders), {**self.omitted}
        named = {omission.path for omission in self.coverage.failed}
        paths = [path for path in sorted({*moved.values()}) if to_text(path) not in named]
        index = self.last.index.replacing(self.folders, meta=b"")
        for path in paths:
            around = above(path)
            while (folder := index.find(around)) is None:
                around = above(around)
            # Unsure: the next look lists it again, and finds out what has become of them.
            folders[around] = folder._replace(ctime_ns=UNSURE)
            name = path[len(around) + 1 :] if around else path
            omitted[around] = [*omitted.get(around, ()), Omitted(name, "failed", MOVED)]
        failed = [*self.coverage.failed, *(Omission(to_text(path), MOVED) for path in paths)]
        coverage = msgspec.structs.replace(self.coverage, failed=failed)
        return msgspec.structs.replace(
            self, folders=folders, omitted=omitted, coverage=coverage, missed=moved
        )


Scans = Callable[[LastLook, frozenset[bytes] | None], Scan]
"""Looks for what differs from what is known, anywhere or in some folders."""


def take_until_still(
    known: LastLook, take: Callable[[LastLook], Captured], scan: Scans
) -> Captured:
    """Captures what differs from what is known, until nothing moves meanwhile."""
    captured = take(known)
    missed = {**known.missed, **captured.missed}
    # Where nothing was known, what was never seen is not missed either.
    enough = BUSY_LOOKS if len(known.index) else LOOKS
    for number in range(LOOKS):
        if not captured.is_disturbed or (number >= enough and not missed):
            return captured
        # What has disturbed this look is stamped before the next begins.
        time.sleep(tick_s())
        captured = captured.followed_by(take(captured.settle(known.root)))
        missed |= captured.missed
    if not captured.is_disturbed:
        return captured
    last = captured.settle(known.root)
    uncaptured = frozenset(missed.keys() - set(_identities(last.index)))
    return captured.failing(_look_for(uncaptured, last, scan))


def _look_for(wanted: frozenset[Identity], last: LastLook, scan: Scans) -> Mapping[Identity, bytes]:
    """Returns what of this is there, under the path at which it was last seen."""
    seen = dict[Identity, bytes]()
    for _ in range(LOOKS):
        lively: frozenset[bytes] | None = None
        for _ in range(GLANCES):
            if wanted <= seen.keys():
                return seen
            scanned = scan(last, lively)
            seen |= {each: path for each, path in _sightings(scanned) if each in wanted}
            if lively is None:
                if not scanned.is_disturbed:
                    return seen
                lively = frozenset(path for path in scanned.drafts if last.index.find(path))
    return seen


def _identities(index: StatIndex) -> Iterator[Identity]:
    for folder in index.iter_folders():
        yield folder.dev, folder.ino
        for row in folder.rows:
            yield row.dev, row.ino


def _sightings(scan: Scan) -> Iterator[tuple[Identity, bytes]]:
    """Yields what a scan saw, under the path at which it did."""
    yield from scan.missed.items()
    for path, draft in scan.drafts.items():
        yield draft.identity, path
        for row in draft.rows.values():
            yield (row.dev, row.ino), draft.key(row.name)
