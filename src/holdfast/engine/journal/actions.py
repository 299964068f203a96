"""What traces call the things that are done.

An action is a thing and what became of it: `state.updated`. Any text will do for one of your own;
ours have other spellings in use, and whoever asks by one of those finds the same traces.
"""

from collections.abc import Sequence
from typing import Any, Final

from holdfast.model.basics import Kind, SnapshotInfo
from holdfast.model.traces import Trace, TraceKind, TraceRow

MARKED: Final = {
    Kind.SNAPSHOT: "snapshot.taken",
    Kind.SAFETY: "snapshot.taken",
    Kind.RESTORE: "snapshot.restored",
    Kind.UNDO: "snapshot.undone",
    Kind.REDO: "snapshot.redone",
    Kind.FORK: "namespace.forked",
    Kind.MERGE: "namespace.merged",
    Kind.IMPORT: "namespace.imported",
}
"""What it is called that a snapshot of some kind was appended."""

_MARKS: Final = frozenset(MARKED.values())

PURGED: Final = "namespace.purged"
"""What it is called that a namespace has gone for good."""

ACTIONS: Final = (
    "session.created",
    "session.updated",
    "session.deleted",
    "session.forked",
    "session.expired",
    "session.purged",
    "session.erased",
    "user.erased",
    "state.updated",
    "state.rolled_back",
    "turn.added",
    "memory.created",
    "memory.updated",
    "memory.deleted",
    "memory.recovered",
    "memory.purged",
    "entity.created",
    "entity.updated",
    "entity.deleted",
    "entity.recovered",
    "entity.purged",
    *dict.fromkeys(MARKED.values()),
    "snapshot.pinned",
    "snapshot.unpinned",
    "snapshot.extended",
    "snapshot.labelled",
    "snapshot.deleted",
    "snapshot.recovered",
    "snapshot.forgotten",
    "namespace.deleted",
    "namespace.recovered",
    PURGED,
    "namespace.erased",
    "namespace.retention_set",
    "namespace.quota_set",
    "traces.forgotten",
    "tenant.quota_set",
    "tenant.damage_noted",
    "task.started",
    "task.completed",
    "task.failed",
    "exec.completed",
    "schedule.created",
    "schedule.updated",
    "schedule.deleted",
    "backup.configured",
    "backup.deleted",
    "backup.pushed",
    "backup.failed",
    "key.created",
    "key.revoked",
    "webhook.created",
    "webhook.updated",
    "webhook.disabled",
    "webhook.deleted",
)
"""What is done to sessions, memories, snapshots, namespaces and tenants."""

_ORDERS: Final = {
    "created": "create",
    "updated": "update",
    "deleted": "delete",
    "forked": "fork",
    "expired": "expire",
    "rolled_back": "rollback",
    "added": "add",
    "taken": "take",
    "restored": "restore",
    "undone": "undo",
    "redone": "redo",
    "merged": "merge",
    "imported": "import",
    "pinned": "pin",
    "unpinned": "unpin",
    "extended": "extend",
    "labelled": "label",
    "recovered": "recover",
    "forgotten": "forget",
    "purged": "purge",
    "erased": "erase",
    "retention_set": "set_retention",
    "damage_noted": "note_damage",
    "quota_set": "set_quota",
    "revoked": "revoke",
    "started": "start",
    "completed": "complete",
    "failed": "fail",
    "disabled": "disable",
    "configured": "configure",
    "pushed": "push",
}


def _spellings() -> dict[str, str]:
    spellings = {"rollback": "state.rolled_back", "trace.rollback": "state.rolled_back"}
    for action in ACTIONS:
        thing, _, done = action.partition(".")
        for other in (f"{thing}_{done}", *(f"{thing}{s}{_ORDERS[done]}" for s in "._")):
            spellings[other] = action
    return spellings


_SPELLINGS: Final = _spellings()

ROLLBACKS: Final = frozenset({Kind.RESTORE, Kind.UNDO, Kind.REDO})
"""What brings an earlier state back."""

_OPERATORS: Final = frozenset({"key", "webhook", "tenant"})
"""What operators make themselves: all that a trace says of it is theirs."""

