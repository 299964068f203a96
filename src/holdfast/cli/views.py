"""What `--json` prints: the shapes of `docs/reference/cli.md`, each made in one place.

Instants are ISO 8601 in UTC, sizes are bytes. A path is exact where it is text; where its
bytes are not UTF-8, `path` is only legible, and `path_bytes` has the bytes in base64.
"""

import base64
from datetime import datetime

import holdfast
from holdfast.cli import words


def changes_view(changes: "holdfast.Changes") -> dict[str, object]:
    """Returns what differs as the three members that every such answer has."""
    return {
        "changes": [change_view(change) for change in changes],
        "truncated": changes.truncated,
        "counts": {word: changes.count(word) for word in words.MARKS},
    }


def change_view(change: "holdfast.Change") -> dict[str, object]:
    """Returns one change as a JSON object."""
    return {
        **path_view(change.name),
        "plane": change.plane.value,
        "change": change.change,
        "old_bytes": change.old_bytes,
        "new_bytes": change.new_bytes,
        "is_executable_config": change.is_executable_config,
    }


def agreed_view(agreed: "holdfast.Agreed") -> dict[str, object]:
    """Returns what a directory took in of what was done through its namespace."""
    return {
        "brought": [change_view(change) for change in agreed.brought],
        "brought_count": agreed.brought.count(),
        "gave_way": [*agreed.gave_way],
        "failed": agreed.failed,
    }


def gave_way_view(snapshot: "holdfast.SnapshotInfo") -> dict[str, object]:
    """Returns what was changed on both sides, and which snapshot has the namespace's version."""
    detail = snapshot.detail
    return {"gave_way": detail.get("gave_way", []), "gave_way_in": detail.get("gave_way_in")}


def find_coverage(snapshot: "holdfast.SnapshotInfo") -> "holdfast.Coverage | None":
    """Returns what a snapshot of a directory captured and left out; None for another kind."""
    from holdfast.engine.core.coverage import coverage_of  # noqa: PLC0415 - a help text needs no engine

    return coverage_of(snapshot)


def find_lacking(snapshot: "holdfast.SnapshotInfo") -> words.Lacks:
    """Returns what a snapshot does not vouch for, be it of a directory or derived from one."""
    from holdfast.engine.core.coverage import lacking_in  # noqa: PLC0415 - a help text needs no engine

    found = lacking_in(snapshot)
    return words.Lacks(found.uncaptured, found.in_motion, found.is_unnamed)


def coverage_view(coverage: "holdfast.Coverage | None") -> dict[str, object] | None:
    """Returns what was captured and what was not; None for a snapshot of no directory."""
    if coverage is None:
        return None
    return {
        "captured": coverage.captured,
        "captured_bytes": coverage.captured_bytes,
        "skipped_count": coverage.skipped_count,
        "excluded_count": coverage.excluded_count,
        "newly_excluded_count": coverage.newly_excluded,
        "failed_count": len(coverage.failed),
        "in_motion_count": len(coverage.in_motion),
        "skipped": [_omission_view(each) for each in coverage.skipped],
        "excluded": [_omission_view(each) for each in coverage.excluded],
        "failed": [_omission_view(each) for each in coverage.failed],
        "in_motion": [_omission_view(each) for each in coverage.in_motion],
        "unread_rules": [*coverage.unread_rules],
        "is_partial": coverage.is_partial,
    }


def restored_view(restored: "holdfast.Restored") -> dict[str, object]:
    """Returns what a restore, undo or redo did, or would do."""
    made = restored.snapshot
    return {
        "target_id": restored.target,
        "snapshot_id": None if made is None else made.id,
        "safety_id": restored.safety_id,
        "dry_run": restored.dry_run,
        "verified": restored.verified,
        "differing": [path_view(path) for path in restored.differing],
        "is_partial": restored.is_partial,
        "uncaptured": [path_view(path) for path in restored.uncaptured],
        "in_motion": [path_view(path) for path in restored.in_motion],
        "root": restored.root.hex(),
        "left_alone": [plane.value for plane in restored.left_alone],
        "kept": [path_view(path) for path in restored.kept],
        "uncovered": [path_view(path) for path in restored.uncovered],
        "was_missing": restored.was_missing,
        "recovered": restored.recovered,
        "left": [*restored.left],
        "by_snapshots": restored.by_snapshots,
        **changes_view(restored.changes),
    }


def path_view(name: str) -> dict[str, object]:
    """Returns the members that name a path."""
    raw = name.encode("utf-8", "surrogateescape")
    try:
        return {"path": raw.decode("utf-8")}
    except UnicodeDecodeError:
        encoded = base64.b64encode(raw).decode("ascii")
        return {"path": raw.decode("utf-8", "replace"), "path_bytes": encoded}


def instant(when: datetime | None) -> str | None:
    """Returns an instant as programs read it."""
    return None if when is None else when.isoformat()


def _omission_view(omission: "holdfast.Omission") -> dict[str, object]:
    return {**path_view(omission.path), "reason": omission.reason}
