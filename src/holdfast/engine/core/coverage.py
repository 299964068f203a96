"""What a snapshot of a directory holds, and what it does not, with the reason.

Three kinds of things are not in it. What cannot be captured by its nature (sockets, fifos,
devices) is *skipped*; what the rules leave out is *excluded*; what should have been captured and
could not be has *failed*, and makes the snapshot partial for ever. What is in it, and may be a
mixture of two versions since somebody could write to it while it was read, is *in motion*. Kept
with the snapshot: no answer has to be computed from what the directory is today.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.engine.core.paths import to_bytes, to_text
from holdfast.entries import Directory, decode_entry
from holdfast.ids import ObjectId
from holdfast.jsontext import is_whole
from holdfast.model.basics import SnapshotInfo
from holdfast.tree import NodeSource, get_many
from holdfast.workspace.drafts import Omitted

LISTED: Final = 1000
"""Omissions of each kind that a snapshot lists: a rule may exclude a million files. What has
failed is listed whole: a restore has to leave it alone. So is what was in motion: whatever is not
named is one version."""

Omissions = Mapping[bytes, Sequence[Omitted]]
"""By folder."""


class Omission(msgspec.Struct, frozen=True):
    """Something that is not in a snapshot, or in it only as it was in motion."""

    path: str
    reason: str


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a directory a snapshot holds."""

    captured: int
    """Files and links."""
    captured_bytes: int
    skipped: Sequence[Omission] = ()
    excluded: Sequence[Omission] = ()
    failed: Sequence[Omission] = ()
    in_motion: Sequence[Omission] = ()
    """Captured as they were while somebody could write to them: each may be a mixture."""
    skipped_count: int = 0
    excluded_count: int = 0
    newly_excluded: int = 0
    """Files and links that the snapshot before holds, and the rules exclude now."""
    unread_rules: Sequence[str] = ()
    """What of `.holdfastignore` leaves nothing out since it cannot be read: a sentence for each."""

    @property
    def is_partial(self) -> bool:
        """Whether something that should have been captured could not be."""
        return bool(self.failed)

    def excluding(self, count: int) -> "Coverage":
        """Returns the same where so many files are newly excluded."""
        return msgspec.structs.replace(self, newly_excluded=count)

    def to_detail(self) -> dict[str, Any]:
        """Returns what is kept with the snapshot."""
        kept: dict[str, Any] = {
            "coverage": {
                "captured": self.captured,
                "captured_bytes": self.captured_bytes,
                "skipped_count": self.skipped_count,
                "excluded_count": self.excluded_count,
                "skipped": [_to_row(omission) for omission in self.skipped],
                "excluded": [_to_row(omission) for omission in self.excluded],
                "failed": [_to_row(omission) for omission in self.failed],
                "in_motion": [_to_row(omission) for omission in self.in_motion],
            }
        }
        if self.newly_excluded:
            kept["coverage"]["newly_excluded"] = self.newly_excluded
        if self.unread_rules:
            kept["coverage"]["unread_rules"] = [*self.unread_rules]
        if self.is_partial:
            kept["partial"] = True
        return kept


def summarise(
    omitted: Omissions, moving: Mapping[bytes, str], *, captured: int, captured_bytes: int
) -> Coverage:
    """Returns the coverage of a capture; `moving` are paths that were in motion, and why."""
    by_kind: dict[str, list[Omission]] = {"skipped": [], "excluded": [], "failed": []}
    for folder in sorted(omitted):
        for omission in sorted(omitted[folder]):
            parts = (folder, omission.name) if omission.name else (folder,)
            path = to_text(b"/".join(part for part in parts if part))
            by_kind[omission.kind].append(Omission(path or ".", omission.reason))
    return Coverage(
        captured=captured,
        captured_bytes=captured_bytes,
        skipped=by_kind["skipped"][:LISTED],
        excluded=by_kind["excluded"][:LISTED],
        failed=by_kind["failed"],
        in_motion=[Omission(to_text(path), reason) for path, reason in moving.items()],
        skipped_count=len(by_kind["skipped"]),
        excluded_count=len(by_kind["excluded"]),
    )


def coverage_of(snapshot: SnapshotInfo) -> Coverage | None:
    """Returns what a snapshot of a directory covers; None for one that is not of a directory."""
    found: dict[str, Any] | None = snapshot.detail.get("coverage")
    if found is None:
        return None
    return Coverage(
        captured=found["captured"],
        captured_bytes=found["captured_bytes"],
        skipped_count=found["skipped_count"],
        excluded_count=found["excluded_count"],
        skipped=[Omission(*_from_row(row)) for row in found["skipped"]],
        excluded=[Omission(*_from_row(row)) for row in found["excluded"]],
        failed=[Omission(*_from_row(row)) for row in found["failed"]],
        in_motion=[Omission(*_from_row(row)) for row in found.get("in_motion", ())],
        newly_excluded=found.get("newly_excluded", 0),
        unread_rules=found.get("unread_rules", ()),
    )