_WITHOUT_CONTENT: Final = frozenset(
    {
        *("version", "from_version", "to_version", "turn_number", "turn_count", "memory_count"),
        *("target", "safety", "planes", "forked_from", "merged", "snapshots", "sessions"),
        *("label", "labels", "name", "before", "after", "cadence", "amount", "expires_at"),
        *("source_session", "fork_version", "agent_id", "user_id", "entity_type", "entity_id"),
        *("ttl_seconds", "expired_at", "last_activity", "type", "embedded", "content_changed"),
        *("count", "recovered", "quota_bytes", "keep_last", "keep_daily", "keep_weekly"),
        *("kept", "keep_traces_days"),
        *("task_id", "trace_id", "imported_from", "erasure_id", "turn_id", "request_id"),
        *("terms_kept", "via", "exit_code", "duration_ms", "stdin_bytes", "stopped"),
        *("host", "commit", "number", "withheld", "failures"),
    }
)
"""Details that are names, numbers and ids: what is new repeats content until somebody puts it
here."""

_TOLD: Final = ("label", "reason", "target", "task_id", "trace_id")
_TOLD_OF_DETAIL: Final = ("planes", "forked_from", "merged", "imported_from", "terms_kept")
"""What a trace repeats of a snapshot, where there is something. Not its coverage: that is long."""


def normalise(action: str) -> str:
    """Returns our name for an action that is known under another; any other as it is."""
    return _SPELLINGS.get(action, action)


def without_content(
    action: str, resource_type: str | None, details: dict[str, Any]
) -> dict[str, Any]:
    """Returns what a trace may say to those who may not see what agents write."""
    if action not in ACTIONS:
        return {}
    if resource_type in _OPERATORS:
        return details
    return {name: value for name, value in details.items() if name in _WITHOUT_CONTENT}


def trace_of(done: Sequence[SnapshotInfo]) -> Trace:
    """Returns the trace of an operation that appended these snapshots.

    The last one shows what it led to; before it may stand the one that keeps what was there. Where
    there are others beside these two, all are named.
    """
    last = done[-1]
    details: dict[str, Any] = {
        name: value for name in _TOLD if (value := getattr(last, name)) is not None
    }
    details |= {name: last.detail[name] for name in _TOLD_OF_DETAIL if name in last.detail}
    if last.kind in ROLLBACKS:
        details.setdefault("reason", named(last))
    roots = (last.root,)
    if last.kind is Kind.SAFETY:
        details["safety"] = last.id
    elif len(done) > 1 and done[0].kind is Kind.SAFETY:
        details["safety"] = done[0].id
        roots += (done[0].root,)
    if len(done) > len(roots):
        details["snapshots"] = [each.id for each in reversed(done)]
        roots = tuple(each.root for each in reversed(done))
    return Trace(
        action=MARKED[last.kind],
        resource_type="snapshot",
        resource_id=last.id,
        task_id=last.task_id,
        actor=last.actor,
        details=details,
        roots=roots,
    )


def named(done: SnapshotInfo) -> str:
    """Returns what was done, where nobody said why."""
    return f"{done.kind} {done.target or done.id}"


def place_of(snapshot: SnapshotInfo) -> dict[str, Any]:
    """Returns where a snapshot stands, as events say it beyond a trace."""
    return {
        "number": snapshot.number,
        "parent": snapshot.parent,
        "task_id": snapshot.task_id,
    }


def places_of(snapshots: Sequence[SnapshotInfo]) -> dict[str, dict[str, Any]]:
    """Returns where each of some snapshots stands, by its id."""
    return {snapshot.id: place_of(snapshot) for snapshot in snapshots}


def trace_of_snapshot(action: str, snapshot: SnapshotInfo, **more: object) -> Trace:
    """Returns the trace of what was done to one snapshot."""
    details = {"label": snapshot.label, **more}
    return Trace(action=action, resource_type="snapshot", resource_id=snapshot.id, details=details)


def trace_of_snapshots(action: str, namespace: str, snapshots: Sequence[SnapshotInfo]) -> Trace:
    """Returns the trace of what was done to some snapshots of a namespace at once."""
    ids = [snapshot.id for snapshot in snapshots]
    labels = {snapshot.id: snapshot.label for snapshot in snapshots if snapshot.label is not None}
    more = {"labels": labels} if labels else {}
    return trace_of_namespace(action, namespace, snapshots=ids, **more)


def is_mark(row: TraceRow) -> bool:
    """Says whether a trace is of a snapshot that was appended."""
    is_done = row.kind == TraceKind.DONE.value
    return is_done and row.action in _MARKS and row.resource_type == "snapshot"


def trace_of_namespace(action: str, name: str, **details: object) -> Trace:
    """Returns the trace of what was done to a namespace."""
    return Trace(action=action, resource_type="namespace", resource_id=name, details=details)
