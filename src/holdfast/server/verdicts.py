"""What an add-only key may ask for: a verdict for every route that changes something.

The engine itself refuses such a key whatever takes away for good (`engine/timeline/additions.py`).
Here the same is said once more of routes, so that one that nobody has thought about is refused:
what is not in the table, no add-only key opens. Routes that read are open to it as to any agent's
key, those of operators are for operators alone.
"""

from typing import Final

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

_ADDS: Final = None
"""Adds, or changes the present, which the history keeps."""

VERDICTS: Final[dict[str, str | None]] = {
    # The present: every snapshot stays as it is, and undo and restore lead back.
    "PUT /files/{path}": _ADDS,
    "PUT /files": _ADDS,
    "POST /write": _ADDS,
    "POST /delete": _ADDS,
    "POST /v1/files/mkdir": _ADDS,
    "POST /v1/files/symlink": _ADDS,
    "POST /v1/files/chmod": _ADDS,
    "POST /v1/files/move": _ADDS,
    "POST /v1/files/delete": _ADDS,
    "POST /v1/files/write_many": _ADDS,
    "PUT /v1/files/raw": _ADDS,
    "PUT /v1/store/value": _ADDS,
    "DELETE /v1/store/value": _ADDS,
    "POST /v1/store/clear": _ADDS,
    "POST /v1/store/batch": _ADDS,
    "POST /v1/import": _ADDS,
    "POST /v1/exchange/missing": _ADDS,
    "POST /v1/exchange/objects": _ADDS,
    "POST /v1/exchange/commit": _ADDS,
    "POST /v1/exchange/changes": _ADDS,
    "POST /v1/exchange/content": _ADDS,
    "POST /exec": "run a command",
    "POST /v1/exec": "run a command",
    # The timeline, which only grows.
    "POST /v1/snapshots": _ADDS,
    "POST /v1/snapshots/{snapshot_id}/restore": _ADDS,
    "POST /v1/snapshots/{snapshot_id}/pin": _ADDS,
    "PATCH /v1/snapshots/{snapshot_id}": "change the label of a snapshot",
    "DELETE /v1/snapshots/{snapshot_id}/pin": "unpin a snapshot",
    "DELETE /v1/snapshots/{snapshot_id}": "delete a snapshot",
    "POST /v1/undo": _ADDS,
    "POST /v1/redo": _ADDS,
    "POST /v1/fork": _ADDS,
    "POST /v1/merge": _ADDS,
    "POST /v1/tasks": _ADDS,
    "POST /v1/tasks/{task_id}/complete": _ADDS,
    "POST /v1/tasks/{task_id}/fail": _ADDS,
    "POST /v1/schedules": "make a schedule",
    "PATCH /v1/schedules/{schedule_id}": "change a schedule",
    "DELETE /v1/schedules/{schedule_id}": "delete a schedule",
    # Sessions: every version stays.
    "POST /v1/sessions": _ADDS,
    "PATCH /v1/sessions/{session_id}": _ADDS,
    "DELETE /v1/sessions/{session_id}": "delete a session",
    "POST /v1/sessions/{session_id}/fork": _ADDS,
    "PATCH /v1/sessions/{session_id}/state": _ADDS,
    "PUT /v1/sessions/{session_id}/state": _ADDS,
    "POST /v1/sessions/{session_id}/state": _ADDS,
    "POST /v1/sessions/{session_id}/rollback": _ADDS,
    "POST /v1/sessions/{session_id}/state/rollback": _ADDS,
    "POST /v1/sessions/{session_id}/turns": _ADDS,
    "POST /v1/sessions/{session_id}/context": _ADDS,
    # Between two snapshots nothing keeps what a memory said before; entities are in none.
    "POST /v1/memories": _ADDS,
    "POST /v1/memory": _ADDS,
    "POST /v1/sessions/{session_id}/memories": _ADDS,
    "POST /v1/memories/search": _ADDS,
    "POST /v1/memory/search": _ADDS,
    "POST /v1/sessions/{session_id}/memories/search": _ADDS,
    "PUT /v1/memories/{memory_id}": "change a memory",
    "PUT /v1/memory/{memory_id}": "change a memory",
    "PATCH /v1/memories/{memory_id}": "change a memory",
    "PATCH /v1/memory/{memory_id}": "change a memory",
    "DELETE /v1/memories/{memory_id}": "forget a memory",
    "DELETE /v1/memory/{memory_id}": "forget a memory",
    "POST /v1/entities": _ADDS,
    "PUT /v1/entities/{row_id}": "change an entity",
    "DELETE /v1/entities/{row_id}": "forget an entity",
    "POST /v1/traces": _ADDS,
}
"""What a route does that an add-only key does not; None where it may."""


def verdict_on(method: str, template: str) -> str | None:
    """Returns what a route does that an add-only key does not; None where it may."""
    if method in READS:
        return None
    return VERDICTS.get(f"{method} {template}", "do what this route is for")