class Lacking(msgspec.Struct, frozen=True):
    """What a snapshot does not vouch for: bringing it back has to say so."""

    uncaptured: Sequence[str] = ()
    """Paths that should be in it and are not."""
    in_motion: Sequence[str] = ()
    """Files in it that may be mixtures."""
    is_unnamed: bool = False
    """Whether it lacks paths that nobody has named: so an archive of long ago says it."""

    @property
    def is_partial(self) -> bool:
        """Whether something is not in it that should be."""
        return bool(self.uncaptured) or self.is_unnamed

    def to_detail(self) -> dict[str, Any]:
        """Returns what a snapshot that shows the same keeps of it."""
        kept: dict[str, Any] = {}
        if self.is_partial:
            kept["partial"] = True
        if self.uncaptured:
            reason = "it is not in the snapshot that this one comes from"
            kept["failed"] = [_to_row(Omission(path, reason)) for path in self.uncaptured]
        if self.in_motion:
            reason = "it was in motion"
            kept["in_motion"] = [_to_row(Omission(path, reason)) for path in self.in_motion]
        return kept

    def only(self, selects: Callable[[bytes], bool]) -> "Lacking":
        """Returns what of it concerns the paths that are selected."""
        return Lacking(
            [path for path in self.uncaptured if selects(to_bytes(path))],
            [path for path in self.in_motion if selects(to_bytes(path))],
            self.is_unnamed,
        )

    def joined(self, other: "Lacking") -> "Lacking":
        """Returns what is lacking where parts of two snapshots are shown."""
        return Lacking(
            sorted({*self.uncaptured, *other.uncaptured}),
            sorted({*self.in_motion, *other.in_motion}),
            self.is_unnamed or other.is_unnamed,
        )

    def beyond(self, source: NodeSource, files: ObjectId) -> "Lacking":
        """Returns what of it a files map lacks, too: a file that it holds was captured since."""
        if not self.uncaptured:
            return self
        found = get_many(source, files, [to_bytes(path) for path in self.uncaptured])
        # Of a folder that could not be read, what is in it is lacking.
        held = {key for key, data in found.items() if not isinstance(decode_entry(data), Directory)}
        missing = [path for path in self.uncaptured if to_bytes(path) not in held]
        return Lacking(missing, self.in_motion, self.is_unnamed)


LACKS_NOTHING: Final = Lacking()


def lacking_in(snapshot: SnapshotInfo, selects: Callable[[bytes], bool] | None = None) -> Lacking:
    """Returns what a snapshot does not vouch for, of the paths that are selected."""
    coverage = coverage_of(snapshot)
    if coverage is None:
        # What it comes from was of a directory, perhaps, and is what it says of itself.
        failed, in_motion = (snapshot.detail.get(kind, ()) for kind in ("failed", "in_motion"))
        lacking = Lacking(
            [_from_row(row)[0] for row in failed],
            [_from_row(row)[0] for row in in_motion],
            snapshot.is_partial and not failed,
        )
    else:
        lacking = Lacking(
            [each.path for each in coverage.failed],
            [each.path for each in coverage.in_motion],
        )
    return lacking if selects is None else lacking.only(selects)


def _to_row(omission: Omission) -> list[str]:
    """Returns a row of text; a name that is not UTF-8 goes with its bytes."""
    path = to_bytes(omission.path)
    row = [path.decode("utf-8", "backslashreplace"), omission.reason]
    return row if to_bytes(row[0]) == path else [*row, path.hex()]


def to_names(paths: Sequence[str]) -> list[list[str]]:
    """Returns paths as JSON holds them: one that is not UTF-8 goes with its bytes."""
    return [[path, *hexed] for path, _, *hexed in (_to_row(Omission(each, "")) for each in paths)]


def from_names(names: Sequence[Sequence[str]]) -> list[str]:
    """Returns the paths that somebody else names; raises `ValueError` for what is none."""
    return [check_omission([path, "", *hexed]).path for path, *hexed in names]


def check_omission(row: Sequence[str]) -> Omission:
    """Returns what a row of somebody else's says; raises `ValueError` if it says nothing."""
    path, reason, *hexed = row
    if any("\0" in part or not is_whole(part) for part in (path, reason)):
        raise ValueError("a path or reason holds what no row can")
    return Omission(to_text(bytes.fromhex(hexed[0])) if hexed else path, reason)


def _from_row(row: list[str]) -> tuple[str, str]:
    path = to_text(bytes.fromhex(row[2])) if len(row) > 2 else row[0]  # noqa: PLR2004 - the bytes
    return path, row[1]
