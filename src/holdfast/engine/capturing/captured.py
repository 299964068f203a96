"""What one look at a directory, or several in a row, have captured of it.

Folders are looked at one after the other. What is renamed meanwhile can be missing under both of
its names, so a look that was disturbed is followed by another, which costs what has changed since:
until one is left alone, which settles it, or enough were made. Then what was missed, is there and
is in none of them has failed, and is named. What was removed is simply gone.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from holdfast.engine.capturing.lastlook import LastLook
from holdfast.engine.core.coverage import Coverage, Omission, Omissions
from holdfast.engine.core.paths import to_text
from holdfast.ids import ObjectId
from holdfast.workspace.scan import Identity, Omitted, Scan
from holdfast.workspace.statindex import UNSURE, Folder, StatIndex
from holdfast.workspace.steps import above

LOOKS: Final = 5
"""Times that a directory is looked at again while something is missed in it."""

BUSY_LOOKS: Final = 2
"""The same, while names change and nothing that was seen is missed."""

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
    """What was seen under a path and not there any more when its turn came."""
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

    def failing(self, paths: list[bytes]) -> "Captured":
        """Returns the same where these paths could not be captured."""
        folders, omitted = dict(self.folders), {**self.omitted}
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
        return msgspec.structs.replace(self, folders=folders, omitted=omitted, coverage=coverage)


def take_until_still(
    known: LastLook, take: Callable[[LastLook], Captured], scan: Callable[[LastLook], Scan]
) -> Captured:
    """Captures what differs from what is known, until nothing moves meanwhile."""
    captured = take(known)
    missed = dict(captured.missed)
    for number in range(LOOKS):
        if not captured.is_disturbed or (number >= BUSY_LOOKS and not missed):
            return captured
        captured = captured.followed_by(take(captured.settle(known.root)))
        missed |= captured.missed
    if not captured.is_disturbed:
        return captured
    last = captured.settle(known.root)
    uncaptured = missed.keys() - set(_identities(last.index))
    seen = dict[Identity, bytes]()
    for _ in range(LOOKS if uncaptured else 0):
        seen |= {each: path for each, path in _sightings(scan(last)) if each in uncaptured}
    named = {omission.path for omission in captured.coverage.failed}
    return captured.failing(
        [path for path in sorted({*seen.values()}) if to_text(path) not in named]
    )


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
